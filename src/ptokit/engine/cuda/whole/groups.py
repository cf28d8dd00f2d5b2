"""Scratch memory of kernels that bring the lanes of each row together."""

from __future__ import annotations

from ptokit.engine.cuda.whole.site import KernelSite
from ptokit.engine.llvm.emit import I32, I64, IrValue

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
    name = number.code.module.declare("llvm.ctlz.i64", "i64 (i64, i1)")
    return number.code.i64(64) - number.code.call(I64, name, number, "i1 false")


def lower(word: IrValue) -> IrValue:
    """The lower half of a number."""
    return word & 0xFFFFFFFF


def scattered(row: IrValue, bits: IrValue) -> IrValue:
    """The hash of a row."""
    return (row * SCATTERED).op("lshr", row.code.i64(64) - bits)
