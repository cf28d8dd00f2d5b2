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
from _measure import FLOOR, LIMIT, OURS, Times, Verdict, Who, best_peer, median, on_threads, ratio
from rich.console import Console
from rich.table import Table

from ptokit import markup

LIBRARIES = (OURS, "NumPy", "PyTorch", "Numba", LIMIT)
NONE = "–"
BUSY = 0.05


@dataclass(frozen=True)
class Result:
    """The result of a case."""

    group: str
    name: str
    contenders: tuple[Contender, ...]
    times: Times[Who]
    """Seconds for the case's payload, round by round."""
    payload: int
    verdicts: tuple[Verdict, ...]

    @property
    def right(self) -> set[Who]:
        """The contenders with a correct result."""
        return {contender.who for contender in self.contenders if contender.right}

    @property
    def threads(self) -> list[int]:
        """The numbers of threads that were measured."""
        return sorted({who.threads for who in self.times if who.library == LIMIT})

    def shown(self, who: Who) -> str:
        """A contender's GB/s of payload, marked if its result is wrong."""
        return figure(self.payload / median(self.times[who]) / 1e9) + " (wrong)" * (who not in self.right)

    def lead(self, threads: int) -> tuple[str, float]:
        """The best peer, and how many times as fast ptokit is."""
        peer, ours = best_peer(self.times, self.right, threads), Who(OURS, threads)
        if peer is None or ours not in self.times:
            return NONE, math.nan
        return peer.library, ratio(self.times[peer], self.times[ours])


@dataclass(frozen=True)
class Report:
    """The results of a run."""

    facts: dict[str, str]
    results: tuple[Result, ...]
    verdicts: tuple[Verdict, ...]
    notes: tuple[str, ...]
    neighbours: float
    """The share of processor time of other programs."""

    @property
    def behind(self) -> list[tuple[str, str]]:
        """The cases in which a peer is faster by more than the floor allows, with the ratio."""
        leads = {f"{each.group}: {each.name}": each.lead(max(each.threads)) for each in self.results}
        return [(name, f"{figure(lead)} x {peer}") for name, (peer, lead) in leads.items() if lead < FLOOR.at_least]

    def _repr_html_(self) -> str:
        """The tables in a notebook."""
        parts = [markup.facts(self.facts.items())]
        for group, results in groups(self.results).items():
            parts += [markup.tag("strong", f"{group}, GB/s of payload"), markup.table(rate_rows(results), RATES_HEAD)]
        if self.verdicts:
            parts += [markup.tag("strong", "Required figures"), markup.table(asked_rows(self.verdicts), ASKED_HEAD)]
        return markup.box("Comparison", *parts, *map(markup.dim, self.notes))

    @property
    def missed(self) -> list[Verdict]:
        """The requirements that were missed."""
        return [verdict for verdict in self.verdicts if not verdict.met]


def figure(value: float) -> str:
    """A number with three digits."""
    return NONE if math.isnan(value) else f"{value:.3g}" if value < 1000 else f"{value:.0f}"


ASKED_HEAD = ("case", "what", "asked", "found", "")
BEHIND_HEAD = ("case", "ratio")
RATES_HEAD = ("case", "threads", *LIBRARIES, "best peer", "ratio")


def asked_rows(verdicts: Iterable[Verdict]) -> list[list[str]]:
    """Required and measured figures, as cells of a table."""
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
    """GB/s of all contenders, as cells of a table."""
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
    if report.behind:
        console.print(
            table(f"Behind the best peer: {len(report.behind)} of {len(report.results)}", BEHIND_HEAD, report.behind)
        )
    for note in report.notes:
        console.print(note, markup=False)
    if report.neighbours > BUSY:
        message = f"Other programs used {report.neighbours:.0%} of the processors: figures of all cores are unreliable."
        console.print(message, style="bold red", highlight=False)
    if report.verdicts:
        console.print(table("Required figures", ASKED_HEAD, asked_rows(report.verdicts)))
    console.print(f"{len(report.verdicts) - len(report.missed)} of {len(report.verdicts)} required figures are met.")


def table(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """A table for the terminal; missed figures are red."""
    found = Table(title=title, title_justify="left", header_style="bold")
    for name in head:
        found.add_column(name, justify="left" if name in ("case", "what", "best peer", "") else "right")
    for row in rows:
        found.add_row(*row, style="red" if row[-1] == "MISSED" else None)
    return found


def markdown(report: Report) -> str:
    """The report as Markdown."""
    parts = ["# Comparison", "\n".join(f"- {name}: {value}" for name, value in report.facts.items())]
    if report.verdicts:
        parts += ["## Required figures", _markdown_table(ASKED_HEAD, asked_rows(report.verdicts))]
    for group, results in groups(report.results).items():
        parts += [f"## {group.capitalize()}, GB/s of payload", _markdown_table(RATES_HEAD, rate_rows(results))]
    if report.behind:
        parts += ["## Behind the best peer", _markdown_table(BEHIND_HEAD, report.behind)]
    if report.notes:
        parts += ["## Not measured", "\n".join(f"- {note}" for note in report.notes)]
    return "\n\n".join(parts) + "\n"


def _markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))


def asked_data(verdicts: Iterable[Verdict]) -> list[dict[str, Any]]:
    """Required and measured figures as JSON data; null if there is no number."""
    return [{**asdict(v), "asked": _number(v.asked), "found": _number(v.found), "met": v.met} for v in verdicts]


def as_data(report: Report) -> dict[str, Any]:
    """The report as JSON data; seconds are those of every round, null for skipped rounds."""
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
    """Write both files, each atomically."""
    texts = {"peers.md": markdown(report), "peers.json": json.dumps(as_data(report), indent=1) + "\n"}
    return [replace_file(folder / name, text) for name, text in texts.items()]


def replace_file(path: Path, text: str) -> Path:
    """Write a file atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    half = path.with_name(f".{path.name}.{os.getpid()}")
    half.write_text(text, encoding="utf-8")
    return half.replace(path)
