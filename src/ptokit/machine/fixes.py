"""What a fix writes into a program: flags with free event ids, at its lines, in the syntax of its source."""

from __future__ import annotations

from collections.abc import Hashable
from functools import cached_property

from ptokit.finding import ConflictAccess, Where
from ptokit.program.cores import unit_of
from ptokit.program.ir import Barrier, Flag, Loop, Program, Stmt, walk
from ptokit.program.memory import Outline, Path, meeting_block, statements
from ptokit.program.order import free_ids
from ptokit.program.repair import spelled
from ptokit.target import Profile


class Fixes:
    """The fixes of one program."""

    def __init__(self, program: Program, profile: Profile) -> None:
        self.program, self.profile = program, profile
        self._events: dict[Hashable, int | None] = {}

    # --- what is written

    def flag(self, action: str, src: str, dst: str, event: object) -> str:
        """A set or a wait."""
        return spelled(Flag(action, unit_of(src), unit_of(dst), 0), self.program.form, event=str(event))

    def last_wait(self, flag: Hashable) -> str:
        """The wait for a flag that is left set; of a flag between the cores, in words."""
        if isinstance(flag, tuple) and len(flag) == 3:
            return self.flag("wait", *flag)
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
        block, one, other = meeting_block(self._statements[first.statement][0], self._statements[then.statement][0])
        ends = self._by_path[*block, one], self._by_path[*block, other]
        after, before = _lines(*ends)
        event = self.event(src, dst, then.statement)
        if event is None:
            return f"{spelled(Barrier('ALL'), self.program.form)} before {before}: no event id is free"
        give, take = (self.flag(action, src, dst, event) for action in ("set", "wait"))
        loop = self._loop(block)
        if one < other or loop is None:
            return f"{give} after {after}, {take} before {before}"
        around = _line(loop.where)
        return f"{take} before {before}, {give} after {after}; {give} before the loop ({around}), {take} after the loop"

    def pair(self, src: str, dst: str) -> str:
        """A flag between a load and the instruction that uses it."""
        event = self.event(src, dst)
        give, take = (self.flag(action, src, dst, "event" if event is None else event) for action in ("set", "wait"))
        return f"{give} after the load, {take} before the instruction"

    def missing_wait(self, then: ConflictAccess, src: str, dst: str, event: object) -> str:
        """Wait for a flag that is set, before the access that needs it."""
        where = self._statements[then.statement][1].where
        return f"{self.flag('wait', src, dst, event)} before {_line(where and where.path[-1])}"

    def missing_set(self, wait: Stmt, src: str, dst: str, event: object, *, is_again: bool) -> str:
        """Set a flag that nothing sets before a wait: once, if later iterations of the loop around the wait set it; at
        the end of an iteration, if an earlier wait (`is_again`) has ended."""
        path = next(path for path, stmt in self._statements if stmt is wait)
        loop, give = self._loop(path[:-1]), self.flag("set", src, dst, event)
        if is_again and (around := self._outline.around(path)):
            last = self._outline.loops[around[-1]].body[-1]
            return f"{give} after {_lines(last, last)[0]}"
        pair = "set", unit_of(src), unit_of(dst)
        inside = walk(loop.body) if loop else ()
        if loop and any(isinstance(stmt, Flag) and (stmt.action, stmt.src, stmt.dst) == pair for stmt in inside):
            return f"{give} before the loop ({_line(loop.where)})"
        return f"{give} before {_line(wait.where and wait.where.path[-1])}"


def _lines(first: Stmt, then: Stmt) -> tuple[str, str]:
    """The lines of two statements: those of the kernel itself, unless one call contains both."""
    places = [stmt.where for stmt in (first, then)]
    outer = [where and where.path[-1] for where in places]
    one, other = places if outer[0] == outer[1] else outer
    names = "the loop ({})" if isinstance(first, Loop) else "{}", "the loop ({})" if isinstance(then, Loop) else "{}"
    return names[0].format(_line(one)), names[1].format(_line(other))


def _line(where: Where | None) -> str:
    return f"line {where.line}" if where else "it"
