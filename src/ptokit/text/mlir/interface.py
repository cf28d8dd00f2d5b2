"""What the forms of ops read from: a parser that takes things off a text."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager

from ptokit.text.cursor import Cursor, OperandUse
from ptokit.text.mlir.ir import Block, MlirRegion, SsaValue, Type

Argument = tuple[OperandUse, Type, str]
"""An argument of a block: its name, its type and its location."""
Forward = dict[str, dict[int, SsaValue]]
"""Values that are used and not defined yet, by name and number."""


STARTS_OP = re.compile(
    r'%[\w$.:-]+(?:\s*,\s*%[\w$.:-]+)*\s*=|"[^"\n]*"\s*\(|[A-Za-z_][\w$]*(?:\.[\w$]+)+(?!\s*=)|(?:return|call|module)\b',
    re.ASCII,
)
"""The start of an op, where another one may end."""
RESULTS = re.compile(r"%[\w$.:-]+(?:\s*,\s*%[\w$.:-]+)*\s*=", re.ASCII)
"""The results of the next op, which are not operands of an op without any."""
_VALUES = re.compile(r"%[\w$.:-]+(?:\s*,\s*%[\w$.:-]+)*", re.ASCII)
_PART = re.compile(r"\w+\s*%", re.ASCII)
"""A keyword before an operand."""


class Parser(Cursor):
    """A cursor that knows values, blocks and regions."""

    scope: dict[str, tuple[SsaValue, ...]]
    """Values by name."""
    forward: Forward
    """Values that are used and not defined yet. An attempt to read may change them."""
    bound: int
    """How many results the op has that is read."""
    _no_results = range(0)
    """A list of values that are no results: it is looked through once, however many lines it has."""

    def lookup(self, use: OperandUse) -> SsaValue | None:
        """The value that a name stands for, if it is defined above."""
        values = self.scope.get(use.name)
        return values[use.index] if values is not None and use.index < len(values) else None

    def starts_results(self) -> bool:
        """Whether the names of results come next, and not operands."""
        return self.kind == "value" and RESULTS.match(self.text, self.start) is not None

    def starts_op(self) -> bool:
        """Whether an op may start here."""
        if self.start in self._no_results:
            return False
        is_start = STARTS_OP.match(self.text, self.start) is not None
        if not is_start and (values := _VALUES.match(self.text, self.start)) is not None:
            self._no_results = range(*values.span())
        return is_start

    def starts_statement(self) -> bool:
        """Whether another statement starts here, or the body ends."""
        if self.kind == "end":
            return True
        return self.is_on_new_line() and (self.word == "}" or self.starts_op())

    def is_part(self) -> bool:
        """Whether a keyword comes next that stands before an operand."""
        return _PART.match(self.text, self.start) is not None

    @abstractmethod
    def region(self, arguments: Sequence[Argument] | None = None, owner: str = "", *, implied: str = "") -> MlirRegion:
        """Take a region. The body of an `owner` ends with a terminator, or with one that is implied."""

    @abstractmethod
    def successor(self) -> Block:
        """Take a block that an op goes to."""

    @abstractmethod
    def isolated(self, name: str = "func.func") -> AbstractContextManager[None]:
        """A body that sees no values from outside."""

    @abstractmethod
    def resolve(self, use: OperandUse, kind: Type) -> SsaValue:
        """The value that a name stands for, in a type. A value whose type nothing has said so far gets it here."""
