"""Judge public kernels: `python -m tests.cxx.public REPOSITORY [--only TEXT] [--every 6] [--generated FOLDER]`.

It is run by hand on a copy of the vendor's repository, which is not part of this one. Headers that its build system
generates are looked for under `--generated`, in the folders of their kernels. It prints how many files compile, how
many launches are recorded and judged, the internal problems, and the findings by rule.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from ptokit.cli.arguments import values_of
from ptokit.cxx.compile import CompileLimits, CompileOptions
from ptokit.finding import Finding, OutOfBoundsError, VerifyError
from ptokit.lang.cpp_entries import CppSource, entries_of
from ptokit.lang.launch import mode_of
from ptokit.lang.launcher import Launcher
from ptokit.lang.recorded import CppKernel
from ptokit.machine import ENOUGH
from ptokit.machine.report import MachineOptions

HOST_ONLY = ("main", "golden", "test_", "data_utils", "tiling_builder", "runtime_context")
"""Sources of host programs: no kernels."""
ON_MACHINE = MachineOptions(blocks=ENOUGH, progress=False)
"""As `ptokit check` runs a launch."""
VARIABLE = re.compile(r"`[^`]*`|\b(?:0x)?\d[\da-f]*\b")
"""Names and numbers in a message."""


@dataclass
class FileResult:
    """What became of one file."""

    file: str
    seconds: float = 0.0
    refusal: str = ""
    """Why it does not compile."""
    entries: int = 0
    recorded: int = 0
    judged: int = 0
    problems: list[str] = field(default_factory=list)
    """Internal problems: tracebacks."""
    slow: list[str] = field(default_factory=list)
    """Entries that were stopped."""
    findings: list[dict[str, str]] = field(default_factory=list)


def sources(root: Path) -> Iterator[Path]:
    """The kernels of the tests of A2/A3 and A5, and of the folder `kernels`."""
    for target in ("a2a3", "a5"):
        yield from sorted((root / "tests" / "npu" / target / "src").rglob("*_kernel.cpp"))
    yield from (file for file in sorted((root / "kernels").rglob("*.cpp")) if not file.name.startswith(HOST_ONLY))


def target_of(file: Path) -> str:
    return "a5" if "a5" in file.parts else "a2a3"


def flags(root: Path, file: Path, generated: Path | None) -> tuple[str, ...]:
    """The include paths and macros that the build files give."""
    if not file.is_relative_to(root / "kernels"):
        return ()
    comm = root / "tests" / "npu" / target_of(file) / "comm" / "st" / "testcase"
    folders = [
        root / "kernels" / "include",
        comm,
        root / "tests" / "common",
        file.parent / "op_kernel",
        file.parent / "op_kernel" / "utils",
        file.parent.parent,
    ]
    if generated is not None:
        folders.append(generated / file.parent.relative_to(root / "kernels"))
    macros = ["-DMEMORY_BASE"] + ["-D__PTO_AUTO__"] * ("automode" in file.parts)
    return (*macros, *(f"-I{folder}" for folder in folders if folder.is_dir()))


class TooSlow(BaseException):
    """An entry takes longer than its limit."""


@contextmanager
def limit(seconds: int) -> Iterator[None]:
    """A limit on the processor time of a block."""

    def stop(*_: object) -> None:
        raise TooSlow

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def judge(root: Path, generated: Path | None, seconds: int, most: int, file: Path) -> FileResult:
    """Compile a file, record its entries and judge their launches."""
    began = time.perf_counter()
    found = FileResult(str(file.relative_to(root)))
    options = CompileOptions(flags(root, file, generated), limits=CompileLimits(seconds=500))
    source = CppSource(str(file), options)
    try:
        build = source.build(target_of(file))
        entries = entries_of(build)[:most]
        found.refusal = "" if entries else "no entries"
        found.entries = len(entries)
        for entry in entries:
            _judge_entry(CppKernel(source, entry, build.target), seconds, found)
    except VerifyError as error:
        found.refusal = error.findings[0].message
    except Exception:
        found.problems.append(traceback.format_exc())
    found.seconds = time.perf_counter() - began
    return found


def _judge_entry(kernel: CppKernel, seconds: int, found: FileResult) -> None:
    try:
        with limit(seconds), warnings.catch_warnings(action="ignore"):
            _judge_launches(kernel, found)
    except TooSlow:
        found.slow.append(kernel.name)
    except (VerifyError, OutOfBoundsError) as error:
        _add(found, kernel.name, error.findings)
    except Exception:
        found.problems.append(f"{kernel.name}\n{traceback.format_exc()}")


def _judge_launches(kernel: CppKernel, found: FileResult) -> None:
    numbers = [name for name, kind in kernel.parameters.items() if kind in ("integer", "float")]
    values = values_of(kernel, dict.fromkeys(numbers, "1"))
    arguments = kernel.bind((), values)
    mode = mode_of(kernel.target)
    launches = kernel.launches(arguments, mode, 1, enough=True)
    found.recorded += len(launches.made)
    _add(found, kernel.name, launches.findings)
    for launched, grid in launches.made:
        try:
            report = Launcher(launched, grid)(target=kernel.target, engine="machine", options=ON_MACHINE, **values)
            _add(found, kernel.name, report.findings)
        except (VerifyError, OutOfBoundsError) as error:
            _add(found, kernel.name, error.findings)
        found.judged += 1


def _add(found: FileResult, entry: str, findings: Sequence[Finding]) -> None:
    for each in findings:
        if each.level == "note":
            continue
        where = f"{each.where.file}:{each.where.line}" if each.where else ""
        shown = {"level": each.level, "rule": each.rule, "kind": str(each.kind or ""), "message": each.message}
        found.findings.append({**shown, "where": where, "entry": entry})


def show(results: Sequence[FileResult]) -> None:
    """Print the figures."""
    for group in dict.fromkeys(result.file.partition("/")[0] for result in results):
        chosen = [result for result in results if result.file.startswith(group)]
        compiled = [result for result in chosen if not result.refusal]
        clean = [result for result in compiled if not result.problems and not result.slow]
        print(
            f"{group}: {len(chosen)} files, {len(compiled)} compile, {len(clean)} of them judged without an internal "
            f"problem; {sum(r.recorded for r in chosen)} launches recorded, {sum(r.judged for r in chosen)} judged"
        )
    for result in results:
        if result.refusal:
            print(f"refused: {result.file}: {result.refusal}")
        for name in result.slow:
            print(f"stopped: {result.file}: {name}")
    _show_problems(results)
    _show_findings(results)


def _show_problems(results: Sequence[FileResult]) -> None:
    texts = [(problem.rstrip().rpartition("\n")[2], problem, r.file) for r in results for problem in r.problems]
    for last, count in Counter(text for text, _, _ in texts).most_common():
        _, example, file = next(each for each in texts if each[0] == last)
        print(f"internal problem, {count} times, first in {file}:\n{example}")


def _show_findings(results: Sequence[FileResult]) -> None:
    found: dict[tuple[str, ...], list[tuple[str, dict[str, Any]]]] = {}
    for result in results:
        for each in result.findings:
            key = (each["level"], each["rule"], each["kind"], VARIABLE.sub("_", each["message"])[:60])
            found.setdefault(key, []).append((result.file, each))
    for key, each in sorted(found.items(), key=lambda item: -len(item[1])):
        files = {file for file, _ in each}
        file, first = each[0]
        print(f"{len(each)} in {len(files)} files: {' '.join(key[:3])}: {first['message']}")
        print(f"    {first['where'] or file} {first['entry']}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--generated", type=Path)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--seconds", type=int, default=60, help="the limit of an entry, in processor time")
    parser.add_argument("--entries", type=int, default=1000, help="the most entries of a file")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--json", type=Path, help="a file for the results, one line each")
    options = parser.parse_args()
    root = options.root.resolve()
    files = [file for file in sources(root) if options.only in str(file)][:: options.every]
    results: list[FileResult] = []
    with ProcessPoolExecutor(options.processes) as pool:
        work = partial(judge, root, options.generated, options.seconds, options.entries)
        for result in pool.map(work, files):
            results.append(result)
            state = "FAIL" if result.refusal else "ok"
            print(f"{state} {result.seconds:.1f} s {result.judged}/{result.recorded} {result.file}", flush=True)
            if options.json:
                with options.json.open("a") as stream:
                    stream.write(json.dumps(asdict(result)) + "\n")
    show(results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
