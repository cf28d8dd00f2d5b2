"""The gradient of the table of bags in one call of an engine, where nothing follows it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from torch import Tensor

from ptokit.engine.bags import BagGradients
from ptokit.engine.runnable import Unsupported
from ptokit.engines import ENGINES, bag_gradients, chosen, in_order, ordering
from ptokit.lang.gpu import new_tensor, of_tensor
from ptokit.lang.launch import refuse_captured
from ptokit.torch.bag_kernel import INDEX_TYPES, KINDS, PICKS, packed
from ptokit.torch.dispatch import is_grad_enabled, is_plain

ORDERINGS: dict[int, Callable[[], bool]] = {}
"""Of each GPU: whether work is in the order of torch's current stream anyway."""


def gradient_of_table(
    ctx: Any, grad: Tensor, indices: Tensor | None, offsets: Tensor, weights: Tensor | None, winners: Tensor
) -> Tensor | None:
    """The gradient of the table of `bag`, with the bits of its parts; None if these must be taken one by one.

    That is so where autograd, a transform or a compiler follows them, and where no engine has such a call.
    """
    run = _function_of(ctx, grad)
    if run is None or indices is None or indices.dtype not in INDEX_TYPES:
        return None
    is_picked = ctx.reduce in PICKS
    if not (indices.numel() and grad.numel()) or (is_picked and winners.numel() != grad.numel()):
        return None
    out, bags = new_tensor(grad, ctx.shape), len(grad)
    grad, indices, offsets, winners = packed(grad), packed(indices), packed(offsets), packed(winners)
    weights = None if weights is None else packed(weights.to(grad.dtype))
    given = BagGradients(
        dtype=KINDS[grad.dtype],
        index_type=INDEX_TYPES[indices.dtype],
        width=grad.numel() // bags,
        capacity=len(out),
        bags=bags,
        lanes=indices.numel(),
        padding=ctx.padding,
        grad=grad.data_ptr(),
        indices=indices.data_ptr(),
        bounds=offsets.data_ptr(),
        weights=0 if weights is None else weights.data_ptr(),
        winners=winners.data_ptr() if is_picked else 0,
        out=out.data_ptr(),
        mean=ctx.reduce == "mean",
        closed=ctx.closed,
    )
    try:
        with _in_order(grad):
            run(given)
    except Unsupported:
        return None
    return out


def _function_of(ctx: Any, grad: Tensor) -> Callable[[BagGradients], None] | None:
    """The function of the engine of a call, if there is one and a gradient can be passed to it."""
    if is_grad_enabled() or not is_plain(grad) or grad.dtype not in KINDS:
        return None
    if ctx.reduce == "mean" and ctx.padding >= 0:  # which lanes count would have to be counted first
        return None
    name = chosen(ctx.how[0], grad.is_cuda)
    return bag_gradients(name) if ENGINES[name].on_gpu is grad.is_cuda else None


def _in_order(tensor: Tensor) -> AbstractContextManager[object]:
    """A block whose work is done in the order of torch's current stream."""
    if not tensor.is_cuda:
        return nullcontext()
    is_in_order = ORDERINGS.get(tensor.get_device())
    if is_in_order is None:
        is_in_order = ORDERINGS[tensor.get_device()] = ordering([of_tensor(tensor)])
    if is_in_order():
        return nullcontext()
    refuse_captured("the gradient of bags", [of_tensor(tensor)])
    return in_order([of_tensor(tensor)]) or nullcontext()
