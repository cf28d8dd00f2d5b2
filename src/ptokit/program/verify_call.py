"""Runs an instruction's rules over a call, with the rules that every instruction shares."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import combinations, takewhile

from ptokit.finding import Finding, Level
from ptokit.isa.instruction import Call, Rule
from ptokit.isa.operand import BLOCK, UNKNOWN, OperandSpec, TensorSpec, TileSpec, meet
from ptokit.isa.policy import BLayout, TileType
from ptokit.isa.tassign import TASSIGN
from ptokit.target import Profile


@dataclass(frozen=True)
class Options:
    """How strictly to judge, and what the launch asks for."""

    header: bool = False
    """Refuse only what the target's real headers assert; the rest becomes hazards, as far as memory stays safe."""
    strict: bool = False
    """Hazards are errors."""
    dyn_ub: int | None = None
    """dynUBufSize of the launch in bytes; None leaves the launch open."""


def tiles(call: Call) -> dict[str, TileSpec]:
    """The call's tile operands by name."""
    return {name: spec for name, spec in call.operands.items() if isinstance(spec, TileSpec)}


def written(call: Call) -> set[str]:
    """Names of the operands that the call writes."""
    return {param.name for param in call.instruction.operands if param.access != "read"}


def _range(tile: TileSpec) -> range:
    return range(tile.addr or 0, (tile.addr or 0) + tile.nbytes)


def show_addresses(addresses: range) -> str:
    """`0x100..0x200`, for messages."""
    return f"{addresses.start:#x}..{addresses.stop:#x}"


def _subject(call: Call) -> str:
    return f"{call.instruction.name} on {call.target}"


def _finding(rule: str, kind: str | None, operand: str, subject: str, expected: str, found: str, fix: str) -> Finding:
    message = f"{subject}: {operand} must be {expected}; found {found}"
    return Finding("error", rule, message, kind, operand, expected, found, fix)


def valid_extents(call: Call, profile: Profile, options: Options) -> Iterable[Finding]:
    """A valid region lies inside its tile."""
    for name, tile in tiles(call).items():
        if tile.valid_rows > tile.rows or tile.valid_cols > tile.cols:
            expected = f"valid within {tile.rows}x{tile.cols}"
            yield _finding(
                "CO-SHAPE-02", None, name, _subject(call), expected, str(tile), "shrink valid= or enlarge the tile"
            )


def distinct_cells(call: Call, profile: Profile, options: Options) -> Iterable[Finding]:
    """A tensor that is written has no two elements in one place."""
    for name in written(call):
        tensor = call.operands[name]
        if isinstance(tensor, TensorSpec) and tensor.overlaps_itself:
            found = f"{tensor} with Stride<{', '.join(map(str, tensor.stride))}>"
            yield _finding(
                "CO-SEM-01",
                None,
                name,
                _subject(call),
                "a tensor whose elements lie apart",
                found,
                "copy the array first",
            )


def overlaps(call: Call, profile: Profile, options: Options) -> Iterable[Finding]:
    """Two tiles at given addresses share no bytes, unless both are one tile: only read, or worked on in place."""
    in_place = call.family in call.instruction.in_place
    placed = [(name, tile) for name, tile in tiles(call).items() if tile.addr is not None]
    for (name, tile), (other, against) in combinations(placed, 2):
        if (tile.loc, tile.space) != (against.loc, against.space):
            continue
        is_read = not {name, other} & written(call)
        if (tile == against and (in_place or is_read)) or (is_read and (tile.is_slice or against.is_slice)):
            continue
        first, second = _range(tile), _range(against)
        if meet(tile, first.start, against, second.start):
            found = f"{show_addresses(first)}, over {other} at {show_addresses(second)}"
            yield _finding("A-38", "H-38", name, _subject(call), f"apart from {other}", found, "move one of the tiles")
    yield from _repeated(call)


def _repeated(call: Call) -> Iterable[Finding]:
    """A tile without an address is no source of the call that writes it either, unless it is worked on in place.

    Moves that take effect lane by lane, in an order that is known, say so themselves when they run (`shared`).
    """
    if call.family in call.instruction.in_place or "shared" in call.instruction.faults:
        return
    given = tiles(call)
    for name in (name for name in given if name in call.repeats and given[name].addr is None):
        earlier = [other for other in takewhile(name.__ne__, given) if _storage(given[other]) == _storage(given[name])]
        if set(earlier) <= written(call):
            shown = ", ".join(earlier) or "another operand"
            found = f"{shown} once more"
            expected, fix = f"another tile than {shown}", "give the result a tile of its own"
            yield _finding("A-38", "H-38", name, _subject(call), expected, found, fix)


def _storage(tile: TileSpec) -> TileSpec:
    """The tile without what its uses may differ in."""
    return replace(tile, valid_rows=tile.rows, valid_cols=tile.cols, dynamic=(False, False))


def aligned_slices(call: Call, profile: Profile, options: Options) -> Iterable[Finding]:
    """On a target with pipes, a slice begins at a multiple of 32 bytes, and rows that are written end at one."""
    if not profile.pipes:
        return
    for name, tile in tiles(call).items():
        if tile.skew is None:
            continue
        along = "columns" if tile.blayout is BLayout.RowMajor else "rows"
        fix = f"slice at multiples of {tile.dtype.c0} {along}, and set .valid of the slice for fewer"
        length = (tile.cols if along == "columns" else tile.rows) * tile.dtype.size
        if length % BLOCK and name in written(call):
            expected = f"a slice of a multiple of {BLOCK} bytes along its {along}, as it is written in blocks"
            yield _finding("SL-02", None, name, _subject(call), expected, f"{length} bytes", fix)
        if not (isinstance(tile.skew, int) and tile.skew == UNKNOWN) and tile.skew != 0:
            expected = f"a slice that begins at a multiple of {BLOCK} bytes"
            found = f"a start {tile.skew} bytes after one"
            yield _finding("SL-02", None, name, _subject(call), expected, found, fix)


SIDE_BY_SIDE = {("tgather", "src"), ("tscatter", "dst")}
"""Operands whose elements are counted through the storage."""
INDEXED = ("mgather", "mscatter")


def gapless_slices(call: Call, profile: Profile, options: Options) -> Iterable[Finding]:
    """A slice with gaps between its rows is no operand that is taken as one run of elements."""
    for name, tile in tiles(call).items():
        counted = (call.instruction.name, name) in SIDE_BY_SIDE
        column = call.instruction.name in INDEXED and name == "idx" and tile.valid_cols == 1
        if tile.pitch and (counted or column):
            expected, fix = "a tile, or a slice of whole rows", "copy the slice into a tile of its own first: pto.tmov"
            yield _finding("SL-04", None, name, _subject(call), expected, str(tile), fix)


def apart_slices(call: Call, profile: Profile, options: Options) -> Iterable[Finding]:
    """What is written overlaps no other operand in part."""
    for name, other in sorted(call.clashes):
        placed = all(spec.addr is not None for spec in (tiles(call)[name], tiles(call)[other]))
        if {name, other} & written(call) and not placed:
            expected, found = f"apart from {other}, or the same slice", "slices of one tile that overlap"
            fix = "use slices that lie apart, or copy one into a tile of its own first"
            yield _finding("SL-05", "H-38", name, _subject(call), expected, found, fix)


def budget(call: Call, profile: Profile, options: Options) -> Iterable[Finding]:
    """The tiles of one memory fit it, by their sum and by their highest address."""
    used: dict[TileType, int] = {}
    for loc in TileType:
        here = [tile for name, tile in tiles(call).items() if tile.loc is loc and name not in call.repeats]
        placed = {tile for tile in here if tile.addr is not None}
        total = sum(tile.nbytes for tile in (*placed, *(tile for tile in here if tile.addr is None)))
        used[loc] = max([total, *(_range(tile).stop for tile in here)])
    yield from memory_findings(_subject(call), used, profile, options)


def memory_findings(
    subject: str, used: Mapping[TileType, int], profile: Profile, options: Options
) -> Iterable[Finding]:
    """What tiles use of each memory, in bytes, against what there is."""
    for loc, nbytes in used.items():
        memory = profile.memories[loc]
        if memory.size is None or not nbytes:
            continue
        if loc is TileType.Vec:
            yield from _ub_budget(subject, profile, options, nbytes)
        elif nbytes > memory.size:
            expected = f"within {memory.size} bytes of {memory.name}"
            fix = "use smaller tiles"
            yield _finding("A-38", None, f"{loc.text} tiles", subject, expected, f"{nbytes} bytes", fix)


def _ub_budget(subject: str, profile: Profile, options: Options, used: int) -> Iterable[Finding]:
    allowance, ub = profile.budget(dyn_ub=options.dyn_ub), profile.ub
    if allowance is None or ub is None:
        return
    if used > allowance.limit:
        expected = f"within {allowance.limit} bytes of UB"
        fix = "use smaller tiles, fewer of them, or lower addresses"
        yield _finding(ub.over_rule, ub.over_kind, "vec tiles", subject, expected, f"{used} bytes", fix)
    elif options.dyn_ub is None or not ub.has_dynamic:
        return
    elif options.dyn_ub > allowance.max_dynamic:
        expected = f"launched with dyn_ub of at most {allowance.max_dynamic} bytes"
        yield _finding("MG-BUDG-07", "H-21", "vec tiles", subject, expected, f"dyn_ub={options.dyn_ub}", "ask for less")
    elif used > allowance.available:
        rule, kind = ("MG-BUDG-13", "H-21") if options.dyn_ub else ("MG-BUDG-09", "H-20")
        expected = f"within {allowance.available} bytes of UB under dyn_ub={options.dyn_ub}"
        fix = f"launch with dyn_ub={used} or more"
        yield _finding(rule, kind, "vec tiles", subject, expected, f"{used} bytes", fix)


@dataclass(frozen=True)
class Check:
    """Something that every instruction must satisfy, whatever it does."""

    run: Callable[[Call, Profile, Options], Iterable[Finding]]
    names: tuple[str, ...]
    """The clauses, decisions and hazards that its findings carry."""
    firm: bool
    """Memory is at stake: `header=True` cannot drop it."""


CHECKS = (
    Check(valid_extents, ("CO-SHAPE-02",), firm=True),
    Check(distinct_cells, ("CO-SEM-01",), firm=True),
    Check(overlaps, ("A-38", "H-38"), firm=False),
    Check(aligned_slices, ("SL-02",), firm=False),
    Check(gapless_slices, ("SL-04",), firm=True),
    Check(apart_slices, ("SL-05", "H-38"), firm=False),
    Check(budget, ("A-38", "MG-BUDG-02", "MG-BUDG-07", "MG-BUDG-09", "MG-BUDG-13", "H-20", "H-21", "H-22"), firm=False),
)


def check_rules(rules: Iterable[Rule], call: Call, *, header: bool) -> list[Finding]:
    """Every rule that does not hold, up to the first gate that is shut."""
    findings: list[Finding] = []
    for rule in rules:
        finding = rule.check(call, header=header)
        if finding:
            findings.append(finding)
            if rule.gate and finding.level == "error":
                break
    return findings


def verify_call(call: Call, profile: Profile, options: Options | None = None, *, alone: bool = True) -> list[Finding]:
    """All findings on one call: the instruction's rules, then memory and addresses.

    A call that does not stand alone, but in a program, shares its memories with others; they are judged together.
    """
    options = options or Options()
    findings = check_rules(call.instruction.rules, call, header=options.header)
    for check in CHECKS if alone else [check for check in CHECKS if check.run is not budget]:
        level: Level = "hazard" if options.header and not check.firm else "error"
        findings += [replace(finding, level=level) for finding in check.run(call, profile, options)]
    return judged(findings, options)


def judged(findings: Iterable[Finding], options: Options) -> list[Finding]:
    """The findings at the levels that the options ask for."""
    return [replace(f, level="error") if options.strict and f.level == "hazard" else f for f in findings]


def verify_address(spec: OperandSpec, target: str) -> list[Finding]:
    """What is wrong with an operand's address, by the rules of `tassign`."""
    return check_rules(TASSIGN.rules, Call(TASSIGN, {"tile": spec}, {}, target), header=False)
