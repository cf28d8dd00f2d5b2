"""How long the command line takes to answer.

    python benchmarks/cli.py

Medians over processes of their own, after one that writes bytecode. Asked for: `ptokit --help` in under 0.4 s.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

REPEATS = 15
CORPUS = Path(__file__).resolve().parent.parent / "tests/corpus"
COMMANDS = (
    ("--help",),
    ("--version",),
    ("explain", "MG-OOB-08"),
    ("check", str(CORPUS / "generic_form.pto")),
)


def seconds(words: tuple[str, ...]) -> float:
    """The wall time of one process."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-m", "ptokit", *words], check=False, capture_output=True)
    return time.perf_counter() - began


def main() -> None:
    """Measure all commands, interleaved."""
    for words in COMMANDS:
        seconds(words)
    rounds = [[seconds(words) for words in COMMANDS] for _ in range(REPEATS)]
    for words, times in zip(COMMANDS, zip(*rounds, strict=True), strict=True):
        shown = " ".join(Path(word).name for word in words)
        print(f"ptokit {shown:<24} {statistics.median(times):.3f} s  (from {min(times):.3f} to {max(times):.3f})")


if __name__ == "__main__":
    main()
