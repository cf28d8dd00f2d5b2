"""The cases as tables: operand forms, policies, element types and indices, and the programs that they make.

Nothing is drawn at random by a library: every byte comes from a hash of the case's name, on every machine the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import shake_256
from itertools import count, product
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ptokit import spec
from ptokit.conformance.kernel_text import KernelText, TileForm, ViewForm, view_of
from ptokit.isa.dtype import BASE, FLOAT8, INT32, UINT32, DType, dtype

Bits = np.ndarray[Any, np.dtype[Any]]
Data = dict[str, Bits]
"""The elements of each argument as unsigned numbers, in the order of memory."""
Forms = Callable[[int], tuple[TileForm | ViewForm, ...]]
"""The operand forms for the elements of a 32-byte block."""
T, V = TileForm, ViewForm


class CaseInputs(NamedTuple):
    """Inputs of a program, and the clauses that they are about."""

    clauses: str
    data: Data


@dataclass(frozen=True)
class CaseProgram:
    """A program with its inputs."""

    name: str
    text: str
    clauses: str
    arrays: Mapping[str, tuple[DType, int]]
    sets: Sequence[CaseInputs]
    grid: int = 1
    turned: Callable[[Data], Data] | None = None
    """Where several lanes may name one place: the inputs with their lanes in the opposite order."""
    masks: Mapping[str, Bits] = field(default_factory=dict[str, Bits])
    """Of outputs that have unspecified elements: what is compared, by family of targets."""
    families: tuple[str, ...] = spec.FAMILIES
    """Where it is tested."""


class FormRow(NamedTuple):
    """Operand forms that an instruction is tested with. The first row of a mode gets every type with every policy."""

    name: str
    mode: str
    clauses: str
    forms: Forms
    data: str = ""
    """The only element type, and of the index in `indexed`; empty: all in turn."""
    indexed: str = ""
    table: str = ""
    """The element type of the second operand, if it is not that of the first."""


GATHERS = (
    FormRow("plain", "row", "MG-SEM-01 MG-SEM-02 MG-MODE-01 CO-LAY-04",
        lambda c: (T(4, c), T(1, 8, (1, 4)), V((7, c)))),
    FormRow("plain", "elem", "MG-SEM-01 MG-SEM-03 MG-MODE-01", lambda c: (T(3, c), T(3, c), V((7, c)))),
    FormRow("one", "row", "MG-MODE-08", lambda c: (T(1, c), T(1, 8, (1, 1)), V((5, c)))),
    FormRow("padded", "row", "CO-ALIGN-02 CO-ALIGN-04 MG-ALIGN-10 MG-SHAPE-12",
        lambda c: (T(5, 2 * c, (3, c + 1)), T(1, 8, (1, 3)), V((7, c + 1)))),
    FormRow("column", "row", "MG-LAY-13 MG-EX-05 CO-LAY-06",
        lambda c: (T(8, c, (6, c)), T(8, 1, (6, 1), "dn"), V((7, c)))),
    FormRow("standing", "row", "MG-LAY-04", lambda c: (T(6, c), T(6, 1), V((7, c)))),
    FormRow("narrow", "row", "MG-SEM-07", lambda c: (T(4, c, (4, c - 1)), T(1, 8, (1, 4)), V((7, c)))),
    FormRow("strided", "row", "MG-SEM-08 MG-LAY-10", lambda c: (T(4, c), T(1, 8, (1, 4)), V((7, c), (c + 3, 1)))),
    FormRow("outer", "row", "MG-SEM-08 MG-SEM-09 MG-HAZ-09", lambda c: (T(4, c), T(1, 8, (1, 4)), V((2, 1, 3, 2, c)))),
    FormRow("wide", "row", "", lambda c: (T(4, c), T(1, 8, (1, 4)), V((7, c - 2)))),
    FormRow("column_major", "row", "MG-LAY-11 CO-LAY-05",
        lambda c: (T(c, 3, (4, 3), "dn"), T(1, 8, (1, 4)), V((7, 3)))),
    FormRow("fractal", "row", "MG-LAY-08 MG-NZ-02 MG-NZ-03 MG-NZ-04 MG-NZ-08 MG-NZ-09 MG-NZ-11 MG-SHAPE-11",
        lambda c: (T(16, 4 * c, (13, 4 * c), "nz"), T(1, 16, (1, 13)), V((2, 2, 2, 16, c), (), "nz"))),
    FormRow("fractal_gaps", "row", "MG-NZ-06 MG-NZ-11",
        lambda c: (T(16, 2 * c, None, "nz"), T(1, 16), V((1, 2, 2, 16, c), (99 * c, 40 * c, 16 * c, c, 1), "nz"))),
    FormRow("mixed", "row", "", lambda c: (T(16, 2 * c, (13, 2 * c), "nz"), T(1, 16, (1, 13)), V((7, 2 * c)))),
    FormRow("square_index", "row", "MG-EX-01", lambda c: (T(4, c), T(4, 8), V((7, c)))),
    FormRow("short_index", "row", "", lambda c: (T(4, c), T(1, 8, (1, 3)), V((7, c)))),
    FormRow("unaligned", "row", "", lambda c: (T(4, c - 1), T(1, 8, (1, 4)), V((7, c - 1)))),
    FormRow("cube_tile", "row", "", lambda c: (T(16, c, None, "nz", "mat"), T(1, 16), V((7, c)))),
    FormRow("short_type", "row", "", lambda c: (T(4, c), T(1, 16, (1, 4)), V((7, c))), indexed="int16"),
    FormRow("other_type", "row", "", lambda c: (T(4, c), T(1, 8, (1, 4)), V((7, c))), data="float32", table="int32"),
    FormRow("one", "elem", "MG-MODE-09 MG-EX-07", lambda c: (T(1, c, (1, 1)), T(1, 8, (1, 1)), V((1, 32)))),
    FormRow("padded", "elem", "MG-MODE-04 MG-MODE-07 MG-SEM-12 MG-SEM-13 MG-SEM-14 MG-SHAPE-13 MG-SHAPE-06",
        lambda c: (T(4, 2 * c, (3, c - 1)), T(6, 3 * c, (3, c - 1)), V((2, 3 * c)))),
    FormRow("outer", "elem", "MG-SEM-10 MG-SHAPE-13", lambda c: (T(3, c), T(3, c), V((2, 3, 1, 2, c)))),
    FormRow("gaps", "elem", "MG-SEM-11", lambda c: (T(3, c), T(3, c), V((5, c), (c + 2, 1)))),
    FormRow("fractal", "elem", "MG-NZ-04 MG-NZ-07 MG-NZ-08 MG-NZ-09 MG-NZ-12",
        lambda c: (T(16, 2 * c, (5, 2 * c), "nz"), T(5, 2 * c), V((1, 2, 2, 16, c), (), "nz"))),
    FormRow("column_index", "elem", "MG-LAY-14", lambda c: (T(3, c), T(8, c, (3, c), "dn"), V((5, c)))),
    FormRow("column_major", "elem", "MG-LAY-11", lambda c: (T(c, 8, (3, 8), "dn"), T(3, 8), V((5, c)))),
    FormRow("short_index", "elem", "MG-HAZ-13", lambda c: (T(3, c), T(3, c, (2, c)), V((5, c)))),
    FormRow("short_type", "elem", "", lambda c: (T(3, c), T(3, c), V((5, c))), data="int16", indexed="int16"),
    FormRow("columns", "elem", "", lambda c: (T(3, c), T(3, c), V((5, c), (), "dn"))),
)  # fmt: skip
"""Destination, index and table of MGATHER."""
SCATTERS = (
    FormRow("plain", "row", "MS-SEM-01 MS-SEM-03 MS-SEM-04 MS-SEM-07", lambda c: (T(4, c), T(1, 8, (1, 4)), V((7, c)))),
    FormRow("plain", "elem", "MS-SEM-01 MS-SEM-02 MS-SEM-04 MS-SEM-05 MS-SEM-08",
        lambda c: (T(2, c), T(2, c), V((7, c)))),
    FormRow("column", "row", "MS-MODE-01 MS-MODE-02 MS-SHAPE-03 CO-LAY-06",
        lambda c: (T(8, c, (6, c)), T(8, 1, (6, 1), "dn"), V((9, c)))),
    FormRow("standing", "row", "MS-MODE-01 MS-SEM-05 MS-HAZ-05", lambda c: (T(6, c), T(6, 1), V((9, c)))),
    FormRow("padded", "row", "CO-ALIGN-02 CO-ALIGN-04",
        lambda c: (T(5, 2 * c, (3, c + 1)), T(1, 8, (1, 3)), V((7, c + 1)))),
    FormRow("strided", "row", "", lambda c: (T(4, c), T(1, 8, (1, 4)), V((7, c), (c + 3, 1)))),
    FormRow("narrow", "row", "", lambda c: (T(4, c, (4, c - 1)), T(1, 8, (1, 4)), V((7, c)))),
    FormRow("outer", "row", "", lambda c: (T(4, c), T(1, 8, (1, 4)), V((2, 1, 3, 2, c)))),
    FormRow("column_major", "row", "", lambda c: (T(c, 3, (4, 3), "dn"), T(1, 8, (1, 4)), V((7, 3)))),
    FormRow("cube_tile", "row", "", lambda c: (T(16, c, None, "nz", "mat"), T(1, 16), V((17, c)))),
    FormRow("unaligned", "row", "", lambda c: (T(4, c - 1), T(1, 8, (1, 4)), V((7, c - 1)))),
    FormRow("fractal", "row", "", lambda c: (T(4, c), T(1, 8, (1, 4)), V((1, 1, 1, 16, c), (), "nz"))),
    FormRow("short_type", "row", "", lambda c: (T(4, c), T(1, 16, (1, 4)), V((7, c))), indexed="int16"),
    FormRow("other_type", "row", "", lambda c: (T(4, c), T(1, 8, (1, 4)), V((7, c))), data="float32", table="int32"),
    FormRow("raw_type", "row", "", lambda c: (T(4, c), T(1, 8, (1, 4)), V((7, c))), data="hifloat8"),
    FormRow("padded", "elem", "MS-SEM-02 CO-ALIGN-02",
        lambda c: (T(4, 2 * c, (3, c - 1)), T(4, 2 * c, (3, c - 1)), V((5, c)))),
    FormRow("gaps", "elem", "MS-SEM-05", lambda c: (T(2, c), T(2, c), V((5, c), (c + 2, 1)))),
    FormRow("short_index", "elem", "", lambda c: (T(3, c), T(3, c, (2, c)), V((5, c)))),
    FormRow("other_rows", "elem", "", lambda c: (T(3, c), T(4, c, (3, c)), V((5, c)))),
    FormRow("outer", "elem", "", lambda c: (T(2, c), T(2, c), V((2, 1, 3, 2, c)))),
)  # fmt: skip
"""Source, index and table of MSCATTER."""
PLACES = (
    FormRow("plain", "row", "TS-SEM-01 TS-SEM-02 TS-SEM-03", lambda c: (T(4, c), T(4, c), T(4, c))),
    FormRow("plain", "flat", "TS-SEM-02 TS-SEM-03", lambda c: (T(4, c), T(4, c), T(4, c))),
    FormRow("tall", "row", "TS-SEM-01 TS-SEM-03", lambda c: (T(3, c), T(3, c), T(9, c))),
    FormRow("padded", "row", "TS-SEM-01 TS-SEM-03 CO-ALIGN-02",
        lambda c: (T(4, 2 * c, (3, c + 1)), T(5, 2 * c, (3, c + 1)), T(6, 3 * c, (6, c + 2)))),
    FormRow("wide", "row", "", lambda c: (T(3, 2 * c), T(3, 2 * c), T(9, c))),
    FormRow("short_index", "row", "", lambda c: (T(4, c), T(4, c, (3, c)), T(4, c))),
    FormRow("cube_tile", "row", "", lambda c: (T(4, c), T(4, c), T(16, c, None, "nz", "mat"))),
    FormRow("column_major", "row", "", lambda c: (T(4, c), T(4, c), T(c, c, (4, c), "dn"))),
    FormRow("other_type", "row", "",
        lambda c: (T(4, c), T(4, c), T(4, c)), data="float32", indexed="int32", table="int32"),
    FormRow("wide", "flat", "", lambda c: (T(3, c), T(3, c), T(5, 2 * c))),
)  # fmt: skip
"""Source, index and destination of TSCATTER."""
TRANSFERS = (
    FormRow("rows", "nd", "TL-01 TL-02 TT-01", lambda c: (T(4, c), V((4, c)))),
    FormRow("padded", "nd", "TL-02 TL-03 TT-01 CO-ALIGN-02", lambda c: (T(5, 2 * c, (3, c + 1)), V((3, c + 1)))),
    FormRow("strided", "nd", "TL-02 TT-01", lambda c: (T(4, c), V((4, c), (c + 5, 1)))),
    FormRow("folded", "nd", "TL-02 TT-01", lambda c: (T(6, c), V((1, 1, 3, 2, c), (0, 0, 5 * c, 2 * c, 1)))),
    FormRow("columns", "dn", "TL-01 TL-02 TT-01", lambda c: (T(c, 3, (c - 1, 3), "dn"), V((c - 1, 3), (), "dn"))),
    FormRow("blocks", "nz", "TL-01 TL-02 TT-01", lambda c: (T(16, 2 * c, None, "nz"), V((1, 2, 1, 16, c), (), "nz"))),
    FormRow("burst", "nd", "TT-01", lambda c: (T(1, 2 * c), V((1, 2 * c)))),
    FormRow("mixed", "nd", "", lambda c: (T(16, 2 * c, None, "nz"), V((16, 2 * c)))),
    FormRow("unaligned", "nd", "", lambda c: (T(4, c - 1), V((4, c - 1)))),
    FormRow("other_type", "nd", "", lambda c: (T(4, c), V((4, c))), data="float32", table="int32"),
)  # fmt: skip
"""Tile and memory of TLOAD and TSTORE."""

GATHER_OOB = {"": "MG-OOB-02", "clamp": "MG-OOB-05", "wrap": "MG-OOB-06", "zero": "MG-OOB-07 MG-OOB-13"}
SCATTER_OOB = {"": "MS-OOB-02", "clamp": "MS-OOB-04", "wrap": "MS-OOB-05", "skip": "MS-OOB-03"}
"""The policies by suffix, and their clauses."""
WRITES = {
    "": ("MS-ATOM-04", ""),
    "last": ("MS-ATOM-04", "int32 uint32 float32"),
    "atomic_add": ("MS-ATOM-02 MS-ATOM-05", "int32 uint32 float32 float16"),
    "atomic_max": ("MS-ATOM-03 MS-ATOM-06", "int32 float32"),
    "atomic_min": ("MS-ATOM-03 MS-ATOM-07", "int32 float32"),
}
"""What a scatter does with a cell, by suffix: its clauses, and the types that are tested with every policy."""
TYPES = (*BASE, *FLOAT8)
TYPE_CLAUSES = {
    "mgather": ("MG-TYPE-01", "MG-TYPE-02 MG-TYPE-04"), "mscatter": ("MS-TYPE-01", "MS-TYPE-02 MS-TYPE-03"),
    "tscatter": ("TS-TYPE-01 TS-TYPE-08", ""),
}  # fmt: skip
"""The clauses of the nine base types, and of others."""
INDEX_TYPES = (INT32, UINT32)


# --- data


def noise(name: str, elements: int, kind: DType) -> Bits:
    """Any bits: numbers, infinities, NaNs."""
    return np.frombuffer(shake_256(name.encode()).digest(elements * kind.size), f"<u{kind.size}").copy()


def numbers(name: str, elements: int, kind: DType) -> Bits:
    """Small whole numbers without zero: sums are exact in every order, and there is one largest one."""
    small = noise(name, elements, BASE[1]) % 7 + 1
    signs = np.where((small % 3 == 0) & (kind.family != "uint"), -1, 1)
    return (small * signs).astype(kind.numpy).view(f"<u{kind.size}")


def indices(kind: DType, lanes: int, capacity: int, start: int, bad: Sequence[int], every: int) -> Bits:
    """Indices three apart, different ones as far as the capacity allows; each `every`-th one is a bad one instead."""
    step = next(step for step in (3, 4, 5, 7, 1) if step == 1 or np.gcd(step, capacity) == 1)
    found = [(start + step * lane) % capacity for lane in range(lanes)]
    for k, lane in enumerate(range(start % every, lanes, every) if bad else ()):
        found[lane] = bad[(start + k) % len(bad)]
    return np.array([value % (1 << 8 * kind.size) for value in found], f"<u{kind.size}")


def outside(kind: DType, capacity: int) -> dict[str, Sequence[int]]:
    """Indices outside a table, by the clauses of MGATHER that they are about."""
    signed = kind.family == "int"
    far = (-1, -2, -capacity, -capacity - 1, -(1 << 31)) if signed else ((1 << 32) - 1, (1 << 31) + capacity, 1 << 31)
    near = (capacity, capacity + 1, 2 * capacity - 1, 2 * capacity, 7 * capacity + 3)
    return {
        "MG-OOB-03": near,
        "MG-OOB-08 MG-OOB-16 MG-HAZ-12" if signed else "MG-OOB-03 MG-OOB-16": far,
        "MG-OOB-03 MG-OOB-09": ((1 << 31) - 1, capacity),
    }


# --- programs


def programs() -> Iterator[CaseProgram]:
    """All programs of the kit."""
    yield from _gathers()
    yield from _scatters()
    yield from _tile_scatters()
    yield from _transfers()
    yield from _paddings()
    yield from _cube_gathers()
    yield from _in_blocks()


def _kinds(table: Sequence[FormRow], types: Sequence[DType], index_types: Sequence[DType]) -> Iterator[tuple[Any, ...]]:
    """The rows of a table with the types that each is tested with, and whether it is for all policies."""
    turn = count()
    for row in table:
        pairs = [(kind, index) for kind in types for index in index_types]
        if row.name != "plain":
            k = next(turn)
            pairs = [pairs[(5 * k + j) % len(pairs)] for j in range(2 if row.clauses else 1)]
        for kind, index in pairs:
            yield row, dtype(row.data or kind.name), dtype(row.indexed or index.name)


def _arrays(kernel: KernelText, name: str, make: Callable[[str, int, DType], Bits] = noise, **known: Bits) -> Data:
    """Inputs of a kernel: those that are known, and others that `make` makes."""
    return {
        array: known[array] if array in known else make(f"{name} {array}", elements, kind)
        for array, (kind, elements) in kernel.arrays.items()
    }


def _joined(by: str, *words: str) -> str:
    return by.join(word for word in words if word)


def _capacity(table: ViewForm, mode: str) -> int:
    """An estimate from below that is exact for ordinary tables: indices below it are inside on every target."""
    if table.layout == "nz":
        rows = table.shape[2] * 16
        return rows if mode == "row" else rows * table.shape[0] * table.shape[1] * table.shape[4]
    return (1, *table.shape)[-2] if mode == "row" else prod(table.shape)


def _index_sets(kind: DType, lanes: int, capacity: int, every: int, about: str = "") -> Iterator[tuple[str, Bits]]:
    """Indices with lanes outside, each with its clauses."""
    for clauses, bad in outside(kind, capacity).items():
        for start in (0, 1):
            yield about or clauses, indices(kind, lanes, capacity, start, bad, every)


def _gathers() -> Iterator[CaseProgram]:
    for row, kind, index in _kinds(GATHERS, TYPES, INDEX_TYPES):
        dst, idx, table = row.forms(kind.c0)
        lanes, capacity = prod(idx.extents), _capacity(table, row.mode)
        for oob, about in GATHER_OOB.items() if row.clauses else (("clamp", ""),):
            kernel = KernelText(_joined("_", "gather", row.mode, row.name, oob or "undefined", kind.mlir, index.mlir))
            kernel.view("table", dtype(row.table or kind.name), table)
            kernel.view("indices", index, view_of(idx, index.c0))
            kernel.view("out", kind, view_of(dst, kind.c0))
            kernel.tile("idx", index, idx)
            kernel.tile("dst", kind, dst)
            kernel.do("tload", "idx", "indices")
            kernel.do(_joined(".", "mgather", row.mode, oob), "dst", "table", "idx")
            kernel.do("tstore", "dst", "out")
            inside = [("MG-OOB-03", indices(index, lanes, capacity, start, (), 1)) for start in (0, 1)]
            same = ("MG-SEM-04", indices(index, lanes, capacity, 0, (capacity - 1,), 1))
            wild = _index_sets(index, lanes, capacity, 2) if oob else ()
            sets = [
                CaseInputs(words, _arrays(kernel, f"{kernel.name} {k}", indices=found))
                for k, (words, found) in enumerate((*inside, same, *wild))
            ]
            clauses = f"{row.clauses} {about} MG-OOB-14 MG-TYPE-05 {TYPE_CLAUSES['mgather'][kind not in BASE]}"
            yield CaseProgram(kernel.name, str(kernel), clauses, kernel.arrays, sets)


def _scatters() -> Iterator[CaseProgram]:
    for (row, kind, index), (write, (written, legal)) in product(_kinds(SCATTERS, TYPES, INDEX_TYPES), WRITES.items()):
        is_plain = row.name == "plain"
        if is_plain and (index is UINT32) != (TYPES.index(kind) % 2 == 1):
            continue  # the types of data and index in turn
        if write and not is_plain:
            continue
        src, idx, table = row.forms(kind.c0)
        lanes, capacity = prod(idx.extents), _capacity(table, row.mode)
        sums = write.startswith("atomic")
        is_legal = not legal or kind.name in legal.split()
        for oob, about in SCATTER_OOB.items() if row.clauses and is_legal else (("skip", ""),):
            kernel = KernelText(
                _joined("_", "scatter", row.mode, row.name, write, oob or "undefined", kind.mlir, index.mlir)
            )
            kernel.view("table", dtype(row.table or kind.name), table)
            kernel.view("source", kind, view_of(src, kind.c0))
            kernel.view("indices", index, view_of(idx, index.c0))
            kernel.tile("src", kind, src)
            kernel.tile("idx", index, idx)
            kernel.do("tload", "src", "source")
            kernel.do("tload", "idx", "indices")
            kernel.do(_joined(".", "mscatter", row.mode, write, oob), "table", "src", "idx")
            found = [("", indices(index, lanes, capacity, start, (), 1)) for start in (0, 1)]
            found += _index_sets(index, lanes, capacity, lanes, "MS-OOB-07") if oob else ()
            twice = indices(index, lanes, capacity, 2, (), 1)
            twice[1:2] = twice[:1]
            found.append(("MS-ATOM-08" if sums else "MS-CONF-01 MS-CONF-02 MS-CONF-03", twice))
            if sums:
                found.append(("MS-ATOM-08", indices(index, lanes, capacity, 1, (capacity - 1, 0), 1)))
            sets = [
                CaseInputs(words, _arrays(kernel, f"{kernel.name} {k}", numbers if sums else noise, indices=each))
                for k, (words, each) in enumerate(found)
            ]
            clauses = f"{row.clauses} {about} {written} MS-TYPE-05 {TYPE_CLAUSES['mscatter'][kind not in BASE]}"
            rows = src.extents[0] if row.mode == "row" else lanes
            turned = None if sums or write else _turned(rows, "source", "indices")
            yield CaseProgram(kernel.name, str(kernel), clauses, kernel.arrays, sets, turned=turned)


def _turned(rows: int, *names: str) -> Callable[[Data], Data]:
    """A function that turns the order of rows of some inputs."""

    def turn(data: Data) -> Data:
        return {**data, **{name: data[name].reshape(rows, -1)[::-1].reshape(-1) for name in names}}

    return turn


def _tile_scatters() -> Iterator[CaseProgram]:
    for row, kind, index in _kinds(PLACES, TYPES, tuple(map(dtype, ("int16", "uint16", "int32", "uint32")))):
        if row.mode == "flat" and index.size != (4 if kind.size == 4 else 2):
            continue
        src, idx, dst = row.forms(kind.c0)
        kernel = KernelText(_joined("_", "place", row.mode, row.name, kind.mlir, index.mlir))
        other = dtype(row.table or kind.name)
        for name, each, form in (("source", kind, src), ("indices", index, idx), ("out", other, dst)):
            kernel.view(name, each, view_of(form, each.c0))
        for name, each, form in (("src", kind, src), ("idx", index, idx), ("dst", other, dst)):
            kernel.tile(name, each, form)
        for tile, array in (("dst", "out"), ("src", "source"), ("idx", "indices")):
            kernel.do("tload", tile, array)
        kernel.do("tscatter.flat" if row.mode == "flat" else "tscatter", "dst", "src", "idx")
        kernel.do("tstore", "dst", "out")
        (lines, columns), places = idx.extents, dst.extents[0]
        i, j = np.indices((lines, columns))
        flat = indices(index, lines * columns, dst.rows * dst.cols, 1, (), 1)
        found = [("", (i + j + k) % places) for k in range(3)] if row.mode == "row" else [("", flat), ("", flat[::-1])]
        pairs = (i // 2 + j) % places if row.mode == "row" else flat[np.arange(flat.size) // 2]
        sets = [
            CaseInputs(words, _arrays(kernel, f"{kernel.name} {k}", indices=each.astype(f"<u{index.size}").reshape(-1)))
            for k, (words, each) in enumerate((*found, ("TS-CONF-01", pairs)))
        ]
        turned = _turned(lines if row.mode == "row" else lines * columns, "source", "indices")
        clauses = f"{row.clauses} {TYPE_CLAUSES['tscatter'][kind not in BASE]}"
        yield CaseProgram(kernel.name, str(kernel), clauses, kernel.arrays, sets, turned=turned)


def _transfers() -> Iterator[CaseProgram]:
    plain = [row._replace(name="plain") for row in TRANSFERS[:1]]
    for (row, kind, _), add in product(_kinds((*plain, *TRANSFERS[1:]), TYPES, INDEX_TYPES[:1]), ("", " #atomic=add")):
        tile, memory = row.forms(kind.c0)
        if add and not row.clauses:
            continue
        kernel = KernelText(_joined("_", "copy", row.mode, row.name, add and "add", kind.mlir))
        kernel.view("source", dtype(row.table or kind.name), memory)
        kernel.view("out", kind, memory if 0 not in memory.steps else view_of(tile, kind.c0))
        kernel.tile("t", kind, tile)
        kernel.do("tload", "t", "source")
        kernel.do("tstore", "t", "out", attributes=add)
        sets = [CaseInputs("", _arrays(kernel, f"{kernel.name} {k}", numbers if add else noise)) for k in range(3)]
        yield CaseProgram(kernel.name, str(kernel), row.clauses, kernel.arrays, sets)


def _paddings() -> Iterator[CaseProgram]:
    """Loads and gathers into a part of a tile; then the whole tile is stored."""
    for kind, pad in product(BASE, ("null", "zero", "max", "min")):
        kernel = _over_all(f"pad_{pad}_{kind.mlir}", kind, T(5, 2 * kind.c0, (3, kind.c0 + 1), pad=pad))
        kernel.view("source", kind, V((3, kind.c0 + 1)))
        kernel.do("tload", "part", "source")
        _end(kernel)
        yield CaseProgram(
            kernel.name, str(kernel), "TL-03", kernel.arrays, [CaseInputs("", _arrays(kernel, kernel.name))]
        )
    for kind, mode, oob in product(BASE, ("row", "elem"), ("undefined", "zero")):
        part = T(5, 2 * kind.c0, (3, kind.c0 + 1))
        kernel = _over_all(f"keep_{mode}_{oob}_{kind.mlir}", kind, part)
        idx = T(1, 8, (1, 3)) if mode == "row" else part
        kernel.view("table", kind, V((6, kind.c0 + 1)))
        kernel.view("indices", INT32, view_of(idx, 8))
        kernel.tile("idx", INT32, idx, 0x4000)
        kernel.do("tload", "idx", "indices")
        kernel.line("barrier PIPE_ALL")
        kernel.do(f"mgather.{mode}{'' if oob == 'undefined' else '.zero'}", "part", "table", "idx")
        _end(kernel)
        bad = (1 << 20,) if oob == "zero" else ()
        found = indices(INT32, prod(idx.extents), 6 if mode == "row" else 6 * kind.c0 + 6, 0, bad, 2)
        tail = np.ones((5, 2 * kind.c0), bool)  # a transfer of a row writes whole blocks
        tail[:3, kind.c0 + 1 :] = False
        masks = {"a2a3": tail.reshape(-1)} if mode == "row" else {}
        sets = [CaseInputs("", _arrays(kernel, kernel.name, indices=found))]
        yield CaseProgram(kernel.name, str(kernel), "MG-SEM-05 CO-ALIGN-05", kernel.arrays, sets, masks=masks)


def _over_all(name: str, kind: DType, part: TileForm) -> KernelText:
    """A manual kernel with a tile twice: a part of it, and all of it, which has the content of `out`."""
    kernel = KernelText(name)
    kernel.view("out", kind, V((part.rows, part.cols)))
    kernel.tile("all", kind, T(part.rows, part.cols), 0)
    kernel.tile("part", kind, part, 0)
    kernel.do("tload", "all", "out")
    kernel.line("barrier PIPE_ALL")
    return kernel


def _end(kernel: KernelText) -> None:
    kernel.line("barrier PIPE_ALL")
    kernel.do("tstore", "all", "out")


def _cube_gathers() -> Iterator[CaseProgram]:
    """Gathers into L1, multiplied by the identity: the products are the gathered numbers in any order of the sums."""
    float32 = dtype("float32")
    modes = (
        ("row", "MG-L1-09 MG-L1-24"),
        ("elem", "MG-L1-12 MG-L1-25 MG-L1-26"),
        ("elem.simt", "MG-SIMT-20 MG-SIMT-23"),
    )
    lefts = (("zz", ("cpu", "a2a3")), ("nz", ("a5",)))
    halves = dtype("float16"), dtype("bfloat16")
    for (mode, about), oob, kind, (left, families) in product(modes, GATHER_OOB, halves, lefts):
        is_row, wide = mode == "row", T(16, 16, None, "nz", "mat")
        part = wide._replace(valid=(13, 16))
        kernel = KernelText(_joined("_", "cube", left, mode.replace(".", "_"), oob or "undefined", kind.mlir))
        lanes, capacity = (13, 20) if is_row else (13 * 16, 20 * 16)
        views = {
            "table": V((20, 16)),
            "indices": V((1 if is_row else 13, lanes if is_row else 16)),
            "identity": V((16, 16)),
        }
        for name, form in views.items():
            kernel.view(name, INT32 if name == "indices" else kind, form)
        kernel.view("out", float32, V((13, 16)))
        if not is_row:
            kernel.view("scratch", kind, V((1, 256)))
        for name, form in (("a1", part), ("b1", wide), ("a0", part._replace(form=left, loc="left")),
                           ("b0", wide._replace(form="zn", loc="right"))):  # fmt: skip
            kernel.tile(name, kind, form)
        kernel.tile("acc", float32, part._replace(loc="acc", fractal=1024))
        opcode = _joined(".", "mgather", mode.partition(".")[0], oob, mode.partition(".")[2])
        kernel.do(opcode, "a1", "table", "indices", *(() if is_row else ("scratch",)))
        for op, *names in (("tload", "b1", "identity"), ("tmov", "a0", "a1"), ("tmov", "b0", "b1"),
                           ("tmatmul", "acc", "a0", "b0"), ("tstore", "acc", "out")):  # fmt: skip
            kernel.do(op, *names)
        identity = np.eye(16).astype(kind.numpy).view(kind.bits).reshape(-1)
        found = [("", indices(INT32, lanes, capacity, start, (), 1)) for start in (0, 1)]
        found += _index_sets(INT32, lanes, capacity, 2) if oob else ()
        sets = [
            CaseInputs(words, _arrays(kernel, f"{kernel.name} {k}", numbers, indices=each, identity=identity))
            for k, (words, each) in enumerate(found)
        ]
        clauses = (
            f"{about} MG-L1-01 MG-L1-02 {GATHER_OOB[oob].split()[0]} {'MG-L1-11' if oob == 'zero' and is_row else ''}"
        )
        yield CaseProgram(kernel.name, str(kernel), clauses, kernel.arrays, sets, families=families)


def _in_blocks() -> Iterator[CaseProgram]:
    """Three blocks gather rows and add them to another table, in which they meet."""
    for kind in (dtype("float32"), INT32, dtype("float16")):
        kernel, row = KernelText(f"blocks_{kind.mlir}"), T(1, 8, (1, 4))
        for name, form in (("table", V((9, kind.c0))), ("sums", V((5, kind.c0)))):
            kernel.view(name, kind, form)
        for name in ("sources", "places"):
            kernel.view(name, INT32, V((1, 12)))
            kernel.tile(f"{name}_idx", INT32, row)
        kernel.tile("rows", kind, T(4, kind.c0))
        kernel.line("%block = get_block_idx")
        kernel.line("%number = arith.index_cast %block : i64 to index")
        kernel.line("%first = arith.muli %number, 4 : index")
        for name in ("sources", "places"):
            kernel.line(f"tload %{name}_idx, %{name}_view[0, %first] : ({row.text(INT32)}, !pto.memref<1x12xi32>)")
        kernel.do("mgather.row.clamp", "rows", "table", "sources_idx")
        kernel.do("mscatter.row.atomic_add.skip", "sums", "rows", "places_idx")
        sets = [
            CaseInputs("MG-OOB-05 MS-OOB-03 MS-ATOM-02 MS-ATOM-08", _arrays(
                kernel, f"{kernel.name} {k}", numbers, sources=indices(INT32, 12, 9, k, (9, 77), 5),
                places=indices(INT32, 12, 5, k, (5, -1), 4),
            )) for k in range(4)
        ]  # fmt: skip
        yield CaseProgram(kernel.name, str(kernel), "MG-SEM-02", kernel.arrays, sets, grid=3)
