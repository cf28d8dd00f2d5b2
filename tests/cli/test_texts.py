"""`check`, `run`, `fmt`, `convert` and `show` of programs as text."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from tests.cli.shell import fine, misuse, ptokit_, saved

CORPUS = Path(__file__).resolve().parent.parent / "corpus"


def copy(element: str = "f32", name: str = "copy", x: str = "x", extent: str = "%n") -> str:
    """A kernel that copies n rows of 16 elements, 8 in a block."""
    view, part = f"!pto.tensor_view<?x16x{element}>", f"!pto.partition_tensor_view<8x16x{element}>"
    tile = f"!pto.tile_buf<vec, 8x16x{element}>"
    return f"""\
func.func @{name}(%{x}: !pto.ptr<{element}>, %out: !pto.ptr<{element}>, %n: index) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  %block = pto.get_block_idx
  %b = arith.index_cast %block : i64 to index
  %first = arith.muli %b, %c8 : index
  %xv = pto.make_tensor_view %{x}, shape = [{extent}, %c16], strides = [%c16, %c1] : {view}
  %ov = pto.make_tensor_view %out, shape = [{extent}, %c16], strides = [%c16, %c1] : {view}
  %xp = pto.partition_view %xv, offsets = [%first, %c0], sizes = [%c8, %c16] : {view} -> {part}
  %op = pto.partition_view %ov, offsets = [%first, %c0], sizes = [%c8, %c16] : {view} -> {part}
  %t = pto.alloc_tile : {tile}
  pto.tload ins(%xp : {part}) outs(%t : {tile})
  pto.tstore ins(%t : {tile}) outs(%op : {part})
  return
}}
"""


X = np.arange(256, dtype="float32").reshape(16, 16)
RUN = ("--arg", "x=x.npy", "--arg", "n=16", "--out", "out=y.npy", "--grid", 2)
WRONG = copy("f64")
"""No target has float64."""


@pytest.fixture(autouse=True)
def files(folder: Path) -> None:
    (folder / "copy.pto").write_text(copy(), encoding="utf-8")
    (folder / "wrong.pto").write_text(WRONG, encoding="utf-8")
    (folder / "typo.pto").write_text(copy().replace("return", "retrun"), encoding="utf-8")
    (folder / "two.pto").write_text(copy() + copy(name="other"), encoding="utf-8")
    saved(folder / "x.npy", X)


# --- check -----------------------------------------------------------------------------------------------------


def test_a_text_is_checked_without_arrays() -> None:
    assert fine("check", "copy.pto").startswith("copy over 1 block\ncpu: accepted; ")
    assert fine("check", "copy.pto", "--arg", "n=16", "--arg", "x=x.npy", "--grid", 2).startswith(
        "copy over 2 blocks\n"
    )


def test_a_finding_in_a_text_shows_its_line_with_a_caret() -> None:
    result = ptokit_("check", "wrong.pto", "--target", "a5")
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    row = WRONG.splitlines().index(next(line for line in WRONG.splitlines() if "tload" in line)) + 1
    at = next(number for number, line in enumerate(lines) if line.startswith(f"wrong.pto:{row}:3: error ["))
    assert lines[at + 1] == "    " + WRONG.splitlines()[row - 1][:160].rstrip()
    assert lines[at + 2] == "      ^"
    assert lines[at + 3].startswith("    fix: ")
    assert lines[-1].startswith("a5: refused; ")


def test_standard_input_is_a_text() -> None:
    assert fine("check", "-", given=copy()) == fine("check", "copy.pto")
    assert "<stdin>:" in ptokit_("check", "-", given=WRONG).stdout
    assert ptokit_("check", "-", given="").exit_code in (0, 1)


def test_a_text_that_cannot_be_read_is_a_finding() -> None:
    result = ptokit_("check", "typo.pto")
    assert (result.exit_code, result.stderr) == (1, "")
    assert result.stdout.startswith("typo.pto:16:3: ") and "did you mean `return`?" in result.stdout
    report = json.loads(ptokit_("check", "typo.pto", "--json").stdout)
    assert (report["kernel"], report["targets"]) == (None, {})
    assert report["error"]["where"] == {"file": "typo.pto", "line": 16, "column": 3}
    assert report["error"]["fix"] == "did you mean `return`?"


def test_every_error_of_a_text_is_reported() -> None:
    text = "func.func @f(%n: index) {\n  %a = arith.addi %n, %m : index\n  retrun\n  pto.trap {x = }\n  return\n}\n"
    shown = ptokit_("check", "-", given=text).stdout
    assert [line.partition(": ")[0] for line in shown.splitlines() if line.startswith("<stdin>")] == [
        "<stdin>:2:23", "<stdin>:3:3", "<stdin>:4:17"
    ]  # fmt: skip
    error = json.loads(ptokit_("check", "-", "--json", given=text).stdout)["error"]
    assert [error["where"]["line"], *(other["where"]["line"] for other in error["others"])] == [2, 3, 4]


@pytest.mark.parametrize("text", [b"\xff\xfe\0", b"\0" * 100, b"(" * 5000, b"module {" * 300, "\u202e".encode(), b"%"])
def test_bytes_that_are_no_text_are_a_finding(text: bytes) -> None:
    for words in (("check", "-"), ("fmt", "-"), ("run", "-"), ("show", "-"), ("convert", "-", "--to", "l1")):
        result = ptokit_(*words, given=text)
        assert result.exit_code == 1, result.output
        assert "<stdin>:" in result.output


def test_all_kernels_of_a_text_are_checked(folder: Path) -> None:
    shown = fine("check", "two.pto")
    assert [line for line in shown.splitlines() if " over " in line] == ["copy over 1 block", "other over 1 block"]
    (folder / "both.pto").write_text(copy() + copy("f64", name="wrong"), encoding="utf-8")
    result = ptokit_("check", "both.pto", "--json")
    data = json.loads(result.stdout)
    kernels = [(entry["kernel"], entry["targets"]["a2a3"]["accepted"]) for entry in data["entries"]]
    assert kernels == [("copy", True), ("wrong", False)] and result.exit_code == 1
    many = "".join(f"func.func @k{number}() {{ return }}\n" for number in range(66))
    (folder / "many.pto").write_text(many, encoding="utf-8")
    result = ptokit_("check", "many.pto")
    assert "not judged: k64: use --function k64\nnot judged: k65" in result.stdout and result.exit_code == 3


def test_one_of_several_functions_is_chosen_by_name() -> None:
    assert "--function" in ptokit_("show", "two.pto").output
    assert "--function" in ptokit_("check", "two.pto", "--arg", "n=8").stdout
    assert "--function" in ptokit_("check", "-", given=copy() + copy(name="other")).stdout
    assert fine("check", "two.pto", "--function", "other").startswith("other over 1 block\n")
    assert ptokit_("check", "two.pto", "--function", "third").exit_code == 1


# --- run -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["cpu", "a2a3", "a5"])
def test_a_text_runs_on_files(target: str) -> None:
    message = fine("run", "copy.pto", *RUN, "--target", target)
    assert message.startswith(f"copy on {target}: 2 blocks, ") and "out: float32[16,16] in y.npy" in message
    assert np.array_equal(np.load("y.npy"), X)


def test_an_output_that_is_given_keeps_what_is_not_written() -> None:
    fine(
        "run", "copy.pto", "--arg", "x=x.npy", "--arg", "n=16", "--arg", "out=x.npy", "--out", "out=y.npy", "--grid", 0
    )
    assert np.array_equal(np.load("y.npy"), X)


def test_names_of_options_may_be_names_of_parameters(folder: Path) -> None:
    (folder / "odd.pto").write_text(copy(x="target"), encoding="utf-8")
    words = ("--arg", "n=16", "--arg", "target=x.npy", "--out", "out=y.npy", "--grid", 2, "--target", "a5")
    fine("run", "odd.pto", *words)
    assert np.array_equal(np.load("y.npy"), X)


def test_elements_without_a_name_get_the_type_of_the_text(folder: Path) -> None:
    (folder / "bf16.pto").write_text(copy("bf16"), encoding="utf-8")
    array = X.astype(ml_dtypes.bfloat16)
    for stored in (array, array.view("uint16")):
        saved(folder / "x.npy", stored)
        assert "out: bfloat16[16,16]" in fine("run", "bf16.pto", *RUN)
        assert np.array_equal(np.load("y.npy").view(ml_dtypes.bfloat16), array)
    saved(folder / "x.npy", array.view("int16"))
    assert "holds bfloat16 in the text; found int16" in misuse("run", "bf16.pto", *RUN)


def test_an_array_of_a_constant_shape_needs_no_number(folder: Path) -> None:
    (folder / "copy.pto").write_text(copy(extent="%c16"), encoding="utf-8")
    fine("run", "copy.pto", "--arg", "x=x.npy", "--arg", "n=0", "--out", "out=y.npy", "--grid", 2)
    assert np.array_equal(np.load("y.npy"), X)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--arg", "x=x.npy", "--out", "out=y.npy"), "its shape depends on n"),
        (("--arg", "x=x.npy", "--arg", "n=16"), "missing out"),
        (("--arg", "x=x.npy", "--arg", "n=17", "--out", "out=y.npy"), "found an array of 256"),
        (("--arg", "x=5", "--arg", "n=16", "--out", "out=y.npy"), "`x` takes an array; found 5"),
        (("--arg", "x=f16[16,16]", "--arg", "n=16", "--out", "out=y.npy"), "holds float32 in the text; found float16"),
        (("--arg", "x=x.npy", "--arg", "n=1.5", "--arg", "out=x.npy"), "`n` takes a whole number; found 1.5"),
        (("--arg", "x=x.npy", "--arg", "n=-1", "--out", "out=y.npy"), "out: cannot create float32[-1, 16]: "),
        (("--arg", "rows=5"), "copy has no parameter rows; it has x, out, n"),
        (("--arg", "n=16", "--arg", "x=x.npy", "--out", "n=y.npy"), "n is no array"),
    ],
)
def test_arguments_that_do_not_fit(words: tuple[str, ...], message: str, folder: Path) -> None:
    assert message in misuse("run", "copy.pto", *words)
    assert not (folder / "y.npy").exists()


def test_a_shape_that_cannot_be_computed_is_misuse(folder: Path) -> None:
    divided = copy(extent="%m").replace("  %xv =", "  %m = arith.divsi %c16, %n : index\n  %xv =")
    (folder / "divided.pto").write_text(divided, encoding="utf-8")
    words = ("run", "divided.pto", "--arg", "x=x.npy", "--out", "out=y.npy", "--grid", 2)
    fine(*words, "--arg", "n=1")
    assert misuse(*words, "--arg", "n=0")


def test_a_block_too_many_is_a_finding_and_leaves_nothing(folder: Path) -> None:
    before = sorted(path.name for path in folder.iterdir())
    result = ptokit_("run", "copy.pto", *RUN[:-1], 3)
    assert result.exit_code == 1
    assert result.stdout == "" and "copy.pto:14:3: error [" in result.stderr and "\n      ^\n" in result.stderr
    assert sorted(path.name for path in folder.iterdir()) == before


def test_a_run_of_a_text_that_cannot_be_read() -> None:
    result = ptokit_("run", "typo.pto")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "did you mean `return`?" in result.stderr
    report = json.loads(ptokit_("run", "typo.pto", "--json").stdout)
    assert (report["ok"], report["target"], report["error"]["where"]["line"]) == (False, "cpu", 16)


# --- fmt -------------------------------------------------------------------------------------------------------


def test_fmt_writes_in_place_and_only_what_changes(folder: Path) -> None:
    path = folder / "copy.pto"
    path.chmod(0o640)
    canonical = fine("fmt", "-", given=copy())
    assert fine("fmt", "copy.pto") == ""
    assert path.read_text(encoding="utf-8") == canonical != copy()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    before = path.stat()
    fine("fmt", "copy.pto")
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_fmt_check_names_what_would_change_and_writes_nothing(folder: Path) -> None:
    (folder / "good.pto").write_text(fine("fmt", "-", given=copy()), encoding="utf-8")
    before = {path: path.read_bytes() for path in folder.glob("*.pto")}
    result = ptokit_("fmt", "--check", "good.pto", "copy.pto", "two.pto")
    assert (result.exit_code, result.stdout) == (1, "copy.pto would change\ntwo.pto would change\n")
    assert fine("fmt", "--check", "good.pto") == ""
    assert ptokit_("fmt", "--check", "-", given=copy()).stdout == "<stdin> would change\n"
    assert {path: path.read_bytes() for path in folder.glob("*.pto")} == before


def test_fmt_goes_on_after_a_text_that_cannot_be_read(folder: Path) -> None:
    broken = (folder / "typo.pto").read_bytes()
    result = ptokit_("fmt", "typo.pto", "copy.pto")
    assert result.exit_code == 1 and "typo.pto:16:3: " in result.stderr
    assert (folder / "typo.pto").read_bytes() == broken
    assert fine("fmt", "--check", "copy.pto") == ""
    result = ptokit_("fmt", "missing.pto", "two.pto", "typo.pto")
    assert result.exit_code == 2 and "missing.pto" in result.stderr
    assert fine("fmt", "--check", "two.pto") == ""


def test_fmt_keeps_a_file_that_it_cannot_replace(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    assert "cannot write copy.pto: No space left" in misuse("fmt", "copy.pto")
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before


def test_fmt_takes_every_file_of_the_corpus() -> None:
    for path in sorted(CORPUS.glob("*.pto"))[::8]:
        once = fine("fmt", "-", given=path.read_bytes())
        assert fine("fmt", "-", given=once) == once


# --- convert and show ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["l1", "l2", "as"])
def test_every_form_runs_as_the_text_does(form: str) -> None:
    suffix = "ptoas" if form == "as" else "pto"
    text = fine("convert", "copy.pto", "--to", form)
    fine("convert", "copy.pto", "--to", form, "-o", f"other.{suffix}")
    assert Path(f"other.{suffix}").read_text(encoding="utf-8") == text
    fine("run", f"other.{suffix}", *RUN)
    assert np.array_equal(np.load("y.npy"), X)
    assert fine("convert", "-", "--to", form, given=text) == text


@pytest.mark.parametrize("form", ["l1", "l2", "as"])
def test_a_kernel_of_a_module_becomes_a_text_that_runs(form: str) -> None:
    text = fine("convert", "kernels:double", "--arg", "x=f32[16,16]", "--arg", "out=f32[16,16]", "--to", form)
    fine("run", "-", "--arg", "x=x.npy", "--out", "out=y.npy", "--grid", 4, given=text)
    assert np.array_equal(np.load("y.npy"), 2 * X)


def test_a_target_names_the_architecture_of_mlir() -> None:
    shapes = ("--arg", "x=f32[16,16]", "--arg", "out=f32[16,16]", "--to", "l2")
    for target, message in (("a2a3", '"a3"'), ("a5", '"a5"')):
        assert f"pto.target_arch = {message}" in fine("convert", "kernels:double", *shapes, "--target", target)
    assert "target_arch" not in fine("convert", "kernels:double", *shapes)


def test_the_old_grammar_can_be_asked_for() -> None:
    text = (CORPUS / "mgather_new.pto").read_bytes()
    result = ptokit_("convert", "-", "--to", "l2", "--pto-version", "0.27", given=text)
    assert result.exit_code in (0, 1)
    assert result.stdout != fine("convert", "-", "--to", "l2", "--pto-version", "new", given=text)


def test_a_text_becomes_cpp() -> None:
    assert "TLOAD(" in fine("convert", "copy.pto", "--to", "cpp", "--target", "a5")
    result = ptokit_("convert", "wrong.pto", "--to", "cpp", "--target", "a5", "-o", "wrong.cpp")
    assert result.exit_code == 1 and "\n      ^\n" in result.stderr
    assert not Path("wrong.cpp").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--to", "l3"), "'l3' is not one of"),
        ((), "Missing option '--to'"),
        (("--to", "l1", "--target", "a5"), "for kernels of a module"),
        (("--to", "l1", "--arg", "n=5"), "for kernels of a module"),
        (("--to", "as", "--pto-version", "new"), "--pto-version is for --to l1 and l2"),
        (("--to", "l2", "--pto-version", "0.1"), "'0.1' is not one of"),
        (("--to", "cpp"), "--to cpp needs --target"),
    ],
)
def test_misuse_of_convert(words: tuple[str, ...], message: str) -> None:
    assert message in misuse("convert", "copy.pto", *words)


def test_show_of_a_text() -> None:
    shown = fine("show", "copy.pto", "--target", "a5")
    assert "kernel copy" in shown and "set_flag" in shown
    assert fine("show", "-", "--target", "a5", given=copy()).count("\n") == shown.count("\n")
