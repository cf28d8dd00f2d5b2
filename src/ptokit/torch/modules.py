"""Modules for models: `Embedding` and `EmbeddingBag`."""

from __future__ import annotations

from functools import wraps
from typing import Any

import torch
from torch import Tensor

from ptokit.lang.faults import public
from ptokit.torch.bag_kernel import check_mode
from ptokit.torch.bags import IN_WEIGHT, embedding_bag
from ptokit.torch.dispatch import called_by, renamed
from ptokit.torch.indexed import gather


class Embedding(torch.nn.Embedding):
    """`torch.nn.Embedding` whose gradient is summed in the order of the indices.

    `max_norm`, `scale_grad_by_freq` and `sparse` are refused. An index outside of the table is refused.
    """

    @public
    @wraps(torch.nn.Embedding.__init__)
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        _refuse(self)

    def forward(self, input: Tensor) -> Tensor:
        """Rows of the table."""
        found = renamed("Embedding", "input", IN_WEIGHT, gather, self.weight, input)
        if self.padding_idx is None:
            return found
        # the row of the padding is read, and gets no gradient
        is_padding = (input == self.padding_idx).unsqueeze(-1)
        return torch.where(is_padding, found.detach(), found)


class EmbeddingBag(torch.nn.EmbeddingBag):
    """`torch.nn.EmbeddingBag` whose sums and gradients are taken in the order of the indices; also with mode "min".

    `max_norm`, `scale_grad_by_freq` and `sparse` are refused.
    """

    @public
    @wraps(torch.nn.EmbeddingBag.__init__)
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        _refuse(self)
        check_mode(self.mode, self.weight)

    def forward(
        self,
        input: Tensor,
        offsets: Tensor | None = None,
        per_sample_weights: Tensor | None = None,
    ) -> Tensor:
        """The bags of a 2-D input, or of a 1-D input with offsets."""
        return called_by(
            "EmbeddingBag",
            embedding_bag,
            input,
            self.weight,
            offsets,
            mode=self.mode,
            per_sample_weights=per_sample_weights,
            include_last_offset=self.include_last_offset,
            padding_idx=self.padding_idx,
        )


def _refuse(module: Any) -> None:
    for name in ("max_norm", "scale_grad_by_freq", "sparse"):
        if getattr(module, name):
            raise ValueError(f"ptokit.torch.{type(module).__name__} has no {name}; use torch.nn's")
