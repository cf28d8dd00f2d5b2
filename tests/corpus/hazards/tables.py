"""Violations of an instruction's rules before it runs: layouts, shapes, strides, types (H-02 to H-09 and others)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import ptokit as pto
from tests.corpus.hazards.case import Array, Case, Hazard, counted, numbers, spread, upto, zeros

NPU = ("a2a3", "a5")
ALL = ("cpu", "a2a3", "a5")


@pto.kernel
def gather(
    table, tokens, out, tile: pto.const = (8, 16), valid: pto.const = (8, 16), form: pto.const = (),
    index: pto.const = (1, 8), index_valid: pto.const = (1, 8), index_form: pto.const = (),
    coalesce: pto.const = None, oob: pto.const = "undefined", clear: pto.const = False,
):  # fmt: skip
    """A gather of one tile, of any form."""
    ids = pto.Tile("vec", tokens.dtype, *index, valid=index_valid, **dict(index_form))
    if clear:
        ids.valid = index
        pto.texpands(ids, 0)
        ids.valid = index_valid
    got = pto.Tile("vec", out.dtype, *tile, valid=valid, **dict(form))
    pto.tload(ids, tokens)
    pto.mgather(got, table, ids, coalesce=coalesce, oob=oob)
    pto.tstore(out, got)


@pto.kernel
def scatter(
    table, rows, tokens, tile: pto.const = (8, 16), valid: pto.const = (8, 16),
    index: pto.const = (1, 8), index_valid: pto.const = (1, 8), index_form: pto.const = (),
    coalesce: pto.const = "row", atomic: pto.const = "none",
):  # fmt: skip
    """A scatter of one tile."""
    ids = pto.Tile("vec", tokens.dtype, *index, valid=index_valid, **dict(index_form))
    values = pto.Tile("vec", rows.dtype, *tile, valid=valid)
    pto.tload(ids, tokens)
    pto.tload(values, rows)
    pto.mscatter(table, values, ids, coalesce=coalesce, atomic=atomic)


GATHER, SCATTER = "pto.mgather(got, table, ids", "pto.mscatter(table, values, ids"
COLUMN = (("blayout", "col_major"),)
BOXED = (("blayout", "col_major"), ("slayout", "row_major"))
ROW = {"table": counted(64, 16), "tokens": spread(8, below=64), "out": zeros(8, 16)}
ELEM = {
    "table": counted(64, 16), "tokens": spread(8, 16, below=1024), "out": zeros(8, 16),
    "index": (8, 16), "index_valid": (8, 16), "coalesce": "elem",
}  # fmt: skip
ROWS = {"table": zeros(64, 16), "rows": counted(8, 16), "tokens": upto(8)}
ELEMS = {**ROWS, "tokens": upto(8, 16), "index": (8, 16), "index_valid": (8, 16), "coalesce": "elem"}


def fractal(*shape: int, dtype: str = "float32") -> Callable[[], Any]:
    """A tensor of whole fractals."""
    return lambda: pto.GlobalTensor(counted(*shape, dtype=dtype)(), layout="nz")


def standing(make: Callable[[], Array]) -> Callable[[], Any]:
    """A column of contiguous numbers."""
    return lambda: pto.GlobalTensor(make().reshape(-1, 1), layout="dn")


def wide(rows: int, cols: int, *, of: int, dtype: str = "float32") -> Callable[[], Array]:
    """Columns of a wider array: its rows do not follow one another directly."""
    return lambda: counted(rows, of, dtype=dtype)()[:, :cols]


def layouts() -> list[Case]:
    """H-02: an A5 table that is not ND."""
    table = Hazard("H-02", GATHER, "table", gather, ROW)
    few = {"tokens": spread(8, below=16)}
    narrow = {"tile": (8, 8), "valid": (8, 8), "out": zeros(8, 8)}
    halves = {"tile": (8, 16), "out": zeros(8, 16, dtype="float16")}
    bytes_ = {"tile": (8, 32), "valid": (8, 32), "out": zeros(8, 32, dtype="uint8")}
    return [
        *table.pair("NZ", "a5", {"table": fractal(1, 1, 4, 16, 8)}, {"table": counted(64, 8)}, **few, **narrow),
        *table.pair("NZ, half", "a5", {"table": fractal(1, 1, 4, 16, 16, dtype="float16")},
                    {"table": counted(64, 16, dtype="float16")}, **few, **halves),
        *table.pair("NZ, uint8", "a5", {"table": fractal(1, 1, 2, 16, 32, dtype="uint8")},
                    {"table": counted(32, 32, dtype="uint8")}, **few, **bytes_),
        *table.pair("NZ, elements", "a5", {"table": fractal(1, 2, 4, 16, 8)}, {"table": counted(64, 16)},
                    **{key: value for key, value in ELEM.items() if key != "table"}),
        *table.pair("DN", "a5", {"table": lambda: pto.GlobalTensor(counted(64, 16)(), layout="dn")},
                    {"table": counted(64, 16)}),
    ]  # fmt: skip


def widths() -> list[Case]:
    """H-03: A5 steps by the valid columns, not by the width of the table."""
    table = Hazard("H-03", GATHER, "table", gather, ROW)
    return [
        *table.pair("half a row", "a5", {"valid": (8, 8), "out": zeros(8, 8)}, {"valid": (8, 16)}),
        *table.pair("one column less", "a5", {"valid": (8, 15), "out": zeros(8, 15)}, {"valid": (8, 16)}),
        *table.pair("wider table", "a5", {"table": counted(64, 24)}, {"table": counted(64, 16)}),
        *table.pair("half, one column", "a5", {"valid": (8, 1), "out": zeros(8, 1, dtype="float16")},
                    {"table": counted(64, 1, dtype="float16"), "valid": (8, 1), "out": zeros(8, 1, dtype="float16")},
                    table=counted(64, 16, dtype="float16")),
        *(table.twin("half a row", target, valid=(8, 8), out=zeros(8, 8)) for target in ("a2a3", "cpu")),
    ]  # fmt: skip


def pitches() -> list[Case]:
    """H-04 and H-46: rows that lie farther apart than they are wide."""
    cpu = Hazard("H-04", GATHER, "table", gather, ROW)
    a5 = Hazard("H-04", GATHER, "table", gather, ROW, also=("H-46",))
    both = Hazard("H-46", GATHER, "table", gather, ROW, also=("H-04",))
    rows = Hazard("H-46", SCATTER, "table", scatter, ROWS)
    half = {"out": zeros(8, 16, dtype="float16")}
    return [
        *cpu.pair("twice as far", "cpu", {"table": wide(64, 16, of=32)}, {"table": counted(64, 16)}),
        *cpu.pair("one element", "cpu", {"table": wide(64, 16, of=17)}, {"table": counted(64, 16)}),
        *cpu.pair("one row", "cpu", {"table": wide(2, 16, of=32), "tokens": zeros(8, dtype="int32")},
                  {"table": wide(1, 16, of=32), "tokens": zeros(8, dtype="int32")}),
        *a5.pair("twice as far", "a5", {"table": wide(64, 16, of=32)}, {"table": counted(64, 16)}),
        *a5.pair("half", "a5", {"table": wide(64, 16, of=20, dtype="float16")},
                 {"table": wide(64, 16, of=16, dtype="float16")}, **half),
        cpu.twin("A2/A3 looks at the stride", "a2a3", table=wide(64, 16, of=32)),
        *both.pair("gather", "a5", {"table": wide(64, 16, of=32)}, {"table": wide(64, 16, of=16)}),
        *both.pair("gather, uint8", "a5", {"table": wide(64, 32, of=33, dtype="uint8")},
                   {"table": wide(64, 32, of=32, dtype="uint8")},
                   out=zeros(8, 32, dtype="uint8"), tile=(8, 32), valid=(8, 32)),
        *rows.pair("scatter", "a5", {"table": wide(64, 16, of=32)}, {"table": wide(64, 16, of=16)}),
        *rows.pair("scatter, one element", "a5", {"table": wide(64, 16, of=17)}, {"table": counted(64, 16)}),
        *rows.pair("scatter, half", "a5", {"table": wide(64, 16, of=24, dtype="float16")},
                   {"table": counted(64, 16, dtype="float16")}, rows=counted(8, 16, dtype="float16")),
        *(rows.twin("scatter by the stride", target, table=wide(64, 16, of=32)) for target in ("a2a3", "cpu")),
    ]  # fmt: skip


def outer_dims() -> list[Case]:
    """H-05: outer dims count as rows on some targets only."""
    table = Hazard("H-05", GATHER, "table", gather, ROW)
    cases: list[Case] = []
    for target, level in (("cpu", "error"), ("a5", "hazard")):
        for shape in ((2, 32), (8, 8), (2, 4, 8)):
            wrong, right = {"table": counted(*shape, 16)}, {"table": counted(64, 16)}
            name = " x ".join(map(str, shape))
            cases += table.pair(name, target, wrong, right, level=level, tokens=spread(8, below=8))
    return [*cases, table.twin("all rows count", "a2a3", table=counted(2, 32, 16))]


def gaps() -> list[Case]:
    """H-06: elements are counted through the gaps of a table."""
    cases: list[Case] = []
    for target in ALL:
        read = Hazard("H-06", GATHER, "table", gather, ELEM, level="hazard")
        cases += read.pair("gather", target, {"table": wide(64, 16, of=32)}, {"table": wide(64, 16, of=16)})
        write = Hazard("H-06", SCATTER, "table", scatter, ELEMS)
        cases += write.pair("scatter", target, {"table": wide(64, 16, of=32)}, {"table": wide(64, 16, of=16)})
    one = Hazard("H-06", GATHER, "table", gather, ELEM, level="hazard")
    return [
        *cases,
        *one.pair("gather, one row", "a5", {"table": wide(2, 512, of=513)}, {"table": wide(1, 1024, of=2048)}),
        *one.pair("gather, half", "a2a3", {"table": wide(64, 16, of=18, dtype="float16")},
                  {"table": counted(64, 16, dtype="float16")}, out=zeros(8, 16, dtype="float16")),
    ]  # fmt: skip


def columns() -> list[Case]:
    """H-07: rows that do not lie in one piece, or not evenly, or are narrower than asked for."""
    table = Hazard("H-07", GATHER, "table", gather, ROW)
    return [
        *table.pair("every other column", "a2a3", {"table": lambda: counted(64, 32)()[:, ::2]},
                    {"table": lambda: counted(64, 32)()[:, :16]}),
        *table.pair("columns as rows", "a2a3", {"table": lambda: counted(16, 64)().T}, {"table": counted(64, 16)}),
        *table.pair("uneven outer dims", "a2a3", {"table": lambda: counted(2, 40, 16)()[:, :32]},
                    {"table": lambda: counted(2, 32, 16)()}),
        *table.pair("uneven outer dims, half", "a2a3", {"table": lambda: counted(4, 20, 16, dtype="float16")()[:, :16]},
                    {"table": lambda: counted(4, 16, 16, dtype="float16")()}, out=zeros(8, 16, dtype="float16")),
        *table.pair("wider than the table", "a2a3", {"table": counted(64, 8)}, {"table": counted(64, 16)},
                    operand="dst"),
        *table.pair("wider than the table", "cpu", {"table": counted(64, 12)}, {"table": counted(64, 16)},
                    operand="dst"),
    ]  # fmt: skip


def types() -> list[Case]:
    """H-08: types that only the simulator's header takes."""
    index = Hazard("H-08", GATHER, "idx", gather, ROW)
    data = Hazard("H-08", GATHER, "table", gather, ROW)
    source = Hazard("H-08", SCATTER, "table", scatter, ROWS)
    wrong = Hazard("H-08", SCATTER, "idx", scatter, ROWS)
    cases: list[Case] = []
    for target in NPU:
        cases += [
            *index.pair("int16 indices", target, {"tokens": spread(16, below=64, dtype="int16")},
                        {"tokens": spread(16, below=64)}, index=(1, 16), index_valid=(1, 16), tile=(16, 16),
                        valid=(16, 16), out=zeros(16, 16)),
            *index.pair("uint8 indices", target, {"tokens": spread(32, below=64, dtype="uint8")},
                        {"tokens": spread(32, below=64, dtype="uint32")}, index=(1, 32), index_valid=(1, 32),
                        tile=(32, 16), valid=(32, 16), out=zeros(32, 16)),
            *data.pair("int32 for float32", target, {"table": counted(64, 16, dtype="int32")},
                       {"table": counted(64, 16)}),
            *data.pair("int16 for half", target, {"table": counted(64, 16, dtype="int16")},
                       {"table": counted(64, 16, dtype="float16")}, out=zeros(8, 16, dtype="float16")),
            *source.pair("uint32 for float32", target, {"table": zeros(64, 16, dtype="uint32")},
                         {"table": zeros(64, 16)}),
            *wrong.pair("uint16 indices", target, {"tokens": upto(16, dtype="uint16")},
                        {"tokens": upto(16, dtype="uint32")}, index=(1, 16), index_valid=(1, 16), tile=(16, 16),
                        valid=(16, 16), rows=counted(16, 16)),
        ]  # fmt: skip
    return cases


def places() -> list[Case]:
    """H-09: layouts, shapes and widths that only the simulator takes."""
    index = Hazard("H-09", GATHER, "idx", gather, ROW)
    tile = Hazard("H-09", GATHER, "dst", gather, ROW)
    source = Hazard("H-09", SCATTER, "src", scatter, ROWS)
    listed = Hazard("H-09", SCATTER, "idx", scatter, ROWS)
    table = Hazard("H-09", SCATTER, "table", scatter, ROWS)
    column = {"tokens": standing(spread(8, below=64)), "index": (8, 1), "index_valid": (8, 1), "index_form": COLUMN}
    cases = [
        *index.pair("column of indices", "a2a3", column, {}),
        index.twin("column of indices", "a5", **column),
        *index.pair("fewer indices than rows", "a2a3", {"index_valid": (1, 7)}, {"index_valid": (1, 8)}),
        *index.pair("fewer indices than rows", "a5", {"index_valid": (1, 7)}, {"index_valid": (1, 8)}),
        *tile.pair("NZ tile for an ND table", "a2a3",
                   {"tile": (16, 16), "form": BOXED, "out": fractal(1, 2, 1, 16, 8)}, {}, also=("H-09",)),
    ]  # fmt: skip
    for target in NPU:
        cases += [
            *source.pair("narrow rows", target, {"valid": (8, 12), "rows": counted(8, 12)}, {"valid": (8, 16)}),
            *listed.pair("fewer sources than indices", target, {"valid": (8, 15)}, {"valid": (8, 16)}, **ELEMS),
            *table.pair("outer dims", target, {"table": zeros(4, 16, 16)}, {"table": zeros(64, 16)}),
        ]
    return cases


@pto.kernel
def counted_rows(table, tokens, out, n, m, coalesce: pto.const = "row"):
    """`n` indices for `m` rows."""
    shape = (1, 8) if coalesce == "row" else (8, 16)
    ids = pto.Tile("vec", "int32", *shape, valid=(1, n) if coalesce == "row" else (n, 16))
    got = pto.Tile("vec", table.dtype, 8, 16, valid=(m, 16))
    pto.tload(ids, tokens[0:n])
    pto.mgather(got, table, ids, coalesce=coalesce)
    pto.tstore(out[0:m], got)


@pto.kernel
def counted_sources(table, rows, tokens, n, m, flat: pto.const = False):
    """`n` indices for `m` rows to scatter."""
    ids = pto.Tile("vec", "int32", *((8, 16) if flat else (1, 8)), valid=(n, 16) if flat else (1, n))
    values = pto.Tile("vec", table.dtype, 8, 16, valid=(m, 16))
    pto.tload(ids, tokens[0:n])
    pto.tload(values, rows[0:m])
    pto.mscatter(table, values, ids, coalesce="elem" if flat else "row")


@pto.kernel
def counted_elements(rows, tokens, out, n, m):
    """`n` rows of indices for `m` rows to scatter inside UB."""
    ids = pto.Tile("vec", "int32", 8, 16, valid=(n, 16))
    values = pto.Tile("vec", "float32", 8, 16, valid=(m, 16))
    got = pto.Tile("vec", "float32", 8, 16)
    pto.tload(ids, tokens[0:n])
    pto.tload(values, rows[0:m])
    pto.texpands(got, 0)
    pto.tscatter(got, values, ids)
    pto.tstore(out, got)


def dynamic() -> list[Case]:
    """H-27: extents known at run time that break a rule."""
    some = {"table": counted(64, 16), "tokens": spread(8, below=64), "out": zeros(8, 16)}
    rows = Hazard("H-27", GATHER, "idx", counted_rows, some)
    flat = Hazard("H-27", SCATTER, "idx", counted_sources, {**ELEMS_ONLY, "flat": True})
    inside = Hazard("H-27", "pto.tscatter(got, values, ids)", "idx", counted_elements,
                    {"rows": counted(8, 16), "tokens": lambda: np.arange(128).reshape(8, 16).astype("int32") // 16,
                     "out": zeros(8, 16)})  # fmt: skip
    blocks = Hazard("H-27", GATHER, "table", gather,
                    {"tokens": spread(8, below=16), "tile": (16, 8), "form": BOXED, "valid": (8, 8),
                     "out": fractal(1, 1, 1, 16, 8)})  # fmt: skip
    cases: list[Case] = []
    for target in NPU:
        cases += [
            *rows.pair("an index too many", target, {"n": 7, "m": 6}, {"n": 7, "m": 7}),
            *rows.pair("one row of eight", target, {"n": 8, "m": 1}, {"n": 1, "m": 1}),
            *flat.pair("scatter", target, {"n": 5, "m": 4}, {"n": 5, "m": 5}),
            *inside.pair("inside UB", target, {"n": 8, "m": 3}, {"n": 8, "m": 8}),
        ]
    return [
        *cases,
        *blocks.pair("rows of a fractal", "a2a3",
                     {"table": lambda: pto.GlobalTensor(counted(128)(), shape=(1, 1, 2, pto.dyn(8), 8), layout="nz")},
                     {"table": lambda: pto.GlobalTensor(counted(256)(), shape=(1, 1, 2, pto.dyn(16), 8), layout="nz")}),
    ]  # fmt: skip


ELEMS_ONLY = {"table": zeros(64, 16), "rows": counted(8, 16), "tokens": upto(8, 16)}


def standing_indices() -> list[Case]:
    """H-28: A5 reads indices as contiguous, also across padding."""
    index = Hazard("H-28", GATHER, "idx", gather, ROW)
    padded = {"tokens": lambda: spread(8, below=64)().reshape(8, 1), "index": (8, 8), "index_valid": (8, 1),
              "clear": True}  # fmt: skip
    column = {"tokens": standing(spread(8, below=64)), "index": (8, 1), "index_valid": (8, 1), "index_form": COLUMN}
    lying = {"tokens": lambda: pto.GlobalTensor(spread(8, below=64)().reshape(1, 8), layout="dn"),
             "index": (8, 8), "index_valid": (1, 8), "index_form": COLUMN}  # fmt: skip
    half = {"table": counted(64, 16, dtype="float16"), "out": zeros(8, 16, dtype="float16")}
    return [
        *index.pair("padded column", "a5", padded, column),
        *index.pair("padded column, uint32", "a5",
                    {**padded, "tokens": lambda: spread(8, below=64, dtype="uint32")().reshape(8, 1)}, {}),
        *index.pair("padded row", "a5", lying, {}, also=("H-10", "H-42")),
        *index.pair("padded column, half", "a5", {**padded, **half}, {**column, **half}),
        index.twin("one index", "a5", tokens=lambda: numbers(5)().reshape(1, 1), index=(1, 8), index_valid=(1, 1),
                   tile=(1, 16), valid=(1, 16), out=zeros(1, 16)),
        index.twin("padded column", "cpu", **padded),
    ]  # fmt: skip


def portability() -> list[Case]:
    """H-18, H-19, H-29, H-30: remarks, which are no alarms."""
    column = {"tokens": standing(spread(8, below=64)), "index": (8, 1), "index_valid": (8, 1), "index_form": COLUMN}
    lying = {"tokens": upto(8), "index": (1, 8), "index_valid": (1, 8)}
    upright = {"tokens": standing(upto(8)), "index": (8, 1), "index_valid": (8, 1), "index_form": COLUMN}
    adds = Hazard("H-18", SCATTER, "src", scatter, ROWS, level="note")
    linear = Hazard("H-19", SCATTER, "idx", scatter, ROWS, level="note")
    standing_ = Hazard("H-29", GATHER, "idx", gather, ROW, level="note")
    boxed = Hazard("H-30", GATHER, "table", gather,
                   {"tokens": spread(16, below=32), "index": (1, 16), "index_valid": (1, 16), "tile": (16, 16),
                    "valid": (16, 16)}, level="note")  # fmt: skip
    whole = {"table": zeros(64, 16, dtype="int32"), "rows": counted(8, 16, dtype="int32")}
    half = {"table": zeros(64, 16, dtype="float16"), "rows": counted(8, 16, dtype="float16")}
    nz = {"form": BOXED, "table": fractal(1, 2, 2, 16, 8), "out": fractal(1, 2, 1, 16, 8)}
    nd = {"table": counted(32, 16), "out": zeros(16, 16)}
    small = {"form": BOXED, "table": fractal(1, 1, 2, 16, 16, dtype="float16"),
             "out": fractal(1, 1, 1, 16, 16, dtype="float16")}  # fmt: skip
    return [
        *adds.pair("float32", "a5", {"atomic": "add"}, {"atomic": "max"}),
        *adds.pair("half", "a5", {"atomic": "add", **half}, {"atomic": "none", **half}),
        *adds.pair("elements", "a5", {"atomic": "add"}, {"atomic": "add", **whole}, **ELEMS_TILES),
        *linear.pair("column", "cpu", upright, lying),
        *linear.pair("column, int32", "cpu", {**upright, **whole}, {**lying, **whole}),
        *linear.pair("column, add", "cpu", {**upright, "atomic": "add"}, {**ELEMS, "atomic": "add"}),
        linear.twin("column", "a5", **upright),
        *standing_.pair("column", "a5", column, {}),
        *standing_.pair("column", "cpu", column, {}),
        *standing_.pair("column, half", "a5",
                        {**column, "table": counted(64, 16, dtype="float16"), "out": zeros(8, 16, dtype="float16")},
                        {"table": counted(64, 16, dtype="float16"), "out": zeros(8, 16, dtype="float16")}),
        *boxed.pair("rows", "a2a3", nz, nd),
        *boxed.pair("rows, half", "a2a3", small,
                    {"table": counted(32, 16, dtype="float16"), "out": zeros(16, 16, dtype="float16")}),
        *boxed.pair("elements", "a2a3", {**nz, **FRACTAL_ELEMS}, {**nd, **FRACTAL_ELEMS}),
    ]  # fmt: skip


ELEMS_TILES = {"tokens": upto(8, 16), "index": (8, 16), "index_valid": (8, 16), "coalesce": "elem"}
FRACTAL_ELEMS = {"tokens": spread(16, 16, below=512), "index": (16, 16), "index_valid": (16, 16), "coalesce": "elem"}


def narrow_tiles() -> list[Case]:
    """H-37: a row of an NZ table is written whole, for any width of the tile."""
    given = {"tokens": spread(16, below=32), "index": (1, 16), "index_valid": (1, 16), "form": BOXED}
    tile = Hazard("H-37", GATHER, "dst", gather, given)
    cases: list[Case] = []
    for name, dtype, c0, batches, have in (
        ("float32", "float32", 8, 1, 1), ("half", "float16", 16, 1, 2), ("uint8", "uint8", 32, 1, 1),
        ("two batches", "float32", 8, 2, 2),
    ):  # fmt: skip
        blocks = (have + batches) // batches
        logical = batches * blocks * c0
        wrong = {"tile": (16, have * c0), "valid": (16, have * c0), "out": fractal(1, have, 1, 16, c0, dtype=dtype)}
        right = {"tile": (16, logical), "valid": (16, logical),
                 "out": fractal(1, logical // c0, 1, 16, c0, dtype=dtype)}  # fmt: skip
        cases += tile.pair(name, "a2a3", wrong, right, table=fractal(batches, blocks, 2, 16, c0, dtype=dtype))
    return cases


def forgotten_modes() -> list[Case]:
    """H-40: elements were intended, rows were written."""
    index = Hazard("H-40", GATHER, "idx", gather, ELEM)
    half = {"table": counted(64, 16, dtype="float16"), "out": zeros(8, 16, dtype="float16")}
    return [
        *(case for target in ALL for case in index.pair("untold", target, {"coalesce": None}, {"coalesce": "elem"})),
        *index.pair("said", "a5", {"coalesce": "row"}, {"coalesce": "elem"}, **half),
        *index.pair("untold, clamp", "a2a3", {"coalesce": None}, {"coalesce": "elem"}, oob="clamp"),
    ]


@pto.kernel
def part(table, tokens, out, n):
    """Rows from the first `n` of a table."""
    ids = pto.Tile("vec", "int32", 1, 8)
    got = pto.Tile("vec", table.dtype, 8, 16)
    pto.tload(ids, tokens)
    pto.mgather(got, table[0:n], ids, oob="clamp")
    pto.tstore(out, got)


@pto.kernel
def scatter_part(table, rows, tokens, n):
    """Rows into the first `n` of a table."""
    ids = pto.Tile("vec", "int32", 1, 8)
    values = pto.Tile("vec", table.dtype, 8, 16)
    pto.tload(ids, tokens)
    pto.tload(values, rows)
    pto.mscatter(table[0:n], values, ids, coalesce="row", oob="skip")


@pto.kernel
def some(table, tokens, out, n):
    """`n` rows."""
    ids = pto.Tile("vec", "int32", 1, 8)
    got = pto.Tile("vec", table.dtype, 8, 16, valid=(8, n))
    pto.tload(ids, tokens)
    pto.mgather(got, table[0:64, 0:n], ids)
    pto.tstore(out[0:8, 0:n], got)


@pto.kernel
def fill(out, n):
    """`n` rows of ones."""
    ones = pto.Tile("vec", "float32", 8, 16, valid=(n, 16))
    pto.texpands(ones, 1)
    pto.tstore(out[0:n], ones)


def empty() -> list[Case]:
    """H-43: nothing to gather from, or nothing to gather."""
    cases: list[Case] = []
    for target in ALL:
        table = Hazard("H-43", "pto.mgather(got, table[0:n], ids", "table", part, ROW)
        cases += table.pair("empty table", target, {"n": 0}, {"n": 1})
    for target in NPU:
        rows = Hazard("H-43", "pto.mscatter(table[0:n], values, ids", "table", scatter_part, ROWS)
        cases += rows.pair("empty table to scatter to", target, {"n": 0}, {"n": 64})
    for target in ("a2a3", "cpu"):
        wide_ = Hazard("H-43", "pto.mgather(got, table[0:64, 0:n], ids", "table", some, ROW, also=("H-43",))
        cases += wide_.pair("no columns", target, {"n": 0}, {"n": 16})
    store = Hazard("H-43", "pto.texpands(ones, 1)", "dst", fill, {"out": zeros(8, 16)}, also=("H-43",))
    return [*cases, *(case for target in NPU for case in store.pair("no rows", target, {"n": 0}, {"n": 3}))]


def small_floats() -> list[Case]:
    """H-44: 8-bit floats where there are none; the headers of A2/A3 do not load and store them either."""
    tile = {"tile": (8, 32), "valid": (8, 32)}
    read = Hazard("H-44", GATHER, "dst", gather, {"tokens": spread(8, below=64), **tile}, also=("",))
    write = Hazard("H-44", SCATTER, "src", scatter, {"tokens": upto(8), **tile}, also=("",))

    def tensor(*shape: int, dtype: str) -> Callable[[], Any]:
        return lambda: pto.GlobalTensor(np.zeros(shape, "uint8"), dtype=dtype)

    def gathered(dtype: str) -> dict[str, Any]:
        return {"table": tensor(64, 32, dtype=dtype), "out": tensor(8, 32, dtype=dtype)}

    def scattered(dtype: str) -> dict[str, Any]:
        return {"table": tensor(64, 32, dtype=dtype), "rows": tensor(8, 32, dtype=dtype)}

    cases: list[Case] = []
    for dtype in ("float8_e4m3", "float8_e5m2"):
        cases += [
            *read.pair(f"gather, {dtype}", "a2a3", gathered(dtype), gathered("uint8")),
            read.twin(f"gather, {dtype}", "a5", **gathered(dtype)),
            *write.pair(f"scatter, {dtype}", "a2a3", scattered(dtype), scattered("uint8")),
            write.twin(f"scatter, {dtype}", "a5", **scattered(dtype)),
            *read.pair(f"gather, {dtype}", "cpu", gathered(dtype), gathered("int8")),
        ]
    return [
        *cases,
        *read.pair("gather, hifloat8", "a2a3", gathered("hifloat8"), gathered("uint8")),
        read.twin("gather, hifloat8", "a5", **gathered("hifloat8")),
        *write.pair("scatter, hifloat8", "a5", scattered("hifloat8"), scattered("uint8")),
    ]


def index_shapes() -> list[Case]:
    """H-45: an index tile of another valid shape than the destination."""
    index = Hazard("H-45", GATHER, "idx", gather, ELEM)
    return [
        case
        for target in NPU
        for name, shape in (("fewer columns", (8, 15)), ("fewer rows", (7, 16)), ("one", (1, 1)))
        for case in index.pair(name, target, {"index_valid": shape}, {"index_valid": (8, 16)})
    ]


CASES = [
    *layouts(), *widths(), *pitches(), *outer_dims(), *gaps(), *columns(), *types(), *places(), *dynamic(),
    *standing_indices(), *portability(), *narrow_tiles(), *forgotten_modes(), *empty(), *small_floats(),
    *index_shapes(),
]  # fmt: skip
