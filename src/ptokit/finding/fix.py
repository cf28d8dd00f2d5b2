"""Fixes as data: words, and pieces of code that every language writes in its own way."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ptokit.brief import elided

_CPP = "cpp"
"""How the forms of C++ programs begin."""
LANGUAGES = {"": "Python", "mlir": ".pto", "as": "PTO-AS", _CPP: "C++"}
"""By the form of a program."""


def is_cpp(form: str) -> bool:
    """Whether a form is one of C++."""
    return form.startswith(_CPP)


class CodePart:
    """A piece of a fix that languages write differently."""

    def written(self, form: str) -> str:
        """The piece in the language of a form."""
        raise NotImplementedError


class Fix(str):
    """What to change. As a text it is in one language, in Python's if no form is given."""

    __slots__ = ("parts",)

    parts: tuple[str | CodePart, ...]
    """Words, which are the same everywhere, and pieces of code."""

    def __new__(cls, *parts: str | CodePart, form: str = "") -> Fix:
        flat = [each for part in parts for each in (part.parts if isinstance(part, Fix) else (part,))]
        text = "".join(each.written(form) if isinstance(each, CodePart) else each for each in flat)
        made = super().__new__(cls, elided(text))
        made.parts = tuple(flat)
        return made

    def written(self, form: str) -> Fix:
        """The same in the language of a form."""
        return Fix(*self.parts, form=form)

    def renamed(self, operand: str, name: str) -> Fix:
        """The same about an operand with another name."""
        return Fix(*(OperandName(name) if part == OperandName(operand) else part for part in self.parts))


def any_of(fixes: Iterable[str | CodePart]) -> Fix:
    """Several fixes; one of them is enough."""
    return Fix(*[part for fix in fixes for part in (", or ", fix)][1:])


@dataclass(frozen=True)
class OperandName(CodePart):
    """An operand of the user's call."""

    name: str

    def written(self, form: str) -> str:
        return self.name


@dataclass(frozen=True)
class Wording(CodePart):
    """Words that differ: of Python, of C++, and of programs as text."""

    python: str
    text: str
    cpp: str

    def written(self, form: str) -> str:
        return self.cpp if is_cpp(form) else self.text if form else self.python


@dataclass(frozen=True)
class OpName(CodePart):
    """An instruction by its name, or a call of it, in which the destination comes first."""

    name: str
    operands: tuple[str, ...] | None = None

    def written(self, form: str) -> str:
        if is_cpp(form):
            return self.name.upper() + (f"({', '.join(self.operands)})" if self.operands else "")
        if not form:
            called = f"({', '.join(self.operands)})" if self.operands else ""
            return self.name if self.operands is None else f"pto.{self.name}{called}"
        name = self.name if form == "as" else f"pto.{self.name}"
        if not self.operands:
            return name
        values = [f"%{each}" if each.isidentifier() else each for each in self.operands]
        if form == "as":
            return f"{name} {', '.join(values)}"
        return f"{name} ins({', '.join(values[1:])}) outs({values[0]})"


def called(name: str, *operands: str) -> OpName:
    """A call of an instruction."""
    return OpName(name, operands)


def minimum(one: object, other: object) -> Wording:
    """The smaller of two numbers."""
    text = f"arith.minsi {_value(one)}, {_value(other)}"
    return Wording(f"pto.min({one}, {other})", text, f"std::min({one}, {other})")


def when_holds(condition: str, end: str = ":") -> Wording:
    """A branch around what follows."""
    return Wording(f"`with pto.when({condition}){end}`", "`scf.if`", f"`if ({condition})`")


def _value(number: object) -> str:
    """An operand of text."""
    return f"%{number}" if isinstance(number, str) else f"%c{number}"
