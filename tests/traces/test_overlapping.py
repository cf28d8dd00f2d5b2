"""Blocks of `record_indices` that overlap: in threads, tasks and generators, in any order. Nothing is left behind."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager
from queue import SimpleQueue
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ptokit as pto
from ptokit import ops
from ptokit.traces import hooks

torch: Any = pytest.importorskip("torch")

TABLE = np.zeros((1000, 2), "float32")
WEIGHT = torch.zeros(1000, 2)
BEFORE = (pto.gather, ops.scatter_nd, threading.Thread.run, [*sys.meta_path])


def is_clean() -> bool:
    """Whether nothing is patched."""
    stance = sys.modules["torch._dynamo"].eval_frame._stance.stance if "torch._dynamo" in sys.modules else "default"
    now = (pto.gather, ops.scatter_nd, threading.Thread.run, [*sys.meta_path])
    return now == BEFORE and not hooks._blocks and stance == "default"


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    assert is_clean()
    yield
    assert is_clean()


class Worker:
    """A thread that calls functions one at a time."""

    def __init__(self) -> None:
        self._asked: SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        while (asked := self._asked.get()) is not None:
            function, future = asked
            try:
                future.set_result(function())
            except BaseException as problem:
                future.set_exception(problem)

    def call(self, function: Callable[[], Any]) -> Any:
        future: Future[Any] = Future()
        self._asked.put((function, future))
        return future.result(60)

    def end(self) -> None:
        self._asked.put(None)
        self._thread.join(60)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["begin", "end", "end", "fail", "gather", "embed"]), st.integers(0, 3), st.integers(0, 9)
    ),
    max_size=30,
)


@settings(deadline=None)
@given(STEPS)
def test_blocks_overlap_in_any_order(steps: list[tuple[str, int, int]]) -> None:
    """Blocks begin and end in any of four threads, by themselves or by an exception. Each has what all threads do
    while it runs; of torch, what the threads do in which one of the running blocks began."""
    workers = [Worker() for _ in range(4)]
    running: list[tuple[int, AbstractContextManager[pto.IndexTrace], pto.IndexTrace, list[int]]] = []
    over: list[tuple[pto.IndexTrace, list[int]]] = []

    def finish(thread: int, which: int, problem: BaseException | None) -> None:
        _, block, trace, wanted = running.pop(which % len(running))
        kind = type(problem) if problem else None
        assert not workers[thread].call(lambda: block.__exit__(kind, problem, None))
        over.append((trace, wanted))

    for number, (step, thread, which) in enumerate(steps):
        if step == "begin":
            block = pto.record_indices()
            running.append((thread, block, workers[thread].call(block.__enter__), []))
        elif step == "gather":
            workers[thread].call(lambda: pto.gather(TABLE, np.array([number])))  # noqa: B023  (called at once)
            for *_, wanted in running:
                wanted.append(number)
        elif step == "embed":
            ids = torch.tensor([number])
            workers[thread].call(lambda: torch.nn.functional.embedding(ids, WEIGHT))  # noqa: B023
            for *_, wanted in running:
                wanted += [number] * any(began == thread for began, *_ in running)
        elif running:
            finish(thread, which, ValueError("of the block") if step == "fail" else None)
    while running:
        finish(0, 0, None)
    assert is_clean()
    for trace, wanted in over:
        assert [call.indices.tolist() for call in trace.calls] == [[each] for each in wanted]
        assert (trace.seen, trace.missed) == (len(wanted), 0)
    for worker in workers:  # a block that begins and ends there leaves no mode, also none that was left before
        worker.call(lambda: record(0))
        assert worker.call(torch.overrides._len_torch_function_stack) == 0
        worker.end()


def record(number: int) -> pto.IndexTrace:
    with pto.record_indices() as trace:
        pto.gather(TABLE, np.array([number]))
    return trace


def test_threads_that_record_at_once_leave_nothing() -> None:
    """Free-running threads: the recordings of each have at least its own calls."""
    start = threading.Barrier(6)
    problems: list[BaseException] = []

    def work(k: int) -> None:
        try:
            start.wait(60)
            for _ in range(60):
                with pto.record_indices() as trace:
                    pto.gather(TABLE, np.array([k]))
                    torch.nn.functional.embedding(torch.tensor([100 + k]), WEIGHT)
                found = [int(call.indices[0]) for call in trace.calls]
                assert found.count(k) >= 1 and found.count(100 + k) >= 1, found
            assert torch.overrides._len_torch_function_stack() == 0
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not problems


def test_tasks_that_record_at_once_see_all_calls() -> None:
    """The first task begins and ends first: a stack of blocks would be taken down in the wrong order."""

    async def task(k: int, waits: int) -> list[int]:
        with pto.record_indices() as trace:
            torch.nn.functional.embedding(torch.tensor([k]), WEIGHT)
            for _ in range(waits):
                await asyncio.sleep(0)
            torch.nn.functional.embedding(torch.tensor([100 + k]), WEIGHT)
            pto.gather(TABLE, np.array([200 + k]))
        return [int(call.indices[0]) for call in trace.calls]

    async def both() -> list[list[int]]:
        return [*await asyncio.gather(task(0, 3), task(1, 6))]

    first, second = asyncio.run(both())
    assert first == [0, 1, 100, 200] and second == [1, 100, 200, 101, 201]
    assert torch.overrides._len_torch_function_stack() == 0


def test_compiled_functions_run_eagerly_until_the_last_block_ends() -> None:
    embedding = torch.nn.Embedding(10, 4)
    compiled = torch.compile(lambda ids: embedding(ids).sum(), backend="eager", fullgraph=True)
    compiled(torch.tensor([1, 2]))
    one, other = pto.record_indices(), pto.record_indices()
    one.__enter__()
    trace = other.__enter__()
    one.__exit__(None, None, None)
    compiled(torch.tensor([1, 2]))
    other.__exit__(None, None, None)
    assert [call.indices.tolist() for call in trace.calls] == [[1, 2]]


def test_a_mode_of_the_program_may_end_after_the_block() -> None:
    class Seen(torch.overrides.TorchFunctionMode):
        functions: ClassVar[list[Any]] = []

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            self.functions.append(func)
            return func(*args, **(kwargs or {}))

    mode, block = Seen(), pto.record_indices()
    block.__enter__()
    mode.__enter__()
    block.__exit__(None, None, None)
    torch.zeros(1)
    assert Seen.functions[-1] is torch.zeros  # it was not taken away
    mode.__exit__(None, None, None)
    record(0)
    assert torch.overrides._len_torch_function_stack() == 0


def test_a_function_that_the_program_replaces_in_the_block_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    before = pto.gather

    def own(*args: Any) -> str:
        return "own"

    with pto.record_indices():
        pto.gather = own
    try:
        assert pto.gather(TABLE, [1]) == "own"
    finally:
        pto.gather = before
