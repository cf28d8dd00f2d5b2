"""Runs another implementation over the cases of an export, and judges what it wrote."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import stat
import subprocess
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ptokit.brief import brief
from ptokit.conformance.cases import Bits
from ptokit.conformance.export import FORMAT, read_index
from ptokit.cxx.processes import CompileLimits, end, limited
from ptokit.isa.dtype import dtype
from ptokit.progress import task

RAN, REFUSED, UNSUPPORTED = 0, 3, 4
"""Exit statuses of an implementation; every other one is a failure."""
MARKS = {"refused": REFUSED, "unsupported": UNSUPPORTED}
"""Files in the folder for outputs that say the same of one case."""
VERDICTS = ("passed", "failed", "refused", "unsupported")
PLACES = ("{case}", "{out}")
LARGEST_HEADER = 1 << 12
"""Bytes of a file that are not elements."""
LARGEST_OUTPUT = 64 << 20
"""Bytes of each file that an implementation writes."""
SHOWN = 300
"""How many characters of an implementation's output a reason quotes."""


@dataclass(frozen=True)
class CaseVerdict:
    """The verdict on a case: passed, failed, refused although it is legal, or not supported."""

    id: str
    clauses: tuple[str, ...]
    verdict: str
    reason: str = ""


@dataclass(frozen=True)
class Judge:
    """An implementation as a command, and what it may use for each case."""

    folder: Path
    command: str
    seconds: float = 10.0
    memory: int = 4 << 30
    jobs: int = 1
    batch: int = 1

    def __post_init__(self) -> None:
        try:
            words = shlex.split(self.command)
        except ValueError as problem:
            raise ValueError(f"the command cannot be read: {problem}") from None
        if missing := [place for place in PLACES if not any(place in word for word in words)]:
            raise ValueError(f"the command lacks {' and '.join(missing)}, as in: ./simulator {{case}} {{out}}")
        if shutil.which(words[0]) is None:
            raise ValueError(f"{brief(words[0])} is no program that can be started")

    def judge(self, targets: Sequence[str] = (), only: Sequence[str] = ()) -> list[CaseVerdict]:
        """The verdicts on the cases of some targets, and of some clauses or groups of clauses."""
        index = read_index(self.folder)
        entries = {entry["name"]: entry for entry in index["programs"]}
        cases = [case for case in index["cases"] if is_chosen(case, targets, only)]
        batches = [cases[k : k + self.batch] for k in range(0, len(cases), self.batch)]
        with task("judge cases:", len(cases), "cases") as work, ThreadPoolExecutor(self.jobs) as pool:
            found: list[CaseVerdict] = []
            for some in pool.map(lambda batch: [*self._batch(batch, entries)], batches):
                found += some
                work.done = len(found)
        return found

    def _batch(self, cases: Sequence[Any], entries: Mapping[str, Any]) -> Iterator[CaseVerdict]:
        """Run some cases with one command; those without an answer once more, each by itself."""
        with tempfile.TemporaryDirectory(prefix="ptokit-conformance-") as temporary:
            work = Path(temporary)
            pairs = [
                {"case": str(self._case(case, entries[case["program"]], work / f"{k}")), "out": str(work / f"{k}/out")}
                for k, case in enumerate(cases)
            ]
            if len(cases) == 1:
                status, reason = self._run(pairs[0]["case"], pairs[0]["out"], 1, work)
            else:
                (work / "cases.json").write_text(json.dumps({"format": FORMAT, "cases": pairs}), "utf-8")
                status, reason = self._run(str(work / "cases.json"), temporary, len(cases), work)
            for case, pair in zip(cases, pairs, strict=True):
                entry, out = entries[case["program"]], Path(pair["out"])
                own = next((code for mark, code in MARKS.items() if os.path.lexists(out / mark)), status)
                if len(cases) > 1 and (own not in MARKS.values() and not _has_outputs(entry, out)):
                    yield from self._batch([case], entries)
                elif len(cases) > 1 and own == status:
                    yield _verdict(self.folder, case, entry, RAN, "", out)
                else:
                    yield _verdict(self.folder, case, entry, own, reason, out)

    def _case(self, case: Mapping[str, Any], entry: Mapping[str, Any], folder: Path) -> Path:
        """The folder of a case: its description, and its inputs."""
        (folder / "out").mkdir(parents=True)
        home, data, cpp = self.folder / entry["folder"], _data(self.folder / entry["folder"]), entry["cpp"]
        for name, array in entry["arrays"].items():
            bits = data[name][case["set"]]
            kind = dtype(array["type"]).numpy
            np.save(folder / f"{name}.npy", bits.view(kind) if kind.isbuiltin == 1 else bits)
        arrays = [
            {"name": name, **array, "file": str(folder / f"{name}.npy"), "write": name in entry["outputs"]}
            for name, array in entry["arrays"].items()
        ]
        source = cpp[case["target"]]
        text = {
            "format": FORMAT, "id": case["id"], "target": case["target"], "kernel": entry["kernel"],
            "grid": entry["grid"], "program": str(home / "program.pto"), "cpp": source and str(home / source),
            "arrays": arrays,
        }  # fmt: skip
        (folder / "case.json").write_text(json.dumps(text, indent=1), "utf-8")
        return folder / "case.json"

    def _run(self, case: str, out: str, count: int, work: Path) -> tuple[int, str]:
        """The exit status of the command, and why it failed. No shell reads the words."""
        words = [word.replace("{case}", case).replace("{out}", out) for word in shlex.split(self.command)]
        seconds = self.seconds * count
        limits = CompileLimits(seconds=seconds, memory=self.memory, output=LARGEST_OUTPUT)
        with open(work / "printed", "wb") as printed:
            process = subprocess.Popen(  # noqa: S603  (the user's own command)
                limited(words, limits), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=printed,
                start_new_session=True, restore_signals=False,
            )  # fmt: skip
            try:
                process.wait(seconds)
            except subprocess.TimeoutExpired:
                return -1, f"stopped after {seconds:g} seconds"
            finally:
                end(process)
        with open(work / "printed", "rb") as printed:
            printed.seek(max(0, os.fstat(printed.fileno()).st_size - SHOWN))
            said = printed.read().decode("utf-8", "replace").strip()
        return process.returncode, f"exit status {process.returncode}" + (f": {said}" if said else "")


def is_chosen(case: Mapping[str, Any], targets: Sequence[str], only: Sequence[str]) -> bool:
    """Whether a case is of these targets, and about these clauses or groups (`MG-OOB`)."""
    named = any(each == word or each.startswith(f"{word}-") for each in case["clauses"] for word in only)
    return (not targets or case["target"] in targets) and (not only or named)


def by_clause(found: Iterable[CaseVerdict]) -> dict[str, Counter[str]]:
    """How often each verdict was given, by clause."""
    table: dict[str, Counter[str]] = {}
    for each in found:
        for clause in each.clauses:
            table.setdefault(clause, Counter())[each.verdict] += 1
    return dict(sorted(table.items()))


@lru_cache(maxsize=64)
def _data(home: Path) -> Mapping[str, Bits]:
    """The arrays of a program."""
    with np.load(home / "data.npz", allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def _has_outputs(entry: Mapping[str, Any], out: Path) -> bool:
    return all(os.path.lexists(out / f"{name}.npy") for name in entry["outputs"])


def _verdict(
    folder: Path, case: Mapping[str, Any], entry: Mapping[str, Any], status: int, reason: str, out: Path
) -> CaseVerdict:
    """What is to be said of a case."""
    is_legal = case["expect"]["kind"] == "bytes"
    if status == UNSUPPORTED:
        verdict, reason = "unsupported", ""
    elif status == REFUSED:
        verdict, reason = ("refused", "it is legal") if is_legal else ("passed", "")
    elif status != RAN:
        verdict = "failed"
    elif not is_legal:
        verdict, reason = "failed", f"it ran, and must be refused by {', '.join(case['expect']['clauses'])}"
    else:
        reason = _difference(_data(folder / entry["folder"]), case, entry, out)
        verdict = "failed" if reason else "passed"
    return CaseVerdict(case["id"], tuple(case["clauses"]), verdict, reason)


def _difference(data: Mapping[str, Bits], case: Mapping[str, Any], entry: Mapping[str, Any], out: Path) -> str:
    """How the outputs differ from the permitted ones; empty if they do not."""
    same, k = entry["expected"][case["target"]], case["set"]
    for name in entry["outputs"]:
        expected = data[f"{same}/{name}"][k]
        found = _read(out / f"{name}.npy", np.dtype(dtype(entry["arrays"][name]["type"]).numpy), expected)
        if isinstance(found, str):
            return f"{name}: {found}"
        other, compared = data.get(f"{same}/{name}/or"), data.get(f"{same}/{name}/mask")
        wrong = found != expected
        wrong &= True if other is None else found != other[k]
        wrong &= True if compared is None else compared
        if wrong.any():
            at = int(np.argmax(wrong))
            width = 2 * expected.itemsize
            return (
                f"{name}[{at}] is 0x{int(found[at]):0{width}x}, not 0x{int(expected[at]):0{width}x}; "
                f"{int(wrong.sum())} of {wrong.size} elements are wrong"
            )
    return ""


def _read(file: Path, kind: np.dtype[Any], expected: Bits) -> Bits | str:
    """The elements of an output, or why they cannot be had. Nothing in the file is trusted."""
    try:
        status = os.lstat(file)
        if not stat.S_ISREG(status.st_mode):
            return "no regular file"
        if status.st_size > expected.nbytes + LARGEST_HEADER:
            return f"a file of {status.st_size} bytes for {expected.nbytes}"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            array = np.lib.format.open_memmap(file, mode="r")
    except FileNotFoundError:
        return "not written"
    except Exception as problem:  # any error of NumPy over a broken or hostile header
        return f"cannot be read: {problem}"[:SHOWN]
    is_raw = array.dtype.kind in "uV" and array.dtype.fields is None and array.dtype.subdtype is None
    if array.dtype.itemsize != kind.itemsize or not (array.dtype == kind or is_raw):
        return f"elements of {array.dtype}, not {kind}"[:SHOWN]
    if array.size != expected.size:
        return f"{array.size} elements, not {expected.size}"
    return np.ascontiguousarray(array).reshape(-1).view(expected.dtype)
