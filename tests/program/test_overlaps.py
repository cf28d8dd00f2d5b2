"""Tiles that share bytes (A-38, H-38), against every path through a program, executed byte by byte."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import pytest

from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.isa.dtype import dtype
from ptokit.isa.policy import Coalesce
from ptokit.machine.memories import MemoryLocation, Owners
from ptokit.machine.shadow import Extent, Shadow
from ptokit.program.expr import Expr, Var, apply, evaluate
from ptokit.program.instr_calls import access_of, named_operands
from ptokit.program.ir import (
    Argument,
    Assign,
    Block,
    Branch,
    Instr,
    LoadScalar,
    Loop,
    Program,
    Stmt,
    TileDecl,
    TileUse,
    View,
)
from ptokit.program.overlaps import conflicts, interleaved
from ptokit.program.verify import verify
from ptokit.target.a2a3 import A2A3
from tests.program.building import COND, I, N, exp, gather, load, loop, program, store, tile

TILE = 1024
"""Bytes of a tile."""


def at(name: str, address: int, kind: str = "float32") -> TileDecl:
    made = tile(name, addresses=(address,), fresh=False)
    return replace(made, spec=replace(made.spec, dtype=dtype(kind)))


def faults(source: Program) -> set[frozenset[str]]:
    found = (each for each in conflicts(source, "a2a3", None) if each.is_fault)
    return {frozenset((each.first.tile.name, each.second.tile.name)) for each in found}


def notes(source: Program) -> set[frozenset[str]]:
    said = [f for f in verify(source, A2A3) if f.kind == "H-38" and f.level == "note"]
    return {frozenset(name for name in source.tiles if f" {name} " in f.message.replace(":", " ")) for f in said}


def manual(*body: Stmt) -> Program:
    made = program(*body, mode="manual")
    return replace(made, arguments=(Argument("numbers", dtype("int32"), (8, 1), (1, 1)), *made.arguments))


# --- the naive way: every byte, on every way through the program


def ways(block: Block) -> Iterator[list[Stmt]]:
    """The statements in the order in which they may run: loops none to three times, either arm of a branch."""
    if not block:
        yield []
        return
    first, rest = block[0], block[1:]
    heads: list[list[Stmt]] = [[first]]
    if isinstance(first, Loop):
        bodies = list(ways(first.body))
        heads = [[s for body in chosen for s in body] for n in range(4) for chosen in product(bodies, repeat=n)]
    elif isinstance(first, Branch):
        heads = [*ways(first.then), *ways(first.otherwise)]
    for head in heads:
        for tail in ways(rest):
            yield head + tail


def destroyed(source: Program, way: list[Stmt]) -> set[frozenset[str]]:
    """Pairs of tiles of which one is read where the other has destroyed what it held."""
    place: dict[str, tuple[object, ...]] = {}
    last: dict[int, tuple[tuple[object, ...], str]] = {}
    claimed: dict[tuple[object, ...], set[int]] = {}
    found: set[frozenset[str]] = set()
    for stmt in way:
        if isinstance(stmt, TileDecl):
            place[stmt.name] = (stmt.addresses[0], stmt.spec.nbytes, str(stmt.spec.dtype))
        if not isinstance(stmt, Instr):
            continue
        access = access_of(stmt)
        used = [(access[n], o.tile) for n, o in named_operands(stmt).items() if isinstance(o, TileUse)]
        reads = [name for how, name in used if how != "write"]
        writes = [name for how, name in used if how != "read"]
        cells = {n: range(int(place[n][0]), int(place[n][0]) + extent(stmt, n)) for n in (*reads, *writes)}  # type: ignore[call-overload]
        for name in reads:
            for cell in cells[name]:
                if cell in claimed.get(place[name], ()) and last[cell][0] != place[name]:
                    found.add(frozenset((name, last[cell][1])))
        for one, other in product(writes, reads):
            in_place = place[one] == place[other] and INSTRUCTIONS[stmt.name].destination.in_place.get("a2a3")
            if one != other and not in_place and set(cells[one]) & set(cells[other]):
                found.add(frozenset((one, other)))
        for name in writes:
            claimed.setdefault(place[name], set()).update(cells[name])
            last.update(dict.fromkeys(cells[name], (place[name], name)))
    return found


def extent(instr: Instr, name: str) -> int:
    """Bytes of a tile that an instruction accesses: rows of 64 bytes, and all of what a gather writes."""
    use = next(u for u in instr.tiles if u.tile == name)
    return TILE if instr.name == "mgather" and use is instr.tiles[0] else int(use.valid[0]) * 64  # type: ignore[arg-type]


def named(pairs: set[frozenset[str]], source: Program) -> set[frozenset[object]]:
    """Pairs of places, independent of the handle of a buffer."""
    places = {n: (t.addresses[0], t.spec.nbytes, str(t.spec.dtype)) for n, t in source.tiles.items()}
    return {frozenset(places[name] for name in pair) for pair in pairs}


def random_block(rng: random.Random, names: str, depth: int) -> tuple[Stmt, ...]:
    body: list[Stmt] = []
    for _ in range(rng.randint(1, 4)):
        kind = rng.choice(("load", "load", "store", "exp", "gather", "loop", "branch") if depth else ("load", "store"))
        a, b = rng.choice(names), rng.choice(names)
        if kind == "loop":
            body.append(loop(*random_block(rng, names, depth - 1)))
        elif kind == "branch":
            number = Var(f"n{rng.random()}")  # another one in every iteration
            body.append(LoadScalar(number, View("numbers", (0, 0), (1, 1))))
            body.append(Branch(number, random_block(rng, names, depth - 1), random_block(rng, names, depth - 1)))
        elif kind == "exp":
            body.append(exp(a, b))
        elif kind == "gather":
            body.append(gather(a, "x", b, rng.choice((Coalesce.Row, Coalesce.Elem))))
        else:
            body.append(load(a, "x") if kind == "load" else store("y", a))
    return tuple(body)


@pytest.mark.parametrize("seed", range(40))
def test_faults_are_what_some_way_through_the_program_shows(seed: int) -> None:
    rng = random.Random(seed)
    places = [0, 0, 64, 512, TILE, TILE, TILE + 64, 2 * TILE]
    decls = [at(name, rng.choice(places), rng.choice(("float32", "float32", "int32"))) for name in "abcd"]
    source = manual(*decls, *random_block(rng, "abcd", 1), *random_block(rng, "abcd", 1))
    every = set().union(*(destroyed(source, way) for way in ways(source.body)))
    assert named(faults(source), source) == named(every, source)


# --- what the decision says, case by case

SAME = (at("a", 0), at("b", 0))
NEAR = (at("a", 0), at("b", 512))


def test_two_handles_of_the_same_bytes_and_type_are_one_buffer() -> None:
    body = (load("a", "x"), exp("b", "a"), exp("a", "b"), loop(exp("b", "b"), store("y", "a")), store("y", "b"))
    assert faults(manual(*SAME, *body)) == set()
    assert not [f for f in verify(manual(*SAME, *body), A2A3) if f.kind == "H-38"]


def test_handles_of_another_shape_are_one_buffer_too() -> None:
    flat = replace(at("b", 0), spec=replace(at("b", 0).spec, rows=1, cols=256, valid_rows=1, valid_cols=256))
    assert faults(manual(at("a", 0), flat, load("a", "x"), load("b", "x"), store("y", "a"))) == set()


def test_another_type_is_another_buffer() -> None:
    tiles = at("a", 0), at("b", 0, "int32")
    assert faults(manual(*tiles, load("a", "x"), load("b", "x"), store("y", "a"))) == {frozenset("ab")}
    seen = manual(*tiles, load("a", "x"), store("y", "b"))  # nothing of b is destroyed: b shows the bits of a
    assert faults(seen) == set() and notes(seen) == {frozenset("ab")}


def test_a_write_over_what_is_read_later_is_a_fault() -> None:
    assert faults(manual(*NEAR, load("a", "x"), load("b", "x"), store("y", "a"))) == {frozenset("ab")}


def test_what_is_written_again_is_none() -> None:
    again = load("a", "x"), load("b", "x"), store("y", "b"), load("a", "x"), store("y", "a")
    assert faults(manual(*NEAR, *again)) == set()


def test_a_dead_tile_conflicts_with_nothing() -> None:
    body = load("a", "x"), store("y", "a"), load("b", "x"), store("y", "b")
    assert faults(manual(*NEAR, *body)) == set() and notes(manual(*NEAR, *body)) == set()


def test_arms_of_a_branch_do_not_conflict() -> None:
    arms = Branch(COND, (load("a", "x"), store("y", "a")), (load("b", "x"), store("y", "b")))
    assert faults(manual(*NEAR, arms)) == set()
    assert faults(manual(*NEAR, loop(arms))) == set()


def test_one_arm_may_destroy_what_is_read_behind_the_branch() -> None:
    arms = Branch(COND, (load("b", "x"),), ())
    assert faults(manual(*NEAR, load("a", "x"), arms, store("y", "a"))) == {frozenset("ab")}


M = Var("m")
OPPOSITE = [
    (apply("gt", N, 3), apply("le", N, 3)), (apply("lt", N, 3), apply("ge", N, 3)), (apply("eq", N, 0), N),
    (apply("eq", N, 1), apply("eq", N, 2)), (apply("lt", N, 2), apply("gt", N, 5)),
    (apply("lt", 3, N), apply("lt", N, 4)), (apply("eq", apply("mod", N, 2), 0), apply("ne", apply("mod", N, 2), 0)),
    (apply("gt", apply("add", N, M), 3), apply("lt", apply("add", M, N), 4)),
    (apply("and", apply("gt", N, 3), apply("gt", M, 3)), apply("le", M, 3)),
    (apply("lt", apply("sub", N, M), 1), apply("lt", M, N)),
]  # fmt: skip
TOGETHER = [
    (apply("gt", N, 3), apply("ge", N, 3)), (apply("gt", N, 3), apply("le", M, 3)), (N, M), (N, apply("ne", N, 1)),
    (apply("or", apply("gt", N, 3), apply("gt", M, 3)), apply("le", M, 3)), (apply("lt", N, 5), apply("gt", N, 2)),
    (apply("le", N, 3), apply("ge", N, 3)), (apply("eq", N, 1), apply("eq", M, 2)),
    (apply("ne", N, 1), apply("ne", N, 2)), (apply("lt", apply("sub", N, M), 1), apply("lt", N, M)),
]  # fmt: skip
CHOICES = [*((one, other, True) for one, other in OPPOSITE), *((one, other, False) for one, other in TOGETHER)]


@pytest.mark.parametrize(("one", "other", "is_exclusive"), CHOICES)
def test_conditions_that_exclude_each_other(one: Expr, other: Expr, is_exclusive: bool) -> None:
    """The same as some pair of numbers shows; and what that means for tiles that share bytes."""
    pairs = [{N: n, M: m} for n in range(-2, 9) for m in range(-2, 9)]
    assert is_exclusive == (not any(evaluate(one, values) and evaluate(other, values) for values in pairs))
    expected = set() if is_exclusive else {frozenset("ab")}

    def when(condition: Expr, *body: Stmt) -> Stmt:
        return Branch(condition, body, ())

    body = when(one, load("a", "x")), when(other, load("b", "x")), when(one, store("y", "a"))
    assert faults(manual(*NEAR, *body)) == expected
    assert faults(manual(*NEAR, loop(*body))) == expected
    nested = when(M, when(one, load("a", "x"))), when(other, load("b", "x")), when(M, when(one, store("y", "a")))
    assert faults(manual(*NEAR, *nested)) == expected


def test_a_condition_that_changes_from_iteration_to_iteration_excludes_nothing() -> None:
    even = apply("eq", apply("mod", I, 2), 0)
    arms = Branch(even, (store("y", "a"),), (load("b", "x"),))
    assert faults(manual(*NEAR, load("a", "x"), loop(arms))) == {frozenset("ab")}
    fixed = Branch(N, (store("y", "a"),), (load("b", "x"),))
    assert faults(manual(*NEAR, load("a", "x"), loop(fixed))) == set()
    number = LoadScalar(M, View("numbers", (0, 0), (1, 1)))
    again = Branch(M, (store("y", "a"),), (load("b", "x"),))
    assert faults(manual(*NEAR, load("a", "x"), loop(number, again))) == {frozenset("ab")}
    assert faults(manual(*NEAR, load("a", "x"), number, loop(again))) == set()


def test_the_next_iteration_counts() -> None:
    assert faults(manual(*NEAR, load("a", "x"), loop(store("y", "a"), load("b", "x")))) == {frozenset("ab")}
    assert faults(manual(*NEAR, loop(load("a", "x"), store("y", "a"), load("b", "x")))) == set()


def test_one_instruction_may_not_write_what_it_reads() -> None:
    assert faults(manual(*NEAR, load("a", "x"), exp("b", "a"))) == {frozenset("ab")}
    assert faults(manual(*SAME, load("a", "x"), exp("b", "a"))) == set()  # in place
    assert faults(manual(*SAME, load("a", "x"), gather("b", "x", "a", Coalesce.Elem))) == {frozenset("ab")}


def test_padding_that_is_never_read_may_be_overwritten() -> None:
    half = Instr("tstore", (store("y", "a").operands[0], TileUse("a", (8, 16))), (None, None))
    assert faults(manual(*NEAR, load("a", "x"), load("b", "x"), half)) == set()


def test_tiles_that_move_are_handles_of_where_they_are() -> None:
    unplaced = tile("b")
    body = load("a", "x"), Assign("b", 0), exp("b", "b"), Assign("b", 512), load("b", "x"), store("y", "a")
    assert faults(manual(at("a", 0), unplaced, *body)) == {frozenset("ab")}
    assert faults(manual(at("a", 0), unplaced, *body[:3], store("y", "a"))) == set()


def test_addresses_of_an_iteration_are_compared_within_it() -> None:
    ring = loop(
        Assign("a", apply("mul", loop().var, TILE)),
        Assign("b", apply("mul", loop().var, TILE)),
        load("a", "x"),
        exp("b", "b"),
        store("y", "a"),
        stop=4,
    )
    assert faults(manual(tile("a"), tile("b"), ring)) == set()
    apart = replace(ring, body=(ring.body[0], Assign("b", apply("add", ring.body[0].address, 64)), *ring.body[2:]))  # type: ignore[union-attr]
    late = replace(apart, body=(*apart.body[:3], load("b", "x"), store("y", "a")))
    assert faults(manual(tile("a"), tile("b"), late)) == {frozenset("ab")}


def test_addresses_known_at_run_time_are_deferred() -> None:
    assert (
        faults(manual(at("a", 0), tile("b"), Assign("b", N), load("a", "x"), load("b", "x"), store("y", "a"))) == set()
    )


def test_deep_nests_of_loops_end() -> None:
    body: tuple[Stmt, ...] = (load("a", "x"), load("b", "x"), store("y", "a"))
    for _ in range(40):
        body = (loop(*body),)
    assert faults(manual(*NEAR, *body)) == {frozenset("ab")}


def test_a_finding_names_both_tiles_their_bytes_and_the_two_accesses() -> None:
    (found,) = [f for f in verify(manual(*NEAR, load("a", "x"), load("b", "x"), store("y", "a")), A2A3) if f.kind]
    assert (found.level, found.rule, found.kind, found.operand) == ("error", "A-38", "H-38", "b")
    assert "0x200..0x600, over a at 0x0..0x400" in found.message
    assert "tload writes over what tstore reads through a" in found.message


# --- slices: a tile of some columns of another one

PITCH = 64
"""Bytes from one row of a tile to the next."""
SLICES = [
    # the columns of the tile that are used; where the part begins, its rows and columns; whether the tile is spoiled
    pytest.param(16, 8 * 4, 16, 8, False, id="the right half"),
    pytest.param(16, 4 * 4, 8, 4, False, id="columns of some rows"),
    pytest.param(8, 8 * 4, 16, 8, False, id="columns beside those of the tile"),
    pytest.param(8, 4 * 4, 16, 8, True, id="some columns of the tile, and others"),
    pytest.param(16, 4 * PITCH, 4, 8, True, id="from another row on"),
    pytest.param(16, 4 * PITCH, 4, 16, True, id="rows"),
]


def part_of(address: int, rows: int, cols: int) -> tuple[TileDecl, TileUse]:
    decl = tile("part", rows=rows, addresses=(address,), fresh=False)
    return decl, TileUse("part", (rows, cols))


@pytest.mark.parametrize(("width", "address", "rows", "cols", "is_spoiled"), SLICES)
def test_a_tile_of_some_columns_of_another_one_is_a_slice_of_it(
    width: int, address: int, rows: int, cols: int, is_spoiled: bool
) -> None:
    whole, use = at("whole", 0), TileUse("whole", (16, width))
    decl, part = part_of(address, rows, cols)
    body = [
        Instr("tload", (use, View("x", (0, 0), (16, width)))),
        Instr("tload", (part, View("x", (0, 0), (rows, cols)))),
        Instr("tstore", (View("y", (0, 0), (16, width)), use), (None, None)),
    ]
    assert faults(manual(whole, decl, *body)) == ({frozenset(("whole", "part"))} if is_spoiled else set())


@pytest.mark.parametrize(("width", "address", "rows", "cols", "is_spoiled"), SLICES)
@pytest.mark.parametrize("reads_part", [False, True])
def test_the_machine_knows_slices_too(
    width: int, address: int, rows: int, cols: int, is_spoiled: bool, reads_part: bool
) -> None:
    """One of the two is written, then the other one, and the first is read."""
    decl, _ = part_of(address, rows, cols)
    owners = Owners(manual(at("whole", 0), decl), None)
    shadow = Shadow(1024, 8, 4)
    extents = {"whole": Extent(16, width, 16), "part": Extent(rows, cols, 16)}
    places = {name: MemoryLocation(shadow, start, "UB") for name, start in (("whole", 0), ("part", address // 4))}
    names = ["part", "whole"] if reads_part else ["whole", "part"]
    for name in names:
        owners.declare(name, places[name])
        owners.write(name, places[name], extents[name], narrow=extents[name].length < 16)
    first = names[0]
    found = owners.read(first, places[first], extents[first], narrow=extents[first].length < 16)
    assert (found is not None) == is_spoiled
    if found:
        assert found[0] == names[1]


def test_only_tiles_of_one_pitch_may_be_parts_of_the_same_rows() -> None:
    half, other = at("half", 32), tile("other", cols=8, addresses=(96,), fresh=False)
    assert interleaved(manual(at("whole", 0), half), None) == {"whole", "half"}
    assert interleaved(manual(at("whole", 0), other), None) == frozenset()
