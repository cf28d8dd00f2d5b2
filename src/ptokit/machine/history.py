"""In which iterations the pipes worked. Kept as bare numbers; findings look them up."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator

from ptokit.finding import Iteration
from ptokit.program.expr import Var
from ptokit.program.ir import Block, Loop, Program, Stmt, children

Moment = tuple[int, ...]
"""The values of the loop variables around a statement, the outermost first."""


Issued = tuple[Stmt, Moment]
"""A statement that was issued, and when."""


class Iterations:
    """The iterations of one launch."""

    def __init__(self, program: Program, pipes: int) -> None:
        self._loops = tuple(_loops(program.body, ()))
        """For each statement, in the order of `walk`: the loop variables around it."""
        self._times: list[list[int]] = [[] for _ in range(pipes)]
        self._moments: list[list[Moment]] = [[] for _ in range(pipes)]
        """By the number of a pipe: when it came to another iteration, and to which."""
        self._last: list[Moment | None] = [None] * pipes

    def record(self, pipe: int, time: int, moment: Moment) -> None:
        """A pipe works for an iteration."""
        if moment is not self._last[pipe]:
            self._last[pipe] = moment
            self._moments[pipe].append(moment)
            self._times[pipe].append(time)

    def find(self, pipe: int, time: int) -> Moment:
        """The iteration for which a pipe worked at a time."""
        at = bisect_right(self._times[pipe], time)
        return self._moments[pipe][at - 1] if at else ()

    def shown(self, number: int, moment: Moment) -> Iteration:
        """An iteration with the names of the loop variables."""
        return tuple(zip(map(self._name, self._loops[number]), moment, strict=False))

    def _name(self, var: Var) -> str:
        """The author's name of a loop variable: without the number that tells several loops apart."""
        name = re.sub(r"_\d+$", "", var)
        return name if any(name in loops for loops in self._loops) else str(var)


def _loops(block: Block, around: tuple[Var, ...]) -> Iterator[tuple[Var, ...]]:
    for stmt in block:
        yield around
        inside = (*around, stmt.var) if isinstance(stmt, Loop) else around
        for inner in children(stmt):
            yield from _loops(inner, inside)
