"""Unusual launches on the machine: their findings, and that they end with a report."""

from __future__ import annotations

import json
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

import ptokit as pto
from ptokit.engine.kept import remember
from ptokit.machine.instruction import WatchedInstruction
from ptokit.target import profile

ROWS, COLS = 8, 16


@pto.kernel
def gather(table, ids, out):
    idx = pto.Tile("vec", "int32", 1, ROWS)
    dst = pto.Tile("vec", "float32", ROWS, COLS)
    pto.tload(idx, ids[0:ROWS])
    pto.mgather(dst, table, idx)
    pto.tstore(out[0:ROWS], dst)


@pto.kernel(mode="manual")
def twice(x, out, order: pto.const = True):
    """Loads, stores, and loads again; without `order` nothing makes the second load wait for the store."""
    tile = pto.Tile("vec", "float32", ROWS, COLS, addr=0)
    other = pto.Tile("vec", "float32", ROWS, COLS, addr=4096)
    pto.tload(tile, x[0:ROWS])
    pto.set_flag("MTE2", "MTE3", 0)
    pto.wait_flag("MTE2", "MTE3", 0)
    pto.tstore(out[0:ROWS], tile)
    if order:
        pto.set_flag("MTE3", "MTE2", 0)
        pto.wait_flag("MTE3", "MTE2", 0)
    pto.tload(other, x[0:ROWS])


@pto.kernel(mode="manual")
def placed(x, y, out, at):
    """Two tiles; the launch passes the address of one."""
    first = pto.Tile("vec", "float32", ROWS, COLS, addr=0)
    second = pto.Tile("vec", "float32", ROWS, COLS, addr=at)
    pto.tload(first, x[0:ROWS])
    pto.tload(second, y[0:ROWS])
    pto.set_flag("MTE2", "MTE3", 0)
    pto.wait_flag("MTE2", "MTE3", 0)
    pto.tstore(out[0:ROWS], first)


@pto.kernel(mode="manual")
def two_readers(x, out):
    """A tile that V and MTE3 read, and that is then loaded again before either has certainly ended."""
    tile = pto.Tile("vec", "float32", ROWS, COLS, addr=0)
    total = pto.Tile("vec", "float32", ROWS, COLS, addr=4096)
    pto.tload(tile, x[0:ROWS])
    pto.set_flag("MTE2", "V", 0)
    pto.wait_flag("MTE2", "V", 0)
    pto.set_flag("MTE2", "MTE3", 0)
    pto.wait_flag("MTE2", "MTE3", 0)
    pto.tadd(total, tile, tile)
    pto.tstore(out[0:ROWS], tile)
    pto.tload(tile, x[0:ROWS])


@pto.kernel
def negative(table, ids, out):
    idx = pto.Tile("vec", "int32", 1, ROWS)
    dst = pto.Tile("vec", "float32", ROWS, COLS)
    pto.tload(idx, ids[0:ROWS])
    pto.mgather(dst, table, idx, oob="clamp")
    pto.tstore(out[0:ROWS], dst)


@pto.kernel
def wide(table, ids, out):
    idx = pto.Tile("vec", "int32", 1, 64)
    dst = pto.Tile("vec", "float32", 64, 584)
    pto.tload(idx, ids[0:64])
    pto.mgather(dst, table, idx)
    pto.tstore(out[0:64], dst)


@pto.kernel(mode="manual")
def reported(table, ids, out, index: pto.const = "int32"):
    """A gather whose end the store waits for by an event."""
    idx = pto.Tile("vec", index, 1, 16, addr=0)
    dst = pto.Tile("vec", "float32", 16, COLS, addr=4096)
    loaded = pto.tload(idx, ids)
    gathered = pto.mgather(dst, table, idx, wait=loaded)
    pto.tstore(out, dst, wait=gathered)


@pto.kernel(mode="manual")
def counted(x, counts, out, order: pto.const = True, beside: pto.const = False):
    """Stores a number of rows and reads it back; without `order` it may be read before it is there. `beside` it, the
    cube core has a flag of its own."""
    if beside:
        pto.set_flag("M", "FIX", 0)
        pto.wait_flag("M", "FIX", 0)
    tile = pto.Tile("vec", "int32", 1, 8, addr=0)
    pto.texpands(tile, 4)
    pto.set_flag("V", "MTE3", 0)
    pto.wait_flag("V", "MTE3", 0)
    pto.tstore(counts[0:8], tile)
    if order:
        pto.set_flag("MTE3", "S", 0)
        pto.wait_flag("MTE3", "S", 0)
    n = pto.load_scalar(counts, 0)
    rows = pto.Tile("vec", "float32", ROWS, COLS, addr=4096, valid=(n, COLS))
    pto.tload(rows, x[0:n])
    pto.set_flag("MTE2", "MTE3", 1)
    pto.wait_flag("MTE2", "MTE3", 1)
    pto.tstore(out[0:n], rows)


@pto.kernel(mode="manual")
def across_cores(x, out, producer: pto.const = True):
    """The vector pipe waits for the cube core, which does nothing else."""
    tile = pto.Tile("vec", "float32", ROWS, COLS, addr=0)
    if producer:
        pto.set_flag("M", "V", 0)
    pto.wait_flag("M", "V", 0)
    pto.texpands(tile, 1)
    pto.set_flag("V", "MTE3", 0)
    pto.wait_flag("V", "MTE3", 0)
    pto.tstore(out, tile)


@pto.kernel
def rows_of(x, n, out):
    tile = pto.Tile("vec", "float32", ROWS, COLS, valid=(n, COLS))
    pto.tload(tile, x[0:n])
    pto.tstore(out[0:n], tile)
    pto.tload(tile, out[0:n])
    pto.tadd(tile, tile, tile)
    pto.tstore(out[0:n], tile)


@pto.kernel(mode="manual")
def alternating(x, out):
    """`out[i] = x[i] + x[i - 1]`, four rows at a time: two tiles are swapped in every iteration."""
    total = pto.Tile("vec", "float32", 4, COLS, addr=1024)
    for i in pto.range(4):
        before = pto.Tile("vec", "float32", 4, COLS, addr=(i + 1) % 2 * 512)
        now = pto.Tile("vec", "float32", 4, COLS, addr=i % 2 * 512)
        pto.barrier("ALL")
        with pto.when(i == 0):
            pto.texpands(before, 0)
        pto.tload(now, x[i * 4 : i * 4 + 4])
        pto.barrier("ALL")
        pto.tadd(total, now, before)
        pto.barrier("ALL")
        pto.tstore(out[i * 4 : i * 4 + 4], total)


@pto.kernel(mode="manual")
def trips_from_memory(counts, x):
    """How often it goes round is read before it is certain to be there."""
    number = pto.Tile("vec", "int32", 1, 8, addr=0)
    row = pto.Tile("vec", "float32", 1, COLS, addr=64)
    pto.texpands(number, 2)
    pto.set_flag("V", "MTE3", 0)
    pto.wait_flag("V", "MTE3", 0)
    pto.tstore(counts[0:8], number)
    for _ in pto.range(pto.load_scalar(counts, 0)):
        pto.tload(row, x[0:1])


def floats(*shape: int) -> Any:
    return np.arange(np.prod(shape), dtype="float32").reshape(shape)


def kinds(report: Any) -> list[str | None]:
    return [finding.kind for finding in report.findings if finding.level != "note"]


def machine(launcher: Any, *args: Any, **options: Any) -> Any:
    return launcher(*args, engine="machine", **({"target": "a5"} | options))


@pytest.mark.parametrize("shift", [0, 4, 7])
def test_arguments_that_overlap_in_part_are_one_memory(shift: int) -> None:
    memory, same = floats(40, COLS), floats(40, COLS)
    ids = np.arange(ROWS, dtype="int32")
    machine(gather[1], memory[shift : shift + 30], ids, memory[0:ROWS])
    gather[1](same[shift : shift + 30], ids, same[0:ROWS], target="a5", engine="reference")
    assert np.array_equal(memory, same)


def test_a_race_through_two_names_of_one_memory_is_found() -> None:
    memory = floats(ROWS + 4, COLS)
    assert machine(twice[1], memory[0:ROWS], memory[4 : ROWS + 4]).ok
    report = machine(twice[1], memory[0:ROWS], memory[4 : ROWS + 4], order=False)
    assert [finding.operand for finding in report.hazards] == ["src"]


def test_order_alone_is_enough_to_see_races_in_global_memory() -> None:
    memory = floats(ROWS, COLS)
    options = pto.MachineOptions(checks=("order",))
    assert machine(twice[1], memory, memory, order=False, options=options).hazards


@pytest.mark.parametrize(("at", "is_apart"), [(0, True), (32, False), (480, False), (512, True), (4096, True)])
def test_tiles_that_the_run_puts_over_one_another(at: int, is_apart: bool) -> None:
    """At 0 both are one buffer (A-38): what is loaded through the second may be stored through the first."""
    report = machine(placed[1], floats(ROWS, COLS), floats(ROWS, COLS), floats(ROWS, COLS), at)
    assert kinds(report) == ([] if is_apart else ["H-38"])


def test_every_pipe_that_is_raced_with_is_named() -> None:
    report = machine(two_readers[1], floats(ROWS, COLS), floats(ROWS, COLS))
    assert sorted(finding.expected for finding in report.hazards) == ["MTE3 before MTE2", "V before MTE2"]


def test_strict_makes_errors_of_what_the_run_finds() -> None:
    ids = np.array([0, 1, -1, 2, 3, 4, 5, 6], "int32")
    arrays = floats(9, COLS), ids, floats(ROWS, COLS)
    report = machine(negative[1], *arrays)
    assert [(finding.kind, finding.level) for finding in report.hazards] == [("H-13", "hazard")]
    with pytest.raises(pto.VerifyError) as refusal:
        machine(negative[1], *arrays, strict=True)
    assert [(finding.kind, finding.level) for finding in refusal.value.findings] == [("H-13", "error")]


def test_costs_that_are_replaced_count_whatever_else_is_looked_at() -> None:
    arrays = floats(9, COLS), np.arange(ROWS, dtype="int32"), floats(ROWS, COLS)
    usual = machine(gather[1], *arrays).timeline.cycles
    small = pto.MachineOptions(costs={"GM burst bytes": 16})
    alone = pto.MachineOptions(costs={"GM burst bytes": 16}, checks=("time",))
    assert machine(gather[1], *arrays, options=small).timeline.cycles > usual
    assert machine(gather[1], *arrays, options=alone).timeline.cycles > usual


@pytest.mark.parametrize("way", ["launch", "options", "target"])
def test_dynamic_memory_can_be_asked_for_in_three_places(way: str) -> None:
    arrays = floats(70, 584), np.arange(64, dtype="int32"), floats(64, 584)
    assert kinds(machine(wide[1], *arrays)) == ["H-20"]
    with pto.target("a5", dyn_ub=60_000 if way == "target" else None):
        given: dict[str, Any] = {"dyn_ub": 60_000} if way == "launch" else {}
        given |= {"options": pto.MachineOptions(dyn_ub=60_000)} if way == "options" else {}
        report = wide[1](*arrays, engine="machine", **given)
    assert report.ok and report.memory["UB"].size == 64 * 4 + 64 * 584 * 4 + 60_000


def test_what_is_written_must_be_writable_before_anything_runs() -> None:
    out = floats(ROWS, COLS)
    out.flags.writeable = False
    with pytest.raises(ValueError, match="out is read-only"):
        machine(gather[0], floats(9, COLS), np.arange(ROWS, dtype="int32"), out)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"timeline": 0}, "timeline takes a whole number from 1 up"),
        ({"seed": -1}, "seed takes a whole number from 0 up"),
        ({"seed": 1.5}, "seed takes"),
        ({"dyn_ub": -1}, "dyn_ub takes"),
        ({"checks": ("everything",)}, "checks are order"),
        ({"launch": "rocket"}, "launch is one of"),
    ],
)
def test_options_that_mean_nothing_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        pto.MachineOptions(**options)


def test_a_seed_may_be_any_whole_number() -> None:
    arrays = floats(9, COLS), np.arange(ROWS, dtype="int32"), floats(ROWS, COLS)
    assert machine(gather[1], *arrays, options=pto.MachineOptions(seed=np.int64(3))).ok  # type: ignore[arg-type]


def test_debug_runs_are_no_runs_on_the_machine() -> None:
    with pytest.raises(ValueError, match="debug=True runs the function itself"):
        machine(gather[1], floats(9, COLS), np.arange(ROWS, dtype="int32"), floats(ROWS, COLS), debug=True)


def test_who_waits_for_an_instruction_that_is_left_out_need_not_wait_for_ever() -> None:
    arrays = floats(64, COLS), np.arange(16, dtype="int32"), floats(16, COLS)
    assert machine(reported[1], *arrays).ok
    report = machine(reported[1], arrays[0], arrays[1].astype("int16"), arrays[2], index="int16")
    assert kinds(report) == ["H-08"]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_a_number_that_comes_too_late_does_not_end_the_run(seed: int, target: str) -> None:
    """Under another schedule the scalar pipe reads 100, of rows that are not there; with the order right, it may still
    read it from a stale line (H-47)."""
    options = pto.MachineOptions(seed=seed)
    for order, beside in product((True, False), repeat=2):
        counts, out = np.full(8, 100, "int32"), np.zeros((ROWS, COLS), "float32")
        chosen = {"order": order, "beside": beside, "target": target, "options": options}
        report = machine(counted[1], floats(ROWS, COLS), counts, out, **chosen)
        unordered = [finding for finding in report.hazards if "nothing orders this " in finding.message]
        assert bool(unordered) is not order
        assert "H-47" in {finding.kind for finding in report.hazards}
        assert not order or np.array_equal(counts, np.full(8, 4))
        assert not order or np.array_equal(out[:4], floats(4, COLS)) or not out.any()


@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_a_wait_across_cores_needs_a_producer(target: str) -> None:
    arrays = floats(ROWS, COLS), floats(ROWS, COLS)
    assert machine(across_cores[1], *arrays, target=target).ok
    report = machine(across_cores[1], *arrays, target=target, producer=False)
    assert [(finding.rule, finding.operand) for finding in report.hazards] == [("KN-13", "flag")]
    assert "V waits forever for the flag M→V 0" in report.hazards[0].message


def test_what_is_known_of_instructions_does_not_grow_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every number of rows is a separate call."""
    monkeypatch.setattr(remember, "__defaults__", (8,))
    known: set[int] = set()
    look = WatchedInstruction._site

    def watched(self: WatchedInstruction, *given: Any) -> Any:
        found = look(self, *given)
        known.add(len(self.sites))
        return found

    monkeypatch.setattr(WatchedInstruction, "_site", watched)
    for n in [*range(1, ROWS + 1)] * 4:
        machine(rows_of[1], floats(ROWS, COLS), n, floats(ROWS, COLS))
    assert known == set(range(1, 9))


@pytest.mark.parametrize("target", ["a2a3", "a5", "cpu"])
def test_tiles_that_change_places_are_not_over_one_another(target: str) -> None:
    x, out = floats(16, COLS), floats(16, COLS)
    assert machine(alternating[1], x, out, target=target).ok
    assert np.array_equal(out, x + np.vstack([np.zeros((4, COLS), "float32"), x[:12]]))


@pytest.mark.parametrize("seed", range(8))
def test_another_schedule_ends_despite_an_endless_loop(seed: int) -> None:
    counts = np.full(8, 1 << 30, "int32")
    assert not machine(trips_from_memory[1], counts, floats(ROWS, COLS), options=pto.MachineOptions(seed=seed)).ok


@pytest.mark.parametrize("checks", ["order", None, 3])
def test_checks_are_names_in_a_tuple(checks: Any) -> None:
    with pytest.raises(TypeError, match="checks takes names in a tuple"):
        pto.MachineOptions(checks=checks)


@pytest.mark.parametrize("number", [np.float32(2), Fraction(3, 2), np.int64(7), 1e9, 1e-9])
def test_any_kind_of_number_can_be_a_cost(number: Any) -> None:
    options = pto.MachineOptions(costs=dict.fromkeys(profile("a5").costs, number))
    arrays = floats(9, COLS), np.arange(ROWS, dtype="int32"), floats(ROWS, COLS)
    report = machine(gather[1], *arrays, options=options)
    assert str(report) and np.isfinite(report.timeline.cycles)
    assert json.loads(report.to_json())["timeline"]["cycles"] == report.timeline.cycles


@pto.kernel
def row_tails(table, ids, out, valid: pto.const = 5, read: pto.const = 8):
    """Clears a tile, gathers some of its columns, stores more of them."""
    idx = pto.Tile("vec", "int32", 1, ROWS)
    tile = pto.Tile("vec", "float32", ROWS, COLS)
    pto.tload(idx, ids)
    pto.texpands(tile, 0)
    tile.valid = (ROWS, valid)
    pto.mgather(tile, table[0:64, 0:valid], idx, oob="clamp")
    tile.valid = (ROWS, read)
    pto.tstore(out[0:ROWS, 0:read], tile)


@pytest.mark.parametrize(
    ("target", "valid", "read", "expected"),
    [
        ("a2a3", 5, 5, []),
        ("a2a3", 5, 6, ["H-36"]),
        ("a2a3", 5, 8, ["H-36"]),
        ("a2a3", 8, 16, []),
        ("a2a3", 9, 16, ["H-36"]),
        ("cpu", 5, 8, []),
    ],
)
@pytest.mark.clause("A-67")
def test_the_tail_of_a_transferred_row_is_unspecified(target: str, valid: int, read: int, expected: list[str]) -> None:
    arrays = floats(64, COLS), np.arange(ROWS, dtype="int32"), floats(ROWS, COLS)
    report = machine(row_tails[1], *arrays, target=target, valid=valid, read=read)
    assert [kind for kind in kinds(report) if kind == "H-36"] == expected


def test_uninitialised_memory_is_reported_once() -> None:
    report = machine(unwritten_index[1], floats(64, COLS), floats(ROWS, COLS))
    found = [finding for finding in report.hazards if finding.kind == "H-42"]
    assert [(finding.level, finding.operand) for finding in found] == [("error", "idx")]


@pto.kernel
def unwritten_index(table, out):
    idx = pto.Tile("vec", "int32", 1, ROWS)
    tile = pto.Tile("vec", "float32", ROWS, COLS)
    pto.mgather(tile, table, idx, oob="clamp")
    pto.tstore(out, tile)


@pto.kernel
def into_l1(table, ids, scratch, kind: pto.const = "float32", mode: pto.const = "row"):
    tile = pto.Tile("mat", kind, 16, 16, blayout="col_major", slayout="row_major")
    more = {"scratch": scratch} if mode == "elem" else {}
    pto.mgather(tile, table, ids, coalesce=mode, oob="clamp", **more)


L1 = {
    "clean rows": ("float32", "nd", "row", (16,), None),
    "clean elements": ("float32", "nd", "elem", (16, 16), None),
    "another layout": ("float32", "dn", "row", (16,), {"a5": "H-02", "a2a3": "H-09"}),
    "another type": ("int32", "nd", "row", (16,), {"a5": "H-08", "a2a3": "H-08"}),
    "another shape": ("float32", "nd", "elem", (16, 8), {"a5": "H-45", "a2a3": "H-45"}),
    "too few indices": ("float32", "nd", "row", (8,), {"a5": "H-09", "a2a3": "H-09"}),
}


@pytest.mark.parametrize("target", ["a2a3", "a5"])
@pytest.mark.parametrize("case", L1)
def test_what_is_wrong_with_a_gather_into_l1_is_reported_by_number(case: str, target: str) -> None:
    kind, layout, mode, shape, expected = L1[case]
    table = pto.GlobalTensor(np.zeros((32, 16), kind), layout=layout)
    arrays = table, np.zeros(shape, "int32"), np.zeros(256, "float32")
    report = machine(into_l1[1], *arrays, target=target, mode=mode)
    assert kinds(report) == ([] if expected is None else [expected[target]])


@pto.kernel
def narrow_rows(table, ids, out):
    """Rows of 16 bytes, where hardware moves blocks of 32."""
    idx, tile = pto.Tile("vec", "int32", 1, ROWS), pto.Tile("vec", "float32", ROWS, 4)
    pto.tload(idx, ids)
    pto.mgather(tile, table, idx)
    pto.tstore(out, tile)


@pytest.mark.parametrize(("target", "rule"), [("a2a3", "MG-ALIGN-02"), ("a5", "MG-ALIGN-03")])
def test_an_alignment_error_is_reported_with_all_that_the_run_shows(target: str, rule: str) -> None:
    table, out = floats(64, 4), np.zeros((ROWS, 4), "float32")
    report = machine(narrow_rows[1], table, np.arange(ROWS, dtype="int32"), out, target=target)
    assert report.written and (out == table[:ROWS]).all()
    assert rule in {finding.rule for finding in report.hazards}
    assert {finding.kind for finding in report.hazards} == {"H-09"}
    assert report.memory["UB"].used > 0 and report.timeline is not None
    assert {"tload", "mgather"} <= {each.instruction for each in report.traffic}


@pto.kernel
def loaded_and_stored(x, out):
    """Stores 8 rows; a tile of 8 rows is loaded from `x` in between."""
    one, two = pto.Tile("vec", "float32", 8, 8), pto.Tile("vec", "float32", 8, 8)
    pto.texpands(one, 1)
    pto.tstore(out, one)
    pto.tload(two, x)
    pto.tstore(out, two)


@pytest.mark.parametrize("seed", [None, 1])
@pytest.mark.parametrize("target", ["cpu", "a2a3", "a5"])
def test_a_launch_with_a_call_that_cannot_be_executed_writes_nothing(target: str, seed: int | None) -> None:
    out = np.full((8, 8), 7, "float32")
    options = pto.MachineOptions(seed=seed)
    refused = loaded_and_stored[1](floats(5, 8), out, target=target, engine="machine", options=options)
    assert {finding.rule for finding in refused.hazards} == {"TL-02"}
    assert not refused.written and not json.loads(refused.to_json())["written"]
    assert (out == 7).all()
    done = loaded_and_stored[1](floats(8, 8), out, target=target, engine="machine", options=options)
    assert done.written and (out == floats(8, 8)).all()


@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_a_launch_that_is_only_misaligned_writes(target: str) -> None:
    x, out = floats(ROWS, 4), np.zeros((ROWS, 4), "float32")
    report = machine(narrow_copy[1], x, out, target=target)
    assert report.written and {finding.rule for finding in report.hazards if finding.kind == "H-09"} == {"CO-ALIGN-01"}
    assert (out == x).all()


@pto.kernel
def narrow_copy(x, out):
    tile = pto.Tile("vec", "float32", ROWS, 4)
    pto.tload(tile, x)
    pto.tstore(out, tile)


@pto.kernel
def unwritten_source(out):
    pto.tstore(out, pto.Tile("vec", "float32", 8, 8))


@pto.kernel
def maybe_unwritten(n, out):
    tile = pto.Tile("vec", "float32", 8, 8)
    with pto.when(n == 1):
        pto.tstore(out, tile)


@pytest.mark.parametrize("target", ["cpu", "a2a3", "a5"])
def test_a_read_of_unwritten_memory_is_reported_once(target: str) -> None:
    out = np.zeros((8, 8), "float32")
    assert [finding.rule for finding in pto.check(unwritten_source, out, target=target).findings] == ["KN-19"]
    assert kinds(machine(unwritten_source[1], out, target=target)) == ["H-36"]
    options = pto.MachineOptions(checks=("order",))
    blind = unwritten_source[1](out, target=target, engine="machine", options=options)
    assert [finding.rule for finding in blind.hazards] == ["KN-19"]
    skipped = machine(maybe_unwritten[1], 0, out, target=target)
    assert [finding.rule for finding in skipped.hazards] == ["KN-19"]
    assert kinds(machine(maybe_unwritten[1], 1, out, target=target)) == ["H-36"]


@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_a_violation_that_blocks_execution_is_raised(target: str) -> None:
    """A store from an L1 tile has no route on either target: there is nothing to run."""
    with pytest.raises(pto.VerifyError) as refused:
        machine(stored_from_l1[1], floats(16, 16), target=target)
    assert any(finding.blocks for finding in refused.value.findings)


@pto.kernel
def stored_from_l1(out):
    pto.tstore(out, pto.Tile("mat", "float32", 16, 16, blayout="col_major", slayout="row_major"))


@pto.kernel
def scattered_and_stored(rows, ids, table, atomic: pto.const = "none", at: pto.const = 0):
    """Even blocks scatter to rows 0 to 7, odd ones store to as many rows from `at` on."""
    tile, idx = pto.Tile("vec", "float32", ROWS, COLS), pto.Tile("vec", "int32", 1, ROWS)
    pto.tload(tile, rows)
    pto.tload(idx, ids)
    with pto.when(pto.block_idx() % 2 == 0):
        pto.mscatter(table, tile, idx, coalesce="row", atomic=atomic)
    with pto.otherwise():
        pto.tstore(table[at : at + ROWS], tile, atomic=atomic)


@pytest.mark.parametrize(
    ("atomic", "at", "expected"), [("none", 0, ["H-16"]), ("none", 7, ["H-16"]), ("none", 8, []), ("add", 0, [])]
)
@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_a_scatter_and_a_store_to_one_row(target: str, atomic: str, at: int, expected: list[str]) -> None:
    arrays = floats(ROWS, COLS), np.arange(ROWS, dtype="int32"), floats(2 * ROWS, COLS)
    assert kinds(machine(scattered_and_stored[2], *arrays, target=target, atomic=atomic, at=at)) == expected


@pto.kernel
def fractal_rows(table, ids, out, valid: pto.const = 32, read: pto.const = 32, oob: pto.const = "clamp"):
    """Gathers some columns of a fractal tile, and stores more of them."""
    idx = pto.Tile("vec", "int32", 1, 16)
    tile = pto.Tile("vec", "float16", 16, 32, valid=(16, valid), blayout="col_major", slayout="row_major")
    pto.tload(idx, ids)
    pto.mgather(tile, table, idx, oob=oob)
    tile.valid = (16, read)
    pto.tstore(out, tile)


@pytest.mark.parametrize(("valid", "read", "expected"), [(32, 32, []), (16, 16, []), (16, 32, ["H-36"])])
@pytest.mark.parametrize("oob", ["clamp", "zero"])
@pytest.mark.clause("A-47")
def test_what_a_fractal_transfer_writes_beside_the_valid_columns(
    oob: str, valid: int, read: int, expected: list[str]
) -> None:
    table = pto.GlobalTensor(np.ones((1, 2, 4, 16, 16), "float16"), layout="nz")
    out = pto.GlobalTensor(np.zeros((1, read // 16, 1, 16, 16), "float16"), layout="nz")
    ids = np.arange(16, dtype="int32")
    report = machine(fractal_rows[1], table, ids, out, target="a2a3", valid=valid, read=read, oob=oob)
    assert kinds(report) == expected
