"""Reductions, expansions, transposition, gathering and the cube against plain loops."""

from __future__ import annotations

import zlib
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import ptokit as pto
from tests.compute import exact
from tests.compute.exact import expect, is_float, plain, sample, tile
from tests.compute.tables import BYTES, TARGETS, cases
from tests.loops import over

VALID = (3, 19)


def rng(*key: object) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(repr(key).encode()))


def total(row: list, kind: str):
    """Ascending, in float32 for small floats, rounded once."""
    inside = "float32" if kind in ("float16", "bfloat16") else kind
    found = row[0]
    for value in row[1:]:
        found = exact.add(found, value, inside)
    return exact.nearest(Fraction(found), kind, found) if is_float(kind) and exact.finite(found) else found


def best(row: list, better) -> float:
    found = row[0]
    for value in row[1:]:
        if better(value, found):
            found = value
    return found


def multiplied(row: list, kind: str):
    """Ascending, every product rounded."""
    found = row[0]
    for value in row[1:]:
        found = exact.mul(found, value, kind)
    return found


REDUCTIONS = {
    "trowsum": total,
    "trowprod": multiplied,
    "trowmax": lambda row, kind: best(row, lambda a, b: a > b),
    "trowmin": lambda row, kind: best(row, lambda a, b: a < b),
}


@pytest.mark.parametrize(("target", "name", "kind"), cases(*REDUCTIONS))
@over("column", [False, True])
def test_reductions(target: str, name: str, kind: str, column: bool) -> None:
    a = sample(kind, VALID, rng(kind, name))
    if is_float(kind) and name == "trowsum":
        a[:2] = (rng(kind).standard_normal((2, 19)) * 100).astype(a.dtype)
    with pto.target(target):
        dst = tile(kind, (32, 1), (3, 1), blayout="col_major") if column else tile(kind, (5, 32), (3, 1))
        getattr(pto, name)(dst, tile(kind, data=a))
        expect(dst, lambda i, j: REDUCTIONS[name]([plain(x) for x in a[i]], kind), name)


def larger(a, b, kind: str):
    return b if b > a else a


def smaller(a, b, kind: str):
    return b if b < a else a


BINARY = {
    "add": exact.add, "sub": exact.sub, "mul": exact.mul, "div": exact.div, "max": larger, "min": smaller
}  # fmt: skip
EXPANSIONS = {f"trowexpand{name}": function for name, function in BINARY.items()}


@pytest.mark.parametrize(("target", "name", "kind"), cases(*EXPANSIONS))
@over("block", [False, True])
@over("first", [False, True])
def test_expansions(target: str, name: str, kind: str, block: bool, first: bool) -> None:
    c0 = pto.dtype(kind).c0
    shape = (3, c0 if block else 1)
    a, b = sample(kind, VALID, rng(kind, 0)), sample(kind, shape, rng(kind, 1))
    if not is_float(kind) and name == "trowexpanddiv":
        a[a == 0], b[b == 0] = 5, 7
    with pto.target(target):
        full = tile(kind, data=a)
        few = tile(kind, (5, 32), shape, data=b) if block else tile(kind, (32, 1), shape, data=b, blayout="col_major")
        dst = tile(kind)
        getattr(pto, name)(dst, *((few, full) if first else (full, few)))

        def expected(i: int, j: int):
            x, y = plain(a[i, j]), plain(b[i, j % c0 if block else 0])
            return EXPANSIONS[name](*((y, x) if first else (x, y)), kind)

        expect(dst, expected, name)


def first_of_best(row: list, better) -> int:
    found = 0
    for k, value in enumerate(row):
        if better(value, row[found]):
            found = k
    return found


POSITIONS = {
    "trowargmax": lambda row: first_of_best(row, lambda a, b: a > b),
    "trowargmin": lambda row: first_of_best(row, lambda a, b: a < b),
}
POSITIONS |= {name.replace("row", "col"): function for name, function in POSITIONS.items()}


@pytest.mark.parametrize(("target", "name", "kind"), cases(*POSITIONS))
def test_positions(target: str, name: str, kind: str) -> None:
    a, by_row = sample(kind, VALID, rng(kind, name)), "row" in name
    with pto.target(target):
        dst = tile("uint32", (5, 32), (VALID[0], 1) if by_row else (1, VALID[1]))
        getattr(pto, name)(dst, tile(kind, data=a))
        expect(dst, lambda i, j: POSITIONS[name]([plain(x) for x in (a[i] if by_row else a[:, j])]), name)


@over("first", [False, True])
@pytest.mark.parametrize(("target", "name", "kind"), cases("trowexpandexpdif", "tcolexpandexpdif"))
def test_exponentials_of_differences(target: str, name: str, kind: str, first: bool) -> None:
    """The same as the difference followed by the exponential, in place too."""
    a = sample(kind, VALID, rng(kind, 0))
    b = a[:, :1] if "row" in name else a[:1]
    with pto.target(target):
        column = {"blayout": "col_major"} if "row" in name else {}
        few = tile(kind, (32, 1) if column else (1, 32), b.shape, data=b, **column)
        full, dst, steps = tile(kind, data=a), tile(kind), tile(kind)
        given = (few, full) if first else (full, few)
        getattr(pto, name.replace("expdif", "sub"))(steps, *given)
        pto.texp(steps, steps)
        getattr(pto, name)(dst, *given)
        assert (dst.buffer.view("u1") == steps.buffer.view("u1")).all()
        getattr(pto, name)(full, *given)
        assert (full.read().view("u1") == steps.read().view("u1")).all()


COLUMN_REDUCTIONS = {name.replace("row", "col"): function for name, function in REDUCTIONS.items()}


@pytest.mark.parametrize(("target", "name", "kind"), cases(*COLUMN_REDUCTIONS))
@over("rows", [1, 5])
def test_reductions_of_columns(target: str, name: str, kind: str, rows: int) -> None:
    a = sample(kind, (19, 7), rng(kind, name))
    if is_float(kind) and name == "tcolsum":
        a[:, :4] = (rng(kind).standard_normal((19, 4)) * 100).astype(a.dtype)
    with pto.target(target):
        dst, src = tile(kind, (rows, 32), (1, 7)), tile(kind, (32, 32), (19, 7), data=a)
        getattr(pto, name)(dst, src)
        expect(dst, lambda i, j: COLUMN_REDUCTIONS[name]([plain(x) for x in a[:, j]], kind), name)
        assert (src.read().view("u1") == a.view("u1")).all()


def test_only_row_0_is_reduced_into() -> None:
    dst = tile("int32", (5, 32), (5, 7), data=-1)
    pto.tcolsum(dst, tile("int32", (32, 32), (19, 7), data=1))
    assert dst.read().tolist() == [[19] * 7] + [[-1] * 7] * 4


COLUMN_EXPANSIONS = {f"tcolexpand{name}": function for name, function in BINARY.items()}


@pytest.mark.parametrize(("target", "name", "kind"), cases(*COLUMN_EXPANSIONS))
@over("first", [False, True])
@over("rows", [1, 3])
def test_expansions_of_rows(target: str, name: str, kind: str, first: bool, rows: int) -> None:
    if first and rows == VALID[0]:
        rows = 2  # of two tiles of the destination's shape, src1 is the one that is spread
    a, b = sample(kind, VALID, rng(kind, 0)), sample(kind, (rows, VALID[1]), rng(kind, 1))
    if not is_float(kind) and name == "tcolexpanddiv":
        a[a == 0], b[b == 0] = 5, 7
    with pto.target(target):
        full, few, dst = tile(kind, data=a), tile(kind, (5, 32), (rows, VALID[1]), data=b), tile(kind)
        getattr(pto, name)(dst, *((few, full) if first else (full, few)))

        def expected(i: int, j: int):
            x, y = plain(a[i, j]), plain(b[0, j])
            return COLUMN_EXPANSIONS[name](*((y, x) if first else (x, y)), kind)

        expect(dst, expected, name)


@pytest.mark.parametrize(("target", "name", "kind"), cases("trowexpand", "tcolexpand"))
@over("column", [False, True])
def test_repetitions(target: str, name: str, kind: str, column: bool) -> None:
    by_row = name == "trowexpand"
    shape = (VALID[0], 1) if by_row else (1, VALID[1])
    a = sample(kind, shape, rng(kind, name))
    with pto.target(target):
        src = tile(kind, (32, 1) if by_row and column else (5, 32), shape, data=a,
                   **({"blayout": "col_major"} if by_row and column else {}))  # fmt: skip
        dst = tile(kind)
        getattr(pto, name)(dst, src)
        expect(dst, lambda i, j: plain(a[i, 0] if by_row else a[0, j]), name)


@pytest.mark.parametrize(("target", "name", "kind"), cases("ttrans"))
def test_transposition(target: str, name: str, kind: str) -> None:
    a = sample(kind, VALID, rng(kind))
    with pto.target(target):
        dst = tile(kind, (32, 32), (19, 3))
        pto.ttrans(dst, tile(kind, data=a))
        expect(dst, lambda i, j: plain(a[j, i]))


@pytest.mark.parametrize("target", ["cpu", "a5"])
@pytest.mark.parametrize("kind", sorted(BYTES))
def test_floats_of_8_bits_are_transposed_gathered_and_cut_bit_by_bit(target: str, kind: str) -> None:
    bits = np.arange(256).reshape(8, 32).astype("uint8")
    with pto.target(target):
        src, dst = pto.Tile("vec", kind, 8, 32), pto.Tile("vec", kind, 32, 32, valid=(32, 8))
        src.buffer.view("uint8")[:] = bits.ravel()
        pto.ttrans(dst, src)
        assert (dst.read().view("uint8") == bits.T).all()
        turned = pto.Tile("vec", kind, 8, 32)
        pto.tgather(turned, src, pto.Tile("vec", "int32", 8, 32).write(255 - np.arange(256).reshape(8, 32)))
        assert (turned.read().view("uint8") == bits[::-1, ::-1]).all()
        window = pto.Tile("vec", kind, 4, 32)
        pto.textract(window, src, 4, 0)
        assert (window.read().view("uint8") == bits[4:]).all()


@pytest.mark.clause("CP-MM-04")
@pytest.mark.parametrize("target", ["cpu", "a5", "host"])
@pytest.mark.parametrize("left", ["float8_e4m3", "float8_e5m2"])
@pytest.mark.parametrize("right", ["float8_e4m3", "float8_e5m2"])
def test_products_of_floats_of_8_bits(target: str, left: str, right: str) -> None:
    """Every format with every format, within the bound on sums in float32."""
    draw = rng(left + right)
    a, b = (draw.standard_normal(s).astype(pto.dtype(k).numpy) for k, s in ((left, (9, 50)), (right, (50, 20))))
    with pto.target(target):
        dst = pto.Tile("acc", "float32", 16, 32, valid=(9, 20))
        x, y = pto.Tile("left", left, 16, 64, valid=(9, 50)), pto.Tile("right", right, 64, 32, valid=(50, 20))
        pto.tmatmul(dst, x.write(a), y.write(b))
    wide = a.astype("float64"), b.astype("float64")
    bound = 50 * 2.0**-23 * (np.abs(wide[0]) @ np.abs(wide[1]))
    assert (np.abs(dst.read() - wide[0] @ wide[1]) <= bound).all()


INDEX = {
    "cpu": ["int16", "uint16", "int32", "uint32"],
    "a2a3": ["int32", "uint32"],
    "a5": ["uint16", "int32"],
    "host": ["int64"],
}


@pytest.mark.parametrize(("target", "name", "kind"), cases("tgather"))
def test_gathering(target: str, name: str, kind: str) -> None:
    a = sample(kind, (5, 32), rng(kind))
    numbers = rng(kind, 1).integers(0, 160, VALID)
    with pto.target(target):
        for index in INDEX[target]:
            if target == "a5" and pto.dtype(kind).size == 8 and pto.dtype(index).size != 4:
                continue
            dst = tile(kind)
            pto.tgather(dst, tile(kind, valid=(5, 32), data=a), tile(index, data=numbers))
            expect(dst, lambda i, j: plain(a[numbers[i, j] // 32, numbers[i, j] % 32]))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("bad", [160, -1, 2**31 - 1])
def test_gathering_outside_is_refused(target: str, bad: int) -> None:
    with pto.target(target):
        dst, idx = tile("float32"), tile("int32", data=0)
        idx.buffer[33] = bad
        before = dst.buffer.copy()
        with pytest.raises(pto.OutOfBoundsError, match=rf"idx\[1, 1\] = {bad}"):
            pto.tgather(dst, tile("float32", valid=(5, 32), data=1), idx)
        assert (dst.buffer.view("uint32") == before.view("uint32")).all()


@pytest.mark.clause("CP-GAT-03")
def test_gathering_into_the_source_is_noted() -> None:
    """Lanes take effect in row-major order; hardware promises none."""
    both = pto.Tile("vec", "int32", 4, 8).write(np.arange(32).reshape(4, 8))
    event = pto.tgather(both, both, pto.Tile("vec", "int32", 4, 8).write((np.arange(32).reshape(4, 8) + 1) % 32))
    assert both.read().ravel().tolist() == [*range(1, 32), 1]
    assert [(finding.level, finding.rule) for finding in event.findings] == [("note", "CP-GAT-03")]


def test_gathering_padding_is_a_hazard() -> None:
    with pytest.warns(pto.HazardWarning, match="names padding"):
        pto.tgather(tile("float32"), tile("float32", data=1), tile("int32", data=25))


ONE = 1 << 160


def whole_numbers(matrix: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Its elements as whole numbers, `ONE` times as great: no bit of a float32 is lost."""
    return np.array([[int(Fraction(plain(value)) * ONE) for value in row] for row in matrix], object)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32", "int8"])
@pytest.mark.parametrize(("m", "k", "n"), [(1, 1, 1), (3, 19, 5), (16, 32, 32), (33, 70, 40)])
def test_products(target: str, kind: str, m: int, k: int, n: int) -> None:
    to = "int32" if kind == "int8" else "float32"
    numpy, draw = pto.dtype(kind).numpy, rng(kind, m)
    a, b = ((draw.standard_normal(s) * 50).clip(-128, 127).astype(numpy) for s in ((m, k), (k, n)))
    c, d = (draw.integers(-9, 9, s).astype(to) for s in ((m, n), (1, n)))

    def up(x: int, step: int) -> int:
        return -(-x // step) * step

    M, K, N = up(m, 16), up(k, 32), up(n, 32)
    with pto.target(target):
        left = pto.Tile("left", kind, M, K, valid=(m, k)).write(a)
        right = pto.Tile("right", kind, K, N, valid=(k, n)).write(b)
        acc = pto.Tile("acc", to, M, N, valid=(m, n)).write(c)
        bias = pto.Tile("bias", to, 1, N, valid=(1, n)).write(d)
        results = []
        for op, given in ((pto.tmatmul, (left, right)), (pto.tmatmul_bias, (left, right, bias)),
                          (pto.tmatmul_acc, (acc, left, right))):  # fmt: skip
            dst = pto.Tile("acc", to, M, N, valid=(m, n))
            op(dst, *given)
            results.append(dst.read())
        pto.tmatmul_acc(acc, acc, left, right)
        assert (acc.read() == results[2]).all()
    products, size = whole_numbers(a) @ whole_numbers(b), abs(whole_numbers(a)) @ abs(whole_numbers(b))
    for found, more in zip(results, (np.zeros((m, n), to), d, c), strict=True):
        extra = whole_numbers(more) * ONE
        slack = 0 if to == "int32" else k * (size + abs(extra))
        assert (abs(whole_numbers(found) * ONE - products - extra) * 2**23 <= slack).all()


def test_integer_accumulation_wraps() -> None:
    left, right = pto.Tile("left", "int8", 16, 32).write(1), pto.Tile("right", "int8", 32, 32).write(1)
    acc = pto.Tile("acc", "int32", 16, 32).write(2**31 - 1)
    pto.tmatmul_acc(acc, acc, left, right)
    assert (acc.read() == -(2**31) + 31).all()


FORMS = {"mat": {"blayout": "col_major", "slayout": "row_major"}}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("src", "dst"), [("mat", "left"), ("mat", "right"), ("acc", "mat"), ("vec", "vec")])
@pytest.mark.parametrize(("row", "col"), [(0, 0), (16, 8), (32, 24)])
def test_windows(target: str, src: str, dst: str, row: int, col: int) -> None:
    data = np.arange(64 * 48, dtype="float32").reshape(64, 48)
    with pto.target(target):
        window = pto.Tile(dst, "float32", 32, 32, valid=(17, 9), **FORMS.get(dst, {}))
        window.storage.bits[:] = 0x5A
        event = pto.textract(window, pto.Tile(src, "float32", 64, 48, **FORMS.get(src, {})).write(data), row, col)
        assert event.route == f"textract.{src}.{dst}"
        expect(window, lambda i, j: float(data[row + i, col + j]))


def test_windows_of_one_signature_do_not_mix() -> None:
    src = pto.Tile("vec", "float32", 8, 16).write(np.arange(128).reshape(8, 16))
    dst = pto.Tile("vec", "float32", 1, 8)
    for row in range(8):
        for col in range(9):
            pto.textract(dst, src, row, col)
            assert dst.read()[0, 0] == 16 * row + col


@pytest.mark.clause("TV-01", "TT-01")
@pytest.mark.parametrize("op", ["tmov", "tinsert", "textract", "tstore"])
@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_numbers_beyond_the_range_leave_an_accumulator_as_infinities(target: str, op: str) -> None:
    """To the nearest: half a step above the greatest number is infinite, and anything less is that number."""
    edges = {
        "float16": {65504: 65504, 65519.996: 65504, 65520: np.inf, 1e30: np.inf, 2049: 2048, 2051: 2052},
        "bfloat16": {3.38953e38: 3.3895314e38, 3.3961775e38: np.inf, 3.4028235e38: np.inf, 257: 256, 259: 260},
    }
    for kind, pairs in edges.items():
        row = [*pairs, *(-number for number in pairs)]
        expected = np.array([[*pairs.values(), *(-number for number in pairs.values())]], "float32")
        with pto.target(target):
            acc = pto.Tile("acc", "float32", 16, 16, valid=(1, len(row))).write(np.array([row], "float32"))
            if op == "tstore":
                found = np.zeros((1, len(row)), pto.dtype(kind).numpy)
                pto.tstore(pto.GlobalTensor(found), acc)
            else:
                boxed = {"blayout": "col_major", "slayout": "row_major"}
                dst = pto.Tile("mat", kind, 16, 16, valid=(1, len(row)), **boxed).write(0)
                getattr(pto, op)(dst, acc, *(() if op == "tmov" else (0, 0)))
                found = dst.read()[:1, : len(row)]
        assert found.astype("float32").tolist() == expected.tolist(), kind


@pytest.mark.clause("TV-01")
@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_an_accumulator_goes_into_storage_whatever_is_valid_there(target: str) -> None:
    """a2a3/TMov.hpp:158, a5/TMov.hpp:762 of the public headers: the source says how much is moved."""
    data = np.arange(1024, dtype="float32").reshape(32, 32) % 100
    with pto.target(target):
        acc = pto.Tile("acc", "float32", 32, 32).write(data)
        part, whole = (
            pto.Tile("mat", "float16", 32, 32, valid=valid, addr=0, **FORMS["mat"]) for valid in ((16, 20), (32, 32))
        )
        pto.tmov(part, acc)
        assert np.array_equal(whole.read(), data)
        with pytest.raises(pto.VerifyError, match="TV-01"):
            pto.tmov(pto.Tile("mat", "float16", 16, 32, **FORMS["mat"]), acc)
