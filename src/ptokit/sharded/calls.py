"""Gathers and scatters that are checked: sent to the owners of their rows, and their answers put together."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from threading import RLock
from typing import Any

import numpy as np

from ptokit.isa.policy import ScatterAtomicOp
from ptokit.lang.arrays import within, writing
from ptokit.lang.faults import public
from ptokit.sharded.errors import OfOneProcess, check_process
from ptokit.sharded.group import Change, OwnerGroup
from ptokit.sharded.messages import Array, Header
from ptokit.sharded.refusals import Refusals
from ptokit.sharded.route import OwnerPart, Resolved
from ptokit.sharded.segments import Spec
from ptokit.sharded.shard import Sent

Spans = list[tuple[int, int, int]]
"""Columns of an owner: the first, the one after the last, the place of the first there."""

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
