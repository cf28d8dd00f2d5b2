"""A launch with new lengths of its arrays: the outcome of a warm kernel is that of a new one, without a trace."""

from __future__ import annotations

import os
import re
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import ptokit as pto
from ptokit.engine.kept import recall, remember
from ptokit.engine.llvm import compiled
from ptokit.isa.dtype import dtype
from ptokit.lang.kernel import Kernel
from ptokit.program.expr import ExtentVar, Var
from ptokit.program.instr_calls import tensor_spec
from ptokit.program.ir import Argument, View
from ptokit.program.symbolic import Lengths
from tests import snippet
from tests.examples.test_gallery import GALLERY
from tests.lang.random_kernels import random_kernel
from tests.loops import FULL

TIMES = int(os.environ.get("PTOKIT_FUZZ", "1"))
ENGINES = ("reference", "native")


def on_engines(cases: Iterable[Any]) -> list[tuple[Any, str]]:
    """Each case on one engine, by turns; in `make fuzz` on both."""
    return [(case, engine) for k, case in enumerate(cases) for engine in (ENGINES if FULL else ENGINES[k % 2 :][:1])]


Given = dict[str, Any]
NZ = {"blayout": "col_major", "slayout": "row_major"}


def outcome(kernel: Any, given: Given, grid: int, **options: Any) -> tuple[Any, ...]:
    """All that a launch does: bits, findings, warnings, errors. The arrays are copied."""
    arrays = {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in given.items()}
    found: Any = None
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        try:
            run = kernel[grid](**arrays, **options)
            found = run.engine, [vars(finding) for finding in run.findings]
        except Exception as problem:
            found = type(problem), str(problem), [vars(each) for each in getattr(problem, "findings", ())]
    bits = {name: value.tobytes() for name, value in arrays.items() if isinstance(value, np.ndarray)}
    return repr(found), [str(each.message) for each in shown], bits


def fresh(kernel: Any) -> Any:
    """The same kernel without anything cached."""
    return Kernel(kernel.function, kernel.mode)


def compare(kernel: Any, launches: list[tuple[Given, int, dict[str, Any]]]) -> None:
    """Compare a warm kernel with new ones."""
    warm = fresh(kernel)
    for nth, (given, grid, options) in enumerate(launches):
        shapes = {name: value.shape for name, value in given.items() if isinstance(value, np.ndarray)}
        wanted, found = outcome(fresh(kernel), given, grid, **options), outcome(warm, given, grid, **options)
        assert found == wanted, (nth, shapes, grid, options)


@contextmanager
def counted() -> Iterator[dict[str, int]]:
    """Count traces and compilations."""
    counts = {"traces": 0, "compilations": 0}

    def counting(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            counts[name] += 1
            return function(*args, **options)

        return call

    built = compiled.CodeCache.get
    with (
        patch.object(Kernel, "_trace", counting("traces", Kernel._trace)),
        patch.object(compiled.CodeCache, "get", counting("compilations", built)),
    ):
        yield counts


@pto.kernel
def lookup(table, tokens, out, rows: pto.const = 32):
    width = table.shape[1]
    for k in pto.range(pto.cdiv(tokens.shape[0], rows), buffers=2):
        first = k * rows
        n = pto.min(rows, tokens.shape[0] - first)
        ids = pto.Tile("vec", tokens.dtype, 1, rows, valid=(1, n))
        vectors = pto.Tile("vec", table.dtype, rows, width, valid=(n, width))
        pto.tload(ids, tokens[first : first + n])
        pto.mgather(vectors, table, ids, oob="zero")
        pto.tstore(out[first : first + n], vectors)


def lookup_case(count: int, rows: int = 1000, width: int = 64, short: int = 0) -> Given:
    tokens = np.arange(count, dtype="int32") * 7 % (rows + 3)
    table = np.arange(rows * width, dtype="float32").reshape(rows, width)
    return {"table": table, "tokens": tokens, "out": np.zeros((count - short, width), "float32")}


def looked_up(given: Given) -> Any:
    """What a lookup has to give."""
    known = given["tokens"] < len(given["table"])
    return np.where(known[:, None], given["table"][np.where(known, given["tokens"], 0)], np.float32(0))


def lengths(rng: np.random.Generator, count: int, least: int = 32, most: int = 4096) -> list[int]:
    return [int(each) for each in np.exp(rng.uniform(np.log(least), np.log(most), count))]


# --- no trace, no compilation


@pytest.mark.parametrize("engine", ENGINES)
def test_new_lengths_are_neither_traced_nor_compiled(engine: str) -> None:
    kernel, rng = fresh(lookup), np.random.default_rng(1)
    for count in (128, 200, 333, 64, 1000, 32, 31, 33, 65):
        kernel[1](**lookup_case(count), target="a5", engine=engine)
    with counted() as counts:
        for count in lengths(rng, 12, most=60_000):
            given = lookup_case(count)
            kernel[1](**given, target="a5", engine=engine)
            assert np.array_equal(given["out"], looked_up(given))
    assert counts == {"traces": 0, "compilations": 0}


def gallery_case(entry: Any, count: int) -> Given:
    """Arrays of one table, and of `count` rows or requests."""
    sizes = {"lengths": (count % 70 + 1,) * (count % 7 + 1)} if "lengths" in entry.small else {"count": count}
    return entry.make(np.random.default_rng(count), **{**entry.small, **sizes})


def lengths_only(entry: Any) -> bool:
    """Whether the cases differ only in first extents, and not in that of the table."""
    one, other = gallery_case(entry, 100), gallery_case(entry, 200)
    return one[entry.table].shape == other[entry.table].shape and all(
        value.shape[1:] == other[name].shape[1:] for name, value in one.items()
    )


@pytest.mark.parametrize("entry", [*filter(lengths_only, GALLERY)], ids=lambda entry: entry.name)
def test_the_gallery_is_traced_twice(entry: Any) -> None:
    """Once with lengths, and once with expressions for them. For a new grid, nothing is traced or compiled either."""
    kernel, target = fresh(entry.kernel), entry.targets[-1]
    with counted() as counts:
        for count in (100, 200, 130, 250, 333, 400):
            kernel[3](**gallery_case(entry, count), target=target, engine="native")
    assert counts["traces"] == 2
    with counted() as counts:
        for count in (101, 150, 270, 333, 512, 290, 404):
            kernel[count % 5 + 1](**gallery_case(entry, count), target=target, engine="native")
    assert counts == {"traces": 0, "compilations": 0}


# --- the same outcome


@pytest.mark.parametrize("target", ["cpu", "a2a3", "a5"])
@pytest.mark.parametrize("engine", ENGINES)
def test_lookups_of_many_lengths(engine: str, target: str) -> None:
    rng, random = np.random.default_rng(3), Random(3)
    launches = []
    for count in [0, 1, 31, 32, 33, 64, *lengths(rng, 12 * TIMES if FULL else 4, least=1, most=300)]:
        short = random.choice((0, 0, 0, 1, 40)) if count > 40 else 0
        given = lookup_case(count, random.choice((100, 100, 100, 50)), random.choice((16, 16, 8)), short)
        options = random.choice(({}, {}, {"strict": True}, {"header": True}, {"rows": 16}))
        launches.append((given, random.choice((1, 1, 2, 0)), {**options, "target": target, "engine": engine}))
    compare(lookup, launches)


def in_blocks(table, tokens, out):
    """Too many blocks are an error before the launch."""
    r = pto.block_idx() * 16
    n = pto.min(16, tokens.shape[0] - r)
    ids = pto.Tile("vec", "int32", 1, 16, valid=(1, n))
    rows = pto.Tile("vec", "float32", 16, 16, valid=(n, 16))
    pto.tload(ids, tokens[r : r + n])
    pto.mgather(rows, table, ids)
    pto.tstore(out[r : r + n], rows)


def guarded(table, tokens, out):
    """A branch on a length and the block."""
    r = pto.block_idx() * 16
    n = pto.min(16, tokens.shape[0] - r)
    with pto.when(n > 0):
        ids = pto.Tile("vec", "int32", 1, 16, valid=(1, n))
        rows = pto.Tile("vec", "float32", 16, 16, valid=(n, 16))
        pto.tload(ids, tokens[r : r + n])
        pto.mgather(rows, table, ids, oob="clamp")
        pto.tstore(out[r : r + n], rows)


def unclamped(table, tokens, out):
    """The last tile leaves the arrays."""
    for k in pto.range(pto.cdiv(tokens.shape[0], 16)):
        ids = pto.Tile("vec", "int32", 1, 16)
        rows = pto.Tile("vec", "float32", 16, 16)
        pto.tload(ids, tokens[k * 16 : k * 16 + 16])
        pto.mgather(rows, table, ids, oob="wrap")
        pto.tstore(out[k * 16 : k * 16 + 16], rows)


def unrolled(table, tokens, out):
    """Python counts to a length."""
    for k in range(tokens.shape[0] // 16):
        ids = pto.Tile("vec", "int32", 1, 16)
        rows = pto.Tile("vec", "float32", 16, 16)
        pto.tload(ids, tokens[k * 16 : k * 16 + 16])
        pto.mgather(rows, table, ids, oob="wrap")
        pto.tstore(out[k * 16 : k * 16 + 16], rows)


def choosing(table, tokens, out):
    """Python decides by lengths, in all kinds of ways."""
    n = tokens.shape[0]
    how = "zero" if n % 2 else "clamp"
    assert n != 37, f"not {n}"
    size = {16: 8, 20: 16}.get(n, min(n, 16))
    if n > 48 and isinstance(n, int):
        size = 32 if (n & 1) else int(n / 4) or 1
    ids = pto.Tile("vec", "int32", 1, 32, valid=(1, size))
    rows = pto.Tile("vec", "float32", 32, 16, valid=(size, 16))
    pto.tload(ids, tokens[0:size])
    pto.mgather(rows, table, ids, oob=how)
    pto.tstore(out[n - size : n], rows)


def numbered(table, tokens, out):
    """Lengths as numbers of instructions, and as extents that change."""
    n = tokens.shape[0]
    rows = pto.Tile("vec", "float32", 16, 16)
    pto.texpands(rows, n)
    for k in pto.range(n // 16):
        rows.valid = (pto.min(16, n - k * 3), 16)
        pto.tadds(rows, rows, k + n)
        with pto.when(k * n < 100):
            pto.tstore(out[k * 16 : k * 16 + rows.valid[0]], rows)


def shrinking(table, tokens, out):
    """Slices to the end, windows of tiles, and a scalar from memory."""
    n, m = tokens.shape[0], out.shape[0]
    last = pto.load_scalar(tokens, n - 1)
    rows = pto.Tile("vec", "float32", 16, 16)
    for k in pto.range(0, n - m, 8):
        pto.tload(rows, table[0:16])
        pto.tstore(out[m - 16 :], rows)
        pto.tmuls(rows[0 : pto.min(16, n - k)], rows[0 : pto.min(16, n - k)], last)
    pto.tstore(out[0:8], rows[k_of(m) : k_of(m) + 8])


def k_of(m):
    return m % 8


def with_gaps(table, tokens, out):
    """Lengths in all operators."""
    n = tokens.shape[0]
    b = pto.block_idx()
    start = pto.max(0, pto.min(out.shape[0] - 8, (b * n + (n << 1)) // (n + 1) + (n >> b) % 3 + (n & b) - (b | n) % 5))
    rows = pto.Tile("vec", "float32", 8, 16)
    pto.tload(rows, table[start % 4 : start % 4 + 8])
    pto.tstore(out[start : start + 8], rows, atomic="add")


def scattered(table, tokens, out):
    """Rows are added where other indices say; blocks share them."""
    tiles, block, blocks = pto.cdiv(tokens.shape[0], 16), pto.block_idx(), pto.block_num()
    for tile in pto.range(tiles * block // blocks, tiles * (block + 1) // blocks):
        r = tile * 16
        n = pto.min(16, tokens.shape[0] - r)
        ids = pto.Tile("vec", "int32", 1, 16, valid=(1, n))
        rows = pto.Tile("vec", "float32", 16, 16, valid=(n, 16))
        pto.tload(ids, tokens[r : r + n])
        pto.tload(rows, table[r : r + n])
        pto.mscatter(out, rows, ids, coalesce="row", atomic="add", oob="skip")


def whole(table, tokens, out):
    """Whole arrays as operands, in tiles of one size."""
    ids = pto.Tile("vec", "int32", 1, 32)
    rows = pto.Tile("vec", "float32", 32, 16)
    pto.tload(ids, tokens)
    pto.mgather(rows, table, ids, oob="clamp")
    pto.tstore(out, rows)


def by_hand(table, tokens, out):
    """Addresses, flags and events."""
    for k in pto.range(tokens.shape[0] // 16):
        ids = pto.Tile("vec", "int32", 1, 16, addr=k % 2 * 64)
        rows = pto.Tile("vec", "float32", 16, 16, addr=1024 + (k + tokens.shape[0]) % 2 * 1024)
        pto.tload(ids, tokens[k * 16 : k * 16 + 16])
        pto.set_flag("MTE2", "V", k % 2)
        pto.wait_flag("MTE2", "V", k % 2)
        pto.mgather(rows, table, ids, oob="wrap")
        pto.set_flag("V", "MTE3", 0)
        pto.wait_flag("V", "MTE3", 0)
        pto.tstore(out[k * 16 : k * 16 + 16], rows)
        pto.barrier("ALL")


def noted(table, tokens, out):
    """A hazard in a loop that may not run at all, and one in a branch that no block may take."""
    ids = pto.Tile("vec", "int32", 1, 16)
    rows = pto.Tile("vec", "float32", 16, 16)
    for k in pto.range(tokens.shape[0] // 16):
        pto.tload(ids, tokens[k * 16 : k * 16 + 16])
        pto.tload(rows, table[0:16])
        pto.mscatter(out, rows, ids, coalesce="row", atomic="add", oob="skip")


def noted_in_branch(table, tokens, out):
    ids = pto.Tile("vec", "int32", 1, 16)
    rows = pto.Tile("vec", "float32", 16, 16)
    with pto.when(tokens.shape[0] - pto.block_idx() > 40):
        pto.tload(ids, tokens[0:16])
        pto.tload(rows, table[0:16])
        pto.mscatter(out, rows, ids, coalesce="row", atomic="add", oob="skip")


FUNCTIONS = (
    *(in_blocks, guarded, unclamped, unrolled, choosing, numbered, shrinking, with_gaps, scattered, whole, by_hand),
    *(noted, noted_in_branch),
)


@pytest.mark.parametrize(("entry", "engine"), on_engines(GALLERY), ids=lambda each: getattr(each, "name", each))
def test_the_gallery(entry: Any, engine: str) -> None:
    random, launches = Random(entry.name), []
    for _ in range(6 * TIMES if FULL else 3):
        given = gallery_case(entry, random.choice((1, 2, 16, 30, 40, 64, 100, random.randint(1, 150))))
        options = {"target": random.choice(entry.targets), "strict": random.random() < 0.3, "engine": engine}
        launches.append((given, random.choice((1, 2, 3, 7)), options))
    if engine == "native" and entry.tolerance is not None:  # the last bits depend on whether there was code for them
        kernel = fresh(entry.kernel)
        for given, grid, options in launches:
            kernel[grid](**given, **options)
            difference = np.abs(given["out"].astype("float64") - entry.reference(**given))
            assert (difference <= entry.tolerance(**given)).all()
    else:
        compare(entry.kernel, launches)


@pytest.mark.parametrize(("function", "engine"), on_engines(FUNCTIONS), ids=lambda e: getattr(e, "__name__", e))
def test_kernels_that_use_lengths(function: Any, engine: str) -> None:
    random = Random(function.__name__)
    kernel = pto.kernel(function, mode="manual") if function is by_hand else pto.kernel(function)
    launches = []
    for nth in range(10 * TIMES if FULL else 5):
        count = random.choice((16, 17, 20, 32, 36, 37, 48, 63, 64, random.randint(0, 90)))
        rows = count if function is scattered else 64 if nth < 3 else random.choice((64, 64, 7, 100, 20))
        out = random.choice((count, count, count, 16, count + 5))
        given = {
            "table": np.arange(rows * 16, dtype="float32").reshape(rows, 16),
            "tokens": np.array([random.randint(-1 if random.random() < 0.1 else 0, 63) for _ in range(count)], "int32"),
            "out": np.ones((out, 16), "float32"),
        }
        options = random.choice(({}, {}, {}, {"strict": True}, {"header": True}))
        target = random.choice(("a5", "a5", "cpu"))
        launches.append((given, random.choice((1, 2, 2, 4)), {**options, "target": target, "engine": engine}))
    compare(kernel, launches)


@pytest.mark.parametrize("engine", ENGINES)
def test_what_is_not_reached_has_no_findings(engine: str) -> None:
    kernel, found = pto.kernel(noted), {}
    for count in (48, 64, 80, 5, 32, 0, 96):
        tokens, out = np.zeros(count, "int32"), np.zeros((8, 16), "float32")
        run = kernel[1](np.ones((16, 16), "float32"), tokens, out, target="a5", engine=engine)
        found[count] = [finding.rule for finding in run.findings]
    assert found == {count: ["MS-HAZ-04"] if count >= 16 else [] for count in found}


def test_code_that_two_instructions_share_is_made_for_new_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gather that is forwarded into a store has one row at the end of some lengths."""
    kernel = fresh(lookup)
    for count in (128, 200, 33, 65):
        kernel[1](**lookup_case(count), target="a5", engine="native")
    monkeypatch.setattr("ptokit.engine.native.program.executable.Thread.run", None)  # nothing goes to Python
    for count in (97, 1025, 1, 129):
        given = lookup_case(count)
        kernel[1](**given, target="a5", engine="native")
        assert np.array_equal(given["out"], looked_up(given))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("header", [False, True])
def test_products_of_arrays_of_one_fractal(header: bool, engine: str) -> None:
    """What a store of an accumulator means depends on whether extents are known, and 16 x 16."""

    @pto.kernel
    def product(a, b, out):
        left, right = pto.Tile("mat", "float16", 16, 16, **NZ), pto.Tile("mat", "float16", 16, 16, **NZ)
        x, y = pto.Tile("left", "float16", 16, 16), pto.Tile("right", "float16", 16, 16)
        z = pto.Tile("acc", "float32", 16, 16)
        pto.tload(left, a[0:16])
        pto.tload(right, b)
        pto.tmov(x, left)
        pto.tmov(y, right)
        pto.tmatmul(z, x, y)
        pto.tstore(out, z)

    rng, launches = np.random.default_rng(0), []
    for rows in (32, 48, 16, 64, 16, 8, 32):
        given = {
            "a": rng.integers(-3, 3, (rows + 16, 16)).astype("float16"),
            "b": rng.integers(-3, 3, (16, 16)).astype("float16"),
            "out": np.zeros((rows, 16), "float32"),
        }
        launches.append((given, 1, {"target": "a5", "header": header, "engine": engine}))
    compare(product, launches)


def varied(source: str, random: Random) -> str:
    """The source of a random kernel, in which bounds and some numbers come from lengths."""
    head, body = source.split(":\n", 1)
    body = body.replace("pto.min(60,", "pto.min(x.shape[0] - 4,").replace("pto.min(56,", "pto.min(idx.shape[0] - 8,")
    numbers = ("n", "x.shape[0] // 16", "(idx.shape[0] - out.shape[0])", "(lens.shape[0] + n)", "out.shape[0]")
    return f"{head}:\n" + re.sub(r"\bn\b", lambda _: random.choice(numbers), body)


@pytest.mark.parametrize(("seed", "engine"), on_engines(range(5 * TIMES)))
def test_random_kernels(seed: int, engine: str) -> None:
    random, names = Random(seed), {"pto": pto}
    source = varied(random_kernel(seed)[seed % 4 == 3], random)
    exec(snippet.compiled(source, f"varied {seed}"), names)
    rng, launches = np.random.default_rng(seed), []
    for _ in range(7 if FULL else 4):
        rows = [random.choice((64, 64, 65, 70, 96, 40)) for _ in range(3)]
        given = {
            "x": rng.integers(-9, 9, (rows[0], 8)).astype("float32"),
            "large": rng.integers(-9, 9, (8, 16)).astype("float32"),
            "idx": rng.integers(0, 80, rows[1]).astype("int32"),
            "lens": np.array([0, 2, 5, 1, 3][: random.choice((4, 4, 5))], "int32"),
            "out": np.zeros((rows[2], 8), "float32"),
            "n": random.choice((2, 2, 3)),
        }
        launches.append((given, 3, {"target": random.choice(("a5", "cpu", "a2a3")), "engine": engine}))
    compare(names["k"], launches)


# --- extents while a kernel is traced


def test_a_length_is_an_int_to_python() -> None:
    """What Python computes from a length is what it computes from the number; what decides becomes a condition."""
    random = Random(5)
    forms: tuple[Callable[[Any, Any], Any], ...] = (
        lambda n, m: n + m, lambda n, m: m - n, lambda n, m: n * m, lambda n, m: n // m, lambda n, m: m % n,
        lambda n, m: -n, lambda n, m: +n, lambda n, m: ~n, lambda n, m: abs(n - m), lambda n, m: n / m,
        lambda n, m: n**2 % m, lambda n, m: divmod(n, m), lambda n, m: divmod(7, n), lambda n, m: n << 2,
        lambda n, m: 1 << n % 5, lambda n, m: n & m, lambda n, m: m | n, lambda n, m: n ^ 3, lambda n, m: n < m,
        lambda n, m: n == m, lambda n, m: n != 3.0, lambda n, m: n in (3, 5), lambda n, m: {5: 1}.get(n),
        lambda n, m: min(n, m, 7), lambda n, m: sorted([n, m, 4]), lambda n, m: sum([n, m]), lambda n, m: bool(n - m),
        lambda n, m: range(n), lambda n, m: [0] * n, lambda n, m: f"{n:3d} {m}", lambda n, m: "%d" % n,  # noqa: UP031
        lambda n, m: str(n), lambda n, m: float(n), lambda n, m: round(n, -1), lambda n, m: n.bit_length(),
        lambda n, m: isinstance(n, int) and not isinstance(n, bool), lambda n, m: np.int32(3) * n,
        lambda n, m: np.zeros(n).size, lambda n, m: n * 0.5, lambda n, m: 2.5 // n, lambda n, m: pow(n, 2, 7),
        lambda n, m: n // 0, lambda n, m: 5 // (n - n), lambda n, m: "ab" * (n % 3), lambda n, m: n == "n",
    )  # fmt: skip
    for form in forms:
        for _ in range(6):
            one, other = random.randint(1, 9), random.randint(1, 9)
            given = Lengths({ExtentVar("n"): one, ExtentVar("m"): other})

            def result(a: Any, b: Any, form: Any = form) -> object:
                try:
                    return repr(form(a, b))
                except ArithmeticError as problem:
                    return type(problem)

            assert result(given.resolve(ExtentVar("n")), given.resolve(ExtentVar("m"))) == result(one, other)


def test_a_length_is_a_known_extent_of_a_type() -> None:
    """In C++ it is a number, where one that is known at run time only is -1."""
    table = Argument("x", dtype("float32"), (ExtentVar("x.shape[0]"), 8), (8, 1))
    for size, is_dynamic in ((ExtentVar("x.shape[0]"), False), (Var("n"), True), (4, False)):
        spec = tensor_spec(table, View("x", (0, 0), (size, 8)), lambda _: 4)
        assert spec.dynamic == tuple(k == 3 and is_dynamic for k in range(10))


# --- caches


def test_a_full_cache_drops_what_was_used_last() -> None:
    known: dict[int, int] = {}
    for key in range(4):
        remember(known, key, key + 1, 4)
    assert recall(known, 0) == 1
    remember(known, 9, 10, 4)
    assert list(known) == [2, 3, 0, 9], "1 was used before all others"
    remember(known, 2, 5, 4)
    assert known == {3: 4, 0: 1, 9: 10, 2: 5}
    assert recall(known, 1) is None


def test_lengths_in_threads() -> None:
    """Threads that launch one kernel with lengths of their own."""
    kernel, problems = fresh(lookup), []

    def work(seed: int) -> None:
        try:
            for count in lengths(np.random.default_rng(seed), 25, most=600):
                given = lookup_case(count, width=16)
                kernel[1](**given, target="a5", engine="native")
                assert np.array_equal(given["out"], looked_up(given))
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems


def exactly(table, tokens, out):
    """Python asks what a length is."""
    n = tokens.shape[0]
    if type(n) is int and n > 40:
        n = 8
    rows = pto.Tile("vec", "float32", 8, 16)
    pto.tload(rows, table[0:8])
    for k in pto.range(n // 8):
        pto.tstore(out[k * 8 : k * 8 + 8], rows)


def test_a_length_is_no_other_type() -> None:
    table, launches = np.ones((8, 16), "float32"), []
    for count in (16, 24, 32, 48, 40, 64):
        given = {"table": table, "tokens": np.zeros(count, "int32"), "out": np.zeros((count, 16), "float32")}
        launches.append((given, 1, {"engine": "reference"}))
    compare(pto.kernel(exactly), launches)


def test_an_error_leaves_other_lengths_as_they_are() -> None:
    """A length that is refused between two others."""

    @pto.kernel
    def picky(x, out):
        n = x.shape[0]
        assert n != 37, f"not {n}"
        rows = pto.Tile("vec", "float32", 8, 16)
        for k in pto.range(n // 8):
            pto.tload(rows, x[k * 8 : k * 8 + 8])
            pto.tstore(out[k * 8 : k * 8 + 8], rows)

    with counted() as counts:
        for count in (20, 37, 22, 37, 37, 24, 29, 40):
            x, out = np.ones((count, 16), "float32"), np.zeros((count, 16), "float32")
            if count == 37:
                with pytest.raises(AssertionError, match="not 37"):
                    picky[1](x, out)
            else:
                picky[1](x, out)
                assert (out[: count // 8 * 8] == 1).all()
    assert counts["traces"] == 8, "20, 22, and 37 with expressions and with numbers"
