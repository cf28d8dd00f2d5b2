"""`check --fix`: the flags of a program repaired in its source."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from ptokit.cli.files import STDIN, check_destination, print_text, write_all
from ptokit.cli.parsing import ALL
from ptokit.cli.problems import FINE, FOUND, Misuse, print_error, printable
from ptokit.cli.programs import ProgramRequest, check_program, library_call, machine_report
from ptokit.cli.report import print_json
from ptokit.cli.subject import find
from ptokit.finding import OutOfBoundsError, VerifyError
from ptokit.lang.launcher import Launchable
from ptokit.lang.patch import encoded
from ptokit.machine.proposal import NEEDLESS, ORDER, Patch, Repair
from ptokit.machine.report import MachineReport
from ptokit.target import PROFILES, profile
from ptokit.text.errors import TextError

MOST_REMOVED = 1000
"""Needless flags that one command removes."""


@dataclass(frozen=True)
class FixRequest:
    """What `check` is to do with the source."""

    fix: bool
    diff: bool
    """Print a diff, and write nothing."""
    needless: bool
    """Remove flags and barriers that nothing needs."""


class Fixing:
    """A kernel while targets are repaired one after the other."""

    def __init__(self, kernel: Launchable, request: ProgramRequest, *, needless: bool) -> None:
        self.kernel, self.request, self.needless = kernel, request, needless
        self.before: dict[str, str] = {}
        self.after: dict[str, str] = {}
        self.done: list[Repair] = []
        """Repairs that are in the source."""
        self.refused: list[Repair] = []
        """Repairs that the source cannot express."""
        self.reports: dict[str, MachineReport] = {}
        """The last report of each target."""
        self.faulty = False
        """Whether a target had findings at first."""
        self.raised: set[str] = set()
        """Targets on which it cannot be run."""

    @property
    def is_left(self) -> bool:
        """Whether a target has findings at last."""
        return bool(self.raised) or not all(report.ok for report in self.reports.values())

    @property
    def offered(self) -> list[Repair]:
        """Removals that were not asked for."""
        found = (repair for report in self.reports.values() for repair in _repairs(report, NEEDLESS))
        return [] if self.needless else list(found)

    @property
    def patch(self) -> Patch:
        """The whole change."""
        changed = {file: text for file, text in self.after.items() if text != self.before[file]}
        return Patch({file: self.before[file] for file in changed}, changed)

    def run(self, target: str) -> None:
        """Repair the kernel for a target; then remove what nothing needs, if asked."""
        try:
            report = machine_report(self.kernel, self.request, target)
        except (VerifyError, OutOfBoundsError):  # check_program reports it
            self.faulty = True
            self.raised.add(target)
            return
        self.faulty = self.faulty or not report.ok
        self.reports[target] = self._apply(report, target, ORDER)
        for _ in range(MOST_REMOVED if self.needless else 0):
            count = len(self.done)
            self.reports[target] = self._apply(self.reports[target], target, NEEDLESS)
            if len(self.done) == count:
                return

    def _apply(self, report: MachineReport, target: str, kind: str) -> MachineReport:
        """Make the first repair of a kind; returns the report of the kernel then."""
        for repair in _repairs(report, kind):
            if repair.patch.refusal:
                self.refused += [repair] if repair not in self.refused else []
                continue
            self._take(repair)
            return machine_report(self.kernel, self.request, target)
        return report

    def _take(self, repair: Repair) -> None:
        for file, text in repair.patch.before.items():
            self.before.setdefault(file, text)
        self.after.update(repair.patch.after)
        self.kernel = repair.patch.kernel
        self.done.append(repair)


def _repairs(report: MachineReport, kind: str) -> list[Repair]:
    """The repairs of a kind. Their search traces the kernel again, which may print."""
    with library_call():
        return [repair for repair in report.repairs if repair.kind == kind]


def fix_program(request: ProgramRequest, how: FixRequest, as_json: bool) -> int:
    """Repair a program in its source, or print how. Exit status: as that of the check; of the unchanged source with a
    diff."""
    if not how.fix:
        raise Misuse(f"{'--diff' if how.diff else '--needless'} belongs to --fix")
    if request.word == STDIN and not how.diff:
        raise Misuse("--fix cannot write to standard input; use --fix --diff")
    try:
        kernel = find(request.word, request.function)
    except (TextError, VerifyError, OutOfBoundsError):
        return check_program(request, as_json)
    fixing = Fixing(kernel, request, needless=how.needless)
    targets = _targets(request.target)
    for _ in targets:  # what repairs one target may disturb another
        count = len(fixing.done)
        for target in targets:
            fixing.run(target)
        if len(fixing.done) == count:
            break
    if how.diff:
        return _show_diff(fixing, as_json)
    patch = fixing.patch
    for file in patch.after:
        check_destination(file)
    write_all({file: partial(_write, file, text) for file, text in patch.after.items()})
    if as_json:
        print_json("check", **_data(fixing))
        return FOUND if fixing.is_left else FINE
    for line in _summary(fixing):
        print_text(printable(line) + "\n")
    return check_program(request, as_json, run=True)


def _write(file: str, text: str, stream: Any) -> None:
    stream.write(encoded(file, text))


def _targets(name: str | None) -> list[str]:
    """The targets with pipes among those of a check."""
    if name not in (None, ALL):
        return [profile(name).name] if profile(name).pipes else []
    return [each.name for each in PROFILES.values() if each.pipes and each.name == each.family]


def _show_diff(fixing: Fixing, as_json: bool) -> int:
    if as_json:
        print_json("check", **_data(fixing))
    else:
        print_text(shown_diff(fixing.patch))
        for line in _refusals(fixing):
            print_error(line, "")
    return FOUND if fixing.faulty else FINE


def shown_diff(patch: Patch) -> str:
    """A diff with paths relative to the current directory, if they are inside."""
    names = {file: _relative(file) for file in patch.after}
    return Patch(
        {names[file]: text for file, text in patch.before.items()},
        {names[file]: text for file, text in patch.after.items()},
    ).diff


def _relative(file: str) -> str:
    inside = os.getcwd().rstrip(os.sep) + os.sep
    return file.removeprefix(inside)


def _summary(fixing: Fixing) -> Iterator[str]:
    """What was changed, and what could not be."""
    for repair in fixing.done:
        yield f"{', '.join(map(_relative, repair.patch.after))}: {repair}"
    if not fixing.done and not fixing.refused and not fixing.is_left:
        yield "nothing to repair"
    for repair in fixing.offered:
        yield f"{repair} (--fix --needless removes it)"
    yield from _refusals(fixing)


def _refusals(fixing: Fixing) -> Iterator[str]:
    for repair in fixing.refused:
        yield f"the source cannot be changed: {repair.patch.refusal}; by hand:\n{repair}"
    if fixing.is_left and not fixing.refused:
        yield "findings remain that no flag can repair"


def _data(fixing: Fixing) -> dict[str, Any]:
    """The repairs as plain data."""
    return {
        "kernel": fixing.kernel.name,
        "grid": fixing.request.grid,
        "diff": shown_diff(fixing.patch),
        "repairs": [_repair_data(repair, True) for repair in fixing.done]
        + [_repair_data(repair, False) for repair in fixing.refused],
    }


def _repair_data(repair: Repair, applied: bool) -> dict[str, Any]:
    return {
        "kind": repair.kind,
        "target": repair.target,
        "cycles": repair.cycles,
        "edits": [edit.text(repair.form) for edit in repair.edits],
        "in_source": applied,
        "refusal": repair.patch.refusal,
    }
