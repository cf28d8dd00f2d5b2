"""Random sequences of calls over 1, 2 and 4 shards give the bits of one process, whatever ends the owners."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.property.strategies import FUZZ
from tests.sharded import calls
from tests.sharded.inprocess import InProcess, table

pytestmark = pytest.mark.filterwarnings("ignore::ptokit.finding.HazardWarning")
EXAMPLES = 8 * int(float(FUZZ or "1"))


@pytest.mark.parametrize("kills", [0.0, 0.1])
@pytest.mark.parametrize("shares", [True, False])
def test_calls_give_the_bits_of_one_process(kills: float, shares: bool, tmp_path: Path) -> None:
    rng = random.Random(0)
    ended = []

    def kill(do: str) -> str:
        if rng.random() >= kills:
            return ""
        ended.append(do)
        return rng.choice(["before", "after"])

    class Machine(calls.TableCalls):
        folder = str(tmp_path / "checkpoint")

        def made(self, array, shards, by):
            limits = rng.choice([{}, {"log_bytes": 600}, {"log_memory": 100}, {"log_bytes": 900, "log_memory": 0}])
            return table(array, shards, by, InProcess(kill, shares), **limits)

    options = settings(
        max_examples=EXAMPLES, stateful_step_count=20, deadline=None, database=None, derandomize=FUZZ is None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    run_state_machine_as_test(Machine, settings=options)
    assert not kills or {"scatter", "gather", "save", "load", "hello"} <= {*ended}
