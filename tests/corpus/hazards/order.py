"""Pipes of one block that nothing orders: H-24, H-25, H-26, H-35, races without a number, and wrong flags."""

from __future__ import annotations

from typing import Any

import ptokit as pto
from tests.corpus.hazards.case import Case, Hazard, counted, flag, numbers, spread, upto, zeros


def order(way: str, src: str, dst: str, event: int = 0) -> None:
    """Make `dst` wait for `src` in one of the ways there are, or not at all."""
    if way == "flag":
        flag(src, dst, event)
    elif way == "by way of S":
        flag(src, "S", event)
    elif way == "by way of MTE3":
        flag(src, "MTE3", event)
        flag("MTE3", dst, event)
    elif way == "barrier":
        pto.barrier("ALL")
    elif way == "the wrong pipe":
        flag(src, "MTE3", event)


def after(way: str, event: Any) -> list[Any]:
    """What an instruction waits for."""
    return [event] if way == "event" else []


@pto.kernel(mode="manual")
def lookup(
    table, tokens, out,
    coalesce: pto.const = "row", first: pto.const = "flag", then: pto.const = "flag",
    tile: pto.const = (8, 16), index: pto.const = (1, 8), valid: pto.const = (8, 16), index_valid: pto.const = (1, 8),
    early: pto.const = False,
):  # fmt: skip
    """`first` orders the load of the indices and the gather, `then` the gather and the store."""
    ids = pto.Tile("vec", tokens.dtype, *index, valid=index_valid, addr=0x0)
    got = pto.Tile("vec", table.dtype, *tile, valid=valid, addr=0x4000)
    if early:
        order(first, "MTE2", "V")
    loaded = pto.tload(ids, tokens)
    if not early:
        order(first, "MTE2", "V")
    gathered = pto.mgather(got, table, ids, coalesce=coalesce, wait=after(first, loaded))
    order(then, "V", "MTE3", 1)
    pto.tstore(out, got, wait=after(then, gathered))


ROW = {"table": counted(64, 16), "tokens": spread(8, below=64), "out": zeros(8, 16)}
ELEM = {
    "table": counted(64, 16), "tokens": spread(8, 16, below=1024), "out": zeros(8, 16),
    "coalesce": "elem", "index": (8, 16), "index_valid": (8, 16),
}  # fmt: skip
ONE = {
    "table": counted(64, 16), "tokens": numbers(77), "out": zeros(1, 1), "coalesce": "elem",
    "tile": (1, 8), "index": (1, 8), "valid": (1, 1), "index_valid": (1, 1),
}  # fmt: skip
HALF = {**ROW, "table": counted(64, 32, dtype="float16"), "out": zeros(8, 32, dtype="float16"),
        "tile": (8, 32), "valid": (8, 32)}  # fmt: skip
UNSIGNED = {**ROW, "tokens": spread(8, below=64, dtype="uint32")}
FEW = {**ROW, "tokens": spread(3, below=64), "out": zeros(3, 16), "valid": (3, 16), "index_valid": (1, 3)}

STALE = Hazard("H-24", "gathered = pto.mgather(", "idx", lookup, ROW)
EARLY = Hazard("H-25", "pto.tstore(out, got", "src", lookup, ROW)


@pto.kernel(mode="manual")
def two_loads(table, tokens, more, out, late: pto.const = True):
    """Two index tiles, and a flag after the first load only, or after both."""
    ids = pto.Tile("vec", "int32", 1, 8, addr=0x0)
    others = pto.Tile("vec", "int32", 1, 8, addr=0x100)
    got = pto.Tile("vec", table.dtype, 8, 16, addr=0x1000)
    gone = pto.Tile("vec", table.dtype, 8, 16, addr=0x2000)
    pto.tload(ids, tokens)
    if late:
        pto.tload(others, more)
    flag("MTE2", "V")
    if not late:
        pto.tload(others, more)
    pto.mgather(got, table, ids)
    pto.mgather(gone, table, others)
    flag("V", "MTE3")
    pto.tstore(out[0:8], got)
    pto.tstore(out[8:16], gone)


@pto.kernel(mode="manual")
def update(
    table, rows, tokens, flat: pto.const = False, late: pto.const = True,
    atomic: pto.const = "none", shape: pto.const = (8, 16),
):  # fmt: skip
    """A scatter whose source is ordered with its load; its indices only where they are loaded before that flag."""
    ids = pto.Tile("vec", "int32", *(shape if flat else (1, shape[0])), addr=0x0)
    values = pto.Tile("vec", table.dtype, *shape, addr=0x1000)
    if late:
        pto.tload(ids, tokens)
    pto.tload(values, rows)
    flag("MTE2", "V")
    if not late:
        pto.tload(ids, tokens)
    pto.mscatter(table, values, ids, coalesce="elem" if flat else "row", atomic=atomic)


UPDATE = {"table": zeros(64, 16), "rows": counted(8, 16), "tokens": upto(8)}
FLAT = {**UPDATE, "tokens": upto(8, 16), "flat": True}


@pto.kernel(mode="manual")
def reload(table, tokens, out, once_only: pto.const = False):
    """Indices loaded in every iteration, and a flag in every iteration, or in the first one only."""
    ids = pto.Tile("vec", "int32", 1, 8, addr=0x0)
    got = pto.Tile("vec", table.dtype, 8, 16, addr=0x1000)
    pto.set_flag("V", "MTE2", 0)
    pto.set_flag("MTE3", "V", 0)
    for i in pto.range(2):
        pto.wait_flag("V", "MTE2", i)
        pto.tload(ids, tokens[i * 8 : i * 8 + 8])
        with pto.when((i == 0) | (not once_only)):
            pto.set_flag("MTE2", "V", 1)
            pto.wait_flag("MTE2", "V", 1)
        pto.wait_flag("MTE3", "V", 0)
        pto.mgather(got, table, ids)
        pto.set_flag("V", "MTE2", 1 - i)
        flag("V", "MTE3", 2)
        pto.tstore(out[i * 8 : i * 8 + 8], got)
        pto.set_flag("MTE3", "V", 0)
    pto.wait_flag("V", "MTE2", 0)
    pto.wait_flag("MTE3", "V", 0)


def stale_indices() -> list[Case]:
    """H-24: the indices are read before their load has ended."""
    pairs = [
        case
        for name, target, given in (
            ("row", "a5", ROW), ("row", "a2a3", ROW), ("elem", "a5", ELEM), ("one element", "a5", ONE),
            ("half", "a5", HALF), ("half", "a2a3", HALF), ("uint32", "a2a3", UNSIGNED), ("uint32", "a5", UNSIGNED),
            ("three rows", "a5", FEW), ("three rows", "a2a3", FEW),
        )
        for case in STALE.pair(name, target, {"first": "none"}, {"first": "flag"}, **given)
    ]  # fmt: skip
    ways = [
        STALE.twin(f"row, {way}", target, first=way)
        for way in ("by way of S", "by way of MTE3", "barrier", "event")
        for target in ("a5", "a2a3")
    ]
    loads = Hazard(
        "H-24",
        "pto.mgather(gone, table, others)",
        "idx",
        two_loads,
        {"table": counted(64, 16), "tokens": spread(8, below=64), "more": upto(8), "out": zeros(16, 16)},
    )
    scatter = Hazard("H-24", "pto.mscatter(", "idx", update, UPDATE)
    loops = Hazard(
        "H-24",
        "pto.mgather(got, table, ids)",
        "idx",
        reload,
        {"table": counted(64, 16), "tokens": spread(16, below=64), "out": zeros(16, 16)},
    )
    noted = Hazard("H-24", "gathered = pto.mgather(", "idx", lookup, ELEM, level="note")
    return [
        *pairs,
        *ways,
        *STALE.pair("flag to another pipe", "a5", {"first": "the wrong pipe"}, {"first": "flag"}),
        *STALE.pair("flag before the load", "a5", {"early": True}, {"early": False}),
        *STALE.pair("flag before the load", "a2a3", {"early": True}, {"early": False}),
        *loads.pair("second of two", "a5", {"late": False}, {"late": True}),
        loads.twin("the first gather hands over", "a2a3", late=False),
        *scatter.pair("row scatter", "a5", {"late": False}, {"late": True}),
        *scatter.pair("element scatter", "a5", {"late": False}, {"late": True}, **FLAT),
        scatter.twin("row scatter waits by itself", "a2a3", late=False),
        scatter.twin("element scatter waits by itself", "a2a3", **FLAT, late=False),
        *loops.pair("in the second iteration", "a5", {"once_only": True}, {"once_only": False}),
        noted.bad("elements wait by themselves", "a2a3", first="none"),
        noted.twin("elements", "a2a3", first="flag"),
    ]  # fmt: skip


@pto.kernel(mode="manual")
def gather_and_add(table, tokens, out, guard: pto.const = True, again: pto.const = False):
    """Vector work before or after a gather, and a store that waits for what is last or for what is not."""
    ids = pto.Tile("vec", "int32", 1, 8, addr=0x0)
    got = pto.Tile("vec", table.dtype, 8, 16, addr=0x1000)
    pto.tload(ids, tokens)
    flag("MTE2", "V")
    pto.texpands(got, 0)
    if not guard:
        flag("V", "MTE3")
    pto.mgather(got, table, ids)
    if guard:
        flag("V", "MTE3")
    pto.tstore(out, got)


@pto.kernel(mode="manual")
def into_l1(table, tokens, guard: pto.const = True):
    """The store pipe takes the rows to L1 instead of memory."""
    ids = pto.Tile("vec", "int32", 1, 16, addr=0x0)
    got = pto.Tile("vec", table.dtype, 16, 16, addr=0x1000)
    matrix = pto.Tile("mat", table.dtype, 16, 16, blayout="col_major", slayout="row_major", addr=0x0)
    pto.tload(ids, tokens)
    flag("MTE2", "V")
    pto.mgather(got, table, ids)
    if guard:
        flag("V", "MTE3")
    pto.tmov(matrix, got)


def early_stores() -> list[Case]:
    """H-25: rows are stored before the gather has written them."""
    pairs = [
        case
        for name, given in (
            ("row", ROW), ("elem", ELEM), ("one element", ONE), ("half", HALF), ("three rows", FEW),
        )
        for case in EARLY.pair(name, "a5", {"then": "none"}, {"then": "flag"}, **given)
    ]  # fmt: skip
    late = Hazard("H-25", "pto.tstore(out, got)", "src", gather_and_add, ROW)
    moved = Hazard(
        "H-25",
        "pto.tmov(matrix, got)",
        "src",
        into_l1,
        {"table": counted(64, 16, dtype="float16"), "tokens": spread(16, below=64)},
    )
    return [
        *pairs,
        *(EARLY.twin(f"row, {way}", "a5", then=way) for way in ("by way of S", "barrier", "event")),
        *(EARLY.twin(f"{name} ends with flags", "a2a3", then="none", **given)
          for name, given in (("row", ROW), ("elem", ELEM), ("half", HALF))),
        *late.pair("flag before the gather", "a5", {"guard": False}, {"guard": True}),
        *moved.pair("into L1", "a5", {"guard": False}, {"guard": True}),
    ]  # fmt: skip


@pto.kernel(mode="manual")
def twice(
    table, tokens, out, coalesce: pto.const = "row", way: pto.const = "flag",
    second: pto.const = 0x1000, index: pto.const = (1, 8),
):  # fmt: skip
    """Two gathers, each stored; the second goes to the first one's place, or to `second`."""
    ids = pto.Tile("vec", "int32", *index, addr=0x0)
    got = pto.Tile("vec", table.dtype, 8, 16, addr=0x1000)
    pto.tload(ids, tokens)
    flag("MTE2", "V")
    pto.mgather(got, table, ids, coalesce=coalesce)
    flag("V", "MTE3")
    stored = pto.tstore(out[0:8], got)
    if second != 0x1000:
        pto.tassign(got, second)
    order(way, "MTE3", "V", 2)
    pto.mgather(got, table, ids, coalesce=coalesce, wait=after(way, stored))  # again
    flag("V", "MTE3", 1)
    pto.tstore(out[8:16], got)


@pto.kernel(mode="manual")
def in_loop(table, tokens, out, guard: pto.const = True):
    """A loop whose gather waits for the store of the previous iteration, or does not."""
    ids = pto.Tile("vec", "int32", 1, 8, addr=0x0)
    got = pto.Tile("vec", table.dtype, 8, 16, addr=0x1000)
    pto.set_flag("V", "MTE2", 0)
    if guard:
        pto.set_flag("MTE3", "V", 0)
    for i in pto.range(2):
        pto.wait_flag("V", "MTE2", 0)
        pto.tload(ids, tokens[i * 8 : i * 8 + 8])
        flag("MTE2", "V", i % 2)
        if guard:
            pto.wait_flag("MTE3", "V", 0)
        pto.mgather(got, table, ids)
        pto.set_flag("V", "MTE2", 0)
        flag("V", "MTE3", 2 + i % 2)
        pto.tstore(out[i * 8 : i * 8 + 8], got)
        if guard:
            pto.set_flag("MTE3", "V", 0)
    pto.wait_flag("V", "MTE2", 0)
    if guard:
        pto.wait_flag("MTE3", "V", 0)


@pto.kernel(mode="manual")
def copy_then_gather(x, table, tokens, out, guard: pto.const = True):
    """A plain copy leaves by the tile that the gather fills next."""
    ids = pto.Tile("vec", "int32", 1, 8, addr=0x0)
    got = pto.Tile("vec", table.dtype, 8, 16, addr=0x1000)
    pto.tload(ids, tokens)
    pto.tload(got, x)
    flag("MTE2", "V")
    flag("MTE2", "MTE3")
    pto.tstore(out[0:8], got)
    if guard:
        flag("MTE3", "V")
    pto.mgather(got, table, ids)
    flag("V", "MTE3")
    pto.tstore(out[8:16], got)


def overtaken_stores() -> list[Case]:
    """H-26: a gather writes rows that an earlier store still reads."""
    both = {"table": counted(64, 16), "tokens": spread(8, below=64), "out": zeros(16, 16)}
    elements = {**both, "tokens": spread(8, 16, below=1024), "coalesce": "elem", "index": (8, 16)}
    again = Hazard("H-26", "# again", "dst", twice, both)
    loops = Hazard("H-26", "pto.mgather(got, table, ids)", "dst", in_loop, {**both, "tokens": spread(16, below=64)})
    copied = Hazard("H-26", "pto.mgather(got, table, ids)", "dst", copy_then_gather, {**both, "x": counted(8, 16)})
    return [
        *again.pair("row", "a5", {"way": "none"}, {"way": "flag"}),
        *again.pair("elem", "a5", {"way": "none"}, {"way": "flag"}, **elements),
        *again.pair("partly", "a5", {"second": 0x1100}, {"second": 0x1200}, way="none"),
        *again.pair("int8", "a5", {"way": "none"}, {"way": "event"},
                    table=counted(64, 32, dtype="int8"), out=zeros(16, 32, dtype="int8"), kernel=twice_int8),
        *loops.pair("in a loop", "a5", {"guard": False}, {"guard": True}),
        *copied.pair("after a copy", "a5", {"guard": False}, {"guard": True}),
        *(again.twin(f"row, {way}", "a5", way=way) for way in ("event", "barrier", "by way of S")),
        again.twin("row waits by itself", "a2a3", way="none"),
        again.twin("elem waits by itself", "a2a3", **elements, way="none"),
        copied.twin("after a copy, waits by itself", "a2a3", guard=False),
    ]  # fmt: skip


@pto.kernel(mode="manual")
def twice_int8(table, tokens, out, way: pto.const = "flag"):
    """As `twice`, for rows of 32 bytes."""
    ids = pto.Tile("vec", "int32", 1, 8, addr=0x0)
    got = pto.Tile("vec", table.dtype, 8, 32, addr=0x1000)
    pto.tload(ids, tokens)
    flag("MTE2", "V")
    pto.mgather(got, table, ids)
    flag("V", "MTE3")
    stored = pto.tstore(out[0:8], got)
    pto.mgather(got, table, ids, wait=after(way, stored))  # again
    flag("V", "MTE3", 1)
    pto.tstore(out[8:16], got)


NZ: dict[str, Any] = {"blayout": "col_major", "slayout": "row_major"}


@pto.kernel(mode="manual")
def product(
    table, tokens, weights, out, guard: pto.const = "after both", by: pto.const = "gather", how: pto.const = "tmov",
):  # fmt: skip
    """Rows into L1, times weights; the flag for MTE1 comes after both loads, between them, or not at all."""
    left_matrix = pto.Tile("mat", table.dtype, 16, 32, addr=0x0, **NZ)
    right_matrix = pto.Tile("mat", table.dtype, 32, 16, addr=0x4000, **NZ)
    left = pto.Tile("left", table.dtype, 16, 32, addr=0x0)
    right = pto.Tile("right", table.dtype, 32, 16, addr=0x0)
    total = pto.Tile("acc", "float32", 16, 16, addr=0x0)
    pto.tload(right_matrix, weights)
    if guard == "between":
        flag("MTE2", "MTE1")
    fetched = pto.mgather(left_matrix, table, tokens) if by == "gather" else pto.tload(left_matrix, table[0:16])
    if guard == "after both":
        flag("MTE2", "MTE1")
    if guard == "barrier":
        pto.barrier("ALL")
    pto.tmov(right, right_matrix)
    if how == "tmov":
        pto.tmov(left, left_matrix, wait=after(guard, fetched))  # of the rows
    else:
        pto.textract(left, left_matrix, 0, 0)  # of the rows
    flag("MTE1", "M")
    pto.tmatmul(total, left, right)
    flag("M", "FIX")
    pto.tstore(out, total)


@pto.kernel(mode="manual")
def collected(table, tokens, scratch, guard: pto.const = True):
    """Elements into L1 by way of a scratch, then on to the cube."""
    matrix = pto.Tile("mat", table.dtype, 16, 16, addr=0x0, **NZ)
    left = pto.Tile("left", table.dtype, 16, 16, addr=0x0)
    pto.mgather(matrix, table, tokens, scratch=scratch)
    if guard:
        flag("MTE2", "MTE1")
    pto.tmov(left, matrix)


def early_cubes() -> list[Case]:
    """H-35: the cube takes from L1 what has not arrived."""
    given = {"table": counted(64, 32, dtype="float16"), "tokens": spread(16, below=64),
             "weights": counted(32, 16, dtype="float16"), "out": zeros(16, 16)}  # fmt: skip
    early = Hazard("H-35", "# of the rows", "src", product, given)
    lone = Hazard("H-35", "pto.tmov(left, matrix)", "src", collected,
                  {"table": counted(64, 16, dtype="float16"), "tokens": spread(16, 16, below=1024),
                   "scratch": zeros(256, dtype="float16")})  # fmt: skip
    cases: list[Case] = []
    for target in ("a2a3", "a5"):
        cases += [
            *early.pair("gather, tmov", target, {"guard": "between"}, {"guard": "after both"}),
            *early.pair("gather, textract", target, {"guard": "between"}, {"guard": "after both"}, how="textract"),
            *early.pair("load, tmov", target, {"guard": "between"}, {"guard": "barrier"}, by="load"),
            *lone.pair("elements", target, {"guard": False}, {"guard": True}),
        ]
    return cases


@pto.kernel(mode="manual")
def scale(x, out, first: pto.const = "flag", then: pto.const = "flag", reuse: pto.const = "flag"):
    """Load, double, store, and load again into the same tile."""
    part = pto.Tile("vec", x.dtype, 8, 16, addr=0x0)
    other = pto.Tile("vec", x.dtype, 8, 16, addr=0x1000)
    pto.tload(part, x[0:8])
    order(first, "MTE2", "V")
    pto.tmuls(other, part, 2)  # double
    order(then, "V", "MTE3")
    pto.tstore(out[0:8], other)
    order(reuse, "V", "MTE2")
    pto.tload(part, x[8:16])  # again
    flag("MTE2", "MTE3", 1)
    pto.tstore(out[8:16], part)


@pto.kernel(mode="manual")
def through_memory(x, between, out, guard: pto.const = True):
    """A block is stored and loaded again: the same pipes as ever, by way of memory."""
    part = pto.Tile("vec", x.dtype, 8, 16, addr=0x0)
    other = pto.Tile("vec", x.dtype, 8, 16, addr=0x1000)
    pto.tload(part, x)
    flag("MTE2", "MTE3")
    pto.tstore(between, part)
    if guard:
        flag("MTE3", "MTE2")
    pto.tload(other, between)
    flag("MTE2", "MTE3", 1)
    pto.tstore(out, other)


@pto.kernel(mode="manual")
def flags(x, out, fault: pto.const = ""):
    """A copy with flags that are right, and one that is not."""
    part = pto.Tile("vec", x.dtype, 8, 16, addr=0x0)
    pto.tload(part, x)
    if fault == "set twice":
        pto.set_flag("MTE2", "MTE3", 0)
    pto.set_flag("MTE2", "MTE3", 0)  # the set
    pto.wait_flag("MTE2", "MTE3", 0)
    if fault == "never set":
        pto.wait_flag("V", "MTE3", 3)
    pto.tstore(out, part)
    if fault == "left set":
        pto.set_flag("MTE3", "V", 5)


def unnumbered() -> list[Case]:
    """Races without a number, and wrong flags."""
    plain = {"x": counted(16, 16), "out": zeros(16, 16)}
    cases: list[Case] = []
    for target in ("a2a3", "a5"):
        race = Hazard("", "# double", "src", scale, plain)
        memory = Hazard("", "pto.tload(other, between)", "src", through_memory,
                        {"x": counted(8, 16), "between": zeros(8, 16), "out": zeros(8, 16)})  # fmt: skip
        wrong = Hazard("", "", "flag", flags, {"x": counted(8, 16), "out": zeros(8, 16)})
        cases += [
            *race.pair("vector work too early", target, {"first": "none"}, {"first": "flag"}),
            *race.pair(
                "store too early", target, {"then": "none"}, {"then": "flag"}, line="pto.tstore(out[0:8], other)"
            ),
            *race.pair("load too early", target, {"reuse": "none"}, {"reuse": "flag"}, line="# again", operand="dst"),
            *memory.pair("through memory", target, {"guard": False}, {"guard": True}),
            wrong.bad("never set", target, fault="never set", line='pto.wait_flag("V", "MTE3", 3)'),
            wrong.bad("set twice", target, fault="set twice", line="# the set"),
            wrong.bad("left set", target, fault="left set", line='pto.set_flag("MTE3", "V", 5)', level="hazard"),
            wrong.twin("set and waited for", target),
        ]
    return cases


CASES = [*stale_indices(), *early_stores(), *overtaken_stores(), *early_cubes(), *unnumbered()]
