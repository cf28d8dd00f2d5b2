"""Describes the outcome of running code that breaks a clause, on every target of the example.

`make generated` writes the file for the pages of `ptokit explain`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import json

import ptokit as pto
from ptokit import spec
from tests.conformance.harness import Reported, findings_of, run_once, targets_of

FILE = Path(spec.__file__).resolve().parent / "outcomes" / "outcomes.toml"
SAID = {
    pto.VerifyError: "refused by",
    pto.OutOfBoundsError: "OutOfBoundsError,",
    pto.HazardWarning: "warned of by",
    Reported: "reported by the machine:",
}


def outcome(code: str, target: str, op: str = "") -> str:
    """What the run of some code shows."""
    try:
        run_once(code, target, op)
    except Exception as stop:
        found = [finding for finding in findings_of(stop) if finding.level != "note"]
        for kind, text in SAID.items():
            if isinstance(stop, kind):
                return f"{text} {_rules(found, target, levels=kind is Reported)}"
        return "the assertion fails" if isinstance(stop, AssertionError) else f"raises {type(stop).__name__}"
    return "runs"


def _rules(findings: Iterable[pto.Finding], target: str, *, levels: bool) -> str:
    """`MG-MODE-03 (H-40), A-57 (H-07)`, with the target where the code chooses another one."""
    return ", ".join(dict.fromkeys(_rule(f, target, level=levels) for f in findings))


def _rule(finding: pto.Finding, target: str, *, level: bool) -> str:
    text = f"{finding.level} " * level + finding.rule + f" ({finding.kind})" * bool(finding.kind)
    return f"{text} on {finding.target}" if finding.target not in ("", target) else text


def outcomes(name: str) -> list[dict[str, str]]:
    """For every piece of code that breaks a clause: what it shows on each target."""
    example = spec.examples()[name]
    found: list[dict[str, str]] = []
    for code in example.breaks:
        shown: dict[str, str] = {}
        for target in targets_of(name):
            ways = dict.fromkeys(outcome(code, target, op) for op in example.each or ("",))
            shown[target] = ", or ".join(ways)
        found.append(shown)
    return found


def written() -> str:
    """All outcomes as TOML."""
    lines = ["# Written by `make generated` from runs of the examples.", ""]
    for name in sorted(name for name, example in spec.examples().items() if example.breaks):
        rows = [
            "  { " + ", ".join(f"{json.dumps(target)} = {json.dumps(shown)}" for target, shown in row.items()) + " },"
            for row in outcomes(name)
        ]
        lines += [f'["{name}"]', "breaks = [", *rows, "]", ""]
    return "\n".join(lines)
