"""Run-time numbers that pass through rules and lowerings as if they were known, and record the decisions.

A rule or a lowering is plain Python over whole numbers. Given `SymbolicNumber`s instead, it computes expressions, and
every decision it takes is recorded as a condition. The result is valid for all numbers that meet the conditions. The
numbers at which instructions are traced are some that occur in the launch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import gcd, inf
from typing import Any

from ptokit.engine.native.program.slots import address_of
from ptokit.engine.storage import Storage
from ptokit.program.conditions import MIRRORED, NEGATED
from ptokit.program.expr import BLOCK_IDX, BLOCK_NUM, Expr, ExpressionError, Op, Var, apply, difference, evaluate, total
from ptokit.program.ir import Assign, Block, Branch, Instr, Leaf, LoadScalar, Loop, Program, TileDecl, fold

Form = tuple[tuple[Expr, int], ...]
"""A sum of multiples without its constant."""


@dataclass
class Range:
    """What is known of a sum: its bounds, and values that it does not have."""

    low: float = -inf
    high: float = inf
    never: set[int] = field(default_factory=set)

    def narrow(self, how: str, limit: int, scale: int) -> None:
        """Add the fact that `scale` (which is positive) times the sum is `how` the limit."""
        below, above = limit // scale, -(-limit // scale)
        if how in ("le", "lt", "eq"):
            self.high = min(self.high, below if how != "lt" else above - 1)
        if how in ("ge", "gt", "eq"):
            self.low = max(self.low, above if how != "gt" else below + 1)
        if how == "ne" and below == above:
            self.never.add(below)


class Conditions:
    """The conditions that hold, collected as ranges of sums: many decisions, few conditions."""

    def __init__(self) -> None:
        self._ranges: dict[Form, Range] = {}

    def note(self, condition: Expr, holds: bool) -> bool:
        """Record a decision that depends on the run."""
        if isinstance(condition, Op):
            self._take(condition.name if holds else NEGATED[condition.name], *condition.args)
        return holds

    def _take(self, how: str, a: Expr, b: Expr) -> None:
        terms = difference(a, b)
        constant = terms.pop(1, 0)
        if not terms:
            return
        form = [*terms.items()] if len(terms) == 1 else sorted(terms.items(), key=lambda item: str(item[0]))
        scale = gcd(*terms.values())
        sign = 1 if form[0][1] > 0 else -1
        key = tuple([(term, factor * sign // scale) for term, factor in form])
        known = self._ranges.setdefault(key, Range())
        known.narrow(how if sign > 0 else MIRRORED[how], -constant * sign, scale)

    @property
    def found(self) -> tuple[Expr, ...]:
        """All that must hold."""
        sums = [(total(dict(form)), known) for form, known in self._ranges.items()]
        return tuple(condition for sum_, known in sums for condition in _written(sum_, known))


def _written(sum_: Expr, known: Range) -> Iterator[Expr]:
    if known.low == known.high:
        yield Op("eq", (sum_, int(known.low)))
        return
    for name, limit in (("ge", known.low), ("le", known.high)):
        if abs(limit) < inf:
            yield Op(name, (sum_, int(limit)))
    yield from (Op("ne", (sum_, n)) for n in sorted(known.never) if known.low <= n <= known.high)


Operator = Callable[[Any, Any], Any]


def _arithmetic(name: str) -> tuple[Operator, Operator]:
    """An operator, and the same with the operands exchanged: an expression, or a number if that is known."""

    def compute(left: Any, right: Any) -> Any:
        if not all(isinstance(each, int | SymbolicNumber) for each in (left, right)):
            return NotImplemented
        expr = apply(name, expr_of(left), expr_of(right))
        if isinstance(expr, int):
            return expr
        conditions = (left if isinstance(left, SymbolicNumber) else right).conditions
        return SymbolicNumber(expr, evaluate_one(name, left, right), conditions)

    return compute, lambda right, left: compute(left, right)


def _comparison(name: str) -> Operator:
    """A comparison: a decision, which is recorded."""

    def decide(left: SymbolicNumber, right: Any) -> Any:
        if not isinstance(right, int | SymbolicNumber):
            return NotImplemented
        holds = bool(evaluate_one(name, left, right))
        return left.conditions.note(apply(name, left.expr, expr_of(right)), holds)

    return decide


class SymbolicNumber:
    """An expression together with its current value."""

    __slots__ = ("conditions", "expr", "value")

    def __init__(self, expr: Expr, value: int, conditions: Conditions) -> None:
        self.expr, self.value, self.conditions = expr, value, conditions

    __add__, __radd__ = _arithmetic("add")
    __sub__, __rsub__ = _arithmetic("sub")
    __mul__, __rmul__ = _arithmetic("mul")
    __floordiv__, __rfloordiv__ = _arithmetic("floordiv")
    __mod__, __rmod__ = _arithmetic("mod")
    __lt__, __le__, __gt__, __ge__, __eq__, __ne__ = map(_comparison, ("lt", "le", "gt", "ge", "eq", "ne"))

    def __neg__(self) -> Any:
        return 0 - self

    def __bool__(self) -> bool:
        return self != 0

    def __index__(self) -> int:
        """The value as a plain number; equality with it becomes a condition."""
        self.conditions.note(apply("eq", self.expr, self.value), True)
        return self.value

    __int__ = __index__

    def __hash__(self) -> int:
        return hash(int(self))

    def __repr__(self) -> str:
        return str(self.value)

    def __format__(self, spec: str) -> str:
        return format(self.value, spec)


def expr_of(number: int | SymbolicNumber) -> Expr:
    """What a number is, as an expression."""
    return number.expr if isinstance(number, SymbolicNumber) else int(number)


def value_of(number: int | SymbolicNumber) -> int:
    """The current value of a number."""
    return number.value if isinstance(number, SymbolicNumber) else number


def evaluate_one(name: str, left: int | SymbolicNumber, right: int | SymbolicNumber) -> int:
    """One operation on the current values."""
    result = apply(name, value_of(left), value_of(right))
    assert isinstance(result, int)
    return result


Values = dict[Var, int]
Samples = dict[int, list[Values]]
"""For each instruction, by its identity, the numbers at which it ran."""


def sample(program: Program, tensors: Mapping[str, Storage], integers: Mapping[Var, int], grid: int) -> Samples:
    """Walk the first and the last block, with the first and the last iteration of each loop."""
    walker = _Walker(program, tensors)
    for block in dict.fromkeys((0, max(0, grid - 1))):
        walker.walk(program.body, {**integers, BLOCK_IDX: block, BLOCK_NUM: grid})
    return walker.found


UNKNOWN_ITERATIONS = 64
"""Assumed iterations of a loop whose end is read from memory."""


def cost(program: Program, integers: Mapping[Var, int], grid: int) -> int:
    """Bytes of tiles that the instructions of a launch name, roughly: what it costs."""
    first, last = ({**integers, BLOCK_IDX: block, BLOCK_NUM: grid} for block in (0, grid - 1))
    return grid * max(_cost(program, program.body, first), _cost(program, program.body, last))


def tile_bytes(program: Program, instr: Instr) -> int:
    """Bytes of the tiles that an instruction names."""
    return sum(program.tiles[use.tile].spec.nbytes for use in instr.tiles)


def _cost(program: Program, block: Block, values: Values) -> int:
    def leaf(stmt: Leaf, total: int) -> int:
        return total + (tile_bytes(program, stmt) if isinstance(stmt, Instr) else 0)

    def branch(stmt: Branch, total: int) -> int:
        return total + max(_cost(program, arm, values) for arm in (stmt.then, stmt.otherwise))

    def loop(stmt: Loop, total: int) -> int:
        try:
            start, stop = evaluate(stmt.start, values), evaluate(stmt.stop, values)
        except (ExpressionError, KeyError):
            start, stop = 0, UNKNOWN_ITERATIONS * stmt.step
        count = max(0, -((start - stop) // stmt.step))
        return total + (count * _cost(program, stmt.body, {**values, stmt.var: start}) if count else 0)

    return fold(block, 0, leaf, loop=loop, branch=branch)


class _Walker:
    def __init__(self, program: Program, tensors: Mapping[str, Storage]) -> None:
        self.program, self.tensors = program, tensors
        self.found: Samples = {}

    def walk(self, block: Block, values: Values) -> None:
        """Visit a block; an expression without a value ends the visit, and the run will report it."""
        try:
            fold(block, values, self._leaf, loop=self._loop, branch=self._branch)
        except (ExpressionError, KeyError, IndexError):
            return

    def _leaf(self, stmt: Leaf, values: Values) -> Values:
        if isinstance(stmt, Instr):
            self.found.setdefault(id(stmt), []).append(dict(values))
        elif isinstance(stmt, LoadScalar):
            self._load(stmt, values)
        elif isinstance(stmt, TileDecl) and stmt.addresses:
            values[address_of(stmt.name)] = evaluate(stmt.addresses[0], values)
        elif isinstance(stmt, Assign):
            values[address_of(stmt.tile)] = evaluate(stmt.address, values)
        return values

    def _branch(self, branch: Branch, values: Values) -> Values:
        self.walk(branch.then if evaluate(branch.condition, values) else branch.otherwise, values)
        return values

    def _loop(self, loop: Loop, values: Values) -> Values:
        iterations = range(evaluate(loop.start, values), evaluate(loop.stop, values), loop.step)
        for value in dict.fromkeys((iterations[0], iterations[-1])) if iterations else ():
            self.walk(loop.body, {**values, loop.var: value})
        if iterations:
            values[loop.var] = iterations[-1]
        return values

    def _load(self, stmt: LoadScalar, values: Values) -> None:
        """What memory holds now; the run checks the value that it reads."""
        argument = self.program.tensors[stmt.source.argument]
        at = evaluate(argument.offset, values)
        for start, stride in zip(stmt.source.starts, argument.stride, strict=True):
            at += evaluate(start, values) * evaluate(stride, values)
        storage = self.tensors[argument.name]
        if at < 0:
            raise IndexError(at)
        values[stmt.result] = int(storage.bits[at : at + 1].view(storage.dtype.numpy)[0])
