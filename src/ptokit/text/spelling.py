"""The names of instructions, keywords, pipes and events in text, and the types and modifiers that a text leaves out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from ptokit.isa.catalog import INSTRUCTIONS, derived, variants
from ptokit.isa.instruction import Call, Instruction, Modifier
from ptokit.isa.operand import OperandSpec, TensorSpec, TileSpec
from ptokit.isa.policy import GlobalLayout, PtoEnum
from ptokit.isa.spelling import Attribute
from ptokit.isa.unknown import unknown
from ptokit.target.cpu import CPU
from ptokit.target.profile import CUBE_CORE, EVENT_IDS, VECTOR_CORE
from ptokit.target.profile import PIPES as CORE_PIPES
from ptokit.text.tree import Tensor

PIPES = tuple(f"PIPE_{name}" for name in (*CORE_PIPES, "ALL", "MTE4", "MTE5", "V2"))
"""Pipes: those of a core, `ALL`, and those that exist only in text."""
SECTIONS = {"cube": CUBE_CORE.name, "vector": VECTOR_CORE.name}
"""The core of each kind of section and function."""


def kind_core(attributes: Mapping[str, object]) -> str:
    """The core that a function is for, by its attributes; empty if it does not say."""
    return SECTIONS.get(str(attributes.get("pto.kernel_kind")), "")


EVENTS = tuple(f"EVENT_ID{number}" for number in range(EVENT_IDS))
ASSIGN = next(instruction for instruction in INSTRUCTIONS.values() if instruction.is_statement)
"""The instruction that binds a tile to an address."""


FORM = "ptokit.form"
"""The attribute with the form of an operation that programs have by its effects only."""


@derived
def instructions() -> Mapping[str, Instruction]:
    """The instructions by their names in text, without variants and instructions that are statements of programs."""
    return {row.op: row for row in INSTRUCTIONS.values() if not row.is_statement and not row.text.variant_of}


def attributes_of(instruction: Instruction) -> Iterator[tuple[Modifier, Attribute]]:
    """The modifiers that text writes as attributes, of all forms of an instruction."""
    pairs = (pair for variant in variants(instruction.name) for pair in variant.attributes)
    return iter({text.key: (modifier, text) for modifier, text in pairs}.values())


def variant_for(op: str, sources: int, attributes: Mapping[str, object]) -> Instruction | None:
    """The variant with this number of sources and these attributes; the first if there is none."""
    instruction = instruction_of(op)
    if instruction is None or len(variants(instruction.name)) == 1:
        return instruction
    fitting = [variant for variant in variants(instruction.name) if _has_words(variant, attributes)]
    for extra in (True, False):
        for variant in fitting:
            if sources == len(variant.operands) - 1 + (extra and variant.workspace is not None):
                return variant
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


def result_type(name: str, sources: Sequence[object], attributes: Mapping[str, Any]) -> TileSpec | None:
    """The type of an instruction's result, if the types of its sources determine it; in the order of the text."""
    instruction = variant_for(name, len(sources), attributes)
    return instruction.destination.type(_call(instruction, sources, attributes)) if instruction is not None else None


def default_of(instruction: Instruction, modifier: Modifier, sources: Sequence[object]) -> PtoEnum | None:
    """The default of a modifier for sources of these types."""
    return _call(instruction, sources, {}).values[modifier.name]


def _call(instruction: Instruction, sources: Sequence[object], attributes: Mapping[str, Any]) -> Call:
    """A call without its destination."""
    operands: dict[str, OperandSpec | None] = dict.fromkeys(param.name for param in instruction.operands)
    operands |= zip(instruction.sources(), map(_spec, sources), strict=False)
    chosen = {m.name: member_of(m, text, attributes.get(text.key)) for m, text in instruction.attributes}
    return Call(instruction, operands, tuple(chosen.get(m.name) for m in instruction.modifiers), CPU.name)


def _spec(kind: object) -> OperandSpec:
    if isinstance(kind, Tensor) and len(kind.dims) <= 5:
        dims = (*(1,) * (5 - len(kind.dims)), *(unknown() if dim is None else dim for dim in kind.dims))
        return TensorSpec(kind.dtype, dims, tuple(unknown() for _ in range(5)), GlobalLayout.ND)  # type: ignore[arg-type]
    return cast("OperandSpec", kind)


def member_of(modifier: Modifier, text: Attribute, word: object) -> PtoEnum | None:
    """The member that an attribute's value names, in any spelling; None if there is none."""
    word = dict(text.synonyms).get(word, word) if isinstance(word, str) else word
    words = {text.written(member): member for member in modifier.enum}
    if word not in words and isinstance(word, str):
        word = next((known for known in words if isinstance(known, str) and known.lower() == word.lower()), word)
    return words.get(word)
