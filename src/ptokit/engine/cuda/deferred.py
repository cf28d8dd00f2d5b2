"""Scatters that blocks record, and that take effect afterwards in the order of the blocks.

Every block has a part of the memory for each scatter, large enough for all of its lanes; what it leaves free names no
row. So the order of lanes in memory is that of the blocks, whenever they run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from ctypes import Array, c_int64

import numpy as np

from ptokit.engine.cuda.device import Device, DeviceBuffer
from ptokit.engine.cuda.whole.moves import scattering
from ptokit.engine.llvm.emit import size_of
from ptokit.engine.llvm.program.independent import CAPACITY, COUNT, LANES, ROWS, Page
from ptokit.engine.llvm.program.slots import Slots
from ptokit.engine.whole import MoveSizes
from ptokit.isa.dtype import dtype
from ptokit.isa.move import Combine
from ptokit.program.bounds import MOST_TRIED, reaches
from ptokit.program.expr import BLOCK_IDX, Var
from ptokit.program.ir import Instr

MOST_OF_WAVE = 256 << 20
"""Bytes that the blocks of a wave may record; one block may record more."""


def lanes_of_blocks(slots: Slots, numbers: tuple[int, ...], grid: int, integers: Mapping[Var, int]) -> dict[int, int]:
    """The lanes that a block records for each scatter, at most; without those that are known at run time only."""
    found = dict.fromkeys(numbers, 0)
    for stmt, reach in reaches(slots.program, grid if grid <= MOST_TRIED else None, integers):
        number = slots.numbers[id(stmt)]
        if number in found and isinstance(stmt, Instr):
            if reach.possible is None:
                del found[number]
                continue
            blocks = reach.possible.get(BLOCK_IDX, np.zeros(reach.times, np.int64))
            found[number] = slots.most_lanes(stmt) * int(np.bincount(blocks).max(initial=0))
    return found


class DeferredScatters:
    """What the blocks of a wave record."""

    def __init__(self, device: Device, slots: Slots, pages: tuple[Page, ...], lanes: Mapping[int, int]) -> None:
        """`lanes` are those of a block, for the statement of each page."""
        self.pages = pages
        self._device, self._slots, self._lanes = device, slots, lanes
        each = sum(lanes[page.number] * (page.nbytes + size_of(page.lane)) for page in pages)
        self._blocks = max(1, MOST_OF_WAVE // max(1, each))
        """Blocks of a wave."""

    def waves(self, grid: int) -> Iterator[range]:
        """The blocks of a grid, wave after wave."""
        self._blocks = min(self._blocks, grid)
        self._memory = [self._allocated(page) for page in self.pages]
        for first in range(0, grid, self._blocks):
            yield range(first, min(grid, first + self._blocks))

    def _allocated(self, page: Page) -> tuple[DeviceBuffer, DeviceBuffer]:
        count = self._blocks * self._lanes[page.number]
        return self._device.empty(count * size_of(page.lane)), self._device.empty(count * page.nbytes)

    def begin(self, state: Array[c_int64], wave: range) -> None:
        """Put into the slots where the blocks of a wave record."""
        for page, (lanes, rows) in zip(self.pages, self._memory, strict=True):
            slot, count = self._slots.ledgers[page.number], self._lanes[page.number]
            self._device.fill(lanes.address, 0xFF, len(wave) * count * size_of(page.lane))
            for which, number in ((LANES, lanes.address), (ROWS, rows.address), (COUNT, wave.start), (CAPACITY, count)):
                state[slot + which] = number

    def flush(self, addresses: Mapping[str, int], wave: range) -> None:
        """Execute what the blocks of a wave have recorded."""
        self._flush(addresses, [len(wave) * self._lanes[page.number] for page in self.pages])

    def flush_before(self, addresses: Mapping[str, int], slots: Sequence[int]) -> None:
        """Execute what was recorded before a block failed: by the blocks before it, and by itself, as its slots say."""
        self._flush(addresses, [slots[self._slots.ledgers[page.number] + COUNT] for page in self.pages])

    def _flush(self, addresses: Mapping[str, int], counts: Sequence[int]) -> None:
        """Execute each scatter on a number of lanes."""
        for page, (lanes, rows), count in zip(self.pages, self._memory, counts, strict=True):
            kind = dtype(page.element)
            table = addresses[page.array] + page.offset * kind.size
            sizes = MoveSizes(count, page.width, page.capacity, page.row, 1, page.width, 1, 1)
            move = scattering(self._device, kind, Combine[page.combine], page.lane)
            move(table, lanes.address, rows.address, sizes)
