"""Preparation for C++: checks that the target and its headers accept the program, and what the launch needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from ptokit.finding import Finding, VerifyError
from ptokit.isa.policy import TileType
from ptokit.program.budget import Use, has_simt, memory_findings
from ptokit.program.calls import call_of
from ptokit.program.ir import Program, instructions
from ptokit.program.order import order, order_events
from ptokit.program.place import BLOCK, footprint, place
from ptokit.program.verify import verify
from ptokit.program.verify_call import Options, header_findings
from ptokit.target import Profile
from ptokit.text.cpp.barriers import with_barriers
from ptokit.text.cpp.headers import crossing_findings, program_findings, value_findings
from ptokit.text.cpp.scatter import flatten
from ptokit.text.cpp.types import header_call


@dataclass(frozen=True)
class Ready:
    """A program with addresses and flags that the headers accept, and what its launch needs."""

    program: Program
    workspace: int
    """The address in UB of the workspace that instructions without one use."""
    dyn_ub: int


def prepare(program: Program, profile: Profile, options: Options, dyn_ub: int | None) -> Ready:
    """Verify a program for a target and its headers; an auto program gets addresses and flags.

    In C++ every tile is bound to an address, so nothing is allocated at compile time (MG-BUDG-08).
    """
    tiles, simt = _end_of_tiles(program, profile, dyn_ub), has_simt(program, profile)
    asked = _dynamic(profile, tiles) if dyn_ub is None else dyn_ub
    _raise_errors(verify(program, profile, replace(options, dyn_ub=asked, bound=True)))
    _raise_errors([*_header_findings(program, profile), *value_findings(program, profile)])
    placed = flatten(place(program, profile, dyn_ub, bound=True).program, profile, tiles)
    workspace = _end_of_tiles(placed, profile, dyn_ub)
    used = workspace + _workspace_size(placed, profile)
    asked = _dynamic(profile, used) if dyn_ub is None else dyn_ub
    title = program.name if used == tiles else f"{program.name} with the workspaces of its instructions"
    _raise_errors([
        *memory_findings(title, {TileType.Vec: Use(used)}, profile, asked, simt=simt),
        *program_findings(placed, profile, used, has_workspace=used > tiles),
    ])  # fmt: skip
    flagged = order_events(with_barriers(order(placed, profile), profile, workspace), profile)
    _raise_errors(crossing_findings(flagged, profile))
    return Ready(flagged, workspace, asked)


def _end_of_tiles(program: Program, profile: Profile, dyn_ub: int | None) -> int:
    """The first free address of UB behind the tiles."""
    return -(-footprint(program, profile, dyn_ub, bound=True).get(TileType.Vec, Use(0)).end // BLOCK) * BLOCK


def _raise_errors(findings: Iterable[Finding]) -> None:
    if errors := [finding for finding in dict.fromkeys(findings) if finding.level == "error"]:
        raise VerifyError(errors)


def _workspace_size(program: Program, profile: Profile) -> int:
    """Bytes of the largest workspace; vector instructions run one after the other and share it."""
    needing = (instr for instr in instructions(program.body) if instr.workspace is None)
    found = (header_call(program, instr, profile).workspace for instr in needing)
    return max((scratch.nbytes for scratch in found if scratch), default=0)


def _dynamic(profile: Profile, used: int) -> int:
    """The dynamic UB that a launch requests: none while that is safe."""
    ub = profile.ub
    return used if ub and ub.has_dynamic and used > (ub.safe or 0) else 0


def _header_findings(program: Program, profile: Profile) -> Iterator[Finding]:
    for instr in instructions(program.body):
        for finding in header_findings(call_of(program, instr, profile), "error"):
            yield finding.at(instr.where)
