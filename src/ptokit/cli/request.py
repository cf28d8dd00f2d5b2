"""What the command line states about a program: the options of the commands, one dataclass for each subject.

This module is imported for `--help`, so what it needs to act is imported when it acts.
"""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, field, fields
from enum import Enum, StrEnum
from functools import cache, cached_property, wraps
from importlib import import_module
from inspect import Parameter, Signature, signature
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer
from typer import Argument, Option
from typer.core import TyperCommand, TyperGroup

import ptokit
from ptokit.brief import elided
from ptokit.cli.completion import programs
from ptokit.cli.problems import WORDS, misused
from ptokit.finding import near

ALL = "all"


def _completing(module: str, names: Callable[[Any], Iterable[str]]) -> Callable[[str], Iterator[str]]:
    """Completion among names of a module, which is imported when they are needed."""

    def complete(incomplete: str) -> Iterator[str]:
        return (name for name in names(import_module(module)) if name.startswith(incomplete))

    return complete


targets = _completing("ptokit.target", lambda target: target.PROFILES)
targets_or_all = _completing("ptokit.target", lambda target: (ALL, *target.PROFILES))
engines = _completing("ptokit.engines", lambda engines: engines.names(models=True))
layouts = _completing("ptokit.isa.operand", lambda operand: operand.FORMS.values())
explained = _completing("ptokit.cli.explain", lambda explain: chain.from_iterable(names() for names in explain.PAGES))
generators = _completing("ptokit.traces.generate", lambda generate: (f"{name}:" for name in generate.GENERATORS))
replay_engines = _completing("ptokit.traces.replay", lambda replay: replay.ENGINES)


def functions(ctx: typer.Context, incomplete: str) -> Iterator[str]:
    """Functions of the text or source that the command names."""
    from ptokit.cli.completion import functions as functions_of

    word = ctx.params.get("word") or next(iter(ctx.args), None)  # not a parameter yet if an option lacks its value
    return functions_of(word, incomplete)


def known_target(name: str | None) -> str | None:
    """The name of a target or `all`; others are refused."""
    from ptokit.target import profile

    try:
        return name if name in (None, ALL) else profile(name).name
    except ValueError as problem:
        raise typer.BadParameter(str(problem)) from None


def one_target(name: str | None) -> str | None:
    """The name of a target; `all` is refused."""
    if name == ALL:
        raise typer.BadParameter(f"this command takes one target, not {ALL}")
    return known_target(name)


def known_targets(names: str | None) -> str | None:
    """Names of targets with commas between them, or `all`; others are refused."""
    if names in (None, ALL):
        return names
    return ",".join(filter(None, (known_target(name.strip()) for name in names.split(","))))


class Command(TyperCommand):
    """A command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words after the command's name."""
        with _suggesting(option for param in self.get_params(ctx) for option in param.opts):
            return super().parse_args(ctx, args)


class Group(TyperGroup):
    """Commands with a common name."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words after the group's name, which for `ptokit` are all of them."""
        if ctx.parent is None:
            WORDS.set(tuple(args))
        with _suggesting(option for param in self.get_params(ctx) for option in param.opts):
            return super().parse_args(ctx, args)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """After the help of `ptokit`: targets, engines and defaults."""
        if ctx.parent is None:
            for title, rows in help_sections().items():
                with formatter.section(title):
                    formatter.write_dl(rows)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command that is named."""
        with _suggesting(self.list_commands(ctx), args[0]):
            return super().resolve_command(ctx, args)


@contextmanager
def _suggesting(names: Iterable[str], word: str = "") -> Iterator[None]:
    """Suggest the nearest name if the parser refuses a word: `word`, or the option that it does not know.

    The parser's exceptions come from click, or from typer's own copy of it, so they are recognised by their attributes.
    """
    try:
        yield
    except Exception as problem:
        unknown = word or getattr(problem, "option_name", "")
        close = _close(unknown, names) if unknown and hasattr(problem, "message") else ""
        if close:
            message = str(getattr(problem, "message", "")).partition(" Did you mean")[0].removesuffix(".")
            problem.message = f"{message}; did you mean {close}?"  # type: ignore[attr-defined]
        elif isinstance(message := getattr(problem, "message", None), str):
            problem.message = elided(message)  # type: ignore[attr-defined]
        if getattr(problem, "possibilities", None):  # the parser's own, which compares dashes, too
            problem.possibilities = None  # type: ignore[attr-defined]
        raise


def _close(word: str, names: Iterable[str]) -> str:
    """The nearest name; for an option only options, whose dashes make no difference."""
    if not word.startswith("-"):
        return near(word, names)
    options = {name.lstrip("-"): name for name in names if name.startswith("-")}
    return options.get(near(word.lstrip("-"), options), "")


# --- greeting


INDENT = "      "
NARROW = 76
"""Characters below which a command and what it does stand on two lines."""
ABOUT = "Check, run, convert and explain PTO tile programs."
NEXT = {
    "ptokit demo": "a short tour",
    "ptokit check FILE": "what targets refuse, and why",
    "ptokit run FILE --arg x=x.npy": "run it on NumPy files",
    "ptokit report FILE": "findings, timeline and memory as a page",
    "ptokit view layout nz 16x32": "draw a layout",
    "ptokit explain": "instructions, clauses and hazards",
    "ptokit targets": "compare the targets",
}
"""What can be done next."""


def greeting() -> str:
    """A few commands to begin with."""
    width = shutil.get_terminal_size().columns
    lines = [*textwrap.wrap(f"ptokit {ptokit.__version__}. {ABOUT}", width), "", *_commands(width), ""]
    files = "FILE is PTO text (.pto), C++ (.cpp), or a kernel of a Python file (file.py:kernel)."
    more = "ptokit --help lists all commands, targets and engines."
    return "\n".join([*lines, *textwrap.wrap(files, width), *textwrap.wrap(more, width)]) + "\n"


def _commands(width: int) -> Iterator[str]:
    wide = max(map(len, NEXT))
    for command, about in NEXT.items():
        if width < NARROW:
            yield from (f"  {command}", *textwrap.wrap(about, width, initial_indent=INDENT, subsequent_indent=INDENT))
        else:
            yield f"  {command:<{wide}}  {about}"


def help_sections() -> dict[str, list[tuple[str, str]]]:
    """Targets, engines and defaults, for the end of the help."""
    from ptokit.engines import AUTO, ENGINES, PREFERRED
    from ptokit.lang.context import current
    from ptokit.target import PROFILES, families

    engines = [(name, engine.about) for name, engine in ENGINES.items()]
    return {
        "Targets": [(name, profile.title) for name, profile in PROFILES.items()],
        "Engines": [(AUTO, f"{' or '.join(PREFERRED)}, what is installed; cuda for arrays on a GPU"), *engines],
        "Defaults": [
            (
                "--target",
                f"{', '.join(families())} for check and report; those with pipes for trace and sweep; a5 for "
                f"view gather; else {current().name}",
            ),
            ("--engine", AUTO),
            ("--grid", "1 block"),
        ],
    }


# --- options


if TYPE_CHECKING:
    from ptokit.machine.report import MachineOptions

Words = list[str] | None
Json = Annotated[bool, Option("--json", help="Print one JSON object.")]


def naming_targets(metavar: str, about: str) -> Any:
    """The option `--target`: one name, or several if commas may follow it; `all` if it may be that."""
    has_all = metavar.startswith(ALL)
    known = known_targets if "," in metavar else known_target if has_all else one_target
    completion = targets_or_all if has_all else targets
    return Option("--target", metavar=metavar, callback=known, autocompletion=completion, help=about)


Target = Annotated[str | None, naming_targets("NAME", "The target.")]
Targets = Annotated[str | None, naming_targets("all|NAME", "One target, or all devices.")]
Costs = Annotated[str | None, Option(metavar="FILE.json", help="Machine: a cost table that `calibrate` wrote.")]
Rest = Annotated[Words, Argument(metavar="-- ARG", help="Arguments of a Python file that is run.")]
Module = Annotated[bool, Option("-m", "--module", help="Run a module by its name, as `python -m` does.")]
Offsets = Annotated[bool, Option("--offsets", help="Offsets of elements in memory instead of letters.")]


def output(default: str) -> Any:
    """The option `-o` of a command that also writes a file without it."""
    metavar = f"FILE.{default.rpartition('.')[2]}"
    return Option("-o", "--output", metavar=metavar, help="Where to write.", show_default=default)


class Launch(StrEnum):
    """How a kernel is started."""

    standard = "standard"
    function_pointer = "function_pointer"


@dataclass(frozen=True)
class CxxRequest:
    """How a C++ source is compiled and recorded."""

    include: Annotated[Words, Option("-I", metavar="DIR", help="C++: a folder of headers.")] = None
    define: Annotated[Words, Option("-D", metavar="NAME[=VALUE]", help="C++: a macro.")] = None
    std: Annotated[str | None, Option("--std", metavar="STANDARD", help="C++: c++20 or later.")] = None
    database: Annotated[
        str | None,
        Option(metavar="FILE", help="C++: a compile database, if it is not beside or above the source."),
    ] = None
    headers: Annotated[
        str | None,
        Option(
            metavar="PATH",
            envvar="PTOKIT_PTO_ISA",
            help="C++: a checkout of the public headers; they say what instructions do that ptokit does not know.",
        ),
    ] = None
    limit: Annotated[
        Words,
        Option("--limit", metavar="NAME=VALUE", help="C++: a bound on recording: seconds=60, memory=8G, calls=1e6."),
    ] = None


@dataclass(frozen=True)
class MachineRequest:
    """What only the machine takes."""

    seed: Annotated[int | None, Option(min=0, help="Machine: another legal schedule.")] = None
    lanes: Annotated[bool, Option("--lanes", help="Machine: the outcome of every lane.")] = False
    timeline: Annotated[
        str | None, Option(metavar="FILE", help="Machine: write the timeline, as `ptokit trace` does.")
    ] = None
    notes: Annotated[bool, Option("--notes", help="Machine: show notes, too.")] = False
    costs: Costs = None
    cores: Annotated[int | None, Option(min=1, help="How many blocks run at a time.")] = None
    blocks: Annotated[
        str | None, Option(metavar="first,last,random:N", help="Machine: only these blocks of the grid.")
    ] = None

    def __post_init__(self) -> None:
        if self.stated:
            _ = self.options  # what is wrong is refused before any work is done

    @property
    def stated(self) -> list[str]:
        """The options that are stated."""
        return [f"--{option.name}" for option in fields(self) if getattr(self, option.name) != option.default]

    @cached_property
    def options(self) -> MachineOptions:
        """The options of a launch on the machine."""
        from ptokit.cli.report import costs_in
        from ptokit.machine.report import MachineOptions

        costs = costs_in(self.costs)
        with misused(ValueError, by="--blocks: "):
            return MachineOptions(seed=self.seed, lanes=self.lanes, costs=costs, cores=self.cores, blocks=self.blocks)


@dataclass(frozen=True)
class ProgramRequest:
    """A program, and the options of a check or a run."""

    word: Annotated[
        str,
        Argument(metavar="FILE|MODULE:KERNEL", autocompletion=programs, help="A text, `-`, or a kernel of a module."),
    ]
    target: Target = None
    arg: Annotated[
        Words,
        Option(
            "--arg",
            metavar="NAME=VALUE",
            help="An argument, once for each: a number, an .npy file, zeros such as f32[1000,64], or a kernel's "
            "constant.",
        ),
    ] = None
    grid: Annotated[int, Option(min=0, help="Number of blocks.")] = 1
    function: Annotated[
        str | None,
        Option(
            "--function",
            "--entry",
            metavar="NAME",
            autocompletion=functions,
            help="The function of a text or a source that has several.",
        ),
    ] = None
    strict: Annotated[bool, Option("--strict", help="Hazards are errors.")] = False
    header: Annotated[bool, Option("--header", help="Refuse only what the target's real headers refuse.")] = False
    dyn_ub: Annotated[int | None, Option(min=0, metavar="BYTES", help="Dynamic UB that the launch asks for.")] = None
    launch: Annotated[Launch, Option(help="How the kernel is started.")] = Launch.standard
    machine: MachineRequest = field(default_factory=MachineRequest)
    cxx: CxxRequest = field(default_factory=CxxRequest)

    @property
    def options(self) -> dict[str, Any]:
        """The options of a check or a launch."""
        return {name: getattr(self, name) for name in ("target", "strict", "header", "dyn_ub", "launch")}

    @property
    def named_args(self) -> tuple[str, ...]:
        """The names of the arguments that are given."""
        return tuple(word.partition("=")[0] for word in self.arg or ())

    def on_machine(self, target: str) -> dict[str, Any]:
        """The options of the machine for a check on a target, which launches have not decided. Of several targets, only
        those of its family take a cost table."""
        from ptokit.machine import ENOUGH
        from ptokit.machine.costs import CostTable
        from ptokit.spec import family_of

        machine = self.machine.options
        costs = machine.overrides
        is_of_another = isinstance(costs, CostTable) and family_of(costs.target) != family_of(target)
        costs = {} if is_of_another and self.target in (None, ALL) else costs
        chosen = {"costs": costs, "blocks": machine.blocks or ENOUGH, "lanes": machine.lanes, "cores": machine.cores}
        return {name: value for name, value in chosen.items() if value}


def takes(words: str, **changed: Any) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Make a command of a function that takes a `ProgramRequest` and options of its own.

    `words` are all its options in the order of its help; those for C++ and `--json` follow. `changed` are options that
    it has in another form.
    """

    def command(function: Callable[..., int]) -> Callable[..., int]:
        own = {**signature(function, eval_str=True).parameters}
        known = {name: option for kind in SUBJECTS for name, option in _options(kind).items()} | own
        names = [*words.split(), *_options(CxxRequest), *(name for name in own if name == "as_json")]
        kinds = {name: changed.get(name, known[name].annotation) for name in names}

        @wraps(function)
        def run(**given: Any) -> int:
            values = {name: _plain(value) for name, value in given.items()}
            program = _request({name: value for name, value in values.items() if name not in own})
            return function(program, **{name: value for name, value in values.items() if name in own})

        run.__signature__ = Signature(  # type: ignore[attr-defined]
            [known[name].replace(kind=Parameter.KEYWORD_ONLY, annotation=kind) for name, kind in kinds.items()]
        )
        return run

    return command


SUBJECTS = (ProgramRequest, MachineRequest, CxxRequest)


@cache
def _options(subject: Any) -> dict[str, Parameter]:
    """The options of a subject."""
    hints, none = get_type_hints(subject, include_extras=True), Parameter.empty
    return {
        each.name: Parameter(
            each.name,
            Parameter.KEYWORD_ONLY,
            default=none if each.default is MISSING else each.default,
            annotation=hints[each.name],
        )
        for each in fields(subject)
    }


def _plain(value: Any) -> Any:
    """An option as plain data that can be a key."""
    return tuple(value) if isinstance(value, list) else value.value if isinstance(value, Enum) else value


def _request(given: Mapping[str, Any]) -> ProgramRequest:
    """The request of a command. C++ on standard input is put into a file."""
    own, machine, cxx = (
        {each.name: given[each.name] for each in fields(kind) if each.name in given} for kind in SUBJECTS
    )
    if own["word"] == "-":
        from ptokit.cli.files import on_disk

        own["word"] = on_disk(own["word"])
    return ProgramRequest(**own, machine=MachineRequest(**machine), cxx=CxxRequest(**cxx))
