"""Tiles that do not fit: H-20, H-21, H-22."""

from __future__ import annotations

import ptokit as pto
from tests.corpus.hazards.case import Case, Hazard, counted, flag, spread, zeros

KB = 1024


@pto.kernel
def elements(table, tokens, out, cols: pto.const = 256):
    """As many elements as there are indices."""
    rows = tokens.shape[0]
    ids = pto.Tile("vec", "int32", rows, cols)
    got = pto.Tile("vec", table.dtype, rows, cols)
    pto.tload(ids, tokens)
    pto.mgather(got, table, ids, coalesce="elem")
    pto.tstore(out, got)


@pto.kernel
def rows_of(table, tokens, out, most: pto.const = 512):
    """As many rows as there are indices."""
    rows, cols = out.shape
    ids = pto.Tile("vec", "int32", 1, most, valid=(1, rows))
    got = pto.Tile("vec", table.dtype, rows, cols)
    pto.tload(ids, tokens)
    pto.mgather(got, table, ids)
    pto.tstore(out, got)


@pto.kernel
def scattered(table, rows, tokens):
    """A large source."""
    count, cols = rows.shape
    ids = pto.Tile("vec", "int32", 1, pto.cdiv(count, 8) * 8, valid=(1, count))
    values = pto.Tile("vec", table.dtype, count, cols)
    pto.tload(ids, tokens)
    pto.tload(values, rows)
    pto.mscatter(table, values, ids, coalesce="row")


@pto.kernel
def copied(rows):
    """A large tile, and nothing that starts threads."""
    got = pto.Tile("vec", rows.dtype, *rows.shape)
    pto.tload(got, rows)
    pto.tstore(rows, got)


@pto.kernel(mode="manual")
def high(table, tokens, out, addr: pto.const = 0x1000):
    """A small tile at a high address."""
    ids = pto.Tile("vec", "int32", 1, 8, addr=0x0)
    got = pto.Tile("vec", table.dtype, 8, 16, addr=addr)
    pto.tload(ids, tokens)
    flag("MTE2", "V")
    pto.mgather(got, table, ids)
    flag("V", "MTE3")
    pto.tstore(out, got)


@pto.kernel(mode="manual")
def anywhere(table, tokens, out, addr):
    """A small tile at an address known at launch."""
    ids = pto.Tile("vec", "int32", 1, 8, addr=0x0)
    got = pto.Tile("vec", table.dtype, 8, 16, addr=addr)
    pto.tload(ids, tokens)
    flag("MTE2", "V")
    pto.mgather(got, table, ids)
    flag("V", "MTE3")
    pto.tstore(out, got)


def many(rows: int, cols: int = 256, dtype: str = "float32") -> dict[str, object]:
    """`rows` by `cols` elements; with their indices they take 8 bytes each in float32."""
    return {"table": counted(64, 16, dtype=dtype), "tokens": spread(rows, cols, below=1024),
            "out": zeros(rows, cols, dtype=dtype), "cols": cols}  # fmt: skip


def long(rows: int, cols: int = 256, dtype: str = "float32") -> dict[str, object]:
    """Whole rows, with 2 KB of indices."""
    return {
        "table": counted(64, cols, dtype=dtype),
        "tokens": spread(rows, below=64),
        "out": zeros(rows, cols, dtype=dtype),
    }


def sources(rows: int) -> dict[str, object]:
    """Rows of 1 KB to scatter."""
    return {"table": zeros(rows + 1, 256), "rows": counted(rows, 256), "tokens": spread(rows, below=rows + 1)}


SMALL = {"table": counted(64, 16), "tokens": spread(8, below=64), "out": zeros(8, 16)}
GOT, VALUES = "got = pto.Tile(", "values = pto.Tile("
TILE = 8 * 16 * 4
"""Bytes of the small tile."""


def unasked() -> list[Case]:
    """H-20: more than 128 KB, and the launch asks for nothing."""
    elems = Hazard("H-20", GOT, "vec tiles", elements, {})
    rows = Hazard("H-20", GOT, "vec tiles", rows_of, {})
    writes = Hazard("H-20", VALUES, "vec tiles", scattered, {})
    above = Hazard("H-20", GOT, "vec tiles", high, SMALL)
    late = Hazard("H-20", GOT, "vec tiles", anywhere, SMALL)
    return [
        *elems.pair("130 KB of elements", "a5", many(65), many(64)),
        *elems.pair("130 KB of elements, asked for", "a5", {}, {"dyn_ub": 2 * KB}, **many(65)),
        *elems.pair("halves", "a5", many(86, dtype="float16"), many(85, dtype="float16"), line="ids = pto.Tile("),
        *rows.pair("rows", "a5", long(127), long(126)),
        *rows.pair("rows, asked for", "a5", {"dyn_ub": 0}, {"dyn_ub": 34 * KB}, **long(160)),
        *rows.pair("bytes", "a5", long(505, dtype="uint8"), long(504, dtype="uint8")),
        *writes.pair("scatter", "a5", sources(128), sources(127)),
        *late.pair("address of the run", "a5", {"addr": 128 * KB}, {"addr": 128 * KB - TILE}),
        *above.pair("high address", "a5", {"addr": 128 * KB}, {"addr": 128 * KB - TILE}),
        *above.pair("one block too high", "a5", {"addr": 128 * KB - TILE + 32}, {"addr": 128 * KB - TILE}),
        rows.twin("A2/A3 has all of it", "a2a3", **long(160)),
        Hazard("H-20", GOT, "vec tiles", copied, {}).twin("no threads", "a5", rows=zeros(200, 256)),
    ]


def too_much() -> list[Case]:
    """H-21: more than there is, or more than was asked for."""
    elems = Hazard("H-21", GOT, "vec tiles", elements, {})
    rows = Hazard("H-21", GOT, "vec tiles", rows_of, {})
    writes = Hazard("H-21", VALUES, "vec tiles", scattered, {})
    above = Hazard("H-21", GOT, "vec tiles", high, SMALL)
    late = Hazard("H-21", GOT, "vec tiles", anywhere, SMALL)
    return [
        *elems.pair("218 KB of elements", "a5", many(109), many(100), dyn_ub=8 * KB),
        *elems.pair("static and dynamic", "a5", {"dyn_ub": 216 * KB}, {"dyn_ub": 16 * KB}, **many(100)),
        *elems.pair("static and a little more", "a5", {"dyn_ub": 56 * KB + 1}, {"dyn_ub": 56 * KB}, **many(80)),
        elems.twin("64 KB beside 32 KB", "a5", dyn_ub=32 * KB, **many(32)),
        *rows.pair("rows", "a5", long(215), long(200), dyn_ub=8 * KB),
        *rows.pair("asks for too much", "a5", {"dyn_ub": 54 * KB + 1}, {"dyn_ub": 54 * KB}, **long(160)),
        *writes.pair("scatter", "a5", sources(220), sources(200), dyn_ub=8 * KB),
        *late.pair("address of the run", "a5", {"addr": 216 * KB}, {"addr": 216 * KB - TILE}, dyn_ub=216 * KB),
        *above.pair("high address", "a5", {"addr": 216 * KB}, {"addr": 216 * KB - TILE}, dyn_ub=216 * KB),
        *above.pair("above what was asked for", "a5", {"addr": 132 * KB}, {"addr": 132 * KB - TILE}, dyn_ub=132 * KB),
        *above.pair("in the reserved part", "a5", {"addr": 250 * KB}, {"addr": 120 * KB}),
    ]


def does_not_fit() -> list[Case]:
    """H-22: more than the 192 KB of A2/A3."""
    elems = Hazard("H-22", GOT, "vec tiles", elements, {})
    rows = Hazard("H-22", GOT, "vec tiles", rows_of, {})
    writes = Hazard("H-22", VALUES, "vec tiles", scattered, {})
    above = Hazard("H-22", GOT, "vec tiles", high, SMALL)
    late = Hazard("H-22", GOT, "vec tiles", anywhere, SMALL)
    return [
        *elems.pair("elements", "a2a3", many(97), many(96)),
        *rows.pair("rows", "a2a3", long(191), long(190)),
        *rows.pair("rows of halves", "a2a3", long(381, dtype="float16"), long(380, dtype="float16")),
        *writes.pair("scatter", "a2a3", sources(192), sources(191)),
        *late.pair("address of the run", "a2a3", {"addr": 192 * KB}, {"addr": 192 * KB - TILE}),
        *above.pair("high address", "a2a3", {"addr": 192 * KB}, {"addr": 192 * KB - TILE}),
        *above.pair("nothing to ask for", "a2a3", {"addr": 200 * KB}, {"addr": 191 * KB}, dyn_ub=216 * KB),
    ]


CASES = [*unasked(), *too_much(), *does_not_fit()]
