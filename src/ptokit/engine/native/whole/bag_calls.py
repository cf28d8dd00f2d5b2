"""Bags of gathered rows in machine code: a call."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from ptokit.engine.bags import Bags
from ptokit.engine.llvm.bags import BagKind
from ptokit.engine.native import host
from ptokit.engine.native.whole import strategies
from ptokit.engine.native.whole.block import WORDS, ArgumentBlock
from ptokit.engine.native.whole.strategies import Native, Team
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
COUNTER, GREATEST = map(WORDS.index, ("counter", "greatest"))


_spare: list[ArgumentBlock] = []
"""Cached blocks for little work."""


@lru_cache(maxsize=1024)
def _code(*facts: Any, far: bool) -> Native:
    """The code for such bags."""
    kind = BagKind(*facts, far=far, host=True)
    if not kind.is_supported:
        raise Unsupported(f"bags of {kind.dtype}")
    return strategies.native("bags", kind)


def _words(bags: Bags) -> dict[str, int]:
    """The words of a block that do not change from call to call."""
    row = bags.width * bags.dtype.size
    return {
        "total": bags.lanes, "capacity": bags.capacity, "table_row": row, "padding": bags.padding, "count": bags.bags,
    }  # fmt: skip


def _code_of(bags: Bags) -> Native:
    row = bags.width * bags.dtype.size
    far = bags.index_type is not None and bags.capacity * row > host.HOST.near
    options = bags.weights != 0, bags.padding >= 0, bags.combine, bags.width, bags.winners != 0
    return _code(bags.dtype, bags.index_type, *options, far=far)


def small(bags: Bags) -> Callable[..., bool] | None:
    """Bags like these, to be called with the addresses of `ADDRESSES`; None if threads may share the work.

    It returns False if an index is outside of the table.
    """
    if bags.lanes * bags.width * bags.dtype.size >= LEAST_SHARED:
        return None
    code, words, checks = _code_of(bags), _words(bags) | {"piece": max(1, bags.bags)}, bags.index_type is not None
    spare: list[ArgumentBlock] = []

    def run_at(*addresses: int) -> bool:
        try:
            block = spare.pop()
        except IndexError:
            block = ArgumentBlock(1, Stop(), **words)
        found = block.words
        for at, address in zip(PLACES, addresses, strict=True):
            found[at] = address
        found[COUNTER] = found[GREATEST] = 0
        code(block.address, 0)
        is_whole = not checks or block.is_whole
        spare.append(block)
        return is_whole

    return run_at


def run(bags: Bags, threads: int | None) -> bool:
    """Reduce bags; False if an index is outside of the table, and then nothing of the result counts."""
    row = bags.width * bags.dtype.size
    nbytes = bags.lanes * row
    code = _code_of(bags)
    team = Team(thread_count(threads) if nbytes >= LEAST_SHARED and threads != 1 else 0, Stop())
    each = max(1, nbytes // max(1, bags.bags))
    piece = max(1, LEAST_PIECE // each, min(MOST_PIECE // each, bags.bags // (8 * team.parts)))
    try:
        block = _spare.pop() if not team.threads else ArgumentBlock(team.parts, team.stop)
    except IndexError:
        block = ArgumentBlock(team.parts, team.stop)
    block.stop = team.stop
    block.set(
        table=bags.table, index=bags.indices, bounds=bags.bounds, weights=bags.weights, other=bags.out,
        winners=bags.winners, piece=piece, counter=0, greatest=0, stop=team.stop.address, **_words(bags),
    )  # fmt: skip
    team.do(code, block)
    is_whole = bags.index_type is None or block.is_whole
    if not team.threads and len(_spare) < MOST_IDLE:
        _spare.append(block)
    return is_whole
