"""Verifies a program for a target: the rules of every instruction, then those of the whole program."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from functools import partial

from ptokit.finding import Finding, fold_overlaps
from ptokit.isa.fixes import write_first
from ptokit.program import calls
from ptokit.program.addresses import check_addresses, check_memory, check_overlaps
from ptokit.program.bounds import Reach, check_bounds, reaches
from ptokit.program.cores import StatementCores
from ptokit.program.describe import described
from ptokit.program.expr import Expr, Var
from ptokit.program.handover import check_cores, check_sync
from ptokit.program.ir import (
    CPP,
    Block,
    Branch,
    Instr,
    Leaf,
    LoadScalar,
    Loop,
    Program,
    TileDecl,
    TileUse,
    View,
    fold,
    walk,
)
from ptokit.program.overlaps import sharing
from ptokit.program.streams import crosses
from ptokit.program.verify_call import Options, judged, verify_call
from ptokit.target import SCALAR, Profile


def verify(
    program: Program,
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
    program: Program, profile: Profile, options: Options, grid: int | None, integers: Mapping[Var, int]
) -> Iterator[Finding]:
    known: dict[Hashable, list[Finding]] = {}
    for stmt, reach in reaches(program, grid, integers):
        if not isinstance(stmt, Instr):
            continue
        resolve = partial(_same_in_all, reach) if integers else calls.known
        key = calls.signature(stmt), id(reach) if integers else None
        if key not in known:
            call, types = calls.call_of(program, stmt, profile, resolve), not program.form.startswith(CPP)
            known[key] = verify_call(call, profile, options, alone=False, types=types)
        for finding in known[key]:
            yield described(calls.with_tiles(finding, stmt).at(stmt.where), program, stmt)


def _same_in_all(reach: Reach, expr: Expr) -> int:
    """The value of an expression if it is the same in all blocks and iterations, else an unknown number."""
    found = None if isinstance(expr, int) else reach.value(expr)
    if found is None or not found.size or (found != found[0]).any():
        return calls.known(expr)
    return int(found[0])


def check_cells(program: Program, _profile: Profile, _options: Options, _grid: int | None) -> Iterable[Finding]:
    """An argument that is written has no two elements at one address. Of a view, only the blocks that are written
    (`distinct_cells`): its items may be windows that overlap."""
    for instr in program.instructions:
        access = calls.access_of(instr)
        for name, operand in calls.named_operands(instr).items():
            if not isinstance(operand, View) or access[name] == "read":
                continue
            argument = program.tensors[operand.argument]
            if not argument.view_of and calls.overlaps_itself(argument):
                message = f"{instr.name}: {operand.argument} is written, and some of its elements share an address"
                yield Finding(
                    "error", "CO-SEM-01", message, None, name, "a tensor whose elements lie apart",
                    fix="copy the array first", where=instr.where, blocks=True,
                )  # fmt: skip


def check_written(program: Program, _profile: Profile, _options: Options, grid: int | None) -> Iterable[Finding]:
    """A tile is written before it is read: through itself, or through one that shares bytes with it."""
    unknown, shared = calls.unknown_writes(program), set(_used_by_two_cores(program) if crosses(program) else ())
    known = {tile.name for tile in program.tiles.values() if tile.spec.loc not in unknown} - shared
    return _reads_of_unwritten(program.body, sharing(program, grid), known)


def _used_by_two_cores(program: Program) -> Iterator[str]:
    """Tiles of two cores: what one of them does to a tile is in no order of the text with what the other one does."""
    cores = StatementCores(program)
    return (tile for tile in program.tiles if len(cores.users(tile)) > 1)


def _reads_of_unwritten(block: Block, near: Mapping[str, set[str]], known: set[str]) -> list[Finding]:
    """Reads of tiles that nothing can have written: of those of which all writes are known. The state is the set of
    tiles that may have been written."""
    found: list[Finding] = []

    def leaf(stmt: Leaf, written: set[str]) -> set[str]:
        if isinstance(stmt, TileDecl):
            return written - {stmt.name} if stmt.fresh else written | {stmt.name}
        if isinstance(stmt, Instr):
            found.extend(_unwritten_reads(stmt, written, near, known))
            return written | _writes(stmt)
        return written

    def loop(stmt: Loop, written: set[str]) -> set[str]:
        return visit(stmt.body, written.union(*(_writes(each) for each in walk(stmt.body) if isinstance(each, Instr))))

    def branch(stmt: Branch, written: set[str]) -> set[str]:
        return visit(stmt.then, written) | visit(stmt.otherwise, written)

    visit = partial(fold, leaf=leaf, loop=loop, branch=branch)
    visit(block, set())
    return found


def _writes(instr: Instr) -> set[str]:
    access = calls.access_of(instr)
    tiles = {name: operand.tile for name, operand in calls.all_operands(instr).items() if isinstance(operand, TileUse)}
    return {tile for name, tile in tiles.items() if access[name] != "read"}


def _unwritten_reads(
    instr: Instr, written: set[str], near: Mapping[str, set[str]], known: set[str]
) -> Iterator[Finding]:
    access, index = calls.access_of(instr), instr.definition.roles.get("index")
    for name, operand in calls.named_operands(instr).items():
        if not isinstance(operand, TileUse) or access[name] != "read" or operand.tile not in known:
            continue
        if written.isdisjoint((operand.tile, *near[operand.tile])):
            message = f"{instr.name}: {name} reads {operand.tile}, which nothing has written"
            kind, what = ("H-42", "index") if name == index else (None, "memory")
            fix = write_first(operand.tile)
            yield Finding(
                "hazard", "KN-19", message, kind, name, "a tile that was written", "", fix, instr.where, unwritten=what
            )


Check = Callable[[Program, Profile, Options, "int | None"], Iterable[Finding]]
CHECKS: tuple[Check, ...] = (
    check_memory, check_addresses, check_overlaps, check_cells, check_cores, check_sync, check_written,
)  # fmt: skip
"""The checks of the whole program."""


def pipes_used(program: Program, profile: Profile) -> tuple[str, ...]:
    """The pipes that the program's instructions work on, in the target's order."""
    used: set[str] = set()
    different = {calls.signature(instr): instr for instr in program.instructions}
    for instr in different.values():
        used.update(effect.pipe for effect in calls.effects(calls.call_of(program, instr, profile)))
    if any(isinstance(stmt, LoadScalar) for stmt in walk(program.body)):
        used.add(SCALAR)
    return tuple(pipe for pipe in profile.pipes if pipe in used)
