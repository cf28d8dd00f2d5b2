"""Repairs: clean and minimal for faulty flags, nothing for clean programs, and flags that nothing needs are found."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from random import Random
from typing import Any

import numpy as np
import pytest

import ptokit as pto
from ptokit.lang.loaded import TextKernel
from ptokit.machine.report import NEEDLESS, ORDER, Repair
from ptokit.machine.trial import Replay
from ptokit.program import ir, repair
from ptokit.program.memory import statements
from ptokit.program.repair import AFTER, BEFORE, INSERT, Edit, Edited, in_order
from tests.corpus.hazards import order
from tests.corpus.hazards.case import Case
from tests.corpus.hazards.everything import few
from tests.loops import FULL
from tests.machine.manual_programs import Sample, repeat, sample
from tests.machine.test_ground_truth import judged
from tests.property.strategies import FUZZ

BAD = [case for case in order.CASES if case.bad]
CLEAN = [case for case in order.CASES if not case.bad]
BY_TURNS = slice(None, None, 1 if FULL else 4)
"""Of cases that several tests need, each takes every fourth one."""
REDUNDANT = {"H-26 after a copy a5 twin"}
"""Clean programs with a flag that nothing needs: MTE2 to MTE3 and MTE3 to V make V wait for MTE2."""
ORDER_ONLY = pto.MachineOptions(checks=("order",), poison=False)
Flags = ir.Flag | ir.Barrier


def replay_of(report: Any) -> Replay:
    """The launch behind a report."""
    return report.propose.args[0]


def is_clean(replay: Replay, program: ir.Program) -> bool:
    """Whether the whole machine finds nothing, not even a note, in a program."""
    return not [found for found in replay.report(program).findings if found.rule != "KN-16"]


def changed(replay: Replay, edits: Any) -> ir.Program:
    """The program of a launch with edits."""
    return Edited(replay.program, [tuple(edits)]).program


def flags(program: ir.Program) -> int:
    """How many flags and barriers a program has."""
    return sum(isinstance(stmt, Flags) for stmt in ir.walk(program.body))


@pytest.mark.parametrize("case", few(BAD)[BY_TURNS], ids=lambda case: case.id)
def test_the_repair_is_clean_and_minimal(case: Case) -> None:
    report = case.launch()
    replay = replay_of(report)
    (repair,) = report.repairs
    assert (repair.kind, repair.target) == (ORDER, case.target)
    assert not is_clean(replay, replay.program)
    assert is_clean(replay, changed(replay, repair.edits))
    for count in range(len(repair.edits)):
        for kept in combinations(repair.edits, count):
            assert not is_clean(replay, changed(replay, kept)), kept


@pytest.mark.parametrize("case", few(BAD, turn=1)[not FULL :][BY_TURNS], ids=lambda case: case.id)
def test_the_patch_of_the_source_gives_a_clean_launch(case: Case) -> None:
    """The kernel of the changed file is traced and launched like any other, under other schedules too."""
    given = dict[str, Any]()
    (repair,) = case.launch(given=given).repairs
    assert repair.diff, repair.patch.refusal
    for seed in (None, 0, 1) if FUZZ else (None, 0):
        fresh = {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in given.items()}
        again = repair.patch.kernel[1](
            **fresh, target=case.target, engine="machine", options=pto.MachineOptions(seed=seed)
        )
        assert again.ok, again
    assert not [each for each in again.repairs if each.kind == ORDER]


@pytest.mark.parametrize("case", CLEAN if FULL else few(CLEAN), ids=lambda case: case.id)
def test_nothing_is_proposed_for_clean_programs(case: Case) -> None:
    report = case.launch()
    assert [repair.kind for repair in report.repairs] == [NEEDLESS] * (case.id in REDUNDANT)


# --- flags that nothing needs


def with_redundant(program: ir.Program, dice: Random) -> ir.Program:
    """The program with a flag or a barrier more, at random places of one block."""
    blocks = {path[:-1] for path, _ in statements(program.body)}
    places = dict(statements(program.body))
    block = dice.choice(sorted(blocks))
    numbers = sorted(path[-1] for path in places if path[:-1] == block)
    first, then = sorted(dice.choices(numbers, k=2))
    if dice.random() < 0.4:
        barrier = Edit(INSERT, (*block, first), ir.Barrier("ALL"), BEFORE, anchor=places[*block, first])
        return Edited(program, [(barrier,)]).program
    used = sorted({(stmt.src, stmt.dst) for stmt in ir.walk(program.body) if isinstance(stmt, ir.Flag)})
    src, dst = dice.choice([*used, *((b, a) for a, b in used)] or [("MTE2", "V"), ("V", "MTE3")])
    ends = [ir.Flag(action, src, dst, 7) for action in ("set", "wait")]
    edits = [
        Edit(INSERT, (*block, at), end, BEFORE, rank)
        for rank, (at, end) in enumerate(zip((first, then), ends, strict=True))
    ]
    return Edited(program, [tuple(edits)]).program


@pytest.mark.parametrize("seed", range(2 if FUZZ else 1))
@pytest.mark.parametrize("case", few(CLEAN)[BY_TURNS], ids=lambda case: case.id)
def test_what_was_added_is_found(case: Case, seed: int) -> None:
    """After the proposed removals the program is clean, and has no more flags than before the addition."""
    report, dice = case.launch(), Random(f"{case.id} {seed}")
    replay = replay_of(report)
    program = with_redundant(replay.program, dice)
    while is_fault(replay, program) or helps_on({"a2a3": "a5", "a5": "a2a3"}[case.target], replay, program):
        program = with_redundant(replay.program, dice)
    more = replay.report(program)
    assert more.repairs and {repair.kind for repair in more.repairs} == {NEEDLESS}
    without = changed(replay_of(more), in_order(edit for repair in more.repairs for edit in repair.edits))
    assert is_clean(replay, without)
    assert flags(without) <= flags(replay.program)
    assert sum(repair.cycles for repair in more.repairs) <= 0


def is_fault(replay: Replay, program: ir.Program) -> bool:
    """Whether an addition is itself a fault: a flag that is set again too early."""
    return not replay.faults(Edited(program, ()), [0]).is_clean


def helps_on(target: str, replay: Replay, program: ir.Program) -> bool:
    """Whether an addition removes faults on another target."""
    other = replay.on(pto.target(target).mode.profile)
    before, after = (other.faults(Edited(each, ()), [0]) for each in (replay.program, program))
    return after.count < before.count or after.error is not None


@pto.kernel(mode="manual")
def slow(x, out):
    """A barrier in every iteration, and all flags that are needed."""
    pto.set_flag("MTE3", "MTE2", 0)
    pto.set_flag("MTE3", "MTE2", 1)
    for i in pto.range(8):
        tile = pto.Tile("vec", "float32", 8, 16, addr=i % 2 * 512)
        pto.wait_flag("MTE3", "MTE2", i % 2)
        pto.tload(tile, x[i * 8 : i * 8 + 8])
        pto.set_flag("MTE2", "MTE3", i % 2)
        pto.wait_flag("MTE2", "MTE3", i % 2)
        pto.barrier("ALL")
        pto.tstore(out[i * 8 : i * 8 + 8], tile)
        pto.set_flag("MTE3", "MTE2", i % 2)
    pto.wait_flag("MTE3", "MTE2", 0)
    pto.wait_flag("MTE3", "MTE2", 1)


def arrays() -> dict[str, Any]:
    """64 rows, and room for as many."""
    return {"x": np.arange(1024, dtype="float32").reshape(64, 16), "out": np.zeros((64, 16), "float32")}


def test_a_needless_barrier_has_its_cycles() -> None:
    """The cost is the difference of the model's times with and without it."""
    report = slow[1](**arrays(), target="a5", engine="machine")
    (repair,) = report.repairs
    after = repair.patch.kernel[1](**arrays(), target="a5", engine="machine")
    assert report.ok and [edit.action for edit in repair.edits] == ["remove"]
    assert repair.cycles == pytest.approx(after.timeline.cycles - report.timeline.cycles)
    assert repair.cycles < 0 and after.ok and not after.repairs


@pto.kernel(mode="manual")
def branching(x, out, n):
    """A flag that only the arm that does not run needs."""
    tile = pto.Tile("vec", "float32", 8, 16, addr=0)
    pto.tload(tile, x[0:8])
    pto.set_flag("MTE2", "MTE3", 0)
    pto.wait_flag("MTE2", "MTE3", 0)
    with pto.when(n > 0):
        pto.tstore(out[0:8], tile)


def test_a_flag_for_another_path_is_not_needless() -> None:
    for n in (0, 1):
        report = branching[1](**arrays(), n=n, target="a5", engine="machine")
        assert report.ok and not report.repairs


@pto.kernel(mode="manual")
def portable(table, tokens, out):
    """V to MTE3 is a flag that A2/A3 gathers set themselves."""
    ids = pto.Tile("vec", "int32", 1, 8, addr=0)
    rows = pto.Tile("vec", "float32", 8, 16, addr=64)
    pto.tload(ids, tokens)
    pto.set_flag("MTE2", "V", 0)
    pto.wait_flag("MTE2", "V", 0)
    pto.mgather(rows, table, ids)
    pto.set_flag("V", "MTE3", 0)
    pto.wait_flag("V", "MTE3", 0)
    pto.tstore(out, rows)


def test_a_flag_that_another_target_needs_is_not_needless() -> None:
    given = np.zeros((64, 16), "float32"), np.arange(8, dtype="int32"), np.zeros((8, 16), "float32")
    assert portable[1](*given, target="a2a3", engine="machine").repairs == ()


@pto.kernel(mode="manual")
def one_pipe(x, out):
    """A barrier on one pipe."""
    tile = pto.Tile("vec", "float32", 8, 16, addr=0)
    pto.tload(tile, x[0:8])
    pto.set_flag("MTE2", "V", 0)
    pto.wait_flag("MTE2", "V", 0)
    pto.tadd(tile, tile, tile)
    pto.barrier("V")
    pto.tadd(tile, tile, tile)
    pto.set_flag("V", "MTE3", 0)
    pto.wait_flag("V", "MTE3", 0)
    pto.tstore(out[0:8], tile)


@pto.kernel(mode="manual")
def unwritten(x, out):
    """A barrier for nothing, in a program with a fault of another kind."""
    tile = pto.Tile("vec", "float32", 8, 16, addr=0)
    pto.barrier("ALL")
    pto.tstore(out[0:8], tile)


def test_only_flags_are_repaired() -> None:
    report = unwritten[1](**arrays(), target="a5", engine="machine")
    assert not report.ok and report.repairs == ()


def test_a_barrier_of_one_pipe_is_left_alone() -> None:
    assert one_pipe[1](**arrays(), target="a2a3", engine="machine").repairs == ()


# --- loops


@pto.kernel(mode="manual")
def in_loop(x, out, fault: pto.const = "", buffers: pto.const = 1):
    """Load, double, store, with one buffer or several, and a fault."""
    for b in range(buffers):
        if fault != "no priming":
            pto.set_flag("V", "MTE2", b)
        pto.set_flag("MTE3", "V", b)
    for i in pto.range(8):
        k = i % buffers
        got = pto.Tile("vec", "float32", 8, 16, addr=k * 512)
        made = pto.Tile("vec", "float32", 8, 16, addr=4096 + k * 512)
        if fault != "no carried wait":
            pto.wait_flag("V", "MTE2", k)
        pto.tload(got, x[i * 8 : i * 8 + 8])
        if fault != "no forward flag":
            pto.set_flag("MTE2", "V", k)
            pto.wait_flag("MTE2", "V", k)
        pto.wait_flag("MTE3", "V", k)
        pto.tmuls(made, got, 2)
        if fault != "no carried set":
            pto.set_flag("V", "MTE2", k)
        pto.set_flag("V", "MTE3", k)
        if fault != "no wait":
            pto.wait_flag("V", "MTE3", k)
        pto.tstore(out[i * 8 : i * 8 + 8], made)
        pto.set_flag("MTE3", "V", k)
    for b in range(buffers):
        if fault != "no draining":
            pto.wait_flag("V", "MTE2", b)
        pto.wait_flag("MTE3", "V", b)


FAULTS = {
    "no priming": 1, "no draining": 1, "no forward flag": 2, "no wait": 1, "no carried wait": 1, "no carried set": 1,
}  # fmt: skip
"""Faults, and how many statements for each buffer their repair takes at most; in the loop it is one for all."""


IN_LOOPS = [
    (fault, buffers, target)
    for nth, fault in enumerate(FAULTS) for buffers in (1, 2, 3) for number, target in enumerate(("a2a3", "a5"))
    if FULL or (buffers, number) == (1 + nth % 3, nth // 3)
]  # fmt: skip
"""Each fault, on the targets and with as many buffers by turns."""


@pytest.mark.parametrize(("fault", "buffers", "target"), IN_LOOPS)
def test_loops_are_repaired_as_they_were_meant(fault: str, buffers: int, target: str) -> None:
    """No more statements than were left out, no deadlock, and no time lost against the kernel without the fault."""
    report = in_loop[1](**arrays(), fault=fault, buffers=buffers, target=target, engine="machine")
    meant = in_loop[1](**arrays(), buffers=buffers, target=target, engine="machine")
    assert meant.ok and not meant.repairs and not report.ok
    (repair,) = report.repairs
    replay = replay_of(report)
    after = replay.report(changed(replay, repair.edits))
    assert after.ok
    assert len(repair.edits) <= FAULTS[fault] * buffers
    assert after.timeline.cycles <= meant.timeline.cycles * 1.02
    for edit in repair.edits:
        assert not is_clean(replay, changed(replay, [other for other in repair.edits if other is not edit]))


# --- random programs


def launched(of: Sample) -> Any:
    """The report of a random program."""
    copies = {name: array.copy() for name, array in of.arrays.items()}
    return TextKernel(of.program)[1](**copies, target=of.target, engine="machine", options=ORDER_ONLY)


@pytest.mark.parametrize("seed", range(40 if FUZZ else 10))
def test_random_programs_are_repaired(seed: int) -> None:
    """An exhaustive search of all schedules finds no race, no deadlock and no flag left in the repaired program."""
    of = sample(seed)
    report = launched(of)
    replay, found = replay_of(report), report.repairs
    is_faulty = not replay.faults(Edited(of.program, ()), [0]).is_clean
    assert [proposed.kind for proposed in found] == ([ORDER] if is_faulty else [NEEDLESS] * len(found))
    for proposed in found:
        verdict = judged(replace(of, program=changed(replay, proposed.edits)))
        if verdict.sets_twice:  # a flag that is lost may stop what waits for it
            assert judged(of).sets_twice
            continue
        faults = verdict.races, verdict.backward, verdict.is_stuck, verdict.sets_twice, verdict.leaves_set
        assert not any(faults), f"{of}\n{proposed}"


@pytest.mark.parametrize("seed", range(0, 60, 6))
def test_random_loops_are_repaired(seed: int) -> None:
    of, _ = repeat(sample(seed), 3)
    report = launched(of)
    replay = replay_of(report)
    if not replay.faults(Edited(of.program, ()), [0]).is_clean:
        (repair,) = report.repairs
        assert replay.faults(Edited(replay.program, [repair.edits]), [0]).is_clean


# --- many blocks


@pto.kernel(mode="manual")
def by_block(x, out):
    """Only the last blocks reuse their tile without waiting."""
    tile = pto.Tile("vec", "float32", 8, 16, addr=0)
    block = pto.block_idx()
    for i in pto.range(pto.max(1, block - 20)):
        pto.tload(tile, x[0:8])
        pto.set_flag("MTE2", "MTE3", 0)
        pto.wait_flag("MTE2", "MTE3", 0)
        pto.tstore(out[block * 24 + i * 8 : block * 24 + i * 8 + 8], tile)


def test_the_repair_holds_in_all_blocks() -> None:
    given = {"x": np.zeros((8, 16), "float32"), "out": np.zeros((24 * 24, 16), "float32")}
    report = by_block[24](**given, target="a5", engine="machine")
    (repair,) = report.repairs
    assert not report.ok and repair.patch.kernel[24](**given, target="a5", engine="machine").ok


def test_the_arrays_of_the_launch_keep_their_content() -> None:
    given = arrays()
    report = in_loop[1](**given, fault="no wait", target="a5", engine="machine")
    content = {name: array.copy() for name, array in given.items()}
    assert report.repairs
    assert all(np.array_equal(given[name], content[name]) for name in given)


@pytest.mark.parametrize(("name", "kernel"), [("missing_order", in_loop), ("conflicts_with", slow)])
def test_a_defect_of_the_search_is_not_hidden(name: str, kernel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of ptokit's own is no reason to propose another repair, or none."""

    def fails(*_: Any, **__: Any) -> Any:
        raise AttributeError("defect")

    fault = {"fault": "no forward flag"} if kernel is in_loop else {}
    report = kernel[1](**arrays(), **fault, target="a5", engine="machine")
    monkeypatch.setattr(repair, name, fails)
    with pytest.raises(AttributeError, match="defect"):
        assert report.repairs is None


def test_auto_mode_and_targets_without_pipes_have_no_repairs() -> None:
    @pto.kernel
    def automatic(x, out):
        tile = pto.Tile("vec", "float32", 8, 16)
        pto.tload(tile, x[0:8])
        pto.tstore(out[0:8], tile)

    assert automatic[1](**arrays(), target="a5", engine="machine").repairs == ()
    assert in_loop[1](**arrays(), fault="no wait", target="cpu", engine="machine").repairs == ()


def test_a_repair_as_text() -> None:
    report = in_loop[1](**arrays(), fault="no draining", target="a5", engine="machine")
    (repair,) = report.repairs
    assert isinstance(repair, Repair)
    head, line = str(repair).splitlines()
    assert head.startswith("order on a5: 1 edit, ")
    assert line.endswith('pto.wait_flag("V", "MTE2", 0)') and line.startswith("  after the loop of line ")


def test_edits_are_sides_of_a_statement() -> None:
    """Insertions before and after one statement keep their order."""
    program = replay_of(slow[1](**arrays(), target="a5", engine="machine")).program
    edits = [
        Edit(INSERT, (2,), ir.Flag("set", "V", "MTE3", event), side, rank)
        for event, (side, rank) in enumerate([(BEFORE, 4), (BEFORE, 3), (AFTER, 2), (AFTER, 1)])
    ]
    events = [stmt.event for stmt in Edited(program, [tuple(edits)]).program.body if isinstance(stmt, ir.Flag)]
    assert events == [0, 1, 1, 0, 3, 2, 0, 1]
