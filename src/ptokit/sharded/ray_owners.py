"""Owners as Ray actors, and plain functions as Ray tasks."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import wraps
from importlib import import_module
from typing import Any, TypeVar

from ptokit.sharded.messages import Message, OwnerLost, ShardedError
from ptokit.sharded.owner import Owner

LOOPBACK = ("127.0.0.1", "::1")
LOOPBACK_ONLY = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""Ray's variable: if it is 0, a Ray that is started here listens on the loopback address only, also on Linux."""
START_WAIT = "RAY_raylet_start_wait_time_s"
"""Ray's variable: seconds that its start may take. Its default, 30, is too short for a busy machine."""
CPUS = 0.01
"""The share of a processor that an actor reserves: owners are placed by memory and spread."""
GRACE, PATIENCE = 1.0, 10.0
"""Seconds until a process that Ray ends is gone, and one that is killed."""
TITLE = b"ray::OwnerActor"
"""How the command lines of owners begin."""
MISSING = "sharded tables need Ray: pip install 'ptokit[ray]'"


def connected() -> Any:
    """The module `ray`, initialised. A Ray that is started here listens on the loopback address only."""
    was_loaded = "ray" in sys.modules
    os.environ.setdefault(START_WAIT, "120")  # Ray reads its variables when it is imported
    if not was_loaded and "RAY_ADDRESS" not in os.environ:
        os.environ.setdefault(LOOPBACK_ONLY, "0")
    try:
        ray: Any = import_module("ray")
    except ImportError:
        raise ShardedError(MISSING) from None
    if ray.is_initialized():
        return ray
    if was_loaded and "RAY_ADDRESS" not in os.environ and os.environ.get(LOOPBACK_ONLY) != "0":
        raise ShardedError("call ray.init() first, with the address of the cluster")
    address = None if "RAY_ADDRESS" in os.environ else "local"  # no other Ray that happens to run here
    try:
        ray.init(address, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    except Exception as problem:  # Ray has no class for it
        ray.shutdown()
        raise ShardedError(f"Ray could not be started: {problem}") from problem
    if "RAY_ADDRESS" not in os.environ and ray.util.get_node_ip_address() not in LOOPBACK:
        ray.shutdown()
        raise ShardedError("Ray would listen on all addresses of this machine; call ray.init() first if that is meant")
    _report_on_stderr()
    return ray


def _report_on_stderr() -> None:
    """Let the Ray that was started here write its reports of ended workers to stderr. It has no option for that, and
    its thread writes them to stdout, where they would be in the program's output."""
    worker: Any = sys.modules.get("ray._private.worker")
    write = getattr(worker, "print_to_stdstream", None)
    thread = getattr(getattr(worker, "global_worker", None), "listener_thread", None)
    if write is None or thread is None:  # of another version
        return
    write = getattr(write, "__wrapped__", write)  # by the call that started a Ray before this one

    @wraps(write)
    def write_report(data: dict[str, Any], *args: Any, **options: Any) -> None:
        is_ours = threading.current_thread() is thread
        write({**data, "is_err": True} if is_ours else data, *args, **options)

    worker.print_to_stdstream = write_report


class OwnerActor:
    """An owner in a Ray actor: one call at a time, in the order in which they are sent."""

    def __init__(self) -> None:
        self.owner = Owner()

    def answer(self, header: dict[str, Any], *arrays: Any) -> tuple[Any, ...]:
        """Do a call."""
        answer = self.owner.answer(header, arrays)
        return answer.header, *answer.arrays


class RayEndpoint:
    """A running owner: an actor. Whatever has the same methods can take its place."""

    def __init__(self, ray: Any, actor: Any) -> None:
        self._ray, self._actor = ray, actor

    def submit(self, message: Message) -> Any:
        """Send a call; returns what to wait for. Calls are done in the order in which they are sent."""
        try:
            return self._actor.answer.remote(message.header, *message.arrays)
        except self._ray.exceptions.RayError as problem:
            raise OwnerLost(_first_line(problem)) from None

    def wait(self, sent: Any, seconds: float) -> Message:
        """The answer. Raises TimeoutError if it has not come yet, OwnerLost if it will not come."""
        try:
            header, *arrays = self._ray.get(sent, timeout=seconds)
        except self._ray.exceptions.GetTimeoutError:
            raise TimeoutError from None
        except self._ray.exceptions.RayError as problem:
            raise OwnerLost(_first_line(problem)) from None
        return Message(header, tuple(arrays))

    def end(self, process: int | None) -> None:
        """End the actor, so that it writes nothing any more; if its process is on this machine, until it is gone."""
        with suppress(self._ray.exceptions.RayError, ValueError):
            self._ray.kill(self._actor, no_restart=True)
        if process is not None:
            end_process(process)


def _first_line(problem: Exception) -> str:
    kind = type(problem).__name__
    return "has ended" if "Died" in kind or "Unavailable" in kind else f"is lost ({kind})"


def end_process(process: int) -> None:
    """Wait until a Ray worker of this machine that was ended is gone, and kill it otherwise, as one that is stopped.
    Then it writes to no shared memory."""
    if _is_gone(process, GRACE):
        return
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)
    if not _is_gone(process, PATIENCE):
        raise ShardedError(f"process {process} cannot be ended")


def _is_gone(process: int, seconds: float) -> bool:
    until = time.monotonic() + seconds
    while is_worker(process):
        if time.monotonic() > until:
            return False
        time.sleep(0.002)
    return True


def is_worker(process: int) -> bool:
    """Whether a process runs and is an owner; another process may have got its id."""
    try:
        with open(f"/proc/{process}/stat", "rb") as stat:
            state = stat.read().rpartition(b")")[2].split()[0]
        with open(f"/proc/{process}/cmdline", "rb") as line:
            return state != b"Z" and line.read(len(TITLE)) == TITLE
    except OSError:
        return False


class RayOwners:
    """Starts owners as actors, spread over the machines."""

    def __init__(self) -> None:
        self._ray = connected()
        self.machines = max(1, sum(1 for node in self._ray.nodes() if node["Alive"]))
        options = {"num_cpus": CPUS, "max_restarts": 0, "max_task_retries": 0, "scheduling_strategy": "SPREAD"}
        self._class = self._ray.remote(**options)(OwnerActor)

    def start(self, number: int) -> RayEndpoint:
        """Start an actor."""
        try:
            return RayEndpoint(self._ray, self._class.remote())
        except self._ray.exceptions.RayError as problem:
            raise OwnerLost(_first_line(problem)) from None

    def close(self) -> None:
        """Ray itself goes on: it belongs to the program."""


T = TypeVar("T")
RETRIES = 3
"""How often a task is repeated whose process has ended."""


def run_tasks(function: Callable[..., T], items: Sequence[tuple[Any, ...]]) -> Iterator[T]:
    """What a function returns for each item, in order. Tasks run in the folder and with the path of the caller."""
    ray = connected()
    here, path = os.getcwd(), [*sys.path]

    def work(item: tuple[Any, ...]) -> T:
        os.chdir(here)
        sys.path[:] = [*dict.fromkeys([*path, *sys.path])]
        return function(*item)

    task = ray.remote(max_retries=RETRIES)(work)
    sent = [task.remote(item) for item in items]
    for each in sent:
        yield ray.get(each)
