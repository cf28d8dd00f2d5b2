"""TIMG2COL: convolutions as products agree with loops over an image; what no public document states has no values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import ptokit as pto
from ptokit.cli.commands import app
from tests.cxx.building import COMPILER

pytestmark = pytest.mark.skipif(not COMPILER, reason="needs a C++ compiler")
SOURCE = Path(__file__).parent / "sources" / "images.cpp"
BOTH = ("a2a3", "a5")
IMAGE = np.random.default_rng(0).integers(-3, 4, (1, 2, 5, 6, 16)).astype("float16")
FILTERS = np.random.default_rng(1).integers(-3, 4, (192, 16)).astype("float16")


def convolved(pad: float) -> np.ndarray[Any, Any]:
    """Filters of 3 x 2, two columns apart, at every second row: one row above, one column left and two right."""
    around = np.full((2, 6, 9, 16), pad)
    around[:, 1:, 1:7] = IMAGE[0]
    weights = FILTERS.astype(float).reshape(2, 3, 2, 16, 16)
    out = np.zeros((2, 7, 16))
    for i, j, c, h, w in np.ndindex(2, 7, 2, 3, 2):
        out[i, j] += around[c, 2 * i + h, j + 2 * w] @ weights[c, h, w]
    return out.reshape(14, 16)


def run(name: str, target: str, engine: str = "machine") -> tuple[Any, np.ndarray[Any, Any]]:
    out = np.zeros((14, 16), "float32")
    return pto.load(str(SOURCE), function=name)[1](out, IMAGE, FILTERS, target=target, engine=engine), out


@pytest.mark.parametrize("target", BOTH)
@pytest.mark.parametrize(("name", "pad"), [("by_setters", 2), ("in_parts", 2), ("by_registers", 0)])
def test_a_convolution(name: str, pad: float, target: str) -> None:
    report, out = run(name, target)
    assert report.ok and report.modelled, report.findings
    assert np.array_equal(out, convolved(pad))
    assert np.array_equal(run(name, target, "reference")[1], out)


@pytest.mark.parametrize("target", BOTH)
@pytest.mark.parametrize("name", ["without_extents", "repeated"])
def test_without_values(name: str, target: str) -> None:
    report, out = run(name, target)
    assert not report.modelled and np.isnan(out).all()
    assert any("timg2col" in str(finding) for finding in report.findings)


def test_what_headers_have_no_call_for_is_not_printed() -> None:
    words = [str(SOURCE), "--function", "by_setters", "--to", "cpp", "--target", "a5"]
    done = CliRunner().invoke(app, ["convert", *words])
    refused = [line for line in done.output.splitlines() if "CP-HDR-01" in line]
    assert done.exit_code == 1
    assert ["tload_image" in refused[0], "timg2col" in refused[1], len(refused)] == [True, True, 2]
