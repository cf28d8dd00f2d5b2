"""How a kernel is started: H-23."""

from __future__ import annotations

import ptokit as pto
from tests.corpus.hazards.case import Case, Hazard, counted, numbers, spread, upto, zeros

POINTER, STANDARD = {"launch": "function_pointer"}, {"launch": "standard"}


@pto.kernel
def gather(
    table, tokens, out, coalesce: pto.const = "row", tile: pto.const = (8, 16), index: pto.const = (1, 8),
    valid: pto.const = (8, 16), index_valid: pto.const = (1, 8),
):  # fmt: skip
    """A gather into UB."""
    ids = pto.Tile("vec", "int32", *index, valid=index_valid)
    got = pto.Tile("vec", table.dtype, *tile, valid=valid)
    pto.tload(ids, tokens)
    pto.mgather(got, table, ids, coalesce=coalesce)
    pto.tstore(out, got)


@pto.kernel
def scatter(table, rows, tokens, flat: pto.const = False, atomic: pto.const = "none"):
    """A scatter from UB."""
    ids = pto.Tile("vec", "int32", *((8, 16) if flat else (1, 8)))
    values = pto.Tile("vec", table.dtype, 8, 16)
    pto.tload(ids, tokens)
    pto.tload(values, rows)
    pto.mscatter(table, values, ids, coalesce="elem" if flat else "row", atomic=atomic)


@pto.kernel
def into_l1(table, tokens, scratch, how: pto.const = "row"):
    """Rows, or elements by one thread or many, into L1."""
    matrix = pto.Tile("mat", table.dtype, 16, 16, blayout="col_major", slayout="row_major")
    if how == "row":
        pto.mgather(matrix, table, tokens)
    else:
        pto.mgather(matrix, table, tokens, scratch=scratch, executor=how)  # elements


@pto.kernel
def plain(x, out):
    """No threads at all."""
    part = pto.Tile("vec", x.dtype, 8, 16)
    pto.tload(part, x)
    pto.tadds(part, part, 1)
    pto.tstore(out, part)


ROW = {"table": counted(64, 16), "tokens": spread(8, below=64), "out": zeros(8, 16)}
FLAT = {**ROW, "tokens": spread(8, 16, below=1024), "coalesce": "elem", "index": (8, 16), "index_valid": (8, 16)}
SINGLE = {"table": counted(64, 16), "tokens": numbers(99), "coalesce": "elem", "tile": (1, 8), "index": (1, 8),
          "out": zeros(1, 1), "valid": (1, 1), "index_valid": (1, 1)}  # fmt: skip
PAIR = {**SINGLE, "tokens": numbers(99, 7), "out": zeros(1, 2), "valid": (1, 2), "index_valid": (1, 2)}
TO = {"table": zeros(64, 16), "rows": counted(8, 16), "tokens": upto(8)}
L1 = {"table": counted(64, 16, dtype="float16"), "scratch": zeros(256, dtype="float16")}


def threads() -> list[Case]:
    """H-23: threads without a set-up."""
    read = Hazard("H-23", "pto.mgather(got, table, ids", "launch", gather, ROW)
    write = Hazard("H-23", "pto.mscatter(table, values, ids", "launch", scatter, TO)
    cube = Hazard("H-23", "# elements", "launch", into_l1, {**L1, "tokens": spread(16, 16, below=1024)})
    return [
        *read.pair("rows", "a5", POINTER, STANDARD),
        *read.pair("elements", "a5", POINTER, STANDARD, **FLAT),
        *read.pair("two elements", "a5", PAIR, SINGLE, **POINTER),
        *write.pair("row scatter", "a5", POINTER, STANDARD),
        *write.pair("element scatter", "a5", POINTER, STANDARD, flat=True, tokens=upto(8, 16)),
        *write.pair("atomic scatter", "a5", POINTER, STANDARD, atomic="add"),
        *cube.pair("into L1", "a5", {"how": "simt"}, {"how": "scalar"}, **POINTER),
        cube.twin("rows into L1", "a5", **POINTER, how="row", tokens=spread(16, below=64)),
        read.twin("A2/A3 has none", "a2a3", **POINTER),
        write.twin("A2/A3 has none for scatters", "a2a3", **POINTER),
    ]


PLAIN = Hazard("H-23", "", "", plain, {"x": counted(8, 16), "out": zeros(8, 16)})
CASES = [*threads(), PLAIN.twin("no threads", "a5", **POINTER)]
