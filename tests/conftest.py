"""Shared set-up: the `clause` marker, and the clause coverage printed at the end of every run."""

from __future__ import annotations

import pytest

from conformance.coverage import summary


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "clause(*ids): the clauses that a test is about")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.write_line(f"coverage: {summary()}")
