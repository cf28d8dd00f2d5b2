"""Bags of gathered rows: threads take pieces of the bags, and reduce each one in order.

A kind is prepared once, for calls of all sizes. Of many tables, threads take ranges of bags in one launch, whatever the
width and mode of a table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from itertools import pairwise
from struct import Struct

import numpy as np

from ptokit.engine.bag_arguments import BagPlaces, BagSizes, BagsKind, TableBags
from ptokit.engine.kept import remember
from ptokit.engine.llvm.bag_code import BagArguments, BagCode, in_columns, supported
from ptokit.engine.llvm.emit import I64, PTR, IrBuilder, IrValue, Variable
from ptokit.engine.native import host
from ptokit.engine.native.whole.block import (
    UNSIGNED,
    WORDS,
    native,
    note,
    of_unit,
    pieces,
    put_back,
    put_unit,
    take_block,
    word,
)
from ptokit.engine.native.whole.short import ShortCall
from ptokit.engine.native.whole.strategies import LONG, Team
from ptokit.engine.native.whole.updates import COUNT, WorkUnit, even, launch, team_of, words_of
from ptokit.engine.native.workers import Stop, thread_count

COLUMNS = 256
"""Bytes of a row that are reduced at a time: what registers hold."""
REFUSED = -1
"""Stands for an index that is outside of every table, where bounds are not in order."""


def reduce(code: IrBuilder, kind: BagsKind) -> None:
    """Pieces of the bags."""
    names = ("table", "index", "bounds", "weights", "other", "winners")
    addresses = [word(code, name, PTR) for name in names]
    numbers = [word(code, name) for name in ("total", "capacity", "table_row", "padding", "count")]
    given = BagArguments(*addresses, *numbers)
    greatest, read = _greatest(code)
    bag_code = BagCode(code, kind, given, read)
    with pieces(code) as number:
        first = number * word(code, "piece")
        left = given.bags - first
        piece = word(code, "piece")
        with code.loop(first, first + code.select(left.compare("slt", piece), left, piece)) as bag:
            read(code.select(bag_code.is_ordered(bag), code.i64(0), REFUSED))
            in_columns(code, kind.width, _wide(kind), partial(bag_code.reduce, bag))
    note(code, "greatest", greatest.get())


def reduce_range(code: IrBuilder, kind: BagsKind) -> None:
    """The bags of a unit, whose job has `BagArguments`; it keeps the greatest index."""
    given = BagArguments.of_job(code, of_unit(code, "job", PTR))
    greatest, read = _greatest(code)
    bag_code = BagCode(code, kind, given, read)
    with code.loop(of_unit(code, "low"), of_unit(code, "high")) as bag:
        in_columns(code, kind.width, _wide(kind), partial(bag_code.reduce, bag))
    put_unit(code, "count", greatest.get())


def _greatest(code: IrBuilder) -> tuple[Variable, Callable[[IrValue], None]]:
    """A variable, and a function that keeps the greatest index in it."""
    greatest = code.variable(I64, code.i64(0))

    def read(index: IrValue) -> None:
        known = greatest.get()
        greatest.set(code.select(index.compare("ugt", known), index, known))

    return greatest, read


def _wide(kind: BagsKind) -> int:
    """How many columns registers hold; lanes need registers as well."""
    return (COLUMNS // 2 if kind.tracked else COLUMNS) // kind.dtype.size


# --- calls ------------------------------------------------------------------------------------------------------------


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
        code = native(reduce, self.kind._replace(far=far))
        return remember(self.codes, far, ShortCall([(name, 1) for name in CALL_WORDS], "total", code, refuses=True))


# --- bags of many tables ---------------------------------------------------------------------------------------------


PIECE = 1 << 18
"""Bytes of the rows of a range."""


def run(given: Sequence[TableBags], threads: int | None) -> bool:
    """Reduce bags of tables that share their lanes; bounds of each begin where those of the one before end. False if an
    index is outside of its table, and then nothing of the result counts."""
    kinds = [_kind(each) for each in given]
    sizes = [each.sizes.lanes // len(given) * each.kind.width * each.kind.dtype.size for each in given]
    team = team_of(sum(sizes), threads)
    jobs = np.array([each.words for each in given], np.int64)
    units: list[WorkUnit] = []
    for job, (each, nbytes) in enumerate(zip(given, sizes, strict=True)):
        bags = each.sizes.bags
        cuts = even(bags, max(1, min(bags, nbytes // PIECE)) if team.threads else 1)
        units += [WorkUnit(job, a, b) for a, b in pairwise(cuts)]
    work = words_of(units, jobs, [native(reduce_range, kinds[unit.job]).address for unit in units])
    launch(work, team)
    return all(
        greatest & UNSIGNED < given[unit.job].sizes.capacity
        for unit, greatest in zip(units, work[:, COUNT].tolist(), strict=True)
    )


def _kind(bags: TableBags) -> BagsKind:
    is_far = bags.sizes.capacity * bags.kind.width * bags.kind.dtype.size > host.HOST.near
    return supported(bags.kind, far=host.HOST.locality if is_far else None, host=True)
