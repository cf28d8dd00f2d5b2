"""`ptokit sweep`: a program on the machine over values of parameters."""

from __future__ import annotations

import json
import os
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ptokit.brief import brief
from ptokit.cli.arguments import constant, pairs
from ptokit.cli.files import Write, check_destination, shown_name, write_all
from ptokit.cli.problems import FINE, FOUND, UNMODELLED, Misuse, misused
from ptokit.cli.programs import machine_report
from ptokit.cli.report import print_answer, terminal_width
from ptokit.cli.request import ALL, ProgramRequest
from ptokit.cli.subject import find, is_source, source_texts
from ptokit.finding import VerifyError, suggestion
from ptokit.lang.launcher import Launchable
from ptokit.machine.report import MachineReport, aligned
from ptokit.render.tables import folded
from ptokit.sharded.messages import ShardedError
from ptokit.sweeps.best import SweepPoint
from ptokit.sweeps.plot import METADATA, missing, picture
from ptokit.sweeps.result import LONGEST, SweepResult
from ptokit.sweeps.run import Places, SweepValues, named_targets, point, run_points
from ptokit.target import families, families_in_cpp

BRACES = re.compile(r"\{([^{}]*)\}")
FACTOR = re.compile(r"\s*(?P<operator>[*/]?)\s*(?:(?P<number>[0-9]{1,18})|(?P<name>[^\W\d]\w*))\s*")
LONGEST_WORD, LONGEST_NUMBER = 1000, 18
"""Characters of a word with parameters in braces, and of a number of blocks."""
LEAST_VERDICT = 20
"""Characters of a verdict below which rows are folded instead."""
FORMS: dict[str, Callable[[SweepResult, str], bytes]] = {
    ".csv": lambda result, _: result.to_csv().encode("utf-8"),
    ".json": lambda result, _: json.dumps(result.as_dict(), indent=2).encode("utf-8"),
    **dict.fromkeys(METADATA, picture),
}
"""The content of a file, by how its name ends."""


def sweep_program(
    request: ProgramRequest, words: Sequence[str], grid: str, out: str | None, as_json: bool, on_ray: bool = False
) -> int:
    """Run all points, print them as a table, and write them into a file if one is asked for."""
    _check_out(out)
    params = {name: _values(name, text) for name, text in pairs(words, "--param").items()}
    if not params:
        raise Misuse("a sweep needs --param NAME=VALUE,VALUE,...")
    kernel = _kernel(request)
    roles = _roles(request, kernel, params, grid)
    with misused(ShardedError, ValueError):
        targets = families() if request.target == ALL else named_targets(kernel, request.target) if kernel else ()
        targets = targets or (tuple(request.target.split(",")) if request.target else families_in_cpp())
        name = kernel.name if kernel else os.path.basename(request.word)
        run_all = partial(_as_tasks, request, grid, roles) if on_ray else None
        result = run_points(name, _launch(request, grid, roles), params, targets, run_all)
    write_all(_files(result, out))
    width = terminal_width()
    shown = str(result) if width is None else "\n".join(_lines(result, width))
    print_answer("sweep", as_json, shown, **result.as_dict(), file=out)
    return _status(result)


def _as_tasks(request: ProgramRequest, grid: str, roles: Mapping[str, str], places: Places) -> Iterable[SweepPoint]:
    """Run points as Ray tasks."""
    from ptokit.sharded.ray_owners import run_tasks

    return run_tasks(_task, [(request, grid, dict(roles), target, dict(values)) for target, values in places])


def _task(
    request: ProgramRequest, grid: str, roles: Mapping[str, str], target: str, values: dict[str, Any]
) -> SweepPoint:
    """A point in the process of a task."""
    return point(_launch(request, grid, roles), target, SweepValues(values))


def _lines(result: SweepResult, width: int) -> Iterator[str]:
    """The result in lines that fit: verdicts are cut first, then rows are folded."""
    room = width - 2 - max(map(len, aligned([row[:-1] for row in result.table()])))
    table = result.table(min(room, LONGEST)) if room >= LEAST_VERDICT else result.table()
    yield from folded(table, width)
    yield from _wrapped(result, width)


def _wrapped(result: SweepResult, width: int) -> Iterator[str]:
    """The best points, in lines that fit."""
    for line in result.conclusions():
        indent = " " * (len(line) - len(line.lstrip()))
        yield from textwrap.wrap(line, max(20, width), subsequent_indent=indent + "    ")


def _check_out(out: str | None) -> None:
    """Refuse a file that could not be written."""
    if out is None:
        return
    form = os.path.splitext(out)[1].lower()
    if form not in FORMS:
        raise Misuse(f"-o takes a file that ends in {', '.join(FORMS)}; found {out}")
    if form in METADATA and (problem := missing()):
        raise Misuse(f"cannot write {out}: {problem}")
    check_destination(out)


def _files(result: SweepResult, out: str | None) -> dict[str, Write]:
    if out is None:
        return {}
    content = FORMS[os.path.splitext(out)[1].lower()](result, out)
    return {out: lambda stream: stream.write(content)}


def _values(name: str, text: str) -> list[object]:
    """The values of a parameter."""
    found = [constant(part.strip()) for part in text.split(",")]
    if "" in found:
        raise Misuse(f"--param {name} takes values with commas between them; found {brief(text)}")
    return found


# --- what a parameter is for


def _kernel(request: ProgramRequest) -> Launchable | None:
    """The kernel without values of parameters; None for a C++ source that needs them as macros."""
    try:
        return find(request)
    except VerifyError:
        if is_source(request.word):
            return None
        raise


def _roles(
    request: ProgramRequest, kernel: Launchable | None, params: Mapping[str, Any], grid: str
) -> Mapping[str, str]:
    """What each parameter is: an `argument` of the kernel, a `macro` of a C++ source, or only used in `braces`."""
    names = [*getattr(kernel, "parameters", ())] if kernel else []
    used = {name for word in (*(request.arg or ()), grid) for name in _names_in(word)}
    if unknown := [name for name in used if name not in params]:
        raise Misuse(f"{{{unknown[0]}}}: there is no --param {unknown[0]}{suggestion(unknown[0], params)}")
    if both := [name for name in params if name in request.named_args]:
        raise Misuse(f"{both[0]} is given by --param and by --arg")
    found: dict[str, str] = {}
    for name in params:
        if name not in names and not is_source(request.word) and name not in used:
            known = ", ".join(names) or "none"
            raise Misuse(f"--param {name}: the kernel has no such parameter; it has {known}{suggestion(name, names)}")
        found[name] = "argument" if name in names else "macro" if is_source(request.word) else "braces"
    _check_macros(request, [name for name, role in found.items() if role == "macro" and name not in used], names)
    return found


def _check_macros(request: ProgramRequest, macros: Sequence[str], names: Sequence[str]) -> None:
    """Refuse a macro that no file of the source names: its values would change nothing."""
    text = "".join(source_texts(request)) if macros else ""
    words = {*re.findall(r"[^\W\d]\w*", text)}
    for name in macros:
        if name not in words:
            close = suggestion(name, [*names, *re.findall(r"#\s*if\w*\s+!?(?:defined)?\W*(\w+)", text)])
            file = shown_name(request.word)
            raise Misuse(f"--param {name}: {file} has no parameter of this name, and does not use such a macro{close}")


def _launch(
    request: ProgramRequest, grid: str, roles: Mapping[str, str]
) -> Callable[[str, SweepValues], MachineReport]:
    """Runs a point of the sweep."""
    several = ALL if "," in (request.target or ",") else None

    def launch(target: str, values: SweepValues) -> MachineReport:
        own = [f"{name}={_text(values[name])}" for name, role in roles.items() if role == "argument"]
        macros = tuple(f"{name}={_text(values[name])}" for name, role in roles.items() if role == "macro")
        cxx = replace(request.cxx, define=(*(request.cxx.define or ()), *macros))
        args = (*(filled(word, values) for word in request.arg or ()), *own)
        point = replace(request, arg=args, grid=_blocks(filled(grid, values)), target=target, cxx=cxx)
        return machine_report(find(point), replace(point, target=several or target), target)

    return launch


def _blocks(text: str) -> int:
    if not text.strip().isdecimal() or len(text) > LONGEST_NUMBER:
        raise Misuse(f"--grid takes a whole number from 0 up; found {text}")
    return int(text)


# --- words with parameters


def _text(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _names_in(word: str) -> list[str]:
    """The parameters that a word has in braces."""
    return [name for braces in BRACES.findall(word) for _, _, name in _factors(braces) if name]


def filled(word: str, values: Mapping[str, Any]) -> str:
    """A word with values for what is in braces: a parameter, or a product of parameters and whole numbers. `/` divides
    and rounds up. Nothing else is read, and nothing is executed."""
    if len(word) > LONGEST_WORD:
        raise Misuse(f"a word of {len(word):,} characters is too long")
    return BRACES.sub(lambda braces: _value(braces[1], values), word)


def _value(text: str, values: Mapping[str, Any]) -> str:
    factors = _factors(text)
    if len(factors) == 1 and factors[0][2]:
        return _text(values[factors[0][2]])
    result = 1
    for operator, number, name in factors:
        factor = int(number) if number else values[name]
        if type(factor) is not int or (operator == "/" and factor < 1):
            raise Misuse(f"{{{text}}}: {name or number} is no whole number that it could take; found {brief(factor)}")
        result = -(-result // factor) if operator == "/" else result * factor
    return str(result)


def _factors(text: str) -> list[tuple[str, str, str]]:
    """Operator, number and name of each factor."""
    found: list[tuple[str, str, str]] = []
    at = 0
    while match := FACTOR.match(text, at):
        if bool(match["operator"]) != bool(found):
            break
        found.append((match["operator"], match["number"] or "", match["name"] or ""))
        at = match.end()
    if at < len(text) or not found:
        raise Misuse(f"braces hold a parameter or a product, such as {{rows}} or {{1024/rows*2}}; found {{{text}}}")
    return found


def _status(result: SweepResult) -> int:
    """Fine if each target has a clean point."""
    clean = [[point for point in result.of(target) if point.ok] for target in result.targets]
    if not all(clean):
        return FOUND
    return FINE if all(any(point.modelled for point in points) for points in clean) else UNMODELLED
