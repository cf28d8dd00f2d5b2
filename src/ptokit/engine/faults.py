"""What stops a run, and suspicious index values, as plain data. `prepared.py` turns them into findings."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class IndexReport:
    """Index values to report: their kind (`outside`, `negative` or `padding`), the first of them, and the count."""

    kind: str
    operand: str
    lane: tuple[int, ...]
    value: int
    capacity: int
    count: int


class IndexFault(Exception):
    """An index outside its table under the policy `REFUSE`. Nothing was written."""

    def __init__(self, report: IndexReport) -> None:
        super().__init__(report)
        self.report = report


class SpanFault(Exception):
    """An address outside an operand's memory. Nothing was written."""

    def __init__(self, operand: str, needed: int, available: int) -> None:
        super().__init__(f"{operand} would be touched at element {needed - 1}, but has {available}")
        self.operand = operand


class ZeroFault(Exception):
    """An integer divisor that is zero. Nothing was written."""

    def __init__(self, operand: str, lane: tuple[int, ...], count: int) -> None:
        super().__init__(f"{operand}[{', '.join(map(str, lane))}] is zero" + f" (and {count - 1} more)" * (count > 1))
        self.operand = operand
