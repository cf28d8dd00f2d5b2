"""A quick answer after a change: lint, types of the changed files, and the tests that can notice it.

    python tests/check [--base COMMIT] [--change FILE:LINES] [--seconds 140] [-j 2] [--list]

Judged is what is not committed; if nothing is, the last commit; with `--base`, all since a commit; with `--change`,
some lines of a file, as in `src/ptokit/isa/layout.py:12-14`. Tests run the likeliest first (`related.py`), in some
processes, until one fails or time is over. `make test` runs all of them.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from changes import ROOT, Change, changes, named
from related import ranked, words_of

HERE = Path(__file__).resolve().parent
FAILED = re.compile(r"^FAILED (tests/.+?)(?: - .*)?$", re.MULTILINE)


@dataclass(frozen=True)
class Running:
    """A child process whose output is kept in a file."""

    name: str
    process: subprocess.Popen[bytes]
    output: Path

    @property
    def failed(self) -> bool:
        """Whether it has ended, and not well: tests that end early do, and that there is none."""
        is_early = b"time is over" in self.output.read_bytes()
        return self.process.poll() not in (None, 0, 5, *((2,) if is_early else ()))

    def show(self) -> None:
        """Print what it printed if it failed, else its last line."""
        lines = self.output.read_text(errors="replace").rstrip().splitlines()
        lines = [line for line in lines if not line.startswith("coverage:")]
        print(f"--- {self.name}", *(lines if self.failed else lines[-1:]), sep="\n", flush=True)


def started(folder: Path, name: str, *command: str, **settings: str) -> Running:
    """Start a child process; its output goes to a folder."""
    file = folder / name
    with file.open("wb") as output:
        streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": subprocess.STDOUT}
        return Running(name, subprocess.Popen(command, cwd=ROOT, env={**os.environ, **settings}, **streams), file)


def linted(files: Sequence[str], folder: Path) -> list[Running]:
    """Lint of the changed files, and their types."""
    module = [sys.executable, "-m"]
    running = [started(folder, "size", sys.executable, "tests/size.py")]
    if files:
        running += [started(folder, "lint", *module, "ruff", "check", "--force-exclude", *files)]
        running += [started(folder, "format", *module, "ruff", "format", "--check", "--force-exclude", *files)]
    typed = [file for file in files if file.startswith("src/") and not file.startswith("src/ptokit/torch/")]
    if typed:
        running += [started(folder, "types", *module, "basedpyright", "--pythonpath", sys.executable, *typed)]
    return running


def tested(changed: Sequence[Change], seconds: float, jobs: int, folder: Path) -> list[Running]:
    """The tests that can notice the changes, divided among processes."""
    likely, order = ranked(changed), folder / "order.json"
    order.write_text(json.dumps([f"{test.file}::{test.name}" for test in likely]), encoding="utf-8")
    files = list(dict.fromkeys(test.file for test in likely))
    words = " ".join({word.lower() for change in changed for word in words_of(change)})
    print(f"{len(likely)} test functions in {len(files)} files can notice it", flush=True)
    path = os.pathsep.join(filter(None, (str(HERE), os.environ.get("PYTHONPATH"))))
    settings = {
        "PTOKIT_ORDER": str(order), "PTOKIT_WORDS": words, "PTOKIT_END": str(time.time() + seconds), "PYTHONPATH": path,
    }  # fmt: skip
    names: list[dict[str, None]] = [{} for _ in range(jobs)]
    for test in likely:
        part = files.index(test.file) % jobs
        names[part][test.file if test.may_be_skipped else f"{test.file}::{test.name}"] = None
    command = (sys.executable, "-m", "pytest", "-q", "-x", "--no-header", "--assert=plain", "-p", "deadline")
    parts = [(f"tests {number}", own) for number, own in enumerate(names, 1) if own]
    return [started(folder, name, *command, "-p", "no:xdist", *own, **settings) for name, own in parts]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", help="judge all changes since this commit")
    parser.add_argument("--change", help="judge these lines, as in src/ptokit/isa/layout.py:12-14")
    parser.add_argument("--seconds", type=float, default=140.0, help="when no further test is begun")
    parser.add_argument("-j", "--jobs", type=int, default=2)
    parser.add_argument("--list", action="store_true", help="print the test functions, and run nothing")
    asked = parser.parse_args()
    start = time.monotonic()
    changed = [named(asked.change)] if asked.change else changes(asked.base)
    print(f"changed: {', '.join(each.path for each in changed) or 'nothing'}", flush=True)
    if asked.list:
        print(*(f"{test.file}::{test.name}" for test in ranked(changed)), sep="\n")
        return 0
    python = [each.path for each in changed if each.path.endswith(".py") and (ROOT / each.path).exists()]
    with tempfile.TemporaryDirectory() as folder:
        running = tested(changed, asked.seconds, asked.jobs, Path(folder)) + linted(python, Path(folder))
        failed = judged(running)
        ids = [name for each in running if each.name in failed for name in FAILED.findall(each.output.read_text())]
    if ids:  # once more, with what their asserts compare
        subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "--no-header", "-p", "no:xdist", *ids], cwd=ROOT, check=False
        )
    print(f"{'failed: ' + ', '.join(failed) if failed else 'nothing fails'}; {time.monotonic() - start:.0f} s")
    return int(bool(failed))


def judged(running: Sequence[Running]) -> list[str]:
    """The names of those that fail. When a test has failed, the other tests are ended."""
    tests, stopped = [each for each in running if each.name.startswith("tests")], list[Running]()
    while any(each.process.poll() is None for each in running):
        if any(each.failed for each in tests) and not stopped:
            stopped = [each for each in tests if each.process.poll() is None]
            for each in stopped:
                each.process.terminate()
        time.sleep(0.1)
    ended = [each for each in running if each not in stopped]
    for each in ended:
        each.show()
    return [each.name for each in ended if each.failed]


if __name__ == "__main__":
    sys.exit(main())
