"""Calls that sum gradients by row and store or apply the sums, for one table or many, on a GPU.

The host waits for nothing but the number of rows, if they are stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np

from ptokit.engine.bags import RowUpdate
from ptokit.engine.cuda.device import Device, DeviceKernel, current
from ptokit.engine.cuda.whole.bags import MOST_GRID, lanes_of
from ptokit.engine.cuda.whole.pieces import PIECE
from ptokit.engine.cuda.whole.tables import uploaded
from ptokit.engine.cuda.whole.updates import UpdateKernel, text
from ptokit.engine.llvm.compiled import IrSource
from ptokit.engine.llvm.updates import JOB, UpdateKind, words_of_job
from ptokit.engine.runnable import Unsupported

MOST_BITS, MOST_KEY = 31, 63
"""Bits of the number of a lane, and of a key, at most."""
MOST_KEPT = 256
"""Elements of a row of which a thread keeps the sum, at most."""
NAMED, VALUES = JOB.index("named"), JOB.index("values")
Make = Callable[[int, int], tuple[int, int]]
"""Is given the number of a job and how many rows it has; the addresses of their numbers, 64 bits each, and of their
sums."""


def run(given: Sequence[RowUpdate], _threads: int | None = None, make: Make | None = None) -> None:
    """Sum and apply gradients of tables that no two jobs share; their lanes are those of one array, one job after the
    other. The rule `store` needs `make`. Raises `Unsupported` before anything is written."""
    call = _UpdateCall(current(), given)
    call.sort()
    call.finish(call.lanes if make is None else call.place(make))


class _UpdateGroup(NamedTuple):
    """Jobs that one launch does."""

    kernel: DeviceKernel
    jobs: list[int]
    across: int
    """Threads for each row."""


class _UpdateCall:
    """The kernels of a call, and their arguments."""

    def __init__(self, device: Device, given: Sequence[RowUpdate]) -> None:
        self.device, self.given, self.lanes = device, given, max(each.last for each in given)
        self.groups = _grouped(device, given)
        self.order = [number for group in self.groups for number in group.jobs]
        self.starts = list(accumulate((given[number].capacity for number in self.order), initial=0))
        """Where the rows of each job begin among those of all, in this order."""
        self.shift = max(self.lanes, *(each.bags for each in given)).bit_length()
        if self.shift > MOST_BITS or self.shift + self.starts[-1].bit_length() > MOST_KEY or not self.lanes:
            raise Unsupported(f"updates of {self.starts[-1]} rows by {self.lanes} lanes")
        if len({(each.indices, each.index_type, each.bounds != 0) for each in given}) > 1:
            raise Unsupported("updates by several arrays of indices")
        starts = dict(zip(self.order, self.starts, strict=False))
        self.words = np.array([words_of_job(each, start=starts[k]) for k, each in enumerate(given)], np.int64)
        self._upload()
        self.keys, self.owners, self.marks = (device.empty(nbytes * self.lanes) for nbytes in (8, 4, 8))

    def _upload(self) -> None:
        """The words of jobs as they were given, and then in the order of the groups."""
        self.jobs = uploaded(self.device, np.concatenate([self.words, self.words[self.order]]))

    def sort(self) -> None:
        """Sort the lanes by row."""
        job = self.given[0]
        self._launch(_kernel(self.device, UpdateKernel("keys", job.index_type.size, job.bounds != 0)), self.lanes)
        self.device.sort(self.keys.address, self.lanes)

    def place(self, make: Make) -> int:
        """Find where the keys of each row begin, and give all rows places in the output; how many there are."""
        device, count = self.device, len(self.given)
        ends = device.empty(8 * count)
        self._launch(_kernel(device, UpdateKernel("mark")), self.lanes)
        device.sort(self.marks.address, self.lanes)
        self._launch(_kernel(device, UpdateKernel("ends")), count, slice(count, 2 * count), out=ends.address)
        found = [0, *device.download(ends.address, 8 * count).view(np.int64).tolist()]
        rows = dict(zip(self.order, pairwise(found), strict=True))
        for number, each in enumerate(self.given):
            first, end = rows[number]
            named, values = make(number, end - first)
            self.words[number, NAMED] = named - 8 * first
            self.words[number, VALUES] = values - first * each.width * each.dtype.size
        self._upload()
        return found[-1]

    def finish(self, count: int) -> None:
        """Do what the rules say, for so many rows, or places where one may begin."""
        first = len(self.given)
        for kernel, own, across in self.groups:
            self._launch(kernel, count, slice(first, first + len(own)), across)
            first += len(own)

    def _launch(
        self, kernel: DeviceKernel, count: int, jobs: slice | None = None, across: int = 1, out: int = 0
    ) -> None:
        """Launch a kernel with some of the jobs in the order of the groups, or with all as they were given."""
        first, end = (0, len(self.given)) if jobs is None else (jobs.start, jobs.stop)
        rows = (0, self.starts[-1]) if jobs is None else [self.starts[k - len(self.given)] for k in (first, end)]
        buffers = (each.address for each in (self.keys, self.owners, self.marks))
        places = self.jobs.address + 8 * len(JOB) * first, *buffers, out
        numbers = end - first, self.lanes, self.shift, *rows, count, across
        grid = min(MOST_GRID, -(-count * across // lanes_of(self.device)))
        if count:
            kernel(grid, (*places, *numbers))


def _grouped(device: Device, given: Sequence[RowUpdate]) -> list[_UpdateGroup]:
    groups: dict[tuple[Any, ...], list[int]] = {}
    for number, each in enumerate(given):
        groups.setdefault(_key(each), []).append(number)
    made: list[_UpdateGroup] = []
    for (columns, width, *_), own in groups.items():
        kind = UpdateKind.of(given[own[0]], width=width, host=False)
        across = 1 if width else max(given[number].width for number in own) // columns
        made.append(_UpdateGroup(_kernel(device, UpdateKernel("rows", kind=kind, columns=columns)), own, across))
    return made


def _key(each: RowUpdate) -> tuple[Any, ...]:
    """What the code for a job depends on: the columns that a thread takes, as many as a load has; the width if it is
    not that of the job; and what kinds have of it."""
    size, width = each.dtype.size, each.width if each.rule == "rowwise_adagrad" else 0
    if width > MOST_KEPT:
        raise Unsupported(f"squares of {width} columns")
    others = each.winners // 4 | each.state // max(4, size)
    every = each.grad | each.grad_row | each.table | each.width * size | others * size | PIECE
    columns = max(1, (every & -every) // size)
    return columns, width, each.dtype, each.rule, each.weights != 0, each.winners != 0, each.decay != 0


@lru_cache(maxsize=1024)
def _kernel(device: Device, kernel: UpdateKernel) -> DeviceKernel:
    chip = replace(device.chip, lanes=lanes_of(device))
    module = device.module(f"{chip} {kernel}", lambda: IrSource(text(chip, kernel), {"lanes": chip.lanes}))
    return module.kernel(kernel.name)
