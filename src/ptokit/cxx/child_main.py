"""Runs a kernel's library in a process of its own: limits, no files, a filter of system calls, then the entry.

This file is a script; it imports nothing of ptokit but `confine.py`. Its only argument is a JSON object,
written by `child.py`.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import signal
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or __name__ != "__main__":
    from ptokit.cxx import confine
else:
    sys.path.append(os.path.dirname(__file__))
    import confine

RUNTIMES = ("libm.so.6", "libgcc_s.so.1", "libstdc++.so.6", "libunwind.so.1", "libc++abi.so.1", "libc++.so.1")
"""Libraries that a kernel's library may need. They are loaded before files are out of reach."""
DEVICE_FILES = ("/dev/null", "/dev/zero", "/dev/urandom")
"""Files that a kernel's static objects may read; after them it reads none."""
C_TYPES: dict[str, Any] = {
    "int8": ctypes.c_int8, "uint8": ctypes.c_uint8, "int16": ctypes.c_int16, "uint16": ctypes.c_uint16,
    "int32": ctypes.c_int32, "uint32": ctypes.c_uint32, "int64": ctypes.c_int64, "uint64": ctypes.c_uint64,
    "float32": ctypes.c_float, "float64": ctypes.c_double, "bool": ctypes.c_bool,
}  # fmt: skip


def set_limits(task: dict[str, Any]) -> None:
    """Bounds on memory, processor time, output and files."""
    confine.limit(resource.RLIMIT_CORE, 0)
    confine.limit(resource.RLIMIT_AS, task["memory"])
    confine.limit(resource.RLIMIT_FSIZE, task["output"])
    seconds = int(task["seconds"]) + 2
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 2))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    confine.end_with_parent()
    for name in RUNTIMES:
        with contextlib.suppress(OSError):
            ctypes.CDLL(name)
    confine.limit_files([task["library"], *DEVICE_FILES])
    if confine.has_filter():
        confine.install(confine.filter_of_kernels(os.uname().machine, os.getpid()))
    else:
        confine.limit(resource.RLIMIT_NPROC, 0)
        confine.limit(resource.RLIMIT_NOFILE, 64)


def opened(path: str) -> Any:
    """A library. Functions that it lacks matter only when they are called, which ctypes alone does not offer."""
    dlopen: Any = ctypes.CDLL(None).dlopen
    dlopen.restype, dlopen.argtypes = ctypes.c_void_p, [ctypes.c_char_p, ctypes.c_int]
    return ctypes.CDLL(path, handle=dlopen(os.fsencode(path), os.RTLD_LAZY))  # without a handle it says what is wrong


class RegisteredParameter(ctypes.Structure):
    """The type of a parameter: `Parameter` in entry.hpp."""

    _fields_ = (
        ("kind", ctypes.c_uint8), ("dtype", ctypes.c_uint8), ("size", ctypes.c_uint8), ("constant", ctypes.c_uint8),
    )  # fmt: skip


OTHER_KIND = 2
"""The kind of parameters that are no pointers and no numbers."""


STRUCTURE = "which cannot be given: write a function that fills one and calls it, and name that with --entry"


class Registered(ctypes.Structure):
    """An entry that a library lists itself: `Entry` in entry.hpp."""


Registered._fields_ = [
    ("name", ctypes.c_char_p), ("parameters", ctypes.POINTER(RegisteredParameter)), ("count", ctypes.c_uint64),
    ("call", ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_uint64))), ("next", ctypes.POINTER(Registered)),
]  # fmt: skip


def registered(library: Any, name: str) -> Registered | None:
    """The entry of a name, if the library lists it."""
    if not hasattr(library, "ptokit_entries"):
        return None
    library.ptokit_entries.restype = ctypes.POINTER(Registered)
    at = library.ptokit_entries()
    while at:
        if at.contents.name == name.encode():
            return at.contents
        at = at.contents.next
    return None


def argument(library: Any, spec: list[Any]) -> Any:
    """An argument of the entry: an array by offset and size, or a scalar by type and value."""
    kind, *rest = spec
    if kind == "array":
        return ctypes.c_void_p(library.ptokit_array(*(ctypes.c_uint64(number) for number in rest)))
    if kind == "null":
        return ctypes.c_void_p(None)
    return C_TYPES[kind](rest[0])


class EntryCall:
    """The function that is run. Its callback is made before the filter: making one needs more system calls."""

    def __init__(self, task: dict[str, Any]) -> None:
        self.task = task
        self.body = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.run_once)
        self.function: Any = None
        self.values: list[Any] = []

    def run_once(self, _context: object = None) -> None:
        """Calls a function that the library exports. The recorder passes an address that is not used."""
        self.function(*self.values)

    def run(self) -> None:
        """Loads the library and calls its entry; ends in the recorder."""
        task = self.task
        library = opened(task["library"])
        if confine.has_filter():
            confine.install(confine.filter_of_loaded(os.uname().machine), again=True)
        library.ptokit_array.restype = ctypes.c_void_p
        entry = registered(library, task["name"])
        if entry is None and not hasattr(library, task["name"]):
            raise LookupError(f"there is no entry {task['name']}")
        failed = library.ptokit_start(task["shared"], ctypes.c_uint64(task["size"]), task["request"], task["reply"])
        if failed:
            raise OSError(failed, os.strerror(failed))
        self.values = [argument(library, spec) for spec in task["arguments"]]
        if entry is not None:
            self.run_registered(entry)
        else:
            self.run_exported(library)
        library.ptokit_finish()

    def run_registered(self, entry: Registered) -> None:
        """Calls an entry with eight bytes for each argument; a kernel's first one is its grid."""
        grid = [] if self.task["grid"] is None else [ctypes.c_uint32(self.task["grid"])]
        values = [int.from_bytes(bytes(value), "little") for value in (*grid, *self.values)]
        if len(values) != entry.count:
            raise TypeError(f"{self.task['name']} takes {entry.count} arguments, {len(values)} were given")
        for number in range(entry.count if entry.parameters else 0):
            each = entry.parameters[number]
            if each.kind == OTHER_KIND and not 0 < each.size <= ctypes.sizeof(ctypes.c_uint64):
                raise TypeError(
                    f"parameter {number + 1 - len(grid)} of {self.task['name']} is a structure, {STRUCTURE}"
                )
        entry.call((ctypes.c_uint64 * max(len(values), 1))(*values))

    def run_exported(self, library: Any) -> None:
        """Calls a function by its name in the library; with a grid it is the kernel itself."""
        self.function = getattr(library, self.task["name"])
        self.function.restype = None
        if self.task["grid"] is None:
            self.run_once()
        else:
            library.ptokit_launch(self.task["name"].encode(), ctypes.c_uint64(self.task["grid"]), self.body)


def main() -> None:
    """The whole life of the child."""
    try:
        task = json.loads(sys.argv[1])
        call = EntryCall(task)
        set_limits(task)
        call.run()
    except BaseException as error:
        os.write(2, f"{type(error).__name__}: {error}".encode())
    os._exit(confine.DONE)


if __name__ == "__main__":
    main()
