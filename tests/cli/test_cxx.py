"""What commands say of C++ sources: entries, arguments, and faults of the user's own code."""

from __future__ import annotations

import importlib.util
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ptokit.cli.subject import _say_compiler
from tests.cli.shell import ENVIRONMENT, ptokit_, reports_in

SOURCE = """\
#include <pto/pto-inst.hpp>
using namespace pto;

AICORE inline int peek(__gm__ int *p) { return *p; }

template <typename T>
__global__ AICORE void copy(__gm__ T *out, __gm__ T *x)
{
    using Row = GlobalTensor<T, Shape<1, 1, 1, 1, 64>, Stride<1, 1, 1, 64, 1>>;
    Tile<TileType::Vec, T, 1, 64> part;
    TASSIGN(part, 0x0);
    Row from(x + get_block_idx() * 64), to(out + get_block_idx() * 64);
    TLOAD(part, from);
    set_flag(PIPE_MTE2, PIPE_MTE3, EVENT_ID0);
    wait_flag(PIPE_MTE2, PIPE_MTE3, EVENT_ID0);
    TSTORE(to, part);
}

__global__ AICORE void wild(__gm__ int *wrong)
{
    peek(wrong + (1 << 28));
}

template <typename T> void launch(T *out, T *x, void *stream) { copy<T><<<3, nullptr, stream>>>(out, x); }
template void launch<float>(float *out, float *x, void *stream);
template void launch<int32_t>(int32_t *out, int32_t *x, void *stream);

extern "C" void launch_some(float *out, float *x, int n, void *stream)
{
    if (n > 0) copy<float><<<n, nullptr, stream>>>(out, x);
}
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The source, compiled once for all tests."""
    file = tmp_path_factory.mktemp("cxx") / "copies.cpp"
    file.write_text(SOURCE, encoding="utf-8")
    return str(file)


def said(status: int, *words: str) -> str:
    """What a command on A5 prints."""
    result = ptokit_(*words, "--target", "a5")
    assert result.exit_code == status, result.output
    return result.output


def test_all_instantiations_of_a_name_are_judged(source: str) -> None:
    printed = said(0, "check", source, "--entry", "launch")
    assert [row for row in printed.splitlines() if " over " in row] == [
        "launch<float> over 3 blocks", "launch<int32_t> over 3 blocks",
    ]  # fmt: skip
    assert "launch<float> over 3 blocks" in said(0, "check", source, "--entry", "launch< float >")


def test_a_command_on_one_kernel_names_the_entries_that_there_are(source: str) -> None:
    several = "copies.cpp has several entries: launch<float>, launch<int32_t>; name one with --entry"
    assert several in said(2, "run", source)
    assert "has no entry lanch_some; " in (printed := said(2, "run", source, "--entry", "lanch_some"))
    assert "did you mean launch_some?" in printed


def test_a_report_shows_the_entries_that_a_check_judges(source: str, folder: Path) -> None:
    printed = said(0, "report", source, "--entry", "launch")
    reports = reports_in(folder / "report.html")
    names = [f"{source}: launch<{kind}>" for kind in ("float", "int32_t")]
    assert [each["title"] for each in reports] == names
    assert [line[:-1] for line in printed.splitlines() if line.startswith(source)] == names
    for each in reports:
        (memory,) = each["targets"]["a5"]["memory"]
        (live,) = memory["live"]
        assert (live["name"], live["first"], live["end"]) == ("part", 0, 256) and live["writes"] and live["reads"]
        assert each["sources"][0]["language"] == "cpp" and "TLOAD(part, from);" in each["sources"][0]["text"]
    assert "has no entry lanch_some; " in said(2, "report", source, "--entry", "lanch_some")


def test_the_arguments_choose_the_entry(source: str) -> None:
    assert "launch_some over 2 blocks" in said(0, "check", source, "--arg", "n=2")
    assert "launch_some launched no kernel\n    fix: give arguments" in said(1, "check", source, "--arg", "n=0")
    assert "--arg n=8" in said(2, "check", source, "--entry", "launch_some")


def test_an_array_that_is_too_small_is_named_with_the_elements_that_are_used(source: str) -> None:
    printed = said(1, "check", source, "--entry", "launch<float>", "--arg", "x=float32[100]")
    assert "[KN-10] tload uses elements 64 to 127 of x in block 1; the array has 100" in printed
    assert "fix: pass an array of at least 192 elements" in printed
    assert "copies.cpp:13:" in printed
    said(0, "check", source, "--entry", "launch<float>", "--arg", "x=float32[192]")


def test_a_function_that_launches_takes_no_grid(source: str) -> None:
    assert "--grid is for kernels" in said(2, "check", source, "--entry", "launch<float>", "--grid", "2")


def test_limits_of_a_recording(source: str) -> None:
    printed = said(1, "check", source, "--entry", "launch<float>", "--limit", "calls=2", "--limit", "memory=1G")
    assert "the kernel makes more than 2 calls" in printed and "--limit seconds=60" in printed
    assert "--limit takes seconds=60" in said(2, "check", source, "--limit", "minutes=1")


def test_a_compiler_that_cannot_be_used_is_named(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _say_compiler.cache_clear()
    monkeypatch.setenv("CXX", "no-such-compiler")
    printed = said(0, "check", source, "--entry", "launch<float>")
    assert "CXX=no-such-compiler cannot be used: no-such-compiler is not installed; " in printed


def test_standard_input_has_its_name(source: str) -> None:
    words = ("check", "-", "--target", "a5", "--entry", "launch<float>", "--limit", "calls=2")
    done = subprocess.run(
        [sys.executable, "-m", "ptokit", *words],
        input=SOURCE,
        text=True,
        capture_output=True,
        env=ENVIRONMENT,
        check=False,
    )
    assert "<stdin>:14:" in done.stdout and "ptokit-stdin" not in done.stdout + done.stderr


def test_a_crash_has_its_line_and_the_calls_that_lead_there(source: str) -> None:
    printed = said(1, "check", source, "--arg", "wrong=int32[8]")
    assert "copies.cpp:4:" in printed
    assert "error [KN-20] the kernel accesses memory that it does not have" in printed
    assert "called from " in printed
    assert "copies.cpp:21:" in printed.partition("called from ")[2].splitlines()[0]


def test_a_header_that_is_not_found(folder: Path) -> None:
    (folder / "k.cpp").write_text('#include "tiling.h"\n', encoding="utf-8")
    printed = said(1, "check", "k.cpp")
    assert "k.cpp:1:10: error [KN-20] the compiler refuses the source: " in printed
    assert "tiling.h" in printed
    assert "fix: name the header's folder: -I DIR" in printed


def test_a_system_without_a_compiler(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "k.cpp").write_text("", encoding="utf-8")
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert "ptokit: no C++ compiler was found: install g++" in said(2, "check", "k.cpp")


def test_a_command_that_is_terminated_leaves_nothing(folder: Path) -> None:
    rest = folder / "temporary"
    rest.mkdir()
    (folder / "k.cpp").write_text("#include <pto/pto-inst.hpp>\n", encoding="utf-8")
    command = [sys.executable, "-m", "ptokit", "check", "k.cpp"]
    with subprocess.Popen(command, env={**ENVIRONMENT, "TMPDIR": str(rest)}) as process:
        while not [*rest.glob("ptokit-cxx-*/*")] and process.poll() is None:
            time.sleep(0.01)
        process.terminate()
        assert process.wait() == 128 + signal.SIGTERM
    assert not [*rest.iterdir()]


SCATTER = """\
#include <pto/pto-inst.hpp>
using namespace pto;

template <int Rows>
__global__ AICORE void put(__gm__ float *table, __gm__ float *x, __gm__ int32_t *ids)
{
    using Row = Stride<1, 1, 1, 16, 1>;
    Tile<TileType::Vec, int32_t, 1, 8> index;
    Tile<TileType::Vec, float, 8, 16> rows;
    TASSIGN(index, 0x0);
    TASSIGN(rows, 0x40);
    GlobalTensor<int32_t, Shape<1, 1, 1, 1, 8>, Stride<1, 1, 1, 8, 1>> from(ids);
    GlobalTensor<float, Shape<1, 1, 1, 8, 16>, Row> data(x);
    GlobalTensor<float, Shape<1, 1, 1, Rows, 16>, Row> to(table);
    TLOAD(index, from);
    TLOAD(rows, data);
    pipe_barrier(PIPE_ALL);
    MSCATTER<Coalesce::Row>(to, rows, index);
}

template __global__ void put<4>(__gm__ float *table, __gm__ float *x, __gm__ int32_t *ids);
template __global__ void put<6>(__gm__ float *table, __gm__ float *x, __gm__ int32_t *ids);
"""


def test_what_indices_do_that_ptokit_made_up_is_a_note(tmp_path: Path) -> None:
    """Eight rows into a table of four or six: an index repeats, whatever it is; those that are given are judged."""
    file = tmp_path / "put.cpp"
    file.write_text(SCATTER)
    printed = said(0, "check", str(file), "--grid", "1")
    assert "note [" in printed and "ptokit made up the values of ids: give them with --arg" in printed
    assert "error" not in printed and "hazard" not in printed
    given = said(1, "check", str(file), "--grid", "1", "--arg", "ids=int32[8]:0..3")
    assert "error [MS-CONF-02, H-14]" in given and "made up" not in given
    assert "ask for the last writer with ScatterConflict::Last" in given
    older = ptokit_("check", str(file), "--grid", "1", "--arg", "ids=int32[8]:0..3", "--target", "a2a3").output
    assert "ScatterConflict" not in older and "as the public headers do: --target a2a3@2026.08" in older
    assert ": accepted" in ptokit_("check", str(file), "--arg", "ids=int32[8]:0..3", "--target", "a2a3@2026.08").output


def test_a_finding_of_several_entries_is_shown_once_with_these(tmp_path: Path) -> None:
    file = tmp_path / "put.cpp"
    file.write_text(SCATTER.replace("    pipe_barrier(PIPE_ALL);\n", ""))
    printed, _, _ = said(1, "check", str(file), "--grid", "1").partition("not checked: ")
    first, rest = printed.split("put<6> over 1 block\n")
    shown, listed = rest.split("findings of several entries, each shown once:\n")
    assert "KN-13" in first or "H-2" in first
    assert "error [" not in shown and shown.endswith("; findings as above\n")
    assert all(line.endswith(" in 2 entries: put<4>, put<6>") for line in listed.splitlines()) and listed


OTHER_CONFLICT = """\
#include <pto/pto-inst.hpp>
using namespace pto;

template <int Number>
__global__ AICORE void again(__gm__ float *x, __gm__ float *out)
{
    Tile<TileType::Vec, float, 8, 16> a, b;
    TASSIGN(a, 0x0);
    TASSIGN(b, 0x1000);
    GlobalTensor<float, Shape<1, 1, 1, 8, 16>, Stride<1, 1, 1, 16, 1>> from(x), to(out);
    TLOAD(a, from);
    pipe_barrier(PIPE_ALL);
    if constexpr (Number == 1) TADDS(b, a, 1.0f);
    if constexpr (Number == 2) TSTORE(to, a);
    TLOAD(a, from);
}

template __global__ AICORE void again<1>(__gm__ float *x, __gm__ float *out);
template __global__ AICORE void again<2>(__gm__ float *x, __gm__ float *out);
"""


def test_other_findings_of_a_line_are_shown_for_each_entry(tmp_path: Path) -> None:
    file = tmp_path / "again.cpp"
    file.write_text(OTHER_CONFLICT)
    printed = said(1, "check", str(file), "--grid", "1", "--target", "a5")
    assert "after tadds's read of a" in printed and "after tstore's read of a" in printed
    assert "several entries" not in printed and "as above" not in printed


VALUES = """\
#include <pto/pto-inst.hpp>
using namespace pto;

__global__ AICORE void values(__gm__ int32_t *out, __gm__ int32_t *x, __gm__ int32_t *ids, __gm__ int32_t *other)
{
    Tile<TileType::Vec, int32_t, 8, 16> rows, quotients;
    Tile<TileType::Vec, int32_t, 1, 8> index, more, counted;
    TASSIGN(rows, 0x0);
    TASSIGN(quotients, 0x400);
    TASSIGN(index, 0x800);
    TASSIGN(more, 0x900);
    TASSIGN(counted, 0xa00);
    GlobalTensor<int32_t, Shape<1, 1, 1, 8, 16>, Stride<1, 1, 1, 16, 1>> data(x), result(out);
    GlobalTensor<int32_t, Shape<1, 1, 1, 1, 8>, Stride<1, 1, 1, 8, 1>> from(ids), others(other);
    TLOAD(more, others);
    TLOAD(index, from);
    TLOAD(rows, data);
    TLOAD(quotients, data);
    pipe_barrier(PIPE_ALL);
    CODE
    TSTORE(result, quotients);
}
"""
BY_INDEX = "MGATHER<Coalesce::Row>(rows, data, index);"
BY_COUNTED = BY_INDEX.replace("index", "counted")
COUNTED = "TCI<decltype(index), int32_t, 0>(counted, {}); pipe_barrier(PIPE_ALL);" + BY_COUNTED
DIVIDED = "TSUBS(rows, rows, 3); pipe_barrier(PIPE_ALL); TDIV(quotients, rows, rows);"


@pytest.mark.parametrize(
    ("code", "level", "made"),
    [
        (COUNTED.format(6), "error [MG-OOB-04, H-10]", ""),
        ("TADDS(index, index, 6); pipe_barrier(PIPE_ALL);" + BY_INDEX, "note [MG-OOB-04, H-10]", "ids"),
        ("TADD(index, index, more); pipe_barrier(PIPE_ALL);" + BY_INDEX, "note [MG-OOB-04, H-10]", "ids, other"),
        (COUNTED.format("more.GetValue(5)"), "note [MG-OOB-04, H-10]", "other"),
        (DIVIDED, "note [CP-DIV-01]", "x"),
        ("TDIVS(rows, rows, 0);", "error [CP-DIV-01]", ""),
    ],
)
def test_what_does_not_depend_on_arrays_that_ptokit_made_up_stays_an_error(
    tmp_path: Path, code: str, level: str, made: str
) -> None:
    file = tmp_path / "values.cpp"
    file.write_text(VALUES.replace("CODE", code))
    printed = said(int("error" in level or code is DIVIDED), "check", str(file), "--grid", "1", "--target", "a5")
    (line,) = [each for each in printed.splitlines() if level in each]
    assert line.endswith(f"; ptokit made up the values of {made}: give them with --arg") == bool(made), printed
    assert ("error [KN-13] tstore reads quotients" in printed) == (code is DIVIDED)


def test_examples_of_arrays_have_the_types_of_their_pointers(tmp_path: Path) -> None:
    file = tmp_path / "halves.cpp"
    code = SOURCE[: SOURCE.index("AICORE inline int peek")]
    code += SOURCE[SOURCE.index("template <typename T>") : SOURCE.index("__global__ AICORE void wild")]
    launch = "<<<2, nullptr, stream>>>(reinterpret_cast<half *>(out), reinterpret_cast<half *>(x))"
    entries = (
        f"void {name}(uint16_t *out, uint8_t *x, void *stream) {{ copy<half>{launch}; }}\n" for name in ("a", "b")
    )
    file.write_text(code + "".join(entries).replace("<<<2", "<<<1", 1))
    example = "--arg", "out=uint16[128]", "--arg", "x=float16[128]"
    assert said(0, "check", str(file)).splitlines()[-1].endswith(" ".join(example))
    assert "not checked" not in said(0, "check", str(file), *example)


def test_a_run_names_the_arrays_that_are_made_up(source: str, tmp_path: Path) -> None:
    out = "--entry", "launch<float>", "--out", f"out={tmp_path / 'out.npy'}"
    assert "made up the values of x: give them with --arg" in said(0, "run", source, *out)
    assert "made up" not in said(0, "run", source, *out, "--arg", "x=float32[3,64]")


def test_an_array_that_the_kernel_itself_may_read_is_made_up_too(tmp_path: Path) -> None:
    file = tmp_path / "values.cpp"
    without = VALUES.replace("from(ids), others(other);", "from(ids);").replace("    TLOAD(more, others);\n", "")
    file.write_text(without.replace("CODE", COUNTED.format("6 + other[3]")))
    printed = said(0, "check", str(file), "--grid", "1", "--target", "a5")
    assert "note [MG-OOB-04, H-10]" in printed and "made up the values of other:" in printed


LEFT_OUT = """\
#include <pto/pto-inst.hpp>
using namespace pto;

#define WARMUP(name) extern "C" __global__ AICORE void name(__gm__ float *x) { pipe_barrier(PIPE_ALL); }
WARMUP(warmup_kernel)
WARMUP(launched_below)
extern "C" __global__ AICORE void declared(__gm__ float *x);
WARMUP(declared)

template <typename T>
__global__ AICORE void instance(__gm__ T *x) { pipe_barrier(PIPE_ALL); }
template __global__ AICORE void instance<float>(__gm__ float *x);

template <typename T, int N>
__global__ AICORE void never(__gm__ T *x) { pipe_barrier(PIPE_ALL); }

extern "C" void launch_all(float *x, void *stream) { launched_below<<<1, nullptr, stream>>>(x); }

extern "C" void launch_some(float *x, int n, void *stream)
{
    for (int k = 0; k < n; k++) launched_below<<<1, nullptr, stream>>>(x);
}
"""


def test_what_is_not_judged_is_listed(tmp_path: Path) -> None:
    file = tmp_path / "left.cpp"
    file.write_text(LEFT_OUT)
    listed = [line for line in said(3, "check", str(file)).splitlines() if line.startswith("not judged: ")]
    assert listed == [
        "not judged: warmup_kernel: use --entry 'warmup_kernel'",
        "not judged: declared: use --entry 'declared'",
        "not judged: instance<float>: use --entry 'instance<float>'",
        "not judged: launch_some: use --entry 'launch_some' --arg n=...",
        "not judged: never: nothing instantiates this template",
    ]
    assert json.loads(said(3, "check", str(file), "--json"))["left_out"] == [line[12:] for line in listed]
    assert "not judged" not in said(0, "check", str(file), "--entry", "launch_all")
    assert "not judged" not in said(0, "check", str(file), "--arg", "n=2")
    given = said(3, "check", str(file), "--arg", "x=float32[8]")
    assert [line for line in given.splitlines() if line.startswith("not judged: ")] == listed[:-1]


def test_blocks_of_a_source_are_chosen_without_run(source: str) -> None:
    printed = said(0, "check", source, "--entry", "launch<float>", "--blocks", "first,last")
    assert "launch<float> over 3 blocks" in printed


DOUBLED = """\
#include <pto/pto-inst.hpp>
using namespace pto;
extern "C" __global__ AICORE void doubled(__gm__ float *out, __gm__ float *x, int rows)
{
    using Rows = GlobalTensor<float, Shape<1, 1, 1, 16, 64>, Stride<1, 1, 1, 64, 1>>;
    Tile<TileType::Vec, float, 16, 64> part;
    TASSIGN(part, 0x0);
    for (int row = 0; row < rows; row += 16) {
        Rows from(x + row * 64), to(out + row * 64);
        TLOAD(part, from);
        set_flag(PIPE_MTE2, PIPE_MTE3, EVENT_ID0);
        wait_flag(PIPE_MTE2, PIPE_MTE3, EVENT_ID0);
        TSTORE(to, part);
        set_flag(PIPE_MTE3, PIPE_MTE2, EVENT_ID0);
        wait_flag(PIPE_MTE3, PIPE_MTE2, EVENT_ID0);
    }
}
"""


def test_calls_beyond_what_numbers_say_are_noted(tmp_path: Path) -> None:
    file = tmp_path / "doubled.cpp"
    file.write_text(DOUBLED, encoding="utf-8")
    whole = said(0, "check", str(file), "--arg", "rows=48")
    assert "[KN-10]" not in whole
    assert "not checked: the ends of arrays that are not given, as with --arg out=float32[3072]" in whole
    beyond = said(0, "check", str(file), "--arg", "rows=50")
    assert "note [KN-10] calls go up to element 4,096 of x, 896 beyond rows * 64, which is 3,200" in beyond
    assert "--arg x=float32[3200]" in beyond
    given = said(1, "check", str(file), "--arg", "rows=50", "--arg", "x=f32[3200]", "--arg", "out=f32[4096]")
    assert "the array has 3,200" in given and "not checked" not in given
