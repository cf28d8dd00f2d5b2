"""The memory of a running block: the slots of a thread's state, and the tiles in its arena.

It follows from the program alone, so the disk cache does not store it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from functools import cached_property
from itertools import accumulate
from typing import cast

from ptokit.engine.llvm.resolve import PADDING
from ptokit.engine.storage import ADDRESS_SPACE
from ptokit.isa.policy import TileType
from ptokit.program import ir
from ptokit.program.expr import BLOCK_IDX, BLOCK_NUM, Op, Var, variables
from ptokit.program.instr_calls import named_operands

BLOCK = (BLOCK_IDX, BLOCK_NUM)
SIGNALS = -1
"""Not the number of a statement: Python checks for signals."""
ALIGNMENT = 64


class StateSlot:
    """Slots of every state: the stop flag's address, the fallback to Python, the arena, blocks and iterations until
    Python checks for signals, the innermost loop's iteration, two numbers that Python computed."""

    STOP, FALLBACK, ARENA, BUDGET, ITERATION, FIRST, SECOND = range(COUNT := 7)


class Reason:
    """Why a statement falls back to Python: there is no code for its numbers, or a check failed; a finding is to be
    reported, once (the next three); a ledger is full; the statement that it was fused with fell back."""

    MISSED, REMARK, NEGATIVE, PADDED, FULL, AFTER = range(COUNT := 6)


def address_of(tile: str) -> Var:
    """The variable for the address of a tile."""
    return Var(f"{tile} address")


def _aligned(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


class Slots:
    """The state and the arena of a program."""

    def __init__(self, program: ir.Program) -> None:
        self.program = program
        self.statements: list[ir.Stmt] = list(ir.walk(program.body))
        self.numbers = {id(stmt): number for number, stmt in enumerate(self.statements)}
        self._next = StateSlot.COUNT
        self.arrays = {argument.name: self._take(2) for argument in program.arguments if _has_memory(argument)}
        """Two slots for each array: its address, and how many elements it has."""
        self.variables = {var: self._take() for var in self._variables()}
        self.reported = self._take(3 * len(self.statements))
        self.addresses = {tile: self._take() for tile in self.placed}
        self.poisoned = {loc: self._take() for loc in self.memories}
        """How many bytes of each memory are poison or written, in this block."""
        self.ledgers = {
            number: self._take(4) for number, stmt in enumerate(self.statements) if isinstance(stmt, ir.Instr)
        }
        """Four slots for each instruction, for its ledger."""
        self.count = self._next

    def _take(self, slots: int = 1) -> int:
        self._next += slots
        return self._next - slots

    def _variables(self) -> list[Var]:
        inside = list(ir.definitions(self.program.body))
        measures = [e for argument in self.program.tensors.values() for e in (*argument.shape, *argument.stride)]
        integers = [argument.var for argument in self.program.arguments if isinstance(argument, ir.Integer)]
        known = all(isinstance(measure, int) for measure in measures)
        found = integers if known else _mentioned(self.program)  # extents of arrays are numbers of the launch, too
        self.launch_numbers = [var for var in dict.fromkeys(found) if var not in (*BLOCK, *inside)]
        """Numbers that the launch passes in."""
        return [*BLOCK, *self.launch_numbers, *dict.fromkeys(inside)]

    def reported_slot(self, number: int, reason: int) -> int:
        """The slot that records whether a finding of a statement was reported."""
        return self.reported + 3 * number + reason - 1

    @cached_property
    def _moved(self) -> set[str]:
        """Tiles that are assigned an address."""
        return {stmt.tile for stmt in self.statements if isinstance(stmt, ir.Assign)}

    @cached_property
    def placed(self) -> list[str]:
        """Tiles at addresses that the author gave."""
        return [name for name, decl in self.program.tiles.items() if decl.addresses or name in self._moved]

    @cached_property
    def buffers(self) -> dict[str, object]:
        """What handles of one buffer share (A-38), for tiles at one known address."""
        return {
            name: (decl.spec.loc, decl.addresses, decl.spec.nbytes, decl.spec.dtype)
            for name, decl in self.program.tiles.items()
            if len(decl.addresses) == 1 and isinstance(decl.addresses[0], int) and name not in self._moved
        }

    @cached_property
    def addressed(self) -> dict[Var, int]:
        """Variables for the addresses of tiles, and their slots."""
        return {address_of(name): slot for name, slot in self.addresses.items()}

    @cached_property
    def memories(self) -> list[TileType]:
        """Memories that have tiles at addresses."""
        return list(dict.fromkeys(self.program.tiles[name].spec.loc for name in self.placed))

    @cached_property
    def tiles(self) -> dict[str, int]:
        """Where in the arena each tile without an address begins."""
        ends = accumulate(self._sizes.values(), initial=0)
        return dict(zip(self._sizes, ends, strict=False))

    @cached_property
    def _sizes(self) -> dict[str, int]:
        """Bytes of each of these tiles, aligned."""
        placed = self.placed
        return {name: _aligned(d.spec.nbytes) for name, d in self.program.tiles.items() if name not in placed}

    @cached_property
    def scratch(self) -> int:
        """Where the lanes of an index are stored, after the tiles."""
        return sum(self._sizes.values())

    @cached_property
    def spare(self) -> int:
        """Where a result is stored that may not be written in place."""
        most = max(map(self.most_lanes, self._instructions), default=0)
        return self.scratch + _aligned(8 * (most + PADDING))

    @cached_property
    def _instructions(self) -> list[ir.Instr]:
        return [stmt for stmt in self.statements if isinstance(stmt, ir.Instr)]

    def most_lanes(self, instr: ir.Instr) -> int:
        """Index values that an instruction reads, at most."""
        role = instr.definition.roles.get("index")
        if role is None:
            return 0
        index = named_operands(instr).get(role)
        tiles = [index] if isinstance(index, ir.TileUse) else instr.tiles
        return max((self.program.tiles[use.tile].spec.elements for use in tiles), default=0)

    def _most_spare(self, instr: ir.Instr) -> int:
        """Bytes of a result that may share memory with an input."""
        names = [use.tile for use in instr.tiles]
        is_apart = len(set(names)) == len(names) and sum(name in self.placed for name in names) < 2
        return 0 if is_apart else max(self.program.tiles[name].spec.nbytes for name in names)

    @cached_property
    def memory(self) -> dict[TileType, int]:
        """Where in the arena each memory with tiles at addresses begins."""
        return {loc: self._end + k * ADDRESS_SPACE for k, loc in enumerate(self.memories)}

    @cached_property
    def _end(self) -> int:
        """Where in the arena the memories begin."""
        return self.spare + _aligned(max(map(self._most_spare, self._instructions), default=0))

    @cached_property
    def packed(self) -> dict[int, int]:
        """Where the parts of the arena begin, and where they would if the memories were no longer than their tiles at
        known addresses need."""
        starts = [*self.tiles.values(), self.spare]
        ends = accumulate(map(self.extent, self.memories), initial=self._end)
        return {**dict(zip(starts, starts, strict=True)), **dict(zip(self.memory.values(), ends, strict=False))}

    @property
    def packed_size(self) -> int:
        """Bytes of the arena so."""
        return self._end + sum(map(self.extent, self.memories))

    def extent(self, loc: TileType) -> int:
        """Bytes of a memory that tiles at addresses can reach."""
        decls = [self.program.tiles[name] for name in self.placed if self.program.tiles[name].spec.loc is loc]
        if any(decl.name in self._moved or not all(isinstance(a, int) for a in decl.addresses) for decl in decls):
            return ADDRESS_SPACE
        ends = [cast("int", a) + decl.spec.nbytes for decl in decls for a in decl.addresses]
        return min(ADDRESS_SPACE, _aligned(max(0, *ends)))

    @property
    def spare_size(self) -> int:
        """Bytes for a result that may not be written in place."""
        return self._end - self.spare

    @property
    def arena(self) -> int:
        """Bytes of the arena; of those for memories, the system allocates only what is used."""
        return self._end + len(self.memories) * ADDRESS_SPACE


def _mentioned(value: object) -> Iterator[Var]:
    """All variables of a program."""
    if isinstance(value, Var):
        yield value
    elif isinstance(value, ir.Integer):
        yield value.var
    elif isinstance(value, Op):
        yield from variables(value)
    elif isinstance(value, tuple):
        for each in cast("tuple[object, ...]", value):
            yield from _mentioned(each)
    elif isinstance(value, ir.Program | ir.Argument | ir.View | ir.TileUse | ir.Window | ir.Number | ir.Stmt):
        for each in fields(value):
            yield from _mentioned(getattr(value, each.name))


def _has_memory(argument: ir.Argument | ir.Integer | ir.Float) -> bool:
    return isinstance(argument, ir.Float) or (isinstance(argument, ir.Argument) and not argument.view_of)
