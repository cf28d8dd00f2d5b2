"""Programs for a chip with lanes, executed lane by lane on the CPU: the bits, findings and errors of the reference.

`make fuzz` runs more: all tests of programs and calls, with the plugin `tests.engine.native.lanes`.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import ptokit as pto
from ptokit import spec
from ptokit.engine.native.program.executable import NativeExecutable
from tests.conformance.harness import check_example
from tests.engine.native.calls import both_engines
from tests.engine.native.lanes import LANES
from tests.engine.native.launches import same
from tests.engine.native.test_programs import copied, near
from tests.examples.test_gallery import BAD, Entry, cells, every_launch, expected, rng, spoilt
from tests.lang.random_kernels import random_kernel
from tests.lang.test_random_kernels import arguments, kernel_of

STEP = 4
"""Of the examples of clauses, every fourth; all of them with the plugin."""


@pytest.fixture(autouse=True)
def _lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NativeExecutable, "chip", LANES)


@every_launch
def test_the_gallery(entry: Entry, target: str) -> None:
    sizes = entry.sizes[-1]
    bound = near(entry, entry.make(rng(), **sizes))
    assert not same(entry.kernel, 7, lambda: entry.make(rng(), **sizes), near=bound, target=target).ending


@pytest.mark.parametrize("oob", ["clamp", "undefined"])
@every_launch
def test_the_gallery_with_bad_indices(entry: Entry, target: str, oob: str) -> None:
    if oob not in (*entry.policies, "undefined"):
        return
    extra = (-1, -100) if entry.kernel is cells.histogram else BAD
    good = expected(entry, spoilt(entry, *extra), "clamp" if oob == "undefined" else oob)
    same(entry.kernel, 7, lambda: copied(spoilt(entry, *extra)), near=near(entry, good), target=target, oob=oob)


@pytest.mark.parametrize("part", range(STEP))
def test_examples_of_clauses(part: int) -> None:
    names = sorted(spec.examples())[::STEP]
    with both_engines() as ways:
        for name in names[part::STEP]:
            check_example(name)
    assert ways.quick.total()


@pytest.mark.parametrize("seed", range(6))
def test_random_kernels(seed: int) -> None:
    auto, _ = random_kernel(seed)
    same(kernel_of(auto, f"auto {seed} in lanes"), 3, arguments, target="a5")


@pto.kernel
def in_order(src, idx, out, atomic: pto.const = "none"):
    s, i = pto.Tile("vec", "float32", 16, 16), pto.Tile("vec", "int32", 1, 16)
    pto.tload(s, src)
    pto.tload(i, idx)
    pto.mscatter(out, s, i, atomic=atomic, coalesce="row")


@pytest.mark.parametrize("atomic", ["none", "add", "max"])
def test_rows_that_are_named_twice_take_effect_in_order(atomic: str) -> None:
    random = np.random.default_rng(3)
    src, idx = random.normal(size=(16, 16)).astype("f4"), random.integers(0, 4, 16).astype("i4")

    def given() -> dict[str, object]:
        return {"src": src.copy(), "idx": idx.copy(), "out": np.zeros((4, 16), "f4"), "atomic": atomic}

    outcome = same(in_order, 1, given, target="a5")
    assert not outcome.ending
    found = np.frombuffer(outcome.memories["out"], "f4").reshape(4, 16)
    expected = np.zeros((4, 16), "f4")
    for row, at in zip(src, idx, strict=True):
        expected[at] = {"none": row, "add": expected[at] + row, "max": np.maximum(expected[at], row)}[atomic]
    assert np.array_equal(found, expected)
