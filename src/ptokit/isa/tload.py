"""TLOAD: a block of global memory into a tile."""
# ruff: noqa: F403, F405

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace

from numpy import array, iinfo, inf, isinf

from ptokit.isa.headers import CLAUSE, EIGHT_TO_64, moved_in_cpp, typed_in_headers, whole_block
from ptokit.isa.vocabulary import *

Pairs = Mapping[TileType, frozenset[tuple[str, str]]]
"""By location: pairs of tensor layout and tile form."""

VEC_PAIRS = frozenset({("nd", "nd"), ("dn", "dn"), ("nz", "nz")})
TURNED = frozenset({("nd", "nz"), ("dn", "zn")})
SCALES = frozenset(
    {("nd", "zz")}
    | {(f"mx_a_{of}", "zz") for of in ("zz", "nd", "dn")}
    | {(f"mx_b_{of}", "nn") for of in ("nn", "nd", "dn")}
)
"""Scales of MX formats; of plain memory, those of one row."""
A2A3_PAIRS: Pairs = {TileType.Vec: VEC_PAIRS, TileType.Mat: VEC_PAIRS | TURNED}
A5_PAIRS: Pairs = {TileType.Vec: VEC_PAIRS, TileType.Mat: VEC_PAIRS | TURNED | SCALES | {("dn", "nz")}}
PAIRS = Table({"cpu": A5_PAIRS, "a2a3": A2A3_PAIRS, "a5": A5_PAIRS, "host": A5_PAIRS})
"""Which tensor layout loads into which tile form (TL-01)."""
CHANGED = TURNED | {("dn", "nz")}
"""The pairs for which a load orders elements by fractals."""


def is_scales(tensor: TensorSpec, tile: TileSpec) -> bool:
    """Whether these are scales of an MX format; those in plain memory fill one row."""
    is_row = tensor.layout_kind not in PLAIN_LAYOUTS or tile.rows == 1
    return tile.dtype is FLOAT8_E8M0 and tile.fractal == SCALE_FRACTAL and is_row


def is_pair(tensor: TensorSpec, tile: TileSpec, pairs: Pairs) -> bool:
    """Whether the layouts of a tensor and a tile match; boxes outside Acc are 512-byte fractals (CO-LAY-02)."""
    if tile.format in ("nz", "zn") and tile.fractal != 512 and tile.loc is not TileType.Acc:
        return False
    if tile.format in ("zz", "nn") and not is_scales(tensor, tile):
        return False
    return (tensor.layout_kind.text, tile.format) in pairs.get(tile.loc, ())


def fits(tensor: TensorSpec, tile: TileSpec) -> bool:
    """Whether the tile's valid region lies inside the tensor (TL-02)."""
    rows, cols = tensor.extents
    return tile.valid_rows <= rows and tile.valid_cols <= cols


def is_run(call: Call) -> bool:
    """A tile of one row or column loads contiguous elements, in any layout (as TT-01)."""
    dst, src = call.dst, call.src
    plain = dst.loc is TileType.Vec and dst.format in ("nd", "dn") and 1 in (dst.rows, dst.cols) and not dst.pitch
    return plain and src.layout_kind in PLAIN_LAYOUTS and 1 in src.extents and src.is_packed


def run_length(tile: TileSpec) -> int:
    """The valid elements of a tile of one row or column."""
    return tile.valid_rows if tile.cols == 1 else tile.valid_cols


def is_block(call: Call) -> bool:
    """Tile and tensor have matching layouts, and the tensor is large enough."""
    return is_pair(call.src, call.dst, call.lookup(PAIRS)) and fits(call.src, call.dst)


def has_fractal_dims(tensor: TensorSpec) -> bool:
    """Whether an NZ tensor ends in blocks of 16 x C0 elements; other layouts have no such dims."""
    return tensor.layout_kind is not GlobalLayout.NZ or tensor.shape[3:] == (FRACTAL_ROWS, tensor.dtype.c0)


@case("fractals of plain memory")
def converts(call: Call) -> bool:
    """ND or DN in memory, fractals in the tile."""
    return (call.src.layout_kind.text, call.dst.format) in CHANGED


BY_TENSOR = Table({"a2a3": True, "a5": True})
"""Targets whose loads into fractals move what the tensor has, whatever is valid (tload_common.hpp:269)."""


@case("fractals of plain memory, of the tensor's extents")
def is_by_tensor(call: Call) -> bool:
    """The header takes the extents of the tensor, not those of the tile."""
    return converts(call) and call.lookup(BY_TENSOR, False)


def plain_if_wide(operand: str, rule: str) -> Rule:
    """Fractals hold elements of up to 4 bytes."""
    return Rule(
        rule, operand, "without boxes if its elements have 8 bytes", lambda c: is_unboxed(c.values[operand]),
        on=error(*FAMILIES), when=Case("8-byte elements", lambda c: c.values[operand].dtype.size == 8),
        fix=PLAIN_TILE,
    )  # fmt: skip


def in_ub_unboxed(operand: str) -> Case:
    """A plain tile in UB, to which the 32-byte rule applies."""
    return Case("a plain tile in UB", lambda c: c.values[operand].loc is TileType.Vec and is_unboxed(c.values[operand]))


COLUMN = (
    "an N x 1 ColMajor tile takes N elements that lie side by side: w[a:b] of an array of one dim, or one row of it; "
    "for other blocks give the tensor the layout of the tile"
)

LARGER = Fix("shrink ", VALID, " or load a larger block")


def not_empty(operand: str) -> tuple[Rule, Rule]:
    """Headers neither assert it nor fail: nothing is transferred, or rows that are not valid (tload_common.hpp:54,
    tstore_common.hpp:367)."""
    refused = extents_positive("A-55", operand, "cpu", "host")
    empty = replace(refused, on=note(*NPU), blocks="nothing", expect="nothing of it is valid")
    return refused, empty


RULES = (
    routing("TL-01", "src", "a GlobalTensor", lambda c: is_tensor(c.src), fix=Fix(
                called("tload", "tile", "array"), ": the tile comes first; an array is wrapped, ", ARRAY_VIEW)),
    routing("TL-01", "dst", "a Vec or Mat tile", lambda c: is_tile(c.dst, TileType.Vec, TileType.Mat),
            fix=Fix("load into a Vec or Mat tile, then ", OpName("tmov"))),
    data_type("dst", WIDE_TYPES),
    same_type("TL-01", "src", "dst", blocks="execution"),
    plain_if_wide("dst", "TL-01"),
    routing("TL-01", "dst", lambda c: f"of a form that {c.src.layout_kind.name} memory loads into",
            lambda c: is_pair(c.src, c.dst, c.lookup(PAIRS)) or is_run(c),
            fix=lambda c: COLUMN if c.dst.format == "dn" else "give tile and tensor the same layout"),
    sized("TL-01", "src", "of Shape[0..2] == 1 for ND or DN into 512-byte fractals",
          lambda c: c.src.shape[:3] == (1, 1, 1) and c.dst.fractal == 512, when=converts,
          found=lambda c: f"{c.src} into {c.dst}", fix=Fix("flatten the tensor to two dims; ", FRACTAL, "512")),
    sized("TL-02", "src", lambda c: f"of Shape[3] == 16 and Shape[4] == {c.src.dtype.c0} in NZ layout",
          lambda c: has_fractal_dims(c.src), fix=NZ_SHAPE),
    sized("TL-02", "src", lambda c: f"at least {show_extents(c.dst.valid)}, the valid region",
          lambda c: is_block(c) or (is_run(c) and run_length(c.dst) <= c.src.elements), when=~is_by_tensor,
          found=lambda c: show_extents(c.src.extents), fix=LARGER),
    Rule("TL-02", "src", lambda c: f"only {show_extents(c.src.extents)} of the valid region is there to load",
         lambda c: fits(c.src, c.dst), on=note(*NPU), when=is_by_tensor, kind=ByExtent(), fix=LARGER),
    *not_empty("dst"),
    burst_multiple("CO-ALIGN-01", "dst", *NPU, when=in_ub_unboxed("dst")),
)  # fmt: skip


def pad_bits(dtype: DType, pad: Pad) -> int:
    """The bit pattern that fills padding, for a pad value other than `Null`."""
    if pad is Pad.Zero:
        return 0
    biggest = pad is Pad.Max
    if dtype.numpy.kind == "b":
        value = array(biggest)
    elif dtype.is_integer:
        info = iinfo(dtype.numpy)
        value = array(info.max if biggest else info.min, dtype.numpy)
    else:
        value = array(inf if biggest else -inf, dtype.numpy)
        if not isinf(value):
            value = array(finfo(dtype.numpy).max * (1 if biggest else -1), dtype.numpy)
    return int.from_bytes(value.tobytes(), sys.byteorder)


PADS_BLOCKS = Table({"a2a3": (TileType.Vec,), "a5": (TileType.Vec, TileType.Mat)})
"""Targets whose load pads what it loads to whole blocks of 32 bytes, in these memories; others fill the tile
(tload_common.hpp:62, a5/TLoad.hpp:437)."""


def padded(call: Call) -> tuple[tuple[int, int], Access] | None:
    """What gets the pad value before the data arrive; None if nothing does: A2/A3 in L1, and fractals in UB."""
    dst, (rows, cols) = call.dst, call.dst.valid
    if (memories := call.lookup(PADS_BLOCKS)) is None:
        return (1, dst.elements), Access("dst", flat())
    if dst.loc not in memories or (dst.loc is TileType.Vec and not is_unboxed(dst)):
        return None
    if dst.blayout is BLayout.ColMajor and is_unboxed(dst):
        rows = min(-(-rows // dst.dtype.c0) * dst.dtype.c0, dst.rows)
    else:
        cols = min(-(-cols // dst.dtype.c0) * dst.dtype.c0, dst.cols)
    return (rows, cols), Access("dst", dst.layout)


def loaded(call: Call) -> tuple[int, int]:
    """The part of the valid region that the tensor has."""
    (rows, cols), (of_tensor, across) = call.dst.valid, call.src.extents
    return min(rows, of_tensor), min(cols, across)


def last_blocks(call: Call) -> tuple[int, int]:
    """What is loaded, with the rest of the last block of 32 bytes of each run, which fractals get as zeros:
    `tmov_mx_kernel.cpp` line 268 fills none of it before it multiplies."""
    (rows, cols), c0 = loaded(call), call.dst.dtype.c0
    if call.dst.format == "zn":
        return min(-(-rows // c0) * c0, call.dst.rows), cols
    return rows, min(-(-cols // c0) * c0, call.dst.cols)


def lower(call: Call) -> tuple[Move, ...]:
    """Copy the valid region; padding keeps its content unless the tile has a pad value (TL-03)."""
    dst = call.dst
    if is_block(call) or is_by_tensor(call):
        move = Move(loaded(call), Access("dst", dst.layout), Access("src", call.src.layout))
    else:
        move = Move((1, run_length(dst)), Access("dst", flat()), Access("src", flat()))
    if is_by_tensor(call) and (blocks := last_blocks(call)) != loaded(call):
        return (Move(blocks, Access("dst", dst.layout), Fill(0)), move)
    if dst.pad is Pad.Null or (place := padded(call)) is None:
        return (move,)
    return (Move(*place, Fill(pad_bits(dst.dtype, dst.pad))), move)


def whole_blocks(call: Call) -> ByteRows:
    """Rows, or columns, of plain tiles as blocks of 32 bytes."""
    size, (rows, cols) = call.dst.dtype.size, call.dst.valid
    if call.dst.blayout is BLayout.ColMajor:
        rows, cols = cols, rows
    return ByteRows(rows, -(-cols * size // 32) * 32, call.dst.stride * size)


def zeroed(call: Call) -> tuple[Effect, ...]:
    """A5 pads plain tiles of L1 without a pad value, too: with zeros (a5/TLoad.hpp:433, 491)."""
    is_padded = is_unboxed(call.dst) and call.dst.pad is Pad.Null
    return (Effect("dst", "write", "MTE2", whole_blocks),) if is_padded else ()


def on_path(path: str, besides: Callable[[Call], tuple[Effect, ...]] | None = None) -> RouteKernel:
    """One pipe copies the block, at the bandwidth of its path."""
    effects = (Effect("src", "read", "MTE2"), Effect("dst", "write", "MTE2"))
    return RouteKernel(effects, cost={"MTE2": Cost("block", path)}, besides=besides)


MOST_ROWS = 4095
"""Rows of an ND tile that A2/A3 loads into UB."""
CLEARS = Table({"cpu": True})
"""Targets whose load clears all of a tile first, padding and the gaps between the rows of a slice included."""
plain_in_ub = Case("an ND tile in UB", lambda c: c.dst.loc is TileType.Vec and c.dst.format == "nd")
plain_in_l1 = Case(
    "several rows of a plain tile in L1 (a2a3/TLoad.hpp:114, 153)",
    lambda c: c.dst.loc is TileType.Mat and is_unboxed(c.dst) and 1 not in (c.dst.rows, c.dst.cols),
)


def row_bytes(call: Call) -> int:
    """The valid bytes of a row; of a column of a ColMajor tile."""
    return call.dst.valid[call.dst.blayout is BLayout.RowMajor] * call.dst.dtype.size


CPP = Cpp(
    call="TLOAD(dst, src)",
    is_transfer=True,
    clears=CLEARS,
    headers=(
        typed_in_headers("dst", {"a2a3": EIGHT_TO_64}),
        whole_block("TL-02", "src", "dst", lambda c: c.src),
        Rule(CLAUSE, "dst", f"of at most {MOST_ROWS} rows for the C++ headers", lambda c: c.dst.rows <= MOST_ROWS,
             on=hazard("a2a3"), when=plain_in_ub, found=lambda c: f"{c.dst.rows} rows", fix="load in two steps"),
        Rule(CLAUSE, "dst", "of valid rows (or columns, if it is ColMajor) of whole 32-byte blocks for the C++ headers",
             lambda c: row_bytes(c) % 32 == 0, on=note("a2a3"), when=plain_in_l1, kind=ByExtent(),
             found=lambda c: f"{row_bytes(c)} bytes", fix="load whole blocks; the headers leave out the rest of a row"),
    ),
    written=(
        Rule(CLAUSE, "dst", "of the tensor's layout: the C++ headers load ND into ND and DN into DN only",
             lambda c: is_pair(c.src, c.dst, c.lookup(PAIRS)), on=error("a2a3", "a5"),
             found=lambda c: f"{c.dst.format.upper()}, and {c.src.layout_kind.text.upper()} memory",
             fix="give the GlobalTensor the layout of the tile (tload_common.hpp:335)"),
        *moved_in_cpp("TL-03", "src", "dst", lambda c: c.src),
    ),
    slices=(
        Rule("TL-03", "dst", "a tile, or whole rows that are valid: the load clears what lies beside a slice, too",
             lambda c: not c.dst.pitch and certain(lambda: c.dst.valid == (c.dst.rows, c.dst.cols)),
             on=note(*CLEARS.rows), when=Case("the load clears the tile", lambda c: c.lookup(CLEARS)),
             fix=Fix("load into a tile of its own, and copy it: ", called("tmov"))),
    ),
)  # fmt: skip

TLOAD = Instruction(
    name="tload",
    summary="Load a contiguous block of GM into a tile.",
    meaning=("dst[i, j] = src[i, j]    over the destination's valid region",),
    operands=(
        Param("dst", "write", "destination tile: Vec or Mat", has_scales=True),
        Param("src", "read", "the block in GM", kind="memory", is_block=True),
    ),
    modifiers=(),
    rules=RULES,
    lower=lower,
    route=lambda call: f"tload.{call.dst.loc.text}",
    cpp=CPP,
    kernels={
        family: {
            "tload.vec": on_path("GM to UB GB/s"),
            "tload.mat": on_path("GM to L1 GB/s", zeroed if family == "a5" else None),
        }
        for family in NPU
    },
    pages=Pages(documents=("TL",)),
    text=OpText(
        clauses=("pad_mode", "pad_value", "left_padding_num", "init_out_buffer", "right_padding_num", "init_condition")
    ),
    spellings={
        "C++": ("TLOAD(tile, tensor)",),
        "Level 1": ("%dst = pto.tload %src : !pto.partition_tensor_view<...> -> !pto.tile<...>",),
        "Level 2": ("pto.tload ins(%src : !pto.partition_tensor_view<...>) outs(%dst : !pto.tile_buf<...>)",),
    },
)
