"""Pages show the real outcome of an example on every target; code that meets a clause is legal on hardware."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from typing import Any

import pytest

from ptokit import spec
from ptokit.engine.storage import Storage
from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.render import pages
from tests.conformance.harness import run, targets_of
from tests.conformance.outcomes import outcome, outcomes
from tests.engine.native.calls import Inexpressible, every_call
from tests.engine.native.calls import outcome as tried
from tests.loops import FULL
from tests.machine.both import MachineCall, tile_names
from tests.render_text import text_of

BREAKING = sorted(name for name, example in spec.examples().items() if example.breaks)
SCATTERS = sorted(name for name, example in spec.examples().items() if "scatter" in example.meets)
REPEATS = {"H-14", "H-15", "H-16", "H-17"}


@pytest.mark.parametrize("name", BREAKING)
def test_a_page_says_what_the_run_shows(name: str) -> None:
    shown = outcomes(name)
    assert list(spec.outcomes().get(name, ())) == shown, "`make generated` writes the outcomes"
    assert "runs" not in {outcome for row in shown for outcome in row.values()}
    page = text_of(pages.clause_page(name) if name in spec.clauses() else pages.gap_page(name))
    labels = [line.removeprefix("Breaks it: ") for line in page.splitlines() if line.startswith("Breaks it: ")]
    assert len(labels) == len(shown)
    for label, row in zip(labels, shown, strict=True):
        assert all(said in label for said in row.values())
        targets = [target for target in row if f"{target}:" in label or f"{target}," in label]
        assert targets == ([] if len(set(row.values())) == 1 else list(row))


def test_there_are_no_outcomes_without_an_example() -> None:
    assert sorted(spec.outcomes()) == BREAKING


WAYS = {
    "raise ValueError": "raises ValueError",
    "assert 1 > 2": "the assertion fails",
    "pass": "runs",
    "pto.mgather(pto.Tile('vec', 'float32', 1, 8), pto.GlobalTensor(np.zeros((4, 8), 'float32')), "
    "pto.Tile('vec', 'int32', 1, 8, valid=(1, 1)).write(4))": "OutOfBoundsError, MG-OOB-04 (H-10)",
    "with pto.target('a2a3'): pto.mgather(pto.Tile('vec', 'float32', 1, 8), pto.GlobalTensor(np.zeros((4, 8), "
    "'float32')), pto.Tile('vec', 'int32', 1, 8, valid=(1, 2)))": "refused by MG-MODE-03 (H-09) on a2a3",
    "pto.mgather(pto.Tile('vec', 'float32', 1, 8), pto.GlobalTensor(np.zeros((4, 8), 'float32')), "
    "pto.Tile('vec', 'int32', 1, 8, valid=(1, 1)).write(-1), oob='clamp')": "warned of by MG-HAZ-12 (H-13)",
}


@pytest.mark.parametrize("code", WAYS)
def test_the_outcome_of_some_code(code: str) -> None:
    assert outcome(code, "a5") == WAYS[code]


@contextmanager
def repeats_seen() -> Iterator[dict[str, None]]:
    """In this context the machine checks every eager call, and its reports of repeated destinations are collected."""
    found: dict[str, None] = {}

    def look(call: Any, storages: Sequence[Storage]) -> None:
        names = tile_names(call.names, call.key[3], storages)
        try:
            machine = MachineCall(call.key, names)
        except Inexpressible:
            return
        reports: list[Any] = []
        tried(storages, lambda tell: reports.append(machine.run(storages)))
        found.update({str(f): None for report in reports for f in report.findings if f.kind in REPEATS})

    with every_call(look):
        yield found


@pytest.mark.parametrize("name", SCATTERS)
def test_what_meets_a_clause_has_no_repeats_that_the_machine_reports(name: str) -> None:
    example = spec.examples()[name]
    for (k, target), op in product(enumerate(targets_of(name)), example.each or ("",)):
        if not FULL and (k + sum(f"{name} {op}".encode())) % len(targets_of(name)):  # on one target, by turns
            continue
        with repeats_seen() as found:
            run(example.meets, target, op)
        assert not found, f"on {target}: {next(iter(found))}"


def test_the_machine_does_look_at_the_calls_of_examples() -> None:
    assert {"mscatter", "tscatter"} <= set(INSTRUCTIONS)
    code = "pto.mscatter(pto.GlobalTensor(np.zeros((4, 8), 'int32')), pto.Tile('vec', 'int32', 2, 8).write(1), "
    with repeats_seen() as found:
        run(code + "pto.Tile('vec', 'int32', 2, 1).write([[1], [1]]))", "a5")
    assert [said for said in found if "MS-CONF-02, H-14" in said]
