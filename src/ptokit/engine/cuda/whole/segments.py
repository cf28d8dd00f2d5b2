"""Kernels over sorted keys: the lanes of a row are a segment, and take effect in their order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ptokit.engine.cuda.whole.site import KernelSite, both, where
from ptokit.engine.cuda.whole.sums import Sum
from ptokit.engine.llvm.emit import I64, IrValue
from ptokit.engine.llvm.resolve import SENTINEL


def settle(site: KernelSite) -> None:
    """Store the rows of the last lane of every segment of the keys."""
    code = site.code
    with site.each(site.count * site.across, site.tuning.depth) as numbers:
        split = [site.split(number) for number, _ in numbers]
        found = [site.key(k) for k, _ in split]
        after = [site.key(site.near(k + 1)) for k, _ in split]
        values = [site.load(site.of_other(_known_lane(site, key), j)) for key, (_, j) in zip(found, split, strict=True)]
        for (k, j), key, later, value in zip(split, found, after, values, strict=True):
            row = site.row_of(key)
            last = k.compare("eq", site.count - 1) | site.row_of(later).compare("ne", row)
            held = both(site.open, last & key.compare("ne", SENTINEL))
            with where(site, held):
                code.store(value, site.of_table(row, j), site.kind.piece)


def _known_lane(site: KernelSite, key: IrValue) -> IrValue:
    """The lane of a key; the first one for a key without."""
    return site.code.select(key.compare("ne", SENTINEL), site.lane_of(key), 0)


def fold(site: KernelSite) -> None:
    """Combine each short segment of the keys into its row, lane after lane; list the long ones."""
    code, sums = site.code, Sum(site.code, site.kind.combine, site.kind.dtype, wide=site.kind.wide)
    with site.each(site.count * site.across, site.tuning.depth) as numbers:
        taken: list[IrValue] = []
        split = [site.split(number) for number, _ in numbers]
        found = [site.key(k) for k, _ in split]
        before = [site.key(code.select(k.compare("eq", 0), k, k - 1)) for k, _ in split]
        beyond = [site.key(site.near(k + site.tuning.long)) for k, _ in split]
        rows = [site.row_of(key) for key in found]
        for n, (k, j) in enumerate(split):
            first = k.compare("eq", 0) | site.row_of(before[n]).compare("ne", rows[n])
            head = both(both(site.open, numbers[n][1]), first & found[n].compare("ne", SENTINEL))
            assert head is not None
            is_long = site.row_of(beyond[n]).compare("eq", rows[n]) & (k + site.tuning.long).compare("slt", site.count)
            with code.when(head & is_long & j.compare("eq", 0)):
                at = code.write(I64, f"atomicrmw add {site.work!r}, i64 1 monotonic")
                code.store(k, code.at(site.work, (at + 1) * 8))
            taken.append(head & (is_long ^ 1))
        some = taken[0]
        for each in taken[1:]:
            some = some | each
        with code.when(some):
            _fold(site, sums, split, found, rows, taken)


def _fold(
    site: KernelSite,
    sums: Sum,
    split: Sequence[tuple[IrValue, IrValue]],
    keys: Sequence[IrValue],
    rows: Sequence[IrValue],
    taken: Sequence[IrValue],
) -> None:
    """Segments that begin at some keys, if they are taken: the first row of all of them, then the others."""
    code = site.code
    cells = [site.of_table(code.select(held, row, 0), j) for held, row, (_, j) in zip(taken, rows, split, strict=True)]
    firsts = [
        site.of_other(code.select(held, site.lane_of(key), 0), j)
        for held, key, (_, j) in zip(taken, keys, split, strict=True)
    ]
    olds = [code.load(site.bits, cell, site.kind.piece) for cell in cells]
    news = [site.load(at) for at in firsts]
    for (k, j), held, row, cell, old, new in zip(split, taken, rows, cells, olds, news, strict=True):
        with code.when(held):
            start = sums.add(sums.begin(old), new)
            total = code.variable(start.type, start)
            _rest(site, sums, k, j, row, total.get, total.set)
            code.store(sums.end(total.get()), cell, site.kind.piece)


def _rest(
    site: KernelSite,
    sums: Sum,
    k: IrValue,
    j: IrValue,
    row: IrValue,
    get: Callable[[], IrValue],
    put: Callable[[IrValue], None],
) -> None:
    """The rows of a short segment after its first."""
    code = site.code
    with code.until() as done, code.loop(k + 1, k + site.tuning.long, site.tuning.ahead) as first:
        places = [first + step for step in range(site.tuning.ahead)]
        found = [site.key(site.near(place)) for place in places]
        same = [
            site.row_of(key).compare("eq", row) & place.compare("slt", site.count)
            for key, place in zip(found, places, strict=True)
        ]
        go_on = code.new_label("more")
        code.split(same[0], go_on, done)
        code.begin(go_on)
        lanes = [site.lane_of(code.select(held, key, found[0])) for held, key in zip(same, found, strict=True)]
        values = [site.load(site.of_other(lane, j)) for lane in lanes]
        total = get()
        for held, value in zip(same, values, strict=True):
            total = code.select(held, sums.add(total, value), total)
        put(total)
        code.split(same[-1], again := code.new_label("again"), done)
        code.begin(again)
