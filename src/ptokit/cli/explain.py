"""`ptokit explain`: the page of a clause, a decision, a hazard, a group or an instruction; or all their names."""

from __future__ import annotations

from rich.console import RenderableType

from ptokit import spec
from ptokit.brief import brief
from ptokit.cli.problems import FINE, Misuse
from ptokit.cli.report import print_json
from ptokit.finding import OPAQUE, suggestion
from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.render import pages
from ptokit.render.document import new_console

PAGES = {
    (lambda: INSTRUCTIONS): pages.instruction_page,
    pages.opaque_names: pages.opaque_page,
    (lambda: (OPAQUE,)): pages.opaque_list,
    spec.clauses: pages.clause_page,
    spec.gaps: pages.gap_page,
    spec.hazards: pages.hazard_page,
    pages.groups: pages.group_page,
}
"""Tables of names that can be explained, and the functions that make their pages."""
FLAGS: dict[str, str] = dict.fromkeys(("set_flag", "wait_flag", "barrier", "sync_set", "sync_wait"), "KN-13")
"""Statements of order, which are no instructions, and their clause."""


def explain(name: str | None, target: str | None, *, as_json: bool) -> int:
    """Print a page, or all names that have one."""
    if as_json:
        from ptokit.render.data import index_data, page_data

        print_json("explain", **(index_data() if name is None else page_data(_known(name), target)))
    else:
        page = pages.index_page() if name is None else page_of(name, target)
        new_console().print(page, crop=False)  # lines of code stay whole
    return FINE


def page_of(name: str, target: str | None = None) -> RenderableType:
    """The page of a clause, a decision, a hazard, a group or an instruction; `target` narrows an instruction's."""
    found = _known(name)
    page = next(page for names, page in PAGES.items() if found in names())
    return pages.instruction_page(found, target) if found in INSTRUCTIONS else page(found)


def _known(name: str) -> str:
    """The name as its table spells it."""
    known = {key for names in PAGES for key in names()}
    word = FLAGS.get(name.strip().lower(), name.strip())
    found = next((key for key in (word.lower(), word.upper(), _padded(word.upper())) if key in known), None)
    if found is None:
        raise Misuse(f"there is no page {brief(name)}{suggestion(word, known)}")
    return found


def _padded(word: str) -> str:
    """`A-5` as `A-05`."""
    head, dash, number = word.rpartition("-")
    return f"{head}{dash}{number.zfill(2)}"
