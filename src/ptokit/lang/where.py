"""Where in the user's own code a call was made."""

from __future__ import annotations

import os
import sys
import warnings
from functools import lru_cache
from types import FrameType
from typing import Any

import numpy as np

from ptokit.finding import Finding, HazardWarning, VerifyError, Where

_PACKAGE = os.path.dirname(os.path.dirname(__file__))
_ROOMS = tuple(os.path.join(_PACKAGE, room) + os.sep for room in ("lang", "engine", "program", "target", "isa"))
_LIBRARY = os.path.dirname(os.__file__) + os.sep
_NUMPY = os.path.dirname(np.__file__) + os.sep


@lru_cache(maxsize=1024)
def _is_machinery(file: str) -> bool:
    """Whether a file is ours, Python's own or NumPy's: nothing there is the user's line."""
    own_library = file.startswith(_LIBRARY) and "site-packages" not in file and "dist-packages" not in file
    return file.startswith((*_ROOMS, _NUMPY)) or own_library


def user_frame() -> FrameType | None:
    """The innermost frame of the user's."""
    frame: FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame is not None and _is_machinery(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def user_place() -> Where | None:
    """The file and line that the user is at."""
    return place(user_frame())


def place(frame: FrameType | None) -> Where | None:
    """The file and line of a frame."""
    return Where(frame.f_code.co_filename, frame.f_lineno) if frame else None


def refuse(rule: str, message: str, fix: str = "", operand: str = "") -> VerifyError:
    """An error in the user's kernel, at the user's line."""
    return VerifyError([Finding("error", rule, message, None, operand, fix=fix, where=user_place())])


def raised_at(problem: BaseException) -> Where | None:
    """The user's innermost line that an exception came through."""
    found: Where | None = None
    trace = problem.__traceback__
    while trace is not None:
        if not _is_machinery(trace.tb_frame.f_code.co_filename):
            found = Where(trace.tb_frame.f_code.co_filename, trace.tb_lineno)
        trace = trace.tb_next
    return found


def warn(finding: Finding, frame: FrameType | None) -> None:
    """Emit a hazard as a warning at the user's line."""
    if frame is None:
        warnings.warn(HazardWarning(finding), stacklevel=2)
        return
    warnings.warn_explicit(
        HazardWarning(finding),
        category=HazardWarning,
        filename=frame.f_code.co_filename,
        lineno=frame.f_lineno,
        module=frame.f_globals.get("__name__", "<unknown>"),
        registry=frame.f_globals.setdefault("__warningregistry__", {}),
    )


def warn_at(finding: Finding, module: str, registry: dict[Any, Any]) -> None:
    """Emit a hazard as a warning at its own place; the registry remembers which were shown."""
    where = finding.where or Where("<kernel>", 0)
    warnings.warn_explicit(HazardWarning(finding), HazardWarning, where.file, where.line, module, registry)
