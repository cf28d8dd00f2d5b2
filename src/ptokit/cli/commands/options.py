"""Options that several commands have, and the program that they name."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ptokit.cli.completion import programs
from ptokit.cli.parsing import functions, known_target, one_target, targets_or_all
from ptokit.cli.parsing import targets as target_names

Word = Annotated[
    str,
    typer.Argument(metavar="FILE|MODULE:KERNEL", autocompletion=programs, help="A text, `-`, or a kernel of a module."),
]
Args = Annotated[
    list[str] | None,
    typer.Option(
        "--arg",
        metavar="NAME=VALUE",
        help="An argument, once for each: a number, an .npy file, zeros such as f32[1000,64], or a kernel's constant.",
    ),
]
Target = Annotated[
    str | None,
    typer.Option(metavar="NAME", callback=one_target, autocompletion=target_names, help="The target."),
]
Targets = Annotated[
    str | None,
    typer.Option(
        metavar="all|NAME", callback=known_target, autocompletion=targets_or_all, help="One target, or all devices."
    ),
]
Grid = Annotated[int, typer.Option(min=0, help="Number of blocks.")]
Function = Annotated[
    str | None,
    typer.Option(
        "--function",
        "--entry",
        metavar="NAME",
        autocompletion=functions,
        help="The function of a text or a source that has several.",
    ),
]
Include = Annotated[list[str] | None, typer.Option("-I", metavar="DIR", help="C++: a folder of headers.")]
Define = Annotated[list[str] | None, typer.Option("-D", metavar="NAME[=VALUE]", help="C++: a macro.")]
Std = Annotated[str | None, typer.Option("--std", metavar="STANDARD", help="C++: c++20 or later.")]
Database = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="C++: a compile database, if it is not beside or above the source."),
]
Limits = Annotated[
    list[str] | None,
    typer.Option("--limit", metavar="NAME=VALUE", help="C++: a bound on recording: seconds=60, memory=8G, calls=1e6."),
]
Strict = Annotated[bool, typer.Option("--strict", help="Hazards are errors.")]
Header = Annotated[bool, typer.Option("--header", help="Refuse only what the target's real headers refuse.")]
DynUb = Annotated[int | None, typer.Option(min=0, metavar="BYTES", help="Dynamic UB that the launch asks for.")]
Costs = Annotated[str | None, typer.Option(metavar="FILE.json", help="Machine: a cost table that `calibrate` wrote.")]
Blocks = Annotated[
    str | None, typer.Option(metavar="first,last,random:N", help="Machine: only these blocks of the grid.")
]
Offsets = Annotated[bool, typer.Option("--offsets", help="Offsets of elements in memory instead of letters.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def source(
    word: str,
    include: list[str] | None,
    define: list[str] | None,
    std: str | None,
    database: str | None,
    target: str | None,
    arg: list[str] | None,
    grid: int,
    limit: list[str] | None,
) -> tuple[str, Any]:
    """The program, and how C++ is compiled and recorded, with the arguments by which its entries are chosen.

    C++ from standard input is put into a file.
    """
    from ptokit.cli.cxx import CxxRequest, on_disk

    given = tuple(text.partition("=")[0] for text in arg or ())
    own = tuple(include or ()), tuple(define or ()), std or "", target or "", given, database
    return on_disk(word) if word == "-" else word, CxxRequest(*own, grid, tuple(limit or ()))
