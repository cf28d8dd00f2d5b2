"""Other forms of `gather` and `scatter`: along an axis, with a `mode`, with a `reduce`.

They are tensor code around the operators. Along an inner axis, a table is one of more rows, and every index names one
of them for each position before the axis. Modes are policies for indices with a sign.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from operator import index
from typing import Any

import torch
from torch import Tensor

from ptokit.isa.mscatter import COMBINES
from ptokit.isa.policy import GatherOOB, ScatterOOB
from ptokit.ops.call import GATHER as GATHER_CALL
from ptokit.ops.call import SCATTER as SCATTER_CALL
from ptokit.ops.forms import number_entries, place_of
from ptokit.ops.synonyms import FROM_END, MODES, outside_policy, reduction
from ptokit.torch.dispatch import Batch, TensorOperator, is_compiling, needs_grad
from ptokit.torch.operators import GATHER, SCATTER, SCATTER_IN_PLACE
from ptokit.torch.reductions import REDUCE, REDUCE_IN_PLACE
from ptokit.torch.remap import OUTSIDE, ROW, capacity_of

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
