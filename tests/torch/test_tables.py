"""Bags of many tables in one call: the bits of `EmbeddingBag`s one by one, forward, backward and updated."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

pytest.importorskip("llvmlite")

import ptokit.torch as pt
from ptokit.engine.cuda.whole import bag_launches as table_kernels
from ptokit.engine.cuda.whole import update_calls
from ptokit.finding import OutOfBoundsError, VerifyError
from ptokit.torch import tables, updates
from tests.engine.cuda.emulated import EmulatedDevice, Recorded
from tests.torch.naive import bits

SHAPES = [(40, 3), (7, 16), (300, 33), (7, 1), (1000, 16)]
RULES: list[dict[str, Any]] = [
    {"optimizer": "sgd", "lr": 0.1, "weight_decay": 0.5},
    {"optimizer": "adagrad", "lr": 0.1},
    {"optimizer": "rowwise_adagrad", "lr": 0.1, "weight_decay": 0.5},
]
MODES = ["sum", "mean", "max", "sum", "min"]
ENGINES = ("native", "emulated GPU", "one by one")
FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
device = EmulatedDevice()


def choose(engine: str, patch: pytest.MonkeyPatch) -> list[str]:
    """Let an engine take calls: kernels of a GPU that is emulated, or operators for each table. The calls so far."""
    calls: list[str] = []

    def counted(name: str, run: Any) -> Any:
        return lambda _: lambda *given: (calls.append(name), run(*given))[1]

    if engine == "emulated GPU":
        for module in (table_kernels, update_calls):
            patch.setattr(module, "current", lambda: device)
        patch.setattr(tables, "table_bags", counted("bags", table_kernels.run_tables))
        patch.setattr(updates, "row_updates", counted("rows", update_calls.run))
    elif engine == "one by one":
        patch.setattr(tables, "table_bags", lambda _: None)
        patch.setattr(updates, "row_updates", lambda _: None)
    return calls


def batch(bags: int, seed: int = 0, most: int = 6, shapes: list[tuple[int, int]] = SHAPES) -> tuple[Tensor, Tensor]:
    """Indices and offsets of all tables."""
    made = torch.Generator().manual_seed(seed)
    lengths = torch.randint(0, most, (len(shapes), bags), generator=made)
    values = [
        torch.randint(0, rows, (int(own.sum()),), generator=made)
        for (rows, _), own in zip(shapes, lengths, strict=True)
    ]
    return torch.cat(values), torch.cat([torch.zeros(1, dtype=torch.int64), lengths.flatten().cumsum(0)])


def parts(values: Tensor, offsets: Tensor, count: int) -> list[tuple[Tensor, Tensor]]:
    """Those of each table alone, with its last offset."""
    bags = (len(offsets) - 1) // count
    bounds = [offsets[k * bags : (k + 1) * bags + 1] for k in range(count)]
    return [(values[int(each[0]) : int(each[-1])], each - each[0]) for each in bounds]


def above(made: Tensor, seed: int) -> Tensor:
    return torch.randn(made.shape, generator=torch.Generator().manual_seed(seed)).to(made)


def modules(kind: torch.dtype, modes: Any = MODES, **options: Any) -> tuple[Any, list[Any]]:
    """Tables in one module, and the same in one module each."""
    torch.manual_seed(0)
    whole = pt.EmbeddingBags(SHAPES, modes, dtype=kind, **options)
    alone = [
        pt.EmbeddingBag(*shape, mode=mode, include_last_offset=True, _weight=weight.detach().clone(), **options)
        for shape, mode, weight in zip(SHAPES, whole.modes, whole.weights, strict=True)
    ]
    return whole, alone


@pytest.mark.parametrize("kind", FLOATS, ids=str)
@pytest.mark.parametrize("options", [{}, {"sparse": True}, *RULES], ids=str)
@pytest.mark.parametrize("engine", ENGINES)
def test_tables_have_the_bits_of_modules(
    engine: str, options: dict[str, Any], kind: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, alone = modules(kind, **options)
    for step, bags in enumerate((9, 1, 4)):
        given = batch(bags, step)
        for each in (whole, *alone):
            each.zero_grad()
        with monkeypatch.context() as patch:
            choose(engine, patch)
            found = whole(*given)
            torch.autograd.backward(found, [above(each, k) for k, each in enumerate(found)])
        expected = [each(*own) for each, own in zip(alone, parts(*given, len(alone)), strict=True)]
        assert [bits(each) for each in found] == [bits(each) for each in expected]
        for k, each in enumerate(expected):
            each.backward(above(each, k))
        for one, other in zip(whole.weights, alone, strict=True):
            assert bits(one) == bits(other.weight)
            assert (one.grad is None) is (other.weight.grad is None) is ("optimizer" in options)
            if one.grad is not None:
                assert one.grad.layout is other.weight.grad.layout
                assert bits(one.grad.to_dense()) == bits(other.weight.grad.to_dense())
                assert not one.grad.is_sparse or one.grad.is_coalesced()
    for k, other in enumerate(alone) if "adagrad" in options.get("optimizer", "") else ():
        assert bits(whole.state_dict()[f"sum_of_squares_{k}"]) == bits(other.sum_of_squares)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16], ids=str)
def test_weights_of_lanes(kind: torch.dtype, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, alone = modules(kind, "sum", optimizer="sgd", lr=0.5)
    values, offsets = batch(12)
    weights = torch.randn(len(values)).requires_grad_()
    with monkeypatch.context() as patch:
        choose(engine, patch)
        found = whole(values, offsets, weights)
        torch.autograd.backward(found, [above(each, k) for k, each in enumerate(found)])
    first = 0
    for k, (other, (lanes, bounds)) in enumerate(zip(alone, parts(values, offsets, len(alone)), strict=True)):
        own = weights.detach()[first : first + len(lanes)].clone().requires_grad_()
        made = other(lanes, bounds, own)
        made.backward(above(made, k))
        assert bits(found[k]) == bits(made)
        assert bits(whole.weights[k]) == bits(other.weight)
        assert bits(weights.grad[first : first + len(lanes)]) == bits(own.grad)
        first += len(lanes)


@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_any_number_of_threads(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shapes, ended = [(5000, 24), (60, 40), (90_000, 8)], []
    given = batch(2000, most=12, shapes=shapes)
    for threads in (1, 2, 16):
        monkeypatch.setenv("PTOKIT_THREADS", str(threads))
        torch.manual_seed(0)
        module = pt.EmbeddingBags(shapes, mode, optimizer="rowwise_adagrad", lr=0.1)
        for step in range(2):
            found = module(*given)
            torch.autograd.backward(found, [above(each, step) for each in found])
        ended.append([bits(each) for each in (*found, *module.weights, *module.buffers())])
    assert ended[0] == ended[1] == ended[2]


@pytest.mark.parametrize("engine", ENGINES)
def test_gradients_of_joined_outputs(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gradients are parts of rows of a larger tensor, as behind `torch.cat`."""
    choose(engine, monkeypatch)
    whole, alone = modules(torch.float32, "sum", optimizer="sgd", lr=0.5)
    given = batch(6)
    joined = torch.cat(whole(*given), 1)
    joined.backward(above(joined, 1))
    other = torch.cat([each(*own) for each, own in zip(alone, parts(*given, len(alone)), strict=True)], 1)
    other.backward(above(other, 1))
    assert [bits(each) for each in whole.weights] == [bits(each.weight) for each in alone]


@pytest.mark.parametrize("engine", ENGINES)
def test_tables_without_a_gradient_stay_as_they_are(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    choose(engine, monkeypatch)
    whole, _ = modules(torch.float32, "sum", optimizer="sgd")
    before = [each.detach().clone() for each in whole.weights]
    found = whole(*batch(6))
    found[2].sum().backward()
    assert [bits(a) == bits(b) for a, b in zip(before, whole.weights, strict=True)] == [True, True, False, True, True]


@pytest.mark.parametrize("engine", ENGINES)
def test_one_parameter_as_two_tables(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rows are updated by one table after the other."""
    choose(engine, monkeypatch)
    module = pt.EmbeddingBags([(3, 2), (3, 2)], optimizer="sgd", lr=1.0)
    torch.nn.init.zeros_(module.weights[0])
    module.weights[1] = module.weights[0]
    found = module(torch.tensor([0, 1, 1]), torch.tensor([0, 2, 3]))
    torch.autograd.backward(found, [torch.ones_like(each) for each in found])
    assert module.weights[0].tolist() == [[-1, -1], [-2, -2], [0, 0]]


@pytest.mark.parametrize("engine", ENGINES)
def test_no_bags_and_no_lanes(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    choose(engine, monkeypatch)
    module = pt.EmbeddingBags(SHAPES, sparse=True)
    assert [each.shape for each in module(torch.zeros(0, dtype=torch.int64), torch.zeros(1, dtype=torch.int64))] == [
        (0, width) for _, width in SHAPES
    ]
    found = module(torch.zeros(0, dtype=torch.int64), torch.zeros(11, dtype=torch.int64))
    assert not torch.cat(found, 1).any()
    torch.cat(found, 1).sum().backward()
    assert all(each.grad.to_dense().count_nonzero() == 0 for each in module.weights)


@pytest.mark.parametrize("engine", ENGINES)
def test_what_is_refused(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    choose(engine, monkeypatch)
    for given in ([], [(3, 0)], [(3,)], [(2, 2), (2, 1.5)]):
        with pytest.raises(ValueError, match="tables are pairs of rows and width"):
            pt.EmbeddingBags(given)
    with pytest.raises(ValueError, match="one for each of 2 tables; found 1"):
        pt.EmbeddingBags([(2, 2), (2, 2)], ["sum"])
    with pytest.raises(ValueError, match="sparse= is for optimizers"):
        pt.EmbeddingBags([(2, 2)], sparse=True, optimizer="sgd")
    module = pt.EmbeddingBags([(4, 2), (9, 3)], ["sum", "mean"], optimizer="sgd")
    before = [each.detach().clone() for each in module.weights]
    with pytest.raises(ValueError, match="as many for each table"):
        module(torch.tensor([1]), torch.tensor([0, 1]))
    with pytest.raises(VerifyError, match="EmbeddingBags: offsets begin with 0"):
        module(torch.tensor([1, 2]), torch.tensor([0, 2, 1]))
    with pytest.raises(OutOfBoundsError, match=r"EmbeddingBags: values\[1:3\]"):
        module(torch.tensor([3, 8, 9]), torch.tensor([0, 1, 3]))
    with pytest.raises(ValueError, match="per_sample_weights are for mode"):
        module(torch.tensor([3, 8]), torch.tensor([0, 1, 2]), torch.ones(2))
    assert [bits(each) for each in module.weights] == [bits(each) for each in before]


@pytest.mark.parametrize("options", [{}, {"sparse": True}, {"optimizer": "sgd"}], ids=str)
def test_kernels_of_a_gpu_take_all_tables_at_once(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    calls = choose("emulated GPU", monkeypatch)
    recorded = Recorded()
    for module in (table_kernels, update_calls):
        monkeypatch.setattr(module, "current", lambda: recorded)
    whole = pt.EmbeddingBags([(40, 16), (50, 32), (60, 16), (70, 32)], **options)
    found = whole(*batch(5, shapes=[(40, 0)] * 4))
    torch.autograd.backward(found, [above(each, k) for k, each in enumerate(found)])
    stored = "" if "optimizer" in options else "mark sort ends "
    assert calls == ["bags", "rows"]
    assert " ".join(recorded.log) == f"table_bags table_bags record wait keys sort {stored}rows"


@pytest.mark.parametrize("engine", ENGINES)
def test_indices_of_any_layout_and_type(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    values, offsets = batch(40)
    ended: list[list[bytes]] = []
    for name in ("native", engine):
        for kind in (torch.int64, torch.int32):
            whole, _ = modules(torch.float32, optimizer="adagrad", lr=0.1)
            with monkeypatch.context() as patch:
                choose(name, patch)
                found = whole(torch.stack([values, values], 1).to(kind)[:, 0], offsets.repeat_interleave(2)[::2])
                torch.cat(found, 1).square().sum().backward()
                with torch.no_grad():
                    found = whole(values.to(kind), offsets)
            ended.append([bits(each) for each in (*found, *whole.weights, *whole.buffers())])
    assert all(each == ended[0] for each in ended)


@pytest.mark.parametrize("engine", ENGINES)
def test_modules_that_were_copied_saved_or_moved(engine: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Tables need not lie side by side."""
    choose(engine, monkeypatch)
    whole, _ = modules(torch.float32, optimizer="rowwise_adagrad", lr=0.1)
    torch.save(whole.state_dict(), tmp_path / "state")
    loaded, _ = modules(torch.float32, optimizer="rowwise_adagrad", lr=0.1)
    loaded.load_state_dict(torch.load(tmp_path / "state"))
    ended: list[list[bytes]] = []
    for module in (whole, deepcopy(whole), loaded, deepcopy(whole).double().float()):
        found = module(*batch(7))
        torch.cat(found, 1).square().sum().backward()
        ended.append([bits(each) for each in (*found, *module.state_dict().values())])
    assert all(each == ended[0] for each in ended)


def test_many_lanes_of_one_row_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lanes that are loaded together end in the middle of rows, and at the last lane of all."""
    shapes, ended = [(3, 8), (5, 12)], []
    for count in (7, 8, 9, 33):
        values = torch.cat([torch.full((count,), 2), torch.full((count + 1,), 4)])
        offsets = torch.tensor([0, count - 2, count, count + 3, 2 * count + 1])
        for engine in ("native", "emulated GPU"):
            torch.manual_seed(0)
            module = pt.EmbeddingBags(shapes, ["mean", "sum"], optimizer="sgd", lr=0.5)
            with monkeypatch.context() as patch:
                choose(engine, patch)
                torch.cat(module(values, offsets), 1).square().sum().backward()
            ended.append([bits(each) for each in module.weights])
        assert ended[-1] == ended[-2]


@pytest.mark.parametrize("offsets", [[0, 9, 2, -5, 3], [4, 3, 2, 1, 0], [1 << 60] * 5, [-1] * 5], ids=str)
def test_bounds_of_a_gpu_may_be_anything(offsets: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing outside of arrays is read or written; the host does not know the values."""
    monkeypatch.setattr(tables, "check_bounds", lambda *_: None)
    monkeypatch.setattr(tables.Batch, "cuts", property(lambda _: [0, 4, 4]))
    for options in ({"optimizer": "sgd"}, {"sparse": True}):
        module = pt.EmbeddingBags([(3, 8), (5, 8)], **options)
        choose("emulated GPU", monkeypatch)
        torch.cat(module(torch.tensor([0, 1, 2, 2]), torch.tensor(offsets)), 1).sum().backward()
