"""The launches of `kernels/expected.toml`: their arguments, and what is expected of them."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

KERNELS = Path(__file__).with_name("kernels")
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Expected:
    """A launch on a target, and its finding."""

    number: int
    entry: str
    file: Path
    target: str
    arguments: dict[str, Any] = field(compare=False)
    clean: bool
    rule: str
    hazard: str
    level: str
    also: tuple[str, ...]
    """Lines that the same fault concerns as well."""
    repair: str
    fault: str
    """Stands in the comment at the line of the fault, if that is not in the kernel itself."""

    @property
    def id(self) -> str:
        """A unique name."""
        return f"{self.entry}-{self.number}-{self.target}"

    def values(self) -> dict[str, Any]:
        """Arrays and numbers, the same ones for every call."""
        rng = np.random.default_rng(self.number)
        return {name: value_of(text, rng) for name, text in self.arguments.items()}

    @property
    def line(self) -> int:
        """The line of the fault."""
        found = [k for k in self._lines() if "// fault: " in _text(self.file)[k - 1]]
        if self.fault:
            found = [k for k, text in enumerate(_text(self.file), 1) if "// fault: " in text and self.fault in text]
        (line,) = found
        return line

    def lines_also(self) -> set[int]:
        """The lines that `also` names."""
        return {k for k in self._lines() for part in self.also if part in _text(self.file)[k - 1]}

    def _lines(self) -> range:
        """The lines of the kernel."""
        lines = _text(self.file)
        start = next(k for k, text in enumerate(lines, 1) if re.search(rf"\bvoid {self.entry}\(", text))
        return range(start, next(k for k in range(start, len(lines) + 1) if lines[k - 1] == "}"))


@lru_cache
def _text(file: Path) -> list[str]:
    return file.read_text().splitlines()


def value_of(text: Any, rng: np.random.Generator) -> Any:
    """The value that a text describes; lists are arrays of int32."""
    if isinstance(text, list):
        return np.array(text, "int32")
    if not isinstance(text, str):
        return text
    found = re.fullmatch(r"(\w+)\[([\d,]+)\](?: (below|unique) (\d+)| (positive|small|count))?", text)
    assert found, text
    name, sizes, word, bound, kind = found.groups()
    shape = tuple(map(int, sizes.split(",")))
    if word == "unique":
        return rng.permutation(int(bound))[: int(np.prod(shape))].reshape(shape).astype(name)
    if word == "below":
        return rng.integers(0, int(bound), shape).astype(name)
    if kind == "count":
        return np.arange(np.prod(shape)).reshape(shape).astype(name)
    sign = 1 if kind == "positive" else rng.choice((-1, 1), shape)
    return (rng.integers(1, 9, shape) / (32 if kind == "small" else 4) * sign).astype(name)


def launches() -> list[Expected]:
    """All of them, each on each of its targets."""
    tables = tomllib.loads((KERNELS / "expected.toml").read_text())
    return [
        _expected(number, {"level": tables["level"], **table}, target)
        for number, table in enumerate(tables["launch"])
        for target in _targets(table, tables["targets"])
    ]


def _targets(table: dict[str, Any], of_files: dict[str, Any]) -> list[str]:
    return table.get("targets") or of_files[table["file"]]["clean" if table.get("clean") else "faulty"]


def _expected(number: int, table: dict[str, Any], target: str) -> Expected:
    return Expected(
        number,
        table["entry"],
        KERNELS / table["file"],
        target,
        table["arguments"],
        table.get("clean", False),
        table.get("rule", ""),
        table.get("hazard", ""),
        table["level"],
        tuple(table.get("also", ())),
        table.get("repair", ""),
        table.get("fault", ""),
    )
