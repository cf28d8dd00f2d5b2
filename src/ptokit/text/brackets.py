"""Brackets of a text: their pairs, and those that a statement leaves open."""

from __future__ import annotations

import re

LONGEST = 4000
"""Characters of a statement in which a closing bracket is looked for."""
PAIRS = {"(": ")", "[": "]", "{": "}", "<": ">"}
MARKS = re.compile(r'[(){}\[\]]|[<>](?!=)|"(?:[^"\\\n]|\\.)*+"?|//[^\n]*|->')
"""Brackets, and what is none: strings, comments, arrows, comparisons."""
CLOSING = frozenset(PAIRS.values())
_BLANKS = re.compile(r"\s*")
_NAME = re.compile(r"\w+\Z", re.ASCII)


def unclosed(text: str, start: int, at: int, resumes: re.Pattern[str]) -> int | None:
    """The last bracket that a statement has opened before an offset, unless the statement closes it.

    `resumes` matches the start of another statement.
    """
    opened: list[int] = []
    for match in MARKS.finditer(text, start, at):
        if match[0] in PAIRS:
            opened.append(match.start())
        elif opened and PAIRS[text[opened[-1]]] == match[0]:
            opened.pop()
    if not opened:
        return None
    if not text[text.rfind("\n", 0, at) + 1 : at].strip() and resumes.match(text, at):
        return opened[-1]
    inner = [opened[-1]]
    for match in MARKS.finditer(text, at, _end_of_statement(text, at, resumes)):
        if match[0] in PAIRS:
            inner.append(match.start())
        elif match[0] in CLOSING:
            if PAIRS[text[inner.pop()]] != match[0]:
                return opened[-1]
            if not inner:
                return None
    return opened[-1]


def _end_of_statement(text: str, at: int, resumes: re.Pattern[str]) -> int:
    end = text.find("\n", at)
    while 0 <= end < at + LONGEST:
        following = _BLANKS.match(text, end).end()  # type: ignore[union-attr]
        if resumes.match(text, following):
            return end
        end = text.find("\n", following)
    return min(len(text), at + LONGEST)


def unclosed_message(text: str, at: int) -> str:
    """What is wrong with a bracket that is not closed: the group that it opens, and what is missing."""
    name = _NAME.search(text, max(0, at - 40), at) if text[at] == "(" else None
    group = f" of {name[0]}(...)" if name else ""
    return f"`{text[at]}`{group} is not closed: expected `{PAIRS[text[at]]}`"
