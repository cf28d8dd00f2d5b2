"""The type of a result that a text does not give (A-26), inferred from the types of the sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from ptokit.isa.instruction import Call, Instruction, Modifier
from ptokit.isa.operand import OperandSpec, TensorSpec, TileSpec
from ptokit.isa.policy import GlobalLayout, PtoEnum
from ptokit.isa.spelling import Attribute
from ptokit.isa.unknown import unknown
from ptokit.target.cpu import CPU
from ptokit.text.spelling import variant_for
from ptokit.text.tree import Tensor


def result_type(name: str, sources: Sequence[object], attributes: Mapping[str, Any]) -> TileSpec | None:
    """The type of an instruction's result, if the types of its sources determine it; in the order of the text."""
    instruction = variant_for(name, len(sources), attributes)
    return instruction.result(_call(instruction, sources, attributes)) if instruction is not None else None


def default_of(instruction: Instruction, modifier: Modifier, sources: Sequence[object]) -> PtoEnum | None:
    """The default of a modifier for sources of these types."""
    return _call(instruction, sources, {}).values[modifier.name]


def _call(instruction: Instruction, sources: Sequence[object], attributes: Mapping[str, Any]) -> Call:
    """A call without its destination."""
    operands: dict[str, OperandSpec | None] = dict.fromkeys(param.name for param in instruction.operands)
    operands |= zip(instruction.sources(), map(_spec, sources), strict=False)
    given = {m.name: member_of(m, text, attributes.get(text.key)) for m, text in instruction.attributes}
    return Call(instruction, operands, tuple(given.get(m.name) for m in instruction.modifiers), CPU.name)


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
        word = next((each for each in words if isinstance(each, str) and each.lower() == word.lower()), word)
    return words.get(word)
