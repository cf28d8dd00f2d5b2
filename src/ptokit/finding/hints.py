"""Words of messages: numbers of things, and names that a misspelt word is close to."""

from __future__ import annotations

from collections.abc import Iterable

NAME = 40
"""Characters of a name in a short line."""
CLOSE = 0.6
"""How similar a misspelt word must be to a name, from 0 to 1."""
LONGEST_WORD = 160
"""Characters of a word that may be a misspelt name."""
MOST_NAMES = 500
"""Names that a misspelt word is compared to: those of about its length."""


def near(word: str, names: Iterable[str]) -> str:
    """The name that a misspelt word is closest to; empty if none is close."""
    best = nearest(word, names, 1, CLOSE)
    return best[0] if best else ""


def suggestion(word: object, names: Iterable[str]) -> str:
    """The end of a message about an unknown word: `; did you mean X?`, or nothing if no name is close."""
    close = near(word, names) if isinstance(word, str) else ""
    return f"; did you mean {close}?" if close else ""


def nearest(word: str, names: Iterable[str], count: int, least: float = -1.0) -> list[str]:
    """The names that a word is most like, the closest first; only those that are more like it than `least`."""
    from difflib import SequenceMatcher

    if len(word) > LONGEST_WORD:
        return []
    alike, exactly = SequenceMatcher(None, autojunk=False), SequenceMatcher(None, b=word, autojunk=False)
    alike.set_seq2(word.lower())
    found: list[tuple[float, float, str]] = []
    for name in sorted(sorted(names, key=lambda name: abs(len(name) - len(word)))[:MOST_NAMES]):
        alike.set_seq1(name.lower())
        if alike.real_quick_ratio() > least and alike.quick_ratio() > least and alike.ratio() > least:
            exactly.set_seq1(name)  # among equals, the one in the same case
            found.append((alike.ratio(), exactly.ratio(), name))
    return [name for *_, name in sorted(found, key=lambda each: each[:2], reverse=True)[:count]]


def counted(number: int, what: str) -> str:
    """`1 block`, `2 blocks`."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"
