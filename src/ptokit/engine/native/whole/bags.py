"""Bags of gathered rows: threads take pieces of the bags, and reduce each one in order."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ptokit.engine.llvm.bags import BagArguments, BagCode, BagKind
from ptokit.engine.llvm.emit import I64, PTR, IrBuilder, IrValue
from ptokit.engine.native.whole.block import note, pieces, word

COLUMNS = 256
"""Bytes of a row that are reduced at a time: what registers hold."""
REFUSED = -1
"""Stands for an index that is outside of every table, where bounds are not in order."""


def reduce(code: IrBuilder, kind: BagKind) -> None:
    """Pieces of the bags."""
    names = ("table", "index", "bounds", "weights", "other", "winners")
    addresses = [word(code, name, PTR) for name in names]
    numbers = [word(code, name) for name in ("total", "capacity", "table_row", "padding", "count")]
    greatest = code.variable(I64, code.i64(0))

    def read(index: IrValue) -> None:
        known = greatest.get()
        greatest.set(code.select(index.compare("ugt", known), index, known))

    given = BagArguments(*addresses, *numbers)
    bag_code = BagCode(code, kind, given, read)
    wide = (COLUMNS // 2 if kind.tracked else COLUMNS) // kind.dtype.size  # lanes need registers, too
    with pieces(code) as number:
        first = number * word(code, "piece")
        left = given.bags - first
        piece = word(code, "piece")
        with code.loop(first, first + code.select(left.compare("slt", piece), left, piece)) as bag:
            read(code.select(bag_code.is_ordered(bag), code.i64(0), REFUSED))
            in_columns(code, kind.width, wide, partial(bag_code.reduce, bag))
    note(code, "greatest", greatest.get())


def in_columns(code: IrBuilder, width: int, wide: int, do: Callable[[IrValue, int], None]) -> None:
    """Columns of a row, some at a time: `do` is given the first, and how many."""
    whole = width - width % wide
    if whole:
        with code.loop(0, whole, wide) as column:
            do(column, wide)
    while whole < width:
        step = 1 << ((width - whole).bit_length() - 1)
        do(code.i64(whole), step)
        whole += step
