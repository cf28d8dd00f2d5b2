"""The flags that auto mode adds to the gallery: complete in every block, and all of them needed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from ptokit.lang.launch import mode_of
from ptokit.program.ir import Program
from ptokit.target import profile
from tests.examples.test_gallery import GALLERY, GRIDS, Case, Entry, rng
from tests.program.judge import assert_complete, assert_minimal, auto

LAUNCHES = [(entry, target) for entry in GALLERY for target in entry.targets if target != "cpu"]
every_launch = pytest.mark.parametrize(
    ("entry", "target"), [pytest.param(entry, target, id=f"{entry.name}-{target}") for entry, target in LAUNCHES]
)


@dataclass(frozen=True)
class BlockRun:
    """A block of a real launch."""

    block: int
    grid: int
    case: Case

    @property
    def arguments(self) -> dict[str, Any]:
        """The input of the checker."""
        scalars = {"scalars": lambda argument, place: int(self.case[argument][place])}
        return {"block_idx": self.block, "block_num": self.grid, **scalars}


def ordered(entry: Entry, case: Case, target: str) -> Program:
    """The kernel's program with addresses and flags."""
    program = entry.kernel.trace(entry.kernel.bind((), case), mode_of(target)).program
    return auto(program, profile(target))


def launches(case: Case) -> Iterator[BlockRun]:
    """Blocks from all over the grids."""
    for grid in GRIDS:
        for block in {0, grid // 2, grid - 1}:
            yield BlockRun(block, grid, case)


@every_launch
def test_flags_of_the_gallery_are_complete(entry: Entry, target: str) -> None:
    for sizes in (*entry.sizes, entry.small, entry.empty):
        case = entry.make(rng(), **sizes)
        assert_complete(ordered(entry, case, target), profile(target), launches(case))


@every_launch
def test_flags_of_the_gallery_are_minimal(entry: Entry, target: str) -> None:
    case = entry.make(rng(), **entry.sizes[0])
    assert_minimal(ordered(entry, case, target), profile(target), list(launches(case)))
