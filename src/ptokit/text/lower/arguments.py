"""Arguments of a kernel: pointers, arrays, numbers, and tiles that are declared with it."""

from __future__ import annotations

import re
from collections.abc import Callable

from ptokit.finding import Where
from ptokit.isa.dtype import dtype
from ptokit.isa.operand import TileSpec
from ptokit.isa.policy import GlobalLayout
from ptokit.program.expr import Expr, Var, apply, truth
from ptokit.program.ir import Argument, Float, Given, Integer, View
from ptokit.text.lower.arithmetic import FLOATS
from ptokit.text.lower.lowering import Lowering
from ptokit.text.memories import all_of, open_extent
from ptokit.text.tree import Pointer, Tensor, Value

INTEGER = re.compile(r"index|[su]?i[0-9]+")


def take_argument(low: Lowering, value: Value) -> Callable[[], tuple[Argument | Integer | Float, ...]]:
    """Define an argument. The result returns the program's arguments for it, once all statements are read."""
    kind, where = value.type, low.where
    if isinstance(kind, TileSpec):
        low.values[value] = low.declare(value, kind)
        return tuple
    name = low.unique(value.name)
    if isinstance(kind, Pointer):
        low.values[value] = low.memories.add(name, kind.dtype, where)
        return lambda: low.memories.arguments(name)
    if isinstance(kind, Tensor) and 1 <= len(kind.dims) <= 5:
        low.values[value], numbers = _whole(low, name, kind, where)
        return lambda: (*low.memories.arguments(name), *numbers)
    if kind in FLOATS:
        element = dtype(str(kind))
        low.values[value] = Given(name, element)
        return lambda: (Float(name, element, where=where),)
    if isinstance(kind, str) and INTEGER.fullmatch(kind):
        var = Var(name)
        low.values[value] = truth(var) if kind == "i1" else var
        low.steady.add(var)
        return lambda: (Integer(name, where=where),)
    shown = kind if isinstance(kind, str) else getattr(kind, "text", "view without dims")
    low.refuse_type(f"%{value.name}: an argument of type {shown} has no lowering", kind)


def _whole(low: Lowering, name: str, kind: Tensor, where: Where | None) -> tuple[View, tuple[Integer, ...]]:
    """An array whose type has its shape; an open extent is a number that the launch passes."""
    place = low.memories.add(name, kind.dtype, where)
    shape = tuple(Var(low.unique(open_extent(name, dim))) if n is None else n for dim, n in enumerate(kind.dims))
    numbers = tuple(extent for extent in shape if isinstance(extent, Var))
    low.steady.update(numbers)
    argument = low.memories.view(place, shape, _packed(shape), GlobalLayout.ND, name, frozenset(low.steady))
    return all_of(argument), tuple(Integer(number, where=where) for number in numbers)


def _packed(shape: tuple[Expr, ...]) -> tuple[Expr, ...]:
    strides: list[Expr] = [1]
    for extent in shape[:0:-1]:
        strides.insert(0, apply("mul", strides[0], extent))
    return tuple(strides)
