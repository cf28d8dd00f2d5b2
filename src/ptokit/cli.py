"""The command line: a thin main over the library. Exit status 0 fine, 1 findings, 2 misuse."""

from __future__ import annotations

import difflib
import io
import sys
from typing import Annotated, NoReturn

import typer
from rich.console import Console

import ptokit
from ptokit import spec
from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.render import pages
from ptokit.target import PROFILES

app = typer.Typer(
    name="ptokit", no_args_is_help=True, help="Check and explain PTO tile programs.", rich_markup_mode=None
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"ptokit {ptokit.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Check and explain PTO tile programs."""


@app.command()
def explain(
    name: Annotated[str, typer.Argument(help="A clause (MG-OOB-08), decision (A-05), hazard (H-24) or instruction.")],
    target: Annotated[str | None, typer.Option(help="For an instruction: one target only.")] = None,
) -> None:
    """Show a clause, a decision, a hazard, or the whole contract of an instruction."""
    if target is not None and target not in PROFILES:
        _misuse(f"unknown target {target!r}; known: {', '.join(PROFILES)}")
    known = {**dict.fromkeys(INSTRUCTIONS, pages.instruction_page), **dict.fromkeys(spec.clauses(), pages.clause_page)}
    known |= {**dict.fromkeys(spec.gaps(), pages.gap_page), **dict.fromkeys(spec.hazards(), pages.hazard_page)}
    word = name.strip()
    found = next((k for k in (word.lower(), word.upper(), _padded(word.upper())) if k in known), None)
    if found is None:
        near = difflib.get_close_matches(word.upper(), [k.upper() for k in known], n=3, cutoff=0.5)
        _misuse(f"nothing is known as {name!r}" + (f"; did you mean {', '.join(near)}?" if near else ""))
    page = pages.instruction_page(found, target) if found in INSTRUCTIONS else known[found](found)
    Console().print(page, crop=False)  # lines of code stay whole


def _padded(word: str) -> str:
    """`A-5` as `A-05`."""
    head, dash, number = word.rpartition("-")
    return f"{head}{dash}{number.zfill(2)}"


@app.command()
def targets() -> None:
    """Show the target profiles side by side."""
    Console().print(pages.targets_table())


@app.command()
def demo() -> None:
    """Show what ptokit does."""
    from ptokit import demo as acts

    acts.main()


def _misuse(message: str) -> NoReturn:
    Console(stderr=True, soft_wrap=True).print(f"ptokit: {message}", markup=False, highlight=False)
    raise typer.Exit(2)


def main() -> None:
    """Entry point of the `ptokit` command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without our characters is no reason to die
    app()
