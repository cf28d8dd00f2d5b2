"""C++ text as tokens, without comments and strings: pairs of brackets, the ends of statements, loops."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import islice

HIDDEN = re.compile(
    r"//(?:\\\r?\n|[^\n])*|/\*.*?(?:\*/|\Z)"
    r"|\b(?:u8|[uUL])?R\"(?P<mark>[^()\\\s\"]{0,16})\(.*?(?:\)(?P=mark)\"|\Z)"  # raw strings
    r"|\"(?:\\.|[^\"\\\n])*+\"?"  # what is not closed ends with its line: no part is searched twice
    r"|(?:\bu8|(?<![\da-fA-F]))'(?:\\.|[^'\\\n])*+'?",  # a digit before it: 1'000
    re.DOTALL,
)
TOKEN = re.compile(r"\w+|::|->|##|\.\.\.|(?<!<)<<<(?!<)|[^\s\\]")
CLOSED_BY = {"(": ")", "[": "]", "{": "}"}
OPENED_BY = {closed: opened for opened, closed in CLOSED_BY.items()}
CONDITIONED = ("if", "for", "while", "switch")
"""Words that a condition in brackets follows, and a statement."""


@lru_cache(maxsize=64)
def masked(text: str) -> str:
    """The text with spaces for comments, strings and characters; every other character keeps its place."""
    return HIDDEN.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


class SourceTokens:
    """The tokens of a text, or the first of them. What is not there has the number -1."""

    def __init__(self, text: str, most: int | None = None) -> None:
        self.texts: list[str] = []
        self.starts = array("q")
        """The offset of each in the text."""
        self.partners = array("q")
        """For each bracket, its partner."""
        self._lines = array("q", [match.end() for match in re.finditer(r"^", text, re.MULTILINE)])
        opened: dict[str, list[int]] = {bracket: [] for bracket in CLOSED_BY}
        for number, match in enumerate(islice(TOKEN.finditer(masked(text)), most)):
            word = match[0]
            self.texts.append(word)
            self.starts.append(match.start())
            self.partners.append(-1)
            if word in opened:
                opened[word].append(number)
            elif word in OPENED_BY and (stack := opened[OPENED_BY[word]]):
                self.partners[number] = stack.pop()
                self.partners[self.partners[number]] = number

    def text(self, number: int) -> str:
        """A token; empty if there is none."""
        return self.texts[number] if 0 <= number < len(self.texts) else ""

    def end(self, number: int) -> int:
        """The offset behind a token."""
        return self.starts[number] + len(self.texts[number])

    def from_offset(self, offset: int) -> int:
        """The first token that begins at an offset or behind it."""
        return bisect_left(self.starts, offset)

    def at(self, offset: int) -> int:
        """The token at an offset, or the token before it."""
        return bisect_right(self.starts, offset) - 1

    def line(self, number: int) -> int:
        """The line of a token, counted from 1."""
        return bisect_right(self._lines, self.starts[number])

    def column(self, number: int) -> int:
        """Its column, counted from 1."""
        return self.starts[number] - self._lines[self.line(number) - 1] + 1

    def condition(self, number: int) -> int:
        """The bracket that opens the condition of `if (`, `if constexpr (`, `for (`, `while (` or `switch (`."""
        if self.texts[number] not in CONDITIONED:
            return -1
        opened = number + 1 + (self.text(number + 1) == "constexpr")
        return opened if self.text(opened) == "(" else -1

    @cached_property
    def simple_ends(self) -> array[int]:
        """For each token the first semicolon from there on outside further brackets, if the bracket around both is not
        closed before."""
        ends = array("q", [-1]) * (len(self.texts) + 1)
        for number in range(len(self.texts) - 1, -1, -1):
            word, partner = self.texts[number], self.partners[number]
            if word == ";":
                ends[number] = number
            elif word in ("(", "{"):
                ends[number] = ends[partner + 1] if partner >= 0 else -1
            elif word not in (")", "}"):
                ends[number] = ends[number + 1]
        return ends

    @cached_property
    def ends(self) -> array[int]:
        """For each token the last one of a statement that begins there. Each step is made once."""
        ends = array("q", self.simple_ends)
        for number in range(len(self.texts) - 1, -1, -1):
            word = self.texts[number]
            if word == "{":
                ends[number] = self.partners[number]
            elif word == "do" and (body := ends[number + 1]) >= 0:
                ends[number] = self.simple_ends[body + 1]
            elif (opened := self.condition(number)) >= 0:
                closed = self.partners[opened]
                end = ends[closed + 1] if closed >= 0 else -1
                is_followed = word == "if" and end >= 0 and self.text(end + 1) == "else"
                ends[number] = ends[end + 2] if is_followed else end
        return ends


@lru_cache(maxsize=64)
def tokens_of(text: str) -> SourceTokens:
    """The tokens of a text."""
    return SourceTokens(text)


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
    """The offsets of its first character and of the character after its last."""
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
