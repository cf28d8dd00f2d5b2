"""Units of work that threads take one by one: each has a function of its own, so that one launch does all of them."""

from __future__ import annotations

from ptokit.engine.llvm.emit import I64, PTR, IrBuilder, IrValue
from ptokit.engine.native.whole.block import pieces, word

UNIT = ("code", "job", "low", "high", "keys", "spare", "passes", "count", "rows", "out")
"""The words of a unit: its function and its job; a range of bags, or of rows; two buffers of keys, and how often they
are sorted; then how many keys there are, or the greatest index, and how many rows; where in the output its rows
begin."""


def each(code: IrBuilder) -> None:
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
