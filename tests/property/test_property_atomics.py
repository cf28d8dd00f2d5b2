"""A-16 for pairs of values: every pair of an 8-bit float, every pair of special values of the wider ones."""

from __future__ import annotations

import numpy as np
import pytest

import ptokit as pto
from tests.property import naive
from tests.property.runner import element
from tests.property.strategies import FLOAT8, SMALL_FLOATS, SPECIAL

WIDER = ("float16", "bfloat16", "float32", "float64")
INTEGERS = (*naive.SIGNED, *naive.UNSIGNED)


def edges(dtype: str) -> list[int]:
    """Special bits: the special floats and their neighbours, or the ends of the integers."""
    width = 8 * naive.SIZE[dtype]
    near = SPECIAL.get(dtype, (0, 1, 2, 1 << (width - 1), (1 << (width - 1)) - 1, (1 << width) - 1))
    return sorted({(bits + k) % (1 << width) for bits in near for k in (-1, 0, 1)})


def scattered(target: str, dtype: str, cells: list[int], sources: list[int], atomic: str) -> list[int]:
    """Every source into a separate cell."""
    bits = np.dtype(f"u{naive.SIZE[dtype]}")
    table = np.array(cells, bits)
    cols = -(-len(sources) // 32) * 32
    with pto.target(target):
        src = pto.Tile("vec", element(dtype), 1, cols, valid=(1, len(sources)))
        src.buffer.view(bits)[: len(sources)] = np.array(sources, bits)
        idx = pto.Tile("vec", "int32", 1, cols, valid=(1, len(sources))).write(np.arange(len(sources))[None])
        pto.mscatter(pto.GlobalTensor(table, dtype=element(dtype)), src, idx, atomic=atomic, coalesce="elem")
    return table.tolist()


def check(target: str, dtype: str, values: list[int], atomic: str) -> None:
    cells, sources = [a for a in values for _ in values], values * len(values)
    found = scattered(target, dtype, cells, sources, atomic)
    for a, b, got in zip(cells, sources, found, strict=True):
        expected = naive.combine(a, b, dtype, atomic)
        assert got == expected, f"{dtype} {atomic}({a:#x}, {b:#x}): expected {expected:#x}, found {got:#x}"


@pytest.mark.parametrize("atomic", ["add", "max", "min"])
@pytest.mark.parametrize("dtype", [*FLOAT8, *SMALL_FLOATS])
def test_every_pair_of_an_8_bit_float(dtype: str, atomic: str) -> None:
    check("host", dtype, list(range(256)), atomic)


@pytest.mark.parametrize("atomic", ["add", "max", "min"])
@pytest.mark.parametrize("dtype", [*WIDER, *INTEGERS])
def test_special_values(dtype: str, atomic: str) -> None:
    check("host", dtype, edges(dtype), atomic)


@pytest.mark.filterwarnings("ignore::ptokit.HazardWarning")  # what the header of a2a3 does not have
@pytest.mark.parametrize("target", ["cpu", "a2a3", "a5"])
@pytest.mark.parametrize(
    ("dtype", "atomic"),
    [("int32", "add"), ("uint32", "add"), ("float32", "add"), ("float16", "add"), ("int32", "max"), ("float32", "max"),
     ("int32", "min"), ("float32", "min")],
)  # fmt: skip
def test_special_values_on_devices(target: str, dtype: str, atomic: str) -> None:
    check(target, dtype, edges(dtype), atomic)


@pytest.mark.parametrize(("atomic", "negative"), [("max", False), ("min", True)])
@pytest.mark.parametrize("order", [(0.0, -0.0), (-0.0, 0.0)])
def test_zeros_of_the_widest_float(atomic: str, negative: bool, order: tuple[float, float]) -> None:
    """+0 before -0 for max, -0 before +0 for min; a NaN loses."""
    cells = np.array([[order[0], np.nan, 3]], np.longdouble)
    with pto.target("host"):
        src = pto.Tile("vec", np.longdouble, 1, 3)
        src.buffer[:] = np.array([order[1], 2, np.nan], np.longdouble)
        idx = pto.Tile("vec", "int32", 1, 1).write(0)
        pto.mscatter(pto.GlobalTensor(cells), src, idx, atomic=atomic)
    assert cells[0, 1:].tolist() == [2, 3]
    assert bool(np.signbit(cells[0, 0])) is negative


@pytest.mark.parametrize(("atomic", "wanted"), [("max", 1), ("min", 0)])
def test_numbers_of_the_widest_float_are_compared_as_such(atomic: str, wanted: int) -> None:
    values = 1 + np.array([0, np.finfo(np.longdouble).eps], np.longdouble)
    for order in (values, values[::-1]):
        cells = order[:1].copy()
        pto.scatter(cells, order[1:], np.array([0]), atomic=atomic)
        assert cells[0] == values[wanted]
