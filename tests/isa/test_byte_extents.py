"""Which bytes of an operand the headers touch besides its valid elements, each counted block by block."""

from __future__ import annotations

from typing import Any

import pytest

from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.isa.common import in_ub
from ptokit.isa.dtype import dtype
from ptokit.isa.instruction import Call
from ptokit.isa.operand import TileSpec
from ptokit.isa.parts import is_joined_inside_a_block, joined_blocks
from ptokit.isa.policy import CmpMode, TileType
from ptokit.isa.select import INVERTED, inverted, mask_rows, step_bits
from ptokit.isa.tquant import halves
from tests.loops import over

SIZES = {"int8": 1, "float16": 2, "float32": 4, "int64": 8}


def tile(kind: str, rows: int, cols: int, valid: tuple[int, int] | None = None) -> TileSpec:
    return TileSpec(dtype(kind), TileType.Vec, rows, cols, *(valid or (rows, cols)))


def up(number: int, unit: int) -> int:
    return sum(1 for _ in range(0, number, unit)) * unit


def call(name: str, target: str = "a2a3", **operands: Any) -> Call:
    instruction = INSTRUCTIONS[name]
    return Call(instruction, operands, (None,) * len(instruction.modifiers), target)


LANES = {
    "a2a3": {"int8": 256, "float16": 128, "float32": 64, "int64": 32},
    "a5": {"int8": 256, "float16": 128, "float32": 2 * 64, "int64": 32 * 8},
}
"""Lanes whose bits are stored at a time: those of 256 bytes; on A5 of two steps of 4-byte types, and of 8-byte types a
register of 32 bytes."""


@over("cols", [1, 31, 32, 33, 64, 65, 128, 129, 255, 256, 257, 300])
@pytest.mark.parametrize("kind", SIZES)
@pytest.mark.parametrize("name", ["tcmp", "tcmps"])
def test_a_comparison_stores_the_bits_of_whole_steps(name: str, kind: str, cols: int) -> None:
    data, mask = tile(kind, 16, 320, (5, cols)), tile("uint8", 16, 64, (5, 40))
    others = {param.name: data for param in INSTRUCTIONS[name].operands if param.name not in ("dst", "scalar")}
    for target, stored in (("a2a3", step_bits), ("a5", mask_rows)):
        found = stored(call(name, target, dst=mask, **others))
        assert found == (5, up(cols, LANES[target][kind]) // 8, 64), target


@pytest.mark.parametrize("mode", CmpMode)
@pytest.mark.parametrize(("rows", "cols"), [(5, 64), (3, 33), (1, 32), (7, 96)])
def test_only_ne_inverts_pairs_of_bytes_of_the_mask_as_one_run(mode: CmpMode, rows: int, cols: int) -> None:
    data, mask = tile("float32", 8, 64, (rows, 20)), tile("uint8", 8, cols, (rows, 3))
    given = Call(INSTRUCTIONS["tcmp"], {"dst": mask, "src0": data, "src1": data}, (mode,), "a2a3")
    pairs = [(i, i + 1) for i in range(0, rows * cols - 1, 2)]
    found = [each.extent(given) for each in inverted(given) if each.extent]
    assert found == ([(1, 2 * len(pairs), 0)] if mode is CmpMode.NE else [])


@over("cols", [1, 31, 32, 33, 64, 200])
@pytest.mark.parametrize(("kind", "width"), [("uint8", 32), ("uint8", 64), ("uint16", 16), ("uint32", 8)])
@pytest.mark.parametrize("rows", [1, 2, 5])
def test_ne_is_noted_where_bits_of_the_mask_are_not_inverted(rows: int, kind: str, width: int, cols: int) -> None:
    """Inverted are as many bytes as the rows of the mask have columns, of elements of any size."""
    data, mask = tile("float32", 8, 256, (rows, cols)), tile(kind, 8, width, (rows, width))
    bits = [i * width * mask.dtype.size * 8 + j for i in range(rows) for j in range(cols)]
    inverted_bits = {8 * byte + bit for byte in range(rows * width // 2 * 2) for bit in range(8)}
    for mode in (CmpMode.NE, CmpMode.EQ):
        given = Call(INSTRUCTIONS["tcmp"], {"dst": mask, "src0": data, "src1": data}, (mode,), "a2a3")
        assert INVERTED.holds(given) == (mode is CmpMode.EQ or max(bits) in inverted_bits)


@over("second", [1, 7, 8, 9, 40])
@over("first", [1, 3, 4, 8, 16, 31, 32, 33, 64])
@pytest.mark.parametrize("kind", ["int8", "float16", "float32"])
def test_a_concatenation_copies_the_last_source_that_begins_a_block_in_blocks(
    kind: str, first: int, second: int
) -> None:
    size = SIZES[kind]
    left, right = tile(kind, 8, 96, (5, first)), tile(kind, 8, 64, (5, second))
    given = call("tconcat", dst=tile(kind, 8, 128, (5, first + second)), src0=left, src1=right)
    is_inside = first * size not in range(0, 1024, 32)
    assert bool(is_joined_inside_a_block(given)) == is_inside
    copied = up(first * size, 32) if is_inside else first * size + up(second * size, 32)
    assert joined_blocks(given) == (5, copied, 128 * size)


@pytest.mark.parametrize(("cols", "pitch"), [(8, 32), (16, 32), (24, 64), (72, 160)])
def test_a_quantisation_keeps_float16_in_rows_of_whole_blocks(cols: int, pitch: int) -> None:
    """`pitch` is that of 16 numbers of 2 bytes for each block that is begun."""
    found = halves(call("tquant", dst=tile("int8", 8, 96), src=tile("float32", 8, cols, (5, 3))))
    assert found == (5, 3 + 3, pitch)


@pytest.mark.parametrize(
    ("kind", "cols", "unit", "length"),
    [
        ("float32", 5, 1, 20),
        ("float32", 5, 8, 24),
        ("float16", 5, 32, 32),
        ("int8", 33, 32, 64),
        ("int8", 33, 2, 34),
    ],
)
def test_rows_in_ub_end_at_a_multiple_of_a_unit(kind: str, cols: int, unit: int, length: int) -> None:
    found = in_ub("src", unit)(call("tmov", dst=tile(kind, 8, 64), src=tile(kind, 8, 64, (3, cols))))
    assert found == (3, length, 64 * SIZES[kind])
