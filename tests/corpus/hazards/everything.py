"""All cases of the corpus."""

from __future__ import annotations

from tests.corpus.hazards import (
    blocks,
    budgets,
    cores,
    flags,
    indices,
    launch,
    lines,
    memory,
    order,
    overlaps,
    repeats,
    scratch,
    tables,
    tails,
)
from tests.corpus.hazards.case import Case

MODULES = (
    *(order, cores, budgets, tables, indices, blocks, repeats, memory, scratch, launch, tails, overlaps, flags, lines),
)
CASES: tuple[Case, ...] = tuple(case for module in MODULES for case in module.CASES)
