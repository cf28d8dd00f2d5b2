"""The entries of a C++ source as parameters of tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import ptokit as pto
from ptokit.testing import cxx_entries
from tests.cxx.building import COMPILER

pytest_plugins = "pytester"
pytestmark = pytest.mark.skipif(not COMPILER, reason="needs a C++ compiler")

SOURCE = """\
#include <pto/pto-inst.hpp>
using namespace pto;
using Row = GlobalTensor<float, Shape<1, 1, 1, 1, 64>, Stride<64, 64, 64, 64, 1>>;

template <bool ORDERED>
__global__ AICORE void copied(__gm__ float* x, __gm__ float* out) {
    Tile<TileType::Vec, float, 1, 64> a;
    TASSIGN(a, 0x0);
    Row from(x), to(out);
    TLOAD(a, from);
    if constexpr (ORDERED) pipe_barrier(PIPE_ALL);
    TSTORE(to, a);
}
extern "C" void right(float* x, float* out, void* stream) { copied<true><<<1, nullptr, stream>>>(x, out); }
extern "C" void wrong(float* x, float* out, void* stream) { copied<false><<<1, nullptr, stream>>>(x, out); }
"""
TESTS = """\
import numpy as np
import pytest
from ptokit.testing import cxx_entries


@pytest.mark.parametrize("kernel", cxx_entries("rows.cpp", target="a5"))
def test_entry(ptokit, kernel):
    x, out = np.arange(64, dtype="float32"), np.zeros(64, "float32")
    ptokit.check(kernel, 1, x, out)
    assert (out == x).all()
"""


def test_entries_are_tests(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    (pytester.path / "rows.cpp").write_text(SOURCE)
    source = str(Path(pto.__file__).parent.parent)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((source, str(pytester.path))))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile(TESTS)
    result = pytester.runpytest_inprocess("-p", "ptokit.testing", "-p", "no:cacheprovider", "-v")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*test_entry?right? PASSED*", "*test_entry?wrong? FAILED*", "*rows.cpp:12*"])


def test_a_source_without_entries_is_explained(tmp_path: Path) -> None:
    (tmp_path / "none.cpp").write_text("#include <pto/pto-inst.hpp>\n")
    with pytest.raises(ValueError, match=r"none\.cpp has no function that launches a kernel"):
        cxx_entries(tmp_path / "none.cpp")
