"""The measured indexed moves: the operation, its arrays, the pattern of its indices, and the required figures.

Every array is a view of a few shared buffers. Tables larger than the caches take four times the last level.
Scattered values are small whole numbers: their sums are exact in every order and type, so results agree exactly.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import chain, zip_longest

import ml_dtypes  # noqa: F401  (registers bfloat16 with NumPy)
import numpy as np
from _lengths import LONG, SHORT, cuts
from _machine import Array, caches, empty, memory, size
from _measure import FLOOR, Ask

LEAST_TABLE, MOST_TABLE = 64 << 20, min(1 << 30, memory() // 16)


@dataclass(frozen=True)
class Sizes:
    """The amount of data of a run."""

    payload: int = 64 << 20
    """Bytes of the rows that are moved."""
    lanes: int = 4 << 20
    """Single elements that are moved."""

    @cached_property
    def tables(self) -> dict[str, int]:
        """Bytes of a table larger than all caches (a power of two), of two that fit a large last cache, and of one
        that fits a core's own cache."""
        levels = caches()
        wanted = min(max(4 * levels[max(levels)], LEAST_TABLE), MOST_TABLE)
        beyond = 1 << (wanted - 1).bit_length()
        largest = beyond if beyond <= MOST_TABLE else beyond // 2
        return {
            "beyond": largest,
            "16 MB table": 16 << 20,
            "5 MB table": 5 << 20,
            "in cache": levels.get(2, 1 << 20) // 2,
        }


FULL, QUICK = Sizes(), Sizes(payload=16 << 20, lanes=1 << 20)


def _generator() -> np.random.Generator:
    return np.random.default_rng(5)


def _uniform(lanes: int, cells: int) -> Array:
    return _generator().integers(0, cells, lanes)


def _zipf(lanes: int, cells: int) -> Array:
    """Cell of rank k with a probability like 1 / k^1.2; the ranks are spread over the table."""
    rng, drawn = _generator(), np.empty(0, np.int64)
    while len(drawn) < lanes:
        more = rng.zipf(1.2, lanes)
        drawn = np.concatenate((drawn, more[more <= cells]))
    return drawn[:lanes] * 0x9E3779B1 % cells


def _strided(stride: int) -> Callable[[int, int], Array]:
    """Every `stride`-th cell; wraps around to the next cell from the start, so that none repeats."""

    def indices(lanes: int, cells: int) -> Array:
        steps = np.arange(lanes, dtype=np.int64) * stride
        return (steps % cells + steps // cells) % cells

    return indices


STRIDES = (1, 2, 4, 8, 16, 32, 64, 128)
PATTERNS: dict[str, Callable[[int, int], Array]] = {
    "uniform": _uniform,
    "unique": lambda lanes, cells: _generator().permutation(cells)[:lanes],
    "sorted": lambda lanes, cells: np.sort(_uniform(lanes, cells)),
    "single cell": lambda lanes, cells: np.full(lanes, cells // 3),
    "64 K range": lambda lanes, cells: _uniform(lanes, min(cells, 1 << 16)),
    "Zipf 1.2": _zipf,
    "lower half": lambda lanes, cells: _uniform(lanes, cells // 2),
    **{f"stride {stride}": _strided(stride) for stride in STRIDES},
}
"""Indices by the name of their pattern, for a number of lanes and of cells."""


@lru_cache(maxsize=8)
def indices_of(pattern: str, lanes: int, cells: int, dtype: str) -> Array:
    """Indices of a pattern."""
    return PATTERNS[pattern](lanes, cells).astype(dtype)


@lru_cache(maxsize=32)
def buffer(role: str, count: int, aligned: bool) -> Array:
    """Initialised memory: random bits in a table to gather from, else zeros."""
    found = empty(count, aligned)
    found[:] = np.resize(np.frombuffer(_generator().bytes(1_000_003), np.uint8), count) if role == "table" else 0
    return found


@lru_cache(maxsize=8)
def source(dtype: str, count: int, aligned: bool) -> Array:
    """Small whole numbers in no order."""
    values = _generator().integers(-3, 4, 1_000_003, np.int8).astype(dtype)
    found = empty(count * values.itemsize, aligned).view(dtype)
    found[:] = np.resize(values, count)
    return found


@dataclass(frozen=True)
class Work:
    """One indexed move on arrays: rows of a matrix or elements of a vector."""

    op: str
    table: Array
    indices: Array
    values: Array
    """The result of a gather, or the source of a scatter."""
    repeats: bool
    """Whether indices repeat."""

    @property
    def payload(self) -> int:
        """Bytes that are moved, counted once."""
        return self.values.nbytes

    @property
    def result(self) -> Array:
        """The array that is written."""
        return self.values if self.op == "gather" else self.table

    def reset(self) -> None:
        """Restore the initial state of a call: a scatter's table is zero."""
        if self.op != "gather":
            self.table.fill(0)

    @cached_property
    def truth(self) -> Array:
        """The result of NumPy's simplest call."""
        if self.op == "gather":
            return self.table[self.indices]
        table = np.zeros_like(self.table)
        if self.op == "store":
            table[self.indices] = self.values
        else:
            {"add": np.add, "max": np.maximum}[self.op].at(table, self.indices, self.values)
        return table

    @property
    def is_done(self) -> bool:
        """Whether the result is the true one."""
        return bool(np.array_equal(bits(self.result), bits(self.truth)))

    def part(self, lanes: slice) -> Work:
        """The same move of some of the lanes."""
        return replace(self, indices=self.indices[lanes], values=self.values[lanes])


@dataclass(frozen=True)
class Works:
    """Moves that are made and timed together, one part of each in turn."""

    moves: tuple[Work, ...]
    lengths: str = ""
    """The range of the lanes of a part; without one, a move is one part."""

    @cached_property
    def parts(self) -> list[Work]:
        """What one call of a library does."""
        if not self.lengths:
            return list(self.moves)
        each = [[move.part(lanes) for lanes in cuts(self.lengths, len(move.indices))] for move in self.moves]
        return [part for part in chain(*zip_longest(*each)) if part]

    @property
    def payload(self) -> int:
        """Bytes that are moved, counted once."""
        return sum(move.payload for move in self.moves)

    @property
    def needs_order(self) -> bool:
        """Whether the last of several stores into one cell must win."""
        return any(move.op == "store" and move.repeats for move in self.moves)

    def reset(self) -> None:
        """Restore the initial state."""
        for move in self.moves:
            move.reset()

    def is_right(self, call: Callable[[], object]) -> bool:
        """Whether a call gives the true results, from a clean start."""
        for move in self.moves:
            move.result.fill(0)
        call()
        return all(move.is_done for move in self.moves)


def bits(array: Array) -> Array:
    """The same elements as whole numbers, for code that moves or compares bits."""
    return array.view(f"i{array.itemsize}")


@dataclass(frozen=True)
class Case:
    """The description of a move."""

    group: str
    op: str
    row: int = 0
    """Bytes of a row; 0 for single elements."""
    dtype: str = "float32"
    pattern: str = "uniform"
    table: str = "beyond"
    aligned: bool = False
    index: str = "int64"
    single: bool = True
    """Whether one thread is measured besides several."""
    lengths: str = ""
    """The range of the number of indices of a call; without one, the move is one call."""
    others: tuple[Case, ...] = ()
    """Moves whose calls alternate with those of this one."""
    asks: tuple[Ask, ...] = field(default=(), compare=False)

    @cached_property
    def name(self) -> str:
        """A unique name."""
        parts = [f"{self.op} {size(self.row)} rows" if self.row else f"{self.op} elements"]
        parts += [self.dtype] * (self.dtype != "float32") + [self.pattern] * (self.pattern != "uniform")
        parts += [self.table] * (self.table != "beyond") + ["aligned"] * self.aligned
        parts += [f"{self.index} indices"] * (self.index != "int64") + [f"with {each.name}" for each in self.others]
        return ", ".join(parts + [self.lengths] * bool(self.lengths))

    def counts(self, most: int) -> list[int]:
        """The numbers of threads that are measured. No library divides a short call."""
        return [1] if self.lengths == SHORT else sorted({1, most}) if self.single else [most]

    def works(self, sizes: Sizes) -> Works:
        """The moves, ready to be made."""
        return Works(tuple(each.work(sizes, number) for number, each in enumerate((self, *self.others))), self.lengths)

    def work(self, sizes: Sizes, number: int = 0) -> Work:
        """The arrays of the move itself, as one call; those of another number share no memory that is written."""
        dtype, count = np.dtype(self.dtype), sizes.tables[self.table]
        cells = count // (self.row or dtype.itemsize)
        lanes = sizes.payload // self.row if self.row else sizes.lanes
        if self.pattern == "unique":
            lanes = min(lanes, cells)
        width = self.row // dtype.itemsize if self.row else 1
        gathers = self.op == "gather"
        table = buffer("table" if gathers else f"target {number}", count, self.aligned).view(dtype)
        moved = lanes * width
        if gathers:
            values = buffer(f"out {number}", moved * dtype.itemsize, self.aligned).view(dtype)
        else:
            values = source(self.dtype, moved, self.aligned)
        indices = indices_of(self.pattern, lanes, cells, self.index)
        if self.row:
            table, values = table.reshape(cells, width), values.reshape(lanes, width)
        repeats = self.pattern != "unique" and not self.pattern.startswith("stride")
        return Work(self.op, table, indices, values, repeats)


ROWS = (64, 128, 512, 1 << 10, 4 << 10)
DTYPES = ("float32", "float16", "bfloat16", "int8")
WHOLE = ("uniform", "unique")
SKEWED = ("sorted", "single cell", "64 K range", "Zipf 1.2", "lower half")
MOVES = (
    ("gather", 128), ("gather", 1024), ("gather", 0),
    ("store", 1024), ("add", 1024), ("store", 0), ("add", 0), ("max", 0),
)  # fmt: skip
"""The moves that are measured with every pattern, as operation and row bytes."""
ADDED = Case("element scatter", "add")
ON_AARCH64 = {
    Case("row gather", "gather", 128): (Ask(2.0), Ask(2.6, "NumPy", 1)),
    Case("row gather", "gather", 1024): (Ask(1.7),),
    Case("element gather", "gather"): (Ask(1.5),),
    Case("row scatter", "store", 1024): (Ask(1.7),),
    Case("row scatter", "store", 1024, pattern="unique"): (Ask(1.5),),
    Case("row scatter", "add", 1024): (Ask(1.5), Ask(20, "NumPy")),
    ADDED: (Ask(3.0),),
}
ON_X86 = {
    **{Case("row gather", "gather", row): (Ask(1.3),) for row in ROWS[1:]},
    Case("element gather", "gather"): (Ask(1.0),),
    **{Case("row scatter", op, 1024, pattern="unique"): (Ask(1.0),) for op in ("store", "add")},
    ADDED: (Ask(1.8),),
}
ASKED = {
    Case("row scatter", "add", 1024, "float16"): (Ask(3.0),),
    Case("row scatter", "add", 1024, "bfloat16"): (Ask(1.8),),
    Case("element scatter", "add", 0, "float16"): (Ask(4.0),),
    Case("element scatter", "add", 0, "bfloat16"): (Ask(3.5),),
    **(ON_X86 if platform.machine().lower() in ("x86_64", "amd64") else ON_AARCH64),
}
"""Required figures above the floor."""
SHORT_CALLS = (Ask(0.9, "NumPy", 1), Ask(0.9, "PyTorch", 1))


def _in_turn(table: str, lengths: str) -> Iterator[Case]:
    """Calls that differ in size, in their table and in what they do."""
    one, two, three = (Case("varied", op, 256, table=table) for op in ("gather", "add", "store"))
    other, elements = Case("varied", "gather", 128, table=table), Case("varied", "gather", table=table)
    for first, others in ((one, (other,)), (two, (replace(two, row=128),)), (one, (two, elements, three))):
        yield replace(first, lengths=lengths, others=others)


def _listed() -> Iterator[Case]:
    """All cases in the order of the report."""
    for row in ROWS:
        for table in ("beyond", "in cache"):
            yield Case("row gather", "gather", row, table=table)
            yield Case("row gather", "gather", row, table=table, aligned=True)
    yield Case("row gather", "gather", 128, index="int32")
    yield from (Case("element gather", "gather", 0, dtype) for dtype in DTYPES)
    yield Case("element gather", "gather", index="int32")
    yield Case("element gather", "gather", table="16 MB table")
    yield from (Case("row scatter", op, 1024, pattern=pattern) for op in ("store", "add") for pattern in WHOLE)
    yield from (Case("row scatter", "add", 1024, dtype) for dtype in DTYPES[1:])
    yield from (Case("element scatter", op, 0, dtype) for op in ("store", "add", "max") for dtype in DTYPES)
    yield Case("element scatter", "add", table="16 MB table")
    for op, row in MOVES:
        yield from (Case("floor", op, row, pattern=pattern, single=False) for pattern in SKEWED)
        if (op, row > 0) != ("gather", True):
            yield Case("floor", op, row, table="in cache", single=False)
            yield Case("floor", op, row, aligned=True, single=False)
    for op in ("gather", "store"):
        yield from (Case("Spatter", op, 0, "float64", f"stride {n}", single=False) for n in STRIDES)
    yield from (Case("varied", op, 256, table="5 MB table", lengths=SHORT) for op in ("gather", "store", "add"))
    yield from (Case("varied", op, table="5 MB table", lengths=SHORT) for op in ("gather", "store", "add"))
    yield from _in_turn("5 MB table", SHORT)
    yield from _in_turn("beyond", LONG)


def _varied(case: Case) -> Case:
    """Moves without a peculiarity are measured in calls of many sizes only."""
    plain = case.pattern == "uniform" and case.table == "beyond" and not case.aligned
    return replace(case, lengths=case.lengths or (LONG if plain else ""), asks=_asked(case))


def _asked(case: Case) -> tuple[Ask, ...]:
    return SHORT_CALLS if case.lengths == SHORT else ASKED.get(case, (FLOOR,))


CASES = tuple(map(_varied, _listed()))
assert ASKED.keys() <= set(_listed()), "a required figure belongs to no measured case"
