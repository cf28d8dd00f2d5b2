"""Compares the tables of instructions with the headers of a checkout, by the kernels of its tests.

python -m tests.witness PATH [--target a2a3] [--only tadd,tci] [--entries 3]
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from ptokit.witness.headers import Checkout
from ptokit.witness.record import Witness
from tests.witness.compare import Comparison, compare


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path)
    parser.add_argument("--target", default="a2a3")
    parser.add_argument("--only", default="", help="folders of tests, with commas")
    parser.add_argument("--entries", type=int, default=3, help="entries of each file")
    asked = parser.parse_args()
    checkout, found, start = Checkout.at(asked.path), Comparison(), time.monotonic()
    folder = checkout.path / "tests" / "npu" / asked.target / "src" / "st" / "testcase"
    names = asked.only.split(",") if asked.only else sorted(path.name for path in folder.iterdir() if path.is_dir())
    with Witness(checkout) as witness:
        for name in names:
            for file in sorted((folder / name).glob("*kernel*.cpp")):
                compare(witness, file, asked.target, asked.entries, found)
    print(*found.problems, sep="\n")
    for name, count in sorted(found.calls.items()):
        print(f"{name}: {count} calls, {found.differ[name]} differ", *found.examples.get(name, ()), sep="\n    ")
    print(
        f"{dict(found.files)}, {found.calls.total()} calls, {found.differ.total()} differ, {found.unmatched} unmatched"
    )
    print(f"{time.monotonic() - start:.0f} s")
    return int(bool(found.differ))


if __name__ == "__main__":
    sys.exit(main())
