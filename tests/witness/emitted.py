"""C++ calls for the comparison with headers: vector instructions by element type and shape.

The vendor's tests do not call every overload. These functions do; none of them loads or stores. A kernel has the calls
of some types: most of the time to run one goes to the process that it is run in.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

from ptokit.isa.catalog import COMPUTE, INSTRUCTIONS
from ptokit.isa.dtype import dtype
from ptokit.isa.instruction import Instruction
from ptokit.isa.spelling import TMP
from tests.compute.tables import TYPES, types

ROWS = 16
SHAPES = ((64, 64), (64, 61), (160, 150), (32, 3))
"""Columns of the tiles, and those that are valid; the last two have more than a step of the vector unit, and an odd end
in the first block."""
APART = 0x8000
"""Bytes between tiles."""
WORKSPACE = 3
TOGETHER = 4
"""Element types whose calls are one kernel: with scalar loops over all of them, a block of more is not read whole."""


@dataclass(frozen=True)
class TileText:
    """A tile of a kernel."""

    kind: str
    rows: int
    cols: int
    valid: tuple[int, int]
    by_col: bool = False
    more: str = ""
    """More arguments of the template."""
    is_dynamic: bool = False
    """Whether the valid region is no part of the type."""

    def declared(self, name: str, address: int) -> str:
        layout, valid = "ColMajor" if self.by_col else "RowMajor", f"{self.valid[0]}, {self.valid[1]}"
        static, given = ("-1, -1", f"({valid})") if self.is_dynamic else (valid, "")
        extents = f"{self.rows}, {self.cols}, BLayout::{layout}, {static}{self.more}"
        cpp = dtype(self.kind).cpp
        return f"  Tile<TileType::Vec, {cpp}, {extents}> {name}{given};\n  TASSIGN({name}, {address:#x});\n"


def tiles_of(name: str, kind: str, cols: int, valid: int) -> dict[str, TileText]:
    """The tiles that are unlike the destination."""
    block = 32 // dtype(kind).size
    plain = TileText(kind, ROWS, cols, (ROWS, valid))
    mask = TileText("uint8", ROWS, 32, (ROWS, 32))
    column = TileText(kind, max(ROWS, block), 1, (ROWS, 1), by_col=True)
    row = TileText(kind, 1, cols, (1, valid))
    numbers = "int32"
    if name.startswith("trowarg"):
        return {"dst": TileText(numbers, ROWS, 8, (ROWS, 1)), "src": plain, TMP: plain}
    if name.startswith("tcolarg"):
        return {"dst": replace(row, kind=numbers), "src": plain, TMP: plain}
    if name.startswith(("trowexpand", "tcolexpand")):
        spread = column if name.startswith("trow") else row
        return {"src": replace(column, by_col=False, cols=block) if name == "trowexpand" else row, "src1": spread}
    if name in ("trowsum", "trowprod", "trowmax", "trowmin"):
        return {"dst": TileText(kind, ROWS, block, (ROWS, 1)), "src": plain, TMP: plain}
    if name in ("tcolsum", "tcolprod", "tcolmax", "tcolmin"):
        return {"dst": row, "src": plain}
    numbered = "int16" if dtype(kind).size == 1 else "int32"
    special = {
        "tcmp": {"dst": mask, "src0": plain, "src1": plain},
        "tcmps": {"dst": mask, "src": plain},
        "tsel": {"mask": mask, TMP: TileText("uint32", 1, 16, (1, 16))},
        "tsels": {"mask": mask, TMP: TileText(kind, 1, block, (1, block))},
        "tprelu": {TMP: TileText("uint8", ROWS + 1, 32, (ROWS + 1, 32))},
        "trem": {TMP: TileText(kind, WORKSPACE, cols, (WORKSPACE, cols))},
        "trems": {TMP: TileText(kind, WORKSPACE, cols, (WORKSPACE, cols))},
        "ttrans": {
            "dst": TileText(kind, cols, 32, (valid, ROWS)), "src": plain, TMP: TileText(kind, cols, 32, (cols, 32)),
        },
        "tgather": {"idx": replace(plain, kind=numbered), TMP: replace(plain, kind=numbered)},
        "tci": {"dst": row},
        "tconcat": {"dst": TileText(kind, ROWS, 2 * cols, (ROWS, 2 * valid))},
    }  # fmt: skip
    return special.get(name, {})


ARGUMENTS = {"mode": "CmpMode::GT", "scalar": "scalar", "start": "scalar"}
LEFT_OUT = {
    "tcvt", "tinsert", "tinsert_fp", "textract", "textract_fp", "tgather_mask", "ttri", "tfillpad", "tfillpad_inplace",
    "tfillpad_expand",
}  # fmt: skip
"""Instructions whose calls are no list of operands, or whose tiles have a pad value: the vendor's tests have them."""


def call_of(instruction: Instruction) -> tuple[str, list[str]]:
    """The function and its arguments, from how C++ writes it."""
    text = instruction.spellings["C++"][0].partition(" or ")[0]
    function, _, given = text.removesuffix(")").partition("(")
    return function, given.split(", ")


def template_of(name: str, function: str, kind: str) -> str:
    """The function with what cannot be deduced."""
    if name == "tci":
        return f"TCI<decltype(dst), {dtype(kind).cpp}, 0>"
    precise = name in ("tpow", "tpows") and kind == "bfloat16"  # TPow.hpp:626
    return f"{function}<PowAlgorithm::HIGH_PRECISION>" if precise else function


def functions(name: str, kinds: Sequence[str]) -> Iterator[tuple[str, str]]:
    """A function for each element type and shape, which makes one call: its name and its text."""
    function, given = call_of(INSTRUCTIONS[name])
    for kind, (cols, valid) in product(kinds, SHAPES):
        default = TileText(kind, ROWS, cols, (ROWS, valid))
        special = tiles_of(name, kind, cols, valid)
        places = [each for each in given if each not in ARGUMENTS]
        body = "".join(special.get(each, default).declared(each, APART * number) for number, each in enumerate(places))
        body += f"  {dtype(kind).cpp} scalar = 3;\n" if "scalar" in given or "start" in given else ""
        arguments = ", ".join(ARGUMENTS.get(each, each) for each in given)
        own = f"{name}_{kind}_{cols}_{valid}"
        call = f"{template_of(name, function, kind)}({arguments})"
        yield own, f"AICORE void {own}() {{\n{body}  {call};\n}}\n"


def forms(name: str, target: str) -> Iterator[tuple[str, str]]:
    """Functions for forms of an instruction that are no list of operands of one shape."""
    kinds = (("float32", 64), ("int16", 48), ("int8", 64), *([("int64", 32)] if target == "a5" else []))
    found = [
        *((kind, "P0010", (4, cols), (4, 4 * cols), "") for kind, cols in kinds),
        ("float32", "P1010", (4, 61), (8, 61), ", ScatterAxis::SCATTER_COL"),
    ]
    for kind, pattern, source, wide, axis in found if name == "tscatter" else ():
        yield _moved(f"tscatter_{kind}_{pattern}", kind, wide, source, f"TSCATTER<MaskPattern::{pattern}{axis}>")
    if name == "tgather":
        template = "TGATHER<decltype(dst), decltype(src), MaskPattern::P1010, GatherAxis::GATHER_COL>"
        yield _moved("tgather_rows", "float32", (4, 61), (8, 61), template)


def _moved(name: str, kind: str, target: tuple[int, int], source: tuple[int, int], call: str) -> tuple[str, str]:
    """A function that moves elements between tiles of whole blocks."""
    block = 32 // dtype(kind).size
    tiles = (TileText(kind, rows, -(-cols // block) * block, (rows, cols)) for rows, cols in (target, source))
    body = "".join(
        tile.declared(name, APART * k) for k, (tile, name) in enumerate(zip(tiles, ("dst", "src"), strict=True))
    )
    return name, f"AICORE void {name}() {{\n{body}  {call}(dst, src);\n}}\n"


FORMS = ("tscatter", "tgather")
"""Instructions with more forms than their operands say."""


def names(target: str) -> list[str]:
    """The instructions that have kernels here."""
    known = {each.name for each in COMPUTE} - LEFT_OUT
    return [*(name for name in TYPES if name in known and types(name, target)), *(set(FORMS) - {*TYPES})]


def source(names: Sequence[str], target: str) -> str:
    """A C++ source with kernels that make all calls of some instructions."""
    text = "#include <pto/pto-inst.hpp>\nusing namespace pto;\n"
    for name in names:
        kinds = types(name, target) if name in TYPES else []
        for first in range(0, len(kinds), TOGETHER):
            text += _kernel(f"{name}_{kinds[first]}", list(functions(name, kinds[first : first + TOGETHER])))
        text += _kernel(f"{name}_forms", list(forms(name, target))) if name in FORMS else ""
    return text


def _kernel(name: str, every: Sequence[tuple[str, str]]) -> str:
    """Functions, and a kernel that calls them."""
    calls = "".join(f"  {own}();\n" for own, _ in every)
    return "".join(f"\n{text}" for _, text in every) + f"\n__global__ AICORE void {name}() {{\n{calls}}}\n"
