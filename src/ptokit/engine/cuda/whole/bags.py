"""Bags of gathered rows on a GPU: a thread reduces a piece of the columns of a bag, lane after lane."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

from ptokit.engine.bags import Bags
from ptokit.engine.cuda.device import Device, DeviceKernel, current
from ptokit.engine.cuda.whole.calls import FEW, checking
from ptokit.engine.cuda.whole.check import note_refused, take
from ptokit.engine.cuda.whole.pieces import PIECE
from ptokit.engine.llvm.bags import BagArguments, BagCode, BagKind
from ptokit.engine.llvm.chip import Chip
from ptokit.engine.llvm.compiled import IrSource
from ptokit.engine.llvm.emit import I64, PTR, IrModule, IrValue
from ptokit.engine.runnable import Unsupported

NAME = "bags"
POINTERS = ("table", "index", "bounds", "weights", "out", "winners", "flag")
NUMBERS = ("total", "capacity", "row", "padding", "bags")
AT_ONCE = 4
"""Rows that a thread loads before it reduces them."""
LANES = 0.25
"""Threads of a block, for each of the chip's."""
MOST_GRID = (1 << 31) - 1


def text(chip: Chip, kind: BagKind, columns: int, checks: bool = True) -> str:
    """The LLVM text of a kernel that takes some columns at a time."""
    module = IrModule(chip)
    code = module.kernel(NAME, [*((PTR, name) for name in POINTERS), *((I64, name) for name in NUMBERS)])
    addresses, numbers = code.arguments[: len(POINTERS)], code.arguments[len(POINTERS) :][: len(NUMBERS)]
    given, flag = BagArguments(*addresses[:-1], *numbers), addresses[-1]

    def read(name: IrValue) -> None:
        with code.when(name.compare("uge", given.capacity)):
            note_refused(code, flag, code.i64(0))  # which lane it is does not matter

    bag_code, across = BagCode(code, kind, given, read if checks else None), kind.width // columns
    with code.phase():
        assert code.lane is not None
        lanes = code.chip.lanes
        with code.loop(code.block * lanes + code.lane, given.bags * across, code.blocks * lanes) as number:
            bag_code.reduce(number.op("udiv", across), number.op("urem", across) * columns, columns)
    code.ret()
    return module.text


@lru_cache(maxsize=1024)
def _kernel(device: Device, kind: BagKind, columns: int, checks: bool) -> DeviceKernel:
    chip = replace(device.chip, lanes=_lanes(device))
    key = f"{chip} {NAME} {kind} {columns} {checks}"
    return device.module(key, lambda: IrSource(text(chip, kind, columns, checks), {"lanes": chip.lanes})).kernel(NAME)


def _lanes(device: Device) -> int:
    """Threads of a block."""
    return int(device.chip.lanes * LANES)


class PreparedBags:
    """Bags, ready for calls on a device."""

    def __init__(self, device: Device, bags: Bags) -> None:
        self._device, self._kind = device, BagKind.of(bags, at_once=AT_ONCE)
        if not self._kind.is_supported:
            raise Unsupported(f"bags of {bags.dtype}")
        self._row = bags.width * bags.dtype.size
        self._numbers = bags.lanes, bags.capacity, self._row, bags.padding, bags.bags
        kind, is_early = bags.index_type, bags.followed and bags.lanes > FEW
        self._checks = kind is not None
        self._early_check = checking(device, kind, bags.lanes, bags.capacity) if kind and is_early else None
        """A kernel before that of the bags, which need not be waited for then."""
        self._launches: dict[int, tuple[DeviceKernel, int]] = {}
        """The kernel and its blocks, by the alignment of arrays."""

    def run_at(self, table: int, indices: int, bounds: int, weights: int, out: int, winners: int) -> bool:
        """Reduce bags at `Bags.places`; False if an index is outside of the table."""
        every = table | out | winners // 4 * self._kind.dtype.size | self._row | PIECE
        aligned = every & -every
        kernel, grid = self._launches.get(aligned) or self._launch(aligned)
        places = table, indices, bounds, weights, out, winners
        if not self._checks:
            kernel(grid, (*places, 0, *self._numbers))
            return True
        check = take(self._device)
        try:
            if self._early_check is not None:
                self._early_check(indices, check.address)
                check.begin()
            kernel(grid, (*places, check.address, *self._numbers))
            if self._early_check is None:
                check.begin()
            return check.end() is None
        except BaseException:
            self._device.wait()  # the kernel writes to memory of the host, which ends with the check
            raise

    def _launch(self, aligned: int) -> tuple[DeviceKernel, int]:
        columns = max(1, aligned // self._kind.dtype.size)
        grid = -(-self._numbers[-1] * (self._kind.width // columns) // _lanes(self._device))
        found = self._launches[aligned] = (
            _kernel(self._device, self._kind, columns, self._early_check is None),
            min(MOST_GRID, grid),
        )
        return found


_prepared = lru_cache(maxsize=1024)(PreparedBags)


def repeated(bags: Bags, _threads: int | None) -> Callable[..., bool]:
    """Bags like these, to be called with `Bags.places` while this GPU is current; it returns False if an index is
    outside of the table."""
    return _prepared(current(), bags.anywhere).run_at


def run(bags: Bags, threads: int | None) -> bool:
    """Reduce bags; False if an index is outside of the table, and then nothing of the result counts."""
    return repeated(bags, threads)(*bags.places)
