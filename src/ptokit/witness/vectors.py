"""Extents of functions of cores with vector registers: loads, stores and masks of registers, copies with strides.

What a register holds is not known, but for masks: the lanes that may be active and those that are for certain. A
comparison may be true for each lane that takes part. The meanings are those of the register functions of Ascend C
(`asc_loadalign`, `asc_storealign`, `asc_storeunalign_post`, `asc_copy_gm2l1_nd2nz` and others at
https://gitcode.com/cann/asc-devkit, docs/zh/api/SIMD-API/C-API) and of the vendor's headers that call them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import numpy as np

from ptokit.witness.extents import BLOCK, FRACTAL, REPEAT, ByteAccess, Extent, How, Issued, Ranges, bias, merged, pairs

STORED = """
    NORM_B8 NORM_B16 NORM_B32 ONEPT_B8 ONEPT_B16 ONEPT_B32 PK_B16 PK_B32 INTLV_B8 INTLV_B16 PK_B64 INTLV_B32 PK4_B32
    MRG4CHN_B8 MRG2CHN_B8 MRG2CHN_B16"""
"""How a store distributes lanes, in the order of the public `DistVST`."""
LOADED = {
    "NORM": 256, "US": 16, "DS": 64, "PK": 16, "BRC_B8": 1, "BRC_B16": 2, "BRC_B32": 4, "US_B8": 128, "US_B16": 128,
    "DS_B8": 512, "DS_B16": 512, "UNPK_B8": 128, "UNPK_B16": 128, "UNPK_B32": 128, "UNPK4_B8": 64, "BLK": 32,
    "E2B_B16": 16, "E2B_B32": 32, "DINTLV_B8": 512, "DINTLV_B16": 512, "DINTLV_B32": 512,
}  # fmt: skip
"""How a load distributes bytes to lanes, and how many bytes it reads: of masks for the first ones but `NORM`."""
PATTERNS = """
    PAT_ALL PAT_ALLF PAT_VL1 PAT_VL2 PAT_VL3 PAT_VL4 PAT_VL8 PAT_VL16 PAT_VL32 PAT_VL64 PAT_VL128 PAT_M3 PAT_M4 PAT_H
    PAT_Q LOWER HIGHER"""
"""The lanes of a mask that a word names, and the halves of a mask."""
MOVES = -1
"""The last argument of a call that moves its pointer: `POST_UPDATE`."""
WORDS = (*STORED.split(), *LOADED, *PATTERNS.split())
"""Words of arguments by their numbers."""
IS_REGISTER, IS_PAIR, IS_MASK = 9, 13, 15
"""What `Issued.sizes` holds for a vector register (and the logarithm of the bytes of a lane), for a pointer to pairs of
numbers of four bits, and for a mask."""
ALL = (1 << REPEAT) - 1
Mask = tuple[int, int]
"""A bit for each byte of a register: lanes that may be active, and those that are. A lane's bit is that of its first
byte."""
UNKNOWN: Mask = (ALL, 0)


def size(call: Issued, place: int) -> int:
    """Bytes of an element or a lane of an argument."""
    coded = call.sizes[place]
    return 1 if coded == IS_PAIR else 1 << coded - IS_REGISTER if coded >= IS_REGISTER else coded


def _pointer(call: Issued) -> int:
    """The place of the only pointer."""
    return next(place for place, coded in enumerate(call.sizes) if 0 < coded < IS_REGISTER or coded == IS_PAIR)


def _masks(call: Issued, first: int = 0) -> list[Mask]:
    """The masks among the arguments from a place on."""
    numbers = [n for n, coded in zip(call.given[first:], call.sizes[first:], strict=True) if coded == IS_MASK]
    return [call.core.masks.get(number, UNKNOWN) for number in numbers]


@cache
def active(mask: int, width: int) -> Ranges:
    """The lanes of some bytes that a mask has."""
    bits = np.unpackbits(np.frombuffer(mask.to_bytes(REPEAT // 8, "little"), np.uint8), bitorder="little")
    return np.flatnonzero(bits[::width])


# --- loads and stores of registers


def load(call: Issued) -> Iterator[ByteAccess]:
    """A whole register, or as many bytes as the distribution takes; no mask keeps any from being read."""
    place = _pointer(call)
    count = LOADED[WORDS[call.given[place + 2]]]
    yield ByteAccess("load", merged([_start(call, place)], count))


def _start(call: Issued, place: int) -> int:
    """Where a load or a store begins: one that moves its pointer takes it as it was before."""
    offset = 0 if call.given[-1] == MOVES else call.given[place + 1]
    return call.given[place] + offset * size(call, place)


def load_unaligned(call: Issued) -> Iterator[ByteAccess]:
    """A register from any address."""
    yield ByteAccess("load", merged([call.given[_pointer(call)]], REPEAT))


def prepare_unaligned(call: Issued) -> Iterator[ByteAccess]:
    """The block in which an unaligned load begins."""
    yield ByteAccess("load", merged([call.given[_pointer(call)] // BLOCK * BLOCK], BLOCK))


def store(call: Issued) -> Iterator[ByteAccess]:
    """The active lanes, the first lane, or pairs of lanes of two registers: the distribution says which and how far
    apart. The mask holds for pairs, too: the page of the dual store (docs/isa/vector/ops/vector-load-store/vstsx2.md
    of the headers' repository) says that it gates the elements that take part, and the headers' rows of 8-byte types
    rest on it (Int64Div.hpp:306 reads what the row before would have overwritten). The page of `asc_storealign` says
    the opposite."""
    place = _pointer(call)
    (kind, _, bits), start = WORDS[call.given[place + 2]].partition("_B"), _start(call, place)
    width = int(bits) // 8
    if kind == "ONEPT":
        yield ByteAccess("write", merged([start], width))
    else:
        lanes, kept = active(_masks(call)[-1][0], width), width * 2 // {"INTLV": 1, "NORM": 2, "PK": 4, "PK4": 8}[kind]
        yield ByteAccess("write", merged(start + lanes * kept, kept))


def store_unaligned(call: Issued) -> Iterator[ByteAccess]:
    """A number of lanes to any address. Bytes of the last block wait for `vstas`; they count as written here."""
    place = _pointer(call)
    yield ByteAccess("write", merged([call.given[place]], call.given[1] * size(call, place)))


def store_blocks(call: Issued) -> Iterator[ByteAccess]:
    """Eight blocks at a stride, of each the active lanes."""
    width, lanes = size(call, 0), active(_masks(call)[-1][0], size(call, 0)) * size(call, 0)
    yield ByteAccess(
        "write", merged(call.given[1] + lanes // BLOCK * (call.given[2] >> 16) * BLOCK + lanes % BLOCK, width)
    )


def squeeze(call: Issued) -> Iterator[ByteAccess]:
    """Active lanes move together; the address register counts their bytes, as long as their number is known."""
    may, must = _masks(call)[-1]
    count, words = len(active(may, size(call, 0))), call.core.words
    words["squeezed"] = count * size(call, 0)
    words["guessed"] = words.get("guessed", 0) or len(active(must, size(call, 0))) != count
    yield from ()


def store_squeezed(call: Issued) -> Iterator[ByteAccess]:
    """What was squeezed, behind what was stored before."""
    words, place = call.core.words, _pointer(call)
    before = words.get("address", 0)
    words["address"] = before + words.pop("squeezed", 0)
    if words.get("guessed"):
        yield from scattered(call)
    else:
        yield ByteAccess("write", merged([call.given[place] + before], words["address"] - before))


def clear_address(call: Issued) -> Iterator[ByteAccess]:
    """The address register is zero again."""
    call.core.words |= {"address": 0, "guessed": 0}
    yield from ()


def store_address(call: Issued) -> Iterator[ByteAccess]:
    """The address register is stored: an element, at an offset in bytes."""
    yield ByteAccess("write", merged([call.given[1] + call.given[2]], size(call, 1)))


def load_mask(call: Issued) -> Iterator[ByteAccess]:
    """A mask from memory: a bit for each byte, or each second or half one; the offset is in bytes."""
    yield ByteAccess(
        "load", merged([call.given[1] + call.given[2]], {"NORM": 32, "US": 16, "DS": 64}[WORDS[call.given[3]]])
    )
    call.core.masks[call.given[0]] = UNKNOWN


def store_mask(call: Issued) -> Iterator[ByteAccess]:
    """A mask to memory: a bit for each byte, or for each second one."""
    yield ByteAccess("write", merged([call.given[1] + call.given[2]], {"NORM": 32, "PK": 16}[WORDS[call.given[3]]]))


def somewhere(how: How) -> Extent:
    """Elements at places that depend on data: what the pointer points to stands for all of its memory."""

    def accesses(call: Issued) -> Iterator[ByteAccess]:
        place = _pointer(call)
        yield ByteAccess(how, merged([call.given[place]], size(call, place)))

    return accesses


gathered, scattered = somewhere("gather"), somewhere("scatter")

# --- masks


def mask(made: Callable[..., Mask]) -> Extent:
    """A mask that is made of others."""

    def accesses(call: Issued) -> Iterator[ByteAccess]:
        call.core.masks[call.given[0]] = made(*_masks(call, 1))
        yield from ()

    return accesses


def both(a: Mask, b: Mask, among: Mask) -> Mask:
    """Lanes of two masks."""
    return a[0] & b[0] & among[0], a[1] & b[1] & among[1]


def either(a: Mask, b: Mask, among: Mask) -> Mask:
    """Lanes of any of two masks."""
    return (a[0] | b[0]) & among[0], (a[1] | b[1]) & among[1]


def differing(a: Mask, b: Mask, among: Mask) -> Mask:
    """Lanes of one of two masks."""
    return (a[0] | b[0]) & ~(a[1] & b[1]) & among[0], (a[1] & ~b[0] | b[1] & ~a[0]) & among[1]


def inverted(a: Mask, among: Mask) -> Mask:
    """Lanes that a mask has not."""
    return ~a[1] & among[0], ~a[0] & among[1]


def chosen(a: Mask, b: Mask, by: Mask) -> Mask:
    """Lanes of one mask where a third one has them, else of the other."""
    return by[0] & a[0] | ~by[1] & b[0], by[1] & a[1] | ~by[0] & b[1] | a[1] & b[1]


def compared(*masks: Mask) -> Mask:
    """Any of the lanes that take part: those of the last mask, or all."""
    return (masks or (UNKNOWN,))[-1][0], 0


def pattern(width: int) -> Extent:
    """A mask of lanes by a pattern."""

    def accesses(call: Issued) -> Iterator[ByteAccess]:
        word, lanes = WORDS[call.given[1]].removeprefix("PAT_"), np.arange(REPEAT // width)
        match word:
            case "ALL" | "ALLF":
                wanted = lanes[: len(lanes) * (word == "ALL")]
            case "H" | "Q":
                wanted = lanes[: len(lanes) // (2 if word == "H" else 4)]
            case "M3" | "M4":
                wanted = lanes[:: int(word[1])]
            case _:
                wanted = lanes[: int(word[2:])]
        call.core.masks[call.given[0]] = _certain(wanted, width)
        yield from ()

    return accesses


def counted(width: int) -> Extent:
    """A mask of the first lanes, as many as a count has."""

    def accesses(call: Issued) -> Iterator[ByteAccess]:
        call.core.masks[call.given[0]] = _certain(np.arange(min(call.given[1], REPEAT // width)), width)
        yield from ()

    return accesses


def _certain(lanes: Ranges, width: int) -> Mask:
    """Lanes that are active for certain."""
    bits = sum(1 << int(lane) * width for lane in lanes)
    return bits, bits


def moved_bits(to: Callable[[int, str], int]) -> Extent:
    """Each bit of a mask moves."""

    def accesses(call: Issued) -> Iterator[ByteAccess]:
        word = WORDS[call.given[2]] if len(call.given) > 2 else "LOWER"
        may, must = (_bits(bits, lambda bit: to(bit, word)) for bits in _masks(call, 1)[0])
        call.core.masks[call.given[0]] = may, must
        yield from ()

    return accesses


def _bits(bits: int, to: Callable[[int], int]) -> int:
    """Bits at other places; those that leave the mask are lost."""
    places = (to(bit) for bit in range(2 * REPEAT) if bits >> bit & 1)
    return sum(1 << place for place in places if 0 <= place < 2 * REPEAT)


def packed(bit: int, word: str) -> int:
    """Every second bit, in the lower or higher half."""
    return -1 if bit % 2 else bit // 2 + (REPEAT // 2 if word == "HIGHER" else 0)


def unpacked(bit: int, word: str) -> int:
    """A half, each bit to a place for two."""
    first = REPEAT // 2 if word == "HIGHER" else 0
    return 2 * (bit - first) if first <= bit < first + REPEAT // 2 else -1


def interleaved(width: int, *, back: bool = False) -> Extent:
    """Lanes of two masks by turns, as two masks; or the other way round."""
    lanes = REPEAT // width

    def to(bit: int) -> int:
        lane, rest = divmod(bit, width)
        number, which = (lane // 2, lane % 2) if back else (lane % lanes, lane // lanes)
        return (which * lanes + number if back else 2 * number + which) * width + rest

    def accesses(call: Issued) -> Iterator[ByteAccess]:
        first, second = _masks(call, 2)
        may, must = (_bits(a | b << REPEAT, to) for a, b in zip(first, second, strict=True))
        call.core.masks[call.given[0]] = may & ALL, must & ALL
        call.core.masks[call.given[1]] = may >> REPEAT, must >> REPEAT
        yield from ()

    return accesses


# --- copies


def word(name: str) -> Extent:
    """A register of the core is set."""

    def accesses(call: Issued) -> Iterator[ByteAccess]:
        call.core.words[name] = call.given[0]
        yield from ()

    return accesses


def _loops(call: Issued, way: str) -> tuple[Ranges, Ranges]:
    """What two outer loops add to the addresses on the chip and in global memory."""
    words = call.core.words
    sizes, steps = words.get(f"size_{way}", 0), [words.get(f"{n}_{way}", 0) for n in (1, 2)]
    inner, outer = pairs(np.arange(max(sizes & (1 << 21) - 1, 1)), np.arange(max(sizes >> 21, 1)))
    here, there = ([step >> 40 for step in steps], [step & (1 << 40) - 1 for step in steps])
    return inner * here[0] + outer * here[1], inner * there[0] + outer * there[1]


def strided_load(way: str) -> Extent:
    """Bursts from global memory: rows with padding on the left and right, strides in bytes, and two outer loops. Where
    that is selected, rows in UB are padded to whole blocks (docs/isa/vector/dma-copy.md)."""

    def accesses(call: Issued) -> Iterator[ByteAccess]:
        target, source, _, count, length, left, right, selected, _, source_stride, target_stride = call.given[:11]
        (here, there), rows = _loops(call, way), np.arange(count)[:, None]
        yield ByteAccess("read", merged(source + there + rows * source_stride, length))
        width = length + (left + right) * size(call, 0)
        width = -(-width // BLOCK) * BLOCK if selected and way == "outtoub" else width
        yield ByteAccess("write", merged(target + here + rows * target_stride, width))

    return accesses


def strided_store(call: Issued) -> Iterator[ByteAccess]:
    """The same to global memory."""
    target, source, _, count, length, _, target_stride, source_stride = call.given[:8]
    (here, there), rows = _loops(call, "ubtoout"), np.arange(count)[:, None]
    yield ByteAccess("read", merged(source + here + rows * source_stride, length))
    yield ByteAccess("write", merged(target + there + rows * target_stride, length))


def to_fractals(*, by_columns: bool) -> Extent:
    """Matrices of rows, or of columns, to fractals of L1: their strides are in a register, in blocks."""

    def accesses(call: Issued) -> Iterator[ByteAccess]:
        target, source, _, stride, _, n, d, outer = call.given[:8]
        config, width = call.core.words.get("nz", 0), size(call, 0)
        matrices, row, column, matrix = (config >> 16 * k & 0xFFFF for k in range(4))
        number, line = pairs(np.arange(matrices), np.arange(d if by_columns else n))
        yield ByteAccess("read", merged(source + number * outer + line * stride, (n if by_columns else d) * width))
        number, i, j = pairs(np.arange(matrices), np.arange(n), np.arange(-(-d * width // BLOCK)))
        yield ByteAccess("write", merged(target + (number * matrix + i * row + j * column) * BLOCK, BLOCK))

    return accesses


def fractal_load(call: Issued) -> Iterator[ByteAccess]:
    """Fractals of L1 by rows and columns; a transpose exchanges the two in the destination."""
    target, source, m, k, rows, columns, source_stride, target_stride, is_transposed = call.given[:9]
    i, j = pairs(np.arange(rows), np.arange(columns))
    yield ByteAccess("read", merged(source + (m + i + (k + j) * source_stride) * FRACTAL, FRACTAL))
    if is_transposed:
        side = 32 // size(call, 1) if call.sizes[1] != IS_PAIR else 64
        i, j = _exchanged(rows * 16, columns * side, side)
    yield ByteAccess("write", merged(target + (i + j * target_stride) * FRACTAL, FRACTAL))


def _exchanged(rows: int, columns: int, side: int) -> tuple[Ranges, Ranges]:
    """Fractals of sixteen rows of the transpose of a matrix."""
    i, j = pairs(np.arange(-(-columns // 16)), np.arange(-(-rows // side)))
    return i, j


def scale_load(call: Issued) -> Iterator[ByteAccess]:
    """Scales of L1: blocks of 32 bytes by rows of blocks."""
    target, source, x, y, rows, columns, source_stride, target_stride = call.given[:8]
    i, j = pairs(np.arange(rows), np.arange(columns))
    yield ByteAccess("read", merged(source + ((x + i) * source_stride + y + j) * BLOCK, BLOCK))
    yield ByteAccess("write", merged(target + (i * target_stride + j) * BLOCK, BLOCK))


def image_load(call: Issued) -> Iterator[ByteAccess]:
    """Columns of an image: which bytes of it depends on registers that are not read here."""
    target, _, columns, rows = call.given[:4]
    yield from somewhere_at(call, 1)
    width = size(call, 0)
    yield ByteAccess("write", merged([target], -(-rows // 16) * 16 * -(-columns * width // BLOCK) * BLOCK))


def somewhere_at(call: Issued, place: int) -> Iterator[ByteAccess]:
    """Places of a memory that are not known."""
    yield ByteAccess("gather", merged([call.given[place]], size(call, place)))


def bias_load(call: Issued) -> Iterator[ByteAccess]:
    """Bursts of blocks from L1 to the bias table; a conversion doubles the bytes."""
    target, source, converts, count, length, source_gap, target_gap = call.given[:7]
    rows, bytes_ = np.arange(count), length * BLOCK
    yield ByteAccess("read", merged(source + rows * (bytes_ + source_gap * BLOCK), bytes_))
    more = 2 if converts else 1
    yield ByteAccess("write", merged(target + rows * (bytes_ * more + target_gap * BLOCK), bytes_ * more))


def results(split: int) -> Extent:
    """Results of the cube core to UB or L1: flags of the layout begin at an argument; the last one is for columns."""

    def accesses(call: Issued) -> Iterator[ByteAccess]:
        target, source, _, n, m, target_stride, source_stride, dual = call.given[:8]
        is_split, is_plain = call.given[split : split + 2]
        halves = dual if split == 13 else 0
        yield from _results(
            call, target, source, (n, m), (target_stride, source_stride), (is_split, is_plain, call.given[-1]), halves
        )

    return accesses


def packed_results(call: Issued) -> Iterator[ByteAccess]:
    """The same to global memory: the numbers are packed in two words."""
    target, source, first, second = call.given[:4]
    extent, strides = (first >> 4 & 0xFFF, first >> 16 & 0xFFFF), (first >> 32, second & 0xFFFF)
    yield from _results(
        call, target, source, extent, strides, (second >> 42 & 1, second >> 43 & 1, second >> 62 & 1), 0
    )


def _results(
    call: Issued,
    target: int,
    source: int,
    extent: tuple[int, int],
    strides: tuple[int, int],
    flags: tuple[int, int, int],
    halves: int,
) -> Iterator[ByteAccess]:
    """Columns of sixteen results; they become rows, columns, or columns of 32 bytes (64 for words that stay so)."""
    (n, m), (target_stride, source_stride), (is_split, is_rows, is_columns) = extent, strides, flags
    width, unit = size(call, 0), size(call, 1)
    loop = call.core.words.get("matrices", 0) if is_rows or is_columns else 0
    steps = np.arange(max(loop & 0xFFFF, 1))
    step, column, line = pairs(steps, np.arange(-(-n // 16)), np.arange(m))
    read = source + (step * (loop >> 16 & 0xFFFF) + column * source_stride + line) * 16 * unit
    yield ByteAccess("read", merged(read, 16 * unit))
    m, n = (-(-m // 2) if halves == 1 else m), (n // 2 if halves == 2 else n)
    if is_rows or is_columns:
        step, line = pairs(steps, np.arange(m if is_rows else n))
        at = target + (step * (loop >> 32) + line * target_stride) * width
        yield ByteAccess("write", merged(at, (n if is_rows else m) * width))
    else:
        side = 8 if is_split else 32 if width == 1 else 16
        column, line = pairs(np.arange(-(-n // side)), np.arange(m))
        yield ByteAccess("write", merged(target + (column * target_stride + line * side) * width, side * width))


def scaled_product(call: Issued) -> Iterator[ByteAccess]:
    """A matrix product with a scale for 32 numbers of a row or a column: at a sixteenth of its operands' addresses, in
    memories of their own (the header's `GetScaleAddr`)."""
    bases, (m, k, n) = call.core.bases, call.given[3:6]
    for place, memory, lines in ((1, LEFT, m), (2, RIGHT, n)):
        at = bases[memory + SCALES] + (call.given[place] - bases[memory]) // 16
        yield ByteAccess("read", merged([at], -(-lines // 16) * 16 * -(-k // 64) * 2))
    yield from product(call)


LEFT, RIGHT, SCALES = 2, 3, 5
"""Memories of operands, and how far from them those of their scales are, in the order of `Memory`."""


def product(call: Issued) -> Iterator[ByteAccess]:
    """A matrix product: rows, depth and columns are padded to fractals. The last two arguments say that a bias comes
    instead of the accumulator, or zero. Where it is a product with a row, that lies in one piece, of whole fractals
    (TMatmul.hpp:26, 36)."""
    target, left, right, m, k, n = call.given[:6]
    is_row = m == 1 and call.given[7] == 0
    m, n = -(-m // 16) * 16, -(-n // 16) * 16
    for place, at, lines in ((1, left, m), (2, right, n)):
        unit = 64 if call.sizes[place] == IS_PAIR else BLOCK // size(call, place)
        steps = -(-k // unit)
        blocks = -(-steps // 16) * 16 if is_row and place == 1 else steps * lines
        yield ByteAccess("read", merged([at], blocks * BLOCK))
    yield from bias(call, n)
    if not any(call.given[-2:]):
        yield ByteAccess("read", merged([target], m * n * size(call, 0)))
    yield ByteAccess("write", merged([target], m * n * size(call, 0)))
