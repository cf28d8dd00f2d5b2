"""Text to operations: xDSL's parser with the dialect `pto`, exact names, and errors for people."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

from xdsl.context import Context
from xdsl.dialects import get_all_dialects
from xdsl.dialects.builtin import LocationAttr, UnitAttr, UnregisteredOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Data, Operation, SSAValue, TypeAttribute
from xdsl.parser import AttrParser, Parser, UnresolvedOperand
from xdsl.parser.generic_parser import ParserState
from xdsl.printer import Printer
from xdsl.utils.exceptions import ParseError
from xdsl.utils.lexer import Input, Span, Token
from xdsl.utils.mlir_lexer import KIND_BY_PUNCTUATION_SPELLING, MLIRLexer, MLIRToken, MLIRTokenKind

from ptokit.text.attributes import KEYWORD_CLASSES
from ptokit.text.dialect import PTO, ROWS, op_class, settle_generic
from ptokit.text.errors import guess
from ptokit.text.func import Func
from ptokit.text.shapes import PtoOp

DIALECTS = ("builtin", "func", "arith", "scf", "memref", "cf", "affine", "math", "tensor", "vector", "linalg")
"""Dialects that are read in their own form; ops of others only in the generic form."""

MAX_DENSE = 1 << 20
"""Most elements of a dense value."""

_TOKEN = re.compile(
    r"(?:[ \t\n\r\f\v]+|//[^\n]*)*+"
    r"(?:(?P<bare>[A-Za-z_][A-Za-z0-9_$.]*)"
    r"|(?P<prefixed>[%!#^](?:[0-9]+|[A-Za-z$._-][A-Za-z0-9$._-]*))"
    r"|(?P<mark>->|\.\.\.|\{-#|#-\}|[:,=>{(\[<\-+?})\]*|]))"
)
_PREFIXED = {
    "%": MLIRTokenKind.PERCENT_IDENT, "!": MLIRTokenKind.EXCLAMATION_IDENT, "#": MLIRTokenKind.HASH_IDENT,
    "^": MLIRTokenKind.CARET_IDENT,
}  # fmt: skip
_WIDE = re.compile(r"[su]?i[0-9]{6,}")
_BODY = re.compile(r'<[^<>"/]{0,400}>')
_ALIAS = re.compile(r"^[#!][A-Za-z_$][A-Za-z0-9_$]*[ \t]*=", re.MULTILINE)
_UNMARKED = re.compile(r"pto\.(?:tile|tile_buf|partition_tensor_view|tensor_view|ptr)<")


class Lexeme(Token[MLIRTokenKind, str]):
    """A token that has its text at hand."""

    text = ""  # type: ignore[assignment]

    def __init__(self, kind: MLIRTokenKind, span: Span, text: str) -> None:
        self.kind, self.span = kind, span
        self.text = text  # type: ignore[misc]


class Lexer(MLIRLexer):
    """xDSL's lexer, with one expression for the frequent tokens."""

    _unescaped_characters_regex = re.compile(r'"(?:[^"\\\n\v\f]++|\\(?:["nt\\]|[0-9A-Fa-f]{2}))*+"')
    """xDSL's own takes exponential time for a string without an end."""

    def lex(self) -> MLIRToken:
        found = _TOKEN.match(self.input.content, self.pos)
        if found is None:
            return super().lex()
        group = found.lastgroup or ""
        text, start = found[group], found.start(group)
        self.pos = found.end()
        span = Span(start, self.pos, self.input)
        if group == "mark":
            return Lexeme(KIND_BY_PUNCTUATION_SPELLING[text], span, text)
        if group == "prefixed":
            return Lexeme(_PREFIXED[text[0]], span, text)
        if _WIDE.fullmatch(text):
            raise ParseError(span, f"`{text}` is too wide for an integer type")
        return Lexeme(MLIRTokenKind.BARE_IDENT, span, text)


class OtherLoc(Data[str]):
    """A location in a form that xDSL does not read: kept as it is written."""

    name = "pto.other_loc"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> str:
        parser.raise_error("locations are written loc(...)")

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(self.data)


@cache
def context() -> Context:
    """What knows the dialects around `pto`, and `pto` itself: one for all texts, so that their types compare."""
    known = get_all_dialects()
    ctx = Context(allow_unregistered=True)
    for name in DIALECTS:
        ctx.register_dialect(name, known[name])
    ctx.load_registered_dialect("builtin")
    ctx.load_dialect(PTO)
    return ctx


class Reader(Parser):
    """Reads one text. Afterwards `names` has the name of every value, and `offsets` where every op starts."""

    def __init__(self, text: str, file: str, arch: str) -> None:
        super().__init__(context(), "", file)
        self._parser_state = ParserState(Lexer(Input(text, file)))
        self.arch = arch
        self.names: dict[SSAValue, str] = {}
        self.offsets: dict[Operation, int] = {}
        self.unknown = ""
        self.first_use: dict[str, int] = {}
        self._entries: dict[str, int] = {}
        self._types: dict[str, TypeAttribute] = {}
        self._aliases: set[int] = set()
        self._read_aliases(text)

    def _read_aliases(self, text: str) -> None:
        """Aliases first: those of locations are defined at the end of a file."""
        for found in _ALIAS.finditer(text):
            self._resume_from(found.start())
            super()._parse_alias_def()
            self._aliases.add(found.start())
        self._resume_from(0)

    def _parse_alias_def(self) -> None:
        if self.pos not in self._aliases:
            return super()._parse_alias_def()
        self._consume_token()
        self.parse_punctuation("=")
        self.parse_attribute()
        return None

    def parse_operation(self) -> Operation:
        start = self.pos
        op = super().parse_operation()
        self.offsets[op] = start
        self.unknown = ""
        return op

    def _get_op_by_name(self, name: str) -> type[Operation]:
        short = name.removeprefix("pto.")
        if short != name:
            self.unknown = "" if short in ROWS else short
            return op_class(short)
        dialects = reversed(self._parser_state.dialect_stack)
        for known in (name, *(f"{dialect}.{name}" for dialect in dialects)):
            if (found := self.ctx._get_known_op(known)) is not None:
                return Func if found is FuncOp else found
        self._demand_quotes(name)
        return _unregistered(name)

    def _demand_quotes(self, name: str) -> None:
        """An op that nobody knows can only be read in the generic form, where its name stands in quotes."""
        text = self.lexer.input.content
        at = text.rfind(name, 0, self.pos)
        if text[at + len(name)] != '"':
            self.raise_error(f"`{name}` is no known op{guess(name, _op_names())}", at)

    def _parse_optional_token(self, expected_kind: MLIRTokenKind) -> MLIRToken | None:
        token = self._parser_state.current_token
        if token.kind is not expected_kind:
            return None
        self._parser_state.current_token = self._parser_state.lexer.lex()
        return token

    def resolve_operand(self, operand: UnresolvedOperand, type: Attribute) -> SSAValue:
        """A value; the first use of one that is not defined yet is noted, in case it never is."""
        if operand.operand_name not in self.ssa_values:
            self.first_use.setdefault(operand.operand_name, operand.span.start)
        return super().resolve_operand(operand, type)

    def _parse_generic_operation(self, op_type: type[Operation]) -> Operation:
        op = super()._parse_generic_operation(op_type)
        if isinstance(op, PtoOp):
            settle_generic(op)
        elif isinstance(op, FuncOp):
            op.verify_()  # a function whose type is not that of its body has no other form
        return op

    def _register_ssa_definition(self, name: str, values: Sequence[SSAValue], span: Span) -> None:
        super()._register_ssa_definition(name, values, span)
        if len(values) == 1:
            self.names[values[0]] = name
        else:
            self.names.update((value, f"{name}#{position}") for position, value in enumerate(values))

    def parse_optional_type(self) -> TypeAttribute | None:
        """A type. The same text gives the same type, so it is looked up first."""
        token = self._current_token
        if token.kind is MLIRTokenKind.BARE_IDENT and _UNMARKED.match(self.lexer.input.content, token.span.start):
            return super()._parse_extended_type_or_attribute(self._consume_token().text, True)
        if token.kind is not MLIRTokenKind.EXCLAMATION_IDENT:
            return super().parse_optional_type()
        body = _BODY.match(self.lexer.input.content, token.span.end)
        if body is None:
            return super().parse_optional_type()
        key = self.lexer.input.content[token.span.start : body.end()]
        if (found := self._types.get(key)) is not None:
            self._resume_from(body.end())
            return found
        found = super().parse_optional_type()
        if found is not None:
            self._types[key] = found
        return found

    def parse_optional_location(self) -> LocationAttr | None:
        start = self.pos
        try:
            return super().parse_optional_location()
        except ParseError:
            self._resume_from(start)
            found = _OTHER_LOC.match(self.lexer.input.content, start)
            if found is None:
                return super().parse_optional_location()
            self._resume_from(found.end())
            return OtherLoc(found[0])  # type: ignore[return-value]

    def _parse_extended_type_or_attribute(self, attr_or_dialect_name: str, is_type: bool) -> Attribute:  # type: ignore[override]
        name = ("!" if is_type else "#") + attr_or_dialect_name
        if "." not in name and self._current_token.text != "<" and name not in self.attribute_aliases:
            at = self.lexer.input.content.rfind(name, 0, self.pos)
            self.raise_error(f"`{name}` is not defined{guess(name, self.attribute_aliases)}", at)
        return super()._parse_extended_type_or_attribute(attr_or_dialect_name, is_type)

    def _parse_dense_literal_type(self) -> Any:
        """The type of a dense value, which xDSL writes out in memory however short its text is."""
        at = self.pos
        kind = super()._parse_dense_literal_type()
        if math.prod(kind.get_shape()) > MAX_DENSE:
            self.raise_error(f"a dense value of more than {MAX_DENSE} elements", at)
        return kind

    def _find_duplicated_key(self, attrs: list[tuple[str, Attribute]]) -> str | None:
        if (key := super()._find_duplicated_key(attrs)) is not None:
            self.raise_error(f"`{key}` is given twice", self._entries[key])
        return None

    def _parse_attribute_entry(self) -> tuple[str, Attribute]:
        """An entry of a dictionary. A bare keyword is a frequent slip, for which there is a guess."""
        at = self.pos
        name = self.expect(self.parse_optional_identifier_or_str_literal, "expected the name of an attribute")
        self._entries[name] = at
        if self.parse_optional_punctuation("=") is None:
            return name, UnitAttr()
        token = self._current_token
        value = self.parse_optional_attribute()
        if value is None:
            self.raise_error(f"expected the value of `{name}`{_spelling(name, token.text)}", token.span)
        return name, value


_OTHER_LOC = re.compile(
    r'loc\s*\((?:"[^"\n]*":[0-9]+:[0-9]+\s+to\s+[0-9]*:[0-9]+|fused<[^()\n]{0,400}>\s*\[[^\[\]\n]{0,4000}\])\s*\)'
)
"""Ranges of a file, and fused locations with a remark."""


def _spelling(name: str, word: str) -> str:
    """How a bare keyword should have been written, as a guess."""
    for kind, attribute in KEYWORD_CLASSES.items():
        if word in attribute.keywords and kind.replace("_", "").startswith(name.replace("_", "").lower()[:5]):
            return f"; did you mean `{name} = {attribute(word)}`?"
    return ""


@lru_cache(maxsize=1024)
def _unregistered(name: str) -> type[Operation]:
    """The class of an op that nobody knows. The shared context must not learn it: it would shadow `return`."""
    return UnregisteredOp.with_name(name)


@cache
def _op_names() -> tuple[str, ...]:
    known = get_all_dialects()
    others = (op.name for name in ("func", "arith", "scf", "memref") for op in known[name]().operations)
    return (*others, "module", "return", "call", *(f"pto.{name}" for name in ROWS))
