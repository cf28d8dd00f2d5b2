"""`ptokit conformance`: test vectors for other implementations, and the verdicts on what these make of them."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from ptokit.cli.files import print_text
from ptokit.cli.problems import FINE, FOUND, UNMODELLED, Misuse, described, misused, printable
from ptokit.cli.programs import library_call
from ptokit.cli.report import print_answer, print_json
from ptokit.conformance.answer import answer as answer_cases
from ptokit.conformance.export import Unwritable, export
from ptokit.conformance.judge import VERDICTS, CaseVerdict, Judge, by_clause
from ptokit.engine.runnable import REFERENCE
from ptokit.finding import counted

MOST_SHOWN = 20
"""Cases that are not passed and are listed."""


def export_cases(folder: str, targets: Sequence[str], only: str, as_json: bool) -> int:
    """Write the cases."""
    with misused(OSError, by=f"cannot write {folder}: "), library_call(), misused(Unwritable):
        index = export(folder, targets, only)
    found = Counter(case["target"] for case in index["cases"])
    shown = ", ".join(f"{count:,} for {target}" for target, count in found.items())
    programs = counted(len(index["programs"]), "program")
    about = f"{folder}: {counted(len(index['cases']), 'case')} of {programs}: {shown}"
    return print_answer(
        "conformance export", as_json, about, folder=folder, programs=len(index["programs"]), cases=found
    )


def run_cases(
    folder: str | None, command: str, targets: Sequence[str], only: Sequence[str], as_json: bool, **limits: float
) -> int:
    """Judge an implementation by an export, or by cases that are made for this run."""
    with tempfile.TemporaryDirectory(prefix="ptokit-") as temporary:
        home = folder or str(Path(temporary, "cases"))
        with misused(ValueError):
            judge = Judge(Path(home).absolute(), command, **limits)  # type: ignore[arg-type]
        if folder is None:
            export(home, targets)
        try:
            with misused(ValueError, by=f"{home}: "):
                found = judge.judge(targets, only)
        except OSError as problem:
            file = problem.filename or home
            raise Misuse(
                f"cannot read {file}: {described(problem)}; `ptokit conformance export` writes it"
            ) from problem
    if not found:
        raise Misuse("there is no such case")
    totals = Counter(each.verdict for each in found)
    if as_json:
        fields = [{"id": each.id, "verdict": each.verdict, "reason": each.reason} for each in found]
        print_json("conformance run", totals=totals, clauses=by_clause(found), cases=fields)
    else:
        print_text(printable("\n".join(_lines(found, totals)) + "\n"))
    return FOUND if totals["failed"] or totals["refused"] else UNMODELLED if totals["unsupported"] else FINE


def _lines(found: Sequence[CaseVerdict], totals: Counter[str]) -> list[str]:
    """The table, and the first cases that are not passed."""
    table = by_clause(found)
    wide = max(map(len, (*table, "all cases")))
    rows = {"clause": VERDICTS, **table, "all cases": totals}
    lines = [
        f"{name:<{wide}}" + "".join(f"{(row[word] if isinstance(row, Counter) else word)!s:>13}" for word in VERDICTS)
        for name, row in rows.items()
    ]
    wrong = [each for each in found if each.reason]
    more = [f"and {counted(len(wrong) - MOST_SHOWN, 'more case')}"] if len(wrong) > MOST_SHOWN else []
    return [*lines, *(f"{each.id}: {each.verdict}: {each.reason}" for each in wrong[:MOST_SHOWN]), *more]


def answer(case: str, out: str, engine: str) -> int:
    """Run a case, as an implementation does."""
    with library_call(), misused(OSError, KeyError, by=f"{case} is no case: "):
        return answer_cases(Path(case), Path(out), engine or REFERENCE)
