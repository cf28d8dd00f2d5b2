"""Moves and index stages as machine code, each against a plain loop: every layout at both ends, any extents.

What lies beside a region keeps its bytes, and what lies beside an index has no effect.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from ptokit.engine.llvm.address import MemoryView
from ptokit.engine.llvm.emit import I32, I64, PTR, IrBuilder, IrModule, IrValue
from ptokit.engine.llvm.move import CodeWriter, ThreadMove
from ptokit.engine.llvm.resolve import PADDING, SENTINEL, emit_resolve, lane_of
from ptokit.engine.native import jit
from ptokit.isa.dtype import dtype
from ptokit.isa.layout import Layout, Term
from ptokit.isa.move import Access, Combine, Fill, Index, IndexUnit, Move, Remap, Side
from tests.loops import all_pairs

Array = np.ndarray[Any, np.dtype[Any]]
ROWS, COLS = 6, 16
"""The largest region."""
ROOM = 400
"""Elements of every memory."""
Offset = Callable[[int, int], int]
FORMS: dict[str, tuple[Layout, Offset]] = {
    "rows side by side": (Layout.plain(COLS, 1), lambda i, j: COLS * i + j),
    "rows apart": (Layout.plain(21, 1), lambda i, j: 21 * i + j),
    "columns": (Layout.plain(1, 9), lambda i, j: i + 9 * j),
    "all apart": (Layout.plain(53, 3), lambda i, j: 53 * i + 3 * j),
    "blocks of columns": (Layout((Term(4),), (Term(1, 1, 4), Term(32, 4))), lambda i, j: 4 * i + j % 4 + j // 4 * 32),
    "blocks of rows": (Layout((Term(1, 1, 4), Term(80, 4)), (Term(4),)), lambda i, j: i % 4 + i // 4 * 80 + 4 * j),
}
APART: dict[str, tuple[Layout, Offset]] = {
    "rows apart by pieces": (Layout.plain(24, 1), lambda i, j: 24 * i + j),
    "blocks apart": (Layout((Term(4),), (Term(1, 1, 4), Term(33, 4))), lambda i, j: 4 * i + j % 4 + j // 4 * 33),
}
"""More of them, of which only parts lie as pieces of 16 bytes do."""
OVERLAPPING: tuple[Layout, Offset] = Layout.plain(1, 1), lambda i, j: i + j
"""Windows of one row, of which nothing can be written."""
SHAPES = [(ROWS, COLS), (1, COLS), (ROWS, 1), (4, 11), (3, 8), ("m", "n")]
"""The last one is known at run time only."""
FEW = [(ROWS, COLS), (4, 11), ("m", "n")]
SOURCES = [FORMS[name][0] for name in ("rows side by side", "columns", "blocks of columns")]
UNKNOWN = (5, 7)
ARGUMENTS = [(PTR, "first"), (PTR, "second"), (PTR, "lanes"), (I64, "m"), (I64, "n")]
Emit = Callable[[IrBuilder, Callable[[Any], IrValue]], IrValue | None]


@dataclass
class Functions:
    """Many functions of one module, which is compiled once."""

    module: IrModule = field(default_factory=IrModule)
    count: int = 0
    library: Any = None

    def add(self, emit: Emit, returns: str = "void") -> int:
        """Write a function; `emit` gets the builder, and what makes values of numbers."""
        code = self.module.function(f"f{self.count}", returns, ARGUMENTS)
        given = dict(zip("mn", code.arguments[3:], strict=True))
        code.ret(emit(code, lambda number: given[number] if isinstance(number, str) else code.i64(number)))
        self.count += 1
        return self.count - 1

    def call(self, number: int, first: Array, second: Array, lanes: Array) -> int:
        """Call a function over memories."""
        if self.library is None:
            text = self.module.text
            self.library = jit.library(text, lambda: jit.IrSource(text))
        pointers = [ctypes.c_void_p] * 3
        function = ctypes.CFUNCTYPE(ctypes.c_uint64, *pointers, ctypes.c_int64, ctypes.c_int64)
        memories = (first.ctypes.data, second.ctypes.data, lanes.ctypes.data)
        return function(self.library.address(f"f{number}"))(*memories, *UNKNOWN)


def memory(kind: str, seed: int) -> Array:
    return np.random.default_rng(seed).integers(0, 50, ROOM).astype(kind)


def extents(shape: tuple[Any, Any]) -> tuple[int, int]:
    return UNKNOWN if shape == ("m", "n") else shape


def combined(combine: Combine, old: Any, new: Any) -> Any:
    return {Combine.STORE: new, Combine.ADD: old + new, Combine.MAX: max(old, new)}[combine]


def judge(moves: Sequence[Move], kind: str, lanes: Sequence[int] = (), lane: str = I32, *, far: bool = False) -> None:
    """Run moves from the memory `src` to the memory `dst`; compare all of `dst` with a loop over the region."""
    functions = Functions()

    def emit(code: IrBuilder, value_of: Callable[[Any], IrValue], move: Move) -> None:
        dst, src = views(code, move, kind, far=far)
        ThreadMove(CodeWriter(code, value_of), move, dtype(kind), dst, src, code.arguments[2], lane).write()

    for move in moves:
        functions.add(lambda code, value_of, move=move: emit(code, value_of, move))  # type: ignore[misc]
    resolved = np.array([*lanes, *[0] * PADDING], np.int64).astype("i4" if lane == I32 else "i8")
    for number, move in enumerate(moves):
        dst, src = memory(kind, 1), memory(kind, 2)
        expected = looped(move, dst, src, lanes)
        functions.call(number, dst, src, resolved)
        assert (dst == expected).all(), (number, move)


def views(code: IrBuilder, move: Move, kind: str, *, far: bool) -> tuple[MemoryView, MemoryView | None]:
    """The ends of a move between the first two arguments of a function."""
    size, (first, second, *_) = dtype(kind).size, code.arguments
    src = None if isinstance(move.src, Fill) else MemoryView(second, move.src.layout, size, far)
    return MemoryView(first, move.dst.layout, size, far), src


def form_of(layout: Layout) -> Offset:
    known = *FORMS.values(), *APART.values(), OVERLAPPING
    return next(offset for each, offset in known if each == layout)


def looped(move: Move, dst: Array, src: Array, lanes: Sequence[int]) -> Array:
    """The destination after a move, element by element; only NumPy's scalars compute."""
    found, index = dst.copy(), move.index
    rows, cols = extents(move.shape)
    into = form_of(move.dst.layout)
    for i, j in product(range(rows), range(cols)):
        if isinstance(move.src, Fill):
            found[into(i, j)] = found.dtype.type(move.src.bits)
            continue
        out, to, at = form_of(move.src.layout), (i, j), (i, j)
        if index is not None:
            named = lanes[i if index.by_row else i * cols + j]
            if named == SENTINEL:
                if index.remap is Remap.ZERO:
                    found[into(i, j)] = 0
                continue
            there = (named, j) if index.unit is IndexUnit.ROW else divmod(named, index.width or ROOM)
            to, at = ((i, j), there) if index.side is Side.SRC else (there, (i, j))
        found[into(*to)] = combined(move.combine, found[into(*to)], src[out(*at)])
    return found


# --- Moves -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("kind", "bits"), [("uint8", 0x5A), ("uint16", 0x5A01), ("uint32", 7), ("uint64", 1 << 40)])
def test_a_fill_writes_its_region_and_nothing_else(form: str, kind: str, bits: int) -> None:
    judge([Move(s, Access("dst", FORMS[form][0]), Fill(b)) for s in SHAPES for b in (0, bits)], kind)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["int8", "int32"])
def test_a_copy_goes_from_any_layout_to_any_other(form: str, kind: str) -> None:
    into = Access("dst", FORMS[form][0])
    cases = all_pairs([Combine.STORE, Combine.ADD, Combine.MAX], SHAPES, [out for out, _ in FORMS.values()], one_in=3)
    judge([Move(shape, into, Access("src", out), None, combine) for combine, shape, out in cases], kind)


def index_of(side: Side, unit: IndexUnit, remap: Remap, width: int = 0, *, by_row: bool = False) -> Index:
    return Index(Access("idx", Layout.plain(1, 0 if by_row else 1)), side, unit, 5, remap, width)


OUTSIDE = [(Side.SRC, Remap.ZERO), (Side.DST, Remap.SKIP)]
INSIDE = [(Side.SRC, Remap.CLAMP), (Side.DST, Remap.WRAP)]


@pytest.mark.parametrize(
    ("form", "way", "read"), all_pairs(FORMS, OUTSIDE + INSIDE, [(I32, True), (I64, False)], one_in=2)
)
def test_rows_that_indices_name(form: str, way: tuple[Side, Remap], read: tuple[str, bool]) -> None:
    """Rows outside are zero or stay as they are, in whatever way their elements lie."""
    (side, remap), (lane, far) = way, read
    lanes = [4, 0, 2, 2, 1, 0]
    if (side, remap) in OUTSIDE:
        lanes[1] = lanes[4] = SENTINEL
    index, into = index_of(side, IndexUnit.ROW, remap, by_row=True), Access("dst", FORMS[form][0])
    combines = [Combine.STORE] if side is Side.SRC else [Combine.STORE, Combine.ADD]
    moves = [Move(s, into, Access("src", out), index, combine)
             for s in FEW for out in SOURCES for combine in combines]  # fmt: skip
    judge(moves, "int16", lanes, lane, far=far)


UNITS = [
    (IndexUnit.ROW, 0, 6, I64), (IndexUnit.ELEMENT, 0, 16, I32), (IndexUnit.ELEMENT, 16, 96, I32),
    (IndexUnit.ELEMENT, 4, 24, I64),
]  # fmt: skip
"""What an index counts, in rows of so many elements; the most that there is, and its type."""


@pytest.mark.parametrize(("form", "way", "counted"), all_pairs(FORMS, OUTSIDE + INSIDE, UNITS, one_in=2))
def test_elements_that_indices_name(
    form: str, way: tuple[Side, Remap], counted: tuple[IndexUnit, int, int, str]
) -> None:
    (side, remap), (unit, width, most, lane) = way, counted
    lanes = np.random.default_rng(most).integers(0, most, ROWS * COLS)
    if (side, remap) in OUTSIDE:
        lanes[::3] = SENTINEL
    index, into = index_of(side, unit, remap, width), Access("dst", FORMS[form][0])
    combine = Combine.STORE if side is Side.SRC else Combine.ADD
    moves = [Move(s, into, Access("src", out), index, combine) for s in FEW for out in SOURCES]
    judge(moves, "int32", lanes.tolist(), lane, far=width == 4)


# --- Indices ---------------------------------------------------------------------------------------------------

CAPACITY = 40
REMAPPED: dict[Remap, Callable[[int], int]] = {
    Remap.REFUSE: lambda value: value,
    Remap.CLAMP: lambda value: min(value, CAPACITY - 1),
    Remap.WRAP: lambda value: value % CAPACITY,
    Remap.ZERO: lambda value: value if value < CAPACITY else SENTINEL,
    Remap.SKIP: lambda value: value if value < CAPACITY else SENTINEL,
}
"""For values that are not negative."""


@pytest.mark.parametrize(("form", "remap", "kind"), all_pairs(FORMS, REMAPPED, ("int16", "uint32", "int64"), one_in=3))
def test_every_index_is_read_and_no_other(form: str, remap: Remap, kind: str) -> None:
    """Lanes are the indices in row-major order. A value beside the index changes neither lanes nor the greatest."""
    layout, offset = FORMS[form]
    index = Index(Access("idx", layout), Side.SRC, IndexUnit.ELEMENT, CAPACITY, remap)
    functions, shapes = Functions(), [*SHAPES, (2, COLS), (ROWS, 2)]

    def emit(code: IrBuilder, value_of: Callable[[Any], IrValue], shape: tuple[Any, Any]) -> IrValue:
        place = MemoryView(code.arguments[0], layout, dtype(kind).size)
        rows, cols = map(value_of, shape)
        return emit_resolve(code, index, dtype(kind), place, (rows, cols), code.arguments[2], value_of)

    for shape in shapes:
        functions.add(lambda code, value_of, shape=shape: emit(code, value_of, shape), I64)  # type: ignore[misc]
    for (number, shape), most in product(enumerate(shapes), (CAPACITY, CAPACITY + 1, 3000)):
        rows, cols = extents(shape)
        indices = np.full(ROOM, 31_000, kind)
        wanted = np.random.default_rng(most).integers(0, most, rows * cols)
        wanted[-1] = most - 1
        for (i, j), value in zip(product(range(rows), range(cols)), wanted, strict=True):
            indices[offset(i, j)] = value
        lanes = np.full(rows * cols + 2 * PADDING, 77, "i4" if lane_of(dtype(kind)) == I32 else "i8")
        assert functions.call(number, indices, indices, lanes) == wanted.max()
        assert lanes[: rows * cols].tolist() == [REMAPPED[remap](int(value)) for value in wanted]
        assert (lanes[rows * cols + PADDING :] == 77).all()
