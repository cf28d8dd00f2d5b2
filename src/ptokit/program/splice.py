"""Changes of a text: ranges that are replaced, statements that are put beside others or taken out with their lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

Piece = tuple[int, int, str]
"""A range of a text, and what replaces it."""


def spliced(text: str, pieces: Iterable[Piece]) -> str:
    """The text with pieces in it; pieces at one place keep their order."""
    done, at = "", 0
    for start, end, new in sorted(pieces, key=lambda piece: piece[:2]):
        done += text[at:start] + new
        at = max(at, end)
    return done + text[at:]


@dataclass(frozen=True)
class Lines:
    """The lines of a text, and what else stands on them."""

    text: str
    is_blank: Callable[[int, int], bool]
    """Whether a range of the text has no statement."""
    between: str = " "
    """What stands between two statements of one line."""

    def around(self, at: int) -> tuple[int, int]:
        """Where the line of an offset starts and ends, without its line feed."""
        end = self.text.find("\n", at)
        return self.text.rfind("\n", 0, at) + 1, len(self.text) if end < 0 else end

    def indent(self, at: int) -> str:
        """The blanks at the start of the line of an offset."""
        first, _ = self.around(at)
        return self.text[first : len(self.text) - len(self.text[first:].lstrip(" \t"))]

    def newline(self, at: int) -> str:
        """How the line of an offset ends."""
        return "\r\n" if self.text.endswith("\r", 0, self.around(at)[1]) else "\n"

    def insertion(self, start: int, end: int, written: str, *, is_before: bool) -> Piece:
        """A statement beside another: on a line of its own, if nothing else is on that side of it."""
        at = start if is_before else end
        first, last = self.around(at)
        if not (self.is_blank(first, at) if is_before else self.is_blank(at, last)):
            return at, at, f"{written}{self.between}" if is_before else f"{self.between}{written}"
        line, newline = f"{self.indent(start)}{written}", self.newline(at)
        if is_before:
            return first, first, f"{line}{newline}"
        return (last + 1, last + 1, f"{line}{newline}") if last < len(self.text) else (last, last, f"{newline}{line}")

    def removal(self, start: int, end: int, separator: str = "") -> Piece:
        """A statement that is taken out: with its line, if nothing else is on it, or with a separator behind it."""
        first, last = self.around(start)[0], self.around(end)[1]
        if self.is_blank(first, start) and self.is_blank(end, last):
            return first, min(last + 1, len(self.text)), ""
        rest = re.compile(separator).match(self.text, end, last)
        return start, rest.end() if rest else end, ""
