"""A page as plain parts, which the terminal and Markdown show."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from rich.console import Console, Group, RenderableType
from rich.syntax import Syntax
from rich.text import Text

from ptokit.progress import may_escape
from ptokit.render.tables import FoldingGrid, PageTitle

Link = Callable[[str], str | None]
"""The address of a clause, a decision or a hazard; None if it has no page."""
NAMES = re.compile(r"\b(?:[A-Z]{2}-[A-Z0-9]+-\d\d|[A-Z]{1,2}-\d\d)\b")
"""Clauses, decisions and hazards in a text."""


def new_console(**options: bool) -> Console:
    """A console of Rich. Its own reading of `NO_COLOR` leaves out colours only, and so does `FORCE_COLOR` win."""
    return Console(**options, color_system="auto" if may_escape() else None)  # type: ignore[arg-type]


class PagePart(ABC):
    """A part of a page."""

    @abstractmethod
    def shown(self) -> Iterator[RenderableType]:
        """The part in the terminal."""

    @abstractmethod
    def written(self, link: Link, level: int) -> str:
        """The part as Markdown; `level` is that of the page's head, and for a heading its own."""


@dataclass(frozen=True)
class Title(PagePart):
    """The head of a page, or of one of its main parts."""

    name: str
    remark: str
    level: int = 1

    def shown(self) -> Iterator[RenderableType]:
        if self.level > 1:
            yield Text()
        yield PageTitle(self.name, self.remark)

    def written(self, link: Link, level: int) -> str:
        head = f"{'#' * (level + self.level - 1)} {self.name}"
        return f"{head}\n\n{_prose(self.remark, link)}" if self.remark else head


@dataclass(frozen=True)
class Heading(PagePart):
    """The head of a section."""

    text: str
    is_minor: bool = False
    """Whether a table of contents leaves it out."""

    def shown(self) -> Iterator[RenderableType]:
        yield Text(f"\n{self.text}", style="bold")

    def written(self, link: Link, level: int) -> str:
        return f"**{_prose(self.text, link)}**" if self.is_minor else f"{'#' * level} {plain(self.text)}"


@dataclass(frozen=True)
class Line(PagePart):
    """A paragraph."""

    text: str
    style: str = ""

    def shown(self) -> Iterator[RenderableType]:
        yield Text(self.text, style=self.style)

    def written(self, link: Link, level: int) -> str:
        return _prose(self.text.strip(), link)


@dataclass(frozen=True)
class Items(PagePart):
    """A list of lines."""

    texts: tuple[str, ...]
    is_fixed: bool = False
    """Whether their spaces count."""

    def shown(self) -> Iterator[RenderableType]:
        return (Text(f"  {text}") for text in self.texts)

    def written(self, link: Link, level: int) -> str:
        if self.is_fixed:
            return "\n".join(("```text", *self.texts, "```"))
        return "\n".join(f"- {_prose(text.strip(), link)}" for text in self.texts)


@dataclass(frozen=True)
class TableRows(PagePart):
    """A table; the terminal does not show its columns' names."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    code: tuple[int, ...] = ()
    """Columns of source text."""

    def shown(self) -> Iterator[RenderableType]:
        yield FoldingGrid(self.rows)

    def written(self, link: Link, level: int) -> str:
        used = [k for k in range(len(self.columns)) if any(row[k : k + 1] not in ((), ("",)) for row in self.rows)]
        lines = [[self._cell(k, row[k], link) if k < len(row) else "" for k in used] for row in self.rows]
        names = [self.columns[k] for k in used]
        return "\n".join(f"| {' | '.join(line)} |" for line in (names, ["---"] * len(names), *lines))

    def _cell(self, column: int, text: str, link: Link) -> str:
        words = _source(text) if column in self.code else _prose(text, link).replace("\n", "<br>")
        return words.replace("|", "\\|")


@dataclass(frozen=True)
class Code(PagePart):
    """Python source."""

    text: str

    def shown(self) -> Iterator[RenderableType]:
        text = Syntax("", "python", background_color="default").highlight(self.text.strip())
        text.no_wrap, text.overflow = True, "ignore"
        yield text

    def written(self, link: Link, level: int) -> str:
        return f"```python\n{self.text.strip()}\n```"


@dataclass(frozen=True)
class TextPage:
    """Parts of a page; Rich prints it."""

    parts: tuple[PagePart, ...]

    @classmethod
    def of(cls, *parts: PagePart | Iterable[PagePart]) -> TextPage:
        """A page of parts, and of parts in sequences."""
        return cls(tuple(each for part in parts for each in ((part,) if isinstance(part, PagePart) else part)))

    def __rich__(self) -> Group:
        return Group(*(shown for part in self.parts for shown in part.shown()))

    def markdown(self, link: Link = lambda _: None, level: int = 1) -> str:
        """The page as Markdown; `link` gives addresses of names, `level` is that of its head."""
        written: list[str] = []
        below = level + 1
        for part in self.parts:
            below = level + part.level if isinstance(part, Title) else below
            written.append(part.written(link, below if isinstance(part, Heading) else level))
        return "\n\n".join(written) + "\n"


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
