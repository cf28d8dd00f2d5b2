"""A text as a tree of operations, which readers build and printers print, for every spelling.

Operations have the names of their dialects, those of `pto` without the prefix: `mgather`, `arith.addi`, `scf.for`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from ptokit.finding import Where
from ptokit.isa.dtype import DType
from ptokit.isa.operand import TileSpec
from ptokit.text.errors import Source, TextError


@dataclass(frozen=True)
class Pointer:
    """The type of a pointer into global memory."""

    dtype: DType


@dataclass(frozen=True)
class Tensor:
    """The type of a view of global memory."""

    dims: tuple[int | None, ...]
    """Extents; None if known only at run time."""
    dtype: DType
    is_part: bool = True
    """Whether it is a block for instructions, and not a whole tensor."""


@dataclass(frozen=True)
class Opaque:
    """A type without a meaning in programs: kept as text, for messages."""

    text: str


UNREAD = "unread"
"""The name of an operation whose head could not be read, and whose bodies could."""

Type = str | Pointer | Tensor | TileSpec | Opaque
"""The type of a value. A string is the type of a number in MLIR: `index`, `i1`, `ui32`, `f16`."""


@dataclass(eq=False)
class Value:
    """A named value, defined once."""

    name: str
    type: Type


@dataclass(eq=False)
class Body:
    """A sequence of operations, and its arguments."""

    operations: list[Operation] = field(default_factory=list)
    arguments: tuple[Value, ...] = ()


@dataclass(eq=False)
class Operation:
    """One operation. Its operands are grouped by name: `ins`, `outs`, `shape`, `addr` and so on."""

    name: str
    parts: dict[str, tuple[Value, ...]] = field(default_factory=dict)
    results: tuple[Value, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Plain values: numbers, booleans, words (of keyword attributes too), lists; a `Constant` for a number in an
    element type."""
    bodies: tuple[Body, ...] = ()
    where: Where | None = None
    end: int | None = None
    """The offset after its last character."""
    comments: tuple[str, ...] = ()
    """Comment lines before it."""
    remark: str = ""
    """The comment at the end of its line."""
    places: Mapping[str, int] = field(default_factory=dict[str, int])
    """The offsets of the names of its attributes."""

    def part(self, name: str) -> tuple[Value, ...]:
        """The operands of a group; empty if it has none."""
        return self.parts.get(name, ())

    @property
    def ins(self) -> tuple[Value, ...]:
        """The operands that it reads, or all operands if the text does not distinguish them."""
        return self.part("ins")

    @property
    def outs(self) -> tuple[Value, ...]:
        """The operands that it writes."""
        return self.part("outs")


@dataclass(eq=False)
class Function:
    """A kernel, or a function that kernels call."""

    name: str
    body: Body
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    where: Where | None = None
    is_declared: bool = False
    """Whether it is only declared; another text defines it."""

    @property
    def arguments(self) -> tuple[Value, ...]:
        return self.body.arguments


@dataclass(eq=False)
class Unit:
    """A whole text."""

    functions: tuple[Function, ...]
    source: Source
    arch: str = ""
    """The architecture that the text names."""
    errors: tuple[TextError, ...] = ()
    """What could not be read. The statements concerned are missing, but for the bodies of `UNREAD` operations."""


def walk(body: Body) -> Iterator[Operation]:
    """Every operation, those inside others included, in the order of the text."""
    for operation in body.operations:
        yield operation
        for inner in operation.bodies:
            yield from walk(inner)


def items_of(value: object) -> tuple[Any, ...] | None:
    """The items of an attribute; None if it is no list."""
    return tuple(cast("Iterable[Any]", value)) if isinstance(value, tuple | list) else None
