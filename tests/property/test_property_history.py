"""The outcome of a call, its result or its refusal, does not depend on what was called before."""

from __future__ import annotations

import sys
from enum import Enum
from functools import lru_cache
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import ptokit as pto
from ptokit.isa.policy import GlobalLayout
from tests.history import check, variants

ONES: tuple[Any, ...] = (1, 1.0, True, np.int64(1), np.float32(1), np.bool_(True), "1", 1 + 0j, np.array(1))
"""Values that are equal to 1, or nearly so, of other types."""
ZEROS: tuple[Any, ...] = (0, 0.0, -0.0, False, np.int64(0), np.float64(0), np.bool_(False), "0", None)
THREADS = (None, *ONES, 2, 0, -1, 5000)
ENGINES = ("auto", "native", "reference", "machine", "", None, 1, np.str_("native"))
SELECTED = (*pto.Coalesce, "row", "elem", "Row", 0, None, np.str_("elem"))


class Other(Enum):
    """Members with the values of others."""

    Clamp = "clamp"


READ = (*pto.GatherOOB, *(each.text for each in pto.GatherOOB), pto.ScatterOOB.Clamp, "skip", 1, Other.Clamp)
WRITTEN = (*pto.ScatterOOB, *(each.text for each in pto.ScatterOOB), pto.GatherOOB.Clamp, "zero", 1, Other.Clamp)
MODES = (None, "raise", "wrap", "clip", "fill", "negative", "mean", 0, pto.GatherOOB.Wrap)
WORDS = ("none", "add", "max", pto.ScatterAtomicOp.Add, pto.GatherOOB.Clamp, "mul", 1, None)
REDUCES = (None, "add", "sum", "mul", "mean", "amax", "multipy", 1)
CONFLICTS = ("last", "default", "any", pto.ScatterConflict.Last, 0, None)
ACCUMULATES = (None, "float32", np.float32, "float64", 1)


def table(kind: str) -> Any:
    """A table of 4 x 3."""
    values = np.arange(24).reshape(4, 6)
    strange = {"fortran": np.asfortranarray(values[:, :3]), "gaps": values[:, ::2], "backwards": values[::-1, :3]}
    if kind in strange:
        return strange[kind].astype("float32") if kind == "fortran" else strange[kind]
    if kind == "list":
        return values[:, :3].tolist()
    made = values[:, :3].astype("float32" if kind == "read-only" else kind)
    made.flags.writeable = kind != "read-only"
    return made


TABLES = ("float32", "float64", "float16", "int32", "bool", "fortran", "gaps", "backwards", "read-only", "list")
INDICES: tuple[Any, ...] = (
    [1, 3], (1, 3), [1.0, 3.0], [True, True], range(1, 4, 2), 1, 1.0, True, [1, 4], [-1, 0], [[1], [3]], [],
    *(np.array([1, 3], kind) for kind in ("int32", "int64", "uint8", "uint64", "float32", "bool")),
    np.array([-1, 3], "int32"), np.array([1, 0, 3, 0])[::2], np.array([4, 0], "int32"),
)  # fmt: skip


def out_of(kind: Any, read: Any) -> Any:
    if kind == "over":
        return read[:2] if isinstance(read, np.ndarray) else None
    made = None if kind is None else np.zeros((2, 6), "float64" if kind == "wide" else "float32")[:, ::2]
    if made is not None and kind != "gaps":
        made = np.ascontiguousarray(made)
        made.flags.writeable = kind != "read-only"
    return made


@pytest.mark.parametrize("name", ["gather", "gather_along", "gather_nd"])
def test_gathers(name: str) -> None:
    def call(table_of: str, indices: Any, out: Any, **options: Any) -> Any:
        read = table(table_of)
        into = out_of(out, read)
        return getattr(pto, name)(read, indices, out=into, **options), into, read

    base = {"table_of": "float32", "indices": np.array([1, 3]), "out": None}
    values: dict[str, Any] = {
        "threads": THREADS, "oob": READ, "mode": MODES, "engine": ENGINES, "indices": INDICES, "table_of": TABLES,
        "out": (None, "plain", "wide", "gaps", "read-only", "over"),
    }  # fmt: skip
    if name == "gather":
        values |= {"coalesce": SELECTED, "axis": (*ZEROS, *ONES, -1)}
    elif name == "gather_along":
        base["indices"] = np.array([[1, 0, 3]])
        values |= {"axis": (*ZEROS, *ONES, -1)}
    else:
        base["indices"] = np.array([[1], [3]])
        values |= {"batch_dims": (*ZEROS, *ONES, -1)}
    assert check(call, variants(base, values)) > 15


@pytest.mark.parametrize("name", ["scatter", "scatter_along", "scatter_nd"])
def test_scatters(name: str) -> None:
    def call(table_of: str, src: Any, indices: Any, **options: Any) -> Any:
        written = table(table_of)
        source = written[:2] if isinstance(src, str) and src == "over" and isinstance(written, np.ndarray) else src
        try:
            getattr(pto, name)(written, source, indices, **options)
        except Exception as problem:
            return type(problem).__name__, str(problem), written
        return written

    base = {"table_of": "float32", "src": 1, "indices": np.array([1, 3])}
    values: dict[str, Any] = {
        "threads": THREADS, "oob": WRITTEN, "mode": MODES, "engine": ENGINES, "indices": INDICES, "table_of": TABLES,
        "src": (*ONES, np.ones((2, 3), "float32"), np.ones((2, 3)), [[1, 2, 3], [4, 5, 6]], 1e300, "over"),
        "atomic": WORDS, "reduce": REDUCES, "conflict": CONFLICTS, "accumulate": ACCUMULATES,
        "include_self": (True, False, *ONES, *ZEROS),
    }  # fmt: skip
    if name == "scatter":
        values |= {"coalesce": SELECTED, "axis": (*ZEROS, *ONES, -1)}
    elif name == "scatter_along":
        base["indices"] = np.array([[1, 0, 3]])
        values |= {"axis": (*ZEROS, *ONES, -1)}
    else:
        base["indices"] = np.array([[1], [3]])
        values |= {"batch_dims": (*ZEROS, *ONES, -1)}
    assert check(call, variants(base, values), seeds=1) > 15


def tile(kind: Any = "float32", rows: Any = 16, cols: Any = 16, **options: Any) -> Any:
    made = pto.Tile("vec", kind, rows, cols, **options)
    made.write(np.arange(np.prod(made.shape)).reshape(made.shape) % 7)
    return made


NUMBERS = (*ONES, *ZEROS, 2, 2.0, 1e300, float("nan"), 1.5, [1], np.array([1, 2]))


@pytest.mark.parametrize("kind", ["float32", "int32", "float16"])
@pytest.mark.parametrize("name", ["tmuls", "tadds", "tmaxs", "texpands"])
def test_instructions_with_numbers(name: str, kind: str) -> None:
    def call(scalar: Any) -> Any:
        made = tile(kind)
        getattr(pto, name)(made, *((made,) if name != "texpands" else ()), scalar)
        return made.read()

    assert check(call, [{"scalar": value} for value in NUMBERS]) > 5


def test_instructions_with_positions_and_modes() -> None:
    def extract(row: Any, col: Any) -> Any:
        made, source = tile(rows=8, cols=8), tile()
        pto.textract(made, source, row, col)
        return made.read()

    check(extract, variants({"row": 0, "col": 0}, {"row": (*ZEROS, *ONES, 8), "col": (*ZEROS, *ONES, 8)}))

    def gather(index: str, **options: Any) -> Any:
        made, idx = tile(rows=2, cols=8), pto.Tile("vec", "int32", 2, 1, blayout="col_major")
        idx.write(np.array({"good": [[1], [3]], "outside": [[1], [9]], "negative": [[-1], [0]]}[index]))
        event = pto.mgather(made, pto.GlobalTensor(np.arange(32, dtype="float32").reshape(4, 8)), idx, **options)
        return made.read(), [each.message for each in event.findings]

    values = {
        "oob": READ, "coalesce": SELECTED, "index": ("good", "outside", "negative"),
        "executor": (None, 0, "scalar", "simt"), "wait": (None, 1, (), []),
    }  # fmt: skip
    assert check(gather, variants({"index": "good"}, values)) > 5


def test_tiles_and_tensors() -> None:
    def make(**options: Any) -> Any:
        made = tile(**options)
        pto.tadds(made, made, 1)
        return made.read(), made.buffer

    kinds = ("float32", np.float32, np.dtype("float32"), "int32", int, float, "float33", None, 1, pto.Coalesce.Row)
    extents = (16, 16.0, np.int64(16), np.float64(16), "16", True, *ONES, 0, -16, None)
    values = {
        "kind": kinds, "rows": extents, "cols": extents, "addr": (*ZEROS, *ONES, 32),
        "valid": ((16, 16), (16.0, 16), (True, 1), (1, 1), (np.int64(1), 1), (17, 1), 16, None),
        "blayout": ("row_major", pto.BLayout.RowMajor, "col_major", 0, None), "fractal": (None, 512, 512.0, True),
        "pad": ("null", "zero", "max", pto.Pad.Zero, 0, None),
    }  # fmt: skip
    assert check(make, variants({}, values)) > 15

    def view(**options: Any) -> Any:
        made = pto.GlobalTensor(np.arange(256, dtype="float32").reshape(16, 16), **options)
        into = pto.Tile("vec", made.dtype, 16, 16)
        pto.tload(into, made)
        return into.read(), made.shape, made.shape5

    values = {
        "layout": ("nd", GlobalLayout.ND, "dn", "nz", 0, None), "dtype": (*kinds, "uint32"),
        "shape": ((16, 16), (16.0, 16), (np.int64(16), 16), (True, 16), (1, 1, 1, 16, 16), [16, 16], 16, ()),
        "stride": ((16, 1), (16.0, 1), (16, True), (np.int64(16), 1), (0, 1), 1),
    }  # fmt: skip
    assert check(view, variants({}, values)) > 10


@pto.kernel
def scaled(x: Any, y: Any, n: Any, factor: pto.const = 1) -> None:
    """Multiplies by a constant and adds a number."""
    t = pto.Tile("vec", "float32", 8, 8)
    pto.tload(t, x)
    pto.tmuls(t, t, factor)
    with pto.when(n > 0):
        pto.tadds(t, t, 1)
    pto.tstore(y, t)


@pytest.mark.parametrize("engine", ["native", "reference"])
def test_launches(engine: str) -> None:
    def call(grid: Any, n: Any, x: Any, y: str, **options: Any) -> Any:
        made = np.zeros((8, 16), "float64" if y == "wide" else "float32")
        out = made[:, ::2] if y == "gaps" else made[:, :8].copy()
        out.flags.writeable = y != "read-only"
        run = scaled[grid](x if y != "over" else out, out, n, **{"engine": engine, **options})
        return out, run.engine, run.target, [each.message for each in run.findings]

    x = np.arange(64, dtype="float32").reshape(8, 8)
    values: dict[str, Any] = {
        "grid": (*ONES, (1,), (True,), 0, -1), "n": (*ONES, *ZEROS, 2), "factor": (*ONES, *ZEROS, 2, -1.0),
        "threads": THREADS, "strict": (None, *ONES, *ZEROS), "header": (None, True, False, 1, 0.0),
        "dyn_ub": (None, *ONES, 0, False, 1024), "engine": ENGINES, "target": (None, "cpu", "a5", "a2a3", "", 1),
        "launch": ("standard", "", None, 1), "debug": (False, True, *ONES, *ZEROS), "options": (None, 1, {}),
        "x": (x, x.astype("float64"), x[::-1], x.tolist(), x.T, np.float32(1)),
        "y": ("plain", "wide", "gaps", "read-only", "over"),
    }  # fmt: skip
    every = variants({"grid": 1, "n": 1, "x": x, "y": "plain"}, values)
    scaled.cached.clear()
    assert check(call, every, seeds=1) > 25


def test_targets() -> None:
    def call(**options: Any) -> Any:
        with pto.target(**options) as here:
            made = tile()
            return made.read(), here.mode.options, here.mode.profile.name

    values = {
        "name": ("cpu", "a5", "a2a3", "a5@2026.08", "A5", 5, None), "dyn_ub": (*ONES, *ZEROS, 8192, -1),
        "strict": (*ONES, *ZEROS), "header": (*ONES, *ZEROS),
    }  # fmt: skip
    assert check(call, variants({"name": "cpu"}, values)) > 10


def test_the_property_sees_a_cache_that_takes_equal_values_for_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("ptokit.wrong")
    monkeypatch.setitem(sys.modules, module.__name__, module)

    def show(value: object) -> str:
        return repr(value)

    show.__module__ = module.__name__
    module.__dict__["show"] = show = lru_cache(show)
    with pytest.raises(AssertionError, match="after"):
        check(show, [{"value": each} for each in (1, 1.0, True)])
