"""Results as a table in the terminal, as Markdown and as JSON."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from _contenders import Contender
from _measure import LIMIT, OURS, Times, Verdict, Who, best_peer, median, on_threads, ratio
from rich.console import Console
from rich.table import Table

LIBRARIES = (OURS, "NumPy", "PyTorch", "Numba", LIMIT)
NONE = "–"
BUSY = 0.05


@dataclass(frozen=True)
class Result:
    """What a case showed."""

    group: str
    name: str
    contenders: tuple[Contender, ...]
    times: Times[Who]
    """Seconds for the case's payload, round by round."""
    payload: int
    verdicts: tuple[Verdict, ...]

    @property
    def right(self) -> set[Who]:
        """Who gives the true result."""
        return {contender.who for contender in self.contenders if contender.right}

    @property
    def threads(self) -> list[int]:
        """The numbers of threads that were measured."""
        return sorted({who.threads for who in self.times if who.library == LIMIT})

    def shown(self, who: Who) -> str:
        """A contender's GB/s of payload, marked where its result is wrong."""
        return figure(self.payload / median(self.times[who]) / 1e9) + " (wrong)" * (who not in self.right)

    def lead(self, threads: int) -> tuple[str, float]:
        """The best peer, and how many times as fast ptokit is."""
        peer, ours = best_peer(self.times, self.right, threads), Who(OURS, threads)
        if peer is None or ours not in self.times:
            return NONE, math.nan
        return peer.library, ratio(self.times[peer], self.times[ours])


@dataclass(frozen=True)
class Report:
    """All that a run showed."""

    facts: dict[str, str]
    results: tuple[Result, ...]
    verdicts: tuple[Verdict, ...]
    notes: tuple[str, ...]
    neighbours: float
    """The part of the processors that other programs took."""

    @property
    def missed(self) -> list[Verdict]:
        """What was asked and not reached."""
        return [verdict for verdict in self.verdicts if not verdict.met]


def figure(value: float) -> str:
    """A number with three digits."""
    return NONE if math.isnan(value) else f"{value:.3g}" if value < 1000 else f"{value:.0f}"


ASKED_HEAD = ("case", "what", "asked", "found", "")
RATES_HEAD = ("case", "threads", *LIBRARIES, "best peer", "ratio")


def asked_rows(verdicts: Iterable[Verdict]) -> list[list[str]]:
    """What was asked, as cells of a table."""
    return [
        [
            v.case,
            v.what,
            f"{'≤' if v.at_most else '≥'} {figure(v.asked)}",
            figure(v.found),
            "met" if v.met else "MISSED",
        ]
        for v in verdicts
    ]


def rate_rows(results: Iterable[Result]) -> list[list[str]]:
    """GB/s of everybody, as cells of a table."""
    rows: list[list[str]] = []
    for result in results:
        for threads in result.threads:
            who = on_threads(result.times, threads)
            rates = [result.shown(who[library]) if library in who else NONE for library in LIBRARIES]
            peer, lead = result.lead(threads)
            rows.append([result.name, str(threads), *rates, peer, figure(lead)])
    return rows


def groups(results: Sequence[Result]) -> dict[str, list[Result]]:
    """Results by their group, in order."""
    found: dict[str, list[Result]] = {}
    for result in results:
        found.setdefault(result.group, []).append(result)
    return found


def show(report: Report, console: Console) -> None:
    """Print the tables."""
    for name, value in report.facts.items():
        console.print(f"{name}: {value}", highlight=False)
    for group, results in groups(report.results).items():
        console.print(table(f"{group}, GB/s of payload", RATES_HEAD, rate_rows(results)))
    for note in report.notes:
        console.print(note, markup=False)
    if report.neighbours > BUSY:
        said = f"Other programs took {report.neighbours:.0%} of the processors: figures of all cores mean little."
        console.print(said, style="bold red", highlight=False)
    if report.verdicts:
        console.print(table("What was asked", ASKED_HEAD, asked_rows(report.verdicts)))
    console.print(f"{len(report.verdicts) - len(report.missed)} of {len(report.verdicts)} asked figures are met.")


def table(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """A table for the terminal; what is missed is red."""
    found = Table(title=title, title_justify="left", header_style="bold")
    for name in head:
        found.add_column(name, justify="left" if name in ("case", "what", "best peer", "") else "right")
    for row in rows:
        found.add_row(*row, style="red" if row[-1] == "MISSED" else None)
    return found


def markdown(report: Report) -> str:
    """The same for a page."""
    parts = ["# Side by side", "\n".join(f"- {name}: {value}" for name, value in report.facts.items())]
    if report.verdicts:
        parts += ["## What was asked", _markdown_table(ASKED_HEAD, asked_rows(report.verdicts))]
    for group, results in groups(report.results).items():
        parts += [f"## {group.capitalize()}, GB/s of payload", _markdown_table(RATES_HEAD, rate_rows(results))]
    if report.notes:
        parts += ["## Not measured", "\n".join(f"- {note}" for note in report.notes)]
    return "\n\n".join(parts) + "\n"


def _markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))


def asked_data(verdicts: Iterable[Verdict]) -> list[dict[str, Any]]:
    """What was asked, for programs; null where there is no number."""
    return [{**asdict(v), "asked": _number(v.asked), "found": _number(v.found), "met": v.met} for v in verdicts]


def as_data(report: Report) -> dict[str, Any]:
    """The same for programs; seconds are those of every round, null for rounds that were left out."""
    return {
        "facts": report.facts,
        "asked": asked_data(report.verdicts),
        "results": [
            {
                "group": result.group,
                "case": result.name,
                "payload": result.payload,
                "contenders": [
                    {
                        "library": c.who.library,
                        "threads": c.who.threads,
                        "form": c.form,
                        "right": c.right,
                        "seconds": [_number(t) for t in result.times[c.who]],
                    }
                    for c in result.contenders
                ],
            }
            for result in report.results
        ],
        "notes": report.notes,
    }


def _number(value: float) -> float | None:
    return None if math.isnan(value) else float(f"{value:.4g}")


def write(report: Report, folder: Path) -> list[Path]:
    """Both files, each whole or not at all."""
    texts = {"peers.md": markdown(report), "peers.json": json.dumps(as_data(report), indent=1) + "\n"}
    return [replace_file(folder / name, text) for name, text in texts.items()]


def replace_file(path: Path, text: str) -> Path:
    """Write a file, so that nobody finds half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    half = path.with_name(f".{path.name}.{os.getpid()}")
    half.write_text(text, encoding="utf-8")
    return half.replace(path)
