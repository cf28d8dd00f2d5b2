"""A quick answer after a change: lint, types of the changed files, and the tests that can notice it.

    python tests/check [--base COMMIT] [--seconds 140] [-j 2] [--list]

Judged is what is not committed; if nothing is, the last commit; with `--base`, all since a commit. Tests run the
likeliest first (`related.py`), in some processes, until one fails or time is over. `make test` runs all of them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from changes import ROOT, Change, changes
from related import ranked, words_of

HERE = Path(__file__).resolve().parent
Running = tuple[str, "subprocess.Popen[str]"]


def started(name: str, *command: str, **settings: str) -> Running:
    """A child process whose output is kept."""
    environment = {**os.environ, **settings}
    pipe = subprocess.PIPE
    return name, subprocess.Popen(
        command, cwd=ROOT, env=environment, text=True, stdin=subprocess.DEVNULL, stdout=pipe, stderr=subprocess.STDOUT
    )


def linted(files: Sequence[str]) -> list[Running]:
    """Lint of the changed files, and their types."""
    module = [sys.executable, "-m"]
    running = [started("size", sys.executable, "tests/size.py")]
    if files:
        running += [started("lint", *module, "ruff", "check", "--force-exclude", *files)]
        running += [started("format", *module, "ruff", "format", "--check", "--force-exclude", *files)]
    typed = [file for file in files if file.startswith("src/") and not file.startswith("src/ptokit/torch/")]
    if typed:
        running += [started("types", *module, "basedpyright", "--pythonpath", sys.executable, *typed)]
    return running


def tested(changed: Sequence[Change], seconds: float, jobs: int, order: Path) -> list[Running]:
    """The tests that can notice the changes, divided among processes."""
    likely = ranked(changed)
    order.write_text(json.dumps([f"{test.file}::{test.name}" for test in likely]), encoding="utf-8")
    files = list(dict.fromkeys(test.file for test in likely))
    words = " ".join({word.lower() for change in changed for word in words_of(change)})
    print(f"{len(likely)} test functions in {len(files)} files can notice it", flush=True)
    path = os.pathsep.join(filter(None, (str(HERE), os.environ.get("PYTHONPATH"))))
    settings = {
        "PTOKIT_ORDER": str(order), "PTOKIT_PARTS": str(jobs), "PTOKIT_WORDS": words,
        "PTOKIT_END": str(time.time() + seconds), "PYTHONPATH": path,
    }  # fmt: skip
    names = dict.fromkeys(test.file if test.may_be_skipped else f"{test.file}::{test.name}" for test in likely)
    command = (sys.executable, "-m", "pytest", "-q", "-x", "--no-header", "-p", "deadline", "-p", "no:xdist", *names)
    return [started(f"tests {part + 1}", *command, PTOKIT_PART=str(part), **settings) for part in range(jobs) if names]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", help="judge all changes since this commit")
    parser.add_argument("--seconds", type=float, default=140.0, help="when no further test is begun")
    parser.add_argument("-j", "--jobs", type=int, default=2)
    parser.add_argument("--list", action="store_true", help="print the test functions, and run nothing")
    asked = parser.parse_args()
    start = time.monotonic()
    changed = changes(asked.base)
    print(f"changed: {', '.join(each.path for each in changed) or 'nothing'}", flush=True)
    if asked.list:
        print(*(f"{test.file}::{test.name}" for test in ranked(changed)), sep="\n")
        return 0
    python = [each.path for each in changed if each.path.endswith(".py") and (ROOT / each.path).exists()]
    with tempfile.TemporaryDirectory() as folder:
        running = tested(changed, asked.seconds, asked.jobs, Path(folder, "order.json")) + linted(python)
        failed = [name for name, process in running if _ended(name, process)]
    print(f"{'failed: ' + ', '.join(failed) if failed else 'nothing fails'}; {time.monotonic() - start:.0f} s")
    return int(bool(failed))


def _ended(name: str, process: subprocess.Popen[str]) -> bool:
    """Whether a process failed; what it printed is shown then, else its last line."""
    output, _ = process.communicate()
    passed = (
        process.returncode in (0, 2, 5)
        if name.startswith("tests") and "time is over" in output
        else process.returncode in (0, 5)
    )
    lines = [line for line in output.rstrip().splitlines() if not line.startswith("coverage:")]
    print(f"--- {name}", *(lines[-1:] if passed else lines), sep="\n", flush=True)
    return not passed


if __name__ == "__main__":
    sys.exit(main())
