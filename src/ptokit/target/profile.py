"""A target is data: what is true of a machine, and the formulas the documents give for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ptokit.finding import Level
from ptokit.isa.catalog import INSTRUCTIONS, derived
from ptokit.isa.policy import TileType

KB = 1024
PIPES = ("S", "V", "M", "MTE1", "MTE2", "MTE3", "FIX")
"""The pipes of a core: scalar, vector, cube, and those that move data."""
EVENT_IDS = 8
"""Events of each pair of pipes."""
Pair = tuple[str, str]
"""A producer pipe and the consumer pipe that waits for it."""


@dataclass(frozen=True)
class Memory:
    """One on-chip memory."""

    name: str
    size: int | None
    """Bytes, or None where the host's memory is the only limit."""


@dataclass(frozen=True)
class LaunchShape:
    """A SIMT launch: `dim3{lanes, warps}`."""

    lanes: int
    warps: int
    row_warps: int = 0
    warps_per_row: int = 0

    @property
    def threads(self) -> int:
        """Threads started."""
        return self.lanes * self.warps


def row_launch(rows: int, cols: int) -> LaunchShape | None:
    """Warps own rows; the spare ones share a row's columns (MG-SIMT-03, -04, -05)."""
    row_warps = min(rows, 32)
    warps_per_row = min(32 // row_warps, -(-cols // 32))
    return LaunchShape(32, row_warps * warps_per_row, row_warps, warps_per_row)


def elem_launch(rows: int, cols: int) -> LaunchShape | None:
    """One lane an element; a single element runs on the scalar pipe instead (MG-SIMT-06, MG-SIMT-08)."""
    return None if rows * cols == 1 else LaunchShape(32, min(-(-rows * cols // 32), 32))


def padded_launch(rows: int, cols: int) -> LaunchShape | None:
    """One lane an element of the whole padded tile (MG-SIMT-22)."""
    return LaunchShape(32, min(-(-rows * cols // 32), 32))


def full_launch(rows: int, cols: int) -> LaunchShape | None:
    """Always 1024 threads (MS-SIMT-01)."""
    return LaunchShape(32, 32)


Launch = Callable[[int, int], LaunchShape | None]


@dataclass(frozen=True)
class Handshake:
    """Flags an instruction sets and waits for by itself: before its work and after it (MG-SYNC)."""

    before: tuple[Pair, ...] = ()
    body: tuple[str, ...] = ()
    """The pipes that do the work."""
    after: tuple[Pair, ...] = ()
    each_row: tuple[Pair, ...] = ()
    """Inside the loop of a plain store, once a row."""
    between: tuple[Pair, ...] = ()
    """Between filling a stage and copying it on (MG-L1-14); a core before the pipe means a flag across cores."""
    after_fill: tuple[Pair, ...] = ()
    """Between zeroing the tile and the transfers into it, where the policy asks for zeroes (A-37)."""


@dataclass(frozen=True)
class UnifiedBuffer:
    """How the UB is shared out (MG-BUDG-02, MG-BUDG-06)."""

    size: int
    reserved: int = 0
    min_cache: int = 0
    safe: int | None = None
    """Bytes that are safe without asking for dynamic memory (MG-BUDG-09)."""
    has_dynamic: bool = False
    over_rule: str = "MG-BUDG-02"
    over_kind: str = "H-22"
    """The clause and the hazard of tiles that go past the end."""


@dataclass(frozen=True)
class Budget:
    """What a launch leaves for tiles."""

    limit: int
    """Bytes that tiles may use at the most."""
    max_dynamic: int
    """The largest dynUBufSize that can be asked for (MG-BUDG-07)."""
    data_cache: int
    """What remains for the data cache (A-39)."""
    available: int
    """Bytes that this launch makes available to tiles."""


@dataclass(frozen=True)
class Work:
    """How many operations an instruction issues."""

    dma: int = 0
    scalar: int = 0


WorkOf = Callable[[int, int, int], Work]

Stated = Mapping[str, tuple[float, str]]
"""Numbers of the cost model, each with where it comes from. A name ends in its unit; cycles are those of the clock."""


def numbers(stated: Stated) -> dict[str, float]:
    """The numbers alone."""
    return {name: number for name, (number, _) in stated.items()}


def sources(stated: Stated) -> dict[str, str]:
    """Where they come from."""
    return {name: source for name, (_, source) in stated.items()}


@derived
def routes() -> frozenset[str]:
    """Every kernel that some target has."""
    tables = (table for instruction in INSTRUCTIONS.values() for table in instruction.effects.values())
    return frozenset(route for table in tables for route in table)


def _require_route(route: str) -> None:
    if route not in routes():
        raise ValueError(f"unknown route {route!r}; known: {', '.join(sorted(routes()))}")


@dataclass(frozen=True, eq=False)
class Profile:
    """Everything ptokit knows about a target."""

    name: str
    title: str
    memories: Mapping[TileType, Memory]
    cores: tuple[str, ...] = ()
    pipes: tuple[str, ...] = ()
    event_ids: int = 0
    ub: UnifiedBuffer | None = None
    launches: Mapping[str, Launch] = field(default_factory=dict)
    """By route: the shape of its SIMT launch."""
    handshakes: Mapping[str, Handshake] = field(default_factory=dict)
    """By route: the flags its kernel handles itself."""
    work: Mapping[str, WorkOf] = field(default_factory=dict)
    """By route: operations issued for (rows, cols, batches)."""
    costs: Mapping[str, float] = field(default_factory=dict)
    """Numbers of the cost model, by names that end in their unit. Cycles are those of the clock."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """Where each number comes from. What no document gives is an assumption, chosen to keep the documents' order of
    what is fast and what is slow; none was measured on a board."""
    statements: tuple[str, ...] = ()
    """The clauses that speak of cost and performance here."""
    burst: int = 0
    """What the UB address of a burst must be a multiple of, in bytes; 0 where the documents ask for nothing."""
    left_form: str = "nz"
    """The layout of a Left tile."""
    mixed_cores: Level | None = None
    """How bad it is when one kernel uses tiles of both cores without a hand-over."""

    @property
    def family(self) -> str:
        """The name without a revision: `a5` of `a5@2026.08`."""
        return self.name.partition("@")[0]

    def launch_shape(self, route: str, rows: int, cols: int) -> LaunchShape | None:
        """The SIMT launch of a kernel over `rows` x `cols`, or None where it starts no threads."""
        if rows < 1 or cols < 1:
            raise ValueError(f"a launch needs at least one row and one column, got {rows} x {cols}")
        _require_route(route)
        launch = self.launches.get(route)
        return launch(rows, cols) if launch else None

    def budget(self, static: int = 0, dyn_ub: int | None = None, *, simt: bool = True) -> Budget | None:
        """What tiles may use of the UB, or None where there is no UB (MG-BUDG).

        `static` are the bytes of compile-time allocations, which do not lie in the dynamic region. Without `simt`,
        where nothing starts threads, all of the UB is safe to use without asking.
        """
        if static < 0 or (dyn_ub or 0) < 0:
            raise ValueError(f"sizes in bytes are not negative, got static={static}, dyn_ub={dyn_ub}")
        if self.ub is None:
            return None
        ub = self.ub
        ceiling = ub.size - ub.reserved - ub.min_cache
        asked = (dyn_ub or 0) if ub.has_dynamic else 0
        safe = ub.safe if ub.safe and simt else ceiling
        granted = min(ceiling, static + asked if asked else safe)
        return Budget(
            limit=ceiling,
            max_dynamic=max(0, ceiling - static) if ub.has_dynamic else 0,
            data_cache=max(ub.min_cache, ub.size - ub.reserved - static - asked) if ub.min_cache else 0,
            available=ceiling if dyn_ub is None else granted,
        )

    def operations(self, route: str, rows: int, cols: int, batches: int = 1) -> Work | None:
        """DMA calls and scalar copies that a kernel issues, or None where the documents do not count them."""
        _require_route(route)
        count = self.work.get(route)
        return count(rows, cols, batches) if count else None
