"""Operations and types of MLIR as a tree: the same things, in plain data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ptokit.text import tree
from ptokit.text.errors import TextError, redefined
from ptokit.text.mlir.dialect import rows
from ptokit.text.mlir.ir import MlirOp, MlirRegion, SsaValue, Type
from ptokit.text.mlir.pieces import operand_names
from ptokit.text.mlir.shapes import inside_of
from ptokit.text.spelling import instruction_of

if TYPE_CHECKING:
    from ptokit.text.mlir.module import Module


from ptokit.text.mlir.types import type_of


def unit_of(module: Module) -> tree.Unit:
    """The tree of a module: its functions, and what it says of the target."""
    translation, errors = _Translation(module), list(module.errors)
    functions = tuple(map(translation.function, _functions(module, errors)))
    arch = module.op.attributes.get("pto.target_arch")
    word = arch.value if arch and isinstance(arch.value, str) else ""
    return tree.Unit(functions, translation.source, word, tuple(errors))


def _functions(module: Module, errors: list[TextError]) -> Iterator[MlirOp]:
    """The functions of a module, and of modules in it. A name stands for one of them."""
    lines: dict[str, int] = {}
    for op in module.op.walk():
        if op.name == "func.func" and op.form is not None:
            if (name := op.properties["sym_name"].value) in lines:
                errors.append(module.source.error(redefined(f"@{name}", lines[name]), module.where(op)))
            else:
                lines[name] = module.where(op).line
                yield op


def is_level_two(module: Module) -> bool:
    """Whether no operation is written with values instead of destinations."""
    return not any(op.is_pto and "args" in op.parts for op in module.op.walk())


class _Translation:
    """Values and operations of one module, each translated once."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.source = module.source
        self.values: dict[SsaValue, tree.Value] = {}
        self._types: dict[Type, tree.Type] = {}

    def function(self, op: MlirOp) -> tree.Function:
        """A function; one that is only declared has no body."""
        attributes = {name: value.plain for name, value in op.attributes.items()}
        where, is_declared = self.source.where(op.offset), not op.regions[0].blocks
        name = op.properties["sym_name"].value
        return tree.Function(name, self.body(op.regions[0]), attributes, where, is_declared)

    def body(self, region: MlirRegion) -> tree.Body:
        """The operations of a region; several blocks come one after the other, and no lowering takes them."""
        body = tree.Body()
        for number, block in enumerate(region.blocks):
            arguments = tuple(self.value(argument) for argument in block.arguments)
            body.arguments += arguments
            if number:
                where = self.source.where(block.ops[0].offset) if block.ops else None
                body.operations.append(tree.Operation("cf.block", where=where))
            body.operations += [self.operation(op) for op in block.ops]
        return body

    def value(self, value: SsaValue) -> tree.Value:
        """A value, under the name that it has in the text."""
        translated = self.values.get(value)
        if translated is None:
            name, type_ = value.name or str(len(self.values)), self._types.get(value.type)
            if type_ is None:
                type_ = self._types[value.type] = type_of(value.type)
            translated = self.values[value] = tree.Value(name.replace("#", "_"), type_)
        return translated

    def operation(self, op: MlirOp) -> tree.Operation:
        parts = self._parts(op)
        name = op.name.removeprefix("pto.").removeprefix("builtin.")
        return tree.Operation(
            name if parts is not None else f"{name} in the generic form",
            parts or {},
            tuple(map(self.value, op.results)),
            _attributes(op),
            tuple(map(self.body, op.regions)),
            self.source.where(op.offset),
            end=op.end,
            places=op.places,
        )

    def _parts(self, op: MlirOp) -> dict[str, tuple[tree.Value, ...]] | None:
        """Which operand plays which part; None if the generic form does not state it."""
        operands = op.operands
        if not op.is_pto or not operands:
            return {"ins": tuple(map(self.value, operands))}
        named = _generic_parts(op, operands) if op.form is None else op.parts
        parts: dict[str, tuple[tree.Value, ...]] = {}
        for part, values in named.items():
            name = "ins" if part == "args" else part
            parts[name] = parts.get(name, ()) + tuple(map(self.value, values))
        return parts if sum(map(len, parts.values())) == len(operands) else None


def _generic_parts(op: MlirOp, operands: list[SsaValue]) -> dict[str, list[SsaValue]]:
    """The parts of an op in the generic form, as its operands are stored."""
    name = op.name.removeprefix("pto.")
    row, instruction = rows().get(name), instruction_of(name)
    stored = instruction.text.stored if instruction is not None else ()
    stored = stored or (tuple(operand_names(row.pieces)) if row is not None else ())
    sizes = tree.items_of(_attributes(op).get("operandSegmentSizes") or (1,) * len(operands))
    if not stored and len(operands) == 2:
        return {"ins": operands[:1], "outs": operands[1:]}
    if sizes is None or not all(type(size) is int and size >= 0 for size in sizes):
        return {}
    parts: dict[str, list[SsaValue]] = {}
    start = 0
    for name, size in zip(stored, sizes, strict=False):
        parts[name] = [*parts.get(name, ()), *operands[start : start + size]]
        start += size
    return parts


def _attributes(op: MlirOp) -> dict[str, Any]:
    attributes = {**op.properties, **op.attributes, **inside_of(op.properties)}
    return {name: value.plain for name, value in attributes.items() if not name.startswith("$")}
