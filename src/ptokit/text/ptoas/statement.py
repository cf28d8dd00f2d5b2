"""The grammar of PTO-AS: one statement as it is written, before names are resolved."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ptokit.program.ir import Constant
from ptokit.text.errors import Problem, choices, guess
from ptokit.text.ptoas.literals import constant, keyword, plain_number, string
from ptokit.text.ptoas.shapes import BLOCKS
from ptokit.text.ptoas.tokens import END, MAX_ITEMS, Tokens
from ptokit.text.ptoas.types import Placeholder, read_type
from ptokit.text.tree import Type

Found = TypeVar("Found")
_GOES_ON = re.compile(r"\s*+(?:->|:)")


@dataclass(slots=True)
class RawItem:
    """An operand as it is written."""

    kind: str
    """`value`, `number`, `address` (of `@tile(...)`), `word`, `symbol` or `string`."""
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


@dataclass(slots=True)
class TypeAt:
    """A type at a place."""

    type: Type | Placeholder
    start: int


@dataclass
class Draft:
    """A statement as it is written."""

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
    given: list[TypeAt] | None = None
    """The types behind the arrow."""
    arguments: list[RawItem] = field(default_factory=list)
    """The arguments of a loop's body."""
    groups: list[str] = field(default_factory=list)
    """Which of `ins(...)` and `outs(...)` are written."""


class Grammar:
    """Reads statements from tokens."""

    def __init__(self, tokens: Tokens) -> None:
        self.tokens = tokens

    def statement(self) -> Draft:
        """`[%r, %s =] opcode operands {attributes} : types`, to its end or to the brace of its body."""
        draft = Draft()
        if self.tokens.kind == "value":
            draft.results = [self.plain_value() for _ in self._separated()]
            self.tokens.expect("=", " behind the results")
        draft.start = self.tokens.start
        draft.opcode = self.tokens.take("word", "an opcode")
        short = draft.opcode.removeprefix("pto.").removeprefix("scf.")
        if short in ("for", "if"):
            getattr(self, f"_{short}")(draft)
        elif short not in BLOCKS:
            self._operands(draft)
            self._tail(draft)
        return draft

    # --- Operands --------------------------------------------------------------------------------------------

    def _separated(self, close: str = "") -> Iterator[None]:
        """Yield for each entry of a list with commas, which may span lines."""
        tokens, count = self.tokens, 0
        while True:
            count += 1
            if count > MAX_ITEMS:
                tokens.fail(f"more than {MAX_ITEMS} entries in one list")
            yield
            if close:
                tokens.skip_lines()
            if not tokens.accept(","):
                return
            tokens.skip_lines()

    def _listed(self, close: str, entry: Callable[[], Any]) -> list[Any]:
        """Entries up to a closing bracket; the opening one was read."""
        tokens = self.tokens
        tokens.skip_lines()
        if tokens.accept(close):
            return []
        found = [entry() for _ in self._separated(close)]
        if not tokens.accept(close):
            tokens.expected(f"`,` or `{close}`")
        return found

    def plain_value(self) -> RawItem:
        start = self.tokens.start
        return RawItem("value", self.tokens.take("value", "a value, such as `%x`"), start)

    def item(self) -> RawItem:
        tokens = self.tokens
        start, kind, text = tokens.start, tokens.kind, tokens.text
        if kind == "value":
            return self._value()
        if kind == "symbol":
            return self._symbol()
        if kind in ("attribute", "angle", "word", "string", "number"):
            tokens.advance()
        if kind in ("attribute", "angle"):
            return self._keyword(text, start)
        if kind == "string":
            return RawItem("string", self._read(string, text, start), start)
        if kind in ("word", "number"):
            return RawItem(kind, text, start)
        tokens.expected("an operand: a value such as `%x`, or a number")

    def _keyword(self, text: str, start: int) -> RawItem:
        key, word = self._read(keyword, text, start)
        return RawItem("word", word, start, key=key)

    def _read(self, read: Callable[[str], Found], text: str, start: int) -> Found:
        """What a text says, or an error at its start."""
        try:
            return read(text)
        except ValueError as problem:
            self.tokens.fail(str(problem), start)

    def name(self, what: str) -> str:
        """A word, or the content of a string."""
        tokens = self.tokens
        if tokens.kind not in ("word", "string"):
            tokens.expected(what)
        kind, start, text = tokens.kind, tokens.start, tokens.advance()
        return self._read(string, text, start) if kind == "string" else text

    def _value(self) -> RawItem:
        tokens = self.tokens
        start, text, loc = tokens.start, tokens.text, ""
        end = tokens.end
        tokens.advance()
        while tokens.kind == "type" and tokens.start == end and "<" not in tokens.text:
            if tokens.text != "!loc":
                tokens.fail(f"a tile has no modifier `{tokens.text}`, expected `!loc=...`")
            tokens.advance()
            tokens.expect("=")
            end, loc = tokens.end, tokens.take("word", "the place of the tile")
        indices = None
        if tokens.accept("["):
            indices = tuple(self._listed("]", self.item))
        return RawItem("value", text, start, indices, loc=loc)

    def _symbol(self) -> RawItem:
        """`@tile(0x1000)`, or the name of a function."""
        tokens = self.tokens
        start, text = tokens.start, tokens.advance()
        if text != "@tile":
            return RawItem("symbol", text, start)
        tokens.expect("(", " behind @tile")
        address = tokens.take("number", "an address, such as `@tile(0x1000)`")
        tokens.expect(")", " behind the address")
        return RawItem("address", address, start)

    def _operands(self, draft: Draft) -> None:
        tokens = self.tokens
        if tokens.accept("["):
            draft.operands = self._listed("]", self.item)
            return
        while tokens.kind not in ("line", END, "mark"):
            if tokens.kind == "attribute":
                self._attribute(draft)
            else:
                self._operand(draft)
            if tokens.accept(","):
                tokens.skip_lines()
                if tokens.kind in (END, "mark", "line"):
                    tokens.expected("an operand after `,`")
            elif tokens.kind not in ("word", "attribute"):
                return

    def _operand(self, draft: Draft) -> None:
        """An operand, `key = operand`, `key = [operands]`, `ins(...)`, `outs(...)` or `@f(operands)`."""
        tokens = self.tokens
        item = self.item()
        if len(draft.operands) >= MAX_ITEMS or len(draft.keyed) >= MAX_ITEMS:
            tokens.fail(f"more than {MAX_ITEMS} operands")
        if item.kind == "word" and item.text in ("ins", "outs") and tokens.accept("("):
            self._group(draft, item.text)
        elif item.kind == "word" and tokens.accept("="):
            entries = self._listed("]", self.item) if tokens.accept("[") else [self.item()]
            if item.text in draft.keyed:
                tokens.fail(f"`{item.text}` is given twice", item.start)
            draft.keyed[item.text], draft.places[item.text] = entries, item.start
        elif item.kind == "symbol" and tokens.accept("("):
            draft.operands += [item, *self._listed(")", self.item)]
        else:
            draft.operands.append(item)

    def _group(self, draft: Draft, name: str) -> None:
        """`%a, %b {...} : T, T)`, or a type behind each operand."""
        tokens = self.tokens
        if name in draft.groups:
            tokens.fail(f"`{name}(...)` is given twice")
        draft.groups.append(name)
        items: list[RawItem] = []
        types: list[TypeAt] = []
        tokens.skip_lines()
        while not tokens.accept(")"):
            if len(items) + len(types) > MAX_ITEMS:
                tokens.fail(f"more than {MAX_ITEMS} operands")
            if tokens.at("{"):
                self.dictionary(draft)
            elif tokens.accept(":"):
                types.append(self._type())
                while tokens.accept(",") and tokens.kind not in ("value", "number"):
                    tokens.skip_lines()
                    types.append(self._type())
            else:
                items.append(self.item())
                tokens.accept(",")
            tokens.skip_lines()
            if tokens.starts_statement():
                tokens.expected("`)`")
        if name == "ins":
            draft.operands, draft.types = items, types
        else:
            draft.outs, draft.out_types = items, types

    # --- Attributes ------------------------------------------------------------------------------------------

    def _tail(self, draft: Draft) -> None:
        """Attributes and types, in any order."""
        tokens, is_typed = self.tokens, False
        while True:
            self._continue()
            if tokens.at("{"):
                self.dictionary(draft)
            elif tokens.kind == "attribute":
                self._attribute(draft)
            elif not is_typed and tokens.accept(":"):
                is_typed = True
                draft.types += self._types()
            elif draft.given is None and (tokens.accept("->") or tokens.accept("to")):
                draft.given = self._types()
            else:
                return

    def _continue(self) -> None:
        """Go on in the next line, if it starts with an arrow or a colon."""
        tokens = self.tokens
        if tokens.kind == "line" and _GOES_ON.match(tokens.source.text, tokens.end):
            tokens.advance()

    def _attribute(self, draft: Draft) -> None:
        """`#key=value`, or a keyword `#pto.key<word>` as an operand."""
        tokens = self.tokens
        start, text = tokens.start, tokens.advance()
        if tokens.accept("="):
            self._put(draft, text[1:], self._attribute_value(), start)
        else:
            draft.operands.append(self._keyword(text, start))

    def _put(self, draft: Draft, key: str, value: object, start: int) -> None:
        if key in draft.attributes:
            self.tokens.fail(f"the attribute `{key}` is given twice", start)
        draft.attributes[key], draft.places[key] = value, start

    def dictionary(self, draft: Draft) -> Draft:
        """`{key = value, key}`, added to the attributes of a statement."""
        self.tokens.expect("{")
        for key, value, start in self._listed("}", self._entry):
            self._put(draft, key, value, start)
        return draft

    def _entry(self) -> tuple[str, Any, int]:
        start, key = self.tokens.start, self.name("the key of an attribute")
        return key, self._attribute_value() if self.tokens.accept("=") else True, start

    def _attribute_value(self) -> object:
        tokens = self.tokens
        if tokens.accept("["):
            return self._listed("]", self._scalar_value)
        return self._scalar_value()

    def _scalar_value(self) -> object:
        """A word, a string, a boolean, or a number, perhaps with a type."""
        tokens = self.tokens
        if tokens.kind == "type":
            return tokens.advance()
        item = self.item()
        if item.kind == "number":
            return self._number(item)
        if item.kind not in ("word", "string"):
            tokens.fail("expected the value of an attribute: a number, a word or a string", item.start)
        return {"true": True, "false": False}.get(item.text, item.text) if item.kind == "word" else item.text

    def _number(self, item: RawItem) -> int | float | Constant:
        tokens = self.tokens
        try:
            if not tokens.accept(":"):
                return plain_number(item.text)
            kind = self._type().type
            return constant(item.text, kind if not isinstance(kind, Placeholder) else "index")
        except ValueError as problem:
            tokens.fail(str(problem), item.start)

    # --- Types -----------------------------------------------------------------------------------------------

    def _type(self) -> TypeAt:
        tokens = self.tokens
        start, text = tokens.start, tokens.text
        if tokens.kind not in ("type", "word"):
            tokens.expected("a type")
        if tokens.source.text.startswith("<", tokens.end):
            tokens.fail("`<` has no `>` on its line", tokens.end)
        try:
            kind = read_type(text)
        except Problem as problem:
            tokens.fail(str(problem), start + problem.offset)
        tokens.advance()
        return TypeAt(kind, start)

    def _types(self) -> list[TypeAt]:
        """`T, T`, `(T, T)` or `()`."""
        tokens = self.tokens
        tokens.skip_lines()
        if tokens.accept("("):
            return self._listed(")", self._type)
        return [self._type() for _ in self._separated()]

    def annotation(self) -> TypeAt:
        """`: T`."""
        self.tokens.expect(":", " and a type")
        return self._type()

    # --- Loops and branches ----------------------------------------------------------------------------------

    def _for(self, draft: Draft) -> None:
        """`%i = %a to %b step %c [iter_args(%x = %y) -> (T)] [: T]`."""
        tokens = self.tokens
        draft.arguments.append(self.plain_value())
        for mark, what in (("=", "start"), ("to", "end"), ("step", "step")):
            tokens.expect(mark, f" and the {what} of the loop, as in `for %i = %a to %b step %c {{`")
            draft.operands.append(self.item())
        if tokens.accept("iter_args"):
            tokens.expect("(")
            for argument, value in self._listed(")", self._initial):
                draft.arguments.append(argument)
                draft.operands.append(value)
        self._tail_of_head(draft)

    def _initial(self) -> tuple[RawItem, RawItem]:
        argument = self.plain_value()
        self.tokens.expect("=")
        return argument, self.item()

    def _if(self, draft: Draft) -> None:
        """`%c [-> (T)]`."""
        draft.operands.append(self.item())
        self._tail_of_head(draft)

    def _tail_of_head(self, draft: Draft) -> None:
        tokens = self.tokens
        while not tokens.at("{"):
            if tokens.accept("->"):
                draft.given = self._types()
            elif tokens.accept(":"):
                draft.types = self._types()
            else:
                tokens.expected("`{`")


def unknown_word(word: str, known: tuple[str, ...], what: str) -> str:
    """The message for an unknown word."""
    return f"unknown {what} `{word}`, expected one of: {choices(word, known)}{guess(word, known)}"
