"""A pytest plugin: with `-p tests.engine.native.both`, every eager call of every test runs on both engines.

At the end it says how many calls ran as machine code, and what never did.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.engine.native.calls import Ways, both_engines

_ways = Ways()


@pytest.fixture(scope="session", autouse=True)
def _on_both_engines() -> Iterator[None]:
    with both_engines(ways=_ways):
        yield


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was compared."""
    if not _ways.quick and not _ways.slow:
        return
    terminalreporter.write_line(
        f"on both engines: {_ways.quick.total()} calls as machine code, {_ways.slow.total()} in Python, "
        f"{_ways.failed} refused, {_ways.outside} that no program can make"
    )
    for instruction, target, route in _ways.never:
        terminalreporter.write_line(f"never as machine code: {instruction} on {target} ({route})")
