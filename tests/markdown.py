"""Pages of the reference as Markdown, for the documentation site."""

from __future__ import annotations

import re
from collections.abc import Callable

from ptokit.render.document import Code, Heading, Items, Line, PagePart, TableRows, TextPage, Title

Link = Callable[[str], str | None]
"""The address of a clause, a decision or a hazard; None if it has no page."""
NAMES = re.compile(r"\b(?:[A-Z]{2}-[A-Z0-9]+-\d\d|[A-Z]{1,2}-\d\d)\b")
"""Clauses, decisions and hazards in a text."""


def markdown(page: TextPage, link: Link = lambda _: None, level: int = 1) -> str:
    """The page; `link` gives addresses of names, `level` is that of its head."""
    written: list[str] = []
    below = level + 1
    for part in page.parts:
        below = level + part.level if isinstance(part, Title) else below
        written.append(_written(part, link, below if isinstance(part, Heading) else level))
    return "\n\n".join(written) + "\n"


def _written(part: PagePart, link: Link, level: int) -> str:
    """A part; `level` is that of the page's head, and for a heading its own."""
    match part:
        case Title(name, remark, own):
            head = f"{'#' * (level + own - 1)} {name}"
            return f"{head}\n\n{_prose(remark, link)}" if remark else head
        case Heading(text, is_minor):
            return f"**{_prose(text, link)}**" if is_minor else f"{'#' * level} {plain(text)}"
        case Line(text):
            return _prose(text.strip(), link)
        case Items(texts, is_fixed):
            if is_fixed:
                return "\n".join(("```text", *texts, "```"))
            return "\n".join(f"- {_prose(text.strip(), link)}" for text in texts)
        case TableRows():
            return _table(part, link)
        case Code(text):
            return f"```python\n{text.strip()}\n```"
    raise TypeError(part)


def _table(table: TableRows, link: Link) -> str:
    """A table without its empty columns."""

    def cell(column: int, text: str) -> str:
        words = _source(text) if column in table.code else _prose(text, link).replace("\n", "<br>")
        return words.replace("|", "\\|")

    used = [k for k in range(len(table.columns)) if any(row[k : k + 1] not in ((), ("",)) for row in table.rows)]
    lines = [[cell(k, row[k]) if k < len(row) else "" for k in used] for row in table.rows]
    names = [table.columns[k] for k in used]
    return "\n".join(f"| {' | '.join(line)} |" for line in (names, ["---"] * len(names), *lines))


def _source(text: str) -> str:
    lines = (" ".join(line.split()) for line in text.splitlines())
    return "<br>".join(f"`{line}`" for line in lines if line)


def _prose(text: str, link: Link) -> str:
    """Text with links at the names that have pages; what is between backticks stays."""
    parts = re.split(r"(`[^`\n]+`)", text)
    return "".join(part if k % 2 else _linked(part, link) for k, part in enumerate(parts))


def _linked(text: str, link: Link) -> str:
    def found(match: re.Match[str]) -> str:
        address = link(match[0])
        return f"[{match[0]}]({address})" if address else match[0]

    return NAMES.sub(found, plain(text))


def plain(text: str) -> str:
    """Text in which nothing is markup."""
    text = re.sub(r"([\\*_#~\[\]])", r"\\\1", text.replace("&", "&amp;"))
    return text.replace("<", "&lt;").replace(">", "&gt;").replace("`", "\\`")
