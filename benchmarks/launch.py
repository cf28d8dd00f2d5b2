"""Overhead of kernels: tracing and verifying once, and repeated launches.

    python benchmarks/launch.py [--scatters]

Required: tracing and verifying a kernel of the gallery under 50 ms; a cached launch adds under 60 us to the work. The
added time is the time outside the engine (`Run.seconds`): binding arguments, finding the program, reporting. The last
column is the time of the instructions alone, run again over the same memory; the rest of the engine's time is spent
between instructions. All of it on the reference engine; `peers.py` measures native launches.

Then kernels that scatter, on the native engine: the default number of threads must not be slower than one. Otherwise
the status is 1. With `--scatters` only these are measured.
"""

from __future__ import annotations

import platform
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from _measure import interleaved, medians

from ptokit.engine.prepared import Prepared

EXAMPLES = Path(__file__).parents[1] / "examples"
sys.path.insert(0, str(EXAMPLES))

REPEATS, CALLS = 31, 100
TARGET, ENGINE = "a5", "reference"
GALLERY = {
    "embedding_lookup": ("make_case", {"count": 32, "width": 64}),
    "embedding_gradient": ("make_case", {"count": 32, "width": 64}),
    "paged_kv_gather": ("make_case", {"lengths": (128,)}),
    "gathered_matmul": ("make_case", {"count": 64, "inner": 64}),
    "gathered_softmax": ("make_case", {"count": 16}),
}
"""A kernel of each file, named after it, with one tile of work."""


def case(name: str) -> tuple[Any, dict[str, Any]]:
    """A kernel of the gallery and the arrays of a small launch."""
    module = import_module(name)
    make, sizes = GALLERY[name]
    return getattr(module, name), getattr(module, make)(np.random.default_rng(0), **sizes)


def first_check(name: str) -> float:
    """Milliseconds to trace and verify a kernel, in a new process."""
    code = (
        f"import sys, time; sys.path[:0] = [{str(Path(__file__).parent)!r}]; import launch, ptokit as pto\n"
        f"kernel, arrays = launch.case({name!r}); check = pto.check; began = time.perf_counter()\n"
        f"check(kernel, **arrays, target={TARGET!r}); print(time.perf_counter() - began)"
    )
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(5)]
    return 1e3 * statistics.median(float(run.stdout) for run in runs)


def work_of(launch: Callable[[], object]) -> Callable[[], object]:
    """The instructions of a launch, ready to run again without it."""
    done: list[tuple[Prepared, Sequence[Any]]] = []
    run = Prepared.run

    def recording(self: Prepared, storages: Sequence[Any]) -> Any:
        done.append((self, storages))
        return run(self, storages)

    Prepared.run = recording  # type: ignore[method-assign]
    try:
        launch()
    finally:
        Prepared.run = run  # type: ignore[method-assign]

    def again() -> None:
        for prepared, storages in done:
            for _ in prepared.run(storages):
                pass

    return again


def microseconds(calls: dict[str, Callable[[], object]]) -> dict[str, float]:
    """The median time of each call, over interleaved repeats."""
    return {name: 1e6 * seconds for name, seconds in medians(interleaved(calls, REPEATS, loops=CALLS)).items()}


def scatters() -> bool:
    """Compare the default number of threads with one, for kernels that scatter; whether it is as fast for all."""
    from _scatters import ASKED, measured

    from ptokit.engine.native.workers import thread_count

    print(f"\nScatters on {thread_count()} threads; asked: at most {ASKED} times as long as on one\n")
    print("| scatter | default | one thread | ratio |\n|---|---|---|---|")
    met = True
    for verdict, default, one in measured():
        met = met and verdict.met
        found = f"{verdict.found:.2f}" if verdict.met else f"**{verdict.found:.2f}**"
        print(f"| {verdict.case} | {default:.2f} ms | {one:.2f} ms | {found} |", flush=True)
    return met


def main() -> None:
    print(f"{platform.machine()}, Python {platform.python_version()}, NumPy {np.__version__}, target {TARGET}\n")
    if "--scatters" not in sys.argv:
        launches()
    sys.exit(not scatters())


def launches() -> None:
    """Print the costs of launches of the gallery."""
    print("| kernel | trace and verify | cached launch | the engine's time | added | instructions alone |")
    print("|---|---|---|---|---|---|")
    for name in GALLERY:
        kernel, arrays = case(name)
        engine: list[float] = []

        def launch(launcher: Any = kernel[1], arrays: Any = arrays, engine: list[float] = engine) -> None:
            engine.append(launcher(**arrays, target=TARGET, engine=ENGINE).seconds)

        calls = {"work": work_of(launch), "launch": launch}
        microseconds(calls)
        engine.clear()
        found = microseconds(calls)
        inside = 1e6 * statistics.median(engine)
        spans = (found["launch"], inside, found["launch"] - inside, found["work"])
        print(f"| {name} | {first_check(name):.0f} ms | {' | '.join(f'{us:.0f} us' for us in spans)} |")


if __name__ == "__main__":
    main()
