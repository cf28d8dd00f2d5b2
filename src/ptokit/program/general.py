"""A program for many lengths of its arrays: what must hold of them, and its findings for given ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from ptokit.finding import Finding
from ptokit.isa.unknown import Undecided
from ptokit.program.bounds import BoundsProof
from ptokit.program.budget import starts_threads
from ptokit.program.calls import call_of, tensor_spec, written_arguments
from ptokit.program.expr import Expr, Var, compiled, extents_in, substitute, value_of
from ptokit.program.handover import are_cores_joined
from ptokit.program.ir import (
    Argument,
    Block,
    Branch,
    Instr,
    Program,
    View,
    children,
    instructions,
    walk,
    with_expressions,
)
from ptokit.program.symbolic import Lengths
from ptokit.program.verify import verify
from ptokit.program.verify_call import Options, verify_call
from ptokit.target import Profile

MOST_CLASSES = 4
"""Classes of lengths of which the findings are kept, by target."""
MOST_KEPT = 256
Values = Mapping[Var, int]


def tested(conditions: Iterable[Expr]) -> Callable[[Values], bool]:
    """Whether all conditions hold, as a function of the numbers in them."""
    measures = [compiled(condition) for condition in conditions]
    return lambda values: all(value_of(measure, values) for measure in measures)


def at_lengths(program: Program, values: Values) -> Program:
    """The program with numbers in the place of extents."""

    def number(expr: Expr) -> Expr:
        return substitute(expr, values) if extents_in(expr) else expr

    arguments = tuple(
        replace(each, shape=tuple(map(number, each.shape))) if isinstance(each, Argument) else each
        for each in program.arguments
    )
    body = tuple(with_expressions(stmt, number) for stmt in program.body)
    names = tuple((number(expr), name) for expr, name in program.names)
    return replace(program, arguments=arguments, body=body, names=names)


@dataclass(frozen=True)
class KnownFindings:
    """What `verify` finds for a class of lengths, if all slices lie inside their arguments."""

    holds: Callable[[Values], bool]
    findings: tuple[Finding, ...]
    needs_loops: bool
    """Whether all loops must run: a statement that is not reached has no findings."""


class General:
    """A program with extents of its arguments as variables, valid for all that meet its conditions."""

    def __init__(self, program: Program, conditions: Iterable[Expr]) -> None:
        self.program = program
        self.holds = tested(conditions)
        """Whether it is the program for some lengths."""
        self.at = lru_cache(MOST_KEPT)(self._at)
        self._proof = BoundsProof(program) if program.mode == "auto" else None
        """In auto mode only bounds and the rules of instructions depend on lengths: it has no flags and addresses."""
        self._known: dict[tuple[str, Options], list[KnownFindings]] = {}
        """Findings for classes of lengths, by target."""

    def _at(self, lengths: tuple[tuple[Var, int], ...]) -> Program:
        return at_lengths(self.program, dict(lengths))

    def findings(self, profile: Profile, options: Options, grid: int, lengths: Values) -> Sequence[Finding]:
        """What `verify` finds for these lengths. Mostly that is what it found for others, which is known without it."""
        proof, known = self._proof, self._known.setdefault((profile.name, options), [])
        bounds = proof.bounds(grid, lengths) if proof is not None and grid else None
        if proof is None or bounds is None or not proof.holds(bounds):
            return self._verified(profile, options, grid, lengths)
        for each in known:
            if each.holds(lengths) and (not each.needs_loops or proof.all_loops_run(bounds)):
                return each.findings
        found = self._verified(profile, options, grid, lengths)
        if len(known) < MOST_CLASSES:
            judged = self._judged(profile, options, lengths, found)
            if judged and (not judged.needs_loops or proof.all_loops_run(bounds)):
                known.append(judged)
        return found

    def _verified(self, profile: Profile, options: Options, grid: int, lengths: Values) -> Sequence[Finding]:
        return verify(self.at(tuple(lengths.items())), profile, options, grid)

    def _judged(
        self, profile: Profile, options: Options, lengths: Values, found: Sequence[Finding]
    ) -> KnownFindings | None:
        """The lengths for which all rules and checks, but for bounds, take the decisions that they take for these; None
        if that is not known."""
        if not are_cores_joined(self.program, profile):
            return None
        given, with_findings = Lengths(lengths), list[Instr]()
        try:
            for instr in self.program.instructions:
                call = call_of(self.program, instr, profile, given.resolve)
                with_findings += [instr] if verify_call(call, profile, options, alone=False, types=True) else []
                starts_threads(call)
            for name in written_arguments(self.program):
                argument = self.program.tensors[name]
                whole = View(name, (0,) * len(argument.shape), argument.shape)
                bool(tensor_spec(argument, whole, given.resolve).overlaps_itself)
        except (TypeError, Undecided):  # of a rule that takes only numbers of Python itself
            return None
        if any(instr in instructions(branch) for instr in with_findings for branch in self._branches):
            return None  # it may not be reached
        return KnownFindings(tested(given.conditions.found), tuple(found), bool(with_findings))

    @cached_property
    def _branches(self) -> list[Block]:
        return [block for stmt in walk(self.program.body) if isinstance(stmt, Branch) for block in children(stmt)]
