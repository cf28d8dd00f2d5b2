"""Loops of C++ source text: the lines of their heads and bodies, and the variables that count from 0."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from functools import lru_cache

from ptokit.cxx.source_text import PAIRS, closing, masked

HEAD = re.compile(r"\b(?:for|while)\s*\(|\bdo\b(?=\s*\{)")
CONDITION = re.compile(r"\b(?:(if)(?:\s+constexpr)?|for|while|switch)\s*\(")
BLOCK = re.compile(r"\s*(do\b\s*)?(\{)?")
SPACE = re.compile(r"\s*")
ELSE = re.compile(r"\s*else\b\s*")
AT_END = re.compile(r"\s*while\s*(\()")
"""The condition of a `do` loop."""
NEVER = re.compile(r"\s*(?:0|false)\s*\)")
"""The condition of one that is no loop."""
ENDING = re.compile(r"[;({})]")
COUNTED = re.compile(r"^[\w:\s]*?\b([A-Za-z_]\w*)\s*=\s*0\s*;.*;\s*(?:\+\+\s*\1|\1\s*\+\+|\1\s*\+=\s*1)\s*$", re.DOTALL)
LONGEST_HEAD = 1000
"""Characters between the brackets of a loop with a counter."""
MOST_LOOPS = 5000
"""A text with more of them has none that is known."""


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
        end = _end(text, match.start())
        if end < 0:
            continue
        length = closing(text, match.end() - 1) - match.end() if text[match.start()] == "f" else -1
        counted = COUNTED.match(text[match.end() : match.end() + length]) if 0 <= length <= LONGEST_HEAD else None
        head, last = bisect_right(lines, match.start()), bisect_right(lines, end)
        column = match.start() - lines[head - 1] + 1
        if len(found) == MOST_LOOPS:
            return ()
        found.append(SourceLoop(head, column, last, match.start(), end + 1, counted[1] if counted else ""))
    return tuple(found)


def _end(text: str, at: int) -> int:
    """The last character of the statement that begins at an offset of a text without comments; -1 if there is none."""
    end = _ends(text).get(at)
    return _simple_end(text, at) if end is None else end


@lru_cache(maxsize=64)
def _ends(text: str) -> dict[int, int]:
    """The same for each condition and loop, from the last one to the first: each step is made once."""
    ends: dict[int, int] = {}
    after: dict[int, re.Match[str] | None] = {}
    """What follows the end of a statement, if it is an `else`."""

    def end_of(start: int) -> int:
        at = SPACE.match(text, start).end()  # pyright: ignore[reportOptionalMemberAccess]
        return ends[at] if at in ends else _simple_end(text, at)

    for match in reversed([*CONDITION.finditer(text)]):
        closed = closing(text, match.end() - 1)
        end = end_of(closed + 1) if closed >= 0 else -1
        if match[1] and end >= 0:
            if end not in after:
                after[end] = ELSE.match(text, end + 1)
            otherwise = after[end]
            end = end_of(otherwise.end()) if otherwise else end
        ends[match.start()] = end
    return ends


def _simple_end(text: str, at: int) -> int:
    """The end of a block, a `do` loop, or a statement that ends with a semicolon."""
    first = BLOCK.match(text, at)
    if first is not None and first[2]:
        end = closing(text, first.start(2))
        if not first[1] or end < 0:
            return end
        at = end + 1
    starts, ends = _semicolons(text)
    mark = bisect_left(starts, at)
    return ends[mark] if mark < len(ends) else -1


@lru_cache(maxsize=64)
def _semicolons(text: str) -> tuple[list[int], list[int]]:
    """Each bracket and semicolon, and the first semicolon from there on outside further brackets; -1 if the bracket
    around them is closed before."""
    marks = [*ENDING.finditer(text)]
    starts = [mark.start() for mark in marks]
    ends = [-1] * (len(marks) + 1)
    for index in range(len(marks) - 1, -1, -1):
        if marks[index][0] == ";":
            ends[index] = starts[index]
        elif marks[index][0] in PAIRS and (closed := closing(text, starts[index])) >= 0:
            ends[index] = ends[bisect_right(starts, closed)]
    return starts, ends[:-1]


def loop_around(text: str, first: int, last: int, inside: SourceLoop | None = None) -> SourceLoop | None:
    """The innermost loop of a text around some lines, and around another loop."""
    around = [
        loop for loop in loops_in_text(masked(text)) if loop.head <= first and last <= loop.last and loop != inside
    ]
    if inside is not None:
        around = [loop for loop in around if (loop.head, loop.column) < (inside.head, inside.column)]
    return max(around, key=lambda loop: (loop.head, loop.column), default=None)
