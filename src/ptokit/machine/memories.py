"""The memories of a launch: on the chip by their own addresses, and the arrays in global memory that are written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import gcd
from typing import NamedTuple

import numpy as np

from ptokit.engine.reference import Touched
from ptokit.engine.storage import ADDRESS_SPACE, Array, Storage
from ptokit.isa.policy import TileType
from ptokit.machine.extent import Extent, extent_of, listed
from ptokit.machine.shadow import Shadow
from ptokit.program.ir import Assign, Program, walk

GM = "GM"
"""The name of global memory."""


class MemoryLocation(NamedTuple):
    """The location of an operand: its memory, and its first unit there."""

    shadow: Shadow
    start: int
    name: str
    """Of the memory: `UB`, `GM`."""
    ahead: int = 0
    """Of a slice of a tile: units from the start of the tile to its own."""

    @property
    def is_global(self) -> bool:
        """Whether it is in global memory."""
        return self.name == GM

    def extent(self, touched: Touched, size: int) -> Extent:
        """The units that an access touches, for elements of `size` bytes."""
        each = size // self.shadow.unit
        if touched.region is not None:
            return extent_of(touched.region, each)
        assert touched.offsets is not None
        return listed(touched.offsets(), each)


class Chip:
    """The on-chip memories of the running block; poisoned until written."""

    def __init__(self, names: Mapping[TileType, str], program: Program, bits: int, *, poison: bool) -> None:
        """`bits` are enough for the number of a statement."""
        self.names, self._bits, self._poison = names, bits, poison
        self._units, self._sizes = _measures(program)
        self._shadows: dict[TileType, Shadow] = {}
        self._apart: dict[int, Shadow] = {}
        self._places: dict[tuple[TileType, int], MemoryLocation] = {}

    def at(self, loc: TileType, address: int | None, storage: Storage) -> MemoryLocation:
        """The location of a tile; without an address it has a memory of its own."""
        if address is None:
            return MemoryLocation(self._own(storage), 0, self.names[loc])
        known = self._places.get((loc, address))
        if known is None:
            shadow = self._shadows.get(loc)
            if shadow is None:
                shadow = self._shadows[loc] = self._new(self._sizes[loc], self._units[loc])
            known = self._places[loc, address] = MemoryLocation(shadow, address // shadow.unit, self.names[loc])
        return known

    def _own(self, storage: Storage) -> Shadow:
        shadow = self._apart.get(storage.address)
        if shadow is None or shadow.size < storage.bits.nbytes:
            shadow = self._apart[storage.address] = self._new(storage.bits.nbytes)
        return shadow

    def _new(self, nbytes: int, unit: int = 1) -> Shadow:
        shadow = Shadow(nbytes // unit, self._bits, unit)
        if self._poison:
            shadow.written = np.zeros(shadow.size, np.uint8)
        return shadow

    def forget(self) -> None:
        """A block begins: nothing is written."""
        for shadow in self._shadows.values():
            if shadow.written is not None:
                shadow.written[: shadow.used] = 0


def _measures(program: Program) -> tuple[dict[TileType, int], dict[TileType, int]]:
    """For each memory, in bytes: the gcd of element sizes and addresses of its tiles, and the highest end."""
    units: dict[TileType, int] = {}
    sizes: dict[TileType, int] = {}
    moved = [(program.tiles[stmt.tile], (stmt.address,)) for stmt in walk(program.body) if isinstance(stmt, Assign)]
    for tile, addresses in (*((tile, tile.addresses) for tile in program.tiles.values()), *moved):
        spec = tile.spec
        for address in addresses:
            known = isinstance(address, int)
            end = address + spec.nbytes if known else ADDRESS_SPACE
            units[spec.loc] = gcd(units.get(spec.loc, 0), spec.dtype.size, address if known else 1)
            sizes[spec.loc] = max(sizes.get(spec.loc, 0), end)
    return units, sizes


Handle = tuple[TileType, int, int, str]
"""A buffer (A-38): a memory, an address, a size in bytes and an element type."""


class Owners:
    """The buffer that wrote every unit last, for programs with addresses known at run time. The verifier checks
    constant addresses."""

    def __init__(self, program: Program) -> None:
        moved = [stmt.address for stmt in walk(program.body) if isinstance(stmt, Assign)]
        given = [address for tile in program.tiles.values() for address in tile.addresses]
        self.is_needed = program.mode == "manual" and not all(isinstance(each, int) for each in (*moved, *given))
        self._specs = {name: tile.spec for name, tile in program.tiles.items()}
        self._numbers: dict[Handle, int] = {}
        self._last: list[str] = [""]
        """By the number of a buffer: the tile through which it was written last."""
        self._entries: dict[Shadow, Array] = {}
        self._claims: dict[Handle, Array] = {}
        """The units of each buffer that were written through it."""
        self._writers: dict[Handle, set[str]] = {}

    def forget(self, tile: str = "") -> None:
        """Forget the writes of a tile that moved, or of all tiles when a block starts."""
        for handle, writers in list(self._writers.items()):
            writers.difference_update({tile} if tile else set(writers))
            if not writers:
                del self._writers[handle], self._claims[handle]

    def _handle(self, tile: str, place: MemoryLocation) -> Handle:
        spec = self._specs[tile]
        return spec.loc, place.start * place.shadow.unit, spec.nbytes, str(spec.dtype)

    def write(self, tile: str, place: MemoryLocation, extent: Extent) -> None:
        """A tile is written."""
        entries = self._entries.get(place.shadow)
        if entries is None:
            entries = self._entries[place.shadow] = np.zeros(place.shadow.size, np.int32)
        handle = self._handle(tile, place)
        number = self._numbers.setdefault(handle, len(self._last))
        if number == len(self._last):
            self._last.append(tile)
        self._last[number] = tile
        extent.put(entries, place.start, number)
        if handle not in self._claims:
            self._claims[handle] = np.zeros(max(extent.end, handle[2] // place.shadow.unit), np.bool_)
        extent.put(self._claims[handle], 0, True)
        self._writers.setdefault(handle, set()).add(tile)

    def read(self, tile: str, place: MemoryLocation, extent: Extent) -> str:
        """The tile that overwrote units of this tile's buffer; empty if none did."""
        handle, entries = self._handle(tile, place), self._entries.get(place.shadow)
        if entries is None or handle not in self._claims:
            return ""
        found, claimed = extent.get(entries, place.start), extent.get(self._claims[handle], 0)
        others = found[(found != self._numbers[handle]) & claimed]
        return self._last[int(others.max())] if others.size else ""


class Global:
    """The arrays of a launch that are written; arrays that share memory are one. Others are not tracked."""

    def __init__(self, tensors: Mapping[str, Storage], written: Iterable[str], bits: int) -> None:
        """`bits` are enough for the number of a statement."""
        self._tensors = tensors
        stored = [tensors[name].span for name in written]
        self.spans: list[tuple[range, Shadow]] = []
        for span, unit in _groups(list(tensors.values())):
            if any(each.start < span.stop and span.start < each.stop for each in stored):
                self.spans.append((span, Shadow(len(span) // unit, bits, unit)))

    def at(self, storage: Storage) -> MemoryLocation | None:
        """The location of elements; None if nothing writes them."""
        for span, shadow in self.spans:
            if span.start <= storage.address < span.stop:
                return MemoryLocation(shadow, (storage.address - span.start) // shadow.unit, GM)
        return None

    def start(self, array: str) -> int:
        """The first unit of an argument's array in its memory."""
        place = self.at(self._tensors[array])
        return place.start if place else 0


def spans_of(storages: Iterable[Storage]) -> list[range]:
    """The spans of memory of some storages, joined if they overlap."""
    return [span for span, _ in _groups(list(storages))]


def _groups(storages: list[Storage]) -> list[tuple[range, int]]:
    """Spans of memory, joined if they overlap, each with the gcd of element sizes and offsets in it."""
    joined: list[tuple[range, int]] = []
    for storage in sorted((each for each in storages if len(each.span)), key=lambda each: each.address):
        span, size = storage.span, storage.dtype.size
        if joined and span.start < joined[-1][0].stop:
            around, unit = joined.pop()
            span, size = range(around.start, max(around.stop, span.stop)), gcd(unit, size, span.start - around.start)
        joined.append((span, size))
    return joined
