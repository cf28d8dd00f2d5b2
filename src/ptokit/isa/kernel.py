"""How a target carries out an instruction: one `RouteKernel` for each family and route."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from ptokit.isa.table import lookup, revision_of

Pair = tuple[str, str]
"""A producer pipe and the consumer pipe that waits for it."""


class ByteRows(NamedTuple):
    """Rows of bytes, `pitch` apart, from the first element of an operand on."""

    rows: int
    length: int
    pitch: int = 0


@dataclass(frozen=True)
class Effect:
    """Which pipe reads or writes an operand."""

    operand: str
    access: str
    pipe: str
    extent: Callable[[Any], ByteRows] | None = None
    """What of the operand, where the headers touch more than the elements that the instruction is about, or of a
    workspace less than all of it; of the call."""
    lost: bool = True
    """Whether what is written so is unspecified afterwards; else it is as before."""


@dataclass(frozen=True)
class Handshake:
    """Flags that a kernel sets and waits for itself, before its work and after it (MG-SYNC)."""

    before: tuple[Pair, ...] = ()
    body: tuple[str, ...] = ()
    """The pipes that do the work."""
    after: tuple[Pair, ...] = ()
    each_row: tuple[Pair, ...] = ()
    """Inside the loop of a plain store or of vector code, once per row."""
    between: tuple[Pair, ...] = ()
    """Between filling the scratch and copying it (MG-L1-14); a core before the pipe means a flag across cores."""
    cross_ids: tuple[int, ...] = ()
    """The flags between the cores that it uses."""
    after_fill: tuple[Pair, ...] = ()
    """Between zeroing the tile and the transfers into it, if indices outside store zero (A-37)."""
    is_ordered: bool = True
    """Whether each pipe of the body waits for the previous pipe; else some calls use only a part of them."""

    @property
    def seen_as(self) -> dict[str, str]:
        """A pipe that works only between flags from another one and back to it: from outside, that one works."""
        around = {(dst, src) for src, dst in (*self.before, *self.between)} & {*self.after}
        return dict(around) if len(around) == 1 else {}


ON_V = Handshake(body=("V",))
"""A SIMT launch hides its accesses and counts as a vector-pipe producer (MG-SYNC-13, MG-SYNC-15)."""


@dataclass(frozen=True)
class LaunchShape:
    """A SIMT launch: `dim3{lanes, warps}`."""

    lanes: int
    warps: int
    row_warps: int = 0
    warps_per_row: int = 0

    @property
    def threads(self) -> int:
        return self.lanes * self.warps


def row_launch(rows: int, cols: int) -> LaunchShape | None:
    """Each warp has rows; spare warps share the columns of a row (MG-SIMT-03, -04, -05)."""
    row_warps = min(rows, 32)
    warps_per_row = min(32 // row_warps, -(-cols // 32))
    return LaunchShape(32, row_warps * warps_per_row, row_warps, warps_per_row)


def elem_launch(rows: int, cols: int) -> LaunchShape | None:
    """One lane an element; a single element runs on the scalar pipe instead (MG-SIMT-06, MG-SIMT-08)."""
    return None if rows * cols == 1 else padded_launch(rows, cols)


def padded_launch(rows: int, cols: int) -> LaunchShape | None:
    """One lane an element of the whole padded tile (MG-SIMT-22)."""
    return LaunchShape(32, min(-(-rows * cols // 32), 32))


def slot_launch(rows: int, _cols: int) -> LaunchShape | None:
    """One lane a row of the table."""
    return padded_launch(rows, 1)


def full_launch(_rows: int, _cols: int) -> LaunchShape | None:
    """Always 1024 threads (MS-SIMT-01)."""
    return LaunchShape(32, 32)


Launch = Callable[[int, int], LaunchShape | None]


@dataclass(frozen=True)
class Work:
    """How many operations an instruction issues."""

    dma: int = 0
    scalar: int = 0


Formula = Literal[
    "row loop", "row transfers", "fractal row transfers", "element gather", "element gather to scratch",
    "element scatter", "SIMT", "SIMT to scratch", "scratch to L1", "block", "fill", "scalar loop", "scalar accesses",
    "vector", "cube", "copy", "estimate",
]  # fmt: skip
"""The cost formulas of `machine/formulas.py`."""


@dataclass(frozen=True)
class Cost:
    """How long a pipe works: a formula and its parameters."""

    formula: Formula
    rate: str = ""
    """The number of the target's cost table that the formula uses: a bandwidth, or the cycles of a vector repeat."""
    accesses: int = 0
    """Accesses to UB for each element of a scalar loop."""
    zeroed: Callable[[Any, int], int] | None = None
    """Bytes that the pipe also zeroes, by the call and the number of lanes outside the table."""


SLOW, REDUCING, INDEXED = (Cost("vector", f"vector {kind} repeat cycles") for kind in ("slow", "reduce", "indexed"))
"""Vector instructions that are slower than simple arithmetic."""
DEFAULT_COSTS = {"V": Cost("vector", "vector repeat cycles"), "M": Cost("cube"),
                 **dict.fromkeys(("MTE1", "MTE3", "FIX"), Cost("copy"))}  # fmt: skip
"""By pipe: the cost of work within the chip, if a kernel has none."""


@dataclass(frozen=True)
class RouteKernel:
    """How a target executes an instruction on one route. Parameters of type `Any` are the call."""

    effects: tuple[Effect, ...] = ()
    """Which pipe accesses which operand; none on targets without pipes."""
    besides: Callable[[Any], tuple[Effect, ...]] | None = None
    """Effects that only some calls have."""
    handshake: Handshake = field(default_factory=Handshake)
    launch: Launch | None = None
    """The shape of its SIMT launch by rows and columns."""
    launched: str = ""
    """The operand that the launch covers, a tile with its valid extents; the destination if empty."""
    work: Callable[[int, int, int], Work] | None = None
    """Operations issued for (rows, cols, batches)."""
    cost: Mapping[str, Cost] = field(default_factory=dict[str, Cost])
    """By pipe; a missing pipe has its default. What has none and what accesses global memory needs a cost."""
    lower: Callable[[Any], Any] | None = None
    """What moves, if that depends on the route."""
    reach: Callable[[Any], int] | None = None
    """Columns of a destination row that a transfer writes, if they may be more than the valid ones."""
    rows: Callable[[Any, int, int], Any] | None = None
    """The call that moves as many rows of as many elements of a packed table, if there is one."""
    by_element: bool = False
    """Whether each index moves a single element to or from global memory."""
    uses_workspace: bool = True
    """Whether it touches the workspace, if the instruction has one."""
    index_note: str = ""
    """The hazard to note if the caller does not order the load of the index, although the kernel waits for it."""

    def pipes_of(self, operand: str) -> frozenset[str]:
        """The pipes that touch an operand, as others see them."""
        seen = self.handshake.seen_as
        return frozenset(seen.get(each.pipe, each.pipe) for each in self.effects if each.operand == operand)

    def cost_on(self, pipe: str) -> Cost:
        """The cost of a pipe's part."""
        return self.cost.get(pipe) or DEFAULT_COSTS[pipe]


NO_KERNEL = RouteKernel()
"""The kernel of targets without pipes, and of calls without a route."""


def kernels_of(instruction: Any, target: str) -> Mapping[str, RouteKernel]:
    """The kernels of an instruction on a target by route: those of its family, unless a revision replaces them, and
    those of routes that only the revision has."""
    kernels: Mapping[str, RouteKernel] = lookup(instruction.kernels, target, {})
    replaced = revision_of(target).kernels
    own = {route: kernel for route, kernel in replaced.items() if is_route_of(instruction, route)}
    return {**kernels, **own} if own else kernels


def is_route_of(instruction: Any, route: str) -> bool:
    """Whether a route is one of the instruction: `mscatter.row` of `mscatter`."""
    return route.partition(".")[0] == instruction.name


def kernel_of(instruction: Any, target: str, route: str) -> RouteKernel:
    """The kernel of a route; an empty one if the target has none."""
    return kernels_of(instruction, target).get(route, NO_KERNEL)


def without_cost(instruction: Any, kernel: RouteKernel) -> list[str]:
    """Pipes of a kernel that need a cost and have none."""
    memories = {param.name for param in instruction.operands if "memory" in param.kind}
    pipes = [e.pipe for e in kernel.effects if e.operand in memories or e.pipe not in DEFAULT_COSTS]
    return [pipe for pipe in dict.fromkeys(pipes) if pipe not in kernel.cost]
