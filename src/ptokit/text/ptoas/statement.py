"""The grammar of PTO-AS: a text as tokens, and one statement as it is written, before names are resolved.

One regular expression without backtracking reads the text once, in linear time for any input. Comments and blank lines
are collected separately.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeVar

from ptokit.brief import brief, named
from ptokit.text.brackets import PAIRS
from ptokit.text.cursor import BARE_NAME, Cursor, Item, unescaped
from ptokit.text.errors import Problem
from ptokit.text.limits import plain_text
from ptokit.text.ptoas.shapes import BLOCKS
from ptokit.text.ptoas.types import Placeholder, constant, keyword, plain_number, read_type
from ptokit.text.tree import Source, Type

MAX_STATEMENTS = 150_000
MAX_ITEMS = 1_000
"""Operands of one statement, entries of one list."""
LONGEST_TAIL = 600
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
"""The kinds of matches that are not always tokens."""
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
        """Go to the next token, past empty lines. Returns the text of the current one."""
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
        line = self.text[max(self.text.rfind("\n", 0, end) + 1, end - LONGEST_TAIL) : end]
        self._scan, self.kind = _TOKEN.finditer(self.text, end), "bad"
        self.advance()
        return _COMMENT.sub("", line).rstrip()[-1:]


Found = TypeVar("Found")
LONGEST = 10_000
"""The longest string."""
_GOES_ON = re.compile(r"\s*+(?:->|:)")


WORDLIKE = ("bare", "string")
"""Kinds of operands that are not values."""


@dataclass(slots=True)
class RawItem:
    """An operand as written."""

    kind: str
    """`value`, `number`, `address` (of `@tile(...)`), `bare`, `symbol` or `string`."""
    text: str
    start: int
    indices: tuple[RawItem, ...] | None = None
    """The operands in brackets behind it."""
    key: str = ""
    """The name of a keyword attribute."""
    loc: str = ""
    """The location of a tile from `!loc=`."""

    @property
    def name(self) -> str:
        return self.text[1:]

    @property
    def is_number(self) -> bool:
        return self.kind in ("number", "address")


@dataclass(slots=True)
class TypeAt:
    """A type at a place."""

    type: Type | Placeholder
    start: int


@dataclass
class Draft:
    """A statement as written."""

    opcode: str = ""
    start: int = 0
    results: list[RawItem] = field(default_factory=list)
    operands: list[RawItem] = field(default_factory=list)
    outs: list[RawItem] | None = None
    """The operands of `outs(...)`; those of `ins(...)` are the operands."""
    keyed: dict[str, list[RawItem]] = field(default_factory=dict)
    attributes: dict[str, Any] = field(default_factory=dict)
    places: dict[str, int] = field(default_factory=dict)
    """Where the keys of attributes stand."""
    types: list[TypeAt] = field(default_factory=list)
    out_types: list[TypeAt] = field(default_factory=list)
    result_types: list[TypeAt] | None = None
    """The types behind the arrow."""
    arguments: list[RawItem] = field(default_factory=list)
    """The arguments of a loop's body."""
    groups: list[str] = field(default_factory=list)
    """Which of `ins(...)` and `outs(...)` are written."""


class Grammar(Tokens):
    """Reads statements."""

    def statement(self) -> Draft:
        """`[%r, %s =] opcode operands {attributes} : types`, to its end or to the brace of its body."""
        draft = Draft()
        if self.kind == "value":
            draft.results = self.separated(self.plain_value)
            self.expect("=", " behind the results")
        draft.start = self.start
        draft.opcode = self.take("bare", "an opcode")
        short = draft.opcode.removeprefix("pto.").removeprefix("scf.")
        if short in ("for", "if"):
            self._head(draft, short)
        elif short not in BLOCKS:
            self._operands(draft)
            self._tail(draft)
        return draft

    # --- Operands --------------------------------------------------------------------------------------------

    def plain_value(self) -> RawItem:
        start = self.start
        return RawItem("value", self.take("value", "a value, such as `%x`"), start)

    def item(self) -> RawItem:
        """An operand."""
        start, kind = self.start, self.kind
        if kind == "value":
            return self._value()
        if kind == "symbol":
            return self._symbol()
        if kind in ("attribute", "angle"):
            return self._keyword(self.advance(), start)
        if kind == "string":
            return RawItem(kind, self.string(), start)
        if kind in ("bare", "number"):
            return RawItem(kind, self.advance(), start)
        self.expected("an operand: a value such as `%x`, or a number")

    def _keyword(self, text: str, start: int) -> RawItem:
        key, word = self.read(keyword, text, start=start)
        return RawItem("bare", word, start, key=key)

    def read(self, read: Callable[..., Found], *arguments: object, start: int) -> Found:
        """What a text says, or an error at its start."""
        try:
            return read(*arguments)
        except (ValueError, TypeError) as problem:
            self.fail(str(problem), start)

    def string(self) -> str:
        start, text = self.start, self.advance()
        if len(text) > LONGEST:
            self.fail(f"a string of {len(text)} characters", start)
        return unescaped(text).encode("utf-8", "surrogateescape").decode("utf-8", "replace")

    def name(self, what: str = "a word") -> str:
        """A word, or the content of a string."""
        word = self.optional_word()
        if word is None:
            self.expected(what)
        return word

    def _value(self) -> RawItem:
        found = self.plain_value()
        end = self.behind
        while self.kind == "type" and self.start == end and "<" not in self.word:
            if self.word != "!loc":
                self.fail(f"a tile has no modifier `{self.word}`, expected `!loc=...`")
            self.advance()
            self.expect("=")
            end, found.loc = self.end, self.take("bare", "the place of the tile")
        if self.word == "[":
            found.indices = tuple(self.listed("[", self.item))
        return found

    def _symbol(self) -> RawItem:
        """`@tile(0x1000)`, or the name of a function."""
        start, text = self.start, self.advance()
        if text != "@tile":
            return RawItem("symbol", text, start)
        self.expect("(", " behind @tile")
        address = self.take("number", "an address, such as `@tile(0x1000)`")
        self.expect(")", " behind the address")
        return RawItem("address", address, start)

    def _operands(self, draft: Draft) -> None:
        if self.word == "[":
            draft.operands = self.listed("[", self.item)
            return
        while self.kind not in ("line", "end", "mark"):
            if self.kind == "attribute":
                self._attribute(draft)
            else:
                self._operand(draft)
            if self.accept(","):
                self.skip_lines()
                if self.kind in ("end", "mark", "line"):
                    self.expected("an operand after `,`")
            elif self.kind not in ("bare", "attribute"):
                return

    def _operand(self, draft: Draft) -> None:
        """An operand, `key = operand`, `key = [operands]`, `ins(...)`, `outs(...)` or `@f(operands)`."""
        item = self.item()
        if len(draft.operands) >= MAX_ITEMS or len(draft.keyed) >= MAX_ITEMS:
            self.fail(f"more than {MAX_ITEMS} operands")
        if item.kind == "bare" and item.text in ("ins", "outs") and self.accept("("):
            self._group(draft, item.text)
        elif item.kind == "bare" and self.accept("="):
            entries = self.listed("[", self.item) if self.word == "[" else [self.item()]
            if item.text in draft.keyed:
                self.fail(f"`{item.text}` is given twice", item.start)
            draft.keyed[item.text], draft.places[item.text] = entries, item.start
        elif item.kind == "symbol" and self.word == "(":
            draft.operands += [item, *self.listed("(", self.item)]
        else:
            draft.operands.append(item)

    def _group(self, draft: Draft, name: str) -> None:
        """`%a, %b {...} : T, T)`, or a type behind each operand."""
        if name in draft.groups:
            self.fail(f"`{name}(...)` is given twice")
        draft.groups.append(name)
        items: list[RawItem] = []
        types: list[TypeAt] = []
        self.skip_lines()
        while not self.accept(")"):
            if len(items) + len(types) > MAX_ITEMS:
                self.fail(f"more than {MAX_ITEMS} operands")
            if self.word == "{":
                self.attributes(draft)
            elif self.accept(":"):
                types.append(self._type())
                while self.accept(",") and self.kind not in ("value", "number"):
                    self.skip_lines()
                    types.append(self._type())
            else:
                items.append(self.item())
                self.accept(",")
            self.skip_lines()
            if self.starts_statement():
                self.expected("`)`")
        if name == "ins":
            draft.operands, draft.types = items, types
        else:
            draft.outs, draft.out_types = items, types

    # --- Attributes ------------------------------------------------------------------------------------------

    def _tail(self, draft: Draft) -> None:
        """Attributes and types, in any order."""
        is_typed = False
        while True:
            if self.kind == "line" and _GOES_ON.match(self.text, self.end):
                self.advance()
            if self.word == "{":
                self.attributes(draft)
            elif self.kind == "attribute":
                self._attribute(draft)
            elif not is_typed and self.accept(":"):
                is_typed = True
                draft.types += self._types()
            elif draft.result_types is None and (self.accept("->") or self.accept("to")):
                draft.result_types = self._types()
            else:
                return

    def _attribute(self, draft: Draft) -> None:
        """`#key=value`, or a keyword `#pto.key<word>` as an operand."""
        start, text = self.start, self.advance()
        if self.accept("="):
            self._put(draft, text[1:], self._attribute_value(), start)
        else:
            draft.operands.append(self._keyword(text, start))

    def _put(self, draft: Draft, key: str, value: object, start: int) -> None:
        if key in draft.attributes:
            self.fail(f"the attribute `{key}` is given twice", start)
        draft.attributes[key], draft.places[key] = value, start

    def attributes(self, draft: Draft) -> Draft:
        """`{key = value, key}`, added to the attributes of a statement."""
        for entry in self.listed("{", self._attribute_entry):
            self._put(draft, *entry)
        return draft

    def _attribute_entry(self) -> tuple[str, object, int]:
        start, key = self.start, self.name("the key of an attribute")
        return key, self._attribute_value() if self.accept("=") else True, start

    def _attribute_value(self) -> object:
        return self.listed("[", self._plain_value) if self.word == "[" else self._plain_value()

    def _plain_value(self) -> object:
        """A word, a string, a boolean, or a number, perhaps with a type."""
        if self.kind == "type":
            return self.advance()
        item = self.item()
        if item.kind == "number":
            if not self.accept(":"):
                return self.read(plain_number, item.text, start=item.start)
            type_ = self._type().type
            return self.read(
                constant, item.text, "index" if isinstance(type_, Placeholder) else type_, start=item.start
            )
        if item.kind not in WORDLIKE:
            self.fail("expected the value of an attribute: a number, a word or a string", item.start)
        return {"true": True, "false": False}.get(item.text, item.text) if item.kind == "bare" else item.text

    # --- Types -----------------------------------------------------------------------------------------------

    def _type(self) -> TypeAt:
        start = self.start
        if self.kind not in ("type", "bare"):
            self.expected("a type")
        if self.text.startswith("<", self.end):
            self.fail("`<` has no `>` on its line", self.end)
        try:
            type_ = read_type(self.word)
        except Problem as problem:
            self.fail(str(problem), start + problem.offset)
        self.advance()
        return TypeAt(type_, start)

    def _types(self) -> list[TypeAt]:
        """`T, T`, `(T, T)` or `()`."""
        self.skip_lines()
        return self.listed("(", self._type) if self.word == "(" else self.separated(self._type)

    def annotation(self) -> TypeAt:
        """`: T`."""
        self.expect(":", " and a type")
        return self._type()

    # --- Loops and branches ----------------------------------------------------------------------------------

    def _head(self, draft: Draft, name: str) -> None:
        """`%c [-> (T)]`, or `%i = %a to %b step %c [iter_args(%x = %y) -> (T)] [: T]`."""
        if name == "for":
            draft.arguments.append(self.plain_value())
            for mark, what in (("=", "start"), ("to", "end"), ("step", "step")):
                self.expect(mark, f" and the {what} of the loop, as in `for %i = %a to %b step %c {{`")
                draft.operands.append(self.item())
            if self.accept("iter_args"):
                self.listed("(", lambda: self._initial(draft))
        else:
            draft.operands.append(self.item())
        while self.word != "{":
            if self.accept("->"):
                draft.result_types = self._types()
            elif self.accept(":"):
                draft.types = self._types()
            else:
                self.expected("`{`")

    def _initial(self, draft: Draft) -> None:
        """`%x = %y`."""
        draft.arguments.append(self.plain_value())
        self.expect("=")
        draft.operands.append(self.item())
