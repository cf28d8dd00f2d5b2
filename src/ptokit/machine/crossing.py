"""What the machine says of two cores: data that nothing hands over, and flags between the cores."""

from __future__ import annotations

from dataclasses import replace

from ptokit.finding import Finding
from ptokit.machine.hazards import AccessSide
from ptokit.machine.pipes import Stuck
from ptokit.program.cores import is_crossing
from ptokit.program.handover import endless_finding, expected_hand_over, hand_over_fix, sync_name
from ptokit.program.ir import CrossFlag, Flag
from ptokit.target import Profile
from ptokit.target.profile import CROSS_MOST


def missing(
    first: AccessSide, then: AccessSide, entry: str, cores: tuple[str, str], free: int, when: str, profile: Profile
) -> Finding:
    """Two accesses on different cores that nothing orders; `entry` is the pipe on which the second can wait, `free` a
    flag that the first core does not use yet."""
    sides = [replace(side, pipe=f"{core}.{side.pipe}") for side, core in zip((first, then), cores, strict=True)]
    message = f"{sides[1]}; nothing orders this {then.how} after {sides[0].noun}, {when}"
    fix = hand_over_fix(sides[0].pipe, f"{cores[1]}.{entry}", free)
    level, expected = profile.mixed_cores or "error", expected_hand_over(cores)
    return Finding(level, "KN-16", message, None, then.operand, expected, fix=fix, target=profile.name)


def stuck(found: Stuck, when: str) -> Finding | None:
    """A wait for the other core that never ends, at the first of those that wait for one another; None for others."""
    waits = [each.what for each in (found, *found.others)]
    crossing = [what for what in waits if isinstance(what, Flag | CrossFlag) and is_crossing(what)]
    if not crossing or (crossing[0] is not found.what and not found.others):
        return None
    crossing.sort(key=lambda what: what.where.line if what.where else 0)
    return endless_finding(crossing[0], crossing[1:], when).at(crossing[0].where)


def unpaired(what: CrossFlag, before: CrossFlag, when: str) -> Finding:
    """A flag whose sets, or whose waits, are on two pipes that nothing orders."""
    verb = "set" if what.action == "set" else "waited for"
    line = f" (line {before.where.line})" if before.where else ""
    message = f"flag {what.event} is {verb} by {sync_name(what)} and by {sync_name(before)}{line} in no order"
    why = "which set ends which wait is open"
    return Finding("error", "KN-13", f"{message}: {why}, {when}", None, "flag", fix="use another id for one of them")


def overflow(what: CrossFlag, certain: bool, when: str) -> Finding:
    """A flag that counts further than it can."""
    may = "is" if certain else "may be"
    message = f"flag {what.event} of {what.core} {may} set more than {CROSS_MOST} times ahead of its waits, {when}"
    fix = "let the other core set a flag when it has waited, and wait for that one"
    return Finding("error" if certain else "hazard", "KN-13", message, None, "flag", fix=fix)
