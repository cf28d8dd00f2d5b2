"""`ptokit cache`: it shows and removes the code on disk, and nothing else."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from ptokit.engine.llvm import store
from tests.cli.shell import fine, misuse, ptokit_
from tests.cli.test_page import TEXT


@pytest.fixture
def cache(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a cache with two files, 300 bytes of code in all."""
    monkeypatch.setenv("PTOKIT_CACHE", "code")
    for key, length in (("a" * 64, 100), ("b" * 64, 200)):
        store.save(key, store.Entry({}, bytes(length)))
    return folder / "code/v1"


def test_what_is_there_is_shown(cache: Path) -> None:
    total = sum(file.stat().st_size for file in cache.iterdir())
    assert total > 300
    assert fine("cache", "show") == f"code/v1: 2 files, {total} bytes\n"
    shown = json.loads(fine("cache", "show", "--json"))
    assert shown == {
        "format": 1,
        "command": "cache show",
        "folder": "code/v1",
        "entries": 2,
        "bytes": total,
        "refusal": None,
    }


def test_showing_makes_no_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PTOKIT_CACHE", "nothing")
    assert fine("cache", "show") == "nothing/v1: 0 files, 0 bytes\n"
    assert fine("cache", "clear") == "0 files removed\n"
    assert not (folder / "nothing").exists()


def test_what_is_there_is_removed(cache: Path) -> None:
    (cache / "mine.txt").write_text("keep me", encoding="utf-8")
    assert fine("cache", "clear") == "2 files removed\n"
    assert [file.name for file in cache.iterdir()] == ["mine.txt"]
    assert json.loads(fine("cache", "clear", "--json")) == {"format": 1, "command": "cache clear", "removed": 0}


def test_one_file_is_one_file(cache: Path) -> None:
    (cache / f"{'a' * 64}.code").unlink()
    assert fine("cache", "clear") == "1 file removed\n"


def test_a_cache_that_is_off(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PTOKIT_CACHE", "off")
    assert fine("cache", "show") == "the cache: not used: it is switched off by PTOKIT_CACHE\n"
    assert json.loads(fine("cache", "show", "--json"))["folder"] is None
    assert misuse("cache", "clear") == "ptokit: the cache is not used: it is switched off by PTOKIT_CACHE"
    assert len([*cache.iterdir()]) == 2


@pytest.mark.parametrize("place", ["/proc/none", "/dev/null/none"])
def test_a_folder_that_cannot_be_made(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PTOKIT_CACHE", place)
    with pytest.raises(OSError) as problem:  # noqa: PT011
        os.makedirs(place)
    assert problem.value.strerror in fine("cache", "show")
    assert json.loads(fine("cache", "show", "--json"))["refusal"] == problem.value.strerror


def test_a_folder_that_cannot_be_written_is_read(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_given: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(os, "mkdir", refuse)
    shown = fine("cache", "show")
    assert shown.startswith("code/v1: 2 files, ")
    assert shown.endswith(f" bytes; nothing can be added: {os.strerror(errno.EROFS)}\n")
    assert len([*cache.iterdir()]) == 2


def test_a_folder_that_others_can_write_is_left_alone(cache: Path) -> None:
    cache.chmod(0o777)
    assert fine("cache", "show") == "code/v1: not used: others can write to it\n"
    assert json.loads(fine("cache", "show", "--json"))["refusal"] == "others can write to it"
    assert "others can write to it" in misuse("cache", "clear")
    assert len([*cache.iterdir()]) == 2


def test_a_command_is_needed() -> None:
    assert ptokit_("cache").exit_code == 2
    assert ptokit_("cache", "burn").exit_code == 2


def test_the_page_has_every_command_and_field(cache: Path) -> None:
    section = TEXT[TEXT.index("\n## cache\n") :].split("\n## ")[1]
    for command in ("show", "clear"):
        assert f"`cache {command} [--json]`" in section
        for field in json.loads(fine("cache", command, "--json")):
            assert f"`{field}`" in section or field in ("format", "command")
