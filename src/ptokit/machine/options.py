"""The options of a run on the machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from operator import index
from random import Random
from typing import NamedTuple, SupportsIndex

from ptokit.brief import brief, listed
from ptokit.machine import ENOUGH

FORM = "block numbers, 'first', 'last', 'all' and 'random:N', such as 'first,last,random:8'"
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
    if text == "all":
        return Sample(frozenset(), sys.maxsize)
    word, _, count = text.partition(":")
    if word == "random" and count.isdecimal():
        return Sample(frozenset(), int(count))
    if not text.isdecimal():
        raise ValueError(f"blocks takes {FORM}; found {brief(given)}")
    return Sample(frozenset([int(given) if isinstance(given, str) else index(given)]), 0)


def is_enough(blocks: object) -> bool:
    """Whether blocks are those that a check needs."""
    return isinstance(blocks, str) and blocks == ENOUGH


def sampled(blocks: str | Sequence[SupportsIndex] | None, grid: int, seed: int = 0) -> Sequence[int]:
    """The blocks of a grid that run, in ascending order. The random ones are the same for the same seed."""
    if blocks is None or is_enough(blocks) or grid == 0:
        return range(grid)
    sample = parse_blocks(blocks)
    named = {grid - 1 if number == LAST else number for number in sample.numbers}
    if max(named, default=0) >= grid:
        raise ValueError(f"blocks names block {max(named)}, but the grid has {grid}")
    others = [block for block in range(grid) if block not in named]
    drawn = Random(seed).sample(others, min(sample.drawn, len(others)))  # noqa: S311  (samples are no secret)
    return sorted([*named, *drawn])


CHECKS = ("order", "memory", "blocks", "repeats", "indices", "traffic", "time")
"""Pipes and flags, written bytes and budgets, blocks against each other, repeated destinations,
index values, transactions, cycles."""
LAUNCHES = ("standard", "function_pointer")


def _is_whole(number: object) -> bool:
    return not isinstance(number, bool) and hasattr(number, "__index__")


@dataclass(frozen=True)
class MachineOptions:
    """Options of the machine. The launch's own options (`dyn_ub=`, `launch=`) override them."""

    checks: tuple[str, ...] = CHECKS
    """The enabled ones of `CHECKS`."""
    seed: int | None = None
    """Run under another legal schedule, random with this seed; None runs in program order."""
    blocks: str | Sequence[int] | None = None
    """The blocks that run, as in `"first,last,random:8"` or `(0, 7)`; None runs all, `ENOUGH` as many as a check
    needs. Outputs of other blocks stay as they were."""
    poison: bool = True
    """Whether reads of uninitialised memory are reported."""
    dyn_ub: int | None = None
    """dynUBufSize of the launch in bytes; None asks for none."""
    launch: str = "standard"
    """How the kernel is started: `standard` or `function_pointer`."""
    costs: Mapping[str, float] | str | os.PathLike[str] = field(default_factory=dict)
    """Cost-table overrides, or a file with them, as `ptokit calibrate` writes it."""
    cores: int | None = None
    """How many blocks run at a time; None for the number of cores in the cost table."""
    consequences: bool = False
    """Whether to report also what a fault that was reported brings along."""
    lanes: bool = False
    """Whether to record the outcome of every lane of gathers and scatters."""
    timeline: int = 10_000
    """The most pieces of work that the timeline keeps."""
    progress: bool = True
    """Whether a launch of more than two seconds shows a progress bar, if standard error is a terminal."""
    quiet: bool = False
    """Whether a launch with errors or hazards emits no warning, for callers that look at the report."""

    def __post_init__(self) -> None:
        if isinstance(self.checks, str) or not isinstance(self.checks, Iterable):
            raise TypeError(f"checks takes names in a tuple, such as ('order', 'memory'), found {brief(self.checks)}")
        unknown = [*islice((check for check in self.checks if check not in CHECKS), len(CHECKS))]
        if unknown:
            raise ValueError(f"checks are {', '.join(CHECKS)}; found {listed(unknown)}")
        if isinstance(self.costs, str | os.PathLike):
            from ptokit.machine.costs import read_costs

            object.__setattr__(self, "costs", read_costs(self.costs))
        if self.launch not in LAUNCHES:
            raise ValueError(f"launch is one of {', '.join(LAUNCHES)}; found {brief(self.launch)}")
        if self.blocks is not None and not is_enough(self.blocks):
            parse_blocks(self.blocks)
        for name, least in (("seed", 0), ("timeline", 1), ("dyn_ub", 0), ("cores", 1)):
            number = getattr(self, name)
            if number is not None and (not _is_whole(number) or number < least):
                raise ValueError(f"{name} takes a whole number from {least} up, found {brief(number)}")

    @property
    def overrides(self) -> Mapping[str, float]:
        """The cost-table overrides; a file is already read."""
        return self.costs if isinstance(self.costs, Mapping) else {}

    def enables(self, check: str) -> bool:
        return check in self.checks
