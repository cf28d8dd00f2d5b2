"""Findings on recordings: what ended one, and what a program cannot express."""

from __future__ import annotations

from ptokit.cxx.recording import Frames, Recording
from ptokit.finding import OPAQUE, Finding, Level, VerifyError, Where

OWN_CODE = "KN-20"
"""The clause on the code of a kernel: it compiles, and runs to its end."""
UNORDERED = "KN-13"
"""The clause on accesses that nothing orders."""
LEVELS: dict[str, Level] = {"undefined": "unmodelled", "threads": "error"}
"""The levels of kinds of problems that do not follow from whether the recording ended."""
NO_MEMORY = "the kernel accesses memory that it does not have"
FIRST_PAGES = 1 << 16
"""Addresses below are those of members and items of null pointers."""
FILLED = (
    "the pointer is null: arrays that are not given hold zeros. If a host program fills a structure with pointers, "
    "write a function in the source that fills it with its own parameters and launches the kernel, and name it with "
    "--entry"
)
"""What helps if a kernel uses a null pointer."""
MORE = "give it less to do, or raise the limit: --limit seconds=60, memory=8G or calls=1e8"
"""What helps if a limit of recording is reached."""
UNKNOWN: tuple[Level, str] = ("unmodelled", OPAQUE)
"""The level and the rule of calls that ptokit does not model, and of values that it does not know."""


def where_of(frames: Frames, kernel: str = "") -> Where | None:
    """The place of a call, with the calls that lead there, up to the kernel."""
    own = next(
        (k for k, frame in enumerate(frames) if kernel and plain_name(frame.function) == kernel), len(frames) - 1
    )
    places = [Where(frame.file, frame.line, frame.column or None) for frame in frames[: own + 1]]
    return places[0].called(tuple(places[1:])) if places else None


def plain_name(function: str) -> str:
    """The name of a function without namespaces and template arguments."""
    return function.partition("<")[0].rpartition("::")[2]


def unmodelled(message: str, where: Where | None) -> VerifyError:
    """A refusal: the program cannot be made."""
    fix = "leave the call out, or check the rest of the kernel without it"
    return VerifyError([Finding(*UNKNOWN, message, fix=fix, where=where, blocks=True)])


def problem_findings(recording: Recording) -> tuple[Finding, ...]:
    """What ended a recording, or makes it doubtful."""
    return tuple(
        Finding(*UNKNOWN, problem.message, where=where_of(problem.frames))
        if problem.kind == "value"
        else Finding(
            LEVELS.get(problem.kind, "error" if problem.fatal else "hazard"),
            UNORDERED if problem.kind == "threads" else OWN_CODE,
            problem.message,
            fix=MORE if problem.kind == "limit" else problem.fix,
            where=where_of(problem.frames),
        )
        for problem in recording.problems
    )
