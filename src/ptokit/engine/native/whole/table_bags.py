"""Bags of rows of many tables in one launch: threads take ranges of bags, whatever the width and mode of a table."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from ptokit.engine.bag_arguments import BagsKind, TableBags
from ptokit.engine.llvm.bag_code import supported
from ptokit.engine.native import host
from ptokit.engine.native.whole.strategies import native
from ptokit.engine.native.whole.update_calls import COUNT, WorkUnit, even, launch, team_of, words_of

PIECE = 1 << 18
"""Bytes of the rows of a range."""
UNSIGNED = (1 << 64) - 1


def run(given: Sequence[TableBags], threads: int | None) -> bool:
    """Reduce bags of tables that share their lanes; bounds of each begin where those of the one before end. False if an
    index is outside of its table, and then nothing of the result counts."""
    kinds = [_kind(each) for each in given]
    sizes = [each.sizes.lanes // len(given) * each.kind.width * each.kind.dtype.size for each in given]
    team = team_of(sum(sizes), threads)
    jobs = np.array([each.words for each in given], np.int64)
    units: list[WorkUnit] = []
    for job, (each, nbytes) in enumerate(zip(given, sizes, strict=True)):
        bags = each.sizes.bags
        cuts = even(bags, max(1, min(bags, nbytes // PIECE)) if team.threads else 1)
        units += [WorkUnit(job, a, b) for a, b in pairwise(cuts)]
    work = words_of(units, jobs, [native("table_bags", kinds[unit.job]).address for unit in units])
    launch(work, team)
    return all(
        greatest & UNSIGNED < given[unit.job].sizes.capacity
        for unit, greatest in zip(units, work[:, COUNT].tolist(), strict=True)
    )


def _kind(bags: TableBags) -> BagsKind:
    is_far = bags.sizes.capacity * bags.kind.width * bags.kind.dtype.size > host.HOST.near
    return supported(bags.kind, far=host.HOST.locality if is_far else None, host=True)
