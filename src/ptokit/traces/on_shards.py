"""A trace on a sharded table: how many accesses each owner of rows serves."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from ptokit.finding import VerifyError
from ptokit.sharded import ray_owners
from ptokit.sharded.messages import ShardedError
from ptokit.sharded.table import ShardedTable
from ptokit.traces.file import IndexTrace
from ptokit.traces.on_host import compact, memory_of, why_not
from ptokit.traces.replay import ReplaySettings, Row, each_table, first_cells, refused
from ptokit.traces.traced_calls import NOWHERE, Array, CompactTable, LookupKind


def run(trace: IndexTrace, settings: ReplaySettings) -> tuple[list[Row], list[str]]:
    """A row for each table, kind of call and owner."""
    rows: list[Row] = []
    notes: list[str] = []
    with _sharded_tables() as sharded:
        for made in each_table(trace, why_not, partial(compact, settings), notes):
            rows += _rows(made, sharded, settings.shards)
    return rows, notes


@contextmanager
def _sharded_tables() -> Generator[Any, None, None]:
    """The class of sharded tables, with Ray running; a Ray that is started for it ends with it."""
    was_running = "ray" in sys.modules and sys.modules["ray"] is not None and sys.modules["ray"].is_initialized()
    try:
        ray = ray_owners.connected()
    except ShardedError as problem:
        raise ValueError(f"a replay on a sharded table: {problem}") from problem
    try:
        yield ShardedTable
    finally:
        if not was_running:
            ray.shutdown()


def _rows(made: CompactTable, sharded: Any, shards: int) -> list[Row]:
    array, calls = memory_of(made)
    held = sharded.create(array, shards=shards)
    try:
        for call in calls:
            _call(held, made.what, call.indices, call.data)
    except VerifyError as refusal:
        return [{**first_cells(made.what), "verdict": refused(refusal)}]
    else:
        pieces = sorted(held.placement)
    finally:
        held.close()
    touched = np.concatenate([call.entry[call.entry != NOWHERE] for call in made.calls])
    owners = np.array([owner for _, _, owner in pieces])
    found = owners[np.searchsorted([stop for _, stop, _ in pieces], touched, side="right")]
    counts = np.bincount(found, minlength=shards).tolist()
    return [
        {**first_cells(made.what), "owner": owner, "accesses": count, "share": count / max(1, touched.size)}
        for owner, count in enumerate(counts)
    ]


def _call(held: Any, what: LookupKind, indices: Array, data: Array) -> None:
    if what.writes:
        held.scatter(data, indices, oob=what.oob, reduce=what.atomic)
    else:
        held.gather(indices, oob=what.oob)
