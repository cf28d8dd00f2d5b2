"""Owners as Ray actors: killed, stopped and started again while calls are under way."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

import ptokit as pto
from ptokit.sharded import table as table_calls
from ptokit.sharded.ray_owners import is_worker
from tests.property.strategies import FUZZ
from tests.sharded import calls
from tests.sharded.forked import Forked
from tests.sharded.inprocess import same

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="needs /proc"),
    pytest.mark.filterwarnings("ignore::ptokit.finding.HazardWarning"),
]

KILLS, PARTS = (500, 4) if FUZZ else (20, 1)
EXAMPLES = 8
"""Tables of a run of Hypothesis, each with its own selection of calls."""
MANY = 100
"""Kills from which on some fall into each kind of call."""
DELAYS = (0, 0.001, 0.003, 0.01, 0.1, 0.5, 1.0)
"""Seconds from the begin of a call to a kill."""
ARRAY = np.arange(4000, dtype="float32").reshape(100, 40)


def kill(process: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


def is_running(process: int) -> bool:
    """Whether a process runs, and is not only waited for."""
    try:
        return Path(f"/proc/{process}/stat").read_bytes().rpartition(b")")[2].split()[0] != b"Z"
    except OSError:
        return False


class Killer:
    """Ends owners of a table with `kill -9`, now or in the middle of what comes next, a restart among it."""

    def __init__(self, part: int, runs: Callable[[int], bool], delays: tuple[float, ...]) -> None:
        self._runs, self._delays = runs, delays
        self.rng, self.calls, self.call = random.Random(part), 0, ""
        self.killed: set[int] = set()
        self.during: Counter[str] = Counter()
        """Kills since calls of each kind began."""
        self._tables = 0
        self._timers: list[threading.Timer] = []

    def begin(self) -> None:
        """Before each table. The first of a run is Hypothesis's simplest example, always the same call: no kills."""
        self._tables += 1

    def disturb(self, table: Any, call: str) -> None:
        """Before each call: kill some owners, perhaps."""
        if self._tables % EXAMPLES == 1:
            return
        self.calls, self.call = self.calls + 1, call
        if self.rng.random() < 0.25:
            after, count = self.rng.choice(self._delays), self.rng.randint(1, table.shards)
            self._timers.append(threading.Timer(after, self._kill, [table, count]))
            self._timers[-1].start()

    def _kill(self, table: Any, count: int) -> None:
        for process in [each for each in table.owner_pids() if self._runs(each)][:count]:
            if process not in self.killed:
                kill(process)
                self.killed.add(process)
                self.during[self.call] += 1

    def join(self) -> None:
        """Wait for the kills to come."""
        for timer in self._timers:
            timer.join()
        self._timers.clear()


def under_kills(
    killer: Killer, kills: int, path: Path, patch: pytest.MonkeyPatch, number: int = 0, **options: Any
) -> None:
    """Random calls while owners are killed. Counted are processes that ran; owners start again for no other reason."""
    seen: list[Any] = []

    class Machine(calls.TableCalls):
        folder = str(path / "checkpoint")

        def made(self, array, shards, by):
            limits = killer.rng.choice([{}, {"log_bytes": 600}, {"log_memory": 0}])
            patch.setattr(table_calls, "LEAST_SHARED", killer.rng.choice([0, 1 << 18]))  # tables are small here
            killer.begin()
            return pto.ShardedTable.create(array, shards, by, **limits, **options)

        def disturb(self, call: str) -> None:
            killer.disturb(self.table, call)

        def teardown(self) -> None:
            killer.join()
            if self.table is not None:
                seen.extend(self.table.findings)
            super().teardown()

    while len(killer.killed) < kills:
        number += 1
        how = settings(
            max_examples=EXAMPLES, stateful_step_count=12, deadline=None, database=None, phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        run_state_machine_as_test(seed(number)(Machine), settings=how)
        count = f"{len(killer.killed)} kills, {len(seen)} restarts, {killer.calls} calls"
        print(f"{count}; kills by call: {dict(killer.during)}", flush=True)
    assert seen and {finding.level for finding in seen} == {"note"}
    restarted = [re.search(r"\(process (\d+)\).* started again as process", finding.message) for finding in seen]
    assert all(found and int(found[1]) in killer.killed for found in restarted)
    assert kills < MANY or {"gather", "scatter", "checkpoint", "restore", "rebalance"} <= {*killer.during}


@pytest.mark.parametrize("part", range(PARTS))
def test_calls_under_kills_give_the_bits_of_one_process(
    ray: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    under_kills(Killer(part, is_worker, DELAYS), KILLS // PARTS, tmp_path, monkeypatch, 1000 * part)


def test_many_kills_of_processes_without_ray(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killer = Killer(0, is_running, tuple(delay / 10 for delay in DELAYS))
    under_kills(killer, KILLS if FUZZ else 6, tmp_path, monkeypatch, _owners=Forked(), threads=1)


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
    with pto.ShardedTable.create(ARRAY, timeout=6) as table:
        table.scatter(1, np.arange(100), atomic="add")
        process = table.owner_pids()[0]
        os.kill(process, signal.SIGSTOP)
        handle = table.gather_async(np.arange(100))
        with pytest.raises(TimeoutError):
            handle.result(timeout=0.2)
        assert not table.findings
        assert np.array_equal(handle.result(), ARRAY + 1)
        assert "did not answer within 6 s" in table.findings[0].message
        assert not is_worker(process)


def test_owners_share_memory_and_leave_none(ray: Any) -> None:
    with pto.ShardedTable.create(ARRAY) as table:
        assert all(shard.about["shares"] for shard in table._group.shards)
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


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KiB in memory."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = shutil.which("mount")
    how = [str(mount), "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)]
    if mount is None or subprocess.run(how, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_a_full_disk_loses_nothing(ray: Any, small_disk: Path) -> None:
    saved, wanted, all_rows = small_disk / "saved", ARRAY + 1, np.arange(100)
    with pto.ShardedTable.create(ARRAY, directory=small_disk, log_memory=0, log_bytes=30_000) as table:
        table.scatter(1, all_rows, atomic="add")
        table.checkpoint(saved)
        whole = sorted(saved.iterdir())
        with suppress(OSError), open(small_disk / "filler", "wb", buffering=0) as filler:
            while True:
                filler.write(bytes(4096))
        for call in (
            lambda: table.scatter(ARRAY, all_rows, atomic="add"),  # the log
            lambda: table.scatter(np.tile(ARRAY, (2, 1)), np.tile(all_rows, 2), atomic="add"),  # its bound
            lambda: table.checkpoint(saved),
            lambda: table.restore(saved),
        ):
            with pytest.raises(pto.ShardedError, match="No space left on device"):
                call()
            assert same(table, wanted)
        assert sorted(saved.iterdir()) == whole
        kill(table.owner_pids()[0])
        assert same(table, wanted)
        (small_disk / "filler").unlink()
        table.scatter(ARRAY, all_rows, atomic="add")
        kill(table.owner_pids()[1])
        assert same(table, wanted + ARRAY)
        table.restore(saved)
        assert same(table, wanted)


def test_a_task_gets_no_table(ray: Any) -> None:
    with pto.ShardedTable.create(ARRAY) as table:
        with pytest.raises(pto.ShardedError, match="cannot be copied or passed to another process"):
            ray.remote(lambda given: len(given)).remote(table)
        with pytest.raises(pto.ShardedError, match="cannot be copied or passed to another process"):
            ray.put(table)
        assert same(table, ARRAY)


PROGRAM = """
import io, os, signal, sys, time
import numpy as np
import ptokit as pto
from ptokit.sharded import ray_owners
if sys.argv[1] == "program":
    os.environ[ray_owners.LOOPBACK_ONLY] = "0"
    import ray
    ray.init("local", include_dashboard=False, log_to_driver=False)
    assert ray.util.get_node_ip_address() in ray_owners.LOOPBACK
own, sys.stdout, sys.stderr = sys.stdout, io.StringIO(), io.StringIO()
with pto.ShardedTable.create(np.zeros((10, 4), "float32")) as table:
    os.kill(table.owner_pids()[0], signal.SIGKILL)
    table.scatter(1, np.arange(10))
    assert table.gather(np.arange(10)).all() and len(table.findings) == 1
    until = time.monotonic() + 60
    while time.monotonic() < until and "died" not in sys.stdout.getvalue() + sys.stderr.getvalue():
        time.sleep(0.05)
print([name for name in ("stdout", "stderr") if "died" in getattr(sys, name).getvalue()], file=own)
"""


@pytest.mark.parametrize(("started_by", "stream"), [("table", "stderr"), ("program", "stdout")])
def test_reports_of_ray_are_no_output_of_the_program(started_by: str, stream: str) -> None:
    """A Ray that the table has started writes to stderr; one of the program does what it does."""
    pytest.importorskip("ray")
    command = [sys.executable, "-c", PROGRAM, started_by]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout) == (0, f"['{stream}']\n"), done.stderr
