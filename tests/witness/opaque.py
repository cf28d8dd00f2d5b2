"""Writes what the vendor's headers write in calls of opaque instructions: `src/ptokit/isa/effects.json`.

python -m tests.witness.opaque PATH --name 2026.08 --commit 3186c381 --date 2026-08-21 [--only tpack,thistogram]
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
from collections import defaultdict
from functools import partial
from pathlib import Path

import numpy as np

from ptokit.cli.headers import TESTS, argument
from ptokit.cxx.compile import CompileError, compile_source
from ptokit.cxx.decoding import LOOSE, instr_shape
from ptokit.cxx.operands import Arrays, Unexpressible, tile_slot
from ptokit.cxx.record import record
from ptokit.cxx.recording import RecordedCall, RecordedLaunch, RecordedTile
from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.isa.opaque import ALL_PIPES, EXTENTS, RECORDED_EFFECTS, ROWS, opaque_rows
from ptokit.lang.cpp_entries import entries_of
from ptokit.target import families_in_cpp
from ptokit.witness.effects import Observed
from ptokit.witness.headers import Checkout
from ptokit.witness.record import Witness
from ptokit.witness.unknown import place_of, within

ENTRIES = 2
"""Entries of each file that are run."""
FORMS_OF_MODELLED = ("tconcat", "tquant", "tinsert", "textract", "tgather", "tcvt", "tmov_vect", "tfillpad")
"""Folders of tests that call forms of modelled instructions."""
WRITTEN = set("wus")
"""Letters of operands that are written."""
OF_WRITTEN = {"none": "tile"}
"""A call that writes nothing of them leaves out what depends on data: that is not known."""
Found = dict[str, list[tuple[str, ...]]]


def folders(root: Path, family: str) -> list[Path]:
    """The folders whose kernels call opaque instructions."""
    rows = (row for row in ROWS if row.in_cpp and row.name not in INSTRUCTIONS and row.pipe not in ("S", ALL_PIPES))
    names = tuple(row.name for row in rows)
    of_tests = sorted(each for each in (root / TESTS.format(family)).iterdir() if each.is_dir())
    return [each for each in of_tests if each.name.startswith((*names, *FORMS_OF_MODELLED))]


def run(root: Path, family: str, file: Path) -> tuple[str, Found]:
    """The classes of what is written, by instruction and form, of each call."""
    found: Found = defaultdict(list)
    try:
        with (
            Witness(Checkout.at(root)) as witness,
            compile_source(file, family) as plain,
            witness.compile(file, family) as build,
        ):
            for entry in entries_of(plain)[:ENTRIES]:
                arguments, grid = [*map(argument, entry.parameters)], 1 if entry.kind == "kernel" else None
                recording = record(plain, entry.name, arguments, grid)
                blocks, _ = witness.run(build, entry.name, arguments, grid)
                seen = {(block.index, block.core, block.subblock): block.calls for block in blocks}
                for launch in recording.launches:
                    for block in launch.blocks:
                        calls = [recording.calls[int(number)] for number in block.calls]
                        _pair(calls, seen.get((block.index, block.core, block.subblock), ()), launch, family, found)
    except CompileError as problem:
        return f"{file.name}: {str(problem).strip().splitlines()[0][:160]}", found
    return "", found


def _pair(
    calls: list[RecordedCall], seen: tuple[Observed, ...], launch: RecordedLaunch, family: str, found: Found
) -> None:
    """The calls of a block beside what the headers did, in the order of each name."""
    by_name: dict[str, list[Observed]] = defaultdict(list)
    for observed in seen:
        by_name[observed.name.lower()].append(observed)
    turn: dict[str, int] = defaultdict(int)
    for call in calls:
        if call.name in by_name and turn[call.name] < len(by_name[call.name]):
            observed = by_name[call.name][turn[call.name]]
            turn[call.name] += 1
            try:
                shape, _ = instr_shape(call, Arrays(launch.arguments, ()), family)
            except (Unexpressible, KeyError):
                continue
            classes = _classes(call, observed)
            row = opaque_rows().get(call.name)
            known = row is not None and shape.opaque_form in {form.letters for form in row.forms}
            if known and set(shape.opaque_form) & WRITTEN and observed.pipes and len(classes) == len(shape.opaque_form):
                extents = (
                    each if letter in WRITTEN else "none"
                    for letter, each in zip(shape.opaque_form, classes, strict=True)
                )
                found[f"{call.name} {shape.opaque_form}"].append((_pipe(observed), *extents))


def _pipe(observed: Observed) -> str:
    return ",".join(sorted(observed.pipes))


def _classes(call: RecordedCall, observed: Observed) -> list[str]:
    """Of each operand: how much of it is written."""
    operands = [operand for operand in call.operands if type(operand) in LOOSE]
    places = [place_of(operand) for operand in operands]
    written = observed.bytes_of("write")
    found = list[str]()
    for operand, (memory, start) in zip(operands, places, strict=True):
        later = [other for place, other in places if place == memory and other > start]
        ranges = within(written.get(memory), start, min(later, default=1 << 62))
        found.append(_class(operand, ranges) if isinstance(operand, RecordedTile) else "n")
    return found


def _class(tile: RecordedTile, ranges: np.ndarray | None) -> str:
    """The least extent that covers what is written."""
    if ranges is None:
        return "none"
    spec = tile_slot(tile)[0].spec
    size = spec.dtype.size
    offsets = np.array([[spec.layout.offset(i, j) for j in range(tile.valid_cols)] for i in range(tile.valid_rows)])
    valid = np.zeros(spec.nbytes, bool)
    if offsets.size and (offsets.max() + 1) * size > spec.nbytes:
        return "tile"
    valid[(offsets.reshape(-1, 1) * size + np.arange(size)).reshape(-1)] = True
    pairs = np.zeros(spec.nbytes, bool)
    half = offsets[:, : -(-tile.valid_cols // 2)]
    pairs[(half.reshape(-1, 1) * size + np.arange(size)).reshape(-1)] = True
    blocks = np.repeat(np.pad(valid, (0, -len(valid) % 32)).reshape(-1, 32).any(1), 32)
    for name, mask in (("pairs", pairs), ("valid", valid), ("blocks", blocks)):
        if all(mask[first:last].all() and last <= len(mask) for first, last in ranges):
            return name
    return "tile"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path)
    for name in ("name", "commit", "date"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--target", default="", help="one family; the table of others stays")
    asked = parser.parse_args()
    root = Checkout.at(asked.path).path
    tables = json.loads(RECORDED_EFFECTS.read_text(encoding="utf-8")) if asked.target else {}
    for family in (asked.target,) if asked.target else families_in_cpp():
        files = [file for each in folders(root, family) for file in sorted(each.glob("*kernel*.cpp"))]
        files = [file for file in files if not asked.only or file.parent.name in asked.only.split(",")]
        seen: Found = defaultdict(list)
        with multiprocessing.get_context("spawn").Pool(2, maxtasksperchild=4) as pool:
            for problem, found in pool.imap_unordered(partial(run, root, family), files):
                if problem:
                    print(family, problem, flush=True)
                for key, rows in found.items():
                    seen[key] += rows
        effects = {}
        for key, rows in sorted(seen.items()):
            pipes = sorted({row[0] for row in rows})
            most = [max(column, key=[*EXTENTS, "n"].index) for column in zip(*(row[1:] for row in rows), strict=True)]
            print(family, key, len(rows), pipes, most, flush=True)
            effects[key] = " ".join(most)
        about = {"revision": f"{family}@{asked.name}", "commit": asked.commit, "date": asked.date}
        tables[family] = {**about, "effects": effects}
    if not asked.only:
        RECORDED_EFFECTS.write_text(json.dumps(tables, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
