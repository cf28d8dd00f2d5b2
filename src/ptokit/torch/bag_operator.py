"""Embedding bags: the operator of bags with its gradient, `embedding_bag`; segments: bags of rows in their order."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ptokit.lang.gpu import of_tensor
from ptokit.lang.launch import check_threads, refuse_captured
from ptokit.torch.bag_gradients import gradients
from ptokit.torch.bag_kernel import FEW_BOUNDS, PICKS, bag_shape, check_mode, divided, fused_bags, run_bag, weakest
from ptokit.torch.dispatch import (
    Batch,
    TensorOperator,
    check_tensor,
    is_compiling,
    is_followed,
    is_plain,
    is_watched,
    keep,
    renamed,
    whole_number,
)
from ptokit.torch.indexed import as_indices, scatter
from ptokit.torch.operators import HOW, SCATTER_ZEROS, wide
from ptokit.torch.remap import ROW
from ptokit.torch.updates import Followed, Update, is_updated, looked_up

SCHEMA = (
    "(Tensor table, Tensor? indices, Tensor offsets, Tensor? weights, str reduce, int padding, bool lanes=True, "
    f"bool closed=True, {HOW}) -> (Tensor, Tensor)"
)
IN_WEIGHT = "keep indices from 0 up and below the number of rows of weight"
"""The advice for an index that is refused."""
BAG = TensorOperator("bag", SCHEMA, run_bag, bag_shape, slice(4))


def _save_bag(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    """What the gradient of `bag` needs."""
    table, indices, offsets, weights, ctx.reduce, ctx.padding, _, ctx.closed, *ctx.how = inputs
    ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads(False)  # lanes would get zeros
    ctx.shape, ctx.given = table.shape, (indices is not None, weights is not None)
    needs_rows = weights is not None and ctx.needs_input_grad[3]
    keep(ctx, indices, offsets, weights, output[1], table if needs_rows else None)


def _bag_tangent(ctx: Any, of_table: Tensor | None, _indices: Any, _offsets: Any, of_weights: Any) -> tuple[Any, None]:
    """Bags of the table's tangent; sums and means have such."""
    if ctx.reduce in PICKS or of_weights is not None:
        what = "per_sample_weights" if of_weights is not None else f'mode="{ctx.reduce}"'
        raise NotImplementedError(f"bags have no forward-mode derivative for {what}; use reverse mode")
    indices, offsets, weights, *_ = ctx.saved_tensors
    given = of_table, indices, offsets, weights, ctx.reduce, ctx.padding, False, ctx.closed, *ctx.how
    return None if of_table is None else BAG(*given)[0], None


def _bag_backward(ctx: Any, grad: Tensor | None, _lanes: Any) -> tuple[Any, ...]:
    """Pass the gradient of a bag to its rows, and to those of the table in the order of the lanes."""
    if grad is None:
        return (None,) * 10
    indices, offsets, weights, winners, table = ctx.saved_tensors
    needs = ctx.needs_input_grad[0], weights is not None and ctx.needs_input_grad[3]
    of_table, of_weights = gradients(ctx, grad, indices, offsets, weights, winners, table, needs)
    return of_table, None, None, of_weights, *[None] * 6


def _bag_batch(call: Any, info: Any, dims: Batch, *given: Any) -> tuple[Any, Any]:
    """One call for each element of the batch."""
    made = [
        call(*(each if at is None else each.select(at, k) for each, at in zip(given, dims, strict=True)))
        for k in range(info.batch_size)
    ]
    return tuple(torch.stack(each) for each in zip(*made, strict=True)), (0, 0)


BAG.differentiate(_save_bag, _bag_backward, _bag_batch, _bag_tangent)


def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,  # noqa: ARG001
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
    *,
    engine: str = "auto",
    threads: int | None = None,
) -> Tensor:
    """Sums, means, greatest or least of bags of rows of `weight`: `torch.nn.functional.embedding_bag` in a fixed order.

    A bag is a row of a 2-D `input`, or what lies between two `offsets` of a 1-D one. Sums start with 0 and are taken
    row after row, each weighted row rounded first; those of floats narrower than float32 are taken in float32 and
    rounded once. A mean is the sum divided by the number of rows. Rows of `padding_idx` do not count; an empty bag has
    zeros. The greatest and the least are those of `scatter`, and pass gradients to the first row that has the value.
    With `sparse`, the gradient of `weight` is a coalesced sparse tensor of the rows that were read, in ascending order.
    `max_norm`, with its `norm_type`, and `scale_grad_by_freq` are refused.
    """
    refuse_options(max_norm, scale_grad_by_freq)
    options = mode, per_sample_weights, include_last_offset, padding_idx, engine, threads
    return bag_of(input, weight, offsets, *options, (None, None) if sparse else None)


def bag_of(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None,
    mode: str,
    per_sample_weights: Tensor | None,
    include_last_offset: bool,
    padding_idx: int | None,
    engine: str = "auto",
    threads: int | None = None,
    update: Update | None = None,
) -> Tensor:
    """`embedding_bag`; `update` is what backward does to the table instead of a dense gradient."""
    if padding_idx is not None:
        padding_idx = whole_number("padding_idx", padding_idx)
    if threads is not None and not is_compiling():
        threads = check_threads(threads)
    if offsets is not None and not is_watched(weight, input, offsets, per_sample_weights):
        options = mode, padding_idx, False, bool(include_last_offset), engine, threads
        found = _fused((weight, input, offsets, per_sample_weights), options)
        if found is not None:
            return found
    check_tensor("weight", weight)
    check_tensor("per_sample_weights", per_sample_weights)
    input = as_indices(input, weight)
    offsets = None if offsets is None else as_indices(offsets, weight)
    check_mode(mode, weight)
    if per_sample_weights is not None and mode != "sum":
        raise ValueError(f'per_sample_weights are for mode="sum"; found mode="{mode}"')
    lanes, bounds = _lanes_and_bounds(input, offsets)
    closed = offsets is None or bool(include_last_offset)
    if per_sample_weights is not None:
        if per_sample_weights.shape != input.shape:
            shapes = f"{tuple(per_sample_weights.shape)} for {tuple(input.shape)}"
            raise ValueError(f"per_sample_weights have the shape of input; found {shapes}")
        per_sample_weights = per_sample_weights.reshape(-1)
    padding = -1 if padding_idx is None else as_padding(padding_idx, len(weight))
    how = is_followed(weight), closed, engine, threads
    operands = weight, lanes, bounds, per_sample_weights
    name = "input" if input.dim() == 1 else "input.flatten()"

    def read() -> Any:
        return renamed("embedding_bag", name, IN_WEIGHT, BAG, *operands, mode, padding, *how)

    if update is not None and is_updated(update, weight):
        what = Followed(mode, padding, closed, (engine, threads), *update)
        return looked_up(weight, per_sample_weights, lanes, bounds, what, read)
    return read()[0]


def refuse_options(max_norm: object, scale_grad_by_freq: object) -> None:
    """Refuse what PyTorch's functions have and these do not."""
    if max_norm is not None:
        raise ValueError(
            "max_norm is refused: it writes rows of weight in the forward pass, which gradients and other calls on the "
            "same table then read; use torch.renorm on the rows, under torch.no_grad(), or torch.nn's"
        )
    if scale_grad_by_freq:
        raise ValueError(
            "scale_grad_by_freq is refused: gradients are sums in the order of the indices; divide the gradient by "
            "torch.bincount(input) instead, or use torch.nn's"
        )


def _fused(operands: tuple[Any, ...], options: tuple[Any, ...]) -> Tensor | None:
    """The result of bags of a kind that was planned, if autograd need not record it; None for others."""
    (weight, lanes, bounds, weights), (mode, padding, *others) = operands, options
    if lanes.dim() != 1 or (weights is not None and (mode != "sum" or weights.shape != lanes.shape)):
        return None
    padding = -1 if padding is None else as_padding(padding, len(weight))
    found = fused_bags((weight, lanes, bounds, weights), (mode, padding, *others))
    return None if found is None else found[0]


def as_padding(given: int, rows: int) -> int:
    """The index that does not count; a negative one counts from the end."""
    if not -rows <= given < rows:
        raise ValueError(f"padding_idx is from {-rows} to {rows - 1} for {rows} rows; found {given}")
    return given % rows


def _lanes_and_bounds(indices: Tensor, offsets: Tensor | None) -> tuple[Tensor, Tensor]:
    """The indices of all bags, and where each begins; for a 2-D input, also where the last one ends."""
    if indices.dim() == 2:
        if offsets is not None:
            raise ValueError("a 2-D input has a bag in each row; pass no offsets")
        bags, size = indices.shape
        if is_plain(indices) and size:  # one kernel; compilers would not know how many numbers there are
            return indices.reshape(-1), torch.arange(0, bags * size + 1, size, device=indices.device)
        return indices.reshape(-1), torch.arange(bags + 1, device=indices.device).mul_(size)
    if indices.dim() != 1 or offsets is None or offsets.dim() != 1:
        raise ValueError("input has two dims, or one dim with offsets of one dim")
    return indices, as_numbers("offsets", offsets)


def as_numbers(name: str, given: Tensor) -> Tensor:
    """A tensor of integers as int64."""
    if given.dtype is torch.int64 and given.dim() == 1:
        return given
    if given.dim() != 1 or given.is_floating_point() or given.is_complex() or given.dtype is torch.bool:
        raise ValueError(f"{name} are integers of one dim; found {given.dtype} of shape {tuple(given.shape)}")
    return given.to(torch.int64)


# --- segments --------------------------------------------------------------------------------------------------------


MANY_IDS = 1024
"""Ids from which on it is worth the time to see whether they are sorted."""

IN_SEGMENTS = "pass ids from 0 up, and num_segments above the greatest"
"""The advice for an id that is refused."""


def segment_reduce(
    values: Tensor,
    reduce: str = "sum",
    *,
    lengths: Tensor | None = None,
    segment_ids: Tensor | None = None,
    num_segments: int | None = None,
    engine: str = "auto",
    threads: int | None = None,
) -> Tensor:
    """Sums, means, greatest or least of segments of the rows of `values`, each in the order of its rows.

    Segments are given by their `lengths`, or by the segment of each row, sorted or not: `segment_ids`, from 0 to
    `num_segments`. An empty segment has zeros.
    """
    check_mode(reduce, values, "reduce")
    if not values.dim():
        raise ValueError("values have a dim of rows; found none")
    if (lengths is None) is (segment_ids is None):
        raise ValueError("pass lengths or segment_ids")
    if lengths is not None:
        bounds, closed = _bounds_of(as_numbers("lengths", as_indices(lengths, values)))
        return BAG(values, None, bounds, None, reduce, -1, is_followed(values), closed, engine, threads)[0]
    segment_ids = as_numbers("segment_ids", as_indices(segment_ids, values))
    if segment_ids.shape[0] != values.shape[0]:
        raise ValueError(f"each of the {values.shape[0]} rows has a segment; found {segment_ids.shape[0]}")
    if num_segments is None:
        if values.is_cuda and not is_compiling():
            given = [of_tensor(segment_ids)]
            refuse_captured("segment_reduce", given, "the host waits for the greatest id", "pass num_segments")
        num_segments = int(segment_ids.max()) + 1 if segment_ids.numel() else 0
    num_segments = whole_number("num_segments", num_segments)
    given = values, segment_ids, num_segments, reduce, (engine, threads)
    return renamed("segment_reduce", "segment_ids", IN_SEGMENTS, _by_ids, *given)


def _bounds_of(lengths: Tensor) -> tuple[Tensor, bool]:
    """Where each segment begins, and whether the end of the last one is there, too: on a GPU, where it would not be
    checked, it takes two kernels more."""
    if lengths.is_cuda:
        return lengths.cumsum(0).sub_(lengths), False
    if is_plain(lengths) and lengths.is_cpu and lengths.numel() <= FEW_BOUNDS:
        return torch.tensor([0, *accumulate(lengths.tolist())]), True
    return torch.cat([lengths.new_zeros(1), lengths.cumsum(0)]), True


def _by_ids(values: Tensor, ids: Tensor, segments: int, reduce: str, how: tuple[Any, ...]) -> Tensor:
    bounds = _sorted_bounds(values, ids, segments)
    if bounds is not None:
        return BAG(values, None, bounds, None, reduce, -1, is_followed(values), True, *how)[0]
    shape, narrow = [segments, *values.shape[1:]], wide(values.dtype)
    if reduce == "sum":
        return SCATTER_ZEROS(values, ids, shape, ROW, "undefined", narrow, *how)
    counts = SCATTER_ZEROS(torch.ones_like(ids, dtype=torch.int64), ids, [segments], ROW, "undefined", None, *how)
    if reduce == "mean":  # sums of narrow floats may be out of range
        sums = SCATTER_ZEROS(values.float() if narrow else values, ids, shape, ROW, "undefined", None, *how)
        return divided(sums, counts).to(values.dtype)
    engine, threads = how
    none = values.new_full(shape, weakest(values.dtype, reduce))
    found = scatter(none, values, ids, atomic=reduce, engine=engine, threads=threads)
    return torch.where(counts.view(-1, *[1] * (values.dim() - 1)) == 0, found.new_zeros(()), found)


def _sorted_bounds(values: Tensor, ids: Tensor, segments: int) -> Tensor | None:
    """Where each segment begins and the last one ends, if many ids on the CPU are sorted and valid; else None.

    Rows that lie side by side are summed in registers, with the same bits.
    """
    if not (is_plain(ids) and is_plain(values) and ids.is_cpu and values.is_cpu) or ids.dim() != 1 or ids.is_neg():
        return None
    if len(ids) < MANY_IDS or len(ids) < segments or not values.dim() or len(values) != len(ids):
        return None
    found = ids.numpy()
    if found[0] < 0 or found[-1] >= segments or (found[1:] < found[:-1]).any():
        return None
    return torch.from_numpy(np.searchsorted(found, np.arange(segments + 1)))


def segment_sum(values: Tensor, **given: Any) -> Tensor:
    """`segment_reduce` with `"sum"`."""
    return segment_reduce(values, "sum", **given)


def segment_mean(values: Tensor, **given: Any) -> Tensor:
    """`segment_reduce` with `"mean"`."""
    return segment_reduce(values, "mean", **given)


def segment_max(values: Tensor, **given: Any) -> Tensor:
    """`segment_reduce` with `"max"`."""
    return segment_reduce(values, "max", **given)


def segment_min(values: Tensor, **given: Any) -> Tensor:
    """`segment_reduce` with `"min"`."""
    return segment_reduce(values, "min", **given)
