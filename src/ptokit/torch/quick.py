"""Calls that were made before: from the addresses of tensors to machine code.

A call is found by the types, shapes, strides and alignment of its tensors, and by its options. Indices are checked as
ever: a call that must refuse one is made again by the long way, which says what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ptokit import repeated
from ptokit.engine.kept import remember
from ptokit.lang.arrays import notify
from ptokit.lang.context import current
from ptokit.lang.gpu import new_tensor
from ptokit.repeated import RepeatedCall
from ptokit.torch.dispatch import needs_grad

MOST_CALLS = 1024
ALIGNED = 15
How = tuple[Any, ...]


@dataclass(slots=True)
class QuickCall:
    """A call that was made before."""

    attempt: Callable[..., bool]
    """Takes the addresses of the table, the indices and the other operand, and `initial` for a scatter on a GPU.

    False if an index must be refused.
    """
    call: RepeatedCall
    like: Tensor | None = None
    """Has the type and shape of a result: PyTorch makes a tensor from another in half the time."""


CALLS: dict[Any, QuickCall] = {}


def quick_gather(table: Tensor, indices: Tensor, how: How) -> Tensor | None:
    """Repeat a gather; None if it is not known, or if an index must be refused."""
    if table.is_neg() or indices.is_neg():
        return None
    try:
        first, second = table.data_ptr(), indices.data_ptr()
    except RuntimeError:  # sparse: the long way refuses it
        return None
    known = _known(_gather_key(table, indices, first, second, how))
    if (
        known is None
        or known.like is None
        or not (first and second and known.call.is_in_order() and _is_outside_kernel())
    ):
        return None
    made = new_tensor(known.like)
    return made if known.attempt(first, second, made.data_ptr()) else None


def keep_gather(table: Tensor, indices: Tensor, made: Tensor, how: How) -> None:
    """Keep a gather that was made, if it can be repeated."""
    call = _repeated(("gather", *how), table, indices, None)
    if call is not None:
        like = blank(made)
        key = _gather_key(table, indices, table.data_ptr(), indices.data_ptr(), how)
        remember(CALLS, key, QuickCall(*call, like), MOST_CALLS)


def blank(like: Tensor) -> Tensor:
    """A tensor of the same type and shape with the memory of one element; not one of inference mode, if that is on."""
    with torch.inference_mode(False):
        return like.new_empty(()).expand(like.shape)


def quick_scatter(
    table: Tensor, src: Tensor, indices: Tensor, how: How, is_new: bool, initial: int | None = None
) -> bool:
    """Repeat a scatter; `is_new` says that the table is new memory. False if it was not done.

    On a GPU, `initial` is the address of the rows that a new packed table has before, or `ZEROS`; None if it has them.
    """
    if table.is_neg() or src.is_neg() or indices.is_neg():
        return False
    if not is_new and needs_grad(table, src):  # the long way refuses them
        return False
    try:
        addresses = [table.data_ptr(), indices.data_ptr(), src.data_ptr()]
    except RuntimeError:  # sparse: the long way refuses it
        return False
    known = _known(_scatter_key(table, src, indices, addresses, how))
    if known is None or 0 in addresses or not (known.call.is_in_order() and _is_outside_kernel()):  # freed: 0
        return False
    if not (is_new or known.call.is_apart(addresses)):
        return False
    is_done = True
    try:
        is_done = known.attempt(*addresses) if initial is None else known.attempt(*addresses, initial=initial)
    finally:  # also if it is interrupted
        if is_done and not is_new:
            notify(table)
    return is_done


def keep_scatter(table: Tensor, src: Tensor, indices: Tensor, how: How) -> None:
    """Keep a scatter that was made, if it can be repeated."""
    call = _repeated(("scatter", *how), table, indices, src)
    if call is not None:
        key = _scatter_key(table, src, indices, [each.data_ptr() for each in (table, indices, src)], how)
        remember(CALLS, key, QuickCall(*call), MOST_CALLS)


def _known(key: tuple[Any, ...]) -> QuickCall | None:
    try:
        return CALLS.get(key)
    except TypeError:  # an option that no call has
        return None


def _gather_key(table: Tensor, indices: Tensor, first: int, second: int, how: How) -> tuple[Any, ...]:
    places = first & ALIGNED, second & ALIGNED
    kinds = table.dtype, table.shape, table.stride(), indices.dtype, indices.shape, indices.stride()
    return kinds, table.get_device(), indices.get_device(), places, how


def _scatter_key(table: Tensor, src: Tensor, indices: Tensor, addresses: list[int], how: How) -> tuple[Any, ...]:
    first, second, third = addresses
    places = first & ALIGNED, second & ALIGNED, third & ALIGNED
    kinds = table.dtype, table.shape, table.stride(), indices.dtype, indices.shape, indices.stride()
    devices = table.get_device(), indices.get_device(), src.get_device()
    return kinds, src.dtype, src.shape, src.stride(), devices, places, how


def _repeated(how: How, *operands: Tensor | None) -> tuple[Callable[..., bool], RepeatedCall] | None:
    """A call that was made just now, if it can be repeated by addresses alone."""
    if operands[0] is not None and operands[0].dtype.is_complex:
        return None  # may be conjugated lazily
    found = repeated.find(how, *operands)
    return (found[0].attempt, found[0]) if found is not None and found[0].attempt is not None else None


def _is_outside_kernel() -> bool:
    here = current()
    return here.tracer is None and here.block is None
