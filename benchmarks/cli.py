"""Response times of the command line.

    python benchmarks/cli.py

Medians over separate processes, after one that writes bytecode. Required: `ptokit --help` in under 0.4 s.
"""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path

from _measure import interleaved, median

REPEATS = 15
CORPUS = Path(__file__).resolve().parent.parent / "tests/corpus"
COMMANDS = (
    ("--help",),
    ("--version",),
    ("explain", "MG-OOB-08"),
    ("check", str(CORPUS / "generic_form.pto")),
)


def process(words: tuple[str, ...]) -> None:
    """Run one process to its end."""
    subprocess.run([sys.executable, "-m", "ptokit", *words], check=False, capture_output=True)


def main() -> None:
    """Measure all commands, interleaved."""
    calls = {words: partial(process, words) for words in COMMANDS}
    for call in calls.values():
        call()
    for words, times in interleaved(calls, REPEATS).items():
        shown = " ".join(Path(word).name for word in words)
        print(f"ptokit {shown:<24} {median(times):.3f} s  (from {min(times):.3f} to {max(times):.3f})")


if __name__ == "__main__":
    main()
