"""The hazards that a run shows (section B), and their messages: order, memory, launch and addresses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ptokit import spec
from ptokit.engine.storage import Storage
from ptokit.finding import Finding, Level
from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.isa.instruction import OrderHazard
from ptokit.machine.extent import Extent
from ptokit.machine.memories import MemoryLocation
from ptokit.machine.site import Site
from ptokit.program.budget import simt_launch
from ptokit.target import GM_ACCESS, LOAD, VECTOR, Profile

LATER = "read it in a later kernel"


@dataclass(frozen=True)
class AccessSide:
    """One side of a conflict: an instruction's pipe on one of its operands."""

    instruction: str
    operand: str
    pipe: str
    """Without its core: `MTE2`."""
    how: str
    memory: str
    where: str

    def __str__(self) -> str:
        verb = {"read": "reads", "write": "writes"}.get(self.how, f"{self.how}s to")
        return f"{self.instruction} {verb} {self.operand}" + f" on {self.pipe}" * bool(self.pipe) + self._place

    @property
    def noun(self) -> str:
        """The access as a noun: `mgather's write of dst on V (line 14)`."""
        of = "of" if self.how in ("read", "write") else "to"
        return f"{self.instruction}'s {self.how} {of} {self.operand} on {self.pipe}{self._place}"

    @property
    def _place(self) -> str:
        return f" ({self.where})" if self.where else ""

    @property
    def conflicts(self) -> tuple[OrderHazard, ...]:
        """The hazards of the instruction if nothing orders its accesses."""
        known = INSTRUCTIONS.get(self.instruction)
        return known.conflicts if known else ()

    @property
    def role(self) -> str:
        """The role of the operand: `index`, `scratch`, or empty for others."""
        known = INSTRUCTIONS.get(self.instruction)
        return next((role for role, name in known.roles.items() if name == self.operand), "") if known else ""


UNLISTED = "KN-13"
"""The clause of unordered accesses without a hazard of their own."""


def _finding(
    level: Level, kind: str, target: str, message: str, operand: str, fix: str, expected: str = "", found: str = ""
) -> Finding:
    """A finding of a hazard, with the clause behind it."""
    return Finding(level, spec.behind(kind, target), message, kind, operand, expected, found, fix, target=target)


def unordered(first: AccessSide, then: AccessSide, entry: str, when: str, profile: Profile) -> Finding:
    """Two accesses that nothing orders; `entry` is the pipe on which the second can be made to wait."""
    kinds, target = _kinds(first, then, profile), profile.name
    kind = next((kind for kind in kinds if profile.family in spec.hazards()[kind].levels), None)
    rule = spec.behind(kind, target) if kind else UNLISTED
    message = f"{then}; nothing orders this {then.how} after {first.noun}, {when}"
    fix = _flag_fix(first.pipe, entry)
    expected = f"{first.pipe} before {then.pipe}"
    return Finding("error", rule, message, kind, then.operand, expected, fix=fix, target=target)


def _kinds(first: AccessSide, then: AccessSide, profile: Profile) -> Iterator[str]:
    """The hazards of two accesses that nothing orders: those of the instructions, then that of the core."""
    for act, other, order in ((then, first, "second"), (first, then, "first")):
        yield from (conflict.kind for conflict in act.conflicts if _fits(conflict, act, other, order))
    core = profile.core_with(then.memory) if first.pipe == LOAD else None
    if core is not None and core.load_hazard:
        yield core.load_hazard


def _fits(conflict: OrderHazard, act: AccessSide, other: AccessSide, order: str) -> bool:
    """Whether a conflict of `act`'s instruction describes the two accesses."""
    return (
        conflict.memory == act.memory
        and conflict.order in ("", order)
        and conflict.operand in ("", act.operand)
        and conflict.access in ("", act.how)
        and conflict.other in ("", other.how)
        and conflict.pipe == other.pipe
    )


def unflagged_index(name: str, operand: str, kind: str, target: str) -> Finding:
    """The load of an index without the flag that the documents require, although the kernel waits for the load."""
    message = f"{name}: {operand}: nothing makes {VECTOR} wait for its load; this kernel waits by itself, others do not"
    fix = _flag_fix(LOAD, VECTOR)
    return _finding("note", kind, target, message, operand, fix)


def _flag_fix(src: str, dst: str) -> str:
    if src == dst:
        return "pass the data between the cores"
    pair = f'"{src}", "{dst}", event'
    return f"pto.set_flag({pair}) after the first, pto.wait_flag({pair}) before the second"


BLOCKS_FIX = {True: LATER, False: "let blocks write apart, or use one kind of atomic"}


def between_blocks(first: AccessSide, then: AccessSide, block: int, other: int, target: str) -> Finding:
    """Two blocks that access the same bytes of global memory, at least one of them to write."""
    is_scratch = "scratch" in (first.role, then.role)
    reads = "read" in (first.how, then.how)
    stores = () if reads else (c.kind for act in (first, then) for c in act.conflicts if c.memory == then.memory)
    kind = "H-32" if is_scratch else next(iter(stores), None)
    rule = spec.behind(kind, target) if kind else "CO-SEM-02"
    message = f"block {block}: {then}; block {other}: {first}; nothing orders blocks"
    fix = "give every block its own scratch, apart from what other blocks touch" if is_scratch else BLOCKS_FIX[reads]
    expected = "blocks that touch different elements"
    return Finding("error", rule, message, kind, then.operand, expected, fix=fix, target=target)


STALE: tuple[tuple[str, Level, str, str], ...] = (
    ("H-47", "error", "which DMA wrote before: the cache may hold the old data", f"use pto.tload, or {LATER}"),
    ("H-48", "hazard", "which was written through the cache: DMA may read the old data", LATER),
)


def stale(first: AccessSide, then: AccessSide, when: str, target: str, cache: str = "") -> Finding:
    """A read of global memory by another path than the write before it in the same kernel. `cache` is the core through
    whose cache it was written, if the other core's cache reads it."""
    kind, level, why, fix = STALE[GM_ACCESS[then.pipe] == "bursts"]
    if cache:
        why, fix = f"which was written through the cache of {cache}: that of this core may hold the old data", LATER
    fix = LATER if then.role == "index" else fix
    message = f"{then}, {why}: {first}, {when}"
    return _finding(level, kind, target, message, then.operand, fix)


def overwritten(name: str, operand: str, tile: str, other: str, when: str, target: str) -> Finding:
    """A read of a tile after a write through another tile at the same addresses."""
    message = f"{name} reads {operand} from {tile}, parts of which {other} has overwritten, {when}"
    return _finding("error", "H-38", target, message, operand, "move one of the tiles", f"{tile} apart from {other}")


def unwritten(act: AccessSide, count: int, total: int, when: str, target: str, *, is_index: bool) -> Finding:
    """A read of bytes that nothing has written."""
    kind = "H-42" if is_index else "H-36"
    message = f"{act}, of which nothing has written {count} of {total} bytes, {when}"
    fix = "load or compute all of it first, or shrink valid="
    expected, found = "bytes that were written", f"{count} that were not"
    return replace(_finding("error", kind, target, message, act.operand, fix, expected, found), unwritten=True)


# --- launch and addresses


def dispatch(site: Site) -> Iterator[Finding]:
    """A kernel that starts threads is not launched through a function pointer, which does not set them up (H-23)."""
    call, shape = site.call, simt_launch(site.call)
    if shape is not None:
        started = f"{call.instruction.name} on {call.target} starts {shape.threads} threads"
        message = f"{started}, and the kernel was dispatched through a function pointer: it hangs"
        yield _finding("error", "H-23", call.target, message, "launch", 'launch the standard way (launch="standard")')


def burst(name: str, operand: str, place: MemoryLocation, extent: Extent, profile: Profile) -> Iterator[Finding]:
    """Every burst into UB begins at a multiple of the alignment (H-01)."""
    alignment = profile.burst
    if extent.listed is not None or not alignment or not extent.count:
        return
    start, pitch = place.start * place.shadow.unit, extent.pitch * place.shadow.unit
    if start % alignment or (extent.rows > 1 and pitch % alignment):
        bad = start if start % alignment else start + pitch
        message = f"{name}: a burst to {operand} begins at {bad:#x}, which is no multiple of {alignment}: it is dropped"
        fix = f"put rows of {operand} at multiples of {alignment} bytes"
        yield _finding("error", "H-01", profile.name, message, operand, fix, f"a multiple of {alignment}", hex(bad))


def scratch(site: Site, storages: Sequence[Storage]) -> Iterator[Finding]:
    """A scratch in global memory shares none with the table or the index (H-32)."""
    mine = site.call.instruction.roles.get("scratch", "")
    if mine not in site.prepared.names:
        return
    by_name = dict(zip(site.prepared.names, storages, strict=False))
    own = by_name.pop(mine)
    for name, other in by_name.items():
        if name not in site.tiles and own.overlaps(other):
            message = f"{site.call.instruction.name}: {mine} shares memory with {name}"
            fix, expected = "give the scratch memory of its own", f"memory apart from {name}"
            yield _finding("error", "H-32", site.call.target, message, mine, fix, expected)
