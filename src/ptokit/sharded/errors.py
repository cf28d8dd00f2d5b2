"""What a sharded table raises, and how the end of an owner is told."""

from __future__ import annotations

import os


class ShardedError(RuntimeError):
    """A sharded table could not do what was asked. The message says what holds for the data."""


class OwnerLost(Exception):
    """An owner has ended, or does not answer. Not for users: the driver restarts the owner."""


def check_process(made_by: int, what: str) -> None:
    """Refuse a process that has a copy of what another one made: owners answer the latter only."""
    if os.getpid() != made_by:
        raise ShardedError(f"{what} was made by process {made_by}; process {os.getpid()} has only a copy of it")
