"""Names of values: what they stand for, uses before definitions, and types that must agree."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from ptokit.finding import near
from ptokit.text.cursor import Cursor, OperandUse
from ptokit.text.errors import MOST_ERRORS, MOST_SHOWN, Problem, redefined
from ptokit.text.mlir.ir import ANY, UNKNOWN, SsaValue, Type
from ptokit.text.mlir.types import unknown_hint


class StopReading(Exception):
    """Too many errors."""


class NameCursor(Cursor):
    """A cursor that knows values by their names, and notes problems."""

    def __init__(self, text: str, arch: str) -> None:
        self.problems: list[Problem] = []
        self.scope: dict[str, tuple[SsaValue, ...]] = {}
        """Values by name. Names are only ever added, and taken back at the end of a region."""
        self.forward: dict[str, dict[int, SsaValue]] = {}
        """Values that are used and not defined yet, by name and number. An attempt to read may change them."""
        self._defined: set[str] = set()
        """Every name of the function."""
        self._in_function = False
        super().__init__(text, arch)

    def _note(self, problem: Problem) -> None:
        self.problems.append(problem)
        if len(self.problems) >= MOST_ERRORS or self.spent > self.most:
            raise StopReading

    @contextmanager
    def isolated(self, name: str = "func.func") -> Generator[None]:
        """A body that sees no values from outside."""
        outer = self.scope, self.forward, self._defined, self._in_function
        self.scope, self.forward, self._defined = {}, {}, set()
        self._in_function = name == "func.func"
        try:
            yield
            self._check_names()
        finally:
            self.scope, self.forward, self._defined, self._in_function = outer

    def lookup(self, use: OperandUse) -> SsaValue | None:
        """The value that a name stands for, if it is defined above."""
        values = self.scope.get(use.name)
        return values[use.index] if values is not None and use.index < len(values) else None

    def resolve(self, use: OperandUse, kind: Type) -> SsaValue:
        """The value that a name stands for, in a type. A value whose type nothing has said so far gets it here."""
        values = self.scope.get(use.name)
        if values is None:
            value = self.forward.setdefault(use.name, {}).setdefault(use.index, SsaValue(kind, offset=use.offset))
        elif use.index >= len(values):
            self.fail(f"`%{use.name}` has {len(values)} results; found `#{use.index}`", use.offset)
        else:
            value = values[use.index]
        self._agree(value, kind, use.name, use.offset)
        return value

    def _agree(self, value: SsaValue, kind: Type, name: str, at: int) -> None:
        """Refuse a type that is not that of a value."""
        if value.type == kind or kind in (UNKNOWN, ANY) or value.type == ANY:
            return
        if value.type == UNKNOWN:
            value.type = kind
            return
        self.fail(f"`%{name}` is of type {value.type}, but used with {kind}", at, unknown_hint(kind))

    def define(self, name: str, values: list[SsaValue], at: int) -> list[SsaValue]:
        """Let a name stand for values. One that was used before its definition is the value itself."""
        if name in self.scope:
            first = self.scope[name][0].offset if self.scope[name] else 0
            self.fail(redefined(f"%{name}", self.text.count("\n", 0, first) + 1), at)
        for index, used in self.forward.pop(name, {}).items():
            if index >= len(values):
                self.fail(f"`%{name}` has {len(values)} results; found `#{index}`", used.offset)
            first = used.offset
            self._agree(used, values[index].type, name, first)
            used.op = values[index].op
            values[index] = used
        for number, value in enumerate(values):
            value.name, value.offset = name if len(values) == 1 else f"{name}#{number}", at
        self.scope[name] = tuple(values)
        self._defined.add(name)
        return values

    def _check_names(self) -> None:
        """Note every name that is used and never defined."""
        for name, uses in self.forward.items():
            at = min(value.offset for value in uses.values())
            is_shown = len(self.problems) < MOST_SHOWN
            close = near(f"%{name}", [f"%{other}" for other in self._defined]) if is_shown else ""
            hint = f"did you mean `{close}`?" if close else ""
            self._note(Problem(f"use of undeclared SSA value name `%{name}`", at, hint))
        self.forward = {}

    def _poison_name(self, name: str, at: int) -> None:
        if name not in self.scope:
            self.forward.pop(name, None)
            self.scope[name] = (SsaValue(ANY, name, offset=at),) * 16
            self._defined.add(name)
