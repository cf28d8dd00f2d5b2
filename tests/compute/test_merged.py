"""Merges, masks, quantisation, remainders and powers against plain loops, and with numbers of the run."""

from __future__ import annotations

import math
import struct
import zlib
from fractions import Fraction

import numpy as np
import pytest

import ptokit as pto
from tests.compute.exact import expect, plain, tile
from tests.compute.tables import cases


def rng(*key: object) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(repr(key).encode()))


# --- merges


def packed(kind: str, pairs: list[tuple[float, int]]) -> np.ndarray:
    """Pairs of a value and a number as elements of a type, by hand."""
    letter, filler = ("f", "") if kind == "float32" else ("e", "xx")
    data = b"".join(struct.pack(f"<{letter}{filler}I", value, number) for value, number in pairs)
    return np.frombuffer(data, kind)


def pairs_tile(kind: str, pairs: list[tuple[float, int]]) -> pto.Tile:
    elements = packed(kind, pairs)
    made = pto.Tile("vec", kind, 1, -(-elements.size // 16) * 16, valid=(1, elements.size))
    made.buffer[: elements.size] = elements
    return made


def merged(lists: list[list[tuple[float, int]]], most: int, exhausted: bool) -> list[tuple[float, int]]:
    """Two heads at a time: the later one only if it is greater."""
    left, found = [list(each) for each in lists], list[tuple[float, int]]()
    while len(found) < most and any(left):
        heads = [(-each[0][0], k) for k, each in enumerate(left) if each]
        found.append(left[min(heads)[1]].pop(0))
        if exhausted and not all(left):
            break
    return found


@pytest.mark.parametrize("kind", ["float16", "float32"])
@pytest.mark.parametrize("exhausted", [False, True])
@pytest.mark.parametrize("count", [2, 3, 4])
def test_lists(count: int, exhausted: bool, kind: str) -> None:
    values = rng(count, exhausted, kind)
    for most in (1, 7, 20):
        lists = [
            sorted(((float(v), int(values.integers(1 << 32))) for v in values.integers(-5, 6, values.integers(5, 9))),
                   key=lambda pair: -pair[0])
            for _ in range(count)
        ]  # fmt: skip
        room = min(most, sum(map(len, lists)))
        width = 8 // np.dtype(kind).itemsize
        dst = pto.Tile("vec", kind, 1, 256, valid=(1, room * width))
        getattr(pto, f"tmrgsort{count}")(dst, *(pairs_tile(kind, each) for each in lists), exhausted=exhausted)
        wanted = packed(kind, merged(lists, room, exhausted))
        assert dst.buffer[: wanted.size].tobytes() == wanted.tobytes()
        assert set(dst.read()[0, wanted.size :].tobytes()) <= {0xFF}


@pto.kernel
def top(x, ids, out, n):
    row, numbers = pto.Tile("vec", "float32", 1, 128), pto.Tile("vec", "uint32", 1, 128)
    pairs, found = pto.Tile("vec", "float32", 1, 256), pto.Tile("vec", "float32", 1, 256)
    best = pto.Tile("vec", "uint32", 1, 128)
    pto.tload(row, x)
    pto.tload(numbers, ids)
    pto.tsort32(pairs, row, numbers)
    pto.tmrgsort(found, pairs, n)
    pto.tgather_mask(best, found, pattern="p1010")
    pto.tstore(out, best)


@pytest.mark.parametrize("engine", ["reference", "native", "machine"])
def test_the_largest_of_a_row_come_first(engine: str) -> None:
    values = rng("top").permutation(128).astype("float32")[None, :]
    ids, out = np.arange(128, dtype="uint32")[None, :], np.zeros((1, 128), "uint32")
    top[1](values, ids, out, 64, engine=engine)
    assert out[0].tolist() == sorted(range(128), key=lambda k: -values[0, k])


# --- quantisation


def nearest(value: float) -> int:
    """Ties to even."""
    return round(Fraction(value))


@pytest.mark.parametrize("name", ["tquant", "tquant_asym"])
def test_quantisation(name: str) -> None:
    values, single = rng(name), np.float32
    x = values.uniform(-300, 300, (5, 37)).astype(single)
    factors = [values.uniform(-1, 1, (5, 1)).astype(single) for _ in range(1 + name.endswith("asym"))]
    kind, low, high = ("uint8", 0, 255) if name.endswith("asym") else ("int8", -128, 127)
    dst = pto.Tile("vec", kind, 8, 64, valid=(5, 37))
    columns = [pto.Tile("vec", "float32", 8, 1, valid=(5, 1), blayout="col_major").write(each) for each in factors]
    getattr(pto, name)(dst, pto.Tile("vec", "float32", 8, 64, valid=(5, 37)).write(x), *columns)
    for i in range(5):
        for j in range(37):
            scaled = single(x[i, j] * factors[0][i, 0])
            for offset in factors[1:]:
                scaled = single(scaled + offset[i, 0])
            assert dst.read()[i, j] == min(max(nearest(float(scaled)), low), high)


# --- remainders and powers


def remainder(name: str, a: float, b: float, kind: str) -> float:
    """Exact, then rounded to the type; a zero has the sign of the divisor (trem) or of the dividend."""
    one, other = Fraction(a), Fraction(b)
    quotient = math.trunc(one / other) if name == "tfmod" else math.floor(one / other)
    rest = one - quotient * other
    zero = math.copysign(0.0, a if name == "tfmod" else b)
    return plain(np.array(float(rest) if rest or np.dtype(kind).kind in "iu" else zero).astype(kind))


@pytest.mark.parametrize(("target", "name", "kind"), cases("trem", "tfmod"))
def test_remainders(target: str, name: str, kind: str) -> None:
    shape, values = (3, 19), rng(name, kind)
    if np.dtype(kind).kind in "iu":
        a, b = (values.integers(0 if kind.startswith("u") else -60, 60, shape).astype(kind) for _ in range(2))
    else:
        a, b = ((values.integers(-60, 60, shape) / 4).astype(kind) for _ in range(2))
    b = np.where(b == 0, np.array(7, kind), b)
    with pto.target(target):
        dst = tile(kind)
        getattr(pto, name)(dst, tile(kind, data=a), tile(kind, data=b))
        expect(dst, lambda i, j: remainder(name, plain(a[i, j]), plain(b[i, j]), kind), name)
        getattr(pto, f"{name}s")(dst, tile(kind, data=a), plain(b[0, 0]))
        expect(dst, lambda i, j: remainder(name, plain(a[i, j]), plain(b[0, 0]), kind), name)


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "uint16", "int32", "uint32"])
def test_integer_powers(kind: str) -> None:
    shape, values, bits = (3, 19), rng(kind), 8 * np.dtype(kind).itemsize
    low = 0 if kind.startswith("u") else -7
    base, exponent = values.integers(low, 8, shape).astype(kind), values.integers(low, 40, shape).astype(kind)
    exponent[1:] = values.integers(np.iinfo(kind).max // 2, np.iinfo(kind).max, (2, 19))  # of every bit of the type
    dst = tile(kind)
    pto.tpow(dst, tile(kind, data=base), tile(kind, data=exponent))

    def power(number: float, by: float) -> int:
        a, n = int(number), int(by)
        if n < 0:
            return a**-n if abs(a) == 1 else 0
        whole = pow(a, n, 1 << bits)
        return whole - (1 << bits) if low and whole >> (bits - 1) else whole

    expect(dst, lambda i, j: power(plain(base[i, j]), plain(exponent[i, j])), "tpow")
    pto.tpows(dst, tile(kind, data=base), 3)
    expect(dst, lambda i, j: power(plain(base[i, j]), 3), "tpows")


def test_powers_of_floats() -> None:
    base = np.array([[2.0, -2.0, 0.0, 4.0, -8.0, 1.5, 10.0, 0.0]], "float32")
    exponent = np.array([[0.5, 3.0, 0.0, -1.5, 0.5, 7.0, 40.0, -1.0]], "float32")
    dst = pto.Tile("vec", "float32", 1, 8)
    pto.tpow(dst, pto.Tile("vec", "float32", 1, 8).write(base), pto.Tile("vec", "float32", 1, 8).write(exponent))
    found = dst.read()[0].tolist()
    assert found[:4] == [np.float32(2**0.5), -8, 1, 0.125] and math.isnan(found[4])
    assert found[5:] == [1.5**7, math.inf, math.inf]
