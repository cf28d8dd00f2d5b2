"""Which core the pipes of a program belong to."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from itertools import product

from ptokit.isa.policy import TileType
from ptokit.machine.pipes import core_of
from ptokit.program.calls import call_of, effects
from ptokit.program.ir import Flag, Instr, Program, walk
from ptokit.target import SCALAR, Core, Profile

ONE_CORE = (Core("host", frozenset(TileType), (SCALAR,), ""),)
"""The core of a target without cores."""


def pipes_of(profile: Profile) -> tuple[str, ...]:
    """All pipes of a target, with their cores: `AIV.S`."""
    return tuple(f"{core.name}.{pipe}" for core in profile.cores or ONE_CORE for pipe in core.pipes)


def pipe_of(pipe: str, core: Core, profile: Profile) -> str:
    """A pipe with its core; `core` is that of the instruction, for pipes that several cores have."""
    return f"{(profile.owner(pipe) or core).name}.{pipe}"


def home_of(locs: Iterable[TileType], profile: Profile) -> Core:
    """The core of an instruction, by its tiles."""
    return profile.core_of(locs) if profile.cores else ONE_CORE[0]


class Cores:
    """The cores that a program uses, by its tiles, its flags and the pipes of its instructions."""

    def __init__(self, program: Program, profile: Profile) -> None:
        statements = list(walk(program.body))
        self.profile = profile
        homes: set[Core] = set()
        self._busy: set[str] = set()
        """Pipes with their cores that instructions work on."""
        for instr in (stmt for stmt in statements if isinstance(stmt, Instr)):
            home = home_of((program.tiles[use.tile].spec.loc for use in instr.tiles), profile)
            homes.add(home)
            with suppress(AttributeError):  # a call without a route runs on no pipe
                touched = effects(call_of(program, instr, profile))
                self._busy |= {pipe_of(effect.pipe, home, profile) for effect in touched}
        flags = [stmt for stmt in statements if isinstance(stmt, Flag)]
        fixed = {core.name for flag in flags for pipe in (flag.src, flag.dst) if (core := profile.owner(pipe))}
        cores = profile.cores or ONE_CORE
        names = {*(core.name for core in homes), *fixed, *map(core_of, self._busy)}
        self.names = tuple(sorted(names)) or (cores[0].name,)
        self.pipes = tuple(pipe for pipe in pipes_of(profile) if core_of(pipe) in self.names)
        self._busy |= {f"{core}.{SCALAR}" for core in self.names}
        self.scalar = f"{next((core for core in cores if core in homes), cores[0]).name}.{SCALAR}"
        """The scalar pipe that reads numbers from global memory: of the first core that has an instruction."""
        self._pairs: dict[int, list[tuple[str, str]]] = {}

    def pairs(self, flag: Flag) -> list[tuple[str, str]]:
        """The pipes of a flag with their cores. A pipe that several cores have counts on every core that uses it."""
        known = self._pairs.get(id(flag))
        if known is None:
            cores = product(self._cores(flag.src), self._cores(flag.dst))
            known = self._pairs[id(flag)] = [(f"{a}.{flag.src}", f"{b}.{flag.dst}") for a, b in cores]
        return known

    def _cores(self, pipe: str) -> tuple[str, ...]:
        if (core := self.profile.owner(pipe)) is not None:
            return (core.name,)
        return tuple(core for core in self.names if f"{core}.{pipe}" in self._busy) or self.names
