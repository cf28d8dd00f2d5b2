"""Reads the binary trace of a recorder. It may be wrong on purpose: everything is checked before it is used."""

from __future__ import annotations

import struct
from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, overload

import numpy as np

from ptokit.cxx.alike import AlikeCalls, Ints, equal_rows
from ptokit.cxx.recording import (
    BLAYOUTS,
    DTYPES,
    LAYOUTS,
    MEMORIES,
    PADS,
    SLAYOUTS,
    VECTOR_CORES,
    LaunchArgument,
    RecordedArray,
    RecordedBlock,
    RecordedCall,
    RecordedLaunch,
    RecordedOperand,
    RecordedPointer,
    RecordedScalar,
    RecordedText,
    RecordedTile,
)
from ptokit.cxx.shared import FRAMES, GAP, LAUNCHES, SharedBuffer
from ptokit.program.ir import MOST_BLOCKS

OF_HOST = frozenset(("pto_prefetch",))
"""Calls that host code makes: hints about caches."""
NO_TEXT = 0xFFFFFFFF
HALF = 0xFFFFFFFF
TILE, GLOBAL, SCALAR, POINTER, TEXT = range(5)
VIEW = 2
"""What a tile says of its address if it is a view of one that has none."""
OPERAND_WORDS = {TILE: 6, GLOBAL: 12, SCALAR: 1, POINTER: 1, TEXT: 1}
Numbers = np.ndarray[Any, np.dtype[np.uint64]]
FormNumbers = np.ndarray[Any, np.dtype[np.uint32]]
Maker = Callable[[int], RecordedOperand]
"""Makes an operand from its number."""


ALIGNED = 64
"""Bytes after which addresses in an array or an on-chip memory are aligned alike."""
MOST_ADDRESS = 1 << 62
"""Numbers from here on are no addresses."""
MOST_OPERANDS = 64
"""Operands, and modifiers, of a call: OPERANDS and MODIFIERS in runtime.cpp."""
TEXT_WORDS, FORM_WORDS = 1 + 4096 // 8, 2 + MOST_OPERANDS * (12 + 2)
"""The longest text and the longest form of a call, in words: TEXT in runtime.cpp."""
MOST_TEXTS = 1 << 16
MOST_SITES = 10_000
MOST_FORMS = 1 << 18
MOST_PARTS = 1 << 18
"""Operands and modifiers of forms that are unlike each other."""
MOST_RUNS = 1 << 20
"""Blocks of all launches, each core by itself."""
MOST_ALLOCATIONS = 4096
"""REGIONS in runtime.cpp."""


class TraceError(Exception):
    """A trace that no recorder writes: the kernel overwrote it."""


class _Copied:
    """The part of an area that was read: an own copy, which the kernel cannot change."""

    def __init__(self, kind: type[np.uint64 | np.uint32]) -> None:
        self._room: np.ndarray[Any, Any] = np.empty(1024, kind)
        self.used = 0

    def add(self, more: np.ndarray[Any, Any]) -> None:
        """Appends numbers."""
        end = self.used + len(more)
        if end > len(self._room):
            room = np.empty(max(end, 2 * len(self._room)), self._room.dtype)
            room[: self.used] = self.all
            self._room = room
        self._room[self.used : end] = more
        self.used = end

    @property
    def all(self) -> np.ndarray[Any, Any]:
        """What was read so far."""
        return self._room[: self.used]


@dataclass
class Places:
    """Which array an address belongs to."""

    begins: list[int] = field(default_factory=list[int])
    ends: list[int] = field(default_factory=list[int])
    arguments: list[int] = field(default_factory=list[int])

    def add(self, begin: int, size: int, argument: int) -> None:
        """Adds an array; arrays come in rising order of addresses."""
        self.begins.append(begin)
        self.ends.append(begin + size)
        self.arguments.append(argument)

    def find_all(self, addresses: Ints) -> tuple[Ints, Ints]:
        """The same of many addresses; without an argument, its number is -1."""
        if not self.begins:
            return np.full(len(addresses), -1), addresses
        begins, ends, arguments = (np.array(each, np.int64) for each in (self.begins, self.ends, self.arguments))
        k = np.searchsorted(begins, addresses + GAP // 2, "right") - 1
        at = np.maximum(k, 0)
        is_found = (k >= 0) & (addresses < ends[at] + GAP // 2)
        return np.where(is_found, arguments[at], -1), addresses - np.where(is_found, begins[at], 0)

    def find(self, address: int) -> tuple[int | None, int]:
        """The argument and the offset in it; without one, None and the address."""
        k = bisect_right(self.begins, address + GAP // 2) - 1
        if k >= 0 and address < self.ends[k] + GAP // 2:
            return self.arguments[k], address - self.begins[k]
        return None, address


@dataclass(frozen=True, slots=True)
class CallForm:
    """What equal calls share but for addresses and scalars."""

    name: str
    site: int
    modifiers: tuple[tuple[str, str | int], ...]
    operands: tuple[Maker | RecordedOperand, ...]
    """Operands, and how others are made from numbers."""
    numbers: int
    kinds: tuple[int, ...] = ()
    """Of each number: the kind of its operand if it is an address of a tile, or in an array; else that of a scalar."""

    def call(self, numbers: Sequence[int]) -> RecordedCall:
        """The call with these numbers."""
        left = iter(numbers)
        operands = tuple([operand(next(left)) if callable(operand) else operand for operand in self.operands])
        return RecordedCall(self.name, operands, self.modifiers, self.site)


class Calls(Sequence[RecordedCall]):
    """Calls whose objects are made when they are asked for."""

    @abstractmethod
    def call(self, number: int) -> RecordedCall:
        """The call of a number, which is one of them."""

    @overload
    def __getitem__(self, index: int) -> RecordedCall: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[RecordedCall]: ...
    def __getitem__(self, index: int | slice) -> RecordedCall | Sequence[RecordedCall]:
        if isinstance(index, slice):
            return [self[k] for k in range(*index.indices(len(self)))]
        return self.call(range(len(self))[int(index)])

    def __iter__(self) -> Iterator[RecordedCall]:
        return map(self.call, range(len(self)))

    @abstractmethod
    def alike(self, numbers: Ints) -> list[AlikeCalls]:
        """Calls of some rising numbers in groups, by their first numbers."""


class CallTable(Calls):
    """The distinct calls. An object is made when it is asked for, once."""

    def __init__(
        self, forms: list[CallForm], form: FormNumbers, start: Numbers, numbers: Numbers, places: Places
    ) -> None:
        self.forms, self._places = forms, places
        self.form = form
        """The form of each call, by number."""
        self.start = start
        """The place of its first number in `numbers`."""
        self.numbers = numbers
        """Addresses and the bits of scalars."""
        self._made: dict[int, RecordedCall] = {}

    def grown(self, form: FormNumbers, start: Numbers, numbers: Numbers) -> CallTable:
        """A table with more calls, the same at the start."""
        table = CallTable(self.forms, form, start, numbers, self._places)
        table._made = self._made
        return table

    def __len__(self) -> int:
        return len(self.form)

    def call(self, number: int) -> RecordedCall:
        made = self._made.get(number)
        if made is None:
            form = self.forms[int(self.form[number])]
            first = int(self.start[number])
            made = self._made[number] = form.call(self.numbers[first : first + form.numbers].tolist())
        return made

    def alike(self, numbers: Ints) -> list[AlikeCalls]:
        found = [
            each for rows in equal_rows([self.form[numbers]], len(numbers)) for each in self._of_form(numbers[rows])
        ]
        return sorted(found, key=lambda each: int(each.numbers[0]))

    def _of_form(self, numbers: Ints) -> Iterator[AlikeCalls]:
        """Calls of one form in groups."""
        form = self.forms[int(self.form[numbers[0]])]
        starts = self.start[numbers].astype(np.int64)
        operands = [place for place, operand in enumerate(form.operands) if callable(operand)]
        same: list[np.ndarray[Any, Any]] = []
        moving: dict[int, Ints] = {}
        for column, (place, kind) in enumerate(zip(operands, form.kinds, strict=True)):
            values = self.numbers[starts + column]
            if kind == SCALAR or int(values.max()) >= MOST_ADDRESS:
                same.append(values)
                continue
            moving[place] = values.astype(np.int64)
            argument, offset = (
                self._places.find_all(moving[place]) if kind != TILE else (moving[place] * 0, moving[place])
            )
            same += [argument, offset % ALIGNED]
        for rows in equal_rows(same, len(numbers)):
            shifts = {place: values[rows] - values[rows[0]] for place, values in moving.items()}
            yield AlikeCalls(self.call(int(numbers[rows[0]])), numbers[rows], shifts)


@dataclass(slots=True)
class _OpenBlock:
    index: int
    cube: bool
    subblock: int
    first: int
    last: int | None = None


@dataclass(slots=True)
class _OpenLaunch:
    call: int
    grid: int
    blocks: list[_OpenBlock] = field(default_factory=list[_OpenBlock])
    made: list[RecordedBlock] = field(default_factory=list[RecordedBlock])
    """The blocks as data; the last one may be open."""
    complete: bool = False


class TraceReader:
    """Follows a trace while it grows."""

    def __init__(
        self,
        shared: SharedBuffer,
        places: Places,
        arguments: Sequence[LaunchArgument],
        first_site: int = 0,
        first_object: int = 0,
    ) -> None:
        self.shared = shared
        self.places = places
        self.arguments = list(arguments)
        self.allocations: dict[int, tuple[int, int]] = {}
        """Offset and size by index of the argument."""
        self.sites: list[tuple[int, ...]] = []
        """Return addresses, innermost first, relative to the library."""
        self.unknown: list[int] = []
        """Sites that read values which nobody could tell."""
        self.conflicts: list[tuple[int, ...]] = []
        """Of threads: the site, the address, both threads, and whether both write."""
        self._base: int | None = None
        self._first_site, self._first_object = first_site, first_object
        self._texts: list[str] = []
        self._forms: list[CallForm] = []
        self._parts: dict[tuple[int, ...], Any] = {}
        """Operands and modifiers of forms, by their words."""
        self._launches: list[_OpenLaunch] = []
        self._objects: dict[int, int] = {}
        self._counts = [0] * len(_KINDS)
        self._definitions = self._end_of_blocks = 0
        self._end_of_numbers = np.uint64(0)
        """Each call's numbers follow those of the call before."""
        self._form_of, self._start_of, self._numbers = _Copied(np.uint32), _Copied(np.uint64), _Copied(np.uint64)
        self._sequence = _Copied(np.uint32)
        self._made: list[RecordedLaunch] = []
        self._pointer: Maker = lambda address: RecordedPointer(*places.find(address))
        self.calls = CallTable(self._forms, self._form_of.all, self._start_of.all, self._numbers.all, places)

    @property
    def next_object(self) -> int:
        """The number of the next tile."""
        return self._first_object + len(self._objects)

    def advance(self) -> None:
        """Reads what was written since the last time."""
        if self._base is None:
            self._base = self.shared.get("base")
        try:
            self._read_definitions()
            self._read_calls()
        except (IndexError, ValueError, struct.error) as error:
            raise TraceError(f"the trace is damaged ({error})") from error
        except MemoryError:
            raise TraceError("ptokit has too little memory for the trace") from None

    def check_whole(self, runs: int, most: int = 0) -> None:
        """Checks a recording that came to its end; `runs`: how often each block was run, at least and at `most`."""
        for launch in self._launches:
            count = len(launch.blocks)
            if not launch.complete or not launch.grid * runs <= count <= launch.grid * max(runs, most):
                raise TraceError(f"the trace is damaged (a launch of {launch.grid:,} blocks did not end)")

    # ------------------------------------------------------------------------------------------- definitions

    def _read_definitions(self) -> None:
        words = self.shared.news("definitions", self._definitions).data.cast("Q")
        at = 0
        while at < len(words):
            count, tag = words[at] >> 32, words[at] & HALF
            if not 0 < tag <= len(_KINDS):
                raise ValueError("a definition of no kind")
            kind = _KINDS[tag - 1]
            if not kind.least <= count <= min(kind.longest, len(words) - at - 1):
                raise ValueError(f"{kind.words} of {count:,} words")
            self._counts[tag - 1] += 1
            if self._counts[tag - 1] > kind.most:
                raise ValueError(f"more than {kind.most:,} times {kind.words}")
            kind.read(self, words[at + 1 : at + 1 + count].tolist())
            at += 1 + count
        self._definitions += len(words)

    def read_text(self, words: list[int]) -> None:
        data = struct.pack(f"<{len(words) - 1}Q", *words[1:])
        if words[0] > len(data):
            raise ValueError("a text without an end")
        self._texts.append(data[: words[0]].decode("utf-8", "replace"))

    def read_site(self, words: list[int]) -> None:
        self.sites.append(tuple(words))

    def read_unknown_value(self, words: list[int]) -> None:
        self.unknown.append(words[0])

    def read_conflict(self, words: list[int]) -> None:
        self.conflicts.append(tuple(words))

    def read_allocation(self, words: list[int]) -> None:
        offset, size = words
        if offset < self.shared.places["heap"] or offset + size > self.shared.size:
            raise ValueError("an allocation outside the memory")
        self.places.add((self._base or 0) + offset, size, len(self.arguments))
        self.allocations[len(self.arguments)] = offset, size
        self.arguments.append(LaunchArgument(f"allocation{len(self.allocations)}", "uint8", (size,)))

    def read_launch(self, words: list[int]) -> None:
        if words[1] > MOST_BLOCKS:
            raise ValueError(f"a launch of {words[1]:,} blocks; a grid has at most {MOST_BLOCKS:,}")
        if self._launches and not self._launches[-1].complete:
            raise ValueError("a launch inside another one")
        self._launches.append(_OpenLaunch(words[0], words[1]))

    def read_block(self, words: list[int]) -> None:
        launch, (index, is_cube, subblock, first) = self._launches[-1], words
        is_misplaced = index >= launch.grid or subblock >= VECTOR_CORES
        if self._block_is_open() or launch.complete or is_misplaced or first < self._end_of_blocks:
            raise ValueError("a block of no launch, or of calls of another block")
        launch.blocks.append(_OpenBlock(index, bool(is_cube), subblock, first))
        self._end_of_blocks = first

    def _block_is_open(self) -> bool:
        blocks = self._launches[-1].blocks
        return bool(blocks) and blocks[-1].last is None

    def read_block_end(self, words: list[int]) -> None:
        if not self._block_is_open() or words[0] < self._end_of_blocks:
            raise ValueError("the end of no block")
        self._launches[-1].blocks[-1].last = self._end_of_blocks = words[0]

    def read_launch_end(self, words: list[int]) -> None:
        if self._block_is_open():
            raise ValueError("a launch that ends before its last block")
        self._launches[-1].complete = True

    def read_form(self, words: list[int]) -> None:
        count, modifiers = words[1] & HALF, words[1] >> 32
        if max(count, modifiers) > MOST_OPERANDS:
            raise ValueError(f"a call with {max(count, modifiers):,} operands or modifiers")
        at = 2
        operands: list[Maker | RecordedOperand] = []
        kinds: list[int] = []
        for _ in range(count):
            kind = words[at] & 0xFF
            size = OPERAND_WORDS[kind] if kind in OPERAND_WORDS else len(words)
            if at + size > len(words):
                raise ValueError("an operand of no kind")
            operands.append(self._part((*words[at : at + size],), self._operand))
            if callable(operands[-1]):
                is_placed = kind != TILE or words[at + 4] >> 40 & 0xFF not in (0, VIEW)
                kinds.append(kind if is_placed else SCALAR)
            at += size
        if at + 2 * modifiers > len(words):
            raise ValueError("a call without its modifiers")
        pairs = tuple(self._part((*words[k : k + 2],), self._modifier) for k in range(at, at + 2 * modifiers, 2))
        name, site = self._texts[words[0] & HALF], words[0] >> 32
        if site >= len(self.sites):
            raise ValueError("a call from no place")
        form = CallForm(name, site + self._first_site, pairs, tuple(operands), len(kinds), tuple(kinds))
        self._forms.append(form)

    def _part(self, words: tuple[int, ...], make: Callable[[tuple[int, ...]], Any]) -> Any:
        """An operand or a modifier; equal ones are one object."""
        made = self._parts.get(words)
        if made is None:
            if len(self._parts) == MOST_PARTS:
                raise ValueError(f"more than {MOST_PARTS:,} operands and modifiers")
            made = self._parts[words] = make(words)
        return made

    def _modifier(self, words: tuple[int, ...]) -> tuple[str, str | int]:
        head, bits = words
        key, text = head & HALF, head >> 32
        return self._texts[key], bits - (bits >> 63 << 64) if text == NO_TEXT else self._texts[text]

    def _operand(self, words: tuple[int, ...]) -> Maker | RecordedOperand:
        """How an operand is made from its number, or the operand if it has none."""
        kind = words[0] & 0xFF
        if kind == TILE:
            return self._tile(words)
        if kind == GLOBAL:
            return self._array(words)
        if kind == SCALAR:
            return _scalar(DTYPES[words[0] >> 8 & 0xFF])
        if kind == POINTER:
            return self._pointer
        return RecordedText(self._texts[words[0] >> 32])

    def _tile(self, words: tuple[int, ...]) -> Maker:
        (
            rows,
            cols,
            valid_rows,
            valid_cols,
            dtype,
            memory,
            blayout,
            slayout,
            pad,
            assigned,
            compact,
            dynamic,
            fractal,
            bits,
        ) = _TILE.unpack(struct.pack("<4Q", *words[2:]))
        number = self._objects.setdefault(words[1], self.next_object)
        rest: Any = (
            MEMORIES[memory], DTYPES[dtype], rows, cols, valid_rows, valid_cols,
            _named(BLAYOUTS, blayout, "layout"), _named(SLAYOUTS, slayout, "layout"), fractal, _named(PADS, pad, "pad"),
            bits, compact, (bool(dynamic & 1), bool(dynamic & 2)),
        )  # fmt: skip
        if assigned == VIEW:
            return lambda offset: RecordedTile(number, None, *rest, view=offset)
        if not assigned:
            return lambda _: RecordedTile(number, None, *rest)
        return lambda address: RecordedTile(number, address, *rest)

    def _array(self, words: tuple[int, ...]) -> Maker:
        numbers: tuple[int, ...] = struct.unpack("<10q", struct.pack("<10Q", *words[1:11]))
        dtype, layout, dynamic = words[11] & 0xFF, words[11] >> 8 & 0xFF, words[11] >> 16 & 0xFFFF
        rest = (
            DTYPES[dtype], numbers[:5], numbers[5:], _named(LAYOUTS, layout, "layout"),
            tuple(bool(dynamic >> k & 1) for k in range(10)),
        )  # fmt: skip
        find = self.places.find
        return lambda address: RecordedArray(*find(address), *rest)

    # ------------------------------------------------------------------------------------------- calls

    def _read_calls(self) -> None:
        new = self.shared.news("entries", self._form_of.used).view(np.uint64).reshape(-1, 2)
        self._numbers.add(self.shared.news("numbers", self._numbers.used).view(np.uint64))
        recorded = self.shared.news("sequence", self._sequence.used).view(np.uint32)
        numbers = self._numbers.used
        if len(new):
            form, count = new[:, 0] & HALF, new[:, 0] >> 32
            if int(form.max()) >= len(self._forms):
                raise ValueError("a call of no form")
            known = np.array([form.numbers for form in self._forms], np.uint64)
            ends = self._end_of_numbers + np.cumsum(count, dtype=np.uint64)
            if np.any(known[form] != count) or np.any(new[:, 1] + count != ends) or ends[-1] > numbers:
                raise ValueError("a call without its own numbers")
            self._end_of_numbers = ends[-1]
            self._form_of.add(form)
            self._start_of.add(new[:, 1])
        if len(recorded) and int(recorded.max()) >= self._form_of.used:
            raise ValueError("a call that was not defined")
        self._sequence.add(recorded)
        if self._end_of_blocks > self._sequence.used:
            raise ValueError("a block of calls that were not made")
        self.calls = self.calls.grown(self._form_of.all, self._start_of.all, self._numbers.all)

    # ------------------------------------------------------------------------------------------- results

    def launches(self) -> tuple[RecordedLaunch, ...]:
        """The launches up to here; the last one may be open. What was made before is not made again."""
        if self._made and len(self._made[0].arguments) != len(self.arguments):
            self._made.clear()
        while self._made and not self._made[-1].complete:
            self._made.pop()
        arguments = self._made[0].arguments if self._made else tuple(self.arguments)
        for launch in self._launches[len(self._made) :]:
            self._made.append(self._finished(launch, arguments))
        return tuple(self._made)

    def stored(self) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """What scalar code and threads have stored."""
        try:
            return self.shared.news("values", 0)
        except ValueError as error:
            raise TraceError(f"the trace is damaged ({error})") from error

    def last_call(self) -> RecordedCall | None:
        """The call that was recorded last."""
        last = self._sequence.all[-1:]
        return self.calls[int(last[0])] if len(last) else None

    def outside(self) -> int:
        """How many calls belong to no launch, nor to the host."""
        every = self._sequence.all
        inside = sum(self._last(block) - block.first for launch in self._launches for block in launch.blocks)
        if inside == len(every):
            return 0
        of_host = [number for number, form in enumerate(self._forms) if form.name in OF_HOST]
        return len(every) - inside - int(np.isin(self.calls.form[every], of_host).sum())

    def _last(self, block: _OpenBlock) -> int:
        return self._sequence.used if block.last is None else block.last

    def _finished(self, launch: _OpenLaunch, arguments: tuple[LaunchArgument, ...]) -> RecordedLaunch:
        if launch.call >= len(self.calls):
            raise TraceError("the trace is damaged (a launch that was not defined)")
        call, made, sequence = self.calls[launch.call], launch.made, self._sequence.all
        if made:
            made.pop()  # it may have been open
        for block in launch.blocks[len(made) :]:
            calls = sequence[block.first : self._last(block)]
            made.append(RecordedBlock(block.index, "cube" if block.cube else "vector", block.subblock, calls))
        return RecordedLaunch(call.name, launch.grid, arguments, made, call.operands, launch.complete)


_TILE = struct.Struct("<4i8BH2xI")


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of definitions, and its bounds."""

    words: str
    """Its name in messages."""
    read: Callable[[TraceReader, list[int]], None]
    least: int
    """Words of a definition."""
    longest: int
    most: int
    """Definitions of a recording."""


_KINDS = (
    _Kind("a text", TraceReader.read_text, 1, TEXT_WORDS, MOST_TEXTS),
    _Kind("a place of a call", TraceReader.read_site, 0, FRAMES, MOST_SITES),
    _Kind("a form of calls", TraceReader.read_form, 2, FORM_WORDS, MOST_FORMS),
    _Kind("a launch", TraceReader.read_launch, 3, 3, LAUNCHES),
    _Kind("a block", TraceReader.read_block, 4, 4, MOST_RUNS),
    _Kind("the end of a block", TraceReader.read_block_end, 1, 1, MOST_RUNS),
    _Kind("the end of a launch", TraceReader.read_launch_end, 1, 1, LAUNCHES),
    _Kind("an allocation", TraceReader.read_allocation, 2, 2, MOST_ALLOCATIONS),
    _Kind("an unknown value", TraceReader.read_unknown_value, 1, 1, MOST_SITES),
    _Kind("a conflict of threads", TraceReader.read_conflict, 5, 5, MOST_SITES),
)
"""By tag, from 1 on: the order of `Tag` in runtime.cpp."""


def _named(names: Sequence[str], number: int, what: str) -> str:
    return names[number] if number < len(names) else f"{what} {number}"


@cache
def _scalar(dtype: str) -> Maker:
    read = _READ.get(dtype)
    if read is None:
        return lambda bits: RecordedScalar(dtype, bits)
    return lambda bits: RecordedScalar(dtype, read(bits))


def _signed(width: int) -> Callable[[int], int]:
    top, mask = 1 << (width - 1), (1 << width) - 1
    return lambda bits: ((bits & mask) ^ top) - top


def _float(numpy_type: str, width: int) -> Callable[[int], float]:
    return lambda bits: float(np.array(bits & ((1 << width) - 1), f"u{width // 8}").view(numpy_type))


_READ: dict[str, Callable[[int], int | float]] = {
    **{f"int{width}": _signed(width) for width in (4, 8, 16, 32, 64)},
    "float16": _float("f2", 16),
    "float32": _float("f4", 32),
    "float64": _float("f8", 64),
    "bfloat16": lambda bits: float(np.array((bits & 0xFFFF) << 16, "u4").view("f4")),
}
"""Values from bits; the other types are read as the bits themselves."""
