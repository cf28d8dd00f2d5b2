"""Loops of C++ source text: the lines of their heads and bodies, and the variables that count from 0."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from ptokit.cxx.source_text import tokens_of

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
    """The loops of a text, in the order of their heads. `do ... while (0)` is none."""
    tokens, found = tokens_of(text), list[SourceLoop]()
    tails = set[int]()
    """The words `while` behind bodies."""
    for number, word in enumerate(tokens.texts):
        if word == "do" and tokens.text(number + 1) == "{":
            tail = tokens.partners[number + 1] + 1
            if not tail or tokens.texts[tail : tail + 2] != ["while", "("]:
                continue
            tails.add(tail)
            if tokens.texts[tail + 2 : tail + 4] in (["0", ")"], ["false", ")"]):
                continue
        elif word not in ("for", "while") or tokens.condition(number) < 0 or number in tails:
            continue
        end = tokens.ends[number]
        if end < 0:
            continue
        if len(found) == MOST_LOOPS:
            return ()
        closed = tokens.partners[number + 1] if word == "for" else -1
        head = text[tokens.end(number + 1) : tokens.starts[closed]] if closed >= 0 else ""
        counted = COUNTED.match(head) if len(head) <= LONGEST_HEAD else None
        places = tokens.line(number), tokens.column(number), tokens.line(end), tokens.starts[number], tokens.end(end)
        found.append(SourceLoop(*places, counted[1] if counted else ""))
    return tuple(found)


def loop_around(text: str, first: int, last: int, inside: SourceLoop | None = None) -> SourceLoop | None:
    """The innermost loop of a text around some lines, and around another loop."""
    around = [loop for loop in loops_in_text(text) if loop.head <= first and last <= loop.last and loop != inside]
    if inside is not None:
        around = [loop for loop in around if (loop.head, loop.column) < (inside.head, inside.column)]
    return max(around, key=lambda loop: (loop.head, loop.column), default=None)
