"""On-chip memory on a path: what is read was written, and no other tile has overwritten it."""

from __future__ import annotations

from collections.abc import Hashable

from ptokit.engine.storage import region
from ptokit.isa.policy import TileType
from ptokit.machine.overlaps import WORKSPACES
from ptokit.machine.shadow import READ, extent_of
from ptokit.program import ir
from ptokit.program.expr import (
    Expr,
)
from ptokit.program.instr_calls import unknown_writes
from ptokit.program.overlaps import interleaved
from ptokit.proof.accesses import Doing, Touch, bits_of
from ptokit.proof.numbers import Numbers, added
from ptokit.proof.order import OrderFault, Report
from ptokit.proof.paths import Path, PathCore


class ChipChecks:
    """Follows what a path writes."""

    def __init__(self, program: ir.Program) -> None:
        self.program = program
        addresses = (expr for stmt in ir.walk(program.body) for expr in _addresses(stmt))
        self._moves_tiles = any(not isinstance(address, int) for address in addresses)
        self._interleaved = interleaved(program, None)
        unknown = unknown_writes(program)
        self._checked = {tile.name for tile in program.tiles.values() if tile.spec.loc not in unknown}

    def undefine(self, path: Path, tile: ir.TileDecl, address: int, vector: int) -> None:
        memory = tile.spec.loc, vector if tile.spec.loc is TileType.Vec else 0
        self._lose(path, memory, ((1 << tile.spec.nbytes) - 1) << address)

    def _lose(self, path: Path, memory: tuple[TileType, int], bits: int, *, fills: bool = True) -> None:
        """Bytes are not defined any longer; those of fills only if `fills`."""
        kept = 0 if fills else path.filled.get(memory, 0)
        path.written[memory] = path.written.get(memory, 0) & (~bits | kept)
        path.filled[memory] = path.filled.get(memory, 0) & (~bits | kept)
        path.partial = {key: of for key, of in path.partial.items() if key[0] != memory or not key[1] & bits}

    def check(
        self, report: Report, number: int, path: Path, thread: PathCore, doing: Doing, stmt: ir.Instr, vector: int
    ) -> None:
        """On-chip memory is written before it is read."""
        is_fill, is_first = not (doing.copies or stmt.opaque_form), doing.copies
        for access in doing.checked:
            memory, bits = access.memory, access.bits
            assert not isinstance(memory, str)
            if access.operand in WORKSPACES and access.how == READ:
                continue
            if self._moves_tiles:
                self._check_owner(report, number, path, thread, access, vector)
            if access.how == READ:
                if not self._is_defined(path, thread.numbers, access):
                    report(OrderFault("unwritten", number, None, access.operand))
                    path.written[memory] = path.written.get(memory, 0) | bits
                is_fill = is_fill and not bits & ~path.filled.get(memory, 0)
            elif access.is_lost:
                self._lose(path, memory, bits)
            elif access.valid is not None:
                if is_first and access.operand == next(iter(stmt.definition.operands)).name:
                    is_first = False
                    self._leave(path, thread, stmt, access, vector)
                self._define(path, access, is_fill=is_fill)

    def _check_owner(
        self, report: Report, number: int, path: Path, thread: PathCore, access: Touch, vector: int
    ) -> None:
        """No other tile has overwritten what is read."""
        tile, memory = self.program.tiles.get(access.tile), access.memory
        assert not isinstance(memory, str)
        if tile is None or tile.family == ir.ANY_FAMILY:
            return
        own: Hashable = tile.family
        if own is None:
            own = thread.addresses.get(vector, {}).get(tile.name), tile.spec.nbytes, str(tile.spec.dtype)
        entries = path.owners.get(memory, ())
        if access.how == READ:
            if any(bits & access.bits and owner != own for bits, owner in entries):
                report(OrderFault("overwritten", number, None, access.operand))
            return
        kept = tuple((rest, owner) for bits, owner in entries if owner != own and (rest := bits & ~access.bits))
        mine = access.bits
        for bits, owner in entries:
            mine |= bits if owner == own else 0
        path.owners[memory] = (*kept, (mine, own))

    def _define(self, path: Path, access: Touch, *, is_fill: bool) -> None:
        memory, bits = access.memory, access.bits
        assert not isinstance(memory, str)
        if access.valid:
            assert access.use is not None
            path.partial[memory, bits] = access.use
            return
        path.written[memory] = path.written.get(memory, 0) | bits
        filled = path.filled.get(memory, 0)
        path.filled[memory] = filled | bits if is_fill else filled & ~bits

    def _leave(self, path: Path, thread: PathCore, stmt: ir.Instr, access: Touch, vector: int) -> None:
        """A load leaves what lies outside its valid region undefined, unless a fill has cleared it."""
        use = stmt.operands[0]
        if not isinstance(use, ir.TileUse) or use.window is not None:
            return
        tile = self.program.tiles[use.tile]
        whole = bits_of(extent_of(region(tile.spec.layout, tile.spec.rows, tile.spec.cols), tile.spec.dtype.size), 0)
        whole <<= thread.addresses.get(vector, {})[use.tile]
        if (access.valid or access.bits != whole) and use.tile not in self._interleaved:
            self._lose(path, access.memory, whole, fills=False)  # type: ignore[arg-type]

    def _is_defined(self, path: Path, numbers: Numbers, access: Touch) -> bool:
        """Whether all that is read was written."""
        memory, bits = access.memory, access.bits
        assert not isinstance(memory, str)
        if access.tile not in self._checked or not bits & ~path.written.get(memory, 0):
            return True
        parts = (use for key, use in path.partial.items() if key[0] == memory and key[1] & bits)
        return access.use is not None and any(_is_within(numbers, access.use, use) for use in parts)


def _addresses(stmt: ir.Stmt) -> tuple[Expr, ...]:
    if isinstance(stmt, ir.TileDecl):
        return stmt.addresses
    return (stmt.address,) if isinstance(stmt, ir.Assign) else ()


def _is_within(numbers: Numbers, part: ir.TileUse, whole: ir.TileUse) -> bool:
    """Whether a part of a tile certainly lies within another part of it."""
    if part.tile != whole.tile:
        return False
    for start, extent, first, size in zip(part.start, part.valid, whole.start, whole.valid, strict=True):
        ahead = added(numbers.sum_of(start), numbers.sum_of(first), -1)
        beyond = added(added(ahead, numbers.sum_of(extent)), numbers.sum_of(size), -1)
        if numbers.bounds_of(ahead)[0] < 0 or numbers.bounds_of(beyond)[1] > 0:
            return False
    return True
