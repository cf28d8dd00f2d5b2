"""The meaning of compute, element by element: exact fractions, rounded once. Independent of the engine."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np

import ptokit as pto

FORMATS = {
    "float16": (11, -14, 15),
    "bfloat16": (8, -126, 127),
    "float32": (24, -126, 127),
    "float64": (53, -1022, 1023),
}
"""Bits of precision, smallest and largest exponent."""
NAN, INF = math.nan, math.inf


def is_float(kind: str) -> bool:
    return kind in FORMATS


def bounds(kind: str) -> tuple[int, int]:
    bits = int("".join(c for c in kind if c.isdigit()))
    return (0, 2**bits - 1) if kind.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def wrap(value: int, kind: str) -> int:
    low, high = bounds(kind)
    return (value - low) % (high - low + 1) + low


def nearest(value: Fraction, kind: str, sign: float = 1.0) -> float:
    """The nearest number of a format, ties to even; `sign` is a zero's."""
    precision, low, high = FORMATS[kind]
    if value == 0:
        return math.copysign(0.0, sign)
    magnitude = abs(value)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    exponent -= magnitude < Fraction(2) ** exponent
    step = Fraction(2) ** (max(exponent, low) - precision + 1)
    found = round(magnitude / step) * step
    if found >= Fraction(2) ** (high + 1):
        return INF if value > 0 else -INF
    return float(found) if value > 0 else -float(found)


def finite(*values: float) -> bool:
    return all(math.isfinite(v) for v in values)


def add(a, b, kind):
    if not is_float(kind):
        return wrap(a + b, kind)
    return nearest(Fraction(a) + Fraction(b), kind, a + b) if finite(a, b) else a + b


def sub(a, b, kind):
    return add(a, -b, kind)


def mul(a, b, kind):
    if not is_float(kind):
        return wrap(a * b, kind)
    sign = math.copysign(1, a) * math.copysign(1, b)
    return nearest(Fraction(a) * Fraction(b), kind, sign) if finite(a, b) else a * b


def div(a, b, kind):
    if not is_float(kind):
        return wrap(int(Fraction(a, b)), kind)
    sign = math.copysign(1, a) * math.copysign(1, b)
    if math.isnan(a) or math.isnan(b) or (a == 0 and b == 0) or (math.isinf(a) and math.isinf(b)):
        return NAN
    if b == 0 or math.isinf(a):
        return sign * INF
    return sign * 0.0 if math.isinf(b) else nearest(Fraction(a) / Fraction(b), kind, sign)


def largest(a, b, kind):
    return b if b > a else a


def smallest(a, b, kind):
    return b if b < a else a


def width(kind: str) -> int:
    return int("".join(c for c in kind if c.isdigit()))


def shl(a, count, kind):
    count %= 2 ** width(kind)
    return wrap(a << count, kind) if count < width(kind) else 0


def shr(a, count, kind):
    count %= 2 ** width(kind)
    return a >> count if count < width(kind) else (-1 if a < 0 else 0)


def sqrt(a, kind):
    if math.isnan(a) or a < 0:
        return NAN
    if a == 0 or math.isinf(a):
        return a
    with localcontext() as context:
        context.prec = 200
        value = Fraction(a)
        return nearest(Fraction((Decimal(value.numerator) / Decimal(value.denominator)).sqrt()), kind)


def leak(a, slope, kind):
    return a if a > 0 else mul(a, slope, kind)


BINARY = {
    "tadd": add, "tsub": sub, "tmul": mul, "tdiv": div, "tmax": largest, "tmin": smallest,
    "tand": lambda a, b, kind: a & b, "tor": lambda a, b, kind: a | b,
    "txor": lambda a, b, kind: a ^ b, "tprelu": leak, "tshl": shl, "tshr": shr,
}  # fmt: skip
UNARY = {
    "tabs": lambda a, kind: abs(a) if is_float(kind) else wrap(abs(a), kind),
    "tneg": lambda a, kind: -a if is_float(kind) else wrap(-a, kind),
    "tsqrt": sqrt,
    "trecip": lambda a, kind: div(1.0, a, kind),
    "trelu": lambda a, kind: type(a)(0) if a < 0 else a,
    "tnot": lambda a, kind: wrap(~a, kind),
}

ROUND = {
    "none": math.trunc, "trunc": math.trunc, "floor": math.floor, "ceil": math.ceil, "rint": round,
    "round": lambda x: math.floor(abs(x) + Fraction(1, 2)) * (1 if x >= 0 else -1),
    "odd": lambda x: math.floor(x) if x.denominator == 1 or math.floor(x) % 2 else math.floor(x) + 1,
}  # fmt: skip
WRAPS = {
    ("float16", "uint8"), ("float16", "int8"), ("float16", "int16"), ("float32", "int16"), ("int64", "int32"),
    ("int32", "int16"),
}  # fmt: skip


def greatest(kind: str) -> float:
    precision, _, high = FORMATS[kind]
    return float((2 - Fraction(2) ** (1 - precision)) * Fraction(2) ** high)


def clamp(value, low, high):
    return low if value < low else high if value > high else value


def convert(value, kind: str, to: str, mode: str, saturate: bool):
    if is_float(to):
        if is_float(kind) and not finite(value) and (math.isnan(value) or not saturate):
            return value
        limit = greatest(to) if not is_float(kind) else min(greatest(to), greatest(kind))
        kept = clamp(value, -limit, limit) if saturate else value
        return nearest(Fraction(kept), to, math.copysign(1, kept))
    low, high = bounds(to)
    if is_float(kind):
        if math.isnan(value):
            return 0
        if math.isinf(value):
            return (high if value > 0 else low) if saturate else 0
        value = ROUND[mode](Fraction(value))
    return clamp(value, low, high) if saturate else wrap(value, to)


def sample(kind: str, shape: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
    """Random bits, ordinary numbers and the special ones of a type, mixed."""
    numpy = pto.dtype(kind).numpy
    count = shape[0] * shape[1]
    noise = rng.integers(0, 256, count * numpy.itemsize, np.uint8).view(numpy)
    if is_float(kind):
        tame = (rng.standard_normal(count) * 4).astype(numpy)
        odd = np.array([0.0, -0.0, 1, -1, 3, INF, -INF, NAN, greatest(kind), -greatest(kind)]).astype(numpy)
    else:
        low, high = bounds(kind)
        tame = rng.integers(max(low, -9), min(high, 9), count).astype(numpy)
        odd = np.array([0, 1, low, low + 1, high, high - 1], dtype=object).astype(numpy)
    choice = rng.integers(0, 3, count)
    mixed = np.where(choice == 0, noise, np.where(choice == 1, tame, odd[rng.integers(0, odd.size, count)]))
    return mixed.astype(numpy).reshape(shape)


def plain(value):
    """A NumPy element as a Python number."""
    return int(value) if np.asarray(value).dtype.kind in "iu" else float(value)


def same(found, expected) -> bool:
    found = plain(found)
    if isinstance(expected, float) and math.isnan(expected):
        return isinstance(found, float) and math.isnan(found)
    return found == expected and math.copysign(1, found) == math.copysign(1, expected)


def tile(kind: str, shape=(5, 32), valid=(3, 19), data=None, **options) -> pto.Tile:
    """A tile whose padding is marked, holding `data`."""
    made = pto.Tile("vec", kind, *shape, valid=valid, **options)
    made.storage.bits[:] = 0x5A
    return made if data is None else made.write(data)


def expect(dst: pto.Tile, expected, note: object = "") -> None:
    """Every element of the valid region is `expected(i, j)` and the padding is untouched."""
    got = dst.read()
    for i in range(dst.valid[0]):
        for j in range(dst.valid[1]):
            wanted = expected(i, j)
            assert same(got[i, j], wanted), f"{note} at ({i}, {j}): expected {wanted!r}, found {plain(got[i, j])!r}"
    inside = np.zeros(dst.shape, bool)
    inside[: dst.valid[0], : dst.valid[1]] = True
    layout = dst.spec.layout
    for i, j in zip(*np.nonzero(~inside), strict=True):
        assert dst.storage.bits[layout.offset(int(i), int(j))] == 0x5A, f"{note}: padding at ({i}, {j}) was written"
