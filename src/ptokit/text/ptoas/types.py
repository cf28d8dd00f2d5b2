"""Types of PTO-AS: every spelling of the documents is read, one is written.

A tile is written short, `!pto.tile<16x32xf32>`, if it lies in `vec`, is row-major, has no boxes, fractals of 512
bytes and no padding value; else with all its fields, `!pto.tile<mat, f16, 16, 32, col_major, row_major, 512, null>`.
A valid region that is not the whole tile follows: `valid=8x?`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from ptokit.finding import near
from ptokit.isa.dtype import BASE, FLOAT8, HIFLOAT8, HOST_ONLY, DType
from ptokit.isa.operand import TileSpec
from ptokit.isa.policy import BLayout, Pad, PtoEnum, SLayout, TileType
from ptokit.isa.unknown import is_unknown, unknown
from ptokit.text.errors import Problem, choices, guess
from ptokit.text.tree import Opaque, Pointer, Tensor, Type

MOST = 1 << 31
"""The limit of an extent."""
LONGEST = 1000
"""The longest type, in characters."""
FRACTALS = (16, 32, 512, 1024)
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
            raise self.problem(f"expected a number for {what}, found `{shortened(self.text)}`")
        return int(self.text)


_HEAD = re.compile(r"!?(?:pto\.)?([A-Za-z_][\w.]*+)(?:<(.*)>)?", re.DOTALL)
_SHAPE = re.compile(r"(?:[0-9?]+|-1|[A-Za-z])(?:\s*x\s*(?:[0-9?]+|-1|[A-Z]))*\s*x\s*(?P<element>!?[A-Za-z_][\w.]*+)")
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
    found = _HEAD.fullmatch(text)
    if found is None:
        raise Problem("expected a type")
    name, body = found[1], found[2]
    if body is None:
        return _number_type(name, text)
    reader = _READERS.get(name)
    if reader is None:
        return Opaque(_marked(" ".join(text.split())))
    return reader(name, body, found.start(2))


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
        raise Problem(f"`{shortened(name)}` is no type{guess(name, _NUMBERS)}")
    return element.mlir


def _element(name: str) -> DType | None:
    """The element type of a name, if there is one."""
    return _ELEMENTS.get(name.lower())


_ELEMENTS = {
    spelling.lower(): element
    for element in (*BASE, *FLOAT8, HIFLOAT8, *HOST_ONLY)
    for spelling in (element.name, element.mlir, element.cpp, *element.aliases)
}
_NUMBERS = ("index", "i1", "i8", "i16", "i32", "i64", "ui8", "ui16", "ui32", "ui64", "f16", "bf16", "f32", "f64")


def _marked(text: str) -> str:
    return text if text.startswith("!") else f"!{text}"


def _pointer(_name: str, body: str, offset: int) -> Pointer:
    """`!pto.ptr<f32>`; the address space that some add must be global memory."""
    element, *spaces = _items(body, offset)
    if [space.text for space in spaces] not in ([], ["gm"]):
        raise spaces[0].problem("a pointer points into global memory: `!pto.ptr<T>` or `!pto.ptr<T, gm>`")
    return Pointer(_dtype(element.text, element))


def _tensor(name: str, body: str, offset: int) -> Tensor | Placeholder:
    """`memref<16x?xf32>`, `memref<f32, 16, 32>` and, for five extents known at run time, `memref<f32, 5>`."""
    items = _items(body, offset)
    if _is_placeholder(items):
        return Placeholder(name if name in EXAMPLES else "memref", body)
    first, *rest = items
    part = name == "partition_tensor_view"
    if _SHAPE.fullmatch(first.text):
        for item in rest:
            if item.text != "gm" and not item.text.endswith("<gm>"):
                raise item.problem("memory with strides of its own is a view: use make_tensor_view")
        dims, element = _shape(first)
        return Tensor(dims, element, part)
    if not rest and first.text.isalnum() and not first.text.isdigit():
        return Tensor((), _dtype(first.text, first), part)
    element = _dtype(first.text, first)
    if [item.text for item in rest] == ["5"]:
        return Tensor((None,) * 5, element, part)
    return Tensor(tuple(_extent(item.text, item) for item in rest), element, part)


@dataclass
class _Tile:
    """The fields of a tile that were read so far."""

    fields: dict[str, Any] = field(default_factory=dict)

    def put(self, key: str, value: object, item: _Item) -> None:
        """Set a field, which must not be set yet."""
        if key in self.fields:
            raise item.problem(f"the type has `{key}` twice")
        self.fields[key] = value

    def next_of(self, item: _Item, *keys: str) -> str:
        """The first of some fields that is not set yet."""
        for key in keys:
            if key not in self.fields:
                return key
        raise item.problem(f"`{shortened(item.text)}` is one field too many")


def _tile(_name: str, body: str, offset: int) -> TileSpec | Placeholder:
    """A tile in any spelling: short, keyed, compact, or field by field."""
    items = _items(body, offset)
    if _is_placeholder(items):
        return Placeholder("tile", body)
    tile = _Tile()
    for item in items:
        if item.key:
            _take_keyed(tile, item)
        else:
            _take_positional(tile, item)
    missing = [key for key in ("dtype", "rows", "cols") if key not in tile.fields]
    if missing:
        raise Problem(f"a tile needs {' and '.join(missing)}, as in `{EXAMPLES['tile']}`", offset)
    return _spec(tile, items[-1])


def _take_keyed(tile: _Tile, item: _Item) -> None:
    key = item.key
    if key not in FIELDS:
        raise item.problem(f"a tile has no field `{shortened(key)}`{guess(key, FIELDS)}")
    if key == "valid":
        rows, *cols = _DIM.split(item.text)
        if len(cols) != 1:
            raise item.problem("expected the valid extents as `valid=RxC`, with `?` for one known at run time")
        tile.put("v_row", _extent(rows, item), item)
        tile.put("v_col", _extent(cols[0], item), item)
    else:
        tile.put(key, _FIELD_READERS[key](item), item)


def _take_positional(tile: _Tile, item: _Item) -> None:
    """A field without its name: its form identifies it, and the order distinguishes rows and columns."""
    word = item.text.replace("_", "").lower()
    if _SHAPE.fullmatch(item.text):
        dims, element = _shape(item)
        if len(dims) != 2 or None in dims:
            raise item.problem("expected the rows and columns of a tile, as in `16x32xf32`")
        for key, value in (("rows", dims[0]), ("cols", dims[1]), ("dtype", element)):
            tile.put(key, value, item)
        return
    if item.text[:1].isdigit() and not _BARE_SHAPE.fullmatch(item.text):
        key = tile.next_of(item, "rows", "cols", "fractal", "pad")
    elif word in _LOCS:
        key = "loc"
    elif word in ("rowmajor", "colmajor"):
        key = tile.next_of(item, "blayout", "slayout")
    elif word == "nonebox":
        key = "slayout"
    else:
        text = item.text.lower()
        key = "fractal" if text in _FRACTAL_WORDS else "pad" if text in _PAD_WORDS else "dtype"
    tile.put(key, _FIELD_READERS[key](item), item)


def _spec(tile: _Tile, last: _Item) -> TileSpec:
    found = tile.fields
    rows, cols = found["rows"], found["cols"]
    valid = found.get("v_row", rows), found.get("v_col", cols)
    blayout, slayout = found.get("blayout", BLayout.RowMajor), found.get("slayout", SLayout.NoneBox)
    fractal = found.get("fractal", 512)
    if isinstance(fractal, tuple):
        blayout, slayout = (blayout, slayout) if slayout is not SLayout.NoneBox else fractal
        fractal = 512
    for extent, most, what in ((valid[0], rows, "rows"), (valid[1], cols, "columns")):
        if extent is not None and extent > most:
            raise last.problem(f"{extent} valid {what} are more than the {most} {what} of the tile")
    dynamic = valid[0] is None, valid[1] is None
    v_row, v_col = (unknown() if extent is None else extent for extent in valid)
    loc, pad = found.get("loc", TileType.Vec), found.get("pad", Pad.Null)
    layout: dict[str, Any] = {"blayout": blayout, "slayout": slayout, "fractal": fractal, "pad": pad}
    return TileSpec(found["dtype"], loc, rows, cols, v_row, v_col, **layout, dynamic=dynamic)


# --- Fields ------------------------------------------------------------------------------------------------------


def _items(body: str, offset: int) -> list[_Item]:
    """The items between commas, with keys and values separated."""
    items: list[_Item] = []
    for found in _ITEM.finditer(body):
        keyed = _KEYED.match(found[0])
        text = found[0][keyed.end() :] if keyed else found[0]
        start = found.end() - len(text.lstrip())
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
    found = _SHAPE.fullmatch(text)
    if found is None:
        return False
    *dims, element = _DIM.split(text)
    return element in ("T", "dtype") or any(dim.isalpha() for dim in dims)


def _shape(item: _Item) -> tuple[tuple[int | None, ...], DType]:
    """`4x?xf32`: extents, and the element type."""
    element = _SHAPE.fullmatch(item.text)
    assert element is not None
    dims = _DIM.split(item.text[: element.start("element")].rstrip(" \tx"))
    name = _Item(element["element"], item.offset + element.start("element"))
    return tuple(_extent(dim, item) for dim in dims), _dtype(name.text, name)


def _extent(text: str, item: _Item) -> int | None:
    text = text.strip()
    return None if text in ("?", "-1") else _Item(text, item.offset).number("an extent")


def _dtype(text: str, item: _Item) -> DType:
    found = _element(text.removeprefix("!").removeprefix("pto."))
    if found is None:
        if _BARE_SHAPE.fullmatch(text):
            raise item.problem(f"expected an element type behind the extents, as in `{shortened(text)}xf32`")
        meant = text.lstrip("x") if _element(text.lstrip("x")) else near(text, (*_ELEMENTS, *_LOCS, *_LAYOUT_WORDS))
        kind = _element(meant)
        known = f"; did you mean `{kind.mlir if kind else meant}`?" if meant else ""
        raise item.problem(f"`{shortened(text)}` is no element type{known}")
    return found


def _word(enum: type[PtoEnum], what: str) -> Callable[[_Item], PtoEnum]:
    """A reader of a word, in the spelling of text or of C++."""
    known = {member.text.replace("_", ""): member for member in enum}

    def read(item: _Item) -> PtoEnum:
        found = known.get(item.text.replace("_", "").lower())
        if found is None:
            words = [member.text for member in enum]
            message = f"`{shortened(item.text)}` is no {what}, expected one of: {choices(item.text, words)}"
            raise item.problem(message + guess(item.text, words))
        return found

    return read


def _fractal(item: _Item) -> object:
    """Bytes of a fractal, or a word of the older pages; NZ and ZN give the layout too."""
    word = item.text.lower()
    if word in ("fr", "rn"):
        raise item.problem(f"the size of the fractal `{item.text}` is not known; write its bytes: 16, 32, 512 or 1024")
    if word in _FRACTAL_WORDS:
        return _FRACTAL_WORDS[word]
    size = item.number("the fractal")
    if size not in FRACTALS:
        raise item.problem(f"a fractal has 16, 32, 512 or 1024 bytes, found {size}")
    return size


def _pad(item: _Item) -> Pad:
    word = item.text.lower()
    if word in _PAD_WORDS:
        return _PAD_WORDS[word]
    known = " ".join(pad.text for pad in Pad)
    raise item.problem(f"`{shortened(item.text)}` is no padding, expected one of: {known}{guess(word, _PAD_WORDS)}")


def _compact(item: _Item) -> None:
    if item.text not in ("0", "null"):
        raise item.problem("compact tiles have no spelling in PTO-AS; only compact=0 is read")


_LOCS = {loc.text: loc for loc in TileType}
_LAYOUT_WORDS = ("row_major", "col_major", "none_box")
_FRACTAL_WORDS: dict[str, object] = {
    "none": 512, "nz": (BLayout.ColMajor, SLayout.RowMajor), "zn": (BLayout.RowMajor, SLayout.ColMajor),
    "fr": None, "rn": None,
}  # fmt: skip
_PAD_WORDS = {
    **{pad.text: pad for pad in Pad}, "invalid": Pad.Null,
    **{str(number): pad for number, pad in enumerate((Pad.Null, Pad.Zero, Pad.Max, Pad.Min))},
}  # fmt: skip
"""Paddings by their words and numbers."""

_FIELD_READERS: dict[str, Callable[[_Item], object]] = {
    "loc": _word(TileType, "place of a tile"),
    "dtype": lambda item: _dtype(item.text, item),
    "rows": lambda item: item.number("the rows"),
    "cols": lambda item: item.number("the columns"),
    "v_row": lambda item: _extent(item.text, item),
    "v_col": lambda item: _extent(item.text, item),
    "blayout": _word(BLayout, "layout"),
    "slayout": _word(SLayout, "layout inside boxes"),
    "fractal": _fractal,
    "pad": _pad,
    "compact": _compact,
}

_READERS: dict[str, Callable[[str, str, int], Type | Placeholder]] = {
    **dict.fromkeys(("tile", "tile_buf"), _tile),
    **dict.fromkeys(("memref", "tensor_view", "partition_tensor_view"), _tensor),
    "ptr": _pointer,
}


def shortened(text: str) -> str:
    """A text, shortened for a message."""
    return text if len(text) <= 60 else f"{text[:57]}..."


# --- Writing -----------------------------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def type_text(kind: Type) -> str:
    """A type as PTO-AS writes it."""
    match kind:
        case str():
            return kind
        case Pointer(element):
            return f"!pto.ptr<{element.mlir}>"
        case Tensor(dims, element, is_part):
            name = "partition_tensor_view" if is_part else "memref"
            return f"!pto.{name}<{''.join(f'{_shown(dim)}x' for dim in dims)}{element.mlir}>"
        case TileSpec():
            return f"!pto.tile<{', '.join(_tile_fields(kind))}>"
        case Opaque(text):
            return text


def _tile_fields(spec: TileSpec) -> list[str]:
    layout = (spec.blayout, spec.slayout, spec.fractal, spec.pad)
    if (spec.loc, *layout) == (TileType.Vec, BLayout.RowMajor, SLayout.NoneBox, 512, Pad.Null):
        fields = [f"{spec.rows}x{spec.cols}x{spec.dtype.mlir}"]
    else:
        words = (spec.blayout.text, spec.slayout.text, str(spec.fractal), spec.pad.text)
        fields = [spec.loc.text, spec.dtype.mlir, str(spec.rows), str(spec.cols), *words]
    if any(spec.dynamic) or spec.valid != (spec.rows, spec.cols):
        open_ = zip(spec.valid, spec.dynamic, strict=True)
        fields.append(f"valid={'x'.join(_shown(None if dynamic else extent) for extent, dynamic in open_)}")
    return fields


def _shown(extent: int | None) -> str:
    return "?" if extent is None or is_unknown(extent) else str(extent)


def agree(known: Type, written: Type) -> bool:
    """Whether the type at a use is compatible with that of the value: open parts match."""
    if isinstance(known, TileSpec) and isinstance(written, TileSpec):
        same = (known.dtype, known.rows, known.cols) == (written.dtype, written.rows, written.cols)
        return same and (written == known or _is_short(written) or _but_valid(written) == _but_valid(known))
    if isinstance(known, Tensor) and isinstance(written, Tensor):
        pairs = zip(known.dims, written.dims, strict=False)
        open_ = all(a == b or a is None or b is None for a, b in pairs)
        return known.dtype is written.dtype and (len(known.dims) == len(written.dims) and open_)
    if isinstance(known, str) and isinstance(written, str):
        return known == written or {known, written} <= {"index", "i64", "i32"}
    return known == written


def _is_short(spec: TileSpec) -> bool:
    return "," not in type_text(spec)


def _but_valid(spec: TileSpec) -> tuple[object, ...]:
    return spec.loc, spec.blayout, spec.slayout, spec.fractal, spec.pad
