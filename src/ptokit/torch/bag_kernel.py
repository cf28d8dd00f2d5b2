"""The kernel of bags: rows that are gathered and reduced, in the order of the lanes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from ptokit.brief import brief
from ptokit.engine.bags import Bags
from ptokit.engine.kept import remember
from ptokit.engine.runnable import Unsupported
from ptokit.engines import ENGINES, bags, chosen, in_order, ordering, repeated_bags
from ptokit.finding import VerifyError, suggestion
from ptokit.isa.dtype import dtype
from ptokit.isa.move import Combine
from ptokit.lang.gpu import new_tensor, of_tensor
from ptokit.lang.launch import check_threads, refuse_captured
from ptokit.lang.where import refuse
from ptokit.torch.dispatch import check_memory
from ptokit.torch.operators import SCATTER_ZEROS, run_gather, run_scatter_, run_scatter_zeros, same_bits, wide
from ptokit.torch.quick import MOST_CALLS, blank
from ptokit.torch.remap import OUTSIDE, ROW

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


def run_bag(
    table: Tensor,
    indices: Tensor | None,
    offsets: Tensor,
    weights: Tensor | None,
    reduce: str,
    padding: int,
    lanes: bool = True,
    closed: bool = True,
    engine: str = "auto",
    threads: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Reduce the rows that the lanes of each bag name; also the lane of each element of a greatest or least row, if
    `lanes`.

    Bag b has the lanes from `offsets[b]` to `offsets[b + 1]`; unless the offsets are `closed`, the last bag has all
    further lanes. Without indices, lane k names row k. Lanes whose index is `padding` do not count. An empty bag has
    zeros, and no lane (-1).
    """
    check_threads(threads)
    count, how = len(table) if indices is None else indices.numel(), (engine, threads)
    given = table, indices, offsets, weights, reduce, padding, lanes, closed, *how
    known, places = known_bags(*given)
    found = None if known is None else known.run(places)
    if found is not None:
        return found
    table = table.detach()
    _check_operands(table, indices, offsets, weights, reduce)
    check_bounds(offsets, count, closed, indices is None)
    fused = _fused(_key(*given)[0], table, indices, offsets, weights, reduce, padding, lanes, closed, *how)
    if fused is not None:
        return fused
    rows = table if indices is None else run_gather(table, indices, ROW, "undefined", *how)
    narrow = wide(table.dtype)
    ids = bags_of(offsets, count, closed)
    if indices is not None and padding >= 0:
        ids = torch.where(indices == padding, OUTSIDE, ids)
    rows = rows.float() if narrow and reduce not in PICKS else rows
    if weights is not None:
        rows = rows * weights.detach().to(table.dtype).to(rows.dtype).view(-1, *[1] * (rows.dim() - 1))
    shape = [bag_count(offsets, closed), *rows.shape[1:]]
    if reduce not in PICKS:
        sums = run_scatter_zeros(rows, ids, shape, ROW, "skip", None, *how)
        found = sums if reduce == "sum" else divided(sums, counts_of(indices, offsets, count, closed, padding, *how))
        return _rounded(found, table.dtype), _no_winners(table)
    none = rows.new_full(shape, weakest(rows.dtype, reduce))
    run_scatter_(none, rows, ids, ROW, "skip", reduce, "last", None, *how)
    first = _first_lanes(none, rows, ids, how)
    return torch.where(first < 0, none.new_zeros(()), none), first if lanes else _no_winners(table)


def _fused(
    key: Any,
    table: Tensor,
    indices: Tensor | None,
    offsets: Tensor,
    weights: Tensor | None,
    reduce: str,
    padding: int,
    is_tracked: bool,
    closed: bool,
    engine: str,
    threads: int | None,
) -> tuple[Tensor, Tensor] | None:
    """The same in one pass, by an engine that can; None if it cannot, or if an index must be refused."""
    lanes = len(table) if indices is None else indices.numel()
    name = chosen(engine, table.is_cuda)
    run, kind = bags(name), KINDS.get(table.dtype)
    is_index = indices is None or indices.dtype in INDEX_TYPES
    has_work = table.numel() and bag_count(offsets, closed) and 0 < lanes < MOST_LANES
    is_there = ENGINES[name].on_gpu is table.is_cuda  # the cuda engine would have to copy tensors of the host
    if run is None or kind is None or not (is_index and has_work and is_there):
        return None
    if table.is_cuda:
        refuse_captured("bags", [of_tensor(table)])
    table, offsets = packed(table), packed(offsets)
    indices = None if indices is None else packed(indices)
    weights = None if weights is None else packed(weights.detach().to(table.dtype))
    shape, of_winners = _shapes(table, offsets, reduce, is_tracked, closed)
    out, first = new_tensor(table, shape), new_tensor(table, of_winners, torch.int32)
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
        closed=closed,
        followed=is_tracked,
    )
    on_gpu = [of_tensor(table)] if table.is_cuda else []
    try:
        with (in_order(on_gpu) if on_gpu else None) or nullcontext():
            if not run(given, threads):
                return None
            ready = None if key is None else repeated_bags(name, given, threads)
    except Unsupported:
        return None
    if ready is not None:
        is_in_order = ordering(on_gpu) if on_gpu else None
        known = KnownBags(ready, is_in_order, blank(out), blank(first))
        remember(KNOWN, key, known, MOST_CALLS)
    return out, first


@dataclass(slots=True)
class KnownBags:
    """Bags that were reduced before."""

    execute: Callable[..., bool]
    is_in_order: Callable[[], bool] | None
    """Whether work goes to the GPU of the tensors and to torch's stream anyway; None on the CPU."""
    out: Tensor
    winners: Tensor
    """Those have the types and shapes of results."""

    def run(self, places: Sequence[int]) -> tuple[Tensor, Tensor] | None:
        """Reduce them; None if an index or a bound is refused, or if work would go elsewhere."""
        if self.is_in_order is not None and not self.is_in_order():
            return None
        out, winners = new_tensor(self.out), new_tensor(self.winners)
        is_done = self.execute(*places, out.data_ptr(), winners.data_ptr())
        return (out, winners) if is_done else None


KNOWN: dict[Any, KnownBags] = {}
"""By options, the GPU, and the types and shapes of tensors in C order."""


def known_bags(
    table: Tensor, indices: Tensor | None, offsets: Tensor, weights: Tensor | None, *options: Any
) -> tuple[KnownBags | None, list[int]]:
    """Bags that were reduced before, if there are such, and the addresses of these."""
    key, places = _key(table, indices, offsets, weights, *options)
    try:
        return KNOWN.get(key), places
    except TypeError:  # an option that no call has
        return None, places


def keep_bags(known_by: tuple[Any, ...], options: tuple[Any, ...], *operands: Any) -> None:
    """Let bags that are known by some options be known by others, too."""
    known, _ = known_bags(*operands, *known_by)
    key, _ = _key(*operands, *options)
    if known is not None and key is not None:
        remember(KNOWN, key, known, MOST_CALLS)


def _key(
    table: Tensor, indices: Tensor | None, offsets: Tensor, weights: Tensor | None, *options: Any
) -> tuple[tuple[Any, ...] | None, list[int]]:
    """The key of bags, None unless all operands can be read as they are; and their addresses."""
    gpu = table.get_device()
    facts: list[Any] = [*options, gpu]
    places: list[int] = []
    for each in (table, indices, offsets, weights):
        if each is None:
            facts.append(None)
            places.append(0)
        elif each.layout is not torch.strided:
            return None, places
        elif each.is_contiguous() and not each.is_neg() and (place := each.data_ptr()) and each.get_device() == gpu:
            facts += (each.dtype, each.shape)
            places.append(place)
        else:
            return None, places
    is_known = weights is None or weights.dtype is table.dtype
    return (tuple(facts) if is_known else None), places


def _rounded(sums: Tensor, kind: torch.dtype) -> Tensor:
    """Sums of a type. PyTorch's own conversions of NaNs differ between processors."""
    made = sums.to(kind)
    return made if kind == sums.dtype else made.masked_fill_(made.isnan(), float("nan"))


def bag_count(offsets: Tensor, closed: bool) -> int:
    """How many bags there are."""
    return offsets.numel() - int(closed)


def bags_of(offsets: Tensor, lanes: int, closed: bool) -> Tensor:
    """The bag of each lane."""
    if offsets.is_cuda:  # fewer kernels; nor do they mind bounds that are not in order
        return torch.searchsorted(offsets[1:].contiguous(), torch.arange(lanes, device=offsets.device), right=True)
    return torch.repeat_interleave(_sizes(offsets, lanes, closed), output_size=lanes)


def _sizes(offsets: Tensor, lanes: int, closed: bool) -> Tensor:
    """How many lanes each bag has."""
    return offsets.diff(append=None if closed else offsets.new_full((1,), lanes))


def packed(tensor: Tensor) -> Tensor:
    """A tensor whose address is that of its values, in C order."""
    check_memory(tensor)
    return tensor.resolve_neg().contiguous()


def check_mode(mode: str, values: Tensor, name: str = "mode") -> None:
    """Refuse reductions that do not exist, and means of other numbers than floats."""
    if mode not in COMBINES:
        raise ValueError(f"{name} is one of {', '.join(COMBINES)}; found {brief(mode)}{suggestion(mode, COMBINES)}")
    if mode == "mean" and not values.is_floating_point():
        raise ValueError(f"a mean is of floats; found {values.dtype}")


def _check_operands(
    table: Tensor, indices: Tensor | None, offsets: Tensor, weights: Tensor | None, reduce: str
) -> None:
    """Refuse what engines would not read as it is: they get only addresses."""
    check_mode(reduce, table, "reduce")
    if not table.dim():
        raise ValueError("a table of rows has one dim or more; found none")
    if offsets.dtype is not torch.int64 or offsets.dim() != 1:
        raise ValueError(f"offsets are int64 of one dim; found {offsets.dtype} of shape {tuple(offsets.shape)}")
    lanes = len(table) if indices is None else indices.numel()
    if weights is not None and weights.numel() != lanes:
        raise ValueError(f"each of the {lanes} lanes has a weight; found {weights.numel()}")
    for each in (table, indices, offsets, weights):
        if each is not None and each.layout is not torch.strided:
            raise ValueError(f"the tensors of a call are dense; found one of {each.layout}: use to_dense()")
        if each is not None and each.device != table.device:
            raise ValueError(f"the tensors of a call are on one device; found {table.device} and {each.device}")


def check_bounds(offsets: Tensor, lanes: int, closed: bool, is_segment: bool) -> None:
    """Refuse bounds that are not in order, or do not cover the lanes; on a GPU their values would have to be waited
    for."""
    if (offsets.is_cuda and offsets.numel()) or _are_bounds(offsets, lanes, closed):
        return
    bounds = offsets.tolist()
    raise _bad_lengths(bounds, lanes) if is_segment else _bad_offsets(bounds, lanes, closed)


def _bad_offsets(offsets: list[int], lanes: int, closed: bool) -> VerifyError:
    """The refusal of offsets, which names the first one that is wrong."""
    rule = f"offsets begin with 0 and are in order, {'the last one is' if closed else 'up to'} the number of indices"
    steps = [*enumerate(pairwise([0, *offsets]))]
    at = next((k for k, (before, each) in steps if not before <= each <= (lanes if k else 0)), len(offsets) - 1)
    found = f"offsets[{at}] = {offsets[at]}" if offsets else "none"
    if at > 0 and offsets[at] < offsets[at - 1]:
        found += f" after offsets[{at - 1}] = {offsets[at - 1]}"
    fix = "pass the position in input where each bag begins" + (", and the number of indices" if closed else "")
    return refuse("CO-SEM-01", f"embedding_bag: {rule}, {lanes}; found {found}", fix, "offsets")


def _bad_lengths(bounds: list[int], rows: int) -> VerifyError:
    """The refusal of lengths by the bounds of their segments."""
    lengths = [b - a for a, b in pairwise(bounds)]
    at = next((k for k, each in enumerate(lengths) if each < 0), None)
    found = f"a sum of {bounds[-1]}" if at is None else f"lengths[{at}] = {lengths[at]}"
    message = f"segment_reduce: lengths are from 0 up, and their sum is the number of rows, {rows}; found {found}"
    return refuse("CO-SEM-01", message, "pass the number of rows of each segment", "lengths")


def _are_bounds(offsets: Tensor, lanes: int, closed: bool) -> bool:
    """Whether bounds are in order, from 0 up to the number of lanes."""
    if not offsets.numel():
        return not (closed or lanes)
    if offsets.numel() <= FEW_BOUNDS:
        bounds = offsets.tolist()
        is_sorted = bounds == sorted(bounds)
    else:
        bounds = offsets.numpy()
        is_sorted = bool((bounds[1:] >= bounds[:-1]).all())
    return is_sorted and not bounds[0] and (bounds[-1] == lanes if closed else bounds[-1] <= lanes)


def counts_of(indices: Tensor | None, offsets: Tensor, lanes: int, closed: bool, padding: int, *how: Any) -> Tensor:
    """How many lanes of each bag count."""
    counts = _sizes(offsets, lanes, closed)
    if indices is None or padding < 0:
        return counts
    padded = (indices == padding).to(torch.int64)
    ids = bags_of(offsets, lanes, closed)
    return counts - SCATTER_ZEROS(padded, ids, [counts.shape[0]], ROW, "skip", None, *how)


def divided(sums: Tensor, counts: Tensor) -> Tensor:
    """Sums divided by counts; zeros stay zeros."""
    return sums / counts.clamp(min=1).to(sums.dtype).view(-1, *[1] * (sums.dim() - 1))


def _no_winners(table: Tensor) -> Tensor:
    return torch.empty(0, dtype=torch.int32, device=table.device)


def weakest(kind: torch.dtype, reduce: str) -> float | int:
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


def bag_shape(
    table: Tensor,
    _indices: Tensor | None,
    offsets: Tensor,
    _weights: Tensor | None,
    reduce: str,
    _padding: int,
    lanes: bool = True,
    closed: bool = True,
    *_how: Any,
) -> tuple[Tensor, Tensor]:
    """The results of `run_bag`, without values."""
    shape, of_winners = _shapes(table, offsets, reduce, lanes, closed)
    return table.new_empty(shape), table.new_empty(of_winners, dtype=torch.int32)


def _shapes(table: Tensor, offsets: Tensor, reduce: str, lanes: bool, closed: bool) -> tuple[list[int], list[int]]:
    """The shapes of results."""
    shape = [bag_count(offsets, closed), *table.shape[1:]]
    return shape, shape if lanes and reduce in PICKS else [0]
