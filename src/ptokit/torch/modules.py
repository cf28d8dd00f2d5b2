"""Modules for models: `Embedding` and `EmbeddingBag`, and the function `embedding`."""

from __future__ import annotations

from functools import wraps
from typing import Any

import torch
from torch import Tensor

from ptokit.lang.faults import public
from ptokit.torch.bag_kernel import check_mode
from ptokit.torch.bag_operator import IN_WEIGHT, as_padding, bag_of, refuse_options
from ptokit.torch.dispatch import called_by, check_tensor, renamed, whole_number
from ptokit.torch.indexed import as_indices, gather
from ptokit.torch.operators import GATHER
from ptokit.torch.remap import ROW
from ptokit.torch.updates import Followed, FusedOptimizer, Update, is_updated, looked_up

STATE = "sum_of_squares"
"""The buffer with the state of a fused optimizer."""


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,  # noqa: ARG001
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
    *,
    engine: str = "auto",
    threads: int | None = None,
) -> Tensor:
    """Rows of `weight`: `torch.nn.functional.embedding`, whose gradient is summed in the order of the indices.

    With `sparse`, the gradient is a coalesced sparse tensor of the rows that were read, in ascending order. The row of
    `padding_idx` gets no gradient. `max_norm`, with its `norm_type`, and `scale_grad_by_freq` are refused.
    """
    refuse_options(max_norm, scale_grad_by_freq)
    return _rows("embedding", input, weight, padding_idx, (engine, threads), (None, None) if sparse else None)


def _rows(
    name: str,
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None,
    how: tuple[Any, ...],
    update: Update | None = None,
) -> Tensor:
    """Rows of a table; `update` is what backward does to it instead of a dense gradient."""
    check_tensor("weight", weight)
    padding = -1 if padding_idx is None else as_padding(whole_number("padding_idx", padding_idx), len(weight))
    if update is not None and weight.dim() == 2 and is_updated(update, weight):
        lanes = as_indices(input, weight)

        def read() -> tuple[Tensor, None]:
            return renamed(name, "input", IN_WEIGHT, GATHER, weight, lanes, ROW, "undefined", *how), None

        return looked_up(weight, None, lanes, None, Followed("", padding, True, how, *update), read)
    engine, threads = how
    found = renamed(name, "input", IN_WEIGHT, lambda: gather(weight, input, engine=engine, threads=threads))
    if padding_idx is None:
        return found
    # the row of the padding is read, and gets no gradient
    is_padding = (input == padding).unsqueeze(-1)
    return torch.where(is_padding, found.detach(), found)


class Embedding(torch.nn.Embedding):
    """`torch.nn.Embedding` whose gradient is summed in the order of the indices.

    With `optimizer`, one of "sgd", "adagrad" and "rowwise_adagrad", backward updates the rows that were read, with
    `lr`, `eps` and `weight_decay`, and the table has no gradient. `max_norm` and `scale_grad_by_freq` are refused. An
    index outside of the table is refused.
    """

    @public
    @wraps(torch.nn.Embedding.__init__)
    def __init__(
        self,
        *args: Any,
        optimizer: str | None = None,
        lr: float = 0.01,
        eps: float = 1e-10,
        weight_decay: float = 0.0,
        **options: Any,
    ) -> None:
        super().__init__(*args, **options)
        _prepare(self, optimizer, lr, eps, weight_decay)

    def forward(self, input: Tensor) -> Tensor:
        """Rows of the table."""
        return _rows("Embedding", input, self.weight, self.padding_idx, ("auto", None), _update_of(self))


class EmbeddingBag(torch.nn.EmbeddingBag):
    """`torch.nn.EmbeddingBag` whose sums and gradients are taken in the order of the indices; also with mode "min".

    `optimizer`, `lr`, `eps` and `weight_decay` are those of `Embedding`. `max_norm` and `scale_grad_by_freq` are
    refused.
    """

    @public
    @wraps(torch.nn.EmbeddingBag.__init__)
    def __init__(
        self,
        *args: Any,
        optimizer: str | None = None,
        lr: float = 0.01,
        eps: float = 1e-10,
        weight_decay: float = 0.0,
        **options: Any,
    ) -> None:
        super().__init__(*args, **options)
        check_mode(self.mode, self.weight)
        _prepare(self, optimizer, lr, eps, weight_decay)

    def forward(
        self,
        input: Tensor,
        offsets: Tensor | None = None,
        per_sample_weights: Tensor | None = None,
    ) -> Tensor:
        """The bags of a 2-D input, or of a 1-D input with offsets."""
        return called_by(
            "EmbeddingBag",
            bag_of,
            input,
            self.weight,
            offsets,
            self.mode,
            per_sample_weights,
            self.include_last_offset,
            self.padding_idx,
            update=_update_of(self),
        )


def _prepare(module: Any, rule: str | None, lr: float, eps: float, weight_decay: float) -> None:
    """Refuse options that are not there, and give a module its optimizer."""
    refuse_options(module.max_norm, module.scale_grad_by_freq)
    module.optimizer = None if rule is None else FusedOptimizer(rule, lr, eps, weight_decay)
    if module.optimizer is None:
        return
    if module.sparse:
        raise ValueError("sparse= is for optimizers of torch.optim; with optimizer= the table has no gradient")
    state = module.optimizer.state(module.weight.detach())
    if state is not None:
        module.register_buffer(STATE, state)


def _update_of(module: Any) -> Update | None:
    """What backward does to the table of a module; None for a dense gradient."""
    optimizer = module.optimizer
    if optimizer is None:
        return (None, None) if module.sparse else None
    return optimizer, getattr(module, STATE, None)
