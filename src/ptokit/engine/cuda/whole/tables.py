"""Bags of rows of many tables on a GPU: one launch for all tables of a kind, and one wait for all indices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from functools import lru_cache
from typing import Any

import numpy as np

from ptokit.engine.bags import BagsKind, TableBags
from ptokit.engine.cuda.device import Device, DeviceBuffer, DeviceKernel, current
from ptokit.engine.cuda.whole.bags import AT_ONCE, MOST_GRID, columns_of, lanes_of, noting
from ptokit.engine.cuda.whole.check import take
from ptokit.engine.llvm.bags import BagArguments, BagCode, BagKind
from ptokit.engine.llvm.chip import Chip
from ptokit.engine.llvm.compiled import IrSource
from ptokit.engine.llvm.emit import I64, PTR, IrModule
from ptokit.engine.runnable import Unsupported

NAME = "table_bags"
WORDS = len(fields(BagArguments))


def text(chip: Chip, kind: BagKind, columns: int) -> str:
    """The LLVM text of a kernel that takes some columns at a time; jobs are the words of `TableBags`."""
    module = IrModule(chip)
    code = module.kernel(NAME, [(PTR, "jobs"), (PTR, "flag"), (I64, "tables"), (I64, "bags")])
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


@lru_cache(maxsize=1024)
def _kernel(device: Device, bags: BagsKind, columns: int) -> DeviceKernel:
    kind = BagKind.of(bags, at_once=AT_ONCE)
    if not kind.is_supported:
        raise Unsupported(f"bags of {bags.dtype}")
    chip = replace(device.chip, lanes=lanes_of(device))
    key = f"{chip} {NAME} {kind} {columns}"
    return device.module(key, lambda: IrSource(text(chip, kind, columns), {"lanes": chip.lanes})).kernel(NAME)


def run(given: Sequence[TableBags], _threads: int | None = None) -> bool:
    """Reduce bags of tables; False if an index is outside of its table, and then nothing of the result counts."""
    device, groups = current(), dict[tuple[BagsKind, int, int], list[TableBags]]()
    for each in given:
        groups.setdefault((each.kind, columns_of(each.kind, each.places), each.sizes.bags), []).append(each)
    kernels = [_kernel(device, kind, columns) for kind, columns, _ in groups]
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
