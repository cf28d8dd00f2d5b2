"""Automatic flags order all that must be ordered and nothing more, according to an independent checker."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given

from ptokit.isa.policy import Coalesce, ScatterAtomicOp
from ptokit.program.expr import BLOCK_IDX, Expr, Var, apply
from ptokit.program.ir import (
    Assign,
    Barrier,
    Block,
    Branch,
    Flag,
    Instr,
    Integer,
    LoadScalar,
    Loop,
    Program,
    Stmt,
    TileDecl,
    TileUse,
    View,
    walk,
)
from ptokit.program.order import order
from ptokit.program.place import place
from ptokit.target import Profile, profile
from tests.loops import FULL
from tests.program.judge import (
    assert_complete,
    assert_keeps_values,
    assert_leaves_event_0_to_kernels,
    assert_minimal,
    assert_only_added,
    auto,
    handovers,
    is_auto,
    superfluous,
)
from tests.program.random_programs import (
    CUBE_FORMS,
    cube_tile,
    flags,
    instr,
    program_of,
    programs,
    runs,
    vec,
    view,
)
from tests.program.random_programs import CubeWriter as Cube
from tests.property.strategies import fuzz

TARGETS = {name: profile(name) for name in ("a2a3", "a5")}
ON_BOTH = pytest.mark.parametrize("name", TARGETS)


def assert_completed(program: Program, target: Profile) -> None:
    """Auto mode only adds flags, and then all is ordered."""
    put = place(program, target).program
    ordered = order(put, target)
    assert_only_added(put, ordered)
    assert_leaves_event_0_to_kernels(ordered, target)
    assert_complete(ordered, target, runs(program, 10))


# --- Random programs -----------------------------------------------------------------------------------------


@ON_BOTH
@fuzz(0.5)
@given(program=programs())
def test_random_programs_are_complete(program: Program, name: str) -> None:
    assert_completed(program, TARGETS[name])


@ON_BOTH
@fuzz(0.3)
@given(program=programs(free=True))
def test_random_programs_are_minimal(program: Program, name: str) -> None:
    target = TARGETS[name]
    ordered = auto(program, target)
    assert_complete(ordered, target, runs(program, 10))
    assert_minimal(ordered, target)


@ON_BOTH
@fuzz(0.3)
@given(program=programs())
def test_random_programs_without_addresses(program: Program, name: str) -> None:
    """Tiles without an address do not overlap."""
    target = TARGETS[name]
    ordered = order(program, target)
    assert_only_added(program, ordered)
    assert_complete(ordered, target, runs(program, 6))


@ON_BOTH
@fuzz(0.3)
@given(program=programs())
def test_placement_keeps_what_tiles_hold(program: Program, name: str) -> None:
    target = TARGETS[name]
    put = place(program, target).program
    assert all(len(tile.addresses) == tile.buffers for tile in put.tiles.values())
    for run in runs(program, 6):
        assert_keeps_values(program, put, target, run)


# --- Chosen programs -----------------------------------------------------------------------------------------

J, K, N = Var("j"), Var("k"), Var("n1")
t, u, v = vec("t"), vec("u"), vec("v")
p, q = vec("p", addresses=(0,), fresh=False), vec("q", addresses=(1024,), fresh=False)
d = vec("d", buffers=2)
idx, cells = vec("idx", 1, 8, "int32"), vec("cells", 8, 64, "int32")
given_n = (Integer("n1"),)


def tload(tile: TileDecl, start: Expr = 0, argument: str = "x") -> Instr:
    return instr("tload", tile, view(argument, start, *tile.spec.valid))


def tstore(tile: TileDecl, start: Expr = 0, argument: str = "y") -> Instr:
    return instr("tstore", view(argument, start, *tile.spec.valid), tile)


def tadd(dst: TileDecl, a: TileDecl, b: TileDecl) -> Instr:
    return instr("tadd", dst, a, b)


def load_rows(tile: TileDecl, start: Expr = 0) -> Instr:
    return instr("tload", tile, View("rows", (0, start), (1, 8)))


def gather(dst: TileDecl, index: TileDecl, mode: Coalesce = Coalesce.Row) -> Instr:
    return instr("mgather", dst, view("z", 0, 64), index, coalesce=mode)


def blocks(var: Expr, size: int = 8) -> Expr:
    """A start that moves on by whole blocks."""
    return apply("mul", var, size)


def over(*body: Stmt, stop: Expr = N, buffers: int = 1, var: Var = J, step: int = 1) -> Loop:
    """A loop; the tiles declared in it have as many copies as it says."""
    copies = tuple(replace(stmt, buffers=buffers) if isinstance(stmt, TileDecl) else stmt for stmt in body)
    return Loop(var, 0, stop, step, copies, buffers)


def add_one(buffers: int) -> Program:
    """Load, compute, store, block by block."""
    body = (t, u, tload(t, blocks(J)), tadd(u, t, t), tstore(u, blocks(J)))
    return program_of(over(*body, buffers=buffers), arguments=given_n)


def lookup(buffers: int, mode: Coalesce) -> Program:
    """Embedding lookup: load indices, gather, store."""
    index = idx if mode is Coalesce.Row else cells
    load = load_rows(index, blocks(J)) if mode is Coalesce.Row else tload(index, blocks(J), "cells")
    body = (index, t, load, gather(t, index, mode), tstore(t, blocks(J)))
    return program_of(over(*body, buffers=buffers), arguments=given_n)


def accumulate(buffers: int) -> Program:
    """Scatter-add of gradients."""
    scatter = instr("mscatter", view("z", 0, 64), t, idx, coalesce=Coalesce.Row, atomic=ScatterAtomicOp.Add)
    body = (idx, t, load_rows(idx, blocks(J)), tload(t, blocks(J)), scatter)
    return program_of(over(*body, buffers=buffers), arguments=given_n)


def in_place(step: int) -> Program:
    """Every block of an argument is read, changed and written back."""
    body = (t, tload(t, blocks(J, step)), tadd(t, t, t), tstore(t, blocks(J, step), "x"))
    return program_of(over(*body), arguments=given_n)


def product(buffers: int) -> Program:
    """A matrix product over blocks of k, accumulated by storing each."""
    mat, left, right, acc = (cube_tile(loc.text, loc) for loc in CUBE_FORMS)
    body = (
        mat, left, right, acc,
        instr("tload", mat, view("a", blocks(J, 32), 32, 32)),
        instr("textract", left, mat, Cube.CORNER, Cube.CORNER),
        instr("textract", right, mat, Cube.CORNER, Cube.CORNER),
        instr("tmatmul", acc, left, right),
        instr("tstore", view("c", blocks(J, 32), 32, 32), acc),
    )  # fmt: skip
    return program_of(over(*body, buffers=buffers), arguments=given_n)


def nested(outer: int, inner: int) -> Program:
    """A row of blocks is summed, the sum is stored."""
    at = apply("add", blocks(J, 64), blocks(K))
    walk_along = over(t, tload(t, at), tadd(u, u, t), stop=Var("n2"), buffers=inner, var=K)
    body = (u, tload(u, blocks(J), "z"), walk_along, tstore(u, blocks(J)))
    return program_of(over(*body, buffers=outer), arguments=(*given_n, Integer("n2")))


def many(count: int) -> Program:
    """More loads in flight than there are events."""
    tiles = [vec(f"t{k}") for k in range(count)]
    sums = [tadd(tile, tile, tile) for tile in tiles]
    stores = [tstore(tile, 8 * k) for k, tile in enumerate(tiles)]
    return program_of(*tiles, *(tload(tile, 8 * k) for k, tile in enumerate(tiles)), *sums, *stores)


def crowded(count: int) -> Program:
    """Large tiles, one after the other: they have to share addresses."""
    tiles = [vec(f"t{k}", 64, 256) for k in range(count)]
    body: list[Stmt] = []
    for k, tile in enumerate(tiles):
        body += [tload(tile, 64 * k), tadd(tile, tile, tile), tstore(tile, 64 * k)]
    return program_of(*tiles, *body, cols=256)


def busy(count: int, buffers: int) -> Program:
    """A loop that needs more event ids than there are."""
    tiles = [vec(f"t{k}") for k in range(count)]
    loads = [tload(tile, apply("add", blocks(J, 8 * count), 8 * k)) for k, tile in enumerate(tiles)]
    sums = [tadd(tile, tile, tile) for tile in tiles]
    stores = [tstore(tile, apply("add", blocks(J, 8 * count), 8 * k)) for k, tile in enumerate(tiles)]
    return program_of(over(*tiles, *loads, *sums, *stores, buffers=buffers), arguments=given_n)


def columns(*starts: int) -> Program:
    """A block of columns is loaded while another one is stored."""
    half = vec("h", 8, 32)
    there, here = (View("x", (blocks(J), start), (8, 32)) for start in starts)
    body = (half, instr("tload", half, there), tadd(half, half, half), instr("tstore", here, half))
    return program_of(over(*body, buffers=2), arguments=given_n)


def maybe(*then: Stmt, otherwise: Block = (), name: str = "c1") -> Branch:
    return Branch(apply("ne", Var(name), 0), then, otherwise)


def single(size: Expr) -> Instr:
    """An element gather of a size that the run decides."""
    uses = TileUse("t", (1, size)), view("z", 0, 64), TileUse("cells", (1, size))
    return instr("mgather", *uses, coalesce=Coalesce.Elem)


scalar = LoadScalar(Var("s"), View("y", (0, 0), (1, 1)))
arms = (Integer("c1"), Integer("c2"))

CHOSEN = {
    "load, compute, store": program_of(t, u, tload(t), tadd(u, t, t), tstore(u)),
    "two loads, one sum": program_of(t, u, v, tload(t), tload(u, 8), tadd(v, t, u), tstore(v)),
    "load and store at once": program_of(t, tload(t), tstore(t)),
    "rows": program_of(idx, t, u, load_rows(idx), gather(t, idx), tadd(u, t, t), tstore(u)),
    "rows, stored at once": program_of(idx, t, load_rows(idx), gather(t, idx), tstore(t)),
    "elements": program_of(cells, t, u, tload(cells, 0, "cells"), gather(t, cells, Coalesce.Elem), tstore(t)),
    "scatter in UB": program_of(
        cells, t, u, tload(cells, 0, "cells"), tload(t), tadd(u, t, t), instr("tscatter", u, t, cells), tstore(u)
    ),
    "through memory": program_of(t, u, tload(t), tstore(t, 0, "y"), tload(u, 0, "y"), tstore(u, 8, "y")),
    "memory under two names": program_of(t, u, tload(t, 0, "z"), tstore(t, 64, "w"), tload(u, 0, "x"), tstore(u)),
    "disjoint blocks": program_of(t, u, tload(t, 0), tload(u, 8), tstore(t, 8, "z"), tstore(u, 0, "z")),
    "a scalar": program_of(t, tload(t), tstore(t), scalar, tload(t, blocks(Var("s"))), tstore(t, 64)),
    "a branch": program_of(
        t, u, tload(t), maybe(tadd(u, t, t), otherwise=(tload(u, 8),)), tstore(u), arguments=arms
    ),
    "two branches": program_of(
        t, u, maybe(tload(t)), maybe(tadd(u, t, t), tstore(u), name="c2"), tload(t, 8), arguments=arms
    ),
    "a branch in a loop": program_of(
        t, u, over(tload(t, blocks(J)), maybe(tadd(u, t, t), tstore(u, blocks(J)))), arguments=(*given_n, *arms)
    ),
    "by block": program_of(t, tload(t, blocks(BLOCK_IDX)), tadd(t, t, t), tstore(t, blocks(BLOCK_IDX), "x")),
    **{f"add one, {n} buffers": add_one(n) for n in (1, 2, 3)},
    **{f"lookup by {mode.text}, {n} buffers": lookup(n, mode) for mode in Coalesce for n in (1, 2)},
    **{f"accumulate, {n} buffers": accumulate(n) for n in (1, 2)},
    **{f"in place, blocks {n} apart": in_place(n) for n in (4, 8, 16)},
    **{f"product, {n} buffers": product(n) for n in (1, 2)},
    **{f"nested, {n} and {m} buffers": nested(n, m) for n in (1, 2) for m in (1, 2)},
    **{f"{n} in flight": many(n) for n in (3, 8, 11)},
    **{f"{n} large tiles": crowded(n) for n in (2, 5)},
    **{f"{n} in a loop, {m} buffers": busy(n, m) for n, m in ((3, 2), (5, 3), (9, 1))},
    **{f"columns {a} and {b}": columns(a, b) for a, b in ((0, 32), (0, 0), (0, 16))},
    "addresses of the user's": program_of(
        p, q, t, tload(p), tadd(q, q, q), tload(t, 8), tadd(q, t, t), tstore(p), tstore(q, 8)
    ),
    "a tile that moves": program_of(p, q, t, tload(p), Assign("p", 8192), tadd(p, q, q), tstore(p), tload(q, 8)),
    "a loop from the block's number on": program_of(
        Loop(J, BLOCK_IDX, N, 2, (d, tload(d, blocks(J)), tadd(d, d, d), tstore(d, blocks(J), "x")), 2),
        arguments=given_n,
    ),
    "backwards": program_of(
        Loop(J, N, 0, -1, (d, tload(d, blocks(J)), tadd(d, d, d), tstore(d, blocks(J), "x")), 2), arguments=given_n
    ),
    "one iteration": program_of(over(t, tload(t), tadd(t, t, t), tstore(t), stop=1)),
    "two iterations of two buffers": program_of(over(t, tload(t), tadd(t, t, t), tstore(t), stop=2, buffers=2)),
    "steps of two": program_of(over(t, tload(t, blocks(J)), tstore(t, blocks(J), "x"), stop=6, step=2)),
    "a sum carried round": program_of(
        u, tload(u, 0, "z"), over(t, tload(t, blocks(J)), tadd(u, u, t), buffers=2), tstore(u), arguments=given_n
    ),
    "an element or more": program_of(
        cells, t, tload(cells, 0, "cells"), single(apply("add", Var("m1"), 1)), tstore(t), arguments=(Integer("m1"),)
    ),
    "by hand as well": program_of(
        t, u, tload(t), *flags("MTE2", "V", 7), tadd(u, t, t), Barrier("ALL"), tstore(u), tload(t, 8)
    ),
}  # fmt: skip
chosen = pytest.mark.parametrize("program", CHOSEN.values(), ids=CHOSEN)


@ON_BOTH
@chosen
def test_chosen_programs_are_complete(program: Program, name: str) -> None:
    assert_completed(program, TARGETS[name])


MINIMAL = [
    pytest.param(program, target, id=f"{name}-{target}")
    for nth, (name, program) in enumerate(CHOSEN.items())
    for number, target in enumerate(TARGETS)
    if FULL or (nth + number) % len(TARGETS) == 0
]
"""Each on one target, by turns: on both they are complete."""


@pytest.mark.parametrize(("program", "name"), MINIMAL)
def test_chosen_programs_are_minimal(program: Program, name: str) -> None:
    assert_minimal(auto(program, TARGETS[name]), TARGETS[name])


def hand_made(*extra: Flag) -> Program:
    """A double-buffered loop with flags that pass for automatic ones."""
    parity = apply("mod", J, 2)
    ready, take, free, room = (replace(flag, auto=True) for pair in PAIRS for flag in flags(*pair, parity))
    primed = [replace(flag, auto=True) for k in range(2) for flag in flags("V", "MTE2", k)]
    body = (t, room, tload(t, blocks(J)), ready, take, tadd(u, t, t), free)
    return program_of(u, *primed[::2], over(*body, buffers=2), *primed[1::2], *extra, arguments=given_n)


PAIRS = (("MTE2", "V"), ("V", "MTE2"))


def test_the_judge_knows_what_is_needed() -> None:
    """The flags of a loop, with those around it, are one hand-over; a pair that orders nothing is found."""
    target, ordered = TARGETS["a5"], hand_made()
    assert_complete(ordered, target, runs(ordered, 12))
    assert sorted(map(len, handovers(ordered, target, runs(ordered, 12)))) == [2, 6]
    assert_minimal(ordered, target)
    needless = (replace(flag, auto=True) for flag in flags("V", "MTE3", 5))
    (found,) = superfluous(hand_made(*needless), target)
    assert len(found) == 2 and all("MTE3" in text for text in found)


@ON_BOTH
def test_a_loop_that_never_runs_needs_nothing(name: str) -> None:
    program = program_of(t, over(tload(t), tadd(t, t, t), tstore(t), stop=0))
    assert not any(map(is_auto, walk(auto(program, TARGETS[name]).body)))


@pytest.mark.parametrize("name", ["cpu", "host"])
def test_targets_without_pipes_get_no_flags(name: str) -> None:
    assert order(CHOSEN["add one, 2 buffers"], profile(name)) == CHOSEN["add one, 2 buffers"]


@ON_BOTH
def test_manual_programs_stay_as_they_are(name: str) -> None:
    program = replace(CHOSEN["load, compute, store"], mode="manual")
    assert order(program, TARGETS[name]) == program


@ON_BOTH
def test_order_is_the_same_every_time(name: str) -> None:
    program, target = CHOSEN["nested, 2 and 2 buffers"], TARGETS[name]
    assert auto(program, target) == auto(program, target)
