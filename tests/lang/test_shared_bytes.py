"""Tiles that share bytes, on every engine: handles of one buffer (A-38), and overlaps that destroy nothing."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import ptokit as pto

FAMILIES = ("cpu", "a2a3", "a5")
ENGINES = ("reference", "native", "machine", "debug")
Array = np.ndarray[Any, Any]


@pto.kernel(mode="manual")
def one_buffer(x, out):
    """What is written through one handle is read through another, also in one instruction."""
    a = pto.Tile("vec", "float32", 8, 16, addr=0x100)
    b = pto.Tile("vec", "float32", 8, 16, addr=0x100)
    flat = pto.Tile("vec", "float32", 1, 128, addr=0x100)
    pto.tload(a, x)
    pto.barrier("ALL")
    for _ in pto.range(3):
        pto.tadd(a, b, b)
        pto.barrier("ALL")
        pto.tadds(flat, flat, 1)
        pto.barrier("ALL")
    pto.tstore(out, b)


@pto.kernel(mode="manual")
def moved(x, out):
    """A handle that is put where another one is."""
    a = pto.Tile("vec", "float32", 8, 16, addr=0)
    b = pto.Tile("vec", "float32", 8, 16)
    pto.tload(a, x)
    pto.barrier("ALL")
    pto.tassign(b, 0)
    pto.tadds(b, b, 5)
    pto.barrier("ALL")
    pto.tstore(out, a)


@pto.kernel(mode="manual")
def halves(x, out):
    """A handle of exactly the bytes of a slice, in place."""
    a = pto.Tile("vec", "float32", 8, 16, addr=0)
    upper = pto.Tile("vec", "float32", 4, 16, addr=0)
    pto.tload(a, x)
    pto.barrier("ALL")
    pto.tadd(upper, a[0:4], a[4:8])
    pto.barrier("ALL")
    pto.tstore(out[0:4], upper)


@pto.kernel(mode="manual")
def reused(x, out):
    """Places that are used again, by other tiles that lie across."""
    a = pto.Tile("vec", "float32", 8, 16, addr=0)
    b = pto.Tile("vec", "float32", 8, 16, addr=0x80)
    c = pto.Tile("vec", "float32", 8, 16, addr=0x400)
    for _ in pto.range(2):
        pto.tload(a, x)
        pto.barrier("ALL")
        pto.tadds(c, a, 1)
        pto.barrier("ALL")
        pto.tadds(b, c, 1)
        pto.barrier("ALL")
        pto.tmul(c, b, c)
        pto.barrier("ALL")
    pto.tstore(out, c)


@pto.kernel(mode="manual")
def as_bits(x, out):
    """The bits of floats as integers: another type at the same bytes, which has destroyed nothing."""
    a = pto.Tile("vec", "float32", 8, 16, addr=0)
    bits = pto.Tile("vec", "int32", 8, 16, addr=0)
    got = pto.Tile("vec", "int32", 8, 16, addr=0x1000)
    pto.tload(a, x)
    pto.barrier("ALL")
    pto.tadds(got, bits, 1)
    pto.barrier("ALL")
    pto.tstore(out, got)


@pto.kernel(mode="manual")
def one_of_two(x, out, flip):
    """Arms of a branch, each with its own tile at the same address."""
    a = pto.Tile("vec", "float32", 8, 16, addr=0)
    b = pto.Tile("vec", "float32", 8, 16, addr=0x40)
    for i in pto.range(4):
        with pto.when((i + flip) % 2 == 0):
            pto.tload(a, x)
            pto.barrier("ALL")
            pto.tstore(out, a)
        with pto.otherwise():
            pto.tload(b, x)
            pto.barrier("ALL")
            pto.tadds(b, b, 1)
            pto.barrier("ALL")
            pto.tstore(out, b)
        pto.barrier("ALL")


def run(kernel: Any, target: str, engine: str, *args: object, **options: Any) -> list[pto.Finding]:
    how = {"debug": True} if engine == "debug" else {"engine": engine}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pto.HazardWarning)
        return list(kernel[1](*args, target=target, **how, **options).findings)


def source() -> Array:
    return np.arange(1, 129, dtype="float32").reshape(8, 16)


def three_times(x: Array) -> Array:
    for _ in range(3):
        x = x + x + 1
    return x


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("target", FAMILIES)
@pytest.mark.parametrize(("kernel", "expected"), [
    (one_buffer, three_times), (moved, lambda x: x + 5), (reused, lambda x: (x + 2) * (x + 1)),
], ids=["one buffer", "moved", "reused"])  # fmt: skip
def test_values_and_no_findings(kernel: Any, expected: Any, target: str, engine: str) -> None:
    x, out = source(), np.zeros((8, 16), "float32")
    assert [f for f in run(kernel, target, engine, x, out) if f.level != "note"] == []
    assert np.array_equal(out, expected(x))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("target", FAMILIES)
def test_a_handle_of_a_slice_is_written_in_place(target: str, engine: str) -> None:
    x, out = source(), np.zeros((8, 16), "float32")
    assert [f for f in run(halves, target, engine, x, out) if f.level != "note"] == []
    assert np.array_equal(out[:4], x[:4] + x[4:])


@pytest.mark.parametrize("kernel", [one_buffer, moved])
def test_one_buffer_gets_no_finding(kernel: Any) -> None:
    report = pto.check(kernel, source(), np.zeros((8, 16), "float32"))
    assert report.ok and not report.findings


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("target", FAMILIES)
def test_bits_of_another_type(target: str, engine: str) -> None:
    x, out = source(), np.zeros((8, 16), "int32")
    assert [f for f in run(as_bits, target, engine, x, out) if f.level != "note"] == []
    assert np.array_equal(out, x.view("int32") + 1)
    notes = [(f.level, f.rule, f.operand) for f in pto.check(as_bits, x, out, target=target).findings]
    assert notes == [("note", "A-38", "bits")]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("flip", [0, 1])
@pytest.mark.parametrize("target", FAMILIES)
def test_arms_of_a_branch(target: str, flip: int, engine: str) -> None:
    x, out = source(), np.zeros((8, 16), "float32")
    assert [f for f in run(one_of_two, target, engine, x, out, flip) if f.level != "note"] == []
    assert np.array_equal(out, x + 1 - flip)


# --- an element gather of A2/A3 over its own index, in the order of its walk (MG-NZ-10)


@pto.kernel(mode="manual")
def over_its_index(table, index, out):
    idx = pto.Tile("vec", "int32", 16, 16, addr=0)
    got = pto.Tile("vec", "int32", 16, 16, blayout="col_major", slayout="row_major", addr=0)
    pto.tload(idx, index)
    pto.barrier("ALL")
    pto.mgather(got, table, idx, coalesce="elem")
    pto.barrier("ALL")
    pto.tstore(out, got)


@pytest.mark.parametrize("engine", ["reference", "native", "machine"])
def test_an_nz_gather_over_its_index(engine: str) -> None:
    rng = np.random.default_rng(3)
    table = rng.permutation(256).astype("int32").reshape(1, 2, 1, 16, 8)
    index, out = rng.integers(0, 256, (16, 16)).astype("int32"), np.zeros((1, 2, 1, 16, 8), "int32")
    run(over_its_index, "a2a3", engine, pto.GlobalTensor(table, layout="nz"), index, pto.GlobalTensor(out, layout="nz"),
        header=True)  # fmt: skip
    cells = index.ravel().tolist()
    logical = np.concatenate([table[0, 0, 0], table[0, 1, 0]], axis=1).ravel()
    for block in range(2):
        for i in range(16):
            for j in range(8 * block, 8 * block + 8):
                cells[128 * block + 8 * i + j % 8] = int(logical[cells[16 * i + j]])
    assert out.ravel().tolist() == cells


# --- text


TEXT = """
func.func @k(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  %at = arith.constant 0 : i64
  %bt = arith.constant SECOND : i64
  %one = arith.constant 1.0 : f32
  %vx = pto.make_tensor_view %x, shape = [%c8, %c16], strides = [%c16, %c1] : VIEW
  %vy = pto.make_tensor_view %y, shape = [%c8, %c16], strides = [%c16, %c1] : VIEW
  %px = pto.partition_view %vx, offsets = [%c0, %c0], sizes = [%c8, %c16] : VIEW -> BLOCK
  %py = pto.partition_view %vy, offsets = [%c0, %c0], sizes = [%c8, %c16] : VIEW -> BLOCK
  %a = pto.alloc_tile addr = %at : TILE
  %b = pto.alloc_tile addr = %bt : TILE
  pto.tload ins(%px : BLOCK) outs(%a : TILE)
  pto.tadds ins(%b, %one : TILE, f32) outs(%b : TILE)
  pto.tstore ins(%a : TILE) outs(%py : BLOCK)
  return
}
"""
TYPES = {
    "VIEW": "!pto.tensor_view<?x?xf32>",
    "BLOCK": "!pto.partition_tensor_view<8x16xf32>",
    "TILE": "!pto.tile_buf<vec, 8x16xf32>",
}


def text(second: int) -> str:
    """Two tiles, of which the second lies at an address."""
    found = TEXT.replace("SECOND", str(second))
    for name, spelled in TYPES.items():
        found = found.replace(name, spelled)
    return found


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize("target", FAMILIES)
def test_two_handles_in_text(target: str, engine: str, tmp_path: Any) -> None:
    path = tmp_path / "k.pto"
    path.write_text(text(0), encoding="utf-8")
    kernel = pto.load(path)
    x, out = source(), np.zeros((8, 16), "float32")
    assert run(kernel, target, engine, x, out) == []
    assert np.array_equal(out, x + 1)
    path.write_text(text(256), encoding="utf-8")
    with pytest.raises(pto.VerifyError, match="H-38"):
        run(pto.load(path), target, engine, x, out)
