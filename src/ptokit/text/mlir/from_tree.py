"""A tree as operations of MLIR, which print as canonical text."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ptokit.isa.operand import TileSpec
from ptokit.program.ir import Constant
from ptokit.text import tree
from ptokit.text.mlir.attributes import WORDS, array_attribute, integer, keyword, string_attribute
from ptokit.text.mlir.builtin import FORMS
from ptokit.text.mlir.dialect import form_of
from ptokit.text.mlir.floats import float_attribute, number_attribute, truth
from ptokit.text.mlir.ir import Attributes, Block, MlirAttribute, MlirOp, MlirRegion, SsaValue, Type
from ptokit.text.mlir.module import Module
from ptokit.text.mlir.pieces import INSIDE, Attr, operand_names, operand_parts
from ptokit.text.mlir.shapes import Destinations, Row, inside_attribute
from ptokit.text.mlir.types import (
    DIALECT_TYPES,
    Signature,
    TileBuf,
    buffer_type,
    ptr_type,
    ranked_type,
    signature_text,
    tile_type,
)
from ptokit.text.ops import attribute_kinds
from ptokit.text.spelling import attributes_of, instruction_of
from ptokit.text.tiles import PADS, valid_extents


def module_of(unit: tree.Unit, *, has_values: bool = False) -> Module:
    """The module of a tree; tiles are buffers, or values as in Level 1."""
    return _TreeWriter(tile_type if has_values else buffer_type).module(unit)


class _TreeWriter:
    """Operations of one tree."""

    def __init__(self, tile: Callable[[TileBuf], Type]) -> None:
        self._tile = tile
        self._values: dict[tree.Value, SsaValue] = {}

    def module(self, unit: tree.Unit) -> Module:
        """The whole tree."""
        attributes = {"pto.target_arch": string_attribute(unit.arch)} if unit.arch else {}
        block = Block(ops=[self._function(function) for function in unit.functions])
        op = MlirOp("builtin.module", FORMS["builtin.module"], attributes=attributes, regions=[MlirRegion([block])])
        return Module(op, unit.source.file, unit.source.text)

    def _function(self, function: tree.Function) -> MlirOp:
        types = tuple(self.type(value.type) for value in function.arguments)
        properties = {
            "sym_name": string_attribute(function.name),
            "function_type": MlirAttribute(signature_text(types, ()), Signature(types, ())),
        }
        attributes = {key: plain_attribute(value) for key, value in function.attributes.items()}
        regions = [self._region(function.body)]
        return MlirOp("func.func", FORMS["func.func"], {}, [], attributes, properties, regions)

    def _region(self, body: tree.Body) -> MlirRegion:
        arguments = self._all(body.arguments)
        return MlirRegion([Block(arguments, [self._op(operation) for operation in body.operations])])

    def _all(self, values: Iterable[tree.Value]) -> list[SsaValue]:
        return [self._value(value) for value in values]

    def _value(self, value: tree.Value) -> SsaValue:
        if value not in self._values:
            self._values[value] = SsaValue(self.type(value.type), value.name)
        return self._values[value]

    def type(self, type_: tree.Type) -> Type:
        """A type as MLIR writes it."""
        if isinstance(type_, tree.Pointer):
            return ptr_type(element_type(type_.dtype.mlir))
        if isinstance(type_, tree.Tensor):
            name = "partition_tensor_view" if type_.is_part else "tensor_view"
            return ranked_type(name, type_.dims, element_type(type_.dtype.mlir))
        if isinstance(type_, TileSpec):
            return self._tile(_buffer(type_))
        return Type(type_ if isinstance(type_, str) else type_.text)

    def _op(self, operation: tree.Operation) -> MlirOp:
        name = operation.name
        is_pto = name not in FORMS
        form = form_of(name) if is_pto else FORMS[name]
        results = self._all(operation.results)
        attributes = self._attributes(operation)
        op = MlirOp(f"pto.{name}" if is_pto else name, form, self._parts(operation, form), results, attributes)
        op.regions = [self._region(body) for body in operation.bodies]
        if name == "scf.if" and len(op.regions) == 1:
            op.regions.append(MlirRegion())
        if name == "arith.constant":
            op.properties["value"] = _constant(op.attributes.pop("value"), operation, results[0].type)
        if isinstance(form, Row) and isinstance(form.pieces[0], Destinations) and operation.outs:
            inside = {key: op.attributes.pop(key) for key in form.pieces[0].inside if key in op.attributes}
            op.properties |= {INSIDE: inside_attribute(inside)} if inside else {}
        if isinstance(form, Row) and not op.parts and _lacks_attributes(form, op):
            op.form = None
        return op

    def _parts(self, operation: tree.Operation, form: object) -> dict[str, list[SsaValue]]:
        """The operands by the names that the form of the op has for them."""
        ins, parts = self._all(operation.ins), {name: self._all(given) for name, given in operation.parts.items()}
        if not isinstance(form, Row):
            return parts
        if isinstance(form.pieces[0], Destinations):
            return parts if operation.outs else {"args": ins} if ins else {}
        if operation.outs:
            return parts  # an operation that is known by its effects
        if "ins" in parts:
            found = operand_parts(form.pieces, ins)
            return parts if found is None else found
        return {name: parts[name] for name in operand_names(form.pieces) if parts.get(name)}

    def _attributes(self, operation: tree.Operation) -> Attributes:
        kinds, instruction = {**attribute_kinds(operation.name)}, instruction_of(operation.name)
        if instruction is not None:
            kinds = {text.key: text.kind or text.number for _, text in attributes_of(instruction)}
        return {key: _attribute(kinds.get(key, ""), value) for key, value in operation.attributes.items()}


def _lacks_attributes(form: Row, op: MlirOp) -> bool:
    """Whether an op has not all that its own shape prints: then it is written in the generic form."""
    return any(type(piece) is Attr and piece.name not in op.attributes for piece in form.pieces)


WHOLE = ("i32",)
"""Types of numbers that are not the default one."""


def _attribute(kind: str, value: Any) -> MlirAttribute:
    if kind == "words":
        return MlirAttribute(str(value), value)
    if isinstance(value, int) and kind in WHOLE:
        return number_attribute(str(value), Type(kind))
    return keyword(kind, str(value)) if kind in WORDS else plain_attribute(value)


def plain_attribute(value: Any) -> MlirAttribute:
    """A plain value as an attribute."""
    if isinstance(value, bool):
        return truth(value)
    if isinstance(value, int):
        return integer(value)
    if isinstance(value, Constant):
        return float_attribute(value)
    if (items := tree.items_of(value)) is not None:
        return array_attribute([plain_attribute(item) for item in items])
    return value if isinstance(value, MlirAttribute) else string_attribute(str(value))


def _constant(given: MlirAttribute, operation: tree.Operation, type_: Type) -> MlirAttribute:
    value = operation.attributes["value"]
    return given if isinstance(value, Constant) else number_attribute(str(int(value)), type_)


def element_type(name: str) -> Type:
    """An element type; those that MLIR does not know belong to the dialect."""
    return DIALECT_TYPES.get(name) or Type(name)


def _buffer(spec: TileSpec) -> TileBuf:
    return TileBuf(
        spec.loc.text, spec.rows, spec.cols, element_type(spec.dtype.mlir), *valid_extents(spec), spec.blayout.text,
        spec.slayout.text, spec.fractal, PADS.index(spec.pad),
    )  # fmt: skip
