"""File access: texts of bounded size, and atomic writes."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from ptokit.atomic import Write, is_replaced, write_files
from ptokit.brief import brief
from ptokit.cli.problems import Misuse, described
from ptokit.finding import shown_file

STDIN = "-"
STDIN_NAME = "<stdin>"
"""The file name of findings in standard input."""
LARGEST_TEXT = 64 << 20
"""The largest text in bytes: a larger one is no program, and may be endless."""


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
        raise Misuse(f"cannot write {brief(file)}: it is a directory" if file else "cannot write a file without a name")
    if not os.path.isdir(folder):
        shown = folder if os.path.islink(file) else os.path.dirname(file)
        raise Misuse(f"cannot write {file}: there is no directory {shown}")
    if not os.access(folder if is_replaced(final) else final, os.W_OK):
        raise Misuse(f"cannot write {file}: permission denied")


def check_unnamed(file: str) -> None:
    """Refuse, before any work is done, an output that the user did not name with -o: a repository may contain it as a
    link to another file."""
    for link in (file, os.path.dirname(file)):
        if os.path.islink(link):
            what = "it" if link == file else link
            raise Misuse(
                f"cannot write {file}: {what} is a link to {os.readlink(link)}; links are followed only for names that "
                "-o states"
            )
    if os.path.isfile(file) and not os.access(file, os.W_OK):
        raise Misuse(f"cannot write {file}: permission denied")
    check_destination(file)


def destination(named: str | None, default: str) -> str:
    """The file that a command writes: what -o names, else the default."""
    if named is None:
        check_unnamed(default)
    return default if named is None else named


def write_all(contents: Mapping[str, Write]) -> None:
    """Write files: all are whole, or none appears and nothing is left behind."""
    try:
        write_files(contents)
    except OSError as problem:
        raise Misuse(
            f"cannot write {shown_file(problem.filename)}: {described(problem.__cause__ or problem)}"
        ) from problem
