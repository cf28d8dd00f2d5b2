"""Ways to share a scatter: each stays inside the memory that it asks for, and its parts cover all of the table."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from ptokit.engine import whole as reference
from ptokit.engine.faults import IndexFault
from ptokit.engine.native import host
from ptokit.engine.native.whole import calls as native
from ptokit.engine.native.whole import strategies
from ptokit.isa.dtype import dtype
from ptokit.isa.move import Combine, Remap, Side
from tests.engine.native.test_whole_native import SHARED, Array, Case, is_open, named, values

GUARD = 1 << 16
LINE = strategies.LINE


class Guarded:
    """Memory with marked bytes behind it, in place of the pool's and NumPy's."""

    def __init__(self) -> None:
        self.given: list[tuple[Array, int]] = []

    def acquire(self, nbytes: int) -> Array:
        room = np.full(nbytes + GUARD, 0xA5, np.uint8)
        self.given.append((room, nbytes))
        return room[:nbytes]

    def release(self, memory: Array) -> None:
        pass

    def empty(self, count: int, kind: Any) -> Array:
        return self.acquire(count * np.dtype(kind).itemsize).view(kind)

    def zeros(self, shape: Any, kind: Any) -> Array:
        found = self.empty(int(np.prod(shape)), kind)
        found[:] = 0
        return found.reshape(shape)

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def check(self) -> None:
        assert self.given
        for room, nbytes in self.given:
            assert (room[nbytes:] == 0xA5).all()


@pytest.mark.parametrize("capacity", [1, 7, 64, 5003, (1 << 14) + 1, (1 << 15) + 1, (1 << 17) + 1])
@pytest.mark.parametrize("kind", ["int8", "int32", "float64"])
@pytest.mark.parametrize(("way", "width"), [("winners", 1), ("winners", 5), ("buckets", 1)])
def test_a_way_stays_inside_its_memory(
    way: str, kind: str, width: int, capacity: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "HOST", replace(host.HOST, wake=SHARED))
    monkeypatch.setattr(strategies, "MOST_MARKED", 0)
    made = dtype(kind)
    indices = named(3000, capacity)
    indices[[5, 99]] = 0, capacity - 1
    case = Case(made, values(made, (capacity, width)), values(made, (3000, width), 1), indices)
    assert is_open(way, native._Scatter(case.whole).rows, capacity, width)
    wanted = case.run(reference).tobytes()
    for threads in (1, 2, 5):
        guarded = Guarded()
        monkeypatch.setattr(strategies, "pool", guarded)
        monkeypatch.setattr(strategies, "np", guarded)
        found = case.run(native, threads, strategy=way)
        monkeypatch.setattr(strategies, "np", np)
        assert found.tobytes() == wanted
        guarded.check()


@pytest.mark.parametrize("most", [1, 100, 5000, 1 << 20])
@pytest.mark.parametrize("width", [1, 5])
def test_sums_stay_inside_their_memory(width: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "HOST", replace(host.HOST, wake=SHARED))
    monkeypatch.setattr(strategies, "MOST_EXTRA", most)
    half, wide = dtype("float16"), dtype("float32")
    table, src = np.ones((70, width), "float16"), np.ones((3000, width), "float16")
    case = Case(half, table.view("u2"), src.view("u2"), named(3000, 70), combine=Combine.ADD, accumulate=wide)
    wanted = case.run(reference).tobytes()
    for threads in (1, 2, 5):
        case.run(native, threads)  # The pool now holds the memory for the indices: only the sums ask for more.
        guarded = Guarded()
        monkeypatch.setattr(strategies, "np", guarded)
        found = case.run(native, threads)
        monkeypatch.setattr(strategies, "np", np)
        assert found.tobytes() == wanted
        guarded.check()
        assert sum(nbytes for _, nbytes in guarded.given) <= max(most, threads * (4 * width + 1))


@pytest.mark.parametrize("size", [1, 2, 4, 8, 16, 128])
@pytest.mark.parametrize("skew", [0, 16, 48])
def test_columns_are_cut_at_cache_lines(size: int, skew: int) -> None:
    table = 1024 * LINE + skew
    for width in (*range(1, 70), 1000, 4096):
        for parts in (1, 2, 3, 7):
            cuts = strategies.column_cuts(table, size, width, parts)
            assert (len(cuts), cuts[0], cuts[-1]) == (parts + 1, 0, width)
            line = max(1, LINE // size)
            for part, (a, b) in enumerate(pairwise(cuts)):
                assert 0 <= a <= b <= width
                assert a == 0 or (table + a * size) % LINE == 0 or size > LINE or skew % size
                assert abs(a - width * part / parts) <= line


@pytest.mark.parametrize("combine", [Combine.STORE, Combine.ADD, Combine.MAX])
@pytest.mark.parametrize(
    ("packs", "wake", "wanted"),
    [(True, 500, "destinations"), (True, 5000, "direct"), (False, 500, "direct")],
    ids=["selected by an instruction", "too few lanes", "selected one by one"],
)
def test_threads_share_a_small_table_if_selecting_lanes_is_cheap(
    packs: bool, wake: int, wanted: str, combine: Combine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "HOST", replace(host.X86, packs=packs, wake=wake, near=1 << 20))
    taken, choose = list[str](), strategies.choose
    monkeypatch.setattr(strategies, "choose", lambda *given: (taken.append(choose(*given)), taken[-1])[1])
    kind = dtype("float32")
    case = Case(kind, values(kind, (4000, 1)), values(kind, (8000, 1), 1), named(8000, 4000), combine=combine)
    assert case.run(native, 2).tobytes() == case.run(reference).tobytes()
    assert set(taken) == {wanted}


@pytest.mark.parametrize("kind", ["int8", "int32", "float32", "float64"])
@pytest.mark.parametrize("combine", Combine)
@pytest.mark.parametrize("remap", [Remap.REFUSE, Remap.SKIP, Remap.CLAMP])
@pytest.mark.parametrize("stray", [None, 0, 99_999])
def test_threads_have_cells_of_their_own_if_lanes_name_few(
    kind: str, combine: Combine, remap: Remap, stray: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lanes name 300 cells in the middle of a table. A lane elsewhere that the sample does not show changes nothing."""
    monkeypatch.setattr(host, "HOST", replace(host.HOST, wake=SHARED))
    found, merged = list[bool](), strategies.merged
    monkeypatch.setattr(strategies, "merged", lambda *given: (found.append(merged(*given)), found[-1])[1])
    made = dtype(kind)
    indices = 50_000 + named(3001, 300)
    if stray is not None:
        indices[1777] = stray
    case = Case(made, values(made, (100_000, 1)), values(made, (3001, 1), 1), indices, remap, combine=combine)
    wanted = case.run(reference).tobytes()
    for threads in (2, 5):
        assert case.run(native, threads).tobytes() == wanted
    is_sum = combine is Combine.ADD and made.is_float
    assert found == [stray is None and not is_sum] * 2


@pytest.mark.parametrize("kind", ["int8", "float16", "float32"])
@pytest.mark.parametrize("combine", [Combine.STORE, Combine.ADD, Combine.MAX])
@pytest.mark.parametrize(
    ("remap", "stray"), [(Remap.REFUSE, 0), (Remap.SKIP, 1), (Remap.SKIP, 4000), (Remap.REFUSE, -1)]
)
def test_lanes_are_divided_among_parts_of_the_table(
    kind: str, combine: Combine, remap: Remap, stray: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lane outside is skipped, or all are refused before anything is written."""
    monkeypatch.setattr(host, "HOST", replace(host.HOST, packs=True, wake=SHARED))
    monkeypatch.setattr(native, "CHUNK", 4096)
    found, divided = list[bool](), strategies.divided
    monkeypatch.setattr(strategies, "divided", lambda *given: (found.append(divided(*given)), found[-1])[1])
    made, indices = dtype(kind), named(4000, 4000)
    indices[1777] = stray
    case = Case(made, values(made, (4000, 1)), values(made, (4000, 1), 1), indices, remap, combine=combine)
    if stray < 0:
        with pytest.raises(IndexFault):
            case.run(native, 2)
    else:
        wanted = case.run(reference).tobytes()
        assert case.run(native, 2).tobytes() == wanted
        monkeypatch.setattr(native, "CHUNK", 1024)
        assert case.run(native, 5).tobytes() == wanted
    assert found == ([False] if stray < 0 else [True] * 5)


@pytest.mark.parametrize("width", [512, 1024])
def test_long_rows_are_written_past_the_caches_several_at_a_time(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "HOST", replace(host.HOST, wake=SHARED, stream_from=1))
    made, rng = dtype("float32"), np.random.default_rng(2)
    table = rng.integers(0, 1 << 30, (20, width)).astype("u4")
    case = Case(made, table, np.zeros((11, width), "u4"), named(11, 20), side=Side.SRC)
    for threads in (1, 2):
        assert (case.run(native, threads).reshape(11, width) == table[named(11, 20)]).all()
