"""Tiles and blocks of global memory as C++ types, and calls of instructions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from ptokit.isa.dtype import DType
from ptokit.isa.headers import as_row, becomes_row
from ptokit.isa.instruction import Call
from ptokit.isa.operand import PLAIN_LAYOUTS, TileSpec
from ptokit.isa.policy import BLayout, GlobalLayout, Pad, SLayout, TileType, enumerator
from ptokit.program.expr import Expr, apply
from ptokit.program.instr_calls import call_of, named_operands, tile_spec
from ptokit.program.ir import Argument, Instr, Program, TileUse, View
from ptokit.target import Profile

PLAIN = ("int32", "float32")
"""Types of plain literals."""


def constant(kind: DType, bits: int) -> str:
    """A number of an element type, from its bits."""
    value = np.array([bits], f"u{kind.size}").view(kind.numpy)[0]
    text = _whole(int(value)) if kind.is_integer else _float(float(value), np.float32(value))
    return text if kind.name in PLAIN else converted(kind, text)


def converted(kind: DType, text: str) -> str:
    """A number as another type."""
    return f"static_cast<{kind.cpp}>({text})"


def _whole(value: int) -> str:
    lowest = {-(2**31): "(-2147483647 - 1)", -(2**63): "INT64_MIN"}
    return lowest.get(value, f"{value}{'u' if value >= 2**63 else ''}")


def _float(value: float, single: np.float32) -> str:
    if value != value:
        return '__builtin_nanf("")'
    if value in (float("inf"), float("-inf")):
        return f"{'-' if value < 0 else ''}__builtin_inff()"
    return f"{single!s}f"


def template_arguments(call: Call, given: Mapping[str, str]) -> list[str]:
    """The template arguments, without trailing defaults."""
    pairs = call.instruction.cpp.template(call)
    count = max((k + 1 for k, (argument, default) in enumerate(pairs) if argument is not default), default=0)
    return [a.format(**given) if isinstance(a, str) else enumerator(a) for a, _ in pairs[:count]]


def call_text(call: Call, given: Mapping[str, str]) -> str:
    """The call of an instruction, with a text for each operand that it has."""
    definition = call.instruction
    form = definition.cpp.call or definition.spellings["C++"][0]
    function, words = (form(call) if callable(form) else form).removesuffix(")").split("(")
    chosen = {modifier.name: call.values[modifier.name] for modifier in definition.modifiers}
    texts = {**{name: enumerator(member) for name, member in chosen.items() if member is not None}, **given}
    types = template_arguments(call, given)
    arguments = f"<{', '.join(types)}>" if types else ""
    named = ((word, word.removeprefix("&")) for word in words.split(", "))
    given_words = (word.replace(name, texts[name]) for word, name in named if name in texts)
    return f"{function}{arguments}({', '.join(given_words)})"


def header_call(program: Program, instr: Instr, profile: Profile) -> Call:
    """An instruction as the headers see it."""
    return call_of(program, instr, profile).in_headers


@dataclass(frozen=True)
class GlobalBlock:
    """A block of global memory as a C++ type and its run-time numbers."""

    argument: Argument
    offset: Expr
    shape: tuple[Expr, ...]
    stride: tuple[Expr, ...]
    layout: GlobalLayout


def pointer_of(program: Program, argument: Argument) -> Argument:
    """The argument whose pointer is passed for one: its own, or that of the array it is a view of."""
    return program.tensors[argument.array]


def whole_view(program: Program, view: View) -> GlobalBlock:
    """All of a view."""
    argument = program.tensors[view.argument]
    return GlobalBlock(argument, offset_of(argument, view), *_five(argument, view), argument.layout)


def transfer(program: Program, instr: Instr, call: Call) -> tuple[GlobalBlock, tuple[Expr, Expr]]:
    """The block that a load or store moves, exactly, and the tile's valid extents."""
    (view,) = (operand for operand in instr.operands if isinstance(operand, View))
    name, use = next((name, operand) for name, operand in named_operands(instr).items() if isinstance(operand, TileUse))
    spec, valid = tile_spec(program.tiles[use.tile].spec, use).unsliced, use.valid
    if becomes_row(call, name):
        spec, valid = as_row(spec), (1, valid[0])
    return _cut(whole_view(program, view), spec, valid), valid


def _cut(tensor: GlobalBlock, tile: TileSpec, valid: tuple[Expr, Expr]) -> GlobalBlock:
    """The part of a block that a transfer moves. A tile of one row or column may be a run of elements."""
    rows, cols = tensor.shape[3:]
    if tensor.layout not in PLAIN_LAYOUTS or tensor.shape[:3] != (1, 1, 1):
        return tensor
    is_column = tile.cols == 1 and rows == 1 and valid[0] != 1
    is_row = tile.rows == 1 and cols == 1 and valid[1] != 1
    differs = tile.loc is TileType.Vec and 1 in (tile.rows, tile.cols) and tile.format != tensor.layout.text
    if not (is_column or is_row or differs):
        return replace(tensor, shape=(1, 1, 1, *valid))
    return replace(
        tensor, shape=(1, 1, 1, *valid), stride=(*tensor.stride[:3], 1, 1), layout=GlobalLayout.parse(tile.format)
    )


def offset_of(argument: Argument, view: View) -> Expr:
    """The number of elements from the pointer to the first of a view."""
    offset = argument.offset
    for start, step in zip(view.starts, argument.stride, strict=True):
        offset = apply("add", offset, apply("mul", start, step))
    return offset


def _five(argument: Argument, view: View) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
    """Five extents and strides; a missing leading dim steps over the whole argument."""
    stride = argument.stride
    missing = 5 - len(stride)
    over = apply("mul", argument.shape[0], stride[0])
    return (1,) * missing + view.sizes, (over,) * missing + stride


def tile_type(spec: TileSpec, valid: tuple[Expr, Expr]) -> str:
    """`Tile<TileType::Vec, float, 16, 64>`, without trailing arguments that are equal to their defaults."""
    regions = ("-1" if mark else str(extent) for extent, mark in zip(valid, spec.dynamic, strict=True))
    choices = (enumerator(spec.blayout), *regions, enumerator(spec.slayout), str(spec.fractal), enumerator(spec.pad))
    extents = str(spec.rows), str(spec.cols)
    defaults = (enumerator(BLayout.RowMajor), *extents, enumerator(SLayout.NoneBox), "512", enumerator(Pad.Null))
    count = max((k + 1 for k, pair in enumerate(zip(choices, defaults, strict=True)) if pair[0] != pair[1]), default=0)
    first = (enumerator(spec.loc), spec.dtype.cpp, str(spec.rows), str(spec.cols))
    return f"Tile<{', '.join((*first, *choices[:count]))}>"
