"""Machine code on disk: a file for each key, in the user's cache directory or where `PTOKIT_CACHE` says.

The cache may vanish, fill up, be read-only, or hold invalid data: any error counts as a missing entry.
Code is loaded only from files of the user's own that nobody else can write.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import stat
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from ptokit.cache import VARIABLE, base, distrust

FORMAT = 1
"""The version of the files; it grows when they change."""
LARGEST = 32 << 20
"""Bytes of the largest file that is written or read."""
LIMIT = 256 << 20
"""Bytes of all files; the oldest go first."""

_MAGIC = b"ptokit\r\n"
_HEAD = struct.Struct("<8sI32s")
"""Magic, format, and the SHA-256 of everything behind it."""
_BODY = struct.Struct("<32sI")
"""The key, and the length of the facts. Facts as JSON and the code follow."""
_NAME = re.compile(r"[0-9a-f]{64}\.(?:code|[0-9a-f]{16}\.tmp)")
"""Files of ours: entries, and what writers that died left behind."""
_READ = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)

_budget: dict[Path, int] = {}
"""Bytes that this process may still write to a folder before it looks again how full the folder is."""


@dataclass(frozen=True)
class Entry:
    """The entry of a key: machine code, and facts about it that JSON can hold."""

    facts: dict[str, Any]
    code: bytes


@dataclass(frozen=True)
class Size:
    """How much there is."""

    entries: int
    bytes: int


def folder() -> Path | None:
    """Where the files are, or would be; None where the cache is switched off or the user has no place for it."""
    place = base()
    return place / f"v{FORMAT}" if place else None


def refusal() -> str:
    """Why the folder is not used; empty when it is, or will be once there is something to keep."""
    place = folder()
    if place is None:
        return f"it is switched off by {VARIABLE}" if VARIABLE in os.environ else "there is no cache directory"
    try:
        about = os.stat(place)
    except FileNotFoundError:
        return ""
    except (OSError, ValueError) as problem:
        return str(getattr(problem, "strerror", None) or problem)
    return distrust(about) if stat.S_ISDIR(about.st_mode) else "it is no directory"


def unwritable() -> str:
    """Why nothing can be added to the folder, found out by trying; empty when it can."""
    place = folder()
    if place is None:
        return refusal()
    try:
        near = next(each for each in (place, *place.parents) if each.exists())
        trial = near / f".ptokit-{secrets.token_hex(8)}"
        os.mkdir(trial, 0o700)
        os.rmdir(trial)
    except (OSError, ValueError) as problem:
        return str(getattr(problem, "strerror", None) or problem)
    return ""


def _usable() -> Path:
    """The folder, if it is one to use."""
    place, why_not = folder(), refusal()
    if place is None or why_not:
        raise PermissionError(why_not)
    return place


def load(key: str) -> Entry | None:
    """What was kept under a key (64 hexadecimal digits); nothing where there is no such entry, whole and our own."""
    try:
        return _unpacked(key, _read(_usable() / f"{key}.code"))
    except (OSError, ValueError, struct.error):
        return None


def _read(path: Path) -> bytes:
    with open(os.open(path, _READ), "rb") as stream:
        about = os.fstat(stream.fileno())
        if not stat.S_ISREG(about.st_mode) or distrust(about) or about.st_size > LARGEST:
            raise PermissionError(path)
        return stream.read(LARGEST)


def _packed(key: str, entry: Entry) -> bytes:
    facts = json.dumps(entry.facts).encode()
    body = _BODY.pack(bytes.fromhex(key), len(facts)) + facts + entry.code
    return _HEAD.pack(_MAGIC, FORMAT, sha256(body).digest()) + body


def _unpacked(key: str, data: bytes) -> Entry:
    body = data[_HEAD.size :]
    if data[: _HEAD.size] != _HEAD.pack(_MAGIC, FORMAT, sha256(body).digest()):
        raise ValueError("this is not what was written")
    own_key, length = _BODY.unpack_from(body)
    if own_key.hex() != key:
        raise ValueError("this was written under another key")
    code = _BODY.size + length
    return Entry(json.loads(body[_BODY.size : code]), body[code:])


def save(key: str, entry: Entry) -> None:
    """Store an entry, if possible. Others may write the same one at the same time."""
    data = _packed(key, entry)
    if len(data) > LARGEST:
        return
    with suppress(OSError, ValueError):
        place = folder()
        if place is None:
            return
        os.makedirs(place, 0o700, exist_ok=True)
        _evict(_usable(), len(data))
        _write(place / f"{key}.code", place / f"{key}.{secrets.token_hex(8)}.tmp", data)


def _write(path: Path, temporary: Path, data: bytes) -> None:
    """A file that appears whole or not at all."""
    try:
        with open(os.open(temporary, _WRITE, 0o600), "wb") as stream:
            stream.write(data)
        os.replace(temporary, path)
    finally:
        with suppress(OSError):
            os.unlink(temporary)


def _evict(place: Path, needed: int) -> None:
    """Check the size of the folder from time to time, and remove the oldest files if it is too large."""
    if _budget.get(place, 0) < needed:
        files = sorted((about.st_mtime_ns, about.st_size, path) for path, about in _files(place))
        used = sum(size for _, size, _ in files)
        if used + needed > LIMIT:
            for _, size, path in files:
                if used + needed <= LIMIT - LIMIT // 8:
                    break
                with suppress(OSError):
                    path.unlink()
                    used -= size
        _budget[place] = max(needed, min(LIMIT - used, LIMIT // 16))  # not all that is left: others write, too
    _budget[place] -= needed


def _files(place: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """The files of ours in a folder."""
    with os.scandir(place) as found:
        for file in found:
            if _NAME.fullmatch(file.name):
                with suppress(OSError):  # gone meanwhile
                    about = file.stat(follow_symlinks=False)
                    if stat.S_ISREG(about.st_mode):
                        yield Path(file.path), about


def size() -> Size:
    """How many entries there are, and their bytes."""
    try:
        sizes = [about.st_size for path, about in _files(_usable()) if path.suffix == ".code"]
    except (OSError, ValueError):
        return Size(0, 0)
    return Size(len(sizes), sum(sizes))


def clear() -> int:
    """Remove every entry, and no other files; returns how many there were."""
    removed = 0
    with suppress(OSError, ValueError):
        for path, _ in [*_files(_usable())]:
            with suppress(OSError):
                path.unlink()
                removed += path.suffix == ".code"
    return removed
