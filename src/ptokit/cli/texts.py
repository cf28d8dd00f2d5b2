"""Commands on texts: format, and convert into other forms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ptokit.cli.files import (
    STDIN,
    check_destination,
    check_regular,
    check_unnamed,
    print_text,
    read_text,
    shown_name,
    write_all,
)
from ptokit.cli.problems import FINE, FOUND, MISUSED, Misuse, print_error, printable
from ptokit.cli.programs import library_call, program_of
from ptokit.cli.report import show_findings
from ptokit.cli.request import ProgramRequest
from ptokit.cli.subject import named_kernel
from ptokit.lang.sources import is_cpp
from ptokit.program.verify import verify
from ptokit.program.verify_call import Options
from ptokit.target import PROFILES, profile
from ptokit.text.cpp import emit
from ptokit.text.errors import TextError
from ptokit.text.forms import convert, format_text, print_program

MLIR = ("l1", "l2")


def format_files(files: Sequence[str], only_check: bool) -> int:
    """Rewrite texts in canonical form. A text that cannot be read stays as it is."""
    return max(_format(file, only_check) for file in files)


def _format(file: str, only_check: bool) -> int:
    try:
        if file != STDIN and not only_check:
            check_regular(file)
        text = read_text(file)
        formatted = format_text(text, shown_name(file)).encode("utf-8")
        if formatted != text and file != STDIN and not only_check:
            check_unnamed(file)
    except TextError as error:
        print_error(str(error), "")
        return FOUND
    except Misuse as problem:
        print_error(str(problem))
        return MISUSED
    if only_check and formatted != text:
        print_text(printable(f"{shown_name(file)} would change\n"))
        return FOUND
    if file == STDIN and not only_check:
        print_text(formatted.decode("utf-8"))
    elif formatted != text:
        write_all({file: lambda stream: stream.write(formatted)})
    return FINE


def convert_program(request: ProgramRequest, to: str, version: str | None, out: str) -> int:
    """Print a program in another form, or write it into a file."""
    if version is not None and to not in MLIR:
        raise Misuse(f"--pto-version is for --to {' and '.join(MLIR)}")
    if out != STDIN:
        check_destination(out)
    text = _converted(request, to, version)
    if out == STDIN:
        print_text(text)
    else:
        write_all({out: lambda stream: stream.write(text.encode("utf-8"))})
    return FINE


def _converted(request: ProgramRequest, to: Any, version: Any) -> str:
    """The text; `to` and `version` are among those that the options take."""
    if to == "cpp":
        return _cpp(request)
    if named_kernel(request.word) is None and not is_cpp(request.word):
        if (request.arg or ()) or request.target or request.dyn_ub:
            raise Misuse("--arg, --target and --dyn-ub are for --to cpp and for kernels of a module")
        return convert(read_text(request.word), shown_name(request.word), to, version, request.function)
    program = program_of(request)
    with library_call():
        return print_program(program, to, version, profile(request.target).arch if request.target else "")


def _cpp(request: ProgramRequest) -> str:
    if request.target is None:
        raise Misuse(f"--to cpp needs --target, one of {', '.join(PROFILES)}")
    program = program_of(request)
    machine = profile(request.target)
    with library_call():
        text = emit(program, machine, dyn_ub=request.dyn_ub)
        found = verify(program, machine, Options(dyn_ub=request.dyn_ub))
    show_findings(finding for finding in found if finding.level == "hazard")
    return text
