"""Which tiles must be poisoned at their declaration: those that may be read before they are written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from ptokit.engine.llvm.address import are_known, numbers_in
from ptokit.engine.llvm.program.forward import Variants
from ptokit.engine.llvm.program.variant import Variant
from ptokit.isa.layout import Layout
from ptokit.isa.move import Combine, Compute, Fill, Move, Remap, Side
from ptokit.program.calls import named_operands
from ptokit.program.expr import Expr
from ptokit.program.ir import Block, Instr, Program, TileDecl, TileUse, children, mentioned, walk
from ptokit.program.symbolic import expr_of

Region = tuple[tuple[Expr, ...], Layout]


def needs_poison(program: Program, tile: TileDecl, variants: Variants) -> bool:
    """False if the first use of the tile writes all of its elements, or all that are ever read."""
    uses = [s for s in walk(program.body) if isinstance(s, Instr) and any(u.tile == tile.name for u in s.tiles)]
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


def _first_use(block: Block, tile: TileDecl) -> Instr | None:
    """The instruction that uses the tile first, if it is in the block of the declaration."""
    if tile in block:
        later = block[block.index(tile) + 1 :]
        found = next((stmt for stmt in later if tile.name in mentioned(stmt)), None)
        return found if isinstance(found, Instr) else None
    inner = [_first_use(each, tile) for stmt in block for each in children(stmt)]
    return next((found for found in inner if found is not None), None)


ANYWHERE: Region = ((), Layout((), ()))
"""A region that an index addresses, or that is known at run time only."""


def _region(shape: Sequence[int], layout: Layout) -> Region:
    known = are_known((layout.start, *numbers_in((*layout.rows, *layout.cols))))
    return (tuple(map(expr_of, shape)), layout) if known else ANYWHERE


def _is_tile(instr: Instr, operand: str, tile: str) -> bool:
    given = named_operands(instr).get(operand)
    return isinstance(given, TileUse) and given.tile == tile


def _fills(instr: Instr, variant: Variant, tile: str) -> Iterator[Region]:
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


def _reads(instr: Instr, variant: Variant, tile: str) -> Iterator[Region]:
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
