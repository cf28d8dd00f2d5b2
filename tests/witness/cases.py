"""Kernels of one call each whose tiles hold given values: sources for the headers and for ptokit, and their inputs.

A kernel loads one image over all of its tiles, calls the instruction, and stores all of them: what is written beside a
result shows, too. A second kernel of a call writes in the place of a source.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any
from zlib import crc32

import numpy as np

from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.isa.dtype import dtype
from ptokit.isa.spelling import TMP
from tests.compute.tables import types
from tests.witness import emitted
from tests.witness.emitted import ROWS, SHAPES, TileText, call_of, tiles_of

APART = 0x5000
"""Bytes between tiles."""
ROW = 1024
"""Bytes of a row of the tile that is loaded over all of them."""
IN_PLACE = SHAPES[1:3]
VARIANTS = ("exact", "random")
"""Values of which sums are exact, and others; both with edges in some lanes."""
SCALARS = {"float": "-2.5f", "int": "3", "uint": "3"}
FILLED = ("texpands", "tands", "tors", "txors")
"""Instructions that need tiles with a dynamic valid region, as ptokit emits them: else rows are filled as if they had
no padding (CP-HDR-01)."""
WHOLE_SCALARS = ("tcmps", "tpows", "tci", "texpands")
FLOAT_EDGES = (
    np.nan,
    -np.nan,
    np.inf,
    -np.inf,
    0.0,
    -0.0,
    1e-45,
    -1e-45,
    5.96e-8,
    1.1754944e-38,
    6.1e-5,
    3.4028235e38,
    65504,
    65520,
    65519,
    1,
    -1,
    0.5,
    1.5,
    2.5,
    -0.5,
    -1.5,
    -2.5,
    2049,
    2051,
    127.5,
    128,
    255.5,
    32767.5,
    2147483647,
    -2147483648,
    4e9,
    1e10,
    0.49999997,
)
Bytes = np.ndarray[Any, np.dtype[np.uint8]]


@dataclass(frozen=True)
class Case:
    """A kernel."""

    instruction: str
    label: str
    """The types, the shape, and in whose place the result is."""
    kinds: str
    tiles: dict[str, TileText]
    addresses: dict[str, int]
    call: str
    scalar: str = ""

    @property
    def name(self) -> str:
        """The name of the kernel."""
        return f"{self.instruction}_{self.label}".replace(" ", "_")

    @property
    def nbytes(self) -> int:
        """The bytes of the image."""
        return max(self.addresses.values()) + APART

    def text(self) -> str:
        """The kernel."""
        rows = self.nbytes // ROW
        tiles = "".join(tile.declared(name, self.addresses[name]) for name, tile in self.tiles.items())
        return (
            f"__global__ AICORE void {self.name}(__gm__ uint8_t* in, __gm__ uint8_t* out) {{\n"
            f"  GlobalTensor<uint8_t, Shape<1, 1, 1, {rows}, {ROW}>, Stride<1, 1, 1, {ROW}, 1>> from(in), to(out);\n"
            f"  Tile<TileType::Vec, uint8_t, {rows}, {ROW}> all;\n  TASSIGN(all, 0);\n  TLOAD(all, from);\n"
            f"  pipe_barrier(PIPE_ALL);\n{tiles}{self.scalar}  {self.call};\n"
            "  pipe_barrier(PIPE_ALL);\n  TSTORE(to, all);\n}\n"
        )

    def image(self, variant: str) -> Bytes:
        """The bytes that are loaded."""
        rng = np.random.default_rng(crc32(f"{self.name} {variant}".encode()))
        image = rng.integers(0, 256, self.nbytes, np.uint8)
        for name, tile in self.tiles.items():
            if tile.kind not in ("bytes", "uint8") or name not in ("mask", TMP):
                given = values(self, name, variant, rng)
                image[self.addresses[name] :][: given.nbytes] = given.view(np.uint8)
        return image


def values(case: Case, name: str, variant: str, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """The elements of a tile and of what is behind it."""
    tile = case.tiles[name]
    kind = dtype(tile.kind)
    count = APART // kind.size
    numbers = np.arange(count)
    row, column = numbers // tile.cols, numbers % tile.cols
    at_edge = (column % 3 == 0) & ((row >= 11) | (tile.rows < 11)) & (rng.random(count) < 0.5)
    if kind.is_float:
        plain = rng.integers(-16, 17, count) / 2 if variant == "exact" else rng.normal(0, 10, count)
        edges = rng.choice(np.array(FLOAT_EDGES), count)
        with np.errstate(all="ignore"):
            found = np.where(at_edge, edges, plain).astype(np.float32).astype(kind.numpy)
    else:
        low, high = int(np.iinfo(kind.numpy).min), int(np.iinfo(kind.numpy).max)
        reach = 9 if variant == "exact" else min(high, 30000)
        plain = rng.integers(max(low, -reach), reach + 1, count)
        edges = rng.choice(np.array([low, low + 1, high, high - 1, 0, 1, 2**24 + 1 if high > 2**24 else 3]), count)
        found = np.where(at_edge, edges, plain).astype(kind.numpy)
    special = SPECIAL.get((case.instruction, name))
    return special(found, case, rng).astype(kind.numpy) if special else found


def _numbers_of(source: str) -> Any:
    """Numbers of elements of a tile."""

    def made(found: Any, case: Case, rng: np.random.Generator) -> Any:
        tile = case.tiles[source]
        return rng.integers(0, tile.rows * tile.cols, found.size)

    return made


def _not_zero(found: Any, *_: Any) -> Any:
    return np.where(found == 0, 7, found)


def _exact(found: Any, *_: Any) -> Any:
    """Integers that a float holds: the headers compute with floats (CP-HDR-01)."""
    return found if found.dtype.kind == "f" else np.clip(found, -(2**23), 2**23)


def _counts(found: Any, case: Case, rng: np.random.Generator) -> Any:
    """Numbers of bits, below those that there are: a scalar loop shifts, and more are undefined in C++."""
    return rng.integers(0, found.dtype.itemsize * 8, found.size)


def _numbered(found: Any, *_: Any) -> Any:
    return np.arange(found.size)


def _ordered(found: Any, *_: Any) -> Any:
    """No NaN: no document says where it is sorted to."""
    return np.where(np.isnan(found.astype(np.float32)), 1, found)


def _as_floats(found: Any, *_: Any) -> Any:
    """Integers whose bits are those of positive floats: the header compares them as such (TColArgMax.hpp:76)."""
    return found if found.dtype.kind != "u" else np.minimum(found, {2: 0x7BFF, 4: 0x7F7FFFFF}[found.dtype.itemsize])


def _small(found: Any, _: Case, rng: np.random.Generator) -> Any:
    return rng.integers(0, 6, found.size)


SPECIAL: dict[tuple[str, str], Any] = {
    ("tgather", "idx"): _numbers_of("src"),
    ("trem", "src1"): lambda found, *_: _not_zero(_exact(found)),
    ("tfmod", "src1"): _not_zero,
    ("tdivs", "src"): _not_zero,
    ("tpow", "src1"): _small,
    **dict.fromkeys((("trem", "src0"), ("trems", "src")), _exact),
    **dict.fromkeys((("tcolargmax", "src"), ("tcolargmin", "src")), _as_floats),
    ("tsort32", "idx"): _numbered,
    ("tsort32", "src"): _ordered,
    ("tshl", "src1"): _counts,
    ("tshr", "src1"): _counts,
}
"""Values that an operand needs."""


def addresses(tiles: dict[str, TileText]) -> dict[str, int]:
    """A place for each tile."""
    return {name: APART * number for number, name in enumerate(tiles)}


def in_place(case: Case) -> Iterator[Case]:
    """The same call with the result in the place of a source that is like it."""
    for source, tile in case.tiles.items():
        if source not in ("dst", TMP) and tile == case.tiles["dst"]:
            places = {**case.addresses, "dst": case.addresses[source]}
            yield replace(case, label=f"{case.label} in {source}", addresses=places)
            return


def cases(name: str, target: str) -> Iterator[Case]:
    """The kernels of an instruction."""
    if name in EXTRA:
        yield from EXTRA[name](name)
        return
    yield from listed(name, target)
    if name == "tdivs":
        yield from reversed_division(name, target)


def listed(name: str, target: str) -> Iterator[Case]:
    """Those whose arguments are its operands, in the order that C++ has."""
    function, given = call_of(INSTRUCTIONS[name])
    for kind, (cols, valid) in product(types(name, target), SHAPES):
        if name == "tci":
            function = f"TCI<decltype(dst), {dtype(kind).cpp}, 0>"
        default, special = TileText(kind, ROWS, cols, (ROWS, valid)), tiles_of(name, kind, cols, valid)
        if name in FILLED:
            default = replace(default, is_dynamic=True)
        tiles = {each: special.get(each, default) for each in given if each not in emitted.ARGUMENTS}
        number = "3" if name in WHOLE_SCALARS else SCALARS[dtype(kind).family if kind[0] in "iu" else "float"]
        scalar = f"  {dtype(kind).cpp} scalar = {number};\n" if {"scalar", "start"} & {*given} else ""
        arguments = ", ".join(emitted.ARGUMENTS.get(each, each) for each in given)
        call = f"{function}({arguments})"
        case = Case(name, f"{kind} {cols} {valid}", kind, tiles, addresses(tiles), call, scalar)
        yield case
        if (cols, valid) in IN_PLACE and INSTRUCTIONS[name].destination.in_place.get(target, False):
            yield from in_place(case)


def reversed_division(name: str, target: str) -> Iterator[Case]:
    """A scalar divided by a tile."""
    for case in listed(name, target):
        if case.addresses["dst"] == case.addresses["src"] and dtype(case.kinds).is_float:
            continue  # refused (H-38)
        yield replace(case, label=f"{case.label} reversed", call="TDIVS(dst, scalar, src)")


def conversions(name: str) -> Iterator[Case]:
    """Pairs of types with each way of rounding."""
    for kind, others in CONVERTED.items():
        for other, (cols, valid) in product(others.split(), SHAPES[1:3]):
            modes = MODES if cols == 64 else MODES[:1]
            modes = (*modes, "ODD") if (kind, other) == ("float32", "float16") else modes
            tiles = {
                "dst": TileText(other, ROWS, cols, (ROWS, valid)),
                "src": TileText(kind, ROWS, cols, (ROWS, valid)),
            }
            for mode in modes:
                call = f"TCVT(dst, src, RoundMode::CAST_{mode})"
                yield Case(name, f"{kind} {other} {mode} {cols}", f"{kind} {other}", tiles, addresses(tiles), call)
            if (kind, other) in WRAPPED:
                call = "TCVT(dst, src, RoundMode::CAST_RINT, SaturationMode::ON)"
                yield Case(name, f"{kind} {other} ON {cols}", f"{kind} {other}", tiles, addresses(tiles), call)


CONVERTED = {
    "float32": "float16 float32 bfloat16 int16 int32 int64",
    "float16": "float32 int32 int16 int8 uint8",
    "bfloat16": "float32 int32",
    "int16": "float16 float32",
    "int32": "float32 int16 int64 float16",
    "int64": "float32 int32",
    "uint8": "float16",
    "int8": "float16",
}
"""The types on A2/A3, from the facts."""
MODES = ("RINT", "ROUND", "FLOOR", "CEIL", "TRUNC", "NONE")
WRAPPED = {
    ("float16", "uint8"),
    ("float16", "int8"),
    ("float16", "int16"),
    ("float32", "int16"),
    ("int64", "int32"),
    ("int32", "int16"),
}


def kept_columns(name: str) -> Iterator[Case]:
    """Patterns of columns."""
    for kind, cols in product(("uint16", "float16", "float32", "int32"), (64, 128)):
        for pattern, (first, step) in PATTERNS.items():
            kept = -(-(cols - first) // step)
            tiles = {"dst": TileText(kind, ROWS, kept, (ROWS, kept)), "src": TileText(kind, ROWS, cols, (ROWS, cols))}
            call = f"TGATHER<decltype(dst), decltype(src), MaskPattern::{pattern}>(dst, src)"
            yield Case(name, f"{kind} {cols} {pattern}", kind, tiles, addresses(tiles), call)


PATTERNS = {"P0101": (0, 2), "P1010": (1, 2), "P0001": (0, 4), "P0010": (1, 4), "P0100": (2, 4), "P1000": (3, 4)}
"""The first column that each keeps, and the distance."""


def triangles(name: str) -> Iterator[Case]:
    """Upper and lower ones about several diagonals."""
    for kind, upper, diagonal in product(
        ("int16", "int32", "uint16", "uint32", "float16", "float32"), (0, 1), (-3, 0, 5)
    ):
        tiles = {"dst": TileText(kind, ROWS, 64, (ROWS, 61))}
        call = f"TTRI<decltype(dst), {upper}>(dst, {diagonal})"
        label = f"{kind} {upper} {diagonal + 3}"
        yield Case(name, label, kind, tiles, addresses(tiles), call)


def fills(name: str) -> Iterator[Case]:
    """Padding of rows and columns."""
    for kind, valid, pad in product(
        ("int8", "uint8", "int16", "uint16", "int32", "uint32", "float16", "float32"), (50, 33), ("Max", "Min", "Zero")
    ):
        rows, cols = (ROWS + 4, 96) if name == "tfillpad_expand" else (ROWS, 64)
        more = f", SLayout::NoneBox, 512, PadValue::{pad}"
        tiles = {
            "dst": TileText(kind, rows, cols, (rows, cols), more=more),
            "src": TileText(kind, ROWS, 64, (11, valid)),
        }
        places = {"dst": 0, "src": 0} if name == "tfillpad_inplace" else addresses(tiles)
        yield Case(name, f"{kind} {valid} {pad}", kind, tiles, places, f"{name.upper()}(dst, src)")


def windows(name: str) -> Iterator[Case]:
    """A part of a tile."""
    for kind, (rows, cols) in product(("int8", "int16", "int32", "float16", "float32"), ((7, 32), (5, 64))):
        whole, part = TileText(kind, ROWS, 128, (ROWS, 128)), TileText(kind, 8, 64, (rows, cols))
        tiles = {"dst": whole, "src": part} if name == "tinsert" else {"dst": part, "src": whole}
        yield Case(name, f"{kind} {rows} {cols}", kind, tiles, addresses(tiles), f"{name.upper()}(dst, src, 4, 32)")


def sorts(name: str) -> Iterator[Case]:
    """Rows of whole blocks, and others, which are padded in a workspace."""
    for kind, valid in product(("float16", "float32"), (64, 61, 33)):
        cols = 64 * 8 // dtype(kind).size
        tiles = {
            "dst": TileText(kind, 8, cols, (8, valid * 8 // dtype(kind).size)),
            "src": TileText(kind, 8, 64, (8, valid)),
            "idx": TileText("uint32", 8, 64, (8, valid)),
        }
        if valid != 64:
            tiles[TMP] = TileText(kind, 1, 64, (1, 64))
        yield Case(name, f"{kind} {valid}", kind, tiles, addresses(tiles), f"TSORT32({', '.join(tiles)})")


def merges(name: str) -> Iterator[Case]:
    """Blocks of a tile, or tiles."""
    lists = int(name[-1]) if name[-1].isdigit() else 0
    for kind, ends in product(("float16", "float32"), (0, 1) if lists else (0,)):
        one = TileText(kind, 1, 128, (1, 128))
        if not lists:
            for groups in (1, 2):
                row = TileText(kind, 1, 256 * groups, (1, 256 * groups))
                tiles = {"dst": row, "src": row}
                yield Case(name, f"{kind} {groups}", kind, tiles, addresses(tiles), "TMRGSORT(dst, src, 64)")
            continue
        row = TileText(kind, 1, 128 * lists, (1, 128 * lists))
        sources = [f"src{number}" for number in range(lists)]
        tiles = {"dst": row, TMP: row, **dict.fromkeys(sources, one)}
        forms = ", ".join(f"decltype({each})" for each in tiles)
        call = f"TMRGSORT<{forms}, {ends}>(dst, executed, tmp, {', '.join(sources)})"
        scalar = "  MrgSortExecutedNumList executed;\n"
        yield Case(name, f"{kind} {ends}", kind, tiles, addresses(tiles), call, scalar)


def _sorted_pairs(length: int) -> Any:
    """Blocks of pairs in descending order, some of them equal."""

    def made(found: Any, case: Case, rng: np.random.Generator) -> Any:
        width = 8 // found.dtype.itemsize
        pairs = rng.integers(0, 1000, (found.size // width, width)).astype(np.float32).astype(found.dtype)
        keys = (rng.integers(-40, 40, len(pairs)) / 2).astype(found.dtype)
        block = length // width
        pairs[: len(keys) // block * block, 0] = -np.sort(
            -keys[: len(keys) // block * block].reshape(-1, block)
        ).ravel()
        return pairs.ravel()

    return made


SPECIAL |= {("tmrgsort", "src"): _sorted_pairs(64)}
SPECIAL |= {(f"tmrgsort{lists}", f"src{k}"): _sorted_pairs(128) for lists in (2, 3, 4) for k in range(lists)}


def dequantised(name: str) -> Iterator[Case]:
    """Integers by a scale and an offset for each row."""
    for kind, (cols, valid) in product(("int8", "int16"), SHAPES):
        factor = TileText("float32", ROWS, 8, (ROWS, 1))
        tiles = {
            "dst": TileText("float32", ROWS, cols, (ROWS, valid)),
            "src": TileText(kind, ROWS, cols, (ROWS, valid)),
            "scale": factor,
            "offset": factor,
        }
        yield Case(name, f"{kind} {cols} {valid}", kind, tiles, addresses(tiles), "TDEQUANT(dst, src, scale, offset)")


def quantised(name: str) -> Iterator[Case]:
    """Floats by a factor for each row, and perhaps an offset."""
    is_plain = name == "tquant"
    kind, form = ("int8", "INT8_SYM") if is_plain else ("uint8", "INT8_ASYM")
    for cols, valid in SHAPES:
        plain, factor = (
            TileText("float32", ROWS, cols, (ROWS, valid)),
            TileText("float32", ROWS, 1, (ROWS, 1), by_col=True),
        )
        tiles = {
            "dst": TileText(kind, ROWS, cols, (ROWS, valid)),
            "src": plain,
            "scale": factor,
            TMP: plain,
            **({} if is_plain else {"offset": factor}),
        }
        call = f"TQUANT<QuantType::{form}>(dst, src, scale, tmp{'' if is_plain else ', &offset'})"
        yield Case(name, f"{cols} {valid}", f"float32 {kind}", tiles, addresses(tiles), call)


def copies(name: str) -> Iterator[Case]:
    """Tiles of all types."""
    for kind, (cols, valid) in product(types("texpands", "a2a3"), SHAPES[:3]):
        plain = TileText(kind, ROWS, cols, (ROWS, valid))
        tiles = {"dst": plain, "src": plain}
        yield Case(name, f"{kind} {cols} {valid}", kind, tiles, addresses(tiles), "TMOV(dst, src)")


EXTRA: dict[str, Any] = {
    "tcvt": conversions,
    "tgather_mask": kept_columns,
    "ttri": triangles,
    "tsort32": sorts,
    "tdequant": dequantised,
    **dict.fromkeys(("tfillpad", "tfillpad_inplace", "tfillpad_expand"), fills),
    **dict.fromkeys(("tinsert", "textract"), windows),
    **dict.fromkeys(("tquant", "tquant_asym"), quantised),
    **dict.fromkeys(("tmrgsort", "tmrgsort2", "tmrgsort3", "tmrgsort4"), merges),
    "tmov": copies,
}
"""Instructions whose calls are no list of operands of one type."""


def source(found: Sequence[Case]) -> str:
    """A C++ source with these kernels: an entry for each, which runs it with each variant of its values, and one for
    all of them."""
    text, every, start = "#include <pto/pto-inst.hpp>\nusing namespace pto;\n\n", "", 0
    for case in found:
        text += case.text()
        for number in range(len(VARIANTS)):
            at = number * case.nbytes
            every += f"  {case.name}<<<1, nullptr, stream>>>(in + {start + at}, out + {start + at});\n"
        one = "".join(
            f"  {case.name}<<<1, nullptr, stream>>>(in + {number * case.nbytes}, out + {number * case.nbytes});\n"
            for number in range(len(VARIANTS))
        )
        text += f'extern "C" void only_{case.name}(uint8_t* in, uint8_t* out, void* stream) {{\n{one}}}\n\n'
        start += case.nbytes * len(VARIANTS)
    return f'{text}extern "C" void every(uint8_t* in, uint8_t* out, void* stream) {{\n{every}}}\n'
