"""Forward-mode differentiation: tangents of gathers and sums, and no tangent that is lost without a word."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad

import ptokit.torch as pt
from tests.torch.naive import bits

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # PyTorch uses it here itself
MADE = torch.Generator().manual_seed(0)
TABLE, SRC = torch.randn(6, 3, generator=MADE), torch.randn(8, 3, generator=MADE)
LANES = torch.tensor([5, 0, 2, 2, 5, 5, 1, 0])
OF_TABLE, OF_SRC = torch.randn(6, 3, generator=MADE), torch.randn(8, 3, generator=MADE)
FAR = torch.tensor([5, -1, 2, 7, 5, 5, 1, 0])

LINEAR: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "gather": lambda table, _: pt.gather(table, LANES),
    "gather elements": lambda table, _: pt.gather(table, LANES, coalesce="elem"),
    "gather, zero": lambda table, _: pt.gather(table, FAR, oob="zero"),
    "gather, wrap": lambda table, _: pt.gather(table, FAR, oob="wrap"),
    "gather, axis": lambda table, _: pt.gather(table, LANES[2:4], axis=1),
    "embedding": lambda table, _: pt.embedding(LANES, table),
    "scatter add": lambda table, src: pt.scatter(table, src, LANES, atomic="add"),
    "scatter add, skip": lambda table, src: pt.scatter(table, src, FAR, atomic="add", oob="skip"),
    "scatter add of a number": lambda table, src: pt.scatter(table, src[0, 0], LANES, atomic="add"),
    "scatter": lambda table, src: pt.scatter(table, src, LANES),
    "bags": lambda table, _: pt.embedding_bag(LANES, table, torch.tensor([0, 3, 3]), mode="sum"),
    "means": lambda table, _: pt.embedding_bag(LANES.view(2, 4), table, padding_idx=2),
    "segment sum": lambda _, src: pt.segment_sum(src, segment_ids=LANES, num_segments=6),
}
"""All are linear, so the tangent of a result is the function of the tangents."""


def dual(call: Callable[..., Tensor], *pairs: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor | None]:
    with forward_ad.dual_level():
        made = forward_ad.unpack_dual(call(*(forward_ad.make_dual(*each) for each in pairs)))
        return made.primal.clone(), None if made.tangent is None else made.tangent.clone()


@pytest.mark.parametrize("name", LINEAR)
def test_tangents_of_linear_calls(name: str) -> None:
    call = LINEAR[name]
    for _ in range(2):  # repeated calls, too
        value, tangent = dual(call, (TABLE, OF_TABLE), (SRC, OF_SRC))
        assert bits(value) == bits(call(TABLE, SRC))
        assert tangent is not None
        assert bits(tangent) == bits(call(OF_TABLE, OF_SRC))
    value, tangent = torch.func.jvp(call, (TABLE, SRC), (OF_TABLE, OF_SRC))
    assert bits(value) == bits(call(TABLE, SRC))
    assert bits(tangent) == bits(call(OF_TABLE, OF_SRC))


def test_tangents_of_one_operand() -> None:
    found = dual(lambda table: pt.scatter(table, SRC, LANES, atomic="add"), (TABLE, OF_TABLE))[1]
    assert found is not None
    assert bits(found) == bits(OF_TABLE)
    found = dual(lambda src: pt.scatter(TABLE, src, LANES, atomic="add"), (SRC, OF_SRC))[1]
    assert found is not None
    assert bits(found) == bits(pt.scatter(torch.zeros(6, 3), OF_SRC, LANES, atomic="add"))


def test_in_place() -> None:
    def add(table: Tensor) -> Tensor:
        return pt.scatter_(table * 1, SRC, LANES, atomic="add")

    found = dual(add, (TABLE, OF_TABLE))[1]
    assert found is not None
    assert bits(found) == bits(OF_TABLE)


def test_modes_can_be_nested() -> None:
    """Jacobians by columns and by rows, and a Hessian by columns of rows."""

    def loss(table: Tensor) -> Tensor:
        return (pt.gather(table, LANES) ** 3).sum()

    table = TABLE.double()
    forward, reverse = torch.func.jacfwd(loss)(table), torch.func.jacrev(loss)(table)
    torch.testing.assert_close(forward, reverse)
    counts = torch.bincount(LANES, minlength=6).double()[:, None].expand(6, 3)
    expected = torch.diag((6 * counts * table).flatten()).view(6, 3, 6, 3)
    torch.testing.assert_close(torch.func.jacfwd(torch.func.jacrev(loss))(table), expected)


OTHERS: dict[str, Callable[[Tensor], Any]] = {
    "max": lambda table: pt.scatter(table, SRC, LANES, atomic="max"),
    "product": lambda table: pt.scatter(table, SRC, LANES, reduce="mul"),
    "bag": lambda table: pt.embedding_bag(LANES, table, torch.tensor([0, 3]), mode="max"),
    "weights": lambda table: pt.embedding_bag(
        LANES[None, :6], TABLE, mode="sum", per_sample_weights=table.flatten()[None, :6]
    ),
    "sparse": lambda table: pt.embedding(LANES, table.requires_grad_(), sparse=True),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_has_no_tangent_is_refused(name: str) -> None:
    with pytest.raises((NotImplementedError, RuntimeError), match=r"forward-mode|forward AD|jvp"):
        dual(OTHERS[name], (TABLE.clone(), OF_TABLE))
