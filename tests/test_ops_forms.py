"""The forms of `pto.gather` and `pto.scatter`: indices of all kinds, axes, words of other libraries, reductions."""

from __future__ import annotations

import warnings
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ptokit as pto
from ptokit.ops import reductions as lanes_module
from ptokit.ops.array_call import MODES, REDUCES
from tests import naive_forms as naive
from tests.property.naive_whole import ENGINES

Array = np.ndarray[Any, np.dtype[Any]]

pytestmark = pytest.mark.parametrize("engine", ENGINES)

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


def counted(*shape: int, dtype: Any = "float32") -> Array:
    return (np.arange(int(np.prod(shape))) % 100 + 1).astype(dtype).reshape(shape)


def as_bytes(array: Array) -> bytes:
    return np.ascontiguousarray(array).tobytes()


# --- Indices of all kinds --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "indices",
    [[2, 0], [[1], [0]], (2, 1, 1), range(3), range(2, -1, -1), range(0), 2, [], [[], []], np.int8(1), True + 1],
    ids=repr,
)
def test_lists_ranges_and_numbers_are_indices(indices: Any, engine: str) -> None:
    table = counted(3, 4)
    numbers = np.array(indices, "int64")
    assert np.array_equal(pto.gather(table, indices, engine=engine), table[numbers])
    cells, expected = table.copy(), table.copy()
    expected[numbers] = 0
    assert pto.scatter(cells, 0, indices, engine=engine) is cells
    assert np.array_equal(cells, expected)


@pytest.mark.parametrize("kind", INTEGERS)
@pytest.mark.parametrize("mode", ["raise", "wrap", "clip", "fill", "negative"])
def test_indices_of_every_integer_type(kind: str, mode: str, engine: str) -> None:
    table = counted(5, 3)
    values = [4, 0, 3] if mode == "raise" else [4, 0, 3, 7, 100] if mode != "negative" else [4, 0, 2]
    values += [-1, -5] if kind.startswith("i") and mode != "raise" else []
    indices = np.array(values).astype(kind)
    for given in (indices, np.repeat(indices, 2)[::2], indices[::-1]):
        shape = (given.size, 3)
        expected = naive.gathered(table, shape, naive.by_axis(table, given, 0, mode))
        assert np.array_equal(pto.gather(table, given, mode=mode, engine=engine), expected)
        src, cells = -counted(*shape), table.copy()
        pto.scatter(cells, src, given, mode="drop" if mode == "fill" else mode, engine=engine)
        assert np.array_equal(cells, naive.scattered(table, src, naive.by_axis(table, given, 0, mode)))


def test_a_large_uint64_is_outside_and_never_negative(engine: str) -> None:
    table, indices = counted(10), np.array([3, 2**63 + 7, 2**64 - 1], "uint64")
    with pytest.raises(pto.OutOfBoundsError) as caught:
        pto.gather(table, indices, engine=engine)
    assert caught.value.findings[0].message == (
        f"gather: indices[1] = {2**63 + 7} is outside the capacity of 10 (and 1 more)"
    )
    expected = {"clamp": [4, 10, 10], "wrap": [4, (2**63 + 7) % 10 + 1, (2**64 - 1) % 10 + 1], "zero": [4, 0, 0]}
    for oob, values in expected.items():
        assert pto.gather(table, indices, oob=oob, engine=engine).tolist() == values
    assert np.flatnonzero(pto.scatter(np.zeros(10), 1, indices, oob="skip", engine=engine)).tolist() == [3]
    with pytest.raises(pto.OutOfBoundsError, match=rf"scatter_nd: indices\[0, 1\] = {2**64 - 1} is outside"):
        pto.scatter_nd(np.zeros((2, 2)), 1, np.array([[0, 2**64 - 1]], "uint64"), mode="negative", engine=engine)


@pytest.mark.parametrize(
    ("indices", "words"),
    [
        ([True, False], "np.flatnonzero(mask)"), ([0.5], "found float64"), (True, "np.flatnonzero(mask)"),
        ([[1], [2, 3]], "differ in length"), (["a"], "cannot be moved"), ([2**70], "no such type holds"),
        ([2**63, -1], "no such type holds"), (range(0, 2**64, 2**62), "no such type holds"),
        (range(2**63, 2**63 + 2), "no such type holds"), (2**64, "no such type holds"),
        ({1}, "cannot share the memory of a set"), (None, "NoneType"),
    ],
)  # fmt: skip
def test_what_is_no_index(indices: Any, words: str, engine: str) -> None:
    table = counted(3)
    for options in ({}, {"mode": "clip"}, {"axis": -1}):
        with pytest.raises((TypeError, ValueError)) as caught:
            pto.gather(table, indices, engine=engine, **options)  # type: ignore[call-overload]
        assert words in str(caught.value)
        assert str(caught.value).count("gather") == 1 or caught.value.findings  # type: ignore[attr-defined]


# --- Axes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("most", [1, 1 << 20])
@pytest.mark.parametrize("shape", [(5,), (4, 5), (3, 4, 5), (2, 3, 1, 4), (3, 0, 2), (0, 3)])
def test_any_axis(shape: tuple[int, ...], most: int, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes_module, "MOST_NUMBERS", most)
    table = counted(*shape)
    random = np.random.default_rng(7)
    for axis in range(-len(shape), len(shape)):
        extent = shape[axis]
        for many in ((), (3,), (2, 2), (0,)):
            if not extent and 0 not in many:
                continue
            indices = random.integers(0, max(1, extent), many)
            expected = np.take(table, indices, axis)
            for each in (table, np.asfortranarray(table), table[::-1].copy()[::-1]):
                assert np.array_equal(pto.gather(each, indices, axis=axis, engine=engine), expected)
            out = np.zeros(expected.shape, "float32")
            assert pto.gather(table, indices, axis=axis, out=out, engine=engine) is out
            assert np.array_equal(out, expected)
            src, cells = -random.random(expected.shape).astype("float32"), table.copy("F")
            pairs = list(naive.by_axis(table, indices, axis % len(shape), "raise"))
            pto.scatter(cells, src, indices, axis=axis, reduce="add", engine=engine)
            assert as_bytes(cells) == as_bytes(naive.scattered(table, src, iter(pairs), "add"))


@pytest.mark.parametrize("most", [1, 1 << 20])
def test_policies_along_an_axis(most: int, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes_module, "MOST_NUMBERS", most)
    table, indices = counted(3, 4, 2), np.array([3, -1, 9, 0])
    for mode in ("wrap", "clip", "fill"):
        pairs = list(naive.by_axis(table, indices, 1, mode))
        assert np.array_equal(
            pto.gather(table, indices, axis=1, mode=mode, engine=engine), naive.gathered(table, (3, 4, 2), iter(pairs))
        )
        for reduce in ("none", "mul", "mean"):
            cells = pto.scatter(table.copy(), 3, indices, axis=-2, mode=mode, reduce=reduce, engine=engine)
            src = np.full((3, 4, 2), 3, "float32")
            assert as_bytes(cells) == as_bytes(naive.scattered(table, src, iter(pairs), reduce))
    before = table.copy()
    with pytest.raises(pto.OutOfBoundsError, match=r"scatter: indices\[1\] = -1 .* capacity of 4 \(and 1 more\)"):
        pto.scatter(table, 0, indices, axis=1, engine=engine)
    assert np.array_equal(table, before)


@pytest.mark.parametrize("most", [1, 1 << 20])
def test_along_an_axis_inputs_are_taken_as_they_were(most: int, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes_module, "MOST_NUMBERS", most)
    room = counted(5, 3)
    table, out = room[:4], room[1:]
    expected = np.take(table, [2, 0, 1], 1)
    pto.gather(table, [2, 0, 1], axis=1, out=out, engine=engine)
    assert np.array_equal(out, expected)
    room = counted(5, 3)
    expected = room[1:].copy()[:, [1, 2, 0]]
    pto.scatter(room[:4], room[1:], [2, 0, 1], axis=1, engine=engine)
    assert np.array_equal(room[:4], expected)


def test_axes_that_there_are_not(engine: str) -> None:
    table = counted(3, 4)
    assert pto.gather(table, [11, 0], axis=None, engine=engine).tolist() == [12, 1]
    assert pto.gather(table, [1], axis=np.int64(1), engine=engine).shape == (3, 1)  # type: ignore[arg-type]
    for axis in (2, -3, 1.5, "0", [1], np.zeros(2)):
        with pytest.raises(pto.VerifyError, match="axis is an integer from -2 to 1"):
            pto.gather(table, [0], axis=axis, engine=engine)  # type: ignore[arg-type]
    for axis in (0, -2):  # the default has no effect
        assert pto.gather(table, [11, 0], axis=axis, coalesce="elem", engine=engine).tolist() == [12, 1]
    with pytest.raises(pto.VerifyError, match="leave axis or coalesce out"):
        pto.gather(table, [0], axis=1, coalesce="elem", engine=engine)
    with pytest.raises(pto.VerifyError, match="out must have the shape"):
        pto.gather(table, [0], axis=1, out=np.zeros((1, 3), "float32"), engine=engine)
    with pytest.raises(pto.VerifyError, match="src must have the shape"):
        pto.scatter(table, np.zeros((2, 2), "float32"), [0], axis=1, engine=engine)


# --- Words of other libraries ----------------------------------------------------------------------------------


def test_a_mode_is_an_oob_for_indices_with_a_sign(engine: str) -> None:
    table, indices = counted(6), np.array([2, 8, -1, -9])
    for mode, (read, write) in MODES.items():
        if read.text == "undefined":
            with pytest.raises(pto.OutOfBoundsError, match=r"indices\[1\] = 8"):
                pto.gather(table, indices, mode=mode, engine=engine)
            continue
        expected = pto.gather(table, indices, oob=read, engine=engine)
        cells = pto.scatter(table.copy(), 0, indices, oob=write, engine=engine)
        for kind in ("int64", "int32", "int8"):  # without a warning
            assert np.array_equal(pto.gather(table, indices.astype(kind), mode=mode, engine=engine), expected)
            given = pto.scatter(table.copy(), 0, indices.astype(kind), mode=mode, engine=engine)
            assert np.array_equal(given, cells)


@pytest.mark.parametrize("kind", ["int64", "int32"])
def test_advice_on_a_negative_index(kind: str, engine: str) -> None:
    table, last = counted(3, 2), np.array([-3], kind)
    for refused in (lambda: pto.gather(table, last, engine=engine), lambda: pto.scatter(table, 1, last, engine=engine)):
        with pytest.raises(
            pto.OutOfBoundsError, match='pass mode="negative" to count from the end, keep indices from 0 up'
        ):
            refused()
    assert pto.gather(table, last, mode="negative", engine=engine).tolist() == [[1, 2]]
    for mode in (None, "negative"):
        with pytest.raises(pto.OutOfBoundsError, match='fix: keep indices from 0 up, or choose oob="clamp"'):
            pto.gather(table, last - np.array(1, kind), mode=mode, engine=engine)
    with pytest.raises(pto.OutOfBoundsError, match="fix: keep indices below the capacity"):
        pto.gather(table, [3], engine=engine)


def test_two_words_for_one_policy_are_refused(engine: str) -> None:
    table, one = counted(3), np.array([0])
    with pytest.raises(pto.VerifyError, match="oob='clamp' and mode='wrap' are two words for one policy"):
        pto.gather(table, one, oob="clamp", mode="wrap", engine=engine)
    with pytest.raises(pto.VerifyError, match="pass atomic or reduce"):
        pto.scatter(table, 1, one, atomic="add", reduce="sum", engine=engine)
    for mode in ("clamp", "Raise", 1, ["wrap"]):
        with pytest.raises(pto.VerifyError, match="mode: unknown value"):
            pto.gather(table, one, mode=mode, engine=engine)  # type: ignore[arg-type]
    for reduce in ("average", "ADD", 1):
        with pytest.raises(pto.VerifyError, match="reduce: unknown value"):
            pto.scatter(table, 1, one, reduce=reduce, engine=engine)  # type: ignore[arg-type]
    with pytest.raises(pto.VerifyError, match="include_self is True or False"):
        pto.scatter(table, 1, one, include_self=1, engine=engine)  # type: ignore[arg-type]
    assert np.array_equal(table, counted(3))


@pytest.mark.parametrize("reduce", [None, "mean", "max"])
@pytest.mark.parametrize("axis", [0, 1])
def test_negative_int32_indices_warn_once(axis: int, reduce: str | None, engine: str) -> None:
    table, indices = counted(4, 4), np.array([1, -2, -1], "int32")
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        options: dict[str, Any] = {"axis": axis, "oob": "clamp", "engine": engine}
        pto.scatter(table, 1, indices, reduce=reduce, include_self=reduce is None, **options)
    (warning,) = seen
    assert isinstance(warning.message, pto.HazardWarning)
    assert "indices[1] = -2 is negative and counts as 4294967294 (and 1 more)" in str(warning.message)


# --- Reductions ------------------------------------------------------------------------------------------------

KINDS = (
    *("int8", "uint8", "int16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64"),
    *(ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2),
)


def values(kind: Any, *shape: int) -> Array:
    """Numbers of both signs whose sums and products round, with some NaNs and infinities."""
    random, dtype = np.random.default_rng(3), np.dtype(kind)
    if dtype.kind in "iu":
        return random.integers(-7 if dtype.kind == "i" else 0, 8, shape).astype(dtype)
    found = random.normal(0, 1, shape) * random.choice([1, 0.1, 3], shape)
    found[random.random(shape) < 0.03] = np.nan
    found[random.random(shape) < 0.03] = -0.0
    if dtype.itemsize > 1:
        found[random.random(shape) < 0.03] = np.inf
    return found.astype("float32").astype(dtype)


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", ["add", "mul", "max", "min", "mean"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: np.dtype(kind).name)
def test_reductions_step_by_step(kind: Any, reduce: str, include_self: bool, engine: str) -> None:
    for width, capacity, count in ((1, 7, 60), (40, 5, 12), (3, 6, 20)):
        table, src = values(kind, capacity, width), values(kind, count, width)
        indices = np.random.default_rng(width).integers(-1, capacity + 1, count)
        expected = naive.scattered(table, src, naive.by_axis(table, indices, 0, "drop"), reduce, include_self)
        for threads in (1, 3):
            cells, options = table.copy(), {"reduce": reduce, "include_self": include_self, "engine": engine}
            pto.scatter(cells, src, indices, mode="drop", threads=threads, **options)  # type: ignore[arg-type]
            assert as_bytes(cells) == as_bytes(expected)


@pytest.mark.parametrize("kind", ["int32", "uint8", "float32", "float16", "bool"])
@pytest.mark.parametrize("step", [1, 2])
def test_many_products_into_few_cells(kind: str, step: int, engine: str) -> None:
    """Enough lanes for the ways in which the native engine divides them."""
    random = np.random.default_rng(step)
    is_float = kind.startswith("float")
    count = 60_000 * step
    src = (random.uniform(0.9, 1.1, count) if is_float else random.choice([1, 3, 7], count)).astype(kind)[::step]
    for indices in (np.sort(random.integers(0, 5, 60_000)), random.integers(0, 5, 60_000)):
        expected = [np.multiply.accumulate(np.append(1, src[indices == k]), dtype=kind)[-1] for k in range(5)]
        for threads in (1, 2, 5):
            cells = pto.scatter(np.ones(5, kind), src, indices, reduce="prod", engine=engine, threads=threads)
            assert as_bytes(cells) == as_bytes(np.array(expected, kind))


def test_every_word_for_a_reduction(engine: str) -> None:
    table, src, indices = counted(5), values("float32", 30) + 1, np.arange(30) % 5
    for word, reduction in REDUCES.items():
        name = "mean" if reduction.is_mean else reduction.combine.name.lower().replace("store", "none")
        expected = naive.scattered(table, src, naive.by_axis(table, indices, 0, "raise"), name)
        assert as_bytes(pto.scatter(table.copy(), src, indices, reduce=word, engine=engine)) == as_bytes(expected)


@pytest.mark.parametrize("word", ["mul", "mean", "sum"])
def test_a_reduction_that_is_passed_as_an_atomic(word: str, engine: str) -> None:
    forms: list[dict[str, Any]] = [{}, {"axis": 1}]
    for form in forms:
        with pytest.raises(pto.VerifyError, match=f'fix: pass reduce="{word}" instead'):
            pto.scatter(counted(3, 2), 1, [0], atomic=word, engine=engine, **form)
    with pytest.raises(pto.VerifyError, match="fix: expected one of 'none', 'add'"):
        pto.scatter(counted(3), 1, [0], atomic="median", engine=engine)


def test_means_of_integers_round_down_and_untouched_cells_stay(engine: str) -> None:
    cells = np.array([-7, 100, 5], "int8")
    pto.scatter(cells, np.array([-2, 0, 4], "int8"), [0, 0, 2], reduce="mean", engine=engine)
    assert cells.tolist() == [-3, 100, 4]
    pto.scatter(cells, np.array([-2, 1], "int8"), [0, 0], reduce="mean", include_self=False, engine=engine)
    assert cells.tolist() == [-1, 100, 4]
    halves = np.array([2048], "float16")
    ones = np.ones(3, "float16")
    pto.scatter(halves, ones, [0, 0, 0], reduce="mean", accumulate="float32", engine=engine)
    assert halves.tolist() == [2052 / 4]


def test_reductions_that_make_no_sense(engine: str) -> None:
    for kind, reduce in (("complex64", "mul"), ("complex64", "mean"), ("bool", "mean"), ("complex128", "max")):
        cells = np.zeros(3, kind)
        with pytest.raises(pto.VerifyError, match="A-16"):
            pto.scatter(cells, 1, [0], reduce=reduce, engine=engine)
        assert not cells.any()
    assert pto.scatter(np.zeros(3, "complex64"), 1j, [1, 1], reduce="sum", engine=engine)[1] == 2j


@pytest.mark.parametrize("reduce", ["add", "mean", "mul"])
def test_a_refused_reduction_has_written_nothing(reduce: str, engine: str) -> None:
    cells = counted(4, 2)
    options: dict[str, Any] = {"reduce": reduce, "include_self": False, "engine": engine}
    with pytest.raises(pto.OutOfBoundsError, match=r"scatter: indices\[1\] = 4"):
        pto.scatter(cells, 1, [0, 4], **options)
    with pytest.raises(pto.VerifyError, match="src must have the shape"):
        pto.scatter(cells, np.zeros((3, 2), "float32"), [0, 1], **options)
    with pytest.raises(pto.VerifyError, match=r"src\.astype"):
        pto.scatter(cells, np.zeros((2, 2)), [0, 1], **options)
    assert np.array_equal(cells, counted(4, 2))


@pytest.mark.parametrize("reduce", ["add", "mean", "mul", "max"])
def test_a_reduction_reads_before_it_writes(reduce: str, engine: str) -> None:
    table = counted(6, 2)
    src, indices = table[:3].copy(), np.array([1, 0, 1])
    expected = naive.scattered(table, src, naive.by_axis(table, indices, 0, "raise"), reduce, include_self=False)
    pto.scatter(table, table[:3], indices, reduce=reduce, include_self=False, engine=engine)
    assert np.array_equal(table, expected)


# --- Advice ----------------------------------------------------------------------------------------------------


def test_advice_is_in_the_callers_own_library(engine: str) -> None:
    torch = pytest.importorskip("torch")
    table, one = torch.zeros(4, 3), torch.tensor([1])
    for call, words in (
        (lambda: pto.gather(table, one.double(), engine=engine), "indices.to(torch.int64)"),
        (lambda: pto.gather(table, one.bool(), engine=engine), "mask.flatten().nonzero().flatten()"),
        (lambda: pto.gather(table, [True], engine=engine), "mask.flatten().nonzero().flatten()"),
        (lambda: pto.gather(table, np.array([0.5]), engine=engine), 'indices.astype("int64")'),
        (lambda: pto.gather(table, one, out=torch.zeros(2), engine=engine), "torch.empty((1, 3), dtype=table.dtype"),
        (lambda: pto.scatter(table, torch.zeros(1, 3).double(), one, engine=engine), "src.to(table.dtype)"),
        (lambda: pto.gather_along(table, one.double()[:, None], engine=engine), "indices.to(torch.int64)"),
    ):
        with pytest.raises(pto.VerifyError) as caught:
            call()
        assert words in str(caught.value)


def test_torch_tensors_take_all_forms(engine: str) -> None:
    torch = pytest.importorskip("torch")
    table = torch.arange(24.0).reshape(2, 3, 4)
    found = pto.gather(table, [2, 0], axis=1, engine=engine)
    assert type(found) is torch.Tensor and torch.equal(found, table[:, [2, 0]])
    index = torch.tensor([[[0, 2, 1, 1]]])
    assert torch.equal(pto.gather_along(table, index, axis=1, engine=engine), torch.gather(table, 1, index))
    for reduce in ("sum", "prod", "mean", "amax", "amin"):
        for include_self in (True, False):
            for dtype in (torch.float32, torch.int32, torch.float64):
                src = torch.tensor([[5, 2, 3], [3, -7, 1]]).to(dtype)
                where = torch.tensor([[0, 1, 1], [1, 1, 0]])
                cells = torch.tensor([[4, 2, 7], [1, 2, 8], [-5, 3, 1]]).to(dtype)
                expected = cells.clone().scatter_reduce_(0, where, src, reduce, include_self=include_self)
                version = cells._version
                options: dict[str, Any] = {"reduce": reduce, "include_self": include_self, "engine": engine}
                assert pto.scatter_along(cells, src, where, **options) is cells
                assert torch.equal(cells, expected), (reduce, include_self, dtype)
                assert cells._version > version


def test_a_number_is_scattered_into_a_table_that_is_copied(engine: str) -> None:
    """An array without dims is copied as an array; a NumPy number has no memory of its own."""
    for _ in range(20):
        table = np.arange(4.0)[::-1]
        pto.scatter(table, np.array(1.5), np.array(3), atomic="add", engine=engine)
        assert table.tolist() == [3, 2, 1, 1.5]
    alone = np.array(5.0)
    pto.scatter(alone, alone, 0, coalesce="elem", atomic="add", engine=engine)
    assert alone == 10


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32", "float64"])
def test_a_whole_number_is_rounded_once(kind: str, engine: str) -> None:
    """Of the numbers around a tie of the type, those that float64 takes for the tie."""
    numpy_type = ml_dtypes.bfloat16 if kind == "bfloat16" else np.dtype(kind)
    bits = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}[kind]
    top = 15 if kind == "float16" else 62
    for sign in (1, -1):
        for number in ((1 << top) + (1 << (top - bits)) + 1, (1 << top) + (3 << (top - bits)) - 1, (1 << top) + 1):
            step = 1 << (top - bits + 1)
            low = number // step * step
            nearest = low if number - low < low + step - number else low + step
            table = pto.scatter(np.zeros(1, numpy_type), sign * number, [0], engine=engine)
            assert int(table[0]) == sign * nearest, number


def test_whole_numbers_of_any_size_are_rounded_or_refused(engine: str) -> None:
    assert pto.scatter(np.zeros(1, "float32"), 2**70 + 1, [0], engine=engine).tolist() == [2.0**70]
    assert pto.scatter(np.zeros(1, "float64"), -(2**80), [0], engine=engine).tolist() == [-(2.0**80)]
    for kind in ("float16", "float32", "float64"):
        with pytest.raises(ValueError, match="it would become infinite"):
            pto.scatter(np.zeros(1, kind), 2**2000, [0], engine=engine)


def test_include_self_is_refused_by_name(engine: str) -> None:
    with pytest.raises(pto.VerifyError) as refusal:
        pto.scatter(np.zeros(2), 1, [0], reduce="sum", include_self=1, engine=engine)  # pyright: ignore[reportArgumentType]
    (finding,) = refusal.value.findings
    assert (finding.operand, finding.kind) == ("include_self", "H-39")


@pytest.mark.parametrize("reduce", ["mean", "mul", "amax"])
@pytest.mark.parametrize("mode", ["negative", "raise"])
def test_a_type_without_the_reduction_is_refused_before_indices_are_read(reduce: str, mode: str, engine: str) -> None:
    with pytest.raises(pto.VerifyError, match="complex64"):
        pto.scatter(np.ones(3, "complex64"), 1, [127], mode=mode, reduce=reduce, engine=engine)
