"""What the forms of ops read from: a parser that takes things off a text."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager

from ptokit.text.mlir.cursor import Cursor, OperandUse
from ptokit.text.mlir.ir import Block, MlirRegion, SsaValue, Type

Argument = tuple[OperandUse, Type, str]
"""An argument of a block: its name, its type and its location."""
Forward = dict[str, dict[int, SsaValue]]
"""Values that are used and not defined yet, by name and number."""


class Parser(Cursor):
    """A cursor that knows values, blocks and regions."""

    scope: dict[str, tuple[SsaValue, ...]]
    """Values by name."""
    bound: int
    """How many results the op has that is read."""

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
    def lookup(self, use: OperandUse) -> SsaValue | None:
        """The value that a name stands for, if it is defined above."""

    @abstractmethod
    def resolve(self, use: OperandUse, kind: Type) -> SsaValue:
        """The value that a name stands for, in a type. A value whose type nothing has said so far gets it here."""

    @abstractmethod
    def starts_results(self) -> bool:
        """Whether the names of results come next, and not operands."""

    @abstractmethod
    def starts_statement(self) -> bool:
        """Whether another statement starts here, or the body ends."""

    @abstractmethod
    def is_part(self) -> bool:
        """Whether a keyword comes next that stands before an operand."""

    @abstractmethod
    def save(self) -> Forward:
        """What an attempt to read may change."""

    @abstractmethod
    def restore(self, forward: Forward) -> None:
        """Take an attempt back."""
