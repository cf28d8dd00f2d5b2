"""Loops of C++ source text: the lines of their heads and bodies, and the variables that count from 0."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

HEAD = re.compile(r"\b(?:for|while)\s*\(")
COUNTED = re.compile(r"^[\w:\s]*?\b([A-Za-z_]\w*)\s*=\s*0\s*;.*;\s*(?:\+\+\s*\1|\1\s*\+\+|\1\s*\+=\s*1)\s*$", re.DOTALL)
HIDDEN = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL)
PAIRS = {"(": ")", "{": "}"}


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
    for match in HEAD.finditer(text):
        close = closing(text, match.end() - 1)
        behind = text[close + 1 :]
        body = close + 1 + len(behind) - len(behind.lstrip())
        end = closing(text, body) if text[body : body + 1] == "{" else text.find(";", body)
        if close < 0 or end < 0:
            continue
        counted = COUNTED.match(text[match.end() : close]) if text[match.start()] == "f" else None
        head = 1 + text.count("\n", 0, match.start())
        column = match.start() - text.rfind("\n", 0, match.start())
        last = 1 + text.count("\n", 0, end)
        found.append(SourceLoop(head, column, last, match.start(), end + 1, counted[1] if counted else ""))
    return tuple(found)


@lru_cache(maxsize=64)
def blanked(text: str) -> str:
    """The text with spaces for comments and strings."""
    return HIDDEN.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


def closing(text: str, at: int) -> int:
    """Where the bracket at an offset is closed; -1 if it is not."""
    depth, pair = 0, (text[at], PAIRS[text[at]])
    for match in re.finditer(rf"[{re.escape(pair[0])}{re.escape(pair[1])}]", text[at:]):
        depth += 1 if match[0] == pair[0] else -1
        if not depth:
            return at + match.start()
    return -1


def loop_around(text: str, first: int, last: int, inside: SourceLoop | None = None) -> SourceLoop | None:
    """The innermost loop of a text around some lines, and around another loop."""
    around = [
        loop for loop in loops_in_text(blanked(text)) if loop.head <= first and last <= loop.last and loop != inside
    ]
    if inside is not None:
        around = [loop for loop in around if (loop.head, loop.column) < (inside.head, inside.column)]
    return max(around, key=lambda loop: (loop.head, loop.column), default=None)
