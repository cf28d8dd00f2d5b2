"""One browser for all tests of a session, and pages of reports."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.report import browser as browsers
from tests.report.launches import FILES


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    if lacks := browsers.missing():
        pytest.skip(f"tests of reports in a browser: {lacks}")
    with browsers.started() as found:
        yield found


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The file of a report, by its name."""
    folder, made = tmp_path_factory.mktemp("reports"), dict[str, Path]()

    def file(name: str) -> Path:
        if name not in made:
            made[name] = folder / f"{name}.html"
            made[name].write_text(FILES[name](), encoding="utf-8")
        return made[name]

    return file


@pytest.fixture
def opened(browser: Any, files: Callable[[str], Path]) -> Iterator[Callable[..., browsers.OpenPage]]:
    """Open a report; no page may have printed anything, or asked for anything but its own file."""
    pages: list[browsers.OpenPage] = []

    def open_(name: str, **options: Any) -> browsers.OpenPage:
        pages.append(browsers.OpenPage(browser, files(name), **options))
        return pages[-1]

    yield open_
    for each in pages:
        assert each.problems == []
        each.page.close()
