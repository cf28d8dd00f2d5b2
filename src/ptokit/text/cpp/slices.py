"""What the headers of August 2026 do to slices of tiles, which are tiles of fewer valid elements to them."""

from __future__ import annotations

from collections.abc import Iterator

from ptokit.finding import Finding
from ptokit.isa.policy import ScatterIndex
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
    is_partial = instr.name == "tload" and (call.dst.pitch or call.dst.valid != (call.dst.rows, call.dst.cols))
    if is_partial and profile.family in CLEARS:
        said = "tload: the simulator's load clears whole rows, also what lies beside a slice or is not valid in it"
        fix = "load into a tile of its own, and copy it: pto.tmov"
        yield Finding(
            "error", "TL-03", said, None, "dst", "a tile, or whole rows that are valid", str(call.dst), fix, instr.where
        )
    if instr.name == "tscatter" and call.index is ScatterIndex.Row:
        said = "tscatter: row numbers are converted to offsets for whole tiles only"
        fix = 'copy the slices into tiles of their own first (pto.tmov), or scatter with index="flat"'
        yield Finding("error", "SL-04", said, None, "", "tiles that are no slices", "", fix, instr.where)
