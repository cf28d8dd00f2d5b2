"""Shared set-up: the `clause` marker, a look at every finding, and the clause coverage printed after every run."""

from __future__ import annotations

import gc
import os
from collections.abc import Generator
from functools import cache

import pytest
import typer.testing
from hypothesis import settings

from tests import findings
from tests.conformance.coverage import summary

THRESHOLDS = 50_000, 20, 20
"""How many new objects, and how many times before, there are until garbage is looked for."""

EXAMPLES = 100 if os.environ.get("PTOKIT_FUZZ") else 50
"""Examples of a property that names no number."""

settings.register_profile("no clock", deadline=None, max_examples=EXAMPLES)
settings.load_profile("no clock")

typer.testing._get_command = cache(typer.testing._get_command)
"""The commands are made of their functions once, as in a process: to make them takes as long as to run one."""


def pytest_configure(config: pytest.Config) -> None:
    findings.watch()
    config.addinivalue_line("markers", "clause(*ids): the clauses that a test is about")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Modules and tests live to the end of the run: no garbage is looked for while they are made, nor among them later.
    Tests make few cycles, so it is looked for less often than by default: that takes a sixth of their time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(*THRESHOLDS)
        gc.enable()


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """What a file leaves lives to the end: a test that collects garbage does not look through the caches of others."""
    if nextitem is None or nextitem.path != item.path:
        gc.collect(1)
        gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """A test fails if one of its findings has a rule that does not apply to its target."""
    yield
    faults = findings.take_faults()
    assert not faults, "\n".join(faults)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.write_line(f"coverage: {summary()}")
