"""`gather`, `scatter` and `scatter_`: the whole-array calls for PyTorch, with gradients."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ptokit.isa.dtype import dtype
from ptokit.ops.call import SCATTER as CALL
from ptokit.ops.operands import NUMBERS, number_of
from ptokit.torch.dispatch import needs_grad
from ptokit.torch.operators import GATHER, SCATTER, SCATTER_IN_PLACE
from ptokit.torch.remap import ROW


def gather(
    table: Tensor,
    indices: Any,
    *,
    coalesce: str = ROW,
    oob: str = "undefined",
    engine: str = "auto",
    threads: int | None = None,
) -> Tensor:
    """Rows (`coalesce="row"`) or elements (`"elem"`) of a table by index, as `ptokit.gather`.

    The gradient of the table is the sum of what was read from each entry, in the order of the indices. Under
    `oob="zero"` an index outside of the table has no gradient.
    """
    return GATHER(table, as_indices(indices, table), coalesce, oob, engine, threads)


def scatter(
    table: Tensor,
    src: Tensor | complex,
    indices: Any,
    *,
    coalesce: str = ROW,
    oob: str = "undefined",
    atomic: str = "none",
    conflict: str = "last",
    accumulate: str | None = None,
    engine: str = "auto",
    threads: int | None = None,
) -> Tensor:
    """A copy of a table with `src` written to rows or elements by index, as `ptokit.scatter`.

    `atomic="none"` stores: a cell that was stored to passes its gradient to its last lane, and none to the table.
    `"add"` passes it to the table and to every lane. `"max"` and `"min"` pass it to the table if its value remained,
    else to the first lane that has the value. Lanes outside of the table have no gradient under `oob="skip"`.
    """
    operands = _operands(table, src, indices)
    return SCATTER(*operands, coalesce, oob, atomic, conflict, accumulate, engine, threads)


def scatter_(
    table: Tensor,
    src: Tensor | complex,
    indices: Any,
    *,
    coalesce: str = ROW,
    oob: str = "undefined",
    atomic: str = "none",
    conflict: str = "last",
    accumulate: str | None = None,
    engine: str = "auto",
    threads: int | None = None,
) -> Tensor:
    """As `scatter`, into the table itself; returns the table.

    If autograd records the call, the result is copied into the table. A leaf that requires grad is refused, as by all
    operators of PyTorch that write in place.
    """
    given = *_operands(table, src, indices), coalesce, oob, atomic, conflict, accumulate, engine, threads
    if needs_grad(*given[:2]):
        before = table if atomic in ("none", "add") else table.clone()  # which the gradient needs
        return table.copy_(SCATTER(before, *given[1:]))
    SCATTER_IN_PLACE(*given)
    return table


def as_indices(indices: Any, table: Tensor) -> Tensor:
    """Indices as a tensor, where the table is."""
    if isinstance(indices, Tensor):
        return indices
    made = torch.as_tensor(indices, device=table.device)
    return made if made.numel() else made.to(torch.int64)


def _operands(table: Tensor, src: Any, indices: Any) -> tuple[Tensor, Tensor, Tensor]:
    """The operands of a scatter as tensors. Under autocast, `src` gets the table's type."""
    if not isinstance(src, Tensor):
        if isinstance(src, NUMBERS) and not torch.compiler.is_compiling():
            src = _rounded(src, table.dtype)
        src = torch.as_tensor(src, dtype=table.dtype, device=table.device)
    elif src.dtype is not table.dtype and torch.is_autocast_enabled(table.device.type):
        src = src.to(table.dtype)
    return table, src, as_indices(indices, table)


def _rounded(number: Any, of: torch.dtype) -> Any:
    """A number as an element type has it: rounded once, where PyTorch would round to float32 first, or refused."""
    kind = dtype(str(of).removeprefix("torch."))
    made = number_of(CALL, number, kind)
    return float(made.astype("float64")) if kind.is_float else made.item()
