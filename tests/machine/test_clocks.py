"""The clocks of the pipes: the order of accesses, in unit tests and against every schedule of random programs."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

import pytest

from ptokit.machine.clocks import Clock, Clocks, merge
from ptokit.machine.pipes import Stuck
from ptokit.program.cores import core_of
from ptokit.target import profile
from tests.loops import FULL
from tests.machine.manual_programs import sample, touched
from tests.machine.schedules import Entry, Search, entries_of

AIV = ("AIV.S", "AIV.V", "AIV.MTE2", "AIV.MTE3")
AIC = ("AIC.S", "AIC.M", "AIC.MTE1", "AIC.MTE2", "AIC.FIX")


@dataclass
class Bench:
    """Clocks, and a record of their reports."""

    pipes: tuple[str, ...] = AIV
    early: list[tuple[Hashable, object, object, bool]] = field(default_factory=list)
    stuck: list[Stuck] = field(default_factory=list)
    done: dict[str, tuple[str, int, list[int]]] = field(default_factory=dict)
    """Of every work by its name, in the order in which they were done: its pipe, its time, and what came before."""

    def __post_init__(self) -> None:
        self.clocks = Clocks(self.pipes, lambda *told: self.early.append(told), self.stuck.append)

    def work(self, name: str, pipe: str, core: str = "AIV") -> None:
        where = f"{core}.{pipe}"

        def do(clock: Clock, time: int) -> None:
            self.done[name] = where, time, list(clock)

        self.clocks.work(where, do)

    def set(self, src: str, dst: str, event: int = 0, what: object = "set") -> None:
        self.clocks.set(f"AIV.{src}", (src, dst, event), what)

    def wait(self, src: str, dst: str, event: int = 0, what: object = "wait") -> None:
        self.clocks.wait(f"AIV.{dst}", (src, dst, event), what)

    def hand_over(self, src: str, dst: str, event: int = 0) -> None:
        self.set(src, dst, event)
        self.wait(src, dst, event)

    def before(self, one: str, other: str) -> bool:
        """Whether one work certainly comes before another."""
        pipe, time, _ = self.done[one]
        return self.done[other][2][self.clocks.number[pipe]] >= time

    def unordered(self, one: str, other: str) -> bool:
        return not self.before(one, other) and not self.before(other, one)

    def end(self) -> list[Hashable]:
        """End the block; the flags that are still set."""
        return [flag for flag, _ in self.clocks.end()]

    @property
    def is_quiet(self) -> bool:
        return not self.early and not self.stuck


def test_names_have_their_core() -> None:
    assert core_of("AIV.MTE2") == "AIV" and core_of("AIC.S") == "AIC"


def test_merge_takes_the_greater_of_each() -> None:
    clock = [3, 0, 5]
    merge(clock, [1, 2, 5])
    assert clock == [3, 2, 5]


# --- Order ---------------------------------------------------------------------------------------------------


def test_one_pipe_works_in_order() -> None:
    bench = Bench()
    bench.work("a", "V")
    bench.work("b", "V")
    assert bench.before("a", "b") and not bench.before("b", "a")


def test_two_pipes_are_in_no_order() -> None:
    bench = Bench()
    bench.work("a", "MTE2")
    bench.work("b", "V")
    assert bench.unordered("a", "b")


def test_a_flag_orders_what_is_before_its_set_and_after_its_wait() -> None:
    bench = Bench()
    bench.work("before set", "MTE2")
    bench.set("MTE2", "V")
    bench.work("after set", "MTE2")
    bench.work("before wait", "V")
    bench.wait("MTE2", "V")
    bench.work("after wait", "V")
    assert bench.before("before set", "after wait")
    assert bench.unordered("after set", "after wait")
    assert bench.unordered("before set", "before wait")
    assert bench.end() == [] and bench.is_quiet


def test_order_passes_over_pipes() -> None:
    bench = Bench()
    bench.work("load", "MTE2")
    bench.hand_over("MTE2", "V")
    bench.hand_over("V", "MTE3")
    bench.work("store", "MTE3")
    assert bench.before("load", "store")


def test_a_chain_that_starts_too_early_passes_nothing_on() -> None:
    bench = Bench()
    bench.hand_over("V", "MTE3")
    bench.work("load", "MTE2")
    bench.hand_over("MTE2", "V")
    bench.work("store", "MTE3")
    assert bench.unordered("load", "store")


def test_events_of_one_pair_are_apart() -> None:
    bench = Bench()
    bench.work("a", "MTE2")
    bench.set("MTE2", "V", 0)
    bench.work("b", "MTE2")
    bench.set("MTE2", "V", 1)
    bench.wait("MTE2", "V", 0)
    bench.work("after 0", "V")
    bench.wait("MTE2", "V", 1)
    bench.work("after 1", "V")
    assert bench.before("a", "after 0") and bench.unordered("b", "after 0") and bench.before("b", "after 1")


def test_both_directions_of_a_pair_are_apart() -> None:
    bench = Bench()
    bench.set("MTE2", "V")
    bench.wait("V", "MTE2")
    bench.end()
    assert [stuck.pipe for stuck in bench.stuck] == ["AIV.MTE2"]


# --- Waits before their sets in the text -----------------------------------------------------------------------


def test_a_wait_holds_its_pipe_until_the_flag_comes() -> None:
    bench = Bench()
    bench.wait("MTE2", "V")
    bench.work("held", "V")
    assert not bench.done
    bench.work("load", "MTE2")
    assert list(bench.done) == ["load"]
    bench.set("MTE2", "V")
    assert list(bench.done) == ["load", "held"]
    assert bench.end() == [] and bench.is_quiet


def test_others_go_on_meanwhile() -> None:
    bench = Bench()
    bench.wait("MTE2", "V")
    bench.work("held", "V")
    bench.work("store", "MTE3")
    assert list(bench.done) == ["store"]


def test_held_sets_come_late_too() -> None:
    bench = Bench()
    bench.wait("V", "MTE3")
    bench.work("third", "MTE3")
    bench.wait("MTE2", "V")
    bench.work("second", "V")
    bench.set("V", "MTE3")
    bench.work("first", "MTE2")
    assert list(bench.done) == ["first"]
    bench.set("MTE2", "V")
    assert list(bench.done) == ["first", "second", "third"] and not bench.before("third", "first")
    assert bench.end() == [] and bench.is_quiet


def test_order_passes_over_a_pipe_that_was_held() -> None:
    bench = Bench()
    bench.work("store", "MTE3")
    bench.set("MTE3", "V", 1)
    bench.wait("MTE2", "V")
    bench.wait("MTE3", "V", 1)
    bench.work("held", "V")
    bench.set("V", "MTE2", 2)
    bench.set("MTE2", "V")
    bench.wait("V", "MTE2", 2)
    bench.work("load", "MTE2")
    assert bench.before("store", "held") and bench.before("store", "load") and bench.before("held", "load")
    assert bench.end() == [] and bench.is_quiet


# --- The scalar pipe -------------------------------------------------------------------------------------------


def test_a_wait_on_the_scalar_pipe_comes_before_all_that_is_issued_later() -> None:
    bench = Bench()
    bench.work("load", "MTE2")
    bench.work("early", "V")
    bench.hand_over("MTE2", "S")
    bench.work("late", "V")
    bench.work("later", "MTE3")
    assert bench.before("load", "late") and bench.before("load", "later")
    assert bench.unordered("load", "early")


def test_plain_work_on_the_scalar_pipe_orders_nothing() -> None:
    bench = Bench()
    bench.work("scalar", "S")
    bench.work("vector", "V")
    assert bench.unordered("scalar", "vector")


def test_a_set_on_the_scalar_pipe_orders_like_any_other() -> None:
    bench = Bench()
    bench.work("scalar", "S")
    bench.hand_over("S", "V")
    bench.work("vector", "V")
    bench.work("store", "MTE3")
    assert bench.before("scalar", "vector") and bench.unordered("scalar", "store")


def test_a_wait_on_the_scalar_pipe_comes_after_its_own_work() -> None:
    bench = Bench()
    bench.work("scalar", "S")
    bench.work("load", "MTE2")
    bench.hand_over("MTE2", "S")
    bench.work("store", "MTE3")
    assert bench.before("scalar", "store")


def test_a_held_pipe_gets_to_know_what_came_before_the_issue() -> None:
    bench = Bench()
    bench.wait("MTE2", "V")
    bench.work("store", "MTE3")
    bench.hand_over("MTE3", "S")
    bench.work("held", "V")
    bench.set("MTE2", "V")
    assert bench.before("store", "held")


def test_work_that_was_issued_before_a_scalar_wait_is_not_ordered_by_it_even_if_done_later() -> None:
    bench = Bench()
    bench.wait("MTE2", "V")
    bench.work("held", "V")
    bench.work("store", "MTE3")
    bench.hand_over("MTE3", "S")
    bench.work("load", "MTE2")
    bench.set("MTE2", "V")
    assert list(bench.done) == ["store", "load", "held"] and bench.before("store", "load")
    other = Bench()
    other.wait("MTE2", "V")
    other.work("held", "V")
    other.work("load", "MTE2")
    other.set("MTE2", "V")
    other.work("store", "MTE3")
    other.hand_over("MTE3", "S")
    assert other.unordered("store", "held")


# --- Handshakes, barriers, events --------------------------------------------------------------------------------


def test_a_sync_is_a_private_flag() -> None:
    bench = Bench()
    bench.work("load", "MTE2")
    bench.set("MTE2", "V")
    bench.clocks.sync("AIV.MTE2", "AIV.V")
    bench.work("add", "V")
    bench.wait("MTE2", "V")
    assert bench.before("load", "add") and bench.end() == [] and bench.is_quiet


def test_a_sync_to_the_scalar_pipe_holds_up_the_issue() -> None:
    bench = Bench()
    bench.work("add", "V")
    bench.clocks.sync("AIV.V", "AIV.S")
    bench.work("load", "MTE2")
    assert bench.before("add", "load")


@pytest.mark.parametrize("first", ["S", "V", "MTE2", "MTE3"])
@pytest.mark.parametrize("then", ["S", "V", "MTE2", "MTE3"])
def test_a_barrier_orders_everything(first: str, then: str) -> None:
    bench = Bench()
    bench.work("a", first)
    bench.clocks.barrier()
    bench.work("b", then)
    assert bench.before("a", "b") and bench.is_quiet


def test_a_barrier_leaves_flags_alone() -> None:
    bench = Bench()
    bench.set("MTE2", "V")
    bench.clocks.barrier()
    bench.wait("MTE2", "V")
    assert bench.end() == [] and bench.is_quiet


def test_a_barrier_behind_a_pipe_that_is_held_is_stuck() -> None:
    """The set for which the pipe waits is issued after the barrier, which waits for the pipe."""
    bench = Bench()
    bench.wait("MTE2", "V", what="the wait")
    bench.clocks.barrier()
    bench.set("MTE2", "V")
    bench.end()
    assert "the wait" in [stuck.what for stuck in bench.stuck]


def test_a_handshake_behind_a_pipe_that_is_held_is_stuck() -> None:
    bench = Bench()
    bench.wait("MTE2", "V", what="the wait")
    bench.clocks.sync("AIV.V", "AIV.S")
    bench.set("MTE2", "V")
    bench.end()
    assert "the wait" in [stuck.what for stuck in bench.stuck]


def test_an_event_orders_the_end_of_one_instruction_and_the_start_of_another() -> None:
    bench = Bench()
    bench.work("scalar part", "S")
    bench.work("load part", "MTE2")
    bench.clocks.signal_event("event", ("AIV.S", "AIV.MTE2"))
    bench.work("after", "MTE2")
    bench.clocks.wait_event("event", ("AIV.V", "AIV.MTE3"))
    bench.work("add", "V")
    bench.work("store", "MTE3")
    for part in ("scalar part", "load part"):
        assert bench.before(part, "add") and bench.before(part, "store")
    assert bench.unordered("after", "add")


def test_an_event_can_be_waited_for_again_and_is_not_left_set() -> None:
    bench = Bench()
    bench.work("load", "MTE2")
    bench.clocks.signal_event("event", ("AIV.MTE2",))
    for name, pipe in (("add", "V"), ("store", "MTE3")):
        bench.clocks.wait_event("event", (f"AIV.{pipe}",))
        bench.work(name, pipe)
    assert bench.before("load", "add") and bench.before("load", "store")
    assert bench.end() == [] and bench.is_quiet


def test_an_event_of_a_loop_is_signalled_again() -> None:
    bench = Bench()
    for i in range(3):
        bench.work(f"load {i}", "MTE2")
        bench.clocks.signal_event("event", ("AIV.MTE2",))
        bench.clocks.wait_event("event", ("AIV.V",), "add")
        bench.work(f"add {i}", "V")
        assert bench.before(f"load {i}", f"add {i}")
    assert not bench.stuck


def test_a_late_wait_for_an_event_is_for_the_signal_that_was_issued_before_it() -> None:
    bench = Bench()
    bench.work("load 1", "MTE2")
    bench.clocks.signal_event("event", ("AIV.MTE2",))
    bench.wait("MTE3", "V")
    bench.clocks.wait_event("event", ("AIV.V",), "add")
    bench.work("add", "V")
    bench.work("load 2", "MTE2")
    bench.clocks.signal_event("event", ("AIV.MTE2",))
    bench.set("MTE3", "V")
    assert bench.before("load 1", "add") and bench.unordered("load 2", "add")


def test_an_event_that_is_never_signalled_is_stuck() -> None:
    bench = Bench()
    bench.clocks.wait_event("event", ("AIV.V",), "add")
    bench.work("add", "V")
    assert bench.end() == [] and [stuck.what for stuck in bench.stuck] == ["add"] and "add" in bench.done


# --- What goes wrong with flags --------------------------------------------------------------------------------


def test_a_set_on_a_flag_that_is_set() -> None:
    bench = Bench()
    bench.set("MTE2", "V", what="first")
    bench.set("MTE2", "V", what="second")
    assert bench.early == [(("MTE2", "V", 0), "second", "first", True)]


def test_a_set_whose_earlier_wait_may_not_be_over() -> None:
    bench = Bench()
    bench.hand_over("MTE2", "V")
    bench.set("MTE2", "V", what="again")
    assert [told[1:] for told in bench.early] == [("again", "set", False)]


def test_a_set_whose_earlier_wait_is_queued_counts_after_it() -> None:
    """V is held by another flag, so that the second set finds the first one in place: the waits still pair."""
    bench = Bench()
    bench.wait("MTE3", "V", 7)
    for name in ("first", "second"):
        bench.work(name, "MTE2")
        bench.hand_over("MTE2", "V")
        bench.work(f"after {name}", "V")
    bench.set("MTE3", "V", 7)
    assert [told[3] for told in bench.early] == [False] and bench.end() == [] and not bench.stuck
    assert bench.before("first", "after first") and bench.before("second", "after second")
    assert not bench.before("second", "after first")


def test_an_event_that_the_scalar_pipe_hears_comes_before_all_that_is_issued_later() -> None:
    bench = Bench()
    bench.work("load", "MTE2")
    bench.clocks.signal_event("loaded", ("AIV.MTE2",))
    bench.clocks.wait_event("loaded", ("AIV.S",), "scatter")
    bench.work("scatter", "S")
    bench.work("store", "MTE3")
    assert bench.before("load", "scatter") and bench.before("load", "store") and bench.unordered("scatter", "store")


def test_a_set_after_an_answer_is_fine() -> None:
    bench = Bench()
    for _ in range(5):
        bench.hand_over("MTE2", "V")
        bench.hand_over("V", "MTE2")
    assert bench.end() == [] and bench.is_quiet


def test_an_answer_by_way_of_a_third_pipe() -> None:
    bench = Bench()
    for _ in range(3):
        bench.hand_over("MTE2", "V")
        bench.hand_over("V", "MTE3", 1)
        bench.hand_over("MTE3", "MTE2", 2)
    assert bench.end() == [] and bench.is_quiet


def test_a_flag_to_the_scalar_pipe_needs_no_answer() -> None:
    bench = Bench()
    for _ in range(3):
        bench.hand_over("MTE2", "S")
    assert bench.end() == [] and bench.is_quiet


def test_an_answer_that_stands_before_the_wait_does_not_help() -> None:
    bench = Bench()
    bench.set("MTE2", "V")
    bench.set("V", "MTE2")
    bench.wait("MTE2", "V")
    bench.wait("V", "MTE2")
    bench.set("MTE2", "V", what="again")
    assert [told[1] for told in bench.early] == ["again"]


def test_two_sets_ahead_of_held_waits_are_early() -> None:
    """The waits stand first, but nothing makes the second set come after the first wait."""
    bench = Bench()
    bench.wait("MTE2", "V")
    bench.wait("MTE2", "V")
    bench.set("MTE2", "V", what="first")
    bench.set("MTE2", "V", what="second")
    assert [told[1:] for told in bench.early] == [("second", "first", True)]


def test_a_flag_that_is_left_set() -> None:
    bench = Bench()
    bench.set("MTE2", "V", 3, what="alone")
    assert list(bench.clocks.end()) == [(("MTE2", "V", 3), "alone")]


def test_a_wait_for_a_flag_that_never_comes() -> None:
    bench = Bench()
    bench.wait("MTE2", "V", what="the wait")
    bench.work("behind", "V")
    assert bench.end() == []
    assert bench.stuck == [Stuck("AIV.V", ("MTE2", "V", 0), "the wait")]
    assert "behind" in bench.done


def test_pipes_that_wait_for_each_other() -> None:
    bench = Bench()
    bench.wait("MTE2", "V")
    bench.set("V", "MTE2")
    bench.wait("V", "MTE2")
    bench.set("MTE2", "V")
    bench.end()
    assert 1 <= len(bench.stuck) <= 2, "letting one go on lets the other go on too"


def test_a_pipe_that_waits_for_a_handshake_behind_itself() -> None:
    """V waits for MTE2, which waits for a flag that V sets later: the user's wait is reported too."""
    bench = Bench()
    bench.wait("V", "MTE2", what="the wait")
    bench.clocks.sync("AIV.MTE2", "AIV.V")
    bench.set("V", "MTE2")
    bench.end()
    assert "the wait" in [stuck.what for stuck in bench.stuck]


def test_the_scalar_pipe_is_stuck_at_once() -> None:
    """No other pipe could issue the set."""
    bench = Bench()
    bench.wait("MTE2", "S", what="the wait")
    assert [stuck.pipe for stuck in bench.stuck] == ["AIV.S"]
    bench.work("load", "MTE2")
    assert "load" in bench.done


def test_the_scalar_pipe_is_stuck_behind_a_set_that_is_held() -> None:
    bench = Bench()
    bench.wait("MTE3", "MTE2")
    bench.set("MTE2", "S")
    bench.wait("MTE2", "S", what="the wait")
    assert "the wait" in [stuck.what for stuck in bench.stuck]


# --- Cores and blocks ------------------------------------------------------------------------------------------


def test_cores_issue_apart() -> None:
    bench = Bench((*AIV, *AIC))
    bench.work("load", "MTE2")
    bench.hand_over("MTE2", "S")
    bench.work("add", "V")
    bench.work("cube load", "MTE2", "AIC")
    assert bench.before("load", "add") and bench.unordered("load", "cube load")


def test_a_barrier_orders_each_core_by_itself() -> None:
    bench = Bench((*AIV, *AIC))
    bench.work("add", "V")
    bench.work("multiply", "M", "AIC")
    bench.clocks.barrier()
    bench.work("store", "MTE3")
    bench.work("fix", "FIX", "AIC")
    assert bench.before("add", "store") and bench.before("multiply", "fix")
    assert not bench.before("add", "fix") and not bench.before("multiply", "store")


def test_cores_hand_over_like_pipes() -> None:
    bench = Bench((*AIV, *AIC))
    bench.work("stage", "V")
    bench.clocks.sync("AIV.V", "AIC.MTE2")
    bench.work("copy", "MTE2", "AIC")
    assert bench.before("stage", "copy")


def test_blocks_begin_anew() -> None:
    bench = Bench()
    bench.set("MTE2", "V")
    bench.wait("V", "MTE3")
    bench.work("first block", "MTE2")
    assert bench.end() == [("MTE2", "V", 0)] and len(bench.stuck) == 1
    bench.clocks.begin()
    bench.wait("MTE2", "V", what="of the second block")
    bench.work("second block", "V")
    bench.end()
    assert [stuck.what for stuck in bench.stuck[1:]] == ["of the second block"]
    assert bench.before("first block", "second block"), "an earlier block is in nobody's way"


def test_times_go_on_over_blocks() -> None:
    bench = Bench()
    for block in range(3):
        bench.clocks.begin()
        bench.work(str(block), "V")
        assert list(bench.clocks.end()) == []
    assert [time for _, time, _ in bench.done.values()] == sorted({time for _, time, _ in bench.done.values()})
    assert bench.clocks.started[bench.clocks.number["AIV.V"]] == 2


# --- Against all schedules -------------------------------------------------------------------------------------


class Watched:
    """Entries of a program on clocks: conflicting works that are in no order, and other faults."""

    def __init__(self, entries: list[Entry]) -> None:
        self.entries = entries
        self.races: set[tuple[int, int]] = set()
        self.seen: list[tuple[Entry, int]] = []
        self.early = 0
        self.stuck = 0
        self.clocks = Clocks(AIV, self._early, self._stuck)
        for entry in entries:
            self.give(entry)
        self.left = [flag for flag, _ in self.clocks.end()]

    def _early(self, flag: Hashable, what: object, before: object, is_doubled: bool) -> None:
        self.early += what is not None

    def _stuck(self, stuck: Stuck) -> None:
        self.stuck += 1

    def give(self, entry: Entry) -> None:
        pipe, flag = f"AIV.{entry.pipe}", entry.flag
        match entry.act, flag:
            case "work", _:
                self.clocks.work(pipe, lambda clock, time: self.work(entry, clock, time))
            case "barrier", _:
                self.clocks.barrier()
            case "wait_event", (number, src):
                self.clocks.wait_event((number, f"AIV.{src}"), (pipe,), entry)
            case "set", (number, str()):
                self.clocks.signal_event((number, pipe), (pipe,))
            case "set", _:
                self.clocks.set(pipe, flag, entry if len(flag) == 3 else None)  # type: ignore[arg-type]
            case _:
                self.clocks.wait(pipe, flag, entry)

    def work(self, entry: Entry, clock: Clock, time: int) -> None:
        for earlier, when in self.seen:
            if earlier.conflicts(entry) and clock[self.clocks.number[f"AIV.{earlier.pipe}"]] < when:
                first, second = sorted((earlier.statement, entry.statement))
                self.races.add((first, second))
        self.seen.append((entry, time))


@pytest.mark.parametrize("chunk", range(10))
def test_clocks_find_what_some_schedule_shows(chunk: int) -> None:
    for seed in range(chunk, 1000 if FULL else 300, 10):
        of = sample(seed)
        entries = entries_of(of.program, profile(of.target), touched(of))
        found, all_of_it = Watched(entries), Search(entries).verdict()
        told = seed, found.races, found.stuck, found.early, found.left, all_of_it, str(of)
        assert bool(found.early) == all_of_it.sets_twice or found.stuck, told
        assert bool(found.stuck or found.early) == (all_of_it.is_stuck or all_of_it.sets_twice), told
        if not all_of_it.sets_twice:
            assert found.races >= all_of_it.races, told
        if not (all_of_it.sets_twice or all_of_it.is_stuck):
            assert found.races <= all_of_it.races | all_of_it.backward, told
            assert bool(found.left) == all_of_it.leaves_set, told
