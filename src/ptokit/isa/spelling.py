"""How text writes an instruction: its modifiers as attributes, its workspace, the particulars of its form."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ptokit.isa.operand import TileSpec
from ptokit.isa.policy import PtoEnum
from ptokit.isa.table import Table

TMP = "tmp"
"""The name of the workspace among the operands of a call."""


@dataclass(frozen=True)
class Attribute:
    """A modifier as an attribute: its key, the kind of keyword, and keywords that are not the modifier's own word."""

    key: str = ""
    """The key; empty if the order of the sources states the modifier (`reverses`)."""
    kind: str = ""
    """The keyword attribute's name; without one the word is written as a string."""
    words: tuple[tuple[PtoEnum, object], ...] = ()
    upper: bool = False
    inside: bool = False
    """Whether it is within `ins(...)`."""
    always: bool = False
    """Whether it is written even with its default."""
    synonyms: tuple[tuple[str, str], ...] = ()
    """Keywords that are read as well, and their meanings."""
    brief: str = ""
    """The short key in PTO-AS, if it is not the modifier's name."""
    short: tuple[tuple[str, str], ...] = ()
    """Short words of PTO-AS, and their meanings."""
    suffix: bool = False
    """Whether PTO-AS writes it as a suffix of the opcode."""
    prefix: str = ""
    """The text before the word in a suffix."""
    reverses: PtoEnum | None = None
    """The member that is stated by writing the sources in reverse order."""
    newer: bool = False
    """Whether the grammar 0.27 does not have it."""
    example: PtoEnum | None = None
    """The member in the examples of text; without one, the first member that is not the default."""
    number: str = ""
    """The type of words that are numbers, in MLIR."""

    @property
    def has_numbers(self) -> bool:
        """Whether its words are numbers or booleans."""
        return bool(self.words) and all(isinstance(word, int) for _, word in self.words)

    def written(self, member: PtoEnum) -> object:
        """The word for a member of the modifier."""
        return dict(self.words).get(member, member.text.upper() if self.upper else member.text)

    def literal(self, member: PtoEnum) -> str:
        """The attribute in MLIR: `key = #pto<kind word>`, or a string or a boolean."""
        word = self.written(member)
        if self.number:
            return f"{self.key} = {word} : {self.number}"
        return f"{self.key} = #pto<{self.kind} {word}>" if self.kind else f"{self.key} = {json.dumps(word)}"


@dataclass(frozen=True)
class OpText:
    """How text writes an instruction, besides its operands and modifiers."""

    name: str = ""
    """Its name in text, if that is another one."""
    variant_of: str = ""
    """The instruction whose name it has in text and in C++, if it is another form of that one."""
    clauses: tuple[str, ...] = ()
    """Keys of the clauses `key = value` after the operands, in their order."""
    inside: tuple[str, ...] = ()
    """Attributes within `ins(...)` that are no modifiers."""
    typed_each: bool = False
    """Whether each operand of `ins` is followed by its type."""
    listed: bool = False
    """Whether a comma precedes the dictionary in `ins`."""
    one_type: bool = False
    """Whether one type may apply to all values."""
    reordered: bool = False
    """Whether the generic form may list operands in another order than sources, destination."""
    newer_inside: bool = False
    """Whether the grammar 0.27 has no attributes within `ins(...)`."""
    shape: str = ""
    """The operands of an op that has neither `ins(...)` nor results, in the language of `text/ops.py`."""
    stored: tuple[str, ...] = ()
    """The roles of the operands of the generic form, in their order."""


PLAIN_TEXT = OpText()
"""The plain op `ins(...) outs(...)`."""


USES_WORKSPACE = Table({"a2a3": True})
BOTH_USE_WORKSPACE = Table({"a2a3": True, "a5": True})


@dataclass(frozen=True)
class Workspace:
    """A tile that an instruction uses as temporary memory: its position among the sources in text, and its type."""

    position: int
    needed: Callable[[Any], TileSpec | None] = lambda _: None
    """The tile that a `Call` needs; None if it needs none."""
    like: str = ""
    """The operand with the same valid extents; without one, the whole tile is valid."""
    used: Table[bool] = USES_WORKSPACE
    """Targets that use it; the others ignore it."""
    touched: Callable[[Any], int] = lambda _: 0
    """How many bytes from its start the headers write for sure, in a call that uses it; of a `Call` with one."""


def same_as(operand: str) -> Callable[[Any], TileSpec]:
    """A workspace of an operand's shape, all of it valid."""

    def needed(call: Any) -> TileSpec:
        spec: TileSpec = call.values[operand]
        return replace(spec, valid_rows=spec.rows, valid_cols=spec.cols, dynamic=(False, False), addr=None)

    return needed
