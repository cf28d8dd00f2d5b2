"""Requirements of automatic flags: complete, minimal, and no other change of the program."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from ptokit.program.instr_calls import call_of
from ptokit.program.ir import Barrier, Block, Branch, Flag, Instr, Loop, Program, Stmt, walk
from ptokit.program.order import order
from ptokit.program.place import place
from ptokit.target import Profile
from tests.program.happens_before import Path, Place, check, execute, show, show_stmt
from tests.program.random_programs import Run, runs


def auto(program: Program, target: Profile) -> Program:
    """The program with addresses and flags."""
    return order(place(program, target).program, target)


def is_auto(stmt: Stmt) -> bool:
    """Whether auto mode put the statement there."""
    return isinstance(stmt, Flag | Barrier) and stmt.auto


def without(block: Block, paths: frozenset[Path], at: Path = ()) -> Block:
    """The block without the statements at these places."""
    kept: list[Stmt] = []
    for k, stmt in enumerate(block):
        here = (*at, k)
        if here in paths:
            continue
        if isinstance(stmt, Loop):
            stmt = replace(stmt, body=without(stmt.body, paths, (*here, 0)))
        elif isinstance(stmt, Branch):
            then, otherwise = without(stmt.then, paths, (*here, 0)), without(stmt.otherwise, paths, (*here, 1))
            stmt = replace(stmt, then=then, otherwise=otherwise)
        kept.append(stmt)
    return tuple(kept)


def places_of(block: Block, at: Path = ()) -> Iterator[tuple[Path, Stmt]]:
    """Every statement with its place."""
    for k, stmt in enumerate(block):
        here = (*at, k)
        yield here, stmt
        if isinstance(stmt, Loop):
            yield from places_of(stmt.body, (*here, 0))
        elif isinstance(stmt, Branch):
            yield from places_of(stmt.then, (*here, 0))
            yield from places_of(stmt.otherwise, (*here, 1))


def is_clean(program: Program, target: Profile, tries: Iterable[Run]) -> bool:
    """Whether nothing is wrong in any of these runs."""
    return not any(check(program, target, **run.arguments, within=True) for run in tries)


def assert_complete(ordered: Program, target: Profile, tries: Iterable[Run]) -> None:
    """No run has a fault."""
    for run in tries:
        faults = check(ordered, target, **run.arguments, within=True)
        assert not faults, "\n".join([f"{target.name}, {run}", *map(str, faults[:4]), show(ordered)])


def handovers(ordered: Program, target: Profile, tries: Iterable[Run]) -> list[frozenset[Path]]:
    """Flags that belong together, because some run lets a wait of them take a set of them.

    That joins the two ends of a plain hand-over, and the flags of a loop with those that prime and drain it.
    """
    pairs = {
        frozenset((done.issue.path, waiting.issue.path))
        for run in tries
        for done, waiting in execute(ordered, target, **run.arguments).matches()
    }
    joined: list[frozenset[Path]] = []
    for pair in pairs:
        mine = [group for group in joined if group & pair]
        joined = [group for group in joined if not group & pair] + [pair.union(*mine)]
    return joined


def superfluous(ordered: Program, target: Profile, tries: Sequence[Run] | None = None) -> list[list[str]]:
    """Hand-overs and barriers of auto mode that no run misses; of the runs given, or of many."""
    few, many = (runs(ordered, 40), tuple(runs(ordered, 1500))) if tries is None else (tries, tries)
    statements = dict(places_of(ordered.body))
    barriers = [frozenset({path}) for path, stmt in statements.items() if isinstance(stmt, Barrier)]
    found = []
    for group in (*handovers(ordered, target, few), *barriers):
        kinds = {is_auto(statements[path]) for path in group}
        assert len(kinds) == 1, f"flags of the user's and of auto mode are mixed up:\n{show(ordered)}"
        less = replace(ordered, body=without(ordered.body, group))
        if kinds == {True} and is_clean(less, target, many):
            found.append([f"{'.'.join(map(str, path))} {show_stmt(statements[path])}" for path in sorted(group)])
    return found


def assert_minimal(ordered: Program, target: Profile, tries: Sequence[Run] | None = None) -> None:
    """Without any flag that auto mode inserted there is a fault."""
    found = superfluous(ordered, target, tries)
    assert not found, "\n".join([f"{target.name}: nobody needs", *map(str, found), show(ordered)])


def assert_only_added(program: Program, ordered: Program) -> None:
    """Without what auto mode put in, the program is what it was."""
    added = frozenset(path for path, stmt in places_of(ordered.body) if is_auto(stmt))
    assert without(ordered.body, added) == program.body


def assert_leaves_event_0_to_kernels(ordered: Program, target: Profile) -> None:
    """Instructions with handshakes use event 0 of the pairs that they list."""
    calls = [call_of(ordered, stmt, target) for stmt in walk(ordered.body) if isinstance(stmt, Instr)]
    shakes = [call.route_kernel.handshake for call in calls]
    taken = {pair for shake in shakes for pair in (*shake.before, *shake.after)}
    mine = [stmt for stmt in walk(ordered.body) if isinstance(stmt, Flag) and stmt.auto]
    assert not [stmt for stmt in mine if (stmt.src, stmt.dst) in taken and stmt.event == 0]


def assert_keeps_values(program: Program, put: Program, target: Profile, run: Run) -> None:
    """What a tile reads was written by that tile: no other tile has written to its bytes since."""
    writers: dict[Place, Place] = {}
    apart, together = execute(program, target, **run.arguments), execute(put, target, **run.arguments)
    for entry, twin in zip(apart.entries, together.entries, strict=True):
        touches = list(zip(entry.touches, twin.touches, strict=True))
        for (tile, writes), (where, _) in touches:
            if not writes and tile in writers.values():
                owners = {owner for at, owner in writers.items() if at.meets(where)}
                assert owners == {tile}, f"{entry} reads {tile.memory} at {where}, which {owners} wrote"
        for (tile, writes), (where, _) in touches:
            if writes and tile.memory.startswith("tile "):
                writers = {at: owner for at, owner in writers.items() if not at.meets(where)} | {where: tile}
