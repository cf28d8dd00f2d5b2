"""Turns every exception of a command into an exit status and one message."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable

from ptokit.cli.problems import FOUND, INTERRUPTED, MISUSED, Misuse, described, print_error, status_of
from ptokit.finding import OutOfBoundsError, VerifyError
from ptokit.lang.faults import TRACEBACK
from ptokit.text.errors import TextError


def run_guarded(work: Callable[[], int]) -> int:
    """Run a command and return its exit status. Only a closed pipe raises."""
    try:
        status = work()
        if sys.stdout is not None:
            sys.stdout.flush()
        return status
    except BrokenPipeError:
        raise  # typer exits without a message
    except KeyboardInterrupt:
        print_error("interrupted")
        return INTERRUPTED
    except Exception as problem:
        return _status_after(problem)


def _status_after(problem: Exception) -> int:
    if os.environ.get(TRACEBACK):
        traceback.print_exception(problem)
    if isinstance(problem, TextError):
        print_error(str(problem), "")
        return FOUND
    if isinstance(problem, VerifyError | OutOfBoundsError):
        from ptokit.cli.report import show_findings

        show_findings(problem.findings)
        return status_of(problem.findings)
    if isinstance(problem, Misuse):
        print_error(str(problem))
    elif isinstance(problem, OSError) and problem.filename is None:
        _silence()
        print_error(f"cannot write the output: {described(problem)}")
    else:
        message = f"internal error in ptokit ({type(problem).__name__}: {described(problem)})"
        print_error(f"{message}; please report it with the command and its input; {TRACEBACK}=1 shows a traceback")
    return MISUSED


def _silence() -> None:
    """Redirect a standard output that cannot be written, so that Python's last flush does not fail."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (AttributeError, OSError, ValueError):
        return
