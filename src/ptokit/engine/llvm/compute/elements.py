"""What operations do to elements, as bits in registers, one lane or many at a time."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import factorial, inf, log, nan, sqrt

import numpy as np

from ptokit.engine.llvm.emit import IrBuilder, IrValue, like
from ptokit.engine.llvm.numbers import NATIVE, intrinsic, narrow, real, widen
from ptokit.isa.dtype import DType

LN2 = round(log(2) * 2**32) / 2**32, log(2) - round(log(2) * 2**32) / 2**32
"""ln 2 in two parts; whole numbers below 2^20 times the first are exact."""
FARTHEST = 200.0
"""Beyond this, `exp` is zero or infinity in every narrower float."""
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


FLOATS = frozenset((*NATIVE, "bfloat16", "float8_e4m3", "float8_e5m2"))
"""The floats there is arithmetic for."""
LINE = 32
"""Bytes of a vector."""


def is_float(dtype: DType) -> bool:
    """Whether LLVM has arithmetic for this float type."""
    return dtype.name in FLOATS


def is_numeric(dtype: DType) -> bool:
    """Whether there is arithmetic for it."""
    return is_float(dtype) or (dtype.is_integer and dtype.name != "bool")


def lanes_for(*dtypes: DType) -> int:
    """Elements that are computed with at once: a vector of the widest form that they take."""
    return LINE // max(4 if is_float(each) and each.name not in NATIVE else each.size for each in dtypes)


def single(code: IrBuilder, dtype: DType, bits: IrValue) -> IrValue:
    """Elements as float32, or as float64 where they are that."""
    value = widen(code, dtype, bits)
    return value.to("fpext", like(value.type, "float")) if dtype.name == "float16" else value


def from_single(code: IrBuilder, dtype: DType, value: IrValue) -> IrValue:
    """float32 (or float64 for itself) rounded to a type, NaNs canonical."""
    if dtype.name == "float16":
        value = value.to("fptrunc", like(value.type, "half"))
    return narrow(code, dtype, value)


def double(code: IrBuilder, dtype: DType, bits: IrValue) -> IrValue:
    """Elements as float64."""
    value = widen(code, dtype, bits)
    return value.to("fpext", like(value.type, "double"))


def from_double(code: IrBuilder, dtype: DType, value: IrValue) -> IrValue:
    """float64 rounded to a type. The small ones are rounded to float32 first, but for half, which is rounded once."""
    if dtype.name == "float64":
        return narrow(code, dtype, value)
    nearest = value.to("fptrunc", like(value.type, "float"))
    return from_single(code, dtype, _odd(code, value, nearest) if dtype.name == "float16" else nearest)


def _odd(code: IrBuilder, value: IrValue, nearest: IrValue) -> IrValue:
    """The float32 next to a float64 whose last bit is set, unless it is exact: rounding that again is right."""
    back = nearest.to("fpext", value.type)
    bits = nearest.bits(like(value.type, "i32"))
    beyond = intrinsic(code, "fabs", back).compare("ogt", intrinsic(code, "fabs", value))
    sticky = code.select(beyond, bits - 1, bits) | 1
    return code.select(back.compare("one", value), sticky, bits).bits(nearest.type)


@dataclass(frozen=True)
class ElementSite:
    """Where elements of one type are computed with."""

    code: IrBuilder
    dtype: DType


Element = Callable[..., IrValue]
"""Takes an `ElementSite` and bits of elements; returns bits of elements."""


def _float(function: Callable[..., IrValue], site: ElementSite, *bits: IrValue) -> IrValue:
    """An operation on floats, rounded once."""
    return narrow(site.code, site.dtype, function(*(widen(site.code, site.dtype, each) for each in bits)))


def _whole(function: Callable[..., IrValue], _site: ElementSite, *bits: IrValue) -> IrValue:
    """An operation on whole numbers, which wraps."""
    return function(*bits)


def _library(
    name: str, approximate: Callable[[IrBuilder, IrValue], IrValue], site: ElementSite, bits: IrValue
) -> IrValue:
    """Through float64: the C library's function for float64, one element at a time; `approximate` for other floats."""
    code, value = site.code, double(site.code, site.dtype, bits)
    if site.dtype.name != "float64":
        return from_double(code, site.dtype, approximate(code, value))
    return narrow(code, site.dtype, code.call("double", name, value))


def holds(site: ElementSite, how: str, a: IrValue, b: IrValue) -> IrValue:
    """A comparison of elements: `gt`, `lt`, `eq`, …"""
    if is_float(site.dtype):
        ordered = "une" if how == "ne" else f"o{how}"
        return widen(site.code, site.dtype, a).compare(ordered, widen(site.code, site.dtype, b))
    sign = "" if how in ("eq", "ne") else "u" if site.dtype.family == "uint" else "s"
    return a.compare(f"{sign}{how}", b)


def _pick(how: str, site: ElementSite, a: IrValue, b: IrValue) -> IrValue:
    """`b` where it is strictly better, else `a`."""
    return site.code.select(holds(site, how, b, a), b, a)


def _divide(site: ElementSite, a: IrValue, b: IrValue) -> IrValue:
    """Towards zero; the lowest number divided by -1 is itself."""
    if site.dtype.family == "uint":
        return a.op("udiv", b)
    flips = b.compare("eq", -1)
    return site.code.select(flips, 0 - a, a.op("sdiv", site.code.select(flips, site.code.constant(b.type, 1), b)))


def _left(site: ElementSite, a: IrValue, count: IrValue) -> IrValue:
    """Counts are unsigned; the width and more leave nothing."""
    inside = count.compare("ult", 8 * site.dtype.size)
    return site.code.select(inside, a << site.code.select(inside, count, 0), 0)


def _right(site: ElementSite, a: IrValue, count: IrValue) -> IrValue:
    """Counts are unsigned; the width and more leave nothing but the sign."""
    inside = count.compare("ult", 8 * site.dtype.size)
    if site.dtype.family == "uint":
        return site.code.select(inside, a >> site.code.select(inside, count, 0), 0)
    return a.op("ashr", site.code.select(inside, count, 8 * site.dtype.size - 1))


def _absolute(site: ElementSite, a: IrValue) -> IrValue:
    return a if site.dtype.family == "uint" else site.code.select(a.compare("slt", 0), 0 - a, a)


def _negate(value: IrValue) -> IrValue:
    return value.code.write(value.type, f"fneg {value!r}") if value.is_float else 0 - value


def _invert(value: IrValue) -> IrValue:
    return value ^ -1


def _float_quotient(a: IrValue, b: IrValue) -> IrValue:
    return a.op("fdiv", b)


def _reciprocal(value: IrValue) -> IrValue:
    return real(value.code, value.type, 1.0).op("fdiv", value)


def _by_intrinsic(name: str, value: IrValue) -> IrValue:
    return intrinsic(value.code, name, value)


def _rectify(site: ElementSite, a: IrValue) -> IrValue:
    zero = site.code.constant(a.type, 0)
    return site.code.select(holds(site, "lt", a, zero), zero, a)


def _leak(site: ElementSite, a: IrValue, slope: IrValue) -> IrValue:
    is_positive = holds(site, "gt", a, site.code.constant(a.type, 0))
    return site.code.select(is_positive, a, operations(site.dtype)["mul"](site, a, slope))


def _reciprocal_root(site: ElementSite, bits: IrValue) -> IrValue:
    """Through float64."""
    root = intrinsic(site.code, "sqrt", double(site.code, site.dtype, bits))
    return from_double(site.code, site.dtype, real(site.code, root.type, 1.0).op("fdiv", root))


PICKS: Mapping[str, Element] = {"max": partial(_pick, "gt"), "min": partial(_pick, "lt")}
FLOAT_OPS: Mapping[str, Element] = {
    "add": partial(_float, operator.add),
    "sub": partial(_float, operator.sub),
    "mul": partial(_float, operator.mul),
    "div": partial(_float, _float_quotient),
    "abs": partial(_float, partial(_by_intrinsic, "fabs")),
    "neg": partial(_float, _negate),
    "sqrt": partial(_float, partial(_by_intrinsic, "sqrt")),
    "recip": partial(_float, _reciprocal),
    "exp": partial(_library, "exp", exponential),
    "log": partial(_library, "log", logarithm),
    "rsqrt": _reciprocal_root,
    "relu": _rectify,
    "prelu": _leak,
    **PICKS,
}
WHOLE_OPS: Mapping[str, Element] = {
    "add": partial(_whole, operator.add),
    "sub": partial(_whole, operator.sub),
    "mul": partial(_whole, operator.mul),
    "div": _divide,
    "abs": _absolute,
    "neg": partial(_whole, _negate),
    "and": partial(_whole, IrValue.__and__),
    "or": partial(_whole, IrValue.__or__),
    "xor": partial(_whole, IrValue.__xor__),
    "not": partial(_whole, _invert),
    "relu": _rectify,
    "shl": _left,
    "shr": _right,
    **PICKS,
}
TRUTH_OPS: Mapping[str, Element] = {
    "add": WHOLE_OPS["or"],
    "mul": WHOLE_OPS["and"],
    "and": WHOLE_OPS["and"],
    "or": WHOLE_OPS["or"],
    "xor": WHOLE_OPS["xor"],
    **PICKS,
}
TRANSCENDENTAL = frozenset(("exp", "log", "rsqrt"))


def operations(dtype: DType) -> Mapping[str, Element]:
    """The operations on elements of a type, by name."""
    if is_float(dtype):
        return FLOAT_OPS
    return {} if not dtype.is_integer else TRUTH_OPS if dtype.name == "bool" else WHOLE_OPS


def lanes_of_op(op: str, dtype: DType) -> int:
    """Elements that an operation takes at once."""
    if op in TRANSCENDENTAL:
        return 1 if dtype.name == "float64" else LINE // 8
    if op == "div" and not is_float(dtype):
        return 1  # no machine divides vectors of whole numbers
    return lanes_for(dtype)
