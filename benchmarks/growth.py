"""Growth of time and memory with the number of indices, from 1e3 to 1e8, and with the size of the table.

    python benchmarks/growth.py [--quick] [--threads N] [--most N] [--out FOLDER]

Writes `growth.svg` and `growth.json`. Required: time linear in the indices; temporary memory of a call at most the
index bytes of one chunk and 64 MB. The status is 1 if that is missed.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import resource
import subprocess
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from _cases import FULL, MOST_TABLE, Work, buffer, indices_of, source
from _contenders import LIBRARIES, Library, pick
from _machine import cores, facts, size
from _measure import OURS, Call, Verdict, Who, interleaved, median
from _plot import Panel, decades, svg
from _report import ASKED_HEAD, asked_data, asked_rows, replace_file, table
from rich.console import Console

import ptokit as pto

HERE = Path(__file__).parent
TIMED = ("gather", "add")
OPS = ("gather", "store", "add", "max")
CHUNK = 1 << 20
"""Indices that are generated at a time."""
LANES = 4 << 20
"""Indices that the engine processes at a time, for the bound on its memory."""
BOUND = (64 << 20) + 8 * LANES
SETTLED = 1_000_000
STRAIGHT = 1.25
"""The largest ratio of the time per index in the largest call to that in a call of a million."""
BATCH = 0.002
"""The least number of seconds for calls that are timed together."""
TIME = {1e-9: "ns", 1e-6: "µs", 1e-3: "ms", 1.0: "s"}
COUNT = {1.0: "", 1e3: "K", 1e6: "M"}
AXES = ((0, COUNT), (1, TIME))

Lines = dict[str, list[tuple[float, float]]]
"""Points by line name."""


def move(op: str, lanes: int, table: int) -> Work:
    """A move of `lanes` single elements from or to a table of `table` bytes."""
    cells = table // 4
    indices = indices_of("uniform", lanes, cells, "int64")
    if op == "gather":
        return Work(op, _floats("table", table), indices, _floats("out", 4 * lanes), repeats=True)
    return Work(op, _floats("target", table), indices, source("float32", lanes, False), repeats=True)


def _floats(role: str, count: int) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return buffer(role, count, False).view("float32")


def named(who: Who) -> str:
    """The display name of a contender."""
    return f"{who.library}, {who.threads} thread{'s' * (who.threads > 1)}"


class Field:
    """All contenders for an operation, each with its fastest form for a million indices."""

    def __init__(self, op: str, threads: Sequence[int]) -> None:
        work = move(op, SETTLED, FULL.tables["beyond"])
        self._forms: dict[Who, tuple[Library, str]] = {}
        for library in LIBRARIES:
            for count in threads if library.threaded else (1,):
                found = pick(library, work, count)
                if not isinstance(found, str) and found.right:
                    self._forms[found.who] = library, found.form

    def seconds(self, work: Work, rounds: int) -> Iterator[tuple[str, float]]:
        """The median time of every contender, by name."""
        calls: dict[Who, Call] = {}
        before: dict[Who, Call] = {}
        for who, (library, form) in self._forms.items():
            calls[who] = library.forms(work, who.threads)[form]
            before[who] = lambda library=library, who=who: library.set_threads(who.threads)
        warm = interleaved(calls, 2, before=before)
        loops = math.ceil(BATCH / min(map(min, warm.values())))
        for who, times in interleaved(calls, rounds, loops=loops, before=before, pause=0.005, patience=2).items():
            yield named(who), median(times)


def over_indices(field: Field, op: str, most: int, rounds: int) -> Lines:
    """Seconds against the number of indices."""
    lines: Lines = {}
    whole = move(op, most, FULL.tables["beyond"])
    for lanes in (10**power for power in range(3, 9)):
        if lanes <= most:
            part = Work(op, whole.table, whole.indices[:lanes], whole.values[:lanes], repeats=True)
            for name, seconds in field.seconds(part, rounds):
                lines.setdefault(name, []).append((lanes, seconds))
    return lines


def over_tables(field: Field, op: str, tables: Sequence[int], rounds: int) -> Lines:
    """Seconds of an index against the size of the table."""
    lines: Lines = {}
    for extent in tables:
        for name, seconds in field.seconds(move(op, SETTLED, extent), rounds):
            lines.setdefault(name, []).append((extent, seconds / SETTLED))
    return lines


def extra_memory(op: str, lanes: int, threads: int) -> int:
    """Bytes of temporary memory of a call: the growth of a separate process during it."""
    words = [sys.executable, __file__, "--call", op, "--most", str(lanes), "--threads", str(threads)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return int(done.stdout)


def call_alone(op: str, lanes: int, threads: int) -> int:
    """The same in this process. Arrays are filled in chunks, so that filling them does not raise the peak."""
    rng, table = np.random.default_rng(0), np.zeros(FULL.tables["beyond"] // 4, "float32")
    indices, values = np.empty(lanes, "int64"), np.zeros(lanes, "float32")
    for start in range(0, lanes, CHUNK):
        part = indices[start : start + CHUNK]
        part[:] = rng.integers(0, len(table), len(part))

    def call(count: int) -> None:
        if op == "gather":
            pto.gather(table, indices[:count], out=values[:count], threads=threads)
        else:
            atomic = "none" if op == "store" else op
            pto.scatter(table, values[:count], indices[:count], atomic=atomic, threads=threads)

    table.fill(0)
    values.fill(1)
    call(1000)  # compiles
    peak = _peak()
    call(lanes)
    return _peak() - peak


def _peak() -> int:
    """The peak memory of this process. Not from `getrusage` on Linux, which starts with the parent's."""
    status = Path("/proc/self/status")
    match = re.search(r"VmHWM:\s+(\d+) kB", status.read_text()) if status.exists() else None
    if match:
        return 1024 * int(match[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def straight(op: str, lines: Lines) -> Iterator[Verdict]:
    """Whether an index of the largest call takes as long as one of a call of a million."""
    for name, points in lines.items():
        lanes, seconds = points[-1]
        settled = dict(points).get(SETTLED, math.nan)
        if name.startswith(OURS) and lanes > SETTLED:
            found = seconds / lanes / (settled / SETTLED)
            said = f"time of one of {lanes:.0e} indices, of one of 1e6 ({name})"
            yield Verdict(f"growth, {op}", said, STRAIGHT, found, at_most=True)


def styles(most: int) -> dict[str, str]:
    """The style of each line: a colour per library, solid for all threads, dashed for one of several."""
    found: dict[str, str] = {}
    for number, library in enumerate(LIBRARIES):
        for threads in sorted({1, most}, reverse=True) if library.threaded else (1,):
            look = "dashed" if library.threaded and threads < most else "bold" if library.name == OURS else ""
            found[named(Who(library.name, threads))] = f"c{number} {look}".strip()
    return found


def panels(times: dict[str, Lines], tables: dict[str, Lines]) -> Iterator[Panel]:
    """The plots of the times."""
    for op, lines in times.items():
        across, up = (decades([point[axis] for line in lines.values() for point in line], unit) for axis, unit in AXES)
        yield Panel(f"{op} elements: time of a call", "indices", "time", lines, across, up)
    for op, lines in tables.items():
        up = decades([seconds for line in lines.values() for _, seconds in line], TIME)
        across = {extent: size(extent) for line in lines.values() for extent, _ in line[::2]}
        yield Panel(f"{op} elements: time of an index", "table", "time", lines, across, up)


def measure(most: int, threads: int, rounds: int) -> tuple[dict[str, dict[str, Lines]], list[Verdict]]:
    """All lines, and the verdicts on them."""
    counts, largest = sorted({1, threads}), FULL.tables["beyond"]
    tables = [1 << bits for bits in range(16, 40, 2) if 1 << bits <= min(8 * largest, MOST_TABLE)]
    fields = {op: Field(op, counts) for op in TIMED}
    times = {op: over_indices(field, op, most, rounds) for op, field in fields.items()}
    sizes = {op: over_tables(field, op, tables, rounds) for op, field in fields.items()}
    memory: Lines = {}
    for op in OPS:
        memory[op] = [(lanes, extra_memory(op, lanes, threads)) for lanes in (SETTLED, most)]
    verdicts = [verdict for op, lines in times.items() for verdict in straight(op, lines)]
    for op, points in memory.items():
        for lanes, extra in points:
            what = f"MB of temporary memory, {lanes:.0e} indices"
            verdicts.append(Verdict(f"memory, {op}", what, BOUND / 2**20, extra / 2**20, at_most=True))
    return {"time of a call": times, "time of an index": sizes, "extra memory": {OURS: memory}}, verdicts


def main() -> int:
    """Run, print, draw; 1 if a requirement is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="to 1e7 indices, fewer rounds")
    parser.add_argument("--threads", type=int, default=min(2, cores()), help="measured besides one (%(default)s)")
    parser.add_argument("--most", type=float, help="indices of the largest call (1e8, or 1e7 with --quick)")
    parser.add_argument("--out", type=Path, default=HERE / "results", help="output folder")
    parser.add_argument("--call", choices=OPS, help="make one call only and print its bytes of temporary memory")
    given = parser.parse_args()
    most = int(given.most or (1e7 if given.quick else 1e8))
    if given.call:
        print(call_alone(given.call, most, given.threads))
        return 0
    warnings.simplefilter("ignore")
    found, verdicts = measure(most, given.threads, 3 if given.quick else 7)
    drawn = list(panels(found["time of a call"], found["time of an index"]))
    head = facts()
    title = f"Growth on {head['processor']}, {head['cores']} cores"
    data = {"facts": head, "lines": found, "asked": asked_data(verdicts)}
    Console(width=None if sys.stdout.isatty() else 150).print(table("Growth", ASKED_HEAD, asked_rows(verdicts)))
    for name, text in (
        ("growth.svg", svg(title, drawn, styles(given.threads))),
        ("growth.json", json.dumps(data, indent=1) + "\n"),
    ):
        print(f"wrote {replace_file(given.out / name, text)}")
    return 0 if all(verdict.met for verdict in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
