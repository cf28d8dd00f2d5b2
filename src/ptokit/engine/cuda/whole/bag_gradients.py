"""Gradients of bags on a GPU: an ordered scatter of rows that lanes read through their bags, without a copy for each.

Nothing is checked, and nothing waited for: lanes of indices outside of the table add nothing.
"""

from __future__ import annotations

from functools import lru_cache

from ptokit.engine.bags import BagGradients
from ptokit.engine.cuda.device import Device, current
from ptokit.engine.cuda.whole.calls import MOST_PREPARED, PreparedMove
from ptokit.engine.cuda.whole.kinds import BagSource
from ptokit.engine.cuda.whole.pieces import PIECE
from ptokit.engine.llvm.numbers import computes, is_byte_float
from ptokit.engine.runnable import Unsupported
from ptokit.engine.whole import ZEROS, Whole
from ptokit.isa.dtype import DType, dtype
from ptokit.isa.layout import Layout
from ptokit.isa.move import Access, Combine, Index, IndexUnit, Move, Remap, Side


def run(given: BagGradients) -> None:
    """The sums of gradients of bags, by the rows of a table. Raises `Unsupported` for what has no code."""
    every = given.winners // 4 * given.dtype.size | PIECE
    """Of so many bytes are pieces at most: as many winners are loaded at a time as a piece has elements."""
    facts = given.weights != 0, given.mean, given.winners != 0, given.padding >= 0, given.closed
    shape = given.width, given.capacity, given.lanes
    move = _prepared(current(), given.dtype, given.index_type, *shape, every & -every, *facts)
    arrays = given.bounds, given.weights, given.winners
    move.run_at(given.out, given.indices, given.grad, *arrays, given.bags, given.padding, initial=ZEROS)


@lru_cache(MOST_PREPARED)
def _prepared(
    device: Device, kind: DType, index_type: DType, width: int, capacity: int, lanes: int, most: int, *facts: bool
) -> PreparedMove:
    """The scatter; its pieces have so many bytes at most, and `facts` are those of its source."""
    if not kind.is_float or is_byte_float(kind) or not computes(kind):
        raise Unsupported(f"gradients of bags of {kind}")
    rows, lane = Layout.plain(width, 1), Access("indices", Layout.plain(1, 0))
    index = Index(lane, Side.DST, IndexUnit.ROW, capacity, Remap.SKIP, cast=index_type.size != 8)
    move = Move((lanes, width), Access("table", rows), Access("src", rows), index, Combine.ADD)
    types = ("table", kind), ("indices", index_type), ("src", kind)
    whole = Whole(move, types, dtype("float32") if kind.size < 4 else None)
    made = PreparedMove(device, whole, BagSource(*facts))
    made.aligned = min(made.aligned, most)
    return made
