"""PTO-AS as tokens. Comments and blank lines are collected separately.

One regular expression without backtracking reads the text once, in linear time for any input.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NoReturn

from ptokit.brief import brief, named
from ptokit.text.brackets import PAIRS
from ptokit.text.cursor import BARE_NAME, Cursor, Item
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
    |(?P<bare>{BARE_NAME}+)
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
_SHOWN = {"line": "the end of the line", "end": "the end of the text"}


class Tokens(Cursor):
    """The current token, and the comments before it.

    `kind` is one of bare, value, type, number, attribute, symbol, string, angle, directive, mark, line and end.
    """

    def __init__(self, text: str | bytes, file: str) -> None:
        self.source = Source(plain_text(text, file).replace("\r\n", "\n"), file)
        self._is_new = True
        """Whether the token at hand is the first on its line."""
        self._scan = _TOKEN.finditer(self.source.text)
        self._blank = False
        """Whether a blank line follows the current token."""
        self._before: list[str] = []
        self._remarks: list[str] = []
        super().__init__(self.source.text)

    def advance(self) -> str:
        """Go on to the next token. Lines without one are no tokens. Gives the text of the one that was there."""
        taken, self.behind = self.word, self.end
        line_ended = self._is_new = self.kind in ("", "line")
        if self._blank:
            self._before.append("")
            self._blank = False
        for found in self._scan:
            group = found.lastindex or 0
            kind, word = _KINDS[group], found[group]
            if kind not in _UNSEEN:
                break
            if kind == "line":
                is_blank = word.count("\n") > 1
                if not line_ended:
                    self._blank = is_blank
                    break
                if is_blank:
                    self._before.append("")
            else:
                kept = self._before if line_ended else self._remarks
                kept.append(_MARK.sub("//", word).rstrip())
        else:
            self.kind, self.word, self.start = "end", "", len(self.text)
            self.end = self.start
            return taken
        self.kind, self.word = kind, word
        self.start, self.end = found.span(group)
        if kind == "other":
            self._refuse_character()
        return taken

    def _refuse_character(self) -> NoReturn:
        messages = {'"': "the string has no end", "<": "`<` has no `>` on its line", "!": "expected a type after `!`"}
        whole = _REST.match(self.text, self.start)
        self.fail(messages.get(self.word) or f"cannot read {f'`{named(whole[0])}`' if whole else brief(self.word)}")

    def comments(self) -> tuple[str, ...]:
        """Comments and blank lines before the current token. Each is returned once."""
        taken, self._before = tuple(self._before), []
        return taken

    def remark(self) -> str:
        """The comment at the end of the line that ends here. It is returned once."""
        taken, self._remarks = " ".join(self._remarks), []
        return taken

    def fail(self, message: str, at: int | None = None, hint: str = "", expects: str = "") -> NoReturn:
        error = self.source.error(message, self.source.where(self.start if at is None else at), hint)
        error.expects = expects
        raise error

    def expected(self, what: str, hint: str = "", expects: str = "token") -> NoReturn:
        found = _SHOWN.get(self.kind) or f"`{named(self.word)}`"
        self.fail(f"expected {what}, found {found}", hint=hint, expects=expects)

    def starts_statement(self) -> bool:
        """Whether the text ends, or a line starts that is a statement of its own."""
        return self.kind == "end" or (self._is_new and STATEMENT.match(self.text, self.start) is not None)

    def listed(self, opening: str, item: Callable[[], Item]) -> list[Item]:
        self.expect(opening)
        self.skip_lines()
        close = PAIRS[opening]
        items = self.separated(item, is_closed=True) if self.word != close else []
        if not self.accept(close):
            self.expected(f"`,` or `{close}`")
        return items

    def separated(self, item: Callable[[], Item], *, is_closed: bool = False) -> list[Item]:
        """Things with commas between them, which may span lines; a comma may start a line where a bracket follows."""
        items: list[Item] = []
        while not items or self.accept(","):
            if items:
                self.skip_lines()
            if len(items) >= MAX_ITEMS:
                self.fail(f"more than {MAX_ITEMS} entries in one list")
            items.append(item())
            if is_closed:
                self.skip_lines()
        return items

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
        end = self.text.find("\n", self.start)
        end = end if end >= 0 else len(self.text)
        line = self.text[max(self.text.rfind("\n", 0, end) + 1, end - LONGEST) : end]
        self._scan, self.kind = _TOKEN.finditer(self.text, end), "bad"
        self.advance()
        return _COMMENT.sub("", line).rstrip()[-1:]
