"""All cases of the corpus."""

from __future__ import annotations

from tests.corpus.hazards import blocks, budgets, cores, indices, launch, memory, order, repeats, scratch, tables
from tests.corpus.hazards.case import Case

MODULES = (order, cores, budgets, tables, indices, blocks, repeats, memory, scratch, launch)
CASES: tuple[Case, ...] = tuple(case for module in MODULES for case in module.CASES)
