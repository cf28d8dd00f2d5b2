"""Costs of eager calls: medians of interleaved repeats, in one run.

    python benchmarks/eager.py

Required: mgather of a 16x128 float32 tile under 15 us; of a 64x256 tile at 4 GB/s of payload or more on one core;
a refused call under 200 us; import under 0.3 s.
"""

from __future__ import annotations

import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
from _measure import interleaved, medians

import ptokit as pto

REPEATS, CALLS = 25, 400


def gather(rows: int, cols: int) -> Callable[[], object]:
    """A warm row gather with in-range indices."""
    rng = np.random.default_rng(1)
    table = pto.GlobalTensor(rng.random((10_000, cols), np.float32))
    idx = pto.Tile("vec", "int32", 1, rows).write(rng.integers(0, 10_000, (1, rows)))
    dst = pto.Tile("vec", "float32", rows, cols)
    return lambda: pto.mgather(dst, table, idx)


def numpy_take(rows: int, cols: int) -> Callable[[], object]:
    """The same work with NumPy's simplest call."""
    rng = np.random.default_rng(1)
    table = rng.random((10_000, cols), np.float32)
    idx = rng.integers(0, 10_000, rows)
    return lambda: np.take(table, idx, axis=0)


def scatter_add(rows: int, cols: int) -> Callable[[], object]:
    """A row scatter with atomic add."""
    table = pto.GlobalTensor(np.zeros((10_000, cols), np.float32))
    idx = pto.Tile("vec", "int32", rows, 1).write(np.arange(rows)[:, None] // 2)
    src = pto.Tile("vec", "float32", rows, cols).write(1)
    return lambda: pto.mscatter(table, src, idx, atomic="add")


def refusal() -> Callable[[], object]:
    """A call with the wrong index shape."""
    table = pto.GlobalTensor(np.zeros((100, 128), np.float32))
    idx = pto.Tile("vec", "int32", 16, 16).write(0)
    dst = pto.Tile("vec", "float32", 16, 128)

    def call() -> object:
        try:
            return pto.mgather(dst, table, idx)
        except pto.VerifyError as refused:
            return refused

    return call


CASES: dict[str, tuple[Callable[[], object], int]] = {
    "mgather 16x128 float32": (gather(16, 128), 16 * 128 * 4),
    "np.take 16x128 float32": (numpy_take(16, 128), 16 * 128 * 4),
    "mgather 64x256 float32": (gather(64, 256), 64 * 256 * 4),
    "np.take 64x256 float32": (numpy_take(64, 256), 64 * 256 * 4),
    "mscatter add 64x256 float32": (scatter_add(64, 256), 64 * 256 * 4),
    "refused mgather": (refusal(), 0),
}


def measure() -> dict[str, float]:
    """Median seconds of one call, cases interleaved."""
    calls = {name: case for name, (case, _) in CASES.items()}
    for call in calls.values():
        call()
    return medians(interleaved(calls, REPEATS, loops=CALLS))


def import_seconds(code: str) -> float:
    """Median seconds for a fresh interpreter to run `code`."""
    times: list[float] = []
    for _ in range(7):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def main() -> None:
    """Print the table."""
    print(f"{platform.machine()}, Python {platform.python_version()}, NumPy {np.__version__}")
    for name, seconds in measure().items():
        size = CASES[name][1]
        rate = f"{size / seconds / 1e9:6.2f} GB/s" if size else ""
        print(f"{name:<30}{seconds * 1e6:8.1f} us  {rate}")
    bare, needs, full = (import_seconds(code) for code in ("pass", "import numpy, ml_dtypes", "import ptokit"))
    print(
        f"{'import ptokit':<30}{1e3 * (full - bare):8.1f} ms  NumPy and ml_dtypes alone {1e3 * (needs - bare):.1f} ms"
    )


if __name__ == "__main__":
    main()
