"""How the calls of a recording use its arrays: how far they reach, what they read, and which of it are indices."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from ptokit.cxx.recording import RecordedArray, RecordedCall, RecordedOperand, RecordedTile, Recording
from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.isa.dtype import dtype

INDEX_STEPS = {"mgather": 1, "mscatter": 1, "tscatter": 1, "tgather": 1, "tgatherb": 32}
"""Instructions whose third argument holds indices: how far apart distinct ones are."""
INDEX_PLACE = 2
INDEXED_PLACE = {"mgather": 1, "mscatter": 0, "tscatter": 0, "tgather": 1, "tgatherb": 1}
"""The argument that their indices are into."""


@dataclass
class ArrayUse:
    """How an array is used."""

    end: int = 0
    """Bytes from its start to the end of what calls reach."""
    dtype: str = ""
    """The type of the elements that an instruction reads before one writes them; empty if none does."""
    step: int = 0
    """Of indices: how far apart distinct ones are; else 0."""
    bound: int = 0
    """Of indices: the least number that is none."""


def array_uses(recording: Recording) -> dict[str, ArrayUse]:
    """The use of each array of the launches, by its name."""
    names = [each.name for each in recording.launches[0].arguments] if recording.launches else []
    found = {name: ArrayUse() for name in names}
    loaded: dict[tuple[str, int | None, int], ArrayUse] = {}
    for call in recording.calls:
        uses = {
            place: found[names[operand.argument]]
            for place, operand in enumerate(call.operands)
            if isinstance(operand, RecordedArray) and operand.argument is not None
        }
        for place, use in uses.items():
            _note(call, place, use)
            loaded.update((tile, use) for tile in _destinations(call))
        if call.name in INDEX_STEPS and len(call.operands) > INDEX_PLACE:
            operand = call.operands[INDEX_PLACE]
            index = loaded.get(_key(operand)) if isinstance(operand, RecordedTile) else uses.get(INDEX_PLACE)
            if index is not None:
                _note_index(call, index)
    return found


def _note(call: RecordedCall, place: int, use: ArrayUse) -> None:
    operand = call.operands[place]
    assert isinstance(operand, RecordedArray)
    use.end = max(use.end, end_of(operand))
    if place and not use.dtype and call.name in INSTRUCTIONS:  # the first argument is written
        use.dtype = operand.dtype


def _note_index(call: RecordedCall, use: ArrayUse) -> None:
    step = INDEX_STEPS[call.name]
    bound = _capacity(call, call.operands[INDEXED_PLACE[call.name]]) * step
    use.bound = min(use.bound or bound, bound)
    use.step = max(use.step, step)


def _capacity(call: RecordedCall, indexed: RecordedOperand) -> int:
    """How many distinct indices there are."""
    if isinstance(indexed, RecordedTile):
        return max(1, indexed.rows * indexed.cols)
    assert isinstance(indexed, RecordedArray)
    by_row = "row" in str(dict(call.modifiers).get("coalesce", "")).lower()
    return max(1, indexed.shape[-2] if by_row else prod(indexed.shape))


def _destinations(call: RecordedCall) -> Iterator[tuple[str, int | None, int]]:
    if call.name == "tload" and isinstance(call.operands[0], RecordedTile):
        yield _key(call.operands[0])


def _key(tile: RecordedTile) -> tuple[str, int | None, int]:
    return tile.memory, tile.address, tile.object if tile.address is None else 0


def end_of(array: RecordedArray) -> int:
    """Bytes from the start of an argument to the end of a tensor in it."""
    last = sum(max(count - 1, 0) * step for count, step in zip(array.shape, array.stride, strict=True))
    try:
        size = dtype(array.dtype).size
    except TypeError:  # of less than a byte
        size = 1
    return array.offset + (last + 1) * size
