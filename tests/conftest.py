"""Shared set-up: the `clause` marker, and the clause coverage printed at the end of every run."""

from __future__ import annotations

import pytest

from conformance.coverage import covered, in_scope


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "clause(*ids): the clauses that a test is about")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    scope = in_scope()
    done = scope & covered()
    share = 100 * len(done) / len(scope)
    terminalreporter.write_line(
        f"clause coverage: {len(done)} of {len(scope)} clauses in scope have a test ({share:.0f} %)"
    )
