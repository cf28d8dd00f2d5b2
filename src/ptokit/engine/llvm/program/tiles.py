"""Instructions, verified and lowered once for all numbers of the run that lead to the same decisions.

Then tiles that need no memory, or not all of it: those that only pass data on, those in registers, and those that must
be poisoned at their declaration, as they may be read before they are written.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import reduce
from math import prod
from typing import Any, cast

from ptokit.engine.llvm.address import are_known, numbers_in
from ptokit.engine.llvm.compute import units
from ptokit.engine.llvm.emit import Chip
from ptokit.engine.prepared import memory_of
from ptokit.isa.dtype import DType
from ptokit.isa.layout import Layout
from ptokit.isa.move import Combine, Compute, Fill, Move, Remap, Side
from ptokit.isa.operand import TensorSpec
from ptokit.program import ir
from ptokit.program.expr import Expr, ExpressionError, Var, apply, evaluate
from ptokit.program.instr_calls import Sharing, call_of, named_operands, sharing
from ptokit.program.ir import Instr, Program
from ptokit.program.symbolic import Conditions, SymbolicNumber, expr_of
from ptokit.program.verify_call import Options, verify_call
from ptokit.target import Profile

Steps = tuple[Move | Compute, ...]


@dataclass(frozen=True)
class Variant:
    """An instruction, verified and lowered, for all numbers that meet the conditions."""

    steps: Steps
    types: Mapping[str, DType]
    conditions: tuple[Expr, ...]
    spans: Mapping[str, int]
    """Elements of each view, from its first to its last."""
    remarked: bool
    """Whether verification made a finding."""
    shared: Sharing
    """Which operands share memory because they are of one tile."""

    def holds(self, values: Mapping[Var, int]) -> bool:
        """Whether it is valid for these numbers."""
        return all(evaluate(condition, values) for condition in self.conditions)

    @property
    def code(self) -> Hashable:
        """All that its code is made from, but for the conditions."""
        return _content((self.steps, tuple(self.types.items()), tuple(self.spans.items()), self.shared))


def joined(variants: Iterable[Variant]) -> list[Variant]:
    """Variants of an instruction; those with the same code, and no findings, as one."""
    found: dict[Hashable, Variant] = {}
    for nth, each in enumerate(variants):
        key = nth if each.remarked else each.code
        found[key] = _either(found[key], each) if key in found else each
    return [*found.values()]


def _either(one: Variant, other: Variant) -> Variant:
    first, second = (reduce(lambda a, b: apply("and", a, b), each.conditions or (1,)) for each in (one, other))
    return replace(one, conditions=(apply("or", first, second),))


def _content(value: Any) -> Hashable:
    """Plain data, with run-time numbers as expressions."""
    if isinstance(value, SymbolicNumber):
        return value.expr
    if isinstance(value, tuple):
        return tuple(map(_content, cast("tuple[Any, ...]", value)))
    if is_dataclass(value) and not isinstance(value, DType):
        return type(value), *(_content(getattr(value, each.name)) for each in fields(value))
    return value


def trace(
    program: Program,
    instr: Instr,
    profile: Profile,
    options: Options,
    values: Mapping[Var, int],
    addresses: Mapping[str, Expr],
) -> Variant | None:
    """The variant that holds at `values`; None if the instruction is refused there, or could leave its operands.

    `addresses` are those of placed tiles.
    """
    conditions = Conditions()

    def resolve(expr: Expr) -> int:
        if isinstance(expr, int):
            return expr
        return SymbolicNumber(expr, evaluate(expr, values), conditions)  # type: ignore[return-value]

    try:
        call = call_of(program, instr, profile, resolve, addresses)
        findings = verify_call(call, profile, options)
        if any(finding.level == "error" for finding in findings):
            return None
        steps = call.instruction.lower(call)
        types, sizes = memory_of(call)
        if not all(_stays_inside(step, sizes) for step in steps):
            return None
    except (ExpressionError, KeyError):
        return None
    spans = {name: spec.span for name, spec in call.operands.items() if isinstance(spec, TensorSpec)}
    return Variant(steps, types, conditions.expressions, spans, bool(findings), sharing(instr, resolve))


def _stays_inside(step: Move | Compute, sizes: Mapping[str, int]) -> bool:
    """Whether every address lies within its operand, whatever the index values are."""
    if any(needed > sizes[operand] for operand, needed in step.spans):
        return False
    if isinstance(step, Compute) or step.index is None:
        return True
    index, indexed = step.index, step.indexed
    assert indexed is not None
    if index.capacity <= 0 or (index.cast and index.capacity > 0xFFFFFFFF):
        return False
    return indexed.layout.span(*index.reach(step.cols)) <= sizes[indexed.operand]


# --- tiles -----------------------------------------------------------------------------------------------------------


Variants = Callable[[ir.Instr], Sequence[Variant]]


def users(program: ir.Program, tile: str) -> list[ir.Instr]:
    """The instructions that use a tile."""
    return [s for s in ir.walk(program.body) if isinstance(s, ir.Instr) and any(use.tile == tile for use in s.tiles)]


@dataclass(frozen=True)
class Forwarded:
    """Two instructions that become one move."""

    load: ir.Instr
    store: ir.Instr
    first: Variant
    second: Variant

    @property
    def moves(self) -> tuple[Move, Move]:
        """The move of each."""
        first, second = self.first.steps[0], self.second.steps[0]
        assert isinstance(first, Move) and isinstance(second, Move)
        return first, second

    @property
    def tile(self) -> str:
        """The tile between them."""
        through = named_operands(self.load)[self.moves[0].dst.operand]
        assert isinstance(through, ir.TileUse)
        return through.tile

    @property
    def joined(self) -> Move:
        """The one move: the source of the first, the destination of the second, the index of either."""
        first, second = self.moves
        return replace(second, src=first.src, index=first.index or second.index)


def forwarded(
    stmt: ir.Stmt, rest: Sequence[ir.Stmt], program: ir.Program, placed: Collection[str], variants: Variants
) -> Forwarded | None:
    """The statement with the next one, if the first fills a tile and the second empties it."""
    if not isinstance(stmt, ir.Instr):
        return None
    store = next((s for s in rest if not isinstance(s, ir.TileDecl | ir.Flag | ir.CrossFlag | ir.Barrier)), None)
    if not isinstance(store, ir.Instr) or len(variants(stmt)) != 1 or len(variants(store)) != 1:
        return None
    pair = Forwarded(stmt, store, variants(stmt)[0], variants(store)[0])
    return pair if _passes_on(pair, program, placed) else None


def _passes_on(pair: Forwarded, program: ir.Program, placed: Collection[str]) -> bool:
    if not all(len(v.steps) == 1 and isinstance(v.steps[0], Move) for v in (pair.first, pair.second)):
        return False
    first, second = pair.moves
    if isinstance(first.src, Fill) or isinstance(second.src, Fill) or first.combine is not Combine.STORE:
        return False
    loaded, stored = named_operands(pair.load), named_operands(pair.store)
    through, emptied = loaded[first.dst.operand], stored[second.src.operand]
    ends = loaded[first.src.operand], stored[second.dst.operand]
    return (
        isinstance(through, ir.TileUse)
        and isinstance(emptied, ir.TileUse)
        and through.tile == emptied.tile
        and through.window == emptied.window
        and _lie_apart(*ends)
        and _has_one_index(first, second)
        and _same(first, second)
        and through.tile not in placed
        and sum(use.tile == through.tile for stmt in users(program, through.tile) for use in stmt.tiles) == 2
    )


def _lie_apart(one: ir.Operand, other: ir.Operand) -> bool:
    """Whether the ends are blocks of two arrays: within one, what is stored could be what is still to be loaded."""
    return isinstance(one, ir.View) and isinstance(other, ir.View) and one.argument != other.argument


def _has_one_index(first: Move, second: Move) -> bool:
    """At most one index, at the far end, and every cell of the tile is written."""
    if first.index is not None and (first.index.side is not Side.SRC or first.index.remap is Remap.SKIP):
        return False
    if second.index is not None and second.index.side is not Side.DST:
        return False
    return first.index is None or second.index is None


def _same(first: Move, second: Move) -> bool:
    """Whether the same region is filled and emptied."""
    assert not isinstance(second.src, Fill)
    same = [expr_of(a) == expr_of(b) for a, b in zip(first.shape, second.shape, strict=True)]
    return all(same) and first.dst.layout == second.src.layout


@dataclass(frozen=True)
class HeldTile:
    """The region of a tile that is used, and how a group of lanes keeps its part of it."""

    shape: tuple[int, int]
    layout: Layout
    dtype: DType
    """The type that is multiplied."""
    parts: tuple[int, int]


def held_tiles(program: ir.Program, placed: Collection[str], variants: Variants, chip: Chip) -> dict[str, HeldTile]:
    """All such tiles, on a chip that has matrix units."""
    found = {name: _held(program, name, variants, chip) for name in program.tiles if chip.units and name not in placed}
    return {name: held for name, held in found.items() if held is not None}


def _held(program: ir.Program, name: str, variants: Variants, chip: Chip) -> HeldTile | None:
    """How a tile is kept; None if its uses do not agree on that."""
    uses = users(program, name)
    regions = [region for instr in uses if (region := _held_region(instr, name, variants(instr), chip))]
    types = {given for *_, given in regions if given is not None}
    is_whole = all(use.window is None for instr in uses for use in instr.tiles if use.tile == name)
    agree = len(regions) == len(uses) and len(types) == 1 and len({region[:2] for region in regions}) == 1
    if not (is_whole and agree):
        return None
    (shape, layout, _), (given,) = regions[0], types
    parts = units.held_shape(chip, *shape)
    return HeldTile(shape, layout, given, parts) if parts else None


HeldRegion = tuple[tuple[int, int], Layout, DType | None]
"""Extents, layout, and the type that is multiplied, if it is."""


def _held_region(instr: ir.Instr, name: str, variants: Sequence[Variant], chip: Chip) -> HeldRegion | None:
    """The region that an instruction uses, and what it multiplies; None if the tile has to lie in memory."""
    if len(variants) != 1 or len(variants[0].steps) != 1 or not are_known(variants[0].steps[0].shape):
        return None
    step, operands = variants[0].steps[0], named_operands(instr)
    mine = {key for key, given in operands.items() if isinstance(given, ir.TileUse) and given.tile == name}
    if isinstance(step, Compute):
        return _of_product(step, variants[0], mine, chip)
    if isinstance(step.src, Fill) or step.index is not None or step.combine is not Combine.STORE:
        return None
    is_stored = step.src.operand in mine and isinstance(operands[step.dst.operand], ir.View)
    return (step.shape, step.src.layout, None) if is_stored else None


def _of_product(work: Compute, variant: Variant, mine: Collection[str], chip: Chip) -> HeldRegion | None:
    """A product, to which only what the tile holds is added."""
    if work.op != "matmul" or work.dst.operand not in mine:
        return None
    (a, b, *more), given = work.inputs, variant.types[work.inputs[0].operand]
    same = all(each.operand in mine and (each.layout, each.shape) == (work.dst.layout, work.shape) for each in more)
    if not same or {a.operand, b.operand} & set(mine) or not units.takes(chip, given, (a.layout.cols, b.layout.rows)):
        return None
    return work.shape, work.dst.layout, given


Region = tuple[tuple[Expr, ...], Layout]


def needs_poison(program: ir.Program, tile: ir.TileDecl, variants: Variants) -> bool:
    """False if the first use of the tile writes all of its elements, or all that are ever read."""
    uses = users(program, tile.name)
    if not uses:
        return False
    first = _first_use(program.body, tile)
    extents = {(use.valid, use.window) for s in uses for use in s.tiles if use.tile == tile.name}
    if first is None or len(extents) > 1:
        return True
    if not all(variants(stmt) for stmt in uses):
        return True
    written = {region for variant in variants(first) for region in _fills(first, variant, tile.name)}
    if len(written) != 1 or any(True for v in variants(first) for _ in _reads(first, v, tile.name)):
        return True
    if ANYWHERE in written:
        return True
    ((shape, _),) = written
    if are_known(shape) and prod(shape) == tile.spec.elements:  # type: ignore[arg-type]
        return False
    read = {region for stmt in uses for variant in variants(stmt) for region in _reads(stmt, variant, tile.name)}
    return not read <= written


def _first_use(block: ir.Block, tile: ir.TileDecl) -> ir.Instr | None:
    """The instruction that uses the tile first, if it is in the block of the declaration."""
    if tile in block:
        later = block[block.index(tile) + 1 :]
        found = next((stmt for stmt in later if tile.name in ir.mentioned(stmt)), None)
        return found if isinstance(found, ir.Instr) else None
    inner = [_first_use(each, tile) for stmt in block for each in ir.children(stmt)]
    return next((found for found in inner if found is not None), None)


ANYWHERE: Region = ((), Layout((), ()))
"""A region that an index addresses, or that is known at run time only."""


def _region(shape: Sequence[int], layout: Layout) -> Region:
    known = are_known((layout.start, *numbers_in((*layout.rows, *layout.cols))))
    return (tuple(map(expr_of, shape)), layout) if known else ANYWHERE


def _is_tile(instr: ir.Instr, operand: str, tile: str) -> bool:
    given = named_operands(instr).get(operand)
    return isinstance(given, ir.TileUse) and given.tile == tile


def _fills(instr: ir.Instr, variant: Variant, tile: str) -> Iterator[Region]:
    for step in variant.steps:
        if not _is_tile(instr, step.dst.operand, tile):
            continue
        whole = isinstance(step, Compute) or (step.combine is Combine.STORE and _is_whole(step))
        if whole:
            yield _region(step.shape, step.dst.layout)


def _is_whole(move: Move) -> bool:
    """Whether a move writes every cell of its region."""
    index = move.index
    return index is None or (index.side is Side.SRC and index.remap is not Remap.SKIP)


def _reads(instr: ir.Instr, variant: Variant, tile: str) -> Iterator[Region]:
    """Regions of the tile that are read, or written in part."""
    if instr.workspace is not None and instr.workspace.tile == tile:
        return
    for step in variant.steps:
        if isinstance(step, Compute):
            yield from (_region(e.shape, e.layout) for e in step.inputs if _is_tile(instr, e.operand, tile))
            continue
        index = step.index
        if not isinstance(step.src, Fill) and _is_tile(instr, step.src.operand, tile):
            indexed = index is not None and index.side is Side.SRC
            yield ANYWHERE if indexed else _region(step.shape, step.src.layout)
        if index is not None and _is_tile(instr, index.access.operand, tile):
            yield _region(step.shape, index.access.layout)
        if _is_tile(instr, step.dst.operand, tile) and (step.combine is not Combine.STORE or not _is_whole(step)):
            yield ANYWHERE
