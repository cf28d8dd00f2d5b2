"""Shared set-up: the `clause` marker, a look at every finding, and the clause coverage printed after every run."""

from __future__ import annotations

import gc
import os
from collections.abc import Generator
from functools import cache
from typing import Any

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
    if hasattr(config, "workerinput") and not config.option.xmlpath and not config.option.durations:
        config.pluginmanager.register(Short(config))
    config.addinivalue_line("markers", "clause(*ids): the clauses that a test is about")


class Short:
    """Of a worker that runs some of the tests: it does not say that one begins, and reports no set-up and no end that
    passes. To send these takes longer than pytest itself takes for a test."""

    def __init__(self, config: pytest.Config) -> None:
        plugins = config.pluginmanager.get_plugins()
        (worker,) = (each for each in plugins if type(each).__name__ == "WorkerInteractor")
        send = worker.sendevent
        worker.sendevent = lambda name, **given: self._is_said(name, given) and send(name, **given)

    @staticmethod
    def _is_said(name: str, given: dict[str, Any]) -> bool:
        return name != "logstart" and (name != "testreport" or "when" in given["data"])

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_to_serializable(self, report: object) -> dict[str, Any] | None:
        is_short = isinstance(report, pytest.TestReport) and report.when != "call" and report.passed
        return {} if is_short and not report.sections else None


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
