"""Commands that check and run programs."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from ptokit.cli.commands.options import (
    Args,
    Blocks,
    Costs,
    Database,
    Define,
    DynUb,
    Function,
    Grid,
    Header,
    Include,
    Json,
    Limits,
    Std,
    Strict,
    Target,
    Targets,
    Word,
    source,
)
from ptokit.cli.completion import programs
from ptokit.cli.parsing import engines


class Launch(StrEnum):
    """How a kernel is started."""

    standard = "standard"
    function_pointer = "function_pointer"


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
    word, cxx = source(word, include, define, std, database, target, arg, grid, limit)
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

    word, cxx = source(word, include, define, std, database, target, arg, grid, limit)
    request = ProgramRequest(word, arg or (), target, grid, function, strict, header, dyn_ub, launch.value, cxx=cxx)
    machine = MachineRequest(seed, lanes, timeline, notes, costs, cores, blocks)
    return run_program(request, out or (), engine, threads, machine, as_json)
