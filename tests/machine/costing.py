"""Instructions as the cost model sees them: prepared, with index values, but not run."""

from __future__ import annotations

from typing import Any

import numpy as np

from ptokit.engine.prepared import Prepared
from ptokit.engine.storage import Storage
from ptokit.finding import Where
from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.isa.dtype import dtype
from ptokit.isa.layout import packed
from ptokit.isa.operand import OperandSpec, TensorSpec, TileSpec
from ptokit.isa.policy import BLayout, GlobalLayout, SLayout, TileType
from ptokit.machine.costs import Costs
from ptokit.machine.executed import Executed
from ptokit.program.ir import Instr
from ptokit.program.steps import Touch, steps
from ptokit.program.verify_call import Options
from ptokit.target import Profile

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
    definition = INSTRUCTIONS[name]
    modifiers = [chosen.pop(modifier.name, None) for modifier in definition.modifiers]
    assert not chosen, chosen
    prepared = Prepared(definition, profile, Options(), specs, modifiers)
    assert prepared.plan is not None and prepared.call is not None, prepared.refused
    storages = [Storage(np.zeros(_elements(spec), spec.dtype.bits), spec.dtype) for spec in specs]
    if indices is not None:
        slot = prepared.names.index("idx")
        flat = np.asarray(indices, np.int64).ravel()
        storages[slot].bits[: flat.size] = flat.astype(np.int32).view(np.uint32)
    lanes, _ = prepared.plan.resolve(storages)
    return Executed(
        number=number,
        instr=Instr(name, (), where=Where("kernel.py", line)),
        call=prepared.call,
        core="AIV" if all(spec.loc is TileType.Vec for spec in specs if isinstance(spec, TileSpec)) else "AIC",
        steps=steps(prepared.call, profile),
        plan=prepared.plan,
        storages=storages,
        lanes=lanes,
        indices=[None] * len(lanes),
        block=0,
    )


def _elements(spec: OperandSpec) -> int:
    return spec.span if isinstance(spec, TensorSpec) else spec.elements


def cycles(what: Executed, profile: Profile, **overrides: float) -> dict[str, float]:
    """The cycles of each pipe."""
    costs = Costs(profile, {name.replace("_", " "): number for name, number in overrides.items()})
    return {step.pipe: costs.cycles(what, step) for step in what.steps if isinstance(step, Touch)}


def coefficient(what: Executed, profile: Profile, pipe: str, name: str) -> float:
    """How often a cost counts: cycles with it as 1 and every other cost that may be as 0."""
    nothing = {other: 0.0 for other in profile.costs if other.endswith("cycles")}
    step = next(step for step in what.steps if isinstance(step, Touch) and step.pipe == pipe)
    at = [Costs(profile, {**nothing, name: number}).cycles(what, step) for number in (0.0, 1.0)]
    return round(at[1] - at[0], 9)
