"""Instructions that no table has: declared by the headers of a checkout, and judged by what these do."""

from __future__ import annotations

import weakref
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ptokit.cxx.compile import Build, CompileOptions
from ptokit.cxx.decoding import EFFECTS, LOOSE
from ptokit.cxx.names import COLLECTIVES, WRITTEN_BY_HAND, files, instructions
from ptokit.cxx.record import ArrayArgument, ScalarArgument
from ptokit.cxx.recording import (
    RecordedArray,
    RecordedCall,
    RecordedOperand,
    RecordedScalar,
    RecordedTile,
    Recording,
)
from ptokit.isa.kernel import ByteRows
from ptokit.isa.opaque import RecordedAccess, is_form, recorded_form
from ptokit.witness.effects import Observed, ObservedIntrinsic, ObservedMemory
from ptokit.witness.extents import Ranges
from ptokit.witness.headers import Checkout
from ptokit.witness.record import Witness

DECLARED = "own/ptokit/instructions.hpp"
"""The header that declares instructions."""
Argument = ArrayArgument | ScalarArgument


class UnknownInstructions(Witness):
    """The instructions of a checkout that ptokit does not know."""

    def __init__(self, checkout: Checkout) -> None:
        super().__init__(checkout)
        self._builds: dict[tuple[Any, ...], Build] = {}
        """The last one."""
        self.names = checkout.instructions - {*instructions(), *WRITTEN_BY_HAND.split(), *COLLECTIVES.split()}
        self.declarations = self.folder / "declarations"
        file = self.declarations / DECLARED.removeprefix("own/")
        file.parent.mkdir(parents=True)
        rows = (f'PTOKIT_INSTRUCTION({name}, "{name.lower()}", 0, "value")\n' for name in sorted(self.names))
        file.write_text(f"{files()[DECLARED]}namespace pto {{\n{''.join(rows)}}}\n", encoding="utf-8")

    def options(self, options: CompileOptions) -> CompileOptions:
        """Options with which a source may call the instructions."""
        return replace(options, headers=(*options.headers, self.declarations))

    def judged(
        self,
        recording: Recording,
        source: Path,
        options: CompileOptions,
        entry: str,
        arguments: Sequence[Argument],
        grid: int | None,
    ) -> Recording:
        """The recording of an entry with the effects of unknown instructions: the entry is run with the headers. Raises
        `CompileError`."""
        names = {name.lower() for name in self.names}
        if not any(call.name in names for call in recording.calls):
            return recording
        seen = self._seen(self._build(source, recording.target, options), entry, arguments, grid)
        calls = list(recording.calls)
        for key, numbers in _numbers(recording, names).items():
            block, core, _, name = key
            known = seen.get(key) or seen.get((block, core, 0, name), ())  # the second vector core does the same
            for number, observed in zip(numbers, known, strict=False):
                call = recording.calls[number]
                if form := form_of(call, observed):
                    calls[number] = replace(call, modifiers=(*call.modifiers, (EFFECTS, form)))
        return replace(recording, calls=calls)

    def _build(self, *asked: Any) -> Build:
        """A source compiled with the headers: a check asks for the same several times."""
        if asked not in self._builds:
            self._builds = {asked: self.compile(*asked)}
            weakref.finalize(self, self._builds[asked].close)
        return self._builds[asked]

    def _seen(
        self, build: Build, entry: str, arguments: Sequence[Argument], grid: int | None
    ) -> dict[tuple[object, ...], list[Observed]]:
        blocks, _ = self.run(build, entry, arguments, grid)
        found: dict[tuple[object, ...], list[Observed]] = defaultdict(list)
        for block in blocks:
            for observed in block.calls:
                found[block.index, block.core, block.subblock, observed.name.lower()].append(observed)
        return found


def _numbers(recording: Recording, names: set[str]) -> dict[tuple[object, ...], list[int]]:
    """The calls of unknown instructions, by block, core and name, in order."""
    found: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for launch in recording.launches:
        for block in launch.blocks:
            for number in map(int, block.calls):
                name = recording.calls[number].name
                if name in names:
                    found[block.index, block.core, block.subblock, name].append(number)
    return found


def form_of(call: RecordedCall, observed: Observed) -> str:
    """What a call did, as the form of its instruction; empty if its tiles have no addresses."""
    operands = [operand for operand in call.operands if type(operand) in LOOSE]
    if any(isinstance(operand, RecordedTile) and operand.address is None for operand in operands):
        return ""
    places = [place_of(operand) for operand in operands]
    accesses = [_access(k, places, observed) for k in range(len(operands))]
    steps = [*dict.fromkeys(step for event in observed.events if (step := _step(event)))]
    letters = (
        "n" if isinstance(operand, RecordedScalar) else str(access)
        for operand, access in zip(operands, accesses, strict=True)
    )
    form = recorded_form([*letters], steps if len(steps) > 1 else ())
    return form if is_form(form) else ""


def _step(event: ObservedIntrinsic) -> str:
    """The pipe that works, or those of a flag; empty for what is neither."""
    if event.name == "wait_flag":
        return "-".join(event.flag[:2])
    return event.pipe if event.touches else ""


Place = tuple[ObservedMemory, int]
"""A memory, and where an operand begins there."""


def place_of(operand: RecordedOperand) -> Place:
    """Where an operand begins; a number is nowhere."""
    if isinstance(operand, RecordedTile):
        return ObservedMemory(operand.memory), operand.address or 0
    if isinstance(operand, RecordedArray):
        return ObservedMemory("global", operand.argument), operand.offset
    return ObservedMemory(""), 0


def _access(number: int, places: Sequence[Place], observed: Observed) -> RecordedAccess:
    """What was done with an operand: bytes belong to the last operand that begins at or before them."""
    memory, start = places[number]
    later = [other for place, other in places if place == memory and other > start]
    end = min(later, default=1 << 62)
    read, written = (within(observed.bytes_of(how).get(memory), start, end) for how in ("read", "write"))
    used = [each for each in (read, written) if each is not None]
    if not used:
        return RecordedAccess("r", _pipe(observed, memory, start, end) or "S", ByteRows(0, 0, 0))
    letter = "r" if written is None else "w" if read is None else "u"
    rows = _rows(np.concatenate(used) if letter == "u" else used[0])
    return RecordedAccess(letter, _pipe(observed, memory, start, end), rows)


def within(ranges: Ranges | None, start: int, end: int) -> Ranges | None:
    """The part of ranges from the start of an operand to that of the next."""
    if ranges is None:
        return None
    found = np.clip(ranges, start, end) - start
    found = found[found[:, 0] < found[:, 1]]
    return found if len(found) else None


def _rows(ranges: Ranges) -> ByteRows:
    """Rows of bytes that cover ranges: these themselves if they are alike, else all up to the last byte."""
    ranges = np.unique(ranges, axis=0)
    lengths, steps = np.unique(ranges[:, 1] - ranges[:, 0]), np.unique(np.diff(ranges[:, 0]))
    if len(lengths) == 1 and len(steps) <= 1 and ranges[0, 0] == 0:
        length = int(lengths[0])
        return ByteRows(len(ranges), length, int(steps[0]) if len(steps) else length)
    last = int(ranges[:, 1].max())
    return ByteRows(1, last, last)


def _pipe(observed: Observed, memory: ObservedMemory, start: int, end: int) -> str:
    """The first pipe that touches an operand."""
    touches = ((event, touch) for event in observed.events for touch in event.touches if touch.place == memory)
    return next((event.pipe for event, touch in touches if within(touch.ranges, start, end) is not None), "")
