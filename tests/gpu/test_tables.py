"""Many tables on a GPU: the bits of the CPU, forward and backward, in few launches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import ptokit.torch as pt  # noqa: E402
from ptokit.finding import OutOfBoundsError  # noqa: E402

SHAPES = [(50, 16), (300, 32), (7, 64), (1000, 128), (20, 5), (90, 32)]
BAGS = 40
MIXED = ["sum", "mean", "max", "sum", "mean", "min"]
RULES: dict[str, dict[str, Any]] = {
    "dense": {},
    "sparse": {"sparse": True},
    **{rule: {"optimizer": rule, "lr": 0.05, "weight_decay": 0.01} for rule in ("sgd", "adagrad", "rowwise_adagrad")},
}


def batch(rng: np.random.Generator) -> tuple[Any, Any]:
    """Indices and offsets of all tables; some bags are empty."""
    counts = rng.integers(0, 21, len(SHAPES) * BAGS)
    rows = np.repeat([rows for rows, _ in SHAPES], counts.reshape(len(SHAPES), BAGS).sum(1))
    offsets = np.concatenate([[0], np.cumsum(counts)])
    return torch.from_numpy((rng.random(len(rows)) * rows).astype(np.int64)), torch.from_numpy(offsets)


@pytest.mark.filterwarnings("ignore:Sparse invariant checks")
@pytest.mark.parametrize("mode", ["sum", "mean", "max", MIXED], ids=str)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
def test_tables_have_the_bits_of_the_cpu(kind: Any, rule: str, mode: Any) -> None:
    rng = np.random.default_rng(0)
    torch.manual_seed(0)
    here = pt.EmbeddingBags(SHAPES, mode, dtype=kind, **RULES[rule])
    there = pt.EmbeddingBags(SHAPES, mode, dtype=kind, device="cuda", **RULES[rule])
    there.load_state_dict(here.state_dict())
    for _ in range(2):
        values, offsets = batch(rng)
        made, found = here(values, offsets), there(values.cuda(), offsets.cuda())
        assert all(torch.equal(a, b.cpu()) for a, b in zip(made, found, strict=True))
        grads = [torch.randn(each.shape).to(kind) for each in made]
        here.zero_grad()
        there.zero_grad()
        torch.autograd.backward(made, grads)
        torch.autograd.backward(found, [each.cuda() for each in grads])
        states = zip(here.state_dict().values(), there.state_dict().values(), strict=True)
        assert all(torch.equal(a, b.cpu()) for a, b in states)
        if rule in ("dense", "sparse"):
            for a, b in zip(here.weights, there.weights, strict=True):
                assert torch.equal(a.grad.to_dense(), b.grad.to_dense().cpu())


def test_an_index_outside_of_its_table_is_refused() -> None:
    values, offsets = batch(np.random.default_rng(1))
    values[5] = 60  # there are tables that have such a row
    with pytest.raises(OutOfBoundsError, match=r"values\[0:\d+\]\[5\] = 60 is outside the capacity of 50"):
        pt.EmbeddingBags(SHAPES, device="cuda")(values.cuda(), offsets.cuda())
