"""The machine of a run: processor, caches, memory, versions; and arrays with a given alignment."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import time
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

import ptokit

Array = np.ndarray[Any, np.dtype[Any]]

LINE = 64
"""Bytes of a cache line."""
PACKAGES = ("numpy", "ml_dtypes", "llvmlite", "torch", "numba")
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
CACHES = Path("/sys/devices/system/cpu/cpu0/cache")


def caches() -> dict[int, int]:
    """Bytes of the data caches of one core by level; common sizes if the system does not report them."""
    found: dict[int, int] = {}
    for folder in sorted(CACHES.glob("index*")):
        kind, level, size = ((folder / name).read_text().strip() for name in ("type", "level", "size"))
        if kind != "Instruction" and size[:-1].isdigit():
            found[int(level)] = int(size[:-1]) * UNITS.get(size[-1], 1)
    return found or {1: 32 << 10, 2: 1 << 20, 3: 32 << 20}


def memory() -> int:
    """Bytes of main memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def cores() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _busy() -> float | None:
    """Seconds that all programs have spent on these processors; None if the system does not report it."""
    try:
        lines = Path("/proc/stat").read_text().splitlines()
        spent = {int(name[3:]): counts for name, *counts in map(str.split, lines) if name[:3] == "cpu" and name[3:]}
        working = (0, 1, 2, 5, 6, 7)  # user, nice, system, two kinds of interrupts, and time taken by a hypervisor
        ticks = sum(int(spent[cpu][kind]) for cpu in os.sched_getaffinity(0) for kind in working)
        return ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, KeyError, AttributeError):
        return None


class Neighbours:
    """The processor time of other programs from now on. They disturb measurements on all cores."""

    def __init__(self) -> None:
        self._began, self._busy, self._own = time.monotonic(), _busy(), sum(os.times()[:4])

    def share(self) -> float:
        """From 0 to 1; 0 if the system does not report it."""
        busy = _busy()
        if busy is None or self._busy is None:
            return 0.0
        others = busy - self._busy - (sum(os.times()[:4]) - self._own)
        return min(1.0, max(0.0, others / (time.monotonic() - self._began) / cores()))


def size(count: float) -> str:
    """A number of bytes, with a unit."""
    for unit in ("B", "KB", "MB"):
        if count < 1024:
            return f"{count:.4g} {unit}"
        count /= 1024
    return f"{count:.4g} GB"


def address(array: Array) -> int:
    """The address of an array."""
    return array.__array_interface__["data"][0]


def empty(count: int, aligned: bool = False) -> Array:
    """`count` bytes, as NumPy allocates them or at the start of a cache line."""
    if not aligned:
        return np.empty(count, np.uint8)
    raw = np.empty(count + LINE, np.uint8)
    start = -address(raw) % LINE
    return raw[start : start + count]


def _processor() -> str:
    """The processor's name, as the system reports it."""
    if shutil.which("lscpu"):
        said = subprocess.run(["lscpu"], capture_output=True, text=True, check=False, env={**os.environ, "LC_ALL": "C"})
        for line in said.stdout.splitlines():
            if line.startswith("Model name:"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def facts() -> dict[str, str]:
    """The head of a report."""
    large = sorted({address(empty(64 << 20)) % LINE for _ in range(4)})
    return {
        "architecture": platform.machine(),
        "processor": _processor(),
        "cores": str(cores()),
        "data caches": ", ".join(f"L{level} {size(count)}" for level, count in caches().items()),
        "memory": size(memory()),
        "system": platform.system(),
        "Python": platform.python_version(),
        "ptokit": ptokit.__version__,
        **{package: _version(package) for package in PACKAGES},
        "alignment": f"NumPy puts large arrays at {', '.join(map(str, large))} beyond a multiple of {LINE} bytes",
    }
