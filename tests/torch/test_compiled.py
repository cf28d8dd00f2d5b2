"""Compiled and exported code with sizes that change: one graph, compiled twice at most, with the bits of eager code."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend

import ptokit.torch as pt
from tests.torch.naive import bits

SIZES = (5, 17, 64, 33, 900, 2, 128)
ROWS = 50


def numbers(*shape: int) -> Tensor:
    return torch.randint(0, ROWS, shape, generator=torch.Generator().manual_seed(sum(shape)))


def values(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def offsets(size: int) -> Tensor:
    return torch.arange(0, 3 * size, 3)


CALLS: dict[str, tuple[Callable[..., Tensor], Callable[[int], tuple[Any, ...]]]] = {
    "gather": (lambda t, i: pt.gather(t, i), lambda n: (numbers(n),)),
    "embedding": (lambda t, i: pt.embedding(i, t, 3), lambda n: (numbers(n, 2),)),
    "scatter add": (lambda t, s, i: pt.scatter(t, s, i, atomic="add"), lambda n: (values(n, 8), numbers(n))),
    "scatter_ add": (lambda t, s, i: pt.scatter_(t * 1, s, i, atomic="add"), lambda n: (values(n, 8), numbers(n))),
    "sum": (lambda t, i: pt.embedding_bag(i, t, mode="sum"), lambda n: (numbers(n, n % 7 + 2),)),
    "mean": (lambda t, i, o: pt.embedding_bag(i, t, o), lambda n: (numbers(3 * n), offsets(n))),
    "max": (lambda t, i, o: pt.embedding_bag(i, t, o, mode="max"), lambda n: (numbers(3 * n), offsets(n))),
    "weights": (
        lambda t, i, o, w: pt.embedding_bag(i, t, o, mode="sum", per_sample_weights=w),
        lambda n: (numbers(3 * n), offsets(n), values(3 * n)),
    ),
    "segments": (
        lambda t, v, i: t[:9] * pt.segment_sum(v, segment_ids=i % 9, num_segments=9),
        lambda n: (values(n, 8), numbers(n)),
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_one_graph_for_all_sizes(name: str) -> None:
    call, given = CALLS[name]
    torch.compiler.reset()
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(call, fullgraph=True, backend=counter)
    for size in SIZES:
        found = []
        for each in (call, compiled):
            table = values(ROWS, 8).requires_grad_()
            made = each(table, *given(size))
            made.backward(values(*made.shape))
            found.append((bits(made), bits(table.grad)))
        assert found[0] == found[1]
    assert counter.frame_count <= 2  # the first size, and all others


def test_tables_that_grow() -> None:
    torch.compiler.reset()
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(lambda t, i: pt.gather(t, i), fullgraph=True, backend=counter)
    for size in SIZES:
        table, lanes = values(size + ROWS, 4), numbers(size)
        assert bits(compiled(table, lanes)) == bits(pt.gather(table, lanes))
    assert counter.frame_count <= 2


class Model(torch.nn.Module):
    """Items of a user in bags, and the user."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.items, self.users = pt.EmbeddingBag(ROWS, 8, mode="sum"), pt.Embedding(ROWS, 8, padding_idx=1)

    def forward(self, items: Tensor, bounds: Tensor, users: Tensor) -> Tensor:
        return pt.gather(self.items(items, bounds) + self.users(users), users % 2)


def inputs(size: int) -> tuple[Tensor, Tensor, Tensor]:
    return numbers(3 * size), offsets(size), numbers(size)


def exported() -> Any:
    size = torch.export.Dim("size", min=2, max=4096)
    return torch.export.export(Model(), inputs(5), dynamic_shapes=({0: 3 * size}, {0: size}, {0: size}))


def test_exported_code_takes_any_size(tmp_path: Path) -> None:
    torch.export.save(exported(), tmp_path / "model.pt2")
    module, model = torch.export.load(tmp_path / "model.pt2").module(), Model()
    for size in SIZES:
        assert bits(module(*inputs(size))) == bits(model(*inputs(size)))


@pytest.mark.skipif(shutil.which("g++") is None, reason="AOTInductor needs a compiler")
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
def test_code_of_aot_inductor_takes_any_size(tmp_path: Path) -> None:
    model = Model()
    with torch.no_grad():
        path = torch._inductor.aoti_compile_and_package(exported(), package_path=str(tmp_path / "model.pt2"))
        compiled = torch._inductor.aoti_load_package(path)
        for size in SIZES:
            assert bits(compiled(*inputs(size))) == bits(model(*inputs(size)))


# --- arguments by position, as `torch.nn.functional` has them


def test_arguments_by_position() -> None:
    table, lanes, bounds = values(ROWS, 8), numbers(30), torch.tensor([0, 4, 4, 30])
    weights = values(30)
    given = lanes, table, bounds, None, 2.0, False, "sum", False, weights, True, 3
    torch.testing.assert_close(pt.embedding_bag(*given), torch.nn.functional.embedding_bag(*given))
    rows = lanes, table, 3, None, 2.0, False, False
    assert torch.equal(pt.embedding(*rows), torch.nn.functional.embedding(*rows))
    for call, before in ((pt.embedding_bag, (lanes, table, bounds)), (pt.embedding, (lanes, table, None))):
        with pytest.raises(ValueError, match="max_norm is refused: it writes rows of weight"):
            call(*before, 1.0)
        with pytest.raises(ValueError, match="scale_grad_by_freq is refused"):
            call(*before, None, 2.0, True)
