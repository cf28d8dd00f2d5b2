"""Programs in every text form: found out, read, formatted, converted, printed."""

from __future__ import annotations

import re
from dataclasses import replace
from importlib import import_module
from pathlib import PurePath
from typing import Any, Literal

from ptokit.brief import brief
from ptokit.finding import Where
from ptokit.garbage import without_collection
from ptokit.program.ir import Program
from ptokit.progress import task
from ptokit.text.errors import TextError
from ptokit.text.lift import Form, lift
from ptokit.text.lower import kernels, lower
from ptokit.text.ptoas import format_ptoas, parse_ptoas, print_ptoas
from ptokit.text.spelling import instructions
from ptokit.text.tree import Unit

Version = Literal["new", "0.27"]
"""States of the published grammar."""

FORMS: tuple[Form, ...] = ("l1", "l2", "as")

_MLIR = re.compile(r'^[ \t]*(?:"?(?:builtin\.)?module\b|"?func\.func\b|[#!][\w$.]+\s*=)', re.MULTILINE)
_PLAIN = re.compile(r"^[ \t]*\.(?:arg|const|kernel|arch)\b", re.MULTILINE)
_LISTING = re.compile(r"^[ \t]*(?:%[\w.$-]+[ \t]*=[ \t]*)?(?:pto\.)?([a-z]\w*)", re.MULTILINE)
"""A line as pages list them, without a function around it."""


def form_of(text: str | bytes, file: str = "") -> Literal["mlir", "as"]:
    """Whether a text is MLIR or plain PTO-AS: by its content, else by the file's name."""
    sample = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    if _PLAIN.search(sample):
        return "as"
    if _MLIR.search(sample):
        return "mlir"
    return "mlir" if PurePath(file).suffix in (".pto", ".mlir") and not _is_listing(sample) else "as"


def _is_listing(text: str) -> bool:
    return not instructions().keys().isdisjoint(_LISTING.findall(text))


@without_collection()
def read_unit(text: str | bytes, file: str = "<text>", arch: str | None = None) -> Unit:
    """The tree of the readable part of a text, and the errors of the rest."""
    if form_of(text, file) == "as":
        return parse_ptoas(text, file)
    mlir = _mlir()
    return mlir.unit_of(mlir.parse_module(text, file, arch))


@without_collection()
def read_program(
    text: str | bytes, file: str = "<text>", function: str | None = None, arch: str | None = None
) -> Program:
    """The program of a text: of its kernel, or of the function that is asked for.

    `arch` (`a3` or `a5`) decides the layout of tiles in `left`; without it the text's own word does, and else `a3`.
    A text that cannot be read, or that a program cannot say, raises a TextError.
    """
    unit = read_unit(text, file, arch)
    with task(f"lower {file}"):
        return replace(lower(unit, function), form=form_of(text, file))


@without_collection()
def kernels_in(text: str | bytes, file: str = "<text>") -> list[str]:
    """The names of the kernels of a text; none if it has errors."""
    unit = read_unit(text, file)
    return [] if unit.errors else [function.name for function in kernels(unit)]


@without_collection()
def format_text(text: str | bytes, file: str = "<text>") -> str:
    """The text in its one canonical spelling, with everything that it says; nothing is lowered or verified."""
    if form_of(text, file) == "as":
        return format_ptoas(text, file)
    mlir = _mlir()
    return mlir.print_module(mlir.read_module(text, file))


@without_collection()
def print_program(program: Program, form: Form = "l2", version: Version | None = None, arch: str = "") -> str:
    """A program as text."""
    if form not in FORMS:
        raise ValueError(f"a form is one of {', '.join(FORMS)}; found {brief(form)}")
    unit = lift(program, form, arch)
    if form == "as":
        return print_ptoas(unit)
    mlir = _mlir()
    try:
        return mlir.print_module(mlir.module_of(unit, has_values=form == "l1"), version)
    except TextError as problem:  # its place is in generated text
        raise TextError(problem.message, program.where or Where(program.name, 1), hint=problem.hint) from None


@without_collection()
def convert(text: str | bytes, file: str, to: Form, version: Version | None = None, function: str | None = None) -> str:
    """A text in another form. Level 2 keeps everything, as a tree; other texts go by way of the program."""
    if to == "l2" and function is None and form_of(text, file) == "mlir":
        mlir = _mlir()
        module = mlir.read_module(text, file)
        if mlir.is_level_two(module):
            return mlir.print_module(module, version)
    return print_program(read_program(text, file, function), to, version)


def _mlir() -> Any:
    """What reads and prints MLIR, loaded when it is first needed."""
    return import_module("ptokit.text.mlir")
