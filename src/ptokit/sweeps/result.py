"""The points of a sweep as a table: text, CSV, HTML, plain data."""

from __future__ import annotations

import csv
import io
import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ptokit.atomic import write_file
from ptokit.finding import counted
from ptokit.machine.report import aligned
from ptokit.markup import Displayed, box, clipped, code, table
from ptokit.sweeps.best import SweepPoint, SweepPoints
from ptokit.sweeps.plot import picture

LONGEST = 100
"""Characters of a verdict in the table."""
COLUMNS: dict[str, tuple[Callable[[SweepPoint], object], str]] = {
    "cycles": (lambda point: point.cycles, "{:,.0f}"),
    "us": (lambda point: point.microseconds, "{:,.2f}"),
    "moved": (lambda point: point.bytes_moved, "{:,}"),
    "efficiency": (lambda point: point.efficiency, "{:.0%}"),
}
"""Columns of numbers, and how the table writes them."""


@dataclass(frozen=True, repr=False)
class SweepResult(SweepPoints, Displayed):
    """All points of a sweep, target by target, with the best ones."""

    def __repr__(self) -> str:
        return f"<sweep of {self.kernel}: {len(self.rows)} points on {', '.join(self.targets)}>"

    def __str__(self) -> str:
        return "\n".join([*(line.rstrip() for line in aligned(self.table())), *self.conclusions()])

    def conclusions(self) -> list[str]:
        """The best point of each target, and below it the reasons."""
        lines: list[str] = []
        for target in self.targets:
            best = self.best.get(target)
            if best is None:
                lines.append(f"no best point on {target}: {self.why_none(target)}")
            else:
                lines += [f"best on {target}: {best.point.name}", *(f"    {each}" for each in best.reasons)]
        return lines

    def table(self, longest: int = LONGEST) -> list[tuple[str, ...]]:
        """Header and rows, as text; the best points are marked, and verdicts have at most `longest` characters."""
        head = ("target", *self.params, *COLUMNS, *self.memories, "best", "verdict")
        return [head, *(self._cells(point, longest) for point in self.rows)]

    def _cells(self, point: SweepPoint, longest: int) -> tuple[str, ...]:
        numbers = [_written(value(point), form) for value, form in COLUMNS.values()]
        memory = [_written(point.memory.get(name), "{:,}") for name in self.memories]
        mark, verdict = "yes" if self.is_best(point) else "", point.verdict
        shown = verdict if len(verdict) <= longest else verdict[: longest - 3] + "..."
        return (point.target, *map(str, point.params.values()), *numbers, *memory, mark, shown)

    def as_dict(self) -> dict[str, Any]:
        """The sweep as plain data."""
        best = {
            target: {"params": plain(each.point.params), "reason": each.reason} for target, each in self.best.items()
        }
        return {"kernel": self.kernel, "rows": list(map(self._plain, self.rows)), "best": best}

    def _plain(self, point: SweepPoint) -> dict[str, Any]:
        numbers = {name: value(point) for name, (value, _) in COLUMNS.items()}
        verdicts = {"ok": point.ok, "modelled": point.modelled, "best": self.is_best(point), "verdict": point.verdict}
        return {"target": point.target, "params": plain(point.params), **numbers, "memory": point.memory, **verdicts}

    def to_csv(self, path: str | os.PathLike[str] | None = None) -> str:
        """The points as CSV with exact numbers; written to a file, if there is one."""
        text = io.StringIO()
        rows = csv.writer(text, lineterminator="\n")
        rows.writerow(["target", *self.params, *COLUMNS, *self.memories, "best", "verdict"])
        for point in self.rows:
            numbers = [value(point) for value, _ in COLUMNS.values()]
            memory = [point.memory.get(name) for name in self.memories]
            rows.writerow([point.target, *point.params.values(), *numbers, *memory, self.is_best(point), point.verdict])
        if path is not None:
            write_file(path, text.getvalue().encode("utf-8"))
        return text.getvalue()

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Draw cycles, traffic and memory of all points, as an `.svg` or `.png` file; needs matplotlib."""
        write_file(path, picture(self, os.fspath(path)))

    def _repr_html_(self) -> str:
        """The table in a notebook, and below it the best points with their reasons."""
        head, *rows = self.table()
        title = f"sweep of {self.kernel}: {counted(len(rows), 'point')}"
        return box(clipped(title), table(rows, head), code("\n".join(self.conclusions())))


def plain(params: dict[str, object]) -> dict[str, object]:
    """Parameters as JSON has them: it has no infinite numbers, and no other types."""
    return {name: each if _is_plain(each) else str(each) for name, each in params.items()}


def _is_plain(value: object) -> bool:
    return math.isfinite(value) if isinstance(value, float) else isinstance(value, int | str)


def _written(value: object, form: str) -> str:
    return "" if value is None else form.format(value)
