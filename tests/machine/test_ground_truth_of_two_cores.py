"""Random programs for two cores, with workspaces and loops: the machine finds what a search of all schedules finds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from random import Random
from typing import Any

import numpy as np
import pytest

import ptokit as pto
from tests.loops import FULL
from tests.machine.schedules import BARRIER, SET, WAIT, WORK, Access, Entry, Search, Verdict, faults_in
from tests.snippet import compiled

PROGRAMS = 2000 if FULL else 200
CHUNKS = 12
TARGETS = ("a2a3", "a5")
CORES = {"AIV": ("MTE2", "V", "MTE3"), "AIC": ("MTE2", "MTE1", "FIX")}
OTHER = {"AIV": "AIC", "AIC": "AIV"}
ORDER = pto.MachineOptions(checks=("order",), poison=False, consequences=True)


@dataclass(frozen=True)
class Line:
    """A line of a kernel, and what its core's pipes are given for it."""

    text: str
    entries: tuple[Entry, ...]

    @property
    def core(self) -> str:
        """The core that runs it; a barrier is one line of both."""
        return self.entries[0].core


def work(text: str, pipe: str, writes: dict[str, int] | None = None, reads: dict[str, int] | None = None) -> Line:
    """An instruction. Cells are given by memory: a tile, or 16 rows of an array."""
    hows = (("write", writes or {}), ("read", reads or {}))
    accesses = tuple(Access(name, frozenset((cell,)), how) for how, cells in hows for name, cell in cells.items())
    return Line(f"pto.{text}", (Entry(pipe, WORK, None, accesses),))


HEAD = """
@pto.kernel(mode="manual")
def kernel(x, y):
    a = pto.Tile("vec", "float32", 16, 16, addr=0)
    b = pto.Tile("vec", "float32", 16, 16, addr=0x1000)
    sums = pto.Tile("vec", "float32", 1, 16, addr=0x2000)
    m = pto.Tile("mat", "float32", 16, 16, addr=0, blayout="col_major", slayout="row_major")
    n = pto.Tile("mat", "float32", 16, 16, addr=0x1000, blayout="col_major", slayout="row_major")
    product = pto.Tile("acc", "float32", 16, 16, addr=0)
"""


class Draft:
    """Draws one program."""

    def __init__(self, seed: int) -> None:
        self.dice = Random(seed)
        self.target = TARGETS[seed % 2]
        self.used: Counter[object] = Counter()
        """Ids that are taken, by pair of pipes or by core."""

    def lines(self) -> list[Line]:
        """Instructions with their flags, mostly with some harm done to them."""
        lines = self.ordered([self.instruction() for _ in range(self.dice.randint(3, 5))])
        if self.dice.random() < 0.6:
            lines += self.meeting()
        for _ in range(self.dice.choice((0, 1, 1, 2, 3))):
            lines = self.harmed(lines)
        return lines

    def instruction(self) -> Line:
        """Loads and stores of both cores, vector instructions with and without a workspace, moves between the cores."""
        pick = self.dice.choice
        tile, other, mat, array, row = pick("ab"), pick("ab"), pick("mn"), pick("xxy"), pick((0, 0, 16))
        part = f"{array}[{row}:{row + 16}]"
        drawn = [
            work(f"tload({tile}, {part})", "AIV.MTE2", {tile: 0}, {array: row}),
            work(f"tstore({part}, {tile})", "AIV.MTE3", {array: row}, {tile: 0}),
            work(f"tadds({tile}, {tile}, 1.0)", "AIV.V", {tile: 0}),
            work(f"tcolsum(sums, {tile}, tmp={'b' if tile == 'a' else 'a'})", "AIV.V",
                 {"sums": 0, "b" if tile == "a" else "a": 0}, {tile: 0}),
            work(f"tload({mat}, {part})", "AIC.MTE2", {mat: 0}, {array: row}),
            work(f"tstore({part}, product)", "AIC.FIX", {array: row}, {"product": 0}),
        ]  # fmt: skip
        if self.target == "a5":
            drawn.append(work(f"tmov({other}, {mat})", "AIC.MTE1", {other: 0}, {mat: 0}))
        return pick(drawn)

    def ordered(self, works: list[Line]) -> list[Line]:
        """A flag for every conflict: set after the first, waited for before the second."""
        before: dict[int, list[Line]] = {k: [] for k in range(len(works))}
        after: dict[int, list[Line]] = {k: [] for k in range(len(works))}
        for i, j in combinations(range(len(works)), 2):
            (one,), (other,) = works[i].entries, replace_statement(works[j], 1).entries
            if one.conflicts(other):
                first, then = self.flag(one.pipe, other.pipe)
                after[i].append(first)
                before[j].append(then)
        return [line for k, each in enumerate(works) for line in (*before[k], each, *after[k])]

    def flag(self, src: str, dst: str) -> tuple[Line, Line]:
        """A set and a wait with an id of their own."""
        (core, one), (there, other) = src.split("."), dst.split(".")
        event = self.used[(src, dst) if core == there else core]
        self.used[(src, dst) if core == there else core] += 1
        if core == there:
            return tuple(  # type: ignore[return-value]
                Line(f'pto.{act}_flag("{one}", "{other}", {event})', (Entry(pipe, act, (src, dst, event)),))
                for act, pipe in ((SET, src), (WAIT, dst))
            )
        return self.sync(SET, src, core, event), self.sync(WAIT, dst, core, event)

    def sync(self, act: str, pipe: str, setter: str, event: int) -> Line:
        """An end of a flag between the cores. On A2/A3 the whole core waits."""
        at = f"{pipe.partition('.')[0]}.S" if act == WAIT and self.target == "a2a3" else pipe
        return Line(f'pto.sync_{act}("{pipe}", {event})', (Entry(at, act, (setter, event)),))

    def barrier(self) -> Line:
        """A barrier of both cores, each by itself."""
        return Line('pto.barrier("ALL")', tuple(Entry(f"{core}.S", BARRIER) for core in CORES))

    def meeting(self) -> list[Line]:
        """Each core waits for all that the other one did."""
        ends = [(f"{core}.S", f"{OTHER[core]}.S", core) for core in CORES]
        return [self.barrier(), *(line for src, dst, core in ends
                for line in (self.sync(SET, src, core, 9), self.sync(WAIT, dst, core, 9)))]  # fmt: skip

    def harmed(self, lines: list[Line]) -> list[Line]:
        """Without a flag or an end of it, with another id, at another place, twice, or with one more."""
        flags = [k for k, line in enumerate(lines) if line.entries[0].act in (SET, WAIT)]
        way = self.dice.choice(("drop", "pair", "pair", "move", "twice", "barrier", "extra", "same"))
        if way == "barrier":
            at = self.dice.randint(0, len(lines))
            return [*lines[:at], self.barrier(), *lines[at:]]
        if way == "extra":
            src, dst = ("AIV.V", "AIC.MTE2") if self.dice.random() < 0.5 else ("AIC.MTE2", "AIV.MTE3")
            first, then = sorted(self.dice.randint(0, len(lines)) for _ in range(2))
            ends = self.flag(src, dst)
            return [*lines[:first], ends[0], *lines[first:then], ends[1], *lines[then:]]
        if not flags:
            return lines
        at = self.dice.choice(flags)
        rest = [*lines[:at], *lines[at + 1 :]]
        if way == "drop":
            return rest
        if way == "pair":
            return [line for line in lines if line.entries[0].flag != lines[at].entries[0].flag]
        if way == "twice":
            return [*lines[:at], lines[at], *lines[at:]]
        if way == "same":
            return [self.renamed(line) for line in lines]
        to = min(len(rest), max(0, at + self.dice.choice((-2, -1, 1, 2))))
        return [*rest[:to], lines[at], *rest[to:]]

    def renamed(self, line: Line) -> Line:
        """Flags between the cores with one id for all."""
        flag = line.entries[0].flag
        if not isinstance(flag, tuple) or len(flag) != 2:
            return line
        text = line.text.rpartition(",")[0] + ", 0)"
        return Line(text, (replace(line.entries[0], flag=(flag[0], 0)),))


def replace_statement(line: Line, number: int) -> Line:
    """The line as a statement with this number."""
    return Line(line.text, tuple(replace(entry, statement=number) for entry in line.entries))


def judged(lines: list[Line], rounds: int) -> Verdict:
    """What the schedules of a program can do, in so many iterations."""
    numbered = [replace_statement(line, k) for k, line in enumerate(lines * rounds)]
    return Search([entry for line in numbered for entry in line.entries]).verdict()


# --- the machine

FIRST = len(HEAD.splitlines()) + 1
"""The number of the first line, or of the loop."""


def launched(lines: list[Line], target: str, rounds: int) -> Any:
    """The report of a program."""
    indent = "    " * (rounds > 1)
    body = [f"    for turn in pto.range({rounds}):"] * (rounds > 1) + [f"    {indent}{line.text}" for line in lines]
    names: dict[str, Any] = {"pto": pto}
    exec(compiled(HEAD + "\n".join(body) + "\n", "kernel for two cores"), names)
    kernel = names["kernel"]
    arrays = [(np.arange(512) * k % 7).astype("float32").reshape(32, 16) for k in (1, 3)]
    return kernel[1](*arrays, target=target, engine="machine", options=ORDER)


@dataclass(frozen=True)
class Found:
    """What the machine finds."""

    races: frozenset[int]
    """The lines of accesses that nothing orders, both of each pair."""
    flags: bool
    """Waits that never end, flags that are set too early or in no order."""
    left: bool

    @property
    def is_clean(self) -> bool:
        return not (self.races or self.flags or self.left)


def found_in(report: Any, rounds: int) -> Found:
    """Other notes do not count, nor that a kernel for two cores hands over nothing, nor what overlaps on one pipe:
    `test_overlaps.py` compares that."""
    faults = [finding for finding in faults_in(report) if finding.kind != "H-49"]
    shown = [finding for finding in faults if " belongs to " not in finding.message]
    races = [finding for finding in shown if finding.operand != "flag"]
    flags = [finding for finding in shown if finding.operand == "flag"]
    left = [finding for finding in flags if "is still set" in finding.message]
    lines = {finding.where.line - FIRST - (rounds > 1) for finding in races}
    return Found(frozenset(lines), len(flags) > len(left), bool(left))


def programs(chunk: int) -> Iterator[tuple[int, str, list[Line]]]:
    """The programs of one part."""
    for seed in range(chunk, PROGRAMS, CHUNKS):
        draft = Draft(seed)
        lines = draft.lines()
        yield seed, draft.target, lines


def compare(seed: int, target: str, lines: list[Line], rounds: int) -> Verdict:
    """The machine finds a fault if some schedule shows one, of the same kind, and at the lines of the conflicts."""
    expected, found = judged(lines, rounds), found_in(launched(lines, target, rounds), rounds)
    message = "\n".join((f"seed {seed} on {target}, {rounds}: {expected}", str(found), *(line.text for line in lines)))
    is_open = {pair for pair in expected.races if lines[pair[0] % len(lines)].entries[0].act != WORK}
    conflicts = [{number % len(lines) for number in pair} for pair in (expected.races | expected.backward) - is_open]
    assert found.is_clean == expected.is_clean, message
    if expected.is_stuck or expected.sets_twice or is_open:
        assert found.flags, message
    else:
        assert not found.flags and found.left == expected.leaves_set, message
        assert all(found.races & pair for pair in conflicts), message
        assert found.races <= set().union(*conflicts), message
    return expected


@pytest.mark.parametrize("chunk", range(CHUNKS))
@pytest.mark.parametrize("rounds", [1, 2])
def test_the_machine_finds_what_some_schedule_shows(chunk: int, rounds: int) -> None:
    for seed, target, lines in programs(chunk):
        is_its_turn = FULL or seed // 2 % 2 == rounds - 1
        if is_its_turn and (rounds == 1 or len(lines) <= 14):
            compare(seed, target, lines, rounds)


CIRCLE = ("AIC", "MTE1", "MTE2"), ("AIV", "MTE3", "V")
"""For each core: the pipe that waits, and the pipe that sets."""


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("pipes", [CIRCLE, (("AIC", "MTE1", "MTE1"), ("AIV", "MTE3", "MTE3"))])
def test_a_wait_holds_its_own_pipe_and_on_a2a3_its_core(target: str, pipes: tuple[tuple[str, str, str], ...]) -> None:
    """Waits before the sets on both cores are a circle only if they hold the pipes that set."""
    draft = Draft(TARGETS.index(target))
    lines: list[Line] = []
    for core, waits, sets in pipes:
        lines += [draft.sync(WAIT, f"{core}.{waits}", OTHER[core], 0), draft.sync(SET, f"{core}.{sets}", core, 0)]
    found = compare(0, target, lines, 1)
    assert found.is_stuck == (target == "a2a3" or pipes[0][1] == pipes[0][2])


def test_the_programs_are_a_good_mixture() -> None:
    """Every kind of fault comes up on both targets, with workspaces and between the cores, and so do clean programs."""
    seen: Counter[tuple[str, str]] = Counter()
    for chunk in range(CHUNKS):
        for _, target, lines in programs(chunk):
            found = judged(lines, 1)
            acts = {lines[one].entries[0].act for one, _ in found.races}
            crosses = any(lines[one].core != lines[other].core for one, other in found.races)
            works = [line for line in lines if "tmp=" in line.text]
            kinds = {"race": WORK in acts, "open": bool(acts & {SET, WAIT}), "between cores": crosses,
                     "stuck": found.is_stuck, "left": found.leaves_set, "clean": found.is_clean,
                     "workspace": bool(works) and bool(found.races)}  # fmt: skip
            seen.update((target, kind) for kind, is_there in kinds.items() if is_there)
    faults = ("race", "between cores", "stuck", "left")
    assert all(seen[target, kind] >= 3 for target in TARGETS for kind in faults), seen
    assert all(seen[target, "clean"] >= 50 and seen[target, "workspace"] >= 1 for target in TARGETS), seen
    assert sum(seen[target, "open"] for target in TARGETS) >= 1, seen
