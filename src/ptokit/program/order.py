"""Flags for auto mode and for events: all that are needed and no more, with free event ids."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise

from ptokit.finding import Finding, VerifyError, Where
from ptokit.isa.kernel import Pair
from ptokit.program import ir
from ptokit.program.before import Action, FaultCollector, OrderCheck, PipeStep, Slot, Unrolled
from ptokit.program.cores import core_of, ends_of, own_pairs, stated_core, unit_of
from ptokit.program.expr import Expr, apply, interval
from ptokit.program.instr_calls import call_of
from ptokit.program.memory import Path, meeting_block
from ptokit.program.unroll import unroll
from ptokit.target import Profile
from ptokit.target.profile import CROSS_MOST, CROSS_USER_IDS


@dataclass(frozen=True)
class Link:
    """A flag from one pipe to another: set at one slot of a block, waited for at another.

    If the wait comes before the set, it waits for the set of an earlier iteration. The flag is then set once before the
    outermost loop around, and waited for once after it.
    """

    src: str
    dst: str
    block: Path
    set_at: int
    wait_at: int
    events: int = 1
    """Event ids that the iterations of the loop around alternate between; 0 for a barrier instead of the wait: for all
    pipes, or on one pipe if it links that one to itself."""
    reply: bool = False
    """Whether it signals that the wait of another link is over, so that that one may be set again."""
    where: Where | None = field(default=None, compare=False)

    @property
    def is_carried(self) -> bool:
        """Whether a wait is for the set of an earlier iteration."""
        return self.wait_at < self.set_at + self.reply

    @property
    def crosses(self) -> bool:
        """Whether it hands over from one core to the other."""
        return core_of(self.src) != core_of(self.dst)

    @property
    def pair(self) -> Pair:
        """What its event ids belong to: the two pipes, of whatever core; for the other core, the core that sets it."""
        return (core_of(self.src), "") if self.crosses else (unit_of(self.src), unit_of(self.dst))

    def replied(self) -> Link:
        """The link that makes every set of this one come after the wait for the set before."""
        return Link(self.dst, self.src, self.block, self.wait_at, self.set_at, self.events, True, self.where)


Links = list[Link]

REPLY_WAIT, SET, DRAIN, PRIME, WAIT, REPLY_SET = range(6)
"""The ends that a slot can have, in this order: what follows the statement before, then what precedes the next."""


@dataclass(frozen=True)
class End(Action):
    """A set or a wait of a link, or its barrier, at a slot."""

    link: Link
    rank: int
    number: int | None = None
    """Which of the link's events; None for that of the iteration."""

    @property
    def sets(self) -> bool:
        """Whether it is a set."""
        return self.rank in (SET, PRIME, REPLY_SET)

    def __call__(self, check: OrderCheck, iteration: int) -> None:
        link = self.link
        if not link.events:
            if link.src == link.dst:
                check.fence(link.src)
            else:
                check.barrier(core_of(link.src))
            return
        number = iteration % link.events if self.number is None else self.number
        if self.sets:
            check.checked_set(link.src, link, number)
        else:
            check.checked_wait(link.dst, link, number)


@dataclass(frozen=True)
class Insertion:
    """A statement that is put into a block, at a slot."""

    block: Path
    at: int
    rank: int
    """Which end of a flag it is. Ends up to `DRAIN` belong to the statement before the slot, others to the next one."""
    stmt: ir.Flag | ir.CrossFlag | ir.Barrier


def missing(program: ir.Program, profile: Profile, more: Iterable[Link] = ()) -> list[tuple[Insertion, ...]]:
    """The flags that a program lacks, whatever its mode: for each, the statements to insert.

    `more` are links that are known to be needed, although the accesses of the program do not show it.
    """
    return _Orderer(program, profile, unroll(program, profile)).insertions(tuple(more))


def races(program: ir.Program, profile: Profile) -> list[tuple[PipeStep, PipeStep]]:
    """Steps that conflict, and that nothing orders."""
    unrolled = unroll(program, profile)
    return [(unrolled.steps[a], unrolled.steps[b]) for a, b in FaultCollector(unrolled, {}).races]


def overlaps(program: ir.Program, profile: Profile) -> list[tuple[PipeStep, PipeStep]]:
    """Steps of one pipe that may overlap, although one depends on the other."""
    unrolled = unroll(program, profile)
    return [(unrolled.steps[a], unrolled.steps[b]) for a, b in FaultCollector(unrolled, {}).overlaps]


def order(program: ir.Program, profile: Profile) -> ir.Program:
    """The program with the flags that its data dependences need, marked `auto`.

    The result has no race, sets no flag twice and leaves none set, and every flag that was added is needed for that.
    Flags and barriers of the program count. A manual program, or one for a target without pipes, is returned unchanged.
    """
    if not profile.pipes or program.mode != "auto":
        return program
    return _Orderer(program, profile, unroll(program, profile)).result()


def order_events(program: ir.Program, profile: Profile) -> ir.Program:
    """The program with flags, marked `auto`, in place of its events.

    Targets have flags and no events. An instruction that waits for another gets a flag from the pipe of that one to its
    own pipe, unless other flags order the two already.
    """
    if profile.pipes and any(instr.waits for instr in program.instructions):
        program = _Orderer(program, profile, unroll(program, profile, only_events=True)).result()
    return replace(program, body=ir.transform(program.body, _without_event))


def _without_event(stmt: ir.Stmt) -> ir.Stmt:
    return replace(stmt, event=None, waits=()) if isinstance(stmt, ir.Instr) else stmt


class _Orderer:
    """Finds the links of one program."""

    def __init__(self, program: ir.Program, profile: Profile, unrolled: Unrolled) -> None:
        self.program = program
        self.unrolled = unrolled
        self.outline = self.unrolled.outline
        self.free = free_ids(program, profile)
        self.profile = profile

    def result(self) -> ir.Program:
        """The program with its flags."""
        links, events = self._numbered(self._settled([]))
        links = self._fenced(links)
        return replace(self.program, body=self._with_flags(self.program.body, (), self._slots(links), events))

    def insertions(self, more: Sequence[Link]) -> list[tuple[Insertion, ...]]:
        """What each link adds; `more` are links that are added to those found, needed or not."""
        fences, links = [link for link in more if link.src == link.dst], self._settled([])
        flags = dict.fromkeys(link for link in more if link not in links and link not in fences)
        links, events = self._numbered(self._repeatable([*links, *flags]))
        return [
            tuple(Insertion(*slot, end.rank, self._statement(end, events)) for slot, end in self._ends(link))
            for link in [*links, *dict.fromkeys(fences)]
        ]

    def _numbered(self, links: Links) -> tuple[Links, dict[Link, int]]:
        """The links with their first event ids; fewer links, or barriers, if there are not enough ids."""
        events, without_id = self._number(links)
        tried: set[frozenset[Link]] = set()
        while without_id:
            tried.add(frozenset(links))
            links = self._settled(_relieved(links, without_id))
            if frozenset(links) in tried:
                raise VerifyError([_too_many(self.program, without_id[0], self.profile.name)])
            events, without_id = self._number(links)
        return links, events

    def _fenced(self, links: Links) -> Links:
        """The links with barriers between dependent steps of a pipe whose instructions may overlap. Flags do not depend
        on them."""
        fences: Links = []
        while overlaps := self._faults([*links, *fences]).overlaps:
            found = dict.fromkeys(self._fence(*pair) for pair in overlaps)
            new = [fence for fence in found if fence not in fences]
            fences += new or [self._fence(*next(iter(overlaps)), at_once=True)]
        if len({fence.block for fence in fences}) < 2:  # each was needed where it is, in the order of the program
            return [*links, *fences]
        for fence in list(fences):
            rest = [other for other in fences if other != fence]
            if not self._faults([*links, *rest]).overlaps:
                fences = rest
        return [*links, *fences]

    def _fence(self, first: int, second: int, *, at_once: bool = False) -> Link:
        """A barrier between two steps of a pipe: in the innermost block around both, or right before the second."""
        producer, consumer = self.unrolled.steps[first], self.unrolled.steps[second]
        block, one, other = meeting_block(producer.path, consumer.path)
        if at_once:
            *inside, other = consumer.path
            block, one = tuple(inside), other
        return Link(producer.pipe, producer.pipe, block, one + 1, other, events=0, where=consumer.where)

    # --- which links ---

    def _settled(self, links: Links) -> Links:
        """Links that make the program complete; each of them is needed."""
        return self._pruned(self._repeatable(self._raceless(links)))

    def _raceless(self, links: Links) -> Links:
        """Add a link for every race."""
        while races := self._faults(links).races:
            found = dict.fromkeys(self._link(*race) for race in races)
            links = links + ([link for link in found if link not in links] or [_barrier(next(iter(found)))])
        return links

    def _link(self, first: int, second: int) -> Link:
        producer, consumer = self.unrolled.steps[first], self.unrolled.steps[second]
        block, one, other = meeting_block(producer.path, consumer.path)
        link = Link(producer.pipe, consumer.gate, block, one + 1, other, where=consumer.where)
        if link.crosses and self.profile.cross_wait:
            link = replace(link, dst=f"{core_of(link.dst)}.{self.profile.cross_wait}")
        return replace(link, events=self._distance(link, producer, consumer)) if link.is_carried else link

    def _distance(self, link: Link, producer: PipeStep, consumer: PipeStep) -> int:
        """How many iterations a carried link reaches back: as many as have their own tiles, if both use the same."""
        copies, level = self._copies(link), len(self.outline.around(link.block)) - 1
        return copies if producer.iterations[level] % copies == consumer.iterations[level] % copies else 1

    def _repeatable(self, links: Links) -> Links:
        """Give a link that may be set too early more events, else a reply, else make it a barrier."""
        while early := self._faults(links).early:
            for link in early:
                copies, reply = self._copies(link), link.replied()
                if not link.is_carried and link.events < copies:
                    links = _replaced(links, link, replace(link, events=copies))
                elif reply not in links:
                    links = [*links, reply]
                else:
                    links = _replaced(links, link, _barrier(link))
        return links

    def _copies(self, link: Link) -> int:
        """How many iterations of the loop around a link have their own tiles."""
        loops = self.outline.around(link.block)
        return self.unrolled.copies[loops[-1]] if loops else 1

    def _pruned(self, links: Links) -> Links:
        """Remove the links that are not needed, one after the other in the order of their first ends."""
        slots, kept = self._slots(links), Links()
        check = OrderCheck(self.unrolled, slots)
        for link in sorted(links, key=self._begin):
            check.advance(self._begin(link))
            with_link = {slot: slots[slot] for slot, _ in self._ends(link)}
            slots |= {slot: [end for end in ends if end.link != link] for slot, ends in with_link.items()}
            if not check.copy().is_complete():
                slots |= with_link
                kept.append(link)
        return kept if len(kept) == len(links) else self._pruned(kept)

    def _begin(self, link: Link) -> int:
        """The operation of the first end of a link."""
        return min(self.unrolled.slots[slot] for slot, _ in self._ends(link))

    def _faults(self, links: Links) -> FaultCollector:
        return FaultCollector(self.unrolled, self._slots(links))

    # --- where their ends are ---

    def _slots(self, links: Links) -> dict[Slot, list[End]]:
        slots: dict[Slot, list[End]] = defaultdict(list)
        for link in links:
            for slot, end in self._ends(link):
                slots[slot].append(end)
        return {slot: sorted(ends, key=lambda end: end.rank) for slot, ends in slots.items()}

    def _ends(self, link: Link) -> Iterator[tuple[Slot, End]]:
        yield (link.block, link.wait_at), End(link, REPLY_WAIT if link.reply else WAIT)
        if not link.events:
            return
        yield (link.block, link.set_at), End(link, REPLY_SET if link.reply else SET)
        if link.is_carried:
            *outer, at, _ = self.outline.around(link.block)[0]
            for number in range(link.events):
                yield (tuple(outer), at), End(link, PRIME, number)
                yield (tuple(outer), at + 1), End(link, DRAIN, number)

    # --- their events ---

    def _number(self, links: Links) -> tuple[dict[Link, int], Links]:
        """The first event id of each link, and the links for which no id is left."""
        faults = self._faults(links)
        users: dict[tuple[Pair, int], Links] = defaultdict(list)
        events: dict[Link, int] = {}
        without_id: Links = []
        for link in sorted((link for link in links if link.events), key=lambda link: faults.sets[link][0]):
            first = self._first_event(link, faults, users)
            if first is None:
                without_id.append(link)
                continue
            events[link] = first
            for event in range(first, first + link.events):
                users[link.pair, event].append(link)
        return events, without_id

    def _first_event(self, link: Link, faults: FaultCollector, users: dict[tuple[Pair, int], Links]) -> int | None:
        """Preferably one that no other pair of the same source uses: flags are easier to follow then."""
        free, src = self.free[link.pair], link.pair[0]
        taken = {event for (pair, event), links in users.items() if links and pair[0] == src and pair != link.pair}
        for first in sorted(free, key=lambda first: not taken.isdisjoint(range(first, first + link.events))):
            events = range(first, first + link.events)
            if all(event in free and _may_join(faults, link, users[link.pair, event]) for event in events):
                return first
        return None

    # --- the program with flags ---

    def _with_flags(self, block: ir.Block, at: Path, slots: dict[Slot, list[End]], events: dict[Link, int]) -> ir.Block:
        out: list[ir.Stmt] = []
        write = partial(self._statement, events=events)
        inner = partial(self._with_flags, slots=slots, events=events)
        for number, stmt in enumerate(block):
            out += map(write, slots.get((at, number), ()))
            blocks = (inner(block, (*at, number, arm)) for arm, block in enumerate(ir.children(stmt)))
            out.append(ir.with_blocks(stmt, blocks))
        return (*out, *map(write, slots.get((at, len(block)), ())))

    def _statement(self, end: End, events: dict[Link, int]) -> ir.Flag | ir.CrossFlag | ir.Barrier:
        link = end.link
        if not link.events:
            pipe = unit_of(link.src) if link.src == link.dst else "ALL"
            return ir.Barrier(pipe, auto=True, core=self._core(link, pipe), where=link.where)
        action, event = "set" if end.sets else "wait", self._event(end, events[link])
        if link.crosses:
            pipe = link.src if end.sets else link.dst
            return ir.CrossFlag(action, core_of(pipe), unit_of(pipe), event, auto=True, where=link.where)
        pipes = unit_of(link.src), unit_of(link.dst)
        return ir.Flag(action, *pipes, event, auto=True, core=self._core(link, *pipes), where=link.where)

    def _core(self, link: Link, *pipes: str) -> str:
        """The core that a statement of a link states, in a program for two."""
        is_mixed = len({core_of(step.pipe) for step in self.unrolled.steps}) > 1
        return stated_core(core_of(link.src), *pipes) if is_mixed else ""

    def _event(self, end: End, first: int) -> Expr:
        link = end.link
        if end.number is not None or link.events == 1:
            return first + (end.number or 0)
        loop = self.outline.loops[self.outline.around(link.block)[-1]]
        return apply("add", first, apply("mod", ir.iteration(loop), link.events))


def _may_join(faults: FaultCollector, link: Link, users: Links) -> bool:
    """Whether a link may use an event that others use too."""
    if users and all(_in_step(link, user) for user in users):
        return len(users) < CROSS_MOST
    if users and any(user.events > 1 for user in (link, *users)):
        return False
    return not any(_clash(faults, link, user) or _clash(faults, user, link) for user in users)


def _in_step(a: Link, b: Link) -> bool:
    """Whether two links between cores can share a flag, which counts: the waits come in the order of the sets."""
    alike = a.crosses and (a.src, a.dst, a.block) == (b.src, b.dst, b.block)
    once = a.events == b.events == 1 and not (a.is_carried or b.is_carried or a.reply or b.reply)
    return alike and once and (a.set_at - b.set_at) * (a.wait_at - b.wait_at) >= 0


def _clash(faults: FaultCollector, link: Link, later: Link) -> bool:
    """Whether `later` might be set while `link` is still set, if the two were one flag, or a wait for `later` might
    take a set of `link`, because another pipe waits for that one."""
    for time, known in faults.sets[later]:
        waits = [bit for when, bit, _ in faults.waits[link] if when < time]
        pending = sum(when < time for when, _ in faults.sets[link]) - len(waits)
        if pending or any(bit & ~known for bit in waits):
            return True
    waits = faults.waits[link]
    return any(when < time and bit & ~known for time, _, known in faults.waits[later] for when, bit, _ in waits)


def _replaced(links: Links, old: Link, new: Link) -> Links:
    return [new if link == old else link for link in links]


def _barrier(link: Link) -> Link:
    """A barrier that orders what a link orders, and needs no event; between cores, a link right before the wait."""
    return replace(link, set_at=link.wait_at, events=1) if link.crosses else replace(link, events=0)


def _too_many(program: ir.Program, link: Link, target: str) -> Finding:
    core = core_of(link.src)
    message = f"{program.name}: {core} would need more than {CROSS_USER_IDS} flags for the other core"
    fix = "split the kernel, or hand over in manual mode"
    return Finding("error", "KN-16", message, None, "", "fewer hand-overs", fix=fix, where=link.where, target=target)


def _relieved(links: Links, without_id: Links) -> Links:
    """Links that need fewer events: two of them merged, else a barrier in place of one that has no id."""
    fewer = links
    for link in without_id:
        fewer = _merged(fewer, link.pair)
    if len(fewer) < len(links):
        return fewer
    given = next((link for link in without_id if _barrier(link) not in links), without_id[0])
    return [*(link for link in links if link != given), _barrier(given)]


def _merged(links: Links, pair: Pair) -> Links:
    """The links with two neighbours of a pair of pipes merged into one, which is set later and waited for earlier."""
    flags = [link for link in links if link.pair == pair and link.events and not link.reply]
    flags.sort(
        key=lambda link: (link.src, link.dst, link.block, link.events, link.is_carried, link.set_at, link.wait_at)
    )
    choices = [(a, b) for a, b in pairwise(flags) if _may_merge(a, b)]
    if not choices:
        return links
    a, b = min(choices, key=lambda pair: pair[1].set_at - pair[0].set_at + abs(pair[1].wait_at - pair[0].wait_at))
    both = replace(a, set_at=b.set_at, wait_at=min(a.wait_at, b.wait_at))
    return _replaced([link for link in links if link != b], a, both)


def _may_merge(a: Link, b: Link) -> bool:
    alike = (a.src, a.dst, a.block, a.events, a.is_carried) == (b.src, b.dst, b.block, b.events, b.is_carried)
    return alike and (a.is_carried or b.set_at <= min(a.wait_at, b.wait_at))


def pair_of(flag: ir.Flag | ir.CrossFlag) -> Pair:
    """What the event ids of a flag belong to: its two pipes; between the cores, the core that sets it."""
    return (flag.src, flag.dst) if isinstance(flag, ir.Flag) else (ends_of(flag)[0], "")


def free_ids(program: ir.Program, profile: Profile) -> dict[Pair, list[int]]:
    """For each pair of pipes: the event ids that neither the program nor an instruction itself (id 0) uses. Those that
    the program uses for no other pair of the same source come first."""
    pairs = [(a, b) for a in profile.pipes for b in profile.pipes]
    crossing = [(core.name, "") for core in profile.cores]
    free = {pair: list(range(profile.event_ids)) for pair in pairs}
    free |= {pair: list(range(CROSS_USER_IDS)) for pair in crossing}
    used: dict[str, set[int]] = {pipe: set() for pipe in profile.pipes}
    for stmt in ir.walk(program.body):
        if isinstance(stmt, ir.Instr):
            call = call_of(program, stmt, profile)
            for pair in own_pairs(call):
                free[pair] = [event for event in free.get(pair, ()) if event != 0]
            for pair in crossing:
                free[pair] = [event for event in free[pair] if event not in call.route_kernel.handshake.cross_ids]
        elif isinstance(stmt, ir.Flag | ir.CrossFlag):
            low, high = interval(stmt.event, {})
            pair = pair_of(stmt)
            free[pair] = [event for event in free.get(pair, ()) if not low <= event <= high]
            used.setdefault(pair[0], set()).update(event for event in range(profile.event_ids) if low <= event <= high)
    return {pair: sorted(events, key=lambda event: event in used.get(pair[0], ())) for pair, events in free.items()}
