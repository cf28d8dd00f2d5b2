"""Programs as readable text."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ptokit.finding import Finding, Where
from ptokit.isa.tassign import TASSIGN
from ptokit.isa.unknown import is_unknown
from ptokit.program import ir
from ptokit.program.expr import Expr, apply, parts, show_expr
from ptokit.program.instr_calls import all_operands, chosen_modifiers
from ptokit.program.ir import CPP, Instr, LoadScalar, Operand, Program, Stmt, TileUse, View

WIDTH = 80


def show(program: ir.Program, target: str = "") -> str:
    """The whole program. `+` marks what auto mode added; `:n` is a line of the source."""
    return "\n".join(_Printer(program).lines(target))


def statement_texts(program: ir.Program) -> list[str]:
    """Every statement by itself, in the order of `walk`."""
    printer = _Printer(program)
    return [printer.statement(stmt) for stmt in ir.walk(program.body)]


class _Printer:
    """Prints statements, with the author's names of expressions."""

    def __init__(self, program: ir.Program) -> None:
        self.program = program
        self.names = dict(program.names)
        self.defined: list[set[Expr]] = [set()]

    def lines(self, target: str) -> Iterator[str]:
        """All lines, from the header to the last statement."""
        program = self.program
        head = ", ".join(part for part in (f"kernel {program.name}", f"{program.mode} mode", target) if part)
        yield _row("", head, f"{program.where or ''}")
        yield from (f"    {_argument(argument)}" for argument in program.arguments)
        yield from (f"    {name} = {value}" for name, value in program.constants)
        yield from self._block(program.body, 0)

    def _block(self, block: ir.Block, depth: int) -> Iterator[str]:
        self.defined.append(set())
        for stmt in block:
            yield from self._definitions(stmt, depth)
            auto = isinstance(stmt, ir.Flag | ir.CrossFlag | ir.Barrier) and stmt.auto
            yield _line(depth, self.statement(stmt), stmt.where, auto=auto)
            for arm, inner in enumerate(ir.children(stmt)):
                if arm and inner:
                    yield _line(depth, "otherwise:", None)
                yield from self._block(inner, depth + 1)
        self.defined.pop()

    def _definitions(self, stmt: ir.Stmt, depth: int) -> Iterator[str]:
        """The definitions of names that a statement is the first to use."""
        for expr in (part for whole in ir.expressions(stmt) for part in parts(whole)):
            if expr in self.names and not any(expr in known for known in self.defined):
                inner = {other: name for other, name in self.names.items() if other != expr}
                yield _line(depth, f"{self.names[expr]} = {show_expr(expr, inner)}", None)
                self.defined[-1].add(expr)

    def _expr(self, expr: Expr) -> str:
        return show_expr(expr, self.names)

    def statement(self, stmt: ir.Stmt) -> str:
        """A statement without the blocks inside."""
        match stmt:
            case ir.Loop():
                step = f", {stmt.step}" if stmt.step != 1 else ""
                buffers = f", buffers={stmt.buffers}" if stmt.buffers != 1 else ""
                return f"for {stmt.var} in range({self._expr(stmt.start)}, {self._expr(stmt.stop)}{step}{buffers}):"
            case ir.Branch():
                return f"when {self._expr(stmt.condition)}:"
            case ir.TileDecl():
                copies = f" x {stmt.buffers}" if stmt.buffers > 1 else ""
                at = f" at {', '.join(map(self._address, stmt.addresses))}" if stmt.addresses else ""
                return f"{stmt.name} = tile {stmt.spec}{copies}{at}"
            case ir.Assign():
                return f"{TASSIGN.name}({stmt.tile}, {self._address(stmt.address)})"
            case ir.LoadScalar():
                index = ", ".join(map(self._expr, stmt.source.starts))
                return f"{stmt.result} = load_scalar({stmt.source.argument}, {index})"
            case ir.Flag():
                own = f"{stmt.core}." if stmt.core else ""
                return f'{stmt.action}_flag("{own}{stmt.src}", "{own}{stmt.dst}", {self._expr(stmt.event)})'
            case ir.CrossFlag():
                return f'sync_{stmt.action}("{stmt.core}.{stmt.pipe}", {self._expr(stmt.event)})'
            case ir.Barrier():
                own = f"{stmt.core}." if stmt.core else ""
                return f'barrier("{own}{stmt.pipe}")'
            case ir.Instr():
                return self._instruction(stmt)

    def _address(self, address: Expr) -> str:
        return f"{address:#x}" if isinstance(address, int) else self._expr(address)

    def _instruction(self, instr: ir.Instr) -> str:
        given = [self._operand(operand) for operand in instr.operands]
        chosen = zip(instr.definition.modifiers, chosen_modifiers(self.program, instr), strict=True)
        given += [f'{modifier.name}="{value.text}"' for modifier, value in chosen if value is not None]
        given += [f"tmp={self._tile(instr.workspace)}"] if instr.workspace is not None else []
        given += [f"wait={', '.join(f'event {number}' for number in instr.waits)}"] if instr.waits else []
        event = f"event {instr.event} = " if instr.event is not None else ""
        return f"{event}{instr.name}({', '.join(given)})"

    def _operand(self, operand: ir.Operand) -> str:
        if isinstance(operand, ir.TileUse):
            return self._tile(operand)
        if isinstance(operand, ir.View):
            return self._view(operand)
        if isinstance(operand, ir.Constant):
            return str(np.array([operand.bits], f"u{operand.dtype.size}").view(operand.dtype.numpy)[0])
        return operand.name if isinstance(operand, ir.Given) else self._expr(operand.value)

    def _tile(self, use: ir.TileUse) -> str:
        spec = self.program.tiles[use.tile].spec
        name, whole = use.tile, (spec.rows, spec.cols)
        if use.window is not None:
            shown = [self._slice(*part) for part in zip(use.window.start, use.window.size, whole, strict=True)]
            name, whole = f"{name}[{', '.join(shown[:1] if shown[1] == ':' else shown)}]", use.window.size
        if use.valid == whole or (use.window is None and not is_unknown(*spec.valid) and use.valid == spec.valid):
            return name
        return f"{name} valid [{', '.join(map(self._expr, use.valid))}]"

    def _view(self, view: ir.View) -> str:
        argument = self.program.tensors[view.argument]
        if view.sizes == argument.shape and not any(view.starts):
            return view.argument
        shown = [self._slice(*part) for part in zip(view.starts, view.sizes, argument.shape, strict=True)]
        while len(shown) > 1 and shown[-1] == ":":
            shown.pop()
        return f"{view.argument}[{', '.join(shown)}]"

    def _slice(self, start: Expr, size: Expr, most: Expr) -> str:
        if start == 0 and size == most:
            return ":"
        return f"{self._expr(start)} : {self._expr(apply('add', start, size))}"


def _argument(argument: ir.Argument | ir.Integer | ir.Float) -> str:
    if not isinstance(argument, ir.Argument):
        return f"{argument.name}: {'whole number' if isinstance(argument, ir.Integer) else argument.dtype}"
    shape = ", ".join(map(str, argument.shape))
    layout = "" if argument.layout.name == "ND" else f" {argument.layout.name}"
    shared = f", shares memory with {argument.memory}" if argument.memory else ""
    shared += f", a view of {argument.view_of}" if argument.view_of else ""
    offset = f" from element {argument.offset} on" if argument.offset != 0 else ""
    return f"{argument.name}: {argument.dtype} [{shape}]{layout}{shared}{offset}"


def _line(depth: int, text: str, where: Where | None, *, auto: bool = False) -> str:
    mark = "+ " if auto else "  "
    return _row(mark + "  " * depth, text, "" if where is None or auto else f":{where.line}")


def _row(lead: str, text: str, place: str) -> str:
    """A line with its location at the right or below. Continuation lines are indented further."""
    lines = textwrap.wrap(
        text, WIDTH, initial_indent=lead, subsequent_indent=" " * (len(lead) + 6), break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip
    if len(lines[-1]) + 1 + len(place) > WIDTH:
        lines.append("")
    return "\n".join([*lines[:-1], f"{lines[-1].ljust(WIDTH - len(place))}{place}".rstrip()])


# --- words


def described(finding: Finding, program: Program, stmt: Stmt) -> Finding:
    """A finding of a statement, at its place."""
    where = finding.where or stmt.where
    if not isinstance(stmt, Instr):
        return replace(finding, where=where)
    names = {operand: name_of(program, used) for operand, used in operands_of(stmt).items()}
    named = tuple((operand, name) for operand, name in names.items() if name)
    return replace(finding, where=where, names=named)


def operands_of(stmt: Stmt) -> dict[str, Operand]:
    """The operands of a statement by name."""
    if isinstance(stmt, Instr):
        return all_operands(stmt)
    return {"source": stmt.source} if isinstance(stmt, LoadScalar) else {}


def name_of(program: Program, operand: Operand | None) -> str:
    """The author's name of a tile or an array; empty if it has none."""
    name = ""
    if isinstance(operand, View):
        name = operand.argument
    elif isinstance(operand, TileUse) and program.tiles[operand.tile].named:
        name = operand.tile
    return f"%{name}" if name and program.form and not program.form.startswith(CPP) else name
