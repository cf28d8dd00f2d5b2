# pyright: strict
"""Planned calls on an engine: the order of streams, results, copies of what engines do not support, refusals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, cast

import numpy as np

from ptokit.engine.faults import IndexFault, IndexReport
from ptokit.engine.gpu import on_gpu
from ptokit.engine.runnable import Unsupported
from ptokit.engine.storage import Storage
from ptokit.engine.whole import Whole
from ptokit.engines import (
    AUTO,
    REFERENCE,
    arrays,
    chosen,
    in_order,
    is_captured,
    names,
    not_captured,
    ordering,
    prepared_move,
)
from ptokit.lang import gpu
from ptokit.lang.arrays import as_array, within
from ptokit.lang.launch import WAITS, check_engine, refuse_captured
from ptokit.ops.call import ArrayCall
from ptokit.ops.direct import (
    DirectPlan,
    How,
    describe,
    direct_gather,
    direct_scatter,
    keep,
    new_function,
)
from ptokit.ops.operands import Array, copy_into, empty_like, is_unsupported, packed_copy, share_memory, supported
from ptokit.ops.plans import CallPlan, plan_gather, plan_scatter

ENGINES = names()
CAPTURABLE = (
    'call it once before the capture with a policy that checks nothing (oob="clamp", "wrap", "zero", "skip") and int64 '
    "indices, or leave it out of the capture"
)
"""Advice for calls in a CUDA graph."""

GatherHow = tuple[object, object]
"""The policies of a gather, as `plan_gather` takes them."""
ScatterHow = tuple[object, object, object, object, object]
"""The policies of a scatter, as `plan_scatter` takes them."""


Operands = tuple[object, object, object]
"""The table, the indices and the other array, as the user has them."""
Arrays = tuple[Array, Array, Array | None]
"""The same as arrays; no output stands for a new one."""


def move_gather(
    call: ArrayCall, source: Array, lanes: Array, target: Array, how: GatherHow, engine: str, threads: int | None
) -> None:
    """Gather into an array, which may share memory with what is read."""
    if direct_gather(source, lanes, target, (call.name, *how, engine), threads) is None:
        arrays = source, lanes, target
        gather_by_plan(call, how, engine, threads, arrays, arrays)


def gather_by_plan(
    call: ArrayCall,
    how: GatherHow,
    engine: str,
    threads: int | None,
    operands: Operands,
    arrays: Arrays,
    notified: AbstractContextManager[object] | None = None,
) -> Any:
    """Verify a gather and execute it in its order; returns the output, or a new result of the table's library."""
    (table, _, out), (source, lanes, given) = operands, arrays
    plan = plan_gather(call, source, lanes, given, *how)
    order = order_of(call, plan.gpu, engine, source, lanes, given, plan=plan)

    def run() -> Any:
        result, target = out, given
        if target is None:
            result, _ = new_function(table, on_gpu(source))(table, plan.shape, plan.dtype)
            target = as_array(result)
        storages = plan.lend(source, lanes, target)
        if storages is None or (given is not None and _share_memory(given, source, lanes)):
            _refuse_captured_copies(call, source)
            fresh = target if given is None else empty_like(target)
            move_gather(call, supported(source), supported(lanes), fresh, how, engine, threads)
            if given is not None:
                copy_into(target, fresh)
        else:
            _run(call, plan, storages, lanes, engine, threads)
        return result

    result = within(order, notified, run)
    if order is None:
        _learn(call, plan, (call.name, *how, engine), operands, arrays)
    return result


def move_scatter(
    call: ArrayCall, target: Array, source: Array, lanes: Array, how: ScatterHow, engine: str, threads: int | None
) -> None:
    """Scatter into an array, which may share memory with what is read."""
    if not direct_scatter(target, source, lanes, (call.name, *how, engine), threads):
        arrays = target, lanes, source
        scatter_by_plan(call, how, engine, threads, arrays, arrays)


def scatter_by_plan(
    call: ArrayCall,
    how: ScatterHow,
    engine: str,
    threads: int | None,
    operands: Operands,
    arrays: tuple[Array, Array, Array],
    notified: AbstractContextManager[object] | None = None,
) -> None:
    """Verify a scatter and execute it in its order."""
    target, lanes, source = arrays
    plan = plan_scatter(call, target, source, lanes, *how)
    order = order_of(call, plan.gpu, engine, target, lanes, source, plan=plan)

    def run() -> None:
        storages = plan.lend(target, lanes, source)
        if storages is None or _share_memory(target, source, lanes):
            _refuse_captured_copies(call, target)
            cells = packed_copy(target) if is_unsupported(target) else target
            move_scatter(call, cells, packed_copy(source), packed_copy(lanes), how, engine, threads)
            if cells is not target:
                copy_into(target, cells)
        else:
            _run(call, plan, storages, lanes, engine, threads)

    within(order, notified, run)
    if order is None:
        _learn(call, plan, (call.name, *how, engine), operands, arrays)


def warn_negative(call: ArrayCall, capacity: int, indices: object) -> None:
    """Warn of negative int32 indices that are moved inside (H-13)."""
    lanes = as_array(indices)
    values: Any = gpu.cupy_array(lanes) if on_gpu(lanes) else lanes
    is_packed = not on_gpu(lanes) and lanes.flags.c_contiguous  # NumPy then finds it faster, and copies it otherwise
    if not lanes.size or int(values.item(values.argmin()) if is_packed else values.min()) >= 0:
        return
    host = cast("Array", values.get() if on_gpu(lanes) else values)
    below = host < 0
    first = int(np.argmax(below))
    count, value = int(np.count_nonzero(below)), int(host.flat[first])
    call.warn_negative(IndexReport("negative", "indices", (first,), value, capacity, count), lanes.shape)


# --- Orders, results, engines ----------------------------------------------------------------------------------


def order_of(
    call: ArrayCall, number: int | None, engine: str, *arrays: Array | None, plan: CallPlan | None = None
) -> AbstractContextManager[object] | None:
    """A block whose work is done by a GPU, in the order of the arrays' streams; None if all work is.

    Refuses invalid engines, and work that cannot be captured in a CUDA graph; without a plan, that is all work.
    """
    if engine not in ENGINES:
        check_engine(engine, ENGINES, "the machine runs kernels: kernel[grid](..., engine='machine')")
    if number is None:
        return None
    name = chosen(engine, True)  # refuses engines of the host, and says what is missing
    found = [array for array in arrays if on_gpu(array)]
    if is_captured(found) and (why := _not_captured(name, number, arrays, plan)):
        refuse_captured(call.name, found, why, CAPTURABLE)
    return in_order(found)


def _not_captured(engine: str, number: int, arrays: Sequence[Array | None], plan: CallPlan | None) -> str:
    """Why a call cannot be captured in a CUDA graph; empty if it can."""
    table, lanes, other = arrays if len(arrays) == 3 else (*arrays, None)
    if plan is None or plan.whole is None or plan.warns or not on_gpu(table) or not on_gpu(lanes):
        return WAITS
    if other is None and not gpu.is_torch(table.owner):
        return "CuPy would use the memory of its result again"
    if other is not None and not on_gpu(other):
        return "a number of the host is copied to the GPU"
    return not_captured(engine, plan.whole, number, *(each.address for each in (table, other) if each is not None))


def _refuse_captured_copies(call: ArrayCall, array: Array) -> None:
    if on_gpu(array):
        refuse_captured(call.name, [array], "it copies an array first", CAPTURABLE)


def _share_memory(written: Array, *read: Array) -> bool:
    return any(share_memory(written, array) for array in read)


def _run(
    call: ArrayCall, plan: CallPlan, storages: Mapping[str, Storage], lanes: Array, engine: str, threads: int | None
) -> None:
    whole = plan.whole
    assert whole is not None
    if plan.warns:
        warn_negative(call, whole.index.capacity, lanes)
    if 0 in plan.lanes:
        return
    try:
        _execute(plan.gpu is not None, whole, storages, engine, threads)
    except IndexFault as fault:
        raise call.outside(fault.report, plan.lanes) from None


def _execute(is_on_gpu: bool, whole: Whole, storages: Mapping[str, Storage], engine: str, threads: int | None) -> None:
    """Execute a move; the reference engine is the fallback of `auto`. Raises `IndexFault`."""
    try:
        return arrays(chosen(engine, is_on_gpu))(whole, storages, threads)
    except Unsupported as problem:
        if is_on_gpu:
            raise ValueError(f"a GPU does not take this call: {problem}; copy the arrays to the host") from None
        if engine != AUTO:
            raise ValueError(f'engine "{engine}" does not take this call: {problem}; use engine="auto"') from None
    return arrays(REFERENCE)(whole, storages, 1)


def _learn(call: ArrayCall, plan: CallPlan, how: How, operands: Operands, described: Arrays) -> None:
    """Keep the kind of a call that was executed in order, if an engine takes such calls by addresses and sizes."""
    found = [each if each is None else describe(each) for each in operands]
    places = [array for array in described if array is not None]
    if plan.whole is None or plan.whole.sizes is None or 0 in plan.lanes or found[0] is None or found[1] is None:
        return
    if found[2] is None and operands[2] is not None:
        return
    orders = {array.order if on_gpu(array) else None for array in places}
    if plan.gpu is not None and not (all(map(on_gpu, places)) and len(orders) == 1):
        return
    try:
        ready = prepared_move(chosen(how[-1], plan.gpu is not None), plan.whole.kind, plan.gpu)
    except Unsupported:
        return
    if ready is None:
        return
    _, index_type, _ = plan.whole.types
    kinds = [None if each is None else each[0] for each in found]
    made = DirectPlan(
        ready=ready,
        dims=plan.dims,
        itemsize=plan.dtype.itemsize,
        index_size=index_type[1].size,
        dtype=plan.dtype,
        new=new_function(operands[0], plan.gpu is not None),
        is_tracked=gpu.is_torch(operands[2] if plan.whole.kind.gathers else operands[0]),
        is_in_order=None if plan.gpu is None else ordering(cast("Any", places)),
        warn=partial(warn_negative, call.of()) if plan.warns else None,
    )
    keep(made, how, *kinds)
