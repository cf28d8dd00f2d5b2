"""Bags of gathered rows in machine code: calls, prepared once for bags of one kind and number."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial

from ptokit.engine.bags import Bags
from ptokit.engine.llvm.bags import BagKind
from ptokit.engine.native import host
from ptokit.engine.native.whole import strategies
from ptokit.engine.native.whole.block import WORDS, ArgumentBlock
from ptokit.engine.native.whole.strategies import LONG, Team
from ptokit.engine.native.workers import Stop, thread_count
from ptokit.engine.runnable import Unsupported

LEAST_PIECE, MOST_PIECE = 1 << 14, 1 << 20
"""Bytes of the rows of a piece, at least and at most."""
LEAST_SHARED = 1 << 18
"""Bytes of rows for which threads are woken, at least."""
MOST_IDLE = 2
ADDRESSES = ("table", "index", "bounds", "weights", "other", "winners")
"""The words of a block that are addresses of operands."""
PLACES = tuple(map(WORDS.index, ADDRESSES))
ALONE = Team(0, Stop())
"""The calling thread."""
COUNTER, GREATEST = map(WORDS.index, ("counter", "greatest"))


class _ReadyBags:
    """Bags, ready for calls."""

    def __init__(self, bags: Bags) -> None:
        row = bags.width * bags.dtype.size
        is_far = bags.index_type is not None and bags.capacity * row > host.HOST.near
        kind = BagKind.of(bags, far=host.HOST.locality if is_far else None, host=True)
        if not kind.is_supported:
            raise Unsupported(f"bags of {kind.dtype}")
        self.code = strategies.native("bags", kind)
        self.words = {
            "total": bags.lanes, "capacity": bags.capacity, "table_row": row, "padding": bags.padding,
            "count": bags.bags,
        }  # fmt: skip
        self.nbytes, self.bags = bags.lanes * row, max(1, bags.bags)
        self.spare: list[ArgumentBlock] = []

    def run_at(self, threads: int | None, *addresses: int) -> bool:
        """Reduce bags at `Bags.places`; False if an index is outside of the table, or if bounds are not in order."""
        team = ALONE
        if self.nbytes >= LEAST_SHARED and threads != 1:
            team = Team(thread_count(threads), Stop(), is_long=self.nbytes // 6 > LONG)
        block = self._block(team)
        words = block.words
        for at, address in zip(PLACES, addresses, strict=True):
            words[at] = address
        words[COUNTER] = words[GREATEST] = 0
        if team is ALONE:
            self.code(block.address, 0)
        else:
            block.stop = team.stop
            block.set(stop=team.stop.address)
            team.do(self.code, block)
        is_whole = block.is_whole  # before another thread can take the block
        if len(self.spare) < MOST_IDLE:
            self.spare.append(block)
        return is_whole

    def _block(self, team: Team) -> ArgumentBlock:
        """A block with the words of a call but for its addresses."""
        try:
            block = self.spare.pop()
        except IndexError:
            block = None
        if block is None or block.most_workers != team.parts:
            each = max(1, self.nbytes // self.bags)
            least, most, even = LEAST_PIECE // each, MOST_PIECE // each, self.bags // (8 * team.parts)
            piece = max(1, least, min(most, even)) if team.threads else self.bags
            block = ArgumentBlock(team.parts, team.stop, piece=piece, **self.words)
        return block


@lru_cache(maxsize=1024)
def _prepared(kind: Bags) -> _ReadyBags:
    return _ReadyBags(kind)


def repeated(bags: Bags, threads: int | None) -> Callable[..., bool]:
    """Bags like these, to be called with `Bags.places`; it returns False as `run` does."""
    return partial(_prepared(bags.anywhere).run_at, threads)


def run(bags: Bags, threads: int | None) -> bool:
    """Reduce bags. False if an index is outside of the table, or if bounds are not in order: then nothing of the result
    counts."""
    return _prepared(bags.anywhere).run_at(threads, *bags.places)
