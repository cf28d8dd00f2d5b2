"""Ways to share a scatter: each stays inside the memory that it asks for, and its parts cover all of the table."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from threading import Thread
from time import sleep
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import ptokit as pto
from ptokit.engine import whole as reference
from ptokit.engine.faults import IndexFault
from ptokit.engine.llvm.resolve import PADDING
from ptokit.engine.native import host, openmp
from ptokit.engine.native.whole import moves as native
from ptokit.engine.native.whole import strategies
from ptokit.engine.native.whole.block import SCRATCH, WORDS, ArgumentBlock
from ptokit.engine.native.workers import Stop
from ptokit.isa.dtype import dtype
from ptokit.isa.move import Combine, Remap, Side
from tests.engine.native.forced import scatter_of
from tests.engine.native.sparse import zeros
from tests.engine.native.test_whole_native import HOSTILE, PROCESSOR, SHARED, WAYS, Array, Case, named, storage, values
from tests.loops import all_pairs

GUARD = 1 << 16


class Guarded:
    """Memory with marked bytes before and behind it, in place of the pool's and NumPy's."""

    def __init__(self) -> None:
        self.given: list[tuple[Array, int]] = []

    def acquire(self, nbytes: int) -> Array:
        room = np.full(nbytes + 2 * GUARD, 0xA5, np.uint8)
        self.given.append((room, nbytes))
        return room[GUARD : GUARD + nbytes]

    def release(self, memory: Array) -> None:
        pass

    def empty(self, shape: Any, kind: Any) -> Array:
        return self.acquire(int(np.prod(shape)) * np.dtype(kind).itemsize).view(kind).reshape(shape)

    def zeros(self, shape: Any, kind: Any) -> Array:
        found = self.empty(shape, kind)
        found[...] = 0
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def check(self) -> None:
        for room, nbytes in self.given:
            assert (room[:GUARD] == 0xA5).all() and (room[GUARD + nbytes :] == 0xA5).all()


CAPACITIES = [1, 7, 64, 5003, (1 << 14) + 1, (1 << 15) + 1, (1 << 17) + 1]
ON_WIDTHS = [("winners", 1), ("winners", 5), ("buckets", 1), ("merged", 1)]


@pytest.mark.parametrize(
    ("on_width", "kind", "capacity"), all_pairs(ON_WIDTHS, ["int8", "int32", "float64"], CAPACITIES, one_in=3), ids=str
)
def test_a_way_stays_inside_its_memory(
    on_width: tuple[str, int], kind: str, capacity: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the indices are, and with no more memory than is said."""
    way, width = on_width
    monkeypatch.setattr(host, "HOST", replace(host.HOST, wake=SHARED))
    monkeypatch.setattr(strategies, "MOST_MARKED", 0)
    monkeypatch.setattr(strategies, "PAGE", 64)
    made, done = dtype(kind), 0
    for remap in (Remap.REFUSE, Remap.SKIP, Remap.CLAMP, Remap.WRAP):
        indices = named(3001, capacity)
        indices[[5, 99]] = 0, capacity - 1
        if remap is not Remap.REFUSE:
            indices[7 : 7 + 11 * len(HOSTILE["int64"]) : 11] = HOSTILE["int64"]
            indices[1000:3000:500] = capacity, capacity + 1, capacity + 200, -200
        combine = Combine.STORE if way == "winners" or remap in (Remap.REFUSE, Remap.CLAMP) else Combine.MAX
        table, other = values(made, (capacity, width)), values(made, (3001, width), 1)
        case = Case(made, table, other, indices, remap, combine=combine)
        if not case.is_open(way):
            continue
        wanted = case.run(reference).tobytes()
        for threads in (1, 2, 5):
            guarded, done = Guarded(), done + 1
            monkeypatch.setattr(strategies, "pool", guarded)
            monkeypatch.setattr(strategies, "np", guarded)
            found = case.run(native, threads, strategy=way)
            monkeypatch.setattr(strategies, "np", np)
            assert found.tobytes() == wanted
            guarded.check()
            most = {
                "winners": 4 * capacity,
                "buckets": 16 * 3001 + threads * 258 * (192 + 5 * 8 + 16) + 4096,
                "merged": threads * (capacity + 64) * max(4, made.size) + 128,
            }
            copied = 4 * (3001 + 64)  # lanes
            assert 0 < sum(nbytes for _, nbytes in guarded.given) <= most[way] + copied + 32 * threads
    assert done


@pytest.mark.parametrize("combine", [Combine.STORE, Combine.ADD])
@pytest.mark.parametrize("capacity", [63, 64, 6001])
def test_the_marks_of_distinct_rows_stay_inside_their_memory(
    capacity: int, combine: Combine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "HOST", PROCESSOR)
    made, indices = dtype("float32"), np.random.default_rng(0).permutation(capacity)
    case = Case(made, values(made, (capacity, 100)), values(made, (capacity, 100), 1), indices, combine=combine)
    wanted, guarded = case.run(reference).tobytes(), Guarded()
    taken, lanes = list[int](), strategies.STRATEGIES["lanes"]
    monkeypatch.setitem(strategies.STRATEGIES, "lanes", lambda *given: (taken.append(1), lanes(*given)))
    monkeypatch.setattr(strategies, "np", guarded)
    found = case.run(native, 2)
    monkeypatch.setattr(strategies, "np", np)
    assert found.tobytes() == wanted and taken
    guarded.check()


@pytest.mark.parametrize("most", [1, 100, 5000, 1 << 20])
@pytest.mark.parametrize("width", [1, 5])
def test_sums_stay_inside_their_memory(width: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "HOST", replace(host.HOST, wake=SHARED))
    monkeypatch.setattr(strategies, "MOST_EXTRA", most)
    half, wide = dtype("float16"), dtype("float32")
    table, src = np.ones((70, width), "float16"), np.ones((3000, width), "float16")
    case = Case(half, table.view("u2"), src.view("u2"), named(3000, 70), combine=Combine.ADD, accumulate=wide)
    wanted = case.run(reference).tobytes()
    for threads in (1, 2, 5):
        strategies.pool._free.clear()
        guarded = Guarded()
        monkeypatch.setattr(strategies, "np", guarded)
        found = case.run(native, threads)
        monkeypatch.setattr(strategies, "np", np)
        assert found.tobytes() == wanted
        guarded.check()
        sums = sum(nbytes for _, nbytes in guarded.given) - 4 * (3000 + PADDING)  # which hold the indices
        assert 0 < sums <= max(most, threads * (4 * width + 12))


@pytest.mark.parametrize("threads", [1, 3])
def test_sums_of_a_table_with_more_rows_than_32_bit_indices_name(threads: int) -> None:
    table = zeros((1 << 32) + 1000, np.float16)  # of which few pages are touched
    indices = np.array([5, 7, 5, 100, (1 << 32) - 1], np.uint32)
    options: dict[str, Any] = {"coalesce": "elem", "atomic": "add", "accumulate": "float32", "oob": "skip"}
    pto.scatter(table, np.ones(5, np.float16), indices, engine="native", threads=threads, **options)
    assert [table[each] for each in (5, 7, 100, (1 << 32) - 1)] == [2, 1, 1, 1]
    assert not table[[4, 6, 1 << 32, (1 << 32) + 5, (1 << 32) + 7]].any()


def case_of(remap: Remap, indices: Array, combine: Combine = Combine.STORE, capacity: int = 3000) -> Case:
    kind = dtype("int32")
    return Case(kind, values(kind, (capacity, 1)), values(kind, (len(indices), 1), 1), indices, remap, combine=combine)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("remap", [Remap.REFUSE, Remap.SKIP, Remap.CLAMP, Remap.WRAP])
def test_indices_that_change_during_a_call_harm_nothing(
    way: str, remap: Remap, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two phases, and at any time: nothing is written around the table, or beyond the memory of a strategy.

    All indices are checked before the first chunk is written. Those that change later are skipped, not refused.
    """
    monkeypatch.setattr(strategies, "PAGE", 64)
    monkeypatch.setattr(native, "CHUNK", 1000)
    monkeypatch.setattr(native, "MOST_COPIED", 1000)
    good = np.random.default_rng(1).permutation(3000)
    bad = np.resize(np.array([*HOSTILE["int64"], 3000, 3070, -1, -70]), 3000)
    case = case_of(remap, good.copy())
    indices, do = case.arrays["indices"], strategies.Team.do
    assert case.is_open(way) or way == "lanes"

    def changed(team: strategies.Team, *given: Any, **more: Any) -> None:
        do(team, *given, **more)
        indices[:] = bad

    def run() -> Guarded:
        guarded = Guarded()
        monkeypatch.setattr(strategies, "pool", guarded)
        monkeypatch.setattr(native, "pool", guarded)
        indices[:] = good
        case.run(native, 2, strategy=way)
        guarded.check()
        return guarded

    def change_often() -> None:
        while not is_done:
            indices[:] = bad
            indices[:] = good
            sleep(0)  # lets the other thread go on

    with monkeypatch.context() as patch:
        patch.setattr(strategies.Team, "do", changed)
        assert run().given
    is_done, thread = list[int](), Thread(target=change_often)
    thread.start()
    for _ in range(4):
        with suppress(IndexFault):  # nothing was written
            run()
    is_done.append(1)
    thread.join()


@pytest.mark.parametrize("combine", [Combine.STORE, Combine.ADD])
@pytest.mark.parametrize(("phase", "is_late"), [(0, False), (0, True), (1, False), (1, True)])
def test_an_interrupted_call_has_written_nothing_or_whole_cells(
    combine: Combine, phase: int, is_late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C in the first or the second phase, before any of its work or after all of it."""
    case = case_of(Remap.REFUSE, named(6000, 3000), combine)
    case.whole = replace(case.whole)
    before, wanted = case.arrays["table"].tobytes(), case.run(reference).tobytes()
    seen, do, kept = list[int](), strategies.Team.do, case.arrays["table"].copy()
    memories = {name: storage(array, case.types[name]) for name, array in case.arrays.items()}
    memories["table"] = storage(kept, case.kind)

    def interrupted(team: strategies.Team, *given: Any, **more: Any) -> None:
        is_now = len(seen) == phase
        seen.append(1)
        if is_now and not is_late:
            team.stop.set()
        do(team, *given, **more)
        if is_now:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(strategies.Team, "do", interrupted)
        with pytest.raises(KeyboardInterrupt):
            native.run(case.whole, memories, 2, "merged")
    assert kept.tobytes() == (wanted if phase and is_late else before)
    kept[...] = case.arrays["table"]
    native.run(case.whole, memories, 2, "merged")
    assert kept.tobytes() == wanted


@pytest.mark.parametrize("seed", range(12))
def test_a_sample_shows_the_spread_of_lanes(seed: int) -> None:
    """Against the definitions."""
    rng = np.random.default_rng(seed)
    parts, capacity = int(rng.integers(1, 6)), int(rng.choice([40, 100_000]))
    lanes = rng.integers(0, capacity, int(rng.integers(1, 120)))
    if seed % 3 == 0:
        lanes = np.repeat(lanes, 3)
    if seed % 4 == 0:
        lanes = np.sort(lanes) // 9
    if seed % 2:
        lanes[rng.random(lanes.size) < 0.1] = rng.choice([-1, -500, capacity, capacity + 5])
    found = strategies.sampled(lanes, capacity, parts)
    step = max(2, lanes.size // max(128, 32 * parts))
    sample = sorted(int(lane) for lane in lanes[::step] if 0 <= lane < capacity)
    beside = [abs(int(lanes[k + 1] - lanes[k])) for k in range(0, lanes.size - 1, step)]
    bounds = [0, *(sample[len(sample) * part // parts] for part in range(1, parts)), capacity]
    shares = [sum(a <= lane < b for lane in sample) for a, b in pairwise(bounds)]
    assert found.bounds == tuple(bounds)
    assert (found.low, found.reach) == (sample[0], sample[-1] - sample[0] + 1)
    assert found.share == max(shares) / len(sample)
    assert found.local == (np.mean(np.array(beside) <= 8) > 0.5)
    assert found.same == (np.mean(np.array(beside) == 0) > 0.9)
    assert found.repeats == (len(set(sample)) < len(sample))


@pytest.mark.parametrize("lanes", [[], [-1, -5], [7, 100]])
def test_a_sample_without_a_row_of_the_table(lanes: list[int]) -> None:
    found = strategies.sampled(np.array(lanes, np.int64), 7, 3)
    assert found == strategies.Spread((0, 0, 0, 7), 0, 1.0, 1, True)


def test_about_128_lanes_or_32_for_each_thread_are_sampled() -> None:
    lanes = np.arange(100_000)[::-1]
    for parts, count in ((1, 128), (4, 128), (5, 160), (100, 3200)):
        found = strategies.sampled(lanes, 100_000, parts)
        assert found.low == 99_999 - (len(lanes[:: 100_000 // count]) - 1) * (100_000 // count)


@pytest.mark.parametrize("combine", [Combine.STORE, Combine.ADD, Combine.MAX])
@pytest.mark.parametrize(
    ("packs", "wake", "wanted"),
    [(True, 500, {"destinations"}), (True, 5000, set()), (False, 500, {"direct"})],
    ids=["selected by an instruction", "too few lanes", "selected one by one"],
)
def test_threads_share_a_small_table_if_selecting_lanes_is_cheap(
    packs: bool, wake: int, wanted: set[str], combine: Combine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "HOST", replace(host.X86, packs=packs, wake=wake, near=1 << 20))
    taken, choose = list[str](), strategies.choose
    monkeypatch.setattr(strategies, "choose", lambda *given: (taken.append(choose(*given)), taken[-1])[1])
    kind = dtype("float32")
    case = Case(kind, values(kind, (4000, 1)), values(kind, (8000, 1), 1), named(8000, 4000), combine=combine)
    assert case.run(native, 2).tobytes() == case.run(reference).tobytes()
    assert set(taken) == wanted


KINDS = ("int8", "int32", "float32", "float64", "float8_e4m3fnuz")
REMAPS = (Remap.REFUSE, Remap.SKIP, Remap.CLAMP)


@pytest.mark.parametrize(
    ("kind", "combine", "remap", "stray"), all_pairs(KINDS, Combine, REMAPS, (None, 0, 99_999, 100_000, -1), one_in=3)
)
def test_threads_have_cells_of_their_own_if_lanes_name_few(
    kind: str, combine: Combine, remap: Remap, stray: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lanes name 100 cells in the middle of a table. A lane elsewhere that the sample does not show changes nothing.

    One that is skipped does not count.
    """
    monkeypatch.setattr(host, "HOST", replace(host.HOST, wake=SHARED))
    found, merged = list[bool](), strategies.merged
    monkeypatch.setattr(strategies, "merged", lambda *given: (found.append(merged(*given)), found[-1])[1])
    made = dtype(kind)
    indices = 50_000 + named(6001, 100)
    if stray is not None:
        indices[1777] = stray
    case = Case(made, values(made, (100_000, 1)), values(made, (6001, 1), 1), indices, remap, combine=combine)
    is_outside = stray in (100_000, -1)
    is_merged = stray is None or (is_outside and remap is Remap.SKIP)
    guarded = Guarded()
    monkeypatch.setattr(strategies, "PAGE", 64)
    monkeypatch.setattr(strategies, "pool", guarded)
    for threads in (2, 5):
        if is_outside and remap is Remap.REFUSE:
            with pytest.raises(IndexFault):
                case.run(native, threads)
        else:
            assert case.run(native, threads).tobytes() == case.run(reference).tobytes()
    is_sum = combine in (Combine.ADD, Combine.MUL) and made.is_float  # these round, in order
    assert found == ([] if is_sum else [is_merged] * 2)
    guarded.check()
    most = 5 * (100 + 2 * (100 // 8 + 64) + 64) * max(4, made.size) + 128
    assert not is_merged or is_sum or all(nbytes <= most for _, nbytes in guarded.given)


@pytest.mark.parametrize("parts", [2, 4])
def test_cells_are_merged_if_they_fit_and_threads_have_many_lanes_for_each(
    parts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The range is 320 cells that the sample names and 104 on both sides: an eighth, and 64."""
    rows, room = scatter_of(case_of(Remap.REFUSE, np.zeros(1, np.int64)).whole).rows, 528
    spread = strategies.Spread((0,) * parts + (1000,), 200, 1 / parts, 320, False)
    assert strategies._merged_range(spread, 1000) == (96, 96 + room)
    assert strategies._merged_range(replace(spread, low=50), 400) == (0, 400)
    count, own = 4 * room * parts, 4 * (room + 64)

    def merges(count: int = count, near: int = own, most: int = parts * own, wake: int = count // 4 - 1) -> bool:
        monkeypatch.setattr(host, "HOST", replace(host.HOST, near=near, wake=wake))
        monkeypatch.setattr(strategies, "MOST_EXTRA", most)
        return strategies.merges(rows, count, 1000, parts, spread)

    assert merges()
    assert not (merges(count - 1) or merges(near=own - 1) or merges(most=parts * own - 1) or merges(wake=count // 4))


@pytest.mark.parametrize("width", [512, 1024])
def test_long_rows_are_written_past_the_caches_several_at_a_time(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "HOST", replace(host.HOST, wake=SHARED, stream_from=1))
    monkeypatch.setattr(openmp, "entries", lambda _: None)
    made, rng = dtype("float32"), np.random.default_rng(2)
    table = rng.integers(0, 1 << 30, (20, width)).astype("u4")
    case = Case(made, table, np.zeros((11, width), "u4"), named(11, 20), side=Side.SRC)
    for threads in (1, 2):
        assert (case.run(native, threads).reshape(11, width) == table[named(11, 20)]).all()


@pytest.mark.parametrize("lanes", [0, 1, 100])
def test_a_block_has_room_behind_its_lanes(lanes: int) -> None:
    block = ArgumentBlock(3, Stop(), lanes)
    begin = block.words[WORDS.index("lanes")] - block.words[WORDS.index("scratch")]
    assert begin == 3 * SCRATCH and block.memory.nbytes - begin >= 8 * (lanes + PADDING)
