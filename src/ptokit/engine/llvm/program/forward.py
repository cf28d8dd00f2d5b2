"""Tiles that only pass data on: one instruction writes them, the next one reads them, and no other uses them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from ptokit.engine.llvm.program.variant import Variant
from ptokit.isa.move import Combine, Fill, Move, Remap, Side
from ptokit.program.calls import named_operands
from ptokit.program.ir import Barrier, CrossFlag, Flag, Instr, Operand, Program, Stmt, TileDecl, TileUse, View, walk
from ptokit.program.symbolic import expr_of

Variants = Callable[[Instr], Sequence[Variant]]


@dataclass(frozen=True)
class Forwarded:
    """Two instructions that become one move."""

    load: Instr
    store: Instr
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
        assert isinstance(through, TileUse)
        return through.tile

    @property
    def joined(self) -> Move:
        """The one move: the source of the first, the destination of the second, the index of either."""
        first, second = self.moves
        return replace(second, src=first.src, index=first.index or second.index)


def forwarded(
    stmt: Stmt, rest: Sequence[Stmt], program: Program, placed: Collection[str], variants: Variants
) -> Forwarded | None:
    """The statement together with the one that empties its tile, if they are such a pair."""
    if not isinstance(stmt, Instr):
        return None
    store = next((s for s in rest if not isinstance(s, TileDecl | Flag | CrossFlag | Barrier)), None)
    if not isinstance(store, Instr) or len(variants(stmt)) != 1 or len(variants(store)) != 1:
        return None
    pair = Forwarded(stmt, store, variants(stmt)[0], variants(store)[0])
    return pair if _passes_on(pair, program, placed) else None


def _passes_on(pair: Forwarded, program: Program, placed: Collection[str]) -> bool:
    if not all(len(v.steps) == 1 and isinstance(v.steps[0], Move) for v in (pair.first, pair.second)):
        return False
    first, second = pair.moves
    if isinstance(first.src, Fill) or isinstance(second.src, Fill) or first.combine is not Combine.STORE:
        return False
    loaded, stored = named_operands(pair.load), named_operands(pair.store)
    through, emptied = loaded[first.dst.operand], stored[second.src.operand]
    ends = loaded[first.src.operand], stored[second.dst.operand]
    return (
        isinstance(through, TileUse)
        and isinstance(emptied, TileUse)
        and through.tile == emptied.tile
        and through.window == emptied.window
        and _lie_apart(*ends)
        and _has_one_index(first, second)
        and _same(first, second)
        and through.tile not in placed
        and _uses(program, through.tile) == 2
    )


def _lie_apart(one: Operand, other: Operand) -> bool:
    """Whether the ends are blocks of two arrays: within one, what is stored could be what is still to be loaded."""
    return isinstance(one, View) and isinstance(other, View) and one.argument != other.argument


def _has_one_index(first: Move, second: Move) -> bool:
    """At most one index, at the far end, and every cell of the tile is written."""
    if first.index is not None and (first.index.side is not Side.SRC or first.index.remap is Remap.SKIP):
        return False
    if second.index is not None and second.index.side is not Side.DST:
        return False
    return first.index is None or second.index is None


def _same(first: Move, second: Move) -> bool:
    """Whether the region that is filled is the one that is emptied."""
    assert not isinstance(second.src, Fill)
    same = [expr_of(a) == expr_of(b) for a, b in zip(first.shape, second.shape, strict=True)]
    return all(same) and first.dst.layout == second.src.layout


def _uses(program: Program, tile: str) -> int:
    uses = [use for stmt in walk(program.body) if isinstance(stmt, Instr) for use in stmt.tiles]
    return sum(use.tile == tile for use in uses)
