"""Random manual programs: what the machine finds is what an exhaustive search through all legal schedules finds."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import pytest

import ptokit as pto
from ptokit.finding import Finding
from ptokit.lang.loaded import TextKernel
from ptokit.machine.report import MachineReport
from ptokit.program.instr_calls import access_of, named_operands
from ptokit.program.ir import Instr, LoadScalar, Program, Stmt, TileUse, View, walk
from ptokit.target import profile
from tests.machine.manual_programs import CELL, UB, WIDTH, Sample, repeat, results, sample, touched, with_workspace
from tests.machine.schedules import Access, Entry, Search, Verdict, entries_of, faults_in, verdict
from tests.program.happens_before import check

ALL = 2000
CHUNKS = 20
"""Parts in which the programs are tried, so that workers can share them."""
FIRST = ALL if os.environ.get("PTOKIT_FUZZ") else 80
"""How many of them a plain run tries."""


def seeds(chunk: int) -> Iterator[int]:
    """The programs of one part."""
    return iter(range(chunk, FIRST, CHUNKS))


def judged(of: Sample) -> Verdict:
    """What the schedules of a program can do."""
    return verdict(of.program, profile(of.target), touched(of))


# --- The search itself ---------------------------------------------------------------------------------------

A, B = Access("UB", frozenset({1, 2}), "write"), Access("UB", frozenset({2, 3}), "read")


def explored(*entries: Entry) -> Verdict:
    numbered = [Entry(entry.pipe, entry.act, entry.flag, entry.accesses, k) for k, entry in enumerate(entries)]
    found, all_of_it = Search(numbered).verdict(), Search(numbered, shortcut=False).verdict()
    assert found == all_of_it
    return found


def work(pipe: str, *accesses: Access) -> Entry:
    return Entry(pipe, "work", None, accesses)


def put(src: str, dst: str, event: int = 0) -> Entry:
    return Entry(src, "set", (src, dst, event))


def wait(src: str, dst: str, event: int = 0) -> Entry:
    return Entry(dst, "wait", (src, dst, event))


def test_nothing_orders_two_pipes() -> None:
    assert explored(work("MTE2", A), work("V", B)).races == {(0, 1)}


def test_two_reads_and_two_atomics_need_no_order() -> None:
    add = Access("GM", frozenset({1}), "add")
    assert explored(work("MTE2", B), work("V", B)).is_clean
    assert explored(work("MTE3", add), work("V", add)).is_clean
    assert explored(work("MTE3", add), work("V", Access("GM", frozenset({1}), "max"))).races == {(0, 1)}
    assert explored(work("MTE3", add), work("V", Access("GM", frozenset({1}), "read"))).races == {(0, 1)}


def test_other_cells_and_other_memories_are_apart() -> None:
    assert explored(work("MTE2", A), work("V", Access("UB", frozenset({3}), "write"))).is_clean
    assert explored(work("MTE2", A), work("V", Access("x", frozenset({1}), "write"))).is_clean


def test_a_flag_orders_what_is_before_the_set_and_after_the_wait() -> None:
    assert explored(work("MTE2", A), put("MTE2", "V"), wait("MTE2", "V"), work("V", B)).is_clean
    assert explored(put("MTE2", "V"), work("MTE2", A), wait("MTE2", "V"), work("V", B)).races == {(1, 3)}
    assert explored(work("MTE2", A), put("MTE2", "V"), work("V", B), wait("MTE2", "V")).races == {(0, 2)}


def test_a_wait_may_stand_before_its_set_and_then_turns_the_order_round() -> None:
    found = explored(wait("MTE2", "V"), work("V", B), work("MTE2", A), put("MTE2", "V"))
    assert found.backward == {(1, 2)} and not found.races and not found.is_stuck


def test_order_passes_from_pipe_to_pipe() -> None:
    chain = (put("MTE2", "V"), wait("MTE2", "V"), put("V", "MTE3"), wait("V", "MTE3"))
    assert explored(work("MTE2", A), *chain, work("MTE3", B)).is_clean


def test_a_wait_on_the_scalar_pipe_holds_up_the_issue() -> None:
    assert explored(work("MTE2", A), put("MTE2", "S"), wait("MTE2", "S"), work("V", B)).is_clean


def test_work_on_the_scalar_pipe_does_not() -> None:
    assert explored(work("S", A), work("V", B)).races == {(0, 1)}
    assert explored(work("S", A), put("S", "MTE2"), wait("S", "MTE2"), work("V", B)).races == {(0, 3)}


def test_the_scalar_pipe_never_issues_what_would_let_it_go_on() -> None:
    assert explored(wait("MTE2", "S"), work("MTE2", A), put("MTE2", "S")).is_stuck
    assert not explored(work("MTE2", A), put("MTE2", "S"), wait("MTE2", "S")).is_stuck


def test_a_barrier_waits_for_all_and_holds_up_all() -> None:
    barrier = Entry("S", "barrier")
    assert explored(work("MTE2", A), barrier, work("V", B)).is_clean
    assert explored(wait("MTE2", "V"), barrier, put("MTE2", "V")).is_stuck


def test_pipes_that_wait_for_each_other_are_stuck() -> None:
    assert explored(wait("MTE2", "V"), put("V", "MTE2"), wait("V", "MTE2"), put("MTE2", "V")).is_stuck


def test_a_flag_that_is_set_twice_can_be_lost() -> None:
    twice = (put("MTE2", "V"), put("MTE2", "V"), wait("MTE2", "V"), wait("MTE2", "V"))
    assert explored(*twice).sets_twice and explored(*twice).is_stuck
    answered = (put("MTE2", "V"), wait("MTE2", "V"), put("V", "MTE2"), wait("V", "MTE2"))
    assert explored(*answered, *answered).is_clean
    assert explored(*answered[:2], *answered[:2]).sets_twice


def test_a_flag_without_a_wait_is_left_set() -> None:
    assert explored(work("MTE2", A), put("MTE2", "V")).leaves_set


def test_many_can_wait_for_an_event() -> None:
    waits = [Entry(pipe, "wait_event", ("end", "MTE2")) for pipe in ("V", "MTE3")]
    ended = Entry("MTE2", "set", ("end", "MTE2"))
    assert explored(work("MTE2", A), ended, *waits, work("V", B), work("MTE3", B)).is_clean
    assert explored(work("MTE2", A), ended, waits[0], work("V", B), work("MTE3", B)).races == {(0, 4)}


@pytest.mark.parametrize("seed", range(0, 200, 5))
def test_the_shortcut_of_the_search_changes_nothing(seed: int) -> None:
    of = sample(seed)
    program = _first(of.program, 4)
    entries = entries_of(program, profile(of.target), touched(of))
    assert Search(entries).verdict() == Search(entries, shortcut=False).verdict(), of


def _first(program: Program, count: int) -> Program:
    """The program up to one of its instructions: all interleavings of more would be too many."""
    works = [k for k, stmt in enumerate(program.body) if isinstance(stmt, Instr | LoadScalar)]
    end = works[count] if len(works) > count else len(program.body)
    return Program(program.name, program.arguments, program.body[:end], mode="manual")


# --- Against the checker of happens-before, which judges whole tiles and tables ------------------------------------


def roughly(of: Sample) -> list[dict[str, Access]]:
    """What every statement may access, for any indices: all of a tile, all of a block of an argument."""
    return [dict(_rough(of.program, stmt)) for stmt in of.program.body]


def _rough(program: Program, stmt: Stmt) -> Iterator[tuple[str, Access]]:
    if isinstance(stmt, LoadScalar):
        yield "source", Access(*_cells(program, stmt.source), "read")
    elif isinstance(stmt, Instr):
        access = access_of(stmt)
        for name, operand in named_operands(stmt).items():
            assert isinstance(operand, TileUse | View)
            yield name, Access(*_cells(program, operand), "read" if access[name] == "read" else "write")


def _cells(program: Program, operand: TileUse | View) -> tuple[str, frozenset[int]]:
    if isinstance(operand, TileUse):
        tile = program.tiles[operand.tile]
        start = tile.addresses[0] // CELL  # type: ignore[operator]
        return UB, frozenset(range(start, start + tile.spec.nbytes // CELL))
    (row, col), (rows, cols) = operand.starts, operand.sizes
    return operand.argument, frozenset((row + r) * WIDTH + col + c for r in range(rows) for c in range(cols))  # type: ignore


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_the_search_agrees_with_happens_before(chunk: int) -> None:
    for seed in seeds(chunk):
        of = sample(seed)
        found = verdict(of.program, profile(of.target), roughly(of))
        kinds = {fault.kind for fault in check(of.program, profile(of.target))}
        assert found.is_clean == (not kinds), (seed, found, kinds, of)
        assert found.sets_twice or found.is_stuck == ("deadlock" in kinds), (seed, found, kinds, of)
        if not (found.is_stuck or found.sets_twice):
            assert bool(found.races or found.backward) == ("race" in kinds), (seed, found, kinds, of)
            assert found.leaves_set == ("left set" in kinds), (seed, found, kinds, of)


# --- The machine ---------------------------------------------------------------------------------------------------

RACES = ("KN-13", "MG-SYNC-01", "MG-SYNC-13", "MG-SYNC-15", "MS-CONF-04", "A-45")
"""Rules of accesses that nothing orders."""
FLAGS = ("flag", "event")
"""What findings on flags call their operand."""
ORDER = pto.MachineOptions(checks=("order", "blocks"), poison=False, consequences=True)


@dataclass(frozen=True)
class Found:
    """The machine's findings on a program's order."""

    races: frozenset[int]
    """Lines that come into conflict with others."""
    deadlocks: tuple[Finding, ...]
    """Waits that never end, and flags that are set twice."""
    left: tuple[Finding, ...]
    """Flags that are still set at the end."""

    @property
    def is_clean(self) -> bool:
        return not (self.races or self.deadlocks or self.left)


def found_by_machine(of: Sample, arrays: dict[str, Any]) -> Found:
    """Launch on the machine; other notes, and findings on indices and addresses, do not count here."""
    report = TextKernel(of.program)[1](**arrays, target=of.target, engine="machine", options=ORDER)
    assert isinstance(report, MachineReport)
    faults = faults_in(report)
    flags = [finding for finding in faults if finding.rule == "KN-13" and finding.operand in FLAGS]
    races = [finding for finding in faults if finding.rule in RACES and finding not in flags]
    return Found(
        frozenset(finding.where.line for finding in races if finding.where),
        tuple(finding for finding in flags if "is still set" not in finding.message),
        tuple(finding for finding in flags if "is still set" in finding.message),
    )


def compare(launched: Sample, written_out: Sample, name: str) -> None:
    """The machine finds what some schedule shows, at its lines, and gives the values of the program's order.

    Flags that make an earlier instruction wait for a later one are a fault too: they give other values.
    """
    arrays = {name: array.copy() for name, array in launched.arrays.items()}
    expected, found = judged(written_out), found_by_machine(launched, arrays)
    message = f"{name}: expected {expected}, found {found}\n{launched}"
    wrong = [{line_of(written_out, stmt) for stmt in pair} for pair in expected.races | expected.backward]
    goes_on = not (expected.is_stuck or expected.sets_twice)
    assert found.is_clean == expected.is_clean, message
    assert bool(found.deadlocks) != goes_on, message
    if goes_on:
        assert bool(found.left) == expected.leaves_set, message
        assert found.races <= set().union(*wrong), message
    if not expected.sets_twice:
        assert all(found.races & lines for lines in wrong), message
    values = results(written_out)
    assert all((arrays[name] == values[name]).all() for name in arrays), message


def line_of(of: Sample, stmt: int) -> int:
    where = of.program.body[stmt].where
    assert where is not None
    return where.line


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_the_machine_finds_what_some_schedule_shows(chunk: int) -> None:
    for seed in seeds(chunk):
        of = sample(seed)
        compare(of, of, f"seed {seed}")


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_the_machine_finds_it_for_workspaces_too(chunk: int) -> None:
    for seed in list(seeds(chunk))[::2]:
        of = with_workspace(sample(seed), seed)
        if _few(of):
            compare(of, of, f"seed {seed}, with a workspace")
            compare(*repeat(of, 2), f"seed {seed}, with a workspace, two iterations")


def test_programs_with_workspaces_are_a_good_mixture() -> None:
    """Some are clean, and for some the workspace is the only fault."""
    both = [(sample(seed), with_workspace(sample(seed), seed)) for seed in range(150)]
    clean = [judged(with_one).is_clean for without, with_one in both if judged(without).is_clean]
    assert clean.count(True) >= 10 and clean.count(False) >= 10


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_the_machine_finds_it_in_loops_too(chunk: int) -> None:
    for seed in list(seeds(chunk))[::4]:
        of = sample(seed)
        if _few(of):
            compare(*repeat(of, 2), f"seed {seed}, two iterations")


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_clean_programs_give_the_same_bits_under_other_schedules(chunk: int) -> None:
    for seed in list(seeds(chunk))[::2]:
        of = sample(seed)
        if _few(of):
            same_bits(of, of, f"seed {seed}")
            same_bits(*repeat(of, 3), f"seed {seed}, three iterations")


def test_an_event_is_waited_for_in_every_iteration_of_a_loop() -> None:
    """Its first instruction ends before the second one begins, and nothing else orders the two."""
    of = next(of for of in map(sample, count()) if _few(of) and _needs_event(of))
    same_bits(*repeat(of, 3), str(of), schedules=20)


def _needs_event(of: Sample) -> bool:
    """Whether a program is clean in a loop, and would not be without its event."""
    plain = tuple(replace(stmt, event=None, waits=()) if isinstance(stmt, Instr) else stmt for stmt in of.program.body)
    looped = [repeat(replace(of, program=replace(of.program, body=body)), 3)[1] for body in (of.program.body, plain)]
    return [judged(each).is_clean for each in looped] == [True, False]


def same_bits(launched: Sample, written_out: Sample, name: str, schedules: int = 3) -> None:
    """A clean program gives the values of program order under every schedule. The search knows nothing of caches."""
    if not judged(written_out).is_clean or reads_stale_lines(launched):
        return
    values, kernel = results(written_out), TextKernel(launched.program)
    for lot in range(schedules):
        arrays: dict[str, Any] = {name: array.copy() for name, array in launched.arrays.items()}
        kernel[1](**arrays, target=launched.target, engine="machine", options=replace(ORDER, seed=lot))
        assert all((arrays[each] == values[each]).all() for each in arrays), f"{name}, schedule {lot}\n{launched}"


def reads_stale_lines(of: Sample) -> bool:
    """Whether the machine reports a read that may miss what went by another path (H-47, H-48)."""
    arrays: dict[str, Any] = {name: array.copy() for name, array in of.arrays.items()}
    report = TextKernel(of.program)[1](**arrays, target=of.target, engine="machine", options=ORDER)
    return any(finding.kind in ("H-47", "H-48") for finding in report.findings)


def _few(of: Sample) -> bool:
    """Whether a program has so few instructions that they can be tried several times over."""
    return sum(isinstance(stmt, Instr) for stmt in walk(of.program.body)) <= 5


def test_the_programs_are_a_good_mixture() -> None:
    """Every kind of fault comes up, alone too, on both targets; and so do clean programs with flags."""
    seen: Counter[tuple[str, str]] = Counter()
    for seed in range(300):
        of = sample(seed)
        found = judged(of)
        faults = {
            "race": found.races,
            "backward": found.backward,
            "stuck": found.is_stuck,
            "twice": found.sets_twice,
            "left": found.leaves_set,
        }
        named = [name for name, is_there in faults.items() if is_there]
        seen.update((of.target, name) for name in (*named, *(["clean"] if found.is_clean else [])))
    for target in ("a2a3", "a5"):
        assert all(seen[target, name] >= 2 for name in ("race", "backward", "stuck", "twice", "left")), seen
        assert 50 <= seen[target, "clean"] <= 150, seen
