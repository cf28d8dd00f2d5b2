"""File access: texts of bounded size, and atomic writes."""

from __future__ import annotations

import os
import secrets
import stat
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import BinaryIO

from ptokit.cli.problems import Misuse, described

STDIN = "-"
STDIN_NAME = "<stdin>"
"""The file name of findings in standard input."""
LARGEST_TEXT = 64 << 20
"""The largest text in bytes: a larger one is no program, and may be endless."""

Write = Callable[[BinaryIO], object]


def read_text(file: str) -> bytes:
    """The bytes of a text file, or of standard input for `-`."""
    try:
        if file == STDIN:
            text = sys.stdin.buffer.read(LARGEST_TEXT + 1)
        else:
            with open(file, "rb") as stream:
                text = stream.read(LARGEST_TEXT + 1)
    except (OSError, ValueError, AttributeError) as problem:
        raise Misuse(f"cannot read {shown_name(file)}: {described(problem)}") from problem
    if len(text) > LARGEST_TEXT:
        raise Misuse(f"{shown_name(file)} is larger than {LARGEST_TEXT >> 20} MiB, which is no program")
    return text


def shown_name(file: str) -> str:
    """The name of a file in messages."""
    return STDIN_NAME if file == STDIN else file


def print_text(text: str) -> None:
    """Write a text to standard output, always in UTF-8."""
    if sys.stdout is not None:
        sys.stdout.flush()
        sys.stdout.buffer.write(text.encode("utf-8", "replace"))


def check_destination(file: str) -> None:
    """Refuse, before any work is done, a file that could not be written."""
    final = os.path.realpath(file)
    folder = os.path.dirname(final)
    if not file or os.path.isdir(final):
        raise Misuse(f"cannot write {file!r}: it is a directory" if file else "cannot write a file without a name")
    if not os.path.isdir(folder):
        raise Misuse(f"cannot write {file}: there is no directory {folder}")
    if not os.access(folder if _is_replaced(final) else final, os.W_OK):
        raise Misuse(f"cannot write {file}: permission denied")


def write_all(contents: Mapping[str, Write]) -> None:
    """Write files under temporary names, then rename them: all are whole, or none appears and nothing is left behind.

    An existing file keeps its permissions and a link stays a link. Devices and pipes are written to directly.
    """
    staged: dict[str, str] = {}
    file = ""
    try:
        for file, write in contents.items():
            final = os.path.realpath(file)
            if _is_replaced(final):
                temporary = os.path.join(os.path.dirname(final), f".ptokit-{secrets.token_hex(8)}.tmp")
                staged[temporary] = final  # known before it exists, so that no interruption can leave it behind
                _write_new(temporary, final, write)
            else:
                with open(final, "wb", buffering=0) as stream:
                    write(stream)
        for temporary, file in staged.items():
            os.replace(temporary, file)
    except OSError as problem:
        raise Misuse(f"cannot write {file}: {described(problem)}") from problem
    finally:
        for temporary in staged:
            with suppress(OSError):
                os.unlink(temporary)


def _is_replaced(final: str) -> bool:
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
