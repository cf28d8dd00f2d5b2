"""Tables of bags in other processes: the bits of `EmbeddingBags`, with workers that load data, and owners that end."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

pytest.importorskip("llvmlite")

import ptokit.torch as pt
from ptokit.finding import OutOfBoundsError
from ptokit.sharded.messages import ShardedError
from tests.sharded.forked import Forked
from tests.sharded.inprocess import InProcess
from tests.torch.naive import bits
from tests.torch.test_tables import MODES, SHAPES, above, batch

RULES = ("sgd", "adagrad", "rowwise_adagrad")


def both(rule: str, owners: Any = None, **options: Any) -> tuple[Any, Any]:
    """The same tables in this process and in others."""
    torch.manual_seed(0)
    here = pt.EmbeddingBags(SHAPES, MODES, optimizer=rule, lr=0.1, weight_decay=0.01, **options)
    weights = [each.detach().clone() for each in here.weights]
    there = pt.ShardedEmbeddingBags(
        SHAPES,
        MODES,
        optimizer=rule,
        lr=0.1,
        weight_decay=0.01,
        weights=weights,
        _owners=owners or InProcess(),
        **options,
    )
    return here, there


def step(module: Any, given: tuple[Tensor, ...]) -> list[Any]:
    found = module(*given)
    torch.autograd.backward(found, [above(each, k) for k, each in enumerate(found)])
    return [bits(each) for each in found]


def same(here: Any, there: Any) -> bool:
    return [bits(each) for each in here.weights] == [bits(each) for each in there.tables()]


@pytest.mark.parametrize("kind", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("rule", RULES)
def test_the_bits_of_tables_in_one_process(rule: str, kind: torch.dtype) -> None:
    here, there = both(rule, dtype=kind)
    with there:
        for seed in range(3):
            given = batch(5, seed)
            assert step(here, given) == step(there, given)
        assert same(here, there)


def test_two_lookups_before_backward() -> None:
    """The second update is of rows that the first one has changed."""
    here, there = both("adagrad")
    with there:
        for module in (here, there):
            found = [module(*batch(5, seed)) for seed in (0, 1)]
            for k, each in enumerate(found):
                torch.autograd.backward(each, [above(bag, k) for bag in each])
        assert same(here, there)


def test_owners_that_end_change_nothing() -> None:
    chance = random.Random(0)
    owners = InProcess(lambda do: chance.choice(["before", "after", *[""] * 30]) if do in ("gather", "scatter") else "")
    here, there = both("sgd", owners)
    with there:
        for seed in range(4):
            given = batch(5, seed)
            assert step(here, given) == step(there, given)
        assert same(here, there)
        assert len(owners.started) > 8  # two for each of four widths


class Clicks(Dataset[tuple[Tensor, Tensor]]):
    """Batches, made by workers."""

    def __len__(self) -> int:
        return 6

    def __getitem__(self, seed: int) -> tuple[Tensor, Tensor]:
        if seed >= len(self):
            raise IndexError
        return batch(5, seed)


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_workers_of_torch_load_the_data(context: str) -> None:
    here, there = both("sgd", Forked())
    loader = DataLoader(Clicks(), batch_size=None, num_workers=2, multiprocessing_context=context)
    with there:
        for given in loader:
            assert step(here, given) == step(there, given)
        assert same(here, there)


def test_a_worker_that_was_forked_is_refused() -> None:
    _, there = both("sgd")
    with there:
        child = os.fork()
        if not child:
            try:
                there(*batch(5))
            except ShardedError:
                os._exit(0)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        there(*batch(5))


def test_checkpoints(tmp_path: Path) -> None:
    here, there = both("rowwise_adagrad")
    with there:
        step(there, batch(5))
        there.checkpoint(tmp_path)
        step(there, batch(5, 1))
        there.restore(tmp_path)
        for seed in (0, 2):
            step(here, batch(5, seed))
        step(there, batch(5, 2))
        assert same(here, there)


def test_without_autograd_nothing_is_updated() -> None:
    here, there = both("sgd")
    with there, torch.no_grad():
        assert [bits(each) for each in here(*batch(5))] == [bits(each) for each in there(*batch(5))]
        assert same(here, there)


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match="sharded tables are of float32 or float64"):
        pt.ShardedEmbeddingBags(SHAPES, dtype=torch.bfloat16)
    with pytest.raises(ValueError, match="weights have the shapes of tables"):
        pt.ShardedEmbeddingBags(SHAPES, weights=[torch.zeros(2, 2)])
    here, there = both("sgd")
    with there:
        with pytest.raises(OutOfBoundsError, match=r"ShardedEmbeddingBags: values\[0:1\]"):
            there(torch.tensor([40]), torch.tensor([0, 1, 1, 1, 1, 1]))
        assert same(here, there)
