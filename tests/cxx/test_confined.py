"""A source that one does not trust: what its compiler and its kernels see, and what they can change."""

from __future__ import annotations

import ctypes
import os
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
from ptokit.cxx import confine
from ptokit.cxx.child import HIDDEN, RecordLimits
from ptokit.cxx.compile import (
    DEBUG,
    PLAIN,
    STANDARD,
    TARGETS,
    CompileError,
    CompileLimits,
    CompileOptions,
    compile_source,
    find_compiler,
    run,
)
from ptokit.cxx.database import database_entry, find_database
from ptokit.cxx.record import ArrayArgument, record
from ptokit.cxx.repository import repository_of
from ptokit.engine.llvm import store
from ptokit.lang.cpp_source import LIBRARIES
from tests.cxx.building import COMPILER, library

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
    macros = [f"-D{name}" for name in TARGETS["a5"]]
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
    options = CompileOptions(("-DFRAMES=0", "-include", str(repository / "scale.hpp")))
    compile_source(repository / "scaled.cpp", "a5", options, kept=LIBRARIES).close()
    made = len(commands)
    assert made == 2 and not [word for each in commands for word in each if "FRAMES" in word or "scale" in word]
    compile_source(repository / "scaled.cpp", "a5", kept=LIBRARIES).close()
    assert ["-E" in each for each in commands[made:]] == [True]  # it is read, and was compiled before


@needs_compiler
@needs_landlock
@pytest.mark.parametrize("text", ['#include "SECRET"', "#include <SECRET>", ASSEMBLY])
def test_a_compiler_does_not_see_files_outside(repository: Path, tmp_path: Path, text: str) -> None:
    secret = tmp_path / "secret.hpp"
    secret.write_text("hidden words in a file\n")
    text = text.replace("SECRET", str(secret)) + "\n#define SCALE 2.0f"
    (repository / "scaled.cpp").write_text(SCALED.replace("INCLUDE", text))
    with pytest.raises(CompileError) as caught:
        compile_source(repository / "scaled.cpp", "a5")
    assert "hidden" not in str(caught.value)
    assert f"files outside of {repository} are read from folders that -I names" in str(caught.value)


@needs_compiler
def test_a_link_of_the_repository_leads_nowhere(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.hpp").write_text("#define SCALE 3.0f\n")
    (repository / "scale.hpp").unlink()
    (repository / "scale.hpp").symlink_to(tmp_path / "secret.hpp")
    if LANDLOCK:
        with pytest.raises(CompileError, match="folders that -I names"):
            compile_source(repository / "scaled.cpp", "a5")
    options = CompileOptions(("-I", str(tmp_path)))
    compile_source(repository / "scaled.cpp", "a5", options).close()


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


# --- databases -----------------------------------------------------------------------------------------------------


def test_a_database_above_the_repository_is_not_found(repository: Path) -> None:
    stated(repository.parent, source="repository/scaled.cpp")
    assert find_database(repository / "scaled.cpp") is None
    own = stated(repository)
    assert find_database(repository / "scaled.cpp") == own


def test_a_database_of_another_user_is_not_taken(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = stated(repository)
    owner = own.stat().st_uid
    monkeypatch.setattr(os, "getuid", lambda: owner + 1)
    assert (find_database(repository / "scaled.cpp") is None) == (owner != 0)


def test_folders_outside_of_the_repository_are_left_out_unless_the_database_is_named(repository: Path) -> None:
    file = stated(repository, "-I..", "-I", "inside", "-include", "/etc/passwd", "-I/usr/include/x", "-DX")
    found, named = database_entry(repository / "scaled.cpp"), database_entry(repository / "scaled.cpp", file)
    inside = ("-I", str(repository / "inside"))
    assert found.flags == (*inside, "-I", "/usr/include/x", "-DX")
    assert found.left_out == (str(repository.parent), "/etc/passwd")
    assert named.flags[:2] == ("-I", str(repository.parent)) and named.left_out == ()


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


@needs_filter
def test_the_parent_is_hidden_while_a_kernel_runs() -> None:
    def is_dumpable() -> int:
        return ctypes.CDLL(None).prctl(confine.GET_DUMPABLE, 0, 0, 0, 0)

    before = is_dumpable()
    with HIDDEN:
        with HIDDEN:
            assert is_dumpable() == 0
        assert is_dumpable() == 0
    assert is_dumpable() == before
