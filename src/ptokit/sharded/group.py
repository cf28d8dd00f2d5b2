"""The owners of a table: numbers of calls, where they go, and the memory that they share."""

from __future__ import annotations

import os
import shutil
import weakref
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from ptokit.sharded.errors import OfOneProcess, ShardedError
from ptokit.sharded.messages import Array, Header, Message, type_name
from ptokit.sharded.options import TableOptions
from ptokit.sharded.placement import AccessCounts, TableGrid, TablePlacement
from ptokit.sharded.route import Router
from ptokit.sharded.segments import MOST_LENT, Segments, Spec
from ptokit.sharded.shard import Base, Sent, Shard, ShardSettings


@dataclass(frozen=True)
class Change:
    """What a call that changes the table brings to an owner."""

    shard: Shard
    arrays: tuple[Array, ...]
    shared: Spec | None = None
    """The segment that the last array is in."""


class OwnerGroup(OfOneProcess):
    """All owners of a table."""

    def __init__(
        self,
        grid: TableGrid,
        kind: np.dtype[Any],
        placement: TablePlacement,
        options: TableOptions,
        note: Callable[[str], None],
    ) -> None:
        self.folder = options.folder
        self._removed = weakref.finalize(self, _remove_folder, self.folder, os.getpid())
        self.grid, self._starter = grid, options.owners
        self.results, self.sources = Segments(), Segments(MOST_LENT)  # logs use sources again and again
        self._probe = self.results.array((8,), np.dtype(np.uint8))
        self._settings = ShardSettings(
            folder=self.folder,
            dtype=type_name(kind),
            axis=0 if grid.by == "rows" else 1,
            timeout=options.timeout,
            log_bytes=options.log_bytes,
            log_memory=options.log_memory,
            threads=options.threads,
            probe=self._probe[1] if self._probe else None,
            note=note,
        )
        self.shards: list[Shard] = []
        self.router = Router(grid, placement, AccessCounts(placement.units))
        self._seq = 0

    def start(self, bases: Iterable[Base]) -> None:
        """Start owners from saved states."""
        for number, base in enumerate(bases):
            self.shards.append(Shard(number, self._starter, self._settings, base))
        for shard in self.shards:
            shard.begin()

    def next(self) -> int:
        """The number of a new call."""
        self._seq += 1
        return self._seq

    def place(self, placement: TablePlacement, counts: AccessCounts) -> None:
        """Route by another placement from now on."""
        self.router = Router(self.grid, placement, counts)

    def send_changes(self, header: Header, changes: list[Change]) -> list[tuple[Shard, Sent]]:
        """Log the call for all owners, then send it: it reaches every owner, or none."""
        self._make_room(changes)
        seq, logged = self.next(), []
        try:
            for each in changes:
                logged.append((each, each.shard.change(seq, header, each.arrays)))
        except BaseException:
            for each in changes:  # also the one that was interrupted
                each.shard.log.drop_last(seq)
            raise
        try:
            return [(each.shard, each.shard.send_change(seq, message, each.shared)) for each, message in logged]
        except BaseException:  # Ctrl-C: the call is logged, so all get it
            for each, message in logged:
                each.shard.send_change(seq, message, each.shared)
            raise

    def _make_room(self, changes: list[Change]) -> None:
        """Wait until another call may be sent; owners whose logs are full save their parts, all at a time."""
        for each in changes:
            each.shard.make_room()
        full = [each.shard for each in changes if each.shard.is_full(Message({}, each.arrays).nbytes)]
        for shard in full:
            shard.drain()
        saves = [(shard, shard.begin_base(self.next())) for shard in full]
        for shard, sent in saves:
            shard.take_base(sent)

    def drain_quietly(self) -> None:
        """Wait for all calls under way, whatever becomes of them."""
        for shard in self.shards:
            with suppress(ShardedError):
                shard.drain()

    def close(self) -> None:
        """End the owners and remove their files."""
        for shard in self.shards:
            with suppress(ShardedError):
                shard.close()
        self._starter.close()
        self._probe = None
        self.results.close()
        self.sources.close()
        self._removed()


def _remove_folder(folder: str, process: int) -> None:
    """Remove the folder of a table, in the process that made it: a forked one has a copy of the table."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)
