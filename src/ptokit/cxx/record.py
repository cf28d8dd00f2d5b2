"""Records a run of a C++ kernel: build, child process, trace, `Recording`."""

from __future__ import annotations

import os
import re
import signal
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from ptokit.cxx.alike import AlikeCalls, Ints, alike
from ptokit.cxx.child import Child, RecordLimits
from ptokit.cxx.compile import Build
from ptokit.cxx.confine import DONE, OPEN, OPENAT
from ptokit.cxx.lines import Elf, SourcePlaces, shown_function
from ptokit.cxx.problems import FILLED, FIRST_PAGES, NO_MEMORY
from ptokit.cxx.recording import (
    MEMORIES,
    VECTOR_CORES,
    CoreName,
    Frames,
    LaunchArgument,
    PartialRecording,
    ProblemKind,
    RecordedBlock,
    RecordedCall,
    RecordedLaunch,
    RecordedPointer,
    RecordedTile,
    Recording,
    RecordingProblem,
    SharedMemories,
    ValueRequest,
)
from ptokit.cxx.shared import FRAMES, LOCAL, VALUES, SharedBuffer, Sizes
from ptokit.cxx.statements import is_own
from ptokit.cxx.trace import Calls, Places, TraceError, TraceReader
from ptokit.isa.dtype import dtype
from ptokit.program.ir import MOST_BLOCKS

Inform = Callable[[SharedMemories, PartialRecording], bytes | None]
"""Executes what was recorded so far and brings the shared memories up to date as far as it can. It returns the bytes
that the request asks for; empty bytes say that all shared memories are up to date; None, that the value is unknown."""

RUNNING, FINISHED, STOPPED = 1, 2, 3
BY_SIGNAL, BY_EXCEPTION, BY_LIMIT, BY_FAILURE, BY_STACK, BY_GRID = 1, 2, 3, 4, 5, 6
VALUE_ONLY, ALL_CURRENT, UNKNOWN_VALUE = 0, 1, 2
CORES = {"vector": 1, "cube": 2}
OF_LIBRARY: dict[str, tuple[CoreName, ...]] = {"vector": ("vector",), "cube": ("cube",)}
"""The cores that a library is run for, if it is for one."""
AS_ASKED = 0
"""In the place of a number of vector cores: the second one runs if the first asks which one it is."""
SIGNALS: dict[int, str] = {
    signal.SIGSEGV: NO_MEMORY,
    signal.SIGBUS: NO_MEMORY,
    signal.SIGFPE: "the kernel divides an integer by zero",
    signal.SIGILL: "the kernel executes an illegal instruction",
    signal.SIGTRAP: "the kernel executes a trap",
    signal.SIGABRT: "the kernel calls abort (a failed assert, or damaged memory)",
}
OF_MEMORY = (signal.SIGSEGV, signal.SIGBUS)
UNDEFINED = re.compile(r"symbol lookup error: .*: undefined symbol: (\S+)\s*$")
"""What the loader prints last when a function is called that the library lacks."""
PROCESS, NETWORK, FILE = "starts a process or a thread", "opens a network connection", "changes a file"
OPENS = "opens a file"
FORBIDDEN = {
    PROCESS: ((220, 56), (435, 435), (-1, 57), (-1, 58), (221, 59), (281, 322)),
    NETWORK: ((198, 41), (199, 53), (203, 42)),
    OPENS: (OPEN, OPENAT, (437, 437)),
    FILE: ((-1, 85), (35, 263), (34, 258), (-1, 87), (-1, 83), (-1, 82), (38, 264),
           (276, 316), (36, 266), (37, 265), (45, 76), (46, 77), (279, 319)),
    "sends a signal": ((129, 62), (130, 200), (131, 234)),
    "ends the process": ((94, 231),),
}  # fmt: skip
"""System calls that end a recording, in words: numbers on AArch64 and x86-64."""


@dataclass(frozen=True, eq=False)
class ArrayArgument:
    """An array that the entry gets as a pointer. The kernel sees a copy."""

    name: str
    array: np.ndarray[Any, Any]
    is_result: bool = False
    """Whether the array, which is contiguous, gets what the copy holds at the end."""


@dataclass(frozen=True, slots=True)
class ScalarArgument:
    """A number that the entry gets by value; `None` is a null pointer."""

    name: str
    dtype: str
    value: int | float | None


def record(
    build: Build,
    entry: str,
    arguments: Sequence[ArrayArgument | ScalarArgument],
    grid: int | None = None,
    limits: RecordLimits | None = None,
    *,
    inform: Inform | None = None,
    cores: Sequence[CoreName] = ("vector",),
    subblocks: int | None = 1,
) -> Recording:
    """Runs an entry in a process of its own and returns what it did.

    `entry` is a function that launches kernels; with a `grid` it is the kernel itself. A library for one core is run
    for that core; one for any core for all `cores`. `subblocks` is how many vector cores of a block run; with None,
    both do beside a cube core that does something, and of a kernel for vector cores only, if it asks for their number
    in the block and not how many there are. Without `inform`, values that instructions wrote are not known to the
    kernel: a `value` problem names each place that reads one, and accesses through pointers are recorded one by one:
    `load` and `store`, the address and the bytes.
    """
    limits = limits or RecordLimits()
    parts: list[Recording] = []
    objects = 0
    libraries = [each for each in build.libraries if entry in each.entries or not each.entries]
    for part, library in enumerate(sorted(libraries, key=lambda each: each.core != "cube")):
        before = tuple(site for part in parts for site in part.sites)
        run = _RecordingRun(
            library.path, build, entry, arguments, grid, limits, inform, before, objects, part, len(libraries)
        )
        is_paired = any(works(part) for part in parts)
        count = (VECTOR_CORES if is_paired else AS_ASKED) if subblocks is None else subblocks
        parts.append(run.run(OF_LIBRARY.get(library.core, cores), count))
        objects = run.objects
    return joined(parts)


def works(recording: Recording) -> bool:
    """Whether cores do more than order their own pipes."""
    blocks = [np.unique(block.calls) for launch in recording.launches for block in launch.blocks]
    numbers: list[int] = np.unique(np.concatenate(blocks)).tolist() if blocks else []
    return not all(is_own(recording.calls[number]) for number in numbers)


class _RecordingRun:
    """One recording, from start to end."""

    def __init__(
        self,
        library: Path,
        build: Build,
        entry: str,
        arguments: Sequence[ArrayArgument | ScalarArgument],
        grid: int | None,
        limits: RecordLimits,
        inform: Inform | None,
        before: tuple[Frames, ...],
        first_object: int,
        part: int,
        parts: int,
    ) -> None:
        self._library, self._target, self._entry, self._grid = library, build.target, entry, grid
        self._texts, self._own = build.texts, build.own
        self._elf = Elf.read(library)
        self._before, self._part = before, part
        self._limits, self._inform = limits, inform
        self._given = arguments
        self._arrays = {k: a for k, a in enumerate(arguments) if isinstance(a, ArrayArgument)}
        self._sizes = {k: argument.array.nbytes for k, argument in self._arrays.items()}
        self._shared = SharedBuffer(Sizes(limits.calls, limits.memory), list(self._sizes.values()))
        self._offsets = dict(zip(self._sizes, self._shared.offsets, strict=True))
        for k, argument in self._arrays.items():
            bytes_of = np.ascontiguousarray(argument.array).reshape(-1).view(np.uint8)
            if bytes_of.any():  # a page that is not written costs nothing
                self._shared.array(self._offsets[k], self._sizes[k])[:] = bytes_of
        self._places = Places()
        self._values = len(arguments) + part
        """The argument that is what this part has stored."""
        names = (f"stored_values{k or ''}" for k in range(parts))
        described = [
            *map(_described, arguments), *(LaunchArgument(name, "uint8", (VALUES,), is_stored=True) for name in names)
        ]  # fmt: skip
        self._reader = TraceReader(self._shared, self._places, described, len(before), first_object)
        self._source: SourcePlaces | None = None
        self._resolved = before
        self._views: tuple[np.ndarray[Any, np.dtype[np.uint8]] | None, ...] = ()
        self._answer_seconds = limits.answer_seconds
        self._runs = 0, 0
        """How often each block is run, at least and at most: on each core, for each vector core of a cube core."""
        self._problems: list[RecordingProblem] = []

    @property
    def objects(self) -> int:
        """The number of the next tile."""
        return self._reader.next_object

    def run(self, cores: Sequence[CoreName], subblocks: int) -> Recording:
        self._shared.set("cores", sum(CORES[core] for core in set(cores)))
        self._shared.set("subblocks", subblocks)
        on_cube, on_vector = "cube" in cores, "vector" in cores  # a source may state one vector core for each cube core
        most = VECTOR_CORES if subblocks == AS_ASKED else subblocks
        self._runs = on_cube + on_vector, on_cube + most * on_vector
        self._shared.set("informs", self._inform is not None)
        task = {
            "library": str(self._library.resolve()), "grid": self._grid, "name": self._entry,
            "arguments": [self._spec(k) for k in range(len(self._given))],
        }  # fmt: skip
        try:
            with Child(self._shared, self._limits, task) as child:
                self._follow(child)
                status = child.status()
                printed, cut = child.printed()
            for k, argument in self._arrays.items():
                if argument.is_result:
                    argument.array.reshape(-1).view(np.uint8)[:] = self._shared.array(self._offsets[k], self._sizes[k])
            return self._result(status, printed, cut=cut)
        finally:
            self._shared.close_file()

    def _spec(self, k: int) -> list[Any]:
        argument = self._given[k]
        if isinstance(argument, ArrayArgument):
            return ["array", self._offsets[k], self._sizes[k]]
        if argument.value is None:
            return ["null"]
        kind = dtype(argument.dtype)
        if kind.name in ("float16", "bfloat16"):
            return ["uint16", int(np.array(argument.value, kind.numpy).view(np.uint16))]
        value = float(argument.value) if kind.is_float else int(argument.value)
        return [kind.name, value]

    # ------------------------------------------------------------------------------------------- while it runs

    def _follow(self, child: Child) -> None:
        """Answers requests until the process ends."""
        left = self._limits.requests
        while (event := child.wait()) == "request":
            left -= 1
            if not self._answered(more=left >= 0):
                child.kill()
                return
            if not child.answer():
                event = "flood"
                break
        if event == "late":
            child.ask_to_stop()
        elif event == "flood":
            self._problem("trace", "the kernel asks for values and does not wait for them")
            child.kill()

    def _answered(self, *, more: bool) -> bool:
        """Answers a request; False if the recording ends here."""
        if not more:
            most = f"{self._limits.requests:,}"
            self._problem("limit", f"the kernel reads more than {most} values that instructions wrote")
            return False
        begin = time.monotonic()
        try:
            self._answer(begin + self._answer_seconds)
        except TraceError as error:
            self._problem("trace", str(error))
            return False
        except TimeoutError:
            most = f"{self._limits.answer_seconds:g}"
            self._problem("limit", f"ptokit needs more than {most} s for values that the kernel reads")
            return False
        self._answer_seconds -= time.monotonic() - begin
        return True

    def _answer(self, until: float) -> None:
        self._advance()
        request = self._request()
        if len(self._views) != len(self._reader.arguments):
            self._views = tuple(self._array_views())
        memories = SharedMemories(self._views, self._shared.local())
        launches, sites = self._reader.launches(), self._sites()
        partial = PartialRecording(
            self._target, sites, self._reader.calls, launches, request=request, part=self._part, until=until
        )
        value = self._inform(memories, partial) if self._inform is not None else None
        self._shared.set("reply", UNKNOWN_VALUE if value is None else VALUE_ONLY if value else ALL_CURRENT)
        if value:
            data = np.frombuffer(value[:64], np.uint8)
            self._shared.control["value"][0, : len(data)] = data

    def _request(self) -> ValueRequest:
        shared = self._shared
        if shared.get("request_kind") == 1:
            number = shared.get("request_call")
            if number >= len(self._reader.calls):
                raise TraceError("the trace is damaged (a request for no call)")
            call = self._reader.calls[number]
            tile = call.operands[0] if call.operands else None
            offset = getattr(call.operands[-1], "value", None) if call.operands else None
            if not isinstance(tile, RecordedTile) or not isinstance(offset, int):
                raise TraceError("the trace is damaged (a request for no tile)")
            return ValueRequest("tile", tile, offset, min(shared.get("request_bytes"), 64), call.site)
        pointer = self._pointer(shared.get("request_address"))
        return ValueRequest("memory", pointer, 0, 0, shared.get("request_call") + len(self._before))

    def _pointer(self, address: int) -> RecordedPointer:
        """Where an address is: in an argument, or in an on-chip memory."""
        argument, offset = self._places.find(address)
        memory, at = divmod(address - self._shared.get("base") - self._shared.places["local"], LOCAL)
        if argument is None and 0 <= memory < len(MEMORIES):
            return RecordedPointer(None, at, MEMORIES[memory])
        return RecordedPointer(argument, offset)

    def _array_views(self) -> list[np.ndarray[Any, np.dtype[np.uint8]] | None]:
        views: list[np.ndarray[Any, np.dtype[np.uint8]] | None] = []
        for k in range(len(self._reader.arguments)):
            if k in self._offsets:
                views.append(self._shared.array(self._offsets[k], self._sizes[k]))
            elif k == self._values:
                views.append(self._shared.array(self._shared.places["values"], VALUES))
            elif k in self._reader.allocations:
                views.append(self._shared.array(*self._reader.allocations[k]))
            else:
                views.append(None)
        return views

    def _advance(self) -> None:
        if not self._places.begins:
            base = self._shared.get("base")
            self._places.add(base + self._shared.places["values"], VALUES, self._values)
            for k, offset in self._offsets.items():
                self._places.add(base + offset, self._sizes[k], k)
        self._reader.advance()

    # ------------------------------------------------------------------------------------------- at the end

    def _result(self, status: int, printed: str, *, cut: bool) -> Recording:
        launches, stored = (), np.zeros(0, np.uint8)
        try:
            self._advance()
            stored = self._reader.stored()
            launches = self._reader.launches()
            if self._shared.get("state") == FINISHED:
                self._reader.check_whole(*self._runs)
        except TraceError as error:
            self._problem("trace", str(error))
        sites = self._sites()[len(self._before) :]
        self._explain(status, printed)
        self._add_remarks(cut=cut)
        arguments = [replace(each, shape=(0,)) if each.is_stored else each for each in self._reader.arguments]
        own = arguments[self._values] = replace(arguments[self._values], shape=stored.shape)
        launches = tuple(replace(launch, arguments=tuple(arguments)) for launch in launches)
        problems = tuple(dict.fromkeys(self._problems))
        calls = self._reader.calls
        return Recording(self._target, sites, calls, launches, problems, printed, {own.name: stored})

    def _sites(self) -> tuple[Frames, ...]:
        """The places of calls, with those of the libraries before."""
        known = len(self._resolved) - len(self._before)
        if known < len(self._reader.sites):
            self._resolved += tuple(self._frames(addresses) for addresses in self._reader.sites[known:])
        return self._resolved

    def _frames(self, addresses: tuple[int, ...]) -> Frames:
        if self._source is None:
            self._source = SourcePlaces(self._elf, self._own, self._texts)
        return self._source.frames(addresses)

    def _problem(
        self, kind: ProblemKind, message: str, frames: Frames = (), *, fatal: bool = True, fix: str = ""
    ) -> None:
        self._problems.append(RecordingProblem(kind, message, frames, fatal, fix))

    def _explain(self, status: int, printed: str) -> None:
        """Says why the process ended early, if it did."""
        state = self._shared.get("state")
        if state == FINISHED or any(problem.fatal for problem in self._problems):
            return
        count = min(self._shared.get("frame_count"), FRAMES)
        addresses = tuple(self._shared.control["frames"][0, :count].tolist())
        if missing := UNDEFINED.search(printed):
            self._problem("undefined", f"the kernel calls {shown_function(missing[1])}, which no source defines")
        elif state == STOPPED:
            kind, message = self._stopped()
            self._problem(kind, message, self._frames(addresses), fix=FILLED if self._is_null() else "")
        elif status == DONE and printed:
            self._problem("failure", f"the entry cannot be run: {printed.strip()[-500:]}")
        elif state == RUNNING:
            kind, message = _ended(status, self._limits)
            last = self._last_frames()
            self._problem(kind, message + (", after the last recorded call" if last else ""), last)
        else:
            kind, message = _ended(status, self._limits)
            self._problem(kind, f"{message}, before the entry was called")

    def _last_frames(self) -> Frames:
        """The place of the last recorded call."""
        call = self._reader.last_call()
        return self._frames_of_site(call.site) if call is not None else ()

    def _frames_of_site(self, site: int) -> Frames:
        sites = self._sites()
        return sites[site] if site < len(sites) else ()

    def _stopped(self) -> tuple[ProblemKind, str]:
        """What the recorder said when it stopped."""
        shared = self._shared
        number, address = shared.get("number"), shared.get("address")
        message = bytes(shared.control["message"][0]).partition(b"\0")[0].decode("utf-8", "replace")
        stated: dict[int, tuple[ProblemKind, str]] = {
            BY_STACK: ("crash", "the kernel's stack is full (endless recursion, or very large local arrays)"),
            BY_EXCEPTION: ("exception", f"the kernel throws an exception that nobody catches: {message}"),
            BY_LIMIT: ("limit", _limit_text(message, self._limits)),
            BY_FAILURE: ("failure", message),
            BY_GRID: ("failure", f"a launch of {number:,} blocks; a grid has at most {MOST_BLOCKS:,}"),
        }
        if (reason := shared.get("problem")) in stated:
            return stated[reason]
        if number == signal.SIGXCPU:
            return "limit", f"the kernel runs longer than {self._limits.seconds:g} s"
        if number == signal.SIGSYS:
            return _forbidden(address)
        text = SIGNALS.get(number, f"the kernel is ended by signal {number}")
        if number in OF_MEMORY:
            text += self._named_address(address)
        return "crash", text

    def _is_null(self) -> bool:
        """Whether the kernel crashed at an address near 0."""
        is_crash = self._shared.get("problem") == BY_SIGNAL and self._shared.get("number") in OF_MEMORY
        return is_crash and self._shared.get("address") < FIRST_PAGES

    def _named_address(self, address: int) -> str:
        at = self._pointer(address)
        name = at.memory if at.argument is None else self._reader.arguments[at.argument].name
        return f" (byte {at.offset} of {name})" if name else f" (address {address:#x})"

    def _add_remarks(self, *, cut: bool) -> None:
        for site in self._reader.unknown:
            message = "the kernel reads an unspecified value that instructions wrote; it counts as 0"
            self._problem("value", message, self._frames_of_site(site + len(self._before)), fatal=False)
        for site, address, *threads, both_write in self._reader.conflicts:
            first, second = sorted(threads)
            does = "both write" if both_write else "write and read"
            place = self._named_address(address).strip(" ()")
            message = f"threads {first} and {second} of a SIMT function {does} {place}, and no barrier is between"
            fix = "call __sync_workitems() between, or let both use atomic operations"
            frames = self._frames_of_site(site + len(self._before))
            self._problem("threads", message, frames, fatal=False, fix=fix)
        if cut:
            self._problem(
                "output", f"the kernel prints more than {self._limits.output:,} bytes; the rest is lost", fatal=False
            )
        if not any(problem.fatal for problem in self._problems) and (outside := self._reader.outside()):
            message = f"{outside:,} calls were made outside a launch; a kernel that is the entry itself needs a grid"
            self._problem("trace", message, fatal=False)


def _described(argument: ArrayArgument | ScalarArgument) -> LaunchArgument:
    if isinstance(argument, ArrayArgument):
        return LaunchArgument(argument.name, dtype(argument.array.dtype).name, tuple(argument.array.shape))
    return LaunchArgument(argument.name, argument.dtype, None, argument.value)


def _limit_text(what: str, limits: RecordLimits) -> str:
    if what == "calls":
        return f"the kernel makes more than {limits.calls:,} calls"
    if what in ("memory", "device memory"):
        return f"the kernel needs more than {limits.memory:,} bytes of {what}"
    return f"the recording has too many {what}"


def _forbidden(number: int) -> tuple[ProblemKind, str]:
    """A system call in words."""
    column = 0 if os.uname().machine == "aarch64" else 1
    for words, numbers in FORBIDDEN.items():
        if any(pair[column] == number for pair in numbers):
            return "exit" if words == "ends the process" else "forbidden", f"the kernel {words}"
    return "forbidden", f"the kernel makes system call {number}, which a kernel may not"


def _ended(status: int, limits: RecordLimits) -> tuple[ProblemKind, str]:
    """The end of a process that said nothing."""
    if status in (-signal.SIGXCPU, -signal.SIGKILL):
        return "limit", f"the kernel was ended: it ran longer than {limits.seconds:g} s or needed too much memory"
    if status == -signal.SIGSYS:  # with signals blocked, as the C library does while it starts one; or of 32 bits
        return "forbidden", f"the kernel {PROCESS}, or makes another system call that a kernel may not"
    if status < 0:
        return "crash", f"the kernel was ended by signal {-status}"
    return "exit", f"the kernel ended the process with status {status}"


class JoinedCalls(Calls):
    """The calls of several recordings, one after the other."""

    def __init__(self, parts: Sequence[Sequence[RecordedCall]]) -> None:
        self._parts = parts
        self.starts = [0, *accumulate(len(part) for part in parts)]

    def __len__(self) -> int:
        return self.starts[-1]

    def call(self, number: int) -> RecordedCall:
        part = bisect_right(self.starts, number) - 1
        return self._parts[part][number - self.starts[part]]

    def alike(self, numbers: Ints) -> list[AlikeCalls]:
        found: list[AlikeCalls] = []
        for part, first, end in zip(self._parts, self.starts, self.starts[1:], strict=False):
            own = numbers[(numbers >= first) & (numbers < end)] - first
            found += [replace(each, numbers=each.numbers + first) for each in alike(part, own)]
        return found


def joined(parts: Sequence[Recording]) -> Recording:
    """The parts as one recording: launches in their order, each with the blocks of all parts.

    Sites and tiles of the parts are already numbered one after the other.
    """
    if len(parts) == 1:
        return parts[0]
    calls = JoinedCalls([part.calls for part in parts])
    launches = zip_longest(*(part.launches for part in parts))
    return Recording(
        parts[0].target,
        tuple(site for part in parts for site in part.sites),
        calls,
        tuple(_joined_launch(launch, calls.starts) for launch in launches),
        tuple(dict.fromkeys(problem for part in parts for problem in part.problems)),
        "".join(part.output for part in parts),
        {name: values for part in parts for name, values in part.stored.items()},
    )


def _joined_launch(parts: Sequence[RecordedLaunch | None], starts: Sequence[int]) -> RecordedLaunch:
    """One launch as every core saw it. A core whose recording ended early may lack it."""
    present = [part for part in parts if part is not None]
    blocks: list[RecordedBlock] = []
    for part, start in zip(parts, starts, strict=False):
        if part is not None:
            blocks += [replace(block, calls=block.calls + block.calls.dtype.type(start)) for block in part.blocks]
    order = sorted(blocks, key=lambda block: (block.index, block.core, block.subblock))
    complete = len(present) == len(parts) and all(part.complete for part in present)
    every = zip(*(part.arguments for part in present), strict=False)
    arguments = tuple(max(same, key=lambda each: each.shape or ()) for same in every)
    return replace(present[0], blocks=tuple(order), complete=complete, arguments=arguments)
