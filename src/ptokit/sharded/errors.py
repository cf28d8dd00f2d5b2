"""What a sharded table raises, and how the end of an owner is told."""

from __future__ import annotations


class ShardedError(RuntimeError):
    """A sharded table could not do what was asked. The message says what holds for the data."""


class OwnerLost(Exception):
    """An owner has ended, or does not answer. Not for users: the driver restarts the owner."""
