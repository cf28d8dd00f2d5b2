"""Operations of MLIR as a tree: the same things, in plain data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    FloatAttr,
    IntegerAttr,
    MemRefType,
    NoneAttr,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from ptokit.isa.dtype import DType, dtype
from ptokit.isa.operand import TileSpec
from ptokit.isa.policy import BLayout, Pad, SLayout, TileType
from ptokit.isa.unknown import unknown
from ptokit.program.ir import Constant
from ptokit.text import tree
from ptokit.text.errors import error_at
from ptokit.text.mlir.attributes import KeywordAttr
from ptokit.text.mlir.floats import FloatLiteral
from ptokit.text.mlir.module import Module
from ptokit.text.mlir.ops import PtoOp
from ptokit.text.mlir.shapes import operand_names
from ptokit.text.mlir.types import PtrType, ShapedType, TensorViewType, TileBuf, TileBufType
from ptokit.text.mlir.types import TileType as TileAttr
from ptokit.text.spelling import instruction_of

PADS = tuple(Pad)
"""Pad values by their numbers in text."""


def unit_of(module: Module) -> tree.Unit:
    """The tree of a module: its functions, and what it says of the target."""
    translation = _Translation(module)
    functions = tuple(map(translation.function, _functions(module)))
    arch = module.op.attributes.get("pto.target_arch")
    return tree.Unit(functions, translation.source, arch.data if isinstance(arch, StringAttr) else "")


def _functions(module: Module) -> Iterator[FuncOp]:
    """The functions of a module, and of modules in it. A name stands for one of them."""
    names: set[str] = set()
    for op in module.op.walk():
        if isinstance(op, FuncOp):
            if (name := op.sym_name.data) in names:
                message = f"the function @{name} is defined twice"
                raise error_at(message, module.text, module.offsets.get(op, 0), module.file)
            names.add(name)
            yield op


def is_level_two(module: Module) -> bool:
    """Whether no operation is written with values instead of destinations."""
    return not any(isinstance(op, PtoOp) and "args" in dict(op.parts) for op in module.op.walk())


class _Translation:
    """Values and operations of one module, each translated once."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.source = tree.Source(module.text, module.file)
        self.values: dict[SSAValue, tree.Value] = {}

    def function(self, op: FuncOp) -> tree.Function:
        """A function; one that is only declared has no body."""
        attributes = {name: _plain(value) for name, value in op.attributes.items()}
        where, is_declared = self.source.where(self._offset(op)), not op.body.blocks
        return tree.Function(op.sym_name.data, self.body(op.body), attributes, where, is_declared)

    def body(self, region: Region) -> tree.Body:
        """The operations of a region; several blocks come one after the other, and no lowering takes them."""
        body = tree.Body()
        for number, block in enumerate(region.blocks):
            arguments = tuple(self.value(argument) for argument in block.args)
            body.arguments += arguments
            if number:
                body.operations.append(tree.Operation("cf.block", where=self._where(block)))
            body.operations += [self.operation(op) for op in block.ops]
        return body

    def _where(self, block: Block) -> Any:
        first = block.first_op
        return self.source.where(self._offset(first)) if first is not None else None

    def _offset(self, op: Operation) -> int:
        return self.module.offsets.get(op, 0)

    def value(self, value: SSAValue) -> tree.Value:
        """A value, under the name that it has in the text."""
        if value not in self.values:
            name = self.module.names.get(value) or str(len(self.values))
            self.values[value] = tree.Value(name.replace("#", "_"), type_of(value.type))
        return self.values[value]

    def operation(self, op: Operation) -> tree.Operation:
        """An operation with all its parts."""
        parts = self._parts(op)
        name = op.name.removeprefix("pto.").removeprefix("builtin.")
        return tree.Operation(
            name if parts is not None else f"{name} in the generic form",
            parts or {},
            tuple(map(self.value, op.results)),
            _attributes(op),
            tuple(map(self.body, op.regions)),
            self.source.where(self._offset(op)),
        )

    def _parts(self, op: Operation) -> dict[str, tuple[tree.Value, ...]] | None:
        """Which operand plays which part; None where the generic form does not tell."""
        operands = tuple(map(self.value, op.operands))
        if not isinstance(op, PtoOp) or not operands:
            return {"ins": operands}
        parts: dict[str, tuple[tree.Value, ...]] = {}
        start = 0
        counted = op.parts or _generic_parts(op)
        for name, count in counted:
            word = WORDS.get(name, name)
            parts[word] = parts.get(word, ()) + operands[start : start + count]
            start += count
        return parts if start == len(operands) else None


def _generic_parts(op: PtoOp) -> tuple[tuple[str, int], ...]:
    """The parts of an op in the generic form, as its operands are stored."""
    instruction = instruction_of(op.name.removeprefix("pto."))
    stored = (instruction.form.stored if instruction else ()) or tuple(operand_names(op.row.pieces))
    sizes = _attributes(op).get("operandSegmentSizes") or (1,) * len(op.operands)
    if not stored and len(op.operands) == 2:
        return ("ins", 1), ("outs", 1)
    counted = isinstance(sizes, tuple) and all(type(size) is int and size >= 0 for size in sizes)
    return tuple(zip(stored, sizes, strict=False)) if counted else ()


WORDS = {"args": "ins"}
"""Parts that the tree calls otherwise."""


def _attributes(op: Operation) -> dict[str, Any]:
    found = {**op.properties, **op.attributes, **(op.inside if isinstance(op, PtoOp) else {})}
    return {name: _plain(value) for name, value in found.items() if not name.startswith("$")}


def _plain(value: Attribute) -> Any:
    """An attribute as a plain value; others stay what they are."""
    if isinstance(value, IntegerAttr):
        number = int(value.value.data)
        return bool(number) if str(value.type) == "i1" else number
    if isinstance(value, FloatAttr | FloatLiteral):
        return _number(value)
    if isinstance(value, KeywordAttr | StringAttr):
        return value.data
    if isinstance(value, SymbolRefAttr):
        return value.string_value()
    if isinstance(value, ArrayAttr):
        return tuple(_plain(item) for item in value.data)
    if isinstance(value, DenseArrayBase):
        return tuple(value.get_values())
    return True if isinstance(value, UnitAttr) else value


def _number(value: FloatAttr | FloatLiteral) -> Any:
    """A number with a fraction, by its bits; one of a type that no program has stays what it is."""
    try:
        element = dtype(str(value.type))
    except TypeError:
        return value
    if not isinstance(value, FloatLiteral):
        number = value.value.data
    elif value.bits is not None and str(value.type) == element.mlir:
        return Constant(element, value.bits)
    else:
        number = np.nan
    with np.errstate(over="ignore"):
        return Constant(element, int(np.array(number).astype(element.numpy).view(element.bits)))


# --- Types -----------------------------------------------------------------------------------------------------


def type_of(kind: Attribute) -> tree.Type:
    """A type as plain data; one that no program has is kept as text."""
    try:
        return _type_of(kind)
    except (TypeError, ValueError):
        return tree.Opaque(str(kind))


def _type_of(kind: Attribute) -> tree.Type:
    if isinstance(kind, PtrType):
        return tree.Pointer(_element(kind.data[0]))
    if isinstance(kind, TileBufType):
        return _tile(kind.data)
    if isinstance(kind, TileAttr):
        return _short_tile(kind)
    if isinstance(kind, ShapedType):
        dims, element = kind.data
        return tree.Tensor(dims, _element(element), not isinstance(kind, TensorViewType))
    if isinstance(kind, MemRefType):
        return _memref(kind)
    text = str(kind)
    return text if text == "index" or text[:1] in "iuflb" else tree.Opaque(text)


def _memref(kind: MemRefType) -> tree.Type:
    """A packed block of global memory; one with strides of its own, or elsewhere, is not known."""
    is_packed, space = isinstance(kind.layout, NoneAttr), kind.memory_space
    is_global = isinstance(space, NoneAttr) or (isinstance(space, KeywordAttr) and space.data == "gm")
    if not (is_packed and is_global):
        return tree.Opaque(str(kind))
    return tree.Tensor(tuple(None if dim < 0 else dim for dim in kind.get_shape()), _element(kind.element_type))


def _element(kind: Attribute) -> DType:
    return dtype(str(kind))


def _tile(buf: TileBuf) -> TileSpec:
    if buf.compact:
        raise ValueError("no program has compact tiles")
    dynamic = buf.v_row is None, buf.v_col is None
    return TileSpec(
        _element(buf.dtype), TileType.parse(buf.loc), buf.rows, buf.cols,
        unknown() if buf.v_row is None else buf.v_row, unknown() if buf.v_col is None else buf.v_col,
        BLayout.parse(buf.blayout), SLayout.parse(buf.slayout), buf.fractal, PADS[buf.pad], dynamic=dynamic,
    )  # fmt: skip


def _short_tile(kind: TileAttr) -> tree.Type:
    """`!pto.tile<16x32xf32>`: a plain tile in UB."""
    if isinstance(kind.data, TileBuf):
        return _tile(kind.data)
    if isinstance(kind.data, str):
        return tree.Opaque(str(kind))
    dims, element = kind.data
    rows, cols = dims if len(dims) == 2 else (1, *dims)
    if rows is None or cols is None:
        raise ValueError("a tile has static extents")
    return TileSpec(_element(element), TileType.Vec, rows, cols, rows, cols)
