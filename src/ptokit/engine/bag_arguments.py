"""Bags of gathered rows and their gradients: the descriptions that engines take.

`engine/llvm/bag_code.py` says what bags are, and what is computed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ptokit.isa.dtype import DType
from ptokit.isa.move import Combine

PARTIAL = 16
"""Sums of squares of a row that are taken side by side: of columns j, j + 16, …"""


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
    far: int | None = None
    """Of an engine, as the next two: the locality of LLVM's prefetches of rows; None if they are not prefetched."""
    host: bool = False
    """Whether the code is for a CPU."""
    at_once: int = 1
    """Lanes whose rows are loaded before the first of them is reduced."""


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


class TableBags(NamedTuple):
    """Bags of rows of one of many tables. Their number of lanes is that of all tables."""

    kind: BagsKind
    places: BagPlaces
    sizes: BagSizes

    @property
    def words(self) -> tuple[int, ...]:
        """Addresses and numbers, in the order of the arguments of code for bags."""
        capacity, bags, lanes, padding = self.sizes
        return *self.places, lanes, capacity, self.kind.width * self.kind.dtype.size, padding, bags


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


class RowUpdate(NamedTuple):
    """Gradients of the rows that lanes name, which are summed in the order of the lanes, and stored or applied to the
    table, row after row; by addresses of packed arrays.

    A lane adds the row of its bag to the row that it names: times its weight, rounded to the type; of the greatest and
    least, the elements that are its own. Lanes of the padding index or of an index outside of the table add nothing.
    Sums begin with 0, and are taken in float32, or in float64 where the elements are that, and rounded once. `rule`
    says what becomes of the sum of a row; `engine/llvm/row_code.py` has the formulas.
    """

    dtype: DType
    """That of all elements but for the state: a float of two bytes or more."""
    index_type: DType
    """Of four or eight bytes."""
    rule: str
    """`store`, `sgd`, `adagrad` or `rowwise_adagrad`."""
    width: int
    """Elements of a row."""
    capacity: int
    """Rows of the table."""
    bags: int
    first: int
    """The number of the first lane; the arrays also hold the lanes before it."""
    last: int
    padding: int
    """The index of lanes that do not count; -1 if all do."""
    grad: int
    """A row for each bag, or for each lane if there are no bounds."""
    grad_row: int
    """Bytes from one to the next."""
    indices: int
    bounds: int
    """64-bit numbers: where each bag begins, and where the last one ends; 0 if every lane is a bag."""
    weights: int
    """An element for each lane; 0 if there are none."""
    winners: int
    """32-bit numbers: the lane of each element of the greatest or least; 0 if they are not that."""
    table: int = 0
    """The rows that are updated; 0 for `store`."""
    state: int = 0
    """Sums of squares of the type of sums, for each element or for each row; 0 if the rule has none."""
    lr: float = 0.0
    eps: float = 0.0
    decay: float = 0.0

    @property
    def is_owned(self) -> bool:
        """Whether the bag of each lane must be known beside the lane."""
        return self.bounds != 0 and (self.weights != 0 or self.winners != 0)
