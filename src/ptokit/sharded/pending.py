"""A call under way, as the user sees it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from threading import RLock
from typing import Any

from ptokit.lang.faults import public
from ptokit.sharded.errors import OfOneProcess, check_process

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
