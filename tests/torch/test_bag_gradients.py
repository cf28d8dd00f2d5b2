"""The gradient of the table of bags in one call: when it is made, and that it has the bits of its parts.

An emulated GPU takes the place of the engine for tensors of the host.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

pytest.importorskip("llvmlite")

import ptokit.torch as pt
from ptokit.engine.bag_arguments import BagGradients
from ptokit.engine.cuda.whole import moves as on_gpu
from ptokit.engine.runnable import Unsupported
from ptokit.torch import bag_gradients
from tests.engine.cuda.emulated import EmulatedDevice
from tests.torch.naive import bits

FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
MADE = torch.Generator().manual_seed(0)
TABLE = torch.randn(9, 3, 4, generator=MADE)
LANES = torch.randint(0, 9, (60,), generator=MADE)
OFFSETS = torch.tensor([0, 7, 7, 40, 59])
device = EmulatedDevice()


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[BagGradients]]:
    """The calls that were made."""
    made = list[BagGradients]()

    def run(given: BagGradients) -> None:
        made.append(given)
        on_gpu.run_gradients(given)

    monkeypatch.setattr(on_gpu, "current", lambda: device)
    monkeypatch.setattr(bag_gradients, "bag_gradients", lambda _: run)
    on_gpu._through_bags.cache_clear()
    yield made
    on_gpu._through_bags.cache_clear()


def gradients(call: Callable[..., Tensor], *given: Tensor) -> list[list[Any]]:
    """The bits of the gradients of some tensors."""
    own = [each.detach().clone().requires_grad_() for each in given]
    made = call(*own)
    made.backward(torch.randn(made.shape, generator=torch.Generator().manual_seed(1)).to(made))
    return [bits(each.grad) for each in own if each.grad is not None]


@pytest.mark.parametrize("kind", FLOATS, ids=str)
@pytest.mark.parametrize("mode", ["sum", "mean", "max", "min"])
def test_it_has_the_bits_of_its_parts(
    mode: str, kind: torch.dtype, calls: list[BagGradients], monkeypatch: pytest.MonkeyPatch
) -> None:
    for padding, index, last in ((None, torch.int64, False), (4, torch.int32, False), (None, torch.int32, True)):
        offsets = torch.cat([OFFSETS, torch.tensor([60])]) if last else OFFSETS

        def call(table: Tensor, index: Any = index, offsets: Tensor = offsets, **how: Any) -> Tensor:
            return pt.embedding_bag(LANES.to(index), table, offsets, mode=mode, **how)

        def both(call: Any = call, padding: int | None = padding, last: bool = last) -> list[list[Any]]:
            return gradients(lambda table: call(table, padding_idx=padding, include_last_offset=last), TABLE.to(kind))

        calls.clear()
        found = both()
        assert len(calls) == (mode != "mean" or padding is None)
        with monkeypatch.context() as patch:
            patch.setattr(bag_gradients, "bag_gradients", lambda _: None)
            assert both() == found


@pytest.mark.parametrize("kind", FLOATS, ids=str)
def test_weights(kind: torch.dtype, calls: list[BagGradients], monkeypatch: pytest.MonkeyPatch) -> None:
    weights = torch.randn(60, generator=torch.Generator().manual_seed(2)).to(kind)

    def both(**how: Any) -> list[list[Any]]:
        return gradients(
            lambda t, w: pt.embedding_bag(LANES, t, OFFSETS, mode="sum", per_sample_weights=w, **how),
            TABLE.to(kind),
            weights,
        )

    found = both(), both(padding_idx=2)
    assert len(calls) == 2 and all(each.weights for each in calls)
    fixed = gradients(
        lambda t: pt.embedding_bag(LANES, t, OFFSETS, mode="sum", per_sample_weights=weights), TABLE.to(kind)
    )
    assert fixed == found[0][:1]
    monkeypatch.setattr(bag_gradients, "bag_gradients", lambda _: None)
    assert (both(), both(padding_idx=2)) == found


def bag(table: Tensor, mode: str = "sum") -> Tensor:
    return pt.embedding_bag(LANES, table, OFFSETS, mode=mode)


def test_tensors_that_lie_in_any_way(calls: list[BagGradients]) -> None:
    own = TABLE.clone().requires_grad_()
    bag(own).sum().backward()  # a gradient that repeats one element
    counts = torch.bincount(LANES, minlength=9).float()
    assert own.grad is not None and torch.equal(own.grad, counts[:, None, None].expand(9, 3, 4))
    own.grad = None
    pt.embedding_bag(LANES.repeat_interleave(2)[::2], own, OFFSETS, mode="sum").sum().backward()
    assert torch.equal(own.grad, counts[:, None, None].expand(9, 3, 4))
    assert len(calls) == 2


def test_what_is_followed_is_taken_apart(calls: list[BagGradients]) -> None:
    own = TABLE.double().requires_grad_()
    for mode in ("sum", "max"):
        (found,) = torch.autograd.grad((bag(own, mode) ** 2).sum(), own, create_graph=True)
        assert found.requires_grad and not calls
    torch.func.grad(lambda table: bag(table).sum())(own.detach())
    torch.func.vmap(torch.func.grad(lambda table: bag(table).sum()))(torch.stack([own.detach()] * 2))
    torch.compile(bag, backend="aot_eager")(own).sum().backward()
    assert not calls
    bag(own).sum().backward()
    assert len(calls) == 1


def test_what_has_no_call_is_taken_apart(calls: list[BagGradients], monkeypatch: pytest.MonkeyPatch) -> None:
    found = gradients(bag, TABLE)
    pt.segment_sum(TABLE.clone().requires_grad_(), lengths=torch.tensor([4, 5])).sum().backward()
    none = torch.zeros(0, dtype=torch.int64)
    own = TABLE.clone().requires_grad_()
    pt.embedding_bag(none, own, none.new_zeros(2), mode="sum").sum().backward()
    pt.embedding_bag(none.view(0, 2), own, mode="max").sum().backward()
    pt.embedding_bag(LANES, TABLE[..., :0].clone().requires_grad_(), OFFSETS, mode="sum").sum().backward()
    assert len(calls) == 1

    def refuse(_given: BagGradients) -> None:
        raise Unsupported("this")

    monkeypatch.setattr(bag_gradients, "bag_gradients", lambda _: refuse)
    assert gradients(bag, TABLE) == found


def test_engines_of_the_host_have_no_such_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_gpu, "run_gradients", None)
    for engine in ("native", "reference"):
        gradients(lambda t, e=engine: pt.embedding_bag(LANES, t, OFFSETS, mode="sum", engine=e), TABLE)
