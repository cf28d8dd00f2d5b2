"""The threads of PyTorch's OpenMP library, where it is loaded.

After an operator, PyTorch's threads wait for the next one for some milliseconds and keep their processors busy.
Other threads would have to share these, and a run on threads that wait actively begins within microseconds.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from ctypes import CDLL, CFUNCTYPE, addressof, c_int, c_int64, c_uint, c_void_p
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from ptokit.engine.llvm.emit import I64, PTR, IrModule
from ptokit.engine.native.jit import IrSource, library

LIBRARY = "libtorch_cpu.so"
FORK = CFUNCTYPE(None, c_void_p, c_void_p, c_uint, c_uint)
"""`GOMP_parallel`: a function, its argument, the number of threads (0 for the default), flags."""
COUNT = CFUNCTYPE(c_int)
JOB = ("work", "places", "count", "parts", "next")
"""The words of a job: a function, the blocks that it takes and their number, its parts, the next part."""
Words = c_int64 * len(JOB)
_PROCESS = os.getpid()


class OpenMP(NamedTuple):
    """Functions of the library."""

    fork: Callable[[int, int, int, int], None]
    count: Callable[[], int]
    """The threads of a run, at most."""


def threads() -> int:
    """The threads that PyTorch uses; 0 if it is not loaded, or has no such library."""
    found = _loaded()
    return found.count() if found else 0


def run(work: int, blocks: Sequence[int], parts: int) -> bool:
    """Call the function at an address with each block and each of the parts; False if it must be done otherwise.

    Threads take part after part. The calling thread is one of them, so Python handles signals after the run.
    """
    found = _loaded()
    if found is None or found.count() < parts or os.getpid() != _PROCESS:  # threads do not survive a fork
        return False
    places = (c_int64 * len(blocks))(*blocks)
    job = Words(work, addressof(places), len(blocks), parts, 0)
    found.fork(_share(), addressof(job), 0, 0)
    return True


def _loaded() -> OpenMP | None:
    torch = sys.modules.get("torch")
    return _find(torch.__file__) if hasattr(torch, "get_num_threads") else None  # else its import has not ended


@cache
def _find(package: str) -> OpenMP | None:
    """The library that a PyTorch is linked with."""
    try:
        found: Any = CDLL(str(Path(package).parent / "lib" / LIBRARY))
        return OpenMP(FORK(("GOMP_parallel", found)), COUNT(("omp_get_max_threads", found)))
    except (OSError, AttributeError):  # another system, or a PyTorch without OpenMP
        return None


@cache
def _share() -> int:
    """The address of the code that takes parts of a job and does them."""
    made = library("openmp share", lambda: IrSource(_share_text()))
    _kept.append(made)
    return made.address("share")


_kept: list[object] = []
"""Code that is in use."""


def _share_text() -> str:
    code = IrModule().function("share", "void", ((PTR, "job"),), "nounwind")
    places = {name: code.at(code.arguments[0], 8 * at) for at, name in enumerate(JOB)}
    work, blocks = (code.load(PTR, places[name]) for name in ("work", "places"))
    count, parts = (code.load(I64, places[name]) for name in ("count", "parts"))
    head, body, done = (code.new_label(hint) for hint in ("take", "work", "done"))
    code.begin(head)
    part = code.write(I64, f"atomicrmw add {places['next']!r}, i64 1 monotonic")
    code.split(part.compare("slt", parts), body, done)
    code.begin(body)
    with code.loop(0, count) as k:
        block = code.load(PTR, code.at(blocks, k * 8))
        code.line(f"  call void {work!r}({block!r}, {part!r})".replace("void ptr ", "void "))
    code.jump(head)
    code.begin(done)
    code.ret()
    return code.module.text
