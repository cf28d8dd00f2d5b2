"""Two cores: what the machine finds in random programs is what an exhaustive search through all schedules finds."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import combinations
from random import Random
from typing import Any

import numpy as np
import pytest

import ptokit as pto
from ptokit.lang.launch import mode_of
from ptokit.lang.loaded import TextKernel
from ptokit.machine.clocks import Clock, Clocks
from ptokit.machine.costs import Costs
from ptokit.machine.pipes import Stuck
from ptokit.machine.schedule import PipeJob, Schedule
from ptokit.program.cores import core_of, ends_of, unit_of
from ptokit.program.ir import CrossFlag, transform, walk
from ptokit.program.order import order
from ptokit.program.place import place
from ptokit.target.a5 import A5
from tests.corpus.hazards.case import flag
from tests.corpus.hazards.cores import NZ, into_ub

PIPES = ("AIV.S", "AIV.V", "AIV.MTE3", "AIC.S", "AIC.MTE1", "AIC.FIX")
OTHER = {"AIV": "AIC", "AIC": "AIV"}
PROGRAMS = 6000 if os.environ.get("PTOKIT_FUZZ") else 400
CHUNKS = 10


@dataclass(frozen=True)
class Op:
    """What a pipe is given: work on a cell, or an end of a flag of its core or of the other one, or a barrier."""

    act: str
    pipe: str
    name: Hashable = None
    """The cell, or the flag."""
    writes: bool = False

    @property
    def holds_issue(self) -> bool:
        """Whether its core issues nothing before it is over."""
        return self.act == "barrier" or (unit_of(self.pipe) == "S" and self.act in ("wait", "cross_wait"))


def programs(seed: int) -> list[Op]:
    """A few operations in an order in which every wait of a core comes after its set, mostly."""
    dice = Random(seed)
    ops: list[Op] = []
    for _ in range(dice.randint(3, 7)):
        pipe = dice.choice(PIPES)
        core = core_of(pipe)
        mine = [each for each in PIPES if core_of(each) == core and each != pipe]
        theirs = [each for each in PIPES if core_of(each) != core]
        match dice.choice(
            ("work", "work", "work", "work", "flag", "sync", "sync", "chain", "chain", "set", "wait", "barrier")
        ):
            case "work":
                ops.append(Op("work", pipe, dice.choice("aab"), dice.random() < 0.7))
            case "flag":
                dst = dice.choice(mine)
                ops += [Op("set", pipe, (pipe, dst, 0)), Op("wait", dst, (pipe, dst, 0))]
            case "sync":
                ops += [Op("cross_set", pipe, (core, 0)), Op("cross_wait", dice.choice(theirs), (core, 0))]
            case "chain":
                dst, event = dice.choice(theirs), dice.choice((0, 1, 2))
                ops += [Op("work", pipe, "a", True), Op("cross_set", pipe, (core, event))]
                ops += [Op("cross_wait", dst, (core, event)), Op("work", dst, "a", True)]
            case "set":
                ops.append(Op("cross_set", pipe, (core, dice.choice((0, 1)))))
            case "wait":
                ops.append(Op("cross_wait", pipe, (OTHER[core], dice.choice((0, 0, 1)))))
            case _:
                ops.append(Op("barrier", f"{core}.S"))
    return ops


# --- Every schedule ------------------------------------------------------------------------------------------


@dataclass
class Truth:
    """What some schedule does."""

    before: set[tuple[int, int]] = field(default_factory=set)
    """Pairs of operations that some schedule does in this order."""
    stuck: bool = False
    ends: int = 0

    def race(self, one: int, other: int) -> bool:
        return (one, other) in self.before and (other, one) in self.before


def truth(ops: list[Op]) -> Truth:
    """Go through all states: how far each pipe has come, which flags are set, how often the others are."""
    queues = {pipe: [k for k, op in enumerate(ops) if op.pipe == pipe] for pipe in PIPES}
    place = {k: (pipe, at) for pipe, queue in queues.items() for at, k in enumerate(queue)}
    found = Truth()

    def done(k: int, state: tuple[int, ...]) -> bool:
        pipe, at = place[k]
        return state[PIPES.index(pipe)] > at

    def ready(k: int, state: tuple[int, ...], flags: dict[Hashable, int]) -> bool:
        op, core = ops[k], core_of(ops[k].pipe)
        earlier = [n for n in range(k) if core_of(ops[n].pipe) == core]
        if any(ops[n].holds_issue and not done(n, state) for n in earlier):
            return False
        if op.act in ("wait", "cross_wait"):
            return flags.get(op.name, 0) > 0
        return op.act != "barrier" or all(done(n, state) for n in earlier)

    start = (0,) * len(PIPES), ()
    seen, todo = {start}, [start]
    while todo:
        state, pairs = todo.pop()
        flags = dict(pairs)
        heads = [queue[at] for queue, at in zip(queues.values(), state, strict=True) if at < len(queue)]
        now = [k for k in heads if ready(k, state, flags)]
        found.stuck |= bool(heads) and not now
        found.ends += not heads
        for k in now:
            op, after = ops[k], dict(flags)
            if op.act in ("set", "cross_set"):
                after[op.name] = after.get(op.name, 0) + 1 if op.act == "cross_set" else 1
            elif op.act in ("wait", "cross_wait"):
                after[op.name] -= 1
            found.before.update((k, other) for other in range(len(ops)) if other != k and not done(other, state))
            index = PIPES.index(op.pipe)
            new = (*state[:index], state[index] + 1, *state[index + 1 :]), tuple(sorted(after.items(), key=str))
            if new not in seen:
                seen.add(new)
                todo.append(new)
    return found


@cache
def truth_of(seed: int) -> Truth:
    """That of a random program."""
    return truth(programs(seed))


# --- The machine ---------------------------------------------------------------------------------------------


@dataclass
class Machine:
    """The clocks of a run: which works they do not order, and what they report."""

    ops: list[Op]
    stuck: list[Stuck] = field(default_factory=list)
    unpaired: list[object] = field(default_factory=list)
    early: list[object] = field(default_factory=list)
    clocks_of: dict[int, tuple[Clock, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.clocks = clocks = Clocks(PIPES, lambda *told: self.early.append(told), self.stuck.append)
        clocks.on_unpaired = lambda *told: self.unpaired.append(told)
        for k, op in enumerate(self.ops):
            if op.act == "work":
                clocks.work(op.pipe, self.noted(k))
            elif op.act == "barrier":
                clocks._issue_barrier(clocks._pipes[op.pipe])
            else:
                getattr(clocks, op.act)(op.pipe, op.name, k)
        self.left = [flag for flag, _ in clocks.end()]

    def noted(self, k: int) -> Any:
        def note(clock: Clock, time: int) -> None:
            self.clocks_of[k] = list(clock), time

        return note

    def before(self, one: int, other: int) -> bool:
        number = self.clocks.number[self.ops[one].pipe]
        return self.clocks_of[other][0][number] >= self.clocks_of[one][1]

    def race(self, one: int, other: int) -> bool:
        return not self.before(one, other) and not self.before(other, one)


def conflicts(ops: list[Op]) -> Iterator[tuple[int, int]]:
    """Pairs of works that need an order."""
    for (a, one), (b, other) in combinations(enumerate(ops), 2):
        same = one.act == other.act == "work" and one.name == other.name and one.pipe != other.pipe
        if same and (one.writes or other.writes):
            yield a, b


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_the_clocks_of_two_cores_know_what_every_schedule_shows(chunk: int) -> None:
    races = stuck = clean = 0
    for seed in range(chunk, PROGRAMS, CHUNKS):
        ops = programs(seed)
        real, told = truth_of(seed), Machine(ops)
        if told.unpaired or told.early:  # then schedules differ in which set ends which wait
            continue
        assert bool(told.stuck) == real.stuck, (seed, ops, told.stuck)
        stuck += real.stuck
        if real.stuck:
            continue
        for one, other in conflicts(ops):
            shown = real.race(one, other) or (other, one) in real.before
            assert told.race(one, other) == shown, (seed, one, other, ops)
            races += shown
            clean += not shown
    assert min(races, stuck, clean) >= 5


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_sets_that_nothing_pairs_with_their_waits_are_reported(chunk: int) -> None:
    """If the order of two sets of a flag, or of two waits, differs between schedules, it is reported; else not."""
    found = 0
    for seed in range(chunk, PROGRAMS, CHUNKS):
        ops = programs(seed)
        real = truth_of(seed)
        if real.stuck:
            continue
        ends = [(a, b) for (a, one), (b, other) in combinations(enumerate(ops), 2)
                if one.act == other.act and one.act.startswith("cross") and one.name == other.name]  # fmt: skip
        expected = any(real.race(*pair) for pair in ends)
        assert bool(Machine(ops).unpaired) == expected, (seed, ops)
        found += expected
    assert found > 3


def test_the_schedule_of_two_cores_ends_for_every_program() -> None:
    for seed in range(0, PROGRAMS, CHUNKS):
        schedule = Schedule(Costs(A5), 100)
        for k, op in enumerate(programs(seed)):
            if op.act == "work":
                schedule.work(op.pipe, PipeJob(100, k, "work"))
            elif op.act == "barrier":
                schedule.barrier()
            else:
                getattr(schedule, op.act)(op.pipe, op.name, k)
        schedule.end()
        assert schedule.cycles >= 0


# --- Stalled cores -------------------------------------------------------------------------------------------


def test_a_core_that_waits_issues_nothing_and_the_other_goes_on() -> None:
    told = Machine([
        Op("cross_wait", "AIV.S", ("AIC", 0)),
        Op("work", "AIV.V", "a", True),
        Op("work", "AIC.FIX", "a", True),
        Op("cross_set", "AIC.FIX", ("AIC", 0)),
    ])  # fmt: skip
    assert not told.stuck and not told.left
    (clock, time) = told.clocks_of[1]
    assert list(told.clocks_of) == [2, 1] and time and clock


def test_waits_in_a_circle_are_one_report_that_names_both() -> None:
    told = Machine([
        Op("cross_wait", "AIV.MTE3", ("AIC", 0)),
        Op("cross_set", "AIV.MTE3", ("AIV", 1)),
        Op("cross_wait", "AIC.FIX", ("AIV", 1)),
        Op("cross_set", "AIC.FIX", ("AIC", 0)),
    ])  # fmt: skip
    (circle,) = told.stuck
    assert {circle.what, *(other.what for other in circle.others)} == {0, 2}
    assert not told.left


def test_of_waits_that_wait_for_others_the_cause_is_reported() -> None:
    told = Machine([
        Op("cross_wait", "AIV.V", ("AIC", 0)),
        Op("cross_wait", "AIC.FIX", ("AIV", 1)),
        Op("cross_set", "AIC.FIX", ("AIC", 0)),
    ])  # fmt: skip
    (cause,) = told.stuck
    assert cause.what == 1 and not cause.others


# --- Two streams of statements -------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["cpu", "a5"])
@pytest.mark.parametrize("engine", ["reference", "native", "machine"])
def test_the_vector_part_may_stand_first_in_the_text(engine: str, target: str) -> None:
    if engine == "native":
        pytest.importorskip("llvmlite")
    x, w = np.arange(256, dtype="float16").reshape(16, 16) % 7, np.eye(16, dtype="float16")
    out = np.zeros((16, 16), "float32")
    into_ub[1](x, w, out, first="vector", target=target, engine=engine)
    assert (out == x + 1).all()


@pto.kernel(mode="manual")
def sections(x, work, out, n: pto.const = 3):
    """A loop of the cube core's loads before the loop of the vector core that stores what they load."""
    a = pto.Tile("vec", "float32", 16, 16, addr=0)
    b = pto.Tile("mat", "float32", 16, 16, addr=0, **NZ)
    for i in pto.range(n):
        pto.sync_wait("AIC.MTE2", 0)
        pto.tload(b, work[i * 16 : i * 16 + 16])
    for i in pto.range(n):
        pto.set_flag("MTE3", "MTE2", 0)
        pto.wait_flag("MTE3", "MTE2", 0)
        pto.tload(a, x[i * 16 : i * 16 + 16])
        pto.set_flag("MTE2", "MTE3", 0)
        pto.wait_flag("MTE2", "MTE3", 0)
        pto.tstore(work[i * 16 : i * 16 + 16], a)
        pto.sync_set("MTE3", 0)


@pytest.mark.parametrize("target", ["a2a3", "a5"])
@pytest.mark.parametrize("seed", [None, 0, 1])
def test_whole_loops_are_put_in_order(target: str, seed: int | None) -> None:
    x, work, out = (np.arange(768, dtype="float32").reshape(48, 16) * k for k in (1, 0, 0))
    report = sections[1](x, work, out, target=target, engine="machine", options=pto.MachineOptions(seed=seed))
    assert report.ok, report
    assert (work == x).all()


@pto.kernel(mode="manual")
def ring_sections(x, out, n, slots: pto.const = 2, first: pto.const = "cube", rounds: pto.const = 1):
    """A section of each core with its own loop: one hands over slots of UB, the other hands them back."""
    m = pto.Tile("mat", "float32", 16, 16, addr=0, **NZ)

    def cube() -> None:
        for r in pto.range(rounds):
            for i in pto.range(n):
                a = pto.Tile("vec", "float32", 16, 16, addr=((r * n + i) % slots) * 0x1000)
                pto.sync_wait("AIC.MTE1", 1)
                pto.set_flag("MTE1", "MTE2", 0)
                pto.wait_flag("MTE1", "MTE2", 0)
                pto.tload(m, x[(r * n + i) * 16 : (r * n + i) * 16 + 16])
                pto.set_flag("MTE2", "MTE1", 0)
                pto.wait_flag("MTE2", "MTE1", 0)
                pto.tmov(a, m)
                pto.sync_set("AIC.MTE1", 0)

    def vector() -> None:
        for r in pto.range(rounds):
            for k in pto.range(n):
                b = pto.Tile("vec", "float32", 16, 16, addr=((r * n + k) % slots) * 0x1000)
                pto.sync_wait("V", 0)
                pto.tadds(b, b, 1.0)
                pto.set_flag("V", "MTE3", (r * n + k) % slots)
                pto.wait_flag("V", "MTE3", (r * n + k) % slots)
                pto.tstore(out[(r * n + k) * 16 : (r * n + k) * 16 + 16], b)
                pto.sync_set("MTE3", 1)

    for _ in range(slots):
        pto.sync_set("MTE3", 1)
    for section in (cube, vector) if first == "cube" else (vector, cube):
        section()
    for _ in range(slots):
        pto.sync_wait("AIC.MTE1", 1)


@pytest.mark.parametrize("first", ["cube", "vector"])
@pytest.mark.parametrize("rounds", [1, 2])
@pytest.mark.parametrize("engine", ["reference", "machine"])
def test_loops_that_wait_for_each_other_run_as_one(first: str, rounds: int, engine: str) -> None:
    x = np.arange(5 * 256 * rounds, dtype="float32").reshape(-1, 16)
    out = np.zeros_like(x)
    run = ring_sections[1](x, out, 5, first=first, rounds=rounds, target="a5", engine=engine)
    assert not [finding for finding in run.findings if finding.level != "note"], run
    assert (out == x + 1).all()


@pto.kernel(mode="manual")
def uneven(x, out, n, m, cube_trips: pto.const = 0, vector_trips: pto.const = 0, first: pto.const = "cube"):
    """Two slots of UB. Each core has a loop of its own: `n` and `m` iterations unless the numbers are constant, and no
    loop for a negative number. The vector core takes several slots in an iteration, all of the cube core's together."""
    source = pto.Tile("mat", "float32", 16, 16, addr=0, **NZ)

    def fill(i: Any) -> None:
        a = pto.Tile("vec", "float32", 16, 16, addr=(i % 2) * 0x1000)
        pto.sync_wait("AIC.MTE1", 1)
        flag("MTE1", "MTE2")
        pto.tload(source, x[i * 16 : i * 16 + 16])
        flag("MTE2", "MTE1")
        pto.tmov(a, source)
        pto.sync_set("AIC.MTE1", 0)

    def empty(i: Any) -> None:
        b = pto.Tile("vec", "float32", 16, 16, addr=(i % 2) * 0x1000)
        pto.sync_wait("MTE3", 0)
        pto.tstore(out[i * 16 : i * 16 + 16], b)
        pto.sync_set("MTE3", 1)

    def cube() -> None:
        if cube_trips < 0:
            for c in range(x.shape[0] // 16):
                fill(c)
        else:
            for d in pto.range(cube_trips or n):
                fill(d)

    def vector() -> None:
        if vector_trips < 0:
            for v in range(x.shape[0] // 16):
                empty(v)
        else:
            each = x.shape[0] // 16 // (vector_trips or 2)
            for k in pto.range(vector_trips or m):
                for part in range(each):
                    empty(k * each + part)

    for _ in range(2):
        pto.sync_set("MTE3", 1)
    for section in (cube, vector) if first == "cube" else (vector, cube):
        section()
    for _ in range(2):
        pto.sync_wait("AIC.MTE1", 1)


def uneven_arrays(trips: int) -> dict[str, Any]:
    x = np.arange(trips * 256, dtype="float32").reshape(-1, 16)
    return {"x": x, "out": np.zeros_like(x), "n": trips, "m": 2}


@pytest.mark.parametrize("first", ["cube", "vector"])
@pytest.mark.parametrize("trips", [(6, 3), (6, 2), (6, 1), (-1, 3), (6, -1)])
@pytest.mark.parametrize("engine", ["reference", "native", "machine"])
def test_loops_over_different_numbers_are_taken_iteration_by_iteration(
    engine: str, trips: tuple[int, int], first: str
) -> None:
    if engine == "native":
        pytest.importorskip("llvmlite")
    given = uneven_arrays(6)
    chosen = {"cube_trips": trips[0], "vector_trips": trips[1], "first": first}
    run = uneven[1](**given, **chosen, target="a5", engine=engine)
    assert not [finding for finding in run.findings if finding.level != "note"], run
    assert (given["out"] == given["x"]).all()


@pytest.mark.parametrize("seed", range(4))
def test_such_loops_give_the_same_bits_under_other_schedules(seed: int) -> None:
    given = uneven_arrays(6)
    options = pto.MachineOptions(seed=seed)
    uneven[1](**given, cube_trips=6, vector_trips=2, target="a5", engine="machine", options=options)
    assert (given["out"] == given["x"]).all()


@pytest.mark.parametrize("missing", ["MTE3", "AIC.MTE1"])
def test_a_hand_over_that_such_loops_lack_is_found(missing: str) -> None:
    """At its line, once."""
    given = uneven_arrays(6)
    program = uneven.trace(uneven.bind((), given | {"cube_trips": 6, "vector_trips": 2}), mode_of("a5")).program
    gone = {("MTE3", "wait"), ("MTE1", "set")} if missing == "AIC.MTE1" else {("MTE3", "set"), ("MTE1", "wait")}
    body = transform(program.body, lambda s: () if isinstance(s, CrossFlag) and (s.pipe, s.action) in gone else s)
    arrays = {name: given[name] for name in ("x", "out", "n", "m")}
    report = TextKernel(replace(program, body=body))[1](**arrays, target="a5", engine="machine")
    assert {finding.rule for finding in report.hazards} == {"KN-16"}, report


@pytest.mark.parametrize("first", ["cube", "vector"])
@pytest.mark.parametrize("engine", ["reference", "native", "machine"])
@pytest.mark.parametrize("trips", [(0, 0), (0, 3), (6, 0), (0, -1), (600, 300)])
def test_loops_over_numbers_of_the_launch_meet_iteration_by_iteration(
    trips: tuple[int, int], engine: str, first: str
) -> None:
    if engine == "native":
        pytest.importorskip("llvmlite")
    given = uneven_arrays(max(6, trips[0]))
    chosen = {"cube_trips": trips[0], "vector_trips": trips[1], "first": first}
    run = uneven[1](**given, **chosen, target="a5", engine=engine)
    assert not [finding for finding in run.findings if finding.level != "note"], run
    assert (given["out"] == given["x"]).all()


# --- Auto mode -----------------------------------------------------------------------------------------------


@pto.kernel
def auto_products(x, work, w, out, trips: pto.const = 3, buffers: pto.const = 1, through: pto.const = "memory"):
    """Each iteration adds on the vector core and multiplies on the cube core; through memory, or back to UB (A5)."""
    for i in pto.range(trips, buffers=buffers):
        one, other = (pto.Tile("mat", "float16", 16, 16, **NZ) for _ in range(2))
        left, right = pto.Tile("left", "float16", 16, 16), pto.Tile("right", "float16", 16, 16)
        product = pto.Tile("acc", "float32", 16, 16)
        if through == "memory":
            a = pto.Tile("vec", "float16", 16, 16)
            pto.tload(a, x[i * 16 : i * 16 + 16])
            pto.tadds(a, a, 1.0)
            pto.tstore(work, a)
            pto.tload(one, work)
        else:
            pto.tload(one, x[i * 16 : i * 16 + 16])
        pto.tload(other, w)
        pto.tmov(left, one)
        pto.tmov(right, other)
        pto.tmatmul(product, left, right)
        if through == "memory":
            pto.tstore(out[i * 16 : i * 16 + 16], product)
        else:
            b = pto.Tile("vec", "float32", 16, 16)
            pto.tmov(b, product)
            pto.tadds(b, b, 1.0)
            pto.tstore(out[i * 16 : i * 16 + 16], b)


@pytest.mark.parametrize(("target", "through"), [("a2a3", "memory"), ("a5", "memory"), ("a5", "UB")])
@pytest.mark.parametrize("buffers", [1, 2])
def test_auto_mode_hands_over_between_the_cores(target: str, through: str, buffers: int) -> None:
    w, work = np.eye(16, dtype="float16"), np.zeros((16, 16), "float16")
    for trips in (1, 2, 5):
        x = (np.arange(256 * trips) % 7).astype("float16").reshape(-1, 16)
        for seed in (None, 0, 1, 2):
            out, options = np.zeros(x.shape, "float32"), pto.MachineOptions(seed=seed)
            chosen = {"trips": trips, "buffers": buffers, "through": through}
            run = auto_products[1](x, work, w, out, **chosen, target=target, engine="machine", options=options)
            assert run.ok, run
            assert (out == x + 1).all(), (trips, seed)


def test_every_hand_over_of_auto_mode_is_needed() -> None:
    """Without any one pair of its flags between the cores, the machine reports a missing hand-over or a flag."""
    given = {
        "x": np.zeros((48, 16), "float16"), "work": np.zeros((16, 16), "float16"), "w": np.eye(16, dtype="float16"),
        "out": np.zeros((48, 16), "float32"), "through": "UB",
    }  # fmt: skip
    traced = auto_products.trace(auto_products.bind((), given), mode_of("a5")).program
    program = order(place(traced, A5, None).program, A5)
    keys = {(ends_of(stmt)[0], stmt.event) for stmt in walk(program.body) if isinstance(stmt, CrossFlag)}
    assert len(keys) >= 2
    for key in keys:
        kept = transform(
            program.body,
            lambda s, key=key: () if isinstance(s, CrossFlag) and (ends_of(s)[0], s.event) == key else s,  # type: ignore[misc]
        )
        manual = TextKernel(replace(program, body=kept, mode="manual"))
        arrays = {name: value for name, value in given.items() if name != "through"}
        assert not manual[1](**arrays, target="a5", engine="machine").ok, key
