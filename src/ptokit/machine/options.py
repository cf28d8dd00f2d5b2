"""What a run on the machine is told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

CHECKS = ("order", "memory", "blocks", "repeats", "indices", "traffic", "time")
"""What can be looked at: pipes and flags, written bytes and budgets, blocks against each other, repeated destinations,
index values, transactions, cycles."""
LAUNCHES = ("standard", "function_pointer")


def _is_whole(number: object) -> bool:
    return not isinstance(number, bool) and hasattr(number, "__index__")


@dataclass(frozen=True)
class MachineOptions:
    """All there is to choose. Options of the launch itself (`dyn_ub=`, `launch=`) count where they are given there."""

    checks: tuple[str, ...] = CHECKS
    """Which of `CHECKS` are made."""
    seed: int | None = None
    """Run under another legal schedule, drawn with this seed; None runs in the order of the program."""
    poison: bool = True
    """Whether bytes that nothing has written may not be read."""
    dyn_ub: int | None = None
    """dynUBufSize of the launch in bytes; None asks for none."""
    launch: str = "standard"
    """How the kernel is started: `standard` or `function_pointer`."""
    costs: Mapping[str, float] = field(default_factory=dict)
    """Numbers of the profile's cost table that are to be others."""
    lanes: bool = False
    """Whether to keep what became of every lane of gathers and scatters."""
    timeline: int = 10_000
    """How many works the timeline keeps."""

    def __post_init__(self) -> None:
        if isinstance(self.checks, str) or not isinstance(self.checks, Iterable):
            raise TypeError(f"checks takes names in a tuple, such as ('order', 'memory'), found {self.checks!r}")
        unknown = [check for check in self.checks if check not in CHECKS]
        if unknown:
            raise ValueError(f"checks are {', '.join(CHECKS)}; found {', '.join(map(repr, unknown))}")
        if self.launch not in LAUNCHES:
            raise ValueError(f"launch is one of {', '.join(LAUNCHES)}; found {self.launch!r}")
        for name, least in (("seed", 0), ("timeline", 1), ("dyn_ub", 0)):
            number = getattr(self, name)
            if number is not None and (not _is_whole(number) or number < least):
                raise ValueError(f"{name} takes a whole number from {least} up, found {number!r}")

    def wants(self, check: str) -> bool:
        """Whether something is looked at."""
        return check in self.checks
