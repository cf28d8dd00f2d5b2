"""Arrays of the host on a device, and of a device on the host, for as long as a launch takes."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Mapping
from contextlib import contextmanager
from ctypes import c_uint8

import numpy as np

from ptokit.engine.cuda.device import Bytes, Device
from ptokit.engine.storage import Storage

ALIGNMENT = 64
"""The alignment in bytes that an address keeps when it is copied to the device."""


@contextmanager
def resident(device: Device, storages: Mapping[str, Storage], written: Collection[str]) -> Generator[dict[str, int]]:
    """The addresses of arrays on a device, by name.

    Arrays of the device stay where they are. Those of the host are copied there, and the `written` ones back in the
    end, after an error too. Arrays that share bytes share them on the device, and are aligned as they were.
    """
    addresses = {name: storage.span.start for name, storage in storages.items()}
    local = {name: storage.span for name, storage in storages.items() if getattr(storage, "gpu", None) is None}
    if local and device.is_captured:
        raise ValueError("arrays of the host are not copied to a GPU while a CUDA graph is captured; call it before")
    _copies = [_copied(device, local, names, addresses) for names in _groups(local)]
    try:
        yield addresses
    finally:
        for name, span in local.items():
            if name in written and span:
                _bytes(span)[:] = device.download(addresses[name], len(span))


@contextmanager
def hosted(device: Device, storages: Mapping[str, Storage], written: Collection[str]) -> Generator[dict[str, Storage]]:
    """Arrays of a device as arrays of the host; the `written` ones are copied back in the end, after an error too."""
    there = {name: storage for name, storage in storages.items() if getattr(storage, "gpu", None) is not None}
    copies = HostCopies(device, there, {name: storage.span.start for name, storage in there.items()})
    here = {name: copies[name] if name in there else storage for name, storage in storages.items()}
    try:
        yield here
    finally:
        for name, storage in there.items():
            if name in written and here[name].bits.size:
                device.upload(storage.span.start, here[name].bits.view(np.uint8))


class HostCopies(Mapping[str, Storage]):
    """Copies of arrays of a device, made when they are asked for. Arrays that share bytes share them here."""

    def __init__(self, device: Device, storages: Mapping[str, Storage], addresses: Mapping[str, int]) -> None:
        self._device, self._storages = device, storages
        self._spans = {
            name: range(at := addresses[name], at + storage.bits.size * storage.dtype.size)
            for name, storage in storages.items()
        }
        self._made: dict[str, Storage] = {}

    def __getitem__(self, name: str) -> Storage:
        if name not in self._made:
            self._download(next(names for names in _groups(self._spans) if name in names))
        return self._made[name]

    def _download(self, names: list[str]) -> None:
        whole = _joined(self._spans, names)
        data = self._device.download(whole.start, len(whole)) if whole else np.empty(0, np.uint8)
        for name in names:
            span, dtype = self._spans[name], self._storages[name].dtype
            part = data[span.start - whole.start : span.stop - whole.start]
            self._made[name] = Storage(part.view(dtype.bits), dtype)

    def __iter__(self) -> Iterator[str]:
        return iter(self._storages)

    def __len__(self) -> int:
        return len(self._storages)


def _joined(spans: Mapping[str, range], names: list[str]) -> range:
    """The addresses of a group."""
    return range(spans[names[0]].start, max(spans[name].stop for name in names))


def _groups(spans: Mapping[str, range]) -> list[list[str]]:
    """Arrays that share bytes, directly or through others."""
    groups: list[list[str]] = []
    reached = -1
    for name in sorted(spans, key=lambda each: spans[each].start):
        if spans[name].start >= reached:
            groups.append([])
        groups[-1].append(name)
        reached = max(reached, spans[name].stop)
    return groups


def _copied(device: Device, spans: Mapping[str, range], names: list[str], addresses: dict[str, int]) -> object:
    """Copy arrays that lie in one piece of memory, and store their addresses; returns what keeps the copy."""
    whole = _joined(spans, names)
    buffer, shift = device.empty(len(whole) + ALIGNMENT), whole.start % ALIGNMENT
    if whole:
        device.upload(buffer.address + shift, _bytes(whole))
    for name in names:
        addresses[name] = buffer.address + shift + spans[name].start - whole.start
    return buffer


def _bytes(span: range) -> Bytes:
    """The memory of the host at some addresses."""
    return np.ctypeslib.as_array((c_uint8 * len(span)).from_address(span.start))
