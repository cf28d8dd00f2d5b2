"""Whether the flags of a program order everything that must be ordered: one run, decided exactly.

The control flow is executed for one block. Everything that is issued becomes an entry of a pipe; an entry knows the
entries it must come after; what happens before what is the transitive closure of that, and nothing else. Nothing here
looks at how automatic flags are made.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

from ptokit.isa.barriers import inside
from ptokit.isa.operand import TileSpec
from ptokit.program.expr import BLOCK_IDX, BLOCK_NUM, Expr, Var, evaluate, show_expr
from ptokit.program.instr_calls import call_of, effects, named_operands
from ptokit.program.ir import (
    Argument,
    Assign,
    Barrier,
    Block,
    Branch,
    Flag,
    Instr,
    LoadScalar,
    Loop,
    Operand,
    Program,
    Stmt,
    TileDecl,
    TileUse,
    View,
    children,
)
from ptokit.target.profile import Profile

Path = tuple[int, ...]
"""Where a statement stands: its number in its block, and before that the way to the block."""
Channel = tuple[str, str, int]
"""A producer pipe, a consumer pipe and the number of an event: one bit."""
Scalars = Callable[[str, tuple[int, ...]], int]
"""What an element of an argument holds, for the scalars that a program reads."""


@dataclass(frozen=True)
class Fault:
    """A fault in the order of a run."""

    kind: str
    """`race`, `deadlock`, `double set`, `left set`, `event id` or `pipe`."""
    message: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


# --- Memory --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Place:
    """A part of a memory: a half-open range in every dim of a frame."""

    memory: str
    frame: str
    """The coordinate system of the ranges; places of two frames cannot be compared."""
    ranges: tuple[tuple[int, int], ...]

    @property
    def is_empty(self) -> bool:
        return any(start >= stop for start, stop in self.ranges)

    def meets(self, other: Place) -> bool:
        """Whether the two share memory."""
        if self.memory != other.memory or self.is_empty or other.is_empty:
            return False
        both = zip(self.ranges, other.ranges, strict=False)
        return self.frame != other.frame or all(max(a, c) < min(b, d) for (a, b), (c, d) in both)


def tile_place(name: str, copy: int) -> Place:
    """A tile without an address: every copy of it is apart from everything else."""
    return Place(f"tile {name}", name, ((copy, copy + 1),))


def placed(spec: TileSpec, address: int) -> Place:
    """The bytes of a tile's storage at an address."""
    return Place(spec.loc.text, spec.loc.text, ((address, address + spec.nbytes),))


# --- What was issued -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Issue:
    """One execution of a statement."""

    number: int
    stmt: Stmt
    path: Path
    loops: tuple[tuple[Var, int], ...]

    def __str__(self) -> str:
        values = ", ".join(f"{var}={value}" for var, value in self.loops)
        return f"{'.'.join(map(str, self.path))} {show_stmt(self.stmt)}" + (f" [{values}]" if values else "")


@dataclass
class Entry:
    """The work of a pipe for one issue."""

    number: int
    pipe: str
    issue: Issue
    after: set[int]
    """Entries that must be done before."""
    touches: list[tuple[Place, bool]] = field(default_factory=list)
    """Memory, and whether it is written."""
    behind: int | None = None
    """The entry before on its pipe."""
    drains: bool = False
    """Whether it comes after the end of what its pipe did: a set, a barrier."""
    heard: set[int] = field(default_factory=set)
    """Entries of its own pipe whose end it waits for by an event."""
    late: frozenset[Place] = frozenset()
    """What it touches behind a barrier of its own."""
    fences: bool = False
    ends: bool = False
    """Whether it has a barrier inside, and whether it ends with one."""

    def __str__(self) -> str:
        return f"{self.issue} on {self.pipe}"


class Trace:
    """All entries of a run in the order of issue, each tied to what it has to come after."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.faults: list[Fault] = []
        self.sets: dict[Channel, list[Entry]] = defaultdict(list)
        self.waits: dict[Channel, list[Entry]] = defaultdict(list)
        self._last: dict[str, int] = {}
        self._gate: int | None = None
        """The last entry that everything issued later has to come after."""

    def add(self, pipe: str, issue: Issue) -> Entry:
        """An entry behind everything that its pipe was given before."""
        after = {number for number in (self._last.get(pipe), self._gate) if number is not None}
        entry = Entry(len(self.entries), pipe, issue, after, behind=self._last.get(pipe))
        self.entries.append(entry)
        self._last[pipe] = entry.number
        return entry

    def wait(self, pipe: str, issue: Issue) -> Entry:
        """An entry that holds its pipe up; on S, which issues everything, it holds up all pipes."""
        entry = self.add(pipe, issue)
        if pipe == "S":
            self._gate = entry.number
        return entry

    def handover(self, src: str, dst: str, issue: Issue) -> None:
        """A flag that an instruction itself sets and waits for."""
        done = self.add(src, issue)
        done.drains = True
        self.wait(dst, issue).after.add(done.number)

    def barrier(self, issue: Issue) -> None:
        """Everything before, then everything after."""
        earlier = set(self._last.values())
        entry = self.add("ALL", issue)
        entry.after |= earlier
        self._gate = entry.number

    def matches(self) -> Iterator[tuple[Entry, Entry]]:
        """Every set with the wait that takes it: the first with the first."""
        for channel, sets in self.sets.items():
            yield from zip(sets, self.waits[channel], strict=False)


# --- Running the control flow --------------------------------------------------------------------------------


def zero(argument: str, place: tuple[int, ...]) -> int:
    """A memory of zeroes."""
    return 0


class Execution:
    """The execution of a program by one block."""

    def __init__(self, program: Program, profile: Profile, values: dict[Var, int], scalars: Scalars) -> None:
        self.program, self.profile, self.values, self.scalars = program, profile, values, scalars
        self.trace = Trace()
        self.places: dict[str, Place] = {}
        self.events: dict[int, list[Entry]] = {}
        """Of every event: the entries of the instruction that signalled it last."""
        self.loops: tuple[tuple[Var, int], ...] = ()
        self.iteration = 0
        """The number of the iteration of the innermost loop."""
        self.issues = 0

    def value(self, expr: Expr) -> int:
        return evaluate(expr, self.values)

    def run(self, block: Block, path: Path = ()) -> None:
        """Every statement of a block, in order."""
        for k, stmt in enumerate(block):
            issue = Issue(self.issues, stmt, (*path, k), self.loops)
            self.issues += 1
            self.step(stmt, issue)

    def step(self, stmt: Stmt, issue: Issue) -> None:
        """One statement."""
        match stmt:
            case TileDecl():
                self.declare(stmt)
            case Assign(tile, address):
                self.places[tile] = placed(self.program.tiles[tile].spec, self.value(address))
            case Instr():
                self.instruction(stmt, issue)
            case LoadScalar(result, source):
                place = self.view(source)
                self.trace.add("S", issue).touches.append((place, False))
                self.values[result] = self.scalars(source.argument, tuple(start for start, _ in place.ranges))
            case Flag():
                self.flag(stmt, issue)
            case Barrier(pipe):
                self.barrier(pipe, issue)
            case Loop():
                self.loop(stmt, issue.path)
            case Branch(condition):
                taken = 0 if self.value(condition) else 1
                self.run(children(stmt)[taken], (*issue.path, taken))

    def loop(self, loop: Loop, path: Path) -> None:
        """Every iteration."""
        outer, outer_iteration = self.loops, self.iteration
        for iteration, value in enumerate(range(self.value(loop.start), self.value(loop.stop), loop.step)):
            self.values[loop.var], self.iteration = value, iteration
            self.loops = (*outer, (loop.var, value))
            self.run(loop.body, (*path, 0))
        self.loops, self.iteration = outer, outer_iteration

    def declare(self, decl: TileDecl) -> None:
        """The tile is the next one of its copies."""
        copy = self.iteration % decl.buffers
        if decl.addresses:
            self.places[decl.name] = placed(decl.spec, self.value(decl.addresses[copy]))
        else:
            self.places[decl.name] = tile_place(decl.name, copy)

    def view(self, view: View) -> Place:
        """The elements of an argument that a view shows."""
        ranges = [(self.value(start), self.value(size)) for start, size in zip(view.starts, view.sizes, strict=True)]
        memory, offset = owner(self.program.tensors, view.argument), self.program.tensors[view.argument].offset
        name = f"{view.argument} from {self.value(offset)}"  # views that begin elsewhere may overlap in any way
        return Place(f"memory of {memory}", name, tuple((start, start + size) for start, size in ranges))

    def barrier(self, pipe: str, issue: Issue) -> None:
        """On one pipe it changes nothing, unless instructions of the pipe may overlap: pipes are in order."""
        if pipe == "ALL":
            self.trace.barrier(issue)
        elif self.is_pipe(pipe, issue):
            self.trace.add(pipe, issue).drains = True

    def flag(self, flag: Flag, issue: Issue) -> None:
        """The set or the wait of a handshake."""
        event = self.value(flag.event)
        if not 0 <= event < self.profile.event_ids:
            text = f"{issue}: event {event} is not one of 0 to {self.profile.event_ids - 1}"
            self.trace.faults.append(Fault("event id", text))
        if not (self.is_pipe(flag.src, issue) and self.is_pipe(flag.dst, issue)):
            return
        channel = flag.src, flag.dst, event
        if flag.action == "set":
            self.trace.sets[channel].append(self.trace.add(flag.src, issue))
            self.trace.entries[-1].drains = True
        else:
            self.trace.waits[channel].append(self.trace.wait(flag.dst, issue))

    def is_pipe(self, pipe: str, issue: Issue) -> bool:
        """Whether the target has the pipe."""
        if pipe not in self.profile.pipes:
            self.trace.faults.append(Fault("pipe", f"{issue}: {self.profile.name} has no pipe {pipe}"))
        return pipe in self.profile.pipes

    def instruction(self, instr: Instr, issue: Issue) -> None:
        """Its own flags before, its work on each pipe, its own flags after."""
        call = call_of(self.program, instr, self.profile, self.value)
        works = effects(call)
        handshake = call.route_kernel.handshake
        first = len(self.trace.entries)
        if instr.waits and "S" in (*handshake.body, *(work.pipe for work in works)):
            heard = [other.number for event in instr.waits for other in self.events.get(event, ())]
            self.trace.wait("S", issue).after.update(heard)
        for src, dst in handshake.before:
            self.trace.handover(src, dst, issue)
        operands = named_operands(instr)
        body = [self.trace.add(pipe, issue) for pipe in handshake.body or dict.fromkeys(work.pipe for work in works)]
        for one, next_one in pairwise(body):
            next_one.after.add(one.number)
        for work in works:
            place = self.place_of(operands.get(work.operand))
            if place:
                next(entry for entry in body if entry.pipe == work.pipe).touches.append((place, work.access != "read"))
        own = inside(call)
        for entry in (entry for entry in body if entry.pipe == self.profile.overlapping):
            names = {work.operand for work in works if work.pipe == entry.pipe}
            behind = names.difference(own.first) if own.first is not None else ()
            places = (self.place_of(operands.get(name)) for name in behind)
            entry.late, entry.ends = frozenset(place for place in places if place), own.ends
            entry.fences = own.first is not None
        for src, dst in handshake.after:
            self.trace.handover(src, dst, issue)
        self.signal(instr, issue, self.trace.entries[first:])

    def place_of(self, operand: Operand | None) -> Place | None:
        """The memory behind an operand; numbers have none."""
        if isinstance(operand, TileUse):
            return self.places[operand.tile]
        return self.view(operand) if isinstance(operand, View) else None

    def signal(self, instr: Instr, issue: Issue, mine: list[Entry]) -> None:
        """The instruction begins after the events it waits for, and its end is an event itself."""
        for event in instr.waits:
            if event not in self.events:
                self.trace.faults.append(Fault("deadlock", f"{issue}: nothing has signalled event {event}"))
            for entry in mine:
                entry.heard |= {other.number for other in self.events.get(event, ())}
                entry.after |= entry.heard
        if instr.event is not None:
            self.events[instr.event] = mine


def owner(tensors: Mapping[str, Argument], name: str) -> str:
    """The argument whose memory this is."""
    while name in tensors and (tensors[name].memory or tensors[name].view_of):
        name = tensors[name].memory or tensors[name].view_of
    return name


def execute(
    program: Program,
    profile: Profile,
    block_idx: int = 0,
    block_num: int = 1,
    integers: Mapping[str, int] | None = None,
    scalars: Scalars = zero,
) -> Trace:
    """What one block issues."""
    values = {BLOCK_IDX: block_idx, BLOCK_NUM: block_num, **{Var(name): n for name, n in (integers or {}).items()}}
    execution = Execution(program, profile, values, scalars)
    execution.run(program.body)
    return execution.trace


# --- Judging it ----------------------------------------------------------------------------------------------


def check(
    program: Program,
    profile: Profile,
    block_idx: int = 0,
    block_num: int = 1,
    integers: Mapping[str, int] | None = None,
    scalars: Scalars = zero,
    *,
    within: bool = False,
) -> list[Fault]:
    """All that is wrong with the order of one block's run; nothing where the target has no pipes. `within` looks at the
    order within a pipe, too, whose instructions may overlap."""
    if not profile.pipes:
        return []
    trace = execute(program, profile, block_idx, block_num, integers, scalars)
    faults = [*trace.faults, *unbalanced(trace)]
    for done, waiting in trace.matches():
        waiting.after.add(done.number)
    try:
        before = closure(trace.entries)
    except CycleError as cycle:
        around = " < ".join(str(trace.entries[number]) for number in cycle.args[1])
        return [*faults, Fault("deadlock", f"each waits for the next: {around}")]
    own = overlaps(trace.entries, profile.overlapping) if within and profile.overlapping else ()
    return list(dict.fromkeys([*faults, *double_sets(trace, before), *races(trace.entries, before), *own]))


def overlaps(entries: Sequence[Entry], pipe: str) -> Iterator[Fault]:
    """Entries of a pipe that read or write what an earlier one has written, which may not have ended."""
    known: dict[int, set[int]] = {}
    """By entry: the entries of the pipe that have ended when it begins."""
    passed: dict[int, set[int]] = {}
    """The same for the next entry of its pipe: a set waits for the end of what came before; what is behind it does
    not."""
    order = TopologicalSorter({entry.number: entry.after for entry in entries}).static_order()
    work = {entry.number for entry in entries if entry.pipe == pipe and entry.touches}
    for number in order:
        entry = entries[number]
        ended = known[number] = set(entry.heard & work)
        for earlier in entry.after:
            is_next = earlier == entry.behind and entry.pipe == pipe
            ended |= (passed if is_next else known)[earlier]
            if earlier in work and (not is_next or entries[earlier].ends):
                ended.add(earlier)
            if entries[earlier].fences or entries[earlier].ends:
                ended |= {each for each in work if each < earlier}
        passed[number] = set(ended)
        if entry.drains and entry.pipe == pipe:
            ended |= {each for each in work if each < number}
        if isinstance(entry.issue.stmt, Barrier):
            passed[number] = ended
    for number in sorted(work):
        entry = entries[number]
        places = [place for place, _ in entry.touches if place not in entry.late]
        for earlier in sorted(each for each in work if each < number and each not in known[number]):
            if entries[earlier].issue.number != entry.issue.number and any(
                writes and place.meets(other) for place, writes in entries[earlier].touches for other in places
            ):
                yield Fault("overlap", f"{entries[earlier]} and {entry}")


def closure(entries: Sequence[Entry]) -> list[int]:
    """For every entry, the set of all entries that happen before it, as bits."""
    before = [0] * len(entries)
    for number in TopologicalSorter({entry.number: entry.after for entry in entries}).static_order():
        for earlier in entries[number].after:
            before[number] |= before[earlier] | 1 << earlier
    return before


def unbalanced(trace: Trace) -> Iterator[Fault]:
    """Waits that never end, and flags that are still set at the end of the block."""
    for channel in {**trace.sets, **trace.waits}:
        sets, waits = trace.sets.get(channel, []), trace.waits.get(channel, [])
        for entry in waits[len(sets) :]:
            yield Fault("deadlock", f"{entry}: its set never comes")
        for entry in sets[len(waits) :]:
            yield Fault("left set", f"{entry}: nobody waits for it")


def double_sets(trace: Trace, before: Sequence[int]) -> Iterator[Fault]:
    """Sets of a flag whose earlier set may not have been taken yet."""
    for channel, sets in trace.sets.items():
        waits = trace.waits.get(channel, [])
        for k, (one, again) in enumerate(pairwise(sets)):
            if k >= len(waits) or not before[again.number] >> waits[k].number & 1:
                yield Fault("double set", f"{again}: the flag of {one} may still be set")


def races(entries: Sequence[Entry], before: Sequence[int]) -> Iterator[Fault]:
    """Conflicting accesses of two issues that nothing keeps in the order of issue."""
    everyone: dict[Place, int] = defaultdict(int)
    writers: dict[Place, int] = defaultdict(int)
    for entry in entries:
        for place, writes in entry.touches:
            everyone[place] |= 1 << entry.number
            writers[place] |= writes << entry.number
    near = neighbours(everyone)
    starts: dict[int, int] = {}
    for entry in entries:
        issued_earlier = (1 << starts.setdefault(entry.issue.number, entry.number)) - 1
        for place, writes in entry.touches:
            for other in near[place]:
                against = (everyone if writes else writers)[other]
                for number in bits(against & issued_earlier & ~before[entry.number]):
                    yield Fault("race", f"{entries[number]} and {entry}, in {place.memory}")


def neighbours(places: Iterable[Place]) -> dict[Place, list[Place]]:
    """For every place, those that share memory with it, itself among them."""
    shelves: dict[str, list[Place]] = defaultdict(list)
    for place in places:
        shelves[place.memory].append(place)
    return {place: [other for other in shelf if place.meets(other)] for shelf in shelves.values() for place in shelf}


def bits(number: int) -> Iterator[int]:
    """Places of the ones."""
    while number:
        lowest = number & -number
        yield lowest.bit_length() - 1
        number ^= lowest


# --- Words ---------------------------------------------------------------------------------------------------


def show_operand(operand: Operand) -> str:
    """An operand as a reader would write it."""
    match operand:
        case TileUse(tile):
            return tile
        case View(argument, starts, sizes):
            ends = zip(starts, sizes, strict=True)
            return f"{argument}[{', '.join(f'{show_expr(start)} +{show_expr(size)}' for start, size in ends)}]"
        case _:
            return "number"


def show_stmt(stmt: Stmt) -> str:
    """A statement in one line."""
    match stmt:
        case Instr(name, operands):
            return f"{name}({', '.join(map(show_operand, operands))})"
        case LoadScalar(result, source):
            return f"{result} = {show_operand(source)}"
        case Flag(action, src, dst, event):
            return f"{action}({src}, {dst}, {show_expr(event)})"
        case Barrier(pipe):
            return f"barrier({pipe})"
        case Loop(var, start, stop, step, _, buffers):
            numbers = ", ".join(map(show_expr, (start, stop, step)))
            return f"for {var} in range({numbers}), {buffers} buffers"
        case Branch(condition):
            return f"if {show_expr(condition)}"
        case TileDecl(name, spec, addresses, buffers):
            at = f" at {', '.join(map(show_expr, addresses))}" if addresses else ""
            return f"{name}: {spec}{at}" + (f", {buffers} copies" if buffers > 1 else "")
        case Assign(tile, address):
            return f"{tile} at {show_expr(address)}"


def show(program: Program) -> str:
    """A program as text, for the report of a failing test."""
    return "\n".join(_lines(program.body, ""))


def _lines(block: Block, indent: str) -> Iterator[str]:
    for stmt in block:
        yield indent + show_stmt(stmt)
        for k, inner in enumerate(children(stmt)):
            if k and inner:
                yield f"{indent}else"
            yield from _lines(inner, indent + "    ")
