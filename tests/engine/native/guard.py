"""Arrays between inaccessible pages, and random launches over them, natively and on the reference engine.

As a script: `python guard.py SEED LAUNCHES` makes LAUNCHES random launches, so that a crash is seen as an exit status.
"""

from __future__ import annotations

import ctypes
import gc
import mmap
import resource
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

import ptokit as pto
from ptokit.engine.native.program import executable
from ptokit.engine.native.whole import moves, runs
from tests.engine.native.forced import STRATEGIES, is_open

Array = np.ndarray[Any, np.dtype[Any]]

PAGE = mmap.PAGESIZE
FORBIDDEN = 0
"""PROT_NONE, which Python has no name for."""
_libc = ctypes.CDLL(None, use_errno=True)


def guarded(content: Array, at_end: bool) -> Array:
    """A copy that ends exactly where forbidden memory begins, or begins exactly where it ends; its strides are kept."""
    strides = tuple(int(step) for step in content.strides)
    span = content.itemsize + sum((n - 1) * s for n, s in zip(content.shape, strides, strict=True))
    nbytes = span if content.size else 0
    room = -(-max(nbytes, 1) // PAGE) * PAGE
    memory = mmap.mmap(-1, room + 2 * PAGE)
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for edge in (base, base + PAGE + room):
        if _libc.mprotect(ctypes.c_void_p(edge), ctypes.c_size_t(PAGE), FORBIDDEN):
            raise OSError(ctypes.get_errno(), "mprotect")
    start = PAGE + (room - nbytes if at_end else 0)
    found = np.ndarray(content.shape, content.dtype, memory, start, strides)
    found[...] = content
    return found


# --- Kernels ---------------------------------------------------------------------------------------------------


@pto.kernel
def gather_rows(table, idx, out, rows: pto.const, cols: pto.const, oob: pto.const):
    count, width = out.shape
    tiles = pto.cdiv(count, rows)
    block, blocks = pto.block_idx(), pto.block_num()
    for tile in pto.range(tiles * block // blocks, tiles * (block + 1) // blocks):
        first = tile * rows
        n = pto.min(rows, count - first)
        ids = pto.Tile("vec", idx.dtype, 1, rows, valid=(1, n))
        found = pto.Tile("vec", table.dtype, rows, cols, valid=(n, width))
        pto.tload(ids, idx[first : first + n])
        pto.mgather(found, table, ids, coalesce="row", oob=oob)
        pto.tstore(out[first : first + n], found)


@pto.kernel
def gather_cells(table, idx, out, cols: pto.const, oob: pto.const):
    count = out.shape[0]
    tiles = pto.cdiv(count, cols)
    block, blocks = pto.block_idx(), pto.block_num()
    for tile in pto.range(tiles * block // blocks, tiles * (block + 1) // blocks):
        first = tile * cols
        n = pto.min(cols, count - first)
        ids = pto.Tile("vec", idx.dtype, 1, cols, valid=(1, n))
        found = pto.Tile("vec", table.dtype, 1, cols, valid=(1, n))
        pto.tload(ids, idx[first : first + n])
        pto.mgather(found, table, ids, coalesce="elem", oob=oob)
        pto.tstore(out[first : first + n], found)


@pto.kernel
def scatter_rows(table, idx, src, rows: pto.const, cols: pto.const, oob: pto.const, atomic: pto.const):
    count, width = src.shape
    tiles = pto.cdiv(count, rows)
    block, blocks = pto.block_idx(), pto.block_num()
    for tile in pto.range(tiles * block // blocks, tiles * (block + 1) // blocks):
        first = tile * rows
        n = pto.min(rows, count - first)
        ids = pto.Tile("vec", idx.dtype, 1, rows, valid=(1, n))
        given = pto.Tile("vec", table.dtype, rows, cols, valid=(n, width))
        pto.tload(ids, idx[first : first + n])
        pto.tload(given, src[first : first + n])
        pto.mscatter(table, given, ids, coalesce="row", oob=oob, atomic=atomic)


@pto.kernel
def scatter_cells(table, idx, src, cols: pto.const, oob: pto.const, atomic: pto.const):
    count = src.shape[0]
    tiles = pto.cdiv(count, cols)
    block, blocks = pto.block_idx(), pto.block_num()
    for tile in pto.range(tiles * block // blocks, tiles * (block + 1) // blocks):
        first = tile * cols
        n = pto.min(cols, count - first)
        ids = pto.Tile("vec", idx.dtype, 1, cols, valid=(1, n))
        given = pto.Tile("vec", table.dtype, 1, cols, valid=(1, n))
        pto.tload(ids, idx[first : first + n])
        pto.tload(given, src[first : first + n])
        pto.mscatter(table, given, ids, coalesce="elem", oob=oob, atomic=atomic)


# --- Random launches -------------------------------------------------------------------------------------------

TYPES = ("float32", "float16", ml_dtypes.bfloat16, "int8", "uint8", "int16", "int32", "uint32", "float64", "int64",
         ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2)  # fmt: skip
INDICES = ("int32", "uint32", "int64")
GATHER_OOB, SCATTER_OOB = ("undefined", "clamp", "wrap", "zero"), ("undefined", "clamp", "wrap", "skip")
ATOMICS = ("none", "none", "add", "max", "min")


@dataclass(frozen=True)
class Shape:
    """What a launch is compiled for: a kernel or a whole-array call, its extents, types and policies."""

    call: str
    table: tuple[int, ...]
    count: int
    kind: Any
    index: str
    oob: str
    atomic: str
    spread: tuple[int, int]
    """Steps of the table's last dim and of the other array's first one."""
    grid: int

    @property
    def by_row(self) -> bool:
        return self.call.endswith("rows")

    @property
    def gathers(self) -> bool:
        return self.call.startswith("gather")

    def options(self) -> dict[str, Any]:
        """Constants of the kernel."""
        sizes = {"rows": 16, "cols": 64} if self.by_row else {"cols": 64}
        return {**sizes, "oob": self.oob} | ({} if self.gathers else {"atomic": self.atomic})


KERNELS: dict[str, Any] = {k.name: k for k in (gather_rows, gather_cells, scatter_rows, scatter_cells)}


def random_shape(dice: np.random.Generator, *, whole: bool) -> Shape:
    """Anything that is legal."""
    call = str(dice.choice(list(KERNELS)))
    rows, width = int(dice.integers(1, 40)), int(dice.integers(1, 50))
    table = (rows, width) if call.endswith("rows") else (rows * width,)
    policies = GATHER_OOB if call.startswith("gather") else SCATTER_OOB
    spread = (1 if not whole else int(dice.choice((1, 1, 2))), int(dice.choice((1, 1, 2))))
    return Shape(
        call, table, int(dice.choice((0, 1, 7, 16, 63, 64, 65, 200))), TYPES[dice.integers(len(TYPES))],
        str(dice.choice(INDICES)), str(dice.choice(policies)), str(dice.choice(ATOMICS)), spread,
        int(dice.choice((1, 3, 8))),
    )  # fmt: skip


def random_values(dice: np.random.Generator, shape: tuple[int, ...], kind: Any, step: int = 1, axis: int = 0) -> Array:
    """Any bits at all, with gaps along one axis."""
    wide = list(shape)
    if wide:
        wide[axis] *= step
    size = int(np.prod(wide)) * np.dtype(kind).itemsize
    cut = [slice(None)] * len(wide)
    if wide:
        cut[axis] = slice(0, None, step)
    return np.frombuffer(dice.bytes(size), kind).reshape(wide).copy()[tuple(cut)]


def random_indices(dice: np.random.Generator, shape: Shape) -> Array:
    """Inside mostly, repeated often, progressions at times, hostile now and then."""
    capacity = shape.table[0]
    found = dice.integers(0, capacity, shape.count)
    if dice.random() < 0.3:
        found = (np.arange(shape.count) * int(dice.integers(-3, 4)) + int(dice.integers(capacity))) % capacity
    elif dice.random() < 0.5:
        found[dice.random(shape.count) < 0.5] = dice.integers(0, capacity)
    if dice.random() < 0.4:
        limits = np.iinfo(shape.index)
        odd = [limits.min, limits.max, capacity, capacity - 1, limits.max - 1, capacity + 5]
        bad = dice.random(shape.count) < 0.1
        found = found.astype(shape.index)
        found[bad] = dice.choice(np.array(odd, shape.index), int(bad.sum()))
    return found.astype(shape.index)


Outcome = tuple[str, list[bytes]]


def launch(shape: Shape, seed: int, engine: str, threads: int, *, whole: bool) -> Outcome:
    """One launch over guarded arrays."""
    dice = np.random.default_rng(seed)
    moved = (shape.count, *shape.table[1:])
    at_end = [bool(flag) for flag in dice.integers(0, 2, 3)]
    table = guarded(random_values(dice, shape.table, shape.kind, shape.spread[0], -1), at_end[0])
    other = guarded(random_values(dice, moved, shape.kind, shape.spread[1]), at_end[1])
    idx = guarded(random_indices(dice, shape), at_end[2])
    return outcome([table, idx, other], lambda: _call(shape, table, idx, other, engine, threads, whole))


def _call(shape: Shape, table: Array, idx: Array, other: Array, engine: str, threads: int, whole: bool) -> None:
    options: dict[str, Any] = {"engine": engine, "threads": threads}
    if not whole:
        KERNELS[shape.call][shape.grid](table, idx, other, **shape.options(), target="host", **options)
        return
    options |= {"coalesce": "row" if shape.by_row else "elem", "oob": shape.oob}
    if shape.gathers:
        pto.gather(table, idx, out=other, **options)
    else:
        pto.scatter(table, other, idx, atomic=shape.atomic, **options)


def outcome(arrays: list[Array], work: Callable[[], None]) -> Outcome:
    """The error of some work, and every byte afterwards."""
    try:
        work()
    except (pto.VerifyError, pto.OutOfBoundsError) as problem:
        return f"{type(problem).__name__}: {problem}", [array.tobytes() for array in arrays]
    return "", [array.tobytes() for array in arrays]


def agree(shape: Shape, seed: int, threads: int, *, whole: bool) -> bool:
    """Both engines give the same result of a launch; whether it succeeded."""
    expected = launch(shape, seed, "reference", 1, whole=whole)
    found = launch(shape, seed, "native", threads, whole=whole)
    assert found[0] == expected[0], (shape, seed, threads, found[0], expected[0])
    is_partial = bool(expected[0]) and not whole and threads > 1  # later blocks may have written
    assert is_partial or found[1] == expected[1], (shape, seed, threads)
    return not expected[0]


MOVE = moves.NativeMove.__call__


def force(strategy: str | None) -> None:
    """Let whole scatters take a strategy where it is possible; None lets them choose."""

    def run(
        move: moves.NativeMove, table: int, indices: int, other: int, sizes: Any, threads: int | None, _: Any = None
    ) -> bool:
        code = move.code(sizes)
        named = code.raw(sizes, indices)
        open_to = not move.kind.gathers and strategy is not None and is_open(strategy, code, sizes, named)
        return MOVE(move, table, indices, other, sizes, threads, strategy if open_to else None)

    moves.NativeMove.__call__ = run  # type: ignore[method-assign]


def fuzz(seed: int, launches: int, shapes: int) -> int:
    """Random launches: kernels of `shapes` shapes, and whole-array calls of any shape; the number that succeeded."""
    dice = np.random.default_rng(seed)
    known = [random_shape(dice, whole=False) for _ in range(shapes)]
    done, runs.FEWEST, runs.LEAST_RUN = 0, 3 * runs.SAMPLED, 4
    for _ in range(launches // 2):
        executable.SMALL = int(dice.choice((0, 1 << 20)))
        done += agree(
            known[dice.integers(shapes)], int(dice.integers(1 << 31)), int(dice.choice((1, 2, 5))), whole=False
        )
        anything = random_shape(dice, whole=True)
        force(dice.choice((None, *STRATEGIES)))
        done += agree(anything, int(dice.integers(1 << 31)), int(dice.choice((1, 2, 5))), whole=True)
    return done


def resident() -> int:
    """Bytes of memory in use now."""
    gc.collect()
    status = Path("/proc/self/statm")
    if status.exists():
        return int(status.read_text().split()[1]) * PAGE
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


GROWTH = 64 << 20
"""Bytes that memory may grow by once all code is there: calls of many shapes leave some behind for the next ones."""


def main(seed: int, launches: int, shapes: int) -> None:
    """Fuzz, one half like the other; fail where the second one needs more memory."""
    warnings.simplefilter("ignore", pto.HazardWarning)
    done = fuzz(seed, launches // 2, shapes)
    before = resident()
    done += fuzz(seed, launches // 2, shapes)
    grown = resident() - before
    assert grown < GROWTH, f"memory grew by {grown >> 20} MiB"
    print(f"{done} launches ran through; memory grew by {grown >> 10} KiB")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
