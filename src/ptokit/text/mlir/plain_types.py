"""Types of MLIR as a tree has them."""

from __future__ import annotations

from math import prod

from ptokit.isa.dtype import DType, dtype
from ptokit.isa.operand import TileSpec
from ptokit.text import tree
from ptokit.text.mlir.ir import Type
from ptokit.text.mlir.types import Ptr, Ranked, TileBuf
from ptokit.text.tiles import PADS, spellings, tile_spec


def type_of(kind: Type) -> tree.Type:
    """A type as plain data; one that no program has is kept as text."""
    try:
        return _type_of(kind)
    except (TypeError, ValueError):
        return tree.Opaque(kind.text)


def _type_of(kind: Type) -> tree.Type:
    data, text = kind.data, kind.text
    if isinstance(data, Ptr):
        return tree.Pointer(_element(data.element))
    if isinstance(data, TileBuf):
        return _tile(data)
    if isinstance(data, Ranked):
        return _ranked(kind, data)
    return text if text == "index" or (text[:1] in "iuflb" and text) else tree.Opaque(text)


def _ranked(kind: Type, data: Ranked) -> tree.Type:
    """A view, a short tile, or a packed block of global memory."""
    if data.name == "tile":
        return _short_tile(data)
    if data.name == "memref":
        is_global = not data.rest or (len(data.rest) == 1 and data.rest[0].text == "#pto.address_space<gm>")
        return tree.Tensor(data.dims, _element(data.element)) if is_global else _memory_tile(data)
    if data.name in ("tensor", "vector"):
        return tree.Opaque(kind.text)
    return tree.Tensor(data.dims, _element(data.element), data.name != "tensor_view")


def _memory_tile(data: Ranked) -> TileSpec:
    """A packed block of on-chip memory: `memref<16x16xf32, #pto.address_space<vec>>`."""
    (space,) = data.rest
    word = space.text.removeprefix("#pto.address_space<").removesuffix(">")
    *outer, cols = (dim for dim in data.dims if dim is not None)
    if len(outer) + 1 != len(data.dims) or word not in spellings("loc"):
        raise ValueError("no program has such a tile")
    rows = prod(outer)
    return tile_spec(_element(data.element), rows, cols, (rows, cols), loc=spellings("loc")[word])


def _element(kind: Type) -> DType:
    return dtype(kind.text)


def _tile(buf: TileBuf) -> TileSpec:
    if buf.compact:
        raise ValueError("no program has compact tiles")
    words = {key: spellings(key)[getattr(buf, key)] for key in ("loc", "blayout", "slayout")}
    valid = buf.v_row, buf.v_col
    return tile_spec(_element(buf.dtype), buf.rows, buf.cols, valid, **words, fractal=buf.fractal, pad=PADS[buf.pad])


def _short_tile(data: Ranked) -> tree.Type:
    """`!pto.tile<16x32xf32>`: a plain tile in UB."""
    rows, cols = data.dims if len(data.dims) == 2 else (1, *data.dims)
    if rows is None or cols is None:
        raise ValueError("a tile has static extents")
    return tile_spec(_element(data.element), rows, cols, (rows, cols))
