"""Calls of instructions in C++: template arguments, enumerators, numbers."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ptokit.isa.dtype import DType
from ptokit.isa.instruction import Call
from ptokit.isa.policy import GlobalLayout, Pad, PtoEnum, RoundMode, Saturation

ENUMS: dict[type[PtoEnum], tuple[str, str]] = {
    RoundMode: ("RoundMode", "CAST_{upper}"),
    Saturation: ("SaturationMode", "{upper}"),
    GlobalLayout: ("Layout", "{name}"),
    Pad: ("PadValue", "{name}"),
}
"""Enums whose name or enumerators differ in C++."""


def enumerator(member: PtoEnum) -> str:
    """`GatherOOB::Clamp`."""
    name = member.name if member.name != "NONE" else "None"
    enum, form = ENUMS.get(type(member), (type(member).__name__, "{name}"))
    return f"{enum}::{form.format(name=name, upper=name.upper())}"


PLAIN = ("int32", "float32")
"""Types of plain literals."""


def constant(kind: DType, bits: int) -> str:
    """A number of an element type, from its bits."""
    value = np.array([bits], f"u{kind.size}").view(kind.numpy)[0]
    text = _whole(int(value)) if kind.is_integer else _float(float(value), np.float32(value))
    return text if kind.name in PLAIN else converted(kind, text)


def converted(kind: DType, text: str) -> str:
    """A number as another type."""
    return f"static_cast<{kind.cpp}>({text})"


def _whole(value: int) -> str:
    lowest = {-(2**31): "(-2147483647 - 1)", -(2**63): "INT64_MIN"}
    return lowest.get(value, f"{value}{'u' if value >= 2**63 else ''}")


def _float(value: float, single: np.float32) -> str:
    if value != value:
        return '__builtin_nanf("")'
    if value in (float("inf"), float("-inf")):
        return f"{'-' if value < 0 else ''}__builtin_inff()"
    return f"{single!s}f"


def template_arguments(call: Call, given: Mapping[str, str]) -> list[str]:
    """The template arguments, without trailing defaults."""
    pairs = call.instruction.cpp.template(call)
    count = max((k + 1 for k, (argument, default) in enumerate(pairs) if argument is not default), default=0)
    return [a.format(**given) if isinstance(a, str) else enumerator(a) for a, _ in pairs[:count]]


def call_text(call: Call, given: Mapping[str, str]) -> str:
    """The call of an instruction, with a text for each operand that it has."""
    definition = call.instruction
    form = definition.cpp.call or definition.spellings["C++"][0]
    function, words = (form(call) if callable(form) else form).removesuffix(")").split("(")
    chosen = {modifier.name: call.values[modifier.name] for modifier in definition.modifiers}
    texts = {**{name: enumerator(member) for name, member in chosen.items() if member is not None}, **given}
    types = template_arguments(call, given)
    arguments = f"<{', '.join(types)}>" if types else ""
    return f"{function}{arguments}({', '.join(texts[word] for word in words.split(', ') if word in texts)})"
