"""What must be known before C++ is written: that the target and its headers take the program, and what it needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from ptokit.finding import Finding, VerifyError
from ptokit.isa.instruction import Call
from ptokit.isa.policy import TileType
from ptokit.program.addresses import footprint
from ptokit.program.budget import Use, has_simt, memory_findings
from ptokit.program.calls import call_of, has_slices, named_operands
from ptokit.program.expr import difference
from ptokit.program.ir import Instr, Program, TileUse, walk
from ptokit.program.order import order, order_events
from ptokit.program.place import BLOCK, place
from ptokit.program.verify import verify
from ptokit.program.verify_call import Options, check_rules
from ptokit.target import Profile
from ptokit.text.cpp.barriers import with_barriers
from ptokit.text.cpp.headers import hand_over_findings, program_findings, tile_findings
from ptokit.text.cpp.scatter import flatten
from ptokit.text.cpp.types import header_call, lies_down, logical_extents, lying, transfer
from ptokit.text.cpp.values import value_findings


@dataclass(frozen=True)
class Ready:
    """A program with addresses and flags that the headers take, and what its launch needs."""

    program: Program
    workspace: int
    """Where the instructions' own workspace begins in UB."""
    dyn_ub: int


def prepare(program: Program, profile: Profile, options: Options, dyn_ub: int | None) -> Ready:
    """Verify a program for a target and its headers; an auto program gets addresses and flags.

    In C++ every tile is bound to an address, so nothing is allocated at compile time (MG-BUDG-08).
    """
    tiles, simt = _used(program, profile, dyn_ub), has_simt(program, profile)
    asked = _dynamic(profile, tiles) if dyn_ub is None else dyn_ub
    _refuse(verify(program, profile, replace(options, dyn_ub=asked, bound=True)))
    _refuse([*_header_findings(program, profile), *value_findings(program, profile)])
    placed = flatten(place(program, profile, dyn_ub, bound=True).program, profile, tiles)
    workspace = _used(placed, profile, dyn_ub)
    used = workspace + _workspace_size(placed, profile)
    asked = _dynamic(profile, used) if dyn_ub is None else dyn_ub
    title = program.name if used == tiles else f"{program.name} with the workspaces of its instructions"
    _refuse([
        *memory_findings(title, {TileType.Vec: Use(used)}, profile, asked, simt=simt),
        *program_findings(placed, profile, used, has_workspace=used > tiles),
    ])  # fmt: skip
    flagged = order_events(with_barriers(order(placed, profile), profile, workspace), profile)
    _refuse(hand_over_findings(flagged, profile))
    return Ready(flagged, workspace, asked)


def _used(program: Program, profile: Profile, dyn_ub: int | None) -> int:
    """Where UB is free behind the tiles."""
    return -(-footprint(program, profile, dyn_ub, bound=True).get(TileType.Vec, Use(0)).end // BLOCK) * BLOCK


def _refuse(findings: Iterable[Finding]) -> None:
    if errors := [finding for finding in dict.fromkeys(findings) if finding.level == "error"]:
        raise VerifyError(errors)


def instructions(program: Program) -> Iterator[Instr]:
    """All instructions, in the order of the text."""
    return (stmt for stmt in walk(program.body) if isinstance(stmt, Instr))


def _workspace_size(program: Program, profile: Profile) -> int:
    """Bytes of the largest workspace; vector instructions come one after the other, so one place serves them all."""
    asking = (instr for instr in instructions(program) if instr.workspace is None)
    found = (header_call(program, instr, profile).workspace for instr in asking)
    return max((scratch.nbytes for scratch in found if scratch), default=0)


def _dynamic(profile: Profile, used: int) -> int:
    """What a launch asks for: nothing while that is safe."""
    ub = profile.ub
    return used if ub and ub.has_dynamic and used > (ub.safe or 0) else 0


def _header_findings(program: Program, profile: Profile) -> Iterator[Finding]:
    for instr in instructions(program):
        call = header_call(program, instr, profile)
        cpp = call.instruction.cpp
        found = check_rules(cpp.headers, call, header=False)
        if has_slices(instr):
            found = [*found, *check_rules(cpp.slices, call_of(program, instr, profile), header=False)]
        yield from (finding.at(instr.where) for finding in found)
        for name, operand in named_operands(instr).items():
            if isinstance(operand, TileUse):
                spec = call.values[name]
                shown = lying(spec) if lies_down(call, name) else spec
                for finding in tile_findings(operand.tile, shown, profile.name):
                    yield finding.at(instr.where)
        if cpp.block:
            yield from _transfer_findings(program, instr, call)


def _transfer_findings(program: Program, instr: Instr, call: Call) -> Iterator[Finding]:
    """A block that cannot be cut to the tile's valid region has its extents already."""
    tensor, valid = transfer(program, instr, call)
    name = tensor.argument.name
    for found, wanted in zip(logical_extents(tensor), valid, strict=True):
        if set(difference(found, wanted)) == {1}:
            said = f"{instr.name}: the block of {name} must be as large as the tile's valid region"
            fix, rule = "slice the block to the tile's valid extents", call.instruction.cpp.block
            yield Finding("error", rule, said, None, name, str(wanted), str(found), fix, instr.where)
