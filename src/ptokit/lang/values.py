"""Values on demand: executes what a paused C++ kernel has recorded so far, in the memory that it shares."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from ptokit.cxx.operands import Unexpressible
from ptokit.cxx.program import call_program
from ptokit.cxx.recording import (
    PartialRecording,
    RecordedLaunch,
    RecordedTile,
    SharedMemories,
    ValueRequest,
)
from ptokit.cxx.shared import LOCAL
from ptokit.cxx.statements import IDLE, SYNCS
from ptokit.engine.frame import Frame
from ptokit.engine.interpreter import DeclareStep, Executable, Step
from ptokit.engine.storage import Storage
from ptokit.engine.unspecified import Unspecified
from ptokit.finding import OutOfBoundsError, VerifyError
from ptokit.isa.dtype import DType, dtype
from ptokit.isa.opaque import EXACT
from ptokit.isa.operand import TileSpec
from ptokit.isa.policy import TileType
from ptokit.program.expr import BLOCK_IDX, BLOCK_NUM
from ptokit.program.ir import TileDecl
from ptokit.program.verify_call import Options, verify_address
from ptokit.target import Profile, profile

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
NO_EFFECT = frozenset((*IDLE, *SYNCS, *(name for name, form in EXACT.items() if "w" not in form)))
"""Calls that change no memory."""
MOST_CALLS = 100_000
"""Distinct calls that are kept ready."""
MOST_BYTES = 256 << 20
"""Of all tiles without an address."""


class SharedFrame(Frame):
    """A block whose on-chip memories a kernel sees."""

    def __init__(self, local: Mapping[str, Bytes]) -> None:
        super().__init__()
        names = {member.text: member for member in TileType}
        self._local = {names[name]: shared for name, shared in local.items() if name in names}

    def place(self, tile: TileDecl, address: int, target: str) -> None:
        """Bind a tile to an address of its memory."""
        spec = tile.spec.changed(addr=address)
        memory = self._local[spec.loc]
        if problems := verify_address(spec, target):
            raise VerifyError(problems)
        if address + spec.nbytes > memory.size:
            raise ValueError(f"{tile.name} at {address:#x} lies beyond the memory")
        part = memory[address : address + spec.nbytes]
        self.tiles[tile.name] = Storage(part.view(spec.dtype.bits), spec.dtype, memory)
        self.addresses[tile.name] = address


@dataclass(frozen=True)
class ReadyCall:
    """A recorded call that can be executed again and again."""

    steps: tuple[Step, ...]
    tensors: Mapping[str, Storage]
    tiles: Mapping[str, Storage]
    """Of tiles without an address."""


class Informer:
    """Executes recorded calls, each once and in their order: for values that a kernel asks for."""

    def __init__(self, target: str) -> None:
        self.profile = profile(target)
        self._session: ValueSession | None = None

    def inform(self, memories: SharedMemories, recording: PartialRecording) -> bytes | None:
        """The bytes that a kernel asks for; None if they are not known, empty if all memory is up to date."""
        session = self._session
        if session is None or session.part != recording.part:
            session = self._session = ValueSession(self.profile, memories, recording.part)
        session.catch_up(memories, recording)
        return session.answer(memories, recording.request) if recording.request is not None else b""


class ValueSession:
    """The memories of one running library, and how far its calls were executed."""

    def __init__(self, target: Profile, memories: SharedMemories, part: int) -> None:
        self._profile, self.part = target, part
        self._frame = SharedFrame(memories.local)
        self._frame.unspecified = self._unspecified = Unspecified()
        self._objects: dict[int, Bytes] = {}
        """Tiles without an address, by their number."""
        self._left = MOST_BYTES
        """Bytes that more of them may have."""
        self._ready: dict[tuple[int, int], ReadyCall | None] = {}
        """By the number of arguments and of the call."""
        self._launch, self._block, self._call = 0, 0, 0
        """The next call: of a block of a launch."""

    def catch_up(self, memories: SharedMemories, recording: PartialRecording) -> None:
        """Execute what was recorded since the last time."""
        for launch in recording.launches[self._launch :]:
            for block in launch.blocks[self._block :]:
                self._frame.values = {BLOCK_IDX: block.index, BLOCK_NUM: launch.grid}
                for number in block.calls[self._call :].tolist():
                    if time.monotonic() > recording.until:
                        raise TimeoutError
                    self._execute(memories, recording, launch, number)
                self._call = len(block.calls)
                if block is not launch.blocks[-1]:
                    self._block, self._call = self._block + 1, 0
            if launch is not recording.launches[-1]:
                self._launch, self._block, self._call = self._launch + 1, 0, 0

    def _execute(
        self, memories: SharedMemories, recording: PartialRecording, launch: RecordedLaunch, number: int
    ) -> None:
        key = len(launch.arguments), number
        if key not in self._ready:
            if len(self._ready) >= MOST_CALLS:
                self._ready.clear()
            self._ready[key] = self._made(memories, recording, launch, number)
        ready, frame = self._ready[key], self._frame
        if ready is None:
            return
        frame.tensors = ready.tensors
        frame.tiles = dict(ready.tiles)
        frame.addresses = {}
        with suppress(VerifyError, OutOfBoundsError, ValueError):  # the launch reports it
            for step in ready.steps:
                step(frame)

    def _made(
        self, memories: SharedMemories, recording: PartialRecording, launch: RecordedLaunch, number: int
    ) -> ReadyCall | None:
        if recording.calls[number].name in NO_EFFECT:
            return None
        try:
            program, objects = call_program(recording, launch, number)
            executable = Executable(program, self._profile, Options(header=True))
            arrays = {each.name: array for each, array in zip(launch.arguments, memories.arrays, strict=True)}
            tensors = {name: _typed(arrays[each.array], each.dtype) for name, each in program.tensors.items()}
            steps = tuple(step for step in executable.steps if not _is_object(step, objects))
        except (VerifyError, OutOfBoundsError, Unexpressible, ValueError, KeyError):
            return None
        tiles = {name: self._object(program.tiles[name].spec, *each) for name, each in objects.items()}
        return None if None in tiles.values() else ReadyCall(steps, tensors, cast("dict[str, Storage]", tiles))

    def _object(self, spec: TileSpec, number: int, view: int) -> Storage | None:
        """The memory of a tile without an address, from a byte on; None if it is larger than any memory."""
        known, end = self._objects.get(number), view + spec.nbytes
        if known is None or known.nbytes < end:
            if end > LOCAL or self._left < end:
                return None
            self._left -= end
            known = self._objects[number] = np.zeros(end, np.uint8)
        return Storage(known[view:end].view(spec.dtype.bits), spec.dtype, known)

    def answer(self, memories: SharedMemories, request: ValueRequest) -> bytes | None:
        """What a request asks for."""
        storage = self._requested(memories, request)
        if storage is None:
            return None
        if self._unspecified and self._unspecified.any(storage, np.arange(storage.bits.size)):
            return None
        if request.bytes == 0 or (not self._unspecified and _has_address(request)):
            return b""
        return storage.bits.tobytes()

    def _requested(self, memories: SharedMemories, request: ValueRequest) -> Storage | None:
        """The bytes that a kernel reads; None if it has no such memory."""
        if not isinstance(request.operand, RecordedTile):
            pointer = request.operand
            array = memories.local.get(pointer.memory)
            array = array if pointer.argument is None else memories.arrays[pointer.argument]
            return None if array is None else _part(array, pointer.offset, 1)
        tile = request.operand
        at = request.offset * dtype(tile.dtype).size
        if tile.address is None:
            known = self._objects.get(tile.object)
            return None if known is None else _part(known, at + (tile.view or 0), request.bytes)
        memory = memories.local.get(tile.memory)
        return None if memory is None else _part(memory, tile.address + at, request.bytes)


def _has_address(request: ValueRequest) -> bool:
    return not isinstance(request.operand, RecordedTile) or request.operand.address is not None


def _is_object(step: Step, objects: Mapping[str, object]) -> bool:
    """Whether a step declares a tile that has no address."""
    return isinstance(step, DeclareStep) and step.tile.name in objects


def _part(array: Bytes, at: int, size: int) -> Storage | None:
    """Some bytes of a memory."""
    return Storage(array[at : at + size], dtype("uint8"), array) if at + size <= array.size else None


def _typed(array: Bytes | None, kind: DType) -> Storage:
    if array is None:
        raise KeyError("the argument is no array")
    whole = array[: array.size // kind.size * kind.size]
    return Storage(whole.view(kind.bits), kind, array)
