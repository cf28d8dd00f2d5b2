"""GlobalTensor over arrays of all libraries: shared memory, never a copy, and refusals with a fix."""

from __future__ import annotations

import array as stdlib_array
import gc
import traceback
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided

import ptokit as pto

ROWS, COLS = 6, 32
"""A table that every element type can scatter into: 32 columns are at least 32 bytes."""

BASE = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "float16", "bfloat16", "float32")
FLOAT8 = ("float8_e4m3fn", "float8_e5m2")
HOST_ONLY = ("int64", "uint64", "float64", "bool", "complex64", "complex128", "longdouble")
HOST_ML = ("float8_e4m3b11fnuz", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e3m4", "int4", "uint4")
HOMES = (str(Path(pto.__file__).parent), __file__)


def numpy_type(name: str) -> np.dtype[Any]:
    return np.dtype(getattr(ml_dtypes, name) if hasattr(ml_dtypes, name) else name)


def row_tile(table: pto.GlobalTensor, value: object) -> pto.Tile:
    tile = pto.Tile("vec", table.dtype, 1, COLS)
    tile.buffer[:] = np.array(value).astype(table.dtype.numpy)
    return tile


def put_row(table: pto.GlobalTensor, row: int, value: object) -> None:
    pto.mscatter(table, row_tile(table, value), pto.Tile("vec", "int32", 1, 1).write(row))


def get_row(table: pto.GlobalTensor, row: int) -> list[Any]:
    tile = pto.Tile("vec", table.dtype, 1, COLS)
    pto.mgather(tile, table, pto.Tile("vec", "int32", 1, 8, valid=(1, 1)).write(row))
    return tile.read().astype(complex).ravel().tolist()


def share_both_ways(source: Any, target: str = "cpu") -> None:
    """Scatter must change the source itself, and a gather must see what the source's owner writes later."""
    with pto.target(target):
        table = pto.GlobalTensor(source)
        assert table.shape == (ROWS, COLS)
        assert table.shape5 == (1, 1, 1, ROWS, COLS)
        put_row(table, 4, 1)
        assert numbers(source) == [[complex(i == 4)] * COLS for i in range(ROWS)]
        source[2] = 1
        assert get_row(table, 2) == [1] * COLS
        assert get_row(table, 3) == [0] * COLS


def numbers(source: Any) -> list[list[complex]]:
    if isinstance(source, np.ndarray):
        return source.astype(complex).tolist()
    return [[complex(value) for value in row] for row in source.double().tolist()]


def refused(make: Callable[[], object], *words: str, rule: str = "") -> Exception:
    """The refusal is one of the plain kinds, comes from ptokit itself, hides nothing and has a fix."""
    with pytest.raises((TypeError, ValueError)) as caught:
        make()
    problem = caught.value
    assert type(problem) in (TypeError, ValueError, pto.VerifyError), repr(problem)
    frames = [frame.filename for frame in traceback.extract_tb(problem.__traceback__)]
    assert all(name.startswith(HOMES) for name in frames), frames
    assert problem.__context__ is None or problem.__suppress_context__, "another library's error shows through"
    message = str(problem)
    for word in words:
        assert word in message, message
    if rule:
        assert isinstance(problem, pto.VerifyError)
        assert rule in {finding.rule for finding in problem.findings}, message
    return problem


# --- NumPy arrays of every element type ------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["cpu", "a2a3", "a5", "host"])
@pytest.mark.parametrize("name", BASE)
def test_numpy_arrays_are_shared(name: str, target: str) -> None:
    share_both_ways(np.zeros((ROWS, COLS), numpy_type(name)), target)


@pytest.mark.parametrize("target", ["a5", "cpu@aicore", "host"])
@pytest.mark.parametrize("name", FLOAT8)
def test_float8_arrays_are_shared(name: str, target: str) -> None:
    share_both_ways(np.zeros((ROWS, COLS), numpy_type(name)), target)


@pytest.mark.parametrize("name", HOST_ONLY + HOST_ML)
def test_the_host_shares_every_other_number_type(name: str) -> None:
    share_both_ways(np.zeros((ROWS, COLS), numpy_type(name)), "host")


@pytest.mark.parametrize("target", ["cpu", "a2a3", "a5"])
@pytest.mark.parametrize("name", HOST_ONLY)
def test_devices_refuse_them_at_the_call(name: str, target: str) -> None:
    array = np.zeros((ROWS, COLS), numpy_type(name))
    table = pto.GlobalTensor(array)
    with pto.target(target):
        refused(lambda: put_row(table, 1, 1), "host profile", rule="CO-TYPE-03")
    assert not array.any()


@pytest.mark.parametrize("name", ["complex64", "complex128"])
def test_complex_tiles_are_written_on_the_host(name: str) -> None:
    with pto.target("host"):
        tile = pto.Tile("vec", numpy_type(name), 1, 4).write(np.array([[1 + 2j, 0, -1j, 3]], name))
    assert tile.read().tolist() == [[1 + 2j, 0, -1j, 3]]


@pytest.mark.parametrize("shape", [(8,), (3, 8), (2, 3, 8), (2, 1, 3, 8), (1, 2, 1, 3, 8)])
def test_missing_dims_are_one(shape: tuple[int, ...]) -> None:
    array = np.arange(np.prod(shape), dtype="float32").reshape(shape)
    table = pto.GlobalTensor(array)
    assert table.shape == shape
    assert table.shape5 == (1,) * (5 - len(shape)) + shape
    rows = array.size // 8
    tile = pto.Tile("vec", "float32", rows, 8)
    pto.tload(tile, table)
    assert (tile.read() == np.arange(rows * 8).reshape(rows, 8)).all()


def test_the_bits_of_nans_survive() -> None:
    patterns = np.array([0x7FC00000, 0x7F800001, 0xFFFFFFFF, 0x80000000], "uint32").repeat(8).reshape(4, 8)
    array = patterns.view("float32")
    tile = pto.Tile("vec", "float32", 4, 8)
    pto.mgather(tile, pto.GlobalTensor(array), pto.Tile("vec", "int32", 1, 8, valid=(1, 4)).write([3, 2, 1, 0]))
    pto.mscatter(pto.GlobalTensor(array), tile, pto.Tile("vec", "int32", 4, 1).write([0, 1, 2, 3]))
    assert array.view("uint32")[:, 0].tolist() == [0x80000000, 0xFFFFFFFF, 0x7F800001, 0x7FC00000]


# --- views ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["cpu", "a2a3", "host"])
def test_scatter_into_a_window_of_wider_rows(target: str) -> None:
    base = np.zeros((8, 24), "float32")
    with pto.target(target):
        table = pto.GlobalTensor(base[1:7:2, 8:16])
        assert (table.shape, table.stride5[3:]) == ((3, 8), (48, 1))
        src = pto.Tile("vec", "float32", 2, 8).write([[1] * 8, [2] * 8])
        pto.mscatter(table, src, pto.Tile("vec", "int32", 2, 1).write([[2], [0]]))
    expected = np.zeros((8, 24))
    expected[5, 8:16], expected[1, 8:16] = 1, 2
    assert (base == expected).all()


def test_gather_from_a_window_of_wider_rows() -> None:
    base = np.zeros((8, 24), "float32")
    with pto.target("a2a3"):
        table, tile = pto.GlobalTensor(base[1:7:2, 8:16]), pto.Tile("vec", "float32", 1, 8)
        base[3] = np.arange(24)
        pto.mgather(tile, table, pto.Tile("vec", "int32", 1, 8, valid=(1, 1)).write(1))
    assert tile.read().tolist() == [[8, 9, 10, 11, 12, 13, 14, 15]]


def test_a5_rows_must_be_packed() -> None:
    base = np.zeros((8, 24), "float32")
    with pto.target("a5"):
        table, src = pto.GlobalTensor(base[:, 8:16]), pto.Tile("vec", "float32", 1, 8).write(1)
        refused(lambda: pto.mscatter(table, src, pto.Tile("vec", "int32", 1, 1).write(0)), "ascontiguous", rule="A-68")
    assert not base.any()


@pytest.mark.parametrize("target", ["cpu", "a2a3", "a5", "host"])
@pytest.mark.parametrize("view", [lambda a: a.T, lambda a: a[:, ::2], np.asfortranarray], ids=["T", "step", "F"])
def test_rows_in_pieces_cannot_be_scattered_to(view: Callable[[Any], Any], target: str) -> None:
    base = np.zeros((16, 16), "float32")
    table = pto.GlobalTensor(view(base))
    width = table.shape[1]
    with pto.target(target):
        src = pto.Tile("vec", "float32", 1, 16, valid=(1, width)).write(1)
        refused(lambda: pto.mscatter(table, src, pto.Tile("vec", "int32", 1, 1).write(0)), "Stride[4]", rule="A-57")
        idx = pto.Tile("vec", "int32", 1, 16, valid=(1, width)).write(0)
        refused(lambda: pto.mscatter(table, src, idx), "packed", "ascontiguousarray", rule="A-10")
    assert not base.any()


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_any_forward_slicing_loads_and_stores_its_own_elements(data: st.DataObject) -> None:
    base = np.arange(5 * 6 * 7, dtype="int32").reshape(5, 6, 7)
    cuts = []
    for n in base.shape:
        start = data.draw(st.integers(0, n - 1))
        cuts.append(slice(start, data.draw(st.integers(start + 1, n)), data.draw(st.integers(1, 3))))
    order = data.draw(st.permutations(range(3)))
    view = base[tuple(cuts)].transpose(order)
    rows, cols = view.shape[0] * view.shape[1], view.shape[2]
    tile = pto.Tile("vec", "int32", rows, cols)
    pto.tload(tile, pto.GlobalTensor(view))
    assert (tile.read() == view.reshape(rows, cols)).all()

    expected = base.copy()
    expected[tuple(cuts)] = -expected[tuple(cuts)]
    tile.write(-tile.read())
    pto.tstore(pto.GlobalTensor(view), tile)
    assert (base == expected).all()


def test_a_broadcast_table_is_read_but_not_written() -> None:
    row = np.arange(8, dtype="float32")
    for source in (np.broadcast_to(row, (4, 8)), as_strided(row, (4, 8), (0, 4))):
        table, tile = pto.GlobalTensor(source), pto.Tile("vec", "float32", 4, 8)
        pto.tload(tile, table)
        assert tile.read().tolist() == [list(range(8))] * 4
        src, idx = pto.Tile("vec", "float32", 1, 8).write(9), pto.Tile("vec", "int32", 1, 1).write(0)
        refused(lambda table=table, src=src, idx=idx: pto.mscatter(table, src, idx), "copy the array", rule="CO-SEM-01")
    assert row.tolist() == list(range(8))


def test_rows_that_overlap_are_read_but_not_written() -> None:
    line = np.arange(11, dtype="float32")
    table = pto.GlobalTensor(as_strided(line, (4, 8), (4, 4)))
    tile = pto.Tile("vec", "float32", 4, 8)
    pto.tload(tile, table)
    assert tile.read()[3].tolist() == [3, 4, 5, 6, 7, 8, 9, 10]
    refused(lambda: pto.tstore(table, tile), "lie apart", "copy the array", rule="CO-SEM-01")


@pytest.mark.parametrize(
    "view",
    [lambda a: a[::-1], lambda a: a[:, ::-1], lambda a: a[::-2, ::-1], lambda a: np.flip(a)],
    ids=["rows", "columns", "steps", "flip"],
)
def test_negative_strides_are_refused(view: Callable[[Any], Any]) -> None:
    refused(lambda: pto.GlobalTensor(view(np.zeros((4, 8), "float32"))), "negative", "np.ascontiguousarray(array)")


def test_a_negative_stride_over_one_element_does_not_matter() -> None:
    array = np.zeros((1, 8), "float32")
    table = pto.GlobalTensor(array[::-1])
    pto.mscatter(table, pto.Tile("vec", "float32", 1, 8).write(3), pto.Tile("vec", "int32", 1, 1).write(0))
    assert array.tolist() == [[3] * 8]


@pytest.mark.parametrize("offset", [1, 2, 3])
def test_misaligned_arrays_are_refused(offset: int) -> None:
    memory = np.zeros(64 + 4, "uint8")
    array = memory[offset : offset + 64].view("float32")
    assert array.ctypes.data % 4
    refused(lambda: pto.GlobalTensor(array), "not aligned", "array.copy()")
    refused(lambda: pto.GlobalTensor(array, dtype="int32"), "not aligned", "array.copy()")
    assert pto.GlobalTensor(array.copy()).shape == (16,)


def test_a_field_of_records_may_have_strides_that_are_not_whole_elements() -> None:
    whole = np.zeros(8, [("value", "float32"), ("key", "int32")])
    tile = pto.Tile("vec", "float32", 1, 8).write([[1, 2, 3, 4, 5, 6, 7, 8]])
    pto.tstore(pto.GlobalTensor(whole["value"]), tile)
    assert whole["value"].tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    assert not whole["key"].any()
    odd = np.zeros(8, [("value", "float32"), ("flag", "int8")])
    refused(lambda: pto.GlobalTensor(odd["value"]), "5 bytes", "not whole elements", "np.ascontiguousarray(array)")


# --- arrays that cannot be tables -------------------------------------------------------------------------------


def test_foreign_byte_order_is_refused() -> None:
    swapped = np.zeros((4, 8), np.dtype("float32").newbyteorder())
    for make in (lambda: pto.GlobalTensor(swapped), lambda: pto.GlobalTensor(swapped, dtype="int32")):
        refused(make, "byte order", "astype", "newbyteorder('=')")
    native = swapped.astype(swapped.dtype.newbyteorder("="))
    assert pto.GlobalTensor(native).dtype.name == "float32"


@pytest.mark.parametrize(
    "array",
    [
        np.array([1, None], object),
        np.array(["a", "b"]),
        np.array([b"a"]),
        np.array(["a"], np.dtypes.StringDType()),
        np.zeros(3, "datetime64[s]"),
        np.zeros(3, "timedelta64[s]"),
        np.zeros(3, [("a", "float32"), ("b", "int8")]),
        np.rec.array([(1, 2)], dtype=[("a", "int32"), ("b", "int32")]),
        np.zeros(3, "V4"),
        np.zeros(3, "S0"),
    ],
    ids=lambda array: str(array.dtype)[:24],
)
def test_arrays_of_other_things_than_numbers_are_refused(array: Any) -> None:
    assert type(refused(lambda: pto.GlobalTensor(array), "arrays of", "number type")) is TypeError


def test_masked_arrays_are_refused() -> None:
    masked = np.ma.masked_array(np.zeros((4, 8), "float32"), mask=True)
    refused(lambda: pto.GlobalTensor(masked), "masked", ".data", ".filled()")
    assert pto.GlobalTensor(masked.data).shape == (4, 8)


@pytest.mark.parametrize(
    "source",
    [
        [[1.0, 2.0]],
        (1, 2),
        range(4),
        None,
        1.5,
        "float32",
        b"12345678",
        bytearray(8),
        memoryview(bytearray(8)),
        stdlib_array.array("f", [1.0]),
        {"a": 1},
        types.SimpleNamespace(__array__=lambda: np.zeros(3)),
    ],
    ids=lambda source: type(source).__name__,
)
def test_what_has_no_array_memory_is_refused(source: object) -> None:
    words = ("cannot share the memory", type(source).__name__, "pass a NumPy array", "torch", "__dlpack__")
    assert type(refused(lambda: pto.GlobalTensor(source), *words)) is TypeError


def test_tiles_and_tensors_are_no_arrays() -> None:
    tile, table = pto.Tile("vec", "float32", 1, 8), pto.GlobalTensor(np.zeros(8, "float32"))
    refused(lambda: pto.GlobalTensor(tile), "Tile", "pass a NumPy array")
    refused(lambda: pto.GlobalTensor(table), "GlobalTensor", "pass a NumPy array")
    pto.mscatter(pto.GlobalTensor(table.array), tile.write(4), pto.Tile("vec", "int32", 1, 1).write(0))
    assert table.array.tolist() == [4] * 8


@pytest.mark.parametrize("dims", [0, 6, 7])
def test_one_to_five_dims(dims: int) -> None:
    array = np.zeros((1,) * dims, "float32")
    refused(lambda: pto.GlobalTensor(array), "one to five dims", str(dims))
    refused(lambda: pto.GlobalTensor(array, shape=(1, 1)), "one to five dims", str(dims))


def test_a_numpy_scalar_is_no_table() -> None:
    refused(lambda: pto.GlobalTensor(np.float32(1)))


@pytest.mark.parametrize("target", ["cpu", "a2a3", "a5", "host"])
@pytest.mark.parametrize("shape", [(0, 8), (8, 0), (0, 0), (0,)])
def test_empty_tables_can_be_described_but_not_indexed(shape: tuple[int, ...], target: str) -> None:
    array = np.zeros(shape, "float32")
    table = pto.GlobalTensor(array)
    assert table.shape == shape
    with pto.target(target):
        src, idx = pto.Tile("vec", "float32", 1, 8).write(1), pto.Tile("vec", "int32", 1, 1).write(0)
        line = pto.Tile("vec", "int32", 1, 8, valid=(1, 1)).write(0)
        for oob in ("undefined", "skip", "clamp", "wrap"):
            refused(lambda oob=oob: pto.mscatter(table, src, idx, oob=oob), "at least one entry", "skip", rule="A-13")
        rule = "A-13" if shape[-1] else ""  # rows of no width are entries, but none fits the destination
        refused(lambda: pto.mgather(src, table, line, oob="zero"), "mgather", "fix:", rule=rule)
        refused(lambda: pto.tload(src, table), "valid region", rule="TL-02")
        refused(lambda: pto.tstore(table, src), "hold [1, 8]", rule="TT-01")


def test_an_empty_table_has_no_other_fault() -> None:
    src, idx = pto.Tile("vec", "float32", 1, 8).write(1), pto.Tile("vec", "int32", 1, 1).write(0)
    table = pto.GlobalTensor(np.zeros((0, 8), "float32"))
    problem = refused(lambda: pto.mscatter(table, src, idx), rule="A-13")
    assert isinstance(problem, pto.VerifyError)
    assert {finding.rule for finding in problem.findings} == {"A-13"}


# --- read-only memory -------------------------------------------------------------------------------------------


def test_read_only_arrays_are_read_and_never_written() -> None:
    array = np.arange(ROWS * COLS, dtype="float32").reshape(ROWS, COLS)
    array.flags.writeable = False
    table = pto.GlobalTensor(array)
    assert get_row(table, 1) == list(range(32, 64))
    refused(lambda: put_row(table, 1, 0), "mscatter", "table is read-only", "pass a writable array")
    tile = pto.Tile("vec", "float32", 1, COLS).write(0)
    refused(lambda: pto.tstore(table, tile), "tstore", "dst is read-only", "pass a writable array")
    assert array.ravel().tolist() == list(range(ROWS * COLS))


def test_a_call_that_would_write_nothing_still_needs_writable_memory() -> None:
    array = np.zeros((ROWS, COLS), "float32")
    array.flags.writeable = False
    table, idx = pto.GlobalTensor(array), pto.Tile("vec", "int32", 1, 1).write(ROWS)
    refused(lambda: pto.mscatter(table, row_tile(table, 1), idx, oob="skip"), "read-only", "pass a writable array")


def test_memory_maps_reach_their_file(tmp_path: Path) -> None:
    path = tmp_path / "table.bin"
    table = np.memmap(path, "float32", "w+", shape=(ROWS, COLS))
    share_both_ways(table)
    table.flush()
    stored = np.fromfile(path, "float32").reshape(ROWS, COLS)
    assert stored[:, 0].tolist() == [0, 0, 1, 0, 1, 0]

    put_row(pto.GlobalTensor(table[2:4]), 1, 7)
    table.flush()
    assert np.fromfile(path, "float32").reshape(ROWS, COLS)[3].tolist() == [7] * COLS

    fixed = pto.GlobalTensor(np.memmap(path, "float32", "r", shape=(ROWS, COLS)))
    assert get_row(fixed, 3) == [7] * COLS
    refused(lambda: put_row(fixed, 3, 0), "read-only", "pass a writable array")

    private = np.memmap(path, "float32", "c", shape=(ROWS, COLS))
    put_row(pto.GlobalTensor(private), 3, 5)
    assert private[3].tolist() == [5] * COLS
    assert np.fromfile(path, "float32").reshape(ROWS, COLS)[3].tolist() == [7] * COLS


# --- objects that only describe their memory --------------------------------------------------------------------


class Described:
    """Nothing but `__array_interface__`."""

    def __init__(self, array: Any, **changes: object) -> None:
        self.kept = array
        self.__array_interface__ = {**array.__array_interface__, **changes}


class Lent:
    """Nothing but DLPack."""

    def __init__(self, array: Any) -> None:
        self.kept = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.kept.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.kept.__dlpack_device__()


class LentLongAgo(Lent):
    """DLPack before it knew versions and the read-only flag."""

    def __dlpack__(self, stream: None = None) -> Any:  # type: ignore[override]
        return self.kept.__dlpack__()


class LentFromAfar(Lent):
    """DLPack memory on a device that CUDA does not know."""

    def __dlpack_device__(self) -> Any:
        return (7, 0)


class Broken:
    """DLPack whose exporter raises or returns nonsense."""

    def __init__(self, answer: object, device: object = (1, 0)) -> None:
        self.answer, self.device = answer, device

    def __dlpack__(self, **options: Any) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def __dlpack_device__(self) -> Any:
        return self.device


def share_through(wrap: Callable[[Any], object], name: str) -> None:
    array = np.zeros((ROWS, COLS), name)
    with pto.target("host"):
        table = pto.GlobalTensor(wrap(array))
        put_row(table, 4, 1)
        assert array[:, 0].tolist() == [0, 0, 0, 0, 1, 0]
        assert array[4].tolist() == [1] * COLS
        array[2] = 1
        assert get_row(table, 2) == [1] * COLS


@pytest.mark.parametrize("wrap", [Described, Lent])
@pytest.mark.parametrize("name", ["float32", "float16", "int32", "uint8", "int64", "complex64", "bool"])
def test_interfaces_are_shared(wrap: Callable[[Any], object], name: str) -> None:
    share_through(wrap, name)


@pytest.mark.parametrize("wrap", [Described, Lent])
def test_interfaces_keep_strides_and_read_only(wrap: Callable[[Any], object]) -> None:
    base = np.zeros((8, 24), "float32")
    table = pto.GlobalTensor(wrap(base[1:7:2, 8:16]))
    assert (table.shape, table.stride5[3:]) == ((3, 8), (48, 1))
    pto.mscatter(table, pto.Tile("vec", "float32", 1, 8).write(1), pto.Tile("vec", "int32", 1, 1).write(1))
    assert np.argwhere(base).tolist() == [[3, j] for j in range(8, 16)]

    base.flags.writeable = False
    fixed = pto.GlobalTensor(wrap(base[3:4, 8:16]))
    tile = pto.Tile("vec", "float32", 1, 8)
    pto.tload(tile, fixed)
    assert tile.read().tolist() == [[1] * 8]
    refused(lambda: pto.tstore(fixed, tile.write(2)), "read-only", "pass a writable array")
    assert base[3, 8:16].tolist() == [1] * 8


@pytest.mark.parametrize("wrap", [Described, Lent])
def test_interfaces_are_held_to_the_same_rules(wrap: Callable[[Any], object]) -> None:
    refused(lambda: pto.GlobalTensor(wrap(np.zeros((4, 8), "float32")[::-1])), "negative", "np.ascontiguousarray")
    refused(lambda: pto.GlobalTensor(wrap(np.zeros((), "float32"))), "one to five dims")
    refused(lambda: pto.GlobalTensor(wrap(np.zeros((1,) * 6, "float32"))), "one to five dims")
    refused(lambda: pto.GlobalTensor(wrap(np.zeros(8, np.dtype("float32").newbyteorder()))), "byte order")
    odd = np.zeros(8, [("value", "float32"), ("flag", "int8")])["value"]
    refused(lambda: pto.GlobalTensor(wrap(odd)))


def test_the_old_dlpack_protocol_cannot_say_writable_and_counts_as_read_only() -> None:
    array = np.zeros((ROWS, COLS), "float32")
    table = pto.GlobalTensor(LentLongAgo(array))
    array[2] = 1
    assert get_row(table, 2) == [1] * COLS
    refused(lambda: put_row(table, 4, 1), "read-only", "pass a writable array")
    assert not array[4].any()


@pytest.mark.parametrize("wrap", [Described, Lent, lambda array: array])
def test_the_memory_lives_as_long_as_the_tensor(wrap: Callable[[Any], object]) -> None:
    tables = [pto.GlobalTensor(wrap(np.full((ROWS, COLS), k, "float32"))) for k in range(50)]
    gc.collect()
    junk = [np.full((ROWS, COLS), -1, "float32") for _ in range(50)]
    assert [get_row(table, 5)[0] for table in tables] == list(range(50))
    assert len(junk) == 50


def test_memory_elsewhere_is_refused() -> None:
    array = np.zeros((ROWS, COLS), "float32")
    refused(lambda: pto.GlobalTensor(LentFromAfar(array)), "not in host memory", "copy it to the host first")
    on_gpu = types.SimpleNamespace(__cuda_array_interface__={})
    refused(lambda: pto.GlobalTensor(on_gpu), "__cuda_array_interface__ has no data and no shape and no typestr")


@pytest.mark.parametrize(
    "source",
    [
        Broken(BufferError("no")),
        Broken(RuntimeError("no")),
        Broken(ValueError("no")),
        Broken(TypeError("no")),
        Broken(KeyError("no")),
        Broken(5),
        Broken(None, device=None),
        types.SimpleNamespace(__dlpack__=lambda **options: None),
        types.SimpleNamespace(__array_interface__={"version": 3}),
        types.SimpleNamespace(__array_interface__=5),
        types.SimpleNamespace(__array_interface__={"version": 3, "shape": "x", "typestr": "<f4", "data": (0, False)}),
        types.SimpleNamespace(__array_interface__={"version": 3, "shape": (4,), "typestr": "<f4", "data": None}),
    ],
    ids=[
        "buffer error", "runtime error", "value error", "type error", "key error", "no capsule", "no device",
        "no device method", "no typestr", "no dict", "bad shape", "no data",
    ],
)  # fmt: skip
def test_objects_that_fail_to_describe_their_memory_are_refused(source: object) -> None:
    refused(lambda: pto.GlobalTensor(source), "cannot share the memory", "pass")


def test_dlpack_names_the_way_out_for_types_it_does_not_know() -> None:
    refused(lambda: pto.GlobalTensor(Lent(np.zeros(8, ml_dtypes.bfloat16))), "cannot share the memory", "pass")


# --- torch ------------------------------------------------------------------------------------------------------


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


def torch_type(torch: Any, name: str) -> Any:
    if not hasattr(torch, name):
        pytest.skip(f"this torch has no {name}")
    return getattr(torch, name)


@pytest.mark.parametrize("target", ["cpu", "a2a3", "a5", "host"])
@pytest.mark.parametrize("name", ["int8", "uint8", "int16", "int32", "float16", "bfloat16", "float32"])
def test_torch_tensors_are_shared(torch: Any, name: str, target: str) -> None:
    tensor = torch.zeros(ROWS, COLS, dtype=torch_type(torch, name))
    share_both_ways(tensor, target)
    assert pto.GlobalTensor(tensor).dtype.name == name


@pytest.mark.parametrize("target", ["a5", "host"])
@pytest.mark.parametrize("name", FLOAT8)
def test_torch_float8_tensors_are_shared(torch: Any, name: str, target: str) -> None:
    tensor = torch.zeros(ROWS, COLS, dtype=torch_type(torch, name))
    with pto.target(target):
        table = pto.GlobalTensor(tensor)
        assert table.dtype is pto.dtype(name)
        put_row(table, 4, 1.5)
        assert tensor.float()[:, 7].tolist() == [0, 0, 0, 0, 1.5, 0]
        tensor[2] = torch.full((COLS,), -0.5).to(tensor.dtype)
        assert get_row(table, 2) == [-0.5] * COLS


@pytest.mark.parametrize("name", ["int64", "float64", "bool", "complex64", "uint16", "uint32"])
def test_the_host_shares_other_torch_tensors(torch: Any, name: str) -> None:
    tensor = torch.zeros(ROWS, COLS, dtype=torch_type(torch, name))
    with pto.target("host"):
        table = pto.GlobalTensor(tensor)
        put_row(table, 4, 1)
        assert [complex(row[0]) for row in tensor.tolist()] == [0, 0, 0, 0, 1, 0]
        tensor[2] = 1
        assert get_row(table, 2) == [1] * COLS


@pytest.mark.parametrize("name", ["float32", "bfloat16"])
def test_torch_views_are_shared(torch: Any, name: str) -> None:
    base = torch.zeros(8, 64, dtype=torch_type(torch, name))
    table = pto.GlobalTensor(base[1:7:2, 16:48])
    assert (table.shape, table.stride5[3:]) == ((3, COLS), (128, 1))
    put_row(table, 1, 1)
    assert base.nonzero().tolist() == [[3, j] for j in range(16, 48)]
    put_row(pto.GlobalTensor(base.view(16, 32)), 15, 1)
    assert base[7, 32:].tolist() == [1] * 32

    crossed, tile = pto.GlobalTensor(base.T), pto.Tile("vec", table.dtype, 64, 8)
    assert (crossed.shape, crossed.stride5[3:]) == ((64, 8), (1, 64))
    base[0, 5] = 9
    pto.tload(tile, crossed)
    assert tile.read().astype("float32").tolist() == base.T.tolist()


def test_torch_tensors_that_share_cells_are_not_written(torch: Any) -> None:
    base = torch.zeros(1, COLS)
    table = pto.GlobalTensor(base.expand(ROWS, COLS))
    refused(lambda: put_row(table, 1, 1), "lie apart", "copy the array", rule="CO-SEM-01")
    assert not base.any()


def test_torch_memory_lives_as_long_as_the_tensor(torch: Any) -> None:
    for kind in (torch.float32, torch.bfloat16):
        tables = [pto.GlobalTensor(torch.full((ROWS, COLS), float(k), dtype=kind)) for k in range(50)]
        gc.collect()
        junk = [torch.full((ROWS, COLS), -1.0, dtype=kind) for _ in range(50)]
        assert [get_row(table, 5)[0] for table in tables] == list(range(50))
        assert len(junk) == 50


@pytest.mark.parametrize("name", ["float32", "bfloat16"])
def test_tensors_that_require_grad_are_refused(torch: Any, name: str) -> None:
    weight = torch.nn.Parameter(torch.zeros(ROWS, COLS, dtype=torch_type(torch, name)))
    for source in (weight, torch.zeros(ROWS, COLS, requires_grad=True), weight[1:]):
        refused(lambda source=source: pto.GlobalTensor(source), "requires grad", "tensor.detach()")
    put_row(pto.GlobalTensor(weight.detach()), 1, 1)
    assert weight[1].tolist() == [1] * COLS


@pytest.mark.parametrize("name", ["float32", "bfloat16"])
def test_subclasses_of_tensors_are_tensors(torch: Any, name: str) -> None:
    named = type("Named", (torch.Tensor,), {})
    tensor = torch.zeros(ROWS, COLS, dtype=torch_type(torch, name)).as_subclass(named)
    put_row(pto.GlobalTensor(tensor), 4, 1)
    assert tensor[:, 0].tolist() == [0, 0, 0, 0, 1, 0]
    refused(lambda: pto.GlobalTensor(tensor.requires_grad_()), "requires grad", "tensor.detach()")


def test_torch_tensors_elsewhere_are_refused(torch: Any) -> None:
    refused(lambda: pto.GlobalTensor(torch.zeros(2, 8, device="meta")), "meta", ".cpu()")


def test_torch_tensors_with_the_conjugate_bit_are_refused(torch: Any) -> None:
    values = torch.zeros(4, dtype=torch.complex64).conj()
    refused(lambda: pto.GlobalTensor(values), "conj", "resolve_conj()")
    assert pto.GlobalTensor(values.resolve_conj()).shape == (4,)


def test_torch_tensors_whose_memory_holds_the_negated_values_are_refused(torch: Any) -> None:
    negated = (torch.arange(4).to(torch.complex64) * 1j).conj().imag
    assert negated.is_neg()
    assert negated.tolist() == [0, -1, -2, -3]
    refused(lambda: pto.GlobalTensor(negated), "neg", "resolve_neg()")
    assert pto.GlobalTensor(negated.resolve_neg()).array.tolist() == [0, -1, -2, -3]


def test_torch_tensors_without_plain_memory_are_refused(torch: Any) -> None:
    refused(lambda: pto.GlobalTensor(torch.eye(4).to_sparse()), "cannot share the memory", "pass")


def test_torch_tensors_have_one_to_five_dims(torch: Any) -> None:
    refused(lambda: pto.GlobalTensor(torch.tensor(1.0)), "one to five dims")
    refused(lambda: pto.GlobalTensor(torch.zeros((1,) * 6)), "one to five dims")
    assert pto.GlobalTensor(torch.zeros(0, 8)).shape == (0, 8)


@pytest.mark.parametrize("name", ["Size", "float32", "Linear", "storage", "module", "Generator"])
def test_other_things_of_torch_are_refused(torch: Any, name: str) -> None:
    things = {
        "Size": lambda: torch.Size([2, 3]),
        "float32": lambda: torch.float32,
        "Linear": lambda: torch.nn.Linear(2, 2),
        "storage": lambda: torch.zeros(3).untyped_storage(),
        "module": lambda: torch,
        "Generator": torch.Generator,
    }
    thing = things[name]()
    refused(lambda: pto.GlobalTensor(thing), "cannot share the memory", "pass a NumPy array")


def test_shape_and_dtype_apply_to_torch_tensors_too(torch: Any) -> None:
    tensor = torch.zeros(64)
    put = pto.Tile("vec", "int32", 1, 8).write([[1065353216] * 8])
    table = pto.GlobalTensor(tensor, shape=(8, 8), dtype="int32")
    pto.mscatter(table, put, pto.Tile("vec", "int32", 1, 1).write(3))
    assert tensor.tolist() == [0] * 24 + [1] * 8 + [0] * 32
    refused(lambda: pto.GlobalTensor(tensor[::2], shape=(4, 8)), "contiguous", "np.ascontiguousarray(array)")
    refused(lambda: pto.GlobalTensor(tensor, dtype=torch.int32), "not an element type", "known", "int32")


def test_tiles_are_written_from_torch(torch: Any) -> None:
    tile = pto.Tile("vec", "float32", 1, 8)
    assert tile.write(torch.arange(8.0)[None]).read().tolist() == [[0, 1, 2, 3, 4, 5, 6, 7]]


def test_tiles_are_written_from_torch_bfloat16(torch: Any) -> None:
    half = pto.Tile("vec", "bfloat16", 1, 16)
    assert half.write(torch.full((1, 16), 1.5, dtype=torch.bfloat16)).read().tolist() == [[1.5] * 16]


def test_tiles_refuse_what_torch_does_not_hand_out(torch: Any) -> None:
    tile = pto.Tile("vec", "float32", 1, 8)
    refused(lambda: tile.write(torch.ones(1, 8, requires_grad=True)), "requires grad", "detach()")
    refused(lambda: tile.write(torch.ones(1, 8, device="meta")), "meta", "cpu()")


# --- shape=, stride=, layout=, dtype= ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "stride", "shape5", "stride5"),
    [
        ((4, 16), None, (1, 1, 1, 4, 16), (64, 64, 64, 16, 1)),
        ((64,), None, (1, 1, 1, 1, 64), (64, 64, 64, 64, 1)),
        ((2, 2, 2, 2, 4), None, (2, 2, 2, 2, 4), (32, 16, 8, 4, 1)),
        ((2, 2), None, (1, 1, 1, 2, 2), (4, 4, 4, 2, 1)),
        ((4, 8), (16, 1), (1, 1, 1, 4, 8), (64, 64, 64, 16, 1)),
        ((4, 8), (64, 64, 64, 8, 1), (1, 1, 1, 4, 8), (64, 64, 64, 8, 1)),
        (None, (8, 1), (1, 1, 1, 8, 8), (64, 64, 64, 8, 1)),
        (np.array([4, 16]), None, (1, 1, 1, 4, 16), (64, 64, 64, 16, 1)),
        ((np.int64(4), np.int32(16)), (np.int8(16), 1), (1, 1, 1, 4, 16), (64, 64, 64, 16, 1)),
    ],
)
def test_shapes_and_strides_that_fit(shape: Any, stride: Any, shape5: object, stride5: object) -> None:
    array = np.arange(64, dtype="float32").reshape(8, 8)
    table = pto.GlobalTensor(array, shape=shape, stride=stride)
    assert (table.shape5, table.stride5, table.shape) == (shape5, stride5, (8, 8))
    rows, cols = int(np.prod(table.shape5[:4])), table.shape5[4]
    tile = pto.Tile("vec", "float32", rows, cols)
    array += 1
    pto.tload(tile, table)
    steps = np.array(stride5) * 4
    assert (tile.read() == as_strided(array, shape5, steps).reshape(rows, cols)).all()


def test_a_shape_and_a_stride_write_where_they_say() -> None:
    array = np.zeros(64, "float32")
    table = pto.GlobalTensor(array, shape=(4, 8), stride=(16, 1))
    pto.mscatter(table, pto.Tile("vec", "float32", 1, 8).write(1), pto.Tile("vec", "int32", 1, 1).write(3))
    assert np.flatnonzero(array).tolist() == [48, 49, 50, 51, 52, 53, 54, 55]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"shape": (9, 8)}, ("spans 72 elements", "the array has 64")),
        ({"shape": (5, 8), "stride": (16, 1)}, ("spans 72 elements", "the array has 64")),
        ({"stride": (16, 1)}, ("spans 120 elements", "the array has 64")),
        ({"shape": (2**40, 2**40)}, ("spans", "the array has 64")),
        ({"shape": (2**63, 1)}, ("shape", "too large")),
        ({"shape": (4, 8), "stride": (2**63, 1)}, ("stride", "too large")),
        ({"shape": (-1, 8)}, ("shape", "from 0 up", "-1")),
        ({"shape": (4, 8), "stride": (-8, 1)}, ("stride", "from 0 up", "-8")),
        ({"shape": (True, 8)}, ("shape", "True")),
        ({"shape": (8.0, 8)}, ("shape must be an integer", "8.0")),
        ({"stride": (8.0, 1)}, ("stride must be an integer", "8.0")),
        ({"shape": "88"}, ("shape must be an integer", "'8'")),
        ({"shape": 64}, ("shape takes up to five integers", "64")),
        ({"stride": 8}, ("stride takes up to five integers", "8")),
        ({"shape": ()}, ("shape takes one to five integers", "0")),
        ({"shape": (1,) * 6}, ("shape takes one to five integers", "6")),
        ({"shape": (4, 8), "stride": (64, 8, 1)}, ("stride has 3 entries", "shape has 2")),
        ({"shape": (4, 8), "stride": (1,)}, ("stride has 1 entries", "shape has 2")),
        ({"shape": (4, None)}, ("shape must be an integer", "None")),
        ({"layout": "row_major"}, ("'row_major'", "'nd', 'dn', 'nz'")),
        ({"layout": "ND"}, ("'ND'", "'nd', 'dn', 'nz'")),
        ({"layout": 0}, ("0 does not convert", "'nd', 'dn', 'nz'")),
        ({"layout": None}, ("None does not convert", "'nd', 'dn', 'nz'")),
        ({"layout": pto.BLayout.RowMajor}, ("BLayout.RowMajor", "'nd', 'dn', 'nz'")),
        ({"dtype": "int16"}, ("int16 has 2 bytes", "float32 has 4", "widths must be equal")),
        ({"dtype": "float64"}, ("float64 has 8 bytes", "widths must be equal")),
        ({"dtype": "float33"}, ("unknown element type 'float33'", "known", "float32")),
        ({"dtype": 4}, ("4 is not an element type", "known", "float32")),
        ({"dtype": object}, ("object", "number type")),
        ({"dtype": ">i4"}, ("'>i4'", "known")),
        ({"dtype": np.dtype(">i4")}, ("byte order",)),
    ],
    ids=lambda value: str(value)[:40] if isinstance(value, dict) else "",
)
def test_options_that_do_not_fit_are_refused(options: dict[str, Any], words: tuple[str, ...]) -> None:
    array = np.zeros((8, 8), "float32")
    refused(lambda: pto.GlobalTensor(array, **options), *words)


@pytest.mark.parametrize("options", [{"shape": (4, 8)}, {"stride": (8, 2)}, {"shape": (4, 8), "dtype": "int32"}])
def test_shape_and_stride_need_a_contiguous_array(options: dict[str, Any]) -> None:
    array = np.zeros((8, 16), "float32")[:, ::2]
    refused(lambda: pto.GlobalTensor(array, **options), "contiguous", "np.ascontiguousarray(array)")
    assert pto.GlobalTensor(array, dtype="int32").stride5[3:] == (16, 2)


def test_dtype_reinterprets_the_same_memory() -> None:
    array = np.zeros((2, 8), "float32")
    for kind in ("int32", np.uint32, np.dtype("uint32"), pto.dtype("int32")):
        table = pto.GlobalTensor(array, dtype=kind)
        tile = pto.Tile("vec", table.dtype, 1, 8).write(0x40000000)
        array[:] = 0
        pto.mscatter(table, tile, pto.Tile("vec", "int32", 1, 1).write(1))
        assert array.tolist() == [[0] * 8, [2] * 8]
    assert pto.GlobalTensor(np.zeros(32, "uint8"), dtype="hifloat8").dtype.name == "hifloat8"
    assert pto.GlobalTensor(np.zeros(32, "int16"), dtype="bfloat16").dtype.name == "bfloat16"


def test_layouts_read_the_same_memory_in_their_own_order() -> None:
    array = np.arange(128, dtype="float32")
    rows = pto.Tile("vec", "float32", 16, 8)
    pto.tload(rows, pto.GlobalTensor(array, shape=(16, 8), layout="nd"))
    assert (rows.read() == array.reshape(16, 8)).all()

    columns = pto.Tile("vec", "float32", 16, 8, blayout="col_major")
    pto.tload(columns, pto.GlobalTensor(array, shape=(16, 8), layout=pto.Layout.DN))
    assert (columns.read() == array.reshape(8, 16).T).all()

    blocks = pto.Tile("vec", "float32", 16, 8, blayout="col_major", slayout="row_major")
    pto.tload(blocks, pto.GlobalTensor(array, shape=(1, 1, 1, 16, 8), layout="nz"))
    assert (blocks.read() == array.reshape(16, 8)).all()


def test_a_layout_that_leads_outside_the_array_is_never_followed() -> None:
    memory = np.zeros(256, "float32")
    table = pto.GlobalTensor(memory[:16].reshape(4, 4), layout="nz")
    tile = pto.Tile("vec", "float32", 16, 8, blayout="col_major", slayout="row_major").write(1)
    refused(lambda: pto.tload(tile, table), "16")
    refused(lambda: pto.tstore(table, tile), "16")
    assert not memory.any()


def test_dynamic_extents_are_marked_and_resolved() -> None:
    array = np.zeros((4, 8), "float32")
    table = pto.GlobalTensor(array, shape=(1, 1, 1, pto.dyn(4), 8), stride=(32, 32, 32, pto.dyn(8), 1))
    assert table.shape5 == (1, 1, 1, 4, 8)
    pto.mscatter(table, pto.Tile("vec", "float32", 1, 8).write(1), pto.Tile("vec", "int32", 1, 1).write(2))
    assert array[:, 0].tolist() == [0, 0, 1, 0]
    refused(lambda: pto.GlobalTensor(array, shape=(pto.dyn(5), 8)), "spans 40 elements", "the array has 32")


def test_unknown_and_missing_arguments_are_python_errors() -> None:
    array = np.zeros((4, 8), "float32")
    with pytest.raises(TypeError, match="strides"):
        pto.GlobalTensor(array, strides=(8, 1))  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="positional"):
        pto.GlobalTensor(array, (4, 8))  # type: ignore[misc]
    with pytest.raises(TypeError, match="array"):
        pto.GlobalTensor()  # type: ignore[call-arg]


@pytest.mark.parametrize("wrap", [np.asarray, pytest.param(None, id="torch")])
def test_bare_arrays_must_be_wrapped(wrap: Any) -> None:
    array = (wrap or pytest.importorskip("torch").tensor)([[0.0] * 8])
    src, idx = pto.Tile("vec", "float32", 1, 8).write(0), pto.Tile("vec", "int32", 1, 1).write(0)
    refused(lambda: pto.mscatter(array, src, idx), "table", "wrap the array: pto.GlobalTensor(array)")
    refused(lambda: pto.tload(src, array), "src", "wrap the array: pto.GlobalTensor(array)")
    refused(lambda: pto.mscatter([[0.0]], src, idx), "table", "pto.GlobalTensor", "list")  # type: ignore[arg-type]
