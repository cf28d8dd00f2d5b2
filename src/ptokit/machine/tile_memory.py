"""The on-chip memory of a run: what tiles use of it, which tile owns which bytes."""

from __future__ import annotations

from functools import cached_property

from ptokit.isa.policy import TileType
from ptokit.machine.memories import ChipMemory, Owners
from ptokit.machine.options import MachineOptions
from ptokit.machine.report import MemoryUse
from ptokit.program.budget import has_simt, hidden_memory, static_bytes
from ptokit.program.calls import unknown_writes
from ptokit.program.ir import Program
from ptokit.program.overlaps import interleaved
from ptokit.target import Profile


class TileMemory:
    """The on-chip memory of one launch."""

    def __init__(self, program: Program, profile: Profile, options: MachineOptions, bits: int) -> None:
        """`bits` hold the number of a statement."""
        self.program, self.profile, self.dyn_ub = program, profile, options.dyn_ub or 0
        names = {loc: memory.name for loc, memory in profile.memories.items()}
        self.chip = ChipMemory(names, program, bits, poison=options.poison)
        unknown = unknown_writes(program)
        known = {name for name, tile in program.tiles.items() if tile.spec.loc not in unknown}
        self.checks_defined = known | {""} if options.enables("memory") else set[str]()
        """The tiles of which reads of memory that nothing has written are findings; empty for global memory."""
        self.simt = has_simt(program, profile)
        """Whether an instruction starts threads."""
        self.static = {loc: static_bytes(program, loc) for loc in TileType}
        """Bytes of each memory that tiles without a given address take."""
        self.hidden = hidden_memory(program, profile)
        """Where in UB the headers of instructions use memory by themselves, if they do."""
        self.owners = Owners(program, self.hidden)
        self._used: dict[TileType, dict[tuple[str, int, int], None]] = {}

    @cached_property
    def interleaved(self) -> frozenset[str]:
        """The tiles of which another one may have the part that is not valid."""
        return interleaved(self.program, None)

    def forget(self) -> None:
        """Forget what a block has done."""
        self.chip.forget()
        self.owners.forget()

    def placed(self, tile: str, loc: TileType, address: int, nbytes: int) -> None:
        """A tile has an address."""
        self._used.setdefault(loc, {})[tile, address, address + nbytes] = None

    def use(self) -> dict[str, MemoryUse]:
        """How much tiles used of each memory."""
        found: dict[str, MemoryUse] = {}
        for loc, tiles in self._used.items():
            memory = self.profile.memories[loc]
            budget = self.profile.budget(self.static[loc], self.dyn_ub, simt=self.simt) if loc is TileType.Vec else None
            size = budget.available if budget else memory.size
            found[memory.name] = MemoryUse(memory.name, size, max(end for _, _, end in tiles), tuple(tiles))
        return found
