"""`run --engine machine` and `check --run`: findings of the machine on standard output, and the exit status."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ptokit.cli.report import PARTS
from tests.cli.shell import fine, misuse, ptokit_, saved

KERNELS = '''\
import ptokit as pto


@pto.kernel(mode="manual")
def racy(x, out):
    t = pto.Tile("vec", "float32", 8, 16, addr=0)
    pto.tload(t, x)
    pto.tstore(out, t)


@pto.kernel
def spread(ids, x, table):
    """Rows of x to rows of a table, where they may meet."""
    index = pto.Tile("vec", "int32", 1, 8)
    t = pto.Tile("vec", "float32", 8, 16)
    pto.tload(index, ids)
    pto.tload(t, x)
    pto.mscatter(table, t, index, coalesce="row", oob="clamp")


@pto.kernel
def pick(table, ids, out):
    index = pto.Tile("vec", "int32", 1, 8)
    t = pto.Tile("vec", "float32", 8, 16)
    pto.tload(index, ids)
    pto.mgather(t, table, index, oob="clamp")
    pto.tstore(out, t)


@pto.kernel
def narrow(x, out):
    t = pto.Tile("vec", "float32", 8, 4)
    pto.tload(t, x)
    pto.tstore(out, t)


@pto.kernel
def unwritten(table, out):
    index, t = pto.Tile("vec", "int32", 1, 8), pto.Tile("vec", "float32", 8, 16)
    pto.mgather(t, table, index, oob="clamp")
    pto.tstore(out, t)


@pto.kernel
def large(table, ids, out):
    index = pto.Tile("vec", "int32", 1, 2504, valid=(1, 2500))
    t = pto.Tile("vec", "float32", 2500, 16)
    pto.tload(index, ids)
    pto.mgather(t, table, index, oob="clamp")
    pto.tstore(out, t)
'''
TEXT = """\
.kernel histogram
.arg %bins : !pto.memref<1x16xi32>
.arg %counts : !pto.memref<1x64xi32>
.const %one = 1 : i32
%index = tload %bins : (!pto.memref<1x16xi32>) -> !pto.tile<1x16xi32>
%ones = texpands %one : (i32) -> !pto.tile<1x16xi32>
mscatter.elem.atomic_add.skip %counts, %ones, %index : (!pto.memref<1x64xi32>, !pto.tile<1x16xi32>, !pto.tile<1x16xi32>)
"""
X = np.arange(128, dtype="float32").reshape(8, 16)
RACY = ("manual:racy", "--arg", "x=x.npy", "--arg", "out=f32[8,16]")
PICK = ("manual:pick", "--arg", "table=x.npy", "--arg", "ids=ids.npy", "--arg", "out=f32[8,16]")
MACHINE = ("--engine", "machine", "--target", "a5")


@pytest.fixture(autouse=True)
def files(folder: Path) -> None:
    (folder / "manual.py").write_text(KERNELS, encoding="utf-8")
    saved(folder / "x.npy", X)
    saved(folder / "ids.npy", np.array([0, 1, 2, 3, 4, 5, 6, 9], "int32"))


def printed(*words: object, status: int = 0) -> dict[str, Any]:
    result = ptokit_(*words, "--json")
    assert result.exit_code == status, result.output
    return json.loads(result.stdout)


# --- run ---------------------------------------------------------------------------------------------------------


def test_a_clean_run_gives_values_and_a_report() -> None:
    message = fine("run", *PICK, *MACHINE, "--out", "out=y.npy")
    assert np.array_equal(np.load("y.npy"), X[[0, 1, 2, 3, 4, 5, 6, 7]])
    assert message.startswith("pick on a5: 1 block, machine, ")
    assert "\na5, 1 block: clean" in message
    sections = [line for line in message.splitlines() if line in ("memory", "time", "traffic", "lanes")]
    assert sections == ["memory", "time", "traffic"]
    assert " cycles" in message and "index 0x" in message


def test_a_finding_of_the_machine_is_status_1_with_its_place_on_standard_output() -> None:
    assert fine("run", *RACY, "--target", "a5")
    result = ptokit_("run", *RACY, *MACHINE, "--out", "out=y.npy")
    assert result.exit_code == 1
    assert "\na5, 1 block: 1 error" in result.stdout
    assert "\nmanual.py:8: error [" in result.stdout and "\n    fix: pto.set_flag(" in result.stdout
    assert result.stderr == ""
    assert np.array_equal(np.load("y.npy"), X)  # the machine continues


def test_json_has_the_parts_of_the_report() -> None:
    result = ptokit_("run", *RACY, *MACHINE, "--json")
    report = json.loads(result.stdout)
    assert result.exit_code == 1 and "manual.py:8: error [" in result.stderr
    assert (report["engine"], report["ok"], report["target"]) == ("machine", False, "a5")
    (finding,) = [finding for finding in report["findings"] if finding["level"] == "error"]
    assert finding["where"] == {"file": "manual.py", "line": 8, "column": None}
    assert [*report][-5:] == ["memory", "timeline", "traffic", "lanes", "lane_totals"]
    assert report["memory"]["UB"]["tiles"] == [["t", 0, 512]]
    assert report["timeline"]["cycles"] > 0
    assert [each["instruction"] for each in report["traffic"]] == ["tload", "tstore"]
    assert report["lanes"] == []
    assert "memory" not in printed("run", *RACY, "--target", "a5")


def test_the_page_names_these_parts() -> None:
    page = (Path(__file__).resolve().parent.parent.parent / "docs/cli.md").read_text(encoding="utf-8")
    table = page.partition("`run --engine machine` has these as well:\n")[2].partition("\nA finding:")[0]
    assert re.findall(r"^\| `(\w+)`", table, re.MULTILINE) == [*PARTS]


def test_lanes_are_reported_on_request() -> None:
    message = fine("run", *PICK, *MACHINE, "--lanes")
    assert "\nlanes\n" in message and "7 in bounds, 1 clamped" in message
    (lanes,) = printed("run", *PICK, *MACHINE, "--lanes")["lanes"]
    assert lanes["code"] == [*["in bounds"] * 7, "clamped"] and lanes["cell"] == [0, 1, 2, 3, 4, 5, 6, 7]


def test_the_timeline_is_a_trace_for_perfetto(folder: Path) -> None:
    fine("run", *PICK, *MACHINE, "--timeline", "trace.json", "--out", "out=y.npy")
    trace = json.loads((folder / "trace.json").read_text(encoding="utf-8"))
    assert {event["name"] for event in trace["traceEvents"] if event["ph"] == "X"} >= {"tload", "mgather", "tstore"}
    assert (folder / "y.npy").exists()


def test_a_target_without_pipes_has_no_timeline(folder: Path) -> None:
    words = ("run", *PICK, "--engine", "machine", "--target", "cpu")
    assert "cpu has no pipes" in misuse(*words, "--timeline", "trace.json", "--out", "out=y.npy")
    assert not (folder / "trace.json").exists() and not (folder / "y.npy").exists()
    assert printed(*words)["timeline"] is None


def test_a_finding_in_a_text_shows_its_line(folder: Path) -> None:
    saved(folder / "bins.npy", np.array([[3, 3, 9, 70] * 4], "int32"))
    words = ("run", "-", "--arg", "bins=bins.npy", "--out", "counts=counts.npy", *MACHINE)
    assert "\na5, 1 block: clean" in fine(*words, given=TEXT)
    result = ptokit_(*words, given=TEXT.replace(".atomic_add", ""))
    assert result.exit_code == 1
    assert "<stdin>:7:1: error [MS-CONF-02, H-14] " in result.stdout
    assert "\n    mscatter.elem.skip %counts, %ones, %index" in result.stdout and "\n    ^\n" in result.stdout


def test_a_seed_is_another_legal_schedule_and_a_clean_program_does_not_mind() -> None:
    for seed in range(3):
        fine("run", *PICK, *MACHINE, "--seed", seed, "--out", f"out=y{seed}.npy")
        assert np.array_equal(np.load(f"y{seed}.npy"), np.load("y0.npy"))


def test_a_sample_of_the_blocks() -> None:
    shown = fine("run", *PICK, *MACHINE, "--grid", 9, "--blocks", "last")
    assert "\na5, 1 of 9 blocks: " in shown
    assert printed("run", *PICK, *MACHINE, "--grid", 9, "--blocks", "3")["blocks"] == 1


def test_a_launch_by_function_pointer_hangs_on_a5() -> None:
    assert fine("run", *PICK, *MACHINE, "--launch", "standard")
    report = printed("run", *PICK, *MACHINE, "--launch", "function_pointer", status=1)
    assert "H-23" in {finding["kind"] for finding in report["findings"]}


def test_dynamic_memory_is_the_launch_s_to_ask_for() -> None:
    words = ("manual:large", "--arg", "table=f32[64,16]", "--arg", "ids=i32[2500]", "--arg", "out=f32[2500,16]")
    report = printed("run", *words, *MACHINE, status=1)
    assert "H-20" in {finding["kind"] for finding in report["findings"]}
    assert fine("run", *words, *MACHINE, "--dyn-ub", 40 * 1024)


def test_notes_are_shown_on_request() -> None:
    words = ("run", *PICK, "--engine", "machine", "--target", "a2a3")
    notes = [f for f in printed(*words)["findings"] if f["level"] == "note"]
    plain, full = fine(*words), fine(*words, "--notes")
    assert ": note [" not in plain
    assert full.count(": note [") == len(notes)


@pytest.mark.parametrize("option", ["--seed=1", "--blocks=last", "--lanes", "--timeline=t.json", "--notes"])
def test_options_of_the_machine_are_for_the_machine(option: str, folder: Path) -> None:
    assert f"{option.partition('=')[0]}: for --engine machine only" in misuse("run", *PICK, option)
    assert not (folder / "t.json").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--timeline", "no/such/place.json"), "there is no directory"),
        (("--timeline", "y.npy", "--out", "out=y.npy"), "same file"),
        (("--seed", "-1"), "--seed"),
        (("--launch", "sideways"), "--launch"),
        (("--blocks", "middle"), "--blocks: blocks takes block numbers"),
        (("--blocks", "1"), "block 1, but the grid has 1"),
    ],
)
def test_misuse(words: tuple[str, ...], message: str, folder: Path) -> None:
    assert message in misuse("run", *PICK, *MACHINE, *words)
    assert not (folder / "y.npy").exists()


def test_a_violated_rule_that_is_no_hazard_is_reported_and_nothing_is_saved(folder: Path) -> None:
    saved(folder / "ids.npy", np.zeros(8, "int32"))
    result = ptokit_("run", *PICK[:3], "--arg", "ids=ids.npy", "--arg", "out=f32[4,16]", *MACHINE, "--out", "out=y.npy")
    assert result.exit_code == 1 and "error [" in result.stdout
    assert "nothing was written" in result.stderr
    assert not (folder / "y.npy").exists()


def test_a_misaligned_tile_is_reported_and_the_result_is_saved(folder: Path) -> None:
    words = ("manual:narrow", "--arg", "x=f32[8,4]", "--arg", "out=f32[8,4]", *MACHINE, "--out", "out=y.npy")
    result = ptokit_("run", *words)
    assert result.exit_code == 1 and "error [CO-ALIGN-01" in result.stdout
    assert result.stderr == ""
    assert (folder / "y.npy").exists()


def test_a_read_of_an_unwritten_tile_is_reported_once_by_a_check_with_a_run() -> None:
    words = ("manual:unwritten", "--arg", "table=f32[64,16]", "--arg", "out=f32[8,16]")
    assert "KN-19, H-42" in ptokit_("check", *words).stdout
    shown = ptokit_("check", *words, "--run").stdout
    assert "H-42" in shown and "KN-19" not in shown and "H-36" not in shown


# --- check -------------------------------------------------------------------------------------------------------


def test_a_check_with_a_run_adds_what_the_machine_finds() -> None:
    assert fine("check", *RACY)
    result = ptokit_("check", *RACY, "--run")
    assert result.exit_code == 1
    verdicts = [line.split(";")[0] for line in result.stdout.splitlines() if line.startswith(("cpu", "a2a3", "a5"))]
    assert verdicts == ["cpu: accepted", "a2a3: refused", "a5: refused"]
    assert result.stdout.count("manual.py:8: error [") == 2
    assert fine("check", *RACY, "--run", "--target", "cpu")


def test_every_target_runs_on_arrays_of_its_own(folder: Path) -> None:
    words = ("kernels:double", "--arg", "x=x.npy", "--arg", "out=x.npy", "--grid", 2, "--run")
    before = (folder / "x.npy").read_bytes()
    fine("check", *words)
    assert (folder / "x.npy").read_bytes() == before


def test_nothing_is_said_twice(folder: Path) -> None:
    saved(folder / "column.npy", np.zeros((8, 1), "int32"))
    words = ("kernels:column", "--arg", "table=f32[100,16]", "--arg", "ids=column.npy", "--arg", "out=f32[8,16]")
    plain = ptokit_("check", *words, "--target", "a2a3").stdout
    with_run = ptokit_("check", *words, "--target", "a2a3", "--run").stdout
    assert plain.count("error [MG-MODE-03") == with_run.count("error [MG-MODE-03") == 1


def test_json_of_a_check_with_a_run(folder: Path) -> None:
    saved(folder / "same.npy", np.array([1, 2, 3, 1, 4, 5, 6, 7], "int32"))
    words = ("manual:spread", "--arg", "ids=same.npy", "--arg", "x=x.npy", "--arg", "table=f32[8,16]")
    plain = printed("check", *words, "--target", "a5")["targets"]["a5"]
    found = printed("check", *words, "--target", "a5", "--run", status=1)["targets"]["a5"]
    assert plain["accepted"] and not found["accepted"]
    assert [f["kind"] for f in found["findings"] if f not in plain["findings"]] == ["H-14"]
    assert [*found] == [*plain]


def test_a_run_needs_the_arrays() -> None:
    assert "out" in misuse("check", "manual:racy", "--arg", "x=x.npy", "--run")


def test_an_index_that_leaves_the_table_is_a_finding_of_the_check(folder: Path) -> None:
    words = ("kernels:pick", "--arg", "table=x.npy", "--arg", "ids=ids.npy", "--arg", "out=f32[8,16]")
    report = printed("check", *words, "--run", status=1)
    assert all("H-10" in {f["kind"] for f in target["findings"]} for target in report["targets"].values())
