"""Which programs can run a block again that was left in the middle: the memory that it reads is as it was."""

from __future__ import annotations

from collections.abc import Collection

from ptokit.engine.llvm.program.independent import memory_of, views_of
from ptokit.engine.llvm.program.tiles import Variants
from ptokit.isa.move import Combine, Move
from ptokit.program.calls import access_of, named_operands
from ptokit.program.ir import Barrier, Block, CrossFlag, Flag, Instr, Program, Stmt, TileDecl, View, walk


def written_memories(program: Program, block: Block) -> set[str]:
    """The memories that statements write."""
    return {memory_of(program.tensors[view.argument]) for s in walk(block) for view, out in views_of(s) if out}


def changed(program: Program, variants: Variants, besides: Collection[str] = ()) -> set[str]:
    """Memories that a program both reads and writes; those `besides` are written later."""
    read = {memory for stmt in walk(program.body) for memory in _read(program, stmt, variants)}
    return (read & written_memories(program, program.body)) - set(besides)


def _read(program: Program, stmt: Stmt, variants: Variants) -> set[str]:
    """Memories that a statement reads: also those that it combines with what is there."""
    found = {memory_of(program.tensors[view.argument]) for view, out in views_of(stmt) if not out}
    if isinstance(stmt, Instr):
        access, combines = access_of(stmt), _combines(stmt, variants)
        updated = [v for n, v in named_operands(stmt).items() if isinstance(v, View) and access[n] == "update"]
        found |= {memory_of(program.tensors[view.argument]) for view in updated if combines}
    return found


def _combines(instr: Instr, variants: Variants) -> bool:
    """Whether what is written depends on what is there; unknown without variants."""
    known = variants(instr)
    steps = [step for variant in known for step in variant.steps if isinstance(step, Move)]
    return not known or any(step.combine is not Combine.STORE for step in steps)


def is_changed_last(program: Program, memories: Collection[str]) -> bool:
    """Whether the last statement of a block that can be left is the only one that writes these memories."""
    *before, last = [stmt for stmt in program.body if not _is_idle(stmt)] or [None]
    writes = any(not written_memories(program, (stmt,)).isdisjoint(memories) for stmt in before if stmt)
    return not memories or (isinstance(last, Instr) and not writes)


def _is_idle(stmt: Stmt) -> bool:
    """Whether a statement cannot be left."""
    if isinstance(stmt, Flag | CrossFlag):
        return isinstance(stmt.event, int)
    return isinstance(stmt, Barrier) or (isinstance(stmt, TileDecl) and not stmt.addresses)
