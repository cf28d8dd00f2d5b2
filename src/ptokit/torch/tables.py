"""Bags of rows of many tables in one call: `EmbeddingBags`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from types import SimpleNamespace
from typing import Any, cast

import torch
from torch import Tensor

from ptokit.brief import brief
from ptokit.engine.bag_arguments import BagPlaces, BagSizes, BagsKind, TableBags
from ptokit.engine.runnable import Unsupported
from ptokit.engines import ENGINES, chosen, table_bags
from ptokit.lang.faults import public
from ptokit.lang.gpu import new_tensor
from ptokit.lang.tensor import is_integer
from ptokit.torch.bag_gradients import gradients, in_stream, of_mean
from ptokit.torch.bag_kernel import COMBINES, INDEX_TYPES, KINDS, PICKS, check_bounds, check_mode, packed
from ptokit.torch.bag_operator import BAG, IN_WEIGHT, as_numbers
from ptokit.torch.dispatch import called_by, check_tensor, is_plain, needs_grad, renamed
from ptokit.torch.modules import STATE
from ptokit.torch.updates import (
    FusedOptimizer,
    Lookup,
    is_updated,
    keep_coalesced,
    row_sums,
    sparse_gradients,
    update_tables,
)

Finish = Callable[[Sequence[Lookup], Sequence[int]], Sequence[Tensor | None]]
"""Is given lookups and the numbers of their tables; the gradients of these."""


@dataclass
class Batch:
    """The bags of all tables: those of the first one, then those of the second, …"""

    values: Tensor
    """The indices, bag after bag."""
    offsets: Tensor
    """Where each bag begins, and where the last one ends."""
    weights: Tensor | None
    """For each index."""
    modes: Sequence[str]
    """Of each table."""

    def __post_init__(self) -> None:
        self.bags = (self.offsets.numel() - 1) // len(self.modes)

    @cached_property
    def cuts(self) -> list[int]:
        """Where the lanes of each table begin, and where the last ones end; on a GPU, they are waited for."""
        return self.offsets[:: self.bags].tolist() if self.bags else [0] * (len(self.modes) + 1)

    def bounds(self, number: int) -> Tensor:
        """Those of the bags of a table, as numbers of all lanes."""
        return self.offsets[number * self.bags : (number + 1) * self.bags + 1]

    def part(self, number: int) -> tuple[Tensor, Tensor, Tensor | None]:
        """The indices, bounds and weights of a table alone."""
        first, last = self.cuts[number : number + 2]
        weights = None if self.weights is None else self.weights[first:last]
        return self.values[first:last], self.bounds(number) - first, weights


class EmbeddingBags(torch.nn.Module):
    """Tables of embeddings, whose bags are reduced in one call; the sums of each are those of `EmbeddingBag`.

    `tables` are pairs of rows and width. `mode` is one for all, or one for each. Options are those of `EmbeddingBag`;
    indices are given as in a KeyedJaggedTensor.
    """

    weights: torch.nn.ParameterList

    @public
    def __init__(
        self,
        tables: Sequence[tuple[int, int]],
        mode: str | Sequence[str] = "sum",
        *,
        sparse: bool = False,
        optimizer: str | None = None,
        lr: float = 0.01,
        eps: float = 1e-10,
        weight_decay: float = 0.0,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        shapes = checked_shapes(tables)
        made = [torch.nn.Parameter(torch.empty(shape, device=device, dtype=dtype)) for shape in shapes]
        self.weights = torch.nn.ParameterList(made)
        self.modes = checked_modes(mode, made)
        self.sparse, self.optimizer = sparse, None
        if optimizer is not None:
            if sparse:
                raise ValueError("sparse= is for optimizers of torch.optim; with optimizer= tables have no gradient")
            self.optimizer = FusedOptimizer(optimizer, lr, eps, weight_decay)
            for number, each in enumerate(made):
                self.register_buffer(f"{STATE}_{number}", self.optimizer.state(each.detach()))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Normal numbers, as those of `torch.nn.EmbeddingBag`."""
        for each in self.weights:
            torch.nn.init.normal_(each)

    def extra_repr(self) -> str:
        shapes = ", ".join(str(tuple(each.shape)) for each in self.weights)
        return f"[{shapes}], mode={self.modes}, sparse={self.sparse}, optimizer={self.optimizer}"

    def forward(self, values: Tensor, offsets: Tensor, per_sample_weights: Tensor | None = None) -> tuple[Tensor, ...]:
        """The bags of each table. `offsets` has the bags of the first table, those of the second and so on, as many for
        each, and the number of `values` at the end."""
        batch = batch_of(values, offsets, per_sample_weights, self.modes)
        tables = list(self.weights)
        is_followed = needs_grad(*tables) if is_plain(*tables) else self._are_updated(tables)
        if not is_plain(values, offsets, per_sample_weights):
            numbers = range(len(tables))
            return tuple(called_by("EmbeddingBags", _one, batch, tables, number)[0] for number in numbers)
        if self.sparse and is_followed:
            for each in tables:
                keep_coalesced(each)
        return reduced(batch, tables, partial(self._finish, tables))

    def _are_updated(self, tables: Sequence[Tensor]) -> bool:
        return True in [is_updated((self.optimizer, None), each) for each in tables]  # some may be refused

    def _finish(
        self, every: Sequence[Tensor], lookups: Sequence[Lookup], numbers: Sequence[int]
    ) -> Sequence[Tensor | None]:
        """The gradients of tables, unless an optimizer takes them."""
        tables = [every[number] for number in numbers]
        if self.optimizer is not None:
            states = [cast("Tensor | None", getattr(self, f"{STATE}_{number}")) for number in numbers]
            update_tables(lookups, tables, [self.optimizer] * len(tables), states, HOW)
            return [None] * len(tables)
        if self.sparse:
            return sparse_gradients(lookups, tables, HOW)
        made: list[Tensor | None] = []
        for each, (rows, values) in zip(lookups, row_sums(lookups, HOW), strict=True):
            made.append(each.grad.new_zeros(list(each.shape)).index_copy_(0, rows, values))
        return made


HOW = ("auto", None)


def checked_shapes(tables: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Pairs of rows and width."""
    given = list(tables)
    is_right = [len(each) == 2 and all(is_integer(number) and number > 0 for number in each) for each in given]
    if not given or not all(is_right):
        found = brief(given[is_right.index(False)]) if given else "none"
        raise ValueError(f"tables are pairs of rows and width, integers from 1 up; found {found}")
    return [(int(rows), int(width)) for rows, width in given]


def checked_modes(mode: str | Sequence[str], tables: Sequence[Tensor]) -> tuple[str, ...]:
    """The mode of each table."""
    modes = (mode,) * len(tables) if isinstance(mode, str) else tuple(mode)
    if len(modes) != len(tables):
        raise ValueError(f"mode is one word, or one for each of {len(tables)} tables; found {len(modes)}")
    for each, table in zip(modes, tables, strict=True):
        check_mode(each, table)
    return modes


def batch_of(values: Tensor, offsets: Tensor, weights: Tensor | None, modes: Sequence[str]) -> Batch:
    """Bags that were checked; on a GPU, offsets would have to be waited for."""
    for name, each in (("values", values), ("offsets", offsets), ("per_sample_weights", weights)):
        check_tensor(name, each)
    if values.dim() != 1 or (weights is not None and weights.shape != values.shape):
        raise ValueError("values have one dim, and per_sample_weights have their shape")
    if weights is not None and set(modes) != {"sum"}:
        raise ValueError(f'per_sample_weights are for mode="sum"; found {", ".join(sorted(set(modes)))}')
    offsets = as_numbers("offsets", offsets)
    if offsets.numel() % len(modes) != (1 if len(modes) > 1 else 0):
        found = f"{offsets.numel()} offsets for {len(modes)} tables"
        raise ValueError(f"offsets are as many for each table, and the number of values at the end; found {found}")
    called_by("EmbeddingBags", check_bounds, offsets, values.numel(), True, False)
    return Batch(values.contiguous(), offsets.contiguous(), weights, modes)


def reduced(batch: Batch, tables: Sequence[Tensor], finish: Finish) -> tuple[Tensor, ...]:
    """The bags of each table; backward calls `finish`."""
    if not needs_grad(batch.weights, *tables):
        return _read(batch, tables)[0]
    return _Tables.apply(batch, finish, batch.weights, *tables)


class _Tables(torch.autograd.Function):
    """Bags of many tables; the dispatcher does not see them."""

    @staticmethod
    def forward(ctx: Any, batch: Batch, finish: Finish, weights: Tensor | None, *tables: Tensor) -> tuple[Tensor, ...]:
        made, winners = _read(batch, tables)
        ctx.set_materialize_grads(False)
        ctx.facts, ctx.finish, ctx.shapes = (batch.modes, winners), finish, [each.shape for each in tables]
        kept = tables if weights is not None and ctx.needs_input_grad[2] else ()
        ctx.save_for_backward(batch.values, batch.offsets, weights, *kept)
        return made

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, *grads: Tensor | None
    ) -> tuple[Any, ...]:
        values, offsets, weights, *tables = ctx.saved_tensors
        modes, winners = ctx.facts
        batch = Batch(values, offsets, weights, modes)
        of_weights = _of_weights(batch, grads, tables) if tables else None
        numbers = [k for k, each in enumerate(grads) if each is not None and ctx.needs_input_grad[3 + k]]
        lookups = [_lookup(batch, k, cast("Tensor", grads[k]), winners[k], ctx.shapes[k]) for k in numbers]
        made: list[Tensor | None] = [None] * len(grads)
        for k, each in zip(numbers, ctx.finish(lookups, numbers) if numbers else (), strict=True):
            made[k] = each
        return None, None, of_weights, *made


def _lookup(batch: Batch, number: int, grad: Tensor, winners: Tensor | None, shape: Sequence[int]) -> Lookup:
    grad, bounds = grad.resolve_neg(), batch.bounds(number)
    if batch.modes[number] == "mean":
        grad = of_mean(grad, bounds.diff())
    return Lookup(
        grad, batch.values, bounds, batch.weights, winners, -1, shape, lambda: batch.cuts[number : number + 2]
    )


def _of_weights(batch: Batch, grads: Sequence[Tensor | None], tables: Sequence[Tensor]) -> Tensor:
    """The gradient of the weights of lanes."""
    assert batch.weights is not None
    made = torch.zeros_like(batch.weights)
    for number, (grad, table) in enumerate(zip(grads, tables, strict=True)):
        lanes, bounds, weights = batch.part(number)
        if grad is not None and lanes.numel():
            facts = SimpleNamespace(reduce="sum", padding=-1, closed=True, how=HOW, shape=table.shape)
            given = facts, grad, lanes, bounds, weights, lanes, table, (False, True)
            first, last = batch.cuts[number : number + 2]
            made[first:last] = cast("Tensor", gradients(*given)[1])
    return made


# --- forward ---------------------------------------------------------------------------------------------------------


def _read(batch: Batch, tables: Sequence[Tensor]) -> tuple[tuple[Tensor, ...], list[Tensor | None]]:
    """The bags of each table, and the lanes of those that are the greatest or least."""
    found = _at_once(batch, tables)
    if found is not None:
        return found
    made, winners = list[Tensor](), list[Tensor | None]()
    for number, mode in enumerate(batch.modes):
        out, lanes = called_by("EmbeddingBags", _one, batch, tables, number)
        made.append(out)
        first = batch.cuts[number]
        winners.append(torch.where(lanes < 0, lanes, lanes + first) if mode in PICKS else None)
    return tuple(made), winners


def _one(batch: Batch, tables: Sequence[Tensor], number: int) -> tuple[Tensor, Tensor]:
    """The bags of one table."""
    lanes, bounds, weights = batch.part(number)
    first, last = batch.cuts[number : number + 2]
    given = tables[number], lanes, bounds, weights, batch.modes[number], -1, True, True, *HOW
    return renamed("EmbeddingBags", f"values[{first}:{last}]", IN_WEIGHT, BAG, *given)


@lru_cache(1024)
def _kind(dtype: torch.dtype, index_type: torch.dtype, mode: str, width: int, weighted: bool) -> BagsKind:
    return BagsKind(
        dtype=KINDS[dtype],
        index_type=INDEX_TYPES[index_type],
        combine=COMBINES[mode],
        width=width,
        weighted=weighted,
        tracked=mode in PICKS,
        mean=mode == "mean",
    )


def _at_once(batch: Batch, tables: Sequence[Tensor]) -> tuple[tuple[Tensor, ...], list[Tensor | None]] | None:
    """The same in one launch; None if no engine can, or if an index must be refused."""
    lanes, values, offsets = batch.values.numel(), batch.values, batch.offsets
    name = chosen(HOW[0], tables[0].is_cuda)
    run = table_bags(name)
    others = values, offsets, *([] if batch.weights is None else [batch.weights])
    is_there = all(each.device == tables[0].device for each in (*others, *tables))
    is_there = is_there and tables[0].is_cuda is ENGINES[name].on_gpu
    if run is None or not is_there or values.dtype not in INDEX_TYPES or not (lanes and batch.bags):
        return None
    if not all(each.dtype in KINDS and each.is_contiguous() and each.numel() for each in tables):
        return None
    values, offsets = packed(values), packed(offsets)
    given: list[TableBags] = []
    made, winners = list[Tensor](), list[Tensor | None]()
    types = set[torch.dtype]() if batch.weights is None else {each.dtype for each in tables}
    kept = {kind: packed(cast("Tensor", batch.weights).detach().to(kind)) for kind in types}
    weights = {kind: each.data_ptr() for kind, each in kept.items()}
    indices, bounds = values.data_ptr(), offsets.data_ptr()
    for number, (table, mode) in enumerate(zip(tables, batch.modes, strict=True)):
        made.append(new_tensor(table, [batch.bags, table.shape[1]]))
        winners.append(new_tensor(table, made[-1].shape, torch.int32) if mode in PICKS else None)
        places = BagPlaces(
            table=table.data_ptr(),
            indices=indices,
            bounds=bounds + 8 * number * batch.bags,
            weights=weights.get(table.dtype, 0),
            out=made[-1].data_ptr(),
            winners=0 if winners[-1] is None else winners[-1].data_ptr(),
        )
        kind = _kind(table.dtype, values.dtype, mode, table.shape[1], batch.weights is not None)
        given.append(TableBags(kind, places, BagSizes(table.shape[0], batch.bags, lanes, -1)))
    try:
        with in_stream("bags", tables[0]):
            return (tuple(made), winners) if run(given, HOW[1]) else None
    except Unsupported:
        return None
