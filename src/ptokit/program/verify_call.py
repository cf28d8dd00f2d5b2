"""Runs an instruction's rules over a call, with the rules that every instruction shares."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations, takewhile

from ptokit import spec as clauses
from ptokit.finding import OPAQUE, Finding, Fix, Level, Wording
from ptokit.isa.fixes import COPY_SLICE, PAD_TILE, SHRINK
from ptokit.isa.headers import as_row, becomes_row, whole_boxes
from ptokit.isa.instruction import Call, Rule, is_tile
from ptokit.isa.opaque import EXACT
from ptokit.isa.operand import BLOCK, OperandSpec, TensorSpec, TileSpec, meet
from ptokit.isa.policy import BLayout, TileType
from ptokit.isa.spelling import TMP, Workspace
from ptokit.isa.tassign import TASSIGN
from ptokit.isa.unknown import certain
from ptokit.program.budget import Use, memory_findings, starts_threads
from ptokit.target import Profile


@dataclass(frozen=True)
class Options:
    """How strict verification is, and what the launch asks for."""

    header: bool = False
    """Only what the target's real headers assert, and memory safety, are errors; the rest becomes hazards."""
    lenient: bool = False
    """Alignment is no error either: what the machine executes."""
    strict: bool = False
    """Hazards are errors."""
    dyn_ub: int | None = None
    """dynUBufSize of the launch in bytes; None if the launch is not known."""
    bound: bool = False
    """Every tile is bound to an address, as in C++: none is a compile-time allocation (MG-BUDG-08)."""


def tiles(call: Call) -> dict[str, TileSpec]:
    """The call's tile operands by name."""
    return {name: spec for name, spec in call.operands.items() if isinstance(spec, TileSpec)}


def written(call: Call) -> set[str]:
    """Names of the operands that the call writes."""
    found = {param.name for param in call.instruction.operands if param.access != "read"}
    return found | ({TMP} if call.uses_workspace else set())


def _range(tile: TileSpec) -> range:
    return range(tile.addr or 0, (tile.addr or 0) + tile.nbytes)


def show_addresses(addresses: range) -> str:
    """`0x100..0x200`, for messages."""
    return f"{addresses.start:#x}..{addresses.stop:#x}"


def _subject(call: Call) -> str:
    return f"{call.instruction.name} on {call.target}"


def _finding(call: Call, rule: str, kind: str | None, operand: str, expected: str, found: str, fix: str) -> Finding:
    message = f"{_subject(call)}: {operand} must be {expected}; found {found}"
    return Finding("error", rule, message, kind, operand, expected, found, fix, target=call.target)


def valid_extents(call: Call, _profile: Profile, _options: Options) -> Iterable[Finding]:
    """A valid region lies inside its tile."""
    for name, tile in tiles(call).items():
        if certain(lambda tile=tile: tile.valid_rows > tile.rows or tile.valid_cols > tile.cols):
            expected = f"valid within {tile.rows}x{tile.cols}"
            yield _finding(call, "CO-SHAPE-02", None, name, expected, str(tile), SHRINK)


def distinct_cells(call: Call, _profile: Profile, _options: Options) -> Iterable[Finding]:
    """A tensor that is written has no two elements at one address."""
    for name in written(call):
        tensor = call.operands[name]
        if isinstance(tensor, TensorSpec) and certain(lambda tensor=tensor: tensor.overlaps_itself):
            found = f"{tensor} with Stride<{', '.join(map(str, tensor.stride))}>"
            expected, fix = "a tensor whose elements lie apart", "copy the array first"
            yield _finding(call, "CO-SEM-01", None, name, expected, found, fix)


def overlaps(call: Call, _profile: Profile, _options: Options) -> Iterable[Finding]:
    """What is written shares no bytes with another tile at a given address, unless both are one buffer in place.

    Tiles of one type that are only read may share bytes: this call destroys none of them. Of two types, at least one
    has the wrong content. A workspace that the target ignores may lie anywhere.
    """
    in_place, targets = call.is_in_place, written(call)
    placed = [(name, tile) for name, tile in tiles(call).items() if tile.addr is not None]
    for (name, tile), (other, against) in combinations(placed, 2):
        is_ignored = TMP in (name, other) and not call.uses_workspace
        is_written, first, second = bool({name, other} & targets), _range(tile), _range(against)
        may_be_one = (in_place and other != TMP) or not is_written
        if call.instruction.destination.is_staged and TMP not in (name, other):
            continue
        if (tile.loc, tile.space) != (against.loc, against.space) or (_buffer(tile) == _buffer(against) and may_be_one):
            continue
        of_one_tile = not call.clashes.isdisjoint(((name, other), (other, name)))  # SL-05 reports these
        if of_one_tile or (not is_written and (tile.is_slice or against.is_slice)):
            continue
        if certain(partial(meet, tile, first.start, against, second.start)):
            found = f"{show_addresses(first)}, over {other} at {show_addresses(second)}"
            expected, fix = f"apart from {other}", "move one of the tiles"
            finding = _finding(call, "A-38", "H-38", name, expected, found, fix)
            finding = replace(finding, tiles=frozenset((name, other)))
            by_effects = bool(call.instruction.opaque_form) and tile.addr == against.addr  # it may work in place
            is_note = is_ignored or by_effects or (not is_written and tile.dtype is against.dtype)
            message = f"{_subject(call)}: {name} is at {found}"
            yield replace(finding, level="note", message=message) if is_note else finding
    yield from _repeated(call)


def _buffer(tile: TileSpec) -> tuple[object, ...]:
    """What is equal for tiles that are one buffer (A-38)."""
    return tile.loc, tile.space, tile.addr, tile.nbytes, tile.pitch, tile.dtype


def _repeated(call: Call) -> Iterable[Finding]:
    """A tile without an address is not a source of the call that writes it, unless the call works in place.

    Moves that take effect lane by lane, in a known order, report that when they run (`shared`).
    """
    is_allowed = call.is_in_place or "shared" in call.instruction.reports.faults
    given = {name: tile for name, tile in tiles(call).items() if name != TMP or call.uses_workspace}
    for name in (name for name in given if name in call.repeats and given[name].addr is None):
        if is_allowed and name != TMP:
            continue
        earlier = [other for other in takewhile(name.__ne__, given) if _storage(given[other]) == _storage(given[name])]
        if name == TMP or set(earlier) <= written(call):
            shown = ", ".join(earlier) or "another operand"
            expected, fix = f"another tile than {shown}", "give the result a tile of its own"
            yield _finding(call, "A-38", "H-38", name, expected, f"the same tile as {shown}", fix)


def _storage(tile: TileSpec) -> TileSpec:
    """The tile without what differs between its uses."""
    return replace(tile, valid_rows=tile.rows, valid_cols=tile.cols, dynamic=(False, False))


def aligned_slices(call: Call, profile: Profile, _options: Options) -> Iterable[Finding]:
    """On a target with pipes, a slice starts at a multiple of 32 bytes, and rows that are written end at one. The
    scalar unit takes any element."""
    if not profile.pipes or call.instruction.name in EXACT:
        return
    for name, tile in tiles(call).items():
        if tile.skew is None:
            continue
        along = "columns" if tile.blayout is BLayout.RowMajor else "rows"
        fix = Fix(
            f"slice at multiples of {tile.dtype.c0} {along}, and ",
            Wording("set .valid of the slice for fewer", "set_validshape for fewer", "give fewer valid extents"),
        )
        length = (tile.cols if along == "columns" else tile.rows) * tile.dtype.size
        if length % BLOCK and name in written(call):
            expected = f"a slice of a multiple of {BLOCK} bytes along its {along}, as it is written in blocks"
            yield _finding(call, "SL-02", None, name, expected, f"{length} bytes", fix)
        if certain(lambda tile=tile: tile.skew != 0):
            expected = f"a slice that begins at a multiple of {BLOCK} bytes"
            found = f"a start {tile.skew} bytes after one"
            yield _finding(call, "SL-02", None, name, expected, found, fix)


def gapless_slices(call: Call, _profile: Profile, _options: Options) -> Iterable[Finding]:
    """A slice with gaps between its rows is not an operand that must be contiguous."""
    contiguous = {param.name: param.contiguous for param in call.instruction.operands}
    for name, tile in tiles(call).items():
        kind = contiguous.get(name)
        column = kind == "column" and certain(lambda tile=tile: tile.valid_cols == 1)
        if tile.pitch and (kind == "always" or column):
            expected = "a tile, or a slice of whole rows"
            yield _finding(call, "SL-04", None, name, expected, str(tile), COPY_SLICE)


def apart_slices(call: Call, _profile: Profile, _options: Options) -> Iterable[Finding]:
    """What is written does not partly overlap another operand."""
    for name, other in sorted(call.clashes):
        if {name, other} & written(call):
            expected, found = f"apart from {other}, or the same slice", "slices of one tile that overlap"
            fix = "use slices that lie apart, or copy one into a tile of its own first"
            yield _finding(call, "SL-05", "H-38", name, expected, found, fix)


def workspaces(call: Call, _profile: Profile, _options: Options) -> Iterable[Finding]:
    """A workspace is a Vec tile of sufficient size."""
    tmp = call.operands.get(TMP)
    if tmp is None:
        return
    rule = "CP-TMP-01"
    if not is_tile(tmp, TileType.Vec):
        fix = Fix("compute in a Vec tile, or leave ", Wording("tmp=", "tmp", "tmp"), " out")
        yield _finding(call, rule, None, TMP, "a Vec tile", str(tmp), fix)
    elif isinstance(tmp, TileSpec) and certain(lambda: _touched(call) > tmp.nbytes):
        found, fix = f"{tmp.nbytes} bytes", "give tmp all bytes that they write: what lies behind it is lost"
        yield _finding(call, rule, None, TMP, f"of the {_touched(call)} bytes that the headers write", found, fix)
    elif isinstance(tmp, TileSpec) and (needed := _needed(call)) > tmp.nbytes:
        message = f"{_subject(call)}: headers compute in up to {needed} bytes of tmp; found {tmp.nbytes}"
        yield Finding("note", rule, message, None, TMP, f"at least {needed} bytes", str(tmp), target=call.target)


def _needed(call: Call) -> int:
    """Bytes of the workspace that the kernel of a call needs; 0 if it ignores the workspace."""
    workspace = _used(call)
    needed = workspace.needed(call) if workspace else None
    return needed.nbytes if needed is not None else 0


def _touched(call: Call) -> int:
    """Bytes of the workspace that the kernel of a call certainly writes."""
    workspace = _used(call)
    return workspace.touched(call) if workspace else 0


def _used(call: Call) -> Workspace | None:
    """The workspace of an instruction, if this call uses it."""
    tiles_of = (param.name for param in call.instruction.operands if param.kind == "tile")
    is_used = call.uses_workspace and all(is_tile(call.operands[name]) for name in tiles_of)
    return call.instruction.workspace if is_used else None


def budget(call: Call, profile: Profile, options: Options) -> Iterable[Finding]:
    """The tiles of each memory fit it, by their sum and by their highest address."""
    used: dict[TileType, Use] = {}
    for loc in TileType:
        here = [tile for name, tile in tiles(call).items() if tile.loc is loc and name not in call.repeats]
        placed = {tile for tile in here if tile.addr is not None}
        static = sum(tile.nbytes for tile in here if tile.addr is None)
        total = static + sum(tile.nbytes for tile in placed)
        used[loc] = Use(max([total, *(_range(tile).stop for tile in placed)]), static)
    simt = starts_threads(call)
    yield from memory_findings(_subject(call), used, profile, options.dyn_ub, simt=simt)


@dataclass(frozen=True)
class CallCheck:
    """A condition that every instruction must satisfy."""

    run: Callable[[Call, Profile, Options], Iterable[Finding]]
    names: tuple[str, ...]
    """The clauses, decisions and hazards that its findings carry."""
    blocks: bool = False
    """Whether memory safety depends on it: a violation blocks execution, also with `header=True`."""


CHECKS = (
    CallCheck(valid_extents, ("CO-SHAPE-02",), blocks=True),
    CallCheck(distinct_cells, ("CO-SEM-01",), blocks=True),
    CallCheck(overlaps, ("A-38", "H-38")),
    CallCheck(aligned_slices, ("SL-02",)),
    CallCheck(gapless_slices, ("SL-04",), blocks=True),
    CallCheck(apart_slices, ("SL-05", "H-38")),
    CallCheck(workspaces, ("CP-TMP-01",)),
    CallCheck(
        budget,
        ("A-38", "MG-BUDG-02", "MG-BUDG-06", "MG-BUDG-07", "MG-BUDG-09", "MG-BUDG-13", "H-20", "H-21", "H-22"),
    ),
)


def check_rules(
    rules: Iterable[Rule], call: Call, *, header: bool, lenient: bool = False, at_level: Level | None = None
) -> list[Finding]:
    """The findings of violated rules, up to the first that later rules depend on."""
    findings: list[Finding] = []
    for rule in rules:
        finding = rule.check(call, header=header, lenient=lenient, at_level=at_level)
        if finding:
            findings.append(finding)
            if rule.blocks in ("later rules", "route") and finding.level == "error":
                break
    return findings


def header_findings(call: Call, at_level: Level | None = None, *, types: bool = True) -> Iterator[Finding]:
    """What the vendor's C++ headers refuse of a call, or compute differently; `types`: of its tiles, too."""
    cpp = call.instruction.cpp
    yield from check_rules(cpp.headers, call.in_headers, header=False, at_level=at_level)
    if call.has_slices:
        yield from check_rules(cpp.slices, call, header=False, at_level=at_level)
    if types:
        yield from _tile_types(call.in_headers, at_level or "hazard")


def dynamic_operands(call: Call) -> frozenset[str]:
    """The operands whose C++ types must leave the valid extents to run time."""
    return frozenset(each.operand for each in check_rules(call.instruction.cpp.dynamic, call.in_headers, header=False))


def written_findings(call: Call) -> list[Finding]:
    """What the headers do otherwise with C++ as it is written, and not with what ptokit emits."""
    cpp = call.instruction.cpp
    found = check_rules((*cpp.written, *cpp.dynamic), call.in_headers, header=False)
    spelled = next(iter(call.instruction.spellings.get("C++", ())), "")
    name = call.instruction.name.upper()
    if call.has_pipes and spelled.startswith(f"{name}(") and TMP in spelled and call.operands.get(TMP) is None:
        message, fix = f"{_subject(call)}: the C++ headers have no {name} without tmp", f"write {spelled}"
        found.append(Finding("error", "CP-HDR-01", message, None, TMP, "a Vec tile", "none", fix, target=call.target))
    return found


def _tile_types(call: Call, level: Level) -> Iterator[Finding]:
    """Tile types that the headers assert against."""
    for name, spec in tiles(call).items():
        problem = whole_boxes(as_row(spec) if becomes_row(call, name) else spec)
        if problem is not None:
            expected, found = f"{problem[0]} for the C++ tile type", problem[1]
            rule = clauses.first(("CO-ALIGN-01", "CP-HDR-01"), call.target)
            yield replace(_finding(call, rule, None, name, expected, found, PAD_TILE), level=level)


def unmodelled(call: Call) -> Finding:
    """The finding on an instruction that is known by its effects only."""
    written = [param.name for param in call.instruction.operands if param.access != "read"]
    effect = f"; it leaves unspecified values in {', '.join(written)}" if written else ""
    message = f"{_subject(call)}: ptokit does not model this{effect}"
    operand = written[0] if written else ""
    return Finding("unmodelled", OPAQUE, message, None, operand, target=call.target)


def verify_call(
    call: Call, profile: Profile, options: Options | None = None, *, alone: bool = True, types: bool = False
) -> list[Finding]:
    """All findings on one call: the instruction's rules, then memory and addresses.

    A call that is not `alone` is part of a program, whose memory budget is checked as a whole; `types`: its tiles must
    have types in C++, on targets with cores (elsewhere they have any width, A-23).
    """
    options = options or Options()
    findings = check_rules(call.instruction.rules, call, header=options.header, lenient=options.lenient)
    if all(finding.level != "error" for finding in findings):
        found = header_findings(call, types=types and bool(profile.cores))
        if alone and not profile.cores:  # there is no C++ of one call, and `cpu` computes more than the simulator
            found = (finding for finding in found if finding.level == "note")
        findings += judged(found, replace(options, strict=options.strict or options.header))
    if call.instruction.opaque_form:
        findings.append(unmodelled(call))
    for check in CHECKS if alone else [check for check in CHECKS if check.run is not budget]:
        level: Level = "hazard" if options.header and not check.blocks else "error"
        for finding in check.run(call, profile, options):
            is_error = finding.level == "error"
            findings.append(replace(finding, level=level, blocks=check.blocks) if is_error else finding)
    return judged(findings, options)


def judged(findings: Iterable[Finding], options: Options) -> list[Finding]:
    """The findings at the levels that the options ask for."""
    return [replace(f, level="error") if options.strict and f.level == "hazard" else f for f in findings]


def verify_address(spec: OperandSpec, target: str) -> list[Finding]:
    """Findings on an operand's address, by the rules of `tassign`."""
    return check_rules(TASSIGN.rules, Call(TASSIGN, {"tile": spec}, (), target), header=False)
