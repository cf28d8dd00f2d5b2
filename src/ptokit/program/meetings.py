"""How the cores of a program meet, without running it: as far as it follows from the numbers of a launch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass

from ptokit.program.cores import ends_of, is_crossing
from ptokit.program.expr import BLOCK_IDX, BLOCK_NUM, ExpressionError, Var, evaluate
from ptokit.program.ir import Block, Branch, CrossFlag, Flag, Loop, Program, children
from ptokit.program.streams import CoreStream, Node, Streams, Wait, is_wait

MOST_STEPS = 1 << 16
"""Statements that are followed."""


class Unfollowed(Exception):
    """How cores meet depends on numbers that are not known."""


@dataclass
class Meetings:
    """How the cores of a program meet."""

    in_text_order: bool
    """Whether every wait comes after its set in the text, in all blocks; False if that is not known."""
    stuck: list[Wait]
    """A wait that never ends, or several that wait for one another; empty if none is known."""


class _Follower:
    """Follows the streams of a block, and runs nothing."""

    def __init__(self) -> None:
        self.stuck_at: list[Wait] = []
        self._left = MOST_STEPS

    def iterations(self, loop: Loop, stream: CoreStream) -> Iterator[int]:
        for value in range(evaluate(loop.start, stream.values), evaluate(loop.stop, stream.values), loop.step):
            self._count()
            yield value

    def holds(self, branch: Branch, stream: CoreStream) -> bool:
        return bool(evaluate(branch.condition, stream.values))

    def execute(self, node: Node, stream: CoreStream) -> None:
        self._count()

    def _count(self) -> None:
        self._left -= 1
        if not self._left:
            raise Unfollowed

    def state(self, stream: CoreStream) -> object:
        return self

    def execute_later(self, node: Node, stream: CoreStream, state: object) -> None:
        self._count()

    def stuck(self, waits: list[Wait]) -> None:
        self.stuck_at = waits
        raise Unfollowed


def meetings(streams: Streams, grid: int | None, integers: Mapping[Var, int]) -> Meetings:
    """How the cores of a program meet in the blocks of a grid, as far as it follows from the numbers of a launch."""
    if _sets_come_first(streams.program):
        return Meetings(True, [])
    follower = _Follower()
    known = dict(integers) if grid is None else {**integers, BLOCK_NUM: grid}
    try:
        return Meetings(_follow(streams, grid, known, follower), [])
    except (Unfollowed, KeyError, ExpressionError):
        return Meetings(False, follower.stuck_at)


def _follow(streams: Streams, grid: int | None, known: dict[Var, int], follower: _Follower) -> bool:
    """Follow one block if all meet alike, else all blocks; whether they run in the order of the text."""
    try:
        return streams.run(known, follower)
    except KeyError as missing:
        if missing.args[0] != BLOCK_IDX or grid is None:
            raise
    blocks = [streams.run({**known, BLOCK_IDX: block}, follower) for block in range(grid)]
    return all(blocks)


def _sets_come_first(program: Program) -> bool:
    """Whether every wait certainly comes after its set in the text, whatever the numbers are."""
    try:
        _left_set(program.body, Counter())
    except Unfollowed:
        return False
    return True


def _left_set(block: Block, flags: Counter[Hashable]) -> Counter[Hashable]:
    """How often each flag is set at least after a block, if before it is so often. An iteration takes its own sets."""
    for stmt in block:
        if isinstance(stmt, Loop):
            _left_set(stmt.body, Counter())
        elif isinstance(stmt, Branch):
            arms = [_left_set(arm, flags.copy()) for arm in children(stmt)]
            flags = arms[0] & arms[1]
        elif isinstance(stmt, Flag | CrossFlag) and is_crossing(stmt):
            key = (stmt.src, stmt.dst, stmt.event) if isinstance(stmt, Flag) else (ends_of(stmt)[0], stmt.event)
            flags[key] += -1 if is_wait(stmt) else 1
            if flags[key] < 0:
                raise Unfollowed
    return flags
