"""Calls that are recorded: their tables, policies and indices, in order, up to a limit."""

from __future__ import annotations

import threading
from collections import Counter

import numpy as np
import pytest

import ptokit as pto
from ptokit.traces import recorder
from ptokit.traces.calls import LookupKind, TracedCall
from ptokit.traces.cells import NOWHERE, cells_of

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
    given = np.arange(6).reshape(2, 3)
    with pto.record_indices(limit=10) as trace:
        pto.gather(TABLE, given.T)
        pto.gather(TABLE, given[:, ::2])
    assert [call.indices.tolist() for call in trace.calls] == [[0, 3, 1, 4, 2, 5], [0, 2, 3, 5]]


def test_only_as_much_as_fits_is_copied() -> None:
    many = np.broadcast_to(np.int64(2), (1 << 30, 1 << 20))
    with pto.record_indices(limit=4) as trace, pytest.raises((MemoryError, ValueError)):
        pto.gather(TABLE, many)  # the result would not fit
    assert trace.calls[0].indices.tolist() == [2] * 4


def test_the_limit_cuts_the_last_call() -> None:
    with pto.record_indices(limit=5) as trace:
        for _ in range(3):
            pto.gather(TABLE, np.array([1, 2, 3]))
    assert [call.indices.tolist() for call in trace.calls] == [[1, 2, 3], [1, 2]]
    assert (trace.seen, trace.cut) == (3, "after 5 indices")
    assert "2 calls of 3, 5 indices; cut after 5 indices" in str(trace)


def test_the_limit_of_bytes_cuts_too() -> None:
    with pto.record_indices(most_bytes=20) as trace:
        pto.gather(TABLE, np.array([1, 2, 3], "int32"))
        pto.gather(TABLE, np.array([1, 2, 3], "int64"))
    assert [call.indices.tolist() for call in trace.calls] == [[1, 2, 3], [1]]
    assert trace.cut == "after 20 bytes"


def test_the_number_of_calls_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "MOST_CALLS", 2)
    with pto.record_indices() as trace:
        for _ in range(4):
            pto.gather(TABLE, np.array([1]))
    assert (len(trace.calls), trace.cut) == (2, "after 2 calls of 1 kinds")
    monkeypatch.setattr(recorder, "MOST_KINDS", 1)
    with pto.record_indices() as trace:
        pto.gather(TABLE, np.array([1]))
        pto.gather(TABLE, np.array([1]), oob="zero")
    assert (len(trace.calls), trace.cut) == (1, "after 1 calls of 1 kinds")


def test_one_call_in_some_is_recorded() -> None:
    with pto.record_indices(every=3) as trace:
        for k in range(6):
            pto.gather(TABLE, np.array([k]))
    assert [call.indices.tolist() for call in trace.calls] == [[0], [3]]
    assert (trace.seen, trace.every) == (6, 3)


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


@pytest.mark.parametrize("given", [{"limit": -1}, {"limit": 1.5}, {"every": 0}, {"every": True}, {"most_bytes": "1"}])
def test_other_limits_are_refused(given: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="takes a whole number"), pto.record_indices(**given):  # type: ignore[arg-type]
        pass


# --- what policies make of indices


@pytest.mark.parametrize("index", ["int32", "uint32", "int64"])
@pytest.mark.parametrize("oob", ["clamp", "wrap", "zero"])
@pytest.mark.filterwarnings("ignore::ptokit.HazardWarning")  # indices below 0
def test_entries_are_those_of_a_gather(oob: str, index: str) -> None:
    given = np.array([0, 4, 5, 6, 1 << 30, 3, *([] if index == "uint32" else [-1, -7])]).astype(index)
    table = 1 + np.arange(5, dtype="int32")
    found = pto.gather(table, given, oob=oob)
    entry, outside = cells_of(TracedCall(LookupKind("gather", (5,), "int32", 4, oob=oob, index=index), given))
    assert np.array_equal(found, np.where(entry == NOWHERE, 0, table[entry]))
    assert np.array_equal(outside, (given < 0) | (given > 4))


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
