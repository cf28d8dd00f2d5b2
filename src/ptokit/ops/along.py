# pyright: strict
"""Gathers and scatters by element along an axis, and by coordinates: the shapes of ONNX, by the same indexed move."""

from __future__ import annotations

from functools import partial
from operator import index
from typing import Any, TypeVar

from ptokit.brief import brief
from ptokit.engines import AUTO
from ptokit.isa.policy import GatherOOB, ScatterAtomicOp, ScatterConflict, ScatterOOB
from ptokit.lang.faults import public
from ptokit.lang.launch import check_threads, refuse_inside
from ptokit.ops.call import GATHER_ALONG, GATHER_ND, SCATTER_ALONG, SCATTER_ND, ArrayCall
from ptokit.ops.forms import axis_of, gather_selected, scatter_selected
from ptokit.ops.lanes import Selection, along_elements, by_coordinates
from ptokit.ops.operands import Array
from ptokit.ops.synonyms import OutsidePolicy

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
    call = GATHER_ALONG.of(table=table, indices=indices, out=out)
    return gather_selected(call, table, indices, partial(_along, axis), oob, mode, out, engine, threads)


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
    call = SCATTER_ALONG.of(table=table, src=src, indices=indices)
    policies = (oob, atomic, conflict, accumulate, mode, reduce, include_self)
    scatter_selected(call, table, src, indices, partial(_along, axis), policies, engine, threads)
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
    call = GATHER_ND.of(table=table, indices=indices, out=out)
    return gather_selected(call, table, indices, partial(_coordinates, batch_dims), oob, mode, out, engine, threads)


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
    call = SCATTER_ND.of(table=table, src=src, indices=indices)
    policies = (oob, atomic, conflict, accumulate, mode, reduce, include_self)
    scatter_selected(call, table, src, indices, partial(_coordinates, batch_dims), policies, engine, threads)
    return table


def _begin(call: ArrayCall, threads: int | None) -> None:
    refuse_inside(call.name, call.instead)
    if threads is not None:
        check_threads(threads)


def _along(axis: object, call: ArrayCall, lanes: Array, table: Array, policy: OutsidePolicy) -> Selection:
    if not table.ndim or lanes.ndim != table.ndim:
        message = f"indices have as many dims as the table, at least one; found {lanes.ndim} and {table.ndim}"
        raise call.refused(call.same_shape, message, "reshape the indices", "indices", "H-09")
    at = axis_of(call, axis, table.ndim)
    if any(mine > n for dim, (mine, n) in enumerate(zip(lanes.shape, table.shape, strict=True)) if dim != at):
        message = f"indices {lanes.shape} are longer than the table {table.shape} in a dim other than axis {at}"
        raise call.refused(call.same_shape, message, "shorten the indices", "indices", "H-09")
    return along_elements(call, lanes, at, table, policy)


def _coordinates(batch: object, call: ArrayCall, lanes: Array, table: Array, policy: OutsidePolicy) -> Selection:
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
