"""Kernels over segments: the lanes of a row, which take effect in their order."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from ptokit.engine.cuda.whole.chain import chain
from ptokit.engine.cuda.whole.groups import Groups
from ptokit.engine.cuda.whole.site import KernelSite, Place, both, held, where
from ptokit.engine.cuda.whole.sums import Sum
from ptokit.engine.llvm.emit import IrValue
from ptokit.engine.llvm.resolve import SENTINEL


def settle(site: KernelSite) -> None:
    """Store the rows of the last lane of every row of sorted keys."""
    code = site.code
    with site.each(site.count * site.across, site.tuning.depth) as numbers:
        split = [site.split(number) for number, _ in numbers]
        found = [site.key(k) for k, _ in split]
        after = [site.key(site.near(k + 1)) for k, _ in split]
        values = [site.load(site.of_other(_known_lane(site, key), j)) for key, (_, j) in zip(found, split, strict=True)]
        for (k, j), key, later, value in zip(split, found, after, values, strict=True):
            row = site.row_of(key)
            last = k.compare("eq", site.count - 1) | site.row_of(later).compare("ne", row)
            with code.when(held(last & key.compare("ne", SENTINEL), site.open)):
                code.store(value, site.of_table(row, j), site.kind.piece)


def _known_lane(site: KernelSite, key: IrValue) -> IrValue:
    """The lane of a key; the first one for a key without."""
    return site.code.select(key.compare("ne", SENTINEL), site.lane_of(key), 0)


def alone(site: KernelSite) -> None:
    """Combine each lane that is the only one of its row."""
    code, groups, kind = site.code, Groups(site), site.kind
    sums = Sum(code, kind.combine, kind.dtype, wide=kind.wide)
    with site.each(site.count * site.across, site.tuning.depth) as numbers:
        split = [site.split(number) for number, _ in numbers]
        places = [site.known_place(*each) for each in [(i, site.read(i)) for i, _ in split]]
        shared = [groups.is_shared(place.row) for place in places]
        is_alone = [
            held(several ^ 1, site.open, counts, place.inside)
            for (_, counts), place, several in zip(numbers, places, shared, strict=True)
        ]
        with code.when(reduce(lambda a, b: a | b, is_alone)):
            lanes, rows = [i for i, _ in split], [place.row for place in places]
            lanes, rows = (_only(site, is_alone, each) for each in (lanes, rows))
            cells = [site.of_table(row, j) for row, (_, j) in zip(rows, split, strict=True)]
            olds = [site.old(site.bits, cell) for cell in cells]
            news = [site.source(i, j) for i, (_, j) in zip(lanes, split, strict=True)]
            for known, cell, old, new in zip(is_alone, cells, olds, news, strict=True):
                with code.when(known):
                    code.store(sums.end(sums.add(sums.begin(old), new)), cell, kind.piece)


def brief(site: KernelSite) -> None:
    """Combine a few lanes: the first one of each row takes the others along, in their order."""
    code, kind = site.code, site.kind
    sums = Sum(code, kind.combine, kind.dtype, wide=kind.wide)
    with site.each(site.count * site.across, 1) as numbers:
        i, j = site.split(numbers[0][0])
        place = site.place(site.read(i))
        is_later = code.variable("i1", code.constant("i1", 0))
        with code.loop(0, i, kind.tuning.scanned) as low:
            for _, same in _same_row(site, place, low, i):
                is_later.set(is_later.get() | same)
        with code.when(held(is_later.get() ^ 1, site.open, place.inside)):
            cell = site.of_table(place.row, j)
            begun = sums.begin(site.old(site.bits, cell))
            total = code.variable(begun.type, begun)
            with code.loop(i, site.count, kind.tuning.scanned) as low:
                found = _same_row(site, place, low, site.count)
                values = [site.source(code.select(same, k, i), j) for k, same in found]
                for (_, same), value in zip(found, values, strict=True):
                    total.set(code.select(same, sums.add(total.get(), value), total.get()))
            code.store(sums.end(total.get()), cell, kind.piece)


def _same_row(site: KernelSite, place: Place, low: IrValue, end: IrValue) -> list[tuple[IrValue, IrValue]]:
    """Some lanes before an end, and whether they name a row, too."""
    numbers = [low + step for step in range(site.tuning.scanned)]
    places = [site.place(site.read(site.near(k))) for k in numbers]
    return [
        (k, held(k.compare("slt", end) & other.row.compare("eq", place.row), other.inside))
        for k, other in zip(numbers, places, strict=True)
    ]


def _only(site: KernelSite, needed: Sequence[IrValue], numbers: Sequence[IrValue]) -> list[IrValue]:
    """Numbers, with one that is needed in the place of those that are not: what is loaded for these is dropped."""
    code, some = site.code, numbers[-1]
    for known, number in zip(needed[:-1], numbers[:-1], strict=True):
        some = code.select(known, number, some)
    return [code.select(known, number, some) for known, number in zip(needed, numbers, strict=True)]


def fold(site: KernelSite) -> None:
    """Combine each segment into its row, lane after lane: the first blocks the long ones, the others the rest."""
    code, groups = site.code, Groups(site)
    site.block, site.blocks = code.block - site.chains, code.blocks - site.chains
    code.choose(code.block.compare("ult", site.chains), lambda: chain(groups), lambda: _short(groups))


def _short(groups: Groups) -> None:
    """Segments that are not long: a thread takes a piece of one."""
    site, code, kind = groups.site, groups.code, groups.site.kind
    sums = Sum(code, kind.combine, kind.dtype, wide=kind.wide)
    with site.each(groups.count * site.across, 1) as numbers:
        k, j = site.split(numbers[0][0])
        first, n = groups.segment(groups.segments, k)
        place = site.place(site.read(groups.lane_at(first)))
        with where(site, both(both(site.open, place.inside), n.compare("ule", site.tuning.long))):
            cell = site.of_table(place.row, j)
            total = _sum(groups, sums, (first, n), j, sums.begin(site.old(site.bits, cell)))
            code.store(sums.end(total), cell, kind.piece)


def _sum(groups: Groups, sums: Sum, segment: Sequence[IrValue], j: IrValue, begun: IrValue) -> IrValue:
    """A sum with the rows of a segment, some loaded at a time."""
    site, code = groups.site, groups.code
    (first, n), total = segment, code.variable(begun.type, begun)
    with code.loop(0, n, site.tuning.ahead) as low:
        steps = [low + k for k in range(site.tuning.ahead)]
        inside = [step.compare("ult", n) for step in steps]
        lanes = [
            groups.lane_at(first + code.select(known, step, low)) for known, step in zip(inside, steps, strict=True)
        ]
        values = [site.source(lane, j) for lane in lanes]
        so_far = total.get()
        for known, value in zip(inside, values, strict=True):
            so_far = code.select(known, sums.add(so_far, value), so_far)
        total.set(so_far)
    return total.get()
