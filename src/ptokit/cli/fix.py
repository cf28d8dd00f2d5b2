"""`check --fix`: the flags of a program repaired in its source."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any

from ptokit import progress
from ptokit.cli.files import STDIN, check_unnamed, print_text, write_all
from ptokit.cli.live import LaunchCheck, run_launches, show_kernels
from ptokit.cli.problems import FOUND, SHOWN, Misuse, print_error, printable, status_of, with_shown_names
from ptokit.cli.programs import check_program, library_call, machine_report, status_of_check
from ptokit.cli.report import print_json
from ptokit.cli.request import ALL, ProgramRequest
from ptokit.cli.subject import find, forget
from ptokit.finding import OutOfBoundsError, VerifyError, shown_file
from ptokit.lang.check import WatchedLaunch
from ptokit.lang.launcher import Launchable
from ptokit.lang.patch import encoded
from ptokit.machine.report import NEEDLESS, ORDER, MachineReport, Patch, Repair
from ptokit.program.repair import Unpatchable
from ptokit.target import families_with_pipes, profile
from ptokit.text.errors import TextError

MOST_ROUNDS = 4
"""How often launches are repaired one after the other."""
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

    def __post_init__(self) -> None:
        if not self.fix:
            raise Misuse(f"{'--diff' if self.diff else '--needless'} belongs to --fix")


Named = tuple[str, Repair]
"""A repair, and the name of its kernel."""


@dataclass(frozen=True, eq=False)
class Trial:
    """A launch to repair."""

    kernel: Launchable
    target: str
    run: Callable[[Launchable], MachineReport]
    """Runs the launch with another kernel."""


class Fixing:
    """Launches while they are repaired one after the other."""

    def __init__(self, trials: Sequence[Trial], *, needless: bool) -> None:
        self.trials, self.needless = trials, needless
        self.before: dict[str, str] = {}
        self.after: dict[str, str] = {}
        self.done: list[Named] = []
        """Repairs that are in the source."""
        self.refused: list[Named] = []
        """Repairs that the source cannot express."""
        self.reports: dict[Trial, MachineReport | None] = {}
        """The last report of each launch; None if it cannot be run."""
        self._changes: dict[Trial, int] = {}
        """How many repairs there were when the report was made."""
        at_first = [self._is_ok(trial) for trial in trials]
        for _ in range(MOST_ROUNDS):  # what repairs one launch may disturb another
            count = len(self.done)
            for trial in trials:
                for repair in self._repairs(trial, ORDER):
                    self._take(trial, repair)
            if len(self.done) == count:
                break
        if any(was_ok and not self._is_ok(trial) for trial, was_ok in zip(trials, at_first, strict=True)):
            why = "another launch needs other flags at the same lines"
            self.refused += [(name, replace(repair, patch=Patch(refusal=why))) for name, repair in self.done]
            self.after, self.done = {}, []
        for trial in trials if needless else ():
            self._remove(trial)
        self.is_left = not all(map(self._is_ok, trials))
        """Whether a launch has findings at last."""

    @property
    def offered(self) -> list[Named]:
        """Removals that were not asked for."""
        first = {} if self.needless else {(trial.kernel.name, trial.target): trial for trial in reversed(self.trials)}
        found = ((trial, repair) for trial in first.values() for repair in self._repairs(trial, NEEDLESS))
        return [(trial.kernel.name, repair) for trial, repair in found if not self._disturbs(trial, repair)]

    @property
    def patch(self) -> Patch:
        """The whole change."""
        changed = {file: text for file, text in self.after.items() if text != self.before[file]}
        return Patch({file: self.before[file] for file in changed}, changed)

    def _report(self, trial: Trial) -> MachineReport | None:
        """The report of a launch with the repairs so far."""
        if self._changes.get(trial) != len(self.done):
            self._changes[trial] = len(self.done)
            self.reports[trial] = self._tried(trial, self.after)
        return self.reports[trial]

    def _tried(self, trial: Trial, texts: Mapping[str, str]) -> MachineReport | None:
        try:
            return trial.run(trial.kernel.definition.with_texts(texts) if texts else trial.kernel)
        except (VerifyError, OutOfBoundsError, Unpatchable):  # the check reports it
            return None

    def _is_ok(self, trial: Trial) -> bool:
        report = self._report(trial)
        return report is not None and report.ok

    def _repairs(self, trial: Trial, kind: str) -> list[Repair]:
        """The repairs of a launch. Their search traces the kernel again, which may print."""
        report = self._report(trial)
        with library_call():
            return [repair for repair in (report.repairs if report is not None else ()) if repair.kind == kind]

    def _remove(self, trial: Trial) -> None:
        """Remove what no launch needs."""
        for _ in range(MOST_REMOVED):
            found = (repair for repair in self._repairs(trial, NEEDLESS) if not self._disturbs(trial, repair))
            if not any(self._take(trial, repair) for repair in found):
                return

    def _disturbs(self, trial: Trial, repair: Repair) -> bool:
        """Whether a launch that was clean would not be clean with a repair of another one."""
        others = (each for each in self.trials if each is not trial and self._is_ok(each))
        reports = (self._tried(each, {**self.after, **repair.patch.after}) for each in others)
        return not all(report and report.ok for report in reports)

    def _take(self, trial: Trial, repair: Repair) -> bool:
        named = (trial.kernel.name, repair)
        if repair.patch.refusal:
            self.refused += [named] if named not in self.refused else []
            return False
        for file, text in repair.patch.before.items():
            self.before.setdefault(file, text)
        self.after.update(repair.patch.after)
        self.done.append(named)
        return True


def fix_program(request: ProgramRequest, wanted: FixRequest, as_json: bool) -> int:
    """Repair a program in its source, or print how. Exit status: as that of the check; of the unchanged source with a
    diff."""
    if (request.word == STDIN or request.word in SHOWN) and not wanted.diff:
        raise Misuse("--fix cannot write to standard input; use --fix --diff")
    if (
        os.path.exists(request.word) and not os.path.isdir(request.word) and not wanted.diff
    ):  # the names of sources are without links later
        check_unnamed(request.word)
    try:
        kernel = find(request)
    except (TextError, VerifyError, OutOfBoundsError):
        return check_program(request, as_json)

    def run(target: str, kernel: Launchable) -> MachineReport:
        return machine_report(kernel, request, target)

    trials = [Trial(kernel, name, partial(run, name)) for name in _targets(request.target)]
    fixing = Fixing(trials, needless=wanted.needless)
    _write_changes(fixing, wanted)
    if as_json:
        status, grid = status_of_check(request)
        print_json("check", kernel=kernel.name, grid=grid, **_data(fixing))
        return status
    _show(fixing, wanted)
    return status_of_check(request)[0] if wanted.diff else check_program(request, as_json, run=True)


def fix_launches(
    request: ProgramRequest, args: Sequence[str], wanted: FixRequest, as_json: bool, *, is_module: bool
) -> int:
    """Run a Python file, and repair the kernels that it launches, or print how. The file is not run again."""
    outcome = run_launches(request, args, is_module=is_module, keeps=True)

    def run(launch: WatchedLaunch, kernel: Launchable) -> MachineReport:
        with library_call():
            return replace(launch, kernel=kernel).report()

    each = ((outcome.check.on(launch, name), name) for launch, targets in outcome.check.kept for name in targets)
    trials = [Trial(launch.kernel, name, partial(run, launch)) for launch, name in each if profile(name).pipes]
    with progress.task(f"repair {outcome.name},"):
        fixing = Fixing(trials, needless=wanted.needless)
    texts = fixing.patch.after
    written = [launch.kernel.definition.with_texts(texts, written=True) for launch, _ in outcome.check.kept]
    _write_changes(fixing, wanted)
    if as_json:
        print_json("check", file=outcome.name, error=outcome.error, **_data(fixing))
    else:
        _show(fixing, wanted)
    kernels = [*outcome.kernels]
    if not wanted.diff:
        again = LaunchCheck(request)
        for kernel, (launch, targets) in zip(written, outcome.check.kept, strict=True):
            with library_call():
                again.look(replace(launch, kernel=kernel), targets)
        kernels = [*again.kernels.values()]
        if not as_json:
            show_kernels(kernels)
    outcome.explain()
    return FOUND if outcome.problem else status_of(chain.from_iterable(each.findings for each in kernels))


def _write_changes(fixing: Fixing, wanted: FixRequest) -> None:
    """Write the change, unless only a diff is wanted."""
    if wanted.diff:
        return
    texts = fixing.patch.after
    for file in texts:
        check_unnamed(file)
    write_all({file: partial(_write, file, text) for file, text in texts.items()})
    forget()


def _show(fixing: Fixing, wanted: FixRequest) -> None:
    """Print the diff, or what was changed."""
    if wanted.diff:
        print_text(with_shown_names(shown_diff(fixing.patch)))
        for line in _refusals(fixing):
            print_error(line, "")
    else:
        for line in _summary(fixing):
            print_text(printable(line) + "\n")


def _write(file: str, text: str, stream: Any) -> None:
    stream.write(encoded(file, text))


def _targets(name: str | None) -> list[str]:
    """The targets with pipes among those of a check."""
    if name not in (None, ALL):
        return [profile(name).name] if profile(name).pipes else []
    return [*families_with_pipes()]


def shown_diff(patch: Patch) -> str:
    """A diff with the names of files that are shown."""
    names = {file: shown_file(file) for file in patch.after}
    return Patch(
        {names[file]: text for file, text in patch.before.items()},
        {names[file]: text for file, text in patch.after.items()},
    ).diff


def _summary(fixing: Fixing) -> Iterator[str]:
    """What was changed, and what could not be."""
    for name, repair in fixing.done:
        yield f"{', '.join(map(shown_file, repair.patch.after))}: {name}, {repair}"
    if not fixing.done and not fixing.refused and not fixing.is_left:
        yield "nothing to repair"
    for name, repair in fixing.offered:
        yield f"{name}, {repair} (--fix --needless removes it)"
    yield from _refusals(fixing)


def _refusals(fixing: Fixing) -> Iterator[str]:
    for name, repair in fixing.refused:
        yield f"{name}: the source cannot be changed: {repair.patch.refusal}; by hand:\n{repair}"
    if fixing.is_left and not fixing.refused:
        yield "findings remain that no flag can repair"


def _data(fixing: Fixing) -> dict[str, Any]:
    """The repairs as plain data."""
    return {
        "diff": shown_diff(fixing.patch),
        "repairs": [_repair_data(*each, True) for each in fixing.done]
        + [_repair_data(*each, False) for each in fixing.refused],
    }


def _repair_data(name: str, repair: Repair, applied: bool) -> dict[str, Any]:
    return {
        "kernel": name,
        "kind": repair.kind,
        "target": repair.target,
        "cycles": repair.cycles,
        "edits": [edit.text(repair.form) for edit in repair.edits],
        "in_source": applied,
        "refusal": repair.patch.refusal,
    }
