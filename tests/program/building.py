"""Small programs made by hand, and programs as short text."""

from __future__ import annotations

from textwrap import dedent, indent

from ptokit.isa.dtype import dtype
from ptokit.isa.operand import TileSpec
from ptokit.isa.policy import Coalesce, TileType
from ptokit.program.expr import Expr, Var, apply
from ptokit.program.ir import (
    Argument,
    Barrier,
    Block,
    Branch,
    Flag,
    Instr,
    Integer,
    LoadScalar,
    Loop,
    Operand,
    Program,
    Stmt,
    TileDecl,
    TileUse,
    View,
)

N, I, J, COND = map(Var, ("n", "i", "j", "cond"))  # noqa: E741
EDGE = 16
"""Default rows and columns of every tile."""


def tile(name: str, loc: str = "vec", rows: int = EDGE, cols: int = EDGE, **fields: object) -> TileDecl:
    """A tile of float32."""
    return TileDecl(name, TileSpec(dtype("float32"), TileType.parse(loc), rows, cols, rows, cols), **fields)  # type: ignore[arg-type]


def tiles(names: str, loc: str = "vec", **fields: object) -> tuple[TileDecl, ...]:
    """Several tiles."""
    return tuple(tile(name, loc, **fields) for name in names.split())


def use(name: str, rows: int = EDGE) -> TileUse:
    """The whole of a tile."""
    return TileUse(name, (rows, EDGE))


def rows(argument: str, start: Expr = 0, size: Expr = EDGE) -> View:
    """Rows of an argument."""
    return View(argument, (start, 0), (size, EDGE))


def chunk(var: Var, size: int = EDGE) -> Expr:
    """The first row of an iteration's chunk."""
    return apply("mul", var, size)


def load(dst: str, src: str, start: Expr = 0, size: Expr = EDGE) -> Instr:
    """GM to tile, on MTE2."""
    return Instr("tload", (use(dst), rows(src, start, size)))


def store(dst: str, src: str, start: Expr = 0, size: Expr = EDGE) -> Instr:
    """Tile to GM, on MTE3."""
    return Instr("tstore", (rows(dst, start, size), use(src)), (None, None))


def exp(dst: str, src: str) -> Instr:
    """Computing, on V."""
    return Instr("texp", (use(dst), use(src)))


def gather(dst: str, table: str, idx: str, mode: Coalesce = Coalesce.Row) -> Instr:
    """Gather rows or elements of a table."""
    return Instr("mgather", (use(dst), rows(table), use(idx, 1 if mode is Coalesce.Row else EDGE)), (mode, None, None))


def scatter(table: str, src: str, idx: str) -> Instr:
    """Scatter elements into a table."""
    return Instr("mscatter", (rows(table), use(src), use(idx)), (Coalesce.Elem, None, None, None))


def load_scalar(result: str, argument: str) -> LoadScalar:
    """Read the first element of an argument, on S."""
    return LoadScalar(Var(result), View(argument, (0, 0), (1, 1)))


def loop(*body: Stmt, stop: Expr = N, var: Var = I, buffers: int = 1) -> Loop:
    """A loop from 0."""
    return Loop(var, 0, stop, 1, body, buffers)


def program(*body: Stmt, mode: str = "auto", shared: str = "") -> Program:
    """A program over x, y, z and the number n; `shared` has the memory of x."""
    arguments = [Argument(name, dtype("float32"), (4096, EDGE), (EDGE, 1)) for name in "xyz"]
    if shared:
        arguments.append(Argument(shared, dtype("float32"), (4096, EDGE), (EDGE, 1), memory="x"))
    return Program("test", (*arguments, Integer("n")), body, mode=mode)


def show(program: Program) -> str:
    """The statements as text; declarations are left out."""
    return _show_block(program.body)


def text(expected: str) -> str:
    """A text as tests write it."""
    return dedent(expected).lstrip("\n")


def _show_block(block: Block) -> str:
    return "".join(_show(stmt) + "\n" for stmt in block if not isinstance(stmt, TileDecl))


def _show(stmt: Stmt) -> str:
    if isinstance(stmt, Loop):
        return f"for {stmt.var}\n{_inside(stmt.body)}"
    if isinstance(stmt, Branch):
        other = f"\nelse\n{_inside(stmt.otherwise)}" if stmt.otherwise else ""
        return f"if {stmt.condition}\n{_inside(stmt.then)}{other}"
    if isinstance(stmt, Flag):
        return f"{stmt.action} {stmt.src} {stmt.dst} {stmt.event}"
    if isinstance(stmt, Barrier):
        return f"barrier {stmt.pipe}"
    if isinstance(stmt, Instr):
        return " ".join((stmt.name, *map(_show_operand, stmt.operands)))
    assert isinstance(stmt, LoadScalar)
    return f"{stmt.result} = {stmt.source.argument}"


def _inside(block: Block) -> str:
    return indent(_show_block(block), "    ").rstrip("\n")


def _show_operand(operand: Operand) -> str:
    assert isinstance(operand, TileUse | View)
    return operand.tile if isinstance(operand, TileUse) else operand.argument
