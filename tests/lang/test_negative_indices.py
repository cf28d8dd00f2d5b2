"""Negative indices: silent under zero and skip, reported under clamp and wrap (A-12, H-13), on every engine."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import ptokit as pto

FAMILIES = ("cpu", "a2a3", "a5")
ENGINES = ("reference", "native", "machine", "debug")
NEGATIVE = (-1, -(2**31), -7)
POLICIES = {"mgather": {"zero": False, "clamp": True, "wrap": True}, "mscatter": {"skip": False, "clamp": True}}
CASES = [(name, oob, reported) for name, table in POLICIES.items() for oob, reported in table.items()]


@pto.kernel
def gathers(table, index, out, mode: pto.const = "row", oob: pto.const = "zero"):
    idx = pto.Tile("vec", "int32", *((1, 8) if mode == "row" else (8, 8)))
    got = pto.Tile("vec", "float32", 8, 8)
    pto.tload(idx, index)
    pto.mgather(got, table, idx, coalesce=mode, oob=oob)
    pto.tstore(out, got)


@pto.kernel
def scatters(table, index, out, mode: pto.const = "row", oob: pto.const = "skip"):
    idx = pto.Tile("vec", "int32", *((1, 8) if mode == "row" else (8, 8)))
    values = pto.Tile("vec", "float32", 8, 8)
    pto.tload(idx, index)
    pto.tload(values, table)
    pto.mscatter(out, values, idx, coalesce=mode, oob=oob, atomic="add")


@contextmanager
def collected_warnings() -> Iterator[list[pto.Finding]]:
    """Every warning of a call, as findings."""
    found: list[pto.Finding] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", pto.HazardWarning)
        yield found
    found += [w.message.finding for w in caught if isinstance(w.message, pto.HazardWarning)]


def operands(mode: str) -> tuple[np.ndarray[Any, Any], ...]:
    table = np.arange(64, dtype="float32").reshape(8, 8) + 1
    index = np.arange(8 if mode == "row" else 64, dtype="int32").reshape((1, 8) if mode == "row" else (8, 8))
    index.flat[[0, 3, 5]] = NEGATIVE
    return table, index, np.zeros((8, 8), "float32")


def expected(name: str, mode: str, oob: str) -> np.ndarray[Any, Any]:
    """One lane after the other, with the index as uint32."""
    table, index, out = operands(mode)
    size = 8 if mode == "row" else 64
    cells, into = (table, out) if mode == "row" else (table.reshape(-1), out.reshape(-1))
    for lane, value in enumerate(index.ravel().tolist()):
        named = value % 2**32
        landed = named if named < size else {"clamp": size - 1, "wrap": named % size}.get(oob)
        if name == "mgather":
            into[lane] = 0 if landed is None else cells[landed]
        elif landed is not None:
            into[landed] += cells[lane]
    return out


def check(findings: list[pto.Finding], is_reported: bool) -> None:
    odd = [(f.level, f.kind) for f in findings if f.level != "note"]
    assert odd == ([("hazard", "H-13")] if is_reported else [])


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("target", FAMILIES)
@pytest.mark.parametrize("mode", ["row", "elem"])
@pytest.mark.parametrize(("name", "oob", "is_reported"), CASES)
def test_kernels(name: str, oob: str, is_reported: bool, mode: str, target: str, engine: str) -> None:
    table, index, out = operands(mode)
    kernel = gathers if name == "mgather" else scatters
    how = {"debug": True} if engine == "debug" else {"engine": engine}
    with collected_warnings() as warned:
        run = kernel[1](table, index, out, mode=mode, oob=oob, target=target, **how)
    check(list(run.findings) if engine == "machine" else warned, is_reported)
    assert (out == expected(name, mode, oob)).all()


@pytest.mark.parametrize("target", FAMILIES)
@pytest.mark.parametrize("mode", ["row", "elem"])
@pytest.mark.parametrize(("name", "oob", "is_reported"), CASES)
def test_eager_calls(name: str, oob: str, is_reported: bool, mode: str, target: str) -> None:
    table, index, out = operands(mode)
    with pto.target(target), collected_warnings() as warned:
        idx = pto.Tile("vec", "int32", *index.shape).write(index)
        if name == "mgather":
            got = pto.Tile("vec", "float32", 8, 8)
            event = pto.mgather(got, pto.GlobalTensor(table), idx, coalesce=mode, oob=oob)
            out[...] = got.read()
        else:
            values = pto.Tile("vec", "float32", 8, 8).write(table)
            event = pto.mscatter(pto.GlobalTensor(out), values, idx, coalesce=mode, oob=oob, atomic="add")
    check(warned, is_reported)
    check(list(event.findings), is_reported)
    assert (out == expected(name, mode, oob)).all()


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize("call", [
    lambda table, index, engine: pto.gather(table, index, oob="zero", engine=engine),
    lambda table, index, engine: pto.scatter(np.zeros_like(table), table, index, oob="skip", engine=engine),
])  # fmt: skip
def test_whole_arrays(call: Callable[..., Any], engine: str) -> None:
    table, index, _ = operands("row")
    with collected_warnings() as warned:
        call(table, index[0], engine)
    assert not warned


@pytest.mark.parametrize(("dst", "table", "index"), [
    (lambda: pto.Tile("vec", "float32", 16, 8, blayout="col_major", slayout="row_major"),
     lambda: pto.GlobalTensor(np.ones((1, 1, 1, 16, 8), "float32"), layout="nz"),
     lambda mode: pto.Tile("vec", "int32", *((1, 16) if mode == "row" else (16, 8))).write(-1)),
    (lambda: pto.Tile("mat", "float32", 16, 8, blayout="col_major", slayout="row_major"),
     lambda: pto.GlobalTensor(np.ones((16, 8), "float32")),
     lambda mode: pto.GlobalTensor(np.full((1, 16) if mode == "row" else (16, 8), -1, "int32"))),
])  # fmt: skip
@pytest.mark.parametrize("mode", ["row", "elem"])
def test_the_other_paths_of_a2a3(
    mode: str, dst: Callable[[], Any], table: Callable[[], Any], index: Callable[[str], Any]
) -> None:
    """NZ tables, and gathers into L1."""
    with pto.target("a2a3"), collected_warnings() as warned:
        got = dst()
        more = {"scratch": pto.GlobalTensor(np.zeros(128, "float32"))} if got.spec.loc is pto.TileType.Mat else {}
        words = more if mode == "elem" else {}
        event = pto.mgather(got, table(), index(mode), coalesce=mode, oob="zero", **words)
    check(warned, is_reported=False)
    assert "H-13" not in [f.kind for f in event.findings]
    assert (got.read() == 0).all()
