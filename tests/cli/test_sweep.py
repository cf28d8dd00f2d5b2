"""`ptokit sweep` and `ptokit trace`."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pytest

from ptokit.cli.problems import Misuse
from ptokit.cli.sweep import filled
from tests.cli.shell import fine, misuse, ptokit_

ARRAYS = ("--arg", "x=f32[64,16]", "--arg", "out=f32[64,16]")
DOUBLE = ("kernels:double", *ARRAYS)
SOURCE = """\
#include <pto/pto-inst.hpp>
using namespace pto;
#ifndef WIDTH
#error "WIDTH is needed"
#endif

extern "C" __global__ AICORE void copy(__gm__ float *x, __gm__ float *out, int n)
{
    using Row = GlobalTensor<float, Shape<1, 1, 1, 1, WIDTH>, Stride<1, 1, 1, WIDTH, 1>>;
    Tile<TileType::Vec, float, 1, WIDTH> part;
    TASSIGN(part, 0x0);
    for (int i = 0; i < n / WIDTH; ++i) {
        Row from(x + i * WIDTH), to(out + i * WIDTH);
        TLOAD(part, from);
        set_flag(PIPE_MTE2, PIPE_MTE3, EVENT_ID0);
        wait_flag(PIPE_MTE2, PIPE_MTE3, EVENT_ID0);
        TSTORE(to, part);
        set_flag(PIPE_MTE3, PIPE_MTE2, EVENT_ID1);
        wait_flag(PIPE_MTE3, PIPE_MTE2, EVENT_ID1);
    }
}
"""


def cycles_of(*words: object) -> float:
    """The cycles that `run` reports."""
    return json.loads(fine("run", *words, "--engine", "machine", "--json"))["timeline"]["cycles"]


# --- sweeps


def test_a_sweep_prints_a_row_for_each_point_and_the_best_ones() -> None:
    printed = fine("sweep", *DOUBLE, "--param", "rows=4,16", "--grid", "{64/rows}", "--target", "a2a3,a5")
    head, *lines = printed.splitlines()
    assert head.split() == ["target", "rows", "cycles", "us", "moved", "efficiency", "UB", "best", "verdict"]
    assert [line.split()[:2] for line in lines[:4]] == [["a2a3", "4"], ["a2a3", "16"], ["a5", "4"], ["a5", "16"]]
    best = [line for line in lines[4:] if not line.startswith("    ")]
    assert [line.split(":")[0] for line in best] == ["best on a2a3", "best on a5"]
    for line in lines[:4]:
        target, rows, cycles = line.split()[:3]
        words = ("--arg", f"rows={rows}", "--grid", 64 // int(rows), "--target", target)
        assert cycles == f"{cycles_of(*DOUBLE, *words):,.0f}"


@pytest.mark.parametrize("width", [30, 90, 200])
def test_a_sweep_fits_the_terminal(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("sweep", *DOUBLE, "--param", "rows=4,10000", "--target", "a2a3")
    monkeypatch.delenv("COLUMNS", raising=False)
    whole = fine(*words)
    monkeypatch.setenv("COLUMNS", str(width))
    shown = fine(*words)
    assert max(map(len, shown.splitlines())) <= width < max(map(len, whole.splitlines())) or shown == whole
    assert ("cycles 1" in shown.replace("\n", " ")) == (width == 30)  # a row is folded
    assert "refused: 1 error" in " ".join(shown.split())


def test_arrays_follow_parameters(folder: Path) -> None:
    words = ("--param", "n=32,64", "--arg", "x=f32[{n},16]", "--arg", "out=f32[{n},16]", "--grid", "{n/4}")
    data = json.loads(fine("sweep", "kernels:double", *words, "--target", "a5", "--json", "-o", "points.csv"))
    assert [row["params"] for row in data["rows"]] == [{"n": 32}, {"n": 64}]
    assert [row["moved"] for row in data["rows"]] == [2 * n * 16 * 4 for n in (32, 64)]
    assert data["best"]["a5"]["params"] == {"n": 64} and data["file"] == "points.csv"
    lines = [*csv.DictReader((folder / "points.csv").read_text(encoding="utf-8").splitlines())]
    assert [float(line["cycles"]) for line in lines] == [row["cycles"] for row in data["rows"]]
    fine("sweep", "kernels:double", *words, "--target", "a5", "-o", "points.json")
    written = json.loads((folder / "points.json").read_text(encoding="utf-8"))
    assert written == {name: data[name] for name in ("kernel", "rows", "best")}


def test_a_sweep_draws_a_picture(folder: Path) -> None:
    pytest.importorskip("matplotlib", reason="pictures need matplotlib")
    fine("sweep", *DOUBLE, "--param", "rows=4,16", "--target", "a5", "-o", "points.svg")
    assert b"<svg" in (folder / "points.svg").read_bytes()


def test_a_sweep_without_a_clean_point_is_a_finding() -> None:
    words = ("--arg", "table=f32[{n},16]", "--arg", "ids=i32[8,1]", "--arg", "out=f32[8,16]", "--param", "n=16,32")
    result = ptokit_("sweep", "kernels:column", *words, "--target", "a2a3")
    assert result.exit_code == 1 and result.stdout.count("refused: 1 error") == 2


def test_repeated_values_and_targets_without_times() -> None:
    printed = fine("sweep", *DOUBLE, "--param", "rows=4,4", "--target", "cpu").splitlines()
    assert len(printed) == 3
    assert printed[-1] == "no best point on cpu: it has no pipes, so the machine has no model of its time"


def test_misuse_of_a_sweep() -> None:
    double = ("sweep", *DOUBLE)
    assert "a sweep needs --param NAME=VALUE,VALUE,..." in misuse(*double)
    assert "did you mean rows?" in misuse(*double, "--param", "row=4")
    assert "{n}: there is no --param n" in misuse(*double, "--param", "rows=4", "--grid", "{n}")
    assert "rows is given by --param and by --arg" in misuse(*double, "--param", "rows=4", "--arg", "rows=4")
    assert "--param rows takes values" in misuse(*double, "--param", "rows=4,,8")
    assert "a whole number from 0 up; found -1" in misuse(*double, "--param", "rows=4", "--grid", "-1")
    assert "unknown target 'a9'" in misuse(*double, "--param", "rows=4", "--target", "a5,a9")
    assert "ends in .csv, .json, .svg, .png; found a.txt" in misuse(*double, "--param", "rows=4", "-o", "a.txt")
    assert "there is no directory" in misuse(*double, "--param", "rows=4", "-o", "none/a.csv")
    assert "1 to 1,000 points" in misuse(*double, "--param", f"rows={','.join(map(str, range(1, 1100)))}")


def test_a_picture_without_matplotlib_is_refused_before_any_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ptokit.cli.sweep.missing", lambda: "a picture needs matplotlib")
    assert "cannot write a.svg: a picture needs matplotlib" in misuse(
        "sweep", "none:k", "--param", "a=1", "-o", "a.svg"
    )


@pytest.mark.parametrize(
    ("word", "found"),
    [
        ("x=f32[{rows},64]", "x=f32[16,64]"),
        ("{ rows * 4 }", "64"),
        ("{100/rows}", "7"),
        ("{rows/3*2}{kind}", "12f32"),
        ("plain", "plain"),
        ("{2*rows/rows}", "2"),
    ],
)
def test_braces(word: str, found: str) -> None:
    assert filled(word, {"rows": 16, "kind": "f32"}) == found


@pytest.mark.parametrize(
    "word",
    ["{}", "{rows+1}", "{rows**2}", "{rows rows}", "{*rows}", "{rows*}", "{rows.real}", "{f()}", "{rows[0]}", "{'a'}",
     "{kind*2}", "{rows/0}", "{rows//2}", "{-rows}", "{" + "9" * 19 + "}", "{rows}" + "x" * 1000],
)  # fmt: skip
def test_braces_hold_nothing_else(word: str) -> None:
    with pytest.raises(Misuse):
        filled(word, {"rows": 16, "kind": "f32"})


def test_a_parameter_of_a_text_is_one_of_its_integers(folder: Path) -> None:
    words = ("--param", "n=1,2", "--arg", "x=f32[8,16]", "--arg", "out=f32[8,16]", "--target", "a5")
    fine("convert", "kernels:shift", *words[2:6], "--arg", "n=1", "--to", "as", "--target", "a5", "-o", "shift.ptoas")
    data = json.loads(fine("sweep", "shift.ptoas", *words, "--json"))
    assert [row["moved"] for row in data["rows"]] == [2 * (8 - n) * 16 * 4 for n in (1, 2)]


@pytest.mark.skipif(not (shutil.which("g++") or shutil.which("clang++")), reason="needs a C++ compiler")
def test_parameters_of_cpp_are_macros_and_its_traces_have_its_cycles(folder: Path) -> None:
    (folder / "copy.cpp").write_text(SOURCE, encoding="utf-8")
    arrays = ("--arg", "x=f32[256]", "--arg", "out=f32[256]", "--arg", "n=256", "--target", "a5")
    data = json.loads(fine("sweep", "copy.cpp", *arrays, "--param", "WIDTH=64,128", "--json"))
    assert [row["params"]["WIDTH"] for row in data["rows"]] == [64, 128]
    assert [row["memory"]["UB"] for row in data["rows"]] == [256, 512]
    assert data["best"]["a5"]["params"] == {"WIDTH": 128}
    assert "4 transfers instead of 8" in data["best"]["a5"]["reason"]
    unused = misuse("sweep", "copy.cpp", *arrays, "-D", "WIDTH=64", "--param", "WIDHT=1,2")
    assert "--param WIDHT: copy.cpp has no parameter of this name, and does not use such a macro" in unused
    assert "did you mean WIDTH?" in unused
    traced = json.loads(fine("trace", "copy.cpp", *arrays, "-D", "WIDTH=128", "--json"))
    assert traced["cycles"] == data["rows"][1]["cycles"] == launch_in(folder / "trace.json")["args"]["cycles"]


# --- traces


def launch_in(file: Path) -> dict:
    """The slice of the whole launch."""
    events = json.loads(file.read_text(encoding="utf-8"))["traceEvents"]
    (launch,) = [event for event in events if event["name"] == "launch" and event["ph"] == "X"]
    return launch


def test_a_trace_has_the_cycles_of_the_report(folder: Path) -> None:
    words = (*DOUBLE, "--grid", 16, "--target", "a5")
    printed = fine("trace", *words)
    launch = launch_in(folder / "trace.json")
    assert launch["args"]["cycles"] == cycles_of(*words) and launch["args"]["blocks"] == 16
    size = (folder / "trace.json").stat().st_size
    assert printed == (
        f"a5: no findings; {launch['args']['cycles']:,.0f} cycles\n"
        f"trace.json: {size:,} bytes; open it in https://ui.perfetto.dev\n"
    )


def test_run_and_trace_write_the_same(folder: Path) -> None:
    words = (*DOUBLE, "--grid", 2, "--target", "a5")
    fine("trace", *words, "-o", "a.json")
    fine("run", *words, "--engine", "machine", "--timeline", "b.json")
    assert (folder / "a.json").read_bytes() == (folder / "b.json").read_bytes()


def test_a_trace_of_a_text(folder: Path) -> None:
    fine("convert", "kernels:double", *ARRAYS, "--to", "l2", "--target", "a5", "-o", "double.pto")
    fine("trace", "double.pto", *ARRAYS, "--grid", 2, "--target", "a5")
    fine("trace", *DOUBLE, "--grid", 2, "--target", "a5", "-o", "python.json")
    assert launch_in(folder / "trace.json")["args"] == launch_in(folder / "python.json")["args"]


def test_the_first_target_that_accepts_is_traced(folder: Path) -> None:
    data = json.loads(fine("trace", *DOUBLE, "--json"))
    assert data["target"] == "a2a3" and data["file"] == "trace.json" and data["ok"] and data["modelled"]
    assert data["bytes"] == (folder / "trace.json").stat().st_size


def test_findings_decide_the_status_of_a_trace(folder: Path) -> None:
    words = ("--arg", "table=f32[16,16]", "--arg", "ids=i32[8,1]", "--arg", "out=f32[8,16]", "--target", "a2a3")
    result = ptokit_("trace", "kernels:column", *words)
    assert result.exit_code == 1 and "a2a3: 1 error" in result.stdout and (folder / "trace.json").exists()


def test_misuse_of_a_trace(folder: Path) -> None:
    assert "cpu has no pipes" in misuse("trace", *DOUBLE, "--target", "cpu")
    assert "this command takes one target, not all" in misuse("trace", *DOUBLE, "--target", "all")
    assert "or use `check` or `report`" in misuse("trace", "kernels.py")
    assert "-o takes a file that ends in .json; found a.txt" in misuse("trace", *DOUBLE, "-o", "a.txt")
    assert "there is no directory" in misuse("trace", *DOUBLE, "-o", "none/a.json")
    assert [*folder.glob("*.json")] == []
