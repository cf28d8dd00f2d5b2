"""Threads that wait for work. Native code runs on them, so that the calling thread can handle Ctrl-C."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable
from contextlib import suppress
from ctypes import addressof, c_int32
from itertools import count
from operator import index
from queue import SimpleQueue
from typing import Any

from ptokit.brief import brief
from ptokit.engine.native import openmp

VARIABLE = "PTOKIT_THREADS"
"""The environment variable for the number of threads."""
MOST = 1024
"""Threads of one run."""
DIGITS = re.compile("[0-9]{1,9}")
_POLL_SECONDS = 0.1
"""Seconds of a wait before it checks for signals. Ctrl-C ends a wait at once, except on Windows, and for a signal that
arrives after Python has checked and before it waits."""

_job_numbers = count()
_idle: list[_Worker] = []
"""Workers without work. Taking one and putting it back are single steps, so no lock is needed."""


def thread_count(asked: int | None = None) -> int:
    """The number of threads: as asked for, else the value of `PTOKIT_THREADS`, else as many as PyTorch uses if it is
    loaded, else one for each usable CPU."""
    if asked is not None:
        return _checked("threads", asked)
    text = os.environ.get(VARIABLE)
    if text is None or not text.strip():
        return min(openmp.threads() or _cpus(), MOST)
    return _checked(VARIABLE, int(text) if DIGITS.fullmatch(text.strip()) else text)


def _checked(name: str, number: Any) -> int:
    try:
        found = 0 if isinstance(number, bool) else index(number)
    except TypeError:
        found = 0
    if 1 <= found <= MOST:
        return found
    raise ValueError(f"{name} must be a whole number from 1 to {MOST}; found {brief(number)}")


def _cpus() -> int:
    """CPUs that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Stop:
    """A flag in memory that asks running work to end: a 32-bit number, not 0 once it is set."""

    __slots__ = ("_flag", "address")

    def __init__(self) -> None:
        self._flag = c_int32(0)
        self.address = addressof(self._flag)
        """Where native code finds the number, for as long as this object lives."""

    def set(self) -> None:
        """Ask for the end."""
        self._flag.value = 1

    def __bool__(self) -> bool:
        return self._flag.value != 0


def run(work: Callable[[int], None], threads: int, stop: Stop) -> None:
    """Call `work(0)` … `work(threads - 1)`, each on a thread of its own, and wait until all have ended.

    An exception in any of them sets `stop`; that of the lowest number is raised. An exception here, as by Ctrl-C, sets
    `stop` too and goes on when all have ended: nothing runs after the call.
    """
    job = _Job(work, stop)
    try:
        job.begin(threads)
        job.wait()
    except BaseException:
        job.end_early()
        raise
    del job.work  # and its arrays: the last worker may not have left yet
    if job.problems:
        problem = job.problems[min(job.problems)]
        job.problems.clear()
        try:
            raise problem
        finally:
            del problem  # it refers to this frame and the job: a cycle would keep both alive


class _Places:
    """Processors for the threads of a run: the system often wakes two threads on one while another is idle."""

    def __init__(self, allowed: set[int], threads: int) -> None:
        self.allowed = allowed
        first, order = next(_job_numbers), sorted(allowed)
        self._order = [order[(first + k) % len(order)] for k in range(threads)]

    def send(self, thread: int) -> None:
        """Let a thread that sleeps wake up on the next processor; later the system may move it."""
        with suppress(OSError):
            os.sched_setaffinity(thread, {self._order.pop()})


def _places(threads: int) -> _Places | None:
    """Processors for the threads; None for one thread, for too many, and if threads cannot be placed."""
    if threads == 1 or not hasattr(os, "sched_setaffinity"):
        return None
    allowed = os.sched_getaffinity(0)
    return _Places(allowed, threads) if threads <= len(allowed) else None


class _Job:
    """One run. All it does with its lists and sets are single steps, so no lock is needed."""

    __slots__ = ("_all_ended", "_busy", "_left", "_stop", "problems", "work")

    def __init__(self, work: Callable[[int], None], stop: Stop) -> None:
        self.work, self._stop = work, stop
        self._left: dict[_Worker, int] = {}
        """Parts that have not begun, by their workers."""
        self._busy: set[_Worker] = set()
        """Workers that have begun a part, or are about to."""
        self._all_ended = threading.Lock()
        self._all_ended.acquire()
        self.problems: dict[int, BaseException] = {}
        """What was raised, by part."""

    def begin(self, threads: int) -> None:
        """Assign the parts to workers, idle ones first, and wake them up."""
        for part in reversed(range(threads)):
            try:
                worker = _idle.pop()
            except IndexError:
                worker = _Worker()
            self._left[worker] = part
        places = _places(threads)
        for worker in [*reversed(self._left)]:
            worker.begin(self, places)

    def do_part(self, worker: _Worker) -> bool:
        """Do the worker's part, unless it was cancelled."""
        self._busy.add(worker)  # before the part is taken: at no moment does it belong to nobody
        try:
            part = self._left.pop(worker)
        except KeyError:
            return False
        try:
            self.work(part)
        except BaseException as problem:
            self.problems[part] = problem
            self._stop.set()
        return True

    def leave(self, worker: _Worker) -> None:
        """Have no part any more; the last one to leave wakes the caller."""
        self._busy.discard(worker)
        if not self._left and not self._busy:
            try:
                self._all_ended.release()
            except RuntimeError:  # two that leave together may both be the last
                return

    def wait(self) -> None:
        """Wait until every part has ended."""
        while self._left or self._busy:
            self._all_ended.acquire(timeout=_POLL_SECONDS)

    def end_early(self, depth: int = 10) -> None:
        """Begin no more parts, and wait for those that have begun, however often Ctrl-C is pressed.

        Each `try` takes one exception, and none can come up between two of them: Python looks for signals where it
        calls and where it jumps back. So this is no loop, but a tree of a thousand tries that ends when nobody is busy.
        """
        try:  # noqa: SIM105
            self._end(depth)
        except BaseException:  # noqa: S110
            pass
        try:  # noqa: SIM105
            self._end(depth)
        except BaseException:  # noqa: S110
            pass

    def _end(self, depth: int) -> None:
        self._stop.set()
        with suppress(KeyError):
            while True:
                _idle.append(self._left.popitem()[0])
        if depth and self._busy:
            self.end_early(depth - 1)
        self.wait()


class _Worker:
    """A thread that sleeps until there is a job, and then again."""

    __slots__ = ("_jobs", "_places", "_thread")

    def __init__(self) -> None:
        self._jobs: SimpleQueue[_Job] = SimpleQueue()
        self._places: _Places | None = None
        self._thread = 0
        threading.Thread(target=self._live, name="ptokit-worker", daemon=True).start()

    def begin(self, job: _Job, places: _Places | None) -> None:
        """Wake up for a job, on a processor of its own if there are such."""
        if places is not None and self._thread:
            self._places = places
            places.send(self._thread)
        self._jobs.put(job)

    def _live(self) -> None:
        self._thread = threading.get_native_id()
        while True:
            job = self._jobs.get()
            self._go_anywhere()
            if job.do_part(self):
                _idle.append(self)  # before the caller wakes up: its next run finds this worker
            job.leave(self)
            del job

    def _go_anywhere(self) -> None:
        places, self._places = self._places, None
        if places is not None:
            with suppress(OSError):
                os.sched_setaffinity(0, places.allowed)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_idle.clear)  # the threads stayed behind in the parent
