"""Where in the user's own code a call was made."""

from __future__ import annotations

import os
import sys
import warnings
from types import FrameType

from ptokit.finding import Finding, HazardWarning, Where

_HOME = os.path.dirname(__file__) + os.sep


def user_frame() -> FrameType | None:
    """The innermost frame outside this room."""
    frame: FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame is not None and frame.f_code.co_filename.startswith(_HOME):
        frame = frame.f_back
    return frame


def place(frame: FrameType | None) -> Where | None:
    """The file and line of a frame."""
    return Where(frame.f_code.co_filename, frame.f_lineno) if frame else None


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
