"""Random kernels for two cores that have no race: the order is by construction, not by ptokit.

A kernel is a chain of stages, each of one core, with rings of slots in between. An item of a stage goes through some
pipes of its core. The steps of an item are linked: each comes after the one before it, and the next item reuses tiles
only after this one has used them. Links are flags, detours through other pipes, or barriers. Waits and sets of slots
are on any pipe whose steps the links bring into the right order. Barriers, round trips between two pipes, and branches
around them stand anywhere; they add order, so they can make a kernel wait forever, but not wrong.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np

from tests.machine.two_cores_model import (
    OTHER,
    PIPES,
    ROWS,
    Arrays,
    Barrier,
    Contents,
    Declare,
    Flag,
    Load,
    Loop,
    Op,
    Sync,
    Values,
    When,
    number,
)

NO_CROSS = "M"
"""The pipe that has no flags between the cores."""
IDS, BOTH, NOISE = 6, 6, 7
"""How many flags of a pair of pipes links of one core use, and the ids of links of both cores and of round trips."""
GROUP_IDS = (3, 7, 8)
"""Flags between the cores of tasks."""
UNUSED = "9"
"""A flag that nothing sets."""

SPECS = {
    "half": '"vec", "float16", 16, 16', "float": '"vec", "float32", 16, 16', "left": '"left", "float16", 16, 16',
    "right": '"right", "float16", 16, 16', "acc": '"acc", "float32", 16, 16',
    "mat": '"mat", "float16", 16, 16, blayout="col_major", slayout="row_major"',
}  # fmt: skip


@dataclass
class Tile:
    """A tile by its name. It has room for two copies."""

    name: str
    kind: str
    addr: int

    def declared(self, core: str, addr: str | None) -> Declare:
        place = "" if addr is None else f", addr={addr}"
        return Declare(core, self.name, f"{self.name} = pto.Tile({SPECS[self.kind]}{place})")


def rows(at: str) -> str:
    return f"[({at}) * 16 : ({at}) * 16 + 16]"


def part(array: Any, at: str, values: Values) -> Any:
    first = number(at, values) * ROWS
    return array[first : first + ROWS]


def load(core: str, tile: str, source: str, at: str) -> Op:
    def act(arrays: Arrays, tiles: Contents, values: Values) -> None:
        tiles[tile].value = part(arrays[source], at, values).copy()

    return Op(core, "MTE2", (tile,), f"pto.tload({tile}, {source}{rows(at)})", act)


def store(core: str, target: str, at: str, tile: str) -> Op:
    def act(arrays: Arrays, tiles: Contents, values: Values) -> None:
        part(arrays[target], at, values)[:] = tiles[tile].value

    pipe = "MTE3" if core == "AIV" else "FIX"
    return Op(core, pipe, (tile,), f"pto.tstore({target}{rows(at)}, {tile})", act)


def add(to: str, tile: str, amount: float) -> Op:
    def act(arrays: Arrays, tiles: Contents, values: Values) -> None:
        content = tiles[tile].value
        tiles[to].value = content + content.dtype.type(amount)

    return Op("AIV", "V", (to, tile), f"pto.tadds({to}, {tile}, {amount})", act)


def move(to: str, tile: str) -> Op:
    def act(arrays: Arrays, tiles: Contents, values: Values) -> None:
        tiles[to].value = tiles[tile].value.copy()

    return Op("AIC", "MTE1", (to, tile), f"pto.tmov({to}, {tile})", act)


def multiply(to: str, left: str, right: str) -> Op:
    def act(arrays: Arrays, tiles: Contents, values: Values) -> None:
        tiles[to].value = tiles[left].value.astype("float32") @ tiles[right].value.astype("float32")

    return Op("AIC", "M", (to, left, right), f"pto.tmatmul({to}, {left}, {right})", act)


# --- other texts of the same program


def needs(stmt: Any) -> set[tuple[str, ...]]:
    """What a statement needs: pipes, flags and tiles of a core, or all of a core as `(core,)`."""
    if isinstance(stmt, Loop | When):
        blocks = (stmt.body,) if isinstance(stmt, Loop) else (stmt.then, stmt.otherwise)
        return {each for block in blocks for inner in block for each in needs(inner)}
    if isinstance(stmt, Op):
        return {(stmt.core, stmt.pipe), *((stmt.core, "tile", tile) for tile in stmt.tiles)}
    if isinstance(stmt, Declare):
        return {(stmt.core, "tile", stmt.tile)}
    if isinstance(stmt, Load):
        return {(core,) for core in PIPES}
    cores = (stmt.core,) if stmt.core else tuple(PIPES)
    pipe = stmt.pipe if not isinstance(stmt, Flag) else stmt.src if stmt.action == "set" else stmt.dst
    if isinstance(stmt, Barrier) or (pipe == "S" and stmt.action == "wait"):
        return {(core,) for core in cores}
    flags = {(core, stmt.src, stmt.dst) for core in cores} if isinstance(stmt, Flag) else set[tuple[str, ...]]()
    return {*((core, pipe) for core in cores), *flags}


def conflict(one: set[tuple[str, ...]], other: set[tuple[str, ...]]) -> bool:
    """Whether two statements must not be exchanged."""
    wholes = {each[0] for each in one if len(each) == 1}, {each[0] for each in other if len(each) == 1}
    if any(each[0] in wholes[0] for each in other) or any(each[0] in wholes[1] for each in one):
        return True
    return any(each in other for each in one)


def rearranged(block: list[Any], dice: Random, hoists: float) -> list[Any]:
    """The same program with another text: statements of different pipes or cores are exchanged, and waits for the other
    core come as early as they can with a probability of `hoists`."""
    for stmt in block:
        if isinstance(stmt, Loop):
            stmt.body = rearranged(stmt.body, dice, hoists)
        elif isinstance(stmt, When):
            stmt.then, stmt.otherwise = (rearranged(arm, dice, hoists) for arm in (stmt.then, stmt.otherwise))
    shared = [needs(stmt) for stmt in block]
    before = [{j for j in range(k) if conflict(shared[j], each)} for k, each in enumerate(shared)]
    done: list[int] = []
    while len(done) < len(block):
        left = [k for k in range(len(block)) if k not in done and before[k] <= {*done}]
        waits = [k for k in left if is_wait(block[k])]
        done.append(dice.choice(waits) if waits and dice.random() < hoists else dice.choice(left[:3]))
    return [block[k] for k in done]


def is_wait(stmt: Any) -> bool:
    """Whether a statement may wait for the other core, and does nothing else."""
    if isinstance(stmt, When):
        return all(map(is_wait, stmt.then)) and not stmt.otherwise
    return isinstance(stmt, Sync) and stmt.action == "wait"


# --- order between pipes of a core


@dataclass
class Link:
    """The step of one pipe comes before that of another, of the same item or of a later one."""

    core: str
    src: str
    dst: str
    form: str
    event: int = 0
    ids: int = 1
    """How many flags alternate."""
    middle: str = ""
    """The pipe of a detour."""
    second: int = 0
    """The flag from there."""

    def flag(self, action: str, item: str) -> Flag:
        return Flag(self.core, action, self.src, self.dst, self._id(self.event, item))

    def _id(self, event: int, item: str) -> str:
        return f"{event} + ({item}) % {self.ids}" if self.ids > 1 else str(event)

    def sets(self, item: str) -> list[Any]:
        """What comes directly after the first step."""
        if self.form == "flag":
            return [self.flag("set", item)]
        if self.form == "barrier":
            return [Barrier(self.core)]
        if self.form == "barrier of both":
            return [Barrier()]
        first = (self.src, self.middle, self._id(self.event, item))
        then = (self.middle, self.dst, self._id(self.second, item))
        found: list[Any] = [Flag(self.core, "set", *first), Flag(self.core, "wait", *first)]
        return found if self.form == "issue" else [*found, Flag(self.core, "set", *then)]

    def waits(self, item: str) -> list[Any]:
        """What comes directly before the second step."""
        if self.form == "flag":
            return [self.flag("wait", item)]
        detour = Flag(self.core, "wait", self.middle, self.dst, self._id(self.second, item))
        return [detour] if self.form == "detour" else []


@dataclass
class Ring:
    """Slots of a workspace that one core fills and the other empties."""

    array: str
    slots: int
    event: int
    """The id of its flags; with `alternates`, of those of slot 0."""
    alternates: bool
    """Whether each slot has ids of its own."""
    primes: bool
    """Whether all slots are handed over first; else the first fills do not wait."""

    def slot(self, item: str) -> str:
        return f"n * 8 + ({item}) % {self.slots}"

    def flag(self, item: str) -> str:
        return f"{self.event} + ({item}) % {self.slots}" if self.alternates else str(self.event)


@dataclass
class Plan:
    """How a stage does each of its items."""

    core: str
    pipes: list[str]
    """The pipe of each step."""
    load: int
    """The step that reads a slot."""
    store: int
    """The step that writes one."""
    tiles: dict[str, Tile]
    depth: int
    """How many items use other copies of the tiles."""
    home: str
    """Where the tiles are declared: before all, or in the item."""
    in_place: bool
    forward: list[Link] = field(default_factory=list)
    """From each step to the next."""
    back: list[tuple[int, int, Link]] = field(default_factory=list)
    """Links to an earlier step of a later item, with the two steps."""
    full: int = 0
    """The step that waits for a full slot."""
    emptied: int = 0
    """The step that hands it back."""
    free: int = 0
    """The step that waits for a free slot."""
    filled: int = 0
    """The step that hands it over."""
    arms: str = ""
    """Whether items are in branches."""


@dataclass
class Group:
    """Tasks of one core, each on a pipe of its own, which waits for the other core and answers."""

    core: str
    pipes: list[str]
    order: list[int]
    """In which order the other core asks for them."""
    asking: list[str]
    """The pipes of the other core that ask, and wait for the answers."""
    in_items: bool
    """Whether every item has the tasks; else the kernel has them once."""
    lag: int
    """How many items later the other core asks."""


class Draft:
    """Draws a kernel."""

    def __init__(self, seed: int) -> None:
        self.dice = dice = Random(seed)
        self.items = dice.randint(1, 7)
        self.grid = dice.choice((1, 1, 2))
        self.chain = dice.choice((["AIC", "AIV"], ["AIV", "AIC"], ["AIV", "AIC", "AIV"]))
        self.dynamic = dice.random() < 0.35
        """Whether the number of items is an argument of the launch."""
        self.coarse = dice.random() < 0.25
        """Whether there are barriers around all steps, and all waits are on the pipes that use the slots."""
        self.places = dice.choice(("given", "given", "none", "some", "some", "alternate"))
        """Which tiles have addresses."""
        self.copies = 2 if self.places == "none" and dice.random() < 0.5 else 1
        """The number of copies of tiles in loops, which ptokit makes."""
        self.is_text = self.copies > 1 or (self.places != "alternate" and dice.random() < 0.3)
        """Whether the kernel is run as a text without addresses. Only texts have flags of the author and copies."""
        self.depth = 2 if self.places == "alternate" else self.copies
        names = {("AIV", "AIC"): "half", ("AIC", "AIV"): "whole"}
        self.rings: list[Ring] = []
        for k, pair in enumerate(pairwise(self.chain)):
            slots, alternates = dice.randint(1, 3), dice.random() < 0.5
            # a flag belongs to the core that sets it: one ring may use an id for both of its directions
            self.rings.append(Ring(names[pair], slots, 4 * k, alternates, dice.random() < 0.5))
        self.hoists = dice.choice((0.0, 0.5, 0.9, 0.9))
        """How early waits for the other core come in the text; 0 if nothing is rearranged."""
        self.loose = self.hoists > 0 and dice.random() < 0.7
        """Whether links are flags between pipes, without the scalar pipe, and few barriers."""
        self.used: Counter[tuple[str, str, str]] = Counter()
        """Flags of each pair of pipes that links use."""
        self.plans = [self.plan(k) for k in range(len(self.chain))]
        self.loaded = self.repeats = 0
        """Numbers that are loaded, and loops around instructions."""
        self.group = self.draw_group() if not self.coarse and dice.random() < 0.5 else None

    # --- plans

    def some(self, share: float) -> bool:
        return self.dice.random() < share

    def crossing(self, pipes: list[str], first: int, last: int) -> int:
        """A step whose pipe has flags between the cores."""
        return self.dice.choice([k for k in range(first, last + 1) if pipes[k] != NO_CROSS])

    def plan(self, k: int) -> Plan:
        core, has_source, has_target = self.chain[k], k > 0, k < len(self.chain) - 1
        pipes = ["MTE2", "V", "MTE3"] if core == "AIV" else ["MTE2", "MTE1", "M", "FIX"]
        others = [pipe for pipe in PIPES[core][self.loose :] if pipe != NO_CROSS]
        before = has_source and not self.coarse and self.some(0.35)
        after = has_target and not self.coarse and self.some(0.35)
        if before:
            pipes.insert(0, self.dice.choice([pipe for pipe in others if pipe != pipes[0]]))
        if after:
            pipes.append(self.dice.choice([pipe for pipe in others if pipe != pipes[-1]]))
        load, store = int(before), len(pipes) - 1 - after
        home = "item" if self.depth > 1 or self.some(0.6) else "top"
        plan = Plan(core, pipes, load, store, self.tiles(k), self.depth, home, core == "AIV" and self.some(0.5))
        plan.arms = self.dice.choice(("", "", "one", "two")) if home == "item" else ""
        plan.full, plan.filled = (0, len(pipes) - 1) if not self.coarse else (load, store)
        plan.emptied = load if self.coarse else self.crossing(pipes, load, len(pipes) - 1)
        plan.free = store if self.coarse else self.crossing(pipes, 0, store)
        self.link(plan)
        return plan

    def tiles(self, k: int) -> dict[str, Tile]:
        if self.chain[k] == "AIV":
            kind = "half" if k == 0 else "float"
            return {name: Tile(f"{name}{k}", kind, 0x2000 * k + at) for name, at in (("a", 0), ("b", 0x1000))}
        kinds = {"one": "mat", "unit": "mat", "left": "left", "right": "right", "product": "acc"}
        return {name: Tile(name, kind, 0x1000 if name == "unit" else 0) for name, kind in kinds.items()}

    def link(self, plan: Plan) -> None:
        """Link the steps of an item, and the items."""
        steps = plan.pipes
        for src, dst in pairwise(steps):
            plan.forward.append(self.draw_link(plan, src, dst))
        pairs = [(j + 1, j) for j in range(len(steps) - 1)]
        if plan.in_place or self.some(0.3):
            pairs = [(len(steps) - 1, 0)]
        for late, early in pairs:
            forms = ("carried", "carried", "carried", "checked", "end", "barrier")
            form = self.dice.choice(forms[:4] if self.loose else forms)
            src, dst = steps[late], steps[early]
            if src == dst:  # a pipe works in order
                continue
            event = self.take(plan.core, src, dst, plan.depth)
            form = "barrier" if event is None or self.coarse else form
            plan.back.append((late, early, Link(plan.core, src, dst, form, event or 0, plan.depth)))

    def take(self, core: str, src: str, dst: str, count: int) -> int | None:
        """Unused flags of a pair of pipes; the first of them."""
        first = self.used[core, src, dst]
        if first + count > IDS:
            return None
        self.used[core, src, dst] += count
        return first

    def draw_link(self, plan: Plan, src: str, dst: str) -> Link:
        core = plan.core
        forms = ("flag", "flag", "flag", "flag", "detour", "detour", "barrier", "issue")
        form = self.dice.choice(forms[: 7 if self.loose else 8])
        middle = self.dice.choice([pipe for pipe in PIPES[core][self.loose :] if pipe not in (src, dst)])
        if form == "issue" and "S" in (src, dst):
            form = "flag"
        if form == "issue" and src == "MTE2" and self.some(0.5):  # each core waits for its own pipe
            return Link("", src, dst, form, BOTH, 1, "S")
        if form == "detour":
            event, second = self.take(core, src, middle, plan.depth), self.take(core, middle, dst, plan.depth)
        elif form == "issue":
            middle, second = "S", 0
            event = self.take(core, src, "S", plan.depth)
        else:
            event, second = self.take(core, src, dst, plan.depth), 0
        if event is None or second is None or self.coarse or form == "barrier":
            return Link(core, src, dst, self.dice.choice(("barrier", "barrier of both")))
        return Link(core, src, dst, form, event, plan.depth, middle, second)

    def draw_group(self) -> Group:
        core = self.dice.choice(("AIV", "AIC"))
        pipes = ["MTE2", "V", "MTE3"] if core == "AIV" else ["MTE2", "MTE1", "FIX"]
        self.dice.shuffle(pipes)
        pipes = pipes[: self.dice.randint(1, 3)]
        order = list(range(len(pipes)))
        if self.some(0.6):
            self.dice.shuffle(order)
        others = [pipe for pipe in PIPES[OTHER[core]][self.loose :] if pipe != NO_CROSS]
        asking = self.dice.choices(others, k=2 * len(pipes))
        return Group(core, pipes, order, asking, self.some(0.6), self.dice.choice((0, 1, 2)))

    # --- items

    @property
    def count(self) -> str:
        return "items" if self.dynamic else str(self.items)

    def stage(self, k: int, item: str) -> list[Any]:
        """One item of a stage."""
        plan = self.plans[k]
        body = self.item(k, item, 0, len(plan.pipes))
        if plan.arms == "two":
            body = [When(f"({item}) % 2 == 0", body, self.item(k, item, 0, len(plan.pipes)))]
        elif plan.arms == "one":
            body = [When(f"({item}) >= 0", body, self.filler())]
        return self.with_tasks(k, item, body)

    def halves(self, k: int, early: str, late: str) -> tuple[list[Any], list[Any]]:
        """The steps of an item up to the load, and the others of another item. Tiles are declared before all."""
        plan = self.plans[k]
        cut = plan.load + 1
        return self.item(k, early, 0, cut), self.with_tasks(k, late, self.item(k, late, cut, len(plan.pipes)))

    def with_tasks(self, k: int, item: str, body: list[Any]) -> list[Any]:
        core = self.chain[k]
        if self.group is None or not self.group.in_items or k != self.chain.index(core):
            return body
        late = [When(f"({item}) >= {self.group.lag}", self.requests())] if self.group.lag else self.requests()
        tasks = self.tasks(item) if core == self.group.core else late
        return [*tasks, *body] if self.some(0.5) else [*body, *tasks]

    def item(self, k: int, item: str, first: int, stop: int) -> list[Any]:
        """Some steps of an item."""
        plan = self.plans[k]
        body: list[Any] = [] if plan.home == "top" else self.declarations(plan, item)
        work, syncs = self.work(k, item), self.syncs(k, item)
        for j in range(first, stop):
            waits = [[stmt] for stmt in syncs.get((j, "wait"), ())]
            sets = [[stmt] for stmt in syncs.get((j, "set"), ())]
            for late, early, link in plan.back:
                if early == j and link.form in ("carried", "checked"):
                    waits.append([self.carried(link, "wait", item)])
                if late == j and link.form in ("carried", "checked"):
                    sets.append([self.carried(link, "set", item)])
                elif late == j:
                    sets.append(
                        [link.flag("set", item), link.flag("wait", item)] if link.form == "end" else [Barrier()]
                    )
            if j:
                waits.append(plan.forward[j - 1].waits(item))
            if j + 1 < len(plan.pipes):
                sets.append(plan.forward[j].sets(item))
            self.dice.shuffle(waits)
            self.dice.shuffle(sets)
            body += [stmt for each in (*waits, self.wrapped(work.get(j, [])), *sets) for stmt in each]
        return [*body, Barrier()] if self.coarse else body

    def wrapped(self, work: list[Any]) -> list[Any]:
        """Instructions, or a branch or a loop with them."""
        if not work or self.some(0.75):
            return work
        if self.some(0.5):
            return [When(self.dice.choice(("n >= 0", "n < 5")), work, self.filler())]
        self.repeats += 1
        is_repeatable = all(len({*op.tiles}) == len(op.tiles) for op in work)
        return [Loop(f"r{self.repeats}", "2" if is_repeatable else "1", work)]

    def carried(self, link: Link, action: str, item: str) -> Any:
        """A flag from one item to a later one; the first items find it set, or do not wait."""
        flag = link.flag(action, item)
        if link.form == "carried":
            return flag
        needed = f"({item}) >= {link.ids}" if action == "wait" else f"({item}) + {link.ids} < {self.count}"
        return When(needed, [flag], self.filler())

    def declarations(self, plan: Plan, item: str) -> list[Any]:
        """The tiles of an item. Tiles of which some have addresses that are known at run time only need all of them."""
        found: list[Any] = []
        for tile in plan.tiles.values():
            addr: str | None = str(tile.addr)
            if self.places == "alternate":
                addr = f"{tile.addr} + ({item}) % 2 * 0x800"
            elif self.places == "none" or (self.places == "some" and self.some(0.5)):
                addr = None
            found.append(tile.declared(plan.core, addr))
        return found

    def work(self, k: int, item: str) -> dict[int, list[Any]]:
        """The instructions of each step."""
        plan = self.plans[k]
        before, after = (self.rings[k - 1] if k else None), (self.rings[k] if k + 1 < len(self.chain) else None)
        source, target = before.array if before else "x", after.array if after else "out"
        where = before.slot(item) if before else f"n * 8 + ({item})"
        to = after.slot(item) if after else f"n * 8 + ({item})"
        names = {name: tile.name for name, tile in plan.tiles.items()}
        if plan.core == "AIV":
            result = names["a" if plan.in_place else "b"]
            steps = [[load("AIV", names["a"], source, where)], [add(result, names["a"], float(k + 1))]]
        else:
            result = "product"
            steps = [
                [load("AIC", "one", source, where), load("AIC", "unit", "w", "0")],
                [move("left", "one"), move("right", "unit")],
                [multiply("product", "left", "right")],
            ]
        steps.append([store(plan.core, target, to, result)])
        return {plan.load + j: list(ops) for j, ops in enumerate(steps)}

    def syncs(self, k: int, item: str) -> dict[tuple[int, str], list[Any]]:
        """The waits and sets of slots of each step."""
        plan, found = self.plans[k], dict[tuple[int, str], list[Any]]()

        def note(step: int, action: str, ring: Ring, needed: str) -> None:
            stmt: Any = Sync(plan.core, action, plan.pipes[step], ring.flag(item))
            if needed and not ring.primes:
                stmt = When(needed, [stmt], self.filler())
            found.setdefault((step, action), []).append(stmt)

        if k:
            ring = self.rings[k - 1]
            note(plan.full, "wait", ring, "")
            note(plan.emptied, "set", ring, f"({item}) + {ring.slots} < {self.count}")
        if k + 1 < len(self.chain):
            ring = self.rings[k]
            note(plan.free, "wait", ring, f"({item}) >= {ring.slots}")
            note(plan.filled, "set", ring, "")
        return found

    # --- tasks

    def tasks(self, item: str) -> list[Any]:
        assert self.group is not None
        core, pipes = self.group.core, self.group.pipes
        work = {
            "MTE2": load(core, "g0", "x", f"n * 8 + ({item})"), "MTE1": move("g3", "g1"), "V": add("g1", "g1", 1.0),
            "MTE3": store(core, "tasks", f"n * 8 + ({item})", "g2"),
            "FIX": store(core, "tasks", f"n * 8 + ({item})", "g2"),
        }  # fmt: skip
        return [
            stmt
            for pipe, event in zip(pipes, GROUP_IDS, strict=False)
            for stmt in (Sync(core, "wait", pipe, str(event)), work[pipe], Sync(core, "set", pipe, str(event)))
        ]

    def requests(self) -> list[Any]:
        assert self.group is not None
        other, pipes, found = OTHER[self.group.core], self.group.asking, list[Any]()
        for k in self.group.order:
            event = str(GROUP_IDS[k])
            found += [Sync(other, "set", pipes[2 * k], event), Sync(other, "wait", pipes[2 * k + 1], event)]
        return found

    def before_tasks(self) -> list[Any]:
        """The tiles of the tasks, with content."""
        assert self.group is not None
        wait = Barrier(self.group.core)
        if self.group.core == "AIV":
            tiles = [Tile("g0", "half", 0x8000), Tile("g1", "float", 0x9000), Tile("g2", "float", 0xA000)]
            work = [load("AIV", "g1", "y", "0"), load("AIV", "g2", "y", "1")]
        else:
            kinds = ("mat", "mat", "acc", "left", "right")
            tiles = [Tile(f"g{k}", kind, 0x2000 + 0x1000 * (k == 1)) for k, kind in enumerate(kinds)]
            work = [
                load("AIC", "g0", "x", "15"), load("AIC", "g1", "w", "0"), wait, move("g3", "g0"), move("g4", "g1"),
                wait, multiply("g2", "g3", "g4"),
            ]  # fmt: skip
        is_placed = self.places in ("given", "alternate")
        declared = [tile.declared(self.group.core, str(tile.addr) if is_placed else None) for tile in tiles]
        return [*declared, *work, wait]

    def after_tasks(self) -> list[Any]:
        """Store what they have made."""
        assert self.group is not None
        if self.group.core == "AIC":
            return []
        return [Barrier("AIV"), store("AIV", "tasks", "n * 8 + 7", "g1")]

    # --- what adds order

    def filler(self) -> list[Any]:
        """An arm that has nothing to do with slots."""
        never = When("n > 5", [Sync("AIV", "wait", "MTE3", UNUSED)])
        return self.dice.choice(([], [never], [] if self.loose else [Barrier()]))

    def condition(self, values: list[str]) -> tuple[list[Any], str]:
        """A condition, and what loads its number."""
        way = self.dice.choice(("never", "always", "value", "loaded"))
        if way == "value" and values:
            return [], f"{self.dice.choice(values)} % 2 == {self.dice.randint(0, 1)}"
        if way == "loaded":
            self.loaded += 1
            return [Load(f"k{self.loaded}", "picks", f"n * 8 + {self.dice.randint(0, 7)}")], f"k{self.loaded} > 0"
        return [], "n > 5" if way == "never" else "n >= 0"

    def noise(self) -> list[Any]:
        """A barrier of a core, of both or of a pipe; or a round trip between two pipes of a core, or of each
        core, or to the scalar pipe."""
        core = self.dice.choice(("AIV", "AIC"))
        way = self.dice.choice(("barrier", "barrier", "pipe", "trip", "trip", "issue", "both"))
        if way == "barrier":
            return [Barrier(self.dice.choice(("", core)))]
        first, second = sorted(self.dice.sample(PIPES[core], 2))
        if way == "pipe":
            return [Barrier(core, first)]
        if way == "both":
            core, first, second = "", "MTE2", "S"
        if way == "issue":
            first, second = next(pipe for pipe in (first, second) if pipe != "S"), "S"
            ends = (first, second, str(NOISE))
            return [Flag(core, "set", *ends), Flag(core, "wait", *ends)]
        there, back = (first, second, str(NOISE)), (second, first, str(NOISE))
        return [
            Flag(core, "set", *there), Flag(core, "wait", *there), Flag(core, "set", *back), Flag(core, "wait", *back),
        ]  # fmt: skip

    def insert_noise(self, body: list[Any]) -> None:
        """Add order at random places."""
        for _ in range(self.dice.choice((0, 0, 1, 2) if self.loose else (0, 1, 1, 2, 3, 4))):
            block, values = body, list[str]()
            while inner := [stmt for stmt in block if isinstance(stmt, Loop | When)]:
                if self.some(0.2):
                    break
                chosen = self.dice.choice(inner)
                if isinstance(chosen, Loop):
                    values.append(chosen.var)
                    block = chosen.body
                else:
                    block = chosen.otherwise if chosen.otherwise and self.some(0.3) else chosen.then
            made = self.noise()
            if self.some(0.5):
                before, condition = self.condition(values)
                made = [*before, When(condition, made, self.noise() if self.some(0.2) else [])]
            at = self.dice.choice([k for k in range(len(block) + 1) if not is_in_trip(block, k)])
            block[at:at] = made

    # --- arrangements

    def loop(self, stages: list[int], name: str) -> list[Any]:
        """All items of some stages of one core, or of two: one loop, parts of iterations, or no loop."""
        way = self.dice.choice(("loop", "split", "nest", "pairs", "pairs", "flat", "flat"))
        if all(self.plans[k].home == "top" for k in stages) and self.some(0.7):
            return self.shifted(stages, name)
        if self.dynamic or (len({self.chain[k] for k in stages}) > 1 and way in ("split", "nest")):
            way = "loop"
        if way == "flat":
            return [stmt for item in range(self.items) for k in stages for stmt in self.stage(k, str(item))]

        def over(var: str, stop: str, item: str) -> Loop:
            return Loop(var, stop, [stmt for k in stages for stmt in self.stage(k, item)])

        if way == "split" and self.items > 1:
            cut = self.dice.randint(1, self.items - 1)
            return [over(name, str(cut), name), over(f"{name}r", str(self.items - cut), f"{cut} + {name}r")]
        if way == "nest" and self.items % 2 == 0:
            return [Loop(name, str(self.items // 2), [over(f"{name}j", "2", f"{name} * 2 + {name}j")])]
        if way == "pairs" and self.items % 2 == 0:
            both = [over(name, str(self.items // 2), f"{name} * 2 + {j}").body for j in range(2)]
            return [Loop(name, str(self.items // 2), [*both[0], *both[1]])]
        return [over(name, self.count, name)]

    def shifted(self, stages: list[int], name: str) -> list[Any]:
        """A loop that begins the next item before it ends this one."""
        begun = [stmt for k in stages for stmt in self.halves(k, "0", "0")[0]]
        body: list[Any] = []
        for k in stages:
            early, late = self.halves(k, f"{name} + 1", name)
            body += [*late, *early]
        ended = [stmt for k in stages for stmt in self.halves(k, "0", f"{self.count} - 1")[1]]
        return [*begun, Loop(name, f"{self.count} - 1", body), *ended]

    def sections(self) -> list[list[Any]]:
        """Both cores in one loop, with the stages in any order, or a section of each core."""
        every = list(range(len(self.chain)))
        if self.dice.random() < 0.4:
            self.dice.shuffle(every)
            vector = [k for k in every if self.chain[k] == "AIV"]
            order = iter(sorted(vector))  # an item goes through the stages of one core in their order
            return [self.loop([next(order) if k in vector else k for k in every], "i")]
        found = [
            self.loop([k for k in every if self.chain[k] == core], name) for core, name in (("AIC", "c"), ("AIV", "v"))
        ]
        self.dice.shuffle(found)
        return found

    def body(self) -> list[Any]:
        """What comes first, the stages, and what comes last."""
        first: list[Any] = []
        last: list[Any] = []
        for plan in self.plans:
            for _, _, link in plan.back:
                for k in range(link.ids if link.form == "carried" else 0):
                    first.append(link.flag("set", str(k)))
                    last.append(link.flag("wait", str(k)))
        for k, ring in enumerate(self.rings):
            filler, emptier = self.plans[k], self.plans[k + 1]
            for slot in range(ring.slots if ring.primes else 0):
                event = ring.flag(str(slot))
                first.append(Sync(emptier.core, "set", emptier.pipes[emptier.emptied], event))
                last.append(Sync(filler.core, "wait", filler.pipes[filler.free], event))
        tops = [
            tile.declared(plan.core, None if self.places == "none" else str(tile.addr))
            for plan in self.plans
            if plan.home == "top"
            for tile in plan.tiles.values()
        ]
        sections = self.sections()
        if self.group is not None:
            first = [*self.before_tasks(), *first]
            late = min(self.group.lag, self.items) if self.group.in_items else 0
            last = [*(stmt for _ in range(late) for stmt in self.requests()), *last, *self.after_tasks()]
            if not self.group.in_items:
                parts = [self.tasks("0"), self.requests()]
                self.dice.shuffle(parts)
                for each in parts:
                    sections.insert(self.dice.randint(0, len(sections)), each)
        lines = [*tops, *first, *(stmt for section in sections for stmt in section), *last]
        if self.some(0.3):
            at = self.dice.randint(len(tops), len(lines))
            lines.insert(at, When("n > 5", [Sync("AIC", "wait", "FIX", UNUSED), Barrier()]))
        if self.hoists:
            lines = rearranged(lines, self.dice, self.hoists)
        if not self.coarse:
            self.insert_noise(lines)
        return lines


def is_in_trip(block: list[Any], at: int) -> bool:
    """Whether a place is between flags of a round trip: another one has the same flags."""
    around = block[at - 1 : at + 1] if at else []
    return len(around) == 2 and all(isinstance(stmt, Flag) and stmt.event == str(NOISE) for stmt in around)


def arrays_of(dice: Random) -> Arrays:
    """Whole numbers that all types have, and a matrix whose products are exact."""
    draws = np.random.default_rng(dice.randint(0, 1 << 30))
    w = draws.permutation(np.eye(ROWS, dtype="float16"))
    return {
        "x": draws.integers(-8, 8, (16 * ROWS, ROWS)).astype("float16"), "w": w,
        "y": draws.integers(-8, 8, (2 * ROWS, ROWS)).astype("float32"), "picks": draws.integers(0, 2, 16, "int32"),
        "half": np.zeros((16 * ROWS, ROWS), "float16"), "whole": np.zeros((16 * ROWS, ROWS), "float32"),
        "tasks": np.full((16 * ROWS, ROWS), -99, "float32"), "out": np.full((16 * ROWS, ROWS), -99, "float32"),
    }  # fmt: skip
