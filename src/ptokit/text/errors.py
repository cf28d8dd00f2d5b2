"""What a reader says about a text that it cannot read."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from ptokit.finding import Where

EXCERPT = 160
"""Longest excerpt of a line in an error: lines may be megabytes long."""


class TextError(ValueError):
    """A text that cannot be read, or printed as asked: the place, the line with a caret, and a guess at the fix."""

    def __init__(self, message: str, where: Where, line: str = "", hint: str = "") -> None:
        self.message, self.where, self.hint = message, where, hint
        self.file, self.line, self.column = where.file, where.line, where.column or where.caret or 1
        excerpt, caret = _excerpt(line, self.column - 1)
        parts = [f"{where}: {message}", *([f"    {excerpt}", f"    {caret}^"] if line.strip() else [])]
        super().__init__("\n".join(parts + ([f"    {hint}"] if hint else [])))


def _excerpt(line: str, at: int) -> tuple[str, str]:
    """The part of a line around a column, and what stands before the caret below it."""
    start = max(0, at - EXCERPT // 2) if len(line) > EXCERPT else 0
    shown = line[start : start + EXCERPT]
    return shown.rstrip(), "".join("\t" if c == "\t" else " " for c in shown[: at - start])


def guess(word: str, known: Iterable[str]) -> str:
    """`, did you mean ...?` when a known word is close, else nothing."""
    if len(word) > EXCERPT:
        return ""
    known = tuple(known)
    by_case = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower(), by_case, n=1, cutoff=0.6)
    return f"; did you mean `{by_case[close[0]]}`?" if close else ""


def place(text: str, offset: int, file: str) -> tuple[Where, str]:
    """The line and column of an offset, and the line itself."""
    offset = min(max(offset, 0), len(text))
    start = text.rfind("\n", 0, offset) + 1
    end = text.find("\n", offset)
    return Where(file, text.count("\n", 0, start) + 1, offset - start + 1), text[start : end if end >= 0 else None]


def error_at(message: str, text: str, offset: int, file: str, hint: str = "") -> TextError:
    """An error at an offset of a text. What follows `; did you mean` becomes the hint, before any other."""
    where, line = place(text, offset, file)
    head, found, tail = message.partition("; did you mean ")
    head = head if len(head) < 4 * EXCERPT else head[: 4 * EXCERPT] + "..."
    return TextError(head, where, line, f"did you mean {tail}" if found else hint)
