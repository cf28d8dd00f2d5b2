"""Instructions as the cost model sees them."""

from __future__ import annotations

from typing import Any

from ptokit.finding import Where
from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.isa.dtype import dtype
from ptokit.isa.layout import packed
from ptokit.isa.operand import OperandSpec, TensorSpec, TileSpec
from ptokit.isa.policy import BLayout, GlobalLayout, SLayout, TileType
from ptokit.machine.costs import Costs
from ptokit.machine.formulas import Overlap, Part, TimedWorks
from ptokit.machine.site import Executed
from ptokit.machine.ways import TrafficMeter
from ptokit.program.cores import unit_of
from ptokit.target import Profile
from tests.machine.executing import execute

Indices = Any


def vec(rows: int, cols: int, kind: str = "float32", valid: tuple[int, int] | None = None) -> TileSpec:
    """A plain tile in UB."""
    return TileSpec(dtype(kind), TileType.Vec, rows, cols, *(valid or (rows, cols)))


def fractal(loc: TileType, rows: int, cols: int, kind: str = "float32") -> TileSpec:
    """A tile in NZ form."""
    return TileSpec(dtype(kind), loc, rows, cols, rows, cols, BLayout.ColMajor, SLayout.RowMajor)


def tensor(*shape: int, kind: str = "float32", layout: str = "nd", stride: tuple[int, ...] = ()) -> TensorSpec:
    """A packed tensor in memory, unless it has strides."""
    whole = (1,) * (5 - len(shape)) + shape
    return TensorSpec(dtype(kind), whole, stride or packed(whole), GlobalLayout.parse(layout))  # type: ignore[arg-type]


def executed(
    profile: Profile,
    name: str,
    *specs: OperandSpec,
    indices: Indices = None,
    number: int = 0,
    line: int = 1,
    **chosen: str,
) -> Executed:
    """An instruction over operands of these descriptions, with index values where it has an index."""
    names = [operand.name for operand in INSTRUCTIONS[name].operands]
    given = dict(zip(names, specs, strict=False))
    return execute(name, profile.name, given, indices, number=number, where=Where("kernel.py", line), **chosen)


def parts(what: Executed, profile: Profile, **overrides: float) -> dict[str, Part]:
    """What each pipe does."""
    costs = Costs(profile, {name.replace("_", " "): number for name, number in overrides.items()})
    TrafficMeter(costs.grains).observe(what)
    return {unit_of(step.pipe): step for step in TimedWorks().of(what).parts(costs) if isinstance(step, Part)}


def cycles(what: Executed, profile: Profile, **overrides: float) -> dict[str, float]:
    """The cycles of each pipe until its part has ended."""
    return {pipe: part.cycles + part.latency for pipe, part in parts(what, profile, **overrides).items()}


def overlaps(what: Executed, profile: Profile) -> dict[str, Overlap]:
    """How far each pipe goes along with the one before."""
    return {pipe: part.overlap for pipe, part in parts(what, profile).items()}


def coefficient(what: Executed, profile: Profile, pipe: str, name: str) -> float:
    """How often a cost counts: cycles with it as 1 and every other cost that may be as 0."""
    nothing = {other: 0.0 for other in profile.costs if other.endswith("cycles")}
    at = [cycles(what, profile, **{**nothing, name: number})[pipe] for number in (0.0, 1.0)]
    return round(at[1] - at[0], 9)
