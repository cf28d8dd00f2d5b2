"""Verifies a program for a target: the rules of every instruction, then of the whole; also for many lengths."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial

from ptokit.finding import Finding, fold_overlaps
from ptokit.isa.fixes import write_first
from ptokit.isa.unknown import Undecided
from ptokit.program import instr_calls, ir
from ptokit.program.bounds import BoundsProof, Reach, check_bounds, reaches
from ptokit.program.budget import starts_threads
from ptokit.program.cores import StatementCores
from ptokit.program.expr import Expr, Var, compiled, extents_in, substitute, value_of
from ptokit.program.handover import are_cores_joined, check_cores, check_sync
from ptokit.program.instr_calls import call_of, tensor_spec, written_arguments
from ptokit.program.overlaps import sharing
from ptokit.program.place import check_addresses, check_memory, check_overlaps
from ptokit.program.show import described
from ptokit.program.streams import crosses
from ptokit.program.symbolic import Lengths
from ptokit.program.verify_call import Options, judged, verify_call, written_findings
from ptokit.target import SCALAR, Profile


def verify(
    program: ir.Program,
    profile: Profile,
    options: Options | None = None,
    grid: int | None = None,
    integers: Mapping[Var, int] | None = None,
) -> list[Finding]:
    """All findings on a program that are certain before it runs, each at its line, in the order of the text.

    Without a grid, slices that depend on the block are not checked. Instructions that no block reaches are not checked.
    `integers` are the integer arguments of a launch: rules that depend on them are checked, too.
    """
    options = options or Options()
    findings = [*_instructions(program, profile, options, grid, integers or {}), *check_bounds(program, grid)]
    if grid != 0:
        for check in CHECKS:
            findings += check(program, profile, options, grid)
    placed = [finding.on(profile.name).in_form(program.form) for finding in findings]
    different = {(finding, finding.path): finding for finding in judged(placed, options)}
    return fold_overlaps(sorted(different.values(), key=_place))


def _place(finding: Finding) -> tuple[str, int]:
    return (finding.where.file, finding.where.line) if finding.where else ("", 0)


def _instructions(
    program: ir.Program, profile: Profile, options: Options, grid: int | None, integers: Mapping[Var, int]
) -> Iterator[Finding]:
    known: dict[Hashable, list[Finding]] = {}
    for stmt, reach in reaches(program, grid, integers):
        if not isinstance(stmt, ir.Instr):
            continue
        resolve = partial(_same_in_all, reach) if integers else instr_calls.known
        key = instr_calls.signature(stmt), id(reach) if integers else None
        if key not in known:
            call, types = instr_calls.call_of(program, stmt, profile, resolve), not program.form.startswith(ir.CPP)
            known[key] = verify_call(call, profile, options, alone=False, types=types)
            known[key] += [] if types else judged(written_findings(call), options)
        for finding in known[key]:
            yield described(instr_calls.with_tiles(finding, stmt).at(stmt.where), program, stmt)


def _same_in_all(reach: Reach, expr: Expr) -> int:
    """The value of an expression if it is the same in all blocks and iterations, else an unknown number."""
    found = None if isinstance(expr, int) else reach.value(expr)
    if found is None or not found.size or (found != found[0]).any():
        return instr_calls.known(expr)
    return int(found[0])


def check_cells(program: ir.Program, _profile: Profile, _options: Options, _grid: int | None) -> Iterable[Finding]:
    """An argument that is written has no two elements at one address. Of a view, only the blocks that are written
    (`distinct_cells`): its items may be windows that overlap."""
    for instr in program.instructions:
        access = instr_calls.access_of(instr)
        for name, operand in instr_calls.named_operands(instr).items():
            if not isinstance(operand, ir.View) or access[name] == "read":
                continue
            argument = program.tensors[operand.argument]
            if not argument.view_of and instr_calls.overlaps_itself(argument):
                message = f"{instr.name}: {operand.argument} is written, and some of its elements share an address"
                yield Finding(
                    "error", "CO-SEM-01", message, None, name, "a tensor whose elements lie apart",
                    fix="copy the array first", where=instr.where, blocks=True,
                )  # fmt: skip


def check_written(program: ir.Program, _profile: Profile, _options: Options, grid: int | None) -> Iterable[Finding]:
    """A tile is written before it is read: through itself, or through one that shares bytes with it."""
    unknown, shared = instr_calls.unknown_writes(program), set(_used_by_two_cores(program) if crosses(program) else ())
    known = {tile.name for tile in program.tiles.values() if tile.spec.loc not in unknown} - shared
    return _reads_of_unwritten(program.body, sharing(program, grid), known)


def _used_by_two_cores(program: ir.Program) -> Iterator[str]:
    """Tiles of two cores: what one of them does to a tile is in no order of the text with what the other one does."""
    cores = StatementCores(program)
    return (tile for tile in program.tiles if len(cores.users(tile)) > 1)


def _reads_of_unwritten(block: ir.Block, near: Mapping[str, set[str]], known: set[str]) -> list[Finding]:
    """Reads of tiles that nothing can have written: of those of which all writes are known. The state is the set of
    tiles that may have been written."""
    found: list[Finding] = []

    def leaf(stmt: ir.Leaf, written: set[str]) -> set[str]:
        if isinstance(stmt, ir.TileDecl):
            return written - {stmt.name} if stmt.fresh else written | {stmt.name}
        if isinstance(stmt, ir.Instr):
            found.extend(_unwritten_reads(stmt, written, near, known))
            return written | _writes(stmt)
        return written

    def loop(stmt: ir.Loop, written: set[str]) -> set[str]:
        return visit(
            stmt.body, written.union(*(_writes(each) for each in ir.walk(stmt.body) if isinstance(each, ir.Instr)))
        )

    def branch(stmt: ir.Branch, written: set[str]) -> set[str]:
        return visit(stmt.then, written) | visit(stmt.otherwise, written)

    visit = partial(ir.fold, leaf=leaf, loop=loop, branch=branch)
    visit(block, set())
    return found


def _writes(instr: ir.Instr) -> set[str]:
    access = instr_calls.access_of(instr)
    tiles = {name: use.tile for name, use in instr_calls.all_operands(instr).items() if isinstance(use, ir.TileUse)}
    return {tile for name, tile in tiles.items() if access[name] != "read"}


def _unwritten_reads(
    instr: ir.Instr, written: set[str], near: Mapping[str, set[str]], known: set[str]
) -> Iterator[Finding]:
    access, index = instr_calls.access_of(instr), instr.definition.roles.get("index")
    for name, operand in instr_calls.named_operands(instr).items():
        if not isinstance(operand, ir.TileUse) or access[name] != "read" or operand.tile not in known:
            continue
        if written.isdisjoint((operand.tile, *near[operand.tile])):
            message = f"{instr.name}: {name} reads {operand.tile}, which nothing has written"
            kind, what = ("H-42", "index") if name == index else (None, "memory")
            fix = write_first(operand.tile)
            yield Finding(
                "hazard", "KN-19", message, kind, name, "a tile that was written", "", fix, instr.where, unwritten=what
            )


Check = Callable[[ir.Program, Profile, Options, "int | None"], Iterable[Finding]]
CHECKS: tuple[Check, ...] = (
    check_memory, check_addresses, check_overlaps, check_cells, check_cores, check_sync, check_written,
)  # fmt: skip
"""The checks of the whole program."""


def pipes_used(program: ir.Program, profile: Profile) -> tuple[str, ...]:
    """The pipes that the program's instructions work on, in the target's order."""
    used: set[str] = set()
    different = {instr_calls.signature(instr): instr for instr in program.instructions}
    for instr in different.values():
        used.update(effect.pipe for effect in instr_calls.effects(instr_calls.call_of(program, instr, profile)))
    if any(isinstance(stmt, ir.LoadScalar) for stmt in ir.walk(program.body)):
        used.add(SCALAR)
    return tuple(pipe for pipe in profile.pipes if pipe in used)


# --- programs for many lengths


MOST_CLASSES = 4
"""How many classes of lengths have their findings kept, by target."""
MOST_KEPT = 256
Values = Mapping[Var, int]


def tested(conditions: Iterable[Expr]) -> Callable[[Values], bool]:
    """Whether all conditions hold, as a function of the numbers in them."""
    measures = [compiled(condition) for condition in conditions]
    return lambda values: all(value_of(measure, values) for measure in measures)


def at_lengths(program: ir.Program, values: Values) -> ir.Program:
    """The program with numbers in the place of extents."""

    def number(expr: Expr) -> Expr:
        return substitute(expr, values) if extents_in(expr) else expr

    arguments = tuple(
        replace(each, shape=tuple(map(number, each.shape))) if isinstance(each, ir.Argument) else each
        for each in program.arguments
    )
    body = tuple(ir.with_expressions(stmt, number) for stmt in program.body)
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

    def __init__(self, program: ir.Program, conditions: Iterable[Expr]) -> None:
        self.program = program
        self.holds = tested(conditions)
        """Whether it is the program for some lengths."""
        self.at = lru_cache(MOST_KEPT)(self._at)
        self._proof = BoundsProof(program) if program.mode == "auto" else None
        """In auto mode only bounds and the rules of instructions depend on lengths: it has no flags and addresses."""
        self._known: dict[tuple[str, Options], list[KnownFindings]] = {}
        """Findings for classes of lengths, by target."""

    def _at(self, lengths: tuple[tuple[Var, int], ...]) -> ir.Program:
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
        given, with_findings = Lengths(lengths), list[ir.Instr]()
        try:
            for instr in self.program.instructions:
                call = call_of(self.program, instr, profile, given.resolve)
                with_findings += [instr] if verify_call(call, profile, options, alone=False, types=True) else []
                starts_threads(call)
            for name in written_arguments(self.program):
                argument = self.program.tensors[name]
                whole = ir.View(name, (0,) * len(argument.shape), argument.shape)
                bool(tensor_spec(argument, whole, given.resolve).overlaps_itself)
        except (TypeError, Undecided):  # of a rule that takes only numbers of Python itself
            return None
        if any(instr in ir.instructions(branch) for instr in with_findings for branch in self._branches):
            return None  # it may not be reached
        return KnownFindings(tested(given.conditions.expressions), tuple(found), bool(with_findings))

    @cached_property
    def _branches(self) -> list[ir.Block]:
        return [
            block for stmt in ir.walk(self.program.body) if isinstance(stmt, ir.Branch) for block in ir.children(stmt)
        ]
