"""The documents' formulas as plain loops over (i, j): the oracle for the reference engine.

Nothing here comes from ptokit. An operand is a place in a bytearray plus plain numbers and strings; two operands
that share a bytearray share memory, so that aliasing needs no code of its own. Every instruction first checks the
indices that the caller promised (in row-major order), then runs strictly one lane after another, and puts all memory
back when a lane may not run.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product
from math import prod
from typing import Any

import ml_dtypes
import numpy as np

NUMPY = {
    "int8": np.int8,
    "uint8": np.uint8,
    "int16": np.int16,
    "uint16": np.uint16,
    "int32": np.int32,
    "uint32": np.uint32,
    "int64": np.int64,
    "uint64": np.uint64,
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
    "float32": np.float32,
    "float64": np.float64,
    "float8_e4m3": ml_dtypes.float8_e4m3fn,
    "float8_e5m2": ml_dtypes.float8_e5m2,
    "hifloat8": np.uint8,
    "bool": np.bool_,
    "complex64": np.complex64,
    "complex128": np.complex128,
    "int4": ml_dtypes.int4,
    "float8_e3m4": ml_dtypes.float8_e3m4,
    "float8_e4m3b11fnuz": ml_dtypes.float8_e4m3b11fnuz,
    "float8_e8m0fnu": ml_dtypes.float8_e8m0fnu,
}
SIZE = {name: np.dtype(kind).itemsize for name, kind in NUMPY.items()}
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
QUIET_NAN = {  # A-16 gives the first three
    "float32": 0x7FC00000,
    "float16": 0x7E00,
    "bfloat16": 0x7FC0,
    "float64": 0x7FF8000000000000,
    "float8_e4m3": 0x7F,
    "float8_e5m2": 0x7E,
    "float8_e3m4": 0x78,
    "float8_e4m3b11fnuz": 0x80,  # the only NaN there is
    "float8_e8m0fnu": 0xFF,  # the only NaN there is
}
INFINITY = {  # the largest number where there is no infinity
    "float32": 0x7F800000,
    "float16": 0x7C00,
    "bfloat16": 0x7F80,
    "float64": 0x7FF0000000000000,
    "float8_e4m3": 0x7E,
    "float8_e5m2": 0x7C,
}


class OutOfRange(Exception):
    """The caller's promise (`undefined`) is broken: the first lane, in row-major order."""

    def __init__(self, lane: tuple[int, ...], value: int, capacity: int) -> None:
        super().__init__(f"lane {lane}: {value} is not below {capacity}")
        self.lane, self.value, self.capacity = lane, value, capacity


class OutsideSpan(Exception):
    """An address outside the operand's memory ("No call reads or writes outside the span of its tensor")."""


@dataclass
class Outcome:
    """Other findings of a call that ran."""

    unspecified: list[tuple[bytearray, int]] = field(default_factory=list)
    """Bytes that no document gives a value."""
    negative: bool = False
    """A negative int32 index met clamp or wrap (H-13)."""
    padding: bool = False
    """A tscatter index selected padding of its destination (H-12)."""


# --- Memory ----------------------------------------------------------------------------------------------------


@dataclass
class Operand(ABC):
    """Elements of one type in a memory, from a byte position on."""

    mem: bytearray
    base: int
    dtype: str

    @property
    def size(self) -> int:
        return SIZE[self.dtype]

    @property
    def c0(self) -> int:
        """Elements in one 32-byte block (MG-NZ-01)."""
        return max(1, 32 // self.size)

    @abstractmethod
    def span(self) -> int:
        """How many elements the memory has for this place."""

    def byte(self, offset: int) -> int:
        if not 0 <= offset < self.span():
            raise OutsideSpan(f"element {offset} of {self.span()}")
        return self.base + offset * self.size

    def load(self, offset: int) -> int:
        """The bits of an element."""
        at = self.byte(offset)
        return int.from_bytes(self.mem[at : at + self.size], "little")

    def store(self, offset: int, bits: int) -> None:
        at = self.byte(offset)
        self.mem[at : at + self.size] = bits.to_bytes(self.size, "little")

    def bytes_of(self, offset: int) -> Iterator[tuple[bytearray, int]]:
        at = self.byte(offset)
        return ((self.mem, at + k) for k in range(self.size))


def box_of(form: str, fractal: int, size: int) -> tuple[int, int]:
    """innerR x innerC (compute.md, section 1)."""
    if fractal == 1024:
        return 16, 16
    across = 32 // size if fractal == 512 else 2
    return (16, across) if form in ("nz", "zz") else (across, 16)


def tile_offset(form: str, rows: int, cols: int, fractal: int, size: int, r: int, c: int) -> int:
    """The six tile layouts (compute.md, section 1)."""
    if form == "nd":
        return r * cols + c
    if form == "dn":
        return c * rows + r
    height, width = box_of(form, fractal, size)
    br, ir, bc, ic = r // height, r % height, c // width, c % width
    n = height * width
    if form == "nz":
        return bc * rows * width + br * n + ir * width + ic
    if form == "zn":
        return br * cols * height + bc * n + ic * height + ir
    if form == "zz":
        return br * cols * height + bc * n + ir * width + ic
    if form == "nn":
        return bc * rows * width + br * n + ic * height + ir
    raise ValueError(form)


def tensor_offset(layout: str, shape: tuple[int, ...], stride: tuple[int, ...], c0: int, r: int, c: int) -> int:
    """Logical (r, c) of a global tensor (compute.md, section 1; MG-NZ-08)."""
    if layout == "nd":
        d3 = r % shape[3]
        d2 = r // shape[3] % shape[2]
        d1 = r // (shape[3] * shape[2]) % shape[1]
        d0 = r // (shape[3] * shape[2] * shape[1])
        return d0 * stride[0] + d1 * stride[1] + d2 * stride[2] + d3 * stride[3] + c * stride[4]
    if layout == "dn":
        d4 = c % shape[4]
        d2 = c // shape[4] % shape[2]
        d1 = c // (shape[4] * shape[2]) % shape[1]
        d0 = c // (shape[4] * shape[2] * shape[1])
        return d0 * stride[0] + d1 * stride[1] + d2 * stride[2] + r * stride[3] + d4 * stride[4]
    b, bc = (c // c0) // shape[1], (c // c0) % shape[1]
    return b * stride[0] + bc * stride[1] + (r // 16) * stride[2] + (r % 16) * stride[3] + (c % c0) * stride[4]


@dataclass
class Tile(Operand):
    rows: int
    cols: int
    valid_rows: int
    valid_cols: int
    form: str = "nd"
    fractal: int = 512
    pad: str = "null"
    loc: str = "vec"

    def offset(self, r: int, c: int) -> int:
        return tile_offset(self.form, self.rows, self.cols, self.fractal, self.size, r, c)

    def span(self) -> int:
        return self.rows * self.cols

    def valid(self) -> Iterator[tuple[int, int]]:
        """(i, j) in row-major order."""
        for i in range(self.valid_rows):
            for j in range(self.valid_cols):
                yield i, j


@dataclass
class Tensor(Operand):
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    layout: str = "nd"

    def offset(self, r: int, c: int) -> int:
        return tensor_offset(self.layout, self.shape, self.stride, self.c0, r, c)

    def span(self) -> int:
        return 1 + sum((n - 1) * s for n, s in zip(self.shape, self.stride, strict=True))


def all_or_nothing(run: Callable[[], Outcome], *operands: Operand | None) -> Outcome:
    """Nothing is written by an instruction that raises."""
    memories = [operand.mem for operand in operands if operand is not None]
    before = [bytes(memory) for memory in memories]
    try:
        return run()
    except (OutOfRange, OutsideSpan):
        for memory, content in zip(memories, before, strict=True):
            memory[:] = content
        raise


# --- Indices ---------------------------------------------------------------------------------------------------


def number(bits: int, dtype: str) -> int:
    """The integer that index bits show to the caller."""
    half = 1 << (8 * SIZE[dtype] - 1)
    return bits - 2 * half if dtype in SIGNED and bits >= half else bits


def taken(bits: int, dtype: str) -> int:
    """The integer that the kernel works with: cast to uint32 (MG-OOB-08, A-12), but for the host's int64."""
    value = number(bits, dtype)
    return value if SIZE[dtype] == 8 else value % (1 << 32)


def remap(value: int, capacity: int, policy: str) -> int | None:
    """MG-OOB-05, -06, -07 and MS-OOB-03, -04, -05; None moves nothing (skip) or zero."""
    if 0 <= value < capacity:
        return value
    if policy == "clamp":
        return capacity - 1 if value >= capacity else 0
    if policy == "wrap":
        return value % capacity
    assert policy in ("zero", "skip")
    return None


class Index:
    """Reads the index of a lane and lands it."""

    def __init__(self, idx: Operand, capacity: int, policy: str, outcome: Outcome) -> None:
        self.idx, self.capacity, self.policy, self.outcome = idx, capacity, policy, outcome

    def __call__(self, offset: int, lane: tuple[int, ...]) -> int | None:
        bits = self.idx.load(offset)
        value = taken(bits, self.idx.dtype)
        if self.policy == "undefined":
            if not 0 <= value < self.capacity:
                raise OutOfRange(lane, number(bits, self.idx.dtype), self.capacity)
            return value
        return remap(value, self.capacity, self.policy)

    def promise(self, offset: int, lane: tuple[int, ...]) -> None:
        """Look at an index before anything moves."""
        self(offset, lane)
        if number(self.idx.load(offset), self.idx.dtype) < 0 and self.idx.dtype == "int32":
            self.outcome.negative |= self.policy in ("clamp", "wrap")


# --- Arithmetic (A-16) -----------------------------------------------------------------------------------------


@lru_cache(maxsize=1 << 12)
def scalar_of(bits: int, dtype: str) -> Any:
    """A float of its own type."""
    return np.array([bits], f"u{SIZE[dtype]}").view(NUMPY[dtype])[0]


@lru_cache(maxsize=1 << 12)
def value_of(bits: int, dtype: str) -> float:
    """A float's value, by its own type."""
    return float(scalar_of(bits, dtype))


def add(cell: int, source: int, dtype: str) -> int:
    """Integers wrap; floats round to the element type; a NaN result is the canonical quiet one."""
    if dtype in SIGNED or dtype in UNSIGNED:
        return (cell + source) % (1 << (8 * SIZE[dtype]))
    kind, bits = NUMPY[dtype], np.dtype(f"u{SIZE[dtype]}")
    with np.errstate(all="ignore"):
        total = scalar_of(cell, dtype) + scalar_of(source, dtype)
    assert type(total) is kind
    if total != total:
        return QUIET_NAN[dtype]
    return int(np.array([total], kind).view(bits)[0])


def pick(cell: int, source: int, dtype: str, largest: bool) -> int:
    """The other operand for a NaN; +0 before -0 for max, -0 before +0 for min; two NaNs keep the cell."""
    if dtype in SIGNED or dtype in UNSIGNED:
        old, new = number(cell, dtype), number(source, dtype)
        return source if (new > old if largest else new < old) else cell
    old, new = value_of(cell, dtype), value_of(source, dtype)
    if new != new:
        return cell
    if old != old:
        return source
    if old == new == 0:
        source_is_negative = source != 0
        return cell if source_is_negative == largest else source
    return source if (new > old if largest else new < old) else cell


def combine(cell: int, source: int, dtype: str, atomic: str) -> int:
    if atomic == "none":
        return source
    return add(cell, source, dtype) if atomic == "add" else pick(cell, source, dtype, atomic == "max")


def pad_bits(dtype: str, pad: str) -> int:
    """Zero 0; Min = -inf or the signed minimum (0 unsigned); Max = +inf or the integer maximum."""
    top = 1 << (8 * SIZE[dtype] - 1)
    if pad == "zero":
        return 0
    if dtype in SIGNED:
        return top - 1 if pad == "max" else top
    if dtype in UNSIGNED:
        return 2 * top - 1 if pad == "max" else 0
    return INFINITY[dtype] + (0 if pad == "max" else top)


# --- MGATHER ---------------------------------------------------------------------------------------------------


def mgather(
    target: str, dst: Tile, table: Tensor, idx: Operand, *, mode: str, oob: str, scratch: Tensor | None = None
) -> Outcome:
    """`target` is a family: cpu, a2a3, a5 or host."""

    def run() -> Outcome:
        if dst.loc == "mat":
            assert isinstance(idx, Tensor)
            if mode == "row":
                return l1_row(dst, table, idx, oob)
            assert scratch is not None
            return l1_elem(dst, table, idx, oob, scratch)
        assert isinstance(idx, Tile)
        if table.layout == "nz":
            return (row_nz if mode == "row" else elem_nz)(dst, table, idx, oob)
        return row(target, dst, table, idx, oob) if mode == "row" else elem(dst, table, idx, oob)

    return all_or_nothing(run, dst, table, idx, scratch)


def index_of_row(idx: Tile, r: int) -> int:
    """Where a [1,R] or [R,1] tile keeps the index of row r."""
    return idx.offset(0, r) if idx.valid_rows == 1 else idx.offset(r, 0)


def row(target: str, dst: Tile, table: Tensor, idx: Tile, oob: str) -> Outcome:
    """MG-SEM-02: dst[r, j] = table[idx[r], j]."""
    outcome = Outcome()
    if target == "cpu":  # MG-SEM-07
        rows, step = table.shape[3], table.shape[4]
    elif target == "a5":  # MG-SEM-09
        rows, step = table.shape[3], dst.valid_cols
    else:  # MG-SEM-08, and the host alike
        rows, step = prod(table.shape[:4]), table.stride[3]

    def place(r: int) -> int:
        return r if target == "a5" else index_of_row(idx, r)  # MG-HAZ-11: A5 reads idx[row] linearly

    index = Index(idx, rows, oob, outcome)
    for r in range(dst.valid_rows):
        index.promise(place(r), (r,))
    for r, j in dst.valid():
        safe = index(place(r), (r,))
        dst.store(dst.offset(r, j), 0 if safe is None else table.load(safe * step + j))
        if target == "a2a3" and safe is not None and j == dst.valid_cols - 1:  # the burst's tail
            for c in range(j + 1, -(-dst.valid_cols // dst.c0) * dst.c0):
                outcome.unspecified += dst.bytes_of(dst.offset(r, c))
    return outcome


def elem(dst: Tile, table: Tensor, idx: Tile, oob: str) -> Outcome:
    """MG-SEM-03, -10, -11: dst[i, j] = tableFlat[idx[i, j]]."""
    outcome = Outcome()
    index = Index(idx, prod(table.shape), oob, outcome)
    for i, j in dst.valid():
        index.promise(idx.offset(i, j), (i, j))
    for i, j in dst.valid():
        safe = index(idx.offset(i, j), (i, j))
        dst.store(dst.offset(i, j), 0 if safe is None else table.load(safe))
    return outcome


def row_nz(dst: Tile, table: Tensor, idx: Tile, oob: str) -> Outcome:
    """MG-NZ-03 to -06, -08, -09: Shape[1] bursts of 32 bytes for every row and batch."""
    outcome = Outcome()
    kc0 = table.c0
    index = Index(idx, table.shape[2] * 16, oob, outcome)
    for r in range(dst.valid_rows):
        index.promise(idx.offset(0, r), (r,))
    if oob == "zero":  # MG-OOB-12
        for k in range(dst.rows * dst.cols):
            dst.store(k, 0)
    for r in range(dst.valid_rows):
        for c in range(dst.valid_cols, dst.cols):
            outcome.unspecified += dst.bytes_of((c // kc0) * (dst.rows * kc0) + r * kc0 + c % kc0)
        safe = index(idx.offset(0, r), (r,))
        if safe is None:
            continue
        for b in range(table.shape[0]):
            for burst in range(table.shape[1]):
                for k in range(kc0):
                    source = (
                        b * table.stride[0]
                        + burst * table.stride[1]
                        + (safe // 16) * table.stride[2]
                        + (safe % 16) * table.stride[3]
                        + k * table.stride[4]
                    )
                    block = b * table.shape[1] + burst
                    dst.store(block * (dst.rows * kc0) + r * kc0 + k, table.load(source))
    return outcome


def elem_nz(dst: Tile, table: Tensor, idx: Tile, oob: str) -> Outcome:
    """MG-NZ-07 to -10, -12."""
    outcome = Outcome()
    kc0 = table.c0
    rows, cols = table.shape[2] * 16, table.shape[0] * table.shape[1] * kc0
    index = Index(idx, rows * cols, oob, outcome)
    for i, j in dst.valid():
        index.promise(idx.offset(i, j), (i, j))
    for first in range(0, dst.valid_cols, kc0):
        for i in range(dst.valid_rows):
            for j in range(first, min(first + kc0, dst.valid_cols)):
                safe = index(idx.offset(i, j), (i, j))
                bits = 0 if safe is None else table.load(table.offset(safe // cols, safe % cols))
                dst.store((j // kc0) * (dst.rows * kc0) + i * kc0 + j % kc0, bits)
    return outcome


def l1_row(dst: Tile, table: Tensor, idx: Tensor, oob: str) -> Outcome:
    """MG-L1-09, -11, -24; A-43 for the padding."""
    outcome = Outcome()
    kc0 = dst.c0
    index = Index(idx, prod(table.shape[:4]), oob, outcome)
    for r in range(dst.valid_rows):
        index.promise(r, (r,))
    for r in range(dst.rows):
        for c in range(dst.cols):
            at = (c // kc0) * (dst.rows * kc0) + r * kc0 + c % kc0
            if oob == "zero":
                dst.store(at, 0)
            elif r >= dst.valid_rows or c >= dst.valid_cols:
                outcome.unspecified += dst.bytes_of(at)
    for r, j in dst.valid():
        safe = index(r, (r,))
        if safe is not None:
            at = (j // kc0) * (dst.rows * kc0) + r * kc0 + j % kc0
            dst.store(at, table.load(safe * table.stride[3] + j))
    return outcome


def l1_elem(dst: Tile, table: Tensor, idx: Tensor, oob: str, scratch: Tensor) -> Outcome:
    """MG-L1-12, -13, -25: zero the scratch, then lane by lane, then one contiguous copy."""
    outcome = Outcome()
    kc0, area = dst.c0, dst.rows * dst.cols
    index = Index(idx, prod(table.shape), oob, outcome)

    def place(i: int, j: int) -> int:
        return i * idx.stride[3] + j * idx.stride[4]

    for i, j in dst.valid():
        index.promise(place(i, j), (i, j))
    for k in range(area):
        scratch.store(k, 0)
    for i, j in dst.valid():
        safe = index(place(i, j), (i, j))
        bits = 0 if safe is None else table.load(safe)
        scratch.store((j // kc0) * (dst.rows * kc0) + i * kc0 + j % kc0, bits)
    for k in range(area):
        dst.store(k, scratch.load(k))
    return outcome


# --- MSCATTER --------------------------------------------------------------------------------------------------


def mscatter(target: str, table: Tensor, src: Tile, idx: Tile, *, mode: str, atomic: str, oob: str) -> Outcome:
    """MS-SEM-02, -03; the last writer in row-major order wins (A-14)."""

    def run() -> Outcome:
        outcome = Outcome()
        if mode == "row":
            step = table.shape[4] if target == "a5" else table.stride[3]  # decisions.md: a5 is packed
            index = Index(idx, prod(table.shape[:4]), oob, outcome)
            for i in range(src.valid_rows):
                index.promise(index_of_row(idx, i), (i,))
        else:
            step = 0
            index = Index(idx, prod(table.shape), oob, outcome)
            for i, j in src.valid():
                index.promise(idx.offset(i, j), (i, j))
        for i, j in src.valid():
            if mode == "row":
                safe = index(index_of_row(idx, i), (i,))
                cell = None if safe is None else safe * step + j
            else:
                cell = index(idx.offset(i, j), (i, j))
            if cell is not None:
                source = src.load(src.offset(i, j))
                table.store(cell, combine(table.load(cell), source, src.dtype, atomic))
        return outcome

    return all_or_nothing(run, table, src, idx)


# --- TSCATTER --------------------------------------------------------------------------------------------------


def tscatter(target: str, dst: Tile, src: Tile, idx: Tile, *, reading: str) -> Outcome:
    """TS-SEM-01: dst[idx[i, j], j] = src[i, j]; or flat: dst.storage[idx[i, j]] = src[i, j] (decisions.md)."""

    def run() -> Outcome:
        outcome = Outcome()
        index = Index(idx, dst.rows if reading == "row" else dst.rows * dst.cols, "undefined", outcome)
        named = {dst.offset(r, c) for r, c in dst.valid()}
        for i, j in src.valid():
            index.promise(idx.offset(i, j), (i, j))
            value = index(idx.offset(i, j), (i, j))
            assert value is not None
            outcome.padding |= value >= dst.valid_rows if reading == "row" else value not in named
        if reading == "flat" and target in ("a2a3", "a5"):
            for k in range(dst.rows * dst.cols):
                dst.store(k, 0)
        for i, j in src.valid():
            value = index(idx.offset(i, j), (i, j))
            assert value is not None
            at = dst.offset(value, j) if reading == "row" else value
            dst.store(at, src.load(src.offset(i, j)))
        return outcome

    return all_or_nothing(run, dst, src, idx)


# --- TLOAD, TSTORE, TMOV ---------------------------------------------------------------------------------------


def tload(dst: Tile, src: Tensor, *, memories: tuple[str, ...]) -> Outcome:
    """TL-03: the valid region moves; padding keeps its content unless the tile has a pad value. That fills the tile,
    or in some memories the last block of 32 bytes of each row that is loaded (of a ColMajor tile: column), not of
    fractals in UB. On A2/A3 and A5 fractals of plain memory get zeros in the last block, whatever the pad value."""
    padded = range(dst.rows * dst.cols) if dst.pad != "null" else ()
    if memories and dst.pad != "null":
        rows, cols = dst.valid_rows, dst.valid_cols
        while dst.form == "dn" and rows % dst.c0 and rows < dst.rows:
            rows += 1
        while dst.form != "dn" and cols % dst.c0 and cols < dst.cols:
            cols += 1
        is_padded = dst.loc in memories and (dst.loc != "vec" or dst.form in ("nd", "dn"))
        padded = [dst.offset(i, j) for i in range(rows) for j in range(cols)] if is_padded else ()
    for k in padded:
        dst.store(k, pad_bits(dst.dtype, dst.pad))
    if memories and (src.layout, dst.form) == ("nd", "nz"):
        whole = -(-dst.valid_cols // dst.c0) * dst.c0
        for i, j in product(range(dst.valid_rows), range(whole)):
            dst.store(dst.offset(i, j), 0)
    for i, j in dst.valid():
        dst.store(dst.offset(i, j), src.load(src.offset(i, j)))
    return Outcome()


def tstore(dst: Tensor, src: Tile, *, atomic: str) -> Outcome:
    """TT-01: a block where tile and tensor lie alike, else the one burst of an [N,1] or [1,N] tile."""
    alike = dst.layout == src.form or src.loc == "acc"
    rows, cols = {
        "nd": (prod(dst.shape[:4]), dst.shape[4]),
        "dn": (dst.shape[3], prod(dst.shape[:3]) * dst.shape[4]),
        "nz": (dst.shape[2] * 16, dst.shape[0] * dst.shape[1] * dst.c0),
    }[dst.layout]
    if alike and src.valid_rows <= rows and src.valid_cols <= cols:
        pairs = [(dst.offset(i, j), src.offset(i, j)) for i, j in src.valid()]
    else:
        pairs = [(k, k) for k in range(max(src.valid_rows, src.valid_cols))]
    for cell, place in pairs:
        dst.store(cell, combine(dst.load(cell), src.load(place), src.dtype, atomic))
    return Outcome()


def tmov(dst: Tile, src: Tile) -> Outcome:
    """TV-01: element for element, each tile in its own layout."""
    for i, j in dst.valid():
        dst.store(dst.offset(i, j), src.load(src.offset(i, j)))
    return Outcome()
