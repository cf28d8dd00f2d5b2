"""Types of the dialect `pto`. Both spellings of a tile buffer give one type; it is printed in the compact one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from xdsl.ir import Attribute, Data, TypeAttribute
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from ptokit.text.attributes import ANGLE
from ptokit.text.errors import guess

Extent = int | None
"""An extent; None where only the run tells it."""

LEFT_LAYOUT = {"a3": "row_major", "a5": "col_major"}
"""The layout that a tile in `left` has on an architecture, whatever its text says."""


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
        parser.raise_error(f"`{word}` is no {what}, expected one of: {' '.join(known)}{guess(word, known)}", at)
    return word


class PtrType(Data[tuple[Attribute, str]], TypeAttribute):
    """`!pto.ptr<f32>`; some versions add an address space."""

    name = "pto.ptr"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[Attribute, str]:
        with parser.in_angle_brackets():
            element, space = parser.parse_type(), ""
            if parser.parse_optional_punctuation(","):
                space = _word(parser, "address space", tuple(ANGLE["address_space"].split()))
        return element, space

    def print_parameter(self, printer: Printer) -> None:
        element, space = self.data
        printer.print_string("<")
        printer.print_attribute(element)
        printer.print_string(f", {space}>" if space else ">")


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


class TileType(Data[Any], TypeAttribute):
    """`!pto.tile<32x32xf32>`; another body is kept as it is written."""

    name = "pto.tile"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[tuple[Extent, ...], Attribute] | str:
        if not _next_is(parser, "<"):
            return ""
        start = parser.pos
        body = parser._parse_dialect_symbol_body()
        if not body.lstrip().startswith(tuple("0123456789?")):
            return " ".join(body.split())
        parser._resume_from(start)
        with parser.in_angle_brackets():
            return _ranked(parser)

    def print_parameter(self, printer: Printer) -> None:
        if isinstance(self.data, str):
            printer.print_string(f"<{self.data}>" if self.data else "")
        else:
            ShapedType.print_parameter(self, printer)  # type: ignore[arg-type]


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


LOCS = ("mat", "left", "right", "acc", "vec", "bias", "scaling")
WORDS = {"loc": LOCS, "blayout": ("row_major", "col_major"), "slayout": ("none_box", "row_major", "col_major")}
NUMBERS = {"fractal": (16, 32, 512, 1024), "pad": (0, 1, 2, 3), "compact": (0, 1, 2)}
OPTIONS = ("blayout", "slayout", "fractal", "pad", "compact")
"""Fields with a default, in the order in which they are printed."""
KEYED = ("loc", "dtype", "rows", "cols", "v_row", "v_col", *OPTIONS)
"""Fields of the keyed spelling, in their order; only the last may be missing."""


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
        layout = LEFT_LAYOUT.get(getattr(parser, "arch", ""), tile.blayout)
        return replace(tile, blayout=layout) if tile.loc == "left" else tile

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


def _keyed(parser: AttrParser) -> TileBuf:
    """The keyed spelling, after the word `loc`."""
    found: dict[str, Any] = {}
    for key in KEYED:
        if key != "loc":
            if key == "compact" and not _next_is(parser, ","):
                break
            parser.parse_punctuation(",", f" before `{key}` in a keyed tile_buf, whose order is: {' '.join(KEYED)}")
            parser.parse_keyword(key, f" in a keyed tile_buf, whose order is: {' '.join(KEYED)}")
        parser.parse_punctuation("=")
        found[key] = _value(parser, key)
    return TileBuf(**found)


def _compact(parser: AttrParser) -> TileBuf:
    """The compact spelling: place, shape, then keys in any order."""
    loc = _word(parser, "place of a tile", LOCS)
    parser.parse_punctuation(",")
    at = parser.pos
    dims, element = _ranked(parser)
    if len(dims) != 2 or None in dims:
        parser.raise_error("a tile_buf has two static extents, as in `vec, 16x32xf32`", at)
    found: dict[str, Any] = {}
    while parser.parse_optional_punctuation(","):
        at = parser.pos
        key = parser.parse_identifier()
        known = ("valid", *OPTIONS)
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
