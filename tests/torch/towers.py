"""A small two-tower recommender: bags of items and single users, logistic loss, SGD with fixed-order products."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

import ptokit.torch as pt
from tests.torch.naive import bits

USERS, ITEMS, WIDTH, BATCH, BAG, STEPS = 500, 2000, 32, 512, 20, 20


class Towers(torch.nn.Module):
    """Scores of users and bags of items: a sum of products in a fixed order."""

    def __init__(self, library: Any) -> None:
        super().__init__()
        self.users = library.Embedding(USERS, WIDTH)
        self.items = library.EmbeddingBag(ITEMS, WIDTH, mode="sum")

    def forward(self, users: Tensor, items: Tensor, weights: Tensor) -> Tensor:
        products = self.users(users) * self.items(items, per_sample_weights=weights)
        score = products[:, 0]
        for k in range(1, WIDTH):
            score = score + products[:, k]
        return score


@contextmanager
def on_threads(threads: int) -> Iterator[None]:
    before, variable = torch.get_num_threads(), os.environ.get("PTOKIT_THREADS")
    torch.set_num_threads(threads)
    os.environ["PTOKIT_THREADS"] = str(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
        del os.environ["PTOKIT_THREADS"]
        if variable is not None:
            os.environ["PTOKIT_THREADS"] = variable


def trained(threads: int = 1, device: str = "cpu", library: Any = pt, steps: int = STEPS) -> list[Any]:
    """The bits of the weights after some steps.

    What is not an operator of the library is exact on every device: sums of two numbers, products, comparisons.
    """
    made = torch.Generator().manual_seed(0)
    model = Towers(library)
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(torch.randn(weight.shape, generator=made) / 8)
    model.to(device)
    with on_threads(threads):
        for _ in range(steps):
            users = torch.randint(0, USERS, (BATCH,), generator=made).to(device)
            items = (torch.rand(BATCH, BAG, generator=made).pow(3) * ITEMS).long().to(device)
            weights = torch.rand(BATCH, BAG, generator=made).to(device)
            wanted = torch.randint(0, 2, (BATCH,), generator=made).to(device) * 2.0 - 1
            loss = torch.relu(1 - wanted * model(users, items, weights))  # hinge: its gradient is exact
            loss.backward(torch.full_like(loss, 1 / 512))
            with torch.no_grad():
                for weight in model.parameters():
                    weight.sub_(weight.grad * 0.5)
                    weight.grad = None
    return [bits(weight) for weight in model.parameters()]
