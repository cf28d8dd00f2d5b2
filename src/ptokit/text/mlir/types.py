"""Types of the dialect `pto`. Both spellings of a tile buffer give one type; it is printed in the compact one."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from xdsl.dialects.builtin import IntegerType, Signedness
from xdsl.ir import Attribute, Data, TypeAttribute
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from ptokit.isa import policy
from ptokit.isa.policy import BLayout, Pad, SLayout
from ptokit.target import left_layouts
from ptokit.text.errors import guess
from ptokit.text.mlir.attributes import KEYWORD_CLASSES, KeywordAttr

Extent = int | None
"""An extent; None where only the run tells it."""

LEFT_LAYOUT = {arch: layout.text for arch, layout in left_layouts().items()}
"""The layout that a tile in `left` has on an architecture, whatever its text says."""


OTHER_PLACES = {"ub": "vec", "l1": "mat", "cbuf": "mat", "l0a": "left", "l0b": "right", "l0c": "acc"}
"""Places by the names of their memories."""


def _ranked(parser: AttrParser) -> tuple[tuple[Extent, ...], Attribute]:
    """`4x?xf32`: extents, and the element type."""
    dims, element = parser.parse_ranked_shape()
    return _extents(dims), element


def _extents(dims: list[int]) -> tuple[Extent, ...]:
    return tuple(None if dim < 0 else dim for dim in dims)


def _text(*dims: Extent) -> str:
    return "x".join("?" if dim is None else str(dim) for dim in dims)


def _word(parser: AttrParser, what: str, known: tuple[str, ...]) -> str:
    """One of the known words, bare or quoted."""
    at = parser.pos
    word = parser.parse_identifier_or_str_literal(f": {what}")
    if word not in known:
        other = OTHER_PLACES.get(word.lower(), "")
        near = f"; did you mean `{other}`?" if other in known else guess(word, known)
        parser.raise_error(f"`{word}` is no {what}, expected one of: {' '.join(known)}{near}", at)
    return word


class UnknownType(Data[None], TypeAttribute):
    """The type of a value of which the text does not say it. The first use that does gives it."""

    name = "pto.unknown"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> None:
        parser.raise_error("a type that is not known is not written")

    def print_parameter(self, printer: Printer) -> None:
        pass


UNKNOWN = UnknownType(None)


class PtrType(Data[tuple[Attribute, str]], TypeAttribute):
    """`!pto.ptr<f32>`; some versions add an address space."""

    name = "pto.ptr"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[Attribute, str]:
        with parser.in_angle_brackets():
            element, space = parser.parse_type(), ""
            if parser.parse_optional_punctuation(","):
                space = _space(parser)
        return element, space

    def print_parameter(self, printer: Printer) -> None:
        element, space = self.data
        printer.print_string("<")
        printer.print_attribute(element)
        printer.print_string(f", {space}>" if space else ">")


def _space(parser: AttrParser) -> str:
    """An address space: a word, or the attribute."""
    if _next_is(parser, "#pto.address_space"):
        attribute = parser.parse_attribute()
        return attribute.data if isinstance(attribute, KeywordAttr) else ""
    return _word(parser, "address space", KEYWORD_CLASSES["address_space"].keywords)


class ShapedType(Data[tuple[tuple[Extent, ...], Attribute]], TypeAttribute):
    """Extents and an element type: `<4x?xf32>`."""

    name = "pto.shaped"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[tuple[Extent, ...], Attribute]:
        with parser.in_angle_brackets():
            return _ranked(parser)

    def print_parameter(self, printer: Printer) -> None:
        dims, element = self.data
        printer.print_string(f"<{_text(*dims)}{'x' if dims else ''}")
        printer.print_attribute(element)
        printer.print_string(">")


class TensorViewType(ShapedType):
    """`!pto.tensor_view<?x?xf32>`."""

    name = "pto.tensor_view"


class PartitionViewType(ShapedType):
    """`!pto.partition_tensor_view<16x32xf16>`."""

    name = "pto.partition_tensor_view"


class LocalArrayType(ShapedType):
    """`!pto.local_array<8xf32>`."""

    name = "pto.local_array"


def _next_is(parser: AttrParser, text: str) -> bool:
    return parser._current_token.text == text


class EventIdArrayType(Data[int], TypeAttribute):
    """`!pto.eventid_array<4>`."""

    name = "pto.eventid_array"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> int:
        with parser.in_angle_brackets():
            return parser.parse_integer(allow_boolean=False, allow_negative=False)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{self.data}>")


class BareType(Data[None], TypeAttribute):
    """A type that is only a name."""

    name = "pto.bare"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> None:
        if _next_is(parser, "<"):
            parser.raise_error(f"!{cls.name} has no parameters")

    def print_parameter(self, printer: Printer) -> None:
        pass


BARE = "pipe async_session async_event hif8 hif8x2 f4E1M2x2 f4E2M1x2 f8E8M0 bf16x2 prefetch_async_context"
"""Types that are only a name."""


@dataclass(frozen=True)
class TileBuf:
    """What a tile buffer is: place, shape, element, valid extents, layout."""

    loc: str
    rows: int
    cols: int
    dtype: Attribute
    v_row: Extent
    v_col: Extent
    blayout: str = "row_major"
    slayout: str = "none_box"
    fractal: int = 512
    pad: int = 0
    compact: int = 0


LOCS = tuple(place.text for place in policy.TileType)
WORDS = {
    "loc": LOCS, "blayout": tuple(order.text for order in BLayout), "slayout": tuple(order.text for order in SLayout)
}  # fmt: skip
NUMBERS = {"fractal": (16, 32, 512, 1024), "pad": tuple(range(len(Pad))), "compact": (0, 1, 2)}
OPTIONS = ("blayout", "slayout", "fractal", "pad", "compact")
"""Fields with a default, in the order in which they are printed."""
POSITIONAL = {
    "blayout": {word: order.text for order in BLayout for word in (order.text, order.name)},
    "slayout": {word: order.text for order in SLayout for word in (order.text, order.name)},
    "fractal": {"None": 512},
    "pad": {word: number for number, pad in enumerate(Pad) for word in (pad.text, pad.name)},
}
"""Fields of the positional spelling behind the extents, in their order, with the words for their values."""
KEYED = ("loc", "dtype", "rows", "cols", "v_row", "v_col", *OPTIONS)
"""Fields of the keyed spelling, in their order; only the last may be missing."""


class TileType(Data[Any], TypeAttribute):
    """`!pto.tile<32x32xf32>`, or in full: `!pto.tile<vec, f32, 32, 32, row_major, none_box, 512, null, valid=32x?>`.

    A body with names instead of numbers, as pages have them, is kept as it is written.
    """

    name = "pto.tile"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[tuple[Extent, ...], Attribute] | TileBuf | str:
        if not _next_is(parser, "<"):
            return ""
        start = parser.pos
        body = parser._parse_dialect_symbol_body()
        if (kind := _tile_kind(body)) == "words":
            return " ".join(body.split())
        parser._resume_from(start)
        with parser.in_angle_brackets():
            if kind == "shape":
                return _ranked(parser)
            if kind == "full":
                return _placed(parser, _positional(parser, _place(parser)))
            element = parser.parse_type()
            return _extents([_number(parser), _number(parser)]), element

    def print_parameter(self, printer: Printer) -> None:
        if isinstance(self.data, str):
            printer.print_string(f"<{self.data}>" if self.data else "")
        elif isinstance(self.data, TileBuf):
            _print_positional(printer, self.data)
        else:
            ShapedType.print_parameter(self, printer)  # type: ignore[arg-type]


_DIMENSION = r"(?:\d+|\?)"
_KINDS = {
    "shape": re.compile(rf"\s*(?:{_DIMENSION}x)+(?![A-Z]x|[A-Z]\w*\Z).*", re.DOTALL),
    "full": re.compile(r"\s*(?:loc\s*=\s*)?\"?\w+\"?\s*,[^,]*,\s*\d+\s*,\s*\d+\s*(?:,.*)?", re.DOTALL),
    "short": re.compile(r"[^,]*,\s*\d+\s*,\s*\d+\s*"),
}
"""What the body of a tile may be; the first that fits is it."""


def _tile_kind(body: str) -> str:
    """Which of the spellings the body of a tile has. Those that pages abbreviate are words."""
    kind = next((kind for kind, pattern in _KINDS.items() if pattern.fullmatch(body)), "words")
    if kind == "shape" and re.search(r"x\s*[A-Z]", body):
        return "words"
    known = {*LOCS, *(word for words in POSITIONAL.values() for word in words), ""}
    rest = re.split(r"[\s,<>=\"]+", re.sub(r"valid\s*=\s*[\d?x]+|loc\s*=", "", body))
    if kind == "full" and not all(word in known or word.isdigit() for word in rest[:1] + rest[4:]):
        return "words"
    return kind


class TileBufType(Data[TileBuf], TypeAttribute):
    """`!pto.tile_buf<vec, 1x64xi32, valid=1x?>`, or keyed: `!pto.tile_buf<loc=vec, dtype=i32, rows=1, ...>`."""

    name = "pto.tile_buf"
    defaults: ClassVar = {name: TileBuf.__dataclass_fields__[name].default for name in OPTIONS}

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> TileBuf:
        with parser.in_angle_brackets():
            at = parser.pos
            first = parser.parse_identifier_or_str_literal(": where the tile lies")
            if first == "loc" and _next_is(parser, "="):
                tile = _keyed(parser)
            else:
                parser._resume_from(at)
                tile = _compact(parser)
        return _placed(parser, tile)

    def print_parameter(self, printer: Printer) -> None:
        tile = self.data
        printer.print_string(f"<{tile.loc}, {tile.rows}x{tile.cols}x")
        printer.print_attribute(tile.dtype)
        if (tile.v_row, tile.v_col) != (tile.rows, tile.cols):
            printer.print_string(f", valid={_text(tile.v_row, tile.v_col)}")
        for key, default in self.defaults.items():
            if (value := getattr(tile, key)) != default:
                printer.print_string(f", {key}={value}")
        printer.print_string(">")


def _placed(parser: AttrParser, tile: TileBuf) -> TileBuf:
    """The tile with the layout that its place asks for."""
    layout = LEFT_LAYOUT.get(getattr(parser, "arch", ""), tile.blayout)
    return replace(tile, blayout=layout) if tile.loc == "left" else tile


def _place(parser: AttrParser) -> str:
    """`vec` or `loc=vec`."""
    if parser.parse_optional_keyword("loc") is not None:
        parser.parse_punctuation("=")
    return _word(parser, "place of a tile", LOCS)


def _number(parser: AttrParser) -> int:
    parser.parse_punctuation(",")
    return parser.parse_integer(allow_boolean=False, allow_negative=False)


def _positional(parser: AttrParser, loc: str) -> TileBuf:
    """`, f32, 16, 32, row_major, none_box, 512, null, valid=16x?` behind the place; an end may be missing."""
    parser.parse_punctuation(",")
    element = parser.parse_type()
    rows, cols = _number(parser), _number(parser)
    found: dict[str, Any] = {}
    fields = iter(POSITIONAL)
    while parser.parse_optional_punctuation(","):
        if parser.parse_optional_keyword("valid") is not None:
            parser.parse_punctuation("=")
            found["valid"] = _value(parser, "valid")
            break
        if (field := next(fields, None)) is None:
            parser.raise_error(f"expected no more than: loc dtype rows cols {' '.join(POSITIONAL)} valid=RxC")
        found[field] = _spelled(parser, field)
    v_row, v_col = found.pop("valid", (rows, cols))
    return TileBuf(loc, rows, cols, element, v_row, v_col, **found)


def _spelled(parser: AttrParser, field: str) -> Any:
    """The value of a field in the positional spelling: a word for it, or its number."""
    if field in NUMBERS and parser._current_token.text.isdigit():
        return _value(parser, field)
    return POSITIONAL[field][_word(parser, field, tuple(POSITIONAL[field]))]


def _print_positional(printer: Printer, tile: TileBuf) -> None:
    printer.print_string(f"<{tile.loc}, ")
    printer.print_attribute(tile.dtype)
    pad = next(word for word, number in POSITIONAL["pad"].items() if number == tile.pad)
    printer.print_string(f", {tile.rows}, {tile.cols}, {tile.blayout}, {tile.slayout}, {tile.fractal}, {pad}")
    if (tile.v_row, tile.v_col) != (tile.rows, tile.cols):
        printer.print_string(f", valid={_text(tile.v_row, tile.v_col)}")
    printer.print_string(">")


def _keyed(parser: AttrParser) -> TileBuf:
    """The keyed spelling, after the word `loc`; pages also have the positional one behind it."""
    found: dict[str, Any] = {}
    for key in KEYED:
        if key == "dtype" and _LOOKS_POSITIONAL.match(parser.lexer.input.content, parser.pos):
            return _positional(parser, found["loc"])
        if key != "loc":
            if key == "compact" and not _next_is(parser, ","):
                break
            parser.parse_punctuation(",", f" before `{key}` in a keyed tile_buf, whose order is: {' '.join(KEYED)}")
            parser.parse_keyword(key, f" in a keyed tile_buf, whose order is: {' '.join(KEYED)}")
        parser.parse_punctuation("=")
        found[key] = _value(parser, key)
    return TileBuf(**found)


_NO_PLACE = re.compile(r"(\w{1,9})\s*,\s*(\d{1,9})\s*,\s*(\d{1,9})\b")
_APART = re.compile(r"(\d{1,9})\s*,\s*(\d{1,9})\s*,\s*(\w{1,9})\b")
_LOOKS_POSITIONAL = re.compile(r",\s*[A-Za-z][\w.]*\s*,\s*\d")


def _compact(parser: AttrParser) -> TileBuf:
    """The compact spelling: place, shape, then keys in any order."""
    bare = _NO_PLACE.match(parser.lexer.input.content, parser.pos)
    if bare is not None and bare[1] not in LOCS:
        parser.raise_error(f"expected the place of a tile first; did you mean `vec, {bare[2]}x{bare[3]}x{bare[1]}`?")
    loc = _word(parser, "place of a tile", LOCS)
    if _LOOKS_POSITIONAL.match(parser.lexer.input.content, parser.pos):
        return _positional(parser, loc)
    parser.parse_punctuation(",", " behind the place of a tile")
    at = parser.pos
    if (apart := _APART.match(parser.lexer.input.content, at)) is not None:
        parser.raise_error(f"expected extents and element in one; did you mean `{loc}, {'x'.join(apart.groups())}`?")
    dims, element = _ranked(parser)
    if len(dims) != 2 or None in dims:
        parser.raise_error("a tile_buf has two static extents, as in `vec, 16x32xf32`", at)
    found: dict[str, Any] = {}
    while parser.parse_optional_punctuation(","):
        at = parser.pos
        known = ("valid", *OPTIONS)
        key = parser.parse_identifier(f": a key of a tile_buf, one of {' '.join(known)}")
        if key not in known or key in found:
            what = "is given twice" if key in found else f"is no key of a tile_buf, expected: {' '.join(known)}"
            parser.raise_error(f"`{key}` {what}{'' if key in found else guess(key, known)}", at)
        parser.parse_punctuation("=")
        found[key] = _value(parser, key)
    v_row, v_col = found.pop("valid", dims)
    return TileBuf(loc, *dims, element, v_row, v_col, **found)  # type: ignore[arg-type]


def _value(parser: AttrParser, key: str) -> Any:
    """The value of one key."""
    at = parser.pos
    if key in WORDS:
        return _word(parser, key, WORDS[key])
    if key == "dtype":
        return parser.parse_type()
    if key == "valid":
        if len(dims := _extents(parser.parse_dimension_list())) != 2:
            parser.raise_error("expected two valid extents, as in `valid=16x?`", at)
        return dims
    if key in ("v_row", "v_col") and parser.parse_optional_punctuation("?"):
        return None
    if (word := parser._current_token.text) in POSITIONAL.get(key, ()):
        parser.raise_error(f"{key} is a number here; did you mean `{key}={POSITIONAL[key][word]}`?")
    number = parser.parse_integer(allow_boolean=False, allow_negative=key.startswith("v_"))
    if number < -1 or number not in NUMBERS.get(key, (number,)):
        parser.raise_error(f"{number} is no {key}, expected one of: {NUMBERS.get(key, 'extents')}", at)
    return None if number < 0 else number


def element_of(kind: Attribute) -> Attribute | None:
    """The element type of a view."""
    return kind.data[1] if isinstance(kind, ShapedType) else None


def _bare_class(name: str) -> type[BareType]:
    return type(name, (BareType,), {"name": f"pto.{name}", "__doc__": f"The type `!pto.{name}`."})


TYPES: tuple[type[TypeAttribute], ...] = (
    PtrType, TensorViewType, PartitionViewType, LocalArrayType, TileType, TileBufType, EventIdArrayType,
    *(_bare_class(name) for name in BARE.split()),
)  # fmt: skip

ELEMENTS: dict[str, TypeAttribute] = {
    **{f"u{width}": IntegerType(width, Signedness.UNSIGNED) for width in (8, 16, 32, 64)},
    "hif8": next(kind for kind in TYPES if kind.name == "pto.hif8")(None),  # type: ignore[call-arg]
}
"""Element types as pages spell them."""
