"""Commands on programs: check, run and show, format and convert."""

from __future__ import annotations

import ast
import io
import os
import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from functools import partial
from typing import Any

from ptokit.cli.arguments import made_up, pairs, passed, values_of, with_outs, write_array
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
from ptokit.cli.problems import (
    FINE,
    FOUND,
    MISUSED,
    UNMODELLED,
    WORDS,
    Misuse,
    apart,
    described,
    print_error,
    printable,
    status_of,
)
from ptokit.cli.reach import notes_beyond, reaches
from ptokit.cli.report import (
    FindingsOfEntries,
    check_data,
    joined,
    machine_data,
    print_json,
    print_run,
    show_findings,
    show_machine,
    show_report,
    show_run,
    timeline_file,
)
from ptokit.cli.request import ALL, ProgramRequest
from ptokit.cli.subject import entries_in, find, is_source, left_out, named_kernel, stated_target
from ptokit.finding import Finding, OutOfBoundsError, VerifyError
from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.isa.instruction import Param
from ptokit.lang.check import check, show
from ptokit.lang.faults import finding_of, raised_in_user_code
from ptokit.lang.kernel import Kernel
from ptokit.lang.launch import mode_of
from ptokit.lang.launcher import Launchable, quiet_report
from ptokit.lang.loaded import TextKernel
from ptokit.lang.source import Unreadable, base_name, tree_of
from ptokit.lang.sources import is_cpp
from ptokit.machine import MACHINE
from ptokit.machine.report import MachineOptions, MachineReport
from ptokit.program.expr import Expr, Var, evaluate, variables
from ptokit.program.ir import Program
from ptokit.program.origins import Origins
from ptokit.program.place import place
from ptokit.program.verify import verify
from ptokit.program.verify_call import Options
from ptokit.progress import task
from ptokit.target import PROFILES, profile
from ptokit.text.cpp import emit
from ptokit.text.errors import TextError
from ptokit.text.forms import convert, format_text, print_program
from ptokit.text.memories import is_unshaped


def check_program(request: ProgramRequest, as_json: bool, run: bool = False) -> int:
    """Print the findings before a run, and on request those of a run on the machine. C++ is run anyway. If none is
    named, all entries of a source and all kernels of a text are judged."""
    left: list[str] = []
    try:
        requests = [*each_entry(request)]
    except VerifyError as error:
        found = [_refused(request, as_json, error)]
    else:
        entries = FindingsOfEntries()
        found = [_check_program(each, as_json, run or is_source(request.word), entries) for each in requests]
        if not as_json:
            entries.show()
        left = left_out(request)
    statuses = {status for status, _ in found}
    if left:
        statuses.add(UNMODELLED)
    if as_json:
        listed = [data for _, data in found]
        fields = listed[0] if len(listed) == 1 else {"entries": listed}
        print_json("check", **fields, **({"left_out": left} if left else {}))
    else:
        print_text(printable("".join(f"not judged: {line}\n" for line in left)))
    return FOUND if FOUND in statuses else max(statuses)


def each_entry(request: ProgramRequest) -> Iterator[ProgramRequest]:
    """A request for each entry of a C++ source that it names, or for all entries; for each kernel of a text."""
    if is_source(request.word) and request.target is None:
        request = replace(request, target=stated_target(request))
    for name in entries_in(request):
        yield replace(request, function=name)


def status_of_check(request: ProgramRequest) -> tuple[int, int]:
    """The exit status of a check with `--run`, and the number of blocks; nothing is printed."""
    status, data = _check_program(request, as_json=True, run=True, entries=FindingsOfEntries())
    return status, data["grid"]


def _refused(
    request: ProgramRequest, as_json: bool, error: TextError | VerifyError | OutOfBoundsError
) -> tuple[int, dict[str, Any]]:
    """The status of a program that cannot be checked, and the reason for the JSON."""
    status = FOUND if isinstance(error, TextError) else status_of(error.findings)
    if as_json:
        return status, check_data(request.grid, error=error)
    if isinstance(error, TextError):
        print_text(printable(f"{error}\n"))
    elif is_cpp(request.word):
        show_findings(error.findings)
    else:
        raise error
    return status, {}


def arguments_of(kernel: Launchable, request: ProgramRequest) -> tuple[Sequence[Any], dict[str, Any]]:
    """The arguments of a check that runs nothing."""
    return passed(kernel, _values(kernel, request, None))


def _check_program(
    request: ProgramRequest, as_json: bool, run: bool, entries: FindingsOfEntries
) -> tuple[int, dict[str, Any]]:
    """The status, and the data of the JSON if that is asked for; else the report is printed."""
    try:
        kernel = find(request)
        values = _values(kernel, request, () if run else None)
        args, keywords = passed(kernel, values)
        with task(f"check {kernel.name}:"):
            with library_call():
                options = {**request.options, "target": request.target or ALL}
                if request.machine.blocks is not None:
                    options |= {"engine": MACHINE, "options": request.machine.options}
                report = check(kernel, *args, grid=request.grid, **options, **keywords)
            if run:
                more = {name: _machine_findings(kernel, request, name) for name in report.targets}
                targets = {name: joined(found, more[name]) for name, found in report.targets.items()}
                weighed = {name: _weighed(kernel, request, name, each.findings) for name, each in targets.items()}
                arrays = reaches(kernel, made_up(kernel, pairs(request.arg or (), "--arg")), values)
                beyond = notes_beyond(arrays, values)
                targets = {
                    name: replace(each, findings=(*weighed[name], *(note.on(name) for note in beyond)))
                    for name, each in targets.items()
                }
                report = replace(report, targets=targets)
                entries.add_arrays(arrays)
    except (TextError, VerifyError, OutOfBoundsError) as error:
        return _refused(request, as_json, error)
    if not as_json:
        show_report(report, entries)
    return status_of(report.findings), check_data(report.grid, report) if as_json else {}


def _weighed(
    kernel: Launchable, request: ProgramRequest, target: str, findings: tuple[Finding, ...]
) -> tuple[Finding, ...]:
    """Findings about indices and divisors are notes if these may come from arrays that ptokit made up."""
    names = made_up(kernel, pairs(request.arg or (), "--arg"))
    if not (names and any(each.is_fault for each in findings)):
        return findings
    try:
        programs = _placed(kernel, replace(request, target=target))
    except (VerifyError, OutOfBoundsError):  # it was stopped, and has none
        return findings
    origins = [Origins(program, names, request.grid) for program in programs]
    weighed: list[Finding] = []
    for each in findings:
        found = dict.fromkeys(array for origin in origins for array in origin.of(each)) if each.is_fault else ()
        why = f"; ptokit made up the values of {', '.join(found)}: give them with --arg"
        weighed.append(replace(each, level="note", message=each.message + why) if found else each)
    return tuple(weighed)


def _machine_findings(kernel: Launchable, request: ProgramRequest, target: str) -> tuple[Finding, ...]:
    """The findings of a run on the machine."""
    try:
        return machine_report(kernel, request, target).findings
    except (VerifyError, OutOfBoundsError) as refusal:
        return refusal.findings


def machine_report(kernel: Launchable, request: ProgramRequest, target: str) -> MachineReport:
    """A run on the machine, on fresh arrays."""
    args, keywords = passed(kernel, _values(kernel, request, ()))
    with library_call():
        own = MachineOptions(**request.on_machine(target))
        options = {**request.options, "target": target, "options": own}
        return quiet_report(kernel[request.grid], *args, **options, **keywords)


UNJUDGED = "the engine {} does not judge order: --engine machine does, and check --run"
"""What a run of a kernel with flags of its author prints."""


def run_program(request: ProgramRequest, out: Sequence[str], engine: str, threads: int | None, as_json: bool) -> int:
    """Run a program on arrays, and write some of them. Errors go to standard error, and into the JSON if requested."""
    machine = request.machine
    if engine != MACHINE and machine.stated:
        raise Misuse(f"{', '.join(machine.stated)}: for --engine {MACHINE} only")
    outs, options = _destinations(out, machine.timeline), machine.options if engine == MACHINE else None
    kernel: Launchable | None = None
    try:
        kernel = find(request)
        values = _values(kernel, request, outs)
        args, keywords = passed(kernel, values)
        if made := [name for name in made_up(kernel, pairs(request.arg or (), "--arg")) if values[name].any()]:
            print_error(f"made up the values of {', '.join(made)}: give them with --arg")
        with task(f"run {kernel.name}:"), library_call():
            how, launcher = {"threads": threads, "options": options, **request.options}, kernel[request.grid]
            launch = partial(quiet_report, launcher) if engine == MACHINE else partial(launcher, engine=engine)
            result = launch(*args, **how, **keywords)
    except (TextError, VerifyError, OutOfBoundsError) as error:
        if as_json:
            print_run(kernel, mode_of(request.target).profile.name, request.grid, error=error)
        raise
    is_report = isinstance(result, MachineReport)
    if is_report and not result.written:
        print_error("nothing was written: an instruction could not be executed, and the arrays keep their content", "")
        outs = {}
    written = {name: (file, values[name]) for name, file in outs.items()}
    arrays = {file: partial(write_array, array) for file, array in written.values()}
    write_all({**arrays, **timeline_file(result, machine.timeline)})
    if as_json or not is_report:
        show_findings(result.findings)
    if engine != MACHINE and kernel.mode != "auto" and profile(result.target).pipes:
        print_error(UNJUDGED.format(result.engine), "")
    if as_json:
        print_run(kernel, result.target, result.grid, result, written, **machine_data(result))
    else:
        show_run(kernel, result, written)
        if is_report:
            show_machine(result, notes=machine.notes)
    return status_of(result.findings)


def show_program(request: ProgramRequest) -> int:
    """Print a program as a target runs it."""
    kernel = find(request)
    args, keywords = passed(kernel, _values(kernel, request))
    printed = io.StringIO()
    with library_call(), redirect_stdout(printed):
        target = request.target or (kernel.targets[0] if kernel.targets else None)
        show(kernel, *args, target=target, grid=request.grid, dyn_ub=request.dyn_ub, **keywords)
    print_text(printable(printed.getvalue()))
    return FINE


def placed_programs(request: ProgramRequest) -> list[Program]:
    """The programs of a kernel's launches, with the addresses that a target's tiles get."""
    return _placed(find(request), request)


def _placed(kernel: Launchable, request: ProgramRequest) -> list[Program]:
    target = request.target or (kernel.targets[0] if kernel.targets else None)
    programs, machine = _programs(kernel, request, target), mode_of(target).profile
    return [place(program, machine, request.dyn_ub).program for program in programs]


def _programs(kernel: Launchable, request: ProgramRequest, target: str | None) -> list[Program]:
    """The programs of a kernel's launches on a target."""
    values = _values(kernel, request)
    with library_call():
        mode = mode_of(target, dyn_ub=request.dyn_ub)
        arguments = kernel.bind_for_check((), values)
        return [each.trace(arguments, mode).program for each, _ in kernel.launches(arguments, mode, request.grid).made]


def program_of(request: ProgramRequest) -> Program:
    """The program of a kernel for a target; of several launches, that of the first."""
    return _programs(find(request), request, request.target)[0]


def _values(kernel: Launchable, request: ProgramRequest, outs: Iterable[str] | None = None) -> dict[str, Any]:
    """The arguments of a check, or of a run if there are `outs`; refused if they do not match the kernel."""
    written = [*(outs or ())]
    bind = kernel.bind_for_check if outs is None else kernel.bind
    try:
        with library_call():
            values = values_of(kernel, pairs(request.arg or (), "--arg"), written)
            needed = [] if isinstance(kernel, TextKernel) else kernel.missing(values)
            values = values if {*needed} - {*written} else with_outs(kernel, values, written)
        try:
            with library_call():
                bind((), values)
        except Misuse as problem:
            if not (missing := kernel.missing(values)):
                raise
            raise Misuse(f"{problem}; for example:\n    {example(kernel, WORDS.get(), missing)}") from problem
    except (VerifyError, OutOfBoundsError) as refusal:
        messages = (f"{finding.message}; {finding.fix}" for finding in refusal.findings)
        raise Misuse("\n".join(messages)) from refusal
    return values


def _destinations(out: Iterable[str], timeline: str | None = None) -> dict[str, str]:
    """The output files by parameter; refused before any work if they cannot be written."""
    outs = pairs(out, "--out")
    for file in outs.values():
        check_destination(file)
    files = {os.path.realpath(file) for file in outs.values()}
    if len(files) < len(outs):
        raise Misuse("--out: two arrays cannot go into the same file")
    if timeline is not None:
        check_destination(timeline)
        if os.path.realpath(timeline) in files:
            raise Misuse("--timeline: an array goes into the same file")
    return outs


@contextmanager
def library_call() -> Iterator[None]:
    """Around a call of the library: hazards are reported later, and only results go to standard output."""
    with apart():
        try:
            yield
        except (TextError, VerifyError, OutOfBoundsError, Misuse, KeyboardInterrupt):
            raise
        except BaseException as problem:
            if (where := raised_in_user_code(problem)) is not None:
                raise VerifyError([finding_of(problem, where)]) from problem
            is_uninstalled = type(problem) is ImportError  # an engine that was asked for
            if is_uninstalled or isinstance(problem, TypeError | ValueError | ArithmeticError | MemoryError):
                raise Misuse(described(problem)) from problem
            raise


# --- texts


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


# --- examples of commands


EXTENT = 64
"""The extent if the kernel states none."""
NUMBER = "8"
"""The integer if the kernel states none."""


def example(kernel: Launchable, words: Sequence[str], missing: Iterable[str]) -> str:
    """The command again, with a value for every argument that is missing."""
    values = _of_text(kernel) if isinstance(kernel, TextKernel) else _of_source(kernel)
    added = [word for name in missing for word in ("--arg", f"{name}={values.get(name, NUMBER)}")]
    return shlex.join(["ptokit", *words, *added])


def _array(kind: str, shape: Sequence[int]) -> str:
    return f"{kind}[{','.join(map(str, shape))}]"


def _of_text(kernel: TextKernel) -> dict[str, str]:
    """The text states what its arguments are."""
    found: dict[str, str] = {}
    numbers = {Var(name): int(NUMBER) for name, kind in kernel.parameters.items() if kind == "integer"}
    for name, kind in kernel.parameters.items():
        if kind != "array":
            found[name] = NUMBER if kind == "integer" else "1.0"
            continue
        views = [tensor for tensor in kernel.program.tensors.values() if tensor.array == name]
        view = next((tensor for tensor in views if not is_unshaped(tensor)), None)
        shape = [_extent(extent, numbers) for extent in view.shape] if view else [EXTENT * EXTENT]
        found[name] = _array(kernel.program.tensors[name].dtype.name, shape)
    return found


def _extent(extent: Expr, numbers: dict[Var, int]) -> int:
    return max(evaluate(extent, numbers), 1) if variables(extent) <= numbers.keys() else EXTENT


def _of_source(kernel: Launchable) -> dict[str, str]:
    """An array for each parameter that is sliced, has its shape read or is an operand; else a number."""
    if not isinstance(kernel, Kernel):
        return {}
    try:
        nodes = [*ast.walk(tree_of(kernel.function.__code__))]
    except Unreadable:
        nodes = []
    ranks = _ranks(nodes)
    indices = {*_indices(nodes)}
    words = _words(nodes)
    found: dict[str, str] = {}
    for name in kernel.parameters:
        if name in kernel.constants:
            found[name] = words.get(name, NUMBER)
        elif name in indices:
            found[name] = _array("int32", [EXTENT] * max(1, ranks.get(name, 0)))
        elif name in ranks or not nodes:
            found[name] = _array("float32", [EXTENT] * max(2, ranks.get(name, 0)))
    return found


def _ranks(nodes: Iterable[ast.AST]) -> dict[str, int]:
    """The least number of dims of each array, by its uses: `x[a:b, c:d]`, `x.shape[1]`, an operand."""
    found: dict[str, int] = {}
    for node in nodes:
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
            rank = len(node.slice.elts) if isinstance(node.slice, ast.Tuple) else 0
            found[node.value.id] = max(found.get(node.value.id, 0), rank)
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and (name := base_name(node)):
            rank = node.slice.value + 1 if isinstance(node.slice.value, int) else 0
            found[name] = max(found.get(name, 0), rank)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            found.setdefault(node.value.id, 0)
        elif isinstance(node, ast.Call) and _called(node) in INSTRUCTIONS:
            for operand in node.args:
                found.setdefault(base_name(operand) or "", 0)
    return found


def _indices(nodes: Sequence[ast.AST]) -> Iterator[str]:
    """Parameters that are indices: operands of an instruction, or arrays that such an operand is loaded from."""
    calls = [node for node in nodes if isinstance(node, ast.Call) and node.args]
    loads = [(base_name(call.args[0]), array) for call in calls for array in _blocks(call)]
    for call in calls:
        if _called(call) == "load_scalar":
            yield base_name(call.args[0]) or ""
        for param, given in _operands(call):
            if param.role == "index":
                yield base_name(given) or ""
                yield from (array or "" for tile, array in loads if tile == base_name(given))


def _operands(call: ast.Call) -> list[tuple[Param, ast.expr]]:
    instruction = INSTRUCTIONS.get(_called(call))
    return [*zip(instruction.operands, call.args, strict=False)] if instruction else []


def _blocks(call: ast.Call) -> list[str | None]:
    """Arrays that an instruction loads a block of."""
    return [base_name(given) for param, given in _operands(call) if param.is_block and param.access == "read"]


def _words(nodes: Iterable[ast.AST]) -> dict[str, str]:
    """A value for each parameter that is passed on as a modifier of an instruction or as a tile's element type."""
    found: dict[str, str] = {}
    for call in (node for node in nodes if isinstance(node, ast.Call)):
        instruction = INSTRUCTIONS.get(_called(call))
        choices = {modifier.name: modifier.enum for modifier in instruction.modifiers} if instruction else {}
        for keyword in call.keywords:
            if keyword.arg in choices and isinstance(keyword.value, ast.Name):
                found[keyword.value.id] = next(iter(choices[keyword.arg])).text
        if _called(call) == "Tile" and len(call.args) > 1 and isinstance(call.args[1], ast.Name):
            found[call.args[1].id] = "float32"
    return found


def _called(call: ast.Call) -> str:
    called = call.func
    return called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
