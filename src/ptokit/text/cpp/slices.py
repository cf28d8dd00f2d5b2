"""What the headers of August 2026 do to slices of tiles, which are tiles of fewer valid elements to them."""

from __future__ import annotations

from collections.abc import Iterator

from ptokit.finding import Finding
from ptokit.isa.operand import TileSpec
from ptokit.isa.policy import ScatterIndex
from ptokit.isa.unknown import certain
from ptokit.program.calls import call_of, has_slices
from ptokit.program.ir import Instr, Program
from ptokit.target import Profile

CLEARS = ("cpu",)
"""Targets whose load clears all of a tile first, also what is not valid and what lies between the rows of a slice."""


def slice_findings(program: Program, instr: Instr, profile: Profile) -> Iterator[Finding]:
    """Slices that the headers would write around, and those that cannot be written at all."""
    if not has_slices(instr):
        return
    call = call_of(program, instr, profile)
    if instr.name == "tload" and profile.family in CLEARS and not _is_whole(call.dst):
        said = "tload: the simulator's load clears whole rows, also what lies beside a slice or is not valid in it"
        fix = "load into a tile of its own, and copy it: pto.tmov"
        yield Finding(
            "error", "TL-03", said, None, "dst", "a tile, or whole rows that are valid", str(call.dst), fix, instr.where
        )
    if instr.name == "tscatter" and call.index is ScatterIndex.Row:
        said = "tscatter: row numbers are converted to offsets for whole tiles only"
        fix = 'copy the slices into tiles of their own first (pto.tmov), or scatter with index="flat"'
        yield Finding("error", "SL-04", said, None, "", "tiles that are no slices", "", fix, instr.where)


def _is_whole(tile: TileSpec) -> bool:
    return not tile.pitch and certain(lambda: tile.valid == (tile.rows, tile.cols))
