"""Pipelined loops: loads run ahead of products, on a device whose lanes are threads."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

pytest.importorskip("llvmlite")

import ptokit as pto
from ptokit.engine.cuda import stage as stages
from ptokit.engine.cuda.ptx import compiled
from ptokit.engine.llvm.compute import wide
from ptokit.isa.dtype import dtype
from tests.engine.cuda import threads
from tests.engine.cuda.emulated import EmulatedDevice
from tests.engine.cuda.fakes import FakeGpus
from tests.engine.cuda.test_ptx import NZ, assembled, complaint, text_of
from tests.engine.cuda.test_stage import EmulatedLaunch
from tests.engine.native.launches import same

ROWS = 90
Array = np.ndarray[Any, Any]


@pto.kernel
def gathered_product(
    table, ids, weights, out, m: pto.const = 64, n: pto.const = 16, depth: pto.const = 16, oob: pto.const = "undefined"
):
    block, across = pto.block_idx(), out.shape[1] // n
    top, first = block // across * m, block % across * n
    product = pto.Tile("acc", "float32", m, n)
    for k in pto.range(0, table.shape[1], depth):
        lm, rm = pto.Tile("mat", table.dtype, m, depth, **NZ), pto.Tile("mat", table.dtype, depth, n, **NZ)
        left, right = pto.Tile("left", table.dtype, m, depth), pto.Tile("right", table.dtype, depth, n)
        pto.mgather(lm, table[:, k : k + depth], ids[top : top + m], oob=oob)
        pto.tload(rm, weights[k : k + depth, first : first + n])
        pto.textract(left, lm, 0, 0)
        pto.tmov(right, rm)
        with pto.when(k == 0):
            pto.tmatmul(product, left, right)
        with pto.otherwise():
            pto.tmatmul_acc(product, product, left, right)
    pto.tstore(out[top : top + m, first : first + n], product)


def arguments(m: int = 64, n: int = 16, depth: int = 16, steps: int = 3, dtype: str = "bfloat16") -> dict[str, Any]:
    """For two blocks, side by side."""
    random, kind = np.random.default_rng(m + n + steps), getattr(ml_dtypes, dtype, dtype)
    shapes = (ROWS, depth * steps), (depth * steps, 2 * n)
    table, weights = (random.integers(-8, 8, shape).astype(kind) for shape in shapes)
    ids = random.integers(0, ROWS, m).astype(np.int32)
    return {"table": table, "ids": ids, "weights": weights, "out": np.zeros((m, 2 * n), "f4")}


def product_of(given: dict[str, Any]) -> Array:
    return given["table"][given["ids"]].astype(float) @ given["weights"].astype(float)


@pytest.mark.parametrize(
    ("shape", "dtype", "copies"),
    [((64, 16, 16, 2), "bfloat16", 4), ((64, 32, 32, 6), "bfloat16", 3), ((64, 64, 96, 2), "float16", 2),
     ((128, 48, 16, 5), "bfloat16", 4)], ids=str,
)  # fmt: skip
def test_products_of_any_shape(
    shape: tuple[int, int, int, int], dtype: str, copies: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stages, "MOST_COPIES", copies)
    given, (m, n, depth, _) = arguments(*shape, dtype=dtype), shape
    made = EmulatedLaunch(gathered_product, {**given, "m": m, "n": n, "depth": depth}, 2, threads.WideDevice(), 2)
    assert made.stage.panels and made.stage.lanes == 2 * m
    assert np.array_equal(given["out"], product_of(given))


@pytest.mark.parametrize("capability", [80, 90])
def test_pipelined_loops_are_assembled(capability: int, tmp_path: Path) -> None:
    given = {**arguments(128, 256, 64), "m": 128, "n": 256, "depth": 64}
    text = text_of(gathered_product, given, "a5", capability)
    made = assembled(text, capability, tmp_path)
    assert ("wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16" in made) is (capability == 90)
    assert ("mma.sync" in made) is (capability == 80)
    if capability == 90 and shutil.which("ptxas"):
        assert "GMMA" in complaint(re.sub(r"wgmma\.wait_group\.sync\.aligned \d;", "", made), capability, tmp_path)
    assert ".target sm_90a\n" in made or ".target sm_90\n" in compiled(text, 100), "later GPUs have no wgmma"


@pytest.fixture
def engine(emulated: FakeGpus, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The whole engine on such a device; notes the text of its kernels."""
    made: list[str] = []

    class Noted(threads._ThreadedModule):
        def __init__(self, source: Any) -> None:
            made.append(source.text)
            super().__init__(source)

    monkeypatch.setattr(EmulatedDevice, "chip", threads.WIDE)
    monkeypatch.setattr(EmulatedDevice, "module", lambda self, key, build: Noted(build()))
    return made


def spoilt(name: str) -> dict[str, Any]:
    """Arguments that lead to rare cases."""
    given = arguments(steps=5)
    if name == "odd":  # no piece of 16 bytes is aligned
        given["weights"] = np.lib.stride_tricks.as_strided(np.resize(given["weights"], 90 * 33)[1:], (80, 32), (66, 2))
    else:
        given["ids"][[9, 40]] = ROWS + 7, -3
    return {**given, "oob": name if name in ("clamp", "wrap", "zero") else "undefined"}


@pytest.mark.parametrize("name", ["odd", "clamp", "wrap", "zero", "undefined"])
def test_rare_cases_are_those_of_the_reference_engine(name: str, engine: list[str]) -> None:
    found = same(gathered_product, 2, lambda: spoilt(name), target="a5", engine="cuda")
    assert bool(found.ending) is (name == "undefined")
    assert engine and all("begin_copy" in text for text in engine)


@pto.kernel
def both_gathered(table, ids, weights, rows, out, second):
    sums, others = pto.Tile("acc", "float32", 64, 16), pto.Tile("acc", "float32", 64, 16)
    lm, rm = pto.Tile("mat", table.dtype, 64, 16, **NZ), pto.Tile("mat", table.dtype, 16, 16, **NZ)
    left, right = pto.Tile("left", table.dtype, 64, 16), pto.Tile("right", table.dtype, 16, 16)
    for k in pto.range(0, table.shape[1], 16):
        pto.mgather(rm, weights[:, :16], rows[k : k + 16])
        pto.mgather(lm, table[:, k : k + 16], ids)
        pto.tmov(right, rm)
        pto.tmov(left, lm)
        with pto.when(k == 0):
            pto.tmatmul(sums, left, right)
        with pto.otherwise():
            pto.tmatmul_acc(sums, sums, left, right)
        with pto.when(k < 16):
            pto.tmatmul(others, left, right)
            pto.tmatmul_acc(others, others, left, right)
    pto.tstore(out[:, :16], sums)
    pto.tstore(second, others)


@pytest.mark.parametrize("bad", [{}, {"rows": 37}, {"rows": 37, "ids": 9}, {"rows": 5, "ids": 9}], ids=str)
def test_indices_of_an_iteration_and_several_products(bad: dict[str, int], engine: list[str]) -> None:
    def make() -> dict[str, Any]:
        rows = np.random.default_rng(2).integers(0, 80, 80).astype(np.int32)
        given = {**arguments(steps=5), "rows": rows, "second": np.zeros((64, 16), "f4")}
        for name, place in bad.items():
            given[name][place] = 1000 + place
        return given

    found = same(both_gathered, 1, make, target="a5", engine="cuda")
    assert bool(found.ending) is bool(bad)
    assert engine and all("begin_copy" in text for text in engine)


@pto.kernel
def seldom_multiplied(table, ids, weights, out):
    product = pto.Tile("acc", "float32", 64, 16)
    lm, rm = pto.Tile("mat", table.dtype, 64, 16, **NZ), pto.Tile("mat", table.dtype, 16, 16, **NZ)
    left, right = pto.Tile("left", table.dtype, 64, 16), pto.Tile("right", table.dtype, 16, 16)
    for k in pto.range(0, table.shape[1], 16):
        pto.mgather(lm, table[:, k : k + 16], ids)
        pto.tload(rm, weights[k : k + 16, :16])
        pto.tmov(left, lm)
        pto.tmov(right, rm)
        with pto.when(k == 0):
            pto.tmatmul(product, left, right)
    pto.tstore(out[:, :16], product)


def test_a_copy_is_free_when_the_products_of_its_iteration_have_ended() -> None:
    """Not when the next product has begun: there may be none in the next iteration."""
    given = arguments(steps=6)
    made = EmulatedLaunch(seldom_multiplied, given, 1, threads.WideDevice(), 1)
    wanted = given["table"][given["ids"], :16].astype(float) @ given["weights"][:16, :16].astype(float)
    assert made.stage.panels and np.array_equal(given["out"][:, :16], wanted)


@pytest.mark.parametrize(
    ("spoilt", "said"), [("", [1, 1, 1]), ("ids", [0, 1, 0]), ("out", [0, 1, 0])], ids=lambda each: str(each)
)
def test_blocks_of_threads_say_early_that_they_leave_nothing(spoilt: str, said: list[int]) -> None:
    """The first of three has blocks 0 and 3, of which the last one counts; a fourth would have nothing to do."""
    given = arguments()
    given.update(ids=np.tile(given["ids"], 2), out=np.zeros((100 if spoilt == "out" else 128, 32), "f4"))
    if spoilt == "ids":
        given["ids"][100] = ROWS
    made = EmulatedLaunch(gathered_product, given, 3 if spoilt else 4, threads.WideDevice(), 4 if spoilt else 3)
    assert made.settled.tolist() == [*said, *[1] * (not spoilt)] and bool(made.flag[0]) is bool(spoilt)
    text = made.text.partition("@run_blocks(")[2]
    assert text.index("store volatile i8 1") < text.index("@close_group"), "before the first load"


@pto.kernel
def followed(table, ids, weights, out):
    product, row = pto.Tile("acc", "float32", 64, 16), pto.Tile("vec", "float32", 1, 32)
    lm, rm = pto.Tile("mat", table.dtype, 64, 16, **NZ), pto.Tile("mat", table.dtype, 16, 16, **NZ)
    left, right = pto.Tile("left", table.dtype, 64, 16), pto.Tile("right", table.dtype, 16, 16)
    for k in pto.range(0, table.shape[1], 16):
        pto.mgather(lm, table[:, k : k + 16], ids)
        pto.tload(rm, weights[k : k + 16, :16])
        pto.tmov(left, lm)
        pto.tmov(right, rm)
        pto.tmatmul(product, left, right)
    pto.tstore(out[:, :16], product)
    pto.tload(row, out[:1])
    pto.tstore(out[1:2], row)


def test_other_statements_behind_a_pipeline_are_waited_for() -> None:
    made = EmulatedLaunch(followed, arguments(), 1, threads.WideDevice(), 1)
    assert made.stage.panels and not made.stage.settles and not made.settled.any()


def test_limits_of_wide_units() -> None:
    chip, kind = threads.WideDevice().chip, dtype("bfloat16")
    for shape, expected in (((512, 64, 16), True), ((576, 16, 16), False), ((64, 272, 16), False)):
        assert wide.takes(chip, kind, *shape) is expected
    for shape in ((16, 16), (16, 48), (64, 16), (64, 64)):
        assert 0 <= wide.Panels(shape).nbytes - 2 * shape[0] * shape[1] < wide.ALIGNED
        assert wide.Panels(shape).nbytes % 1024 == 0


@pto.kernel
def rewritten(table, ids, weights, out):
    product = pto.Tile("acc", "float32", 64, 16)
    lm, rm = pto.Tile("mat", table.dtype, 64, 16, **NZ), pto.Tile("mat", table.dtype, 16, 16, **NZ)
    left, right = pto.Tile("left", table.dtype, 64, 16), pto.Tile("right", table.dtype, 16, 16)
    for k in pto.range(0, 48, 16):
        pto.mgather(lm, table[:, k : k + 16], ids)
        pto.tload(rm, weights[k : k + 16, :16])
        pto.tmov(left, lm)
        pto.tload(lm, table[:64, k : k + 16])
        pto.tmov(right, rm)
        with pto.when(k == 0):
            pto.tmatmul(product, left, right)
        with pto.otherwise():
            pto.tmatmul_acc(product, product, left, right)
    pto.tstore(out[:, :16], product)


@pto.kernel
def used_later(table, ids, weights, out):
    product = pto.Tile("acc", "float32", 64, 16)
    lm, rm = pto.Tile("mat", table.dtype, 64, 16, **NZ), pto.Tile("mat", table.dtype, 16, 16, **NZ)
    left, right = pto.Tile("left", table.dtype, 64, 16), pto.Tile("right", table.dtype, 16, 16)
    for k in pto.range(0, 48, 16):
        pto.mgather(lm, table[:, k : k + 16], ids)
        pto.tload(rm, weights[k : k + 16, :16])
        pto.tmov(left, lm)
        pto.tmov(right, rm)
        with pto.when(k == 0):
            pto.tmatmul(product, left, right)
        with pto.otherwise():
            pto.tmatmul_acc(product, product, left, right)
    pto.tmov(right, rm)
    pto.tmatmul_acc(product, product, left, right)
    pto.tstore(out[:, :16], product)


@pto.kernel
def stored_meanwhile(table, ids, weights, out):
    product = pto.Tile("acc", "float32", 64, 16)
    for k in pto.range(0, 48, 16):
        lm, rm = pto.Tile("mat", table.dtype, 64, 16, **NZ), pto.Tile("mat", table.dtype, 16, 16, **NZ)
        left, right = pto.Tile("left", table.dtype, 64, 16), pto.Tile("right", table.dtype, 16, 16)
        pto.mgather(lm, table[:, k : k + 16], ids)
        pto.tload(rm, weights[k : k + 16, :16])
        pto.tmov(left, lm)
        pto.tmov(right, rm)
        with pto.when(k == 0):
            pto.tmatmul(product, left, right)
        with pto.otherwise():
            pto.tmatmul_acc(product, product, left, right)
        pto.tstore(out[:, :16], product)


@pytest.mark.parametrize("kernel", [rewritten, used_later, stored_meanwhile])
def test_loops_that_are_not_pipelined(kernel: Any, engine: list[str]) -> None:
    same(kernel, 1, arguments, target="a5", engine="cuda")
    assert engine and not any("begin_copy" in text for text in engine)
