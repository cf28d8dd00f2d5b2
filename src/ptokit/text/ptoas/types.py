"""Types, numbers and words of PTO-AS: every spelling of the documents is read, one is written.

A tile is written short, `!pto.tile<16x32xf32>`, if it lies in `vec`, is row-major, has no boxes, fractals of 512
bytes and no padding value; else with all its fields, `!pto.tile<mat, f16, 16, 32, col_major, row_major, 512, null>`.
A valid region that is not the whole tile follows: `valid=8x?`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ptokit.brief import named
from ptokit.engine.number import float_bits
from ptokit.finding import near
from ptokit.isa.dtype import BASE, FLOAT8, FLOAT8_E8M0, HIFLOAT8, HOST_ONLY, DType, dtype
from ptokit.isa.operand import TileSpec
from ptokit.isa.policy import BLayout, Pad, SLayout, TileType
from ptokit.program.ir import Constant
from ptokit.text.cursor import bare_or_quoted, escaped
from ptokit.text.errors import Problem, choices, guess
from ptokit.text.tiles import FRACTALS, PLACES, WORDED, shape_text, spellings, tile_spec, valid_extents, valid_text
from ptokit.text.tree import Opaque, Pointer, Tensor, Type, items_of

MOST = 1 << 31
"""The limit of an extent."""
LONGEST = 500
"""The longest type, in characters."""
FIELDS = ("loc", "dtype", "rows", "cols", "valid", "v_row", "v_col", "blayout", "slayout", "fractal", "pad", "compact")


@dataclass(frozen=True)
class Placeholder:
    """A type that is written with a placeholder, as in `!pto.tile<...>` and `!pto.tile<RxCxT>`."""

    kind: str
    text: str

    @property
    def advice(self) -> str:
        """A hint at what to write instead."""
        return f"write the type, as in {EXAMPLES[self.kind]}"


EXAMPLES = {
    "tile": "!pto.tile<16x32xf32>", "memref": "!pto.memref<1000x64xf32>",
    "partition_tensor_view": "!pto.partition_tensor_view<16x32xf32>", "number": "i64",
}  # fmt: skip


@dataclass(frozen=True)
class _Item:
    """An item between commas: `16x32xf32`, or `key = word`."""

    text: str
    offset: int
    key: str = ""

    def problem(self, message: str) -> Problem:
        return Problem(message, self.offset)

    def number(self, what: str) -> int:
        """A whole number that is not negative."""
        if not self.text.isascii() or not self.text.isdigit() or len(self.text) > 12 or int(self.text) >= MOST:
            raise self.problem(f"expected a number for {what}, found `{named(self.text)}`")
        return int(self.text)

    def extent(self) -> int | None:
        return None if self.text in ("?", "-1") else self.number("an extent")

    def extents(self, end: int | None = None) -> tuple[int | None, ...]:
        """`4x?`, the text up to an offset."""
        return tuple(_Item(dim.strip(), self.offset).extent() for dim in _DIM.split(self.text[:end]))

    def shape(self) -> tuple[tuple[int | None, ...], DType] | None:
        """Extents and the element type of `4x?xf32`, if it is that."""
        match = _SHAPE.fullmatch(self.text)
        if match is None:
            return None
        start = match.start("element")
        return self.extents(match.end("dims")), _Item(match["element"], self.offset + start).dtype()

    def dtype(self) -> DType:
        found = _element(self.text.removeprefix("!").removeprefix("pto."))
        if found is None:
            if _BARE_SHAPE.fullmatch(self.text):
                raise self.problem(f"expected an element type behind the extents, as in `{named(self.text)}xf32`")
            known = (*_ELEMENTS, *PLACES, *_LAYOUT_WORDS)
            meant = self.text.lstrip("x") if _element(self.text.lstrip("x")) else near(self.text, known)
            kind = _element(meant)
            hint = f"; did you mean `{kind.mlir if kind else meant}`?" if meant else ""
            raise self.problem(f"`{named(self.text)}` is no element type{hint}")
        return found


_HEAD = re.compile(r"!?(?:pto\.)?([A-Za-z_][\w.]*+)(?:<(.*)>)?", re.DOTALL)
_SHAPE = re.compile(
    r"(?P<dims>(?:[0-9?]+|-1|[A-Za-z])(?:\s*x\s*(?:[0-9?]+|-1|[A-Z]))*)\s*x\s*(?P<element>!?[A-Za-z_][\w.]*+)"
)
_BARE_SHAPE = re.compile(r"[0-9?]++(?:\s*x\s*[0-9?]++)++")
_DIM = re.compile(r"\s*x\s*")
_ITEM = re.compile(r"(?:[^,<>]++|<(?:[^<>]++|<[^<>]*+>)*+>)++")
_KEYED = re.compile(r"\s*([A-Za-z_]\w*+)\s*=\s*")


def read_type(text: str) -> Type | Placeholder:
    """The type of a text."""
    if len(text) > LONGEST:
        raise Problem(f"a type of {len(text)} characters")
    return _read_type(text)


@lru_cache(maxsize=4096)
def _read_type(text: str) -> Type | Placeholder:
    match = _HEAD.fullmatch(text)
    if match is None:
        raise Problem("expected a type")
    name, body = match[1], match[2]
    if body is None:
        return _number_type(name, text)
    reader = _READERS.get(name)
    if reader is None:
        return Opaque(_marked(" ".join(text.split())))
    return reader(name, body, match.start(2))


def _number_type(name: str, text: str) -> Type | Placeholder:
    """`index`, `i32`, `f16`; another type of the dialect is kept as text."""
    if name == "index":
        return name
    if name in ("dtype", "T"):
        return Placeholder("number", name)
    if name in _READERS:
        raise Problem(f"expected `<` after `{name}`", len(text))
    element = _element(name)
    if element is None:
        if text.startswith(("!", "pto.")):
            return Opaque(_marked(text))
        raise Problem(f"`{named(name)}` is no type{guess(name, _NUMBERS)}")
    return element.mlir


def _element(name: str) -> DType | None:
    """The element type of a name, if there is one."""
    return _ELEMENTS.get(name.lower())


_ELEMENTS = {
    spelling.lower(): element
    for element in (*BASE, *FLOAT8, HIFLOAT8, FLOAT8_E8M0, *HOST_ONLY)
    for spelling in (element.name, element.mlir, element.cpp, *element.aliases)
}
_LAYOUT_WORDS = ("row_major", "col_major", "none_box")
_NUMBERS = ("index", "i1", "i8", "i16", "i32", "i64", "ui8", "ui16", "ui32", "ui64", "f16", "bf16", "f32", "f64")


def _marked(text: str) -> str:
    return text if text.startswith("!") else f"!{text}"


def _pointer(_name: str, body: str, offset: int) -> Pointer:
    """`!pto.ptr<f32>`; the address space that some add must be global memory."""
    element, *spaces = _items(body, offset)
    if [space.text for space in spaces] not in ([], ["gm"]):
        raise spaces[0].problem("a pointer points into global memory: `!pto.ptr<T>` or `!pto.ptr<T, gm>`")
    return Pointer(element.dtype())


def _tensor(name: str, body: str, offset: int) -> Tensor | Placeholder:
    """`memref<16x?xf32>`, `memref<f32, 16, 32>` and, for five extents known at run time, `memref<f32, 5>`."""
    items = _items(body, offset)
    if _is_placeholder(items):
        return Placeholder(name if name in EXAMPLES else "memref", body)
    first, *rest = items
    part = name == "partition_tensor_view"
    if (shape := first.shape()) is not None:
        other = next((item for item in rest if item.text != "gm" and not item.text.endswith("<gm>")), None)
        if other is not None:
            raise other.problem("memory with strides of its own is a view: use make_tensor_view")
        return Tensor(*shape, part)
    element = first.dtype()
    dims = (None,) * 5 if [item.text for item in rest] == ["5"] else tuple(item.extent() for item in rest)
    return Tensor(dims, element, part)


def _tile(_name: str, body: str, offset: int) -> TileSpec | Placeholder:
    """A tile in any spelling: short, keyed, compact, or field by field."""
    items = _items(body, offset)
    if _is_placeholder(items):
        return Placeholder("tile", body)
    given_fields: dict[str, Any] = {}
    for item in items:
        fields = _fields(item, given_fields)
        if twice := next((key for key in fields if key in given_fields), ""):
            raise item.problem(f"the type has `{twice}` twice")
        given_fields |= fields
    missing = [key for key in ("dtype", "rows", "cols") if key not in given_fields]
    if missing:
        raise Problem(f"a tile needs {' and '.join(missing)}, as in `{EXAMPLES['tile']}`", offset)
    return _spec(given_fields, items[-1])


def _fields(item: _Item, known: dict[str, Any]) -> dict[str, Any]:
    """The fields that an item gives. Without a key its form identifies it; the order distinguishes rows and columns."""
    key = item.key
    if key and key not in FIELDS:
        raise item.problem(f"a tile has no field `{named(key)}`{guess(key, FIELDS)}")
    if key == "valid":
        if len(_DIM.split(item.text)) != 2:
            raise item.problem("expected the valid extents as `valid=RxC`, with `?` for one known at run time")
        return dict(zip(("v_row", "v_col"), item.extents(), strict=True))
    if not key and (shape := item.shape()) is not None:
        dims, element = shape
        if len(dims) != 2 or None in dims:
            raise item.problem("expected the rows and columns of a tile, as in `16x32xf32`")
        return {"rows": dims[0], "cols": dims[1], "dtype": element}
    if not key:
        if item.text[:1].isdigit() and not _BARE_SHAPE.fullmatch(item.text):
            fits = ["rows", "cols", "fractal", "pad"]
        else:
            fits = [key for key, words in _WORDS.items() if item.text.lower() in words and key != "compact"]
        key = next((key for key in fits if key not in known), fits[-1] if fits else "dtype")
    return {key: _value(key, item)}


def _spec(fields: dict[str, Any], last: _Item) -> TileSpec:
    whole = fields.pop("rows"), fields.pop("cols")
    valid = fields.pop("v_row", whole[0]), fields.pop("v_col", whole[1])
    fields.pop("compact", None)
    if isinstance(fields.get("fractal"), tuple):
        blayout, slayout = fields.pop("fractal")
        if fields.get("slayout", SLayout.NoneBox) is SLayout.NoneBox:
            fields |= {"blayout": blayout, "slayout": slayout}
    for extent, most, what in zip(valid, whole, ("rows", "columns"), strict=True):
        if extent is not None and extent > most:
            raise last.problem(f"{extent} valid {what} are more than the {most} {what} of the tile")
    return tile_spec(fields.pop("dtype"), *whole, valid, **fields)


# --- Fields ------------------------------------------------------------------------------------------------------


def _items(body: str, offset: int) -> list[_Item]:
    """The items between commas, with keys and values separated."""
    items: list[_Item] = []
    for match in _ITEM.finditer(body):
        keyed = _KEYED.match(match[0])
        text = match[0][keyed.end() :] if keyed else match[0]
        start = match.end() - len(text.lstrip())
        items.append(_Item(text.strip().strip('"'), offset + start, keyed[1] if keyed else ""))
    if not items or any(not item.text for item in items):
        raise Problem("an item of the type is empty", offset)
    return items


def _is_placeholder(items: list[_Item]) -> bool:
    """Whether the type has placeholders of the documents: `...`, `RxCxT`, `loc, dtype, rows`."""
    return any(item.text in ("...", "…") or (not item.key and _is_symbolic(item.text)) for item in items)


def _is_symbolic(text: str) -> bool:
    if text in FIELDS:
        return True
    match = _SHAPE.fullmatch(text)
    if match is None:
        return False
    *dims, element = _DIM.split(text)
    return element in ("T", "dtype") or any(dim.isalpha() for dim in dims)


_WORDS: dict[str, dict[str, Any]] = {
    **{key: {word.lower(): member for word, member in spellings(key).items()} for key in WORDED},
    "fractal": {
        **{str(size): size for size in FRACTALS}, "none": 512, "fr": None, "rn": None,
        "nz": (BLayout.ColMajor, SLayout.RowMajor), "zn": (BLayout.RowMajor, SLayout.ColMajor),
    },
    "compact": {"0": 0, "null": 0},
}  # fmt: skip
"""Fields with few values, and the words for them. Of `fr` and `rn` the size is not known; `nz` and `zn` are layouts."""
_WORDS["pad"] |= {"invalid": Pad.Null} | {str(number): pad for number, pad in enumerate(Pad)}
_WHAT = {
    "loc": "place of a tile", "blayout": "layout", "slayout": "layout inside boxes", "fractal": "fractal",
    "pad": "padding", "compact": "compact mode of PTO-AS",
}  # fmt: skip


def _value(key: str, item: _Item) -> Any:
    """The value of a field."""
    if key == "dtype":
        return item.dtype()
    if key in ("v_row", "v_col"):
        return item.extent()
    if key not in _WORDS:
        return item.number("the rows" if key == "rows" else "the columns")
    member = _WORDS[key].get(item.text.lower())
    if member is None:
        raise item.problem(f"`{named(item.text)}` is no {_WHAT[key]}, {_expected(key, item.text)}")
    return member


def _expected(key: str, word: str) -> str:
    if key == "fractal":
        return "write its bytes: 16, 32, 512 or 1024"
    words = [member.text for member in WORDED[key]] if key in WORDED else ["0"]
    return f"expected one of: {choices(word, words)}{guess(word, words)}"


_READERS: dict[str, Callable[[str, str, int], Type | Placeholder]] = {
    **dict.fromkeys(("tile", "tile_buf"), _tile),
    **dict.fromkeys(("memref", "tensor_view", "partition_tensor_view"), _tensor),
    "ptr": _pointer,
}


# --- Writing -----------------------------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def type_text(type_: Type) -> str:
    """A type as PTO-AS writes it."""
    match type_:
        case str():
            return type_
        case Pointer(element):
            return f"!pto.ptr<{element.mlir}>"
        case Tensor(dims, element, is_part):
            name = "partition_tensor_view" if is_part else "memref"
            return f"!pto.{name}<{shape_text(dims, element.mlir)}>"
        case TileSpec():
            return f"!pto.tile<{', '.join(_tile_fields(type_))}>"
        case Opaque(text):
            return text


def _tile_fields(spec: TileSpec) -> list[str]:
    if _layout(spec) == (TileType.Vec, BLayout.RowMajor, SLayout.NoneBox, 512, Pad.Null):
        fields = [shape_text((spec.rows, spec.cols), spec.dtype.mlir)]
    else:
        words = (spec.blayout.text, spec.slayout.text, str(spec.fractal), spec.pad.text)
        fields = [spec.loc.text, spec.dtype.mlir, str(spec.rows), str(spec.cols), *words]
    return fields + valid_text((spec.rows, spec.cols), valid_extents(spec))


def agree(known: Type, written: Type) -> bool:
    """Whether the type at a use is compatible with that of the value: open parts match."""
    if known is written:
        return True
    if isinstance(known, TileSpec) and isinstance(written, TileSpec):
        same = (known.dtype, known.rows, known.cols) == (written.dtype, written.rows, written.cols)
        return same and ("," not in type_text(written) or _layout(written) == _layout(known))
    if isinstance(known, Tensor) and isinstance(written, Tensor):
        pairs = zip(known.dims, written.dims, strict=False)
        open_ = all(a == b or a is None or b is None for a, b in pairs)
        return known.dtype is written.dtype and len(known.dims) == len(written.dims) and open_
    if isinstance(known, str) and isinstance(written, str):
        return known == written or {known, written} <= {"index", "i64", "i32"}
    return known == written


def _layout(spec: TileSpec) -> tuple[object, ...]:
    return spec.loc, spec.blayout, spec.slayout, spec.fractal, spec.pad


DIGITS = 40
"""The longest number."""
_KEYWORD = re.compile(r"#\w+(?:\.(\w+))?\s*<\s*(?:(\w+)\s+)?(\w+)\s*>|#([\w.]+)|<\s*(\w+)\s*>")


def plain_number(text: str) -> int | float:
    """A Python number."""
    if len(text) > DIGITS:
        raise ValueError(f"`{named(text)}` has too many digits")
    if "x" in text.lower():
        return int(text, 16)
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    raise ValueError(f"expected a number, found `{text}`")


def constant(text: str, type_: Type) -> int | Constant:
    """A number of a type: an integer, or the bits of a float, which hexadecimal digits give directly."""
    if not isinstance(type_, str):
        raise ValueError("a number stands here, and its type is not that of a number")
    number = {"true": 1, "false": 0}.get(text)
    number = plain_number(text) if number is None else number
    if type_ == "index" or not dtype(type_).is_float:
        return _whole(number, type_)
    element = dtype(type_)
    if isinstance(number, int) and "x" in text.lower():
        if not 0 <= number < 1 << (8 * element.size):
            raise ValueError(f"{text} has more bits than {type_}")
        return Constant(element, number)
    try:
        return Constant(element, int(float_bits(np.asarray(float(number)), element, type_)[0]))
    except OverflowError:
        raise ValueError(f"{named(text)} is not representable in {type_}") from None


def _whole(number: int | float, kind: str) -> int:
    if not isinstance(number, int):
        raise ValueError(f"expected a whole number for {kind}, found {number}")
    width = 64 if kind == "index" else 1 if kind == "i1" else 8 * dtype(kind).size
    if not -(1 << (width - 1)) <= number < 1 << width:
        raise ValueError(f"{number} does not fit {kind}")
    return number


def constant_text(value: int | Constant, type_: Type) -> str:
    """The text of a number, which reads back as the same number."""
    if isinstance(value, Constant):
        return _bits_text(value.dtype, value.bits)
    return ("true" if value else "false") if type_ == "i1" else str(int(value))


def _bits_text(element: DType, bits: int) -> str:
    if not element.is_float:
        return str(bits)
    number = np.array([bits], element.bits).view(element.numpy)[0]
    for text in (str(number), repr(float(number))):
        if np.isfinite(float(number)) and constant(text, element.mlir) == Constant(element, bits):
            return text if "." in text or "e" in text else f"{text}.0"
    return f"0x{bits:0{2 * element.size}X}"


def keyword(text: str) -> tuple[str, str]:
    """The name and the word of `#pto.pipe<PIPE_V>`, `#pto<pipe PIPE_V>`, `<PIPE_V>` or `#word`."""
    match = _KEYWORD.fullmatch(text)
    if match is None:
        raise ValueError(f"`{named(text)}` is not a keyword, expected one as in #pto.pipe<PIPE_V>")
    name, spaced, *word = match.groups("")
    return name or spaced, "".join(word)


def attributes_text(attributes: Mapping[str, Any]) -> str:
    """`{key = value, ...}`."""
    return "{" + ", ".join(f"{_word_text(key)} = {value_text(value)}" for key, value in attributes.items()) + "}"


def value_text(value: object) -> str:
    """The value of an attribute."""
    match value:
        case bool():
            return str(value).lower()
        case int() | float():
            return str(value)
        case Constant(element, bits):
            return f"{_bits_text(element, bits)} : {element.mlir}"
        case str():
            return _word_text(value)
        case None:
            return "true"
        case _ if (items := items_of(value)) is not None:
            return f"[{', '.join(map(value_text, items))}]"
        case _:
            raise ValueError(f"an attribute that is {type(value).__name__} has no spelling")


def _word_text(word: str) -> str:
    return escaped(word) if word in ("true", "false") else bare_or_quoted(word)
