"""Conversions on the way out of an accumulator and into the bias table: the same bits on every engine."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ptokit as pto

BYTES = {"float8_e4m3": ml_dtypes.float8_e4m3fn, "float8_e5m2": ml_dtypes.float8_e5m2}


@pto.kernel
def stored(x, y, bias, out):
    """`x @ y + bias`, 16 rows a block; y lies by columns."""
    r = pto.block_idx() * 16
    a = pto.Tile("mat", x.dtype, 16, 64, blayout="col_major", slayout="row_major")
    b = pto.Tile("mat", y.dtype, 64, 32, slayout="col_major")
    row = pto.Tile("mat", bias.dtype, 1, 32)
    left, right, acc = (
        pto.Tile("left", x.dtype, 16, 64),
        pto.Tile("right", y.dtype, 64, 32),
        pto.Tile("acc", "float32", 16, 32),
    )
    added = pto.Tile("bias", "float32", 1, 32)
    pto.tload(a, x[r : r + 16])
    pto.tload(b, y)
    pto.tload(row, bias)
    pto.tmov(left, a)
    pto.tmov(right, b)
    pto.tmov(added, row)
    pto.tmatmul_bias(acc, left, right, added)
    pto.tstore(out[r : r + 16], acc)


@pto.kernel
def moved(x, out):
    acc, half = pto.Tile("acc", "float32", 16, 32), pto.Tile("vec", out.dtype, 16, 32)
    one, two = pto.Tile("left", "float16", 16, 16), pto.Tile("right", "float16", 16, 32)
    a, b = (pto.Tile("mat", "float16", n, m, blayout="col_major", slayout="row_major") for n, m in ((16, 16), (16, 32)))
    pto.tload(a, x[:, 0:16])
    pto.tload(b, x[:, 16:48])
    pto.tmov(one, a)
    pto.tmov(two, b)
    pto.tmatmul(acc, one, two)
    pto.tmov(half, acc)
    pto.tstore(out, half)


@pytest.mark.clause("TT-01", "TV-01", "TL-01")
@pytest.mark.parametrize("into", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("given", ["float16", "float8_e4m3", "float8_e5m2", "mixed"])
def test_engines_agree_on_stored_products(into: str, given: str) -> None:
    """Small whole numbers, so that sums are exact; the largest overflow float16."""
    draw, target = np.random.default_rng(3), "a2a3" if given == "float16" else "a5"
    kinds = [BYTES.get(given, ml_dtypes.float8_e4m3fn), BYTES.get(given, ml_dtypes.float8_e5m2)]
    x, y = (draw.integers(-4, 5, s).astype(k) for s, k in (((64, 64), kinds[0]), ((32, 64), kinds[1])))
    if given == "float16":
        x, y = x.astype("float16") * np.float16(100), y.astype("float16")
    bias = draw.integers(-8, 8, (1, 32)).astype("float16")
    exact = (x.astype("float64") @ y.astype("float64").T + bias).astype("float32")
    numpy: Any = pto.dtype(into).numpy
    with np.errstate(over="ignore"):
        expected = exact.astype(numpy)
    columns = pto.GlobalTensor(y.ravel(), shape=(64, 32), layout="dn")
    for engine in ("reference", "native", "machine"):
        out = np.zeros((64, 32), numpy)
        run = stored[4](x, columns, bias, out, target=target, engine=engine)
        assert run.engine == engine
        assert (out.view(f"u{out.itemsize}") == expected.view(f"u{out.itemsize}")).all()
        assert not [finding for finding in run.findings if finding.level != "note"]


@pytest.mark.clause("TV-01")
@pytest.mark.parametrize("into", ["float32", "float16", "bfloat16"])
def test_engines_agree_on_moved_products(into: str) -> None:
    x = np.random.default_rng(4).standard_normal((16, 48)).astype("float16")
    found = []
    for engine in ("reference", "native"):
        out = np.zeros((16, 32), pto.dtype(into).numpy)
        moved[1](x, out, target="a5", engine=engine)
        found.append(out.astype("float32"))
    wide = x.astype("float64")
    assert np.allclose(found[0], wide[:, :16] @ wide[:, 16:], rtol=2**-8, atol=1e-2)
    assert np.allclose(found[0], found[1], rtol=2**-8, atol=1e-6)
