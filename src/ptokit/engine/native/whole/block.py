"""The arguments of a native function over whole arrays: a block of 64-bit words that all threads share.

A function takes the block's address and the number of its worker. Pieces of the work are assigned by a counter in the
block, and the caller's stop flag is checked before each.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from ctypes import CFUNCTYPE, addressof, c_int64, c_void_p
from functools import lru_cache
from typing import Any

import numpy as np

from ptokit.engine.llvm.emit import I32, I64, PTR, IrBuilder, IrModule, IrValue
from ptokit.engine.llvm.resolve import PADDING
from ptokit.engine.native.jit import IrSource, library
from ptokit.engine.native.workers import Stop
from ptokit.engine.storage import address_of

CALL_WORDS = (
    "table", "other", "index", "counter", "greatest", "count", "piece", "capacity", "width",
    "table_row", "table_col", "other_row", "other_col", "index_step",
)  # fmt: skip
"""The words of a block that change with every call of a move."""
WORDS = (
    *CALL_WORDS,
    "stop", "lanes", "whole", "shards", "scratch", "first",
    "writers", "pairs", "counts", "segments", "shift", "buckets", "workers", "totals", "marks", "range",
    "room", "named",
    "repeats", "low", "missed", "private",
    "runs", "run_limit", "run_count", "extent", "by_row",
    "bounds", "weights", "winners", "padding", "total",
    "low_shard", "high_shard",
    "fork", "share", "work", "place", "parts_in_all", "next",
)  # fmt: skip
"""The words of a block. Strides are in bytes, extents in lanes and elements. The last four are an `openmp.JOB`."""
AT = {name: 8 * place for place, name in enumerate(WORDS)}
"""Where in the block a word lies."""
GREATEST, CAPACITY, SHARDS, STOP, ALONE = map(WORDS.index, ("greatest", "capacity", "shards", "stop", "low_shard"))
UNSIGNED = (1 << 64) - 1
"""The mask that makes a word unsigned."""
PARAMETERS = ((PTR, "args"), (I64, "worker"))

LANES_AT_ONCE = 2048
"""Lanes that a worker resolves or sorts at a time: they stay in the L1 cache."""
PICKED = 8 * (LANES_AT_ONCE + PADDING)
"""Where in a worker's own memory numbers of lanes begin; the lanes themselves lie before them."""
SCRATCH = PICKED + 4 * (LANES_AT_ONCE + PADDING)
"""Bytes of each worker's own memory."""

MOST_IDLE, MOST_WORKERS = 4, 128
"""Blocks that are kept, and the workers that such a block has memory for."""

Words = c_int64 * len(WORDS)
Native = Any
SIGNATURE = CFUNCTYPE(None, c_void_p, c_int64)


class ArgumentBlock:
    """A block, as Python fills it in."""

    __slots__ = ("address", "keep", "memory", "most_workers", "stop", "words")

    def __init__(self, most_workers: int, stop: Stop, lanes: int = 0) -> None:
        """With memory for the workers and for the lanes."""
        self.words = Words()
        self.address = addressof(self.words)
        self.most_workers, self.stop = most_workers, stop
        self.memory = np.empty(SCRATCH * most_workers + 8 * (lanes + PADDING), np.uint8)
        scratch = address_of(self.memory)
        self.keep: list[Any] = []
        """Memory that must live as long as the call, and that words point to."""
        self.set(scratch=scratch, lanes=scratch + SCRATCH * most_workers)
        self.set(stop=stop.address)

    @property
    def is_whole(self) -> bool:
        """Whether every index lies inside the table, and bounds of bags are in order."""
        return self.words[GREATEST] & UNSIGNED < self.words[CAPACITY]

    def shard_alone(self) -> None:
        """Let one worker have all rows: its shard is in the block itself."""
        words = self.words
        words[ALONE + 1] = words[CAPACITY]
        words[SHARDS] = self.address + 8 * ALONE

    def clear(self) -> None:
        """Drop the memory of a call."""
        self.keep.clear()
        self.words[SHARDS] = 0

    def set(self, **words: int) -> None:
        """Give words new values."""
        for name, value in words.items():
            self.words[AT[name] // 8] = value

    def get(self, name: str) -> int:
        """The value of a word, taken as unsigned."""
        return self.words[AT[name] // 8] & UNSIGNED


_idle: list[ArgumentBlock] = []
"""Blocks that wait for the next call."""


def take_block(parts: int, stop: Stop) -> ArgumentBlock:
    """A block for a call, with memory for each worker; it goes back with `put_back`."""
    try:
        block = _idle.pop()
    except IndexError:
        block = None
    if block is None or block.most_workers < parts:
        block = ArgumentBlock(parts, stop)
    block.stop = stop
    block.words[STOP] = stop.address
    return block


def put_back(block: ArgumentBlock) -> None:
    """Keep a block for later calls, unless it is large or enough are kept."""
    block.clear()
    if block.most_workers <= MOST_WORKERS and len(_idle) < MOST_IDLE:
        _idle.append(block)


@lru_cache(maxsize=4096)
def native(write: Callable[..., None], *kinds: object) -> Native:
    """The machine code of a function of a block and the number of a worker; `write` writes its body for some kinds."""

    def source() -> IrSource:
        code = IrModule().function(write.__name__, "void", PARAMETERS, "nounwind")
        write(code, *kinds)
        code.ret()
        return IrSource(code.module.text)

    made = library(f"whole / {write.__module__}.{write.__name__} / {kinds}", source)
    code: Any = SIGNATURE(made.address(write.__name__))
    code.address, code.library = made.address(write.__name__), made  # which lives as long as the function
    return code


def word(code: IrBuilder, name: str, kind: str = I64) -> IrValue:
    """A word of the block."""
    return code.load(kind, place(code, name))


def place(code: IrBuilder, name: str) -> IrValue:
    """Where in memory a word lies."""
    return code.at(code.arguments[0], AT[name])


def scratch(code: IrBuilder) -> IrValue:
    """The worker's own memory."""
    return code.at(word(code, "scratch", PTR), code.arguments[1] * SCRATCH)


def note(code: IrBuilder, name: str, value: IrValue) -> None:
    """Keep the greatest value of all workers, unsigned. An atomic step waits for all stores: only if it changes it."""
    known = code.write(I64, f"load atomic i64, {place(code, name)!r} monotonic, align 8")
    with code.when(value.compare("ugt", known)):
        code.write(I64, f"atomicrmw umax {place(code, name)!r}, {value!r} monotonic")


def poll(code: IrBuilder, done: str) -> None:
    """Jump to `done` if the launch was stopped."""
    flag = code.write(I32, f"load volatile i32, {word(code, 'stop', PTR)!r}, align 4")
    code.leave_if(flag.compare("ne", 0), done)


@contextmanager
def pieces(code: IrBuilder, total: str = "count", *, single: bool = False) -> Generator[IrValue]:
    """Piece after piece, until all are assigned or the launch was stopped; yields the piece's number.

    The block gives the length of a piece; it is 1 if `single`.
    """
    head, body, done = (code.new_label(hint) for hint in ("piece", "work", "done"))
    code.begin(head)
    poll(code, done)
    number = code.write(I64, f"atomicrmw add {place(code, 'counter')!r}, i64 1 monotonic")
    first = number if single else number * word(code, "piece")
    code.split(first.compare("slt", word(code, total)), body, done)
    code.begin(body)
    yield number
    code.jump(head)
    code.begin(done)


@contextmanager
def blocks(code: IrBuilder, first: IrValue, last: IrValue, step: int) -> Generator[tuple[IrValue, IrValue]]:
    """A range in blocks, with a check of the stop flag before each; yields where a block begins and its length."""
    with code.until() as done, code.loop(first, last, step) as begin:
        poll(code, done)
        left = last - begin
        yield begin, code.select(left.compare("slt", step), left, step)


# --- units -----------------------------------------------------------------------------------------------------------


UNIT = ("code", "job", "low", "high", "keys", "spare", "passes", "count", "rows", "out")
"""The words of a unit: its function and its job; a range of bags, or of rows; two buffers of keys, and how often they
are sorted; then how many keys there are, or the greatest index, and how many rows; where in the output its rows
begin."""


def run_units(code: IrBuilder) -> None:
    """Unit after unit, whatever its function is."""
    units = word(code, "table", PTR)
    with pieces(code, single=True) as number:
        unit = code.at(units, number * (8 * len(UNIT)))
        function = code.load(PTR, unit)
        code.line(f"  call void {function.name}({unit!r}, {code.arguments[1]!r})")


def of_unit(code: IrBuilder, name: str, kind: str = I64) -> IrValue:
    """A word of the unit that a function is given."""
    return code.load(kind, code.at(code.arguments[0], 8 * UNIT.index(name)))


def put_unit(code: IrBuilder, name: str, value: IrValue) -> None:
    """Write a word of the unit."""
    code.store(value, code.at(code.arguments[0], 8 * UNIT.index(name)), 8)
