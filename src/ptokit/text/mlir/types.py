"""Types: those of MLIR itself, and those of the dialect `pto`.

Both spellings of a tile buffer give one type; it is printed in the compact one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import prod
from typing import Any

from ptokit.finding import near
from ptokit.isa.dtype import DType, dtype
from ptokit.isa.operand import CUBE_FORMS, LAYOUTS, TileSpec
from ptokit.isa.policy import TileType
from ptokit.target import left_layouts, memory_names
from ptokit.text.cursor import Cursor
from ptokit.text.mlir.ir import MlirAttribute, Type
from ptokit.text.tiles import FRACTALS, PADS, PLACES, WORDED, Extent, shape_text, spellings, tile_spec, valid_text
from ptokit.text.tree import Opaque, Pointer, Tensor
from ptokit.text.tree import Type as TreeType

"""The layout that a tile in `left` has on an architecture, whatever its text says."""
OTHER_PLACES = {name.lower(): place.text for name, place in memory_names().items()}
"""Places by the names of their memories."""
SPACES = ("zero", "gm", *PLACES, "ub")
"""Address spaces."""
MAX_RANK = 64
"""Most extents of a type."""
MAX_WIDTH = 99_999
"""The widest integer type."""


# --- What types are made of --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ptr:
    """`!pto.ptr<f32>`; some versions add an address space."""

    element: Type
    space: str = ""


@dataclass(frozen=True)
class Ranked:
    """Extents and an element type, under the name of the type: `tensor`, `pto.tensor_view`."""

    name: str
    dims: tuple[Extent, ...]
    element: Type
    rest: tuple[MlirAttribute, ...] = ()
    """What follows: a layout, a memory space."""
    arch: str = field(default="", compare=False)
    """The architecture of the text that states it."""


@dataclass(frozen=True)
class TileBuf:
    """What a tile buffer is: place, shape, element, valid extents, layout."""

    loc: str
    rows: int
    cols: int
    dtype: Type
    v_row: Extent
    v_col: Extent
    blayout: str = "row_major"
    slayout: str = "none_box"
    fractal: int = 512
    pad: int = 0
    compact: int = 0


@dataclass(frozen=True)
class Signature:
    """The type of a function."""

    inputs: tuple[Type, ...]
    outputs: tuple[Type, ...]


NUMBERS = {"fractal": FRACTALS, "pad": tuple(range(len(PADS))), "compact": (0, 1, 2)}
OPTIONS = ("blayout", "slayout", "fractal", "pad", "compact")
"""Fields with a default, in the order in which they are printed."""
DEFAULTS = {name: TileBuf.__dataclass_fields__[name].default for name in OPTIONS}
POSITIONAL: dict[str, dict[str, Any]] = {
    **{key: {word: member.text for word, member in spellings(key).items()} for key in ("blayout", "slayout")},
    "fractal": {"None": 512},
    "pad": {word: PADS.index(pad) for word, pad in spellings("pad").items()},
}
"""Fields of the positional spelling behind the extents, in their order, with the words for their values."""
KEYED = ("loc", "dtype", "rows", "cols", "v_row", "v_col", *OPTIONS)
"""Fields of the keyed spelling, in their order; only the last may be missing."""


# --- Any type ------------------------------------------------------------------------------------------------------

FLOATS = (
    "f16", "bf16", "f32", "f64", "tf32", "f80", "f128", "f8E5M2", "f8E4M3", "f8E4M3FN", "f8E5M2FNUZ", "f8E4M3FNUZ",
    "f8E4M3B11FNUZ", "f8E3M4", "f8E8M0FNU", "f4E2M1FN", "f6E2M3FN", "f6E3M2FN",
)  # fmt: skip
INDEX, I1, I64, F64 = Type("index"), Type("i1"), Type("i64"), Type("f64")
DIALECT_TYPES = {name: Type(f"!pto.{name}") for name in ("hif8", "f8E8M0")}
"""Element types that MLIR does not know."""
SIMPLE: dict[str, Type] = {
    **{name: Type(name) for name in (*FLOATS, "index", "none")},
    **{f"u{width}": Type(f"ui{width}") for width in (8, 16, 32, 64)},
    **DIALECT_TYPES,
}
"""Types that are one word; element types as pages spell them are among them."""
_INTEGER = re.compile(r"[su]?i[1-9][0-9]*")
_DIM = re.compile(r"\s*(\d+|\?|\[\d+\])\s*x", re.ASCII)
_KEY = re.compile(r'![A-Za-z_.]+<[^<>"/]{0,400}>')
_UNMARKED = re.compile(r"pto\.(?:tile|tile_buf|partition_tensor_view|tensor_view|ptr|memref)<")


def read_type(c: Cursor) -> Type:
    """A type."""
    found = optional_type(c)
    if found is None:
        c.expected("a type", type_hint(c))
    return found


def optional_type(c: Cursor) -> Type | None:
    """A type, if there is one."""
    if c.kind == "bang":
        return _dialect_type(c)
    if c.kind == "bare":
        return _bare_type(c)
    return function_type(c) if c.word == "(" else None


def _bare_type(c: Cursor) -> Type | None:
    word = c.word
    if (simple := SIMPLE.get(word)) is not None:
        c.advance()
        return simple
    if _INTEGER.fullmatch(word):
        if int(word.lstrip("sui")[:9]) > MAX_WIDTH:
            c.fail(f"`{word[:40]}` is too wide for an integer type")
        c.advance()
        return Type(word)
    if (read := BUILTIN.get(word)) is not None and c.text.startswith("<", c.end):
        c.advance()
        kind = read(c, word)
        c.spend(len(kind.text))
        return kind
    if _UNMARKED.match(c.text, c.start):
        name = c.advance().removeprefix("pto.")
        return PTO_TYPES[name](c, name) if name in PTO_TYPES else Type(f"!pto.{name}<{c.body()}>")
    return None


def _dialect_type(c: Cursor) -> Type:
    """A type of a dialect, or an alias. The same text gives the same type, so it is looked up first."""
    key = _KEY.match(c.text, c.start)
    if key is not None and (known := c.types.get(key[0])) is not None:
        c.spent += len(known.text)  # without a call: most types are found here
        if c.spent > c.most:
            c.spend(0)
        c.jump(key.end())
        return known
    at, name = c.start, c.advance()[1:]
    if (alias := c.alias(f"!{name}", at)) is not None:
        return alias
    if name.startswith("pto.") and name[4:] in PTO_TYPES:
        type_ = PTO_TYPES[name[4:]](c, name[4:])
    elif c.word == "<" and c.start == c.behind:
        type_ = Type(f"!{name}<{c.body()}>")
    else:
        type_ = Type(f"!{name}")
    c.spend(len(type_.text))
    if key is not None:
        c.types[key[0]] = type_
    return type_


def function_type(c: Cursor) -> Type:
    """`(T, U) -> V`."""
    inputs = c.listed("(", c.type)
    c.expect("->")
    outputs = type_list(c)
    text = signature_text(inputs, outputs)
    c.spend(len(text))
    return Type(text, Signature(tuple(inputs), tuple(outputs)))


def type_list(c: Cursor) -> list[Type]:
    """`T`, or `(T, U)`."""
    return c.listed("(", c.type) if c.word == "(" else [c.type()]


def signature_text(inputs: list[Type] | tuple[Type, ...], outputs: list[Type] | tuple[Type, ...]) -> str:
    """`(T, U) -> V`."""
    return f"({', '.join(type_.text for type_ in inputs)}) -> {outputs_text(outputs)}"


def outputs_text(outputs: list[Type] | tuple[Type, ...]) -> str:
    """`T`, or `(T, U)`."""
    if len(outputs) == 1 and not outputs[0].text.startswith("("):
        return outputs[0].text
    return f"({', '.join(type_.text for type_ in outputs)})"


# --- Types of MLIR itself ------------------------------------------------------------------------------------------


def read_dims(c: Cursor) -> list[str]:
    """Extents, each with its `x`, as they are written."""
    dims: list[str] = []
    at = c.start
    while (match := _DIM.match(c.text, at)) is not None:
        dims.append(match[1])
        at = match.end()
        if len(dims) > MAX_RANK or len(match[1]) > 20:
            c.fail(f"a type of more than {MAX_RANK} extents, or of larger ones than any memory")
    if dims:
        c.jump(at)
        c.behind = c.start  # an element that is missing is missing here
    if c.kind == "number":
        c.fail("expected `x` behind an extent", c.end)
    return dims


def _extents(dims: list[str]) -> tuple[Extent, ...]:
    return tuple(None if dim == "?" else int(dim.strip("[]")) for dim in dims)


def _shaped(c: Cursor, name: str) -> Type:
    """`tensor<4x?xf32, #encoding>`, `vector<[4]xf32>`, `memref<4xf32, strided<[1]>, 1 : i64>`."""
    c.expect("<")
    dims = ["*"] if c.word == "*" else read_dims(c)
    if dims == ["*"]:
        unranked = re.compile(r"\*\s*x").match(c.text, c.start)
        if unranked is None:
            c.expected("`*x`")
        c.jump(unranked.end())
    element = c.type()
    rest = c.separated(c.attribute) if c.accept(",") else []
    c.expect(">")
    text = "".join(f"{dim}x" for dim in dims) + ", ".join([element.text, *(attribute.text for attribute in rest)])
    data = Ranked(name, _extents(dims), element, tuple(rest), c.arch) if dims != ["*"] else None
    return Type(f"{name}<{text}>", data)


def _complex(c: Cursor, name: str) -> Type:
    return Type(f"{name}<{', '.join(type_.text for type_ in c.listed('<', c.type))}>")


BUILTIN: dict[str, Callable[[Cursor, str], Type]] = {
    **dict.fromkeys(("tensor", "vector", "memref"), _shaped),
    **dict.fromkeys(("complex", "tuple"), _complex),
}


# --- Types of `pto` ------------------------------------------------------------------------------------------------


def ptr_type(element: Type, space: str = "") -> Type:
    """A pointer."""
    return Type(f"!pto.ptr<{element.text}{f', {space}' if space else ''}>", Ptr(element, space))


def ranked_type(name: str, dims: tuple[Extent, ...], element: Type) -> Type:
    """A type of `pto` with extents and an element."""
    return Type(f"!pto.{name}<{shape_text(dims, element.text)}>", Ranked(name, dims, element))


@lru_cache(maxsize=4096)
def buffer_type(tile: TileBuf) -> Type:
    """A tile as a buffer, in the compact spelling."""
    items = [tile.loc, shape_text((tile.rows, tile.cols), tile.dtype.text), *_valid_item(tile)]
    items += [f"{key}={getattr(tile, key)}" for key, default in DEFAULTS.items() if getattr(tile, key) != default]
    return Type(f"!pto.tile_buf<{', '.join(items)}>", tile)


def _valid_item(tile: TileBuf) -> list[str]:
    return valid_text((tile.rows, tile.cols), (tile.v_row, tile.v_col))


@lru_cache(maxsize=4096)
def tile_type(tile: TileBuf) -> Type:
    """A tile as a value, in the positional spelling (CO-ASM-04), with valid extents that are not all of it (A-28)."""
    items = [tile.loc, tile.dtype.text, tile.rows, tile.cols, tile.blayout, tile.slayout, tile.fractal]
    items += [PADS[tile.pad].text, *_valid_item(tile)]
    return Type(f"!pto.tile<{', '.join(map(str, items))}>", tile)


def with_tile(type_: Type, tile: TileBuf) -> Type:
    """A type like another one, of another tile."""
    return buffer_type(tile) if type_.text.startswith("!pto.tile_buf") else tile_type(tile)


def read_pointer(c: Cursor, _name: str = "ptr") -> Type:
    """`<f32>`, also with an address space."""
    c.expect("<")
    element, space = c.type(), ""
    if c.accept(","):
        space = _space(c)
    c.expect(">")
    return ptr_type(element, space)


def _space(c: Cursor) -> str:
    """An address space: a word, or the attribute."""
    if c.word == "#pto.address_space":
        return str(c.attribute().value)
    return c.one_of("address space", SPACES)


def _view(c: Cursor, name: str) -> Type:
    c.expect("<")
    dims = _extents(read_dims(c))
    element = c.type()
    c.expect(">")
    return ranked_type(name, dims, element)


def _events(c: Cursor, name: str) -> Type:
    c.expect("<")
    count = c.integer()
    c.expect(">")
    return Type(f"!pto.{name}<{count}>")


def _bare(c: Cursor, name: str) -> Type:
    if c.word == "<" and c.start == c.behind:
        c.fail(f"!pto.{name} has no parameters")
    return Type(f"!pto.{name}")


_DIMENSION = r"(?:\d+|\?)"
_KINDS = {
    "shape": re.compile(rf"\s*(?:{_DIMENSION}x)+(?![A-Z]x|[A-Z]\w*\Z).*", re.DOTALL | re.ASCII),
    "full": re.compile(r"\s*(?:loc\s*=\s*)?\"?\w+\"?\s*,[^,]*,\s*\d+\s*,\s*\d+\s*(?:,.*)?", re.DOTALL | re.ASCII),
    "short": re.compile(r"[^,]*,\s*\d+\s*,\s*\d+\s*", re.ASCII),
}
"""What the body of a tile may be; the first that fits is it."""


def _tile_kind(body: str) -> str:
    """Which of the spellings the body of a tile has. Those that pages abbreviate are words."""
    kind = next((kind for kind, pattern in _KINDS.items() if pattern.fullmatch(body)), "words")
    if kind == "shape" and re.search(r"x\s*[A-Z]", body):
        return "words"
    known = {*PLACES, *(word for words in POSITIONAL.values() for word in words), ""}
    rest = re.split(r"[\s,<>=\"]+", re.sub(r"valid\s*=\s*[\d?x]+|loc\s*=", "", body))
    if kind == "full" and not all(word in known or word.isdigit() for word in rest[:1] + rest[4:]):
        return "words"
    return kind


def _tile(c: Cursor, name: str) -> Type:
    """`!pto.tile<32x32xf32>`, or in full: `!pto.tile<vec, f32, 32, 32, row_major, none_box, 512, null, valid=32x?>`.

    A body with names instead of numbers, as pages have them, is kept as it is written.
    """
    if c.word != "<" or c.start != c.behind:
        return Type("!pto.tile")
    at = c.start
    body = c.body()
    kind = _tile_kind(body)
    if kind == "words":
        return Type(f"!pto.tile<{' '.join(body.split())}>")
    c.jump(at)
    if kind == "shape":
        return _view(c, name)
    c.advance()
    if kind == "full":
        tile = _placed(c, _positional(c, _place(c)))
        c.expect(">")
        return tile_type(tile)
    element = c.type()
    rows, cols = _number(c), _number(c)
    c.expect(">")
    return ranked_type(name, (rows, cols), element)


def _tile_buf(c: Cursor, _name: str) -> Type:
    """`!pto.tile_buf<vec, 1x64xi32, valid=1x?>`, or keyed: `!pto.tile_buf<loc=vec, dtype=i32, rows=1, ...>`.

    Pages also have the positional spelling behind `loc=vec`.
    """
    c.expect("<")
    is_keyed = c.word == "loc" and _EQUALS.match(c.text, c.end) is not None
    bare = _NO_PLACE.match(c.text, c.start)
    if bare is not None and bare[1] not in PLACES:
        hint = f"did you mean `vec, {bare[2]}x{bare[3]}x{bare[1]}`?"
        c.fail("expected the place of a tile first", hint=hint)
    loc = _place(c) if is_keyed else _value(c, "loc")
    if _LOOKS_POSITIONAL.match(c.text, c.start):
        tile = _positional(c, loc)
    else:
        tile = _keyed(c, loc) if is_keyed else _compact(c, loc)
    c.expect(">")
    return buffer_type(_placed(c, tile))


def _placed(c: Cursor, tile: TileBuf) -> TileBuf:
    """The tile with the layout that its place asks for."""
    layout = left_layouts().get(c.arch) if tile.loc == "left" else None
    return replace(tile, blayout=layout.text) if layout else tile


def _place(c: Cursor) -> str:
    """`vec` or `loc=vec`."""
    if c.accept("loc"):
        c.expect("=")
    return _value(c, "loc")


def _number(c: Cursor) -> int:
    c.expect(",")
    return c.integer()


def _positional(c: Cursor, loc: str) -> TileBuf:
    """`, f32, 16, 32, row_major, none_box, 512, null, valid=16x?` behind the place; an end may be missing."""
    c.expect(",")
    element = c.type()
    rows, cols = _number(c), _number(c)
    values: dict[str, Any] = {}
    fields = iter(POSITIONAL)
    while c.accept(","):
        if c.accept("valid"):
            c.expect("=")
            values["valid"] = _value(c, "valid")
            break
        if (field := next(fields, None)) is None:
            c.fail(f"expected no more than: loc dtype rows cols {' '.join(POSITIONAL)} valid=RxC")
        values[field] = _spelled(c, field)
    v_row, v_col = values.pop("valid", (rows, cols))
    return TileBuf(loc, rows, cols, element, v_row, v_col, **values)


def _spelled(c: Cursor, field: str) -> Any:
    """The value of a field in the positional spelling: a word for it, or its number."""
    if field in NUMBERS and c.kind == "number":
        return _value(c, field)
    return POSITIONAL[field][c.one_of(field, tuple(POSITIONAL[field]))]


def _keyed(c: Cursor, loc: str) -> TileBuf:
    """The keyed spelling, behind the place."""
    fields: dict[str, Any] = {"loc": loc}
    for key in KEYED[1:]:
        if key == "compact" and c.word != ",":
            break
        c.expect(",", f" before `{key}` in a keyed tile_buf, whose order is: {' '.join(KEYED)}", expects="token")
        c.expect(key, f" in a keyed tile_buf, whose order is: {' '.join(KEYED)}", expects="token")
        c.expect("=")
        fields[key] = _value(c, key)
    return TileBuf(**fields)


_EQUALS = re.compile(r"\s*=")
_NO_PLACE = re.compile(r"(\w{1,9})\s*,\s*(\d{1,9})\s*,\s*(\d{1,9})\b", re.ASCII)
_APART = re.compile(r"(\d{1,9})\s*,\s*(\d{1,9})\s*,\s*(\w{1,9})\b", re.ASCII)
_LOOKS_POSITIONAL = re.compile(r",\s*[A-Za-z][\w.]*\s*,\s*\d", re.ASCII)


def _compact(c: Cursor, loc: str) -> TileBuf:
    """The compact spelling behind the place: shape, then keys in any order."""
    c.expect(",", " behind the place of a tile")
    at = c.start
    if (apart := _APART.match(c.text, at)) is not None:
        c.fail("expected extents and element in one", hint=f"did you mean `{loc}, {'x'.join(apart.groups())}`?")
    dims = _extents(read_dims(c))
    element = c.type()
    if len(dims) != 2 or None in dims:
        c.fail("a tile_buf has two static extents, as in `vec, 16x32xf32`", at)
    fields: dict[str, Any] = {}
    while c.accept(","):
        at, known = c.start, ("valid", *OPTIONS)
        key = c.name(f"a key of a tile_buf, one of {' '.join(known)}")
        if key in fields:
            c.fail(f"`{key}` is given twice", at)
        if key not in known:
            c.fail_word(f"`{key}` is no key of a tile_buf", key, known, at)
        c.expect("=")
        fields[key] = _value(c, key)
    v_row, v_col = fields.pop("valid", dims)
    return TileBuf(loc, *dims, element, v_row, v_col, **fields)  # type: ignore[arg-type]


_VALID = re.compile(r"(\d+|\?)(?:x(\d+|\?))*", re.ASCII)


def _value(c: Cursor, key: str) -> Any:
    """The value of one key."""
    at = c.start
    if key == "loc":
        return c.one_of("place of a tile", PLACES, OTHER_PLACES)
    if key in WORDED and key not in NUMBERS:
        return c.one_of(key, tuple(member.text for member in WORDED[key]))
    if key == "dtype":
        return c.type()
    if key == "valid":
        return _valid(c)
    if key in ("v_row", "v_col") and c.accept("?"):
        return None
    if (word := c.word) in POSITIONAL.get(key, ()):
        c.fail(f"{key} is a number here", hint=f"did you mean `{key}={POSITIONAL[key][word]}`?")
    number = c.integer(negative=key.startswith("v_"))
    if number < -1 or number not in NUMBERS.get(key, (number,)):
        c.fail(f"{number} is no {key}, expected one of: {NUMBERS.get(key, 'extents')}", at)
    return None if number < 0 else number


def _valid(c: Cursor) -> tuple[Extent, ...]:
    match = _VALID.match(c.text, c.start)
    dims = match[0].split("x") if match is not None else []
    if match is None or len(dims) != 2 or any(len(dim) > 20 for dim in dims):
        c.fail("expected two valid extents, as in `valid=16x?`")
    c.jump(match.end())
    return _extents(dims)


BARE = "pipe async_session async_event hif8 hif8x2 f4E1M2x2 f4E2M1x2 f8E8M0 bf16x2 prefetch_async_context"
"""Types that are only a name."""
PTO_TYPES: dict[str, Callable[[Cursor, str], Type]] = {
    "ptr": read_pointer,
    **dict.fromkeys(("tensor_view", "partition_tensor_view", "local_array"), _view),
    "tile": _tile,
    "tile_buf": _tile_buf,
    "eventid_array": _events,
    **dict.fromkeys(BARE.split(), _bare),
}
"""The types of the dialect that are known, and what reads each."""


def element_of(type_: Type) -> Type | None:
    """The element type of a view."""
    return type_.data.element if isinstance(type_.data, Ranked) else None


def shaped_like(type_: Type, element: Type) -> Type:
    """The type with another element: that of a vector or a tensor, else the element itself."""
    data = type_.data
    return Type(type_.text.replace(data.element.text, element.text)) if isinstance(data, Ranked) else element


# --- Types of programs ----------------------------------------------------------------------------------------------


def type_of(type_: Type) -> TreeType:
    """A type as plain data; one that no program has is kept as text."""
    try:
        return _type_of(type_)
    except (TypeError, ValueError):
        return Opaque(type_.text)


def _type_of(type_: Type) -> TreeType:
    data, text = type_.data, type_.text
    if isinstance(data, Ptr):
        return Pointer(_element(data.element))
    if isinstance(data, TileBuf):
        return _tile_spec(data)
    if isinstance(data, Ranked):
        return _ranked(type_, data)
    return text if text == "index" or (text[:1] in "iuflb" and text) else Opaque(text)


def _ranked(type_: Type, data: Ranked) -> TreeType:
    """A view, a short tile, or a packed block of global memory."""
    if data.name == "tile":
        return _short_tile(data)
    if data.name == "memref":
        is_global = not data.rest or (len(data.rest) == 1 and data.rest[0].text == "#pto.address_space<gm>")
        return Tensor(data.dims, _element(data.element)) if is_global else _memory_tile(data)
    if data.name in ("tensor", "vector"):
        return Opaque(type_.text)
    return Tensor(data.dims, _element(data.element), data.name != "tensor_view")


def _memory_tile(data: Ranked) -> TileSpec:
    """A packed block of on-chip memory: `memref<16x16xf32, #pto.address_space<vec>>`, of the layout of its place."""
    (space,) = data.rest
    word = space.text.removeprefix("#pto.address_space<").removesuffix(">")
    *outer, cols = (dim for dim in data.dims if dim is not None)
    if len(outer) + 1 != len(data.dims) or word not in spellings("loc"):
        raise ValueError("no program has such a tile")
    rows, loc = prod(outer), TileType.parse(spellings("loc")[word])
    form, fractal = MEMORY_FORMS.get(loc, ("nd", 512))
    blayout, slayout = LAYOUTS[form]
    if loc is TileType.Left:
        blayout = left_layouts().get(data.arch, blayout)
    layout = {"loc": loc, "blayout": blayout, "slayout": slayout, "fractal": fractal}
    return tile_spec(_element(data.element), rows, cols, (rows, cols), **layout)


MEMORY_FORMS = {**CUBE_FORMS, TileType.Mat: ("nz", 512), TileType.Left: ("zz", 512)}
"""The layouts of blocks of on-chip memory, whose types state none."""


def _element(type_: Type) -> DType:
    return dtype(type_.text)


def _tile_spec(buf: TileBuf) -> TileSpec:
    if buf.compact:
        raise ValueError("no program has compact tiles")
    words = {key: spellings(key)[getattr(buf, key)] for key in ("loc", "blayout", "slayout")}
    valid = buf.v_row, buf.v_col
    return tile_spec(_element(buf.dtype), buf.rows, buf.cols, valid, **words, fractal=buf.fractal, pad=PADS[buf.pad])


def _short_tile(data: Ranked) -> TreeType:
    """`!pto.tile<16x32xf32>`: a plain tile in UB."""
    rows, cols = data.dims if len(data.dims) == 2 else (1, *data.dims)
    if rows is None or cols is None:
        raise ValueError("a tile has static extents")
    return tile_spec(_element(data.element), rows, cols, (rows, cols))


# --- Suggestions ---------------------------------------------------------------------------------------------------

SLIPS = {
    **{f"int{width}{end}": f"i{width}" for width in (8, 16, 32, 64) for end in ("", "_t")},
    **{f"uint{width}{end}": f"ui{width}" for width in (8, 16, 32, 64) for end in ("", "_t")},
    **{f"{word}{width}": f"f{width}" for width in (16, 32, 64) for word in ("float", "fp")},
    "int": "i32", "float": "f32", "double": "f64", "half": "f16", "bool": "i1", "bfloat16": "bf16",
    "s8": "i8", "s16": "i16", "s32": "i32", "s64": "i64",
}  # fmt: skip
"""Types as other languages call them."""
_WORD = re.compile(r"x*([A-Za-z_][\w.]*)", re.ASCII)


def type_hint(c: Cursor) -> str:
    """What may have been meant where a type should stand."""
    match = _WORD.match(c.text, c.start)
    word = match[1] if match is not None else ""
    meant = SLIPS.get(word) or (word if word in SIMPLE or _INTEGER.fullmatch(word) else "")
    if not meant and len(word) > 2:
        known = near(word.removeprefix("pto."), (*PTO_TYPES, *SLIPS, *SIMPLE, *BUILTIN))
        meant = SLIPS.get(known) or (f"!pto.{known}" if known in PTO_TYPES else known)
    return f"did you mean `{meant}`?" if meant else ""


def unknown_hint(type_: Type) -> str:
    """What an unknown type of `pto` may have been meant to be."""
    name = type_.text.partition("<")[0]
    if not name.startswith("!pto.") or name[5:] in PTO_TYPES:
        return ""
    meant = near(name, [f"!pto.{known}" for known in PTO_TYPES])
    return f"did you mean `{meant}`?" if meant else ""
