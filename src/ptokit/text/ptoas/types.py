"""Types of PTO-AS: every spelling of the documents is read, one is written.

A tile is written short, `!pto.tile<16x32xf32>`, if it lies in `vec`, is row-major, has no boxes, fractals of 512
bytes and no padding value; else with all its fields, `!pto.tile<mat, f16, 16, 32, col_major, row_major, 512, null>`.
A valid region that is not the whole tile follows: `valid=8x?`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ptokit.brief import named
from ptokit.finding import near
from ptokit.isa.dtype import BASE, FLOAT8, FLOAT8_E8M0, HIFLOAT8, HOST_ONLY, DType
from ptokit.isa.operand import TileSpec
from ptokit.isa.policy import BLayout, Pad, SLayout, TileType
from ptokit.text.errors import Problem, choices, guess
from ptokit.text.tiles import FRACTALS, PLACES, WORDED, shape_text, spellings, tile_spec, valid_extents, valid_text
from ptokit.text.tree import Opaque, Pointer, Tensor, Type

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
        found = _SHAPE.fullmatch(self.text)
        if found is None:
            return None
        start = found.start("element")
        return self.extents(found.end("dims")), _Item(found["element"], self.offset + start).dtype()

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
    found: dict[str, Any] = {}
    for item in items:
        fields = _fields(item, found)
        if twice := next((key for key in fields if key in found), ""):
            raise item.problem(f"the type has `{twice}` twice")
        found |= fields
    missing = [key for key in ("dtype", "rows", "cols") if key not in found]
    if missing:
        raise Problem(f"a tile needs {' and '.join(missing)}, as in `{EXAMPLES['tile']}`", offset)
    return _spec(found, items[-1])


def _fields(item: _Item, found: dict[str, Any]) -> dict[str, Any]:
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
        key = next((key for key in fits if key not in found), fits[-1] if fits else "dtype")
    return {key: _value(key, item)}


def _spec(found: dict[str, Any], last: _Item) -> TileSpec:
    whole = found.pop("rows"), found.pop("cols")
    valid = found.pop("v_row", whole[0]), found.pop("v_col", whole[1])
    found.pop("compact", None)
    if isinstance(found.get("fractal"), tuple):
        blayout, slayout = found.pop("fractal")
        if found.get("slayout", SLayout.NoneBox) is SLayout.NoneBox:
            found |= {"blayout": blayout, "slayout": slayout}
    for extent, most, what in zip(valid, whole, ("rows", "columns"), strict=True):
        if extent is not None and extent > most:
            raise last.problem(f"{extent} valid {what} are more than the {most} {what} of the tile")
    return tile_spec(found.pop("dtype"), *whole, valid, **found)


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
    found = _WORDS[key].get(item.text.lower())
    if found is None:
        raise item.problem(f"`{named(item.text)}` is no {_WHAT[key]}, {_expected(key, item.text)}")
    return found


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
def type_text(kind: Type) -> str:
    """A type as PTO-AS writes it."""
    match kind:
        case str():
            return kind
        case Pointer(element):
            return f"!pto.ptr<{element.mlir}>"
        case Tensor(dims, element, is_part):
            name = "partition_tensor_view" if is_part else "memref"
            return f"!pto.{name}<{shape_text(dims, element.mlir)}>"
        case TileSpec():
            return f"!pto.tile<{', '.join(_tile_fields(kind))}>"
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
