"""Features of the `host` profile only: element types by width, every layout, int64 indices, huge capacities."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ptokit as pto
from tests.property import naive
from tests.property.runner import run
from tests.property.strategies import (
    ODD,
    SMALL_FLOATS,
    fuzz,
    gather_elements,
    gather_rows,
    scatter_elements,
    scatter_in_ub,
    scatter_rows,
)


@pytest.mark.parametrize("strategy", [gather_rows, gather_elements])
@fuzz()
@given(data=st.data())
def test_gathers_move_elements_by_their_width(strategy: Any, data: st.DataObject) -> None:
    run(data.draw(strategy("host", types=ODD)))


@pytest.mark.parametrize("strategy", [scatter_rows, scatter_elements])
@fuzz()
@given(data=st.data())
def test_scatters_move_elements_by_their_width(strategy: Any, data: st.DataObject) -> None:
    run(data.draw(strategy("host", types=tuple(t for t in ODD if t not in SMALL_FLOATS))))


@pytest.mark.parametrize("strategy", [scatter_rows, scatter_elements])
@pytest.mark.parametrize("dtype", SMALL_FLOATS)
@fuzz()
@given(data=st.data())
def test_small_floats_are_numbers_too(dtype: str, strategy: Any, data: st.DataObject) -> None:
    """A-16 for formats with one NaN, without -0 or without a sign: all atomics on all arithmetic types."""
    run(data.draw(strategy("host", types=(dtype,))))


@fuzz()
@given(data=st.data())
def test_tscatter_rows_of_any_layout(data: st.DataObject) -> None:
    run(data.draw(scatter_in_ub("host", "row", forms=True)))


@fuzz()
@given(data=st.data())
def test_tscatter_flat_offsets_name_storage_in_any_layout(data: st.DataObject) -> None:
    """decisions.md: "a flat element offset into the destination tile"; compute.md: "flat dst storage offset"."""
    run(data.draw(scatter_in_ub("host", "flat", forms=True)))


@pytest.mark.parametrize("reading", ["row", "flat"])
@fuzz()
@given(data=st.data())
def test_tscatter_int64_indices_keep_their_width(reading: str, data: st.DataObject) -> None:
    """decisions.md: "int64 is not cast to uint32: values outside [0, capacity) are out of bounds"."""
    run(data.draw(scatter_in_ub("host", reading, index="int64")))


MANY = (1 << 33) + 5


@pytest.mark.parametrize("oob", ["undefined", "clamp", "wrap", "zero"])
@pytest.mark.parametrize("kind", ["int32", "uint32", "int64"])
def test_capacities_beyond_32_bits(kind: str, oob: str) -> None:
    """One row in memory, with 2^33 indices: indices above 2^32 are in range, and negative int32 ones are large."""
    line = np.arange(3, dtype=np.int16) + 7
    info = np.iinfo(kind)
    values = [v for v in (0, 5, -1, 2**32 - 1, 2**32, MANY - 1, MANY, -MANY, 2**62) if info.min <= v <= info.max]
    with pto.target("host"):
        table = pto.GlobalTensor(line, shape=(1, 1, 1, MANY, 3), stride=(1, 1, 1, 0, 1))
        for value in values:
            idx = pto.Tile("vec", kind, 1, 1).write(value)
            dst = pto.Tile("vec", "int16", 1, 3).write(1)
            taken = naive.taken(value % (1 << (8 * naive.SIZE[kind])), kind)
            inside = 0 <= taken < MANY
            if oob == "undefined" and not inside:
                with pytest.raises(pto.OutOfBoundsError):
                    pto.mgather(dst, table, idx, oob=oob)
                assert dst.read().tolist() == [[1, 1, 1]]
                continue
            if kind == "int32" and value < 0 and oob in ("clamp", "wrap"):
                with pytest.warns(pto.HazardWarning, match="H-13"):
                    pto.mgather(dst, table, idx, oob=oob)
            else:
                pto.mgather(dst, table, idx, oob=oob)
            assert dst.read().tolist() == ([[0, 0, 0]] if oob == "zero" and not inside else [[7, 8, 9]])


@pytest.mark.parametrize("kind", [np.complex64, ml_dtypes.float8_e4m3b11fnuz, ml_dtypes.float8_e3m4, np.longdouble])
def test_add_takes_every_arithmetic_type(kind: type) -> None:
    """decisions.md: "all atomics on all arithmetic types"."""
    cells = np.array([[1, 2, 4]], kind)
    with pto.target("host"):
        src = pto.Tile("vec", kind, 2, 3)
        src.buffer[:] = np.array([1, 1, 1, 2, 2, 2], kind)
        idx = pto.Tile("vec", "int32", 2, 1).write([[0], [0]])
        pto.mscatter(pto.GlobalTensor(cells), src, idx, atomic="add")
    assert cells.tolist() == np.array([[4, 5, 7]], kind).tolist()


@pytest.mark.parametrize("pad", ["max", "min", "zero"])
@pytest.mark.parametrize("kind", [np.bool_, np.int64, np.uint64, np.float64, np.longdouble])
def test_padding_of_host_types(kind: type, pad: str) -> None:
    """TL-03: floats pad with infinities, integers with their ends; False and True are the ends of bool."""
    if np.dtype(kind).kind == "f":
        ends = {"max": np.inf, "min": -np.inf, "zero": 0}
    elif kind is np.bool_:
        ends = {"max": True, "min": False, "zero": False}
    else:
        ends = {"max": np.iinfo(kind).max, "min": np.iinfo(kind).min, "zero": 0}
    with pto.target("host"):
        dst = pto.Tile("vec", kind, 2, 2, valid=(1, 1), pad=pad)
        pto.tload(dst, pto.GlobalTensor(np.ones((1, 1), kind)))
    assert dst.buffer.tolist() == np.array([1, *[ends[pad]] * 3], kind).tolist()
