"""Busy times of pipes: schedules computed by hand, and a naive model of the same rules."""

from __future__ import annotations

import gc
import json
import random
import tracemalloc
from collections import defaultdict

import numpy as np
import pytest

from ptokit.finding import Where
from ptokit.machine.costs import Costs
from ptokit.machine.formulas import Overlap
from ptokit.machine.schedule import PipeJob, Schedule
from ptokit.machine.timeline import Timeline
from ptokit.machine.timer import Timer
from ptokit.target.a2a3 import A2A3
from ptokit.target.a5 import A5
from ptokit.target.cpu import CPU
from tests.machine.costing import executed, tensor, vec

S, V, MTE2, MTE3 = "AIV.S", "AIV.V", "AIV.MTE2", "AIV.MTE3"


def timer(issue: float = 0, flag: float = 0, keep: int = 1000) -> Timer:
    found = Timer(Costs(A5, {"issue cycles": issue, "flag cycles": flag}), keep)
    found.begin_block(0)
    return found


def sync(given: Timer, src: str, dst: str) -> None:
    """As an instruction's own handshake does."""
    given._record(Schedule.sync, src, dst)


def ended(given: Timer) -> Timeline:
    given.end_block()
    return given.result()


def spans(timeline: Timeline) -> dict[str, list[tuple[float, float]]]:
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for work in timeline.works:
        found[work.pipe].append((work.start, work.end))
    return found


# --- by hand


def test_pipes_work_in_parallel_and_each_in_order() -> None:
    t = timer()
    t.work(MTE2, 100, 0, "tload")
    t.work(V, 30, 1, "tadd")
    t.work(MTE2, 50, 2, "tload")
    found = ended(t)
    assert spans(found) == {MTE2: [(0, 100), (100, 150)], V: [(0, 30)]}
    assert (found.cycles, found.total, found.blocks) == (150, 150, 1)
    assert found.busy == {V: 30 / 150, MTE2: 1}  # what does nothing is not there


def test_a_flag_takes_time_from_setter_to_waiter() -> None:
    t = timer(flag=20)
    t.work(MTE2, 100, 0, "tload")
    t.set(MTE2, "f")
    t.wait(V, "f")
    t.work(V, 50, 1, "tadd")
    sync(t, V, MTE3)
    t.work(MTE3, 70, 2, "tstore")
    found = ended(t)
    assert spans(found) == {MTE2: [(0, 100)], V: [(120, 170)], MTE3: [(190, 260)]}
    assert [(w.src, w.dst, w.what, w.cycles) for w in found.waits] == [(V, MTE3, "tstore", 190), (MTE2, V, "tadd", 120)]
    assert found.waits[1].share == 120 / 260


def test_a_flag_that_was_set_long_ago_costs_nothing() -> None:
    t = timer(flag=20)
    t.work(MTE2, 10, 0, "tload")
    t.set(MTE2, "f")
    t.work(V, 100, 1, "texp")
    t.wait(V, "f")
    t.work(V, 10, 2, "tadd")
    found = ended(t)
    assert (found.cycles, found.waits) == (110, ())


def test_the_scalar_pipe_hands_things_out_one_by_one() -> None:
    t = timer(issue=4)
    for k in range(3):
        t.work(V, 1, k, "tadd")
    found = ended(t)
    assert spans(found)[V] == [(4, 5), (8, 9), (12, 13)]
    assert found.busy[S] == 12 / 13


def test_what_holds_up_the_scalar_pipe_holds_up_all_that_is_issued_later() -> None:
    t = timer()
    t.work(MTE2, 100, 0, "tload")
    sync(t, MTE2, S)
    t.work(MTE3, 5, 1, "tstore")
    t.work(S, 40, 2, "mgather")
    t.work(V, 5, 3, "tadd")
    found = ended(t)
    assert spans(found) == {MTE2: [(0, 100)], MTE3: [(100, 105)], S: [(100, 140)], V: [(140, 145)]}
    assert [(w.src, w.dst, w.what) for w in found.waits] == [(MTE2, S, "tstore")]


def test_a_wait_may_stand_before_its_set_in_the_text() -> None:
    t = timer(issue=1, flag=10)
    t.wait(V, "f")
    t.work(V, 50, 0, "tadd")
    t.work(MTE2, 100, 1, "tload")
    t.set(MTE2, "f")
    assert spans(ended(t)) == {MTE2: [(3, 103)], V: [(113, 163)]}


def test_what_never_comes_is_let_go() -> None:
    t = timer()
    t.wait(V, "never")
    t.work(V, 50, 0, "tadd")
    t.wait(S, "neither")
    t.work(MTE2, 10, 1, "tload")
    assert spans(ended(t)) == {V: [(0, 50)], MTE2: [(0, 10)]}


def test_a_chain_of_waits_before_their_sets() -> None:
    t = timer()
    t.wait(MTE3, "b")
    t.work(MTE3, 5, 0, "tstore")
    t.wait(V, "a")
    t.work(V, 7, 1, "tadd")
    t.set(V, "b")
    t.work(MTE2, 11, 2, "tload")
    t.set(MTE2, "a")
    assert spans(ended(t)) == {MTE2: [(0, 11)], V: [(11, 18)], MTE3: [(18, 23)]}


def test_a_barrier_waits_for_every_pipe_of_its_core() -> None:
    t = timer(flag=10)
    t.work(MTE2, 100, 0, "tload")
    t.work(V, 30, 1, "tadd")
    t.work("AIC.M", 500, 2, "tmatmul")
    t.barrier()
    t.work(MTE3, 5, 3, "tstore")
    t.work("AIC.FIX", 5, 4, "tstore")
    found = ended(t)
    assert spans(found)[MTE3] == [(110, 115)]
    assert spans(found)["AIC.FIX"] == [(510, 515)]
    waits = {(w.src, w.dst, w.what, w.cycles) for w in found.waits}
    assert waits == {(MTE2, S, "tstore", 110), ("AIC.M", "AIC.S", "tstore", 510)}


def test_events_can_be_waited_for_more_than_once() -> None:
    t = timer()
    t.work(MTE2, 100, 0, "tload")
    t.signal_event("e", (MTE2,))
    t.wait_event("e", (V,))
    t.work(V, 5, 1, "tadd")
    t.wait_event("e", (MTE3,))
    t.work(MTE3, 5, 2, "tstore")
    assert spans(ended(t)) == {MTE2: [(0, 100)], V: [(100, 105)], MTE3: [(100, 105)]}


def test_an_event_is_that_of_the_last_signal_issued_even_if_its_pipe_is_held() -> None:
    t = timer()
    t.work(MTE2, 10, 0, "tload")
    t.signal_event("e", (MTE2,))
    t.wait(MTE2, "flag")
    t.work(MTE2, 10, 1, "tload")
    t.signal_event("e", (MTE2,))
    t.wait_event("e", (V,))
    t.work(V, 5, 2, "tadd")
    t.work(MTE3, 100, 3, "tstore")
    t.set(MTE3, "flag")
    assert spans(ended(t)) == {MTE2: [(0, 10), (100, 110)], V: [(110, 115)], MTE3: [(0, 100)]}


def test_work_that_goes_along_with_the_loop_that_issues_it() -> None:
    """Ten rows: the loop takes 10 each; the first transfer begins after the first, the last ends after the last."""
    slow_loop, slow_queue = timer(), timer()
    for t, each in ((slow_loop, 4), (slow_queue, 30)):
        t.work(S, 100, 0, "mgather")
        t._record(Schedule.work, MTE2, PipeJob(10 * each, 0, "mgather", None, Overlap(90, each)))
    assert spans(ended(slow_loop))[MTE2] == [(10, 104)]
    assert spans(ended(slow_queue))[MTE2] == [(10, 310)]


# --- blocks


def test_blocks_start_at_nothing_and_the_longest_counts() -> None:
    t = timer()
    for block, cycles in enumerate((50, 200, 100, 200)):
        t.begin_block(block)
        t.set(V, "left set")
        t.work(V, cycles, 7, "texp", Where("k.py", 3))
        t.end_block()
    found = t.result()
    assert (found.cycles, found.total, found.blocks, found.longest) == (200, 550, 4, 1)
    assert [(work.block, work.start, work.end) for work in found.works] == [
        (1, 0, 200),
        (0, 0, 50),
        (2, 0, 100),
        (3, 0, 200),
    ]
    assert found.busy == {V: 1}


def test_flags_do_not_reach_the_next_block() -> None:
    t = timer()
    t.work(V, 1000, 0, "texp")
    t.set(V, "f")
    t.end_block()
    t.begin_block(1)
    t.wait(MTE3, "f")
    t.work(MTE3, 5, 1, "tstore")
    t.end_block()
    assert t.result().total == 1005


def test_nothing_at_all() -> None:
    found = Timer(Costs(CPU)).result()
    assert (found.cycles, found.blocks, found.works, found.advice, found.busy) == (0, 0, (), (), {})
    assert str(found) == "0 cycles"
    assert json.dumps(found.as_dict())
    empty = timer()
    assert ended(empty).cycles == 0


# --- cores


def launched(cores: int, cycles: list[float]) -> Timeline:
    t = Timer(Costs(A5), 1000, cores)
    for block, each in enumerate(cycles):
        t.begin_block(block)
        t._record(Schedule.work, S, PipeJob(each, 0, "tadd"))
        t.end_block()
    return t.result()


@pytest.mark.parametrize("seed", range(20))
def test_blocks_start_in_order_on_the_core_that_is_free_first(seed: int) -> None:
    rng = random.Random(seed)
    cores, cycles = rng.randint(1, 6), [float(rng.randint(0, 30)) for _ in range(rng.randint(1, 40))]
    free, starts = [0.0] * cores, []
    for each in cycles:
        core = free.index(min(free))
        starts.append(free[core])
        free[core] += each
    found = launched(cores, cycles)
    assert found.cycles == max(free) and found.total == sum(cycles)
    assert found.starts == dict(enumerate(starts)) | {found.longest: starts[found.longest]}
    assert found.longest_cycles == max(cycles)
    trace = found.to_perfetto()["traceEvents"]
    ends = [event["ts"] + event["dur"] for event in trace if event["ph"] == "X"]
    assert max(ends) == pytest.approx(found.cycles / 1850, abs=1e-3)
    exact = [event["args"]["start"] + event["args"]["cycles"] for event in trace if "start" in event.get("args", {})]
    assert max(exact) == found.cycles


def test_equal_blocks_run_in_waves() -> None:
    found = launched(48, [100.0] * 1024)
    assert (found.cycles, found.cores, found.waves, found.longest_cycles) == (2200, 48, 22, 100)
    assert str(found).startswith(
        "2,200 cycles (1.19 us at 1.85 GHz); 1,024 blocks on 48 cores, up to 22 a core; block 0 takes longest: 100\n"
    )
    few = launched(48, [100.0] * 40)
    assert (few.cycles, few.cores, few.waves) == (100, 40, 1)
    assert "; block 0 of 40 takes longest" in str(few)


def test_more_blocks_and_longer_blocks_never_take_less() -> None:
    for seed in range(40):
        rng = random.Random(seed)
        cores, cycles = rng.randint(1, 6), [float(rng.randint(0, 30)) for _ in range(20)]
        times = [launched(cores, cycles[:count]).cycles for count in range(21)]
        assert times == sorted(times)
        longer = [each + rng.choice((0, 0, 3)) for each in cycles]
        assert launched(cores, cycles).cycles <= launched(cores, longer).cycles
        assert launched(cores + 1, cycles).cycles <= launched(cores, cycles).cycles


# --- loads pipeline


def test_loads_wait_for_memory_in_parallel_and_end_in_order() -> None:
    t = timer()
    for k, (cycles, latency) in enumerate(((30, 500), (40, 500), (10, 0))):
        t._record(Schedule.work, MTE2, PipeJob(cycles, k, "tload", latency=latency))
    t.set(MTE2, "f")
    t.wait(V, "f")
    t.work(V, 5, 3, "tadd")
    found = ended(t)
    assert spans(found) == {MTE2: [(0, 530), (530, 570), (570, 570)], V: [(570, 575)]}
    assert found.busy[MTE2] == 570 / 575
    assert [(c.work.number, c.after) for c in found.critical] == [(0, ""), (1, MTE2), (2, MTE2), (3, MTE2)]


@pytest.mark.parametrize("profile", [A2A3, A5], ids=lambda profile: profile.name)
@pytest.mark.parametrize("count", [1, 2, 16, 40])
def test_loads_pay_one_latency_and_the_number_of_outstanding_transfers_limits_them(profile, count: int) -> None:
    n = profile.costs
    loads = [executed(profile, "tload", vec(1, 8), tensor(1, 8)) for _ in range(count)]
    one = n["DMA start cycles"] + n["DMA burst cycles"] + 32 * n["clock GHz"] / n["GM to UB GB/s"]
    for outstanding in (1, 4, 1000):
        each = max(one, n["GM latency cycles"] / outstanding)
        found = run(profile, {"outstanding transfers": outstanding, "issue cycles": 0}, *loads)
        assert found.cycles == pytest.approx(n["GM latency cycles"] + count * each)


# --- bounded memory


def test_memory_is_bounded_and_the_sums_are_not() -> None:
    t = timer(keep=10)
    for k in range(1000):
        t.work(V, 2, k % 3, "tadd")
        sync(t, V, MTE3)
        t.work(MTE3, 1, 3, "tstore")
    t.end_block()
    node, depth = t._longest[1].last, 0
    while node is not None:
        node, depth = node.before, depth + 1
    assert depth <= 2 * 10 + 1
    found = t.result()
    assert (len(found.works), found.dropped) == (10, 1990)
    assert found.cycles == 2001
    assert {c.work for c in found.critical} <= {*found.works} and found.critical[0].work.start == 0
    assert {(each.pipe, each.number): each.cycles for each in found.spent} == {
        (V, 0): 668, (V, 1): 666, (V, 2): 666, (MTE3, 3): 1000
    }  # fmt: skip
    assert found.busy[V] == pytest.approx(2000 / 2001)


@pytest.mark.parametrize("cores", [0, 3])
@pytest.mark.parametrize("differ", [False, True])
def test_many_blocks_take_no_more_memory(differ: bool, cores: int) -> None:
    t, held = Timer(Costs(A5), 10, cores), {}
    tracemalloc.start()
    for block in range(441):
        t.begin_block(block)
        for k in range(20):
            t.work(V, 2 + block * differ, k, "tadd")
            t.set(V, k % 8)
            t.wait(MTE3, k % 8)
        t.end_block()
        if block in (40, 440):
            gc.collect()
            own = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, "*/ptokit/*")])
            held[block] = sum(trace.size for trace in own.traces)  # other threads of the process allocate, too
    tracemalloc.stop()
    assert held[440] < held[40] + 4000  # 10 bytes a block


@pytest.mark.parametrize("length", [5, 700, 3000])
def test_a_block_that_gives_the_same_takes_the_same(length: int) -> None:
    """Short blocks are looked up, long ones are scheduled as they go: all as if each were alone."""
    cycles = [3, 7, 3, 3, 7, 11]
    t, alone = timer(issue=1, flag=2, keep=100_000), []
    for block, each in enumerate(cycles):
        one = timer(issue=1, flag=2, keep=100_000)
        for given in (t, one):
            given.begin_block(block)
            for k in range(length):
                given.work(MTE2, each, k, "tload")
                given.set(MTE2, k % 8)
                given.wait(V, k % 8)
                given.work(V, 2 * each, k, "tadd")
            given.end_block()
        alone.append(one.result())
    found = t.result()
    assert found.total == sum(one.cycles for one in alone) and found.blocks == len(cycles)
    assert (found.cycles, found.longest) == (max(one.cycles for one in alone), 5)
    assert found.critical == alone[5].critical and found.waits == alone[5].waits
    assert sorted(found.works, key=lambda work: work.block) == [work for one in alone for work in one.works]
    assert found.busy[V] == pytest.approx(sum(one.busy[V] * one.cycles for one in alone) / found.total)


def test_a_chart_says_where_it_ends() -> None:
    t = timer(keep=10)
    for k in range(40):
        t.work(V, 5, k, "tadd")
    found = ended(t)
    assert found.drawn == 45 and f"|{'#' * 13}{' ' * 47}| 100%" in found.chart()[-1]
    assert "work after cycle 45 is not kept, nor drawn" in str(found)
    assert "not kept" not in str(piped(3, 5, 5, 1))


# --- what comes of it


def piped(trips: int, load: float, store: float, tiles: int) -> Timeline:
    """Load and store repeatedly, with one tile or with several alternately."""
    t = timer()
    for i in range(trips):
        tile = i % tiles
        if i >= tiles:
            t.wait(MTE2, ("free", tile))
        t.work(MTE2, load, 0, "tload", Where("k.py", 5))
        t.set(MTE2, ("full", tile))
        t.wait(MTE3, ("full", tile))
        t.work(MTE3, store, 1, "tstore", Where("k.py", 6))
        t.set(MTE3, ("free", tile))
    return ended(t)


@pytest.mark.parametrize(("load", "store"), [(100, 100), (100, 60), (60, 100)])
def test_two_tiles_let_loads_and_stores_overlap(load: float, store: float) -> None:
    trips = 8
    assert piped(trips, load, store, 1).cycles == trips * (load + store)
    assert piped(trips, load, store, 2).cycles == max(load, store) * (trips - 1) + load + store
    assert piped(trips, load, store, 2).busy[MTE2] > piped(trips, load, store, 1).busy[MTE2]


def test_the_critical_path_goes_from_work_to_work_without_a_gap() -> None:
    found = piped(4, 100, 60, 1)
    assert [(c.work.pipe, c.after) for c in found.critical] == [
        (MTE2, ""), (MTE3, MTE2), *[(MTE2, MTE3), (MTE3, MTE2)] * 3,
    ]  # fmt: skip
    ends = [c.work.end for c in found.critical]
    assert [c.work.start for c in found.critical] == [0, *ends[:-1]]
    assert [c.idle for c in found.critical] == [0, 100, *[60, 100] * 3]
    assert ends[-1] == found.cycles


def test_limits_name_the_instruction_the_pipe_and_the_share() -> None:
    t = timer()
    for _ in range(10):
        t.work(MTE2, 61, 0, "tload", Where("k.py", 11))
        sync(t, MTE2, V)
        t.work(V, 39, 1, "mgather", Where("k.py", 12))
        sync(t, V, MTE2)
    assert ended(t).limits == (
        "mgather (line 12) waits for MTE2 61% of the time",
        "MTE2 is busy 61% of the time, most of it with tload (line 11)",
        "tload (line 11) waits for V 35% of the time",
    )


def test_limits_say_cores_where_there_are_two_and_nothing_of_trifles() -> None:
    t = timer()
    t.work("AIC.MTE2", 100, 0, "tload")
    sync(t, "AIC.MTE2", "AIC.MTE1")
    t.work("AIC.MTE1", 900, 1, "tmov")
    t.work(V, 5, 2, "tadd")
    assert ended(t).limits == (
        "AIC.MTE1 is busy 90% of the time, most of it with tmov", "tmov waits for AIC.MTE2 10% of the time",
    )  # fmt: skip


def test_the_chart_shows_who_is_busy_when() -> None:
    found = piped(1, 30, 30, 1)
    assert found.chart(6) == ["AIV.MTE2 |###...|  50%", "AIV.MTE3 |...###|  50%"]
    assert str(found).startswith("60 cycles (0.03 us at 1.85 GHz)\nAIV.MTE2 |")


def test_plain_data_and_a_trace() -> None:
    found = piped(3, 100, 60, 2)
    plain = json.loads(json.dumps(found.as_dict()))
    assert plain["cycles"] == found.cycles and plain["works"][0]["where"] == "k.py:5"
    assert plain["critical"][0]["after"] == "" and plain["waits"][0]["share"] <= 1
    trace = json.loads(json.dumps(found.to_perfetto()))
    slices = [event for event in trace["traceEvents"] if event["ph"] == "X" and event["name"] != "launch"]
    assert len(slices) == 6
    longest = max(event["ts"] + event["dur"] for event in slices)
    assert longest == pytest.approx(found.cycles / 1.85 / 1000, abs=1e-3)
    names = {event["args"]["name"] for event in trace["traceEvents"] if event["ph"] == "M"}
    assert names == {"launch", "block 0", MTE2, MTE3}


# --- instructions


def run(profile, overrides: dict[str, float], *instructions) -> Timeline:
    t = Timer(Costs(profile, overrides))
    t.begin_block(0)
    for each in instructions:
        t.execute(each)
    t.end_block()
    return t.result()


def test_overrides_change_the_schedule() -> None:
    load = executed(A2A3, "tload", vec(64, 64), tensor(64, 64), number=0, line=4)
    gather = executed(
        A2A3, "mgather", vec(16, 64), tensor(64, 64), vec(1, 16, "int32"), indices=np.arange(16), number=1
    )
    usual = run(A2A3, {}, load, gather)
    assert run(A2A3, {"GM to UB GB/s": 10}, load, gather).cycles > usual.cycles
    assert run(A2A3, {"flag cycles": 200}, load, gather).cycles > usual.cycles
    assert run(A2A3, {"issue cycles": 40}, load, gather).cycles > usual.cycles
    assert run(A2A3, {"clock GHz": 0.925}, load, gather).cycles < usual.cycles  # fewer cycles for each byte


def test_an_element_gather_holds_up_its_core_and_a_row_gather_mostly_the_load_pipe() -> None:
    given = vec(8, 64), tensor(64, 64)
    rows = executed(A2A3, "mgather", *given, vec(1, 8, "int32"), indices=np.arange(8))
    elements = executed(A2A3, "mgather", *given, vec(8, 64, "int32"), indices=np.arange(512), coalesce="elem")
    by_rows, by_elements = run(A2A3, {}, rows), run(A2A3, {}, elements)
    assert by_rows.busy[MTE2] > 0.5 > by_rows.busy[S]
    assert by_elements.busy[S] > 0.99 and MTE2 not in by_elements.busy
    assert "whole rows instead of elements" in by_elements.advice[0]


def test_steps_of_another_core_keep_their_names() -> None:
    from dataclasses import replace

    load = executed(A5, "tload", vec(16, 64), tensor(16, 64))
    named = replace(load, steps=tuple(replace(step, pipe=step.pipe.replace("AIV", "AIC")) for step in load.steps))
    assert run(A5, {}, named).busy.keys() == {"AIC.S", "AIC.MTE2"}


# --- against a naive model


def naive(items: list[tuple], issue: float, flag: float) -> dict[str, list[tuple[float, float]]]:
    """Repeat until nothing changes: every pipe has a list; times come from the item before, the issue, and the flag."""
    order, now = [], 0.0
    queues: dict[str, list[int]] = defaultdict(list)
    for k, (_, pipe, _) in enumerate(items):
        queues[pipe].append(k)
        now += issue
        order.append(now)
    setter: dict[int, int | None] = {}
    for k, (kind, _, what) in enumerate(items):
        if kind == "wait":
            setter[k] = next((j for j, other in enumerate(items) if other[0] == "set" and other[2] == what), None)
    end: dict[int, float] = {}
    start: dict[int, float] = {}
    for _ in range(len(items) + 1):
        for queue in queues.values():
            free = 0.0
            for k in queue:
                kind, _, what = items[k]
                start[k] = max(free, order[k])
                if kind == "work":
                    end[k] = start[k] + what
                elif kind == "set":
                    end[k] = start[k]
                else:
                    end[k] = max(start[k], end.get(setter[k], 0.0) + flag if setter[k] is not None else 0.0)
                free = end[k] if kind != "set" else free
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for k, (kind, pipe, _) in enumerate(items):
        if kind == "work":
            found[pipe].append((start[k], end[k]))
    return found


@pytest.mark.parametrize("seed", range(60))
def test_schedules_are_those_of_a_naive_model(seed: int) -> None:
    """Flags are each set and waited for once, in any order of the text that leaves no circle."""
    rng = random.Random(seed)
    pipes = (V, MTE2, MTE3)
    places = [("work", rng.choice(pipes), float(rng.randint(1, 50))) for _ in range(rng.randint(1, 20))]
    ranks = {pipe: k for k, pipe in enumerate(rng.sample(pipes, 3))}
    for flag in range(rng.randint(0, 8)):
        src, dst = sorted(rng.sample(pipes, 2), key=ranks.__getitem__)  # one way only, so that no circle can arise
        at = rng.randint(0, len(places))
        places.insert(at, ("set", src, flag))
        places.insert(rng.randint(0, len(places)), ("wait", dst, flag))
    issue, flag_cycles = float(rng.choice((0, 3))), float(rng.choice((0, 10)))
    t = timer(issue, flag_cycles)
    for k, (kind, pipe, what) in enumerate(places):
        if kind == "work":
            t.work(pipe, what, k, "texp")
        else:
            getattr(t, kind)(pipe, what)
    found = spans(ended(t))
    assert {pipe: sorted(each) for pipe, each in found.items()} == naive(places, issue, flag_cycles)


def test_the_critical_path_of_a_long_block_is_that_of_the_whole_block() -> None:
    """Of the works that are kept, those are critical that are so if all are kept."""
    found = []
    for keep in (25, 100_000):
        t = timer(issue=1, flag=2, keep=keep)
        for k in range(300):
            t.work(MTE2, 5 if k < 150 else 1, 0, "tload")
            t.set(MTE2, k % 8)
            t.wait(V, k % 8)
            t.work(V, 3, 1, "tadd")
        t.end_block()
        found.append(t.result())
    short, whole = found
    drawn = {*short.works}
    assert len(drawn) == 25 and drawn < {*whole.works}
    assert [c.work for c in short.critical] == [c.work for c in whole.critical if c.work in drawn]
    assert short.critical and short.spent == whole.spent
