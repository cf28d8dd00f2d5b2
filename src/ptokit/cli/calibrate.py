"""`ptokit calibrate`: fits the cost table of a target to measured times."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ptokit.cli.files import check_destination, print_text, read_text, write_all
from ptokit.cli.operators import operator
from ptokit.cli.problems import FINE, FOUND, Misuse, misused, print_error, printable
from ptokit.cli.programs import library_call
from ptokit.cli.report import costs_in
from ptokit.cli.request import ProgramRequest
from ptokit.cli.subject import find
from ptokit.cli.trace import ArraySpec, Measured, Trace, read_trace
from ptokit.finding import OutOfBoundsError, VerifyError, counted
from ptokit.lang.kernel import Kernel
from ptokit.lang.launcher import Launchable, quiet_report
from ptokit.machine.costs import FORMAT
from ptokit.machine.fit import Calibration, Measurement, calibrate
from ptokit.machine.options import MachineOptions
from ptokit.machine.report import aligned
from ptokit.target import Profile, profile

MOST_OPERATIONS = 1_000_000
"""Operations of all launches together: the fit times them again and again."""


def calibrate_costs(
    file: str, words: Sequence[str], target: str | None, costs: str | None, out: str, as_json: bool
) -> int:
    """Fit, print the residuals, and write the determined numbers."""
    check_destination(out)
    given = costs_in(costs)
    kernels = _kernels(words)
    trace = read_trace(read_text(file), file, kernels)
    if not trace.measured:
        hint = f"; {counted(trace.ignored, 'row')} of other operators: name theirs with --kernel"
        raise Misuse(f"{file} has no measurements{hint if trace.ignored else ''}")
    used = _profile(file, trace, target)
    measurements = _recorded(trace, kernels, used)
    with misused(ValueError):
        found = calibrate(used, measurements, given)
    table = {"format": FORMAT, "target": used.name, "costs": {**given, **found.costs}}
    if found.costs:
        written = json.dumps({**table, **_numbers(found)}, indent=2).encode("utf-8") + b"\n"
        write_all({out: lambda stream: stream.write(written)})
    _show(found, trace, out if found.costs else None, as_json)
    return FINE if found.costs else FOUND


def _kernels(words: Sequence[str]) -> dict[str, Launchable]:
    """The kernels of the command line, by their words and by their names."""
    found: dict[str, Launchable] = {}
    for word in words:
        kernel = find(ProgramRequest(word))
        for name in {word, kernel.name}:
            if found.setdefault(name, kernel) is not kernel:
                raise Misuse(f"--kernel: two kernels are named {name}")
    return found


def _profile(file: str, trace: Trace, target: str | None) -> Profile:
    """The target of a trace, which has costs."""
    name = target or trace.target
    if name is None:
        raise Misuse(f"{file} names no target; give --target")
    with misused(ValueError, by=f"{file}: "):
        found = profile(name)
        named = profile(trace.target) if trace.target else found
    if named.family != found.family:
        raise Misuse(f"{file} is of {trace.target}, not of {target}")
    if not found.costs:
        raise Misuse(f"{found.name} has no costs")
    return found


# --- launches


def _recorded(trace: Trace, kernels: Mapping[str, Launchable], target: Profile) -> list[Measurement]:
    """Every launch on the machine once, without times."""
    found, operations = list[Measurement](), 0
    for each in trace.measured:
        kernel, args, keywords = _launch(each, kernels)
        options = MachineOptions(checks=("time",), timeline=MOST_OPERATIONS)
        try:
            with library_call():
                report = quiet_report(kernel[each.grid], *args, **keywords, target=target.name, options=options)
        except (VerifyError, OutOfBoundsError) as refusal:
            raise Misuse(f"{each.place}: {refusal.findings[0].message}") from refusal
        except Misuse as problem:
            raise Misuse(f"{each.place}: {problem}") from problem
        if errors := [finding for finding in report.findings if finding.level == "error"]:
            raise Misuse(f"{each.place}: {errors[0].message}")
        assert report.timeline and report.timeline.record
        record = report.timeline.record
        operations += sum(map(len, record.blocks))
        if not record.blocks or operations > MOST_OPERATIONS:
            raise Misuse(f"{each.place}: the launches have more than {MOST_OPERATIONS:,} steps of different blocks")
        found.append(Measurement(each.name, each.microseconds, record, each.with_launch))
    return found


def _launch(each: Measured, kernels: Mapping[str, Launchable]) -> tuple[Launchable, Sequence[Any], dict[str, Any]]:
    """The kernel of a measurement and its arguments."""
    if each.operator:
        with misused(Misuse, by=f"{each.place}: "):
            kernel, args = operator(each.operator, each.args, each.grid)
        return kernel, args, {}
    kernel = kernels.get(each.kernel)
    if kernel is None:
        raise Misuse(f"{each.place}: no --kernel is {each.kernel}; a trace imports nothing by itself")
    names = kernel.parameters if isinstance(kernel, Kernel) else ()
    free = [name for name in names if name not in (kernel.constants if isinstance(kernel, Kernel) else ())]
    if each.arrays and isinstance(kernel, Kernel) and len(free) != len(each.arrays):
        count = f"{len(each.arrays)} inputs and outputs"
        raise Misuse(f"{each.place}: {count} do not match the parameters of {kernel.name}: {', '.join(free)}")
    random = np.random.default_rng(0)
    keywords = {name: _value(value, random) for name, value in each.args.items()}
    return kernel, [_value(value, random) for value in each.arrays], keywords


def _value(value: object, random: np.random.Generator) -> object:
    if not isinstance(value, ArraySpec):
        return value
    if value.below:
        return random.integers(0, value.below, value.shape).astype(value.kind.numpy)
    return np.zeros(value.shape, value.kind.numpy)


# --- the result


def _numbers(found: Calibration) -> dict[str, Any]:
    """The quality of the fit, as plain data."""
    return {"errors": dict(found.errors), "kept": dict(found.kept), "noise": found.noise, "launch": found.launch}


def _kept(kept: Mapping[str, str]) -> Iterator[str]:
    """The numbers that keep their values, by the reason."""
    for why in dict.fromkeys(kept.values()):
        yield f"{why}: {', '.join(name for name, reason in kept.items() if reason == why)}"


def _show(found: Calibration, trace: Trace, out: str | None, as_json: bool) -> None:
    if as_json:
        residuals = [{**vars(each), "error": each.error} for each in found.residuals]
        data = {"format": 1, "command": "calibrate", "target": found.target, "file": out, "costs": dict(found.costs)}
        print_text(json.dumps({**data, **_numbers(found), "residuals": residuals}, indent=2) + "\n")
        return
    rows: list[tuple[str, ...]] = [("microseconds", "before", "fitted", "error", "of")]
    for each in found.residuals:
        times = (f"{time:,.2f}" for time in (each.measured, each.before, each.after))
        rows.append((*times, f"{each.error:+.1%}", each.name))
    head = f"{found.target}, {counted(len(found.residuals), 'measurement')}, noise {found.noise:.1%}"
    lines = [head, *map(str.rstrip, aligned(rows))]
    if found.launch is not None:
        lines.append(f"to start a kernel takes {found.launch:,.2f} us")
    if found.costs:
        table = [("was", "is", "error", "number")]
        for name, number in found.costs.items():
            table.append((f"{found.before[name]:,.4g}", f"{number:,.4g}", f"{found.errors[name]:.1%}", name))
        lines += ["", *map(str.rstrip, aligned(table))]
    lines += ["", *_kept(found.kept)]
    nothing = "no number is determined, and nothing is written"
    lines.append(f"{counted(len(found.costs), 'number')} written into {out}" if out else nothing)
    print_text(printable("\n".join(lines)) + "\n")
    if trace.ignored:
        print_error(f"{counted(trace.ignored, 'row')} of other operators", "")
