"""Products on matrix units, on a device whose lanes are threads."""

from __future__ import annotations

from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import pytest

pytest.importorskip("llvmlite")

import ptokit as pto
from ptokit.engine.llvm.compiled import IrSource
from ptokit.engine.llvm.compute import units
from ptokit.engine.llvm.emit import I64, PTR, IrModule
from tests.engine.cuda.emulated import ALIGNED_SHARED, EMULATED, EmulatedDevice
from tests.engine.cuda.test_ptx import NZ, product_of
from tests.engine.cuda.test_stage import EmulatedLaunch
from tests.engine.cuda.threads import ThreadedDevice, WideDevice
from tests.loops import all_pairs

GUARD = 77
SHAPES = [(50, 72, 40), (16, 5, 16), (33, 16, 8), (7, 33, 50), (64, 16, 24), (48, 1, 72), (16, 16, 8)]
KEPT = {"memory": 0, "registers": 32}
"""Where sums are kept, by the most registers for them."""
CASES = [
    *all_pairs(("bfloat16", "float16", "int8"), SHAPES, KEPT, one_in=2),
    *product(("bfloat16",), [(24, 16, 8)], KEPT),
    *product(("int8",), [(17, 3, 1), (17, 3, 9)], KEPT),
]


def arguments(dtype: str, m: int, k: int, n: int) -> dict[str, Any]:
    random, kind = np.random.default_rng(m), getattr(ml_dtypes, dtype, dtype)
    a, b = (random.integers(-8, 8, shape).astype(kind) for shape in ((m, k), (k, n)))
    into = "int32" if dtype == "int8" else "float32"
    sizes = dict(zip(("rows", "deep", "cols"), (-(-extent // 32) * 32 for extent in (m, k, n)), strict=True))
    out = np.full((m + 16, n + m % 2), GUARD, into)[:m, :n]
    return {"a": a, "b": b, "out": out, **sizes, "into": into}


@pytest.mark.parametrize(("dtype", "shape", "kept"), CASES, ids=str)
def test_products_of_any_shape(
    dtype: str, shape: tuple[int, int, int], kept: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(units, "MOST_HELD", KEPT[kept])
    given = arguments(dtype, *shape)
    made = EmulatedLaunch(product_of, given, 1, ThreadedDevice(), 1)
    assert f"multiply_{dtype}" in made.text and bool(made.stage.held) is bool(KEPT[kept])
    check(given)


def check(given: dict[str, Any]) -> None:
    """Twice the product was written, and nothing beside it."""
    written = given["out"].base.copy()
    assert np.array_equal(given["out"], 2 * (given["a"].astype(float) @ given["b"].astype(float)))
    written[: given["out"].shape[0], : given["out"].shape[1]] = GUARD
    assert (written == GUARD).all()


@pto.kernel
def left_last(a, b, out, rows: pto.const, deep: pto.const, cols: pto.const, into: pto.const):
    lm, rm = pto.Tile("mat", a.dtype, rows, deep, **NZ), pto.Tile("mat", b.dtype, deep, cols, **NZ)
    left, right = pto.Tile("left", a.dtype, rows, deep), pto.Tile("right", b.dtype, deep, cols)
    product = pto.Tile("acc", into, rows, cols)
    pto.tload(lm, a)
    pto.tload(rm, b)
    pto.tmov(right, rm)
    pto.tmov(left, lm)
    pto.tmatmul(product, left, right)
    pto.tmatmul_acc(product, product, left, right)
    pto.tstore(out, product)


@pytest.mark.parametrize(("kernel", "shape"), [(product_of, (16, 16, 80)), (left_last, (80, 16, 16))])
def test_groups_use_no_line_beyond_a_tile_that_ends_where_memory_does(kernel: Any, shape: tuple[int, int, int]) -> None:
    given = {**arguments("bfloat16", *shape), **dict(zip(("rows", "deep", "cols"), shape, strict=True))}
    made = EmulatedLaunch(kernel, given, 1, WideDevice(), 1)
    (held,) = made.stage.held.values()
    rows, cols = units.extents_of(held.parts)
    assert shape[0] % rows or shape[2] % cols
    assert made.stage.shared % ALIGNED_SHARED == 0
    check(given)


@pytest.mark.parametrize("extent", [1, 13, 16, 17])
def test_parts_cover_lines_and_lines_beyond_the_last_are_the_last(extent: int) -> None:
    module, found = IrModule(EMULATED), np.zeros(17, np.int64)
    code = module.kernel("lines", [(PTR, "found"), (I64, "extent")])
    with code.phase(), code.share(0, code.i64(16)) as line:
        code.store(units._within(line, code.arguments[1], 16), code.at(code.arguments[0], line * 8))
    with code.phase(), code.when(code.same_lane(0)):
        code.store(units.parts(code.arguments[1], 16), code.at(code.arguments[0], 16 * 8))
    code.ret()
    made = EmulatedDevice().module(f"a test of lines {module.text}", lambda: IrSource(module.text))
    made.kernel("lines")(1, [found.ctypes.data, extent])
    assert found.tolist() == [*(min(line, extent - 1) for line in range(16)), 2 if extent == 17 else 1]


@pto.kernel
def halves_of(a, b, out):
    m, n = out.shape[0], b.shape[1]
    lm, rm = pto.Tile("mat", a.dtype, m, a.shape[1], **NZ), pto.Tile("mat", b.dtype, *b.shape, **NZ)
    left, right = pto.Tile("left", a.dtype, m, a.shape[1]), pto.Tile("right", b.dtype, *b.shape)
    product = pto.Tile("acc", "float32", m, 2 * n)
    pto.tload(rm, b)
    pto.tmov(right, rm)
    for part in range(2):
        pto.tload(lm, a[part * m : (part + 1) * m])
        pto.tmov(left, lm)
        pto.tmatmul(product[:, part * n : (part + 1) * n], left, right)
    for part in range(2):
        pto.tstore(out[:, part * n : (part + 1) * n], product[:, part * n : (part + 1) * n])


def test_windows_of_one_tile_are_several_regions() -> None:
    random = np.random.default_rng(0)
    a, b = (random.integers(-8, 8, shape).astype(ml_dtypes.bfloat16) for shape in ((32, 32), (32, 32)))
    given = {"a": a, "b": b, "out": np.zeros((16, 64), "f4")}
    made = EmulatedLaunch(halves_of, given, 1, ThreadedDevice(), 1)
    assert not made.stage.held
    product = a.astype(float) @ b.astype(float)
    assert np.array_equal(given["out"], np.hstack([product[:16], product[16:]]))
