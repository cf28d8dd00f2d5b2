"""A progress bar on a terminal, for work that takes longer than two seconds.

It is a line on standard error, drawn by a thread and removed at the end. Tasks nest: the line names all of them, and
shows the bar of the innermost one whose length is known.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TextIO, TypeVar

T = TypeVar("T")

VARIABLE = "PTOKIT_PROGRESS"
"""The environment variable that turns bars off."""
IN_TEST = "PYTEST_CURRENT_TEST"
"""The environment variable that pytest sets while a test runs."""
OFF = ("", "0", "off", "false", "no")
PATIENCE = 2.0
"""Seconds before the line appears."""
EVERY = 0.1
"""Seconds between two drawings."""
BAR = 20
"""Characters of the bar."""
COLUMNS = 80
"""The width of a terminal that states none."""
ERASE = "\r\x1b[K"


def may_escape() -> bool:
    """Whether a terminal may get escape codes: not if `NO_COLOR` is set."""
    return not os.environ.get("NO_COLOR")


class Task:
    """Work under way. `done` counts up to `total`, if that is known."""

    def __init__(self, title: str = "", total: int | None = None, unit: str = "") -> None:
        self.title, self.total, self.unit, self.done = title, total, unit, 0

    def track(self, items: Iterable[T]) -> Iterator[T]:
        """The items; each is done when the next one is requested."""
        for item in items:
            yield item
            self.done += 1

    def __str__(self) -> str:
        if self.total is None:
            return self.title
        share = min(self.done / self.total, 1) if self.total else 1
        bar = ("=" * int(BAR * share)).ljust(BAR)
        return f"{self.title} [{bar}] {int(100 * share)} %, {self.done:,} of {self.total:,} {self.unit}".strip()


class ProgressLine:
    """The line of a terminal: the tasks under way, the innermost one last."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self.tasks: list[Task] = []
        self.owner = threading.get_ident()
        self._stream, self._clock = stream, clock
        self._began = clock()
        self._hidden_at: float | None = None
        self._is_drawn = False
        self._lock, self._ended = threading.Lock(), threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Draw from now on."""
        self._thread = threading.Thread(target=self._draw_until_ended, name="ptokit progress", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        with self._lock:
            self._erase()

    def _draw_until_ended(self) -> None:
        while not self._ended.wait(EVERY):
            self.draw()

    def draw(self) -> None:
        """Draw the line, if the work takes long and nothing else uses the terminal."""
        with self._lock:
            seconds = int(self._clock() - self._began)
            if self._hidden_at is None and self._clock() - self._began >= PATIENCE:
                self._write(self._blank() + self._text(seconds))
                self._is_drawn = True

    def hide(self) -> None:
        """Remove the line for a while, which does not count."""
        with self._lock:
            self._erase()
            self._hidden_at = self._clock()

    def show(self) -> None:
        """Let it appear again."""
        with self._lock:
            if self._hidden_at is not None:
                self._began += self._clock() - self._hidden_at
            self._hidden_at = None

    def _text(self, seconds: int) -> str:
        tasks = [*self.tasks]  # another thread changes them
        last = next((task for task in reversed(tasks) if task.total is not None), None)
        names = [str(task) if task is last else task.title for task in tasks]
        text, clock = " ".join(filter(None, names)), f" {seconds // 60}:{seconds % 60:02}"
        plain = "".join(character if character.isprintable() else "?" for character in text)
        return plain[: self._columns() - 1 - len(clock)] + clock

    def _columns(self) -> int:
        with suppress(OSError, ValueError, AttributeError):
            return os.get_terminal_size(self._stream.fileno()).columns or COLUMNS
        return COLUMNS

    def _erase(self) -> None:
        if self._is_drawn:
            self._write(self._blank())
            self._is_drawn = False

    def _blank(self) -> str:
        """What empties the line."""
        return ERASE if may_escape() else f"\r{' ' * (self._columns() - 1)}\r"

    def _write(self, text: str) -> None:
        with suppress(OSError, ValueError):  # a terminal that is gone
            self._stream.write(text)
            self._stream.flush()


class _Process:
    """The line of this process, if there is one."""

    def __init__(self) -> None:
        self.line: ProgressLine | None = None
        self.guard = threading.Lock()


_process = _Process()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_process.__init__)  # the thread that draws is not in the child


def is_wanted(stream: TextIO | None) -> bool:
    """Whether a stream is a terminal that a person looks at."""
    settings = os.environ
    if settings.get(VARIABLE, "on").lower() in OFF or settings.get("CI", "").lower() not in OFF:
        return False
    if IN_TEST in settings or settings.get("TERM") == "dumb":
        return False
    try:
        return stream is not None and stream.isatty()
    except (ValueError, AttributeError):  # a stream that is closed, or none
        return False


def current() -> ProgressLine | None:
    """The line of the calling thread."""
    line = _process.line
    return line if line is not None and line.owner == threading.get_ident() else None


@contextmanager
def task(
    title: str = "", total: int | None = None, unit: str = "", *, enabled: bool = True, in_thread: bool = True
) -> Generator[Task, None, None]:
    """A block of work, shown while it runs. One thread at a time has a line; tasks of others are not shown.

    A program that forks draws by itself: without `in_thread`, `tick` draws.
    """
    made, line, is_new = Task(title, total, unit), None, False
    if enabled:
        with _process.guard:
            is_new = _process.line is None and is_wanted(sys.stderr)
            if is_new:
                _process.line = ProgressLine(sys.stderr)
            line = current()
    if line is None:
        yield made
        return
    line.tasks.append(made)
    if is_new and in_thread:
        line.start()
    try:
        yield made
    finally:
        line.tasks.remove(made)
        if is_new:
            line.stop()
            _process.line = None


def tick() -> None:
    """Draw now."""
    line = current()
    if line is not None:
        line.draw()


@contextmanager
def hidden() -> Generator[None, None, None]:
    """A block that prints, or runs code that may print: the line is away, and the time does not count."""
    line = current()
    if line is None:
        yield
        return
    line.hide()
    try:
        yield
    finally:
        line.show()


@contextmanager
def shown() -> Generator[None, None, None]:
    """A block of work within a hidden one."""
    line = current()
    if line is None:
        yield
        return
    line.show()
    try:
        yield
    finally:
        line.hide()
