"""Folders of C++ kernels: temporary folders of this process, and the folder of the generated headers."""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import shutil
import stat
import tempfile
from functools import cache
from hashlib import sha256
from pathlib import Path

from ptokit.atomic import write_file
from ptokit.cache import base, distrust
from ptokit.cxx.names import files

PREFIX = "ptokit-cxx-"
"""What the names of temporary folders begin with; the process and its namespace follow."""
CURRENT: dict[tuple[Path, str], tuple[int, ...]] = {}
"""The state of generated files that were found to have their text."""


@cache
def _namespace() -> int:
    """The namespace of this process's number: that of a container is none of another one."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return 0


def temporary_prefix() -> str:
    """What the name of a temporary folder of this process begins with: a later one removes it if this one is killed."""
    return f"{PREFIX}{os.getpid()}-{_namespace()}-"


@cache
def remove_abandoned() -> None:
    """Remove, once, the folders of processes of this user that were killed."""
    name = re.compile(rf"{PREFIX}([1-9]\d{{0,9}})-{_namespace()}-\w+")
    with contextlib.suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            match = name.fullmatch(entry.name)
            if match and not _runs(int(match[1])) and _is_own_folder(entry):
                shutil.rmtree(entry.path, ignore_errors=True)


def _is_own_folder(entry: os.DirEntry[str]) -> bool:
    with contextlib.suppress(OSError):
        return entry.is_dir(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_uid == os.getuid()
    return False


def _runs(process: int) -> bool:
    """Whether a process exists."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def generated_headers() -> Path:
    """The folder of the headers that are generated: in the user's cache, else one of this process. Files that differ
    from what they should be are written again."""
    texts = files()
    digest = sha256("".join(text for each in sorted(texts.items()) for text in each).encode()).hexdigest()
    place = base()
    if place is not None:
        with contextlib.suppress(OSError, ValueError):
            os.makedirs(place, 0o700, exist_ok=True)
            if not distrust(os.stat(place)):
                return _written(place.absolute() / f"headers-{digest[:16]}", texts)
    return _written(_own_folder(), texts)


@cache
def _own_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix=temporary_prefix())).resolve()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _written(folder: Path, texts: dict[str, str]) -> Path:
    for path, text in texts.items():
        file = folder / path
        if not _is_current(file, text):
            os.makedirs(file.parent, 0o700, exist_ok=True)
            write_file(file, text.encode())
    return folder


def _is_current(file: Path, text: str) -> bool:
    """Whether a file has a text. It is read again only if it has changed since."""
    try:
        about = os.stat(file)
        state = about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns
        if CURRENT.get((file, text)) == state:
            return True
        is_same = stat.S_ISREG(about.st_mode) and file.read_text(encoding="utf-8") == text
    except OSError:
        return False
    if is_same:
        CURRENT[file, text] = state
    return is_same
