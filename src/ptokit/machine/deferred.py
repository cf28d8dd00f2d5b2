"""An instruction whose pipes run their parts at different times, for schedules other than the program's order."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

import numpy as np

from ptokit.engine.faults import SpanFault, ZeroFault
from ptokit.engine.interpreter import POISON
from ptokit.engine.reference import Lanes
from ptokit.engine.storage import Storage
from ptokit.isa.spelling import TMP
from ptokit.machine.site import Site
from ptokit.program.steps import PipeWork


def poison(storages: Iterable[Storage]) -> None:
    """Fill memories with the pattern of uninitialised memory."""
    for storage in storages:
        storage.bits.view(np.uint8)[...] = POISON


class DeferredInstruction:
    """One execution: the pipe that reads the indices keeps them for the pipes that move the data. An uninitialised tile
    is poisoned when it is first touched, not before: until then other tiles may use its memory."""

    def __init__(self, site: Site, storages: list[Storage], fresh: list[bool], workspace: Storage | None) -> None:
        """`fresh` says of every operand whether it is an uninitialised tile."""
        self._plan, self._storages = site.prepared.tolerant, storages
        self._lanes: list[Lanes | None] | None = None
        touches = [step for step in site.steps if isinstance(step, PipeWork)]
        names = site.prepared.names
        index = site.call.instruction.roles.get("index")
        self._reader = next((touch for touch in touches if index in touch.reads), touches[-1])
        self._is_atomic = site.call.is_atomic
        self._is_aliased = self._plan.is_aliased(storages)
        self._last = touches[-1]
        self._moves = [_last(touches, names[step.dst]) for step in self._plan.steps]
        """The part that each move of the plan belongs to."""
        self._poisons = [
            (_first(touches, name), storage)
            for name, storage, is_fresh in zip(names, storages, fresh, strict=True)
            if is_fresh
        ]
        if workspace is not None:  # what an instruction leaves there is unknown (CP-TMP-01)
            self._poisons.append((_first(touches, TMP), workspace))

    def is_atomic(self, touch: PipeWork) -> bool:
        """Whether a part is an atomic."""
        return self._is_atomic and any(mover is touch for mover in self._moves)

    def __call__(self, touch: PipeWork) -> None:
        """Run a pipe's part."""
        poison(storage for first, storage in self._poisons if first is touch)
        with suppress(SpanFault, ZeroFault):  # reported by the run in program order
            if touch is self._reader:
                self._lanes, _ = self._plan.resolve(self._storages)
            if self._lanes is not None:
                self._move(touch, self._lanes)

    def _move(self, touch: PipeWork, lanes: list[Lanes | None]) -> None:
        if self._is_aliased:
            if touch is self._last:
                self._plan.run(self._storages, lanes)
            return
        for step, own, mover in zip(self._plan.steps, lanes, self._moves, strict=True):
            if mover is touch:
                step.run(self._storages, own)


def _first(touches: list[PipeWork], operand: str) -> PipeWork:
    """The first part that touches an operand."""
    return next((touch for touch in touches if operand in (*touch.reads, *touch.writes)), touches[-1])


def _last(touches: list[PipeWork], operand: str) -> PipeWork:
    """The last part that writes an operand."""
    return next((touch for touch in reversed(touches) if operand in touch.writes), touches[-1])
