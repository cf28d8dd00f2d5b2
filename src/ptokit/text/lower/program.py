"""The program of a text, from its kernel and the kernel's arguments: pointers, arrays, numbers, and tiles."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from ptokit.finding import Where
from ptokit.isa.dtype import dtype
from ptokit.isa.operand import TileSpec
from ptokit.isa.policy import GlobalLayout, TileType
from ptokit.program import ir
from ptokit.program.cores import StatementCores, with_needed_cores
from ptokit.program.expr import SUBBLOCK_IDX, Expr, Op, Var, apply, substitute, truth, variables
from ptokit.program.instr_calls import without_defaults
from ptokit.program.ir import Argument, Float, Given, Integer, View
from ptokit.target.profile import CUBE_CORE
from ptokit.text.errors import TextError, joined
from ptokit.text.lower.arithmetic import FLOATS, read_arithmetic
from ptokit.text.lower.control import CONTROL
from ptokit.text.lower.instructions import read_instruction
from ptokit.text.lower.lowering import Handler, Lowering, NotRead, StopLowering
from ptokit.text.lower.opaque import OPAQUE, with_scales
from ptokit.text.lower.statements import STATEMENTS
from ptokit.text.memories import all_of, open_extent
from ptokit.text.spelling import kind_core
from ptokit.text.tree import Function, Pointer, Tensor, Unit, Value, walk

INTEGER = re.compile(r"index|[su]?i[0-9]+")


def take_argument(low: Lowering, value: Value) -> Callable[[], tuple[Argument | Integer | Float, ...]]:
    """Define an argument. The result returns the program's arguments for it, once all statements are read."""
    type_, where = value.type, low.where
    if isinstance(type_, TileSpec):
        low.values[value] = low.declare(value, type_)
        return tuple
    name = low.unique(value.name)
    if isinstance(type_, Pointer):
        low.values[value] = low.memories.add(name, type_.dtype, where)
        return lambda: low.memories.arguments(name)
    if isinstance(type_, Tensor) and 1 <= len(type_.dims) <= 5:
        low.values[value], numbers = _whole(low, name, type_, where)
        return lambda: (*low.memories.arguments(name), *numbers)
    if type_ in FLOATS:
        element = dtype(str(type_))
        low.values[value] = Given(name, element)
        return lambda: (Float(name, element, where=where),)
    if isinstance(type_, str) and INTEGER.fullmatch(type_):
        var = Var(name)
        low.values[value] = truth(var) if type_ == "i1" else var
        low.steady.add(var)
        return lambda: (Integer(name, where=where),)
    shown = type_ if isinstance(type_, str) else getattr(type_, "text", "view without dims")
    low.refuse_type(f"%{value.name}: an argument of type {shown} has no lowering", type_)


def _whole(low: Lowering, name: str, kind: Tensor, where: Where | None) -> tuple[View, tuple[Integer, ...]]:
    """An array whose type has its shape; an open extent is a number that the launch passes."""
    place = low.memories.add(name, kind.dtype, where)
    shape = tuple(Var(low.unique(open_extent(name, dim))) if n is None else n for dim, n in enumerate(kind.dims))
    numbers = tuple(extent for extent in shape if isinstance(extent, Var))
    low.steady.update(numbers)
    argument = low.memories.view(place, shape, _packed(shape), GlobalLayout.ND, name, frozenset(low.steady))
    return all_of(argument), tuple(Integer(number, where=where) for number in numbers)


def _packed(shape: tuple[Expr, ...]) -> tuple[Expr, ...]:
    strides: list[Expr] = [1]
    for extent in shape[:0:-1]:
        strides.insert(0, apply("mul", strides[0], extent))
    return tuple(strides)


Arguments = tuple[ir.Argument | ir.Integer | ir.Float, ...]
MODES = ("auto", "flags", "manual")
HANDLERS: dict[str, Handler] = {
    **STATEMENTS, **CONTROL, **OPAQUE, "arith.*": read_arithmetic, "*": read_instruction,
}  # fmt: skip
"""Handlers by the name of an operation, by its dialect (`arith.*`), of instructions (`*`), and of others (`?`)."""


def lower(unit: Unit, function: str | None = None) -> ir.Program:
    """The program of a text: of the named function, by default of its kernel.

    An operation without a lowering raises a TextError with its place.
    """
    try:
        entry = _entry(unit, function)
    except TextError as problem:
        raise joined(unit.errors or (problem,)) from None
    return _program(Lowering(unit, HANDLERS), entry)


def _defined(unit: Unit) -> list[Function]:
    return [function for function in unit.functions if not function.is_declared]


def kernels(unit: Unit) -> list[Function]:
    """The functions that are marked as entries; if none is, those that no other one calls."""
    whole = _defined(unit)
    marked = [function for function in whole if "pto.entry" in function.attributes]
    called = {op.attributes.get("callee") for function in whole for op in walk(function.body)}
    return marked or [function for function in whole if function.name not in called]


def _entry(unit: Unit, name: str | None) -> Function:
    """The named function; by default the only kernel."""
    if name is not None:
        whole = _defined(unit)
        chosen = next((function for function in whole if function.name == name), None)
        if chosen is None:
            known = ", ".join(function.name for function in whole) or "none"
            raise unit.source.error(f"there is no function {name}; the text has {known}", None)
        return chosen
    free = kernels(unit)
    if not free:
        raise unit.source.error("the text has no kernel", None)
    if len(free) > 1:
        names = ", ".join(function.name for function in free)
        message = f"the text has {len(free)} kernels ({names}); choose one"
        raise unit.source.error(message, free[1].where, "name it with --function, or function=")
    return free[0]


def _program(low: Lowering, function: Function) -> ir.Program:
    low.where = function.where
    low.core, low.vector_cores = kind_core(function.attributes), _vector_cores(low.unit, function)
    listed: list[tuple[Value, Callable[[], Arguments]]] = []
    try:
        listed += [(value, take_argument(low, value)) for value in function.arguments]
        low.block(function.body)
    except TextError as problem:
        low.errors.append(problem)
    except (StopLowering, NotRead):
        pass
    if low.errors:
        raise joined(low.errors)
    body = tuple(low.scopes[0].statements)
    if low.loads:
        body = ir.transform(body, lambda stmt: _with_view(low, stmt))
    body = with_scales(_without(body, low.added_workspaces) if low.added_workspaces else body)
    mode = str(function.attributes.get("ptokit.mode", mode_of(body)))
    if mode not in MODES:
        low.refuse(f"ptokit.mode is one of {', '.join(MODES)}; found {mode}")
    kept = (make() for value, make in listed if value not in low.flag_memory)
    viewed = tuple(dict.fromkeys(_viewed(body)))
    used = tuple(argument for arguments in kept for argument in _in_use(arguments, viewed))
    names = tuple((expr, name) for expr, name in low.names.items() if isinstance(expr, Op))
    program = ir.Program(function.name, used, body, (), names, mode, low.unit.arch, where=function.where)
    program = with_needed_cores(without_defaults(program))
    return program if low.vector_cores < 2 else _on_both(program, asked=VECTOR_CORES not in function.attributes)


VECTOR_CORES = "ptokit.vector_cores"
"""The attribute of a function that both vector cores of a block run, whether they ask which they are or not."""


def _vector_cores(unit: Unit, function: Function) -> int:
    """How many vector cores of a block run a program: both if it asks for their number in the block, and has work for a
    cube core, or does not ask how many there are."""
    if VECTOR_CORES in function.attributes:
        return 2
    operations = [op for each in unit.functions if not each.is_declared for op in walk(each.body)]
    asked = {op.name for op in operations}
    types = (result.type for op in operations for result in op.results)
    is_mixed = any(isinstance(each, TileSpec) and each.loc is not TileType.Vec for each in types)
    return 2 if "get_subblock_idx" in asked and (is_mixed or "get_subblock_num" not in asked) else 1


def _on_both(program: ir.Program, *, asked: bool) -> ir.Program:
    """The program for both vector cores of a block; for one, if it has no cube core, asks which it is and does not use
    the answer. On the cube core the number is 0."""
    cores = StatementCores(program)

    def change(stmt: ir.Stmt) -> ir.Stmt:
        of_cube = cores.of(stmt) == frozenset((CUBE_CORE.name,))
        return ir.with_expressions(stmt, lambda expr: substitute(expr, {SUBBLOCK_IDX: 0})) if of_cube else stmt

    body = ir.transform(program.body, change)
    uses = any(SUBBLOCK_IDX in variables(expr) for stmt in ir.walk(body) for expr in ir.expressions(stmt))
    is_alone = asked and not uses and CUBE_CORE.name not in cores.all
    return replace(program, body=body, vector_cores=1 if is_alone else 2)


def _in_use(arguments: Arguments, viewed: Iterable[str]) -> Iterator[ir.Argument | ir.Integer | ir.Float]:
    """The arguments that the launch passes, then the views in use, in the order of their first use."""
    views = {a.name: a for a in arguments if isinstance(a, ir.Argument) and a.view_of}
    yield from (argument for argument in arguments if argument.name not in views)
    yield from (views[name] for name in viewed if name in views)


def _with_view(low: Lowering, stmt: ir.Stmt) -> ir.Stmt:
    """A scalar load with a view of the argument that owns the memory."""
    if isinstance(stmt, ir.LoadScalar) and stmt.result in low.loads:
        return replace(stmt, source=low.memories.element(low.loads[stmt.result]))
    return stmt


def mode_of(body: ir.Block) -> str:
    """The mode of a text without an explicit one: addresses or flags in it are the author's."""
    found = list(ir.walk(body))
    if any(isinstance(stmt, ir.Assign) or (isinstance(stmt, ir.TileDecl) and stmt.addresses) for stmt in found):
        return "manual"
    events = any(isinstance(stmt, ir.Instr) and (stmt.event is not None or stmt.waits) for stmt in found)
    return "flags" if events or any(isinstance(stmt, ir.Flag | ir.CrossFlag | ir.Barrier) for stmt in found) else "auto"


def _viewed(body: ir.Block) -> Iterator[str]:
    """The arguments that statements use views of."""
    for stmt in ir.walk(body):
        views = (
            stmt.operands if isinstance(stmt, ir.Instr) else (stmt.source,) if isinstance(stmt, ir.LoadScalar) else ()
        )
        yield from (view.argument for view in views if isinstance(view, ir.View))


def _without(block: ir.Block, tiles: set[str]) -> ir.Block:
    """The block without the declarations of some tiles."""
    return ir.transform(block, lambda stmt: () if isinstance(stmt, ir.TileDecl) and stmt.name in tiles else stmt)
