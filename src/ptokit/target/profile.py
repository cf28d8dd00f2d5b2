"""A target is data: its memories, cores and costs, and the formulas of the documents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from ptokit.brief import brief
from ptokit.isa.catalog import INSTRUCTIONS, derived
from ptokit.isa.kernel import NO_KERNEL, Handshake, LaunchShape, RouteKernel, Work, kernels_of
from ptokit.isa.policy import TileType
from ptokit.isa.table import REVISIONS, Revision
from ptokit.isa.tmatmul import LEFT_FORMS
from ptokit.spec import family_of

KB = 1024
SCALAR, VECTOR, LOAD, STORE = "S", "V", "MTE2", "MTE3"
"""The scalar pipe, which issues every instruction, so that a wait on it delays everything issued later, on every pipe;
the vector pipe; the pipes that move data from global memory, and from UB to it."""
PIPES = (SCALAR, VECTOR, "M", "MTE1", LOAD, STORE, "FIX")
"""The pipes of all cores: scalar, vector, cube, and those that move data."""
GM_ACCESS = {SCALAR: "elements", VECTOR: "warps", **dict.fromkeys((LOAD, STORE, "FIX"), "bursts")}
"""How pipes access global memory. Bursts do not go through the cache."""
EVENT_IDS = 8
"""Events of each pair of pipes."""
CROSS_IDS, CROSS_USER_IDS, CROSS_MOST = 16, 11, 15
"""Flags from one core to the other; the first of them that kernels may use, the headers have the rest; how many sets of
one flag can be pending."""


@dataclass(frozen=True)
class Memory:
    """One on-chip memory."""

    name: str
    size: int | None
    """Bytes; None if the host's memory is the only limit."""
    other_name: str = ""


@dataclass(frozen=True)
class Core:
    """One kind of core: its memories, its pipes, and the macro that its compiler defines."""

    name: str
    memories: frozenset[TileType]
    pipes: tuple[str, ...]
    macro: str
    load_hazard: str = ""
    """The hazard of accesses to its memories that nothing orders after a load."""


VECTOR_CORE = Core("AIV", frozenset({TileType.Vec}), (SCALAR, VECTOR, LOAD, STORE), "__DAV_VEC__")
CUBE_CORE = Core(
    "AIC", frozenset(TileType) - VECTOR_CORE.memories, (SCALAR, "M", "MTE1", LOAD, "FIX"), "__DAV_CUBE__", "H-35"
)


@dataclass(frozen=True)
class CrossCalls:
    """The C++ calls of flags between the cores, with `{pipe}` and `{id}`."""

    set: str
    wait: str
    base: str = ""
    """The call that takes the memory of the flags, if they have one."""
    both_vectors: bool = False
    """Whether a flag reaches both vector cores of a block, and both must set one for the cube core."""


@dataclass(frozen=True)
class DeviceCompiler:
    """What a device compiler defines for a target, by which sources and compile databases choose it."""

    aicore: int
    """`__CCE_AICORE__`, which the names of its architectures contain as well (`dav-c220-vec`)."""
    npu_arch: int
    """`__NPU_ARCH__`."""
    macros: tuple[str, ...]
    """What sources ask for besides: the kind of the vector core, `MEMORY_BASE` or `REGISTER_BASE`, first."""


@dataclass(frozen=True)
class Headers:
    """Facts about the C++ headers of a target. Those about one instruction are in its definition."""

    hidden: int | None = None
    """Where the headers' own workspace in UB begins, if they have one."""
    cross: CrossCalls | None = None
    """The flags between the cores; None if all instructions run one after the other."""
    compiler: DeviceCompiler | None = None
    """The device compiler, if C++ kernels of this target are recorded."""


@dataclass(frozen=True)
class UnifiedBuffer:
    """The parts of the UB (MG-BUDG-02, MG-BUDG-06)."""

    size: int
    reserved: int = 0
    min_cache: int = 0
    safe: int | None = None
    """Bytes that are safe without dynamic memory (MG-BUDG-09)."""
    has_dynamic: bool = False
    size_rule: str = "MG-BUDG-02"
    over_rule: str = "MG-BUDG-02"
    over_kind: str = "H-22"
    """The clauses of tiles beyond the end of UB, and beyond the part that threads leave, and the hazard."""


@dataclass(frozen=True)
class Budget:
    """The UB that a launch leaves for tiles."""

    limit: int
    """The most bytes that tiles may use."""
    max_dynamic: int
    """The largest dynUBufSize (MG-BUDG-07)."""
    data_cache: int
    """What remains for the data cache (A-39)."""
    available: int
    """Bytes that this launch makes available to tiles."""


Stated = Mapping[str, tuple[float, str]]
"""Numbers of the cost model with their sources. A name ends in its unit; cycles are those of the clock."""


def numbers(stated: Stated) -> dict[str, float]:
    """The numbers without their sources."""
    return {name: number for name, (number, _) in stated.items()}


def sources(stated: Stated) -> dict[str, str]:
    """The source of each number."""
    return {name: source for name, (_, source) in stated.items()}


@derived
def family_routes() -> frozenset[str]:
    """Every route that some family has."""
    tables = (table for instruction in INSTRUCTIONS.values() for table in instruction.kernels.values())
    return frozenset(route for table in tables for route in table)


def routes() -> frozenset[str]:
    """Every route that some target has."""
    return family_routes().union(*(revision.kernels for revision in REVISIONS.values()))


@dataclass(frozen=True, eq=False)
class Profile:
    """The description of a target."""

    name: str
    title: str
    memories: Mapping[TileType, Memory]
    cores: tuple[Core, ...] = ()
    """The vector core first."""
    event_ids: int = 0
    ub: UnifiedBuffer | None = None
    costs: Mapping[str, float] = field(default_factory=dict[str, float])
    """Numbers of the cost model, by names that end in their unit."""
    sources: Mapping[str, str] = field(default_factory=dict[str, str])
    """The source of each number. A number of no document is an assumption that keeps the documents' order of fast and
    slow; none was measured on a board."""
    statements: tuple[str, ...] = ()
    """The clauses about cost and performance."""
    burst: int = 0
    """The alignment of the on-chip address of a burst, in bytes; 0 if the documents state none."""
    store_line: int = 0
    """Bytes of a cache line that a scalar store writes back as a whole; 0 if stores of blocks do not disturb others."""
    drops_unaligned_loads: bool = False
    """Whether a load to another address is dropped."""
    cross_wait: str = ""
    """The pipe that waits for the other core, whatever pipe a program names; the named one if empty."""
    overlapping: str = ""
    """The pipe whose instructions may overlap, so that dependent ones need a barrier between them; empty if every pipe
    orders its own instructions (A-73)."""
    no_cross: tuple[str, ...] = ()
    """Pipes that neither set flags for the other core nor wait for them."""
    arch: str = ""
    """The architecture in text (`pto.target_arch`), if text has one for it."""
    headers: Headers | None = None
    """The C++ headers, if there are any."""
    like: str = ""
    """Of a family that is in no document: the family whose rows, rules and kernels it has, but for `revision`."""
    revision: Revision = field(default_factory=Revision)
    """How its instructions differ from those of its family, or of the family that it is like."""

    @property
    def family(self) -> str:
        """The name without a revision: `a5` of `a5@2026.08`."""
        return family_of(self.name)

    @property
    def is_family(self) -> bool:
        """Whether it is no revision."""
        return self.name == self.family

    @property
    def origin(self) -> str:
        """The family that it is a revision of, or is like; empty if it stands for itself."""
        return self.like if self.is_family else self.family

    @cached_property
    def pipes(self) -> tuple[str, ...]:
        """The pipes that some core has."""
        return tuple(pipe for pipe in PIPES if any(pipe in core.pipes for core in self.cores))

    @property
    def left_form(self) -> str:
        """The layout of a Left tile."""
        return LEFT_FORMS[self.name][0]

    def core_of(self, memories: Iterable[TileType]) -> Core:
        """The core that has all of these memories; the last core if none has."""
        needed = set(memories)
        return next((core for core in self.cores if needed <= core.memories), self.cores[-1])

    def core_with(self, memory: str) -> Core | None:
        locs = {loc for loc, each in self.memories.items() if each.name == memory}
        return next((core for core in self.cores if locs & core.memories), None)

    def owner(self, pipe: str) -> Core | None:
        """The only core that has a pipe, or None if several have it."""
        owners = [core for core in self.cores if pipe in core.pipes]
        return owners[0] if len(owners) == 1 else None

    def kernel(self, route: str) -> RouteKernel:
        """How this target executes a route; an empty kernel if it does not have it."""
        if route not in routes():
            raise ValueError(f"unknown route {brief(route)}; known: {', '.join(sorted(routes()))}")
        return self.kernels.get(route, NO_KERNEL)

    @property
    def kernels(self) -> dict[str, RouteKernel]:
        """Every kernel of this target by route."""
        tables = (kernels_of(instruction, self.name) for instruction in INSTRUCTIONS.values())
        return {route: kernel for table in tables for route, kernel in table.items()}

    @property
    def handshakes(self) -> dict[str, Handshake]:
        """By route: the flags that its kernel handles itself, if there are any."""
        return {route: kernel.handshake for route, kernel in self.kernels.items() if kernel.handshake.body}

    def launch_shape(self, route: str, rows: int, cols: int) -> LaunchShape | None:
        """The SIMT launch of a kernel over `rows` x `cols`, or None if it starts no threads."""
        if rows < 1 or cols < 1:
            raise ValueError(f"a launch needs at least one row and one column, got {rows} x {cols}")
        launch = self.kernel(route).launch
        return launch(rows, cols) if launch else None

    def budget(self, static: int = 0, dyn_ub: int | None = None, *, simt: bool = True) -> Budget | None:
        """The UB that tiles may use, or None if there is no UB (MG-BUDG).

        `static` are the bytes of compile-time allocations, which are not in the dynamic region. Without `simt`, no
        threads are started: tiles may use all of the UB, unless the launch asks for dynamic memory.
        """
        if static < 0 or (dyn_ub or 0) < 0:
            raise ValueError(f"sizes in bytes are not negative, got static={static}, dyn_ub={dyn_ub}")
        if self.ub is None:
            return None
        ub = self.ub
        ceiling = ub.size - ub.reserved - ub.min_cache
        asked = (dyn_ub or 0) if ub.has_dynamic else 0
        limit = ceiling if simt or asked else ub.size
        safe = ub.safe if ub.safe and simt else limit
        granted = min(limit, static + asked if asked else safe)
        return Budget(
            limit=limit,
            max_dynamic=max(0, ceiling - static) if ub.has_dynamic else 0,
            data_cache=max(ub.min_cache, ub.size - ub.reserved - static - asked) if ub.min_cache else 0,
            available=limit if dyn_ub is None else granted,
        )

    def operations(self, route: str, rows: int, cols: int, batches: int = 1) -> Work | None:
        """DMA calls and scalar copies that a kernel issues, or None if the documents do not count them."""
        count = self.kernel(route).work
        return count(rows, cols, batches) if count else None
