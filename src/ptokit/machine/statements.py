"""The statements of a program as reports and traces show them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from ptokit.finding import Where
from ptokit.machine.traffic import Traffic
from ptokit.program.ir import Instr, Program, Stmt, TileUse, View, walk
from ptokit.program.show import statement_texts


@dataclass(frozen=True)
class ShownOperand:
    """A tile or an array of an instruction."""

    role: str
    """Its name in the definition: `dst`, `table`."""
    name: str
    """Its name in the source."""
    access: str
    """`read`, `write` or `update`."""
    memory: str
    """`GM` for arrays, else the kind of tile: `Vec`."""


@dataclass(frozen=True)
class ShownStatement:
    """A statement; its position in the program is its number."""

    text: str
    instruction: str
    """Its name; empty for other statements."""
    operands: tuple[ShownOperand, ...]
    nbytes: int
    """Bytes of global memory that one execution moves, on average."""
    clauses: tuple[str, ...]
    """The clauses of the rules that it must keep."""
    where: Where | None

    def as_dict(self) -> dict[str, Any]:
        """All but the place as plain data."""
        return {name: value for name, value in asdict(self).items() if name != "where"}


def shown_statements(program: Program, traffic: Iterable[Traffic]) -> tuple[ShownStatement, ...]:
    """All statements in the order of the text."""
    moved = {each.number: each.bytes_moved // max(1, each.executions) for each in traffic}
    body = zip(walk(program.body), statement_texts(program), strict=True)
    return tuple(_shown(program, stmt, text, moved.get(number, 0)) for number, (stmt, text) in enumerate(body))


def _shown(program: Program, stmt: Stmt, text: str, nbytes: int) -> ShownStatement:
    if not isinstance(stmt, Instr):
        return ShownStatement(text, "", (), nbytes, (), stmt.where)
    clauses = dict.fromkeys(rule.id for rule in stmt.definition.rules)
    return ShownStatement(text, stmt.name, _operands(program, stmt), nbytes, tuple(clauses), stmt.where)


def _operands(program: Program, instr: Instr) -> tuple[ShownOperand, ...]:
    found: list[ShownOperand] = []
    for param, operand in zip(instr.definition.operands, instr.operands, strict=False):
        if isinstance(operand, TileUse):
            memory = program.tiles[operand.tile].spec.loc.name
            found.append(ShownOperand(param.name, operand.tile, param.access, memory))
        elif isinstance(operand, View):
            found.append(ShownOperand(param.name, operand.argument, param.access, "GM"))
    return tuple(found)
