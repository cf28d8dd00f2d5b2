"""Bags of gathered rows on a GPU: a thread reduces a piece of the columns of a bag, lane after lane."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ptokit.engine.bags import Bags
from ptokit.engine.cuda.device import Device, current
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
    table, index, bounds, weights, out, winners, flag, total, capacity, row, padding, bags = code.arguments[:12]
    given = BagArguments(table, index, bounds, weights, out, winners, total, capacity, row, padding)

    def read(name: IrValue) -> None:
        with code.when(name.compare("uge", capacity)):
            code.store(code.i64(1), flag)

    bag_code, across = BagCode(code, kind, given, read), kind.width // columns
    with code.phase():
        assert code.lane is not None
        lanes = code.chip.lanes
        with code.loop(code.block * lanes + code.lane, bags * across, code.blocks * lanes) as number:
            bag_code.reduce(number.op("udiv", across), number.op("urem", across) * columns, columns)
    code.ret()
    return module.text


def run(bags: Bags, _threads: int | None) -> bool:
    """Reduce bags; False if an index is outside of the table, and then nothing of the result counts."""
    device, size = current(), bags.dtype.size
    kind = BagKind(
        bags.dtype,
        bags.index_type,
        bags.weights != 0,
        bags.padding >= 0,
        bags.combine,
        bags.width,
        bags.winners != 0,
        bags.mean,
        at_once=AT_ONCE,
    )
    if not kind.is_supported:
        raise Unsupported(f"bags of {bags.dtype}")
    every = bags.table | bags.out | bags.winners * (PIECE // 4) | (bags.width * size) | PIECE
    columns = max(1, min(PIECE, every & -every) // size)
    lanes = int(device.chip.lanes * LANES)
    chip = replace(device.chip, lanes=lanes)
    key = f"{chip} {NAME} {kind} {columns}"
    module = device.module(key, lambda: IrSource(text(chip, kind, columns), {"lanes": lanes}))
    grid = -(-bags.bags * (bags.width // columns) // lanes)
    flag = device.empty(8)
    device.fill(flag.address, 0, 8)
    addresses = bags.table, bags.indices, bags.bounds, bags.weights, bags.out, bags.winners, flag.address
    numbers = bags.lanes, bags.capacity, bags.width * size, bags.padding, bags.bags
    module.kernel(NAME)(min(MOST_GRID, grid), (*addresses, *numbers))
    return bags.index_type is None or not _is_set(device, flag.address)


def _is_set(device: Device, address: int) -> bool:
    return bool(device.download(address, 8).view(np.int64)[0])
