"""Barriers between instructions of one pipe that depend on each other, where the pipe may let them overlap.

The public headers put a barrier between dependent steps of one vector instruction on A2/A3, and turn an event from the
vector pipe to itself into one; on A5 they do neither. Between instructions nothing is said, so there the emitted text
does as the headers do inside, and where an instruction waits for an event of its own pipe. A barrier on one pipe never
changes what a program means.
"""

from __future__ import annotations

from dataclasses import replace

from ptokit.isa.instruction import Call
from ptokit.program.calls import call_of, effects, named_operands
from ptokit.program.ir import Assign, Barrier, Block, Branch, Instr, Loop, Program, Stmt, TileUse, walk
from ptokit.target import Profile
from ptokit.text.cpp.types import header_call

Touch = tuple[int, float, bool]
"""Bytes of UB from one address to another, and whether they are written."""
Touches = frozenset[Touch]

EVERYWHERE = 0, float("inf")


def with_barriers(program: Program, profile: Profile, workspace: int) -> Program:
    """The program with a barrier before each instruction that needs the end of an earlier one of its own pipe."""
    pipe = profile.headers.overlapping if profile.headers else ""
    if not pipe:
        return program
    return replace(program, body=_Barriers(program, profile, pipe, workspace).block(program.body, frozenset())[0])


class _Barriers:
    def __init__(self, program: Program, profile: Profile, pipe: str, workspace: int) -> None:
        self.program, self.profile, self.pipe, self.workspace = program, profile, pipe, workspace
        self.moved = {stmt.tile for stmt in walk(program.body) if isinstance(stmt, Assign)}
        self.events = {instr.event for instr in _instructions(program.body) if self._touches(instr)}
        """Events that instructions of the pipe signal."""

    def block(self, block: Block, open_: Touches) -> tuple[Block, Touches]:
        """The block, and what may still be under way at its end; `open_` is what may be at its beginning."""
        result: list[Stmt] = []
        for stmt in block:
            if isinstance(stmt, Instr):
                here = self._touches(stmt)
                waits = here and open_ and not self.events.isdisjoint(stmt.waits)
                if waits or _clash(open_, here):
                    result.append(Barrier(self.pipe, auto=True, where=stmt.where))
                    open_ = frozenset()
                open_ |= here
            elif isinstance(stmt, Barrier) and stmt.pipe in (self.pipe, "ALL"):
                open_ = frozenset()
            elif isinstance(stmt, Loop):
                open_ |= frozenset().union(*map(self._touches, _instructions(stmt.body)))  # of the iteration before
                stmt = replace(stmt, body=self.block(stmt.body, open_)[0])
            elif isinstance(stmt, Branch):
                then, after = self.block(stmt.then, open_)
                otherwise, open_ = self.block(stmt.otherwise, open_)
                stmt, open_ = replace(stmt, then=then, otherwise=otherwise), open_ | after
            result.append(stmt)
        return tuple(result), open_

    def _touches(self, instr: Instr) -> Touches:
        """What the pipe does to UB for an instruction."""
        call, operands = call_of(self.program, instr, self.profile), named_operands(instr)
        here = [effect for effect in effects(call) if effect.pipe == self.pipe]
        uses = ((operands.get(effect.operand), effect.access != "read") for effect in here)
        touched = {(*self._range(use), writes) for use, writes in uses if isinstance(use, TileUse)}
        return frozenset(touched | self._workspace(instr, call) if here else ())

    def _workspace(self, instr: Instr, call: Call) -> set[Touch]:
        if instr.workspace is not None:
            return {(*self._range(instr.workspace), True)}
        scratch = header_call(self.program, instr, self.profile).workspace
        return {(self.workspace, self.workspace + scratch.nbytes, True)} if scratch else set()

    def _range(self, use: TileUse) -> tuple[int, float]:
        """Where a tile lies: all its copies, or anywhere if only the run knows."""
        decl = self.program.tiles[use.tile]
        known = [address for address in decl.addresses if isinstance(address, int)]
        if use.tile in self.moved or not known or len(known) < len(decl.addresses):
            return EVERYWHERE
        return min(known), max(known) + decl.spec.nbytes


def _instructions(block: Block) -> list[Instr]:
    return [stmt for stmt in walk(block) if isinstance(stmt, Instr)]


def _clash(earlier: Touches, later: Touches) -> bool:
    """Whether some bytes are touched by both, and written by one."""
    return any(
        (writes or wrote) and start < end and first < stop
        for first, end, wrote in earlier
        for start, stop, writes in later
    )
