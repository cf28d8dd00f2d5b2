"""What the vendor's C++ headers of August 2026 refuse beyond the rules of instructions: shared rules.

In a check, what does not compile is a hazard, and what the headers compute differently is a note (CP-HDR-01). C++ is
refused for both.
"""
# ruff: noqa: F403, F405

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from ptokit.isa.vocabulary import *

CLAUSE = "CP-HDR-01"
EIGHT_TO_32 = "i8 u8 i16 u16 i32 u32 f16 bf16 f32"
EIGHT_TO_64 = f"{EIGHT_TO_32} i64 u64"
"""The types that A2/A3 loads and stores: no 8-bit floats."""
SIMULATED = "i16 u16 i32 u32 f16 f32"
"""The types that the simulator combines with a number for each row or column."""


def typed_in_headers(operand: str, table: Mapping[str, str], when: Case = ALWAYS) -> Rule:
    """The element types that the headers assert, by target."""
    allowed = Table({target: types(listed) for target, listed in table.items()})
    return Rule(
        CLAUSE, operand, lambda c: f"one of {names(c.lookup(allowed))} for the C++ headers",
        lambda c: c.values[operand].dtype in c.lookup(allowed), on=hazard(*table), when=when, found=type_of(operand),
        fix=CONVERT,
    )  # fmt: skip


def first_64(operand: str, data: str = "") -> Rule:
    """A5 takes one register of a row (Int64Binary.hpp:109, 136, 292, 332, 358; Int64Div.hpp:190; Int64Reduce.hpp:40;
    Int64Rearrange.hpp:29, 62, 81, 109, 166)."""
    return Rule(
        CLAUSE, operand, "of at most 64 columns of 8 bytes: shipping headers take the first 64 of a row only",
        lambda c: c.values[data or operand].dtype.size < 8 or c.values[operand].valid_cols <= 64,
        on=note("a5"), fix="take slices of 64 columns",
    )  # fmt: skip


def one_register(operand: str = "dst") -> Cpp:
    """The headers of an instruction that takes 64 columns of 8-byte types."""
    return Cpp(headers=(first_64(operand),))


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
        lambda c: len(kinds(c)) == 1, on=hazard(*on), fix="give the tiles one shape, and the same valid extents",
    )  # fmt: skip


def becomes_row(call: Call, name: str) -> bool:
    """Whether a column is written as a row of the same bytes: the headers require it of row numbers and narrow rows."""
    tile = call.values[name]
    if not isinstance(tile, TileSpec) or tile.cols != 1:
        return False
    if call.instruction.cpp.is_transfer:
        (tensor,) = (spec for spec in call.operands.values() if isinstance(spec, TensorSpec))
        return tile.format == "nd" and tile.rows > 1 and 1 in (tensor.shape[3], tensor.stride[3])
    is_row = call.instruction.cpp.row_index
    return is_row is not None and name == call.instruction.roles.get("index") and is_row(call)


def as_row(spec: TileSpec) -> TileSpec:
    """A column as a row of the same bytes."""
    return TileSpec(
        spec.dtype, spec.loc, 1, spec.rows, 1, spec.valid_rows, pad=spec.pad, dynamic=(False, spec.dynamic[0])
    )


def whole_block(clause: str, tensor: str, tile: str, memory: Callable[[Call], TensorSpec]) -> Rule:
    """C++ moves all of a block that cannot be cut to the tile's valid region; elsewhere a larger block means its first
    rows and columns (TL-03)."""

    def valid(call: Call) -> tuple[int, int]:
        spec = call.values[tile]
        return (1, spec.valid_rows) if becomes_row(call, tile) else spec.valid

    several = Case("of several outer dims, or of fractals", lambda c: c.values[tensor].shape[:3] != (1, 1, 1)
                   or c.values[tensor].layout_kind not in PLAIN_LAYOUTS)  # fmt: skip
    return Rule(
        clause, tensor, lambda c: f"{show_extents(valid(c))}, the tile's valid region, for the C++ headers",
        lambda c: all(has <= wanted for has, wanted in zip(memory(c).extents, valid(c), strict=True)),
        on=note(*FAMILIES), when=several, found=lambda c: show_extents(memory(c).extents),
        fix="slice the block to the tile's valid extents",
    )  # fmt: skip


def whole_boxes(spec: TileSpec) -> tuple[str, str] | None:
    """What a C++ tile type asserts of its storage, and what it has instead; None if that holds."""
    if spec.slayout is SLayout.NoneBox:
        expected = f"of rows (or columns, if it is ColMajor) that are a multiple of {BLOCK} bytes"
        return (expected, f"{spec.burst_bytes} bytes") if spec.burst_bytes % BLOCK else None
    rows, cols = spec.box
    free_rows = spec.loc is TileType.Vec or spec.rows == 1
    whole = spec.cols % cols == 0 and (free_rows or spec.rows % rows == 0)
    return None if whole else (f"of whole boxes of {rows} x {cols}", f"{spec.rows} x {spec.cols}")


def between(*pairs: tuple[TileType, TileType]) -> Case:
    """One of these pairs of source and destination memory."""
    text = " or ".join(f"{src.name} to {dst.name}" for src, dst in pairs)
    return Case(text, lambda c: (c.src.loc, c.dst.loc) in pairs)


IN_UB = between((TileType.Vec, TileType.Vec))


class _MovedRows(NamedTuple):
    """Rows of a tensor, valid ones of a tile, all of it; columns of the tensor, valid ones; rows of one transfer."""

    rows: int
    valid: int
    size: int
    cols: int
    valid_cols: int
    burst: int


def moved_in_cpp(clause: str, tensor: str, tile: str, memory: Callable[[Call], TensorSpec]) -> tuple[Rule, ...]:
    """C++ moves all rows of the tensor, whatever is valid of the tile (TL-03; tload_common.hpp:54,
    tstore_common.hpp:367, a2a3/TLoad.hpp:113, a5/TLoad.hpp:44, 426). A2/A3 finds the next row by the valid columns,
    which must be those of the tensor. Of a ColMajor tile, columns are rows here."""

    def along(call: Call) -> _MovedRows:
        spec, axis, block = call.values[tile], int(call.values[tile].format == "dn"), memory(call)
        extents, valid, size = block.extents, spec.valid, (spec.rows, spec.cols)
        return _MovedRows(
            extents[axis], valid[axis], size[axis], extents[1 - axis], valid[1 - axis], block.shape[3 + axis]
        )

    def is_plain(call: Call) -> bool:
        spec = call.values[tile]
        is_in_place = spec.loc in (TileType.Vec, TileType.Mat)
        return is_in_place and spec.format in ("nd", "dn") and spec.format == memory(call).layout_kind.text

    def rule(wanted: str, holds: Callable[[_MovedRows], bool], level: Mapping[str, Level]) -> Rule:
        return Rule(
            clause, tensor, wanted, lambda c: holds(along(c)), on=level, when=plain, kind=ByExtent(),
            found=lambda c: f"{show_extents(memory(c).extents)} for {show_extents(c.values[tile].valid)}",
            fix="give the tensor the shape of the valid region",
        )  # fmt: skip

    plain = Case("a plain tile in UB or L1", is_plain)
    return (
        rule("of no more rows than the tile: C++ moves all of them, and goes on behind the tile",
             lambda r: r.rows <= r.size, error(*FAMILIES)),
        rule("of as many rows as are valid: C++ moves all of them",
             lambda r: r.rows <= r.valid or r.rows > r.size, hazard(*FAMILIES)),
        rule("of as many columns as are valid: C++ takes the next row from another place",
             lambda r: r.burst <= 1 or r.cols <= r.valid_cols, error("a2a3")),
    )  # fmt: skip
