"""Worker threads: how work is assigned, and how a run ends early."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import c_int32
from pathlib import Path

import numpy as np
import pytest

import ptokit
from ptokit.engine.native import openmp, workers
from ptokit.engine.native.workers import Stop, run, thread_count

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(ptokit.__file__).parent.parent)}
PATIENCE = 60
"""Seconds after which a test has failed: nothing takes a thousandth of it."""


def own_threads() -> int:
    return sum(thread.name == "ptokit-worker" for thread in threading.enumerate())


# --- how many --------------------------------------------------------------------------------------------------


def test_as_many_threads_as_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PTOKIT_THREADS", "7")
    assert [thread_count(3), thread_count(np.int64(5)), thread_count(1024)] == [3, 5, 1024]
    assert thread_count() == thread_count(None) == 7


@pytest.mark.parametrize("value", [None, "", "  "])
def test_else_one_for_each_usable_cpu(value: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PTOKIT_THREADS", raising=False)
    if value is not None:
        monkeypatch.setenv("PTOKIT_THREADS", value)
    monkeypatch.setattr(openmp, "threads", lambda: 0)  # as without PyTorch
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {1, 5, 6}, raising=False)
    assert thread_count() == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 4096)
    assert thread_count() == 1024
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert thread_count() == 1


@pytest.mark.parametrize("number", [0, -1, 1025, 2**70, True, 2.0, "4", [2], np.float32(2), np.arange(2)])
def test_nonsense_is_refused(number: object) -> None:
    with pytest.raises(ValueError, match="threads must be a whole number from 1 to 1024; found "):
        thread_count(number)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", ["0", "-2", "many", "1.5", "0x4", "1e3", "9" * 9999, "1025", "four 4"])
def test_nonsense_in_the_environment_is_refused_by_name(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PTOKIT_THREADS", value)
    with pytest.raises(ValueError, match="PTOKIT_THREADS must be a whole number from 1 to 1024; found "):
        thread_count()


# --- the flag --------------------------------------------------------------------------------------------------


def test_the_flag_is_a_number_in_memory() -> None:
    stop = Stop()
    seen = c_int32.from_address(stop.address)
    assert not stop and seen.value == 0
    stop.set()
    stop.set()
    assert stop and seen.value != 0
    seen.value = 0
    assert not stop


# --- runs ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2, 5, 40])
def test_every_part_is_done_once_and_all_at_the_same_time(threads: int) -> None:
    together = threading.Barrier(threads)
    done: list[tuple[int, int]] = []

    def work(part: int) -> None:
        together.wait(PATIENCE)
        done.append((part, threading.get_ident()))

    run(work, threads, Stop())
    assert sorted(part for part, _ in done) == [*range(threads)]
    assert len({thread for _, thread in done} | {threading.get_ident()}) == threads + 1


def test_workers_are_used_again() -> None:
    run(lambda part: None, 4, Stop())
    before = own_threads()
    counts = [0] * 4

    def work(part: int) -> None:
        counts[part] += 1

    for _ in range(3000):
        run(work, 4, Stop())
    assert counts == [3000] * 4
    assert own_threads() == before


def test_callers_have_workers_of_their_own() -> None:
    """Parts of one run wait for each other; if two runs shared workers, some would wait for ever."""
    problems: list[BaseException] = []

    def caller() -> None:
        try:
            for _ in range(50):
                together = threading.Barrier(3)
                run(lambda part, together=together: together.wait(PATIENCE) and None, 3, Stop())
        except BaseException as problem:
            problems.append(problem)

    callers = [threading.Thread(target=caller) for _ in range(6)]
    for thread in callers:
        thread.start()
    for thread in callers:
        thread.join()
    assert problems == []


def test_work_may_have_a_run_of_its_own() -> None:
    done: list[tuple[int, int]] = []
    run(lambda outer: run(lambda inner: done.append((outer, inner)), 2, Stop()), 3, Stop())
    assert sorted(done) == [(outer, inner) for outer in range(3) for inner in range(2)]


def test_nothing_keeps_the_work_alive() -> None:
    class Work:
        def __call__(self, part: int) -> None:
            pass

    for _ in range(200):
        work = Work()
        known = weakref.ref(work)
        run(work, 3, Stop())
        del work
        assert known() is None


# --- exceptions ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt, SystemExit])
def test_the_exception_of_the_lowest_part_is_raised_after_all_have_ended(kind: type[BaseException]) -> None:
    stop, first = Stop(), threading.Event()
    ended: list[int] = []

    def work(part: int) -> None:
        if part == 1:
            assert first.wait(PATIENCE)  # the higher ones raise first
        try:
            if part > 0:
                raise kind(f"part {part}")
            while not stop:
                first.wait(0.001)
        finally:
            ended.append(part)
            if part == 3:
                first.set()

    with pytest.raises(kind, match="part 1"):
        run(work, 4, stop)
    assert stop and sorted(ended) == [0, 1, 2, 3]
    run(lambda part: None, 4, Stop())


def test_an_exception_keeps_nothing_alive() -> None:
    class Work:
        def __call__(self, part: int) -> None:
            raise ValueError(part)

    work = Work()
    known = weakref.ref(work)
    with pytest.raises(ValueError, match="0") as raised:
        run(work, 2, Stop())
    del work, raised
    assert known() is None


def test_no_thread_to_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    run(lambda part: None, 2, Stop())
    monkeypatch.setattr(workers, "_idle", workers._idle[:2])
    begun: list[int] = []

    def start(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            run(begun.append, 3, Stop())
        assert begun == []
        run(begun.append, 2, Stop())
    assert sorted(begun) == [0, 1]


# --- processes -------------------------------------------------------------------------------------------------


HEARS = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
"""Programs that were started in the background do not receive Ctrl-C, nor do those that they start."""


@contextmanager
def process(code: str) -> Iterator[subprocess.Popen[str]]:
    """A program that runs in parallel and always ends with the test."""
    command = [sys.executable, "-W", "ignore", "-c", HEARS + code]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=ENVIRONMENT, text=True, **pipes) as running:
        limit = threading.Timer(PATIENCE, running.kill)
        limit.start()
        try:
            yield running
        finally:
            limit.cancel()
            running.kill()


def line(running: subprocess.Popen[str]) -> str:
    """The next line that it prints."""
    assert running.stdout is not None
    return running.stdout.readline().strip()


def rest(running: subprocess.Popen[str], given: str = "") -> list[str]:
    """All other lines that it prints, until it succeeds."""
    out, err = running.communicate(given)
    assert running.returncode == 0, err
    return out.splitlines()


FORKING = """
import os
from ptokit.engine.native.workers import Stop, run
run(lambda part: None, 3, Stop())
child = os.fork()
done = []
run(done.append, 3, Stop())
if child == 0:
    os._exit(0 if sorted(done) == [0, 1, 2] else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), sorted(done))
"""


def test_a_child_has_workers_of_its_own() -> None:
    with process(FORKING) as running:
        assert rest(running) == ["0 [0, 1, 2]"]


NATIVE = """
import ctypes
from ptokit.engine.native import jit
from ptokit.engine.native.workers import Stop, run

TEXT = '''
define i64 @count(ptr %stop) nounwind {
entry:
  br label %loop
loop:
  %turn = phi i64 [ 0, %entry ], [ %next, %loop ]
  %next = add i64 %turn, 1
  %flag = load atomic i32, ptr %stop monotonic, align 4
  %go = icmp eq i32 %flag, 0
  br i1 %go, label %loop, label %done
done:
  ret i64 %next
}
'''
library = jit.library(TEXT, lambda: jit.IrSource(TEXT))
count = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(library.address("count"))
stop, begun, ended = Stop(), [], []

def work(part):
    begun.append(part)
    if part == 0:
        print("ready", flush=True)
    assert count(stop.address) > 0
    ended.append(part)

try:
    run(work, 2, stop)
except KeyboardInterrupt:
    print("interrupted", sorted(begun) == sorted(ended) and bool(stop))
done = []
run(done.append, 2, Stop())
print("and again", sorted(done))
"""


def test_ctrl_c_ends_native_code(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("llvmlite")
    monkeypatch.setitem(ENVIRONMENT, "PTOKIT_CACHE", "off")
    with process(NATIVE) as running:
        assert line(running) == "ready"
        running.send_signal(signal.SIGINT)
        assert rest(running) == ["interrupted True", "and again [0, 1]"]


STUBBORN = """
import sys
import time
from ptokit.engine.native.workers import Stop, run
stop = Stop()

def work(part):
    if part:
        return
    print("ready", flush=True)
    while not stop:
        time.sleep(0.001)
    print("stopping", flush=True)
    sys.stdin.readline()
    print("ended", flush=True)

try:
    run(work, 2, stop)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


LATE = """
import signal

def late(*_):
    raise TimeoutError

signal.signal(signal.SIGUSR1, late)
"""


def test_ctrl_c_again_and_again_leaves_no_work_behind() -> None:
    with process(STUBBORN) as running:
        assert line(running) == "ready"
        running.send_signal(signal.SIGINT)
        assert line(running) == "stopping"
        for _ in range(3):
            running.send_signal(signal.SIGINT)
        assert rest(running, "now\n") == ["ended", "interrupted"]


def test_any_exception_of_the_waiting_caller_ends_the_run() -> None:
    code = LATE + STUBBORN.replace("KeyboardInterrupt", "TimeoutError")
    with process(code) as running:
        assert line(running) == "ready"
        running.send_signal(signal.SIGUSR1)
        assert rest(running, "now\n") == ["stopping", "ended", "interrupted"]


@pytest.mark.parametrize("after", [0, 1, 2])
def test_an_interruption_while_workers_are_woken(after: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that have begun end, the others never begin, and later runs find all of them."""
    run(lambda part: None, 3, Stop())
    begin, woken, done = workers._Worker.begin, [0], []

    def interrupted(worker: workers._Worker, job: workers._Job, places: workers._Places | None) -> None:
        if woken[0] == after:
            raise KeyboardInterrupt
        woken[0] += 1
        begin(worker, job, places)

    stop = Stop()
    with monkeypatch.context() as patch:
        patch.setattr(workers._Worker, "begin", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run(done.append, 3, stop)
    assert stop or after == 0 or len(done) <= after
    before = own_threads()
    for _ in range(20):
        again: list[int] = []
        run(again.append, 3, Stop())
        assert sorted(again) == [0, 1, 2]
    assert own_threads() == before


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system does not say where threads may run")
def test_threads_may_go_anywhere_once_they_run() -> None:
    """They wake up on separate processors, and may move afterwards."""
    allowed = os.sched_getaffinity(0)
    threads = max(2, len(allowed))
    found: dict[int, set[int]] = {}
    for _ in range(3):
        run(lambda k: found.update({k: os.sched_getaffinity(0)}), threads, Stop())
        assert found == dict.fromkeys(range(threads), allowed)
