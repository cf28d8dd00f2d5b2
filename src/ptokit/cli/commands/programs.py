"""Commands that check and run programs."""

from __future__ import annotations

from typing import Annotated

import typer

from ptokit.cli.completion import programs
from ptokit.cli.parsing import engines
from ptokit.cli.request import Json, Module, ProgramRequest, Rest, Targets, Words, takes


@takes(
    "word rest module target grid arg function strict header dyn_ub run fix diff needless blocks costs",
    target=Targets,
    word=Annotated[
        str,
        typer.Argument(
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
    run: Annotated[bool, typer.Option("--run", help="Also run it on the machine; needs the arrays.")] = False,
    fix: Annotated[bool, typer.Option("--fix", help="Repair its flags in its source; implies --run.")] = False,
    diff: Annotated[bool, typer.Option("--diff", help="With --fix: print the change, and write nothing.")] = False,
    needless: Annotated[bool, typer.Option("--needless", help="With --fix: remove flags that nothing needs.")] = False,
    as_json: Json = False,
) -> int:
    """Report what targets refuse in a program, and why.

    A text or a named kernel is run, on the machine, only with --run or --fix. A Python file is run as `python` runs it,
    and every launch that it makes is checked, on the machine too, with copies of its arrays.
    """
    from ptokit.cli.live import check_launches, is_python
    from ptokit.cli.problems import Misuse
    from ptokit.cli.programs import check_program

    is_script = module or is_python(program.word)
    if rest and not is_script:
        raise Misuse(f"{program.word} takes no arguments of its own: {' '.join(rest)}")
    if fix or diff or needless:
        from ptokit.cli.fix import FixRequest, fix_launches, fix_program

        how = FixRequest(fix, diff, needless)
        if is_script:
            return fix_launches(program, rest or (), how, as_json, is_module=module)
        return fix_program(program, how, as_json)
    if is_script:
        return check_launches(program, rest or (), as_json, is_module=module)
    if program.machine.given and not run:
        raise Misuse("--blocks and --costs are for the machine: use --run")
    return check_program(program, as_json, run)


@takes(
    "word arg out grid target engine threads function strict header dyn_ub launch seed blocks lanes timeline notes "
    "costs cores",
    cores=Annotated[int | None, typer.Option(min=1, help="Machine: how many blocks run at a time.")],
)
def run(
    program: ProgramRequest,
    out: Annotated[
        Words, typer.Option("--out", metavar="NAME=FILE.npy", help="Write an array after the run, once for each.")
    ] = None,
    engine: Annotated[
        str, typer.Option(autocompletion=engines, help="auto, reference, native, cuda or machine.")
    ] = "auto",
    threads: Annotated[int | None, typer.Option(metavar="N", help="Threads that may be used.")] = None,
    as_json: Json = False,
) -> int:
    """Run a program on NumPy files. Files are written only when it runs to the end; inputs are never changed."""
    from ptokit.cli.programs import run_program

    return run_program(program, out or (), engine, threads, as_json)
