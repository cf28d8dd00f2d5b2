"""Which calls are on the same table: memory and layout are the same, and the memory was not freed in between."""

from __future__ import annotations

import sys
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np

from ptokit.engine.gpu import on_gpu
from ptokit.lang import gpu

HELD = 256 << 20
"""Bytes of memory with an unknown owner that are kept from being freed."""
FEW = 1000
"""Tables that are known before those are removed whose memory was freed."""

Ref = Callable[[], Any]


@dataclass(frozen=True)
class TableMemory:
    """The memory of a table, and how the elements lie in it."""

    owner: Any
    """What keeps the memory."""
    place: tuple[object, ...]
    """The GPU, the address, the shape, the strides in bytes, and the name of the element type."""
    nbytes: int

    @classmethod
    def of_array(cls, given: Any, array: Any) -> TableMemory:
        """An operand of a call of ptokit, and the NumPy array or the `DeviceArray` over its memory."""
        on, address = (array.gpu, array.address) if on_gpu(array) else (None, _start(array))
        return cls._of(owner_of(given), (on, address, array.shape, array.strides, array.dtype.name), array.nbytes)

    @classmethod
    def of_tensor(cls, tensor: Any) -> TableMemory:
        """A torch tensor."""
        size = tensor.element_size()
        strides, name = tuple(step * size for step in tensor.stride()), str(tensor.dtype).rpartition(".")[2]
        on = tensor.get_device() if tensor.get_device() >= 0 else None
        place = on, tensor.data_ptr(), tuple(tensor.shape), strides, name
        return cls._of(owner_of(tensor), place, tensor.numel() * size)

    @classmethod
    def _of(cls, owner: Any, place: tuple[Any, ...], nbytes: int) -> TableMemory:
        """Tables without elements have no memory to be told apart by."""
        return cls(owner, place if nbytes else (id(owner), *place), nbytes)


def owner_of(given: Any) -> Any:
    """The object whose end is the end of the memory, as far as it is known."""
    if on_gpu(given):
        return owner_of(given.owner)
    if gpu.is_torch(given):
        return given.untyped_storage()
    if gpu.is_cupy(given):
        return given if given.base is None else given.base
    if isinstance(given, memoryview):
        return owner_of(given.obj)
    if isinstance(given, np.ndarray):
        owner = given if given.base is None else owner_of(given.base)
        return owner if weak(owner) else given
    return given


def weak(owner: Any) -> Ref | None:
    """A weak reference; None for types without them."""
    try:
        return weakref.ref(owner)
    except TypeError:  # bytes, capsules
        return None


def _is_temporary(owner: Any) -> bool:
    """Whether something else, which is not known, may keep the memory when the owner ends."""
    if isinstance(owner, np.ndarray):
        return owner.base is not None
    return not owner.resizable() if _is_storage(owner) else weak(owner) is None


def _start(owner: Any) -> int:
    """Where the memory begins: that of a tensor or an array can be given back before its owner ends."""
    if isinstance(owner, np.ndarray):
        return owner.__array_interface__["data"][0]
    return owner.data_ptr() if _is_storage(owner) else 0


def _is_storage(owner: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(owner, torch.UntypedStorage)


@dataclass
class _Known:
    """A table, and what keeps its memory."""

    number: int
    owners: list[tuple[Ref, int]] = field(default_factory=list[tuple[Ref, int]])
    """Weak references, and where the memory began."""

    def is_alive(self) -> bool:
        """Whether the memory was not freed: one of its owners still has it."""
        self.owners = [(ref, start) for ref, start in self.owners if (o := ref()) is not None and _start(o) == start]
        return bool(self.owners)


@dataclass
class _Held:
    """An owner that is kept for a time."""

    owner: Any
    nbytes: int

    def __call__(self) -> Any:
        return self.owner


class TableNumbers:
    """Numbers tables. Memory is not kept, except some of which only a temporary owner is known: an array over `bytes`,
    a tensor that shares its memory with NumPy."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], _Known] = {}
        self._next, self._most = count(), FEW
        self._held: deque[_Held] = deque()
        self._bytes = 0

    def of(self, table: TableMemory) -> int:
        """The number of a table."""
        known, owner = self._known.get(table.place), table.owner
        if known is None or not known.is_alive():
            self._remove_freed()
            known = self._known[table.place] = _Known(next(self._next))
            if _is_temporary(owner):
                known.owners.append((self._hold(table), _start(owner)))
        if (ref := weak(owner)) and not any(each() is owner for each, _ in known.owners):
            known.owners.append((ref, _start(owner)))
        return known.number

    def _hold(self, table: TableMemory) -> Ref:
        """Keep the owner of a table, and no longer the first ones that were kept if these are too many bytes."""
        nbytes = table.owner.nbytes() if _is_storage(table.owner) else table.nbytes
        held = _Held(table.owner, nbytes)
        self._held.append(held)
        self._bytes += nbytes
        while self._bytes > HELD:
            first = self._held.popleft()
            first.owner, self._bytes = None, self._bytes - first.nbytes
        return held

    def _remove_freed(self) -> None:
        if len(self._known) >= self._most:
            self._known = {place: known for place, known in self._known.items() if known.is_alive()}
            self._most = 2 * len(self._known) + FEW
