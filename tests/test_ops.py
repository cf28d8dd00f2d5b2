"""`pto.gather` and `pto.scatter`: results, arrays of all libraries, and refusals with a fix."""

from __future__ import annotations

import inspect
import subprocess
import sys
import tracemalloc
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

import ptokit as pto
from ptokit import engines
from ptokit.engine import whole
from ptokit.engine.runnable import Unsupported
from ptokit.ops import direct, execute
from tests.property.naive_whole import ENGINES

Array = np.ndarray[Any, np.dtype[Any]]

pytestmark = pytest.mark.parametrize("engine", ENGINES)

ML_TYPES = (
    *("bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3b11fnuz", "float8_e4m3fnuz", "float8_e5m2fnuz"),
    *("float8_e3m4", "float8_e8m0fnu", "int4", "uint4"),
)
NUMPY_TYPES = (
    *("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"),
    *("float16", "float32", "float64", "longdouble", "complex64", "complex128", "clongdouble"),
)


def numpy_type(name: str) -> np.dtype[Any]:
    return np.dtype(getattr(ml_dtypes, name) if name in ML_TYPES else name)


def filled(name: str, *shape: int) -> Array:
    """Ones and zeros at random; every type has them."""
    flat = np.random.default_rng(1).integers(0, 2, int(np.prod(shape)))
    return flat.astype("float32").astype(numpy_type(name)).reshape(shape)


def as_bytes(array: Array) -> bytes:
    return np.ascontiguousarray(array).tobytes()


def address(array: Array) -> int:
    return array.__array_interface__["data"][0]


def counted(*shape: int, dtype: str = "float32") -> Array:
    return np.arange(int(np.prod(shape)), dtype=dtype).reshape(shape)


def refused(kind: type[Exception], call: Callable[[], object], *words: str, rule: str = "") -> pto.Finding | None:
    """A refusal in our own words; its finding, if it has one, points here."""
    with pytest.raises(kind) as caught:
        call()
    problem = caught.value
    assert problem.__context__ is None or problem.__suppress_context__, "another library's error shows through"
    for word in words:
        assert word in str(problem), str(problem)
    if not rule:
        return None
    assert isinstance(problem, pto.VerifyError | pto.OutOfBoundsError)
    (finding,) = problem.findings
    assert finding.rule == rule
    assert finding.fix
    assert finding.where is not None
    assert finding.where.file == __file__
    return finding


# --- The face --------------------------------------------------------------------------------------------------


def test_names_and_arguments(engine: str) -> None:
    gather, scatter = inspect.signature(pto.gather).parameters, inspect.signature(pto.scatter).parameters
    assert " ".join(gather) == "table indices coalesce oob out engine threads axis mode"
    words = "table src indices coalesce oob atomic conflict accumulate engine threads axis mode reduce include_self"
    assert " ".join(scatter) == words
    defaults = {name: p.default for name, p in scatter.items() if p.kind is p.KEYWORD_ONLY}
    assert list(defaults.values()) == ["row", "undefined", "none", "last", None, "auto", None, 0, None, None, True]
    assert [gather[name].default for name in ("coalesce", "oob", "out", "engine")] == ["row", "undefined", None, "auto"]


@pytest.mark.parametrize("shape", [(), (1,), (5,), (2, 3), (2, 1, 4), (0,), (3, 0)])
@pytest.mark.parametrize("table_shape", [(6,), (6, 4), (6, 2, 3), (6, 0), (6, 1, 1, 2)])
def test_rows_of_any_shape_by_indices_of_any_shape(
    table_shape: tuple[int, ...], shape: tuple[int, ...], engine: str
) -> None:
    table, indices = counted(*table_shape), np.arange(int(np.prod(shape)), dtype="int64").reshape(shape) * 5 % 6
    result = pto.gather(table, indices, engine=engine)
    assert type(result) is np.ndarray
    assert result.shape == shape + table_shape[1:]
    assert np.array_equal(result, table[indices])


@pytest.mark.parametrize("table_shape", [(), (7,), (3, 4), (2, 3, 2)])
def test_elements_are_counted_in_c_order(table_shape: tuple[int, ...], engine: str) -> None:
    table = counted(*table_shape)
    indices = np.arange(6, dtype="uint32").reshape(2, 3) % table.size
    for each in (table, table.copy("F")):
        result = pto.gather(each, indices, coalesce="elem", engine=engine)
        assert np.array_equal(result, table.reshape(-1)[indices])
    source = -1 - counted(2, 3)
    cells = table.copy("F")
    pto.scatter(cells, source, indices, coalesce="elem", engine=engine)
    expected = table.reshape(-1).copy()
    expected[indices] = source
    assert np.array_equal(cells, expected.reshape(table_shape))


def test_scatter_gives_back_the_table_itself(engine: str) -> None:
    table = np.zeros((4, 2), "float32")
    assert pto.scatter(table, np.ones((1, 2), "float32"), np.array([2]), engine=engine) is table
    assert table.tolist() == [[0, 0], [0, 0], [1, 1], [0, 0]]


def test_enums_mean_what_strings_mean(engine: str) -> None:
    table, indices = counted(5, 2), np.array([1, 9], "int32")
    a = pto.gather(table, indices, coalesce=pto.Coalesce.Elem, oob=pto.GatherOOB.Wrap, engine=engine)
    assert np.array_equal(a, pto.gather(table, indices, coalesce="elem", oob="wrap", engine=engine))
    cells = table.copy()
    options: dict[str, Any] = {"atomic": pto.ScatterAtomicOp.Add, "conflict": pto.ScatterConflict.Default}
    pto.scatter(cells, np.ones((2, 2), "float32"), indices, oob=pto.ScatterOOB.Skip, **options, engine=engine)
    assert np.array_equal(cells - table, [[0, 0], [1, 1], [0, 0], [0, 0], [0, 0]])


@pytest.mark.parametrize("name", NUMPY_TYPES + ML_TYPES)
def test_every_element_type_moves_as_it_is(name: str, engine: str) -> None:
    table, indices = filled(name, 5, 3), np.array([[4, 0], [2, 2]], "int32")
    assert as_bytes(table) != as_bytes(table[::-1])
    for each in (table, np.repeat(table, 2, 1)[:, ::2], table[::-1].copy()[::-1]):
        result = pto.gather(each, indices, engine=engine)
        assert result.dtype == table.dtype
        assert as_bytes(result) == as_bytes(table[indices])
    elements = pto.gather(table, indices, coalesce="elem", oob="zero", engine=engine)
    assert as_bytes(elements) == as_bytes(table.reshape(-1)[indices])
    cells, expected = np.zeros_like(table), np.zeros_like(table)
    expected[[0, 4]] = table[[3, 1]]
    assert as_bytes(pto.scatter(cells, table[[3, 1]], np.array([0, 4]), engine=engine)) == as_bytes(expected)


@pytest.mark.parametrize("name", [n for n in NUMPY_TYPES + ML_TYPES if n not in ("int4", "uint4")])
def test_every_arithmetic_type_can_be_added(name: str, engine: str) -> None:
    cells, src = filled(name, 4, 2), np.ones((3, 2), "float32").astype(numpy_type(name))
    expected = cells.copy()
    for row in (3, 0, 3):
        expected[row] = expected[row] + src[0]
    pto.scatter(cells, src, np.array([3, 0, 3], "uint32"), atomic="add", engine=engine)
    if "longdouble" in name:  # some of its bytes belong to no number on x86-64
        assert (cells == expected).all()
    else:
        assert as_bytes(cells) == as_bytes(expected)


@contextmanager
def warned_of_negatives(expected: bool, rule: str, name: str) -> Iterator[None]:
    """A block that warns once that an int32 is negative (H-13), or not at all."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        yield
    assert [type(each.message) for each in seen] == [pto.HazardWarning] * expected
    for each in seen:
        assert isinstance(each.message, pto.HazardWarning)
        assert each.filename == __file__
        finding = each.message.finding
        assert (finding.rule, finding.kind) == (rule, "H-13")
        assert finding.message == f"{name}: indices[0] = -1 is negative and counts as 4294967295"


# --- Policies --------------------------------------------------------------------------------------------------


@pytest.mark.clause("MG-OOB-08", "MG-OOB-16")
@pytest.mark.parametrize(
    ("kind", "index", "clamp", "wrap"),
    [
        ("int32", 12, 9, 2), ("int32", -1, 9, 5), ("uint32", 2**32 - 1, 9, 5), ("int64", 12, 9, 2),
        ("int64", -1, 0, 9), ("int64", -21, 0, 9), ("int64", 2**40, 9, 6), ("int64", -(2**63), 0, 2),
    ],
)  # fmt: skip
def test_where_an_index_outside_goes(kind: str, index: int, clamp: int, wrap: int, engine: str) -> None:
    table, indices = counted(10) + 1, np.array([index, 3], kind)
    expected = {"clamp": clamp + 1, "wrap": wrap + 1, "zero": 0}
    for oob, value in expected.items():
        with warned_of_negatives(kind == "int32" and index < 0 and oob != "zero", "MG-HAZ-12", "gather"):
            assert pto.gather(table, indices, oob=oob, engine=engine).tolist() == [value, 4]
    for oob, cell in {"clamp": clamp, "wrap": wrap, "skip": None}.items():
        cells = np.zeros(10, "float32")
        with warned_of_negatives(kind == "int32" and index < 0 and oob != "skip", "A-12", "scatter"):
            pto.scatter(cells, np.array([5, 6], "float32"), indices, oob=oob, engine=engine)
        assert set(np.flatnonzero(cells)) == {3} | ({cell} - {None})
        assert cells[3] == (5 if cell == 3 else 6)


@pytest.mark.parametrize("kind", ["int32", "uint32", "int64"])
def test_capacities_beyond_32_bits(kind: str, engine: str) -> None:
    """One row in memory, with 2^33 indices: large indices are in range, and a negative int32 one is large."""
    many = (1 << 33) + 5
    table = np.broadcast_to(np.array([7, 8, 9], "int16"), (many, 3))
    info = np.iinfo(kind)
    inside = [v for v in (0, 2**31, 2**32 - 1, 2**32, many - 1) if v <= info.max] + [-1] * (kind == "int32")
    assert pto.gather(table, np.array(inside, kind), engine=engine).tolist() == [[7, 8, 9]] * len(inside)
    if kind == "int64":
        bad = np.array([3, many, -1])
        refused(pto.OutOfBoundsError, lambda: pto.gather(table, bad, engine=engine), f"indices[1] = {many} ", "1 more")
        assert pto.gather(table, bad, oob="zero", engine=engine).tolist() == [[7, 8, 9], [0, 0, 0], [0, 0, 0]]


@pytest.mark.clause("A-14", "MS-CONF-01")
@pytest.mark.parametrize("conflict", ["last", "default", "any"])
def test_the_last_writer_stays(conflict: str, engine: str) -> None:
    rng = np.random.default_rng(3)
    indices = rng.integers(0, 50, 4000)
    src = counted(4000, 3)
    cells = pto.scatter(np.full((50, 3), -1, "float32"), src, indices, conflict=conflict, engine=engine, threads=5)
    last = {int(row): k for k, row in enumerate(indices)}
    assert np.array_equal(cells, src[[last[row] for row in range(50)]])


@pytest.mark.clause("A-16")
def test_sums_round_at_every_step_or_once(engine: str) -> None:
    indices, ones = np.zeros(3, "int32"), np.ones(3, "float16")
    at_every_step = pto.scatter(np.array([2048], "float16"), ones, indices, atomic="add", engine=engine)
    assert at_every_step.tolist() == [2048]
    options: dict[str, Any] = {"atomic": "add", "engine": engine}
    for wide in ("float32", np.float32, pto.dtype("float32")):
        once = pto.scatter(np.array([2048], "float16"), ones, indices, **options, accumulate=wide)
        assert once.tolist() == [2052]  # 2051 lies between two halves; the even one is above


@pytest.mark.clause("A-16")
def test_the_order_of_a_sum_is_the_order_of_the_indices(engine: str) -> None:
    src = np.array([1e8, 1, -1e8, 1], "float32")
    forward = pto.scatter(np.zeros(1, "float32"), src, np.zeros((4,), "int32"), atomic="add", engine=engine, threads=2)
    assert forward.tolist() == [1]
    other = pto.scatter(np.zeros(1, "float32"), src[::-1], np.zeros((4,), "int32"), atomic="add", engine=engine)
    assert other.tolist() == [0]


@pytest.mark.clause("A-16")
def test_a_nan_is_no_maximum(engine: str) -> None:
    cells = np.array([np.nan, 1, -0.0], "float32")
    src = np.array([2, np.nan, 0.0], "float32")
    pto.scatter(cells, src, np.arange(3), atomic="max", engine=engine)
    assert cells.tolist() == [2, 1, 0]
    assert not np.signbit(cells[2])


@pytest.mark.parametrize(
    ("atomic", "wanted"), [("add", np.logical_or), ("max", np.logical_or), ("min", np.logical_and)]
)
def test_truths_are_combined_as_numbers_are(atomic: str, wanted: np.ufunc, engine: str) -> None:
    truths, src = np.array([False, False, True, True]), np.array([False, True, False, True])
    expected = wanted(truths, src).tolist()
    assert pto.scatter(truths, src, np.arange(4), atomic=atomic, engine=engine).tolist() == expected


def test_a_histogram(engine: str) -> None:
    rng = np.random.default_rng(5)
    values = rng.integers(0, 20, (100, 30)).astype("uint32")
    counts = pto.scatter(np.zeros(20, "int64"), 1, values, atomic="add", engine=engine)
    assert np.array_equal(counts, np.bincount(values.ravel(), minlength=20))


# --- Nothing there ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("oob", ["undefined", "clamp", "wrap", "zero"])
def test_no_index_asks_nothing_of_the_table(oob: str, engine: str) -> None:
    for shape in [(0,), (2, 0)]:
        indices = np.zeros(shape, "int32")
        assert pto.gather(np.zeros((0, 3), "float32"), indices, oob=oob, engine=engine).shape == (*shape, 3)
        assert pto.gather(counted(4, 3), indices, oob=oob, engine=engine).shape == (*shape, 3)
    cells = np.zeros((0, 3), "float32")
    policy = "skip" if oob == "zero" else oob
    pto.scatter(cells, np.zeros((0, 3), "float32"), np.zeros(0, "int32"), oob=policy, engine=engine)


@pytest.mark.clause("A-13")
@pytest.mark.parametrize("mode", ["row", "elem"])
def test_an_empty_table_has_no_entry(mode: str, engine: str) -> None:
    empty, one = np.zeros((0, 3), "float32"), np.zeros(1, "int32")
    how: dict[str, Any] = {"coalesce": mode, "engine": engine}
    words = "indices[0] = 0 is outside the capacity of 0"
    refused(pto.OutOfBoundsError, lambda: pto.gather(empty, one, **how), words)
    refused(pto.OutOfBoundsError, lambda: pto.scatter(empty, 1, one, **how), words)
    assert not pto.gather(empty, one, oob="zero", **how).any()
    pto.scatter(empty, 1, one, oob="skip", **how)
    for oob in ("clamp", "wrap"):
        refused(pto.VerifyError, lambda oob=oob: pto.gather(empty, one, oob=oob, **how), rule="A-13")
        refused(pto.VerifyError, lambda oob=oob: pto.scatter(empty, 1, one, oob=oob, **how), rule="A-13")


def test_rows_without_elements_still_have_numbers(engine: str) -> None:
    table = np.zeros((3, 0), "float32")
    assert pto.gather(table, np.array([2, 0]), engine=engine).shape == (2, 0)
    refused(pto.OutOfBoundsError, lambda: pto.gather(table, np.array([2, 3]), engine=engine), "indices[1] = 3")
    refused(pto.OutOfBoundsError, lambda: pto.scatter(table, 1, np.array([-1]), engine=engine), "indices[0] = -1")


# --- Everybody's arrays ----------------------------------------------------------------------------------------


def test_results_begin_at_a_cache_line(engine: str) -> None:
    for dtype in ("int8", "float32", "bfloat16", "complex128"):
        for count in (1, 7, 1000):
            result = pto.gather(filled(dtype, 5, 3), np.zeros(count, "int32"), engine=engine)
            assert address(result) % 64 == 0
            assert result.flags.c_contiguous and result.flags.writeable


def test_files_larger_than_memory_are_mapped(tmp_path: Path, engine: str) -> None:
    file = tmp_path / "table"
    np.memmap(file, "float32", "w+", shape=(1000, 4))[:] = counted(1000, 4)
    table = np.memmap(file, "float32", "r+", shape=(1000, 4))
    rows = np.array([999, 3])
    assert np.array_equal(pto.gather(table, rows, engine=engine), counted(1000, 4)[rows])
    assert pto.scatter(table, -1, rows, engine=engine) is table
    table.flush()
    again = np.memmap(file, "float32", "r", shape=(1000, 4))
    assert np.flatnonzero(again[:, 0] == -1).tolist() == [3, 999]
    assert pto.gather(again, np.array([3]), engine=engine).tolist() == [[-1] * 4]
    refused(ValueError, lambda: pto.scatter(again, 0, rows, engine=engine), "table is read-only")


class Interface:
    """An object that lends its memory by `__array_interface__` alone."""

    def __init__(self, array: Array) -> None:
        self.__array_interface__ = array.__array_interface__
        self.array = array


class Capsule:
    """An object that lends its memory by DLPack alone."""

    def __init__(self, array: Array) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


@pytest.mark.parametrize("lend", [Interface, Capsule])
def test_other_libraries_lend_their_memory(lend: Callable[[Array], Any], engine: str) -> None:
    table, indices, out = counted(6, 3), np.array([5, 0]), np.zeros((2, 3), "float32")
    target = lend(out)
    assert pto.gather(lend(table), lend(indices), out=target, engine=engine) is target
    assert np.array_equal(out, table[indices])
    cells = lend(table)
    assert pto.scatter(cells, lend(out * 2), lend(indices), engine=engine) is cells
    assert np.array_equal(table[[5, 0]], out * 2)


def test_torch_tensors(engine: str) -> None:
    torch = pytest.importorskip("torch")

    def numbers(tensor: Any) -> Any:
        return (tensor if tensor.is_complex() else tensor.float()).tolist()

    for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.int8, torch.float8_e4m3fn, torch.complex64):
        table = torch.arange(12).to(dtype).reshape(4, 3)
        indices = torch.tensor([[3, 1]])
        result = pto.gather(table, indices, engine=engine)
        assert type(result) is torch.Tensor
        assert result.dtype is dtype
        assert numbers(result) == [[[9, 10, 11], [3, 4, 5]]]
        out = torch.zeros(1, 2, 3).to(dtype)
        assert pto.gather(table.T.contiguous().T, indices.int(), out=out, engine=engine) is out
        assert numbers(out) == numbers(result)
        assert pto.scatter(table, out, torch.tensor([[0, 2]]), engine=engine) is table
        assert numbers(table) == [[9, 10, 11], [3, 4, 5], [3, 4, 5], [9, 10, 11]]
    mixed = pto.gather(torch.arange(4), np.array([2]), engine=engine)
    assert type(mixed) is torch.Tensor
    assert type(pto.gather(np.arange(4), torch.tensor([2]), engine=engine)) is np.ndarray
    grad = torch.zeros(3, requires_grad=True)
    refused(TypeError, lambda: pto.scatter(grad, 1, np.array([0]), engine=engine), "scatter: table: ", "detach()")


def test_arrays_that_lie_anyhow(engine: str) -> None:
    """Backwards, between the places of elements, across their alignment: read and written all the same."""
    data = counted(6, 4)
    record = np.zeros((6, 4), [("pad", "u1"), ("x", "float32")])
    shifted = np.zeros(6 * 4 * 4 + 1, np.uint8)[1:].view("float32").reshape(6, 4)
    assert not shifted.flags.aligned
    backwards = np.zeros((6, 4), "float32")[::-1, ::-1]
    indices = np.array([4, 0, 4])
    for table in (record["x"], shifted, backwards):
        table[...] = data
        for rows in (indices, np.repeat(indices, 2)[::-2], shifted_indices(indices)):
            expected = data[rows]
            assert np.array_equal(pto.gather(table, rows, engine=engine), expected)
            out = np.zeros_like(backwards[:3])[::-1]
            assert np.array_equal(pto.gather(table, rows, out=out, engine=engine), expected)
            cells, wanted = table, data.copy()
            assert pto.scatter(cells, expected[:, ::-1], rows, atomic="add", engine=engine) is cells
            np.add.at(wanted, rows, expected[:, ::-1])
            assert np.array_equal(cells, wanted)
            table[...] = data
    assert not record["pad"].any()


def shifted_indices(indices: Array) -> Array:
    room = np.zeros(indices.nbytes + 1, np.uint8)[1:].view("int64")
    room[:] = indices
    return room


def test_memory_does_not_grow_with_what_repeats_itself(engine: str) -> None:
    few = np.array([3, 1], "int32")[::-1]
    indices, src = np.broadcast_to(few, (4_000_000, 2)), np.float32(1)
    cells = np.zeros(5, "float32")
    pto.scatter(cells, src, few, engine=engine)
    tracemalloc.start()
    pto.scatter(cells, 2 * src, indices, engine=engine)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert cells.tolist() == [0, 2, 0, 2, 0]
    assert peak < 24 << 20  # the indices alone would be 32 MB, twice that as int64


# --- Memory that is shared -------------------------------------------------------------------------------------


@pytest.mark.parametrize("backwards", [False, True])
def test_inputs_are_taken_as_they_were(backwards: bool, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole, "MOST_LANES", 1)
    step = -1 if backwards else 1
    table, indices = counted(6, 2), np.array([5, 0, 5, 1, 2, 3])
    before = table.copy()
    assert np.array_equal(pto.gather(table[::step], indices, out=table, engine=engine), before[::step][indices])
    table = before.copy()
    pto.gather(table, indices[:4], out=table[2:][::step], engine=engine)
    assert np.array_equal(table, np.concatenate([before[:2], before[indices[:4]][::step]]))
    numbers = np.array([3, 2, 1, 0])
    assert pto.gather(np.arange(4) * 10, numbers, out=numbers, engine=engine).tolist() == [30, 20, 10, 0]


def test_a_scatter_reads_before_it_writes(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole, "MOST_LANES", 1)
    table = counted(6, 2)
    before = table.copy()
    pto.scatter(table, table[:5], np.arange(1, 6), engine=engine)
    assert np.array_equal(table, np.concatenate([before[:1], before[:5]]))
    numbers = np.array([1, 2, 3, 0])
    pto.scatter(numbers, np.arange(4) * 10, numbers, engine=engine)
    assert numbers.tolist() == [30, 0, 10, 20]
    total = np.array([1.0, 2.0, 4.0])
    pto.scatter(total, total[:1], np.array([0, 0, 0]), atomic="add", engine=engine)
    assert total.tolist() == [4, 2, 4]


def test_memory_that_only_looks_shared(engine: str) -> None:
    room = counted(4, 6)
    left, right = room[:, :3], room[:, 3:]
    before = right.copy()
    pto.gather(left, np.array([3, 2, 1, 0]), out=right, engine=engine)
    assert np.array_equal(right, left[::-1])
    pto.scatter(left, before, np.arange(4), engine=engine)
    assert np.array_equal(left, before)


def test_cells_that_overlap_are_not_written(engine: str) -> None:
    room, numbers = np.zeros(10, "float32"), np.arange(4)
    assert not room.any()
    for steps in [(4, 4), (0, 4), (-4, 4)]:
        cells = as_strided(room[4:], (4, 3), steps)
        found = refused(pto.VerifyError, lambda c=cells: pto.scatter(c, 1, numbers, engine=engine), rule="CO-SEM-01")
        assert found is not None and found.operand == "table"
        table = cells.copy()
        refused(
            pto.VerifyError, lambda t=table, c=cells: pto.gather(t, numbers, out=c, engine=engine), rule="CO-SEM-01"
        )
        room[:] = counted(10)
        assert np.array_equal(pto.gather(cells, numbers, engine=engine), cells)
        room[:] = 0


# --- Refusals --------------------------------------------------------------------------------------------------


@pytest.mark.clause("MG-OOB-04")
def test_a_broken_guarantee_is_reported_in_full(engine: str) -> None:
    out = np.full((2, 3, 4), 7, "float32")
    indices = np.array([[0, 1, 2], [3, 10, -4]], "int32")
    found = refused(
        pto.OutOfBoundsError, lambda: pto.gather(counted(10, 4), indices, out=out, engine=engine), rule="MG-OOB-04"
    )
    assert found is not None
    assert found.message == "gather: indices[1, 1] = 10 is outside the capacity of 10 (and 1 more)"
    assert (found.kind, found.operand) == ("H-10", "indices")
    assert (found.expected, found.found) == ("an index below 10", "10")
    assert all(f'"{policy}"' in found.fix for policy in ("clamp", "wrap", "zero"))
    assert (out == 7).all()


@pytest.mark.clause("MS-OOB-06")
@pytest.mark.parametrize("atomic", ["none", "add", "max", "min"])
def test_a_scatter_that_is_refused_has_written_nothing(atomic: str, engine: str) -> None:
    many = np.zeros(3 * whole.MOST_LANES, "int64")
    many[-1], many[whole.MOST_LANES + 5] = 9, -1
    cells = counted(9)
    found = refused(
        pto.OutOfBoundsError, lambda: pto.scatter(cells, 5, many, atomic=atomic, engine=engine), rule="MS-OOB-06"
    )
    assert found is not None
    shown = f"scatter: indices[{whole.MOST_LANES + 5}] = -1 is outside the capacity of 9 (and 1 more)"
    assert (found.message, found.kind) == (shown, "H-11")
    assert all(f'"{policy}"' in found.fix for policy in ("skip", "clamp", "wrap"))
    assert np.array_equal(cells, counted(9))
    alone = np.array(9)
    refused(pto.OutOfBoundsError, lambda: pto.scatter(cells, 5, alone, atomic=atomic, engine=engine), "indices = 9 is")


@pytest.mark.clause("MG-TYPE-05", "MS-TYPE-05")
@pytest.mark.parametrize(
    ("kind", "shown", "fix"),
    [
        ("bool", "a mask of bool", "np.flatnonzero(mask)"), ("float64", "found float64", 'indices.astype("int64")'),
        ("float16", "found float16", "astype"), ("complex64", "found complex64", "astype"),
    ],
)  # fmt: skip
def test_indices_of_other_types(kind: str, shown: str, fix: str, engine: str) -> None:
    indices = np.zeros(2, kind)
    a = refused(pto.VerifyError, lambda: pto.gather(counted(2), indices, engine=engine), shown, fix, rule="MG-TYPE-05")
    b = refused(
        pto.VerifyError, lambda: pto.scatter(counted(2), 1, indices, engine=engine), shown, fix, rule="MS-TYPE-05"
    )
    assert a is not None and b is not None
    assert (a.kind, a.operand) == (b.kind, b.operand) == ("H-08", "indices")


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.zeros(3, object), "cannot be moved"),
        (np.zeros(3, [("a", "i4")]), "cannot be moved"),
        (np.zeros(3, "datetime64[s]"), "cannot be moved"),
        (np.zeros(3, "S4"), "cannot be moved"),
        (np.zeros(3, "V4"), "view them as a number type"),
        (np.zeros(3, "float32").astype(np.dtype("float32").newbyteorder()), "foreign byte order"),
        (np.zeros(3, "int32").astype(np.dtype("int32").newbyteorder()), "foreign byte order"),
        (np.ma.masked_array([1, 2, 3], [0, 1, 0]), "masked"),
        ({1, 2, 3}, "cannot share the memory of a set"),
        (None, "cannot share the memory of a NoneType"),
        ("table", "cannot share the memory of a str"),
    ],
)
def test_what_is_no_array_of_numbers(array: Any, words: str, engine: str) -> None:
    one = np.array([0])
    refused(TypeError, lambda: pto.gather(array, one, engine=engine), "gather: table: ", words)
    refused(TypeError, lambda: pto.gather(one, array, engine=engine), "gather: indices: ", words)
    refused(TypeError, lambda: pto.scatter(array, np.zeros(1), one, engine=engine), "scatter: table: ", words)
    refused(TypeError, lambda: pto.scatter(np.zeros(1), array, one, engine=engine), "scatter: src: ", words)
    if array is not None:
        refused(TypeError, lambda: pto.gather(one, one, out=array, engine=engine), "gather: out: ", words)


def test_what_cannot_be_written(engine: str) -> None:
    locked = np.zeros(3, "float32")
    locked.flags.writeable = False
    one = np.array([0])
    refused(ValueError, lambda: pto.scatter(locked, 1, one, engine=engine), "scatter: table is read-only")
    refused(ValueError, lambda: pto.gather(counted(3), np.arange(3), out=locked, engine=engine), "out is read-only")
    refused(TypeError, lambda: pto.scatter(np.float32(1), 1, np.array(0), coalesce="elem", engine=engine), "table: ")
    assert pto.gather(locked, one, engine=engine).tolist() == [0]


def test_shapes_and_types_must_fit(engine: str) -> None:
    table, indices = counted(5, 4), np.arange(3)
    how: dict[str, Any] = {"engine": engine}
    words = "the shape of the indices and of an entry, (3, 4)"
    for shape in [(3,), (3, 5), (4, 4), (1, 3, 4)]:
        out = np.zeros(shape, "float32")
        refused(pto.VerifyError, lambda out=out: pto.gather(table, indices, out=out, **how), words, rule="MG-SHAPE-01")
    for shape in [(3,), (3, 5), (2, 4), (1, 3, 4)]:
        src = np.zeros(shape, "float32")
        refused(pto.VerifyError, lambda src=src: pto.scatter(table, src, indices, **how), words, rule="A-22")
    wrong = np.zeros((3, 4))
    refused(pto.VerifyError, lambda: pto.gather(table, indices, out=wrong, **how), "float64", rule="MG-TYPE-06")
    refused(pto.VerifyError, lambda: pto.scatter(table, wrong, indices, **how), "src.astype", rule="MS-TYPE-06")
    scalar = np.array(1.0, "float32")
    refused(pto.VerifyError, lambda: pto.gather(scalar, indices, **how), 'coalesce="elem"', rule="MG-SHAPE-03")
    refused(pto.VerifyError, lambda: pto.scatter(scalar, 1, indices, **how), 'coalesce="elem"', rule="MS-SHAPE-02")
    assert np.array_equal(table, counted(5, 4))


@pytest.mark.parametrize(
    ("kind", "number", "cell"),
    [
        ("float32", 1, 1), ("float32", 0.5, 0.5), ("float32", True, 1), ("float16", np.float64(2048), 2048),
        ("int8", -128, -128), ("uint8", 255.0, 255), ("int64", 2**62 + 1, 2**62 + 1), ("uint64", 2**63, 2**63),
        ("complex64", 1, 1), ("complex64", 1 - 2j, 1 - 2j), ("complex128", np.float32(0.5), 0.5), ("bool", 1, True),
        ("bfloat16", np.int16(3), 3), ("int4", ml_dtypes.int4(-3), -3),
    ],
)  # fmt: skip
def test_a_number_is_scattered_exactly(kind: str, number: Any, cell: Any, engine: str) -> None:
    cells = pto.scatter(np.zeros(3, numpy_type(kind)), number, np.array([1]), engine=engine)
    assert cells.dtype == numpy_type(kind)
    assert cells[1].item() == cell
    assert not np.asarray(cells[[0, 2]]).astype(complex).any()


@pytest.mark.parametrize(
    ("kind", "number", "cell"),
    [
        ("float32", 0.1, np.float32(0.1)), ("float16", 2049, 2048), ("float16", 2051, 2052),
        ("float32", 2**24 + 1, 2**24), ("float64", 2**53 + 1, 2**53), ("complex64", 0.1, np.complex64(0.1)),
        ("complex128", 2**53 + 1, 2**53),
        ("float32", np.float64(0.1), np.float32(0.1)), ("float16", 1 + 2**-11 + 2**-40, 1 + 2**-10),
    ],
)  # fmt: skip
def test_a_float_is_rounded_once(kind: str, number: Any, cell: Any, engine: str) -> None:
    cells = pto.scatter(np.zeros(3, kind), number, np.array([1]), engine=engine)
    assert cells.tolist() == [0, complex(cell) if kind.startswith("complex") else float(cell), 0]


@pytest.mark.parametrize(
    ("kind", "number"),
    [
        ("int32", 0.5), ("int32", 2**31), ("uint8", -1), ("uint8", 256), ("float16", 70000), ("float32", 1e39),
        ("int32", float("nan")), ("complex64", 1e39), ("complex64", 1e39j), ("bool", 2), ("int64", 2**63),
    ],
)  # fmt: skip
def test_a_number_that_would_change_is_refused(kind: str, number: Any, engine: str) -> None:
    cells = filled(kind, 3)
    words = ("scatter: src: ", "is not representable in", kind)
    refused(ValueError, lambda: pto.scatter(cells, number, np.array([1]), engine=engine), *words)
    assert as_bytes(cells) == as_bytes(filled(kind, 3))


@pytest.mark.parametrize("src", [[1, 2.5, 3], (1, 2.5, 3), [[1, 2.5, 3]], [np.array([1, 2.5, 3])], [1.0]], ids=repr)
@pytest.mark.parametrize("form", [{}, {"reduce": "add"}, {"axis": -2}], ids=str)
def test_a_list_is_scattered_as_an_array(src: Any, form: dict[str, Any], engine: str) -> None:
    cells = pto.scatter(counted(2, 3), src, [1, 1], engine=engine, **form)
    expected = pto.scatter(counted(2, 3), np.array(src, "float32"), [1, 1], engine=engine, **form)
    assert np.array_equal(cells, expected)


def test_numbers_of_a_list_are_rounded_once_or_refused(engine: str) -> None:
    numbers: list[Any] = [2049, 1 + 2**-11 + 2**-40, np.float32(0.1)]
    half = pto.scatter(np.zeros(3, "float16"), numbers, range(3), engine=engine)
    assert half.tolist() == [2048, 1 + 2**-10, float(np.float16(0.1))]
    whole_numbers = pto.scatter(np.zeros(2, "int64"), [2**53 + 1, 1.0], range(2), engine=engine)
    assert whole_numbers.tolist() == [2**53 + 1, 1]
    assert pto.scatter(np.ones(2, "int8"), range(5, 7), [1, 0], engine=engine).tolist() == [6, 5]
    for kind, src, words in (
        ("int8", [1, 300], "is not representable in int8"),
        ("float16", [1, 70000], "is not representable in float16"),
        ("float32", [1, [2, 3]], "src: the rows of the list differ in length"),
        ("float32", [np.ones(2), np.ones(3)], "src: the rows of the list differ in length"),
        ("float32", [np.ones((2, 2)), np.ones((2, 3))], "src: the rows of the list differ in length"),
    ):
        cells = filled(kind, 2)
        refused(ValueError, lambda c=cells, s=src: pto.scatter(c, s, [0, 1], engine=engine), words)
        assert as_bytes(cells) == as_bytes(filled(kind, 2))
    refused(TypeError, lambda: pto.scatter(counted(2), ["one", 2], [0, 1], engine=engine), "takes a real number")
    refused(pto.VerifyError, lambda: pto.scatter(counted(2), [1, 2, 3], [0, 1], engine=engine), rule="A-22")


def test_policies_that_there_are_not(engine: str) -> None:
    table, one = counted(3), np.array([0])
    how: dict[str, Any] = {"engine": engine}
    refused(pto.VerifyError, lambda: pto.gather(table, one, oob="skip", **how), "gather: oob", rule="CO-SEM-01")
    refused(pto.VerifyError, lambda: pto.scatter(table, 1, one, oob="zero", **how), "'skip'", rule="CO-SEM-01")
    refused(pto.VerifyError, lambda: pto.scatter(table, 1, one, atomic="sum", **how), "atomic", rule="CO-SEM-01")
    refused(pto.VerifyError, lambda: pto.scatter(table, 1, one, conflict="first", **how), "'any'", rule="CO-SEM-01")
    refused(pto.VerifyError, lambda: pto.gather(table, one, coalesce="rows", **how), "'row'", rule="CO-SEM-01")
    found = refused(
        pto.VerifyError, lambda: pto.gather(table, one, oob=pto.ScatterOOB.Clamp, **how), "GatherOOB", rule="A-30"
    )
    assert found is not None and found.kind == "H-39"
    for other in (1, None, ["clamp"], {}):
        refused(pto.VerifyError, lambda oob=other: pto.gather(table, one, oob=oob, **how), rule="A-30")  # type: ignore[arg-type]


@pytest.mark.clause("A-16")
def test_arithmetic_that_makes_no_sense(engine: str) -> None:
    one, how = np.array([0]), {"engine": engine}
    for kind in ("int4", "uint4"):
        for atomic in ("add", "max", "min"):
            cells = filled(kind, 2)
            refused(pto.VerifyError, lambda c=cells, a=atomic: pto.scatter(c, c[:1], one, atomic=a, **how), rule="A-16")
    for kind in ("complex64", "complex128"):
        cells = filled(kind, 2)
        for atomic in ("max", "min"):
            refused(pto.VerifyError, lambda c=cells, a=atomic: pto.scatter(c, 1, one, atomic=a, **how), rule="A-16")


@pytest.mark.parametrize(
    ("kind", "atomic", "accumulate"),
    [
        ("float32", "add", "float32"), ("float64", "add", "float32"), ("int8", "add", "float32"),
        ("float16", "none", "float32"), ("float16", "max", "float32"), ("float16", "add", "float64"),
        ("float16", "add", "double precision"), ("float16", "add", True), ("float16", "add", []),
        ("complex64", "add", "float32"),
    ],
)  # fmt: skip
def test_sums_that_cannot_be_wider(kind: str, atomic: str, accumulate: Any, engine: str) -> None:
    cells, one = filled(kind, 2), np.array([0])
    options: dict[str, Any] = {"atomic": atomic, "accumulate": accumulate, "engine": engine}
    refused(pto.VerifyError, lambda: pto.scatter(cells, cells[:1], one, **options), "accumulate", rule="A-16")


def test_engines_and_threads(engine: str) -> None:
    table, one = counted(3), np.array([0])
    for wrong in ("gpu", "Reference", None, 3):
        refused(ValueError, lambda e=wrong: pto.gather(table, one, engine=e), "auto, reference, native, cuda")  # type: ignore[arg-type]
        refused(ValueError, lambda e=wrong: pto.scatter(table, 1, one, engine=e), "auto, reference, native, cuda")  # type: ignore[arg-type]
    for wrong in (0, -1, 1.5, "2", True, [1]):
        refused(ValueError, lambda n=wrong: pto.gather(table, one, threads=n, engine=engine), "threads", repr(wrong))  # type: ignore[arg-type]
        refused(ValueError, lambda n=wrong: pto.scatter(table, 1, one, threads=n, engine=engine), "threads")  # type: ignore[arg-type]
    assert np.array_equal(table, counted(3))
    assert pto.gather(table, one, threads=np.int64(2), engine=engine).tolist() == [0]  # type: ignore[arg-type]


@pytest.mark.clause("KN-17")
@pytest.mark.parametrize("debug", [False, True])
@pytest.mark.parametrize("name", ["gather", "scatter"])
def test_a_kernel_has_calls_of_its_own(name: str, debug: bool, engine: str) -> None:
    call = {"gather": lambda t: pto.gather(t, t, engine=engine), "scatter": lambda t: pto.scatter(t, 1, t)}[name]

    @pto.kernel
    def kernel(table):  # type: ignore[no-untyped-def]
        call(table)

    words = (f"{name} is not allowed inside a kernel", f"pto.m{name}")
    refused(pto.VerifyError, lambda: kernel[1](np.arange(4), debug=debug), *words, rule="KN-17")


# --- Which engine runs -----------------------------------------------------------------------------------------


class Native:
    """A fake native engine: it runs the reference, or does not support the case."""

    def __init__(self, takes: bool = True) -> None:
        self.takes, self.calls = takes, []

    def __call__(self, moved: whole.Whole, storages: Any, threads: int | None) -> None:
        self.calls.append(threads)
        if not self.takes:
            raise Unsupported("rows of this kind")
        whole.run(moved, storages, threads)

    def install(self, patch: pytest.MonkeyPatch) -> Native:
        patch.setattr(execute, "arrays", lambda name: self if name == "native" else whole.run)
        patch.setattr(execute, "prepared_move", lambda *_given: None)
        patch.setattr(direct, "PLANS", {})
        return self


def test_auto_takes_the_native_engine_where_there_is_one(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table, indices = counted(9, 3), np.array([8, 1])
    native = Native().install(monkeypatch)
    assert np.array_equal(pto.gather(table, indices), table[indices])
    assert np.array_equal(pto.gather(table, indices, engine="native", threads=3), table[indices])
    assert np.array_equal(pto.gather(table, indices, engine="reference", threads=3), table[indices])
    assert native.calls == [None, 3]  # the engine decides how many threads pay
    pto.gather(table, np.zeros(100_000, "int32"))
    assert native.calls == [None, 3, None]
    refused(pto.OutOfBoundsError, lambda: pto.gather(table, indices + 5), "indices[0] = 13")


def test_auto_goes_on_with_the_reference(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table, indices = counted(9, 3), np.array([8, 1])
    native = Native(takes=False).install(monkeypatch)
    assert np.array_equal(pto.gather(table, indices), table[indices])
    assert native.calls == [None]
    refused(ValueError, lambda: pto.gather(table, indices, engine="native"), "rows of this kind", 'engine="auto"')
    monkeypatch.setattr(engines, "is_installed", lambda module: False)
    monkeypatch.setattr(execute, "chosen", engines.chosen.__wrapped__)  # which asks every time
    assert np.array_equal(pto.gather(table, indices), table[indices])
    refused(ImportError, lambda: pto.gather(table, indices, engine="native"), "llvmlite")


def test_the_native_engine_is_loaded_late(engine: str) -> None:
    code = "import sys, ptokit; ptokit.gather; print('llvmlite' in sys.modules, 'ptokit.engine.native' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["False", "False"]


def test_without_llvmlite_the_reference_serves(engine: str) -> None:
    code = (
        "import sys; sys.modules['llvmlite'] = None\n"
        "import numpy as np, ptokit as pto\n"
        "print(pto.gather(np.arange(5), np.array([3, 1])).tolist())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[3, 1]"


def test_plans_know_no_sizes_and_do_not_grow_without_end(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct, "PLANS", {})
    monkeypatch.setattr(direct, "MOST_PLANS", 8)
    table, out = counted(40, 3), np.zeros(40, "float32")
    for n in range(1, 30):
        rows = np.arange(n)
        assert np.array_equal(pto.gather(table[: n + 2], rows, engine=engine), table[:n])
        assert np.array_equal(pto.gather(table[:, :2], rows.reshape(1, n), engine=engine), table[None, :n, :2])
        assert np.array_equal(pto.scatter(out, counted(n), rows, engine=engine)[:n], counted(n))
    assert len(direct.PLANS) == 2
    for kind in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float64"):
        made = table.astype(kind)
        assert np.array_equal(pto.gather(made, [1, 2], engine=engine), made[1:3])
        assert len(direct.PLANS) <= 8


def test_what_is_asked_of_an_engine(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A move over rows, layouts in elements, and storages that reach from the first element to the last."""
    seen: list[tuple[whole.Whole, dict[str, Any]]] = []
    monkeypatch.setattr(direct, "PLANS", {})
    monkeypatch.setattr(execute, "arrays", lambda name: lambda moved, storages, threads: seen.append((moved, storages)))
    table = np.zeros((10, 6), "float16")[::2, :4]
    pto.gather(table, np.zeros((2, 3), "int64"), oob="clamp", engine="reference")
    ((moved, storages),) = seen
    assert moved.move.shape == (6, 4)
    assert moved.index.capacity == 5
    assert not moved.index.cast
    assert moved.src.layout.strides == (12, 1)
    assert moved.move.dst.layout.strides == (4, 1)
    assert dict(moved.types) == {"table": "float16", "indices": "int64", "out": "float16"}
    assert {name: storage.bits.size for name, storage in storages.items()} == {"table": 52, "indices": 6, "out": 24}
    assert storages["table"].span == range(address(table), address(table) + 104)


@pytest.mark.parametrize("step", [1, 2, 3])
@pytest.mark.parametrize("kind", ["int32", "int8", "float32"])
def test_many_elements_with_gaps_between_them_combine_into_one(engine: str, kind: str, step: int) -> None:
    random = np.random.default_rng(step)
    values = random.integers(-50, 50, 30_000 * step).astype(kind)[::step]
    indices = np.sort(random.integers(0, 5, 30_000)).astype("int32")
    for atomic, reduced in (("add", np.add), ("max", np.maximum), ("min", np.minimum)):
        table = np.zeros((5, 1), kind)
        expected = [reduced.reduce(np.append(values[indices == k], 0).astype(kind), dtype=kind) for k in range(5)]
        pto.scatter(table, values[:, None], indices, atomic=atomic, engine=engine)
        assert table[:, 0].tolist() == expected
