"""The Python function of each instruction, made from its definition.

`instructions.pyi` states them for type checkers and editors; `make generated` writes it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.abc import ExecutionLoader
from importlib.util import module_from_spec, spec_from_loader
from textwrap import fill, indent

from ptokit.brief import brief
from ptokit.isa.catalog import INSTRUCTIONS, derived
from ptokit.isa.dtype import dtype
from ptokit.isa.instruction import Instruction, Modifier, Param
from ptokit.isa.policy import PtoEnum
from ptokit.isa.spelling import TMP
from ptokit.isa.tassign import TASSIGN
from ptokit.lang.dispatch import Event, Scalar, Wait, corner, execute, scalar
from ptokit.lang.faults import public
from ptokit.lang.tensor import GlobalTensor
from ptokit.lang.tile import Tile

TYPES = {"tile": "Tile", "memory": "GlobalTensor", "tile or memory": "Tile | GlobalTensor", "number": "float",
         "position": "int"}  # fmt: skip
"""The annotations of operands, by their kind."""
INDENT, WIDTH = "    ", 108


def __getattr__(name: str) -> object:
    if name in INSTRUCTIONS:
        return call_named(name)
    if name in enums():
        return enums()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {brief(name)}")


@derived
def enums() -> dict[str, type[PtoEnum]]:
    """The enums of arguments, by name."""
    found = ((each, modifier) for each in INSTRUCTIONS.values() for modifier in each.modifiers)
    return {m.enum.__name__: m.enum for each, m in found if m is not each.order and not _flag(m)}


def call_named(name: str) -> Callable[..., Event]:
    """The function of an instruction, made once for each definition."""
    instruction = INSTRUCTIONS[name]
    if name not in _calls or _calls[name][0] is not instruction:
        _calls[name] = instruction, _call(instruction)
    return _calls[name][1]


_calls: dict[str, tuple[Instruction, Callable[..., Event]]] = {}


def _call(instruction: Instruction) -> Callable[..., Event]:
    name = instruction.name
    loader = _Generated(name, f"{declaration(instruction)}\n{indent(_body(instruction), INDENT)}\n")
    spec = spec_from_loader(f"{__name__}.{name}", loader)
    assert spec is not None
    module = sys.modules[spec.name] = module_from_spec(spec)
    own = {modifier.enum.__name__: modifier.enum for modifier in instruction.modifiers}
    vars(module).update(SCOPE, **own, _instruction=instruction)
    loader.exec_module(module)
    function = vars(module)[name]
    function.__doc__ = documentation(instruction)
    call = public(function)
    call.__module__ = __name__
    return call


class _Generated(ExecutionLoader):
    """The module of a function. Python asks it for the source that it shows, also after `linecache` was cleared."""

    def __init__(self, name: str, source: str) -> None:
        self.file, self.source = f"{__file__}:{name}", source

    def get_filename(self, fullname: str) -> str:
        return self.file

    def get_source(self, fullname: str) -> str:
        return self.source


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
    call = f"return _execute(_instruction, {operands}({given}), ({modifiers}), wait{workspace})"
    order = instruction.order
    if order is None:
        return call
    results = ", ".join((*(param.name for param in instruction.operands[1:]), order.name))
    return f"{results} = _in_order(_instruction, {', '.join(_sources(instruction))})\n{call}"


def _converted(instruction: Instruction, param: Param) -> str:
    if param.dtype is not None:
        return f"_own_number(_instruction, {param.name}, {param.dtype.name!r})"
    if param.kind == "number":
        return f"_number(_instruction, {param.name}, {instruction.type_source(param)})"
    return f"_corner({param.name}, {param.name!r})" if param.kind == "position" else param.name


def _value(modifier: Modifier) -> str:
    flag = _flag(modifier)
    return f"{flag[True]} if {_name(modifier)} else {flag[False]}" if flag else modifier.name


def _number(instruction: Instruction, value: object, tile: Tile) -> Scalar:
    """A number in a tile's element type."""
    if not isinstance(tile, Tile | GlobalTensor):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"{instruction.name} takes a pto.Tile, got {type(tile).__name__}")
    return scalar(value, tile.dtype, f"{instruction.name} on {tile.dtype}")


def _own_number(instruction: Instruction, value: object, kind: str) -> Scalar:
    """A number in an element type of its own."""
    return scalar(value, dtype(kind), f"{instruction.name} on {kind}")


def _in_order(instruction: Instruction, first: object, second: object) -> tuple[object, object, PtoEnum | None]:
    """A tile and a number that are given in either order, the tile first, and the order."""
    order = instruction.order
    assert order is not None and order.text is not None
    if isinstance(first, Tile | GlobalTensor):
        return first, second, order.constant_default
    if not isinstance(second, Tile | GlobalTensor):
        raise TypeError(f"{instruction.name} takes a tile and a number, got {brief(first)} and {brief(second)}")
    return second, first, order.text.reverses


SCOPE = {
    **{each.__name__: each for each in (Event, GlobalTensor, Tile, _in_order, _number, _own_number)},
    "Wait": Wait, "_corner": corner, "_execute": execute,
}  # fmt: skip
"""The names that the functions use. No operand has a name that begins with an underscore."""
NAMES = sorted(INSTRUCTIONS.keys() - {TASSIGN.name})
"""The names of the functions. `tassign` has an argument that is no operand (`dispatch.py`)."""
__all__ = [*sorted(enums()), *NAMES]  # noqa: PLE0604 # pyright: ignore[reportUnsupportedDunderAll]
