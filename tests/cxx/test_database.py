"""Options of C++ sources: from the command line and from compile databases."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import ptokit as pto
from ptokit.cli.commands import app
from ptokit.cxx import database as databases
from ptokit.cxx.database import DatabaseError, read_database
from ptokit.lang.recorded import CppKernel
from tests.cxx.building import COMPILER

pytestmark = pytest.mark.skipif(not COMPILER, reason="needs a C++ compiler")
SOURCE = """\
#include <pto/pto-inst.hpp>
#include "width.hpp"
using namespace pto;
using Part = Tile<TileType::Vec, float, 1, WIDTH>;

__global__ AICORE void filled(__gm__ float* out) {
    GlobalTensor<float, Shape<1, 1, 1, 1, WIDTH>, Stride<WIDTH, WIDTH, WIDTH, WIDTH, 1>> to(out);
    Part part;
    TASSIGN(part, 0x0);
    TEXPANDS(part, VALUE);
    pipe_barrier(PIPE_ALL);
    TSTORE(to, part);
}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A source in a repository, whose header and macro only the database names."""
    for name in (".git", "src"):
        (tmp_path / name).mkdir()
    for folder, width in (("first", 32), ("second", 64)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "width.hpp").write_text(f"constexpr int WIDTH = {width};\n")
    source = tmp_path / "src" / "filled.cpp"
    source.write_text(SOURCE)
    command = "ccec --cce-aicore-arch=dav-c310-vec -I first -DVALUE=3.0f -std=c++17 -O2 -c src/filled.cpp"
    row = {"directory": str(tmp_path), "file": "src/filled.cpp", "command": command}
    (tmp_path / "compile_commands.json").write_text(json.dumps([row]))
    return source


def written(source: Path, *options: str) -> np.ndarray:
    """What the kernel stores into 64 zeros."""
    out = source.with_suffix(".npy")
    words = ["run", str(source), "--arg", "out=float32[64]", "--out", f"out={out}", *options]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    return np.load(out)


def test_a_database_above_the_source_gives_folders_and_macros(project: Path) -> None:
    assert written(project).tolist() == [3.0] * 32 + [0.0] * 32
    assert CliRunner().invoke(app, ["check", str(project), "--arg", "out=float32[64]"]).exit_code == 0


def test_options_of_the_command_win(project: Path) -> None:
    second = str(project.parents[1] / "second")
    found = written(project, "-I", second, "-D", "VALUE=5.0f", "--std", "c++20")
    assert found.tolist() == [5.0] * 64


def test_a_database_can_be_named(project: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    row = {"directory": str(tmp_path), "file": "src/filled.cpp",
           "arguments": ["ccec", "-isystem", "second", "-D", "VALUE=7.0f", "src/filled.cpp"]}  # fmt: skip
    (other / "compile_commands.json").write_text(json.dumps([row]))
    assert written(project, "--database", str(other)).tolist() == [7.0] * 64


def test_a_named_database_must_list_the_source(project: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.json").write_text("[]")
    done = CliRunner().invoke(app, ["check", str(project), "--database", str(tmp_path / "empty.json")])
    assert done.exit_code == 2
    assert "does not list" in done.output


def test_the_target_of_the_database_is_checked(project: Path) -> None:
    done = CliRunner().invoke(app, ["check", str(project), "--arg", "out=float32[64]", "--json"])
    assert [*json.loads(done.stdout)["targets"]] == ["a5"]


def test_python_reads_the_database(project: Path) -> None:
    kernel = pto.load(project)
    assert isinstance(kernel, CppKernel)
    out = np.zeros(64, "float32")
    kernel[1](out)
    assert kernel.target == "a5"
    assert out.tolist() == [3.0] * 32 + [0.0] * 32


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-DA=\0"], "has a word that no process can take: '-DA=\\x00'"),
        (["-I", "a\0b"], "has a word that no process can take: 'a\\x00b'"),
        (["-DA=\ud800"], "has a word that no process can take: '-DA=\\ud800'"),
        ([f"-DA{number}" for number in range(30_000)], "has more than 131,072 characters"),
        (["-include", "pipe"], "pipe is included, and is no regular file"),
        (["-I."] * 8_000, "the options of the compiler have more than 262,144 characters"),
    ],
)
def test_words_that_no_compiler_takes_are_refused(project: Path, words: list[str], message: str) -> None:
    os.mkfifo(project.parent / "pipe")
    row = {"directory": str(project.parent), "file": "filled.cpp", "arguments": ["g++", *words]}
    (project.parent / "compile_commands.json").write_text(json.dumps([row]))
    done = CliRunner().invoke(app, ["check", str(project)])
    assert done.exit_code in (1, 2)
    assert message in done.output
    assert len(done.output) < 2000


def test_other_rows_may_name_what_is_no_file(project: Path) -> None:
    database = project.parent.parent / "compile_commands.json"
    rows = [{"directory": "a\0b", "file": "c"}, {"file": "\ud800"}, {"file": ["x"]}, *json.loads(database.read_text())]
    database.write_text(json.dumps(rows))
    assert written(project).tolist() == [3.0] * 32 + [0.0] * 32


def test_a_pipe_is_no_database(project: Path) -> None:
    os.mkfifo(project.parent / "pipe")
    done = CliRunner().invoke(app, ["check", str(project), "--database", str(project.parent / "pipe")])
    assert done.exit_code == 2
    assert "is no regular file" in done.output


def test_rows_of_other_names_cost_no_access_to_files(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database may list any number of files."""
    database = project.parent.parent / "compile_commands.json"
    (row,) = json.loads(database.read_text())
    others = [{"directory": f"a{number}", "file": f"{number}.cpp"} for number in range(20_000)]
    database.write_text(json.dumps([*others, {}, row]))
    touched: list[object] = []
    compared = os.path.samefile
    monkeypatch.setattr(os.path, "samefile", lambda *files: touched.append(files) or compared(*files))
    for name in ("lstat", "readlink"):
        monkeypatch.setattr(os, name, _counted(getattr(os, name), touched))
    assert read_database(database, project).flags[:2] == ("-I", str(project.parents[1] / "first"))
    assert 0 < len(touched) < 200


def _counted(function: Callable[..., Any], calls: list[object]) -> Callable[..., Any]:
    def counted(*args: Any, **options: Any) -> Any:
        calls.append(args)
        return function(*args, **options)

    return counted


def test_rows_of_the_name_of_the_source_have_a_bound(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(databases, "MOST_ROWS", 3)
    database = project.parent.parent / "compile_commands.json"
    (row,) = json.loads(database.read_text())
    others = [{"file": f"a{number}/filled.cpp"} for number in range(3)]
    database.write_text(json.dumps([*others[1:], row]))
    assert read_database(database, project).target == "a5"
    database.write_text(json.dumps([*others, row]))
    with pytest.raises(DatabaseError, match=r"does not list .* it lists 4 sources"):
        read_database(database, project)


@pytest.mark.parametrize("way", ["a link", "a folder that is a link"])
def test_a_row_may_name_the_source_in_another_way(project: Path, way: str) -> None:
    folder = project.parents[1]
    (folder / "other").symlink_to("src")
    (folder / "link.cpp").symlink_to("src/filled.cpp")
    named, given = ("src/filled.cpp", "link.cpp") if way == "a link" else ("other/filled.cpp", "src/filled.cpp")
    row = {"directory": str(folder), "file": named, "arguments": ["ccec", "-DX"]}
    (folder / "compile_commands.json").write_text(json.dumps([row]))
    assert read_database(folder, folder / given).flags == ("-DX",)


def test_a_folder_that_no_system_has_is_refused(project: Path) -> None:
    row = {"directory": "a/" * 3000, "file": str(project), "arguments": ["ccec", "-Ib"]}
    database = project.parent / "compile_commands.json"
    database.write_text(json.dumps([row]))
    with pytest.raises(DatabaseError, match="a directory of more than 4,096 characters"):
        read_database(database, project)
