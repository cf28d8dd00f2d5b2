# pyright: strict
"""Calls that need more than a plain one: other axes, `mode` and `reduce`, index types that are converted."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import index
from typing import Any

import numpy as np

from ptokit.brief import brief
from ptokit.engine.gpu import on_gpu
from ptokit.engines import AUTO
from ptokit.isa.policy import Coalesce, GatherOOB, ScatterOOB
from ptokit.lang.arrays import within, writing
from ptokit.ops.call import GATHER, SCATTER, ArrayCall
from ptokit.ops.direct import new_function
from ptokit.ops.execute import move_gather, order_of
from ptokit.ops.lanes import Selection, along_axis, plain, resolve_into
from ptokit.ops.operands import (
    Array,
    array_of,
    copy_into,
    empty_like,
    index_type,
    indices_of,
    packed_copy,
    share_memory,
    source_of,
    type_of,
)  # fmt: skip
from ptokit.ops.plans import Leading, check_out, entries, spread
from ptokit.ops.reductions import Arithmetic, check_type, reduce_into
from ptokit.ops.synonyms import OutsidePolicy, outside_policy, reduction

Select = Callable[[ArrayCall, Array, Array, OutsidePolicy], Selection]
"""The entries of a table that indices select: called with the call, the indices, the table and the policy."""


def gather_form(
    table: object,
    indices: object,
    coalesce: object,
    oob: object,
    out: object,
    engine: str,
    threads: int | None,
    axis: object,
    mode: object,
) -> Any:
    """`pto.gather` with all of its forms."""
    call = GATHER.of(table=table, indices=indices, out=out)
    return gather_selected(call, table, indices, partial(_select, coalesce, axis), oob, mode, out, engine, threads)


def scatter_form(
    table: object,
    src: object,
    indices: object,
    policies: tuple[Any, ...],
    engine: str,
    threads: int | None,
    axis: object,
    mode: object,
    reduce: object,
    include_self: object,
) -> None:
    """`pto.scatter` with all of its forms."""
    call = SCATTER.of(table=table, src=src, indices=indices)
    coalesce, *others = policies
    select = partial(_select, coalesce, axis)
    scatter_selected(call, table, src, indices, select, (*others, mode, reduce, include_self), engine, threads)


def _select(
    coalesce: object, axis: object, call: ArrayCall, lanes: Array, table: Array, policy: OutsidePolicy
) -> Selection:
    """Entries along an axis."""
    coalesce, at = place_of(call, coalesce, axis, table.ndim)
    if at:
        return along_axis(call, lanes, at, table, policy)
    return plain(call, lanes, entries(call, table, coalesce).dims, table, policy)


def place_of(call: ArrayCall, coalesce: object, axis: object, ndim: int) -> tuple[Coalesce, int]:
    """What an index selects, and along which axis; `None` selects elements, as in `np.take`."""
    if axis is None:
        return Coalesce.Elem, 0
    unit, at = call.policy(Coalesce, "coalesce", coalesce), axis_of(call, axis, ndim) if ndim else 0
    if at and unit is not Coalesce.Row:
        message = 'axis is for entries along an axis; coalesce="elem" counts elements'
        raise call.refused("CO-SEM-01", message, "leave axis or coalesce out", "axis")
    return unit, at


def axis_of(call: ArrayCall, given: object, ndim: int) -> int:
    """The number of an axis; a negative one counts from the last."""
    try:
        number = index(given)  # type: ignore[arg-type]
    except TypeError:
        number = None
    if number is None or not -ndim <= number < ndim:
        message = f"axis is an integer from {-ndim} to {ndim - 1} for a table of {ndim} dims; found {brief(given)}"
        raise call.refused("CO-SEM-01", message, "name an axis of the table", "axis")
    return number % ndim


def gather_selected(
    call: ArrayCall,
    table: object,
    indices: object,
    select: Select,
    oob: object,
    mode: object,
    out: object,
    engine: str,
    threads: int | None,
) -> Any:
    """Gather the entries that are selected."""
    policy = outside_policy(call, GatherOOB, oob, mode)
    source = array_of(call, "table", table)
    lanes = indices_of(call, indices, source)
    given = None if out is None else array_of(call, "out", out, written=True)
    index_type(call, lanes)
    order = order_of(call, _gpu(source, lanes), engine, source, lanes, given)
    notified = None if out is None else writing((out,))

    def run() -> Any:
        named = select(call, lanes, source, policy)
        result, target = _result(call, table, source, named, given, out)
        how = (Leading(named.dims), named.remap)
        if not named.rows:
            move_gather(call, source, named.lanes, target, how, engine, threads)
            return result
        fresh = empty_like(target) if share_memory(target, source) else target
        for rows, numbers in named.parts():
            move_gather(call, source[rows], numbers, fresh[rows], how, engine, threads)
        if fresh is not target:
            copy_into(target, fresh)
        return result

    return within(order, notified, run)


def _result(
    call: ArrayCall, table: object, source: Array, named: Selection, given: Array | None, out: Any
) -> tuple[Any, Array]:
    """The result of a gather, as the user has it and as an array: what was given, or a new one."""
    kind, shape = type_of(call, "table", source), named.shape + source.shape[named.dims :]
    if given is None:
        out, _ = new_function(table, on_gpu(source))(table, shape, kind.numpy)
        return out, array_of(call, "out", out)
    check_out(call, given, kind, shape)
    return out, given


def scatter_selected(
    call: ArrayCall,
    table: object,
    src: object,
    indices: object,
    select: Select,
    policies: tuple[Any, ...],
    engine: str,
    threads: int | None,
) -> None:
    """Scatter to the entries that are selected."""
    oob, atomic, conflict, accumulate, mode, reduce, include_self = policies
    policy = outside_policy(call, ScatterOOB, oob, mode)
    if not isinstance(include_self, bool):
        message = f"include_self is True or False; found {brief(include_self)}"
        raise call.refused("A-30", message, "pass a bool", "include_self", "H-39")
    arithmetic = Arithmetic(reduction(call, atomic, reduce), include_self, conflict, accumulate, engine, threads)
    target = array_of(call, "table", table, written=True)
    lanes = indices_of(call, indices, target)
    source = source_of(call, src, target)
    index_type(call, lanes)
    order = order_of(call, _gpu(target, lanes), engine, target, lanes, source)
    notified = None if target is table else writing((table,))

    def run() -> None:
        kind = type_of(call, "table", target)
        check_type(call, kind, arithmetic)
        named = select(call, lanes, target, policy)
        if not named.rows:
            reduce_into(call, target, source, named, arithmetic)
            return
        values = spread(call, source, kind, named.shape + target.shape[named.dims :])
        values = packed_copy(values) if share_memory(values, target) else values
        for rows, numbers in named.parts():
            part = Selection(numbers, named.dims, named.remap, numbers.shape)
            reduce_into(call, target[rows], values[rows], part, arithmetic)

    within(order, notified, run)


def number_entries(
    call: ArrayCall, indices: object, out: object, shape: tuple[int, ...], capacity: int, policy: OutsidePolicy
) -> None:
    """Write the entry that each index names to an array of int64; -1 for none. The table has `capacity` of them."""
    lanes, numbers = array_of(call, "indices", indices), array_of(call, "out", out, written=True)
    index_type(call, lanes)
    order = order_of(call, _gpu(lanes), AUTO, lanes, numbers)
    within(order, None, resolve_into, call, numbers, lanes, capacity, np.broadcast_to(np.empty(()), shape), policy)


def _gpu(*arrays: Array) -> int | None:
    return next((array.gpu for array in arrays if on_gpu(array)), None)
