"""The numbers of the cost model, which the profile states and a user may override, and what formulas make of them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from numbers import Real

from ptokit.machine.grains import CHUNK, Grains, chunks
from ptokit.target import Profile

MOST = 1e9
"""The largest cost, and the least that must not be 0 is as far below 1."""
WORD = 8
"""Bytes of a scalar store."""


class Costs:
    """The cost model of a target."""

    def __init__(self, profile: Profile, overrides: Mapping[str, float] | None = None) -> None:
        """Raises `ValueError` for a name that the profile does not have, and for what is no sensible number."""
        overrides = overrides or {}
        unknown = [name for name in overrides if name not in profile.costs]
        if unknown:
            known = ", ".join(map(repr, profile.costs)) or "none"
            raise ValueError(f"{profile.name} has no cost {', '.join(map(repr, unknown))}; known: {known}")
        replaced = {name: _sensible(name, number) for name, number in overrides.items()}
        self.profile = profile
        self.numbers: Mapping[str, float] = {**profile.costs, **replaced}

    def __getitem__(self, name: str) -> float:
        """A number by its name."""
        return self.numbers[name]

    @property
    def issue(self) -> float:
        """Cycles of the scalar pipe to hand something to another pipe."""
        return self.numbers.get("issue cycles", 0.0)

    @property
    def flag(self) -> float:
        """Cycles from a set to the wait that it ends."""
        return self.numbers.get("flag cycles", 0.0)

    @property
    def clock(self) -> float:
        """GHz; 0 where there is no clock."""
        return self.numbers.get("clock GHz", 0.0)

    @property
    def scalar_read(self) -> float:
        """Cycles in which the scalar pipe reads a number from global memory."""
        return self.numbers.get("GM latency cycles", 0.0)

    @property
    def grains(self) -> Grains:
        """Bytes that are moved at the least."""
        segment, line = Grains()
        named = self.numbers.get("GM burst bytes", segment), self.numbers.get("cache line bytes", line)
        return Grains(*(max(1, int(number)) for number in named))

    # --- what formulas are made of

    def moving(self, nbytes: float, path: str) -> float:
        """Cycles to move bytes over a path of so many GB/s."""
        return nbytes * self["clock GHz"] / self[path]

    def transfer(self, nbytes: float, path: str, bursts: int = 1) -> float:
        """Cycles of one DMA transfer, in whole chunks, without what memory takes to answer."""
        moving = self.moving(chunks(nbytes) * CHUNK, path)
        return self["DMA start cycles"] + bursts * self["DMA burst cycles"] + moving

    def queued(self, count: int, one: float, unit: str) -> float:
        """Cycles of several transfers, as many under way at a time as can be (MG-COST-05)."""
        latency = self.latency(unit)
        return latency + count * max(one, latency / self["outstanding transfers"]) if count else 0.0

    def latency(self, unit: str) -> float:
        """What a pipe waits for memory: stores do not."""
        return self["GM latency cycles"] if unit == "MTE2" else 0.0

    def zeroing(self, nbytes: float) -> float:
        """Cycles of the scalar pipe to clear bytes of UB."""
        return -(-nbytes // WORD) * self["scalar UB cycles"]

    def lines(self, nbytes: float) -> int:
        """Cache lines of so many bytes."""
        return int(-(-nbytes // self["cache line bytes"]))


def _sensible(name: str, number: object) -> float:
    """A cost as a plain number; none that would make sums or quotients overflow."""
    least = 0.0 if name.endswith("cycles") else 1 / MOST
    if isinstance(number, Real) and not isinstance(number, bool):
        with suppress(OverflowError):
            if least <= (found := float(number)) <= MOST:
                return found
    raise ValueError(f"the cost {name!r} takes a number from {least:g} up to {MOST:g}, found {number!r}")
