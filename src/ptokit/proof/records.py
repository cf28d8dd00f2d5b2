"""The accesses of a program by number, and work that is checked against earlier accesses."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

from ptokit.machine.overlaps import WORKSPACES
from ptokit.machine.shadow import READ, meets
from ptokit.proof.accesses import PipeTouches, Touch
from ptokit.proof.order import OrderFault, OrderState
from ptokit.proof.paths import PlacedBlock


class Records:
    """The accesses of a program by number."""

    def __init__(self, pipes: int) -> None:
        self._ids: dict[Hashable, int] = {}
        self.accesses: list[tuple[Touch | None, int, int]] = []
        """Of each record: the access, its statement and its pipe."""
        self.of_pipe = [0] * pipes
        self._meets: dict[int, tuple[int, int]] = {}
        self.work: list[PipeTouches | None] = []

    def number(self, key: Hashable, access: Touch | None, stmt: int, pipe: int, work: PipeTouches | None = None) -> int:
        """The number of a record."""
        found = self._ids.get(key)
        if found is None:
            found = self._ids[key] = len(self.accesses)
            self.accesses.append((access, stmt, pipe))
            self.work.append(work)
            self.of_pipe[pipe] |= 1 << found
        return found

    def meeting(self, record: int) -> int:
        """The records that touch the same memory, if one of the two writes."""
        upto, mask = self._meets.get(record, (0, 0))
        access = self.accesses[record][0]
        assert access is not None
        for other in range(upto, len(self.accesses)):
            them = self.accesses[other][0]
            if them is None or them.memory != access.memory or not meets(access.how, them.how):
                continue
            if isinstance(access.memory, str) or access.bits & them.bits:
                mask |= 1 << other
        self._meets[record] = len(self.accesses), mask
        return mask


class PathWork:
    """PipeTouches that was issued on a path."""

    __slots__ = ("explorer", "number", "placed", "position", "touches", "work")

    def __init__(
        self, explorer: Any, work: PipeTouches, number: int, position: int, placed: dict[int, PlacedBlock]
    ) -> None:
        self.explorer, self.work, self.number, self.position, self.placed = explorer, work, number, position, placed
        self.touches = [each for each in work.touches if each.view is None or each.memory in explorer.shared_arrays]

    def _key(self) -> Hashable:
        return id(self.work), self.number, repr(self.placed)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PathWork) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return repr(self._key())

    def run(self, state: OrderState, report: Any, pipe: int, known: int) -> None:
        """Check its accesses against earlier ones, and record them."""
        explorer = self.explorer
        records, mine = explorer.records, explorer.records.of_pipe[pipe]
        own: list[int] = []
        for k, access in enumerate(self.touches):
            key = *self._record_key(k, access, pipe), 0
            record = records.number(key, access, self.number, pipe, self.work)
            own.append(record)
            missing = records.meeting(record) & state.active & ~known & ~mine
            for other in _each(missing):
                if access.view is None or explorer.arrays_meet(state, other, record, self.placed[k]):
                    ends = access.operand, pipe, records.accesses[other][2]
                    report(OrderFault("race", self.number, records.accesses[other][1], ends))
                    known |= 1 << other
                    state.know[pipe] |= 1 << other
        is_open = explorer.wiring.overlaps[pipe]
        if is_open:
            self._check_own(state, report, pipe, own)
        if is_open and self.work.step.fences:
            state.end(pipe, records.of_pipe[pipe])
        for k, access in enumerate(self.touches):
            if access.view is not None:
                explorer.shift(state, self._record_key(k, access, pipe), access, self.number, pipe)
        state.record(pipe, own)
        state.placed.update({own[k]: placed for k, placed in self.placed.items()})
        if is_open and self.work.step.ends:
            state.end(pipe, records.of_pipe[pipe])

    def _record_key(self, k: int, access: Touch, pipe: int) -> tuple[Any, ...]:
        return self.number, self.position, pipe, k, access.how, access.memory, access.bits

    def _check_own(self, state: OrderState, report: Any, pipe: int, own: list[int]) -> None:
        """Check against earlier work of the same pipe, whose instructions may overlap (A-73)."""
        records = self.explorer.records
        for record, access in zip(own, self.touches, strict=True):
            if access.view is not None or access.operand in self.work.step.late or access.how != READ:
                continue
            if access.operand in WORKSPACES:
                continue
            met = records.meeting(record)
            earlier = next((r for r in reversed(state.recent) if met >> r & 1), None)
            if earlier is None or self._is_alike(access, records.accesses[earlier][0], records.work[earlier]):
                continue
            report(OrderFault("overlap", self.number, records.accesses[earlier][1], access.operand))
            state.end(pipe, records.of_pipe[pipe])

    def _is_alike(self, access: Touch, before: Touch | None, work: PipeTouches | None) -> bool:
        """Whether a read walks the bytes as they were written, as far as is known."""
        if self.work.alike is None or work is None or work.alike is None or before is None:
            return True
        return access.operand in self.work.alike and before.operand in work.alike and before.bits == access.bits


def _each(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low
