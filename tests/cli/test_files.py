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
