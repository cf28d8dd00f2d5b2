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
RUNS = 8 if FUZZ else 2
LAUNCHES = 6250 if FUZZ else 400
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


def test_guarded_arrays_keep_their_strides() -> None:
    given = np.arange(48).reshape(6, 8)[::2, ::3]
    found = guard.guarded(given, True)
    assert found.strides == given.strides
    assert (found == given).all()
