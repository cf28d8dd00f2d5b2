"""Text to tokens: xDSL's lexer, with one expression for the frequent ones and bounds on the others."""

from __future__ import annotations

import re
from contextlib import suppress

from xdsl.utils.exceptions import ParseError
from xdsl.utils.lexer import Span, Token
from xdsl.utils.mlir_lexer import KIND_BY_PUNCTUATION_SPELLING, MLIRLexer, MLIRToken, MLIRTokenKind, StringLiteral

MAX_WORD = 4096
"""Most characters of a word. The extents of a type are one, and each is read by starting over behind it."""

MAX_DIGITS = 400
"""Most digits of a number."""

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

    def _lex_rare(self) -> MLIRToken:
        """A number, a string, a symbol, or what is no token at all."""
        token = super().lex()
        if token.kind in (MLIRTokenKind.INTEGER_LIT, MLIRTokenKind.FLOAT_LIT) and len(token.text) > MAX_DIGITS:
            raise ParseError(token.span, f"a number of more than {MAX_DIGITS} digits")
        return token

    def _lex_string_literal(self, start_pos: int) -> MLIRToken:
        """A string, also when bytes of its UTF-8 are written as escapes."""
        token = super()._lex_string_literal(start_pos)
        if token.kind is MLIRTokenKind.BYTES_LIT and isinstance(token.span, StringLiteral):
            with suppress(UnicodeDecodeError):
                token.span.bytes_contents.decode("utf-8")
                return Token(MLIRTokenKind.STRING_LIT, token.span)
        return token

    def lex(self) -> MLIRToken:
        found = _TOKEN.match(self.input.content, self.pos)
        if found is None:
            return self._lex_rare()
        group = found.lastgroup or ""
        text, start = found[group], found.start(group)
        self.pos = found.end()
        span = Span(start, self.pos, self.input)
        if group == "mark":
            return Lexeme(KIND_BY_PUNCTUATION_SPELLING[text], span, text)
        if group == "prefixed":
            return Lexeme(_PREFIXED[text[0]], span, text)
        if len(text) > MAX_WORD:
            raise ParseError(span, f"a word of more than {MAX_WORD} characters")
        if _WIDE.fullmatch(text):
            raise ParseError(span, f"`{text}` is too wide for an integer type")
        return Lexeme(MLIRTokenKind.BARE_IDENT, span, text)
