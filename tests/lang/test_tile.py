"""Tiles: poison, valid regions, layouts, exact casting, addresses."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ptokit as pto

NUMBERS = [
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "float16",
    "bfloat16",
    "float32",
    "float8_e4m3",
    "float8_e5m2",
]
FORMS = [
    ("row_major", "none_box"),
    ("col_major", "none_box"),
    ("col_major", "row_major"),
    ("row_major", "col_major"),
    ("row_major", "row_major"),
    ("col_major", "col_major"),
]


@pytest.mark.parametrize("dtype", [*NUMBERS, "hifloat8"])
def test_a_new_tile_is_poison(dtype: str) -> None:
    tile = pto.Tile("vec", dtype, 4, 32)
    assert set(tile.buffer.tobytes()) == {0xFF}
    assert tile.buffer.nbytes == 4 * 32 * pto.dtype(dtype).size


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize(("blayout", "slayout"), FORMS)
def test_what_is_written_is_read_and_nothing_else_changes(dtype: str, blayout: str, slayout: str) -> None:
    tile = pto.Tile("vec", dtype, 32, 32, valid=(7, 5), blayout=blayout, slayout=slayout)
    values = np.arange(35).reshape(7, 5) % 8
    assert tile.write(values) is tile
    assert np.array_equal(tile.read().astype(np.float32), values.astype(np.float32))
    untouched = tile.buffer.view(np.uint8).reshape(-1, tile.dtype.size)
    assert (untouched == 0xFF).all(axis=1).sum() == 32 * 32 - 35
    tile.read()[:] = 0
    assert tile.read().astype(np.float32).sum() == values.sum()
    tile.buffer[:] = 1
    assert (tile.read().astype(np.float32) == 1).all()


def test_write_takes_one_number_and_one_row() -> None:
    tile = pto.Tile("vec", "int32", 1, 8, valid=(1, 3))
    assert tile.write(7).read().tolist() == [[7, 7, 7]]
    assert tile.write([1, 2, 3]).read().tolist() == [[1, 2, 3]]
    column = pto.Tile("vec", "int32", 8, 1, valid=(3, 1))
    assert column.write(np.array([4, 5, 6])).read().tolist() == [[4], [5], [6]]


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("int32", 2**32 + 1), ("int32", 2**31), ("int32", 1.5), ("int32", float("nan")), ("int32", float("inf")),
        ("int32", 1e300), ("uint32", -1), ("uint32", np.int8(-1)), ("uint8", 256), ("int8", 128), ("int8", -129),
        ("uint16", 65536.0), ("float16", 70000.0), ("float16", 2049), ("float32", 0.1), ("float32", 2**24 + 1),
        ("float32", 1e39), ("bfloat16", 257), ("float8_e4m3", 17), ("int32", np.uint64(2**64 - 1)),
        ("int8", np.uint8(200)),
        ("float32", np.int64(2**53 + 1)), ("float32", np.uint64(2**64 - 1)),
    ],
)  # fmt: skip
def test_a_value_that_cannot_be_represented_is_refused(dtype: str, value: object) -> None:
    tile = pto.Tile("vec", dtype, 1, 32, valid=(1, 2)).write(1)
    before = tile.buffer.tobytes()
    with pytest.raises(ValueError, match="not representable"):
        tile.write(np.array([[value, value]]))
    assert tile.buffer.tobytes() == before


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("int32", 2.0), ("uint32", 2**32 - 1), ("float16", 65504), ("float32", float("nan")), ("float32", -0.0),
        ("bfloat16", 256), ("int8", np.uint64(127)), ("float32", np.int64(2**40)), ("uint8", True),
        ("float8_e5m2", float("inf")),
        ("float32", np.uint64(2**63)),
    ],
)  # fmt: skip
def test_a_value_that_can_be_represented_is_taken(dtype: str, value: object) -> None:
    tile = pto.Tile("vec", dtype, 1, 32, valid=(1, 1)).write([[value]])
    assert np.array_equal(tile.read().astype(np.float64), [[float(value)]], equal_nan=True)


def test_nan_payloads_survive_a_write_of_the_tiles_own_type() -> None:
    bits = np.array([[0x7F800001, 0xFFC12345]], np.uint32)
    tile = pto.Tile("vec", "float32", 1, 8, valid=(1, 2)).write(bits.view(np.float32))
    assert tile.read().view(np.uint32).tolist() == bits.tolist()


@pytest.mark.parametrize(
    ("values", "error", "words"),
    [
        (np.zeros((2, 2)), ValueError, "valid region"),
        ([[1, 2], [3]], ValueError, "rectangular"),
        ([["a"]], TypeError, "real numbers"),
        ([[None]], TypeError, "real numbers"),
        ([[1j]], TypeError, "real numbers"),
        (np.zeros((1, 3, 1)), ValueError, "valid region"),
    ],
)
def test_values_of_the_wrong_shape_or_kind_are_refused_in_words(
    values: object, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        pto.Tile("vec", "int32", 1, 8, valid=(1, 3)).write(values)


@pytest.mark.clause("CO-SHAPE-02", "TS-SHAPE-01", "CO-SHAPE-03")
@pytest.mark.parametrize(
    ("rows", "cols", "valid", "rule"),
    [
        (4, 8, (5, 8), "CO-SHAPE-02"),
        (4, 8, (4, 9), "CO-SHAPE-02"),
        (4, 8, (4, pto.dyn(9)), "CO-SHAPE-02"),
        (4, 8, (-1, 8), "CO-SHAPE-03"),
        (0, 8, None, "CO-SHAPE-03"),
        (4, 0, None, "CO-SHAPE-03"),
        (-4, 8, None, "CO-SHAPE-03"),
        (pto.dyn(4), 8, None, "CO-SHAPE-03"),
        (10**9, 10**9, None, "CO-SHAPE-03"),
    ],
)
def test_impossible_extents_are_refused(rows: int, cols: int, valid: tuple[int, int] | None, rule: str) -> None:
    with pytest.raises(pto.VerifyError) as refusal:
        pto.Tile("vec", "float32", rows, cols, valid=valid)
    assert refusal.value.findings[0].rule == rule
    assert refusal.value.findings[0].where.file == __file__


@pytest.mark.parametrize(
    ("arguments", "options", "error", "words"),
    [
        (("ub", "float32", 4, 8), {}, ValueError, "'vec'"),
        (("vec", "float99", 4, 8), {}, TypeError, "unknown element type"),
        (("vec", object(), 4, 8), {}, TypeError, "element type"),
        (("vec", "float32", 4.0, 8), {}, TypeError, "integer"),
        (("vec", "float32", 4, 8), {"valid": 3}, TypeError, "rows, cols"),
        (("vec", "float32", 4, 8), {"valid": (1, 2, 3)}, TypeError, "rows, cols"),
        (("vec", "float32", 4, 8), {"blayout": 1}, TypeError, "BLayout"),
        (("vec", "float32", 4, 8), {"slayout": "zigzag"}, ValueError, "none_box"),
        (("vec", "float32", 4, 8), {"fractal": 100}, ValueError, "512"),
        (("vec", "float32", 4, 8), {"pad": "seven"}, ValueError, "'null'"),
        (("vec", "hifloat8", 4, 32), {"pad": "max"}, ValueError, "no max"),
        (("vec", "float32", 4, 8), {"addr": -32}, ValueError, "from 0 up"),
        (("vec", "float32", 4, 8), {"addr": 2}, ValueError, "multiple of 4"),
        (("vec", "float32", 4, 8), {"addr": 1 << 40}, ValueError, "beyond"),
    ],
)
def test_bad_arguments_are_refused_in_words(
    arguments: tuple, options: dict, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        pto.Tile(*arguments, **options)


def test_tiles_with_addresses_share_the_targets_memory() -> None:
    with pto.target("a5"):
        first = pto.Tile("vec", "int32", 1, 8, addr=0x100).write(np.arange(8)[None])
        again = pto.Tile("vec", "uint8", 1, 32, addr=0x100)
        behind = pto.Tile("vec", "int32", 1, 8, addr=0x120)
        elsewhere = pto.Tile("mat", "int32", 1, 8, addr=0x100)
        assert again.buffer.tobytes() == first.buffer.tobytes()
        assert set(behind.buffer.tobytes()) == set(elsewhere.buffer.tobytes()) == {0xFF}
        moved = pto.Tile("vec", "int32", 1, 8).write(5)
        pto.tassign(moved, 0x100)
        assert moved.read().tolist() == [list(range(8))]
        assert moved.addr == 0x100
    with pto.target("a5"):
        assert set(pto.Tile("vec", "int32", 1, 8, addr=0x100).buffer.tobytes()) == {0xFF}
    first.write(3)
    assert moved.read().tolist() == [[3] * 8]


def test_a_deep_copy_is_a_tile_of_its_own() -> None:
    tile = pto.Tile("vec", "float32", 2, 8).write(1)
    twin = copy.deepcopy(tile)
    assert np.array_equal(twin.read(), tile.read())
    twin.write(2)
    assert (tile.read() == 1).all()
    pto.tmov(tile, twin)
    assert (tile.read() == 2).all()
    shared = pto.Tile("vec", "float32", 2, 8, addr=0).write(3)
    copy.deepcopy(shared).write(4)
    assert (shared.read() == 4).all()


def test_views_of_memory_are_not_copied_behind_the_users_back() -> None:
    table = pto.GlobalTensor(np.zeros((2, 8), "float32"))
    for attempt in (copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="view of memory"):
            attempt(table)
    with pytest.raises(TypeError, match="view of memory"):
        pickle.dumps(pto.Tile("vec", "float32", 2, 8))
    assert copy.deepcopy(pto.dtype("bfloat16")) is pto.dtype("bfloat16")


def test_cube_tiles_have_the_layouts_of_their_target() -> None:
    for name, form in (("a2a3", "zz"), ("a5", "nz"), ("cpu", "nz")):
        with pto.target(name):
            assert pto.Tile("left", "float16", 16, 16).spec.format == form
            assert pto.Tile("right", "float16", 16, 16).spec.format == "zn"
            accumulator = pto.Tile("acc", "float32", 16, 16).spec
            assert (accumulator.format, accumulator.fractal, accumulator.box) == ("nz", 1024, (16, 16))


@pytest.mark.parametrize(
    ("dtype", "pad", "value"),
    [
        ("float32", "min", -np.inf), ("float16", "max", np.inf), ("int8", "min", -128), ("uint16", "max", 65535),
        ("int32", "zero", 0), ("float8_e4m3", "max", 448), ("bfloat16", "min", -np.inf), ("uint8", "min", 0),
    ],
)  # fmt: skip
def test_tload_fills_padding_where_the_tile_asks_for_it(dtype: str, pad: str, value: float) -> None:
    array = np.ones((3, 3)).astype(pto.dtype(dtype).numpy)
    tile = pto.Tile("vec", dtype, 4, 32, valid=(3, 3), pad=pad)
    pto.tload(tile, pto.GlobalTensor(array))
    whole = tile.buffer.reshape(4, 32).astype(np.float64)
    assert (whole[:3, :3] == 1).all()
    whole[:3, :3] = value
    assert (whole == value).all()


def test_names_of_types_in_every_spelling() -> None:
    for spellings in (
        ("float16", "half", "f16", "fp16", np.float16),
        ("bfloat16", "bfloat16_t", "bf16", ml_dtypes.bfloat16),
        ("float32", "float", "float32_t", "f32", np.float32),
        ("float8_e4m3", "float8_e4m3_t", "f8E4M3FN", "float8_e4m3fn", ml_dtypes.float8_e4m3fn),
        ("int32", "int32_t", "i32", np.int32),
        ("uint8", "uint8_t", "ui8", "u8", np.uint8),
        ("hifloat8", "hifloat8_t", "hif8", "!pto.hif8"),
    ):
        assert len({pto.dtype(spelling) for spelling in spellings}) == 1


OPERATORS = {
    "a == 0": "==", "a != b": "!=", "0 < a < 1": ">", "a >= b": ">=", "a in (b, 1)": "==", "a + b": "+", "2 * a": "*",
    "-a": "-", "abs(a)": "abs", "np.ones(3) == a": "==", "bool(a)": "truth", "not a": "truth", "a and b": "truth",
    "np.array_equal(a, b)": "np.array_equal", "np.asarray(a)": "NumPy",
}  # fmt: skip


@pytest.mark.parametrize("text", OPERATORS)
@pytest.mark.parametrize("kind", ["tile", "tensor", "slice", "event"])
def test_operators_of_python_do_not_see_elements(kind: str, text: str) -> None:
    """A comparison would be that of the objects, and never what the author means."""
    made: dict[str, Any] = {
        "tile": lambda: pto.Tile("vec", "float32", 8, 8).write(0),
        "tensor": lambda: pto.GlobalTensor(np.zeros((8, 8), "float32")),
        "slice": lambda: pto.Tile("vec", "float32", 8, 8).write(0)[0:4],
        "event": lambda: pto.texpands(pto.Tile("vec", "float32", 8, 8), 0),
    }
    if kind == "event" and "asarray" in text:
        return
    names = {"a": made[kind](), "b": made[kind](), "np": np}
    with pytest.raises(TypeError) as stopped:
        eval(text, names)
    assert OPERATORS[text] in str(stopped.value)


def test_operands_have_an_identity() -> None:
    a, b = pto.Tile("vec", "float32", 8, 8), pto.Tile("vec", "float32", 8, 8)
    assert a is not b and {a: 1, b: 2}[a] == 1 and len({a, b, a}) == 2 and a in (b, a)[1:]
