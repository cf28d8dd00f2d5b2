"""Commands that print programs as text."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from ptokit.cli.commands.options import (
    Args,
    Database,
    Define,
    DynUb,
    Function,
    Grid,
    Include,
    Limits,
    Std,
    Target,
    Word,
    source,
)


class TextForm(StrEnum):
    """Forms that a program can be converted to."""

    l1 = "l1"
    l2 = "l2"
    as_ = "as"
    cpp = "cpp"


class PtoVersion(StrEnum):
    """Versions of the MLIR grammar."""

    old = "0.27"
    new = "new"


def fmt(
    files: Annotated[list[str], typer.Argument(metavar="FILE", help="Texts; `-` prints on standard output.")],
    check: Annotated[bool, typer.Option("--check", help="Only name the files that would change.")] = False,
) -> int:
    """Rewrite texts in canonical form, in place. What cannot be read stays as it is."""
    from ptokit.cli.texts import format_files

    return format_files(files, check)


def convert(
    word: Word,
    to: Annotated[TextForm, typer.Option(help="MLIR with values (l1) or destinations (l2), PTO-AS, or C++.")],
    target: Target = None,
    pto_version: Annotated[PtoVersion | None, typer.Option(help="The MLIR grammar to write.")] = None,
    out: Annotated[str, typer.Option("-o", "--output", metavar="FILE", help="Where to write; `-` prints.")] = "-",
    arg: Args = None,
    grid: Grid = 1,
    function: Function = None,
    dyn_ub: DynUb = None,
    include: Include = None,
    define: Define = None,
    std: Std = None,
    database: Database = None,
    limit: Limits = None,
) -> int:
    """Print a program in another form."""
    from ptokit.cli.programs import ProgramRequest
    from ptokit.cli.texts import convert_program

    word, cxx = source(word, include, define, std, database, target, arg, grid, limit)
    request = ProgramRequest(word, arg or (), target, grid, function=function, dyn_ub=dyn_ub, cxx=cxx)
    return convert_program(request, to.value, pto_version.value if pto_version else None, out)


def show(
    word: Word,
    target: Target = None,
    arg: Args = None,
    grid: Grid = 1,
    function: Function = None,
    dyn_ub: DynUb = None,
    include: Include = None,
    define: Define = None,
    std: Std = None,
    database: Database = None,
    limit: Limits = None,
) -> int:
    """Print a program as a target runs it, with the addresses and flags that auto mode adds."""
    from ptokit.cli.programs import ProgramRequest, show_program

    word, cxx = source(word, include, define, std, database, target, arg, grid, limit)
    return show_program(ProgramRequest(word, arg or (), target, grid, function=function, dyn_ub=dyn_ub, cxx=cxx))
