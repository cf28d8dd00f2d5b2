"""The memory of a block as Python sees it: the reference engine runs over it what has no code."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ptokit.engine.frame import Bytes, Frame
from ptokit.engine.interpreter import POISON, Executable, Step
from ptokit.engine.llvm.program.compiler import Tensors
from ptokit.engine.llvm.program.slots import ALIGNMENT, Reason, Slots, StateSlot
from ptokit.engine.runnable import Listener
from ptokit.engine.storage import ADDRESS_SPACE, OnChip, Storage
from ptokit.finding import Finding
from ptokit.program.expr import Var
from ptokit.program.ir import Instr, Loop, Stmt, TileDecl, children, expressions
from ptokit.program.verify_call import Options
from ptokit.target import Profile

GREATEST = (1 << 63) - 1
"""The greatest number that a slot holds."""


class BlockState:
    """The slots and the arena of a block, and the statements that Python runs over them."""

    def __init__(self, slots: Slots, fallback: Fallback) -> None:
        self.slots, self._fallback = slots, fallback
        self.state = (ctypes.c_int64 * slots.count)()
        self.arena = _aligned(slots.arena)
        self.arena[slots.scratch : slots.spare] = 0
        self.frame = Frame()
        self.frame.form = fallback.program.form
        self.frame.tiles = {name: self._storage(name, at) for name, at in slots.tiles.items()}
        self.drop()

    def give(self, tensors: Callable[[], Tensors], listener: Listener) -> None:
        """Give it the arrays of a launch, which are asked for when they are needed, and who hears of findings."""
        self._tensors, self._listener = tensors, listener

    def drop(self) -> None:
        """Drop the user's arrays, and what was learned."""
        self.give(dict, tuple)
        self.frame.tensors = {}
        self.missed: dict[int, dict[Var, int]] = {}
        """Numbers at which instructions had no code, by statement."""

    def take_over(self, state: Sequence[int], parts: Iterable[tuple[int, Bytes]]) -> None:
        """Take over a block that ran elsewhere: its slots, and parts of its arena, each from a place on."""
        self.state[StateSlot.COUNT :] = state[StateSlot.COUNT :]
        self.state[StateSlot.ITERATION] = state[StateSlot.ITERATION]
        for start, data in parts:
            self.arena[start : start + len(data)] = data

    def run(self, number: int, reason: int) -> None:
        """Run one statement in Python, over the current memory."""
        frame, state, slots = self._frame(), self.state, self.slots
        stmt, reported = slots.statements[number], [0]

        def listen(findings: Sequence[Finding]) -> None:
            reported[0] += len(findings)
            self._listener(findings)

        frame.listener = listen
        with frame.expressions_refused():
            if not children(stmt) or not self._compute(stmt, frame):
                self._fallback.step_of(stmt)(frame)
        if isinstance(stmt, Instr):
            if reason in (Reason.NEGATIVE, Reason.PADDED) and reported[0]:
                state[slots.reported_slot(number, reason)] = 1
            elif reason == Reason.MISSED or (reason == Reason.AFTER and self.missed):
                self.missed.setdefault(number, {**frame.values, **self._addresses()})
        self._write_back(frame)

    def _compute(self, stmt: Stmt, frame: Frame) -> bool:
        """Compute the numbers of a loop or a branch; native code runs the body, unless it cannot count that far."""
        frame.where = stmt.where
        found = frame.computed = tuple(map(frame.value, expressions(stmt)))
        numbers = range(found[0], found[1], stmt.step) if isinstance(stmt, Loop) else ()
        if not numbers or max(abs(numbers[0]), abs(numbers[-1])) <= GREATEST:
            return True
        frame.computed = 0, 0
        return False

    def _addresses(self) -> dict[Var, int]:
        return {var: self.state[slot] for var, slot in self.slots.addressed.items()}

    def _frame(self) -> Frame:
        frame, state, slots = self.frame, self.state, self.slots
        if not frame.tensors:
            frame.tensors = self._tensors()
        frame.values = {var: state[slot] for var, slot in slots.variables.items()}
        frame.iteration = state[StateSlot.ITERATION]
        for name, slot in slots.addresses.items():
            frame.addresses[name] = state[slot]
            memory = slots.memory[slots.program.tiles[name].spec.loc]
            frame.tiles[name] = self._storage(name, memory + state[slot])
        for loc, slot in slots.poisoned.items():
            memory = frame.memories.setdefault((loc, 0), _ArenaMemory(self.arena, slots.memory[loc]))
            memory.poisoned = state[slot]
        return frame

    def _storage(self, name: str, at: int) -> Storage:
        spec = self.slots.program.tiles[name].spec
        return Storage(self.arena[at : at + spec.nbytes].view(spec.dtype.bits), spec.dtype)

    def _write_back(self, frame: Frame) -> None:
        """Store the numbers that a statement has changed."""
        state, slots = self.state, self.slots
        for var, slot in slots.variables.items():
            state[slot] = frame.values[var]
        for name, slot in slots.addresses.items():
            state[slot] = frame.addresses[name]
        for loc, slot in slots.poisoned.items():
            state[slot] = frame.memories[loc, 0].poisoned
        for slot, value in zip((StateSlot.FIRST, StateSlot.SECOND), frame.computed, strict=False):
            state[slot] = max(-GREATEST, min(GREATEST, value))


class _ArenaMemory(OnChip):
    """A memory in an arena."""

    def __init__(self, arena: Any, begin: int) -> None:
        self._bytes, self.poisoned = arena[begin : begin + ADDRESS_SPACE], 0


def _aligned(nbytes: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    raw = np.empty(nbytes + ALIGNMENT, np.uint8)
    shift = -raw.ctypes.data % ALIGNMENT
    return raw[shift : shift + nbytes]


class Fallback(Executable):
    """The reference engine's steps for statements that have no code. All blocks of a program share them."""

    def __init__(self, slots: Slots, profile: Profile, options: Options) -> None:
        super().__init__(slots.program, profile, options)
        self._slots = slots

    def _step(self, stmt: Stmt) -> Step:
        if isinstance(stmt, TileDecl) and stmt.name in self._slots.tiles:
            return lambda frame: frame.tiles[stmt.name].bits.view(np.uint8).fill(POISON)
        return super()._step(stmt)
