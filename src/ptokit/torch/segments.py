"""Segments: rows that lie side by side, or that have ids, and are reduced in their order."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ptokit.lang.gpu import of_tensor
from ptokit.lang.launch import refuse_captured
from ptokit.torch.bag_kernel import FEW_BOUNDS, check_mode, divided, weakest
from ptokit.torch.bags import BAG, as_numbers
from ptokit.torch.dispatch import is_compiling, is_followed, is_plain, renamed, whole_number
from ptokit.torch.indexed import as_indices, scatter
from ptokit.torch.operators import SCATTER_ZEROS, wide
from ptokit.torch.remap import ROW

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
