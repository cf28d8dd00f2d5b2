"""Where the vendor's CPU simulator computes otherwise than the instructions say, as far as the program shows it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ptokit.finding import Finding
from ptokit.isa.instruction import Rule, error
from ptokit.isa.policy import CmpMode, Pad
from ptokit.isa.select import bits
from ptokit.program.calls import access_of, call_of, named_operands
from ptokit.program.expr import apply
from ptokit.program.ir import Block, Constant, Instr, Program, TileDecl, TileUse, children, walk
from ptokit.target import Profile

SIMULATORS = ("cpu",)

COMPARES = Rule(
    "CP-HDR-01", "dst", "of rows without padding, a bit for every column of src: the simulator packs whole rows of src",
    lambda c: (c.dst.valid_rows == 1 or c.dst.valid_cols == c.dst.cols) and c.src.cols <= bits(c.dst),
    on=error(*SIMULATORS), fix="make the mask as wide as src, all of it valid",
)  # fmt: skip
SELECTS = Rule(
    "CP-HDR-01", "mask", "of exactly a bit for each valid column of dst: the simulator reads all rows as one run",
    lambda c: c.dst.valid_rows == 1 or bits(c.mask) == c.dst.valid_cols,
    on=error(*SIMULATORS), fix="narrow the mask, or widen the valid region",
)  # fmt: skip

MASKS = Rule(
    "CP-HDR-01", "mask", "of uint8: the simulator reads 8 bits of each element", lambda c: c.mask.dtype.size == 1,
    on=error(*SIMULATORS), found=lambda c: str(c.mask.dtype), fix="use a uint8 mask",
)  # fmt: skip
ROUNDS = Rule(
    "CP-HDR-01", "dst", "of another type than src: the simulator copies floats of one type and rounds none",
    lambda c: c.dst.dtype != c.src.dtype, on=error(*SIMULATORS), found=lambda c: str(c.dst.dtype),
    fix="convert to int32 and back",
)  # fmt: skip

Extents = tuple[int, int]


def simulator_findings(program: Program, profile: Profile) -> Iterator[Finding]:
    """What instructions and their order show; nothing for other targets."""
    if profile.family in SIMULATORS:
        for instr in _instructions(program.body):
            if instr.name == "tcmps":
                yield from _infinite(program, instr, profile)
        yield from _Padding(program).findings(program.body, {}, {})


def _infinite(program: Program, instr: Instr, profile: Profile) -> Iterator[Finding]:
    """Equality is a small difference to the simulator, and two infinities have none."""
    mode, scalar = call_of(program, instr, profile).mode, named_operands(instr)["scalar"]
    if mode not in (CmpMode.EQ, CmpMode.NE) or not isinstance(scalar, Constant) or not scalar.dtype.is_float:
        return
    if np.isinf(np.array([scalar.bits], f"u{scalar.dtype.size}").view(scalar.dtype.numpy).astype("float64")[0]):
        said = f"tcmps on {profile.name}: the simulator finds no value equal to an infinite one"
        fix = "compare with ge or le and the largest finite number"
        yield Finding("error", "CP-HDR-01", said, None, "scalar", "a finite number", "inf", fix, instr.where)


class _Padding:
    """Padding that a load should keep, and that is read afterwards: the simulator's load clears the whole tile."""

    def __init__(self, program: Program) -> None:
        self.program = program

    def findings(self, block: Block, wide: dict[str, Extents], cleared: dict[str, Extents]) -> Iterator[Finding]:
        """`wide` is what was written of each tile before, `cleared` what a load left of that."""
        for stmt in block:
            if isinstance(stmt, TileDecl) and stmt.fresh:
                wide.pop(stmt.name, None)
                cleared.pop(stmt.name, None)
            elif isinstance(stmt, Instr):
                yield from self._instruction(stmt, wide, cleared)
            for inner in children(stmt):
                yield from self.findings(inner, dict(wide), dict(cleared))
                for instr in _instructions(inner):
                    cleared.pop(_written(instr), None)

    def _instruction(self, instr: Instr, wide: dict[str, Extents], cleared: dict[str, Extents]) -> Iterator[Finding]:
        access = access_of(instr.name)
        for name, use in named_operands(instr).items():
            if isinstance(use, TileUse) and access[name] != "write" and _exceeds(use, cleared.get(use.tile)):
                said = f"{instr.name}: {name} reads padding of {use.tile}, which the simulator's load has cleared"
                fix = "load into another tile, or give the tile a pad value"
                yield Finding("error", "TL-03", said, None, name, "what the load has written", "", fix, instr.where)
        first = instr.operands[0]
        if isinstance(first, TileUse):
            before = wide.get(first.tile, (0, 0))
            is_load = (
                instr.name == "tload" and first.window is None and self.program.tiles[first.tile].spec.pad is Pad.Null
            )
            if is_load and _exceeds(TileUse(first.tile, before), _known(first)):
                cleared[first.tile] = first.valid  # type: ignore[assignment]
            else:
                cleared.pop(first.tile, None)
            rows, cols = _known(first) or (0, 0)
            wide[first.tile] = max(rows, before[0]), max(cols, before[1])


def _known(use: TileUse) -> Extents | None:
    """How far a use reaches, from the tile's first row and column on."""
    rows, cols = (apply("add", start, extent) for start, extent in zip(use.start, use.valid, strict=True))
    return (rows, cols) if isinstance(rows, int) and isinstance(cols, int) else None


def _exceeds(use: TileUse, limit: Extents | None) -> bool:
    """Whether a use certainly reaches further than some extents."""
    known = _known(use)
    return known is not None and limit is not None and any(map(int.__gt__, known, limit))


def _written(instr: Instr) -> str:
    first = instr.operands[0]
    return first.tile if isinstance(first, TileUse) else ""


def _instructions(block: Block) -> Iterator[Instr]:
    return (stmt for stmt in walk(block) if isinstance(stmt, Instr))
