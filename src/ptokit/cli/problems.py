"""What can be wrong with a command, how it is told, and the exit status that it means."""

from __future__ import annotations

import re
import sys
from contextvars import ContextVar

FINE, FOUND, MISUSED, INTERRUPTED = 0, 1, 2, 130
"""Exit statuses: nothing is wrong, something was found, the command makes no sense as given, Ctrl-C."""
UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that could move a terminal's cursor or turn its text around."""
LONGEST = 2000
"""Characters of an error that are shown."""


WORDS: ContextVar[tuple[str, ...]] = ContextVar("ptokit_words", default=())
"""What was written after `ptokit` on the command line."""


class Misuse(Exception):
    """The command makes no sense as it was given."""


def described(problem: BaseException) -> str:
    """What an exception says, on one line."""
    said = problem.strerror if isinstance(problem, OSError) and problem.strerror else str(problem)
    return (said.strip() or type(problem).__name__).splitlines()[0][:LONGEST]


def tell(message: str, before: str = "ptokit: ") -> None:
    """A message to the user, on standard error."""
    if sys.stderr is not None:
        print(before + printable(message), file=sys.stderr)


def printable(text: str) -> str:
    """The text without characters that steer a terminal; every character keeps its column."""
    return UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text)
