"""Replays: what the machine, the host and sharded tables say of a trace."""

from __future__ import annotations

import json
import sys
import tracemalloc
from importlib.util import find_spec
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
import pytest

import ptokit as pto
from ptokit.machine import MACHINE
from ptokit.sharded import ray_owners
from ptokit.traces import on_host, on_shards
from ptokit.traces.kernels import gather
from ptokit.traces.on_machine import tile_shape
from ptokit.traces.traced_calls import LookupKind, TracedCall, compacted


def traced(what: LookupKind, *calls: Any) -> pto.IndexTrace:
    return pto.IndexTrace([TracedCall(what, np.array(each, what.index)) for each in calls], seen=len(calls))


def kind(entries: int, size: int, oob: str = "undefined", **more: Any) -> LookupKind:
    """Rows of some bytes."""
    return LookupKind(more.pop("kind", "gather"), (entries, size), "uint8", 1, oob=oob, **{"index": "int64", **more})


# --- compact tables


@pytest.mark.parametrize("size", [1, 4, 24, 32, 100, 128, 384])
@pytest.mark.parametrize("oob", ["undefined", "clamp", "wrap", "zero"])
def test_a_compact_table_keeps_neighbours_and_policies(size: int, oob: str) -> None:
    entries, rng = 10_000, np.random.default_rng(size)
    given = rng.integers(0, entries if oob == "undefined" else 13_000, 60)
    given[::7] = entries - 1
    table = rng.integers(0, 256, (entries, size)).astype("uint8")
    made = compacted(kind(entries, size, oob), [TracedCall(kind(entries, size, oob), given)], 60, 1 << 20, 9)
    assert made.entries < entries
    small = np.zeros((made.entries, size), "uint8")
    (indices, entry), expected = made.calls[0], pto.gather(table, given, oob=oob)
    small[entry[entry >= 0]] = expected[entry >= 0]
    assert np.array_equal(pto.gather(small, indices, oob=oob), expected)
    assert np.array_equal(indices >= made.entries, given >= entries)
    inside = entry >= 0
    places = np.where(inside, given % entries if oob == "wrap" else np.minimum(given, entries - 1), -1)
    apart = np.subtract.outer(places * size // 128, places * size // 128) == 0
    assert np.array_equal(apart, np.subtract.outer(entry * size // 128, entry * size // 128) == 0)


def test_limits_cut_calls_and_say_how_much() -> None:
    what = kind(100, 128)
    calls = [TracedCall(what, np.arange(10)) for _ in range(5)]
    assert (made := compacted(what, calls, 25, 1 << 20, 9)).lanes == 25
    assert ([call.indices.size for call in made.calls], made.dropped) == ([10, 10, 5], 25)
    assert compacted(what, calls, 99, 128 * 12, 9).lanes == 12
    assert compacted(what, calls, 99, 1 << 20, 2).lanes == 20
    assert compacted(what, calls, 99, 1 << 20, 2, whole=12_800).entries == 100


# --- on the machine


def machine_row(what: LookupKind, target: str, *calls: Any) -> dict[str, Any]:
    (row,) = pto.traces.replay(traced(what, *calls), targets=target).rows
    return row


@pytest.mark.parametrize("target", ["a2a3", "a5"])
@pytest.mark.parametrize("size", [16, 64, 96, 512])
def test_traffic_is_that_of_the_whole_table(size: int, target: str) -> None:
    given = np.random.default_rng(size).integers(0, 500, 70)
    row = machine_row(kind(500, size), target, given)
    shape: Any = tile_shape(kind(500, size))
    table, data = np.zeros((500, size // 4), "uint32"), np.zeros((70, size // 4), "uint32")
    grid, how = -(-70 // shape.rows), {"unit": "row", "rows": shape.rows, "cols": shape.cols, "oob": "undefined"}
    report: Any = gather[grid](table, given.astype("int32"), data, **how, target=target, engine=MACHINE)
    (traffic,) = [each for each in report.traffic if each.instruction == "mgather"]
    assert (row["moved"], row["transactions"], row["bursts"]) == (
        traffic.bytes_moved, traffic.transactions, traffic.bursts)  # fmt: skip
    assert row["efficiency"] == traffic.efficiency
    assert row["cycles"] == round(report.timeline.cycles)
    assert row["verdict"] == "clean"


@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_elements_are_gathered_one_by_one(target: str) -> None:
    given = np.random.default_rng(5).integers(0, 4000, 600)
    what = LookupKind("gather", (4000,), "float32", 4, unit="elem")
    row = machine_row(what, target, given)
    table, data = np.zeros((1, 4000), "uint32"), np.zeros(600, "uint32")
    how = {"unit": "elem", "rows": 1, "cols": 512, "oob": "undefined", "target": target, "engine": MACHINE}
    report: Any = gather[2](table, given.astype("int32"), data, **how)
    (traffic,) = [each for each in report.traffic if each.instruction == "mgather"]
    assert (row["moved"], row["transactions"]) == (traffic.bytes_moved, traffic.transactions)
    assert row["verdict"] == "clean"


@pytest.mark.parametrize("oob", ["clamp", "wrap", "zero"])
def test_lanes_outside_and_repeats_are_counted(oob: str) -> None:
    row = machine_row(kind(50, 64, oob), "a5", [1, 1, 2, 50, 99], [2, 70])
    assert (row["calls"], row["indices"], row["outside"]) == (2, 7, 3)
    cells = {"clamp": [1, 1, 2, 49, 49, 2, 49], "wrap": [1, 1, 2, 0, 49, 2, 20], "zero": [1, 1, 2, 2]}[oob]
    assert row["repeats"] == len(cells) - len({*cells})


def test_lanes_outside_without_a_policy_are_an_error() -> None:
    row = machine_row(kind(50, 64), "a5", [1, 50])
    assert row["outside"] == 1
    assert "H-10" in row["verdict"] or "error" in row["verdict"]


def test_wide_rows_are_moved_in_parts() -> None:
    row = machine_row(kind(40, 65_536), "a2a3", [1, 39, 7])
    assert (row["moved"], row["outside"], row["indices"]) == (3 * 65_536, 0, 3)


def test_a_target_without_pipes_has_no_traffic_and_no_time() -> None:
    result = pto.traces.replay(traced(kind(10, 128, "zero"), [1, 1, 99]), targets="cpu,a5")
    here, there = result.rows
    assert (here["repeats"], here["outside"], here["verdict"]) == (1, 1, "clean")
    assert here["moved"] is here["efficiency"] is here["cycles"] is here["us"] is None and there["moved"] == 256
    assert result.notes == ("cpu has no pipes: the machine models no traffic and no time",)


def test_repeated_destinations_are_found() -> None:
    what = kind(50, 64, kind="scatter")
    assert machine_row(what, "a2a3", [1, 2, 3])["verdict"] == "clean"
    assert "H-14" in machine_row(what, "a2a3", [1, 2, 1])["verdict"]


def test_what_a_target_refuses_is_a_row() -> None:
    what = LookupKind("scatter", (50, 16), "bfloat16", 2, atomic="add")
    assert machine_row(what, "a5", [1])["verdict"].startswith("refused: mscatter on a5: src")


@pytest.mark.parametrize("atomic", ["mul", "mean"])
def test_atomics_that_no_target_has_are_refused(atomic: str) -> None:
    what = LookupKind("scatter", (50, 16), "float32", 4, atomic=atomic)
    assert machine_row(what, "a5", [1])["verdict"].startswith("refused: ")


def test_tables_that_no_tile_takes_are_named() -> None:
    result = pto.traces.replay(traced(kind(3, 1_000_003), [1]), targets="a5")
    assert (result.rows, result.notes) == ((), ("#0 gather: no tile takes rows of 1,000,003 bytes",))
    assert str(pto.traces.replay(traced(kind(0, 4), []))) == "#0 gather: the table is empty"


def test_what_is_left_out_is_stated() -> None:
    result = pto.traces.replay(traced(kind(10, 32), [1] * 9), targets="a5", lanes=4)
    assert result.rows[0]["indices"] == 4
    assert "5 later indices are left out" in str(result)


@pytest.mark.parametrize("what", [1, "trace.npz", None])
def test_only_traces_are_replayed(what: Any) -> None:
    with pytest.raises(TypeError, match="replay takes an IndexTrace"):
        pto.traces.replay(what)


@pytest.mark.parametrize("given", [{"engine": "nativ"}, {"lanes": 0}, {"shards": 1.0}, {"targets": "a9"}])
def test_other_settings_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"nativ|lanes|shards|a9"):
        pto.traces.replay(pto.IndexTrace(), **given)


# --- on the host


@pytest.mark.parametrize("oob", ["undefined", "clamp", "wrap", "zero"])
def test_a_gather_on_the_host_has_the_bits_of_numpy(oob: str) -> None:
    result = pto.traces.replay(traced(kind(50, 24, oob), [1, 1, 2, 50, 99], [2, 70]), engine="native")
    libraries = [row["library"] for row in result.rows]
    assert libraries[:2] == ["ptokit", "NumPy"]
    assert all(row["same bits"] for row in result.rows)
    assert result.rows[0]["times as long"] == 1.0


@pytest.mark.parametrize("atomic", ["none", "add", "max", "min", "mul"])
def test_a_scatter_on_the_host_has_the_bits_of_numpy(atomic: str) -> None:
    what = LookupKind("scatter", (50, 6), "float32", 4, oob="skip", atomic=atomic)
    result = pto.traces.replay(traced(what, [1, 1, 2, 50], [2, 70]), engine="native")
    assert [row["same bits"] for row in result.rows[:2]] == [True, True]


def test_a_scatter_that_is_refused_is_a_row() -> None:
    what = LookupKind("scatter", (50, 6), "complex64", 8, atomic="max")
    (row,) = pto.traces.replay(traced(what, [1]), engine="native").rows
    assert row["verdict"] == "refused: scatter: complex64 cannot be ordered"


def test_a_product_and_a_mean_are_replayed() -> None:
    for atomic in ("mul", "mean"):
        what = LookupKind("scatter", (50, 6), "float32", 4, oob="skip", atomic=atomic)
        row = pto.traces.replay(traced(what, [1, 1, 99]), engine="native").rows[0]
        assert (row["library"], row["same bits"]) == ("ptokit", True)


def test_every_library_has_a_row_or_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(what: LookupKind) -> None:
        assert what.kind == "gather"

    def fails(what: LookupKind) -> Any:
        return lambda table, call: table[what.shape]

    known = {"Here": ("numpy", none), "Fails": ("numpy", fails), "Absent": ("no_such_package", none)}
    monkeypatch.setattr(on_host, "LIBRARIES", {**on_host.LIBRARIES, **known})
    result = pto.traces.replay(traced(kind(50, 4), [1, 2]), engine="native")
    by_name = {row["library"]: row for row in result.rows}
    missing = {name for name, (package, _) in on_host.LIBRARIES.items() if find_spec(package) is None}
    assert set(by_name) == {"ptokit", *on_host.LIBRARIES} - missing
    assert {name for name, row in by_name.items() if "verdict" in row} == {"Here", "Fails"}
    assert "Absent" in missing
    assert result.notes == ("not installed: " + ", ".join(name for name in on_host.LIBRARIES if name in missing),)


@pytest.mark.parametrize(
    ("what", "note"),
    [
        (LookupKind("gather", (4, 0), "float32", 4), "the table is empty"),
        (LookupKind("gather", (1 << 40, 3), "float32", 4, axis=1), "rows of 4,398,046,511,104 bytes are too large"),
        (LookupKind("scatter", (4, 3), "datetime64", 8, atomic="add"), "NumPy has no numbers of type datetime64"),
        (LookupKind("scatter", (4, 3), "int64", 2, atomic="add"), "elements of int64 have 8 bytes, not 2"),
    ],
)
def test_tables_that_cannot_be_made_are_notes(what: LookupKind, note: str) -> None:
    result = pto.traces.replay(traced(what, [0, 1]), engine="native")
    assert result.rows == () and result.notes[0] == f"#0 {what.title}: {note}"


# --- on a sharded table


class Sharded:
    """A sharded table in this process."""

    made: ClassVar[list[Any]] = []

    def __init__(self, array: Any, shards: int) -> None:
        self.array, self.shards, self.calls, self.closed = array, shards, [], False

    @classmethod
    def create(cls, array: Any, shards: int = 2) -> Sharded:
        cls.made.append(cls(array, shards))
        return cls.made[-1]

    def gather(self, indices: Any, **policies: Any) -> None:
        self.calls.append((indices.tolist(), policies))

    @property
    def placement(self) -> tuple[tuple[int, int, int], ...]:
        return ((5, 10, 1), (0, 5, 0))

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Ray and sharded tables that run here; returns what was started and ended."""
    done: list[str] = []
    module: Any = ModuleType("ray")
    module.shutdown = lambda: done.append("shutdown")
    monkeypatch.delitem(sys.modules, "ray", raising=False)
    monkeypatch.setattr(ray_owners, "connected", lambda: done.append("connected") or module)
    monkeypatch.setattr(on_shards, "ShardedTable", Sharded)
    monkeypatch.setattr(Sharded, "made", [])
    return done


def test_accesses_of_owners_are_counted(ray: list[str]) -> None:
    result = pto.traces.replay(traced(kind(10, 4, "zero"), [0, 4, 5, 5, 9, 12]), engine="sharded")
    assert [(row["owner"], row["accesses"], row["share"]) for row in result.rows] == [(0, 2, 0.4), (1, 3, 0.6)]
    (made,) = Sharded.made
    assert (made.shards, made.closed, made.array.shape) == (2, True, (10, 1))
    assert made.calls == [([0, 4, 5, 5, 9, 10], {"oob": "zero"})]
    assert ray == ["connected", "shutdown"]


def test_a_sharded_table_that_refuses_a_call_is_a_row(ray: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def scatter(self: Sharded, *_: object, reduce: str, **__: object) -> None:
        pto.scatter(self.array, 1, np.array([0]), reduce=reduce)

    monkeypatch.setattr(Sharded, "scatter", scatter, raising=False)
    what = LookupKind("scatter", (10, 2), "complex64", 8, atomic="max")
    (row,) = pto.traces.replay(traced(what, [1]), engine="sharded").rows
    assert row["verdict"] == "refused: scatter: complex64 cannot be ordered"
    assert Sharded.made[0].closed and ray[-1] == "shutdown"


def test_ray_ends_whatever_happens(ray: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(Sharded, "gather")
    with pytest.raises(AttributeError):
        pto.traces.replay(traced(kind(10, 4), [0]), engine="sharded")
    assert Sharded.made[0].closed and ray == ["connected", "shutdown"]


def test_sharded_tables_that_are_not_there_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ValueError, match=r"pip install 'ptokit\[ray\]'"):
        pto.traces.replay(traced(kind(10, 4), [0]), engine="sharded")


# --- results


def test_a_result_is_a_table_json_and_html() -> None:
    result = pto.traces.replay(traced(kind(50, 64), [1, 2]), targets=("a2a3", "a5"))
    assert [line.split()[3] for line in str(result).splitlines()] == ["target", "a2a3", "a5"]
    assert json.loads(result.to_json()) == json.loads(json.dumps(result.as_dict()))
    html = pto.traces.ReplayResult("machine", "x", ({"table": "<b>", "efficiency": 0.5},))._repr_html_()
    assert "&lt;b&gt;" in html and "50%" in html


def test_a_replay_on_the_host_takes_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    most = 8 << 20
    monkeypatch.setattr(on_host, "MOST_BYTES", most)
    trace = traced(kind(64, 1 << 20), *[range(64)] * 4)
    pto.traces.replay(traced(kind(4, 16), [1]), engine="native")  # loads libraries
    tracemalloc.start()
    try:
        rows = pto.traces.replay(trace, engine="native").rows
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert rows[0]["indices"] == 8
    assert peak < 9 * most
