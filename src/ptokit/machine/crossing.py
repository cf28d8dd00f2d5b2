"""What the machine says of two cores: data that nothing hands over, and flags between the cores."""

from __future__ import annotations

from ptokit.finding import ConflictAccess, Finding
from ptokit.machine.fixes import Fixes
from ptokit.machine.pipes import Stuck
from ptokit.program.cores import core_of, is_crossing
from ptokit.program.handover import endless_finding, expected_hand_over, sync_name
from ptokit.program.ir import CrossFlag, Flag, Stmt
from ptokit.target import Profile
from ptokit.target.profile import CROSS_MOST


def missing(fixes: Fixes, first: ConflictAccess, then: ConflictAccess, profile: Profile) -> Finding:
    """Two accesses on different cores that nothing orders."""
    cores = core_of(first.pipe), core_of(then.pipe)
    message = f"{then.on_core}; nothing orders this {then.how} after {first.noun_on_core}"
    level, expected = profile.mixed_cores or "error", expected_hand_over(cores)
    fix = fixes.hand_over(first, then)
    return Finding(level, "KN-16", message, None, then.operand, expected, fix=fix, target=profile.name)


def _waits(found: Stuck) -> list[Flag | CrossFlag]:
    """The waits for the other core among those that wait for one another."""
    waits = [each.what[0] for each in (found, *found.others) if isinstance(each.what, tuple)]
    return [stmt for stmt in waits if isinstance(stmt, Flag | CrossFlag) and is_crossing(stmt)]


def is_between(found: Stuck) -> bool:
    """Whether a wait that never ends is one for the other core, or waits for one that is."""
    between = _waits(found)
    is_first = isinstance(found.what, tuple) and bool(between) and between[0] is found.what[0]
    return bool(between) and (is_first or bool(found.others))


def stuck(found: Stuck) -> tuple[list[Finding], Stmt]:
    """A wait for the other core that never ends, at the first of those that wait for one another."""
    between = sorted(_waits(found), key=lambda stmt: stmt.where.line if stmt.where else 0)
    return [endless_finding(between[0], between[1:])], between[0]


def unpaired(what: CrossFlag, before: CrossFlag) -> Finding:
    """A flag whose sets, or whose waits, are on two pipes that nothing orders."""
    verb = "set" if what.action == "set" else "waited for"
    line = f" (line {before.where.line})" if before.where else ""
    message = f"flag {what.event} is {verb} by {sync_name(what)} and by {sync_name(before)}{line} in no order"
    why = "which set ends which wait is open"
    return Finding("error", "KN-13", f"{message}: {why}", None, "flag", fix="use another id for one of them")


def overflow(what: CrossFlag, certain: bool) -> Finding:
    """A flag that counts further than it can."""
    may = "is" if certain else "may be"
    message = f"flag {what.event} of {what.core} {may} set more than {CROSS_MOST} times ahead of its waits"
    fix = "let the other core set a flag when it has waited, and wait for that one"
    return Finding("error" if certain else "hazard", "KN-13", message, None, "flag", fix=fix)
