"""The owners of a table: numbers of calls, where they go, the memory that they share; checkpoints, new placements."""

from __future__ import annotations

import os
import shutil
import weakref
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ptokit.sharded.files import Checkpoint, SavedFile, check_file, new_name, only_writer, write_manifest
from ptokit.sharded.messages import Array, Header, Message, OfOneProcess, ShardedError, type_name
from ptokit.sharded.options import TableOptions
from ptokit.sharded.placement import AccessCounts, TableGrid, TablePlacement, balanced
from ptokit.sharded.route import Router
from ptokit.sharded.segments import MOST_LENT, Segments, Spec
from ptokit.sharded.shard import Base, Sent, Shard, ShardSettings, ShardState


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


# --- the whole table in files: checkpoints, and new placements -------------------------------------------------------


class TableStates:
    """Saves and loads all parts of a table."""

    def __init__(self, group: OwnerGroup, shape: tuple[int, ...], kind: np.dtype[Any]) -> None:
        self._group, self._shape, self._kind = group, shape, kind

    def checkpoint(self, folder: str) -> None:
        """Write the table into a folder; the older checkpoint there stays until then."""
        try:
            os.makedirs(folder, exist_ok=True)
            with only_writer(folder):
                write_manifest(self._saved(folder))
        except OSError as problem:
            raise ShardedError(f"cannot write a checkpoint into {folder}: {problem.strerror}") from problem

    def restore(self, found: Checkpoint) -> None:
        """Take the content of a checkpoint. If it is corrupt, the table stays as it was."""
        by = self._group.grid.by
        if (found.shape, found.dtype, found.by) != (self._shape, self._kind, by):
            theirs = f"{found.shape} of {found.dtype} by {found.by}"
            raise ShardedError(f"the checkpoint has {theirs}, the table {self._shape} of {self._kind} by {by}")
        for shard in self._group.shards:
            shard.settle("the table was restored")
        self._check_files(found.files)
        self._reload(found, self._group.router.placement)

    def rebalance(self) -> None:
        """Divide the table by the accesses that were counted, and count anew."""
        group = self._group
        placement = balanced(group.router.counts, len(group.shards))
        if placement != group.router.placement:
            for shard in group.shards:
                shard.drain()
            now = self._saved(group.folder)
            try:
                self._reload(now, placement)
            finally:
                _remove(saved.file for saved in now.files)
        group.place(placement, AccessCounts(placement.units))

    def _saved(self, folder: str) -> Checkpoint:
        """The files of all owners, written at the same time."""
        group, seq = self._group, self._group.next()
        names = [os.path.join(folder, new_name(shard.number)) for shard in group.shards]
        sent = [shard.save(seq, name) for shard, name in zip(group.shards, names, strict=True)]
        try:
            files = tuple(shard.saved(call) for shard, call in zip(group.shards, sent, strict=True))
            for saved in files:
                if os.path.getsize(saved.file) != saved.bytes:
                    raise ShardedError(
                        f"{saved.file} is not whole; the folder must be on storage that all machines share"
                    )
        except BaseException:
            group.drain_quietly()
            _remove(names)
            raise
        return Checkpoint(folder, self._shape, self._kind, group.grid.by, group.router.placement, files)

    def _check_files(self, files: Iterable[SavedFile]) -> None:
        """Have the checksums of files checked, by all owners at once."""
        group, seq, sent = self._group, self._group.next(), []
        for number, saved in enumerate(files):
            shard = group.shards[number % len(group.shards)]
            sent.append((shard, saved, shard.ask(seq, {"do": "check", "saved": asdict(saved)})))
        problems: list[ShardedError] = []
        for shard, saved, call in sent:
            try:
                _checked(shard, saved, call)
            except ShardedError as problem:
                problems.append(problem)
        if problems:
            raise problems[0]

    def _reload(self, source: Checkpoint, placement: TablePlacement) -> None:
        """Let owners take their parts from files, and save them. After an error, all is as before."""
        group, seq = self._group, self._group.next()
        before: list[tuple[Shard, ShardState]] = []
        try:
            for shard in group.shards:
                shape = group.grid.part_shape(placement.size(shard.number))
                before.append((shard, shard.state))
                shard.replace(Base(shape, source.ranges(placement, shard.number), seq))
            for shard in group.shards:
                shard.take_base(shard.begin_base(group.next()))
        except BaseException:
            for shard, state in before:
                shard.put_back(state)
            raise
        for shard, state in before:
            shard.keep_not(state)
        group.place(placement, group.router.counts)


def _checked(shard: Shard, saved: SavedFile, call: Sent) -> None:
    """Raise if a file is corrupt; the driver reads it if the owner cannot be started."""
    try:
        answer = shard.wait(call)
    except ShardedError:
        shard.give_up("the table was restored")
        check_file(saved)
    else:
        shard.refuse(answer)


def _remove(files: Iterable[str]) -> None:
    for file in files:
        with suppress(OSError):
            os.unlink(file)
