"""Owners in this process, which end at chosen points: the driver sees what it sees of owners that are killed."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np

import ptokit as pto
from ptokit.sharded.messages import Message, OwnerLost
from ptokit.sharded.owner import Owner

PIDS = count(1_000_000)


class Endpoint:
    """An owner; calls are done when an answer is waited for, in their order."""

    def __init__(self, owners: InProcess) -> None:
        self.owner, self.owners, self.is_dead = Owner(), owners, False
        self.waiting: list[tuple[Message, list[Message]]] = []
        self.pid = next(PIDS)

    def submit(self, message: Message) -> Any:
        sent: tuple[Message, list[Message]] = (message, [])
        self.waiting.append(sent)
        return sent

    def wait(self, sent: Any, seconds: float) -> Message:
        while not sent[1]:
            if self.is_dead:
                raise OwnerLost("has ended")
            if self.owners.hung.pop(self.pid, False):
                self.owners.hung[self.pid] = True
                raise TimeoutError
            message, answers = self.waiting.pop(0)
            self._do(message, answers)
        return sent[1][0]

    def _do(self, message: Message, answers: list[Message]) -> None:
        """A kill before the call, or after it and before its answer."""
        when = self.owners.kill(message.header["do"])
        if when == "before":
            self.is_dead = True
            return
        for array in message.arrays:
            array.flags.writeable = False  # as Ray's are
        answer = self.owner.answer(message.header, message.arrays)
        if message.header["do"] == "hello":
            answer = Message({**answer.header, "pid": self.pid, "shares": self.owners.shares, **self.owners.about})
        if when == "after":
            self.is_dead = True
            return
        answers.append(answer)

    def end(self, process: int | None) -> None:
        self.is_dead = True


class InProcess:
    """Starts owners. `kill` says of each call whether its owner ends "before" it, "after" it, or not."""

    def __init__(self, kill: Callable[[str], str] = lambda do: "", shares: bool = True) -> None:
        self.kill, self.shares = kill, shares
        self.hung: dict[int, bool] = {}
        self.about: dict[str, Any] = {}
        self.started: list[Endpoint] = []

    def start(self, number: int) -> Endpoint:
        self.started.append(Endpoint(self))
        return self.started[-1]

    def close(self) -> None:
        pass


def table(array: Any, shards: int = 2, by: str = "rows", owners: InProcess | None = None, **options: Any) -> Any:
    return pto.ShardedTable.create(array, shards, by, _owners=owners or InProcess(), **options)


def same(table: Any, array: np.ndarray[Any, Any]) -> bool:
    """Whether every bit is equal."""
    found = table.to_numpy()
    return found.dtype == array.dtype and found.shape == array.shape and found.tobytes() == array.tobytes()
