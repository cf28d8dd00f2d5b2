"""What is proved of a program on a target, what is not, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import inf
from time import process_time

from ptokit.finding import Finding, Where, at_line
from ptokit.isa.opaque import GRID_BARRIERS, UNCACHED
from ptokit.isa.policy import division
from ptokit.machine.ends import instruction_of
from ptokit.machine.hazards import may_be_stale
from ptokit.machine.shadow import READ
from ptokit.program import ir
from ptokit.program.cores import unit_of
from ptokit.program.expr import BLOCK_IDX, BLOCK_NUM, Bounds, Expr, Var, variables
from ptokit.program.instr_calls import unknown_writes
from ptokit.program.verify_call import Options
from ptokit.proof.accesses import memory_of
from ptokit.proof.arrays import ArrayProof
from ptokit.proof.explore import Explorer, placed_program
from ptokit.proof.numbers import UnknownNumber
from ptokit.proof.order import OrderFault, TooMuch
from ptokit.proof.solver import Solver
from ptokit.target import Profile

INSTALL = "install ptokit[prove] for the solver"


@dataclass(frozen=True)
class ProofOutcome:
    """The result of a proof."""

    open: tuple[Finding, ...]
    """What is not proved: notes, each at its statement. None if all is."""
    covers: tuple[str, ...]
    """For what it holds."""
    excludes: tuple[str, ...]
    """What it says nothing of."""
    states: int
    """The states that were compared."""
    seconds: float


def prove(
    program: ir.Program,
    profile: Profile,
    options: Options,
    *,
    grid: int | None = None,
    bounds: Mapping[Var, Bounds] | None = None,
    facts: tuple[Expr, ...] = (),
    seconds: float = 5.0,
) -> ProofOutcome:
    """Prove a program that has no errors for its own launch. `bounds` and `facts` are those of its parameters."""
    began = process_time()
    known = dict(bounds or {})
    if grid is None and not uses_blocks(program):
        grid = 1
    if grid is not None:
        known[BLOCK_NUM] = grid, grid
    solver = Solver(seconds / 2)
    ordered = placed_program(program, profile, options.dyn_ub) if profile.pipes else program
    arrays = ArrayProof(ordered, grid, known, solver, facts)
    open_ = [_found(each.what, each.stmt, profile) for each in arrays.open_obligations()]
    excludes = list(_excluded(ordered))
    for stmt, other, array, by_index in arrays.shared_between_blocks() if grid != 1 else ():
        if by_index:
            excludes.append(f"whether indices of different blocks name the same elements of {array}")
        else:
            what = f"{array} is not shared with {at_line(_name(other), other.where)} of another block"
            open_.append(_found(what, stmt, profile))
    explorer = Explorer(ordered, profile, options, dict(known), seconds - (process_time() - began), arrays)
    states = 0
    if profile.pipes:
        try:
            explorer.run()
        except TooMuch as reason:
            open_.append(_found(f"all orders ({reason.why})", ordered.body[0], profile))
        except UnknownNumber as unknown:
            open_.append(_found(f"the value of {unknown.expr}", explorer.current or ordered.body[0], profile))
        open_ += [_described(fault, explorer, profile) for fault in explorer.faults]
        states = explorer.count
    open_ += [_found(what, stmt, profile) for what, stmt in _beyond(ordered, profile, explorer)]
    if solver.was_needed:
        open_.append(_found(f"some numbers: {INSTALL}", ordered.body[0], profile))
    covers = tuple(_covered(ordered, grid, known))
    return ProofOutcome(
        tuple(dict.fromkeys(open_)), covers, tuple(dict.fromkeys(excludes)), states, process_time() - began
    )


def uses_blocks(program: ir.Program) -> bool:
    """Whether blocks differ: a program that asks for neither its block nor the grid is for one block."""
    every = (expr for stmt in ir.walk(program.body) for expr in ir.expressions(stmt))
    return any(not variables(expr).isdisjoint((BLOCK_IDX, BLOCK_NUM)) for expr in every)


NAMES = {ir.Flag: "{0.action}_flag", ir.CrossFlag: "sync_{0.action}", ir.Barrier: "barrier", ir.TileDecl: "{0.name}",
         ir.Assign: "tassign", ir.Loop: "range", ir.Branch: "when"}  # fmt: skip


def _name(stmt: ir.Stmt) -> str:
    return NAMES[type(stmt)].format(stmt) if type(stmt) in NAMES else instruction_of(stmt)


def _found(what: str, stmt: ir.Stmt, profile: Profile) -> Finding:
    where: Where | None = stmt.where
    return Finding("note", "KN-13", f"{_name(stmt)}: not proved: {what}", None, fix="").at(where).on(profile.name)


def _described(fault: OrderFault, explorer: Explorer, profile: Profile) -> Finding:
    """A fault as what could not be proved."""
    statements, what = explorer.statements, fault.what
    if fault.kind == "left":
        setter = next((each for each in statements if isinstance(each, ir.Flag | ir.CrossFlag)), statements[0])
        return _found(f"that the flag {_flag(what)} is not left set at the end", setter, profile)
    number = what[0] if isinstance(what, tuple) else what
    assert isinstance(number, int)
    stmt, other = statements[number], fault.other
    before = at_line(_name(statements[other]), statements[other].where) if isinstance(other, int) else ""
    if fault.kind == "race":
        assert isinstance(fault.detail, tuple)
        operand, pipe, earlier = fault.detail
        pipes = explorer.wiring.pipes
        return _found(
            f"{operand} on {unit_of(pipes[pipe])} comes after {before} on {unit_of(pipes[earlier])}", stmt, profile
        )
    if fault.kind == "call":
        return _found(f"that the call is right: {fault.detail}", stmt, profile)
    text = {
        "overlap": f"{before} has ended before {fault.detail} is read",
        "unwritten": f"all of {fault.detail} was written",
        "stuck": "the wait ends",
        "twice": "the flag is not set a second time before a wait",
        "unpaired": "sets and waits of the flag are in an order",
        "overflow": "the flag is not set too often before its waits",
        "address": f"the address {fault.detail} is inside the memory",
        "burst": f"bursts of {fault.detail} begin at multiples of the alignment",
        "overwritten": f"no other tile has overwritten {fault.detail}",
        "id": f"the event id {fault.detail} exists",
    }[fault.kind]
    return _found(text, stmt, profile)


def _flag(key: object) -> str:
    if isinstance(key, tuple) and len(key) == 3:
        return f"{unit_of(str(key[0]))}→{unit_of(str(key[1]))} {key[2]}"
    return str(key)


def _beyond(program: ir.Program, profile: Profile, explorer: Explorer) -> Iterator[tuple[str, ir.Stmt]]:
    """What the machine checks, and no proof is tried for."""
    if not profile.pipes:
        return
    for use, other in product(explorer.array_uses, repeat=2):
        is_direct = any(getattr(each.stmt, "name", "") in UNCACHED for each in (use, other))
        is_later = use.memory == other.memory and use.stmt is not other.stmt and not is_direct
        if is_later and use.access == READ != other.access and may_be_stale(other.pipe, use.pipe):
            yield f"{use.memory} is not read from a stale cache line", use.stmt
    for stmt in explorer.statements:
        if isinstance(stmt, ir.Instr) and division(stmt.modifiers).parts != (1, 1):
            yield "halves of an accumulator are read as they were written", stmt
    if unknown_writes(program):
        yield "what calls by address write", program.body[0]


def _excluded(program: ir.Program) -> Iterator[str]:
    """What a proof says nothing of."""
    if any("index" in instr.definition.roles for instr in program.instructions):
        yield "values of indices"
    if not program.is_modelled or any(instr.name in GRID_BARRIERS for instr in program.instructions):
        yield "instructions that ptokit knows by their effects only"


def _covered(program: ir.Program, grid: int | None, bounds: Mapping[Var, Bounds]) -> Iterator[str]:
    """For what a proof holds."""
    yield "every block of every grid" if grid is None else "one block" if grid == 1 else f"every block of {grid}"
    if any(isinstance(stmt, ir.Loop) and not isinstance(stmt.stop, int) for stmt in ir.walk(program.body)):
        yield "every number of iterations"
    if any(isinstance(stmt, ir.Branch) for stmt in ir.walk(program.body)):
        yield "every branch"
    numbers = [argument.name for argument in program.arguments if isinstance(argument, ir.Integer)]
    if numbers:
        yield f"every {', '.join(numbers)}"
    lengths = [
        f"{low:,.0f} <= {var}" + (f" <= {high:,.0f}" if high < inf else "")
        for var, (low, high) in bounds.items()
        if var != BLOCK_NUM
    ]
    yield from lengths
    loads = {memory_of(program, stmt.source) for stmt in ir.walk(program.body) if isinstance(stmt, ir.LoadScalar)}
    if loads:
        yield f"all numbers in {', '.join(sorted(loads))}"
