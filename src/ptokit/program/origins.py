"""Where data comes from: the arrays whose content may decide a finding about indices or divisors."""

from __future__ import annotations

from collections.abc import Iterable

from ptokit.finding import Finding
from ptokit.isa.instruction import Instruction
from ptokit.program.instr_calls import access_of, all_operands
from ptokit.program.ir import Instr, LoadScalar, Program, TileUse, View, walk
from ptokit.program.overlaps import sharing


class Origins:
    """Which tiles and arguments of a program may hold data of some arrays, whatever the order of its statements."""

    def __init__(self, program: Program, arrays: Iterable[str], grid: int | None) -> None:
        self._program, self._beside = program, sharing(program, grid)
        self._holders = {array: self._holders_of(array) for array in arrays}

    def of(self, finding: Finding) -> list[str]:
        """The arrays that the indices or divisors of a finding may come from; none if it is not about such."""
        places = {finding.where, *(end.where for end in finding.ends)}
        found: dict[str, None] = {}
        for instr in self._program.instructions:
            if instr.where in places and (finding.kind or finding.rule) in _of_values(instr.definition):
                operand = all_operands(instr).get(instr.definition.roles.get("index", finding.operand))
                found |= dict.fromkeys(
                    array for array, holders in self._holders.items() if holders is None or _name(operand) in holders
                )
        return [*found]

    def _holders_of(self, array: str) -> set[str] | None:
        """The names of all that may hold data of an array; None if any may, since the kernel's own code reads it."""
        holders = {name for name, each in self._program.tensors.items() if array in (each.array, each.memory)}
        used = {_name(operand) for instr in self._program.instructions for operand in instr.operands}
        if holders.isdisjoint(used):
            return None
        count = 0
        while len(holders) > count:
            count = len(holders)
            for stmt in walk(self._program.body):
                if isinstance(stmt, LoadScalar) and stmt.source.argument in holders:
                    return None
                if isinstance(stmt, Instr) and not holders.isdisjoint(_names(stmt, "read")):
                    written = _names(stmt, "write")
                    if not written:  # it reads a number for the kernel's own code
                        return None
                    holders.update(written, *(self._beside.get(name, ()) for name in written))
        return holders


def _names(instr: Instr, access: str) -> set[str]:
    """The names of the operands that an instruction reads or writes."""
    access_by_name, operands = access_of(instr), all_operands(instr)
    return {_name(operand) for name, operand in operands.items() if access_by_name[name] in (access, "update")} - {""}


def _name(operand: object) -> str:
    """The tile or the argument that an operand is of; empty for a number."""
    return operand.tile if isinstance(operand, TileUse) else operand.argument if isinstance(operand, View) else ""


def _of_values(definition: Instruction) -> set[str]:
    """The hazards, or else clauses, of an instruction's findings about the values of indices and divisors."""
    faults = {fault.kind or fault.rule for fault in definition.reports.faults.values()}
    if definition.reports.repeats is not None:
        faults |= {definition.reports.repeats.same, definition.reports.repeats.folded}
    return faults | {conflict.kind for conflict in definition.reports.conflicts if conflict.memory == "GM"}
