"""Judge public kernels: `python -m tests.cxx.public REPOSITORY RESULTS [--only TEXT] [--entries 6]`.

It is run by hand on a copy of the vendor's repository, which is not part of this one. Each entry is checked as
`ptokit check` does, with the numbers of `NUMBERS`; its report is kept in the folder RESULTS, and is not made again.
Headers that its build system generates are looked for under `--generated`, in the folders of their kernels. It prints
how many files compile, how many entries are judged, the internal problems, and the findings by rule.
"""

from __future__ import annotations

import argparse
import io
import json
import re
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ptokit.cli.problems import Misuse
from ptokit.cli.programs import check_program
from ptokit.cli.request import CxxRequest, ProgramRequest
from ptokit.cli.subject import forget, source_of
from ptokit.cxx.entries import CppEntry
from ptokit.finding import VerifyError
from ptokit.lang.cpp_entries import kind_of

HOST_ONLY = ("main", "golden", "test_", "data_utils", "tiling_builder", "runtime_context", "my_")
"""Sources of host programs: no kernels."""
VARIABLE = re.compile(r"`[^`]*`|\b(?:0x)?\d[\da-f]*\b")
"""Names and numbers in a message."""
NUMBERS: dict[str, dict[str, int]] = {
    "torch_jit/add": {"blockDim": 20, "N": 20 * 2048},
    "fused_add_relu_mul": {"totalLength": 1 << 14},
    "gemm_ar/gemm_compute": {"k_per_rank": 1024, "launch_block_count": 4, "rank": 0},
    "gemm_ar/comm": {"nranks": 2, "num_compute_blocks": 4, "rank": 0},
    "allgather_gemm": {"nRanks": 2, "launch_block_count": 4},
    "distributed_ffn_grid": {"gridRows": 2, "gridCols": 2},
    "moe_combine": {
        "launchBlockCount": 4, "myRank": 0, "shape.aivBlocks": 4, "shape.ep": 2, "shape.expertNum": 4,
        "shape.expertPerRank": 2, "shape.k": 1024, "shape.m": 16, "shape.maxOutputSize": 64, "shape.topK": 2,
    },
    "moe_dispatch": {"EP": 2, "blockNum": 2, "expertPerRank": 2, "maxOutputSize": 64},
    "tget_bandwidth": {"elemCount": 4096, "nranks": 2, "rootRank": 0},
    "engram_simt": {"tableRows": 1024},
    "syncall": {"launchBlocks": 4, "syncBlocks": 4, "totalBlocks": 4, "aicBlocks": 2, "totalParticipants": 6},
    "textract_ndto2xnz": {"key": 3, "ir0": 0, "ic0": 0, "ir1": 16, "ic1": 32},
    "/comm/st/": {"count": 2},
}  # fmt: skip
"""Numbers that launch real work, by a part of the file's name; the others are 1."""


@dataclass
class FileResult:
    """What became of one file."""

    file: str
    refusal: str = ""
    """Why it does not compile."""
    entries: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    """By name: `status`, `seconds`, `findings`; `problem` is a traceback, `slow` means stopped."""
    unseen: list[str] = field(default_factory=list[str])
    """Entries that were left for later."""
    not_judged: list[str] = field(default_factory=list[str])
    """Templates that nothing instantiates."""


def sources(root: Path) -> Iterator[Path]:
    """The kernels of the tests of A2/A3 and A5, of the folder `kernels`, and of the demos for a device."""
    for target in ("a2a3", "a5"):
        yield from sorted((root / "tests" / "npu" / target).rglob("*_kernel.cpp"))
    for folder in ("kernels", "demos"):
        files = (file for file in sorted((root / folder).rglob("*.cpp")) if not file.name.startswith(HOST_ONLY))
        yield from (file for file in files if "cpu" not in file.parts and file.name != "caller.cpp")


def target_of(file: Path) -> str:
    return "a5" if "a5" in file.parts else "a2a3"


def folders(root: Path, file: Path, generated: Path | None) -> list[str]:
    """The include paths that the build files give."""
    tests = root / "tests" / "npu" / target_of(file)
    found = [root / "tests" / "common"]
    if file.is_relative_to(root / "kernels"):
        own = file.parent / "op_kernel"
        found += [root / "kernels" / "include", tests / "comm" / "st" / "testcase", own, own / "utils"]
        found.append(file.parent.parent)
        if generated is not None:
            found.append(generated / file.parent.relative_to(root / "kernels"))
    elif "comm" in file.parts:
        found.append(tests / "comm" / "st" / "testcase")
    return [str(folder) for folder in found if folder.is_dir()]


def macros(root: Path, file: Path) -> list[str]:
    """The macros that the build files give."""
    if not file.is_relative_to(root / "kernels"):
        return []
    return ["MEMORY_BASE"] + ["__PTO_AUTO__"] * ("automode" in file.parts)


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


def judge(options: argparse.Namespace, file: Path, found: FileResult) -> None:
    """Compile a file and check those of its entries that have no result yet, spread evenly over the file."""
    include, define = folders(options.root, file, options.generated), macros(options.root, file)
    cxx = CxxRequest(include=tuple(include), define=tuple(define), limit=("seconds=60",))
    request = ProgramRequest(str(file), target_of(file), cxx=cxx)
    try:
        build = source_of(request).build(target_of(file))
    except VerifyError as error:
        found.refusal = error.findings[0].message
        return
    chosen = [entry for entry in build.entries if entry.kind == "launch"] or list(build.entries)
    found.not_judged = [*build.unused]
    found.refusal = "" if chosen else "no entries"
    numbers = {name: value for part, given in NUMBERS.items() if part in str(file) for name, value in given.items()}
    names = [entry.name for entry in chosen]
    ends = time.process_time() + options.budget
    for entry in spread(chosen)[: options.entries]:
        if entry.name in found.entries or time.process_time() > ends:
            continue
        needed = [each.name for each in entry.parameters if kind_of(each) in ("integer", "float")]
        args = {name: numbers.get(name, 1) for name in needed}
        own = tuple(f"{name}={value}" for name, value in args.items())
        asked = ProgramRequest(str(file), target_of(file), own, function=entry.name, cxx=cxx)
        found.entries[entry.name] = _checked(asked, options.seconds)
    found.unseen = [name for name in names if name not in found.entries]


def spread(entries: Sequence[CppEntry]) -> list[CppEntry]:
    """The entries in an order in which the first ones are far from each other."""
    bits = len(entries).bit_length()
    return sorted(entries, key=lambda entry: f"{entries.index(entry):0{bits}b}"[::-1])


def _checked(request: ProgramRequest, seconds: int) -> dict[str, Any]:
    """The report of an entry."""
    printed, began = io.TextIOWrapper(io.BytesIO(), "utf-8"), time.process_time()
    report: dict[str, Any] = {"args": [*(request.arg or ())], "findings": []}
    try:
        with limit(seconds), redirect_stdout(printed), redirect_stderr(io.StringIO()):
            report["status"] = check_program(request, as_json=True)
        printed.seek(0)
        read = json.loads(printed.read())
        for one in read.get("entries", [read]):
            report["findings"] += [each for target in one["targets"].values() for each in target["findings"]]
            report["findings"] += (one["error"] or {}).get("findings", [])
    except TooSlow:
        report["slow"] = True
    except Misuse as misuse:
        report["misuse"] = str(misuse)
    except Exception:
        report["problem"] = traceback.format_exc()
    report["seconds"] = time.process_time() - began
    return report


def show(results: Sequence[FileResult], level: str) -> None:
    """Print the figures."""
    for group in dict.fromkeys(result.file.partition("/")[0] for result in results):
        chosen = [result for result in results if result.file.startswith(group)]
        compiled = [result for result in chosen if not result.refusal]
        entries = [each for result in chosen for each in result.entries.values()]
        states = Counter(str(each.get("status", "none")) for each in entries)
        print(f"{group}: {len(chosen)} files, {len(compiled)} compile; {len(entries)} entries judged, {states}")
    for result in results:
        if result.refusal:
            print(f"refused: {result.file}: {result.refusal}")
        for name, each in result.entries.items():
            for word in ("slow", "misuse", "problem"):
                if word in each:
                    print(f"{word}: {result.file}: {name}: {each[word]}")
    _show_findings(results, level)


def _show_findings(results: Sequence[FileResult], level: str) -> None:
    found: dict[tuple[str, ...], list[tuple[FileResult, str, dict[str, Any]]]] = {}
    for result in results:
        for entry, report in result.entries.items():
            for each in report["findings"]:
                if each["level"] in level.split(","):
                    rule, kind = str(each.get("rule")), str(each.get("kind") or "")
                    key = (each["level"], rule, kind, VARIABLE.sub("_", each["message"])[:60])
                    found.setdefault(key, []).append((result, entry, each))
    for key, rows in sorted(found.items(), key=lambda item: -len(item[1])):
        print(
            f"{len(rows)} in {len({row[0].file for row in rows})} files: {' '.join(key[:3])}: {rows[0][2]['message']}"
        )
        shown: dict[str, tuple[str, str]] = {}
        for result, entry, each in rows:
            shown.setdefault(result.file, (entry, _place(each)))
        for file, (entry, place) in shown.items():
            count = sum(row[0].file == file for row in rows)
            print(f"    {count} {file}: {place} {entry}")


def _place(finding: dict[str, Any]) -> str:
    where = finding.get("where") or {}
    return f"{Path(str(where.get('file'))).name}:{where.get('line')}" if where else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", type=lambda word: Path(word).resolve())
    parser.add_argument("results", type=Path, help="a folder: a file of JSON for each source")
    parser.add_argument("--only", default="", help="files whose name contains one of these words, separated by commas")
    parser.add_argument("--generated", type=Path)
    parser.add_argument("--seconds", type=int, default=60, help="the limit of an entry, in processor time")
    parser.add_argument("--entries", type=int, default=100_000, help="the most entries of a file, spread evenly")
    parser.add_argument("--budget", type=int, default=100_000, help="the processor time for the entries of a file")
    parser.add_argument("--level", default="error,hazard", help="the levels of findings that are shown")
    parser.add_argument("--show", action="store_true", help="only show the results that are there")
    options = parser.parse_args()
    options.results.mkdir(exist_ok=True)
    results: list[FileResult] = []
    for file in sources(options.root):
        name = str(file.relative_to(options.root))
        if not any(word in name for word in options.only.split(",")):
            continue
        kept = options.results / (name.replace("/", "+") + ".json")
        found = FileResult(**json.loads(kept.read_text())) if kept.exists() else FileResult(name)
        if not options.show:
            began, before = time.perf_counter(), len(found.entries)
            judge(options, file, found)
            forget()
            kept.write_text(json.dumps(asdict(found)))
            new = len(found.entries) - before
            state = f"{new} new, {len(found.unseen)} left"
            print(f"{time.perf_counter() - began:.1f} s {state} {name} {found.refusal}", flush=True)
        if not options.show or kept.exists():
            results.append(found)
    show(results, options.level)
    return 0


if __name__ == "__main__":
    sys.exit(main())
