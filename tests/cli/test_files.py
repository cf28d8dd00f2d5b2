"""Files are written atomically, and no temporary file remains."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, NoReturn

import numpy as np
import pytest

from ptokit.cli import files
from ptokit.cli.files import write_all
from ptokit.cli.problems import Misuse
from tests.cli.shell import fine, misuse, ptokit_, saved


def bytes_of(content: bytes) -> Callable[[BinaryIO], object]:
    return lambda stream: stream.write(content)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name not in ("kernels.py", "__pycache__"))


def fail(error: BaseException) -> Callable[..., NoReturn]:
    def failing(*args: object, **options: object) -> NoReturn:
        raise error

    return failing


def test_files_are_written_with_the_mode_of_new_files(folder: Path) -> None:
    (folder / "plain").touch()
    write_all({"a": bytes_of(b"1"), "b": bytes_of(b"2")})
    assert [(folder / name).read_bytes() for name in "ab"] == [b"1", b"2"]
    assert (folder / "a").stat().st_mode == (folder / "plain").stat().st_mode
    assert names(folder) == ["a", "b", "plain"]


def test_a_file_that_is_there_keeps_its_mode_and_a_link_stays_a_link(folder: Path) -> None:
    inner = folder / "inner"
    inner.mkdir()
    (inner / "a").write_bytes(b"old")
    (inner / "a").chmod(0o640)
    (folder / "link").symlink_to("inner/a")
    write_all({"link": bytes_of(b"new")})
    assert (folder / "link").is_symlink()
    assert (inner / "a").read_bytes() == b"new"
    assert stat.S_IMODE((inner / "a").stat().st_mode) == 0o640


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt(), MemoryError()])
@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_what_fails_on_the_way_leaves_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, call: str
) -> None:
    (folder / "a").write_bytes(b"old")
    monkeypatch.setattr(os, call, fail(error))
    with pytest.raises(Misuse if isinstance(error, OSError) else type(error)):
        write_all({"a": bytes_of(b"new"), "b": bytes_of(b"new")})
    assert names(folder) == ["a"]
    assert (folder / "a").read_bytes() == b"old"


def test_none_of_several_appears_when_one_cannot_be_written(folder: Path) -> None:
    with pytest.raises(Misuse, match="cannot write b: No space"):
        write_all({"a": bytes_of(b"1"), "b": fail(OSError(28, "No space left on device")), "c": bytes_of(b"3")})
    assert names(folder) == []


def test_an_interrupted_run_leaves_its_old_output(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved(folder / "y.npy", np.zeros(3))
    before = (folder / "y.npy").read_bytes()
    monkeypatch.setattr(np.lib.format, "write_array", fail(KeyboardInterrupt()))
    words = ("--arg", "x=f32[4,16]", "--arg", "out=f32[4,16]", "--out", "out=y.npy", "--out", "x=z.npy")
    result = ptokit_("run", "kernels:double", *words)
    assert (result.exit_code, result.stderr) == (130, "ptokit: interrupted\n")
    assert names(folder) == ["y.npy"]
    assert (folder / "y.npy").read_bytes() == before


def test_devices_and_pipes_are_written_to_and_stay(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append((folder / "pipe").read_bytes()))
    reader.start()
    write_all({"/dev/null": bytes_of(b"1"), "pipe": bytes_of(b"2")})
    reader.join(10)
    assert read == [b"2"] and stat.S_ISFIFO((folder / "pipe").stat().st_mode)
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_a_place_that_cannot_be_written_is_refused_before_any_work(folder: Path) -> None:
    (folder / "boom.py").write_text("1 / 0\n", encoding="utf-8")
    assert "there is no directory" in misuse("run", "boom:kernel", "--out", "out=no/y.npy")
    assert "it is a directory" in misuse("convert", "boom:kernel", "--to", "cpp", "-o", folder)


def test_a_text_without_end_is_not_read_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LARGEST_TEXT", 1 << 20)
    assert "larger than 1 MiB" in misuse("check", "/dev/zero")
    assert "<stdin> is larger" in misuse("check", "-", given=b"x" * (1 << 20) + b"y")


def test_an_output_that_is_full_is_said_so() -> None:
    assert fine("run", "kernels:double", "--arg", "x=f32[4,16]", "--arg", "out=f32[4,16]", "--out", "out=/dev/null")
    words = ("run", "kernels:double", "--arg", "x=f32[4,16]", "--arg", "out=f32[4,16]", "--out", "out=/dev/full")
    assert "No space left on device" in misuse(*words)


# --- links that a repository contains

LINKED = {
    "report.html": ("report", "kernels:double", "--arg", "x=f32[4,16]", "--arg", "out=f32[4,16]", "--target", "a5"),
    "trace.json": ("trace", "kernels:double", "--arg", "x=f32[4,16]", "--arg", "out=f32[4,16]", "--target", "a5"),
    "trace.npz": ("trace-indices", "--generate", "zipf"),
    "costs.json": ("calibrate", "none.json"),
}
"""Commands by the file that each writes unless -o names another one."""


@pytest.mark.parametrize("name", LINKED)
def test_a_default_output_that_is_a_link_is_refused_before_any_work(folder: Path, name: str) -> None:
    (folder / "mine").write_text("kept")
    (folder / name).symlink_to("mine")
    assert f"cannot write {name}: it is a link to mine; -o {name} follows it" in misuse(*LINKED[name])
    assert (folder / "mine").read_text() == "kept"
    (folder / name).unlink()
    (folder / name).symlink_to("nothing")
    assert "is a link to nothing" in misuse(*LINKED[name])
    assert not (folder / "nothing").exists()


@pytest.mark.parametrize("name", LINKED)
def test_a_default_output_that_is_a_pipe_is_refused_before_any_work(folder: Path, name: str) -> None:
    os.mkfifo(folder / name)
    assert f"cannot write {name}: it is no regular file" in misuse(*LINKED[name])


@pytest.mark.parametrize("name", ["report.html", "trace.npz"])
def test_a_named_output_may_be_a_link(folder: Path, name: str) -> None:
    (folder / "mine").write_text("old")
    (folder / name).symlink_to("mine")
    fine(*LINKED[name], "-o", name)
    assert (folder / name).is_symlink()
    assert (folder / "mine").read_bytes() != b"old"


@pytest.mark.parametrize("name", ["report.html", "trace.npz"])
def test_a_default_output_that_may_not_be_written_is_refused(
    folder: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / name).write_text("kept")
    monkeypatch.setattr(os, "access", lambda file, mode: os.path.basename(file) != name)
    assert f"cannot write {name}: permission denied" in misuse(*LINKED[name])
    assert (folder / name).read_text() == "kept"


TEXT = b"func.func   @f() { return }\n"


@pytest.mark.parametrize("name", ["link.pto", "inner/text.pto"])
def test_fmt_follows_no_link(folder: Path, name: str) -> None:
    (folder / "other").mkdir()
    (folder / "other" / "text.pto").write_bytes(TEXT)
    (folder / "link.pto").symlink_to("other/text.pto")
    (folder / "inner").symlink_to("other")
    (folder / "plain.pto").write_bytes(TEXT)
    printed = misuse("fmt", name, "plain.pto")
    assert f"cannot write {name}: " in printed and " is a link to other" in printed
    assert printed.rstrip().endswith("; name the file that it leads to")
    assert (folder / "other" / "text.pto").read_bytes() == TEXT
    assert (folder / "plain.pto").read_bytes() != TEXT
    assert ptokit_("fmt", "--check", name).exit_code == 1


@pytest.mark.parametrize("place", ["relative", "absolute", "with ..", "in a repository elsewhere"])
def test_fmt_follows_no_link_on_the_way(folder: Path, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = folder / "mine" / "deep"
    deep.mkdir(parents=True)
    (deep / ".git").mkdir()  # the end of the link is a repository of the user
    (deep / "k.pto").write_bytes(TEXT)
    (folder / "inner").mkdir()
    (folder / "inner" / "link").symlink_to(folder / "mine")
    name = "inner/link/deep/k.pto"
    if place == "with ..":
        name = "inner/link/../mine/deep/k.pto"
    elif place != "relative":
        name = str(folder / name)
    if place.endswith("elsewhere"):
        (folder / ".git").mkdir()
        (folder / "empty").mkdir()
        monkeypatch.chdir(folder / "empty")
    assert f"inner/link is a link to {folder / 'mine'}" in misuse("fmt", name)
    assert (deep / "k.pto").read_bytes() == TEXT


def test_links_on_the_way_to_a_repository_are_followed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = folder / "disk" / "repository"
    for name in (root / ".git", folder / "empty"):
        name.mkdir(parents=True)
    (root / "k.pto").write_bytes(TEXT)
    (folder / "home").symlink_to("disk")
    monkeypatch.chdir(folder / "empty")
    fine("fmt", folder / "home" / "repository" / "k.pto")
    assert (root / "k.pto").read_bytes() != TEXT


@pytest.mark.parametrize("words", [("fmt", "pipe.pto"), ("check", "pipe.pto", "--fix")])
def test_a_pipe_is_not_rewritten(folder: Path, words: tuple[str, ...]) -> None:
    os.mkfifo(folder / "pipe.pto")
    assert "cannot write pipe.pto: it is no regular file" in misuse(*words)


def test_fix_follows_no_link(folder: Path) -> None:
    (folder / "mine.py").write_text("kept = 1\n")
    (folder / "link.pto").symlink_to("mine.py")
    assert "cannot write link.pto: it is a link to mine.py" in misuse("check", "link.pto", "--fix")
    assert "cannot write" not in ptokit_("check", "link.pto", "--fix", "--diff").output
