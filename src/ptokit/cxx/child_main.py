"""Runs a kernel's library in a process of its own: limits, a filter of system calls, then the entry.

This file is a script; it imports nothing of ptokit. Its only argument is a JSON object, written by `child.py`.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import resource
import signal
import struct
import sys
from typing import Any

DONE = 86
"""The only exit status that the filter lets pass; runtime.cpp ends with it too."""

SYSTEM_CALLS = {
    # name: number on AArch64, number on x86-64; -1 where the call does not exist
    "read": (63, 0), "write": (64, 1), "readv": (65, 19), "writev": (66, 20), "pread64": (67, 17), "lseek": (62, 8),
    "close": (57, 3), "fstat": (80, 5), "stat": (-1, 4), "lstat": (-1, 6), "newfstatat": (79, 262), "statx": (291, 332),
    "access": (-1, 21), "faccessat": (48, 269), "faccessat2": (439, 439), "readlink": (-1, 89), "readlinkat": (78, 267),
    "getcwd": (17, 79), "getdents64": (61, 217), "dup": (23, 32),
    "poll": (-1, 7), "ppoll": (73, 271), "select": (-1, 23), "pselect6": (72, 270),
    "mmap": (222, 9), "mprotect": (226, 10), "munmap": (215, 11), "mremap": (216, 25), "brk": (214, 12),
    "madvise": (233, 28), "mincore": (232, 27), "membarrier": (283, 324),
    "futex": (98, 202), "set_robust_list": (99, 273), "rseq": (293, 334), "set_tid_address": (96, 218),
    "rt_sigaction": (134, 13), "rt_sigprocmask": (135, 14), "rt_sigreturn": (139, 15), "sigaltstack": (132, 131),
    "restart_syscall": (128, 219), "getpid": (172, 39), "getppid": (173, 110), "gettid": (178, 186),
    "getuid": (174, 102), "geteuid": (175, 107), "getgid": (176, 104), "getegid": (177, 108), "uname": (160, 63),
    "sysinfo": (179, 99), "getrusage": (165, 98), "times": (153, 100), "getrlimit": (163, 97),
    "clock_gettime": (113, 228), "clock_getres": (114, 229), "gettimeofday": (169, 96), "time": (-1, 201),
    "nanosleep": (101, 35), "clock_nanosleep": (115, 230), "sched_yield": (124, 24), "sched_getaffinity": (123, 204),
    "getcpu": (168, 309), "getrandom": (278, 318), "arch_prctl": (-1, 158), "exit": (93, 60),
}  # fmt: skip
"""Calls that a kernel may make. Every other one ends the recording, with its place."""
OPEN, OPENAT, EXIT_GROUP, TGKILL, FCNTL = (-1, 2), (56, 257), (94, 231), (131, 234), (25, 72)
"""Calls that a kernel may make with some arguments: files to read, the end of the recorder, `abort`, flags of files."""
REFUSED = {(29, 16): errno.ENOTTY, (261, 302): errno.EPERM}
"""Calls that fail without an end of the recording: `ioctl`, `prlimit64`."""
LAST_FLAG = 3
"""The last command of `fcntl` that only reads or sets flags: the others could send signals."""
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC

MACHINES = {"aarch64": (0xC00000B7, 0), "x86_64": (0xC000003E, 1)}
"""The number of an architecture in a filter, and its column in the table."""
LOAD, EQUAL, GREATER, ANY_BIT, RETURN = 0x20, 0x15, 0x25, 0x45, 0x06
ALLOW, TRAP, KILL, FAIL = 0x7FFF0000, 0x00030000, 0x80000000, 0x00050000
NUMBER_AT, MACHINE_AT, ARGUMENTS_AT = 0, 4, 16
SET_PDEATHSIG, SET_NO_NEW_PRIVS, SET_SECCOMP, FILTER = 1, 38, 22, 2

C_TYPES: dict[str, Any] = {
    "int8": ctypes.c_int8, "uint8": ctypes.c_uint8, "int16": ctypes.c_int16, "uint16": ctypes.c_uint16,
    "int32": ctypes.c_int32, "uint32": ctypes.c_uint32, "int64": ctypes.c_int64, "uint64": ctypes.c_uint64,
    "float32": ctypes.c_float, "float64": ctypes.c_double, "bool": ctypes.c_bool,
}  # fmt: skip


def filter_program(machine: str, process: int) -> bytes:
    """The filter of system calls, as instructions of the kernel's packet filter."""
    architecture, column = MACHINES[machine]
    steps: list[tuple[int, int, int, int]] = [
        (LOAD, 0, 0, MACHINE_AT),
        (EQUAL, 1, 0, architecture),
        (RETURN, 0, 0, KILL),
    ]
    steps.append((LOAD, 0, 0, NUMBER_AT))
    plain = [(numbers, ALLOW) for numbers in SYSTEM_CALLS.values()]
    for numbers, result in (*plain, *((numbers, FAIL | code) for numbers, code in REFUSED.items())):
        if numbers[column] >= 0:
            steps += [(EQUAL, 0, 1, numbers[column]), (RETURN, 0, 0, result)]
    for numbers, argument, test, value, (hit, miss) in (
        (OPEN, 1, ANY_BIT, WRITES, (TRAP, ALLOW)),
        (OPENAT, 2, ANY_BIT, WRITES, (TRAP, ALLOW)),
        (EXIT_GROUP, 0, EQUAL, DONE, (ALLOW, TRAP)),
        (TGKILL, 0, EQUAL, process, (ALLOW, TRAP)),
        (FCNTL, 1, GREATER, LAST_FLAG, (FAIL | errno.EPERM, ALLOW)),
    ):
        if numbers[column] >= 0:
            steps += [
                (EQUAL, 0, 4, numbers[column]),
                (LOAD, 0, 0, ARGUMENTS_AT + 8 * argument),
                (test, 0, 1, value),
                (RETURN, 0, 0, hit),
                (RETURN, 0, 0, miss),
            ]
    steps.append((RETURN, 0, 0, TRAP))
    return b"".join(struct.pack("<HBBI", code, yes, no, value) for code, yes, no, value in steps)


def restrict() -> bool:
    """Installs the filter; False where the system has none."""
    machine = os.uname().machine
    if sys.platform != "linux" or machine not in MACHINES:
        return False
    prctl: Any = ctypes.CDLL(None).prctl
    prctl.argtypes = [ctypes.c_int, *(ctypes.c_ulong,) * 4]
    prctl(SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if prctl(SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        return False
    program = filter_program(machine, os.getpid())
    buffer = ctypes.create_string_buffer(program, len(program))
    head = ctypes.create_string_buffer(struct.pack("@HP", len(program) // 8, ctypes.addressof(buffer)))
    return prctl(SET_SECCOMP, FILTER, ctypes.addressof(head), 0, 0) == 0


def limit(kind: int, value: int) -> None:
    """Lowers a limit, for good."""
    hard = resource.getrlimit(kind)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (value, value))


def set_limits(task: dict[str, Any]) -> None:
    """Bounds on memory, processor time, output and files."""
    limit(resource.RLIMIT_CORE, 0)
    limit(resource.RLIMIT_AS, task["memory"])
    limit(resource.RLIMIT_FSIZE, task["output"])
    seconds = int(task["seconds"]) + 2
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 2))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    if not restrict():
        limit(resource.RLIMIT_NPROC, 0)
        limit(resource.RLIMIT_NOFILE, 64)


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
        self.body = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: self.run_once())
        self.function: Any = None
        self.values: list[Any] = []

    def run_once(self) -> None:
        """Calls a function that the library exports."""
        self.function(*self.values)

    def run(self) -> None:
        """Loads the library and calls its entry; ends in the recorder."""
        task = self.task
        library = opened(task["library"])
        library.ptokit_array.restype = ctypes.c_void_p
        entry = registered(library, task["name"])
        if entry is None and not task["symbol"]:
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
        """Calls a function by the linker's name; with a grid it is the kernel itself."""
        self.function = getattr(library, self.task["symbol"])
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
    os._exit(DONE)


if __name__ == "__main__":
    main()
