"""What the headers of August 2026 reject in a whole program, beyond the rules of its instructions."""

from __future__ import annotations

from collections.abc import Iterator

from ptokit import spec as clauses
from ptokit.finding import Finding
from ptokit.isa.operand import TileSpec
from ptokit.isa.policy import SLayout, TileType
from ptokit.program.bounds import reaches
from ptokit.program.budget import uses_hidden
from ptokit.program.cores import is_crossing
from ptokit.program.ir import Assign, Flag, Program, TileDecl, TileUse, instructions, walk
from ptokit.target import Core, Profile


def tile_findings(name: str, spec: TileSpec, target: str) -> Iterator[Finding]:
    """A tile type that the headers assert against: its storage is not a whole number of blocks."""
    if spec.slayout is SLayout.NoneBox:
        found, whole = f"{spec.burst_bytes} bytes", spec.burst_bytes % 32 == 0
        expected = "of rows (or columns, if it is ColMajor) that are a multiple of 32 bytes"
    else:
        rows, cols = spec.box
        free_rows = spec.loc is TileType.Vec or spec.rows == 1
        found, whole = f"{spec.rows} x {spec.cols}", spec.cols % cols == 0 and (free_rows or spec.rows % rows == 0)
        expected = f"of whole boxes of {rows} x {cols}"
    if not whole:
        message = f"{name} must be {expected} for the C++ tile type; found {found}"
        rule, fix = clauses.first(("CO-ALIGN-01", "CP-HDR-01"), target), "pad the tile and give valid="
        yield Finding("error", rule, message, None, name, expected, found, fix, target=target)


def cores(program: Program, profile: Profile) -> dict[Core, str]:
    """The cores whose tiles a program uses, and a tile of each; empty if the target has no cores."""
    used = (use for instr in instructions(program.body) for use in instr.operands if isinstance(use, TileUse))
    return {profile.core_of([program.tiles[use.tile].spec.loc]): use.tile for use in used} if profile.cores else {}


def crossing_findings(program: Program, profile: Profile) -> Iterator[Finding]:
    """Flags between pipes of two cores, which the hardware does not have."""
    for stmt in walk(program.body):
        if isinstance(stmt, Flag) and is_crossing(stmt) and profile.cores:
            message = f"{program.name}: there is no flag from {stmt.src} to {stmt.dst}: they belong to two cores"
            fix = f'pto.sync_set("{stmt.src}", id), pto.sync_wait("{stmt.dst}", id)'
            yield Finding(
                "error", "KN-16", message, None, "flag", "pipes of one core", fix=fix, where=stmt.where,
                target=profile.name,
            )  # fmt: skip


def program_findings(program: Program, profile: Profile, used: int, *, has_workspace: bool) -> Iterator[Finding]:
    """Tiles in the UB that the headers use themselves."""
    if has_workspace:
        yield from _unknown_addresses(program)
    end = profile.headers.hidden if profile.headers else None
    if end is None or used <= end:
        return
    for instr in instructions(program.body):
        if uses_hidden(instr):
            message = f"{instr.name}: the headers use UB from {end:#x} on themselves; the tiles end at {used:#x}"
            expected, fix = f"below {end:#x}", "use smaller tiles"
            yield Finding("error", "A-38", message, "H-38", "", expected, fix=fix, where=instr.where)


def _unknown_addresses(program: Program) -> Iterator[Finding]:
    """A workspace lies behind the tiles, so it must be known where these end."""
    for stmt, reach in reaches(program, None):
        addresses = (
            stmt.addresses if isinstance(stmt, TileDecl) else (stmt.address,) if isinstance(stmt, Assign) else ()
        )
        for address in addresses:
            if not isinstance(address, int) and reach.value(address) is None:
                message = f"{program.name}: a workspace must lie behind the tiles, and one of them lies at {address}"
                fix = "give the tile an address that does not depend on the block or an argument"
                yield Finding("error", "A-38", message, None, "", "a known address", fix=fix, where=stmt.where)
