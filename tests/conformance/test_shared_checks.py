"""Every check that calls and programs share is needed on every target where it says something.

Without the check, some code no longer has its finding: the same clause, operand and message on that target.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import product

import pytest

import ptokit as pto
from ptokit import spec
from ptokit.target import profile
from tests.conformance.harness import call_checks, findings_on, program_checks, without_check
from tests.conformance.test_coverage import examples_about
from tests.lang.test_kernel_mistakes import MISTAKES

TARGETS = ("cpu", "cpu@aicore", "a2a3", "a5", "host")

CLAUSES = {
    "valid_extents": ("CO-SHAPE-02",),
    "distinct_cells": ("CO-SEM-01",),
    "overlaps": ("A-38",),
    "aligned_slices": ("SL-02",),
    "gapless_slices": ("SL-04",),
    "apart_slices": ("SL-05",),
    "budget": ("MG-BUDG-02", "MG-BUDG-13", "A-38"),
    "workspaces": ("CP-TMP-01",),
    "check_memory": ("MG-BUDG-02", "MG-BUDG-13", "A-38"),
    "check_addresses": ("KN-09",),
    "check_overlaps": ("A-38",),
    "check_cells": ("CO-SEM-01",),
    "check_cores": ("KN-16",),
    "check_sync": ("KN-13",),
    "check_written": ("KN-19",),
}
"""The clauses whose examples show what a check finds."""

ARRAYS = """
x, idx = np.arange(4096, dtype="float32").reshape(64, 64), np.arange(64, dtype="int32")
out, lens = np.zeros_like(x), np.array([0, 1, 4, 65], "int32")
"""
"""What the kernels of `lang/test_kernel_mistakes.py` work on."""

TOO_MUCH = """
@pto.kernel
def k(out):
    tiles = [pto.Tile("vec", "float32", 512, 128) for _ in range(4)]
    for tile in tiles:
        pto.texpands(tile, 0)
        pto.tstore(out, tile)
k[1](np.zeros((512, 128), "float32"))
"""
ONE_CELL = """
@pto.kernel
def k(x, out):
    tile = pto.Tile("vec", "float32", 1, 8)
    pto.tload(tile, x)
    pto.tstore(out[0:1], tile)
rows = np.lib.stride_tricks.as_strided(np.zeros(8, "float32"), (4, 8), (0, 4))
k[1](np.zeros((1, 8), "float32"), rows)
"""
BOTH_CORES = """
@pto.kernel
def k(x):
    vector, cube = pto.Tile("vec", "float32", 16, 16), pto.Tile("mat", "float32", 16, 16)
    pto.tload(vector, x)
    pto.tload(cube, x)
k[1](np.zeros((16, 16), "float32"))
"""
MORE = {"check_memory": [TOO_MUCH], "check_cells": [ONE_CELL], "check_cores": [BOTH_CORES]}
"""Code beside the examples."""


def is_unlimited(target: str) -> bool:
    """Whether no memory of a target has a size."""
    return all(memory.size is None for memory in profile(target).memories.values())


SILENT = {
    "budget": is_unlimited,
    "check_memory": is_unlimited,
    "aligned_slices": lambda target: not profile(target).pipes,
    "check_cores": lambda target: len(profile(target).cores) < 2,
}
"""Where a check says nothing by the target's own data."""


def samples(check: str) -> Iterator[tuple[str, str]]:
    """Code that a check may have something to say of, with the instruction to run it with where it is for several."""
    yield from ((code, "") for code in MORE.get(check, ()))
    for clause in CLAUSES[check]:
        for example in (spec.examples()[name] for name in examples_about(clause)):
            yield from product(example.breaks, example.each[:1] or ("",))
        yield from ((ARRAYS + mistake.code, "") for mistake in MISTAKES.values() if mistake.rule == clause)


Identity = tuple[str, str, str]


def identities(found: list[pto.Finding], target: str) -> frozenset[Identity]:
    return frozenset((f.rule, f.operand, f.message) for f in found if f.target == target)


@cache
def before(code: str, target: str, op: str) -> frozenset[Identity]:
    return identities(findings_on(code, target, op), target)


def is_proved(check: str, target: str) -> bool:
    """Whether some code has a finding only because of the check."""
    for code, op in samples(check):
        if found := before(code, target, op):
            with without_check({**call_checks(), **program_checks()}[check]):
                if found - identities(findings_on(code, target, op), target):
                    return True
    return False


def test_every_check_has_clauses() -> None:
    assert set(CLAUSES) == {*call_checks(), *program_checks()}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("check", CLAUSES)
def test_every_check_is_needed_on_every_target(check: str, target: str) -> None:
    silent = check in SILENT and SILENT[check](target)
    assert is_proved(check, target) == (not silent)
