"""`pto.sweep`: a kernel on the machine, for each combination of values of parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice, product
from math import prod
from typing import Any

import numpy as np

from ptokit.brief import brief
from ptokit.finding import OutOfBoundsError, VerifyError, counted, suggestion
from ptokit.lang.check import with_copies
from ptokit.lang.faults import public
from ptokit.lang.launcher import Launchable, quiet_report
from ptokit.machine.report import MachineOptions, MachineReport
from ptokit.progress import task
from ptokit.sweeps.best import SweepPoint, best_of, is_ranked, is_same, rank
from ptokit.sweeps.result import SweepResult
from ptokit.target import families_with_pipes, profile

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
Places = Sequence[tuple[str, SweepValues]]
"""Targets and values of points."""


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
        raise TypeError(f"sweep takes a kernel, got {brief(kernel)}")
    if not isinstance(params, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"params takes lists of values by name, as in {{'rows': [16, 32]}}, got {brief(params)}")
    own = _own_names(kernel, params, [*args, *keywords.values(), grid])

    def launch(target: str, values: SweepValues) -> MachineReport:
        given = {name: made(each, values) for name, each in keywords.items()}
        copies, named = with_copies([made(each, values) for each in args], given)
        launcher = kernel[_grid(made(grid, values))]
        how = {"target": target, "strict": strict, "header": header, "dyn_ub": dyn_ub}
        chosen = {**named, **{name: values[name] for name in own}}
        return quiet_report(launcher, *copies, options=options, **how, **chosen)

    result = run_points(kernel.name, launch, params, named_targets(kernel, targets))
    if options is None or not options.quiet:
        _warn_of_unclean(kernel, result)
    return result


def _warn_of_unclean(kernel: Launchable, result: SweepResult) -> None:
    """Warn of each target without a clean point: none can be the best. Other faulty points are shown."""
    for target in result.targets:
        points = result.of(target)
        faults = [finding for point in points for finding in point.hazards]
        if faults and not any(points):
            kernel.collector().warn(faults, f"{kernel.name} on {target}, {counted(len(points), 'point')}, none clean")


def _grid(blocks: Any) -> int:
    """A number of blocks."""
    is_whole = isinstance(blocks, int | np.integer) and not isinstance(blocks, bool)
    if not is_whole or blocks < 0:
        raise ValueError(f"grid takes a whole number from 0 up, or a function that returns one; found {brief(blocks)}")
    return int(blocks)


def made(value: Any, values: SweepValues) -> Any:
    """An argument: itself, or what a function makes of the point's values."""
    return value(values) if callable(value) and not hasattr(value, "__array_interface__") else value


def _own_names(kernel: Launchable, params: Mapping[str, Any], given: Sequence[Any]) -> list[str]:
    """The parameters that the kernel has. Others are for functions; some function must take them."""
    names = [*getattr(kernel, "parameters", ())]
    unknown = [name for name in params if name not in names]
    if unknown and not any(map(callable, given)):
        known = ", ".join(names) or "none"
        raise TypeError(f"{kernel.name} has no parameter {unknown[0]}; it has {known}{suggestion(unknown[0], names)}")
    return [name for name in params if name in names]


def named_targets(kernel: Launchable, targets: Sequence[str] | str | None) -> tuple[str, ...]:
    """The targets of a sweep; by default those with pipes."""
    if targets is None:
        return kernel.targets or families_with_pipes()
    given = targets.split(",") if isinstance(targets, str) else targets
    return tuple(dict.fromkeys(profile(name.strip()).name for name in given))


def run_points(
    name: str,
    launch: PointLaunch,
    params: Mapping[str, Sequence[Any]],
    targets: Sequence[str],
    run_all: Callable[[Places], Iterable[SweepPoint]] | None = None,
) -> SweepResult:
    """Run all points, those of a target one after the other, or as `run_all` does."""
    choices = {key: _choices(key, values) for key, values in params.items()}
    count = prod(map(len, choices.values())) * len(targets)
    if not choices or count > MOST_POINTS:
        raise ValueError(f"a sweep has 1 to {MOST_POINTS:,} points, found {count if choices else 0:,}")
    combinations = [SweepValues(zip(choices, values, strict=True)) for values in product(*choices.values())]
    rows: list[SweepPoint] = []
    with task(f"sweep {name}:"):
        if run_all is not None:
            rows += run_all([*product(targets, combinations)])
        else:
            for target in targets:
                rows += _points_of(launch, target, combinations)
    return SweepResult(name, tuple(rows))


def _choices(name: str, values: Any) -> list[Any]:
    """The values of a parameter, each once."""
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise TypeError(
            f"the parameter {name} takes a list of values, as in params={{{brief(name)}: [{brief(values)}]}}"
        )
    found: list[Any] = []
    for value in islice(values, MOST_POINTS + 1):
        if not any(is_same(value, other) for other in found):
            found.append(value)
    if not found:
        raise ValueError(f"the parameter {name} takes a list of values, got {brief(values)}")
    return found


def _points_of(launch: PointLaunch, target: str, combinations: Sequence[SweepValues]) -> list[SweepPoint]:
    """The points of a target. Of their reports only that of the best one is kept, and while they run those of the ones
    that are best so far, by each of the two costs."""
    points: list[SweepPoint] = []
    leaders: dict[bool, tuple[int, MachineReport]] = {}
    for number, values in enumerate(combinations):
        point, report = _point(launch, target, values)
        points.append(point)
        if report is None or not is_ranked(point):
            continue
        for is_alike in (True, False):
            if is_alike not in leaders or rank(point, is_alike) < rank(points[leaders[is_alike][0]], is_alike):
                leaders[is_alike] = number, report
    best = best_of(points)
    for number, report in leaders.values():
        if best and points[number] is best.point:
            points[number] = replace(best.point, report=report)
            break
    return points


def point(launch: PointLaunch, target: str, values: SweepValues) -> SweepPoint:
    """Run a point, and keep its numbers."""
    return _point(launch, target, values)[0]


def _point(launch: PointLaunch, target: str, values: SweepValues) -> tuple[SweepPoint, MachineReport | None]:
    try:
        report = launch(target, values)
    except (VerifyError, OutOfBoundsError) as refusal:
        return SweepPoint(target, dict(values), tuple(refusal.findings)), None
    return SweepPoint.of(target, dict(values), report), report
