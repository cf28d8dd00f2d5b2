"""Flags in branches of a C++ source that a launch did not take."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache

from ptokit.cxx.source_loops import ELSE
from ptokit.cxx.source_text import closing

MOST_FLAGS = 50
"""Equal statements before an offset that are looked at, the last ones."""
THEN = re.compile(r"\s*\{")
IF = re.compile(r"\bif\s*(?:constexpr\s*)?\(")


@dataclass(frozen=True)
class UntakenBranch:
    """A flag that a text has in a branch before some place, and that was not executed."""

    line: int
    """The line of the flag."""
    start: int
    """Where the condition begins, and where its body ends."""
    end: int
    has_else: bool


def untaken(plain: str, flag: str, executed: Collection[int], at: int) -> UntakenBranch | None:
    """The branch with a statement `flag` that ends before an offset and was not taken. `executed` are the lines of
    statements that were; `plain` is a text without comments."""
    pattern = re.compile(r"\b" + r"\s*".join(map(re.escape, re.findall(r"\w+|\S", flag.rstrip(";")))))
    for match in deque(pattern.finditer(plain, 0, at), MOST_FLAGS):
        line = 1 + plain.count("\n", 0, match.start())
        branch = _branch(plain, match.start()) if line not in executed else None
        if branch is not None and _is_beside(plain[branch[1] : at]):
            return UntakenBranch(line, *branch, has_else=ELSE.match(plain, branch[1]) is not None)
    return None


def _branch(plain: str, at: int) -> tuple[int, int] | None:
    """The innermost `if (...) { ... }` around an offset."""
    around = [(start, end + 1) for start, body, end in _branches(plain) if body < at < end]
    return max(around, default=None)


@lru_cache(maxsize=64)
def _branches(plain: str) -> list[tuple[int, int, int]]:
    """Where each `if (...) { ... }` begins, and its block begins and ends."""
    heads = ((head.start(), closing(plain, head.end() - 1)) for head in IF.finditer(plain))
    bodies = ((start, THEN.match(plain, close + 1)) for start, close in heads if close >= 0)
    return [(start, body.end() - 1, closing(plain, body.end() - 1)) for start, body in bodies if body]


def _is_beside(between: str) -> bool:
    """Whether no block ends in a text that did not begin there."""
    depth = 0
    for letter in re.findall(r"[{}]", between):
        depth += 1 if letter == "{" else -1
        if depth < 0:
            return False
    return True
