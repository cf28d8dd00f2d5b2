"""Commands that print programs as text."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from ptokit.cli.request import ProgramRequest, takes


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


@takes("word to target pto_version out arg grid function dyn_ub")
def convert(
    program: ProgramRequest,
    to: Annotated[TextForm, typer.Option(help="MLIR with values (l1) or destinations (l2), PTO-AS, or C++.")],
    pto_version: Annotated[PtoVersion | None, typer.Option(help="The MLIR grammar to write.")] = None,
    out: Annotated[str, typer.Option("-o", "--output", metavar="FILE", help="Where to write; `-` prints.")] = "-",
) -> int:
    """Print a program in another form."""
    from ptokit.cli.texts import convert_program

    return convert_program(program, to, pto_version, out)


@takes("word target arg grid function dyn_ub")
def show(program: ProgramRequest) -> int:
    """Print a program as a target runs it, with the addresses and flags that auto mode adds."""
    from ptokit.cli.programs import show_program

    return show_program(program)
