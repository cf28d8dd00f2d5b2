"""The gallery on the machine: clean as written, reported if any flag is missing, and not for an additional flag."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

import pytest

from ptokit.lang.loaded import TextKernel
from ptokit.machine.report import MachineOptions, MachineReport
from ptokit.program.expr import interval
from ptokit.program.ir import Barrier, Block, Flag, Loop, Program, Stmt, children, transform, walk, with_blocks
from ptokit.program.verify import pipes_used
from ptokit.target import profile
from ptokit.target.profile import EVENT_IDS
from tests.examples.test_gallery import GALLERY, GRIDS_OF_LAUNCHES, Case, Entry, agree, launch_of_each, rng
from tests.examples.test_gallery_flags import LAUNCHES, launches, ordered
from tests.program.happens_before import Path, show_stmt
from tests.program.judge import handovers, places_of, without
from tests.property.strategies import FUZZ

GRIDS = (1, 7)
ORDER = MachineOptions(checks=("order", "blocks"))
"""The checks that a missing or needless flag affects; the others are skipped to save time."""
every_target_with_pipes = pytest.mark.parametrize(
    ("name", "target"), [pytest.param(entry.name, target, id=f"{entry.name}-{target}") for entry, target in LAUNCHES]
)


def entry_of(name: str) -> Entry:
    return next(entry for entry in GALLERY if entry.name == name)


# --- As it is ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("entry", "target", "grid"), GRIDS_OF_LAUNCHES)
def test_auto_mode_is_clean(entry: Entry, target: str, grid: int) -> None:
    every, turn = (*entry.sizes, entry.small, entry.empty), entry.targets.index(target) % 2
    for sizes in every if FUZZ else every[turn::2]:
        case = entry.make(rng(), **sizes)
        arrays = case | {"out": case["out"].copy()}
        report = entry.kernel[grid](**arrays, target=target, engine="machine")
        assert report.ok, f"{sizes}, {grid} blocks\n{report.findings}"
        if sizes is not entry.empty:
            agree(entry, arrays["out"], case)


@launch_of_each(1)
def test_auto_mode_gives_the_same_bits_under_every_schedule(entry: Entry, target: str) -> None:
    case = entry.make(rng(), **entry.sizes[0])
    same = case | {"out": case["out"].copy()}
    entry.kernel[3](**same, target=target, engine="reference")
    for seed in range(6 if FUZZ else 1):
        arrays = case | {"out": case["out"].copy()}
        options = MachineOptions(seed=seed)
        assert entry.kernel[3](**arrays, target=target, engine="machine", options=options).ok
        assert arrays["out"].tobytes() == same["out"].tobytes(), seed


# --- By hand -------------------------------------------------------------------------------------------------------


def by_hand(program: Program) -> Program:
    """The program as if its author had written the addresses and flags of auto mode."""

    def owned(stmt: Stmt) -> Stmt:
        return replace(stmt, auto=False) if isinstance(stmt, Flag | Barrier) else stmt

    return replace(program, body=transform(program.body, owned), mode="manual")


@cache
def manual(name: str, target: str) -> tuple[Program, Case]:
    """A kernel of the gallery with its addresses and flags, and a case in which its loops go round a few times."""
    entry = entry_of(name)
    case = entry.make(rng(), **entry.sizes[0])
    return by_hand(ordered(entry, case, target)), case


def report_of(
    program: Program, case: Case, target: str, grid: int, options: MachineOptions | None = None
) -> MachineReport:
    arrays: dict[str, Any] = case | {"out": case["out"].copy()}
    report = TextKernel(program)[grid](**arrays, target=target, engine="machine", options=options)
    assert isinstance(report, MachineReport)
    return report


def is_reported(program: Program, case: Case, target: str, *, noted: bool = False) -> bool:
    """Whether some launch reports a finding, or notes a dependence within a pipe."""
    reports = (report_of(program, case, target, grid, ORDER) for grid in GRIDS)
    return any(not report.ok or (noted and any(each.rule == "A-73" for each in report.findings)) for report in reports)


@every_target_with_pipes
def test_manual_versions_are_clean(name: str, target: str) -> None:
    program, case = manual(name, target)
    for grid in (*GRIDS, 64) if FUZZ else (7, 64):
        report = report_of(program, case, target, grid)
        assert report.ok, report.findings


def test_manual_versions_have_flags_of_every_kind() -> None:
    """There are flags to remove: plain flags, flags that a loop carries, flags of both cores."""
    flags = [stmt for entry, target in LAUNCHES for stmt in walk(manual(entry.name, target)[0].body)
             if isinstance(stmt, Flag)]  # fmt: skip
    pairs = {(flag.src, flag.dst) for flag in flags}
    assert len(flags) > 150 and {("MTE2", "V"), ("V", "MTE3"), ("MTE3", "V"), ("MTE2", "MTE1"), ("M", "FIX")} <= pairs


def flags_together(program: Program, case: Case, target: str) -> list[frozenset[Path]]:
    """Sets with the waits that take them, and barriers."""
    barriers = [frozenset({path}) for path, stmt in places_of(program.body) if isinstance(stmt, Barrier)]
    return [*handovers(program, profile(target), list(launches(case))), *barriers]


def missed(program: Program, case: Case, target: str, lost: Sequence[frozenset[Path]]) -> list[list[str]]:
    """Statements that can be taken away without anything being reported."""
    statements = dict(places_of(program.body))

    def noted(paths: frozenset[Path]) -> bool:
        return all(isinstance(stmt := statements[path], Barrier) and stmt.pipe != "ALL" for path in paths)

    return [
        [show_stmt(statements[path]) for path in sorted(paths)]
        for paths in lost
        if not is_reported(replace(program, body=without(program.body, paths)), case, target, noted=noted(paths))
    ]


@every_target_with_pipes
def test_a_flag_that_is_missing_is_reported(name: str, target: str) -> None:
    program, case = manual(name, target)
    lost = flags_together(program, case, target)
    assert not missed(program, case, target, lost if FUZZ else lost[::4])


@every_target_with_pipes
def test_half_of_a_flag_that_is_missing_is_reported(name: str, target: str) -> None:
    program, case = manual(name, target)
    ends = [frozenset({path}) for path, stmt in places_of(program.body) if isinstance(stmt, Flag)]
    assert not missed(program, case, target, ends if FUZZ else ends[::9])  # sets and waits by turns


# --- Flags that nobody needs ---------------------------------------------------------------------------------------


def free_events(program: Program, src: str, dst: str) -> list[int]:
    """Events of two pipes that no flag uses; 0 is left to handshakes of instructions."""
    used = [interval(stmt.event, {}) for stmt in walk(program.body)
            if isinstance(stmt, Flag) and (stmt.src, stmt.dst) == (src, dst)]  # fmt: skip
    return [event for event in range(1, EVENT_IDS) if not any(low <= event <= high for low, high in used)]


def needless(program: Program, src: str, dst: str, *, answered: bool) -> tuple[tuple[Flag, ...], ...] | None:
    """A flag in two parts, and where it is set again and again, what makes the next set wait: None without events."""
    there, back = free_events(program, src, dst), free_events(program, dst, src)
    if not there or (answered and not back):
        return None
    parts = (Flag("set", src, dst, there[-1]),), (Flag("wait", src, dst, there[-1]),)
    if not answered:
        return parts
    return parts[0], (*parts[1], Flag("set", dst, src, back[-1]), Flag("wait", dst, src, back[-1]))


def blocks_of(block: Block, in_loop: bool = False) -> Iterator[tuple[Block, bool]]:
    """Every block of statements, and whether it comes again and again."""
    yield block, in_loop
    for stmt in block:
        for body in children(stmt):
            yield from blocks_of(body, in_loop or isinstance(stmt, Loop))


def with_flag(program: Program, where: Block, parts: tuple[tuple[Flag, ...], ...], first: int, second: int) -> Program:
    """The program with the two parts of a flag in one of its blocks."""

    def put(block: Block) -> Block:
        changed = tuple(with_blocks(stmt, map(put, children(stmt))) for stmt in block)
        if block is not where:
            return changed
        return (*changed[:first], *parts[0], *changed[first:second], *parts[1], *changed[second:])

    return replace(program, body=put(program.body))


def variants(program: Program, target: str, count: int) -> Iterator[Program]:
    """The program with a flag too many, in random places."""
    dice, pipes = Random(5), ("S", *(pipe for pipe in pipes_used(program, profile(target)) if pipe != "S"))
    blocks = list(blocks_of(program.body))
    while count:
        where, in_loop = dice.choice(blocks)
        src, dst = dice.sample(pipes, 2)
        parts = needless(program, src, dst, answered=in_loop and dst != "S")
        if parts and where:
            count -= 1
            yield with_flag(program, where, parts, *sorted(dice.randint(0, len(where)) for _ in range(2)))


@every_target_with_pipes
def test_a_flag_too_many_is_never_reported(name: str, target: str) -> None:
    program, case = manual(name, target)
    for changed in variants(program, target, 12 if FUZZ else 2):
        report = report_of(changed, case, target, 1, ORDER)
        assert report.ok, (report.findings, changed.body)
