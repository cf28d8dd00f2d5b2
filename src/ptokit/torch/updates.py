"""Gradients of the rows that a lookup names, without one of the whole table: sparse, or applied to the rows at once.

The gradient of a row is that of a dense gradient, with its bits. Rules for updates have the formulas of
`engine/llvm/row_code.py`; `RULES` has them as tensor code, for engines without machine code for them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from ptokit.brief import brief
from ptokit.engine.bag_arguments import PARTIAL, RowUpdate
from ptokit.engine.runnable import Unsupported
from ptokit.engines import ENGINES, chosen, row_updates
from ptokit.finding import suggestion
from ptokit.lang.arrays import notify
from ptokit.lang.gpu import new_tensor
from ptokit.torch.bag_gradients import gradients, in_stream, of_mean
from ptokit.torch.bag_kernel import INDEX_TYPES, KINDS, PICKS, counts_of, packed
from ptokit.torch.dispatch import is_followed, is_plain, needs_grad
from ptokit.torch.operators import SCATTER_ZEROS, wide
from ptokit.torch.remap import OUTSIDE, ROW, resolved


class Lookup(NamedTuple):
    """Lanes that read rows of a table, and the gradient of their result: a row for each bag or lane."""

    grad: Tensor
    indices: Tensor
    bounds: Tensor | None
    """Where each bag begins, and where the last one ends, as numbers of all lanes; None if each lane is a bag."""
    weights: Tensor | None
    winners: Tensor | None
    """The lane of each element, if they are the greatest or least."""
    padding: int
    shape: Sequence[int]
    """That of the table."""
    lanes: Callable[[], Sequence[int]]
    """The first lane, and the end: one after the last lane. On a GPU this may wait for them."""


@dataclass
class FusedOptimizer:
    """An update of the rows of a table in backward."""

    rule: str
    lr: float
    eps: float = 1e-10
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            hint = suggestion(self.rule, RULES)
            raise ValueError(f"optimizer is one of {', '.join(RULES)}; found {brief(self.rule)}{hint}")
        for name in ("lr", "eps", "weight_decay"):
            number = getattr(self, name)
            if not (isinstance(number, int | float) and isfinite(number) and number >= 0):
                raise ValueError(f"{name} is a number from 0 up; found {brief(number)}")

    def state(self, table: Tensor) -> Tensor | None:
        """Zeros: the state of a table that was not updated yet; None if the optimizer has no state."""
        shape = {"adagrad": table.shape, "rowwise_adagrad": table.shape[:1]}.get(self.rule)
        return None if shape is None else table.new_zeros(shape, dtype=_of_sums(table.dtype))


def _of_sums(kind: torch.dtype) -> torch.dtype:
    """The type in which rows are updated, and of their state."""
    return torch.float64 if kind is torch.float64 else torch.float32


# --- sums by row -----------------------------------------------------------------------------------------------------


def row_sums(lookups: Sequence[Lookup], how: tuple[Any, ...]) -> list[tuple[Tensor, Tensor]]:
    """The rows that lanes of each lookup name, ascending, and their gradients."""
    found: list[tuple[Tensor, Tensor]] = []

    def make(number: int, rows: int) -> tuple[int, int]:
        each = lookups[number]
        found.append((new_tensor(each.grad, [rows], torch.int64), new_tensor(each.grad, [rows, *each.shape[1:]])))
        return found[-1][0].data_ptr(), found[-1][1].data_ptr()

    return found if _on_engine(lookups, how, make=make) else [_summed(each, how) for each in lookups]


def sparse_gradients(lookups: Sequence[Lookup], tables: Sequence[Tensor], how: tuple[Any, ...]) -> list[Tensor]:
    """The gradients of tables: coalesced tensors, with ascending rows."""
    made: list[Tensor] = []
    for table, (rows, values) in zip(tables, row_sums(lookups, how), strict=True):
        if table in SUMMED:
            SUMMED[table] = values.data_ptr()
        given = rows[None], values, table.shape
        made.append(torch.sparse_coo_tensor(*given, is_coalesced=True, check_invariants=False))
    return made


def update_tables(
    lookups: Sequence[Lookup],
    tables: Sequence[Tensor],
    optimizers: Sequence[FusedOptimizer],
    states: Sequence[Tensor | None],
    how: tuple[Any, ...],
) -> None:
    """Update the rows of tables in place, one after the other if some are the same."""
    given = list(zip(tables, optimizers, states, strict=True))
    if len({table.data_ptr() for table in tables}) < len(tables):
        for lookup, (table, by, state) in zip(lookups, given, strict=True):
            update_tables([lookup], [table], [by], [state], how)
        return
    if not _on_engine(lookups, how, given):
        for (rows, values), of_table in zip(row_sums(lookups, how), given, strict=True):
            _update(rows, values, *of_table)
    for table, _, state in given:
        notify(table)
        if state is not None:
            notify(state)


def _on_engine(
    lookups: Sequence[Lookup],
    how: tuple[Any, ...],
    updated: Sequence[tuple[Tensor, FusedOptimizer, Tensor | None]] | None = None,
    make: Callable[[int, int], tuple[int, int]] | None = None,
) -> bool:
    """Do it in machine code, if an engine can."""
    engine, threads = how
    name = chosen(engine, lookups[0].grad.is_cuda)
    run = row_updates(name)
    if run is None or ENGINES[name].on_gpu is not lookups[0].grad.is_cuda:
        return False
    if updated is not None and not all(_is_packed(each) for table, _, state in updated for each in (table, state)):
        return False
    kept: list[Tensor] = []
    rules = [{"rule": "store"}] * len(lookups) if updated is None else [_rule(*each) for each in updated]
    jobs = [_job(each, kept, rule) for each, rule in zip(lookups, rules, strict=True)]
    if any(each is None for each in jobs):
        return False
    try:
        with in_stream("updates of rows", lookups[0].grad):
            run(jobs, threads, make)
    except Unsupported:
        return False
    return True


def _is_packed(tensor: Tensor | None) -> bool:
    return tensor is None or (tensor.is_contiguous() and not tensor.is_neg())


def _job(each: Lookup, kept: list[Tensor], rule: dict[str, Any]) -> RowUpdate | None:
    """A lookup by addresses of tensors, which are kept; None if there is no code for its types."""
    width = each.grad.shape[-1] if each.grad.dim() == 2 else 0
    if each.grad.dtype not in KINDS or each.indices.dtype not in INDEX_TYPES or not width or not each.shape[0]:
        return None
    grad = each.grad if each.grad.stride(1) == 1 and not each.grad.is_neg() else packed(each.grad)
    weights = None if each.weights is None else packed(each.weights.to(grad.dtype))
    indices = each.indices if _is_packed(each.indices) else packed(each.indices)
    given = grad, indices, each.bounds, weights, each.winners
    kept += [tensor for tensor in given if tensor is not None]
    places = [0 if tensor is None else tensor.data_ptr() for tensor in given]
    first, last = (0, each.indices.numel()) if grad.is_cuda else each.lanes()
    return RowUpdate(
        KINDS[grad.dtype],
        INDEX_TYPES[each.indices.dtype],
        width=width,
        capacity=each.shape[0],
        bags=len(grad),
        first=first,
        last=last,
        padding=each.padding,
        grad=places[0],
        grad_row=grad.stride(0) * grad.element_size(),
        indices=places[1],
        bounds=places[2],
        weights=places[3],
        winners=places[4],
        **rule,
    )


def _rule(table: Tensor, by: FusedOptimizer, state: Tensor | None) -> dict[str, Any]:
    """What a job does to a table."""
    at = 0 if state is None else state.data_ptr()
    numbers = {"lr": float(by.lr), "eps": float(by.eps), "decay": float(by.weight_decay)}
    return {"rule": by.rule, "table": table.data_ptr(), "state": at, **numbers}


def _summed(each: Lookup, how: tuple[Any, ...]) -> tuple[Tensor, Tensor]:
    """The rows that lanes name, ascending, and their gradients: those of a table that has no other rows."""
    first, last = each.lanes()
    lanes = resolved(each.indices[first:last], each.shape[0], "zero")
    if each.padding >= 0:
        lanes = torch.where(lanes == each.padding, OUTSIDE, lanes)
    counts = lanes >= 0
    rows, numbers = torch.unique(lanes[counts], return_inverse=True)
    places = torch.full_like(lanes, OUTSIDE).masked_scatter_(counts, numbers)
    shape = [len(rows), *each.shape[1:]]
    if not len(rows):
        return rows, each.grad.new_zeros(shape)
    if each.bounds is None:
        grad = each.grad.reshape(len(lanes), *each.shape[1:])
        return rows, SCATTER_ZEROS(grad, places, shape, ROW, "skip", wide(grad.dtype), *how)
    facts = SimpleNamespace(reduce="sum" if each.winners is None else "max", padding=-1, closed=True)
    facts.shape, facts.how = shape, how
    winners = each.indices.new_empty(0, dtype=torch.int32) if each.winners is None else each.winners - first
    winners = winners.clamp_(min=OUTSIDE).to(torch.int32)
    weights = None if each.weights is None else each.weights[first:last]
    found, _ = gradients(facts, each.grad, places, each.bounds - first, weights, winners, None, (True, False))
    assert found is not None
    return rows, found


# --- rules as tensor code --------------------------------------------------------------------------------------------


def _update(rows: Tensor, values: Tensor, table: Tensor, by: FusedOptimizer, state: Tensor | None) -> None:
    """Update some rows of a table, each named once."""
    kind = _of_sums(table.dtype)
    old, g = table.index_select(0, rows).to(kind), values.to(kind)
    if by.weight_decay:
        g = g + old * by.weight_decay
    before = None if state is None else state.index_select(0, rows)
    step, after = RULES[by.rule](g, before, by)
    if state is not None and after is not None:
        state.index_copy_(0, rows, _quiet(after))
    table.index_copy_(0, rows, _quiet((old - step).to(table.dtype)))


def _quiet(values: Tensor) -> Tensor:
    """Values with one NaN; those of processors differ."""
    return values.masked_fill(values.isnan(), float("nan"))


def _sgd(g: Tensor, _state: Tensor | None, by: FusedOptimizer) -> tuple[Tensor, Tensor | None]:
    return g * by.lr, None


def _adagrad(g: Tensor, state: Any, by: FusedOptimizer) -> tuple[Tensor, Tensor | None]:
    after = state + g * g
    return g * by.lr / (_root(after) + by.eps), after


def _rowwise_adagrad(g: Tensor, state: Any, by: FusedOptimizer) -> tuple[Tensor, Tensor | None]:
    after = state + _squares(g) / g.shape[1]
    return g * by.lr / (_root(after) + by.eps)[:, None], after


def _root(squares: Tensor) -> Tensor:
    """Square roots to the last bit; PyTorch's own are that on a GPU only."""
    if squares.is_cuda:
        return squares.sqrt()
    with np.errstate(invalid="ignore"):
        return torch.from_numpy(np.sqrt(squares.numpy()))


def _squares(g: Tensor) -> Tensor:
    """The sum of squares of each row, in the order that the formulas have."""
    padded = torch.nn.functional.pad(g * g, (0, -g.shape[1] % PARTIAL)).unflatten(1, (-1, PARTIAL))
    total = torch.zeros_like(padded[:, 0])
    for k in range(padded.shape[1]):
        total = total + padded[:, k]
    while (half := total.shape[1] // 2) > 0:
        total = total[:, :half] + total[:, half:]
    return total[:, 0]


RULES: dict[str, Callable[..., tuple[Tensor, Tensor | None]]] = {
    "sgd": _sgd,
    "adagrad": _adagrad,
    "rowwise_adagrad": _rowwise_adagrad,
}
"""The steps of rows, and their state after them."""


# --- lookups that autograd follows -----------------------------------------------------------------------------------


@dataclass
class Followed:
    """What a lookup does in backward, where it is not an operator's own gradient."""

    reduce: str
    """Of bags; empty if each lane is one."""
    padding: int
    closed: bool
    how: tuple[Any, ...]
    optimizer: FusedOptimizer | None = None
    state: Tensor | None = None


Update = tuple[FusedOptimizer | None, Tensor | None]
"""What backward does to a table: an optimizer with its state; without one, it makes a sparse gradient."""


def is_updated(update: Update, table: Tensor) -> bool:
    """Whether backward is that of `looked_up`. Compiled code and transforms have dense gradients only."""
    is_eager = is_plain(table)
    if update[0] is not None and not is_eager and is_followed(table):
        raise RuntimeError(
            "optimizer= updates the table in backward, which compiled code and transforms cannot follow: call the "
            "module outside of them (torch.compiler.disable), or use sparse=True"
        )
    return is_eager and needs_grad(table)


def looked_up(
    table: Tensor,
    weights: Tensor | None,
    indices: Tensor,
    offsets: Tensor | None,
    what: Followed,
    read: Callable[[], tuple[Tensor, Tensor | None]],
) -> Tensor:
    """The rows or bags that `read` makes, with winners; backward makes a sparse gradient, or updates the table."""
    if what.optimizer is None:
        keep_coalesced(table)
    return _LookedUp.apply(table, weights, indices, offsets, what, read)


SUMMED = WeakTensorKeyDictionary()
"""Leaves that had sparse gradients, and where in memory the values of the last one are."""


def keep_coalesced(table: Tensor) -> None:
    """Let the `grad` of a leaf be coalesced if the gradient is: PyTorch does not keep that."""
    if table.is_leaf and table not in SUMMED:
        SUMMED[table] = 0
        table.register_post_accumulate_grad_hook(_tell_coalesced)


def _tell_coalesced(table: Tensor) -> None:
    grad = table.grad
    if grad is not None and grad.is_sparse and grad._values().data_ptr() == SUMMED.get(table):  # not a sum of two
        getattr(grad, "_coalesced_", bool)(True)  # which is private
    SUMMED[table] = 0


class _LookedUp(torch.autograd.Function):
    """A lookup; the dispatcher does not see it, only the operators that it is made of."""

    @staticmethod
    def forward(
        ctx: Any,
        table: Tensor,
        weights: Tensor | None,
        indices: Tensor,
        offsets: Tensor | None,
        what: Followed,
        read: Callable[[], tuple[Tensor, Tensor | None]],
    ) -> Tensor:
        made, winners = read()
        ctx.what, ctx.table = what, table
        needs_rows = weights is not None and ctx.needs_input_grad[1]
        picked = winners if what.reduce in PICKS else None
        ctx.save_for_backward(indices, offsets, weights, picked, table if needs_rows else None)
        return made

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        indices, offsets, weights, winners, table = ctx.saved_tensors
        what: Followed = ctx.what
        of_table = of_weights = None
        if grad.is_neg() or grad.is_conj():
            grad = grad.resolve_conj().resolve_neg()
        if table is not None and weights is not None:
            facts = SimpleNamespace(**{name: getattr(what, name) for name in ("reduce", "padding", "closed", "how")})
            facts.shape = table.shape
            _, of_weights = gradients(facts, grad, indices, offsets, weights, winners, table, (False, True))
        if ctx.needs_input_grad[0]:
            shape = ctx.table.shape
            lookup = _lookup(what, grad.detach(), indices.reshape(-1), offsets, weights, winners, shape)
            if what.optimizer is None:
                (of_table,) = sparse_gradients([lookup], [ctx.table], what.how)
            else:
                update_tables([lookup], [ctx.table.detach()], [what.optimizer], [what.state], what.how)
        return of_table, of_weights, None, None, None, None


def _lookup(
    what: Followed,
    grad: Tensor,
    indices: Tensor,
    offsets: Tensor | None,
    weights: Tensor | None,
    winners: Tensor | None,
    shape: Sequence[int],
) -> Lookup:
    lanes = indices.numel()
    if offsets is None:
        return Lookup(grad.reshape(lanes, shape[1]), indices, None, None, None, what.padding, shape, lambda: (0, lanes))
    if what.reduce == "mean":
        grad = of_mean(grad, counts_of(indices, offsets, lanes, what.closed, what.padding, *what.how))
    bounds = offsets if what.closed else torch.cat([offsets, offsets.new_full((1,), lanes)])
    return Lookup(grad, indices, packed(bounds), weights, winners, what.padding, shape, lambda: (0, lanes))
