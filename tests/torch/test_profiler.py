"""PyTorch's profiler sees every operator, in the first call and in repeated ones, forward and backward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import ptokit.torch as pt
from ptokit.torch import dispatch, operators

pytestmark = pytest.mark.filterwarnings("ignore:.*Profiler clears events:UserWarning")  # PyTorch 2.11 says so once

LANES, OFFSETS, IDS = torch.tensor([1, 3, 1]), torch.tensor([0, 2]), torch.tensor([0, 1, 0, 1])
MODULES = pt.Embedding(4, 3), pt.EmbeddingBag(4, 3)

CALLS: dict[str, tuple[Callable[[Any], Any], set[str], set[str]]] = {
    "gather": (lambda t: pt.gather(t, LANES), {"gather"}, {"scatter_zeros"}),
    "along an axis": (lambda t: pt.gather(t, [0, 2], axis=1), {"entries", "gather"}, {"scatter_zeros"}),
    "scatter": (lambda t: pt.scatter(t, 1, LANES), {"scatter"}, {"scatter"}),
    "add": (lambda t: pt.scatter(t, t[:3], LANES, atomic="add"), {"scatter"}, {"gather"}),
    "in place": (lambda t: pt.scatter_(t.detach() + 0, 1, LANES), {"scatter_"}, set()),
    "mul": (lambda t: pt.scatter(t, 2, LANES, reduce="mul"), {"scatter_reduce"}, {"scatter_reduce"}),
    "mean": (lambda t: pt.scatter_(t.detach() + 0, 2, LANES, reduce="mean"), {"scatter_reduce_"}, set()),
    "bags": (lambda t: pt.embedding_bag(LANES, t, OFFSETS, mode="sum"), {"bag"}, {"gather", "scatter_zeros"}),
    "max": (lambda t: pt.embedding_bag(LANES[None], t, mode="max"), {"bag"}, {"gather", "scatter_zeros"}),
    "lengths": (lambda t: pt.segment_sum(t, lengths=torch.tensor([1, 3])), {"bag"}, {"gather"}),
    "ids": (lambda t: pt.segment_sum(t, segment_ids=IDS), {"scatter_zeros"}, {"gather"}),
    "Embedding": (lambda _: MODULES[0](LANES), {"gather"}, {"scatter_zeros"}),
    "EmbeddingBag": (lambda _: MODULES[1](LANES, OFFSETS), {"bag"}, {"gather", "scatter_zeros"}),
}
"""Calls, the operators that they are made of, and those of the gradient."""


def recorded(call: Callable[[], Any]) -> tuple[Any, set[str]]:
    """The result of a call, and the operators that the profiler has seen."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as found:
        made = call()
    names = {each.key for each in found.key_averages()}
    return made, {name.removeprefix("ptokit::") for name in names if name.startswith("ptokit::")}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("is_warm", [False, True], ids=["first", "repeated"])
def test_operators_are_seen(name: str, is_warm: bool) -> None:
    call, forward, backward = CALLS[name]
    for is_followed in (False, True):
        table = torch.arange(12.0).reshape(4, 3).requires_grad_(is_followed)
        for _ in range(2 * is_warm):
            call(table)
        made, seen = recorded(lambda table=table: call(table))
        assert seen == forward
        if is_followed and backward:
            assert recorded(made.sum().backward)[1] == backward


def test_every_operator_is_among_these_calls() -> None:
    names = {each.removeprefix("ptokit::") for each in torch._C._dispatch_get_all_op_names() if each[:8] == "ptokit::"}
    assert names == set.union(*(forward for _, forward, _ in CALLS.values()))


def test_gradients_of_calls_before_the_profiler_are_seen() -> None:
    table = torch.ones(4, 3, requires_grad=True)
    for _ in range(3):
        made = pt.gather(table, LANES).sum()
    assert "scatter_zeros" in recorded(made.backward)[1]


def test_shapes_are_recorded() -> None:
    table = torch.ones(4, 3)
    for _ in range(3):
        pt.gather(table, LANES)
    with torch.profiler.profile(record_shapes=True) as found:
        pt.gather(table, LANES)
    (event,) = [each for each in found.events() if each.name == "ptokit::gather"]
    assert event.input_shapes[:2] == [[4, 3], [3]]


def test_without_a_private_function_all_calls_go_through_the_dispatcher(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = dispatch._private(torch._C, "_no_such_function")
    for name in ("is_profiled", "_has_dispatch_modes", "_is_transformed"):
        with monkeypatch.context() as patched:
            patched.setattr(dispatch, name, gone)
            patched.setattr(operators.GATHER, "run", None)  # the short way
            patched.setattr(operators.GATHER, "_apply", None)
            table = torch.ones(4, 3, requires_grad=True)
            for _ in range(2):
                pt.gather(table, LANES).sum().backward()
            assert table.grad is not None and table.grad[:, 0].tolist() == [0, 4, 0, 2]
