"""The page: data, markup, style and script in one file."""

from __future__ import annotations

import html
import json
import os
from collections.abc import Callable, Sequence
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
    """Write the page of some reports of one launch; the file is whole, or as it was."""
    first, *others = reports
    for other in others:
        _check_same(first, other)
    write_file(path, page_of([report_data(reports)]).encode("utf-8"))


def _check_same(one: MachineReport, other: MachineReport) -> None:
    """Refuse reports of different launches."""
    for what, value in COMPARED.items():
        if value(one) != value(other):
            found = f"{value(one)} on {one.target} and {value(other)} on {other.target}"
            raise ValueError(f"a page compares reports of one launch; their {what} differ: {found}")


def _types(report: MachineReport) -> str:
    """The arguments of a report's program: `x float32, n`."""
    given = report.program.arguments if report.program else ()
    return ", ".join(f"{each.name} {getattr(each, 'dtype', '')}".strip() for each in given)


COMPARED: dict[str, Callable[[MachineReport], object]] = {
    "kernels": lambda report: report.kernel,
    "numbers of blocks": lambda report: report.grid,
    "arguments": _types,
}
"""What reports of one launch have in common."""


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
