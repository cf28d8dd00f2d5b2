"""What the headers do inside an instruction, as numbers: barriers of the vector pipe on A2/A3 (A-73), and bytes.

The expected rows are read from the public headers at commit 3186c381; `make witness` compares all of them.
"""

from __future__ import annotations

from typing import Any

import pytest

from ptokit.isa.barriers import inside
from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.isa.dtype import dtype
from ptokit.isa.instruction import Call
from ptokit.isa.operand import TileSpec
from ptokit.isa.policy import BLayout, Pad, TileType
from ptokit.isa.tload import zeroed
from ptokit.program.instr_calls import effects
from tests.loops import over


def tile(kind: str, rows: int, cols: int, valid: tuple[int, int] | None = None, **more: Any) -> TileSpec:
    return TileSpec(dtype(kind), TileType.Vec, rows, cols, *(valid or (rows, cols)), **more)


def call(name: str, target: str = "a2a3", **operands: Any) -> Call:
    instruction = INSTRUCTIONS[name]
    return Call(instruction, operands, (None,) * len(instruction.modifiers), target)


def written(given: Call, operand: str, pipe: str = "V") -> list[tuple[int, int, int]]:
    """The rows of bytes of an operand that a call writes besides its elements."""
    found = [each for each in effects(given) if each.operand == operand and each.access == "write" and each.extent]
    return [tuple(each.extent(given)) for each in found if each.pipe == pipe and each.extent]


# --- barriers

FLOATS, INTS, BYTES = tile("float32", 8, 64), tile("int32", 8, 64), tile("int8", 8, 64)
COLUMN = tile("float32", 8, 1, blayout=BLayout.ColMajor)
WIDE = tile("float32", 8, 8, (8, 1))
"""A column as the first of several columns: rows of 32 bytes."""
TWO = tile("float32", 8, 2, blayout=BLayout.ColMajor)
LISTS = {f"src{k}": tile("float32", 1, 64) for k in range(4)}
COUNTS = tile("int16", 1, 16)


def merged(count: int) -> dict[str, Any]:
    """The operands of a merge of some lists."""
    operands = dict.fromkeys((param.name for param in INSTRUCTIONS[f"tmrgsort{count}"].operands), FLOATS)
    return operands | dict(list(LISTS.items())[:count]) | {"tmp": FLOATS}


def reduced(kind: str) -> dict[str, Any]:
    """The operands of a sum of rows."""
    return {"dst": tile(kind, 8, 8, (8, 1)), "src": tile(kind, 8, 64), "tmp": tile(kind, 8, 64)}


INSIDE: list[tuple[str, dict[str, Any], tuple[str, ...] | None, bool]] = [
    ("tadd", {"dst": FLOATS, "src0": FLOATS, "src1": FLOATS}, None, False),
    ("trowexpandmul", {"dst": FLOATS, "src0": FLOATS, "src1": COLUMN, "tmp": FLOATS}, ("src1", "tmp"), False),
    ("trowexpandmul", {"dst": FLOATS, "src0": COLUMN, "src1": FLOATS, "tmp": FLOATS}, ("src0", "tmp"), False),
    ("trowexpandmul", {"dst": FLOATS, "src0": FLOATS, "src1": WIDE, "tmp": FLOATS}, None, False),
    ("trowexpandmul", {"dst": FLOATS, "src0": FLOATS, "src1": TWO, "tmp": FLOATS}, None, False),
    ("tmrgsort2", merged(2), ("src0", "src1", "tmp"), False),
    ("tmrgsort3", merged(3), ("src0", "src1", "src2", "tmp"), False),
    ("tmrgsort4", merged(4), ("src0", "src1", "src2", "src3", "tmp"), False),
    *(
        (name, reduced(kind), first, True)
        for name in ("trowsum", "trowmax", "trowmin")
        for kind, first in (("int32", ("tmp",)), ("float32", None))
    ),
    ("trowprod", reduced("float32"), ("tmp",), True),
    ("tands", {"dst": INTS, "src": INTS, "scalar": 1}, ("dst",), False),
    ("tors", {"dst": INTS, "src": INTS, "scalar": 1}, ("dst",), False),
    ("txor", {"dst": INTS, "src0": INTS, "src1": INTS, "tmp": INTS}, ("src0", "src1", "tmp"), False),
    ("txors", {"dst": INTS, "src": INTS, "scalar": 1, "tmp": INTS}, ("tmp",), False),
    ("tdivs", {"dst": FLOATS, "src": FLOATS, "scalar": 1}, ("dst",), False),
    ("tdivs", {"dst": INTS, "src": INTS, "scalar": 1}, None, False),
    ("trecip", {"dst": FLOATS, "src": FLOATS}, ("dst",), False),
    ("trem", {"dst": FLOATS, "src0": FLOATS, "src1": FLOATS, "tmp": FLOATS}, ("src0", "src1", "tmp"), True),
    ("trems", {"dst": FLOATS, "src": FLOATS, "scalar": 1, "tmp": FLOATS}, ("tmp",), True),
    ("trems", {"dst": INTS, "src": INTS, "scalar": 1, "tmp": INTS}, ("src", "tmp"), True),
    ("tcolmax", {"dst": tile("float32", 1, 64), "src": FLOATS}, None, True),
    ("tcolsum", {"dst": tile("float32", 1, 64), "src": tile("float32", 1, 64)}, None, False),
    ("tcolsum", {"dst": tile("float32", 1, 64), "src": FLOATS}, None, True),
]


@pytest.mark.parametrize(
    ("name", "operands", "first", "ends"), INSIDE, ids=[f"{k} {row[0]}" for k, row in enumerate(INSIDE)]
)
def test_barriers_inside_are_those_of_the_headers(
    name: str, operands: dict[str, Any], first: tuple[str, ...] | None, ends: bool
) -> None:
    found = inside(call(name, **operands))
    assert (found.first, found.ends) == (first, ends)
    elsewhere = inside(call(name, "a5", **operands))
    assert (elsewhere.first, elsewhere.ends) == (None, False)


# --- bytes


@over("cols", [1, 2, 3, 31, 32, 33, 63, 64, 65, 2049, 4097])
@pytest.mark.parametrize("kind", ["float32", "float16", "int32", "int16"])
def test_a_remainder_fills_a_mask_behind_a_row_of_its_workspace(kind: str, cols: int) -> None:
    """A row of the destination; behind it 256 bytes of floats, the valid columns of integers (TRem.hpp:51, 108), or the
    two elements of 4 bytes for each begun 64 columns that the page names."""
    size, stride = dtype(kind).size, 4160
    given = tile(kind, 2, stride, (2, cols))
    begun = sum(1 for _ in range(0, cols, 64))
    behind = max(cols * size if kind.startswith("int") else 256, begun * 8)
    found = call("trem", dst=given, src0=given, src1=given, tmp=tile(kind, 8, stride))
    assert written(found, "tmp") == [(1, stride * size + behind, 0)]


@over("cols", [32, 64, 96, 128, 160, 2048])
@pytest.mark.parametrize("kind", ["float32", "int32"])
def test_the_workspace_of_a_remainder_by_a_scalar_has_two_elements_for_each_64_columns(kind: str, cols: int) -> None:
    needed = cols + 2 * sum(1 for _ in range(0, cols, 64))
    words = sum(8 for _ in range(0, needed, 8))
    workspace = INSTRUCTIONS["trems"].workspace
    assert workspace is not None
    made = workspace.needed(call("trems", dst=tile(kind, 4, cols), src=tile(kind, 4, cols), scalar=1))
    assert made is not None and (made.rows, made.cols) == (1, words)


@over("cols", [1, 31, 32, 33, 64, 65])
@pytest.mark.parametrize("name", ["tadd", "tmax", "tshl"])
def test_8_byte_types_on_a5_write_the_last_of_several_steps_whole(name: str, cols: int) -> None:
    """Steps of 32 elements; a single one is as long as it has to be (Int64Binary.hpp:251, 271)."""
    given = tile("int64", 4, 96, (3, cols))
    found = written(call(name, "a5", dst=given, src0=given, src1=given), "dst")
    steps = sum(1 for _ in range(0, cols, 32))
    assert found == ([(3, steps * 32 * 8, 96 * 8)] if steps > 1 else [])
    four = tile("int32", 4, 96, (3, cols))
    assert written(call(name, "a5", dst=four, src0=four, src1=four), "dst") == []


@over("cols", [1, 7, 8, 9, 33])
@pytest.mark.parametrize("name", ["tcolsum", "tcolprod", "tcolmax", "tcolmin"])
def test_a_reduction_of_columns_writes_whole_blocks_of_its_row(name: str, cols: int) -> None:
    dst, src = tile("float32", 4, 64, (4, cols)), tile("float32", 16, 64, (16, cols))
    blocks = sum(1 for _ in range(0, cols * 4, 32))
    assert written(call(name, dst=dst, src=src), "dst") == [(1, blocks * 32, 0)]


@over("cols", [1, 15, 16, 17, 40])
@pytest.mark.parametrize("turned", [False, True])
def test_a_load_into_l1_writes_whole_blocks_of_plain_tiles(cols: int, turned: bool) -> None:
    """On A5, of rows or of columns (a5/TLoad.hpp:433, 491); a pad value writes no more than that of UB."""
    shape, valid, layout = ((16, 64), (5, cols), BLayout.RowMajor)
    if turned:
        shape, valid, layout = (64, 16), (cols, 5), BLayout.ColMajor
    spec = TileSpec(dtype("float16"), TileType.Mat, *shape, *valid, blayout=layout)
    found = call("tload", "a5", dst=spec, src=spec)
    length = sum(32 for _ in range(0, cols * 2, 32))
    assert [tuple(each.extent(found)) for each in zeroed(found) if each.extent] == [(5, length, 64 * 2)]
    padded = call("tload", "a5", dst=spec.changed(pad=Pad.Zero), src=spec)
    assert zeroed(padded) == ()
