"""A program with fewer rounds of its loops, for checks of large launches.

What a loop does repeats with a period: buffers and flags are used in rotation. A loop that runs some whole periods and
the rest of its rounds leaves flags and buffers as all of its rounds do. Loops in which two cores meet are clipped
alike, or not at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import lcm, prod

from ptokit.program import ir
from ptokit.program.cores import is_crossing
from ptokit.program.expr import BLOCK_IDX, SUBBLOCK_IDX, Expr, ExpressionError, Op, Var, evaluate, parts, variables
from ptokit.program.periods import RoundGap

LONGEST_PERIOD = 12
PERIODS = (64, 16, 8, 4, 2, 1)
"""Periods of a loop that may be kept."""
ELEMENTS = 500
"""Elements of operands that take as long as one statement."""


def clipped(program: ir.Program, most: int) -> tuple[ir.Program, int, int]:
    """The program with as many rounds of its loops as do not exceed a number of steps in a block, the steps of a block
    of it, and those of a block of the whole program."""
    whole = steps(program)
    if whole <= most:
        return program, whole, whole
    period = _period(program)
    meets = len({nest for nest in _nests(program.body, ()) if nest}) > 1  # two cores, in nests of other rounds
    found = program, whole
    for count in PERIODS:
        body = ir.transform(program.body, lambda stmt, count=count: _clipped(stmt, count * period, period, meets))
        shorter = replace(program, body=body)
        found = shorter, steps(shorter)
        if found[1] <= most:
            break
    return *found, whole


def _clipped(stmt: ir.Stmt, kept: int, period: int, meet_unevenly: bool) -> ir.Stmt:
    rounds = _rounds(stmt)
    if rounds is None or (meet_unevenly and any(map(is_crossing, ir.walk((stmt,))))):
        return stmt
    assert isinstance(stmt, ir.Loop) and isinstance(stmt.start, int)
    kept += rounds % period
    return stmt if rounds <= kept else replace(stmt, stop=stmt.start + kept * stmt.step)


def _rounds(stmt: ir.Stmt) -> int | None:
    """The rounds of a loop, if their number is known."""
    if not isinstance(stmt, ir.Loop) or not isinstance(stmt.start, int) or not isinstance(stmt.stop, int):
        return None
    return len(range(stmt.start, stmt.stop, stmt.step))


def _nests(block: ir.Block, around: tuple[int | None, ...]) -> Iterator[tuple[int | None, ...]]:
    """For each flag between the cores, the rounds of the loops around it."""
    for stmt in block:
        if is_crossing(stmt):
            yield around
        inside = (*around, _rounds(stmt)) if isinstance(stmt, ir.Loop) else around
        for inner in ir.children(stmt):
            yield from _nests(inner, inside)


def _period(program: ir.Program) -> int:
    """The period of a loop's effects: two, and every small divisor of a remainder."""
    found = {2}
    for stmt in ir.walk(program.body):
        for part in (part for expr in _rotating(stmt) for part in parts(expr)):
            if isinstance(part, Op) and part.name == "mod" and isinstance(part.args[1], int):
                found.add(part.args[1])
    period = 1
    for each in sorted(number for number in found if number > 0):
        period = together if (together := lcm(period, each)) <= LONGEST_PERIOD else period
    return period


def _rotating(stmt: ir.Stmt) -> tuple[Expr, ...]:
    """The expressions that choose among buffers and flags."""
    if isinstance(stmt, ir.TileDecl):
        return stmt.addresses
    return (stmt.event,) if isinstance(stmt, ir.Flag | ir.CrossFlag) else ()


def steps(program: ir.Program, gaps: Mapping[int, Sequence[RoundGap]] | None = None) -> int:
    """About how many statements the first block runs, without the rounds in gaps; large operands count as several."""
    sizes = {name: prod((tile.spec.rows, tile.spec.cols)) for name, tile in program.tiles.items()}
    return _steps(program.body, sizes, {BLOCK_IDX: 0, SUBBLOCK_IDX: 0}, gaps or {})


def _steps(
    body: ir.Block, sizes: dict[str, int], values: dict[Var, int], gaps: Mapping[int, Sequence[RoundGap]]
) -> int:
    total = 0
    for stmt in body:
        if isinstance(stmt, ir.Loop):
            rounds = len(range(_value(stmt.start, values), _value(stmt.stop, values), stmt.step))
            rounds -= sum(gap.stop - gap.first for gap in gaps.get(id(stmt), ()))
            total += rounds * _steps(stmt.body, sizes, {**values, stmt.var: 0}, gaps) if rounds else 0
        elif isinstance(stmt, ir.Branch):
            total += max(*(_steps(arm, sizes, values, gaps) for arm in ir.children(stmt)))
        elif isinstance(stmt, ir.Instr):
            used = sum(sizes.get(each.tile, 0) for each in stmt.operands if isinstance(each, ir.TileUse))
            total += 1 + used // ELEMENTS
        else:
            total += 1
    return total


def _value(expr: Expr, values: dict[Var, int]) -> int:
    """A bound of a loop; one that is not known counts as 1."""
    try:
        return evaluate(expr, values) if variables(expr) <= values.keys() else 1
    except ExpressionError:
        return 1
