"""Conversions, comparisons and selections against plain loops."""

from __future__ import annotations

import math
import operator
import zlib
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ptokit as pto
from tests.compute import exact
from tests.compute.exact import WRAPS, expect, is_float, plain, sample, tile
from tests.compute.tables import ALL, TARGETS, cases
from tests.loops import FULL

VALID = (3, 19)
A2A3 = {
    "float32": "float16 bfloat16 int16 int32 int64", "float16": "float32 int32 int16 int8 uint8",
    "bfloat16": "float32 int32", "int16": "float16 float32", "int32": "float32 int16 int64 float16",
    "int64": "float32 int32", "uint8": "float16", "int8": "float16",
}  # fmt: skip
A5 = {
    "float32": "float16 bfloat16 int16 int32 int64", "float16": "float32 int32 int16 int8 uint8",
    "bfloat16": "float32 int32 float16", "int16": "uint8 float16 float32 uint32 int32",
    "int32": "float32 int16 uint16 int64 uint8", "int64": "float32 int32", "uint8": "float16 uint16",
    "int8": "float16 int16 int32", "uint32": "uint8 uint16 int16",
}  # fmt: skip


def listed(*tables: dict[str, str]) -> set[tuple[str, str]]:
    return {(kind, to) for table in tables for kind, row in table.items() for to in row.split()}


PAIRS = {"cpu": listed(A2A3, A5), "a2a3": listed(A2A3), "a5": listed(A5), "host": listed(A2A3, A5)}
CONVERSIONS = [(target, *pair) for target in TARGETS for pair in sorted(PAIRS[target])]


def rng(*key: object) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(repr(key).encode()))


@pytest.mark.parametrize(("target", "kind", "to"), CONVERSIONS)
def test_conversions(target: str, kind: str, to: str) -> None:
    a = sample(kind, VALID, rng(kind, to))
    choices = ["on", None] + (["off"] if target != "a2a3" or (kind, to) in WRAPS else [])
    ways = [*product(enumerate(exact.ROUND), enumerate(choices))]
    with pto.target(target):
        for (k, mode), (other, saturation) in ways:
            if not FULL and (k + other + TARGETS.index(target)) % 2:  # each way on two of four targets
                continue
            dst = tile(to)
            pto.tcvt(dst, tile(kind, data=a), mode, saturation)
            on = saturation == "on" or (saturation is None and (kind, to) not in WRAPS)
            expect(dst, lambda i, j, m=mode, on=on: exact.convert(plain(a[i, j]), kind, to, m, on), (mode, on))


@given(
    st.floats(width=32, allow_nan=False),
    st.sampled_from(["int16", "int32", "int64"]),
    st.sampled_from(list(exact.ROUND)),
)
@settings(max_examples=300)
def test_any_float_becomes_an_integer(value: float, to: str, mode: str) -> None:
    dst = pto.Tile("vec", to, 1, 16, valid=(1, 1))
    pto.tcvt(dst, pto.Tile("vec", "float32", 1, 16, valid=(1, 1)).write(value), mode, "on")
    assert plain(dst.read()[0, 0]) == exact.convert(value, "float32", to, mode, True)


def test_float32_rounds_to_whole_numbers_of_its_own_type() -> None:
    a = np.array([[1.5, 2.5, -0.5, math.inf, 1e10]], "float32")
    for mode in ("rint", "round", "floor", "ceil", "trunc", "odd"):
        dst = tile("float32", (1, 8), (1, 5))
        pto.tcvt(dst, tile("float32", (1, 8), (1, 5), data=a), mode)
        for j in range(5):
            x = float(a[0, j])
            assert dst.read()[0, j] == (exact.ROUND[mode](exact.Fraction(x)) if math.isfinite(x) else x)


def test_the_edges_of_int64() -> None:
    edges = [[2.0**63, -(2.0**63), 2.0**64, -(2.0**64), 2.0**63 - 2.0**39, -(2.0**63) - 2.0**40]]
    src = tile("float32", (1, 8), (1, 6), data=edges)
    for how, expected in {
        "on": [2**63 - 1, -(2**63), 2**63 - 1, -(2**63), 2**63 - 2**39, -(2**63)],
        "off": [-(2**63), -(2**63), 0, 0, 2**63 - 2**39, 2**63 - 2**40],
    }.items():
        dst = tile("int64", (1, 8), (1, 6))
        pto.tcvt(dst, src, "rint", how)
        assert dst.read().tolist() == [expected]


@pytest.mark.parametrize("target", TARGETS[:3])
def test_just_the_listed_pairs_are_accepted(target: str) -> None:
    with pto.target(target):
        for kind in sorted(ALL):
            for to in sorted(ALL):
                if (kind, to) in PAIRS[target] or (kind, to) == ("float32", "float32"):
                    pto.tcvt(tile(to), tile(kind, data=1))
                    continue
                with pytest.raises(pto.VerifyError, match=f"{kind} to {to}"):
                    pto.tcvt(tile(to), tile(kind, data=1))


@pytest.mark.parametrize("to", ["float8_e4m3", "float8_e5m2"])
def test_eight_bit_floats_on_a5(to: str) -> None:
    with pto.target("a5"):
        dst = pto.Tile("vec", to, 1, 32, valid=(1, 4))
        pto.tcvt(dst, pto.Tile("vec", "float32", 1, 32, valid=(1, 4)).write([[1, -2, 65536.0 * 16, -math.inf]]))
    top = 448 if to == "float8_e4m3" else 57344
    assert dst.read().astype("float32").tolist() == [[1, -2, top, -top]]


MODES = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


def mask_tile(target: str, kind: str | None = None) -> pto.Tile:
    kind = kind or ("uint32" if target == "a5" else "uint8")
    return tile(kind, (5, 32), (3, 3 if kind == "uint8" else 2))


def bits(mask: pto.Tile, i: int) -> list[int]:
    size = mask.dtype.size
    return [int(word) >> k & 1 for word in mask.read()[i] for k in range(8 * size)]


@pytest.mark.parametrize(("target", "name", "kind"), cases("tcmp", "tcmps"))
def test_comparisons(target: str, name: str, kind: str) -> None:
    a, b = sample(kind, VALID, rng(kind, 0)), sample(kind, VALID, rng(kind, 1))
    b = np.where(rng(kind).random(VALID) < 0.3, a, b)
    number = 1
    with pto.target(target):
        for mode, holds in MODES.items():
            mask = mask_tile(target)
            other = number if name == "tcmps" else tile(kind, data=b)
            getattr(pto, name)(mask, tile(kind, data=a), other, mode)
            for i in range(VALID[0]):
                row = bits(mask, i)
                for j in range(VALID[1]):
                    assert row[j] == holds(plain(a[i, j]), number if name == "tcmps" else plain(b[i, j])), (mode, i, j)
                assert not any(row[VALID[1] :])
            assert (mask.storage.bits == 0x5A).sum() >= mask.storage.bits.size - 3 * mask.valid[1]


@pytest.mark.parametrize(("target", "name", "kind"), cases("tsel", "tsels"))
def test_selections(target: str, name: str, kind: str) -> None:
    a, b = sample(kind, VALID, rng(kind, 0)), sample(kind, VALID, rng(kind, 1))
    with pto.target(target):
        mask = mask_tile(target)
        mask.write(rng(kind).integers(0, 256, mask.valid))
        dst = tile(kind)
        getattr(pto, name)(dst, mask, tile(kind, data=a), tile(kind, data=b) if name == "tsel" else 1)
        chosen = [bits(mask, i) for i in range(VALID[0])]
        one = 1.0 if is_float(kind) else 1
        expect(dst, lambda i, j: plain(a[i, j]) if chosen[i][j] else plain(b[i, j]) if name == "tsel" else one)


@pytest.mark.parametrize("kind", ["uint8", "uint32"])
def test_the_simulator_takes_both_masks(kind: str) -> None:
    mask, a = mask_tile("cpu", kind), tile("float32", data=np.arange(57).reshape(VALID))
    pto.tcmps(mask, a, 28, "gt")
    dst = tile("float32")
    pto.tsels(dst, mask, a, -1)
    expect(dst, lambda i, j: float(19 * i + j) if 19 * i + j > 28 else -1.0)


def test_a_selection_keeps_the_bits_of_a_nan() -> None:
    a = tile("float32", (1, 8), (1, 8))
    a.storage.bits[:] = 0x7F800001
    mask = tile("uint8", (1, 32), (1, 1)).write(0xFF)
    dst = tile("float32", (1, 8), (1, 8))
    pto.tsel(dst, mask, a, a)
    assert (dst.storage.bits == 0x7F800001).all()
