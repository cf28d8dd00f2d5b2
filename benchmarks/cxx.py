"""Speed of C++ kernels: calls recorded a second, from the start of the process to the `Recording` in Python; and
processor time of a check of 48 blocks, by the iterations of their loop.

    python benchmarks/cxx.py

Required: 500,000 calls a second or more; 10 s for 2,000 iterations.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ptokit.cxx.record import INCLUDE, ArrayArgument, ScalarArgument, record
from ptokit.cxx.recording import Recording

REQUIRED = 500_000
CALLS = 1_000_000
ROUNDS = 3
CHECKED = {300: 10.0, 2_000: 10.0}
"""The most seconds of processor time of a check, by iterations."""
SOURCE = """\
#include "ptokit/recorder.hpp"
using namespace ptokit;

void move(float* data, std::uint64_t address, long n) {
  TileInfo tile;
  tile.object = &tile;
  tile.assigned = 1;
  tile.address = address;
  tile.rows = tile.cols = tile.valid_rows = tile.valid_cols = 16;
  GlobalInfo global;
  global.data = data;
  global.shape[4] = global.shape[3] = 16;
  Operand operands[] = {Operand::of(tile), Operand::of(global)};
  call(n % 2 ? "tload" : "tstore", operands, 2);
}

void flag(const char* name) {
  Operand operands[] = {Operand::of_text("PIPE_MTE2"), Operand::of_text("PIPE_V"), Operand::of(0)};
  call(name, operands, 3);
}

struct Arguments { float* data; long count, distinct; };

extern "C" void entry(float* data, long count, long distinct) {
  Arguments arguments{data, count, distinct};
  launch("kernel", 1, [](void* context) {
    auto* a = static_cast<Arguments*>(context);
    for (long i = 0; i < a->count / 4; ++i) {
      move(a->data + i % a->distinct, i % 2 * 1024, i);
      flag("set_flag");
      flag("wait_flag");
      move(a->data + i % a->distinct, i % 2 * 1024, i + 1);
    }
  }, &arguments);
}
"""


@dataclass(frozen=True)
class Core:
    """A library for any core."""

    path: Path
    core: str = "any"


@dataclass(frozen=True)
class Built:
    """What the recorder needs of a build."""

    libraries: tuple[Core, ...]
    target: str = "a2a3"


def build(folder: Path) -> Built:
    """Compile the kernel and the recorder."""
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        sys.exit("no C++ compiler")
    common = [compiler, "-std=c++20", "-fPIC", "-g1", "-fno-omit-frame-pointer", f"-I{INCLUDE}"]
    (folder / "kernel.cpp").write_text(SOURCE)
    recorder, library = folder / "runtime.o", folder / "kernel.so"
    subprocess.run([*common, "-O2", "-c", str(INCLUDE / "ptokit" / "runtime.cpp"), "-o", str(recorder)], check=True)
    kernel = [*common, "-O0", "-fno-inline", "-shared", str(folder / "kernel.cpp"), str(recorder), "-o", str(library)]
    subprocess.run(kernel, check=True)
    return Built((Core(library),))


def recorded(built: Built, distinct: int) -> tuple[Recording, float]:
    """One recording, and its seconds."""
    data = ArrayArgument("data", np.zeros(1 << 20, np.float32))
    numbers = ScalarArgument("count", "int64", CALLS), ScalarArgument("distinct", "int64", distinct)
    start = time.perf_counter()
    recording = record(built, "entry", [data, *numbers])
    return recording, time.perf_counter() - start


def checked(iterations: int) -> float:
    """The processor seconds of a check of 48 blocks with two buffers, the compiler and the kernel included."""
    before = os.times()
    kernel = str(Path(__file__).with_name("ring.cpp"))
    numbers = "--arg", "blocks=48", "--arg", f"rounds={iterations}"
    subprocess.run([sys.executable, "-m", "ptokit", "check", kernel, "--target", "a2a3", *numbers], check=True)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def main() -> None:
    """Measure loops with few distinct calls, and with only distinct ones; then checks."""
    missed = False
    with tempfile.TemporaryDirectory() as folder:
        built = build(Path(folder))
        for distinct in (16, 1 << 20):
            runs = [recorded(built, distinct) for _ in range(ROUNDS)]
            recording, seconds = min(runs, key=lambda run: run[1])
            calls = recording.launches[0].blocks[0].calls
            assert len(calls) == CALLS and not recording.problems, recording.problems
            rate = CALLS / seconds
            missed |= rate < REQUIRED
            print(f"{CALLS:,} calls, {len(recording.calls):>7,} distinct: {rate:>9,.0f} calls/s (asked {REQUIRED:,})")
    for iterations, most in CHECKED.items():
        seconds = checked(iterations)
        missed |= seconds > most
        print(f"a check of 48 blocks of {iterations:,} iterations: {seconds:.1f} s (asked {most:g} s)")
    sys.exit(missed)


if __name__ == "__main__":
    main()
