"""Arrays of which a proof knows the type and the shape, with lengths that are any number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

import numpy as np

from ptokit.finding import Finding, VerifyError
from ptokit.isa.dtype import DType, dtype
from ptokit.lang.faults import public
from ptokit.lang.tensor import first_extent
from ptokit.program import ir
from ptokit.program.expr import Bounds, Expr, Op, Var, substitute
from ptokit.program.verify import at_lengths

SAMPLE = 1009
"""A length to trace with: no number that operations treat in another way than most."""


@dataclass(frozen=True)
class Shaped:
    """An array by its type and shape."""

    dtype: DType
    dims: tuple[int | str, ...]
    ranges: Mapping[str, tuple[int, float]] = field(default_factory=dict[str, tuple[int, float]])
    """The least and the largest number for each name."""


@public
def shaped(dtype_: object, /, *dims: int | str, **ranges: tuple[int, int | None]) -> Shaped:
    """An array for `pto.prove`: its element type and its dims. The first dim may be a name, which stands for any number
    from 1 on, or for the numbers of a range: `pto.shaped("float32", "n", 64, n=(1, 4096))`. One name is one number."""
    if not dims or any(isinstance(dim, str) for dim in dims[1:]):
        raise ValueError(f"the first dim may be a name, the others are numbers; got {dims}")
    if any(isinstance(dim, int) and dim < 0 for dim in dims):
        raise ValueError(f"dims are at least 0, got {dims}")
    for name, (low, high) in ranges.items():
        if name not in dims or low < 0 or (high is not None and high < low):
            raise ValueError(f"{name}=({low}, {high}) is no range of a dim of {dims}")
    known = {name: (low, inf if high is None else high) for name, (low, high) in ranges.items()}
    return Shaped(dtype(dtype_), dims, known)


@dataclass(frozen=True)
class Shapes:
    """The arguments of a proof."""

    args: tuple[object, ...]
    keywords: Mapping[str, object]

    @property
    def given(self) -> tuple[object, ...]:
        return (*self.args, *self.keywords.values())

    @property
    def names(self) -> dict[str, tuple[int, float]]:
        """The lengths that are any number, with their ranges."""
        found: dict[str, tuple[int, float]] = {}
        for each in self.given:
            name = each.dims[0] if isinstance(each, Shaped) else None
            if isinstance(each, Shaped) and isinstance(name, str) and (name in each.ranges or name not in found):
                found[name] = each.ranges.get(name, (1, inf))
        return found

    def within(self, name: str, value: int) -> int:
        """A length near a number."""
        low, high = self.names[name]
        return int(min(max(value, low), high))

    def is_free(self, name: str) -> bool:
        """Whether an integer argument may be any number."""
        return name not in self.names

    def sample(self, lengths: Mapping[str, int] | None = None) -> tuple[list[object], dict[str, object]]:
        """The arguments with arrays of zeros."""
        known = lengths or {name: self.within(name, SAMPLE + k) for k, name in enumerate(self.names)}

        def made(value: object) -> object:
            if not isinstance(value, Shaped):
                return value
            return np.zeros([known[dim] if isinstance(dim, str) else dim for dim in value.dims], value.dtype.numpy)

        return [made(value) for value in self.args], {name: made(value) for name, value in self.keywords.items()}

    def applied(
        self, parameters: Sequence[str], program: ir.Program, conditions: Sequence[Expr], lengths: Mapping[Var, int]
    ) -> tuple[ir.Program, dict[Any, Bounds], tuple[Expr, ...]]:
        """A program for many lengths as one for these: with bounds, and with what tracing has assumed of them."""
        values = dict(zip(parameters, self.args, strict=False)) | dict(self.keywords)
        symbols: dict[Var, Var] = {}
        first: dict[str, Var] = {}
        for name, value in values.items():
            if isinstance(value, Shaped) and isinstance(length := value.dims[0], str):
                symbols[first_extent(name)] = first.setdefault(length, first_extent(name))
        fixed = {var: number for var, number in lengths.items() if var not in symbols}
        program = _renamed(at_lengths(program, fixed), symbols)
        assumed = [substitute(condition, {**fixed, **symbols}) for condition in conditions]
        facts = tuple(each for each in assumed if not isinstance(each, int))
        for fact in facts:
            if isinstance(fact, Op) and fact.name == "eq":
                raise VerifyError([_branches(program, fact)])
        bounds: dict[Any, Bounds] = {first[name]: limits for name, limits in self.names.items()}
        return program, bounds, facts


def _branches(program: ir.Program, fact: Expr) -> Finding:
    message = f"{program.name}: Python code depends on a length: the program is only for {fact}"
    return Finding("error", "KN-11", message, fix="give the length as a number, or use pto.when and pto.range").at(
        program.where
    )


def _renamed(program: ir.Program, symbols: Mapping[Var, Var]) -> ir.Program:
    """The program with one symbol for lengths that are the same."""

    def change(expr: Expr) -> Expr:
        return substitute(expr, symbols)

    arguments = tuple(
        replace(
            each,
            shape=tuple(map(change, each.shape)),
            stride=tuple(map(change, each.stride)),
            offset=change(each.offset),
        )
        if isinstance(each, ir.Argument)
        else each
        for each in program.arguments
    )
    body = tuple(ir.with_expressions(stmt, change) for stmt in program.body)
    return replace(program, arguments=arguments, body=body)


def shapes_of(args: Sequence[object], keywords: Mapping[str, object]) -> Shapes:
    """The arguments of a proof."""
    return Shapes(tuple(args), dict(keywords))
