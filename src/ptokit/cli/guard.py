"""Around every command: whatever happens in it becomes an exit status and one plain message."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable

from ptokit.cli.problems import FOUND, INTERRUPTED, MISUSED, Misuse, described, tell
from ptokit.finding import OutOfBoundsError, VerifyError
from ptokit.lang.faults import TRACEBACK
from ptokit.text.errors import TextError


def status_of(work: Callable[[], int]) -> int:
    """Do the work of a command and give its exit status. Never lets an exception out, but for a closed pipe."""
    try:
        status = work()
        if sys.stdout is not None:
            sys.stdout.flush()
        return status
    except BrokenPipeError:
        raise  # the reader has seen enough; typer ends quietly
    except KeyboardInterrupt:
        tell("interrupted")
        return INTERRUPTED
    except Exception as problem:
        return _explain(problem)


def _explain(problem: Exception) -> int:
    if os.environ.get(TRACEBACK):
        traceback.print_exception(problem)
    if isinstance(problem, TextError):
        tell(str(problem), "")
        return FOUND
    if isinstance(problem, VerifyError | OutOfBoundsError):
        from ptokit.cli.report import show_findings

        show_findings(problem.findings)
        return FOUND
    if isinstance(problem, Misuse):
        tell(str(problem))
    elif isinstance(problem, OSError) and problem.filename is None:
        _silence()
        tell(f"cannot write the output: {described(problem)}")
    else:
        said = f"something went wrong inside ptokit ({type(problem).__name__}: {described(problem)})"
        tell(f"{said}; please report it with the command and its input; {TRACEBACK}=1 shows where it happened")
    return MISUSED


def _silence() -> None:
    """Let nothing more be written to a standard output that takes nothing more, Python's own last flush included."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (AttributeError, OSError, ValueError):
        return
