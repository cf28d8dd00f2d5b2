"""Scatters with products and means, and without the values that cells had: operators, gradients, batches.

The kernels are `ptokit.scatter`. The gradient of a product needs, for each lane, the product of the other factors of
its cell. It is computed without a division, so that zeros are factors as all others.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ptokit.ops.calls import scatter
from ptokit.torch.dispatch import Context, TensorOperator, is_plain
from ptokit.torch.operators import (
    ENDS,
    GATHER,
    GRADIENTS,
    OPTIONS,
    SCATTER,
    WRITTEN,
    Gradients,
    added,
    cleared,
    in_place_batch,
    keep_policies,
    nothing,
    scatter_batch,
    scattered_shape,
    sum_to,
    wide,
)
from ptokit.torch.remap import OUTSIDE, ROW, capacity_of, entry_of, quiet, resolved

_GIVEN = f'{WRITTEN}str reduce="add", {ENDS}, bool include_self=True'
REDUCE_OPTIONS = (*("reduce" if name == "atomic" else name for name in OPTIONS), "include_self")


def _run_(table: Tensor, src: Tensor, indices: Tensor, *given: Any) -> None:
    """The kernel of `scatter_reduce_`."""
    scatter(table, src, indices, **dict(zip(REDUCE_OPTIONS, given, strict=True)))


def _run(table: Tensor, src: Tensor, indices: Tensor, *given: Any) -> Tensor:
    """The kernel of `scatter_reduce`."""
    made = table.detach().clone(memory_format=torch.contiguous_format)
    _run_(made, src, indices, *given)
    return made


REDUCE = TensorOperator(
    "scatter_reduce", f"(Tensor table, Tensor src, Tensor indices, {_GIVEN}) -> Tensor", _run, scattered_shape, slice(3)
)
REDUCE_IN_PLACE = TensorOperator(
    "scatter_reduce_", f"(Tensor(a!) table, Tensor src, Tensor indices, {_GIVEN}) -> ()", _run_, nothing, slice(3)
)


# --- gradients -------------------------------------------------------------------------------------------------------


def _save(ctx: Context, inputs: tuple[Any, ...], output: Tensor) -> None:
    table, src, indices, coalesce, oob, ctx.reduce, _, _, *how, include_self = inputs
    kept = {"mul": (table, src), "max": (table, src, output), "min": (table, src, output)}.get(ctx.reduce, ())
    ctx.save_for_backward(indices, *kept)
    keep_policies(ctx, table, src, coalesce, oob, how)
    ctx.include_self = include_self


def _backward(ctx: Context, grad: Tensor) -> tuple[Any, ...]:
    indices, *kept = ctx.saved_tensors
    return *REDUCED[ctx.reduce](ctx, grad, quiet(indices, ctx.written[1]), *kept), *[None] * 9


def _mean(ctx: Context, grad: Tensor, indices: Tensor) -> Gradients:
    """That of a sum, divided by the number of values."""
    coalesce, oob = ctx.written
    counts = torch.zeros(capacity_of(ctx.shape, coalesce), dtype=torch.int64, device=grad.device)
    counts = SCATTER(counts, counts.new_ones(()), indices, ROW, oob, "add", "last", None, *ctx.how)
    counts = counts + 1 if ctx.include_self else counts.clamp(min=1)
    shape = [ctx.shape[0], *[1] * (len(ctx.shape) - 1)] if coalesce == ROW else ctx.shape
    whole = _wider(grad)
    return added(ctx, (whole / counts.view(shape).to(whole.dtype)).to(grad.dtype), indices)


def _multiplied(ctx: Context, grad: Tensor, indices: Tensor, table: Tensor, src: Tensor) -> Gradients:
    """Every factor of a cell has the gradient of the cell, multiplied by the other factors."""
    of_table = of_src = None
    if ctx.needs_input_grad[0] and not ctx.include_self:
        of_table = cleared(ctx, grad, indices)
    elif ctx.needs_input_grad[0]:
        ones = torch.ones_like(_wider(table))
        factors = REDUCE(ones, _wider(src), indices, *ctx.written, "mul", "last", None, *ctx.how, True)
        of_table = (_wider(grad) * factors).to(grad.dtype)
    if ctx.needs_input_grad[1]:
        above = _wider(grad) * _wider(table) if ctx.include_self else _wider(grad)
        of_src = sum_to(_times_others(ctx, above, indices, _wider(src)), ctx.src).to(grad.dtype)
    return of_table, of_src


REDUCED = {**GRADIENTS, "mean": _mean, "mul": _multiplied}


def _wider(values: Tensor) -> Tensor:
    """Floats narrower than float32 as float32."""
    return values.float() if wide(values.dtype) else values


def _times_others(ctx: Context, above: Tensor, indices: Tensor, src: Tensor) -> Tensor:
    """What each lane reads of a table, multiplied by the other lanes of its cell; 0 for lanes outside."""
    coalesce, oob = ctx.written
    entry, count = entry_of(ctx.shape, coalesce), indices.numel()
    cells = resolved(indices.reshape(count), capacity_of(ctx.shape, coalesce), oob)
    alone = OUTSIDE - torch.arange(count, device=cells.device)
    cells = torch.where(cells == OUTSIDE, alone, cells)  # lanes outside share no cell
    order = torch.argsort(cells, stable=True)
    lanes = GATHER(_spread(src, [*indices.shape, *entry]).reshape(count, *entry), order, ROW, "zero", *ctx.how)
    cells = cells.gather(0, order)
    others = _before(lanes, cells) * _before(lanes.flip(0), cells.flip(0)).flip(0)
    is_inside = (cells >= 0).view(count, *[1] * len(entry))
    read = GATHER(above, indices, *ctx.read).reshape(count, *entry)
    made = torch.where(is_inside, GATHER(read, order, ROW, "zero", *ctx.how) * others, 0)
    return GATHER(made, torch.argsort(order), ROW, "zero", *ctx.how).reshape([*indices.shape, *entry])


def _spread(src: Tensor, shape: list[int]) -> Tensor:
    """A source broadcast to a shape by a gather, whose gradient is summed in order."""
    if list(src.shape) == shape:
        return src
    numbers = torch.arange(src.numel(), device=src.device).view(src.shape).expand(shape)
    return GATHER(src, numbers, "elem", "zero", "auto", None)


def _before(values: Tensor, cells: Tensor) -> Tensor:
    """For each lane, the product of the lanes before it that have its cell; lanes are sorted by cell.

    In round k, a lane is multiplied by the one 2**k before it: products double their length.
    """
    count, step, is_first = values.shape[0], 1, True
    made = torch.ones_like(values)
    while step < count:
        shared = cells[step:] == cells[:-step]
        if is_plain(values) and not shared.any():
            break
        shared = shared.view(count - step, *[1] * (values.dim() - 1))
        if is_first:
            made, is_first = torch.cat([made[:1], torch.where(shared, values[:-1], 1)]), False
            continue
        made = torch.cat([made[:step], torch.where(shared, made[:-step] * made[step:], made[step:])])
        step *= 2
    return made


REDUCE.differentiate(_save, _backward, scatter_batch)
REDUCE_IN_PLACE.batch(in_place_batch(REDUCE))
