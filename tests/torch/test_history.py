"""The outcome of a call on tensors does not depend on what was called before, nor on whether a profiler is active."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
import torch

import ptokit as pto
import ptokit.torch as pt
from tests.history import Options, bits, check, outcome, variants
from tests.property.test_property_history import (
    ACCUMULATES,
    CONFLICTS,
    ENGINES,
    MODES,
    ONES,
    READ,
    REDUCES,
    SELECTED,
    THREADS,
    WORDS,
    WRITTEN,
    ZEROS,
)

TABLES = ("float32", "float64", "bfloat16", "int32", "bool", "complex64", "gaps", "transposed", "followed", "leaf",
          "negated", "sparse", "meta", "freed", "list", "array", "parameter", "subclass")  # fmt: skip
INDICES: tuple[Any, ...] = (
    [1, 3], [1.0, 3.0], [True, False], range(1, 4, 2), 1, 1.0, True, [1, 4], [-1, 0], [],
    *(torch.tensor([1, 3], dtype=kind) for kind in (torch.int32, torch.int64, torch.uint8, torch.float32)),
    torch.tensor([True, False]), torch.tensor([-1, 3], dtype=torch.int32), torch.tensor([1, 0, 3, 0])[::2],
    torch.tensor([1, 4]), np.array([1, 3]), torch.tensor([1, 3], device="meta"),
)  # fmt: skip
CONTEXTS: dict[str, Any] = {"": nullcontext, "no_grad": torch.no_grad, "inference": torch.inference_mode}


class Mine(torch.Tensor):
    """A subclass without anything of its own."""


def table(kind: str) -> Any:
    """A table of 4 x 3."""
    made = torch.arange(24.0).reshape(4, 6)
    if kind == "gaps":
        return made[:, ::2]
    if kind == "array":
        return made[:, :3].numpy()
    made = made[:, :3].contiguous()
    if kind == "freed":
        made.untyped_storage().resize_(0)
    strange = {
        "transposed": lambda: made.t().contiguous().t(), "leaf": lambda: made.requires_grad_(),
        "followed": lambda: made.requires_grad_() * 1, "negated": lambda: torch._neg_view(made),
        "sparse": made.to_sparse, "meta": lambda: made.to("meta"), "freed": lambda: made, "list": made.tolist,
        "parameter": lambda: torch.nn.Parameter(made), "subclass": lambda: made.as_subclass(Mine),
    }  # fmt: skip
    return strange[kind]() if kind in strange else made.to(getattr(torch, kind))


def with_gradients(made: Any, *given: Any) -> Any:
    """A result and the gradients of the operands."""
    if not isinstance(made, torch.Tensor) or not made.requires_grad or made.device.type == "meta":
        return made
    followed = [each for each in given if isinstance(each, torch.Tensor) and each.requires_grad]
    above = torch.arange(float(made.numel())).reshape(made.shape).to(made.dtype)
    return made, *torch.autograd.grad(made, followed, above, allow_unused=True)


BASE: Options = {"table_of": "float32", "indices": torch.tensor([1, 3]), "context": ""}
SHARED: dict[str, Any] = {
    "threads": THREADS, "engine": ENGINES, "indices": INDICES, "table_of": TABLES, "context": ("no_grad", "inference"),
}  # fmt: skip
FORMS: dict[str, Any] = {"coalesce": SELECTED, "axis": (*ZEROS, *ONES, -1), "mode": MODES}
WRITES: dict[str, Any] = {
    "src": (*ONES, torch.ones(2, 3), torch.ones(2, 3).double(), torch.ones(2, 3, requires_grad=True), 1e300),
    "oob": WRITTEN, "atomic": WORDS, "reduce": REDUCES, "conflict": CONFLICTS, "accumulate": ACCUMULATES,
    "include_self": (*ONES, *ZEROS),
}  # fmt: skip


@pytest.mark.parametrize("library", [pt, pto], ids=["operators", "arrays"])
def test_gathers(library: Any) -> None:
    def call(table_of: str, indices: Any, context: str, **options: Any) -> Any:
        with CONTEXTS[context]():
            given = table(table_of)
            return with_gradients(library.gather(given, indices, **options), given)

    values = {**SHARED, **FORMS, "oob": READ}
    if library is pto:
        values["out"] = (None, torch.zeros(2, 3), torch.zeros(2, 3, dtype=torch.float64), np.zeros((2, 3), "float32"))
    assert check(call, variants(BASE, values, 25), seeds=1) > 20


@pytest.mark.parametrize("name", ["scatter", "scatter_", "array"])
def test_scatters(name: str) -> None:
    function = pto.scatter if name == "array" else getattr(pt, name)

    def call(table_of: str, src: Any, indices: Any, context: str, **options: Any) -> Any:
        given = table(table_of)
        try:
            with CONTEXTS[context]():
                return with_gradients(function(given, src, indices, **options), given, src), bits(given)
        except Exception as problem:  # which has written nothing
            return type(problem).__name__, str(problem), given if table_of not in ("meta", "freed") else None

    values = {**SHARED, **FORMS, **WRITES}
    assert check(call, variants({**BASE, "src": torch.ones(2, 3)}, values, 25), seeds=0) > 20


OFFSETS: tuple[Any, ...] = (
    [0, 1], (0, 1), [0.0, 1.0], [False, True], torch.tensor([0, 1]).int(), torch.tensor([0.0, 1.0]), [0, 3],
    [1, 0], [1], torch.tensor([0, 2, 1])[::2], None, np.array([0, 1]), [],
)  # fmt: skip


def test_bags() -> None:
    def call(table_of: str, indices: Any, offsets: Any, weights: Any, context: str, **options: Any) -> Any:
        with CONTEXTS[context]():
            given = table(table_of)
            made = pt.embedding_bag(indices, given, offsets, per_sample_weights=weights, **options)
            return with_gradients(made, given, weights)

    base = {**BASE, "offsets": torch.tensor([0, 1]), "weights": None}
    values: dict[str, Any] = {
        **SHARED, "offsets": OFFSETS, "mode": ("sum", "mean", "max", "min", "add", 0, None),
        "padding_idx": (*ONES, *ZEROS, 3, -1, 4), "include_last_offset": (*ONES, *ZEROS),
        "weights": (torch.ones(2), torch.ones(2, requires_grad=True), torch.ones(2, dtype=torch.float64), [1, 1]),
    }  # fmt: skip
    assert check(call, variants(base, values), seeds=1) > 25


def test_segments() -> None:
    def call(table_of: str, context: str, **options: Any) -> Any:
        with CONTEXTS[context]():
            given = table(table_of)
            return with_gradients(pt.segment_reduce(given, **options), given)

    lengths = (torch.tensor([3, 1]), torch.tensor([3.0, 1.0]), [4], [True], [3, 2], torch.tensor([1, 3]).int())
    base = {"table_of": "float32", "context": "", "reduce": "sum"}
    every = {name: SHARED[name] for name in ("threads", "engine", "table_of", "context")}
    every["reduce"] = ("sum", "mean", "max", "min", "mul", 0)
    assert check(call, variants({**base, "lengths": lengths[0]}, {**every, "lengths": lengths}, 20), seeds=1) > 15
    ids: dict[str, Any] = {
        "segment_ids": (torch.tensor([0, 1, 1, 0]), [0, 1, 1, 0], [0.0, 1, 1, 0], torch.zeros(4).int(), [0], [3] * 4),
        "num_segments": (None, *ONES, 2, 2.0, np.int64(2), 0),
    }  # fmt: skip
    assert check(call, variants({**base, "segment_ids": ids["segment_ids"][0]}, {**every, **ids}, 20), seeds=1) > 15


@pytest.mark.parametrize("kind", ["Embedding", "EmbeddingBag"])
def test_modules(kind: str) -> None:
    def call(indices: Any, **options: Any) -> Any:
        weight = torch.arange(12.0).reshape(4, 3)
        module = getattr(pt, kind).from_pretrained(weight, freeze=False, **options)
        return with_gradients(module(indices), module.weight)

    indices = (torch.tensor([[1, 3]]), torch.tensor([[1, 3]]).int(), torch.tensor([[1.0, 3.0]]), torch.tensor([[1, 4]]))
    values: dict[str, Any] = {"indices": indices, "padding_idx": (*ONES, *ZEROS, 3, -1), "sparse": (*ONES, *ZEROS)}
    if kind == "EmbeddingBag":
        values |= {"mode": ("sum", "mean", "max", "min", 0), "include_last_offset": (*ONES, *ZEROS)}
    assert check(call, variants({"indices": indices[0]}, values, 20), seeds=1) > 5


def test_a_profiler_changes_no_outcome() -> None:
    """It makes calls go through the dispatcher, which takes other types than Python's functions do."""

    def gather(**options: Any) -> Any:
        given = table("leaf")
        return with_gradients(pt.gather(given, torch.tensor([1, 3]), **options), given)

    def scatter(**options: Any) -> Any:
        given = table("leaf")
        return with_gradients(pt.scatter(given, torch.ones(2, 3), torch.tensor([1, 3]), **options), given)

    def bag(**options: Any) -> Any:
        given = table("leaf")
        return with_gradients(pt.embedding_bag([1, 3], given, [0, 1], **options), given)

    counted = {"threads": (2, np.int64(2), True, 1.0, 0)}
    every = [
        *(
            (gather, each)
            for each in variants({}, {**counted, "oob": [*pto.GatherOOB], "coalesce": [*pto.Coalesce]}, 0)
        ),
        *((scatter, each) for each in variants({}, {**counted, "oob": [*pto.ScatterOOB], "atomic": WORDS[:4]}, 0)),
        *((bag, each) for each in variants({}, {**counted, "padding_idx": ONES, "include_last_offset": ONES[:3]}, 0)),
    ]
    plain = [outcome(call, options) for call, options in every]
    with torch.profiler.profile():
        profiled = [outcome(call, options) for call, options in every]
    assert profiled == plain
