"""Slices and valid extents against brute force: every block and iteration is run, and every range is checked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import count

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptokit.finding import Where
from ptokit.isa.dtype import dtype
from ptokit.isa.operand import TileSpec
from ptokit.isa.policy import TileType
from ptokit.program import bounds
from ptokit.program.bounds import MOST_TRIED, Reach, check_bounds, reaches
from ptokit.program.expr import BLOCK_IDX, BLOCK_NUM, COMPARISONS, Expr, Var, apply, evaluate, subtract
from ptokit.program.ir import (
    Argument,
    Block,
    Branch,
    Instr,
    Integer,
    LoadScalar,
    Loop,
    Operand,
    Program,
    Stmt,
    TileDecl,
    TileUse,
    View,
)
from ptokit.program.overlaps import placed_tiles
from tests.program.building import tile

ROWS, COLS = 6, 4
"""The tile, and the array it is loaded from."""
SHAPE = (12, 5)


def program(*body: Stmt, integers: str = "") -> Program:
    """A program over one array and one tile."""
    arguments = Argument("x", dtype("int32"), SHAPE, (SHAPE[1], 1))
    return Program("k", (arguments, *map(Integer, integers.split())), (tile("t", rows=ROWS, cols=COLS), *body))


def load(start: Expr, size: Expr, valid: Expr = 1, *, line: int = 1) -> Instr:
    """A load of some rows, with some valid rows of the tile."""
    view = View("x", (start, 0), (size, SHAPE[1]))
    return Instr("tload", (TileUse("t", (valid, COLS)), view), where=Where("k.py", line))


@dataclass
class Maker:
    """Draws random bodies: names for loop variables, a line for every instruction."""

    draw: st.DrawFn
    lines: Iterator[int] = field(default_factory=lambda: count(1))
    loops: Iterator[int] = field(default_factory=count)
    views: list[tuple[View, frozenset[Var]]] = field(default_factory=list)

    def number(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def expr(self, known: list[Var], depth: int = 2) -> Expr:
        """A small expression of the variables that are known here."""
        if not depth or self.number(0, 3) == 0:
            return self.draw(st.sampled_from([*known, 0, 1, 2, 3, 5, 8]))
        name = self.draw(st.sampled_from(["add", "sub", "mul", "floordiv", "mod", "min", "max", "lt", "eq", "shl"]))
        right = self.number(1, 3) if name in ("mul", "floordiv", "mod", "shl") else self.expr(known, depth - 1)
        return apply(name, self.expr(known, depth - 1), right)

    def view(self, known: list[Var]) -> View:
        """Rows from a random start, of a size that often ends with the array."""
        start = self.expr(known)
        size = self.expr(known, 1)
        if self.number(0, 1):
            size = apply("min", size, subtract(SHAPE[0], start))
        if self.number(0, 1):
            start, size = apply("max", 0, start), apply("max", 0, size)
        return View("x", (start, 0), (size, SHAPE[1]))

    def instr(self, known: list[Var]) -> Instr:
        """An instruction; now and then with a view that another one has."""
        again = [view for view, names in self.views if names.issubset(known)]
        view = self.draw(st.sampled_from(again)) if again and self.number(0, 2) == 0 else self.view(known)
        self.views.append((view, frozenset(known)))
        valid = self.draw(st.sampled_from([1, ROWS])) if self.number(0, 1) else self.expr(known, 1)
        return Instr("tload", (TileUse("t", (valid, COLS)), view), where=Where("k.py", next(self.lines)))

    def block(self, known: list[Var], depth: int = 2) -> Block:
        """One to three statements."""
        return tuple(self.stmt(known, depth) for _ in range(self.number(1, 3)))

    def stmt(self, known: list[Var], depth: int) -> Stmt:
        kind = self.draw(st.sampled_from(["instr", "loop", "branch"])) if depth else "instr"
        if kind == "loop":
            var, step = Var(f"i{next(self.loops)}"), self.draw(st.sampled_from([1, 2, 3, -1, -2]))
            ends = (self.expr(known, 1), self.expr(known, 1))
            return Loop(var, *ends, step, self.block([*known, var], depth - 1))
        if kind == "branch":
            return Branch(self.expr(known, 1), self.block(known, depth - 1), self.block(known, depth - 1))
        return self.instr(known)


@st.composite
def programs(draw: st.DrawFn) -> Program:
    return program(*Maker(draw).block([BLOCK_IDX, BLOCK_NUM]))


def leaves(operand: Operand, values: dict[Var, int]) -> bool:
    """Whether a slice leaves its array, or a valid region its tile."""
    if isinstance(operand, TileUse):
        return not all(0 <= evaluate(n, values) <= most for n, most in zip(operand.valid, (ROWS, COLS), strict=True))
    assert isinstance(operand, View)
    ranges = [(evaluate(a, values), evaluate(n, values)) for a, n in zip(operand.starts, operand.sizes, strict=True)]
    return not all(min(a, n) >= 0 and a + n <= most for (a, n), most in zip(ranges, SHAPE, strict=True))


def run(block: Block, values: dict[Var, int]) -> Iterator[tuple[int, Operand, bool]]:
    """Everything that happens: the line, each operand, and whether it leaves its limits."""
    for stmt in block:
        if isinstance(stmt, Loop):
            for i in range(evaluate(stmt.start, values), evaluate(stmt.stop, values), stmt.step):
                yield from run(stmt.body, {**values, stmt.var: i})
        elif isinstance(stmt, Branch):
            yield from run(stmt.then if evaluate(stmt.condition, values) else stmt.otherwise, values)
        elif isinstance(stmt, Instr):
            yield from ((stmt.where.line, operand, leaves(operand, values)) for operand in stmt.operands)


def wrong(case: Program, grid: int) -> set[tuple[int, Operand]]:
    """Lines and their operands that leave their limits in some block."""
    happened = (event for b in range(grid) for event in run(case.body, {BLOCK_IDX: b, BLOCK_NUM: grid}))
    return {(line, operand) for line, operand, left in happened if left}


@settings(max_examples=100)
@given(programs(), st.integers(0, 5))
def test_findings_are_exactly_what_brute_force_finds(case: Program, grid: int) -> None:
    expected = wrong(case, grid)
    reported = {finding.where.line for finding in check_bounds(case, grid)}
    assert reported <= {line for line, _ in expected}
    operands = {operand for line, operand in expected if line in reported}
    assert {operand for _, operand in expected} <= operands, "every faulty operand is reported somewhere"


@settings(max_examples=30)
@given(programs(), st.integers(0, 5))
def test_every_instruction_that_runs_is_reached(case: Program, grid: int) -> None:
    reached = {stmt.where.line for stmt, _ in reaches(case, grid) if isinstance(stmt, Instr)}
    for block in range(grid):
        assert {line for line, _, _ in run(case.body, {BLOCK_IDX: block, BLOCK_NUM: grid})} <= reached


@settings(max_examples=30)
@given(programs())
def test_what_is_reported_without_a_grid_is_wrong_in_every_grid(case: Program) -> None:
    certain = {finding.where.line for finding in check_bounds(case, None)}
    for grid in (1, 2, 5):
        assert certain <= {line for line, _ in wrong(case, grid)}


B, N, I = BLOCK_IDX, Var("n"), Var("i")  # noqa: E741


def rows_of_block(rows: int) -> tuple[Expr, Expr]:
    """The start of a block's rows, and how many there are: the last block may be short."""
    start = apply("mul", B, rows)
    return start, apply("min", rows, subtract(SHAPE[0], start))


@pytest.mark.parametrize("grid", [1, 2, 3])
def test_a_short_last_block_is_fine(grid: int) -> None:
    assert not list(check_bounds(program(load(*rows_of_block(5))), grid))


def test_one_block_too_many_is_reported_with_its_number() -> None:
    (finding,) = check_bounds(program(load(*rows_of_block(5))), 4)
    assert (finding.rule, finding.operand, finding.found) == ("KN-10", "x", "15:12")
    assert finding.message == "the slice x[15:12] does not lie within 0:12 in block 3"


def test_an_iteration_is_named() -> None:
    loop = Loop(I, 0, 5, 2, (load(apply("mul", I, 3), 3),))
    (finding,) = check_bounds(program(loop), 2)
    assert finding.message == "the slice x[12:15] does not lie within 0:12 in block 0 with i = 4"


def test_valid_extents_are_held_against_the_tile() -> None:
    (finding,) = check_bounds(program(load(0, 1, apply("add", B, 4))), 4)
    assert (finding.rule, finding.operand, finding.found) == ("CO-SHAPE-02", "t", "7")
    assert "7 valid rows of t do not lie within 0:6 in block 3" in finding.message


def test_the_same_slice_is_looked_at_again_where_more_blocks_get_to() -> None:
    again = load(apply("mul", B, 4), 4, line=2)
    guarded = Branch(apply("lt", B, 3), (load(apply("mul", B, 4), 4),))
    assert [finding.where.line for finding in check_bounds(program(guarded, again), 4)] == [2]


@pytest.mark.parametrize("size", [5, apply("min", 5, subtract(SHAPE[0], N))])
def test_sizes_known_at_run_time_are_deferred(size: Expr) -> None:
    assert not list(check_bounds(program(load(N, size), integers="n"), 3))


def test_a_number_from_memory_is_left_to_the_run() -> None:
    source = View("x", (0, 0), (1, 1))
    read = LoadScalar(N, source, where=Where("k.py", 1))
    assert not list(check_bounds(program(read, load(N, 1, line=2)), 1))
    outside = LoadScalar(N, View("x", (B, 0), (1, 1)), where=Where("k.py", 1))
    assert [finding.where.line for finding in check_bounds(program(outside, load(N, 1, line=2)), 13)] == [1]


def test_unknown_numbers_hide_nothing_that_is_known() -> None:
    loop = Loop(I, 0, N, 1, (load(I, 1), load(apply("add", B, 12), 1, line=2)))
    known = load(apply("add", B, 12), 1, line=3)
    assert [finding.where.line for finding in check_bounds(program(loop, known, integers="n"), 1)] == [3]


def test_large_grids_and_loops_are_proved_and_not_tried() -> None:
    start = apply("mod", B, 12)
    safe = load(start, apply("min", 5, subtract(SHAPE[0], start)))
    assert not list(check_bounds(program(safe), MOST_TRIED * 1000))
    assert not list(check_bounds(program(Loop(I, 0, 1 << 40, 1, (load(apply("mod", I, 12), 1),))), 2))


@settings(max_examples=50)
@given(programs(), st.integers(2, 5), st.sampled_from([3, 6, 12]))
def test_what_is_reported_of_too_many_iterations_is_wrong(case: Program, grid: int, most: int) -> None:
    """Blocks and outer loops are left out where all their iterations together are too many to be tried."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounds, "MOST_TRIED", most)
        reported = {finding.where.line for finding in check_bounds(case, grid)}
    assert reported <= {line for line, _ in wrong(case, grid)}


def test_loops_of_many_blocks_are_tried_without_the_blocks() -> None:
    """Addresses, too: 48 blocks of 2,000 iterations alternate between two."""
    loop = Loop(I, 0, 2000, 1, (load(apply("mod", I, 13), 1), load(apply("mod", I, 12), 1, line=2)))
    (finding,) = check_bounds(program(loop), 48)
    assert finding.where.line == 1
    assert "in every block with i = 12" in finding.message
    spec = TileSpec(dtype("float32"), TileType.Vec, 1, 64, 1, 64)
    placed = TileDecl("a", spec, (apply("mul", apply("mod", I, 2), 0x1000),), fresh=False)
    case = replace(program(Loop(I, 0, 2000, 1, (placed,))), mode="manual")
    (found,) = (each for each in placed_tiles(case, 48) if each.tile is placed)
    assert found.distinct.tolist() == [0, 0x1000]


def test_code_that_no_block_reaches_is_not_looked_at() -> None:
    never = Branch(apply("ge", B, 3), (load(99, 1),))
    assert not list(check_bounds(program(never, Loop(I, 3, 3, 1, (load(99, 1, line=2),))), 3))
    assert [finding.where.line for finding in check_bounds(program(never), 4)] == [1]
    assert not list(check_bounds(program(load(99, 1)), 0))


def test_bounds_of_numbers_from_memory_hold_wherever_their_conditions_do() -> None:
    """Against all numbers, for random conditions; a number between two known ones has just those bounds."""
    random, number, known = np.random.default_rng(0), Var("number"), np.arange(5)
    numbers, tight = range(-20, 21), 0

    def pick(*choices: Expr) -> Expr:
        return choices[random.integers(len(choices))]

    def condition() -> Expr:
        other = pick(BLOCK_IDX, 3, apply("add", apply("mul", BLOCK_IDX, 2), -1), number)
        sides = [pick(number, apply("floordiv", number, 3)), other]
        return apply(COMPARISONS[random.integers(len(COMPARISONS))], *sides[:: random.choice([1, -1])])

    for _ in range(400):
        held = pick(condition(), apply("and", condition(), condition()))
        expr = pick(number, apply("sub", BLOCK_IDX, apply("mul", number, 2)), apply("min", number, BLOCK_IDX))
        reach = Reach({BLOCK_IDX: (0, 4), number: (-20, 20)}, {BLOCK_IDX: known}, (held,))
        least, most = reach.least(expr), reach.most(expr)
        assert reach.value(BLOCK_IDX) is None and least is not None and most is not None
        for block in known.tolist():
            cases = [{BLOCK_IDX: block, number: each} for each in numbers]
            found = [evaluate(expr, values) for values in cases if evaluate(held, values)]
            assert all(least[block] <= each <= most[block] for each in found), (held, expr)
            tight += bool(found) and (least[block], most[block]) == (min(found), max(found)) != (-20, 20)
    assert tight > 500
