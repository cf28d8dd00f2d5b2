"""Repairs: the smallest change of a program's flags that makes it clean, and flags that nothing needs.

Every proposal was run on the machine, on the arrays of the launch.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

from ptokit.machine.report import NEEDLESS, ORDER, Patcher, Repair
from ptokit.machine.trial import MOST_STEPS, Faults, Replay
from ptokit.program import ir, repair
from ptokit.program.cores import OTHER, StatementCores
from ptokit.program.expr import Expr, apply
from ptokit.program.instr_calls import access_of, named_operands
from ptokit.program.ir import CPP, Barrier, Instr, LoadScalar, Program, Stmt, View, transform, walk
from ptokit.program.memory import Path, statements
from ptokit.program.order import WAIT, Insertion
from ptokit.program.streams import is_second, sets_both
from ptokit.target.profile import CROSS_IDS, VECTOR_CORE
from ptokit.target.registry import PROFILES

MOST_RUNS = 120
"""Runs on the machine that a search may take."""
MOST_CURES = 8
"""Faulty flags that are cured, one after the other."""
MOST_CAUSES = 3
"""How many waits that never end are tried at a time; any of them may be the cause."""
MOST_PATCHES = 3
"""Repairs that are tried until the source can express one."""
MOST_BLOCKS = 8
"""Blocks that a search runs; its result is run on all."""
MOST_ROUNDS = 4
"""How often a search is repeated with blocks that its result did not make clean."""

Units = tuple[repair.Unit, ...]


def repairs(replay: Replay, patched: Patcher, is_ok: bool) -> tuple[Repair, ...]:
    """The repair of a launch; for one without any fault (`is_ok`), what can be removed. `patched` makes the change in
    the user's source."""
    search = Search(replay, alternates=True)
    first = search.faults(())
    if first.is_clean and not is_ok and search.is_short:
        search.lengthen()
        first = search.faults(())
    if first.is_clean:
        removed = search.needless(first) if is_ok else []
        return tuple(_repair(search, NEEDLESS, repair.in_order(unit), cycles, patched) for unit, cycles in removed)
    made = _order(search, first, patched)
    if replay.program.form and made and made[0].patch.refusal:  # maybe an id that the text cannot compute
        plain = _order(Search(replay, alternates=False), first, patched)
        return plain if plain and not plain[0].patch.refusal else made
    return made


def _order(search: Search, first: Faults, patched: Patcher) -> tuple[Repair, ...]:
    """The repair of a faulty launch, if there is one: the smallest that the source can express, else the smallest."""
    made = list[Repair]()
    has_source = not patched((), lambda _: True).refusal
    while len(made) < (MOST_PATCHES if has_source else 1) and (found := search.order(first)):
        cycles = search.cycles(found)
        made.append(_repair(search, ORDER, repair.in_order(edit for unit in found for edit in unit), cycles, patched))
        if not made[-1].patch.refusal:
            return (made[-1],)
        search.refused.add(made[-1].edits)
    return tuple(made[:1])


def _repair(search: Search, kind: str, edits: repair.Unit, cycles: float, patched: Patcher) -> Repair:
    patch = patched(edits, partial(search.is_right, edits))
    return Repair(kind, search.replay.target, edits, cycles, search.program.form, patch)


class Search:
    """Tries edits of a program on the machine."""

    def __init__(self, replay: Replay, *, alternates: bool) -> None:
        self.replay, self.program, self.profile = replay, replay.program, replay.executable.profile
        self.both = sets_both(self.program, self.profile)
        self.alternates = alternates
        """Whether event ids may be expressions."""
        self.refused: set[repair.Unit] = set()
        """Repairs that are not wanted."""
        self.blocks: Sequence[int] = range(replay.grid)
        self.is_short = replay.is_long
        """Whether loops are tried in part; what is found is run whole."""
        self._whole: dict[repair.Unit, Faults] = {}
        """Programs with edits that were run whole, all blocks of them."""
        self._known: dict[repair.Unit, Faults] = {}
        self._early: dict[tuple[bool | int, ...], int] = {}
        """Flags that the program sets early, in some blocks."""
        self._runs = 0
        self._best: Units | None = None
        self._limit = float("inf")
        """What a better repair has to count less than."""

    def faults(self, units: Units, *, timed: bool = False) -> Faults:
        """The faults of the program with edits, in the chosen blocks."""
        key = repair.in_order(edit for unit in units for edit in unit)
        if timed or key not in self._known:
            self._runs += 1
            edited = repair.Edited(self.program, units)
            self._known[key] = self._run(edited, self.blocks, timed=timed, is_short=self.is_short)
        return self._known[key]

    def _run(
        self, edited: repair.Edited, blocks: Sequence[int], *, timed: bool = False, is_short: bool = False
    ) -> Faults:
        """The faults of an edited program. Flags that are set early count if there are more of them than before."""
        most, key = MOST_STEPS if is_short else None, (is_short, *blocks)
        found = self.replay.faults(edited, blocks, timed=timed, most=most)
        if found.early and key not in self._early:
            self._early[key] = len(self.replay.faults(repair.Edited(self.program, ()), blocks, most=most).early)
        if len(found.early) > self._early.get(key, 0):
            found.flags += found.early
        return found

    def _choose(self, blocks: Iterable[int]) -> None:
        """Search in some blocks, with the first and the last."""
        last = self.replay.grid - 1
        self.blocks = sorted({0, last, *list(blocks)[:MOST_BLOCKS]}) if last >= MOST_BLOCKS else range(last + 1)
        self._known.clear()
        self._runs = 0

    def _confirmed(self, units: Units) -> bool:
        """Whether all blocks are clean, run whole; if not, the search goes on with those that are not."""
        if len(self.blocks) == self.replay.grid and not self.is_short:
            return True
        found = self._run_whole(units)
        if not found.is_clean:
            self.blocks = sorted({*self.blocks, *found.blocks[:MOST_BLOCKS]})
            self.lengthen()
        return found.is_clean

    def lengthen(self) -> None:
        """Go on with whole loops."""
        self.is_short = False
        self._known.clear()
        self._runs = 0

    def _run_whole(self, units: Units) -> Faults:
        key = repair.in_order(edit for unit in units for edit in unit)
        if key not in self._whole:
            self._whole = {key: self._run(repair.Edited(self.program, units), range(self.replay.grid))}
        return self._whole[key]

    def cycles(self, units: Units) -> float:
        """How many cycles more a launch takes with edits; of a long one, those of the part that a search runs."""
        if self.is_short:
            return self.faults(units, timed=True).cycles - self.faults((), timed=True).cycles
        edited = repair.Edited(self.program, units).program
        before, after = self.replay.report().timeline, self.replay.report(edited).timeline
        return after.cycles - before.cycles if before and after else 0.0

    def is_right(self, edits: repair.Unit, found: Program) -> bool:
        """Whether a program is that with edits, or as good: clean, with no more flags, and the same otherwise."""
        edited = repair.Edited(self.program, (edits,))
        expected = edited.program
        if found == expected:
            return True
        if found.form.startswith(CPP):  # a recording of changed code may be divided into other loops
            ran = self._run(repair.Edited(found, ()), range(self.replay.grid))
            return _executed(found, ran) == _executed(expected, self._run_whole((edits,)))
        is_alike = _without_flags(found) == _without_flags(expected) and _flags(found) <= _flags(expected)
        return is_alike and self._run(repair.Edited(found, ()), range(self.replay.grid)).is_clean

    # --- missing order

    def order(self, first: Faults) -> Units | None:
        """The smallest change that makes the program clean; None if none was found."""
        self._choose(first.blocks)
        for _ in range(MOST_ROUNDS):
            self._best, self._limit = None, float("inf")
            self._postpone()
            if self._best is None:
                self._start_anew()
                self._solve((), 0)
            if self._best is None or self._confirmed(self._best):
                return self._best
        return None

    def _postpone(self) -> None:
        """For cores that wait for each other: let one of them wait where it needs what the other one wrote."""
        if not any(fault.kind == repair.STUCK for fault in self.faults(()).flags):
            return
        for unit in postponed(repair.Edited(self.program, ()), both=self.both):
            if self._best is None and self._run_whole((unit,)).is_clean:
                self._offer_whole((unit,))

    def _start_anew(self) -> None:
        """Replace flags that are wrong, or all flags, by those that auto mode adds: a bound for the search."""
        edited, faults = repair.Edited(self.program, ()), self.faults(())
        wrong = [fault.path for fault in faults.flags]
        for paths in (wrong, [path for path, stmt in edited.statements.items() if isinstance(stmt, repair.Sync)]):
            groups = dict.fromkeys(tuple(repair.component(path, faults.pairs)) for path in paths)
            units = [tuple(edit for path in group if (edit := edited.removed(path))) for group in groups]
            if wrong and self._best is None:
                self._add_flags(tuple(unit for unit in units if unit), MOST_CURES)
        self._limit += 0.5  # a cure that counts as much is better

    def _solve(self, units: Units, depth: int) -> None:
        """Cure one fault after the other, in every way that may be better than the best so far."""
        if repair.cost(units) >= self._limit or depth > MOST_CURES or self._runs >= MOST_RUNS:
            return
        faults = self.faults(units)
        if faults.is_clean:
            self._offer(units)
            return
        if faults.races and not faults.unpaired:
            self._add_flags(units, depth)
        if faults.flags and (faults.unpaired or not faults.races or faults.flags[0].kind == repair.OPEN):
            edited = repair.Edited(self.program, units)
            chosen = [fault for fault in faults.flags if fault.kind == repair.STUCK][:MOST_CAUSES] or faults.flags[:1]
            cure = partial(repair.cures, edited, self.profile, faults.flags, pairs=faults.pairs, seen=faults.races)
            found = (unit for fault in chosen for unit in cure(fault, alternate=self.alternates))
            tried = [(*units, unit) for unit in found if repair.cost((*units, unit)) < self._limit]
            for each in sorted(tried, key=lambda each: self.faults(each).count + repair.cost(each)):
                self._solve(each, depth + 1)

    def _add_flags(self, units: Units, depth: int) -> None:
        """Add all flags that are missing: what the accesses of the program need, then what the machine found."""
        edited = repair.Edited(self.program, units)
        for alternate in (True, False) if self.alternates else (False,):
            added = (*units, *self._missing(edited, (), alternate))
            found = self.faults(added)
            if found.races:
                after = repair.Edited(self.program, added)
                ends = ((after.origin(race.first), after.origin(race.then), race) for race in found.races)
                races = [
                    replace(race, first=edited.now(first), then=edited.now(then))
                    for first, then, race in ends
                    if first is not None and then is not None and (race.src != race.dst or race.within)
                ]
                links = {race: repair.link_between(edited, race.first, race.then, race.src, race.dst) for race in races}
                added = (*units, *self._missing(edited, filter(None, links.values()), alternate))
                apart = [race for race, link in links.items() if link is None]
                added = (
                    *added,
                    *repair.handed_over(edited, repair.Edited(self.program, added).program, self.profile, apart),
                )
                found = self.faults(added)
            if found.is_clean:
                self._offer(added)
                return
            if len(added) > len(units) and (found.unpaired or not found.races):
                self._solve(added, depth + 1)

    def _missing(self, edited: repair.Edited, links: Iterable[Any], alternate: bool) -> list[repair.Unit]:
        return repair.missing_order(edited, self.profile, links, alternate=alternate)

    def _offer(self, units: Units) -> None:
        """Keep what is clean, without what it does not need, if it is better than the best so far."""
        for unit in sorted(units, key=lambda unit: -repair.cost([unit])):
            rest = tuple(other for other in units if other != unit)
            if self.faults(rest).is_clean:
                units = rest
        edits = repair.without_undone(edit for unit in units for edit in unit)
        is_simpler = repair.cost((edits,)) < repair.cost(units) and self.faults((edits,)).is_clean
        self._offer_whole((edits,) if is_simpler else units)

    def _offer_whole(self, units: Units) -> None:
        """Keep what is clean, if it is better than the best so far, and means the same."""
        edits = repair.in_order(edit for unit in units for edit in unit)
        if repair.cost(units) >= self._limit or edits in self.refused:
            return
        if keeps_flows(repair.Edited(self.program, ()), repair.Edited(self.program, units), both=self.both):
            self._best, self._limit = units, repair.cost(units)

    # --- needless flags

    def needless(self, first: Faults) -> list[tuple[repair.Unit, float]]:
        """Units that nothing needs, each given that those before it go, and the cycles that its removal changes."""
        removable = repair.removable(repair.Edited(self.program, ()), first.pairs)
        units = [unit for unit in removable if _is_of_order(unit)]
        if not units:
            return []
        self._choose(range(self.replay.grid))
        others = self._others()
        for _ in range(MOST_ROUNDS):
            found = self._removed(units, others)
            if self._confirmed(tuple(unit for unit, _ in found)):
                return found
        return []

    def _others(self) -> list[Search]:
        """Searches on the other targets that the program may be for: all that can run it, unless it names its own."""
        if self.program.mode != "manual" or self.program.arch:
            return []
        found: list[Search] = []
        for profile in PROFILES.values():
            is_same = self.program.vector_cores < 2 or sets_both(self.program, profile) == self.both
            if profile.pipes and profile.is_family and profile.name != self.profile.family and is_same:
                search = Search(self.replay.on(profile), alternates=False)
                search.blocks = self.blocks
                found += [search] if search.faults(()).error is None else []
        return found

    def identified(self, units: Units) -> set[object]:
        """The faults with edits, by the statements before."""
        origin, found = repair.Edited(self.program, units).origin, self.faults(units)
        races = {(origin(race.first), origin(race.then), race.src, race.dst) for race in found.races}
        flags = {(fault.kind, origin(fault.path)) for fault in found.flags}
        return {*races, *flags, *self._dependent(units), *(["error"] if found.error else [])}

    def _dependent(self, units: Units) -> set[object]:
        """Dependent statements of one pipe that may overlap with edits, by the statements before."""
        origin, found = repair.Edited(self.program, units).origin, self.faults(units)
        return {("alike", origin(first), origin(then)) for first, then in found.alike}

    def _removed(self, units: list[repair.Unit], others: list[Search]) -> list[tuple[repair.Unit, float]]:
        base = self.faults((), timed=True)
        gains: list[tuple[float, int, repair.Unit]] = []
        for number, unit in enumerate(units):
            found = self.faults((unit,), timed=True)
            if found.is_clean:
                gains.append((found.cycles - base.cycles, number, unit))
        gone: Units = ()
        kept: list[tuple[repair.Unit, float]] = []
        cycles = base.cycles
        for _, _, unit in sorted(gains, key=lambda gain: gain[:2]):
            without = (*gone, unit)
            found = self.faults(without, timed=True)
            is_clean = found.is_clean and self._dependent(without) <= self._dependent(())
            is_clean = is_clean and all(other.identified(without) <= other.identified(()) for other in others)
            if is_clean and self._is_unneeded(without, base):
                kept.append((unit, found.cycles - cycles))
                gone, cycles = (*gone, unit), found.cycles
        return kept

    def _is_unneeded(self, gone: Units, base: Faults) -> bool:
        """Whether no path of the program needs what goes. What the run has executed is judged by the run."""
        edited = repair.Edited(self.program, gone)
        before = repair.conflicts_with(self.program, self.profile)
        after = {(edited.origin(a), edited.origin(b)) for a, b in repair.conflicts_with(edited.program, self.profile)}
        return all(self._was_tried(*pair, base) for pair in after - before if None not in pair)  # type: ignore[arg-type]

    def _was_tried(self, first: Path, then: Path, base: Faults) -> bool:
        """Whether the run has shown that two statements do not conflict: both ran, and touch no common array."""
        statements = repair.Edited(self.program, ()).statements
        often = 2 if first >= then else 1
        return min(base.executed[first], base.executed[then]) >= often and not (
            _arrays(statements[first]) & _arrays(statements[then])
        )


def _executed(program: Program, faults: Faults) -> Counter[str] | None:
    """How often a program that is clean executes each kind of instruction; None for one that is not clean."""
    count = Counter[str]()
    for path, stmt in statements(program.body):
        count[stmt.name if isinstance(stmt, Instr) else ""] += faults.executed[path]
    return count if faults.is_clean else None


def _flags(program: Program) -> int:
    return sum(isinstance(stmt, repair.Sync) for stmt in walk(program.body))


def _without_flags(program: Program) -> Program:
    return replace(program, body=transform(program.body, lambda stmt: () if isinstance(stmt, repair.Sync) else stmt))


OF_ORDER = frozenset(("ALL", *(profile.overlapping for profile in PROFILES.values())))
"""The pipes of barriers that order something on some target."""


def _is_of_order(unit: repair.Unit) -> bool:
    """A barrier of another pipe says nothing to a model whose pipes run in order; it is left alone."""
    return not any(isinstance(edit.stmt, Barrier) and edit.stmt.pipe not in OF_ORDER for edit in unit)


def _arrays(stmt: Stmt) -> set[str]:
    if isinstance(stmt, LoadScalar):
        return {stmt.source.argument}
    operands = stmt.operands if isinstance(stmt, Instr) else ()
    return {operand.argument for operand in operands if isinstance(operand, View)}


# --- data that flags hand over from one core to the other


@dataclass(frozen=True)
class Flow:
    """A write of one core that a flag hands over to a read of the other."""

    write: Path
    read: Path


def keeps_flows(before: repair.Edited, after: repair.Edited, *, both: bool) -> bool:
    """Whether all that flags hand over in a program is handed over with edits too. `before` has no edits; `both`: one
    flag of the cube core is for both vector cores."""
    if not any(isinstance(stmt, ir.CrossFlag) for stmt in before.statements.values()):
        return True
    order = {path: number for number, path in enumerate(after.paths)}
    links = [(order[one], order[other]) for one, other in _links(after, both=both)]
    for flow in _flows(before, both=both):
        write, read = order[after.now(flow.write)], order[after.now(flow.read)]
        if not any(write < one and other < read for one, other in links):
            return False
    return True


def postponed(edited: repair.Edited, *, both: bool) -> Iterator[repair.Unit]:
    """Waits for the other core, each moved to the first instruction that reads what it hands over."""
    order = {path: number for number, path in enumerate(edited.paths)}
    for _, wait in _links(edited, both=both):
        stmt, removed = edited.statements[wait], edited.removed(wait)
        reads = [flow.read for flow in _flows(edited, wait, both=both)]
        if removed is not None and reads and isinstance(stmt, ir.CrossFlag):
            *block, number = min(reads, key=order.__getitem__)
            moved = Insertion(tuple(block), number, WAIT, stmt)
            if tuple(block) == wait[:-1] and number > wait[-1] + 1:
                yield removed, edited.inserted(moved)


def _links(edited: repair.Edited, *, both: bool) -> Iterator[tuple[Path, Path]]:
    """Sets of flags between the cores, and the waits that they belong to: the first to the first, outside of loops."""
    flags = {path: stmt for path, stmt in edited.statements.items() if isinstance(stmt, ir.CrossFlag)}
    ends: dict[tuple[str, Expr, str, int], list[Path]] = defaultdict(list)
    for path, stmt in flags.items():
        own = repair.vector_at(edited.statements, path) if stmt.core == VECTOR_CORE.name else None
        vectors = (int(is_second(stmt)),) if stmt.core != VECTOR_CORE.name and not both else (0, 1)
        for vector in vectors if own is None else (own,):
            ends[stmt.core, apply("mod", stmt.event, CROSS_IDS), stmt.action, vector].append(path)
    found: dict[tuple[Path, Path], None] = {}
    for (core, event, action, vector), paths in ends.items():
        if action == "set":
            waits = ends.get((OTHER[core], event, "wait", vector), [])
            in_loops = any(edited.outline.around(path) for path in (*paths, *waits))
            found |= dict.fromkeys(product(paths, waits) if in_loops else zip(paths, waits, strict=False))
    yield from found


def _flows(edited: repair.Edited, wait: Path | None = None, *, both: bool) -> Iterator[Flow]:
    """For each flag, or the one of a wait, the last write before its set and the first read after its wait of each
    memory."""
    cores = StatementCores(edited.program)
    order = {path: number for number, path in enumerate(edited.paths)}
    instructions = [(path, stmt) for path, stmt in edited.statements.items() if isinstance(stmt, ir.Instr)]
    for one, other in _links(edited, both=both):
        if wait not in (None, other):
            continue
        core = _core(edited.statements[one])
        written: dict[str, Path] = {}
        for path, instr in instructions:
            if core in cores.of(instr) and order[path] < order[one]:
                written |= dict.fromkeys(_memories(edited.program, instr, "read"), path)
        seen: dict[str, Path] = {}
        for path, instr in instructions:
            if OTHER[core] in cores.of(instr) and order[path] > order[other]:
                seen = dict.fromkeys(_memories(edited.program, instr, "write"), path) | seen
        yield from (Flow(written[memory], seen[memory]) for memory in written.keys() & seen.keys())


def _core(stmt: ir.Stmt) -> str:
    assert isinstance(stmt, ir.CrossFlag)
    return stmt.core


def _memories(program: ir.Program, instr: ir.Instr, without: str) -> Iterator[str]:
    """The arrays and tiles that an instruction accesses, other than by one kind of access."""
    access = access_of(instr)
    for name, operand in named_operands(instr).items():
        if access[name] != without and isinstance(operand, ir.View):
            yield program.tensors[operand.argument].array
        elif access[name] != without and isinstance(operand, ir.TileUse):
            yield f"tile {operand.tile}"
