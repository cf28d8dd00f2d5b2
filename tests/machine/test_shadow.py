"""The last access to a byte: layers of a memory against a naive record of every byte."""

from __future__ import annotations

import random

import numpy as np
import pytest

from ptokit.engine.storage import region
from ptokit.isa.layout import Layout
from ptokit.machine.extent import Extent, extent_of, listed
from ptokit.machine.shadow import READ, WRITE, Earlier, Shadow

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


@pytest.mark.parametrize("first", [1, 2**26, 2**27 - 10, 2**40])
@pytest.mark.parametrize("seed", range(6))
def test_the_last_access_to_any_of_some_bytes(seed: int, first: int) -> None:
    """With times that need wide entries from the start, in the middle, or never."""
    rng, bits = random.Random(seed), 4
    shadow, time = Shadow(SIZE, bits), first
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
    assert layer.entries.dtype == (np.int64 if time > 2**27 else np.int32)
