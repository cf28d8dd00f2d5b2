"""`exp` and `log` in float64, lane by lane: so close that narrower floats nearly always round as the exact ones do."""

from __future__ import annotations

from collections.abc import Sequence
from math import factorial, inf, log, nan, sqrt

import numpy as np

from ptokit.engine.llvm.emit import IrBuilder, IrValue, like
from ptokit.engine.llvm.numbers import intrinsic, real

LN2 = round(log(2) * 2**32) / 2**32, log(2) - round(log(2) * 2**32) / 2**32
"""ln 2 in two parts; whole numbers below 2^20 times the first are exact."""
FARTHEST = 200.0
"""Beyond this, `exp` of it is zero or infinity in every narrower float."""
ROUNDER = 1.5 * 2.0**52
"""Added to a small number, leaves its nearest whole number in the last bits."""
EXP = [1 / factorial(k) for k in range(12)]
"""e^r = Σ r^k / k!, for |r| ≤ ln 2 / 2."""
LOG = [1 / (2 * k + 1) for k in range(10)]
"""ln((1 + s) / (1 - s)) = 2 s Σ s^2k / (2k + 1), for |s| ≤ 0.172."""
ROOT = int(np.float64(sqrt(0.5)).view(np.int64))
"""The bits of the least number whose logarithm is summed as it is."""


def _series(code: IrBuilder, x: IrValue, coefficients: Sequence[float]) -> IrValue:
    """A polynomial, by Horner's rule."""
    total = real(code, x.type, coefficients[-1])
    for each in reversed(coefficients[:-1]):
        total = intrinsic(code, "fmuladd", total, x, real(code, x.type, each))
    return total


def exponential(code: IrBuilder, given: IrValue) -> IrValue:
    """e^x = 2^n e^r, where n is whole and r at most half of ln 2."""
    low, high = (real(code, given.type, end) for end in (-FARTHEST, FARTHEST))
    x = code.select(given.compare("olt", low), low, given)
    x = code.select(x.compare("ogt", high), high, x)
    rounder = real(code, x.type, ROUNDER)
    raised = x * real(code, x.type, 1 / log(2)) + rounder
    n = raised - rounder
    for part in LN2:
        x = intrinsic(code, "fmuladd", n, real(code, x.type, -part), x)
    whole = like(x.type, "i64")
    scaled = (_series(code, x, EXP).bits(whole) + (raised.bits(whole) << 52)).bits(x.type)
    return code.select(given.compare("uno", given), given, scaled)


def logarithm(code: IrBuilder, x: IrValue) -> IrValue:
    """ln(2^n m) = n ln 2 + ln m, where m lies between the roots of 1/2 and 2. None of `x` is denormal."""
    bits = x.bits(like(x.type, "i64"))
    n = (bits - ROOT).op("ashr", 52)
    f = (bits - (n << 52)).bits(x.type) - real(code, x.type, 1.0)
    s = f.op("fdiv", f + real(code, x.type, 2.0))
    summed = (s + s) * _series(code, s * s, LOG)
    n = n.to("sitofp", x.type)
    for part in reversed(LN2):
        summed = intrinsic(code, "fmuladd", n, real(code, x.type, part), summed)
    zero, none = real(code, x.type, 0.0), real(code, x.type, nan)
    odd = code.select(x.compare("olt", zero), none, x)
    odd = code.select(x.compare("oeq", zero), real(code, x.type, -inf), odd)
    is_plain = x.compare("ogt", zero) & x.compare("olt", real(code, x.type, inf))
    return code.select(is_plain, summed, odd)
