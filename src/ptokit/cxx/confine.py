"""What a process that runs or compiles foreign code may do: limits, files (Landlock), system calls (a filter).

It imports nothing of ptokit: the script `child_main.py` imports it. Landlock is there from Linux 5.13 on, unless it is
off or a container forbids it; the filter on AArch64 and x86-64. Both limit the thread that asks for them, and what it
starts. What a system has and then refuses is an error.
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import signal
import stat
import struct
import sys
import threading
from collections.abc import Iterable
from functools import cache
from typing import Any

DONE = 86
"""The only exit status that the filter of a kernel lets pass; runtime.cpp ends with it too."""

SYSTEM_CALLS = {
    # name: number on AArch64, number on x86-64; -1 where the call does not exist
    "read": (63, 0), "write": (64, 1), "readv": (65, 19), "writev": (66, 20), "pread64": (67, 17), "lseek": (62, 8),
    "close": (57, 3), "fstat": (80, 5), "stat": (-1, 4), "lstat": (-1, 6), "newfstatat": (79, 262), "statx": (291, 332),
    "getcwd": (17, 79), "dup": (23, 32),
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
OPEN, OPENAT, EXIT_GROUP, TGKILL, FCNTL, PRCTL = (-1, 2), (56, 257), (94, 231), (131, 234), (25, 72), (167, 157)
"""Calls that a kernel may make with some arguments: files to read while its library is loaded, the end of the recorder,
`abort`, flags of files, a further filter."""
REFUSED = {
    (29, 16): errno.ENOTTY, (261, 302): errno.EPERM, (-1, 21): errno.EACCES, (48, 269): errno.EACCES,
    (439, 439): errno.EACCES, (-1, 89): errno.EACCES, (78, 267): errno.EACCES,
}  # fmt: skip
"""Calls of a kernel that fail without an end of the recording: `ioctl`, `prlimit64`, `access` and `readlink` in all
forms."""
OF_COMPILERS = (
    (198, 41), (199, 53), (117, 101), (270, 310), (271, 311), (438, 438), (425, 425), (280, 321), (241, 298),
    (219, 250),
)  # fmt: skip
"""Calls that fail for a compiler: `socket`, `socketpair`, `ptrace`, `process_vm_readv`, `process_vm_writev`,
`pidfd_getfd`, `io_uring_setup`, `bpf`, `perf_event_open`, `keyctl`."""
OTHER_NUMBERS = 1 << 30
"""Numbers from here on are calls of the x32 form of x86-64."""
LAST_FLAG = 3
"""The last command of `fcntl` that only reads or sets flags: the others could send signals."""
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC

MACHINES = {"aarch64": (0xC00000B7, 0), "x86_64": (0xC000003E, 1)}
"""The number of an architecture in a filter, and its column in the table."""
LOAD, EQUAL, GREATER, FROM, ANY_BIT, RETURN = 0x20, 0x15, 0x25, 0x35, 0x45, 0x06
ALLOW, TRAP, KILL, FAIL = 0x7FFF0000, 0x00030000, 0x80000000, 0x00050000
NUMBER_AT, MACHINE_AT, ARGUMENTS_AT = 0, 4, 16
GET_DUMPABLE, SET_DUMPABLE = 3, 4
SET_PDEATHSIG, SET_NO_NEW_PRIVS, GET_SECCOMP, SET_SECCOMP, FILTER = 1, 38, 21, 22, 2


CREATE_RULESET, ADD_RULE, RESTRICT_SELF, VERSION, PATH_BENEATH = 444, 445, 446, 1, 1
"""System calls of Landlock, and their constants."""
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR, TRUNCATE, IOCTL = 1, 1 << 1, 1 << 2, 1 << 3, 1 << 14, 1 << 15
READ = READ_FILE | READ_DIR
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL
"""Rights to what is no folder."""
KNOWN_RIGHTS = ((5, 16), (3, 15), (2, 14), (1, 13))
"""How many rights a version of Landlock has."""

Step = tuple[int, int, int, int]


def _call(*arguments: object) -> int:
    """A system call that the C library has no function for."""
    syscall: Any = ctypes.CDLL(None, use_errno=True).syscall
    return syscall(*(ctypes.c_long(each) if isinstance(each, int) else each for each in arguments))


def landlock() -> int:
    """The version of Landlock; 0 where the system has none."""
    return max(0, _call(CREATE_RULESET, None, 0, VERSION)) if sys.platform == "linux" else 0


def limit_files(readable: Iterable[str], writable: Iterable[str] = (), programs: Iterable[str] = ()) -> None:
    """Limit this process to some files and folders, for good, where the system has Landlock. Only `programs` can be
    started. A path that does not exist is left out."""
    version = landlock()
    if not version:
        return
    rights = (1 << next(count for least, count in KNOWN_RIGHTS if version >= least)) - 1
    fields = [rights, *([3] if version >= 4 else []), *([3] if version >= 6 else [])]  # no network; no signals outside
    rules = _call(CREATE_RULESET, struct.pack(f"<{len(fields)}Q", *fields), 8 * len(fields), 0)
    if rules < 0:
        raise OSError(ctypes.get_errno(), "Landlock is there, and refuses rules")
    for paths, access in ((readable, READ), (programs, READ | EXECUTE), (writable, rights & ~EXECUTE)):
        for path in paths:
            _allow(rules, path, access & rights)
    if _prctl(SET_NO_NEW_PRIVS, 1) or _call(RESTRICT_SELF, rules, 0):
        raise OSError(ctypes.get_errno(), "Landlock is there, and does not limit this process")
    os.close(rules)


def _allow(rules: int, path: str, access: int) -> None:
    try:
        file = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    allowed = access if stat.S_ISDIR(os.fstat(file).st_mode) else access & OF_FILES
    _call(ADD_RULE, rules, PATH_BENEATH, struct.pack("<Qi", allowed, file), 0)
    os.close(file)


def _filter(machine: str, plain: Iterable[tuple[tuple[int, int], int]], tests: Iterable[Any], default: int) -> bytes:
    """A filter of system calls, as instructions of the kernel's packet filter. `plain` are calls with their results;
    `tests` have a test of an argument, and the results of a hit and a miss."""
    architecture, column = MACHINES[machine]
    steps: list[Step] = [(LOAD, 0, 0, MACHINE_AT), (EQUAL, 1, 0, architecture), (RETURN, 0, 0, KILL)]
    steps += [(LOAD, 0, 0, NUMBER_AT), (FROM, 0, 1, OTHER_NUMBERS), (RETURN, 0, 0, FAIL | errno.ENOSYS)]
    for numbers, result in plain:
        if numbers[column] >= 0:
            steps += [(EQUAL, 0, 1, numbers[column]), (RETURN, 0, 0, result)]
    for numbers, argument, test, value, (hit, miss) in tests:
        if numbers[column] >= 0:
            steps += [
                (EQUAL, 0, 4, numbers[column]),
                (LOAD, 0, 0, ARGUMENTS_AT + 8 * argument),
                (test, 0, 1, value),
                (RETURN, 0, 0, hit),
                (RETURN, 0, 0, miss),
            ]
    steps.append((RETURN, 0, 0, default))
    return b"".join(struct.pack("<HBBI", *step) for step in steps)


def filter_of_kernels(machine: str, process: int) -> bytes:
    """What a kernel may call: some calls, in part with some arguments."""
    plain = [(numbers, ALLOW) for numbers in SYSTEM_CALLS.values()]
    tests = (
        (OPEN, 1, ANY_BIT, WRITES, (TRAP, ALLOW)),
        (OPENAT, 2, ANY_BIT, WRITES, (TRAP, ALLOW)),
        (EXIT_GROUP, 0, EQUAL, DONE, (ALLOW, TRAP)),
        (TGKILL, 0, EQUAL, process, (ALLOW, TRAP)),
        (FCNTL, 1, GREATER, LAST_FLAG, (FAIL | errno.EPERM, ALLOW)),
        (PRCTL, 0, EQUAL, SET_SECCOMP, (ALLOW, TRAP)),
    )
    return _filter(machine, [*plain, *((numbers, FAIL | code) for numbers, code in REFUSED.items())], tests, TRAP)


def filter_of_loaded(machine: str) -> bytes:
    """What a kernel may no longer call when its library is loaded: it opens no files, and asks for none by name."""
    asks = [(SYSTEM_CALLS[name], FAIL | errno.EACCES) for name in ("stat", "lstat", "newfstatat", "statx")]
    return _filter(machine, [(OPEN, TRAP), (OPENAT, TRAP), *asks], (), ALLOW)


def filter_of_compilers(machine: str) -> bytes:
    """What a compiler may not call: it has no network and sees no other process."""
    return _filter(machine, [(numbers, FAIL | errno.EACCES) for numbers in OF_COMPILERS], (), ALLOW)


@cache
def has_filter() -> bool:
    """Whether the system has filters that are known here. Found once: a filter forbids to ask."""
    return sys.platform == "linux" and os.uname().machine in MACHINES and _prctl(GET_SECCOMP) >= 0


def install(program: bytes, *, again: bool = False) -> None:
    """Install a filter, for good. `again`: another one is there."""
    if not again:
        _prctl(SET_NO_NEW_PRIVS, 1)
    buffer = ctypes.create_string_buffer(program, len(program))
    head = ctypes.create_string_buffer(struct.pack("@HP", len(program) // 8, ctypes.addressof(buffer)))
    if _prctl(SET_SECCOMP, FILTER, ctypes.addressof(head)):
        raise OSError(errno.EPERM, "the system has filters of system calls, and refuses one")


def summary() -> str:
    """What confines compilers and kernels on this system."""
    files = f"Landlock {version} limits files" if (version := landlock()) else "no Landlock limits files"
    return f"{files}, {'a' if has_filter() else 'no'} filter limits system calls"


def end_with_parent() -> None:
    """End this process when its parent ends."""
    if sys.platform == "linux":
        _prctl(SET_PDEATHSIG, signal.SIGKILL)


class HiddenProcess:
    """While it is entered, other processes of the user see neither memory nor environment of this one."""

    def __init__(self) -> None:
        self._lock, self._count, self._before = threading.Lock(), 0, 1

    def __enter__(self) -> None:
        with self._lock:
            if self._count == 0 and sys.platform == "linux":
                self._before = _prctl(GET_DUMPABLE)
                _prctl(SET_DUMPABLE, 0)
            self._count += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._count -= 1
            if self._count == 0 and sys.platform == "linux":
                _prctl(SET_DUMPABLE, self._before)


def _prctl(*arguments: int) -> int:
    prctl: Any = ctypes.CDLL(None).prctl
    prctl.argtypes = [ctypes.c_int, *(ctypes.c_ulong,) * 4]
    return prctl(*arguments, *(0,) * (5 - len(arguments)))


def limit(kind: int, value: int) -> None:
    """Lower a limit, for good."""
    hard = resource.getrlimit(kind)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (value, value))
