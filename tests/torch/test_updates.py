"""Sparse gradients of tables and optimizers that are fused with backward, against plain loops, with equal bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

pytest.importorskip("llvmlite")

import ptokit.torch as pt
from ptokit.engine.cuda.whole import moves as on_gpu
from ptokit.finding import OutOfBoundsError
from ptokit.torch import bag_gradients, updates
from tests.engine.cuda.emulated import EmulatedDevice
from tests.torch.naive import bits

FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
RULES = ("sgd", "adagrad", "rowwise_adagrad")
ROWS = 50
MADE = torch.Generator().manual_seed(0)
LANES = (torch.rand(900, generator=MADE) ** 3 * ROWS).long()
OFFSETS = torch.tensor([0, 3, 3, 40, 41, 200, 700])
WEIGHTS = torch.randn(900, generator=MADE)
device = EmulatedDevice()


def table_of(kind: torch.dtype, width: int, rows: int = ROWS) -> Tensor:
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(width)).to(kind)


def above(made: Tensor) -> Tensor:
    return torch.randn(made.shape, generator=torch.Generator().manual_seed(7)).to(made)


def bags_of(lanes: int, offsets: Tensor) -> list[int]:
    """The bag of each lane."""
    return [int((offsets <= lane).sum()) - 1 for lane in range(lanes)]


def naive_rows(
    grad: Tensor, lanes: Tensor, owners: list[int], width: int, padding: int | None, weights: Tensor | None = None
) -> dict[int, Tensor]:
    """The sum of the gradients of each row, lane after lane, in float32 or float64, rounded once."""
    wide = torch.float64 if grad.dtype is torch.float64 else torch.float32
    sums: dict[int, Tensor] = {}
    for lane, row in enumerate(lanes.tolist()):
        if row == padding:
            continue
        value = grad[owners[lane]]
        if weights is not None:
            value = value * weights[lane].to(grad.dtype)
        sums[row] = sums.get(row, torch.zeros(width, dtype=wide)) + value.to(wide)
    return {row: sums[row].to(grad.dtype) for row in sorted(sums)}


def root(of: Tensor) -> Tensor:
    """To the last bit, which PyTorch's own is not."""
    return torch.from_numpy(np.asarray(np.sqrt(of.numpy())))


def naive_update(
    table: Tensor, state: Tensor | None, rows: dict[int, Tensor], rule: str, lr: float, eps: float, decay: float
) -> tuple[Tensor, Tensor | None]:
    """The formulas of docs/torch.md, row after row."""
    wide = torch.float64 if table.dtype is torch.float64 else torch.float32
    table, state = table.clone(), None if state is None else state.clone()
    for row, found in rows.items():
        w, g = table[row].to(wide), found.to(wide)
        if decay:
            g = g + decay * w
        step = lr * g
        if rule == "adagrad" and state is not None:
            state[row] = state[row] + g * g
            step = step / (root(state[row]) + eps)
        if rule == "rowwise_adagrad" and state is not None:
            sums = [torch.zeros((), dtype=wide) for _ in range(16)]
            for column in range(len(g)):
                sums[column % 16] = sums[column % 16] + g[column] * g[column]
            while len(sums) > 1:
                half = len(sums) // 2
                sums = [sums[k] + sums[k + half] for k in range(half)]
            state[row] = state[row] + sums[0] / len(g)
            step = step / (root(state[row]) + eps)
        table[row] = (w - step).to(table.dtype)
    return table, state


def gradient(call: Callable[[Tensor], Tensor], table: Tensor) -> Tensor:
    own = table.clone().requires_grad_()
    made = call(own)
    made.backward(above(made))
    assert own.grad is not None
    return own.grad


def check_sparse(found: Tensor, dense: Tensor, named: set[int]) -> None:
    """A sparse gradient has the rows that lanes name, in ascending order, with the bits of the dense one."""
    assert found.layout is torch.sparse_coo
    assert found.is_coalesced()
    assert found.indices()[0].tolist() == sorted(named)
    assert bits(found.values()) == bits(dense[sorted(named)])
    assert bits(found.to_dense()) == bits(dense)


# --- sparse gradients


@pytest.mark.parametrize("kind", FLOATS, ids=str)
@pytest.mark.parametrize("mode", ["sum", "mean", "max", "min"])
def test_sparse_gradients_of_bags_are_rows_of_dense_ones(mode: str, kind: torch.dtype) -> None:
    for width, index, padding, last in ((1, torch.int64, None, False), (24, torch.int32, 2, True)):
        offsets = torch.cat([OFFSETS, torch.tensor([900])]) if last else OFFSETS
        how: dict[str, Any] = {"mode": mode, "padding_idx": padding, "include_last_offset": last}

        given = LANES.to(index), offsets, how

        def call(table: Tensor, sparse: bool = True, given: Any = given, **more: Any) -> Tensor:
            return pt.embedding_bag(given[0], table, given[1], sparse=sparse, **given[2], **more)

        table = table_of(kind, width)
        dense = gradient(lambda own, call=call: call(own, False), table)
        named = set(LANES.tolist()) - {padding}
        for more in ({"threads": 1}, {"threads": 2}, {"threads": 16}, {"engine": "reference"}):
            found = gradient(lambda own, call=call, more=more: call(own, **more), table)
            check_sparse(found, dense, named)
            assert bits(found.values()) == bits(gradient(call, table).values())


@pytest.mark.parametrize("kind", FLOATS, ids=str)
def test_sparse_gradients_are_those_of_a_loop(kind: torch.dtype) -> None:
    for weights in (None, WEIGHTS):
        table = table_of(kind, 5)

        def call(own: Tensor, weights: Any = weights) -> Tensor:
            return pt.embedding_bag(LANES, own, OFFSETS, None, 2.0, False, "sum", True, weights, False, 4)

        made = call(table)
        rows = naive_rows(above(made), LANES, bags_of(900, OFFSETS), 5, 4, weights)
        found = gradient(call, table)
        assert found.indices()[0].tolist() == list(rows)
        assert bits(found.values()) == bits(torch.stack(list(rows.values())))


def test_gradients_that_are_added_up() -> None:
    """Nothing is said to be coalesced that is not."""
    table = table_of(torch.float32, 3).requires_grad_()
    expected = torch.zeros_like(table)
    for lanes in (LANES[:20], LANES[10:40]):
        made = pt.embedding(lanes, table, sparse=True)
        made.backward(above(made))
        expected += gradient(lambda own, lanes=lanes: pt.embedding(lanes, own), table.detach())
    assert table.grad is not None
    rows = table.grad._indices()[0].tolist()
    assert not table.grad.is_coalesced() or rows == sorted(set(LANES[:40].tolist()))
    assert bits(table.grad.to_dense()) == bits(expected)


def test_weights_have_their_gradient_beside_a_sparse_one() -> None:
    table, made = table_of(torch.float32, 6), []
    for sparse in (False, True):
        own, weights = table.clone().requires_grad_(), WEIGHTS.clone().requires_grad_()
        out = pt.embedding_bag(LANES, own, OFFSETS, mode="sum", per_sample_weights=weights, sparse=sparse)
        out.backward(above(out))
        made.append(bits(weights.grad))
    assert made[0] == made[1]


@pytest.mark.parametrize("shape", [(900,), (30, 30)])
def test_sparse_gradients_of_rows(shape: tuple[int, ...]) -> None:
    table = table_of(torch.bfloat16, 12)
    dense = gradient(lambda own: pt.embedding(LANES.view(shape), own, 3), table)
    named = set(LANES.tolist()) - {3}
    for how in ({"threads": 1}, {"threads": 2}, {"engine": "reference"}):
        found = gradient(lambda own, how=how: pt.embedding(LANES.view(shape), own, 3, sparse=True, **how), table)
        check_sparse(found, dense, named)


def test_no_lane_has_a_row() -> None:
    table = table_of(torch.float32, 3)
    for lanes in (torch.zeros(0, dtype=torch.int64), torch.full((4,), 7)):
        for how in ({}, {"engine": "reference"}):
            found = gradient(lambda own, lanes=lanes, how=how: pt.embedding(lanes, own, 7, sparse=True, **how), table)
            assert found.is_coalesced()
            assert found._nnz() == 0
            given: dict[str, Any] = {"offsets": torch.zeros(2, dtype=torch.int64), "sparse": True, "padding_idx": 7}
            found = gradient(lambda own, lanes=lanes, given=given: pt.embedding_bag(lanes, own, **given), table)
            assert not found.to_dense().any()


def test_many_lanes_and_rows_on_any_number_of_threads() -> None:
    made = torch.Generator().manual_seed(3)
    lanes = torch.cat([torch.randint(0, 70_000, (77_000,), generator=made), torch.full((3000,), 69_999)])
    table = torch.zeros(70_000, 8)
    dense = gradient(lambda own: pt.embedding(lanes, own, threads=1), table)
    for threads in (1, 2, 3, 16):
        found = gradient(lambda own, threads=threads: pt.embedding(lanes, own, sparse=True, threads=threads), table)
        check_sparse(found, dense, set(lanes.tolist()))


@pytest.mark.parametrize("kind", FLOATS, ids=str)
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_on_a_gpu_the_bits_are_the_same(mode: str, kind: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """The path of CUDA tensors, on an emulated device: rows are numbered, and a kernel sums their gradients."""
    table, calls = table_of(kind, 8), []

    def call(own: Tensor) -> Tensor:
        return pt.embedding_bag(LANES, own, OFFSETS, mode=mode, padding_idx=1, sparse=True)

    expected = gradient(call, table)

    def run(given: Any) -> None:
        calls.append(given)
        on_gpu.run_gradients(given)

    monkeypatch.setattr(on_gpu, "current", lambda: device)
    monkeypatch.setattr(bag_gradients, "bag_gradients", lambda _: run)
    monkeypatch.setattr(updates, "row_updates", lambda _: None)
    on_gpu._through_bags.cache_clear()
    try:
        found = gradient(call, table)
    finally:
        on_gpu._through_bags.cache_clear()
    assert len(calls) == 1
    assert found.indices().tolist() == expected.indices().tolist()
    assert bits(found.values()) == bits(expected.values())


OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.1),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "SparseAdam": lambda p: torch.optim.SparseAdam(p, lr=0.1),
    "Adagrad": lambda p: torch.optim.Adagrad(p, lr=0.1),
}


@pytest.mark.filterwarnings("ignore:Sparse invariant checks are implicitly disabled")  # of PyTorch's Adagrad
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_of_pytorch_take_sparse_gradients(name: str) -> None:
    """They make what they make of PyTorch's own sparse gradients, but for rounding."""
    ended = []
    for cls in (pt.EmbeddingBag, torch.nn.EmbeddingBag):
        module = cls(ROWS, 6, mode="sum", sparse=True, _weight=table_of(torch.float32, 6))
        rule = OPTIMIZERS[name](list(module.parameters()))
        for step in range(3):
            rule.zero_grad()
            made = module(LANES.roll(step), OFFSETS)
            made.backward(above(made))
            rule.step()
        ended.append(module.weight.detach())
    torch.testing.assert_close(ended[0], ended[1], rtol=1e-4, atol=1e-5)


# --- fused optimizers


def fused(module: Any, kind: torch.dtype) -> Any:
    """A module of a type, with a state that is not zero."""
    module = module.to(kind)
    state = getattr(module, "sum_of_squares", None)
    if state is not None:
        made = torch.rand(state.shape, generator=torch.Generator().manual_seed(5))
        module.sum_of_squares = made.to(torch.float64 if kind is torch.float64 else torch.float32)
    return module


@pytest.mark.parametrize("kind", FLOATS, ids=str)
@pytest.mark.parametrize("rule", RULES)
def test_fused_updates_are_those_of_a_loop(rule: str, kind: torch.dtype) -> None:
    for width, decay, padding in ((1, 0.0, None), (23, 0.01, 4), (72, 0.0, 4)):
        lr, eps = 0.0625, 0.0009765625
        for threads in (1, 2, 16):
            torch.set_num_threads(threads)
            try:
                how: dict[str, Any] = {"optimizer": rule, "lr": lr, "eps": eps, "weight_decay": decay}
                how |= {"mode": "sum", "padding_idx": padding, "_weight": table_of(torch.float32, width)}
                module = fused(pt.EmbeddingBag(ROWS, width, **how), kind)
                table, state = module.weight.detach().clone(), getattr(module, "sum_of_squares", None)
                state = None if state is None else state.clone()
                made = module(LANES, OFFSETS)
                made.backward(above(made))
            finally:
                torch.set_num_threads(2)
            rows = naive_rows(above(made), LANES, bags_of(900, OFFSETS), width, padding)
            table, state = naive_update(table, state, rows, rule, lr, eps, decay)
            assert module.weight.grad is None
            assert bits(module.weight) == bits(table)
            assert state is None or bits(module.sum_of_squares) == bits(state)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kind", FLOATS, ids=str)
def test_tensor_code_has_the_bits_of_machine_code(
    rule: str, kind: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which is what a GPU executes."""
    ended = []
    for engine in (updates.row_updates, lambda _: None):
        monkeypatch.setattr(updates, "row_updates", engine)
        weight = table_of(torch.float32, 40)
        weight[3, 5], weight[4, 0] = float("nan"), float("inf")
        module = fused(pt.Embedding(ROWS, 40, optimizer=rule, lr=0.3, weight_decay=0.1, _weight=weight), kind)
        for step in range(3):
            made = module(LANES.roll(step))
            made.backward(above(made))
        ended.append((bits(module.weight), bits(getattr(module, "sum_of_squares", torch.zeros(0)))))
    assert ended[0] == ended[1]


@pytest.mark.parametrize("rule", RULES)
def test_fused_updates_on_any_number_of_threads(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = torch.Generator().manual_seed(3)
    lanes = torch.cat([torch.randint(0, 70_000, (77_000,), generator=made), torch.full((3000,), 69_999)])
    before, weights = torch.randn(70_000, 8, generator=made), torch.randn(80_000, generator=made)
    ended = []
    for threads in (1, 2, 3, 16, None):
        monkeypatch.setenv("PTOKIT_THREADS", str(threads or 1))
        if threads is None:  # tensor code
            monkeypatch.setattr(updates, "row_updates", lambda _: None)
        module = pt.EmbeddingBag(
            70_000, 8, mode="sum", optimizer=rule, lr=0.1, weight_decay=0.1, _weight=before.clone()
        )
        for given in ((), (weights.view(8000, 10),)):
            found = module(lanes.view(8000, 10), None, *given)
            found.backward(above(found))
        ended.append(bits(module.weight))
    assert all(each == ended[0] for each in ended)


def test_a_table_is_updated_by_every_backward_and_told_apart_by_its_version() -> None:
    module = pt.Embedding(4, 2, optimizer="sgd", lr=1.0, _weight=torch.zeros(4, 2))
    one, two = module(torch.tensor([0, 0])), module(torch.tensor([0, 3]))
    kept = module.weight * module.weight
    one.sum().backward()
    two.sum().backward()
    assert module.weight.tolist() == [[-3, -3], [0, 0], [0, 0], [-1, -1]]
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        kept.sum().backward()


def test_learning_rates_may_change() -> None:
    module = pt.EmbeddingBag(4, 2, mode="sum", optimizer="sgd", lr=1.0, _weight=torch.zeros(4, 2))
    for lr in (1.0, 0.5):
        module.optimizer.lr = lr
        module(torch.tensor([[1]])).sum().backward()
    assert module.weight[1].tolist() == [-1.5, -1.5]


@pytest.mark.parametrize("rule", RULES)
def test_state_is_in_state_dict(rule: str) -> None:
    def step(module: Any, seed: int) -> None:
        made = module(LANES.roll(seed), OFFSETS)
        made.backward(above(made))

    first = pt.EmbeddingBag(ROWS, 6, optimizer=rule, lr=0.1)
    step(first, 0)
    assert ("sum_of_squares" in first.state_dict()) is (rule != "sgd")
    second = pt.EmbeddingBag(ROWS, 6, optimizer=rule, lr=0.1)
    second.load_state_dict(first.state_dict())
    step(first, 1)
    step(second, 1)
    assert bits(first.weight) == bits(second.weight)


def test_an_optimizer_beside_weights_of_lanes() -> None:
    """The gradient of the weights is that of the table before its update."""
    found = []
    for options in ({}, {"optimizer": "sgd", "lr": 1.0}):
        module = pt.EmbeddingBag(ROWS, 6, mode="sum", _weight=table_of(torch.float32, 6), **options)
        weights = WEIGHTS.clone().requires_grad_()
        made = module(LANES, OFFSETS, weights)
        made.backward(above(made))
        found.append(bits(weights.grad))
    assert found[0] == found[1]


def test_without_autograd_nothing_is_updated() -> None:
    module = pt.EmbeddingBag(ROWS, 6, optimizer="adagrad")
    before = module.weight.detach().clone()
    with torch.no_grad():
        assert not module(LANES, OFFSETS).requires_grad
    module.weight.requires_grad_(False)
    assert not module(LANES, OFFSETS).requires_grad
    assert bits(module.weight) == bits(before)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"optimizer": "adam"}, "optimizer is one of sgd, adagrad, rowwise_adagrad; found"),
        ({"optimizer": "sgd", "lr": -1.0}, "lr is a number from 0 up; found -1.0"),
        ({"optimizer": "sgd", "weight_decay": float("nan")}, "weight_decay is a number from 0 up"),
        ({"optimizer": "sgd", "sparse": True}, "sparse= is for optimizers of torch.optim"),
        ({"max_norm": 1.0}, "max_norm is refused: it writes rows of weight in the forward pass"),
        ({"scale_grad_by_freq": True}, "scale_grad_by_freq is refused"),
    ],
)
def test_refusals(options: dict[str, Any], message: str) -> None:
    for module in (pt.Embedding, pt.EmbeddingBag):
        with pytest.raises(ValueError, match=message):
            module(4, 2, **options)


def test_indices_outside_are_refused_and_nothing_is_updated() -> None:
    module = pt.EmbeddingBag(4, 2, optimizer="sgd", _weight=torch.zeros(4, 2))
    with pytest.raises(OutOfBoundsError, match="EmbeddingBag"):
        module(torch.tensor([[1, 4]]))
    assert not module.weight.any()


def test_a_gradient_of_a_gradient_is_refused() -> None:
    table = table_of(torch.float32, 3).requires_grad_()
    made = pt.embedding(LANES, table, sparse=True).square()
    (found,) = torch.autograd.grad(made.sum(), table, create_graph=True)
    with pytest.raises(RuntimeError, match=r"once_differentiable|does not require grad"):
        found.to_dense().sum().backward()


def test_transforms_and_compiled_code_have_dense_gradients() -> None:
    table = table_of(torch.float32, 3)
    dense = gradient(lambda own: pt.embedding(LANES, own), table)

    def total(own: Tensor) -> Tensor:
        made = pt.embedding(LANES, own, sparse=True)
        return (made * above(made)).sum()

    assert bits(torch.func.grad(total)(table)) == bits(dense)
    module = pt.Embedding(ROWS, 3, optimizer="sgd")
    with pytest.raises(RuntimeError, match="optimizer= updates the table in backward"):
        torch.func.grad(lambda own: torch.func.functional_call(module, {"weight": own}, (LANES,)).sum())(table)
