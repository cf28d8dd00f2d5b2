"""Memory that the driver and the owners on its machine share.

A segment is an anonymous file of Linux (`memfd`): owners open it through `/proc`, and it goes away with the last
process that has it, however that ends. A random token at its start tells an owner that it has opened the right one.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import secrets
import weakref
from contextlib import suppress
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
Spec = dict[str, Any]

START = 4096
"""The offset of the data; the token is before it."""
MOST_FREE = 4
"""Segments that are kept for later calls: new memory takes several times as long to write."""
MOST_LENT = 128
"""Segments that arrays use: each takes two file descriptors. Further arrays are not shared."""
MOST_WASTE = 4
"""How many times the needed size a segment may have."""
MOST_OPEN = 16
"""Segments that an owner keeps open."""


@dataclass(eq=False)
class Segment:
    """Shared memory, on the driver's side."""

    descriptor: int
    memory: mmap.mmap
    spec: Spec
    process: int

    @classmethod
    def create(cls, size: int) -> Segment | None:
        """New memory that is really there, so that no write to it can fail; None where there is no such memory."""
        if not hasattr(os, "memfd_create"):
            return None
        try:
            descriptor = os.memfd_create("ptokit", os.MFD_CLOEXEC)
        except OSError:  # no descriptors left
            return None
        try:
            os.posix_fallocate(descriptor, 0, START + size)
            memory = mmap.mmap(descriptor, START + size)
        except (OSError, OverflowError):
            os.close(descriptor)
            return None
        token = secrets.token_bytes(32)
        memory[: len(token)] = token
        spec = {"path": f"/proc/{os.getpid()}/fd/{descriptor}", "size": size, "token": token.hex()}
        return cls(descriptor, memory, spec, os.getpid())

    def free(self) -> None:
        """Give the memory back, also that of owners that have the segment open. Arrays over it must be gone."""
        if os.getpid() == self.process:  # not in a process that was forked: it shares the memory
            os.ftruncate(self.descriptor, 0)
        os.close(self.descriptor)
        self.memory.close()


class Segments:
    """The segments of a table, and arrays in them. A segment is used again when no array uses it any more."""

    def __init__(self, most_free: int = MOST_FREE) -> None:
        self._free: list[Segment] = []
        self._most_free = most_free
        self._lent: set[str] = set()
        self._is_closed = False

    def array(self, shape: tuple[int, ...], kind: np.dtype[Any]) -> tuple[Array, Spec] | None:
        """A new array in shared memory with undefined content; None if there is no such memory, or none left."""
        size = prod(shape) * kind.itemsize
        if len(self._lent) >= MOST_LENT:
            return None
        segment = self._taken(size) or Segment.create(_rounded(size))
        if segment is None:
            return None
        self._lent.add(segment.spec["token"])
        lease: Any = (ctypes.c_char * size).from_buffer(segment.memory, START)
        weakref.finalize(lease, self._returned, segment).atexit = False
        return np.frombuffer(lease, np.uint8).view(kind).reshape(shape), segment.spec

    def _taken(self, size: int) -> Segment | None:
        for each in sorted(self._free, key=lambda each: each.spec["size"]):
            if size <= each.spec["size"] <= MOST_WASTE * size:
                with suppress(ValueError):  # arrays may be deleted at any time, and free a segment meanwhile
                    self._free.remove(each)
                    return each
        return None

    def _returned(self, segment: Segment) -> None:
        self._lent.discard(segment.spec["token"])
        self._free.append(segment)
        with suppress(IndexError):  # of another thread
            while len(self._free) > (0 if self._is_closed else self._most_free):
                self._drop(self._free.pop(0))

    def _drop(self, segment: Segment) -> None:
        with suppress(BufferError):  # the last array is being deleted; the memory goes away with it
            segment.free()

    def close(self) -> None:
        """Free what no array uses; the rest follows with its arrays."""
        self._is_closed = True
        while self._free:
            self._drop(self._free.pop())


def _rounded(size: int) -> int:
    """A size that later calls with a little more data have, too: at most an eighth more."""
    step = 1 << max(0, size.bit_length() - 4)
    return -(-size // step) * step


class OpenedSegments:
    """Segments of the driver, on an owner's side."""

    def __init__(self) -> None:
        self._opened: dict[str, mmap.mmap] = {}

    def view(self, spec: Spec | None, shape: tuple[int, ...], kind: np.dtype[Any]) -> Array:
        """An array in a segment. Raises OSError if the segment does not exist, or is on another machine."""
        if spec is None:
            raise OSError("no segment")
        memory = self._opened.pop(spec["token"], None) or self._open(spec)
        self._opened[spec["token"]] = memory
        if len(self._opened) > MOST_OPEN:
            self._opened.pop(next(iter(self._opened)))
        return np.frombuffer(memory, np.uint8, prod(shape) * kind.itemsize, START).view(kind).reshape(shape)

    @staticmethod
    def _open(spec: Spec) -> mmap.mmap:
        descriptor = os.open(spec["path"], os.O_RDWR | os.O_CLOEXEC)
        try:
            memory = mmap.mmap(descriptor, START + spec["size"])
        except ValueError as problem:
            raise OSError(str(problem)) from problem
        finally:
            os.close(descriptor)
        if memory[:32] != bytes.fromhex(spec["token"]):
            raise OSError("this is another segment")
        return memory
