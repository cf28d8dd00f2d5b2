"""Deterministic mode: the same bits without a warning, and no new tensor is filled before it is written."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

import ptokit as pto
import ptokit.torch as pt
from ptokit.lang.gpu import new_tensor
from tests.torch.naive import bits

MADE = torch.Generator().manual_seed(0)
TABLE, SRC = torch.randn(50, 6, generator=MADE), torch.randn(400, 6, generator=MADE)
LANES = torch.randint(0, 45, (400,), generator=MADE)
"""Some rows are named by no lane."""
FAR, OFFSETS = LANES * 3 - 30, torch.tensor([0, 10, 10, 399])
LENGTHS = torch.tensor([100, 0, 299, 1])


@pytest.fixture(autouse=True)
def _mode() -> Iterator[None]:
    yield
    torch.use_deterministic_algorithms(False)
    torch.utils.deterministic.fill_uninitialized_memory = True


CALLS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "gather": lambda t, _: pt.gather(t, LANES),
    "gather zero": lambda t, _: pt.gather(t, FAR, oob="zero"),
    "gather of elements": lambda t, _: pt.gather(t, FAR, oob="wrap", coalesce="elem"),
    "gather along": lambda t, _: pt.gather(t, torch.tensor([5, 0, 5]), axis=1),
    **{
        f"scatter {each}": lambda t, s, a=each: pt.scatter(t, s, FAR, oob="skip", atomic=a)
        for each in ("none", "add", "max")
    },
    "scatter mean": lambda t, s: pt.scatter(t, s, LANES, reduce="mean", include_self=False),
    **{
        f"bag {each}": lambda t, _, m=each: pt.embedding_bag(LANES, t, OFFSETS, mode=m)
        for each in ("sum", "mean", "max")
    },
    "bag padded": lambda t, _: pt.embedding_bag(LANES.view(-1, 8), t, mode="mean", padding_idx=3),
    "bag of short indices": lambda t, _: pt.embedding_bag(LANES.to(torch.int16), t, OFFSETS, mode="min"),
    **{f"segment {each}": lambda _, s, r=each: pt.segment_reduce(s, r, lengths=LENGTHS) for each in ("sum", "max")},
    "segment ids": lambda _, s: pt.segment_reduce(s, "mean", segment_ids=LANES),
}


def outcome(call: Callable[[Tensor, Tensor], Tensor], kind: torch.dtype) -> list[Any]:
    """The bits of a result and of the gradients; then those of a result without gradients."""
    given = tuple(each.to(kind, copy=True).requires_grad_() for each in (TABLE, SRC))
    made = call(*given)
    made.backward(torch.linspace(-1, 1, made.numel()).view(made.shape).to(kind))
    with torch.no_grad():
        again = call(*given)
    return [bits(each) for each in (made, again, *(t.grad for t in given if t.grad is not None))]


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_the_bits_are_the_same(name: str, kind: torch.dtype) -> None:
    expected = outcome(CALLS[name], kind)
    for is_filled in (True, False):
        torch.use_deterministic_algorithms(True)
        torch.utils.deterministic.fill_uninitialized_memory = is_filled
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for _ in range(2):  # the second time, calls are repeated
                assert outcome(CALLS[name], kind) == expected


def test_arrays_that_are_not_seen_by_autograd() -> None:
    expected = pto.gather(TABLE, LANES)
    torch.use_deterministic_algorithms(True)
    assert bits(pto.gather(TABLE, LANES)) == bits(expected) == bits(TABLE[LANES])


@pytest.mark.parametrize("shape", [(3, 4), (0, 5), (), (7,), None], ids=str)
@pytest.mark.parametrize("kind", [None, torch.int32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("is_inference", [False, True])
def test_new_tensors_are_those_of_pytorch(
    shape: tuple[int, ...] | None, kind: torch.dtype | None, is_inference: bool
) -> None:
    like = torch.nn.Parameter(torch.randn(2, 6))
    for is_deterministic in (False, True):
        torch.use_deterministic_algorithms(is_deterministic)
        with torch.inference_mode(is_inference):
            made = new_tensor(like, shape, kind) if shape is not None else new_tensor(like)
        expected = like.new_empty(like.shape if shape is None else shape, dtype=kind if shape is not None else None)
        facts = [(t.dtype, t.shape, t.stride(), t.device, t.requires_grad, type(t)) for t in (made, expected)]
        assert facts[0] == facts[1] and made.is_inference() is is_inference
        assert made.untyped_storage().nbytes() == expected.untyped_storage().nbytes()


def test_new_tensors_are_not_filled() -> None:
    torch.use_deterministic_algorithms(True)
    like, shape = torch.ones(1), (1 << 20,)
    assert like.new_empty(shape).isnan().all()
    torch.utils.deterministic.fill_uninitialized_memory = False
    ones = torch.ones(shape)
    torch.utils.deterministic.fill_uninitialized_memory = True
    del ones  # what comes now has this memory, or that of a new page
    assert not new_tensor(like, shape).isnan().all()
