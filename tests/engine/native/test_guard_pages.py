"""Random launches over arrays between inaccessible pages: no crash, no difference, no memory leak."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("llvmlite")

guard = pytest.importorskip("tests.engine.native.guard", exc_type=ImportError)

FUZZ = os.environ.get("PTOKIT_FUZZ")
RUNS = 8 if FUZZ else 1
LAUNCHES = 6250 if FUZZ else 120
"""Of each run: 50,000 in all when fuzzing."""
SHAPES = 150 if FUZZ else 30

SCRIPT = Path(guard.__file__)


def python(*arguments: object) -> subprocess.CompletedProcess[str]:
    """A separate process, because a crash ends it."""
    paths = os.pathsep.join([str(SCRIPT.parents[3]), *sys.path])
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": paths})


@pytest.mark.parametrize("seed", range(RUNS))
def test_random_launches_between_forbidden_pages(seed: int) -> None:
    done = python(SCRIPT, seed, LAUNCHES, SHAPES)
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}"
    assert int(done.stdout.split()[0]) > LAUNCHES // 2


@pytest.mark.parametrize("at_end", [True, False])
def test_the_pages_are_forbidden(at_end: bool) -> None:
    """One element too far is seen."""
    touch = "a.ctypes.data + a.nbytes" if at_end else "a.ctypes.data - 1"
    lines = (
        "import ctypes, numpy as np",
        "from tests.engine.native.guard import guarded",
        f"a = guarded(np.arange(8), {at_end})",
        "assert a.sum() == 28",
        f"ctypes.string_at({touch}, 1)",
    )
    done = python("-c", "\n".join(lines))
    assert done.returncode in (-signal.SIGSEGV, -signal.SIGBUS)


READ_ONLY = """
import ctypes, mmap, numpy as np
from ptokit.engine import whole as reference
from ptokit.isa.dtype import dtype
from ptokit.isa.move import Combine, Remap
from tests.engine.native.guard import PAGE, _libc
from tests.engine.native.test_whole_native import Case, native, storage

for name, combine in [(n, c) for n in ("int8", "int32", "uint64", "float32", "float64") for c in Combine]:
    kind = dtype(name)
    if kind.is_float and combine in (Combine.ADD, Combine.MUL):
        continue
    memory, cells = mmap.mmap(-1, 3 * PAGE), PAGE // kind.size
    table = np.frombuffer(memory, kind.bits).reshape(-1, 1)
    random = np.random.default_rng(0)
    indices = random.integers(cells, 2 * cells, 5 * cells)
    source = random.integers(0, 100, (indices.size, 1)).astype(kind.numpy).view(kind.bits)
    case = Case(kind, table, source, indices, Remap.REFUSE, combine=combine)
    wanted = case.run(reference).tobytes()
    memories = {each: storage(array, case.types[each]) for each, array in case.arrays.items()}
    base = table.ctypes.data
    for edge in (base, base + 2 * PAGE):
        assert not _libc.mprotect(ctypes.c_void_p(edge), ctypes.c_size_t(PAGE), mmap.PROT_READ)
    native.run(case.whole, memories, 3, "merged")
    assert table.tobytes() == wanted, (name, combine)
print("done")
"""


def test_merging_writes_no_cell_that_no_lane_names() -> None:
    """Another call may write to these at the same time. Lanes name the cells of one page; its neighbours are fixed."""
    done = python("-c", READ_ONLY)
    assert done.returncode == 0 and done.stdout == "done\n", f"exit status {done.returncode}\n{done.stderr}"


def test_guarded_arrays_keep_their_strides() -> None:
    given = np.arange(48).reshape(6, 8)[::2, ::3]
    found = guard.guarded(given, True)
    assert found.strides == given.strides
    assert (found == given).all()
