"""Which core the pipes of a program belong to."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from itertools import product

from ptokit.isa.policy import TileType
from ptokit.machine.clocks import core_of
from ptokit.program.calls import call_of, effects
from ptokit.program.ir import Flag, Instr, Program, walk
from ptokit.program.steps import ISSUE
from ptokit.target import Profile

CORES = {"V": "AIV", "MTE3": "AIV", "M": "AIC", "MTE1": "AIC", "FIX": "AIC"}
"""The core of each pipe that only one core has."""
PIPES: tuple[str, ...] = ("AIV.S", "AIV.V", "AIV.MTE2", "AIV.MTE3", "AIC.S", "AIC.M", "AIC.MTE1", "AIC.MTE2", "AIC.FIX")


def pipe_of(pipe: str, core: str) -> str:
    """A pipe with its core; `core` is that of the instruction, for pipes that both cores have."""
    return f"{CORES.get(pipe, core)}.{pipe}"


def home_of(locs: Iterable[TileType]) -> str:
    """The core of an instruction, by its tiles."""
    return "AIV" if all(loc is TileType.Vec for loc in locs) else "AIC"


class Cores:
    """The cores that a program uses, by its tiles, its flags and the pipes of its instructions."""

    def __init__(self, program: Program, profile: Profile) -> None:
        statements = list(walk(program.body))
        homes: set[str] = set()
        self._busy: set[str] = set()
        """Pipes with their cores that instructions work on."""
        for instr in (stmt for stmt in statements if isinstance(stmt, Instr)):
            home = home_of(program.tiles[use.tile].spec.loc for use in instr.tiles)
            homes.add(home)
            with suppress(AttributeError):  # what has no route runs on no pipe
                touched = effects(call_of(program, instr, profile))
                self._busy |= {pipe_of(effect.pipe, home) for effect in touched}
        flags = [stmt for stmt in statements if isinstance(stmt, Flag)]
        fixed = {CORES[pipe] for flag in flags for pipe in (flag.src, flag.dst) if pipe in CORES}
        self.names = tuple(sorted({*homes, *fixed, *map(core_of, self._busy)})) or ("AIV",)
        self.pipes = tuple(pipe for pipe in PIPES if core_of(pipe) in self.names)
        self.scalar = f"{'AIC' if homes == {'AIC'} else 'AIV'}.{ISSUE}"
        """The scalar pipe that reads numbers from global memory: the vector core's, where it has any instruction."""
        self._ends: dict[int, list[tuple[str, str]]] = {}

    def ends(self, flag: Flag) -> list[tuple[str, str]]:
        """The pipes of a flag with their cores. What both cores have is meant on every core that works on it; the
        scalar pipe, and two such pipes, on one core each time."""
        known = self._ends.get(id(flag))
        if known is None:
            known = self._ends[id(flag)] = self._find_ends(flag)
        return known

    def _find_ends(self, flag: Flag) -> list[tuple[str, str]]:
        pairs = product(self._where(flag.src, flag.dst), self._where(flag.dst, flag.src))
        is_fixed = flag.src in CORES or flag.dst in CORES
        return [(f"{a}.{flag.src}", f"{b}.{flag.dst}") for a, b in pairs if is_fixed or a == b]

    def _where(self, pipe: str, other: str) -> tuple[str, ...]:
        """The cores whose pipe of this name is meant, by the pipe at the other end of the flag."""
        if pipe in CORES:
            return (CORES[pipe],)
        if pipe == ISSUE and other in CORES:
            return (CORES[other],)
        is_shared = pipe == ISSUE or other not in CORES
        working = self.names if is_shared else [core for core in self.names if f"{core}.{pipe}" in self._busy]
        return tuple(working) or (CORES[other],)
