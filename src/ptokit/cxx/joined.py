"""One recording from those of the libraries of a source: a kernel for two cores is compiled and run for each."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, zip_longest
from typing import overload

from ptokit.cxx.recording import Block, RecordedCall, RecordedLaunch, Recording


class JoinedCalls(Sequence[RecordedCall]):
    """The calls of several recordings, one after the other."""

    def __init__(self, parts: Sequence[Sequence[RecordedCall]]) -> None:
        self._parts = parts
        self.starts = [0, *accumulate(len(part) for part in parts)]

    def __len__(self) -> int:
        return self.starts[-1]

    @overload
    def __getitem__(self, index: int) -> RecordedCall: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[RecordedCall]: ...
    def __getitem__(self, index: int | slice) -> RecordedCall | Sequence[RecordedCall]:
        if isinstance(index, slice):
            return [self[k] for k in range(*index.indices(len(self)))]
        index = range(len(self))[int(index)]
        part = bisect_right(self.starts, index) - 1
        return self._parts[part][index - self.starts[part]]


def joined(parts: Sequence[Recording]) -> Recording:
    """The parts as one recording: launches in their order, each with the blocks of all parts.

    Sites and tiles of the parts are already numbered one after the other.
    """
    if len(parts) == 1:
        return parts[0]
    calls = JoinedCalls([part.calls for part in parts])
    launches = zip_longest(*(part.launches for part in parts))
    return Recording(
        parts[0].target,
        tuple(site for part in parts for site in part.sites),
        calls,
        tuple(_joined_launch(launch, calls.starts) for launch in launches),
        tuple(dict.fromkeys(problem for part in parts for problem in part.problems)),
        "".join(part.output for part in parts),
    )


def _joined_launch(parts: Sequence[RecordedLaunch | None], starts: Sequence[int]) -> RecordedLaunch:
    """One launch as every core saw it. A core whose recording ended early may lack it."""
    present = [part for part in parts if part is not None]
    blocks: list[Block] = []
    for part, start in zip(parts, starts, strict=False):
        if part is not None:
            blocks += [replace(block, calls=block.calls + block.calls.dtype.type(start)) for block in part.blocks]
    order = sorted(blocks, key=lambda block: (block.index, block.core, block.subblock))
    complete = len(present) == len(parts) and all(part.complete for part in present)
    return replace(present[0], blocks=tuple(order), complete=complete)
