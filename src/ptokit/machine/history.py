"""In which iterations the pipes worked. Kept as bare numbers; findings look them up."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ptokit.finding import Iteration
from ptokit.program.expr import Var
from ptokit.program.ir import Block, Loop, Program, Stmt, children

Moment = tuple[int, ...]
"""The values of the loop variables around a statement, the outermost first."""


class Issued(NamedTuple):
    """A statement that was issued, and when."""

    stmt: Stmt
    moment: Moment


class History:
    """The iterations of one launch."""

    def __init__(self, program: Program) -> None:
        self._loops = tuple(_loops(program.body, ()))
        """For each statement, in the order of `walk`: the loop variables around it."""
        self._times: dict[int, list[int]] = defaultdict(list)
        self._moments: dict[int, list[Moment]] = defaultdict(list)
        """By the number of a pipe: when it came to another iteration, and to which."""

    def moment(self, number: int, values: Mapping[Var, int]) -> Moment:
        """The iteration of a statement that is issued now."""
        loops = self._loops[number]
        return tuple([values[var] for var in loops]) if loops else ()

    def record(self, pipe: int, time: int, moment: Moment) -> None:
        """A pipe works for an iteration."""
        moments = self._moments[pipe]
        if not moments or moments[-1] != moment:
            moments.append(moment)
            self._times[pipe].append(time)

    def find(self, pipe: int, time: int) -> Moment:
        """The iteration for which a pipe worked at a time."""
        at = bisect_right(self._times[pipe], time)
        return self._moments[pipe][at - 1] if at else ()

    def shown(self, number: int, moment: Moment) -> Iteration:
        """An iteration with the names of the loop variables."""
        return tuple(zip(map(str, self._loops[number]), moment, strict=False))


def _loops(block: Block, around: tuple[Var, ...]) -> Iterator[tuple[Var, ...]]:
    for stmt in block:
        yield around
        inside = (*around, stmt.var) if isinstance(stmt, Loop) else around
        for inner in children(stmt):
            yield from _loops(inner, inside)
