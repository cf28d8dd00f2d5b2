"""Embedding bags and segments: values against loops and PyTorch's own, gradients, forms of input."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import ptokit as pto
import ptokit.torch as pt
from tests.torch import naive
from tests.torch.naive import bits

MODES = ("sum", "mean", "max", "min")
TABLE = torch.randn(9, 5, generator=torch.Generator().manual_seed(0))
LANES = torch.tensor([0, 8, 8, 3, 2, 2, 1, 8])
OFFSETS = torch.tensor([0, 3, 3, 7])
BOUNDS = [0, 3, 3, 7, 8]


@pytest.mark.parametrize("kind", [torch.int64, torch.int32], ids=str)
@pytest.mark.parametrize("padding", [None, 8, -1, 3])
@pytest.mark.parametrize("mode", MODES)
def test_bags_are_loops(mode: str, padding: int | None, kind: torch.dtype) -> None:
    found = pt.embedding_bag(LANES.to(kind), TABLE, OFFSETS.to(kind), mode=mode, padding_idx=padding)
    expected = naive.bag(TABLE, LANES.tolist(), BOUNDS, mode, None, None if padding is None else padding % 9)
    assert bits(found) == bits(expected)


def test_weights_of_another_type_are_converted_to_the_tables() -> None:
    weights = torch.rand(len(LANES), dtype=torch.float64)
    found, expected = (
        pt.embedding_bag(LANES, TABLE, OFFSETS, mode="sum", per_sample_weights=each)
        for each in (weights, weights.float())
    )
    assert found.dtype is torch.float32 and bits(found) == bits(expected)


def test_segments_without_rows_are_counted() -> None:
    ids, values = torch.tensor([0, 2, 0]), torch.ones(3, 2)
    assert [len(pt.segment_sum(values, segment_ids=ids, num_segments=n)) for n in (None, 3, 5)] == [3, 3, 5]
    assert len(pt.segment_sum(values, lengths=[1, 2], num_segments=5)) == 2


@pytest.mark.parametrize("engine", ["native", "reference"])
def test_weights_of_a_narrow_table_are_rounded_to_its_type(engine: str) -> None:
    weights, table = torch.rand(len(LANES)), TABLE.bfloat16()
    found = pt.embedding_bag(LANES, table, OFFSETS, mode="sum", per_sample_weights=weights, engine=engine)
    rounded = pt.embedding_bag(LANES, table, OFFSETS, mode="sum", per_sample_weights=weights.bfloat16())
    assert bits(found) == bits(rounded)


def test_weights_are_rounded_before_they_are_added() -> None:
    weights = torch.rand(8)
    found = pt.embedding_bag(LANES, TABLE, OFFSETS, mode="sum", per_sample_weights=weights)
    assert bits(found) == bits(naive.bag(TABLE, LANES.tolist(), BOUNDS, "sum", weights))


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_random_bags(data: st.DataObject) -> None:
    rows, width, count = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 70)), data.draw(st.integers(0, 40))
    made = torch.Generator().manual_seed(data.draw(st.integers(0, 1 << 20)))
    table = torch.randn(rows, width, generator=made)
    lanes = torch.randint(0, rows, (count,), generator=made)
    inner = sorted(data.draw(st.lists(st.integers(0, count), max_size=4)))
    bounds, mode = [0, *inner, count], data.draw(st.sampled_from(MODES))
    padding = data.draw(st.sampled_from([None, 0]))
    weights = torch.randn(count, generator=made) if mode == "sum" and data.draw(st.booleans()) else None
    options: dict[str, Any] = {"mode": mode, "per_sample_weights": weights, "padding_idx": padding}
    expected = bits(naive.bag(table, lanes.tolist(), bounds, mode, weights, padding))
    found = pt.embedding_bag(lanes, table, torch.tensor(bounds), include_last_offset=True, **options)
    assert bits(found) == expected
    assert bits(pt.embedding_bag(lanes, table, torch.tensor(bounds[:-1]), **options)) == expected


@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("mode", MODES[:3])
def test_they_are_pytorchs_but_for_rounding(mode: str, kind: torch.dtype) -> None:
    table = torch.randn(50, 16).to(kind)
    lanes, offsets = torch.randint(0, 50, (200,)), torch.arange(0, 200, 25)
    found = pt.embedding_bag(lanes, table, offsets, mode=mode)
    theirs = torch.nn.functional.embedding_bag(lanes, table, offsets, mode=mode)
    torch.testing.assert_close(found, theirs)
    if mode == "sum" and kind.itemsize == 2:  # float32 inside, rounded once
        assert bits(found) == bits(pt.embedding_bag(lanes, table.float(), offsets, mode=mode).to(kind))


@pytest.mark.parametrize("mode", MODES[:3])
@pytest.mark.parametrize("padding", [None, 4])
def test_gradients_are_pytorchs_but_for_rounding(mode: str, padding: int | None) -> None:
    table, lanes = torch.randn(50, 16), torch.randint(0, 50, (8, 25))
    weights = torch.rand(8, 25) if mode == "sum" else None
    found = []
    for call in (pt.embedding_bag, torch.nn.functional.embedding_bag):
        mine = table.clone().requires_grad_()
        given = None if weights is None else weights.clone().requires_grad_()
        made = call(lanes, mine, mode=mode, padding_idx=padding, per_sample_weights=given)
        (made * torch.linspace(-1, 1, 16)).sum().backward()
        found.append((mine.grad, given.grad if given is not None else torch.zeros(1)))
    for mine, theirs in zip(*found, strict=True):
        torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("padding", [None, 8])
def test_gradcheck_of_bags(mode: str, padding: int | None) -> None:
    table = TABLE.double().requires_grad_()

    def call(table: Tensor) -> Tensor:
        return pt.embedding_bag(LANES, table, OFFSETS, mode=mode, padding_idx=padding)

    assert torch.autograd.gradcheck(call, (table,))
    assert torch.autograd.gradgradcheck(call, (table,))


def test_gradcheck_of_weights() -> None:
    table, weights = TABLE.double().requires_grad_(), torch.rand(8, dtype=torch.float64, requires_grad=True)

    def call(table: Tensor, weights: Tensor) -> Tensor:
        return pt.embedding_bag(LANES, table, OFFSETS, mode="sum", per_sample_weights=weights)

    assert torch.autograd.gradcheck(call, (table, weights))
    assert torch.autograd.gradgradcheck(call, (table, weights))


def test_the_first_of_equal_rows_has_the_gradient() -> None:
    table = torch.tensor([[1.0], [1.0], [0.0]], requires_grad=True)
    pt.embedding_bag(torch.tensor([[2, 1, 0]]), table, mode="max").sum().backward()
    assert table.grad.ravel().tolist() == [0, 1, 0]


@pytest.mark.parametrize("bags", [4, 400], ids=["few", "many"])
@pytest.mark.parametrize(
    ("bounds", "closed"),
    [
        *((each, False) for each in ([0, 6, 5], [1, 5], [0, 9], [-1, 5], [])),
        *((each, True) for each in ([0, 6, 5, 8], [1, 8], [0, 5], [0, 9], [])),
    ],
)
def test_offsets_that_are_refused(bounds: list[int], closed: bool, bags: int) -> None:
    wrong = torch.tensor(bounds[:1] * (bags - len(bounds)) + bounds, dtype=torch.int64)
    right = torch.tensor([*[0] * (bags - 1), 8])
    message = (
        f"offsets begin with 0 and are in order, {'the last one is' if closed else 'up to'} the number of indices, 8"
    )
    for _ in range(2):  # the first call, and one that is repeated
        assert len(pt.embedding_bag(LANES, TABLE, right, include_last_offset=closed)) == bags - closed
        with pytest.raises(pto.VerifyError, match=message) as problem:
            pt.embedding_bag(LANES, TABLE, wrong, include_last_offset=closed)
        (finding,) = problem.value.findings
        assert finding.operand == "offsets" and finding.fix and finding.where is not None
        named = re.search(r"found offsets\[(\d+)\] = (-?\d+)", finding.message)
        assert (named is None) is (not len(wrong))
        if named is not None:
            at, value = map(int, named.groups())
            before = int(wrong[at - 1]) if at else 0
            assert wrong[at] == value
            assert not before <= value <= (8 if at else 0) or (at == len(wrong) - 1 and value != 8)


def test_no_bags_and_no_lanes() -> None:
    none = torch.zeros(0, dtype=torch.int64)
    assert pt.embedding_bag(none.view(0, 2), TABLE).shape == (0, 5)
    assert pt.embedding_bag(none, TABLE, none).shape == (0, 5)
    assert pt.embedding_bag(none, TABLE, torch.tensor([0]), include_last_offset=True).shape == (0, 5)
    found = pt.embedding_bag(none.view(3, 0), TABLE)
    assert found.shape == (3, 5) and not found.any()
    assert pt.embedding_bag(none, TABLE, torch.tensor([0, 0])).tolist() == [[0.0] * 5] * 2


@pytest.mark.parametrize("closed", [True, False], ids=["closed", "open"])
@pytest.mark.parametrize("mode", MODES)
def test_compiled_bags_of_any_number(mode: str, closed: bool) -> None:
    """The gradient is traced with the number of lanes and of bags unknown."""

    def loss(lanes: Tensor, table: Tensor, offsets: Tensor) -> Tensor:
        found = pt.embedding_bag(lanes, table, offsets, mode=mode, include_last_offset=closed, padding_idx=8)
        return (found * torch.linspace(-1, 1, 5)).sum()

    torch.compiler.reset()  # it counts what it compiled for other modes
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager", dynamic=True)
    for count in (8, 6, 7):
        bounds = [0, 3, 3, count - 1, count] if count != 7 else [0, 2, 7]
        offsets, found = torch.tensor(bounds if closed else bounds[:-1]), []
        for call in (loss, compiled):
            mine = TABLE.clone().requires_grad_()
            made = call(LANES[:count], mine, offsets)
            made.backward()
            found.append((bits(made), bits(mine.grad)))
        assert found[0] == found[1]


def refused_indices() -> Iterator[tuple[str, str, Callable[[], object]]]:
    """Calls that have no policies: what an error begins with, its advice, the call."""
    rows, ids = "below the number of rows of weight", "num_segments above the greatest"
    yield "embedding_bag: input[1] = 9", rows, lambda: pt.embedding_bag([0, 9], TABLE, [0])
    yield "EmbeddingBag: input.flatten()[3] = -1", rows, lambda: pt.EmbeddingBag(4, 2)(torch.tensor([[0, 1], [0, -1]]))
    for padding in (None, 0):
        module = pt.Embedding(4, 2, padding_idx=padding)
        yield "Embedding: input[1, 0] = 4", rows, lambda module=module: module(torch.tensor([[0], [4]]))
    for reduce in ("sum", "mean", "max"):
        given = torch.ones(3, 2), reduce
        yield (
            "segment_reduce: segment_ids[1] = 5", ids,
            lambda given=given: pt.segment_reduce(*given, segment_ids=[0, 5, 1], num_segments=2),
        )  # fmt: skip


@pytest.mark.parametrize(("begin", "advice", "call"), [*refused_indices()])
def test_advice_on_indices_fits_the_call(begin: str, advice: str, call: Callable[[], object]) -> None:
    with pytest.raises(pto.OutOfBoundsError) as refusal:
        call()
    (found,) = refusal.value.findings
    assert found.message.startswith(begin)
    assert advice in found.fix and "oob" not in found.fix
    assert found.where is not None and found.where.file == __file__
    assert refusal.value.__suppress_context__


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match="offsets"):
        pt.embedding_bag(LANES, TABLE, torch.tensor([0, 5, 3]))
    with pytest.raises(ValueError, match="offsets"):
        pt.embedding_bag(LANES, TABLE, torch.tensor([0, 99]))
    with pytest.raises(ValueError, match="mode is one of"):
        pt.embedding_bag(LANES, TABLE, OFFSETS, mode="median")
    with pytest.raises(ValueError, match=r"mode=.sum"):
        pt.embedding_bag(LANES, TABLE, OFFSETS, mode="max", per_sample_weights=torch.ones(8))
    with pytest.raises(ValueError, match="two dims"):
        pt.embedding_bag(LANES, TABLE)
    with pytest.raises(ValueError, match="shape of input"):
        pt.embedding_bag(LANES, TABLE, OFFSETS, mode="sum", per_sample_weights=torch.ones(7))
    with pytest.raises(ValueError, match="lengths or segment_ids"):
        pt.segment_reduce(TABLE, "sum")
    with pytest.raises(ValueError, match="lengths"):
        pt.segment_reduce(TABLE, "sum", lengths=torch.tensor([5, 5]))
    for module in (pt.Embedding, pt.EmbeddingBag):
        with pytest.raises(ValueError, match="max_norm is refused"):
            module(4, 2, max_norm=1.0)


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("reduce", ["sum", "max", "min"])
def test_engines_agree(reduce: str, kind: torch.dtype) -> None:
    table = torch.randn(50, 3, 7).to(kind)
    table[4, 0, :4] = torch.tensor([float("nan"), 0.0, -0.0, float("inf")])
    lanes, bounds = torch.randint(0, 50, (400,)), torch.tensor([0, 1, 1, 150, 390, 400])
    lanes[::3] = 4
    for padding in (-1, 7):
        weights = torch.randn(400).to(kind) if reduce == "sum" else None
        native, reference = (
            torch.ops.ptokit.bag(table, lanes, bounds, weights, reduce, padding, engine=engine)
            for engine in ("native", "reference")
        )
        assert bits(native[0]) == bits(reference[0]) and bits(native[1]) == bits(reference[1])
        for engine in ("native", "reference"):
            found, none = torch.ops.ptokit.bag(table, lanes, bounds, weights, reduce, padding, False, engine=engine)
            assert bits(found) == bits(native[0]) and not none.numel()
            opened = torch.ops.ptokit.bag(
                table, lanes, bounds[:-1], weights, reduce, padding, closed=False, engine=engine
            )
            assert bits(opened[0]) == bits(native[0]) and bits(opened[1]) == bits(native[1])


# --- segments -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reduce", MODES)
def test_segments_by_lengths_and_by_ids(reduce: str) -> None:
    lengths = torch.tensor([2, 0, 4, 3])
    ids = torch.arange(4).repeat_interleave(lengths)
    expected = naive.bag(TABLE, range(9), [0, 2, 2, 6, 9], reduce)
    call = getattr(pt, f"segment_{reduce}")
    assert bits(call(TABLE, lengths=lengths)) == bits(expected)
    assert bits(call(TABLE, segment_ids=ids, num_segments=4)) == bits(expected)
    order = torch.tensor([5, 8, 0, 3, 7, 1, 2, 6, 4])
    order = order[torch.argsort(ids[order], stable=True)]
    shuffled = torch.argsort(torch.tensor([2, 5, 0, 6, 8, 1, 4, 7, 3]))
    segments = naive.bag(TABLE, order.tolist(), [0, 2, 2, 6, 9], reduce)
    assert bits(call(TABLE[order], segment_ids=ids[order])) == bits(segments)
    torch.testing.assert_close(call(TABLE[shuffled], segment_ids=ids[shuffled]), expected)


def test_segments_of_integers() -> None:
    values = torch.tensor([[3], [-5], [7]])
    assert pt.segment_max(values, lengths=torch.tensor([2, 0, 1])).tolist() == [[3], [0], [7]]
    assert pt.segment_min(values, segment_ids=torch.tensor([1, 1, 0])).tolist() == [[7], [-5]]
    assert pt.segment_sum(values, lengths=torch.tensor([2, 1])).tolist() == [[-2], [7]]
    with pytest.raises(ValueError, match="a mean is of floats"):
        pt.segment_mean(values, lengths=torch.tensor([3]))


@pytest.mark.parametrize("reduce", MODES)
@pytest.mark.parametrize("by", ["lengths", "segment_ids"])
def test_gradcheck_of_segments(reduce: str, by: str) -> None:
    given = {"lengths": torch.tensor([2, 0, 4, 3]), "segment_ids": torch.tensor([3, 0, 0, 2, 3, 3, 0, 2, 2])}[by]
    values = TABLE.double().requires_grad_()
    assert torch.autograd.gradcheck(lambda v: pt.segment_reduce(v, reduce, **{by: given}), (values,))


# --- modules --------------------------------------------------------------------------------------------------------


def test_modules_take_each_others_states() -> None:
    ours, theirs = pt.EmbeddingBag(9, 5, mode="sum", padding_idx=2), torch.nn.EmbeddingBag(9, 5, mode="sum")
    theirs.load_state_dict(ours.state_dict())
    assert isinstance(ours, torch.nn.EmbeddingBag)
    lookup = pt.Embedding(9, 5, padding_idx=2)
    found = lookup(LANES)
    assert bits(found) == bits(lookup.weight[LANES])
    found.backward(torch.ones_like(found))
    expected = torch.bincount(LANES, minlength=9).float()[:, None].expand(9, 5).clone()
    expected[2] = 0
    assert bits(lookup.weight.grad) == bits(expected)


# --- training -------------------------------------------------------------------------------------------------------


def test_a_recommender_trained_with_any_number_of_threads() -> None:
    from tests.torch.towers import trained

    assert trained(threads=1) == trained(threads=2)


TWO, ONE_BAG = torch.tensor([1, 2]), torch.tensor([0, 2])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((torch.ones(4, 3), TWO, ONE_BAG.int(), None, "sum"), "offsets are int64 of one dim"),
        ((torch.ones(4, 3), TWO, ONE_BAG[None], None, "sum"), "offsets are int64 of one dim"),
        ((torch.ones(4, 3), TWO, ONE_BAG, torch.ones(1), "sum"), "each of the 2 lanes has a weight"),
        ((torch.ones(4, 3), TWO, ONE_BAG, None, "median"), "reduce is one of sum, mean, max, min"),
        ((torch.tensor(1.0), TWO, ONE_BAG, None, "sum"), "a table of rows has one dim or more"),
    ],
)
def test_the_operator_refuses_what_engines_would_misread(given: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        torch.ops.ptokit.bag(*given, -1)


def test_indices_and_offsets_are_also_lists_and_arrays() -> None:
    table = torch.arange(12.0).reshape(4, 3)
    expected = pt.embedding_bag(torch.tensor([1, 2, 3]), table, torch.tensor([0, 2]), mode="sum")
    for lanes, offsets in (([1, 2, 3], [0, 2]), (np.array([1, 2, 3]), np.array([0, 2]))):
        assert torch.equal(pt.embedding_bag(lanes, table, offsets, mode="sum"), expected)
    for wrong in (table.numpy(), [[1.0]]):
        with pytest.raises(TypeError, match=r"weight is a tensor; found .*: use torch.as_tensor"):
            pt.embedding_bag(torch.tensor([[1]]), wrong)
        for call in (lambda t: pt.gather(t, [0]), lambda t: pt.scatter(t, 1.0, [0])):
            with pytest.raises(TypeError, match="table is a tensor"):
                call(wrong)


def test_last_offsets_that_do_not_end_the_indices_are_refused() -> None:
    with pytest.raises(ValueError, match="the last one is the number of indices, 3"):
        pt.embedding_bag(torch.tensor([1, 2, 3]), torch.eye(4), torch.tensor([0, 2]), include_last_offset=True)


def test_sparse_tensors_are_refused() -> None:
    table, lanes = torch.eye(4), torch.tensor([[1, 2]])
    for _ in range(2):
        pt.embedding_bag(lanes, table)
        with pytest.raises(ValueError, match="dense"):
            pt.embedding_bag(lanes, table.to_sparse())


def test_tensors_without_memory() -> None:
    table = torch.ones(4, 3)
    table.untyped_storage().resize_(0)
    with pytest.raises(ValueError, match="its storage was freed"):
        pt.embedding_bag(TWO[None], table, mode="sum")
    with pytest.raises(TypeError, match="its storage was freed"):
        pto.gather(table, TWO)
    with pytest.raises(ValueError, match="its storage was freed"):
        pt.scatter(table, torch.ones(2, 3), TWO)
    module = pt.EmbeddingBag(4, 3, mode="sum", device="meta")
    assert module(torch.empty(2, 5, dtype=torch.int64, device="meta")).shape == (2, 3)
    with pytest.raises(ValueError, match="on one device; found cpu and meta"):
        pt.embedding_bag(TWO[None].to("meta"), torch.ones(4, 3), mode="sum")


def test_a_table_that_is_negated_lazily() -> None:
    table = torch._neg_view(torch.ones(4, 3))
    assert pt.embedding_bag(TWO[None], table, mode="sum").tolist() == [[-2.0] * 3]


def test_means_of_narrow_floats_are_in_range() -> None:
    table = torch.full((2000, 2), 100.0, dtype=torch.float16)
    every = [100.0, 100.0]
    assert pt.embedding_bag(torch.arange(2000)[None], table, mode="mean").tolist() == [every]
    assert pt.embedding_bag(torch.arange(2000)[None], table, mode="mean", padding_idx=3).tolist() == [every]
    assert pt.segment_mean(table, lengths=[2000]).tolist() == [every]
    assert pt.segment_mean(table, segment_ids=[1] * 2000).tolist() == [[0.0, 0.0], every]


def test_gradients_without_lanes_or_bags() -> None:
    none = torch.zeros(0, dtype=torch.int64)
    table, weights = torch.ones(4, 3, requires_grad=True), torch.ones(0, requires_grad=True)
    pt.embedding_bag(none, table, none.new_zeros(1), mode="sum", per_sample_weights=weights).sum().backward()
    assert weights.grad is not None and weights.grad.shape == (0,)
    assert table.grad is not None and not table.grad.any()
    pt.embedding_bag(none.view(0, 2), table, mode="max").sum().backward()
    assert not table.grad.any()


def test_export_with_any_number_of_bags() -> None:
    module = pt.EmbeddingBag(10, 4, mode="mean", padding_idx=0)
    rows = torch.tensor([[1, 2, 0], [3, 3, 0]])
    made = torch.export.export(module, (rows,), dynamic_shapes=({0: torch.export.Dim("bags", min=2)},))
    assert torch.equal(made.module()(rows.repeat(3, 1)), module(rows.repeat(3, 1)))


def test_export_of_offsets() -> None:
    module = pt.EmbeddingBag(9, 4, mode="mean", padding_idx=8)
    count, bags = torch.export.Dim("lanes", min=2), torch.export.Dim("bags", min=2)
    made = torch.export.export(module, (LANES, OFFSETS), dynamic_shapes=({0: count}, {0: bags})).module()
    for lanes, offsets in ((LANES, OFFSETS), (LANES[:5], torch.tensor([0, 1, 5]))):
        assert bits(made(lanes, offsets)) == bits(module(lanes, offsets))
    with pytest.raises(ValueError, match="offsets begin with 0"):
        made(LANES, torch.tensor([0, 9]))


def test_segments_that_are_refused() -> None:
    values = torch.ones(5, 3)
    for lengths in ([2, 2], [3, 3], [6, -1], [], [-1] * 300 + [305], [1] * 300):
        with pytest.raises(ValueError, match="lengths are from 0 up, and their sum is the number of rows, 5"):
            pt.segment_sum(values, lengths=torch.tensor(lengths, dtype=torch.int64))
    with pytest.raises(ValueError, match="lengths are integers of one dim"):
        pt.segment_sum(values, lengths=torch.tensor([2.0, 3.0]))
    with pytest.raises(ValueError, match="each of the 5 rows has a segment; found 2"):
        pt.segment_sum(values, segment_ids=[0, 1])
    with pytest.raises(ValueError, match="no greatest or least"):
        pt.segment_max(values.to(torch.complex64), lengths=[5])
    with pytest.raises(ValueError, match="padding_idx is from -5 to 4"):
        pt.embedding_bag(TWO[None], values, padding_idx=5)
    assert pt.segment_max(values.bool(), lengths=[5, 0]).tolist() == [[True] * 3, [False] * 3]


def test_lengths_that_are_refused_are_named() -> None:
    for lengths, named in (([2, -3, 6], r"lengths\[1\] = -3"), ([2, 2], "a sum of 4")):
        with pytest.raises(pto.VerifyError, match=f"segment_reduce: lengths .* number of rows, 5; found {named}"):
            pt.segment_sum(torch.ones(5, 2), lengths=torch.tensor(lengths))


@pytest.mark.parametrize("dims", [1, 2])
def test_a_float_index_is_refused_by_the_name_of_the_call(dims: int) -> None:
    given = torch.ones([3] * dims), torch.tensor([0]) if dims == 1 else None
    calls = {
        "EmbeddingBag": pt.EmbeddingBag(5, 2),
        "embedding_bag": lambda i, o: pt.embedding_bag(i, torch.ones(5, 2), o),
    }
    for name, call in calls.items():
        with pytest.raises(pto.VerifyError, match=f"{name}: input: indices are integers .* found float32") as problem:
            call(*given)
        assert problem.value.findings[0].fix == "convert them: input.to(torch.int64)"
    with pytest.raises(pto.VerifyError, match="Embedding: input: indices are integers"):
        pt.Embedding(5, 2)(given[0])


def test_an_index_outside_is_refused_by_the_name_of_the_module() -> None:
    with pytest.raises(pto.OutOfBoundsError, match=r"EmbeddingBag: input.flatten\(\)\[1\] = 9 is outside"):
        pt.EmbeddingBag(5, 2)(torch.tensor([[1, 9]]))


def test_names_that_are_misspelt() -> None:
    for wrong, right in (("embeding_bag", "embedding_bag"), ("EmbedingBag", "EmbeddingBag"), ("gathr", "gather")):
        with pytest.raises(AttributeError, match=f"no attribute '{wrong}'; did you mean {right}?"):
            getattr(pt, wrong)
    assert not hasattr(pt, "__path_of_nothing__")
    with pytest.raises(ValueError, match=r"did you mean mean\?"):
        pt.EmbeddingBag(5, 2, mode="meam")


@pytest.mark.parametrize("name", ["Embedding", "EmbeddingBag"])
def test_modules_have_the_signature_of_torchs(name: str) -> None:
    mine, other = getattr(pt, name), getattr(torch.nn, name)
    assert inspect.signature(mine) == inspect.signature(other)
    assert inspect.signature(mine.__init__) == inspect.signature(other.__init__)
