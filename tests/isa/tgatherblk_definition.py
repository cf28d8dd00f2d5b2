"""TGATHERBLK: 32-byte blocks of a tile into another tile, picked by block number. No target has it.

The test beside it adds this definition to the catalogue. Nothing else knows the instruction, and no other one has
operands of these names.
"""

from __future__ import annotations

from ptokit.isa.common import (
    ALL,
    REMAPS,
    OpRow,
    Text,
    alike,
    build,
    by_target,
    everywhere,
    filled,
    plain,
    typed,
    types,
    vec,
)
from ptokit.isa.instruction import EVERYWHERE, Call, Fault, Instruction, Modifier, Param, Rule, always, error
from ptokit.isa.layout import Layout, Term
from ptokit.isa.move import Access, Index, IndexUnit, Move, Side
from ptokit.isa.operand import TileSpec
from ptokit.isa.policy import GatherOOB
from ptokit.isa.spelling import Attribute, Workspace, same_as

DATA = by_target(a2a3=ALL, a5=ALL)
NUMBERS = everywhere(types("i32 u32"))


def blocks_of(call: Call) -> int:
    """32-byte blocks of a row of the destination."""
    return call.picked.valid_cols // call.picked.dtype.c0


def by_block(tile: TileSpec, blocks: int, step: int) -> tuple[Term, ...]:
    """Where block number n of a plain tile begins: its row, then its place in the row."""
    strides = tile.layout.strides
    assert strides is not None
    return (Term(strides[0], blocks), Term(step, 1, blocks))


def lower(call: Call) -> tuple[Move, ...]:
    """One row of the iteration space for each block."""
    picked, pool, blocks, c0 = call.picked, call.pool, blocks_of(call), call.picked.dtype.c0
    numbers = Access("numbers", Layout(by_block(call.numbers, blocks, 1), ()))
    index = Index(numbers, Side.SRC, IndexUnit.ROW, pool.elements // c0, REMAPS[call.oob])
    target = Access("picked", Layout(by_block(picked, blocks, c0), (Term(1),)))
    return (Move((picked.valid_rows * blocks, c0), target, Access("pool", Layout.plain(c0, 1)), index),)


TGATHERBLK: Instruction = build(
    OpRow(
        "tgatherblk",
        "Gather 32-byte blocks of a tile by their numbers.",
        "block j of picked[i] = block numbers[i, j] of pool    blocks are counted through the tile's storage",
        DATA,
        in_place=(),
        faults={
            "outside": Fault("CP-GAT-03", "H-12", "keep block numbers inside the source tile"),
            "negative": Fault("CP-GAT-03", "H-12", "keep block numbers from 0 up"),
            "shared": Fault("CP-GAT-03", None, "gather into another tile"),
        },
    ),
    (
        Param("picked", "write", "destination: a plain Vec tile"),
        Param("pool", "read", "a Vec tile of the destination's type", contiguous="always"),
        Param("numbers", "read", "block numbers", role="index"),
    ),
    (
        *(vec("CP-GAT-01", name) for name in ("picked", "pool", "numbers")),
        filled("CP-GAT-01", "picked"),
        *(plain("CP-GAT-01", name) for name in ("picked", "pool", "numbers")),
        Rule(
            "CP-GAT-01",
            "numbers",
            lambda c: f"of {c.picked.valid_rows} valid rows, a number for each 32-byte block of picked",
            lambda c: c.numbers.valid == (c.picked.valid_rows, c.picked.valid_cols / c.picked.dtype.c0),
            on=error(*EVERYWHERE),
            blocks="execution",
        ),
        typed("CP-GAT-02", "picked", DATA),
        alike("CP-GAT-02", "pool", "picked"),
        typed("CP-GAT-02", "numbers", NUMBERS),
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
    cpp="TGATHERBLK(picked, pool, numbers, tmp, oob)",
    text=Text(("pool", "numbers", "tmp")),
    workspace=Workspace(2, same_as("numbers")),
)
"""The instruction, as data."""
