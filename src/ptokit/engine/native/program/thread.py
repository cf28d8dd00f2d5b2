"""The state of a thread that runs blocks: its slots, its arena, and the fallback to Python for what has no code."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ptokit.engine.frame import Frame
from ptokit.engine.interpreter import POISON, Executable, InstructionStep, LoopStep, Step
from ptokit.engine.llvm.program.page import Page
from ptokit.engine.llvm.program.slots import ALIGNMENT, SIGNALS, Reason, Slots, StateSlot
from ptokit.engine.native.program.ledger import Ledger
from ptokit.engine.native.workers import Stop
from ptokit.engine.runnable import Listener
from ptokit.engine.storage import ADDRESS_SPACE, OnChip, Storage
from ptokit.finding import Finding
from ptokit.program.expr import BLOCK_IDX, Var
from ptokit.program.ir import Instr, Loop, Stmt, TileDecl, children, expressions
from ptokit.program.verify_call import Options
from ptokit.target import Profile

POLL_INTERVAL = 1000
"""Blocks and iterations after which the calling thread checks for Ctrl-C."""
GREATEST = (1 << 63) - 1
"""The greatest number that a slot holds."""
NEVER = Stop()
"""For launches that are too short to be stopped."""

Tensors = Mapping[str, Storage]
Slow = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64)
"""The callback from native code: the number of a statement and the reason, in one number."""


class Thread:
    """The state and the arena of one thread."""

    def __init__(self, slots: Slots, fallback: Fallback, pages: Sequence[Page] = ()) -> None:
        """`pages` are scatters that Python defers, too."""
        self.slots, self._fallback = slots, fallback
        self.state = (ctypes.c_int64 * slots.count)()
        self.address = ctypes.addressof(self.state)
        self.arena = _aligned(slots.arena)
        self.arena[slots.scratch : slots.spare] = 0
        self.state[StateSlot.ARENA] = self.arena.ctypes.data
        self.failure: BaseException | None = None
        self._listen()
        self.ledgers = [Ledger(page, self.state, slots.ledgers[page.number]) for page in pages]
        self.frame = ThreadFrame(self)
        self.frame.tiles = {name: self._storage(name, at) for name, at in slots.tiles.items()}
        self.end()

    def begin(
        self,
        arrays: Iterable[tuple[int, int, int]],
        numbers: Iterable[tuple[int, int]],
        tensors: Callable[[], Tensors],
        listener: Listener,
        stop: Stop = NEVER,
    ) -> None:
        """Begin a launch: slot, address and size of each array; slots and values of numbers."""
        state = self.state
        state[StateSlot.STOP] = stop.address
        state[StateSlot.BUDGET] = POLL_INTERVAL if stop is NEVER else GREATEST
        for slot, address, size in arrays:
            state[slot] = address
            state[slot + 1] = size
        for slot, number in numbers:
            state[slot] = number
        ctypes.memset(self.address + 8 * self.slots.reported, 0, 24 * len(self.slots.statements))
        self._tensors, self._listener = tensors, listener

    def take_over(self, state: Sequence[int], parts: Iterable[tuple[int, bytes]]) -> None:
        """Take over a block that ran elsewhere: its slots, and parts of its arena, each from a place on."""
        self.state[StateSlot.COUNT :] = state[StateSlot.COUNT :]
        self.state[StateSlot.ITERATION] = state[StateSlot.ITERATION]
        for start, data in parts:
            self.arena[start : start + len(data)] = np.frombuffer(data, np.uint8)

    def end(self) -> None:
        """End a launch, and drop the user's arrays."""
        self._tensors: Callable[[], Tensors] = dict
        self._listener: Listener = tuple
        self.frame.tensors = {}
        if self.failure is not None:  # a second Ctrl-C right after the first may have ended that
            self._listen()
        self.failure = None
        self.failed_at = 0
        for ledger in self.ledgers:
            ledger.end()
        self.missed: dict[int, dict[Var, int]] = {}
        """Numbers at which instructions had no code, by statement."""

    @property
    def block(self) -> int:
        return self.state[self.slots.variables[BLOCK_IDX]]

    # --- the callback from native code

    def _answers(self) -> Generator[int, int, None]:
        """Run what native code asks for, and yield whether that failed.

        A generator, because Python raises KeyboardInterrupt as soon as it resumes: here that is within the `try`,
        while a function would be left on entry and the exception would be lost.
        """
        failed = 0
        while True:
            try:
                while True:
                    asked = yield failed
                    failed = 1
                    self.run(*divmod(asked, Reason.COUNT))
                    failed = 0
            except GeneratorExit:
                return
            except BaseException as problem:  # raised again when native code has returned
                self.failure, failed = problem, 1

    def _listen(self) -> None:
        answers = self._answers()
        next(answers)
        self._slow = Slow(answers.send)
        self.state[StateSlot.FALLBACK] = ctypes.cast(self._slow, ctypes.c_void_p).value or 0

    def run(self, number: int, reason: int) -> None:
        """Run one statement in Python, over the current memory."""
        if number == SIGNALS:  # running Python code at all delivers Ctrl-C
            self.state[StateSlot.BUDGET] = POLL_INTERVAL
            return
        frame, state, slots = self._frame(), self.state, self.slots
        stmt, reported = slots.statements[number], [0]

        def listen(findings: Sequence[Finding]) -> None:
            reported[0] += len(findings)
            self._listener(findings)

        frame.listener = listen
        with frame.expressions_refused():
            if not children(stmt) or not self._compute(stmt, frame):
                self._fallback.step(stmt)(frame)
        if isinstance(stmt, Instr):
            if reason in (Reason.NEGATIVE, Reason.PADDED) and reported[0]:
                state[slots.reported_slot(number, reason)] = 1
            elif reason == Reason.MISSED:
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
            memory = frame.memories.setdefault(loc, _ArenaMemory(self.arena, slots.memory[loc]))
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
            state[slot] = frame.memories[loc].poisoned
        for slot, value in zip((StateSlot.FIRST, StateSlot.SECOND), frame.computed, strict=False):
            state[slot] = max(-GREATEST, min(GREATEST, value))


class _ArenaMemory(OnChip):
    """A memory in a thread's arena."""

    def __init__(self, arena: Any, begin: int) -> None:
        self._bytes, self.poisoned = arena[begin : begin + ADDRESS_SPACE], 0


def _aligned(nbytes: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    raw = np.empty(nbytes + ALIGNMENT, np.uint8)
    shift = -raw.ctypes.data % ALIGNMENT
    return raw[shift : shift + nbytes]


class ThreadFrame(Frame):
    """The state of a block over a thread's memory."""

    def __init__(self, thread: Thread) -> None:
        super().__init__()
        self.thread = thread
        self.ledgers = {id(thread.slots.statements[each.page.number]): each for each in thread.ledgers}
        """The ledgers of scatters that are deferred, by statement."""

    def listen_for_stop(self) -> None:
        """End a loop that Python runs when its launch is stopped."""
        if ctypes.c_int32.from_address(self.thread.state[StateSlot.STOP]).value:
            raise KeyboardInterrupt


class Fallback(Executable):
    """The reference engine's steps for statements that have no code, over the memory of threads, which share it."""

    def __init__(self, slots: Slots, profile: Profile, options: Options) -> None:
        super().__init__(slots.program, profile, options)
        self._slots = slots
        self._made: dict[int, Step] = {}

    def step(self, stmt: Stmt) -> Step:
        """The step of a statement, made when it is first needed."""
        if id(stmt) not in self._made:
            self._made[id(stmt)] = self._step(stmt)
        return self._made[id(stmt)]

    def _step(self, stmt: Stmt) -> Step:
        if isinstance(stmt, TileDecl) and stmt.name in self._slots.tiles:
            return lambda frame: frame.tiles[stmt.name].bits.view(np.uint8).fill(POISON)
        made = STEPS.get(type(stmt))
        return made(stmt, self) if made else super()._step(stmt)


class _StoppedLoop(LoopStep):
    """A loop that ends when its launch is stopped."""

    def __init__(self, loop: Loop, executable: Executable) -> None:
        super().__init__(loop, executable)
        self.body += (ThreadFrame.listen_for_stop,)  # type: ignore[assignment]


class _Instruction(InstructionStep):
    """An instruction; a scatter that is deferred is checked and reported, and its lanes go to a ledger."""

    def __call__(self, frame: ThreadFrame) -> None:  # type: ignore[override]
        ledger = frame.ledgers.get(id(self.instr))
        prepared, storages = self.prepare(frame)
        frame.run(prepared.run(storages, ledger.write if ledger else None), self.in_source)


STEPS: dict[type, Callable[[Any, Executable], Any]] = {Loop: _StoppedLoop, Instr: _Instruction}
"""The steps that are not those of the reference engine."""
