"""What each public instruction of a recording did: pipes, inner flags, bytes read and written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ptokit.cxx.recording import (
    MEMORIES,
    RecordedBlock,
    RecordedCall,
    RecordedOperand,
    RecordedPointer,
    RecordedScalar,
    RecordedText,
    Recording,
)
from ptokit.witness.extents import NOTHING, ByteAccess, CoreRegisters, Issued, Ranges, in_order, merged, without
from ptokit.witness.intrinsics import Intrinsic

PIPES = ("S", "V", "M", "MTE1", "MTE2", "MTE3", "ALL", "MTE4", "MTE5", "V2", "FIX")
"""In the order of `pipe_t`."""


@dataclass(frozen=True)
class ObservedMemory:
    """A memory: an on-chip one by its name, or an argument of the launch by its number."""

    memory: str
    argument: int | None = None


@dataclass(frozen=True)
class ObservedAccess:
    """Bytes of a memory that an intrinsic read or wrote."""

    how: str
    place: ObservedMemory
    ranges: Ranges


@dataclass(frozen=True)
class ObservedIntrinsic:
    """One intrinsic, or a load or store of scalar code."""

    name: str
    pipe: str
    touches: tuple[ObservedAccess, ...] = ()
    flag: tuple[str, ...] = ()
    """Pipes and event id of a flag; the pipe of a barrier."""


@dataclass
class Observed:
    """One call of a public instruction."""

    name: str
    """In capitals."""
    events: list[ObservedIntrinsic] = field(default_factory=list)
    line: int = 0
    """Where the overload is in its header."""

    @property
    def pipes(self) -> frozenset[str]:
        """The pipes that move or compute data, as others see them: what the scalar pipe does between flags from one
        other pipe and back to it counts as done by that pipe."""
        before = set[str]()
        behind = [event.flag[1] for event in reversed(self.events) if event.name == "set_flag" and event.flag[0] == "S"]
        found = set[str]()
        for event in self.events:
            if event.name == "wait_flag" and event.flag[1] == "S":
                before.add(event.flag[0])
            elif event.name == "set_flag" and event.flag[0] == "S":
                behind.pop()
            elif event.touches:
                around = before.intersection(behind)
                found.update(around if event.pipe == "S" and len(around) == 1 else (event.pipe,))
        return frozenset(found)

    @property
    def flags(self) -> frozenset[tuple[str, ...]]:
        """Pipes and event ids of the flags that it sets and waits for by itself."""
        return frozenset(event.flag for event in self.events if event.name == "wait_flag")

    def bytes_of(self, how: str) -> dict[ObservedMemory, Ranges]:
        """All that was written; or read (loads too), but for what the instruction itself had written before."""
        kinds = ("read", "load") if how == "read" else (how,)
        found: dict[ObservedMemory, list[Ranges]] = {}
        written: dict[ObservedMemory, Ranges] = {}
        for touch in (touch for event in self.events for touch in event.touches):
            seen = written.get(touch.place, NOTHING)
            if touch.how in kinds:
                found.setdefault(touch.place, []).append(touch.ranges if how != "read" else without(touch.ranges, seen))
            if touch.how == "write":
                written[touch.place] = _union((seen, touch.ranges))
        return {place: ranges for place, rows in found.items() if len(ranges := _union(rows))}

    def beside(self, memory: str, ranges: Ranges) -> Ranges:
        """What loads of whole registers read besides some bytes that they are said to read: no result depends on it."""
        loads = (touch for event in self.events for touch in event.touches if touch.how == "load")
        near = [
            touch.ranges
            for touch in loads
            if touch.place.memory == memory and not np.array_equal(without(touch.ranges, ranges), touch.ranges)
        ]
        return without(_union(near), ranges) if near else NOTHING


def _union(rows: Sequence[Ranges]) -> Ranges:
    both = np.concatenate(rows)
    return merged(both[:, 0], both[:, 1] - both[:, 0])


def observed(recording: Recording, block: RecordedBlock, table: Mapping[str, Intrinsic]) -> list[Observed]:
    """The public instructions of a block, in order. What is outside of them is a call without a name."""
    return list(_BlockReader(recording, table).read(block))


class _BlockReader:
    """The calls of a block, one after the other."""

    def __init__(self, recording: Recording, table: Mapping[str, Intrinsic]) -> None:
        self.recording, self.core, self.table = recording, CoreRegisters(), table
        self.bases = self.core.bases
        self.scalar_pipe = "S"
        """The pipe of scalar code; the vector unit runs some of it."""
        self.scalar: list[tuple[bool, int, int]] = []
        """Loads and stores of scalar code since the last intrinsic: whether it stores, the address, the bytes."""

    def read(self, block: RecordedBlock) -> Iterator[Observed]:
        open_ones, now = list[str](), Observed("")
        for number in block.calls[:MOST_CALLS]:
            call = self.recording.calls[int(number)]
            if call.name == "memory":
                self.bases.append(_number(call.operands[0]))
                continue
            if call.name in SCALAR:
                if "TSYNC" not in open_ones[1:]:
                    at, size = map(_number, call.operands)
                    self.scalar.append((call.name == "store", at, size))
                continue
            now.events += self.scalar_events()
            if call.name == "begin":
                open_ones.append(_text(call))
                if len(open_ones) == 1:
                    if now.events:
                        yield now
                    now = Observed(open_ones[0], line=_number(call.operands[1]))
            elif call.name == "end":
                open_ones.pop()
                if not open_ones:
                    yield now
                    now = Observed("")
            elif call.name in ("vector_begin", "vector_end"):
                self.scalar_pipe = "V" if call.name == "vector_begin" else "S"
            elif "TSYNC" not in open_ones[1:]:
                now.events.append(self.event(call))
        now.events += self.scalar_events()
        if now.events:
            yield now

    def scalar_events(self) -> Iterator[ObservedIntrinsic]:
        """What scalar code has loaded that it had not stored before, and what it has stored."""
        if not self.scalar:
            return
        loaded, stored = in_order(self.scalar)
        self.scalar = []
        for name, access in zip(SCALAR, (ByteAccess("read", loaded), ByteAccess("write", stored)), strict=True):
            if touches := tuple(self._apart(access)):
                yield ObservedIntrinsic(name, self.scalar_pipe, touches)

    def event(self, call: RecordedCall) -> ObservedIntrinsic:
        """An intrinsic: what it reads and writes depends on the registers that are set before."""
        row = self.table[call.name]
        if call.name in ("set_flag", "wait_flag", "pipe_barrier"):
            given = [_number(each) for each in call.operands]
            return ObservedIntrinsic(
                call.name, row.pipe, flag=(*(PIPES[each] for each in given[:2]), *map(str, given[2:]))
            )
        given, sizes = self.addresses(call)
        touches = tuple(
            touch for access in row.extent(Issued(self.core, given, sizes)) for touch in self._apart(access)
        )
        return ObservedIntrinsic(call.name, row.pipe, touches)

    def addresses(self, call: RecordedCall) -> tuple[list[int], list[int]]:
        """Arguments as numbers: those into arrays are numbered far away from those into on-chip memories."""
        sizes = next((value for key, value in call.modifiers if key == "sizes"), 0)
        count = len(call.operands)
        return [_number(each) for each in call.operands], [int(sizes) >> 4 * place & 15 for place in range(count)]

    def _apart(self, access: ByteAccess) -> Iterator[ObservedAccess]:
        """The parts of an access, by memory. Numbers below every memory are addresses in UB that stay as they are."""
        ranges = access.ranges
        while len(ranges):
            place, base, size = self._place(int(ranges[0, 0]))
            is_here = ranges[:, 0] < base + size
            yield ObservedAccess(access.how, place, ranges[is_here] - base)
            ranges = ranges[~is_here]

    def _place(self, address: int) -> tuple[ObservedMemory, int, int]:
        """The memory of an address, where it begins, and its bytes."""
        if address >= ARRAYS:
            argument = (address - ARRAYS) // ARRAY
            return ObservedMemory("global", argument), ARRAYS + argument * ARRAY, ARRAY
        known = ((name, base) for name, base in zip(MEMORIES, self.bases, strict=False) if 0 <= address - base < MEMORY)
        memory, base = next(known, ("raw" if address < MEMORY else "unknown", 0))
        return ObservedMemory(memory), base, ARRAYS if memory == "unknown" else MEMORY


ARRAYS, ARRAY = 1 << 56, 1 << 44
"""Where the numbers of addresses in arrays begin, and how far they are apart."""
MEMORY = 1 << 20
"""Bytes between on-chip memories."""
MOST_CALLS = 100_000
"""Of a block that are looked at: loops that wait for another core load one address without an end."""
SCALAR = ("load", "store")
"""What scalar code does."""


def _number(operand: RecordedOperand) -> int:
    match operand:
        case RecordedScalar(_, value):
            return int(value)
        case RecordedPointer(None, offset):
            return offset
        case RecordedPointer(int(argument), offset):
            return ARRAYS + argument * ARRAY + offset
        case _:
            return 0


def _text(call: RecordedCall) -> str:
    operand = call.operands[0]
    assert isinstance(operand, RecordedText)
    return operand.text
