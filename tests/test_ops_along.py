"""`gather_along`, `scatter_along`, `gather_nd`, `scatter_nd` against plain loops, and the tests of ONNX and NumPy."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import pytest

import ptokit as pto
from tests import naive_forms as naive
from tests.property.naive_whole import ENGINES

Array = np.ndarray[Any, np.dtype[Any]]

pytestmark = pytest.mark.parametrize("engine", ENGINES)

MODES = ("raise", "wrap", "clip", "fill", "negative")


def values(random: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return random.normal(0, 3, shape).astype("float32")


def indices_of(random: np.random.Generator, shape: tuple[int, ...], capacity: Any, mode: str) -> Array:
    """Indices that a mode allows."""
    low = 0 if mode == "raise" else -capacity if mode == "negative" else -2 * capacity
    high = capacity if mode in ("raise", "negative") else 2 * capacity
    return random.integers(low, high, shape)


def laid_out(random: np.random.Generator, array: Array) -> Array:
    """The same array in some memory layout."""
    how = random.integers(4)
    if how == 0:
        return np.asfortranarray(array)
    if how == 1:
        return np.repeat(array, 2, -1)[..., ::2] if array.ndim else array
    return array[::-1].copy()[::-1] if how == 2 and array.ndim else array


# --- Along an axis ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_along_an_axis(mode: str, engine: str) -> None:
    random = np.random.default_rng(MODES.index(mode))
    for _ in range(30):
        shape = tuple(random.integers(1, 5, random.integers(1, 5)).tolist())
        axis = int(random.integers(len(shape)))
        most = [5 if dim == axis else n for dim, n in enumerate(shape)]
        extents = tuple(int(random.integers(dim != axis, n + 1)) for dim, n in enumerate(most))
        table, indices = values(random, shape), indices_of(random, extents, shape[axis], mode)
        pairs = list(naive.along(table, indices, axis, mode))
        given = laid_out(random, table)
        options: dict[str, Any] = {"axis": axis - len(shape) * int(random.integers(2)), "mode": mode, "engine": engine}
        found = pto.gather_along(given, laid_out(random, indices), **options)
        assert np.array_equal(found, naive.gathered(table, extents, iter(pairs)))
        src, reduce = values(random, extents), str(random.choice(["none", "add", "mul", "max", "min", "mean"]))
        include = bool(random.integers(2))
        cells = given.copy("K")
        assert pto.scatter_along(cells, src, indices, reduce=reduce, include_self=include, **options) is cells
        assert cells.tobytes() == naive.scattered(table, src, iter(pairs), reduce, include).tobytes()


@pytest.mark.parametrize("mode", MODES)
def test_by_coordinates(mode: str, engine: str) -> None:
    random = np.random.default_rng(MODES.index(mode))
    for _ in range(30):
        shape = tuple(random.integers(1, 5, random.integers(1, 5)).tolist())
        batch = int(random.integers(len(shape)))
        depth = int(random.integers(1, len(shape) - batch + 1))
        lanes = shape[:batch] + tuple(random.integers(0, 4, random.integers(3)).tolist())
        table = values(random, shape)
        capacities = np.array(shape[batch : batch + depth])
        indices = indices_of(random, (*lanes, depth), capacities, mode)
        pairs = list(naive.nd(table, indices, batch, mode))
        result = lanes + shape[batch + depth :]
        options: dict[str, Any] = {"batch_dims": batch, "mode": mode, "engine": engine}
        found = pto.gather_nd(laid_out(random, table), laid_out(random, indices), **options)
        assert np.array_equal(found, naive.gathered(table, result, iter(pairs)))
        src, reduce = values(random, result), str(random.choice(["none", "add", "mul", "max", "min", "mean"]))
        cells = table.copy()
        pto.scatter_nd(cells, src, indices, reduce=reduce, **options)
        assert cells.tobytes() == naive.scattered(table, src, iter(pairs), reduce).tobytes()


def test_options_are_those_of_gather_and_scatter(engine: str) -> None:
    table = np.arange(12, dtype="float32").reshape(3, 4)
    out = np.zeros((2, 4), "float32")
    where = [[2, 0, 1, 2], [0, 0, 0, 9]]
    assert pto.gather_along(table, where, oob="zero", out=out, engine=engine, threads=2) is out
    assert out.tolist() == [[8, 1, 6, 11], [0, 1, 2, 0]]
    assert pto.gather_nd(table, [[2, 3], [0, 1]], engine=engine).tolist() == [11, 1]
    assert pto.gather_nd(table, [-1], mode="negative", engine=engine).tolist() == [8, 9, 10, 11]
    assert pto.scatter_nd(table.copy(), 5, [[1]], atomic="add", engine=engine)[1].tolist() == [9, 10, 11, 12]
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        found = pto.gather_along(table, np.array([[-1, 0, 0, 0]], "int32"), oob="clamp", engine=engine)
    assert found.tolist() == [[8, 1, 2, 3]]
    assert [type(each.message) for each in seen] == [pto.HazardWarning]


def test_inputs_are_taken_as_they_were(engine: str) -> None:
    room = np.arange(12, dtype="int64").reshape(3, 4)
    expected = room[[1, 0, 2]][:, :4]
    pto.gather_along(room, [[1] * 4, [0] * 4, [2] * 4], out=room, engine=engine)
    assert np.array_equal(room, expected)
    room = np.arange(4)
    pto.scatter_along(room, room, 3 - room, engine=engine)
    assert room.tolist() == [3, 2, 1, 0]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda t, e: pto.gather_along(t, [0], engine=e), "as many dims as the table"),
        (lambda t, e: pto.gather_along(np.float32(1), 0, engine=e), "at least one"),
        (lambda t, e: pto.gather_along(t, np.zeros((1, 5), int), engine=e), "are longer than the table (3, 4)"),
        (lambda t, e: pto.gather_along(t, [[0]], axis=2, engine=e), "axis is an integer from -2 to 1"),
        (lambda t, e: pto.scatter_along(t, np.zeros(2, "float32"), [[0]], engine=e), "src must have the shape"),
        (lambda t, e: pto.gather_nd(t, 0, engine=e), "holds 1 to 2 coordinates"),
        (lambda t, e: pto.gather_nd(t, [[0, 0, 0]], engine=e), "holds 1 to 2 coordinates"),
        (lambda t, e: pto.gather_nd(t, [[0]], batch_dims=1, engine=e), "batch_dims counts dims that"),
        (lambda t, e: pto.gather_nd(t, [[0]], batch_dims=-1, engine=e), "batch_dims counts dims that"),
        (lambda t, e: pto.gather_nd(t, [[0.5]], engine=e), "indices are integers"),
        (lambda t, e: pto.gather_nd(t, [[0]], mode="wrap", oob="wrap", engine=e), "two words for one policy"),
        (lambda t, e: pto.gather_along(t, [[0]], threads=0, engine=e), "threads"),
        (lambda t, e: pto.gather_along(t, [[0]], engine="gpu"), "auto, reference, native, cuda"),
        (lambda t, e: pto.gather_along(t[:0], [[0] * 4], oob="clamp", engine=e), "the table is empty"),
        (lambda t, e: pto.gather_along(t, [[0], [3]], engine=e), "gather_along: indices[1, 0] = 3 is outside"),
        (lambda t, e: pto.gather_nd(t, [[0, 4], [3, 0]], engine=e), "= 4 is outside the capacity of 4 (and 1 more)"),
        (lambda t, e: pto.scatter_nd(t, 1, [[0, -1]], engine=e), "scatter_nd: indices[0, 1] = -1 is outside the capac"),
    ],
)  # fmt: skip
def test_refusals(call: Callable[[Array, str], Any], words: str, engine: str) -> None:
    table = np.arange(12, dtype="float32").reshape(3, 4)
    with pytest.raises((ValueError, pto.OutOfBoundsError)) as caught:
        call(table, engine)
    assert words in str(caught.value)
    assert np.array_equal(table.ravel(), np.arange(12))


@pytest.mark.clause("KN-17")
@pytest.mark.parametrize("name", ["gather_along", "scatter_along", "gather_nd", "scatter_nd"])
def test_not_inside_a_kernel(name: str, engine: str) -> None:
    @pto.kernel
    def kernel(table):  # type: ignore[no-untyped-def]
        getattr(pto, name)(*[table] * (3 if name.startswith("scatter") else 2), engine=engine)

    with pytest.raises(pto.VerifyError, match=f"{name} is not allowed inside a kernel"):
        kernel[1](np.arange(4))


# --- ONNX ------------------------------------------------------------------------------------------------------


def onnx_node(operator: str, attributes: dict[str, Any], inputs: list[Array], engine: str) -> Array:
    """A thin adapter: an operator of ONNX, whose indices may count from the end, as a call."""
    data, *others = inputs
    options: dict[str, Any] = {"mode": "negative", "engine": engine}
    if operator == "Gather":
        return pto.gather(data, others[0], axis=attributes.get("axis", 0), **options)
    if operator == "GatherElements":
        return pto.gather_along(data, others[0], axis=attributes.get("axis", 0), **options)
    if operator == "GatherND":
        return pto.gather_nd(data, others[0], batch_dims=attributes.get("batch_dims", 0), **options)
    indices, updates = others
    options["reduce"] = attributes.get("reduction", "none")
    if operator in ("ScatterElements", "Scatter"):
        return pto.scatter_along(data.copy(), updates, indices, axis=attributes.get("axis", 0), **options)
    assert operator == "ScatterND"
    return pto.scatter_nd(data.copy(), updates, indices, **options)


NODES = ("gather", "gatherelements", "gathernd", "scatter", "scatterelements", "scatternd")
"""The modules of ONNX's tests of these operators; loading those of all operators takes half a minute."""


def test_the_node_tests_of_onnx(engine: str) -> None:
    onnx = pytest.importorskip("onnx")
    home = import_module("onnx.backend.test.case.node")
    for name in NODES:
        import_module(f"{home.__name__}.{name}")
    cases = [each for each in home._NodeTestCases if each.name.startswith(("test_gather", "test_scatter"))]
    assert len(cases) >= 26
    for case in cases:
        (node,) = case.model.graph.node
        given = {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}
        attributes = {name: each.decode() if isinstance(each, bytes) else each for name, each in given.items()}
        for inputs, (expected,) in case.data_sets:
            found = onnx_node(node.op_type, attributes, list(inputs), engine)
            assert found.dtype == expected.dtype and np.array_equal(found, expected), case.name


AXES: list[dict[str, Any]] = [{"axis": 0}, {"axis": 1}, {}, {"axis": -1}]


@pytest.mark.parametrize("attributes", AXES, ids=str)
@pytest.mark.parametrize("operator", ["Gather", "GatherElements", "ScatterElements"])
def test_operators_of_onnx_along_an_axis(operator: str, attributes: dict[str, Any], engine: str) -> None:
    random = np.random.default_rng(1)
    data, axis = values(random, (3, 4)), attributes.get("axis", 0) % 2
    for shape in ((2, 3), (1, 4), (3, 1)):
        indices = random.integers(-data.shape[axis], data.shape[axis], shape)
        if operator == "Gather":
            found = onnx_node(operator, attributes, [data, indices], engine)
            assert np.array_equal(found, np.take(data, indices, axis))
            continue
        pairs = list(naive.along(data, indices, axis, "negative"))
        if operator == "GatherElements":
            found = onnx_node(operator, attributes, [data, indices], engine)
            assert np.array_equal(found, naive.gathered(data, shape, iter(pairs)))
            continue
        updates = values(random, shape)
        for reduction in ("none", "add", "mul", "max", "min"):
            options = {**attributes, "reduction": reduction}
            found = onnx_node(operator, options, [data, indices, updates], engine)
            assert np.array_equal(found, naive.scattered(data, updates, iter(pairs), reduction))


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
def test_operators_of_onnx_by_coordinates(reduction: str, engine: str) -> None:
    random = np.random.default_rng(2)
    data = values(random, (4, 4, 4))
    for shape in ((2, 1), (4, 3), (2, 2, 2)):
        indices = random.integers(-4, 4, shape)
        pairs = list(naive.nd(data, indices, 0, "negative"))
        result = shape[:-1] + data.shape[shape[-1] :]
        assert np.array_equal(
            onnx_node("GatherND", {}, [data, indices], engine), naive.gathered(data, result, iter(pairs))
        )
        updates = values(random, result)
        found = onnx_node("ScatterND", {"reduction": reduction}, [data, indices, updates], engine)
        assert np.array_equal(found, naive.scattered(data, updates, iter(pairs), reduction))


# --- NumPy's own tests of take and put -------------------------------------------------------------------------


def take(
    array: Array, indices: Any, engine: str, *, axis: int | None = None, mode: str = "raise", **more: Any
) -> Array:
    """`np.take`, whose `raise` lets indices count from the end."""
    mode = "negative" if mode == "raise" else mode
    return pto.gather(array, indices, axis=axis, mode=mode, engine=engine, **more)


def put(array: Array, indices: Any, data: Array, engine: str, mode: str = "raise") -> None:
    """`np.put`, which repeats its values."""
    count = np.size(indices)
    source = np.resize(data, count).astype(array.dtype).reshape(np.shape(indices))
    mode = "negative" if mode == "raise" else mode
    pto.scatter(array, source, indices, coalesce="elem", mode=mode, engine=engine)


def test_take_as_numpy_tests_it(engine: str) -> None:
    random = np.random.default_rng(0)
    x = (random.random(24) * 100).reshape(2, 3, 4)
    for code in "?bBhHiIlLqQefdgFDG":
        given = x.astype(code)
        assert np.array_equal(take(given, [0, 1], engine, axis=0), given)
    for bad in ([0, 1, 2], [-3]):
        with pytest.raises(pto.OutOfBoundsError):
            take(x, bad, engine, axis=0)
    assert np.array_equal(take(x, [-1], engine, axis=0)[0], x[1])
    for index, mode, row in ((-1, "clip", 0), (2, "clip", 1), (-1, "wrap", 1), (2, "wrap", 0), (3, "wrap", 1)):
        assert np.array_equal(take(x, [index], engine, axis=0, mode=mode)[0], x[row])
    y = np.arange(5)
    assert take(y, [1, 2, 3], engine, out=y[2:5], mode="wrap").tolist() == [1, 2, 3]
    for shape in ((1, 2), (1,), ()):
        out = np.zeros(shape, y.dtype)
        assert take(y, np.zeros(shape, np.intp), engine, out=out) is out
    table = np.array([[1, 2], [3, 4]])
    real: dict[str, dict[int, int | None]] = {
        "raise": {-1: 1, 4: None}, "wrap": {-1: 1, 4: 0}, "clip": {-1: 0, 4: 1},
    }  # fmt: skip
    for mode, columns in real.items():
        assert take(table, np.empty(0, np.intp), engine, mode=mode, axis=1).shape == (2, 0)
        for index, column in columns.items():
            for shape in ((), (1, 1)):
                if column is None:
                    with pytest.raises(pto.OutOfBoundsError):
                        take(table, np.full(shape, index), engine, mode=mode, axis=1)
                else:
                    found = take(table, np.full(shape, index), engine, mode=mode, axis=1)
                    assert np.array_equal(found, table[:, column].reshape(2, *shape))
    with pytest.raises(ValueError, match="mode"):
        take(y, 5, engine, mode="\u00e4")


@pytest.mark.parametrize("mode", ["raise", "wrap", "clip"])
def test_put_as_numpy_tests_it(mode: str, engine: str) -> None:
    random = np.random.default_rng(5)
    for code in "?bBhHiIlLqQefdgFDG":
        data = np.arange(1001).astype(code)
        indices = random.integers(-1000, 1000, 1000) if mode == "raise" else random.integers(-2000, 2000, 1000)
        cells, expected = np.zeros(1000, code), np.zeros(1000, code)
        np.put(expected, indices, data, mode=mode)  # type: ignore[arg-type]
        put(cells, indices, data, engine, mode)
        assert np.array_equal(cells, expected)
    empty = np.zeros(1000)
    put(empty, [], np.zeros(1), engine, mode)
    assert not empty.any()
    if mode != "raise":
        with pytest.raises(pto.VerifyError, match="the table is empty"):
            put(np.array([]), [1], np.ones(1), engine, mode)
    a = np.zeros((2, 5))
    put(a, [1, 3, 5], np.array([1, 3, 5]), engine, mode)
    assert a.tolist() == [[0, 1, 0, 3, 0], [5, 0, 0, 0, 0]]
