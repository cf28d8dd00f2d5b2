"""A case of the corpus: a launch, and the expected report of the machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import ml_dtypes  # noqa: F401  (its element types have names in NumPy)
import numpy as np

import ptokit as pto

Array = np.ndarray[Any, Any]
Given = Mapping[str, Any]
"""Arguments and options of a launch by name; callables are evaluated for every launch, and `arrays` makes
several arguments at once."""


class Launch(Protocol):
    """Runs a case."""

    def __call__(self, engine: str = "machine", given: dict[str, Any] | None = None, **options: Any) -> Any:
        """On an engine; the machine gives a report. `given` is filled with what the kernel was given."""


@dataclass(frozen=True)
class Case:
    """A kernel that has a hazard (`bad`), or its near-twin, which has none."""

    name: str
    kind: str
    """The number of the hazard, or "" for a fault that has none."""
    target: str
    launch: Launch
    bad: bool
    line: str
    """Stands in the source line that the finding points at."""
    operand: str
    level: str
    also: tuple[str, ...] = ()
    """What the same fault brings along: kinds of findings that are no false alarms here."""

    @property
    def id(self) -> str:
        """A unique name."""
        return f"{self.kind or 'order'} {self.name} {self.target} {'bad' if self.bad else 'twin'}"


@dataclass(frozen=True)
class Hazard:
    """What all cases of one family have in common; `bad` and `twin` make them."""

    kind: str
    line: str
    operand: str
    kernel: Any
    given: Given
    level: str = "error"
    also: tuple[str, ...] = ()
    grid: int = 1

    def bad(self, name: str, target: str, **changed: Any) -> Case:
        """A launch that has the hazard."""
        return self._case(name, target, True, changed)

    def twin(self, name: str, target: str, **changed: Any) -> Case:
        """A launch that has not."""
        return self._case(name, target, False, changed)

    def pair(self, name: str, target: str, wrong: Given, right: Given, **both: Any) -> list[Case]:
        """Two launches that differ in what is `wrong` and `right`."""
        return [self.bad(name, target, **{**both, **wrong}), self.twin(name, target, **{**both, **right})]

    def _case(self, name: str, target: str, bad: bool, changed: Mapping[str, Any]) -> Case:
        settings = {"grid": self.grid, "level": self.level, "also": self.also, "line": self.line,
                    "operand": self.operand, "kernel": self.kernel}  # fmt: skip
        asked = {key: changed.get(key, value) for key, value in settings.items()}
        given = {key: value for key, value in {**self.given, **changed}.items() if key not in settings}
        run = _launch(asked["kernel"], asked["grid"], target, given)
        return Case(name, self.kind, target, run, bad, asked["line"], asked["operand"], asked["level"], asked["also"])


def _launch(kernel: Any, grid: int, target: str, wanted: Given) -> Launch:
    def launch(engine: str = "machine", given: dict[str, Any] | None = None, **options: Any) -> Any:
        made: dict[str, Any] = {key: value() if callable(value) else value for key, value in wanted.items()}
        made |= made.pop("arrays", {})
        if given is not None:
            given.update(made)
        return kernel[grid](**made, target=target, engine=engine, **options)

    return launch


def flag(src: str, dst: str, event: Any = 0) -> None:
    """One pipe waits for another."""
    pto.set_flag(src, dst, event)
    pto.wait_flag(src, dst, event)


def zeros(*shape: int, dtype: str = "float32") -> Callable[[], Array]:
    """An empty array."""
    return lambda: np.zeros(shape, dtype)


def counted(*shape: int, dtype: str = "float32") -> Callable[[], Array]:
    """An array of consecutive elements, modulo the range of their type."""
    return lambda: (np.arange(int(np.prod(shape))) % 100).astype(dtype).reshape(shape)


def numbers(*values: int, dtype: str = "int32") -> Callable[[], Array]:
    """These numbers in a row."""
    return lambda: np.array(values, dtype)


def spread(*shape: int, below: int, dtype: str = "int32") -> Callable[[], Array]:
    """Indices below a bound, each another as long as there are enough."""
    return lambda: (np.arange(int(np.prod(shape))) * 7 % below).astype(dtype).reshape(shape)


def upto(*shape: int, dtype: str = "int32") -> Callable[[], Array]:
    """0, 1, 2, ..."""
    return lambda: np.arange(int(np.prod(shape)), dtype=dtype).reshape(shape)
