"""What the command line states about a program: the options of the commands, one dataclass for each subject.

This module is imported for `--help`, so what it needs to act is imported when it acts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from enum import Enum, StrEnum
from functools import cache, cached_property, wraps
from inspect import Parameter, Signature, signature
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from ptokit.cli.completion import programs
from ptokit.cli.parsing import ALL, functions, known_target, one_target, targets_or_all
from ptokit.cli.parsing import targets as target_names
from ptokit.cli.problems import misused

if TYPE_CHECKING:
    from ptokit.machine.options import MachineOptions

Words = list[str] | None
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
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
Costs = Annotated[str | None, typer.Option(metavar="FILE.json", help="Machine: a cost table that `calibrate` wrote.")]
Rest = Annotated[Words, typer.Argument(metavar="-- ARG", help="Arguments of a Python file that is run.")]
Module = Annotated[bool, typer.Option("-m", "--module", help="Run a module by its name, as `python -m` does.")]
Offsets = Annotated[bool, typer.Option("--offsets", help="Offsets of elements in memory instead of letters.")]


def output(default: str) -> Any:
    """The option `-o` of a command that writes a file without it, too."""
    metavar = f"FILE.{default.rpartition('.')[2]}"
    return typer.Option("-o", "--output", metavar=metavar, help="Where to write.", show_default=default)


class Launch(StrEnum):
    """How a kernel is started."""

    standard = "standard"
    function_pointer = "function_pointer"


@dataclass(frozen=True)
class CxxRequest:
    """How a C++ source is compiled and recorded."""

    include: Annotated[Words, typer.Option("-I", metavar="DIR", help="C++: a folder of headers.")] = None
    define: Annotated[Words, typer.Option("-D", metavar="NAME[=VALUE]", help="C++: a macro.")] = None
    std: Annotated[str | None, typer.Option("--std", metavar="STANDARD", help="C++: c++20 or later.")] = None
    database: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="C++: a compile database, if it is not beside or above the source."),
    ] = None
    limit: Annotated[
        Words,
        typer.Option(
            "--limit", metavar="NAME=VALUE", help="C++: a bound on recording: seconds=60, memory=8G, calls=1e6."
        ),
    ] = None


@dataclass(frozen=True)
class MachineRequest:
    """What only the machine takes."""

    seed: Annotated[int | None, typer.Option(min=0, help="Machine: another legal schedule.")] = None
    lanes: Annotated[bool, typer.Option("--lanes", help="Machine: the outcome of every lane.")] = False
    timeline: Annotated[
        str | None, typer.Option(metavar="FILE", help="Machine: write the timeline, as `ptokit trace` does.")
    ] = None
    notes: Annotated[bool, typer.Option("--notes", help="Machine: show notes, too.")] = False
    costs: Costs = None
    cores: Annotated[int | None, typer.Option(min=1, help="How many blocks run at a time.")] = None
    blocks: Annotated[
        str | None, typer.Option(metavar="first,last,random:N", help="Machine: only these blocks of the grid.")
    ] = None

    def __post_init__(self) -> None:
        if self.given:
            _ = self.options  # what is wrong is refused before any work is done

    @property
    def given(self) -> list[str]:
        """The options that are stated."""
        return [f"--{option.name}" for option in fields(self) if getattr(self, option.name) != option.default]

    @cached_property
    def options(self) -> MachineOptions:
        """The options of a launch on the machine."""
        from ptokit.cli.report import costs_in
        from ptokit.machine.options import MachineOptions

        costs = costs_in(self.costs)
        with misused(ValueError, by="--blocks: "):
            return MachineOptions(seed=self.seed, lanes=self.lanes, costs=costs, cores=self.cores, blocks=self.blocks)


@dataclass(frozen=True)
class ProgramRequest:
    """A program, and the options of a check or a run."""

    word: Annotated[
        str,
        typer.Argument(
            metavar="FILE|MODULE:KERNEL", autocompletion=programs, help="A text, `-`, or a kernel of a module."
        ),
    ]
    target: Target = None
    arg: Annotated[
        Words,
        typer.Option(
            "--arg",
            metavar="NAME=VALUE",
            help="An argument, once for each: a number, an .npy file, zeros such as f32[1000,64], or a kernel's "
            "constant.",
        ),
    ] = None
    grid: Annotated[int, typer.Option(min=0, help="Number of blocks.")] = 1
    function: Annotated[
        str | None,
        typer.Option(
            "--function",
            "--entry",
            metavar="NAME",
            autocompletion=functions,
            help="The function of a text or a source that has several.",
        ),
    ] = None
    strict: Annotated[bool, typer.Option("--strict", help="Hazards are errors.")] = False
    header: Annotated[bool, typer.Option("--header", help="Refuse only what the target's real headers refuse.")] = False
    dyn_ub: Annotated[int | None, typer.Option(min=0, metavar="BYTES", help="Dynamic UB that the launch asks for.")] = (
        None
    )
    launch: Annotated[Launch, typer.Option(help="How the kernel is started.")] = Launch.standard
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
