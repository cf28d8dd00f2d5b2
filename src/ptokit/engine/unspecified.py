"""Unspecified values: what instructions leave that ptokit knows by their effects only, and all that depends on them.

They are marked byte by byte while a program runs. A copy keeps the marks of its elements. Everything else that reads a
marked element marks all that it writes. Marked values are never used as indices: such an instruction is reported and
not executed, and what it would write is marked. A marked number in a variable is reported, and counts as 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ptokit.engine.prepared import Prepared, Write
from ptokit.engine.reference import CopyStep, IndexedStep, Lanes, Plan, Touched
from ptokit.engine.storage import Array, Storage, address_of
from ptokit.finding import OPAQUE, Finding
from ptokit.isa.move import Side


class Unspecified:
    """The bytes with unspecified values in the memories of one launch."""

    def __init__(self) -> None:
        self._marks: dict[int, Array] = {}
        """By the address of a memory: a mark for each of its bytes."""

    def __bool__(self) -> bool:
        return bool(self._marks)

    def run(
        self, prepared: Prepared, storages: Sequence[Storage], write: Write | None = None, *, tolerant: bool = False
    ) -> Iterator[tuple[Finding, ...]]:
        """As `Prepared.run`. Unspecified values are followed; a call with an unspecified index is not executed."""
        if found := self.index_findings(prepared, storages):
            yield found
            self.spread(prepared, storages)
            return

        def execute(plan: Plan, given: Sequence[Storage], lanes: list[Lanes | None]) -> Any:
            self._follow(plan, given, lanes)
            return plan.run(given, lanes) if write is None else write(plan, given, lanes)

        yield from prepared.run(storages, execute, tolerant=tolerant)

    def index_findings(self, prepared: Prepared, storages: Sequence[Storage]) -> tuple[Finding, ...]:
        """The finding on an index with unspecified values, if there is one."""
        for step in prepared.plan.steps if prepared.plan is not None and self else ():
            if isinstance(step, IndexedStep) and self.any(storages[step.idx], step.lanes.offsets()):
                name, operand = prepared.instruction.name, prepared.names[step.idx]
                message = f"{name} on {prepared.target}: {operand} has unspecified values; it was not executed"
                return (Finding("unmodelled", OPAQUE, message, None, operand, target=prepared.target),)
        return ()

    def spread(self, prepared: Prepared, storages: Sequence[Storage]) -> None:
        """Mark all that a call may write."""
        for step in prepared.plan.steps if prepared.plan is not None else ():
            scatters = isinstance(step, IndexedStep) and step.index.side is Side.DST
            storage = storages[step.dst]
            self._set(storage, np.arange(storage.bits.size) if scatters else step.target.offsets(), True)

    def any(self, storage: Storage, offsets: Array) -> bool:
        """Whether some of these elements have unspecified values."""
        mask = self.mask(storage, offsets)
        return mask is not None and bool(mask.any())

    def mask(self, storage: Storage, offsets: Array) -> Array | None:
        """Which of these elements have unspecified values; None if none has."""
        start, _ = _memory(storage)
        marks = self._marks.get(start)
        return None if marks is None else np.asarray(marks[_bytes(storage, offsets, start)].any(axis=-1))

    def counts(self, tensors: Mapping[str, Storage]) -> dict[str, int]:
        """The elements of each array that have unspecified values; arrays without any are left out."""
        found: dict[str, int] = {}
        for name, storage in tensors.items():
            mask = self.mask(storage, np.arange(storage.bits.size)) if self else None
            if mask is not None and mask.any():
                found[name] = int(np.count_nonzero(mask))
        return found

    def _follow(self, plan: Plan, storages: Sequence[Storage], lanes: Sequence[Lanes | None]) -> None:
        """Mark what a call writes if it depends on marked elements; remove the marks of other results."""
        if not self and not any(step.is_unspecified for step in plan.steps):
            return
        for step, resolved in zip(plan.steps, lanes, strict=True):
            touched = list(step.touches(resolved))
            if type(step) is CopyStep and step.how == "write":
                mask = self.mask(storages[step.src], step.source.offsets())
                self._set(storages[step.dst], step.target.offsets(), False if mask is None else mask)
                continue
            marked = step.is_unspecified or any(
                self.any(storages[each.slot], _offsets(each)) for each in touched if each.how == "read"
            )
            for each in touched:
                if each.how != "read" and (marked or each.how == "write"):
                    self._set(storages[each.slot], _offsets(each), marked)

    def _set(self, storage: Storage, offsets: Array, marks: bool | Array) -> None:
        """Mark elements, or remove their marks."""
        start, nbytes = _memory(storage)
        if start not in self._marks:
            if not np.any(marks):
                return
            self._marks[start] = np.zeros(nbytes, bool)
        given = marks if isinstance(marks, bool) else marks[..., None]
        self._marks[start][_bytes(storage, offsets, start)] = given


def _offsets(touched: Touched) -> Array:
    if touched.offsets is not None:
        return touched.offsets()
    assert touched.region is not None
    return touched.region.offsets()


def _memory(storage: Storage) -> tuple[int, int]:
    """The address and the bytes of the memory that an operand is a part of."""
    if storage.root is not None:
        return address_of(storage.root), storage.root.nbytes
    first, end = np.lib.array_utils.byte_bounds(storage.owner)
    return first, end - first


def _bytes(storage: Storage, offsets: Array, start: int) -> Array:
    """The bytes of elements, counted from the start of their memory: a row for each element."""
    size = storage.dtype.size
    return (storage.address - start + np.asarray(offsets)[..., None] * size) + np.arange(size)


def array_finding(name: str, count: int, size: int, target: str) -> Finding:
    """The finding on an array that holds unspecified values after a launch."""
    message = f"{name}: {count:,} of {size:,} elements have unspecified values: do not compare them"
    return Finding("unmodelled", OPAQUE, message, None, name, "specified values", f"{count} unspecified", target=target)


def number_finding(variable: str, array: str) -> Finding:
    """The finding on a number that is read from an array and unspecified."""
    message = f"{variable} is an unspecified value of {array}, and counts as 0"
    return Finding("unmodelled", OPAQUE, message, None, array)
