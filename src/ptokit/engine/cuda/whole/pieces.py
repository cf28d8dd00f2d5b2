"""Rows in pieces: how many bytes a thread moves at a time, and layouts that count in pieces and bytes.

Code depends on the form of a layout; its numbers are arguments of a kernel.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import gcd
from typing import Any

from ptokit.engine.llvm.address import WHOLE, MemoryView
from ptokit.engine.llvm.emit import IrValue
from ptokit.engine.llvm.move import common_run
from ptokit.isa.layout import Layout, Term

PIECE = 16
"""Bytes that a thread moves at a time, at most."""
GIVEN = -1
"""A number of a layout that is an argument."""


def alignment(layouts: Sequence[Layout], width: int, size: int) -> int:
    """The longest piece, in bytes, that rows of both ends divide into, if their arrays are aligned to it."""
    run = common_run(layouts[0].cols, layouts[1].cols)
    steps = [t.stride for layout in layouts for t in (*layout.rows, *(t for t in layout.cols if t.div > 1))]
    return gcd(PIECE, size * gcd(width, *steps, *(() if run == WHOLE else (run,))))


def in_bytes(layout: Layout, size: int, piece: int) -> Layout:
    """A layout of elements as one of bytes; its columns are pieces."""
    rows = tuple(Term(t.stride * size, t.div, t.mod) for t in layout.rows)
    if piece > size:
        wide = piece // size
        cols = (Term(t.stride * size * (wide if t.div == 1 else 1), max(1, t.div // wide), t.mod) for t in layout.cols)
        return Layout(rows, tuple(Term(t.stride, t.div, t.mod // wide if t.div == 1 else t.mod) for t in cols))
    parts = size // piece
    cols = tuple(Term(t.stride * size, t.div * parts, t.mod) for t in layout.cols)
    if parts > 1:
        first = Term(piece, 1, parts if cols else 0)
        if cols and (cols[0].stride, cols[0].div) == (size, parts):
            first, cols = Term(piece, 1, cols[0].mod * parts), cols[1:]
        cols = (first, *cols)
    return Layout(rows, cols)


def form(layout: Layout, piece: int) -> Layout:
    """A layout without the numbers that are arguments."""
    rows, cols = (tuple(_form(term, piece) for term in terms) for terms in (layout.rows, layout.cols))
    return Layout(rows, cols)


def _form(term: Term, piece: int) -> Term:
    known = (term.stride, piece), (term.div, 1), (term.mod, 0)
    return Term(*(number if number == usual else GIVEN for number, usual in known))


def numbers(layout: Layout, piece: int) -> list[int]:
    """The numbers of a layout that are arguments."""
    pairs = zip(_listed(layout), _listed(form(layout, piece)), strict=True)
    return [number for number, kept in pairs if kept == GIVEN]


def given_in(kind: Layout) -> int:
    """How many numbers of a layout of a form are arguments."""
    return _listed(kind).count(GIVEN)


def _listed(layout: Layout) -> list[int]:
    return [number for term in (*layout.rows, *layout.cols) for number in (term.stride, term.div, term.mod)]


def view(base: IrValue, kind: Layout, given: Iterator[IrValue]) -> MemoryView:
    """A region of bytes whose layout has a form, with the next numbers of some arguments."""

    def bound(terms: tuple[Term, ...]) -> tuple[Term, ...]:
        made: list[Any] = [
            [next(given) if number == GIVEN else number for number in (term.stride, term.div, term.mod)]
            for term in terms
        ]
        return tuple(Term(*each) for each in made)

    return MemoryView(base, Layout(bound(kind.rows), bound(kind.cols)), 1)
