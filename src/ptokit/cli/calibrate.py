"""`ptokit calibrate`: reads measured times, and fits the cost table of a target to them."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any

import numpy as np

from ptokit.brief import brief
from ptokit.cli.files import check_destination, print_text, read_text, write_all
from ptokit.cli.measured_operators import operator
from ptokit.cli.problems import FINE, FOUND, Misuse, misused, print_error, printable
from ptokit.cli.programs import library_call
from ptokit.cli.report import costs_in
from ptokit.cli.request import ProgramRequest
from ptokit.cli.subject import find
from ptokit.finding import OutOfBoundsError, VerifyError, counted
from ptokit.isa.dtype import DType, dtype
from ptokit.lang.kernel import Kernel
from ptokit.lang.launcher import Launchable, quiet_report
from ptokit.machine.costs import FORMAT
from ptokit.machine.fit import Calibration, Measurement, calibrate
from ptokit.machine.report import MachineOptions, aligned
from ptokit.target import Profile, profile

TRACE_FORMAT = 1
MOST_MEASUREMENTS = 10_000
MOST_TIMES = 10_000
"""Repetitions of a measurement."""
MOST_BLOCKS = 1 << 16
MOST_ELEMENTS = 1 << 28
"""Of all arrays of a launch."""
LONGEST_TIME = 1e9


@dataclass(frozen=True)
class ArraySpec:
    """An array by its type and shape. Integers are below `below`, drawn at random; everything else is zeros."""

    kind: DType
    shape: tuple[int, ...]
    below: int = 0


@dataclass(frozen=True)
class Measured:
    """One launch of a trace, and its time."""

    place: str
    """For messages: `trace.json: measurement 3`."""
    kernel: str = ""
    """A kernel of the command line; empty for an operator."""
    operator: Any = ""
    args: Mapping[str, Any] = field(default_factory=dict)
    """Of a kernel by name, of an operator its numbers and words."""
    arrays: tuple[ArraySpec, ...] = ()
    """Of a row of a table: inputs, then outputs."""
    grid: int = 1
    microseconds: float = 0.0
    with_launch: bool = False

    @property
    def name(self) -> str:
        """As the residuals name it."""
        if self.operator:
            return ", ".join([str(self.operator), *(f"{key} {value}" for key, value in self.args.items())])
        shapes = [_shown(each) for each in (*self.args.values(), *self.arrays)]
        return f"{self.kernel}({', '.join(shapes)})"


def _shown(value: object) -> str:
    if isinstance(value, ArraySpec):
        return f"{value.kind.name}[{','.join(map(str, value.shape))}]"
    return str(value)


@dataclass(frozen=True)
class Trace:
    """What a file has measured."""

    target: str | None
    measured: tuple[Measured, ...]
    ignored: int = 0
    """Rows of other operators."""


def read_trace(text: bytes, file: str, kernels: Iterable[str]) -> Trace:
    """The measurements of a file. Rows of a table count if they belong to one of the `kernels`."""
    try:
        decoded = text.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise Misuse(f"{file} is no text in UTF-8: byte {problem.start}") from problem
    if decoded.lstrip()[:1] in ("{", "["):
        return _json_trace(decoded, file)
    return _table(decoded, file, frozenset(kernels))


# --- JSON


def _json_trace(text: str, file: str) -> Trace:
    try:
        data = json.loads(text, object_pairs_hook=_unique, parse_constant=_refused)
    except json.JSONDecodeError as problem:
        raise Misuse(f"{file}:{problem.lineno}:{problem.colno}: no JSON: {problem.msg}") from problem
    except (ValueError, RecursionError) as problem:
        raise Misuse(f"{file}: {str(problem) or 'nested too deeply'}") from problem
    known = ("format", "target", "measurements")
    if (
        not isinstance(data, dict)
        or data.get("format") != TRACE_FORMAT
        or not isinstance(data.get("measurements"), list)
    ):
        raise Misuse(
            f'{file}: a trace is an object with "format": {TRACE_FORMAT}, "target" and an array of "measurements"'
        )
    if unknown := [name for name in data if name not in known]:
        raise Misuse(f"{file}: unknown field {brief(unknown[0])}; known: {', '.join(known)}")
    target, entries = data.get("target"), data["measurements"]
    if target is not None and not isinstance(target, str):
        raise Misuse(f"{file}: the target is a name, found {brief(target)}")
    if len(entries) > MOST_MEASUREMENTS:
        raise Misuse(f"{file} has more than {MOST_MEASUREMENTS:,} measurements")
    return Trace(target, tuple(_entry(each, f"{file}: measurement {k}") for k, each in enumerate(entries, 1)))


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"the field {brief(name)} is given twice")
        found[name] = value
    return found


def _refused(word: str) -> Any:
    raise ValueError(f"{word} is no number of JSON")


OWN = ("kernel", "operator", "args", "grid", "microseconds", "launch")
"""Fields of a measurement; others are numbers and words of an operator."""


def _entry(entry: object, place: str) -> Measured:
    if not isinstance(entry, dict):
        raise Misuse(f"{place}: a measurement is an object, found {brief(entry)}")
    kernel, operator = entry.get("kernel"), entry.get("operator")
    if (kernel is None) == (operator is None) or not isinstance(kernel or operator, str):
        raise Misuse(f'{place}: it needs the name of a "kernel" or of an "operator"')
    others = {name: value for name, value in entry.items() if name not in OWN}
    args = entry.get("args", {})
    if kernel is not None and others:
        raise Misuse(f"{place}: unknown field {brief(next(iter(others)))}; known: {', '.join(OWN)}")
    if not isinstance(args, dict) or (operator is not None and args):
        raise Misuse(f'{place}: "args" are the arguments of a kernel by name')
    grid, launch = entry.get("grid", 1), entry.get("launch", False)
    if isinstance(grid, bool) or not isinstance(grid, int) or not 1 <= grid <= MOST_BLOCKS:
        raise Misuse(f'{place}: "grid" takes a whole number from 1 up to {MOST_BLOCKS:,}, found {brief(grid)}')
    if not isinstance(launch, bool):
        raise Misuse(f'{place}: "launch" is true or false, found {brief(launch)}')
    times = entry.get("microseconds")
    values = {name: _argument(value, f"{place}: {name}") for name, value in args.items()}
    _bounded((each for each in values.values() if isinstance(each, ArraySpec)), place)
    return Measured(
        place, kernel or "", operator or "", values if kernel else others, (), grid, _time(times, place), launch
    )


def _time(value: object, place: str) -> float:
    """A time, or the median of several."""
    times: list[object] = value if isinstance(value, list) else [value]
    if not 1 <= len(times) <= MOST_TIMES:
        raise Misuse(f'{place}: "microseconds" takes a number or an array of 1 to {MOST_TIMES:,}')
    found = [each for each in times if isinstance(each, int | float) and not isinstance(each, bool)]
    wrong = [each for each in times if each not in found] + [each for each in found if not 0 < each <= LONGEST_TIME]
    if wrong:
        raise Misuse(f'{place}: "microseconds" are numbers above 0, found {brief(wrong[0])}')
    return float(median(found))


def _argument(value: object, place: str) -> object:
    """A number, a word, or an array by its type and shape."""
    from ptokit.cli.arguments import ZEROS

    if isinstance(value, dict):
        if not {*value} <= {"array", "below"} or not isinstance(value.get("array"), str):
            raise Misuse(f'{place}: an array is {{"array": "i32[64]", "below": 1000}}, found {brief(value)}')
        below = value.get("below", 0)
        if isinstance(below, bool) or not isinstance(below, int) or not 0 <= below <= 1 << 31:
            raise Misuse(f'{place}: "below" takes a whole number, found {brief(below)}')
        if not (found := ZEROS.fullmatch(value["array"])):
            raise Misuse(f"{place}: a type and shape are written i32[64], found {brief(value['array'])}")
        return _spec(found["type"], found["shape"].split(","), place, below)
    if isinstance(value, str) and (found := ZEROS.fullmatch(value)):
        return _spec(found["type"], found["shape"].split(","), place)
    if isinstance(value, str | bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    raise Misuse(f"{place}: an argument is a number, a word, or an array such as f32[1000,64]; found {brief(value)}")


def _spec(kind: str, shape: Sequence[str], place: str, below: int = 0) -> ArraySpec:
    with misused(TypeError, ValueError, by=f"{place}: "):
        return ArraySpec(dtype(kind), tuple(int(each[:20]) for each in shape if each.strip()), below)


def _bounded(arrays: Iterable[ArraySpec], place: str) -> None:
    if sum(math.prod(each.shape) for each in arrays) > MOST_ELEMENTS:
        raise Misuse(f"{place}: its arrays have more than {MOST_ELEMENTS:,} elements")


# --- tables

COLUMNS = {
    "name": ("Op Name", "Name"),
    "type": ("OP Type", "Type"),
    "blocks": ("Block Num", "Block Dim"),
    "duration": ("Task Duration(us)", "Duration(us)"),
    "vector": ("aiv_time(us)",),
    "cube": ("aicore_time(us)",),
    "inputs": ("Input Shapes",),
    "input types": ("Input Data Types",),
    "outputs": ("Output Shapes",),
    "output types": ("Output Data Types",),
}
"""What is read, by the columns that have it: the first that a table has counts."""
NEEDED = ("name", "blocks", "duration", "inputs", "input types", "outputs", "output types")
MISSING = ("", "N/A")
TYPES = {"float": "float32", "half": "float16", "bf16": "bfloat16", "double": "float64"}


def _table(text: str, file: str, kernels: frozenset[str]) -> Trace:
    rows = csv.reader(io.StringIO(text, newline=""))
    with misused(csv.Error, by=f"{file}:{rows.line_num}: "):
        found = _rows(rows, file)
        groups: dict[tuple[object, ...], list[Measured]] = {}
        ignored = 0
        for line, row in found:
            one = _row(row, f"{file}:{line}", kernels)
            if one is None:
                ignored += 1
            else:
                groups.setdefault((one.kernel, one.arrays, one.grid, one.with_launch), []).append(one)
    if len(groups) > MOST_MEASUREMENTS:
        raise Misuse(f"{file} has more than {MOST_MEASUREMENTS:,} different launches")
    return Trace(None, tuple(map(_typical, groups.values())), ignored)


def _rows(rows: Any, file: str) -> Iterator[tuple[int, dict[str, str]]]:
    """The rows of a table with their lines, by what they hold."""
    header = [each.strip() for each in next(rows, [])]
    at = {what: next((header.index(name) for name in names if name in header), -1) for what, names in COLUMNS.items()}
    if missing := [what for what in NEEDED if at[what] < 0]:
        names = ", ".join(" or ".join(map(repr, COLUMNS[what])) for what in missing)
        raise Misuse(f"{file}:1: neither JSON nor a table of operators: it has no column {names}")
    for row in rows:
        if any(row):
            cells = {what: row[k].strip() if 0 <= k < len(row) else "" for what, k in at.items()}
            yield rows.line_num, cells


def _row(row: Mapping[str, str], place: str, kernels: frozenset[str]) -> Measured | None:
    """A row; None if it is of no kernel of the command line."""
    kernel = next((name for name in (row["name"], row["type"]) if name in kernels), None)
    if kernel is None:
        return None
    inputs = _arrays(row["inputs"], row["input types"], place)
    outputs = _arrays(row["outputs"], row["output types"], place)
    _bounded((*inputs, *outputs), place)
    own = [_cell(row[what], place) for what in ("vector", "cube") if row[what] not in MISSING]
    inside = max(own, default=0.0)
    time = inside or _cell(row["duration"], place)
    if time <= 0:
        raise Misuse(f"{place}: the time is {time:g}")
    blocks = _cell(row["blocks"], place)
    if blocks != int(blocks) or not 1 <= blocks <= MOST_BLOCKS:
        raise Misuse(
            f"{place}: a number of blocks from 1 up to {MOST_BLOCKS:,} is needed, found {brief(row['blocks'])}"
        )
    high = max([1, *(each.shape[0] for each in inputs[:1] if each.shape)])
    arrays = tuple(ArraySpec(each.kind, each.shape, 0 if each.kind.is_float else high) for each in inputs) + outputs
    return Measured(place, kernel, "", {}, arrays, int(blocks), time, not inside)


def _cell(text: str, place: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not 0 <= found <= LONGEST_TIME:
        raise Misuse(f"{place}: a number from 0 up is needed, found {brief(text)}")
    return found


def _arrays(shapes: str, types: str, place: str) -> tuple[ArraySpec, ...]:
    """`"16,32;128"` and `FLOAT;INT32`."""
    if shapes in MISSING and types in MISSING:
        return ()
    parts, kinds = shapes.strip('"').split(";"), types.strip('"').split(";")
    if len(parts) != len(kinds):
        raise Misuse(f"{place}: {len(parts)} shapes and {len(kinds)} types do not match")
    named = [kind.strip().upper().removeprefix("DT_").lower() for kind in kinds]
    return tuple(_spec(TYPES.get(kind, kind), part.split(","), place) for part, kind in zip(parts, named, strict=True))


def _typical(rows: Sequence[Measured]) -> Measured:
    """The median of equal launches; the first of three or more is a warm-up."""
    kept = rows[1:] if len(rows) > 2 else rows
    return replace(rows[0], microseconds=median(each.microseconds for each in kept))


# --- the fit


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
            with misused(Misuse, by=f"{each.place}: "), library_call():
                report = quiet_report(kernel[each.grid], *args, **keywords, target=target.name, options=options)
        except (VerifyError, OutOfBoundsError) as refusal:
            raise Misuse(f"{each.place}: {refusal.findings[0].message}") from refusal
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
