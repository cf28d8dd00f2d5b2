"""Calls that are alike but for the addresses of their tiles and arrays: each such group is looked at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ptokit.cxx.recording import RecordedArray, RecordedCall, RecordedOperand, RecordedPointer, RecordedTile

Ints = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, eq=False)
class AlikeCalls:
    """Some distinct calls, which differ in addresses."""

    call: RecordedCall
    """The first of them."""
    numbers: Ints
    """Of the calls, rising."""
    shifts: Mapping[int, Ints]
    """By the place of an operand: how far the address of each call is from that of the first one."""

    def at(self, number: int) -> RecordedCall:
        """One of the calls."""
        return self._moved({place: int(shift[number]) for place, shift in self.shifts.items()})

    def last(self) -> RecordedCall:
        """The call with the greatest address of each operand, which may be none of them."""
        return self._moved({place: int(shift.max()) for place, shift in self.shifts.items()})

    def part(self, chosen: Ints) -> AlikeCalls:
        """Some of them, by place."""
        shifts = {place: shift[chosen] - shift[chosen[0]] for place, shift in self.shifts.items()}
        return AlikeCalls(self.at(int(chosen[0])), self.numbers[chosen], shifts)

    def with_calls(self, change: Callable[[RecordedCall], RecordedCall]) -> AlikeCalls:
        """The same with a change of each call that moves no address."""
        return replace(self, call=change(self.call))

    def _moved(self, shifts: Mapping[int, int]) -> RecordedCall:
        if not any(shifts.values()):
            return self.call
        operands = [_moved(operand, shifts.get(place, 0)) for place, operand in enumerate(self.call.operands)]
        return replace(self.call, operands=tuple(operands))


def _moved(operand: RecordedOperand, shift: int) -> RecordedOperand:
    if shift and isinstance(operand, RecordedTile):
        return replace(operand, address=(operand.address or 0) + shift)
    if shift and isinstance(operand, RecordedArray | RecordedPointer):
        return replace(operand, offset=operand.offset + shift)
    return operand


def alike(calls: Sequence[RecordedCall], numbers: Ints | None = None) -> list[AlikeCalls]:
    """Calls of a recording in groups, by their first numbers; those of a sequence that knows no groups are alone."""
    numbers = np.arange(len(calls)) if numbers is None else numbers
    grouped: Callable[[Ints], list[AlikeCalls]] | None = getattr(calls, "alike", None)
    if grouped is not None:
        return grouped(numbers)
    single: list[int] = numbers.tolist()
    return [AlikeCalls(calls[number], np.array([number]), {}) for number in single]


def equal_rows(columns: Sequence[np.ndarray[Any, Any]], count: int) -> list[Ints]:
    """The rows of some columns in groups of equal ones, each in order, by their first rows."""
    codes = np.zeros(count, np.int64)
    for column in columns:
        if count and (column != column[0]).any():
            values, code = np.unique(column, return_inverse=True)
            codes = np.unique(codes * len(values) + code.reshape(-1), return_inverse=True)[1].reshape(-1)
    if not codes.any():
        return [np.arange(count)] if count else []
    order = np.argsort(codes, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)
    return sorted(groups, key=lambda rows: int(rows[0]))
