"""Blocks of arrays: whether they lie within their arrays, and which of them share elements, for all numbers.

Statements are judged by themselves: a statement runs in some iteration of the loops around it, when the conditions
around it hold. Intervals decide what they can, the solver the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations_with_replacement

import numpy as np

from ptokit.isa.policy import ScatterAtomicOp
from ptokit.machine.shadow import READ, meets
from ptokit.program import ir
from ptokit.program.bounds import Reach, available, edges, reaches
from ptokit.program.cores import core_of, vector_of
from ptokit.program.expr import (
    BLOCK_IDX,
    BLOCK_NUM,
    GUARDS,
    SUBBLOCK_IDX,
    Bounds,
    Expr,
    Op,
    Var,
    apply,
    parts,
    variables,
)
from ptokit.program.instr_calls import access_of, all_operands, named_operands
from ptokit.program.memory import rewrite
from ptokit.proof.accesses import Touch, memory_of
from ptokit.proof.solver import Solver

Condition = Expr
"""An expression that is 0 or 1."""


@dataclass(frozen=True)
class Instance:
    """One execution of a statement: what holds then, and its variables by other names."""

    facts: tuple[Condition, ...]
    names: Mapping[Var, Expr]


@dataclass(frozen=True)
class StatementPlace:
    """A statement with the loops and conditions around it, the outermost first."""

    stmt: ir.Stmt
    around: tuple[tuple[ir.Loop | ir.Branch, bool], ...]
    """Each with whether its condition holds."""
    loaded: tuple[ir.LoadScalar, ...]
    program: ir.Program

    def instance(self, suffix: str, shared: tuple[Var, ...] = ()) -> Instance:
        """An execution whose variables get a suffix, except the shared ones. Iterations count from 0."""
        names: dict[Var, Expr] = {}
        facts: list[Condition] = []
        for load in self.loaded:
            names[load.result] = result = Var(f"{load.result}{suffix}")
            facts += _limits(self.program, load, result)
        for outer, holds in self.around:
            if isinstance(outer, ir.Branch):
                condition = substituted(outer.condition, names)
                facts.append(condition if holds else apply("eq", condition, 0))
                continue
            start, stop = substituted(outer.start, names), substituted(outer.stop, names)
            count = Var(f"#{outer.var}{suffix}")
            names[outer.var] = value = apply("add", start, apply("mul", count, outer.step))
            facts += [apply("ge", count, 0), apply("lt" if outer.step > 0 else "gt", value, stop)]
        own: dict[Var, Expr] = {SUBBLOCK_IDX: 0}
        if self.program.vector_cores > 1:
            own[SUBBLOCK_IDX] = core = Var(f"{SUBBLOCK_IDX}{suffix}")
            facts += [apply("ge", core, 0), apply("lt", core, self.program.vector_cores)]
        if BLOCK_IDX not in shared:
            own[BLOCK_IDX] = Var(f"{BLOCK_IDX}{suffix}")
        names = {**{var: substituted(expr, own) for var, expr in names.items()}, **own}
        return Instance(tuple(substituted(fact, own) for fact in facts), names)

    @property
    def loops(self) -> tuple[ir.Loop, ...]:
        return tuple(outer for outer, _ in self.around if isinstance(outer, ir.Loop))


def substituted(expr: Expr, names: Mapping[Var, Expr]) -> Expr:
    """The expression with other names."""
    return rewrite(ir.View("", (expr,), ()), names).starts[0] if names else expr


def places(program: ir.Program) -> dict[int, StatementPlace]:
    """Every statement, by identity."""
    found: dict[int, StatementPlace] = {}
    loads = tuple(stmt for stmt in ir.walk(program.body) if isinstance(stmt, ir.LoadScalar))

    def visit(block: ir.Block, around: tuple[tuple[ir.Loop | ir.Branch, bool], ...]) -> None:
        for stmt in block:
            found[id(stmt)] = StatementPlace(stmt, around, loads, program)
            if isinstance(stmt, ir.Loop):
                visit(stmt.body, (*around, (stmt, True)))
            elif isinstance(stmt, ir.Branch):
                visit(stmt.then, (*around, (stmt, True)))
                visit(stmt.otherwise, (*around, (stmt, False)))

    visit(program.body, ())
    return found


@dataclass(frozen=True)
class Obligation:
    """Something that must hold whenever a statement runs."""

    stmt: ir.Stmt
    what: str
    condition: Condition


def obligations(program: ir.Program) -> Iterator[Obligation]:
    """That slices stay inside their arrays, parts and extents inside their tiles, and numbers have values."""
    for stmt in ir.walk(program.body):
        for expr in ir.expressions(stmt):
            for part in parts(expr):
                if isinstance(part, Op) and part.name in GUARDS and not isinstance(part.args[1], int):
                    least = apply("ge", part.args[1], 1)
                    yield Obligation(stmt, f"{part} has a value", least)
        if isinstance(stmt, ir.LoadScalar):
            yield from _inside(program, stmt, stmt.source)
        elif isinstance(stmt, ir.Instr):
            for operand in all_operands(stmt).values():
                if isinstance(operand, ir.View):
                    yield from _inside(program, stmt, operand)
                elif isinstance(operand, ir.TileUse):
                    yield from _within(program, stmt, operand)


def _inside(program: ir.Program, stmt: ir.Stmt, view: ir.View) -> Iterator[Obligation]:
    argument = program.tensors[view.argument]
    for dim, (start, size, most) in enumerate(zip(view.starts, view.sizes, argument.shape, strict=True)):
        beyond = apply("le", apply("add", start, size), most)
        for condition in (apply("ge", start, 0), apply("ge", size, 0), beyond):
            yield Obligation(stmt, f"a slice of {view.argument} stays inside its dim {dim}", condition)


def _within(program: ir.Program, stmt: ir.Stmt, use: ir.TileUse) -> Iterator[Obligation]:
    tile = program.tiles[use.tile]
    for extent, most in zip(use.valid, available(tile, use), strict=True):
        for condition in (apply("ge", extent, 0), apply("le", extent, most)):
            yield Obligation(stmt, f"the valid region of {tile.name} stays inside it", condition)
    for start, size, most in edges(tile, use):
        for condition in (apply("ge", start, 0), apply("le", apply("add", start, size), most)):
            yield Obligation(stmt, f"a slice of {tile.name} stays inside it", condition)


class ArrayProof:
    """The blocks of arrays of a program."""

    def __init__(
        self,
        program: ir.Program,
        grid: int | None,
        bounds: Mapping[Var, Bounds],
        solver: Solver,
        facts: tuple[Condition, ...] = (),
    ) -> None:
        self.program, self.bounds, self.solver, self.facts = program, bounds, solver, facts
        self.places = places(program)
        self.statements = list(ir.walk(program.body))
        self._reach = {id(stmt): reach for stmt, reach in reaches(program, grid)}
        self._written = {memory_of(program, view) for _, _, how, view in self._touched() if how != READ}
        self._met: dict[tuple[object, ...], bool] = {}

    @cached_property
    def general(self) -> tuple[Condition, ...]:
        """What holds in all launches."""
        found: list[Condition] = [
            *self.facts,
            apply("ge", BLOCK_NUM, 1),
            apply("ge", BLOCK_IDX, 0),
            apply("lt", BLOCK_IDX, BLOCK_NUM),
        ]
        for var, (low, high) in self.bounds.items():
            found += [apply("ge", var, int(low))] if low > float("-inf") else []
            found += [apply("le", var, int(high))] if high < float("inf") else []
        return tuple(found)

    def open_obligations(self) -> Iterator[Obligation]:
        """What is not proved."""
        for each in obligations(self.program):
            if each.condition == 1 or self._by_intervals(each):
                continue
            place = self.places[id(each.stmt)]
            instance = place.instance("")
            if not self.solver.proves(
                (*self.general, *self._blocks(""), *instance.facts), substituted(each.condition, instance.names)
            ):
                yield each

    def _blocks(self, suffix: str) -> tuple[Condition, ...]:
        block = Var(f"{BLOCK_IDX}{suffix}")
        return apply("ge", block, 0), apply("lt", block, BLOCK_NUM)

    def _by_intervals(self, each: Obligation) -> bool:
        reach = self._reach.get(id(each.stmt))
        if reach is None or not isinstance(each.condition, Op):
            return reach is None
        return _holds(replace(reach, bounds={**reach.bounds, **self.bounds}), each.condition)

    def may_meet(self, first: tuple[Touch, int, int], then: tuple[Touch, int, int], pipes: Sequence[str]) -> bool:
        """Whether an access may touch what an earlier one of its block touched."""
        one, two = first[0], then[0]
        cores = core_of(pipes[first[2]]), core_of(pipes[then[2]])
        key = first[1], then[1], one.operand, two.operand, *cores
        if key not in self._met:
            a, b = (self.places[id(self.statements[number])] for number in (first[1], then[1]))
            self._met[key] = self._share(a, one.view, b, two.view, cores)
        return self._met[key]

    def shared_between_blocks(self) -> Iterator[tuple[ir.Stmt, ir.Stmt, str, bool]]:
        """Pairs of statements that may touch the same elements in different blocks, if one of them writes: with the
        array, and whether that depends on indices."""
        touched = list(self._touched())
        for (stmt, name, how, view), (other, second, also, its) in combinations_with_replacement(touched, 2):
            if memory_of(self.program, view) != memory_of(self.program, its) or not meets(how, also):
                continue
            indexed = _is_indexed(stmt, name), _is_indexed(other, second)
            if all(indexed):
                yield stmt, other, view.argument, True
            elif self._share(self.places[id(stmt)], view, self.places[id(other)], its, None):
                yield stmt, other, view.argument, any(indexed)

    def _touched(self) -> Iterator[tuple[ir.Stmt, str, str, ir.View]]:
        for stmt in self.statements:
            if isinstance(stmt, ir.LoadScalar):
                yield stmt, "source", READ, stmt.source
            elif isinstance(stmt, ir.Instr):
                access = access_of(stmt)
                atomic = next((str(m) for m in stmt.modifiers if isinstance(m, ScatterAtomicOp) and m.value), "")
                for name, operand in named_operands(stmt).items():
                    if isinstance(operand, ir.View):
                        how = READ if access[name] == "read" else atomic or "write"
                        yield stmt, name, how, operand

    def _alike(self, place: StatementPlace, first: Instance, then: Instance) -> Iterator[Condition]:
        """Numbers from one place of an array that the program does not write are the same."""
        loops = {stmt.var for stmt in self.statements if isinstance(stmt, ir.Loop)} - {*first.names}
        for load in place.loaded:
            used = frozenset[Var]().union(*map(variables, load.source.starts))
            if memory_of(self.program, load.source) not in self._written and used.isdisjoint(loops):
                found: Condition = Op("eq", (first.names[load.result], then.names[load.result]))
                for start in load.source.starts:
                    ends = substituted(start, first.names), substituted(start, then.names)
                    found = found if ends[0] == ends[1] else Op("or", (Op("ne", ends), found))
                yield found

    def _share(
        self,
        a: StatementPlace,
        one: ir.View | None,
        b: StatementPlace,
        two: ir.View | None,
        cores: tuple[str, str] | None,
    ) -> bool:
        """Whether two blocks of one array may share elements."""
        assert one is not None and two is not None
        if one.argument != two.argument:
            return True
        shared = (BLOCK_IDX,) if cores else ()
        first, then = a.instance("'", shared), b.instance('"', shared)
        facts = [*self.general, *first.facts, *then.facts, *self._alike(a, first, then)]
        if cores and cores[0] == cores[1]:
            facts.append(_in_order(a, b))
        if cores:
            both = zip(cores, (first, then), strict=True)
            facts += [apply("eq", of.names[SUBBLOCK_IDX], vector_of(core)) for core, of in both]
        else:
            blocks = Var(f"{BLOCK_IDX}'"), Var(f'{BLOCK_IDX}"')
            facts += [*self._blocks("'"), *self._blocks('"'), apply("ne", *blocks)]
        for start, size, then_start, then_size in zip(one.starts, one.sizes, two.starts, two.sizes, strict=True):
            begin, end = (substituted(e, first.names) for e in (start, apply("add", start, size)))
            its, its_end = (substituted(e, then.names) for e in (then_start, apply("add", then_start, then_size)))
            facts += [apply("lt", begin, its_end), apply("lt", its, end)]
        return not self.solver.refutes(facts)


def _limits(program: ir.Program, load: ir.LoadScalar, result: Var) -> list[Condition]:
    """Bounds of a number from memory, by its type."""
    limits = np.iinfo(program.tensors[load.source.argument].dtype.numpy)
    return [apply("ge", result, int(limits.min)), apply("le", result, int(limits.max))]


def _in_order(a: StatementPlace, b: StatementPlace) -> Condition:
    """That one execution does not come after another, by the iterations of the loops around both."""
    common: list[ir.Loop] = []
    for one, other in zip(a.loops, b.loops, strict=False):
        if one is not other:
            break
        common.append(one)
    found: Condition = 1
    for loop in reversed(common):
        first, then = Var(f"#{loop.var}'"), Var(f'#{loop.var}"')
        same = apply("and", apply("eq", first, then), found) if found != 1 else apply("le", first, then)
        found = apply("or", apply("lt", first, then), same) if found != 1 else same
    return found


def _is_indexed(stmt: ir.Stmt, name: str) -> bool:
    """Whether indices choose the elements of an operand."""
    if not isinstance(stmt, ir.Instr) or "index" not in stmt.definition.roles:
        return False
    return name != stmt.definition.roles["index"]


def _holds(reach: Reach, condition: Op) -> bool:
    """Whether a comparison holds by intervals."""
    left, right = condition.args
    difference = apply("sub", left, right)
    return (condition.name == "ge" and reach.lowest(difference) >= 0) or (
        condition.name == "le" and reach.highest(difference) <= 0
    )
