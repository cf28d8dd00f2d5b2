"""Random sequences of calls over 1, 2 and 4 shards give the bits of one process, whatever ends the owners."""

from __future__ import annotations

import random
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from ptokit.sharded import table as table_calls
from tests.property.strategies import FUZZ
from tests.sharded import calls
from tests.sharded.inprocess import InProcess, table

pytestmark = pytest.mark.filterwarnings("ignore::ptokit.finding.HazardWarning")
EXAMPLES = 16 * int(float(FUZZ or "1"))
IN_A_ROW, LONGEST_START = 4, 40
"""Ends of owners before some messages without: a table gives up after 8 starts that fail, of all calls so far each."""


@pytest.mark.parametrize("kills", [0.0, 0.1])
@pytest.mark.parametrize("shares", [True, False])
def test_calls_give_the_bits_of_one_process(
    kills: float, shares: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, messages = random.Random(0), 0
    ended: list[str] = []
    during: set[str] = set()
    quiet = 0
    """The message until which no owner ends."""

    def kill(do: str) -> str:
        nonlocal messages, quiet
        messages += 1
        if messages < quiet or rng.random() >= kills:
            return ""
        ended.append(do)
        during.add(do)
        if len(ended) % IN_A_ROW == 0:
            quiet = messages + LONGEST_START
        return rng.choice(["before", "after"])

    class Machine(calls.TableCalls):
        folder = str(tmp_path / "checkpoint")

        def made(self, array, shards, by):
            nonlocal quiet
            rng.seed(crc32(array.tobytes()))  # an example that is run again is the same
            ended.clear()
            quiet = 0
            monkeypatch.setattr(table_calls, "LEAST_SHARED", rng.choice([0, 1 << 18]))  # tables are small here
            limits = rng.choice([{}, {"log_bytes": 600}, {"log_memory": 100}, {"log_bytes": 900, "log_memory": 0}])
            return table(array, shards, by, InProcess(kill, shares), **limits)

    options = settings(
        max_examples=EXAMPLES, stateful_step_count=20, deadline=None, database=None, derandomize=FUZZ is None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    run_state_machine_as_test(Machine, settings=options)
    assert not kills or {"scatter", "gather", "save", "load", "hello"} <= during
