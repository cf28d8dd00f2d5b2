"""Compilers, options, limits and messages."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from ptokit.cxx import compile as compiling
from ptokit.cxx import processes
from ptokit.cxx.compile import CompileError, CompileLimits, CompileOptions, compile_source, find_compiler
from ptokit.cxx.database import DatabaseError, find_database, read_database
from ptokit.cxx.names import ENUMS, OWN, instructions, used_in
from ptokit.cxx.record import ArrayArgument, record
from ptokit.isa.catalog import INSTRUCTIONS

try:
    find_compiler()
except CompileError:
    pytest.skip("no C++ compiler", allow_module_level=True)

EMPTY = "#include <pto/pto-inst.hpp>\n"


def written(folder: Path, text: str) -> Path:
    path = folder / "k.cpp"
    path.write_text(text)
    return path


def test_every_instruction_of_the_catalogue_has_a_function() -> None:
    by_hand = (OWN / "ptokit" / "places.hpp").read_text()
    missing = {(each.text.variant_of or name).upper() for name, each in INSTRUCTIONS.items()} - set(instructions())
    assert all(f" {name}(" in by_hand for name in missing)


@pytest.mark.parametrize("enum", [row for row in ENUMS if row.space == "pto"], ids=lambda row: row.name)
def test_words_of_an_enum_are_distinct(enum) -> None:
    words = {word: number for _, number, word in enum.members}
    assert len(set(words.values())) == len({number for _, number, _ in enum.members}) == len(words) or enum.name in (
        "AccPhase",
        "TSyncCVMode",
    )


def test_a_source_with_cores_is_compiled_for_each(tmp_path: Path) -> None:
    body = """
        #if defined(__DAV_CUBE__) && (defined(__DAV_VEC__) || !defined(PTO_NPU_ARCH_A5) || !MINE)
        #error both cores
        #endif
        #include "more.hpp"
        #ifdef __DAV_VEC__
        extern "C" __global__ AICORE void vector_only(__gm__ Number* p) { }
        #endif
        extern "C" __global__ AICORE void both(__gm__ Number* p) { }
        """
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "more.hpp").write_text("using Number = half;\n")
    options = CompileOptions((f"-I{tmp_path / 'more'}", "-DMINE=1", "-std=c++17"))
    with compile_source(written(tmp_path, EMPTY + body), "a5", options) as build:
        assert [(library.core, library.entries) for library in build.libraries] == [
            ("vector", ("vector_only", "both")), ("cube", ("both",)),
        ]  # fmt: skip
        folder = build.folder
    assert not folder.exists()


NAMED = """
    using Row = Tile<TileType::Vec, float, 1, 64>;
    #define JOINED(a, b) a##b
    #include BY_MACRO
    template <typename A> void by_template(A& a) { TSUB_IMPL(a, a, a); }
    extern "C" __global__ AICORE void named(__gm__ float* p) {
        Row a;
        JOINED(TA, DD)(a, a, a);
        OF_THE_COMMAND(a, a, a);
        of_the_header(a);
        by_template(a);
    }
    """


def test_an_instruction_is_known_however_it_is_named(tmp_path: Path) -> None:
    """Only the functions that a source names are compiled."""
    (tmp_path / "header.hpp").write_text("void of_the_header(Row& a) { pto::TMAX(a, a, a); }")
    options = CompileOptions(("-DOF_THE_COMMAND=TMUL", '-DBY_MACRO="header.hpp"'))
    with compile_source(written(tmp_path, EMPTY + "using namespace pto;" + NAMED), "a5", options) as build:
        recording = record(build, "named", [ArrayArgument("p", np.zeros(8, "float32"))], 1)
    assert recording.problems == ()
    assert [call.name for call in recording.calls] == ["named", "tadd", "tmul", "tmax", "tsub"]


def test_only_the_functions_that_a_source_names_are_compiled() -> None:
    enums = '# 1 "/p/own/ptokit/enums.hpp" 1\nenum class Op { TDIV, TMUL };\n# 7 "k.cpp"\n'
    assert used_in([f"{enums}pto::TADD(a, a, a);", "TSUB_IMPL(a); XTMAX; TMAXX;"]) == [
        "PTOKIT_USED", "PTOKIT_USED_TADD", "PTOKIT_USED_TSUB",
    ]  # fmt: skip


def test_a_name_of_no_instruction_is_compared_with_all(tmp_path: Path) -> None:
    unknown = 'extern "C" __global__ AICORE void unknown(__gm__ float* p) { pto::TROWSUMM(1); }'
    with pytest.raises(CompileError, match=r"TROWSUMM") as raised:
        compile_source(written(tmp_path, f"{EMPTY}{unknown}\n"))
    assert re.search(r"did you mean .?(pto::)?TROWSUM\b", str(raised.value))


def test_a_source_that_asks_for_its_core_and_is_alike_for_both_is_compiled_once(tmp_path: Path) -> None:
    kernel = 'extern "C" __global__ AICORE void either(__gm__ float* p) { LOOPS }'
    asked = "defined(__DAV_C220_CUBE__) || defined(__DAV_C220_VEC__)"
    for more, cores in (("", ["any"]), ("#ifdef __DAV_C220_VEC__\nint vector;\n#endif\n", ["vector", "cube"])):
        text = (
            f"{EMPTY}{more}#if {asked}\n#define LOOPS pipe_barrier(PIPE_ALL);\n#else\n#define LOOPS\n#endif\n{kernel}\n"
        )
        with compile_source(written(tmp_path, text), "a2a3") as build:
            assert [library.core for library in build.libraries] == cores


def test_a_kernel_of_one_core_is_run_on_that_one(tmp_path: Path) -> None:
    """Wholly inside the branch of a core; the older path of the headers, too."""
    kernel = 'extern "C" __global__ AICORE void one(__gm__ float* p) { pipe_barrier(PIPE_ALL); }'
    text = f'#include "common/pto_instr.hpp"\n#if defined(__DAV_C220_VEC__)\n{kernel}\n#endif\n'
    with compile_source(written(tmp_path, text), "a2a3") as build:
        assert [(library.core, library.entries) for library in build.libraries] == [("vector", ("one",))]
        recording = record(build, "one", [ArrayArgument("p", np.zeros(8, "float32"))], 1)
    assert not recording.problems and {block.core for block in recording.launches[0].blocks} == {"vector"}


def test_errors_name_the_users_line(tmp_path: Path) -> None:
    text = EMPTY + "void f(void* stream) { k<<<1, nullptr, stream>>>(); }\n\nint x = ;\n"
    with pytest.raises(CompileError) as found:
        compile_source(written(tmp_path, text))
    assert f"{tmp_path / 'k.cpp'}:2" in str(found.value)
    assert len(str(found.value).splitlines()) <= processes.LINES


def test_an_entry_that_does_not_exist_is_explained(tmp_path: Path) -> None:
    text = EMPTY + 'extern "C" __global__ AICORE void kernel(__gm__ float* p) {}\n'
    with pytest.raises(CompileError, match=r"no function other.*found: kernel\. .*explicit instantiation"):
        compile_source(written(tmp_path, text), options=CompileOptions(entries=("other",)))


HOSTILE = {
    "endless templates": "template <int N> struct A { static constexpr int v = A<N + 1>::v; }; int x = A<0>::v;",
    "much memory": "template <int N> struct T { T<N - 1> a; int x[N]; }; template <> struct T<0> {}; "
    "constexpr long f(long n) { long s = 0; for (long i = 0; i < n; ++i) s += i; return s; } "
    "template <long... I> long g() { return (f(200000 + I) + ...); } constexpr long y = f(1L << 60);",
    "an include of itself": '#include "k.cpp"',
    "a device file": '#include "/dev/zero"',
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_sources_end_with_a_message(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = CompileLimits(seconds=20, memory=1 << 30, output=1 << 24)
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr(compiling.tempfile, "tempdir", str(tmp_path / "scratch"))
    with pytest.raises(CompileError) as found:
        compile_source(written(tmp_path, HOSTILE[name] + "\n"), options=CompileOptions(limits=limits))
    assert str(found.value).strip() and len(str(found.value)) < 20_000
    assert not list((tmp_path / "scratch").iterdir())


@pytest.mark.parametrize(
    ("source", "target", "options", "message"),
    [
        ("none.cpp", "a2a3", CompileOptions(), "does not exist"),
        ("k.cpp", "cpu", CompileOptions(), "a2a3 or a5"),
        ("k.cpp", "a5", CompileOptions(standard="basic"), "no C++ standard"),
    ],
)
def test_wrong_requests_are_explained(
    tmp_path: Path, source: str, target: str, options: CompileOptions, message: str
) -> None:
    written(tmp_path, EMPTY)
    with pytest.raises(CompileError) as found:
        compile_source(tmp_path / source, target, options)
    assert message in str(found.value)


def test_compilers_are_found_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = {"g++": "g++ (GCC) 10.2.1", "clang++": "clang version 14.0.6", "mine": "mine (Debian) 13.1.0"}
    monkeypatch.setattr(shutil, "which", lambda name: name if name in versions else None)
    monkeypatch.setattr(compiling, "_version_text", lambda words: versions[words[0]])
    monkeypatch.setattr(compiling.importlib.util, "find_spec", lambda name: None)
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(CompileError, match=r"pip install 'ptokit\[cxx\]'"):
        find_compiler()
    with pytest.raises(CompileError, match="gcc 10; at least 11"):
        find_compiler("g++")
    with pytest.raises(CompileError, match="not installed"):
        find_compiler("none")
    monkeypatch.setenv("CXX", "mine -m64")
    assert find_compiler().command == ("mine", "-m64") and find_compiler().version == 13
    monkeypatch.delenv("CXX")
    monkeypatch.setattr(compiling.importlib.util, "find_spec", lambda name: object())
    assert find_compiler().command[1:] == ("-m", "ziglang", "c++")


def test_a_database_gives_flags_target_and_core(tmp_path: Path) -> None:
    source = written(tmp_path, EMPTY)
    build = tmp_path / "build"
    build.mkdir()
    command = "bisheng -xcce --cce-aicore-arch=dav-c310-vec -I../include -D A=1 -DB='x y' "
    command += "-isystem /opt/x -O2 -std=c++17 -o k.o ../k.cpp"
    rows = [
        {"directory": str(build), "file": "../other.cpp", "command": "x"},
        {"directory": str(build), "file": "../k.cpp", "command": command},
    ]
    (build / "compile_commands.json").write_text(json.dumps(rows))
    database = find_database(source)
    assert database == build / "compile_commands.json"
    entry = read_database(database, source)
    assert entry.flags == ("-I", str(tmp_path / "include"), "-DA=1", "-DB=x y", "-isystem", "/opt/x", "-std=c++17")
    assert (entry.target, entry.core) == ("a5", "vector")
    with pytest.raises(DatabaseError, match="does not list"):
        read_database(build, tmp_path / "none.cpp")


@pytest.mark.parametrize(
    "text", ["", "{}", "[[[[", '[{"file": "k.cpp", "command": "\'"}]', "null", "[1, 2]", "[" * 100_000]
)
def test_broken_databases_are_explained(tmp_path: Path, text: str) -> None:
    (tmp_path / "compile_commands.json").write_text(text)
    with pytest.raises(DatabaseError):
        read_database(tmp_path, written(tmp_path, EMPTY))


def test_what_compilers_write_stays_in_the_folder(tmp_path: Path) -> None:
    ask = ["sh", "-c", 'echo "$TMPDIR $ZIG_LOCAL_CACHE_DIR"']
    assert processes.run([ask], CompileLimits(), tmp_path, keep=True) == [f"{tmp_path} {tmp_path}\n"]


PLAIN_SOURCE = (
    "#include <pto/pto-inst.hpp>\n__global__ AICORE void k(__gm__ float* x) { pto::pipe_barrier(PIPE_ALL); }\n"
)


@pytest.mark.parametrize("name", ['a"b.cpp', "a\\b.cpp", "a\nb.cpp", "a\udcffb.cpp"])
def test_names_that_no_include_can_state_are_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(PLAIN_SOURCE)
    with pytest.raises(CompileError, match="which no #include can state: rename it"):
        compile_source(tmp_path / name)


@pytest.mark.parametrize("how", ["fifo", "socket", "device"])
def test_what_is_no_regular_file_is_refused_at_once(tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "run", None)  # no compiler is started
    special = tmp_path / "special.hpp"
    if how == "fifo":
        os.mkfifo(special)
    elif how == "socket":
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(str(special))
    else:
        special.symlink_to("/dev/zero")
    with pytest.raises(CompileError, match="is no regular file"):
        compile_source(special)
    (tmp_path / "k.cpp").write_text(f'#include "special.hpp"\n{PLAIN_SOURCE}')
    with pytest.raises(CompileError, match=r"special\.hpp is included, and is no regular file"):
        compile_source(tmp_path / "k.cpp")
    with pytest.raises(CompileError, match="is included, and is no regular file"):
        compile_source(tmp_path / "k.cpp", options=CompileOptions(("-include", str(special))))


@pytest.mark.parametrize(
    "text",
    ['#define F "pipe"\n#include F', '#import "pipe"', '#if __has_include("pipe")\n#endif', '#include/**/"pipe"'],
)
@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs /proc")
def test_a_compiler_that_waits_for_a_pipe_is_stopped(tmp_path: Path, text: str) -> None:
    """However the source names it."""
    (tmp_path / ".git").mkdir()
    os.mkfifo(tmp_path / "pipe")
    options = CompileOptions(limits=CompileLimits(still=0.3))
    with pytest.raises(CompileError, match="pipe"):
        compile_source(written(tmp_path, EMPTY + text), options=options)


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs /proc")
@pytest.mark.parametrize(("code", "works"), [("while True: pass", True), ("input()", False)])
def test_work_is_that_of_all_processes(code: str, works: bool) -> None:
    """A driver waits for the compiler that it has started."""
    driver = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {code!r}])"
    with subprocess.Popen([sys.executable, "-c", driver], stdin=subprocess.PIPE, start_new_session=True) as process:
        same = 0
        while same < 20:  # starting is work in both cases
            before = processes._ticks({process.pid})
            time.sleep(0.05)
            is_work = before is None or before != processes._ticks({process.pid})
            same = same + 1 if is_work == works else 0
        os.killpg(process.pid, signal.SIGKILL)


def test_macros_that_stand_for_much_are_an_error(tmp_path: Path) -> None:
    """The text that ptokit reads is bounded: 400 bytes stand for 4 GiB."""
    rows = ["#define X0 ;;;;;;;;;;;;;;;;", *(f"#define X{n + 1}{f' X{n}' * 8}" for n in range(9)), "X9"]
    with pytest.raises(CompileError, match="writes more than 32 MiB"):
        compile_source(written(tmp_path, "\n".join(rows)))
