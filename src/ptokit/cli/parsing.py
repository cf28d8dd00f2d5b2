"""Words of the command line: completion, validation, and the nearest known word for an unknown one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from itertools import chain
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from ptokit.brief import elided
from ptokit.cli.greeting import help_sections
from ptokit.cli.problems import WORDS
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
