"""`gather`, `scatter` and `scatter_`: the whole-array calls for PyTorch, with gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ptokit.isa.dtype import dtype
from ptokit.lang.gpu import of_tensor
from ptokit.lang.launch import refuse_captured
from ptokit.ops.call import GATHER as GATHER_CALL
from ptokit.ops.call import SCATTER as SCATTER_CALL
from ptokit.ops.call import ArrayCall
from ptokit.ops.calls import FIRST
from ptokit.ops.operands import LISTS, NUMBERS, listed, numbers_of
from ptokit.torch.dispatch import check_tensor, is_watched, needs_grad
from ptokit.torch.forms import gather_form, scatter_form, scatter_form_
from ptokit.torch.operators import GATHER, SCATTER, SCATTER_IN_PLACE, planned_gather, planned_scatter_
from ptokit.torch.remap import ROW


def gather(
    table: Tensor,
    indices: Any,
    *,
    coalesce: str = ROW,
    oob: str = "undefined",
    engine: str = "auto",
    threads: int | None = None,
    axis: int | None = FIRST,
    mode: str | None = None,
) -> Tensor:
    """Rows (`coalesce="row"`) or elements (`"elem"`) of a table by index, as `ptokit.gather`.

    With `axis`, the shape of `indices` replaces that axis; `mode` is another word for `oob`, for indices with a sign.
    The gradient of the table is the sum of what was read from each entry, in the order of the indices. Under
    `oob="zero"` an index outside of the table has no gradient.
    """
    is_plain = mode is None and axis is FIRST
    if is_plain and not is_watched(table, indices):
        made = planned_gather(table, indices, coalesce, oob, engine, threads)
        if made is not None:
            return made
    check_tensor("table", table)
    lanes = indices if isinstance(indices, Tensor) else as_indices(indices, table, GATHER_CALL)
    if not is_plain:
        return gather_form(table, lanes, coalesce, oob, engine, threads, axis, mode)
    return GATHER(table, lanes, coalesce, oob, engine, threads)


def scatter(
    table: Tensor,
    src: Tensor | complex | Sequence[Any],
    indices: Any,
    *,
    coalesce: str = ROW,
    oob: str = "undefined",
    atomic: str = "none",
    conflict: str = "last",
    accumulate: str | None = None,
    engine: str = "auto",
    threads: int | None = None,
    axis: int | None = FIRST,
    mode: str | None = None,
    reduce: str | None = None,
    include_self: bool = True,
) -> Tensor:
    """A copy of a table with `src` written to rows or elements by index, as `ptokit.scatter`.

    `atomic="none"` stores: a cell that was stored to passes its gradient to its last lane, and none to the table.
    `"add"` passes it to the table and to every lane. `"max"` and `"min"` pass it to the table if its value remained,
    else to the first lane that has the value. Lanes outside of the table have no gradient under `oob="skip"`.
    `reduce` has more words, and products and means: a factor passes on its gradient times the other factors, a value of
    a mean its share. With `include_self=False` the values that cells had do not count, and have no gradient. `axis` and
    `mode` are those of `gather`.
    """
    operands = _operands(table, src, indices)
    if mode is not None or axis is not FIRST or reduce is not None or include_self is not True:
        how = coalesce, oob, atomic, conflict, accumulate, engine, threads
        return scatter_form(*operands, how, axis, mode, reduce, include_self)
    return SCATTER(*operands, coalesce, oob, atomic, conflict, accumulate, engine, threads)


def scatter_(
    table: Tensor,
    src: Tensor | complex | Sequence[Any],
    indices: Any,
    *,
    coalesce: str = ROW,
    oob: str = "undefined",
    atomic: str = "none",
    conflict: str = "last",
    accumulate: str | None = None,
    engine: str = "auto",
    threads: int | None = None,
    axis: int | None = FIRST,
    mode: str | None = None,
    reduce: str | None = None,
    include_self: bool = True,
) -> Tensor:
    """As `scatter`, into the table itself; returns the table.

    If autograd records the call, the result is copied into the table. A leaf that requires grad is refused, as by all
    operators of PyTorch that write in place.
    """
    is_plain = mode is None and axis is FIRST and reduce is None and include_self is True
    how = coalesce, oob, atomic, conflict, accumulate, engine, threads
    if is_plain and not is_watched(table, src, indices) and planned_scatter_(table, src, indices, *how):
        return table
    operands = _operands(table, src, indices)
    if not is_plain:
        return scatter_form_(*operands, how, axis, mode, reduce, include_self)
    given = *operands, *how
    if needs_grad(*given[:2]):
        before = table if atomic in ("none", "add") else table.clone()  # which the gradient needs
        return table.copy_(SCATTER(before, *given[1:]))
    SCATTER_IN_PLACE(*given)
    return table


def as_indices(indices: Any, table: Tensor, call: ArrayCall | None = None) -> Tensor:
    """Indices as a tensor, where the table is."""
    if isinstance(indices, Tensor):
        return indices
    if call is not None and isinstance(indices, list | tuple) and not torch.compiler.is_compiling():
        indices = listed(call, indices)
    made = uploaded(indices, table)
    return made if made.numel() else made.to(torch.int64)


def uploaded(values: Any, like: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """Values of the host as a tensor where another one is."""
    if like.is_cuda and not torch.compiler.is_compiling():
        refuse_captured("a call", [of_tensor(like.detach())], "values of the host are copied", "pass CUDA tensors")
    return torch.as_tensor(values, dtype=dtype, device=like.device)


def _operands(table: Tensor, src: Any, indices: Any) -> tuple[Tensor, Tensor, Tensor]:
    """The operands of a scatter as tensors. Under autocast, `src` gets the table's type."""
    check_tensor("table", table)
    if not isinstance(src, Tensor):
        if isinstance(src, (*NUMBERS, *LISTS)) and not (torch.compiler.is_compiling() or _has_tensors(src)):
            src = _rounded(src, table.dtype)
        src = uploaded(src, table, table.dtype)
    elif src.dtype is not table.dtype and torch.is_autocast_enabled(table.device.type):
        src = src.to(table.dtype)
    return table, src, as_indices(indices, table, SCATTER_CALL)


def _has_tensors(numbers: Any, dims: int = 64) -> bool:
    """Whether there are tensors in lists of so many dims at most."""
    if not dims or not isinstance(numbers, list | tuple):
        return False
    return any(isinstance(each, Tensor) or _has_tensors(each, dims - 1) for each in numbers)


def _rounded(numbers: Any, of: torch.dtype) -> Any:
    """Numbers as an element type has them: rounded once, where PyTorch would round to float32 first, or refused."""
    kind = dtype(str(of).removeprefix("torch."))
    made = numbers_of(SCATTER_CALL, numbers, kind)
    return made.astype("float64") if kind.is_float else made
