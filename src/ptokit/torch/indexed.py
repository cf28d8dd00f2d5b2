"""`gather`, `scatter` and `scatter_`: the whole-array calls for PyTorch, with gradients.

Their other forms are tensor code around the operators. Along an inner axis, a table is one of more rows, and every
index names one of them for each position before the axis. Modes are policies for indices with a sign.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from operator import index
from typing import Any

import torch
from torch import Tensor

from ptokit.isa.dtype import dtype
from ptokit.isa.mscatter import COMBINES
from ptokit.isa.policy import GatherOOB, ScatterOOB
from ptokit.lang.gpu import of_tensor
from ptokit.lang.launch import refuse_captured
from ptokit.ops.array_call import FROM_END, MODES, ArrayCall, outside_policy, reduction
from ptokit.ops.array_call import GATHER as GATHER_CALL
from ptokit.ops.array_call import SCATTER as SCATTER_CALL
from ptokit.ops.functions import FIRST
from ptokit.ops.library_words import number_entries, place_of
from ptokit.ops.operands import LISTS, NUMBERS, listed, numbers_of
from ptokit.torch.dispatch import Batch, TensorOperator, check_tensor, is_compiling, is_watched, needs_grad
from ptokit.torch.operators import (
    GATHER,
    REDUCE,
    REDUCE_IN_PLACE,
    SCATTER,
    SCATTER_IN_PLACE,
    planned_gather,
    planned_scatter_,
)
from ptokit.torch.remap import OUTSIDE, ROW, capacity_of


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


# --- other forms -----------------------------------------------------------------------------------------------------


SIDES = {False: (GATHER_CALL, GatherOOB), True: (SCATTER_CALL, ScatterOOB)}
"""The call and its policies, by whether the table is written."""
NUMBERED = {False: "zero", True: "skip"}
"""The policy for numbers of entries: those below 0 are outside."""
FAR = -(1 << 62)
"""A number that is outside wherever a table begins."""
STORE = "none"
ATOMICS = frozenset(each.text for each in COMBINES)

ScatterHow = tuple[Any, ...]
"""`coalesce`, `oob`, `atomic`, `conflict`, `accumulate`, `engine` and `threads`."""


def gather_form(
    table: Tensor,
    indices: Tensor,
    coalesce: str,
    oob: str,
    engine: str,
    threads: int | None,
    axis: int | None,
    mode: str | None,
) -> Tensor:
    """`gather` with all of its forms."""
    coalesce, at, policy, is_numbered = _policies(False, coalesce, _known(axis), table.dim(), oob, mode)
    if is_numbered:
        indices, policy = _numbers(table, indices, coalesce, at, False, oob, mode), NUMBERED[False]
    return GATHER(_rows(table, at), _signed(indices, mode), coalesce, policy, engine, threads)


def scatter_form(
    table: Tensor,
    src: Tensor,
    indices: Tensor,
    how: ScatterHow,
    axis: int | None,
    mode: str | None,
    reduce: str | None,
    include_self: bool,
) -> Tensor:
    """`scatter` with all of its forms."""
    at, lanes, given, is_plain = _written(table, indices, how, axis, mode, reduce, include_self)
    return (SCATTER if is_plain else REDUCE)(_rows(table, at), src, lanes, *given).view(table.shape)


def scatter_form_(table: Tensor, src: Tensor, indices: Tensor, *form: Any) -> Tensor:
    """`scatter_` with all of its forms."""
    if needs_grad(table, src):
        return table.copy_(scatter_form(table.clone(), src, indices, *form))
    at, lanes, given, is_plain = _written(table, indices, *form)
    rows = _rows(table, at)
    (SCATTER_IN_PLACE if is_plain else REDUCE_IN_PLACE)(rows, src, lanes, *given)
    return table.copy_(rows.view(table.shape)) if at and not table.is_contiguous() else table


def _written(
    table: Tensor,
    indices: Tensor,
    how: ScatterHow,
    axis: int | None,
    mode: str | None,
    reduce: str | None,
    include_self: bool,
) -> tuple[int, Tensor, ScatterHow, bool]:
    """The axis, the indices and the policies of a scatter, and whether `scatter` has its reduction."""
    coalesce, oob, atomic, *others = how
    atomic = _reduction(atomic, reduce)
    coalesce, at, policy, is_numbered = _policies(True, coalesce, _known(axis), table.dim(), oob, mode)
    if is_numbered:
        indices, policy = _numbers(table, indices, coalesce, at, True, oob, mode), NUMBERED[True]
    given = coalesce, policy, atomic, *others
    is_plain = include_self is True or (include_self is False and atomic == STORE)
    is_plain = is_plain and atomic in ATOMICS
    return at, _signed(indices, mode), given if is_plain else (*given, include_self), is_plain


def _known(axis: Any) -> Any:
    """An axis; compiled code is for its value, also where PyTorch takes numbers that change for symbols."""
    return index(axis) if is_compiling() and isinstance(axis, int) else axis


@torch.compiler.assume_constant_result
def _policies(
    is_written: bool, coalesce: object, axis: object, ndim: int, oob: object, mode: Any
) -> tuple[str, int, str, bool]:
    """What an index selects, along which axis, the `oob`, and whether indices must be numbered for it."""
    call, side = SIDES[is_written]
    outside_policy(call, side, oob, mode)  # refuses what there is not
    unit, at = place_of(call, coalesce, axis, ndim)
    policy = call.policy(side, "oob", oob) if mode is None else MODES[mode][is_written]
    has_entries = ndim > 0 or unit.text != ROW  # else the operator refuses the table
    return unit.text, at, policy.text, has_entries and (at > 0 or mode == FROM_END)


@torch.compiler.assume_constant_result
def _reduction(atomic: object, reduce: object) -> str:
    """The reduction of an operator."""
    return reduction(SCATTER_CALL, atomic, reduce).text


def _signed(indices: Tensor, mode: str | None) -> Tensor:
    """Indices that keep their sign under a mode; without one, an int32 is taken for an uint32."""
    return indices if mode is None or indices.dtype is not torch.int32 else indices.to(torch.int64)


def _rows(table: Tensor, at: int) -> Tensor:
    """A table with the dims up to an axis as one."""
    return table.reshape(prod(table.shape[: at + 1]), *table.shape[at + 1 :]) if at else table


def _numbers(
    table: Tensor, indices: Tensor, coalesce: str, at: int, is_written: bool, oob: str, mode: str | None
) -> Tensor:
    """The entries of `_rows` that indices name, for all positions before the axis."""
    found = ENTRIES(indices, list(table.shape), coalesce, at, is_written, oob, mode)
    if not at:
        return found
    before, extent = table.shape[:at], table.shape[at]
    starts = torch.arange(prod(before), device=indices.device) * extent
    starts = starts.view(*before, *[1] * indices.dim())
    return torch.where(found == OUTSIDE, FAR, found) + starts


# --- numbers of entries ----------------------------------------------------------------------------------------------


def _run_entries(
    indices: Tensor, shape: Sequence[int], coalesce: str, axis: int, is_written: bool, oob: str, mode: str | None
) -> Tensor:
    """The kernel of `entries`: refuses and warns as `ptokit.gather` and `ptokit.scatter` do."""
    call, side = SIDES[is_written]
    call, made = call.of(indices=indices), torch.empty(indices.shape, dtype=torch.int64, device=indices.device)
    capacity = shape[axis] if coalesce == ROW else capacity_of(shape, coalesce)
    number_entries(call, indices, made, tuple(shape), capacity, outside_policy(call, side, oob, mode))
    return made


def _shape_of_entries(indices: Tensor, *_given: Any, **_named: Any) -> Tensor:
    return indices.new_empty(indices.shape, dtype=torch.int64)


def _batch_of_entries(call: Any, _info: Any, dims: Batch, indices: Tensor, *given: Any) -> tuple[Tensor, int]:
    assert dims[0] is not None
    return call(indices.movedim(dims[0], 0), *given), 0


ENTRIES = TensorOperator(
    "entries",
    "(Tensor indices, SymInt[] shape, str coalesce, int axis, bool is_written, str oob, str? mode) -> Tensor",
    _run_entries,
    _shape_of_entries,
    slice(1),
)
ENTRIES.batch(_batch_of_entries)
