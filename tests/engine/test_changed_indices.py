"""Moves that overwrite their own index: every lane uses the value that is there when its turn comes, and checks it."""

from __future__ import annotations

import numpy as np
import pytest

from ptokit.engine.faults import IndexFault, SpanFault
from ptokit.engine.reference import Plan
from ptokit.engine.storage import Storage
from ptokit.isa.dtype import dtype
from ptokit.isa.layout import Layout
from ptokit.isa.move import Access, Index, IndexUnit, Move, Remap, Side

I4 = dtype("int32")
LANES, ROOM, CAPACITY = 8, 10, 100
"""The index may name 100 elements, and the operand holds ten of them."""


def plan(side: Side) -> Plan:
    line = Layout.plain(0, 1)
    index = Index(Access("idx", line), side, IndexUnit.ELEMENT, CAPACITY, Remap.REFUSE)
    move = Move((1, LANES), Access("dst", line), Access("src", line), index)
    sizes = {"dst": LANES, "src": LANES, "idx": LANES, "src" if side is Side.SRC else "dst": ROOM}
    return Plan(
        (move,), dict.fromkeys(("dst", "src", "idx"), I4), {name: sizes[name] for name in ("dst", "src", "idx")}
    )


def run(side: Side, table: list[int], memory: list[int]) -> list[int]:
    """A gather writes one element behind its index; a scatter writes over its index from the start."""
    shared, other = np.array(memory, "int32").view("uint32"), np.array(table, "int32").view("uint32")
    idx = Storage(shared[:LANES], I4)
    if side is Side.SRC:
        storages = [Storage(shared[1 : LANES + 1], I4), Storage(other, I4), idx]
    else:
        storages = [Storage(shared, I4), Storage(other, I4), idx]
    made = plan(side)
    lanes, _ = made.resolve(storages)
    assert made.run(storages, lanes) == "in order"
    return shared.view("int32").tolist()


def naive(side: Side, table: list[int], memory: list[int]) -> list[int]:
    held = list(memory)
    for lane in range(LANES):
        at = held[lane]
        if side is Side.SRC:
            held[lane + 1] = table[at]
        else:
            held[at] = table[lane]
    return held


def start(side: Side) -> tuple[list[int], list[int]]:
    """A table and the shared memory; all numbers name elements that there are."""
    if side is Side.SRC:
        return [3, 5, 7, 1, 9, 2, 0, 8, 6, 4], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
    return [6, 3, 1, 9, 2, 0, 8, 7], [2, 4, 5, 1, 0, 9, 3, 8, 0, 0]


@pytest.mark.parametrize("side", Side)
def test_lanes_take_effect_one_after_the_other(side: Side) -> None:
    table, memory = start(side)
    assert run(side, table, memory) == naive(side, table, memory)


@pytest.mark.parametrize("side", Side)
@pytest.mark.parametrize("value", [ROOM, 50, CAPACITY - 1])
def test_an_index_that_becomes_too_large_for_the_operand_is_refused(side: Side, value: int) -> None:
    table, memory = start(side)
    table[0] = value
    with pytest.raises(SpanFault, match=f"element {value}, but has {ROOM}"):
        run(side, table, memory)


@pytest.mark.parametrize("side", Side)
@pytest.mark.parametrize("value", [CAPACITY, 2**31 - 1, -1])
def test_an_index_that_becomes_too_large_for_the_table_is_refused_with_its_lane(side: Side, value: int) -> None:
    table, memory = start(side)
    table[0] = value
    with pytest.raises(IndexFault) as fault:
        run(side, table, memory)
    assert fault.value.report.lane == (0, 1 if side is Side.SRC else 2)
