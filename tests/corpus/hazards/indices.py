"""Index values: outside their table (H-10, H-11, H-12), or negative (H-13)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import ptokit as pto
from tests.corpus.hazards.case import Array, Case, Hazard, counted, numbers, upto, zeros

ALL = ("cpu", "a2a3", "a5")
NPU = ("a2a3", "a5")


@pto.kernel
def gather(table, tokens, out, coalesce: pto.const = "row", oob: pto.const = "undefined"):
    """Eight rows, or 128 elements, a block."""
    b = pto.block_idx()
    ids = pto.Tile("vec", tokens.dtype, *((1, 8) if coalesce == "row" else (8, 16)))
    got = pto.Tile("vec", table.dtype, 8, 16)
    pto.tload(ids, tokens[b * 8 : b * 8 + 8])
    pto.mgather(got, table, ids, coalesce=coalesce, oob=oob)
    pto.tstore(out[b * 8 : b * 8 + 8], got)


@pto.kernel
def gather_l1(table, tokens, scratch, coalesce: pto.const = "row", oob: pto.const = "undefined"):
    """Rows or elements into L1."""
    matrix = pto.Tile("mat", table.dtype, 16, 16, blayout="col_major", slayout="row_major")
    if coalesce == "row":
        pto.mgather(matrix, table, tokens, oob=oob)  # into L1
    else:
        pto.mgather(matrix, table, tokens, scratch=scratch, oob=oob)  # into L1


@pto.kernel
def scatter(table, rows, tokens, flat: pto.const = False, oob: pto.const = "undefined", atomic: pto.const = "none"):
    """Eight rows, or 128 elements, a block."""
    b = pto.block_idx()
    ids = pto.Tile("vec", tokens.dtype, *((8, 16) if flat else (1, 8)))
    values = pto.Tile("vec", table.dtype, 8, 16)
    pto.tload(ids, tokens[b * 8 : b * 8 + 8])
    pto.tload(values, rows[b * 8 : b * 8 + 8])
    pto.mscatter(table, values, ids, coalesce="elem" if flat else "row", oob=oob, atomic=atomic)


@pto.kernel
def inside(rows, tokens, out, valid: pto.const = (8, 16), index: pto.const = "row"):
    """A scatter inside UB, into a tile of which `valid` counts."""
    ids = pto.Tile("vec", tokens.dtype, 8, 16)
    values = pto.Tile("vec", rows.dtype, 8, 16)
    got = pto.Tile("vec", rows.dtype, 8, 16)
    pto.tload(ids, tokens)
    pto.tload(values, rows)
    pto.texpands(got, 0)
    got.valid = valid
    pto.tscatter(got, values, ids, index=index)
    pto.tstore(out, got)


def one_of(shape: tuple[int, ...], at: tuple[int, ...], value: int, dtype: str = "int32") -> Callable[[], Array]:
    """0, 1, 2, ... with one other number at a place."""

    def make() -> Array:
        array = np.arange(int(np.prod(shape))).reshape(shape)
        array[at] = value
        return array.astype(dtype)

    return make


def by_row(at: tuple[int, int] | None = None, value: int = 0, dtype: str = "int32") -> Callable[[], Array]:
    """Row numbers for `inside`: every element stays in its row, but for one."""

    def make() -> Array:
        array = np.repeat(np.arange(8), 16).reshape(8, 16)
        if at is not None:
            array[at] = value
        return array.astype(dtype)

    return make


TABLE = {"table": counted(64, 16), "out": zeros(8, 16)}
TO = {"table": zeros(64, 16), "rows": counted(8, 16)}
GATHER, SCATTER = "pto.mgather(got, table, ids", "pto.mscatter(table, values, ids"


def outside_gathers() -> list[Case]:
    """H-10: a gather from outside its table."""
    rows = Hazard("H-10", GATHER, "idx", gather, TABLE)
    flat = Hazard("H-10", GATHER, "idx", gather, {**TABLE, "coalesce": "elem"})
    l1 = Hazard("H-10", "# into L1", "idx", gather_l1,
                {"table": counted(64, 16, dtype="float16"), "scratch": zeros(256, dtype="float16")})  # fmt: skip
    cases: list[Case] = []
    for target in ALL:
        cases += [
            *rows.pair("one row too far", target, {"tokens": one_of((8,), (3,), 64)},
                       {"tokens": one_of((8,), (3,), 63)}),
            *flat.pair("last element", target, {"tokens": one_of((8, 16), (7, 15), 1024)},
                       {"tokens": one_of((8, 16), (7, 15), 1023)}),
            *rows.pair("clamped", target, {"oob": "undefined"}, {"oob": "clamp"}, tokens=one_of((8,), (0,), 1000)),
        ]  # fmt: skip
    for target in NPU:
        cases += [
            *rows.pair("negative", target, {"oob": "undefined"}, {"oob": "zero"}, tokens=one_of((8,), (7,), -1)),
            *rows.pair("uint32", target, {"oob": "undefined"}, {"oob": "wrap"},
                       tokens=one_of((8,), (5,), 2**32 - 1, "uint32")),
            *rows.pair("in the last block", target, {"tokens": one_of((24,), (20,), 64)},
                       {"tokens": one_of((24,), (20,), 0)}, out=zeros(24, 16), grid=3),
            *l1.pair("rows into L1", target, {"tokens": one_of((16,), (15,), 64)},
                     {"tokens": one_of((16,), (15,), 63)}),
            *l1.pair("elements into L1", target, {"tokens": one_of((16, 16), (15, 15), 1024)},
                     {"tokens": upto(16, 16)}, coalesce="elem"),
        ]  # fmt: skip
    return cases


def outside_scatters() -> list[Case]:
    """H-11: a scatter to outside its table."""
    rows = Hazard("H-11", SCATTER, "idx", scatter, TO)
    flat = Hazard("H-11", SCATTER, "idx", scatter, {**TO, "flat": True})
    cases: list[Case] = []
    for target in ALL:
        cases += [
            *rows.pair("one row too far", target, {"tokens": one_of((8,), (3,), 64)},
                       {"tokens": one_of((8,), (3,), 63)}),
            *flat.pair("last element", target, {"tokens": one_of((8, 16), (7, 15), 1024)},
                       {"tokens": one_of((8, 16), (7, 15), 1023)}),
            *rows.pair("skipped", target, {"oob": "undefined"}, {"oob": "skip"}, tokens=one_of((8,), (0,), -5)),
        ]  # fmt: skip
    for target in NPU:
        cases += rows.pair("added", target, {"oob": "undefined"}, {"oob": "skip"}, atomic="add",
                           tokens=one_of((8,), (6,), 70))  # fmt: skip
    return cases


def outside_tiles() -> list[Case]:
    """H-12: a scatter inside UB to outside the tile, or to its padding."""
    tile = Hazard("H-12", "pto.tscatter(got, values, ids", "idx", inside, {"rows": counted(8, 16), "out": zeros(8, 16)})
    few = {"valid": (6, 16), "out": zeros(6, 16)}
    half = {"rows": counted(8, 16, dtype="float16"), "out": zeros(8, 16, dtype="float16")}
    cases: list[Case] = []
    for target in ALL:
        cases += [
            *tile.pair("one row too far", target, {"tokens": by_row((7, 3), 8)}, {"tokens": by_row()}),
            *tile.pair("negative", target, {"tokens": by_row((0, 0), -1)}, {"tokens": by_row()}, line="pto.tscatter("),
            *tile.pair("padding", target, few, {}, tokens=by_row(), level="hazard"),
            *tile.pair("flat", target, {"tokens": one_of((8, 16), (2, 2), 128)}, {"tokens": upto(8, 16)}, index="flat"),
        ]  # fmt: skip
    for target in NPU:
        cases += tile.pair("int16", target, {"tokens": by_row((4, 9), -3, "int16")}, {"tokens": by_row(dtype="int16")},
                           **half)  # fmt: skip
    return cases


def negatives() -> list[Case]:
    """H-13: negative indices count as huge ones."""
    read = Hazard("H-13", GATHER, "idx", gather, TABLE, level="hazard")
    write = Hazard("H-13", SCATTER, "idx", scatter, {**TO, "atomic": "add"}, level="hazard")
    cases: list[Case] = []
    for target in ALL:
        cases += [
            *read.pair("clamp", target, {"tokens": one_of((8,), (2,), -1)}, {"tokens": one_of((8,), (2,), 99)},
                       oob="clamp"),
            *read.pair("wrap", target, {"tokens": one_of((8,), (7,), -64)}, {"tokens": one_of((8,), (7,), 64)},
                       oob="wrap"),
            *write.pair("scatter, clamp", target, {"tokens": one_of((8,), (2,), -1)},
                        {"tokens": one_of((8,), (2,), 99)}, oob="clamp"),
        ]  # fmt: skip
    for target in NPU:
        cases += [
            *read.pair("elements", target, {"tokens": one_of((8, 16), (0, 1), -2**31)},
                       {"tokens": one_of((8, 16), (0, 1), 2**31 - 1)}, coalesce="elem", oob="wrap"),
            *write.pair("scatter, wrap", target, {"oob": "wrap"}, {"oob": "skip"}, tokens=numbers(*range(-8, 0))),
            read.twin("unsigned", target, tokens=one_of((8,), (2,), 2**32 - 1, "uint32"), oob="clamp"),
        ]  # fmt: skip
    return cases


CASES = [*outside_gathers(), *outside_scatters(), *outside_tiles(), *negatives()]
