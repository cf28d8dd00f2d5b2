"""Index traces of arrays on an emulated GPU: their tables, and their indices of all layouts."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ptokit as pto
from tests.engine.cuda.fakes import Described, FakeArray, FakeGpus, FakeTensor

IDS = np.array([[3, 0], [5, 3]])
WRAPS: dict[str, Callable[[FakeGpus, Any], Any]] = {
    "cupy": lambda _, host: FakeArray(host),
    "torch": lambda _, host: FakeTensor(host),
    "interface": Described,
}


@pytest.fixture
def gpus(emulated: FakeGpus, monkeypatch: pytest.MonkeyPatch) -> FakeGpus:
    monkeypatch.delitem(sys.modules, "torch._dynamo", raising=False)  # the real one
    return emulated


@pytest.mark.parametrize("wrap", WRAPS)
def test_tables_are_told_apart(gpus: FakeGpus, wrap: str) -> None:
    tables = [WRAPS[wrap](gpus, np.zeros((6, 8), "float32")) for _ in range(3)]
    with pto.record_indices() as trace:
        for _ in range(3):
            for table in tables:
                pto.gather(table, FakeArray(IDS))
                pto.gather(table, FakeArray(IDS), coalesce="elem")
    assert trace.missed == 0
    assert [call.what.table for call in trace.calls] == [0, 0, 1, 1, 2, 2] * 3


@pytest.mark.parametrize("wrap", WRAPS)
def test_freed_tables_are_others(gpus: FakeGpus, wrap: str) -> None:
    memory = np.zeros((6, 8), "float32")  # that the library gives to one array after the other
    with pto.record_indices() as trace:
        for _ in range(5):
            table = WRAPS[wrap](gpus, memory)
            pto.gather(table, FakeArray(IDS))
            pto.gather(table, FakeArray(IDS))
            del table
    assert [call.what.table for call in trace.calls] == [k for k in range(5) for _ in range(2)]


def test_memory_that_an_owner_gives_back_is_another_table(gpus: FakeGpus) -> None:
    memory = np.zeros((6, 8), "float32")
    kept, later = FakeTensor(memory), FakeTensor(memory)
    with pto.record_indices() as trace:
        pto.gather(kept, FakeArray(IDS))
        kept.untyped_storage().host = np.zeros(0)  # resized
        pto.gather(later, FakeArray(IDS))
        pto.gather(later, FakeArray(IDS))
    assert [call.what.table for call in trace.calls] == [0, 1, 1]


def test_views_have_the_table_of_their_memory(gpus: FakeGpus) -> None:
    table = FakeTensor(np.zeros((6, 8), "float32"))
    with pto.record_indices() as trace:
        for key in (slice(None), slice(0, 6), slice(0, 3), slice(3, 6), slice(0, 3)):
            pto.gather(table[key], FakeArray(IDS), oob="clamp")
    assert [call.what.table for call in trace.calls] == [0, 0, 1, 2, 1]


@pytest.mark.parametrize("kind", ["int32", "int64", "uint8"])
@pytest.mark.parametrize("view", [
    lambda a: a, lambda a: a.T, lambda a: a[::2, 1:], lambda a: a[::-1], lambda a: np.broadcast_to(a[0], (3, 4)),
    lambda a: a[:0],
])  # fmt: skip
def test_indices_of_all_layouts_are_recorded_in_c_order(gpus: FakeGpus, kind: str, view: Callable[[Any], Any]) -> None:
    ids = view(np.arange(16).reshape(4, 4).astype(kind))
    with pto.record_indices() as trace:
        pto.gather(FakeArray(np.zeros((20, 2), "float32")), FakeArray(ids), mode="clip")
        pto.gather_nd(FakeArray(np.zeros((20, 2), "float32")), FakeArray(ids[..., :1]), oob="clamp")
    assert trace.missed == 0
    assert [call.indices.tolist() for call in trace.calls] == [ids.ravel().tolist(), ids[..., :1].ravel().tolist()]
