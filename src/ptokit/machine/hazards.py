"""Which number of the list (section B) something has that is out of order, and how it is said.

A row of a table names what came first and what came then; the first row that fits counts.
"""

from __future__ import annotations

from dataclasses import dataclass

from ptokit import spec
from ptokit.finding import Finding, Level

LATER = "read it in a later kernel"
CACHED = frozenset(("S", "V"))
"""Pipes whose accesses to global memory go through a cache; the others move data past it."""


@dataclass(frozen=True)
class Act:
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
    def _place(self) -> str:
        return f" ({self.where})" if self.where else ""


@dataclass(frozen=True)
class _Row:
    """A kind of conflict; what is empty fits everything."""

    kind: str
    memories: frozenset[str] = frozenset()
    first: tuple[str, str] = ("", "")
    """Instruction and pipe of what came first."""
    then: tuple[str, str] = ("", "")
    first_how: str = ""
    then_operand: str = ""
    then_how: str = ""

    def fits(self, first: Act, then: Act) -> bool:
        """Whether this row speaks of two acts."""
        return (
            (not self.memories or then.memory in self.memories)
            and _fits(self.first, (first.instruction, first.pipe))
            and _fits(self.then, (then.instruction, then.pipe))
            and self.first_how in ("", first.how)
            and self.then_how in ("", then.how)
            and self.then_operand in ("", then.operand)
        )


def _fits(pattern: tuple[str, str], found: tuple[str, str]) -> bool:
    return all(want in ("", have) for want, have in zip(pattern, found, strict=True))


UB, CUBE = frozenset(("UB",)), frozenset(("L1", "L0A", "L0B", "L0C"))
UNORDERED = (
    _Row("H-24", UB, ("", "MTE2"), ("mgather", ""), "write", "idx", "read"),
    _Row("H-24", UB, ("", "MTE2"), ("mscatter", ""), "write", "idx", "read"),
    _Row("H-25", UB, ("mgather", ""), ("", "MTE3"), "write", "", "read"),
    _Row("H-26", UB, ("", "MTE3"), ("mgather", ""), "read", "dst", "write"),
    _Row("H-35", CUBE, ("", "MTE2")),
    _Row("H-16", frozenset(("GM",)), ("mscatter", ""), ("", "MTE3")),
    _Row("H-16", frozenset(("GM",)), ("", "MTE3"), ("mscatter", "")),
)
"""Accesses of one block that nothing orders."""
UNNAMED = "KN-13"
"""The clause of accesses without order that are no hazard of the list."""


def unordered(first: Act, then: Act, entry: str, when: str, target: str) -> Finding:
    """Two accesses that nothing orders; `entry` is the pipe by which the second can be made to wait."""
    kinds = (row.kind for row in UNORDERED if row.fits(first, then))
    kind = next((kind for kind in kinds if spec.family_of(target) in spec.hazards()[kind].levels), None)
    rule = spec.behind(kind, target) if kind else UNNAMED
    said = f"{then}, which is not certain to come after: {first}, {when}"
    fix = _flag_fix(first.pipe, entry)
    wanted = f"{first.pipe} before {then.pipe}"
    return Finding("error", rule, said, kind, then.operand, wanted, fix=fix, target=target)


def untold_index(target: str) -> Finding:
    """The load of an index without the flag that the documents ask for, where the kernel waits for the load itself."""
    said = "mgather: idx: nothing makes V wait for its load; this kernel waits by itself, others do not"
    fix = _flag_fix("MTE2", "V")
    return Finding("note", spec.behind("H-24", target), said, "H-24", "idx", fix=fix, target=target)


def _flag_fix(src: str, dst: str) -> str:
    if src == dst:
        return "hand the data over between the cores"
    pair = f'"{src}", "{dst}", event'
    return f"pto.set_flag({pair}) after the first, pto.wait_flag({pair}) before the second"


BLOCKS_FIX = {True: LATER, False: "let blocks write apart, or use one kind of atomic"}


def between_blocks(first: Act, then: Act, block: int, other: int, target: str) -> Finding:
    """Two blocks that touch one place of global memory, at least one of them writing."""
    is_scratch = "scratch" in (first.operand, then.operand)
    reads = "read" in (first.how, then.how)
    scatters = "mscatter" in (first.instruction, then.instruction) and not reads
    kind = "H-32" if is_scratch else "H-16" if scatters else None
    rule = spec.behind(kind, target) if kind else "CO-SEM-02"
    said = f"block {block}: {then}; block {other}: {first}; nothing orders blocks"
    fix = "give every block a scratch of its own, apart from all that others touch" if is_scratch else BLOCKS_FIX[reads]
    wanted = "blocks that touch different elements"
    return Finding("error", rule, said, kind, then.operand, wanted, fix=fix, target=target)


STALE: tuple[tuple[str, Level, str, str], ...] = (
    (
        "H-47",
        "error",
        "which DMA wrote before: the cache may hold what was there",
        f"use tload, or {LATER}",
    ),
    ("H-48", "hazard", "which went through the cache before: DMA may read what was there", LATER),
)


def stale(first: Act, then: Act, when: str, target: str) -> Finding:
    """A read of global memory by another path than the write before it in the same kernel."""
    kind, level, why, fix = STALE[then.pipe not in CACHED]
    fix = LATER if then.operand == "idx" else fix
    said = f"{then}, {why}: {first}, {when}"
    return Finding(level, spec.behind(kind, target), said, kind, then.operand, fix=fix, target=target)


def overwritten(name: str, operand: str, tile: str, other: str, when: str, target: str) -> Finding:
    """A tile that another one was put over while both were in use."""
    said = f"{name} reads {operand} from {tile}, parts of which {other} has written over, {when}"
    rule, wanted, fix = spec.behind("H-38", target), f"{tile} apart from {other}", "move one of the tiles"
    return Finding("error", rule, said, "H-38", operand, wanted, fix=fix, target=target)


def unwritten(act: Act, count: int, total: int, when: str, target: str, *, is_index: bool) -> Finding:
    """A read of bytes that nothing has written."""
    kind = "H-42" if is_index else "H-36"
    said = f"{act}, of which nothing has written {count} of {total} bytes, {when}"
    fix = "load or compute all of it first, or shrink valid="
    rule, wanted, found = spec.behind(kind, target), "bytes that were written", f"{count} that were not"
    return Finding("error", rule, said, kind, act.operand, wanted, found, fix, target=target)
