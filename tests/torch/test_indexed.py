"""`gather` and `scatter` for PyTorch: values and gradients, against loops; what PyTorch asks of operators."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import ptokit as pto
import ptokit.torch as pt
from tests.torch import naive
from tests.torch.naive import ATOMICS, GATHER_POLICIES, SCATTER_POLICIES, bits

# Indices below 0 are among those that are drawn.
pytestmark = pytest.mark.filterwarnings("ignore::ptokit.HazardWarning")

OPS = torch.ops.ptokit
INDEX_TYPES = (torch.int64, torch.int32, torch.uint32)
TABLE = torch.tensor([[0.5, -1.0, 2.0], [3.0, -0.0, 0.0], [7.0, 1.0, -4.0], [0.25, 9.0, 1.5]])
INSIDE, OUTSIDE = torch.tensor([[3, 0, 3], [1, 1, 3]]), torch.tensor([[3, 9, 3], [-2, 1, 5]])


@pytest.fixture(autouse=True)
def _fixed() -> None:
    torch.manual_seed(0)


def lanes_for(oob: str, kind: torch.dtype = torch.int64) -> Tensor:
    return (INSIDE if oob == "undefined" else OUTSIDE).to(kind)


# --- values and gradients -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", INDEX_TYPES, ids=str)
@pytest.mark.parametrize("coalesce", ["row", "elem"])
@pytest.mark.parametrize("oob", GATHER_POLICIES)
def test_gathers_and_their_gradients(oob: str, coalesce: str, kind: torch.dtype) -> None:
    table, lanes = TABLE.clone().requires_grad_(), lanes_for(oob, kind)
    found = pt.gather(table, lanes, coalesce=coalesce, oob=oob)
    assert bits(found) == bits(naive.gather(TABLE, lanes, coalesce, oob))
    above = torch.randn_like(found)
    found.backward(above)
    expected = torch.zeros_like(TABLE)
    cells = naive.rows_of(expected, coalesce)
    for at, row in zip(naive.entries(lanes, len(cells), oob), above.reshape(lanes.numel(), -1), strict=True):
        if at is not None:
            cells[at] += row
    assert bits(table.grad) == bits(expected)


@pytest.mark.parametrize("coalesce", ["row", "elem"])
@pytest.mark.parametrize("oob", SCATTER_POLICIES)
@pytest.mark.parametrize("atomic", ATOMICS)
@pytest.mark.parametrize("dispatched", [False, True])
def test_scatters_and_their_gradients(atomic: str, oob: str, coalesce: str, dispatched: bool) -> None:
    lanes = lanes_for(oob)
    shape = [*lanes.shape, *([3] if coalesce == "row" else [])]
    values = torch.tensor([2.0, -4.0, -0.0, 0.0, 9.0, 9.0, -1.0, 0.5])
    src = values[torch.randint(0, len(values), shape)]
    table, mine, above = TABLE.clone().requires_grad_(), src.clone().requires_grad_(), torch.randn(TABLE.shape)
    call = OPS.scatter if dispatched else pt.scatter
    found = call(table, mine, lanes, coalesce=coalesce, oob=oob, atomic=atomic)
    found.backward(above)
    out, of_table, of_src = naive.scatter(TABLE, src, lanes, above, coalesce, oob, atomic)
    assert bits(found) == bits(out)
    assert bits(table.grad + 0) == bits(of_table + 0)
    assert bits(mine.grad + 0) == bits(of_src + 0)
    assert bits(table) == bits(TABLE)


def test_ties_and_nans_of_the_greatest() -> None:
    """The table's own value comes first, then the first lane; a NaN yields; +0 is above -0."""
    nan = float("nan")
    table = torch.tensor([5.0, 1.0, nan, -0.0, nan], requires_grad=True)
    src = torch.tensor([5.0, 2.0, 2.0, nan, 3.0, 0.0, 0.0, nan], requires_grad=True)
    lanes = torch.tensor([0, 1, 1, 2, 2, 3, 3, 4])
    found = pt.scatter(table, src, lanes, atomic="max")
    found.backward(torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0]))
    assert found[:4].tolist() == [5, 2, 3, 0] and found[4].isnan()
    assert not torch.signbit(found[3])
    assert table.grad.tolist() == [1, 0, 0, 0, 5]
    assert src.grad.tolist() == [0, 2, 0, 0, 3, 4, 0, 0]


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_random_scatters(data: st.DataObject) -> None:
    rows, width, count = (data.draw(st.integers(1, 5)) for _ in range(3))
    oob, atomic = data.draw(st.sampled_from(SCATTER_POLICIES[1:])), data.draw(st.sampled_from(ATOMICS))
    lanes = torch.tensor(data.draw(st.lists(st.integers(-9, 9), min_size=count, max_size=count)))
    lanes = lanes.to(data.draw(st.sampled_from(INDEX_TYPES[:2])))
    number = st.sampled_from([0.0, -0.0, 1.0, -1.0, 0.1, float("inf"), float("nan")])
    table, src = (
        torch.tensor(data.draw(st.lists(number, min_size=n * width, max_size=n * width))).view(n, width)
        for n in (rows, count)
    )
    above = torch.randn(rows, width)
    mine, theirs = table.clone().requires_grad_(), src.clone().requires_grad_()
    found = pt.scatter(mine, theirs, lanes, oob=oob, atomic=atomic)
    found.backward(above)
    out, of_table, of_src = naive.scatter(table, src, lanes, above, "row", oob, atomic)
    assert torch.equal(found.isnan(), out.isnan()) and torch.equal(found.nan_to_num(), out.nan_to_num())
    assert torch.equal(mine.grad, of_table) and torch.equal(theirs.grad, of_src)


@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 1, 3), (3, 1), (1, 3, 1)])
@pytest.mark.parametrize("atomic", ["add", "none"])
def test_a_source_that_broadcasts_has_the_sum_in_order(shape: tuple[int, ...], atomic: str) -> None:
    src, full = torch.randn(shape, requires_grad=True), torch.randn(2, 3, 3)
    above = torch.randn(4, 3) * 1e3
    pt.scatter(TABLE, src, INSIDE, atomic=atomic).backward(above)
    _, _, of_full = naive.scatter(TABLE, src.detach().expand(full.shape), INSIDE, above, "row", "undefined", atomic)
    expected = torch.zeros(shape)
    steps = expected.expand(2, 3, 3).stride()
    flat = expected.reshape(-1)
    for at in torch.cartesian_prod(torch.arange(2), torch.arange(3), torch.arange(3)).tolist():
        flat[sum(k * step for k, step in zip(at, steps, strict=True))] += of_full[tuple(at)]
    assert bits(src.grad) == bits(flat.view(shape))


@pytest.mark.filterwarnings("ignore:Converting a tensor")  # of PyTorch, for one that requires grad
def test_numbers_and_lists() -> None:
    assert pt.scatter(TABLE, 7, [1, 2])[1:3].unique().tolist() == [7]
    assert pt.scatter(TABLE, 0.1, [1])[1, 0] == torch.tensor(0.1)
    assert torch.equal(pt.gather(TABLE, [2, 0]), TABLE[[2, 0]])
    followed, short = torch.tensor(1.0, requires_grad=True), torch.tensor(1, dtype=torch.bfloat16)
    for src in ([1, 2.5], (torch.tensor(1.0), 2.5), [followed, 2.5], [short, 2.5]):
        assert pt.scatter(torch.zeros(3), src, [2, 0]).tolist() == [2.5, 0, 1]
    assert pt.scatter(torch.zeros(3), [1.0], [2, 0]).tolist() == [1, 0, 1]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of PyTorch's rules for forward mode
def test_tangents_of_tables_are_not_taken_along() -> None:
    """A cell that a number is stored to loses its tangent."""
    forward = torch.autograd.forward_ad
    with forward.dual_level():
        table = forward.make_dual(torch.zeros(3), torch.ones(3))
        for _ in range(3):
            made = pt.scatter(table, torch.tensor([5.0]), torch.tensor([1]))
            assert made.tolist() == [0, 5, 0]
            assert forward.unpack_dual(made).tangent.tolist() == [1, 0, 1]


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float64, torch.complex64], ids=str)
def test_other_types_have_gradients(kind: torch.dtype) -> None:
    table = torch.zeros(2, dtype=kind, requires_grad=True)
    lanes = torch.zeros(4097, dtype=torch.int64)
    found = pt.gather(table, lanes)
    found.backward(torch.ones_like(found))
    assert table.grad.dtype is kind
    assert complex(table.grad[0]) == complex(torch.tensor(4097, dtype=torch.float32).to(kind))  # accumulated in float32


def test_integers_have_none() -> None:
    table = torch.arange(6).view(3, 2)
    assert pt.gather(table, torch.tensor([2])).tolist() == [[4, 5]]
    assert pt.scatter(table, 10, torch.tensor([2, 2]), atomic="add")[2].tolist() == [24, 25]


def test_an_index_outside_is_refused_at_the_users_line() -> None:
    for table in (TABLE, TABLE.clone().requires_grad_()):
        with pytest.raises(pto.OutOfBoundsError) as caught:
            pt.gather(table, torch.tensor([9]))
        (finding,) = caught.value.findings
        assert finding.where is not None and finding.where.file == __file__
    with pytest.raises(pto.VerifyError, match="wrap"):
        pt.gather(TABLE, torch.tensor([1]), oob="warp")


def test_what_was_saved_must_not_change() -> None:
    table, lanes = TABLE.clone().requires_grad_(), INSIDE.clone()
    found = pt.gather(table, lanes)
    lanes += 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        found.sum().backward()


# --- in place -------------------------------------------------------------------------------------------------------


def test_in_place() -> None:
    table = TABLE.clone()
    version = table._version
    assert pt.scatter_(table, 1.0, INSIDE, atomic="add") is table
    assert bits(table) == bits(pt.scatter(TABLE, 1.0, INSIDE, atomic="add"))
    assert table._version > version


def test_in_place_with_a_gradient() -> None:
    weight, src = TABLE.clone().requires_grad_(), torch.randn(2, 3, 3, requires_grad=True)
    twin, other = TABLE.clone().requires_grad_(), src.detach().clone().requires_grad_()
    with pytest.raises(RuntimeError, match="leaf Variable"):
        pt.scatter_(weight, 1.0, INSIDE)
    (pt.scatter_(weight * 2, src, INSIDE) ** 2).sum().backward()
    (pt.scatter(twin * 2, other, INSIDE) ** 2).sum().backward()
    assert bits(weight.grad) == bits(twin.grad) and bits(src.grad) == bits(other.grad)


# --- what PyTorch asks of operators -----------------------------------------------------------------------------------

CHECKS = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")


def samples() -> Iterator[tuple[str, Any, tuple[Any, ...], dict[str, Any]]]:
    table, src = torch.randn(4, 3, requires_grad=True), torch.randn(2, 3, 3, requires_grad=True)
    for oob in GATHER_POLICIES:
        yield f"gather {oob}", OPS.gather.default, (table, lanes_for(oob)), {"oob": oob}
    yield "gather elements", OPS.gather.default, (table, INSIDE.int()), {"coalesce": "elem"}
    for atomic in ATOMICS:
        given = {"oob": "skip", "atomic": atomic}
        yield f"scatter {atomic}", OPS.scatter.default, (table, src, OUTSIDE), given
        yield f"scatter_ {atomic}", OPS.scatter_.default, (table.detach(), src.detach(), OUTSIDE), given
    yield "scatter_zeros", OPS.scatter_zeros.default, (src, INSIDE, [4, 3]), {}
    yield (
        "scatter broadcast",
        OPS.scatter.default,
        (table, torch.randn(3, requires_grad=True), INSIDE),
        {"atomic": "add"},
    )
    lanes, bounds = INSIDE.view(-1), torch.tensor([0, 2, 2, 6])
    weights = torch.rand(6, requires_grad=True)
    for reduce in ("sum", "max", "min"):
        yield f"bag {reduce}", OPS.bag.default, (table, lanes, bounds, None, reduce, 3), {}
        yield f"segments {reduce}", OPS.bag.default, (table, None, torch.tensor([0, 1, 4]), None, reduce, -1), {}
    for reduce in ("mean", "max"):
        opened = table, lanes, bounds[:-1], None, reduce, 3
        yield f"bag {reduce}, open", OPS.bag.default, opened, {"closed": False}
    yield "bag, weights", OPS.bag.default, (table, lanes, bounds, weights, "sum", -1), {}


@pytest.mark.parametrize(("op", "args", "named"), [s[1:] for s in samples()], ids=[s[0] for s in samples()])
@pytest.mark.filterwarnings("ignore")
def test_opcheck(op: Any, args: tuple[Any, ...], named: dict[str, Any]) -> None:
    found = torch.library.opcheck(op, copy.deepcopy(args), named, test_utils=CHECKS)
    assert set(found.values()) == {"SUCCESS"}


DOUBLE = torch.randn(4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("oob", GATHER_POLICIES)
@pytest.mark.parametrize("call", [pt.gather, OPS.gather], ids=["eager", "dispatched"])
def test_gradcheck_of_gathers(call: Callable[..., Tensor], oob: str) -> None:
    table = DOUBLE.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda t: call(t, lanes_for(oob), oob=oob), (table,))
    assert torch.autograd.gradgradcheck(lambda t: call(t, lanes_for(oob), oob=oob), (table,))


@pytest.mark.parametrize("atomic", ATOMICS)
@pytest.mark.parametrize("oob", ["skip", "wrap"])
@pytest.mark.parametrize("call", [pt.scatter, OPS.scatter], ids=["eager", "dispatched"])
def test_gradcheck_of_scatters(call: Callable[..., Tensor], oob: str, atomic: str) -> None:
    table, src = DOUBLE.clone().requires_grad_(), torch.randn(2, 3, 3, dtype=torch.float64, requires_grad=True)

    def scattered(table: Tensor, src: Tensor) -> Tensor:
        return call(table, src, OUTSIDE, oob=oob, atomic=atomic)

    assert torch.autograd.gradcheck(scattered, (table, src))
    assert torch.autograd.gradgradcheck(scattered, (table, src))


# --- transforms -----------------------------------------------------------------------------------------------------


def model(table: Tensor, src: Tensor, lanes: Tensor) -> Tensor:
    """All operators in one expression."""
    table = pt.scatter(table * 2, src, lanes, oob="skip", atomic="add")
    table = pt.scatter(table, src + 1, lanes, oob="clamp", atomic="max")
    table = pt.scatter(table, src * 3, lanes, oob="wrap")
    table = pt.scatter_(table.clone(), src, lanes, oob="wrap", atomic="min")
    bags = pt.embedding_bag(lanes.abs() % 4, table, mode="mean")
    return (
        pt.gather(table, lanes, oob="zero").square().sum()
        + bags.sum()
        + pt.segment_max(table, lengths=torch.tensor([1, 3])).sum()
    )


def inputs(seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    made = torch.Generator().manual_seed(seed)
    return torch.randn(4, 3, generator=made), torch.randn(2, 3, 3, generator=made), OUTSIDE


def test_compile_in_one_graph() -> None:
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    for seed in range(2):
        table, src, lanes = inputs(seed)
        found = []
        for call in (model, compiled):
            mine, theirs = table.clone().requires_grad_(), src.clone().requires_grad_()
            loss = call(mine, theirs, lanes)
            loss.backward()
            found.append([*map(bits, (loss, mine.grad, theirs.grad))])
        assert found[0] == found[1]


def test_compile_with_changing_shapes() -> None:
    compiled = torch.compile(lambda t, i: pt.gather(t, i, oob="clamp") * 2, fullgraph=True, backend="aot_eager")
    for rows, count in ((3, 5), (7, 2), (9, 11)):
        table, lanes = torch.randn(rows, 4), torch.randint(-3, 12, (count,))
        assert bits(compiled(table, lanes)) == bits(pt.gather(table, lanes, oob="clamp") * 2)


class Exported(torch.nn.Module):
    def forward(self, table: Tensor, src: Tensor, lanes: Tensor) -> Tensor:
        return model(table, src, lanes)


@pytest.mark.filterwarnings("ignore")
def test_export() -> None:
    program = torch.export.export(Exported(), inputs())
    names = {str(node.target) for node in program.graph.nodes if node.op == "call_function"}
    assert {"ptokit.gather.default", "ptokit.scatter.default", "ptokit.bag.default"} <= names
    assert bits(program.module()(*inputs(3))) == bits(model(*inputs(3)))


def test_functional_gradients() -> None:
    table, src, lanes = inputs()
    found = torch.func.grad(model, argnums=(0, 1))(table, src, lanes)
    mine, theirs = table.clone().requires_grad_(), src.clone().requires_grad_()
    model(mine, theirs, lanes).backward()
    assert bits(found[0]) == bits(mine.grad) and bits(found[1]) == bits(theirs.grad)


@pytest.mark.parametrize("coalesce", ["row", "elem"])
@pytest.mark.parametrize("oob", ["undefined", *GATHER_POLICIES[1:]])
@pytest.mark.parametrize("dims", [(0, None), (None, 0), (0, 0), (1, 1), (None, 1)])
def test_vmap_of_gathers(dims: tuple[int | None, ...], oob: str, coalesce: str) -> None:
    table, lanes = (
        torch.randn(5, 4, 3),
        torch.randint(0, 4, (5, 6)).to(torch.int32 if coalesce == "row" else torch.int64),
    )
    if oob != "undefined":
        lanes = lanes * 3 - 2
    batched = [each if at is None else each.movedim(0, at) for each, at in zip((table, lanes), dims, strict=True)]
    batched = [each[0] if at is None else each for each, at in zip(batched, dims, strict=True)]
    found = torch.vmap(lambda t, i: pt.gather(t, i, coalesce=coalesce, oob=oob), dims)(*batched)
    one = [
        pt.gather(table[0 if dims[0] is None else k], lanes[0 if dims[1] is None else k], coalesce=coalesce, oob=oob)
        for k in range(5)
    ]
    assert bits(found) == bits(torch.stack(one))


@pytest.mark.parametrize("atomic", ["none", "add", "max"])
@pytest.mark.parametrize("oob", ["undefined", "skip", "wrap"])
@pytest.mark.parametrize("dims", [(0, 0, 0), (None, 0, 0), (0, None, 0), (0, 0, None), (None, None, 0), (0, 1, 1)])
def test_vmap_of_scatters(dims: tuple[int | None, ...], oob: str, atomic: str) -> None:
    lanes = torch.randint(0, 4, (5, 6)) if oob == "undefined" else torch.randint(-9, 9, (5, 6))
    whole = torch.randn(5, 4, 3), torch.randn(5, 6, 3), lanes
    given = [each[0] if at is None else each.movedim(0, at) for each, at in zip(whole, dims, strict=True)]
    found = torch.vmap(lambda t, s, i: pt.scatter(t, s, i, oob=oob, atomic=atomic), dims)(*given)
    one = [
        pt.scatter(
            *(each[0 if at is None else k] for each, at in zip(whole, dims, strict=True)), oob=oob, atomic=atomic
        )
        for k in range(5)
    ]
    assert bits(found) == bits(torch.stack(one))


def test_vmap_refuses_what_is_outside_of_one_table() -> None:
    with pytest.raises(pto.OutOfBoundsError):
        torch.vmap(pt.gather)(torch.randn(5, 4, 3), torch.full((5, 2), 4))


def test_vmap_of_a_table_that_all_write_to_is_refused() -> None:
    with pytest.raises(RuntimeError, match="use scatter"):
        torch.vmap(lambda i: pt.scatter_(TABLE.clone(), 1.0, i), 0)(INSIDE)
    tables = TABLE.expand(2, 4, 3).clone()
    expected = torch.stack([pt.scatter(t, 1.0, i) for t, i in zip(tables, INSIDE, strict=True)])
    torch.vmap(lambda t, i: pt.scatter_(t, 1.0, i))(tables, INSIDE)
    assert bits(tables) == bits(expected)


@pytest.mark.parametrize("dims", [(0, None), (None, 0), (0, 0)])
def test_vmap_of_the_operators_themselves(dims: tuple[int | None, ...]) -> None:
    whole = torch.randn(5, 4, 3), torch.randint(0, 4, (5, 6))
    given = [each[0] if at is None else each for each, at in zip(whole, dims, strict=True)]
    assert bits(torch.vmap(OPS.gather, dims)(*given)) == bits(torch.vmap(pt.gather, dims)(*given))
    bounds = torch.tensor([0, 2, 6])

    for closed in (True, False):

        def bag(table: Tensor, lanes: Tensor, closed: bool = closed) -> Tensor:
            return OPS.bag(table, lanes, bounds if closed else bounds[:-1], None, "max", -1, closed=closed)[0]

        one = [bag(*(t[0 if at is None else k] for t, at in zip(whole, dims, strict=True))) for k in range(5)]
        assert bits(torch.vmap(bag, dims)(*given)) == bits(torch.stack(one))


def test_gradients_of_each_sample() -> None:
    table, lanes = torch.randn(4, 3), torch.randint(0, 4, (5, 2))

    def loss(table: Tensor, lanes: Tensor) -> Tensor:
        return pt.gather(table, lanes).square().sum()

    found = torch.vmap(torch.func.grad(loss), (None, 0))(table, lanes)
    assert bits(found) == bits(torch.stack([torch.func.grad(loss)(table, each) for each in lanes]))


def test_autocast_keeps_the_tables_type() -> None:
    table, src = TABLE.clone().requires_grad_(), torch.randn(6, 3, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        product = src @ torch.eye(3)
        assert product.dtype is torch.bfloat16
        found = pt.scatter(table, product, INSIDE.view(-1), atomic="add")
        assert found.dtype is torch.float32 and pt.gather(table, INSIDE).dtype is torch.float32
    found.sum().backward()
    assert src.grad.dtype is torch.float32 and (src.grad == 1).all()
    with pytest.raises(pto.VerifyError, match="element type"):
        pt.scatter(table, product, INSIDE.view(-1))


def test_gradients_of_one_index_and_of_values_that_are_conjugated_lazily() -> None:
    for reduce in ("none", "add", "max", "min", "mul", "mean"):
        table, src = torch.tensor([1.0, 2.0, 3.0], requires_grad=True), torch.tensor(5.0, requires_grad=True)
        pt.scatter(table, src, 1, reduce=reduce).backward(torch.tensor([1.0, 10.0, 100.0]))
        of_cell, of_src = {"none": (0, 10), "add": (10, 10), "max": (0, 10), "min": (10, 0), "mul": (50, 20)}.get(
            reduce, (5, 5)
        )
        assert table.grad is not None and src.grad is not None
        assert table.grad.tolist() == [1, of_cell, 100] and src.grad == of_src, reduce
    numbers = torch.randn(3, 4, dtype=torch.complex64)
    found = []
    for gather in (lambda t: pt.gather(t, torch.tensor([2, 0, 2])), lambda t: t[[2, 0, 2]]):
        leaf = numbers.clone().requires_grad_()
        (gather(leaf).conj() * torch.arange(4)).real.sum().backward()
        found.append(leaf.grad)
    assert torch.equal(*found)


def test_options_that_cannot_be_compared_are_refused_as_others() -> None:
    pt.gather(TABLE_OF_ONES, torch.tensor([0]))
    with pytest.raises(ValueError, match="oob"):
        pt.gather(TABLE_OF_ONES, torch.tensor([0]), oob=["clamp"])  # type: ignore[arg-type]


TABLE_OF_ONES = torch.ones(3, 2)


# --- the same bits --------------------------------------------------------------------------------------------------


def test_any_number_of_threads_gives_the_same_bits() -> None:
    table, lanes = torch.randn(3000, 33), torch.randint(0, 3000, (50_000,)).square() % 3000
    above, found = torch.randn(50_000, 33), []
    for threads in (1, 2, 16):
        mine, src = table.clone().requires_grad_(), above.clone().requires_grad_()
        rows = pt.gather(mine, lanes, threads=threads)
        sums = pt.scatter(mine, src, lanes, atomic="add", threads=threads)
        (rows * above).sum().backward()
        (sums * sums).sum().backward()
        found.append([*map(bits, (rows, sums, mine.grad, src.grad))])
    assert found[0] == found[1] == found[2]


def test_deterministic_mode_is_satisfied() -> None:
    torch.use_deterministic_algorithms(True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            table, src, lanes = inputs()
            model(table.requires_grad_(), src.requires_grad_(), lanes).backward()
    finally:
        torch.use_deterministic_algorithms(False)


def test_a_number_is_rounded_once_or_refused() -> None:
    narrow = torch.zeros(1, dtype=torch.bfloat16)
    assert pt.scatter(narrow, 1 + 2**-8 + 2**-40, [0]).item() == 1 + 2**-7
    assert pt.scatter(narrow, [1 + 2**-8 + 2**-40], [0]).item() == 1 + 2**-7
    for kind, number in ((torch.float16, 1e6), (torch.int32, 1.5), (torch.int8, 1000)):
        with pytest.raises(ValueError, match="is not representable"):
            pt.scatter(torch.zeros(1, dtype=kind), number, [0])
        with pytest.raises(ValueError, match="is not representable"):
            pt.scatter_(torch.zeros(1, dtype=kind), [number], [0])


@pytest.mark.parametrize("kind", [torch.int8, torch.int16, torch.int64])
def test_batches_of_short_indices_have_a_sign(kind: torch.dtype) -> None:
    table, lanes = torch.arange(5.0), torch.tensor([-1, 7, 2]).to(kind)
    batched = torch.vmap(lambda mine: pt.gather(mine, lanes, oob="clamp"))(table[None])
    assert batched[0].tolist() == pto.gather(table, lanes, oob="clamp").tolist() == [0.0, 4.0, 2.0]
    assert pt.gather(table, []).shape == (0,)
