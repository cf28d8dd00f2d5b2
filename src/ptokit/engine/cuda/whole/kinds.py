"""What the code of a kernel over whole arrays depends on, and its arguments. All kernels have the same ones."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ptokit.engine.cuda.whole.pieces import given_in
from ptokit.engine.llvm.emit import I64, PTR
from ptokit.isa.dtype import INT32, DType
from ptokit.isa.layout import Layout
from ptokit.isa.move import Combine, Remap

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
