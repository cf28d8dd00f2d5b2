"""Calls that are recorded: their tables, policies and indices, in order, up to a limit."""

from __future__ import annotations

import threading
import warnings
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ptokit as pto
from ptokit.ops.array_call import MODES, REDUCES
from ptokit.traces import recording
from ptokit.traces.recorder import IndexRecorder
from ptokit.traces.table_memory import TableMemory
from ptokit.traces.traced_calls import NOWHERE, LookupKind, TracedCall, cells_of

TABLE = np.arange(24, dtype="float32").reshape(6, 4)


def test_calls_are_recorded_in_order_with_their_policies() -> None:
    table, other = TABLE.copy(), np.zeros(9, "int16")
    with pto.record_indices() as trace:
        pto.gather(table, np.array([[5, 0], [2, 9]]), oob="clamp")
        pto.scatter(other, 1, np.array([3, 3], "int32"), coalesce="elem", atomic="add")
        pto.gather(table, np.array([1], "uint32"))
    assert [call.indices.tolist() for call in trace.calls] == [[5, 0, 2, 9], [3, 3], [1]]
    first, second, third = (call.what for call in trace.calls)
    assert first == LookupKind("gather", (6, 4), "float32", 4, 0, "row", 0, "clamp", "none", "int64")
    assert second == LookupKind("scatter", (9,), "int16", 2, 1, "elem", 0, "undefined", "add", "int32")
    assert (third.table, third.index, third.entries, third.entry_bytes) == (0, "uint32", 6, 16)
    assert (second.entries, second.entry_bytes) == (9, 2)
    assert (trace.seen, trace.missed, trace.cut) == (3, 0, "")


def test_words_of_other_libraries_are_recorded_as_policies() -> None:
    with pto.record_indices() as trace:
        for mode in MODES:
            pto.gather(TABLE, [1], mode=mode)
            pto.scatter_nd(TABLE.copy(), 1, [[1]], mode=mode)
    read, written = ([policies[k].text for policies in MODES.values()] for k in range(2))
    assert [call.what.oob for call in trace.calls] == [oob for both in zip(read, written, strict=True) for oob in both]
    with pto.record_indices() as trace:
        for reduce in REDUCES:
            pto.scatter(TABLE.copy(), 1, [1], reduce=reduce)
    expected = {"none": 3, "add": 2, "mul": 3, "max": 2, "min": 2, "mean": 1}
    assert Counter(call.what.atomic for call in trace.calls) == expected


def test_members_of_enums_are_recorded_as_policies() -> None:
    with pto.record_indices() as trace:
        pto.gather(TABLE, [9], oob=pto.GatherOOB.Clamp)
        pto.scatter(TABLE.copy(), 1, [1], coalesce=pto.Coalesce.Elem, atomic=pto.ScatterAtomicOp.Add)
    found = [(call.what.unit, call.what.oob, call.what.atomic) for call in trace.calls]
    assert found == [("row", "clamp", "none"), ("elem", "undefined", "add")]


def test_results_and_functions_are_as_without_it() -> None:
    before = pto.gather, pto.scatter
    indices = np.array([4, 4, 1])
    with pto.record_indices():
        assert np.array_equal(pto.gather(TABLE, indices), TABLE[indices])
        assert pto.gather is not before[0]
    assert (pto.gather, pto.scatter) == before


def test_a_call_that_is_refused_is_recorded_and_raises() -> None:
    with pto.record_indices() as trace, pytest.raises(pto.OutOfBoundsError) as problem:
        pto.gather(TABLE, np.array([6]))
    where = problem.value.findings[0].where
    assert where is not None and where.file == __file__
    assert trace.calls[0].indices.tolist() == [6]
    assert trace.tables()[0].outside == 1


def test_arguments_that_are_no_arrays_raise_as_ever() -> None:
    with pto.record_indices() as trace:
        with pytest.raises((TypeError, pto.VerifyError)):
            pto.gather(TABLE, np.array(["a"]))
        with pytest.raises(TypeError):
            pto.gather()  # type: ignore[call-arg]
    assert (trace.calls, trace.seen, trace.missed) == ([], 2, 2)


def test_later_changes_of_the_indices_are_not_seen() -> None:
    indices = np.array([1, 2])
    with pto.record_indices() as trace:
        pto.gather(TABLE, indices)
        indices[:] = 5
    assert trace.calls[0].indices.tolist() == [1, 2]


def test_broadcast_and_strided_indices_are_recorded_in_c_order() -> None:
    ids = np.arange(6).reshape(2, 3)
    with pto.record_indices(limit=10) as trace:
        pto.gather(TABLE, ids.T)
        pto.gather(TABLE, ids[:, ::2])
    assert [call.indices.tolist() for call in trace.calls] == [[0, 3, 1, 4, 2, 5], [0, 2, 3, 5]]


def test_only_as_much_as_fits_is_copied() -> None:
    many = np.broadcast_to(np.int64(2), (1 << 30, 1 << 20))
    with pto.record_indices(limit=4) as trace, pytest.raises((MemoryError, ValueError)):
        pto.gather(TABLE, many)  # the result would not fit
    assert trace.calls[0].indices.tolist() == [2] * 4


def test_the_first_calls_that_fit_are_recorded() -> None:
    with pto.record_indices(limit=5) as trace:
        for ids in ([1, 2, 3], [4, 5, 0], [1]):
            pto.gather(TABLE, np.array(ids))
    assert [call.indices.tolist() for call in trace.calls] == [[1, 2, 3]]
    assert (trace.seen, trace.cut) == (3, "5 indices")
    assert "1 call of 3, 3 indices; the first ones, up to 5 indices" in str(trace)


def test_a_call_above_the_limit_is_cut() -> None:
    with pto.record_indices(most_bytes=20) as trace:
        pto.gather(TABLE, np.array([1, 2, 3, 4, 5, 0], "int32"))
        pto.gather(TABLE, np.array([1], "int32"))
    assert [call.indices.tolist() for call in trace.calls] == [[1, 2, 3, 4, 5]]
    assert (trace.seen, trace.cut) == (2, "20 bytes")


def test_the_number_of_calls_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "MOST_CALLS", 2)
    for sample in (None, 100):
        with pto.record_indices(sample=sample) as trace:
            for _ in range(4):
                pto.gather(TABLE, np.array([1]))
        assert (len(trace.calls), trace.cut) == (2, "2 calls")
    monkeypatch.setattr(recording, "MOST_KINDS", 1)
    with pto.record_indices() as trace:
        pto.gather(TABLE, np.array([1]))
        pto.gather(TABLE, np.array([1]), oob="zero")
        pto.gather(TABLE, np.array([2]))
    assert (len(trace.calls), trace.cut) == (1, "1 kinds")


# --- samples


@dataclass(frozen=True)
class Limits:
    sample: int | None
    limit: int
    most_bytes: int


LIMITS = st.builds(Limits, st.none() | st.integers(1, 20), st.integers(1, 60), st.integers(8, 300))
CALLS = st.lists(st.tuples(st.integers(0, 12), st.sampled_from(["int32", "int64"])), max_size=40)


@given(CALLS, LIMITS, st.integers(0, 1 << 40))
def test_kept_are_the_lowest_ranks_that_fit(made: list[tuple[int, str]], limits: Limits, seed: int) -> None:
    """The definition: rank all calls, take them from the lowest rank on while they fit, restore their order."""
    arrays = [np.arange(count, dtype=kind) % 6 for count, kind in made]
    with pto.record_indices(**asdict(limits), seed=seed) as trace:
        for number, ids in enumerate(arrays):
            pto.gather(TABLE if number % 3 else TABLE[:, :2], ids, out=None)
    words = np.random.PCG64(seed).random_raw(len(arrays)).tolist()
    order = sorted(range(len(arrays)), key=words.__getitem__) if limits.sample else range(len(arrays))
    kept: list[int] = []
    cut = {n: ids[: min(limits.limit, limits.most_bytes // ids.itemsize)] for n, ids in enumerate(arrays)}
    for number in order:
        taken = [cut[each] for each in (*kept, number)]
        sizes = len(taken), sum(each.size for each in taken), sum(each.nbytes for each in taken)
        most = limits.sample or 100, limits.limit, limits.most_bytes
        if any(size > bound for size, bound in zip(sizes, most, strict=True)):
            break
        kept.append(number)
    kept.sort()
    assert [call.indices.tolist() for call in trace.calls] == [cut[number].tolist() for number in kept]
    assert [call.what.index for call in trace.calls] == [made[number][1] for number in kept]
    tables = list(dict.fromkeys(bool(number % 3) for number in kept))
    assert [call.what.table for call in trace.calls] == [tables.index(bool(number % 3)) for number in kept]
    is_whole = len(kept) == len(arrays) and all(cut[number].size == arrays[number].size for number in kept)
    assert (trace.seen, trace.missed, bool(trace.cut)) == (len(arrays), 0, not is_whole)


def sampled(calls: int, **options: Any) -> list[int]:
    table = np.zeros(calls, "int8")
    with pto.record_indices(**options) as trace:
        for k in range(calls):
            pto.gather(table, np.array([k]))
    return [int(call.indices[0]) for call in trace.calls]


def test_a_sample_is_drawn_from_the_whole_run() -> None:
    counts = Counter[int]()
    for seed in range(400):
        drawn = sampled(20, sample=5, seed=seed)
        assert len(drawn) == 5 and drawn == sorted(drawn)
        counts.update(drawn)
    expected = 400 * 5 / 20
    deviation = sum((counts[k] - expected) ** 2 / (expected * (1 - 5 / 20)) for k in range(20)) * 19 / 20
    assert deviation < 43.8  # chi squared of 19 degrees of freedom: one in a thousand; the seeds are fixed


def test_a_seed_draws_the_same_sample() -> None:
    assert sampled(200, sample=6, seed=3) == sampled(200, sample=6, seed=3) == [20, 28, 89, 104, 166, 186]
    assert sampled(200, sample=6, seed=4) != sampled(200, sample=6, seed=3)
    assert sampled(5, sample=6) == [0, 1, 2, 3, 4]


def test_a_sample_says_of_how_many_calls_it_is() -> None:
    with pto.record_indices(sample=3, seed=8) as trace:
        for _ in range(100):
            pto.gather(TABLE, np.array([1, 2]))
    assert trace.heading() == "3 calls of 100, 6 indices; drawn at random, seed 8, up to 3 calls"
    assert (trace.as_dict()["sample"], trace.as_dict()["seed"]) == (3, 8)


def test_what_is_not_kept_is_not_held() -> None:
    """Memory is bounded: nothing remains of calls and tables that were dropped."""
    trace = pto.IndexTrace(sample=4)
    held = IndexRecorder(trace, {"calls": 4, "kinds": 3, "indices": 100, "bytes": 1000})
    for k in range(3000):
        what, table = LookupKind("gather", (k + 1, 2), "float32", 4), np.empty((k + 1, 2), "float32")
        held.see(lambda: (what, TableMemory.of_array(table, table), np.arange(3)))  # noqa: B023  (called at once)
        assert len(held._kept) == len(held._ranks) <= 4 and len(held._tables) <= 3
    held.finish()
    assert len(trace.calls) == 3 and trace.seen == 3000


def test_a_function_that_outlives_the_block_records_nothing() -> None:
    with pto.record_indices() as trace:
        kept = pto.gather
        kept(TABLE, np.array([1]))
    assert np.array_equal(kept(TABLE, np.array([2])), TABLE[[2]])
    assert (len(trace.calls), trace.seen) == (1, 1)


def test_blocks_nest() -> None:
    with pto.record_indices() as outer:
        pto.gather(TABLE, np.array([1]))
        with pto.record_indices() as inner:
            pto.gather(TABLE, np.array([2]))
        pto.gather(TABLE, np.array([3]))
    assert [call.indices.tolist() for call in outer.calls] == [[1], [2], [3]]
    assert [call.indices.tolist() for call in inner.calls] == [[2]]


def test_calls_of_threads_are_all_recorded() -> None:
    def work(k: int) -> None:
        for _ in range(50):
            pto.gather(TABLE, np.array([k, k]))

    with pto.record_indices() as trace:
        threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert Counter(call.indices[0] for call in trace.calls) == dict.fromkeys(range(4), 50)


@pytest.mark.parametrize("limits", [
    {"limit": 0}, {"limit": 1.5}, {"sample": 0}, {"sample": True}, {"most_bytes": "1"}, {"most_bytes": 7},
    {"seed": -1}, {"seed": 1 << 62},
])  # fmt: skip
def test_other_limits_are_refused(limits: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="takes a whole number"), pto.record_indices(**limits):  # type: ignore[arg-type]
        pass


# --- what policies make of indices


@pytest.mark.parametrize("index", ["int32", "uint32", "int64"])
@pytest.mark.parametrize("oob", ["clamp", "wrap", "zero"])
@pytest.mark.filterwarnings("ignore::ptokit.HazardWarning")  # indices below 0
def test_entries_are_those_of_a_gather(oob: str, index: str) -> None:
    ids = np.array([0, 4, 5, 6, 1 << 30, 3, *([] if index == "uint32" else [-1, -7])]).astype(index)
    table = 1 + np.arange(5, dtype="int32")
    found = pto.gather(table, ids, oob=oob)
    entry, outside = cells_of(TracedCall(LookupKind("gather", (5,), "int32", 4, oob=oob, index=index), ids))
    assert np.array_equal(found, np.where(entry == NOWHERE, 0, table[entry]))
    assert np.array_equal(outside, (ids < 0) | (ids > 4))


def test_uses_of_tables_are_counted() -> None:
    what = LookupKind("gather", (300, 2), "float32", 4, oob="zero", index="int64")
    calls = [TracedCall(what, np.array([7] * 6 + [8, 300])), TracedCall(what, np.array([8, -1, 9]))]
    (use,) = pto.IndexTrace(calls, seen=2).tables()
    assert (use.calls, use.lanes, use.distinct, use.outside, use.repeats) == (2, 11, 3, 2, 6)
    assert use.hot == 6 / 9  # one of three entries is the hottest hundredth


def test_a_notebook_shows_the_tables() -> None:
    with pto.record_indices(source="<script>") as trace:
        pto.gather(TABLE, np.array([1]))
    html = trace._repr_html_()
    assert "6x4" in html and "<script>" not in html
    assert repr(trace) == "<IndexTrace '<script>': 1 call of 1, 1 indices>"


def test_other_forms_are_recorded_as_entries() -> None:
    table = np.arange(24.0, dtype="float32").reshape(2, 3, 4)
    lanes = np.array([[[2, 0, 1, 2]], [[1, 1, 0, 0]]])
    pairs = np.array([[1, 2], [0, 1], [1, 0]])
    with pto.record_indices() as trace:
        along = pto.gather_along(table, lanes, axis=1)
        rows = pto.gather_nd(table, pairs)
        pto.scatter_along(table.copy(), 1.0, lanes, axis=1, reduce="add")
        pto.scatter_nd(table.copy(), np.ones((3, 4), "float32"), pairs - [[0, 0], [0, 3], [0, 0]], oob="skip")
        pto.gather_nd(table, np.array([[[5]], [[1]]]), batch_dims=1, oob="clamp")
    first, second, third, fourth, fifth = trace.calls
    assert np.array_equal(table.ravel()[first.indices], along.ravel())
    assert np.array_equal(table.reshape(6, 4)[second.indices], rows)
    assert (first.what.kind, first.what.unit, second.what.shape) == ("gather", "elem", (6, 4))
    assert (third.what.kind, third.what.atomic, third.indices.tolist()) == ("scatter", "add", first.indices.tolist())
    assert (fourth.indices.tolist(), fourth.what.writes) == ([5, -1, 3], True)
    assert fifth.indices.tolist() == [2, 4]


def test_negative_int32_of_other_forms_are_recorded_as_the_entries_that_they_name() -> None:
    table, lanes = np.arange(6.0), np.array([-1, 1], "int32")
    with pto.record_indices() as trace, warnings.catch_warnings():
        warnings.simplefilter("ignore", pto.HazardWarning)
        found = [pto.gather_along(table, lanes, oob="clamp"), pto.gather_nd(table, lanes[:, None], oob="wrap")]
        found.append(pto.gather_nd(table, lanes[:, None], mode="negative"))
    assert [call.indices.tolist() for call in trace.calls] == [each.tolist() for each in found]
