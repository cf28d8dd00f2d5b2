"""Kernels that bring the lanes of each row together, in their order, and their scratch memory.

| kernel | what it does |
|---|---|
| `spot` | notes the rows that several lanes name, in a bitmap |
| `insert` | finds the slots of these rows in a hash table, and counts the lanes of each slot |
| `start` | gives each slot that is taken a segment: a range of places, as long as its lanes |
| `place` | writes each lane to a place of its segment, in any order |
| `arrange` | sorts the lanes of each segment: by counting; more of them in shared memory, or by bitmaps |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ptokit.engine.cuda.whole.site import KernelSite, both, where
from ptokit.engine.llvm.emit import I32, I64, IrBuilder, IrValue, Variable
from ptokit.isa.move import Remap

HEADER = 64
"""Bytes before the bitmaps. Numbers of 64 bits: places and segments that are given, lengths of lists."""
LONGER, CHAINED = 8, 16
"""Where the header has the lengths of the lists of segments that a block sorts, and of those that it combines."""
ATOMIC = 'syncscope("device") monotonic'
"""The order of atomic instructions: other devices do not look on."""
NOWHERE = -1
"""The note of a lane that names no row."""
SCATTERED = 0x9E3779B97F4A7C15 - (1 << 64)
"""The factor of the hash: 2^64 by the golden ratio, odd."""
WORD, BITS = 32, 8
"""Bits of a word of a bitmap; bits of a bitmap for each slot, a byte."""
MOST_LANES, LEAST_BITS = 1 << 31, 6


def slot_bits(count: int) -> int:
    """Bits of the number of a slot: at most half of all slots are taken."""
    return max(LEAST_BITS, (2 * count - 1).bit_length())


def zeroed(count: int) -> int:
    """Bytes of scratch memory that are zeros before `spot`."""
    return HEADER + (10 << slot_bits(count))


def scratch(count: int, short: int, long: int, bags: bool = False) -> int:
    """Bytes of scratch memory; `bags` says whether the bags of lanes are there, too."""
    return zeroed(count) + (32 if bags else 28) * count + 8 * (count // (short + 1) + count // (long + 1))


class Groups:
    """The scratch memory of these kernels."""

    def __init__(self, site: KernelSite) -> None:
        self.site, self.code, self.header = site, site.code, site.keys
        code, tuning = site.code, site.tuning
        self.named = code.at(self.header, HEADER)
        """A bitmap of the rows that lanes name; some rows share a bit."""
        self.again = code.at(self.named, code.i64(1) << site.shift)
        """A bitmap of those that several lanes name."""
        self.slots = code.at(self.again, code.i64(1) << site.shift)
        """A slot: how many lanes it has, and one plus the first of them in the upper half; then its segment."""
        self.notes = code.at(self.slots, code.i64(8) << site.shift)
        """Of each lane: the slot, and its number there in the upper half."""
        self.segments = code.at(self.notes, site.count * 8)
        """How many lanes, and the first place in the upper half."""
        self.longer = code.at(self.segments, site.count * 8)
        self.chained = code.at(self.longer, site.count.op("udiv", tuning.short + 1) * 8)
        """Segments of more lanes than `tuning.short` and `tuning.long`."""
        self.placed = code.at(self.chained, site.count.op("udiv", tuning.long + 1) * 8)
        """Segment after segment, in any order: a lane, and its slot in the upper half."""
        self.order = code.at(self.placed, site.count * 8)
        """The lanes, segment after segment."""
        self.bags = code.at(self.order, site.count * 4)
        """The bag of each lane, if the kind has a source."""

    def bit_of(self, row: IrValue) -> tuple[IrValue, IrValue]:
        """Where the bit of a row lies in a bitmap: the bytes before its word, and the word with that bit."""
        bit = scattered(row, self.site.shift + (BITS.bit_length() - 1))
        return in_words(bit)

    def set(self, bitmap: IrValue, at: IrValue, bit: IrValue) -> IrValue:
        """Set a bit of a bitmap, and say whether it was set; one that is set is left: many may do so."""
        code, word = self.code, self.code.at(bitmap, at)
        seen = code.variable(I32, code.write(I32, f"load atomic i32, {word!r} {ATOMIC}, align 4"))
        with code.when((seen.get() & bit).compare("eq", 0)):
            seen.set(code.write(I32, f"atomicrmw or {word!r}, {bit!r} {ATOMIC}"))
        return (seen.get() & bit).compare("ne", 0)

    def is_shared(self, row: IrValue) -> IrValue:
        """Whether several lanes name a row."""
        at, bit = self.bit_of(row)
        return (self.code.load(I32, self.code.at(self.again, at)) & bit).compare("ne", 0)

    def number(self, at: int) -> IrValue:
        return self.code.load(I64, self.code.at(self.header, at))

    @property
    def count(self) -> IrValue:
        """Segments."""
        return self.number(0) >> 32

    def word(self, pointer: IrValue, k: IrValue) -> IrValue:
        return self.code.load(I64, self.code.at(pointer, k * 8))

    def segment(self, pointer: IrValue, k: IrValue) -> tuple[IrValue, IrValue]:
        """The first place and the number of lanes of a segment of a list."""
        word = self.word(pointer, k)
        return word >> 32, lower(word)

    @property
    def places(self) -> IrValue:
        """Places of all segments."""
        return lower(self.number(0))

    def lane_at(self, place: IrValue) -> IrValue:
        return self.get(self.order, place)

    def get(self, lanes: IrValue, place: IrValue) -> IrValue:
        return self.code.load(I32, self.code.at(lanes, place * 4)).to("zext", I64)

    def put(self, lanes: IrValue, place: IrValue, lane: IrValue) -> None:
        self.code.store(lane.to("trunc", I32), self.code.at(lanes, place * 4))


def in_words(bit: IrValue) -> tuple[IrValue, IrValue]:
    """Where a bit lies: the bytes before its word, and the word with that bit."""
    return (bit >> 5) * 4, bit.code.constant(I32, 1) << (bit & (WORD - 1)).to("trunc", I32)


def bit_length(number: IrValue) -> IrValue:
    """Bits of a number."""
    return number.code.i64(64) - number.code.call(I64, "llvm.ctlz.i64", number, "i1 false")


def lower(word: IrValue) -> IrValue:
    """The lower half of a number."""
    return word & 0xFFFFFFFF


def scattered(row: IrValue, bits: IrValue) -> IrValue:
    """The hash of a row."""
    return (row * SCATTERED).op("lshr", row.code.i64(64) - bits)


ONE_SEGMENT = 1 << 32
"""Places and segments are counted together: places in the lower half of a number."""


def spot(site: KernelSite) -> None:
    """Note the rows that several lanes name."""
    code, groups, refuses = site.code, Groups(site), site.kind.remap is Remap.REFUSE
    with site.thread_loop(site.count, site.tuning.joined) as lanes:
        values = [site.read(i) for i, _ in lanes]
        places = site.places([i for i, _ in lanes], values)
        for (i, counts), value, place in zip(lanes, values, places, strict=True):
            at, bit = groups.bit_of(place.row)
            with where(site, both(place.inside, counts)), code.when(groups.set(groups.named, at, bit)):
                groups.set(groups.again, at, bit)
            if refuses:
                site.refuse(value, i, counts)


def insert(site: KernelSite) -> None:
    """Find the slots of rows that several lanes name, and count the lanes of each slot.

    A block does so first for the lanes that fall to it, in shared memory, and then once for each of their rows: very
    many lanes may name one.
    """
    code, groups = site.code, Groups(site)
    lanes, joined = code.chip.lanes, site.tuning.joined
    each, entries = lanes * joined, entries_of(lanes, joined)
    table = _BlockTable(groups, entries)
    with code.loop(code.block * each, site.count, code.blocks * each) as low:
        numbers = [low + lanes * k for k in range(joined)]
        with code.phase(), code.share(0, code.i64(entries)) as k:
            table.clear(k)
        with code.phase():
            table.enter([number + code.lane for number in numbers])
        with code.phase(), code.share(0, code.i64(entries)) as k:
            table.join(k)
        with code.phase():
            for k, number in enumerate(numbers):
                i = number + code.lane
                with code.when(i.compare("slt", site.count)):
                    code.store(table.note(k), code.at(groups.notes, i * 8))


def entries_of(lanes: int, joined: int) -> int:
    """Entries of the table of a block: at most half of them are taken."""
    return 1 << (2 * lanes * joined - 1).bit_length()


class _BlockTable:
    """A hash table in shared memory: the rows that lanes of a block name."""

    def __init__(self, groups: Groups, entries: int) -> None:
        self.groups, self.site, self.code, self.entries = groups, groups.site, groups.code, entries
        self.rows = self.code.shared
        """One plus a row, or 0; then the note of its first lane here."""
        self.lanes = self.code.at(self.rows, 8 * entries)
        """One lane of the row."""
        self.counts = self.code.at(self.lanes, 4 * entries)
        self.own = self.code.at(self.counts, 4 * entries)
        """Of each lane of the block: the entry, and its number there in the upper half."""

    def _own(self, k: int) -> IrValue:
        return self.code.at(self.own, (self.code.lane + self.code.chip.lanes * k) * 8)

    def clear(self, entry: IrValue) -> None:
        self.code.store(self.code.i64(0), self.code.at(self.rows, entry * 8))
        self.code.store(self.code.constant(I32, 0), self.code.at(self.counts, entry * 4))

    def enter(self, lanes: Sequence[IrValue]) -> None:
        """Find the entries of a thread's lanes, and count these."""
        code, site = self.code, self.site
        places = [site.known_place(near, site.read(near)) for near in map(site.near, lanes)]
        shared = [self.groups.is_shared(place.row) for place in places]
        for k, (i, place, several) in enumerate(zip(lanes, places, shared, strict=True)):
            code.store(code.i64(NOWHERE), self._own(k))
            held = both(i.compare("slt", site.count) & several, place.inside)
            with where(site, held):
                entry = probed(code, self.rows, self.entries, place.row)
                self.groups.put(self.lanes, entry, i)
                count = code.write(I32, f"atomicrmw add {code.at(self.counts, entry * 4)!r}, i32 1 {ATOMIC}")
                code.store(entry | count.to("zext", I64) << 32, self._own(k))

    def join(self, entry: IrValue) -> None:
        """Join the slot of an entry's row."""
        code, at = self.code, self.code.at(self.rows, entry * 8)
        row = code.load(I64, at)
        with code.when(row.compare("ne", 0)):
            lane, count = (self.groups.get(each, entry) for each in (self.lanes, self.counts))
            code.store(_joined(self.groups, lane, row - 1, count), at)

    def note(self, k: int) -> IrValue:
        """The note of a lane of a thread."""
        code = self.code
        own = code.load(I64, self._own(k))
        known = own.compare("ne", NOWHERE)
        first = code.load(I64, code.at(self.rows, code.select(known, lower(own), 0) * 8))
        return code.select(known, first + (own & (-1 << 32)), NOWHERE)


def probed(code: IrBuilder, rows: IrValue, entries: int, row: IrValue) -> IrValue:
    """The entry of a row in shared memory, which takes a free one."""
    entry = code.variable(I64, scattered(row, code.i64(entries.bit_length() - 1)))
    again, other, done = (code.new_label(each) for each in ("probe", "other", "found"))
    code.begin(again)
    at = code.at(rows, entry.get() * 8)
    pair = code.write("{ i64, i1 }", f"cmpxchg {at!r}, i64 0, {row + 1!r} {ATOMIC} monotonic")
    seen, is_free = (code.write(kind, f"extractvalue {pair!r}, {k}") for k, kind in enumerate((I64, "i1")))
    code.split(is_free | seen.compare("eq", row + 1), done, other)
    code.begin(other)
    entry.set((entry.get() + 1) & (entries - 1))
    code.jump(again)
    code.begin(done)
    return entry.get()


def _joined(groups: Groups, lane: IrValue, row: IrValue, n: IrValue) -> IrValue:
    """The note of a lane, the first of several that join the slot of their row, or take a free one."""
    code, site = groups.code, groups.site
    mask = (code.i64(1) << site.shift) - 1
    slot = code.variable(I64, scattered(row, site.shift))
    rank = code.variable(I64, code.i64(0))
    again, taken, same, other, done = (code.new_label(each) for each in ("probe", "taken", "same", "other", "joined"))
    code.begin(again)
    at = code.at(groups.slots, slot.get() * 8)
    seen = code.variable(I64, code.write(I64, f"load atomic i64, {at!r} {ATOMIC}, align 8"))
    code.split(seen.get().compare("eq", 0), free := code.new_label("free"), taken)
    code.begin(free)
    own = (lane + 1) << 32 | n
    pair = code.write("{ i64, i1 }", f"cmpxchg {at!r}, i64 0, {own!r} {ATOMIC} monotonic")
    seen.set(code.write(I64, f"extractvalue {pair!r}, 0"))
    code.split(code.write("i1", f"extractvalue {pair!r}, 1"), done, taken)
    code.begin(taken)
    first = site.place(site.read((seen.get() >> 32) - 1))
    code.split(first.row.compare("eq", row), same, other)
    code.begin(other)
    slot.set((slot.get() + 1) & mask)
    code.jump(again)
    code.begin(same)
    rank.set(lower(code.write(I64, f"atomicrmw add {at!r}, {n!r} {ATOMIC}")))
    code.jump(done)
    code.begin(done)
    return slot.get() | rank.get() << 32


def start(site: KernelSite) -> None:
    """Give each slot that is taken a segment; blocks take places and numbers of segments for many slots at a time."""
    code, groups = site.code, Groups(site)
    each, own = code.chip.lanes * site.tuning.firsts, code.at(code.shared, 16)
    counters = [code.at(code.shared, 4 * k) for k in range(2)]
    with code.loop(code.block * each, site.count, code.blocks * each) as low:
        with code.phase(), code.when(code.same_lane(0)):
            code.store(code.i64(0), code.shared)
        with code.phase():
            wanted = code.variable(I64, code.i64(0))
            _firsts(groups, low, lambda _, n: wanted.set(wanted.get() + n + ONE_SEGMENT))
            halves = [half.to("trunc", I32) for half in (wanted.get(), wanted.get() >> 32)]
            for k, (counter, more) in enumerate(zip(counters, halves, strict=True)):
                before = code.write(I32, f"atomicrmw add {counter!r}, {more!r} {ATOMIC}")
                code.store(before, code.at(own, code.lane * 8 + 4 * k))
        with code.phase(), code.when(code.same_lane(0)):
            total = code.load(I64, code.shared)
            given = code.write(I64, f"atomicrmw add {groups.header!r}, {total!r} {ATOMIC}")
            code.store(given, code.at(code.shared, 8))
        with code.phase():
            base = code.load(I64, code.at(code.shared, 8))
            at = code.variable(I64, base + code.load(I64, code.at(own, code.lane * 8)))
            _firsts(groups, low, lambda slot, n: _segment(groups, slot, n, at))


def _firsts(groups: Groups, low: IrValue, act: Callable[[IrValue, IrValue], None]) -> None:
    """Act on the slots whose first lane falls to a thread: where a slot lies, and how many lanes it has."""
    code, site = groups.code, groups.site
    numbers = [low + code.lane + code.chip.lanes * k for k in range(site.tuning.firsts)]
    notes = [groups.word(groups.notes, site.near(i)) for i in numbers]
    held = [i.compare("slt", site.count) & (n >> 32).compare("eq", 0) for i, n in zip(numbers, notes, strict=True)]
    slots = [
        code.at(groups.slots, code.select(first, lower(note), 0) * 8) for first, note in zip(held, notes, strict=True)
    ]
    words = [code.load(I64, slot) for slot in slots]
    for first, slot, word in zip(held, slots, words, strict=True):
        with code.when(first):
            act(slot, lower(word))


def _segment(groups: Groups, slot: IrValue, n: IrValue, at: Variable) -> None:
    """The next segment of a thread is that of a slot."""
    code, given = groups.code, at.get()
    word = given << 32 | n
    code.store(word, slot)
    code.store(word, code.at(groups.segments, (given >> 32) * 8))
    for length, most, entries in (
        (LONGER, groups.site.tuning.short, groups.longer),
        (CHAINED, groups.site.tuning.long, groups.chained),
    ):
        with code.when(n.compare("ugt", most)):
            number = code.write(I64, f"atomicrmw add {code.at(groups.header, length)!r}, i64 1 {ATOMIC}")
            code.store(word, code.at(entries, number * 8))
    at.set(given + n + ONE_SEGMENT)


def place(site: KernelSite) -> None:
    """Write each lane to a place of its segment, in any order."""
    code, groups = site.code, Groups(site)
    with site.thread_loop(site.count, site.tuning.firsts) as lanes:
        notes = [groups.word(groups.notes, i) for i, _ in lanes]
        is_placed = [note.compare("ne", NOWHERE) for note in notes]
        slots = [code.select(known, lower(note), 0) for known, note in zip(is_placed, notes, strict=True)]
        starts = [groups.word(groups.slots, slot) >> 32 for slot in slots]
        for (i, _), known, note, slot, first in zip(lanes, is_placed, notes, slots, starts, strict=True):
            with code.when(known):
                code.store(slot << 32 | i, code.at(groups.placed, (first + (note >> 32)) * 8))


DEEP = 8
"""Lanes of a segment that a thread loads at a time."""


def arrange(site: KernelSite) -> None:
    """Sort the lanes of each segment: a block those of a long one; others go where as many lanes are before them."""
    code, groups = site.code, Groups(site)
    with code.spread(groups.number(LONGER)) as k:
        first, n = groups.segment(groups.longer, k)
        fits = n.compare("ule", most_sorted(code.chip.lanes, site.tuning.words))
        code.choose(fits, lambda: _sort_shared(groups, first, n), lambda: _sort_marked(groups, first, n))
    with site.thread_loop(groups.places, 1) as places:
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
    total = code.variable(I32, code.constant(I32, 0))
    with code.loop(0, words) as k:
        word = code.load(I32, code.at(bitmap, (site.code.lane * words + k) * 4))
        total.set(total.get() + code.call(I32, "llvm.ctpop.i32", word))
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
    at = code.variable(I64, code.load(I64, code.at(counts, (lane + code.chip.lanes) * 8)))
    with code.loop(0, words) as k:
        rest = code.variable(I32, code.load(I32, code.at(bitmap, (lane * words + k) * 4)))
        with code.repeat(lambda: rest.get().compare("ne", 0)):
            bit = code.call(I32, "llvm.cttz.i32", rest.get(), "i1 true").to("zext", I64)
            groups.put(groups.order, first + at.get(), low + (lane * words + k) * WORD + bit)
            rest.set(rest.get() & (rest.get() - 1))
            at.set(at.get() + 1)
    with code.when(lane.compare("eq", code.chip.lanes - 1)):
        code.store(at.get(), code.shared)
