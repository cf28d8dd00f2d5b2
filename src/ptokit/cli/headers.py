"""`ptokit headers`: how a checkout of the public headers differs from the newest revision that ptokit knows."""

from __future__ import annotations

import multiprocessing
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from ptokit.cli.files import print_text
from ptokit.cli.problems import FINE, FOUND, misused, printable
from ptokit.cli.report import print_json
from ptokit.cxx.compile import COMPILED_RECORDERS, RECORDERS
from ptokit.cxx.parameters import Parameter
from ptokit.cxx.processes import CompileError
from ptokit.cxx.record import ArrayArgument, ScalarArgument
from ptokit.lang.cpp_entries import entries_of, kind_of
from ptokit.progress import task
from ptokit.target import families_in_cpp
from ptokit.witness.headers import Checkout, HeadersError
from ptokit.witness.record import Witness
from ptokit.witness.revision import HeaderChanges, HeaderFacts, RecordedRevision, effects_of

BYTES, NUMBER = 1 << 20, 64
"""Bytes of each array, and the value of each number, that a kernel is run with."""
TESTS = "tests/npu/{}/src/st/testcase"
"""Where the vendor's test kernels of a family are."""
Effects = dict[str, dict[str, str]]
TEMPORARY = re.compile(r"/\S*/ptokit-cxx-[^/\s]+/")
"""The folder of the changed headers."""
TASKS = 12
"""Kernels of a process: launches keep memory, and a new process imports everything."""
MOST_SHOWN = 40
"""Lines of a section."""


def compare_headers(path: str, as_json: bool, jobs: int, text_only: bool) -> int:
    """Print how a checkout differs from the newest revision."""
    with misused(HeadersError, OSError):
        checkout = Checkout.at(Path(path))
        facts, revision = HeaderFacts(checkout), RecordedRevision.newest()
        changes = HeaderChanges.between(revision, facts)
    sections = dict(_sections(changes, facts))
    for family in () if text_only else families_in_cpp():
        affected = changes.affected(facts, family)
        own, problems = run_kernels(checkout, family, kernels(checkout, family, affected, revision), jobs)
        sections[f"what calls do on {family}"] = [*differences(own, revision.effects[family]), *grouped(problems)]
    sections = {title: rows for title, rows in sections.items() if rows}
    about = f"{checkout.path} beside {revision.name} ({revision.commit}, {revision.date})"
    if as_json:
        print_json("headers", checkout=str(checkout.path), revision=revision.name, changes=sections)
    else:
        lines = [f"{about}: {'differs in' if sections else 'no difference'}"]
        for title, rows in sections.items():
            more = [f"  and {len(rows) - MOST_SHOWN} more"] if len(rows) > MOST_SHOWN else []
            lines += [f"{title}: {len(rows)}", *(f"  {row}" for row in rows[:MOST_SHOWN]), *more]
        print_text(printable("\n".join(lines) + "\n"))
    return FOUND if sections else FINE


def _sections(changes: HeaderChanges, facts: HeaderFacts) -> Iterator[tuple[str, list[str]]]:
    yield "instructions and forms that are new", [text for texts in changes.added.values() for text in texts]
    yield "instructions that are gone, or have fewer forms", changes.removed
    yield "assertions that are new", [f"{each.header}:{each.line}: {each.text}" for each in changes.asserted]
    yield "assertions that are gone", [f"{name}: {count}" for name, count in changes.dropped.items()]
    yield "headers that differ", changes.headers
    yield "headers that are gone", changes.gone
    for family in families_in_cpp():
        yield f"instructions of {family} that these headers make", sorted(changes.affected(facts, family))


def kernels(
    checkout: Checkout, family: str, affected: set[str], revision: RecordedRevision | None = None
) -> list[Path]:
    """The vendor's test kernels that call some of these instructions: those that are known to, and those whose folder
    has the name of one; all without a revision."""
    known = revision.effects[family] if revision else {}
    calling = {file for file, effects in known.items() if not affected.isdisjoint(effects)}
    folder = checkout.path / TESTS.format(family)
    files = sorted(folder.glob("*/*kernel*.cpp"))
    names = {file: file.relative_to(folder).as_posix() for file in files}
    words = tuple(name.lower() for name in affected)
    if revision is None:
        return files
    return [
        file for file in files if names[file] in calling or (names[file] not in known and file.parent.name in words)
    ]


def run_kernels(checkout: Checkout, family: str, files: list[Path], jobs: int) -> tuple[Effects, list[str]]:
    """What calls do in the first entry of each kernel, and what could not be compiled or run."""
    effects: Effects = {}
    problems: list[str] = []
    if not files:
        return effects, problems
    with Witness(checkout) as shared:
        shared.precompile(family)
        known = RECORDERS, COMPILED_RECORDERS
        with (
            multiprocessing.get_context("spawn").Pool(jobs, _keep_recorders, known, TASKS) as pool,
            task(f"compare {family}:", len(files), "kernels") as work,
        ):
            run = partial(_run, checkout.path, shared.folder, shared.first, family)
            for name, own in work.track(pool.imap_unordered(run, files)):
                if isinstance(own, str):
                    problems.append(f"{name}: {own}")
                else:
                    effects[name] = own
    return effects, sorted(problems)


def grouped(problems: Sequence[str]) -> Iterator[str]:
    """What kernels were not compared, those with the same reason together."""
    kernels: dict[str, list[str]] = {}
    for problem in problems:
        name, _, reason = problem.partition(": ")
        kernels.setdefault(TEMPORARY.sub("", reason), []).append(name)
    for reason, names in kernels.items():
        yield f"{names[0]}{f' and {len(names) - 1} more' if len(names) > 1 else ''}: {reason}"


def _keep_recorders(keys: dict[tuple[str, ...], str], compiled: dict[str, bytes]) -> None:
    """What a process of the pool does first: it takes the recorders of the first one."""
    RECORDERS.update(keys)
    COMPILED_RECORDERS.update(compiled)


def _run(root: Path, headers: Path, first: Sequence[Path], family: str, file: Path) -> tuple[str, dict[str, str] | str]:
    """One kernel, in a process that ends: launches keep memory."""
    checkout = Checkout.at(root)
    name = file.relative_to(root / TESTS.format(family)).as_posix()
    try:
        with Witness(checkout, headers, first=first) as witness, witness.compile(file, family) as build:
            if not (entries := entries_of(build)):
                return name, "it has no entry"
            entry, grid = entries[0], 1 if entries[0].kind == "kernel" else None
            blocks, stopped = witness.run(build, entry.name, [*map(argument, entry.parameters)], grid)
            if stopped:
                return name, stopped[0].message
    except CompileError as problem:
        return name, str(problem).strip().splitlines()[0][:200]
    return name, effects_of(call for block in blocks for call in block.calls if call.name and call.pipes)


def argument(parameter: Parameter) -> ArrayArgument | ScalarArgument:
    """A made-up argument: zeros, or a number."""
    kind = kind_of(parameter)
    if kind == "array" or (kind == "null" and not parameter.is_stream):
        return ArrayArgument(parameter.name, np.zeros(BYTES, "uint8"))
    value = {"integer": NUMBER, "float": 1.0}.get(kind)
    return ScalarArgument(parameter.name, "float32" if kind == "float" else "int64", value)


def differences(own: Effects, known: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Instructions whose calls do something else than they did: pipes, flags, or only bytes."""
    found: dict[str, None] = {}
    for file, effects in own.items():
        for name, now in effects.items():
            before = known.get(file, {}).get(name)
            if before is not None and before != now:
                (pipes, flags, _), (then, flagged, _) = now.split(" "), before.split(" ")
                if (pipes, flags) != (then, flagged):
                    found[f"{name}: pipes {then}, flags {flagged}; now pipes {pipes}, flags {flags}"] = None
                else:
                    found[f"{name}: other bytes are read or written ({file})"] = None
    return [*found]
