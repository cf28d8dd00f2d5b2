"""Changes to the flags of a program: what may cure a fault, as edits of the program that the author wrote.

The search for a repair is in `machine/repairs.py`: it tries these edits on the machine.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeGuard

from ptokit.finding import CodePart, Where
from ptokit.isa.kernel import Pair
from ptokit.program import ir, order
from ptokit.program.cores import OTHER, StatementCores, busy_pipes, core_of, ends_of, owners, stated_core, unit_of
from ptokit.program.expr import SUBBLOCK_IDX, apply, evaluate, interval, substitute, variables
from ptokit.program.memory import Outline, Path, meeting_block, statements
from ptokit.program.streams import sets_both
from ptokit.target import SCALAR, Profile
from ptokit.target.profile import CROSS_IDS, VECTOR_CORE


class Unpatchable(Exception):
    """An edit that the source of a program cannot express."""


INSERT, REMOVE, REPLACE = "insert", "remove", "replace"
BEFORE, AFTER = "before", "after"
BARRIER_COST = 10
"""A barrier counts as much as this many flags: it stops all pipes."""
MOST_COPIES = 8
"""The most buffers that iterations of a loop alternate between."""
MOST_PLACES = 4
"""Places at which a flag of one vector core is tried on the other."""

AnyFlag = ir.Flag | ir.CrossFlag
Sync = AnyFlag | ir.Barrier
"""Statements that order pipes and do nothing else."""

CPP, CPP_FFTS = ir.CPP, ir.CPP_FFTS
_CPP: dict[type[ir.Stmt], str] = {
    ir.Flag: "{action}_flag(PIPE_{src}, PIPE_{dst}, EVENT_ID{event})",
    ir.CrossFlag: "{action}_intra_block(PIPE_{pipe}, {event})",
    ir.Barrier: "pipe_barrier(PIPE_{pipe})",
}

SPELLINGS: dict[str, dict[type[ir.Stmt], str]] = {
    "": {
        ir.Flag: '{module}{action}_flag("{own}{src}", "{own}{dst}", {event})',
        ir.CrossFlag: '{module}sync_{action}("{named}", {event})',
        ir.Barrier: '{module}barrier("{own}{pipe}")',
    },
    "mlir": {
        ir.Flag: "pto.{action}_flag[<PIPE_{src}>, <PIPE_{dst}>, <EVENT_ID{event}>]",
        ir.CrossFlag: "pto.sync.{action} <PIPE_{pipe}>, {event}",
        ir.Barrier: "pto.barrier <PIPE_{pipe}>",
    },
    "as": {
        ir.Flag: "{action}_flag[PIPE_{src}, PIPE_{dst}, EVENT_ID{event}]",
        ir.CrossFlag: "sync.{action}[PIPE_{pipe}, {event}]",
        ir.Barrier: "barrier <PIPE_{pipe}>",
    },
    CPP: _CPP,
    CPP_FFTS: _CPP,
}
"""How the form of a program, empty for Python, spells such a statement: its fields, and the name of the module."""

CROSS = {
    "set": "ffts_cross_core_sync(PIPE_{pipe}, getFFTSMsg(0x2, {event}))",
    "wait": "wait_flag_dev({event})",
}
"""Flags between the cores that take their memory at a launch, in C++."""
COMPUTED = {
    CPP: "{action}_flag(PIPE_{src}, PIPE_{dst}, static_cast<event_t>({event}))",
    CPP_FFTS: "{action}_flag(PIPE_{src}, PIPE_{dst}, static_cast<event_t>({event}))",
    "mlir": "pto.{action}_flag_dyn[<PIPE_{src}>, <PIPE_{dst}>, {event}]",
    "as": "{action}_flag[PIPE_{src}, PIPE_{dst}, {event}]",
}
"""How texts spell a flag whose event id is a value."""


def spelled(stmt: Sync, form: str, module: str = "pto.", event: str = "") -> str:
    """A statement as text; `event` replaces the text of its event id."""
    fields = {**vars(stmt), "module": module, "named": _named(stmt), "own": f"{stmt.core}." if stmt.core else ""}
    is_computed = isinstance(stmt, ir.Flag) and not isinstance(stmt.event, int)
    template = COMPUTED.get(form) if is_computed else None
    if isinstance(stmt, ir.CrossFlag) and form == CPP_FFTS:
        template = CROSS[stmt.action]
    return (template or SPELLINGS[form][type(stmt)]).format(**(fields | {"event": event} if event else fields))


@dataclass(frozen=True)
class SyncCode(CodePart):
    """Such a statement in a fix; `event` replaces the text of its event id."""

    stmt: Sync
    event: str = ""

    def written(self, form: str) -> str:
        return spelled(self.stmt, form, event=self.event)


def _named(stmt: Sync) -> str:
    """The pipe of a flag between the cores, with its core if both cores have such a pipe."""
    if not isinstance(stmt, ir.CrossFlag):
        return ""
    return stmt.pipe if len(owners(stmt.pipe)) == 1 else f"{stmt.core}.{stmt.pipe}"


@dataclass(frozen=True)
class Edit:
    """One statement that is inserted before or after another, removed, or replaced."""

    action: str
    """`insert`, `remove` or `replace`."""
    at: Path
    """The statement of the author's program that it is next to, or that goes."""
    stmt: Sync
    """The statement that is inserted, is removed, or takes the place."""
    side: str = ""
    """Of an insertion: `before` or `after`."""
    rank: int = 0
    """The order of insertions at one place."""
    anchor: ir.Stmt | None = field(default=None, compare=False, repr=False)
    """The statement at `at`."""
    is_apart: bool = field(default=False, compare=False)
    """Whether it is for one vector core only, where the source is the same for both."""

    @property
    def where(self) -> Where | None:
        """The line of the statement at `at`."""
        return self.anchor.where if self.anchor is not None else None

    @property
    def cost(self) -> int:
        """How much it counts when repairs are compared."""
        is_costly = self.action == INSERT and isinstance(self.stmt, ir.Barrier) and self.stmt.pipe == "ALL"
        return BARRIER_COST if is_costly else 1

    def text(self, form: str = "") -> str:
        """What to do, in words."""
        line = f"line {self.where.line}" if self.where else "the statement"
        line = f"the {NAMES[type(self.anchor)]} of {line}" if type(self.anchor) in NAMES else line
        named = f" ({self.anchor.name})" if isinstance(self.anchor, ir.Instr) else ""
        written = spelled(self.stmt, form)
        if self.action == INSERT:
            return f"{self.side} {line}{named}: {written}"
        return f"{line}: remove {written}" if self.action == REMOVE else f"{line}: change to {written}"

    def __str__(self) -> str:
        return self.text()


NAMES: dict[type[object], str] = {ir.Loop: "loop", ir.Branch: "branch"}
"""What statements with blocks inside are called."""
Unit = tuple[Edit, ...]
"""Edits that belong together: none of them makes sense without the others."""


def cost(units: Iterable[Unit]) -> int:
    """How much units count together."""
    return sum(edit.cost for unit in units for edit in unit)


def in_order(edits: Iterable[Edit]) -> Unit:
    """Edits in the order of the text."""
    return tuple(sorted(edits, key=lambda edit: (edit.at, edit.side == AFTER, edit.rank, edit.text())))


def without_undone(edits: Iterable[Edit]) -> Unit:
    """Edits without removals of statements that others insert again at the same place."""
    left = list(edits)
    for removal in [edit for edit in left if edit.action == REMOVE]:
        again = next((edit for edit in left if _undoes(edit, removal)), None)
        if again is not None:
            left.remove(again)
            left.remove(removal)
    return in_order(left)


def _undoes(edit: Edit, removal: Edit) -> bool:
    """Whether an edit inserts the statement that another one removes, directly before or behind it."""
    if edit.action != INSERT or edit.at[:-1] != removal.at[:-1]:
        return False
    gap = edit.at[-1] + (edit.side == AFTER) - removal.at[-1]
    return gap in (0, 1) and edit.stmt == replace(removal.stmt, auto=False, where=None)


# --- edited programs


class Edited:
    """A program with edits, which knows the statements of the program before."""

    def __init__(self, program: ir.Program, units: Iterable[Unit]) -> None:
        self._edits: dict[Path, list[Edit]] = defaultdict(list)
        for edit in in_order(edit for unit in units for edit in unit):
            self._edits[edit.at].append(edit)
        self._origins: dict[Path, Path] = {}
        self._before = dict(statements(program.body))
        self.program = replace(program, body=self._block(program.body, (), ()))
        self._now = {was: now for now, was in self._origins.items()}
        self.paths = [path for path, _ in statements(self.program.body)]
        """The paths of all statements, in the order of the text."""
        self.statements = dict(statements(self.program.body))
        self.outline = Outline(self.program)

    def _block(self, block: ir.Block, was: Path, now: Path) -> ir.Block:
        done: list[ir.Stmt] = []
        for number, stmt in enumerate(block):
            edits = self._edits.get((*was, number), ())
            done += [edit.stmt for edit in edits if edit.side == BEFORE]
            if not any(edit.action == REMOVE for edit in edits):
                done.append(self._changed(stmt, edits, (*was, number), (*now, len(done))))
            done += [edit.stmt for edit in edits if edit.side == AFTER]
        return tuple(done)

    def _changed(self, stmt: ir.Stmt, edits: Sequence[Edit], was: Path, now: Path) -> ir.Stmt:
        self._origins[now] = was
        new: ir.Stmt = next((edit.stmt for edit in edits if edit.action == REPLACE), stmt)
        blocks = (self._block(inner, (*was, arm), (*now, arm)) for arm, inner in enumerate(ir.children(new)))
        return ir.with_blocks(new, blocks)

    def origin(self, path: Path) -> Path | None:
        """The path that a statement had before; None for one that was inserted."""
        return self._origins.get(path)

    def now(self, origin: Path) -> Path:
        """The path of a statement of the program before."""
        return self._now[origin]

    def inserted(self, insertion: order.Insertion) -> Edit:
        """An insertion into the edited program, as an edit of the program before."""
        block, at, rank = insertion.block, insertion.at, insertion.rank
        stmt = replace(insertion.stmt, auto=False, where=None)
        behind = next((path for j in range(at - 1, -1, -1) if (path := self.origin((*block, j)))), None)
        ahead = next((path for j in range(at, at + len(self.paths)) if (path := self.origin((*block, j)))), None)
        if (rank <= order.DRAIN and behind is not None) or ahead is None:
            assert behind is not None
            return Edit(INSERT, behind, stmt, AFTER, rank, self._before[behind])
        return Edit(INSERT, ahead, stmt, BEFORE, rank, self._before[ahead])

    def added(self, block: Path, *ends: tuple[int, int, Sync]) -> Unit:
        """Insertions into a block: each at a slot, as one end of a flag, with its statement."""
        return tuple(self.inserted(order.Insertion(block, *end)) for end in ends)

    def removed(self, path: Path) -> Edit | None:
        """The removal of a statement; None for one that was inserted."""
        origin, stmt = self.origin(path), self.statements[path]
        if origin is None or not isinstance(stmt, Sync):
            return None
        return Edit(REMOVE, origin, stmt, anchor=self._before[origin])

    def replaced(self, path: Path, stmt: Sync) -> Edit | None:
        """The replacement of a statement; None for one that was inserted."""
        origin = self.origin(path)
        return None if origin is None else Edit(REPLACE, origin, stmt, anchor=self._before[origin])


# --- flags that are missing


def missing_order(edited: Edited, profile: Profile, more: Iterable[order.Link], *, alternate: bool) -> list[Unit]:
    """The flags that an edited program lacks. With `alternate`, ids may alternate with the buffers of a loop."""
    program = with_copies(edited.program) if alternate else edited.program
    return [tuple(map(edited.inserted, each)) for each in order.missing(program, profile, more)]


def vector_at(stmts: Mapping[Path, ir.Stmt], path: Path) -> int | None:
    """The vector core that comes to a statement, if only one does."""
    found = vector_arm(stmts, path)
    return found[1] if found else None


def vector_arm(stmts: Mapping[Path, ir.Stmt], path: Path) -> tuple[int, int] | None:
    """The branch around a statement that only one vector core takes: the length of its path, and which core that is."""
    for size in range(1, len(path), 2):
        branch = stmts[path[:size]]
        if isinstance(branch, ir.Branch) and variables(branch.condition) == frozenset((SUBBLOCK_IDX,)):
            holds = [bool(evaluate(branch.condition, {SUBBLOCK_IDX: vector})) for vector in (0, 1)]
            if sum(holds) == 1:
                return size, holds.index(path[size] == 0)
    return None


def link_between(edited: Edited, first: Path, then: Path, src: str, dst: str) -> order.Link | None:
    """A flag between two statements, from pipe to pipe; without a loop around, from the first in the text. From a pipe
    to itself it is a barrier. None between the arms of a branch, which two cores of a block take."""
    block, one, other = meeting_block(first, then)
    if one == other and len(block) + 1 < len(first) and not edited.outline.around(block):
        return None
    if src == dst:
        return order.Link(src, dst, block, one + 1, other, events=0)
    if other <= one and not edited.outline.around(block):
        return order.Link(dst, src, block, other + 1, one)
    return order.Link(src, dst, block, one + 1, other)


def handed_over(edited: Edited, program: ir.Program, profile: Profile, races: Iterable[Race]) -> list[Unit]:
    """Flags between the cores for races whose ends only one vector core, or the cube core, comes to; with ids that
    `program` does not use."""
    found: list[Unit] = []
    free, both = order.free_ids(program, profile), sets_both(program, profile)
    for race in races:
        ids, cores = free[core_of(race.src), ""], (core_of(race.src), core_of(race.dst))
        own = [vector_at(edited.statements, path) for path in (race.first, race.then)]
        if cores[0] == cores[1] or not ids or None in own:
            continue
        second = own[cores.index(VECTOR_CORE.name)] != 0 and not both
        event = ids.pop(0)
        ends = ("set", race.first, race.src, 1, order.SET), ("wait", race.then, race.dst, 0, order.WAIT)
        unit = list[Edit]()
        for action, path, pipe, side, rank in ends:
            own_event = event + CROSS_IDS * (second and core_of(pipe) != VECTOR_CORE.name)
            flag = ir.CrossFlag(action, core_of(pipe), unit_of(pipe), own_event)
            unit += edited.added(path[:-1], (path[-1] + side, rank, flag))
        found.append(tuple(unit))
    return found


def with_copies(program: ir.Program) -> ir.Program:
    """The program with several copies of a tile whose address alternates with the iterations of the loop around it."""

    def changed(block: ir.Block, loop: ir.Loop | None) -> ir.Block:
        done: list[ir.Stmt] = []
        for stmt in block:
            inner = stmt if isinstance(stmt, ir.Loop) else loop
            new = ir.with_blocks(stmt, (changed(each, inner) for each in ir.children(stmt)))
            done.append(_with_copies(new, loop) if isinstance(new, ir.TileDecl) and loop else new)
        return tuple(done)

    return replace(program, body=changed(program.body, None))


def _with_copies(tile: ir.TileDecl, loop: ir.Loop) -> ir.TileDecl:
    if (
        len(tile.addresses) != 1
        or not isinstance(loop.start, int)
        or variables(tile.addresses[0]) != frozenset((loop.var,))
    ):
        return tile
    start, step = loop.start, loop.step
    found = [evaluate(tile.addresses[0], {loop.var: start + step * k}) for k in range(2 * MOST_COPIES)]
    for period in range(2, MOST_COPIES + 1):
        if all(address == found[k % period] for k, address in enumerate(found)):
            return replace(tile, addresses=tuple(found[:period]), buffers=period)
    return tile


# --- flags that are there, and wrong


@dataclass(frozen=True)
class Race:
    """Two statements that nothing orders, and the pipes that a flag between them needs."""

    first: Path
    then: Path
    src: str
    dst: str
    within: bool = False
    """Whether both are on one pipe, whose instructions may overlap."""


STUCK, LEFT, DOUBLED, EARLY, OPEN, OVERFLOW = "stuck", "left", "doubled", "early", "open", "overflow"


@dataclass(frozen=True)
class FlagFault:
    """A set or a wait that does not fit the others of its flag, in a run."""

    kind: str
    """`stuck`: a wait that never ends. `left`: a set that nothing waits for. `doubled`: a set without a wait since the
    one before. `early`: one while that wait may not be over. Between the cores, `open`: the end of a flag in no order
    with the one before; `overflow`: one set too many ahead of the waits."""
    path: Path
    events: tuple[int, ...]
    """The event ids that it concerns, each as often as it is missing."""
    earlier: Path | None = None
    """Of faults with both ends: the end before."""


Pairs = set[tuple[Path, Path]]
"""Sets and the waits for them, in the order of issue."""
Maybe = tuple[Edit | None, ...]


def cures(
    edited: Edited,
    profile: Profile,
    faults: Iterable[FlagFault],
    fault: FlagFault,
    pairs: Pairs,
    seen: Iterable[Race],
    *,
    alternate: bool,
) -> Iterator[Unit]:
    """Edits that may cure one of the faults, the best first. `seen` are races of the run; with `alternate`, ids may
    alternate with iterations."""
    stmt = edited.statements[fault.path]
    if not isinstance(stmt, ir.Flag | ir.CrossFlag):
        return
    if fault.kind in (STUCK, LEFT):
        possible = (Race(a.path, b.path, a.pipe, b.gate) for a, b in order.races(edited.program, profile))
        found = _unpaired(edited, profile, faults, fault, stmt, dict.fromkeys((*seen, *possible)))
    else:
        found = _paired(edited, profile, fault, stmt, pairs)
    for unit in found:
        known = tuple(edit for edit in unit if edit is not None)
        if len(known) == len(unit) and (alternate or not any(_is_computed(edit) for edit in unit)):
            yield known


def _is_computed(edit: Edit | None) -> bool:
    """Whether an edit adds a flag whose id is computed."""
    stmt = edit.stmt if edit and edit.action != REMOVE else None
    return isinstance(stmt, AnyFlag) and not isinstance(stmt.event, int)


def _unpaired(
    edited: Edited,
    profile: Profile,
    faults: Iterable[FlagFault],
    fault: FlagFault,
    stmt: AnyFlag,
    known: Iterable[Race],
) -> Iterator[Maybe]:
    """For a wait without a set, or a set without a wait: do on one vector core what the other does, use the id of one
    that lacks this, add the other one outside the loop, remove it, or add the other one where it orders something."""
    is_wait = fault.kind == STUCK
    partners = {path: each for path, each in edited.statements.items() if _are_ends(each, stmt)}
    for path, each in partners.items():
        yield from _mirrored(edited, profile, path, each) if _is_same_number(each, stmt) else ()
    for lacking in faults:
        mate = partners.get(lacking.path)
        if lacking.kind in (STUCK, LEFT) and mate and not _is_same_number(mate, stmt):
            event = apply("mod", mate.event, CROSS_IDS) if stmt.core == VECTOR_CORE.name else mate.event
            yield (edited.replaced(fault.path, replace(stmt, event=event)),)
    same = {path: each for path, each in partners.items() if isinstance(stmt, ir.Flag) or _may_meet(each, stmt)}
    pipes, ends_of_flag = _other_pipes(edited, stmt, same.values()), partial(_other_ends, edited, profile)
    for loop in _loops_around(edited, fault.path, [*same]):
        *block, number = loop
        at, rank = (number, order.PRIME) if is_wait else (number + 1, order.DRAIN)
        for ends in zip(*(ends_of_flag(replace(stmt, event=event), pipes[0]) for event in fault.events), strict=True):
            yield edited.added(tuple(block), *((at, rank, end) for each in ends for end in each))
    yield (edited.removed(fault.path),)
    for race in _either_way(known) if isinstance(stmt, ir.CrossFlag) else known:
        if _orders(stmt, race):
            mate, pipe = (race.first, race.src) if is_wait else (race.then, race.dst)
            block, mine, theirs = meeting_block(fault.path, mate)
            fits = isinstance(stmt.event, int) or len(block) + 1 == len(fault.path)
            follows = theirs < mine if is_wait else mine < theirs
            if mine == theirs:  # in the arms of two cores
                *inside, theirs = mate
                block = tuple(inside)
            if fits and (follows or isinstance(stmt, ir.CrossFlag) or edited.outline.around(block)):
                at, rank = (theirs + 1, order.SET) if is_wait else (theirs, order.WAIT)
                for ends in ends_of_flag(stmt, unit_of(pipe)):
                    yield edited.added(block, *((at, rank, end) for end in ends))
    *block, number = fault.path
    at, rank = (number, order.WAIT) if is_wait else (number + 1, order.SET)
    for ends in (ends for pipe in pipes for ends in ends_of_flag(stmt, pipe)):
        yield edited.added(tuple(block), *((at, rank, end) for end in ends))


def _is_same_number(one: AnyFlag, other: AnyFlag) -> bool:
    """Whether two flags have one id; between the cores, with whichever vector core."""
    return apply("mod", one.event, CROSS_IDS) == apply("mod", other.event, CROSS_IDS)


def _mirrored(edited: Edited, profile: Profile, path: Path, stmt: AnyFlag) -> Iterator[Maybe]:
    """A statement of one vector core for the other one too: where that does the same, or uses the same pipe."""
    found = vector_arm(edited.statements, path)
    if found is None or not isinstance(stmt, ir.CrossFlag) or stmt.core != VECTOR_CORE.name:
        return
    arm, side = (*path[: found[0]], 1 - path[found[0]]), int(stmt.action == "set")
    rank = order.SET if side else order.WAIT
    other = {at: each for at, each in edited.statements.items() if at[: len(arm)] == arm}
    *block, number = path
    beside = [*range(number - 1, -1, -1)] if side else [*range(number + 1, len(edited.statements))]
    siblings = [edited.statements[*block, at] for at in beside if (*block, at) in edited.statements]
    pipe = f"{stmt.core}.{stmt.pipe}"
    users = [each for each in siblings if _uses(each, pipe, edited.program, profile)]
    places = [{each.where} for each in users[:1] or siblings]
    twins = next(
        filter(None, ([to for to, each in other.items() if each.where in some] for some in places)), list[Path]()
    )
    alone = [[to] for to, each in other.items() if _uses(each, pipe, edited.program, profile)]
    for chosen in [twins] if twins else (alone[::-1] if side else alone)[:MOST_PLACES]:
        ends = [(to, (to[-1] + side, rank, _moved(edited, stmt, path, to))) for to in chosen]
        yield tuple(edit for to, end in ends for edit in edited.added(to[:-1], end))


def _uses(stmt: ir.Stmt, pipe: str, program: ir.Program, profile: Profile) -> bool:
    return isinstance(stmt, ir.Instr) and pipe in busy_pipes(program, stmt, profile)


def _moved(edited: Edited, stmt: AnyFlag, path: Path, to: Path) -> AnyFlag:
    """A flag in other loops: an event id that they count."""
    loops = [[edited.outline.loops[body].var for body in edited.outline.around(at)] for at in (path, to)]
    return replace(stmt, event=substitute(stmt.event, dict(zip(*loops, strict=False))), where=None)


def _either_way(known: Iterable[Race]) -> Iterator[Race]:
    """Races as they ran, and the other way round: the statements of two cores are in no order."""
    for race in known:
        yield from (race, Race(race.then, race.first, race.dst, race.src))


def _are_ends(one: ir.Stmt, other: AnyFlag) -> TypeGuard[AnyFlag]:
    """Whether two statements are a set and a wait of flags between the same pipes, or the same cores."""
    if not isinstance(one, AnyFlag) or type(one) is not type(other):
        return False
    return one.action != other.action and order.pair_of(one) == order.pair_of(other)


def _may_meet(one: AnyFlag, other: AnyFlag) -> bool:
    """Whether the ids of two flags may be equal."""
    (low, high), (least, most) = interval(one.event, {}), interval(other.event, {})
    return low <= most and least <= high


def _other_ends(edited: Edited, profile: Profile, stmt: AnyFlag, pipe: str) -> list[tuple[AnyFlag, ...]]:
    """The wait of a set, or the set of a wait; between the cores, on a pipe of the other core: with the first vector
    core, the second, or both."""
    action = "set" if stmt.action == "wait" else "wait"
    if isinstance(stmt, ir.Flag):
        return [(replace(stmt, action=action, where=None),)]
    made = ir.CrossFlag(action, OTHER[stmt.core], pipe, stmt.event)
    if edited.program.vector_cores < 2 or sets_both(edited.program, profile):
        return [(made,)]
    if made.core == VECTOR_CORE.name:
        return [(replace(made, event=apply("mod", stmt.event, CROSS_IDS)),)]
    second = replace(made, event=apply("add", stmt.event, CROSS_IDS))
    return [(made,), (second,), (made, second)]


def _other_pipes(edited: Edited, stmt: AnyFlag, partners: Iterable[ir.Stmt]) -> list[str]:
    """The pipes of the ends that may belong to one: between the cores, those of `partners`, then of other flags."""
    statements = [*partners, *edited.statements.values()]
    flags = [each for each in statements if isinstance(each, ir.CrossFlag) and isinstance(stmt, ir.CrossFlag)]
    return [*dict.fromkeys((*(each.pipe for each in flags if each.core != stmt.core), SCALAR))]


def _orders(stmt: AnyFlag, race: Race) -> bool:
    """Whether a flag goes from the pipe, or the core, of a race to the other one."""
    if isinstance(stmt, ir.Flag):
        return (unit_of(race.src), unit_of(race.dst)) == (stmt.src, stmt.dst)
    return (core_of(race.src), core_of(race.dst)) == ends_of(stmt)


def _loops_around(edited: Edited, path: Path, partners: list[Path]) -> list[Path]:
    """The outermost and the innermost loop around a statement and one of its partners."""
    bodies = edited.outline.around(path)
    shared = [body[:-1] for body in bodies if any(partner[: len(body)] == body for partner in partners)]
    return [*dict.fromkeys((*shared[:1], *shared[-1:]))]


def _paired(edited: Edited, profile: Profile, fault: FlagFault, stmt: AnyFlag, pairs: Pairs) -> Iterator[Maybe]:
    """For a set that comes too early, or an end in no order with another: remove one of the two, use other ids, or
    wait for the other."""
    *inside, number = fault.path
    block = tuple(inside)
    if fault.kind != OVERFLOW:
        yield (edited.removed(fault.path),)
        if fault.earlier is not None and fault.earlier != fault.path:
            yield (edited.removed(fault.earlier),)
        if isinstance(stmt, ir.Flag):
            yield edited.added(block, (number, order.REPLY_WAIT, replace(stmt, action="wait", where=None)))
        yield from _renamed(edited, profile, fault, stmt, pairs)
    earlier = edited.statements[fault.earlier] if fault.earlier else None
    if isinstance(stmt, ir.CrossFlag) and isinstance(earlier, ir.CrossFlag) and stmt.pipe != earlier.pipe:
        core = stated_core(stmt.core, earlier.pipe, stmt.pipe)
        yield from _linked(edited, profile, (earlier.pipe, stmt.pipe), core, fault.earlier or (), fault.path)
    for wait in sorted(wait for first, wait in pairs if first == (fault.earlier or fault.path)):
        yield from _answered(edited, profile, fault, stmt, wait)
    if isinstance(stmt, ir.Flag):
        barrier = ir.Barrier("ALL", core=_core_of(stmt, edited.program))
        yield edited.added(block, (number, order.REPLY_WAIT, barrier))


def _core_of(flag: ir.Flag, program: ir.Program) -> str:
    """The core of a flag; empty if the program has one core."""
    own = owners(flag.src, flag.dst)
    return flag.core or (own[0] if len(own) == 1 and len(StatementCores(program).all) > 1 else "")


def _renamed(edited: Edited, profile: Profile, fault: FlagFault, stmt: AnyFlag, pairs: Pairs) -> Iterator[Maybe]:
    """Another id for the set and all that it is paired with; in a loop, ids that alternate."""
    group = component(fault.path, pairs)
    others = Edited(edited.program, [tuple(Edit(REMOVE, path, stmt) for path in group)]).program
    free = order.free_ids(others, profile)[order.pair_of(stmt)]
    flags = [(path, flag) for path in group if isinstance(flag := edited.statements[path], AnyFlag)]
    if fault.earlier not in group and free and all(isinstance(flag.event, int) for _, flag in flags):
        yield tuple(edited.replaced(path, replace(flag, event=free[0], where=None)) for path, flag in flags)
    homes = {path[:-1] for path in group}
    loops = edited.outline.around(fault.path)
    pair = next((id for id in free if id + 1 in free), None)
    if len(group) == 2 and len(homes) == 1 and loops and loops[-1] == fault.path[:-1] and pair is not None:
        event = apply("add", pair, apply("mod", ir.iteration(edited.outline.loops[loops[-1]]), 2))
        yield tuple(edited.replaced(path, replace(flag, event=event, where=None)) for path, flag in flags)


def _linked(edited: Edited, profile: Profile, pipes: Pair, core: str, first: Path, then: Path) -> Iterator[Maybe]:
    """A flag between two pipes of a core, from one statement to the other: waited for before that, or at once."""
    free = order.free_ids(edited.program, profile)[pipes]
    block, one, other = meeting_block(first, then)
    for wait_at in dict.fromkeys((other, one + 1)) if free and one < other else ():
        ends = (one + 1, order.SET, "set"), (wait_at, order.WAIT, "wait")
        flags = ((at, rank, ir.Flag(action, *pipes, free[0], core=core)) for at, rank, action in ends)
        yield edited.added(block, *flags)


def _answered(edited: Edited, profile: Profile, fault: FlagFault, stmt: AnyFlag, wait: Path) -> Iterator[Maybe]:
    """A flag back: set after the wait, waited for before the set. Between the cores it may also be waited for at
    once."""
    waiting = edited.statements[wait]
    if isinstance(stmt, ir.Flag):
        back = ir.Flag("set", stmt.dst, stmt.src, 0, core=stmt.core)
        ends: dict[str, AnyFlag] = {"set": back, "wait": replace(back, action="wait")}
    else:
        assert isinstance(waiting, ir.CrossFlag)
        ends = {"set": replace(waiting, action="set", where=None), "wait": replace(stmt, action="wait", where=None)}
    free = order.free_ids(edited.program, profile)[order.pair_of(ends["set"])]
    if not free:
        return
    sets, waits = (replace(ends[action], event=free[0]) for action in ("set", "wait"))
    block, one, other = meeting_block(wait, fault.path)
    if isinstance(stmt, ir.CrossFlag):
        yield edited.added(block, (one + 1, order.SET, sets), (one + 1, order.WAIT, waits))
    around = edited.added(block, (one + 1, order.REPLY_SET, sets), (other, order.REPLY_WAIT, waits))
    loops = edited.outline.around(block)
    if other <= one and loops:
        *outer, at, _ = loops[0]
        around += edited.added(tuple(outer), (at, order.PRIME, sets), (at + 1, order.DRAIN, waits))
    yield around


def component(path: Path, pairs: Pairs) -> list[Path]:
    """The statements that are paired with one, with those of it, and so on; in the order of the text."""
    found, size = {path}, 0
    while len(found) > size:
        size = len(found)
        found |= {each for pair in pairs if found & {*pair} for each in pair}
    return sorted(found)


# --- flags that nothing needs


def removable(edited: Edited, pairs: Pairs) -> list[Unit]:
    """What can only go together: barriers, then sets with their waits; each the removal of statements."""
    units: list[list[Path]] = [[path] for path, stmt in edited.statements.items() if isinstance(stmt, ir.Barrier)]
    left = sorted({path for pair in pairs for path in pair})
    while left:
        units.append(component(left[0], pairs))
        left = [path for path in left if path not in units[-1]]
    found = [tuple(edited.removed(path) for path in unit) for unit in units]
    return [tuple(edit for edit in unit if edit is not None) for unit in found if None not in unit]


def conflicts_with(program: ir.Program, profile: Profile) -> set[tuple[Path, Path]]:
    """Pairs of statements that may race, or overlap, on any path of the program."""
    found = (*order.races(program, profile), *order.overlaps(program, profile))
    return {(first.path, then.path) for first, then in found}
