"""Findings on calls and programs: what they are, how they look, and the errors and warnings that carry them."""

from ptokit.finding.conflict import ConflictAccess, Iteration, Seen, Where, at_line, cell_of, shown, shown_file
from ptokit.finding.finding import FAULTS, LEVELS, OPAQUE, SHARDED, Finding, Level
from ptokit.finding.fix import (
    LANGUAGES,
    CodePart,
    Fix,
    OperandName,
    OpName,
    Wording,
    any_of,
    called,
    minimum,
    when_holds,
)
from ptokit.finding.hints import NAME, counted, near, nearest, suggestion
from ptokit.finding.several import (
    WARNINGS,
    HazardWarning,
    Judged,
    OutOfBoundsError,
    UnmodelledWarning,
    VerifyError,
    by_level,
    findings_html,
    fold_overlaps,
    is_modelled,
    not_in_run,
    summary,
    without_consequences,
)

__all__ = [
    "FAULTS", "LANGUAGES", "LEVELS", "NAME",
    "OPAQUE", "SHARDED", "WARNINGS", "CodePart", "ConflictAccess", "Finding", "Fix",
    "HazardWarning", "Iteration", "Judged", "Level", "OpName", "OperandName", "OutOfBoundsError", "Seen",
    "UnmodelledWarning",
    "VerifyError", "Where", "Wording", "any_of", "at_line", "by_level", "called", "cell_of", "counted",
    "findings_html", "fold_overlaps", "is_modelled", "minimum", "near", "nearest", "not_in_run", "shown",
    "shown_file", "suggestion", "summary", "when_holds", "without_consequences",
]  # fmt: skip
