"""Overhead of kernels: tracing and verifying once, and repeated launches.

    python benchmarks/launch.py [--scatters | --lengths]

Required: tracing and verifying a kernel of the gallery under 50 ms; a cached launch adds under 60 us to the work. The
added time is the time outside the engine (`Run.seconds`): binding arguments, finding the program, reporting. The last
column is the time of the instructions alone, run again over the same memory; the rest of the engine's time is spent
between instructions. All of it on the reference engine; `peers.py` measures native launches.

Then launches with lengths that the kernel has not met, log-uniform in a range, beside a second launch with each: a new
length may add 0.2 ms of processor time on the native engine, without a trace and without a compilation. With
`--lengths` only these are measured.

Then kernels that scatter, on the native engine: the default number of threads must not be slower than one. Otherwise
the status is 1. With `--scatters` only these are measured.
"""

from __future__ import annotations

import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from _lengths import LONG, SHORT, drawn
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


RANGES = {SHORT: 300, LONG: 24}
"""Ranges of lengths, and how many are drawn."""
VARIED = ("embedding_lookup", "embedding_gradient", "gathered_softmax")
ADDED = 0.2
"""Milliseconds that a new length may add on the native engine."""


def lengths() -> bool:
    """Compare launches of new lengths with launches of known ones; whether all add as little as is asked."""
    print(f"\nNew lengths, one thread, ms of processor time; asked: at most {ADDED} more on the native engine\n")
    print("| kernel | engine | lengths | new | known | added |\n|---|---|---|---|---|---|")
    met = True
    for name in VARIED:
        for engine in ("native", "reference"):
            for about, count in RANGES.items():
                if engine == "reference" and about != SHORT:
                    continue  # most of the time is work
                new, known = varied(name, engine, drawn(about, count))
                added = statistics.median(a - b for a, b in zip(new, known, strict=True))
                fine = engine != "native" or added <= ADDED
                met, shown = met and fine, f"{added:.3f}" if fine else f"**{added:.3f}**"
                figures = f"{statistics.median(new):.3f} | {statistics.median(known):.3f} | {shown}"
                print(f"| {name} | {engine} | {about} | {figures} |", flush=True)
    return met


def varied(name: str, engine: str, sizes: Sequence[int]) -> tuple[list[float], list[float]]:
    """Milliseconds of the first and of the second launch with each of some lengths."""
    module, most = import_module(name), max(sizes)
    kernel = getattr(module, name)
    given = {"count": most} if name == "gathered_softmax" else {"count": most, "width": 64}
    made = module.make_case(np.random.default_rng(0), **given)
    arrays = {key: array.copy() for key, array in made.items()}  # all memory is there
    grown = [key for key, array in arrays.items() if len(array) == most]
    warm = (128, 200, 33, 65, 31)
    new: list[float] = []
    known: list[float] = []
    for length in (*warm, *(each for each in sizes if each not in warm)):
        part = {key: array[:length] if key in grown else array for key, array in arrays.items()}
        for times in (new, known):
            began = time.process_time()
            kernel[1](**part, target=TARGET, engine=engine, threads=1)
            times.append(1e3 * (time.process_time() - began))
    return new[len(warm) :], known[len(warm) :]


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
    met = True
    if "--scatters" not in sys.argv:
        if "--lengths" not in sys.argv:
            launches()
        met = lengths()
    if "--lengths" not in sys.argv:
        met = scatters() and met
    sys.exit(not met)


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
