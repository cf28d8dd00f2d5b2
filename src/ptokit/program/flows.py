"""Data that flags hand over from one core to the other: which write each read is meant to see.

A change of flags may leave a program clean and turn a read before the write that it followed; `keeps_flows` tells.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from ptokit.program import ir
from ptokit.program.calls import access_of, named_operands
from ptokit.program.cores import OTHER, StatementCores
from ptokit.program.expr import Expr
from ptokit.program.memory import Path
from ptokit.program.order import WAIT, Insertion
from ptokit.program.repair import Edited, Unit


@dataclass(frozen=True)
class Flow:
    """A write of one core that a flag hands over to a read of the other."""

    write: Path
    read: Path


def keeps_flows(before: Edited, after: Edited) -> bool:
    """Whether all that flags hand over in a program is handed over with edits too. `before` has no edits."""
    if not any(isinstance(stmt, ir.CrossFlag) for stmt in before.statements.values()):
        return True
    order = {path: number for number, path in enumerate(after.paths)}
    links = [(order[one], order[other]) for one, other in _links(after)]
    for flow in _flows(before):
        write, read = order[after.now(flow.write)], order[after.now(flow.read)]
        if not any(write < one and other < read for one, other in links):
            return False
    return True


def postponed(edited: Edited) -> Iterator[Unit]:
    """Waits for the other core, each moved to the first instruction that reads what it hands over."""
    order = {path: number for number, path in enumerate(edited.paths)}
    for _, wait in _links(edited):
        stmt, removed = edited.statements[wait], edited.removed(wait)
        reads = [flow.read for flow in _flows(edited, wait)]
        if removed is not None and reads and isinstance(stmt, ir.CrossFlag):
            *block, number = min(reads, key=order.__getitem__)
            moved = Insertion(tuple(block), number, WAIT, stmt)
            if tuple(block) == wait[:-1] and number > wait[-1] + 1:
                yield removed, edited.inserted(moved)


def _links(edited: Edited) -> Iterator[tuple[Path, Path]]:
    """Sets of flags between the cores, and the waits that they belong to: the first to the first, outside of loops."""
    ends: dict[tuple[str, Expr, str], list[Path]] = defaultdict(list)
    for path, stmt in edited.statements.items():
        if isinstance(stmt, ir.CrossFlag):
            ends[stmt.core, stmt.event, stmt.action].append(path)
    for (core, event, action), paths in ends.items():
        if action == "set":
            waits = ends.get((OTHER[core], event, "wait"), [])
            in_loops = any(edited.outline.around(path) for path in (*paths, *waits))
            yield from product(paths, waits) if in_loops else zip(paths, waits, strict=False)


def _flows(edited: Edited, wait: Path | None = None) -> Iterator[Flow]:
    """For each flag, or the one of a wait, the last write before its set and the first read after its wait of each
    memory."""
    cores = StatementCores(edited.program)
    order = {path: number for number, path in enumerate(edited.paths)}
    instructions = [(path, stmt) for path, stmt in edited.statements.items() if isinstance(stmt, ir.Instr)]
    for one, other in _links(edited):
        if wait not in (None, other):
            continue
        core = _core(edited.statements[one])
        written: dict[str, Path] = {}
        for path, instr in instructions:
            if core in cores.of(instr) and order[path] < order[one]:
                written |= dict.fromkeys(_memories(edited.program, instr, "read"), path)
        seen: dict[str, Path] = {}
        for path, instr in instructions:
            if OTHER[core] in cores.of(instr) and order[path] > order[other]:
                seen = dict.fromkeys(_memories(edited.program, instr, "write"), path) | seen
        yield from (Flow(written[memory], seen[memory]) for memory in written.keys() & seen.keys())


def _core(stmt: ir.Stmt) -> str:
    assert isinstance(stmt, ir.CrossFlag)
    return stmt.core


def _memories(program: ir.Program, instr: ir.Instr, without: str) -> Iterator[str]:
    """The arrays and tiles that an instruction accesses, other than by one kind of access."""
    access = access_of(instr)
    for name, operand in named_operands(instr).items():
        if access[name] != without and isinstance(operand, ir.View):
            yield program.tensors[operand.argument].array
        elif access[name] != without and isinstance(operand, ir.TileUse):
            yield f"tile {operand.tile}"
