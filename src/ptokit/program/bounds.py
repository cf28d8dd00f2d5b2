"""Whether slices stay inside their arguments and valid regions inside their tiles, in every block.

Proved by interval arithmetic if that suffices. Otherwise every block and iteration whose values are known before the
run is tried, as arrays of numbers. The rest is deferred to the run, which checks every slice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from itertools import islice
from math import inf
from typing import Any, NamedTuple

import numpy as np

from ptokit.finding import Finding, Fix, Wording, minimum, when_holds
from ptokit.isa.operand import TileSpec
from ptokit.isa.policy import BLayout, SLayout, TileType
from ptokit.program import ir
from ptokit.program.expr import (
    ANYTHING,
    BLOCK_IDX,
    BLOCK_NUM,
    SUBBLOCK_IDX,
    Bounds,
    Expr,
    Op,
    Var,
    affine,
    apply,
    evaluate_arrays,
    interval,
    parts,
    subtract,
    total,
    variables,
)
from ptokit.program.instr_calls import all_operands
from ptokit.program.ir import Window
from ptokit.target.profile import CROSS_IDS, CUBE_CORE, EVENT_IDS

Array = np.ndarray[Any, np.dtype[Any]]
MOST_TRIED = 1 << 16
"""Blocks and iterations that are tried one by one."""
MOST_EXPANSIONS = 256
"""Expansions of minima and maxima that are tried."""
NOTHING = Var("")
"""The variable of a kernel whose grid is not known: it is tried once."""
UNNAMED = (BLOCK_IDX, BLOCK_NUM, NOTHING)
SAFE = 1 << 62
"""Numbers beyond this do not fit the arrays that try them."""


@dataclass(frozen=True)
class Reach:
    """When a statement runs: bounds of the variables, and all their values if they are known."""

    bounds: Mapping[Var, Bounds]
    possible: Mapping[Var, Array] | None
    """Every value of every known variable, one entry for each time the statement may run; None if unknown."""
    conditions: tuple[Expr, ...] = ()
    """Conditions that hold when it runs, and are known at run time only."""

    @property
    def values(self) -> Mapping[Var, Array] | None:
        """The same for each time the statement does run."""
        return None if self.conditions else self.possible

    @cached_property
    def times(self) -> int:
        """How many times the statement is tried."""
        return next(iter(self.possible.values())).size if self.possible else 0

    @property
    def is_never(self) -> bool:
        """Whether the statement cannot run."""
        return any(low > high for low, high in self.bounds.values())

    def value(self, expr: Expr) -> Array | None:
        """All values of an expression, or None if one of its variables is not known."""
        return None if self.conditions else self.tried(expr)

    def tried(self, expr: Expr) -> Array | None:
        """The same for each time the statement may run."""
        if self.possible is None or not all(var in self.possible for var in variables(expr)):
            return None
        if not all(_is_safe(part, self.bounds) for part in (expr, *parts(expr))):
            return None
        with np.errstate(all="ignore"):
            return np.broadcast_to(evaluate_arrays(expr, self.possible), self.times)

    def most(self, expr: Expr) -> Array | None:
        """A number that the expression does not exceed, for each time the statement may run."""
        if (exact := self.tried(expr)) is not None:
            return exact
        expansions = islice(_expansions(affine(expr)), MOST_EXPANSIONS)
        found = [each for each in map(self._most_of_sum, expansions) if each is not None]
        return np.minimum.reduce(found) if found else None

    def least(self, expr: Expr) -> Array | None:
        """A number that the expression is not below, for each time the statement may run."""
        most = self.most(subtract(0, expr))
        return None if most is None else -most

    def _most_of_sum(self, terms: dict[Expr, int]) -> Array | None:
        found = np.zeros(self.times, np.int64)
        for term, factor in terms.items():
            bound = self._bound(term, upper=factor > 0)
            if bound is None or abs(factor) * int(np.abs(bound).max(initial=0)) * len(terms) >= SAFE:
                return None
            found += factor * bound
        return found

    def _bound(self, term: Expr, *, upper: bool) -> Array | None:
        """Numbers on one side of a term: its own, else the nearest that conditions and its variables allow."""
        if (exact := self.tried(term)) is not None:
            return exact
        stated = [self.tried(bound) for side, what, bound in self._facts if what == term and side is upper]
        found = [each for each in stated if each is not None]
        bound = interval(term, self.bounds)[upper]
        if -SAFE < bound < SAFE:
            found.append(np.full(self.times, int(bound)))
        return (np.minimum if upper else np.maximum).reduce(found) if found else None

    @cached_property
    def _facts(self) -> list[tuple[bool, Expr, Expr]]:
        return [fact for condition in self.conditions for fact in _facts(condition)]

    def lowest(self, expr: Expr) -> float:
        """A number that the expression is never below."""
        return -self.highest(subtract(0, expr))

    def highest(self, expr: Expr) -> float:
        """A number that the expression never exceeds."""
        return min((_sum_bound(terms, self.bounds) for terms in _upper_sums(expr)), default=inf)

    def is_inside(self, first: Expr, size: Expr, most: Expr) -> bool:
        """Whether `first : first + size` is certainly a range within `0 : most`."""
        beyond = subtract(apply("add", first, size), most)
        return self.lowest(first) >= 0 and self.lowest(size) >= 0 and self.highest(beyond) <= 0


def _is_safe(expr: Expr, bounds: Mapping[Var, Bounds]) -> bool:
    """Whether an expression and its constants fit the arrays."""
    low, high = interval(expr, bounds)
    constants = [arg for arg in expr.args if isinstance(arg, int)] if isinstance(expr, Op) else []
    return low > -SAFE and high < SAFE and all(-SAFE < constant < SAFE for constant in constants)


@lru_cache(maxsize=4096)
def _upper_sums(expr: Expr) -> tuple[dict[Expr, int], ...]:
    """The sums whose bounds bound an expression from above."""
    return tuple(islice(_expansions(affine(expr)), MOST_EXPANSIONS))


def _expansions(terms: dict[Expr, int], depth: int = 4) -> Iterator[dict[Expr, int]]:
    """Sums that are never below the given one: `x + min(a, b)` is at most `x + a`, and at most `x + b`."""
    yield terms
    if not depth:
        return
    for term, factor in terms.items():
        if isinstance(term, Op) and term.name == ("min" if factor > 0 else "max"):
            rest = {other: k for other, k in terms.items() if other != term}
            for choice in term.args:
                yield from _expansions(affine(apply("add", total(rest), apply("mul", choice, factor))), depth - 1)


SIDES = {"lt": (True, -1), "le": (True, 0), "gt": (False, 1), "ge": (False, 0)}
"""Of `a < b`: whether `b` bounds `a` from above, and what is added to it."""


def _facts(condition: Expr) -> Iterator[tuple[bool, Expr, Expr]]:
    """What a condition says of expressions: whether from above, the expression, and the bound."""
    if not isinstance(condition, Op):
        return
    a, b = condition.args
    if condition.name == "and":
        yield from (*_facts(a), *_facts(b))
    elif condition.name == "eq":
        yield from (*_facts(Op("le", (a, b))), *_facts(Op("ge", (a, b))))
    elif condition.name in SIDES:
        upper, more = SIDES[condition.name]
        for is_upper, what, bound in ((upper, a, apply("add", b, more)), (not upper, b, apply("sub", a, more))):
            yield is_upper, what, bound
            if isinstance(what, Op) and what.name == "floordiv" and isinstance(k := what.args[1], int) and k > 0:
                yield is_upper, what.args[0], apply("add", apply("mul", bound, k), k - 1 if is_upper else 0)


def _sum_bound(terms: dict[Expr, int], bounds: Mapping[Var, Bounds]) -> float:
    highest: float = 0
    for term, factor in terms.items():
        if term == 1:
            highest += factor
            continue
        low, high = interval(term, bounds)
        highest += factor * (high if factor > 0 else low)
    return highest


def start(grid: int | None, integers: Mapping[Var, Bounds], vector_cores: int = 1) -> Reach:
    """The kernel's own body: all blocks of the grid, on each of its vector cores."""
    own: dict[Var, Bounds] = {SUBBLOCK_IDX: (0, vector_cores - 1)} if vector_cores > 1 else {}
    if grid is None:
        return Reach({BLOCK_IDX: (0, inf), BLOCK_NUM: (1, inf), **own, **integers}, {NOTHING: np.zeros(1, np.int64)})
    bounds = {BLOCK_IDX: (0, grid - 1), BLOCK_NUM: (grid, grid), **own, **integers}
    if grid > MOST_TRIED:
        return Reach(bounds, None)
    count = grid * vector_cores
    known = {var: np.full(count, low) for var, (low, high) in integers.items() if low == high}
    if own:
        known[SUBBLOCK_IDX] = np.tile(np.arange(vector_cores), grid)
    return Reach(
        bounds, {BLOCK_IDX: np.repeat(np.arange(grid), vector_cores), BLOCK_NUM: np.full(count, grid), **known}
    )


def inside_loop(loop: ir.Loop, reach: Reach) -> Reach:
    """The body of a loop: every iteration."""
    bounds = {**reach.bounds, loop.var: _span(loop, reach.bounds)}
    return replace(reach, bounds=bounds, possible=_iterations(loop, reach))


def _span(loop: ir.Loop, bounds: Mapping[Var, Bounds]) -> Bounds:
    """Bounds of the variable of a loop."""
    first, last = interval(loop.start, bounds), interval(loop.stop, bounds)
    return (first[0], last[1] - 1) if loop.step > 0 else (last[0] + 1, first[1])


def _loaded(program: ir.Program, stmt: ir.LoadScalar) -> Bounds:
    """Bounds of a number from memory."""
    limits = np.iinfo(program.tensors[stmt.source.argument].dtype.numpy)
    return int(limits.min), int(limits.max)


def _iterations(loop: ir.Loop, reach: Reach) -> Mapping[Var, Array] | None:
    first, last = reach.tried(loop.start), reach.tried(loop.stop)
    if first is None or last is None or reach.possible is None:
        return None
    trips: Array = np.maximum(0, -((first - last) // loop.step))
    known = reach.possible
    if trips.size > 1 and trips.sum() > MOST_TRIED and _is_constant(first) and _is_constant(trips):
        first, trips = first[:1], trips[:1]  # too many of all: what differs around the loop counts as not known
        known = {var: values[:1] for var, values in known.items() if _is_constant(values)}
    if trips.max(initial=0) > MOST_TRIED or trips.sum() > MOST_TRIED:
        return None
    before: Array = np.cumsum(trips) - trips
    number: Array = np.arange(int(trips.sum())) - np.repeat(before, trips)
    outer = {var: np.repeat(values, trips) for var, values in known.items()}
    return {**outer, loop.var: np.repeat(first, trips) + number * loop.step}


def _is_constant(values: Array) -> bool:
    return bool((values == values[0]).all())


def inside_branch(branch: ir.Branch, reach: Reach, *, holds: bool) -> Reach:
    """One arm of a branch: the executions for which its condition holds, or does not."""
    low, high = interval(branch.condition, reach.bounds)
    if (holds and low == high == 0) or (not holds and (low > 0 or high < 0)):
        return replace(reach, bounds={**reach.bounds, BLOCK_IDX: (1, 0)}, possible=None)
    found = reach.tried(branch.condition)
    if found is None or reach.possible is None:
        condition = branch.condition if holds else apply("eq", branch.condition, 0)
        return replace(reach, conditions=(*reach.conditions, condition))
    kept = (found != 0) == holds
    values = {var: values[kept] for var, values in reach.possible.items()}
    bounds = {var: _spanned(values.get(var), b) for var, b in reach.bounds.items()}
    return replace(reach, bounds=bounds, possible=values)


def _spanned(values: Array | None, bounds: Bounds) -> Bounds:
    """Bounds of the values, if they are known."""
    if values is None:
        return bounds
    return (int(values.min()), int(values.max())) if values.size else (1, 0)


def reaches(
    program: ir.Program, grid: int | None, given: Mapping[Var, int] | None = None
) -> list[tuple[ir.Leaf, Reach]]:
    """Every statement that is no loop or branch, and when it runs. Statements that cannot run are left out.

    `given` are whole numbers that a launch passes in, if they are known and fit the arrays.
    """
    integers = {argument.var: ANYTHING for argument in program.arguments if isinstance(argument, ir.Integer)}
    known = {var: (number, number) for var, number in (given or {}).items() if -SAFE < number < SAFE}
    found: list[tuple[ir.Leaf, Reach]] = []

    def leaf(stmt: ir.Leaf, reach: Reach) -> Reach:
        if not reach.is_never:
            found.append((stmt, reach))
        if not isinstance(stmt, ir.LoadScalar):
            return reach
        return replace(reach, bounds={**reach.bounds, stmt.result: _loaded(program, stmt)})

    def loop(stmt: ir.Loop, reach: Reach) -> Reach:
        if not reach.is_never:
            visit(stmt.body, inside_loop(stmt, reach))
        return reach

    def branch(stmt: ir.Branch, reach: Reach) -> Reach:
        if not reach.is_never:
            visit(stmt.then, inside_branch(stmt, reach, holds=True))
            visit(stmt.otherwise, inside_branch(stmt, reach, holds=False))
        return reach

    visit = partial(ir.fold, leaf=leaf, loop=loop, branch=branch)
    visit(program.body, start(grid, {**integers, **known}, program.vector_cores))
    return found


def check_bounds(program: ir.Program, grid: int | None) -> Iterator[Finding]:
    """Slices outside their argument, valid regions outside their tile, event ids out of range."""
    reported: set[object] = set()
    for stmt, reach in reaches(program, grid):
        for limit in _limits(program, stmt):
            when = _broken(reach, *limit.range)
            if when and limit.owner not in reported:
                reported.add(limit.owner)
                yield limit.describe(*when.numbers, when.text).at(stmt.where)


class BoundsProof:
    """A quick proof that `check_bounds` finds nothing: intervals, whatever the branches are. It may fail where there is
    nothing to find."""

    def __init__(self, program: ir.Program) -> None:
        statements = list(ir.walk(program.body))
        self._loops = [stmt for stmt in statements if isinstance(stmt, ir.Loop)]
        self._given = {argument.var: ANYTHING for argument in program.arguments if isinstance(argument, ir.Integer)}
        self._given[SUBBLOCK_IDX] = 0, program.vector_cores - 1
        for stmt in statements:
            if isinstance(stmt, ir.LoadScalar):
                self._given[stmt.result] = _loaded(program, stmt)
        limits = dict.fromkeys(limit.range for stmt in statements for limit in _limits(program, stmt))
        ends = [(subtract(0, first), subtract(0, size), subtract(apply("add", first, size), most))
                for first, size, most in limits]  # fmt: skip
        sums = [_upper_sums(end) for end in dict.fromkeys(each for three in ends for each in three)]
        open_ = [each for each in sums if not any(set(terms) <= {1} and terms.get(1, 0) <= 0 for terms in each)]
        self._sums = [sorted(each, key=lambda terms: (_operations(terms), len(terms))) for each in open_]
        """What must not exceed 0, and may; the simplest bounds first."""

    def holds(self, bounds: Mapping[Var, Bounds]) -> bool:
        """Whether it succeeds."""
        return all(any(_sum_bound(terms, bounds) <= 0 for terms in sums) for sums in self._sums)

    @staticmethod
    def all_loops_run(bounds: Mapping[Var, Bounds]) -> bool:
        """Whether `reaches` has all statements that are in no branch."""
        return all(low <= high for low, high in bounds.values())

    def bounds(self, grid: int, given: Mapping[Var, int]) -> Mapping[Var, Bounds]:
        """The bounds of all variables, for a grid and whole numbers of the launch."""
        bounds: dict[Var, Bounds] = {BLOCK_IDX: (0, grid - 1), BLOCK_NUM: (grid, grid), **self._given}
        bounds.update((var, (number, number)) for var, number in given.items())
        for loop in self._loops:
            bounds[loop.var] = _span(loop, bounds)
        return bounds


def _operations(terms: Iterable[Expr]) -> int:
    return sum(term.size for term in terms if isinstance(term, Op))


Describe = Callable[[str, int, int, int, int, str], Finding]
"""Makes a finding from an argument's name, a dim, a start, a size, the limit, and the block and iteration as text."""


class _Limit(NamedTuple):
    """A start, a size, and what they must lie within."""

    owner: object
    """What only one finding is made of."""
    range: tuple[Expr, Expr, Expr]
    describe: Callable[[int, int, int, str], Finding]
    """Makes a finding from the numbers, and the block and iteration as text."""


def _limits(program: ir.Program, stmt: ir.Stmt) -> Iterator[_Limit]:
    """What `check_bounds` checks of a statement."""
    if isinstance(stmt, ir.LoadScalar):
        yield from _of_view(program, id(stmt), stmt.source, index_finding)
    elif isinstance(stmt, ir.Flag | ir.CrossFlag):
        yield _Limit(id(stmt), (stmt.event, 1, ids_of(stmt, program.vector_cores)), event_finding)
    for operand in all_operands(stmt).values() if isinstance(stmt, ir.Instr) else ():
        if isinstance(operand, ir.View):
            yield from _of_view(program, operand, operand, slice_finding)
        elif isinstance(operand, ir.TileUse):
            tile = program.tiles[operand.tile]
            for axis, (extent, most) in enumerate(zip(operand.valid, available(tile, operand), strict=True)):
                yield _Limit(operand, (0, extent, most), partial(_of_extent, tile, operand, axis))
            for axis, edge in enumerate(edges(tile, operand)):
                yield _Limit(operand, edge, partial(part_finding, tile.name, axis))


def _of_view(program: ir.Program, owner: object, view: ir.View, describe: Describe) -> Iterator[_Limit]:
    argument = program.tensors[view.argument]
    for dim, limits in enumerate(zip(view.starts, view.sizes, argument.shape, strict=True)):
        yield _Limit(owner, limits, partial(describe, argument.name, dim))


def _of_extent(tile: ir.TileDecl, use: ir.TileUse, axis: int, _: int, extent: int, _most: int, when: str) -> Finding:
    return valid_finding(tile, use, axis, extent, when)


def ids_of(flag: ir.Flag | ir.CrossFlag, vector_cores: int = 1) -> int:
    """How many ids there are for a flag: the cube core has those of each vector core."""
    if isinstance(flag, ir.Flag):
        return EVENT_IDS
    return CROSS_IDS * (vector_cores if flag.core == CUBE_CORE.name else 1)


def available(tile: ir.TileDecl, use: ir.TileUse) -> tuple[int, int]:
    """Rows and columns of a tile, or of the slice that is used."""
    return use.window.size if use.window else (tile.spec.rows, tile.spec.cols)


def edges(tile: ir.TileDecl, use: ir.TileUse) -> tuple[tuple[Expr, int, int], ...]:
    """Of each dim of a slice: its start, its size, and the tile's; nothing for a whole tile."""
    if use.window is None:
        return ()
    (row, col), (rows, cols) = use.window.start, use.window.size
    return (row, rows, tile.spec.rows), (col, cols, tile.spec.cols)


@dataclass(frozen=True)
class _Broken:
    """An execution in which a range exceeds its limits: start, size, limit, and the block and iteration as text."""

    numbers: tuple[int, int, int]
    text: str


def _broken(reach: Reach, first: Expr, size: Expr, most: Expr) -> _Broken | None:
    """The first execution in which `first : first + size` is certainly not a range within `0 : most`."""
    if isinstance(first, int) and isinstance(size, int) and isinstance(most, int):  # noqa: SIM102
        if min(first, size, most - first - size) >= 0:
            return None
    if reach.is_inside(first, size, most):
        return None
    starts, sizes, limits = reach.value(first), reach.value(size), reach.value(most)
    if starts is None or sizes is None or limits is None or reach.values is None:
        return None
    bad = np.flatnonzero((starts < 0) | (sizes < 0) | (starts + sizes > limits))
    if not bad.size:
        return None
    at = int(bad[0])
    loops = [f"{var} = {values[at]}" for var, values in reach.values.items() if var not in UNNAMED]
    block = f"block {reach.values[BLOCK_IDX][at]}" if BLOCK_IDX in reach.values else "every block"
    text = f"in {block}" + (f" with {', '.join(loops)}" if loops else "")
    return _Broken((int(starts[at]), int(sizes[at]), int(limits[at])), text)


def event_finding(event: int, _count: int, ids: int, when: str) -> Finding:
    """An event id out of range."""
    message = f"event ids are 0 to {ids - 1}; found {event} {when}"
    return Finding("error", "KN-13", message, fix="take it modulo the ids in use")


def index_finding(name: str, dim: int, first: int, _size: int, most: int, when: str) -> Finding:
    """An index outside its array."""
    message = f"the index {name}[{'..., ' if dim else ''}{first}] does not lie within 0:{most} {when}"
    fix = Fix("launch fewer blocks, or read it inside ", when_holds("...", ""))
    return Finding("error", "KN-10", message, None, name, f"0 to {most - 1}", str(first), fix)


SHORTEN = Wording(" (pto.min)", " (arith.minsi)", " (std::min)")


def slice_finding(name: str, dim: int, first: int, size: int, most: int, when: str) -> Finding:
    """A slice outside its array."""
    shown = f"{':, ' * dim}{first}:{first + size}"
    expected = f"0 <= start <= stop <= {most}"
    message = f"the slice {name}[{shown}] does not lie within 0:{most} {when}"
    fix = Fix("launch fewer blocks, shorten the last one", SHORTEN, ", or skip it: ", when_holds("n > 0"))
    return Finding("error", "KN-10", message, None, name, expected, f"{first}:{first + size}", fix)


def array_finding(argument: ir.Argument, first: int, count: int, size: int) -> Finding:
    """A view outside the array that was passed for its argument."""
    name = argument.name
    message = f"elements {first} to {first + count - 1} of {name} are used, but its array has {size} elements"
    fix = "pass a larger array, or one that fits the shape and the strides in the program"
    return Finding("error", "KN-10", message, None, name, f"at least {first + count} elements", f"{size}", fix)


def part_finding(tile: str, axis: int, start: int, size: int, most: int, when: str) -> Finding:
    """A slice outside its tile."""
    shown = f"{tile}[{':, ' * axis}{start}:{start + size}]"
    message = f"the slice {shown} does not lie within 0:{most} {when}"
    fix = Fix(
        f"end the slice at {most} or before, as with ", minimum(most, "stop"),
        ", or put the work into ", when_holds("...", ""),
    )  # fmt: skip
    return Finding("error", "SL-01", message, None, tile, f"a slice within 0:{most}", f"{start}:{start + size}", fix)


def valid_finding(tile: ir.TileDecl, use: ir.TileUse, axis: int, extent: int, when: str) -> Finding:
    """A valid extent, or a slice to a computed end, outside its tile."""
    most, end, start = available(tile, use)[axis], (tile.spec.rows, tile.spec.cols)[axis], use.start[axis]
    if use.window is not None and isinstance(start, int) and start + most == end:
        return part_finding(tile.name, axis, start, extent, end, when)
    name = ("rows", "cols")[axis]
    message = f"{extent} valid {name} of {tile.name} do not lie within 0:{most} {when}"
    guard = Fix("launch fewer blocks, or put the work into ", when_holds("n > 0"))
    fix = guard if extent < 0 else Fix(minimum(most, "n"))
    return Finding("error", "CO-SHAPE-02", message, None, tile.name, f"0 to {most}", str(extent), fix)


AXES = ("rows", "columns")


def layout_problem(spec: TileSpec, window: Window) -> str:
    """What a slice must be, if the tile's layout does not allow this one; empty if it does."""
    if spec.slayout is not SLayout.NoneBox:
        return _box_problem(spec, window)
    if spec.loc is not TileType.Vec and spec.cut(*window.size, 0).pitch:
        whole = AXES[0] if spec.blayout is BLayout.RowMajor else AXES[1]
        return f"a slice of a {spec.loc.text} tile takes whole {whole}"
    return ""


def _box_problem(spec: TileSpec, window: Window) -> str:
    """Boxes are contiguous along one dim: a slice takes whole boxes of it, and all of the other dim."""
    axis = 0 if spec.blayout is BLayout.RowMajor else 1
    other, box, extents = 1 - axis, spec.box[axis], (spec.rows, spec.cols)
    start, end = window.start[axis], apply("add", window.start[axis], window.size[axis])
    if window.start[other] != 0 or window.size[other] != extents[other]:
        return f"a slice of a {spec.format} tile takes all {extents[other]} {AXES[other]}"
    if not _is_multiple(start, box) or (end != extents[axis] and not _is_multiple(end, box)):
        return f"a slice of a {spec.format} tile begins and ends at a multiple of {box} {AXES[axis]}"
    return ""


def _is_multiple(expr: Expr, number: int) -> bool:
    return all(factor % number == 0 for factor in affine(expr).values())
