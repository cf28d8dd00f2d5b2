"""The kernel of bags: rows that are gathered and reduced, in the order of the lanes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from itertools import pairwise
from math import prod
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ptokit.brief import brief
from ptokit.engine.bag_arguments import BagPlaces, BagSizes, BagsKind, PreparedBags
from ptokit.engine.kept import remember
from ptokit.engine.runnable import Unsupported
from ptokit.engines import ENGINES, chosen, in_order, ordering, prepared_bags
from ptokit.finding import VerifyError, suggestion
from ptokit.isa.dtype import dtype
from ptokit.isa.move import Combine
from ptokit.lang.faults import refuse
from ptokit.lang.gpu import new_tensor, of_tensor
from ptokit.lang.launch import check_threads, refuse_captured
from ptokit.ops.direct import MOST_PLANS, Operand, describe, new_tuple
from ptokit.torch.dispatch import check_memory
from ptokit.torch.operators import SCATTER_ZEROS, run_gather, run_scatter_, run_scatter_zeros, same_bits, wide
from ptokit.torch.remap import OUTSIDE, ROW

KINDS = {
    getattr(torch, name): dtype(name)
    for name in ("float16", "bfloat16", "float32", "float64", "int8", "uint8", "int16", "int32", "int64")
}
"""The types of tables that engines reduce in one pass."""
INDEX_TYPES = {getattr(torch, name): dtype(name) for name in ("int32", "uint32", "int64")}
COMBINES = {"sum": Combine.ADD, "mean": Combine.ADD, "max": Combine.MAX, "min": Combine.MIN}
PICKS = ("max", "min")
"""Reductions whose every element comes from one lane."""
MOST_LANES = 1 << 31
FEW_BOUNDS = 256
"""Bounds that are checked as a list: NumPy takes longer to begin."""


def run_bag(
    table: Tensor, indices: Tensor | None, offsets: Tensor, weights: Tensor | None, *given: Any
) -> tuple[Tensor, Tensor]:
    """Reduce the rows that the lanes of each bag name; also the lane of each element of a greatest or least row, if
    `lanes`.

    Bag b has the lanes from `offsets[b]` to `offsets[b + 1]`; unless the offsets are `closed`, the last bag has all
    further lanes. Without indices, lane k names row k. Lanes whose index is `padding` do not count. An empty bag has
    zeros, and no lane (-1).
    """
    reduce, padding, lanes, closed, *how = given
    check_threads(how[1])
    count = len(table) if indices is None else indices.numel()
    found = fused_bags((table, indices, offsets, weights), given)
    if found is not None:
        return found[0], _no_winners(table) if found[1] is None else found[1]
    table = table.detach()
    _check_operands(table, indices, offsets, weights, reduce)
    check_bounds(offsets, count, closed, indices is None)
    operands = _packed_operands(table, indices, offsets, weights)
    on_gpu = [of_tensor(table)] if table.is_cuda else []
    with (in_order(on_gpu) if on_gpu else None) or nullcontext():
        if _plan(operands, given, on_gpu):
            found = fused_bags(operands, given)
    if found is not None:
        return found[0], _no_winners(table) if found[1] is None else found[1]
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


class BagPlan(NamedTuple):
    """Bags of a kind that an engine reduces in one pass."""

    ready: PreparedBags
    is_tracked: bool
    is_in_order: Callable[[], bool] | None
    """Whether work goes to the GPU of the tensors and to torch's stream anyway; None on the CPU."""


PLANS: dict[Any, BagPlan] = {}
"""By the kinds of tensors, the elements of a row, and options."""
Operands = tuple[Tensor, Tensor | None, Tensor, Tensor | None]
"""The table, the indices, the offsets and the weights."""
Options = Sequence[Any]
"""The reduction, the index that does not count, whether lanes are wanted and offsets are closed, engine and threads."""


def fused_bags(operands: Operands, options: Options) -> tuple[Tensor, Tensor | None] | None:
    """`run_bag` in one pass, for a kind of bags that was planned, without lanes that are not wanted; None for others,
    for tensors that are not packed, and if an index or a bound must be refused."""
    (table, *_), (_, padding, _, closed, _, threads) = operands, options
    found = _described(*operands)
    if found is None:
        return None
    rows, index, bounds, factors = found
    try:
        plan = PLANS.get(_key(found, options))
    except TypeError:  # an option that no call has
        return None
    if plan is None or (plan.is_in_order is not None and not plan.is_in_order()):
        return None
    shape = rows[2]
    capacity, bags = shape[0], bounds[2][0] - closed
    count = capacity if index is None else prod(index[2])
    if not (capacity and bags > 0 and 0 < count < MOST_LANES and (factors is None or prod(factors[2]) == count)):
        return None
    extents = (bags, *shape[1:])
    out = new_tensor(table, extents)
    winners = new_tensor(table, extents, torch.int32) if plan.is_tracked else None
    addresses = [0 if each is None else each[1] for each in (rows, index, bounds, factors)]
    places = (*addresses, out.data_ptr(), 0 if winners is None else winners.data_ptr())
    is_done = plan.ready(new_tuple(BagPlaces, places), new_tuple(BagSizes, (capacity, bags, count, padding)), threads)
    return (out, winners) if is_done else None


Described = tuple[Operand, Operand | None, Operand, Operand | None]


def _described(table: Tensor, indices: Tensor | None, offsets: Tensor, weights: Tensor | None) -> Described | None:
    """The tensors of bags as engines take them; None if one is not packed."""
    rows, bounds = describe(table), describe(offsets)
    if rows is None or bounds is None or rows[3] is not None or bounds[3] is not None:
        return None
    index, factors = None if indices is None else describe(indices), None if weights is None else describe(weights)
    if indices is not None and (index is None or index[3] is not None):
        return None
    if weights is not None and (factors is None or factors[3] is not None):
        return None
    return (rows, index, bounds, factors) if rows[2] and len(bounds[2]) == 1 else None


def _key(found: Described, options: Options) -> tuple[Any, ...]:
    """What a plan of bags depends on."""
    (rows, index, bounds, factors), (reduce, padding, lanes, closed, engine, _) = found, options
    others = None if index is None else index[0], bounds[0], None if factors is None else factors[0]
    return (reduce, padding >= 0, lanes, closed, engine), prod(rows[2][1:]), rows[0], others


def _packed_operands(table: Tensor, indices: Tensor | None, offsets: Tensor, weights: Tensor | None) -> Operands:
    """The tensors of bags in C order, with weights of the table's type."""
    factors = None if weights is None else packed(weights.detach().to(table.dtype))
    return packed(table), None if indices is None else packed(indices), packed(offsets), factors


def _plan(operands: Operands, options: Options, on_gpu: Sequence[Any]) -> bool:
    """Plan a kind of bags, while the GPU of the tensors is current; whether an engine has code for it."""
    table, indices, _, weights = operands
    reduce, padding, lanes, closed, engine, _ = options
    name, kind = chosen(engine, table.is_cuda), KINDS.get(table.dtype)
    is_there = ENGINES[name].on_gpu is table.is_cuda  # the cuda engine would have to copy tensors of the host
    found = _described(*operands)
    if kind is None or found is None or not (is_there and (indices is None or indices.dtype in INDEX_TYPES)):
        return False
    if on_gpu:
        refuse_captured("bags", on_gpu)
    wanted = BagsKind(
        dtype=kind,
        index_type=None if indices is None else INDEX_TYPES[indices.dtype],
        combine=COMBINES[reduce],
        width=prod(table.shape[1:]),
        weighted=weights is not None,
        padded=padding >= 0,
        tracked=lanes and reduce in PICKS,
        mean=reduce == "mean",
        closed=closed,
        followed=lanes,
    )
    try:
        ready = prepared_bags(name, wanted, table.get_device() if on_gpu else None) if wanted.width else None
    except Unsupported:
        return False
    if ready is None:
        return False
    plan = BagPlan(ready, wanted.tracked, ordering(on_gpu) if on_gpu else None)
    remember(PLANS, _key(found, options), plan, MOST_PLANS)
    return True


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
    """Refuse tensors that engines would read wrongly: they get addresses only."""
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
    return refuse("CO-SEM-01", f"{rule}, {lanes}; found {found}", fix, "offsets", "embedding_bag")


def _bad_lengths(bounds: list[int], rows: int) -> VerifyError:
    """The refusal of lengths by the bounds of their segments."""
    lengths = [b - a for a, b in pairwise(bounds)]
    at = next((k for k, each in enumerate(lengths) if each < 0), None)
    found = f"a sum of {bounds[-1]}" if at is None else f"lengths[{at}] = {lengths[at]}"
    message = f"lengths are from 0 up, and their sum is the number of rows, {rows}; found {found}"
    return refuse("CO-SEM-01", message, "pass the number of rows of each segment", "lengths", "segment_reduce")


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


def _first_lanes(found: Tensor, rows: Tensor, ids: Tensor, how: Sequence[Any]) -> Tensor:
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
    shape = [bag_count(offsets, closed), *table.shape[1:]]
    of_winners = shape if lanes and reduce in PICKS else [0]
    return table.new_empty(shape), table.new_empty(of_winners, dtype=torch.int32)
