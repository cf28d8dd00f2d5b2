"""What leaves an accumulator, against a loop over its elements."""

from __future__ import annotations

import re
import struct
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import ptokit as pto
from ptokit.text.forms import read_program

ROWS, COLS = 16, 32
LIMITS = {True: (-128, 127), False: (0, 255)}


def float_of(bits: int) -> float:
    """A float32 by its bits."""
    return struct.unpack("<f", struct.pack("<I", bits))[0]


def nearest_even(number: float) -> int:
    """The nearest whole number, ties to even."""
    exact = Fraction(number)
    low = exact.numerator // exact.denominator
    rest = exact - low
    return low + (rest > Fraction(1, 2) or (rest == Fraction(1, 2) and low % 2 == 1))


def quantised(value: float, word: int, *, relu: bool) -> int:
    """An element by the formula: factor, 9 bits, offset, range, rectifier."""
    product = float(np.float32(value) * np.float32(float_of(word & 0xFFFFE000)))
    offset, is_signed = word >> 37 & 0x1FF, bool(word >> 46 & 1)
    low, high = LIMITS[is_signed]
    found = min(max(nearest_even(min(max(product, -256.0), 255.0)) + offset, low), high)
    return max(found, 0) if relu else found


@pytest.mark.clause("CP-FIX-03", "CP-FIX-04")
@pytest.mark.parametrize("source", ["float32", "int32"])
@pytest.mark.parametrize("kind", ["int8", "uint8"])
@pytest.mark.parametrize("relu", [False, True])
def test_quantised_elements_follow_the_formula(source: str, kind: str, relu: bool) -> None:
    rng = np.random.default_rng(len(source + kind) + relu)
    factors = np.float32(rng.normal(0, 0.3, COLS)).view(np.uint32).tolist()
    offsets = rng.choice([0, 0, 0, 3, 40], COLS).tolist()
    words = [f | o << 37 | (kind == "int8") << 46 for f, o in zip(factors, offsets, strict=True)]
    values: Any = rng.integers(-900, 900, (ROWS, COLS)) / (2 if source == "float32" else 1)
    with pto.target("a5"):
        acc = pto.Tile("acc", source, ROWS, COLS).write(values.astype(source))
        fp = pto.Tile("scaling", "uint64", 1, COLS).write(np.array([words], "uint64"))
        stored, once = np.zeros((ROWS, COLS), kind), np.zeros((ROWS, COLS), kind)
        chosen = "relu" if relu else "none"
        pto.tstore_fp(pto.GlobalTensor(stored), acc, fp, relu=chosen)
        pto.tstore(pto.GlobalTensor(once), acc, scale=words[0], relu=chosen)
        moved = pto.Tile("mat", kind, ROWS, COLS, blayout="col_major", slayout="row_major")
        pto.tmov_fp(moved, acc, fp, relu=chosen)
    expected = [[quantised(values[i, j], words[j], relu=relu) for j in range(COLS)] for i in range(ROWS)]
    assert stored.tolist() == expected == moved.read().tolist()
    assert once.tolist() == [[quantised(v, words[0], relu=relu) for v in row] for row in values]


@pytest.mark.clause("CP-FIX-03")
def test_factors_lead_to_finite_floats_to_the_nearest() -> None:
    values = np.array([[3.0, 1e30, -1e30, 0.1, float("nan")]], "float32")
    word = int(np.float32(0.75).view(np.uint32))
    with pto.target("a5"):
        acc = pto.Tile("acc", "float32", 16, 16, valid=(1, 5)).write(values)
        out = np.zeros((1, 5), "float16")
        pto.tstore(pto.GlobalTensor(out), acc, scale=word)
    assert out[0, :3].tolist() == [2.25, 65504, -65504] and np.isnan(out[0, 4])
    assert out[0, 3] == np.float16(np.float32(0.1) * np.float32(0.75))


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("pto.tmov ins(%acc : A, %fp : F) outs(%to : M)", "tmov_fp"),
        ("pto.tmov ins(%acc : A fp %fp : F) outs(%to : M)", "tmov_fp"),
        ('"pto.tmov"(%acc, %to, %pre) <{operandSegmentSizes = array<i32: 1, 1, 0, 1>}> : (A, M, i64) -> ()', "tmov"),
        ("pto.tmov ins(%acc : A, %pre : i64) outs(%to : M) {reluPreMode = #pto<relu_pre_mode normal_relu>}", "tmov"),
        ("pto.textract_fp ins(%acc, %fp, %c0, %c0 : A, F, index, index) outs(%to : M)", "textract_fp"),
    ],
)
def test_factors_of_texts(line: str, name: str) -> None:
    """Every public spelling becomes the modelled instruction."""
    shapes = {
        "A": "!pto.tile_buf<loc=acc, dtype=f32, rows=32, cols=32, v_row=32, v_col=32, blayout=col_major, "
        "slayout=row_major, fractal=1024, pad=0>",
        "M": "!pto.tile_buf<loc=mat, dtype=i8, rows=32, cols=32, v_row=32, v_col=32, blayout=col_major, "
        "slayout=row_major, fractal=512, pad=0>",
        "F": "!pto.tile_buf<loc=scaling, dtype=ui64, rows=1, cols=32, v_row=1, v_col=32, blayout=row_major, "
        "slayout=none_box, fractal=512, pad=0>",
    }
    tiles = (("acc", "A"), ("to", "M"), ("fp", "F"))
    body = "\n".join(f"%{tile} = pto.alloc_tile : {shape}" for tile, shape in tiles)
    numbers = "%c0 = arith.constant 0 : index\n%pre = arith.constant 7 : i64"
    code = re.sub(r"\b[AMF]\b", lambda found: shapes[found[0]], f"{body}\n{line}")
    text = f"func.func @k() {{\n{numbers}\n{code}\nreturn\n}}"
    (instr,) = read_program(text).instructions
    assert (instr.name, instr.opaque_form) == (name, "")


@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_factors_move_an_accumulator_into_a_tile_with_more_valid_elements(target: str) -> None:
    """The accumulator says how much is moved (a2a3/TMov.hpp:208), as without factors."""
    word = int(np.float32(2).view(np.uint32)) | 1 << 46
    with pto.target(target):
        acc = pto.Tile("acc", "float32", 16, 16, valid=(5, 3)).write(3)
        fp = pto.Tile("scaling", "uint64", 1, 16).write(word)
        moved = pto.Tile("mat", "int8", 16, 32, blayout="col_major", slayout="row_major")
        pto.tmov_fp(moved, acc, fp)
    assert (moved.read()[:5, :3] == 6).all()
