"""The kernels over whole arrays, by name."""

from __future__ import annotations

from collections.abc import Callable

from ptokit.engine.cuda.whole.bag_source import BagSite
from ptokit.engine.cuda.whole.direct import check, checked_gather, clear, commit, gather, keys, mark, private, scatter
from ptokit.engine.cuda.whole.grouping import arrange, entries_of, insert, place, spot, start
from ptokit.engine.cuda.whole.kinds import Kind, Tuning
from ptokit.engine.cuda.whole.segments import alone, brief, fold, settle
from ptokit.engine.cuda.whole.site import KernelSite
from ptokit.engine.llvm.chip import Chip

LANES = {"gather": 2.0, "checked_gather": 2.0, "arrange": 2.0, "fold": 0.5}
"""Threads of a block, for each of the chip's; 1 for other kernels."""
OF_INDICES = ("check", "keys", "mark", "clear", "spot", "insert", "start", "place", "arrange")
"""The kernels that read indices only."""
GROUPING = "insert", "start", "place", "arrange"
"""The kernels that bring the lanes of each row together, after `spot` and before `fold`."""
SHARED: dict[str, Callable[[int, Tuning], int]] = {
    "insert": lambda lanes, tuning: 16 * entries_of(lanes, tuning.joined) + 8 * lanes * tuning.joined,
    "start": lambda lanes, _: 16 + 8 * lanes,
    "arrange": lambda lanes, tuning: 8 + lanes * (16 + 4 * tuning.words),
}
"""Bytes of shared memory that kernels need, by threads of a block."""
KERNELS: dict[str, Callable[[KernelSite], None]] = {
    each.__name__: each
    for each in (
        check,
        keys,
        mark,
        clear,
        gather,
        checked_gather,
        scatter,
        private,
        commit,
        settle,
        brief,
        spot,
        alone,
        insert,
        start,
        place,
        arrange,
        fold,
    )
}


def text(chip: Chip, name: str, kind: Kind) -> str:
    """The LLVM text of a kernel."""
    site = (KernelSite if kind.source is None else BagSite)(chip, kind, name)
    KERNELS[name](site)
    return site.text
