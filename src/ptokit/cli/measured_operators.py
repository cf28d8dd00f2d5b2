"""Operators that a trace of measurements can name without a file: small kernels, made of the instructions they measure.

Every block works on its own part of the arrays. `repeat` runs the middle of a kernel that many times, one after the
other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import ptokit as pto
from ptokit.brief import brief
from ptokit.cli.problems import Misuse
from ptokit.finding import suggestion
from ptokit.isa.dtype import dtype
from ptokit.lang.launcher import Launchable

LARGEST = {"rows": 4096, "cols": 65536, "repeat": 256, "table": 1 << 20, "inner": 4096}
"""Numbers of an operator, and the largest that are taken."""
MOST_ELEMENTS = 1 << 26
"""Of an array of an operator."""
DEFAULTS = {"rows": 16, "cols": 64, "repeat": 1, "table": 1024, "inner": 64}


@pto.kernel
def move(x, out, rows: pto.const, repeat: pto.const, name: pto.const, atomic: pto.const = "none"):
    """Load, compute several times, store; `copy` repeats all of it, `load` the load and `store` the store."""
    first = pto.block_idx() * rows
    t = u = pto.Tile("vec", x.dtype, rows, x.shape[1])
    if name == "rowsum":
        u = pto.Tile("vec", x.dtype, rows, 8, valid=(rows, 1))
    elif name == "transpose":
        u = pto.Tile("vec", x.dtype, x.shape[1], rows)
    if name not in ("copy", "load"):
        pto.tload(t, x[first : first + rows])
    for _ in pto.range(repeat):
        if name in ("copy", "load"):
            pto.tload(t, x[first : first + rows])
        if name in ("copy", "store"):
            pto.tstore(out[first : first + rows], t, atomic=atomic)
        elif name == "add":
            pto.tadd(t, t, t)
        elif name == "exp":
            pto.texp(t, t)
        elif name == "rowsum":
            pto.trowsum(u, t)
        elif name == "transpose":
            pto.ttrans(u, t)
    if name not in ("copy", "store"):
        pto.tstore(out[first : first + rows], t)


def load_index(ids, rows, cols, mode):
    """The indices of a block, loaded into a tile."""
    first, block = pto.block_idx() * rows, pto.block_idx()
    if mode == "row":
        index = pto.Tile("vec", "int32", 1, -(-rows // 8) * 8, valid=(1, rows))
        pto.tload(index, ids[block : block + 1])
    else:
        index = pto.Tile("vec", "int32", rows, cols)
        pto.tload(index, ids[first : first + rows])
    return index


@pto.kernel
def gather(table, ids, out, rows: pto.const, repeat: pto.const, mode: pto.const, oob: pto.const):
    """Load indices, gather several times, store."""
    first = pto.block_idx() * rows
    t = pto.Tile("vec", table.dtype, rows, out.shape[1])
    index = load_index(ids, rows, out.shape[1], mode)
    for _ in pto.range(repeat):
        pto.mgather(t, table, index, coalesce=mode, oob=oob)
    pto.tstore(out[first : first + rows], t)


@pto.kernel
def scatter(x, ids, table, rows: pto.const, repeat: pto.const, mode: pto.const, atomic: pto.const):
    """Load data and indices, scatter several times."""
    first = pto.block_idx() * rows
    t = pto.Tile("vec", x.dtype, rows, x.shape[1])
    pto.tload(t, x[first : first + rows])
    index = load_index(ids, rows, x.shape[1], mode)
    for _ in pto.range(repeat):
        pto.mscatter(table, t, index, coalesce=mode, atomic=atomic, conflict="last")


NZ: dict[str, Any] = {"blayout": "col_major", "slayout": "row_major"}


@pto.kernel
def matmul(a, b, out, repeat: pto.const):
    """Load both operands, multiply several times, store; every block does the same product."""
    rows, inner, cols, first = a.shape[0], a.shape[1], b.shape[1], pto.block_idx() * a.shape[0]
    left_matrix, right_matrix = pto.Tile("mat", a.dtype, rows, inner, **NZ), pto.Tile("mat", b.dtype, inner, cols, **NZ)
    left, right = pto.Tile("left", a.dtype, rows, inner), pto.Tile("right", b.dtype, inner, cols)
    product = pto.Tile("acc", "float32", rows, cols)
    pto.tload(left_matrix, a)
    pto.tload(right_matrix, b)
    for _ in pto.range(repeat):
        pto.tmov(left, left_matrix)
        pto.tmov(right, right_matrix)
        pto.tmatmul(product, left, right)
    pto.tstore(out[first : first + rows], product)


# --- their arguments

Numbers = Mapping[str, int]
Words = Mapping[str, str]


def _blocks(given: Numbers, words: Words, grid: int) -> tuple[Any, ...]:
    """An array that is read and one that is written, with rows for every block."""
    shape = grid * given["rows"], given["cols"]
    kind = dtype(words["dtype"]).numpy
    return np.zeros(shape, kind), np.zeros(shape, kind), given["rows"], given["repeat"]


def _moved(name: str, given: Numbers, words: Words, grid: int) -> tuple[Any, ...]:
    return (*_blocks(given, words, grid), name, words.get("atomic", "none"))


def _ids(given: Numbers, words: Words, grid: int) -> np.ndarray[Any, Any]:
    """Numbers of rows or elements of a table, drawn at random; a block has none of them twice if the table is large
    enough."""
    rows, cols, table = given["rows"], given["cols"], given["table"]
    high, count = (table, rows) if words["mode"] == "row" else (table * cols, rows * cols)
    random = np.random.default_rng(0)
    blocks = [random.choice(high, count, replace=count > high) for _ in range(grid)]
    return np.array(blocks, "int32").reshape((grid, rows) if words["mode"] == "row" else (grid * rows, cols))


def _gathered(given: Numbers, words: Words, grid: int) -> tuple[Any, ...]:
    x, _, rows, repeat = _blocks(given, words, grid)
    table = np.zeros((given["table"], given["cols"]), x.dtype)
    return table, _ids(given, words, grid), x, rows, repeat, words["mode"], words["oob"]


def _scattered(given: Numbers, words: Words, grid: int) -> tuple[Any, ...]:
    x, _, rows, repeat = _blocks(given, words, grid)
    ids = _ids(given, words, grid)
    own = given["table"] * (1 if words["mode"] == "row" else given["cols"])  # every block has a part of the table
    ids += np.repeat(np.arange(grid, dtype="int32") * own, len(ids) // grid)[:, None]
    table = np.zeros((grid * given["table"], given["cols"]), x.dtype)
    return x, ids, table, rows, repeat, words["mode"], words["atomic"]


def _multiplied(given: Numbers, words: Words, grid: int) -> tuple[Any, ...]:
    kind, rows, inner, cols = dtype(words["dtype"]).numpy, given["rows"], given["inner"], given["cols"]
    a, b = np.zeros((rows, inner), kind), np.zeros((inner, cols), kind)
    return a, b, np.zeros((grid * rows, cols), "float32"), given["repeat"]


@dataclass(frozen=True)
class MeasuredOperator:
    """A kernel, and the arguments that numbers and words give."""

    kernel: Launchable
    arguments: Callable[[Numbers, Words, int], tuple[Any, ...]]
    numbers: tuple[str, ...] = ("rows", "cols", "repeat")
    words: tuple[str, ...] = ("dtype",)


MOVES = ("copy", "load", "add", "exp", "rowsum", "transpose")
OPERATORS = {
    **{name: MeasuredOperator(move, partial(_moved, name)) for name in MOVES},
    "store": MeasuredOperator(move, partial(_moved, "store"), words=("dtype", "atomic")),
    "gather": MeasuredOperator(gather, _gathered, ("rows", "cols", "repeat", "table"), ("dtype", "mode", "oob")),
    "scatter": MeasuredOperator(scatter, _scattered, ("rows", "cols", "repeat", "table"), ("dtype", "mode", "atomic")),
    "matmul": MeasuredOperator(matmul, _multiplied, ("rows", "cols", "repeat", "inner")),
}
"""By name."""
CHOICES = {
    "dtype": ("float32", "float16", "bfloat16", "int32", "int16", "int8"),
    "mode": ("row", "elem"),
    "oob": ("undefined", "clamp", "wrap", "zero"),
    "atomic": ("none", "add"),
}
"""Words of an operator; the first is the default."""


def operator(name: object, given: Mapping[str, object], grid: int) -> tuple[Launchable, tuple[Any, ...]]:
    """The kernel of an operator and its arguments."""
    if not isinstance(name, str) or name not in OPERATORS:
        hint = suggestion(name, OPERATORS) if isinstance(name, str) else ""
        raise Misuse(f"unknown operator {brief(name)}; known: {', '.join(OPERATORS)}{hint}")
    found = OPERATORS[name]
    known = (*found.numbers, *found.words)
    if unknown := [each for each in given if each not in known]:
        raise Misuse(f"{name} has no {brief(unknown[0])}; it has {', '.join(known)}{suggestion(unknown[0], known)}")
    numbers = {each: _number(each, given.get(each, DEFAULTS[each])) for each in found.numbers}
    words = {each: _word(each, given.get(each, CHOICES[each][0])) for each in found.words}
    if grid * max(numbers["rows"], numbers.get("table", 0)) * numbers["cols"] > MOST_ELEMENTS:
        raise Misuse(f"{name} over {grid} blocks has more than {MOST_ELEMENTS:,} elements")
    return found.kernel, found.arguments(numbers, words, grid)


def _number(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= LARGEST[name]:
        raise Misuse(f"{name} takes a whole number from 1 up to {LARGEST[name]:,}, found {brief(value)}")
    return value


def _word(name: str, value: object) -> str:
    if not isinstance(value, str) or value not in CHOICES[name]:
        raise Misuse(f"{name} is one of {', '.join(CHOICES[name])}; found {brief(value)}")
    return value
