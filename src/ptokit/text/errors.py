"""What a reader reports about a text that it cannot read."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import cached_property

from ptokit.finding import Where, near, nearest

EXCERPT = 160
"""Longest excerpt of a line in an error: lines may be megabytes long."""
LONGEST = 600
"""Characters of a message."""
MOST_ERRORS = 100
"""Errors after which a text is not read any further."""
MOST_SHOWN = 20
"""Errors of one text that are shown."""
MOST_CHOICES = 5
"""Words that are suggested at once."""


class TextError(ValueError):
    """A text that cannot be read, or printed as asked: the place, the line with a caret, and a guess at the fix.

    `errors` has every error of the text that was found, in the order of the text. The fields are those of the first;
    `str()` shows them all, up to a number.
    """

    expects = ""
    """As in `Problem`."""

    def __init__(
        self, message: str, where: Where, line: str = "", hint: str = "", others: Sequence[TextError] = ()
    ) -> None:
        self.message, self.where, self.hint, self.excerpt = message, where, hint, line
        self.file, self.line, self.column = where.file, where.line, where.column or where.caret or 1
        excerpt, caret = _excerpt(line, self.column - 1)
        parts = [f"{where}: {message}", *([f"    {excerpt}", f"    {caret}^"] if line.strip() else [])]
        self.shown = "\n".join(parts + ([f"    {hint}"] if hint else []))
        self.errors: tuple[TextError, ...] = (self, *others)
        more = [f"and {len(others) + 1 - MOST_SHOWN} more"] if len(others) >= MOST_SHOWN else []
        super().__init__("\n".join([*(error.shown for error in self.errors[:MOST_SHOWN]), *more]))


def joined(errors: Sequence[TextError]) -> TextError:
    """All errors of a text as one, in the order of the text."""
    first, *others = sorted(errors, key=lambda error: (error.line, error.column))
    return TextError(first.message, first.where, first.excerpt, first.hint, others)


def _excerpt(line: str, at: int) -> tuple[str, str]:
    """The part of a line around a column, and what stands before the caret below it."""
    start = max(0, at - EXCERPT // 2) if len(line) > EXCERPT else 0
    shown = line[start : start + EXCERPT]
    return shown.rstrip(), "".join("\t" if c == "\t" else " " for c in shown[: at - start])


def guess(word: str, known: Iterable[str]) -> str:
    """`; did you mean ...?` when a known word is close, else nothing."""
    found = near(word, known)
    return f"; did you mean `{found}`?" if found else ""


def choices(word: str, known: Sequence[str]) -> str:
    """Words that may be meant: all if they are few, else those most like the word."""
    if len(known) <= MOST_CHOICES:
        return " ".join(known)
    best = nearest(word, known, MOST_CHOICES) if word else known[:MOST_CHOICES]
    return f"{' '.join(name for name in known if name in best)} ..."


def redefined(name: str, line: int) -> str:
    """The message for a name that is defined a second time."""
    return f"redefinition of {'SSA value' if name[0] == '%' else 'symbol'} `{name}`, first defined on line {line}"


def shortened(text: str) -> str:
    """A text of a message, with an end where it is too long."""
    return text if len(text) < LONGEST else f"{text[:LONGEST]}..."


class Problem(Exception):
    """What cannot be read or printed, where in a text, and what to do about it."""

    def __init__(self, message: str, offset: int = 0, hint: str = "", expects: str = "", usage: str = "") -> None:
        message, hint = shortened(message), shortened(hint)
        super().__init__(message)
        self.message, self.offset, self.hint = message, offset, hint
        self.expects = expects
        """`token` or `form` (of the op) if another one was expected here; an open bracket may explain it."""
        self.usage = usage
        """How the op is written."""


class Source:
    """The characters of a text: lines and columns of offsets, and errors that show the line."""

    def __init__(self, text: str, file: str = "<text>") -> None:
        self.text, self.file = text, file
        self._lines: dict[int, str] = {}
        """Lines with errors, by where they start: many errors share a long one."""

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *(match.end() for match in re.finditer("\n", self.text))]

    def where(self, offset: int) -> Where:
        """The line and the column of an offset."""
        line = bisect_right(self._starts, offset)
        return Where(self.file, line, offset - self._starts[line - 1] + 1)

    def offset(self, where: Where) -> int:
        """The offset of a line and a column."""
        return self._starts[where.line - 1] + (where.column or 1) - 1

    def error(self, message: str, where: Where | None, hint: str = "") -> TextError:
        """An error at a place. What follows `; did you mean` in the message is the hint, before any other."""
        head, found, tail = message.partition("; did you mean ")
        head, hint = shortened(head), shortened(f"did you mean {tail}" if found else hint)
        if where is None:
            return TextError(head, Where(self.file, 1, 1), "", hint)
        start = self._starts[where.line - 1] if where.line <= len(self._starts) else len(self.text)
        if start not in self._lines:
            end = self.text.find("\n", start)
            self._lines[start] = self.text[start : end if end >= 0 else None]
        return TextError(head, where, self._lines[start], hint)


def error_at(message: str, text: str, offset: int, file: str) -> TextError:
    """An error at an offset of a text."""
    source = Source(text, file)
    return source.error(message, source.where(min(max(offset, 0), len(text))))
