"""A page as plain parts, which the terminal shows, and tests/markdown.py for the documentation site."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from rich.console import Console, Group, RenderableType
from rich.syntax import Syntax
from rich.text import Text

from ptokit.progress import may_escape
from ptokit.render.tables import FoldingGrid, PageTitle


def new_console(**options: bool) -> Console:
    """A console of Rich. Its own reading of `NO_COLOR` leaves out colours only, and so does `FORCE_COLOR` win."""
    return Console(**options, color_system="auto" if may_escape() else None)  # type: ignore[arg-type]


class PagePart(ABC):
    """A part of a page."""

    @abstractmethod
    def shown(self) -> Iterator[RenderableType]:
        """The part in the terminal."""


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


@dataclass(frozen=True)
class Heading(PagePart):
    """The head of a section."""

    text: str
    is_minor: bool = False
    """Whether a table of contents leaves it out."""

    def shown(self) -> Iterator[RenderableType]:
        yield Text(f"\n{self.text}", style="bold")


@dataclass(frozen=True)
class Line(PagePart):
    """A paragraph."""

    text: str
    style: str = ""

    def shown(self) -> Iterator[RenderableType]:
        yield Text(self.text, style=self.style)


@dataclass(frozen=True)
class Items(PagePart):
    """A list of lines."""

    texts: tuple[str, ...]
    is_fixed: bool = False
    """Whether their spaces count."""

    def shown(self) -> Iterator[RenderableType]:
        return (Text(f"  {text}") for text in self.texts)


@dataclass(frozen=True)
class TableRows(PagePart):
    """A table; the terminal does not show its columns' names."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    code: tuple[int, ...] = ()
    """Columns of source text."""

    def shown(self) -> Iterator[RenderableType]:
        yield FoldingGrid(self.rows)


@dataclass(frozen=True)
class Code(PagePart):
    """Python source."""

    text: str

    def shown(self) -> Iterator[RenderableType]:
        text = Syntax("", "python", background_color="default").highlight(self.text.strip())
        text.no_wrap, text.overflow = True, "ignore"
        yield text


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
