"""`ptokit.torch` on a GPU: the bits of the CPU, forward and backward; PyTorch's own operators have others."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import cupy
import pytest
import torch

import ptokit as pto
import ptokit.torch as pt
from ptokit.engine.bag_arguments import BagGradients
from ptokit.lang.gpu import new_tensor
from ptokit.torch import bag_gradients, bag_kernel
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


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.int32], ids=str)
@pytest.mark.parametrize("atomic", ATOMICS)
@pytest.mark.parametrize("rows", [300, 2000, 2_000_000])
def test_scatters_into_new_tables_that_are_repeated(rows: int, atomic: str, kind: torch.dtype) -> None:
    rng = torch.Generator().manual_seed(rows)
    for k in range(3):
        table, src = (torch.randn(n, 8, generator=rng).mul(50).to(kind) for n in (rows, 5000))
        table = table.t().contiguous().t() if k == 2 else table
        lanes = torch.randint(0, rows // (k + 1), (5000,), generator=rng)
        wanted = pt.scatter(table, src, lanes, atomic=atomic)
        there = table.cuda(), src.cuda(), lanes.cuda()
        made = pt.scatter(*there, atomic=atomic)
        with pytest.raises(pto.OutOfBoundsError, match=r"indices\[7\]"):
            pt.scatter(*there[:2], lanes.index_fill(0, torch.tensor(7), rows).cuda(), atomic=atomic)
        assert bits(made) == bits(wanted)
        assert bits(there[0]) == bits(table)


@pytest.mark.parametrize("rows", [300, 2000, 2_000_000])
def test_gradients_of_gathers_that_are_repeated(rows: int) -> None:
    rng = torch.Generator().manual_seed(rows)
    for k in range(4):
        table, lanes = torch.randn(rows, 8, generator=rng), torch.randint(0, rows // (k + 1), (5000,), generator=rng)
        torch.full((rows, 8), torch.nan, device="cuda")  # memory that is used again
        cpu, gpu = both(lambda t, i: pt.gather(t, i), table, lanes)
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


def bag_calls(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The addresses of calls by the short path on a GPU from now on; None for each that took the long way after all."""
    calls: list[Any] = []
    own = bag_kernel.prepared_bags

    def watched(engine: str, kind: Any, gpu: int | None) -> Any:
        ready = own(engine, kind, gpu)

        def run(*given: Any) -> bool:
            is_done = ready(*given)
            if gpu is not None:
                calls.append(given[0] if is_done else None)
            return is_done

        return run

    monkeypatch.setattr(bag_kernel, "PLANS", {})
    monkeypatch.setattr(bag_kernel, "prepared_bags", watched)
    return calls


@pytest.mark.parametrize("given", [{}, {"padding_idx": 3}, {"last": True}, {"weights": True}], ids=str)
@pytest.mark.parametrize("mode", ["sum", "mean", "max", "min"])
def test_bags_that_are_repeated(mode: str, given: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    calls, offsets = bag_calls(monkeypatch), torch.arange(0, 30_000, 20)
    offsets = torch.cat([offsets, torch.tensor([30_000])]) if "last" in given else offsets
    weights = torch.rand(30_000, generator=torch.Generator().manual_seed(2)) if "weights" in given else None
    mode = "sum" if weights is not None else mode
    options: dict[str, Any] = {
        "mode": mode,
        "padding_idx": given.get("padding_idx"),
        "include_last_offset": "last" in given,
    }

    def call(device: str, table: torch.Tensor) -> Any:
        mine = table.to(device).requires_grad_()
        theirs = None if weights is None else weights.to(device)
        found = pt.embedding_bag(SKEWED.to(device), mine, offsets.to(device), per_sample_weights=theirs, **options)
        found.backward(torch.ones_like(found))
        with torch.no_grad():
            again = pt.embedding_bag(SKEWED.to(device), mine, offsets.to(device), per_sample_weights=theirs, **options)
        assert bits(again) == bits(found)
        return bits(found), bits(mine.grad)

    for k in range(3):
        assert call("cuda", TABLE * (k + 1)) == call("cpu", TABLE * (k + 1))
    assert len(calls) == 6 and None not in calls


@pytest.mark.parametrize("mode", ["sum", "max"])
def test_repeated_bags_of_any_alignment(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table of 48 columns that begins 4, 8, 12 or 16 bytes behind aligned memory."""
    calls, memory = bag_calls(monkeypatch), torch.zeros(TABLE.numel() + 4, device="cuda")
    for skipped in (0, 1, 2, 3, 4, 1):
        table = memory[skipped : skipped + TABLE.numel()].view(TABLE.shape)
        table.copy_(TABLE * (skipped + 1))
        found = pt.embedding_bag(SKEWED.cuda().view(-1, 20), table, mode=mode)
        assert bits(found) == bits(pt.embedding_bag(SKEWED.view(-1, 20), TABLE * (skipped + 1), mode=mode))
    assert len(calls) == 6 and None not in calls


def test_repeated_bags_refuse_indices(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, table, lanes = bag_calls(monkeypatch), TABLE.cuda(), SKEWED[:400].cuda()
    offsets = torch.arange(0, 400, 20).cuda()
    for _ in range(3):
        found = pt.embedding_bag(lanes, table, offsets, mode="sum")
        assert bits(found) == bits(pt.embedding_bag(SKEWED[:400], TABLE, offsets.cpu(), mode="sum"))
        for bad in (2000, -1, 1 << 40):
            wrong = lanes.clone()
            wrong[77] = bad
            with pytest.raises(pto.OutOfBoundsError, match=rf"input\[77\] = {bad}"):
                pt.embedding_bag(wrong, table, offsets, mode="sum")
    assert None in calls


def test_repeated_bags_on_other_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work that goes to another stream than CuPy's takes the long way, which waits for the right one."""
    calls, lanes = bag_calls(monkeypatch), SKEWED.cuda().view(-1, 20)
    expected = [bits(pt.embedding_bag(SKEWED.view(-1, 20), TABLE * k, mode="sum")) for k in range(4)]
    streams = [torch.cuda.current_stream(), torch.cuda.Stream(), torch.cuda.Stream()]
    torch.cuda.synchronize()
    for _ in range(2):
        for k, stream in enumerate(streams):
            with torch.cuda.stream(stream):
                table = torch.empty_like(TABLE, device="cuda")
                torch.cuda._sleep(10_000_000)
                table.copy_(TABLE.cuda() * k)
                found = pt.embedding_bag(lanes, table, mode="sum") * 1
                stream.synchronize()
                assert bits(found) == expected[k]
    assert None not in calls
    calls.clear()
    own = cupy.cuda.Stream(non_blocking=True)  # both libraries use it: the short path
    with own, torch.cuda.stream(torch.cuda.ExternalStream(own.ptr)):
        table = TABLE.cuda() * 3
        found = pt.embedding_bag(lanes, table, mode="sum")
        own.synchronize()
    assert bits(found) == expected[3] and calls and None not in calls


def test_repeated_bags_on_other_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("there is one GPU")
    calls = bag_calls(monkeypatch)
    expected = bits(pt.embedding_bag(SKEWED.view(-1, 20), TABLE, mode="sum"))
    for _ in range(2):
        for number in (0, 1):
            there = torch.device("cuda", number)
            for current in (0, 1):
                with torch.cuda.device(current):
                    found = pt.embedding_bag(SKEWED.to(there).view(-1, 20), TABLE.to(there), mode="sum")
                    assert found.device == there and bits(found) == expected
    assert calls and any(each is not None for each in calls)


def test_bags_of_the_host_on_the_engine_of_the_gpu() -> None:
    found = pt.embedding_bag(SKEWED.view(-1, 20), TABLE, mode="sum", engine="cuda")
    assert bits(found) == bits(pt.embedding_bag(SKEWED.view(-1, 20), TABLE, mode="sum"))


def test_no_bags_on_a_gpu() -> None:
    none = torch.zeros(0, dtype=torch.int64, device="cuda")
    assert pt.embedding_bag(none, TABLE.cuda(), none).shape == (0, 48)
    assert pt.embedding_bag(
        SKEWED.cuda(), TABLE.cuda(), none.new_full((1,), 30_000), include_last_offset=True
    ).shape == (0, 48)
    with pytest.raises(ValueError, match="offsets begin with 0"):
        pt.embedding_bag(SKEWED.cuda(), TABLE.cuda(), none)


@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min"])
def test_segments_that_are_repeated(reduce: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls, lengths = bag_calls(monkeypatch), torch.tensor([10_000, 0, 1, 19_999, 0])
    for k in range(3):
        cpu, gpu = both(lambda v, n: pt.segment_reduce(v, reduce, lengths=n), SRC * (k + 1), lengths)
        assert cpu == gpu
    assert len(calls) == 3 and None not in calls


@pytest.fixture
def gradients(monkeypatch: pytest.MonkeyPatch) -> list[BagGradients]:
    """The calls that pass gradients of bags to the rows of a table."""
    made, find = list[BagGradients](), bag_gradients.bag_gradients

    def found(engine: str) -> Any:
        run = find(engine)
        return run and (lambda given: (made.append(given), run(given)))

    monkeypatch.setattr(bag_gradients, "bag_gradients", found)
    return made


STARTS = torch.randint(0, 30_000, (1500,), generator=MADE).sort().values.index_fill(0, torch.tensor([0]), 0)
"""Where bags begin, some of them empty."""


@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("mode", ["sum", "mean", "max", "min", "weights"])
def test_gradients_of_bags_are_one_call(mode: str, kind: torch.dtype, gradients: list[BagGradients]) -> None:
    hot, weights = SKEWED.where(SRC[:, 0] < 0.5, 7), SRC[:, 1].to(kind)
    offsets, ends = STARTS, torch.cat([STARTS, torch.tensor([30_000])])
    for width, index, bounds, padding in ((48, torch.int64, offsets, None), (3, torch.int32, ends, None),
                                          (1, torch.int64, offsets, 7), (16, torch.int32, ends, 3)):  # fmt: skip
        how: dict[str, Any] = {"padding_idx": padding, "include_last_offset": bounds is ends}
        table, given = TABLE[:, :width].contiguous().to(kind), (hot.to(index), bounds)
        gradients.clear()
        if mode == "weights":
            cpu, gpu = both(
                lambda t, i, o, w, how=how: pt.embedding_bag(i, t, o, mode="sum", per_sample_weights=w, **how),
                table, *given, weights,
            )  # fmt: skip
        else:
            cpu, gpu = both(lambda t, i, o, how=how: pt.embedding_bag(i, t, o, mode=mode, **how), table, *given)
        assert cpu == gpu
        assert len(gradients) == (mode != "mean" or padding is None)


def test_gradients_of_bags_on_another_stream(gradients: list[BagGradients]) -> None:
    expected = TABLE.clone().requires_grad_()
    pt.embedding_bag(SKEWED.view(-1, 20), expected, mode="max").sum().backward()
    lanes, table, stream = SKEWED.cuda().view(-1, 20), TABLE.cuda().requires_grad_(), torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        pt.embedding_bag(lanes, table, mode="max").sum().backward()
    torch.cuda.current_stream().wait_stream(stream)
    assert len(gradients) == 1 and bits(table.grad) == bits(expected.grad)


def test_gradients_of_bags_with_bounds_that_lie(gradients: list[BagGradients]) -> None:
    """They may be anything, but nothing outside of the arrays is read."""
    table, lanes = TABLE.cuda().requires_grad_(), SKEWED.cuda()
    for starts in ([5, 1 << 40, -3, 2, 9], [-1] * 4, [1 << 62, 0, 30_000]):
        pt.embedding_bag(lanes, table, torch.tensor(starts).cuda(), mode="mean").sum().backward()
    torch.cuda.synchronize()
    assert len(gradients) == 3


def test_gradients_of_gradients_of_bags(gradients: list[BagGradients]) -> None:
    table, lanes = TABLE[:20, :3].double().cuda().requires_grad_(), SKEWED[:40].cuda().view(-1, 4) % 20
    for mode in ("sum", "mean", "max"):
        assert torch.autograd.gradgradcheck(lambda t, m=mode: pt.embedding_bag(lanes, t, mode=m), (table,))
    (first,) = torch.autograd.grad((pt.embedding_bag(lanes, table, mode="sum") ** 2).sum(), table, create_graph=True)
    assert first.requires_grad


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
    with pytest.raises(pto.OutOfBoundsError, match=r"input\[1\] = 9999"):
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
            for _ in range(2):  # the second time, calls are repeated
                test_bags("weights", torch.float32)
                test_bags("max", torch.float32)
                test_segments("mean")
                test_gathers("undefined", torch.float32)
                test_gathers("zero", torch.bfloat16)
            for atomic in ATOMICS:
                test_scatters(atomic, "skip", torch.float32)
    finally:
        torch.use_deterministic_algorithms(False)


def test_new_tensors_are_not_filled_in_deterministic_mode() -> None:
    torch.use_deterministic_algorithms(True)
    try:
        like = torch.ones(1, device="cuda")
        assert like.new_empty(1 << 20).isnan().all()
        ones = torch.ones(1 << 20, device="cuda")
        address = ones.data_ptr()
        del ones
        made = new_tensor(like, (1 << 20,))
        assert made.device == like.device and (made.data_ptr() != address or (made == 1).all())
        other = new_tensor(like, (3, 4), torch.int32)
        assert other.shape == (3, 4) and other.dtype is torch.int32 and other.is_contiguous() and other.is_cuda
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
