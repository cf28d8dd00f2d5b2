"""Nothing is left on disk or running; libraries that were compiled are used again."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import ptokit as pto
from ptokit.cache import VARIABLE
from ptokit.cli.commands import app
from ptokit.cxx import compile as compiling
from ptokit.cxx import folders as temporary
from ptokit.cxx import processes
from ptokit.cxx.compile import CompileError, CompileOptions, compile_source, run
from ptokit.cxx.names import files
from ptokit.engine.llvm import store
from ptokit.lang.cpp_entries import LIBRARIES
from ptokit.lang.recorded import CppKernel
from tests.cxx.building import COMPILER, keep_recorder

pytestmark = pytest.mark.skipif(not COMPILER, reason="needs a C++ compiler")
SOURCE = """\
#include <pto/pto-inst.hpp>
#include "scale.hpp"
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


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An own folder for temporary files and one for the cache, and a source."""
    monkeypatch.setenv(store.VARIABLE, str(tmp_path / "cache"))
    keep_recorder()
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    (tmp_path / "scaled.cpp").write_text(SOURCE)
    (tmp_path / "scale.hpp").write_text("#define SCALE 2.0f\n")
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    monkeypatch.setenv("TMPDIR", str(temporary))
    yield tmp_path
    gc.collect()
    assert [*temporary.iterdir()] == []


def compiled_files(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The sources that are compiled from now on, by run of the compilers."""
    runs: list[list[str]] = []

    def counted(commands: Any, *args: Any, **options: Any) -> list[str]:
        if found := [Path(command[command.index("-c") + 1]).name for command in commands if "-c" in command]:
            runs.append(found)
        return run(commands, *args, **options)

    monkeypatch.setattr(compiling, "run", counted)
    return runs


def launched(folder: Path) -> list[float]:
    x, out = np.ones(64, "float32"), np.zeros(64, "float32")
    pto.load(folder / "scaled.cpp", target="a5")[1](x, out, target="a5")
    return sorted(set(out.tolist()))


def test_a_library_is_compiled_once(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = compiled_files(monkeypatch)
    store.clear()
    monkeypatch.setattr(compiling, "COMPILED_RECORDERS", {})  # as in another process
    assert launched(folders) == [2.0]
    assert launched(folders) == [2.0]
    assert runs == [["any.cpp", "runtime.cpp"]]
    (folders / "scale.hpp").write_text("#define SCALE 3.0f\n")
    assert launched(folders) == [3.0]
    assert len(runs) == 2
    for file in (folders / "cache").glob("*/*.code"):
        file.write_bytes(file.read_bytes()[:-1])  # damaged
    assert launched(folders) == [3.0]
    assert len(runs) == 3


def test_flags_and_targets_have_libraries_of_their_own(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys: list[str] = []
    monkeypatch.setattr(compiling._Compilation, "_libraries", lambda *_: None)
    monkeypatch.setattr(compiling._Compilation, "_save", lambda _self, _library, key: keys.append(key))
    for target, flags in (("a5", ()), ("a2a3", ()), ("a5", ("-DX",)), ("a5", ("-DX=2",)), ("a5", ())):
        compile_source(folders / "scaled.cpp", target, CompileOptions(flags), kept=LIBRARIES).close()
    assert len(set(keys)) == 4 and keys[0] == keys[-1]


def test_a_kernel_that_is_no_longer_used_leaves_nothing(folders: Path) -> None:
    kernel = pto.load(folders / "scaled.cpp", target="a5")
    assert isinstance(kernel, CppKernel)
    folder = kernel.source.build("a5").folder
    assert folder.is_dir()
    del kernel
    gc.collect()
    assert not folder.exists()


@pytest.mark.parametrize("problem", [KeyboardInterrupt, CompileError("no"), OSError("disk")])
@pytest.mark.parametrize("step", ["entries", "_libraries"])
def test_what_ends_a_compilation_leaves_nothing(
    folders: Path, monkeypatch: pytest.MonkeyPatch, step: str, problem: BaseException | type[BaseException]
) -> None:
    def broken(*_: object) -> None:
        raise problem

    monkeypatch.setattr(compiling._Compilation, step, broken)
    with pytest.raises(problem if isinstance(problem, type) else type(problem)):
        compile_source(folders / "scaled.cpp", "a5")


def test_an_interrupt_ends_compilers_that_run(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []
    start = processes._start

    def interrupted(*args: Any) -> subprocess.Popen[bytes]:
        if started:
            raise KeyboardInterrupt
        started.append(start(*args))
        return started[0]

    monkeypatch.setattr(processes, "_start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run([["sleep", "60"], ["sleep", "60"]], CompileOptions().limits)
    assert started[0].returncode == -signal.SIGKILL


def test_a_command_leaves_nothing(folders: Path) -> None:
    given = ["--arg", "x=float32[64]", "--arg", "out=float32[64]", "--target", "a5"]
    command = [sys.executable, "-m", "ptokit", "check", str(folders / "scaled.cpp"), *given]
    assert subprocess.run(command, check=False, capture_output=True).returncode == 0
    assert CliRunner().invoke(app, ["cache", "show"]).output.startswith(str(folders / "cache"))


def test_a_command_that_is_terminated_leaves_nothing(folders: Path) -> None:
    (folders / "endless.cpp").write_text(
        SOURCE.replace("    pipe_barrier(PIPE_ALL);\n    TMULS", "    for (;;) {}\n    TMULS")
    )
    command = [sys.executable, "-m", "ptokit", "check", str(folders / "endless.cpp"), "--target", "a5"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    folder = folders / "temporary"
    until = time.monotonic() + 60
    while not [*folder.glob("*/any.so")] and time.monotonic() < until:
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGTERM)
    assert process.wait(30) != 0


def test_folders_of_killed_processes_are_removed_by_a_later_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    here = temporary._namespace()
    kept = {
        "of a running process": f"{temporary.PREFIX}{os.getpid()}-{here}-x",
        "of another namespace": f"{temporary.PREFIX}{ended.pid}-{here + 1}-x",
        "of an earlier version": f"{temporary.PREFIX}abcd",
        "a link": f"{temporary.PREFIX}{ended.pid}-{here}-link",
        "a file": f"{temporary.PREFIX}{ended.pid}-{here}-file",
        "of others": f"other-{ended.pid}-{here}-x",
    }
    target = tmp_path / "target"
    for name in (target.name, *kept.values()):
        if name.endswith("-file"):
            (tmp_path / name).touch()
        elif name.endswith("-link"):
            (tmp_path / name).symlink_to(target)
        else:
            (tmp_path / name).mkdir()
            (tmp_path / name / "file").touch()
    left = tmp_path / f"{temporary.PREFIX}{ended.pid}-{here}-x"
    left.mkdir()
    (left / "any.so").touch()
    temporary.remove_abandoned.__wrapped__()
    assert {path.name for path in tmp_path.iterdir()} == {target.name, *kept.values()}
    assert (target / "file").exists()
    monkeypatch.setattr(os, "getuid", lambda: -1)
    left.mkdir()
    temporary.remove_abandoned.__wrapped__()
    assert left.exists()  # of another user


def test_a_source_of_standard_input_is_removed_by_a_later_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import os; from ptokit.cli.files import on_disk; print(on_disk('-'), flush=True); os.kill(os.getpid(), 9)"
    run = subprocess.run(
        [sys.executable, "-c", code],
        input=b"#include <a>\n", capture_output=True, check=False, env={**os.environ, "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    assert run.returncode == -signal.SIGKILL and Path(run.stdout.decode().strip()).exists()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    temporary.remove_abandoned.__wrapped__()
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("cache", ["", "kept"])
def test_generated_headers_are_whole_whatever_was_there(
    cache: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / cache) if cache else "off")
    folder = temporary.generated_headers()
    assert folder.is_relative_to(tmp_path) is bool(cache)
    (folder / "pto" / "pto-inst.hpp").write_text("#error of somebody else\n")
    (folder / "own" / "ptokit" / "enums.hpp").unlink()
    assert temporary.generated_headers() == folder
    assert {path: (folder / path).read_text() for path in files()} == files()


def test_a_cache_that_others_may_write_has_no_headers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    tmp_path.chmod(0o777)
    assert not temporary.generated_headers().is_relative_to(tmp_path)
