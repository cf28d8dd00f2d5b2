"""Tiles made of parts against plain loops, and with numbers of the run on every engine."""

from __future__ import annotations

import zlib
from itertools import product

import numpy as np
import pytest

import ptokit as pto
from tests.compute import exact
from tests.compute.exact import expect, plain, sample, tile
from tests.compute.tables import TARGETS, cases

VALID = (3, 19)
BINARY = {"tpartadd": exact.add, "tpartmul": exact.mul, "tpartmax": exact.largest, "tpartmin": exact.smallest}


def rng(*key: object) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(repr(key).encode()))


@pytest.mark.parametrize(("target", "name", "kind"), cases(*BINARY))
def test_partial_arithmetic(target: str, name: str, kind: str) -> None:
    a = sample(kind, VALID, rng(kind, name))
    for valid, swapped in (((2, 19), True), ((3, 7), False), ((1, 1), True), (VALID, False)):
        b = sample(kind, valid, rng(kind, valid))
        with pto.target(target):
            dst, given = tile(kind), [tile(kind, data=a), tile(kind, valid=valid, data=b)]
            getattr(pto, name)(dst, *(given[::-1] if swapped else given))

            def expected(i: int, j: int, b=b, valid=valid, swapped=swapped):
                if i >= valid[0] or j >= valid[1]:
                    return plain(a[i, j])
                pair = plain(a[i, j]), plain(b[i, j])
                return BINARY[name](*(pair[::-1] if swapped else pair), kind)

            expect(dst, expected, name)


@pytest.mark.parametrize(("target", "name", "kind"), cases("taxpy"))
def test_multiples(target: str, name: str, kind: str) -> None:
    a, b = sample(kind, VALID, rng(kind, 0)), sample(kind, VALID, rng(kind, 1))
    for factor in (0.5, -3.0, 1.5):
        with pto.target(target):
            dst = tile(kind, data=a)
            pto.taxpy(dst, tile(kind, data=b), factor)
            expect(
                dst, lambda i, j, f=factor: exact.add(plain(a[i, j]), exact.mul(plain(b[i, j]), f, kind), kind), name
            )


@pto.kernel
def pieces(x, out, n, row, col):
    whole, padded = pto.Tile("vec", "float32", 16, 32), pto.Tile("vec", "float32", 16, 32, pad="max")
    part, wide = pto.Tile("vec", "float32", 8, 16, valid=(n, 9)), pto.Tile("vec", "float32", 16, 32, valid=(n, 20))
    pto.tload(whole, x)
    pto.tload(part, x[0:n, 0:9])
    pto.tload(wide, x[0:n, 0:20])
    pto.tinsert(whole, part, row, col)
    pto.tfillpad(padded, wide)
    beside, half = pto.Tile("vec", "float32", 16, 32, valid=(n, 29)), pto.Tile("vec", "float32", 16, 32)
    pto.tconcat(beside, wide, part)
    pto.tpartmin(half, padded, beside)
    pto.tinsert(whole, beside, 0, 3)
    pto.ttri(padded, row - 5, half="upper")
    pto.tmul(whole, whole, padded)
    pto.tpartmax(padded, whole, half)
    pto.tstore(out, padded)


@pytest.mark.parametrize(("n", "row", "col"), [(8, 3, 7), (1, 0, 0), (5, 9, 23)])
def test_places_that_are_known_at_run_time(n: int, row: int, col: int) -> None:
    """Every engine gives the bits of a model in NumPy, and the machine finds no fault."""
    x = np.random.default_rng(n).standard_normal((16, 32)).astype("float32")
    whole, low = x.copy(), np.full((16, 32), np.inf, "float32")
    whole[row : row + n, col : col + 9] = x[:n, :9]
    beside = np.concatenate([x[:n, :20], x[:n, :9]], 1)
    low[:n, :20] = x[:n, :20]
    low[:n, :29] = np.minimum(low[:n, :29], beside)
    whole[:n, 3:32] = beside
    expected = np.maximum(whole * (1 - np.tri(16, 32, row - 6, dtype="float32")), low)
    for engine, target in product(("reference", "native", "machine"), ("cpu", "a2a3", "a5")):
        out = np.zeros_like(x)
        run = pieces[1](x, out, n, row, col, engine=engine, target=target)
        assert (out == expected).all(), (engine, target)
        assert engine != "machine" or run.findings == ()


@pytest.mark.parametrize("target", TARGETS[:3])
@pytest.mark.parametrize("kind", ["int8", "float16", "float32"])
def test_padding_in_l1_is_all_that_is_not_valid(target: str, kind: str) -> None:
    for valid in ((17, 33), (16, 32), (1, 1), (32, 64)):
        mat = pto.Tile("mat", kind, 32, 64, valid=valid, blayout="col_major", slayout="row_major")
        mat.buffer[:] = 9
        with pto.target(target):
            pto.tfillpad(mat, mat)
        whole = pto.Tile("mat", kind, 32, 64, blayout="col_major", slayout="row_major")
        whole.buffer[:] = mat.buffer
        found = whole.read()
        assert (found[: valid[0], : valid[1]] == 9).all() and (found == 9).sum() == valid[0] * valid[1]


def test_padding_of_a_tile_in_l1_reads_nothing() -> None:
    @pto.kernel
    def fill(x, out):
        mat = pto.Tile("mat", "float16", 32, 64, blayout="col_major", slayout="row_major")
        pto.tfillpad(mat, mat)
        pto.tload(mat, x)

    x = np.ones((32, 64), "float16")
    report = fill[1](x, x.copy(), engine="machine", target="a5")
    assert "CO-ALIGN-05" not in {found.rule for found in report.findings}


@pytest.mark.parametrize(("target", "valid"), [("a5", (16, 16)), ("a2a3", (13, 9)), ("a5", (13, 9))])
def test_an_accumulator_moves_into_boxes_as_whole_boxes(target: str, valid: tuple[int, int]) -> None:
    """On A5, as far as the destination is valid; a destination of 32 columns gets two boxes of 8."""
    data = np.arange(512, dtype="float32").reshape(16, 32)
    acc = pto.Tile("acc", "float32", 16, 32, valid=(13, 9))
    acc.buffer[:] = pto.Tile("acc", "float32", 16, 32).write(data).buffer
    cols = 32 if valid == (16, 16) else valid[1]
    boxes = pto.Tile("mat", "float32", 16, 32, valid=(valid[0], cols), blayout="col_major", slayout="row_major")
    boxes.buffer[:] = 0
    with pto.target(target):
        pto.tmov(boxes, acc)
    expected = np.zeros((valid[0], cols), "float32")
    expected[: valid[0], : valid[1]] = data[: valid[0], : valid[1]]
    np.testing.assert_array_equal(boxes.read(), expected)


def test_windows_begin_where_the_headers_of_a5_take_them() -> None:
    """At any row of fractals in UB (TExtract.hpp:942), at any column of column-major boxes (TInsert.hpp:616)."""
    values = np.arange(32 * 16).reshape(32, 16) % 64
    with pto.target("a5"):
        boxes = {"blayout": "col_major", "slayout": "row_major"}
        src, dst = pto.Tile("vec", "float16", 32, 16, **boxes), pto.Tile("vec", "float16", 16, 16, **boxes)
        pto.textract(dst, src.write(values), 4, 0)
        assert dst.read().tolist() == values[4:20].tolist()
        columns = {"blayout": "row_major", "slayout": "col_major"}
        whole, part = (pto.Tile(*each, **columns) for each in (("mat", "float16", 16, 64), ("vec", "float16", 16, 16)))
        pto.tinsert(whole.write(0), part.write(values[:16]), 0, 24)
        assert whole.read()[:, 24:40].tolist() == values[:16].tolist() and not whole.read()[:, 40:].any()
