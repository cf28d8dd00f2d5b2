"""TGATHERBLK: 32-byte blocks of a tile into another tile, picked by block number. No target has it.

The test beside it adds this definition to the catalogue. Nothing else knows the instruction.
"""

from __future__ import annotations

from ptokit.isa.common import REMAPS
from ptokit.isa.elementwise import DST
from ptokit.isa.instruction import EVERYWHERE, Call, Fault, Instruction, Modifier, Param, Rule, always, error
from ptokit.isa.layout import Layout, Term
from ptokit.isa.move import Access, Index, Move, Side, Unit
from ptokit.isa.operand import TileSpec
from ptokit.isa.policy import GatherOOB
from ptokit.isa.spelling import Attribute, Workspace, same_as
from ptokit.isa.vector import ALL, OpRow, Text, alike, build, by_target, filled, plain, typed, types, vec

DATA = by_target(ALL, ALL)
NUMBERS = by_target(*(types("i32 u32"),) * 4)


def blocks_of(call: Call) -> int:
    """32-byte blocks of a row of the destination."""
    return call.dst.valid_cols // call.dst.dtype.c0


def by_block(tile: TileSpec, blocks: int, step: int) -> tuple[Term, ...]:
    """Where block number n of a plain tile begins: its row, then its place in the row."""
    strides = tile.layout.strides
    assert strides is not None
    return (Term(strides[0], blocks), Term(step, 1, blocks))


def lower(call: Call) -> tuple[Move, ...]:
    """One row of the iteration space for each block."""
    dst, src, blocks, c0 = call.dst, call.src, blocks_of(call), call.dst.dtype.c0
    numbers = Access("offsets", Layout(by_block(call.offsets, blocks, 1), ()))
    index = Index(numbers, Side.SRC, Unit.ROW, src.elements // c0, REMAPS[call.oob])
    target = Access("dst", Layout(by_block(dst, blocks, c0), (Term(1),)))
    return (Move((dst.valid_rows * blocks, c0), target, Access("src", Layout.plain(c0, 1)), index),)


TGATHERBLK: Instruction = build(
    OpRow(
        "tgatherblk",
        "Gather 32-byte blocks of a tile by their numbers.",
        "block j of dst[i] = block offsets[i, j] of src    blocks are counted through the tile's storage",
        DATA,
        in_place=(),
        faults={
            "outside": Fault("CP-GAT-03", "H-12", "keep block numbers inside the source tile"),
            "negative": Fault("CP-GAT-03", "H-12", "keep block numbers from 0 up"),
            "shared": Fault("CP-GAT-03", None, "gather into another tile"),
        },
    ),
    (
        DST,
        Param("src", "read", "a Vec tile of the destination's type", contiguous="always"),
        Param("offsets", "read", "block numbers"),
    ),
    (
        *(vec("CP-GAT-01", name) for name in ("dst", "src", "offsets")),
        filled("CP-GAT-01"),
        *(plain("CP-GAT-01", name) for name in ("dst", "src", "offsets")),
        Rule(
            "CP-GAT-01",
            "offsets",
            lambda c: f"of {c.dst.valid_rows} valid rows, a number for each 32-byte block of dst",
            lambda c: c.offsets.valid == (c.dst.valid_rows, c.dst.valid_cols / c.dst.dtype.c0),
            on=error(*EVERYWHERE),
            firm=True,
        ),
        typed("CP-GAT-02", "dst", DATA),
        alike("CP-GAT-02", "src"),
        typed("CP-GAT-02", "offsets", NUMBERS),
    ),
    lower,
    modifiers=(
        Modifier(
            "oob",
            GatherOOB,
            always(GatherOOB.Undefined),
            "what a number outside the source does",
            text=Attribute("gatherOob", "gather_oob", suffix=True),
        ),
    ),
    cpp="TGATHERBLK(dst, src, offsets, tmp, oob)",
    text=Text(("src", "offsets", "tmp")),
    workspace=Workspace(2, same_as("offsets")),
)
"""The instruction, as data."""
