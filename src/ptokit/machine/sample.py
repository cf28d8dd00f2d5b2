"""Which blocks of a grid run: all of them, or a sample."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from random import Random
from typing import NamedTuple, SupportsIndex

FORM = "block numbers, 'first', 'last' and 'random:N', such as 'first,last,random:8'"
LAST = -1


class Sample(NamedTuple):
    """Blocks by number, of which `LAST` is the last of the grid, and how many others are drawn at random."""

    numbers: frozenset[int]
    drawn: int


def parse_blocks(blocks: str | Sequence[SupportsIndex]) -> Sample:
    """A sample as options give it."""
    parts = [part.strip() for part in blocks.split(",")] if isinstance(blocks, str) else list(blocks)
    if not parts:
        raise ValueError(f"blocks takes {FORM}; found none")
    found = [_part(each) for each in parts]
    return Sample(frozenset(n for sample in found for n in sample.numbers), sum(sample.drawn for sample in found))


def _part(given: str | SupportsIndex) -> Sample:
    if given in ("first", "last"):
        return Sample(frozenset([0 if given == "first" else LAST]), 0)
    text = str(given)
    word, _, count = text.partition(":")
    if word == "random" and count.isdecimal():
        return Sample(frozenset(), int(count))
    if not text.isdecimal():
        raise ValueError(f"blocks takes {FORM}; found {given!r}")
    return Sample(frozenset([int(given) if isinstance(given, str) else index(given)]), 0)


def sampled(blocks: str | Sequence[SupportsIndex] | None, grid: int, seed: int = 0) -> Sequence[int]:
    """The blocks of a grid that run, in ascending order. The random ones are the same for the same seed."""
    if blocks is None or grid == 0:
        return range(grid)
    sample = parse_blocks(blocks)
    named = {grid - 1 if number == LAST else number for number in sample.numbers}
    if max(named, default=0) >= grid:
        raise ValueError(f"blocks names block {max(named)}, but the grid has {grid}")
    others = [block for block in range(grid) if block not in named]
    drawn = Random(seed).sample(others, min(sample.drawn, len(others)))  # noqa: S311  (samples are no secret)
    return sorted([*named, *drawn])
