"""Unspecified values: what depends on instructions that ptokit knows by their effects only."""

from __future__ import annotations

import random
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ptokit as pto
from ptokit.engine.compute import OPS
from ptokit.finding import Finding
from ptokit.isa.move import UNSPECIFIED

TILE, PART = "!pto.tile_buf<vec, 8x16xf32>", "!pto.partition_tensor_view<8x16xf32>"
ARRAYS = "%x: !pto.ptr<f32>, %out: !pto.ptr<f32>"


def view(name: str, rows: int = 16) -> str:
    """A view of an array, and its two halves."""
    whole = f"!pto.tensor_view<{rows}x16xf32>"
    return f"""
    %{name}v = pto.make_tensor_view %{name}, shape = [%c{rows}, %c16], strides = [%c16, %c1] : {whole}
    %{name}0 = pto.partition_view %{name}v, offsets = [%c0, %c0], sizes = [%c8, %c16] : {whole} -> {PART}
    %{name}1 = pto.partition_view %{name}v, offsets = [%c8, %c0], sizes = [%c8, %c16] : {whole} -> {PART}
    """


HEAD = "\n".join(f"    %c{n} = arith.constant {n} : index" for n in (0, 1, 8, 16))


def op(name: str, outs: str, *ins: str) -> str:
    """An operation on tiles `%t...` and halves of arrays."""
    kinds = [TILE if value.startswith("%t") else PART for value in (*ins, outs)]
    sources = f"ins({', '.join(ins)} : {', '.join(kinds[:-1])}) " if ins else ""
    return f"pto.{name} {sources}outs({outs} : {kinds[-1]})"


def kernel(folder: Path, *lines: str, tiles: str = "tuv") -> pto.TextKernel:
    declared = [f"%t{name} = pto.alloc_tile : {TILE}" for name in tiles]
    body = "\n    ".join((*declared, *lines))
    file = folder / "k.pto"
    file.write_text(f"func.func @k({ARRAYS}) {{\n{HEAD}{view('x')}{view('out')}    {body}\n    return\n}}\n")
    return pto.load(str(file))


def unspecified(findings: tuple[Finding, ...]) -> dict[str, str]:
    """The arrays with unspecified elements, and how many."""
    return {each.operand: each.found for each in findings if each.expected == "specified values"}


def launch(made: pto.TextKernel, engine: str = "reference") -> tuple[tuple[Finding, ...], np.ndarray[Any, Any]]:
    x, out = np.arange(256, dtype="float32").reshape(16, 16), np.zeros((16, 16), "float32")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pto.UnmodelledWarning)
        return made[1](x, out, engine=engine, target="a5").findings, out


@pytest.mark.parametrize("engine", ["reference", "native", "machine"])
def test_what_depends_on_it_is_unspecified_and_the_rest_is_exact(tmp_path: Path, engine: str) -> None:
    made = kernel(
        tmp_path, op("tload", "%tt", "%x0"), op("tpack", "%tu", "%tt"), op("tadd", "%tu", "%tu", "%tt"),
        op("tstore", "%out0", "%tu"), op("tadd", "%tv", "%tt", "%tt"), op("tstore", "%out1", "%tv"),
    )  # fmt: skip
    findings, out = launch(made, engine)
    assert unspecified(findings) == {"out": "128 unspecified"}
    assert {(each.level, each.rule) for each in findings} == {("unmodelled", "opaque")}
    np.testing.assert_array_equal(out[8:], 2 * np.arange(128, dtype="float32").reshape(8, 16))


def test_what_is_written_again_is_specified(tmp_path: Path) -> None:
    made = kernel(
        tmp_path, op("tload", "%tt", "%x0"), op("tpack", "%tu", "%tt"), op("tadd", "%tu", "%tt", "%tt"),
        op("tstore", "%out0", "%tu"),
    )  # fmt: skip
    findings, out = launch(made)
    assert unspecified(findings) == {}
    assert out[7, 15] == 2 * 127


def test_a_launch_warns(tmp_path: Path) -> None:
    made = kernel(tmp_path, op("tload", "%tt", "%x0"), op("tpack", "%tt", "%tt"))
    with pytest.warns(pto.UnmodelledWarning, match="tpack on cpu: ptokit does not model this"):
        made[1](np.zeros((16, 16), "float32"), np.zeros((16, 16), "float32"))


def random_lines(rng: random.Random) -> list[str]:
    tiles, arrays = ("%tt", "%tu", "%tv"), ("%x0", "%x1", "%out0", "%out1")
    lines = [op("tload", tile, rng.choice(arrays)) for tile in tiles]
    for _ in range(12):
        a, b, c = (rng.choice(tiles) for _ in range(3))
        lines.append(
            rng.choice((
                op("tadd", a, b, c), op("tmov" if a != b else "tabs", a, b),
                op("tload", a, rng.choice(arrays)), op("tpack", a, b),
                op("tstore", rng.choice(arrays[2:]), a),
            ))
        )  # fmt: skip
    return lines


@pytest.mark.parametrize("seed", range(20))
def test_values_that_differ_with_the_unspecified_bits_are_marked(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same program with other bits in the place of unspecified values: only marked elements may differ."""
    lines = random_lines(random.Random(seed))
    found, one = launch(kernel(tmp_path, *lines))
    monkeypatch.setitem(OPS, UNSPECIFIED, lambda shape, dtype, *_: np.full(shape, 7.25, dtype.numpy))
    _, other = launch(kernel(tmp_path, *lines))
    differing = int((one.view("u4") != other.view("u4")).sum())
    marked = int(unspecified(found).get("out", "0").split()[0])
    assert differing <= marked
    assert (differing == 0) == (marked == 0)  # a block is marked whole


GATHER = """
func.func @k(%x: !pto.ptr<f32>, %out: !pto.ptr<f32>) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c8 = arith.constant 8 : index
    %c16 = arith.constant 16 : index
    %xv = pto.make_tensor_view %x, shape = [%c16, %c16], strides = [%c16, %c1] : !pto.tensor_view<16x16xf32>
    %xp = pto.partition_view %xv, offsets = [%c0, %c0], sizes = [%c16, %c16]
      : !pto.tensor_view<16x16xf32> -> !pto.partition_tensor_view<16x16xf32>
    %ov = pto.make_tensor_view %out, shape = [%c16, %c16], strides = [%c16, %c1] : !pto.tensor_view<16x16xf32>
    %op = pto.partition_view %ov, offsets = [%c0, %c0], sizes = [%c8, %c16]
      : !pto.tensor_view<16x16xf32> -> !pto.partition_tensor_view<8x16xf32>
    %i = pto.tpop_from_aic {split = 0} -> !pto.tile_buf<vec, 1x8xi32>
    %t = pto.alloc_tile : !pto.tile_buf<vec, 8x16xf32>
    pto.mgather ins(%xp, %i : !pto.partition_tensor_view<16x16xf32>, !pto.tile_buf<vec, 1x8xi32>)
      outs(%t : !pto.tile_buf<vec, 8x16xf32>) {coalesce = #pto<coalesce row>}
    pto.tstore ins(%t : !pto.tile_buf<vec, 8x16xf32>) outs(%op : !pto.partition_tensor_view<8x16xf32>)
    return
}
"""


@pytest.mark.parametrize("engine", ["reference", "machine"])
def test_an_unspecified_index_is_not_used(tmp_path: Path, engine: str) -> None:
    (tmp_path / "k.pto").write_text(GATHER)
    findings, _ = launch(pto.load(str(tmp_path / "k.pto")), engine)
    assert any("idx has unspecified values; it was not executed" in each.message for each in findings)
    assert not [each for each in findings if each.is_fault and each.operand == "idx"]
    assert unspecified(findings) == {"out": "128 unspecified"}


SCALAR = """
func.func @k(%n: !pto.ptr<i32>) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c8 = arith.constant 8 : index
    %nv = pto.make_tensor_view %n, shape = [%c1, %c8], strides = [%c8, %c1] : !pto.tensor_view<1x8xi32>
    %np = pto.partition_view %nv, offsets = [%c0, %c0], sizes = [%c1, %c8]
      : !pto.tensor_view<1x8xi32> -> !pto.partition_tensor_view<1x8xi32>
    %i = pto.alloc_tile : !pto.tile_buf<vec, 1x8xi32>
    pto.tload ins(%np : !pto.partition_tensor_view<1x8xi32>) outs(%i : !pto.tile_buf<vec, 1x8xi32>)
    pto.tpack ins(%i : !pto.tile_buf<vec, 1x8xi32>) outs(%i : !pto.tile_buf<vec, 1x8xi32>)
    pto.tstore ins(%i : !pto.tile_buf<vec, 1x8xi32>) outs(%np : !pto.partition_tensor_view<1x8xi32>)
    %m = pto.load_scalar %n[%c1] : !pto.ptr<i32> -> i32
    %most = arith.index_cast %m : i32 to index
    scf.for %k = %c0 to %most step %c1 {
      pto.tpack ins(%i : !pto.tile_buf<vec, 1x8xi32>) outs(%i : !pto.tile_buf<vec, 1x8xi32>)
    }
    return
}
"""


def test_an_unspecified_number_counts_as_zero(tmp_path: Path) -> None:
    (tmp_path / "k.pto").write_text(SCALAR)
    with pytest.warns(pto.UnmodelledWarning):
        run = pto.load(str(tmp_path / "k.pto"))[1](np.full((1, 8), 3, "int32"), engine="reference", target="a5")
    assert any("is an unspecified value of n, and counts as 0" in each.message for each in run.findings)
