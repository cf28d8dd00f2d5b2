"""The commands and their options. Their imports are made when they run, so that help is fast."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from enum import StrEnum
from functools import partial, wraps
from typing import Annotated, Any

import typer

import ptokit
from ptokit.cli.completion import programs, whole_words
from ptokit.cli.greeting import ABOUT, greeting
from ptokit.cli.guard import status_of
from ptokit.cli.parsing import (
    Command,
    Group,
    engines,
    explained,
    functions,
    generators,
    known_target,
    known_targets,
    layouts,
    one_target,
    replay_engines,
    targets_or_all,
)
from ptokit.cli.parsing import targets as target_names
from ptokit.cli.problems import FINE

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

cache = typer.Typer(
    cls=Group,
    no_args_is_help=True,
    help="Show or clear the compiled code in the cache on disk.",
    rich_markup_mode=None,
)
app.add_typer(cache, name="cache")

view = typer.Typer(
    cls=Group,
    no_args_is_help=True,
    help="Draw layouts, tiles and access patterns in the terminal.",
    rich_markup_mode=None,
)
app.add_typer(view, name="view")


class TextForm(StrEnum):
    """Forms that a program can be converted to."""

    l1 = "l1"
    l2 = "l2"
    as_ = "as"
    cpp = "cpp"


class Launch(StrEnum):
    """How a kernel is started."""

    standard = "standard"
    function_pointer = "function_pointer"


class PtoVersion(StrEnum):
    """Versions of the MLIR grammar."""

    old = "0.27"
    new = "new"


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


def _word(word: str) -> str:
    """The program; C++ from standard input is put into a file."""
    from ptokit.cli.cxx import on_disk

    return on_disk(word) if word == "-" else word


def _cxx(
    include: list[str] | None,
    define: list[str] | None,
    std: str | None,
    database: str | None,
    target: str | None,
    arg: list[str] | None,
    grid: int,
    limit: list[str] | None,
) -> Any:
    """How a C++ source is compiled and recorded, and the arguments by which its entries are chosen."""
    from ptokit.cli.cxx import CxxRequest

    given = tuple(word.partition("=")[0] for word in arg or ())
    own = tuple(include or ()), tuple(define or ()), std or "", target or "", given, database
    return CxxRequest(*own, grid, tuple(limit or ()))


def _command(function: Callable[..., int], among: typer.Typer = app, name: str | None = None) -> Callable[..., int]:
    """Make a command of a function that returns the exit status."""

    @wraps(function)
    def command(*args: Any, **options: Any) -> None:
        raise typer.Exit(status_of(partial(function, *args, **options)))

    among.command(name, cls=Command)(command)
    return function


def _version(requested: bool) -> None:
    if requested:
        typer.echo(f"ptokit {ptokit.__version__}")
        raise typer.Exit


@app.callback()
def options(
    ctx: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Take the options before a command; without one, say what can be done."""
    del version  # its callback has printed it
    if ctx.invoked_subcommand is None:
        typer.echo(greeting(), nl=False)


@_command
def check(
    word: Annotated[
        str,
        typer.Argument(
            metavar="FILE|MODULE:KERNEL",
            autocompletion=programs,
            help="A text, `-`, a kernel of a module, or a Python file whose launches are checked.",
        ),
    ],
    rest: Annotated[
        list[str] | None, typer.Argument(metavar="-- ARG", help="Arguments of a Python file that is run.")
    ] = None,
    module: Annotated[
        bool, typer.Option("-m", "--module", help="Run a module by its name, as `python -m` does.")
    ] = False,
    target: Targets = None,
    grid: Grid = 1,
    arg: Args = None,
    function: Function = None,
    strict: Strict = False,
    header: Header = False,
    dyn_ub: DynUb = None,
    run: Annotated[bool, typer.Option("--run", help="Also run it on the machine; needs the arrays.")] = False,
    fix: Annotated[bool, typer.Option("--fix", help="Repair its flags in its source; implies --run.")] = False,
    diff: Annotated[bool, typer.Option("--diff", help="With --fix: print the change, and write nothing.")] = False,
    needless: Annotated[bool, typer.Option("--needless", help="With --fix: remove flags that nothing needs.")] = False,
    blocks: Blocks = None,
    costs: Costs = None,
    include: Include = None,
    define: Define = None,
    std: Std = None,
    database: Database = None,
    limit: Limits = None,
    as_json: Json = False,
) -> int:
    """Report what targets refuse in a program, and why.

    A text or a named kernel is run, on the machine, only with --run or --fix. A Python file is run as `python` runs it,
    and every launch that it makes is checked, on the machine too, with copies of its arrays.
    """
    from ptokit.cli.live import check_launches, is_python
    from ptokit.cli.machine import MachineRequest
    from ptokit.cli.problems import Misuse
    from ptokit.cli.programs import ProgramRequest, check_program

    machine = MachineRequest(costs=costs, blocks=blocks).machine_options()
    word, cxx = _word(word), _cxx(include, define, std, database, target, arg, grid, limit)
    request = ProgramRequest(word, arg or (), target, grid, function, strict, header, dyn_ub, machine=machine, cxx=cxx)
    is_script = module or is_python(word)
    if rest and not is_script:
        raise Misuse(f"{word} takes no arguments of its own: {' '.join(rest)}")
    if fix or diff or needless:
        from ptokit.cli.fix import FixRequest, fix_launches, fix_program

        how = FixRequest(fix, diff, needless)
        if is_script:
            return fix_launches(request, rest or (), how, as_json, is_module=module)
        return fix_program(request, how, as_json)
    if is_script:
        return check_launches(request, rest or (), as_json, is_module=module)
    if (blocks or costs) and not run:
        raise Misuse("--blocks and --costs are for the machine: use --run")
    return check_program(request, as_json, run)


@_command
def run(
    word: Word,
    arg: Args = None,
    out: Annotated[
        list[str] | None,
        typer.Option("--out", metavar="NAME=FILE.npy", help="Write an array after the run, once for each."),
    ] = None,
    grid: Grid = 1,
    target: Target = None,
    engine: Annotated[
        str, typer.Option(autocompletion=engines, help="auto, reference, native, cuda or machine.")
    ] = "auto",
    threads: Annotated[int | None, typer.Option(metavar="N", help="Threads that may be used.")] = None,
    function: Function = None,
    strict: Strict = False,
    header: Header = False,
    dyn_ub: DynUb = None,
    launch: Annotated[Launch, typer.Option(help="How the kernel is started.")] = Launch.standard,
    seed: Annotated[int | None, typer.Option(min=0, help="Machine: another legal schedule.")] = None,
    blocks: Blocks = None,
    lanes: Annotated[bool, typer.Option("--lanes", help="Machine: the outcome of every lane.")] = False,
    timeline: Annotated[
        str | None, typer.Option(metavar="FILE", help="Machine: write the timeline, as `ptokit trace` does.")
    ] = None,
    notes: Annotated[bool, typer.Option("--notes", help="Machine: show notes, too.")] = False,
    costs: Costs = None,
    cores: Annotated[int | None, typer.Option(min=1, help="Machine: how many blocks run at a time.")] = None,
    include: Include = None,
    define: Define = None,
    std: Std = None,
    database: Database = None,
    limit: Limits = None,
    as_json: Json = False,
) -> int:
    """Run a program on NumPy files. Files are written only when it runs to the end; inputs are never changed."""
    from ptokit.cli.machine import MachineRequest
    from ptokit.cli.programs import ProgramRequest, run_program

    word, cxx = _word(word), _cxx(include, define, std, database, target, arg, grid, limit)
    request = ProgramRequest(word, arg or (), target, grid, function, strict, header, dyn_ub, launch.value, cxx=cxx)
    machine = MachineRequest(seed, lanes, timeline, notes, costs, cores, blocks)
    return run_program(request, out or (), engine, threads, machine, as_json)


@_command
def fmt(
    files: Annotated[list[str], typer.Argument(metavar="FILE", help="Texts; `-` prints on standard output.")],
    check: Annotated[bool, typer.Option("--check", help="Only name the files that would change.")] = False,
) -> int:
    """Rewrite texts in canonical form, in place. What cannot be read stays as it is."""
    from ptokit.cli.texts import format_files

    return format_files(files, check)


@_command
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

    word, cxx = _word(word), _cxx(include, define, std, database, target, arg, grid, limit)
    request = ProgramRequest(word, arg or (), target, grid, function=function, dyn_ub=dyn_ub, cxx=cxx)
    return convert_program(request, to.value, pto_version.value if pto_version else None, out)


@_command
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

    word, cxx = _word(word), _cxx(include, define, std, database, target, arg, grid, limit)
    return show_program(ProgramRequest(word, arg or (), target, grid, function=function, dyn_ub=dyn_ub, cxx=cxx))


@_command
def report(
    word: Annotated[
        str,
        typer.Argument(
            metavar="FILE|MODULE:KERNEL",
            help="A text, `-`, a kernel of a module, or a Python file whose launches are shown.",
        ),
    ],
    rest: Annotated[
        list[str] | None, typer.Argument(metavar="-- ARG", help="Arguments of a Python file that is run.")
    ] = None,
    out: Annotated[str, typer.Option("-o", "--output", metavar="FILE.html", help="Where to write.")] = "report.html",
    target: Targets = None,
    arg: Args = None,
    grid: Grid = 1,
    function: Function = None,
    strict: Strict = False,
    header: Header = False,
    dyn_ub: DynUb = None,
    blocks: Blocks = None,
    costs: Costs = None,
    cores: Annotated[int | None, typer.Option(min=1, help="How many blocks run at a time.")] = None,
    include: Include = None,
    define: Define = None,
    std: Std = None,
    database: Database = None,
    limit: Limits = None,
    as_json: Json = False,
) -> int:
    """Run a program on the machine, and write all that it shows as one HTML file.

    The page has findings, the source with its costs, a timeline, memory maps, access maps and tile layouts, for each
    target. A Python file is run, and its launches are shown. Outputs of the program are not written.
    """
    from ptokit.cli.machine import MachineRequest
    from ptokit.cli.page import write_report
    from ptokit.cli.programs import ProgramRequest

    machine = MachineRequest(costs=costs, cores=cores, blocks=blocks).machine_options()
    word, cxx = _word(word), _cxx(include, define, std, database, target, arg, grid, limit)
    request = ProgramRequest(word, arg or (), target, grid, function, strict, header, dyn_ub, machine=machine, cxx=cxx)
    return write_report(request, rest or (), out, as_json)


@partial(_command, among=view, name="layout")
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


@partial(_command, among=view, name="tile")
def view_tile(
    word: Word,
    tile: Annotated[str | None, typer.Argument(metavar="TILE", help="Its name; without one, tiles are listed.")] = None,
    target: Target = None,
    arg: Args = None,
    grid: Grid = 1,
    function: Function = None,
    dyn_ub: DynUb = None,
    offsets: Offsets = False,
    include: Include = None,
    define: Define = None,
    std: Std = None,
    database: Database = None,
    limit: Limits = None,
    as_json: Json = False,
) -> int:
    """Draw a tile of a program: shape, valid region, layout and address."""
    from ptokit.cli.programs import ProgramRequest
    from ptokit.cli.view import view_tile as draw

    word, cxx = _word(word), _cxx(include, define, std, database, target, arg, grid, limit)
    request = ProgramRequest(word, arg or (), target, grid, function=function, dyn_ub=dyn_ub, cxx=cxx)
    return draw(request, tile, offsets=offsets, as_json=as_json)


@partial(_command, among=view, name="gather")
def view_gather(
    word: Word,
    target: Target = None,
    arg: Args = None,
    grid: Grid = 1,
    function: Function = None,
    strict: Strict = False,
    header: Header = False,
    dyn_ub: DynUb = None,
    blocks: Blocks = None,
    include: Include = None,
    define: Define = None,
    std: Std = None,
    database: Database = None,
    limit: Limits = None,
    as_json: Json = False,
) -> int:
    """Run a program on the machine, and draw what its gathers and scatters touch.

    For each: the cells of the table as a strip, a histogram of indices, lanes out of bounds and what became of them,
    and the efficiency. Outputs of the program are not written.
    """
    from ptokit.cli.machine import MachineRequest
    from ptokit.cli.programs import ProgramRequest
    from ptokit.cli.view import view_gather as draw

    machine = MachineRequest(blocks=blocks).machine_options()
    word, cxx = _word(word), _cxx(include, define, std, database, target, arg, grid, limit)
    request = ProgramRequest(word, arg or (), target, grid, function, strict, header, dyn_ub, machine=machine, cxx=cxx)
    return draw(request, as_json=as_json)


@_command
def trace(
    word: Word,
    out: Annotated[
        str, typer.Option("-o", "--output", metavar="FILE.json|FILE.pftrace", help="Where to write.")
    ] = "trace.json",
    target: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            callback=one_target,
            autocompletion=target_names,
            help="The target; by default the first with pipes that accepts the program.",
        ),
    ] = None,
    arg: Args = None,
    grid: Grid = 1,
    function: Function = None,
    strict: Strict = False,
    header: Header = False,
    dyn_ub: DynUb = None,
    blocks: Blocks = None,
    costs: Costs = None,
    cores: Annotated[int | None, typer.Option(min=1, help="How many blocks run at a time.")] = None,
    include: Include = None,
    define: Define = None,
    std: Std = None,
    database: Database = None,
    limit: Limits = None,
    as_json: Json = False,
) -> int:
    """Run a program on the machine, and write its timeline for ui.perfetto.dev.

    The trace has a track for each pipe of each block, arrows for flags, the bytes under way, and the whole launch. JSON
    needs nothing else; .pftrace needs the package perfetto. Outputs of the program are not written.
    """
    from ptokit.cli.machine import MachineRequest
    from ptokit.cli.perfetto import write_trace
    from ptokit.cli.programs import ProgramRequest

    machine = MachineRequest(costs=costs, cores=cores, blocks=blocks).machine_options()
    word, cxx = _word(word), _cxx(include, define, std, database, target, arg, grid, limit)
    request = ProgramRequest(word, arg or (), target, grid, function, strict, header, dyn_ub, machine=machine, cxx=cxx)
    return write_trace(request, out, as_json)


@_command
def sweep(
    word: Word,
    param: Annotated[
        list[str] | None,
        typer.Option(
            "--param",
            metavar="NAME=VALUE,...",
            help="Values of a constant or a whole number of the kernel, once for each. C++: of a macro, if none of its "
            "parameters has the name.",
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            metavar="all|NAME,...",
            callback=known_targets,
            autocompletion=targets_or_all,
            help="The targets; by default those with pipes.",
        ),
    ] = None,
    arg: Annotated[
        list[str] | None,
        typer.Option(
            "--arg",
            metavar="NAME=VALUE",
            help="An argument, as of `run`. {rows} stands for the value of a parameter, {1024/rows*2} for a product; / "
            "rounds up.",
        ),
    ] = None,
    grid: Annotated[str, typer.Option(metavar="N", help="Number of blocks, such as 4 or {1024/rows}.")] = "1",
    out: Annotated[
        str | None,
        typer.Option("-o", "--output", metavar="FILE.svg|.png|.csv|.json", help="Where to write the points."),
    ] = None,
    function: Function = None,
    strict: Strict = False,
    header: Header = False,
    dyn_ub: DynUb = None,
    blocks: Blocks = None,
    costs: Costs = None,
    cores: Annotated[int | None, typer.Option(min=1, help="How many blocks run at a time.")] = None,
    on_ray: Annotated[
        bool, typer.Option("--ray", help="Run the points as Ray tasks; RAY_ADDRESS names the cluster.")
    ] = False,
    include: Include = None,
    define: Define = None,
    std: Std = None,
    database: Database = None,
    limit: Limits = None,
    as_json: Json = False,
) -> int:
    """Run a program on the machine over values of parameters, and compare time, traffic and memory.

    The best point of each target is named, with what makes it better. Points that a target refuses stay in the table.
    Pictures need the package matplotlib, `--ray` the package ray. Outputs of the program are not written.
    """
    from ptokit.cli.machine import MachineRequest
    from ptokit.cli.programs import ProgramRequest
    from ptokit.cli.sweep import sweep_program

    machine = MachineRequest(costs=costs, cores=cores, blocks=blocks).machine_options()
    word, cxx = _word(word), _cxx(include, define, std, database, None, arg, 1, limit)
    options = {"strict": strict, "header": header, "dyn_ub": dyn_ub, "machine": machine, "cxx": cxx}
    request = ProgramRequest(word, arg or (), target, function=function, **options)
    return sweep_program(request, param or (), grid, out, as_json, on_ray)


@partial(_command, name="trace-indices")
def trace_indices(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="-- FILE.py ARG", help="A Python file, or a module with -m, and its arguments."),
    ] = None,
    module: Annotated[
        bool, typer.Option("-m", "--module", help="Run a module by its name, as `python -m` does.")
    ] = False,
    out: Annotated[str, typer.Option("-o", "--output", metavar="FILE.npz", help="Where to write.")] = "trace.npz",
    limit: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Indices that are recorded, at most: 10,000,000.")
    ] = None,
    sample: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Record N calls, drawn at random from all; without it the first calls."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Draws another sample.")] = 0,
    generate: Annotated[
        str | None,
        typer.Option(
            metavar="NAME:PARAMETER=VALUE,...",
            autocompletion=generators,
            help="Make up a trace instead: zipf, moe or paged_kv.",
        ),
    ] = None,
    as_json: Json = False,
) -> int:
    """Run a Python program, and record the indices of its lookups, for `replay`.

    Recorded are pto.gather and pto.scatter, and torch's embedding, embedding_bag and index_select, in order. The
    program runs in a process of its own, unchanged; what it prints goes to standard error.
    """
    from ptokit.cli.indices import trace_indices as record

    how = {"limit": limit, "sample": sample, "seed": seed}
    return record(words or (), out, how, generate, module, as_json)


@_command
def replay(
    file: Annotated[str, typer.Argument(metavar="TRACE.npz", help="A trace that `trace-indices` wrote.")],
    target: Annotated[
        str,
        typer.Option(
            metavar="NAME,...", callback=known_targets, autocompletion=target_names, help="Machine: the targets."
        ),
    ] = "a2a3,a5",
    engine: Annotated[str, typer.Option(autocompletion=replay_engines, help="machine, native or sharded.")] = "machine",
    lanes: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Indices of each table that are replayed, the first ones.")
    ] = None,
    shards: Annotated[int, typer.Option(min=1, metavar="N", help="Sharded: the number of owners.")] = 2,
    as_json: Json = False,
) -> int:
    """Move the rows of a recorded trace once more, and show what they cost.

    The machine gives traffic, repeats, lanes outside and cycles of each target; the native engine its time against
    NumPy, torch and Numba; a sharded table the accesses of each owner.
    """
    from ptokit.cli.indices import replay_trace

    return replay_trace(file, target, engine, lanes, shards, as_json)


@_command
def explain(
    name: Annotated[
        str | None,
        typer.Argument(
            autocompletion=explained,
            help="A clause (MG-OOB-08), decision (A-05), hazard (H-24), instruction, or group (MG-OOB, A, H).",
        ),
    ] = None,
    target: Target = None,
    as_json: Json = False,
) -> int:
    """Show a clause, a decision, a hazard, or the whole contract of an instruction; without a name, list them."""
    from ptokit.cli.explain import explain as show_page

    return show_page(name, target, as_json=as_json)


@_command
def calibrate(
    trace: Annotated[str, typer.Argument(metavar="TRACE", help="Measured times: JSON, or a CSV file of msprof.")],
    kernel: Annotated[
        list[str] | None,
        typer.Option("--kernel", metavar="FILE|MODULE:KERNEL", help="A kernel that the trace names, once for each."),
    ] = None,
    target: Target = None,
    costs: Costs = None,
    out: Annotated[str, typer.Option("-o", "--output", metavar="FILE.json", help="Where to write.")] = "costs.json",
    as_json: Json = False,
) -> int:
    """Fit the cost table of a target to measured times, and write it for --costs."""
    from ptokit.cli.calibrate import calibrate_costs

    return calibrate_costs(trace, kernel or (), target, costs, out, as_json)


@_command
def targets(as_json: Json = False) -> int:
    """Show the target profiles side by side."""
    from rich.console import Console

    if as_json:
        from ptokit.cli.report import print_json
        from ptokit.render.data import targets_data

        print_json("targets", targets=targets_data())
        return FINE

    from ptokit.render import pages

    Console().print(pages.targets_table())
    return FINE


@partial(_command, among=cache, name="show")
def cache_show(as_json: Json = False) -> int:
    """Show where compiled code is cached, and how much there is."""
    from ptokit.cli.cache import show_cache

    return show_cache(as_json)


@partial(_command, among=cache, name="clear")
def cache_clear(as_json: Json = False) -> int:
    """Remove all cached code. It is compiled again when needed."""
    from ptokit.cli.cache import clear_cache

    return clear_cache(as_json)


@_command
def tune(
    show: Annotated[bool, typer.Option("--show", help="Show what is used, and measure nothing.")] = False,
    reset: Annotated[bool, typer.Option("--reset", help="Forget what was measured.")] = False,
    as_json: Json = False,
) -> int:
    """Measure in a few seconds what makes moves fast on this processor, and keep it for later runs."""
    from ptokit.cli.tune import tune as measure

    return measure(show=show, reset=reset, as_json=as_json)


@_command
def demo() -> int:
    """Show what ptokit does."""
    from ptokit import demo as acts

    acts.main()
    return FINE


def main() -> None:
    """Entry point of the `ptokit` command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # replace characters that the terminal cannot encode
    with whole_words():
        app(prog_name="ptokit")
