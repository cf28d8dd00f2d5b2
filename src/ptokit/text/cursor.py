"""Text to tokens: one expression, a place in the text, and errors that point at it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from ptokit.finding import near
from ptokit.text.brackets import MARKS, PAIRS
from ptokit.text.errors import Problem, choices
from ptokit.text.limits import most_characters

if TYPE_CHECKING:
    from ptokit.text.mlir.ir import Attributes, MlirAttribute, Type

Item = TypeVar("Item")

BARE_NAME = r"[A-Za-z_][A-Za-z0-9_$.]*"

MAX_WORD = 4096
"""Most characters of a name."""
MAX_DIGITS = 400
"""Most digits of a number."""
MOST_NAMES = 1000
"""Aliases among which a misspelt one is looked for."""

SPACE = r"[ \t\n\r\f\v]*+"
STRING = r'"(?:[^"\\\n\v\f]++|\\(?:["nt\\]|[0-9A-Fa-f]{2}))*+"'
_SUFFIX = r"(?:[0-9]+|[A-Za-z$._-][A-Za-z0-9$._-]*)"
_TOKEN = re.compile(
    rf"{SPACE}(?:(?P<bare>{BARE_NAME})"
    rf"|(?P<value>%{_SUFFIX})"
    r"|(?P<mark>->|::|\.\.\.|\{-#|#-\}|[:,=<>{}()\[\]?*+|-])"
    rf"|(?P<bang>!{_SUFFIX})|(?P<hash>#{_SUFFIX})|(?P<label>\^{_SUFFIX})"
    rf"|(?P<string>{STRING})|(?P<symbol>@(?:{BARE_NAME}|{STRING}))"
    r"|(?P<number>0[xX][0-9A-Fa-f]+|[0-9]+(?:\.[0-9]*(?:[eE][-+]?[0-9]+)?)?)"
    r"|(?P<end>\Z))"
)
_KINDS = ("", *_TOKEN.groupindex)
"""The kinds of tokens by the numbers of their groups: these take half of the time that names do."""
_SPACE = re.compile(SPACE)
_ESCAPE = re.compile(r"\\(?:([0-9A-Fa-f]{2})|(.))")
_ESCAPED = {"n": b"\n", "t": b"\t"}
_LINE_BREAK = re.compile(r"[ \t\r]*\n\s*", re.ASCII)
NUMBER_HINT = "a number is a value of its own: `%c = arith.constant 0 : index`, and then `%c`"


@dataclass(slots=True)
class OperandUse:
    """The name of a value where it is used."""

    name: str
    index: int
    offset: int


class Cursor:
    """A place in a text, and the token that starts there.

    `kind` is one of bare, value, mark, bang, hash, label, string, symbol, number and end; `word` is the token itself.
    """

    type: Callable[[], Type]
    """Takes a type. This and the following are added by `reader.py`: types and attributes parse each other."""
    optional_type: Callable[[], Type | None]
    attribute: Callable[[], MlirAttribute]
    optional_attribute: Callable[[], MlirAttribute | None]
    entry_value: Callable[[str], MlirAttribute]
    """Takes the value of an attribute behind its name."""

    def __init__(self, text: str, arch: str = "") -> None:
        self.text, self.arch = text, arch
        self.aliases: dict[str, Type | MlirAttribute] = {}
        self.types: dict[str, Type] = {}
        """Types by the text that they were read from."""
        self.kind = self.word = ""
        self.start = self.end = self.behind = 0
        """Where the token starts and ends, and where the previous token ended."""
        self.spent, self.most = 0, most_characters(text)
        """How many characters the text has stood for so far, and may stand for."""
        self.places: dict[str, int] = {}
        """Where the names of attributes stand that were read last."""
        self.advance()

    def advance(self) -> str:
        """Go to the next token. Returns the current one."""
        word, self.behind = self.word, self.end
        match = _TOKEN.match(self.text, self.end)
        if match is None:
            self._note_bad()
            return word
        group = match.lastindex or 0
        self.kind = _KINDS[group]
        self.word = token = match[group]
        self.start, self.end = match.span(group)
        if len(token) > MAX_DIGITS and self.kind != "string":
            if self.kind == "number":
                self.fail(f"a number of more than {MAX_DIGITS} digits")
            if len(token) > MAX_WORD:
                self.fail(f"a word of more than {MAX_WORD} characters")
        return word

    def jump(self, offset: int) -> None:
        """Go on elsewhere."""
        self.end = offset
        self.advance()

    def _note_bad(self) -> None:
        """A character that starts no token is one of kind `bad`. Whoever needs another one refuses it."""
        at = _SPACE.match(self.text, self.end).end()  # type: ignore[union-attr]
        self.kind, self.word, self.start, self.end = "bad", self.text[at], at, at + 1

    def _bad(self) -> str:
        if self.word == '"':
            return "the string does not end on its line"
        sign = f"`{self.word}`" if self.word.isprintable() else f"{self.word!a}"
        return f"unexpected character {sign}"

    def alias(self, name: str, at: int) -> Any:
        """What an alias stands for, behind its name; None if the name is that of a dialect."""
        if self.word == "<" and self.start == self.behind:
            return None
        if (found := self.aliases.get(name)) is not None:
            self.spend(len(found.text))
            return found
        if "." not in name:
            close = near(name, islice(self.aliases, MOST_NAMES))
            self.fail(f"undefined symbol alias id `{name}`", at, f"did you mean `{close}`?" if close else "")
        return None

    def spend(self, characters: int) -> None:
        """Count characters that the text stands for."""
        self.spent += characters
        if self.spent > self.most:
            self.fail(f"types, attributes and results of more than {self.most} characters, with aliases written out")

    # --- Errors ----------------------------------------------------------------------------------------------

    def fail(self, message: str, at: int | None = None, hint: str = "", expects: str = "") -> NoReturn:
        """Refuse the text."""
        if self.kind == "bad" and (at is None or at in (self.start, self.behind)):
            message, at, hint, expects = self._bad(), self.start, hint_at(self.text, self.start), ""
        raise Problem(message, self.start if at is None else at, hint, expects)

    def expected(self, what: str, hint: str = "", expects: str = "token") -> NoReturn:
        """Refuse the text because something is missing: here, or at the end of the last line that says something."""
        self.fail(f"expected {what}", self.behind if self.is_on_new_line() else self.start, hint, expects)

    def is_on_new_line(self) -> bool:
        """Whether the token is on another line than the previous token, or the text ends."""
        return self.kind == "end" or self.text.find("\n", self.behind, self.start) >= 0

    def fail_word(self, what: str, word: str, known: Sequence[str], at: int, close: str = "") -> NoReturn:
        """Refuse a word that is none of those that may stand here."""
        close = close or near(word, known)
        self.fail(f"{what}, expected one of: {choices(word, known)}", at, f"did you mean `{close}`?" if close else "")

    # --- Tokens ----------------------------------------------------------------------------------------------

    def accept(self, word: str) -> bool:
        """Take a mark or a keyword, if it is there."""
        if self.word != word:
            return False
        self.advance()
        return True

    def expect(self, word: str, tail: str = "", expects: str = "form") -> None:
        """Take a mark or a keyword."""
        if self.word != word:
            self.expected(f"`{word}`{tail}", expects="token" if word == "=" else expects)
        self.advance()

    def listed(self, opening: str, item: Callable[[], Item]) -> list[Item]:
        """Things between brackets, with commas between them."""
        self.expect(opening)
        items = self.separated(item) if self.word != PAIRS[opening] else []
        self.expect(PAIRS[opening])
        return items

    def separated(self, item: Callable[[], Item]) -> list[Item]:
        """Things with commas between them."""
        items = [item()]
        while self.accept(","):
            items.append(item())
        return items

    def name(self, what: str = "a word") -> str:
        """Take a bare word."""
        if self.kind != "bare":
            self.expected(what)
        return self.advance()

    def optional_word(self) -> str | None:
        """Take a bare word or a string, if there is one."""
        if self.kind == "bare":
            return self.advance()
        return self.string() if self.kind == "string" else None

    def one_of(self, what: str, known: Sequence[str], others: dict[str, str] | None = None) -> str:
        """Take one of some words, bare or quoted. `others` are words of other languages for them."""
        at, is_missing = self.start, self.is_on_new_line()
        word = None if is_missing else self.optional_word()
        if word is None:
            self.expected(f"{what}, one of: {choices('', known)}")
        if word not in known:
            close = (others or {}).get(word.lower(), "")
            self.fail_word(f"unknown {what} `{word}`", word, known, at, close if close in known else "")
        return word

    def string(self) -> str:
        """Take a string: what it says."""
        if self.kind != "string":
            self.expected("a string")
        return unescaped(self.advance())

    def symbol(self) -> str:
        """Take a symbol: its name."""
        if self.kind != "symbol":
            self.expected("a name, as in `@name`")
        word = self.advance()[1:]
        return unescaped(word) if word.startswith('"') else word

    def integer(self, negative: bool = False) -> int:
        """Take a whole number."""
        sign = -1 if negative and self.accept("-") else 1
        if self.kind != "number" or "." in self.word:
            self.expected("a number")
        word = self.advance()
        return sign * (int(word, 16) if word[:2] in ("0x", "0X") else int(word))

    def operand(self, what: str = "an operand, as in `%x`") -> OperandUse:
        """Take the name of a value."""
        if self.kind != "value":
            self.expected(what, NUMBER_HINT if self.kind == "number" else "", "form")
        at, name = self.start, self.advance()[1:]
        index = 0
        if self.word[:1] == "#" and self.word[1:].isdigit() and self.start == self.behind:
            index = int(self.advance()[1:])
        return OperandUse(name, index, at)

    def body(self) -> str:
        """Take what stands between `<` and its `>`, in one line. Nobody knows its parts."""
        opened: list[str] = []
        for match in MARKS.finditer(self.text, self.start):
            mark = match[0]
            if mark in PAIRS:
                opened.append(mark)
            elif mark in PAIRS.values():
                if not opened or PAIRS[opened.pop()] != mark:
                    self.fail(f"`{mark}` closes another bracket than the last that was opened", match.start())
                if not opened:
                    text = self.text[self.start + 1 : match.start()]
                    self.jump(match.end())
                    return _LINE_BREAK.sub(" ", text)
        self.fail("`<` is not closed: expected `>`")

    def dictionary(self) -> Attributes:
        """Take `{name = value, ...}`, if it is there. Where the names stand is noted."""
        if self.word != "{":
            return {}
        found: Attributes = {}
        self.listed("{", lambda: self._entry(found))
        return found

    def _entry(self, found: Attributes) -> None:
        at, name = self.start, self.optional_word()
        if name is None:
            self.expected("the name of an attribute")
        if name in found:
            self.fail(f"`{name}` is given twice", at)
        self.places[name] = at
        found[name] = self.entry_value(name)


HINTS = {
    "--": "comments start with `//`", "/*": "comments start with `//`", "#": "comments start with `//`",
    ";": "an op ends with its line, without `;`", "}": "is there a `}` too many, or a bracket open before it?",
}  # fmt: skip
"""What to do about a text that starts so where it went wrong."""


def hint_at(text: str, at: int) -> str:
    """What to do about a text that went wrong at an offset."""
    return next((hint for start, hint in HINTS.items() if text.startswith(start, at)), "")


def unescaped(quoted: str) -> str:
    """What a string says."""
    if "\\" not in quoted:
        return quoted[1:-1]
    pieces: list[bytes] = []
    done = 1
    for match in _ESCAPE.finditer(quoted):
        pieces.append(quoted[done : match.start()].encode("utf-8", "surrogatepass"))
        pieces.append(bytes.fromhex(match[1]) if match[1] else _ESCAPED.get(match[2], match[2].encode()))
        done = match.end()
    pieces.append(quoted[done:-1].encode("utf-8", "surrogatepass"))
    return b"".join(pieces).decode("utf-8", "surrogateescape")


_UNPRINTABLE = re.compile(r'["\\\x00-\x1f\x7f-\x9f\u2028\u2029\udc80-\udcff]')
_WRITTEN = {"\n": "\\n", "\t": "\\t", "\\": "\\\\"}
_BARE = re.compile(BARE_NAME)


def escaped(text: str) -> str:
    """A string as a person would write it: only what must be is escaped."""
    return f'"{_UNPRINTABLE.sub(_escape, text)}"'


def _escape(match: re.Match[str]) -> str:
    raw = match[0].encode("utf-8", "surrogateescape")
    return _WRITTEN.get(match[0]) or "".join(f"\\{byte:02X}" for byte in raw)


def bare_or_quoted(name: str) -> str:
    """A name, in quotes where it is not a bare word."""
    return name if _BARE.fullmatch(name) else escaped(name)


def braced(attributes: Attributes) -> str:
    """`{name = value, ...}`."""
    return f"{{{', '.join(entry_text(name, value.text) for name, value in attributes.items())}}}"


def entry_text(name: str, value: str) -> str:
    """`name = value`, or the name alone."""
    return bare_or_quoted(name) if value == "unit" else f"{bare_or_quoted(name)} = {value}"
