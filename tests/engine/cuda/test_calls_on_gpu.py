"""`pto.gather` and `pto.scatter` over arrays on an emulated GPU: results, libraries, copies, streams and versions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ptokit as pto
from ptokit import engines
from ptokit.engine.kept import remember
from ptokit.ops import direct, execute
from tests.engine.cuda.fakes import Described, FakeArray, FakeGpus, FakeTensor, Lent

Host = np.ndarray[Any, np.dtype[Any]]
RANDOM = np.random.default_rng(16)
INDICES = np.array([[3, 0], [5, 3]])


def table(kind: Any = "float32", rows: int = 6, cols: int = 8) -> Host:
    return RANDOM.integers(0, 60, (rows, cols)).astype(kind)


@pytest.mark.parametrize("kind", ["float32", "int8", ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn])
def test_a_gather_returns_an_array_of_the_tables_library(emulated: FakeGpus, kind: Any) -> None:
    values = table(kind)
    found = pto.gather(FakeArray(values), FakeArray(INDICES))
    assert type(found) is FakeArray and found.dtype == values.dtype
    assert np.array_equal(found.host, values[INDICES])
    found = pto.gather(FakeTensor(values), FakeArray(INDICES.astype("int32")), coalesce="elem")
    assert type(found) is FakeTensor and np.array_equal(found.host, values.reshape(-1)[INDICES])
    found = pto.gather(Lent(values), FakeTensor(INDICES))
    assert type(found) is FakeArray and np.array_equal(found.host, values[INDICES])


def test_interfaces_are_gathered_from_and_express_the_types_of_numpy(emulated: FakeGpus) -> None:
    values = table()
    found = pto.gather(Described(emulated, values), FakeArray(INDICES))
    assert type(found) is FakeArray and np.array_equal(found.host, values[INDICES])
    with pytest.raises(TypeError, match="gather: table: arrays of raw void elements"):
        pto.gather(Described(emulated, table(ml_dtypes.bfloat16)), FakeArray(INDICES))


def test_the_gpu_of_the_arrays_does_the_work(emulated: FakeGpus) -> None:
    values = table()
    found = pto.gather(FakeArray(values, 1), FakeArray(INDICES, 1))
    assert found.gpu == 1 and np.array_equal(found.host, values[INDICES])
    assert emulated.current == 0 and emulated.worked == {1}


def test_a_gather_into_an_array(emulated: FakeGpus) -> None:
    values, out = table(), FakeArray(np.zeros((2, 2, 8), "float32"))
    assert pto.gather(FakeArray(values), FakeArray(INDICES), out=out) is out
    assert np.array_equal(out.host, values[INDICES])


@pytest.mark.parametrize("wrap", [FakeArray, FakeTensor])
def test_what_is_written_is_copied_if_it_shares_memory_with_what_is_read(emulated: FakeGpus, wrap: Any) -> None:
    values = table()
    expected, given = values[[1, 2, 3]], wrap(values)
    out = wrap(values[2:5])
    assert pto.gather(given, wrap(np.array([1, 2, 3])), out=out) is out
    assert np.array_equal(values[2:5], expected)
    expected = values.copy()
    expected[[3, 4]] = values[[2, 3]]
    pto.scatter(given, wrap(values[2:4]), wrap(np.array([3, 4])))
    assert np.array_equal(values, expected)


def test_layouts_that_no_engine_supports_are_copied(emulated: FakeGpus) -> None:
    values = table()
    found = pto.gather(FakeArray(values[::-1, ::-2]), FakeArray(INDICES[:, ::-1]))
    assert np.array_equal(found.host, values[::-1, ::-2][INDICES[:, ::-1]])
    out = np.zeros((2, 2, 8), "float32")
    pto.gather(FakeArray(values), FakeArray(INDICES), out=FakeArray(out[::-1]))
    assert np.array_equal(out[::-1], values[INDICES])
    expected = values.copy()
    expected[::-1][[1, 4]] = 9
    pto.scatter(FakeArray(values[::-1]), 9, FakeArray(np.array([1, 4])))
    assert np.array_equal(values, expected)
    repeated = np.broadcast_to(values[:1], (3, 8))[:, ::-1]
    found = pto.gather(FakeArray(repeated), FakeArray(np.array([2, 0])))
    assert np.array_equal(found.host, repeated[[2, 0]])


@pytest.mark.parametrize("conflict", ["last", "default", "any"])
@pytest.mark.parametrize("atomic", ["none", "add", "max"])
def test_a_scatter_writes_the_array_itself(emulated: FakeGpus, atomic: str, conflict: str) -> None:
    values, data = table("int32"), table("int32", 4)
    indices = np.array([4, 0, 2, 5])
    expected = pto.scatter(values.copy(), data, indices, atomic=atomic, conflict=conflict)
    given = FakeArray(values)
    options: dict[str, Any] = {"atomic": atomic, "conflict": conflict}
    assert pto.scatter(given, FakeArray(data), FakeArray(indices), **options) is given
    assert np.array_equal(values, expected)


def test_numbers_are_scattered_to_a_gpu(emulated: FakeGpus) -> None:
    counts = np.zeros(5, "int64")
    pto.scatter(FakeArray(counts), 1, FakeArray(np.array([2, 0, 2])), atomic="add")
    assert counts.tolist() == [1, 0, 2, 0, 0]
    pto.scatter(FakeArray(counts), np.array(7), FakeArray(np.array([4])))
    assert counts.tolist() == [1, 0, 2, 0, 7]


def test_indices_outside_are_refused_before_anything_is_written(emulated: FakeGpus) -> None:
    values = table()
    before = values.copy()
    with pytest.raises(pto.OutOfBoundsError, match=r"gather: indices\[1\] = 6 is outside the capacity of 6"):
        pto.gather(FakeArray(values), FakeArray(np.array([1, 6])))
    with pytest.raises(pto.OutOfBoundsError, match=r"scatter: indices\[0\] = -1 .* \(and 1 more\)"):
        pto.scatter(FakeArray(values), 0, FakeArray(np.array([-1, 2, 7])))
    assert np.array_equal(values, before)


def test_host_arrays_are_copied_there_and_back(emulated: FakeGpus) -> None:
    values = table()
    found = pto.gather(values, INDICES, engine="cuda")
    assert type(found) is np.ndarray and np.array_equal(found, values[INDICES])
    pto.scatter(values, 0, INDICES, engine="cuda")
    assert not values[[0, 3, 5]].any() and values[[1, 2, 4]].any()


def test_read_only_memory_is_not_written(emulated: FakeGpus) -> None:
    values = table()
    lent = Described(emulated, values, data=(values.__array_interface__["data"][0], True))
    with pytest.raises(ValueError, match="table is read-only"):
        pto.scatter(lent, 0, FakeArray(INDICES))


def test_empty_calls(emulated: FakeGpus) -> None:
    empty = FakeArray(np.zeros(0, "int32"))
    assert pto.gather(FakeArray(table()), empty).shape == (0, 8)
    assert pto.gather(FakeArray(table()[:0]), empty).shape == (0, 8)
    assert pto.scatter(FakeArray(table()), FakeArray(table()[:0]), empty).shape == (6, 8)


# --- Streams and versions ------------------------------------------------------------------------------------------


def test_work_goes_to_the_current_stream(emulated: FakeGpus) -> None:
    values, indices = FakeArray(table()), FakeArray(INDICES)
    pto.gather(values, indices)
    assert emulated.log == [] and emulated.used == {0}
    with emulated.cupy.cuda.ExternalStream(5):
        pto.gather(values, indices)
    assert emulated.log == [] and emulated.used == {0, 5}


def test_work_on_tensors_goes_to_the_stream_of_torch(emulated: FakeGpus) -> None:
    emulated.torch_stream = 9
    pto.gather(FakeTensor(table()), FakeTensor(INDICES))
    assert emulated.log == [] and emulated.used == {9} and emulated.streams == [0]


def test_streams_of_several_libraries_are_ordered(emulated: FakeGpus) -> None:
    emulated.torch_stream = 9
    pto.gather(FakeArray(table()), FakeTensor(INDICES))
    assert emulated.log == ["9 after 0", "0 after 9"] and emulated.used == {9}
    emulated.log.clear()
    pto.gather(Described(emulated, table(), stream=4), FakeArray(INDICES))
    assert emulated.log == ["4 after 0", "0 after 4"] and emulated.streams == [0]


def test_interfaces_that_name_the_current_stream(emulated: FakeGpus) -> None:
    """They need no other stream; no library says which one is theirs."""
    values, out, src = table(), np.zeros((2, 2, 8), "float32"), table(rows=4)
    expected = values[INDICES]
    for stream in (5, 5, 7):
        with emulated.cupy.cuda.ExternalStream(stream):
            cells, found, lanes, rows = (
                Described(emulated, each, stream=5) for each in (values, out, INDICES, src.reshape(2, 2, 8))
            )
            pto.gather(cells, lanes, out=found)
            assert np.array_equal(out, expected)
            pto.scatter(cells, rows, lanes)
            expected = values[INDICES]
            assert np.array_equal(values[INDICES[1]], src[2:])
    assert emulated.log == [] and emulated.used == {5}


def test_repeated_calls_follow_what_changes(emulated: FakeGpus, monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls find the plans of others with the same types and GPU; streams, addresses, shapes and strides differ."""
    places: list[tuple[int, int]] = []

    def watched(execute: Callable[..., Any]) -> Callable[..., Any]:
        def run(*given: Any) -> Any:
            places.append((emulated.current, emulated.streams[-1]))
            return execute(*given)

        return run

    monkeypatch.setattr(direct, "PLANS", {})
    monkeypatch.setattr(execute, "arrays", lambda name: watched(engines.arrays(name)))
    monkeypatch.setattr(execute, "prepared_move", lambda *given: watched(engines.prepared_move(*given)))
    kinds = ("float32", "float16", "int32", ml_dtypes.bfloat16)
    for _ in range(150):
        gpu, wrap = int(RANDOM.integers(2)), (FakeArray, FakeTensor)[RANDOM.integers(2)]
        emulated.torch_stream, stream = int(RANDOM.choice([0, 9, 11])), int(RANDOM.choice([0, 5]))
        wide = table(kinds[RANDOM.integers(4)], int(RANDOM.choice([4, 7])), int(RANDOM.choice([8, 12])))
        values = (wide, wide.T.copy().T, wide[::2], wide[:, ::2])[RANDOM.integers(4)]
        indices = RANDOM.integers(0, 9, RANDOM.choice([3, 4])).astype(("int32", "int64")[RANDOM.integers(2)])
        with emulated.cupy.cuda.ExternalStream(stream):
            found = pto.gather(wrap(values, gpu), wrap(indices, gpu), oob="clamp")
            assert emulated.streams == [0, stream]
        assert type(found) is wrap and found.gpu == gpu
        assert places[-1] == (gpu, stream if wrap is FakeArray else emulated.torch_stream)
        assert found.dtype == wrap(values).dtype and found.host.shape == (*indices.shape, values.shape[1])
        expected = values[np.minimum(indices, len(values) - 1)]
        assert found.host.tobytes() == expected.tobytes()


def test_repeated_calls_see_shared_memory(emulated: FakeGpus) -> None:
    memory = np.arange(96, dtype="int64").reshape(12, 8) % 7
    for first, lanes in [(6, 10), (2, 11), (6, 7), (0, 11), (6, 10), (1, 3), (4, 10), (4, 4)]:
        host = memory.copy()
        out, indices = host[first : first + 4], host[lanes, :4]
        expected = host[:4][np.clip(indices, 0, 3)]
        pto.gather(FakeArray(host[:4]), FakeArray(indices), oob="clamp", out=FakeArray(out))
        assert np.array_equal(out, expected), (first, lanes)
        host = memory.copy()
        cells, src, indices = host[:6], host[first : first + 4], host[lanes, :4]
        expected = cells.copy()
        for lane, row in zip(np.clip(indices, 0, 5).copy(), src.copy(), strict=True):
            expected[lane] = row
        pto.scatter(FakeArray(cells), FakeArray(src), FakeArray(indices), oob="clamp")
        assert np.array_equal(cells, expected), (first, lanes)


def test_numbers_of_threads_that_are_equal_to_a_valid_one_are_refused(emulated: FakeGpus) -> None:
    values, indices = FakeArray(table()), FakeArray(INDICES)
    for _ in range(2):
        pto.gather(values, indices, threads=1)
        pto.scatter(values, values[:4].copy(), FakeArray(np.arange(4)), threads=1)
    for threads in (True, 1.0, np.float64(1)):
        with pytest.raises(ValueError, match="threads takes a number"):
            pto.gather(values, indices, threads=threads)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="threads takes a number"):
            pto.scatter(values, values[:4].copy(), FakeArray(np.arange(4)), threads=threads)  # type: ignore[arg-type]
    pto.gather(values, indices, threads=np.int64(1))  # type: ignore[arg-type]


def test_calls_that_cannot_be_planned_leave_the_plans_of_others(
    emulated: FakeGpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(direct, "PLANS", {})
    values, indices = FakeArray(table()), FakeArray(INDICES)
    cells, lanes = np.arange(48, dtype="int64").reshape(6, 8) % 6, np.arange(4)
    pto.gather(values, indices)
    pto.scatter(values, values[:4].copy(), FakeArray(lanes))
    known = dict(direct.PLANS)
    assert len(known) == 2
    for n in (3, 4):
        pto.gather(FakeTensor(table()), FakeArray(lanes[:n]))
        emulated.torch_stream = 9
        pto.gather(FakeTensor(table()), FakeTensor(lanes[:n]))
        emulated.torch_stream = 0
        assert known == direct.PLANS
    with emulated.cupy.cuda.Device(1):
        pto.gather(values, indices)
    pto.scatter(values, values[:4], FakeArray(lanes))
    pto.gather(FakeArray(cells[:4]), FakeArray(lanes), out=FakeArray(cells[1:5]), oob="clamp")
    assert np.array_equal(cells[1:5], np.arange(32).reshape(4, 8) % 6)


def test_a_full_cache_loses_one_value_at_a_time() -> None:
    known = {"a": 1, "b": 2}
    assert remember(known, "a", 3, 2) == 3 and known == {"a": 3, "b": 2}
    assert remember(known, "c", 4, 2) == 4 and known == {"a": 3, "c": 4}


def test_repeated_calls_refuse_what_became_read_only_or_was_freed(emulated: FakeGpus) -> None:
    host, out = table(), np.zeros((2, 2, 8), "float32")
    address = out.__array_interface__["data"][0]
    for is_read_only in (False, True, False):
        given = Described(emulated, out, data=(address, is_read_only))
        if is_read_only:
            with pytest.raises(ValueError, match="out is read-only"):
                pto.gather(FakeArray(host), FakeArray(INDICES), out=given)
        else:
            out[:] = 0
            pto.gather(FakeArray(host), FakeArray(INDICES), out=given)
            assert np.array_equal(out, host[INDICES])
    freed = FakeTensor(host)
    pto.gather(freed, FakeTensor(INDICES))
    freed.data_ptr = lambda: 0  # type: ignore[method-assign]
    with pytest.raises(TypeError, match="it has no memory"):
        pto.gather(freed, FakeTensor(INDICES))


def test_libraries_are_asked_for_their_stream_once(emulated: FakeGpus, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    for library, name in ((emulated.cupy.cuda, "get_current_stream"), (emulated.torch.cuda, "current_stream")):
        own = getattr(library, name)
        monkeypatch.setattr(library, name, lambda *given, own=own, name=name: asked.append(name) or own(*given))
    done: list[str] = []
    monkeypatch.setattr(direct, "PLANS", {})
    monkeypatch.setattr(execute, "arrays", lambda _: lambda *_: done.append("described"))
    monkeypatch.setattr(execute, "prepared_move", lambda *_: lambda *_: done.append("planned") or True)
    for wrap, names in ((FakeArray, ["get_current_stream"]), (FakeTensor, ["current_stream", "get_current_stream"])):
        for how in ("described", "planned"):
            asked.clear()
            pto.gather(wrap(table()), wrap(INDICES), out=wrap(np.zeros((2, 2, 8), "float32")))
            assert done[-1] == how and {*asked} == {*names}
        assert sorted(asked) == names  # of a repeated call


def test_writes_into_tensors_are_counted(emulated: FakeGpus) -> None:
    values, out, indices = FakeTensor(table()), FakeTensor(np.zeros((2, 2, 8), "float32")), FakeTensor(INDICES)
    pto.gather(values, indices)
    pto.gather(values, indices, out=out)
    assert (values.version, out.version, indices.version) == (0, 1, 0)
    pto.scatter(values, 1, indices)
    assert values.version == 1
    with pytest.raises(pto.OutOfBoundsError):
        pto.scatter(values, 1, FakeTensor(np.array([99])))
    assert values.version == 1


def test_engines_see_whether_the_order_counts(emulated: FakeGpus, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []
    monkeypatch.setattr(execute, "arrays", lambda _: lambda whole, *_: seen.append(whole.ordered))
    choices = ("last", "default", "any", pto.ScatterConflict.Last, pto.ScatterConflict.Default)
    for conflict in choices:
        pto.scatter(FakeArray(table()), 1, FakeArray(INDICES), conflict=conflict)
    assert seen == [True, True, False, True, True]
    with pytest.raises(pto.VerifyError, match="A-30"):
        pto.scatter(FakeArray(table()), 1, FakeArray(INDICES), conflict=2)  # type: ignore[arg-type]
    with pytest.raises(pto.VerifyError, match="'default', 'last'"):
        pto.mscatter(pto.GlobalTensor(table()), *_operands(), conflict="any")


def _operands() -> tuple[pto.Tile, pto.Tile]:
    return pto.Tile("vec", "float32", 1, 8).write(0), pto.Tile("vec", "int32", 1, 1).write(0)


def test_elements_that_are_not_aligned_are_refused(emulated: FakeGpus) -> None:
    memory = np.zeros(65, "u1")
    skewed = memory[1:].view("float32").reshape(2, 8)
    between = np.lib.stride_tricks.as_strided(memory[:64].view("float32"), (2, 3), (34, 4))
    for given in (skewed, between):
        with pytest.raises(ValueError, match="gather: table is on a GPU and not aligned to its elements"):
            pto.gather(FakeArray(given), FakeArray(np.array([1])))
        with pytest.raises(ValueError, match="scatter: src is on a GPU and not aligned"):
            pto.scatter(FakeArray(np.zeros(given.shape, "float32")), FakeArray(given), FakeArray(np.array([0, 1])))
    assert pto.gather(FakeArray(skewed[:0]), FakeArray(np.array([1])[:0])).shape == (0, 8)


def test_the_current_gpu_takes_arrays_of_the_host(emulated: FakeGpus) -> None:
    values = table()
    with emulated.cupy.cuda.Device(1):
        assert np.array_equal(pto.gather(values, INDICES, engine="cuda"), values[INDICES])
    assert emulated.worked == {1}


# --- Other forms of the calls ----------------------------------------------------------------------------------


@pytest.mark.parametrize("wrap", [FakeArray, FakeTensor])
def test_forms_give_what_the_host_gives(emulated: FakeGpus, wrap: Any) -> None:
    """Axes, coordinates, lists and modes: index arithmetic on the GPU."""
    values = table(cols=7)
    host, there = values.copy(), wrap(values)
    found = pto.gather(there, [6, 0, 6], axis=1)
    assert type(found) is wrap and np.array_equal(found.host, host[:, [6, 0, 6]])
    for indices in (np.array([-1, 2, 9], "int16"), np.array([3, 2**63 + 1], "uint64"), np.array([-1, 7], "int32")):
        for mode in ("wrap", "clip", "fill"):
            found = pto.gather(there, wrap(indices), mode=mode)
            assert np.array_equal(found.host, pto.gather(host, indices, mode=mode))
    along = RANDOM.integers(-6, 6, (4, 7))
    found = pto.gather_along(there, wrap(along), mode="negative")
    assert type(found) is wrap and np.array_equal(found.host, np.take_along_axis(host, along, 0))
    pairs = np.array([[5, 6], [-1, 0]])
    assert pto.gather_nd(there, wrap(pairs), mode="negative").host.tolist() == host[[5, -1], [6, 0]].tolist()
    out = wrap(np.zeros((6, 2), "float32"))
    assert pto.gather(there, range(2), axis=-1, out=out) is out
    assert np.array_equal(out.host, host[:, :2])
    with pytest.raises(pto.OutOfBoundsError, match=r"gather: indices\[1\] = 7 is outside the capacity of 7"):
        pto.gather(there, [0, 7], axis=1)
    with pytest.raises(pto.OutOfBoundsError, match=r"gather_nd: indices\[0, 1\] = -1 "):
        pto.gather_nd(there, wrap(np.array([[0, -1]])))
    assert np.array_equal(values, host)


@pytest.mark.parametrize("wrap", [FakeArray, FakeTensor])
@pytest.mark.parametrize("reduce", ["none", "add", "mul", "max", "mean"])
@pytest.mark.parametrize("kind", ["int32", "uint64", "float16", "float32", ml_dtypes.bfloat16, ml_dtypes.float8_e5m2])
def test_reductions_give_the_bits_of_the_host(emulated: FakeGpus, kind: Any, reduce: str, wrap: Any) -> None:
    random = np.random.default_rng(4)
    for include_self in (True, False):
        values, data = (random.integers(1, 9, (5, 3)).astype(kind), random.integers(1, 5, (40, 3)).astype(kind))
        if np.dtype(kind).kind not in "iu":
            data[3] = np.nan
        indices = random.integers(-1, 7, 40)
        options: dict[str, Any] = {"reduce": reduce, "include_self": include_self, "mode": "drop"}
        expected = pto.scatter(values.copy(), data, indices, **options)
        there = wrap(values)
        assert pto.scatter(there, wrap(data), wrap(indices), **options) is there
        assert values.tobytes() == expected.tobytes()
        if wrap is FakeTensor:
            assert there.version == 1


def test_negative_int32_indices_on_a_gpu_warn_where_the_call_is_new(emulated: FakeGpus) -> None:
    values, indices = FakeArray(table()), FakeArray(np.array([1, -1], "int32"))
    with pytest.warns(pto.HazardWarning, match=r"gather: indices\[1\] = -1 is negative and counts as 4294967295"):
        pto.gather(values, indices, oob="clamp")


def test_advice_names_the_library_of_the_arrays(emulated: FakeGpus) -> None:
    values = table()
    with pytest.raises(pto.VerifyError, match=r"cupy\.flatnonzero"):
        pto.gather(FakeArray(values), FakeArray(np.zeros(6, bool)))
    with pytest.raises(pto.VerifyError, match=r"indices\.to\(torch\.int64\)"):
        pto.gather(FakeTensor(values), FakeTensor(np.zeros(6)))
    with pytest.raises(pto.VerifyError, match=r"cupy\.empty\(\(1, 8\), table\.dtype\)"):
        pto.gather(FakeArray(values), [0], out=FakeArray(np.zeros((2, 8), "float32")))
