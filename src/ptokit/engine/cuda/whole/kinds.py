"""What the code of a kernel over whole arrays depends on, and its arguments. All kernels have the same ones.

Rows are moved in pieces: how many bytes a thread moves at a time. Layouts count in pieces and bytes. Code depends on
the form of a layout; its numbers are arguments of a kernel.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import gcd
from typing import Any

from ptokit.engine.llvm.address import WHOLE, MemoryView
from ptokit.engine.llvm.emit import I64, PTR, IrValue
from ptokit.engine.llvm.move import common_run
from ptokit.isa.dtype import INT32, DType
from ptokit.isa.layout import Layout, Term
from ptokit.isa.move import Combine, Remap

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


def without_numbers(layout: Layout, piece: int) -> Layout:
    """A layout without the numbers that are arguments."""
    rows, cols = (tuple(_form(term, piece) for term in terms) for terms in (layout.rows, layout.cols))
    return Layout(rows, cols)


def _form(term: Term, piece: int) -> Term:
    known = (term.stride, piece), (term.div, 1), (term.mod, 0)
    return Term(*(number if number == usual else GIVEN for number, usual in known))


def numbers(layout: Layout, piece: int) -> list[int]:
    """The numbers of a layout that are arguments."""
    pairs = zip(_listed(layout), _listed(without_numbers(layout, piece)), strict=True)
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


# --- kinds of code ---------------------------------------------------------------------------------------------------


WORDS = ("count", "capacity", "across", "shift", "chains")
POINTERS = ("table", "other", "index", "flag", "keys")
"""The arguments of a kernel, before the numbers of its layouts.

| argument | meaning |
|---|---|
| `table`, `other`, `index` | the arrays; the first two without `noalias`: random rows take longer by `ld.global.nc` |
| `flag` | the number of indices that are refused, the first of them, and the address of a word that they set to 1 |
| `keys` | lanes by rows (`grouping.py`); keys, sorted; one plus the last lane of each row; or copies of a small table |
| `count`, `capacity` | lanes, rows of the table |
| `across` | pieces of a row |
| `shift` | bits of the number of a slot; or of a lane in a key |
| `chains` | blocks that take long segments |
"""
NO_LAYOUT, ANY = Layout((), ()), INT32
"""What stands for the layout and the element type where code does not depend on them."""
BAG_ARGUMENTS = (PTR, "bounds"), (PTR, "weights"), (PTR, "winners"), (I64, "bags"), (I64, "padding")
"""The arguments of a kernel that reads through bags, behind its pointers: those of `BagGradients`."""
TOTALS = 1024
"""Bytes of shared memory before the rows: the sums so far."""


@dataclass(frozen=True)
class Tuning:
    """Numbers that time depends on, and no result."""

    depth: int = 2
    """Pieces that a thread loads before it stores the first of them."""
    indices: int = 8
    """Indices that a thread loads at a time, where it moves no rows."""
    pieces: int = 4
    """Pieces of 16 bytes that a thread loads at a time, where it only checks indices."""
    joined: int = 1
    """Lanes whose slots a thread looks for."""
    firsts: int = 2
    """Lanes whose slots a thread reads at a time."""
    scanned: int = 8
    """Indices of a few lanes that a thread reads at a time."""
    short: int = 64
    """Lanes of one row that are sorted by counting, at most; a block sorts more."""
    words: int = 25
    """Words of shared memory for each thread of such a block; odd, so that they lie in different banks."""
    long: int = 256
    """Lanes of one row that a thread combines, at most; of more, a block takes a slice of the columns."""
    ahead: int = 4
    """Rows of a shorter segment that are loaded at a time."""
    waves: int = 4
    """Times that blocks which combine shorter segments fill the multiprocessors, at most; then they go on."""
    slice: int = 32
    """Bytes of a row that a block takes of a long segment, at most."""
    staged: int = 4
    """Pieces of a long segment that a thread has under way."""
    chained: int = 16
    """Elements that are read from shared memory ahead of the additions."""
    shares: int = 4
    """Blocks for each multiprocessor that have copies of a small table, and go on until all is done."""
    chains: int = 4
    """Blocks for each multiprocessor that take long segments, and go on until all is done."""


TUNING = Tuning()


@dataclass(frozen=True)
class BagSource:
    """What lanes combine with their rows, if it is not a row of each lane: the row of its bag (`bag_source.py`)."""

    weighted: bool
    """Whether it is multiplied by the weight of the lane."""
    mean: bool
    """Whether it is divided by the number of lanes of the bag."""
    picked: bool
    """Whether each element is for one lane of the bag only."""
    padded: bool
    """Whether lanes of one index do not count."""
    closed: bool
    """Whether the bounds have the end of the last bag."""

    @property
    def of_indices(self) -> BagSource:
        """What code depends on that finds the bags of lanes only."""
        return replace(self, weighted=False, mean=False, picked=False)


@dataclass(frozen=True)
class Kind:
    """What the code of a move depends on."""

    piece: int
    """Bytes of a piece."""
    across: int
    """Pieces of a row; 0 if that is an argument."""
    table: Layout
    other: Layout
    index: Layout
    index_type: DType
    cast: bool
    remap: Remap | None
    """None if no index is outside. Under `REFUSE` an index outside is skipped: it was reported before."""
    dtype: DType
    """The type of the elements, for arithmetic."""
    combine: Combine = Combine.STORE
    wide: bool = False
    """Whether sums are kept in float32."""
    owned: bool = False
    """Whether only the last lane that names a row writes it."""
    few: bool = False
    """Whether the indices are so few that each block checks all of them before it writes."""
    blank: bool = False
    """Whether the rows of the table hold zeros before, and need not be read."""
    source: BagSource | None = None
    """None if each lane has a row of the other array."""
    tuning: Tuning = TUNING

    @property
    def arguments(self) -> int:
        """How many arguments the kernel has."""
        bags = 0 if self.source is None else len(BAG_ARGUMENTS)
        return len(POINTERS) + bags + len(WORDS) + sum(map(given_in, (self.index, self.table, self.other)))

    @property
    def of_indices(self) -> Kind:
        """What code depends on that reads indices only."""
        return replace(self, piece=1, across=1, table=NO_LAYOUT, other=NO_LAYOUT, dtype=ANY, combine=Combine.STORE,
                       wide=False, owned=False, few=False, blank=False,
                       source=self.source and self.source.of_indices)  # fmt: skip

    @property
    def elements(self) -> int:
        """Elements of a piece."""
        return max(1, self.piece // self.dtype.size)

    @property
    def slice(self) -> int:
        """Pieces of a row that a block takes of a long segment."""
        most = self.tuning.slice // self.piece
        return most if not self.across else min(most, self.across)

    def staged_rows(self, lanes: int) -> int:
        """Rows of a long segment that are in shared memory at a time."""
        assert lanes * self.tuning.staged >= self.slice
        return lanes * self.tuning.staged // self.slice

    def shared(self, lanes: int) -> int:
        """Bytes of shared memory that a block needs for a long segment."""
        return TOTALS + 2 * self.pitch(lanes)

    def pitch(self, lanes: int) -> int:
        """Bytes of one of its two buffers."""
        return (self.staged_rows(lanes) + self.tuning.chained) * self.slice * self.piece
