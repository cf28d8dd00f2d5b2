"""Calls and kernels on a GPU, beside PyTorch, Triton and the copy limit.

    python benchmarks/gpu.py [--case PATTERN] [--out FOLDER]

Needs a GPU of NVIDIA, CuPy and torch; Triton if installed. 1 GiB of payload, a table of 4 GiB, random int32 indices.
Rates are TB/s of payload, counted once (for the matrix product, 10^12 operations a second); medians of interleaved
rounds, by CUDA events, without the time of the host, which has rows of its own. "unchecked" are our calls with a policy
that needs no check of the indices. Before the rounds a sample of the result is compared with NumPy's. Calls of many
sizes have a table of their own, with the time of the host, as in `torch_ops.py`. The tables go to `gpu-DATE.md`. The
status is 1 if a figure is missed or a result wrong.
"""

from __future__ import annotations

import argparse
import gc
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
import timeit
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

ROUNDS, PATIENCE = 7, 0.4
"""Rounds of a case; a contender that has used so many seconds skips later ones."""
LOOPS, CALLS = 15, 200
"""Loops in which the time of the host is measured, of which the best one counts, and the calls of each."""
FLUSHED = 1 << 30
"""Bytes that are set before a call: the caches are flushed, and the GPU is busy for longer than the host launches."""
FIRST = ("embedding_lookup", "gathered_softmax", "gathered_matmul")
"""Kernels of the gallery whose first launch is timed."""
HEAD = (
    "case",
    "ptokit",
    "unchecked",
    "any order",
    "PyTorch",
    "Triton",
    "pto.gather",
    "of the copy",
    "asked",
    "found",
    "",
)
VARIED = ("calls of many sizes", "ptokit ms", "PyTorch ms", "its form", "ratio", "asked", "varied", "asked", "")
NONE = "–"
WARM_UP = b"""
.version 7.0
.target sm_80
.address_size 64
.visible .entry nothing() { ret; }
\0"""
"""A kernel in PTX."""


# --- first launches, in processes of their own


def first_launch(name: str) -> tuple[float, float]:
    """Milliseconds of the first launch of a kernel in this process, and of importing the engine and LLVM before.

    A launch is tracing, verifying, PTX, machine code and the run. Not included, because a trivial kernel is launched
    before: CuPy, the context of CUDA, loading its compiler of PTX.
    """
    import cupy
    from launch import TARGET, case

    kernel, arrays = case(name)
    given = {key: cupy.asarray(value) if isinstance(value, np.ndarray) else value for key, value in arrays.items()}
    warm_up = cupy.cuda.function.Module()
    warm_up.load(WARM_UP)
    cupy.cuda.driver.launchKernel(warm_up.get_function("nothing").ptr, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0)
    cupy.cuda.Device().synchronize()
    began = time.perf_counter()
    import_module("ptokit.engine.cuda.executable")
    imported = time.perf_counter()
    kernel[1](**given, target=TARGET)
    cupy.cuda.Device().synchronize()
    return 1e3 * (time.perf_counter() - imported), 1e3 * (imported - began)


def first_launches() -> Iterator[tuple[str, float, float]]:
    imports: list[float] = []
    for name in FIRST:
        with tempfile.TemporaryDirectory() as folder:
            env = {**os.environ, "PTOKIT_CACHE": folder, "CUDA_CACHE_DISABLE": "1"}
            done = subprocess.run(
                [sys.executable, __file__, "--first", name], env=env, capture_output=True, text=True, check=False
            )
        if done.returncode:
            print(done.stderr[-600:], file=sys.stderr)
        found, imported = map(float, done.stdout.split()[-2:]) if not done.returncode else (math.nan, math.nan)
        imports.append(imported)
        yield f"first launch of {name}, ms", found, 150
    yield "importing the engine and LLVM, ms", statistics.median(imports), math.inf


# --- time of the host


def host_times() -> Iterator[tuple[str, float, float]]:
    """Microseconds of cached calls and launches on the host, without the time in which they wait for the GPU."""
    import cupy
    import torch
    from launch import TARGET, case

    import ptokit as pto

    table, indices = torch.zeros((1000, 128), device="cuda"), torch.zeros(16, dtype=torch.int32, device="cuda")
    out = torch.zeros((16, 128), device="cuda")
    kernel, arrays = case("embedding_lookup")
    given = {key: cupy.asarray(value) if isinstance(value, np.ndarray) else value for key, value in arrays.items()}
    tensors = {key: torch.as_tensor(value, device="cuda") for key, value in given.items()}
    calls: dict[str, Callable[[], object]] = {
        "cached gather, host, us": lambda: pto.gather(table, indices, out=out, oob="clamp"),
        "cached gather with check, host, us": lambda: pto.gather(table, indices, out=out),
        "cached launch of a kernel, host, us": lambda: kernel[1](**given, target=TARGET),
        "cached launch of a kernel, torch tensors, host, us": lambda: kernel[1](**tensors, target=TARGET),
    }
    waited = [0.0]
    with _timed_waits(waited):
        for name, call in calls.items():
            yield name, min(_host_time(call, waited) for _ in range(LOOPS)), 15


@contextmanager
def _timed_waits(waited: list[float]) -> Iterator[None]:
    """Add up the seconds in which the host waits for the GPU."""
    from ptokit.engine.cuda import device

    def timed(wait: Callable[..., Any]) -> Callable[..., Any]:
        def run(*given: Any) -> Any:
            began = time.perf_counter()
            try:
                return wait(*given)
            finally:
                waited[0] += time.perf_counter() - began

        return run

    waits = [(device.Device, "download"), (device.Device, "wait"), (device.DeviceEvent, "wait")]
    own = [getattr(*each) for each in waits]
    for (kind, name), wait in zip(waits, own, strict=True):
        setattr(kind, name, timed(wait))
    try:
        yield
    finally:
        for (kind, name), wait in zip(waits, own, strict=True):
            setattr(kind, name, wait)


def _host_time(call: Callable[[], object], waited: list[float]) -> float:
    """Microseconds of a call in a loop."""
    import cupy

    waited[0] = 0.0
    seconds = timeit.timeit(call, number=CALLS) - waited[0]
    cupy.cuda.Device().synchronize()
    return 1e6 * seconds / CALLS


# --- rates


class Timer:
    """Times calls by events of the GPU, which is busy while they are launched: the time of the host is hidden."""

    def __init__(self) -> None:
        import torch

        self._flush = torch.zeros(FLUSHED, dtype=torch.uint8, device="cuda")
        self._begin, self._end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        for event in (self._begin, self._end):
            event.record()  # torch makes an event when it is first recorded, and that takes time

    def __call__(self, call: Callable[[], object]) -> float:
        """Seconds of a call."""
        self._flush.zero_()
        self._begin.record()
        call()
        self._end.record()
        self._end.synchronize()
        return self._begin.elapsed_time(self._end) / 1e3

    def fastest(self, calls: Sequence[Callable[[], object]]) -> Callable[[], object]:
        for call in calls:
            call()
        return min(calls, key=self) if len(calls) > 1 else calls[0]

    def medians(self, calls: dict[str, Callable[[], object]]) -> dict[str, float]:
        """Seconds of each contender, interleaved."""
        times: dict[str, list[float]] = {name: [] for name in calls}
        for _ in range(ROUNDS):
            for name, call in calls.items():
                if sum(times[name]) < PATIENCE:
                    times[name].append(self(call))
        return {name: statistics.median(found) for name, found in times.items()}


def rate_rows(pattern: str) -> Iterator[list[str]]:
    """Cells of the table of rates."""
    import torch
    from _gpu_cases import OURS, PAYLOAD, TABLE, buffer, elements, fill, gathers, kernels, ordered, scatters

    timer, began = Timer(), time.perf_counter()
    payload, twin = buffer("payload", PAYLOAD), buffer("table", TABLE)[: PAYLOAD // 4]
    limit = PAYLOAD / timer.medians({"copy": lambda: twin.copy_(payload)})["copy"] / 1e12
    yield ["copy of 1 GiB", f"{limit:.3f}", *[NONE] * 9]
    fill(buffer("table", TABLE))
    fill(payload)
    for case in chain(gathers(), kernels(), scatters(), ordered(), elements()):
        if pattern not in case.name:
            continue
        try:
            calls = {name: timer.fastest(forms) for name, forms in case.calls.items() if forms}
            is_right = case.check(calls[OURS])
            rates = {name: case.payload / seconds / 1e12 for name, seconds in timer.medians(calls).items()}
        except Exception as problem:
            yield [case.name, f"{type(problem).__name__}: {str(problem)[:200]}", *[NONE] * 8, "FAILED"]
            continue
        found = rates[OURS] / rates[case.against] if case.against else rates[OURS]
        verdict = "WRONG" if not is_right else "met" if found >= case.asked else "MISSED"
        asked = f"{case.asked:.3g}" + (f" x {case.against}" if case.against else "")
        cells = [f"{rates[name]:.3f}" if name in rates else NONE for name in HEAD[1:7]]
        of_copy = f"{rates[OURS] / limit:.2f}" if case.moves else NONE
        yield [case.name, *cells, of_copy, asked, f"{found:.3f}", verdict]
        torch.cuda.synchronize()
    print(f"{time.perf_counter() - began:.0f} s", file=sys.stderr)


def varied_rows(pattern: str) -> Iterator[list[str]]:
    """Cells of the table of calls of many sizes."""
    from _gpu_cases import varied
    from torch_ops import measured

    yield from (measured(case, "cuda") for case in varied() if pattern in case.name)


def time_rows() -> Iterator[list[str]]:
    """Cells of the table of times."""
    for name, found, asked in chain(first_launches(), host_times()):
        is_asked = asked < math.inf
        verdict = "met" if found <= asked else "MISSED"
        yield [name, f"{found:.1f}", f"{asked:.0f}" if is_asked else NONE, verdict if is_asked else NONE]


def facts() -> dict[str, str]:
    import cupy
    import torch

    import ptokit

    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "GPU": torch.cuda.get_device_name(),
        "driver, CUDA": f"{cupy.cuda.runtime.driverGetVersion()}, {cupy.cuda.runtime.runtimeGetVersion()}",
        "ptokit, torch, CuPy": f"{ptokit.__version__}, {torch.__version__}, {cupy.__version__}",
    }


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--case", default="", metavar="PATTERN", help="only rates of cases whose name contains this")
    options.add_argument("--out", type=Path, default=Path(__file__).parent / "results", metavar="FOLDER")
    options.add_argument("--first", choices=FIRST, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.first:
        print(*first_launch(given.first))
        return 0
    lines: list[str] = []

    def say(line: str) -> None:
        print(line, flush=True)
        lines.append(line)

    gc.disable()  # as timeit does
    head = facts()
    say("# GPU\n")
    for name, value in head.items():
        say(f"- {name}: {value}")
    missed = 0
    tables = [(HEAD, rate_rows(given.case)), (VARIED, varied_rows(given.case))]
    tables += [(("time", "found", "asked", ""), time_rows())] * (not given.case)
    for names, cells in tables:
        say("\n" + _line(names))
        say(_line(["---", *["---:"] * (len(names) - 1)]))
        for row in cells:
            say(_line(row))
            missed += row[-1] in ("MISSED", "WRONG", "FAILED")
    if not given.case:
        given.out.mkdir(parents=True, exist_ok=True)
        (given.out / f"gpu-{head['date']}.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return int(missed > 0)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(main())
