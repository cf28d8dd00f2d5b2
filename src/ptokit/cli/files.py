"""File access: texts of bounded size, and atomic writes."""

from __future__ import annotations

import atexit
import os
import re
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from ptokit.atomic import Write, is_replaced, write_files
from ptokit.brief import brief
from ptokit.cli.problems import SHOWN, Misuse, described, misused
from ptokit.cxx.repository import MARKS
from ptokit.finding import shown_file

STDIN = "-"
STDIN_NAME = "<stdin>"
"""The file name of findings in standard input."""
PEEKED = 4096
"""Bytes at the start of a text that tell whether it is C++."""
INCLUDE_LINE = re.compile(rb"^[ \t]*#[ \t]*include\b", re.MULTILINE)
LARGEST_TEXT = 64 << 20
"""The largest text in bytes: a larger one is no program, and may be endless."""


def read_text(file: str) -> bytes:
    """The bytes of a text file, or of standard input for `-`."""
    with misused(OSError, ValueError, AttributeError, by=f"cannot read {shown_name(file)}: "):
        if file == STDIN:
            text = sys.stdin.buffer.read(LARGEST_TEXT + 1)
        else:
            with open(file, "rb") as stream:
                text = stream.read(LARGEST_TEXT + 1)
    if len(text) > LARGEST_TEXT:
        raise Misuse(f"{shown_name(file)} is larger than {LARGEST_TEXT >> 20} MiB, which is no program")
    return text


def on_disk(word: str) -> str:
    """The word of a command; for C++ on standard input, a file with that text, which is removed at the end."""
    peek = getattr(getattr(sys.stdin, "buffer", None), "peek", None) if word == STDIN else None
    try:
        first = peek(PEEKED) if peek is not None else b""
    except (OSError, ValueError):
        return word  # whoever reads it says why
    if not INCLUDE_LINE.search(first[:PEEKED]):
        return word
    from ptokit.cxx.folders import temporary_prefix

    folder = tempfile.TemporaryDirectory(prefix=temporary_prefix())
    atexit.register(folder.cleanup)
    path = Path(os.path.realpath(folder.name), "stdin.cpp")
    path.write_bytes(read_text(word))
    SHOWN.update(dict.fromkeys((str(path), shown_file(str(path))), STDIN_NAME))
    return str(path)


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
        raise Misuse(f"cannot write {brief(file)}: it is a directory" if file else "cannot write a file without a name")
    if not os.path.isdir(folder):
        shown = folder if os.path.islink(file) else os.path.dirname(file)
        raise Misuse(f"cannot write {file}: there is no directory {shown}")
    if not os.access(folder if is_replaced(final) else final, os.W_OK):
        raise Misuse(f"cannot write {file}: permission denied")


def check_unnamed(file: str, remedy: str = "name the file that it leads to") -> None:
    """Refuse, before any work is done, an output that the user did not name with -o: a repository may contain it as a
    link to another file. `remedy`: what to do if it is one."""
    if link := _foreign_link(file):
        what = "it" if link == file else link
        raise Misuse(f"cannot write {file}: {what} is a link to {os.readlink(link)}; {remedy}")
    check_regular(file)
    if os.path.isfile(file) and not os.access(file, os.W_OK):
        raise Misuse(f"cannot write {file}: permission denied")
    check_destination(file)


def check_regular(file: str) -> None:
    """Refuse a pipe or a device, which is opened only when somebody else opens it, or has no end."""
    if os.path.exists(file) and not os.path.isfile(file) and not os.path.isdir(file):
        raise Misuse(f"cannot write {file}: it is no regular file")


def _foreign_link(file: str) -> str:
    """The file, or a folder of its path, that is a link which the working folder or a repository contains; empty if
    there is none. Links on the way to a repository are the user's."""
    link = file
    while link and link != os.path.dirname(link):
        if os.path.islink(link) and (link == file or _is_foreign(os.path.dirname(link))):
            return link
        link = os.path.dirname(link)
    return ""


def _is_foreign(folder: str) -> bool:
    """Whether a folder is in the working folder or in a repository."""
    real, home = Path(folder).resolve(), os.path.realpath(os.path.expanduser("~"))
    above = [each for each in (real, *real.parents) if str(each) != home]
    return real.is_relative_to(Path.cwd()) or any(os.path.exists(each / mark) for each in above for mark in MARKS)


def destination(named: str | None, default: str) -> str:
    """The file that a command writes: what -o names, else the default."""
    if named is None:
        check_unnamed(default, f"-o {default} follows it")
    return default if named is None else named


def write_all(contents: Mapping[str, Write]) -> None:
    """Write files: all are whole, or none appears and nothing is left behind."""
    try:
        write_files(contents)
    except OSError as problem:
        why = described(problem.__cause__ or problem)
        raise Misuse(f"cannot write {shown_file(problem.filename)}: {why}") from problem
