"""`pto.sweep`: a kernel on the machine, for each combination of values of parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from math import prod
from typing import Any

from ptokit.finding import OutOfBoundsError, VerifyError, suggestion
from ptokit.lang.faults import public
from ptokit.lang.launcher import Launchable
from ptokit.lang.watch import with_copies
from ptokit.machine import MACHINE
from ptokit.machine.options import MachineOptions
from ptokit.machine.report import MachineReport
from ptokit.progress import task
from ptokit.spec import WITH_PIPES
from ptokit.sweeps.best import SweepPoint
from ptokit.sweeps.result import SweepResult
from ptokit.target import profile

MOST_POINTS = 1000
"""Points of a sweep, targets included."""


class SweepValues(dict[str, Any]):
    """The values of a point: `p["rows"]` or `p.rows`."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"the sweep has no parameter {name}{suggestion(name, self)}") from None


PointLaunch = Callable[[str, SweepValues], MachineReport]
"""Runs the point of a target."""


@public
def sweep(
    kernel: Launchable,
    /,
    *args: Any,
    params: Mapping[str, Sequence[Any]],
    grid: int | Callable[[SweepValues], int] = 1,
    targets: Sequence[str] | str | None = None,
    options: MachineOptions | None = None,
    strict: bool | None = None,
    header: bool | None = None,
    dyn_ub: int | None = None,
    **keywords: Any,
) -> SweepResult:
    """Run a kernel on the machine for each combination of values of `params`, on each target.

    `args` and `keywords` are the kernel's own arguments. The grid and arguments may be functions of the point's values,
    as in `lambda p: np.zeros((p.rows, 64))`. Arrays of the caller are not changed. Points that a target refuses are
    part of the result.
    """
    if not isinstance(kernel, Launchable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"sweep takes a kernel, got {kernel!r}")
    own = _own_names(kernel, params, [*args, *keywords.values(), grid])

    def launch(target: str, values: SweepValues) -> MachineReport:
        given = {name: made(each, values) for name, each in keywords.items()}
        copies, named = with_copies([made(each, values) for each in args], given)
        launcher = kernel[made(grid, values)]
        how = {"target": target, "strict": strict, "header": header, "dyn_ub": dyn_ub}
        chosen = {**named, **{name: values[name] for name in own}}
        report = launcher(*copies, engine=MACHINE, options=options, **how, **chosen)
        assert isinstance(report, MachineReport)
        return report

    return run_points(kernel.name, launch, params, named_targets(kernel, targets))


def made(value: Any, values: SweepValues) -> Any:
    """An argument: itself, or what a function makes of the point's values."""
    return value(values) if callable(value) and not hasattr(value, "__array_interface__") else value


def _own_names(kernel: Launchable, params: Mapping[str, Any], given: Sequence[Any]) -> list[str]:
    """Those of the parameters that the kernel has. Others are for functions, of which there must be some."""
    names = [*getattr(kernel, "parameters", ())]
    unknown = [name for name in params if name not in names]
    if unknown and not any(map(callable, given)):
        known = ", ".join(names) or "none"
        raise TypeError(f"{kernel.name} has no parameter {unknown[0]}; it has {known}{suggestion(unknown[0], names)}")
    return [name for name in params if name in names]


def named_targets(kernel: Launchable, targets: Sequence[str] | str | None) -> tuple[str, ...]:
    """The targets of a sweep; by default those with pipes."""
    if targets is None:
        return kernel.targets or WITH_PIPES
    given = targets.split(",") if isinstance(targets, str) else targets
    return tuple(dict.fromkeys(profile(name.strip()).name for name in given))


def run_points(
    name: str, launch: PointLaunch, params: Mapping[str, Sequence[Any]], targets: Sequence[str]
) -> SweepResult:
    """Run all points, those of a target one after the other."""
    choices = {key: [*values] for key, values in params.items()}
    for key, values in choices.items():
        if isinstance(params[key], str) or not values:
            raise ValueError(f"the parameter {key} takes a list of values, got {params[key]!r}")
    count = prod(map(len, choices.values())) * len(targets)
    if not choices or count > MOST_POINTS:
        raise ValueError(f"a sweep has 1 to {MOST_POINTS:,} points, found {count if choices else 0:,}")
    combinations = [SweepValues(zip(choices, values, strict=True)) for values in product(*choices.values())]
    rows: list[SweepPoint] = []
    with task(f"sweep {name}:"):
        for target, values in product(targets, combinations):
            rows.append(_point(launch, target, values))
    return SweepResult(name, tuple(rows))


def _point(launch: PointLaunch, target: str, values: SweepValues) -> SweepPoint:
    try:
        return SweepPoint(target, dict(values), launch(target, values))
    except (VerifyError, OutOfBoundsError) as refusal:
        return SweepPoint(target, dict(values), refusal=tuple(refusal.findings))
