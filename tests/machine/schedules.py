"""All legal schedules of a small program, one by one: what can race, what can get stuck.

Written from the rules of order alone. A program becomes a list of entries in the order of issue. An entry belongs to a
pipe: it does some work, sets a flag or waits for one. A pipe takes its entries in order. The scalar pipe issues: an
entry cannot start before the waits on S that were issued before it are over. A flag is a bit. Everything else is left
to chance, and every chance is taken. With two cores, pipes are named with their core (`AIV.MTE2`); each core has its S
and its barriers, and a flag between the cores, which is named by its core and its id, counts its sets.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from ptokit.finding import Finding
from ptokit.machine.report import MachineReport
from ptokit.program.cores import PipeWork, Sync, steps
from ptokit.program.instr_calls import call_of
from ptokit.program.ir import Barrier, Flag, Instr, LoadScalar, Program, Stmt
from ptokit.target import Profile

SCALAR = "S"
WORK, SET, WAIT, WAIT_EVENT, BARRIER = "work", "set", "wait", "wait_event", "barrier"
"""What an entry can be. A wait for an event does not change it; a wait for a flag clears it."""


@dataclass(frozen=True)
class Access:
    """Cells of a memory, and what is done to them: `read`, `write`, or the name of an atomic."""

    memory: str
    cells: frozenset[int]
    how: str

    def conflicts(self, other: Access) -> bool:
        """Whether two accesses need an order: not two reads, nor two atomics of one kind."""
        kinds = self.how != other.how or self.how == "write"
        return kinds and self.memory == other.memory and not self.cells.isdisjoint(other.cells)


@dataclass(frozen=True)
class Entry:
    """A unit of work of a pipe."""

    pipe: str
    act: str
    flag: Hashable = None
    accesses: tuple[Access, ...] = ()
    statement: int = -1

    @property
    def core(self) -> str:
        """The core of its pipe; empty if there is only one."""
        return self.pipe.rpartition(".")[0]

    @property
    def holds_issue(self) -> bool:
        """Whether nothing that is issued later on its core can start before it is over."""
        scalar = self.pipe.rpartition(".")[2] == SCALAR
        return self.act == BARRIER or (self.act in (WAIT, WAIT_EVENT) and scalar)

    def conflicts(self, other: Entry) -> bool:
        """Whether two works need an order that their pipes do not give; so do two sets, or two waits, of a flag that
        counts: otherwise it is open which set ends which wait."""
        if self.pipe == other.pipe or self.statement == other.statement:
            return False
        if counts(self.flag) and (self.flag, self.act) == (other.flag, other.act):
            return True
        return any(mine.conflicts(theirs) for mine in self.accesses for theirs in other.accesses)


# --- From programs to entries --------------------------------------------------------------------------------

Touched = Sequence[Mapping[str, Access]]
"""What every statement of a program does to memory, by its operands."""


def entries_of(program: Program, profile: Profile, touched: Touched) -> list[Entry]:
    """What the pipes are given for a program without loops and branches."""
    issue = _Issue(program, profile)
    for number, stmt in enumerate(program.body):
        issue.statement(number, stmt, touched[number])
    return issue.entries


@dataclass
class _Issue:
    """Records entries in the order of issue."""

    program: Program
    profile: Profile
    entries: list[Entry] = field(default_factory=list)
    signalled: dict[int, tuple[tuple[int, str], ...]] = field(default_factory=dict)
    """The statement behind each event, with each of its pipes: an event that is signalled again is another one."""

    def statement(self, number: int, stmt: Stmt, touched: Mapping[str, Access]) -> None:
        """One statement."""
        match stmt:
            case Flag(action, src, dst, event):
                self.entries.append(Entry(src if action == SET else dst, action, (src, dst, event), statement=number))
            case Barrier("ALL"):
                self.entries.append(Entry(SCALAR, BARRIER, statement=number))
            case LoadScalar():
                self.entries.append(Entry(SCALAR, WORK, None, tuple(touched.values()), number))
            case Instr():
                self.instruction(number, stmt, touched)
            case _:
                pass

    def instruction(self, number: int, instr: Instr, touched: Mapping[str, Access]) -> None:
        """Events that it waits for, its steps, and the event of its end."""
        given = steps(call_of(self.program, instr, self.profile), self.profile)
        pipes = tuple(step.pipe for step in given if isinstance(step, PipeWork))
        for event in instr.waits:
            for end in self.signalled[event]:
                self.entries += [Entry(dst, WAIT_EVENT, end, statement=number) for dst in pipes]
        for k, step in enumerate(given):
            self.entries += self.step(step, (number, k), touched)
        if instr.event is not None:
            self.signalled[instr.event] = ends = tuple((number, pipe) for pipe in pipes)
            self.entries += [Entry(end[1], SET, end, statement=number) for end in ends]

    def step(self, step: PipeWork | Sync, name: tuple[int, int], touched: Mapping[str, Access]) -> Iterator[Entry]:
        """A work, or a flag that belongs to the instruction alone."""
        if isinstance(step, Sync):
            yield Entry(step.src, SET, name, statement=name[0])
            yield Entry(step.dst, WAIT, name, statement=name[0])
        else:
            operands = dict.fromkeys((*step.reads, *step.writes))
            yield Entry(step.pipe, WORK, None, tuple(touched[operand] for operand in operands), name[0])


# --- Every schedule ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Verdict:
    """What some schedule can do; pairs are numbers of statements."""

    races: frozenset[tuple[int, int]]
    """Conflicting works that one schedule does in one order and another in the other."""
    backward: frozenset[tuple[int, int]]
    """Conflicting works that every schedule does in the reverse of the order of issue."""
    is_stuck: bool
    """Some schedule comes to where no pipe can go on although some have work left."""
    sets_twice: bool
    """Some schedule sets a flag that is set."""
    leaves_set: bool
    """Some schedule ends with a flag that is set."""
    states: int = field(compare=False)

    @property
    def is_clean(self) -> bool:
        """Whether no schedule does anything wrong."""
        return not (self.races or self.backward or self.is_stuck or self.sets_twice or self.leaves_set)


State = tuple[tuple[int, ...], int]
"""How many entries each pipe has taken, and the flags that are set as bits."""


class Search:
    """Goes through all states that can be reached.

    A set and a wait that have a flag to themselves make no difference to others, whenever they happen, nor do works
    that conflict with none: unless `shortcut` is off, they happen as soon as they can.
    """

    def __init__(self, entries: Sequence[Entry], *, shortcut: bool = True) -> None:
        self.entries = entries
        self.pipes = tuple(dict.fromkeys(entry.pipe for entry in entries))
        self.queues = [[k for k, entry in enumerate(entries) if entry.pipe == pipe] for pipe in self.pipes]
        self.place = {k: (pipe, at) for pipe, queue in enumerate(self.queues) for at, k in enumerate(queue)}
        self.bits = {flag: 1 << COUNTED * k for k, flag in enumerate(dict.fromkeys(entry.flag for entry in entries))}
        self.gates = _gates(entries)
        self.conflicts = _conflicts(entries)
        self.quiet = _quiet(entries, self.conflicts) if shortcut else frozenset[int]()
        event_waits = {entry.flag for entry in entries if entry.act == WAIT_EVENT}
        taken = {entry.flag for entry in entries if entry.act in (SET, WAIT)} - event_waits
        self.lasting = sum(self.bits[flag] for flag in taken if _is_own(flag))
        """The flags of the program, without events and without handshakes of instructions."""

    def verdict(self) -> Verdict:
        """What can be found in all states."""
        first: set[tuple[int, int]] = set()
        stuck = twice = left = False
        start: State = (0,) * len(self.pipes), 0
        seen: set[State] = {start}
        todo: list[State] = [start]
        while todo:
            state = todo.pop()
            ready = self.ready(state)
            if not ready and self.is_over(state):
                left |= bool(state[1] & self.lasting * MOST)
            elif not ready:
                stuck = True
            for k in self.choices(ready):
                twice |= self.sets_twice(k, state)
                first.update((k, other) for other in self.conflicts[k] if not self.is_done(other, state))
                after = self.after(k, state)
                if after not in seen:
                    seen.add(after)
                    todo.append(after)
        both = {(a, b) for a, b in first if (b, a) in first}
        only = {(b, a) for a, b in first - both if a > b and self.entries[a].core == self.entries[b].core}
        return Verdict(self.statements(both), self.statements(only), stuck, twice, left, len(seen))

    def statements(self, pairs: set[tuple[int, int]]) -> frozenset[tuple[int, int]]:
        """The statements of two entries each, the earlier one first."""
        found = [(self.entries[a].statement, self.entries[b].statement) for a, b in pairs]
        return frozenset((min(pair), max(pair)) for pair in found)

    def ready(self, state: State) -> list[int]:
        """What can happen next: the first entry of every pipe that has been issued and is not held up by a flag."""
        heads = (queue[at] for queue, at in zip(self.queues, state[0], strict=True) if at < len(queue))
        return [k for k in heads if self.can_start(k, state)]

    def can_start(self, k: int, state: State) -> bool:
        """Whether the first entry of a pipe can happen."""
        entry, gate = self.entries[k], self.gates[k]
        if gate is not None and not self.is_done(gate, state):
            return False
        if entry.act in (WAIT, WAIT_EVENT):
            return bool(state[1] & self.bits[entry.flag] * MOST)
        return entry.act != BARRIER or all(
            self.is_done(earlier, state) for earlier in range(k) if self.entries[earlier].core == entry.core
        )

    def choices(self, ready: list[int]) -> list[int]:
        """All entries that are ready; one of those without effect on others is enough."""
        quiet = [k for k in ready if k in self.quiet]
        return quiet[:1] or ready

    def after(self, k: int, state: State) -> State:
        """The state after an entry has happened."""
        positions, flags = state
        pipe, at = self.place[k]
        bit = self.bits[self.entries[k].flag]
        one_more = flags + bit if counts(self.entries[k].flag) else flags | bit
        flags = {SET: one_more, WAIT: flags - bit}.get(self.entries[k].act, flags)
        return (*positions[:pipe], at + 1, *positions[pipe + 1 :]), flags

    def sets_twice(self, k: int, state: State) -> bool:
        """Whether an entry sets what is set."""
        entry = self.entries[k]
        return entry.act == SET and not counts(entry.flag) and bool(self.bits[entry.flag] & self.lasting & state[1])

    def is_done(self, k: int, state: State) -> bool:
        """Whether an entry has happened."""
        pipe, at = self.place[k]
        return state[0][pipe] > at

    def is_over(self, state: State) -> bool:
        """Whether every pipe has done all that it was given."""
        return all(at == len(queue) for queue, at in zip(self.queues, state[0], strict=True))


COUNTED = 4
"""Bits of a state for each flag: those between the cores count."""
MOST = (1 << COUNTED) - 1


def counts(flag: Hashable) -> bool:
    """Whether a flag is one between the cores: a core and an id."""
    return isinstance(flag, tuple) and len(flag) == 2 and flag[0] in ("AIC", "AIV")


def _is_own(flag: Hashable) -> bool:
    """Whether a flag is one of the program's own: a pair of pipes and an event, or between the cores."""
    return counts(flag) or (isinstance(flag, tuple) and len(flag) == 3)


def _gates(entries: Sequence[Entry]) -> list[int | None]:
    """For every entry: the last one before it that holds up the issue."""
    gates: list[int | None] = []
    last: dict[str, int] = {}
    for k, entry in enumerate(entries):
        gates.append(last.get(entry.core))
        if entry.holds_issue:
            last[entry.core] = k
    return gates


def _conflicts(entries: Sequence[Entry]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = defaultdict(list)
    for (a, one), (b, other) in combinations(enumerate(entries), 2):
        if one.conflicts(other):
            found[a].append(b)
            found[b].append(a)
    return found


def _quiet(entries: Sequence[Entry], conflicts: Mapping[int, list[int]]) -> frozenset[int]:
    """Entries of unknown time, after they can happen."""
    used = Counter((entry.flag, entry.act) for entry in entries)
    alone = {
        entry.flag
        for entry in entries
        if used[entry.flag, SET] == 1 and (used[entry.flag, WAIT] == 1 or used[entry.flag, WAIT_EVENT])
    }
    quiet = [
        not conflicts.get(k) if entry.act == WORK else entry.act == BARRIER or entry.flag in alone
        for k, entry in enumerate(entries)
    ]
    return frozenset(k for k, is_quiet in enumerate(quiet) if is_quiet)


def faults_in(report: MachineReport) -> list[Finding]:
    """The errors and hazards of a report, and what is a note because public sources differ on it: a flag that is set
    while the wait for an earlier set may not be over."""
    return [finding for finding in report.findings if finding.is_fault or "may not be over" in finding.message]


def verdict(program: Program, profile: Profile, touched: Touched) -> Verdict:
    """What the schedules of a program can do."""
    return Search(entries_of(program, profile, touched)).verdict()
