"""Bags of gathered rows and their gradients: the descriptions that engines take.

`engine/llvm/bags.py` says what bags are, and what is computed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ptokit.isa.dtype import DType
from ptokit.isa.move import Combine


class BagsKind(NamedTuple):
    """What the code of bags depends on, however many there are."""

    dtype: DType
    index_type: DType | None
    """That of the indices, of four or eight bytes; None where lane k names row k."""
    combine: Combine
    width: int
    """Elements of a row."""
    weighted: bool = False
    """Whether each lane has a weight, an element of the table's type."""
    padded: bool = False
    """Whether lanes of one index do not count."""
    tracked: bool = False
    """Whether the lane of each element of the greatest or least is wanted, a 32-bit number."""
    mean: bool = False
    """Whether sums of floats are divided by the number of lanes that count."""
    closed: bool = True
    """Whether the bounds have the end of the last bag; if not, that is the number of lanes."""
    followed: bool = False
    """Whether the caller has more work for a GPU: a call should return as soon as the indices are checked."""


class BagSizes(NamedTuple):
    """The sizes of one call."""

    capacity: int
    """Rows of the table, at least one."""
    bags: int
    lanes: int
    padding: int
    """The index of lanes that do not count; -1 if all do."""


class BagPlaces(NamedTuple):
    """The addresses of packed arrays."""

    table: int
    indices: int
    bounds: int
    """64-bit numbers: where each bag begins; if `closed`, also where the last one ends."""
    weights: int
    out: int
    winners: int


PreparedBags = Callable[[BagPlaces, BagSizes, int | None], bool]
"""Bags of a kind that an engine has prepared; the last argument is a number of threads. It returns False if an index is
outside of the table, or if an engine of the host finds that bounds are not in order: nothing of the result counts."""


class BagGradients(NamedTuple):
    """Gradients of bags, which are added to the rows of a table in the order of the lanes; by addresses of packed
    arrays.

    A lane adds the row of its bag to the row that it names: divided by the number of lanes of the bag in a mean, times
    its weight, each rounded to the type. Of the greatest and least, it adds the elements that are its own. A lane
    without a bag, of the padding index or of an index outside of the table adds nothing. Sums of floats narrower than
    float32 are taken in float32 and rounded once.
    """

    dtype: DType
    """That of all elements: a float of two bytes or more."""
    index_type: DType
    """Of four or eight bytes."""
    width: int
    """Elements of a row."""
    capacity: int
    """Rows of the table."""
    bags: int
    lanes: int
    padding: int
    """The index of lanes that do not count; -1 if all do."""
    grad: int
    """A row for each bag."""
    indices: int
    bounds: int
    """64-bit numbers, which may be anything: where each bag begins; if `closed`, also where the last one ends."""
    weights: int
    """An element for each lane; 0 if there are none."""
    winners: int
    """32-bit numbers: the lane of each element of the greatest or least; 0 if they are not that."""
    out: int
    """The rows of the table, new memory: those that no lane names get zeros."""
    mean: bool = False
    """Whether they are divided by the number of all lanes of the bag."""
    closed: bool = True
    """Whether `bounds` has the end of the last bag; if not, that is the number of lanes."""
