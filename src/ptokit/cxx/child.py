"""A process that runs a kernel, with limits: it is started, answered, stopped and never left behind."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from ptokit.cxx.confine import HiddenProcess
from ptokit.cxx.shared import SharedBuffer

SCRIPT = Path(__file__).with_name("child_main.py")
GRACE = 1.0
"""Seconds that a process has to say where it was stopped."""


@dataclass(frozen=True, slots=True)
class RecordLimits:
    """Bounds on a recording."""

    seconds: float = 30.0
    """That the kernel runs; the time that ptokit needs for values does not count."""
    memory: int = 4 << 30
    """Bytes of the process, and of device memory that it allocates."""
    calls: int = 10_000_000
    output: int = 1 << 20
    """Bytes that the kernel may print."""
    requests: int = 200_000
    """Values that the kernel may ask for."""

    @property
    def answer_seconds(self) -> float:
        """That ptokit may need for all values."""
        return 2 * self.seconds


HIDDEN = HiddenProcess()


class Child:
    """The process. A context manager: leaving it ends the process. It does not see its parent's memory."""

    def __init__(self, shared: SharedBuffer, limits: RecordLimits, task: dict[str, Any]) -> None:
        self._left = limits.seconds
        self._output = limits.output
        self._printed = _output_file()
        self._requests, request = os.pipe()
        reply, self._replies = os.pipe()
        os.set_blocking(self._replies, False)
        handed = {"shared": shared.file, "request": request, "reply": reply}
        bounds = {"memory": limits.memory + shared.size, "seconds": limits.seconds, "output": limits.output}
        HIDDEN.__enter__()
        try:
            self._process = self._start({**task, **handed, **bounds, "size": shared.size}, tuple(handed.values()))
        except BaseException:
            self._close()
            raise
        finally:
            os.close(request)
            os.close(reply)

    def _start(self, task: dict[str, Any], files: Sequence[int]) -> subprocess.Popen[bytes]:
        kept = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
        return subprocess.Popen(  # noqa: S603
            [sys.executable, "-I", "-S", str(SCRIPT), json.dumps(task)],
            stdin=subprocess.DEVNULL, stdout=self._printed, stderr=self._printed,
            pass_fds=files, cwd="/", env={"LC_ALL": "C", **kept}, start_new_session=True,
        )  # fmt: skip

    def wait(self) -> Literal["request", "ended", "late", "flood"]:
        """Waits for a request, the end, or the time limit. After a request the process is stopped: it changes nothing
        while ptokit reads. `flood`: it asks again before it has an answer."""
        begin = time.monotonic()
        ready = select.select([self._requests], [], [], max(self._left, 0.0))[0]
        self._left -= time.monotonic() - begin
        if not ready:
            return "late"
        asked = len(os.read(self._requests, 2))
        if asked == 1:
            self._pause()
        return ("ended", "request", "flood")[asked]

    def _pause(self) -> None:
        if hasattr(os, "waitid"):
            self._process.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def answer(self) -> bool:
        """Lets a paused kernel go on; False if it has not read earlier answers."""
        try:
            os.write(self._replies, b"\1")
        except BlockingIOError:
            return False
        except BrokenPipeError:
            pass  # it has ended
        self._process.send_signal(signal.SIGCONT)
        return True

    def ask_to_stop(self) -> None:
        """Makes the process say where it is and end."""
        self._process.send_signal(signal.SIGXCPU)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(GRACE)

    def kill(self) -> None:
        """Ends the process at once."""
        self._process.kill()

    def status(self) -> int:
        """The exit status of the ended process; negative: a signal."""
        try:
            return self._process.wait(GRACE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def printed(self) -> tuple[str, bool]:
        """What was printed, and whether the limit cut it."""
        data = os.pread(self._printed, self._output + 1, 0)
        return data[: self._output].decode("utf-8", "replace"), len(data) >= self._output

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._close()

    def _close(self) -> None:
        HIDDEN.__exit__()
        for file in (self._requests, self._replies, self._printed):
            os.close(file)


def _output_file() -> int:
    """Memory for what a process prints; it never blocks."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("ptokit output", os.MFD_CLOEXEC)
    import tempfile

    with tempfile.TemporaryFile() as named:
        return os.dup(named.fileno())
