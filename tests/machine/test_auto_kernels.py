"""Auto mode for both cores: random kernels are accepted, clean, and mean what their text says, on every engine."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import ptokit as pto
from ptokit.program import order
from ptokit.program.ir import Branch, CrossFlag, Loop, walk
from tests.machine.auto_kernels import ARRAYS, COUNTS, Draft
from tests.property.strategies import FUZZ

KERNELS = 48 * int(FUZZ or "1")
RUN = KERNELS if FUZZ else 8
"""How many kernels are run; the others are only traced."""
CHUNKS = 8
TARGETS = ("a2a3", "a5")
NZ = {"blayout": "col_major", "slayout": "row_major"}


def drafts(chunk: int, count: int = KERNELS) -> list[Draft]:
    """The kernels of one part."""
    return [Draft(seed, TARGETS[seed // CHUNKS % 2]) for seed in range(chunk, count, CHUNKS)]


def assert_right(draft: Draft, *, seed: int | None = None) -> None:
    """Every engine computes what the text says, and the machine finds nothing."""
    kernel, target = draft.kernel(), draft.target
    for n in COUNTS:
        expected = draft.expected(n)
        assert pto.check(kernel, **draft.arrays(), n=n, grid=draft.grid, target=target).ok, draft.text
        for engine in ("reference", "native", "machine"):
            options = {"options": pto.MachineOptions(seed=seed)} if engine == "machine" else {}
            given = draft.arrays()
            report = kernel[draft.grid](**given, n=n, target=target, engine=engine, **options)
            assert engine != "machine" or not report.hazards, f"{target}, n={n}\n{draft.text}\n{report}"
            for name in ARRAYS:
                np.testing.assert_array_equal(given[name], expected[name], f"{engine}, n={n}, {name}\n{draft.text}")


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_random_kernels_of_auto_mode_are_right_and_clean(chunk: int) -> None:
    for draft in drafts(chunk, RUN):
        assert_right(draft, seed=chunk if chunk % 2 else None)


def test_the_kernels_are_a_good_mixture() -> None:
    """Hand-overs both ways, inside of bodies and outside, loops of run-time length, halves, several blocks."""
    seen: Counter[str] = Counter()
    for chunk in range(CHUNKS):
        for draft in drafts(chunk):
            program = draft.traced()
            inside = [
                stmt for outer in walk(program.body) if isinstance(outer, Loop | Branch) for stmt in walk((outer,))
            ]
            crossing = [stmt for stmt in walk(program.body) if isinstance(stmt, CrossFlag) and stmt.action == "set"]
            seen.update({f"set by {stmt.core}" for stmt in crossing})
            seen["in a body"] += any(isinstance(stmt, CrossFlag) for stmt in inside)
            seen["outside"] += any(isinstance(stmt, CrossFlag) for stmt in program.body)
            seen["run-time loop"] += "(0, n," in draft.text
            seen["halves"] += "8:16" in draft.text
            seen["blocks"] += draft.grid > 1
            seen["directly"] += "tmov(a, acc)" in draft.text or "tmov(m, a)" in draft.text
    kinds = ["set by AIC", "set by AIV", "in a body", "outside", "run-time loop", "halves", "blocks", "directly"]
    assert all(seen[kind] >= 4 for kind in kinds), seen


# --- Single cases ------------------------------------------------------------------------------------------------


def arrays(*names: str) -> dict[str, Any]:
    return {name: (np.arange(512) % 5 + k).astype("float32").reshape(32, 16) for k, name in enumerate(names)}


@pto.kernel
def halves(x, eye, work, out):
    """The cube core stores 16 rows, and the vector core loads them in two parts."""
    m, p = (pto.Tile("mat", "float32", 16, 16, **NZ) for _ in range(2))
    left, right = pto.Tile("left", "float32", 16, 16), pto.Tile("right", "float32", 16, 16)
    acc, got = pto.Tile("acc", "float32", 16, 16), pto.Tile("vec", "float32", 16, 16)
    pto.tload(m, x[0:16])
    pto.tload(p, eye)
    pto.tmov(left, m)
    pto.tmov(right, p)
    pto.tmatmul(acc, left, right)
    pto.tstore(work[0:16], acc)
    pto.tload(got[0:8], work[0:8])
    pto.tload(got[8:16], work[8:16])
    pto.tstore(out[0:16], got)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("engine", ["reference", "native", "machine"])
def test_parts_of_what_the_other_core_stored_are_handed_over(target: str, engine: str) -> None:
    given = {**arrays("x", "work", "out"), "eye": np.eye(16, dtype="float32")}
    assert pto.check(halves, **given, target=target).ok
    report = halves[1](**given, target=target, engine=engine)
    assert engine != "machine" or report.ok, report
    np.testing.assert_array_equal(given["out"][:16], given["x"][:16])


@pytest.mark.parametrize(("start", "found"), [(0, True), (8, True), (15, True), (16, False)])
def test_manual_mode_needs_a_hand_over_for_parts_too(start: int, found: bool) -> None:
    """The parts of 16 and 8 rows overlap, or do not."""

    @pto.kernel(mode="manual")
    def parts(x, work, start: pto.const):
        ub = pto.Tile("vec", "float32", 16, 16, addr=0)
        m = pto.Tile("mat", "float32", 16, 16, addr=0, valid=(8, 16), **NZ)
        pto.tload(ub, x[0:16])
        pto.set_flag("MTE2", "MTE3", 0)
        pto.wait_flag("MTE2", "MTE3", 0)
        pto.sync_set("AIC.MTE2", 0)  # the other direction
        pto.sync_wait("AIV.MTE3", 0)
        pto.tstore(work[0:16], ub)
        pto.tload(m, work[start : start + 8])

    report = pto.check(parts, **arrays("x", "work"), start=start, target="a5")
    assert [each.rule for each in report.targets["a5"].findings if each.level == "error"] == ["KN-16"] * found


@pto.kernel
def one_after_the_other(x, eye, work, other, trips: pto.const):
    """A flag that FIX waits for, and one that MTE2 waits for, both set by the vector core."""
    m, p = (pto.Tile("mat", "float32", 16, 16, **NZ) for _ in range(2))
    left, right = pto.Tile("left", "float32", 16, 16), pto.Tile("right", "float32", 16, 16)
    acc, got = pto.Tile("acc", "float32", 16, 16), pto.Tile("vec", "float32", 16, 16)
    pto.tload(m, x[0:16])
    pto.tload(p, eye)
    pto.tmov(left, m)
    pto.tmov(right, p)
    pto.tmatmul(acc, left, right)
    pto.tload(got, work[0:16])
    pto.tstore(work[0:16], acc)
    pto.tload(got, work[0:16])
    for _ in pto.range(trips):
        pto.tstore(other[0:16], got)
        pto.tload(m, other[0:16])


@pytest.mark.parametrize("trips", [1, 3])
@pytest.mark.parametrize("target", TARGETS)
def test_flags_that_two_pipes_wait_for_in_no_order_have_two_ids(target: str, trips: int) -> None:
    given = {**arrays("x", "work", "other"), "eye": np.eye(16, dtype="float32")}
    report = one_after_the_other[1](**given, trips=trips, target=target, engine="machine")
    assert report.ok and not report.hazards, report
    np.testing.assert_array_equal(given["other"][:16], given["x"][:16])


def test_kernels_that_need_more_ids_than_there_are_end_in_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    """With few ids a kernel is still right and clean, or it is refused; either way auto mode comes to an end."""
    monkeypatch.setattr(order, "CROSS_USER_IDS", 2)
    refusals: list[str] = []
    chosen = drafts(1) + drafts(2)
    for draft in chosen:
        try:
            draft.traced()
        except pto.VerifyError as refusal:
            refusals.append(str(refusal))
        else:
            assert_right(draft)
    assert 0 < len(refusals) < len(chosen)
    assert all("more than 2 flags" in each for each in refusals)
