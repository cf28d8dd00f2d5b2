"""The commands, in the order of `ptokit --help`. Their imports are made when they run, so that help is fast.

| file | commands |
|---|---|
| `programs.py` | `check`, `run` |
| `texts.py` | `fmt`, `convert`, `show` |
| `views.py` | `report`, `trace`, `sweep`, and those of `view` |
| `indices.py` | `trace-indices`, `replay` |
| `reference.py` | `explain`, `targets`, `demo` |
| `costs.py` | `calibrate`, and those of `cache` |

`cli/request.py` has the options that several commands have.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from functools import partial, wraps
from typing import Annotated, Any

import typer

import ptokit
from ptokit.cli.commands.costs import cache_clear, cache_show, calibrate
from ptokit.cli.commands.indices import replay, trace_indices
from ptokit.cli.commands.programs import check, run
from ptokit.cli.commands.reference import demo, explain, targets
from ptokit.cli.commands.texts import convert, fmt, show
from ptokit.cli.commands.views import report, sweep, trace, view_gather, view_layout, view_tile
from ptokit.cli.completion import whole_words
from ptokit.cli.greeting import ABOUT, greeting
from ptokit.cli.guard import run_guarded
from ptokit.cli.parsing import Command, Group

app = typer.Typer(
    name="ptokit",
    cls=Group,
    invoke_without_command=True,
    help=f"""{ABOUT}

    Programs are text files (PTO-AS, or MLIR of the dialect pto), C++ sources, `-` for standard input, or MODULE:KERNEL
    for a kernel of a Python module (package.module:kernel or path/to/file.py:kernel). Only the last runs Python code:
    that module is imported. C++ is compiled and run in a process of its own. `check file.py`, `report
    file.py` and `trace-indices` run the file. Exit status: 0 fine, 1 findings, 2 misuse, 3 not modelled.
    """,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

COMMANDS: tuple[Callable[..., int], ...] = (
    check, run, fmt, convert, show, report, trace, sweep, trace_indices, replay,
    explain, calibrate, targets, demo,
)  # fmt: skip
"""Functions that return the exit status; a command has the name of its function."""

GROUPS: dict[str, tuple[str, dict[str, Callable[..., int]]]] = {
    "cache": (
        "Show or clear the compiled code in the cache on disk.",
        {"show": cache_show, "clear": cache_clear},
    ),
    "view": (
        "Draw layouts, tiles and access patterns in the terminal.",
        {"layout": view_layout, "tile": view_tile, "gather": view_gather},
    ),
}
"""Commands of two words, below the others."""


def _add(function: Callable[..., int], among: typer.Typer, name: str | None = None) -> None:
    """Make a command of a function."""

    @wraps(function)
    def command(*args: Any, **options: Any) -> None:
        raise typer.Exit(run_guarded(partial(function, *args, **options)))

    among.command(name, cls=Command)(command)


def _add_all() -> None:
    for function in COMMANDS:
        _add(function, app)
    for name, (about, members) in GROUPS.items():
        group = typer.Typer(cls=Group, no_args_is_help=True, help=about, rich_markup_mode=None)
        app.add_typer(group, name=name)
        for second, function in members.items():
            _add(function, group, second)


_add_all()


def _confinement() -> str:
    """What confines C++ sources on this system."""
    try:
        from ptokit.cxx.confine import summary
    except ImportError:  # a system without limits on processes
        return "not confined on this system"
    return summary()


def _version(requested: bool) -> None:
    if requested:
        typer.echo(f"ptokit {ptokit.__version__}\nC++ sources: {_confinement()}")
        raise typer.Exit


@app.callback()
def _begin(
    ctx: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Show the version, and what confines C++ sources here."
        ),
    ] = False,
) -> None:
    """Take the options before a command; without one, say what can be done."""
    del version  # its callback has printed it
    if ctx.invoked_subcommand is None:
        typer.echo(greeting(), nl=False)


def main() -> None:
    """Entry point of the `ptokit` command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # replace characters that the terminal cannot encode
    with whole_words():
        app(prog_name="ptokit")
