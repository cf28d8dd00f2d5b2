"""Measured times from a file: JSON, or the tables of msprof (`op_summary_*.csv`) and torch_npu (`kernel_details.csv`).

Nothing in such a file is executed. It names kernels; which files those are in, the command line says. Errors name the
measurement, or the line of a table.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any

from ptokit.brief import brief
from ptokit.cli.problems import Misuse, misused
from ptokit.isa.dtype import DType, dtype

FORMAT = 1
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
    """The measurements of a file. Rows of a table count if they are those of one of the `kernels`."""
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
    if not isinstance(data, dict) or data.get("format") != FORMAT or not isinstance(data.get("measurements"), list):
        raise Misuse(f'{file}: a trace is an object with "format": {FORMAT}, "target" and an array of "measurements"')
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
