"""Atomics bit for bit: wrapping, rounding at every step, NaN and signed zero (A-16)."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import ptokit as pto

QUIET = {"float32": 0x7FC00000, "float16": 0x7E00, "bfloat16": 0x7FC0}
BITS = {"float32": np.uint32, "float16": np.uint16, "bfloat16": np.uint16}


def scatter(cell: object, sources: list[object], dtype: str, atomic: str, target: str = "a5") -> np.ndarray:
    """Combine sources one after the other into one cell; returns the cell as an array of one element."""
    kind = pto.dtype(dtype).numpy
    table = np.full(8, cell, kind) if not isinstance(cell, np.ndarray) else np.repeat(cell, 8)
    src = pto.Tile("vec", dtype, 1, 32, valid=(1, len(sources))).write(np.array(sources, kind)[None])
    idx = pto.Tile("vec", "int32", 1, 32, valid=(1, len(sources))).write(0)
    with pto.target(target):
        pto.mscatter(pto.GlobalTensor(table[:1]), src, idx, coalesce="elem", atomic=atomic)
    return table[:1]


@pytest.mark.clause("A-16", "MS-ATOM-02")
@pytest.mark.parametrize(
    ("dtype", "start", "sources"),
    [
        ("float32", 2.0**24, [1.0, 1.0, 1.0]),
        ("float32", 1.0, [2.0**-24] * 5),
        ("float16", 2048.0, [1.0, 1.0, 1.0, 1.0]),
        ("float16", 1.0, [0.0004, 0.0004, 0.0004]),
        ("float16", 65504.0, [16.0, -16.0]),
        ("float32", 3e38, [3e38, -3e38]),
    ],
)
def test_floats_round_at_every_step_in_program_order(dtype: str, start: float, sources: list[float]) -> None:
    kind = pto.dtype(dtype).numpy.type
    total = kind(start)
    with np.errstate(over="ignore"):
        for source in sources:
            total = kind(total + kind(source))
    assert scatter(start, [kind(s) for s in sources], dtype, "add")[0] == total
    assert float(np.float64(start) + sum(map(float, sources))) != float(total) or dtype == "float16"


def test_bfloat16_rounds_at_every_step_on_the_host() -> None:
    assert float(scatter(256.0, [1.0, 1.0, 1.0], "bfloat16", "add", "host")[0]) == 256.0
    assert float(scatter(256.0, [1.5, 1.5], "bfloat16", "add", "host")[0]) == 260.0


def test_integers_wrap() -> None:
    assert scatter(2**31 - 1, [1, 1], "int32", "add")[0] == -(2**31) + 1
    assert scatter(2**32 - 1, [2], "uint32", "add")[0] == 1
    assert scatter(127, [1], "int8", "add", "host")[0] == -128


@pytest.mark.parametrize("payload", [0x7F800001, 0xFFC00001, 0x7FFFFFFF])
def test_a_nan_out_of_an_add_is_the_canonical_one(payload: int) -> None:
    nan = np.array([payload], np.uint32).view(np.float32)
    assert scatter(1.0, [nan[0]], "float32", "add").view(np.uint32)[0] == QUIET["float32"]
    assert scatter(nan, [1.0], "float32", "add").view(np.uint32)[0] == QUIET["float32"]


@pytest.mark.parametrize("engine", ["reference", "auto"])
@pytest.mark.parametrize("part", ["float32", "float64"])
def test_a_nan_in_a_part_of_a_complex_sum_is_the_canonical_one(part: str, engine: str) -> None:
    word, quiet = (np.uint32, 0x7FC00000) if part == "float32" else (np.uint64, 0x7FF8 << 48)
    one, payload = (np.array([number], part).view(word)[0] for number in (1.0, -np.nan))
    payload |= word(0x123)
    whole = np.complex64 if part == "float32" else np.complex128
    table = np.array([payload, one, one, one, one, one], word).view(whole)
    src = np.array([one, one, one, payload], word).view(whole)
    pto.scatter(table, src, np.array([0, 1]), atomic="add", engine=engine)
    two = np.array([2.0], part).view(word)[0]
    assert table.view(word).tolist() == [quiet, two, two, quiet, one, one]


@pytest.mark.parametrize("dtype", list(QUIET))
def test_infinities_that_cancel_give_the_canonical_nan(dtype: str) -> None:
    assert scatter(np.inf, [-np.inf], dtype, "add", "host").view(BITS[dtype])[0] == QUIET[dtype]


@pytest.mark.clause("A-16", "MS-ATOM-03")
@pytest.mark.parametrize(
    ("cell", "sources", "highest", "lowest"),
    [
        (1.0, [3.0, -2.0], 3.0, -2.0),
        (np.nan, [3.0], 3.0, 3.0),
        (1.0, [np.nan], 1.0, 1.0),
        (np.nan, [np.nan, -5.0, np.nan], -5.0, -5.0),
        (-np.inf, [np.nan, -np.inf], -np.inf, -np.inf),
        (-0.0, [0.0], 0.0, -0.0),
        (0.0, [-0.0], 0.0, -0.0),
        (np.inf, [np.nan], np.inf, np.inf),
    ],
)
def test_max_and_min(cell: float, sources: list[float], highest: float, lowest: float) -> None:
    for atomic, expected in (("max", highest), ("min", lowest)):
        found = scatter(cell, sources, "float32", atomic)
        assert found.view(np.uint32)[0] == np.float32(expected).view(np.uint32)


@pytest.mark.parametrize("atomic", ["max", "min"])
def test_a_cell_keeps_its_bits_when_everything_is_nan(atomic: str) -> None:
    nan = np.array([0xFF812345], np.uint32).view(np.float32)
    other = np.array([0x7FC00001], np.uint32).view(np.float32)
    assert scatter(nan, [other[0], np.nan], "float32", atomic).view(np.uint32)[0] == 0xFF812345


@pytest.mark.parametrize(
    "dtype", [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.bfloat16, np.float16, np.float64]
)
def test_max_orders_every_float_type_as_its_numbers(dtype: type) -> None:
    size = np.dtype(dtype).itemsize
    rng = np.random.default_rng(3)
    bits = rng.integers(0, 256, (64, size), dtype=np.uint8).copy().view(f"u{size}").ravel()
    values = bits.view(dtype)
    numbers = values[~np.isnan(values.astype(np.float64))].astype(np.float64)
    name = pto.dtype(dtype).name
    table = values[:1].copy()
    for start in range(1, 64, 32):
        part = values[start : start + 32]
        src = pto.Tile("vec", name, 1, 32, valid=(1, len(part))).write(part[None])
        idx = pto.Tile("vec", "int32", 1, 32, valid=(1, len(part))).write(0)
        with pto.target("host"):
            pto.mscatter(pto.GlobalTensor(table), src, idx, coalesce="elem", atomic="max")
    assert float(table[0]) == numbers.max()
