"""Which accesses of a program may touch the same memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf

from ptokit.isa.policy import TileType
from ptokit.program import ir
from ptokit.program.expr import (
    ANYTHING,
    BLOCK_IDX,
    BLOCK_NUM,
    Bounds,
    Expr,
    Var,
    apply,
    interval,
    substitute,
    subtract,
    variables,
)
from ptokit.program.instr_calls import overlaps_itself

Path = tuple[int, ...]
"""A statement: its number in its block, after the (number, arm) of every statement around it. A block: only these."""
Span = tuple[TileType, float, float]
"""Addresses in one memory: the first, and the one after the last."""
Cell = tuple[str, int]
"""A copy of a tile."""

EVERYWHERE: tuple[Path, ...] = ((),)
"""The loops around a variable with several definitions. No loop equals it, so its value is never known."""


def statements(block: ir.Block, at: Path = ()) -> Iterator[tuple[Path, ir.Stmt]]:
    """Every statement with its path, in program order."""
    for number, stmt in enumerate(block):
        yield (*at, number), stmt
        for arm, inner in enumerate(ir.children(stmt)):
            yield from statements(inner, (*at, number, arm))


def meeting_block(a: Path, b: Path) -> tuple[Path, int, int]:
    """The innermost block around two statements, and the numbers of the two in it."""
    depth = 0
    while depth + 2 < min(len(a), len(b)) and a[depth : depth + 2] == b[depth : depth + 2]:
        depth += 2
    return a[:depth], a[depth], b[depth]


def rewrite(view: ir.View, values: Mapping[Var, Expr]) -> ir.View:
    """The view with variables replaced."""
    starts, sizes = ([substitute(expr, values) for expr in exprs] for exprs in (view.starts, view.sizes))
    return ir.View(view.argument, tuple(starts), tuple(sizes))


class Outline:
    """The loops of a program, by the paths of their bodies, and which of them are around each definition."""

    def __init__(self, program: ir.Program) -> None:
        self.loops: dict[Path, ir.Loop] = {}
        self.tiles: dict[str, tuple[Path, ...]] = {}
        self.scalars: dict[Var, tuple[Path, ...]] = {}
        for path, stmt in statements(program.body):
            if isinstance(stmt, ir.Loop):
                self.loops[*path, 0] = stmt
            elif isinstance(stmt, ir.TileDecl):
                self.tiles[stmt.name] = self.around(path)
            elif isinstance(stmt, ir.LoadScalar):
                self.scalars[stmt.result] = EVERYWHERE if stmt.result in self.scalars else self.around(path)

    def around(self, path: Path) -> tuple[Path, ...]:
        """The loops around a statement or a block, the outermost first."""
        return tuple(path[:depth] for depth in range(2, len(path) + 1, 2) if path[:depth] in self.loops)


@dataclass(frozen=True, eq=False)
class OperandAccess:
    """The access of one step of a statement to an operand, and the loops around it."""

    operand: ir.TileUse | ir.View
    writes: bool
    loops: tuple[Path, ...]
    late: bool = False
    """Whether it comes after a barrier inside the instruction, on a pipe whose instructions may overlap."""


class Tiles:
    """The copies of a program's tiles, and which of them share memory."""

    def __init__(self, program: ir.Program, outline: Outline) -> None:
        self.program = program
        self.homes = outline.tiles
        self.spans = self._spans()
        self.overlapping = {cell: [other for other in self.spans if self._share(cell, other)] for cell in self.spans}

    def _spans(self) -> dict[Cell, list[Span]]:
        moved: dict[str, list[Expr]] = defaultdict(list)
        for stmt in ir.walk(self.program.body):
            if isinstance(stmt, ir.Assign):
                moved[stmt.tile].append(stmt.address)
        spans: dict[Cell, list[Span]] = {}
        for name, decl in self.program.tiles.items():
            for copy in range(decl.buffers):
                own = [decl.addresses[copy % len(decl.addresses)]] if decl.addresses else []
                spans[name, copy] = [_span(decl, address) for address in (*own, *moved[name])]
        return spans

    def _share(self, cell: Cell, other: Cell) -> bool:
        return cell == other or any(
            a[0] is b[0] and a[1] < b[2] and b[1] < a[2] for a in self.spans[cell] for b in self.spans[other]
        )

    def cells(self, tile: str, loops: tuple[Path, ...], iterations: tuple[int, ...]) -> list[Cell]:
        """The copies that a tile's name may refer to, given the iteration of each loop around."""
        home, copies = self.homes[tile], self.program.tiles[tile].buffers
        if home and loops[: len(home)] == home:
            return [(tile, iterations[len(home) - 1] % copies)]
        return [(tile, copy) for copy in range(copies)]


def _span(decl: ir.TileDecl, address: Expr) -> Span:
    if isinstance(address, int):
        return decl.spec.loc, address, address + decl.spec.nbytes
    return decl.spec.loc, -inf, inf


class Views:
    """The blocks of arguments that a program touches, and which of them may overlap.

    A variable keeps its value until a loop around its definition starts its next iteration.
    """

    def __init__(self, program: ir.Program, outline: Outline) -> None:
        self.program = program
        self.bounds: dict[Var, Bounds] = {BLOCK_IDX: (0, inf), BLOCK_NUM: (1, inf)}
        self.homes = dict(outline.scalars)
        self._varying = {*outline.scalars, *(loop.var for loop in outline.loops.values())}
        self.counters: dict[Path, Var] = {}
        """The variable that counts the iterations of each loop."""
        self._answers: dict[tuple[OperandAccess, OperandAccess, int], bool] = {}

    def memory(self, view: ir.View) -> str:
        argument = self.program.tensors[view.argument]
        return argument.memory or argument.array

    def may_overlap(self, a: OperandAccess, b: OperandAccess, level: int) -> bool:
        """Whether two views may overlap, if `b` comes later and only `level` outer loops are in the same iteration."""
        key = a, b, level
        if key not in self._answers:
            self._answers[key] = self._compute(a, b, level)
        return self._answers[key]

    def _compute(self, a: OperandAccess, b: OperandAccess, level: int) -> bool:
        first, then = a.operand, b.operand
        assert isinstance(first, ir.View) and isinstance(then, ir.View)
        argument = self.program.tensors[first.argument]
        if first.argument != then.argument or overlaps_itself(argument) or not self._is_steady(argument):
            return True
        moving = a.loops[level : level + 1] == b.loops[level : level + 1] != ()
        later = self._later(then, a.loops[:level], self.counters[a.loops[level]] if moving else None)
        dims = zip(first.starts, first.sizes, later.starts, later.sizes, strict=True)
        return not any(
            self._ends_before(start, size, other) or self._ends_before(other, other_size, start)
            for start, size, other, other_size in dims
        )

    def _is_steady(self, argument: ir.Argument) -> bool:
        """Whether an argument has the same shape, strides and offset during the whole run of a block."""
        used = frozenset[Var]().union(*map(variables, (*argument.shape, *argument.stride, argument.offset)))
        return used.isdisjoint(self._varying)

    def _ends_before(self, start: Expr, size: Expr, other: Expr) -> bool:
        """Whether a range certainly ends before another begins."""
        return interval(subtract(other, apply("add", start, size)), self.bounds)[0] >= 0

    def _later(self, view: ir.View, same: tuple[Path, ...], moving: Var | None) -> ir.View:
        """The view in a later iteration of the loop of `moving`, if only the loops `same` are in the same iteration."""
        values: dict[Var, Expr] = {}
        for var in frozenset[Var]().union(*map(variables, (*view.starts, *view.sizes))):
            home = self.homes.get(var, ())
            if home != same[: len(home)]:
                values[var] = self._ahead(var) if var == moving else self._other(var)
        return rewrite(view, values)

    def _ahead(self, counter: Var) -> Expr:
        distance = Var(f"{counter}+")
        self.bounds[distance] = 1, max(1, self.bounds[counter][1])
        return apply("add", counter, distance)

    def _other(self, var: Var) -> Var:
        other = Var(f"{var}'")
        self.bounds[other] = self.bounds.get(var, ANYTHING)
        return other


class History:
    """The accesses so far, as sets of steps. A set is an integer, a step one of its bits."""

    def __init__(self, program: ir.Program) -> None:
        self.outline = Outline(program)
        self.tiles = Tiles(program, self.outline)
        self.views = Views(program, self.outline)
        self._readers: dict[Cell, int] = defaultdict(int)
        self._writers: dict[Cell, int] = defaultdict(int)
        self._blocks: dict[str, list[tuple[OperandAccess, tuple[int, ...], int]]] = defaultdict(list)

    def conflicts(self, access: OperandAccess, iterations: tuple[int, ...]) -> int:
        """The steps so far that touch the same memory, if they or the new access write."""
        operand = access.operand
        if isinstance(operand, ir.View):
            return self._view_conflicts(access, operand, iterations)
        found = self.writers(access, iterations)
        for cell in self.tiles.cells(operand.tile, access.loops, iterations) if access.writes else ():
            for other in self.tiles.overlapping[cell]:
                found |= self._readers[other]
        return found

    def writers(self, access: OperandAccess, iterations: tuple[int, ...]) -> int:
        """The steps so far that write the memory of a tile."""
        operand, found = access.operand, 0
        for cell in self.tiles.cells(operand.tile, access.loops, iterations) if isinstance(operand, ir.TileUse) else ():
            for other in self.tiles.overlapping[cell]:
                found |= self._writers[other]
        return found

    def _view_conflicts(self, access: OperandAccess, view: ir.View, iterations: tuple[int, ...]) -> int:
        found = 0
        for earlier, when, bit in self._blocks[self.views.memory(view)]:
            if (access.writes or earlier.writes) and not found & bit:
                level = _common_level(earlier.loops, access.loops, when, iterations)
                found |= bit if self.views.may_overlap(earlier, access, level) else 0
        return found

    def record(self, access: OperandAccess, iterations: tuple[int, ...], bit: int) -> None:
        operand = access.operand
        if isinstance(operand, ir.View):
            self._blocks[self.views.memory(operand)].append((access, iterations, bit))
            return
        table = self._writers if access.writes else self._readers
        for cell in self.tiles.cells(operand.tile, access.loops, iterations):
            table[cell] |= bit


def _common_level(a: tuple[Path, ...], b: tuple[Path, ...], when: tuple[int, ...], then: tuple[int, ...]) -> int:
    """How many of the outermost loops around two accesses are the same, in the same iteration."""
    level = 0
    while level < min(len(a), len(b)) and a[level] == b[level] and when[level] == then[level]:
        level += 1
    return level
