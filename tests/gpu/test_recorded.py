"""Index traces of arrays on a GPU: tables are memory with a layout, as long as it lives; indices are copied."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cupy
import numpy as np
import pytest
import torch

import ptokit as pto
import ptokit.torch as pt

IDS = np.array([3, 1, 2])
LIBRARIES: dict[str, tuple[Callable[[], Any], Any, Callable[[Any], int]]] = {
    "cupy": (lambda: cupy.zeros((64, 64), "f4"), cupy.asarray(IDS), lambda table: table.data.ptr),
    "torch": (lambda: torch.zeros(64, 64, device="cuda"), torch.tensor(IDS, device="cuda"), lambda t: t.data_ptr()),
}


@pytest.mark.parametrize("library", LIBRARIES)
def test_tables_are_told_apart(library: str) -> None:
    make, ids, _ = LIBRARIES[library]
    tables = [make() for _ in range(3)]
    with pto.record_indices() as trace:
        for _ in range(3):
            for table in tables:
                pto.gather(table, ids)
                pto.gather(table[:], ids)
                pto.gather(table[:32], ids)
    assert trace.missed == 0
    assert [call.what.table for call in trace.calls] == [0, 0, 1, 2, 2, 3, 4, 4, 5] * 3
    assert all(call.indices.tolist() == IDS.tolist() for call in trace.calls)


@pytest.mark.parametrize("library", LIBRARIES)
def test_freed_tables_are_others(library: str) -> None:
    make, ids, address = LIBRARIES[library]
    addresses: set[int] = set()
    with pto.record_indices() as trace:
        for _ in range(10):
            table = make()
            addresses.add(address(table))
            pto.gather(table, ids)
            pto.gather(table, ids)
            del table
    assert [call.what.table for call in trace.calls] == [k for k in range(10) for _ in range(2)]
    assert len(addresses) < 10  # their memory was used again


def test_a_tensor_is_one_table_for_all_libraries() -> None:
    table = torch.zeros(64, 64, device="cuda")
    ids = torch.tensor(IDS, device="cuda")
    with pto.record_indices() as trace:
        for _ in range(2):
            pto.gather(table, ids)
            pt.gather(table, ids)
            torch.nn.functional.embedding(ids, table)
            pto.gather(cupy.asarray(table), cupy.asarray(IDS))
    assert trace.missed == 0 and {call.what.table for call in trace.calls} == {0}


def test_indices_of_all_layouts_are_recorded_in_c_order() -> None:
    table, ids = cupy.zeros((64, 4), "f4"), np.arange(16).reshape(4, 4)
    views: list[Callable[[Any], Any]] = [lambda a: a.T, lambda a: a[::2, 1:], lambda a: a[::-1], lambda a: a[:0]]
    for kind in ("int32", "int64", "uint8"):
        given = ids.astype(kind)
        with pto.record_indices() as trace:
            for view in views:
                pto.gather(table, view(cupy.asarray(given)))
        assert [call.indices.tolist() for call in trace.calls] == [view(given).ravel().tolist() for view in views]
