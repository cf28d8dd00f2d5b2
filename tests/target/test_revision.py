"""A revision of a target is one file: the verifier, the engines, the machine, C++ and the pages see it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ptokit as pto
from ptokit.isa.kernel import Effect, RouteKernel
from ptokit.isa.policy import TileType
from ptokit.isa.table import REVISIONS, Revision
from ptokit.lang.launch import mode_of
from ptokit.target import PROFILES, profile, register, unregister
from ptokit.target.a5 import A5
from ptokit.target.profile import KB, Memory
from ptokit.text.cpp import emit
from tests.cli.shell import fine
from tests.target.a5_test import A5_TEST

TEST = A5_TEST.name
BOTH = ("a5", TEST)


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    register(A5_TEST)
    yield
    unregister(TEST)


@pto.kernel
def count(out):
    t = pto.Tile("vec", "int32", 1, 64)
    pto.tci(t, 5)
    pto.tadds(t, t, 1)
    pto.tadds(t, t, 1)
    pto.tstore(out, t)


def counted(**options: Any) -> Any:
    return count[1](np.zeros((1, 64), "int32"), **options)


def program_of(kernel: Any, *arrays: Any) -> Any:
    return kernel.trace(kernel.bind(arrays, {}), mode_of("a5")).program


@pto.kernel
def narrow(table, ids, out):
    index = pto.Tile("vec", "int32", 1, 8)
    rows = pto.Tile("vec", "float32", 8, 16)
    pto.tload(index, ids)
    pto.mgather(rows, table, index, oob="clamp")
    pto.tstore(out, rows)


def gathered(target: str, engine: str) -> tuple[np.ndarray, np.ndarray]:
    table = np.arange(10 * 32, dtype="float32").reshape(10, 32)
    ids, out = np.array([[3, 1, 4, 1, 5, 9, 2, 6]], "int32"), np.zeros((8, 16), "float32")
    narrow[1](table, ids, out, target=target, engine=engine)
    return out, table[ids[0], :16]


# --- The verifier and the engines ---


def test_a_rule_is_dropped_and_a_table_has_another_row() -> None:
    for engine in ("reference", "native", "machine"):
        out, wanted = gathered(TEST, engine)
        assert np.array_equal(out, wanted), engine
    with pytest.raises(pto.VerifyError, match="MG-SHAPE-05"):
        gathered("a5", "reference")


def test_one_element_type_more() -> None:
    table = pto.GlobalTensor(np.arange(80, dtype="int64").reshape(10, 8))
    ids = np.array([[3, 1, 4, 1]], "int32")
    with pto.target(TEST):
        index, rows = pto.Tile("vec", "int32", 1, 8, valid=(1, 4)), pto.Tile("vec", "int64", 4, 8)
        pto.tload(index, pto.GlobalTensor(ids))
        pto.mgather(rows, table, index)
        assert np.array_equal(rows.read(), table.array[ids[0]])
        with pytest.raises(pto.VerifyError, match="CO-TYPE-03"):
            pto.mscatter(table, rows, pto.Tile("vec", "int32", 4, 1, blayout="col_major"))
    with pto.target("a5"), pytest.raises(pto.VerifyError, match="CO-TYPE-03"):
        pto.mgather(rows, table, index)


@pto.kernel
def large(out):
    t = pto.Tile("vec", "int8", 1100, 256)
    pto.texpands(t, 1)
    pto.tstore(out, t)


def test_another_size_of_ub() -> None:
    reports = [pto.check(large, np.zeros((1100, 256), "int8"), target=name) for name in BOTH]
    assert [report.ok for report in reports] == [False, True]
    assert "MG-BUDG-06" in [finding.rule for finding in reports[0].findings]
    assert [profile(name).budget().limit for name in BOTH] == [216 * KB, 280 * KB]  # type: ignore[union-attr]


# --- The machine ---


def test_another_pipe_and_another_cost() -> None:
    reports = {name: counted(target=name, engine="machine") for name in BOTH}
    pipes = {
        name: {work.name.split()[0]: work.pipe for work in report.timeline.works} for name, report in reports.items()
    }
    assert pipes == {"a5": {"tci": "AIV.V", "tadds": "AIV.V", "tstore": "AIV.MTE3"},
                     TEST: {"tci": "AIV.S", "tadds": "AIV.V", "tstore": "AIV.MTE3"}}  # fmt: skip
    assert reports[TEST].timeline.cycles > reports["a5"].timeline.cycles + 900


# --- C++ ---


def test_cpp_has_the_flags_and_barriers_of_the_revision() -> None:
    plain, other = (emit(program_of(count, np.zeros((1, 64), "int32")), profile(name)) for name in BOTH)
    for line in ("set_flag(PIPE_S, PIPE_V, EVENT_ID0)", "pipe_barrier(PIPE_V)", f"for {TEST}, written by"):
        assert line in other and line not in plain


@pto.kernel
def beside(x, out):
    t = pto.Tile("vec", "float32", 8, 64)
    pto.texpands(t, 0)
    t.valid = (8, 32)
    pto.tload(t, x)
    t.valid = (8, 64)
    pto.tstore(out, t)


@pto.kernel
def into_a_slice(x, out):
    t = pto.Tile("vec", "float32", 8, 64)
    pto.texpands(t, 0)
    pto.tload(t[:, 0:32], x)
    pto.tstore(out, t)


@pytest.mark.parametrize("kernel", [beside, into_a_slice])
def test_cpp_knows_what_the_headers_of_the_revision_clear(kernel: Any) -> None:
    program = program_of(kernel, np.zeros((8, 32), "float32"), np.zeros((8, 64), "float32"))
    assert "TLOAD" in emit(program, A5)
    with pytest.raises(pto.VerifyError, match="TL-03"):
        emit(program, A5_TEST)


# --- Pages ---


def test_targets_and_pages_show_the_revision() -> None:
    shown = fine("targets")
    assert TEST in shown and "320 KB" in shown
    plain, page = (fine("explain", "mgather", "--target", name) for name in BOTH)
    refused = "MG-SHAPE-05 table into UB, row"
    assert refused in " ".join(plain.split()) and refused not in " ".join(page.split())


# --- Plain A5 ---


def test_the_family_and_its_other_revisions_are_as_before() -> None:
    out = np.zeros((1, 64), "int32")
    now = str(counted(target="a5", engine="machine")), emit(program_of(count, out), A5), fine("explain", "tci")
    unregister(TEST)
    before = str(counted(target="a5", engine="machine")), emit(program_of(count, out), A5), fine("explain", "tci")
    register(A5_TEST)
    assert now == before


# --- Registering ---


def test_revisions_follow_their_family() -> None:
    own = ["cpu@aicore", "a2a3@2026.08", "a5@2026.08"]
    assert list(PROFILES) == ["cpu", own[0], "a2a3", own[1], "a5", own[2], TEST, "host"]
    unregister(TEST)
    assert list(PROFILES) == ["cpu", own[0], "a2a3", own[1], "a5", own[2], "host"] and list(REVISIONS) == own
    with pytest.raises(ValueError, match=f"not a registered revision; known: {', '.join(own)}"):
        unregister("a5")
    register(A5_TEST)


WRONG = {
    "family one of cpu": {"name": "a6@x"},
    "the name must be family@revision": {"name": "a5"},
    "there is a target of this name": {"name": TEST},
    "no memory for Acc tiles": {"memories": {k: v for k, v in A5.memories.items() if k is not TileType.Acc}},
    "two sizes of UB": {"memories": {**A5.memories, TileType.Vec: Memory("UB", 1 * KB)}},
    "no number for GM burst bytes in costs": {"costs": {k: v for k, v in A5.costs.items() if k != "GM burst bytes"}},
    "no source of news in sources": {"costs": {**A5.costs, "news": 1.0}},
    "no rule has the id MG-NO-01": {"revision": Revision(dropped=frozenset({"MG-NO-01"}))},
    "no rule has the id MG-NO-02": {"revision": Revision(added=frozenset({"MG-NO-02"}))},
    "a5 has no route mgather.row.nz": {"revision": Revision(kernels={"mgather.row.nz": RouteKernel()})},
    "tci has no operand src": {"revision": Revision(kernels={"tci": RouteKernel((Effect("src", "read", "V"),))})},
    "tci uses X, which is no pipe": {
        "revision": Revision(kernels={"tci": RouteKernel((Effect("dst", "write", "X"),))})
    },
}


@pytest.mark.parametrize("message", WRONG)
def test_what_cannot_be_registered(message: str) -> None:
    known = dict(PROFILES)
    with pytest.raises(ValueError, match=message):
        register(replace(A5, **{"name": "a5@wrong", **WRONG[message]}))
    assert known == PROFILES


# --- One place ---

PLACES = ("program", "engine", "text", "machine", "render", "cli")
NAMES = {"a3", "a5", "a2a3", "cpu@aicore", "AIV", "AIC"}


@pytest.mark.parametrize("place", PLACES)
def test_only_targets_and_instructions_name_targets_and_cores(place: str) -> None:
    for path in (Path(pto.__file__).parent / place).rglob("*.py"):
        words = {n.value for n in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(n, ast.Constant)}
        assert not words & NAMES, path.name
