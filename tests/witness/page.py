"""The result of a comparison as a page of the documentation."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from ptokit.atomic import write_file
from tests.witness.accepted import ACCEPTED
from tests.witness.accepted_values import ACCEPTED as ACCEPTED_VALUES
from tests.witness.compare import Comparison
from tests.witness.judged import Judged
from tests.witness.values import executed


def written(path: Path, found: Comparison, target: str, seconds: str) -> None:
    """Write the page."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, ("\n".join(_lines(found, target, seconds)) + "\n").encode())


def _lines(found: Comparison, target: str, seconds: str) -> list[str]:
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
        f"Written by `make witness`. Sources: {files}. {found.summary.partition('}, ')[2]}; {seconds}.",
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
        "",
        "## Without a partner",
        "",
        *(f"- {line}" for line in sorted(found.unlike) or ["nothing"]),
        "",
        "## Not compiled",
        "",
        *(f"- {short(line)}" for line in sorted(found.problems) or ["nothing"]),
    ]


def short(problem: str) -> str:
    """The first line of what a compiler says, without folders."""
    return re.sub(r"(?<![\w.])/[\w./@+-]*/", "", problem.splitlines()[0])


def _escaped() -> list[tuple[str, ...]]:
    return [tuple(part.replace("|", r"\|") for part in row) for row in ACCEPTED]


def values_lines(found: Judged, names: Sequence[str]) -> Iterator[str]:
    """A line for each instruction, its reasons and examples, and the counts."""
    for name in names:
        calls, equal, known, differ = found.counts_of(name)
        types = ", ".join(sorted(found.kinds.get(name, ())))
        yield f"{name} ({types}): {calls} calls, {equal} equal, {known} with a reason, {differ} differ"
        yield from (f"    {why}: {count}" for (each, why), count in found.accepted.items() if each == name)
        yield from (f"    {example}" for example in found.examples.get(name, ()))
        yield from (f"    refused: {refused}" for refused in sorted(found.refused.get(name, ()))[:3])
        yield from (f"    not covered: {reason}" for reason in sorted(found.uncovered.get(name, ())))
    yield summary(found, names)


def summary(found: Judged, names: Sequence[str]) -> str:
    """The counts, and the share of the instructions that are covered."""
    covered = sum(bool(found.calls[name]) for name in names)
    known = found.calls.total() - found.equal.total() - found.differ.total()
    return (
        f"{len(executed())} functions are executed; {covered} of {len(names)} vector instructions are compared "
        f"({100 * covered // max(len(names), 1)} %); of {found.calls.total()} calls, {found.equal.total()} are equal, "
        f"{known} differ with a reason, {found.differ.total()} without"
    )


def written_values(path: Path, found: Judged, names: Sequence[str], seconds: float) -> None:
    """Write the page of values."""
    write_file(path, ("\n".join(_values_page(found, names, seconds)) + "\n").encode())


def _values_page(found: Judged, names: Sequence[str], seconds: float) -> Iterator[str]:
    yield "# Values of the headers of a2a3 beside those of ptokit"
    yield f"\nWritten by `make witness` with `--values`. {summary(found, names)}; {seconds:.0f} s."
    yield "\n| instruction | types | calls | equal | differ with a reason | without |\n|---|---|---|---|---|---|"
    for name in names:
        calls, equal, known, differ = found.counts_of(name)
        types = ", ".join(sorted(found.kinds.get(name, ())))
        absent = f"not covered: {'; '.join(sorted(found.uncovered.get(name, ())))}"
        yield f"| `{name}` | {types or absent} | {calls} | {equal} | {known or ''} | {differ or ''} |"
    yield "\n## Reasons\n\n| instructions | kernels | difference | why it stays | calls |\n|---|---|---|---|---|"
    for row in ACCEPTED_VALUES:
        count = sum(number for (_, why), number in found.accepted.items() if why == row[3])
        instructions, types, kinds, why = (part.replace("|", "\\|") for part in row)
        yield f"| `{instructions}` | `{types}` | {kinds} | {why} | {count} |"
    yield "\n## Open\n"
    yield from (f"- `{name}` {line}" for name, lines in sorted(found.examples.items()) for line in lines)
    if not found.examples:
        yield "- nothing"
