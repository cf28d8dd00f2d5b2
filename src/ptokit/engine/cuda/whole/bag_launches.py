"""Bags of gathered rows on a GPU: a thread reduces a piece of the columns of a bag, lane after lane.

Those of many tables take one launch for all tables of a kind, and one wait for all indices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from functools import lru_cache
from typing import Any

import numpy as np

from ptokit.engine.bag_arguments import BagPlaces, BagSizes, BagsKind, TableBags
from ptokit.engine.cuda.device import Device, DeviceBuffer, DeviceKernel, cuda, current
from ptokit.engine.cuda.whole.check import note_refused, take
from ptokit.engine.cuda.whole.kinds import PIECE
from ptokit.engine.cuda.whole.moves import FEW, checking
from ptokit.engine.llvm.bag_code import BagArguments, BagCode, supported
from ptokit.engine.llvm.compiled import IrSource
from ptokit.engine.llvm.emit import I64, PTR, Chip, IrBuilder, IrModule, IrValue

POINTERS = ("table", "index", "bounds", "weights", "out", "winners", "flag")
NUMBERS = ("total", "capacity", "row", "padding", "bags")
AT_ONCE = 4
"""Rows that a thread loads before it reduces them."""
LANES = 0.25
"""Threads of a block, for each of the chip's."""
MOST_GRID = (1 << 31) - 1
WORDS = len(fields(BagArguments))


def text(chip: Chip, kind: BagsKind, columns: int, checks: bool = True) -> str:
    """The LLVM text of a kernel that takes some columns at a time."""
    module = IrModule(chip)
    code = module.kernel("bags", [*((PTR, name) for name in POINTERS), *((I64, name) for name in NUMBERS)])
    addresses, numbers = code.arguments[: len(POINTERS)], code.arguments[len(POINTERS) :][: len(NUMBERS)]
    given, flag = BagArguments(*addresses[:-1], *numbers), addresses[-1]

    bag_code = BagCode(code, kind, given, noting(code, flag, given.capacity) if checks else None)
    across = kind.width // columns
    with code.phase():
        lanes = code.chip.lanes
        with code.loop(code.block * lanes + code.lane, given.bags * across, code.blocks * lanes) as number:
            bag_code.reduce(number.op("udiv", across), number.op("urem", across) * columns, columns)
    code.ret()
    return module.text


def noting(code: IrBuilder, flag: IrValue, capacity: IrValue) -> Callable[[IrValue], None]:
    """A function that takes note of indices that are outside."""

    def read(name: IrValue) -> None:
        with code.when(name.compare("uge", capacity)):
            note_refused(code, flag, code.i64(0))  # which lane it is does not matter

    return read


def columns_of(kind: BagsKind, places: BagPlaces) -> int:
    """Columns that a thread takes: as many as a load has, from rows at some addresses."""
    size = kind.dtype.size
    every = places.table | places.out | places.winners // 4 * size | kind.width * size | PIECE
    return max(1, (every & -every) // size)


def table_text(chip: Chip, kind: BagsKind, columns: int) -> str:
    """The same for bags of many tables; jobs are the words of `TableBags`."""
    module = IrModule(chip)
    code = module.kernel("table_bags", [(PTR, "jobs"), (PTR, "flag"), (I64, "tables"), (I64, "bags")])
    jobs, flag, tables, bags = code.arguments[:4]
    across = kind.width // columns
    with code.phase():
        lanes, each = code.chip.lanes, bags * across
        with code.loop(code.block * lanes + code.lane, tables * each, code.blocks * lanes) as number:
            given = BagArguments.of_job(code, code.at(jobs, number.op("udiv", each) * (8 * WORDS)))
            own = number.op("urem", each)
            reducing = BagCode(code, kind, given, noting(code, flag, given.capacity))
            reducing.reduce(own.op("udiv", across), own.op("urem", across) * columns, columns)
    code.ret()
    return module.text


TEXTS: dict[str, Callable[..., str]] = {"bags": text, "table_bags": table_text}


@lru_cache(maxsize=2048)
def _kernel(device: Device, name: str, kind: BagsKind, *given: Any) -> DeviceKernel:
    chip = replace(device.chip, lanes=lanes_of(device))
    key = f"{chip} {name} {kind} {given}"
    return device.module(key, lambda: IrSource(TEXTS[name](chip, kind, *given), {"lanes": chip.lanes})).kernel(name)


def lanes_of(device: Device) -> int:
    """Threads of a block."""
    return int(device.chip.lanes * LANES)


class CudaBags:
    """Bags of a kind, ready for calls of all sizes on a device."""

    def __init__(self, device: Device, bags: BagsKind) -> None:
        self._device, self._kind, self._followed = device, supported(bags, at_once=AT_ONCE), bags.followed
        self._row = bags.width * bags.dtype.size
        self._check = None if bags.index_type is None else checking(device, bags.index_type)

    def __call__(self, places: BagPlaces, sizes: BagSizes, _threads: int | None = None) -> bool:
        """Reduce bags; False if an index is outside of the table."""
        capacity, bags, lanes, padding = sizes
        has_outside = self._kind.index_type is not None and (self._kind.index_type.size == 8 or capacity < 1 << 32)
        check_early = self._check if self._followed and lanes > FEW and has_outside else None
        """A kernel before that of the bags, which need not be waited for then."""
        columns = columns_of(self._kind, places)
        kernel = _kernel(self._device, "bags", self._kind, columns, check_early is None)
        grid = min(MOST_GRID, -(-bags * (self._kind.width // columns) // lanes_of(self._device)))
        numbers = lanes, capacity, self._row, padding, bags
        if self._kind.index_type is None:
            kernel(grid, (*places, 0, *numbers))
            return True
        check = take(self._device)
        try:
            if check_early is not None:
                check_early(places.indices, lanes, capacity, check.address)
                check.begin()
            kernel(grid, (*places, check.address, *numbers))
            if check_early is None:
                check.begin()
            return check.end() is None
        except BaseException:
            self._device.wait()  # the kernel writes to memory of the host, which ends with the check
            raise


_prepared = lru_cache(maxsize=1024)(CudaBags)


def prepare(kind: BagsKind, gpu: int | None) -> CudaBags:
    """Bags of a kind, to be called while a GPU is current."""
    assert gpu is not None
    return _prepared(cuda(gpu), kind)


def run_tables(given: Sequence[TableBags], _threads: int | None = None) -> bool:
    """Reduce bags of tables; False if an index is outside of its table, and then nothing of the result counts."""
    device, groups = current(), dict[tuple[BagsKind, int, int], list[TableBags]]()
    for each in given:
        groups.setdefault((each.kind, columns_of(each.kind, each.places), each.sizes.bags), []).append(each)
    kernels = [_kernel(device, "table_bags", supported(kind, at_once=AT_ONCE), columns) for kind, columns, _ in groups]
    jobs = uploaded(device, [each.words for own in groups.values() for each in own])
    check, first = take(device), jobs.address
    try:
        for kernel, ((kind, columns, bags), own) in zip(kernels, groups.items(), strict=True):
            threads = len(own) * bags * (kind.width // columns)
            kernel(min(MOST_GRID, -(-threads // lanes_of(device))), (first, check.address, len(own), bags))
            first += 8 * WORDS * len(own)
        check.begin()
        return check.end() is None
    except BaseException:
        device.wait()  # kernels write to memory of the host, which ends with the check
        raise


def uploaded(device: Device, words: Any) -> DeviceBuffer:
    """Words of jobs, in memory of the device."""
    data = np.asarray(words, np.int64)
    made = device.empty(data.nbytes)
    device.upload(made.address, data.reshape(-1).view(np.uint8))
    return made
