"""Ragged tails (H-36): a load or gather of fewer rows or columns than the one before, and a read of all of the tile."""

from __future__ import annotations

from itertools import product

import ptokit as pto
from tests.corpus.hazards.case import Case, Hazard, counted, spread, zeros

ALL = ("cpu", "a2a3", "a5")
DTYPES = ("float32", "float16", "int32")


@pto.kernel(mode="manual")
def loaded(
    x, out, total: pto.const = 12, read_all: pto.const = True, clear: pto.const = "", use: pto.const = "store",
    pad: pto.const = "null", columns: pto.const = False,
):  # fmt: skip
    """Blocks of 8 rows, or 16 columns, the last of them with fewer; all of the tile is used, or what was loaded."""
    each = 16 if columns else 8
    zero = pto.Tile("vec", x.dtype, 8, 16, addr=0x4000)
    if clear == "by a copy":
        pto.texpands(zero, 0)
    for i in pto.range(2):
        n = pto.min(each, total - i * each)
        some = (8, n) if columns else (n, 16)
        part = pto.Tile("vec", x.dtype, 8, 16, valid=some, addr=0, pad=pad)
        whole = pto.Tile("vec", x.dtype, 8, 16, addr=0) if read_all else part
        double = pto.Tile("vec", x.dtype, 8, 16, valid=whole.valid, addr=0x1000)
        if clear == "by a fill":
            pto.texpands(whole, 0)
        elif clear:
            pto.tmov(whole, zero)
        pto.barrier("ALL")
        pto.tload(part, x[:, i * 16 : i * 16 + n] if columns else x[i * 8 : i * 8 + n])
        pto.barrier("ALL")
        size = each if read_all else n
        to = out[:, i * 16 : i * 16 + size] if columns else out[i * 8 : i * 8 + size]
        if use == "store":
            pto.tstore(to, whole)  # all of it
        else:
            pto.tadd(double, whole, whole)  # all of it
            pto.barrier("ALL")
            pto.tstore(to, double)
        pto.barrier("ALL")


@pto.kernel(mode="manual")
def gathered(
    table, tokens, out, total: pto.const = 12, read_all: pto.const = True, clear: pto.const = False,
    coalesce: pto.const = "row",
):  # fmt: skip
    """Eight rows are gathered, then fewer; eight are stored, or what was gathered."""
    flat = coalesce == "elem"
    for i in pto.range(2):
        n = pto.min(8, total - i * 8)
        ids = pto.Tile("vec", "int32", *((8, 16) if flat else (1, 8)), valid=(n, 16) if flat else (1, n), addr=0x4000)
        part = pto.Tile("vec", table.dtype, 8, 16, valid=(n, 16), addr=0)
        whole = pto.Tile("vec", table.dtype, 8, 16, addr=0) if read_all else part
        pto.tload(ids, tokens[i * 8 : i * 8 + n])
        if clear:
            pto.texpands(whole, 0)
        pto.barrier("ALL")
        pto.mgather(part, table, ids, coalesce=coalesce)
        pto.barrier("ALL")
        pto.tstore(out[i * 8 : i * 8 + (8 if read_all else n)], whole)  # all of it
        pto.barrier("ALL")


@pto.kernel
def reused(x, out, total: pto.const = 12, way: pto.const = "a slice"):
    """Automatic addresses: one tile for all blocks, whose valid region is set again."""
    t = pto.Tile("vec", x.dtype, 8, 16)
    r = pto.Tile("vec", x.dtype, 8, 16)
    for i in pto.range(2):
        n = pto.min(8, total - i * 8)
        t.valid = (n, 16)
        pto.tload(t, x[i * 8 : i * 8 + n])
        if way == "the valid region":
            r.valid = (n, 16)
            pto.tadd(r, t, t)
            pto.tstore(out[i * 8 : i * 8 + n], r)
        elif way == "a slice":
            pto.tadd(r, t[0:8, 0:16], t[0:8, 0:16])  # all of it
            pto.tstore(out[i * 8 : i * 8 + 8], r)
        else:
            t.valid = (8, 16)
            pto.tadd(r, t, t)  # all of it
            pto.tstore(out[i * 8 : i * 8 + 8], r)


@pto.kernel(mode="manual")
def twice(x, out, rows: pto.const = 4, by_slice: pto.const = False):
    """A second load without a loop: of a part of the tile, or of a slice, outside which nothing changes."""
    t = pto.Tile("vec", x.dtype, 8, 16, addr=0)
    pto.tload(t, x[0:8])
    if by_slice:
        pto.tload(t[0:rows, 0:16], x[8 : 8 + rows])
    else:
        t.valid = (rows, 16)
        pto.tload(t, x[8 : 8 + rows])
        t.valid = (8, 16)
    pto.barrier("ALL")
    pto.tstore(out, t)  # all of it


def cleared(target: str) -> dict[str, str]:
    """What clears the rows that a load leaves: its pad value, where that fills the tile (TL-03)."""
    return {"clear": "by a fill"} if target in ("a2a3", "a5") else {"pad": "zero"}


def loads() -> list[Case]:
    """Loads in a loop: rows and columns, element types, uses, and what the caller may do instead."""
    found: list[Case] = []
    for target, dtype in product(ALL, DTYPES):
        data = {"x": counted(16, 16, dtype=dtype), "out": zeros(16, 16, dtype=dtype)}
        load = Hazard("H-36", "# all of it", "src", loaded, data)
        found += load.pair(f"rows of {dtype}", target, {"total": 12}, {"total": 12, "read_all": False})
        found.append(load.twin(f"full blocks of {dtype}", target, total=16))
    for target in ALL:
        load = Hazard("H-36", "# all of it", "src", loaded, {"x": counted(16, 16), "out": zeros(16, 16)})
        wide = {"x": counted(8, 32), "out": zeros(8, 32), "columns": True}
        found += [
            *load.pair("loaded columns", target, {"total": 24}, {"total": 24, "read_all": False}, **wide),
            *load.pair("one row", target, {"total": 9}, {"total": 9, "clear": "by a fill"}),
            *load.pair("one less", target, {"total": 15}, {"total": 15, "clear": "by a copy"}),
            *load.pair("a sum", target, {"total": 12}, {"total": 12, **cleared(target)}, use="add", operand="src0"),
        ]
    return found


def gathers() -> list[Case]:
    """Gathers of rows and elements in a loop."""
    found: list[Case] = []
    for target, total in product(ALL, (9, 12)):
        rows = {"table": counted(64, 16), "tokens": spread(16, below=64), "out": zeros(16, 16), "total": total}
        flat = {**rows, "tokens": spread(16, 16, below=1024), "coalesce": "elem"}
        gather = Hazard("H-36", "# all of it", "src", gathered, rows)
        found += gather.pair(f"gathered rows, {total}", target, {}, {"clear": True})
        found += gather.pair(f"gathered elements, {total}", target, {}, {"read_all": False}, **flat)
    return found


def handles() -> list[Case]:
    """Automatic addresses, slices, and no loop at all."""
    found: list[Case] = []
    for target in ALL:
        auto = Hazard("H-36", "# all of it", "src0", reused, {"x": counted(16, 16), "out": zeros(16, 16)})
        again = Hazard("H-36", "# all of it", "src", twice, {"x": counted(16, 16), "out": zeros(8, 16)})
        found += [
            *auto.pair("a slice", target, {}, {"way": "the valid region"}),
            *auto.pair("a valid region set again", target, {"way": "set"}, {"way": "set", "total": 16}),
            *again.pair("no loop", target, {}, {"by_slice": True}),
            again.twin("all of it again", target, rows=8),
        ]
    return found


CASES = [*loads(), *gathers(), *handles()]
