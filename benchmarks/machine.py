"""Costs of the machine model: relative to the reference engine, and by number of blocks.

    python benchmarks/machine.py

Required: a clean kernel that gathers 64x256 tiles over 256 blocks takes at most 10 times as long as on the reference
engine, with all checks on; time and memory grow at most linearly, up to 10,000 blocks.
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
GROWTH = (100, 1_000, 10_000)
GROWTH_COLS = 16
"""Narrow rows, so that the array of 10,000 blocks stays small."""
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


def arrays(blocks: int, cols: int) -> dict[str, Any]:
    """A table, indices for the blocks, and an array for the result."""
    rng = np.random.default_rng(0)
    table = rng.standard_normal((10_000, cols), dtype="float32")
    indices = rng.integers(0, len(table), blocks * ROWS, dtype="int32")
    return {"table": table, "indices": indices, "out": np.zeros((blocks * ROWS, cols), "float32")}


def ratio(target: str, rounds: int = 9) -> tuple[float, float]:
    """Milliseconds on the reference engine, and how many times as long the machine takes."""
    given = arrays(BLOCKS, COLS)
    calls = {
        engine: lambda engine=engine: lookup[BLOCKS](**given, target=target, engine=engine)
        for engine in ("reference", "machine")
    }
    interleaved(calls, 1)
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
    """Print both tables; status 1 if the ratio is missed."""
    print(f"{platform.machine()}, Python {platform.python_version()}, NumPy {np.__version__}\n")
    print("| target | reference | machine |")
    print("|---|---|---|")
    worst = 0.0
    for target in TARGETS:
        reference, times = ratio(target)
        worst = max(worst, times)
        print(f"| {target} | {reference:.0f} ms | {times:.1f} x |")
    print("\n| blocks | a block | memory |")
    print("|---|---|---|")
    for blocks in GROWTH:
        each, memory = grown(blocks)
        print(f"| {blocks:,} | {each:.0f} us | {memory:.0f} MB |")
    sys.exit(worst > 10)


if __name__ == "__main__":
    main()
