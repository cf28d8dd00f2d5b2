"""Moves that lanes of a chip share, each against a plain loop: any layout, type and address at both ends.

Every access is aligned as its code says, and what lies beside a region keeps its bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from math import gcd
from types import SimpleNamespace
from typing import Any, cast

import ml_dtypes
import numpy as np
import pytest

pytest.importorskip("llvmlite")

from ptokit.engine.llvm.address import WHOLE, MemoryView, run_length
from ptokit.engine.llvm.emit import PTR, Chip, IrModule, IrValue
from ptokit.engine.llvm.move import CodeWriter
from ptokit.engine.llvm.resolve import SENTINEL, IndexValues
from ptokit.engine.llvm.shared_move import MOST_OWN, PIECE, SharedMove, _own
from ptokit.engine.native.jit import IrSource
from ptokit.isa.dtype import dtype
from ptokit.isa.layout import Layout
from ptokit.isa.move import Access, Combine, Fill, Index, IndexUnit, Move, Remap, Side
from tests.engine.cuda.emulated import EMULATED, EmulatedDevice
from tests.engine.native.test_moves import (
    APART,
    ARGUMENTS,
    COLS,
    FORMS,
    OVERLAPPING,
    ROOM,
    ROWS,
    UNKNOWN,
    Array,
    looped,
    views,
)

EVERY = {name: layout for name, (layout, _) in (FORMS | APART).items()}
CHIPS = EMULATED, Chip(lanes=3, piece=16, depth=2)
KINDS = {"uint8": np.uint8, "int16": np.int16, "float32": np.float32, "int64": np.int64}
KINDS |= {"float8_e4m3": ml_dtypes.float8_e4m3fn}
SHAPES = [(ROWS, COLS), (4, 6), (1, 12), ("m", "n")]
SHIFTS = [(0, 0), (1, 0), (0, 2), (8, 4)]
"""Elements before the first one of each end."""
CAPACITY = 5
REMAPPED: dict[Remap, Callable[[int], int]] = {
    Remap.CLAMP: lambda value: min(value, CAPACITY - 1),
    Remap.WRAP: lambda value: value % CAPACITY,
    Remap.ZERO: lambda value: value if value < CAPACITY else SENTINEL,
    Remap.SKIP: lambda value: value if value < CAPACITY else SENTINEL,
}


def index_of(side: Side, remap: Remap, unit: IndexUnit, *, by_row: bool) -> Index:
    at = Layout.plain(1, 0) if by_row else Layout.plain(COLS, 1)
    return Index(Access("idx", at), side, unit, CAPACITY, remap, 0 if unit is IndexUnit.ROW else 3)


def moves_into(layout: Layout, seed: int, count: int) -> Iterator[Move]:
    """Copies, gathers and scatters, mixed."""
    units = [(IndexUnit.ROW, True), (IndexUnit.ROW, False), (IndexUnit.ELEMENT, False)]
    gathers = product((Side.SRC,), (Remap.CLAMP, Remap.ZERO), units, (Combine.STORE,))
    scatters = product((Side.DST,), (Remap.SKIP, Remap.WRAP), units, (Combine.STORE, Combine.ADD))
    indices = [(index_of(side, remap, unit, by_row=by_row), how)
               for side, remap, (unit, by_row), how in (*gathers, *scatters)]  # fmt: skip
    every = [
        *product((*EVERY.values(), OVERLAPPING[0]), SHAPES, [(None, Combine.STORE), (None, Combine.ADD), *indices])
    ]
    for k in np.random.default_rng(seed).permutation(len(every))[:count]:
        source, shape, (index, how) = every[k]
        yield Move(shape, Access("dst", layout), Access("src", source), index, how)


def memory(kind: str, seed: int) -> Array:
    """Elements whose first one is aligned to 64 bytes."""
    size = dtype(kind).size
    raw = np.zeros(ROOM * size + 64, np.uint8)
    start = -raw.ctypes.data % 64
    found = raw[start : start + ROOM * size].view(KINDS[kind])
    found[:] = np.random.default_rng(seed).integers(0, 9, ROOM).astype(KINDS[kind])
    return found


def kernels(moves: Sequence[Move], kind: str, chip: Chip) -> Any:
    """A kernel for each move, over the memories of both ends and indices."""
    module = IrModule(chip)
    for number, move in enumerate(moves):
        code = module.kernel(f"f{number}", ARGUMENTS)
        given = dict(zip("mn", code.arguments[3:5], strict=True))

        def value_of(number: Any, code: Any = code, given: Any = given) -> IrValue:
            return given[number] if isinstance(number, str) else code.i64(number)

        values = None
        if move.index is not None:
            place = MemoryView(code.arguments[2], move.index.access.layout, 4)
            values = IndexValues(code, move.index, dtype("int32"), place, value_of)
        dst, src = views(code, move, kind, far=False)
        with code.phase():
            SharedMove(CodeWriter(code, value_of), move, dtype(kind), dst, src, values=values).write()
        code.ret()
    return EmulatedDevice().module(module.text, lambda: IrSource(module.text))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", EVERY)
def test_moves_of_any_layout_at_any_address(form: str, kind: str) -> None:
    seed = sum(map(ord, form + kind))
    moves = [*moves_into(EVERY[form], seed, 6)]
    into, side_by_side = Access("dst", EVERY[form]), Access("src", EVERY["rows side by side"])
    moves.append(Move((ROWS, COLS), into, Access("src", OVERLAPPING[0])))
    moves += [Move((4, 6), into, side_by_side), Move((ROWS, COLS), into, side_by_side, combine=Combine.ADD)]
    moves += [Move((ROWS, COLS), into, Fill(7))] * np.issubdtype(KINDS[kind], np.integer)
    made = kernels(moves, kind, CHIPS[seed % len(CHIPS)])
    indices = np.random.default_rng(seed).integers(0, 8, (ROWS, COLS)).astype(np.int32)
    for (number, move), (first, other) in product(enumerate(moves), SHIFTS):
        dst, src = memory(kind, 1), memory(kind, 2)
        rows, cols = UNKNOWN if move.shape == ("m", "n") else move.shape
        named: list[int] = []
        if move.index is not None:
            read = indices.ravel()[:rows] if move.index.by_row else indices[:rows, :cols].ravel()
            named = [REMAPPED[move.index.remap](int(value)) for value in read]
        wanted = dst.copy()
        wanted[first:] = looped(move, dst[first:], src[other:], named)
        addresses = [dst[first:].ctypes.data, src[other:].ctypes.data, indices.ctypes.data]
        made.kernel(f"f{number}")(1, [*addresses, *UNKNOWN])
        assert (dst == wanted).all(), (move, first, other)


@pytest.mark.parametrize("form", EVERY)
def test_alignment_is_that_of_all_addresses(form: str) -> None:
    layout, pointer = EVERY[form], IrModule().function("f", "void", [(PTR, "p")]).arguments[0]
    run = run_length(layout.cols)
    where = [[int(layout.offset(i, j)) for j in range(64)] for i in range(64)]
    for size, base, count in product((1, 2, 4, 8), (1, 4, 16, 64), (1, 2, 4, 8, 16)):
        if count == 1 or run == WHOLE or run % count == 0:
            view = MemoryView(pointer, layout, size, align=base)
            offsets = [size * where[i][j] for i in range(64) for j in range(0, 64, count)]
            assert view.alignment(count) == max(size, gcd(base, size * count, *offsets)), (size, base, count)


@pytest.mark.parametrize("kind", ["float16", "float32"])
@pytest.mark.parametrize("shape", [(8, 64), (16, 64), (1, 256), (64, 64), (32, 32), (3, 128), (128, 128), (5, 64)])
def test_each_lane_copies_every_32nd_piece(shape: tuple[int, int], kind: str) -> None:
    """Lanes that have as many pieces as each other, and few, know them before they copy the first."""
    move = Move(shape, Access("dst", Layout.plain(shape[1], 1)), Access("src", Layout.plain(shape[1], 1)))
    pieces = [at // PIECE for at in range(0, shape[0] * shape[1] * dtype(kind).size, PIECE)]
    shares = [[piece for piece in pieces if piece % EMULATED.lanes == lane] for lane in range(EMULATED.lanes)]
    is_even = len({len(share) for share in shares}) == 1 and len(shares[0]) <= MOST_OWN
    for lane in (0, 1, EMULATED.lanes - 1):
        writer: Any = SimpleNamespace(code=SimpleNamespace(lane=lane, chip=EMULATED))
        assert cast("Any", _own)(writer, move, dtype(kind)) == (shares[lane] if is_even else [])
