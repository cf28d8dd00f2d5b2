"""What a reader reports about a text that it cannot read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ptokit.finding import Where, near, nearest

EXCERPT = 160
"""Longest excerpt of a line in an error: lines may be megabytes long."""
MOST_SHOWN = 20
"""Errors of one text that are shown."""
MOST_CHOICES = 5
"""Words that are suggested at once."""


class TextError(ValueError):
    """A text that cannot be read, or printed as asked: the place, the line with a caret, and a guess at the fix.

    `errors` has every error of the text that was found, in the order of the text. The fields are those of the first;
    `str()` shows them all, up to a number.
    """

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
    return f"`{name}` is already defined, on line {line}"


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
