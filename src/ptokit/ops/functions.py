# pyright: strict
"""`gather` and `scatter`: the short path of plain calls; what needs more is passed on."""

from __future__ import annotations

from functools import partial
from typing import Any, TypeVar

from ptokit.engines import AUTO
from ptokit.isa.policy import Coalesce, GatherOOB, ScatterAtomicOp, ScatterConflict, ScatterOOB
from ptokit.lang.arrays import writing
from ptokit.lang.faults import trim
from ptokit.lang.launch import check_threads, refuse_inside
from ptokit.ops.array_call import GATHER, SCATTER
from ptokit.ops.direct import direct_gather, direct_scatter
from ptokit.ops.execute import gather_by_plan, scatter_by_plan
from ptokit.ops.library_words import gather_selected, scatter_selected, select
from ptokit.ops.operands import OTHERS, array_of, listed_indices, listed_source

Table = TypeVar("Table")
FIRST = 0
"""The axis of a plain call."""


def gather(
    table: object,
    indices: object,
    *,
    coalesce: str | Coalesce = "row",
    oob: str | GatherOOB = "undefined",
    out: object = None,
    engine: str = AUTO,
    threads: int | None = None,
    axis: int | None = FIRST,
    mode: str | None = None,
) -> Any:
    """Rows (`coalesce="row"`) or elements (`"elem"`, counted in C order) of `table`, by index.

    The result has the shape of `indices`, followed by the shape of a row; it is a torch tensor if the table is one,
    a CuPy array if the table is on a GPU, a NumPy array otherwise, or `out`. Indices are integers of any type, also in
    a list or a range. `oob` selects what an index outside the table does: `undefined` (refused before anything is
    written), `clamp`, `wrap` or `zero`; `mode` does so in the words of NumPy and JAX, for indices with a sign. With
    `axis`, the shape of `indices` replaces that axis of the table's shape, as in `np.take`.
    """
    try:
        refuse_inside(GATHER.name, GATHER.instead)
        if threads is not None:
            threads = check_threads(threads)
        if mode is None and axis is FIRST:
            lanes = listed_indices(GATHER, indices, table)
            how = GATHER.name, coalesce, oob, engine
            made = direct_gather(table, lanes, out, how, threads)
            if made is not None:
                return made
            source, numbers = array_of(GATHER, "table", table), array_of(GATHER, "indices", lanes)
            given = None if out is None else array_of(GATHER, "out", out, written=True)
            if numbers.dtype not in OTHERS:
                call = GATHER.of(table=table, indices=indices, out=out)
                notified = None if given is out else writing((out,))
                arrays = source, numbers, given
                return gather_by_plan(call, how, threads, (table, lanes, out), arrays, notified)
        named = partial(select, coalesce, axis)
        return gather_selected(GATHER, table, indices, named, oob, mode, out, (engine, threads))
    except Exception as problem:
        trim(problem)
        raise


def scatter(
    table: Table,
    src: object,
    indices: object,
    *,
    coalesce: str | Coalesce = "row",
    oob: str | ScatterOOB = "undefined",
    atomic: str | ScatterAtomicOp = "none",
    conflict: str | ScatterConflict = "last",
    accumulate: object = None,
    engine: str = AUTO,
    threads: int | None = None,
    axis: int | None = FIRST,
    mode: str | None = None,
    reduce: str | None = None,
    include_self: bool = True,
) -> Table:
    """Write `src` to rows (`coalesce="row"`) or elements (`"elem"`) of `table`, by index; returns `table`.

    `src` has the shape of `indices`, followed by the shape of a row, or broadcasts to it; it may be a number or a list.
    `atomic` combines with the cell instead (`add`, `max`, `min`), index after index; without it the last writer stays.
    `reduce` does so in the words of torch, NumPy and ONNX, with products and means; with `include_self=False`, without
    the values that the cells had. `conflict="any"` allows any order instead, which is faster on a GPU. Sums of floats
    round at every step, or once with `accumulate="float32"`. `oob` selects what an index outside the table does:
    `undefined` (refused before anything is written), `skip`, `clamp` or `wrap`; `mode` does so in the words of NumPy
    and JAX, for indices with a sign. With `axis`, indices select along that axis, and `src` has the shape that `gather`
    returns.
    """
    try:
        refuse_inside(SCATTER.name, SCATTER.instead)
        if threads is not None:
            threads = check_threads(threads)
        if mode is None and axis is FIRST and reduce is None and include_self is True:
            lanes, source = listed_indices(SCATTER, indices, table), listed_source(SCATTER, src, table)
            how = SCATTER.name, coalesce, oob, atomic, conflict, accumulate, engine
            if direct_scatter(table, source, lanes, how, threads):
                return table
            target = array_of(SCATTER, "table", table, written=True)
            values, numbers = array_of(SCATTER, "src", source), array_of(SCATTER, "indices", lanes)
            if numbers.dtype not in OTHERS:
                call = SCATTER.of(table=table, src=src, indices=indices)
                notified = None if target is table else writing((table,))
                scatter_by_plan(call, how, threads, (table, lanes, source), (target, numbers, values), notified)
                return table
        policies = oob, atomic, conflict, accumulate, mode, reduce, include_self
        named = partial(select, coalesce, axis)
        scatter_selected(SCATTER, table, src, indices, named, policies, (engine, threads))
        return table
    except Exception as problem:
        trim(problem)
        raise
