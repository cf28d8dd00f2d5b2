"""Lookups of torch are recorded without changes of the program. `make test-torch` runs these tests."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ptokit as pto

torch: Any = pytest.importorskip("torch")
functional: Any = torch.nn.functional


def weight(rows: int = 10, cols: int = 4, dtype: str = "float32") -> Any:
    return torch.arange(rows * cols, dtype=getattr(torch, dtype)).reshape(rows, cols)


def lookups(work: Callable[[], object]) -> list[tuple[str, int, list[int]]]:
    """Kind, table and indices of what is recorded."""
    with pto.record_indices() as trace:
        work()
    assert trace.missed == 0
    return [(call.what.kind, call.what.table, call.indices.tolist()) for call in trace.calls]


def test_modules_and_functions_are_recorded() -> None:
    embedding, bag = torch.nn.Embedding(10, 4), torch.nn.EmbeddingBag(7, 3, mode="sum")
    ids, flat = torch.tensor([[1, 2], [3, 4]]), torch.tensor([6, 0], dtype=torch.int32)

    def work() -> None:
        embedding(ids)
        bag(flat, torch.tensor([0, 1], dtype=torch.int32))
        torch.index_select(embedding.weight, 0, flat)
        embedding.weight.index_select(1, torch.tensor([2]))
        functional.embedding(input=ids[0], weight=bag.weight)
        torch.embedding(bag.weight, ids[1])

    assert lookups(work) == [
        ("embedding", 0, [1, 2, 3, 4]),
        ("embedding_bag", 1, [6, 0]),
        ("index_select", 0, [6, 0]),
        ("index_select", 0, [2]),
        ("embedding", 1, [1, 2]),
        ("embedding", 1, [3, 4]),
    ]


def test_tables_are_described() -> None:
    with pto.record_indices() as trace:
        weight(10, 4, "bfloat16").index_select(1, torch.tensor([2], dtype=torch.int32))
    what = trace.calls[0].what
    assert (what.shape, what.dtype, what.itemsize, what.axis, what.index) == ((10, 4), "bfloat16", 2, 1, "int32")
    assert (what.entries, what.entry_bytes, what.oob) == (4, 20, "undefined")
    assert "index_select axis=1" in str(trace) and trace.as_dict()["tables"][0]["axis"] == 1


def test_results_and_gradients_are_as_without_it() -> None:
    def step() -> Any:
        table = weight().requires_grad_()
        functional.embedding(torch.tensor([1, 1, 3]), table).square().sum().backward()
        return table.grad

    expected = step()
    with pto.record_indices() as trace:
        assert torch.equal(step(), expected)
    assert len(trace.calls) == 1


def test_nothing_is_recorded_after_the_block() -> None:
    with pto.record_indices() as trace:
        pass
    functional.embedding(torch.tensor([1]), weight())
    assert trace.seen == 0
    assert torch.overrides._len_torch_function_stack() == 0


def test_an_index_outside_raises_as_ever() -> None:
    with pto.record_indices() as trace, pytest.raises(IndexError):
        functional.embedding(torch.tensor([10]), weight())
    assert trace.tables()[0].outside == 1


def test_tensors_without_values_are_counted() -> None:
    with pto.record_indices() as trace:
        functional.embedding(torch.tensor([1], device="meta"), weight().to("meta"))
    assert (trace.calls, trace.seen, trace.missed) == ([], 1, 1)


def test_threads_that_start_in_the_block_are_seen() -> None:
    def work() -> None:
        thread = threading.Thread(target=functional.embedding, args=(torch.tensor([5]), weight()))
        thread.start()
        thread.join()

    assert lookups(work) == [("embedding", 0, [5])]


def test_compiled_functions_run_eagerly_and_are_seen() -> None:
    embedding = torch.nn.Embedding(10, 4)
    compiled = torch.compile(lambda ids: embedding(ids).sum(), backend="eager", fullgraph=True)
    expected = compiled(torch.tensor([1, 2]))
    with pto.record_indices() as trace:
        assert torch.equal(compiled(torch.tensor([1, 2])), expected)
    assert [call.indices.tolist() for call in trace.calls] == [[1, 2]]
    assert torch.equal(compiled(torch.tensor([1, 2])), expected)


def test_arrays_of_ptokit_are_torch_tensors_too() -> None:
    table = weight()
    assert lookups(lambda: pto.gather(table, torch.tensor([7, 7]))) == [("gather", 0, [7, 7])]
    found = lookups(lambda: (pto.gather(table, np.array([1])), functional.embedding(torch.tensor([2]), table)))
    assert found == [("gather", 0, [1]), ("embedding", 0, [2])]


def test_operators_of_ptokit_are_recorded_without_those_of_gradients() -> None:
    import ptokit.torch as pt

    table, other = weight().requires_grad_(), weight()
    ids = torch.tensor([1, 9, 1])

    def work() -> None:
        for _ in range(2):
            (pt.gather(table, ids).sum() + pt.scatter(table, 1.0, ids, oob="skip").sum()).backward()
        pt.scatter_(other, 1.0, ids, atomic="add")
        pt.scatter(table, 1.0, ids, reduce="mul").sum().backward()
        pt.gather(other, torch.tensor([0, 1]), axis=1)
        pt.EmbeddingBag(5, 3, mode="sum")(torch.tensor([[4, 0], [2, 2]]))

    once = [("gather", 0, [1, 9, 1]), ("scatter", 0, [1, 9, 1])]
    rows, width = other.shape
    along = ("gather", 2, [row * width + k for row in range(rows) for k in (0, 1)])  # elements by their numbers
    more = [("scatter", 1, [1, 9, 1]), ("scatter", 0, [1, 9, 1]), along, ("embedding_bag", 3, [4, 0, 2, 2])]
    assert lookups(work) == [*once, *once, *more]


@pytest.mark.parametrize(
    ("mode", "is_weighted"), [(mode, False) for mode in ("sum", "mean", "max", "min")] + [("sum", True)]
)
def test_a_bag_is_recorded_once_and_its_gradient_is_not(mode: str, is_weighted: bool) -> None:
    import ptokit.torch as pt

    table = weight().requires_grad_()
    weights = torch.ones(3, requires_grad=True) if is_weighted else None
    ids, offsets = torch.tensor([1, 9, 1]), torch.tensor([0, 2])

    def work() -> None:
        made = pt.embedding_bag(ids, table, offsets, mode=mode, per_sample_weights=weights, padding_idx=9)
        (grad,) = torch.autograd.grad(made.square().sum(), table, create_graph=True)
        grad.square().sum().backward()

    assert lookups(work) == [("embedding_bag", 0, [1, 9, 1])]


def test_segments_without_indices_are_no_lookups() -> None:
    import ptokit.torch as pt

    with pto.record_indices() as trace:
        pt.segment_reduce(weight().requires_grad_(), lengths=torch.tensor([4, 6])).sum().backward()
    assert (trace.seen, trace.missed) == (0, 0)


@pytest.mark.parametrize("is_reentrant", [False, True])
def test_what_a_checkpoint_computes_again_is_recorded_once(is_reentrant: bool) -> None:
    import ptokit.torch as pt

    table, ids = weight().requires_grad_(), torch.tensor([1, 9, 1])

    def both(given: Any) -> Any:
        return functional.embedding(ids, given) + pt.gather(given, ids)

    checkpoint = torch.utils.checkpoint.checkpoint
    found = lookups(lambda: checkpoint(both, table, use_reentrant=is_reentrant).sum().backward())
    assert found == [("embedding", 0, [1, 9, 1]), ("gather", 0, [1, 9, 1])]


PROGRAM = """
import torch
model = torch.nn.Embedding(50, 8)
step = torch.compile(lambda ids: model(ids).sum(), fullgraph=True)
for k in range(3):
    step(torch.tensor([k, 49])).backward()
"""


def test_a_program_that_imports_torch_is_recorded(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(PROGRAM, encoding="utf-8")
    command = [sys.executable, "-m", "ptokit", "trace-indices", "model.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    trace = pto.IndexTrace.load(tmp_path / "trace.npz")
    assert [(call.what.kind, call.indices.tolist()) for call in trace.calls] == [
        ("embedding", [k, 49]) for k in range(3)
    ]  # fmt: skip


def test_the_host_is_compared_with_torch() -> None:
    result = pto.traces.replay(pto.traces.zipf(rows=100, lanes=50, calls=2), engine="native")
    assert [row["library"] for row in result.rows][:3] == ["ptokit", "NumPy", "torch"]
    assert all(row["same bits"] for row in result.rows)
