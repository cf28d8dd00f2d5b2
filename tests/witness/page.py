"""The result of a comparison as a page of the documentation."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ptokit.atomic import write_file
from tests.witness.accepted import ACCEPTED, uncompared
from tests.witness.accepted_values import ACCEPTED as ACCEPTED_VALUES
from tests.witness.compare import Comparison
from tests.witness.judged import Judged
from tests.witness.overloads import HEADER, Overload
from tests.witness.values import executed


def written(path: Path, found: Comparison, target: str, every: Sequence[Overload], seconds: str) -> None:
    """Write the page; `every`: the overloads that the target has."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, ("\n".join(_lines(found, target, every, seconds)) + "\n").encode())


def _lines(found: Comparison, target: str, every: Sequence[Overload], seconds: str) -> Iterator[str]:
    files = ", ".join(f"{count} {what}" for what, count in sorted(found.files.items()))
    rows = [*overload_rows(found, every)]
    compared = sum(bool(row.calls) for row in rows)
    yield f"# The headers of {target} beside the tables"
    yield f"\nWritten by `make witness`. Sources: {files}. {found.summary.partition('}, ')[2]}; {seconds}."
    names = {row.overload.name for row in rows}
    known = sum(bool(row.why) and not row.calls for row in rows)
    yield f"\nOf {len(rows)} overloads of {len(names)} public instructions, {compared} are compared. Of the others,"
    yield f"{known} have a reason, and {len(rows) - compared - known} no kernel yet. Lines are those of `{HEADER}`."
    yield "\n| overload | line | calls | agree | differ with a reason | without |\n|---|---|---|---|---|---|"
    yield from map(str, rows)
    yield "\n## Reasons\n\n| instructions | difference | calls | why it stays |\n|---|---|---|---|"
    yield from _reasons(found)
    yield "\n## Open\n"
    yield from (f"- {line}" for line in [line for some in found.examples.values() for line in some] or ["nothing"])
    yield "\n## Without a partner\n"
    yield from (f"- {line}" for line in sorted(found.unlike) or ["nothing"])
    yield "\n## Not compiled\n"
    yield from (f"- {short(line)}" for line in sorted(found.problems) or ["nothing"])


@dataclass(frozen=True)
class OverloadRow:
    """The calls of an overload that were compared, or why there are none."""

    overload: Overload
    agree: int
    known: int
    differ: int
    why: str

    @property
    def calls(self) -> int:
        """All that were compared."""
        return self.agree + self.known + self.differ

    def __str__(self) -> str:
        counts = f"{self.calls} | {self.agree} | {self.known or ''} | {self.differ or ''}"
        shown = counts if self.calls else f"{self.why or 'no kernel yet'} | | |"
        return f"| `{self.overload}` | {self.overload.line} | {shown} |"


def overload_rows(found: Comparison, every: Sequence[Overload]) -> Iterator[OverloadRow]:
    """One for each overload, by name."""
    public = {(each.name, each.line) for each in every}
    direct = Counter[str]()
    for (name, line, _), count in found.overloads.items():
        direct[name] += count if (name, line) not in public else 0
    for each in sorted(every, key=lambda each: (each.name, each.line)):
        counts = (found.overloads[each.name, each.line, outcome] for outcome in ("agree", "reason", "differ"))
        why = uncompared(found.family, str(each)) or _absent(each)
        if not why and direct[each.name]:
            why = f"the tests call `{each.name}_IMPL` instead: {direct[each.name]} calls"
        yield OverloadRow(each, *counts, why=why)


def _absent(overload: Overload) -> str:
    names = ", ".join(f"`{name}_IMPL`" for name in sorted(overload.made_of))
    return f"declared only: there is no {names} for this target" if names else ""


def short(problem: str) -> str:
    """The first line of what a compiler says, without folders."""
    return re.sub(r"(?<![\w.])/[\w./@+-]*/", "", problem.splitlines()[0])


def _reasons(found: Comparison) -> Iterator[str]:
    """The rows that calls match."""
    counts = Counter[int]()
    for (_, row), count in found.accepted.items():
        counts[row] += count
    for row in sorted(counts):
        names, kinds, why = (part.replace("|", r"\|") for part in ACCEPTED[row])
        yield f"| `{names}` | {kinds} | {counts[row]} | {why} |"


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
