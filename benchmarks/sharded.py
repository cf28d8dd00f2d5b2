"""Sharded tables: calls on 4 KB rows with two owners on this machine, against the same calls in one process.

    python benchmarks/sharded.py [--quick]

Required: at least a quarter of the rate of the local gather and of the local scatter with add. Scatters are measured
when the owners' logs have been used up once: until then, each call takes new memory. The other rows say where the time
goes: the same copy in one process (rows that are gathered into a cache and placed from there), routing, and one empty
call.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))

from _measure import interleaved, median, ratio

import ptokit as pto
from ptokit.isa.policy import GatherOOB
from ptokit.ops.array_call import GATHER
from ptokit.sharded.owner import Owner
from ptokit.sharded.placement import AccessCounts, TableGrid, even
from ptokit.sharded.refusals import Refusals
from ptokit.sharded.route import Router

ROW = 1024
"""Elements of a row: 4 KB of float32."""
SHARDS = 2
LOCAL = {
    "sharded by rows, out=": "local, out=",
    "local scatter": "local scatter",
    "local scatter, add": "local scatter, add",
    "sharded scatter": "local scatter",
    "sharded scatter, add": "local scatter, add",
}
"""What a call is compared with, if not with a gather into new memory."""
REQUIRED, LEAST = ("sharded by rows", "sharded scatter, add"), 0.25
"""The required share of the local rate."""


def main() -> int:
    """Print the figures; the status is 1 if the rate is too low."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a quarter of the data, and fewer rounds")
    quick = parser.parse_args().quick
    rows, lanes, rounds = (1 << 14, 1 << 13, 5) if quick else (1 << 16, 1 << 15, 9)
    rng = np.random.default_rng(0)
    array = rng.random((rows, ROW), np.float32)
    indices = rng.integers(0, rows, lanes)
    out = np.zeros((lanes, ROW), np.float32)
    router = Router(TableGrid(rows, ROW, "rows"), even(rows, SHARDS), AccessCounts(rows))
    refusals, policies = Refusals(array.shape, array.dtype), {"coalesce": "row", "oob": "undefined", "mode": None}
    unique = rng.permutation(rows)[:lanes]
    owner, halves = Owner(), np.flatnonzero(rng.random(lanes) < 1 / SHARDS)

    def place() -> None:
        owner._place(out, array, indices[halves], halves, "row")

    def route() -> None:
        list(router.parts(refusals.resolved(GATHER, indices, policies, GatherOOB), True))

    with pto.ShardedTable.create(array, SHARDS) as table, pto.ShardedTable.create(array, SHARDS, "columns") as columns:
        calls = {
            "local": lambda: pto.gather(array, indices),
            "local, out=": lambda: pto.gather(array, indices, out=out),
            "sharded by rows": lambda: table.gather(indices),
            "sharded by rows, out=": lambda: table.gather(indices, out=out),
            "sharded by columns": lambda: columns.gather(indices),
            "local scatter": lambda: pto.scatter(array, out, unique),
            "local scatter, add": lambda: pto.scatter(array, out, indices, atomic="add"),
            "sharded scatter": lambda: table.scatter(out, unique),
            "sharded scatter, add": lambda: table.scatter(out, indices, atomic="add"),
            "half of the rows, placed, one process": place,
            "routing": route,
            "one row": lambda: table.gather(indices[:1]),
        }
        assert np.array_equal(table.gather(indices), array[indices])
        out[:] = array[indices]
        for call in calls.values():
            call()
        for shard in table._group.shards:  # until a state was saved, and the memory of its log is used again
            first = shard.base
            while shard.base is first:
                calls["sharded scatter, add"]()
        times = interleaved(calls, rounds)
    size = lanes * ROW * 4
    moved = {"half of the rows, placed, one process": len(halves) * ROW * 4, "routing": 0, "one row": 0}
    print(f"rows of 4 KB: {lanes:,} of {rows:,}, float32, {SHARDS} owners")
    for name, found in times.items():
        rate = f"{moved.get(name, size) / median(found) / 1e9:6.2f} GB/s" if moved.get(name, size) else " " * 11
        local = times[LOCAL.get(name, "local")]
        print(f"  {name:40}{median(found) * 1e3:9.2f} ms {rate}  {ratio(local, found):6.2f} x local")
    shares = {name: ratio(times[LOCAL.get(name, "local")], times[name]) for name in REQUIRED}
    for name, share in shares.items():
        print(f"{name}: {share:.2f} of the local rate, asked {LEAST}")
    return 0 if min(shares.values()) >= LEAST else 1


if __name__ == "__main__":
    sys.exit(main())
