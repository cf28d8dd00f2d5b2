"""Atomic writes: files are whole, or as they were."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import BinaryIO

MOST_NAME = 40
"""Characters of a file's name that are in the temporary one."""

Write = Callable[[BinaryIO], object]


def write_file(path: str | os.PathLike[str], content: bytes) -> None:
    """Write one file."""
    write_files({os.fspath(path): lambda stream: stream.write(content)})


def write_files(contents: Mapping[str, Write]) -> None:
    """Write files under temporary names, then rename them: all are whole, or none appears and nothing is left behind.

    An existing file keeps its permissions and a link stays a link. Devices and pipes are written to directly.
    """
    staged: dict[str, str] = {}
    file = ""
    try:
        for file, write in contents.items():
            final = os.path.realpath(file)
            if is_replaced(final):
                folder, name = os.path.split(final)
                temporary = os.path.join(folder, f".ptokit-{name[:MOST_NAME]}-{secrets.token_hex(8)}.tmp")
                staged[temporary] = final  # known before it exists, so that no interruption can leave it behind
                _write_new(temporary, final, write)
            else:
                with open(final, "wb", buffering=0) as stream:
                    write(stream)
        for temporary, file in staged.items():
            os.replace(temporary, file)
    except OSError as problem:
        raise OSError(problem.errno, problem.strerror, file) from problem
    finally:
        for temporary in staged:
            with suppress(OSError):
                os.unlink(temporary)


def is_replaced(final: str) -> bool:
    """Whether a new file replaces the destination."""
    return not os.path.lexists(final) or os.path.isfile(final)


def _write_new(temporary: str, final: str, write: Write) -> None:
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    with open(descriptor, "wb") as stream:
        with suppress(FileNotFoundError):
            os.chmod(temporary, stat.S_IMODE(os.stat(final).st_mode))
        write(stream)
        stream.flush()
        os.fsync(stream.fileno())
