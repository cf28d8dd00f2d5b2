"""The threads of PyTorch's OpenMP library, where it is loaded.

After an operator, PyTorch's threads wait for the next one for some milliseconds and keep their processors busy.
Other threads would have to share these, and a run on threads that wait actively begins within microseconds.
"""

from __future__ import annotations

import os
import sys
from ctypes import CDLL, CFUNCTYPE, addressof, c_int64, c_uint, c_void_p, cast
from functools import cache
from multiprocessing import get_start_method, parent_process
from pathlib import Path
from typing import Any

from ptokit.engine.llvm.emit import I64, PTR, IrModule

LIBRARY = "libtorch_cpu.so"
FORK = CFUNCTYPE(None, c_void_p, c_void_p, c_uint, c_uint)
"""`GOMP_parallel`: a function, its argument, the number of threads (0 for the default), flags."""
JOB = ("work", "place", "parts", "next")
"""The words of a job: a function, the address that it takes, its parts, the next part."""
Words = c_int64 * len(JOB)
_PROCESS = os.getpid()

Fork = Any
"""`GOMP_parallel`, with its address."""


def threads() -> int:
    """The threads that PyTorch uses; 0 if it is not loaded, or has no such library."""
    return _count() if _loaded() else 0


def _count() -> int:
    """The threads of a run, at most; PyTorch tells its library the number, which is that of the calling thread."""
    return sys.modules["torch"].get_num_threads()


def run(work: int, place: int, parts: int) -> bool:
    """Call the function at an address with a place and each of the parts; False if it must be done otherwise.

    Threads take part after part. The calling thread is one of them, so Python handles signals after the run.
    """
    fork = _fork(parts)
    if fork is None:
        return False
    job = Words(work, place, parts, 0)
    fork(_share(), addressof(job), 0, 0)
    return True


def entries(parts: int) -> tuple[int, int] | None:
    """The addresses of `GOMP_parallel` and of the code that takes parts of a job; None if it must be done otherwise."""
    fork = _fork(parts)
    return None if fork is None else (fork.address, _share())


def _fork(parts: int) -> Fork | None:
    """The function that begins a run of so many parts; None if it may not be called now."""
    fork = _loaded()
    if fork is None or _count() < parts or os.getpid() != _PROCESS:  # threads do not survive a fork
        return None
    return fork


def _loaded() -> Fork | None:
    torch = sys.modules.get("torch")
    if not hasattr(torch, "get_num_threads"):  # its import has not ended
        return None
    return _find(getattr(torch, "__file__", None) or "")


@cache
def _find(package: str) -> Fork | None:
    """The function that begins a run, in the library that a PyTorch is linked with; None if it may not be called.

    A process that was forked before this file was imported would wait for threads that its parent has.
    """
    if _is_forked():
        return None
    try:
        fork: Any = FORK(("GOMP_parallel", CDLL(str(Path(package).parent / "lib" / LIBRARY))))
        fork.address = cast(fork, c_void_p).value
        return fork
    except (OSError, AttributeError):  # another system, or a PyTorch without OpenMP
        return None


def _is_forked() -> bool:
    """Whether `multiprocessing` may have forked this process."""
    return parent_process() is not None and get_start_method(allow_none=True) in (None, "fork")


@cache
def _share() -> int:
    """The address of the code that takes parts of a job and does them."""
    from ptokit.engine.native.jit import IrSource, library  # with LLVM, which counting threads does not need

    made = library("openmp share", lambda: IrSource(_share_text()))
    _kept.append(made)
    return made.address("share")


_kept: list[object] = []
"""Code that is in use."""


def _share_text() -> str:
    code = IrModule().function("share", "void", ((PTR, "job"),), "nounwind")
    places = {name: code.at(code.arguments[0], 8 * at) for at, name in enumerate(JOB)}
    work, place = (code.load(PTR, places[name]) for name in ("work", "place"))
    parts = code.load(I64, places["parts"])
    head, body, done = (code.new_label(hint) for hint in ("take", "work", "done"))
    code.begin(head)
    part = code.write(I64, f"atomicrmw add {places['next']!r}, i64 1 monotonic")
    code.split(part.compare("slt", parts), body, done)
    code.begin(body)
    code.line(f"  call void {work.name}({place!r}, {part!r})")
    code.jump(head)
    code.begin(done)
    code.ret()
    return code.module.text
