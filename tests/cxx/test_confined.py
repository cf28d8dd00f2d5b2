"""A source that one does not trust: what its compiler and its kernels see, and what they can change."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import ptokit as pto
from ptokit.cli.commands import app
from ptokit.cxx import compile as compiling
from ptokit.cxx import confine, processes
from ptokit.cxx.child import HIDDEN, Child, RecordLimits
from ptokit.cxx.compile import (
    DEBUG,
    PLAIN,
    STANDARD,
    CompileError,
    CompileLimits,
    CompileOptions,
    compile_source,
    find_compiler,
    run,
)
from ptokit.cxx.database import database_entry, find_database
from ptokit.cxx.names import macros_of
from ptokit.cxx.record import ArrayArgument, record
from ptokit.cxx.repository import folders_of, repository_of
from ptokit.engine.llvm import store
from ptokit.lang.cpp_entries import LIBRARIES
from tests.cxx.building import COMPILER, compile_with, keep_recorder, library

needs_compiler = pytest.mark.skipif(not COMPILER, reason="needs a C++ compiler")
LANDLOCK = confine.landlock() > 0
needs_landlock = pytest.mark.skipif(not LANDLOCK, reason="needs Landlock")
needs_filter = pytest.mark.skipif(not confine.has_filter(), reason="needs a filter of system calls")
SCALED = """\
#include <pto/pto-inst.hpp>
INCLUDE
using namespace pto;
using Row = GlobalTensor<float, Shape<1, 1, 1, 1, 64>, Stride<64, 64, 64, 64, 1>>;

__global__ AICORE void scaled(__gm__ float* x, __gm__ float* out) {
    Tile<TileType::Vec, float, 1, 64> a;
    TASSIGN(a, 0x0);
    Row from(x), to(out);
    TLOAD(a, from);
    pipe_barrier(PIPE_ALL);
    TMULS(a, a, SCALE);
    pipe_barrier(PIPE_ALL);
    TSTORE(to, a);
}
extern "C" void launch(float* x, float* out, void* stream) { scaled<<<1, nullptr, stream>>>(x, out); }
"""
ASSEMBLY = '#define JOINED(a, b) a##b\nJOINED(as, m)(".incbin \\"SECRET\\"");'
"""The assembler reads a file."""
LIMITS = CompileLimits(seconds=60)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a source, in a folder that other users may write to, and a cache of its own."""
    monkeypatch.setenv(store.VARIABLE, str(tmp_path / "cache"))
    keep_recorder()
    root = tmp_path / "shared" / "repository"
    (root / ".git").mkdir(parents=True)
    (root / "scale.hpp").write_text("#define SCALE 2.0f\n")
    (root / "scaled.cpp").write_text(SCALED.replace("INCLUDE", '#include "scale.hpp"'))
    monkeypatch.chdir(root)
    return root


def launched(source: Path) -> list[float]:
    x, out = np.ones(64, "float32"), np.zeros(64, "float32")
    pto.load(source, target="a5")[1](x, out, target="a5")
    return sorted(set(out.tolist()))


def stated(folder: Path, *words: str, source: str = "scaled.cpp") -> Path:
    """A compile database with options for a source."""
    import json

    file = folder / "compile_commands.json"
    row = {"directory": str(folder), "file": str(folder / source), "arguments": ["c++", *words, source]}
    file.write_text(json.dumps([row]))
    return file


def precompile(header: Path, text: str) -> None:
    """A precompiled header of another text, which the compiler of ptokit accepts."""
    compiler, before = find_compiler(), header.read_text()
    header.write_text(text)
    end = ".gch" if compiler.family == "gcc" else ".pch"
    macros = [f"-D{name}" for name in macros_of("a5", "VEC", "CUBE")]
    command = [*compiler.command, f"-std={STANDARD}", *DEBUG, *PLAIN, *macros, "-x", "c++-header", str(header)]
    subprocess.run([*command, "-o", f"{header}{end}"], check=True, timeout=120)
    header.write_text(before)
    os.utime(header, (0, 0))


# --- the compiler --------------------------------------------------------------------------------------------------


@needs_compiler
@pytest.mark.parametrize("way", ["quotes", "-include of a database", "a folder of a database"])
def test_a_precompiled_header_of_the_repository_is_not_taken(repository: Path, way: str) -> None:
    header = repository / "scale.hpp"
    if way != "quotes":
        text = "#include <scale.hpp>" if way.startswith("a folder") else ""
        (repository / "scaled.cpp").write_text(SCALED.replace("INCLUDE", text))
        stated(repository, *(("-I", ".") if text else ("-include", "scale.hpp")))
    precompile(header, "#define SCALE 3.0f\n")
    assert launched(repository / "scaled.cpp") == [2.0]


@needs_compiler
@pytest.mark.parametrize("place", ["the working folder", "a folder of the database"])
def test_no_header_of_the_repository_takes_the_place_of_ours(repository: Path, place: str) -> None:
    folder = repository / ("." if place == "the working folder" else "own")
    (folder / "ptokit").mkdir(parents=True)
    for name in ("builtins", "intrinsics", "entry", "launch", "pto", "recorder"):
        (folder / "ptokit" / f"{name}.hpp").write_text("#error taken\n")
    if place != "the working folder":
        stated(repository, "-Iown")
    assert launched(repository / "scaled.cpp") == [2.0]


@needs_compiler
def test_the_recorder_does_not_depend_on_options(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A macro of the repository changes no library that other sources use."""
    commands: list[list[str]] = []

    def noted(given: Any, *args: Any, **options: Any) -> list[str]:
        commands.extend([*each] for each in given if any(str(word).endswith("runtime.cpp") for word in each))
        return run(given, *args, **options)

    monkeypatch.setattr(compiling, "run", noted)
    store.clear()
    for name in ("RECORDERS", "COMPILED_RECORDERS"):
        monkeypatch.setattr(compiling, name, {})
    options = CompileOptions(("-DFRAMES=0", "-include", str(repository / "scale.hpp")))
    compile_source(repository / "scaled.cpp", "a5", options, kept=LIBRARIES).close()
    made = len(commands)
    assert made == 2 and not [word for each in commands for word in each if "FRAMES" in word or "scale" in word]
    for name in ("RECORDERS", "COMPILED_RECORDERS"):  # as in another process
        monkeypatch.setattr(compiling, name, {})
    for target in ("a5", "a2a3"):
        compile_source(repository / "scaled.cpp", target, kept=LIBRARIES).close()
    assert ["-E" in each for each in commands[made:]] == [True]  # it is read once, and was compiled before


@needs_compiler
@needs_landlock
@pytest.mark.parametrize("text", ['#include "SECRET"', "#include <SECRET>", ASSEMBLY])
def test_a_compiler_does_not_see_files_outside(repository: Path, tmp_path: Path, text: str) -> None:
    secret = tmp_path / "secret.hpp"
    secret.write_text("hidden words in a file\n")
    text = text.replace("SECRET", str(secret)) + "\n#define SCALE 2.0f"
    (repository / "scaled.cpp").write_text(SCALED.replace("INCLUDE", text))
    with pytest.raises(CompileError) as caught:
        compile_source(repository / "scaled.cpp", "a5", kept=LIBRARIES)
    assert "hidden" not in str(caught.value)
    assert f"files outside of {repository} are read from folders that -I names" in caught.value.fix


@needs_compiler
def test_a_link_of_the_repository_leads_nowhere(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.hpp").write_text("#define SCALE 3.0f\n")
    (repository / "scale.hpp").unlink()
    (repository / "scale.hpp").symlink_to(tmp_path / "secret.hpp")
    if LANDLOCK:
        with pytest.raises(CompileError) as caught:
            compile_source(repository / "scaled.cpp", "a5", kept=LIBRARIES)
        assert "folders that -I names" in caught.value.fix
    options = CompileOptions(("-I", str(tmp_path)))
    compile_source(repository / "scaled.cpp", "a5", options, kept=LIBRARIES).close()


@needs_landlock
def test_a_compiler_writes_into_its_folder_only(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    run([["/bin/sh", "-c", f"echo a > {own}/a"]], LIMITS, own)
    assert (own / "a").read_text() == "a\n"
    with pytest.raises(CompileError, match="Permission denied"):
        run([["/bin/sh", "-c", f"echo a > {tmp_path}/a"]], LIMITS, own)
    assert not (tmp_path / "a").exists()


@needs_landlock
def test_a_compiler_starts_no_program_of_the_repository(repository: Path, tmp_path: Path) -> None:
    for folder in (repository, tmp_path):
        (folder / "tool").write_text("#!/bin/sh\necho here\n")
        (folder / "tool").chmod(0o755)
    readable = [str(repository)]
    assert run([["/bin/sh", "-c", f"cat {repository}/tool"]], LIMITS, tmp_path, keep=True, readable=readable)
    for folder in (repository, tmp_path):  # neither what it reads, nor what it writes
        with pytest.raises(CompileError, match="Permission denied"):
            run([["/bin/sh", "-c", f"{folder}/tool"]], LIMITS, tmp_path, readable=readable)


CONFINED = """\
import ctypes, errno
from ptokit.cxx import confine
confine.{name} = lambda *arguments: {result}
try:
    confine.limit_files(["/"]) if "{name}" == "_call" else confine.install(b"")
except OSError as problem:
    print(problem)
"""


@pytest.mark.parametrize(
    ("name", "result", "words"),
    [
        ("_call", "7 if arguments[2] == 0 and arguments[1] is None else -1", "refuses rules"),
        ("_call", "-1 if arguments[0] == confine.RESTRICT_SELF else 7", "does not limit this process"),
        ("_prctl", "-1", "and refuses one"),
    ],
)
def test_what_a_system_has_and_refuses_is_an_error(name: str, result: str, words: str) -> None:
    code = CONFINED.format(name=name, result=result)
    assert words in subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("version", [0, 4])
def test_the_version_says_what_confines(version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confine, "landlock", lambda: version)
    monkeypatch.setattr(confine, "has_filter", lambda: version > 0)
    done = CliRunner().invoke(app, ["--version"])
    held = ("no Landlock limits files, no filter", "Landlock 4 limits files, a filter")[version > 0]
    assert done.output.splitlines()[1] == f"C++ sources: {held} limits system calls"


@needs_filter
@pytest.mark.parametrize("code", ["import socket; socket.socket()", "import socket; socket.socketpair()"])
def test_a_compiler_has_no_network(code: str, tmp_path: Path) -> None:
    python = [sys.prefix, sys.base_prefix, *sys.path]
    run([[sys.executable, "-c", "import socket"]], LIMITS, tmp_path, readable=python)
    with pytest.raises(CompileError, match="Permission denied"):
        run([[sys.executable, "-c", code]], LIMITS, tmp_path, readable=python)


def test_a_compiler_that_cannot_be_started_is_named(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match="/missing/c\\+\\+ cannot be started"):
        run([["/missing/c++"]], LIMITS, tmp_path)


def script(file: Path, text: str) -> str:
    """A compiler of the user's that is a script."""
    file.parent.mkdir(exist_ok=True)
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    return str(file)


@needs_compiler
@pytest.mark.skipif(not COMPILER or find_compiler().family != "gcc", reason="needs GCC")
def test_a_script_may_start_a_compiler_elsewhere(repository: Path, tmp_path: Path) -> None:
    """The user's own compiler is asked what it needs."""
    program = shutil.which(COMPILER[0])
    asked = [str(program), "-v", "-E", "-x", "c++", os.devnull, "-o", os.devnull]
    told = subprocess.run(asked, capture_output=True, text=True, check=True, timeout=60).stderr
    own = [line.split()[0] for line in told.splitlines() if "/cc1plus " in line]
    folders = told.partition("> search starts here:\n")[2].partition("End of search list")[0].split()
    (tmp_path / "elsewhere").mkdir()
    shutil.copy(os.path.realpath(str(program)), tmp_path / "elsewhere" / "cpp")
    between = script(tmp_path / "between" / "cpp", f'exec {tmp_path}/elsewhere/cpp "$@"')
    options = " ".join(["-nostdinc++", *(f"-isystem {folder}" for folder in folders), f"-B{os.path.dirname(own[0])}/"])
    command = script(tmp_path / "bin" / "c++", f'exec {between} {options} "$@"')
    compile_source(repository / "scaled.cpp", "a5", compiler=find_compiler(command)).close()


@needs_compiler
@needs_landlock
def test_a_compiler_gets_the_folders_that_the_user_names(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kept").mkdir()
    text = f'case "$*" in *--version*) ;; *) echo > {tmp_path}/kept/file || exit 1;; esac\nexec "$@"'
    compiler = find_compiler(" ".join([script(tmp_path / "bin" / "caching", text), *COMPILER]))
    (tmp_path / "kept" / "file").unlink(missing_ok=True)
    with pytest.raises(CompileError, match="Permission denied") as caught:
        compile_source(repository / "scaled.cpp", "a5", compiler=compiler)
    assert "PTOKIT_CXX_FOLDERS=/folder:/other gives it more" in caught.value.fix
    monkeypatch.setenv("PTOKIT_CXX_FOLDERS", str(tmp_path / "kept"))
    compile_source(repository / "scaled.cpp", "a5", compiler=compiler).close()
    assert (tmp_path / "kept" / "file").exists()


@needs_compiler
@pytest.mark.skipif(sys.platform != "linux", reason="asks the loader of Linux")
def test_libraries_of_a_compiler_are_found_where_its_loader_finds_them(tmp_path: Path) -> None:
    """Some systems have each library in a folder of its own, which programs name."""
    for name in ("libs", "real"):
        (tmp_path / name).mkdir()
    (tmp_path / "own.cpp").write_text("int own() { return 0; }\n")
    (tmp_path / "main.cpp").write_text("int own();\nint main() { return own(); }\n")
    library, program = tmp_path / "libs" / "libown.so", tmp_path / "real" / "program"
    compile_with("-shared", "-fPIC", tmp_path / "own.cpp", "-o", library)
    compile_with(tmp_path / "main.cpp", library, f"-Wl,-rpath,{tmp_path / 'libs'}", "-o", program)
    told = f"COLLECT_GCC={program}\nLIBRARY_PATH={tmp_path}/bin:/missing"
    found = folders_of((script(tmp_path / "bin" / "c++", f"printf '{told}\n'"),))
    assert {str(tmp_path / name) for name in ("libs", "real", "bin")} <= set(found)
    assert "/missing" not in found


def test_a_compiler_of_the_system_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", None)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert folders_of(("cat", "is not asked")) == ()


# --- databases -----------------------------------------------------------------------------------------------------


def test_a_database_above_the_repository_is_not_found(repository: Path) -> None:
    stated(repository.parent, source="repository/scaled.cpp")
    assert find_database(repository / "scaled.cpp") is None
    own = stated(repository)
    assert find_database(repository / "scaled.cpp") == own


def test_a_database_of_another_user_is_not_taken(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = stated(repository)
    assert find_database(repository / "scaled.cpp") == own
    if os.getuid() == 0:
        os.chown(own, 54321, -1)
    else:
        monkeypatch.setattr(os, "getuid", lambda: own.stat().st_uid + 1)
    assert find_database(repository / "scaled.cpp") is None
    assert database_entry(repository / "scaled.cpp").flags == ()


def test_folders_outside_of_the_repository_are_left_out_unless_the_database_is_named(repository: Path) -> None:
    file = stated(repository, "-I..", "-I", "inside", "-include", "/etc/passwd", "-I/usr/include/x", "-DX")
    found, named = database_entry(repository / "scaled.cpp"), database_entry(repository / "scaled.cpp", file)
    inside = ("-I", str(repository / "inside"))
    assert found.flags == (*inside, "-I", "/usr/include/x", "-DX")
    assert found.left_out == (str(repository.parent), "/etc/passwd")
    assert named.flags[:2] == ("-I", str(repository.parent)) and named.left_out == ()


@needs_compiler
def test_a_file_that_is_not_seen_has_a_remark_that_helps(repository: Path, tmp_path: Path) -> None:
    """At the line that includes it: what to do depends on why."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "scale.hpp").write_text("#define SCALE 2.0f\n")
    (repository / "scale.hpp").unlink()

    def fix() -> str:
        with pytest.raises(pto.VerifyError) as caught:
            launched(repository / "scaled.cpp")
        (finding,) = caught.value.findings
        assert finding.where is not None and finding.where.line == 2
        return finding.fix

    assert fix() == "name the header's folder: -I DIR, or a compile_commands.json beside the source"
    stated(repository, "-DX")
    assert fix() == "name the header's folder: -I DIR"
    stated(repository, "-I", str(tmp_path / "elsewhere"))
    outside = f"files outside of {repository} are read from folders that -I names"
    assert fix() == f"{outside}; the compile database names '{tmp_path / 'elsewhere'}': repeat it with -I"
    if LANDLOCK:
        stated(repository)
        (repository / "scale.hpp").symlink_to(tmp_path / "elsewhere" / "scale.hpp")
        assert fix() == outside


def test_folders_of_a_linked_database_start_where_it_is(repository: Path) -> None:
    import json

    (repository / "build").mkdir()
    row = {"directory": ".", "file": "../scaled.cpp", "arguments": ["c++", "-I../inside"]}
    (repository / "build" / "compile_commands.json").write_text(json.dumps([row]))
    (repository / "compile_commands.json").symlink_to("build/compile_commands.json")
    assert database_entry(repository / "scaled.cpp").flags == ("-I", str(repository / "inside"))


def test_options_that_begin_like_others_are_no_paths(repository: Path) -> None:
    own = [
        "-Xclang",
        "-include-pch",
        "-Xclang",
        "x.pch",
        "-Xclang",
        "-include",
        "-Xclang",
        "x.hxx",
        "-include-pch",
        "y",
    ]
    stated(repository, *own, "-includez.hpp", "-isystem-after", "a", "-Iinside")
    found = database_entry(repository / "scaled.cpp").flags
    files = [("-include", str(repository / name)) for name in ("x.hxx", "z.hpp")]
    assert found == (*files[0], *files[1], "-I", str(repository / "inside"))


def test_links_that_go_round_are_no_folders(repository: Path) -> None:
    (repository / "round").symlink_to("round")
    stated(repository, "-Iround", "-I", "round/x")
    found = database_entry(repository / "scaled.cpp").flags
    assert [*found[::2]] == ["-I", "-I"]


def test_where_a_repository_ends(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = repository / "deep" / "er" / "a.cpp"
    assert repository_of(source) == repository
    monkeypatch.setenv("HOME", str(repository))  # a home folder under version control
    assert repository_of(source) == source.parent
    monkeypatch.chdir(repository / ".git")
    assert repository_of(source) == source.parent
    source.parent.mkdir(parents=True)
    monkeypatch.chdir(source.parent.parent)
    assert repository_of(source) == source.parent.parent


def test_a_user_without_a_home_folder_has_repositories(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(_: int) -> None:
        raise KeyError

    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", unknown)
    assert repository_of(repository / "scaled.cpp") == repository
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("ZIG_GLOBAL_CACHE_DIR", raising=False)
    before = sorted(repository.iterdir())
    assert processes._caches(["zig", "c++"]) == []
    assert sorted(repository.iterdir()) == before


@needs_compiler
def test_a_temporary_folder_may_be_relative(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies of files with launches are there."""
    (repository / "work").mkdir()
    monkeypatch.chdir(repository / "work")
    monkeypatch.setattr("tempfile.tempdir", ".")
    assert launched(repository / "scaled.cpp") == [2.0]


# --- kernels -------------------------------------------------------------------------------------------------------


@needs_compiler
@needs_landlock
def test_a_static_object_reads_no_file_and_sees_nothing_of_the_parent() -> None:
    recording = record(library("peeks"), "tells", (), limits=RecordLimits(seconds=20))
    assert recording.output.startswith("[no][no][no][")  # the environment, a file, the memory
    assert "[no][no][no][no]" not in recording.output  # but a device without content


@needs_compiler
@needs_filter
def test_a_kernel_that_opens_a_file_is_ended_at_its_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("here")
    made = library("peeks")
    path = ArrayArgument("path", np.frombuffer(os.fsencode(tmp_path / "file") + b"\0", np.uint8))
    (problem,) = record(made, "reads", [path], limits=RecordLimits(seconds=20)).problems
    assert (problem.kind, problem.message) == ("forbidden", "the kernel opens a file")
    assert made.line("open") in [frame.line for frame in problem.frames]


@needs_compiler
@needs_filter
def test_a_kernel_learns_nothing_of_files_by_name(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("here")
    path = ArrayArgument("path", np.frombuffer(os.fsencode(tmp_path / "file") + b"\0", np.uint8))
    recording = record(library("peeks"), "asks", [path], limits=RecordLimits(seconds=20))
    assert (recording.output, recording.problems) == ("<> 0\n", ())


@needs_compiler
@needs_filter
def test_a_call_of_another_kind_is_not_said_to_start_a_process_alone() -> None:
    (problem,) = record(library("peeks"), "calls_old", (), limits=RecordLimits(seconds=20)).problems
    assert problem.kind == "forbidden"
    assert problem.message.startswith("the kernel") and problem.message != "the kernel starts a process or a thread"


def is_dumpable() -> int:
    """Whether other processes of the user may see the memory of this one."""
    return ctypes.CDLL(None).prctl(confine.GET_DUMPABLE, 0, 0, 0, 0)


@needs_filter
def test_a_process_is_hidden_until_the_last_one_leaves() -> None:
    before = is_dumpable()
    with HIDDEN:
        with HIDDEN:
            assert is_dumpable() == 0
        assert is_dumpable() == 0
    assert is_dumpable() == before


@needs_compiler
@needs_filter
def test_the_parent_is_hidden_while_a_kernel_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    before, during = is_dumpable(), list[int]()
    wait = Child.wait

    def noted(child: Child) -> Any:
        during.append(is_dumpable())
        return wait(child)

    monkeypatch.setattr(Child, "wait", noted)
    record(library("hostile", "-pthread"), "fine", (), limits=RecordLimits(seconds=20))
    assert during and not any(during)
    assert is_dumpable() == before
