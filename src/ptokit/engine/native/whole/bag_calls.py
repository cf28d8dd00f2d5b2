"""Bags of gathered rows in machine code: a kind is prepared once, for calls of all sizes."""

from __future__ import annotations

from functools import lru_cache
from struct import Struct

from ptokit.engine.bag_arguments import BagPlaces, BagSizes, BagsKind
from ptokit.engine.kept import remember
from ptokit.engine.llvm.bag_code import supported
from ptokit.engine.native import host
from ptokit.engine.native.whole import strategies
from ptokit.engine.native.whole.block import WORDS, put_back, take_block
from ptokit.engine.native.whole.short import ShortCall
from ptokit.engine.native.whole.strategies import LONG, Team
from ptokit.engine.native.workers import Stop, thread_count

LEAST_PIECE, MOST_PIECE = 1 << 14, 1 << 20
"""Bytes of the rows of a piece, at least and at most."""
LEAST_SHARED, WOKEN = 1 << 16, 4
"""Bytes of rows that threads share, at least; how many times as many, if threads must be woken."""
FIRST, SECOND = Struct("=10q"), Struct("=5q")
"""The words of a call: from the first word on, and from the bounds on."""
CALL_WORDS = (
    "table", "index", "bounds", "weights", "other", "winners", "capacity", "count", "total", "padding", "width",
    "table_row",
)  # fmt: skip
"""Those of `BagPlaces`, of `BagSizes`, and of a row."""
BOUNDS = 8 * WORDS.index("bounds")


@lru_cache(maxsize=1024)
def prepare(kind: BagsKind, _gpu: int | None = None) -> NativeBags:
    """Bags of a kind, ready for calls. Raises `Unsupported`."""
    return NativeBags(kind)


class NativeBags:
    """Bags of a kind."""

    def __init__(self, kind: BagsKind) -> None:
        self.kind, self.row = supported(kind, host=True), kind.width * kind.dtype.size
        self.codes: dict[int | None, ShortCall] = {}
        """By how far a table is."""

    def __call__(self, places: BagPlaces, sizes: BagSizes, threads: int | None) -> bool:
        """Reduce bags; False if an index is outside of the table, or if bounds are not in order."""
        capacity, bags, lanes, padding = sizes
        row, width, here = self.row, self.kind.width, host.HOST
        far = here.locality if self.kind.index_type is not None and capacity * row > here.near else None
        alone = self.codes.get(far) or self._code(far)
        nbytes = lanes * row
        if threads == 1 or nbytes < LEAST_SHARED:
            return alone(*places, *sizes, width, row)
        team = Team(thread_count(threads), Stop(), is_long=nbytes // 6 > LONG)
        each = max(1, nbytes // bags)
        piece = max(1, LEAST_PIECE // each, min(MOST_PIECE // each, bags // (8 * team.parts)))
        if not team.is_long:
            is_whole = alone.divided(team.parts, piece, *places, *sizes, width, row)
            if is_whole is not None:
                return is_whole
        if nbytes < WOKEN * LEAST_SHARED:
            return alone(*places, *sizes, width, row)
        block = take_block(team.parts, team.stop)
        table, indices, bounds, weights, out, winners = places
        FIRST.pack_into(block.words, 0, table, out, indices, 0, 0, bags, piece, capacity, width, row)
        SECOND.pack_into(block.words, BOUNDS, bounds, weights, winners, padding, lanes)
        team.do(alone.phases[0], block)
        is_whole = block.is_whole  # before another thread can take the block
        put_back(block)
        return is_whole

    def _code(self, far: int | None) -> ShortCall:
        """The code for tables that are near, or so far."""
        code = strategies.native("bags", self.kind._replace(far=far))
        return remember(self.codes, far, ShortCall([(name, 1) for name in CALL_WORDS], "total", code, refuses=True))
