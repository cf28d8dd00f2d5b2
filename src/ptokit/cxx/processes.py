"""Compilers as processes: confined, with limits, ended with all that they started."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from ptokit.cxx.confine import filter_of_compilers, has_filter, install, limit_files
from ptokit.cxx.repository import SINGLE, granted, of_compiler, system_folders
from ptokit.garbage import without_collection

SHELL = "/bin/sh"
UNITS = {
    "c": (resource.RLIMIT_CORE, 512),
    "t": (resource.RLIMIT_CPU, 1),
    "f": (resource.RLIMIT_FSIZE, 512),
    "v": (resource.RLIMIT_AS, 1024),
}
"""Limits that the shell sets: their option, and how many bytes or seconds it counts as one."""
NOT_STARTED = (126, 127)
"""Statuses of a shell whose command cannot be executed, or does not exist."""
FOLDERS = ("TMPDIR", "ZIG_LOCAL_CACHE_DIR")
"""Variables that name folders for what compilers write besides their output. Zig keeps objects of sources in one, those
of its own libraries in another."""
LOOK = 1.0
"""Seconds after which a compiler that still runs is looked at."""
ASLEEP = "SZ"
"""States of processes that wait for others, or have ended."""
LINES = 12
"""Lines of a compiler's output in a message."""


@dataclass(frozen=True)
class CompileLimits:
    """What one run of a compiler may use."""

    seconds: float = 120.0
    memory: int = 4 << 30
    """Bytes of address space of each process."""
    output: int = 512 << 20
    """Bytes of each file that is written."""
    printed: int = 32 << 20
    """Bytes of a preprocessed source."""
    still: float = 10.0
    """Seconds without any work: a compiler that opens a pipe waits for ever."""


class CompileError(Exception):
    """A source that could not be compiled; the message has the compiler's first lines."""

    fix = ""
    """What may help if a file is not found or not read."""


def run(
    commands: Sequence[Sequence[str]],
    limits: CompileLimits,
    folder: Path | None = None,
    *,
    keep: bool = False,
    readable: Sequence[str] = (),
    programs: Sequence[str] = (),
) -> list[str]:
    """Run compilers side by side with limits. They write into `folder` only, read the system's files and what is
    `readable`, and start `programs`. Returns what they print with `keep`; raises `CompileError`."""
    limits = replace(limits, output=limits.printed) if keep else limits
    own = [program for command in commands for program in of_compiler(command)]
    writable = [os.devnull, *_caches(commands[0]), *granted(), *([] if folder is None else [str(folder)])]
    with contextlib.ExitStack() as stack:
        outputs, errors = (
            [stack.enter_context(tempfile.TemporaryFile()) for _ in commands] for _ in ("printed", "errors")
        )
        running: list[subprocess.Popen[bytes]] = []
        environment, wrapped = _environment(folder), [limited(command, limits) for command in commands]

        def start() -> None:
            for command, output, error in zip(wrapped, outputs, errors, strict=True):
                running.append(_start(command, environment, output if keep else subprocess.DEVNULL, error))

        try:
            _call_confined(start, readable, writable, [*system_folders(), *SINGLE, SHELL, *own, *programs])
            _finish(running, limits, outputs)
        except OSError as problem:
            raise CompileError(f"{commands[0][0]} cannot be started: {problem}") from None
        finally:
            for process in running:
                end(process)
        for process, command, file in zip(running, commands, errors, strict=True):
            if process.returncode != 0:
                message = _message(process.returncode, _text(file, 1 << 20), limits)
                is_started = process.returncode not in NOT_STARTED
                raise CompileError(message if is_started else f"{command[0]} cannot be started: {message}")
        return [_text(file) for file in outputs] if keep else []


def _text(file: IO[bytes], most: int = -1) -> str:
    file.seek(0)
    return file.read(most).decode("utf-8", "replace")


def _call_confined(
    start: Callable[[], None], readable: Sequence[str], writable: Sequence[str], programs: Sequence[str]
) -> None:
    """Call a function on a thread that is confined, and ends with the call. What it starts is confined too."""
    problems: list[BaseException] = []
    machine = os.uname().machine if has_filter() else ""

    def confined() -> None:
        try:
            limit_files(readable, writable, programs)
            if machine:
                install(filter_of_compilers(machine))
            start()
        except BaseException as problem:
            problems.append(problem)

    thread = threading.Thread(target=confined, name="ptokit-compilers")
    with without_collection():  # finalizers of others would run on the confined thread
        thread.start()
        try:
            thread.join()
        finally:
            thread.join()  # after an interrupt too: it knows what was started
    if problems:
        raise problems[0]


def limited(command: Sequence[str], limits: CompileLimits) -> list[str]:
    """A command behind the shell, which lowers limits: those of a process, unlike its view, hold for all threads."""
    values = {"c": 0, "t": int(limits.seconds) + 1, "f": limits.output}
    if sys.platform == "linux":
        values["v"] = limits.memory
    rows: list[str] = []
    for option, value in values.items():
        kind, unit = UNITS[option]
        hard = resource.getrlimit(kind)[1]
        rows.append(f"ulimit -{option} {(value if hard == resource.RLIM_INFINITY else min(value, hard)) // unit}")
    return [SHELL, "-c", " && ".join([*rows, 'exec "$@"']), "sh", *command]


def _environment(folder: Path | None) -> dict[str, str]:
    own = {} if folder is None else dict.fromkeys(FOLDERS, str(folder))
    return {**os.environ, "LC_ALL": "C", "CCACHE_DISABLE": "1", **own}


def _start(
    command: Sequence[str], environment: dict[str, str], out: IO[bytes] | int, errors: IO[bytes]
) -> subprocess.Popen[bytes]:
    """Start a compiler. A file that becomes too long is an error for it, no signal: Python ignores that signal."""
    return subprocess.Popen(  # noqa: S603
        command,
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=errors,
        start_new_session=True,
        restore_signals=False,
        env=environment,
    )


def _caches(command: Sequence[str]) -> list[str]:
    """Where Zig keeps its own libraries."""
    if not any("zig" in word for word in command):
        return []
    cache = os.environ.get("ZIG_GLOBAL_CACHE_DIR") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "zig"
    )
    if not os.path.isabs(cache):  # a user without a home folder
        return []
    os.makedirs(cache, exist_ok=True)
    return [cache]


def _finish(running: Sequence[subprocess.Popen[bytes]], limits: CompileLimits, outputs: Sequence[IO[bytes]]) -> None:
    """Wait for compilers, up to their limits. Some go on when nothing more is written."""
    worked = begin = time.monotonic()
    before: int | None = None
    for process in running:
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, min(LOOK, begin + limits.seconds - time.monotonic())))
                break
            now, ticks = time.monotonic(), _ticks({process.pid for process in running})
            worked, before = now if ticks is None or ticks != before else worked, ticks
            if any(os.fstat(file.fileno()).st_size >= limits.output for file in outputs):
                raise CompileError(_too_long(limits))
            if now - begin >= limits.seconds:
                raise CompileError(f"the compiler was stopped after {limits.seconds:g} seconds")
            if now - worked > limits.still:
                raise CompileError(
                    f"the compiler was stopped: it has waited for {limits.still:g} seconds, as for a file that is "
                    "included and is a pipe"
                )


def _ticks(sessions: set[int]) -> int | None:
    """The processor time of the processes of some sessions; None if one is not asleep, or the system does not tell."""
    found = None
    for state in Path("/proc").glob("[1-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = state.read_text("utf-8", "replace").rpartition(")")[2].split()
            if int(fields[3]) in sessions:
                if fields[0] not in ASLEEP:
                    return None
                found = (found or 0) + sum(map(int, fields[11:15]))
    return found


def end(process: subprocess.Popen[bytes]) -> None:
    """End what the compiler left running."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _message(status: int, errors: str, limits: CompileLimits) -> str:
    """The first errors of a compiler, without the notes before them."""
    rows = errors.splitlines()
    if re.search(r"out of memory|virtual memory exhausted|std::bad_alloc|LLVM ERROR: out of", errors):
        return f"the compiler needs more than {limits.memory >> 20} MiB of memory; " + _first(rows)
    if re.search(r"File too large|File size limit", errors):
        return _too_long(limits)
    if re.search(r"Killed signal|CPU time limit|signal XCPU|SIGXCPU", errors) or status in (
        -signal.SIGXCPU,
        -signal.SIGKILL,
    ):
        return f"the compiler was stopped after {limits.seconds:g} seconds of work; " + _first(rows)
    return _first(rows) or f"the compiler ended with status {status}"


def _too_long(limits: CompileLimits) -> str:
    return f"the compiler writes more than {limits.output >> 20} MiB"


def _first(rows: list[str]) -> str:
    start = next((index for index, row in enumerate(rows) if re.search(r"\b(?:fatal )?error\b", row)), 0)
    return "\n".join(rows[start : start + LINES])
