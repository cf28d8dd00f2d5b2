"""The kernel that sorts the lanes of each segment: by counting; more of them in shared memory, or by bitmaps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ptokit.engine.cuda.whole.groups import ATOMIC, LONGER, NOWHERE, WORD, Groups, bit_length, in_words, lower
from ptokit.engine.cuda.whole.site import KernelSite
from ptokit.engine.llvm.emit import I32, I64, IrValue

DEEP = 8
"""Lanes of a segment that a thread loads at a time."""


def arrange(site: KernelSite) -> None:
    """Sort the lanes of each segment: a block those of a long one; others go where as many lanes are before them."""
    code, groups = site.code, Groups(site)
    with code.spread(0, groups.number(LONGER)) as k:
        first, n = groups.segment(groups.longer, k)
        fits = n.compare("ule", most_sorted(code.chip.lanes, site.tuning.words))
        code.choose(fits, lambda: _sort_shared(groups, first, n), lambda: _sort_marked(groups, first, n))
    with site.each(groups.places, 1) as places:
        own = groups.word(groups.placed, places[0][0])
        first, n = groups.segment(groups.slots, own >> 32)
        with code.when(n.compare("ule", site.tuning.short)):
            before = code.variable(I64, code.i64(0))
            with code.loop(0, n, DEEP // 2) as k:
                for inside, _, lane in _deep(groups, first, n, [k + step for step in range(DEEP // 2)]):
                    less = lane.compare("ult", lower(own)) & inside
                    before.set(before.get() + less.to("zext", I64))
            groups.put(groups.order, first + before.get(), own)


def _deep(groups: Groups, first: IrValue, n: IrValue, numbers: Sequence[IrValue]) -> list[tuple[IrValue, ...]]:
    """Lanes of a segment that are loaded at a time: whether there is one, its number, and the lane."""
    code = groups.code
    inside = [k.compare("ult", n) for k in numbers]
    places = [first + code.select(held, k, 0) for held, k in zip(inside, numbers, strict=True)]
    found = [lower(groups.word(groups.placed, place)) for place in places]
    return list(zip(inside, numbers, found, strict=True))


def _all_lanes(groups: Groups, first: IrValue, n: IrValue) -> Iterator[tuple[IrValue, IrValue]]:
    """The lanes of a segment that fall to a thread, with their numbers."""
    code, lanes = groups.code, groups.code.chip.lanes
    with code.loop(groups.code.lane, n, lanes * DEEP) as k:
        for inside, number, lane in _deep(groups, first, n, [k + lanes * step for step in range(DEEP)]):
            with code.when(inside):
                yield number, lane


def most_sorted(lanes: int, words: int) -> int:
    """Lanes that a block sorts in shared memory, at most: a power of two."""
    return 1 << ((lanes * words).bit_length() - 1)


def _sort_shared(groups: Groups, first: IrValue, n: IrValue) -> None:
    """Sort the lanes of a segment in shared memory: a bitonic network."""
    code = groups.code
    bits = bit_length(n - 1)
    size = code.i64(1) << bits
    with code.phase():
        for k, lane in _all_lanes(groups, first, n):
            groups.put(code.shared, k, lane)
        with code.share(n, size) as k:
            groups.put(code.shared, k, code.i64(-1))
    with code.loop(1, bits + 1) as merge, code.loop(0, merge) as step:
        gap = merge - step - 1  # as a power of two
        with code.phase(), code.share(0, size >> 1) as k:
            low = (k >> gap) << (gap + 1) | (k & ((code.i64(1) << gap) - 1))
            a, b = (code.at(code.shared, each * 4) for each in (low, low + (code.i64(1) << gap)))
            x, y = code.load(I32, a), code.load(I32, b)
            falls = ((low >> merge) & 1).compare("ne", 0)
            with code.when(x.compare("ugt", y) ^ falls):
                code.store(y, a)
                code.store(x, b)
    with code.phase(), code.share(0, n) as k:
        groups.put(groups.order, first + k, groups.get(code.shared, k))


def _sort_marked(groups: Groups, first: IrValue, n: IrValue) -> None:
    """Sort the lanes of a segment by bitmaps of them, each of some lanes that follow one another."""
    code, site = groups.code, groups.site
    lanes, words = code.chip.lanes, site.tuning.words
    base, counts = code.shared, code.at(code.shared, 8)
    bitmap = code.at(counts, 16 * lanes)
    with code.phase(), code.when(code.same_lane(0)):
        code.store(code.i64(0), base)
    with code.loop(0, site.count, _span(site)) as low:
        with code.phase(), code.share(0, code.i64(lanes * words)) as k:
            code.store(code.constant(I32, 0), code.at(bitmap, k * 4))
        with code.phase():
            code.choose(
                n.compare("ule", _span(site)),
                lambda: _set_lanes(groups, first, n, low, bitmap),
                lambda: _set_noted(groups, first, low, bitmap),
            )
        with code.phase():
            _count_own(site, bitmap, counts)
        with code.phase():
            _sum_before(site, base, counts)
        with code.phase():
            _list_own(groups, first, low, bitmap, counts)


def _set_lanes(groups: Groups, first: IrValue, n: IrValue, low: IrValue, bitmap: IrValue) -> None:
    """Set the bits of the lanes of a segment that a bitmap is for, of all its lanes."""
    for _, lane in _all_lanes(groups, first, n):
        with groups.code.when((lane - low).compare("ult", _span(groups.site))):
            _set_bit(groups, bitmap, lane - low)


def _set_noted(groups: Groups, first: IrValue, low: IrValue, bitmap: IrValue) -> None:
    """The same, of all lanes that the bitmap is for: there are fewer of these than of the segment."""
    code, site, lanes = groups.code, groups.site, groups.code.chip.lanes
    slot = groups.word(groups.placed, first) >> 32
    with code.loop(site.code.lane, code.i64(_span(site)), lanes * DEEP) as k:
        numbers = [k + lanes * step for step in range(DEEP)]
        notes = [groups.word(groups.notes, site.near(low + number)) for number in numbers]
        for number, note in zip(numbers, notes, strict=True):
            is_inside = number.compare("ult", _span(site)) & (low + number).compare("ult", site.count)
            with code.when(is_inside & note.compare("ne", NOWHERE) & lower(note).compare("eq", slot)):
                _set_bit(groups, bitmap, number)


def _span(site: KernelSite) -> int:
    """Lanes that a bitmap is for."""
    return site.code.chip.lanes * site.tuning.words * WORD


def _set_bit(groups: Groups, bitmap: IrValue, bit: IrValue) -> None:
    at, one = in_words(bit)
    groups.code.line(f"  atomicrmw or {groups.code.at(bitmap, at)!r}, {one!r} {ATOMIC}")


def _count_own(site: KernelSite, bitmap: IrValue, counts: IrValue) -> None:
    """Count the bits of the words of a thread."""
    code, words = site.code, site.tuning.words
    count = code.module.declare("llvm.ctpop.i32", "i32 (i32)")
    total = code.variable(I32, code.constant(I32, 0))
    with code.loop(0, words) as k:
        word = code.load(I32, code.at(bitmap, (site.code.lane * words + k) * 4))
        total.set(total.get() + code.call(I32, count, word))
    code.store(total.get().to("zext", I64), code.at(counts, site.code.lane * 8))


def _sum_before(site: KernelSite, base: IrValue, counts: IrValue) -> None:
    """Where the bits of a thread begin: behind those of earlier bitmaps, and of the threads before it."""
    code = site.code
    total = code.variable(I64, code.load(I64, base))
    with code.loop(0, site.code.lane, DEEP) as low:
        numbers = [low + step for step in range(DEEP)]
        found = [code.load(I64, code.at(counts, k * 8)) for k in numbers]
        for k, count in zip(numbers, found, strict=True):
            total.set(total.get() + code.select(k.compare("ult", site.code.lane), count, 0))
    code.store(total.get(), code.at(counts, (site.code.lane + code.chip.lanes) * 8))


def _list_own(groups: Groups, first: IrValue, low: IrValue, bitmap: IrValue, counts: IrValue) -> None:
    """List the lanes of a thread's bits; the last thread says where those of the next bitmap begin."""
    code, site = groups.code, groups.site
    words, lane = site.tuning.words, code.lane
    find = code.module.declare("llvm.cttz.i32", "i32 (i32, i1)")
    at = code.variable(I64, code.load(I64, code.at(counts, (lane + code.chip.lanes) * 8)))
    with code.loop(0, words) as k:
        rest = code.variable(I32, code.load(I32, code.at(bitmap, (lane * words + k) * 4)))
        with code.until() as done:
            code.begin(again := code.new_label("bit"))
            code.split(rest.get().compare("ne", 0), more := code.new_label("more"), done)
            code.begin(more)
            bit = code.call(I32, find, rest.get(), "i1 true").to("zext", I64)
            groups.put(groups.order, first + at.get(), low + (lane * words + k) * WORD + bit)
            rest.set(rest.get() & (rest.get() - 1))
            at.set(at.get() + 1)
            code.jump(again)
    with code.when(lane.compare("eq", code.chip.lanes - 1)):
        code.store(at.get(), code.shared)
