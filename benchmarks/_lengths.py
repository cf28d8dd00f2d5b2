"""Numbers of indices that differ from call to call, as batches of a running program do."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise

TINY, SHORT, LONG = "32 to 128", "32 to 4,096", "10 K to 1 M"
BOUNDS = {TINY: (32, 128), SHORT: (32, 4096), LONG: (10_000, 1_000_000)}


def drawn(about: str, count: int, most: int | None = None) -> list[int]:
    """Lengths of a range, log-uniform, none above `most`: always the same ones, and different as far as possible."""
    least, limit = BOUNDS[about]
    limit = min(limit, most or limit)
    least = min(least, limit)
    steps = [least * (limit / least) ** ((step + 0.5) / count) for step in range(count)]
    found = [max(number + least if count <= limit - least else least, round(each)) for number, each in enumerate(steps)]
    return random.Random(0).sample(found, count)


def cuts(about: str, total: int) -> list[slice]:
    """So many indices, cut into lengths of a range."""
    ends = [0]
    for end in accumulate(drawn(about, 2 + total // BOUNDS[about][0], total)):
        ends.append(min(end, total))
        if end >= total:
            break
    return [slice(*each) for each in pairwise(ends)]


def in_turn(calls: Sequence[Callable[[], object]]) -> Callable[[], None]:
    """One call after the other."""

    def run() -> None:
        for call in calls:
            call()

    return run
