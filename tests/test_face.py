"""The public API: names, arguments and shapes."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import ptokit as pto

SIGNATURES = {
    "mgather": "dst table idx coalesce oob executor scratch wait",
    "mscatter": "table src idx coalesce atomic oob conflict wait",
    "tscatter": "dst src idx index wait",
    "tload": "dst src wait",
    "tstore": "dst src atomic relu scale wait",
    "tmov": "dst src relu acc_to_vec scale wait",
    "tassign": "tile addr",
    "Tile": "loc dtype rows cols valid blayout slayout fractal pad addr",
    "GlobalTensor": "array shape stride layout dtype",
    "target": "name header strict dyn_ub",
}


@pytest.mark.parametrize("name", SIGNATURES)
def test_names_and_arguments(name: str) -> None:
    assert " ".join(inspect.signature(getattr(pto, name)).parameters) == SIGNATURES[name]


def test_a_day_in_the_life_of_a_table() -> None:
    """Gather ragged rows, add them back, scatter them inside UB: on A5, as the first page shows it."""
    rng = np.random.default_rng(7)
    array = rng.integers(-50, 50, (1000, 250)).astype("float32")
    wanted = rng.integers(0, 1200, (1, 60)).astype("int32")
    before = array.copy()
    with pto.target("a5"):
        table = pto.GlobalTensor(array)
        idx = pto.Tile("vec", "int32", 1, 64, valid=(1, 60))
        dst = pto.Tile("vec", "float32", 64, 256, valid=(60, 250))
        idx.write(wanted)
        pto.mgather(dst, table, idx, coalesce="row", oob="clamp")
        gathered = before[np.minimum(wanted[0], 999)]
        assert np.array_equal(dst.read(), gathered)
        assert (dst.buffer.reshape(64, 256).view(np.uint32)[:, 250:] == 0xFFFFFFFF).all()
        pto.mscatter(table, dst, idx, coalesce="row", atomic="add", oob="skip", conflict="default")
        expected = before.copy()
        for row, values in zip(wanted[0], gathered, strict=True):
            if row < 1000:
                expected[row] += values
        assert np.array_equal(array, expected)
        half = pto.Tile("vec", "float32", 8, 256, valid=(8, 250)).write(gathered[:8])
        rows = pto.Tile("vec", "int32", 8, 256, valid=(8, 250)).write(
            np.arange(8)[::-1, None] + np.zeros((8, 250), int)
        )
        out = pto.Tile("vec", "float32", 8, 256, valid=(8, 250))
        pto.tscatter(out, half, rows, index="row")
        assert np.array_equal(out.read(), gathered[7::-1][:8])


def test_enums_and_strings_say_the_same() -> None:
    table, idx = pto.GlobalTensor(np.arange(64, dtype="float32").reshape(8, 8)), pto.Tile("vec", "int32", 1, 8).write(9)
    found = []
    for coalesce, oob in ((pto.Coalesce.Row, pto.GatherOOB.Clamp), ("row", "clamp")):
        dst = pto.Tile("vec", "float32", 8, 8)
        event = pto.mgather(dst, table, idx, coalesce=coalesce, oob=oob)
        found.append((event.route, dst.read().tolist()))
    assert found[0] == found[1]


def test_shapes_of_arrays_become_five_dims() -> None:
    for shape, five in (((9,), (1, 1, 1, 1, 9)), ((3, 4), (1, 1, 1, 3, 4)), ((2, 3, 4), (1, 1, 2, 3, 4))):
        tensor = pto.GlobalTensor(np.zeros(shape, "int8"))
        assert (tensor.shape, tensor.shape5) == (shape, five)
    assert pto.GlobalTensor(np.zeros((2, 3, 4), "int8")).stride5 == (24, 24, 12, 4, 1)
    assert pto.GlobalTensor(np.zeros(30, "float32"), shape=(1, 1, 1, pto.dyn(3), 10)).shape5 == (1, 1, 1, 3, 10)


def test_slices_are_views_that_never_come_out_shorter() -> None:
    array = np.arange(60, dtype="int32").reshape(10, 6)
    table = pto.GlobalTensor(array)
    block = table[2:5, 1:3]
    assert (block.shape, block.stride5[3:]) == ((3, 2), (6, 1))
    assert np.shares_memory(block.array, array)
    assert table[4:].shape == (6, 6)
    assert table[10:10].shape == (0, 6)
    assert pto.GlobalTensor(array.ravel())[7:9].array.tolist() == [7, 8]
    tile = pto.Tile("vec", "int32", 3, 8, valid=(3, 2))
    pto.tload(tile, block)
    assert np.array_equal(tile.read(), array[2:5, 1:3])
    pto.tstore(table[0:3, 4:6], tile)
    assert np.array_equal(array[0:3, 4:6], tile.read())


@pytest.mark.parametrize(
    ("key", "error", "words"),
    [
        (slice(0, 11), IndexError, "0:11 does not lie within 0:10"),
        (slice(5, 2), IndexError, "5:2"),
        (slice(-1, None), pto.VerifyError, "from 0 up"),
        (slice(0, 10, 2), TypeError, "start:stop"),
        (3, TypeError, "start:stop"),
        ((slice(0, 1),) * 3, IndexError, "3 slices"),
        (slice(0.5, 2), TypeError, "integer"),
    ],
)
def test_slices_that_are_refused(key: object, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        pto.GlobalTensor(np.zeros((10, 6), "int32"))[key]


def test_only_tensors_of_their_arrays_shape_are_sliced() -> None:
    with pytest.raises(TypeError, match="slice the array"):
        pto.GlobalTensor(np.zeros(512, "float32"), shape=(1, 1, 4, 16, 8), layout="nz")[0:1]


@pytest.mark.clause("CO-DYN-01")
def test_dynamic_extents_can_change_and_fixed_ones_cannot() -> None:
    table = pto.GlobalTensor(np.arange(64, dtype="float32").reshape(8, 8))
    dst = pto.Tile("vec", "float32", 8, 8, valid=(pto.dyn(8), 8))
    idx = pto.Tile("vec", "int32", 1, 8, valid=(1, pto.dyn(8))).write(np.arange(8)[None])
    for rows in (8, 3, 1):
        dst.valid, idx.valid = (rows, 8), (1, rows)
        pto.mgather(dst, table, idx)
        assert np.array_equal(dst.read(), table.array[:rows])
    with pytest.raises(pto.VerifyError) as refusal:
        dst.valid = (1, 7)
    assert refusal.value.findings[0].rule == "CO-API-01"
    with pytest.raises(pto.VerifyError) as refusal:
        dst.valid = (9, 8)
    assert refusal.value.findings[0].rule == "CO-SHAPE-02"
    assert dst.valid == (1, 8)
