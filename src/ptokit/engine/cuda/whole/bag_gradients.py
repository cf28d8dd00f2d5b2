"""Gradients of bags on a GPU: an ordered scatter of rows that lanes read through their bags, without a copy for each.

Nothing is checked, and nothing waited for: lanes of indices outside of the table add nothing.
"""

from __future__ import annotations

from functools import lru_cache

from ptokit.engine.bag_arguments import BagGradients
from ptokit.engine.cuda.device import Device, current
from ptokit.engine.cuda.whole.kinds import PIECE, BagSource
from ptokit.engine.cuda.whole.moves import MOST_PREPARED, CudaMove
from ptokit.engine.llvm.numbers import computes, is_byte_float
from ptokit.engine.runnable import Unsupported
from ptokit.engine.whole import ZEROS, MoveKind, MoveSizes
from ptokit.isa.dtype import DType, dtype
from ptokit.isa.move import Combine, Remap


def run(given: BagGradients) -> None:
    """The sums of gradients of bags, by the rows of a table. Raises `Unsupported` for what has no code."""
    every = given.winners // 4 * given.dtype.size | PIECE
    """The largest size of a piece in bytes: a thread loads as many winners at a time as a piece has elements."""
    facts = given.weights != 0, given.mean, given.winners != 0, given.padding >= 0, given.closed
    move = _prepared(current(), given.dtype, given.index_type, every & -every, *facts)
    sizes = MoveSizes(given.lanes, given.width, given.capacity, given.width, 1, given.width, 1, 1)
    bags = given.bounds, given.weights, given.winners, given.bags, given.padding
    move(given.out, given.indices, given.grad, sizes, None, *bags, initial=ZEROS)


@lru_cache(MOST_PREPARED)
def _prepared(device: Device, kind: DType, index_type: DType, most: int, *facts: bool) -> CudaMove:
    """The scatter; its pieces have so many bytes at most, and `facts` are those of its source."""
    if not kind.is_float or is_byte_float(kind) or not computes(kind):
        raise Unsupported(f"gradients of bags of {kind}")
    wide = dtype("float32") if kind.size < 4 else None
    return CudaMove(device, MoveKind(False, kind, index_type, Remap.SKIP, Combine.ADD, wide), BagSource(*facts), most)
