"""Owners as Ray actors: killed, stopped and started again while calls are under way."""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

import ptokit as pto
from ptokit.sharded.ray_owners import is_worker
from tests.property.strategies import FUZZ
from tests.sharded import calls
from tests.sharded.inprocess import same

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="needs /proc"),
    pytest.mark.filterwarnings("ignore::ptokit.finding.HazardWarning"),
]

KILLS = 500 if FUZZ else 20
ARRAY = np.arange(4000, dtype="float32").reshape(100, 40)


def kill(process: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


def test_calls_under_kills_give_the_bits_of_one_process(ray: Any, tmp_path: Path) -> None:
    """A killed owner is started again for the next call, so each kill is one restart."""
    rng, killed, seen = random.Random(1), [], []

    class Machine(calls.TableCalls):
        folder = str(tmp_path / "checkpoint")

        def made(self, array, shards, by):
            self.timers = []
            limits = rng.choice([{}, {"log_bytes": 600}, {"log_memory": 0}])
            return pto.ShardedTable.create(array, shards, by, **limits)

        def disturb(self) -> None:
            """Kill an owner now, or in the middle of what comes next."""
            if rng.random() < 0.3:
                process = rng.choice(self.table.owner_pids())
                killed.append(process)
                self.timers.append(threading.Timer(rng.choice([0, 0.001, 0.003, 0.01]), kill, [process]))
                self.timers[-1].start()

        def teardown(self) -> None:
            for timer in getattr(self, "timers", ()):
                timer.join()
            if self.table is not None:
                seen.extend(self.table.findings)
            super().teardown()

    number = 0
    while len({*killed}) < KILLS:
        number += 1
        options = settings(
            max_examples=1, stateful_step_count=60, deadline=None, database=None, phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        run_state_machine_as_test(seed(number)(Machine), settings=options)
    assert seen and {finding.level for finding in seen} == {"note"}
    assert all("started again as process" in finding.message for finding in seen)


def test_a_kill_is_a_finding_and_no_part_of_the_result(ray: Any) -> None:
    with pto.ShardedTable.create(ARRAY) as table:
        wanted = ARRAY.copy()
        for step in range(3):
            table.scatter(step + 1, np.arange(100), atomic="add")
            wanted += step + 1
        kill(table.owner_pids()[1])
        before = table.owner_pids()
        table.scatter(0.5, np.arange(50, 100), atomic="add")
        wanted[50:] += 0.5
        assert same(table, wanted)
        assert table.owner_pids()[0] == before[0] and table.owner_pids()[1] != before[1]
        (finding,) = table.findings
        assert f"owner 1 (process {before[1]})" in finding.message and "4 calls repeated" in finding.message


def test_a_stopped_owner_is_replaced_after_the_timeout(ray: Any) -> None:
    with pto.ShardedTable.create(ARRAY, timeout=2) as table:
        table.scatter(1, np.arange(100), atomic="add")
        process = table.owner_pids()[0]
        os.kill(process, signal.SIGSTOP)
        handle = table.gather_async(np.arange(100))
        with pytest.raises(TimeoutError):
            handle.result(timeout=0.2)
        assert not table.findings
        assert np.array_equal(handle.result(), ARRAY + 1)
        assert "did not answer within 2 s" in table.findings[0].message
        assert not is_worker(process)


def test_owners_share_memory_and_leave_none(ray: Any) -> None:
    with pto.ShardedTable.create(ARRAY) as table:
        assert all(shard.about["shares"] for shard in table._shards)
        first, second = table.gather(np.arange(100)), table.gather(np.arange(50))
        assert np.array_equal(first, ARRAY) and np.array_equal(second, ARRAY[:50])
        processes = table.owner_pids()
        assert all(map(is_worker, processes))
    assert np.array_equal(first, ARRAY)  # results outlive the table
    assert not any(map(is_worker, processes))


def test_files_are_mapped_and_stay(ray: Any, tmp_path: Path) -> None:
    np.save(tmp_path / "table.npy", ARRAY)
    content = (tmp_path / "table.npy").read_bytes()
    with pto.ShardedTable.from_file(tmp_path / "table.npy", 4, "columns") as table:
        table.scatter(0, np.arange(10))
        kill(table.owner_pids()[2])
        assert same(table, np.concatenate([np.zeros_like(ARRAY[:10]), ARRAY[10:]]))
    assert (tmp_path / "table.npy").read_bytes() == content
