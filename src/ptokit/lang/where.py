"""Where in the user's own code a call was made."""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Sequence
from functools import lru_cache
from types import CodeType, FrameType
from typing import Any

import numpy as np

from ptokit.finding import LEVELS, WARNINGS, Finding, HazardWarning, VerifyError, Where, by_level, cell_of
from ptokit.lines import keep, lines_of

_PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep
COMMANDS = os.path.join(_PACKAGE, "cli") + os.sep
"""The folder of the commands, which call the library as a user does."""
_DEMO = os.path.join(_PACKAGE, "demo.py")
_STANDARD = os.path.dirname(os.__file__) + os.sep
_NUMPY = os.path.dirname(np.__file__) + os.sep
_INSTALLED = ("site-packages", "dist-packages")
_USED = re.compile(rf"[/\\](?:{'|'.join(_INSTALLED)})[/\\](?:ml_dtypes|llvmlite|torch)[/\\]")
"""Libraries that ptokit calls, besides NumPy."""
_WRITTEN_BY_TORCH = "<eval_with_key>"
"""The file names of code that `torch.fx` writes begin so."""
_CALLED_BY_DYNAMO = ("__compiled_fn", "__resume_at")
"""The names of functions that code calls which `torch.compile` has put in the place of the user's begin so."""


@lru_cache(maxsize=1024)
def is_own(file: str) -> bool:
    """Whether a file is ptokit's; the demo's kernels are those of a user."""
    return file.startswith(_PACKAGE) and file != _DEMO


def is_installed(file: str) -> bool:
    """Whether a file is of an installed package."""
    return any(name in file for name in _INSTALLED)


@lru_cache(maxsize=1024)
def is_library(file: str) -> bool:
    """Whether a file is Python's own, or of a library that ptokit calls."""
    standard = file.startswith(_STANDARD) and not is_installed(file)
    return standard or file.startswith((_NUMPY, "<frozen ", _WRITTEN_BY_TORCH)) or _USED.search(file) is not None


@lru_cache(maxsize=1024)
def _is_machinery(file: str) -> bool:
    """Whether no line of a file is the user's or a command's."""
    return is_library(file) or (is_own(file) and not file.startswith(COMMANDS))


def _is_user(frame: FrameType) -> bool:
    """Whether the line of a frame is the user's or a command's."""
    return not _is_machinery(frame.f_code.co_filename) and not is_compiled(frame)


def is_compiled(frame: FrameType) -> bool:
    """Whether a frame runs code of `torch.compile`: a module that it has written, or the user's function with other
    code, whose lines are not those of the calls."""
    if "torch" not in sys.modules:
        return False
    is_written = str(frame.f_globals.get("__name__")).startswith("torch.")
    return is_written or any(name.startswith(_CALLED_BY_DYNAMO) for name in frame.f_code.co_names)


def user_frame() -> FrameType | None:
    """The innermost frame of the user's; in code that `torch.compile` made, the one that called it."""
    frame: FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame is not None and not _is_user(frame):
        frame = frame.f_back
    return frame


def user_place(kernel: CodeType | None = None) -> Where | None:
    """The user's file and line; with the calls from a kernel's code to it."""
    return place(user_frame(), kernel)


def place(frame: FrameType | None, kernel: CodeType | None = None) -> Where | None:
    """The file and line of a frame; with the calls from a kernel's code to it."""
    if frame is None:
        return None
    here, *calls = (Where(each.f_code.co_filename, each.f_lineno) for each in frames_until(frame, kernel))
    return here.called(tuple(calls))


def frames_until(frame: FrameType, kernel: CodeType | None) -> list[FrameType]:
    """A frame of the user's and those that called it, down to the kernel's; alone if no kernel did."""
    found, caller = [frame], frame
    while kernel is not None and caller.f_code is not kernel:
        if caller.f_back is None:
            return [frame]
        caller = caller.f_back
        if _is_user(caller):
            found.append(caller)
    return found


def refuse(rule: str, message: str, fix: str = "", operand: str = "", function: str = "") -> VerifyError:
    """An error in the user's kernel, or of a function, at the user's line."""
    heads = (f"{function}: ",) if function else ()
    message = "".join(heads) + message
    return VerifyError([Finding("error", rule, message, None, operand, fix=fix, where=user_place(), heads=heads)])


def warn(finding: Finding, frame: FrameType | None) -> None:
    """Emit a finding as a warning at the user's line."""
    kind = WARNINGS[finding.level]
    if frame is None:
        warnings.warn(kind(finding), stacklevel=2)
        return
    warnings.warn_explicit(
        kind(finding),
        category=kind,
        filename=_file_of_warning(frame.f_code.co_filename),
        lineno=frame.f_lineno,
        module=frame.f_globals.get("__name__", "<unknown>"),
        registry=frame.f_globals.setdefault("__warningregistry__", {}),
    )


def warn_at(finding: Finding, module: str, registry: dict[Any, Any]) -> None:
    """Emit a finding as a warning at its own place; the registry records which were shown."""
    where = finding.where or Where("<kernel>", 0)
    kind = WARNINGS[finding.level]
    warnings.warn_explicit(kind(finding), kind, _file_of_warning(where.file), where.line, module, registry)


def _file_of_warning(file: str) -> str:
    """The name of a file in a warning. That of a cell is kept with its lines, one of which Python shows."""
    cell = cell_of(file)
    if cell:
        keep(cell, lines_of(file))
    return cell or file


def warn_of(faults: Sequence[Finding], subject: str, module: str, registry: dict[Any, Any]) -> None:
    """Emit one warning on some errors and hazards: how many they are, and the first of the worst level at its place."""
    first = min(faults, key=lambda finding: LEVELS.index(finding.level))
    where = first.where or Where("<kernel>", 0)
    message = HazardWarning(first, f"{subject}: {', '.join(by_level(faults))}; the first: ")
    warnings.warn_explicit(message, HazardWarning, _file_of_warning(where.file), where.line, module, registry)
