"""Numbers as elements: one rounding to the nearest, against fractions."""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from ptokit.engine.number import float_bits
from ptokit.isa.dtype import dtype

FLOATS = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8}
"""Bits of the significand of each type."""


def nearest(value: Fraction, bits: int) -> Fraction:
    """The multiple of a unit that is nearest to a number from 1 up, the even one of two, by its definition."""
    unit = Fraction(2) ** ((value.numerator // value.denominator).bit_length() - bits)
    return round(value / unit) * unit


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("beside", [-1, 0, 1])
def test_whole_numbers_are_rounded_once(name: str, beside: int) -> None:
    """Numbers half between two floats, and one beside: a rounding to a wider float first would make ties of these."""
    bits = FLOATS[name]
    for unit in range(1, 15 - bits if name == "float16" else 62 - bits):
        for odd in (0, 1):
            number = ((1 << bits - 1) + odd << unit) + (1 << unit - 1) + beside
            kept = float_bits(np.asarray(number), dtype(name), "it").view(dtype(name).numpy)[0]
            assert Fraction(float(kept)) == nearest(Fraction(number), bits), number


@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16"])
def test_real_numbers_are_rounded_once(name: str) -> None:
    bits = FLOATS[name]
    for odd in (0, 1):
        half = 1 + Fraction(2 * odd + 1, 1 << bits)
        for value in (half - Fraction(1, 1 << 50), half, half + Fraction(1, 1 << 50)):
            kept = float_bits(np.asarray(float(value)), dtype(name), "it").view(dtype(name).numpy)[0]
            assert Fraction(float(kept)) == nearest(value, bits), float(value)


def test_smallest_floats_keep_their_bits() -> None:
    assert float_bits(np.asarray(0.1), dtype("float32"), "it")[0] == np.float32(0.1).view("u4")
    assert float_bits(np.asarray(0.1), dtype(ml_dtypes.float8_e4m3fn), "it")[0] == 0x1D
