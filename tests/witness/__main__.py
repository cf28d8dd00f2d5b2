"""Compares the tables of instructions with the headers of a checkout, by the kernels of its tests and by our own.

python -m tests.witness PATH [--target a2a3@2026.08] [--only tadd,tci] [--entries 2] [--page docs]
python -m tests.witness PATH --values [--only tadd,tci] [--page docs]
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from ptokit.target import profile
from ptokit.witness.headers import Checkout
from tests.witness import emitted, forms, kept
from tests.witness.compare import Comparison, Source, compare_file
from tests.witness.judged import TARGET, Judged, judge, vector_instructions
from tests.witness.overloads import overloads
from tests.witness.page import values_lines, written, written_values
from tests.witness.values import ValueWitness

OWN_ENTRIES = 1000
"""At most, of a source of our own: all."""
TASKS = 12
"""Of a process: launches keep memory, and a new process imports everything."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path)
    parser.add_argument("--target", default="a2a3@2026.08", help="a revision, or a plain target")
    parser.add_argument("--only", default="", help="folders of tests and names of instructions, with commas")
    parser.add_argument("--entries", type=int, default=2, help="entries of each launch function of the vendor's files")
    parser.add_argument("--values", action="store_true", help="compare results instead, on A2/A3")
    parser.add_argument("--page", type=Path, help="a folder for a page with the result")
    asked = parser.parse_args()
    return of_values(asked) if asked.values else of_effects(asked)


def family(asked: argparse.Namespace) -> str:
    """Whose headers these are."""
    return profile(asked.target).family


def of_effects(asked: argparse.Namespace) -> int:
    """Pipes, flags and bytes."""
    checkout, found, start = Checkout.at(asked.path), Comparison(family(asked)), time.monotonic()
    shared, files = kept.kept(checkout, family(asked)), [*own_sources(asked), *sources(checkout, asked)]
    with multiprocessing.get_context("spawn").Pool(maxtasksperchild=TASKS) as pool:
        for result in pool.imap_unordered(partial(compare_file, checkout.path, shared, asked.target), files):
            print(f"{result.seconds}: {result.summary}, {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
            for name, examples in result.examples.items():
                print(f"{name}:", *examples, sep="\n    ", file=sys.stderr, flush=True)
            found.merge(result)
    print(*found.problems, *found.unlike, sep="\n")
    for name, count in sorted(found.calls.items()):
        print(f"{name}: {count} calls, {found.differ[name]} differ", *found.examples.get(name, ()), sep="\n    ")
    print(found.summary)
    print(f"{time.monotonic() - start:.0f} s")
    if asked.page:
        seconds = f"{time.monotonic() - start:.0f} s, {sum(os.times()[:4]):.0f} s of processors"
        every = overloads(checkout, shared.headers, family(asked))
        written(asked.page / f"witness-{family(asked)}.md", found, asked.target, every, seconds)
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


CORES = {"pto_vec_st": "vector", "pto_cube_st": "cube"}
"""What builds a test for one core only."""


def sources(checkout: Checkout, asked: argparse.Namespace) -> Iterator[Source]:
    """The kernels of the vendor's tests."""
    folder = checkout.path / "tests" / "npu" / family(asked) / "src" / "st" / "testcase"
    known = sorted(path.name for path in folder.iterdir() if path.is_dir())
    for name in known:
        if not asked.only or name in asked.only.split(","):
            core = core_of(folder / name / "CMakeLists.txt")
            yield from (Source(file, asked.entries, core) for file in sorted((folder / name).glob("*kernel*.cpp")))


def core_of(build: Path) -> str:
    """The core that a test is built for; empty if for both."""
    stated = re.search(r"^(pto_\w+)\(", build.read_text("utf-8"), re.MULTILINE) if build.is_file() else None
    return CORES.get(stated[1], "") if stated else ""


def own_sources(asked: argparse.Namespace) -> list[Source]:
    """Our own kernels."""
    names = [name for name in emitted.names(family(asked)) if not asked.only or name in asked.only.split(",")]
    known = [form for form in forms.FORMS if family(asked) in form.targets]
    known = [form for form in known if not asked.only or form.instruction in asked.only.split(",")]
    return [
        *(Source(file, OWN_ENTRIES) for file in kept.own_sources(names, family(asked))),
        *(Source(file, OWN_ENTRIES, core) for file, core in kept.sources_of_forms(known)),
    ]


if __name__ == "__main__":
    sys.exit(main())
