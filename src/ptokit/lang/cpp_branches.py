"""Flags in branches of a C++ source that a launch did not take."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache

from ptokit.cxx.source_text import SourceTokens, tokens_of

MOST_FLAGS = 50
"""Equal statements before an offset that are looked at, the last ones."""


@dataclass(frozen=True)
class UntakenBranch:
    """A flag that a text has in a branch before some place, and that was not executed."""

    line: int
    """The line of the flag."""
    start: int
    """Where the condition begins, and where its body ends."""
    end: int
    has_else: bool


def untaken(text: str, flag: str, executed: Collection[int], at: int) -> UntakenBranch | None:
    """The branch with a statement `flag` that ends before an offset and was not taken. `executed` are the lines of
    statements that were."""
    tokens, words = tokens_of(text), tokens_of(flag.rstrip(";")).texts
    behind, size = tokens.from_offset(at), len(words)
    starts = (k for k, text in enumerate(tokens.texts[: max(0, behind - size + 1)]) if text == words[0])
    for number in deque((k for k in starts if tokens.texts[k : k + size] == words), MOST_FLAGS):
        line = tokens.line(number)
        branch = _branch(tokens, number) if line not in executed else None
        if branch is None:
            continue
        start, last = branch
        if all(tokens.partners[k] > last for k in range(last + 1, behind) if tokens.texts[k] == "}"):
            has_else = tokens.text(last + 1) == "else"
            return UntakenBranch(line, tokens.starts[start], tokens.end(last), has_else=has_else)
    return None


def _branch(tokens: SourceTokens, number: int) -> tuple[int, int] | None:
    """The innermost `if (...) { ... }` around a token: its first and its last one."""
    return max(((start, last) for start, body, last in _branches(tokens) if body < number < last), default=None)


@lru_cache(maxsize=64)
def _branches(tokens: SourceTokens) -> list[tuple[int, int, int]]:
    """Where each `if (...) { ... }` begins, and its block begins and ends."""
    heads = (number for number, text in enumerate(tokens.texts) if text == "if" and tokens.condition(number) >= 0)
    bodies = ((start, tokens.partners[tokens.condition(start)] + 1) for start in heads)
    return [(start, body, tokens.partners[body]) for start, body in bodies if body and tokens.text(body) == "{"]
