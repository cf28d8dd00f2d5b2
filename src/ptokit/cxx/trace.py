"""Reads the binary trace of a recorder. It may be wrong on purpose: everything is checked before it is used."""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, overload

import numpy as np

from ptokit.cxx.recording import (
    BLAYOUTS,
    DTYPES,
    LAYOUTS,
    MEMORIES,
    PADS,
    SLAYOUTS,
    Block,
    LaunchArgument,
    RecordedArray,
    RecordedCall,
    RecordedLaunch,
    RecordedOperand,
    RecordedPointer,
    RecordedScalar,
    RecordedText,
    RecordedTile,
)
from ptokit.cxx.shared import GAP, SharedBuffer

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


class TraceError(Exception):
    """A trace that no recorder writes: the kernel overwrote it."""


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

    def find(self, address: int) -> tuple[int | None, int]:
        """The argument and the offset in it; without one, None and the address."""
        k = bisect_right(self.begins, address + GAP // 2) - 1
        if k >= 0 and address < self.ends[k] + GAP // 2:
            return self.arguments[k], address - self.begins[k]
        return None, address


@dataclass(frozen=True)
class CallForm:
    """What equal calls share but for addresses and scalars."""

    name: str
    site: int
    modifiers: tuple[tuple[str, str | int], ...]
    makers: tuple[Maker | None, ...]
    """How operands are made from numbers; None for an operand of `fixed`."""
    fixed: tuple[RecordedOperand | None, ...]
    numbers: int

    def call(self, numbers: Sequence[int]) -> RecordedCall:
        """The call with these numbers."""
        left = iter(numbers)
        operands = tuple(
            made if maker is None else maker(next(left)) for maker, made in zip(self.makers, self.fixed, strict=True)
        )
        return RecordedCall(self.name, operands, self.modifiers, self.site)  # type: ignore[arg-type]


class CallTable(Sequence[RecordedCall]):
    """The distinct calls. An object is made when it is asked for, once."""

    def __init__(self, forms: list[CallForm], form: FormNumbers, start: Numbers, numbers: Numbers) -> None:
        self.forms = forms
        self.form = form
        """The form of each call, by number."""
        self.start = start
        """The place of its first number in `numbers`."""
        self.numbers = numbers
        """Addresses and the bits of scalars."""
        self._made: dict[int, RecordedCall] = {}

    def grown(self, form: FormNumbers, start: Numbers, numbers: Numbers) -> CallTable:
        """A table with more calls, the same at the start."""
        table = CallTable(self.forms, form, start, numbers)
        table._made = self._made
        return table

    def __len__(self) -> int:
        return len(self.form)

    @overload
    def __getitem__(self, index: int) -> RecordedCall: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[RecordedCall]: ...
    def __getitem__(self, index: int | slice) -> RecordedCall | Sequence[RecordedCall]:
        if isinstance(index, slice):
            return [self[k] for k in range(*index.indices(len(self)))]
        index = int(index)
        made = self._made.get(index)
        if made is None:
            index = range(len(self))[index]
            form = self.forms[int(self.form[index])]
            first = int(self.start[index])
            made = self._made[index] = form.call(self.numbers[first : first + form.numbers].tolist())
        return made

    def __iter__(self) -> Iterator[RecordedCall]:
        return (self[k] for k in range(len(self)))


@dataclass
class _OpenBlock:
    index: int
    cube: bool
    subblock: int
    first: int
    last: int | None = None


@dataclass
class _OpenLaunch:
    call: int
    grid: int
    blocks: list[_OpenBlock] = field(default_factory=list[_OpenBlock])
    made: list[Block] = field(default_factory=list[Block])
    """The blocks that have ended."""
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
        self._base = 0
        self._first_site, self._first_object = first_site, first_object
        self._texts: list[str] = []
        self._forms: list[CallForm] = []
        self._launches: list[_OpenLaunch] = []
        self._objects: dict[int, int] = {}
        self._definitions = self._entries = self._sequence = 0
        nothing = np.zeros(0, np.uint64)
        self.calls = CallTable(self._forms, np.zeros(0, np.uint32), nothing, nothing)

    @property
    def next_object(self) -> int:
        """The number of the next tile."""
        return self._first_object + len(self._objects)

    def advance(self) -> None:
        """Reads what was written since the last time."""
        self._base = self.shared.get("base")
        try:
            self._read_definitions()
            self._read_calls()
        except (IndexError, ValueError, struct.error) as error:
            raise TraceError(f"the trace is damaged ({error})") from error

    def detach(self) -> None:
        """Copies the calls, so that the shared memory can go."""
        form, start, numbers = self.calls.form, self.calls.start, self.calls.numbers
        self.calls = self.calls.grown(form.copy(), start.copy(), numbers.copy())

    # ------------------------------------------------------------------------------------------- definitions

    def _read_definitions(self) -> None:
        used = self.shared.used("definitions")
        words: list[int] = self.shared.words("definitions", self._definitions, used).tolist()
        at = 0
        while at < len(words):
            count = words[at] >> 32
            if at + 1 + count > len(words):
                raise ValueError("a definition ends after the trace")
            handler = _HANDLERS.get(words[at] & HALF)
            if handler is None:
                raise ValueError("a definition of no kind")
            handler(self, words[at + 1 : at + 1 + count])
            at += 1 + count
        self._definitions = used

    def _text(self, words: list[int]) -> None:
        data = struct.pack(f"<{len(words) - 1}Q", *words[1:])
        self._texts.append(data[: words[0]].decode("utf-8", "replace"))

    def _site(self, words: list[int]) -> None:
        self.sites.append(tuple(words))

    def _unknown_value(self, words: list[int]) -> None:
        self.unknown.append(words[0])

    def _allocation(self, words: list[int]) -> None:
        offset, size = words
        if offset < self.shared.places["heap"] or offset + size > self.shared.size:
            raise ValueError("an allocation outside the memory")
        self.places.add(self._base + offset, size, len(self.arguments))
        self.allocations[len(self.arguments)] = offset, size
        self.arguments.append(LaunchArgument(f"allocation{len(self.allocations)}", "uint8", (size,)))

    def _launch(self, words: list[int]) -> None:
        self._launches.append(_OpenLaunch(words[0], words[1]))

    def _block(self, words: list[int]) -> None:
        self._launches[-1].blocks.append(_OpenBlock(words[0], bool(words[1]), words[2], words[3]))

    def _block_end(self, words: list[int]) -> None:
        self._launches[-1].blocks[-1].last = words[0]

    def _launch_end(self, words: list[int]) -> None:
        self._launches[-1].complete = True

    def _form(self, words: list[int]) -> None:
        count, modifiers = words[1] & HALF, words[1] >> 32
        at = 2
        makers: list[Maker | None] = []
        fixed: list[RecordedOperand | None] = []
        for _ in range(count):
            kind = words[at] & 0xFF
            size = OPERAND_WORDS[kind] if kind in OPERAND_WORDS else len(words)
            part = words[at : at + size]
            if len(part) != size:
                raise ValueError("an operand of no kind")
            made = self._operand(kind, part)
            makers.append(made if callable(made) else None)
            fixed.append(None if callable(made) else made)
            at += size
        pairs: list[tuple[str, str | int]] = []
        for k in range(at, at + 2 * modifiers, 2):
            key, text = words[k] & HALF, words[k] >> 32
            number = words[k + 1] - (1 << 64 if words[k + 1] >> 63 else 0)
            pairs.append((self._texts[key], number if text == NO_TEXT else self._texts[text]))
        numbers = sum(maker is not None for maker in makers)
        name, site = self._texts[words[0] & HALF], words[0] >> 32
        if site >= len(self.sites):
            raise ValueError("a call from no place")
        self._forms.append(CallForm(name, site + self._first_site, tuple(pairs), tuple(makers), tuple(fixed), numbers))

    def _operand(self, kind: int, words: list[int]) -> Maker | RecordedOperand:
        """How an operand is made from its number, or the operand if it has none."""
        if kind == TILE:
            return self._tile(words)
        if kind == GLOBAL:
            return self._array(words)
        if kind == SCALAR:
            return _scalar(_named(DTYPES, words[0] >> 8 & 0xFF, "type"))
        if kind == POINTER:
            find = self.places.find
            return lambda address: RecordedPointer(*find(address))
        return RecordedText(self._texts[words[0] >> 32])

    def _tile(self, words: list[int]) -> Maker:
        rows, cols, valid_rows, valid_cols, dtype, memory, blayout, slayout, pad, assigned, compact, fractal, bits = (
            _TILE.unpack(struct.pack("<4Q", *words[2:]))
        )
        number = self._objects.setdefault(words[1], self.next_object)
        rest = (
            MEMORIES[memory], _named(DTYPES, dtype, "type"), rows, cols, valid_rows, valid_cols,
            _named(BLAYOUTS, blayout, "layout"), _named(SLAYOUTS, slayout, "layout"), fractal, _named(PADS, pad, "pad"),
            bits, compact,
        )  # fmt: skip
        if assigned == VIEW:
            return lambda offset: RecordedTile(number, None, *rest, view=offset)
        if not assigned:
            return lambda _: RecordedTile(number, None, *rest)
        return lambda address: RecordedTile(number, address, *rest)

    def _array(self, words: list[int]) -> Maker:
        numbers: tuple[int, ...] = struct.unpack("<10q", struct.pack("<10Q", *words[1:11]))
        dtype, layout, dynamic = words[11] & 0xFF, words[11] >> 8 & 0xFF, words[11] >> 16 & 0xFFFF
        rest = (
            _named(DTYPES, dtype, "type"), numbers[:5], numbers[5:], _named(LAYOUTS, layout, "layout"),
            tuple(bool(dynamic >> k & 1) for k in range(10)),
        )  # fmt: skip
        find = self.places.find
        return lambda address: RecordedArray(*find(address), *rest)

    # ------------------------------------------------------------------------------------------- calls

    def _read_calls(self) -> None:
        entries, numbers, sequence = (self.shared.used(area) for area in ("entries", "numbers", "sequence"))
        pairs = self.shared.words("entries", 0, 2 * entries).reshape(-1, 2)
        new = pairs[self._entries :]
        if len(new):
            form, count = new[:, 0] & HALF, new[:, 0] >> 32
            if int(form.max()) >= len(self._forms):
                raise ValueError("a call of no form")
            known = np.array([form.numbers for form in self._forms], np.uint64)
            if np.any(known[form] != count) or np.any(new[:, 1] > numbers) or np.any(new[:, 1] + count > numbers):
                raise ValueError("a call without its numbers")
        recorded = self.shared.sequence(self._sequence, sequence)
        if len(recorded) and int(recorded.max()) >= entries:
            raise ValueError("a call that was not defined")
        self._entries, self._sequence = entries, sequence
        forms = pairs.view(np.uint32)[:, 0]  # the lower half of the first word, without a copy
        self.calls = self.calls.grown(forms, pairs[:, 1], self.shared.words("numbers", 0, numbers))

    # ------------------------------------------------------------------------------------------- results

    def launches(self, *, copy: bool) -> tuple[RecordedLaunch, ...]:
        """The launches up to here; the last one may be open."""
        sequence = self.shared.sequence(0, self._sequence)
        if copy:
            sequence = sequence.copy()
            for launch in self._launches:
                launch.made.clear()
        return tuple(self._finished(launch, sequence) for launch in self._launches)

    def last_call(self) -> RecordedCall | None:
        """The call that was recorded last."""
        last = self.shared.sequence(0, self._sequence)[-1:]
        return self.calls[int(last[0])] if len(last) and int(last[0]) < len(self.calls) else None

    def outside(self) -> int:
        """How many calls belong to no launch, nor to the host."""
        inside = 0
        for launch in self._launches:
            inside += sum(self._last(block) - block.first for block in launch.blocks)
        if inside == self._sequence:
            return 0
        of_host = [number for number, call in enumerate(self.calls) if call.name in OF_HOST]
        return self._sequence - inside - int(np.isin(self.shared.sequence(0, self._sequence), of_host).sum())

    def _last(self, block: _OpenBlock) -> int:
        return self._sequence if block.last is None else block.last

    def _finished(self, launch: _OpenLaunch, sequence: np.ndarray[Any, np.dtype[np.uint32]]) -> RecordedLaunch:
        if launch.call >= len(self.calls):
            raise TraceError("the trace is damaged (a launch that was not defined)")
        call = self.calls[launch.call]
        made = launch.made
        for block in launch.blocks[len(made) :]:
            ended = _block(block, sequence[block.first : self._last(block)])
            if block.last is None:
                return self._launched(launch, call, (*made, ended))
            made.append(ended)
        return self._launched(launch, call, tuple(made))

    def _launched(self, launch: _OpenLaunch, call: RecordedCall, blocks: tuple[Block, ...]) -> RecordedLaunch:
        return RecordedLaunch(call.name, launch.grid, tuple(self.arguments), blocks, call.operands, launch.complete)


def _block(block: _OpenBlock, calls: np.ndarray[Any, np.dtype[np.uint32]]) -> Block:
    return Block(block.index, "cube" if block.cube else "vector", block.subblock, calls)


_TILE = struct.Struct("<4i7BxH2xI")


_HANDLERS: dict[int, Callable[[TraceReader, list[int]], None]] = dict(
    enumerate(
        (
            TraceReader._text, TraceReader._site, TraceReader._form, TraceReader._launch, TraceReader._block,
            TraceReader._block_end, TraceReader._launch_end, TraceReader._allocation, TraceReader._unknown_value,
        ),
        start=1,
    )
)  # fmt: skip
"""By tag: the order of `Tag` in runtime.cpp."""


def _named(names: Sequence[str], number: int, what: str) -> str:
    return names[number] if number < len(names) else f"{what} {number}"


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
