"""Elements for far or many cells, on a processor that packs lanes: each thread's lanes side by side, block by block.

A block of lanes becomes one segment for each part of the table: pairs of a lane and its element, in order.
"""

from __future__ import annotations

from ptokit.engine.llvm.emit import I32, I64, PTR, IrBuilder, IrValue, vector
from ptokit.engine.native.whole.block import LANES_AT_ONCE, pieces, poll, scratch, word
from ptokit.engine.native.whole.mover import ELEMENTS_AT_ONCE, Mover, Rows
from ptokit.engine.native.whole.phases import Indices, packed, shared

ROOM = LANES_AT_ONCE + ELEMENTS_AT_ONCE
"""Pairs that a block has memory for: a few more, as many are written at a time."""
PAIR = 8
"""Bytes of a lane and its element."""


def can_split(rows: Rows, capacity: int) -> bool:
    """Whether a lane and its element fit a pair."""
    return rows.width == 1 and rows.size <= PAIR // 2 and capacity < 1 << 32


def split(code: IrBuilder, rows: Rows, indices: Indices) -> None:
    """Blocks of lanes, resolved and checked, to segments."""
    mover, own, total = Mover(code, rows), scratch(code), word(code, "groups")
    pairs, segments, shards = (word(code, name, PTR) for name in ("pairs", "segments", "shards"))
    at_once = ELEMENTS_AT_ONCE if rows.other_step == rows.size else 1
    with shared(code) as (first, count):
        indices.resolve(code, first + word(code, "first"), count, own, rows.lane)
        number, items = first.op("udiv", LANES_AT_ONCE), mover.item(first)
        at = code.variable(I64, number * ROOM)
        with code.loop(0, word(code, "parts")) as part:
            low, high = (code.load(I64, code.at(shards, part * 16 + 8 * k)) for k in range(2))
            low, room = (bound.to("trunc", rows.lane) for bound in (low, high - low))
            place = code.at(segments, (part * total + number) * 16)
            code.store(at.get(), place)
            for k, step in code.strips(count, at_once):
                lane = mover.lane(own, k, step)
                keep = (lane - code.splat(low, step)).compare("ult", code.splat(room, step))
                element = code.load(vector(f"i{8 * rows.size}", step), code.at(items, k * mover.other_row), 1)
                wide = lane.to("zext", vector(I64, step))
                pair = (wide << 32) | element.to("zext", vector(I64, step))
                at.set(at.get() + packed(code, pair, keep, code.at(pairs, at.get() * PAIR)))
            code.store(at.get(), code.at(place, 8))


def apply(code: IrBuilder, rows: Rows) -> None:
    """The segments of some parts of the table, one part after the other, each in order."""
    mover, total = Mover(code, rows), word(code, "groups")
    pairs, segments = (word(code, name, PTR) for name in ("pairs", "segments"))
    with pieces(code, "parts", single=True) as part, code.until() as done, code.loop(0, total) as number:
        poll(code, done)
        place = code.at(segments, (part * total + number) * 16)
        begin, end = (code.load(I64, code.at(place, 8 * k)) for k in range(2))
        here = code.at(pairs, begin * PAIR)

        def pair_at(k: IrValue, here: IrValue = here) -> tuple[IrValue, IrValue]:
            pair = code.at(here, k * PAIR)
            return mover.cell(code.load(I32, code.at(pair, PAIR // 2))), pair

        mover.store_each(end - begin, pair_at)
