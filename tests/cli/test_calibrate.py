"""`ptokit calibrate`, `--costs` and `--cores`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ptokit as pto
from ptokit.cli.measured_operators import OPERATORS, operator
from ptokit.machine.costs import Costs, read_costs
from ptokit.target import profile
from tests.cli.shell import fine, misuse, ptokit_, saved

KERNEL = """\
import pathlib
import ptokit as pto

pathlib.Path("imported").touch()


@pto.kernel
def lookup(table, tokens, out, rows: pto.const = 16):
    i = pto.block_idx()
    ids = pto.Tile("vec", "int32", 1, rows)
    t = pto.Tile("vec", "float32", rows, 32)
    pto.tload(ids, tokens[i : i + 1])
    pto.mgather(t, table, ids)
    pto.tstore(out[i * rows : (i + 1) * rows], t)
"""
ARGS = {"table": "f32[100,32]", "tokens": {"array": "i32[4,16]", "below": 100}, "out": "f32[64,32]"}
ARRAYS = "Input Shapes,Input Data Types,Output Shapes,Output Data Types"
HEADER = "Device_id,Op Name,OP Type,Task Duration(us),{blocks}," + ARRAYS
WILD = {"array": "i32[4,16]", "below": 9999}
ROW = '0,{name},{type},{time},{blocks},"100,32;4,16",FLOAT;INT32,"64,32",FLOAT'


@pytest.fixture(autouse=True)
def files(folder: Path) -> None:
    (folder / "book.py").write_text(KERNEL, encoding="utf-8")


def trace(folder: Path, *measurements: object, target: str | None = "a5", name: str = "trace.json") -> Path:
    data = {"format": 1, "target": target, "measurements": list(measurements)}
    (folder / name).write_text(json.dumps(data), encoding="utf-8")
    return folder / name


def loads(cycles: float = 1.0) -> list[dict[str, Any]]:
    """Loads that bandwidth and bursts determine, with times of the model under other costs."""
    costs = Costs(profile("a5"), {"GM to UB GB/s": 60.0})
    found = []
    for rows, cols in ((16, 1024), (32, 512), (8, 2048), (64, 64), (256, 16)):
        for repeat in (8, 16, 32):
            given = {"rows": rows, "cols": cols, "repeat": repeat}
            kernel, args = operator("load", given, 1)
            record = kernel[1](*args, target="a5", engine="machine").timeline.record
            found.append({"operator": "load", **given, "microseconds": cycles * record.cycles(costs) / 1850})
    return found


def test_a_trace_gives_a_table_that_the_machine_takes(folder: Path) -> None:
    trace(folder, *loads())
    shown = fine("calibrate", "trace.json", "-o", "fitted.json")
    assert shown.splitlines()[0].startswith("a5, 15 measurements, noise 1.")
    assert "load, rows 16, cols 1024, repeat 8" in shown and "written into fitted.json" in shown
    assert "not fitted: clock GHz, cache line bytes" in shown
    data = json.loads((folder / "fitted.json").read_text(encoding="utf-8"))
    assert (data["format"], data["target"]) == (1, "a5")
    assert data["costs"]["GM to UB GB/s"] == pytest.approx(60, rel=0.02)
    assert data["errors"].keys() == data["costs"].keys() and not data["costs"].keys() & data["kept"].keys()
    assert read_costs("fitted.json") == data["costs"]

    saved(folder / "x.npy", np.zeros((64, 64), "float32"))
    launch = ("book.py:lookup", "--arg", "table=f32[100,32]", "--arg", "tokens=i32[4,16]", "--arg", "out=f32[64,32]")
    machine = ("--grid", "4", "--target", "a5", "--engine", "machine", "--json")
    usual = json.loads(fine("run", *launch, *machine))["timeline"]["cycles"]
    slower = json.loads(fine("run", *launch, *machine, "--costs", "fitted.json"))["timeline"]["cycles"]
    assert slower > usual
    kernel, args = operator("load", {}, 1)
    by_path = kernel[1](*args, target="a5", engine="machine", options=pto.MachineOptions(costs=folder / "fitted.json"))
    by_name = kernel[1](*args, target="a5", engine="machine", options=pto.MachineOptions(costs=data["costs"]))
    assert by_path.timeline.cycles == by_name.timeline.cycles


def test_calibration_as_json_and_from_given_costs(folder: Path) -> None:
    trace(folder, *loads())
    first = json.loads(fine("calibrate", "trace.json", "-o", "one.json", "--json"))
    assert first["command"] == "calibrate" and first["file"] == "one.json" and len(first["residuals"]) == 15
    assert max(abs(each["error"]) for each in first["residuals"]) < 0.05
    again = json.loads(fine("calibrate", "trace.json", "--costs", "one.json", "-o", "two.json", "--json"))
    assert again["costs"]["GM to UB GB/s"] == pytest.approx(60, rel=0.02)


def test_what_is_not_determined_writes_nothing(folder: Path) -> None:
    trace(folder, {"operator": "copy", "microseconds": 1.5})
    found = ptokit_("calibrate", "trace.json")
    assert found.exit_code == 1 and "no number is determined, and nothing is written" in found.stdout
    assert not (folder / "costs.json").exists()


def test_only_the_command_line_imports(folder: Path) -> None:
    trace(folder, {"kernel": "book.py:lookup", "args": ARGS, "grid": 4, "microseconds": [1.5, 1.4, 9.0]})
    assert "measurement 1: no --kernel is book.py:lookup" in misuse("calibrate", "trace.json")
    assert not (folder / "imported").exists()
    found = ptokit_("calibrate", "trace.json", "--kernel", "book.py:lookup")
    assert (folder / "imported").exists()
    assert "1.50" in found.stdout  # the median
    assert "book.py:lookup(float32[100,32], int32[4,16], float32[64,32])" in found.stdout
    named = trace(folder, {"kernel": "lookup", "args": ARGS, "grid": 4, "microseconds": 1.5})
    assert ptokit_("calibrate", named, "--kernel", "book.py:lookup").exit_code == 1


@pytest.mark.parametrize("blocks", ["Block Num", "Block Dim"])
def test_tables_of_msprof(folder: Path, blocks: str) -> None:
    rows = [
        ROW.format(name="lookup", type="Lookup", time=time, blocks=4) for time in ("90.0", "12.5\t", "12.7", "12.6")
    ]
    rows += [ROW.format(name="other", type="MatMul", time=3, blocks=1)]
    text = "\ufeff" + "\n".join([HEADER.format(blocks=blocks), *rows]) + "\n"
    (folder / "op_summary.csv").write_text(text, encoding="utf-8")
    found = ptokit_("calibrate", "op_summary.csv", "--kernel", "book.py:lookup", "--target", "a2a3", "--json")
    data = json.loads(found.stdout)
    assert data["residuals"][0]["measured"] == pytest.approx(12.6)  # the first is a warm-up
    assert len(data["residuals"]) == 1 and data["launch"] is not None


def test_the_time_inside_a_kernel_is_preferred(folder: Path) -> None:
    rows = [ROW.format(name="x", type="lookup", time=50, blocks=4) + f",{inside},N/A" for inside in ("2.5", "N/A")]
    header = HEADER.format(blocks="Block Num") + ",aiv_time(us),aicore_time(us)"
    (folder / "op.csv").write_text("\n".join([header, *rows]), encoding="utf-8")
    found = ptokit_("calibrate", "op.csv", "--kernel", "book.py:lookup", "--target", "a5", "--json")
    assert [each["measured"] for each in json.loads(found.stdout)["residuals"]] == [2.5, 50]


def test_tables_of_torch_npu(folder: Path) -> None:
    header = f"Name,Type,Accelerator Core,Duration(us),Block Dim,{ARRAYS}"
    row = 'lookup,Lookup,AI_VECTOR_CORE,5.5,4,"""100,32;4,16""",DT_FLOAT;DT_INT32,"""64,32""",DT_FLOAT'
    (folder / "kernel_details.csv").write_text(f"{header}\n{row}\n", encoding="utf-8")
    found = ptokit_("calibrate", "kernel_details.csv", "--kernel", "book.py:lookup", "--target", "a5", "--json")
    assert json.loads(found.stdout)["residuals"][0]["measured"] == 5.5


GOOD = {"operator": "load", "microseconds": 1.0}


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (5, "measurement 2: a measurement is an object"),
        ({"microseconds": 1}, 'measurement 2: it needs the name of a "kernel" or of an "operator"'),
        ({**GOOD, "kernel": "a:b"}, 'measurement 2: it needs the name of a "kernel" or of an "operator"'),
        ({**GOOD, "operator": "laod"}, "measurement 2: unknown operator 'laod'; known: copy, load"),
        ({**GOOD, "rwos": 3}, "measurement 2: load has no 'rwos'; it has rows, cols, repeat, dtype"),
        ({**GOOD, "rows": 0}, "measurement 2: rows takes a whole number from 1 up to 4,096, found 0"),
        ({**GOOD, "dtype": "complex64"}, "measurement 2: dtype is one of float32"),
        ({**GOOD, "grid": 1.5}, 'measurement 2: "grid" takes a whole number from 1 up'),
        ({**GOOD, "microseconds": 0}, 'measurement 2: "microseconds" are numbers above 0, found 0'),
        ({**GOOD, "microseconds": []}, 'measurement 2: "microseconds" takes a number or an array'),
        ({**GOOD, "microseconds": "1"}, "measurement 2: \"microseconds\" are numbers above 0, found '1'"),
        ({**GOOD, "launch": 1}, 'measurement 2: "launch" is true or false'),
        ({**GOOD, "rows": 4096, "cols": 65536}, "measurement 2: load over 1 blocks has more than 67,108,864 elements"),
        ({**GOOD, "operator": "gather", "table": 1 << 20, "cols": 512}, "measurement 2: gather over 1 blocks has more"),
        ({**GOOD, "rows": 4096, "cols": 64}, "measurement 2: "),  # does not fit into the memory
        ({"kernel": "lookup", "microseconds": 1, "rows": 2}, "measurement 2: unknown field 'rows'"),
        ({"kernel": "lookup", "microseconds": 1, "args": [1]}, 'measurement 2: "args" are the arguments of a kernel'),
        ({"kernel": "lookup", "microseconds": 1, "args": {"out": {"array": "f32"}}}, "measurement 2: out: a type and"),
        ({"kernel": "lookup", "microseconds": 1, "args": {"out": "f32[99999999,9]"}}, "measurement 2: its arrays have"),
        ({"kernel": "lookup", "microseconds": 1, "args": {"out": None}}, "measurement 2: out: an argument is a number"),
        ({"kernel": "lookup", "microseconds": 1, "args": {"out": "f32[4,32]"}}, "measurement 2: lookup: missing"),
        (
            {"kernel": "lookup", "microseconds": 1, "grid": 4, "args": {**ARGS, "tokens": WILD}},
            "measurement 2: mgather",
        ),
    ],
)
def test_bad_measurements_are_named(folder: Path, entry: object, message: str) -> None:
    trace(folder, GOOD, entry)
    assert message in misuse("calibrate", "trace.json", "--kernel", "book.py:lookup")
    assert not (folder / "costs.json").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"format": 1,\n "measurements": [}', "trace.json:2:19: no JSON"),
        ('{"format": 2, "measurements": []}', "trace.json: a trace is an object with"),
        ('{"format": 1, "measurements": [], "x": 1}', "trace.json: unknown field 'x'"),
        ('{"format": 1, "measurements": [], "format": 1}', "trace.json: the field 'format' is given twice"),
        ('{"format": 1, "target": "a5", "measurements": []}', "trace.json has no measurements"),
        ('{"format": 1, "measurements": [{"operator": "load", "microseconds": 1}]}', "names no target; give --target"),
        ('{"format": 1, "target": "a6", "measurements": [{"operator": "load", "microseconds": 1}]}', "a6"),
        (
            '{"format": 1, "target": "cpu", "measurements": [{"operator": "add", "microseconds": 1}]}',
            "cpu has no costs",
        ),
        ('{"format": 1, "measurements": [{"operator": "load", "microseconds": NaN}]}', "NaN is no number of JSON"),
        ("[" * 100_000, "trace.json: "),
        ("a,b\n1,2\n", "trace.json:1: neither JSON nor a table of operators: it has no column 'Op Name' or 'Name'"),
        ("", "trace.json:1: neither JSON nor a table"),
    ],
)
def test_what_is_no_trace_is_refused(folder: Path, text: str, message: str) -> None:
    (folder / "trace.json").write_text(text, encoding="utf-8")
    assert message in misuse("calibrate", "trace.json")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"time": "fast"}, "op.csv:2: a number from 0 up is needed, found 'fast'"),
        ({"time": 0}, "op.csv:2: the time is 0"),
        ({"blocks": 1.5}, "op.csv:2: a number of blocks from 1 up"),
        ({"name": "other", "type": "other"}, "op.csv has no measurements; 1 row of other operators"),
    ],
)
def test_bad_rows_are_named(folder: Path, change: dict[str, object], message: str) -> None:
    row = ROW.format(**{"name": "lookup", "type": "Lookup", "time": 5, "blocks": 4, **change})
    (folder / "op.csv").write_text(HEADER.format(blocks="Block Num") + f"\n{row}\n", encoding="utf-8")
    assert message in misuse("calibrate", "op.csv", "--kernel", "book.py:lookup", "--target", "a5")


def test_rows_whose_shapes_do_not_match(folder: Path) -> None:
    rows = {
        '0,lookup,L,5,4,"100,32;4,16",FLOAT,"64,32",FLOAT': "op.csv:2: 2 shapes and 1 types do not match",
        '0,lookup,L,5,4,"100,32",FLOAT,"64,32",FLOAT': "op.csv:2: 2 inputs and outputs do not match",
        '0,lookup,L,5,4,"100,32;4,16",FLOAT;STRING,"64,32",FLOAT': "op.csv:2: ",
        '0,lookup,L,5,4,"100,x;4,16",FLOAT;INT32,"64,32",FLOAT': "op.csv:2: ",
    }
    for row, message in rows.items():
        (folder / "op.csv").write_text(HEADER.format(blocks="Block Num") + f"\n{row}\n", encoding="utf-8")
        assert message in misuse("calibrate", "op.csv", "--kernel", "book.py:lookup", "--target", "a5")


def test_a_trace_of_another_target_is_refused(folder: Path) -> None:
    trace(folder, GOOD)
    assert "is of a5, not of a2a3" in misuse("calibrate", "trace.json", "--target", "a2a3")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is no JSON"),
        ("{}", 'is no cost table: it has no "format": 1'),
        ('{"format": 1, "target": "a5"}', "is no cost table"),
        ('{"format": 1, "target": "a5", "costs": {"flag cycles": "20"}}', "the cost 'flag cycles' takes a number"),
        ('{"format": 1, "target": "a5", "costs": {"flag cyles": 20}}', "a5 has no cost 'flag cyles'"),
        ('{"format": 1, "target": "a2a3", "costs": {"flag cycles": 20}}', "the costs are those of a2a3, not of a5"),
    ],
)
def test_what_is_no_cost_table_is_refused(folder: Path, text: str, message: str) -> None:
    (folder / "c.json").write_text(text, encoding="utf-8")
    launch = ("book.py:lookup", "--arg", "table=f32[100,32]", "--arg", "tokens=i32[1,16]", "--arg", "out=f32[16,32]")
    options = ("--target", "a5", "--engine", "machine", "--costs", "c.json")
    assert message in misuse("run", *launch, *options)
    assert "there.json" in misuse("run", *launch, *options[:-1], "there.json")


def test_cores_are_an_option(folder: Path) -> None:
    launch = ("book.py:lookup", "--arg", "table=f32[100,32]", "--arg", "tokens=i32[80,16]", "--arg", "out=f32[1280,32]")
    machine = ("--grid", "80", "--target", "a5", "--engine", "machine", "--json")
    usual = json.loads(fine("run", *launch, *machine))["timeline"]
    few = json.loads(fine("run", *launch, *machine, "--cores", "8"))["timeline"]
    assert (usual["cores"], usual["waves"], few["cores"], few["waves"]) == (64, 2, 8, 10)
    assert few["cycles"] == pytest.approx(5 * usual["cycles"])
    assert "--cores: for --engine machine only" in misuse("run", *launch, "--cores", "8")


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_operators_run_on_both_targets(name: str, target: str) -> None:
    given: dict[str, object] = {"dtype": "float16"} if name == "matmul" else {}
    for grid in (1, 3):
        kernel, args = operator(name, given, grid)
        assert kernel[grid](*args, target=target, engine="machine").ok
