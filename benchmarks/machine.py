"""Costs of the machine model: relative to the reference engine, and by number of blocks.

    python benchmarks/machine.py

Required, with all checks on: a clean kernel that gathers 64x256 tiles over 256 blocks takes at most 10 times as long as
on the reference engine, one of 100 instructions over 2,000 blocks at most 3 times; time and memory grow at most
linearly, up to 10,000 blocks, and with the length of a block: one with 8 times as many iterations takes at most 12
times as long.
"""

from __future__ import annotations

import platform
import sys
import time
import tracemalloc
from statistics import median
from typing import Any

import numpy as np
from _measure import interleaved

import ptokit as pto

BLOCKS, ROWS, COLS = 256, 64, 256
LONG_BLOCKS, LONG_TURNS = 2_000, 49
"""Blocks of the long kernel, and iterations of its loop with two instructions."""
GROWTH = (100, 1_000, 10_000)
GROWTH_COLS = 16
"""Narrow rows, so that the array of 10,000 blocks stays small."""
TURNS = (100, 800)
"""Iterations of each of 16 blocks of a layernorm: about 1,300 and 10,000 steps."""
LONGER = 1.5
"""The largest ratio of the processor time of an iteration of the longer blocks to that of the shorter ones."""
TARGETS = ("a2a3", "a5")


@pto.kernel
def lookup(table, indices, out, rows: pto.const = ROWS):
    """`out[i] = table[indices[i]]`, one tile per block."""
    first = pto.block_idx() * rows
    idx = pto.Tile("vec", indices.dtype, 1, rows)
    dst = pto.Tile("vec", table.dtype, rows, table.shape[-1])
    pto.tload(idx, indices[first : first + rows])
    pto.mgather(dst, table, idx, oob="clamp")
    pto.tstore(out[first : first + rows], dst)


@pto.kernel
def long(x, out, turns: pto.const = LONG_TURNS):
    """100 instructions on small tiles."""
    first = pto.block_idx() * 8
    a, b = pto.Tile("vec", "float32", 8, 16), pto.Tile("vec", "float32", 8, 16)
    pto.tload(a, x[first : first + 8])
    for _ in pto.range(turns):
        pto.tadd(b, a, a)
        pto.tmul(a, b, b)
    pto.tstore(out[first : first + 8], b)


@pto.kernel
def layernorm(x, out, turns: pto.const):
    """The rows of `x` without their mean, divided by their variance; 8 rows in an iteration."""
    for i in pto.range(turns):
        at = (pto.block_idx() * turns + i) * 8
        t, squares, work = (pto.Tile("vec", "float32", 8, 64) for _ in range(3))
        mean, variance = (pto.Tile("vec", "float32", 8, 1, blayout="col_major") for _ in range(2))
        pto.tload(t, x[at : at + 8])
        pto.trowsum(mean, t, tmp=work)
        pto.trowexpandsub(t, t, mean)
        pto.tmul(squares, t, t)
        pto.tadds(squares, squares, 1e-5)
        pto.trowsum(variance, squares, tmp=work)
        pto.trowexpanddiv(t, t, variance)
        pto.tstore(out[at : at + 8], t)


def turn(turns: int) -> float:
    """Microseconds of processor time of an iteration of a layernorm over 16 blocks."""
    x = np.ones((16 * turns * 8, 64), "float32")
    began = time.process_time()
    assert layernorm[16](x, np.zeros_like(x), turns, target="a5", engine="machine")
    return 1e6 * (time.process_time() - began) / (16 * turns)


def arrays(blocks: int, cols: int) -> dict[str, Any]:
    """A table, indices for the blocks, and an array for the result."""
    rng = np.random.default_rng(0)
    table = rng.standard_normal((10_000, cols), dtype="float32")
    indices = rng.integers(0, len(table), blocks * ROWS, dtype="int32")
    return {"table": table, "indices": indices, "out": np.zeros((blocks * ROWS, cols), "float32")}


def ratio(kernel: Any, blocks: int, given: dict[str, Any], target: str, rounds: int) -> tuple[float, float]:
    """Milliseconds on the reference engine, and how many times as long the machine takes."""
    calls = {
        engine: lambda engine=engine: kernel[blocks](**given, target=target, engine=engine)
        for engine in ("reference", "machine")
    }
    for engine in calls:
        kernel[1](**given, target=target, engine=engine)
    times = interleaved(calls, rounds)
    ratios = [b / a for a, b in zip(times["reference"], times["machine"], strict=True)]
    return 1e3 * median(times["reference"]), median(ratios)


def grown(blocks: int) -> tuple[float, float]:
    """Microseconds per block, and the peak memory in MB beyond that of one block."""
    given = arrays(blocks, GROWTH_COLS)
    began = time.perf_counter()
    launch(blocks, given)
    seconds = time.perf_counter() - began
    return 1e6 * seconds / blocks, (held(blocks, given) - held(1, given)) / 1e6


def launch(blocks: int, given: dict[str, Any]) -> None:
    """Run on the machine; there must be no findings."""
    report = lookup[blocks](**given, target="a5", engine="machine")
    assert report.ok, report


def held(blocks: int, given: dict[str, Any]) -> int:
    """Peak bytes of temporary memory of a launch."""
    tracemalloc.start()
    launch(blocks, given)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


def main() -> None:
    """Print the tables; status 1 if a ratio is missed."""
    print(f"{platform.machine()}, Python {platform.python_version()}, NumPy {np.__version__}\n")
    print("| kernel | target | asked | reference | machine |")
    print("|---|---|---|---|---|")
    x = np.zeros((8 * LONG_BLOCKS, 16), "float32")
    cases = (
        ("gathers", 10, 9, lookup, BLOCKS, arrays(BLOCKS, COLS)),
        ("100 instructions", 3, 3, long, LONG_BLOCKS, {"x": x, "out": x.copy()}),
    )
    missed = False
    for name, asked, rounds, *case in cases:
        for target in TARGETS:
            reference, times = ratio(*case, target, rounds)
            missed |= times > asked
            print(f"| {name} | {target} | {asked} x | {reference:.0f} ms | {times:.1f} x |")
    print("\n| blocks | a block | memory |")
    print("|---|---|---|")
    for blocks in GROWTH:
        each, memory = grown(blocks)
        print(f"| {blocks:,} | {each:.0f} us | {memory:.0f} MB |")
    print("\n| iterations of a block | an iteration |")
    print("|---|---|")
    short, long_ = map(turn, TURNS)
    for turns, each in zip(TURNS, (short, long_), strict=True):
        print(f"| {turns:,} | {each:.0f} us |")
    sys.exit(missed or long_ > LONGER * short)


if __name__ == "__main__":
    main()
