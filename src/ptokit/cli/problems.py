"""Misuse of a command, error messages, and exit statuses."""

from __future__ import annotations

import re
import sys
from contextvars import ContextVar

FINE, FOUND, MISUSED, UNMODELLED, INTERRUPTED = 0, 1, 2, 3, 130
"""Exit statuses: success, findings, misuse of the command, no finding but something that ptokit does not model,
Ctrl-C."""
UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that could move a terminal's cursor or reverse its text."""
LONGEST = 2000
"""Characters of an error that are shown."""


WORDS: ContextVar[tuple[str, ...]] = ContextVar("ptokit_words", default=())
"""The words after `ptokit` on the command line."""


class Misuse(Exception):
    """The command line is invalid."""


def described(problem: BaseException) -> str:
    """The message of an exception, on one line."""
    message = problem.strerror if isinstance(problem, OSError) and problem.strerror else str(problem)
    return (message.strip() or type(problem).__name__).splitlines()[0][:LONGEST]


def print_error(message: str, before: str = "ptokit: ") -> None:
    """Print a message on standard error."""
    if sys.stderr is not None:
        print(before + printable(message), file=sys.stderr)


def printable(text: str) -> str:
    """The text without characters that control a terminal; every character keeps its column."""
    return UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text)
