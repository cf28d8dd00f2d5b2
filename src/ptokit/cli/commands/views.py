"""Commands that run programs on the machine and show what they do; pictures in the terminal."""

from __future__ import annotations

from typing import Annotated

import typer

from ptokit.cli.parsing import known_targets, layouts, one_target, targets_or_all
from ptokit.cli.parsing import targets as target_names
from ptokit.cli.request import Json, Offsets, ProgramRequest, Rest, Targets, Words, output, takes


@takes(
    "word rest out target arg grid function strict header dyn_ub blocks costs cores",
    target=Targets,
    word=Annotated[
        str,
        typer.Argument(
            metavar="FILE|MODULE:KERNEL",
            help="A text, `-`, a kernel of a module, or a Python file whose launches are shown.",
        ),
    ],
)
def report(
    program: ProgramRequest,
    rest: Rest = None,
    out: Annotated[str | None, output("report.html")] = None,
    as_json: Json = False,
) -> int:
    """Run a program on the machine, and write all that it shows as one HTML file.

    The page has findings, the source with its costs, a timeline, memory maps, access maps and tile layouts, for each
    target. A Python file is run, and its launches are shown. Outputs of the program are not written.
    """
    from ptokit.cli.files import destination
    from ptokit.cli.page import write_report

    return write_report(program, rest or (), destination(out, "report.html"), as_json)


@takes(
    "word out target arg grid function strict header dyn_ub blocks costs cores",
    target=Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            callback=one_target,
            autocompletion=target_names,
            help="The target; by default the first with pipes that accepts the program.",
        ),
    ],
)
def trace(
    program: ProgramRequest, out: Annotated[str | None, output("trace.json")] = None, as_json: Json = False
) -> int:
    """Run a program on the machine, and write its timeline for ui.perfetto.dev.

    The trace has a track for each pipe of each block, arrows for flags, the bytes under way, and the whole launch.
    Outputs of the program are not written.
    """
    from ptokit.cli.files import destination
    from ptokit.cli.page import write_trace

    return write_trace(program, destination(out, "trace.json"), as_json)


@takes(
    "word param target arg grid out function strict header dyn_ub blocks costs cores on_ray",
    target=Annotated[
        str | None,
        typer.Option(
            metavar="all|NAME,...",
            callback=known_targets,
            autocompletion=targets_or_all,
            help="The targets; by default those with pipes.",
        ),
    ],
    arg=Annotated[
        Words,
        typer.Option(
            "--arg",
            metavar="NAME=VALUE",
            help="An argument, as of `run`. {rows} stands for the value of a parameter, {1024/rows*2} for a product; / "
            "rounds up.",
        ),
    ],
)
def sweep(
    program: ProgramRequest,
    param: Annotated[
        Words,
        typer.Option(
            "--param",
            metavar="NAME=VALUE,...",
            help="Values of a constant or a whole number of the kernel, once for each. C++: of a macro, if none of its "
            "parameters has the name.",
        ),
    ] = None,
    grid: Annotated[str, typer.Option(metavar="N", help="Number of blocks, such as 4 or {1024/rows}.")] = "1",
    out: Annotated[
        str | None,
        typer.Option("-o", "--output", metavar="FILE.svg|.png|.csv|.json", help="Where to write the points."),
    ] = None,
    on_ray: Annotated[
        bool, typer.Option("--ray", help="Run the points as Ray tasks; RAY_ADDRESS names the cluster.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Run a program on the machine over values of parameters, and compare time, traffic and memory.

    The best point of each target is named, with what makes it better. Points that a target refuses stay in the table.
    Pictures need the package matplotlib, `--ray` the package ray. Outputs of the program are not written.
    """
    from ptokit.cli.sweep import sweep_program

    return sweep_program(program, param or (), grid, out, as_json, on_ray)


def view_layout(
    form: Annotated[str, typer.Argument(metavar="LAYOUT", autocompletion=layouts, help="nd, dn, nz, zn, zz or nn.")],
    shape: Annotated[str, typer.Argument(metavar="ROWSxCOLS", help="The extents, such as 16x32.")],
    element: Annotated[str, typer.Argument(metavar="TYPE", help="The element type, such as float16.")] = "float16",
    valid: Annotated[str | None, typer.Option(metavar="ROWSxCOLS", help="The valid region.")] = None,
    fractal: Annotated[int, typer.Option(metavar="BYTES", help="Bytes of a box: 512, 1024 or 32.")] = 512,
    offsets: Offsets = False,
    as_json: Json = False,
) -> int:
    """Draw a layout: the tile in logical order beside its memory, in the colours of the memory's order."""
    from ptokit.cli.view import view_layout as draw

    return draw(form, shape, element, valid, fractal, offsets=offsets, as_json=as_json)


@takes("word tile target arg grid function dyn_ub offsets")
def view_tile(
    program: ProgramRequest,
    tile: Annotated[str | None, typer.Argument(metavar="TILE", help="Its name; without one, tiles are listed.")] = None,
    offsets: Offsets = False,
    as_json: Json = False,
) -> int:
    """Draw a tile of a program: shape, valid region, layout and address."""
    from ptokit.cli.view import view_tile as draw

    return draw(program, tile, offsets=offsets, as_json=as_json)


@takes("word target arg grid function strict header dyn_ub blocks")
def view_gather(program: ProgramRequest, as_json: Json = False) -> int:
    """Run a program on the machine, and draw what its gathers and scatters touch.

    For each: the cells of the table as a strip, a histogram of indices, lanes out of bounds and what became of them,
    and the efficiency. Outputs of the program are not written.
    """
    from ptokit.cli.view import view_gather as draw

    return draw(program, as_json=as_json)
