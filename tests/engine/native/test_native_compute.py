"""Computations as machine code give the bits of the reference: every operation, type, layout, odd value."""

from __future__ import annotations

import zlib
from itertools import product

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from ptokit.engine.compute import OPS
from ptokit.engine.llvm.compute import operations as compute
from ptokit.engine.llvm.emit import CPU
from ptokit.isa.dtype import dtype
from ptokit.isa.layout import Layout, Term
from ptokit.isa.move import Access, Compute, Input
from ptokit.isa.policy import CmpMode, IotaOrder, RoundMode, Saturation, Triangle
from tests.engine.native.computing import LAYOUTS, REDUCTIONS, Case, Compiled, Region, check
from tests.loops import FULL, all_pairs

INTS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
WIDE = ["float16", "bfloat16", "float32", "float64"]
FLOATS = ["float8_e4m3", "float8_e5m2", *WIDE]
NUMBERS = [*INTS, *FLOATS]
ALL = [*NUMBERS, "bool"]
UNARY = {
    "abs": NUMBERS, "neg": NUMBERS, "sqrt": FLOATS, "recip": FLOATS, "exp": FLOATS, "log": FLOATS, "rsqrt": FLOATS,
    "relu": NUMBERS, "not": INTS,
}  # fmt: skip
BINARY = {
    "add": ALL, "sub": NUMBERS, "mul": ALL, "div": NUMBERS, "max": ALL, "min": ALL,
    "and": [*INTS, "bool"], "or": [*INTS, "bool"], "xor": [*INTS, "bool"],
    "prelu": FLOATS, "shl": INTS, "shr": INTS,
}  # fmt: skip
LIBRARY = ("exp", "log")
"""Whose last bit may differ."""


def rng(*key: object) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(repr(key).encode()))


def odd_values(kind: str) -> np.ndarray:
    """Zeroes, ones, extremes, denormals, infinities and NaNs with payloads, if a type has them."""
    numpy = dtype(kind).numpy
    if kind == "bool":
        return np.array([False, True])
    if kind in INTS:
        low, high = np.iinfo(numpy).min, np.iinfo(numpy).max
        edges = [0, 1, 2, 3, 7, 8, 15, 16, 31, 32, 63, 64, low, low + 1, high, high - 1, high // 2]
        return np.array([e for e in edges if e <= high], numpy)
    size = 8 * numpy.itemsize
    fraction = {"float16": 10, "bfloat16": 7, "float8_e4m3": 3, "float8_e5m2": 2, "float32": 23, "float64": 52}[kind]
    top = (1 << (size - 1)) - (1 << fraction)
    codes = [0, 1, 2, (1 << fraction) - 1, 1 << fraction, top - 1, top, top + 1, top | (1 << (fraction - 1))]
    signed = [c | s for c in codes for s in (0, 1 << (size - 1))]
    with np.errstate(all="ignore"):
        tame = np.array([1, -1, 2, 3, 0.5, -0.5, 1.5, 2.5, 255.5, -128.5, 65504, 448, 464, 57344]).astype(numpy)
    return np.concatenate([np.array(signed, f"u{numpy.itemsize}").view(numpy), tame])


def sample(kind: str, shape: tuple[int, int], *key: object) -> np.ndarray:
    """Random bits, ordinary numbers and special ones, mixed."""
    numpy, count, random = dtype(kind).numpy, shape[0] * shape[1], rng(kind, shape, key)
    if kind == "bool":
        return random.integers(0, 2, shape).astype(bool)
    noise = random.integers(0, 256, count * numpy.itemsize, np.uint8).view(numpy)
    tame = (random.standard_normal(count) * 5).astype(np.int64 if kind in INTS else np.float64).astype(numpy)
    odd = random.choice(odd_values(kind), count)
    choice = random.integers(0, 3, count)
    return np.where(choice == 0, noise, np.where(choice == 1, tame, odd)).astype(numpy).reshape(shape)


def sampled(case: Case) -> list[np.ndarray]:
    return [sample(each.kind, each.shape, k) for k, each in enumerate(case.inputs)]


def every(kind: str) -> np.ndarray:
    """All values of a narrow type, many of a wide one."""
    size = dtype(kind).size
    if size > 2:
        return sample(kind, (64, 257))
    return np.arange(1 << 8 * size, dtype=f"u{size}").view(dtype(kind).numpy).reshape(1 << 4 * size, -1)


def same(kind: str, shape: tuple[int, int], op: str, count: int, layout: str = "plain", **more: object) -> Case:
    """A case whose operands are all alike."""
    region = Region(kind, shape, layout)
    return Case(op, region, (region,) * count, **more)  # type: ignore[arg-type]


# --- elements


@pytest.mark.parametrize("kind", NUMBERS)
def test_one_operand_with_every_value(kind: str) -> None:
    given = every(kind)
    exact = [op for op, kinds in UNARY.items() if kind in kinds and op not in LIBRARY]
    check([same(kind, given.shape, op, 1) for op in exact], lambda case: [given])


@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("op", LIBRARY)
def test_library_functions_are_within_two_ulp(op: str, kind: str) -> None:
    given = every(kind)
    case = same(kind, given.shape, op, 1)
    found, expected = Compiled([case]).run(0, [given]), case.reference([given])
    assert found is not None
    signed = f"i{dtype(kind).size}"
    apart = np.abs(found.view(signed).astype(object) - expected.view(signed).astype(object))
    assert apart.max() <= 2
    assert kind == "float64" or (apart != 0).mean() < 0.01  # float64 itself is left to the C library
    numbers = expected.view(dtype(kind).numpy)
    odd = ~np.isfinite(numbers) | (numbers == 0)
    assert (found[odd] == expected[odd]).all()


@pytest.mark.parametrize("kind", ALL)
def test_two_operands(kind: str) -> None:
    ops = [op for op, kinds in BINARY.items() if kind in kinds]
    odd = odd_values(kind)
    pairs = [np.repeat(odd, odd.size)[None], np.tile(odd, odd.size)[None]]
    check([same(kind, pairs[0].shape, op, 2) for op in ops if op != "div" or kind not in INTS], lambda case: pairs)
    check([same(kind, (50, 77), op, 2) for op in ops if op != "div" or kind not in INTS], sampled)


@pytest.mark.parametrize("kind", ["float8_e4m3", "float8_e5m2", "int8", "uint8"])
def test_two_operands_of_one_byte_with_every_pair(kind: str) -> None:
    bytes_ = np.arange(256, dtype=np.uint8).view(dtype(kind).numpy)
    pairs = [np.repeat(bytes_, 256).reshape(256, 256), np.tile(bytes_, 256).reshape(256, 256)]
    ops = [op for op, kinds in BINARY.items() if kind in kinds and (op != "div" or kind not in INTS)]
    check([same(kind, (256, 256), op, 2) for op in ops], lambda case: pairs)


@pytest.mark.parametrize("kind", INTS)
def test_whole_numbers_are_divided_towards_zero(kind: str) -> None:
    odd = odd_values(kind)
    dividends, divisors = np.repeat(odd, odd.size)[None], np.tile(odd, odd.size)[None]
    keep = divisors[0] != 0
    given = [dividends[:, keep], divisors[:, keep]]
    check([same(kind, given[0].shape, "div", 2)], lambda case: given)
    random = sample(kind, (21, 50), 1)
    random[random == 0] = 1
    check([same(kind, (21, 50), "div", 2)], lambda case: [sample(kind, (21, 50), 0), random])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", ["int8", "uint16", "int32", "int64"])
def test_a_zero_divisor_anywhere_is_refused_before_anything_is_written(kind: str, layout: str) -> None:
    shape = (5, 70)
    compiled = Compiled([same(kind, shape, "div", 2, layout), same(kind, shape, "div", 2, layout, of_run=True)])
    dividend = sample(kind, shape)
    for at in ((0, 0), (2, 33), (4, 69)):
        divisor = np.full(shape, 3, dtype(kind).numpy)
        for k in range(2):
            assert compiled.run(k, [dividend, divisor]) is not None
        divisor[at] = 0
        for k in range(2):
            assert compiled.run(k, [dividend, divisor]) is None


def test_a_zero_scalar_or_column_is_refused() -> None:
    whole, shapes = Region("int32", (6, 40)), [(1, 1), (6, 1), (1, 40)]
    compiled = Compiled([Case("div", whole, (whole, Region("int32", shape))) for shape in shapes])
    for k, shape in enumerate(shapes):
        divisor = np.full(shape, -7, np.int32)
        assert compiled.run(k, [sample("int32", (6, 40)), divisor]) is not None
        divisor[-1, -1] = 0
        assert compiled.run(k, [sample("int32", (6, 40)), divisor]) is None


# --- layouts and extents


SHAPES = all_pairs(LAYOUTS, LAYOUTS, [(1, 67), (17, 1), (20, 33)], one_in=3)


@pytest.mark.parametrize(("first", "second"), list(product(LAYOUTS, repeat=2)))
def test_every_layout_with_every_other(first: str, second: str) -> None:
    shapes = [shape for *layouts, shape in SHAPES if layouts == [first, second]]
    cases = [
        Case("sub", Region(kind, shape, first), (Region(kind, shape, second), Region(kind, shape)), of_run=of_run)
        for shape, kind, of_run in product(shapes, ("float32", "int8"), (False, True))
    ]
    check(cases, sampled)


@pytest.mark.parametrize("of_run", [False, True])
@pytest.mark.parametrize("kind", ["int16", "float16", "float64"])
def test_extents_of_one_repeat(kind: str, of_run: bool) -> None:
    shape = (11, 37)
    parts = [(1, 1), (11, 1), (1, 37), shape]
    cases = [
        Case("sub", Region(kind, shape, out), (Region(kind, a), Region(kind, b, layout)), of_run=of_run)
        for a, b, layout, out in all_pairs(parts, parts, ("plain", "columns", "nz"), ("plain", "columns"), one_in=3)
    ]
    check(cases, sampled)


def test_a_block_repeats_along_its_row() -> None:
    block = Region("float32", (6, 45), Layout((Term(8),), (Term(1, 1, 8),)))
    given = [sample("float32", (6, 45)), np.tile(sample("float32", (6, 8)), 6)[:, :45]]
    check([Case("mul", Region("float32", (6, 45)), (Region("float32", (6, 45)), block))], lambda case: given)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", ["int8", "float16", "float32", "uint64"])
def test_a_result_may_take_the_place_of_an_input(kind: str, layout: str) -> None:
    region = Region(kind, (13, 41), layout)
    cases = [
        *(Case("add", region, (region, region), in_place=k) for k in (0, 1)),
        Case("neg", region, (region,), in_place=0),
        Case("sub", region, (region, Region(kind, (1, 1))), in_place=0),
        Case("sub", region, (Region(kind, (13, 1)), region), in_place=1),
        *(Case("sel", region, (Region("uint8", (13, 6)), region, region), in_place=k) for k in (1, 2)),
    ]
    check(cases, sampled)


@pytest.mark.parametrize("kind", ["uint8", "uint32"])
def test_a_selection_may_overwrite_its_own_mask(kind: str) -> None:
    region = Region(kind, (5, 83))
    check([Case("sel", region, (region, region, Region(kind, (1, 1))), in_place=0)], sampled)


# --- copies, counts


COPIED = all_pairs(LAYOUTS, LAYOUTS, ["float16", "hifloat8", "int64"], one_in=3)


@pytest.mark.parametrize(("first", "second"), list(product(LAYOUTS, repeat=2)))
def test_copies_and_transpositions_keep_bits(first: str, second: str) -> None:
    cases = []
    for kind, of_run in product([kind for *layouts, kind in COPIED if layouts == [first, second]], (False, True)):
        dst = Region(kind, (19, 35), first)
        source = LAYOUTS[second](35, 19)
        cases.append(Case("copy", dst, (Region(kind, (19, 35), second),), of_run=of_run))
        cases.append(Case("copy", dst, (Region(kind, (19, 35), Layout(source.cols, source.rows)),), of_run=of_run))
        cases.append(Case("copy", dst, (Region(kind, (1, 1)),), of_run=of_run))
    check(cases, lambda case: [bits(each.kind, each.shape) for each in case.inputs])


def bits(kind: str, shape: tuple[int, int]) -> np.ndarray:
    """Random bits of a type."""
    numpy = dtype(kind).numpy
    found = rng(kind, shape).integers(0, 2 if kind == "bool" else 256, (shape[0], shape[1] * numpy.itemsize), np.uint8)
    return found.view(numpy)


@pytest.mark.parametrize("of_run", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_windows(layout: str, of_run: bool) -> None:
    cases = [
        Case("window", Region(kind, (17, 24), out), (Region(kind, (48, 64), layout),), {"row": r, "col": c}, of_run)
        for kind, out, (r, c) in all_pairs(
            ["int8", "float16", "float32"], ("plain", "nz", "zn"), [(0, 0), (16, 16), (3, 5), (31, 40)], one_in=3
        )
    ]
    check(cases, sampled)


@pytest.mark.parametrize("kind", NUMBERS)
def test_counting(kind: str) -> None:
    starts = odd_values(kind)
    case = [
        Case("iota", Region(kind, (1, 300), layout), (Region(kind, (1, 1)),), {"order": order}, of_run)
        for layout, order, of_run in product(("plain", "columns"), IotaOrder, (False, True))
    ]
    for start in (starts[0], starts[3], starts[-1], starts[-2]):
        check(case, lambda case, start=start: [np.array([[start]])])


# --- conversions


@pytest.mark.parametrize("kind", INTS)
def test_whole_numbers_convert(kind: str) -> None:
    given = every(kind)
    cases = [
        convert(kind, to, given.shape, RoundMode.Rint, saturation)
        for to, saturation in product([*INTS, *WIDE], Saturation)
    ]
    check(cases, lambda case: [given])


@pytest.mark.parametrize("kind", FLOATS)
def test_floats_convert_to_floats(kind: str) -> None:
    given = every(kind)
    given = np.concatenate([given, boundaries(kind, given.shape[1])])
    modes = {to: list(RoundMode) if to == kind else [RoundMode.Rint] for to in FLOATS}
    cases = [
        convert(kind, to, given.shape, mode, saturation)
        for to, saturation in product(FLOATS, Saturation)
        for mode in modes[to]
    ]
    check(cases, lambda case: [given])


@pytest.mark.parametrize("kind", FLOATS)
def test_floats_convert_to_whole_numbers(kind: str) -> None:
    given = every(kind)
    given = np.concatenate([given, boundaries(kind, given.shape[1])])
    ways = all_pairs(INTS, RoundMode, Saturation, one_in=2)
    check([convert(kind, to, given.shape, *how) for to, *how in ways], lambda case: [given])


def convert(kind: str, to: str, shape: tuple[int, int], mode: RoundMode, saturation: Saturation) -> Case:
    return Case("cvt", Region(to, shape), (Region(kind, shape),), {"mode": mode, "saturation": saturation})


def boundaries(kind: str, width: int) -> np.ndarray:
    """Numbers around powers of two and halves between them, in rows of some width: where roundings change."""
    powers = 2.0 ** np.arange(-30, 80)
    steps = np.array([0, 0.5, -0.5, 1, -1, 0.25, 1.5, 2.0**-12, 2.0**-9, 2.0**-4])
    near = (powers[:, None] + steps).ravel()
    ties = (powers[:, None] * (1 + np.array([2.0**-k for k in (3, 4, 8, 9, 11, 12, 24, 25)]))).ravel()
    numbers = np.concatenate([near, ties, np.nextafter(ties, 0), np.nextafter(ties, np.inf)])
    with np.errstate(all="ignore"):
        found = np.concatenate([numbers, -numbers]).astype(dtype(kind).numpy)
    return np.resize(found, (-(-found.size // width), width))


# --- masks


@pytest.mark.parametrize("kind", ALL)
def test_comparisons(kind: str) -> None:
    data = Region(kind, (17, 100))
    cases = [
        Case("cmp", Region("uint8", (17, 14)), (data, Region(kind, other)), {"mode": mode})
        for mode, other in product(CmpMode, [(17, 100), (1, 1)])
    ]
    check(cases, lambda case: with_ties(sampled(case)))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("mask", ["uint8", "uint32"])
def test_comparisons_fill_masks(mask: str, layout: str) -> None:
    cases = [
        Case("cmp", Region(mask, (7, words), out), (Region(kind, (7, cols)), Region(kind, (7, cols), layout)),
             {"mode": CmpMode.LT}, of_run=of_run)
        for kind, out, (cols, words), of_run in all_pairs(
            ("float16", "int32"), ("padded", "columns"), [(1, 1), (8, 3), (45, 9), (64, 8)], (False, True), one_in=2)
    ]  # fmt: skip
    check(cases, lambda case: with_ties(sampled(case)))


def with_ties(given: list[np.ndarray]) -> list[np.ndarray]:
    """Make every third element of the second the first's, where they are alike."""
    first, second = given
    if first.shape == second.shape:
        second = np.where(rng(first.shape).random(first.shape) < 0.3, first, second)
    return [first, second]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", ["int8", "float16", "float32", "float64", "bool", "float8_e5m2"])
def test_selections_keep_bits(kind: str, layout: str) -> None:
    cases = []
    for mask, (cols, words), of_run in all_pairs(("uint8", "uint32"), [(24, 3), (45, 9)], (False, True), one_in=2):
        whole, masks = Region(kind, (7, cols), layout), Region(mask, (7, words), "padded")
        cases.append(Case("sel", whole, (masks, Region(kind, (7, cols)), whole), of_run=of_run))
    cases.append(Case("sel", whole, (masks, whole, Region(kind, (1, 1)))))
    check(cases, lambda case: [bits(each.kind, each.shape) for each in case.inputs])


# --- rows


@pytest.mark.parametrize("kind", ALL)
def test_rows(kind: str) -> None:
    ops = ("rowsum", "rowmax", "rowmin", "rowprod")
    forms = [((1, 90), "plain", "plain"), ((4, 8), "plain", "columns"), ((9, 33), "nz", "columns"),
             ((131, 1), "columns", "padded")]  # fmt: skip
    cases = [
        Case(op, Region(kind, (shape[0], 1), out), (Region(kind, shape, layout),), of_run=of_run)
        for op, (shape, layout, out), of_run in all_pairs(ops, forms, (False, True), one_in=2)
    ]
    check(cases, sampled)
    check(cases, tame)


@pytest.mark.parametrize("kind", ALL)
def test_columns(kind: str) -> None:
    ops = ("colsum", "colmax", "colmin", "colprod")
    forms = [((90, 1), "plain", "plain"), ((8, 4), "plain", "columns"), ((33, 9), "nz", "columns"),
             ((1, 131), "columns", "padded"), ((7, 64), "padded", "plain")]  # fmt: skip
    cases = [
        Case(op, Region(kind, (1, shape[1]), out), (Region(kind, shape, layout),), of_run=of_run)
        for op, (shape, layout, out), of_run in all_pairs(ops, forms, (False, True), one_in=2)
    ]
    check(cases, sampled)
    check(cases, tame)


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("op", ["rowargmax", "rowargmin", "colargmax", "colargmin"])
def test_positions(op: str, kind: str) -> None:
    by_row = op.startswith("row")
    cases = [
        Case(op, Region(into, (shape[0], 1) if by_row else (1, shape[1]), "padded"), (Region(kind, shape, layout),))
        for shape, into, layout in (((9, 33), "int32", "plain"), ((6, 5), "uint32", "columns"), ((1, 1), "int32", "nz"))
    ]
    check(cases, sampled)


@pytest.mark.parametrize(("into", "kind"), [*((kind, kind) for kind in FLOATS), ("float32", "float16")])
def test_multiples_are_added_in_the_type_of_the_result(into: str, kind: str) -> None:
    shape = (7, 35)
    for factor in (shape, (1, 1)):
        regions = Region(into, shape), Region(kind, shape, "padded"), Region(kind, factor)
        check([Case("axpy", regions[0], regions)], sampled)


@pytest.mark.parametrize("kind", NUMBERS)
def test_triangles(kind: str) -> None:
    diagonal, cases = Region("int32", (1, 1)), []
    for shape, layout, half in product([(5, 9), (8, 3)], ["padded", "columns"], Triangle):
        cases.append(Case("tri", Region(kind, shape, layout), (diagonal,), {"half": half}))
    for number in (-20, -2, 0, 1, 9):
        check(cases, lambda _, number=number: [np.array([[number]], np.int32)])


def tame(case: Case) -> list[np.ndarray]:
    """Numbers whose sums round at every step."""
    return [tame_one(each, k) for k, each in enumerate(case.inputs)]


def tame_one(region: Region, key: int) -> np.ndarray:
    found = rng(region.shape, key).normal(0, 3, region.shape)
    return (found if region.kind in FLOATS else np.abs(found) * 9).astype(region.dtype.numpy)


# --- the cube

BOXES = {"int8": 32, "float16": 16, "bfloat16": 16, "float32": 8}


def cube(kind: str, m: int, n: int, k: int, *addends: Region, of_run: bool = False, form: str = "nz") -> Case:
    c0, into = BOXES[kind], "int32" if kind == "int8" else "float32"
    if form == "plain":
        return Case(
            "matmul", Region(into, (m, n)), (Region(kind, (m, k)), Region(kind, (k, n)), *addends), of_run=of_run
        )
    left = Layout.boxed(m, k, (16, c0), boxes_by_row=form == "zz", inner_by_row=True)
    right = Layout.boxed(k, n, (c0, 16), boxes_by_row=True, inner_by_row=False)
    out = Layout.boxed(m, n, (16, 16), boxes_by_row=False, inner_by_row=True)
    inputs = (Region(kind, (m, k), left), Region(kind, (k, n), right), *addends)
    return Case("matmul", Region(into, (m, n), out), inputs, of_run=of_run)


EXTENTS = [(1, 1, 1), (16, 16, 16), (16, 16, 32), (5, 7, 9), (33, 18, 40), (4, 2, 64), (1, 50, 3), (20, 1, 31)]


@pytest.mark.parametrize("form", ["nz", "zz", "plain"])
@pytest.mark.parametrize("kind", BOXES)
def test_products(kind: str, form: str) -> None:
    into = "int32" if kind == "int8" else "float32"
    addends = {(33, 18, 40): [(), (Region(into, (33, 18), "columns"),), (Region(into, (1, 18)),)]}
    cases = [
        cube(kind, m, n, k, *more, of_run=of_run, form=form)
        for turn, (m, n, k) in enumerate(EXTENTS)
        for of_run in ((False, True) if FULL else (turn % 2 == 0,))
        for more in addends.get((m, n, k), [()])
    ]
    compiled = Compiled(cases)
    for at, case in enumerate(cases):
        given = [bits(each.kind, each.shape) for each in case.inputs] if kind == "int8" else tame(case)
        found = compiled.run(at, given)
        assert found is not None
        if kind == "int8":
            assert (found == case.reference(given)).all(), case
        else:
            assert_close(case, given, found.view(np.float32))


def assert_close(case: Case, given: list[np.ndarray], found: np.ndarray) -> None:
    """Within the bound that decisions allow, around the exact sum; each addend may be rounded one more time."""
    a, b, *more = (each.astype(np.float64) for each in given)
    expected, size = a @ b + sum(more), np.abs(a) @ np.abs(b) + sum(map(np.abs, more))
    assert (np.abs(found - expected) <= (a.shape[1] + len(more)) * 2.0**-23 * size).all(), case


def test_a_product_of_what_is_no_number_is_the_canonical_one() -> None:
    case = cube("float32", 16, 16, 16)
    a, b = np.ones((16, 16), np.float32), np.ones((16, 16), np.float32)
    a.view(np.uint32)[3, 5], b[2, 7], a[9, 2] = 0xFFC12345, np.inf, 0.0
    found = Compiled([case]).run(0, [a, b])
    assert found is not None
    assert (found[3] == 0x7FC00000).all() and found[9, 7] == 0x7FC00000
    assert (found == case.reference([a, b])).all()


def test_an_addend_may_be_the_result() -> None:
    case = cube("float32", 33, 18, 40)
    case = Case("matmul", case.dst, (*case.inputs, case.dst), in_place=2)
    given = tame(case)
    found = Compiled([case]).run(0, given)
    assert found is not None
    assert_close(case, given, found.view(np.float32))


# --- what there is


INTERPRETED = {
    "sort32", "merge", "quant", "rem", "fmod", "pow", "fixpipe", "matmul_mx", "unspecified", "axpyrelu", "subrelu",
    "addreluconv", "subreluconv", "adddeqrelu", "placemax", "placemin", "histogram", "img2col",
    "addc", "subc", "powers_ocp", "powers_nv", "scaled_ocp", "scaled_nv",
}  # fmt: skip
"""Operations that are left to the interpreter."""


def test_every_operation_is_there() -> None:
    assert set(compute.OPERATIONS) == set(OPS) - INTERPRETED


@pytest.mark.parametrize(
    ("op", "into", "given"),
    [
        ("add", "complex64", ("complex64", "complex64")),
        ("add", "float32", ("float32", "float16")),
        ("sub", "bool", ("bool", "bool")),
        ("exp", "int32", ("int32",)),
        ("and", "float32", ("float32", "float32")),
        ("shl", "bool", ("bool", "bool")),
        ("cvt", "bool", ("int32",)),
        ("cvt", "hifloat8", ("float32",)),
        ("cvt", "float8_e4m3", ("int32",)),
        ("matmul", "float16", ("float16", "float16")),
        ("copy", "complex128", ("complex128",)),
        ("nothing", "int8", ("int8",)),
    ],
)
def test_what_there_is_no_code_for_is_said(op: str, into: str, given: tuple[str, ...]) -> None:
    layout = Layout.plain(4, 1)
    work = Compute(op, (4, 4), Access("dst", layout), tuple(Input(f"in{k}", layout, (4, 4)) for k in range(len(given))))
    types = {"dst": dtype(into), **{f"in{k}": dtype(kind) for k, kind in enumerate(given)}}
    assert not compute.supports(work, types)


def test_lanes_that_need_others_may_not_be_replaced() -> None:
    layout = Layout.plain(4, 1)
    for op in compute.OPERATIONS:
        work = Compute(op, (4, 4), Access("dst", layout), ())
        assert compute.is_lanewise(work, CPU) is (op not in {"cmp", "window", "tri", *REDUCTIONS, "matmul"})
