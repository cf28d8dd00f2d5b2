"""Gradients of bags: that of the table in one call of an engine where nothing follows it, or part by part."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from math import prod
from typing import Any

import torch
from torch import Tensor

from ptokit.engine.bag_arguments import BagGradients
from ptokit.engine.runnable import Unsupported
from ptokit.engines import ENGINES, bag_gradients, chosen, in_order, ordering
from ptokit.lang.gpu import new_tensor, of_tensor
from ptokit.lang.launch import refuse_captured
from ptokit.torch.bag_kernel import INDEX_TYPES, KINDS, PICKS, bags_of, counts_of, divided, packed
from ptokit.torch.dispatch import is_grad_enabled, is_plain
from ptokit.torch.operators import GATHER, SCATTER_ZEROS, sum_first, wide
from ptokit.torch.remap import OUTSIDE, ROW, as_whole

ORDERINGS: dict[int, Callable[[], bool]] = {}
"""Of each GPU: whether work is in the order of torch's current stream anyway."""


def gradients(
    ctx: Any,
    grad: Tensor,
    indices: Tensor | None,
    offsets: Tensor,
    weights: Tensor | None,
    winners: Tensor,
    table: Tensor | None,
    needs: tuple[bool, bool],
) -> tuple[Tensor | None, Tensor | None]:
    """The gradients of the table and of the weights of bags, as far as they are needed; `ctx` has their options."""
    needs_table, needs_weights = needs
    of_table = gradient_of_table(ctx, grad, indices, offsets, weights, winners) if needs_table else None
    of_weights, is_left = None, needs_table and of_table is None
    if ctx.reduce in PICKS:
        of_table = passed_to_winners(ctx, grad, indices, winners) if is_left else of_table
    elif is_left or needs_weights:
        rows = passed_to_lanes(ctx, grad, indices, offsets)
        if needs_weights:
            assert table is not None
            read = table if indices is None else GATHER(table, indices, ROW, "zero", *ctx.how)
            of_weights = sum_first((read * rows).reshape(len(rows), prod(ctx.shape[1:])).t())
        if is_left:
            of_table = passed_to_rows(ctx, rows, indices, weights)
    return of_table, of_weights


def gradient_of_table(
    ctx: Any, grad: Tensor, indices: Tensor | None, offsets: Tensor, weights: Tensor | None, winners: Tensor
) -> Tensor | None:
    """The gradient of the table of `bag`, with the bits of its parts; None if these must be taken one by one.

    That is so where autograd, a transform or a compiler follows them, and where no engine has such a call.
    """
    run = _function_of(ctx, grad)
    if run is None or indices is None or indices.dtype not in INDEX_TYPES:
        return None
    is_picked = ctx.reduce in PICKS
    if not (indices.numel() and grad.numel()) or (is_picked and winners.numel() != grad.numel()):
        return None
    out, bags = new_tensor(grad, ctx.shape), len(grad)
    grad, indices, offsets, winners = packed(grad), packed(indices), packed(offsets), packed(winners)
    weights = None if weights is None else packed(weights.to(grad.dtype))
    given = BagGradients(
        dtype=KINDS[grad.dtype],
        index_type=INDEX_TYPES[indices.dtype],
        width=grad.numel() // bags,
        capacity=len(out),
        bags=bags,
        lanes=indices.numel(),
        padding=ctx.padding,
        grad=grad.data_ptr(),
        indices=indices.data_ptr(),
        bounds=offsets.data_ptr(),
        weights=0 if weights is None else weights.data_ptr(),
        winners=winners.data_ptr() if is_picked else 0,
        out=out.data_ptr(),
        mean=ctx.reduce == "mean",
        closed=ctx.closed,
    )
    try:
        with in_stream("the gradient of bags", grad):
            run(given)
    except Unsupported:
        return None
    return out


def _function_of(ctx: Any, grad: Tensor) -> Callable[[BagGradients], None] | None:
    """The function of the engine of a call, if there is one and a gradient can be passed to it."""
    if is_grad_enabled() or not is_plain(grad) or grad.dtype not in KINDS:
        return None
    if ctx.reduce == "mean" and ctx.padding >= 0:  # which lanes count would have to be counted first
        return None
    name = chosen(ctx.how[0], grad.is_cuda)
    return bag_gradients(name) if ENGINES[name].on_gpu is grad.is_cuda else None


def in_stream(name: str, tensor: Tensor) -> AbstractContextManager[object]:
    """A block whose work is done in the order of torch's current stream, by the device of a tensor."""
    if not tensor.is_cuda:
        return nullcontext()
    is_in_order = ORDERINGS.get(tensor.get_device())
    if is_in_order is None:
        is_in_order = ORDERINGS[tensor.get_device()] = ordering([of_tensor(tensor)])
    if is_in_order():
        return nullcontext()
    refuse_captured(name, [of_tensor(tensor)])
    return in_order([of_tensor(tensor)]) or nullcontext()


def passed_to_lanes(ctx: Any, grad: Tensor, indices: Tensor | None, offsets: Tensor) -> Tensor:
    """The gradient of the bag of each lane; zeros for lanes that do not count."""
    lanes = ctx.shape[0] if indices is None else indices.numel()
    if ctx.reduce == "mean":
        grad = of_mean(grad, counts_of(indices, offsets, lanes, ctx.closed, ctx.padding, *ctx.how))
    ids = bags_of(offsets, lanes, ctx.closed)
    if indices is not None and ctx.padding >= 0:
        ids = torch.where(indices == ctx.padding, OUTSIDE, ids)
    return GATHER(grad, ids, ROW, "zero", *ctx.how)


def passed_to_rows(ctx: Any, rows: Tensor, indices: Tensor | None, weights: Tensor | None) -> Tensor:
    """The gradients of lanes, times their weights, to the rows that they name."""
    if weights is not None:
        rows = rows * weights.to(rows.dtype).view(-1, *[1] * (rows.dim() - 1))
    if indices is None:
        return rows
    return SCATTER_ZEROS(rows, indices, list(ctx.shape), ROW, "skip", wide(rows.dtype), *ctx.how)


def passed_to_winners(ctx: Any, grad: Tensor, indices: Tensor | None, winners: Tensor) -> Tensor:
    """The gradient of each element to the row of its lane."""
    width = prod(ctx.shape[1:])
    rows = winners.to(torch.int64)
    if indices is not None:
        rows = GATHER(as_whole(indices), winners, ROW, "zero", *ctx.how)
    columns = torch.arange(width, device=grad.device).view(1, *grad.shape[1:])
    cells = torch.where(winners < 0, OUTSIDE, rows * width + columns)
    return SCATTER_ZEROS(grad, cells, list(ctx.shape), "elem", "skip", wide(grad.dtype), *ctx.how)


def of_mean(grad: Tensor, counts: Tensor) -> Tensor:
    """The gradient of each lane of bags, of which so many count, from those of their means."""
    return divided(grad.float() if wide(grad.dtype) else grad, counts).to(grad.dtype)
