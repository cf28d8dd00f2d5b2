"""Bags of gathered rows: the description that engines take. `engine/llvm/bags.py` says what they compute."""

from __future__ import annotations

from typing import NamedTuple

from ptokit.isa.dtype import DType
from ptokit.isa.move import Combine


class Bags(NamedTuple):
    """Rows of a table in bags, by the addresses of packed arrays."""

    dtype: DType
    index_type: DType | None
    """That of the indices, of four or eight bytes; None where lane k names row k."""
    combine: Combine
    width: int
    """Elements of a row."""
    capacity: int
    """Rows of the table, at least one."""
    bags: int
    lanes: int
    padding: int
    """The index of lanes that do not count; -1 if all do."""
    table: int
    indices: int
    bounds: int
    """64-bit numbers: where each bag begins; if `closed`, also where the last one ends."""
    weights: int
    """Elements of the table's type; 0 if there are none."""
    out: int
    winners: int
    """32-bit numbers: the lane of each element of the greatest or least; 0 if they are not wanted."""
    mean: bool = False
    """Whether sums of floats are divided by the number of lanes that count."""
    closed: bool = True
    """Whether `bounds` has the end of the last bag; if not, that is the number of lanes."""

    @property
    def places(self) -> tuple[int, int, int, int, int, int]:
        """The addresses, in the order in which engines take them."""
        return self.table, self.indices, self.bounds, self.weights, self.out, self.winners

    @property
    def anywhere(self) -> Bags:
        """Bags like these, wherever they are; of weights and winners, whether there are any."""
        has = {"weights": int(self.weights != 0), "winners": int(self.winners != 0)}
        return self._replace(table=0, indices=0, bounds=0, out=0, **has)
