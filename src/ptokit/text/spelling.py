"""The names of instructions, keywords, pipes and events in text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ptokit.isa.catalog import INSTRUCTIONS, derived, variants
from ptokit.isa.instruction import Instruction, Modifier
from ptokit.isa.spelling import Attribute
from ptokit.target.profile import CUBE_CORE, EVENT_IDS, VECTOR_CORE
from ptokit.target.profile import PIPES as CORE_PIPES

PIPES = tuple(f"PIPE_{name}" for name in (*CORE_PIPES, "ALL", "MTE4", "MTE5", "V2"))
"""Pipes: those of a core, `ALL`, and those that exist only in text."""
SECTIONS = {"cube": CUBE_CORE.name, "vector": VECTOR_CORE.name}
"""The core of each kind of section and function."""


def kind_core(attributes: Mapping[str, object]) -> str:
    """The core that a function is for, by its attributes; empty if it does not say."""
    return SECTIONS.get(str(attributes.get("pto.kernel_kind")), "")


EVENTS = tuple(f"EVENT_ID{number}" for number in range(EVENT_IDS))
ASSIGN = next(each for each in INSTRUCTIONS.values() if each.is_statement)
"""The instruction that binds a tile to an address."""


FORM = "ptokit.form"
"""The attribute with the form of an operation that programs have by its effects only."""


@derived
def instructions() -> Mapping[str, Instruction]:
    """The instructions by their names in text, but for the one that is a statement of its own, and variants."""
    return {each.op: each for each in INSTRUCTIONS.values() if not each.is_statement and not each.variant_of}


def attributes_of(instruction: Instruction) -> Iterator[tuple[Modifier, Attribute]]:
    """The modifiers that text writes as attributes, of all forms of an instruction."""
    found = {text.key: (modifier, text) for each in variants(instruction.name) for modifier, text in each.attributes}
    return iter(found.values())


def variant_for(op: str, sources: int, attributes: Mapping[str, object]) -> Instruction | None:
    """The form of an operation with so many sources and these attributes; the first if there is no such form."""
    instruction = instruction_of(op)
    if instruction is None or len(variants(instruction.name)) == 1:
        return instruction
    fitting = [each for each in variants(instruction.name) if _has_words(each, attributes)]
    for extra in (True, False):
        for each in fitting:
            if sources == len(each.operands) - 1 + (extra and each.workspace is not None):
                return each
    return instruction


def _has_words(instruction: Instruction, attributes: Mapping[str, object]) -> bool:
    """Whether attributes have values that an instruction's modifiers have."""
    return all(
        attributes.get(text.key) in (None, *(text.written(member) for member in modifier.enum))
        for modifier, text in instruction.attributes
    )


def instruction_of(op: str) -> Instruction | None:
    """The instruction of an operation's name, if there is one; dots and underscores are equivalent."""
    known = instructions()
    return known.get(op) or known.get(op.replace("_", ".")) or known.get(op.replace(".", "_"))


@derived
def keywords() -> Mapping[str, tuple[str, ...]]:
    """The words of every kind of keyword for modifiers."""
    return {
        text.kind: (*(str(text.written(member)) for member in modifier.enum), *(word for word, _ in text.synonyms))
        for instruction in instructions().values()
        for modifier, text in attributes_of(instruction)
        if text.kind
    }


def modes(instruction: Instruction) -> list[str]:
    """The keys of attributes that always have a suffix in PTO-AS, because their default depends on the operands."""
    return [text.key for modifier, text in instruction.attributes if text.suffix and modifier.fixed_default is None]
