"""Which core the pipes of a program belong to."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from itertools import product

from ptokit.isa.policy import TileType
from ptokit.machine.pipes import core_of
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
        self._busy |= {f"{core}.{ISSUE}" for core in self.names}
        self.scalar = f"{'AIC' if homes == {'AIC'} else 'AIV'}.{ISSUE}"
        """The scalar pipe that reads numbers from global memory: the vector core's, where it has any instruction."""
        self._ends: dict[int, list[tuple[str, str]]] = {}

    def ends(self, flag: Flag) -> list[tuple[str, str]]:
        """The pipes of a flag with their cores: what both cores have is meant on every core that works on it."""
        known = self._ends.get(id(flag))
        if known is None:
            pairs = product(self._where(flag.src), self._where(flag.dst))
            known = self._ends[id(flag)] = [(f"{a}.{flag.src}", f"{b}.{flag.dst}") for a, b in pairs]
        return known

    def _where(self, pipe: str) -> tuple[str, ...]:
        if pipe in CORES:
            return (CORES[pipe],)
        return tuple(core for core in self.names if f"{core}.{pipe}" in self._busy) or self.names
