"""The calls of a recorded launch, each as a shape and numbers, and what each core did as a stream of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, lru_cache
from operator import itemgetter
from typing import Any

import numpy as np

from ptokit.cxx.alike import AlikeCalls, Ints, alike, equal_rows
from ptokit.cxx.decoding import InstrShape, Slot, instr_shape, with_element
from ptokit.cxx.fit import Unfit
from ptokit.cxx.loops import FoldedBlocks, Stream, Tables, fold, table_of
from ptokit.cxx.operands import (
    Arrays,
    ArraySlot,
    ElementSlot,
    Indices,
    TileSlot,
    Unexpressible,
    at_home,
    has_view,
    homes,
    tile_slot,
)
from ptokit.cxx.problems import plain_name, unmodelled, where_of
from ptokit.cxx.recording import (
    VECTOR_CORES,
    CoreName,
    RecordedArray,
    RecordedBlock,
    RecordedCall,
    RecordedLaunch,
    RecordedTile,
    Recording,
)
from ptokit.cxx.statements import (
    BarrierShape,
    CrossShape,
    FlagShape,
    SyncShape,
    TokenFlags,
    TokenShape,
    UnitUse,
    awaits_second,
    group_flags,
    is_idle,
    is_own,
    sync_shape,
    unit_use,
    without_groups,
)
from ptokit.finding import Where
from ptokit.isa.policy import TileType
from ptokit.program.cores import OTHER, stated_core
from ptokit.target import profile
from ptokit.target.profile import CROSS_IDS, CUBE_CORE

Shape = InstrShape | SyncShape
Call = tuple[int, Indices]
"""A call: its shape, and its numbers."""
NO_CALLS = np.empty(0, np.int64), np.empty(0, np.int64)
PLACED = 3
"""Numbers of a tile, or of an element, that has an address: it is the first."""
MOST_UNLIKE = 15_000
"""Calls of blocks that are unlike each other, in one program."""


def foldable(recording: Recording, launch: RecordedLaunch, most: int = MOST_UNLIKE) -> RecordedLaunch:
    """The launch with the blocks that a program is made of: all, unless they are unlike each other and make too many
    calls. The first and the last are the last to be left out."""
    if sum(len(block.calls) for block in launch.blocks) <= most:
        return launch
    shapes = CallShapes(recording, launch)
    first, *others = sorted(shapes.by_index)
    sequences: dict[bytes, int] = {}
    kept: set[int] = set()
    for index in (first, *others[-1:], *others[:-1]):
        sequence = np.concatenate([stream.shapes for streams in shapes.streams(index) for stream in streams])
        key = sequence.tobytes()
        if not kept or key in sequences or sum(sequences.values()) + len(sequence) <= most:
            sequences[key] = len(sequence)
            kept.add(index)
    if len(kept) == len(others) + 1:
        return launch
    return replace(launch, blocks=tuple(block for block in launch.blocks if block.index in kept))


class CallShapes:
    """The calls of a launch, each as a shape and numbers."""

    def __init__(self, recording: Recording, launch: RecordedLaunch, *, placed: bool = True) -> None:
        self.recording, self.kernel = recording, plain_name(launch.name)
        is_used = np.zeros(len(recording.calls), np.bool_)
        for block in launch.blocks:
            is_used[block.calls] = True
        groups = alike(recording.calls, np.flatnonzero(is_used))
        self.groups: list[AlikeCalls] = [
            group.with_calls(lambda call: with_element(call, launch.arguments)) for group in groups
        ]
        """The calls that are alike, by their first numbers."""
        self._group_of = _numbered(self.groups, len(is_used))
        self.vector_cores = self._vector_cores(launch)
        self.blocks = [block for block in launch.blocks if block.subblock < self.vector_cores]
        self.by_index: dict[int, list[RecordedBlock]] = {block.index: [] for block in launch.blocks}
        for block in self.blocks:
            self.by_index[block.index].append(block)
        self.homes = homes([group.last() for group in self.groups]) if placed else {}
        """Addresses for tiles that have none and that others are views of."""
        self.viewed = [group.call.site for group in self.groups if has_view(group.call)]
        """The sites of calls on views of such tiles."""
        if self.homes:
            self.groups = [group.with_calls(lambda call: at_home(call, self.homes)) for group in self.groups]
        self.arrays = Arrays(launch.arguments, [use for group in self.groups for use in _array_uses(group)])
        self.groups = [part for group in self.groups for part in self._by_argument(group)]
        self._group_of = _numbered(self.groups, len(is_used))
        self.shapes: list[Shape] = []
        self.tables = Tables()
        self._numbers: dict[Shape, int] = {}
        self._rows: dict[tuple[int, Indices], int] = {}
        self._made: dict[CoreName, tuple[Ints, Ints]] = {}
        self.where = lru_cache(maxsize=None)(self._where)
        self.given: dict[TileSlot, dict[int, Where | None]] = {}
        """The places that gave tiles of a type an address."""
        self.families: dict[tuple[TileSlot, int], int] = {}
        """By the type and the address of a tile that is a view of another one, and of that one: a number of both."""
        for _, (first, *others), site in sorted(self._assigned(), key=itemgetter(0)):
            self.given.setdefault(first[0], {}).setdefault(first[1], self.where(site))
            for other in others:
                self.families[first] = self.families.setdefault(other, -1 - len(self.families))

    def _assigned(self) -> Iterator[tuple[int, list[tuple[TileSlot, int]], int]]:
        """The calls that give tiles addresses: their numbers, the tiles with their addresses, and the sites."""
        for group in self.groups:
            for k, number in enumerate(group.numbers.tolist() if group.call.name == "tassign" else ()):
                with suppress(Unexpressible):
                    tiles = [
                        (tile_slot(tile)[0], tile.address)
                        for tile in group.at(k).operands
                        if isinstance(tile, RecordedTile) and tile.address is not None
                    ]
                    if tiles:
                        yield number, tiles, group.call.site

    def _by_argument(self, group: AlikeCalls) -> list[AlikeCalls]:
        """The parts of a group whose arrays are the same arguments."""
        columns = list[Ints]()
        for use, offsets in _array_uses(group):
            with suppress(Unexpressible):
                column = np.zeros(len(offsets), np.int64)
                for number, (_, rows, _) in enumerate(self.arrays.views(use, offsets)):
                    column[rows] = number
                columns.append(column)
        rows = equal_rows(columns, len(group.numbers))
        return [group] if len(rows) == 1 else [group.part(own) for own in rows]

    def _vector_cores(self, launch: RecordedLaunch) -> int:
        """How many vector cores of a block a program needs: the second one if it does something, or if the cube core
        waits for it."""
        seconds = [block for block in launch.blocks if block.subblock]
        if not seconds:
            return 1
        cross = headers.cross if (headers := profile(self.recording.target).headers) else None
        of_both = cross is not None and cross.both_vectors
        cubes = [block for block in launch.blocks if block.core == "cube"]
        does_more = any(not is_own(call) for call in self._called(seconds))
        is_awaited = any(awaits_second(call, of_both=of_both) for call in self._called(cubes))
        return VECTOR_CORES if does_more or is_awaited else 1

    def _called(self, blocks: Sequence[RecordedBlock]) -> Iterator[RecordedCall]:
        """The calls of some blocks that are unlike each other."""
        numbers = {number for block in blocks for number in self._groups_in(block)}
        return (self.groups[number].call for number in sorted(numbers))

    def _groups_in(self, block: RecordedBlock) -> list[int]:
        """The groups of the calls of a block."""
        return np.unique(self._group_of[block.calls]).tolist()

    def _where(self, site: int) -> Where | None:
        return where_of(self.recording.sites[site], self.kernel)

    def made(self, core: CoreName) -> tuple[Ints, Ints]:
        """The shape and the row of each call, by its number; shape -1 for one that no program states."""
        if core not in self._made:
            used = {number for block in self.blocks if block.core == core for number in self._groups_in(block)}
            shapes, rows = np.full((2, len(self._group_of)), -1)
            for number in sorted(used):
                group = self.groups[number]
                if (found := self._make(group, core)) is not None:
                    shapes[group.numbers] = found[0]
                    rows[group.numbers] = self.tables.add(*found) + np.arange(len(group.numbers))
            self._made[core] = shapes, rows
        return self._made[core]

    def _make(self, group: AlikeCalls, core: CoreName) -> tuple[int, Any] | None:
        """The shape of calls that are alike, and a row of numbers for each."""
        try:
            call = without_groups(group.call, self._groups, self.vector_cores)
            if call is None or is_idle(call, core, self.vector_cores):
                return None
            shape, numbers = sync_shape(call, core) or instr_shape(call, self.arrays, self.recording.target)
        except Unexpressible as problem:
            raise unmodelled(str(problem), self.where(group.call.site)) from problem
        rows = np.repeat(table_of([numbers]), len(group.numbers), axis=0)
        at = 0
        for place, slot in placed_slots(shape):
            shift = group.shifts.get(place)
            if shift is not None and isinstance(slot, ArraySlot):
                operand = call.operands[place]
                assert isinstance(operand, RecordedArray)
                ((_, _, found),) = self.arrays.views(operand, operand.offset + shift)
                rows[:, at : at + slot.size] = found
            elif shift is not None and isinstance(slot, TileSlot | ElementSlot) and slot.size == PLACED:
                rows[:, at] += shift
            at += slot.size
        return self._number_of(shape), rows

    @cached_property
    def _groups(self) -> dict[int, int]:
        return group_flags(group.call for group in self.groups)

    def _number_of(self, shape: Shape) -> int:
        if shape not in self._numbers:
            self._numbers[shape] = len(self.shapes)
            self.shapes.append(shape)
        return self._numbers[shape]

    def _row_of(self, call: Call) -> int:
        """The row of a call that was not recorded."""
        if call not in self._rows:
            self._rows[call] = self.tables.add(call[0], table_of([call[1]]))
        return self._rows[call]

    def rank(self, shape: int) -> object:
        """The place of a shape in the source: lines, the outermost first."""
        frames = self.recording.sites[self.shapes[shape].site]
        return [(frame.line, frame.column) for frame in reversed(frames)]

    def streams(self, block: int, *, apart: bool = False) -> list[list[Stream]]:
        """What the vector cores of a block did, each in one order with the cube core, whose calls are the same in both:
        together if they are alike and not to be `apart`, else the second one alone."""
        parts = [part for part in self.by_index[block] if part.core in self.cores or not self.cores]
        calls = {(part.core, part.subblock): self._calls(part) for part in parts}
        cores = [(core == "vector", own) for (core, vector), own in calls.items() if not vector]
        joint = self._joint(cores)
        of_vector, merged = self._merged(cores, joint)
        if self.vector_cores < 2:
            return [[Stream(block, *merged, self.tables)]]
        if joint:
            apart_from = {part: ~np.isin(own[0], joint) for part, own in calls.items()}
            calls = {part: (own[0][apart_from[part]], own[1][apart_from[part]]) for part, own in calls.items()}
        first, second = Stream(block, *merged, self.tables, 0), calls.get(("vector", 1), NO_CALLS)
        own = calls.get(("vector", 0), NO_CALLS)
        if apart or not np.array_equal(own[0], second[0]):
            return [[first], [Stream(block, *second, self.tables, 1)]]
        rows = merged[1].copy()
        rows[of_vector] = second[1]
        return [[first, Stream(block, merged[0], rows, self.tables, 1)]]

    def folded(self) -> list[FoldedBlocks]:
        """The loops of all blocks. Vector cores of a block share statements if all their numbers have expressions."""
        with suppress(Unfit):
            return fold([own for block in sorted(self.by_index) for own in self.streams(block)], self.rank)
        return fold([own for block in sorted(self.by_index) for own in self.streams(block, apart=True)], self.rank)

    def _joint(self, cores: Sequence[tuple[bool, tuple[Ints, Ints]]]) -> list[int]:
        """The shapes of calls that the cube core and the first vector core make together, and that are recorded on
        both: gathers into L1 (a5/MGather.hpp:311, 404)."""
        found = [number for number, shape in enumerate(self.shapes) if _is_gather_into_l1(shape)]
        of_all = [np.isin(found, calls[0]).any() for _, calls in cores] if found else []
        return found if len(of_all) > 1 and all(of_all) else []

    @cached_property
    def cores(self) -> frozenset[CoreName]:
        """The cores that do more than order their own pipes."""
        orders = (BarrierShape, FlagShape, TokenShape)
        return frozenset([core for core, shape in self._all_made() if not isinstance(self.shapes[shape], orders)])

    def _all_made(self) -> Iterator[tuple[CoreName, int]]:
        """The shapes of the calls of all blocks, and the core."""
        cores: dict[CoreName, None] = {block.core: None for block in self.blocks}
        for core in cores:
            found: list[int] = np.unique(self.made(core)[0]).tolist()
            for shape in found[found[0] < 0 :]:
                yield core, shape

    def stated_core(self, core: str, *pipes: str) -> str:
        """The core of a flag or a barrier, if both cores do something."""
        return stated_core(core, *pipes) if len(self.cores) > 1 else ""

    def _calls(self, block: RecordedBlock) -> tuple[Ints, Ints]:
        """The shapes and the rows of the calls of a core."""
        shapes, rows = (each[block.calls] for each in self.made(block.core))
        is_stated = shapes >= 0
        shapes, rows = shapes[is_stated], rows[is_stated]
        numbers: list[int] = np.unique(shapes).tolist()
        used = [self.shapes[shape] for shape in numbers]
        tokens = [shape for shape in used if isinstance(shape, TokenShape)]
        units = [number for number in self._groups_in(block) if unit_use(self.groups[number].call)]
        if not tokens and not units:
            return shapes, rows
        found: list[Call] = list(map(self._call, shapes.tolist(), rows.tolist()))
        try:
            if units:
                own = np.where(np.isin(self._group_of[block.calls], units), block.calls.astype(np.int64), -1)[is_stated]
                found = self._tokens.unit_flags(
                    list(zip(found, map(self._unit, own.tolist()), strict=True)), self._number_of
                )
            found = self._tokens.flags(found, self.shapes, self._number_of) if tokens else found
        except Unexpressible as problem:
            site = next(iter((*tokens, *(self.groups[number].call for number in units)))).site
            raise unmodelled(str(problem), self.where(site)) from problem
        made = [(call[0], self._row_of(call)) for call in found]
        shapes, rows = np.array(made, np.int64).reshape(-1, 2).T
        return np.ascontiguousarray(shapes), rows

    def _call(self, shape: int, row: int) -> Call:
        call = shape, self.tables.numbers(shape, row)
        self._rows.setdefault(call, row)
        return call

    def _unit(self, number: int) -> UnitUse | None:
        """How a call uses the unit flag of an accumulator."""
        if number < 0:
            return None
        group = self.groups[int(self._group_of[number])]
        return unit_use(group.at(int(np.searchsorted(group.numbers, number))))

    @cached_property
    def _tokens(self) -> TokenFlags:
        flags = [
            (shape, number) for _, number in self._all_made() if isinstance(shape := self.shapes[number], FlagShape)
        ]
        return TokenFlags(
            ((flag.src, flag.dst), event)
            for flag, number in flags for event in np.unique(self.tables.table(number)[:, 0]).tolist()
        )  # fmt: skip

    def _merged(
        self, cores: Sequence[tuple[bool, tuple[Ints, Ints]]], joint: Sequence[int]
    ) -> tuple[Any, tuple[Ints, Ints]]:
        """The calls of several cores in an order in which each wait for another core comes after its set, and whether
        they are those of a vector core. A `joint` call is one of the cube core, when all have come to it."""
        if len(cores) == 1:
            of_vector, calls = cores[0]
            return np.full(len(calls[0]), of_vector), calls
        cube = next((k for k, (of_vector, _) in enumerate(cores) if not of_vector), 0)
        runs = list(self._runs([self._crossings(calls, joint) for _, calls in cores], cube, joint))
        sizes = np.array([end - first for _, first, end in runs], np.int64)
        of_vector = np.repeat(np.array([cores[k][0] for k, _, _ in runs], np.bool_), sizes)
        parts = [[cores[k][1][column][first:end] for k, first, end in runs] for column in (0, 1)]
        shapes, rows = (np.concatenate(own) if own else NO_CALLS[0] for own in parts)
        return of_vector, (shapes, rows)

    def _crossings(self, calls: tuple[Ints, Ints], joint: Sequence[int]) -> list[tuple[int, Call | None]]:
        """The positions of the flags between the cores and of joint calls among the calls of a core, and its end."""
        crossing = [number for number, shape in enumerate(self.shapes) if isinstance(shape, CrossShape)]
        at = np.flatnonzero(np.isin(calls[0], [*crossing, *joint]))
        flags = map(self._call, calls[0][at].tolist(), calls[1][at].tolist())
        return [*zip(at.tolist(), flags, strict=True), (len(calls[0]), None)]

    def _runs(
        self, cores: Sequence[list[tuple[int, Call | None]]], cube: int, joint: Sequence[int]
    ) -> Iterator[tuple[int, int, int]]:
        """The order of calls: cores, each with the first call and the end of those that follow each other. A core goes
        on up to a flag that it cannot pass."""
        tokens: Counter[tuple[str, int]] = Counter()
        at, next_, patient = [0] * len(cores), [0] * len(cores), True
        while any(at[k] < core[-1][0] for k, core in enumerate(cores)):
            before = list(at)
            for k, core in enumerate(cores):
                while at[k] < core[-1][0]:
                    stop, flag = core[next_[k]]
                    if at[k] < stop:
                        yield k, at[k], stop
                        at[k], patient = stop, True
                    elif flag is not None and flag[0] not in joint and self._passes(flag, tokens, patient=patient):
                        yield k, stop, stop + 1
                        at[k], next_[k], patient = stop + 1, next_[k] + 1, True
                    else:
                        break
            heads = [core[next_[k]][1] for k, core in enumerate(cores)]
            if all(head is not None and head[0] in joint for head in heads):
                yield cube, at[cube], at[cube] + 1
                at, next_, patient = [each + 1 for each in at], [each + 1 for each in next_], True
            if at == before and not patient:  # no core can go on: the machine says why
                yield from ((k, at[k], core[-1][0]) for k, core in enumerate(cores))
                return
            patient = at != before

    def _passes(self, call: tuple[int, Indices], tokens: Counter[tuple[str, int]], *, patient: bool) -> bool:
        """Whether a call can be made now. Notes its effect on the flags between the cores. A `patient` core sets a flag
        again only when the other one has waited for it."""
        shape, numbers = self.shapes[call[0]], call[1]
        assert isinstance(shape, CrossShape)
        is_set = shape.action == "set"
        if shape.core == CUBE_CORE.name and numbers[0] >= CROSS_IDS:  # of the second vector core
            return True
        key = shape.core if is_set else OTHER[shape.core], numbers[0]
        if (patient and tokens[key]) if is_set else not tokens[key]:
            return False
        tokens[key] += 1 if is_set else -1
        return True


def _numbered(groups: Sequence[AlikeCalls], count: int) -> Ints:
    """The group of each call, by its number."""
    found = np.full(count, -1)
    for number, group in enumerate(groups):
        found[group.numbers] = number
    return found


def _is_gather_into_l1(shape: Shape) -> bool:
    tile = shape.slots[0] if isinstance(shape, InstrShape) and shape.name == "mgather" else None
    return isinstance(tile, TileSlot) and tile.spec.loc is TileType.Mat


def _array_uses(group: AlikeCalls) -> Iterator[tuple[RecordedArray, Ints]]:
    """The arrays of calls that are alike, and their offsets in each. Pointers into no array are left out."""
    for place, operand in enumerate(group.call.operands):
        if isinstance(operand, RecordedArray) and operand.argument is not None:
            yield operand, operand.offset + group.shifts.get(place, np.zeros(len(group.numbers), np.int64))


def placed_slots(shape: Shape) -> Iterator[tuple[int, Slot]]:
    """The operands of an instruction, and their places among the arguments in C++."""
    if isinstance(shape, InstrShape):
        slots: list[Slot] = [*shape.slots, *([shape.workspace] if shape.workspace else [])]
        yield from zip(shape.words, slots, strict=True)
