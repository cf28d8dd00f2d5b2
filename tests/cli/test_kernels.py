"""`check`, `run`, `convert` and `show` of kernels in Python modules."""

from __future__ import annotations

import json
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from ptokit.target import PROFILES
from tests.cli.shell import fine, misuse, ptokit_, saved

X = np.arange(160, dtype="float32").reshape(10, 16)
DOUBLE = ("kernels:double", "--arg", "x=x.npy", "--arg", "out=f32[10,16]", "--grid", 3)
SHAPES = ("--arg", "x=f32[10,16]", "--arg", "out=f32[10,16]")
PICK = ("--arg", "table=f32[100,16]", "--arg", "out=f32[8,16]")


@pytest.fixture(autouse=True)
def x(folder: Path) -> Path:
    return saved(folder / "x.npy", X)


# --- check -----------------------------------------------------------------------------------------------------


def test_a_kernel_that_all_devices_take() -> None:
    lines = fine("check", "kernels:double", *SHAPES, "--grid", 3).splitlines()
    assert lines[0] == "double over 3 blocks"
    assert [line.partition(";")[0] for line in lines[1:]] == ["cpu: accepted", "a2a3: accepted", "a5: accepted"]
    assert "UB 256 of 196,608 bytes" in lines[2]


def test_a_refusal_names_place_level_rule_message_and_mend() -> None:
    result = ptokit_("check", "kernels:column", *PICK, "--arg", "ids=i32[8,1]", "--target", "a2a3")
    assert result.exit_code == 1
    assert "kernels.py:32: error [MG-MODE-03, H-09] mgather on a2a3: idx must be valid [1, 8]" in result.stdout
    assert "\n    fix: make it a tile of 1 row" in result.stdout
    assert "a2a3: refused; 1 error; UB 768 of 196,608 bytes" in result.stdout
    assert result.stderr == ""


def test_one_target_that_refuses_is_enough_for_status_1() -> None:
    result = ptokit_("check", "kernels:column", *PICK, "--arg", "ids=i32[8,1]")
    assert result.exit_code == 1
    assert "cpu: accepted" in result.stdout and "a5: refused" in result.stdout
    assert fine("check", "kernels:column", *PICK, "--arg", "ids=i32[8,1]", "--target", "cpu")


def test_hazards_are_no_refusal_but_status_1() -> None:
    words = ("check", "kernels:column", *PICK, "--arg", "ids=i32[8,1]", "--target", "a5", "--header")
    plain = ptokit_(*words)
    assert plain.exit_code == 1 and "hazard [MG-HAZ-11, H-28]" in plain.stdout
    assert "a5: not accepted; 1 hazard; " in plain.stdout
    report = json.loads(ptokit_(*words, "--json").stdout)["targets"]["a5"]
    assert (report["accepted"], report["refused"], report["ok"]) == (False, False, False)
    strict = ptokit_(*words, "--strict")
    assert strict.exit_code == 1 and "error [MG-HAZ-11, H-28]" in strict.stdout and "a5: refused; " in strict.stdout


def test_the_level_of_status_1_can_be_moved() -> None:
    words = ("check", "kernels:column", *PICK, "--arg", "ids=i32[8,1]", "--target", "a5", "--header")
    given = {level: ptokit_(*words, "--fail-on", level) for level in ("error", "hazard", "note")}
    assert {level: result.exit_code for level, result in given.items()} == {"error": 0, "hazard": 1, "note": 1}
    assert not any("a5: accepted" in result.stdout for result in given.values())
    noted = ("check", "kernels:column", *PICK, "--arg", "ids=i32[8,1]", "--target", "cpu")
    assert "cpu: accepted" in fine(*noted)
    result = ptokit_(*noted, "--fail-on", "note")
    assert result.exit_code == 1 and "cpu: not accepted" in result.stdout
    assert "cpu: accepted" in fine(*noted)


def test_json_of_a_check_says_all_that_is_known() -> None:
    result = ptokit_("check", "kernels:column", *PICK, "--arg", "ids=i32[8,1]", "--json")
    report = json.loads(result.stdout)
    assert (report["format"], report["command"], report["kernel"], report["grid"]) == (1, "check", "column", 1)
    assert {name: target["accepted"] for name, target in report["targets"].items()} == {
        "cpu": True, "a2a3": False, "a5": False,
    }  # fmt: skip
    finding = report["targets"]["a2a3"]["findings"][0]
    assert finding["where"] == {"file": "kernels.py", "line": 32, "column": None}
    assert finding["fix"].startswith("make it a tile of 1 row")
    assert report["targets"]["a5"]["memory"]["UB"]["size"] == 131072
    assert result.exit_code == 1


def test_dynamic_memory_is_the_launch_s_to_ask_for() -> None:
    big = ("check", "kernels:double", "--arg", "x=f32[9000,16]", "--arg", "out=f32[9000,16]", "--arg", "rows=2500")
    assert fine(*big, "--target", "a5")  # nothing starts threads
    assert fine(*big, "--target", "a5", "--dyn-ub", 59 * 1024)
    assert ptokit_(*big, "--target", "a5", "--dyn-ub", 160 * 1024).exit_code == 1  # beside 160,000 static bytes


# --- run -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["cpu", "a2a3", "a5", "host"])
def test_a_run_writes_its_outputs(target: str) -> None:
    message = fine("run", *DOUBLE, "--out", "out=y.npy", "--target", target, "--engine", "reference")
    assert np.array_equal(np.load("y.npy"), 2 * X)
    assert message.startswith(f"double on {target}: 3 blocks, reference, ")
    assert "out: float32[10,16] in y.npy" in message


def test_constants_are_numbers_and_words() -> None:
    fine("run", *DOUBLE[:-2], "--arg", "rows=5", "--arg", "oob=zero", "--grid", 2, "--out", "out=y.npy")
    assert np.array_equal(np.load("y.npy"), 2 * X)


def test_whole_numbers_are_passed_on() -> None:
    saved(Path("eight.npy"), X[:8])
    for number in ("3", "0x3", "+3"):
        words = ("kernels:shift", "--arg", "x=eight.npy", "--arg", f"n={number}", "--arg", "out=f32[8,16]")
        fine("run", *words, "--out", "out=y.npy")
        assert np.array_equal(np.load("y.npy")[:5], X[3:8])


def test_inputs_are_never_changed_and_an_output_may_replace_one() -> None:
    before = Path("x.npy").read_bytes()
    fine("run", "kernels:double", "--arg", "x=x.npy", "--arg", "out=x.npy", "--out", "out=y.npy", "--grid", 3)
    assert Path("x.npy").read_bytes() == before
    fine("run", "kernels:double", "--arg", "x=x.npy", "--arg", "out=x.npy", "--out", "out=x.npy", "--grid", 3)
    assert np.array_equal(np.load("x.npy"), 2 * X)


def test_a_run_that_is_refused_writes_nothing(folder: Path) -> None:
    saved(folder / "ids.npy", np.zeros((8, 1), "int32"))
    words = ("run", "kernels:column", *PICK, "--arg", "ids=ids.npy", "--target", "a2a3")
    result = ptokit_(*words, "--out", "out=y.npy", "--out", "table=t.npy")
    assert result.exit_code == 1
    assert "MG-MODE-03" in result.stderr and result.stdout == ""
    assert sorted(path.name for path in folder.glob("[a-z.]*.npy")) == ["ids.npy", "x.npy"]


def test_a_run_that_leaves_the_table_is_a_finding(folder: Path) -> None:
    saved(folder / "ids.npy", np.array([0, 1, 2, 3, 4, 5, 6, 100], "int32"))
    words = ("run", "kernels:pick", *PICK, "--arg", "ids=ids.npy", "--out", "out=y.npy")
    result = ptokit_(*words)
    assert result.exit_code == 1
    assert "kernels.py:22: error [" in result.stderr and "100" in result.stderr
    report = json.loads(ptokit_(*words, "--json").stdout)
    assert (report["ok"], report["findings"][0]["where"]["line"], report["outputs"]) == (False, 22, {})
    assert not Path("y.npy").exists()


def test_json_of_a_run() -> None:
    report = json.loads(fine("run", *DOUBLE, "--out", "out=y.npy", "--target", "a5", "--json"))
    assert report.pop("seconds") >= 0
    assert report == {
        "format": 1, "command": "run", "kernel": "double", "grid": 3, "target": "a5", "engine": "native",
        "ok": True, "modelled": True, "findings": [], "error": None,
        "outputs": {"out": {"file": "y.npy", "dtype": "float32", "shape": [10, 16]}},
    }  # fmt: skip


def test_bfloat16_comes_from_raw_files_by_name_and_goes_back(folder: Path) -> None:
    array = X.astype(ml_dtypes.bfloat16)
    for name, stored in (("raw", array), ("bits", array.view("uint16"))):
        saved(folder / f"{name}.npy", stored)
        words = ("kernels:double", "--arg", f"x=bf16:{name}.npy", "--arg", "out=bf16[10,16]", "--grid", 3)
        fine("run", *words, "--out", "out=y.npy")
        assert np.array_equal(np.load("y.npy").view(ml_dtypes.bfloat16), 2 * array)
    assert "bf16:raw.npy" in misuse("run", "kernels:double", "--arg", "x=raw.npy", "--arg", "out=bf16[10,16]")


# --- convert and show ------------------------------------------------------------------------------------------


def test_a_kernel_becomes_cpp(folder: Path) -> None:
    source = fine("convert", "kernels:double", *SHAPES, "--to", "cpp", "--target", "a5")
    assert "__global__ AICORE void double_(" in source and "TMULS(" in source
    fine("convert", "kernels:double", *SHAPES, "--to", "cpp", "--target", "a5", "-o", "double.cpp")
    assert (folder / "double.cpp").read_text(encoding="utf-8") == source


def test_cpp_that_the_headers_refuse_is_a_finding(folder: Path) -> None:
    words = ("convert", "kernels:column", *PICK, "--arg", "ids=i32[8,1]", "--to", "cpp", "-o", "out.cpp")
    result = ptokit_(*words, "--target", "a2a3")
    assert result.exit_code == 1 and "MG-MODE-03" in result.stderr
    assert not (folder / "out.cpp").exists()
    assert "--target" in misuse(*words)
    assert "no C++ for host" in misuse(*words, "--target", "host")


def test_show_prints_the_program_with_addresses_and_flags() -> None:
    shown = fine("show", "kernels:double", *SHAPES, "--target", "a5")
    assert "double" in shown and "set_flag" in shown and " at 0x0 " in shown
    assert "needs no flags" in fine("show", "kernels:double", *SHAPES)


# --- what a word names -----------------------------------------------------------------------------------------


def test_modules_packages_and_files_can_be_named(folder: Path) -> None:
    package = folder / "pkg"
    package.mkdir()
    (package / "inner.py").write_text("from kernels import double\nclass Group:\n    kernel = double\n", "utf-8")
    for word in (
        "pkg.inner:double",
        "pkg.inner:Group.kernel",
        "pkg/../kernels.py:double",
        folder / "kernels.py:double",
    ):
        assert fine("check", word, *SHAPES, "--target", "cpu").startswith("double over 1 block\n")


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("kernels:dubble", "did you mean double?"),
        ("kernels:other_thing", "its kernels: double, pick, column, shift, careless"),
        ("kernels:plain", "put @pto.kernel above it"),
        ("kernels:NUMBER", "is no kernel but a int"),
        ("nowhere:kernel", "no module named nowhere"),
        ("nowhere/at/all.py:kernel", "there is no file nowhere/at/all.py"),
        ("broken.py:kernel", "SyntaxError"),
        ("raising:kernel", "ZeroDivisionError: division by zero"),
        ("leaving:kernel", "SystemExit: 3"),
        ("needy:kernel", "no module named not_there"),
        ("nothing.pto", "No such file"),
        ("-x:kernel", "No such option"),
        (".", "directory"),
        ("", "No such file"),
        ("\0", "null byte"),
    ],
)
def test_words_that_name_no_kernel(folder: Path, word: str, message: str) -> None:
    (folder / "broken.py").write_text("def kernel(:\n", encoding="utf-8")
    (folder / "raising.py").write_text("1 / 0\n", encoding="utf-8")
    (folder / "leaving.py").write_text("raise SystemExit(3)\n", encoding="utf-8")
    (folder / "needy.py").write_text("import not_there\n", encoding="utf-8")
    for command in ("check", "run", "show"):
        assert message in misuse(command, word)


def test_a_file_with_a_colon_in_its_name_is_a_file(folder: Path) -> None:
    (folder / "kernels:double").write_text("nonsense", encoding="utf-8")
    assert ptokit_("check", "kernels:double").exit_code == 1


def test_a_python_error_is_reported_with_its_line_and_prints_nothing() -> None:
    result = ptokit_("show", "kernels:careless", "--arg", "x=f32[4]")
    assert result.exit_code == 1
    assert result.stdout == ""
    message = "kernels.py:48: error [KN-20] IndexError: list index out of range\n        [][1]\n        ^\n"
    assert message in result.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--arg", "x"), "name=value"),
        (("--arg", "=5"), "name=value"),
        (("--arg", "x="), "name=value"),
        (("--arg", "x=f32[4]", "--arg", "x=f32[5]"), "given twice"),
        (("--arg", "y=f32[4]"), "no parameter y; it has x, out, rows, oob"),
        (("--arg", "x=q7[4]"), "unknown element type 'q7'"),
        (("--arg", "x=f32[9999999999,9999999999]"), "cannot create float32[9999999999, 9999999999]: "),
        (("--arg", "x=f32[" + "9" * 5000 + "]"), "File name too long"),
        (("--arg", "x=f32[" + "1," * 99 + "1]"), "cannot create float32[1, 1, "),
        (("--arg", "x=missing.npy"), "there is no file missing.npy"),
        (("--arg", "x=" + "9" * 5000), "too long"),
        (("--arg", "x=f32[4,16]"), "missing a required argument: 'out'"),
        ((*SHAPES, "--grid", "-1"), "--grid"),
        ((*SHAPES, "--grid", "many"), "--grid"),
        ((*SHAPES, "--target", "a9"), f"unknown target 'a9'; known: {', '.join(PROFILES)}"),
        ((*SHAPES, "--dyn-ub", "-1"), "--dyn-ub"),
        ((*SHAPES, "--function", "f"), "--function"),
        ((*SHAPES, "--colour"), "No such option"),
    ],
)
def test_misuse(words: tuple[str, ...], message: str) -> None:
    for command in ("check", "run"):
        assert message in misuse(command, "kernels:double", *words)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--engine", "warp"), "engine is one of auto, reference, native"),
        (("--out", "out"), "name=value"),
        (("--out", "z=z.npy"), "no parameter z"),
        (("--out", "rows=z.npy"), "no array"),
        (("--out", "out=z.npy", "--out", "out=y.npy"), "given twice"),
        (("--out", "out=z.npy", "--out", "x=z.npy"), "same file"),
        (("--out", "out=no/such/place.npy"), "there is no directory"),
        (("--out", "out=."), "is a directory"),
        (("--target", "all"), "this command takes one target, not all"),
    ],
)
def test_misuse_of_run(words: tuple[str, ...], message: str, folder: Path) -> None:
    assert message in misuse("run", "kernels:double", *SHAPES, "--arg", "rows=4", *words)
    assert not [*folder.glob("[yz].npy")]


def test_an_output_of_unknown_shape_must_be_given() -> None:
    assert "--arg out=f32[1000,64]" in misuse("run", "kernels:double", "--arg", "x=x.npy", "--out", "out=y.npy")
