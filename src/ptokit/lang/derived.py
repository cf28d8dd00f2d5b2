"""The Python call of an instruction that has no function of its own, made from its definition."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, Signature
from typing import Any

from ptokit.isa.catalog import INSTRUCTIONS, derived
from ptokit.isa.instruction import Instruction, Param
from ptokit.isa.spelling import TMP
from ptokit.lang.dispatch import Event, Operand, execute
from ptokit.lang.faults import public
from ptokit.lang.scalar import corner, scalar
from ptokit.lang.tensor import GlobalTensor
from ptokit.lang.tile import Tile

TYPES = {"tile": "Tile", "memory": "GlobalTensor", "tile or memory": "Tile | GlobalTensor", "number": "float",
         "position": "int"}  # fmt: skip
"""How signatures annotate operands, by their kind."""


@derived
def call_named(name: str) -> Callable[..., Event]:
    """The function of an instruction."""
    instruction = INSTRUCTIONS[name]
    signature = _signature(instruction)

    def call(*args: Any, **options: Any) -> Event:
        try:
            bound = signature.bind(*args, **options)
        except TypeError as problem:
            raise TypeError(f"{name}() {problem}; it takes {signature}") from None
        bound.apply_defaults()
        values = bound.arguments
        operands = [(param, values[param.name]) for param in instruction.operands if values[param.name] is not None]
        element = next((value.dtype for _, value in operands if isinstance(value, Tile | GlobalTensor)), None)
        modifiers = tuple(values[modifier.name] for modifier in instruction.modifiers)
        converted = tuple(_operand(instruction, param, value, element) for param, value in operands)
        return execute(instruction, converted, modifiers, values["wait"], values.get(TMP))

    call.__name__ = call.__qualname__ = name
    call.__doc__ = _documentation(instruction)
    call.__signature__ = signature  # type: ignore[attr-defined]
    return public(call)


def _operand(instruction: Instruction, param: Param, value: Any, element: Any) -> Operand:
    if param.kind == "position":
        return corner(value, param.name)
    if param.kind == "number" and element is not None:
        return scalar(value, element, f"{instruction.name} on {element}")
    return value


def _signature(instruction: Instruction) -> Signature:
    """Operands by position, then the optional ones, the modifiers, the workspace and the events by keyword."""
    either, only = Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY
    needed = [p for p in instruction.operands if not p.optional]
    found = [Parameter(p.name, either, annotation=TYPES[p.kind]) for p in needed]
    found += [_keyword(p.name, f"{TYPES[p.kind]} | None") for p in instruction.operands if p.optional]
    for modifier in instruction.modifiers:
        kind = f"str | {modifier.enum.__name__}"
        kind = kind if modifier.fixed_default is not None else f"{kind} | None"
        found.append(Parameter(modifier.name, only, default=modifier.fixed_default, annotation=kind))
    found += [_keyword(TMP, "Tile | None")] if instruction.workspace else []
    return Signature([*found, _keyword("wait", "Wait")], return_annotation="Event")


def _keyword(name: str, kind: str) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=kind)


def _documentation(instruction: Instruction) -> str:
    operands = (f"{param.name}: {param.about}" for param in instruction.operands)
    modifiers = (f"{modifier.name}: {modifier.about}" for modifier in instruction.modifiers)
    return "\n".join((instruction.summary, "", *instruction.meaning, "", *operands, *modifiers))
