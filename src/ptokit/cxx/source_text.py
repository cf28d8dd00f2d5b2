"""C++ text without comments and strings, and the brackets of such a text."""

from __future__ import annotations

import re
from functools import lru_cache

HIDDEN = re.compile(
    r"//(?:\\\r?\n|[^\n])*|/\*.*?(?:\*/|\Z)"
    r"|\b(?:u8|[uUL])?R\"(?P<mark>[^()\\\s\"]{0,16})\(.*?(?:\)(?P=mark)\"|\Z)"  # raw strings
    r"|\"(?:\\.|[^\"\\\n])*+\"?"  # what is not closed ends with its line: no part is searched twice
    r"|(?:\bu8|(?<![\da-fA-F]))'(?:\\.|[^'\\\n])*+'?",  # a digit before it: 1'000
    re.DOTALL,
)
PAIRS = {"(": ")", "{": "}"}
BRACKETS = {opened: re.compile(rf"[{re.escape(opened + closed)}]") for opened, closed in PAIRS.items()}


@lru_cache(maxsize=64)
def masked(text: str) -> str:
    """The text with spaces for comments, strings and characters; every other character keeps its place."""
    return HIDDEN.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


def closing(text: str, at: int) -> int:
    """Where the bracket at an offset is closed; -1 if it is not."""
    return _closed(text, text[at]).get(at, -1)


@lru_cache(maxsize=64)
def _closed(text: str, bracket: str) -> dict[int, int]:
    """Where each bracket of a kind is closed."""
    found, opened = dict[int, int](), list[int]()
    for match in BRACKETS[bracket].finditer(text):
        if match[0] == bracket:
            opened.append(match.start())
        elif opened:
            found[opened.pop()] = match.start()
    return found
