"""Findings on one instruction from launch and addresses: dispatch, burst alignment, scratch memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ptokit import spec
from ptokit.engine.storage import Storage
from ptokit.finding import Finding
from ptokit.machine.extent import Extent
from ptokit.machine.memories import MemoryLocation
from ptokit.machine.site import Site
from ptokit.program.budget import simt_launch
from ptokit.target import Profile


def dispatch(site: Site) -> Iterator[Finding]:
    """A kernel that starts threads is not launched through a function pointer, which does not set them up (H-23)."""
    call, shape = site.call, simt_launch(site.call)
    if shape is not None:
        started = f"{call.instruction.name} on {call.target} starts {shape.threads} threads"
        message = f"{started}, and the kernel was dispatched through a function pointer: it hangs"
        rule, fix = spec.behind("H-23", call.target), 'launch the standard way (launch="standard")'
        yield Finding("error", rule, message, "H-23", "launch", fix=fix, target=call.target)


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
        rule, expected = spec.behind("H-01", profile.name), f"a multiple of {alignment}"
        yield Finding("error", rule, message, "H-01", operand, expected, hex(bad), fix, target=profile.name)


def scratch(site: Site, storages: Sequence[Storage]) -> Iterator[Finding]:
    """A scratch in global memory shares none with the table or the index (H-32)."""
    by_name = dict(zip(site.prepared.names, storages, strict=False))
    mine = site.call.instruction.roles.get("scratch", "")
    own = by_name.pop(mine, None)
    if own is None:
        return
    for name, other in by_name.items():
        if name not in site.tiles and own.overlaps(other):
            message = f"{site.call.instruction.name}: {mine} shares memory with {name}"
            fix = "give the scratch memory of its own"
            target, expected = site.call.target, f"memory apart from {name}"
            rule = spec.behind("H-32", target)
            yield Finding("error", rule, message, "H-32", mine, expected, fix=fix, target=target)
