"""Random calls of `pto.gather` and `pto.scatter` against plain loops: every bit, every error, no other writes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ptokit as pto
from ptokit.engine import whole
from tests.property import naive, naive_whole
from tests.property.naive_whole import ENGINES, Cells, Outside
from tests.property.strategies import fuzz

Array = np.ndarray[Any, np.dtype[Any]]

MOVED = tuple(name for name in naive.NUMPY if name not in ("hifloat8", "complex128", "bool"))
"""Types whose bits fit an integer; the others have separate tests."""
INTEGERS = naive.SIGNED + naive.UNSIGNED
FLOATS = tuple(naive.QUIET_NAN)
NARROW = tuple(name for name in FLOATS if naive.SIZE[name] < 4)
INDICES = ("int32", "uint32", "int64")
THREADS = (None, 1, 2, 5)


def special(dtype: str) -> list[int]:
    """Special bits: both zeros, one, infinities, NaNs with payloads, the ends."""
    size = naive.SIZE[dtype]
    top = 1 << (8 * size - 1)
    found = [0, 1, top, top - 1, 2 * top - 1]
    if dtype in FLOATS:
        values = np.array([1, -1, 0.5, 3, np.inf, -np.inf, np.nan]).astype(naive.NUMPY[dtype])
        found += values.view(f"u{size}").tolist()
        found += [found[-1] | 1, found[-1] ^ top]
    return found


@st.composite
def shapes(draw: st.DrawFn, least: int, most: int) -> tuple[int, ...]:
    return tuple(draw(st.lists(st.sampled_from([0, 1, 1, 2, 3, 4, 5]), min_size=least, max_size=most)))


@dataclass
class Placed:
    """An array inside a larger one."""

    view: Array
    room: Array
    own: Array
    """Which elements of the larger one are the array's."""

    def others(self) -> list[int]:
        """The bits beside the array."""
        return self.room.view(f"u{self.room.itemsize}")[~self.own].tolist()


def some(dtype: str, kinds: Callable[[np.random.Generator, int], Array]) -> Callable[..., Any]:
    """Arrays of a shape, with gaps, backwards, transposed; their elements come from `kinds`."""

    def selection(n: int, step: int, start: int) -> slice:
        last = start + max(0, n - 1) * abs(step)
        if not n:
            return slice(0, 0)
        return slice(start, last + 1, step) if step > 0 else slice(last, start - 1 if start else None, step)

    def place(draw: st.DrawFn, shape: tuple[int, ...]) -> Placed:
        order = draw(st.permutations(range(len(shape))))
        steps = [draw(st.sampled_from([1, 1, 1, 1, 2, -1, -2])) for _ in shape]
        starts = [draw(st.sampled_from([0, 0, 0, 1])) for _ in shape]
        rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
        extents = [max(0, n - 1) * abs(step) + start + 1 for n, step, start in zip(shape, steps, starts, strict=True)]
        picks = tuple(map(selection, shape, steps, starts))

        def seen(room: Array) -> Array:
            return room.transpose(np.argsort(order))[(*picks, ...)] if shape else room

        room = kinds(rng, prod(extents)).reshape([extents[k] for k in order])
        own = np.zeros(room.shape, bool)
        seen(own)[...] = True
        return Placed(seen(room.view(naive.NUMPY[dtype])), room.view(naive.NUMPY[dtype]), own)

    return place


def elements(dtype: str) -> Callable[[np.random.Generator, int], Array]:
    """Bits of elements: special ones and any."""
    size, known = naive.SIZE[dtype], np.array(special(dtype), f"u{naive.SIZE[dtype]}")

    def make(rng: np.random.Generator, count: int) -> Array:
        anything = rng.integers(0, 256, (count, size), np.uint8).view(known.dtype).reshape(-1)
        return np.where(rng.random(count) < 0.5, rng.choice(known, count), anything)

    return make


def index_values(dtype: str, capacity: int, share: float) -> Callable[[np.random.Generator, int], Array]:
    """Bits of index values, a share of them outside the table."""
    info = np.iinfo(dtype)
    odd = [-1, -2, capacity, capacity + 1, -capacity, info.min, info.max, 2**31, 2**32, 2**32 + 1]
    outside = np.array([v for v in odd if info.min <= v <= info.max], dtype)

    def make(rng: np.random.Generator, count: int) -> Array:
        inside = rng.integers(0, max(1, capacity), count).astype(dtype)
        values = np.where(rng.random(count) < share, rng.choice(outside, count), inside)
        return values.view(f"u{info.bits // 8}")

    return make


@dataclass
class Case:
    """The operands of a call."""

    table: Placed
    indices: Array
    mode: str
    oob: str

    @property
    def shape(self) -> tuple[int, ...]:
        return self.indices.shape + (self.table.view.shape[1:] if self.mode == "row" else ())


@st.composite
def cases(draw: st.DrawFn, dtype: str, policies: tuple[str, ...]) -> Case:
    mode, oob = draw(st.sampled_from(["row", "elem"])), draw(st.sampled_from(policies))
    table = some(dtype, elements(dtype))(draw, draw(shapes(1 if mode == "row" else 0, 3)))
    capacity = len(table.view) if mode == "row" else table.view.size
    if not capacity and oob in ("clamp", "wrap"):
        oob = "undefined"
    kind, share = draw(st.sampled_from(INDICES)), draw(st.sampled_from([0, 0, 0.1] if oob == "undefined" else [0, 0.3]))
    indices = some(kind, index_values(kind, capacity, share))(draw, draw(shapes(0, 3))).view
    if draw(st.integers(0, 5)) == 0:
        indices = np.broadcast_to(indices, (draw(st.integers(0, 3)), *indices.shape))
    return Case(table, indices, mode, oob)


def settled(call: Callable[[], Any], expected: Callable[[], Cells]) -> Cells | None:
    """What the loops give; where they refuse, the call refuses the same index in the same place."""
    try:
        wanted = expected()
    except Outside as outside:
        refusal = outside
    else:
        call()
        return wanted
    with pytest.raises(pto.OutOfBoundsError) as caught:
        call()
    at = f"[{', '.join(map(str, refusal.position))}]" if refusal.position else ""
    more = f" (and {refusal.count - 1} more)" if refusal.count > 1 else ""
    said = f"indices{at} = {refusal.value} is outside the capacity of {refusal.capacity}{more}"
    assert said == caught.value.findings[0].message.partition(": ")[2]
    return None


def in_pieces(draw: Callable[[Any], Any]) -> Any:
    """The reference engine's pieces, made small: some calls then need several."""
    return patch.object(whole, "MOST_LANES", draw(st.sampled_from([1 << 18, 3])))


@contextmanager
def warned(indices: Array, oob: str) -> Iterator[None]:
    """A block that warns once if a negative int32 is moved inside (H-13), and not otherwise."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        yield
    is_negative = indices.dtype == np.int32 and oob in ("clamp", "wrap") and bool((indices < 0).any())
    assert [type(each.message) for each in seen] == [pto.HazardWarning] * is_negative


@pytest.mark.parametrize("engine", ENGINES)
@fuzz(5)
@given(data=st.data())
def test_gather(engine: str, data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(MOVED))
    case = data.draw(cases(dtype, ("undefined", "clamp", "wrap", "zero")))
    table = case.table.view
    table.flags.writeable = data.draw(st.booleans())
    out = some(dtype, elements(dtype))(data.draw, case.shape) if data.draw(st.booleans()) else None
    before = Cells.of(case.table.room), out and Cells.of(out.room), out and out.others()
    options = {"coalesce": case.mode, "oob": case.oob, "threads": data.draw(st.sampled_from(THREADS))}
    results = []

    pieces = in_pieces(data.draw)

    def call() -> None:
        with pieces, warned(case.indices, case.oob):
            results.append(pto.gather(table, case.indices, out=out and out.view, engine=engine, **options))

    wanted = settled(call, lambda: naive_whole.gather(table, case.indices, case.mode, case.oob))
    assert Cells.of(case.table.room) == before[0]
    if wanted is None:
        assert out is None or Cells.of(out.room) == before[1]
        return
    assert results[0].dtype == table.dtype
    assert Cells.of(results[0]) == wanted
    assert out is None or (results[0] is out.view and out.others() == before[2])


def scattered(data: st.DataObject, engine: str, dtype: str, atomic: str, wide: bool = False) -> None:
    case = data.draw(cases(dtype, ("undefined", "clamp", "wrap", "skip")))
    table, shape = case.table.view, case.shape
    if data.draw(st.booleans()):  # broadcasts
        shape = tuple(1 if data.draw(st.booleans()) else n for n in shape)[data.draw(st.integers(0, len(shape))) :]
    src = some(dtype, elements(dtype))(data.draw, shape).view
    before = Cells.of(case.table.room), case.table.others()
    options = {"coalesce": case.mode, "oob": case.oob, "atomic": atomic, "accumulate": "float32" if wide else None}
    threads = data.draw(st.sampled_from(THREADS))

    pieces = in_pieces(data.draw)

    def call() -> None:
        with pieces, warned(case.indices, case.oob):
            assert pto.scatter(table, src, case.indices, engine=engine, threads=threads, **options) is table

    arguments = (case.mode, case.oob, dtype, atomic, wide)
    wanted = settled(call, lambda: naive_whole.scatter(table, src, case.indices, *arguments))
    if wanted is None:
        assert Cells.of(case.table.room) == before[0]
        return
    assert Cells.of(table) == wanted
    assert case.table.others() == before[1]


@pytest.mark.parametrize("engine", ENGINES)
@fuzz(3)
@given(data=st.data())
def test_scatter_stores(engine: str, data: st.DataObject) -> None:
    scattered(data, engine, data.draw(st.sampled_from(MOVED)), "none")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("atomic", ["add", "max", "min"])
@fuzz(2)
@given(data=st.data())
def test_scatter_combines(atomic: str, engine: str, data: st.DataObject) -> None:
    scattered(data, engine, data.draw(st.sampled_from(INTEGERS + FLOATS)), atomic)


@pytest.mark.parametrize("engine", ENGINES)
@fuzz(2)
@given(data=st.data())
def test_scatter_sums_in_float32(engine: str, data: st.DataObject) -> None:
    scattered(data, engine, data.draw(st.sampled_from(NARROW)), "add", wide=True)
