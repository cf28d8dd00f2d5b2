"""The user's source texts that a report shows; places and layouts as plain data."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Any

from ptokit.finding import Where, cell_of, shown_file
from ptokit.isa.layout import Layout
from ptokit.lines import lines_of

MOST_LINES = 3000
"""Lines of a file that are shown. Of longer files, those around the places that the report names."""
AROUND = 200
LANGUAGES = {
    ".py": "python", ".pto": "pto", ".mlir": "pto", ".ptoas": "ptoas", ".as": "ptoas", ".cpp": "cpp", ".cc": "cpp",
    ".cxx": "cpp", ".cce": "cpp", ".h": "cpp", ".hpp": "cpp",
}  # fmt: skip
"""By the end of a file's name."""


def shown_diff(diff: str) -> str:
    """A diff whose file names are those that the report shows."""
    header = re.compile(r"^((?:---|\+\+\+) )(\S.*)$", re.MULTILINE)
    return header.sub(lambda found: found[1] + shown_file(found[2]), diff)


def place(where: Where | None) -> dict[str, Any] | None:
    """A place as plain data."""
    return {"file": shown_file(where.file), "line": where.line, "column": where.column} if where else None


def terms(layout: Layout) -> dict[str, list[list[int]]]:
    """A layout as plain data: an offset is the sum of `coordinate // div % mod * stride` over these."""
    sides = {"rows": layout.rows, "cols": layout.cols}
    return {side: [[term.div, term.mod, term.stride] for term in own] for side, own in sides.items()}


def sources(places: Iterable[Where | None]) -> list[dict[str, Any]]:
    """The texts of the files that the places are in, the file with most of them first."""
    lines: dict[str, list[int]] = {}
    for where in places:
        for each in (where, *where.calls) if where else ():
            lines.setdefault(each.file, []).append(each.line)
    ordered = sorted(lines, key=lambda file: -len(lines[file]))
    return [found for file in ordered if (found := _source(file, min(lines[file]), max(lines[file])))]


def _source(file: str, first: int, last: int) -> dict[str, Any] | None:
    text = [line.rstrip("\n") for line in lines_of(file)]
    if not text:
        return None
    begin, end = (0, len(text)) if len(text) <= MOST_LINES else (max(0, first - AROUND), last + AROUND)
    kept = text[begin:end][:MOST_LINES]
    language = "python" if cell_of(file) else LANGUAGES.get(os.path.splitext(file)[1], "pto")
    return {"file": shown_file(file), "language": language, "first_line": begin + 1, "text": "\n".join(kept)}
