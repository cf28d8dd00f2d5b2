"""Products on the matrix units of a GPU: exact for small whole numbers, nothing written beyond the edges."""

from __future__ import annotations

import cupy
import ml_dtypes
import numpy as np
import pytest

from tests.engine.cuda.test_ptx import product_of
from tests.engine.cuda.test_units import GUARD, SHAPES, arguments, halves_of


@pytest.mark.parametrize("shape", [*SHAPES, (100, 64, 72), (128, 128, 128), (50, 40, 72), (128, 1, 128)], ids=str)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "int8", "float32"])
def test_products_of_any_shape(dtype: str, shape: tuple[int, int, int]) -> None:
    given = arguments(dtype, *shape)
    there = {name: cupy.asarray(given[name]) for name in "ab"}
    base = cupy.asarray(given["out"].base)
    found = product_of[1](**{**given, **there, "out": base[: shape[0], : shape[2]]}, target="a5")
    assert found.engine == "cuda" and bool((base[shape[0] :] == GUARD).all())
    expected = 2 * (given["a"].astype(float) @ given["b"].astype(float))
    rows = base[: shape[0]].get()
    assert np.array_equal(rows[:, : shape[2]], expected) and (rows[:, shape[2] :] == GUARD).all()


def test_windows_of_one_tile_are_several_regions() -> None:
    a, b = (np.random.default_rng(k).integers(-8, 8, (32, 32)).astype(ml_dtypes.bfloat16) for k in (0, 1))
    out = cupy.zeros((16, 64), "f4")
    assert halves_of[1](cupy.asarray(a), cupy.asarray(b), out, target="a5").engine == "cuda"
    product = a.astype(float) @ b.astype(float)
    assert np.array_equal(out.get(), np.hstack([product[:16], product[16:]]))
