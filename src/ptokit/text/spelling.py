"""The names of instructions, keywords, pipes and events in text."""

from __future__ import annotations

from collections.abc import Mapping

from ptokit.isa.catalog import INSTRUCTIONS, derived
from ptokit.isa.instruction import Instruction
from ptokit.target.profile import CUBE_CORE, EVENT_IDS, VECTOR_CORE
from ptokit.target.profile import PIPES as CORE_PIPES

PIPES = tuple(f"PIPE_{name}" for name in (*CORE_PIPES, "ALL", "MTE4", "MTE5", "V2"))
"""Pipes: those of a core, `ALL`, and those that exist only in text."""
SECTIONS = {"cube": CUBE_CORE.name, "vector": VECTOR_CORE.name}
"""The core of each kind of section and function."""
EVENTS = tuple(f"EVENT_ID{number}" for number in range(EVENT_IDS))
ASSIGN = next(each for each in INSTRUCTIONS.values() if each.is_statement)
"""The instruction that binds a tile to an address."""


FORM = "ptokit.form"
"""The attribute with the form of an operation that programs have by its effects only."""


@derived
def instructions() -> Mapping[str, Instruction]:
    """The instructions by their names in text, but for the one that is a statement of its own."""
    return {each.op: each for each in INSTRUCTIONS.values() if not each.is_statement}


def instruction_of(op: str) -> Instruction | None:
    """The instruction of an operation's name, if there is one; dots and underscores are equivalent."""
    known = instructions()
    return known.get(op) or known.get(op.replace("_", "."))


@derived
def keywords() -> Mapping[str, tuple[str, ...]]:
    """The words of every kind of keyword for modifiers."""
    return {
        text.kind: (*(str(text.written(member)) for member in modifier.enum), *(word for word, _ in text.synonyms))
        for instruction in instructions().values()
        for modifier, text in instruction.attributes
        if text.kind
    }


def modes(instruction: Instruction) -> list[str]:
    """The keys of attributes that always have a suffix in PTO-AS, because their default depends on the operands."""
    return [text.key for modifier, text in instruction.attributes if text.suffix and modifier.fixed_default is None]
