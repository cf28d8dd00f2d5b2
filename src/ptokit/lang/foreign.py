"""What kernels that are no Python functions have in common: those of texts and of C++ sources."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

from ptokit.brief import brief
from ptokit.lang.arguments import is_integer
from ptokit.lang.launcher import Launchable
from ptokit.lang.where import refuse
from ptokit.program.ir import Argument, Float, Integer, Program


class ForeignKernel(Launchable):
    """A kernel that is no Python function."""

    parameters: dict[str, str]
    """The parameters in order, and their kinds: `array`, `integer` or `float`."""
    origin = ""
    """What it is instead."""

    def given(self, args: Sequence[object], keywords: Mapping[str, object]) -> dict[str, object]:
        """The arguments of a call by name."""
        positional = dict(zip(self.parameters, args, strict=False))
        unknown = [name for name in keywords if name not in self.parameters]
        twice = [name for name in keywords if name in positional]
        if len(args) > len(self.parameters) or unknown or twice:
            message = f"unknown {', '.join(unknown)}" if unknown else "given twice" if twice else "too many arguments"
            raise TypeError(f"{self.name}: {message}; it takes {self._listed()}")
        return {**positional, **keywords}

    def refuse_missing(self, given: Mapping[str, object]) -> None:
        """Refuse a call without some arguments."""
        if missing := self.missing(given):
            raise TypeError(f"{self.name}: missing {', '.join(missing)}; it takes {self._listed()}")

    def _listed(self) -> str:
        return ", ".join(f"{name} ({kind})" for name, kind in self.parameters.items()) or "no arguments"

    def run_untraced(self, *_: object) -> None:
        """There is no function to run."""
        raise ValueError(f"{self.name}: debug=True runs a kernel's Python function; this one {self.origin}")


def integer_argument(name: str, value: object) -> int:
    """A whole number."""
    if not is_integer(value):
        raise refuse("KN-17", f"`{name}` takes a whole number; found {brief(value)}", "pass an int", name)
    return operator.index(cast("int", value))


def sharing(program: Program, shared: Mapping[str, str]) -> Program:
    """The program, with memory shared by arguments that were passed the same array."""
    if not shared:
        return program

    def joined(argument: Argument | Integer | Float) -> Argument | Integer | Float:
        if not isinstance(argument, Argument):
            return argument
        return replace(argument, memory=shared.get(argument.array, ""))

    return replace(program, arguments=tuple(map(joined, program.arguments)))
