"""Launches whose reports the tests of this folder look at."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

import ptokit as pto
from ptokit.machine.report import MachineReport
from ptokit.report.compare import RefusedTarget, Result
from ptokit.report.model import page_of, report_data


@pto.kernel
def rows(table, tokens, out):
    for i in pto.range(4, buffers=2):
        ids = pto.Tile("vec", "int32", 1, 16)
        t = pto.Tile("vec", "float32", 16, 32)
        pto.tload(ids, tokens[i * 16 : i * 16 + 16])
        pto.mgather(t, table, ids, oob="clamp")
        pto.tstore(out[i * 16 : i * 16 + 16], t)


@pto.kernel(mode="manual")
def unordered(table, tokens, out):
    ids = pto.Tile("vec", "int32", 1, 16, addr=0)
    found = pto.Tile("vec", "float32", 16, 32, addr=64)
    pto.tload(ids, tokens)
    pto.set_flag("MTE2", "V", 0)
    pto.wait_flag("MTE2", "V", 0)
    pto.mgather(found, table, ids, oob="clamp")
    pto.tstore(out, found)


@pto.kernel(mode="manual")
def ordered(table, tokens, out):
    ids = pto.Tile("vec", "int32", 1, 16, addr=0)
    found = pto.Tile("vec", "float32", 16, 32, addr=64)
    pto.tload(ids, tokens)
    pto.set_flag("MTE2", "V", 0)
    pto.wait_flag("MTE2", "V", 0)
    pto.mgather(found, table, ids, oob="clamp")
    pto.set_flag("V", "MTE3", 0)
    pto.wait_flag("V", "MTE3", 0)
    pto.tstore(out, found)


TABLE = np.arange(3200, dtype="float32").reshape(100, 32)
TOKENS = np.arange(50, 114, dtype="int32")


@cache
def clean(target: str = "a5") -> MachineReport:
    """64 lanes of which 14 are clamped, in four iterations."""
    out = np.zeros((64, 32), "float32")
    return rows[1](TABLE, TOKENS, out, target=target, engine="machine", options=pto.MachineOptions(lanes=True))


@cache
def faulty() -> MachineReport:
    """A store that may start before the gather has ended."""
    out = np.zeros((16, 32), "float32")
    return unordered[1](TABLE, TOKENS[:16], out, target="a5", engine="machine", options=pto.MachineOptions(lanes=True))


@pto.kernel
def many(table, tokens, out, count: pto.const = 10):
    for i in pto.range(count, buffers=2):
        ids = pto.Tile("vec", "int32", 1, 16)
        t = pto.Tile("vec", "float32", 16, 32)
        pto.tload(ids, tokens[i % 4 * 16 : i % 4 * 16 + 16])
        pto.mgather(t, table, ids, oob="clamp")
        pto.tstore(out[i % 4 * 16 : i % 4 * 16 + 16], t)


def long(works: int, target: str = "a5", keep: int | None = None) -> MachineReport:
    """A launch with about so many pieces of work, three for each iteration; all are kept, or so many."""
    out = np.zeros((64, 32), "float32")
    options = pto.MachineOptions(timeline=keep or works + 100)
    return many[1](TABLE, TOKENS, out, count=works // 3, target=target, engine="machine", options=options)


@pto.kernel
def product(left, right, out):
    rows, inner = left.shape
    a = pto.Tile("mat", left.dtype, rows, inner, blayout="col_major", slayout="row_major")
    b = pto.Tile("mat", right.dtype, inner, 32, blayout="col_major", slayout="row_major")
    x, y = pto.Tile("left", left.dtype, rows, inner), pto.Tile("right", right.dtype, inner, 32)
    z = pto.Tile("acc", "float32", rows, 32)
    pto.tload(a, left)
    pto.tload(b, right)
    pto.textract(x, a, 0, 0)
    pto.textract(y, b, 0, 0)
    pto.tmatmul(z, x, y)
    pto.tmatmul_acc(z, z, x, y)
    pto.tstore(out, z)


@cache
def cube() -> MachineReport:
    """A matrix product: tiles in L1 and L0, in NZ layout."""
    left, right = np.ones((32, 64), "float16"), np.ones((64, 32), "float16")
    return product[1](left, right, np.zeros((32, 32), "float32"), target="a5", engine="machine")


def _page(*results: Result, title: str = "") -> str:
    return page_of([report_data(results, title=title)])


FILES: dict[str, Callable[[], str]] = {
    "clean": lambda: _page(clean("a5"), clean("a2a3"), clean("cpu")),
    "faulty": lambda: _page(faulty(), RefusedTarget("a2a3", faulty().findings)),
    "cube": lambda: _page(cube()),
    "long": lambda: _page(long(1000)),
    "cut": lambda: _page(long(300, keep=50)),
    "several": lambda: page_of([report_data([clean()], title="first"), report_data([faulty()], title="second")]),
    "hostile": lambda: _page(clean(), title="<img src=x onerror=alert(1)></script><script>alert(2)</script>"),
}
"""Pages by name."""
