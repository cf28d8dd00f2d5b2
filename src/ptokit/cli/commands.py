"""The commands of `ptokit`. Their imports are made when they run, so that help is fast.

`cli/request.py` has the options that several commands have.
"""

from __future__ import annotations

import io
import os
import sys
import traceback
from collections.abc import Callable
from contextvars import copy_context
from enum import StrEnum
from functools import partial, wraps
from typing import Annotated, Any

import typer
from typer import Argument, Option

import ptokit
from ptokit.cli.completion import programs, whole_words
from ptokit.cli.problems import FAIL_ON, FINE, FOUND, INTERRUPTED, MISUSED, Misuse, described, print_error, status_of
from ptokit.cli.request import (
    ABOUT,
    ALL,
    Command,
    Costs,
    Group,
    Json,
    Module,
    Offsets,
    ProgramRequest,
    Rest,
    Target,
    Targets,
    Words,
    engines,
    explained,
    generators,
    greeting,
    layouts,
    naming_targets,
    output,
    replay_engines,
    takes,
)
from ptokit.finding import OutOfBoundsError, VerifyError, counted
from ptokit.lang.faults import TRACEBACK
from ptokit.text.errors import TextError


def run_guarded(work: Callable[[], int]) -> int:
    """Run a command and return its exit status. Only a closed pipe raises."""
    try:
        status = copy_context().run(work)
        if sys.stdout is not None:
            sys.stdout.flush()
        return status
    except BrokenPipeError:
        raise  # typer exits without a message
    except KeyboardInterrupt:
        print_error("interrupted")
        return INTERRUPTED
    except Exception as problem:
        return _status_after(problem)


def _status_after(problem: Exception) -> int:
    if os.environ.get(TRACEBACK):
        traceback.print_exception(problem)
    if isinstance(problem, TextError):
        print_error(str(problem), "")
        return FOUND
    if isinstance(problem, VerifyError | OutOfBoundsError):
        from ptokit.cli.report import show_findings

        show_findings(problem.findings)
        return status_of(problem.findings)
    if isinstance(problem, Misuse):
        print_error(str(problem))
    elif isinstance(problem, OSError) and problem.filename is None:
        _silence()
        print_error(f"cannot write the output: {described(problem)}")
    else:
        message = f"internal error in ptokit ({type(problem).__name__}: {described(problem)})"
        print_error(f"{message}; please report it with the command and its input; {TRACEBACK}=1 shows a traceback")
    return MISUSED


def _silence() -> None:
    """Redirect a standard output that cannot be written, so that Python's last flush does not fail."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (AttributeError, OSError, ValueError):
        return


# --- checks and runs


class FailOn(StrEnum):
    """The mildest level of a finding that makes the exit status 1."""

    error = "error"
    hazard = "hazard"
    note = "note"


@takes(
    "word rest module target grid arg function strict header dyn_ub fail_on run fix diff needless prove blocks costs",
    target=Targets,
    word=Annotated[
        str,
        Argument(
            metavar="FILE|MODULE:KERNEL",
            autocompletion=programs,
            help="A text, `-`, a kernel of a module, or a Python file whose launches are checked.",
        ),
    ],
)
def check(
    program: ProgramRequest,
    rest: Rest = None,
    module: Module = False,
    run: Annotated[bool, Option("--run", help="Also run it on the machine; needs the arrays.")] = False,
    fix: Annotated[bool, Option("--fix", help="Repair its flags in its source; implies --run.")] = False,
    diff: Annotated[bool, Option("--diff", help="With --fix: print the change, and write nothing.")] = False,
    needless: Annotated[bool, Option("--needless", help="With --fix: remove flags that nothing needs.")] = False,
    prove: Annotated[bool, Option("--prove", help="Prove it for every launch; --limit seconds=5 bounds it.")] = False,
    fail_on: Annotated[FailOn, Option("--fail-on", help="The mildest finding with status 1.")] = FailOn.hazard,
    as_json: Json = False,
) -> int:
    """Report what targets refuse in a program, and why.

    A text or a named kernel is run, on the machine, only with --run or --fix. A Python file is run as `python` runs it,
    and every launch that it makes is checked, on the machine too, with copies of its arrays.
    """
    from ptokit.cli.live import check_launches, is_python
    from ptokit.cli.problems import Misuse
    from ptokit.cli.programs import check_program
    from ptokit.lang.sources import is_cpp

    FAIL_ON.set(fail_on)
    is_script = module or is_python(program.word)
    if prove:
        from ptokit.cli.prove import prove_program

        if is_script or run or fix or diff or needless:
            raise Misuse("--prove takes a text, a C++ source or a kernel by its name, and neither --run nor --fix")
        return prove_program(program, as_json)
    if rest and not is_script:
        raise Misuse(f"{program.word} takes no arguments of its own: {' '.join(rest)}")
    if fix or diff or needless:
        from ptokit.cli.fix import FixRequest, fix_launches, fix_program

        wanted = FixRequest(fix, diff, needless)
        if is_script:
            return fix_launches(program, rest or (), wanted, as_json, is_module=module)
        return fix_program(program, wanted, as_json)
    if is_script:
        return check_launches(program, rest or (), as_json, is_module=module)
    if program.machine.stated and not run and not is_cpp(program.word):
        raise Misuse("--blocks and --costs are for the machine: use --run")
    return check_program(program, as_json, run)


@takes(
    "word arg out grid target engine threads function strict header dyn_ub launch seed blocks lanes timeline notes "
    "costs cores",
    cores=Annotated[int | None, Option(min=1, help="Machine: how many blocks run at a time.")],
)
def run(
    program: ProgramRequest,
    out: Annotated[
        Words, Option("--out", metavar="NAME=FILE.npy", help="Write an array after the run, once for each.")
    ] = None,
    engine: Annotated[str, Option(autocompletion=engines, help="auto, reference, native, cuda or machine.")] = "auto",
    threads: Annotated[int | None, Option(metavar="N", help="Threads that may be used.")] = None,
    as_json: Json = False,
) -> int:
    """Run a program on NumPy files. Files are written only when it runs to the end; inputs are never changed."""
    from ptokit.cli.programs import run_program

    return run_program(program, out or (), engine, threads, as_json)


# --- programs as text


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
    files: Annotated[list[str], Argument(metavar="FILE", help="Texts; `-` prints on standard output.")],
    check: Annotated[bool, Option("--check", help="Only name the files that would change.")] = False,
) -> int:
    """Rewrite texts in canonical form, in place. What cannot be read stays as it is."""
    from ptokit.cli.programs import format_files

    return format_files(files, check)


@takes("word to target pto_version out arg grid function dyn_ub")
def convert(
    program: ProgramRequest,
    to: Annotated[TextForm, Option(help="MLIR with values (l1) or destinations (l2), PTO-AS, or C++.")],
    pto_version: Annotated[PtoVersion | None, Option(help="The MLIR grammar to write.")] = None,
    out: Annotated[str, Option("-o", "--output", metavar="FILE", help="Where to write; `-` prints.")] = "-",
) -> int:
    """Print a program in another form."""
    from ptokit.cli.programs import convert_program

    return convert_program(program, to, pto_version, out)


@takes("word target arg grid function dyn_ub")
def show(program: ProgramRequest) -> int:
    """Print a program as a target runs it, with the addresses and flags that auto mode adds."""
    from ptokit.cli.programs import show_program

    return show_program(program)


# --- runs on the machine; pictures in the terminal


@takes(
    "word rest out target arg grid function strict header dyn_ub blocks costs cores",
    target=Targets,
    word=Annotated[
        str,
        Argument(
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
        str | None, naming_targets("NAME", "The target; by default the first with pipes that accepts the program.")
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
    target=Annotated[str | None, naming_targets("all|NAME,...", "The targets; by default those with pipes.")],
    arg=Annotated[
        Words,
        Option(
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
        Option(
            "--param",
            metavar="NAME=VALUE,...",
            help="Values of a constant or a whole number of the kernel, once for each. C++: of a macro, if none of its "
            "parameters has the name.",
        ),
    ] = None,
    grid: Annotated[str, Option(metavar="N", help="Number of blocks, such as 4 or {1024/rows}.")] = "1",
    out: Annotated[
        str | None,
        Option("-o", "--output", metavar="FILE.svg|.png|.csv|.json", help="Where to write the points."),
    ] = None,
    on_ray: Annotated[
        bool, Option("--ray", help="Run the points as Ray tasks; RAY_ADDRESS names the cluster.")
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
    form: Annotated[str, Argument(metavar="LAYOUT", autocompletion=layouts, help="nd, dn, nz, zn, zz or nn.")],
    shape: Annotated[str, Argument(metavar="ROWSxCOLS", help="The extents, such as 16x32.")],
    element: Annotated[str, Argument(metavar="TYPE", help="The element type, such as float16.")] = "float16",
    valid: Annotated[str | None, Option(metavar="ROWSxCOLS", help="The valid region.")] = None,
    fractal: Annotated[int, Option(metavar="BYTES", help="Bytes of a box: 512, 1024 or 32.")] = 512,
    offsets: Offsets = False,
    as_json: Json = False,
) -> int:
    """Draw a layout: the tile in logical order beside its memory, in the colours of the memory's order."""
    from ptokit.cli.view import view_layout as draw

    return draw(form, shape, element, valid, fractal, offsets=offsets, as_json=as_json)


@takes("word tile target arg grid function dyn_ub offsets")
def view_tile(
    program: ProgramRequest,
    tile: Annotated[str | None, Argument(metavar="TILE", help="Its name; without one, tiles are listed.")] = None,
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


# --- index traces


def trace_indices(
    words: Annotated[
        Words,
        Argument(metavar="-- FILE.py ARG", help="A Python file, or a module with -m, and its arguments."),
    ] = None,
    module: Module = False,
    out: Annotated[str | None, output("trace.npz")] = None,
    limit: Annotated[
        int | None, Option(min=1, metavar="N", help="Indices that are recorded, at most: 10,000,000.")
    ] = None,
    sample: Annotated[
        int | None,
        Option(min=1, metavar="N", help="Record N calls, drawn at random from all; without it the first calls."),
    ] = None,
    seed: Annotated[int, Option(min=0, metavar="N", help="Draws another sample.")] = 0,
    generate: Annotated[
        str | None,
        Option(
            metavar="NAME:PARAMETER=VALUE,...",
            autocompletion=generators,
            help="Make up a trace instead: zipf, moe_routing or paged_kv.",
        ),
    ] = None,
    as_json: Json = False,
) -> int:
    """Run a Python program, and record the indices of its lookups, for `replay`.

    Recorded are pto.gather and pto.scatter, and torch's embedding, embedding_bag and index_select, in order. The
    program runs in a process of its own, unchanged; what it prints goes to standard error.
    """
    from ptokit.cli.files import destination
    from ptokit.cli.indices import trace_indices as record

    limits = {"limit": limit, "sample": sample, "seed": seed}
    return record(words or (), destination(out, "trace.npz"), limits, generate, module, as_json)


def replay(
    file: Annotated[str, Argument(metavar="TRACE.npz", help="A trace that `trace-indices` wrote.")],
    target: Annotated[str, naming_targets("NAME,...", "Machine: the targets.")] = "a2a3,a5",
    engine: Annotated[str, Option(autocompletion=replay_engines, help="machine, native or sharded.")] = "machine",
    lanes: Annotated[
        int | None, Option(min=1, metavar="N", help="Indices of each table that are replayed, the first ones.")
    ] = None,
    shards: Annotated[int, Option(min=1, metavar="N", help="Sharded: the number of owners.")] = 2,
    as_json: Json = False,
) -> int:
    """Move the rows of a recorded trace once more, and show what they cost.

    The machine gives traffic, repeats, lanes outside and cycles of each target; the native engine its time against
    NumPy, torch and Numba; a sharded table the accesses of each owner.
    """
    from ptokit.cli.indices import replay_trace

    return replay_trace(file, target, engine, lanes, shards, as_json)


# --- the reference, the targets, the tour


def explain(
    name: Annotated[
        str | None,
        Argument(
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


def targets(as_json: Json = False) -> int:
    """Show the target profiles side by side."""
    if as_json:
        from ptokit.cli.report import print_json
        from ptokit.render.data import targets_data

        print_json("targets", targets=targets_data())
        return FINE

    from ptokit.render import pages
    from ptokit.render.document import new_console

    new_console().print(pages.targets_table())
    return FINE


def headers(
    path: Annotated[str, Argument(metavar="PATH", envvar="PTOKIT_PTO_ISA", help="A checkout of the public headers.")],
    jobs: Annotated[int, Option("-j", "--jobs", min=1, max=256, metavar="N", help="Kernels at a time.")] = 2,
    texts: Annotated[bool, Option("--texts", help="Only compare texts: run no kernels.")] = False,
    as_json: Json = False,
) -> int:
    """Print how a checkout of the public headers differs from the newest revision that ptokit knows.

    Instructions, their forms, assertions, and headers are compared as texts. The test kernels of the checkout whose
    instructions are made of other headers are compiled for this machine and run, and what their calls do is compared:
    pipes, flags, and bytes that are read and written. Exit status 1 if something differs.
    """
    from ptokit.cli.headers import compare_headers

    return compare_headers(path, as_json, jobs, texts)


def demo() -> int:
    """Show what ptokit does."""
    from ptokit import demo as acts

    acts.main()
    return FINE


# --- measured costs and compiled code


def calibrate(
    trace: Annotated[str, Argument(metavar="TRACE", help="Measured times: JSON, or a CSV file of msprof.")],
    kernel: Annotated[
        Words,
        Option("--kernel", metavar="FILE|MODULE:KERNEL", help="A kernel that the trace names, once for each."),
    ] = None,
    target: Target = None,
    costs: Costs = None,
    out: Annotated[str | None, output("costs.json")] = None,
    as_json: Json = False,
) -> int:
    """Fit the cost table of a target to measured times, and write it for --costs."""
    from ptokit.cli.calibrate import calibrate_costs
    from ptokit.cli.files import destination

    return calibrate_costs(trace, kernel or (), target, costs, destination(out, "costs.json"), as_json)


def cache_show(as_json: Json = False) -> int:
    """Show where compiled code is cached, and how much there is."""
    from ptokit.cli.report import print_answer
    from ptokit.engine.llvm import store

    folder, size, refusal = store.folder(), store.size(), store.refusal()
    why = refusal or store.unwritable()
    held = f"not used: {refusal}" if refusal else f"{counted(size.entries, 'file')}, {counted(size.bytes, 'byte')}"
    added = f"; nothing can be added: {why}" if why and not refusal else ""
    fields = {"folder": str(folder) if folder else None, "entries": size.entries, "bytes": size.bytes}
    shown = f"{folder or 'the cache'}: {held}{added}"
    return print_answer("cache show", as_json, shown, **fields, refusal=why or None)


def cache_clear(as_json: Json = False) -> int:
    """Remove all cached code. It is compiled again when needed."""
    from ptokit.cli.report import print_answer
    from ptokit.engine.llvm import store

    if refusal := store.refusal():
        raise Misuse(f"{store.folder() or 'the cache'} is not used: {refusal}")
    removed = store.clear()
    return print_answer("cache clear", as_json, f"{counted(removed, 'file')} removed", removed=removed)


# --- test vectors


Chosen = Annotated[str | None, naming_targets("NAME,...", "Only these targets.")]


def conformance_export(
    folder: Annotated[str, Argument(metavar="DIR", help="A new folder, or one with an older export.")],
    target: Chosen = None,
    program: Annotated[
        str, Option(metavar="PREFIX", help="Only programs whose names begin so, such as gather_row.")
    ] = "",
    as_json: Json = False,
) -> int:
    """Write test vectors: programs as text and C++, inputs, and the expected bytes or refusal, for each target."""
    from ptokit.cli.conformance import export_cases

    return export_cases(folder, _names(target), program, as_json)


def conformance_run(
    command: Annotated[str, Option(metavar="COMMAND", help='How a case is run, such as "./simulator {case} {out}".')],
    folder: Annotated[
        str | None, Argument(metavar="DIR", help="An export; without it, the cases are made for this run.")
    ] = None,
    target: Chosen = None,
    only: Annotated[
        Words, Option(metavar="CLAUSE", help="Only cases of this clause (MG-OOB-05) or group (MG-OOB).")
    ] = None,
    jobs: Annotated[int, Option("-j", "--jobs", min=1, max=256, metavar="N", help="Commands at a time.")] = 1,
    batch: Annotated[int, Option(min=1, metavar="N", help="Cases that one command gets, as a list.")] = 1,
    seconds: Annotated[float, Option(min=0.01, metavar="N", help="Seconds for one case.")] = 10.0,
    memory: Annotated[int, Option(min=1, metavar="MIB", help="Memory of one command.")] = 4096,
    as_json: Json = False,
) -> int:
    """Judge another implementation by test vectors, and print a table by clause.

    The command exits with 0 if it ran the case and wrote its arrays, with 3 if it refuses the program, with 4 if it
    does not support it.
    """
    from ptokit.cli.conformance import run_cases

    limits = {"jobs": jobs, "batch": batch, "seconds": seconds, "memory": memory << 20}
    return run_cases(folder, command, _names(target), only or (), as_json, **limits)


def conformance_answer(
    case: Annotated[str, Argument(metavar="CASE", help="The description of a case, or of a list of cases.")],
    out: Annotated[str, Argument(metavar="OUT", help="The folder for its arrays.")],
    engine: Annotated[str, Option(autocompletion=engines, help="By default the reference engine.")] = "",
) -> int:
    """Run a case with ptokit itself: the command of an implementation that can be judged."""
    from ptokit.cli.conformance import answer

    return answer(case, out, engine)


def _names(words: str | None) -> tuple[str, ...]:
    return tuple(words.split(",")) if words and words != ALL else ()


# --- the application


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
    explain, calibrate, targets, headers, demo,
)  # fmt: skip
"""Functions that return the exit status; a command has the name of its function."""

GROUPS: dict[str, tuple[str, dict[str, Callable[..., int]]]] = {
    "cache": (
        "Show or clear the compiled code in the cache on disk.",
        {"show": cache_show, "clear": cache_clear},
    ),
    "conformance": (
        "Test other implementations.",
        {"export": conformance_export, "run": conformance_run, "answer": conformance_answer},
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
        Option(
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
