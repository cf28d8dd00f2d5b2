# pyright: strict
"""Planned calls on an engine: the order of streams, results, copies of what engines do not support, refusals."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from ctypes import addressof, c_char
from typing import Any, cast

import numpy as np

from ptokit.engine.faults import IndexFault, IndexReport
from ptokit.engine.gpu import on_gpu
from ptokit.engine.runnable import Unsupported
from ptokit.engine.storage import Storage
from ptokit.engine.whole import Whole
from ptokit.engines import AUTO, REFERENCE, arrays, chosen, in_order, is_captured, names, not_captured
from ptokit.lang import gpu
from ptokit.lang.arrays import as_array, within
from ptokit.lang.launch import WAITS, check_engine, refuse_captured
from ptokit.ops.call import ArrayCall
from ptokit.ops.operands import Array, copy_into, empty_like, is_unsupported, packed_copy, supported
from ptokit.ops.plans import CallPlan, cached, keep, plan_gather, plan_scatter, signature

ENGINES = names()
ON_ONE_THREAD = 1 << 18
"""Bytes of calls that run on one thread by default, at most."""
ALIGNMENT = 64
"""Results begin at a cache line: writing rows that straddle lines takes four times as long."""
BYTE = np.dtype(np.uint8)
CAPTURABLE = (
    'call it once before the capture with a policy that checks nothing (oob="clamp", "wrap", "zero", "skip") and int64 '
    "indices, or leave it out of the capture"
)
"""Advice for calls in a CUDA graph."""

GatherHow = tuple[object, object]
"""The policies of a gather, as `plan_gather` takes them."""
ScatterHow = tuple[object, object, object, object, object]
"""The policies of a scatter, as `plan_scatter` takes them."""


def move_gather(
    call: ArrayCall,
    source: Array,
    lanes: Array,
    target: Array,
    how: GatherHow,
    engine: str,
    threads: int | None,
) -> None:
    """Gather into an array, which may share memory with what is read."""
    key = (signature(source), signature(lanes), signature(target), *how)
    plan = cached(key) or keep(key, plan_gather(call, source, lanes, target, *how))
    order = order_of(call, plan.gpu, engine, source, lanes, target, plan=plan)
    within(order, None, run_gather, call, plan, how, None, source, lanes, target, target, engine, threads)


def run_gather(
    call: ArrayCall,
    plan: CallPlan,
    how: GatherHow,
    table: object,
    source: Array,
    lanes: Array,
    given: Array | None,
    out: Any,
    engine: str,
    threads: int | None,
) -> Any:
    """Execute a gather in the current order; returns `out`, or a new result of the library of `table`."""
    target, out = new_result(table, source, plan.shape, plan.dtype, plan.nbytes) if given is None else (given, out)
    storages = plan.lend(source, lanes, "out", target)
    if storages is None or (given is not None and plan.overlap(_addresses(storages))):
        _refuse_captured_copies(call, source)
        fresh = target if given is None else empty_like(target)
        move_gather(call, supported(source), supported(lanes), fresh, how, engine, threads)
        if given is not None:
            copy_into(target, fresh)
    else:
        if plan.warns:
            _warn_negative(call, plan, lanes)
        _run(call, plan, storages, engine, threads)
    return out


def move_scatter(
    call: ArrayCall,
    target: Array,
    source: Array,
    lanes: Array,
    how: ScatterHow,
    engine: str,
    threads: int | None,
) -> None:
    """Scatter into an array, which may share memory with what is read."""
    key = (signature(target), signature(source), signature(lanes), *how)
    plan = cached(key) or keep(key, plan_scatter(call, target, source, lanes, *how))
    order = order_of(call, plan.gpu, engine, target, lanes, source, plan=plan)
    within(order, None, run_scatter, call, plan, how, target, source, lanes, engine, threads)


def run_scatter(
    call: ArrayCall,
    plan: CallPlan,
    how: ScatterHow,
    target: Array,
    source: Array,
    lanes: Array,
    engine: str,
    threads: int | None,
) -> None:
    """Execute a scatter in the current order."""
    storages = plan.lend(target, lanes, "src", source)
    if storages is None or plan.overlap(_addresses(storages)):
        _refuse_captured_copies(call, target)
        cells = packed_copy(target) if is_unsupported(target) else target
        move_scatter(call, cells, packed_copy(source), packed_copy(lanes), how, engine, threads)
        if cells is not target:
            copy_into(target, cells)
    else:
        if plan.warns:
            _warn_negative(call, plan, lanes)
        _run(call, plan, storages, engine, threads)


def _warn_negative(call: ArrayCall, plan: CallPlan, lanes: Array) -> None:
    """Warn of negative int32 indices that are moved inside (H-13)."""
    values: Any = gpu.cupy_array(lanes) if on_gpu(lanes) else lanes
    is_packed = not on_gpu(lanes) and lanes.flags.c_contiguous  # NumPy then finds it faster, and copies it otherwise
    if not lanes.size or int(values.item(values.argmin()) if is_packed else values.min()) >= 0:
        return
    host = cast("Array", values.get() if on_gpu(lanes) else values)
    below = host < 0
    first = int(np.argmax(below))
    count, value = int(np.count_nonzero(below)), int(host.flat[first])
    call.warn_negative(IndexReport("negative", "indices", (first,), value, plan.capacity, count), lanes.shape)


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


def new_result(
    table: object, source: Array, shape: tuple[int, ...], dtype: np.dtype[Any], nbytes: int
) -> tuple[Array, Any]:
    """New memory for a result, and the object that is returned: of the table's own kind."""
    if on_gpu(source):
        made = gpu.empty(source, shape)
        return cast("Array", made), made.owner
    if type(table) is not np.ndarray and (torch := sys.modules.get("torch")) and isinstance(table, torch.Tensor):
        tensor = gpu.new_tensor(table, shape)
        return as_array(tensor), tensor
    memory: Any = np.empty(nbytes + ALIGNMENT, BYTE)
    result: Array = np.ndarray(shape, dtype, memory, -addressof(c_char.from_buffer(memory)) % ALIGNMENT)
    return result, result


def _addresses(storages: Mapping[str, Storage]) -> dict[str, int]:
    return {name: storage.address for name, storage in storages.items()}


def _run(call: ArrayCall, plan: CallPlan, storages: Mapping[str, Storage], engine: str, threads: int | None) -> None:
    if 0 in plan.lanes:
        return
    assert plan.whole is not None
    try:
        execute_plan(plan, plan.whole, storages, engine, threads)
    except IndexFault as fault:
        raise call.outside(fault.report, plan.lanes) from None


def usual_threads(plan: CallPlan, threads: int | None) -> int | None:
    """The threads of a call: one for a small call, unless others were asked for."""
    return 1 if threads is None and plan.nbytes <= ON_ONE_THREAD else threads


def execute_plan(
    plan: CallPlan, whole: Whole, storages: Mapping[str, Storage], engine: str, threads: int | None
) -> None:
    """Execute a plan; the reference engine is the fallback of `auto`. Raises `IndexFault`."""
    try:
        name = chosen(engine, plan.gpu is not None)
        return arrays(name)(whole, storages, usual_threads(plan, threads))
    except Unsupported as problem:
        if plan.gpu is not None:
            raise ValueError(f"a GPU does not take this call: {problem}; copy the arrays to the host") from None
        if engine != AUTO:
            raise ValueError(f'engine "{engine}" does not take this call: {problem}; use engine="auto"') from None
    return arrays(REFERENCE)(whole, storages, 1)
