"""Where in the user's own code a call was made; exceptions that reach the user: whether user code caused them, and
tracebacks that end at the user's own line."""

from __future__ import annotations

import dis
import os
import re
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, wraps
from inspect import signature
from itertools import islice
from traceback import TracebackException
from types import CodeType, FrameType, TracebackType
from typing import Any, ParamSpec, TypeVar

import numpy as np

from ptokit.brief import LONGEST, brief, elided
from ptokit.finding import (
    LEVELS,
    WARNINGS,
    Finding,
    HazardWarning,
    OutOfBoundsError,
    VerifyError,
    Where,
    by_level,
    cell_of,
    near,
)
from ptokit.lines import keep, line_of, lines_of

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
    """The innermost frame of the user's code; for code that `torch.compile` made, its caller."""
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
    """The name of a file in a warning. The lines of a notebook cell are kept, because Python shows one of them."""
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


# --- exceptions


P = ParamSpec("P")
R = TypeVar("R")

TRACEBACK = "PTOKIT_TRACEBACK"
"""The environment variable that keeps ptokit's own frames in tracebacks."""
RAISE = dis.opmap["RAISE_VARARGS"]
BY_ARGUMENTS = (TypeError, ValueError, ArithmeticError, RecursionError, MemoryError)
"""Exceptions of Python and NumPy inside ptokit that the arguments of a call can cause."""
SEVERAL = ("findings", "errors")
"""The attributes of exceptions that have several messages."""
UNEXPECTED = re.compile(r"unexpected keyword argument '(\w+)'$")
SUGGESTED = re.compile(r"[Dd]id you mean:? '?([\w.]+)'?\?")
_CALL = "__ptokit_call__"


def public(function: Callable[P, R]) -> Callable[P, R]:
    """A function that users call: the traceback of a user's error ends at the line of the call."""

    @wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> R:
        try:
            return function(*args, **options)
        except Exception as problem:
            _describe_call(problem, function)
            trim(problem)
            raise

    return call


_BOUNDARY = public(len).__code__
"""The code that all public functions share."""


def trim(problem: BaseException) -> None:
    """Remove ptokit's frames from an error of the user's; to be called by a public function that then re-raises it.

    A bare `raise` takes the traceback that the exception has then, and adds no entry for its own frame. A defect of
    ptokit keeps its frames, and so does every exception that passes from one part of ptokit to another.
    """
    caller = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]
    if is_own(caller.f_code.co_filename):
        return
    _bound(problem)
    if os.environ.get(TRACEBACK) or not is_deliberate(problem):
        return
    problem.__traceback__ = _without_own(problem.__traceback__)
    context = problem.__context__
    if context is not None and context.__traceback__ is not None and _is_own(_innermost(context)[0]):
        problem.__suppress_context__ = True


def _bound(problem: BaseException) -> None:
    """Shorten the message of an error that was raised by ptokit, or by a library that it has called."""
    if not _is_own(_innermost(problem)[0]) or any(hasattr(problem, several) for several in SEVERAL):
        return
    if isinstance(problem, OSError):
        if isinstance(name := problem.filename, str | bytes):
            problem.filename = elided(name) if isinstance(name, str) else brief(name)
    elif len(text := str(problem)) > LONGEST:
        problem.args = (elided(text),)


def is_deliberate(problem: BaseException) -> bool:
    """Whether an exception was raised by code of the user's, or by ptokit to report an error to the user."""
    if isinstance(problem, VerifyError | OutOfBoundsError):
        return True
    if isinstance(problem, RecursionError):  # the function that recurses, wherever the last call was made
        counts = Counter(entry.tb_frame.f_code for entry in _entries(problem.__traceback__))
        return all(not is_own(code.co_filename) for code, _ in counts.most_common(1))
    entry, in_library = _innermost(problem)
    if entry is None or not _is_own(entry):
        return True
    code = entry.tb_frame.f_code
    if code is _BOUNDARY:  # the arguments did not match the function
        return isinstance(problem, TypeError)
    return not in_library and not isinstance(problem, AssertionError) and code.co_code[entry.tb_lasti] == RAISE


def raised_in_user_code(problem: BaseException) -> Where | None:
    """The innermost line of the user's that an exception came through, if it is the user's; None for a defect."""
    entries = [entry for entry in _entries(problem.__traceback__) if not _is_own(entry) and not _is_library(entry)]
    if not entries or not (is_deliberate(problem) or isinstance(problem, BY_ARGUMENTS)):
        return None
    own = [entry for entry in entries if not is_installed(entry.tb_frame.f_code.co_filename)]
    return _place((own or entries)[-1])


def finding_of(problem: BaseException, where: Where) -> Finding:
    """An exception that a kernel raised while it was traced, as a finding (KN-20)."""
    message = "".join(TracebackException.from_exception(problem, limit=0, lookup_lines=False).format_exception_only())
    line, *_ = message.strip().splitlines()
    return Finding("error", "KN-20", line, fix=_fix(problem, line), where=where)


def _fix(problem: BaseException, message: str) -> str:
    close, call = SUGGESTED.search(message), getattr(problem, _CALL, "")
    parts = [f"write {close[1]}"] if close else []
    parts += [str(note) for note in getattr(problem, "__notes__", ())] or ([f"see help(pto.{call})"] if call else [])
    return "; ".join(parts) or "correct this line; a launch raises the same error, with Python's traceback"


def _describe_call(problem: BaseException, function: Callable[..., Any]) -> None:
    """Name the function that the user has called, and its parameters if the arguments do not match them."""
    if hasattr(problem, _CALL) or not isinstance(problem, TypeError | ValueError) or isinstance(problem, VerifyError):
        return
    name = function.__qualname__.removesuffix(".__init__")
    setattr(problem, _CALL, name)
    entered = problem.__traceback__ is not None and problem.__traceback__.tb_next is not None
    if entered or not isinstance(problem, TypeError):
        return
    names = [parameter for parameter in signature(function).parameters if parameter != "self"]
    problem.args = (suggested(str(problem), names),)
    problem.add_note(f"pto.{name} takes {', '.join(names) or 'no arguments'}")


def suggested(message: str, names: list[str]) -> str:
    """Python's message about an unexpected keyword, with the nearest parameter."""
    unexpected = UNEXPECTED.search(message)
    close = near(unexpected[1], names) if unexpected else ""
    return f"{message}. Did you mean '{close}'?" if close else message


# --- tracebacks ----------------------------------------------------------------------------------------------------


def _entries(trace: TracebackType | None) -> Iterator[TracebackType]:
    while trace is not None:
        yield trace
        trace = trace.tb_next


def _is_own(entry: TracebackType | None) -> bool:
    return entry is not None and is_own(entry.tb_frame.f_code.co_filename)


def _is_library(entry: TracebackType) -> bool:
    return is_library(entry.tb_frame.f_code.co_filename) or is_compiled(entry.tb_frame)


def _innermost(problem: BaseException) -> tuple[TracebackType | None, bool]:
    """The innermost entry outside of libraries, and whether it called a library."""
    last, in_library = None, False
    for entry in _entries(problem.__traceback__):
        in_library = _is_library(entry)
        last = last if in_library else entry
    return last, in_library


def _without_own(trace: TracebackType | None) -> TracebackType | None:
    """A traceback without ptokit's frames, and without those of libraries that ptokit has called."""
    kept: list[TracebackType] = []
    inside = False
    for entry in _entries(trace):
        inside = _is_own(entry) or (inside and _is_library(entry))
        if not inside:
            kept.append(entry)
    result = None
    for entry in reversed(kept):
        result = TracebackType(result, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return result


def _place(entry: TracebackType) -> Where:
    code = entry.tb_frame.f_code
    return Where(code.co_filename, entry.tb_lineno, caret=_caret(entry))


def _caret(entry: TracebackType) -> int | None:
    """The column of the expression that raised; Python counts in bytes of UTF-8."""
    code = entry.tb_frame.f_code
    line, _, first, _ = next(islice(code.co_positions(), entry.tb_lasti // 2, None), (None, None, None, None))
    if first is None or line != entry.tb_lineno:
        return None
    text = line_of(code.co_filename, entry.tb_lineno).encode("utf-8", "replace")
    return len(text[:first].decode("utf-8", "replace")) + 1 if text else None
