"""Random kernels for two cores: every engine gives the values of a model that runs each core by itself.

The model shares no code with ptokit. It runs the statements of each core as a coroutine of its own; waits hold the core
until the other one has set the flag, and a random choice says which core goes on. Kernels are rings of slots with
back-pressure, in one loop or in two, of equal and unequal length, with flags and barriers under branches.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import numpy as np
import pytest

import ptokit as pto
from ptokit.lang.launch import mode_of
from ptokit.lang.loaded import TextKernel
from ptokit.program import ir
from tests.snippet import compiled

PROGRAMS = 1200 if os.environ.get("PTOKIT_FUZZ") else 60
CHUNKS = 6
ROWS = 16
Arrays = dict[str, Any]
Tiles = dict[str, Any]


# --- statements, and the model that runs them


@dataclass
class Op:
    """Some instructions of a core: their text, and what they do to arrays and tiles."""

    core: str
    text: list[str]
    act: Callable[[Arrays, Tiles, dict[str, int]], None]


@dataclass
class Sync:
    core: str
    action: str
    pipe: str
    event: str
    """An expression."""


@dataclass
class Barrier:
    pass


@dataclass
class Loop:
    var: str
    stop: str
    body: list[Any]


@dataclass
class When:
    condition: str
    then: list[Any]
    otherwise: list[Any] = field(default_factory=list)


def number(text: str, values: dict[str, int]) -> int:
    return int(eval(text, {}, values))


def stream(body: list[Any], core: str, values: dict[str, int]) -> Iterator[Op | Sync]:
    """The statements of a core."""
    for stmt in body:
        if isinstance(stmt, Loop):
            for value in range(number(stmt.stop, values)):
                values[stmt.var] = value
                yield from stream(stmt.body, core, values)
        elif isinstance(stmt, When):
            yield from stream(stmt.then if number(stmt.condition, values) else stmt.otherwise, core, values)
        elif isinstance(stmt, Op | Sync) and stmt.core == core:
            yield stmt


class Stuck(Exception):
    pass


def run_model(body: list[Any], arrays: Arrays, numbers: dict[str, int], dice: Random) -> None:
    """Run a block, some core at a time; raises `Stuck` if none can go on."""
    flags: Counter[tuple[str, int]] = Counter()
    values = {core: dict(numbers) for core in ("AIC", "AIV")}
    streams = {core: stream(body, core, values[core]) for core in values}
    tiles: dict[str, Tiles] = {core: {} for core in values}
    heads = {core: next(each, None) for core, each in streams.items()}

    def is_ready(core: str) -> bool:
        head = heads[core]
        waits = isinstance(head, Sync) and head.action == "wait" and not flags[key(core, head)]
        return head is not None and not waits

    def key(core: str, sync: Sync) -> tuple[str, int]:
        setter = core if sync.action == "set" else {"AIC": "AIV", "AIV": "AIC"}[core]
        return setter, number(sync.event, values[core])

    while any(heads.values()):
        ready = [core for core in heads if is_ready(core)]
        if not ready:
            raise Stuck
        core = dice.choice(ready)
        head = heads[core]
        if isinstance(head, Sync):
            flags[key(core, head)] += 1 if head.action == "set" else -1
        elif isinstance(head, Op):
            head.act(arrays, tiles[core], values[core])
        heads[core] = next(streams[core], None)


# --- kernels

TILES = """
    n = pto.block_idx()
    a = pto.Tile("vec", "float16", 16, 16{ub0})
    b = pto.Tile("vec", "float32", 16, 16{ub1})
    one = pto.Tile("mat", "float16", 16, 16{l1}, blayout="col_major", slayout="row_major")
    unit = pto.Tile("mat", "float16", 16, 16{l2}, blayout="col_major", slayout="row_major")
    left = pto.Tile("left", "float16", 16, 16{l0})
    right = pto.Tile("right", "float16", 16, 16{l0})
    product = pto.Tile("acc", "float32", 16, 16{l0})
"""
PLACES = {"ub0": 0, "ub1": 0x1000, "l0": 0, "l1": 0, "l2": 0x1000}
PIPES = {"AIV": ("AIV.MTE2", "MTE3"), "AIC": ("AIC.MTE2", "FIX")}
"""For each core, the pipe that reads a slot and the pipe that writes one."""


def rows(at: str) -> str:
    return f"[({at}) * 16 : ({at}) * 16 + 16]"


def part(array: Any, at: str, values: dict[str, int]) -> Any:
    first = number(at, values) * ROWS
    return array[first : first + ROWS]


def vector_reads(core_tile: str, source: str, at: str, amount: float) -> Op:
    """The vector core loads rows, and adds to them."""

    def act(arrays: Arrays, tiles: Tiles, values: dict[str, int]) -> None:
        tiles[core_tile] = part(arrays[source], at, values) + arrays[source].dtype.type(amount)

    text = [
        f"pto.tload({core_tile}, {source}{rows(at)})", 'pto.barrier("ALL")',
        f"pto.tadds({core_tile}, {core_tile}, {amount})",
    ]  # fmt: skip
    return Op("AIV", text, act)


def vector_writes(tile: str, target: str, at: str) -> Op:
    def act(arrays: Arrays, tiles: Tiles, values: dict[str, int]) -> None:
        part(arrays[target], at, values)[:] = tiles[tile]

    return Op("AIV", [f"pto.tstore({target}{rows(at)}, {tile})"], act)


def cube_reads(source: str, at: str) -> Op:
    """The cube core loads rows, and multiplies them by a matrix."""

    def act(arrays: Arrays, tiles: Tiles, values: dict[str, int]) -> None:
        tiles["product"] = part(arrays[source], at, values).astype("float32") @ arrays["w"].astype("float32")

    text = [
        f"pto.tload(one, {source}{rows(at)})", "pto.tload(unit, w)", 'pto.barrier("ALL")',
        "pto.tmov(left, one)", "pto.tmov(right, unit)", 'pto.barrier("ALL")',
        "pto.tmatmul(product, left, right)",
    ]  # fmt: skip
    return Op("AIC", text, act)


def cube_writes(target: str, at: str) -> Op:
    def act(arrays: Arrays, tiles: Tiles, values: dict[str, int]) -> None:
        part(arrays[target], at, values)[:] = tiles["product"]

    return Op("AIC", [f"pto.tstore({target}{rows(at)}, product)"], act)


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


class Draft:
    """Draws a kernel: a chain of stages, each of one core, with rings in between."""

    def __init__(self, seed: int) -> None:
        self.dice = Random(seed)
        dice = self.dice
        self.items = dice.randint(1, 7)
        self.grid = dice.choice((1, 1, 2))
        self.chain = dice.choice((["AIC", "AIV"], ["AIV", "AIC"], ["AIV", "AIC", "AIV"]))
        self.manual = dice.random() < 0.7
        """Whether tiles have addresses; else `flags` mode places them."""
        self.dynamic = dice.random() < 0.5
        """Whether the number of items is an argument of the launch."""
        names = {("AIV", "AIC"): "half", ("AIC", "AIV"): "whole"}
        self.rings: list[Ring] = []
        for k, pair in enumerate(zip(self.chain, self.chain[1:], strict=False)):
            slots, alternates = dice.randint(1, 3), dice.random() < 0.5
            # a flag belongs to the core that sets it: one ring may use an id for both of its directions
            self.rings.append(Ring(names[pair], slots, 4 * k, alternates, dice.random() < 0.5))

    # --- stages

    def filled(self, ring: Ring, core: str, item: str, write: Op) -> list[Any]:
        """Wait until a slot is free, fill it, hand it over."""
        pipe = PIPES[core][1]
        wait: list[Any] = [Sync(core, "wait", pipe, ring.flag(item))]
        if not ring.primes:
            wait = [When(f"({item}) >= {ring.slots}", wait, self.filler())]
        return [*wait, write, Sync(core, "set", pipe, ring.flag(item))]

    def emptied(self, ring: Ring, core: str, item: str, read: Op) -> list[Any]:
        """Wait until a slot is full, empty it, hand it back."""
        pipe = PIPES[core][0]
        back: list[Any] = [Sync(core, "set", pipe, ring.flag(item))]
        if not ring.primes:
            back = [When(f"({item}) + {ring.slots} < {self.count}", back, self.filler())]
        return [Sync(core, "wait", pipe, ring.flag(item)), read, Barrier(), *back]

    def filler(self) -> list[Any]:
        """An arm that has nothing to do with slots."""
        return self.dice.choice(([], [Barrier()], [When("n > 5", [Sync("AIV", "wait", "MTE3", "9")])]))

    @property
    def count(self) -> str:
        return "items" if self.dynamic else str(self.items)

    def stage(self, k: int, item: str) -> list[Any]:
        """One item of a stage."""
        core, first, last = self.chain[k], k == 0, k == len(self.chain) - 1
        before, after = (None if first else self.rings[k - 1]), (None if last else self.rings[k])
        whole = f"n * 8 + ({item})"
        where = before.slot(item) if before else whole
        to = after.slot(item) if after else whole
        if core == "AIV":
            tile = "b" if before else "a"
            read = vector_reads(tile, before.array if before else "x", where, float(k + 1))
            write = vector_writes(tile, after.array if after else "out", to)
        else:
            read = cube_reads(before.array if before else "x", where)
            write = cube_writes(after.array if after else "out", to)
        body: list[Any] = self.emptied(before, core, item, read) if before else [read]
        body.append(Barrier())
        body += self.filled(after, core, item, write) if after else [write]
        return [*body, Barrier()]

    # --- arrangements

    def loop(self, stages: list[int], name: str) -> list[Any]:
        """All items of some stages of one core, or of two: one loop, parts of iterations, or no loop."""
        way = self.dice.choice(("loop", "loop", "split", "nest", "flat"))
        if len(stages) > 1 or self.dynamic:
            way = "loop"
        if way == "flat":
            return [stmt for item in range(self.items) for k in stages for stmt in self.stage(k, str(item))]
        if way == "split" and self.items > 1:
            cut = self.dice.randint(1, self.items - 1)
            rest = [
                Loop(f"{name}r", str(self.items - cut), [s for k in stages for s in self.stage(k, f"{cut} + {name}r")])
            ]
            return [Loop(name, str(cut), [s for k in stages for s in self.stage(k, name)]), *rest]
        if way == "nest" and self.items % 2 == 0:
            inner = [Loop(f"{name}j", "2", [s for k in stages for s in self.stage(k, f"{name} * 2 + {name}j")])]
            return [Loop(name, str(self.items // 2), inner)]
        return [Loop(name, self.count, [stmt for k in stages for stmt in self.stage(k, name)])]

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
        """Slots that are handed over first, the stages, and slots that are taken back."""
        first: list[Any] = []
        last: list[Any] = []
        for ring, (filler, emptier) in zip(self.rings, zip(self.chain, self.chain[1:], strict=False), strict=True):
            for slot in range(ring.slots if ring.primes else 0):
                first.append(Sync(emptier, "set", PIPES[emptier][0], ring.flag(str(slot))))
                last.append(Sync(filler, "wait", PIPES[filler][1], ring.flag(str(slot))))
        lines = [*first, *(stmt for section in self.sections() for stmt in section), *last]
        if self.dice.random() < 0.3:
            lines.insert(self.dice.randint(0, len(lines)), When("n > 5", [Sync("AIC", "wait", "FIX", "9"), Barrier()]))
        return lines


def text_of(body: list[Any], depth: int = 1) -> Iterator[str]:
    indent = "    " * depth
    for stmt in body:
        if isinstance(stmt, Op):
            yield from (f"{indent}{line}" for line in stmt.text)
        elif isinstance(stmt, Sync):
            pipe = stmt.pipe if "." in stmt.pipe or stmt.pipe in ("FIX", "MTE3") else f"{stmt.core}.{stmt.pipe}"
            yield f'{indent}pto.sync_{stmt.action}("{pipe}", {stmt.event})'
        elif isinstance(stmt, Barrier):
            yield f'{indent}pto.barrier("ALL")'
        elif isinstance(stmt, Loop):
            yield f"{indent}for {stmt.var} in pto.range({stmt.stop}):"
            yield from text_of(stmt.body, depth + 1)
        else:
            yield f"{indent}with pto.when({stmt.condition}):"
            yield from text_of(stmt.then, depth + 1)
            if stmt.otherwise:
                yield f"{indent}with pto.otherwise():"
                yield from text_of(stmt.otherwise, depth + 1)


def kernel_of(draft: Draft, body: list[Any]) -> tuple[Any, str]:
    places = {name: f", addr={at}" for name, at in PLACES.items()}
    head = f'@pto.kernel(mode="manual")\ndef kernel(x, w, half, whole, out, items):{TILES.format(**places)}'
    code = head + "\n".join(text_of(body)) + "\n"
    names: dict[str, Any] = {"pto": pto}
    exec(compiled(code, "kernel for two cores"), names)
    return names["kernel"], code


def arrays_of(dice: Random) -> Arrays:
    """Whole numbers that all types have, and a matrix whose products are exact."""
    draws = np.random.default_rng(dice.randint(0, 1 << 30))
    w = draws.permutation(np.eye(ROWS, dtype="float16"))
    return {
        "x": draws.integers(-8, 8, (16 * ROWS, ROWS)).astype("float16"), "w": w,
        "half": np.zeros((16 * ROWS, ROWS), "float16"), "whole": np.zeros((16 * ROWS, ROWS), "float32"),
        "out": np.full((16 * ROWS, ROWS), -99, "float32"),
    }  # fmt: skip


def model(draft: Draft, body: list[Any], arrays: Arrays, dice: Random) -> Arrays | None:
    """What the model makes of the arrays; None if it is stuck."""
    found = {name: array.copy() for name, array in arrays.items()}
    try:
        for block in range(draft.grid):
            run_model(body, found, {"n": block, "items": draft.items}, dice)
    except Stuck:
        return None
    return found


def drawn(seed: int) -> tuple[Draft, list[Any], Any, str, Arrays]:
    draft = Draft(seed)
    body = draft.body()
    kernel, code = kernel_of(draft, body)
    return draft, body, kernel, code, arrays_of(draft.dice)


def without_addresses(kernel: Any, given: list[Any], target: str) -> Any:
    """The kernel as a text without addresses: ptokit places its tiles, and the author writes the flags."""
    program = kernel.trace(kernel.bind(given, {}), mode_of(target)).program

    def change(stmt: ir.Stmt) -> ir.Stmt:
        return replace(stmt, addresses=(), fresh=True) if isinstance(stmt, ir.TileDecl) else stmt

    return TextKernel(replace(program, mode="flags", body=ir.transform(program.body, change)))


ENGINES = ("reference", "native", "machine")


def compare(seed: int, target: str) -> bool:
    """Every engine gives the values of the model, and no finding; or says that a wait never ends. Returns which."""
    draft, body, kernel, code, arrays = drawn(seed)
    if not draft.manual:
        kernel = without_addresses(kernel, [*arrays.values(), draft.items], target)
    expected, again = (model(draft, body, arrays, Random(k)) for k in (seed, seed + 1))
    message = f"seed {seed} on {target}, {draft.items} items, grid {draft.grid}\n{code}"
    assert (expected is None) == (again is None), message
    for engine in ENGINES:
        given = {name: array.copy() for name, array in arrays.items()}
        if expected is None:
            options = {"options": pto.MachineOptions(checks=("order",))} if engine == "machine" else {}
            try:
                run = kernel[draft.grid](*given.values(), draft.items, target=target, engine=engine, **options)
            except pto.VerifyError as refusal:
                findings = refusal.findings
            else:
                assert engine == "machine", message
                findings = run.findings
            assert any("waits forever" in finding.message for finding in findings), message
            continue
        assert all((expected[name] == again[name]).all() for name in given), message
        run = kernel[draft.grid](*given.values(), draft.items, target=target, engine=engine)
        for name, array in given.items():
            assert (array == expected[name]).all(), f"{engine}: {name}\n{message}"
        found = [finding for finding in run.findings if finding.level != "note"]
        assert not found, f"{engine}: {found}\n{message}"
    return expected is not None


@pytest.mark.parametrize("target", ["cpu", "a2a3", "a5"])
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_every_engine_gives_the_values_of_two_streams(chunk: int, target: str) -> None:
    pytest.importorskip("llvmlite")
    seen = [compare(seed, target) for seed in range(chunk, PROGRAMS, CHUNKS)]
    assert sum(seen) > len(seen) // 2


# --- a wait of A5 holds a pipe, not a core


@pto.kernel(mode="manual")
def prefetched(x, out, trips: pto.const = 4):
    """The vector core waits for the next slot before it computes with this one, and hands this one back after that. The
    cube core has no other slot to fill in between."""
    source = pto.Tile("mat", "float32", 16, 16, addr=0, blayout="col_major", slayout="row_major")
    slot = pto.Tile("vec", "float32", 16, 16, addr=0)
    for i in pto.range(trips):
        result = pto.Tile("vec", "float32", 16, 16, addr=0x1000 + (i % 2) * 0x1000)
        with pto.when(i == 0):
            pto.sync_wait("V", 0)
        pto.tadds(result, slot, 1.0)
        pto.set_flag("V", "MTE3", i % 2)
        pto.sync_wait("V", 0)
        pto.wait_flag("V", "MTE3", i % 2)
        pto.sync_set("MTE3", 1)
        pto.tstore(out[i * 16 : i * 16 + 16], result)
    for k in pto.range(trips + 1):
        pto.set_flag("MTE1", "MTE2", 0)
        pto.wait_flag("MTE1", "MTE2", 0)
        pto.tload(source, x[k * 16 : k * 16 + 16])
        pto.set_flag("MTE2", "MTE1", 0)
        pto.wait_flag("MTE2", "MTE1", 0)
        with pto.when(k > 0):
            pto.sync_wait("AIC.MTE1", 1)
        pto.tmov(slot, source)
        pto.sync_set("AIC.MTE1", 0)


@pytest.mark.parametrize("target", ["cpu", "a5"])
@pytest.mark.parametrize("engine", ENGINES)
def test_a_core_goes_on_behind_a_wait_that_holds_one_pipe(engine: str, target: str) -> None:
    """Sets of MTE3 do not come after the waits of V in the text before them."""
    pytest.importorskip("llvmlite")
    x = np.arange(5 * 256, dtype="float32").reshape(-1, 16)
    out = np.zeros((64, 16), "float32")
    run = prefetched[1](x, out, target=target, engine=engine)
    assert not [finding for finding in run.findings if finding.level != "note"], run
    assert (out == x[:64] + 1).all()


def test_the_same_program_never_ends_where_a_wait_holds_its_core() -> None:
    x = np.arange(5 * 256, dtype="float32").reshape(-1, 16)
    found = pto.check(prefetched, x, np.zeros((64, 16), "float32"), grid=1, target="a2a3")
    assert any("waits forever" in finding.message for finding in found.findings), found


@pto.kernel(mode="manual")
def ends_or_not(x, out, waits):
    tile = pto.Tile("vec", "float32", 16, 16, addr=0)
    pto.tload(tile, x)
    pto.sync_set("FIX", 0)
    for _ in pto.range(waits):
        pto.sync_wait("AIV.S", 0)
    pto.barrier("ALL")
    pto.tstore(out, tile)


@pytest.mark.parametrize("target", ["cpu", "a2a3", "a5"])
def test_the_machine_reports_a_wait_that_a_number_makes_endless(target: str) -> None:
    """`cpu` has no pipes, so that no clock does."""
    x, out = np.ones((16, 16), "float32"), np.zeros((16, 16), "float32")
    assert ends_or_not[1](x, out, 1, target=target, engine="machine").ok
    assert (out == 1).all()
    with pytest.warns(pto.HazardWarning, match="waits forever"):
        run = ends_or_not[1](x, out, 2, target=target, engine="machine")
    assert [finding.rule for finding in run.findings if finding.level == "error"] == ["KN-13"]
