"""The flags of a run: those that are set too early, waited for in vain, or left set."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace

from ptokit.finding import Finding, Fix, Level
from ptokit.machine import hazards
from ptokit.machine.clocks import Clocks
from ptokit.machine.fixes import Fixes
from ptokit.machine.options import MachineOptions
from ptokit.machine.pipes import Stuck
from ptokit.program.cores import core_of, unit_of
from ptokit.program.ir import CrossFlag, Instr, Stmt
from ptokit.target import SCALAR, Profile

Report = Callable[..., None]
"""Adds findings of a statement."""

TWICE: dict[bool, tuple[Level, str]] = {
    True: ("error", "again, and nothing has waited for it in between"),
    False: ("hazard", "while the wait for an earlier set may not be over"),
}
"""A flag that is set early: whether two sets follow each other in the order of issue."""


class FlagChecks:
    """Checks the flags of one launch."""

    def __init__(
        self, pipes: Sequence[str], profile: Profile, options: MachineOptions, fixes: Fixes, report: Report
    ) -> None:
        self.profile, self.options, self.fixes, self.report = profile, options, fixes, report
        self.clocks = Clocks(pipes, self.set_twice, self.stuck)
        self.clocks.on_unpaired, self.clocks.on_overflow = self.unpaired, self.overflow
        self.orders = bool(profile.pipes) and options.enables("order")
        """Whether faults of order are reported."""
        self.explained: set[Hashable] = set()
        """Flags of which another finding says that nothing waits for them."""
        self._unset: dict[Hashable, Stmt] = {}
        """Flags of the running block for which a wait was in vain: the set that is left is the one it missed."""

    def begin(self) -> None:
        """A block begins."""
        self.clocks.begin()
        self._unset.clear()

    def end(self) -> None:
        """A block has ended."""
        for flag, setter in self.clocks.end():
            if isinstance(setter, tuple) and self.orders and flag not in self._unset:
                message = f"the flag {_named(flag)} is still set when a block ends"
                fix = Fix(self.fixes.last_wait(flag), " at the end: the next kernel would find it set")
                self.report([Finding("hazard", "KN-13", message, None, "flag", fix=fix)], *setter, flag=flag)

    def check_destinations(self, src: str, dst: str, event: int, flag: Stmt) -> None:
        """A set while another destination has not yet waited for the same source pipe and event."""
        others = [key for key in self.clocks.pending if isinstance(key, tuple) and key[::2] == (src, event)]
        for other in others if self.orders else ():
            if other[1] != dst:
                message = (
                    f"the flag {_named((src, dst, event))} is set while {_named(other)} is: hardware may not tell "
                    "destinations of one source pipe and event apart"
                )
                fix = f"use another event for {unit_of(dst)}"
                self.report([Finding("note", "KN-13", message, None, "flag", fix=fix)], flag)

    def set_twice(self, flag: Hashable, what: object, before: object, is_doubled: bool) -> None:
        if isinstance(what, tuple) and self.orders:
            level, why = TWICE[is_doubled]
            message = f"the flag {_named(flag)} is set {why}"
            src, dst, _ = _parts(flag)
            other = self.fixes.event(unit_of(src), unit_of(dst), id(what[0]))
            free = "" if other is None else f" (id {other} is free)"
            fix = (
                f"use another event{free}, or make {unit_of(src)} wait for {unit_of(dst)} before it sets this one again"
            )
            self.report([Finding(level, "KN-13", message, None, "flag", fix=fix)], *what, flag=flag)

    def unpaired(self, flag: Hashable, what: object, before: object) -> None:
        if isinstance(what, tuple) and isinstance(before, tuple) and self.orders:
            self.report([hazards.unpaired(what[0], before[0])], *what, flag=flag)

    def overflow(self, flag: Hashable, what: object, certain: bool) -> None:
        if isinstance(what, tuple) and self.orders:
            self.report([hazards.overflow(what[0], certain)], *what, flag=flag)

    def stuck(self, stuck: Stuck) -> None:
        if not isinstance(stuck.what, tuple) or not self.orders:
            return
        stmt, moment = stuck.what
        is_again = self.clocks.was_waited(stuck.flag)
        if not self.options.consequences:
            self.clocks.pretend(stuck.flag)
            if self._unset.setdefault(stuck.flag, stmt) is not stmt:
                return
        flag, wrong = stuck.flag, None
        if isinstance(flag, tuple) and not self.options.consequences:
            wrong = self.fixes.same_id(stmt, flag, self.clocks.left(flag))
        self.explained |= {wrong[0]} if wrong else set()
        if hazards.is_between(stuck):
            found, stmt = hazards.endless_wait(stuck)
            self.report([replace(each, fix=wrong[1]) if wrong else each for each in found], stmt, moment)
            return
        if isinstance(stmt, Instr):
            message, operand, fix = f"{stmt.name} waits for an event that nothing signals", "event", "record it first"
        else:
            message = f"{unit_of(stuck.pipe)} waits forever for the flag {_named(stuck.flag)}"
            added = self.fixes.missing_set(stmt, *_parts(stuck.flag), is_again=is_again)
            operand, fix = "flag", wrong[1] if wrong else Fix(added, ", or set it on every path to the wait")
        self.report([Finding("error", "KN-13", message, None, operand, fix=fix)], stmt, moment)

    def is_explained(self, *pipes: str) -> bool:
        """Whether one of two pipes of different cores has waited in vain for the other core."""
        waits = [stmt for stmt in self._unset.values() if isinstance(stmt, CrossFlag)]
        return not self.options.consequences and any(
            core_of(pipe) == wait.core and (self.profile.cross_wait or wait.pipe) in (unit_of(pipe), SCALAR)
            for pipe in pipes
            for wait in waits
        )


def _parts(flag: object) -> tuple[str, str, object]:
    """The pipes and the event of a flag."""
    src, dst, event = flag if isinstance(flag, tuple) else ("", "", flag)
    return src, dst, event


def _named(flag: object) -> str:
    """A flag as messages name it."""
    if isinstance(flag, tuple) and len(flag) == 2:
        return f"{flag[1]} of {flag[0]}"
    src, dst, event = _parts(flag)
    return f"{unit_of(src)}→{unit_of(dst)} {event}"
