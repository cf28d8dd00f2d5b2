"""The numbers of the cost model, which the profile defines and a user may override, and basic formulas."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from numbers import Real
from typing import Any, NamedTuple

from ptokit.brief import brief, elided, listed
from ptokit.program.cores import kind_of
from ptokit.spec import family_of
from ptokit.target import LOAD, Profile

MOST = 1e9
"""The largest cost; its inverse is the least of costs that must not be 0."""
FORMAT = 1
"""Of files with costs."""
LARGEST_FILE = 1 << 20
"""Bytes of a file with costs."""
WORD = 8
"""Bytes of a scalar store."""
LANES = 32
"""Lanes of a warp."""
CHUNK = 32
"""The smallest transfer of a burst, in bytes (A-67)."""


class Grains(NamedTuple):
    """The smallest transfers of a warp and of the scalar pipe, in bytes; cost overrides may change them."""

    segment: int = 128
    line: int = 64


def chunks(nbytes: Any) -> Any:
    """Chunks of a burst of `nbytes`, elementwise for an array."""
    return -(-nbytes // CHUNK)


class CostTable(dict[str, float]):
    """Costs of a target that replace those of its profile, as `ptokit calibrate` writes them."""

    def __init__(self, costs: Mapping[str, float], target: str) -> None:
        super().__init__(costs)
        self.target = target


def read_costs(file: str | os.PathLike[str]) -> CostTable:
    """The costs in a file; `ValueError` if it is none."""
    shown = elided(os.fspath(file))
    try:
        with open(file, "rb") as stream:
            text = stream.read(LARGEST_FILE + 1)
        data = json.loads(text.decode("utf-8-sig")) if len(text) <= LARGEST_FILE else None
    except OSError as problem:
        raise ValueError(f"cannot read {shown}: {problem.strerror}") from problem
    except (ValueError, RecursionError) as problem:
        raise ValueError(f"{shown} is no JSON: {problem}") from problem
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ValueError(f'{shown} is no cost table: it has no "format": {FORMAT}')
    target, costs = data.get("target"), data.get("costs")
    if not isinstance(target, str) or not isinstance(costs, dict):
        raise ValueError(f'{shown} is no cost table: "target" is a name and "costs" are numbers by name')
    return CostTable({str(name): _checked(name, number) for name, number in costs.items()}, target)


class Costs:
    """The cost model of a target."""

    def __init__(self, profile: Profile, overrides: Mapping[str, float] | None = None) -> None:
        """Raises `ValueError` for a name that the profile does not have, and for a number out of range."""
        overrides = overrides or {}
        if isinstance(overrides, CostTable) and family_of(overrides.target) != profile.family:
            raise ValueError(f"the costs are those of {overrides.target}, not of {profile.name}")
        unknown = [name for name in overrides if name not in profile.costs]
        if unknown:
            known = ", ".join(map(repr, profile.costs)) or "none"
            raise ValueError(f"{profile.name} has no cost {listed(unknown)}; known: {known}")
        replaced = {name: _checked(name, number) for name, number in overrides.items()}
        self.profile = profile
        self.numbers: Mapping[str, float] = {**profile.costs, **replaced}

    def __getitem__(self, name: str) -> float:
        return self.numbers[name]

    @property
    def issue(self) -> float:
        """Cycles of the scalar pipe to issue an item to another pipe."""
        return self.numbers.get("issue cycles", 0.0)

    @property
    def flag(self) -> float:
        """Cycles from a set to the wait that it ends."""
        return self.numbers.get("flag cycles", 0.0)

    @property
    def clock(self) -> float:
        """GHz; 0 if it is not known."""
        return self.numbers.get("clock GHz", 0.0)

    @property
    def scalar_read(self) -> float:
        """Cycles in which the scalar pipe reads a number from global memory."""
        return self.numbers.get("GM latency cycles", 0.0)

    def cores(self, used: Iterable[str]) -> int:
        """How many blocks run at a time, if a block uses these cores."""
        each = Counter(map(kind_of, used))
        counts = [self.numbers[name] // each[core] for core in each if (name := f"{core} cores") in self.numbers]
        return max(1, int(min(counts, default=1)))

    @property
    def grains(self) -> Grains:
        """The smallest transfers, in bytes."""
        segment, line = Grains()
        named = self.numbers.get("GM burst bytes", segment), self.numbers.get("cache line bytes", line)
        return Grains(*(max(1, int(number)) for number in named))

    # --- parts of formulas

    def moving(self, nbytes: float, path: str) -> float:
        """Cycles to move bytes over a path, whose cost is in GB/s."""
        return nbytes * self["clock GHz"] / self[path]

    def transfer(self, nbytes: float, path: str, bursts: int = 1) -> float:
        """Cycles of one DMA transfer, in whole chunks, without memory latency."""
        moving = self.moving(chunks(nbytes) * CHUNK, path)
        return self["DMA start cycles"] + bursts * self["DMA burst cycles"] + moving

    def queued(self, count: int, one: float, unit: str) -> float:
        """Cycles in which a pipe starts several transfers, if as many as possible are outstanding (MG-COST-05). The
        data of the last arrive after the memory latency."""
        return count * max(one, self.latency(unit) / self["outstanding transfers"])

    def combining(self, is_atomic: bool) -> float:
        """Cycles that a transfer takes longer if memory combines its data with the old ones."""
        return self["DMA atomic cycles"] if is_atomic else 0.0

    def latency(self, unit: str) -> float:
        """Memory latency of a pipe; 0 for stores."""
        return self["GM latency cycles"] if unit == LOAD else 0.0

    def zeroing(self, nbytes: float) -> float:
        """Cycles of the scalar pipe to clear bytes of UB."""
        return -(-nbytes // WORD) * self["scalar UB cycles"]

    def lines(self, nbytes: float) -> int:
        """Cache lines that hold a number of bytes."""
        return int(-(-nbytes // self["cache line bytes"]))


def _checked(name: str, number: object) -> float:
    """A cost as a float, in a range in which sums and quotients do not overflow."""
    least = 0.0 if name.endswith("cycles") else 1 / MOST
    if isinstance(number, Real) and not isinstance(number, bool):
        with suppress(OverflowError):
            if least <= (found := float(number)) <= MOST:
                return found
    raise ValueError(f"the cost {brief(name)} takes a number from {least:g} up to {MOST:g}, found {brief(number)}")
