"""The last access to a byte: layers of a memory against a naive record of every byte."""

from __future__ import annotations

import random

import numpy as np
import pytest

from ptokit.engine.storage import region
from ptokit.isa.layout import Layout
from ptokit.machine.shadow import MOST_PAGED, READ, WRITE, Earlier, Extent, Shadow, extent_of, listed

SIZE = 96


def extents(rng: random.Random) -> tuple[Extent, set[int], int]:
    """Some bytes of a memory: the extent, the bytes themselves, and where it begins."""
    start = rng.randrange(8)
    if rng.random() < 0.3:
        places = [rng.randrange(SIZE - 8) for _ in range(rng.randrange(6))]
        return listed(np.array(places, np.int64), 1), {start + place for place in places}, start
    rows, cols, pitch = rng.randint(1, 4), rng.randint(1, 6), rng.randint(6, 20)
    found = extent_of(region(Layout.plain(pitch, 1), rows, cols), 1)
    return found, {start + i * pitch + j for i in range(rows) for j in range(cols)}, start


def latest(touched: dict[int, list[tuple[int, int]]], places: set[int], low: int, high: int) -> tuple[int, int] | None:
    """The latest of the last accesses to each of these bytes, within (low, high]."""
    last = [touched[place][-1] for place in places if touched.get(place)]
    return max((each for each in last if low < each[0] <= high), default=None)


@pytest.mark.parametrize("page", [SIZE, 16, 7, 1])
@pytest.mark.parametrize("first", [1, 2**26, 2**27 - 10, 2**40])
@pytest.mark.parametrize("seed", range(6))
def test_the_last_access_to_any_of_some_bytes(seed: int, first: int, page: int) -> None:
    """With times that need wide entries from the start, in the middle, or never; as one page, and as many."""
    rng, bits = random.Random(seed), 4
    shadow, time = Shadow(SIZE, bits), first
    shadow.page = page
    touched: dict[int, list[tuple[int, int]]] = {}
    for _ in range(60):
        where, places, start = extents(rng)
        shadow.record(WRITE, 1, time, statement := rng.randrange(1 << bits), where, start)
        for place in places:
            touched.setdefault(place, []).append((time, statement))
        time += rng.randint(1, 3)
        where, places, start = extents(rng)
        asked = rng.randint(first - 1, time)
        layer = shadow.layers[WRITE, 1]
        for found, expected in (
            (layer.last(where, start, asked), latest(touched, places, asked, time)),
            (layer.last_until(asked, where, start), latest(touched, places, 0, asked)),
            (next(shadow.unordered(READ, 0, [0, asked], where, start), None), latest(touched, places, asked, time)),
        ):
            assert found == (None if expected is None else Earlier(WRITE, 1, *expected))
        assert not list(shadow.unordered(READ, 1, [0, 0], where, start))  # a pipe is in order with itself
    widths = {each.entries.dtype for each in layer.pages.values() if each.latest >= 2**27 or time <= 2**27}
    assert widths == {np.dtype(np.int64 if time > 2**27 else np.int32)}


@pytest.mark.parametrize("seed", range(40))
def test_pieces_are_the_bytes_of_an_extent(seed: int) -> None:
    rng = random.Random(seed)
    where, places, start = extents(rng)
    page = rng.choice([1, 3, 8, 32, SIZE])
    found = [
        page * number + at
        for number, part, ahead in where.pieces(start, page)
        for at in part.get(np.arange(page), ahead).ravel().tolist()
    ]
    assert sorted(set(found)) == sorted(places)
    assert where.listed is not None or len(found) == len(places)
    assert all(ahead + part.end <= page for _, part, ahead in where.pieces(start, page))


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("page", [5, 16])
def test_accesses_of_earlier_blocks_are_not_hidden_by_the_running_one(seed: int, page: int) -> None:
    """`last_until` against a list of all accesses, of which the latest of the current block and the latest of the ones
    before count for each byte."""
    rng = random.Random(seed)
    shadow, time, since = Shadow(SIZE, 4), 1, 0
    shadow.page = page
    touched: dict[int, list[tuple[int, int]]] = {}
    for _ in range(60):
        if rng.random() < 0.2:
            since = time - 1
        where, places, start = extents(rng)
        if shadow.layers:
            before = [[each for each in touched.get(place, []) if each[0] <= since] for place in places]
            expected = max((each[-1] for each in before if each), default=None)
            found = shadow.layers[WRITE, 1].last_until(since, where, start)
            assert found == (None if expected is None else Earlier(WRITE, 1, *expected))
        where, places, start = extents(rng)
        shadow.record(WRITE, 1, time, statement := rng.randrange(16), where, start, since)
        for place in places:
            touched.setdefault(place, []).append((time, statement))
        time += 1


def test_a_shadow_grows_with_what_is_touched_not_with_the_array() -> None:
    """Four rows of a table of a million, on each of two pipes, in two blocks."""
    rows, cols = 1 << 20, 256
    shadow = Shadow(rows * cols, 8)
    for time, first in enumerate((0, 7_000, 500_000, rows - 1), 1):
        for how, pipe in ((WRITE, 0), (READ, 1)):
            shadow.record(how, pipe, time, 3, Extent(1, cols, 0), first * cols)
            shadow.record(how, pipe, time + 10, 3, listed(np.arange(cols), 1), first * cols, since=9)
    assert shadow.nbytes <= 8 * 2 * 4 * MOST_PAGED
    found = shadow.layers[WRITE, 0].last_until(9, Extent(1, 1, 0), 7_000 * cols)
    assert found == Earlier(WRITE, 0, 2, 3)
