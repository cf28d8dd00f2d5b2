"""`ptokit.torch` on a GPU: the bits of the CPU, forward and backward; PyTorch's own operators have others."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import pytest
import torch

import ptokit as pto
import ptokit.torch as pt
from tests.torch.naive import ATOMICS, GATHER_POLICIES, SCATTER_POLICIES, bits
from tests.torch.test_forms import REDUCTIONS
from tests.torch.test_forms import samples as samples_of_forms
from tests.torch.test_indexed import CHECKS, samples
from tests.torch.towers import trained

MADE = torch.Generator().manual_seed(0)
TABLE, SRC = torch.randn(2000, 48, generator=MADE), torch.randn(30_000, 48, generator=MADE)
SKEWED = (torch.rand(30_000, generator=MADE).pow(3) * 2000).long()
OUTSIDE = torch.where(torch.rand(30_000, generator=MADE) < 0.1, SKEWED * 3 - 3000, SKEWED)


def both(call: Any, *tensors: Any) -> list[Any]:
    """The bits of the result and of all gradients, on each device."""
    found = []
    for device in ("cpu", "cuda"):
        given = [t.detach().to(device).requires_grad_(t.is_floating_point()) for t in tensors]
        made = call(*given)
        above = torch.randn(made.shape, generator=torch.Generator().manual_seed(1)).to(made)
        made.backward(above)
        found.append([bits(made), *(bits(each.grad) for each in given if each.requires_grad)])
    return found


@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("oob", GATHER_POLICIES)
def test_gathers(oob: str, kind: torch.dtype) -> None:
    lanes = SKEWED if oob == "undefined" else OUTSIDE
    cpu, gpu = both(lambda t, i: pt.gather(t, i, oob=oob), TABLE.to(kind), lanes)
    assert cpu == gpu


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("oob", SCATTER_POLICIES)
@pytest.mark.parametrize("atomic", ATOMICS)
def test_scatters(atomic: str, oob: str, kind: torch.dtype) -> None:
    lanes = SKEWED if oob == "undefined" else OUTSIDE
    cpu, gpu = both(lambda t, s, i: pt.scatter(t, s, i, oob=oob, atomic=atomic), TABLE.to(kind), SRC.to(kind), lanes)
    assert cpu == gpu


@pytest.mark.parametrize("mode", ["wrap", "clip", "fill", "negative"])
@pytest.mark.parametrize("axis", [0, 1])
def test_gathers_along_an_axis(axis: int, mode: str) -> None:
    table, lanes = TABLE if axis == 0 else TABLE.t(), OUTSIDE[:3000] if mode != "negative" else SKEWED[:3000] - 2000
    for kind in (torch.int64, torch.int32):
        cpu, gpu = both(lambda t, i: pt.gather(t, i, axis=axis, mode=mode), table, lanes.to(kind))
        assert cpu == gpu


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", REDUCTIONS)
@pytest.mark.parametrize("axis", [0, 1])
def test_reductions(axis: int, reduce: str, include_self: bool, kind: torch.dtype) -> None:
    table, src = (each.to(kind) if axis == 0 else each.to(kind).t() for each in (TABLE, SRC[:3000]))
    form: dict[str, Any] = {"axis": axis, "mode": "drop", "reduce": reduce, "include_self": include_self}
    cpu, gpu = both(lambda t, s, i: pt.scatter(t, s, i, **form), table, src, OUTSIDE[:3000])
    assert cpu == gpu


def test_an_index_outside_along_an_axis_is_refused() -> None:
    with pytest.raises(pto.OutOfBoundsError, match=r"gather: indices\[1\] = 99 is outside the capacity of 48"):
        pt.gather(TABLE.cuda(), torch.tensor([1, 99]).cuda(), axis=1)


@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("mode", ["sum", "mean", "max", "min", "weights"])
def test_bags(mode: str, kind: torch.dtype) -> None:
    lanes, table = SKEWED.view(-1, 20), TABLE.to(kind)
    if mode == "weights":
        weights = torch.rand(lanes.shape, generator=torch.Generator().manual_seed(2)).to(kind)
        cpu, gpu = both(lambda t, i, w: pt.embedding_bag(i, t, mode="sum", per_sample_weights=w), table, lanes, weights)
    else:
        cpu, gpu = both(lambda t, i: pt.embedding_bag(i, t, mode=mode, padding_idx=3), table, lanes)
    assert cpu == gpu


@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min"])
def test_segments(reduce: str) -> None:
    lengths = torch.tensor([10_000, 0, 1, 19_999])
    cpu, gpu = both(lambda v, n: pt.segment_reduce(v, reduce, lengths=n), SRC, lengths)
    assert cpu == gpu
    cpu, gpu = both(lambda v, i: pt.segment_reduce(v, reduce, segment_ids=i, num_segments=2000), SRC, SKEWED)
    assert cpu == gpu


def test_an_index_outside_is_refused() -> None:
    table, lanes = TABLE.cuda(), torch.tensor([1, 9999]).cuda()
    with pytest.raises(pto.OutOfBoundsError, match=r"indices\[1\] = 9999"):
        pt.gather(table, lanes)
    with pytest.raises(pto.OutOfBoundsError, match=r"indices\[1\] = 9999"):
        pt.embedding_bag(lanes, table, torch.tensor([0]).cuda())


def test_another_stream() -> None:
    table, lanes = TABLE.cuda(), SKEWED.cuda()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        found = pt.embedding_bag(lanes.view(-1, 20), table * 2, mode="sum")
    torch.cuda.current_stream().wait_stream(stream)
    assert bits(found) == bits(pt.embedding_bag(SKEWED.view(-1, 20), TABLE * 2, mode="sum"))


SAMPLES = [each for each in samples() if each[0] in ("gather zero", "scatter add", "scatter_ none", "bag max")]
SAMPLES += [each for each in samples_of_forms() if each[0] in ("mul True", "mean False", "max_", "entries")]


@pytest.mark.parametrize(("op", "args", "named"), [s[1:] for s in SAMPLES], ids=[s[0] for s in SAMPLES])
@pytest.mark.filterwarnings("ignore")
def test_opcheck(op: Any, args: tuple[Any, ...], named: dict[str, Any]) -> None:
    there = [
        a.detach().cuda().requires_grad_(a.requires_grad) if isinstance(a, torch.Tensor) else a
        for a in copy.deepcopy(args)
    ]
    assert set(torch.library.opcheck(op, there, named, test_utils=CHECKS).values()) == {"SUCCESS"}


def test_compile() -> None:
    table, lanes = TABLE.cuda(), SKEWED.cuda()
    compiled = torch.compile(lambda t, i: pt.gather(t, i).relu(), fullgraph=True, backend="aot_eager")
    assert bits(compiled(table, lanes)) == bits(TABLE[SKEWED].relu())


def test_deterministic_mode() -> None:
    torch.use_deterministic_algorithms(True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            test_bags("weights", torch.float32)
            test_bags("max", torch.float32)
            test_segments("mean")
            for atomic in ATOMICS:
                test_scatters(atomic, "skip", torch.float32)
    finally:
        torch.use_deterministic_algorithms(False)


def test_a_recommender_ends_with_the_bits_of_the_cpu() -> None:
    assert trained(device="cpu") == trained(device="cuda") == trained(device="cuda")


def test_with_the_operators_of_pytorch_it_does_not() -> None:
    """Its weights differ from those of the CPU, or from run to run."""
    first, second = (trained(device="cuda", library=torch.nn) for _ in range(2))
    assert first != second or first != trained(device="cpu", library=torch.nn)


def test_a_sum_of_pytorch_differs_from_run_to_run() -> None:
    lanes = torch.zeros(1_000_000, dtype=torch.int64, device="cuda")
    src = torch.randn(1_000_000, 4, device="cuda")
    theirs = {str(bits(torch.zeros(1, 4, device="cuda").index_add_(0, lanes, src))) for _ in range(10)}
    ours = {str(bits(pt.scatter(torch.zeros(1, 4, device="cuda"), src, lanes, atomic="add"))) for _ in range(3)}
    assert len(theirs) > 1 and len(ours) == 1
