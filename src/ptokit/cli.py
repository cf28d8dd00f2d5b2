"""The command line: a thin main over the library. Exit status 0 fine, 1 findings, 2 misuse."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Annotated, NoReturn

import typer
from rich.console import Console

from ptokit import spec
from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.render import pages
from ptokit.target import PROFILES

app = typer.Typer(
    name="ptokit", no_args_is_help=True, help="Check and explain PTO tile programs.", rich_markup_mode=None
)


@app.command()
def explain(
    name: Annotated[str, typer.Argument(help="A clause (MG-OOB-08), decision (A-05), hazard (H-24) or instruction.")],
    target: Annotated[str | None, typer.Option(help="For an instruction: one target only.")] = None,
) -> None:
    """Show a clause, a decision, a hazard, or the whole contract of an instruction."""
    if target is not None and target not in PROFILES:
        _misuse(f"unknown target {target!r}", target, PROFILES)
    name = name.strip()
    lower, upper = name.lower(), name.upper()
    if lower in INSTRUCTIONS:
        page = pages.instruction_page(lower, target)
    elif upper in spec.clauses():
        page = pages.clause_page(upper)
    elif upper in spec.gaps():
        page = pages.gap_page(upper)
    elif upper in spec.hazards():
        page = pages.hazard_page(upper)
    else:
        _misuse(f"nothing is known as {name!r}", upper, [*spec.clauses(), *spec.gaps(), *spec.hazards(), *INSTRUCTIONS])
    Console().print(page)


@app.command()
def targets() -> None:
    """Show the target profiles side by side."""
    Console().print(pages.targets_table())


@app.command()
def demo() -> None:
    """Show what ptokit does."""
    from ptokit import demo as acts

    acts.main()


def _misuse(message: str, given: str, known: Iterable[str]) -> NoReturn:
    near = difflib.get_close_matches(given, list(known), n=3)
    hint = f"; did you mean {', '.join(near)}?" if near else ""
    Console(stderr=True).print(f"ptokit: {message}{hint}", markup=False, highlight=False)
    raise typer.Exit(2)


def main() -> None:
    """Entry point of the `ptokit` command."""
    app()
