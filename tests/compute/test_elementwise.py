"""Element-wise instructions against exact fractions, on every target and type."""

from __future__ import annotations

import math
import warnings
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ptokit as pto
from tests.compute import exact
from tests.compute.exact import expect, is_float, plain, sample, tile
from tests.compute.tables import TARGETS, cases

VALID = (3, 19)


def rng(*key: object) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(repr(key).encode()))


def data(kind: str, *key: object, divisor: bool = False) -> np.ndarray:
    found = sample(kind, VALID, rng(kind, *key))
    if divisor and not is_float(kind):
        found[found == 0] = 3
    return found


@pytest.mark.parametrize(("target", "name", "kind"), cases(*exact.BINARY))
def test_tile_with_tile(target: str, name: str, kind: str) -> None:
    a, b = data(kind, name, 0), data(kind, name, 1, divisor=name == "tdiv")
    if name in ("tshl", "tshr"):
        b = np.where(rng(name).random(VALID) < 0.7, b % b.dtype.type(9), b)
    with pto.target(target):
        dst, x, y = tile(kind), tile(kind, data=a), tile(kind, data=b)
        getattr(pto, name)(dst, x, y)
        expect(dst, lambda i, j: exact.BINARY[name](plain(a[i, j]), plain(b[i, j]), kind), name)
        if target == "a2a3" and name in ("txor", "tprelu"):
            return  # dst is none of the sources
        getattr(pto, name)(x, x, y)
        assert (x.buffer.view(np.uint8) == dst.buffer.view(np.uint8)).all()
        getattr(pto, name)(y, tile(kind, data=a), y)
        assert (y.buffer.view(np.uint8) == dst.buffer.view(np.uint8)).all()


SCALAR_OF = {"tlrelu" if name == "tprelu" else name + "s": meaning for name, meaning in exact.BINARY.items()}


@pytest.mark.parametrize(("target", "name", "kind"), cases(*SCALAR_OF))
def test_tile_with_scalar(target: str, name: str, kind: str) -> None:
    a = data(kind, name, 0)
    numbers = [1.5, -2.0, math.inf, 0.0, math.nan] if is_float(kind) else [3, 1, exact.bounds(kind)[1]]
    with pto.target(target):
        for number in numbers:
            dst = tile(kind)
            getattr(pto, name)(dst, tile(kind, data=a), number)
            expect(dst, lambda i, j, n=number: SCALAR_OF[name](plain(a[i, j]), n, kind), name)


@pytest.mark.parametrize(("target", "name", "kind"), cases("tdivs"))
def test_scalar_divided_by_tile(target: str, name: str, kind: str) -> None:
    b = data(kind, name, divisor=True)
    with pto.target(target):
        dst = tile(kind)
        pto.tdivs(dst, 7, tile(kind, data=b))
        expect(dst, lambda i, j: exact.div(7.0 if is_float(kind) else 7, plain(b[i, j]), kind))


@pytest.mark.parametrize(("target", "name", "kind"), cases(*exact.UNARY))
def test_one_tile(target: str, name: str, kind: str) -> None:
    a = data(kind, name)
    with pto.target(target):
        dst, src = tile(kind), tile(kind, data=a)
        getattr(pto, name)(dst, src)
        expect(dst, lambda i, j: exact.UNARY[name](plain(a[i, j]), kind), name)
        if (name, target) == ("trecip", "a2a3"):
            with pytest.raises(pto.VerifyError, match="another tile"):
                pto.trecip(src, src)
            return
        getattr(pto, name)(src, src)
        assert (src.buffer.view(np.uint8) == dst.buffer.view(np.uint8)).all()


TRUE = {
    "texp": lambda x: math.exp(x) if x < 709 else math.inf,
    "tlog": lambda x: math.log(x) if x else -math.inf,
    "trsqrt": lambda x: 1 / math.sqrt(x) if x else math.copysign(math.inf, x),
}


@pytest.mark.parametrize(("target", "name", "kind"), cases(*TRUE))
def test_transcendentals_are_within_two_ulp(target: str, name: str, kind: str) -> None:
    a = data(kind, name)
    with pto.target(target):
        dst = tile(kind)
        getattr(pto, name)(dst, tile(kind, data=a))
    got = dst.read()
    for i in range(VALID[0]):
        for j in range(VALID[1]):
            x, y = plain(a[i, j]), plain(got[i, j])
            if math.isnan(x) or (name != "texp" and x < 0):
                assert math.isnan(y)
                continue
            true = TRUE[name](x)
            if not math.isfinite(true) or abs(true) > exact.greatest(kind):
                assert y == math.copysign(math.inf, true)
                continue
            precision, low, _ = exact.FORMATS[kind]
            ulp = 2.0 ** (max(math.frexp(true)[1] - 1, low) - precision + 1) if true else 2.0 ** (low - precision + 1)
            assert abs(y - true) <= 2 * ulp


@pytest.mark.parametrize(("target", "name", "kind"), cases("texpands"))
def test_a_scalar_everywhere(target: str, name: str, kind: str) -> None:
    with pto.target(target):
        dst = tile(kind)
        pto.texpands(dst, 3)
        expect(dst, lambda i, j: 3.0 if is_float(kind) else 3)


@pytest.mark.parametrize(("target", "name", "kind"), cases("tci"))
@pytest.mark.parametrize("descending", [False, True])
def test_counting(target: str, name: str, kind: str, descending: bool) -> None:
    start = 100 if is_float(kind) else exact.bounds(kind)[1] - 2
    with pto.target(target):
        dst = tile(kind, (1, 32), (1, 21))
        pto.tci(dst, start, descending=descending)
        step = -1 if descending else 1
        expect(dst, lambda i, j: exact.add(float(start), float(step * j), kind) if is_float(kind)
               else exact.wrap(start + step * j, kind))  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
def test_made_nans_are_canonical(target: str) -> None:
    inf = tile("float32", data=np.full(VALID, np.inf, "float32"))
    with pto.target(target):
        dst = tile("float32")
        pto.tsub(dst, inf, inf)
        assert set(dst.read().view("uint32").ravel().tolist()) == {0x7FC00000}
        odd = tile("float32")
        odd.storage.bits[:] = 0xFFC12345
        pto.tadds(dst, odd, 1)
        assert set(dst.read().view("uint32").ravel().tolist()) == {0x7FC00000}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", ["int16", "int32"])
def test_integer_division_by_zero_is_refused_and_writes_nothing(target: str, kind: str) -> None:
    with pto.target(target):
        dst, zero = tile(kind), tile(kind, data=np.arange(57).reshape(VALID) - 20)
        before = dst.buffer.copy()
        for given in ((dst, zero, 0), (dst, 5, zero)):
            with pytest.raises(pto.VerifyError, match="division by zero") as refusal:
                pto.tdivs(*given)
            (finding,) = refusal.value.findings
            assert finding.rule == "CP-DIV-01" and finding.level == "error" and finding.where is not None
            assert (dst.buffer == before).all()


def test_the_message_names_the_lane() -> None:
    zero = tile("int32", data=np.ones(VALID, "int32"))
    zero.buffer[32 + 4] = 0
    with pytest.raises(pto.VerifyError, match=r"src1\[1, 4\] is zero"):
        pto.tdiv(tile("int32"), tile("int32", data=np.ones(VALID, "int32")), zero)


@pytest.mark.parametrize(
    ("kind", "number"),
    [("int8", 128), ("int8", -129), ("uint8", -1), ("int32", 1.5), ("int32", math.nan), ("int16", math.inf),
     ("float16", 65520.0), ("float32", 1e39)],
)  # fmt: skip
def test_scalars_that_do_not_fit(kind: str, number: float) -> None:
    with pytest.raises(ValueError, match=f"not representable in {kind}"):
        pto.tadds(tile(kind), tile(kind, data=1), number)


@pytest.mark.parametrize("number", ["3", None, [1, 2], np.zeros(2), 1j])
def test_scalars_that_are_no_numbers(number: object) -> None:
    for kind in ("int32", "float32"):
        with pytest.raises((TypeError, ValueError)):
            pto.tadds(tile(kind), tile(kind, data=1), number)  # type: ignore[arg-type]


@given(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(["float16", "bfloat16", "float32"]))
@settings(max_examples=300)
def test_float_scalars_are_rounded_once(number: float, kind: str) -> None:
    expected = exact.nearest(exact.Fraction(number), kind, number)
    dst = pto.Tile("vec", kind, 1, 16, valid=(1, 1))
    if math.isinf(expected):
        with pytest.raises(ValueError, match="infinite"):
            pto.texpands(dst, number)
    else:
        pto.texpands(dst, number)
        assert exact.same(dst.read()[0, 0], expected)


def test_tdivs_wants_one_tile() -> None:
    with pytest.raises(TypeError, match="a tile and a number"):
        pto.tdivs(tile("float32"), 1, 2)


def test_a_tile_at_an_address_may_be_worked_on_in_place() -> None:
    for target in ("cpu", "a2a3", "a5"):
        with pto.target(target), warnings.catch_warnings():
            warnings.simplefilter("error")
            here = pto.Tile("vec", "int16", 2, 16, addr=0x100).write(5)
            pto.tadd(here, here, here)
            pto.tadds(here, here, 1)
            assert (here.read() == 11).all()
            across = pto.Tile("vec", "int16", 2, 16, addr=0x120)
            with pytest.raises(pto.VerifyError, match="apart from"):
                pto.tadd(across, here, here)


def test_a2a3_takes_no_bitwise_scalar_in_place() -> None:
    for target, accepted in (("a2a3", False), ("a5", True)):
        with pto.target(target):
            here = pto.Tile("vec", "int16", 2, 16, addr=0x100).write(5)
            if accepted:
                pto.tands(here, here, 4)
            else:
                with pytest.raises(pto.VerifyError, match="apart from"):
                    pto.tands(here, here, 4)


@pytest.mark.parametrize("target", ["cpu", "a2a3", "a5"])
@pytest.mark.parametrize("engine", ["reference", "native", "machine"])
def test_a_tile_in_ub_may_be_moved_onto_itself(target: str, engine: str) -> None:
    @pto.kernel
    def kernel(x, out):
        tile = pto.Tile("vec", x.dtype, 8, 16)
        pto.tload(tile, x)
        pto.tmov(tile, tile)
        pto.tstore(out, tile)

    x, out = np.arange(128, dtype="float32").reshape(8, 16), np.zeros((8, 16), "float32")
    report = kernel[1](x, out, target=target, engine=engine)
    assert (out == x).all() and not getattr(report, "hazards", ())
