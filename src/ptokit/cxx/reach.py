"""Whether the uses of arrays that were recorded lie inside them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from ptokit.cxx.operands import element_type
from ptokit.cxx.recording import RecordedArray, RecordedCall, RecordedLaunch
from ptokit.finding import Finding, Where
from ptokit.isa.dtype import dtype

PACKED = ("int4", "float4_e2m1", "float4_e1m2")
"""Element types that share bytes: how many an array holds is not known."""


@dataclass(frozen=True)
class _Outside:
    """A use that its array is too small for."""

    call: RecordedCall
    block: int
    argument: int
    first: int
    last: int
    size: int


def outside(
    launch: RecordedLaunch, calls: Mapping[int, RecordedCall], where: Callable[[int], Where | None]
) -> list[Finding]:
    """A finding for each place that uses more elements of an array than it has: the first of its calls."""
    found: dict[int, _Outside] = {}
    needed: dict[int, int] = {}
    for each in _all_outside(launch, calls):
        found.setdefault(each.call.site, each)
        needed[each.argument] = max(needed.get(each.argument, 0), each.last + 1)
    return [
        _finding(each, launch.arguments[each.argument].name, needed[each.argument]).at(where(site))
        for site, each in found.items()
    ]


def _all_outside(launch: RecordedLaunch, calls: Mapping[int, RecordedCall]) -> Iterator[_Outside]:
    sizes = [None if each.shape is None else prod(each.shape) * dtype(each.dtype).size for each in launch.arguments]
    for number, call in calls.items():
        for argument, use in _uses(call):
            size, kind = sizes[argument], element_type(use.dtype)
            first, count = _elements(use, kind.size)
            if size is not None and count and not 0 <= first <= first + count <= size // kind.size:
                yield _Outside(call, _block(launch, number), argument, first, first + count - 1, size // kind.size)


def _uses(call: RecordedCall) -> Iterator[tuple[int, RecordedArray]]:
    """The arrays of a call, and the arguments that they are in."""
    for operand in call.operands:
        if isinstance(operand, RecordedArray) and operand.argument is not None and operand.dtype not in PACKED:
            yield operand.argument, operand


def _elements(use: RecordedArray, size: int) -> tuple[int, int]:
    """The first element of a use, and how many there are up to its last one."""
    if 0 in use.shape:
        return 0, 0
    steps = [(extent - 1) * step for extent, step in zip(use.shape, use.stride, strict=True)]
    return use.offset // size + sum(min(0, step) for step in steps), 1 + sum(map(abs, steps))


def _block(launch: RecordedLaunch, number: int) -> int:
    """The first block that makes a call."""
    return next(block.index for block in launch.blocks if np.any(block.calls == number))


def _finding(use: _Outside, name: str, needed: int) -> Finding:
    elements = f"elements {use.first:,} to {use.last:,} of {name}"
    message = f"{use.call.name} uses {elements} in block {use.block}; the array has {use.size:,}"
    fix = f"pass an array of at least {needed:,} elements, or use fewer"
    return Finding("error", "KN-10", message, None, name, f"at most {use.size} elements", f"{use.last + 1}", fix)
