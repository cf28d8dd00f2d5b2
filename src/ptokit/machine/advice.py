"""What to change first: changes of the longest block, one source line at a time, each timed again by the model.

A change replaces the work of all statements of a line, or moves the loads of a line one iteration ahead. Its gain is
the difference of two schedules. Changes that gain little are not mentioned.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any, NamedTuple

from ptokit.finding import Where, at_line
from ptokit.isa.instruction import Call
from ptokit.isa.move import IndexUnit
from ptokit.isa.operand import TensorSpec, TileSpec
from ptokit.isa.policy import TileType
from ptokit.machine.costs import Costs
from ptokit.machine.formulas import Part, Tally, TimedWork
from ptokit.machine.schedule import Operation, Record, Schedule, cycles_of
from ptokit.machine.site import placed_steps
from ptokit.machine.ways import segments_from
from ptokit.program.cores import Step, Sync
from ptokit.target import LOAD

MOST_ADVICE = 4
MOST_LINES = 16
"""Lines that are tried, those that keep pipes busy the longest."""
MOST_OPERATIONS = 4096
"""Operations of a block that are timed again."""
AHEAD = "load one iteration earlier, into tiles of its own (double buffering)"
LEAST_GAIN = 0.01
"""The least share of a block's time that a change must save."""


class Advice(str):
    """A change, with the cycles of the longest block that it saves in the model."""

    where: Where | None
    gain: float
    share: float
    """Of the block's time."""

    def __new__(cls, text: str, where: Where | None, gain: float, share: float) -> Advice:
        """Advice as a text; `gain` and `share` are already in it."""
        made = super().__new__(cls, text)
        made.where, made.gain, made.share = where, gain, share
        return made

    def as_dict(self) -> dict[str, Any]:
        """The numbers as plain data."""
        return {"where": None if self.where is None else str(self.where), "cycles": self.gain, "share": self.share}


class Changed(NamedTuple):
    """A changed block."""

    text: str
    operations: list[Operation]
    is_launch: bool = False
    """Whether the launch formula makes more work take fewer cycles: always mentioned."""


Place = Hashable
"""A source line, or the number of a statement without one."""


def advise(record: Record) -> Iterator[Advice]:
    """The best change of each line, the largest gain first."""
    operations, costs = paired(record.longest[:MOST_OPERATIONS]), record.costs
    lines = _lines(operations, costs)
    if not lines:
        return
    part = f" in the first {MOST_OPERATIONS:,} steps" if len(record.longest) > MOST_OPERATIONS else ""
    trial = _Trial(operations, costs, cycles_of(operations, costs), part)
    found = [each for works in lines.values() for each in trial.of_line(works)]
    loads = [works for works in lines.values() if _is_repeated_load(works)]
    if len(loads) > 1 and (joint := trial.of_loads(loads)):
        single = [each for each in found if each.text is AHEAD]
        if joint.gain > sum(each.gain for each in single):
            found = [joint, *(each for each in found if each not in single)]
    found.sort(key=lambda each: -each.gain)
    shown = [each for each in found if not each.is_launch][:MOST_ADVICE]
    yield from (each.advice(trial) for each in found if each.is_launch or each in shown)


class _Tried(NamedTuple):
    """A change and its gain."""

    gain: float
    text: str
    works: Sequence[Operation]
    """Executions of the lines that it changes, one of each."""
    is_launch: bool = False

    def advice(self, trial: _Trial) -> Advice:
        """The same as a text."""
        share = self.gain / trial.base
        text = f"{_names(self.works)}: {self.text}: saves {self.gain:,.0f} cycles ({share:.0%}){trial.part}"
        return Advice(text, self.works[0][4], self.gain, share)


class _Trial(NamedTuple):
    """A block, and how long it takes."""

    operations: list[Operation]
    costs: Costs
    base: float
    part: str
    """Which part of the block this is, for messages; empty for all of it."""

    def of_line(self, works: Sequence[Operation]) -> Iterator[_Tried]:
        """The best change of a line, and what the launch formula does to it."""
        tried = [
            _Tried(self.base - cycles_of(each.operations, self.costs), each.text, works[:1], each.is_launch)
            for each in _changes(self.operations, works, self.costs)
        ]
        best = max((each for each in tried if not each.is_launch), default=None, key=lambda each: each.gain)
        if best and best.gain > 0 and best.gain >= LEAST_GAIN * self.base:
            yield best
        yield from (each for each in tried if each.is_launch and each.gain > 0)

    def of_loads(self, loads: Sequence[Sequence[Operation]]) -> _Tried | None:
        """All loads one iteration ahead."""
        changed = self.operations
        for works in loads:
            changed = ahead(changed, _place(works[0]))
        gain = self.base - cycles_of(changed, self.costs)
        return _Tried(gain, AHEAD, [works[0] for works in loads]) if gain >= LEAST_GAIN * self.base else None


def _names(works: Sequence[Operation]) -> str:
    """`tload (lines 17, 18)`."""
    names = [at_line(what, where) for _, _, _, what, where in works]
    if len({what for *_, what, _ in works}) > 1 or len(works) == 1 or not all(where for *_, where in works):
        return " and ".join(names)
    return f"{works[0][3]} (lines {', '.join(str(where.line) for *_, where in works)})"


def _is_execution(operation: Operation) -> bool:
    return operation[0] is Schedule.execute


def _place(executed: Operation) -> Place:
    _, _, number, _, where = executed
    return (where.file, where.line) if where else number


def _lines(operations: Sequence[Operation], costs: Costs) -> dict[Place, list[Operation]]:
    """The executions of each line, for the busiest lines."""
    found: dict[Place, list[Operation]] = defaultdict(list)
    busy: Counter[Place] = Counter()
    for operation in filter(_is_execution, operations):
        place = _place(operation)
        found[place].append(operation)
        busy[place] += round(_cycles(operation[1], costs))
    return {place: found[place] for place, _ in busy.most_common(MOST_LINES)}


def _changes(operations: Sequence[Operation], works: Sequence[Operation], costs: Costs) -> Iterator[Changed]:
    """The changes that apply to a line."""
    place = _place(works[0])
    for rewrite in REWRITES:
        made = {id(each): rewrite(each, costs) for each in dict.fromkeys(work for _, work, *_ in works)}
        if (first := made[id(works[0][1])]) is not None:
            changed = [_replaced(each, made) if _is_at(each, place) else each for each in operations]
            yield Changed(first.text, changed, first.is_launch)
    if _is_repeated_load(works):
        yield Changed(AHEAD, ahead(operations, place))


def _is_at(operation: Operation, place: Place) -> bool:
    """Whether an operation is the execution of a line."""
    return _is_execution(operation) and _place(operation) == place


def _replaced(executed: Operation, made: Mapping[int, Rewritten | None]) -> Operation:
    operation, work, *rest = executed
    new = made[id(work)]
    return executed if new is None else (operation, new.work, *rest)


# --- loads one iteration ahead


def _is_repeated_load(works: Sequence[Operation]) -> bool:
    """Whether a line loads more than once: from global memory, without an index."""
    calls = [work[1].call for work in works]
    pipes = {effect.pipe for call in calls for effect in call.route_kernel.effects}
    return len(works) > 1 and pipes == {LOAD} and all(call.indexed is None for call in calls)


def ahead(operations: Sequence[Operation], place: Place) -> list[Operation]:
    """Each load of a line is issued where the one before was, with the waits in front of it and the sets behind it. Its
    pipe waits for tiles that were free one iteration earlier: these are others."""
    groups = [_group(operations, k) for k, operation in enumerate(operations) if _is_at(operation, place)]
    bodies = [[_earlier(each) for each in operations[first:end]] for first, end in groups]
    found: list[Operation] = []
    at = 0
    for k, (first, end) in enumerate(groups):
        found += operations[at:first]
        for body in bodies[0 if k == 0 else k + 1 : k + 2]:
            found += body
        at = end
    return [each for each in (*found, *operations[at:]) if each]


def _group(operations: Sequence[Operation], at: int) -> tuple[int, int]:
    """The waits directly in front of a load on its pipe, and the sets directly behind it."""
    pipe = next(step.pipe for step in operations[at][1].steps if hasattr(step, "pipe"))
    first, end = at, at + 1
    while first and operations[first - 1][0] is Schedule.wait and operations[first - 1][1] == pipe:
        first -= 1
    while end < len(operations) and operations[end][0] is Schedule.set and operations[end][1] == pipe:
        end += 1
    return first, end


def paired(operations: Sequence[Operation]) -> list[Operation]:
    """The same with a flag for each set and its wait, in the order of the text."""
    count: Counter[tuple[object, Hashable]] = Counter()
    found: list[Operation] = []
    for operation in operations:
        if operation[0] in (Schedule.set, Schedule.wait):
            method, pipe, flag = operation
            found.append((method, pipe, (flag, count[method, flag])))
            count[method, flag] += 1
        else:
            found.append(operation)
    return found


def _earlier(operation: Operation) -> Operation:
    """A wait for the set of one iteration earlier; nothing for the first."""
    if operation[0] is not Schedule.wait:
        return operation
    method, pipe, (flag, number) = operation
    return (method, pipe, (flag, number - 1)) if number else ()


# --- other work for a statement


class Rewritten(NamedTuple):
    """Work that replaces the work of a statement."""

    text: str
    work: TimedWork
    is_launch: bool = False


def _by_rows(work: TimedWork, costs: Costs) -> Rewritten | None:
    """Rows instead of elements."""
    call, tally = work.call, work.tally
    data = _data(call)
    if data is None or not call.route_kernel.by_element or data.valid_rows * data.valid_cols != tally.lanes:
        return None
    rows, cols = data.valid
    outside = -(-tally.outside // cols)
    made = _with_rows(work, costs, rows, cols, outside)
    return made and Rewritten("gather or scatter whole rows instead of elements, if the indices allow it", made)


def _longer_rows(work: TimedWork, costs: Costs) -> Rewritten | None:
    """The same bytes in rows twice as long."""
    data = _data(work.call)
    if data is None or not _is_by_row(work.call) or data.valid_rows < 2 or data.valid_rows % 2:
        return None
    made = _with_rows(work, costs, data.valid_rows // 2, 2 * data.valid_cols, work.tally.outside // 2)
    return made and Rewritten("the same bytes in half as many rows, twice as long", made)


def _launched(work: TimedWork, costs: Costs) -> Rewritten | None:
    """More rows, if the launch formula starts fewer warps for them and they take fewer cycles (MG-SIMT-05)."""
    data = _data(work.call)
    launch = work.call.route_kernel.launch
    if data is None or launch is None or not _is_by_row(work.call):
        return None
    rows, cols = data.valid
    now, best = launch(rows, cols), None
    for more in range(rows + 1, 33):
        then = launch(more, cols)
        if now and then and then.warps < now.warps:
            made = _with_rows(work, costs, more, cols, work.tally.outside)
            if made and (best is None or _cycles(made, costs) < _cycles(best[1], costs)):
                best = f"{more} rows start {then.warps} warps", made
    if now is None or best is None or _cycles(best[1], costs) >= _cycles(work, costs):
        return None
    return Rewritten(f"{rows} rows start {now.warps} warps, {best[0]} by the launch formula", best[1], True)


def _one_burst(work: TimedWork, costs: Costs) -> Rewritten | None:
    """The same bytes side by side."""
    call = work.call
    specs = [spec for spec in call.operands.values() if spec is not None]
    tiles = [spec for spec in specs if isinstance(spec, TileSpec)]
    is_block = len(tiles) == 1 and len(specs) == 2 and any(isinstance(spec, TensorSpec) for spec in specs)
    if not is_block or call.indexed or tiles[0].format != "nd" or tiles[0].valid_rows < 2:
        return None
    count = tiles[0].valid_rows * tiles[0].valid_cols
    blocks = {name: spec for name, spec in call.operands.items() if isinstance(spec, TileSpec | TensorSpec)}
    given = {**dict.fromkeys(call.operands), **{name: spec.reshaped(1, count) for name, spec in blocks.items()}}
    made = _made(work, Call(call.instruction, given, call.modifiers, call.target), costs, work.tally)
    is_packed = all(spec.is_packed for spec in blocks.values() if isinstance(spec, TensorSpec))
    how = f"as one row of {count:,}, since the array is contiguous" if is_packed else "in one contiguous piece"
    return made and Rewritten(f"the same bytes {how}", made)


REWRITES: tuple[Callable[[TimedWork, Costs], Rewritten | None], ...] = (_by_rows, _longer_rows, _one_burst, _launched)
"""What a statement can be replaced by."""


def _cycles(work: TimedWork, costs: Costs) -> float:
    return sum(step.cycles + step.latency for step in work.parts(costs) if isinstance(step, Part))


def _is_by_row(call: Call) -> bool:
    return call.indexed is not None and call.indexed[1].unit is IndexUnit.ROW


def _data(call: Call) -> TileSpec | None:
    """The tile that an indexed move fills or reads, if it is a plain one in UB and the index is a tile."""
    if call.indexed is None or not isinstance(call.of_role("index"), TileSpec):
        return None
    name = call.instruction.roles["index"]
    tiles = [spec for each, spec in call.operands.items() if isinstance(spec, TileSpec) and each != name]
    tensors = [spec for spec in call.operands.values() if isinstance(spec, TensorSpec)]
    is_plain = len(tiles) == len(tensors) == 1 and tiles[0].loc is TileType.Vec and tiles[0].format == "nd"
    return tiles[0] if is_plain else None


def _with_rows(work: TimedWork, costs: Costs, rows: int, cols: int, outside: int) -> TimedWork | None:
    """The work of a call that moves rows of a packed table."""
    made, data = work.call.route_kernel.rows, _data(work.call)
    if made is None or data is None:
        return None
    inside = rows - min(rows, outside)
    each = segments_from(0, cols, data.dtype.size, costs.grains.segment)
    return _made(work, made(work.call, rows, cols), costs, Tally(rows, rows - inside, inside * each))


def _made(work: TimedWork, call: Call, costs: Costs, tally: Tally) -> TimedWork | None:
    """The work of a changed call."""
    steps = placed_steps(call, costs.profile)
    waits = [step for step in _opening(work.steps) if step not in _opening(steps)]  # it needs what the old one needed
    return TimedWork(call, (*waits, *steps), tally) if call.route_kernel.effects else None


def _opening(steps: Sequence[Step]) -> list[Step]:
    """What an instruction waits for first."""
    return list(takewhile(lambda step: isinstance(step, Sync), steps))
