"""Trends of the cost model: more work never takes fewer cycles, unless the launch formula and the report say so.

Each case is a family of instructions with one number that grows: rows, columns, valid rows and columns, indices, the
size of elements. Blocks are in `test_timeline.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest

import ptokit as pto
from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.isa.dtype import dtype
from ptokit.isa.kernel import kernels_of, row_launch
from ptokit.isa.operand import TileSpec
from ptokit.isa.policy import BLayout, SLayout, TileType
from ptokit.machine.site import Executed
from ptokit.target import Profile
from ptokit.target.a2a3 import A2A3
from ptokit.target.a5 import A5
from tests.loops import all_pairs
from tests.machine.costing import executed, fractal, tensor, vec
from tests.machine.test_costs import time_of

NPU = (A2A3, A5)
both = pytest.mark.parametrize("profile", NPU, ids=lambda profile: profile.name)


class Shape(NamedTuple):
    """What an instruction works on."""

    rows: int = 16
    cols: int = 64
    valid: tuple[int, int] | None = None
    kind: str = "float32"

    @property
    def extents(self) -> tuple[int, int]:
        return self.valid or (self.rows, self.cols)

    def tile(self) -> TileSpec:
        return vec(self.rows, self.cols, self.kind, self.valid)


Build = Callable[[Profile, Shape], Executed]


def indices(shape: tuple[int, int], spread: str, high: int) -> np.ndarray:
    """Lanes side by side, each in a line of its own, or all in one."""
    count = np.arange(shape[0] * shape[1])
    return {"near": count, "far": count * 37 % high, "one": 0 * count}[spread].reshape(shape)


def gather(mode: str, spread: str = "near", oob: str = "undefined") -> Build:
    def build(profile: Profile, shape: Shape) -> Executed:
        rows, cols = shape.extents
        if mode == "row":
            idx, where = vec(1, -(-shape.rows // 8) * 8, "int32", (1, rows)), indices((1, rows), spread, 997)
            table = tensor(1024, cols, kind=shape.kind)
        else:
            idx, where = vec(shape.rows, shape.cols, "int32", shape.valid), indices((rows, cols), spread, 1 << 20)
            table = tensor(1 << 12, 1 << 8, kind=shape.kind)
        return executed(profile, "mgather", shape.tile(), table, idx, indices=where, coalesce=mode, oob=oob)

    return build


def scatter(mode: str, atomic: str) -> Build:
    def build(profile: Profile, shape: Shape) -> Executed:
        rows, cols = shape.extents
        if mode == "row":
            idx, where = vec(shape.rows, 1, "int32", (rows, 1)), np.arange(rows)[:, None]
            table = tensor(1024, cols, kind=shape.kind)
        else:
            idx, where = vec(shape.rows, shape.cols, "int32", shape.valid), np.arange(rows * cols).reshape(rows, cols)
            table = tensor(1 << 8, 1 << 8, kind=shape.kind)
        return executed(profile, "mscatter", table, shape.tile(), idx, indices=where, coalesce=mode, atomic=atomic)

    return build


def vector(name: str, sources: int) -> Build:
    return lambda profile, shape: executed(profile, name, *[shape.tile()] * (1 + sources))


def load(profile: Profile, shape: Shape) -> Executed:
    return executed(profile, "tload", shape.tile(), tensor(*shape.extents, kind=shape.kind))


def store(profile: Profile, shape: Shape) -> Executed:
    return executed(profile, "tstore", tensor(*shape.extents, kind=shape.kind), shape.tile())


def row_sum(profile: Profile, shape: Shape) -> Executed:
    return executed(profile, "trowsum", vec(shape.rows, 16, shape.kind, (shape.extents[0], 1)), shape.tile())


def transposed(profile: Profile, shape: Shape) -> Executed:
    other = vec(shape.cols, -(-shape.rows // 16) * 16, shape.kind, shape.extents[::-1])
    return executed(profile, "ttrans", other, shape.tile())


def tile_scatter(profile: Profile, shape: Shape) -> Executed:
    rows, cols = shape.extents
    idx = vec(shape.rows, shape.cols, "int16" if shape.kind == "float16" else "int32", shape.valid)
    where = np.repeat(np.arange(rows)[:, None], cols, axis=1)
    return executed(profile, "tscatter", shape.tile(), shape.tile(), idx, indices=where)


SPREADS = ("near", "far", "one")
FAMILIES: dict[str, Build] = {
    **{f"gather {mode} {spread}": gather(mode, spread) for mode in ("row", "elem") for spread in SPREADS},
    "gather row clamp": gather("row", oob="clamp"),
    "gather elem zero": gather("elem", oob="zero"),
    **{f"scatter {mode} {op}": scatter(mode, op) for mode in ("row", "elem") for op in ("none", "add")},
    "load": load,
    "store": store,
    "simple": vector("tadd", 2),
    "slow": vector("texp", 1),
    "move": vector("tmov", 1),
    "reduce": row_sum,
    "indexed": transposed,
    "tile scatter": tile_scatter,
}
ROWS, VALID_COLS = (1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64), (1, 5, 7, 8, 9, 16, 31, 32, 33, 40, 56, 63, 64)
COLS = (16, 32, 48, 64, 96, 128, 144, 256, 512, 528)
SERIES: dict[str, list[Shape]] = {
    "rows": [Shape(rows=rows) for rows in ROWS],
    "rows of many columns": [Shape(rows=rows, cols=256) for rows in ROWS],
    "columns": [Shape(cols=cols) for cols in COLS],
    "columns of a few rows": [Shape(rows=3, cols=cols) for cols in COLS],
    "valid rows": [Shape(rows=64, valid=(rows, 64)) for rows in ROWS],
    "valid columns": [Shape(valid=(16, cols)) for cols in VALID_COLS],
    "valid columns of narrow tiles": [Shape(64, 16, (64, cols)) for cols in range(1, 17)],
    "size": [Shape(kind=kind) for kind in ("float16", "float32")],
    "size of few": [Shape(1, 16, kind=kind) for kind in ("float16", "float32")],
}


def is_excepted(profile: Profile, family: str, small: Shape, large: Shape) -> bool:
    """Whether the launch formula starts fewer warps for more rows (MG-SIMT-05)."""
    if profile is not A5 or not family.startswith("gather row"):
        return False
    before, after = row_launch(*small.extents), row_launch(*large.extents)
    return before is not None and after is not None and after.warps < before.warps


TRIED = all_pairs(NPU, FAMILIES, SERIES, one_in=2)


@pytest.mark.parametrize(("profile", "family", "series"), TRIED, ids=lambda each: getattr(each, "name", each))
def test_more_work_never_takes_fewer_cycles(profile: Profile, family: str, series: str) -> None:
    times = [(shape, time_of(FAMILIES[family](profile, shape), profile)) for shape in SERIES[series]]
    for (small, fast), (large, slow) in pairwise(times):
        assert fast <= slow + 1e-6 or is_excepted(profile, family, small, large), (small, fast, large, slow)


def times_of(build: Callable[[int], Executed], profile: Profile, numbers: Iterable[int]) -> list[float]:
    return [time_of(build(number), profile) for number in numbers]


def never_falls(times: Sequence[float]) -> bool:
    return all(a <= b + 1e-6 for a, b in pairwise(times))


def accumulator(rows: int, cols: int) -> TileSpec:
    padded = -(-rows // 16) * 16, -(-cols // 16) * 16
    return TileSpec(dtype("float32"), TileType.Acc, *padded, rows, cols, BLayout.ColMajor, SLayout.RowMajor, 1024)


def product(profile: Profile, m: int, k: int, n: int, kind: str = "float16") -> Executed:
    form = {"zz": BLayout.RowMajor, "nz": BLayout.ColMajor}[profile.left_form]
    a = TileSpec(dtype(kind), TileType.Left, m, k, m, k, form, SLayout.RowMajor)
    b = TileSpec(dtype(kind), TileType.Right, k, n, k, n, BLayout.RowMajor, SLayout.ColMajor)
    return executed(profile, "tmatmul", accumulator(m, n), a, b)


@both
def test_the_cube_core(profile: Profile) -> None:
    sizes = range(16, 200, 16)
    assert never_falls(times_of(lambda n: product(profile, n, 64, 64), profile, sizes))
    assert never_falls(times_of(lambda n: product(profile, 64, n, 64), profile, sizes))
    assert never_falls(times_of(lambda n: product(profile, 64, 64, n), profile, sizes))
    kinds = [time_of(product(profile, 64, 64, 64, kind), profile) for kind in ("float16", "float32")]
    assert never_falls(kinds)
    for build in (
        lambda n: executed(profile, "tstore", tensor(n, 64), accumulator(n, 64)),
        lambda n: executed(profile, "tstore", tensor(64, n), accumulator(64, n)),
        lambda n: executed(profile, "tload", nz_tile(64, 32, (n, 32)), tensor(1, 4, 4, 16, 8, layout="nz")),
        lambda n: executed(profile, "tload", nz_tile(64, 64, (40, n)), tensor(1, 8, 4, 16, 8, layout="nz")),
        lambda n: executed(profile, "tload", nz_tile(64, 64, (n, 30)), tensor(n, 30)),
    ):
        assert never_falls(times_of(build, profile, range(1, 65)))


def nz_tile(rows: int, cols: int, valid: tuple[int, int]) -> TileSpec:
    return TileSpec(dtype("float32"), TileType.Mat, rows, cols, *valid, BLayout.ColMajor, SLayout.RowMajor)


@both
@pytest.mark.parametrize("executor", ["row", "elem", "simt"])
def test_gathers_into_l1(profile: Profile, executor: str) -> None:
    if executor == "simt" and profile is A2A3:
        return

    def build(rows: int) -> Executed:
        dst, table = nz_tile(64, 32, (rows, 32)), tensor(512, 32)
        if executor == "row":
            return executed(profile, "mgather", dst, table, tensor(rows, kind="int32"), indices=np.arange(rows))
        given = (dst, table, tensor(rows, 32, kind="int32"), tensor(64 * 32))
        chosen = {"executor": executor} if executor == "simt" else {}
        return executed(profile, "mgather", *given, indices=np.arange(rows * 32), **chosen)

    assert never_falls(times_of(build, profile, (1, 2, 15, 16, 17, 33, 64)))


@both
@pytest.mark.parametrize("mode", ["row", "elem"])
@pytest.mark.parametrize("seed", range(6))
def test_more_indices_of_any_value(profile: Profile, mode: str, seed: int) -> None:
    """The lanes of the shorter gather are the first of the longer one, some of them outside the table."""
    rng = np.random.default_rng(seed)
    found = rng.integers(0, 600, 512 if mode == "elem" else 64)
    times = []
    for count in (1, 2, 8, 16, 33, 64) if mode == "row" else (2, 8, 31, 32, 33, 64, 200, 512):
        shape = (1, -(-count // 8) * 8)
        if mode == "row":
            given = vec(count, 64), tensor(512, 64), vec(*shape, "int32", (1, count))
        else:
            given = vec(*shape, "float32", (1, count)), tensor(1, 512), vec(*shape, "int32", (1, count))
        what = executed(profile, "mgather", *given, indices=found[:count].reshape(1, -1), coalesce=mode, oob="zero")
        times.append((count, time_of(what, profile)))
    for (small, fast), (large, slow) in pairwise(times):
        warps = [row_launch(rows, 64).warps for rows in (small, large)]  # type: ignore[union-attr]
        assert fast <= slow + 1e-6 or (profile is A5 and mode == "row" and warps[1] < warps[0])


def test_every_family_of_instructions_is_in_a_trend() -> None:
    """A formula that no trend covers would escape."""
    used = {cost for build in FAMILIES.values() for profile in NPU for cost in formulas(build(profile, Shape()))}
    used |= {"cube", "copy", "fill", "fractal row transfers", "scalar accesses"}
    used |= {"element gather to scratch", "SIMT to scratch", "scratch to L1"}
    every = {
        kernel.cost_on(effect.pipe).formula
        for profile in NPU
        for instruction in INSTRUCTIONS.values()
        for kernel in kernels_of(instruction, profile.name).values()
        for effect in kernel.effects
    }
    assert every <= used


def formulas(what: Executed) -> Iterator[str]:
    kernel = what.call.route_kernel
    yield from (kernel.cost_on(effect.pipe).formula for effect in kernel.effects)


def test_fractal_rows() -> None:
    def build(rows: int, columns: int) -> Executed:
        dst = fractal(TileType.Vec, 64, columns * 8)
        dst = TileSpec(dst.dtype, dst.loc, 64, columns * 8, rows, columns * 8, dst.blayout, dst.slayout)
        idx = vec(1, 64, "int32", (1, rows))
        return executed(A2A3, "mgather", dst, tensor(1, columns, 4, 16, 8, layout="nz"), idx, indices=np.arange(rows))

    assert never_falls(times_of(lambda n: build(n, 4), A2A3, (1, 2, 15, 16, 17, 33, 64)))
    assert never_falls(times_of(lambda n: build(16, n), A2A3, (1, 2, 3, 4, 8)))


# --- the exception is in the report


@pto.kernel
def lookup(table, idx, out):
    """out[i] = table[idx[i]]"""
    ids = pto.Tile("vec", "int32", 1, 64, valid=(1, out.shape[0]))
    rows = pto.Tile("vec", "float32", 64, table.shape[1], valid=out.shape)
    pto.tload(ids, idx)
    pto.mgather(rows, table, ids)
    pto.tstore(out, rows)


def report(rows: int, cols: int):
    table, out = np.zeros((64, cols), "float32"), np.zeros((rows, cols), "float32")
    return lookup[1](table, np.zeros(rows, "int32"), out, target="a5", engine="machine")


@pytest.mark.parametrize("cols", [64, 128, 256])
def test_the_report_says_where_the_launch_formula_makes_more_rows_faster(cols: int) -> None:
    found = {rows: report(rows, cols) for rows in range(1, 36)}
    gathers = {
        rows: next(work.end - work.start for work in each.timeline.works if work.what == "mgather")
        for rows, each in found.items()
    }
    falls = 0
    for rows, each in found.items():
        faster = [more for more in range(rows + 1, 36) if gathers[more] < gathers[rows] - 1e-6]
        said = [text for text in each.timeline.advice if "by the launch formula" in text]
        assert bool(said) == bool(faster), rows
        falls += bool(faster)
        if faster:
            best = min(faster, key=gathers.__getitem__)
            warps = [row_launch(n, cols).warps for n in (rows, best)]  # type: ignore[union-attr]
            assert f"{rows} rows start {warps[0]} warps, {best} rows start {warps[1]} warps" in said[0]
    assert falls
