"""Bags of gathered rows: threads take pieces of the bags, and reduce each one in order."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ptokit.engine.bag_arguments import BagsKind
from ptokit.engine.llvm.bag_code import BagArguments, BagCode, in_columns
from ptokit.engine.llvm.emit import I64, PTR, IrBuilder, IrValue, Variable
from ptokit.engine.native.whole.block import note, of_unit, pieces, put_unit, word

COLUMNS = 256
"""Bytes of a row that are reduced at a time: what registers hold."""
REFUSED = -1
"""Stands for an index that is outside of every table, where bounds are not in order."""


def reduce(code: IrBuilder, kind: BagsKind) -> None:
    """Pieces of the bags."""
    names = ("table", "index", "bounds", "weights", "other", "winners")
    addresses = [word(code, name, PTR) for name in names]
    numbers = [word(code, name) for name in ("total", "capacity", "table_row", "padding", "count")]
    given = BagArguments(*addresses, *numbers)
    greatest, read = _greatest(code)
    bag_code = BagCode(code, kind, given, read)
    with pieces(code) as number:
        first = number * word(code, "piece")
        left = given.bags - first
        piece = word(code, "piece")
        with code.loop(first, first + code.select(left.compare("slt", piece), left, piece)) as bag:
            read(code.select(bag_code.is_ordered(bag), code.i64(0), REFUSED))
            in_columns(code, kind.width, _wide(kind), partial(bag_code.reduce, bag))
    note(code, "greatest", greatest.get())


def reduce_range(code: IrBuilder, kind: BagsKind) -> None:
    """The bags of a unit, whose job has `BagArguments`; it keeps the greatest index."""
    given = BagArguments.of_job(code, of_unit(code, "job", PTR))
    greatest, read = _greatest(code)
    bag_code = BagCode(code, kind, given, read)
    with code.loop(of_unit(code, "low"), of_unit(code, "high")) as bag:
        in_columns(code, kind.width, _wide(kind), partial(bag_code.reduce, bag))
    put_unit(code, "count", greatest.get())


def _greatest(code: IrBuilder) -> tuple[Variable, Callable[[IrValue], None]]:
    """A variable, and a function that keeps the greatest index in it."""
    greatest = code.variable(I64, code.i64(0))

    def read(index: IrValue) -> None:
        known = greatest.get()
        greatest.set(code.select(index.compare("ugt", known), index, known))

    return greatest, read


def _wide(kind: BagsKind) -> int:
    """How many columns registers hold; lanes need registers as well."""
    return (COLUMNS // 2 if kind.tracked else COLUMNS) // kind.dtype.size
