"""`ptokit report`: one HTML file for a kernel, a text, a C++ source or the launches of a Python file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli.shell import fine, misuse, process, ptokit_, reports_in, saved

RACY = """\
import numpy as np
import ptokit as pto


@pto.kernel(mode="manual")
def racy(table, ids, out):
    index = pto.Tile("vec", "int32", 1, 8, addr=0)
    t = pto.Tile("vec", "float32", 8, 16, addr=64)
    pto.tload(index, ids)
    pto.set_flag("MTE2", "V", 0)
    pto.wait_flag("MTE2", "V", 0)
    pto.mgather(t, table, index, oob="clamp")
    pto.tstore(out, t)


if __name__ == "__main__":
    table, out = np.zeros((20, 16), "float32"), np.zeros((8, 16), "float32")
    for last in (20, 20, 30):
        racy[1](table, np.linspace(0, last, 8).astype("int32"), out, target="a5")
"""
PLACES = """\
import numpy as np
import ptokit as pto


@pto.kernel
def copy(x, out):
    t = pto.Tile("vec", "float32", 4, 16)
    pto.tload(t, x)
    pto.tstore(out, t)


x = np.zeros((4, 16), "float32")
for name in TARGETS:
    copy[1](x, np.zeros_like(x), target=name)
"""
MADE = """\
import numpy as np
import ptokit as pto


def made(times):
    @pto.kernel
    def added(x, out):
        t = pto.Tile("vec", "float32", 4, 16)
        pto.tload(t, x)
        for _ in range(times):
            pto.tadd(t, t, t)
        pto.tstore(out, t)

    return added


x = np.zeros((4, 16), "float32")
for times, name in ((1, "a5"), (1, "a2a3"), (3, "a5")):
    made(times)[1](x, np.zeros_like(x), target=name)
made(3)[1](x, np.zeros_like(x), target="a5", strict=True)
"""
TEXT = """\
!view = !pto.tensor_view<16x16xf32>
!part = !pto.partition_tensor_view<16x16xf32>
!tile = !pto.tile_buf<vec, 16x16xf32>
func.func @copy(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %xv = pto.make_tensor_view %x, shape = [%c16, %c16], strides = [%c16, %c1] : !view
  %yv = pto.make_tensor_view %y, shape = [%c16, %c16], strides = [%c16, %c1] : !view
  %xp = pto.partition_view %xv, offsets = [%c0, %c0], sizes = [%c16, %c16] : !view -> !part
  %yp = pto.partition_view %yv, offsets = [%c0, %c0], sizes = [%c16, %c16] : !view -> !part
  %t = pto.alloc_tile : !tile
  pto.tload ins(%xp : !part) outs(%t : !tile)
  pto.tstore ins(%t : !tile) outs(%yp : !part)
  return
}
"""
SQUARES = ("--arg", "x=f32[16,16]", "--arg", "y=f32[16,16]")
PICK = ("kernels.py:pick", "--arg", "table=f32[20,16]", "--arg", "out=f32[8,16]")


def data(file: str = "report.html") -> list[dict[str, Any]]:
    return reports_in(Path(file))


def test_a_kernel_on_all_targets(folder: Path) -> None:
    ids = saved(folder / "ids.npy", np.arange(8, dtype="int32"))
    printed = fine("report", *PICK, "--arg", f"ids={ids}")
    (report,) = data()
    assert {*report["targets"]} == {"cpu", "a2a3", "a5"} and report["shown"] in ("a2a3", "a5")
    cycles = report["targets"]["a5"]["timeline"]["cycles"]
    assert f"a5: no findings; {cycles:,.0f} cycles\n" in printed
    assert printed.endswith(f"report.html: {Path('report.html').stat().st_size:,} bytes\n")
    assert report["targets"]["a5"]["access"][0]["lanes"] == 8
    assert sorted(path.name for path in folder.iterdir() if path.suffix not in ("", ".npy")) == [
        "kernels.py",
        "report.html",
    ]


def test_findings_and_refusals_have_status_1(folder: Path) -> None:
    ids = saved(folder / "ids.npy", np.arange(90, 98, dtype="int32"))
    outside = ptokit_("report", *PICK, "--arg", f"ids={ids}", "--target", "a5", "--json")
    assert outside.exit_code == 1
    answer = json.loads(outside.stdout)
    assert [*answer] == ["format", "command", "file", "bytes", "reports"]
    assert answer["reports"][0]["targets"]["a5"]["ok"] is False
    saved(folder / "column.npy", np.zeros((8, 1), "int32"))
    words = ("kernels.py:column", "--arg", "table=f32[20,16]", "--arg", "ids=column.npy", "--arg", "out=f32[8,16]")
    refused = ptokit_("report", *words, "-o", "two.html")
    assert refused.exit_code == 1 and "a2a3: 1 error (H-09 at line 32)" in refused.stdout
    (report,) = data("two.html")
    assert [name for name, own in report["targets"].items() if own["accepted"]] == ["cpu"]
    why = {each["what"]: each["why"] for each in report["comparison"]["values"]}
    assert any(text.startswith("Only a2a3: [") and "H-09" in text for text in why["verdict"])


def test_a_text_from_a_file_and_from_standard_input(folder: Path) -> None:
    (folder / "copy.pto").write_text(TEXT, encoding="utf-8")
    fine("report", "copy.pto", *SQUARES, "-o", "file.html")
    fine("report", "-", *SQUARES, "-o", "stdin.html", given=TEXT)
    (file,), (stdin,) = data("file.html"), data("stdin.html")
    assert (file["title"], stdin["title"]) == ("copy.pto: copy", "<stdin>: copy")
    assert file["sources"][0]["text"] == stdin["sources"][0]["text"] == TEXT
    assert [*file["targets"]["a5"]["lines"]["copy.pto"]] == ["13", "14"]


def test_all_launches_of_a_python_file(folder: Path) -> None:
    (folder / "racy.py").write_text(RACY, encoding="utf-8")
    result = process("report", "racy.py", "--target", "a5", cwd=folder)
    assert result.returncode == 1, result.stderr
    reports = data()
    assert [each["title"] for each in reports] == ["racy.py: racy, launch 1", "racy.py: racy, launch 2"]
    counts = [each["targets"]["a5"]["access"][0]["counts"] for each in reports]
    assert [each["clamped"] for each in counts] == [1, 3]
    assert '+    pto.set_flag("V", "MTE3", 0)' in reports[0]["targets"]["a5"]["repairs"][0]["diff"]


def test_launches_that_differ_in_more_than_their_arrays_are_all_shown(folder: Path) -> None:
    (folder / "made.py").write_text(MADE, encoding="utf-8")
    fine("report", "made.py")
    sums = [[each["instruction"] for each in statements(report)].count("tadd") for report in data()]
    assert sums == [1, 3, 3]
    assert [[*report["targets"]] for report in data()] == [["a5", "a2a3"], ["a5"], ["a5"]]


def statements(report: dict[str, Any]) -> list[dict[str, Any]]:
    return report["targets"]["a5"]["timeline"]["statements"]


def test_misuse_is_refused_before_any_work(folder: Path) -> None:
    assert "there is no directory" in misuse("report", *PICK, "-o", "missing/report.html")
    assert "missing a required argument: 'ids'" in misuse("report", *PICK)
    assert "no arguments of its own" in misuse("report", *PICK, "--", "more")
    broken = ptokit_("report", "-", given="func.func @f( {")
    assert broken.exit_code == 1 and not (folder / "report.html").exists()


def test_a_page_is_whole_or_as_it_was(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "report.html").write_text("before", encoding="utf-8")
    monkeypatch.setattr("ptokit.cli.page.page_of", lambda *_: 1 / 0)
    ids = saved(folder / "ids.npy", np.arange(8, dtype="int32"))
    assert ptokit_("report", *PICK, "--arg", f"ids={ids}").exit_code != 0
    assert (folder / "report.html").read_text(encoding="utf-8") == "before"


def test_a_report_replaces_no_source(folder: Path) -> None:
    (folder / "k.pto").write_text("module {}\n")
    result = ptokit_("report", "k.pto", "-o", "k.pto")
    assert result.exit_code == 2 and "a report is an HTML file" in result.stderr
    assert (folder / "k.pto").read_text() == "module {}\n"


@pytest.mark.parametrize(("launched", "judged"), [(["a5"], ["a5"]), (["a2a3", "a5"], ["a2a3", "a5"]), (["cpu"], None)])
def test_a_python_file_is_shown_on_the_targets_on_which_check_judges_it(
    folder: Path, launched: list[str], judged: list[str] | None
) -> None:
    (folder / "places.py").write_text(PLACES.replace("TARGETS", str(launched)), encoding="utf-8")
    checked = json.loads(fine("check", "places.py", "--json"))["kernels"][0]["targets"]
    fine("report", "places.py")
    (report,) = data()
    assert {*report["targets"]} == {*checked} == {*(judged or ("cpu", "a2a3", "a5"))}
    fine("report", "places.py", "--target", "all", "-o", "all.html")
    assert {*data("all.html")[0]["targets"]} == {"cpu", "a2a3", "a5"}


def test_a_file_without_launches_names_its_own_command(folder: Path) -> None:
    assert "name one: ptokit report kernels.py:" in misuse("report", "kernels.py")
    assert "name one: ptokit check kernels.py:" in misuse("check", "kernels.py")
    assert "as in `ptokit report kernels.py:kernel`" in misuse("report", "kernels.py", "--grid", "2")


def test_a_grid_without_blocks_is_not_called_clean(folder: Path) -> None:
    words = ("kernels:double", "--arg", "x=f32[64,16]", "--arg", "out=f32[64,16]", "--grid", "0", "--target", "a5")
    assert fine("report", *words).startswith("a5: nothing ran: the grid has no blocks\n")
    (report,) = data()
    assert report["targets"]["a5"]["ran"] is False
    assert report["comparison"]["values"][0]["values"] == {"a5": "nothing ran: the grid has no blocks"}
    assert fine("trace", *words).startswith("a5: nothing ran: the grid has no blocks\n")
    assert "a5: nothing ran" in fine("run", *words, "--engine", "machine")
    swept = fine("sweep", *words[:-4], "--param", "rows=4", "--grid", "0", "--target", "a5")
    assert "no best point on a5: nothing ran" in swept and "clean" not in swept


def test_files_above_have_the_names_that_the_user_gave(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "racy.py").write_text(RACY, encoding="utf-8")
    (folder / "inner").mkdir()
    monkeypatch.chdir(folder / "inner")
    words = ("../racy.py:racy", "--arg", "table=f32[20,16]", "--arg", "ids=i32[8]", "--arg", "out=f32[8,16]")
    checked = ptokit_("check", *words, "--run", "--target", "a5")
    assert "\n../racy.py:" in checked.stdout and str(folder) not in checked.output
    ptokit_("report", *words, "--target", "a5")
    (report,) = data()
    assert [each["file"] for each in report["sources"]] == ["../racy.py"]
    assert "there is no directory none" in misuse("trace", *words, "-o", "none/x.json")
