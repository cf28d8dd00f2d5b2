"""Fits the numbers of the cost model to measured times.

The time of a launch is piecewise linear in the numbers. The fit minimises the relative errors by Gauss-Newton steps in
the logarithms of the numbers, with derivatives from small changes, bounded steps, and Huber's weights against outliers.
A weak prior holds what the measurements say nothing about. A number is determined if its standard error is small, and
not much larger without any one of the measurements; others keep their values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ptokit.machine.costs import MOST, Costs
from ptokit.machine.schedule import Record
from ptokit.target import Profile

FITTED = ("cycles", "GB/s", "bytes/cycle", "outstanding transfers")
"""How the names of fitted numbers end: the clock, sizes and counts are facts."""
MOST_STEPS = 40
LONGEST_STEP = 0.5
"""Of a logarithm."""
CONVERGED = 2e-3
"""A step of the logarithms after which the fit ends."""
CHANGE = 1e-3
"""Of a logarithm, for derivatives."""
FAR = 8.0
"""A number that changes no time by this factor, up or down, is not fitted."""
DAMPING = (0.0, 0.1, 1.0, 10.0, 100.0)
"""Of steps (Levenberg and Marquardt), until one makes the loss smaller."""
MOST_ALONE = 8
"""Numbers that are then tried alone."""
LEAST_PROGRESS = 1e-3
"""Of the loss, for a step."""
PRIOR = 1.0
"""The standard deviation of a logarithm without measurements."""
LEAST_NOISE = 0.01
"""Relative noise of measurements, at least."""
LARGEST_ERROR = 0.03
"""The relative standard error of a determined number, at most."""
HUBER = 1.5
"""Residuals beyond this many standard deviations count less."""

NEAR = 0.1
"""How far the logarithm of a determined number may change and still count."""
IDLE = 1e-6
"""The derivative of a number that counts in no time."""
OTHER_STARTS = (-0.5, 0.5)
"""Steps of such a number to where it may count; the fit continues there as well."""

Array = np.ndarray[Any, Any]
Point = tuple[Array, Array, Array]
"""Logarithms of numbers, microseconds without the start of kernels, and logarithms of the whole times."""


@dataclass(frozen=True, eq=False)
class Measurement:
    """A launch, as it was recorded, and how long it took."""

    name: str
    microseconds: float
    record: Record
    with_launch: bool = False
    """Whether the time includes that of starting the kernel, which is fitted as a constant."""


@dataclass(frozen=True)
class Residual:
    """How far the model is from a measurement."""

    name: str
    measured: float
    before: float
    """Microseconds under the costs at the start."""
    after: float
    """Under the fitted ones."""

    @property
    def error(self) -> float:
        """Relative to the measurement."""
        return self.after / self.measured - 1


@dataclass(frozen=True)
class Calibration:
    """The result of a fit."""

    target: str
    costs: Mapping[str, float]
    """The determined numbers."""
    errors: Mapping[str, float]
    """Their relative standard errors."""
    kept: Mapping[str, str]
    """Numbers that keep their values, and why."""
    residuals: tuple[Residual, ...]
    noise: float
    """Relative scatter of the measurements around the fit."""
    launch: float | None = None
    """Microseconds to start a kernel, if measurements include that."""
    before: Mapping[str, float] = field(default_factory=dict)
    """The determined numbers at the start."""


def calibrate(profile: Profile, measurements: Sequence[Measurement], given: Mapping[str, float]) -> Calibration:
    """Fit the costs of a target, starting from its table with the overrides `given`."""
    fit = _Fit(profile, measurements, given)
    logs, errors, noise = fit.run()
    determined = [k for k in range(len(fit.names)) if errors[k] <= LARGEST_ERROR]
    values = fit.values(logs)
    costs = {fit.names[k]: float(values[k]) for k in determined}
    launch = float(np.exp(logs[-1])) if fit.has_launch else None
    final, start = fit.times(Costs(profile, {**given, **costs})), fit.times(Costs(profile, given))
    overhead = (launch or 0.0) * fit.with_launch
    residuals = tuple(
        Residual(each.name, each.microseconds, float(first), float(last))
        for each, first, last in zip(measurements, start, final + overhead, strict=True)
    )
    return Calibration(
        target=profile.name,
        costs=costs,
        errors={fit.names[k]: float(errors[k]) for k in determined},
        kept={**fit.untouched, **{name: _why(errors[k]) for k, name in enumerate(fit.names) if k not in determined}},
        residuals=residuals,
        noise=noise,
        launch=launch,
        before={name: fit.start[name] for name in costs},
    )


def _why(error: float) -> str:
    return "not determined" if error < 0.5 * PRIOR else "not determined at all"


class _Fit:
    """The state of a fit. The last of the logarithms is the launch, if there is one."""

    def __init__(self, profile: Profile, measurements: Sequence[Measurement], given: Mapping[str, float]) -> None:
        self.profile, self.measurements, self.known_costs = profile, measurements, given
        self.start = Costs(profile, given).numbers
        self.with_launch = np.array([float(each.with_launch) for each in measurements])
        self.has_launch = bool(self.with_launch.any())
        self.measured = np.log([each.microseconds for each in measurements])
        self.untouched: dict[str, str] = {}
        self.names: list[str] = []
        depends: list[Array] = []
        base = self.times(Costs(profile, given))
        for name, number in self.start.items():
            if not name.endswith(FITTED):
                self.untouched[name] = "not fitted"
                continue
            touched = self._touched(name, number, base) if number else np.zeros(len(base), bool)
            if touched.any():
                self.names.append(name)
                depends.append(touched)
            else:
                self.untouched[name] = "no measurement depends on it" if number else "it is 0"
        self.depends = np.array(depends).reshape(len(self.names), len(measurements))
        """By number and measurement."""

    def _touched(self, name: str, number: float, base: Array) -> Array:
        """Which times depend on a number."""
        changed = [self.times(self._costs({name: number * factor})) for factor in (FAR, 1 / FAR)]
        return np.any([~np.isclose(each, base, rtol=1e-9, atol=0) for each in changed], axis=0)

    def _costs(self, numbers: Mapping[str, float]) -> Costs:
        limited = {name: min(number, MOST) for name, number in numbers.items()}
        return Costs(self.profile, {**self.known_costs, **limited})

    def values(self, logs: Array) -> Array:
        """The numbers of the logarithms."""
        return np.exp(logs[: len(self.names)])

    def times(self, costs: Costs, which: Array | None = None) -> Array:
        """Microseconds of the launches without their start; only those of `which`, if it is given."""
        chosen = self.measurements if which is None else [self.measurements[int(k)] for k in np.flatnonzero(which)]
        return np.array([each.record.cycles(costs) for each in chosen]) / costs.clock / 1000

    def _model(self, logs: Array) -> tuple[Array, Array]:
        """Microseconds without the start of kernels, and logarithms of all of it."""
        times = self.times(self._numbers(logs))
        return times, self._logs(times, logs)

    def _numbers(self, logs: Array) -> Costs:
        return self._costs(dict(zip(self.names, self.values(logs), strict=True)))

    def _logs(self, times: Array, logs: Array, which: Array | None = None) -> Array:
        started = self.with_launch if which is None else self.with_launch[which]
        return np.log(np.maximum(times + started * np.exp(logs[-1]) if self.has_launch else times, 1e-12))

    def _derivatives(self, logs: Array, times: Array, found: Array) -> Array:
        """Of the logarithms of times by those of numbers."""
        jacobian = np.zeros((len(found), len(logs)))
        for k, touched in enumerate(self.depends):
            jacobian[touched, k] = self._derivative(logs, k, found[touched])
        if self.has_launch:
            whole = times + self.with_launch * np.exp(logs[-1])
            jacobian[:, -1] = self.with_launch * np.exp(logs[-1]) / whole
        return jacobian

    def _derivative(self, logs: Array, k: int, here: Array | None = None) -> Array:
        """Of the logarithms of the times that depend on a number, which are `here`."""
        touched, moved = self.depends[k], logs.copy()
        moved[k] += CHANGE
        ends = [found for found in (logs, moved) if here is None or found is moved]
        found = [self._logs(self.times(self._numbers(end), touched), end, touched) for end in ends]
        return (found[-1] - (found[0] if here is None else here)) / CHANGE

    def run(self) -> tuple[Array, Array, float]:
        """The logarithms, their standard errors, and the noise."""
        first = np.log([self.start[name] for name in self.names])
        prior = np.full(len(first), PRIOR)
        if self.has_launch:
            first, prior = np.append(first, 0.0), np.append(prior, 3 * PRIOR)
        best = self._descend(first, first, prior)
        tried: set[int] = set()
        while idle := [k for k in self._idle(*best) if k not in tried]:
            tried.add(idle[0])
            for change in OTHER_STARTS:
                start = best[0].copy()
                start[idle[0]] += change
                best = self._better(best, self._descend(start, first, prior), first, prior)
        return best[0], *self._errors(*best, prior)

    def _idle(self, logs: Array, times: Array, found: Array) -> list[int]:
        """Numbers on which no time depends just now: a larger one hides them."""
        slopes = np.abs(self._derivatives(logs, times, found)[:, : len(self.names)])
        return [k for k, slope in enumerate(slopes.max(axis=0, initial=0)) if slope < IDLE]

    def _better(self, one: Point, other: Point, first: Array, prior: Array) -> Point:
        """The point with the smaller loss."""
        scale = min(_scale(point[2] - self.measured) for point in (one, other))
        return min(one, other, key=lambda point: self._loss(point[0], point[2], first, prior, scale))

    def _loss(self, logs: Array, found: Array, first: Array, prior: Array, scale: float) -> float:
        return _loss((found - self.measured) / scale) + float((((logs - first) / prior) ** 2).sum()) / 2

    def _descend(self, logs: Array, first: Array, prior: Array) -> Point:
        """A local minimum of the loss."""
        times, found = self._model(logs)
        for _ in range(MOST_STEPS):
            residuals = found - self.measured
            scale = _scale(residuals)
            weights = _weights(residuals, scale) / scale**2
            jacobian = self._derivatives(logs, times, found)
            normal = jacobian.T @ (weights[:, None] * jacobian) + np.diag(prior**-2)
            slope = jacobian.T @ (weights * residuals) + (logs - first) / prior**2
            moved = self._moved(logs, found, first, prior, scale, normal, slope)
            if moved is None:
                break
            change = np.abs(moved[0] - logs).max(initial=0)
            logs, times, found = moved
            if change < CONVERGED:
                break
        return logs, times, found

    def _moved(
        self, logs: Array, found: Array, first: Array, prior: Array, scale: float, normal: Array, slope: Array
    ) -> Point | None:
        """A point with a smaller loss, or None: a Gauss-Newton step, a shorter and steeper one, or one of a single
        number, since times have kinks."""
        now = self._loss(logs, found, first, prior, scale)
        steps = [-np.linalg.solve(normal + np.diag(damping * np.diag(normal)), slope) for damping in DAMPING]
        alone = -slope / np.diag(normal)
        order = np.argsort(-np.abs(slope * alone))[:MOST_ALONE]
        steps += [shorter * np.where(np.arange(len(alone)) == k, alone, 0.0) for k in order for shorter in (1.0, 0.1)]
        for step in steps:
            at = logs + np.clip(step, -LONGEST_STEP, LONGEST_STEP)
            times, modelled = self._model(at)
            if self._loss(at, modelled, first, prior, scale) < now - LEAST_PROGRESS:
                return at, times, modelled
        return None

    def _errors(self, logs: Array, times: Array, found: Array, prior: Array) -> tuple[Array, float]:
        """Standard errors of the logarithms, and the noise of the measurements."""
        residuals = found - self.measured
        jacobian = self._derivatives(logs, times, found)
        scale = _scale(residuals)
        weights = _weights(residuals, scale)
        information = jacobian.T @ (weights[:, None] * jacobian)
        used = np.trace(np.linalg.solve(information / scale**2 + np.diag(prior**-2), information / scale**2))
        noise = scale * float(np.sqrt(len(residuals) / max(1.0, len(residuals) - used)))
        rows = np.sqrt(weights)[:, None] * jacobian / noise
        whole = rows.T @ rows + np.diag(prior**-2)
        errors = np.sqrt(np.diag(np.linalg.inv(whole)))
        for row in rows:  # one measurement may be wrong: each number needs another
            without = np.sqrt(np.diag(np.linalg.inv(whole - np.outer(row, row))))
            errors = np.maximum(errors, without / 2)
        for k in np.flatnonzero(errors[: len(self.names)] <= LARGEST_ERROR):
            errors[k] /= self._steadiness(logs, int(k), jacobian[self.depends[k], k])
        return errors, noise

    def _steadiness(self, logs: Array, k: int, slopes: Array) -> float:
        """How much of the dependence on a number remains when it is somewhat smaller or larger: a number that another
        one is about to hide has only a bound."""
        found = [1.0]
        for change in (-NEAR, NEAR):
            moved = logs.copy()
            moved[k] += change
            found.append(float(np.linalg.norm(self._derivative(moved, k)) / max(np.linalg.norm(slopes), 1e-12)))
        return max(min(found), 1e-3)


def _scale(residuals: Array) -> float:
    """The standard deviation of residuals, by their median: outliers do not count."""
    return max(LEAST_NOISE, 1.4826 * float(np.median(np.abs(residuals))))


def _weights(residuals: Array, scale: float) -> Array:
    return np.minimum(1.0, HUBER * scale / np.maximum(np.abs(residuals), 1e-12))


def _loss(standard: Array) -> float:
    """Huber's loss: squares, and beyond `HUBER` absolute values."""
    size = np.abs(standard)
    return float(np.where(size <= HUBER, size**2 / 2, HUBER * (size - HUBER / 2)).sum())
