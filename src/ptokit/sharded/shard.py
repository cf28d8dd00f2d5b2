"""The driver's side of an owner: calls under way, the log of calls since its last saved state, restart and replay."""

from __future__ import annotations

import os
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from math import prod
from typing import Any

from ptokit._version import __version__
from ptokit.sharded.files import FileRange, SavedFile, new_name
from ptokit.sharded.messages import (
    HEAD_SIZE,
    Buffer,
    Header,
    Message,
    OfOneProcess,
    OwnerLost,
    ShardedError,
    packed,
    type_of,
    unpacked,
)
from ptokit.sharded.owner import PROTOCOL
from ptokit.sharded.ray_owners import RayEndpoint, RayOwners
from ptokit.sharded.segments import Spec


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


# --- owners ----------------------------------------------------------------------------------------------------------


ATTEMPTS = 8
"""How often an owner is started before the driver gives up."""
STARTING = 120.0
"""Seconds that an owner may take for each step of its start, at least."""
LAST_WAIT = 1.0
"""Seconds that an owner gets if the driver asks for an answer only when it is late."""
MOST_SENT = 64
"""Calls under way at an owner."""
MOST_LOGGED = 1 << 14
"""Calls in the log of an owner until its part is saved: small ones take time to repeat, and more memory than data."""


@dataclass(eq=False)
class Base:
    """A saved state of an owner, and the last call that is in it."""

    shape: tuple[int, int]
    ranges: list[FileRange]
    seq: int
    own: tuple[str, ...] = ()
    """Files that are removed with it."""

    @classmethod
    def of(cls, saved: SavedFile, shape: tuple[int, int], seq: int) -> Base:
        """The state in a file that an owner, or the driver for it, has written."""
        whole = FileRange(saved.file, (0, shape[0]), (0, shape[1]), saved.crc32, saved.bytes)
        return cls(shape, [whole], seq, (saved.file,))

    def remove(self) -> None:
        for file in self.own:
            with suppress(OSError):
                os.unlink(file)


@dataclass(frozen=True)
class ShardState:
    """What an owner is restarted from."""

    base: Base
    log: CallLog
    last: int


@dataclass(eq=False)
class Sent:
    """A call under way."""

    seq: int
    message: Message
    future: Any = None
    memory: object = None
    """What the owner writes to: it is not used otherwise before the answer is there."""
    answer: Message | None = None
    lost: str = ""
    """Why there will be no answer."""
    since: float = 0.0
    """When the owner could begin: it was sent, or the call before was answered."""
    lives: int = 0
    """How many owners have ended over it."""
    is_logged: bool = False


@dataclass
class ShardSettings:
    """What all owners of a table have in common."""

    folder: str
    dtype: str
    axis: int
    timeout: float
    log_bytes: int
    log_memory: int
    threads: int | None
    probe: Header | None
    """A segment that owners on the same machine can open."""
    note: Callable[[str], None] = field(repr=False)


class Shard(OfOneProcess):
    """An owner as the driver sees it. Answers are taken in the order of the calls."""

    def __init__(self, number: int, owners: RayOwners, settings: ShardSettings, base: Base) -> None:
        self.number, self.settings, self.base = number, settings, base
        self.log = self._new_log()
        self.last = base.seq
        """The last call that changes the part."""
        self.about: Header = {}
        self._owners, self._endpoint = owners, None
        self._sent: deque[Sent] = deque()

    _endpoint: RayEndpoint | None

    def _new_log(self) -> CallLog:
        name = f"calls-{self.number}-{secrets.token_hex(4)}.log"
        return CallLog(os.path.join(self.settings.folder, name), self.settings.log_memory)

    @property
    def shares(self) -> bool:
        """Whether the owner is on this machine, and sees memory of the driver."""
        return bool(self.about.get("shares"))

    # --- Calls

    def begin(self) -> None:
        """Start the owner."""
        if self._endpoint is None:
            self._restart("was not running", is_first=not self.about)

    def change(self, seq: int, header: Header, arrays: tuple[Any, ...]) -> Message:
        """Log a call that changes the part; it is sent by `send_change`."""
        message = Message({**header, "seq": seq, "after": self.last}, arrays)
        self.log.append(seq, message)
        return message

    def send_change(self, seq: int, message: Message, shared: Spec | None = None) -> Sent:
        """Send a call that is in the log, once. `shared` is the segment that its last array is in."""
        self.last = seq
        if self._sent and self._sent[-1].seq == seq:
            return self._sent[-1]
        return self._send(Sent(seq, message, is_logged=True), message if shared is None else _lent(message, shared))

    def is_full(self, size: int) -> bool:
        """Whether the part is to be saved before so many bytes are logged. One that is small beside the memory of the
        log is saved when that is used up: then no call is written."""
        log, how = self.log, self.settings
        part = prod(self.base.shape) * type_of(how.dtype).itemsize
        most = how.log_memory if max(part, size) <= how.log_memory // 2 else how.log_bytes
        return len(log) > 0 and (len(log) >= MOST_LOGGED or log.nbytes + size > min(most, how.log_bytes))

    def ask(self, seq: int, header: Header, arrays: tuple[Any, ...] = (), memory: object = None) -> Sent:
        """Send a call that changes nothing. `memory` is what the owner writes to."""
        return self._send(Sent(seq, Message({**header, "seq": seq, "after": self.last}, arrays), memory=memory))

    def make_room(self) -> None:
        """Wait until another call may be sent."""
        while len(self._sent) >= MOST_SENT:
            self._take_first(None)

    def _send(self, sent: Sent, form: Message | None = None) -> Sent:
        """Send a call, perhaps in another encoding; a repetition sends the same. If the owner has ended, this raises
        nothing: who waits for the call restarts the owner."""
        sent.since = time.monotonic()
        self._sent.append(sent)
        if self._endpoint is not None:
            try:
                sent.future = self._endpoint.submit(form or sent.message)
            except OwnerLost:
                sent.future = None
        return sent

    def wait(self, sent: Sent, deadline: float | None = None) -> Message:
        """The answer to a call. Restarts the owner if it has ended or hangs. A TimeoutError after the deadline."""
        while sent.answer is None:
            if sent.lost:
                raise ShardedError(sent.lost)
            self._take_first(deadline)
        return sent.answer

    def result(self, sent: Sent, deadline: float | None = None) -> Message:
        """The answer to a call; an error if it was refused."""
        answer = self.wait(sent, deadline)
        self.refuse(answer)
        return answer

    def refuse(self, answer: Message) -> None:
        """Raise if the owner has refused."""
        if "fault" in answer.header:
            raise ShardedError(f"owner {self.number}: {answer.header['message']}")

    def drain(self) -> None:
        """Wait for all calls under way."""
        while self._sent:
            self._take_first(None)

    def _take_first(self, deadline: float | None) -> None:
        """Wait for the first answer until the deadline, or until the owner is late; then restart it."""
        first, now = self._sent[0], time.monotonic()
        late = first.since + self.settings.timeout
        is_late = now >= late
        until = late if deadline is None else min(late, deadline)
        try:
            if first.future is None or self._endpoint is None:
                raise OwnerLost("was not running")
            seconds = min(LAST_WAIT, self.settings.timeout) if is_late else max(0.0, until - now)
            self._accept(first, self._endpoint.wait(first.future, seconds))
        except TimeoutError:
            if is_late:
                self._lost(first, f"did not answer within {self.settings.timeout:g} s")
            elif deadline is not None and time.monotonic() >= deadline:
                raise TimeoutError(f"call {first.seq}: no answer of owner {self.number} yet") from None
        except OwnerLost as problem:
            self._lost(first, str(problem))

    def _lost(self, first: Sent, reason: str) -> None:
        """Restart the owner, unless it ends at this call every time."""
        first.lives += 1
        if first.lives <= ATTEMPTS:
            self._restart(reason)
            return
        first.lives = 0
        told = f"owner {self.number} {reason}, at call {first.seq} each of {ATTEMPTS} times"
        if first.is_logged:
            raise ShardedError(f"{told}. The call is logged; restore the table from a checkpoint to give it up")
        first.lost, _ = told, self._sent.popleft()
        self.stop()

    def _accept(self, first: Sent, answer: Message) -> None:
        fault = answer.header.get("fault")
        if fault in ("gap", "failed"):
            raise OwnerLost(answer.header.get("message") or f"is at call {answer.header['applied']}")
        first.answer = answer
        self._sent.popleft()
        if self._sent:
            self._sent[0].since = time.monotonic()

    # --- Restart

    def _restart(self, reason: str, is_first: bool = False) -> None:
        """Start an owner from the saved state, repeat the calls since, and send what is under way again."""
        process = self.about.get("pid")
        why = reason
        for _ in range(ATTEMPTS):
            try:
                self._end()
                self._endpoint = self._owners.start(self.number)
                self._greet(self._endpoint)
                count = self._replay(self._endpoint)
            except (OwnerLost, TimeoutError) as problem:
                why = str(problem) or "no answer in time"
                continue
            except BaseException:
                self._end()  # it has not all calls
                raise
            if not is_first:
                self.settings.note(
                    f"owner {self.number} (process {process}) {reason}; started again as process {self.about['pid']} "
                    f"from its state after call {self.base.seq}, {count} calls repeated"
                )
            return
        self._end()
        raise ShardedError(
            f"owner {self.number} could not be started, {ATTEMPTS} times: {why}. Calls that it has not confirmed are "
            "logged, and are applied once when it is started again by the next call; do not repeat them"
        )

    def _end(self) -> None:
        endpoint, self._endpoint = self._endpoint, None
        if endpoint is not None:
            endpoint.end(self.about.get("pid") if self.shares else None)

    def _greet(self, endpoint: RayEndpoint) -> None:
        hello = {"do": "hello", "threads": self.settings.threads, "segment": self.settings.probe}
        about = self._now(endpoint, Message(hello)).header
        theirs, ours = (about.get("protocol"), about.get("ptokit")), (PROTOCOL, __version__)
        if theirs != ours:
            raise ShardedError(
                f"owner {self.number} on {about.get('host')} runs ptokit {theirs[1]} (messages {theirs[0]}), "
                f"the driver {ours[1]} (messages {ours[0]}); install the same version on all machines"
            )
        self.about = about

    def _replay(self, endpoint: RayEndpoint) -> int:
        """Load the saved state and repeat the calls that were confirmed; then send those under way."""
        self._now(endpoint, Message(self._load_header(self.base)))
        first, count = self._sent[0].seq if self._sent else self.last + 1, 0
        for seq, message in self.log.after(self.base.seq):
            if seq < first:
                self._now(endpoint, message)
                count += 1
        for sent in self._sent:
            sent.future, sent.since = endpoint.submit(sent.message), time.monotonic()
        return count + len(self._sent)

    def _load_header(self, base: Base) -> Header:
        ranges = [asdict(each) for each in base.ranges]
        how = {"dtype": self.settings.dtype, "axis": self.settings.axis, "shape": base.shape}
        return {"do": "load", "ranges": ranges, "seq": base.seq, **how}

    def _now(self, endpoint: RayEndpoint, message: Message) -> Message:
        answer = endpoint.wait(endpoint.submit(message), max(self.settings.timeout, STARTING))
        fault = answer.header.get("fault")
        if fault == "refused":
            raise ShardedError(f"owner {self.number}: {answer.header['message']}")
        if fault:
            raise OwnerLost(answer.header.get("message", fault))
        return answer

    # --- Saved states

    def save(self, seq: int, file: str) -> Sent:
        """Have the part written into a file."""
        return self.ask(seq, {"do": "save", "file": file})

    def saved(self, sent: Sent) -> SavedFile:
        """What `save` has written."""
        return SavedFile(**self.result(sent).header)

    def begin_base(self, seq: int) -> Sent:
        """Begin to save the part as the state from which the owner is restarted."""
        return self.save(seq, os.path.join(self.settings.folder, new_name(self.number)))

    def take_base(self, sent: Sent) -> None:
        """Forget the calls before the state that was saved."""
        saved = self.saved(sent)
        before, self.base = self.base, Base.of(saved, self.base.shape, self.last)
        self.log.clear()
        before.remove()

    @property
    def state(self) -> ShardState:
        """What the owner is restarted from now."""
        return ShardState(self.base, self.log, self.last)

    def settle(self, reason: str) -> None:
        """Wait for the calls under way, or give them up if the owner cannot be started."""
        try:
            self.drain()
        except ShardedError:
            self.give_up(reason)

    def replace(self, base: Base) -> None:
        """Take another state. The files of the previous state stay."""
        self._set(ShardState(base, self._new_log(), base.seq))
        if self._endpoint is None:
            self._restart("was not running")
        else:
            self.result(self._send(Sent(base.seq, Message(self._load_header(base)))))

    def put_back(self, before: ShardState) -> None:
        """Take an earlier state again; the next call starts the owner from it."""
        self.give_up("the table was put back to its state before")
        self._drop(before, self.state)
        self._set(before)

    def keep_not(self, before: ShardState) -> None:
        """Remove the files of an earlier state."""
        self._drop(self.state, before)

    @staticmethod
    def _drop(used: ShardState, dropped: ShardState) -> None:
        if dropped.log is not used.log:
            dropped.log.remove()
        if dropped.base is not used.base:
            dropped.base.remove()

    def _set(self, state: ShardState) -> None:
        self.base, self.log, self.last = state.base, state.log, state.last

    def give_up(self, reason: str) -> None:
        """Give up the calls under way, and end the owner, which might do them yet; the next call starts it again."""
        self.stop()
        for sent in self._sent:
            sent.lost = reason
        self._sent.clear()

    def stop(self) -> None:
        """End the owner; the next call starts it again."""
        self._end()
        for sent in self._sent:
            sent.future = None

    def close(self) -> None:
        """End the owner and remove its files."""
        self.give_up("the table was closed")
        self.log.remove()
        self.base.remove()


def _lent(message: Message, shared: Spec) -> Message:
    """A call with its last array in shared memory."""
    *arrays, source = message.arrays
    header = {**message.header, "source": {"segment": shared, "shape": source.shape}}
    return Message(header, tuple(arrays))
