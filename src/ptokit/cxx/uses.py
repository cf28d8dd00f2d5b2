"""How the calls of a recording use its arrays: how far they reach, what they read, which of it are indices, and whether
they stay inside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np

from ptokit.cxx.alike import AlikeCalls, alike
from ptokit.cxx.decoding import with_element
from ptokit.cxx.operands import element_type
from ptokit.cxx.problems import FILLED, FIRST_PAGES, NO_MEMORY, OWN_CODE
from ptokit.cxx.recording import RecordedArray, RecordedCall, RecordedLaunch, RecordedOperand, RecordedTile, Recording
from ptokit.finding import Finding, Where
from ptokit.isa.catalog import INSTRUCTIONS, derived
from ptokit.isa.dtype import dtype
from ptokit.isa.opaque import EXACT

BYTE_OFFSETS = {"tgatherb": (2, 1, 32)}
"""Instructions that are known by their effects, and whose indices are offsets of blocks of bytes: as `_index_of`."""


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
    element: str = ""
    """The type of the elements that reach farthest."""
    block: int = 0
    """The most elements that a call takes."""
    strides: set[int] = field(default_factory=set[int])
    """Elements between neighbours in any dim."""


def array_uses(recording: Recording) -> dict[str, ArrayUse]:
    """The use of each array of the launches, by its name."""
    arguments = recording.launches[0].arguments if recording.launches else ()
    names = [argument.name for argument in arguments]
    found = {argument.name: ArrayUse() for argument in arguments if not argument.is_stored}
    loaded: dict[tuple[str, int | None, int], ArrayUse] = {}
    groups = alike(recording.calls)
    has_indices = any(_index_of(group.call.name)[0] for group in groups)  # then the order of single calls matters
    for each in recording.calls if has_indices else (group.last() for group in groups):
        call = with_element(each, arguments)
        uses = {
            place: found[names[operand.argument]]
            for place, operand in enumerate(call.operands)
            if isinstance(operand, RecordedArray) and operand.argument is not None and names[operand.argument] in found
        }
        for place, use in uses.items():
            _note(call, place, use)
            loaded.update((tile, use) for tile in _destinations(call))
        place, indexed, step = _index_of(call.name)
        if 0 < place < len(call.operands):
            operand = call.operands[place]
            index = loaded.get(_key(operand)) if isinstance(operand, RecordedTile) else uses.get(place)
            if index is not None:
                bound = _capacity(call, call.operands[indexed]) * step
                index.bound = min(index.bound or bound, bound)
                index.step = max(index.step, step)
    return found


@derived
def _index_of(name: str) -> tuple[int, int, int]:
    """The place of the indices of an instruction, that of the operand which they are into, and how far apart distinct
    ones are: an operand that is updated, else the source. No place is 0."""
    if name in BYTE_OFFSETS:
        return BYTE_OFFSETS[name]
    operands = INSTRUCTIONS[name].operands if name in INSTRUCTIONS else ()
    place = next((k for k, param in enumerate(operands) if param.role == "index"), 0)
    is_updated = any(param.access == "update" for param in operands[:1])
    return place, 0 if is_updated else 1, 1


def _note(call: RecordedCall, place: int, use: ArrayUse) -> None:
    operand = call.operands[place]
    assert isinstance(operand, RecordedArray)
    if (end := end_of(operand)) > use.end:
        use.end, use.element = end, operand.dtype
    use.block = max(use.block, prod(operand.shape))
    use.strides.update(operand.stride)
    is_read = EXACT[call.name] == "r" if call.name in EXACT else place and call.name in INSTRUCTIONS
    if is_read and not use.dtype:  # the first argument of an instruction is written
        use.dtype = operand.dtype


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


PACKED = ("int4", "float4_e2m1", "float4_e1m2")
"""Element types that share bytes: how many an array holds is not known."""


@dataclass(frozen=True)
class _Outside:
    """A use that its array is too small for."""

    call: RecordedCall
    number: int
    argument: int
    first: int
    last: int
    most: int
    """The last element of all calls of the group that are outside."""
    size: int


def outside(
    launch: RecordedLaunch, groups: Sequence[AlikeCalls], where: Callable[[int], Where | None]
) -> list[Finding]:
    """A finding for each place that uses what is in no array, or more elements of an array than it has: the first of
    its calls."""
    found: dict[int, _Outside] = {}
    needed: dict[int, int] = {}
    for use in sorted(_all_outside(launch, groups), key=lambda use: use.number):
        found.setdefault(use.call.site, use)
        needed[use.argument] = max(needed.get(use.argument, 0), use.most + 1)
    lost = {group.call.site: use.offset for group in groups for use in _lost(group.call)}
    return [
        *(_lost_finding(address).at(where(site)) for site, address in lost.items() if site not in found),
        *(
            _finding(use, _block(launch, use.number), launch.arguments[use.argument].name, needed[use.argument]).at(
                where(site)
            )
            for site, use in found.items()
        ),
    ]


def _lost(call: RecordedCall) -> Iterator[RecordedArray]:
    """The operands of an instruction that are in no array."""
    for operand in call.operands if call.name in INSTRUCTIONS else ():
        if isinstance(operand, RecordedArray) and operand.argument is None and 0 not in operand.shape:
            yield operand


def _lost_finding(address: int) -> Finding:
    fix = FILLED if 0 <= address < FIRST_PAGES else "pass an array for the pointer, or allocate its memory"
    return Finding("error", OWN_CODE, f"{NO_MEMORY} (address {address:#x})", fix=fix)


def _all_outside(launch: RecordedLaunch, groups: Sequence[AlikeCalls]) -> Iterator[_Outside]:
    """The first use of each group that an array is too small for."""
    sizes = [None if a.shape is None else prod(a.shape) * dtype(a.dtype).size for a in launch.arguments]
    for group in groups:
        for place, argument, use in _uses(group.call):
            size, kind = sizes[argument], element_type(use.dtype)
            first, count = _elements(use, kind.size)
            if size is None or not count:
                continue
            shifts = group.shifts.get(place, np.zeros(1, np.int64)) // kind.size
            is_huge = max(abs(first), count) >= 1 << 61  # in a trace that no recorder writes
            firsts = first + (shifts.astype(object) if is_huge else shifts)
            beyond = np.flatnonzero((firsts < 0) | (firsts > size // kind.size - count))
            if len(beyond):
                at, last = int(beyond[0]), int(firsts[beyond].max()) + count - 1
                own, number = int(firsts[at]), int(group.numbers[at])
                yield _Outside(group.call, number, argument, own, own + count - 1, last, size // kind.size)


def _uses(call: RecordedCall) -> Iterator[tuple[int, int, RecordedArray]]:
    """The arrays of a call: the places of the operands, and the arguments that they are in."""
    for place, operand in enumerate(call.operands):
        if isinstance(operand, RecordedArray) and operand.argument is not None and operand.dtype not in PACKED:
            yield place, operand.argument, operand


def _elements(use: RecordedArray, size: int) -> tuple[int, int]:
    """The first element of a use, and how many there are up to its last one."""
    if 0 in use.shape:
        return 0, 0
    steps = [(extent - 1) * step for extent, step in zip(use.shape, use.stride, strict=True)]
    return use.offset // size + sum(min(0, step) for step in steps), 1 + sum(map(abs, steps))


def _block(launch: RecordedLaunch, number: int) -> int:
    """The first block that makes a call."""
    return next(block.index for block in launch.blocks if np.any(block.calls == number))


def _finding(use: _Outside, block: int, name: str, needed: int) -> Finding:
    elements = f"elements {use.first:,} to {use.last:,} of {name}"
    message = f"{use.call.name} uses {elements} in block {block}; the array has {use.size:,}"
    fix = f"pass an array of at least {needed:,} elements, or use fewer"
    return Finding("error", "KN-10", message, None, name, f"at most {use.size} elements", f"{use.last + 1}", fix)
