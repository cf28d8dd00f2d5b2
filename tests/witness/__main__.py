"""Compares the tables of instructions with the headers of a checkout, by the kernels of its tests and by our own.

python -m tests.witness PATH [--target a2a3@2026.08] [--only tadd,tci] [--entries 2] [--page docs]
python -m tests.witness PATH --values [--only tadd,tci] [--page docs]
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from ptokit.target import profile
from ptokit.witness.headers import Checkout
from tests.witness import emitted
from tests.witness.compare import Comparison, compare_file
from tests.witness.judged import TARGET, Judged, judge, vector_instructions
from tests.witness.page import values_lines, written, written_values
from tests.witness.values import ValueWitness

OWN_ENTRIES = 100
"""At most, of a source of our own: all."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path)
    parser.add_argument("--target", default="a2a3@2026.08", help="a revision, or a plain target")
    parser.add_argument("--only", default="", help="folders of tests and names of instructions, with commas")
    parser.add_argument("--entries", type=int, default=2, help="entries of each file of the vendor's")
    parser.add_argument("--values", action="store_true", help="compare results instead, on A2/A3")
    parser.add_argument("--page", type=Path, help="a folder for a page with the result")
    asked = parser.parse_args()
    return of_values(asked) if asked.values else of_effects(asked)


def family(asked: argparse.Namespace) -> str:
    """Whose headers these are."""
    return profile(asked.target).family


def of_effects(asked: argparse.Namespace) -> int:
    """Pipes, flags and bytes."""
    checkout, found, start = Checkout.at(asked.path), Comparison(), time.monotonic()
    with tempfile.TemporaryDirectory() as folder, multiprocessing.get_context("spawn").Pool(maxtasksperchild=4) as pool:
        files = [*sources(checkout, asked), *own_sources(Path(folder), asked)]
        for result in pool.imap_unordered(partial(compare_file, checkout.path, asked.target), files):
            print(f"{result.seconds}: {result.summary}, {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
            for name, examples in result.examples.items():
                print(f"{name}:", *examples, sep="\n    ", file=sys.stderr, flush=True)
            found.merge(result)
    print(*found.problems, sep="\n")
    for name, count in sorted(found.calls.items()):
        print(f"{name}: {count} calls, {found.differ[name]} differ", *found.examples.get(name, ()), sep="\n    ")
    print(found.summary)
    print(f"{time.monotonic() - start:.0f} s")
    if asked.page:
        written(asked.page / f"witness-{family(asked)}.md", found, asked.target, time.monotonic() - start)
    return int(bool(found.differ))


def of_values(asked: argparse.Namespace) -> int:
    """Results, of A2/A3."""
    found, start = Judged(), time.monotonic()
    names = [name for name in vector_instructions() if not asked.only or name in asked.only.split(",")]
    with (
        ValueWitness(Checkout.at(asked.path)) as witness,
        tempfile.TemporaryDirectory() as folder,
        multiprocessing.get_context("spawn").Pool(maxtasksperchild=8) as pool,
    ):
        for result in pool.imap_unordered(partial(judge, witness.folder, TARGET, Path(folder)), names):
            print(f"{result.seconds}: {result.calls.total()} calls", file=sys.stderr, flush=True)
            found.merge(result)
    lines = list(values_lines(found, names))
    print(*lines, f"{time.monotonic() - start:.0f} s", sep="\n")
    if asked.page:
        written_values(asked.page / "witness-a2a3-values.md", found, names, time.monotonic() - start)
    return int(bool(found.differ or found.uncovered))


def sources(checkout: Checkout, asked: argparse.Namespace) -> Iterator[tuple[Path, int]]:
    """The kernels of the vendor's tests, and how many entries of each."""
    folder = checkout.path / "tests" / "npu" / family(asked) / "src" / "st" / "testcase"
    known = sorted(path.name for path in folder.iterdir() if path.is_dir())
    names = [name for name in known if not asked.only or name in asked.only.split(",")]
    return ((file, asked.entries) for name in names for file in sorted((folder / name).glob("*kernel*.cpp")))


def own_sources(folder: Path, asked: argparse.Namespace) -> Iterator[tuple[Path, int]]:
    """Our own kernels, written to a folder."""
    for name in emitted.names(family(asked)):
        if not asked.only or name in asked.only.split(","):
            file = folder / f"own_{name}.cpp"
            file.write_text(emitted.source(name, family(asked)))
            yield file, OWN_ENTRIES


if __name__ == "__main__":
    sys.exit(main())
