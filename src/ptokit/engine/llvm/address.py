"""Layouts as address arithmetic, and the runs of elements that lie side by side under them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from math import gcd
from typing import Any

from ptokit.engine.llvm.emit import I64, IrBuilder, IrValue
from ptokit.isa.layout import Layout, Term

ValueOf = Callable[[Any], IrValue]
"""Turns a whole number of a layout or a shape, known at compile time or at run time, into a 64-bit value."""

WHOLE = 1 << 62
"""The length of a run without end."""


def coordinate(code: IrBuilder, terms: tuple[Term, ...], at: IrValue, value_of: ValueOf) -> IrValue:
    """What a coordinate (never negative) contributes to an element's offset."""
    total = code.i64(0)
    for term in terms:
        part = at if is_number(term.div, 1) else at.op("udiv", value_of(term.div))
        if not is_number(term.mod, 0):
            part = part.op("urem", value_of(term.mod))
        total = total + part * value_of(term.stride)
    return total


def is_number(number: object, expected: int) -> bool:
    """Whether a number is known at compile time, and is this one."""
    return isinstance(number, int) and number == expected


def are_known(numbers: Iterable[object]) -> bool:
    """Whether all numbers are known at compile time."""
    return all(isinstance(number, int) for number in numbers)


def numbers_in(terms: Iterable[Term]) -> list[int]:
    """The numbers of a layout's terms; some may be known at run time only."""
    return [number for term in terms for number in (term.stride, term.div, term.mod)]


def run_length(terms: tuple[Term, ...]) -> int:
    """How many neighbours along a coordinate lie side by side; groups begin at multiples of that number."""
    if not terms or not are_known(numbers_in(terms)):
        return 1
    first = min(terms, key=lambda t: t.div)
    if (first.stride, first.div) != (1, 1):
        return 1
    length = first.mod or WHOLE
    for term in terms:
        if term is not first:
            length = gcd(length, term.div) if length != WHOLE else term.div
    return length


@dataclass(frozen=True)
class MemoryView:
    """A region of elements in memory: where it begins, how it is laid out, how wide an element is."""

    base: IrValue
    layout: Layout
    size: int
    far: bool = False
    """Whether it is part of an array."""
    align: int = 1
    """Bytes that the base is known to be a multiple of."""
    swizzle: int = 0
    """Bits of an address that are exchanged with those three places higher; the base is a multiple of 1,024."""

    def row(self, code: IrBuilder, i: IrValue, value_of: ValueOf) -> IrValue:
        """Where row `i` begins."""
        return code.at(self.base, coordinate(code, self.layout.rows, i, value_of) * self.size)

    def alignment(self, count: int) -> int:
        """Bytes that `count` elements are known to be aligned to, where they lie side by side from a multiple on."""
        steps = [t.stride for t in (*self.layout.rows, *self.layout.cols) if not is_number(t.stride, 1)]
        known = steps if are_known(steps) else [1]
        return max(self.size, gcd(self.align, self.size * gcd(count, *known)))

    @property
    def transposed(self) -> MemoryView:
        """The same with rows and columns exchanged."""
        return replace(self, layout=Layout(self.layout.cols, self.layout.rows))

    def col(self, code: IrBuilder, row: IrValue, j: IrValue, value_of: ValueOf) -> IrValue:
        """Where column `j` of a row lies."""
        plain = code.at(row, coordinate(code, self.layout.cols, j, value_of) * self.size)
        if not self.swizzle:
            return plain
        offset = plain.to("ptrtoint", I64) - self.base.to("ptrtoint", I64)
        return code.at(self.base, offset ^ ((offset >> 3) & self.swizzle))
