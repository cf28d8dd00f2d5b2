"""Barriers between instructions of one pipe that depend on each other, where the pipe may let them overlap.

The public headers put a barrier between dependent steps of one vector instruction on A2/A3, and turn an event from the
vector pipe to itself into one; on A5 they do neither. They do not order instructions, so the emitted text puts
such barriers between dependent instructions, and where an instruction waits for an event of its own pipe. A barrier on
one pipe never changes the meaning of a program.
"""

from __future__ import annotations

from dataclasses import replace

from ptokit.program.instr_calls import call_of, effects, named_operands
from ptokit.program.ir import Assign, Barrier, Block, Branch, Instr, Loop, Program, Stmt, TileUse, instructions, walk
from ptokit.target import Profile
from ptokit.text.cpp.types import header_call

Ranges = frozenset[tuple[int, float, bool]]
"""Ranges of UB: the first address, the end, and whether the bytes are written."""

EVERYWHERE = 0, float("inf")


def with_barriers(program: Program, profile: Profile, workspace: int) -> Program:
    """The program with a barrier before each instruction that needs the end of an earlier one of its own pipe."""
    pipe = profile.overlapping
    if not pipe:
        return program
    return replace(program, body=_Barriers(program, profile, pipe, workspace).block(program.body, frozenset())[0])


class _Barriers:
    def __init__(self, program: Program, profile: Profile, pipe: str, workspace: int) -> None:
        self.program, self.profile, self.pipe, self.workspace = program, profile, pipe, workspace
        self.moved = {stmt.tile for stmt in walk(program.body) if isinstance(stmt, Assign)}
        self.events = {instr.event for instr in instructions(program.body) if self._touched(instr)}
        """Events that instructions of the pipe signal."""

    def block(self, block: Block, open_: Ranges) -> tuple[Block, Ranges]:
        """The block with barriers, and the ranges still in use at its end; `open_` are those at its beginning."""
        result: list[Stmt] = []
        for old in block:
            stmt = old
            if isinstance(stmt, Instr):
                ranges = self._touched(stmt)
                waits = ranges and open_ and not self.events.isdisjoint(stmt.waits)
                if waits or _conflict(open_, ranges):
                    result.append(Barrier(self.pipe, auto=True, where=stmt.where))
                    open_ = frozenset()
                open_ |= ranges
            elif isinstance(stmt, Barrier) and stmt.pipe in (self.pipe, "ALL"):
                open_ = frozenset()
            elif isinstance(stmt, Loop):
                open_ = open_.union(*map(self._touched, instructions(stmt.body)))  # the previous iteration
                stmt = replace(stmt, body=self.block(stmt.body, open_)[0])
            elif isinstance(stmt, Branch):
                then, after = self.block(stmt.then, open_)
                otherwise, open_ = self.block(stmt.otherwise, open_)
                stmt, open_ = replace(stmt, then=then, otherwise=otherwise), open_ | after
            result.append(stmt)
        return tuple(result), open_

    def _touched(self, instr: Instr) -> Ranges:
        """The ranges of UB that the pipe reads or writes for an instruction."""
        operands, called = named_operands(instr), effects(call_of(self.program, instr, self.profile))
        own = [effect for effect in called if effect.pipe == self.pipe]
        uses = ((operands.get(effect.operand), effect.access != "read") for effect in own)
        touched = {(*self._range(use), writes) for use, writes in uses if isinstance(use, TileUse)}
        return frozenset(touched | self._workspace(instr) if own else ())

    def _workspace(self, instr: Instr) -> set[tuple[int, float, bool]]:
        if instr.workspace is not None:
            return {(*self._range(instr.workspace), True)}
        scratch = header_call(self.program, instr, self.profile).workspace
        return {(self.workspace, self.workspace + scratch.nbytes, True)} if scratch else set()

    def _range(self, use: TileUse) -> tuple[int, float]:
        """The addresses of a tile and its copies; all of UB if they are known only at run time."""
        decl = self.program.tiles[use.tile]
        known = [address for address in decl.addresses if isinstance(address, int)]
        if use.tile in self.moved or not known or len(known) < len(decl.addresses):
            return EVERYWHERE
        return min(known), max(known) + decl.spec.nbytes


def _conflict(earlier: Ranges, later: Ranges) -> bool:
    """Whether two ranges overlap, and one of them is written."""
    return any(
        (writes or wrote) and start < end and first < stop
        for first, end, wrote in earlier
        for start, stop, writes in later
    )
