"""What tiles take of the on-chip memories, and what a launch leaves to them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from ptokit.finding import Finding, Fix, Wording
from ptokit.isa.instruction import Call, Instruction
from ptokit.isa.kernel import Launch, LaunchShape, RouteKernel, kernels_of
from ptokit.isa.operand import TensorSpec, TileSpec
from ptokit.isa.policy import TileType
from ptokit.isa.unknown import certain, is_unknown
from ptokit.program.instr_calls import call_of
from ptokit.program.ir import Instr, Program, TileDecl
from ptokit.target import Budget, Profile

MANY = 1 << 20
"""In place of an unknown extent: enough for any launch."""


ADDRESSES = Wording("give tiles addresses (addr=)", "give tiles addresses: addr = ...", "TASSIGN addresses to tiles")


@dataclass(frozen=True)
class Use:
    """What tiles take of one memory, in bytes."""

    end: int
    """Where the highest tile ends."""
    static: int = 0
    """What tiles without a given address take. They are the compile-time allocations of MG-BUDG-07."""


def is_static(program: Program, tile: TileDecl) -> bool:
    """Whether a tile is placed at compile time: its author gives it no address, before or after `place`."""
    return program.mode != "manual" and tile.fresh


def static_bytes(program: Program, loc: TileType) -> int:
    """Bytes of a memory that compile-time allocations of a placed program take, each byte counted once."""
    total, done = 0, 0
    for start, stop in sorted(_static_spans(program, loc)):
        total += max(0, stop - max(start, done))
        done = max(done, stop)
    return total


def _static_spans(program: Program, loc: TileType) -> Iterator[tuple[int, int]]:
    for tile in program.tiles.values():
        if tile.spec.loc is loc and is_static(program, tile):
            yield from ((at, at + tile.spec.nbytes) for at in tile.addresses if isinstance(at, int))


def _launching(instruction: Instruction, target: str) -> list[RouteKernel]:
    """The kernels of an instruction that start threads."""
    return [kernel for kernel in kernels_of(instruction, target).values() if kernel.launch]


def _launch(call: Call) -> tuple[Launch, tuple[int, int]] | None:
    """The formula of the SIMT launch that a call makes, and the extents that it takes."""
    first = next((param.name for param in call.instruction.operands), "")
    launched = {kernel.launched or first for kernel in _launching(call.instruction, call.target)}
    if not launched or not all(isinstance(call.values.get(name), TileSpec | TensorSpec) for name in launched):
        return None
    if any(call.values[each.name] is None for each in call.instruction.modifiers if each.default):  # it has no route
        return None
    kernel = call.route_kernel
    return (kernel.launch, call.launched) if kernel.launch else None


def simt_launch(call: Call) -> LaunchShape | None:
    """The threads that a call starts, or None if it starts none. An unknown valid extent counts as many."""
    found = _launch(call)
    if found is None:
        return None
    return found[0](*(MANY if is_unknown(extent) or extent <= 0 else extent for extent in found[1]))


def starts_threads(call: Call) -> bool:
    """Whether a call starts threads."""
    found = _launch(call)
    return found is not None and not any(certain(lambda n=extent: n == 0) for extent in found[1])


def has_simt(program: Program, profile: Profile) -> bool:
    """Whether an instruction of the program starts threads: only then does the data cache take a part of UB (H-20)."""
    launching = (instr for instr in program.instructions if _launching(instr.definition, profile.name))
    return any(starts_threads(call_of(program, instr, profile)) for instr in launching)


def memory_findings(
    subject: str, used: Mapping[TileType, Use], profile: Profile, dyn_ub: int | None, *, simt: bool
) -> Iterable[Finding]:
    """Findings if tiles take more of a memory than there is; `simt` is whether the program starts threads."""
    for loc, use in used.items():
        memory = profile.memories[loc]
        if memory.size is None or not use.end:
            continue
        if loc is TileType.Vec:
            yield from _ub_findings(subject, profile, dyn_ub, use, simt)
        elif use.end > memory.size:
            expected = f"within {memory.size} bytes of {memory.name}"
            finding = _finding(profile, "A-38", None, subject, expected, f"{use.end} bytes", "use smaller tiles", loc)
            yield replace(finding, blocks=True)


def _ub_findings(subject: str, profile: Profile, dyn_ub: int | None, use: Use, simt: bool) -> Iterable[Finding]:
    budget, ub = profile.budget(use.static, dyn_ub, simt=simt), profile.ub
    if budget is None or ub is None:
        return
    found = f"{use.end} bytes"
    if use.end > budget.limit:
        fix = "use smaller tiles, fewer of them, or lower addresses"
        rule = ub.size_rule if budget.limit == ub.size else ub.over_rule
        yield _finding(profile, rule, ub.over_kind, subject, f"within {budget.limit} bytes of UB", found, fix)
    elif dyn_ub is None or not ub.has_dynamic:
        return
    elif dyn_ub > budget.max_dynamic:
        part = f": {budget.limit} less {use.static} of tiles without an address" if use.static else ""
        expected = f"launched with dyn_ub of at most {budget.max_dynamic} bytes{part}"
        fix = Fix(f"ask for at most {budget.max_dynamic}", *([", or ", ADDRESSES] if use.static else []))
        yield _finding(profile, "MG-BUDG-07", "H-21", subject, expected, f"dyn_ub={dyn_ub}", fix)
    elif use.end > budget.available and dyn_ub:
        part = f" and {use.static} of tiles without an address" if use.static else ""
        expected = f"within {budget.available} bytes of UB under dyn_ub={dyn_ub}{part}"
        fix = f"launch with dyn_ub={use.end - use.static} or more"
        yield _finding(profile, "MG-BUDG-13", "H-21", subject, expected, found, fix)
    elif use.end > budget.available:
        expected, fix = f"within {budget.available} bytes of UB under dyn_ub=0", _asking(use, budget)
        yield _finding(profile, "MG-BUDG-09", "H-20", subject, expected, found, fix)


def _asking(use: Use, budget: Budget) -> str:
    """What a launch must ask for if tiles take more than is safe without."""
    most = budget.max_dynamic
    if not most:
        return Fix(ADDRESSES, " and ask for dyn_ub, or use smaller tiles")
    needed = min(most, use.end - min(use.static, budget.available))
    return f"launch with dyn_ub={needed} or more" + (f", at most {most}" if use.static else "")


def _finding(
    profile: Profile,
    rule: str,
    kind: str | None,
    subject: str,
    expected: str,
    found: str,
    fix: str,
    loc: TileType = TileType.Vec,
) -> Finding:
    operand = f"{loc.text} tiles"
    message = f"{subject}: {operand} must be {expected}; found {found}"
    return Finding("error", rule, message, kind, operand, expected, found, fix, target=profile.name)


def uses_hidden(instr: Instr) -> bool:
    """Whether the headers of an instruction use memory in UB by themselves, where the target has some for that."""
    return instr.definition.cpp.uses_hidden and instr.workspace is None


def hidden_memory(program: Program, profile: Profile) -> int | None:
    """Where in UB the headers of some instruction of the program use memory by themselves; None if none does."""
    uses = any(map(uses_hidden, program.instructions))
    return profile.headers.hidden if profile.headers and uses else None
