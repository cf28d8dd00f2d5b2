"""Blocks that access the same cells: H-16, and conflicts that have no number."""

from __future__ import annotations

import ptokit as pto
from tests.corpus.hazards.case import Case, Hazard, counted, flag, numbers, upto, zeros

NPU = ("a2a3", "a5")


@pto.kernel
def scatter(
    table, rows, tokens, flat: pto.const = False, atomic: pto.const = "none", odd: pto.const = "",
    conflict: pto.const = "default", oob: pto.const = "undefined",
):  # fmt: skip
    """Four rows per block; odd blocks may use another operation."""
    b = pto.block_idx()
    ids = pto.Tile("vec", "int32", *((4, 16) if flat else (1, 8)), valid=(4, 16) if flat else (1, 4))
    values = pto.Tile("vec", table.dtype, 4, 16)
    pto.tload(ids, tokens[b * 4 : b * 4 + 4])
    pto.tload(values, rows[b * 4 : b * 4 + 4])
    mode = "elem" if flat else "row"
    if odd:
        with pto.when(b % 2 == 1):
            pto.mscatter(table, values, ids, coalesce=mode, atomic=odd, conflict=conflict, oob=oob)  # odd
        with pto.otherwise():
            pto.mscatter(table, values, ids, coalesce=mode, atomic=atomic, conflict=conflict, oob=oob)
    else:
        pto.mscatter(table, values, ids, coalesce=mode, atomic=atomic, conflict=conflict, oob=oob)  # all


@pto.kernel(mode="manual")
def twice(table, rows, tokens, apart: pto.const = False):
    """Two scatters of one block to the same rows: one pipe does both, in order."""
    ids = pto.Tile("vec", "int32", 1, 8, addr=0x0)
    values = pto.Tile("vec", table.dtype, 8, 16, addr=0x1000)
    pto.tload(ids, tokens)
    pto.tload(values, rows)
    flag("MTE2", "V")
    pto.mscatter(table, values, ids, coalesce="row")
    pto.mscatter(table, values, ids, coalesce="row")


@pto.kernel(mode="manual")
def replaced(table, rows, tokens, stores_first: pto.const = False, ordered: pto.const = True, flat: pto.const = False):
    """A scatter and a store of one block to the same rows, by two pipes."""
    ids = pto.Tile("vec", "int32", *((8, 16) if flat else (1, 8)), addr=0x0)
    values = pto.Tile("vec", table.dtype, 8, 16, addr=0x1000)
    pto.tload(ids, tokens)
    pto.tload(values, rows)
    pto.barrier("ALL")
    if stores_first:
        pto.tstore(table[0:8], values)
        if ordered:
            flag("MTE3", "V")
    pto.mscatter(table, values, ids, coalesce="elem" if flat else "row")  # the scatter
    if not stores_first:
        if ordered:
            flag("V", "MTE3")
        pto.tstore(table[0:8], values)  # the store


LINE = "# all"
TO = {"table": zeros(64, 16), "rows": counted(16, 16), "tokens": upto(16)}
ONE_ROW = numbers(0, 1, 2, 3, 4, 5, 6, 1, 8, 9, 10, 11, 12, 13, 14, 15)
"""Row 1 of block 0 repeats in block 1."""


def elements(shared: bool) -> object:
    """Distinct elements, or with one cell in common for the first and the last block."""
    make = upto(16, 16)

    def made() -> object:
        array = make()
        if shared:
            array[15, 15] = 0
        return array

    return made


def same_cells() -> list[Case]:
    """H-16: two blocks scatter to one cell."""
    rows = Hazard("H-16", LINE, "table", scatter, TO, grid=4)
    flat = Hazard("H-16", LINE, "table", scatter, {**TO, "flat": True}, grid=4)
    mixed = Hazard("H-16", "", "table", scatter, {**TO, "tokens": ONE_ROW}, grid=4)
    pair = Hazard("H-16", LINE, "table", twice, {**TO, "rows": counted(8, 16), "tokens": upto(8)})
    half = {"table": zeros(64, 16, dtype="float16"), "rows": counted(16, 16, dtype="float16")}
    block = {**TO, "rows": counted(8, 16), "tokens": upto(8)}
    before, after = (
        Hazard("H-16", "# the store", "dst", replaced, block),
        Hazard("H-16", "# the scatter", "table", replaced, block),
    )
    cells = {"flat": True, "tokens": upto(8, 16)}
    cases: list[Case] = []
    for target in NPU:
        cases += [
            *rows.pair("one row", target, {"tokens": ONE_ROW}, {"tokens": upto(16)}),
            *rows.pair("one row, half", target, {"tokens": ONE_ROW}, {"tokens": upto(16)}, **half),
            *rows.pair("added up", target, {"atomic": "none"}, {"atomic": "add"}, tokens=ONE_ROW),
            *rows.pair("the last asked for", target, {"tokens": ONE_ROW}, {"tokens": upto(16)}, conflict="last"),
            *flat.pair("one element", target, {"tokens": elements(True)}, {"tokens": elements(False)}),
            *mixed.pair("an add and a store", target, {"odd": "none"}, {"odd": "add"}, atomic="add",
                        line="mscatter(table, values, ids"),
            *rows.pair("clamped onto one row", target, {"oob": "clamp"}, {"oob": "skip"},
                       tokens=numbers(*range(7), 64, *range(8, 15), 65)),
            pair.twin("one block, one pipe", target),
        ]  # fmt: skip
    return [
        *cases,
        *before.pair("a store after a scatter", "a5", {"ordered": False}, {"ordered": True}),
        *before.pair("a store after elements", "a5", {"ordered": False}, {"ordered": True}, **cells),
        *after.pair("a scatter after a store", "a5", {"ordered": False}, {"ordered": True}, stores_first=True),
        *after.pair("elements after a store", "a5", {"ordered": False}, {"ordered": True}, stores_first=True, **cells),
        before.twin("a store after a scatter, in order by itself", "a2a3", ordered=False),
        after.twin("a scatter after a store, in order by itself", "a2a3", ordered=False, stores_first=True),
        *mixed.pair("an add and a maximum", "a5", {"odd": "max"}, {"odd": "add"}, atomic="add",
                    line="mscatter(table, values, ids"),
        rows.twin("one block takes both", "a5", tokens=numbers(0, 1, 2, 3), rows=counted(4, 16), grid=1),
    ]  # fmt: skip


@pto.kernel
def store(x, out, step: pto.const = 4, atomic: pto.const = "none"):
    """Four rows a block, `step` rows after those of the block before."""
    b = pto.block_idx()
    part = pto.Tile("vec", x.dtype, 4, 16)
    pto.tload(part, x[b * 4 : b * 4 + 4])
    pto.tstore(out[b * step : b * step + 4], part, atomic=atomic)


@pto.kernel
def shift(x, far: pto.const = 4):
    """Each block reads rows, and writes rows that others may read."""
    b = pto.block_idx()
    part = pto.Tile("vec", x.dtype, 4, 16)
    pto.tload(part, x[b * 8 + far : b * 8 + far + 4])  # the load
    pto.tstore(x[b * 8 : b * 8 + 4], part)


def unnumbered() -> list[Case]:
    """Blocks that store to the same rows, or read what others write."""
    cases: list[Case] = []
    for target in NPU:
        writes = Hazard("", "pto.tstore(out[b * step", "dst", store,
                        {"x": counted(16, 16), "out": zeros(16, 16)}, grid=4)  # fmt: skip
        reads = Hazard("", "pto.tstore(x[b * 8", "dst", shift, {"x": counted(40, 16)}, grid=4)
        cases += [
            *writes.pair("stores", target, {"step": 3}, {"step": 4}),
            *writes.pair("stores that add", target, {"atomic": "none"}, {"atomic": "add"}, step=2),
            *reads.pair("a load and a store", target, {"far": 8}, {"far": 4}),
        ]
    return cases


CASES = [*same_cells(), *unnumbered()]
