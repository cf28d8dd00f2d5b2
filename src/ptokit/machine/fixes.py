"""What a fix writes into a program: flags with free event ids, at its lines, in the syntax of its source."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import replace
from functools import cached_property
from typing import Any

from ptokit.finding import CodePart, ConflictAccess, Fix, Where
from ptokit.program.cores import core_of, ends_of, unit_of
from ptokit.program.expr import interval
from ptokit.program.handover import free_cross_ids
from ptokit.program.ir import Barrier, Branch, CrossFlag, Flag, Loop, Program, Stmt, walk
from ptokit.program.memory import Outline, Path, meeting_block, statements
from ptokit.program.order import free_ids
from ptokit.program.repair import SyncCode
from ptokit.target import Profile

FlagKey = tuple[Any, ...]
"""Two pipes and an event id; of a flag between the cores, the core that sets it and an id."""
BODIES = {"the loop": Loop, "the branch": Branch}


class Fixes:
    """The fixes of one program."""

    def __init__(self, program: Program, profile: Profile) -> None:
        self.program, self.profile = program, profile
        self._events: dict[Hashable, int | None] = {}
        self._free_across: dict[str, list[int]] = {}

    def last_wait(self, flag: Hashable) -> CodePart | str:
        """The wait for a flag that is left set; of a flag between the cores, in words."""
        if isinstance(flag, tuple) and len(flag) == 3:
            return _flag("wait", *flag)
        return "wait for it on the other core"

    def event(self, src: str, dst: str, user: Hashable = None) -> int | None:
        """An event id that nothing uses, for one user; None if there is none left."""
        key = src, dst, user
        if key not in self._events:
            free = self._free.get((src, dst), [])
            self._events[key] = free.pop(0) if free else None
        return self._events[key]

    @cached_property
    def _free(self) -> dict[tuple[str, str], list[int]]:
        return free_ids(self.program, self.profile)

    # --- where it is written

    @cached_property
    def _statements(self) -> list[tuple[Path, Stmt]]:
        return list(statements(self.program.body))

    @cached_property
    def _by_path(self) -> dict[Path, Stmt]:
        return dict(self._statements)

    @cached_property
    def _outline(self) -> Outline:
        return Outline(self.program)

    def _loop(self, block: Path) -> Loop | None:
        """The outermost loop around a block."""
        around = self._outline.around(block)
        return self._outline.loops[around[0]] if around else None

    def order(self, first: ConflictAccess, then: ConflictAccess) -> str:
        """Make the second access wait for the first."""
        src, dst = first.unit, unit_of(then.gate)
        if src == dst:
            return "pass the data between the cores"
        event = self.event(src, dst, then.statement)
        if event is None:
            return Fix(SyncCode(Barrier("ALL")), f" before {self._between(first, then)[1]}: no event id is free")
        return self._placed(first, then, *(_flag(action, src, dst, event) for action in ("set", "wait")))

    def hand_over(self, first: ConflictAccess, then: ConflictAccess) -> str:
        """Make the second access wait for the first one, on the other core."""
        core, user = core_of(first.pipe), then.statement
        free = self._free_across.setdefault(core, free_cross_ids(self.program, core))
        if (core, user) not in self._events:
            self._events[core, user] = free.pop(0) if free else 0
        event = self._events[core, user]
        return self._placed(first, then, _across("set", first.pipe, event), _across("wait", then.gate, event))

    def _between(self, first: ConflictAccess, then: ConflictAccess) -> tuple[str, str, Loop | None]:
        """After and before which lines two accesses are ordered; and the loop that carries the first to the second."""
        block, one, other = meeting_block(self._statements[first.statement][0], self._statements[then.statement][0])
        after, before = _lines(self._by_path[*block, one], self._by_path[*block, other])
        return after, before, None if one < other else self._loop(block)

    def _placed(self, first: ConflictAccess, then: ConflictAccess, give: CodePart, take: CodePart) -> Fix:
        """Where a set and a wait are written to order two accesses."""
        after, before, loop = self._between(first, then)
        if loop is None:
            return Fix(give, f" after {after}, ", take, f" before {before}")
        inside, around = (
            (take, f" before {before}, ", give, f" after {after}; "),
            f" before the loop ({_line(loop.where)}), ",
        )
        return Fix(*inside, give, around, take, " after the loop")

    def pair(self, src: str, dst: str) -> Fix:
        """A flag between a load and the instruction that uses it."""
        event = self.event(src, dst)
        give, take = (_flag(action, src, dst, "event" if event is None else event) for action in ("set", "wait"))
        return Fix(give, " after the load, ", take, " before the instruction")

    def missing_wait(self, then: ConflictAccess, flag: FlagKey) -> Fix:
        """Wait for a flag that is set, before the access that needs it."""
        where = self._statements[then.statement][1].where
        is_inside = len(flag) == 3
        wait = _flag("wait", *flag[:2], self._event(flag)) if is_inside else _across("wait", then.gate, flag[1])
        return Fix(wait, f" before {_line(where and where.path[-1])}")

    def _event(self, flag: FlagKey) -> object:
        """The event id of a flag, as it is computed in Python where it is set."""
        pair = unit_of(flag[0]), unit_of(flag[1])
        sets = [stmt for _, stmt in self._statements
                if isinstance(stmt, Flag) and stmt.action == "set" and (stmt.src, stmt.dst) == pair]  # fmt: skip
        own = next((stmt for stmt in sets if stmt.event == flag[2]), None)
        if self.program.form or not sets:
            return flag[2]
        if own is None:
            return next((stmt.event for stmt in sets if not isinstance(stmt.event, int)), flag[2])
        others = [stmt for stmt in sets if stmt.where == own.where and stmt.event != own.event]  # unrolled by Python
        return f"<as in {_line(own.where)}>" if others else flag[2]

    def missing_set(self, wait: Stmt, src: str, dst: str, event: object, *, is_again: bool) -> Fix:
        """Set a flag that nothing sets before a wait: once, if later iterations of the loop around the wait set it; at
        the end of an iteration, if an earlier wait (`is_again`) has ended."""
        path = next(path for path, stmt in self._statements if stmt is wait)
        loop, give = self._loop(path[:-1]), _flag("set", src, dst, event)
        if is_again and (around := self._outline.around(path)):
            last = self._outline.loops[around[-1]].body[-1]
            return Fix(give, f" after {_lines(last, last)[0]}")
        pair = "set", unit_of(src), unit_of(dst)
        inside = walk(loop.body) if loop else ()
        if loop and any(isinstance(stmt, Flag) and (stmt.action, stmt.src, stmt.dst) == pair for stmt in inside):
            return Fix(give, f" before the loop ({_line(loop.where)})")
        return Fix(give, f" before {_line(wait.where and wait.where.path[-1])}")

    def same_id(self, wait: Stmt, flag: FlagKey, left: Iterable[tuple[FlagKey, object]]) -> tuple[FlagKey, Fix] | None:
        """For a wait that never ends: a flag that is `left` set because its event id is not that of the wait, or the
        other way round; and one id for both."""
        for other, by in left:
            is_set, is_awaited = self._occurs("set", flag), self._occurs("wait", other)
            line = _line(by[0].where and by[0].where.path[-1]) if isinstance(by, tuple) else "it"
            if is_set and not is_awaited and isinstance(by, tuple):
                return other, Fix(_with_id(by[0], flag[-1]), f" at {line}")
            if not is_set:
                here = _with_id(wait, other[-1])
                return other, Fix(here, f" here, as {line} sets it, or the id of this wait there")
        return None

    def _occurs(self, action: str, flag: FlagKey) -> bool:
        """Whether a statement may set a flag, or wait for it."""
        ends = [unit_of(end) for end in flag[:-1]]
        for _, stmt in self._statements:
            if isinstance(stmt, Flag | CrossFlag) and stmt.action == action:
                low, high = interval(stmt.event, {})
                own = [stmt.src, stmt.dst] if isinstance(stmt, Flag) else [ends_of(stmt)[0]]
                if own == ends and low <= flag[-1] <= high:
                    return True
        return False


def _flag(action: str, src: str, dst: str, event: object) -> SyncCode:
    """A set or a wait."""
    return SyncCode(Flag(action, unit_of(src), unit_of(dst), 0), str(event))


def _across(action: str, pipe: str, event: object) -> SyncCode:
    """A set or a wait of a pipe, for the other core."""
    return SyncCode(CrossFlag(action, core_of(pipe), unit_of(pipe), 0), str(event))


def _with_id(stmt: Stmt, event: object) -> SyncCode:
    """A flag with another event id."""
    assert isinstance(stmt, Flag | CrossFlag)
    return SyncCode(replace(stmt, event=0), str(event))


def _lines(first: Stmt, then: Stmt) -> tuple[str, str]:
    """The lines of two statements: those of the kernel itself, unless one call contains both."""
    places = [stmt.where for stmt in (first, then)]
    outer = [where and where.path[-1] for where in places]
    one, other = places if outer[0] == outer[1] else outer
    return _place(first, one), _place(then, other)


def _place(stmt: Stmt, where: Where | None) -> str:
    """The line of a statement; of one with a body, what it is."""
    kind = next((name for name, kind in BODIES.items() if isinstance(stmt, kind)), None)
    return f"{kind} ({_line(where)})" if kind else _line(where)


def _line(where: Where | None) -> str:
    return f"line {where.line}" if where else "it"
