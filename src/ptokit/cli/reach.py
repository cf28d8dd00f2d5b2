"""How far the calls of a C++ entry go in arrays that were not given: their ends are not known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod
from typing import Any, cast

from ptokit.cxx.uses import ArrayUse
from ptokit.finding import Finding
from ptokit.isa.dtype import DType, dtype
from ptokit.lang.launcher import Launchable

LEAST = 16
"""Numbers below it are no extents of arrays."""
MOST_NUMBERS, MOST_FACTORS = 8, 3
"""Numbers of a launch, and factors of a product of them, that may be the extent of an array."""


@dataclass(frozen=True)
class ArrayReach:
    """An array that was not given."""

    name: str
    type: DType
    """That of the elements which calls take."""
    parameter: DType
    """That of the pointer; the same if it may point to any."""
    elements: int
    """Up to the last one that a call takes."""
    use: ArrayUse

    @property
    def example(self) -> str:
        """The array as `--arg` takes it."""
        return self._argument(self.elements)

    def _argument(self, elements: int) -> str:
        return f"{self.name}={self.parameter.name}[{-(-elements * self.type.size // self.parameter.size)}]"

    def beyond(self, numbers: Mapping[str, int]) -> Finding | None:
        """A note if the last call goes beyond a product of numbers of the launch, which may be the array's extent."""
        extents: dict[int, str] = {}
        for word, extent in _products(numbers, self.use.strides):
            extents.setdefault(extent, word)  # the shortest product comes first
        near = [extent for extent in extents if 0 <= self.elements - extent < self.use.block]
        if not near or max(near) == self.elements:
            return None
        extent, word = max(near), extents[max(near)]
        message = (
            f"calls go up to element {self.elements:,} of {self.name}, {self.elements - extent:,} beyond {word}, which "
            f"is {extent:,}"
        )
        fix = f"if that is its extent, give it to see the call: --arg {self._argument(extent)}"
        return Finding("note", "KN-10", message, operand=self.name, fix=fix)


def _products(numbers: Mapping[str, int], strides: set[int]) -> Iterator[tuple[str, int]]:
    """Products of some numbers, and of a stride."""
    large = [(name, number) for name, number in numbers.items() if number >= LEAST][:MOST_NUMBERS]
    for count in range(1, MOST_FACTORS + 1):
        for chosen in combinations(large, count):
            words, extent = [name for name, _ in chosen], prod(number for _, number in chosen)
            for stride in sorted({1, *strides}):
                if stride > 0:
                    yield " * ".join([*words, str(stride)] if stride > 1 else words), extent * stride


def reaches(kernel: Launchable, names: Sequence[str], values: Mapping[str, Any]) -> list[ArrayReach]:
    """The arrays of these names that calls use."""
    uses: Mapping[str, ArrayUse] = cast("Any", kernel).uses(values) if names else {}
    found: list[ArrayReach] = []
    for name, use in uses.items():
        if name in names and use.end and (kind := _known(use.element)) is not None:
            parameter = cast("Any", kernel).dtype(name) or kind
            found.append(ArrayReach(name, kind, parameter, use.end // kind.size, use))
    return found


def notes_beyond(arrays: Sequence[ArrayReach], values: Mapping[str, Any]) -> list[Finding]:
    """The notes about arrays that may be shorter than what calls use."""
    numbers = {name: value for name, value in values.items() if type(value) is int}
    return [note for array in arrays if (note := array.beyond(numbers)) is not None]


def _known(kind: str) -> DType | None:
    try:
        return dtype(kind)
    except TypeError:  # of less than a byte
        return None
