"""`ptokit explain`: the page of a clause, a decision, a hazard or an instruction, modelled or not."""

from __future__ import annotations

from rich.console import RenderableType

from ptokit import spec
from ptokit.cli.problems import Misuse
from ptokit.finding import OPAQUE, suggestion
from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.render import pages

PAGES = {
    (lambda: INSTRUCTIONS): pages.instruction_page,
    pages.opaque_names: pages.opaque_page,
    (lambda: (OPAQUE,)): pages.opaque_list,
    spec.clauses: pages.clause_page,
    spec.gaps: pages.gap_page,
    spec.hazards: pages.hazard_page,
}
"""Tables of names that can be explained, and the functions that make their pages."""
FLAGS: dict[str, str] = dict.fromkeys(("set_flag", "wait_flag", "barrier", "sync_set", "sync_wait"), "KN-13")
"""Statements of order, which are no instructions, and their clause."""


def page_of(name: str, target: str | None = None) -> RenderableType:
    """The page of a clause, a decision, a hazard or an instruction; `target` narrows an instruction's."""
    known = {key: page for names, page in PAGES.items() for key in names()}
    word = FLAGS.get(name.strip().lower(), name.strip())
    found = next((key for key in (word.lower(), word.upper(), _padded(word.upper())) if key in known), None)
    if found is None:
        raise Misuse(f"there is no page {name!r}{suggestion(word, known)}")
    return pages.instruction_page(found, target) if found in INSTRUCTIONS else known[found](found)


def _padded(word: str) -> str:
    """`A-5` as `A-05`."""
    head, dash, number = word.rpartition("-")
    return f"{head}{dash}{number.zfill(2)}"
