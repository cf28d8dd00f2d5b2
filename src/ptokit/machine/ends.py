"""What a finding says of the two accesses of a conflict: names, bytes and rows, block and iteration."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from ptokit.engine.storage import Array
from ptokit.finding import VECTOR, ConflictAccess, Iteration
from ptokit.isa.policy import BLayout, SLayout
from ptokit.machine.memories import Global, MemoryLocation
from ptokit.machine.shadow import READ, Earlier, Extent, Shadow
from ptokit.program.cores import unit_of
from ptokit.program.expr import Var, evaluate
from ptokit.program.instr_calls import access_of, all_operands, call_of, effects
from ptokit.program.ir import Block, Instr, Loop, Program, Stmt, TileUse, View, children
from ptokit.program.show import name_of, operands_of
from ptokit.target import Profile

Moment = tuple[int, ...]
"""The values of the loop variables around a statement, the outermost first. If both vector cores of a block run the
program, the number of the one that runs comes before them."""


class VectorNumber(int):
    """The number of a vector core in its block."""


Issued = tuple[Stmt, Moment]
"""A statement that was issued, and when."""


@dataclass
class RunningBlock:
    """The block that runs."""

    number: int = 0
    values: Mapping[Var, int] = field(default_factory=dict[Var, int])
    """Its numbers."""
    moment: Moment = ()
    """The iteration that runs."""


class Iterations:
    """The iterations in which the pipes of a launch worked. Kept as bare numbers; findings look them up."""

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

    def forget(self, since: Sequence[int]) -> None:
        """Forget what came after a time on each pipe."""
        for pipe, time in enumerate(since):
            at = bisect_right(self._times[pipe], time)
            del self._times[pipe][at:], self._moments[pipe][at:]
            self._last[pipe] = None

    def find(self, pipe: int, time: int) -> Moment:
        at = bisect_right(self._times[pipe], time)
        return self._moments[pipe][at - 1] if at else ()

    def shown(self, number: int, moment: Moment) -> Iteration:
        """An iteration with the names of the loop variables."""
        vector = tuple((VECTOR, int(value)) for value in moment[:1] if isinstance(value, VectorNumber))
        return (*vector, *zip(map(self._name, self._loops[number]), moment[len(vector) :], strict=False))

    def _name(self, var: Var) -> str:
        """The author's name of a loop variable: without the number that distinguishes several loops."""
        name = re.sub(r"_\d+$", "", var)
        return name if any(name in loops for loops in self._loops) else str(var)


def _loops(block: Block, around: tuple[Var, ...]) -> Iterator[tuple[Var, ...]]:
    for stmt in block:
        yield around
        inside = (*around, stmt.var) if isinstance(stmt, Loop) else around
        for inner in children(stmt):
            yield from _loops(inner, inside)


Span = tuple[int, int]
"""The first, and the end: one after the last."""


class MemoryAccess(NamedTuple):
    """A part of a memory that an instruction touches."""

    operand: str
    how: str
    place: MemoryLocation
    extent: Extent
    is_index: bool = False
    tile: str = ""
    """The tile; empty for global memory."""
    is_lost: bool = False
    """Whether what is written there is unspecified: a workspace, or bytes beside the result."""


class Meeting(NamedTuple):
    """An access that conflicts with an earlier one."""

    number: int
    """Of its statement."""
    moment: Moment
    pipe: str
    gate: str
    """The pipe that can wait before it."""
    touch: MemoryAccess
    earlier: Earlier
    last: Meeting | None = None
    """One whose order makes up for that of this one, if it is another."""


def instruction_of(stmt: Stmt) -> str:
    """The name of what a statement calls."""
    return stmt.name if isinstance(stmt, Instr) else "load_scalar"


class Naming:
    """What the author of a program calls the operands of its statements."""

    def __init__(self, program: Program, profile: Profile, gm: Global) -> None:
        self.program, self.profile, self.gm = program, profile, gm
        self.starts: dict[tuple[Shadow, str, int], dict[tuple[int, str], int]] = {}
        """By memory of the chip, kind of access and statement: where which operand was accessed, and when last."""

    def name(self, stmt: Stmt, operand: str, address: int) -> str:
        """The tile or the array of an operand; of a tile without a name, its kind and address."""
        used = operands_of(stmt).get(operand)
        name = name_of(self.program, used)
        if name or not isinstance(used, TileUse):
            return name
        return f"the {self.program.tiles[used.tile].spec.loc.name.lower()} tile at {address:#x}"

    def tiles(self, stmts: Iterable[Stmt], ends: Iterable[ConflictAccess]) -> frozenset[str]:
        """The tiles that two accesses share bytes of; empty if it is only one, or an array."""
        used = [(operands_of(stmt).get(end.operand), end.operand) for stmt, end in zip(stmts, ends, strict=True)]
        found = frozenset(getattr(operand, "tile", "" if operand else name) for operand, name in used)
        return found if len(found) == 2 else frozenset()

    def operand(self, stmt: Stmt, earlier: Earlier, pipe: str, touch: MemoryAccess, meets: str, first: int) -> str:
        """The operand of an earlier statement that a pipe accessed in that way, in that kind of memory. `meets` is the
        array of the other access, `first` where they meet."""
        if not isinstance(stmt, Instr):
            return "source"
        starts = self.starts.get((touch.place.shadow, earlier.how, earlier.statement), {})
        if at := [place for place, time in starts.items() if time == earlier.time and place[0] <= first]:
            return max(at, key=lambda place: place[0])[1]
        expected = ("read" if earlier.how == READ else "write", "update")
        kind = View if touch.place.is_global else TileUse
        operands = all_operands(stmt)
        fitting = [name for name, operand in operands.items() if isinstance(operand, kind)]
        fitting.sort(key=lambda name: getattr(operands[name], "tile", "") != touch.tile)
        fitting.sort(key=lambda name: getattr(operands[name], "argument", "") != meets)
        touched = effects(call_of(self.program, stmt, self.profile))
        by_pipe = [effect.operand for effect in touched if effect.pipe == pipe and effect.access in expected]
        access = access_of(stmt)
        return next((n for names in (by_pipe, access) for n in fitting if n in names and access[n] in expected), "")

    def ends(
        self, meeting: Meeting, stmts: tuple[Stmt, Stmt], pipes: tuple[str, str], values: Mapping[Var, int]
    ) -> tuple[ConflictAccess, ConflictAccess]:
        """The earlier and the later access, without their blocks and iterations. `stmts` and `pipes` are theirs."""
        touch, earlier = meeting.touch, meeting.earlier
        place, unit = touch.place, touch.place.shadow.unit
        layer = place.shadow.layers[earlier.how, earlier.pipe]
        first, end = layer.shared(touch.extent, place.start, earlier)
        shared = first * unit, end * unit
        used = operands_of(stmts[1]).get(touch.operand)
        operand = self.operand(stmts[0], earlier, unit_of(pipes[0]), touch, getattr(used, "argument", ""), first)
        return (
            self._access(stmts[0], operand, earlier.how, (pipes[0], pipes[0]), touch, shared, values),
            self._access(stmts[1], touch.operand, touch.how, (pipes[1], meeting.gate), touch, shared, values),
        )

    def part(self, stmt: Stmt, touch: MemoryAccess, places: Array) -> ConflictAccess:
        """These units of an access to on-chip memory; with rows if they are all that it touches of them."""
        unit, touched = touch.place.shadow.unit, touch.extent.positions(touch.place.start)
        shared = int(places.min()) * unit, int(places.max() + 1) * unit
        found = self._access(stmt, touch.operand, touch.how, ("", ""), touch, shared, {})
        if found.rows is None:
            return found
        rows = (touched - touch.place.start + touch.place.ahead) * unit // self._row(touch.tile)[0]
        inside = (rows >= found.rows[0]) & (rows <= found.rows[1])
        return found if np.count_nonzero(inside) == places.size else replace(found, rows=None)

    def store(self, stmt: Stmt, pipe: str, touch: MemoryAccess, block: int) -> ConflictAccess:
        """A store of a block to the operand of an access."""
        named = instruction_of(stmt), touch.operand, self.name(stmt, touch.operand, 0)
        return ConflictAccess(*named, touch.how, pipe, pipe, touch.place.name, stmt.where, block=block)

    def _access(
        self,
        stmt: Stmt,
        operand: str,
        how: str,
        pipes: tuple[str, str],
        touch: MemoryAccess,
        shared: Span,
        values: Mapping[Var, int],
    ) -> ConflictAccess:
        place = touch.place
        name = self.name(stmt, operand, (place.start - place.ahead) * place.shadow.unit)
        span, rows = self._span(stmt, operand, touch, shared, values)
        named = instruction_of(stmt), operand, name
        return ConflictAccess(*named, how, *pipes, place.name, stmt.where, bytes=span, rows=rows)

    def _span(
        self, stmt: Stmt, operand: str, touch: MemoryAccess, shared: Span, values: Mapping[Var, int]
    ) -> tuple[Span, Span | None]:
        """Bytes that two accesses share, and the rows of an operand that they belong to, if it has rows of bytes."""
        used, unit = operands_of(stmt).get(operand), touch.place.shadow.unit
        base, length, count = (touch.place.start - touch.place.ahead) * unit, 0, 0
        if isinstance(used, View):
            argument = self.program.tensors[used.argument]
            base = self.gm.start(argument.name) * unit + evaluate(argument.offset, values) * argument.dtype.size
            shared = shared[0] - base, shared[1] - base
            base = 0
            strides = [evaluate(stride, values) for stride in argument.stride]
            if len(strides) > 1 and strides[0] == max(strides):
                length, count = strides[0] * argument.dtype.size, evaluate(argument.shape[0], values)
        elif isinstance(used, TileUse) and used.tile == touch.tile:
            length, count = self._row(touch.tile)
        if length <= 0 or count < 2:
            return shared, None
        return shared, ((shared[0] - base) // length, (shared[1] - 1 - base) // length)

    def _row(self, tile: str) -> Span:
        """The bytes of a row of a tile, and how many rows it has; zeros if rows are not in one piece."""
        spec = self.program.tiles[tile].spec
        has_rows = spec.blayout is BLayout.RowMajor and spec.slayout is SLayout.NoneBox
        return (spec.cols * spec.dtype.size, spec.rows) if has_rows else (0, 0)
