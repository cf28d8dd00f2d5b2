"""Operations as their text says them: what is read, formatted and printed, whether it can be executed or not.

Types and attributes are their canonical text, with what is known of them beside it. Two of them are equal if their
texts are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Type:
    """A type: its canonical text, and its parts where they are known (see `types.py`)."""

    text: str
    data: Any = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return self.text


UNKNOWN = Type("")
"""The type of a value that the text does not state: the first use that does sets it."""
ANY = Type("?")
"""The type of a value whose definition could not be read. It fits every use."""


@dataclass(frozen=True, slots=True)
class MlirAttribute:
    """An attribute: its canonical text, and its plain value where it has one."""

    text: str
    value: Any = field(default=None, compare=False, repr=False)
    """A number, a truth value, a word, a tuple or a `Constant`; None where no plain value says it."""
    short: str = field(default="", compare=False, repr=False)
    """What is written where the kind of the attribute is known."""
    type: Type | None = field(default=None, compare=False, repr=False)
    """The type of a number or of a dense value."""

    def __str__(self) -> str:
        return self.text

    @property
    def plain(self) -> Any:
        """Its plain value, or else itself."""
        return self if self.value is None else self.value

    @property
    def is_integer(self) -> bool:
        """Whether it is a number that is written without its type where that is the default."""
        return type(self.value) is int and self.short != ""


UNIT = MlirAttribute("unit", True)
Attributes = dict[str, MlirAttribute]


@dataclass(eq=False, slots=True)
class SsaValue:
    """A result of an operation, or an argument of a block."""

    type: Type
    name: str = ""
    """Its name without `%`; `r#1` for the second of several results under one name."""
    op: MlirOp | None = None
    """The operation that it is a result of."""
    location: str = ""
    """Of an argument: `loc(...)`."""
    offset: int = 0
    """Where the text defines it."""


@dataclass(eq=False, slots=True)
class Block:
    """Operations one after the other."""

    arguments: list[SsaValue] = field(default_factory=list)
    ops: list[MlirOp] = field(default_factory=list)
    label: str = ""
    comments: list[str] = field(default_factory=list)
    """Lines before the label."""
    offset: int = 0
    """Where the label stands."""


@dataclass(eq=False, slots=True)
class MlirRegion:
    """Blocks between braces."""

    blocks: list[Block] = field(default_factory=list)
    opening: str = ""
    """The comment behind the opening brace."""
    closing: list[str] = field(default_factory=list)
    """Comments and blank lines before the closing brace."""
    offset: int = 0
    """Where the opening brace stands."""
    end: int = 0
    """Where the closing brace stands; 0 if the text has no such region."""


class OpForm(Protocol):
    """What reads and prints the text of an operation behind its name."""

    def read(self, c: Any, name: str) -> MlirOp:
        """Take the operation off the text."""
        ...

    def write(self, w: Any, op: MlirOp) -> None:
        """Print the operation."""
        ...


@dataclass(eq=False, slots=True)
class MlirOp:
    """One operation."""

    name: str
    """With its dialect: `pto.mgather`, `func.func`."""
    form: OpForm | None = None
    """What prints it; None for the generic form."""
    parts: dict[str, list[SsaValue]] = field(default_factory=dict)
    """Operands by the part that they play, in their order."""
    results: list[SsaValue] = field(default_factory=list)
    attributes: Attributes = field(default_factory=dict)
    properties: Attributes = field(default_factory=dict)
    """Attributes between `<{` and `}>`. A name that starts with `$` is what the text says besides attributes."""
    regions: list[MlirRegion] = field(default_factory=list)
    successors: list[Block] = field(default_factory=list)
    location: str = ""
    """`loc(...)`, or nothing where it is not known."""
    offset: int = 0
    """Where the operation starts in its text."""
    end: int = 0
    """Where it ends: the place after its last character."""
    places: dict[str, int] = field(default_factory=dict)
    """Where the names of its attributes stand in the text."""
    before: list[str] = field(default_factory=list)
    """Comments and blank lines before it."""
    after: str = ""
    """The comment at the end of its line."""

    @property
    def operands(self) -> list[SsaValue]:
        """All operands, in their order."""
        return [value for values in self.parts.values() for value in values]

    def part(self, name: str) -> list[SsaValue]:
        """The operands that play a part."""
        return self.parts.get(name, [])

    @property
    def is_pto(self) -> bool:
        """Whether it belongs to the dialect `pto`."""
        return self.name.startswith("pto.")

    def walk(self) -> Iterator[MlirOp]:
        """The operation and all that stand in it, in the order of the text."""
        pending: list[MlirOp] = [self]
        while pending:
            op = pending.pop()
            yield op
            pending += reversed([inner for region in op.regions for block in region.blocks for inner in block.ops])


SHORT = {"module": "builtin.module", "return": "func.return", "call": "func.call"}
"""Ops that are written without their dialect."""
