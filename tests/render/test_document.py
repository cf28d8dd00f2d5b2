"""Pages as parts: the same facts in the terminal and as Markdown."""

from __future__ import annotations

import re

from ptokit.render import pages
from ptokit.render.document import Code, Heading, Items, Line, TableRows, TextPage, Title
from tests.markdown import markdown
from tests.render_text import text_of

PAGE = TextPage.of(
    Title("name", "about H-24"),
    [Heading("Part"), Items(("a * b", "c"))],
    TableRows(("x", "y"), (("1 | 2", "MG-OOB-08"), ("", "`a|b` <c>")), code=()),
    Code("f(1)\n"),
    Line("end"),
)


def test_markdown() -> None:
    links = {"H-24": "h.md", "MG-OOB-08": "c.md#mg-oob-08"}
    assert markdown(PAGE, links.get) == (
        "# name\n\nabout [H-24](h.md)\n\n## Part\n\n- a \\* b\n- c\n\n"
        "| x | y |\n| --- | --- |\n| 1 \\| 2 | [MG-OOB-08](c.md#mg-oob-08) |\n|  | `a\\|b` &lt;c&gt; |\n\n"
        "```python\nf(1)\n```\n\nend\n"
    )


def test_headings_are_one_level_below_what_is_above_them() -> None:
    page = TextPage.of(Title("a", ""), Heading("b"), Title("c", "", level=2), Heading("d"), Title("e", "", level=2))
    assert markdown(page, level=2) == "## a\n\n### b\n\n### c\n\n#### d\n\n### e\n"


def test_minor_headings_are_paragraphs() -> None:
    page = TextPage.of(Heading("breaks H-24", is_minor=True))
    assert markdown(page, {"H-24": "h.md"}.get) == "**breaks [H-24](h.md)**\n"


def test_columns_that_are_empty_are_left_out() -> None:
    assert (
        markdown(TextPage.of(TableRows(("a", "b", "c"), (("1", "", "3"),)))) == "| a | c |\n| --- | --- |\n| 1 | 3 |\n"
    )


def test_the_terminal_shows_the_same_words() -> None:
    for page in (PAGE, pages.instruction_page("mscatter"), pages.clause_page("MG-MODE-03"), pages.hazard_page("H-14")):
        shown = re.sub(r"\W+", " ", text_of(page))
        for part in page.parts:
            cells = [cell for row in part.rows for cell in row] if isinstance(part, TableRows) else []
            for words in (*cells, *(part.texts if isinstance(part, Items) else ())):
                assert re.sub(r"\W+", " ", words).strip() in shown
