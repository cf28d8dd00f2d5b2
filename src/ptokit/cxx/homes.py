"""Tiles without an address that others are views of: each gets one, so that its views have theirs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from ptokit.cxx.operands import Unexpressible, tile_slot
from ptokit.cxx.recording import RecordedCall, RecordedTile

ALIGNMENT = 512
"""Of the addresses, in bytes: that of fractals."""
Home = tuple[int, str]
"""The number of a C++ object, and its memory."""


def homes(calls: Collection[RecordedCall]) -> dict[Home, int]:
    """The addresses of the tiles that others are views of."""
    sizes: dict[Home, int] = {_home(tile): 0 for tile in _tiles(calls) if tile.view is not None}
    given: dict[str, int] = {}
    """Where the tiles with addresses of their own end."""
    for tile in _tiles(calls) if sizes else ():
        if tile.address is not None:
            given[tile.memory] = max(given.get(tile.memory, 0), tile.address + _nbytes(tile))
    for tile in _tiles(calls) if sizes else ():
        if (home := _home(tile)) in sizes and tile.address is None:
            sizes[home] = max(sizes[home], (tile.view or 0) + _nbytes(tile))
    ends = {memory: _up(end) for memory, end in given.items()}
    found: dict[Home, int] = {}
    for home, size in sizes.items():
        found[home] = ends.get(home[1], 0)
        ends[home[1]] = found[home] + _up(size)
    return found


def has_view(call: RecordedCall) -> bool:
    """Whether an operand is a view of a tile without an address."""
    return any(tile.view is not None for tile in _tiles([call]))


def at_home(call: RecordedCall, known: Mapping[Home, int]) -> RecordedCall:
    """A call on tiles and views with the addresses of their homes."""
    return replace(call, operands=tuple(_placed(each, known) for each in call.operands))


def _placed(operand: object, known: Mapping[Home, int]) -> object:
    if not isinstance(operand, RecordedTile) or operand.address is not None or _home(operand) not in known:
        return operand
    return replace(operand, address=known[_home(operand)] + (operand.view or 0), view=None)


def _tiles(calls: Collection[RecordedCall]) -> Iterator[RecordedTile]:
    return (each for call in calls for each in call.operands if isinstance(each, RecordedTile))


def _home(tile: RecordedTile) -> Home:
    return tile.object, tile.memory


def _nbytes(tile: RecordedTile) -> int:
    try:
        return tile_slot(tile)[0].spec.nbytes
    except Unexpressible:
        return 0


def _up(number: int) -> int:
    return -(-number // ALIGNMENT) * ALIGNMENT
