"""Whether the blocks of a launch can run in parallel: none writes what another one reads or writes.

The check uses the boxes of the arrays that each block names. An indexed access counts as the whole array. If there are
too many blocks or iterations to try all, or a box is known at run time only, its bounds must lie at a constant distance
from block to block, which is no shorter than what a block names.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from ptokit.program.bounds import Reach, reaches
from ptokit.program.calls import access_of, named_operands
from ptokit.program.expr import BLOCK_IDX, Var, affine, apply, subtract
from ptokit.program.ir import Argument, Instr, LoadScalar, Program, Stmt, View, walk

Array = np.ndarray[Any, np.dtype[Any]]
Touch = tuple[View, Reach]


@dataclass(frozen=True)
class BlockAccess:
    """The accesses of a statement to an array: block, and bounds in each dim, one entry for each execution."""

    blocks: Array
    lows: Array
    highs: Array


def are_independent(program: Program, grid: int, integers: Mapping[Var, int], besides: Set[str] = frozenset()) -> bool:
    """Whether no block writes what another one reads or writes; memories `besides` are ignored."""
    written = _written(program) - besides
    touched: defaultdict[str, list[Touch]] = defaultdict(list)
    for stmt, reach in reaches(program, grid, integers):
        for view, _ in views_of(stmt):
            argument = program.tensors[view.argument]
            if memory_of(argument) in written:
                touched[memory_of(argument)].append((view, reach))
    return all(_are_of_one_array(touches) and _are_partitioned(touches) for touches in touched.values())


def _written(program: Program) -> set[str]:
    views = (pair for stmt in walk(program.body) for pair in views_of(stmt))
    return {memory_of(program.tensors[view.argument]) for view, writes in views if writes}


def views_of(stmt: Stmt) -> Iterator[tuple[View, bool]]:
    """The boxes of arguments that a statement names, and whether it writes them."""
    if isinstance(stmt, LoadScalar):
        yield stmt.source, False
    if isinstance(stmt, Instr):
        access = access_of(stmt.name)
        for name, operand in named_operands(stmt).items():
            if isinstance(operand, View):
                yield operand, access[name] != "read"


def memory_of(argument: Argument) -> str:
    """The memory that an argument lies in, by the name of an argument."""
    return argument.memory or argument.array


def _are_of_one_array(touches: Sequence[Touch]) -> bool:
    return len({view.argument for view, _ in touches}) == 1


def _are_partitioned(touches: Sequence[Touch]) -> bool:
    """Whether every block has a box of its own; its elements lie apart, or writing it is refused."""
    known = [each for each in (_block_access(*touch) for touch in touches) if each is not None]
    if len(known) == len(touches):
        return _are_boxes_apart(known)
    return any(_are_evenly_apart(touches, dim) for dim in range(len(touches[0][0].starts)))


def _are_evenly_apart(touches: Sequence[Touch], dim: int) -> bool:
    """Whether blocks have ranges of their own in a dim, a constant distance from each other."""
    distance = affine(touches[0][0].starts[dim]).get(BLOCK_IDX, 0)
    lows: list[float] = []
    highs: list[float] = []
    for view, reach in touches:
        start = subtract(view.starts[dim], apply("mul", distance, BLOCK_IDX))
        lows.append(reach.lowest(start))
        highs.append(reach.highest(apply("add", start, view.sizes[dim])))
    return max(highs) - min(lows) <= distance


def _block_access(view: View, reach: Reach) -> BlockAccess | None:
    lows = [reach.value(start) for start in view.starts]
    highs = [reach.value(apply("add", start, size)) for start, size in zip(view.starts, view.sizes, strict=True)]
    if reach.values is None or any(found is None for found in (*lows, *highs)):
        return None
    boxes = (np.stack([each for each in found if each is not None], axis=1) for found in (lows, highs))
    return BlockAccess(reach.values[BLOCK_IDX], *boxes)


def _are_boxes_apart(known: Sequence[BlockAccess]) -> bool:
    blocks = np.concatenate([touch.blocks for touch in known])
    lows = np.concatenate([touch.lows for touch in known])
    highs = np.concatenate([touch.highs for touch in known])
    named = (highs > lows).all(axis=1)
    order = np.argsort(blocks[named], kind="stable")
    own, first = np.unique(blocks[named][order], return_index=True)
    if not own.size:
        return True
    return _are_apart(
        np.minimum.reduceat(lows[named][order], first), np.maximum.reduceat(highs[named][order], first), 0
    )


def _are_apart(lows: Array, highs: Array, dim: int) -> bool:
    """Whether no two boxes meet: those that meet in one dim must not do so in the next."""
    if len(lows) < 2:
        return True
    if dim == lows.shape[1]:
        return False
    order = np.argsort(lows[:, dim], kind="stable")
    lows, highs = lows[order], highs[order]
    reached = np.maximum.accumulate(highs[:, dim])
    cuts = np.flatnonzero(lows[1:, dim] >= reached[:-1]) + 1
    edges = [0, *cuts.tolist(), len(lows)]
    return all(b - a == 1 or _are_apart(lows[a:b], highs[a:b], dim + 1) for a, b in pairwise(edges))
