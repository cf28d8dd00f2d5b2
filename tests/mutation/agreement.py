"""How often the tests of `make check` notice what a mutant changes.

    python tests/mutation/agreement.py --count 50 --seed 0 -j 8

The mutants are those that `make mutants` judges. Each change is made in a copy of the working tree, where `make check`
then runs as after a change by hand: `--seconds` for tests, on two processors. A mutant counts as caught if one of its
tests fails, and passes again without the change; lint and types do not count. A mutant that is missed is printed, with
the place of its change: `tests/mutation --only PLACE` says whether all tests miss it. `--part 2/3` judges the second
third. The exit status is 1 when less than `--goal` per cent are caught.
"""

from __future__ import annotations

import argparse
import compileall
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from threading import Lock

from drawing import PACKAGE, ROOT, candidates, drawn
from points import Mutant, edited

LEFT_OUT = (".git", ".venv*", "build", "dist", ".*_cache", ".hypothesis")
"""What a copy does not have."""
FAILED = re.compile(r"^(?:FAILED|ERROR) (tests/.+?)(?: - .*)?$|^failed: .*(tests \d)", re.MULTILINE)
"""A test that fails; else that nothing could be collected."""
LATE = 400.0
"""Seconds beside `--seconds` after which a check is ended."""


@dataclass(frozen=True)
class Copy:
    """A copy of the tree, and the processors that its tests run on."""

    root: Path
    processors: frozenset[int]

    def run(self, *words: str, seconds: float, without: frozenset[str] = frozenset()) -> tuple[int, str]:
        """Run Python in the copy, without some tests: the status, which is 1 if it takes too long, and the output."""
        path = os.pathsep.join(filter(None, (str(self.root / "src"), str(self.root), os.environ.get("PYTHONPATH"))))
        options = shlex.join(f"--deselect={name}" for name in sorted(without))
        process = subprocess.Popen(
            [sys.executable, *words], cwd=self.root, stdin=subprocess.DEVNULL, stdout=-1, stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONPATH": path, "PYTEST_ADDOPTS": options}, start_new_session=True, text=True,
        )  # fmt: skip
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(process.pid, self.processors)
        try:
            output = process.communicate(timeout=seconds)[0]
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            return 1, process.communicate()[0]
        return process.returncode, output


@dataclass(frozen=True)
class Outcome:
    """What `make check` says of a mutant: the test that fails, or nothing, and the seconds that it took."""

    mutant: Mutant
    test: str
    seconds: float


class Judge:
    """Judges mutants in copies, several at a time."""

    def __init__(self, folder: Path, jobs: int, seconds: float) -> None:
        self.seconds, self.lock, self.failing = seconds, Lock(), frozenset[str]()
        self.free = SimpleQueue[Copy]()
        processors = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [0, 1]
        for k in range(jobs):
            root = folder / str(k)
            shutil.copytree(folder / "0" if k else ROOT, root, symlinks=True, ignore=shutil.ignore_patterns(*LEFT_OUT))
            for name in ("src", "tests"):
                compileall.compile_dir(root / name, quiet=2)
            own = {processors[(2 * k + each) % len(processors)] for each in range(2)}
            self.free.put(Copy(root, frozenset(own)))

    def __call__(self, mutant: Mutant) -> Outcome:
        copy = self.free.get()
        file = copy.root / "src" / "ptokit" / mutant.module
        original, (changed, lines) = file.read_bytes(), edited(PACKAGE, mutant)
        change = f"src/ptokit/{mutant.module}:{lines[0]}-{lines[-1]}"
        words = ("tests/check", "--change", change, "--seconds", str(self.seconds))
        start = time.monotonic()
        try:
            for test in self._failing_tests(copy, file, original, changed, words):
                if test and self._fails_always(copy, test):
                    with self.lock:
                        self.failing |= {test}
                        print(f"fails without a change, and is left out: {test}", flush=True)
                    start = time.monotonic()
                else:
                    break
            outcome = Outcome(mutant, test, time.monotonic() - start)
        finally:
            file.write_bytes(original)
            self.free.put(copy)
        with self.lock:
            print(f"{'caught by ' + test if test else 'missed'} in {outcome.seconds:.0f} s: {mutant}", flush=True)
        return outcome

    def _failing_tests(
        self, copy: Copy, file: Path, original: bytes, changed: str, words: tuple[str, ...]
    ) -> Iterator[str]:
        """The test that fails of a changed file, as often as asked; the file is as before after each run."""
        while True:
            file.write_text(changed, encoding="utf-8")
            output = copy.run(*words, seconds=self.seconds + LATE, without=self.failing)[1]
            file.write_bytes(original)
            found = FAILED.search(output)
            yield (found[1] or found[2]) if found else ""

    def _fails_always(self, copy: Copy, test: str) -> bool:
        """Whether a test fails without a change, too; if none could be collected, whether that is so."""
        asked = (test,) if test.startswith("tests/") else ("--collect-only", "tests/isa")
        return copy.run("-m", "pytest", "-q", "-p", "no:xdist", *asked, seconds=LATE)[0] != 0


def report(outcomes: list[Outcome]) -> float:
    """Print what was caught; the share in per cent."""
    missed = [outcome for outcome in outcomes if not outcome.test]
    print()
    for outcome in missed:
        print(f"missed: src/ptokit/{outcome.mutant}")
    seconds = sorted(outcome.seconds for outcome in outcomes)
    print(f"{len(outcomes) - len(missed)}/{len(outcomes)} caught; {seconds[len(seconds) // 2]:.0f} s half of the time, "
          f"at most {seconds[-1]:.0f} s")  # fmt: skip
    return 100 * (1 - len(missed) / len(outcomes))


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="tests/mutation/agreement.py", description="Mutants that make check notices.")
    parser.add_argument("--count", type=int, default=50, help="how many mutants to draw")
    parser.add_argument("--seed", type=int, default=0, help="which ones")
    parser.add_argument("--part", default="1/1", help="judge a part of them, as in 2/3")
    parser.add_argument("--seconds", type=float, default=140.0, help="how long make check begins tests")
    parser.add_argument("-j", "--jobs", type=int, default=1, help="how many run at a time, on two processors each")
    parser.add_argument("--only", default="", help="a part of a printed mutant, such as isa/ or isa/layout.py:12")
    parser.add_argument("--goal", type=float, default=96.0, help="the share that must be caught, in per cent")
    asked = parser.parse_args()
    part, parts = map(int, asked.part.split("/"))
    mutants = drawn(candidates(asked.only)[0], asked.count, asked.seed)[part - 1 :: parts]
    with tempfile.TemporaryDirectory(prefix="agreement-") as folder:
        judge = Judge(Path(folder), asked.jobs, asked.seconds)
        with ThreadPoolExecutor(asked.jobs) as pool:
            outcomes = list(pool.map(judge, mutants))
    return int(report(outcomes) < asked.goal)


if __name__ == "__main__":
    raise SystemExit(main())
