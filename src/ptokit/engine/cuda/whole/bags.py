"""Bags of gathered rows on a GPU: a thread reduces a piece of the columns of a bag, lane after lane."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from ptokit.engine.bags import Bags
from ptokit.engine.cuda.device import Device, DeviceKernel, current
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


def text(chip: Chip, kind: BagKind, columns: int) -> str:
    """The LLVM text of a kernel that takes some columns at a time."""
    module = IrModule(chip)
    code = module.kernel(NAME, [*((PTR, name) for name in POINTERS), *((I64, name) for name in NUMBERS)])
    addresses, numbers = code.arguments[: len(POINTERS)], code.arguments[len(POINTERS) :][: len(NUMBERS)]
    given, flag = BagArguments(*addresses[:-1], *numbers), addresses[-1]

    def read(name: IrValue) -> None:
        with code.when(name.compare("uge", given.capacity)):
            note_refused(code, flag, code.i64(0))  # which lane it is does not matter

    bag_code, across = BagCode(code, kind, given, read), kind.width // columns
    with code.phase():
        assert code.lane is not None
        lanes = code.chip.lanes
        with code.loop(code.block * lanes + code.lane, given.bags * across, code.blocks * lanes) as number:
            bag_code.reduce(number.op("udiv", across), number.op("urem", across) * columns, columns)
    code.ret()
    return module.text


@lru_cache(maxsize=1024)
def _kernel(device: Device, kind: BagKind, columns: int) -> DeviceKernel:
    chip = replace(device.chip, lanes=_lanes(device))
    key = f"{chip} {NAME} {kind} {columns}"
    return device.module(key, lambda: IrSource(text(chip, kind, columns), {"lanes": chip.lanes})).kernel(NAME)


def _lanes(device: Device) -> int:
    """Threads of a block."""
    return int(device.chip.lanes * LANES)


def run(bags: Bags, _threads: int | None) -> bool:
    """Reduce bags; False if an index is outside of the table, and then nothing of the result counts."""
    device, size = current(), bags.dtype.size
    kind = BagKind.of(bags, at_once=AT_ONCE)
    if not kind.is_supported:
        raise Unsupported(f"bags of {bags.dtype}")
    every = bags.table | bags.out | bags.winners * (PIECE // 4) | (bags.width * size) | PIECE
    columns = max(1, min(PIECE, every & -every) // size)
    kernel, grid = _kernel(device, kind, columns), -(-bags.bags * (bags.width // columns) // _lanes(device))
    check = None if bags.index_type is None else take(device)
    flag = 0 if check is None else check.address
    addresses = bags.table, bags.indices, bags.bounds, bags.weights, bags.out, bags.winners, flag
    numbers = bags.lanes, bags.capacity, bags.width * size, bags.padding, bags.bags
    try:
        kernel(min(MOST_GRID, grid), (*addresses, *numbers))
        if check is None:
            return True
        check.begin()
        return check.end() is None
    except BaseException:
        device.wait()  # the kernel writes to memory of the host, which ends with the check
        raise
