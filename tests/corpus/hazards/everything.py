"""All cases of the corpus."""

from __future__ import annotations

import re
from collections.abc import Iterable

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
    vectors,
)
from tests.corpus.hazards.case import Case
from tests.loops import FULL

MODULES = (
    *(order, cores, budgets, tables, indices, blocks, repeats, memory, scratch, launch, tails, overlaps, flags, lines),
    vectors,
)
CASES: tuple[Case, ...] = tuple(case for module in MODULES for case in module.CASES)


def few(cases: Iterable[Case], *, turn: int = 0, full: bool = FULL) -> list[Case]:
    """One of several cases that differ in a number, on one of their targets: on one after the other, from `turn` on. If
    `full`, all of them."""
    alike: dict[tuple[str, str, bool], dict[str, Case]] = {}
    kept = [*cases]
    for case in kept:
        alike.setdefault((case.kind, re.sub(r"\d+", "", case.name), case.bad), {}).setdefault(case.target, case)
    by_turns = ([*each.values()][(turn + k) % len(each)] for k, each in enumerate(alike.values()))
    return kept if full else [*by_turns]
