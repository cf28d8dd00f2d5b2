"""The memories of a launch: on the chip by their own addresses, and the arrays in global memory that are written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, pairwise
from math import gcd
from typing import NamedTuple

import numpy as np

from ptokit.engine.reference import Touched
from ptokit.engine.storage import ADDRESS_SPACE, Array, Storage
from ptokit.isa.policy import TileType
from ptokit.machine.shadow import MOST_PAGED, Extent, Shadow, extent_of, listed
from ptokit.program.ir import Assign, Program, walk
from ptokit.program.overlaps import has_same_pitch

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
    is_apart: bool = False
    """Whether a tile without an address has the memory for itself."""
    vector: int = 0
    """The vector core of a block that has it."""

    @property
    def is_global(self) -> bool:
        return self.name == GM

    def extent(self, touched: Touched, size: int) -> Extent:
        """The units that an access touches, for elements of `size` bytes."""
        each = size // self.shadow.unit
        if touched.region is not None:
            return extent_of(touched.region, each)
        assert touched.offsets is not None
        return listed(touched.offsets(), each)


class ChipMemory:
    """The on-chip memories of the running block; poisoned until written."""

    def __init__(self, names: Mapping[TileType, str], program: Program, bits: int, *, poison: bool) -> None:
        """`bits` are enough for the number of a statement."""
        self.names, self._bits, self._poison = names, bits, poison
        self._units, self._sizes = _measures(program)
        self._shadows: dict[tuple[TileType, int], Shadow] = {}
        self._apart: dict[int, Shadow] = {}
        self._places: dict[tuple[TileType, int, int], MemoryLocation] = {}

    def at(self, loc: TileType, address: int | None, storage: Storage, vector: int) -> MemoryLocation:
        """The location of a tile, in the memory of a vector core if it has one; without an address it has a memory of
        its own."""
        if address is None:
            return MemoryLocation(self._own(storage), 0, self.names[loc], is_apart=True)
        known = self._places.get((loc, address, vector))
        if known is None:
            shadow = self._shadow(loc, vector)
            known = MemoryLocation(shadow, address // shadow.unit, self.names[loc], vector=vector)
            self._places[loc, address, vector] = known
        return known

    def above(self, loc: TileType, address: int, vector: int) -> tuple[MemoryLocation, int] | None:
        """The location of an address, and how many units of tiles follow it; None if there are none."""
        if self._sizes.get(loc, 0) <= address:
            return None
        shadow = self._shadow(loc, vector)
        start = address // shadow.unit
        return MemoryLocation(shadow, start, self.names[loc], vector=vector), shadow.size - start

    def _shadow(self, loc: TileType, vector: int) -> Shadow:
        key = loc, vector
        if key not in self._shadows:
            self._shadows[key] = self._new(self._sizes[loc], self._units[loc])
        return self._shadows[key]

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
            shadow.forget()


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


Handle = tuple[TileType | str, int, int, str]
"""A buffer (A-38): a memory, an address, a size in bytes and an element type."""


WORKSPACE = "workspace"
"""In the place of the element type: what an instruction leaves in its workspace is no data of any tile."""


class Owners:
    """The buffer that wrote every unit last, for manual programs in which tiles may share bytes."""

    def __init__(self, program: Program, hidden: int | None) -> None:
        """`hidden` is where in UB instructions of the program use memory by themselves."""
        self.is_needed = program.mode == "manual" and _may_share(program, hidden)
        self._specs = {name: tile.spec for name, tile in program.tiles.items()}
        self._families = {name: tile.family for name, tile in program.tiles.items() if tile.family is not None}
        self._numbers: dict[Handle, int] = {}
        self._last: list[tuple[str, int]] = [("", 0)]
        """By the number of a buffer: the tile through which it was written last, and its address."""
        self._entries: dict[Shadow, Array] = {}
        self._claims: dict[Handle, Array] = {}
        """The units of each buffer that were written through it."""
        self._writers: dict[Handle, set[str]] = {}
        self._used: dict[int, int] = {}
        """By the number of a buffer with only some columns written: how many bytes from its start."""

    def forget(self) -> None:
        """A block begins: nothing is written."""
        self._claims.clear()
        self._writers.clear()

    def declare(self, tile: str, place: MemoryLocation) -> None:
        """A tile gets an address. What was written through it there remains claimed (A-38), but not if another tile
        of the same bytes was written since, and no other handle has the claim: it then shows that tile's content."""
        handle, entries = self._handle(tile, place), self._entries.get(place.shadow)
        if entries is None or self._writers.get(handle) != {tile}:
            return
        owners = np.unique(entries[place.start : place.start + handle[2] // place.shadow.unit])
        alike = {self._numbers.get((*handle[:3], dtype)) for dtype in self._types} - {self._numbers[handle]}
        if owners.size == 1 and int(owners[0]) in alike:
            del self._claims[handle], self._writers[handle]

    @property
    def _types(self) -> set[str]:
        return {str(spec.dtype) for spec in self._specs.values()}

    def _handle(self, tile: str, place: MemoryLocation) -> Handle:
        """The buffer of the tile that this is a part of."""
        spec = self._specs[tile]
        return spec.loc, (place.start - place.ahead) * place.shadow.unit, spec.nbytes, str(spec.dtype)

    def write(
        self, tile: str, place: MemoryLocation, extent: Extent, *, narrow: bool = False, is_workspace: bool = False
    ) -> None:
        """A tile is written, or only some of its columns are (`narrow`), or it is used as a workspace."""
        entries = self._entries.get(place.shadow)
        if entries is None:
            entries = self._entries[place.shadow] = np.zeros(place.shadow.size, np.int32)
        if is_workspace:
            start = place.start * place.shadow.unit
            extent.put(entries, place.start, self._number((place.name, start, extent.count, WORKSPACE), tile))
            return
        handle, ahead = self._handle(tile, place), place.ahead
        is_new = handle not in self._numbers
        number = self._number(handle, tile)
        extent.put(entries, place.start, number)
        if not narrow:
            self._used.pop(number, None)
        elif is_new or number in self._used:
            self._used[number] = max(self._used.get(number, 0), (ahead + extent.end) * place.shadow.unit)
        if handle not in self._claims:
            self._claims[handle] = np.zeros(handle[2] // place.shadow.unit, np.bool_)
        extent.put(self._claims[handle], ahead, True)
        self._writers.setdefault(handle, set()).add(tile)

    def _number(self, handle: Handle, tile: str) -> int:
        """The number of a buffer that is written through a tile."""
        number = self._numbers.setdefault(handle, len(self._last))
        self._last[number:] = [(tile, handle[1]), *self._last[number + 1 :]]
        return number

    def read(
        self, tile: str, place: MemoryLocation, extent: Extent, *, narrow: bool = False
    ) -> tuple[str, int, Array] | None:
        """The tile that overwrote units of this tile's buffer, its address, and the units; None if none did."""
        handle, entries, ahead = self._handle(tile, place), self._entries.get(place.shadow), place.ahead
        if entries is None or handle not in self._claims:
            return None
        found, claimed = extent.get(entries, place.start), extent.get(self._claims[handle], ahead)
        lost = (found != self._numbers[handle]) & claimed
        if lost.any():
            end = handle[1] + (ahead + extent.end) * place.shadow.unit if narrow else None
            unit, numbers = place.shadow.unit, np.unique(found[lost]).tolist()
            slices = [number for number in numbers if self._is_slice(tile, handle, end, number, unit)]
            lost &= ~np.isin(found, slices)
        other = self._last[int(found[lost].max())] if lost.any() else (tile, handle[1])
        return None if other == (tile, handle[1]) else (*other, extent.positions(place.start)[lost])  # own workspace

    def _is_slice(self, tile: str, handle: Handle, end: int | None, number: int, unit: int) -> bool:
        """Whether what was written through a buffer is a slice of a tile, or what is read of the tile, up to an end,
        one of the buffer: it begins in the first row, and has columns of the other one only. Likewise views."""
        name, at = self._last[number]
        if tile in self._families and self._families[tile] == self._families.get(name):
            return True
        if name not in self._specs or not has_same_pitch(self._specs[tile], self._specs[name]):  # or the workspace
            return False
        other, start, used = self._specs[name], handle[1], self._used.get(number)
        mine, theirs = self._claims[handle], self._claims.get((other.loc, at, other.nbytes, str(other.dtype)))
        pitch = other.stride * other.dtype.size
        if theirs is None:
            return False
        if used is not None and 0 <= at - start < pitch and at + used <= start + self._specs[tile].nbytes:
            return _has_columns(mine, theirs, (at - start) // unit, pitch // unit)
        is_inside = end is not None and 0 <= start - at < pitch and end <= at + other.nbytes
        return is_inside and _has_columns(theirs, mine, (start - at) // unit, pitch // unit)


def _has_columns(whole: Array, part: Array, ahead: int, pitch: int) -> bool:
    """Whether the columns of units in a part, which begins so many units later, are among those in a whole."""
    columns = (np.flatnonzero(part) + ahead) % pitch
    return bool(np.isin(columns, np.flatnonzero(whole) % pitch).all())


def _may_share(program: Program, hidden: int | None) -> bool:
    """Whether two tiles may have bytes in common: their addresses overlap, or are known at run time only."""
    moved = [(program.tiles[stmt.tile], stmt.address) for stmt in walk(program.body) if isinstance(stmt, Assign)]
    placed = [*((tile, address) for tile in program.tiles.values() for address in tile.addresses), *moved]
    spans = [(TileType.Vec.name, hidden, ADDRESS_SPACE)] if hidden is not None else []
    for tile, address in placed:
        if not isinstance(address, int):
            return True
        spans.append((tile.spec.loc.name, address, address + tile.spec.nbytes))
    spans.sort()
    return any(one[0] == other[0] and other[1] < one[2] for one, other in pairwise(spans))


class Global:
    """The arrays of a launch that are written; arrays that share memory are one. Others are not tracked."""

    def __init__(self, tensors: Mapping[str, Storage], written: Iterable[str], bits: int) -> None:
        """`bits` are enough for the number of a statement."""
        self._tensors = tensors
        stored = [tensors[name] for name in written]
        self.spans: list[tuple[range, Shadow]] = []
        self._saved: dict[Shadow, _Saved] = {}
        for span, unit in _groups(list(tensors.values())):
            inside = [each for each in stored if each.span.start < span.stop and span.start < each.span.stop]
            if inside:
                shadow = Shadow(len(span) // unit, bits, unit)
                self.spans.append((span, shadow))
                self._saved[shadow] = _Saved(inside, span.start, unit)

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

    def save(self, place: MemoryLocation, extent: Extent) -> None:
        """Save what is about to be overwritten."""
        self._saved[place.shadow].save(extent, place.start)

    def saved(self) -> Iterator[tuple[Array, Array]]:
        """Parts of arrays that were written, and the content that they had before the launch."""
        return chain.from_iterable(saved.parts() for saved in self._saved.values())

    def restore(self) -> None:
        """Give all arrays the content that they had before the launch."""
        for saved in self._saved.values():
            saved.restore()


class _Saved:
    """The content of arrays before the launch, in pages that are copied before they are first written."""

    def __init__(self, storages: list[Storage], start: int, unit: int) -> None:
        """Arrays that are written, in a span that starts at an address."""
        self._parts = [(each.address - start, each.bits.view(np.uint8)) for each in storages]
        self._unit = unit
        self._pages: dict[int, list[tuple[Array, Array]]] = {}

    def save(self, where: Extent, start: int) -> None:
        """Save the pages of these units."""
        for page, _, _ in where.pieces(start, MOST_PAGED):
            if page not in self._pages:
                self._pages[page] = list(self._copies(page))

    def _copies(self, page: int) -> Iterator[tuple[Array, Array]]:
        first, end = page * MOST_PAGED * self._unit, (page + 1) * MOST_PAGED * self._unit
        for at, content in self._parts:
            here = content[max(0, first - at) : max(0, end - at)]
            yield here, here.copy()

    def parts(self) -> Iterator[tuple[Array, Array]]:
        """Parts that were saved, and their content."""
        return chain.from_iterable(self._pages.values())

    def restore(self) -> None:
        """Write it back."""
        for here, content in self.parts():
            here[...] = content


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
