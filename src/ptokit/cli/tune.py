"""`ptokit tune`: measures what pays on this processor, and keeps it in the cache directory."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from statistics import median
from typing import Any

import numpy as np

import ptokit
from ptokit.cli.files import print_text
from ptokit.cli.problems import FINE, Misuse, printable
from ptokit.cli.report import print_json
from ptokit.engine.llvm import store
from ptokit.engine.native import host, workers
from ptokit.engine.native.host import FETCHED, NEVER, Host
from ptokit.engine.runnable import NATIVE

SECONDS = 6.0
"""After this time, what is not measured keeps its default."""
ROUNDS = 5
GAIN = 1.05
"""How many times faster than the default another choice must be."""
TABLE, RESULTS = 128 << 20, tuple(1 << bits for bits in range(25, 19, -1))
"""Bytes of the table, and of the results for which streaming is measured."""
ROW, LANES = 512, 1 << 19
"""Bytes of rows, and the number of elements, that are moved."""
ATOMIC = {"store": "none", "add": "add", "pick": "max"}
Call = Callable[[], Any]


def tune(*, show: bool, reset: bool, as_json: bool) -> int:
    """Measure, or show or forget what was measured; print what is used from now on."""
    if show and reset:
        raise Misuse("--show and --reset exclude each other")
    if not show:
        if refusal := store.refusal():
            raise Misuse(f"{store.folder() or 'the cache'} is not used: {refusal}")
        host.keep(None if reset else _Measurement().best())
    kept = host.tuned()
    if not show and (kept is None) != reset:
        raise Misuse(f"{store.folder()} cannot be written")
    used = replace(host.untuned(), **kept or {})
    streams = None if used.stream_from == NEVER else used.stream_from
    facts = {
        "measured": kept is not None, "wake": used.wake, "stream_from": streams, "copies": used.copies,
        "unfetched": list(used.unfetched), "near": used.near,
    }  # fmt: skip
    if as_json:
        print_json("tune", **facts)
    else:
        print_text(printable("".join(f"{name}: {_text(value)}\n" for name, value in facts.items())))
    return FINE


def _text(value: Any) -> str:
    """A fact as people read it."""
    if isinstance(value, list):
        return ", ".join(value) or "nothing"
    return f"{value:,}" if type(value) is int else {True: "yes", False: "no"}.get(value, "never")


@dataclass
class _Measurement:
    """Times of moves on arrays that exceed the caches, under assumptions about the processor."""

    ends: float = field(default_factory=lambda: time.monotonic() + SECONDS)

    @cached_property
    def table(self) -> np.ndarray[Any, Any]:
        return np.ones(TABLE // 4, np.float32)

    @cached_property
    def other(self) -> np.ndarray[Any, Any]:
        return np.ones(RESULTS[0] // 4, np.float32)

    def best(self) -> Host:
        """The default, with what is clearly better here."""
        found, before = host.untuned(), host.HOST
        try:
            found = replace(found, wake=self._wake(found))
            found = replace(found, stream_from=self._stream_from(found))
            other = replace(found, copies=not found.copies)
            found = other if self._pays(other, found, self.move("gather", "elements")) else found
            for kind in FETCHED:
                found = self._fetched(found, kind)
        finally:
            self._assume(before)
        return found

    def move(self, what: str, unit: str, nbytes: int = 0) -> Call:
        """A move of rows or elements all over the table; `nbytes` is the size of all rows, the largest by default."""
        width = ROW // 4 if unit == "rows" else 1
        count = (nbytes or RESULTS[0]) // ROW if unit == "rows" else LANES
        shape = (-1, width) if width > 1 else (-1,)
        table, other = self.table.reshape(shape), self.other[: count * width].reshape(shape)
        indices = np.random.default_rng(0).integers(0, len(table), count)
        mode = "row" if width > 1 else "elem"
        if what == "gather":
            return partial(ptokit.gather, table, indices, out=other, coalesce=mode, engine=NATIVE)
        return partial(ptokit.scatter, table, other, indices, atomic=ATOMIC[what], coalesce=mode, engine=NATIVE)

    def _assume(self, facts: Host) -> None:
        host.HOST = facts

    def _time(self, facts: Host, call: Call) -> float:
        self._assume(facts)
        began = time.perf_counter()
        call()
        return time.perf_counter() - began

    def _pays(self, other: Host, default: Host, call: Call) -> bool:
        """Whether a call is clearly faster under other assumptions than the default."""
        ratios: list[float] = []
        for nth in range(ROUNDS + 1):
            if time.monotonic() > self.ends:
                return False
            ratios += [self._time(default, call) / self._time(other, call)] if nth else []  # the first compiles
        return median(ratios) > GAIN and sorted(ratios)[1] > 1

    def _wake(self, facts: Host) -> int:
        def wake() -> float:
            began = time.perf_counter_ns()
            workers.run(lambda _: None, 2, workers.Stop())
            return time.perf_counter_ns() - began

        if workers.thread_count() == 1:
            return facts.wake
        return min(max(int(1.2 * median(wake() for _ in range(50))), 10_000), 500_000)

    def _stream_from(self, facts: Host) -> int:
        """The least result for which writing past the caches pays, and for all larger ones."""
        least = NEVER
        for nbytes in RESULTS:
            streamed, plain = (replace(facts, stream_from=limit) for limit in (1, NEVER))
            if not self._pays(streamed, plain, self.move("gather", "rows", nbytes)):
                break
            least = nbytes
        return least

    def _fetched(self, facts: Host, kind: str) -> Host:
        """The facts with prefetching for a kind of move, or without."""
        *streamed, what, unit = kind.split()
        changed = set(facts.unfetched) ^ {kind}
        other = replace(facts, unfetched=tuple(each for each in FETCHED if each in changed))
        limit = 1 if streamed else NEVER
        there, here = (replace(each, stream_from=limit) for each in (other, facts))
        is_used = not streamed or facts.stream_from != NEVER
        return other if is_used and self._pays(there, here, self.move(what, unit)) else facts
