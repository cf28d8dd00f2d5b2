"""Forms of `gather` and `scatter` for PyTorch: axes, modes and reductions, against loops and the whole-array calls."""

from __future__ import annotations

import copy
import warnings
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
from ptokit.ops.array_call import MODES, REDUCES
from tests import naive_forms
from tests.torch import naive
from tests.torch.naive import bits
from tests.torch.test_indexed import CHECKS

OPS = torch.ops.ptokit
INTEGERS = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.uint16, torch.uint32, torch.uint64)
REDUCTIONS = ("none", "add", "mul", "mean", "max", "min")
SHAPE = (3, 4, 2)
LANES = {"raise": [[3, 0], [3, 1]], "negative": [[-1, 0], [3, -4]]}
OUTSIDE = [[3, -1], [9, 1]]
AXES = (0, 1, -1, None)
Form = dict[str, Any]


@pytest.fixture(autouse=True)
def _fixed() -> None:
    torch.manual_seed(0)


def lanes_of(mode: str, axis: int | None) -> Tensor:
    """Indices for an axis of `SHAPE`."""
    lanes = torch.tensor(LANES.get(mode, OUTSIDE))
    extent = 24 if axis is None else SHAPE[axis]
    return lanes if mode not in LANES else torch.where(lanes < 0, lanes.clamp(min=-extent), lanes.clamp(max=extent - 1))


def pairs_of(table: Tensor, lanes: Any, axis: int | None, mode: str) -> list[tuple[Any, Any]]:
    """The positions of a source, and the cells of the table that they name."""
    array, indices = np.empty(table.shape), np.asarray(lanes)
    if axis is not None:
        return list(naive_forms.by_axis(array, indices, axis % table.dim(), mode))
    cells = [np.unravel_index(k, table.shape) for k in range(table.numel())]
    found = naive_forms.by_axis(np.empty(table.numel()), indices, 0, mode)
    return [(at, None if cell is None else tuple(map(int, cells[cell[0]]))) for at, cell in found]


def shape_of(lanes: Tensor, axis: int | None) -> list[int]:
    at = 0 if axis is None else axis % len(SHAPE)
    return list(lanes.shape) if axis is None else [*SHAPE[:at], *lanes.shape, *SHAPE[at + 1 :]]


def numbers(*shape: int, kind: torch.dtype = torch.float32) -> Tensor:
    """Numbers some of which are the same, and some of which are 0."""
    values = torch.tensor([2.0, -4.0, 0.0, 9.0, 0.7, -1.3, 0.5])
    return values[torch.randint(0, len(values), shape)].to(kind)


# --- values and gradients -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("mode", MODES)
def test_gathers_and_their_gradients(mode: str, axis: int | None) -> None:
    lanes, table = lanes_of(mode, axis), torch.randn(SHAPE, requires_grad=True)
    found = pt.gather(table, lanes, axis=axis, mode=mode)
    assert bits(found) == bits(pto.gather(table.detach(), lanes, axis=axis, mode=mode))
    assert found.is_contiguous()
    above = torch.randn_like(found)
    found.backward(above)
    values, expected = torch.zeros_like(found), torch.zeros(SHAPE)
    for at, cell in pairs_of(table, lanes, axis, mode):
        if cell is not None:
            values[at] = table[cell]
            expected[cell] += above[at]
    assert bits(found) == bits(values) and bits(table.grad) == bits(expected)


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", REDUCTIONS)
@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("mode", ["raise", "wrap", "clip", "drop", "negative"])
def test_scatters_and_their_gradients(mode: str, axis: int | None, reduce: str, include_self: bool) -> None:
    lanes = lanes_of(mode, axis)
    form: Form = {"axis": axis, "mode": mode, "reduce": reduce, "include_self": include_self}
    table, src, above = numbers(*SHAPE), numbers(*shape_of(lanes, axis)), torch.randn(SHAPE)
    pairs = pairs_of(table, lanes, axis, mode)
    mine, theirs = table.clone().requires_grad_(), src.clone().requires_grad_()
    found = pt.scatter(mine, theirs, lanes, **form)
    values = naive_forms.scattered(table.numpy(), src.numpy(), iter(pairs), reduce, include_self)
    assert bits(found) == bits(torch.from_numpy(values)) == bits(pto.scatter(table.clone(), src, lanes, **form))
    found.backward(above)
    of_table, of_src = naive.gradients(table, src, above, pairs, reduce, include_self)
    torch.testing.assert_close(mine.grad, of_table, rtol=1e-5, atol=0)
    torch.testing.assert_close(theirs.grad, of_src, rtol=1e-5, atol=0)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_random_forms(data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    axis, mode = data.draw(st.integers(0, len(shape) - 1)), data.draw(st.sampled_from(["wrap", "clip", "drop"]))
    form: Form = {"axis": axis, "mode": mode, "reduce": data.draw(st.sampled_from(REDUCTIONS))}
    form["include_self"] = data.draw(st.booleans())
    lanes = torch.tensor(data.draw(st.lists(st.integers(-9, 9), max_size=9)), dtype=torch.int32)
    table, src = numbers(*shape), numbers(*shape[:axis], len(lanes), *shape[axis + 1 :])
    above = torch.randn(shape)
    mine, theirs = table.clone().requires_grad_(), src.clone().requires_grad_()
    found = pt.scatter(mine, theirs, lanes, **form)
    assert bits(found) == bits(pto.scatter(table.clone(), src, lanes, **form))
    assert bits(pt.scatter_(table.clone(), src, lanes, **form)) == bits(found)
    found.backward(above)
    pairs = pairs_of(table, lanes, axis, mode)
    of_table, of_src = naive.gradients(table, src, above, pairs, form["reduce"], form["include_self"])
    torch.testing.assert_close(mine.grad, of_table, rtol=1e-5, atol=0)
    torch.testing.assert_close(theirs.grad, of_src, rtol=1e-5, atol=0)


def test_products_with_zeros() -> None:
    """No zero in a cell, one in the table, one in the source, two in the source, one in each; a huge one outside."""
    table = torch.tensor([2.0, 0.0, 3.0, 3.0, 0.0, 7.0], requires_grad=True)
    src = torch.tensor([5.0, 7.0, 5.0, 7.0, 0.0, 7.0, 0.0, 0.0, 0.0, 7.0, float("inf")], requires_grad=True)
    lanes = torch.tensor([0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 99])
    found = pt.scatter(table, src, lanes, reduce="prod", mode="drop")
    (of_table, of_src) = torch.autograd.grad(found.sum(), (table, src), create_graph=True)
    assert found.tolist() == [70, 0, 0, 0, 0, 7]
    assert of_table.tolist() == [35, 35, 0, 0, 0, 1]
    assert of_src.tolist() == [14, 10, 0, 0, 21, 0, 0, 0, 0, 0, 0]
    (again,) = torch.autograd.grad(of_table.sum(), src)
    assert again.tolist() == [7, 5, 7, 5, 7, 0, 0, 0, 7, 0, 0]


@pytest.mark.parametrize("kind", [torch.float32, torch.float16])
def test_products_that_leave_the_range_have_gradients(kind: torch.dtype) -> None:
    """A division of the product by a factor would give 0 or infinity."""
    for value, others in ((1e-30, 1e-30), (1e30, 1e30)) if kind is torch.float32 else ((1e-4, 1e-4), (6e4, 6e4)):
        src = torch.tensor([value, value], dtype=kind, requires_grad=True)
        pt.scatter(torch.ones(1, dtype=kind), src, [0, 0], reduce="mul").backward(torch.ones(1, dtype=kind))
        assert src.grad.tolist() == torch.tensor([others, others]).to(kind).tolist()


def test_gradients_of_products_of_many_lanes() -> None:
    """Cells of very different numbers of lanes, in any order."""
    lanes = torch.tensor([0] * 37 + [1] * 5 + [3] * 16)[torch.randperm(58)]
    src = (torch.rand(58, 2, dtype=torch.float64) + 0.5).requires_grad_()
    pt.scatter(torch.full((4, 2), 3.0, dtype=torch.float64), src, lanes, reduce="mul").sum().backward()
    expected = torch.stack([3 * src.detach()[lanes == k].prod(0) for k in lanes.tolist()]) / src.detach()
    torch.testing.assert_close(src.grad, expected)


def test_ties_and_nans_without_the_cells_own_values() -> None:
    nan = float("nan")
    table = torch.tensor([9.0, 9.0, 9.0], requires_grad=True)
    src = torch.tensor([1.0, 5.0, 5.0, nan, nan], requires_grad=True)
    found = pt.scatter(table, src, [0, 0, 0, 1, 1], reduce="amax", include_self=False)
    found.backward(torch.tensor([1.0, 2.0, 3.0]))
    assert found[0] == 5 and found[1].isnan() and found[2] == 9
    assert table.grad.tolist() == [0, 0, 3] and src.grad.tolist() == [0, 1, 0, 2, 0]


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("reduce", ["mul", "mean"])
@pytest.mark.parametrize("shape", [(), (2,), (5, 1), (3, 1, 2)])
def test_a_source_that_broadcasts(shape: tuple[int, ...], reduce: str, axis: int) -> None:
    full = list(SHAPE)
    lanes = torch.tensor([0, 1, 1, 0, 1][: 5 if axis == 1 else SHAPE[axis]])
    full[axis] = len(lanes)
    if shape == (5, 1) and axis != 1:
        with pytest.raises(pto.VerifyError, match="src must have the shape"):
            pt.scatter(torch.ones(SHAPE), torch.ones(shape), lanes, axis=axis, reduce=reduce)
        return
    src = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    table = torch.randn(SHAPE, dtype=torch.float64, requires_grad=True)

    def scattered(table: Tensor, src: Tensor) -> Tensor:
        return pt.scatter(table, src, lanes, axis=axis, reduce=reduce)

    spread = scattered(table, src.expand(full).clone())
    assert bits(scattered(table, src)) == bits(spread)
    assert torch.autograd.gradcheck(scattered, (table, src))
    assert torch.autograd.gradgradcheck(scattered, (table, src))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("reduce", REDUCTIONS)
@pytest.mark.parametrize("include_self", [True, False])
def test_gradcheck(reduce: str, include_self: bool, axis: int) -> None:
    table = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    lanes = torch.tensor([2, -1, 2, 1, 2, 9])
    src = torch.randn((6, 4) if axis == 0 else (3, 6), dtype=torch.float64, requires_grad=True)

    def scattered(table: Tensor, src: Tensor) -> Tensor:
        return pt.scatter(table, src, lanes, axis=axis, mode="drop", reduce=reduce, include_self=include_self)

    assert torch.autograd.gradcheck(scattered, (table, src))
    assert torch.autograd.gradgradcheck(scattered, (table, src))
    assert torch.autograd.gradcheck(lambda t: pt.gather(t, lanes, axis=axis, mode="wrap"), (table,))


@pytest.mark.parametrize("include_self", [True, False])
def test_gradcheck_of_products_with_zeros(include_self: bool) -> None:
    table = torch.tensor([[0.0, 2.0], [3.0, 0.0]], dtype=torch.float64, requires_grad=True)
    src = torch.tensor([[0.0, 1.5], [0.0, 0.0], [4.0, 0.0], [0.0, -2.0]], dtype=torch.float64, requires_grad=True)

    def scattered(table: Tensor, src: Tensor) -> Tensor:
        return pt.scatter(table, src, [0, 0, 1, 1], reduce="mul", include_self=include_self)

    assert torch.autograd.gradcheck(scattered, (table, src))
    assert torch.autograd.gradgradcheck(scattered, (table, src))


# --- options --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", INTEGERS, ids=str)
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("mode", MODES)
def test_indices_of_every_integer_type(kind: torch.dtype, axis: int, mode: str) -> None:
    table = torch.randn(4, 4, requires_grad=True)
    values = [3, 0, 1] + ([9, 100] if mode in ("wrap", "clip", "fill", "drop") else [])
    values += [-1, -3] if kind.is_signed and mode != "raise" else []
    lanes = torch.tensor(values).to(kind)
    found = pt.gather(table, lanes, axis=axis, mode=mode)
    assert bits(found) == bits(pto.gather(table.detach(), lanes, axis=axis, mode=mode))
    assert bits(found) == bits(pt.gather(table, torch.tensor(values), axis=axis, mode=mode))
    src = torch.randn_like(found).requires_grad_()
    scattered = pt.scatter(table, src, lanes, axis=axis, mode=mode, reduce="mul")
    assert bits(scattered) == bits(
        pto.scatter(table.detach().clone(), src.detach(), lanes, axis=axis, mode=mode, reduce="mul")
    )
    (mine,) = torch.autograd.grad(scattered.sum(), src)
    same = pt.scatter(table, src, torch.tensor(values), axis=axis, mode=mode, reduce="mul")
    (expected,) = torch.autograd.grad(same.sum(), src)
    assert bits(mine) == bits(expected)


@pytest.mark.parametrize("oob", ["clamp", "wrap", "skip"])
def test_products_at_indices_beyond_int64(oob: str) -> None:
    lanes = torch.from_numpy(np.array([2**64 - 1, 2**63 + 4, 1], "uint64"))
    entries = {"clamp": [6, 6, 1], "wrap": [(2**64 - 1) % 7, (2**63 + 4) % 7, 1], "skip": [-1, -1, 1]}[oob]
    src = torch.tensor([2.0, 3.0, 5.0], requires_grad=True)
    found = pt.scatter(torch.full((7,), 4.0), src, lanes, oob=oob, reduce="mul")
    (mine,) = torch.autograd.grad(found.sum(), src)
    other = pt.scatter(torch.full((7,), 4.0), src, torch.tensor(entries), oob="skip", reduce="mul")
    assert bits(found) == bits(other) and bits(mine) == bits(torch.autograd.grad(other.sum(), src)[0])
    batched = torch.vmap(lambda t: pt.gather(t, lanes, oob="zero" if oob == "skip" else oob))(torch.arange(7.0)[None])
    assert batched[0].tolist() == [float(max(each, 0)) for each in entries]


@pytest.mark.parametrize(
    "indices",
    [[2, 0], [[1], [0]], (2, 1, 1), range(3), range(2, -1, -1), range(0), 2, [], [[], []], np.int8(1),
     np.array([1, 0], "uint16")],
    ids=repr,
)  # fmt: skip
@pytest.mark.parametrize("axis", [0, 1])
def test_lists_ranges_and_numbers_are_indices(indices: Any, axis: int) -> None:
    table = torch.randn(3, 4)
    assert bits(pt.gather(table, indices, axis=axis)) == bits(pto.gather(table, indices, axis=axis))
    found = pt.scatter(table, 2.0, indices, axis=axis, reduce="mul")
    assert bits(found) == bits(pto.scatter(table.clone(), 2.0, indices, axis=axis, reduce="mul"))


def test_every_word_for_a_reduction() -> None:
    table, src, lanes = numbers(5), numbers(30) + 1, torch.arange(30) % 5
    for word in REDUCES:
        for include_self in (True, False):
            form: Form = {"reduce": word, "include_self": include_self}
            assert bits(pt.scatter(table, src, lanes, **form)) == bits(pto.scatter(table.clone(), src, lanes, **form))
    for atomic in ("add", "max", "min", "none"):
        form = {"atomic": atomic, "include_self": False}
        assert bits(pt.scatter(table, src, lanes, **form)) == bits(pto.scatter(table.clone(), src, lanes, **form))


@pytest.mark.parametrize("kind", [torch.int8, torch.int32, torch.uint8, torch.bool, torch.int64], ids=str)
@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_integers(kind: torch.dtype, reduce: str) -> None:
    table, src = torch.randint(-7, 8, (3, 4)).to(kind), torch.randint(-7, 8, (3, 6)).to(kind)
    lanes = torch.tensor([3, 0, 3, 2, 2, 2])
    if kind is torch.bool and reduce == "mean":
        with pytest.raises(pto.VerifyError, match="bool has no mean"):
            pt.scatter(table, src, lanes, axis=1, reduce=reduce)
        return
    for include_self in (True, False):
        form: Form = {"axis": 1, "reduce": reduce, "include_self": include_self}
        assert bits(pt.scatter(table, src, lanes, **form)) == bits(pto.scatter(table.clone(), src, lanes, **form))


def refusals() -> Iterator[tuple[str, Form, Any]]:
    yield "scatter", {"reduce": "average"}, [0]
    yield "scatter", {"reduce": 1}, [0]
    yield "scatter", {"reduce": "sum", "atomic": "add"}, [0]
    yield "scatter", {"atomic": "mul"}, [0]
    yield "scatter", {"include_self": 1}, [0]
    yield "scatter", {"reduce": "mul", "conflict": "first"}, [0]
    yield "scatter", {"reduce": "mul", "accumulate": "float32"}, [0]
    yield "scatter", {"reduce": "mul", "threads": 0}, [0]
    for name in ("gather", "scatter"):
        yield name, {"mode": "warp"}, [0]
        yield name, {"mode": ["wrap"]}, [0]
        yield name, {"mode": "wrap", "oob": "clamp"}, [0]
        yield name, {"oob": "none", "axis": 1}, [0]
        yield name, {"mode": "raise"}, [1, -1, 7]
        yield name, {"mode": "negative"}, [1, -9, 7]
        yield name, {"mode": "negative", "coalesce": "elem"}, [1, -9, -13]
        yield name, {"axis": 1}, [[1, 3], [4, -1]]
        yield name, {"axis": 1, "mode": "negative"}, [1, 4]
        yield name, {"axis": 2}, [0]
        yield name, {"axis": 1.5}, [0]
        yield name, {"axis": 1, "coalesce": "elem"}, [0]
        yield name, {"axis": 1, "coalesce": "row_"}, [0]
        yield name, {"axis": 1}, [0.5]
        yield name, {"axis": 1}, [True]
        yield name, {"axis": 1, "engine": "fast"}, [0]
        yield name, {"mode": "wrap"}, [[1, 2], [1]]
        yield name, {}, [[1, 2], [1]]


@pytest.mark.parametrize(("name", "form", "indices"), list(refusals()), ids=str)
def test_refusals_are_those_of_whole_array_calls(name: str, form: Form, indices: Any) -> None:
    for table in (torch.ones(3, 4), torch.ones(3, 4).requires_grad_()):
        given = (table, indices) if name == "gather" else (table, 1.0, indices)
        with pytest.raises((ValueError, TypeError, pto.OutOfBoundsError)) as mine:
            getattr(pt, name)(*given, **form)
        with torch.no_grad(), pytest.raises(type(mine.value)) as theirs:
            getattr(pto, name)(*given, **form)
        text = [str(each.value).split(": ", 1)[-1] for each in (mine, theirs)]
        assert text[0] == text[1]
        if isinstance(mine.value, pto.VerifyError):
            assert all(each.where is not None and each.where.file == __file__ for each in mine.value.findings)
    assert (table == 1).all()


def test_refusals_of_types_and_shapes() -> None:
    with pytest.raises(pto.VerifyError, match=r"src\.to\(table\.dtype\)"):
        pt.scatter(torch.zeros(3, 4), torch.zeros(3, 1).double(), [0], axis=1, reduce="mul")
    with pytest.raises(pto.VerifyError, match=r"\(3, 1\), or broadcast to it; found \(2, 2\)"):
        pt.scatter(torch.zeros(3, 4), torch.zeros(2, 2), [0], axis=1)
    with pytest.raises(pto.VerifyError, match="the table is empty"):
        pt.gather(torch.zeros(3, 0), [1], axis=1, mode="clip")
    with pytest.raises(pto.VerifyError, match="a table of rows has one dim or more"):
        pt.gather(torch.zeros(()), [0], mode="negative")
    with pytest.raises(pto.VerifyError, match="complex64 cannot be multiplied"):
        pt.scatter(torch.zeros(3, dtype=torch.complex64), 1, [0], reduce="mul")
    assert pt.gather(torch.zeros(3, 0), [], axis=1, mode="clip").shape == (3, 0)
    assert pt.gather(torch.zeros(0, 3), [1], axis=1).shape == (0, 1)
    assert pt.gather(torch.tensor(5.0), [-1], axis=None, mode="negative").tolist() == [5]


@pytest.mark.parametrize("reduce", [None, *REDUCTIONS])
@pytest.mark.parametrize("axis", [0, 1])
def test_negative_int32_indices_warn_once_without_a_mode(axis: int, reduce: str | None) -> None:
    table, lanes = torch.ones(4, 4, requires_grad=True), torch.tensor([1, -2, -1], dtype=torch.int32)
    src = torch.ones((), requires_grad=True)
    for call in (
        lambda: pt.scatter(table, src, lanes, axis=axis, oob="clamp", reduce=reduce),
        lambda: pt.gather(table, lanes, axis=axis, oob="wrap"),
    ):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            call().sum().backward()
        (warning,) = seen
        assert isinstance(warning.message, pto.HazardWarning)
        assert "indices[1] = -2 is negative and counts as 4294967294 (and 1 more)" in str(warning.message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert pt.gather(table, lanes, axis=axis, mode="clip").shape == ((3, 4) if axis == 0 else (4, 3))


# --- in place -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reduce", REDUCTIONS)
@pytest.mark.parametrize("axis", [0, 1, None])
def test_in_place(axis: int | None, reduce: str) -> None:
    for make in (torch.clone, lambda t: t.t().contiguous().t()):
        table, form = make(torch.randn(4, 5)), {"axis": axis, "reduce": reduce, "include_self": reduce == "mean"}
        expected = pt.scatter(table, 2.0, [0, 1, 1], **form)
        version, steps = table._version, table.stride()
        assert pt.scatter_(table, 2.0, [0, 1, 1], **form) is table
        assert bits(table.contiguous()) == bits(expected) and table._version > version and table.stride() == steps


@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_in_place_with_a_gradient(reduce: str) -> None:
    weight, src = torch.randn(3, 4, requires_grad=True), torch.randn(3, 3, requires_grad=True)
    twin, other = weight.detach().clone().requires_grad_(), src.detach().clone().requires_grad_()
    form: Form = {"axis": 1, "reduce": reduce, "mode": "negative"}
    with pytest.raises(RuntimeError, match="leaf Variable"):
        pt.scatter_(weight, src, [-1, 0, 3], **form)
    (pt.scatter_(weight * 2, src, [-1, 0, 3], **form) ** 2).sum().backward()
    (pt.scatter(twin * 2, other, [-1, 0, 3], **form) ** 2).sum().backward()
    assert bits(weight.grad) == bits(twin.grad) and bits(src.grad) == bits(other.grad)


# --- what PyTorch asks of operators ----------------------------------------------------------------------------------


def samples() -> Iterator[tuple[str, Any, tuple[Any, ...], Form]]:
    table, src = torch.randn(4, 3, requires_grad=True), torch.randn(2, 2, 3, requires_grad=True)
    lanes = torch.tensor(OUTSIDE)
    for reduce in REDUCTIONS[1:]:
        for include_self in (True, False):
            form: Form = {"oob": "skip", "reduce": reduce, "include_self": include_self}
            yield f"{reduce} {include_self}", OPS.scatter_reduce.default, (table, src, lanes), form
        yield f"{reduce}_", OPS.scatter_reduce_.default, (table.detach(), src.detach(), lanes), {**form}
    yield "defaults", OPS.scatter_reduce.default, (table, src, lanes % 4), {}
    yield "entries", OPS.entries.default, (lanes, [3, 4], "row", 1, True, "undefined", "wrap"), {}


@pytest.mark.parametrize(("op", "args", "named"), [s[1:] for s in samples()], ids=[s[0] for s in samples()])
@pytest.mark.filterwarnings("ignore")
def test_opcheck(op: Any, args: tuple[Any, ...], named: Form) -> None:
    found = torch.library.opcheck(op, copy.deepcopy(args), named, test_utils=CHECKS)
    assert set(found.values()) == {"SUCCESS"}


def model(table: Tensor, src: Tensor, lanes: Tensor) -> Tensor:
    """All forms in one expression."""
    table = pt.scatter(table * 2, src, lanes, axis=1, mode="wrap", reduce="prod")
    table = pt.scatter(table, src + 1, lanes, axis=-1, mode="clip", reduce="mean")
    table = pt.scatter(table, src * 3, lanes, axis=1, mode="drop", reduce="amax", include_self=False)
    table = pt.scatter(table, src * 5, lanes, axis=1, mode="drop", reduce="sum")
    table = pt.scatter_(table.clone(), src - 2, lanes, axis=1, mode="wrap", reduce="mul", include_self=False)
    rows = pt.gather(table, lanes, mode="wrap") + pt.gather(table, [0, -1, 1, 1], mode="negative")
    return rows.square().sum() + pt.gather(table, lanes, axis=1, mode="fill").sum()


def inputs(seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    made = torch.Generator().manual_seed(seed)
    return torch.randn(3, 5, generator=made), torch.randn(3, 4, generator=made), torch.tensor([4, -1, 9, 0])


def outcome(call: Callable[..., Tensor], seed: int) -> list[Any]:
    table, src, lanes = inputs(seed)
    mine, theirs = table.requires_grad_(), src.requires_grad_()
    loss = call(mine, theirs, lanes)
    loss.backward()
    return [*map(bits, (loss, mine.grad, theirs.grad))]


def test_compile_in_one_graph() -> None:
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    for seed in range(2):
        assert outcome(compiled, seed) == outcome(model, seed)


def test_compile_with_changing_shapes() -> None:
    def product(table: Tensor, src: Tensor, lanes: Tensor) -> Tensor:
        return pt.scatter(table, src, lanes, axis=1, mode="wrap", reduce="mul")

    compiled = torch.compile(product, fullgraph=True, backend="aot_eager", dynamic=True)
    for rows, count in ((3, 5), (7, 2), (9, 11)):
        found = []
        for call in (product, compiled):
            torch.manual_seed(rows)
            table, src = torch.randn(rows, 4, requires_grad=True), torch.randn(rows, count, requires_grad=True)
            made = call(table, src, torch.arange(count) - 3)
            made.backward(torch.randn(made.shape))
            found.append([*map(bits, (made, table.grad, src.grad))])
        assert found[0] == found[1]


class Exported(torch.nn.Module):
    def forward(self, table: Tensor, src: Tensor, lanes: Tensor) -> Tensor:
        return model(table, src, lanes)


@pytest.mark.filterwarnings("ignore")
def test_export() -> None:
    program = torch.export.export(Exported(), inputs())
    names = {str(node.target) for node in program.graph.nodes if node.op == "call_function"}
    assert {"ptokit.gather.default", "ptokit.scatter_reduce.default", "ptokit.entries.default"} <= names
    assert bits(program.module()(*inputs(3))) == bits(model(*inputs(3)))


def test_functional_gradients() -> None:
    table, src, lanes = inputs()
    found = torch.func.grad(model, argnums=(0, 1))(table, src, lanes)
    assert outcome(model, 0)[1:] == [*map(bits, found)]


@pytest.mark.parametrize("reduce", REDUCTIONS)
@pytest.mark.parametrize("dims", [(0, 0, 0), (None, 0, 0), (0, None, 0), (0, 0, None), (None, None, 0), (0, 1, 1)])
def test_vmap(dims: tuple[int | None, ...], reduce: str) -> None:
    whole = torch.randn(5, 3, 4), torch.randn(5, 3, 6), torch.randint(-9, 9, (5, 6))
    batched = [each[0] if at is None else each.movedim(0, at) for each, at in zip(whole, dims, strict=True)]

    def call(table: Tensor, src: Tensor, lanes: Tensor) -> Tensor:
        table = pt.scatter(table, src, lanes, axis=1, mode="wrap", reduce=reduce, include_self=reduce == "mul")
        return pt.gather(table, lanes, axis=1, mode="clip") * src

    def loss(*operands: Tensor) -> Tensor:
        return call(*operands).sum()

    one = [[each[0 if at is None else k] for each, at in zip(whole, dims, strict=True)] for k in range(5)]
    assert bits(torch.vmap(call, dims)(*batched)) == bits(torch.stack([call(*each) for each in one]))
    found = torch.vmap(torch.func.grad(loss, argnums=(0, 1)), dims)(*batched)
    for k, made in enumerate(found):
        assert bits(made) == bits(torch.stack([torch.func.grad(loss, argnums=(0, 1))(*each)[k] for each in one]))


def test_vmap_of_a_table_that_all_write_to_is_refused() -> None:
    lanes = torch.tensor([[0, 1], [1, 1]])
    with pytest.raises(RuntimeError, match="use scatter"):
        torch.vmap(lambda i: pt.scatter_(torch.ones(3), 2.0, i, reduce="mul"))(lanes)
    tables = torch.ones(2, 3)
    torch.vmap(lambda t, i: pt.scatter_(t, 2.0, i, reduce="mul"))(tables, lanes)
    assert tables.tolist() == [[2, 2, 1], [1, 4, 1]]


def test_autocast_keeps_the_tables_type() -> None:
    table, src = torch.randn(3, 4, requires_grad=True), torch.randn(3, 3, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        product = torch.eye(3) @ src
        assert product.dtype is torch.bfloat16
        found = pt.scatter(table, product, [0, 0, 1], axis=1, reduce="prod")
        assert found.dtype is torch.float32
    found.sum().backward()
    assert src.grad.dtype is torch.float32 and (src.grad != 0).all()


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", ["mul", "mean", "add", "max"])
@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_other_floats(kind: torch.dtype, reduce: str, include_self: bool) -> None:
    """Gradients of floats narrower than float32 are computed in float32, and rounded once."""
    lanes, form = torch.tensor([0, 1, 1, 2, 2, 2]), {"reduce": reduce, "include_self": include_self, "axis": 1}
    table, src, above = numbers(3, 4, kind=kind), numbers(3, 6, kind=kind), numbers(3, 4, kind=kind)
    mine, theirs = table.clone().requires_grad_(), src.clone().requires_grad_()
    found = pt.scatter(mine, theirs, lanes, **form)
    assert bits(found) == bits(pto.scatter(table.clone(), src, lanes, **form))
    found.backward(above)
    wide = torch.promote_types(kind, torch.float32)
    exact = [each.to(wide).requires_grad_() for each in (table, src)]
    pt.scatter(exact[0], exact[1], lanes, **form).backward(above.to(wide))
    assert bits(mine.grad) == bits(exact[0].grad.to(kind)) and bits(theirs.grad) == bits(exact[1].grad.to(kind))


# --- the same bits --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("reduce", ["mul", "mean", "max"])
def test_any_number_of_threads_gives_the_same_bits(reduce: str, axis: int) -> None:
    shape = (1000, 33) if axis == 0 else (33, 1000)
    wide = (6_000, 33) if axis == 0 else (33, 6_000)
    table, lanes = torch.rand(shape) + 0.5, torch.randint(0, 1000, (6_000,)).square() % 1000
    values, above, found = torch.rand(wide) + 0.5, torch.randn(shape), []
    for threads in (1, 2, 16):
        mine, src = table.clone().requires_grad_(), values.clone().requires_grad_()
        form: Form = {"axis": axis, "mode": "wrap", "threads": threads}
        rows = pt.gather(mine, lanes, **form)
        made = pt.scatter(mine, src, lanes, reduce=reduce, include_self=False, **form)
        (rows * values).sum().backward()
        made.backward(above)
        found.append([*map(bits, (rows, made, mine.grad, src.grad))])
    assert found[0] == found[1] == found[2]


def test_deterministic_mode_is_satisfied() -> None:
    torch.use_deterministic_algorithms(True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            outcome(model, 0)
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("dynamic", [None, True])
def test_compiled_code_takes_another_axis(dynamic: bool | None) -> None:
    table, lanes = torch.arange(12.0).reshape(3, 4), torch.tensor([0, 2])
    read = torch.compile(lambda t, a: pt.gather(t, lanes, axis=a), fullgraph=True, backend="eager", dynamic=dynamic)
    write = torch.compile(
        lambda t, a: pt.scatter(t, 5.0, lanes, axis=a), fullgraph=True, backend="eager", dynamic=dynamic
    )
    for axis in (0, 1, -1, 0):
        assert torch.equal(read(table, axis), table.index_select(axis, lanes))
        assert torch.equal(write(table, axis), table.index_fill(axis, lanes, 5.0))
