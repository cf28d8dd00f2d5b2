"""The result of a comparison as a page of the documentation."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from ptokit.atomic import write_file
from tests.witness.accepted import ACCEPTED
from tests.witness.compare import Comparison


def written(path: Path, found: Comparison, target: str, seconds: float) -> None:
    """Write the page."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, ("\n".join(_lines(found, target, seconds)) + "\n").encode())


def _lines(found: Comparison, target: str, seconds: float) -> list[str]:
    with_reason: defaultdict[str, int] = defaultdict(int)
    for (name, _), count in found.accepted.items():
        with_reason[name] += count
    files = ", ".join(f"{count} {what}" for what, count in sorted(found.files.items()))
    rows = [
        f"| `{name}` | {count} | {with_reason[name] or ''} | {found.differ[name] or ''} |"
        for name, count in sorted(found.calls.items())
    ]
    open_ones = [line for examples in found.examples.values() for line in examples]
    return [
        f"# The headers of {target} beside the tables",
        "",
        f"Written by `make witness`. Sources: {files}. {found.summary.partition('}, ')[2]}; {seconds:.0f} s.",
        "",
        "| instruction | calls | differ with a reason | without |",
        "|---|---|---|---|",
        *rows,
        "",
        "## Reasons",
        "",
        "| instructions | difference | why it stays |",
        "|---|---|---|",
        *(f"| `{names}` | {kinds} | {why} |".replace("|(", "(") for names, kinds, why in _escaped()),
        "",
        "## Open",
        "",
        *(f"- {line}" for line in open_ones or ["nothing"]),
    ]


def _escaped() -> list[tuple[str, ...]]:
    return [tuple(part.replace("|", r"\|") for part in row) for row in ACCEPTED]
