"""`pto.ShardedTable`: a table whose rows or columns are held by several processes; its calls, sent to owners."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from math import prod
from threading import RLock
from typing import Any, Self

import numpy as np

from ptokit.finding import SHARDED, Finding
from ptokit.isa.dtype import dtype
from ptokit.isa.policy import Coalesce, GatherOOB, ScatterAtomicOp, ScatterConflict, ScatterOOB
from ptokit.lang.arrays import host_array, within, writing
from ptokit.lang.faults import public, user_place
from ptokit.ops import gather, scatter
from ptokit.ops.array_call import GATHER, SCATTER
from ptokit.sharded.files import FileRange, in_two_dims, mapped, new_name, read_manifest, save_array, stamp_of
from ptokit.sharded.group import Change, OwnerGroup, TableStates
from ptokit.sharded.messages import Array, Header, OfOneProcess, ShardedError, check_process, type_of
from ptokit.sharded.options import TableOptions, parse_options
from ptokit.sharded.placement import TableGrid, even
from ptokit.sharded.refusals import Refusals
from ptokit.sharded.route import OwnerPart, Resolved
from ptokit.sharded.segments import Spec
from ptokit.sharded.shard import Base, Sent

Spans = list[tuple[int, int, int]]
"""Columns of an owner: the first, the one after the last, and the place of the first at the owner."""

LEAST_SHARED = 1 << 18
"""Bytes of a source from which on it goes through shared memory."""


class TableCalls:
    """The calls on the owners of a table."""

    def __init__(self, group: OwnerGroup, refusals: Refusals) -> None:
        self._group, self._refusals = group, refusals

    # --- Gathers

    def gather(self, indices: Array, resolved: Resolved, policies: Header, target: Array | None, out: object) -> Finish:
        """Send a gather; returns what waits for its result. Answers belong to the placement of now, which `rebalance`
        may replace before they are taken."""
        group, by_rows = self._group, self._refusals.is_by_rows(policies["coalesce"])
        router = group.router
        result, spec = self._new_result(indices, resolved, by_rows)
        for shard in group.shards:
            shard.make_room()
        seq = group.next()
        sent = [
            (part, spans, self._ask(seq, part, spans, result, spec, by_rows))
            for part in router.parts(resolved, by_rows)
            for spans in [router.spans(part.owner, by_rows)]
        ]

        def finish(deadline: float | None) -> Any:
            for part, spans, call in sent:
                answer = group.shards[part.owner].result(call, deadline)
                if answer.arrays:
                    _place(result, part, spans, answer.arrays[0])
            whole = result.reshape(indices.shape + self._refusals.entry(policies["coalesce"]))
            if target is None:
                return whole
            within(None, writing((out,)), np.copyto, target.view(np.ndarray), whole)
            return out

        return finish

    def _new_result(self, indices: Array, resolved: Resolved, by_rows: bool) -> tuple[Array, Spec | None]:
        """Memory for a result, shared if there is such memory, with zeros for lanes that have no entry."""
        shape = (indices.size, self._group.grid.columns) if by_rows else (indices.size,)
        kind = self._refusals.kind
        result, spec = self._group.results.array(shape, kind) or (np.empty(shape, kind), None)
        if resolved.lanes is not None:
            absent = np.ones(indices.size, bool)
            absent[resolved.lanes] = False
            result.view(np.uint8).reshape(indices.size, -1)[absent] = 0
        return result, spec

    def _ask(
        self, seq: int, part: OwnerPart, spans: Spans | None, result: Array, spec: Spec | None, by_rows: bool
    ) -> Sent:
        shard = self._group.shards[part.owner]
        header = {
            "do": "gather",
            "coalesce": "row" if by_rows else "elem",
            "segment": spec if shard.shares else None,
            "shape": result.shape,
            "spans": spans,
        }
        return shard.ask(seq, header, (part.index, part.lanes), result)

    # --- Scatters

    def scatter(self, src: Array, indices: Array, resolved: Resolved, policies: Header) -> Finish:
        """Log and send a scatter; returns what waits until it is done."""
        group, by_rows = self._group, self._refusals.is_by_rows(policies["coalesce"])
        shape = indices.shape + self._refusals.entry(policies["coalesce"])
        options = {
            "coalesce": "row" if by_rows else "elem",
            "atomic": ScatterAtomicOp.parse(policies["atomic"]).text,
            "accumulate": None if policies["accumulate"] is None else "float32",
            "reduce": policies["reduce"],
            "include_self": policies["include_self"],
        }
        changes = [
            self._change(src, part, shape, indices.ndim, by_rows) for part in group.router.parts(resolved, by_rows)
        ]
        sent = group.send_changes({"do": "scatter", "options": options}, changes)

        def finish(deadline: float | None) -> None:
            for shard, call in sent:
                shard.result(call, deadline)

        return finish

    def _change(self, src: Array, part: OwnerPart, shape: tuple[int, ...], dims: int, by_rows: bool) -> Change:
        """What an owner gets: the source is copied once, into memory that it can read if it is on this machine."""
        shard = self._group.shards[part.owner]
        shared: list[Spec] = []

        def new(extents: tuple[int, ...], kind: np.dtype[Any]) -> Array:
            is_large = shard.shares and np.prod(extents) * kind.itemsize >= LEAST_SHARED
            if is_large and (found := self._group.sources.array(extents, kind)):
                shared.append(found[1])
                return found[0]
            return np.empty(extents, kind)

        source = self._group.router.source(src, part, shape, dims, by_rows, new)
        return Change(shard, (part.index, source), shared[0] if shared else None)


def _place(result: Array, part: OwnerPart, spans: Spans | None, values: Array) -> None:
    """Put what an owner on another machine has returned in its place."""
    lanes: Any = part.lanes if len(part.lanes) else slice(None)
    if spans is None:
        result[lanes] = values
        return
    for start, stop, at in spans:
        result[lanes, start:stop] = values[:, at : at + stop - start]


Finish = Callable[[float | None], Any]
"""Waits for a result until a time; raises TimeoutError after it."""


class PendingCall(OfOneProcess):
    """A call under way."""

    name, instead = "a call under way", "pass its result()"

    def __init__(self, lock: RLock, finish: Finish) -> None:
        self._lock, self._finish = lock, finish
        self._is_done, self._value, self._process = False, None, os.getpid()

    @public
    def result(self, timeout: float | None = None) -> Any:
        """The result of the call; a TimeoutError if it is not there in time, and the call goes on."""
        if not self._is_done:
            check_process(self._process, "the call")
        deadline = None if timeout is None else time.monotonic() + timeout
        if not self._lock.acquire(timeout=-1 if timeout is None else max(0.0, timeout)):
            raise TimeoutError("another thread waits for a call on this table")
        try:
            if not self._is_done:
                self._value = self._finish(deadline)
                self._is_done = True
        finally:
            self._lock.release()
        return self._value

    def done(self) -> bool:
        """Whether the result is there."""
        try:
            self.result(0)
        except TimeoutError:
            return False
        return True


# --- the table -------------------------------------------------------------------------------------------------------


MOST_FINDINGS = 1000


class ShardedTable(OfOneProcess):
    """A table in several processes, with the calls and the bits of a table in one.

    Made by `create`, `from_file` or `from_checkpoint`; closed by `close` or at the end of a `with` block. `findings`
    tells of owners that were started again.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def __init__(self, shape: tuple[int, ...], kind: np.dtype[Any], by: str, shards: int, how: TableOptions) -> None:
        """For `create` and its like."""
        self.shape, self.dtype, self.by = shape, kind, by
        self._lock, self._is_closed, self._process = threading.RLock(), False, os.getpid()
        self._findings: deque[Finding] = deque(maxlen=MOST_FINDINGS)
        grid, refusals = TableGrid.of(shape, by), Refusals(shape, kind)
        self._group = OwnerGroup(grid, kind, even(grid.units, shards), how, self._note)
        self._calls, self._states = TableCalls(self._group, refusals), TableStates(self._group, shape, kind)
        self._refusals = refusals

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

        def base(group: OwnerGroup, owner: int) -> Base:
            spans = [(start, stop) for start, stop, _ in group.router.placement.spans(owner)] or [(0, 0)]
            (first, last), columns = group.grid.rectangle(*spans[0])
            part = rows[first:last, slice(*columns)]
            return Base.of(save_array(os.path.join(group.folder, new_name(owner)), part), part.shape, 0)

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
        found = mapped(file, None if dtype is None else type_of(dtype))
        stamp = stamp_of(file)

        def base(group: OwnerGroup, owner: int) -> Base:
            placement, grid = group.router.placement, group.grid
            ranges = [
                FileRange(file, *grid.rectangle(start, stop), stamp=stamp) for start, stop, _ in placement.spans(owner)
            ]
            return Base(grid.part_shape(placement.size(owner)), ranges, 0)

        return cls._made(found.shape, found.dtype, shards, by, options, base)

    @classmethod
    @public
    def from_checkpoint(cls, path: str | os.PathLike[str], shards: int | None = None, **options: Any) -> Self:
        """A table with the content of a checkpoint, with as many owners as it had, or another number."""
        found = read_manifest(os.path.abspath(path))

        def empty(_group: OwnerGroup, _owner: int) -> Base:
            return Base((0, 0), [], 0)

        count = found.placement.owners if shards is None else shards
        table = cls._made(found.shape, found.dtype, count, found.by, options, empty)
        try:
            table._states.restore(found)
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
        base: Callable[[OwnerGroup, int], Base],
    ) -> Self:
        dtype(kind)
        table = cls(shape, kind, by, shards, parse_options(options, shards, by))
        group = table._group
        try:
            group.start([base(group, owner) for owner in range(shards)])
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
        return len(self._group.shards)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What happened to owners: the last remarks, the oldest first."""
        return tuple(self._findings)

    @property
    def placement(self) -> tuple[tuple[int, int, int], ...]:
        """The ranges of rows or columns, with their owners: first, one after the last, owner."""
        return tuple((piece.start, piece.stop, piece.owner) for piece in self._group.router.placement.pieces)

    def owner_pids(self) -> list[int]:
        """The process ids of the owners."""
        return [shard.about["pid"] for shard in self._group.shards]

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
        with self._opened():
            call = GATHER.of(indices=indices, out=out)
            policies: Header = {"coalesce": coalesce, "oob": oob, "axis": axis, "mode": mode}
            if not prod(self.shape):
                policies = self._refusals.entries(call, policies)
                return self._finished(gather(np.zeros(self.shape, self.dtype), indices, out=out, **policies))
            self._refusals.check_policies(gather, policies)
            policies = self._refusals.entries(call, policies)
            lanes = self._refusals.indices(call, indices)
            target = None if out is None else self._refusals.check_out(out, lanes, policies)
            if not lanes.size:
                return self._finished(gather(np.zeros(self.shape, self.dtype), lanes, out=out, **policies))
            resolved = self._refusals.resolved(call, lanes, policies, GatherOOB)
            return PendingCall(self._lock, self._calls.gather(lanes, resolved, policies, target, out))

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
        with self._opened():
            call = SCATTER.of(src=src, indices=indices)
            policies: Header = {"coalesce": coalesce, "oob": oob, "atomic": atomic, "conflict": conflict}
            policies |= {"accumulate": accumulate, "axis": axis, "mode": mode}
            policies |= {"reduce": reduce, "include_self": include_self}
            if not prod(self.shape):
                policies = self._refusals.entries(call, policies)
                scatter(np.zeros(self.shape, self.dtype), src, indices, **policies)
                return self._finished(self)
            if not isinstance(indices, np.ndarray):
                self._refusals.indices(call, indices)  # `pto.scatter` reads lists before it refuses a type
            self._refusals.check_policies(scatter, policies)
            policies = self._refusals.entries(call, policies)
            lanes = self._refusals.indices(call, indices)
            source = self._refusals.source(src, lanes, policies)
            if not lanes.size:
                scatter(np.zeros(self.shape, self.dtype), source, lanes, **policies)
                return self._finished(self)
            resolved = self._refusals.resolved(call, lanes, policies, ScatterOOB)
            finish = self._calls.scatter(source, lanes, resolved, policies)
            return PendingCall(self._lock, lambda deadline: finish(deadline) or self)

    def _finished(self, value: Any) -> PendingCall:
        return PendingCall(self._lock, lambda _: value)

    @public
    def to_numpy(self) -> Array:
        """The whole table as an array."""
        cells = np.arange(self.shape[0] if self.shape else 1)
        return self.gather(cells) if self.shape else self.gather(cells[0], coalesce="elem").reshape(())

    # --- Checkpoints

    @public
    def checkpoint(self, path: str | os.PathLike[str]) -> None:
        """Write the whole table into a folder, which all machines share. An older checkpoint there stays until then."""
        with self._opened():
            self._states.checkpoint(os.path.abspath(path))

    @public
    def restore(self, path: str | os.PathLike[str]) -> None:
        """Replace the content by that of a checkpoint. If it is corrupt, the table stays as it was."""
        with self._opened():
            self._states.restore(read_manifest(os.path.abspath(path)))

    @public
    def rebalance(self) -> None:
        """Divide the table anew, so that owners get as many of the accesses that were counted: hot ranges are split."""
        with self._opened():
            self._states.rebalance()

    # --- The end

    @contextmanager
    def _opened(self) -> Generator[None]:
        """The table for one thread of the process that made it, if it is open."""
        check_process(self._process, "the table")  # before the lock, which a thread may hold in the copy of a process
        with self._lock:
            if self._is_closed:
                raise ShardedError("the table is closed")
            yield

    def close(self) -> None:
        """End the owners and remove their files. Checkpoints stay. A forked process, which has a copy, ends nothing."""
        if os.getpid() != self._process:
            return
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                self._group.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()
