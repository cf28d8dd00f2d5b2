"""The whole table in files: checkpoints, and new placements."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict
from typing import Any

import numpy as np

from ptokit.sharded.errors import ShardedError
from ptokit.sharded.files import Checkpoint, SavedFile, check_file, new_name, only_writer, write_manifest
from ptokit.sharded.group import OwnerGroup
from ptokit.sharded.placement import AccessCounts, TablePlacement, balanced
from ptokit.sharded.shard import Base, Sent, Shard, ShardState


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
