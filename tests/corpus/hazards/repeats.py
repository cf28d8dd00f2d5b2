"""Destinations that repeat in one call: H-14, H-15, H-17."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import ptokit as pto
from tests.corpus.hazards.case import Array, Case, Hazard, counted, numbers, upto, zeros

NPU = ("a2a3", "a5")


@pto.kernel
def scatter(
    table, rows, tokens, flat: pto.const = False, oob: pto.const = "undefined", atomic: pto.const = "none",
    conflict: pto.const = "default",
):  # fmt: skip
    """Rows or elements of one tile."""
    count, cols = rows.shape
    ids = pto.Tile("vec", tokens.dtype, *((count, cols) if flat else (1, count)))
    values = pto.Tile("vec", table.dtype, count, cols)
    pto.tload(ids, tokens)
    pto.tload(values, rows)
    pto.mscatter(table, values, ids, coalesce="elem" if flat else "row", oob=oob, atomic=atomic, conflict=conflict)


@pto.kernel
def inside(rows, tokens, out, index: pto.const = "row"):
    """A scatter inside UB."""
    count, cols = rows.shape
    ids = pto.Tile("vec", tokens.dtype, count, cols)
    values = pto.Tile("vec", rows.dtype, count, cols)
    got = pto.Tile("vec", rows.dtype, count, cols)
    pto.tload(ids, tokens)
    pto.tload(values, rows)
    pto.texpands(got, 0)
    pto.tscatter(got, values, ids, index=index)
    pto.tstore(out, got)


def elements(at: tuple[int, int] | None = None, value: int = 0, cols: int = 16) -> Callable[[], Array]:
    """0, 1, 2, ... in eight rows, with one other number at a place."""

    def make() -> Array:
        array = np.arange(8 * cols, dtype="int32").reshape(8, cols)
        if at is not None:
            array[at] = value
        return array

    return make


def by_row(*changes: tuple[int, int, int], dtype: str = "int32") -> Callable[[], Array]:
    """Every element stays in its row, but for some."""

    def make() -> Array:
        array = np.repeat(np.arange(8), 16).reshape(8, 16)
        for row, col, value in changes:
            array[row, col] = value
        return array.astype(dtype)

    return make


LINE = "pto.mscatter(table, values, ids"
TO = {"table": zeros(64, 16), "rows": counted(8, 16)}
HALF = {"table": zeros(64, 16, dtype="float16"), "rows": counted(8, 16, dtype="float16")}


def same_index() -> list[Case]:
    """H-14: one index twice."""
    rows = Hazard("H-14", LINE, "idx", scatter, {**TO, "tokens": numbers(0, 1, 2, 3, 4, 5, 6, 2)})
    flat = Hazard("H-14", LINE, "idx", scatter, {**TO, "flat": True})
    cases: list[Case] = []
    for target in NPU:
        cases += [
            *rows.pair("one row twice", target, {}, {"tokens": numbers(0, 1, 2, 3, 4, 5, 6, 7)}),
            *rows.pair("all rows one", target, {"tokens": numbers(*[9] * 8)}, {"tokens": upto(8)}),
            *rows.pair("added up", target, {"atomic": "none"}, {"atomic": "add"}),
            *rows.pair("the last asked for", target, {"conflict": "default"}, {"conflict": "last"}),
            *rows.pair("half", target, {}, {"tokens": numbers(0, 1, 2, 3, 4, 5, 6, 63)}, **HALF),
            *flat.pair("elements", target, {"tokens": elements((7, 15), 0)}, {"tokens": elements((7, 15), 128)}),
            *flat.pair("neighbours", target, {"tokens": elements((3, 4), 51)}, {"tokens": elements((3, 4), 1023)}),
            *rows.pair("skipped ones count not", target, {"tokens": numbers(0, 1, 2, 3, 4, 5, 77, 5)},
                       {"tokens": numbers(0, 1, 2, 3, 4, 99, 77, 5)}, oob="skip"),
        ]  # fmt: skip
    return [*cases, rows.twin("the last writer", "cpu"), rows.twin("skipped twice", "a5", oob="skip",
            tokens=numbers(0, 1, 2, 3, 4, 5, 77, 77))]  # fmt: skip


def folded() -> list[Case]:
    """H-15: a policy folds two indices onto one cell."""
    rows = Hazard("H-15", LINE, "idx", scatter, TO)
    flat = Hazard("H-15", LINE, "idx", scatter, {**TO, "flat": True})
    cases: list[Case] = []
    for target in NPU:
        cases += [
            *rows.pair("clamped onto the last row", target, {"tokens": numbers(63, 1, 2, 3, 4, 5, 6, 64)},
                       {"tokens": numbers(62, 1, 2, 3, 4, 5, 6, 64)}, oob="clamp"),
            *rows.pair("clamped together", target, {"tokens": numbers(0, 1, 100, 3, 4, 5, 6, 200)},
                       {"tokens": numbers(0, 1, 100, 3, 4, 5, 6, 20)}, oob="clamp"),
            *rows.pair("wrapped", target, {"tokens": numbers(0, 1, 2, 3, 4, 5, 6, 66)},
                       {"tokens": numbers(0, 1, 2, 3, 4, 5, 6, 71)}, oob="wrap"),
            *flat.pair("elements clamped", target, {"tokens": elements((0, 0), 5000)},
                       {"tokens": elements((7, 15), 5000)}, oob="clamp", table=zeros(8, 16)),
            *flat.pair("elements wrapped", target, {"tokens": elements((0, 0), 1029)},
                       {"tokens": elements((0, 0), 1024)}, oob="wrap"),
            *rows.pair("added up", target, {"atomic": "none"}, {"atomic": "add"}, oob="wrap",
                       tokens=numbers(0, 1, 2, 3, 4, 5, 6, 64)),
        ]  # fmt: skip
    return [*cases, rows.twin("the last writer", "cpu", oob="wrap", tokens=numbers(0, 1, 2, 3, 4, 5, 6, 64))]


def inside_ub() -> list[Case]:
    """H-17: two elements of a column go to one row."""
    tile = Hazard("H-17", "pto.tscatter(got, values, ids", "idx", inside,
                  {"rows": counted(8, 16), "out": zeros(8, 16)}, level="hazard")  # fmt: skip
    half = {"rows": counted(8, 16, dtype="float16"), "out": zeros(8, 16, dtype="float16")}
    cases: list[Case] = []
    for target in ("cpu", *NPU):
        cases += [
            *tile.pair("one element", target, {"tokens": by_row((7, 3, 0))}, {"tokens": by_row((7, 3, 0), (0, 3, 7))}),
            *tile.pair("flat", target, {"tokens": elements((5, 5), 0)}, {"tokens": elements()}, index="flat"),
        ]  # fmt: skip
    for target in NPU:
        cases += [
            *tile.pair("int16", target, {"tokens": by_row((1, 1, 2), dtype="int16")},
                       {"tokens": by_row((1, 1, 2), (2, 1, 1), dtype="int16")}, **half),
            *tile.pair("all in one row", target, {"tokens": zeros(8, 16, dtype="int32")}, {"tokens": by_row()}),
        ]  # fmt: skip
    return cases


CASES = [*same_index(), *folded(), *inside_ub()]
