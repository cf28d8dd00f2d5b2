"""How each instruction is written in C++: its call, its template arguments, its numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.isa.dtype import DType
from ptokit.isa.instruction import Call
from ptokit.isa.policy import (
    Dividend,
    GatherExec,
    GatherOOB,
    GlobalLayout,
    IotaOrder,
    Pad,
    PtoEnum,
    RoundMode,
    Saturation,
    ScatterAtomicOp,
    ScatterConflict,
    ScatterOOB,
    StoreAtomic,
)

Texts = Mapping[str, str]
"""What stands for each operand."""

# --- Enumerators and numbers ---------------------------------------------------------------------------------

ENUMS: dict[type[PtoEnum], tuple[str, str]] = {
    RoundMode: ("RoundMode", "CAST_{upper}"),
    Saturation: ("SaturationMode", "{upper}"),
    GlobalLayout: ("Layout", "{name}"),
    Pad: ("PadValue", "{name}"),
}
"""Enums that C++ calls or spells otherwise."""


def enumerator(member: PtoEnum) -> str:
    """`GatherOOB::Clamp`."""
    name = member.name if member.name != "NONE" else "None"
    enum, form = ENUMS.get(type(member), (type(member).__name__, "{name}"))
    return f"{enum}::{form.format(name=name, upper=name.upper())}"


PLAIN = ("int32", "float32")
"""Types that literals have by themselves."""


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


# --- Calls ---------------------------------------------------------------------------------------------------

CALLS: dict[str, str | Callable[[Call], str]] = {
    "mgather": lambda c: "MGATHER(dst, table, idx)" if c.scratch is None else "MGATHER(dst, table, idx, scratch)",
    "mscatter": "MSCATTER(table, src, idx)",
    "tload": "TLOAD(dst, src)",
    "tstore": "TSTORE(dst, src)",
    "tci": "TCI(dst, start)",
    "tdivs": lambda c: "TDIVS(dst, src, scalar)" if c.dividend is Dividend.Tile else "TDIVS(dst, scalar, src)",
    "tcvt": lambda c: f"TCVT(dst, src{', tmp' if c.workspace else ''}, round, saturation)",
}
"""Calls that are not written as the instruction's own spelling: by names of operands and modifiers, and `tmp`."""

CONFLICT = {"cpu": ScatterConflict.Default, "a5": ScatterConflict.Last}
"""What the headers do where no conflict policy is given; A2/A3 has no such parameter."""


def _gather_choices(call: Call, given: Texts) -> list[str]:
    usual = (None, GatherOOB.Undefined, GatherExec.Scalar)
    return _chosen((call.coalesce, call.oob, call.executor or GatherExec.Scalar), usual)


def _scatter_choices(call: Call, given: Texts) -> list[str]:
    plain = call.atomic is ScatterAtomicOp.NONE
    unsaid = call.here(CONFLICT, call.conflict)
    choices = (call.coalesce, call.atomic, call.oob, call.conflict if plain else unsaid)
    return _chosen(choices, (None, ScatterAtomicOp.NONE, ScatterOOB.Undefined, unsaid))


def _chosen(choices: tuple[PtoEnum, ...], usual: tuple[PtoEnum | None, ...]) -> list[str]:
    """The template arguments without the last ones that say what goes without saying."""
    count = max(k + 1 for k, (choice, default) in enumerate(zip(choices, usual, strict=True)) if choice is not default)
    return [enumerator(choice) for choice in choices[:count]]


def _store_types(call: Call, given: Texts) -> list[str]:
    if call.atomic is StoreAtomic.NONE:
        return []
    return [f"decltype({given['src']})", f"decltype({given['dst']})", "AtomicType::AtomicAdd"]


def _iota_types(call: Call, given: Texts) -> list[str]:
    return [f"decltype({given['dst']})", call.dst.dtype.cpp, str(int(call.order is IotaOrder.Descending))]


TEMPLATES: dict[str, Callable[[Call, Texts], list[str]]] = {
    "mgather": _gather_choices,
    "mscatter": _scatter_choices,
    "tstore": _store_types,
    "tci": _iota_types,
}
"""Template arguments, where a call has any."""


def call_text(call: Call, given: Texts) -> str:
    """The call of an instruction, with a text for each operand."""
    name = call.instruction.name
    form = CALLS.get(name, INSTRUCTIONS[name].spellings["C++"][0])
    function, words = (form(call) if callable(form) else form).removesuffix(")").split("(")
    chosen = {modifier.name: call.values[modifier.name] for modifier in call.instruction.modifiers}
    texts = {**{name: enumerator(member) for name, member in chosen.items() if member is not None}, **given}
    types = TEMPLATES[name](call, given) if name in TEMPLATES else []
    arguments = f"<{', '.join(types)}>" if types else ""
    return f"{function}{arguments}({', '.join(texts[word] for word in words.split(', '))})"
