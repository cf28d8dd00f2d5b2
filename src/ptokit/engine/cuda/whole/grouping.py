"""Kernels that bring the lanes of each row together, in their order.

| kernel | what it does |
|---|---|
| `spot` | notes the rows that several lanes name, in a bitmap |
| `insert` | finds the slots of these rows in a hash table, and counts the lanes of each slot |
| `start` | gives each slot that is taken a segment: a range of places, as long as its lanes |
| `place` | writes each lane to a place of its segment, in any order |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ptokit.engine.cuda.whole.groups import ATOMIC, CHAINED, LONGER, NOWHERE, Groups, lower, scattered
from ptokit.engine.cuda.whole.site import KernelSite, both, where
from ptokit.engine.llvm.emit import I32, I64, IrBuilder, IrValue, Variable
from ptokit.isa.move import Remap

ONE_SEGMENT = 1 << 32
"""Places and segments are counted together: places in the lower half of a number."""


def spot(site: KernelSite) -> None:
    """Note the rows that several lanes name."""
    code, groups, refuses = site.code, Groups(site), site.kind.remap is Remap.REFUSE
    with site.each(site.count, site.tuning.joined) as lanes:
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
    with site.each(site.count, site.tuning.firsts) as lanes:
        notes = [groups.word(groups.notes, i) for i, _ in lanes]
        is_placed = [note.compare("ne", NOWHERE) for note in notes]
        slots = [code.select(known, lower(note), 0) for known, note in zip(is_placed, notes, strict=True)]
        starts = [groups.word(groups.slots, slot) >> 32 for slot in slots]
        for (i, _), known, note, slot, first in zip(lanes, is_placed, notes, slots, starts, strict=True):
            with code.when(known):
                code.store(slot << 32 | i, code.at(groups.placed, (first + (note >> 32)) * 8))
