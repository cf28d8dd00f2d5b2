"""Misuse of a command, error messages, and exit statuses."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from contextvars import ContextVar

from ptokit.brief import elided
from ptokit.finding import LEVELS, WARNINGS, Finding, is_modelled
from ptokit.markup import printable as without_controls

FINE, FOUND, MISUSED, UNMODELLED, INTERRUPTED = 0, 1, 2, 3, 130
"""Exit statuses: success, findings, misuse of the command, no finding but something that ptokit does not model,
Ctrl-C."""
LONGEST = 2000
"""Characters of an error that are shown."""


WORDS: ContextVar[tuple[str, ...]] = ContextVar("ptokit_words", default=())
"""The words after `ptokit` on the command line."""


SHOWN: dict[str, str] = {}
"""What is shown for the names of files: `<stdin>` for a file that standard input was put into."""


FAIL_ON: ContextVar[str] = ContextVar("ptokit_fail_on", default="hazard")
"""The mildest level of a finding that is no success."""


def status_of(findings: Iterable[Finding]) -> int:
    """The exit status for findings: by default, notes alone are success, errors and hazards are not."""
    found = tuple(findings)
    failing = LEVELS[: LEVELS.index(FAIL_ON.get()) + 1]
    if any(each.level in failing and each.level != "unmodelled" for each in found):
        return FOUND
    return FINE if is_modelled(found) else UNMODELLED


class Misuse(Exception):
    """The command line is invalid."""

    def __init__(self, message: str) -> None:
        super().__init__(elided(message, LONGEST))


@contextmanager
def misused(*kinds: type[BaseException], by: str = "") -> Iterator[None]:
    """Around what raises such exceptions for what the user has given: misuse of the command."""
    try:
        yield
    except kinds as problem:
        is_of_system = by and isinstance(problem, OSError)  # without its number, and the name again
        raise Misuse(f"{by}{described(problem) if is_of_system else problem}") from problem


@contextmanager
def apart() -> Iterator[None]:
    """Around a script or a call of the library: what it prints goes to standard error, hazards are reported later."""
    with warnings.catch_warnings(), redirect_stdout(sys.stderr):
        for kind in WARNINGS.values():
            warnings.simplefilter("ignore", kind)
        yield


def described(problem: BaseException) -> str:
    """The message of an exception, on one line."""
    message = problem.strerror if isinstance(problem, OSError) and problem.strerror else str(problem)
    return elided((message.strip() or type(problem).__name__).splitlines()[0], LONGEST)


def print_error(message: str, before: str = "ptokit: ") -> None:
    """Print a message on standard error."""
    if sys.stderr is not None:
        print(before + printable(message), file=sys.stderr)


def printable(text: str) -> str:
    """The text without characters that control a terminal, and with the names that are shown for files."""
    return without_controls(with_shown_names(text))


def with_shown_names(text: str) -> str:
    """The text with the names that are shown for files."""
    for file, name in SHOWN.items():
        text = text.replace(file, name)
    return text
