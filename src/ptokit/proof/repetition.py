"""How the behaviour of a program repeats with its loop variables."""

from __future__ import annotations

from math import gcd, lcm

from ptokit.program import ir
from ptokit.program.expr import (
    COMPARISONS,
    Expr,
    Op,
    Var,
    affine,
    apply,
    parts,
    variables,
)


class Repetition:
    """How the behaviour of a program repeats with its loop variables."""

    def __init__(self, program: ir.Program) -> None:
        self.period = 1
        """What addresses and event ids depend on is the remainder of a variable for this divisor."""
        self.exact: set[Var] = set()
        """Variables whose value matters itself."""
        self.most = 0
        """The largest number that a variable is compared with."""
        self.compares: dict[Expr, None] = {}
        """Differences of which conditions take the sign, with loop variables and numbers that are not known."""
        self.divisors: set[int] = set()
        """By which the remainders of variables count."""
        self.soft: dict[Var, dict[Expr, None]] = {}
        """Extents that depend on a variable."""
        self.tangled: set[str] = set()
        """Other numbers, and arrays of numbers, on which more depends than how they compare with loop variables."""
        self.points: dict[Var, set[int]] = {}
        """Values of variables at which a condition changes."""
        self.loops = {stmt.var for stmt in ir.walk(program.body) if isinstance(stmt, ir.Loop)}
        for stmt in ir.walk(program.body):
            self._note(stmt)
        loads = (stmt for stmt in ir.walk(program.body) if isinstance(stmt, ir.LoadScalar))
        self.tangled.update([load.source.argument for load in loads if load.result in self.tangled])

    def turns(self, loop: ir.Loop, start: int) -> set[int]:
        """Iterations at which a condition changes."""
        near = (at + more - start for at in self.points.get(loop.var, ()) for more in (0, loop.step))
        return {distance // loop.step for distance in near}

    def _note(self, stmt: ir.Stmt) -> None:
        if isinstance(stmt, ir.Branch):
            self._condition(stmt.condition)
        elif isinstance(stmt, ir.Loop):
            self.exact |= (variables(stmt.start) | variables(stmt.stop)) & self.loops
            for bound in _arguments(stmt.stop):
                self.compares[apply("sub", stmt.var, bound)] = None
                self.most += abs(affine(bound).get(1, 0))
            for each in (part for bound in (stmt.start, stmt.stop) for part in parts(bound)):
                if isinstance(each, Op) and each.name in ("min", "max"):
                    self._condition(apply("lt", *each.args))
        elif isinstance(stmt, ir.TileDecl):
            self.period = lcm(self.period, stmt.buffers, max(1, len(stmt.addresses)))
            for address in stmt.addresses:
                self._walk(address, 0)
        elif isinstance(stmt, ir.Assign | ir.Flag | ir.CrossFlag):
            self._walk(stmt.address if isinstance(stmt, ir.Assign) else stmt.event, 0)
        elif isinstance(stmt, ir.Instr):
            for operand in (*stmt.operands, stmt.workspace):
                for part in ir.expressions(operand.sizes if isinstance(operand, ir.View) else operand):
                    self._soft(part)

    def _soft(self, expr: Expr) -> None:
        """An extent or a place in a tile: if its value is known, it is compared where iterations begin."""
        used = sorted(var for var in variables(expr) if var in self.loops)
        if len(used) == 1:
            self.soft.setdefault(used[0], {})[expr] = None
            for part in parts(expr):
                if isinstance(part, Op) and part.name in ("min", "max"):
                    self._bend(*part.args)
                elif isinstance(part, Op) and part.name not in ("add", "sub", "mul", "shl"):
                    self._walk(part, 0)
        else:
            self.exact.update(used)
        self.tangled.update(() if used else variables(expr))

    def _bend(self, left: Expr, right: Expr) -> None:
        """Where a minimum takes the other one of its arguments."""
        difference = apply("sub", left, right)
        if len([term for term in affine(difference) if term != 1]) == 1:
            self._condition(apply("lt", left, right))
        elif not variables(difference).isdisjoint(self.loops):
            self.compares[difference] = None

    def _walk(self, expr: Expr, period: int) -> None:
        """An expression whose value counts, up to a remainder for `period` if that is not zero."""
        if isinstance(expr, Var):
            if expr in self.loops and period:
                self.divisors.add(period)
                self.period = lcm(self.period, period)
            elif expr in self.loops:
                self.exact.add(expr)
            else:
                self.tangled.add(expr)
        elif isinstance(expr, Op):
            first, second = expr.args
            if expr.name == "mod" and isinstance(second, int) and second > 0:
                self._walk(first, gcd(period, second) if period and not period % second else second)
            elif expr.name == "and" and isinstance(second, int) and second > 0 and not second & (second + 1):
                self._walk(first, second + 1)
            elif expr.name == "floordiv" and isinstance(second, int) and second > 0 and period:
                self._walk(first, period * second)
            elif expr.name in ("add", "sub", "mul") or (expr.name == "shl" and isinstance(second, int)):
                for arg in expr.args:
                    self._walk(arg, period)
            elif expr.name in ("lt", "le", "gt", "ge", "eq", "ne", "and", "or"):
                self._condition(expr)
            else:
                for arg in expr.args:
                    self._walk(arg, 0)

    def _condition(self, condition: Expr) -> None:
        if not isinstance(condition, Op):
            return
        if condition.name in ("and", "or"):
            for arg in condition.args:
                self._condition(arg)
            return
        if condition.name not in COMPARISONS:
            condition = Op("ne", (condition, 0))
        terms = affine(apply("sub", *condition.args))
        if len(loops := variables(condition) & self.loops) > 1:
            self.exact |= loops
        constant = terms.pop(1, 0)
        for term in terms:
            if isinstance(term, Op):
                if term.name in ("mod", "and"):
                    self._walk(term, 0)
                else:
                    self.exact.update(var for var in variables(term) if var in self.loops)
        direct = [term for term in terms if isinstance(term, Var) and term in self.loops]
        if not direct and (len(terms) > 1 or not isinstance(next(iter(terms), 1), Var)):
            self.tangled |= variables(condition)
        if len(terms) == 1 and not direct:
            self.most += abs(constant) + 2
        elif len(terms) == 1:
            at = -constant // terms[direct[0]]
            self.points.setdefault(direct[0], set()).update((at - 1, at, at + 1, at + 2))
            self.most = max(self.most, abs(at) + 2)
        elif direct:
            self.compares[apply("sub", *condition.args)] = None


def _arguments(bound: Expr) -> tuple[Expr, ...]:
    """What a minimum or maximum may be; else the expression."""
    return bound.args if isinstance(bound, Op) and bound.name in ("min", "max") else (bound,)
