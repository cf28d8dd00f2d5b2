"""`make fuzz-ray`: the tests of `make fuzz` as Ray tasks, one for each file.

python -m tests.fuzz_ray [--only TEXT] [--times N]
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from ptokit.progress import task
from ptokit.sharded.ray_owners import run_tasks

ROOT = Path(__file__).resolve().parent.parent
MOST_SECONDS = 3600
"""Seconds of a slice."""


class Slice(NamedTuple):
    """A file of tests, the options of pytest, and variables of the environment."""

    file: str
    options: tuple[str, ...]
    environment: tuple[str, ...]


def slices_of(commands: Iterable[str]) -> list[Slice]:
    """The files of the commands of `make fuzz`. Tests that start Ray are no tasks of Ray."""
    found: list[Slice] = []
    for line in commands:
        words = shlex.split(line)
        program = next((k for k, word in enumerate(words) if word.endswith("/pytest")), None)
        if program is None:
            continue
        text = " ".join(words[program + 1 :]).replace("-p tests.bar", "").replace("-n auto", "").split()
        options = tuple(word for k, word in enumerate(text) if word == "-p" or (k and text[k - 1] == "-p"))
        for word in text:
            if word.startswith("tests/"):
                files = [word] if word.endswith(".py") else sorted(map(str, Path(word).rglob("test_*.py")))
                found += [Slice(file, options, tuple(words[:program])) for file in files]
    return [each for each in found if not each.file.startswith("tests/sharded")]


def run_slice(file: str, options: tuple[str, ...], environment: tuple[str, ...]) -> tuple[int, str]:
    """The status of pytest, and the end of its output."""
    chosen = {**os.environ, **dict(word.split("=", 1) for word in environment)}
    words = [sys.executable, "-m", "pytest", "-q", *options, file]
    try:
        done = subprocess.run(words, env=chosen, capture_output=True, text=True, timeout=MOST_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return 1, f"not done after {MOST_SECONDS} s"
    return done.returncode, done.stdout[-4000:]


def main() -> int:
    """The exit status: 0 if all slices pass."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="only files with this in their names")
    parser.add_argument("--times", type=int, default=1, help="how often: with other random numbers each time")
    given = parser.parse_args()
    commands = subprocess.run(["make", "-n", "fuzz"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    slices = [each for each in slices_of(commands.splitlines()) if given.only in each.file] * given.times
    failed = 0
    with task("slices", len(slices), "slices") as progress:
        for each, (status, output) in zip(slices, progress.track(run_tasks(run_slice, slices)), strict=True):
            failed += status not in (0, 5)  # 5: a file without tests
            if status not in (0, 5):
                print(f"== {' '.join((*each.environment, 'pytest', *each.options, each.file))}\n{output}", flush=True)
    print(f"{len(slices)} slices, {failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
