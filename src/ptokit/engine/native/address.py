"""Layouts as address arithmetic, and the runs of elements that lie side by side under them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import gcd
from typing import Any

from ptokit.engine.native.emit import IrBuilder, IrValue
from ptokit.isa.layout import Layout, Term

Worth = Callable[[Any], IrValue]
"""Takes a whole number of a layout or a shape, known or of the run, to a 64-bit value."""

WHOLE = 1 << 62
"""A run without end."""


def coordinate(code: IrBuilder, terms: tuple[Term, ...], at: IrValue, worth: Worth) -> IrValue:
    """What a coordinate (never negative) contributes to an element's offset."""
    total = code.i64(0)
    for term in terms:
        part = at if _is(term.div, 1) else at.op("udiv", worth(term.div))
        if not _is(term.mod, 0):
            part = part.op("urem", worth(term.mod))
        total = total + part * worth(term.stride)
    return total


def _is(number: Any, wanted: int) -> bool:
    """Whether a number is known to be a certain one; nothing is asked of numbers of the run."""
    return isinstance(number, int) and number == wanted


def run_length(terms: tuple[Term, ...]) -> int:
    """How many neighbours along a coordinate lie side by side, from every multiple of that number on."""
    if not terms or not all(isinstance(n, int) for t in terms for n in (t.stride, t.div, t.mod)):
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

    def row(self, code: IrBuilder, i: IrValue, worth: Worth) -> IrValue:
        """Where row `i` begins."""
        return code.at(self.base, coordinate(code, self.layout.rows, i, worth) * self.size)

    def col(self, code: IrBuilder, row: IrValue, j: IrValue, worth: Worth) -> IrValue:
        """Where column `j` of a row lies."""
        return code.at(row, coordinate(code, self.layout.cols, j, worth) * self.size)
