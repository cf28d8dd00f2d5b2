"""`pto.ShardedTable`: a table whose rows or columns are held by several processes."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict
from math import prod
from typing import Any, Self

import numpy as np

from ptokit.finding import SHARDED, Finding
from ptokit.isa.dtype import dtype
from ptokit.isa.policy import Coalesce, GatherOOB, ScatterAtomicOp, ScatterConflict, ScatterOOB
from ptokit.lang.arrays import host_array, within, writing
from ptokit.lang.faults import public
from ptokit.lang.where import user_place
from ptokit.ops import gather, scatter
from ptokit.ops.call import GATHER, SCATTER
from ptokit.sharded.errors import ShardedError
from ptokit.sharded.files import (
    Checkpoint,
    FileRange,
    SavedFile,
    check_file,
    in_two_dims,
    new_name,
    opened,
    read_manifest,
    save_array,
    stamp_of,
    write_manifest,
)
from ptokit.sharded.messages import Header, Message, type_name
from ptokit.sharded.placement import AccessCounts, TablePlacement, balanced, even
from ptokit.sharded.refusals import Refusals
from ptokit.sharded.route import OwnerPart, Resolved, Router
from ptokit.sharded.segments import Segments
from ptokit.sharded.shard import Base, OwnerStarter, Sent, Shard, ShardSettings, ShardState

Array = np.ndarray[Any, np.dtype[Any]]

MOST_SHARDS = 1024
MOST_FINDINGS = 1000
TIMEOUT = 300.0
"""Seconds that an owner may take for one call."""
MOST_LOGGED = 1 << 14
"""Calls in the log of an owner until its part is saved: small ones take time to repeat, and more memory than data."""
LOG_BYTES, LOG_MEMORY = 1 << 30, 1 << 26
"""Bytes of the log of an owner until its part is saved, and of those that stay in memory."""


class PendingCall:
    """A call under way."""

    def __init__(self, table: ShardedTable, finish: Callable[[float | None], Any]) -> None:
        self._table, self._finish = table, finish
        self._is_done, self._value = False, None

    @public
    def result(self, timeout: float | None = None) -> Any:
        """The result of the call; a TimeoutError if it is not there in time, and the call goes on."""
        with self._table._lock:
            if not self._is_done:
                self._value = self._finish(None if timeout is None else time.monotonic() + timeout)
                self._is_done = True
        return self._value

    def done(self) -> bool:
        """Whether the result is there."""
        try:
            self.result(0)
        except TimeoutError:
            return False
        return True


class ShardedTable:
    """A table in several processes, with the calls and the bits of a table in one.

    Made by `create`, `from_file` or `from_checkpoint`; closed by `close` or at the end of a `with` block. `findings`
    tells of owners that were started again.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def __init__(
        self,
        shape: tuple[int, ...],
        kind: np.dtype[Any],
        placement: TablePlacement,
        by: str,
        owners: OwnerStarter,
        how: Header,
    ) -> None:
        """For `create` and its like."""
        self.shape, self.dtype, self.by = shape, kind, by
        self._rows, self._columns = (shape[0], prod(shape[1:])) if shape else (1, 1)
        self._findings: deque[Finding] = deque(maxlen=MOST_FINDINGS)
        self._refusals, self._segments = Refusals(shape, kind), Segments()
        self._lock, self._seq, self._is_closed = threading.RLock(), 0, False
        self._owners = owners
        self._folder = how["folder"]
        self._probe = self._segments.array((8,), np.dtype(np.uint8))
        self._settings = ShardSettings(
            folder=self._folder,
            dtype=type_name(kind),
            axis=0 if by == "rows" else 1,
            timeout=how["timeout"],
            log_bytes=how["log_bytes"],
            log_memory=how["log_memory"],
            threads=how["threads"],
            probe=self._probe[1] if self._probe else None,
            note=self._note,
        )
        self._shards: list[Shard] = []
        self._router = Router(self._rows, self._columns, by, placement, AccessCounts(placement.units))
        self._removed = weakref.finalize(self, shutil.rmtree, self._folder, True) if how["is_own"] else None

    # --- Making one

    @classmethod
    @public
    def create(cls, array: object, shards: int = 2, by: str = "rows", **options: Any) -> Self:
        """A table with a copy of an array, whose rows or columns are divided among `shards` processes.

        `directory` is where parts and logs are saved, on storage that all machines share; by default it is temporary.
        `timeout` is how long an owner may take for a call, in seconds. `log_bytes` and `log_memory` bound the log of an
        owner, and what of it is in memory. `threads` limits the threads of an owner.
        """
        source = host_array(array, "a sharded table")
        rows = in_two_dims(np.ascontiguousarray(source).reshape(source.shape))

        def base(table: Self, owner: int) -> Base:
            part = table._slice(rows, owner)
            saved = save_array(os.path.join(table._folder, new_name(owner)), part)
            return _base_of(saved, (part.shape[0], part.shape[1]), 0)

        return cls._made(source.shape, source.dtype, shards, by, options, base)

    @classmethod
    @public
    def from_file(
        cls, path: str | os.PathLike[str], shards: int = 2, by: str = "rows", dtype: object = None, **options: Any
    ) -> Self:
        """A table with the content of a `.npy` file, which owners map into memory; the file stays as it is.

        The file must not change while the table is open. `dtype` is for types that NumPy does not know.
        """
        file = os.path.abspath(path)
        try:
            found: Any = np.load(file, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError) as problem:
            raise ShardedError(f"cannot read {file}: {problem}") from problem
        kind = found.dtype if dtype is None else np.dtype(_numpy_type(dtype))
        opened(file, kind)
        stamp = stamp_of(file)

        def base(table: Self, owner: int) -> Base:
            spans = table._router.placement.spans(owner)
            ranges = [FileRange(file, *table._rectangle(start, stop), stamp=stamp) for start, stop, _ in spans]
            return Base(table._shape_of(table._router.placement, owner), ranges, 0)

        return cls._made(found.shape, kind, shards, by, options, base)

    @classmethod
    @public
    def from_checkpoint(cls, path: str | os.PathLike[str], shards: int | None = None, **options: Any) -> Self:
        """A table with the content of a checkpoint, with as many owners as it had, or another number."""
        found = read_manifest(os.path.abspath(path))

        def empty(_table: Self, _owner: int) -> Base:
            return Base((0, 0), [], 0)

        table = cls._made(found.shape, found.dtype, shards or found.placement.owners, found.by, options, empty)
        try:
            table.restore(path)
        except BaseException:
            table.close()
            raise
        return table

    @classmethod
    def _made(
        cls,
        shape: tuple[int, ...],
        kind: np.dtype[Any],
        shards: int,
        by: str,
        options: dict[str, Any],
        base: Callable[[Self, int], Base],
    ) -> Self:
        dtype(kind)
        if by not in ("rows", "columns"):
            raise ValueError(f"by takes 'rows' or 'columns'; found {by!r}")
        if not isinstance(shards, int) or not 1 <= shards <= MOST_SHARDS:
            raise ValueError(f"a table has 1 to {MOST_SHARDS} shards; found {shards!r}")
        how, owners = _options(options, shards)
        rows, columns = (shape[0], prod(shape[1:])) if shape else (1, 1)
        table = cls(shape, kind, even(rows if by == "rows" else columns, shards), by, owners, how)
        try:
            for owner in range(shards):
                table._shards.append(Shard(owner, owners, table._settings, base(table, owner)))
            for shard in table._shards:
                shard.begin()
        except OSError as problem:
            table.close()
            raise ShardedError(f"cannot save the table: {problem}") from problem
        except BaseException:
            table.close()
            raise
        return table

    # --- About it

    @property
    def ndim(self) -> int:
        """The number of dims."""
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        """The bytes of all elements."""
        return prod(self.shape) * self.dtype.itemsize

    @property
    def shards(self) -> int:
        """The number of owners."""
        return len(self._shards)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What happened to owners: the last remarks, the oldest first."""
        return tuple(self._findings)

    @property
    def placement(self) -> tuple[tuple[int, int, int], ...]:
        """The ranges of rows or columns, with their owners: first, one after the last, owner."""
        return tuple((piece.start, piece.stop, piece.owner) for piece in self._router.placement.pieces)

    def owner_pids(self) -> list[int]:
        """The process ids of the owners."""
        return [shard.about["pid"] for shard in self._shards]

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a table without dims has no length")
        return self.shape[0]

    def __repr__(self) -> str:
        return f"<sharded table: {self.shape} of {self.dtype}, {self.shards} shards by {self.by}>"

    def _note(self, message: str) -> None:
        self._findings.append(Finding("note", SHARDED, message, where=user_place()))

    # --- Calls

    @public
    def gather(self, indices: object, **options: Any) -> Any:
        """Rows or elements by index, as `pto.gather`: `coalesce`, `oob`, `out`, `axis`, `mode`. A NumPy array."""
        return self.gather_async(indices, **options).result()

    @public
    def gather_async(
        self,
        indices: object,
        *,
        coalesce: str | Coalesce = "row",
        oob: str | GatherOOB = "undefined",
        out: object = None,
        axis: int | None = 0,
        mode: str | None = None,
    ) -> PendingCall:
        """Begin a gather: it sees the calls before it, and not those after it."""
        with self._lock:
            self._check_open()
            call = GATHER.of(indices=indices, out=out)
            policies: Header = {"coalesce": coalesce, "oob": oob, "axis": axis, "mode": mode}
            self._refusals.check_policies(gather, policies)
            policies = self._refusals.entries(call, policies)
            lanes = self._refusals.indices(call, indices)
            target = None if out is None else self._refusals.check_out(out, lanes, policies)
            if not prod(self.shape) or not lanes.size:
                return self._finished(gather(np.zeros(self.shape, self.dtype), lanes, out=out, **policies))
            resolved = self._refusals.resolved(call, lanes, policies, GatherOOB)
            return self._begin_gather(lanes, resolved, policies, target, out)

    def _begin_gather(
        self, indices: Array, resolved: Resolved, policies: Header, target: Array | None, out: object
    ) -> PendingCall:
        by_rows, shape_of_lanes = self._refusals.is_by_rows(policies["coalesce"]), indices.shape
        shape = (indices.size, self._columns) if by_rows else (indices.size,)
        shared = self._segments.array(shape, self.dtype)
        result, spec = shared or (np.empty(shape, self.dtype), None)
        if resolved.lanes is not None:
            absent = np.ones(indices.size, bool)
            absent[resolved.lanes] = False
            result.view(np.uint8).reshape(indices.size, -1)[absent] = 0
        for shard in self._shards:
            shard.make_room()
        seq = self._next()
        sent = [
            (part, self._ask_gather(seq, part, result, spec, by_rows)) for part in self._router.parts(resolved, by_rows)
        ]

        def finish(deadline: float | None) -> Any:
            for part, call in sent:
                answer = self._shards[part.owner].wait(call, deadline)
                self._refuse(part.owner, answer)
                if answer.arrays:
                    self._place(result, part, answer.arrays[0], by_rows)
            whole = result.reshape(shape_of_lanes + self._refusals.entry(policies["coalesce"]))
            if target is None:
                return whole
            within(None, writing((out,)), np.copyto, target.view(np.ndarray), whole)
            return out

        return PendingCall(self, finish)

    def _ask_gather(self, seq: int, part: OwnerPart, result: Array, spec: Header | None, by_rows: bool) -> Sent:
        shard = self._shards[part.owner]
        header = {
            "do": "gather",
            "coalesce": "row" if by_rows else "elem",
            "segment": spec if shard.about.get("shares") else None,
            "shape": result.shape,
            "spans": self._router.spans(part.owner, by_rows),
        }
        return shard.ask(seq, header, (part.index, part.lanes), result)

    def _place(self, result: Array, part: OwnerPart, values: Array, by_rows: bool) -> None:
        """Put what an owner on another machine has returned in its place."""
        spans = self._router.spans(part.owner, by_rows) or [(0, self._columns, 0)]
        lanes: Any = part.lanes if len(part.lanes) else slice(None)
        if not by_rows:
            result[lanes] = values
            return
        for start, stop, at in spans:
            result[lanes, start:stop] = values[:, at : at + stop - start]

    @public
    def scatter(self, src: object, indices: object, **options: Any) -> Self:
        """Write rows or elements by index, as `pto.scatter`, with all of its policies."""
        self.scatter_async(src, indices, **options).result()
        return self

    @public
    def scatter_async(
        self,
        src: object,
        indices: object,
        *,
        coalesce: str | Coalesce = "row",
        oob: str | ScatterOOB = "undefined",
        atomic: str | ScatterAtomicOp = "none",
        conflict: str | ScatterConflict = "last",
        accumulate: object = None,
        axis: int | None = 0,
        mode: str | None = None,
        reduce: str | None = None,
        include_self: bool = True,
    ) -> PendingCall:
        """Begin a scatter: calls after it see it."""
        with self._lock:
            self._check_open()
            call = SCATTER.of(src=src, indices=indices)
            policies: Header = {"coalesce": coalesce, "oob": oob, "atomic": atomic, "conflict": conflict}
            policies |= {"accumulate": accumulate, "axis": axis, "mode": mode}
            policies |= {"reduce": reduce, "include_self": include_self}
            self._refusals.check_policies(scatter, policies)
            policies = self._refusals.entries(call, policies)
            lanes = self._refusals.indices(call, indices)
            source = self._refusals.source(src, lanes, policies)
            if not prod(self.shape) or not lanes.size:
                scatter(np.zeros(self.shape, self.dtype), source, lanes, **policies)
                return self._finished(self)
            resolved = self._refusals.resolved(call, lanes, policies, ScatterOOB)
            return self._begin_scatter(source, lanes, resolved, policies)

    def _begin_scatter(self, src: Array, indices: Array, resolved: Resolved, policies: Header) -> PendingCall:
        by_rows = self._refusals.is_by_rows(policies["coalesce"])
        shape = indices.shape + self._refusals.entry(policies["coalesce"])
        options = {
            "coalesce": "row" if by_rows else "elem",
            "atomic": ScatterAtomicOp.parse(policies["atomic"]).text,
            "accumulate": None if policies["accumulate"] is None else "float32",
            "reduce": policies["reduce"],
            "include_self": policies["include_self"],
        }
        header = {"do": "scatter", "options": options}
        parts = [
            (self._shards[part.owner], (part.index, self._router.source(src, part, shape, indices.ndim, by_rows)))
            for part in self._router.parts(resolved, by_rows)
        ]
        sent = self._send_changes(header, parts)

        def finish(deadline: float | None) -> ShardedTable:
            for shard, call in sent:
                self._refuse(shard.number, shard.wait(call, deadline))
            return self

        return PendingCall(self, finish)

    def _send_changes(self, header: Header, parts: list[tuple[Shard, tuple[Array, ...]]]) -> list[tuple[Shard, Sent]]:
        """Log the call for all owners, then send it: it reaches every owner, or none."""
        for shard, arrays in parts:
            shard.make_room()
            size = Message(header, arrays).nbytes
            is_long = len(shard.log) >= MOST_LOGGED or shard.log.nbytes + size > self._settings.log_bytes
            if len(shard.log) and is_long:
                shard.save_base(self._next())
        seq, logged = self._next(), []
        try:
            for shard, arrays in parts:
                logged.append((shard, shard.change(seq, header, arrays)))
        except BaseException:
            for shard, _ in parts:  # also the one that was interrupted
                shard.log.drop_last(seq)
            raise
        try:
            return [(shard, shard.send_change(seq, message)) for shard, message in logged]
        except BaseException:  # Ctrl-C: the call is logged, so all get it
            for shard, message in logged:
                shard.send_change(seq, message)
            raise

    def _refuse(self, owner: int, answer: Message) -> None:
        if "fault" in answer.header:
            raise ShardedError(f"owner {owner}: {answer.header['message']}")

    def _finished(self, value: Any) -> PendingCall:
        return PendingCall(self, lambda _: value)

    def _next(self) -> int:
        self._seq += 1
        return self._seq

    @public
    def to_numpy(self) -> Array:
        """The whole table as an array."""
        cells = np.arange(self._rows if self.shape else 1)
        return self.gather(cells) if self.shape else self.gather(cells[0], coalesce="elem").reshape(())

    # --- Checkpoints

    @public
    def checkpoint(self, path: str | os.PathLike[str]) -> None:
        """Write the whole table into a folder, which all machines share. An older checkpoint there stays until then."""
        with self._lock:
            self._check_open()
            folder = os.path.abspath(path)
            try:
                os.makedirs(folder, exist_ok=True)
                write_manifest(self._saved(folder))
            except OSError as problem:
                raise ShardedError(f"cannot write a checkpoint into {folder}: {problem.strerror}") from problem

    def _saved(self, folder: str) -> Checkpoint:
        """The files of all owners, written at the same time."""
        seq = self._next()
        names = [os.path.join(folder, new_name(shard.number)) for shard in self._shards]
        sent = [shard.save(seq, name) for shard, name in zip(self._shards, names, strict=True)]
        try:
            files = tuple(shard.saved(call) for shard, call in zip(self._shards, sent, strict=True))
            for saved in files:
                if os.path.getsize(saved.file) != saved.bytes:
                    raise ShardedError(
                        f"{saved.file} is not whole; the folder must be on storage that all machines share"
                    )
        except BaseException:
            self._drain_quietly()
            for name in names:
                with suppress(OSError):
                    os.unlink(name)
            raise
        return Checkpoint(folder, self.shape, self.dtype, self.by, self._router.placement, files)

    def _drain_quietly(self) -> None:
        for shard in self._shards:
            with suppress(ShardedError):
                shard.drain()

    @public
    def restore(self, path: str | os.PathLike[str]) -> None:
        """Replace the content by that of a checkpoint. If it is corrupt, the table stays as it was."""
        with self._lock:
            self._check_open()
            found = read_manifest(os.path.abspath(path))
            if (found.shape, found.dtype, found.by) != (self.shape, self.dtype, self.by):
                theirs = f"{found.shape} of {found.dtype} by {found.by}"
                raise ShardedError(f"the checkpoint has {theirs}, the table {self.shape} of {self.dtype} by {self.by}")
            for shard in self._shards:
                shard.settle("the table was restored")
            self._check_files(found.files)
            self._reload(found, self._router.placement)

    def _check_files(self, files: Iterable[SavedFile]) -> None:
        """Have the checksums of files checked, by all owners at once."""
        seq, sent = self._next(), []
        for number, saved in enumerate(files):
            shard = self._shards[number % len(self._shards)]
            sent.append((shard, saved, shard.ask(seq, {"do": "check", "saved": asdict(saved)})))
        problems: list[ShardedError] = []
        for shard, saved, call in sent:
            try:
                self._checked(shard, saved, call)
            except ShardedError as problem:
                problems.append(problem)
        if problems:
            raise problems[0]

    def _checked(self, shard: Shard, saved: SavedFile, call: Sent) -> None:
        """Raise if a file is corrupt; the driver reads it if the owner cannot be started."""
        try:
            answer = shard.wait(call)
        except ShardedError:
            shard.fail_pending("the table was restored")
            check_file(saved)
        else:
            self._refuse(shard.number, answer)

    @public
    def rebalance(self) -> None:
        """Divide the table anew, so that owners get as many of the accesses that were counted: hot ranges are split."""
        with self._lock:
            self._check_open()
            placement = balanced(self._router.counts, self.shards)
            if placement != self._router.placement:
                for shard in self._shards:
                    shard.drain()
                now = self._saved(self._folder)
                try:
                    self._reload(now, placement)
                finally:
                    _remove(saved.file for saved in now.files)
            self._router = Router(
                self._rows, self._columns, self.by, self._router.placement, AccessCounts(placement.units)
            )

    def _reload(self, source: Checkpoint, placement: TablePlacement) -> None:
        """Let owners take their parts from files, and save them. After an error, all is as before."""
        seq, router = self._next(), self._router
        before: list[tuple[Shard, ShardState]] = []
        try:
            for shard in self._shards:
                shape = self._shape_of(placement, shard.number)
                ranges = source.ranges(placement, shard.number, self._rows, self._columns)
                before.append((shard, shard.state))
                shard.replace(Base(shape, ranges, seq))
            for shard in self._shards:
                shard.save_base(self._next())
        except BaseException:
            for shard, state in before:
                shard.put_back(state)
            self._router = router
            raise
        for shard, state in before:
            shard.keep_not(state)
        self._router = Router(self._rows, self._columns, self.by, placement, router.counts)

    def _shape_of(self, placement: TablePlacement, owner: int) -> tuple[int, int]:
        size = placement.size(owner)
        return (size, self._columns) if self.by == "rows" else (self._rows, size)

    def _rectangle(self, start: int, stop: int) -> tuple[tuple[int, int], tuple[int, int]]:
        return ((start, stop), (0, self._columns)) if self.by == "rows" else ((0, self._rows), (start, stop))

    def _slice(self, rows: Array, owner: int) -> Array:
        """The part of an owner of an array."""
        parts = [self._rectangle(start, stop) for start, stop, _ in self._router.placement.spans(owner)]
        (rows_of, columns_of) = parts[0] if parts else self._rectangle(0, 0)
        return rows[slice(*rows_of), slice(*columns_of)]

    # --- The end

    def _check_open(self) -> None:
        if self._is_closed:
            raise ShardedError("the table is closed")

    def close(self) -> None:
        """End the owners and remove their files. Checkpoints stay."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            for shard in self._shards:
                with suppress(ShardedError):
                    shard.close()
            self._owners.close()
            self._probe = None
            self._segments.close()
            if self._removed is not None:
                self._removed()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


def _base_of(saved: SavedFile, shape: tuple[int, int], seq: int) -> Base:
    whole = FileRange(saved.file, (0, shape[0]), (0, shape[1]), saved.crc32, saved.bytes)
    return Base(shape, [whole], seq, (saved.file,))


def _numpy_type(given: object) -> np.dtype[Any]:
    return dtype(given).numpy


def _remove(files: Iterable[str]) -> None:
    for file in files:
        with suppress(OSError):
            os.unlink(file)


def _options(given: dict[str, Any], shards: int) -> tuple[Header, OwnerStarter]:
    """The options of a table, and what starts its owners."""
    known = {"directory": None, "timeout": TIMEOUT, "log_bytes": LOG_BYTES, "log_memory": LOG_MEMORY, "threads": None}
    owners = given.pop("_owners", None)
    if unknown := [name for name in given if name not in known]:
        raise TypeError(f"unexpected keyword argument {unknown[0]!r}; a table takes {', '.join(known)}")
    how = known | given
    if owners is None:
        from ptokit.sharded.ray_owners import RayOwners

        owners = RayOwners()
    if how["threads"] is None:
        how["threads"] = max(1, (os.cpu_count() or 1) * getattr(owners, "machines", 1) // shards)
    directory = how.pop("directory")
    folder = tempfile.mkdtemp(prefix="ptokit-", dir=None if directory is None else os.path.abspath(directory))
    return how | {"folder": folder, "is_own": True}, owners
