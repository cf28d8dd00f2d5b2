"""Tables of a trace: the same memory in the same layout, as long as it lives, and nothing else."""

from __future__ import annotations

import gc
import mmap
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ptokit as pto
from ptokit.traces import table_memory

torch: Any = pytest.importorskip("torch")

SHAPE = (64, 64)
IDS = np.array([1, 2])


def numbers(trace: pto.IndexTrace) -> list[int]:
    """The tables of the calls."""
    assert trace.missed == 0
    return [call.what.table for call in trace.calls]


def look_up(table: Any) -> None:
    """A call on a table; NumPy does not get a tensor, whose memory would not be its own from then on."""
    if isinstance(table, torch.Tensor):
        torch.nn.functional.embedding(torch.tensor([1, 2]), table)
    else:
        pto.gather(table, IDS)


def pattern(keys: list[Any]) -> list[int]:
    """Keys by the order in which they appear first."""
    return [[*dict.fromkeys(keys)].index(key) for key in keys]


MAKERS: dict[str, Callable[[], Any]] = {
    "numpy": lambda: np.zeros(SHAPE, "float32"),
    "torch": lambda: torch.zeros(SHAPE),
    "bytes": lambda: np.frombuffer(bytes(4 * 64 * 64), "float32").reshape(SHAPE),
    "bytearray": lambda: np.frombuffer(bytearray(4 * 64 * 64), "float32").reshape(SHAPE),
    "mmap": lambda: np.frombuffer(mmap.mmap(-1, 4 * 64 * 64), "float32").reshape(SHAPE),
    "from_numpy": lambda: torch.from_numpy(np.zeros(SHAPE, "float32")),
    "dlpack": lambda: np.from_dlpack(np.zeros(SHAPE, "float32")),
}


@pytest.mark.parametrize("kind", MAKERS)
def test_freed_tables_are_others(kind: str) -> None:
    """Their memory is used again: the addresses are fewer than the tables."""
    addresses: set[int] = set()
    with pto.record_indices() as trace:
        for _ in range(100):
            table = MAKERS[kind]()
            look_up(table)
            look_up(table)
            addresses.add(table.data_ptr() if "torch" in kind else np.asarray(table).__array_interface__["data"][0])
            del table
    assert numbers(trace) == [k for k in range(100) for _ in range(2)]
    assert len(addresses) < 100 or kind in ("bytes", "bytearray", "from_numpy", "dlpack")  # these are held for a time


@pytest.mark.parametrize("kind", ["numpy", "torch", "mmap"])
def test_no_table_is_kept(kind: str) -> None:
    table = MAKERS[kind]()
    alive = weakref.ref(table_memory.owner_of(table))
    with pto.record_indices() as trace:
        look_up(table)
        del table
        gc.collect()
        assert alive() is None
    assert len(trace.calls) == 1


VIEWS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], str]] = {
    "whole": (lambda a: a, lambda t: t, "whole"),
    "view": (lambda a: a[:], lambda t: t[:], "whole"),
    "again": (lambda a: a.reshape(-1)[:].reshape(SHAPE), lambda t: t.view(-1).view(SHAPE), "whole"),
    "numpy": (lambda a: np.asarray(memoryview(a)), lambda t: t.numpy(), "whole"),
    "torch": (torch.from_numpy, lambda t: t.detach(), "whole"),
    "transposed": (lambda a: a.T, lambda t: t.T, "transposed"),
    "first": (lambda a: a[:32], lambda t: t[:32], "first"),
    "second": (lambda a: a[32:], lambda t: t[32:], "second"),
}
"""Views of a table, as an array and as a tensor, and the layout that they have."""
STEPS = st.lists(
    st.tuples(st.sampled_from(["make", "drop", "use", "use", "use"]), st.integers(0, 9), st.sampled_from([*VIEWS])),
    max_size=40,
)


@given(STEPS, st.booleans())
def test_tables_are_memory_with_a_layout(steps: list[tuple[str, int, str]], as_tensors: bool) -> None:
    """Random programs that make, drop, view and use tables, beside a model that only counts."""
    alive: list[tuple[int, Any]] = []
    made, used = 0, []
    with pto.record_indices() as trace:
        for step, which, view in steps:
            if step == "make" or not alive:
                alive.append((made, MAKERS["torch" if as_tensors else "numpy"]()))
                made += 1
            elif step == "drop":
                del alive[which % len(alive)]
            else:
                number, table = alive[which % len(alive)]
                *forms, layout = VIEWS[view]
                pto.gather(forms[as_tensors](table), IDS)
                used.append((number, layout))
                del table
    assert numbers(trace) == pattern(used)


def test_wrappers_made_for_each_call_are_one_table() -> None:
    array, data = np.zeros(SHAPE, "float32"), bytes(4 * 64 * 64)
    with pto.record_indices() as trace:
        for _ in range(3):
            pto.gather(torch.from_numpy(array), IDS)
            torch.nn.functional.embedding(torch.tensor([1]), torch.from_numpy(array))
            pto.gather(np.frombuffer(data, "float32").reshape(SHAPE), IDS)
    assert numbers(trace) == [0, 0, 1] * 3


def test_only_some_memory_of_unknown_owners_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_memory, "HELD", 5 * 4 * 64 * 64)
    alive = []
    with pto.record_indices() as trace:
        for _ in range(12):
            array = np.zeros(SHAPE, "float32")
            alive.append(weakref.ref(array))
            pto.gather(torch.from_numpy(array), IDS)
            del array
        gc.collect()
        assert [ref() is None for ref in alive] == [True] * 7 + [False] * 5
    gc.collect()
    assert all(ref() is None for ref in alive)
    assert numbers(trace) == [*range(12)]


def test_tables_without_elements_are_told_apart() -> None:
    with pto.record_indices() as trace:
        kept = [torch.zeros(0, 4), torch.zeros(0, 4), np.zeros((0, 4), "f4"), np.zeros((0, 4), "f4")]
        for table in kept * 2:
            pto.gather(table, np.array([0]), oob="zero")
    assert numbers(trace) == [0, 1, 2, 3] * 2


def test_an_object_without_weak_references_is_a_table() -> None:
    class Bare:
        __slots__ = ("__array_interface__", "array")

        def __init__(self) -> None:
            self.array = np.zeros(SHAPE, "float32")
            self.__array_interface__ = self.array.__array_interface__

    with pto.record_indices() as trace:
        kept = [Bare(), Bare()]
        for table in kept * 2:
            pto.gather(table, IDS)
    assert numbers(trace) == [0, 1, 0, 1]


def test_what_is_known_of_freed_tables_is_removed() -> None:
    known = table_memory.TableNumbers()
    for k in range(5000):
        array = np.zeros(k % 999 + 1)
        assert known.of(table_memory.TableMemory.of_array(array, array)) == k
        assert len(known._known) <= table_memory.FEW + 2
