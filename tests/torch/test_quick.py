"""Small calls that are repeated check and refuse as the first one does."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import ptokit as pto
import ptokit.torch as pt
from ptokit.ops import direct
from ptokit.torch import bag_kernel
from ptokit.torch.bag_operator import BAG

TIMES = 3
LANES = torch.tensor([1, 2])


def table() -> torch.Tensor:
    return torch.arange(40.0).reshape(10, 4)


def test_repeated_gathers_refuse_indices() -> None:
    found = [pt.gather(table(), LANES) for _ in range(TIMES)]
    assert all(torch.equal(each, table()[LANES]) for each in found)
    assert len({each.data_ptr() for each in found}) == TIMES
    for bad in ([1, 10], [-1, 0]):
        with pytest.raises(pto.OutOfBoundsError):
            pt.gather(table(), torch.tensor(bad))
    assert direct.PLANS


def test_repeated_scatters_count_writes_and_refuse_before_they_write() -> None:
    mine, src = table(), torch.ones(2, 4)
    for k in range(TIMES):
        version = mine._version
        pt.scatter_(mine, src, LANES, atomic="add")
        assert mine._version > version
        assert torch.equal(mine[1], table()[1] + k + 1)
    before = mine.clone()
    with pytest.raises(pto.OutOfBoundsError):
        pt.scatter_(mine, src, torch.tensor([0, 10]), atomic="add")
    assert torch.equal(mine, before)


def test_repeated_operators_refuse_tensors_that_autograd_follows() -> None:
    write = torch.ops.ptokit.scatter_
    for _ in range(TIMES):
        write(table(), torch.ones(2, 4), LANES)
    for mine, src in ((table().requires_grad_(), torch.ones(2, 4)), (table(), torch.ones(2, 4).requires_grad_())):
        with pytest.raises(TypeError, match="grad"):
            write(mine, src, LANES)
        assert torch.equal(mine, table())


def test_a_repeated_scatter_that_is_interrupted_counts_as_written(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = table()
    for _ in range(TIMES):
        pt.scatter_(mine, torch.ones(2, 4), LANES)
    version = mine._version

    def interrupted(*_given: object) -> bool:
        raise KeyboardInterrupt

    plans = {key: plan._replace(ready=interrupted) for key, plan in direct.PLANS.items()}
    monkeypatch.setattr(direct, "PLANS", plans)
    with pytest.raises(KeyboardInterrupt):
        pt.scatter_(mine, torch.ones(2, 4), LANES)
    assert mine._version > version


def test_calls_of_all_sizes_have_one_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct, "PLANS", {})
    monkeypatch.setattr(bag_kernel, "PLANS", {})
    for n in range(1, 30):
        mine, lanes, src = torch.rand(n + 3, 4), torch.randint(0, n + 3, (n,)), torch.rand(n, 4)
        assert torch.equal(pt.gather(mine, lanes), mine[lanes])
        assert torch.equal(pt.scatter(mine, src, lanes, atomic="add"), mine.clone().index_add_(0, lanes, src))
        bags = pt.embedding_bag(lanes, mine, torch.arange(n), mode="sum")
        assert torch.equal(bags, mine[lanes])
        with pytest.raises(pto.OutOfBoundsError, match=rf"indices\[{n - 1}\] = {n + 3}"):
            pt.gather(mine, torch.cat([lanes[:-1], torch.tensor([n + 3])]))
    assert (len(direct.PLANS), len(bag_kernel.PLANS)) == (2, 1)


def test_results_of_repeated_calls_are_in_c_order() -> None:
    for lanes in (torch.tensor(0), torch.tensor([0]), torch.tensor([[0]]), torch.tensor([0, 1])):
        for columns in ((), (1,), (3, 1), (1, 3)):
            for _ in range(TIMES):
                found = pt.gather(torch.ones(4, *columns), lanes)
                assert found.stride() == torch.empty(found.shape).stride()


def test_results_of_repeated_bags_are_apart() -> None:
    for mode in ("sum", "max"):
        first, second = (torch.ops.ptokit.bag(table(), LANES, torch.tensor([0]), None, mode, -1, closed=False)
                         for _ in range(2))  # fmt: skip
        for _ in range(TIMES):
            second = torch.ops.ptokit.bag(table(), LANES, torch.tensor([0]), None, mode, -1, closed=False)
            assert all(a is not b for a, b in zip(first, second, strict=True))
            first = second


def test_repeated_scatters_may_share_memory() -> None:
    expected = table()
    expected[LANES] = table()[:2]
    for _ in range(TIMES):
        mine = table()
        pt.scatter_(mine, torch.ones(2, 4), LANES)
        mine = table()
        assert torch.equal(pt.scatter_(mine, mine[:2], LANES), expected)


def test_lazily_negated_tensors_are_refused_again() -> None:
    for _ in range(TIMES):
        pt.gather(table(), LANES)
    with pytest.raises(TypeError, match="negated"):
        pt.gather(torch._neg_view(table()), LANES)


def test_repeated_bags_check_indices_and_offsets() -> None:
    offsets = torch.tensor([0, 1])
    for _ in range(TIMES):
        assert torch.equal(pt.embedding_bag(LANES, table(), offsets, mode="sum"), table()[LANES])
    with pytest.raises(pto.OutOfBoundsError):
        pt.embedding_bag(torch.tensor([1, 10]), table(), offsets, mode="sum")
    for bad in ([1, 0], [0, 3]):
        with pytest.raises(ValueError, match="offsets begin with 0"):
            pt.embedding_bag(LANES, table(), torch.tensor(bad), mode="sum")


def test_repeated_bags_take_the_short_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where autograd records nothing, and nothing else looks on."""
    monkeypatch.setattr(bag_kernel, "PLANS", {})
    offsets, weights, long_way, mine = torch.tensor([0, 1]), torch.ones(2), list[Any](), table()
    run = BAG.run
    monkeypatch.setattr(BAG, "run", lambda *given: (long_way.append(given), run(*given))[1])
    given: list[tuple[Any, dict[str, Any]]] = [
        (offsets, {}),
        (offsets, {"mode": "sum", "per_sample_weights": weights}),
        (torch.tensor([0, 1, 2]), {"include_last_offset": True, "mode": "max"}),
        (offsets, {"padding_idx": -1, "mode": "min"}),
    ]
    for bounds, options in given:
        first = pt.embedding_bag(LANES, mine, bounds, **options)
        count = len(long_way)
        for k in range(3):
            found = pt.embedding_bag(LANES, mine + k, bounds, **options)
            assert torch.equal(found, first + k) and found.is_contiguous()
        assert len(long_way) == count
        followed = mine.clone().requires_grad_()
        pt.embedding_bag(LANES, followed, bounds, **options).sum().backward()
        assert followed.grad is not None


def test_bags_that_others_look_at_go_the_long_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bag_kernel, "PLANS", {})
    offsets, seen = torch.tensor([0, 1]), list[str]()

    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    for _ in range(TIMES):
        pt.embedding_bag(LANES, table(), offsets, mode="sum")
    with Mode():
        pt.embedding_bag(LANES, table(), offsets, mode="sum")
    assert any("bag" in each for each in seen)
    for _ in range(TIMES):
        made = pt.embedding_bag([2, 5], table(), [0, 1], mode="sum")
        assert torch.equal(made, table()[[2, 5]])
        made = pt.embedding_bag(torch.tensor([2, 5]), table(), offsets.int(), mode="sum")
        assert torch.equal(made, table()[[2, 5]])
    for bad in ({"mode": ["sum"]}, {"mode": "sum", "threads": "two"}, {"mode": "sum", "padding_idx": 99}):
        with pytest.raises((TypeError, ValueError)):
            pt.embedding_bag(LANES, table(), offsets, **bad)


def test_calls_of_inference_mode_are_repeated_outside_of_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bag_kernel, "PLANS", {})
    monkeypatch.setattr(direct, "PLANS", {})
    mine = table()

    def both() -> list[torch.Tensor]:
        return [pt.gather(mine, LANES), pt.embedding_bag(LANES[None], mine, mode="max")]

    for is_inference in (True, True, False, False):
        with torch.inference_mode(is_inference):
            found = both()
        assert all(each.is_inference() is is_inference for each in found)
        assert torch.equal(found[0], table()[LANES]) and torch.equal(found[1], table()[2:3])
    assert len(bag_kernel.PLANS) == len(direct.PLANS) == 1
    mine.requires_grad_()
    for _ in range(2):
        sum(each.sum() for each in both()).backward()
    assert mine.grad is not None and mine.grad[:, 0].tolist() == [0, 2, 4, *[0] * 7]


@pytest.mark.parametrize("mode", ["sum", "max"])
def test_bags_whose_work_would_go_elsewhere_take_the_long_way(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bag_kernel, "PLANS", {})

    def call() -> list[list[float]]:
        return pt.embedding_bag(LANES[None], table(), mode=mode).tolist()

    expected = [[12.0, 14.0, 16.0, 18.0]] if mode == "sum" else [[8.0, 9.0, 10.0, 11.0]]
    assert call() == expected
    ((key, plan),), calls = bag_kernel.PLANS.items(), []
    watched = plan._replace(ready=lambda *given: calls.append(given) or plan.ready(*given))
    bag_kernel.PLANS[key] = watched
    assert call() == expected and len(calls) == 1
    bag_kernel.PLANS[key] = watched._replace(is_in_order=lambda: False)
    assert call() == expected and len(calls) == 1


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_sorted_ids_give_the_bits_of_others(kind: torch.dtype) -> None:
    made = torch.Generator().manual_seed(0)
    values = torch.randn(2000, 3, generator=made).to(kind)
    ids = torch.randint(0, 90, (2000,), generator=made).sort().values
    mine, other = values.clone().requires_grad_(), values.clone().requires_grad_()
    found = pt.segment_sum(mine, segment_ids=ids, num_segments=100)
    wide = None if kind is torch.float32 else "float32"
    expected = pt.scatter(torch.zeros(100, 3, dtype=kind), other, ids, atomic="add", accumulate=wide)
    assert torch.equal(found, expected)
    for each in (found, expected):
        each.backward(torch.arange(300.0).reshape(100, 3).to(kind))
    assert mine.grad is not None
    assert other.grad is not None
    assert torch.equal(mine.grad, other.grad)
    with pytest.raises(pto.OutOfBoundsError):
        pt.segment_sum(values, segment_ids=ids, num_segments=50)
