"""The calls on an owner since its last saved state: in memory, and beyond a bound in a file."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from ptokit.sharded.errors import ShardedError
from ptokit.sharded.messages import HEAD_SIZE, Buffer, Message, packed, unpacked


@dataclass(frozen=True)
class _LogEntry:
    seq: int
    message: Message | None
    """None if it is in the file."""
    start: int
    size: int


class CallLog:
    """Calls in their order."""

    def __init__(self, path: str, in_memory: int) -> None:
        self.path, self._in_memory = path, in_memory
        self._entries: list[_LogEntry] = []
        self._held = self._end = 0

    @property
    def nbytes(self) -> int:
        """Bytes in memory and in the file."""
        return self._held + self._end

    def __len__(self) -> int:
        return len(self._entries)

    def append(self, seq: int, message: Message) -> None:
        """Add a call. If the file cannot be written, nothing is added."""
        if self._held + message.nbytes <= self._in_memory:
            self._entries.append(_LogEntry(seq, message, 0, message.nbytes))
            self._held += message.nbytes
            return
        pieces = packed(message)
        size = sum(map(len, pieces))
        self._write(pieces)
        self._entries.append(_LogEntry(seq, None, self._end, size))
        self._end += size

    def _write(self, pieces: Sequence[Buffer]) -> None:
        try:
            with open(self.path, "r+b" if os.path.exists(self.path) else "xb") as stream:
                stream.seek(self._end)  # over what a failed write has left
                stream.writelines(pieces)
        except OSError as problem:
            raise ShardedError(
                f"cannot log the call: {problem.strerror} ({self.path}). Nothing was written"
            ) from problem

    def drop_last(self, seq: int) -> None:
        """Remove a call that is not sent."""
        if self._entries and self._entries[-1].seq == seq:
            last = self._entries.pop()
            if last.message is None:
                self._end = last.start
            else:
                self._held -= last.size

    def after(self, seq: int) -> Iterator[tuple[int, Message]]:
        """The calls after one, with their numbers."""
        for entry in [*self._entries]:
            if entry.seq > seq:
                yield entry.seq, entry.message or self._read(entry)

    def _read(self, entry: _LogEntry) -> Message:
        try:
            with open(self.path, "rb") as stream:
                stream.seek(entry.start)
                record = stream.read(entry.size)
        except OSError as problem:
            raise ShardedError(f"cannot read the log of calls {self.path}: {problem.strerror}") from problem
        if len(record) < max(entry.size, HEAD_SIZE):
            raise ShardedError(f"{self.path}, call {entry.seq}: the record is cut short")
        return unpacked(record, f"{self.path}, call {entry.seq}")

    def clear(self) -> None:
        """Forget all calls. The file stays: writing over it takes less time than making it."""
        self._entries.clear()
        self._held = self._end = 0

    def remove(self) -> None:
        """Forget all calls, and remove the file."""
        self.clear()
        with suppress(OSError):
            os.unlink(self.path)
