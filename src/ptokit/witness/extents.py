"""Which bytes a call of an intrinsic reads and writes, from its arguments and the registers of the core."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

Ranges = np.ndarray[Any, np.dtype[np.int64]]
"""Rows of start and end, in bytes; sorted, apart from each other."""
How = Literal["read", "write", "load", "gather", "scatter"]
"""A load may read more than is used; of a gather and a scatter only the memory is known."""
Arguments = Sequence[int]
BLOCK, REPEAT = 32, 256
"""Bytes of a block, and of a step of the vector unit."""
FRACTAL = 512
MOST_REPEATS = 255
"""The number of repeats is a byte: larger numbers wrap."""
MOST_ELEMENTS = 1 << 20
"""No memory of the chip has more: what a wrapped count names after that is left out."""
PAIRED = (0, 1)
"""The orders of `order_t` in which a reduction writes a value and its position."""
POSITION = 3
"""The one in which it writes the position only."""


@dataclass(frozen=True)
class ByteAccess:
    """Bytes that a call reads or writes."""

    how: How
    ranges: Ranges


@dataclass
class CoreRegisters:
    """The registers of a core that decide what the vector unit accesses."""

    counts: bool = False
    """Whether the mask is a number of elements."""
    mask: tuple[int, int] = (2**64 - 1, 2**64 - 1)
    """The high and the low half."""
    compared: int = 0
    """The address in the comparison mask."""
    matrices: int = 0
    """Number and strides of the matrices that the cube core stores."""
    rows: dict[int, list[int]] = field(default_factory=dict)
    """Addresses in address registers, which transposes read."""
    words: dict[str, int] = field(default_factory=dict)
    """Other registers."""
    masks: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Masks of vector registers by their numbers: the lanes that may be active, and those that are."""
    bases: list[int] = field(default_factory=list)
    """Where memories begin."""

    def lanes(self, width: int) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The active lanes of one step of the vector unit over `width` elements."""
        high, low = self.mask
        bits = high << 64 | low
        return np.flatnonzero([bits >> lane & 1 for lane in range(width)])

    def elements(self, width: int, repeats: int) -> tuple[Ranges, ...]:
        """Steps and lanes that are active, as columns that broadcast to each other, or of one length."""
        if self.counts:
            every = np.arange(min(self.mask[1], MOST_ELEMENTS))
            return every // width, every % width
        return pairs(np.arange(repeats & MOST_REPEATS), self.lanes(width))


def pairs(*axes: Ranges) -> tuple[Ranges, ...]:
    """Every combination of an element of each axis."""
    return tuple(axis.ravel() for axis in np.meshgrid(*axes, indexing="ij"))


NOTHING: Ranges = np.empty((0, 2), np.int64)


@dataclass(frozen=True)
class Issued:
    """A call of an intrinsic."""

    core: CoreRegisters
    given: Arguments
    sizes: Arguments
    """The bytes of what pointers among the arguments point to; 0 for other arguments."""


Extent = Callable[[Issued], Iterator[ByteAccess]]
"""The accesses of a call."""


def merged(starts: Any, size: int | Any) -> Ranges:
    """Ranges that begin at some addresses, joined where they touch."""
    starts = np.asarray(starts, np.int64).ravel()
    ends = starts + size
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], np.maximum.accumulate(ends[order]) if len(order) else ends
    if not len(starts):
        return NOTHING
    is_first = np.append(True, starts[1:] > ends[:-1])
    return np.stack([starts[is_first], ends[np.append(is_first[1:], True)]], axis=1)


def without(ranges: Ranges, others: Ranges) -> Ranges:
    """What is in some ranges and not in others."""
    if not len(ranges) or not len(others):
        return ranges
    places = np.concatenate([ranges.ravel(), others.ravel()])
    steps = np.concatenate([np.tile([1, -1], len(ranges)), np.tile([-2, 2], len(others))])
    order = np.argsort(places, kind="stable")
    places, inside = places[order], np.cumsum(steps[order])
    starts, ends = places[:-1], places[1:]
    wanted = (inside[:-1] == 1) & (ends > starts)
    return merged(starts[wanted], ends[wanted] - starts[wanted])


def in_order(accesses: Sequence[tuple[bool, int, int]]) -> tuple[Ranges, Ranges]:
    """The bytes that are loaded and were not stored before, and those that are stored, by accesses in order: whether
    one stores, its address, its bytes."""
    stores, starts, sizes = np.array(accesses, np.int64).T
    turn = np.repeat(np.arange(len(sizes)), sizes)
    places = np.arange(len(turn)) + (starts + sizes - np.cumsum(sizes))[turn]
    is_store = stores[turn] == 1
    stored, first = np.unique(places[is_store], return_index=True)
    loaded: Ranges = places[~is_store]
    when = turn[~is_store]
    if len(stored):
        at = np.minimum(np.searchsorted(stored, loaded), len(stored) - 1)
        loaded = loaded[(stored[at] != loaded) | (turn[is_store][first][at] > when)]
    return merged(loaded, 1), merged(stored, 1)


def rows(start: int, count: int, size: int, stride: int) -> Ranges:
    """`count` rows of `size` bytes."""
    return merged(start + stride * np.arange(count), size) if size else merged([], 0)


def _of_lanes(at: int, size: int, steps: Any, lanes: Any, block: int, repeat: int) -> Ranges:
    """The bytes of lanes: `block` and `repeat` are strides in blocks."""
    offset = lanes * size
    return merged(at + steps * repeat * BLOCK + offset // BLOCK * block * BLOCK + offset % BLOCK, size)


def lanes(sources: int, *, scalar: bool = False, also_reads: bool = False, strides: int = 0) -> Extent:
    """An instruction over lanes: the destination, `sources`, a scalar, the number of steps, and the strides of blocks
    and steps, one of each for an operand. `also_reads`: of the destination."""

    def accesses(call: Issued) -> Iterator[ByteAccess]:
        operands, first = 1 + sources, 1 + sources + scalar
        number = strides or operands
        blocks, steps_between = call.given[first + 1 :][:number], call.given[first + 1 + number :][:number]
        width = REPEAT // max(call.sizes[:operands])
        steps, active = call.core.elements(width, call.given[first])
        touched = [
            _of_lanes(call.given[place], call.sizes[place], steps, active, blocks[place], steps_between[place])
            for place in range(operands)
        ]
        for ranges in touched[0 if also_reads else 1 :]:
            yield ByteAccess("read", ranges)
        yield ByteAccess("write", touched[0])

    return accesses


def four_bits(place: int) -> Extent:
    """A conversion of which the operand at a place has two elements in a byte."""

    def accesses(call: Issued) -> Iterator[ByteAccess]:
        steps, active = call.core.elements(REPEAT // max(call.sizes[:2]), call.given[2])
        for how, at in zip(("read", "write"), (1, 0), strict=True):
            size, lane = (1, active // 2) if at == place else (call.sizes[at], active)
            block, repeat = call.given[3 + at], call.given[5 + at]
            yield ByteAccess(how, _of_lanes(call.given[at], size, steps, lane, block, repeat))

    return accesses


def copied_lanes(call: Issued) -> Iterator[ByteAccess]:
    """A copy of lanes: a counter is that of each step, and does not replace their number (TFillPad.hpp:187)."""
    operands = list(zip(call.given[:2], call.given[3:5], call.given[5:7], strict=True))
    width, repeats = REPEAT // max(call.sizes[:2]), call.given[2] & MOST_REPEATS
    active = np.arange(min(call.core.mask[1], MOST_ELEMENTS)) if call.core.counts else call.core.lanes(width)
    steps, lane = pairs(np.arange(repeats), active)
    for how, (at, block, repeat) in zip(("write", "read"), operands, strict=True):
        yield ByteAccess(how, _of_lanes(at, call.sizes[0], steps, lane, block, repeat))


def select(call: Issued) -> Iterator[ByteAccess]:
    """The comparison mask chooses between two sources; in the third mode it is an address of masks. In the second mode
    it has a scalar, and the second source is masks (TSels.hpp:42)."""
    mode = call.given[10] if len(call.given) > 10 else 0
    width = REPEAT // max(call.sizes[:2])
    bits = -(-(call.core.mask[1] if call.core.counts else call.given[3] * width) // 8)
    if mode and call.core.compared:
        yield ByteAccess("read", merged([call.core.compared], bits if mode == 2 else 16))
    touched = list(lanes(2)(call))
    yield from (
        touched[0],
        *([ByteAccess("read", merged([call.given[2]], bits))] if mode == 1 else touched[1:2]),
        touched[2],
    )


def compare(sources: int) -> Extent:
    """A comparison writes a bit for each lane, step after step; all lanes take part."""

    def accesses(call: Issued) -> Iterator[ByteAccess]:
        width = REPEAT // call.sizes[1]
        repeats = call.given[3]
        blocks, steps_between = call.given[4:][: 1 + sources], call.given[5 + sources :][: 1 + sources]
        steps, active = pairs(np.arange(repeats), np.arange(width))
        if call.core.counts:
            steps, active = call.core.elements(width, repeats)
            repeats = -(-call.core.mask[1] // width)
        for place in range(1, 1 + sources):
            at = _of_lanes(call.given[place], call.sizes[place], steps, active, blocks[place], steps_between[place])
            yield ByteAccess("read", at)
        yield ByteAccess("write", merged([call.given[0]], repeats * width // 8))

    return accesses


def compare_mask(call: Issued) -> Iterator[ByteAccess]:
    """A comparison of one step, into the comparison mask: both pointers are sources."""
    steps, active = call.core.elements(REPEAT // call.sizes[0], 1)
    for place, block in enumerate(call.given[4:6]):
        yield ByteAccess("read", _of_lanes(call.given[place], call.sizes[place], steps, active, block, 0))


def mask_register(call: Issued) -> Iterator[ByteAccess]:
    """The comparison mask is read from memory."""
    call.core.compared = call.given[0]
    yield ByteAccess("read", merged([call.given[0]], 16))


def whole_reduction(call: Issued) -> Iterator[ByteAccess]:
    """A result for each step."""
    yield from _reduced(call, 1)


def position_reduction(call: Issued) -> Iterator[ByteAccess]:
    """A value and its position for each step, or one of them: the last argument says which. A position alone has four
    bytes."""
    order = call.given[6]
    yield from _reduced(call, 2 if order in PAIRED else 1, 4 if order == POSITION else call.sizes[0])


def _reduced(call: Issued, results: int, size: int = 0) -> Iterator[ByteAccess]:
    """`results` numbers for each step, of some bytes; steps are that many times a stride apart."""
    size = size or call.sizes[0]
    width = REPEAT // call.sizes[1]
    steps, active = call.core.elements(width, call.given[2])
    repeats = -(-call.core.mask[1] // width) if call.core.counts else call.given[2]
    yield ByteAccess("read", _of_lanes(call.given[1], call.sizes[1], steps, active, call.given[4], call.given[5]))
    yield ByteAccess("write", rows(call.given[0], repeats, results * size, call.given[3] * results * size))


def block_reduction(call: Issued) -> Iterator[ByteAccess]:
    """A result for each block: eight in a step, one after the other."""
    size = call.sizes[0]
    width = REPEAT // size
    steps, active = call.core.elements(width, call.given[2])
    yield ByteAccess("read", _of_lanes(call.given[1], size, steps, active, call.given[4], call.given[5]))
    blocks = active * size // BLOCK
    yield ByteAccess("write", merged(call.given[0] + (steps * call.given[3] * 8 + blocks) * size, size))


def pair_reduction(call: Issued) -> Iterator[ByteAccess]:
    """A result for each pair of lanes."""
    size = call.sizes[0]
    steps, active = call.core.elements(REPEAT // size, call.given[2])
    yield ByteAccess("read", _of_lanes(call.given[1], size, steps, active, call.given[4], call.given[5]))
    yield ByteAccess("write", merged(call.given[0] + steps * call.given[3] * REPEAT // 2 + active // 2 * size, size))


def broadcast_blocks(call: Issued) -> Iterator[ByteAccess]:
    """Eight elements of a step, each to a block."""
    target, source, block, repeat, repeats = call.given[:5]
    steps, blocks = pairs(np.arange(repeats), np.arange(8))
    yield ByteAccess("read", merged([source], 8 * repeats * call.sizes[1]))
    yield ByteAccess("write", merged(target + (steps * repeat + blocks * block) * BLOCK, BLOCK))


def compress(call: Issued) -> Iterator[ByteAccess]:
    """Elements that a pattern names move together; a counter is that of each step, and does not replace their number
    (TGather.hpp:130). How many a pattern of memory keeps is not known, at most all."""
    target, source, pattern, repeats, block, mode, repeat, pattern_repeat = call.given[:8]
    size = call.sizes[1]
    lanes = min(call.core.mask[1], MOST_ELEMENTS) if call.core.counts else REPEAT // size
    steps, active = pairs(np.arange(repeats), np.arange(lanes))
    yield ByteAccess("read", _of_lanes(source, size, steps, active, block, repeat))
    if mode == 0:
        yield ByteAccess("read", rows(pattern, repeats, -(-lanes // 8), pattern_repeat * BLOCK))
    kept = len(steps) if mode == 0 else int(np.isin(active % 4, PATTERNS[mode]).sum())
    yield ByteAccess("write", merged([target], kept * size))


PATTERNS = {1: (0, 2), 2: (1, 3), **{3 + lane: (lane,) for lane in range(4)}, 7: (0, 1, 2, 3)}
"""Of every four lanes, those that a pattern keeps, by its number."""


def gather(call: Issued) -> Iterator[ByteAccess]:
    """Elements at offsets: which ones depends on data."""
    target, offsets, _, repeat, repeats = call.given[:5]
    width = REPEAT // call.sizes[0]
    steps, active = call.core.elements(width, repeats)
    yield ByteAccess("read", merged(offsets + (steps * width + active) * call.sizes[1], call.sizes[1]))
    yield ByteAccess("write", _of_lanes(target, call.sizes[0], steps, active, 1, repeat))


def gather_blocks(call: Issued) -> Iterator[ByteAccess]:
    """Blocks at offsets: eight in a step."""
    target, offsets, _, repeat, block, repeats = call.given[:6]
    steps, blocks = pairs(np.arange(repeats), np.arange(8))
    yield ByteAccess("read", merged([offsets], 32 * repeats))
    yield ByteAccess("write", merged(target + (steps * repeat + blocks * block) * BLOCK, BLOCK))


def sort_blocks(call: Issued) -> Iterator[ByteAccess]:
    """Sorts 32 scores with their indices into 32 structures of eight bytes."""
    target, scores, indices, repeats = call.given[:4]
    yield ByteAccess("read", merged([scores], 32 * repeats * call.sizes[1]))
    yield ByteAccess("read", merged([indices], 32 * repeats * 4))
    yield ByteAccess("write", merged([target], 32 * repeats * 8))


def merge_sorted(call: Issued) -> Iterator[ByteAccess]:
    """Merges up to four lists of structures of eight bytes; of several repeats, each has four lists that follow one
    another."""
    lengths, config = call.given[5], call.given[6]
    counts = [lengths >> 16 * number & 0xFFFF for number in range(4) if config >> 8 + number & 1]
    repeats = max(config & 0xFF, 1)
    if repeats > 1:
        yield ByteAccess("read", merged([call.given[1]], repeats * sum(counts) * 8))
    else:
        for place, count in enumerate(counts, 1):
            yield ByteAccess("read", merged([call.given[place]], count * 8))
    yield ByteAccess("write", merged([call.given[0]], repeats * sum(counts) * 8))


def transpose(call: Issued) -> Iterator[ByteAccess]:
    """Transposes blocks of sixteen rows, whose addresses are in two registers each; of bytes, a half of each block."""
    target, source, repeats, target_stride, source_stride = call.given[:5]
    halves = call.given[5:7] or (0, 0)
    size = BLOCK // 2 if len(call.given) > 5 else BLOCK

    def blocks(first: int, stride: int, half: int) -> Ranges:
        at = np.array([*call.core.rows.get(first, ()), *call.core.rows.get(first + 1, ())], np.int64)
        return merged(at + np.arange(repeats)[:, None] * (stride if repeats > 1 else 0) * BLOCK + size * half, size)

    yield ByteAccess("read", blocks(source, source_stride, halves[1]))
    yield ByteAccess("write", blocks(target, target_stride, halves[0]))


def bursts(first: int, unit: int = BLOCK) -> Extent:
    """A copy: number and length of bursts in units, and the gaps between them, from the argument `first` on."""

    def accesses(call: Issued) -> Iterator[ByteAccess]:
        count, length, source_gap, target_gap = call.given[first:][:4]
        yield ByteAccess("read", rows(call.given[1], count, length * unit, (length + source_gap) * unit))
        yield ByteAccess("write", rows(call.given[0], count, length * unit, (length + target_gap) * unit))

    return accesses


def loaded_bursts(call: Issued) -> Iterator[ByteAccess]:
    """Bursts from global memory to UB: lengths and the gap there in bytes, rows in UB in whole blocks and padded by
    elements on the left and right."""
    target, source, _, count, length, left, right, source_gap, target_gap = call.given[:9]
    whole = length + (left + right) * call.sizes[0]
    yield ByteAccess("read", rows(source, count, length, length + source_gap))
    yield ByteAccess("write", rows(target, count, whole, -(-whole // BLOCK) * BLOCK + target_gap * BLOCK))


def stored_bursts(call: Issued) -> Iterator[ByteAccess]:
    """The same from UB to global memory."""
    target, source, _, count, length, left, right, source_gap, target_gap = call.given[:9]
    stride = -(-(length + (left + right) * call.sizes[1]) // BLOCK) * BLOCK
    yield ByteAccess("read", rows(source, count, length, stride + source_gap * BLOCK))
    yield ByteAccess("write", rows(target, count, length, length + target_gap))


def nd2nz(call: Issued) -> Iterator[ByteAccess]:
    """Matrices of rows in global memory into fractals of L1: rows of 32 bytes, the rest of the last column is zero."""
    target, source, _, matrices, height, width, matrix_stride, row_stride, column, row, matrix = call.given[:11]
    size = call.sizes[0]
    n, i = pairs(np.arange(matrices), np.arange(height))
    yield ByteAccess("read", merged(source + (n * matrix_stride + i * row_stride) * size, width * size))
    columns = np.arange(-(-width * size // BLOCK))[:, None]
    at = target + (columns * column + i * row) * BLOCK + n * matrix * size
    yield ByteAccess("write", merged(at, BLOCK))


def fill(call: Issued) -> Iterator[ByteAccess]:
    """Writes one value: repeats, blocks of 32 bytes, and the gap between repeats, packed into a word."""
    packed = call.given[1]
    count, blocks, gap = packed & 0x7FFF, packed >> 16 & 0x7FFF, packed >> 32 & 0x7FFF
    yield ByteAccess("write", rows(call.given[0], count, blocks * BLOCK, (blocks + gap) * BLOCK))


def fractals(call: Issued) -> Iterator[ByteAccess]:
    """Fractals of 512 bytes from L1."""
    target, source, start, repeats, source_stride, target_gap = call.given[:6]
    places = np.arange(repeats)
    yield ByteAccess("read", merged(source + (start + places * source_stride) * FRACTAL, FRACTAL))
    yield ByteAccess("write", merged(target + places * (1 + target_gap) * FRACTAL, FRACTAL))


def transposed_fractals(call: Issued) -> Iterator[ByteAccess]:
    """Square matrices from L1, of bytes two fractals each: their distances in the destination are the gap between steps
    and the one inside of a step (textract_common.hpp:44)."""
    target, source, start, repeats, source_stride, target_gap = call.given[:6]
    square = FRACTAL * (2 if call.sizes[1] == 1 else 1)
    within = (1 + call.given[7]) * FRACTAL
    places = np.arange(repeats)
    yield ByteAccess("read", merged(source + (start + places * source_stride) * square, square))
    first = target + places * (1 + target_gap) * FRACTAL
    yield ByteAccess("write", merged(np.concatenate([first, first + within]) if square > FRACTAL else first, FRACTAL))


def accumulator(call: Issued) -> Iterator[ByteAccess]:
    """Results of the cube core: extents and strides are packed in two words, those of matrices in a register."""
    target, source, first, second = call.given[:4]
    width, height, stride = first >> 4 & 0xFFF, first >> 16 & 0xFFFF, first >> 32
    source_stride, is_plain = second & 0xFFFF, second >> 43 & 1
    matrices = call.core.matrices & 0xFFFF if is_plain else 1
    steps = np.arange(max(matrices, 1))[:, None, None]
    columns, lines = np.arange(-(-width // 16))[:, None], np.arange(height)
    source_step = (call.core.matrices >> 16 & 0xFFFF) * FRACTAL * 2
    read = source + steps * source_step + columns * source_stride * 16 * call.sizes[1] + lines * 16 * call.sizes[1]
    yield ByteAccess("read", merged(read, 16 * call.sizes[1]))
    if is_plain:
        target_step = call.core.matrices >> 32 & 0xFFFF
        yield ByteAccess(
            "write", merged(target + (steps * target_step + lines * stride) * call.sizes[0], width * call.sizes[0])
        )
    else:
        unit = 16 * call.sizes[0]
        yield ByteAccess("write", merged(target + columns * stride * BLOCK + lines * unit, unit))


def accumulator_to_l1(call: Issued) -> Iterator[ByteAccess]:
    """The same to fractals of L1, by arguments that are not packed (arch_cce_intrinsic.hpp:325): columns of 16 results
    become columns of 16, of bytes 32, a stride of blocks apart."""
    target, source, _, n, m, target_stride, source_stride = call.given[:7]
    columns, lines = np.arange(-(-n // 16))[:, None], np.arange(m)
    wide = 16 * call.sizes[1]
    yield ByteAccess("read", merged(source + (columns * source_stride + lines) * wide, wide))
    side = 32 if call.sizes[0] == 1 else 8 if call.given[10] else 16
    columns, unit = np.arange(-(-n // side))[:, None], side * call.sizes[0]
    yield ByteAccess("write", merged(target + columns * target_stride * BLOCK + lines * unit, unit))


def product(call: Issued) -> Iterator[ByteAccess]:
    """A matrix product: rows, depth and columns are padded to fractals. The last two arguments say that a bias comes
    instead of the accumulator, or zero. A single row lies in one piece, of whole fractals (TMatmul.hpp:48,
    tests/npu/a2a3, tmatmul_kernel.cpp:351)."""
    target, left, right, m, k, n = call.given[:6]
    unit = BLOCK // call.sizes[1]
    row = -(-k * call.sizes[1] // FRACTAL) * FRACTAL if m == 1 else 0
    m, n, k = -(-m // 16) * 16, -(-n // 16) * 16, -(-k // unit) * unit
    yield ByteAccess("read", merged([left], row or m * k * call.sizes[1]))
    yield ByteAccess("read", merged([right], k * n * call.sizes[2]))
    yield from bias(call, n)
    if not any(call.given[-2:]):
        yield ByteAccess("read", merged([target], m * n * call.sizes[0]))
    yield ByteAccess("write", merged([target], m * n * call.sizes[0]))


def bias_address(call: Issued) -> Iterator[ByteAccess]:
    """The next product adds a bias."""
    call.core.words["bias"] = call.given[0]
    yield from ()


def bias(call: Issued, n: int) -> Iterator[ByteAccess]:
    """The bias of a product: a word for each column."""
    if "bias" in call.core.words:
        yield ByteAccess("read", merged([call.core.words.pop("bias")], n * 4))


def store_atomic(call: Issued) -> Iterator[ByteAccess]:
    """A value added to a word of global memory."""
    place = next(number for number, size in enumerate(call.sizes) if size)
    for how in ("read", "write"):
        yield ByteAccess(how, merged([call.given[place]], call.sizes[place]))


def address_register(call: Issued) -> Iterator[ByteAccess]:
    """Eight addresses for transposes."""
    call.core.rows[call.given[0]] = list(call.given[1:9])
    yield from ()


def register(name: str, value: object = None) -> Extent:
    """A register of the core is set: to a value, else to what the call states."""

    def accesses(call: Issued) -> Iterator[ByteAccess]:
        stated = call.given[0] if len(call.given) == 1 else tuple(call.given)
        setattr(call.core, name, stated if value is None else value)
        yield from ()

    return accesses


def nothing(_: Issued) -> Iterator[ByteAccess]:
    """No data is moved."""
    yield from ()
