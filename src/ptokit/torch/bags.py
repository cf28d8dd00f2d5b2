"""Embedding bags and segments: rows that are gathered and reduced, in the order of the lanes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ptokit.engine.bags import Bags
from ptokit.engine.kept import remember
from ptokit.engine.runnable import Unsupported
from ptokit.engines import bags, chosen, in_order, repeated_bags
from ptokit.isa.dtype import dtype
from ptokit.isa.move import Combine
from ptokit.lang.gpu import of_tensor
from ptokit.lang.launch import check_threads
from ptokit.torch.dispatch import Batch, TensorOperator, is_followed, is_plain
from ptokit.torch.indexed import as_indices, scatter
from ptokit.torch.operators import (
    GATHER,
    HOW,
    SCATTER_ZEROS,
    run_gather,
    run_scatter_,
    run_scatter_zeros,
    same_bits,
    sum_first,
    wide,
)
from ptokit.torch.quick import MOST_CALLS, without_memory
from ptokit.torch.remap import OUTSIDE, ROW, as_whole

KINDS = {
    getattr(torch, name): dtype(name)
    for name in ("float16", "bfloat16", "float32", "float64", "int8", "uint8", "int16", "int32", "int64")
}
"""The types of tables that engines reduce in one pass."""
INDEX_TYPES = {getattr(torch, name): dtype(name) for name in ("int32", "uint32", "int64")}
COMBINES = {"sum": Combine.ADD, "mean": Combine.ADD, "max": Combine.MAX, "min": Combine.MIN}
PICKS = ("max", "min")
"""Reductions of which each element comes from one lane."""
MOST_LANES = 1 << 31
FEW_BOUNDS = 256
"""Bounds that are checked as a list: NumPy takes longer to begin."""
SCHEMA = (
    f"(Tensor table, Tensor? indices, Tensor offsets, Tensor? weights, str reduce, int padding, bool lanes=True, {HOW})"
)
MANY_IDS = 1024
"""Ids from which on it is worth the time to see whether they are sorted."""


# --- the operator ----------------------------------------------------------------------------------------------------


def run_bag(
    table: Tensor,
    indices: Tensor | None,
    offsets: Tensor,
    weights: Tensor | None,
    reduce: str,
    padding: int,
    lanes: bool = True,
    engine: str = "auto",
    threads: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Reduce the rows that the lanes of each bag name; also the lane of each element of a greatest or least row, if
    `lanes`.

    Bag b has the lanes from `offsets[b]` to `offsets[b + 1]`. Without indices, lane k names row k. Lanes whose index is
    `padding` do not count. An empty bag has zeros, and no lane (-1).
    """
    table, how = table.detach(), (engine, threads)
    _check_operands(table, indices, offsets, weights, reduce, threads)
    _check_bounds(offsets, len(table) if indices is None else indices.numel(), indices is None)
    fused = _fused(table, indices, offsets, weights, reduce, padding, lanes, *how)
    if fused is not None:
        return fused
    rows = table if indices is None else run_gather(table, indices, ROW, "undefined", *how)
    narrow = wide(table.dtype)
    ids = _bags_of(offsets, len(rows))
    if indices is not None and padding >= 0:
        ids = torch.where(indices == padding, OUTSIDE, ids)
    rows = rows.float() if narrow and reduce not in PICKS else rows
    if weights is not None:
        rows = rows * weights.detach().to(rows.dtype).view(-1, *[1] * (rows.dim() - 1))
    shape = [offsets.numel() - 1, *rows.shape[1:]]
    if reduce not in PICKS:
        sums = run_scatter_zeros(rows, ids, shape, ROW, "skip", None, *how)
        found = sums if reduce == "sum" else _divided(sums, _counts(indices, offsets, padding, *how))
        return _rounded(found, table.dtype), _no_winners(table)
    none = rows.new_full(shape, _weakest(rows.dtype, reduce))
    run_scatter_(none, rows, ids, ROW, "skip", reduce, "last", None, *how)
    first = _first_lanes(none, rows, ids, how)
    return torch.where(first < 0, none.new_zeros(()), none), first if lanes else _no_winners(table)


def _fused(
    table: Tensor,
    indices: Tensor | None,
    offsets: Tensor,
    weights: Tensor | None,
    reduce: str,
    padding: int,
    is_tracked: bool,
    engine: str,
    threads: int | None,
) -> tuple[Tensor, Tensor] | None:
    """The same in one pass, by an engine that can; None if it cannot, or if an index must be refused."""
    key = _key(table, indices, offsets, weights, reduce, padding, is_tracked, engine, threads)
    known = None if key is None else KNOWN.get(key)
    if known is not None:
        found = known.run(table, indices, offsets, weights)
        if found is not None:
            return found
    lanes = len(table) if indices is None else indices.numel()
    name = chosen(engine, table.is_cuda)
    run, kind = bags(name), KINDS.get(table.dtype)
    is_index = indices is None or indices.dtype in INDEX_TYPES
    if run is None or kind is None or not is_index or not lanes or not table.numel() or lanes >= MOST_LANES:
        return None
    table, offsets = _packed(table), _packed(offsets)
    indices = None if indices is None else _packed(indices)
    weights = None if weights is None else _packed(weights.detach().to(table.dtype))
    out, first = _bag_shape(table, indices, offsets, weights, reduce, padding, is_tracked)
    given = Bags(
        dtype=kind,
        index_type=None if indices is None else INDEX_TYPES[indices.dtype],
        combine=COMBINES[reduce],
        width=table.numel() // len(table),
        capacity=len(table),
        bags=len(out),
        lanes=lanes,
        padding=padding,
        table=table.data_ptr(),
        indices=0 if indices is None else indices.data_ptr(),
        bounds=offsets.data_ptr(),
        weights=0 if weights is None else weights.data_ptr(),
        out=out.data_ptr(),
        winners=first.data_ptr() if first.numel() else 0,
        mean=reduce == "mean",
    )
    order = in_order([of_tensor(table)]) if table.is_cuda else None
    try:
        with order or nullcontext():
            is_done = run(given, threads)
    except Unsupported:
        return None
    if is_done and key is not None and known is None and not torch.is_inference_mode_enabled():
        ready = repeated_bags(name, given, threads)
        if ready is not None:
            remember(KNOWN, key, KnownBags(ready, without_memory(out), without_memory(first)), MOST_CALLS)
    return (out, first) if is_done else None


@dataclass(slots=True)
class KnownBags:
    """Bags on the CPU that were reduced before."""

    execute: Callable[..., bool]
    out: Tensor
    winners: Tensor
    """Those have the types and shapes of results, and no memory."""

    def run(
        self, table: Tensor, indices: Tensor | None, offsets: Tensor, weights: Tensor | None
    ) -> tuple[Tensor, Tensor] | None:
        """Reduce them; None if an index is outside of the table."""
        out, winners = torch.empty_like(self.out), torch.empty_like(self.winners)
        done = self.execute(
            table.data_ptr(),
            0 if indices is None else indices.data_ptr(),
            offsets.data_ptr(),
            0 if weights is None else weights.data_ptr(),
            out.data_ptr(),
            winners.data_ptr(),
        )
        return (out, winners) if done else None


KNOWN: dict[Any, KnownBags] = {}
"""By the types and shapes of tensors in C order, and options."""


def _key(
    table: Tensor, indices: Tensor | None, offsets: Tensor, weights: Tensor | None, *options: Any
) -> tuple[Any, ...] | None:
    """The key of bags on the CPU; None unless all operands can be read as they are."""
    facts: list[Any] = [*options]
    for each in (table, indices, offsets, weights):
        if each is None:
            facts.append(None)
        elif each.is_cpu and each.is_contiguous() and not each.is_neg() and each.data_ptr():
            facts += (each.dtype, each.shape)
        else:
            return None
    return tuple(facts) if weights is None or weights.dtype is table.dtype else None


def _rounded(sums: Tensor, kind: torch.dtype) -> Tensor:
    """Sums of a type. PyTorch's own conversions of NaNs differ between processors."""
    made = sums.to(kind)
    return made if kind == sums.dtype else made.masked_fill_(made.isnan(), float("nan"))


def _bags_of(offsets: Tensor, lanes: int) -> Tensor:
    """The bag of each lane."""
    numbers = torch.arange(offsets.numel() - 1, device=offsets.device)
    return numbers.repeat_interleave(offsets.diff(), output_size=lanes)


def _packed(tensor: Tensor) -> Tensor:
    """A tensor whose address is that of its values, in C order."""
    made = tensor.resolve_neg().contiguous()
    if not made.data_ptr() and made.numel():
        raise ValueError(f"a tensor of shape {tuple(tensor.shape)} has no memory; its storage was freed")
    return made


def _check_operands(
    table: Tensor, indices: Tensor | None, offsets: Tensor, weights: Tensor | None, reduce: str, threads: int | None
) -> None:
    """Refuse what engines would not read as it is: they get only addresses."""
    check_threads(threads)
    _check_mode(reduce, table, "reduce")
    if not table.dim():
        raise ValueError("a table of rows has one dim or more; found none")
    if offsets.dtype is not torch.int64 or offsets.dim() != 1:
        raise ValueError(f"offsets are int64 of one dim; found {offsets.dtype} of shape {tuple(offsets.shape)}")
    lanes = len(table) if indices is None else indices.numel()
    if weights is not None and weights.numel() != lanes:
        raise ValueError(f"each of the {lanes} lanes has a weight; found {weights.numel()}")
    for each in (indices, offsets, weights):
        if each is not None and each.device != table.device:
            raise ValueError(f"the tensors of a call are on one device; found {table.device} and {each.device}")


def _check_bounds(offsets: Tensor, lanes: int, is_segment: bool) -> None:
    """Refuse bounds that are not in order, or do not cover the lanes; on a GPU this would have to wait."""
    if offsets.is_cuda:
        return
    if 0 < offsets.numel() <= FEW_BOUNDS:
        listed = offsets.tolist()
        is_right = not listed[0] and listed[-1] == lanes and listed == sorted(listed)
        if is_right:
            return
    bounds = offsets.numpy()
    if len(bounds) and not bounds[0] and bounds[-1] == lanes and (bounds[1:] >= bounds[:-1]).all():
        return
    if is_segment:
        raise ValueError(f"lengths are from 0 up, and their sum is the number of rows, {lanes}")
    raise ValueError(f"offsets begin with 0 and are in order, up to the number of indices, {lanes}")


def _no_winners(table: Tensor) -> Tensor:
    return torch.empty(0, dtype=torch.int32, device=table.device)


def _weakest(kind: torch.dtype, reduce: str) -> float | int:
    """What every value replaces."""
    if kind.is_floating_point:
        return float("nan")
    if kind.is_complex:
        raise ValueError(f"{kind} has no greatest or least value")
    if kind is torch.bool:
        return reduce == "min"
    limits = torch.iinfo(kind)
    return limits.min if reduce == "max" else limits.max


def _first_lanes(found: Tensor, rows: Tensor, ids: Tensor, how: tuple[Any, ...]) -> Tensor:
    """The first lane of each bag that has the greatest or least value, by element."""
    count = len(rows)
    lanes = torch.arange(count, dtype=torch.int32, device=rows.device).view(-1, *[1] * (rows.dim() - 1))
    tried = torch.where(same_bits(rows, run_gather(found, ids, ROW, "zero", *how)), lanes, count)
    first = tried.new_full(found.shape, count)
    run_scatter_(first, tried, ids, ROW, "skip", "min", "last", None, *how)
    return torch.where(first == count, OUTSIDE, first)


def _bag_shape(
    table: Tensor,
    _indices: Tensor | None,
    offsets: Tensor,
    _weights: Tensor | None,
    reduce: str,
    _padding: int,
    lanes: bool = True,
    *_how: Any,
) -> tuple[Tensor, Tensor]:
    shape = [offsets.numel() - 1, *table.shape[1:]]
    return table.new_empty(shape), table.new_empty(shape if lanes and reduce in PICKS else [0], dtype=torch.int32)


BAG = TensorOperator("bag", SCHEMA + " -> (Tensor, Tensor)", run_bag, _bag_shape, slice(4))


def _save_bag(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    """What the gradient of `bag` needs."""
    table, indices, offsets, weights, ctx.reduce, ctx.padding, _, *ctx.how = inputs
    ctx.mark_non_differentiable(output[1])
    ctx.shape, ctx.given = table.shape, (indices is not None, weights is not None)
    needs_rows = weights is not None and ctx.needs_input_grad[3]
    ctx.save_for_backward(indices, offsets, weights, output[1], table if needs_rows else None)


def _bag_backward(ctx: Any, grad: Tensor, _lanes: Any) -> tuple[Any, ...]:
    """Pass the gradient of a bag to its rows, and to those of the table in the order of the lanes."""
    indices, offsets, weights, winners, table = ctx.saved_tensors
    of_weights = None
    if ctx.reduce not in PICKS:
        lanes = ctx.shape[0] if indices is None else indices.numel()
        if ctx.reduce == "mean":
            counts = _counts(indices, offsets, ctx.padding, *ctx.how)
            grad = _divided(grad.float() if wide(grad.dtype) else grad, counts).to(grad.dtype)
        ids = _bags_of(offsets, lanes)
        if indices is not None and ctx.padding >= 0:
            ids = torch.where(indices == ctx.padding, OUTSIDE, ids)
        rows = GATHER(grad, ids, ROW, "zero", *ctx.how)
        if weights is not None and ctx.needs_input_grad[3]:
            read = table if indices is None else GATHER(table, indices, ROW, "zero", *ctx.how)
            of_weights = sum_first((read * rows).reshape(lanes, prod(ctx.shape[1:])).t())
        if weights is not None:
            rows = rows * weights.to(rows.dtype).view(-1, *[1] * (rows.dim() - 1))
        of_table = rows
        if indices is not None:
            of_table = SCATTER_ZEROS(rows, indices, list(ctx.shape), ROW, "skip", wide(grad.dtype), *ctx.how)
    else:
        of_table = _passed_to_winners(ctx, grad, indices, winners)
    return of_table, None, None, of_weights, *[None] * 5


def _passed_to_winners(ctx: Any, grad: Tensor, indices: Tensor | None, winners: Tensor) -> Tensor:
    """The gradient of each element to the row of its lane."""
    width = prod(ctx.shape[1:])
    rows = winners.to(torch.int64)
    if indices is not None:
        rows = GATHER(as_whole(indices), winners, ROW, "zero", *ctx.how)
    columns = torch.arange(width, device=grad.device).view(1, *grad.shape[1:])
    cells = torch.where(winners < 0, OUTSIDE, rows * width + columns)
    return SCATTER_ZEROS(grad, cells, list(ctx.shape), "elem", "skip", wide(grad.dtype), *ctx.how)


def _bag_batch(call: Any, info: Any, dims: Batch, *given: Any) -> tuple[Any, Any]:
    """One call for each element of the batch."""
    made = [
        call(*(each if at is None else each.select(at, k) for each, at in zip(given, dims, strict=True)))
        for k in range(info.batch_size)
    ]
    return tuple(torch.stack(each) for each in zip(*made, strict=True)), (0, 0)


BAG.differentiate(_save_bag, _bag_backward, _bag_batch)


# --- calls -----------------------------------------------------------------------------------------------------------


def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    *,
    mode: str = "mean",
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
    engine: str = "auto",
    threads: int | None = None,
) -> Tensor:
    """Sums, means, greatest or least of bags of rows of `weight`: `torch.nn.functional.embedding_bag` in a fixed order.

    A bag is a row of a 2-D `input`, or what lies between two `offsets` of a 1-D one. Sums start with 0 and are taken
    row after row, each weighted row rounded first; those of floats narrower than float32 are taken in float32 and
    rounded once. A mean is the sum divided by the number of rows. Rows of `padding_idx` do not count; an empty bag has
    zeros. The greatest and the least are those of `scatter`, and pass gradients to the first row that has the value.
    """
    _check_mode(mode, weight)
    if per_sample_weights is not None and mode != "sum":
        raise ValueError(f'per_sample_weights are for mode="sum"; found mode="{mode}"')
    lanes, bounds = _lanes_and_bounds(input, offsets, include_last_offset)
    if per_sample_weights is not None:
        if per_sample_weights.shape != input.shape:
            shapes = f"{tuple(per_sample_weights.shape)} for {tuple(input.shape)}"
            raise ValueError(f"per_sample_weights have the shape of input; found {shapes}")
        per_sample_weights = per_sample_weights.reshape(-1)
    padding = _padding(padding_idx, weight.shape[0])
    return BAG(weight, lanes, bounds, per_sample_weights, mode, padding, is_followed(weight), engine, threads)[0]


def _check_mode(mode: str, values: Tensor, name: str = "mode") -> None:
    if mode not in COMBINES:
        raise ValueError(f"{name} is one of {', '.join(COMBINES)}; found {mode!r}")
    if mode == "mean" and not values.is_floating_point():
        raise ValueError(f"a mean is of floats; found {values.dtype}")


def _padding(given: int | None, rows: int) -> int:
    """The index that does not count, or -1; a negative one counts from the end."""
    if given is None:
        return -1
    if not -rows <= given < rows:
        raise ValueError(f"padding_idx is from {-rows} to {rows - 1} for {rows} rows; found {given}")
    return given % rows


def _counts(lanes: Tensor | None, bounds: Tensor, padding: int, *how: Any) -> Tensor:
    """How many lanes of each bag count."""
    counts = bounds.diff()
    if lanes is None or padding < 0:
        return counts
    padded = (lanes == padding).to(torch.int64)
    ids = _bags_of(bounds, lanes.numel())
    return counts - SCATTER_ZEROS(padded, ids, [counts.shape[0]], ROW, "skip", None, *how)


def _lanes_and_bounds(indices: Tensor, offsets: Tensor | None, last: bool) -> tuple[Tensor, Tensor]:
    """The indices of all bags, and where each begins, with the end of the last."""
    count = indices.numel()
    if indices.dim() == 2:
        if offsets is not None:
            raise ValueError("a 2-D input has a bag in each row; pass no offsets")
        size = indices.shape[1]
        return indices.reshape(-1), torch.arange(indices.shape[0] + 1, device=indices.device) * size
    if indices.dim() != 1 or offsets is None or offsets.dim() != 1:
        raise ValueError("input has two dims, or one dim with offsets of one dim")
    offsets = _numbers("offsets", offsets)
    if last:
        return indices, offsets
    if is_plain(offsets) and offsets.is_cpu and not torch.is_inference_mode_enabled():
        return indices, torch.cat((offsets, _end(count)))
    return indices, torch.cat([offsets, offsets.new_full((1,), count)])


def _numbers(name: str, given: Tensor) -> Tensor:
    """A tensor of integers as int64."""
    if given.dim() != 1 or given.is_floating_point() or given.is_complex() or given.dtype is torch.bool:
        raise ValueError(f"{name} are integers of one dim; found {given.dtype} of shape {tuple(given.shape)}")
    return given.to(torch.int64)


@lru_cache(maxsize=256)
def _end(count: int) -> Tensor:
    """The end of the last bag."""
    return torch.tensor([count])


def _bounds_of(lengths: Tensor) -> Tensor:
    """Where each segment begins, and where the last one ends."""
    if is_plain(lengths) and lengths.is_cpu and lengths.numel() <= FEW_BOUNDS:
        return torch.tensor([0, *accumulate(lengths.tolist())])
    return torch.cat([lengths.new_zeros(1, dtype=torch.int64), lengths.cumsum(0)])


def _divided(sums: Tensor, counts: Tensor) -> Tensor:
    """Sums divided by counts; zeros stay zeros."""
    return sums / counts.clamp(min=1).to(sums.dtype).view(-1, *[1] * (sums.dim() - 1))


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
    _check_mode(reduce, values)
    if not values.dim():
        raise ValueError("values have a dim of rows; found none")
    if (lengths is None) is (segment_ids is None):
        raise ValueError("pass lengths or segment_ids")
    if lengths is not None:
        bounds = _bounds_of(_numbers("lengths", as_indices(lengths, values)))
        return BAG(values, None, bounds, None, reduce, -1, is_followed(values), engine, threads)[0]
    segment_ids = _numbers("segment_ids", as_indices(segment_ids, values))
    if segment_ids.shape[0] != values.shape[0]:
        raise ValueError(f"each of the {values.shape[0]} rows has a segment; found {segment_ids.shape[0]}")
    if num_segments is None:
        num_segments = int(segment_ids.max()) + 1 if segment_ids.numel() else 0
    return _by_ids(values, segment_ids, num_segments, reduce, (engine, threads))


def _by_ids(values: Tensor, ids: Tensor, segments: int, reduce: str, how: tuple[Any, ...]) -> Tensor:
    bounds = _sorted_bounds(values, ids, segments)
    if bounds is not None:
        return BAG(values, None, bounds, None, reduce, -1, is_followed(values), *how)[0]
    shape, narrow = [segments, *values.shape[1:]], wide(values.dtype)
    if reduce == "sum":
        return SCATTER_ZEROS(values, ids, shape, ROW, "undefined", narrow, *how)
    counts = SCATTER_ZEROS(torch.ones_like(ids, dtype=torch.int64), ids, [segments], ROW, "undefined", None, *how)
    if reduce == "mean":  # sums of narrow floats may be out of range
        sums = SCATTER_ZEROS(values.float() if narrow else values, ids, shape, ROW, "undefined", None, *how)
        return _divided(sums, counts).to(values.dtype)
    engine, threads = how
    none = values.new_full(shape, _weakest(values.dtype, reduce))
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
