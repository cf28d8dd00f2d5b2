"""A text as a tree of operations, which readers build and printers print, for every spelling.

Operations have the names of their dialects, those of `pto` without the prefix: `mgather`, `arith.addi`, `scf.for`.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ptokit.finding import Where
from ptokit.isa.dtype import DType
from ptokit.isa.operand import TileSpec
from ptokit.text.errors import TextError


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
    attributes: Mapping[str, Any] = field(default_factory=dict)
    """Plain values: numbers, booleans, words (of keyword attributes too), lists; a `Constant` for a number in an
    element type."""
    bodies: tuple[Body, ...] = ()
    where: Where | None = None
    comments: tuple[str, ...] = ()
    """Comment lines before it."""
    remark: str = ""
    """The comment at the end of its line."""
    places: Mapping[str, Where] = field(default_factory=dict)
    """Where the names of its attributes stand."""

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
    attributes: Mapping[str, Any] = field(default_factory=dict)
    where: Where | None = None
    is_declared: bool = False
    """Whether it is only declared; another text defines it."""

    @property
    def arguments(self) -> tuple[Value, ...]:
        """The arguments of its body."""
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


class Source:
    """The characters of a text: lines and columns of offsets, and errors that show the line."""

    def __init__(self, text: str, file: str = "<text>") -> None:
        self.text, self.file = text, file

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *(found.end() for found in re.finditer("\n", self.text))]

    def where(self, offset: int) -> Where:
        """The line and the column of an offset."""
        line = bisect_right(self._starts, offset)
        return Where(self.file, line, offset - self._starts[line - 1] + 1)

    def offset(self, where: Where) -> int:
        """The offset of a line and a column."""
        return self._starts[where.line - 1] + (where.column or 1) - 1

    def error(self, message: str, where: Where | None, hint: str = "") -> TextError:
        """An error at a place."""
        if where is None:
            return TextError(message, Where(self.file, 1, 1), "", hint)
        start = self._starts[where.line - 1] if where.line <= len(self._starts) else len(self.text)
        end = self.text.find("\n", start)
        return TextError(message, where, self.text[start : end if end >= 0 else None], hint)


def walk(body: Body) -> Iterator[Operation]:
    """Every operation, those inside others included, in the order of the text."""
    for operation in body.operations:
        yield operation
        for inner in operation.bodies:
            yield from walk(inner)
