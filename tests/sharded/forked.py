"""Owners as processes without Ray: they start in milliseconds, so that many can be killed."""

from __future__ import annotations

import multiprocessing
from multiprocessing.connection import Connection
from typing import Any

from ptokit.sharded.messages import Message, OwnerLost
from ptokit.sharded.owner import Owner

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["ptokit.sharded.owner"])


def serve(connection: Connection) -> None:
    """Answer calls in their order, until the driver is gone."""
    owner = Owner()
    while True:
        try:
            header, arrays = connection.recv()
        except EOFError:
            return
        answer = owner.answer(header, arrays)
        connection.send((answer.header, answer.arrays))


class Endpoint:
    """A process, and the number of answers that have come."""

    def __init__(self) -> None:
        self._here, there = CONTEXT.Pipe()
        self._process = CONTEXT.Process(target=serve, args=(there,), daemon=True)
        self._process.start()
        there.close()
        self._sent, self._answers = 0, []

    def submit(self, message: Message) -> int:
        """Send a call."""
        try:
            self._here.send((message.header, message.arrays))
        except OSError:
            raise OwnerLost("has ended") from None
        self._sent += 1
        return self._sent - 1

    def wait(self, sent: int, seconds: float) -> Message:
        """The answer."""
        while len(self._answers) <= sent:
            try:
                if not self._here.poll(seconds):
                    raise TimeoutError
                self._answers.append(Message(*self._here.recv()))
            except (OSError, EOFError) as problem:
                if isinstance(problem, TimeoutError):
                    raise
                raise OwnerLost("has ended") from None
        return self._answers[sent]

    def end(self, process: int | None) -> None:
        """End the process."""
        self._process.kill()
        self._process.join()
        self._process.close()
        self._here.close()


class Forked:
    """Starts owners."""

    def start(self, number: int) -> Any:
        return Endpoint()

    def close(self) -> None:
        pass
