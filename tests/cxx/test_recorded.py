"""C++ kernels in Python and on the command line: launched, checked, repaired; names and places of the source."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import ptokit as pto
from ptokit.cli.arguments import LEAST_BYTES, values_of
from ptokit.cli.commands import app
from ptokit.cli.problems import UNMODELLED
from ptokit.lang.recorded import CppKernel, load_entries
from ptokit.machine import ENOUGH

SOURCE = """\
#include <pto/pto-inst.hpp>
using namespace pto;
constexpr int N = 64;
using Row = GlobalTensor<float, Shape<1, 1, 1, 1, N>, Stride<N, N, N, N, 1>>;
using Part = Tile<TileType::Vec, float, 1, N>;

AICORE inline void fetch(Part& part, __gm__ float* from) {
    Row row(from);
    TLOAD(part, row);
}

template <bool ORDERED>
AICORE inline void add_rows(__gm__ float* x, __gm__ float* y, __gm__ float* out) {
    Part a, b;
    TASSIGN(a, 0x0);
    TASSIGN(b, 0x400);
    for (int i = 0; i < 3; ++i) {
        const int at = (get_block_idx() * 3 + i) * N;
        fetch(a, x + at);
        fetch(b, y + at);
        if constexpr (ORDERED) set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
        if constexpr (ORDERED) wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
        TADD(a, a, b);
        set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
        wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
        Row to(out + at);
        TSTORE(to, a);
        pipe_barrier(PIPE_ALL);
    }
}

__global__ AICORE void right(__gm__ float* x, __gm__ float* y, __gm__ float* out) { add_rows<true>(x, y, out); }
__global__ AICORE void wrong(__gm__ float* x, __gm__ float* y, __gm__ float* out) {
    Part a, b;
    TASSIGN(a, 0x0);
    TASSIGN(b, 0x400);
    for (int i = 0; i < 3; ++i) {
        const int at = (get_block_idx() * 3 + i) * N;
        fetch(a, x + at);
        fetch(b, y + at);
        TADD(a, a, b);
        set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
        wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
        Row to(out + at);
        TSTORE(to, a);
        pipe_barrier(PIPE_ALL);
    }
}

extern "C" void launch_right(float* x, float* y, float* out, void* stream) { right<<<2, nullptr, stream>>>(x, y, out); }
extern "C" void launch_wrong(float* x, float* y, float* out, void* stream) { wrong<<<2, nullptr, stream>>>(x, y, out); }
extern "C" void launch_wrong_twice(float* x, float* y, float* out, void* stream) {
    wrong<<<2, nullptr, stream>>>(x, y, out);
    wrong<<<2, nullptr, stream>>>(out, y, out);
}
extern "C" void launch_twice(float* x, float* y, float* out, void* stream) {
    right<<<2, nullptr, stream>>>(x, y, out);
    right<<<2, nullptr, stream>>>(out, y, out);
}
"""
LINES = SOURCE.splitlines()
TADD = len(LINES) - [*reversed(LINES)].index("        TADD(a, a, b);")
"""The line of the addition without order."""


SCATTER = """\
#include <pto/pto-inst.hpp>
using namespace pto;
using Table = GlobalTensor<int16_t, Shape<1, 1, 1, 16, 32>, Stride<512, 512, 512, 32, 1>>;
using Rows = GlobalTensor<int16_t, Shape<1, 1, 1, 8, 32>, Stride<256, 256, 256, 32, 1>>;
using Numbers = GlobalTensor<int32_t, Shape<1, 1, 1, 1, 8>, Stride<8, 8, 8, 8, 1>>;

extern "C" __global__ AICORE void scatter(__gm__ uint8_t* table, __gm__ uint8_t* data, __gm__ uint8_t* idx) {
    Tile<TileType::Vec, int16_t, 8, 32> rows;
    Tile<TileType::Vec, int32_t, 1, 8> places;
    TASSIGN(rows, 0x0);
    TASSIGN(places, 0x400);
    Table to(reinterpret_cast<__gm__ int16_t*>(table));
    Rows from(reinterpret_cast<__gm__ int16_t*>(data));
    Numbers at(reinterpret_cast<__gm__ int32_t*>(idx));
    TLOAD(rows, from);
    TLOAD(places, at);
    MSCATTER<Coalesce::Row>(to, rows, places);
}
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cpp") / "rows.cpp"
    path.write_text(SOURCE)
    return path


@pytest.fixture(scope="module")
def kernels(file: Path) -> dict[str, CppKernel]:
    first = pto.load(file, "right", target="a5")
    assert isinstance(first, CppKernel)
    entries = {entry.name: entry for entry in first.source.build("a5").entries}
    return {name: CppKernel(first.source, entry, "a5") for name, entry in entries.items()}


def arrays() -> dict[str, Any]:
    x, y = (np.arange(384, dtype="float32") * scale for scale in (1, 0.5))
    return {"x": x, "y": y, "out": np.zeros(384, "float32")}


@pytest.mark.parametrize("engine", ["reference", "native", "machine"])
def test_a_kernel_computes_on_every_engine(kernels: dict[str, CppKernel], engine: str) -> None:
    given = arrays()
    run = kernels["right"][2](**given, target="a5", engine=engine)
    assert [finding for finding in run.findings if finding.level != "note"] == []
    np.testing.assert_array_equal(given["out"], given["x"] + given["y"])


def test_later_launches_see_what_earlier_ones_wrote(kernels: dict[str, CppKernel]) -> None:
    given = arrays()
    kernels["launch_twice"][1](**given, target="a5")
    np.testing.assert_array_equal(given["out"], given["x"] + 2 * given["y"])


def test_a_race_has_the_names_and_the_places_of_the_source(kernels: dict[str, CppKernel], file: Path) -> None:
    run = kernels["launch_wrong"][1](**arrays(), target="a5", engine="machine")
    races = [finding for finding in run.findings if finding.first is not None]
    assert {finding.rule for finding in races} == {"KN-13"}
    assert {(finding.where.file, finding.where.line) for finding in races if finding.where} == {(str(file), TADD)}
    first = races[0].first
    assert first is not None and first.where is not None
    assert (first.name, first.where.line) == ("a", LINES.index("    TLOAD(part, row);") + 1)
    assert [call.line for call in first.where.calls] == [TADD - 2]
    assert "i=0" in str(races[0])


@pytest.mark.filterwarnings("error")
def test_a_launch_on_the_machine_warns_once_of_all_its_kernels(kernels: dict[str, CppKernel]) -> None:
    def launch(name: str, **options: Any) -> Any:
        return kernels[name][1](**arrays(), target="a5", engine="machine", **options)

    assert launch("launch_twice") and launch("launch_twice", strict=True)
    with pytest.warns(pto.HazardWarning) as found:
        report = launch("launch_wrong_twice")
    assert len(found) == 1 and f"{len(report.hazards)} errors; the first: " in str(found[0].message)
    assert not report and not launch("launch_wrong_twice", options=pto.MachineOptions(quiet=True))
    with pytest.raises(pto.VerifyError) as refusal:
        launch("launch_wrong_twice", strict=True)
    assert refusal.value.findings == report.hazards, "those of both launches"


def test_a_repair_is_a_diff_of_the_source(kernels: dict[str, CppKernel], file: Path) -> None:
    run: Any = kernels["launch_wrong"][1](**arrays(), target="a5", engine="machine")
    (repair,) = run.repairs
    added = [line[1:].strip() for line in repair.diff.splitlines() if line.startswith("+ ")]
    assert added == ["set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);", "wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);"]
    new = repair.patch.after[str(file)].splitlines()
    assert new[TADD - 1 : TADD + 2] == [*(f"        {line}" for line in added), "        TADD(a, a, b);"]
    assert file.read_text() == SOURCE


@pytest.mark.parametrize("grid", [1, 2])
def test_arrays_that_are_not_given_are_as_large_as_the_calls_need(kernels: dict[str, CppKernel], grid: int) -> None:
    kernel = kernels["right"].for_grid(grid)
    assert {name: use.end for name, use in kernel.uses(arrays()).items()} == dict.fromkeys(
        ("x", "y", "out"), grid * 3 * 64 * 4
    )
    found = values_of(kernel, {})
    assert {name: (array.dtype, array.nbytes) for name, array in found.items()} == dict.fromkeys(
        ("x", "y", "out"), (np.dtype("float32"), LEAST_BYTES)
    )
    for name in "xy":
        assert 0.5 <= found[name].min() < found[name].max() <= 2
    assert not found["out"].any()


def test_random_numbers_of_large_arrays_repeat(kernels: dict[str, CppKernel], monkeypatch: pytest.MonkeyPatch) -> None:
    whole = values_of(kernels["right"], {})["x"]
    assert np.unique(whole).size > whole.size // 2 and 0.5 <= whole.min() <= whole.max() <= 2
    monkeypatch.setattr("ptokit.cli.arguments.PERIOD", 1009)
    np.testing.assert_array_equal(values_of(kernels["right"], {})["x"], np.resize(whole[:1009], whole.size))


def test_arrays_of_indices_hold_distinct_ones(tmp_path: Path) -> None:
    """No two rows go to the same place, no index is outside the table; data of bytes has the type of its use."""
    source = tmp_path / "scatter.cpp"
    source.write_text(SCATTER)
    (kernel,) = load_entries(str(source), "a2a3")
    found = values_of(kernel, {})
    index, data = found["idx"].view(np.int32)[:8], found["data"].view(np.int16)
    assert index.tolist() == [0, 1, 2, 3, 4, 5, 6, 7] and found["idx"].view(np.int32).max() == 15
    assert data.min() == 1 and np.unique(data[:4096]).size == 4096
    assert not found["table"].any()
    assert not kernel[1](**found, target="a2a3", engine="machine").findings


def test_wrong_arguments_are_refused(kernels: dict[str, CppKernel]) -> None:
    with pytest.raises(TypeError, match="missing out"):
        kernels["right"][1](*[*arrays().values()][:2], target="a5")
    with pytest.raises(pto.VerifyError, match="float32 in the source; found int32") as found:
        kernels["right"][1](**{**arrays(), "x": np.zeros(384, "int32")}, target="a5")
    assert 'x.astype("float32"), or the same bits: x.view("float32")' in found.value.findings[0].fix
    with pytest.raises(pto.VerifyError, match="float32 in the source; found int16") as found:
        kernels["right"][1](**{**arrays(), "x": np.zeros(384, "int16")}, target="a5")
    assert found.value.findings[0].fix.endswith('x.astype("float32")')


def test_the_command_checks_all_entries(file: Path) -> None:
    done = CliRunner().invoke(app, ["check", str(file), "--target", "a5"])
    assert done.exit_code == 1
    assert "launch_right over" in done.output and "launch_wrong over" in done.output
    assert f"rows.cpp:{TADD}:" in done.output
    assert "set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0)" in done.output


def test_the_command_checks_one_entry_as_json(file: Path) -> None:
    given = ["--arg", "x=float32[384]:0..1", "--target", "a5", "--json"]
    done = CliRunner().invoke(app, ["check", str(file), "--entry", "launch_right", *given])
    assert done.exit_code == 0
    assert json.loads(done.stdout)["targets"]["a5"]["accepted"] is True


def test_the_command_repairs_a_file(file: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.cpp"
    copy.write_text(SOURCE)
    done = CliRunner().invoke(app, ["check", str(copy), "--entry", "launch_wrong", "--target", "a5", "--fix"])
    assert done.exit_code == 0, done.output
    assert copy.read_text().count("set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);") == 2


def test_the_command_repairs_a_header_and_judges_it_again(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "kernel.hpp").write_text(SOURCE)
    (tmp_path / "k.cpp").write_text('#include "kernel.hpp"\n')
    words = ["check", str(tmp_path / "k.cpp"), "--entry", "launch_wrong", "--target", "a5", "--fix"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0 and "error" not in done.output, done.output
    assert (tmp_path / "kernel.hpp").read_text().count("set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);") == 2


@pytest.mark.parametrize("how", ["a link", "a folder that is a link", "#line", "-I", "a system folder"])
def test_the_command_repairs_no_file_elsewhere(tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    own, other = tmp_path / "own", tmp_path / "other"
    own.mkdir()
    other.mkdir()
    is_outside = how in ("-I", "a system folder")
    ((own if is_outside else tmp_path) / ".git").mkdir()
    (other / "kernel.hpp").write_text(SOURCE)
    (own / "link.hpp").symlink_to(other / "kernel.hpp")
    (own / "link").symlink_to(other)
    included = {"a link": "link.hpp", "a folder that is a link": "link/kernel.hpp", "-I": "kernel.hpp"}
    included |= {"a system folder": str(other / "kernel.hpp")}
    text = f'#include "{included[how]}"\n' if how in included else f'#line 1 "{other / "kernel.hpp"}"\n{SOURCE}'
    (own / "k.cpp").write_text(text)
    words = ["check", str(own / "k.cpp"), "--entry", "launch_wrong", "--target", "a5", "--fix"]
    if how == "a system folder":
        monkeypatch.setenv("CPATH", str(other))
    done = CliRunner().invoke(app, [*words, *(["-I", str(other)] if how == "-I" else [])])
    assert done.exit_code in (1, 2)
    assert "behind a link" in done.output or "is a link to" in done.output
    assert (other / "kernel.hpp").read_text() == SOURCE


def test_the_command_runs_and_shows(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.npy"
    given = ["--arg", "x=float32[384]:1..1", "--arg", "y=float32[384]:2..2", "--arg", "out=float32[384]"]
    words = ["run", str(file), "--entry", "launch_right", *given, "--out", f"out={out}", "--target", "a5"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert (np.load(out) == 3).all()
    shown = CliRunner().invoke(app, ["show", str(file), "--entry", "launch_right", "--target", "a5"])
    assert "for i in range(0, 3)" in shown.output and "tadd(a, a, b)" in shown.output


def test_what_does_not_compile_is_reported_at_its_line(tmp_path: Path) -> None:
    file = tmp_path / "bad.cpp"
    file.write_text("#include <pto/pto-inst.hpp>\n__global__ AICORE void k(__gm__ float* x) { nothing(x); }\n")
    done = CliRunner().invoke(app, ["check", str(file), "--target", "a5"])
    assert done.exit_code == 1
    assert "bad.cpp:2:" in done.output and "nothing" in done.output


POINTERS = """\
#include <pto/pto-inst.hpp>
using namespace pto;
using Row = GlobalTensor<float, Shape<1, 1, 1, 1, 64>, Stride<64, 64, 64, 64, 1>>;
using Part = Tile<TileType::Vec, float, 1, 64>;

template <bool COPIES>
AICORE inline void store(__gm__ float* x, __gm__ float* out) {
    Part part;
    TASSIGN(part, 0x400);
    if constexpr (COPIES) copy_gm_to_ubuf((__ubuf__ void*)part.data(), (__gm__ void*)x, 0, 1, 8, 0, 0);
    pipe_barrier(PIPE_ALL);
    Row to(out);
    TSTORE(to, part);
}
__global__ AICORE void copies(__gm__ float* x, __gm__ float* out) { store<true>(x, out); }
__global__ AICORE void nothing(__gm__ float* x, __gm__ float* out) { store<false>(x, out); }
"""


def test_what_a_call_writes_by_its_address_is_not_unwritten(tmp_path: Path) -> None:
    file = tmp_path / "pointers.cpp"
    file.write_text(POINTERS)
    first = pto.load(file, "copies", target="a5")
    assert isinstance(first, CppKernel)
    kernels = {entry.name: CppKernel(first.source, entry, "a5") for entry in first.source.build("a5").entries}
    given: dict[str, Any] = {"x": np.ones(64, "float32"), "out": np.zeros(64, "float32")}
    levels = {
        name: {finding.level for finding in kernels[name][1](**given, target="a5", engine="machine").findings}
        - {"note"}
        for name in ("copies", "nothing")
    }
    assert levels == {"copies": {"unmodelled"}, "nothing": {"error"}}


VIEWS = """\
#include <pto/pto-inst.hpp>
using namespace pto;
using Row = GlobalTensor<float, Shape<1, 1, 1, 1, 64>, Stride<64, 64, 64, 64, 1>>;
using Half = GlobalTensor<float, Shape<1, 1, 1, 1, 32>, Stride<32, 32, 32, 32, 1>>;

extern "C" __global__ AICORE void views(__gm__ float* x, __gm__ float* out) {
    Tile<TileType::Vec, float, 1, 64> row, other;
    Tile<TileType::Vec, float, 2, 32> rows;
    Tile<TileType::Vec, float, 1, 32> second, third;
    Row from(x), to(out);
    Half half(out + 64), last(out + 96);
    TLOAD(row, from);
    TLOAD(other, from);
    TRESHAPE(rows, row);
    TADD(rows, rows, rows);
    TSUBVIEW(second, rows, 1, 0);
    TADDS(second, second, second.GetValue(3));
    TSTORE(to, row);
    TSTORE(half, second);
    TSUBVIEW(third, other, 0, 32);
    TSTORE(last, third);
}
"""


def test_views_of_tiles_without_an_address_and_flags_are_not_modelled(tmp_path: Path) -> None:
    file = tmp_path / "views.cpp"
    file.write_text(VIEWS.replace("    TSUBVIEW", "    set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);\n    TSUBVIEW", 1))
    done = CliRunner().invoke(app, ["check", str(file), "--target", "a5"])
    assert done.exit_code == UNMODELLED
    assert "a view (TRESHAPE, TSUBVIEW) of a tile without an address" in done.output and "views.cpp:15" in done.output


@pytest.mark.parametrize("engine", ["reference", "native", "machine"])
def test_views_of_tiles_without_an_address_are_their_memory(tmp_path: Path, engine: str) -> None:
    file = tmp_path / "views.cpp"
    file.write_text(VIEWS)
    x, out = np.arange(64, dtype="float32"), np.zeros(128, "float32")
    kernel = pto.load(file, "views", target="a5")
    run = kernel[1](x, out, target="a5", engine=engine)
    assert [finding for finding in run.findings if finding.level != "note"] == []
    expected = 2 * x
    expected[32:] += expected[32 + 3]
    np.testing.assert_array_equal(out, np.concatenate([expected, expected[32:], x[32:]]))


def test_a_source_that_only_includes_a_kernel_is_judged_with_names_from_macros(tmp_path: Path) -> None:
    kernels = SOURCE.partition("extern")[0]
    (tmp_path / "kernels.hpp").write_text(
        kernels
        + "#define LAUNCH(name, n, ...) name<<<n, nullptr, stream>>>(__VA_ARGS__)\n"
        + "inline void go(float* x, float* y, float* out, void* stream) { LAUNCH(wrong, 2, x, y, out); }\n"
    )
    file = tmp_path / "k.cpp"
    file.write_text('#line 5 "k.in"\n#include "kernels.hpp"\n')
    (kernel,) = load_entries(str(file), "a2a3")
    run = kernel[1](**arrays(), target="a2a3", engine="machine")
    races = [finding for finding in run.findings if finding.first is not None]
    places = {(Path(finding.where.file).name, finding.where.line) for finding in races if finding.where}
    assert (kernel.name, places) == ("go", {("kernels.hpp", TADD)})
    assert all(not finding.where.calls for finding in races if finding.where), "what launches the kernel is outside it"


LONG = """
#include <pto/pto-inst.hpp>
using namespace pto;
using Rows = GlobalTensor<float, Shape<1, 1, 1, 16, 16>, Stride<256, 256, 256, 16, 1>>;

extern "C" __global__ AICORE void twice(__gm__ float* x, __gm__ float* out) {
  Tile<TileType::Vec, float, 16, 16> a;
  TASSIGN(a, 0);
  for (int i = 0; i < 300; ++i) {
    const int at = (get_block_idx() * 300 + i) * 256;
    Rows from(x + at), to(out + at);
#ifdef NEVER
    pipe_barrier(PIPE_ALL);
#endif
    TLOAD(a, from);
    set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
    wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
    TADD(a, a, a);
    set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
    wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
    TSTORE(to, a);
  }
}
"""


def test_a_long_loop_is_repaired_in_its_source(tmp_path: Path) -> None:
    """The search runs some rounds, and the repair is confirmed in all. A statement begins behind a directive."""
    file = tmp_path / "twice.cpp"
    file.write_text(LONG)
    (kernel,) = load_entries(str(file), "a5")
    arrays = np.ones(2 * 300 * 256, "float32"), np.zeros(2 * 300 * 256, "float32")
    report = kernel[2](*arrays, target="a5", engine="machine", options=pto.MachineOptions(blocks=ENOUGH))
    (repair,) = report.repairs
    assert repair.diff, repair.patch.refusal
    lines = repair.patch.after[str(file)].splitlines()
    assert lines[lines.index("    TLOAD(a, from);") - 2 :][:2] == [
        "#endif",
        "    wait_flag(PIPE_MTE3, PIPE_MTE2, EVENT_ID0);",
    ]
    file.write_text("\n".join([*lines, ""]))
    (again,) = load_entries(str(file), "a5")
    assert again[2](*arrays, target="a5", engine="machine").ok
