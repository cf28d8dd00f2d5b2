"""TQUANT to float8_e4m3 with shared exponents agrees with a loop over groups."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ptokit as pto
from tests.cxx.building import COMPILER

pytestmark = pytest.mark.skipif(not COMPILER, reason="needs a C++ compiler")
SOURCE = Path(__file__).parent / "sources" / "shared_exponents.cpp"
E4M3 = ml_dtypes.float8_e4m3fn


def data(kind: Any) -> np.ndarray[Any, Any]:
    """Groups of very different size; one of zeros, one of equal numbers, one of the smallest, one with an infinity."""
    random = np.random.default_rng(0)
    sizes = np.exp2(random.integers(-60, 60, (4, 8)).astype("float32")).repeat(32, axis=1)
    x = (random.standard_normal((4, 256)).astype("float32") * sizes).astype(kind)
    x[0, :32], x[1, 32:64], x[2, 64:96], x[3, 96] = 0, 448, 1e-38, np.inf
    return x


def exponent(most: float, *, nv: bool) -> int:
    """The exponent of a group, with its bias: OCP takes the power of two below the largest element, and 448 has 8; the
    other algorithm the first power that brings the largest element to 448 or below."""
    if math.isinf(most):
        return 254 if nv else 247
    if most == 0:
        return 0
    if nv:
        return max(0, 127 + math.ceil(math.log2(np.float32(most) * np.float32(1 / 448))))
    return max(0, 127 + math.frexp(most)[1] - 1 - 8)


def expected(x: np.ndarray[Any, Any], *, nv: bool) -> tuple[np.ndarray[Any, Any], list[list[int]]]:
    out, powers = np.zeros(x.shape, E4M3), [[0] * 8 for _ in range(4)]
    for i in range(4):
        for g in range(8):
            group = [float(value) for value in x[i, 32 * g : 32 * g + 32]]
            powers[i][g] = power = exponent(max(map(abs, group)), nv=nv)
            for j, value in enumerate(group):
                out[i, 32 * g + j] = min(max(value * 2.0 ** (127 - power), -448), 448)
    return out, powers


def run(name: str, x: np.ndarray[Any, Any]) -> tuple[Any, np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    out, powers = np.zeros(x.shape, E4M3), np.zeros((4, 8), "uint8")
    report = pto.load(str(SOURCE), function=name)[1](out, powers, x, target="a5", engine="machine")
    return report, out, powers


@pytest.mark.parametrize(
    ("name", "kind"), [("ocp", "float32"), ("nv", "float32"), ("by_rows", "float32"), ("brain", ml_dtypes.bfloat16)]
)
def test_groups_of_32(name: str, kind: Any) -> None:
    x = data(kind)
    report, out, powers = run(name, x)
    assert report.ok and report.modelled, report.findings
    values, exponents = expected(x, nv=name == "nv")
    assert powers.tolist() == exponents
    assert np.array_equal(out.view("uint8"), values.view("uint8"))


@pytest.mark.parametrize("name", ["ocp", "nv"])
def test_a_group_with_a_nan(name: str) -> None:
    x = np.ones((4, 256), "float32")
    x[2, 40] = np.nan
    _, out, powers = run(name, x)
    assert powers[2, 1] == 255 and (powers != 255).sum() == 31
    assert np.isnan(out.astype("float32")[2, 32:64]).all() and np.isnan(out.astype("float32")).sum() == 32


def test_other_forms_have_no_values() -> None:
    """Of float16, the headers multiply by a bfloat16 factor; what they round is not decided."""
    report, _, _ = run("halves", np.ones((4, 256), "float16"))
    assert not report.modelled
