"""Programs of recorded launches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from operator import itemgetter
from typing import Any

import numpy as np

from ptokit.cxx.alike import AlikeCalls, Ints, alike, equal_rows
from ptokit.cxx.decoding import InstrShape, Slot, instr_shape, with_element
from ptokit.cxx.fit import Unfit
from ptokit.cxx.loops import Folded, FoldedBlocks, Repeated, Single, Stream, Tables, fold, table_of
from ptokit.cxx.names_in_source import SourceTexts, argument_names
from ptokit.cxx.operands import (
    Arrays,
    ArraySlot,
    ElementSlot,
    Indices,
    TileSlot,
    Unexpressible,
    UsedNames,
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
    RecordedFrame,
    RecordedLaunch,
    RecordedTile,
    Recording,
)
from ptokit.cxx.source_text import SourceLoop, loop_around
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
from ptokit.cxx.uses import outside
from ptokit.finding import VerifyError, Where
from ptokit.isa.policy import TileType
from ptokit.program import ir
from ptokit.program.cores import OTHER, stated_core
from ptokit.program.expr import (
    BLOCK_IDX,
    OF_LAUNCH,
    SUBBLOCK_IDX,
    Expr,
    Var,
    apply,
    evaluate,
    substitute,
    variables,
)
from ptokit.target import flag_memory_archs, profile
from ptokit.target.profile import CROSS_IDS, CUBE_CORE

Shape = InstrShape | SyncShape
Call = tuple[int, Indices]
"""A call: its shape, and its numbers."""
RESERVED = frozenset[str](OF_LAUNCH)
"""Names that no loop variable has."""
ITERATION = "iteration"
"""The variable of a loop that does not count as the source does: some of its iterations are elsewhere, or those of two
loops are counted together."""
VIEWS_AND_FLAGS = (
    "a view (TRESHAPE, TSUBVIEW) of a tile without an address is not modelled in a kernel with flags; give the tile "
    "one with TASSIGN"
)
NO_CALLS = np.empty(0, np.int64), np.empty(0, np.int64)
PLACED = 3
"""Numbers of a tile, or of an element, that has an address: it is the first."""
MOST_CHAINED = 32
"""Groups of blocks up to which each has a condition of its own."""
MOST_UNLIKE = 15_000
"""Calls of blocks that are unlike each other, in one program."""


def programs(recording: Recording, texts: SourceTexts | None = None) -> list[ir.Program]:
    """The program of each launch. Raises VerifyError for a call that a program cannot express."""
    texts = texts or SourceTexts()
    return [program_of(recording, launch, texts) for launch in recording.launches]


def program_of(recording: Recording, launch: RecordedLaunch, texts: SourceTexts) -> ir.Program:
    """The program of a launch. `texts` are those of the sources, for names. Raises VerifyError."""
    shapes = _Shapes(recording, launch)
    if found := outside(launch, shapes.groups, shapes.where):
        raise VerifyError(found)
    return _Builder(shapes, launch, texts).program(_folded(shapes))


def _folded(shapes: _Shapes) -> list[FoldedBlocks]:
    """The loops of all blocks. Vector cores of a block share statements if all their numbers have expressions."""
    blocks = sorted(shapes.by_index)
    with suppress(Unfit):
        return fold([own for block in blocks for own in shapes.streams(block)], shapes.rank)
    return fold([own for block in blocks for own in shapes.streams(block, apart=True)], shapes.rank)


def foldable(recording: Recording, launch: RecordedLaunch, most: int = MOST_UNLIKE) -> RecordedLaunch:
    """The launch with the blocks that a program is made of: all, unless they are unlike each other and make too many
    calls. The first and the last are the last to be left out."""
    if sum(len(block.calls) for block in launch.blocks) <= most:
        return launch
    shapes = _Shapes(recording, launch)
    first, *others = sorted(shapes.by_index)
    sequences: dict[bytes, int] = {}
    kept: set[int] = set()
    for index in (first, *others[-1:], *others[:-1]):
        own = [stream for streams in shapes.streams(index) for stream in streams]
        sequence = np.concatenate([stream.shapes for stream in own])
        key = sequence.tobytes()
        if not kept or key in sequences or sum(sequences.values()) + len(sequence) <= most:
            sequences[key] = len(sequence)
            kept.add(index)
    if len(kept) == len(others) + 1:
        return launch
    return replace(launch, blocks=tuple(block for block in launch.blocks if block.index in kept))


def call_program(
    recording: Recording, launch: RecordedLaunch, number: int
) -> tuple[ir.Program, dict[str, tuple[int, int]]]:
    """The program of one call of an instruction, and the C++ objects of its tiles without an address, by name, with the
    bytes from their start."""
    block = RecordedBlock(0, "vector", 0, np.array([number], np.uint32))
    shapes = _Shapes(recording, replace(launch, blocks=(block,)), placed=False)
    shape, numbers = instr_shape(shapes.groups[0].call, shapes.arrays, recording.target)
    shapes.shapes.append(shape)
    builder = _Builder(shapes, replace(launch, grid=1), SourceTexts())
    program = builder.program([FoldedBlocks((0,), (Single(0, numbers),))])
    keys = {name: key[0] for key, name in builder.scopes[0].tiles.items()}
    return program, {name: (slot.object, slot.view) for name, slot in keys.items() if slot.object is not None}


class _Shapes:
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
        columns: list[Ints] = []
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
        if any(not is_own(call) for call in self._called(seconds)):
            return VECTOR_CORES
        return VECTOR_CORES if any(awaits_second(call, of_both=of_both) for call in self._called(cubes)) else 1

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
        for place, slot in _placed_slots(shape):
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
        if is_set and patient and tokens[key]:
            return False
        if not is_set and not tokens[key]:
            return False
        tokens[key] += 1 if is_set else -1
        return True


@dataclass
class _LoopScope:
    """The body of a loop, or of the program, while it is made."""

    var: Var | None = None
    source: SourceLoop | None = None
    tiles: dict[tuple[TileSlot, *tuple[Expr, ...]], str] = field(
        default_factory=dict[tuple[TileSlot, *tuple[Expr, ...]], str]
    )
    declared: list[str] = field(default_factory=list[str])


class _Builder:
    """Makes the statements of a program."""

    def __init__(self, shapes: _Shapes, launch: RecordedLaunch, texts: SourceTexts) -> None:
        self.shapes, self.launch, self.texts = shapes, launch, texts
        self.argument_names = lru_cache(maxsize=None)(self._argument_names)
        self.scopes = [_LoopScope()]
        self.names = UsedNames()
        self.tiles: dict[str, ir.TileDecl] = {}
        self.extents: dict[str, set[tuple[Expr, Expr]]] = {}
        self.vars = UsedNames(RESERVED, 2)
        self.words: dict[tuple[Expr | TileSlot, ...], tuple[int, str]] = {}
        """For each tile, the number of calls around the use with the fewest, and the name there."""

    def program(self, groups: Sequence[FoldedBlocks]) -> ir.Program:
        """The program of all blocks."""
        for group in groups:
            self._block(group.body, {})
        self.scopes, self.names, self.vars = [_LoopScope()], UsedNames(), UsedNames(RESERVED, 2)  # tiles have names now
        bodies = [self._block(group.body, {}) for group in groups]
        body = _by_core(groups, bodies, self.launch.grid)
        body = ir.transform((*self._declarations(self.scopes[0]), *body), self._declared)
        tiles = [tile for tile in ir.walk(body) if isinstance(tile, ir.TileDecl)]
        has_flags = any(isinstance(stmt, ir.Flag | ir.Barrier | ir.CrossFlag) for stmt in ir.walk(body))
        manual = "flags" if has_flags else "auto"
        is_placed = not self.shapes.homes and any(tile.addresses for tile in tiles)
        if self.shapes.homes and has_flags:
            raise unmodelled(VIEWS_AND_FLAGS, self.shapes.where(self.shapes.viewed[0]))
        return ir.Program(
            plain_name(self.launch.name),
            self.shapes.arrays.arguments,
            body,
            tuple((argument.name, argument.value) for argument in self.launch.arguments if argument.shape is None),
            mode="manual" if is_placed or not tiles else manual,
            vector_cores=self.shapes.vector_cores,
            form=ir.CPP_FFTS if profile(self.shapes.recording.target).arch in flag_memory_archs() else ir.CPP,
            where=next((stmt.where.path[-1] for stmt in ir.walk(body) if stmt.where is not None), None),
        )

    # --- blocks

    def _block(self, pieces: Sequence[Folded], names: dict[Var, Expr]) -> ir.Block:
        before = set[int]()
        """The sites of the statements so far."""
        statements: list[ir.Stmt] = []
        for piece in pieces:
            sites = self._sites(piece)
            if isinstance(piece, Repeated):
                statements.append(self._loop(piece, names, is_rest=not piece.start and not sites.isdisjoint(before)))
            else:
                numbers = tuple([substitute(number, names) for number in piece.numbers])
                statements.append(self._single(self.shapes.shapes[piece.shape], numbers))
            before |= sites
        return tuple(statements)

    def _loop(self, piece: Repeated, names: dict[Var, Expr], *, is_rest: bool) -> ir.Stmt:
        """A loop. `is_rest`: the calls of earlier iterations are statements before it."""
        source, file = self._source_loop(piece)
        word = source.counter if source and source.counter else str(piece.var)
        if source and source.counter and (is_rest or self._is_merged(piece, source, file)):
            word = ITERATION
        var = Var(self.vars.new(word))
        self.scopes.append(_LoopScope(var, source))
        inside = {**names, piece.var: var}
        body = self._block(piece.body, inside)
        declared = self._declarations(self.scopes.pop())
        where = Where(file, source.head, source.column) if source else next((s.where for s in ir.walk(body)), None)
        return ir.Loop(var, piece.start, substitute(piece.stop, names), 1, (*declared, *body), where=where)

    def _is_merged(self, piece: Repeated, source: SourceLoop, file: str) -> bool:
        """Whether a loop may stand for two nested loops of the source: nothing is called between the two."""
        outer = loop_around(self.texts.text(file), source.head, source.last, source)
        if outer is None or any(scope.source == outer for scope in self.scopes):
            return False
        own = self._sites(piece)
        return not any(
            frame.file == file and outer.head <= frame.line <= outer.last
            for shape in self.shapes.shapes if shape.site not in own
            for frame in self.shapes.recording.sites[shape.site]
        )  # fmt: skip

    def _source_loop(self, piece: Repeated) -> tuple[SourceLoop | None, str]:
        """The loop of the source that a loop comes from, and its file."""
        frames, inner = self._common(piece), None
        if frames is None:
            return None, ""
        file, first, last = frames
        if len(piece.body) == 1 and isinstance(piece.body[0], Repeated):
            inner, inner_file = self._source_loop(piece.body[0])
            if inner is None or inner_file != file:
                return None, ""
        return loop_around(self.texts.text(file), first, last, inner), file

    def _common(self, piece: Repeated) -> tuple[str, int, int] | None:
        """The file, the first and the last line of the function that all calls of a loop are made in."""
        chains = [tuple(reversed(self.shapes.recording.sites[site])) for site in self._sites(piece)]
        depth = 0
        while all(len(chain) > depth + 1 for chain in chains) and len({_place(chain[depth]) for chain in chains}) == 1:
            depth += 1
        frames = [chain[depth] for chain in chains if len(chain) > depth]
        if not frames or len({frame.file for frame in frames}) > 1:
            return None
        lines = [frame.line for frame in frames]
        return frames[0].file, min(lines), max(lines)

    def _sites(self, piece: Folded) -> set[int]:
        if isinstance(piece, Single):
            return {self.shapes.shapes[piece.shape].site}
        return set[int]().union(*map(self._sites, piece.body))

    # --- statements

    def _single(self, shape: Shape, numbers: tuple[Expr, ...]) -> ir.Stmt:
        where = self.shapes.where(shape.site)
        match shape:
            case FlagShape():
                core = self.shapes.stated_core(shape.core, shape.src, shape.dst)
                return ir.Flag(shape.action, shape.src, shape.dst, numbers[0], core=core, where=where)
            case CrossShape():
                return ir.CrossFlag(shape.action, shape.core, shape.pipe, numbers[0], where=where)
            case TokenShape():
                raise AssertionError("tokens are flags by now")
            case BarrierShape():
                return ir.Barrier(shape.pipe, core=self.shapes.stated_core(shape.core, shape.pipe), where=where)
            case InstrShape():
                return self._instruction(shape, numbers, where)

    def _instruction(self, shape: InstrShape, numbers: tuple[Expr, ...], where: Where | None) -> ir.Instr:
        names = self.argument_names(shape.site, shape.name)
        uses: list[Any] = []
        left = list(numbers)
        slots: list[Slot] = [*shape.slots, *([shape.workspace] if shape.workspace else [])]
        for place, slot in zip(shape.words, slots, strict=True):
            own, left = left[: slot.size], left[slot.size :]
            word = names[place] if place < len(names) else ""
            if isinstance(slot, TileSlot):
                uses.append(self._tile(slot, own, word, where))
            elif isinstance(slot, ElementSlot):
                *address, row, col = own
                spec = slot.tile.spec
                use = self._tile(slot.tile, [*address, spec.rows, spec.cols], word, where)
                uses.append(ir.TileUse(use.tile, (1, slot.count), ir.Window((row, col), (1, slot.count))))
            else:
                uses.append(slot.operand(own))
        workspace = uses.pop() if shape.workspace else None
        return ir.Instr(
            shape.name, tuple(uses), shape.modifiers, workspace=workspace, opaque_form=shape.opaque_form,
            attributes=shape.attributes, where=where,
        )  # fmt: skip

    def _argument_names(self, site: int, function: str) -> list[str]:
        return argument_names(self.texts, self.shapes.recording.sites[site], function)

    # --- tiles

    def _tile(self, slot: TileSlot, numbers: Sequence[Expr], word: str, where: Where | None) -> ir.TileUse:
        *address, rows, cols = numbers
        used = variables(address[0]) if address else frozenset[Var]()
        scope = next((scope for scope in reversed(self.scopes) if scope.var in used), self.scopes[0])
        key = slot, *address
        depth = len(where.path) if where else 0
        if word and depth < self.words.get(key, (depth + 1, ""))[0]:
            self.words[key] = depth, word
        if key not in scope.tiles:
            word = self.words.get(key, (0, ""))[1]
            name = scope.tiles[key] = self.names.new(word or (slot.spec.loc.text if slot.is_pointed else "tile"))
            given = self.shapes.given.get(slot, {}) if address else {}
            first = evaluate(address[0], dict.fromkeys(variables(address[0]), 0)) if given else 0
            self.tiles[name] = ir.TileDecl(
                name,
                slot.spec,
                tuple(address),
                fresh=not address,
                named=bool(word),
                family=self._family(slot, address[0]) if address else None,
                given=given,
                where=given.get(first) or where,
            )
            scope.declared.append(name)
            self.extents[name] = set()
        name = scope.tiles[key]
        self.extents[name].add((rows, cols))
        return ir.TileUse(name, (rows, cols))

    def _family(self, slot: TileSlot, address: Expr) -> int | None:
        """The home of a tile, if it has one, or what it has in common with the views of it."""
        if slot.is_pointed:
            return ir.ANY_FAMILY
        if isinstance(address, int) and (slot, address) in self.shapes.families:
            return self.shapes.families[slot, address]
        starts = [at for (_, memory), at in self.shapes.homes.items() if TileType.parse(memory) is slot.spec.loc]
        return max(at for at in starts if at <= address) if starts and isinstance(address, int) else None

    def _declarations(self, scope: _LoopScope) -> list[ir.Stmt]:
        return [self.tiles[name] for name in scope.declared]

    def _declared(self, stmt: ir.Stmt) -> ir.Stmt:
        """A declaration with the valid extents, if all uses have the same."""
        if not isinstance(stmt, ir.TileDecl):
            return stmt
        used = self.extents[stmt.name]
        extents = [{use[axis] for use in used} for axis in (0, 1)]
        own = (stmt.spec.rows, stmt.spec.cols)
        valid = [next(iter(extent)) if len(extent) == 1 else most for extent, most in zip(extents, own, strict=True)]
        rows, cols = (extent if isinstance(extent, int) else -1 for extent in valid)
        return replace(stmt, spec=replace(stmt.spec, valid_rows=rows, valid_cols=cols))


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


def _placed_slots(shape: Shape) -> Iterator[tuple[int, Slot]]:
    """The operands of an instruction, and their places among the arguments in C++."""
    if isinstance(shape, InstrShape):
        slots = [*shape.slots, *([shape.workspace] if shape.workspace else [])]
        yield from zip(shape.words, slots, strict=True)


def _place(frame: RecordedFrame) -> tuple[str, int, int]:
    return frame.file, frame.line, frame.column


def _by_core(groups: Sequence[FoldedBlocks], bodies: Sequence[ir.Block], grid: int) -> ir.Block:
    """The statements of each group of blocks, under conditions on the block and on the vector core."""
    made = list(zip(groups, bodies, strict=True))
    shared = [(group.blocks, body) for group, body in made if group.vector is None]
    apart = [[(group.blocks, body) for group, body in made if group.vector == k] for k in range(VECTOR_CORES)]
    if not any(apart):
        return _by_block(shared, grid)
    blocks = tuple(sorted(block for own in apart[:1] for some, _ in own for block in some))
    arms = [_by_block([each for each in own if each[1]], len(blocks)) for own in apart]
    branch = ir.Branch(apply("eq", SUBBLOCK_IDX, 0), arms[0], arms[1])
    return _by_block([*shared, (blocks, (branch,))], grid)


def _by_block(groups: Sequence[tuple[tuple[int, ...], ir.Block]], grid: int) -> ir.Block:
    """The statements of each group of blocks, under a condition if there are several."""
    if not groups:
        return ()
    half = 1 if len(groups) <= MOST_CHAINED else len(groups) // 2
    first, others = groups[:half], groups[half:]
    blocks = sorted(block for some, _ in first for block in some)
    body = first[0][1] if half == 1 else _by_block(first, len(blocks))
    if not others and len(blocks) == grid:
        return body
    return (ir.Branch(_condition(blocks), body, _by_block(others, grid - len(blocks))),)


def _condition(blocks: Sequence[int]) -> Expr:
    """Whether a block is one of these, which are in order."""
    first, last = blocks[0], blocks[-1]
    steps = {b - a for a, b in pairwise(blocks)}
    if len(steps) == 1 and steps != {1}:
        alike = apply("eq", apply("mod", BLOCK_IDX, *steps), first % max(steps))
        return apply("and", alike, _between(first, last))
    ends = [k for k, (a, b) in enumerate(pairwise(blocks), 1) if b != a + 1]
    return _any([_between(blocks[a], blocks[b - 1]) for a, b in pairwise((0, *ends, len(blocks)))])


def _between(first: int, last: int) -> Expr:
    if first == last:
        return apply("eq", BLOCK_IDX, first)
    below = apply("le", BLOCK_IDX, last)
    return apply("and", apply("ge", BLOCK_IDX, first), below) if first else below


def _any(conditions: Sequence[Expr]) -> Expr:
    """Whether one of the conditions holds. Halves are joined, so that many conditions are not deep."""
    half = len(conditions) // 2
    return apply("or", _any(conditions[:half]), _any(conditions[half:])) if half else conditions[0]
