"""What a sharded table raises, and how the end of an owner is told."""

from __future__ import annotations

import os
from typing import NoReturn, SupportsIndex


class ShardedError(RuntimeError):
    """A sharded table could not do what was asked. The message says what holds for the data."""


class OwnerLost(Exception):
    """An owner has ended, or does not answer. Not for users: the driver restarts the owner."""


def check_process(made_by: int, what: str) -> None:
    """Refuse a process that has a copy of what another one made: owners answer the latter only."""
    if os.getpid() != made_by:
        raise ShardedError(f"{what} was made by process {made_by}; process {os.getpid()} has only a copy of it")


class OfOneProcess:
    """What only the process that made it can use: no copy of it, and no message to another process, has it."""

    name, instead = "a sharded table", "pass what gather() returns, or load a checkpoint of it there"
    """For the refusal."""

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        """Refuse pickle and copy, also those of Ray and multiprocessing."""
        whose = f"owners answer process {os.getpid()} only"
        raise ShardedError(f"{self.name} cannot be copied or passed to another process: {whose}; {self.instead}")
