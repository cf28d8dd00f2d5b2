"""What workers report of tests: whatever does not pass, and that a test has ended."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import Short


class WorkerInteractor:
    """Notes what is sent."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, dict[str, Any]]] = []

    def sendevent(self, name: str, **given: Any) -> None:
        self.sent.append((name, given))


def report(when: Any, outcome: Any, sections: list[tuple[str, str]] | None = None) -> pytest.TestReport:
    return pytest.TestReport("a.py::b", ("a.py", 1, "b"), {}, outcome, None, when, sections or [])


def test_only_what_passes_around_a_test_is_not_reported() -> None:
    worker = WorkerInteractor()
    config: Any = SimpleNamespace(pluginmanager=SimpleNamespace(get_plugins=lambda: {worker}))
    short = Short(config)
    reports = [
        report(when, outcome) for when in ("setup", "call", "teardown") for outcome in ("passed", "failed", "skipped")
    ]
    for each in (*reports, report("teardown", "passed", [("Captured stdout", "words")])):
        data = short.pytest_report_to_serializable(each)
        worker.sendevent("testreport", data={"when": each.when, "outcome": each.outcome} if data is None else data)
    worker.sendevent("logstart", nodeid="a.py::b")
    worker.sendevent("logfinish", nodeid="a.py::b")
    sent = [given["data"] for name, given in worker.sent if name == "testreport"]
    assert [(each["when"], each["outcome"]) for each in sent] == [
        ("setup", "failed"), ("setup", "skipped"), ("call", "passed"), ("call", "failed"), ("call", "skipped"),
        ("teardown", "failed"), ("teardown", "skipped"), ("teardown", "passed"),
    ]  # fmt: skip
    assert [name for name, _ in worker.sent if name != "testreport"] == ["logfinish"]
