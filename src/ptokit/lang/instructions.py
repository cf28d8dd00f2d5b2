"""The Python function of each instruction, made from its definition.

`instructions.pyi` states them for type checkers and editors; `python tests/lang/stubs.py` writes it.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable
from textwrap import fill, indent
from typing import Any

from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.isa.instruction import Instruction, Modifier, Param
from ptokit.isa.policy import PtoEnum
from ptokit.isa.spelling import TMP
from ptokit.isa.tassign import TASSIGN
from ptokit.lang.dispatch import Event, Wait, execute
from ptokit.lang.faults import public
from ptokit.lang.scalar import Scalar, corner, scalar
from ptokit.lang.tensor import GlobalTensor
from ptokit.lang.tile import Tile

__all__ = sorted(INSTRUCTIONS.keys() - {TASSIGN.name})  # noqa: PLE0605 # pyright: ignore[reportUnsupportedDunderAll]
"""The names of the functions. `tassign` has an argument that is no operand (`assign.py`)."""
TYPES = {"tile": "Tile", "memory": "GlobalTensor", "tile or memory": "Tile | GlobalTensor", "number": "float",
         "position": "int"}  # fmt: skip
"""The annotations of operands, by their kind."""
INDENT, WIDTH = "    ", 108


def __getattr__(name: str) -> object:
    if name not in INSTRUCTIONS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return call_named(name)


def call_named(name: str) -> Callable[..., Event]:
    """The function of an instruction, the same one as long as its definition is in the catalogue."""
    instruction = INSTRUCTIONS[name]
    made, function = _made.get(name, (None, None))
    if made is not instruction or function is None:
        function = _function(name, instruction)
        _made[name] = instruction, function
    return function


_made: dict[str, tuple[Instruction, Callable[..., Event]]] = {}


def _function(name: str, instruction: Instruction) -> Callable[..., Event]:
    source, file = f"{declaration(instruction)}\n{indent(_body(instruction), INDENT)}\n", f"{__file__}:{name}"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    enums = {modifier.enum.__name__: modifier.enum for modifier in instruction.modifiers}
    scope: dict[str, Any] = {**SCOPE, **enums, "instruction": instruction}
    exec(compile(source, file, "exec"), scope)  # noqa: S102
    function = scope[name]
    function.__doc__ = documentation(instruction)
    return public(function)


def declaration(instruction: Instruction) -> str:
    """The head of the function: operands by position; modifiers, optional operands, workspace and events by name."""
    needed = [_operand(param) for param in instruction.operands if not param.optional]
    if instruction.order:  # sources in either order
        needed[1:] = [f"{name}: Tile | float" for name in _sources(instruction)]
    chosen = [modifier for modifier in instruction.modifiers if modifier is not instruction.order]
    needed += [_choice(modifier) for modifier in chosen if modifier.positional]
    named = [_choice(modifier) for modifier in chosen if not modifier.positional]
    named += [f"{param.name}: {TYPES[param.kind]} | None = None" for param in instruction.operands if param.optional]
    named += [f"{TMP}: Tile | None = None"] if instruction.workspace else []
    return f"def {instruction.name}({', '.join([*needed, '*', *named, 'wait: Wait = None'])}) -> Event:"


def documentation(instruction: Instruction) -> str:
    """The documentation of the function."""
    lines = [f"{param.name}: {param.about}" for param in instruction.operands]
    if instruction.order:
        abouts = " and ".join(param.about for param in instruction.operands[1:])
        lines[1:] = [f"{', '.join(_sources(instruction))}: {abouts}, in either order"]
    lines += [_meaning(modifier) for modifier in instruction.modifiers if modifier is not instruction.order]
    if instruction.workspace:
        lines.append(f"{TMP}: temporary memory, used on {', '.join(instruction.workspace.used.rows)}")
    lines.append("wait: events that earlier calls returned, to wait for")
    described = "\n".join(fill(line, WIDTH, subsequent_indent="    ") for line in lines)
    formulas = "\n".join(instruction.meaning)
    return f"{instruction.summary}\n\n{indent(formulas, INDENT)}\n\nArgs:\n{indent(described, INDENT)}\n"


def _meaning(modifier: Modifier) -> str:
    if flag := _flag(modifier):
        return f"{_name(modifier)}: {modifier.about}: {flag[True].text} if True, else {flag[False].text}"
    return f"{modifier.name}: {modifier.about}: {modifier.choices} (default: {modifier.default_name})"


def _operand(param: Param) -> str:
    return f"{param.name}: {TYPES[param.kind]}" + (" = 0" if param.kind == "position" else "")


def _sources(instruction: Instruction) -> tuple[str, ...]:
    """The names of sources that are given in either order."""
    named = instruction.order.sources if instruction.order else ()
    return named or tuple(param.name for param in instruction.operands[1:])


def _flag(modifier: Modifier) -> dict[object, PtoEnum]:
    """The members of a modifier that text writes as true and false."""
    words = modifier.text.words if modifier.text else ()
    return {word: member for member, word in words if isinstance(word, bool)}


def _name(modifier: Modifier) -> str:
    return modifier.text.key if modifier.text and _flag(modifier) else modifier.name


def _choice(modifier: Modifier) -> str:
    if flag := _flag(modifier):
        return f"{_name(modifier)}: bool = {modifier.constant_default is flag[True]}"
    kind, default = modifier.enum.__name__, modifier.constant_default
    return f"{modifier.name}: str | {kind}" + (f" = {default}" if default else " | None = None")


def _body(instruction: Instruction) -> str:
    """The call of `execute`."""
    operands, given = "", ""
    for param in instruction.operands:
        operands += f"({given}) if {param.name} is None else " if param.optional else ""
        given += f"{_converted(instruction, param)}, "
    modifiers = "".join(f"{_value(modifier)}, " for modifier in instruction.modifiers)
    workspace = f", {TMP}" if instruction.workspace else ""
    call = f"return execute(instruction, {operands}({given}), ({modifiers}), wait{workspace})"
    order = instruction.order
    if order is None:
        return call
    results = ", ".join((*(param.name for param in instruction.operands[1:]), order.name))
    return f"{results} = _in_order(instruction, {', '.join(_sources(instruction))})\n{call}"


def _converted(instruction: Instruction, param: Param) -> str:
    if param.kind == "number":
        return f"_number(instruction, {param.name}, {instruction.type_source(param)})"
    return f"corner({param.name}, {param.name!r})" if param.kind == "position" else param.name


def _value(modifier: Modifier) -> str:
    flag = _flag(modifier)
    return f"{flag[True]} if {_name(modifier)} else {flag[False]}" if flag else modifier.name


def _number(instruction: Instruction, value: object, tile: Tile) -> Scalar:
    """A number in a tile's element type."""
    if not isinstance(tile, Tile | GlobalTensor):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"{instruction.name} takes a pto.Tile, got {type(tile).__name__}")
    return scalar(value, tile.dtype, f"{instruction.name} on {tile.dtype}")


def _in_order(instruction: Instruction, first: object, second: object) -> tuple[object, object, PtoEnum | None]:
    """A tile and a number that are given in either order, the tile first, and the order."""
    order = instruction.order
    assert order is not None and order.text is not None
    if isinstance(first, Tile | GlobalTensor):
        return first, second, order.constant_default
    if not isinstance(second, Tile | GlobalTensor):
        raise TypeError(f"{instruction.name} takes a tile and a number, got {first!r} and {second!r}")
    return second, first, order.text.reverses


SCOPE = {
    **{each.__name__: each for each in (Event, GlobalTensor, Tile, corner, execute, _in_order, _number)},
    "Wait": Wait,
    "__name__": __name__,
}
"""The names that the functions use."""
