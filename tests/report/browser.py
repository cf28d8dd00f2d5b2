"""Debian's chromium, driven by playwright."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 800}


def missing() -> str:
    """What a test in a browser lacks here; empty if nothing."""
    if chromium() is None:
        return "no chromium is installed"
    try:
        import playwright.sync_api  # noqa: F401
    except ImportError:
        return 'playwright is not installed: pip install "ptokit[browser]"'
    return ""


def chromium() -> str | None:
    return shutil.which("chromium") or shutil.which("chromium-browser")


@contextmanager
def started() -> Iterator[Any]:
    """A browser without a window, and without a network."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium(), args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


class OpenPage:
    """A page of a report, with what went wrong in it."""

    def __init__(self, browser: Any, file: Path, *, size: dict[str, int] = DESKTOP, scheme: str = "light") -> None:
        self.page = browser.new_page(viewport=size, color_scheme=scheme)
        self.problems: list[str] = []
        self.page.on("console", lambda message: self.problems.append(message.text))
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("request", lambda request: request.url.startswith("file:") or self.problems.append(request.url))
        self.page.goto(file.as_uri())

    def run(self, script: str, *values: Any) -> Any:
        """The value of an expression; `report` is what the page offers to scripts, `plot` its first plot."""
        names = "const report = window.ptokitReport, plot = report.pictures().find((each) => 'drawn' in each);"
        return self.page.evaluate(f"(values) => {{ {names} return {script}; }}", list(values))

    def pixels(self, number: int = 0) -> str:
        """What a canvas shows."""
        return self.page.evaluate("(k) => document.querySelectorAll('canvas')[k].toDataURL()", number)

    def point_at(self, canvas: int, x: float, y: float) -> str:
        """The hover text at a point of a canvas."""
        target = self.page.locator("canvas").nth(canvas)
        target.scroll_into_view_if_needed()
        box = target.bounding_box()
        self.page.mouse.move(box["x"] + x, box["y"] + y)
        return self.tip()

    def tip(self) -> str:
        tip = self.page.locator("#tip")
        return tip.text_content() if tip.is_visible() else ""
