"""Bytes: unaligned (H-01), never written (H-36, H-42), shared by tiles (H-38), stale (H-47, H-48)."""

from __future__ import annotations

import ptokit as pto
from tests.corpus.hazards.case import Case, Hazard, counted, flag, numbers, spread, upto, zeros

ALL = ("cpu", "a2a3", "a5")
NPU = ("a2a3", "a5")


# --- H-01


@pto.kernel(mode="manual")
def copy(x, out, addr: pto.const = 0x0, shape: pto.const = (1, 8), valid: pto.const = (1, 8)):
    """A load to an address, and a store."""
    part = pto.Tile("vec", x.dtype, *shape, valid=valid, addr=addr)
    pto.tload(part, x)
    flag("MTE2", "MTE3")
    pto.tstore(out, part)


@pto.kernel(mode="manual")
def stored(x, out, addr: pto.const = 0x0, shape: pto.const = (1, 8), step: pto.const = 0):
    """A store from an address to which a vector instruction has written."""
    part = pto.Tile("vec", x.dtype, *shape, addr=0x1000)
    pto.tload(part, x)
    pto.barrier("ALL")
    for i in pto.range(2):
        result = pto.Tile("vec", x.dtype, *shape, addr=addr + i * step)
        pto.tadd(result, part, part)
        pto.barrier("ALL")
        pto.tstore(out, result)  # from there
        pto.barrier("ALL")


@pto.kernel(mode="manual")
def to_the_cube(x, addr: pto.const = 0x0, shape: pto.const = (16, 16)):
    """A load into L1."""
    matrix = pto.Tile("mat", x.dtype, *shape, addr=addr, blayout="col_major", slayout="row_major")
    pto.tload(matrix, x)


@pto.kernel(mode="manual")
def scattered_from(x, tokens, table, addr: pto.const = 0x1000, coalesce: pto.const = "row"):
    """A scatter from an address."""
    ids = pto.Tile("vec", "int32", *((8, 16) if coalesce == "elem" else (1, 8)), addr=0x0)
    part = pto.Tile("vec", x.dtype, 8, 16, addr=0x2000)
    rows = pto.Tile("vec", x.dtype, 8, 16, addr=addr)
    pto.tload(ids, tokens)
    pto.tload(part, x)
    pto.barrier("ALL")
    pto.tadd(rows, part, part)
    pto.barrier("ALL")
    pto.mscatter(table, rows, ids, coalesce=coalesce)


@pto.kernel(mode="manual")
def lookup(table, tokens, out, addr: pto.const = 0x1000, coalesce: pto.const = "row", index: pto.const = (1, 8)):
    """A gather to an address, and a store from another one."""
    ids = pto.Tile("vec", "int32", *index, addr=0x0)
    got = pto.Tile("vec", table.dtype, 8, 16, addr=addr)
    pto.tload(ids, tokens)
    flag("MTE2", "V")
    pto.mgather(got, table, ids, coalesce=coalesce)
    result = pto.Tile("vec", table.dtype, 8, 16, addr=0x2000)
    pto.barrier("ALL")
    pto.tadd(result, got, got)
    flag("V", "MTE3", 1)
    pto.tstore(out, result)


@pto.kernel(mode="manual")
def one_by_one(x, places, out, step: pto.const = 32):
    """A gather by hand: one small load for each block of 32 bytes."""
    for i in pto.range(4):
        place = pto.load_scalar(places, i)
        one = pto.Tile("vec", x.dtype, 1, 8, addr=0x100 + i * step)
        pto.tload(one, x[place : place + 8])
        flag("MTE2", "MTE3")
        pto.tstore(out[i * 8 : i * 8 + 8], one)
        flag("MTE3", "MTE2")


def unaligned() -> list[Case]:
    """H-01: a transfer to an address between two 32-byte blocks is dropped."""
    load = Hazard("H-01", "pto.tload(part, x)", "dst", copy, {"x": counted(8), "out": zeros(8)})
    rows = Hazard("H-01", "pto.mgather(got, table, ids", "dst", lookup,
                  {"table": counted(64, 16), "tokens": spread(8, below=64), "out": zeros(8, 16)})  # fmt: skip
    hand = Hazard("H-01", "pto.tload(one, x[place", "dst", one_by_one,
                  {"x": counted(64), "places": numbers(9, 3, 50, 12), "out": zeros(32)})  # fmt: skip
    block = {"x": counted(8, 16), "out": zeros(8, 16), "shape": (8, 16), "valid": (8, 16)}
    half = {"x": counted(16, dtype="float16"), "out": zeros(16, dtype="float16"), "shape": (1, 16), "valid": (1, 16)}
    flat = {"tokens": spread(8, 16, below=1024), "coalesce": "elem", "index": (8, 16)}
    return [
        *load.pair("a row", "a2a3", {"addr": 0x4}, {"addr": 0x20}),
        *load.pair("a block", "a2a3", {"addr": 0x110}, {"addr": 0x120}, **block),
        *load.pair("halves", "a2a3", {"addr": 0x42}, {"addr": 0x40}, **half),
        *rows.pair("rows", "a2a3", {"addr": 0x1010}, {"addr": 0x1020}),
        *hand.pair("by hand", "a2a3", {"step": 4}, {"step": 32}),
        rows.twin("elements by the scalar pipe", "a2a3", addr=0x1010, **flat),
        rows.twin("lanes", "a5", addr=0x1010),
        load.twin("an odd width", "a2a3", x=counted(5), out=zeros(5), valid=(1, 5)),
        *(case for target in NPU for case in unaligned_on(target)),
    ]


def unaligned_on(target: str) -> list[Case]:
    """H-01 on both targets: loads and stores, UB and L1, element types and addresses of loops."""
    found: list[Case] = []
    for dtype, width in (("float32", 8), ("float16", 16), ("int32", 16), ("int8", 32)):
        load = Hazard("H-01", "pto.tload(part, x)", "dst", copy,
                      {"x": counted(width, dtype=dtype), "out": zeros(width, dtype=dtype), "shape": (1, width),
                       "valid": (1, width)})  # fmt: skip
        found += load.pair(f"a load of {dtype}", target, {"addr": 0x10}, {"addr": 0x60})
        store = Hazard(
            "H-01",
            "# from there",
            "src",
            stored,
            {"x": counted(8, width, dtype=dtype), "out": zeros(8, width, dtype=dtype), "shape": (8, width)},
        )
        if dtype != "int8":
            found += store.pair(f"a store of {dtype}", target, {"addr": 0x110}, {"addr": 0x120})
            found += store.pair(f"stores of {dtype}", target, {"step": 0x404}, {"step": 0x420}, addr=0x2000)
    cube = Hazard("H-01", "pto.tload(matrix, x)", "dst", to_the_cube, {"x": counted(16, 16, dtype="float16")})
    rows = Hazard("H-01", "pto.mscatter(table, rows", "src", scattered_from,
                  {"x": counted(8, 16), "tokens": upto(8), "table": zeros(64, 16)})  # fmt: skip
    flat = {"tokens": upto(8, 16), "coalesce": "elem", "table": zeros(64, 16)}
    found += cube.pair("into L1", target, {"addr": 0x10}, {"addr": 0x40})
    if target == "a2a3":
        return [*found, *rows.pair("scattered rows", target, {"addr": 0x1010}, {"addr": 0x1020}),
                rows.twin("scattered elements", target, addr=0x1010, **flat)]  # fmt: skip
    return [*found, rows.twin("scattered by lanes", target, addr=0x1010)]


# --- H-36


@pto.kernel
def widen(
    table, tokens, out, valid: pto.const = (8, 12), read: pto.const = (8, 16), clear: pto.const = False,
    coalesce: pto.const = "row", use: pto.const = "store",
):  # fmt: skip
    """A gather of `valid`, of which `read` is used."""
    ids = pto.Tile("vec", "int32", *((1, 8) if coalesce == "row" else (8, 16)),
                   valid=(1, valid[0]) if coalesce == "row" else valid)  # fmt: skip
    got = pto.Tile("vec", table.dtype, 8, 16)
    pto.tload(ids, tokens)
    if clear:
        pto.texpands(got, 0)
    got.valid = valid
    pto.mgather(got, table, ids, coalesce=coalesce)
    got.valid = read
    if use == "store":
        pto.tstore(out, got)  # all of it
    else:
        double = pto.Tile("vec", table.dtype, 8, 16, valid=read)
        pto.tadd(double, got, got)  # all of it
        pto.tstore(out, double)


def padding() -> list[Case]:
    """H-36: padding that a gather left as it was."""
    rows = Hazard("H-36", "# all of it", "src", widen,
                  {"table": counted(64, 12), "tokens": spread(8, below=64), "out": zeros(8, 16)})  # fmt: skip
    fewer = {"table": counted(64, 16), "tokens": spread(5, below=64), "valid": (5, 16)}
    flat = {"table": counted(64, 16), "tokens": spread(8, 12, below=1024), "coalesce": "elem"}
    half = {"table": counted(64, 12, dtype="float16"), "out": zeros(8, 16, dtype="float16")}
    cases: list[Case] = []
    for target in ALL:
        cases += [
            *rows.pair("columns", target, {"read": (8, 16)}, {"read": (8, 12), "out": zeros(8, 12)}),
            *rows.pair("rows", target, {"read": (8, 16)}, {"read": (5, 16), "out": zeros(5, 16)}, **fewer),
            *rows.pair("elements", target, {"clear": False}, {"clear": True}, **flat),
        ]
    return [
        *cases,
        *rows.pair("half", "a5", {"clear": False}, {"clear": True}, **half),
        *rows.pair("vector work", "a5", {"clear": False}, {"clear": True}, use="add", operand="src0"),
        *rows.pair("vector work", "a2a3", {"read": (8, 16)}, {"read": (8, 12), "out": zeros(8, 12)}, use="add",
                   operand="src0"),
    ]  # fmt: skip


# --- H-38


@pto.kernel(mode="manual")
def placed(
    table, tokens, out, addr: pto.const = 0x100, coalesce: pto.const = "row", index: pto.const = (1, 8),
    oob: pto.const = "clamp",
):  # fmt: skip
    """Index and destination at given addresses."""
    ids = pto.Tile("vec", "int32", *index, addr=0x100)
    got = pto.Tile("vec", table.dtype, 8, 16, addr=addr)
    pto.tload(ids, tokens)
    pto.barrier("ALL")
    pto.mgather(got, table, ids, coalesce=coalesce, oob=oob)
    pto.barrier("ALL")
    pto.tstore(out, got)


@pto.kernel(mode="manual")
def scattered(table, rows, tokens, addr: pto.const = 0x100):
    """Index and source at given addresses."""
    ids = pto.Tile("vec", "int32", 1, 8, addr=0x100)
    values = pto.Tile("vec", table.dtype, 8, 16, addr=addr)
    pto.tload(values, rows)
    pto.tload(ids, tokens)
    pto.barrier("ALL")
    pto.mscatter(table, values, ids, coalesce="row")


@pto.kernel(mode="manual")
def assigned(table, tokens, out, addr: pto.const = 0x100):
    """A tile that is put on another."""
    ids = pto.Tile("vec", "int32", 1, 8, addr=0x100)
    got = pto.Tile("vec", table.dtype, 8, 16)
    pto.tassign(got, addr)
    pto.tload(ids, tokens)
    pto.barrier("ALL")
    pto.mgather(got, table, ids, oob="clamp")
    pto.barrier("ALL")
    pto.tstore(out, got)


@pto.kernel(mode="manual")
def anywhere(table, tokens, out, addr):
    """A destination at an address known at launch."""
    ids = pto.Tile("vec", "int32", 1, 8, addr=0x100)
    got = pto.Tile("vec", table.dtype, 8, 16, addr=addr)
    pto.tload(ids, tokens)
    pto.barrier("ALL")
    pto.mgather(got, table, ids, oob="clamp")
    pto.barrier("ALL")
    pto.tstore(out, got)


@pto.kernel(mode="manual")
def one_after_the_other(table, tokens, out, again: pto.const = False):
    """A tile in the place of one that is not used any more, or is."""
    ids = pto.Tile("vec", "int32", 1, 8, addr=0x0)
    got = pto.Tile("vec", table.dtype, 8, 16, addr=0x1000)
    more = pto.Tile("vec", table.dtype, 8, 16, addr=0x1100)
    pto.tload(ids, tokens)
    pto.barrier("ALL")
    pto.mgather(got, table, ids)
    pto.barrier("ALL")
    if not again:
        pto.tstore(out[0:8], got)
    pto.barrier("ALL")
    pto.mgather(more, table, ids)
    pto.barrier("ALL")
    if again:
        pto.tstore(out[0:8], got)
    pto.tstore(out[8:16], more)


def shared_bytes() -> list[Case]:
    """H-38: two tiles in use have bytes in common."""
    rows = {"table": counted(64, 16), "tokens": spread(8, below=64), "out": zeros(8, 16)}
    flat = {**rows, "tokens": spread(8, 16, below=1024), "coalesce": "elem", "index": (8, 16)}
    tile = Hazard("H-38", "got = pto.Tile(", "got", placed, rows, also=("H-38",))
    source = Hazard("H-38", "values = pto.Tile(", "values", scattered,
                    {"table": zeros(64, 16), "rows": counted(8, 16), "tokens": upto(8)}, also=("H-38",))  # fmt: skip
    put = Hazard("H-38", "pto.tassign(got, addr)", "got", assigned, rows, also=("H-38",))
    late = Hazard("H-38", "pto.mgather(got, table, ids", "dst", anywhere, rows)
    alive = Hazard("H-38", "more = pto.Tile(", "more", one_after_the_other, {**rows, "out": zeros(16, 16)},
                   also=("H-38",))  # fmt: skip
    cases: list[Case] = []
    for target in NPU:
        cases += [
            *tile.pair("the same place", target, {"addr": 0x100}, {"addr": 0x120}),
            *tile.pair("overwritten indices", target, {"addr": 0x100}, {"addr": 0x120}, oob="undefined",
                       also=("H-38", "H-10")),
            *tile.pair("elements", target, {"addr": 0x2E0}, {"addr": 0x300}, **flat),
            *source.pair("a source", target, {"addr": 0x0}, {"addr": 0x200}),
            *put.pair("put there", target, {"addr": 0xE0}, {"addr": 0x120}),
            *late.pair("address of the run", target, {"addr": 0x0}, {"addr": 0x200}),
            *alive.pair("still in use", target, {"again": True}, {"again": False}),
        ]  # fmt: skip
    return [*cases, *tile.pair("the same place", "cpu", {"addr": 0x100}, {"addr": 0x120})]


# --- H-42


@pto.kernel
def unloaded(
    table, tokens, out, load: pto.const = True, part: pto.const = (1, 8), coalesce: pto.const = "row",
    whole: pto.const = (1, 8),
):  # fmt: skip
    """Indices that are loaded, in part, or not."""
    ids = pto.Tile("vec", tokens.dtype, *whole)
    got = pto.Tile("vec", table.dtype, 8, 16)
    if load:
        ids.valid = part
        pto.tload(ids, tokens)
        ids.valid = whole
    pto.mgather(got, table, ids, coalesce=coalesce, oob="zero")
    pto.tstore(out, got)


@pto.kernel
def perhaps(table, tokens, out, n):
    """Indices that are loaded where there are any."""
    ids = pto.Tile("vec", "int32", 1, 8)
    got = pto.Tile("vec", table.dtype, 8, 16)
    with pto.when(n > 0):
        pto.tload(ids, tokens)
    pto.mgather(got, table, ids, oob="zero")
    pto.tstore(out, got)


@pto.kernel
def scattered_by(table, rows, tokens, load: pto.const = True):
    """A scatter by indices that are loaded, or not."""
    ids = pto.Tile("vec", "int32", 1, 8)
    values = pto.Tile("vec", table.dtype, 8, 16)
    if load:
        pto.tload(ids, tokens)
    pto.tload(values, rows)
    pto.mscatter(table, values, ids, coalesce="row", oob="skip")


def unwritten_indices() -> list[Case]:
    """H-42: indices that nothing has written."""
    rows = {"table": counted(64, 16), "tokens": spread(8, below=64), "out": zeros(8, 16)}
    tile = Hazard("H-42", "pto.mgather(got, table, ids", "idx", unloaded, rows)
    choice = Hazard("H-42", "pto.mgather(got, table, ids", "idx", perhaps, rows)
    write = Hazard("H-42", "pto.mscatter(table, values, ids", "idx", scattered_by,
                   {"table": zeros(64, 16), "rows": counted(8, 16), "tokens": upto(8)})  # fmt: skip
    flat = {"tokens": spread(8, 16, below=1024), "coalesce": "elem", "whole": (8, 16), "part": (8, 16)}
    cases: list[Case] = []
    for target in NPU:
        cases += [
            *tile.pair("rows", target, {"load": False}, {"load": True}),
            *tile.pair("elements", target, {"load": False}, {"load": True}, **flat),
            *tile.pair("half of them", target, {"tokens": spread(4, below=64), "part": (1, 4)}, {}),
            *tile.pair("the last one", target, {**flat, "part": (8, 15), "tokens": spread(8, 15, below=1024)}, flat),
            *choice.pair("a way without", target, {"n": 0}, {"n": 1}),
            *write.pair("scatter", target, {"load": False}, {"load": True}),
        ]
    return cases


# --- H-47, H-48


@pto.kernel
def stored_then_gathered(x, table, tokens, out, coalesce: pto.const = "row"):
    """Rows 0 to 7 of a table are stored, then the table is read."""
    part = pto.Tile("vec", x.dtype, 8, 64)
    ids = pto.Tile("vec", "int32", *((1, 8) if coalesce == "row" else (8, 64)))
    got = pto.Tile("vec", x.dtype, 8, 64)
    pto.tload(part, x)
    pto.tload(ids, tokens)
    pto.tstore(table[0:8], part)
    pto.mgather(got, table, ids, coalesce=coalesce)
    pto.tstore(out, got)


@pto.kernel
def stored_then_read(x, counts, out, at: pto.const = 0):
    """Counts are stored, then one is read by the scalar pipe."""
    part = pto.Tile("vec", x.dtype, 1, 64)
    pto.tload(part, x)
    pto.tstore(counts[0:64], part)
    n = pto.load_scalar(counts, at)
    more = pto.Tile("vec", x.dtype, 1, 64)
    pto.texpands(more, n)
    pto.tstore(out, more)


@pto.kernel
def scattered_then_loaded(
    rows, tokens, table, out, flat: pto.const = False, first: pto.const = 0, atomic: pto.const = "none",
):  # fmt: skip
    """Rows are scattered, then a part of the table is loaded."""
    values = pto.Tile("vec", rows.dtype, 8, 64)
    ids = pto.Tile("vec", "int32", *((8, 64) if flat else (1, 8)))
    part = pto.Tile("vec", rows.dtype, 8, 64)
    pto.tload(values, rows)
    pto.tload(ids, tokens)
    pto.mscatter(table, values, ids, coalesce="elem" if flat else "row", atomic=atomic)
    pto.tload(part, table[first : first + 8])
    pto.tstore(out, part)


def stale_cache() -> list[Case]:
    """H-47: the cache does not know what DMA has written."""
    both = {"x": counted(8, 64), "table": counted(64, 64), "out": zeros(8, 64)}
    rows = Hazard("H-47", "pto.mgather(got, table, ids", "table", stored_then_gathered, both)
    scalar = Hazard("H-47", "n = pto.load_scalar(counts, at)", "source", stored_then_read,
                    {"x": counted(64, dtype="int32"), "counts": zeros(256, dtype="int32"),
                     "out": zeros(64, dtype="int32")})  # fmt: skip
    near, far = numbers(16, 20, 24, 28, 32, 36, 40, 3), numbers(16, 20, 24, 28, 32, 36, 40, 44)
    half = {"x": counted(8, 64, dtype="float16"), "table": counted(64, 64, dtype="float16"),
            "out": zeros(8, 64, dtype="float16")}  # fmt: skip
    flat = {"coalesce": "elem"}
    here, there = {"tokens": upto(8, 64)}, {"tokens": lambda: upto(8, 64)() + 1024}
    return [
        *rows.pair("rows", "a5", {"tokens": near}, {"tokens": far}),
        *rows.pair("rows of halves", "a5", {"tokens": near}, {"tokens": far}, **half),
        *rows.pair("elements", "a5", here, there, **flat),
        *rows.pair("elements", "a2a3", here, there, **flat),
        rows.twin("rows by DMA", "a2a3", tokens=near),
        *(case for target in NPU for case in scalar.pair("a number", target, {"at": 5}, {"at": 200})),
    ]


def stale_memory() -> list[Case]:
    """H-48: DMA does not know what went through the cache."""
    rows = Hazard("H-48", "pto.tload(part, table[first", "src", scattered_then_loaded,
                  {"rows": counted(8, 64), "tokens": upto(8), "table": counted(64, 64), "out": zeros(8, 64)},
                  level="hazard")  # fmt: skip
    half = {"rows": counted(8, 64, dtype="float16"), "table": counted(64, 64, dtype="float16"),
            "out": zeros(8, 64, dtype="float16")}  # fmt: skip
    flat = {"flat": True, "tokens": upto(8, 64)}
    return [
        *rows.pair("rows", "a5", {"first": 0}, {"first": 16}),
        *rows.pair("the last row", "a5", {"first": 7}, {"first": 40}),
        *rows.pair("rows of halves", "a5", {"first": 4}, {"first": 24}, **half),
        *rows.pair("added up", "a5", {"first": 0}, {"first": 32}, atomic="add"),
        *rows.pair("elements", "a5", {"first": 0}, {"first": 16}, **flat),
        *rows.pair("elements", "a2a3", {"first": 0}, {"first": 16}, **flat),
        rows.twin("rows by DMA", "a2a3", first=0),
    ]


CASES = [
    *unaligned(), *padding(), *shared_bytes(), *unwritten_indices(), *stale_cache(), *stale_memory(),
]  # fmt: skip
