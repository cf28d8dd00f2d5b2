"""Accumulators that go into the UB of one vector core of A5, or by halves into both: by TMOV, and by TPUSH and TPOP."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ptokit.lang.recorded import CppKernel, load_cpp
from tests.cxx.building import COMPILER

pytestmark = pytest.mark.skipif(not COMPILER, reason="needs a C++ compiler")
SOURCE = Path(__file__).with_name("sources") / "divided.cpp"
M, K, N = 32, 16, 64
SLOTS = 2
Array = Any


@lru_cache
def _kernel(entry: str) -> CppKernel:
    return load_cpp(str(SOURCE), entry, "a5")


def _inputs(tiles: int = 1) -> tuple[Array, Array]:
    rng = np.random.default_rng(7)
    return rng.integers(-4, 5, (tiles * M, K)).astype("float16"), rng.integers(-4, 5, (K, N)).astype("float16")


def _product(a: Array, b: Array) -> Array:
    return np.matmul(a.astype("float64"), b.astype("float64")).astype("float32")


def _pushed(entry: str, tiles: int) -> tuple[Array, Array, list[tuple[str, str, str]]]:
    """The tiles, those that are right, and what the machine finds, with the comment of its line."""
    a, b = _inputs(tiles)
    out, lines = np.zeros((tiles * M, N), "float32"), SOURCE.read_text().splitlines()
    report = _kernel(entry)[1](out, a, b, tiles, target="a5", engine="machine")
    found = {
        (each.level, each.rule, lines[each.where.line - 1].partition("// ")[2] if each.where else "")
        for each in report.findings
        if each.is_fault
    }
    return out.reshape(tiles, M, N), (_product(a, b) + 1).reshape(tiles, M, N), sorted(found)


@pytest.mark.parametrize("engine", ["reference", "native", "machine"])
@pytest.mark.parametrize("mode", ["vec0", "vec1", "split_m", "split_n"])
def test_a_move_gives_each_vector_core_its_part(mode: str, engine: str) -> None:
    (a, b), out = _inputs(), np.zeros((M, N), "float32")
    report = _kernel(mode)[1](out, a, b, target="a5", engine=engine)
    assert not [each for each in report.findings if each.is_fault]
    np.testing.assert_array_equal(out, _product(a, b))


@pytest.mark.parametrize("entry", ["whole", "rows", "cols"])
def test_pushes_into_free_slots_have_values(entry: str) -> None:
    out, right, _ = _pushed(entry, SLOTS)
    np.testing.assert_array_equal(out, right)


@pytest.mark.parametrize("entry", ["whole_spent", "rows_spent", "cols_spent"])
@pytest.mark.parametrize("tiles", [2, 4, 6])
def test_pushes_that_wait_for_the_slot_itself_have_values(entry: str, tiles: int) -> None:
    """The slots that the constructor frees are taken at first: each later wait is for a TFREE."""
    out, right, found = _pushed(entry, tiles)
    assert not found
    np.testing.assert_array_equal(out, right)


@pytest.mark.parametrize("entry", ["whole", "rows", "cols"])
def test_a_wait_that_the_constructor_has_met_orders_nothing(entry: str) -> None:
    """The third push waits for the first flag of a free slot: that of the constructor (a5/TPush.hpp, 57 and 688)."""
    _, _, found = _pushed(entry, SLOTS + 1)
    assert ("error", "KN-16", "read") in found
    assert _pushed(entry, SLOTS)[2] == [("hazard", "KN-13", "")]


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("rows_as_whole", ("error", "CO-ALIGN-05", "read")),  # the second half is in the other vector core
        ("whole_as_rows", ("error", "KN-13", "pop")),  # the second vector core is told of nothing
    ],
)
def test_a_push_to_one_is_no_push_to_both(entry: str, expected: tuple[str, str, str]) -> None:
    assert expected in _pushed(entry, 1)[2]


@pytest.mark.parametrize("entry", ["rows_as_cols", "cols_as_rows"])
def test_halves_of_rows_are_no_halves_of_columns(entry: str) -> None:
    """A pop takes the bytes of the slot as they are (a5/TPush.hpp, 566): those of other elements."""
    out, right, found = _pushed(entry, 1)
    assert (out != right).any()
    assert found == [("hazard", "TV-02", "read")]
