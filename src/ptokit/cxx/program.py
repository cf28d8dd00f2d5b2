"""Programs of recorded launches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from ptokit.cxx.call_shapes import CallShapes, Shape, placed_slots
from ptokit.cxx.decoding import InstrShape, instr_shape
from ptokit.cxx.loops import Folded, FoldedBlocks, Repeated, Single
from ptokit.cxx.names_in_source import SourceTexts, argument_names
from ptokit.cxx.operands import ElementSlot, TileSlot, UsedNames
from ptokit.cxx.problems import plain_name, unmodelled
from ptokit.cxx.recording import VECTOR_CORES, RecordedBlock, RecordedFrame, RecordedLaunch, Recording
from ptokit.cxx.source_text import SourceLoop, loop_around
from ptokit.cxx.statements import BarrierShape, CrossShape, FlagShape, TokenShape
from ptokit.cxx.uses import outside
from ptokit.finding import VerifyError, Where
from ptokit.isa.policy import TileType
from ptokit.program import ir
from ptokit.program.expr import BLOCK_IDX, OF_LAUNCH, SUBBLOCK_IDX, Expr, Var, apply, evaluate, substitute, variables
from ptokit.target import flag_memory_archs, profile

RESERVED = frozenset[str](OF_LAUNCH)
"""Names that no loop variable has."""
ITERATION = "iteration"
"""The variable of a loop that does not count as the source does: some of its iterations are elsewhere, or those of two
loops are counted together."""
VIEWS_AND_FLAGS = (
    "a view (TRESHAPE, TSUBVIEW) of a tile without an address is not modelled in a kernel with flags; give the tile "
    "one with TASSIGN"
)
MOST_CHAINED = 32
"""Groups of blocks up to which each has a condition of its own."""


def programs(recording: Recording, texts: SourceTexts | None = None) -> list[ir.Program]:
    """The program of each launch. Raises VerifyError for a call that a program cannot express."""
    texts = texts or SourceTexts()
    return [program_of(recording, launch, texts) for launch in recording.launches]


def program_of(recording: Recording, launch: RecordedLaunch, texts: SourceTexts) -> ir.Program:
    """The program of a launch. `texts` are those of the sources, for names. Raises VerifyError."""
    shapes = CallShapes(recording, launch)
    if found := outside(launch, shapes.groups, shapes.where):
        raise VerifyError(found)
    return _Builder(shapes, launch, texts).program(shapes.folded())


def call_program(
    recording: Recording, launch: RecordedLaunch, number: int
) -> tuple[ir.Program, dict[str, tuple[int, int]]]:
    """The program of one call of an instruction, and the C++ objects of its tiles without an address, by name, with the
    bytes from their start."""
    block = RecordedBlock(0, "vector", 0, np.array([number], np.uint32))
    shapes = CallShapes(recording, replace(launch, blocks=(block,)), placed=False)
    shape, numbers = instr_shape(shapes.groups[0].call, shapes.arrays, recording.target)
    shapes.shapes.append(shape)
    builder = _Builder(shapes, replace(launch, grid=1), SourceTexts())
    program = builder.program([FoldedBlocks((0,), (Single(0, numbers),))])
    keys = {name: key[0] for key, name in builder.scopes[0].tiles.items()}
    return program, {name: (slot.object, slot.view) for name, slot in keys.items() if slot.object is not None}


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

    def __init__(self, shapes: CallShapes, launch: RecordedLaunch, texts: SourceTexts) -> None:
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
        for place, slot in placed_slots(shape):
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
