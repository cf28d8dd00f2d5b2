"""Common to every form of text: unique names, numbers as operations, views of memory."""

from __future__ import annotations

import re
from collections import ChainMap, Counter
from collections.abc import Sequence
from typing import Any

from ptokit.finding import Where
from ptokit.program.expr import COMPARISONS, OF_LAUNCH, Expr, Op, Var, is_condition, variables
from ptokit.program.ir import Argument, Constant, Program, View
from ptokit.text.numbers import NATURAL, PREDICATES, WRITTEN, Limits, written_out
from ptokit.text.tiles import ScopedExtents
from ptokit.text.tree import Body, Operation, Tensor, Value

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_$.]*|[0-9]+")
"""Names that are valid in every form of text."""

OperandParts = dict[str, tuple[Value, ...]]


class WrittenScope:
    """A body that is being written, and the values known in it."""

    def __init__(self, outer: WrittenScope | None = None) -> None:
        self.operations: list[Operation] = []
        self.numbers: ChainMap[tuple[Expr, str], Value] = outer.numbers.new_child() if outer else ChainMap()
        self.views: ChainMap[View, Value] = outer.views.new_child() if outer else ChainMap()
        self.tensors: ChainMap[str, Value] = outer.tensors.new_child() if outer else ChainMap()
        self.tiles: ChainMap[str, Value] = outer.tiles.new_child() if outer else ChainMap()
        self.valid: ScopedExtents = outer.valid.new_child() if outer else ChainMap()


class Writing:
    """A tree that is being written."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.expression_names = dict(program.names)
        self.taken: set[str] = set()
        self._spelt: dict[str, str] = {}
        self._numbered: Counter[str] = Counter()
        self.pointers: dict[str, Value] = {}
        self.scopes = [WrittenScope()]
        self.head: list[Operation] = []
        self.constants: dict[tuple[int | Constant, str], Value] = {}
        self.limits = Limits()
        self.where: Where | None = None

    def name(self, base: str) -> str:
        """A unique name, as close to another one as text allows."""
        plain = base if NAME.fullmatch(base) else "".join(c if NAME.fullmatch(f"a{c}") else "_" for c in base)
        plain = plain if NAME.fullmatch(plain) else f"v_{plain}"
        name, stem = plain, f"v{plain}" if plain.isdigit() else plain  # `%0_1` is no name
        while name in self.taken:
            self._numbered[stem] += 1
            name = f"{stem}_{self._numbered[stem]}"
        self.taken.add(name)
        return name

    def own(self, name: str) -> str:
        """The text's name for a name of the program: the same if text allows it."""
        if name not in self._spelt:
            self._spelt[name] = name if NAME.fullmatch(name) else self.name(name)
        return self._spelt[name]

    def add(
        self,
        op: str,
        parts: OperandParts | None = None,
        *results: Value,
        attributes: dict[str, Any] | None = None,
        bodies: Sequence[Body] = (),
    ) -> None:
        """Append an operation."""
        operation = Operation(op, parts or {}, results, attributes or {}, tuple(bodies), self.where)
        self.scopes[-1].operations.append(operation)

    def number(self, expr: Expr, kind: str = "index") -> Value:
        """The value of an expression, in a type."""
        if isinstance(expr, int):
            return self.constant(expr, kind)
        numbers = self.scopes[-1].numbers
        if (expr, kind) not in numbers:
            numbers[expr, kind] = self._cast(expr, kind) if kind != self._own_kind(expr) else self._computed(expr)
        return numbers[expr, kind]

    def is_known(self, expr: Expr) -> bool:
        """Whether all variables of an expression are known here."""
        numbers = self.scopes[-1].numbers
        return all(var in OF_LAUNCH or (var, "index") in numbers for var in variables(expr))

    def _own_kind(self, expr: Expr) -> str:
        return "i1" if is_condition(expr) else "i64" if expr in OF_LAUNCH else "index"

    def constant(self, value: int | Constant, kind: str) -> Value:
        """A constant, defined at the head of the function."""
        key = value, kind
        if key not in self.constants:
            shown = f"c{value}" if isinstance(value, int) and value >= 0 else "cst"
            name = self.name(shown if kind == "index" or shown == "cst" else f"{shown}_{kind}")
            result = self.constants[key] = Value(name, kind)
            self.head.append(Operation("arith.constant", {}, (result,), {"value": value}))
        return self.constants[key]

    def _cast(self, expr: Expr, kind: str) -> Value:
        """An expression in another type than its own."""
        own = self._own_kind(expr)
        if own == "i1" and kind == "index":
            wide = Value(self.name("bit"), "i64")
            self.add("arith.extui", {"ins": (self.number(expr, own),)}, wide)
            return self.converted("arith.index_cast", wide, kind)
        base = self.number(expr, own if kind == "index" else "index")
        return self.converted("arith.index_cast", base, kind, str(expr) if kind == "index" else "")

    def converted(self, op: str, value: Value, kind: str, name: str = "") -> Value:
        """A value in another type."""
        result = Value(self.name(name or f"{value.name}_{kind}"), kind)
        self.add(op, {"ins": (value,)}, result)
        return result

    def _computed(self, expr: Expr) -> Value:
        if isinstance(expr, Var):
            return self._block_number(expr)
        assert isinstance(expr, Op)
        if expr.name in COMPARISONS:
            return self._compared(expr)
        natural = expr.name in NATURAL and self.limits.natural(*expr.args)
        if not natural and (spelt := written_out(expr)) is not None:
            return self.number(spelt)
        kind = self._own_kind(expr)
        name = NATURAL[expr.name] if natural else WRITTEN[expr.name]
        operands = tuple(self.number(arg, kind) for arg in expr.args)
        result = Value(self._name_of(expr, expr.name), kind)
        self.add(f"arith.{name}", {"ins": operands}, result)
        return result

    def _name_of(self, expr: Expr, default: str) -> str:
        """A name for an expression: the author's, or the name of its last use."""
        name = self.name(self.expression_names.get(expr, default))
        self.expression_names.setdefault(expr, name)
        return name

    def _block_number(self, var: Var) -> Value:
        if var not in OF_LAUNCH:
            raise KeyError(var)
        result = Value(self.name(f"{var}_i64"), "i64")
        self.add(f"get_{var}", {}, result)
        return result

    def _compared(self, expr: Op) -> Value:
        operands = tuple(self.number(arg) for arg in expr.args)
        word = next(word for word in PREDICATES if word in (expr.name, f"s{expr.name}"))
        result = Value(self._name_of(expr, "holds"), "i1")
        self.add("arith.cmpi", {"ins": operands}, result, attributes={"predicate": word})
        return result

    def tensor(self, argument: Argument) -> Value:
        """The view of a whole argument."""
        tensors = self.scopes[-1].tensors
        if argument.name not in tensors:
            shape, strides = (tuple(map(self.number, exprs)) for exprs in (argument.shape, argument.stride))
            name = self.own(argument.name) if argument.view_of else self.name(f"{argument.name}_view")
            result = Value(name, Tensor(_dims(argument, argument.shape), argument.dtype, False))
            pointer = self.pointer(argument.array, argument.offset)
            parts = {"ptr": (pointer,), "shape": shape, "strides": strides}
            self.add("make_tensor_view", parts, result, attributes=_view_attributes(argument))
            tensors[argument.name] = result
        return tensors[argument.name]

    def pointer(self, memory: str, offset: Expr) -> Value:
        """A pointer at an offset into a memory."""
        return self.pointers[memory] if offset == 0 else self.advanced(self.pointers[memory], offset)

    def advanced(self, pointer: Value, offset: Expr) -> Value:
        """A pointer advanced by some elements."""
        result = Value(self.name(f"{pointer.name}_from"), pointer.type)
        self.add("addptr", {"ptr": (pointer,), "offset": (self.number(offset),)}, result)
        return result

    def view(self, view: View) -> Value:
        """A block of an argument."""
        views = self.scopes[-1].views
        if view not in views:
            argument = self.program.tensors[view.argument]
            whole = self.tensor(argument)
            offsets, sizes = (tuple(map(self.number, exprs)) for exprs in (view.starts, view.sizes))
            result = Value(self.name(f"{argument.name}_part"), Tensor(_dims(argument, view.sizes), argument.dtype))
            self.add("partition_view", {"view": (whole,), "offsets": offsets, "sizes": sizes}, result)
            views[view] = result
        return views[view]


def _dims(argument: Argument, sizes: tuple[Expr, ...]) -> tuple[int | None, ...]:
    """Extents for a type; those known at run time, or marked as dynamic, are open."""
    marks = argument.dynamic[5 - len(sizes) : 5]
    return tuple(size if isinstance(size, int) and not mark else None for size, mark in zip(sizes, marks, strict=True))


def _view_attributes(argument: Argument) -> dict[str, Any]:
    attributes: dict[str, Any] = {"layout": argument.layout.text}
    strides = tuple(k for k in range(5) if argument.dynamic[5 + k])
    return {**attributes, "ptokit.dynamic_strides": strides} if strides else attributes
