"""The cache on disk: it returns what was stored, or nothing, and changes no other files."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import ptokit
from ptokit.engine.llvm import store
from ptokit.engine.llvm.store import Entry, Size

KEY, OTHER = "0123456789abcdef" * 4, "f" * 64
ENTRY = Entry({"symbols": ["run"], "bytes": 64}, b"\x7fELF and so on")
HOME = str(Path(ptokit.__file__).parent.parent)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a cache that is empty, and does not exist yet."""
    monkeypatch.setenv("PTOKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(store, "_budget", {})
    return tmp_path / "cache" / "v1"


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# --- there and back --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "entry", [ENTRY, Entry({}, b""), Entry({"π": [1.5, None, {"a": True}]}, bytes(range(256)) * 999)]
)
def test_what_comes_out_is_what_went_in(entry: Entry, cache: Path) -> None:
    assert store.load(KEY) is None
    store.save(KEY, entry)
    assert store.load(KEY) == entry
    assert store.load(OTHER) is None
    assert files(cache) == [f"{KEY}.code"]
    assert store.size() == Size(1, (cache / f"{KEY}.code").stat().st_size)


def test_the_last_one_written_counts() -> None:
    store.save(KEY, ENTRY)
    store.save(KEY, Entry({}, b"new"))
    assert store.load(KEY) == Entry({}, b"new")
    assert store.size().entries == 1


def test_only_the_user_can_read_it(cache: Path) -> None:
    before = os.umask(0)
    try:
        store.save(KEY, ENTRY)
    finally:
        os.umask(before)
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700
    assert stat.S_IMODE((cache / f"{KEY}.code").stat().st_mode) == 0o600


def test_looking_makes_nothing(cache: Path) -> None:
    assert (store.load(KEY), store.size(), store.clear(), store.refusal()) == (None, Size(0, 0), 0, "")
    assert not cache.parent.exists()


# --- where -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["", " ", "0", "off", "OFF"])
def test_it_can_be_switched_off(value: str, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store.save(KEY, ENTRY)
    monkeypatch.setenv("PTOKIT_CACHE", value)
    store.save(OTHER, ENTRY)
    assert (store.folder(), store.load(KEY), store.size(), store.clear()) == (None, None, Size(0, 0), 0)
    assert store.refusal() == "it is switched off by PTOKIT_CACHE"
    assert files(cache) == [f"{KEY}.code"]


@pytest.mark.parametrize(
    ("platform", "variables", "expected"),
    [
        ("linux", {"HOME": "/home/ann"}, "/home/ann/.cache/ptokit/v1"),
        ("linux", {"HOME": "/home/ann", "XDG_CACHE_HOME": "/fast"}, "/fast/ptokit/v1"),
        ("linux", {"HOME": "/home/ann", "XDG_CACHE_HOME": "not/absolute"}, "/home/ann/.cache/ptokit/v1"),
        ("darwin", {"HOME": "/Users/ann", "XDG_CACHE_HOME": "/fast"}, "/Users/ann/Library/Caches/ptokit/v1"),
        ("win32", {"HOME": "/c/ann", "LOCALAPPDATA": "/c/local"}, "/c/local/ptokit/v1"),
        ("win32", {"HOME": "/c/ann"}, "/c/ann/AppData/Local/ptokit/v1"),
        ("linux", {"HOME": "/home/ann", "PTOKIT_CACHE": "/else/where"}, "/else/where/v1"),
        ("linux", {"HOME": "/home/ann", "PTOKIT_CACHE": "~/mine"}, "/home/ann/mine/v1"),
        ("linux", {"HOME": "relative"}, None),
    ],
)
def test_its_place(
    platform: str, variables: dict[str, str], expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA", "PTOKIT_CACHE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "platform", platform)
    assert store.folder() == (Path(expected) if expected else None)
    assert expected or store.refusal() == "there is no cache directory"


# --- entries that are not believed -----------------------------------------------------------------------------


def spoiled(data: bytes) -> Iterator[bytes]:
    """Every way to shorten a file, to change a byte of it, and some to lengthen it."""
    yield from (data[:length] for length in range(len(data)))
    yield from (data[:i] + bytes([data[i] ^ 0x40]) + data[i + 1 :] for i in range(len(data)))
    yield from (data + b"\0", data * 2, b"\0" + data, bytes(len(data)), b"\x7fELF" + data)


def test_a_file_that_was_changed_is_not_there(cache: Path) -> None:
    store.save(KEY, ENTRY)
    path = cache / f"{KEY}.code"
    whole = path.read_bytes()
    for data in spoiled(whole):
        path.write_bytes(data)
        assert store.load(KEY) is None, data
    store.save(KEY, ENTRY)
    assert path.read_bytes() == whole


def test_a_file_of_another_key_is_not_there(cache: Path) -> None:
    store.save(KEY, ENTRY)
    (cache / f"{KEY}.code").rename(cache / f"{OTHER}.code")
    assert store.load(OTHER) is None


def test_a_file_of_another_format_is_not_there(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store.save(KEY, ENTRY)
    monkeypatch.setattr(store, "FORMAT", 2)
    cache.rename(cache.with_name("v2"))
    assert store.load(KEY) is None


def test_a_file_that_is_too_large_is_not_there(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store.save(KEY, ENTRY)
    monkeypatch.setattr(store, "LARGEST", (cache / f"{KEY}.code").stat().st_size - 1)
    assert store.load(KEY) is None
    store.save(OTHER, ENTRY)
    assert files(cache) == [f"{KEY}.code"]


def put_directory(path: Path) -> None:
    path.mkdir()


def put_pipe(path: Path) -> None:
    os.mkfifo(path, 0o600)


def put_link(path: Path) -> None:
    whole = path.with_name("elsewhere")
    whole.write_bytes(store._packed(KEY, ENTRY))
    whole.chmod(0o600)
    path.symlink_to(whole)


def put_writable(path: Path) -> None:
    path.write_bytes(store._packed(KEY, ENTRY))
    path.chmod(0o606)


@pytest.mark.parametrize("put", [put_directory, put_pipe, put_link, put_writable])
def test_what_is_no_file_of_the_user_s_own_is_not_there(put: Callable[[Path], None], cache: Path) -> None:
    store.save(OTHER, ENTRY)
    put(cache / f"{KEY}.code")
    assert store.load(KEY) is None
    store.save(KEY, ENTRY)
    assert store.load(KEY) == (None if put is put_directory else ENTRY)


# --- folders that are not used ---------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [0o770, 0o702, 0o777, 0o1777])
def test_a_folder_that_others_can_write_is_not_used(mode: int, cache: Path) -> None:
    store.save(KEY, ENTRY)
    cache.chmod(mode)
    store.save(OTHER, ENTRY)
    assert (store.load(KEY), store.size(), store.clear()) == (None, Size(0, 0), 0)
    assert store.refusal() == "others can write to it"
    assert files(cache) == [f"{KEY}.code"]
    cache.chmod(0o755)
    assert store.load(KEY) == ENTRY


def test_a_folder_of_another_user_is_not_used(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store.save(KEY, ENTRY)
    monkeypatch.setattr(os, "geteuid", lambda: cache.stat().st_uid + 1)
    store.save(OTHER, ENTRY)
    assert (store.load(KEY), store.size(), store.clear()) == (None, Size(0, 0), 0)
    assert store.refusal() == "it belongs to another user"
    assert files(cache) == [f"{KEY}.code"]


def test_a_folder_that_cannot_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("PTOKIT_CACHE", str(tmp_path / "file"))
    store.save(KEY, ENTRY)
    assert (store.load(KEY), store.size(), store.clear()) == (None, Size(0, 0), 0)
    assert store.refusal() == "Not a directory"
    monkeypatch.setenv("PTOKIT_CACHE", str(tmp_path))
    (tmp_path / "v1").write_bytes(b"")
    store.save(KEY, ENTRY)
    assert (store.load(KEY), store.refusal()) == (None, "it is no directory")


@pytest.mark.parametrize("step", ["makedirs", "stat", "open", "fstat", "scandir", "replace"])
def test_whatever_the_disk_refuses_is_no_error(step: str, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store.save(KEY, ENTRY)

    def refuse(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(store.os, step, refuse)
        patch.setattr(store, "_budget", {})
        store.save(OTHER, ENTRY)
        found, size = store.load(KEY), store.size()
        if step in ("stat", "scandir"):
            assert store.clear() == 0
    assert found == (None if step in ("stat", "open", "fstat") else ENTRY)
    assert size.entries == {"stat": 0, "scandir": 0, "fstat": 2}.get(step, 1)
    assert files(cache) == [f"{KEY}.code", *([f"{OTHER}.code"] if step == "fstat" else [])]


# --- how much --------------------------------------------------------------------------------------------------


def key(number: int) -> str:
    return f"{number:064x}"


def test_the_oldest_go_first(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = Entry({}, bytes(1000))
    store.save(key(0), entry)
    each = store.size().bytes
    monkeypatch.setattr(store, "LIMIT", 16 * each)
    monkeypatch.setattr(store, "_budget", {})
    for number in range(1, 16):
        store.save(key(number), entry)
    for number in range(16):
        moment = 1_000_000 + (number + 5) % 16
        os.utime(cache / f"{key(number)}.code", (moment, moment))
    (cache / f"{key(99)}.{'0' * 16}.tmp").write_bytes(b"left behind")
    os.utime(cache / f"{key(99)}.{'0' * 16}.tmp", (1000, 1000))
    (cache / "notes.txt").write_bytes(bytes(99 * each))
    os.utime(cache / "notes.txt", (1000, 1000))
    assert store.size() == Size(16, 16 * each)
    store.save(key(16), entry)
    kept = [number for number in range(17) if store.load(key(number))]
    assert kept == [*range(11), 14, 15, 16]
    assert "notes.txt" in files(cache) and store.size().bytes <= store.LIMIT
    assert not [name for name in files(cache) if name.endswith(".tmp")]


def test_it_never_grows_beyond_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "LIMIT", 50_000)
    for number in range(300):
        store.save(key(number), Entry({}, bytes(number * 7 % 3000)))
        assert store.size().bytes <= 50_000
        assert store.load(key(number)) is not None


def test_the_folder_is_looked_through_only_once_in_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[Path] = []
    look = store._files
    monkeypatch.setattr(store, "_files", lambda place: looks.append(place) or look(place))
    for number in range(200):
        store.save(key(number), ENTRY)
    assert len(looks) == 1


def test_clearing_takes_only_our_own(cache: Path) -> None:
    for number in range(3):
        store.save(key(number), ENTRY)
    strange = ["notes.txt", f"{KEY}.txt", f"{KEY[1:]}.code", f"{KEY.upper()}.code", f"{KEY}.code.bak", f"{KEY}.tmp"]
    for name in strange:
        (cache / name).write_bytes(b"")
    (cache / f"{OTHER}.code").mkdir()
    (cache / f"{KEY}.{'a' * 16}.tmp").write_bytes(b"left behind")
    assert store.clear() == 3
    assert files(cache) == sorted([*strange, f"{OTHER}.code"])


# --- several at once -------------------------------------------------------------------------------------------

WRITING = """
import sys
from ptokit.engine.llvm import store
own = int(sys.argv[1])
for turn in range(150):
    for key in ("a" * 64, "b" * 64):
        found = store.load(key)
        assert found is None or found.code == bytes([found.facts["writer"]]) * found.facts["length"], key
        length = 1000 * own + turn
        store.save(key, store.Entry({"writer": own, "length": length}, bytes([own]) * length))
    if turn % 50 == 49:
        store.clear()
"""


def test_writers_do_not_disturb_each_other(cache: Path) -> None:
    settings = {**os.environ, "PYTHONPATH": HOME}
    writers = [subprocess.Popen([sys.executable, "-c", WRITING, str(own)], env=settings) for own in range(1, 5)]
    assert [writer.wait() for writer in writers] == [0, 0, 0, 0]
    store.save(KEY, ENTRY)
    assert store.load(KEY) == ENTRY
    assert all(name.endswith(".code") for name in files(cache))


def test_it_needs_no_llvm() -> None:
    code = "import sys, ptokit.engine.llvm.store, ptokit.engine.native.workers; print('llvmlite' in sys.modules)"
    settings = {**os.environ, "PYTHONPATH": HOME}
    done = subprocess.run([sys.executable, "-c", code], env=settings, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
