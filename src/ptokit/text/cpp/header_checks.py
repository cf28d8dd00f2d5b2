"""What the headers of August 2026 reject in a whole program, and where they compute other values than it defines."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ptokit.finding import Finding
from ptokit.isa.policy import Pad
from ptokit.program import ir
from ptokit.program.bounds import reaches
from ptokit.program.budget import uses_hidden
from ptokit.program.cores import is_crossing
from ptokit.program.expr import apply
from ptokit.program.instr_calls import access_of, call_of, named_operands
from ptokit.target import Core, Profile


def cores(program: ir.Program, profile: Profile) -> dict[Core, str]:
    """The cores whose tiles a program uses, and a tile of each; empty if the target has no cores."""
    used = (use for instr in ir.instructions(program.body) for use in instr.operands if isinstance(use, ir.TileUse))
    return {profile.core_of([program.tiles[use.tile].spec.loc]): use.tile for use in used} if profile.cores else {}


def crossing_findings(program: ir.Program, profile: Profile) -> Iterator[Finding]:
    """Flags between pipes of two cores, which the hardware does not have."""
    for stmt in ir.walk(program.body):
        if isinstance(stmt, ir.Flag) and is_crossing(stmt) and profile.cores:
            message = f"{program.name}: there is no flag from {stmt.src} to {stmt.dst}: they belong to two cores"
            fix = f'pto.sync_set("{stmt.src}", id), pto.sync_wait("{stmt.dst}", id)'
            yield Finding(
                "error", "KN-16", message, None, "flag", "pipes of one core", fix=fix, where=stmt.where,
                target=profile.name,
            )  # fmt: skip


def program_findings(program: ir.Program, profile: Profile, used: int, *, has_workspace: bool) -> Iterator[Finding]:
    """Tiles in the UB that the headers use themselves."""
    if has_workspace:
        yield from _unknown_addresses(program)
    end = profile.headers.hidden if profile.headers else None
    if end is None or used <= end:
        return
    for instr in ir.instructions(program.body):
        if uses_hidden(instr):
            message = f"{instr.name}: the headers use UB from {end:#x} on themselves; the tiles end at {used:#x}"
            expected, fix = f"below {end:#x}", "use smaller tiles"
            yield Finding("error", "A-38", message, "H-38", "", expected, fix=fix, where=instr.where)


def _unknown_addresses(program: ir.Program) -> Iterator[Finding]:
    """A workspace lies behind the tiles, so it must be known where these end."""
    for stmt, reach in reaches(program, None):
        addresses = (
            stmt.addresses if isinstance(stmt, ir.TileDecl) else (stmt.address,) if isinstance(stmt, ir.Assign) else ()
        )
        for address in addresses:
            if not isinstance(address, int) and reach.value(address) is None:
                message = f"{program.name}: a workspace must lie behind the tiles, and one of them lies at {address}"
                fix = "give the tile an address that does not depend on the block or an argument"
                yield Finding("error", "A-38", message, None, "", "a known address", fix=fix, where=stmt.where)


_Region = tuple[int, int]


def value_findings(program: ir.Program, profile: Profile) -> Iterator[Finding]:
    """Infinite numbers that are compared by a difference, and padding that a load has cleared."""
    for instr in ir.instructions(program.body):
        finite = instr.definition.cpp.finite
        if finite and finite(call_of(program, instr, profile)):
            yield from _infinite(instr, profile)
    yield from _Padding(program, profile).findings(program.body, {}, {})


def _infinite(instr: ir.Instr, profile: Profile) -> Iterator[Finding]:
    """If equality is a small difference, two infinities are not equal."""
    for name, number in named_operands(instr).items():
        if isinstance(number, ir.Constant) and number.dtype.is_float and np.isinf(_value(number)):
            message = f"{instr.name} on {profile.name}: the simulator finds no value equal to an infinite one"
            fix = "compare with ge or le and the largest finite number"
            yield Finding("error", "CP-HDR-01", message, None, name, "a finite number", "inf", fix, instr.where)


def _value(number: ir.Constant) -> float:
    return np.array([number.bits], f"u{number.dtype.size}").view(number.dtype.numpy).astype("float64")[0]


class _Padding:
    """Padding that is read after an instruction whose header clears the whole tile."""

    def __init__(self, program: ir.Program, profile: Profile) -> None:
        self.program, self.profile = program, profile

    def findings(self, block: ir.Block, wide: dict[str, _Region], cleared: dict[str, _Region]) -> Iterator[Finding]:
        """`wide` is the region of each tile written before, `cleared` the part of it that a load left."""
        for stmt in block:
            if isinstance(stmt, ir.TileDecl) and stmt.fresh:
                wide.pop(stmt.name, None)
                cleared.pop(stmt.name, None)
            elif isinstance(stmt, ir.Instr):
                yield from self._instruction(stmt, wide, cleared)
            for inner in ir.children(stmt):
                yield from self.findings(inner, dict(wide), dict(cleared))
                for instr in ir.instructions(inner):
                    cleared.pop(_written(instr), None)

    def _instruction(self, instr: ir.Instr, wide: dict[str, _Region], cleared: dict[str, _Region]) -> Iterator[Finding]:
        access = access_of(instr)
        for name, use in named_operands(instr).items():
            if isinstance(use, ir.TileUse) and access[name] != "write" and _exceeds(use, cleared.get(use.tile)):
                message = f"{instr.name}: {name} reads padding of {use.tile}, which the simulator's load has cleared"
                fix = "load into another tile, or give the tile a pad value"
                yield Finding("error", "TL-03", message, None, name, "what the load has written", "", fix, instr.where)
        first = next(iter(instr.operands), None)
        if isinstance(first, ir.TileUse):
            before = wide.get(first.tile, (0, 0))
            clears = instr.definition.cpp.clears.get(self.profile.name)
            is_whole = first.window is None and self.program.tiles[first.tile].spec.pad is Pad.Null
            if clears and is_whole and _exceeds(ir.TileUse(first.tile, before), _known(first)):
                cleared[first.tile] = first.valid  # type: ignore[assignment]
            else:
                cleared.pop(first.tile, None)
            rows, cols = _known(first) or (0, 0)
            wide[first.tile] = max(rows, before[0]), max(cols, before[1])


def _known(use: ir.TileUse) -> _Region | None:
    """The end of a use in rows and columns of the tile, if known."""
    rows, cols = (apply("add", start, extent) for start, extent in zip(use.start, use.valid, strict=True))
    return (rows, cols) if isinstance(rows, int) and isinstance(cols, int) else None


def _exceeds(use: ir.TileUse, limit: _Region | None) -> bool:
    """Whether a use certainly exceeds a region."""
    known = _known(use)
    return known is not None and limit is not None and any(map(int.__gt__, known, limit))


def _written(instr: ir.Instr) -> str:
    first = next(iter(instr.operands), None)
    return first.tile if isinstance(first, ir.TileUse) else ""
