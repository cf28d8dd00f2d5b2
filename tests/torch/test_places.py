"""Under `torch.compile`, a finding is at the line that calls the compiled code, not at one that torch wrote."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

import ptokit as pto
import ptokit.torch as pt
from ptokit.lang.faults import raised_in_user_code

TABLE = torch.arange(40.0).reshape(10, 4)


class Model(torch.nn.Module):
    def forward(self, table: Any, lanes: Any) -> Any:
        doubled = lanes * 2
        return pt.gather(table, doubled).sum()


def broken(table: Any, lanes: Any) -> Any:
    doubled = lanes * 2
    torch._dynamo.graph_break()
    return pt.gather(table, doubled).sum()


def line_here(offset: int = 0) -> str:
    """The line of the call of this function, and the file."""
    import sys

    return f"{__file__}:{sys._getframe(1).f_lineno + offset}"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch's own modules
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("made", [Model, lambda: broken], ids=["module", "graph break"])
def test_an_error_is_at_the_call_of_the_model(made: Callable[[], Any], backend: str) -> None:
    torch.compiler.reset()
    compiled = torch.compile(made(), backend=backend)
    table = TABLE.clone().requires_grad_()
    assert compiled(table, torch.tensor([1, 4])) == TABLE[[2, 8]].sum()
    with pytest.raises(pto.OutOfBoundsError) as caught:
        compiled(table, torch.tensor([1, 5]))
    assert str(caught.value.findings[0].where) == line_here(-1)
    assert str(raised_in_user_code(caught.value)) == line_here(-2)


def test_a_warning_is_at_the_call_of_the_model() -> None:
    torch.compiler.reset()
    compiled = torch.compile(lambda t, i: pt.gather(t, i, oob="clamp"), backend="aot_eager")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        compiled(TABLE, torch.tensor([-1], dtype=torch.int32))
        expected = line_here(-1)
    (found,) = (each for each in caught if each.category is pto.HazardWarning)
    assert f"{found.filename}:{found.lineno}" == expected


def test_an_exported_model() -> None:
    exported = torch.export.export(Model(), (TABLE, torch.tensor([1, 4]))).module()
    with pytest.raises(pto.OutOfBoundsError) as caught:
        exported(TABLE, torch.tensor([1, 5]))
    assert str(caught.value.findings[0].where) == line_here(-1)


def test_without_torch_compile_it_is_the_line_of_the_operator() -> None:
    with pytest.raises(pto.OutOfBoundsError) as caught:
        Model()(TABLE, torch.tensor([1, 5]))
    assert str(caught.value.findings[0].where) == f"{__file__}:{Model.forward.__code__.co_firstlineno + 2}"
