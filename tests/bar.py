"""A progress bar on a terminal instead of dots, for long runs: `pytest -p tests.bar`."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import ExitStack
from typing import Any

import pytest

from ptokit import progress


class Bar:
    """Counts the tests of a run."""

    def __init__(self) -> None:
        self._open = ExitStack()
        self.tests = progress.Task()

    def pytest_sessionstart(self) -> None:
        self.tests = self._open.enter_context(progress.task("tests", None, "tests"))

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.tests.total = len(session.items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        """With several processes, each collects all tests."""
        self.tests.total = len(ids)

    def pytest_runtest_logfinish(self) -> None:
        self.tests.done += 1

    @pytest.hookimpl(wrapper=True)
    def pytest_report_teststatus(self, report: Any) -> Generator[None, Any, Any]:
        """No dot for what passes."""
        status = yield
        return (status[0], "", "") if getattr(report, "passed", False) else status

    def pytest_sessionfinish(self) -> None:
        self._open.close()


def pytest_configure(config: pytest.Config) -> None:
    if progress.is_wanted(sys.stderr) and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Bar())
