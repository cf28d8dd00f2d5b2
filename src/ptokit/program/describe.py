"""Findings in the words of the author: names of tiles and arrays."""

from __future__ import annotations

from dataclasses import replace

from ptokit.finding import Finding
from ptokit.program.calls import all_operands
from ptokit.program.ir import CPP, Instr, LoadScalar, Operand, Program, Stmt, TileUse, View


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
