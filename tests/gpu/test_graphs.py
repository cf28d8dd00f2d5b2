"""CUDA graphs: calls that can be captured are right when they are replayed, all others leave the capture as it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cupy
import pytest
import torch

import ptokit as pto
import ptokit.torch as pt

ROWS = torch.randn(1000, 48, generator=torch.Generator().manual_seed(0))
FEW, MANY = 300, 5000
"""Lanes that sums take in their order in one kernel, and more."""
Call = Callable[[], Any]


def lanes(count: int, seed: int) -> torch.Tensor:
    """Indices of which some are outside."""
    return torch.randint(-50, 1050, (count,), generator=torch.Generator().manual_seed(seed))


def captured(call: Call) -> tuple[torch.cuda.CUDAGraph, Any]:
    """A graph of a call, and the result that it writes."""
    call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        made = call()
    return graph, made


def is_refused(call: Call, times: int, *words: str) -> None:
    """A call is refused in a capture, which goes on; PyTorch and the call work after it."""
    for _ in range(times):
        call()
    torch.cuda.synchronize()
    graph, x = torch.cuda.CUDAGraph(), torch.zeros(4, device="cuda")
    with torch.cuda.graph(graph):
        y = x + 1
        with pytest.raises((pto.VerifyError, ValueError)) as problem:
            call()
        z = y * 2
    assert "captured" in str(problem.value) and all(word in str(problem.value) for word in words)
    x.fill_(3)
    graph.replay()
    assert z.tolist() == [8.0] * 4
    torch.manual_seed(0)
    first = torch.rand(8, device="cuda")
    torch.manual_seed(0)
    assert torch.equal(torch.rand(8, device="cuda"), first) and torch.randn(3, device="cuda").isfinite().all()
    call()
    torch.cuda.synchronize()


@pytest.mark.parametrize("oob", ["clamp", "wrap", "zero"])
@pytest.mark.parametrize("count", [FEW, MANY])
@pytest.mark.parametrize("name", ["operator", "array", "out"])
def test_gathers_are_replayed_with_other_indices(name: str, count: int, oob: str) -> None:
    table, indices, out = ROWS.cuda(), lanes(count, 0).cuda(), torch.empty(count, 48, device="cuda")
    calls: dict[str, Call] = {
        "operator": lambda: pt.gather(table, indices, oob=oob),
        "array": lambda: pto.gather(table, indices, oob=oob),
        "out": lambda: pto.gather(table, indices, oob=oob, out=out),
    }
    graph, made = captured(calls[name])
    for seed in range(1, 4):
        indices.copy_(lanes(count, seed))
        table.copy_(ROWS * seed)
        graph.replay()
        assert torch.equal(made.cpu(), pt.gather(ROWS * seed, lanes(count, seed), oob=oob))
        calls[name]()  # other calls in between


@pytest.mark.parametrize("oob", ["clamp", "wrap", "skip"])
@pytest.mark.parametrize("how", [{"atomic": "add"}, {"atomic": "max"}, {"conflict": "any", "atomic": "add"}], ids=str)
def test_scatters_of_few_lanes_are_replayed(how: dict[str, Any], oob: str) -> None:
    src = torch.randint(-9, 9, (FEW, 48), generator=torch.Generator().manual_seed(5)).float()
    table, indices, values = ROWS.round().cuda(), lanes(FEW, 0).cuda(), src.cuda()
    graph, made = captured(lambda: pt.scatter(table, values, indices, oob=oob, **how))
    for seed in range(1, 4):
        indices.copy_(lanes(FEW, seed))
        graph.replay()
        assert torch.equal(made.cpu(), pt.scatter(ROWS.round(), src, lanes(FEW, seed), oob=oob, **how))


@pytest.mark.parametrize("times", [0, 1, 3], ids=["first", "second", "repeated"])
def test_calls_that_check_are_refused(times: int) -> None:
    table, indices = ROWS.cuda(), lanes(FEW, 0).clamp(0, 999).cuda()
    src, offsets = ROWS[:FEW].cuda(), torch.arange(0, FEW, 10, device="cuda")
    lengths = torch.full((100,), 10, device="cuda")
    is_refused(lambda: pt.gather(table, indices), times, "waits for the check")
    is_refused(lambda: pto.gather(table, indices), times)
    is_refused(lambda: pt.scatter(table, src, indices), times)
    is_refused(lambda: pt.scatter_(table, src, indices, atomic="add"), times)
    is_refused(lambda: pt.gather(table, indices.int(), oob="clamp"), times, "int64")
    is_refused(lambda: pt.gather(table, [1, 2], oob="clamp"), times, "values of the host")
    is_refused(lambda: pt.scatter(table, 1.0, indices, oob="skip"), times, "values of the host")
    is_refused(lambda: pt.gather(table, indices % 48, axis=1, oob="clamp"), times)
    is_refused(lambda: pt.scatter(table, src, indices, reduce="mean"), times)
    is_refused(lambda: pt.embedding_bag(indices, table, offsets), times)
    is_refused(lambda: pt.segment_sum(table, lengths=lengths), times)
    is_refused(lambda: pt.segment_sum(src, segment_ids=indices), times, "num_segments")


def test_a_call_whose_kernels_are_not_loaded_is_refused() -> None:
    table, indices = torch.ones(77, 11, dtype=torch.float16, device="cuda"), torch.arange(7, device="cuda")
    is_refused(lambda: pt.gather(table, indices, oob="zero"), 0, "once before")
    captured(lambda: pt.gather(table, indices, oob="zero"))


def test_sums_of_many_lanes_are_refused() -> None:
    table, indices, src = ROWS.cuda(), lanes(MANY, 0).cuda(), torch.ones(MANY, 48, device="cuda")
    is_refused(lambda: pt.scatter(table, src, indices, oob="skip", atomic="add"), 3, "later calls use")
    graph, made = captured(lambda: pt.scatter(table, src, indices, oob="skip", atomic="add", conflict="any"))
    graph.replay()
    assert torch.allclose(made.cpu(), pt.scatter(ROWS, src.cpu(), indices.cpu(), oob="skip", atomic="add"), atol=1e-4)


@pto.kernel
def copied(x: Any, y: Any) -> None:
    """Copies an array."""
    t = pto.Tile("vec", "float32", 8, 8)
    pto.tload(t, x)
    pto.tstore(y, t)


@pytest.mark.parametrize("times", [0, 1, 4])
def test_launches_are_refused(times: int) -> None:
    x, y = torch.ones(8, 8, device="cuda"), torch.zeros(8, 8, device="cuda")
    is_refused(lambda: copied[1](x, y), times)
    here = torch.ones(8, 8).numpy()
    is_refused(lambda: copied[1](here, here.copy(), engine="cuda"), times)


def test_cupy_arrays_beside_a_capture_of_torch_are_refused() -> None:
    table, indices = cupy.arange(48.0).reshape(6, 8), cupy.array([3, 0])
    is_refused(lambda: pto.gather(table, indices), 3)


def test_a_capture_of_cupy() -> None:
    table, indices = cupy.arange(48.0).reshape(6, 8), cupy.array([3, 0])
    out, stream = cupy.zeros((2, 8)), cupy.cuda.Stream(non_blocking=True)
    with stream:
        pto.gather(table, indices, oob="clamp", out=out)
        pto.gather(table, indices)
        stream.begin_capture()
        with pytest.raises(pto.VerifyError, match="captured"):
            pto.gather(table, indices)
        with pytest.raises(pto.VerifyError, match="captured"):
            pto.gather(table, indices, oob="clamp")
        pto.gather(table, indices, oob="clamp", out=out)
        graph = stream.end_capture()
        indices[...] = cupy.array([5, 9])
        graph.launch()
        stream.synchronize()
    assert out[:, 0].tolist() == [40.0, 40.0]


class Model(torch.nn.Module):
    """Users, bags of items, and scores."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(3)
        self.users = pt.Embedding(100, 16)
        self.items = pt.EmbeddingBag(200, 16, mode="sum")
        self.last = torch.nn.Linear(16, 4)
        for each in self.parameters():
            each.data = torch.randn(each.shape, generator=generator)

    def forward(self, users: torch.Tensor, items: torch.Tensor) -> torch.Tensor:
        mixed = self.users(users) * self.items(items)
        return self.last(mixed.tanh() + pt.gather(mixed, users % 8, oob="wrap"))


@pytest.mark.filterwarnings(r"ignore::DeprecationWarning:torch\..*")  # PyTorch's own, in its compiler
@pytest.mark.filterwarnings(r"ignore::UserWarning:torch\..*")
@pytest.mark.parametrize("is_followed", [False, True], ids=["forward", "backward"])
def test_models_compiled_with_less_overhead(is_followed: bool) -> None:
    """`mode="reduce-overhead"` captures what it can; our operators are tagged as those that it must leave out."""
    torch._dynamo.reset()
    mine, other = Model().cuda(), Model().cuda()
    compiled = torch.compile(mine, mode="reduce-overhead")
    for seed in range(6):
        generator = torch.Generator().manual_seed(seed)
        users = torch.randint(0, 100, (32,), generator=generator).cuda()
        items = torch.randint(0, 200, (32, 5), generator=generator).cuda()
        torch.compiler.cudagraph_mark_step_begin()
        with torch.set_grad_enabled(is_followed):
            found, expected = compiled(users, items), other(users, items)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
        if is_followed:
            for model, made in ((mine, found), (other, expected)):
                model.zero_grad()
                made.square().mean().backward()
            for a, b in zip(mine.parameters(), other.parameters(), strict=True):
                torch.testing.assert_close(a.grad, b.grad, rtol=1e-3, atol=1e-4)
    with pytest.raises(pto.OutOfBoundsError):
        compiled(users + 100, items)


def test_operators_are_tagged() -> None:
    tag = getattr(torch.Tag, "cudagraph_unsafe", None)
    assert tag is None or tag in torch.ops.ptokit.gather.default.tags
