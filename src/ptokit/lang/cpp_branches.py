"""Flags in branches of a C++ source that a launch did not take."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from ptokit.cxx.source_text import closing

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
    for match in pattern.finditer(plain, 0, at):
        line = 1 + plain.count("\n", 0, match.start())
        branch = _branch(plain, match.start()) if line not in executed else None
        if branch is not None and _is_beside(plain[branch[1] : at]):
            follows = plain[branch[1] :].lstrip()
            return UntakenBranch(line, *branch, has_else=follows.startswith("else"))
    return None


def _branch(plain: str, at: int) -> tuple[int, int] | None:
    """The innermost `if (...) { ... }` around an offset."""
    found = None
    for head in IF.finditer(plain, 0, at):
        close = closing(plain, head.end() - 1)
        body = close + 1 + len(plain[close + 1 :]) - len(plain[close + 1 :].lstrip())
        end = closing(plain, body) if close >= 0 and plain[body : body + 1] == "{" else -1
        if body < at < end:
            found = head.start(), end + 1
    return found


def _is_beside(between: str) -> bool:
    """Whether no block ends in a text that did not begin there."""
    depth = 0
    for letter in re.findall(r"[{}]", between):
        depth += 1 if letter == "{" else -1
        if depth < 0:
            return False
    return True
