"""Attributes of the dialect `pto`: two tables of names and keywords, one class made from each row.

A keyword attribute is written in one of two families, `#pto.NAME<KW>` or `#pto<NAME KW>`. Both are read for every name;
each is printed in the family of its own.
"""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Attribute, Data, SpacedOpaqueSyntaxAttribute
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from ptokit.isa.policy import BLayout, GlobalLayout, Pad, PtoEnum, SLayout, TileType
from ptokit.text.errors import guess
from ptokit.text.spelling import EVENTS, PIPES, keywords


def _words(enum: type[PtoEnum]) -> str:
    return " ".join(member.text for member in enum)


_EVENT_TYPES = "TLOAD TSTORE_ACC TSTORE_VEC TMOV_M2L TMOV_M2S TMOV_M2B TMOV_M2V TMOV_V2M TMATMUL TVEC TVECWAIT_EVENT"
ANGLE = {
    "address_space": f"zero gm {_words(TileType)} ub",
    "pipe": f"{' '.join(PIPES)} VIRTUAL_PIPE_MTE2_L1A VIRTUAL_PIPE_MTE2_L1B PIPE_NUM PIPE_UNASSIGNED",
    "event": " ".join(EVENTS),
    "pipe_event_type": _EVENT_TYPES,
    "sync_op_type": _EVENT_TYPES,
    "layout": f"{_words(GlobalLayout)} mx_a_zz mx_b_nn",
    "kernel_kind": "cube vector",
    "func_core_type": "AIC AIV MIX AIC_OR_AIV",
    "module_core_type": "AIC AIV MIX",
    "mask_pattern": "P0101 P1010 P0001 P0010 P0100 P1000 P1111",
    "acc_to_vec_mode": "single_mode_vec0 single_mode_vec1 dual_mode_split_m dual_mode_split_n",
    "padmode": "PadNull PadFirstElem PadValue",
    "blayout": _words(BLayout),
    "slayout": _words(SLayout),
    "pad_value": _words(Pad),
    "compact_mode": "null normal row_plus_one",
}
"""Names and keywords of the family `#pto.NAME<KW>`."""

SPACED = {
    **{kind: " ".join(words) for kind, words in keywords().items()},
    "st_phase": "unspecified partial final",
    "relu_pre_mode": "no_relu normal_relu scalar_relu vector_relu pwl",
    "quant_type": "INT8_SYM INT8_ASYM",
}
"""Names and keywords of the family `#pto<NAME KW>`."""


class KeywordAttr(Data[str]):
    """A keyword out of a closed list."""

    name = "pto.keyword"
    keywords: ClassVar[tuple[str, ...]]

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> str:
        bracketed = parser.parse_optional_punctuation("<") is not None
        keyword = cls.parse_keyword(parser)
        if bracketed:
            parser.parse_punctuation(">")
        return keyword

    @classmethod
    def parse_keyword(cls, parser: AttrParser) -> str:
        """One of the keywords, bare or quoted."""
        at = parser.pos
        word = parser.parse_optional_identifier_or_str_literal()
        if word in cls.keywords:
            return word
        short, known = cls.name.removeprefix("pto."), " ".join(cls.keywords)
        before = parser.lexer.input.content[:at].rstrip(" \t\r")
        if word is None or before.endswith("\n"):
            parser.raise_error(f"expected a keyword of {short}: {known}", at)
        parser.raise_error(f"{short} has no keyword `{word}`, expected one of: {known}{guess(word, cls.keywords)}", at)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(self.data if isinstance(self, SpacedOpaqueSyntaxAttribute) else f"<{self.data}>")


def _keyword_class(name: str, keywords: str, *more: type) -> type[KeywordAttr]:
    body = {"name": f"pto.{name}", "keywords": tuple(keywords.split()), "__doc__": f"The attribute `{name}`."}
    return type(name, (KeywordAttr, *more), body)


class TileBufConfigAttr(Data[tuple[tuple[str, Attribute], ...]]):
    """`#pto.tile_buf_config<blayout=..., ...>`: keys in any order, printed in one."""

    name = "pto.tile_buf_config"
    kinds: ClassVar = {
        "blayout": "blayout", "slayout": "slayout", "s_fractal_size": "", "pad": "pad_value", "compact": "compact_mode"
    }  # fmt: skip

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[tuple[str, Attribute], ...]:
        items = parser.parse_optional_comma_separated_list(parser.Delimiter.ANGLE, lambda: cls._entry(parser))
        found = dict(items or ())
        if items and len(found) < len(items):
            parser.raise_error("tile_buf_config names a key twice")
        return tuple((key, found[key]) for key in cls.kinds if key in found)

    @classmethod
    def _entry(cls, parser: AttrParser) -> tuple[str, Attribute]:
        at = parser.pos
        key = parser.parse_identifier()
        if key not in cls.kinds:
            known = " ".join(cls.kinds)
            parser.raise_error(f"tile_buf_config has no key `{key}`, expected: {known}{guess(key, cls.kinds)}", at)
        parser.parse_punctuation("=")
        return key, read_attribute(parser, cls.kinds[key])

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string("<")
        for position, (key, value) in enumerate(self.data):
            printer.print_string(f"{', ' if position else ''}{key}=")
            print_plain(printer, value)
        printer.print_string(">")


KEYWORD_CLASSES: dict[str, type[KeywordAttr]] = {
    **{name: _keyword_class(name, words) for name, words in ANGLE.items()},
    **{name: _keyword_class(name, words, SpacedOpaqueSyntaxAttribute) for name, words in SPACED.items()},
}
ATTRIBUTES: tuple[type[Attribute], ...] = (*KEYWORD_CLASSES.values(), TileBufConfigAttr)


def read_attribute(parser: AttrParser, kind: str) -> Attribute:
    """Any attribute; where `kind` names a keyword attribute, also the stripped spellings `<KW>` and `KW`."""
    if (attribute := KEYWORD_CLASSES.get(kind)) is not None:
        if parser.parse_optional_punctuation("<") is not None:
            keyword = attribute.parse_keyword(parser)
            parser.parse_punctuation(">")
            return attribute(keyword)
        if (found := parser.parse_optional_attribute()) is not None:
            return found
        return attribute(attribute.parse_keyword(parser))
    return parser.parse_attribute()


def print_plain(printer: Printer, value: Attribute, *, stripped: bool = False) -> None:
    """An attribute, without the type that an integer has by default, on request without the name of a keyword's."""
    if isinstance(value, IntegerAttr) and value.type == i64:
        printer.print_int(value.value.data)
    elif stripped and isinstance(value, KeywordAttr):
        printer.print_string(f"<{value.data}>")
    else:
        printer.print_attribute(value)
