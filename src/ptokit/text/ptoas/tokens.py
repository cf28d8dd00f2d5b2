"""PTO-AS as tokens. Comments and blank lines are collected separately.

One regular expression without backtracking reads the text once, in linear time for any input.
"""

from __future__ import annotations

import re
from typing import NoReturn

from ptokit.brief import brief, named
from ptokit.text.limits import plain_text
from ptokit.text.tree import Source

MAX_STATEMENTS = 150_000
MAX_ITEMS = 1_000
"""Operands of one statement, entries of one list."""
LONGEST = 600
"""Characters at the end of a line that are looked at."""

_PLAIN = r"[^<>\n-]++|->|-"
_ANGLES = rf"<(?:{_PLAIN}|<(?:{_PLAIN}|<(?:{_PLAIN})*+>)*+>)*+>"
_TOKEN = re.compile(
    rf"""
    (?P<comment>^[ \t]*+\#[^\n]*+)
    |[ \t\r\f\v]*+(?:
    (?P<remark>//[^\n]*+|--[^\n]*+)
    |(?P<line>\n(?:[ \t\r\f\v]*+\n)*+)
    |(?P<value>%[\w$.]++(?:-[\w$.]++)*+)
    |(?P<type>!?[A-Za-z_][\w.]*+{_ANGLES}|![A-Za-z_][\w.]*+)
    |(?P<word>[A-Za-z_][\w.$]*+)
    |(?P<number>[-+]?(?:0[xX][0-9A-Fa-f]++|\d++(?:\.\d*+)?+(?:[eE][-+]?\d++)?+)(?![\w.]))
    |(?P<attribute>\#[A-Za-z_][\w.]*+(?:{_ANGLES})?+)
    |(?P<symbol>@[A-Za-z_][\w.$]*+)
    |(?P<string>"(?:[^"\\\n]|\\[^\n])*+")
    |(?P<angle><[ \t]*+\w++[ \t]*+>)
    |(?P<directive>\.[A-Za-z_]\w*+)
    |(?P<mark>->|[(){{}}\[\],:;=])
    |(?P<end>\Z)
    |(?P<other>.))
    """,
    re.VERBOSE | re.MULTILINE | re.ASCII,
)
_KINDS = ("", *_TOKEN.groupindex)
"""The kinds of tokens by the numbers of their groups."""
_UNSEEN = frozenset(("comment", "remark", "line"))
"""The kinds of which not every one is a token."""
STATEMENT = re.compile(
    r"\.[a-z]|\}|%[\w$.-]+(?:[ \t]*,[ \t]*%[\w$.-]+)*[ \t]*=[^=]|[A-Za-z_][\w.$]*[ \t]+[%@!]", re.ASCII
)
_COMMENT = re.compile(r"(?://|--).*")
_REST = re.compile(r"[\w.+-]{2,40}", re.ASCII)
_MARK = re.compile(r"^[ \t]*+(?://|--|#)")
END = "end"
"""The kind of the token at the end of the text."""

_SHOWN = {"line": "the end of the line", END: "the end of the text"}


def checked(text: str | bytes, file: str) -> str:
    """The text, if it is UTF-8 and not too long; with `\\n` as line end."""
    return plain_text(text, file).replace("\r\n", "\n")


class Tokens:
    """The current token: its kind, text and place; and the comments before it."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.kind, self.text, self.start, self.end = "line", "", 0, 0
        self.behind = 0
        """Where the token before the current one ends."""
        self.opening = 0
        """Where the mark or word stands that was taken last."""
        self._is_new = True
        """Whether the token at hand is the first on its line."""
        self._scan = _TOKEN.finditer(source.text)
        self._blank = False
        """Whether a blank line follows the current token."""
        self._before: list[str] = []
        self._remarks: list[str] = []
        self.advance()

    def advance(self) -> str:
        """Go on to the next token. Lines without one are no tokens. Gives the text of the one that was there."""
        taken, self.behind = self.text, self.end
        line_ended = self._is_new = self.kind == "line"
        if self._blank:
            self._before.append("")
            self._blank = False
        for found in self._scan:
            group = found.lastindex or 0
            kind, text = _KINDS[group], found[group]
            if kind not in _UNSEEN:
                break
            if kind == "line":
                is_blank = text.count("\n") > 1
                if not line_ended:
                    self._blank = is_blank
                    break
                if is_blank:
                    self._before.append("")
            else:
                kept = self._before if line_ended else self._remarks
                kept.append(_MARK.sub("//", text).rstrip())
        else:
            self.kind, self.text, self.start = END, "", len(self.source.text)
            self.end = self.start
            return taken
        self.kind, self.text = kind, text
        self.start, self.end = found.span(group)
        if kind == "other":
            self._refuse_character()
        return taken

    def _refuse_character(self) -> NoReturn:
        messages = {'"': "the string has no end", "<": "`<` has no `>` on its line", "!": "expected a type after `!`"}
        whole = _REST.match(self.source.text, self.start)
        self.fail(messages.get(self.text) or f"cannot read {f'`{named(whole[0])}`' if whole else brief(self.text)}")

    def comments(self) -> tuple[str, ...]:
        """Comments and blank lines before the current token. Each is returned once."""
        taken, self._before = tuple(self._before), []
        return taken

    def remark(self) -> str:
        """The comment at the end of the line that ends here. It is returned once."""
        taken, self._remarks = " ".join(self._remarks), []
        return taken

    def fail(self, message: str, start: int | None = None, expects: str = "") -> NoReturn:
        """Refuse the text, at the current token or elsewhere."""
        error = self.source.error(message, self.source.where(self.start if start is None else start))
        error.expects = expects
        raise error

    def expected(self, what: str) -> NoReturn:
        """Refuse the current token."""
        self.fail(f"expected {what}, found {_SHOWN.get(self.kind) or f'`{named(self.text)}`'}", expects="token")

    def at(self, text: str) -> bool:
        """Whether the current token is a mark or a word with this text."""
        return self.text == text and self.kind in ("mark", "word")

    def accept(self, text: str) -> bool:
        """Consume a mark or a word, if it is the current token."""
        if self.text == text and self.kind in ("mark", "word"):
            self.opening = self.start
            self.advance()
            return True
        return False

    def starts_statement(self) -> bool:
        """Whether the text ends, or a line starts that is a statement of its own."""
        return self.kind == END or (self._is_new and STATEMENT.match(self.source.text, self.start) is not None)

    def expect(self, text: str, context: str = "") -> None:
        """Consume a mark or a word, which must be the current token."""
        if not self.accept(text):
            self.expected(f"`{text}`{context}")

    def take(self, kind: str, what: str) -> str:
        """Consume a token of a kind, which must be the current one."""
        if self.kind != kind:
            self.expected(what)
        return self.advance()

    def skip_lines(self) -> None:
        """Go on to the next line that is not empty."""
        if self.kind == "line":
            self.advance()

    def skip_statement(self) -> str:
        """Go on to the end of the line, whatever it says. Gives the last character on it."""
        text = self.source.text
        end = text.find("\n", self.start)
        end = end if end >= 0 else len(text)
        line = text[max(text.rfind("\n", 0, end) + 1, end - LONGEST) : end]
        self._scan, self.kind = _TOKEN.finditer(text, end), ""
        self.advance()
        return _COMMENT.sub("", line).rstrip()[-1:]
