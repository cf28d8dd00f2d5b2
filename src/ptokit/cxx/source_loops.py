"""Loops of C++ source text: the lines of their heads and bodies, and the variables that count from 0."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from functools import lru_cache

from ptokit.cxx.source_text import PAIRS, closing, masked

HEAD = re.compile(r"\b(?:for|while)\s*\(|\bdo\b(?=\s*\{)")
CONDITION = re.compile(r"\s*(?:(if)(?:\s+constexpr)?|for|while|switch)\s*\(")
ELSE = re.compile(r"\s*else\b")
AT_END = re.compile(r"\s*while\s*(\()")
"""The condition of a `do` loop."""
NEVER = re.compile(r"\s*(?:0|false)\s*\)")
"""The condition of one that is no loop."""
ENDING = re.compile(r"[;({})]")
COUNTED = re.compile(r"^[\w:\s]*?\b([A-Za-z_]\w*)\s*=\s*0\s*;.*;\s*(?:\+\+\s*\1|\1\s*\+\+|\1\s*\+=\s*1)\s*$", re.DOTALL)
MOST_HEADS = 256
"""Heads of loops and conditions without braces, one in the other."""


@dataclass(frozen=True)
class SourceLoop:
    """A loop of a text."""

    head: int
    """The line it begins at."""
    column: int
    last: int
    """The last line of its body."""
    start: int
    """The offset of its first character, and of the one after its last."""
    end: int
    counter: str
    """The variable that counts its iterations from 0; empty if there is none."""


@lru_cache(maxsize=64)
def loops_in_text(text: str) -> tuple[SourceLoop, ...]:
    """The loops of a text without comments, in the order of their heads."""
    found: list[SourceLoop] = []
    ends = set[int]()
    """Where the conditions of `do` loops begin."""
    lines = [match.end() for match in re.finditer(r"^", text, re.MULTILINE)]
    for match in HEAD.finditer(text):
        is_do = text[match.start()] == "d"
        if is_do:
            condition = AT_END.match(text, closing(text, text.find("{", match.end())) + 1)
            if condition is None:
                continue
            ends.add(condition.start(1))
            if NEVER.match(text, condition.end()):
                continue
        elif match.end() - 1 in ends:
            continue
        end = statement_end(text, match.start())
        if end < 0:
            continue
        counted = (
            COUNTED.match(text[match.end() : closing(text, match.end() - 1)]) if text[match.start()] == "f" else None
        )
        head, last = bisect_right(lines, match.start()), bisect_right(lines, end)
        column = match.start() - lines[head - 1] + 1
        found.append(SourceLoop(head, column, last, match.start(), end + 1, counted[1] if counted else ""))
    return tuple(found)


def statement_end(text: str, at: int) -> int:
    """The last character of the statement that begins at an offset of a text without comments; -1 if there is none."""
    has_if = False
    for _ in range(MOST_HEADS):
        if condition := CONDITION.match(text, at):
            has_if = has_if or condition[1] is not None
            at = closing(text, condition.end() - 1) + 1
            if not at:
                return -1
            continue
        end = _simple_end(text, at)
        otherwise = ELSE.match(text, end + 1) if has_if and end >= 0 else None
        if otherwise is None:
            return end
        at = otherwise.end()
    return -1


def _simple_end(text: str, at: int) -> int:
    """The same of a block, a `do` loop, or a statement that ends with a semicolon."""
    first = re.compile(r"\s*(do\b\s*)?(\{)?").match(text, at)
    if first is not None and first[2]:
        end = closing(text, first.start(2))
        if not first[1] or end < 0:
            return end
        at = end + 1
    while (mark := ENDING.search(text, at)) and mark[0] in PAIRS:
        at = closing(text, mark.start()) + 1
        if not at:
            return -1
    return mark.start() if mark and mark[0] == ";" else -1


def loop_around(text: str, first: int, last: int, inside: SourceLoop | None = None) -> SourceLoop | None:
    """The innermost loop of a text around some lines, and around another loop."""
    around = [
        loop for loop in loops_in_text(masked(text)) if loop.head <= first and last <= loop.last and loop != inside
    ]
    if inside is not None:
        around = [loop for loop in around if (loop.head, loop.column) < (inside.head, inside.column)]
    return max(around, key=lambda loop: (loop.head, loop.column), default=None)
