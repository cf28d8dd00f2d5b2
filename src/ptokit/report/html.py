"""The page: data, markup, style and script in one file."""

from __future__ import annotations

import html
import json
import os
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from ptokit._version import __version__
from ptokit.atomic import write_file
from ptokit.machine.report import MachineReport
from ptokit.report.model import report_data

FORMAT = 1
"""The version of the data."""
PARTS = {"/*style*/": "style.css", "/*script*/": "script.js"}
"""Marks of `page.html`, and the files that replace them."""


def write_page(path: str | os.PathLike[str], reports: Sequence[MachineReport]) -> None:
    """Write the page of some reports; the file is whole, or as it was."""
    write_file(path, page_of([report_data(reports)]).encode("utf-8"))


def page_of(reports: Sequence[dict[str, Any]], command: str = "") -> str:
    """The page of the data of some launches; it shows the first one first."""
    data = {"format": FORMAT, "ptokit": __version__, "command": command, "reports": reports}
    folder = files("ptokit.report") / "page"
    page = (folder / "page.html").read_text(encoding="utf-8")
    for mark, file in PARTS.items():
        page = page.replace(mark, (folder / file).read_text(encoding="utf-8"))
    title = html.escape(reports[0]["title"].encode("utf-8", "replace").decode("utf-8"))
    before, mark, after = page.partition("{{data}}")
    assert mark
    return before.replace("{{title}}", title) + embedded(data) + after


def embedded(data: Any) -> str:
    """JSON that can stand in a script element: it ends none, and opens no comment."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
