"""Recorded calls that order pipes and cores: flags, barriers, flags between the cores; tokens and unit flags as flags.

A pipe that takes the token of a buffer (`get_buf`) waits until the pipe that had it last gives it back (`rls_buf`), so
that uses of a buffer are in the order of the program. That is a flag from each pipe to the next one, with an event id
that the kernel does not use between these pipes. A token that its holder does not give back is a wait without a set.

A product and a store with a phase (`AccPhase`, `STPhase`) hand an accumulator over by its unit flag: the store waits
for the last product of a sum (`Final`), the next product for the last store. Those are flags of the same kind.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from ptokit.cxx.operands import Indices, Unexpressible, element_type
from ptokit.cxx.recording import CoreName, RecordedCall, RecordedOperand, RecordedScalar, RecordedText, RecordedTile
from ptokit.isa.policy import TileType
from ptokit.target.profile import CROSS_IDS, CUBE_CORE, EVENT_IDS, PIPES, VECTOR_CORE

CORES: dict[CoreName, str] = {"vector": VECTOR_CORE.name, "cube": CUBE_CORE.name}
"""The names of the cores in programs."""
EVENT = "EVENT_ID"
CROSS_SET, CROSS_WAIT = "ffts_cross_core_sync", "wait_flag_dev"
"""The calls that set a flag between cores of A2/A3, and wait for one."""


@dataclass(frozen=True)
class FlagShape:
    """A set or a wait of a flag; its number is the event id."""

    action: str
    src: str
    dst: str
    core: str
    site: int


@dataclass(frozen=True)
class _PipeShape:
    """What a pipe of a core does."""

    action: str
    core: str
    pipe: str
    site: int


class CrossShape(_PipeShape):
    """A set or a wait of a flag between the cores; its number is the id."""


class BarrierShape(_PipeShape):
    """A barrier."""


class TokenShape(_PipeShape):
    """A pipe takes the token of a buffer (`wait`), or gives it back (`set`); its number is that of the buffer."""


SyncShape = FlagShape | CrossShape | BarrierShape | TokenShape
Made = tuple[SyncShape, Indices]


def _pipe(operand: RecordedOperand, *others: str) -> str:
    if isinstance(operand, RecordedText):
        if (pipe := operand.text.removeprefix("PIPE_")) in (*PIPES, *others):
            return pipe
        raise Unexpressible(f"{operand.text} is not modelled; the pipes are {', '.join(PIPES)}")
    raise Unexpressible(f"a pipe that is computed ({operand}) is not modelled")


def _number(operand: RecordedOperand) -> int:
    if isinstance(operand, RecordedScalar):
        return int(operand.value)
    if isinstance(operand, RecordedText) and operand.text.removeprefix(EVENT).isdigit():
        return int(operand.text.removeprefix(EVENT))
    raise Unexpressible(f"{operand} is no event id")


def _flag(action: str, call: RecordedCall, core: str) -> Made:
    src, dst, event = call.operands[:3]
    return FlagShape(action, _pipe(src), _pipe(dst), core, call.site), (_number(event),)


def _of_pipe(kind: type[CrossShape | TokenShape], action: str, call: RecordedCall, core: str) -> Made:
    pipe, number = call.operands[:2]
    return kind(action, core, _pipe(pipe), call.site), (_number(number),)


def _barrier(call: RecordedCall, core: str) -> Made:
    return BarrierShape("wait", core, _pipe(call.operands[0], "ALL"), call.site), ()


def _cross_set(call: RecordedCall, core: str) -> Made:
    pipe, message = call.operands[:2]
    mode, number = _message(message)
    if mode != HAND_OVER:
        raise Unexpressible(f"flag {number} is set for all cores of a launch and for one")
    return CrossShape("set", core, _pipe(pipe), call.site), (number,)


ALL_BLOCKS, SUBBLOCKS, HAND_OVER = 0, 1, 2
"""Who waits for a flag: the same core of all blocks, the vector cores of a block, the other core of the block."""


def _message(operand: RecordedOperand) -> tuple[int, int]:
    """The mode, in bits 4 and 5, and the id, from bit 8 on, of `ffts_cross_core_sync(pipe, message)`."""
    number = _number(operand)
    return (number >> 4) & 0x3, (number >> 8) & 0xF


def group_flags(calls: Iterable[RecordedCall]) -> dict[int, int]:
    """The modes of flags, by id, that no core sets for the other core of its block."""
    found = [_message(call.operands[1]) for call in calls if call.name == CROSS_SET]
    handed = {number for mode, number in found if mode == HAND_OVER}
    return {number: mode for mode, number in found if number not in handed}


def without_groups(call: RecordedCall, groups: Mapping[int, int], vector_cores: int = 1) -> RecordedCall | None:
    """A call as the core of one block sees it: a wait for all blocks is a barrier of all blocks; None for the other
    ends of such flags."""
    if vector_cores > 1 and call.name == CROSS_SET and groups.get(_message(call.operands[1])[1]) == SUBBLOCKS:
        raise Unexpressible("a flag from one vector core to the other one of its block is not modelled")
    if call.name == CROSS_SET:
        return None if _message(call.operands[1])[1] in groups else call
    if call.name != CROSS_WAIT or (mode := groups.get(_number(call.operands[-1]))) is None:
        return call
    return RecordedCall("syncall", (), site=call.site) if mode == ALL_BLOCKS else None


INTRA_SET, INTRA_WAIT = "set_intra_block", "wait_intra_block"
SYNCS: dict[str, Callable[[RecordedCall, str], Made]] = {
    "set_flag": partial(_flag, "set"),
    "wait_flag": partial(_flag, "wait"),
    "pipe_barrier": _barrier,
    CROSS_SET: _cross_set,
    CROSS_WAIT: lambda call, core: (CrossShape("wait", core, "S", call.site), (_number(call.operands[0]),)),
    INTRA_SET: partial(_of_pipe, CrossShape, "set"),
    INTRA_WAIT: partial(_of_pipe, CrossShape, "wait"),
    "get_buf": partial(_of_pipe, TokenShape, "wait"),
    "rls_buf": partial(_of_pipe, TokenShape, "set"),
}
"""By name: calls that order pipes."""
IDLE = frozenset(("tassign", "set_ffts_base_addr", "set_mask_norm", "set_vector_mask", "setfmatrix",
                  "set_img2col_rpt", "set_img2col_padding"))  # fmt: skip
"""Calls that do nothing that a program states: later calls show the address of a tile. Those that set registers from
the extents of a tile read none of its data."""
OWN = frozenset((*IDLE, "set_flag", "wait_flag", "pipe_barrier", "get_buf", "rls_buf"))
"""Calls that concern no other core, and no data."""


def is_own(call: RecordedCall) -> bool:
    """Whether a call only orders the pipes of its core, or does nothing that a program states."""
    return call.name in OWN


def is_idle(call: RecordedCall, core: CoreName, vector_cores: int = 1) -> bool:
    """Whether a call does nothing that a program states. Sets of the cube core for the second vector core are left out
    of a program without it."""
    if call.name == INTRA_SET and core == "cube" and vector_cores < 2:
        return _number(call.operands[1]) >= CROSS_IDS
    return call.name in IDLE


def awaits_second(call: RecordedCall, *, of_both: bool) -> bool:
    """Whether a call of the cube core waits for the second vector core: if flags are of both, each such call does."""
    if call.name == CROSS_WAIT:
        return of_both
    return call.name == "wait_intra_block" and _number(call.operands[1]) >= CROSS_IDS


def sync_shape(call: RecordedCall, core: CoreName) -> Made | None:
    """A recorded call that orders pipes; None for another one."""
    make = SYNCS.get(call.name)
    return make(call, CORES[core]) if make else None


Link = tuple[str, str]
"""The pipe that returns a token, and the pipe that takes it next."""
PHASES = frozenset(("partial", "final"))
LAST_PHASE = "final"


@dataclass(frozen=True)
class UnitUse:
    """A product or a store with a phase: its pipe, the bytes of the accumulator, and whether it is the last one."""

    pipe: str
    start: int
    stop: int
    is_last: bool
    site: int

    def meets(self, other: UnitUse) -> bool:
        return self.start < other.stop and other.start < self.stop


def unit_use(call: RecordedCall) -> UnitUse | None:
    """How a call uses the unit flag of an accumulator; None if it does not."""
    phase = dict(call.modifiers).get("phase")
    if phase not in PHASES:
        return None
    for place, tile in enumerate(call.operands):
        if isinstance(tile, RecordedTile) and TileType.parse(tile.memory) is TileType.Acc and tile.address is not None:
            stop = tile.address + tile.rows * tile.cols * element_type(tile.dtype).size
            return UnitUse("FIX" if place else "M", tile.address, stop, phase == LAST_PHASE, call.site)
    return None


class TokenFlags:
    """The flags of the tokens and the unit flags of a launch."""

    def __init__(self, used: Iterable[tuple[Link, int]]) -> None:
        """`used` are the events of the kernel's own flags."""
        self._used: defaultdict[Link, set[int]] = defaultdict(set)
        for link, event in used:
            self._used[link].add(event)
        self._events: dict[tuple[Link, Hashable], int] = {}

    def event(self, link: Link, token: Hashable) -> int:
        """The event of a token between two pipes. Raises Unexpressible if there is none left."""
        if (link, token) not in self._events:
            taken = {event for other, events in self._used.items() if other[0] == link[0] for event in events}
            free = [event for event in range(EVENT_IDS) if event not in self._used[link]]
            free.sort(key=taken.__contains__)  # as auto mode chooses events
            if not free:
                raise Unexpressible(
                    f"more than {EVENT_IDS} buffer tokens, unit flags and flags from {link[0]} to {link[1]}"
                )
            self._events[link, token] = free[0]
            self._used[link].add(free[0])
        return self._events[link, token]

    def flags(
        self, calls: Sequence[tuple[int, Indices]], shapes: Sequence[object], number: Callable[[SyncShape], int]
    ) -> list[tuple[int, Indices]]:
        """The calls of a core with flags in place of tokens: set where a token is given back, if another pipe takes it
        next, which waits there."""
        found: list[list[tuple[int, Indices]]] = [[call] for call in calls]
        last: dict[int, tuple[int, TokenShape]] = {}
        holders: dict[int, TokenShape] = {}
        for at, (shape, numbers) in enumerate(calls):
            token = shapes[shape]
            if not isinstance(token, TokenShape):
                continue
            found[at] = []
            holder = holders.pop(numbers[0], token)
            if token.action == "set":
                last[numbers[0]] = at, token
                continue
            holders[numbers[0]] = token
            if holder.pipe != token.pipe:  # never given back: a wait without its set
                flag = FlagShape("wait", holder.pipe, token.pipe, token.core, token.site)
                found[at].append((number(flag), (self.event((holder.pipe, token.pipe), ("kept", numbers[0])),)))
            before, giver = last.pop(numbers[0], (at, token))
            if giver.pipe != token.pipe:
                event = self.event((giver.pipe, token.pipe), numbers[0])
                for place, end in ((before, giver), (at, token)):
                    flag = FlagShape(end.action, giver.pipe, token.pipe, end.core, end.site)
                    found[place].append((number(flag), (event,)))
        return [call for own in found for call in own]

    def unit_flags(
        self, calls: Sequence[tuple[tuple[int, Indices], UnitUse | None]], number: Callable[[SyncShape], int]
    ) -> list[tuple[int, Indices]]:
        """The calls of a cube core with the flags that its unit flags are."""
        found: list[list[tuple[int, Indices]]] = [[call] for call, _ in calls]
        open_: list[tuple[int, UnitUse]] = []
        for at, (_, use) in enumerate(calls):
            if use is None:
                continue
            for before, giver in [known for known in open_ if known[1].meets(use)]:
                open_.remove((before, giver))
                if giver.pipe != use.pipe:
                    event = self.event((giver.pipe, use.pipe), ("unit", giver.start))
                    made = [
                        (number(FlagShape(action, giver.pipe, use.pipe, CUBE_CORE.name, end.site)), (event,))
                        for action, end in (("set", giver), ("wait", use))
                    ]
                    found[before].append(made[0])
                    found[at].insert(0, made[1])
            if use.is_last:
                open_.append((at, use))
        return [call for own in found for call in own]
