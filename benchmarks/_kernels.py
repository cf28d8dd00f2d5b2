"""Costs of kernels: a tile program over many blocks, compiling, launching.

Run as a program, it prints the seconds that compiling each kernel of the gallery takes in a separate process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from _cases import Sizes, Work, buffer, indices_of
from _contenders import Forms, Library
from _measure import LIMIT, OURS, Ask, Call, Verdict, interleaved, median
from launch import GALLERY, TARGET, case

import ptokit as pto

ROWS, COLS, BLOCKS = 64, 256, 4096
ENGINE = "native"


@pto.kernel
def gather_tiles(table, indices, out, rows: pto.const = ROWS):
    """`out[i] = table[indices[i]]`. The tile is only stored, so an engine may gather directly into `out`."""
    first = pto.block_idx() * rows
    ids = pto.Tile("vec", indices.dtype, 1, rows)
    tile = pto.Tile("vec", table.dtype, rows, table.shape[1])
    pto.tload(ids, indices[first : first + rows])
    pto.mgather(tile, table, ids)
    pto.tstore(out[first : first + rows], tile)


@pto.kernel
def gather_kept_tiles(table, indices, out, heads, rows: pto.const = ROWS):
    """The same, but the tile is read again: its first row goes to `heads`."""
    block = pto.block_idx()
    first = block * rows
    ids = pto.Tile("vec", indices.dtype, 1, rows)
    tile = pto.Tile("vec", table.dtype, rows, table.shape[1])
    head = pto.Tile("vec", table.dtype, 1, table.shape[1])
    pto.tload(ids, indices[first : first + rows])
    pto.mgather(tile, table, ids)
    pto.tstore(out[first : first + rows], tile)
    pto.textract(head, tile, 0, 0)
    pto.tstore(heads[block : block + 1], head)


PROGRAMS = {
    "tile program": (gather_kept_tiles, Ask(0.35, LIMIT)),
    "tile program, tile forwarded": (gather_tiles, Ask(0.42, LIMIT)),
}


def programs(sizes: Sizes) -> Iterator[tuple[str, Work, Library, Ask]]:
    """Each tile program as a move, and the library that runs it as a kernel."""
    table = buffer("table", sizes.tables["beyond"], False).view("float32").reshape(-1, COLS)
    indices = indices_of("uniform", BLOCKS * ROWS, len(table), "int32")
    out = buffer("out", BLOCKS * ROWS * COLS * 4, False).view("float32").reshape(-1, COLS)
    heads = np.zeros((BLOCKS, COLS), "float32")
    for name, (kernel, ask) in PROGRAMS.items():
        arrays = {"table": table, "indices": indices, "out": out}
        arrays |= {"heads": heads} if "heads" in kernel.parameters else {}

        def forms(work: Work, threads: int, kernel: Any = kernel, arrays: Any = arrays) -> Forms:
            return {"kernel": partial(kernel[BLOCKS], **arrays, target=TARGET, engine=ENGINE, threads=threads)}

        yield name, Work("gather", table, indices, out, repeats=True), Library(OURS, forms), ask


def launch_overhead(rounds: int) -> Verdict:
    """The time of a launch of one block minus the time per block of a larger launch."""
    rows, cols, more = 16, 64, 64
    table = np.ones((1000, cols), "float32")
    indices = indices_of("uniform", rows * (more + 1), len(table), "int32")
    out = np.zeros((len(indices), cols), "float32")
    how: dict[str, Any] = {"rows": rows, "target": TARGET, "engine": ENGINE}
    one = partial(gather_tiles[1], table, indices, out, **how)
    many = partial(gather_tiles[1 + more], table, indices, out, **how, threads=1)
    times = _warm({"one": one, "many": many}, rounds)
    extra = [a - (b - a) / more for a, b in zip(times["one"], times["many"], strict=True)]
    said = f"us beyond the work; in all {1e6 * median(times['one']):.1f}"
    return Verdict("launch of a cached 1-block kernel", said, 20, 1e6 * median(extra), at_most=True)


def _warm(calls: dict[str, Call], rounds: int, loops: int = 300) -> dict[str, list[float]]:
    """Seconds of calls that take microseconds."""
    interleaved(calls, 1, loops=loops)
    return interleaved(calls, rounds, loops=loops)


def compiling(rounds: int) -> list[Verdict]:
    """The time to compile a kernel of the gallery, and to load it from the disk cache; the slowest one counts."""
    found: dict[str, dict[str, list[float]]] = {"cold": {}, "from the disk cache": {}}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as cache:
            for times in found.values():
                for name, seconds in _compiled_apart(cache).items():
                    times.setdefault(name, []).append(1e3 * seconds)
    verdicts: list[Verdict] = []
    for (how, times), most in zip(found.items(), (80, 2), strict=True):
        slowest = max(times, key=lambda name: median(times[name]))
        case = f"compile of a gallery kernel, {how}"
        verdicts.append(Verdict(case, f"ms; the slowest is {slowest}", most, median(times[slowest]), at_most=True))
    return verdicts


def _compiled_apart(cache: str) -> dict[str, float]:
    """Seconds to compile each kernel of the gallery in a new process, imports excluded."""
    around = {**os.environ, "PTOKIT_CACHE": cache}
    done = subprocess.run([sys.executable, __file__], env=around, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return json.loads(done.stdout)


def _timed(call: Call) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def main() -> None:
    """Compile the gallery: the first native launch of a traced kernel minus later launches."""
    table, indices, out = np.ones((9, 16), "float32"), np.zeros(8, "int32"), np.zeros((8, 16), "float32")
    gather_tiles[1](table, indices, out, rows=8, target=TARGET, engine=ENGINE)  # imports everything
    found: dict[str, float] = {}
    for name in GALLERY:
        kernel, arrays = case(name)
        kernel[1](**arrays, target=TARGET, engine="reference")
        launch = partial(kernel[1], **arrays, target=TARGET, engine=ENGINE)
        found[name] = _timed(launch) - median([_timed(launch) for _ in range(5)])
    print(json.dumps(found))


if __name__ == "__main__":
    main()
