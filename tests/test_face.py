"""The public face as it is promised: these names, these arguments, these shapes."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import ptokit as pto

SIGNATURES = {
    "mgather": "dst table idx coalesce oob scratch executor",
    "mscatter": "table src idx coalesce atomic oob conflict",
    "tscatter": "dst src idx index",
    "tload": "dst src",
    "tstore": "dst src atomic",
    "tmov": "dst src",
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
