# pyright: strict
"""`gather` and `scatter`: the short path of plain calls; what needs more is passed on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np

from ptokit import engines, repeated
from ptokit.engine.faults import IndexFault
from ptokit.engine.gpu import on_gpu
from ptokit.engine.storage import Storage
from ptokit.engine.whole import ArrayAt
from ptokit.engines import AUTO, addressed, chosen, ordering
from ptokit.isa.policy import Coalesce, GatherOOB, ScatterAtomicOp, ScatterConflict, ScatterOOB
from ptokit.lang import gpu
from ptokit.lang.arrays import within, writing
from ptokit.lang.faults import trim
from ptokit.lang.launch import check_threads, refuse_inside
from ptokit.ops.call import GATHER, SCATTER, ArrayCall
from ptokit.ops.execute import execute_plan, order_of, run_gather, run_scatter, usual_threads
from ptokit.ops.forms import gather_form, scatter_form
from ptokit.ops.operands import OTHERS, array_of, indices_of, source_of
from ptokit.ops.plans import CallPlan, cached, keep, plan_gather, plan_scatter, signature
from ptokit.repeated import RepeatedCall

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
        if mode is not None or axis is not FIRST:
            return gather_form(table, indices, coalesce, oob, out, engine, threads, axis, mode)
        how: tuple[Any, ...] = ()
        if type(table) is np.ndarray:
            source = table
        else:
            how = (GATHER.name, coalesce, oob, engine, threads)
            known = repeated.find(how, table, indices, out)
            if known is not None:
                return known[0].gather(table, out, known[1])
            source = array_of(GATHER, "table", table)
        lanes = indices if type(indices) is np.ndarray else indices_of(GATHER, indices, source)
        given = out if out is None or type(out) is np.ndarray else array_of(GATHER, "out", out, written=True)
        key = (signature(source), signature(lanes), None if given is None else signature(given), coalesce, oob)
        plan = cached(key)
        if plan is None:
            if lanes.dtype in OTHERS:
                return gather_form(table, indices, coalesce, oob, out, engine, threads, axis, mode)
            call = GATHER.of(table=table, indices=indices, out=out)
            plan = keep(key, plan_gather(call, source, lanes, given, coalesce, oob))
        order = order_of(GATHER, plan.gpu, engine, source, lanes, given, plan=plan)
        notified = None if given is out else writing((out,))
        policies = (coalesce, oob)
        result = within(
            order, notified, run_gather, GATHER, plan, policies, table, source, lanes, given, out, engine, threads
        )
        if order is None and (plan.gpu is not None or gpu.is_torch(table)):
            _repeat(GATHER, how, plan, (table, indices, out), (source, lanes, given))
        return result
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
        policies = (coalesce, oob, atomic, conflict, accumulate)
        if mode is not None or axis is not FIRST or reduce is not None or include_self is not True:
            scatter_form(table, src, indices, policies, engine, threads, axis, mode, reduce, include_self)
            return table
        how: tuple[Any, ...] = ()
        if type(table) is np.ndarray:
            target = table
        else:
            how = (SCATTER.name, *policies, engine, threads)
            known = repeated.find(how, table, indices, src)
            if known is not None:
                known[0].run(table, known[1])
                return table
            target = array_of(SCATTER, "table", table, written=True)
        lanes = indices if type(indices) is np.ndarray else indices_of(SCATTER, indices, target)
        source = src if type(src) is np.ndarray else source_of(SCATTER, src, target)
        key = (signature(target), signature(source), signature(lanes), *policies)
        plan = cached(key)
        if plan is None:
            if lanes.dtype in OTHERS:
                scatter_form(table, src, indices, policies, engine, threads, axis, mode, reduce, include_self)
                return table
            call = SCATTER.of(table=table, src=src, indices=indices)
            plan = keep(key, plan_scatter(call, target, source, lanes, *policies))
        order = order_of(SCATTER, plan.gpu, engine, target, lanes, source, plan=plan)
        notified = None if target is table else writing((table,))
        within(order, notified, run_scatter, SCATTER, plan, policies, target, source, lanes, engine, threads)
        if order is None and (plan.gpu is not None or gpu.is_torch(table)):
            _repeat(SCATTER, how, plan, (table, indices, src), (target, lanes, source))
        return table
    except Exception as problem:
        trim(problem)
        raise


def _repeat(
    call: ArrayCall, how: tuple[Any, ...], plan: CallPlan, operands: Sequence[Any], described: Sequence[Any]
) -> None:
    """Keep a call that was executed, if only addresses are needed to repeat it."""
    arrays = [each for each in described if each is not None]
    if plan.whole is None or plan.warns or 0 in plan.lanes:
        return
    attempt = None
    if plan.gpu is None:
        engine, threads = how[-2:]
        execute, is_in_order = partial(_execute_at, plan, engine, threads), _always
        attempt = engines.repeated(chosen(engine), plan.whole, usual_threads(plan, threads))
        execute = execute if attempt is None else partial(_execute_or_refuse, attempt, execute)
    elif not all(map(on_gpu, arrays)) or len({a.order for a in arrays}) > 1:
        return
    else:
        execute, is_in_order = addressed(chosen(how[-2], True), plan.whole, plan.gpu), ordering(arrays)
        attempt = partial(_attempt, execute)
    made = RepeatedCall(
        execute=execute,
        is_in_order=is_in_order,
        is_tracked=gpu.is_torch(operands[0]),
        operands=tuple(plan.extents),
        overlap=plan.overlap if len(arrays) == len(described) else None,
        outside=partial(call.outside, shape=plan.lanes),
        shape=plan.shape,
        dtype=plan.dtype,
        attempt=attempt,
    )
    repeated.keep(how, operands, made)


def _attempt(execute: Callable[..., None], *addresses: int, initial: int | None = None) -> bool:
    """Execute a call; False if an index is refused, and then nothing is written but an initial table."""
    try:
        execute(*addresses, initial=initial)
    except IndexFault:
        return False
    return True


def _always() -> bool:
    return True


def _execute_or_refuse(execute: Callable[..., bool], refuse: Callable[..., None], *addresses: int) -> None:
    """Execute a call, or refuse an index."""
    if not execute(*addresses):
        refuse(*addresses)


def _execute_at(plan: CallPlan, engine: str, threads: int | None, table: int, indices: int, other: int) -> None:
    """Execute a call over arrays of the host at these addresses."""
    assert plan.whole is not None
    storages: dict[str, Storage] = {
        "table": ArrayAt(table, *plan.table),
        "indices": ArrayAt(indices, *plan.indices),
        plan.whole.types[2][0]: ArrayAt(other, *plan.other),
    }
    execute_plan(plan, plan.whole, storages, engine, threads)
