"""Runs the gallery under NVIDIA's compute-sanitizer, each kernel under each tool: `make sanitize-gpu`.

`python -m tests.engine.cuda.sanitize [tool or kernel ...]` prints a line for each of them, and what a tool says.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from time import perf_counter

from tests.examples.test_gallery import GALLERY

TOOLS = ("memcheck", "racecheck", "initcheck")
AT_ONCE = 8
MOST_LINES = 30
"""Lines of a complaint that are printed."""
CLEAN = ("ERROR SUMMARY: 0 errors", "RACECHECK SUMMARY: 0 hazards")
"""What a tool says of a clean run."""


def complaint(command: str, tool: str, kernel: str) -> str:
    """What a tool says of a kernel that is not clean; empty if it is."""
    given = [command, "--tool", tool, "--error-exitcode", "1", "--print-limit", "5"]
    run = [sys.executable, "-m", "tests.engine.cuda.gallery", "--small", kernel]
    done = subprocess.run([*given, *run], env=os.environ | {"CUPY_ACCELERATORS": ""}, capture_output=True, text=True)
    said = done.stdout + done.stderr
    is_clean = not done.returncode and any(summary in said for summary in CLEAN)
    return "" if is_clean else "\n".join(f"  {line}" for line in said.splitlines()[:MOST_LINES])


def main(names: Sequence[str]) -> int:
    command = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")
    if command is None:
        print("this needs compute-sanitizer, of the CUDA toolkit")
        return 1
    tools = [tool for tool in TOOLS if tool in names] or TOOLS
    kernels = [entry.name for entry in GALLERY if entry.name in names] or [entry.name for entry in GALLERY]
    pairs, failed = list(product(tools, kernels)), 0

    def timed(pair: tuple[str, str]) -> tuple[str, float]:
        began = perf_counter()
        return complaint(command, *pair), perf_counter() - began

    with ThreadPoolExecutor(AT_ONCE) as pool:
        for (tool, kernel), (said, seconds) in zip(pairs, pool.map(timed, pairs), strict=True):
            print(f"{tool:10} {kernel:20} {'complains' if said else 'is clean'} ({seconds:.0f} s)", flush=True)
            print(said, end="\n" * bool(said), flush=True)
            failed |= bool(said)
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
