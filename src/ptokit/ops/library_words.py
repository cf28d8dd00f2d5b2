# pyright: strict
"""Calls that need more than a plain one: other axes, `mode` and `reduce`, index types that are converted; elements
along an axis, entries by coordinates: the shapes of ONNX, by the same indexed move."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import index
from typing import Any, TypeVar

import numpy as np

from ptokit.brief import brief
from ptokit.engine.gpu import on_gpu
from ptokit.engines import AUTO
from ptokit.isa.policy import Coalesce, GatherOOB, ScatterAtomicOp, ScatterConflict, ScatterOOB
from ptokit.lang.arrays import within, writing
from ptokit.lang.faults import public
from ptokit.lang.launch import check_threads, refuse_inside
from ptokit.ops.array_call import (
    GATHER_ALONG,
    GATHER_ND,
    SCATTER_ALONG,
    SCATTER_ND,
    ArrayCall,
    OutsidePolicy,
    outside_policy,
    reduction,
)
from ptokit.ops.direct import new_function
from ptokit.ops.execute import Leading, check_out, entries, move_gather, order_of, spread
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
)
from ptokit.ops.reductions import (
    Arithmetic,
    Selection,
    along_axis,
    along_elements,
    by_coordinates,
    check_type,
    plain,
    reduce_into,
    resolve_into,
)

Select = Callable[[ArrayCall, Array, Array, OutsidePolicy], Selection]
"""The entries of a table that indices select: called with the call, the indices, the table and the policy."""


By = tuple[str, int | None]
"""The engine of a call, and its threads."""


def select(
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
    call: ArrayCall, table: object, indices: object, select: Select, oob: object, mode: object, out: object, by: By
) -> Any:
    """Gather the entries that are selected."""
    call, (engine, threads) = call.of(table=table, indices=indices, out=out), by
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
        how = call.name, Leading(named.dims), named.remap, engine
        if not named.rows:
            move_gather(call, source, named.lanes, target, how, threads)
            return result
        fresh = empty_like(target) if share_memory(target, source) else target
        for rows, numbers in named.parts():
            move_gather(call, source[rows], numbers, fresh[rows], how, threads)
        if fresh is not target:
            copy_into(target, fresh)
        return result

    return within(order, notified, run)


def _result(
    call: ArrayCall,
    table: object,
    source: Array,
    named: Selection,
    given: Array | None,
    out: Any,
) -> tuple[Any, Array]:
    """The result of a gather, as the user has it and as an array: what was given, or a new one."""
    kind, shape = type_of(call, "table", source), named.shape + source.shape[named.dims :]
    if given is None:
        out, _ = new_function(table, on_gpu(source))(table, shape, kind.numpy)
        return out, array_of(call, "out", out)
    check_out(call, given, kind, shape)
    return out, given


def scatter_selected(
    call: ArrayCall, table: object, src: object, indices: object, select: Select, policies: tuple[Any, ...], by: By
) -> None:
    """Scatter to the entries that are selected."""
    call = call.of(table=table, src=src, indices=indices)
    oob, atomic, conflict, accumulate, mode, reduce, include_self = policies
    policy = outside_policy(call, ScatterOOB, oob, mode)
    if not isinstance(include_self, bool):
        message = f"include_self is True or False; found {brief(include_self)}"
        raise call.refused("A-30", message, "pass a bool", "include_self", "H-39")
    arithmetic = Arithmetic(call, reduction(call, atomic, reduce), include_self, conflict, accumulate, *by)
    target = array_of(call, "table", table, written=True)
    lanes = indices_of(call, indices, target)
    source = source_of(call, src, target)
    index_type(call, lanes)
    order = order_of(call, _gpu(target, lanes), by[0], target, lanes, source)
    notified = None if target is table else writing((table,))

    def run() -> None:
        kind = type_of(call, "table", target)
        check_type(kind, arithmetic)
        named = select(call, lanes, target, policy)
        if not named.rows:
            reduce_into(target, source, named, arithmetic)
            return
        values = spread(call, source, kind, named.shape + target.shape[named.dims :])
        values = packed_copy(values) if share_memory(values, target) else values
        for rows, numbers in named.parts():
            part = Selection(numbers, named.dims, named.remap, numbers.shape)
            reduce_into(target[rows], values[rows], part, arithmetic)

    within(order, notified, run)


def number_entries(
    call: ArrayCall, indices: object, out: object, shape: tuple[int, ...], capacity: int, policy: OutsidePolicy
) -> None:
    """Write the entry that each index names to an array of int64; -1 for none. The table has `capacity` of them."""
    lanes, numbers = array_of(call, "indices", indices), array_of(call, "out", out, written=True)
    index_type(call, lanes)
    order = order_of(call, _gpu(lanes), AUTO, lanes, numbers)
    table = np.broadcast_to(np.empty(()), shape)
    within(order, None, resolve_into, call, numbers, lanes, capacity, table, policy)


def _gpu(*arrays: Array) -> int | None:
    return next((array.gpu for array in arrays if on_gpu(array)), None)


# --- along an axis, and by coordinates -------------------------------------------------------------------------------


Table = TypeVar("Table")


@public
def gather_along(
    table: object,
    indices: object,
    *,
    axis: int = 0,
    oob: str | GatherOOB = "undefined",
    out: object = None,
    engine: str = AUTO,
    threads: int | None = None,
    mode: str | None = None,
) -> Any:
    """The elements of `table` at the positions of `indices`, with the index in place of the position along `axis`.

    `indices` has as many dims as the table, and is not longer in those other than `axis`; the result has its shape.
    The other arguments are those of `gather`. ONNX GatherElements and `torch.gather` have these shapes.
    """
    _begin(GATHER_ALONG, threads)
    return gather_selected(GATHER_ALONG, table, indices, partial(along, axis), oob, mode, out, (engine, threads))


@public
def scatter_along(
    table: Table,
    src: object,
    indices: object,
    *,
    axis: int = 0,
    oob: str | ScatterOOB = "undefined",
    atomic: str | ScatterAtomicOp = "none",
    conflict: str | ScatterConflict = "last",
    accumulate: object = None,
    engine: str = AUTO,
    threads: int | None = None,
    mode: str | None = None,
    reduce: str | None = None,
    include_self: bool = True,
) -> Table:
    """Write `src` to the elements of `table` that `gather_along` would read; returns `table`.

    `src` has the shape of `indices` or broadcasts to it. The other arguments are those of `scatter`. ONNX
    ScatterElements and `torch.scatter` have these shapes.
    """
    _begin(SCATTER_ALONG, threads)
    policies = (oob, atomic, conflict, accumulate, mode, reduce, include_self)
    scatter_selected(SCATTER_ALONG, table, src, indices, partial(along, axis), policies, (engine, threads))
    return table


@public
def gather_nd(
    table: object,
    indices: object,
    *,
    batch_dims: int = 0,
    oob: str | GatherOOB = "undefined",
    out: object = None,
    engine: str = AUTO,
    threads: int | None = None,
    mode: str | None = None,
) -> Any:
    """The entries of `table` at the coordinates that the last dim of `indices` holds.

    The first `batch_dims` dims are the same in both. The result has the shape of `indices` without its last dim,
    followed by the dims of the table behind the coordinates. The other arguments are those of `gather`. ONNX GatherND
    has these shapes.
    """
    _begin(GATHER_ND, threads)
    return gather_selected(
        GATHER_ND, table, indices, partial(coordinates, batch_dims), oob, mode, out, (engine, threads)
    )


@public
def scatter_nd(
    table: Table,
    src: object,
    indices: object,
    *,
    batch_dims: int = 0,
    oob: str | ScatterOOB = "undefined",
    atomic: str | ScatterAtomicOp = "none",
    conflict: str | ScatterConflict = "last",
    accumulate: object = None,
    engine: str = AUTO,
    threads: int | None = None,
    mode: str | None = None,
    reduce: str | None = None,
    include_self: bool = True,
) -> Table:
    """Write `src` to the entries of `table` that `gather_nd` would read; returns `table`.

    `src` has the shape of what `gather_nd` returns, or broadcasts to it. The other arguments are those of `scatter`.
    ONNX ScatterND has these shapes, without `batch_dims`.
    """
    _begin(SCATTER_ND, threads)
    policies = (oob, atomic, conflict, accumulate, mode, reduce, include_self)
    scatter_selected(SCATTER_ND, table, src, indices, partial(coordinates, batch_dims), policies, (engine, threads))
    return table


def _begin(call: ArrayCall, threads: int | None) -> None:
    refuse_inside(call.name, call.instead)
    if threads is not None:
        check_threads(threads)


def along(axis: object, call: ArrayCall, lanes: Array, table: Array, policy: OutsidePolicy) -> Selection:
    """Elements along an axis, at their own positions otherwise."""
    if not table.ndim or lanes.ndim != table.ndim:
        message = f"indices have as many dims as the table, at least one; found {lanes.ndim} and {table.ndim}"
        raise call.refused(call.same_shape, message, "reshape the indices", "indices", "H-09")
    at = axis_of(call, axis, table.ndim)
    if any(mine > n for dim, (mine, n) in enumerate(zip(lanes.shape, table.shape, strict=True)) if dim != at):
        message = f"indices {lanes.shape} are longer than the table {table.shape} in a dim other than axis {at}"
        raise call.refused(call.same_shape, message, "shorten the indices", "indices", "H-09")
    return along_elements(call, lanes, at, table, policy)


def coordinates(batch: object, call: ArrayCall, lanes: Array, table: Array, policy: OutsidePolicy) -> Selection:
    """Entries at coordinates."""
    try:
        count = index(batch)  # type: ignore[arg-type]
    except TypeError:
        count = -1
    if not 0 <= count < max(1, min(lanes.ndim, table.ndim)) or lanes.shape[:count] != table.shape[:count]:
        message = (
            f"batch_dims counts dims that indices {lanes.shape} and table {table.shape} share; found {brief(batch)}"
        )
        raise call.refused(
            call.same_shape, message, "leave batch_dims out, or reshape the arrays", "batch_dims", "H-09"
        )
    if not lanes.ndim or not 1 <= lanes.shape[-1] <= table.ndim - count:
        message = f"the last dim of indices {lanes.shape} holds 1 to {table.ndim - count} coordinates"
        raise call.refused(call.same_shape, message, "give indices a last dim of coordinates", "indices", "H-09")
    return by_coordinates(call, lanes, count, table, policy)
