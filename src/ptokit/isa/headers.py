"""What the vendor's C++ headers of August 2026 refuse beyond the rules of instructions: shared rules."""

from __future__ import annotations

from collections.abc import Mapping

from ptokit.isa.common import names
from ptokit.isa.instruction import ALWAYS, Call, Case, Rule, error
from ptokit.isa.operand import TileSpec
from ptokit.isa.policy import TileType
from ptokit.isa.table import Table
from ptokit.isa.vector import types

CLAUSE = "CP-HDR-01"
EIGHT_TO_32 = "i8 u8 i16 u16 i32 u32 f16 bf16 f32"
EIGHT_TO_64 = f"{EIGHT_TO_32} i64 u64"
"""The types that A2/A3 loads and stores: no 8-bit floats."""
SHORT = "i16 u16 i32 u32 f16 f32"
"""The types that the simulator combines with a number for each row or column."""


def typed(operand: str, table: Mapping[str, str], when: Case = ALWAYS) -> Rule:
    """The element types that the headers assert, by target."""
    allowed = Table({target: types(listed) for target, listed in table.items()})
    return Rule(
        CLAUSE, operand, lambda c: f"one of {names(c.here(allowed))} for the C++ headers",
        lambda c: c.values[operand].dtype in c.here(allowed), on=error(*table), when=when,
        found=lambda c: str(c.values[operand].dtype), fix="tcvt converts between types",
    )  # fmt: skip


def _typed_extents(tile: TileSpec) -> tuple[int | None, ...]:
    """The valid extents that are part of the type."""
    return tuple(None if dynamic else extent for extent, dynamic in zip(tile.valid, tile.dynamic, strict=True))


def one_type(first: str, *others: str, on: tuple[str, ...]) -> Rule:
    """Operands for which the headers have one template parameter."""

    def kinds(call: Call) -> set[object]:
        tiles = (call.values[name] for name in (first, *others))
        return {(t.rows, t.cols, t.blayout, t.pad, *_typed_extents(t)) for t in tiles}

    return Rule(
        CLAUSE, first, f"of one tile type with {' and '.join(others)}, valid extents included",
        lambda c: len(kinds(c)) == 1, on=error(*on), fix="give the tiles one shape, and the same valid extents",
    )  # fmt: skip


def between(*pairs: tuple[TileType, TileType]) -> Case:
    """One of these pairs of source and destination memory."""
    text = " or ".join(f"{src.name} to {dst.name}" for src, dst in pairs)
    return Case(text, lambda c: (c.src.loc, c.dst.loc) in pairs)


IN_UB = between((TileType.Vec, TileType.Vec))
