"""The checker of order, against programs with known verdicts and against random schedules."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass
from dataclasses import field as field_of
from itertools import combinations, pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ptokit.isa.policy import Coalesce, TileType
from ptokit.program.expr import BLOCK_IDX, Expr, Var, apply
from ptokit.program.instr_calls import call_of, effects
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
from ptokit.target import profile
from tests.program.happens_before import Fault, check, show
from tests.program.random_programs import (
    CubeWriter,
    cube_tile,
    flags,
    instr,
    program_of,
    programs,
    runs,
    vec,
    view,
)
from tests.property.strategies import fuzz

A2A3, A5, CPU = profile("a2a3"), profile("a5"), profile("cpu")
BOTH = pytest.mark.parametrize("target", [A2A3, A5], ids=lambda target: target.name)

t, u, v = vec("t"), vec("u"), vec("v")
idx, cells = vec("idx", 1, 8, "int32"), vec("cells", 8, 64, "int32")
DECLARED = (t, u, v, idx, cells)
J, N = Var("i"), Var("n")


def tload(tile: TileDecl, start: Expr = 0, argument: str = "x") -> Instr:
    return instr("tload", tile, view(argument, start, *tile.spec.valid))


def tstore(tile: TileDecl, start: Expr = 0, argument: str = "y") -> Instr:
    return instr("tstore", view(argument, start, *tile.spec.valid), tile)


def tadd(dst: TileDecl, a: TileDecl, b: TileDecl, **more: Any) -> Instr:
    return instr("tadd", dst, a, b, **more)


def gather(mode: Coalesce = Coalesce.Row, dst: TileDecl = t, argument: str = "x") -> Instr:
    return instr("mgather", dst, view(argument), idx if mode is Coalesce.Row else cells, coalesce=mode)


def scatter(mode: Coalesce = Coalesce.Row, src: TileDecl = t, argument: str = "y") -> Instr:
    return instr("mscatter", view(argument), src, idx if mode is Coalesce.Row else cells, coalesce=mode)


LOAD_INDEX = instr("tload", idx, View("rows", (0, 0), (1, 8)))
LOAD_CELLS = instr("tload", cells, view("cells"))


def faults(*body: Stmt, target: Any = A5, **run: Any) -> list[Fault]:
    """What is wrong with a program over the usual tiles."""
    named = tuple(Integer(name) for name in run.get("integers", ()))
    return check(program_of(*DECLARED, *body, arguments=named), target, **run)


def kinds(*body: Stmt, target: Any = A5, **run: Any) -> set[str]:
    """The kinds of faults."""
    return {fault.kind for fault in faults(*body, target=target, **run)}


CLEAN: set[str] = set()
RACE = {"race"}

# --- Pipes and flags -----------------------------------------------------------------------------------------


@BOTH
def test_work_of_one_pipe_is_in_order(target: Any) -> None:
    assert kinds(tload(t), tload(t, 8), target=target) == CLEAN
    assert kinds(tadd(t, u, v), tadd(u, t, v), target=target) == CLEAN


@BOTH
@pytest.mark.parametrize("second", [tadd(u, t, t), tadd(t, u, u), tstore(t)], ids=["read", "write", "store"])
def test_work_of_two_pipes_is_not(second: Instr, target: Any) -> None:
    (fault,) = faults(tload(t), second, target=target)
    assert fault.kind == "race" and "tload(t" in fault.message and second.name in fault.message


def test_two_readers_do_not_conflict() -> None:
    assert kinds(tadd(u, t, t), tstore(t)) == CLEAN


@BOTH
def test_a_flag_orders(target: Any) -> None:
    done, wait = flags("MTE2", "V")
    assert kinds(tload(t), done, wait, tadd(u, t, t), target=target) == CLEAN


@pytest.mark.parametrize(
    "body",
    [
        (Flag("set", "MTE2", "V", 0), tload(t), Flag("wait", "MTE2", "V", 0), tadd(u, t, t)),
        (tload(t), Flag("set", "MTE2", "V", 0), tadd(u, t, t), Flag("wait", "MTE2", "V", 0)),
        (tload(t), *flags("MTE2", "MTE3"), tadd(u, t, t)),
        (tload(t), *flags("MTE3", "V"), tadd(u, t, t)),
    ],
    ids=["set too early", "wait too late", "other consumer", "other producer"],
)
def test_a_flag_orders_only_what_stands_around_it(body: Block) -> None:
    assert kinds(*body) == RACE


def test_order_is_transitive() -> None:
    through = (*flags("MTE2", "V"), *flags("V", "MTE3"))
    assert kinds(tload(t), *through, tstore(t)) == CLEAN
    assert kinds(tload(t), *flags("V", "MTE3"), *flags("MTE2", "V"), tstore(t)) == RACE


def test_sets_and_waits_match_in_order() -> None:
    one, wait = flags("MTE2", "V")
    back = flags("V", "MTE2")
    both = (tload(t), one, wait, tadd(v, t, t), *back, tload(u), one, wait, tadd(v, u, u))
    assert kinds(*both) == CLEAN
    early = (tload(t), one, wait, tadd(v, u, u), *back, one, tload(u), wait, tadd(v, u, u))
    assert kinds(*early) == RACE


def test_the_order_must_be_that_of_the_program() -> None:
    """A wait before its set allows the later instruction to go first."""
    done, wait = flags("MTE2", "V")
    assert kinds(wait, tadd(u, t, t), tload(t), done) == RACE


def test_a_wait_on_the_scalar_pipe_stalls_issue() -> None:
    assert kinds(tload(t), *flags("MTE2", "S"), tadd(u, t, t), tstore(t)) == CLEAN
    assert kinds(tload(t), tadd(u, t, t), *flags("MTE2", "S")) == RACE


def test_work_on_the_scalar_pipe_does_not() -> None:
    """On A2/A3 a scatter inside UB is scalar work, which V waits for and which waits for V; other pipes do not."""
    shuffle = instr("tscatter", t, u, cells)
    for target in (A2A3, A5):
        assert kinds(shuffle, tstore(t), target=target) == RACE
        assert kinds(shuffle, *flags("V", "MTE3"), tstore(t), target=target) == CLEAN
        assert kinds(tload(u), shuffle, target=target) == RACE
        assert kinds(tload(u), *flags("MTE2", "V"), shuffle, target=target) == CLEAN
        assert kinds(shuffle, tadd(v, t, t), target=target) == CLEAN
        assert kinds(tadd(u, v, v), shuffle, target=target) == CLEAN
    assert kinds(shuffle, *flags("S", "MTE3"), tstore(t), target=A2A3) == CLEAN


def test_an_event_that_the_scalar_pipe_hears_stalls_issue() -> None:
    """On A2/A3 everything that is issued after the scatter comes after what it has waited for."""
    load = instr("tload", v, view("x"), event=4)
    hears = instr("tscatter", t, u, cells, waits=(4,))
    assert kinds(load, hears, tstore(v), target=A2A3) == CLEAN
    assert kinds(load, hears, tstore(v), target=A5) == RACE


def test_barriers() -> None:
    assert kinds(tload(t), Barrier("ALL"), tadd(u, t, t)) == CLEAN
    assert kinds(tload(t), tadd(u, t, t), Barrier("ALL")) == RACE
    assert kinds(tload(t), Barrier("MTE2"), Barrier("V"), tadd(u, t, t)) == RACE


def test_events() -> None:
    load = instr("tload", t, view("x"), event=4)
    assert kinds(load, tadd(u, t, t, waits=(4,))) == CLEAN
    assert kinds(load, tadd(u, t, t)) == RACE
    assert kinds(load, tload(v, 8), tadd(u, t, t, waits=(4,))) == CLEAN
    assert kinds(tload(t), tadd(u, t, t, waits=(4,))) == {"deadlock", "race"}
    assert kinds(load, instr("tload", v, view("x"), event=4), tadd(u, t, t, waits=(4,))) == CLEAN


def test_the_last_signal_of_an_event_counts() -> None:
    first = instr("tload", t, view("x"), event=4)
    again = tadd(u, v, v, event=4)
    assert kinds(first, again, instr("tstore", view("y"), t, waits=(4,))) == RACE
    assert kinds(again, first, instr("tstore", view("y"), t, waits=(4,))) == CLEAN


# --- Bits ----------------------------------------------------------------------------------------------------


def test_a_flag_is_one_bit() -> None:
    done, wait = flags("MTE2", "V")
    assert kinds(done, wait, done, wait) == {"double set"}
    assert kinds(done, done, wait, wait) == {"double set"}
    assert kinds(done, wait, *flags("V", "MTE2"), done, wait) == CLEAN
    assert kinds(done, Flag("set", "MTE2", "V", 1), wait, Flag("wait", "MTE2", "V", 1)) == CLEAN
    assert kinds(done, wait, Barrier("ALL"), done, wait) == CLEAN


def test_every_set_has_a_wait() -> None:
    done, wait = flags("MTE2", "V", 3)
    assert kinds(done) == {"left set"}
    assert kinds(wait) == {"deadlock"}
    assert kinds(Flag("set", "MTE2", "V", 2), wait) == {"left set", "deadlock"}


def test_a_circle_of_waits_is_a_deadlock() -> None:
    (one, wait_one), (two, wait_two) = flags("MTE2", "V"), flags("V", "MTE2")
    assert kinds(wait_one, two, wait_two, one) == {"deadlock"}
    assert kinds(one, wait_one, two, wait_two) == CLEAN


def test_a_stalled_issue_never_gets_to_its_set() -> None:
    done, wait = flags("MTE2", "S")
    assert kinds(wait, done) == {"deadlock"}
    assert kinds(done, wait) == CLEAN


def test_a_wait_may_stand_before_its_set_on_other_pipes() -> None:
    done, wait = flags("MTE2", "V")
    assert kinds(wait, done) == CLEAN


@pytest.mark.parametrize(("event", "expected"), [(0, CLEAN), (7, CLEAN), (8, {"event id"}), (-1, {"event id"})])
def test_event_ids(event: int, expected: set[str]) -> None:
    assert kinds(*flags("MTE2", "V", event)) == expected


def test_unknown_pipes() -> None:
    assert kinds(*flags("MTE9", "V")) == {"pipe"}
    assert kinds(*flags("V", "ALL")) == {"pipe"}
    assert kinds(Barrier("MTE9")) == {"pipe"}


def test_targets_without_pipes_need_nothing() -> None:
    assert kinds(tload(t), tadd(u, t, t), Flag("wait", "V", "S", 0), target=CPU) == CLEAN


# --- What instructions wait for by themselves ----------------------------------------------------------------


@pytest.mark.clause("MG-SYNC-01", "MG-SYNC-04", "MG-SYNC-12")
def test_a_row_gather_on_a2a3() -> None:
    ready = (LOAD_INDEX, *flags("MTE2", "V"))
    assert kinds(LOAD_INDEX, gather(), target=A2A3) == RACE
    assert kinds(*ready, gather(), target=A2A3) == CLEAN
    for after in (tadd(u, t, t), tstore(t), tload(t), LOAD_INDEX, gather()):
        assert kinds(*ready, gather(), after, target=A2A3) == CLEAN, after.name
    for before in (tadd(t, u, u), tstore(t), tadd(u, t, t)):
        assert kinds(*ready, before, gather(), target=A2A3) == CLEAN, before.name


@pytest.mark.clause("MG-SYNC-05", "MG-SYNC-11")
def test_an_element_gather_on_a2a3() -> None:
    elements = gather(Coalesce.Elem)
    assert kinds(LOAD_CELLS, elements, target=A2A3) == CLEAN
    for after in (tadd(u, t, t), tstore(t), tload(t), LOAD_CELLS, elements):
        assert kinds(elements, after, target=A2A3) == CLEAN, after.name
    assert kinds(instr("tscatter", t, u, cells), elements, target=A2A3) == CLEAN


@pytest.mark.clause("MG-SYNC-13", "MG-SYNC-15")
def test_a_gather_on_a5_is_vector_work() -> None:
    assert kinds(LOAD_INDEX, gather()) == RACE
    assert kinds(LOAD_INDEX, *flags("MTE2", "V"), gather(), tadd(u, t, t)) == CLEAN
    assert kinds(gather(), tstore(t)) == RACE
    assert kinds(gather(), *flags("V", "MTE3"), tstore(t)) == CLEAN
    assert kinds(tstore(t), gather()) == RACE
    assert kinds(tstore(t), *flags("MTE3", "V"), gather()) == CLEAN


@pytest.mark.clause("MG-SYNC-14")
def test_a_single_element_on_a5_takes_the_scalar_pipe() -> None:
    one, index = vec("t", 1, 8), vec("cells", 1, 8, "int32")

    def single(size: Expr) -> Instr:
        dst, place = TileUse("t", (1, size)), TileUse("cells", (1, size))
        return instr("mgather", dst, view("x"), place, coalesce=Coalesce.Elem)

    def verdict(size: int, *between: Stmt) -> set[str]:
        body = (one, index, tload(index, argument="cells"), *between, single(N))
        given = program_of(*body, arguments=(Integer("n"),))
        return {fault.kind for fault in check(given, A5, integers={"n": size})}

    assert verdict(1) == verdict(2) == RACE
    assert verdict(1, *flags("MTE2", "V")) == verdict(2, *flags("MTE2", "V")) == CLEAN
    assert verdict(1, *flags("MTE2", "S")) == verdict(2, *flags("MTE2", "S")) == CLEAN


def test_a_row_scatter_on_a2a3() -> None:
    assert kinds(tload(t), LOAD_INDEX, scatter(), target=A2A3) == CLEAN
    for after in (tadd(t, u, u), tload(t), tload(v, argument="y")):
        assert kinds(scatter(), after, target=A2A3) == CLEAN, after.name
    number = LoadScalar(Var("s"), View("y", (0, 0), (1, 1)))
    assert kinds(scatter(), number, target=A2A3) == RACE
    assert kinds(scatter(), *flags("MTE3", "S"), number, target=A2A3) == CLEAN


def test_a_scatter_on_a5_is_vector_work() -> None:
    assert kinds(tload(t), scatter()) == RACE
    assert kinds(tload(t), *flags("MTE2", "V"), scatter()) == CLEAN


# --- Memory --------------------------------------------------------------------------------------------------


def test_global_memory() -> None:
    assert kinds(tstore(t, argument="x"), tload(u)) == RACE
    assert kinds(tstore(t, argument="x"), *flags("MTE3", "MTE2"), tload(u)) == CLEAN
    assert kinds(tload(u), tstore(t, argument="x")) == RACE
    assert kinds(tstore(t, argument="y"), tload(u)) == CLEAN
    assert kinds(tstore(t, 8, argument="x"), tload(u)) == CLEAN
    assert kinds(tstore(t, 7, argument="x"), tload(u)) == RACE


def test_adjacent_blocks_do_not_overlap() -> None:
    left, right = View("x", (0, 0), (8, 32)), View("x", (0, 32), (8, 32))
    half = vec("h", 8, 32)
    assert kinds(half, instr("tstore", left, half), instr("tload", t, right)) == CLEAN
    assert kinds(half, instr("tstore", left, half), instr("tload", t, View("x", (0, 31), (8, 32)))) == RACE


def test_an_empty_view_touches_nothing() -> None:
    assert kinds(tstore(t, argument="x"), instr("tload", u, view("x", 0, 0))) == CLEAN


def test_arguments_over_one_memory_always_meet() -> None:
    assert kinds(tstore(t, 64, argument="w"), tload(u)) == RACE
    assert kinds(tstore(t, 64, argument="w"), tload(u, argument="z")) == CLEAN


def test_a_table_is_touched_as_a_whole() -> None:
    assert kinds(scatter(argument="x"), tload(u)) == RACE
    assert kinds(scatter(argument="x"), tload(u, 8)) == CLEAN


def test_a_scalar_is_read_by_the_scalar_pipe() -> None:
    number = LoadScalar(Var("s"), View("y", (3, 0), (1, 1)))
    assert kinds(tstore(t), number) == RACE
    assert kinds(tstore(t), *flags("MTE3", "S"), number) == CLEAN
    assert kinds(tstore(t, 8), number) == CLEAN
    assert kinds(number, tstore(t)) == RACE
    assert kinds(number, *flags("S", "MTE3"), tstore(t)) == CLEAN


def test_scalars_steer() -> None:
    body = (LoadScalar(Var("s"), View("rows", (0, 5), (1, 1))), tstore(t, Var("s")), tload(u, argument="y"))
    asked: list[Any] = []

    def memory(argument: str, place: tuple[int, ...]) -> int:
        asked.append((argument, place))
        return 8

    assert kinds(*body) == RACE
    assert kinds(*body, scalars=memory) == CLEAN
    assert asked == [("rows", (0, 5))]


def overlapping(first: int | None, second: int | None) -> set[str]:
    """A load into one tile, a computation on another."""
    one, other = (vec(name, addresses=() if at is None else (at,)) for name, at in (("p", first), ("q", second)))
    return kinds(one, other, tload(one), tadd(other, other, other))


def test_addresses() -> None:
    nbytes = t.spec.nbytes
    assert overlapping(0, 0) == RACE
    assert overlapping(0, nbytes - 32) == RACE
    assert overlapping(0, nbytes) == overlapping(nbytes, 0) == CLEAN
    assert overlapping(None, None) == overlapping(0, None) == CLEAN


def test_addresses_of_two_memories_are_apart() -> None:
    mat, left = cube_tile("m", TileType.Mat, addresses=(0,)), cube_tile("l", TileType.Left, addresses=(0,))
    right, acc = cube_tile("r", TileType.Right, addresses=(0,)), cube_tile("c", TileType.Acc, addresses=(0,))
    body = (instr("tload", mat, view("a", 0, 32, 32)), instr("tmatmul", acc, left, right))
    assert kinds(mat, left, right, acc, *body) == CLEAN


def test_a_tile_that_moves() -> None:
    p, q = vec("p", addresses=(0,)), vec("q", addresses=(4096,))
    assert kinds(p, q, Assign("q", 0), tload(p), tadd(q, q, q)) == RACE
    assert kinds(p, q, tload(p), Assign("p", 8192), tadd(p, p, p)) == CLEAN


@BOTH
def test_the_cube(target: Any) -> None:
    mat, left, right, acc = (
        cube_tile(loc.text, loc) for loc in (TileType.Mat, TileType.Left, TileType.Right, TileType.Acc)
    )
    corner = CubeWriter.CORNER
    steps = [
        instr("tload", mat, view("a", 0, 32, 32)),
        instr("textract", left, mat, corner, corner),
        instr("tmatmul", acc, left, right),
        instr("tstore", view("c", 0, 32, 32), acc),
    ]
    pipes = ["MTE2", "MTE1", "M", "FIX"]
    handed = [flags(src, dst) for src, dst in pairwise(pipes)]
    for missing in (None, 0, 1, 2):
        body = [steps[0]]
        for k, (step, pair) in enumerate(zip(steps[1:], handed, strict=True)):
            body += [step] if k == missing else [*pair, step]
        assert kinds(mat, left, right, acc, *body, target=target) == (CLEAN if missing is None else RACE)


# --- Control flow --------------------------------------------------------------------------------------------


def repeated(*body: Stmt, stop: Expr = 4, buffers: int = 1, step: int = 1, start: Expr = 0) -> Loop:
    return Loop(J, start, stop, step, body, buffers)


def test_loops_really_iterate() -> None:
    body = (tload(u), *flags("MTE2", "V"), tadd(v, u, u))
    assert kinds(repeated(*body, stop=N), integers={"n": 0}) == CLEAN
    assert kinds(repeated(*body, stop=N), integers={"n": 1}) == CLEAN
    assert kinds(repeated(*body, stop=N), integers={"n": 2}) == {"race", "double set"}
    assert kinds(repeated(*body, start=1, stop=N, step=2), integers={"n": 3}) == CLEAN
    assert kinds(repeated(*body, start=1, stop=N, step=2), integers={"n": 4}) == {"race", "double set"}


@pytest.mark.parametrize("buffers", [1, 2, 3])
@pytest.mark.parametrize("trips", [0, 1, 2, 3, 5, 8])
def test_a_pipeline_of_buffers(buffers: int, trips: int) -> None:
    """Alternating events, set before the loop and waited for after it."""
    tile = vec("b", buffers=buffers)
    parity = apply("mod", J, buffers)
    ready, take = flags("MTE2", "V", parity)
    free, room = flags("V", "MTE2", parity)
    primed = [flags("V", "MTE2", k) for k in range(buffers)]
    body = (tile, room, tload(tile, apply("mul", J, 8)), ready, take, tadd(v, tile, tile), free)
    ends = [pair[0] for pair in primed], [pair[1] for pair in primed]
    assert kinds(*ends[0], repeated(*body, stop=trips, buffers=buffers), *ends[1]) == CLEAN
    assert ("race" in kinds(repeated(tile, tload(tile), ready, take, tadd(v, tile, tile), stop=trips))) == (
        trips > buffers
    )


def test_copies_are_apart() -> None:
    def copies(buffers: int, addresses: tuple[int, ...] = ()) -> set[str]:
        tile = vec("b", buffers=buffers, addresses=addresses)
        return kinds(
            repeated(tile, Branch(apply("eq", J, 0), (tload(tile),), (tstore(tile),)), stop=2, buffers=buffers)
        )

    assert copies(1) == copies(1, (64,)) == RACE
    assert copies(2) == copies(2, (0, 2048)) == CLEAN
    assert copies(2, (0, 32)) == RACE


def test_a_tile_from_outside_is_one_tile() -> None:
    assert kinds(repeated(Branch(apply("eq", J, 0), (tload(t),), (tstore(t),)), stop=2, buffers=2)) == RACE


def test_the_innermost_loop_counts_the_copies() -> None:
    tile, outer = vec("b", buffers=2), Var("j")
    inner = repeated(tile, tload(tile), stop=1, buffers=2)
    use = Branch(apply("eq", outer, 1), (repeated(vec("b2"), tstore(vec("b2")), stop=1),))
    assert kinds(Loop(outer, 0, 2, 1, (inner, use))) == CLEAN
    both = repeated(tile, Branch(apply("eq", outer, 0), (tload(tile),), (tstore(tile),)), stop=1, buffers=2)
    assert kinds(Loop(outer, 0, 2, 1, (both,))) == RACE


def test_branches_are_really_taken() -> None:
    maybe = Branch(apply("eq", BLOCK_IDX, 1), (tload(t),), (tload(u),))
    assert kinds(maybe, tadd(v, t, t), block_idx=0, block_num=2) == CLEAN
    assert kinds(maybe, tadd(v, t, t), block_idx=1, block_num=2) == RACE
    assert kinds(maybe, tadd(v, u, u), block_idx=0, block_num=2) == RACE


def test_views_follow_the_loop() -> None:
    step = apply("mul", J, 8)
    body = (tload(u, step), *flags("MTE2", "MTE3"), tstore(u, step, "x"), *flags("MTE3", "MTE2"))
    assert kinds(repeated(*body)) == CLEAN
    ahead = (tstore(t, step, "x"), tload(v, apply("add", step, 8)))
    assert kinds(repeated(*ahead)) == RACE
    assert kinds(repeated(tstore(t, step, "x"), tload(v, apply("add", step, 64)))) == CLEAN


def test_a_fault_says_where() -> None:
    (fault,) = faults(repeated(tload(u, apply("mul", J, 8)), stop=1), tadd(v, u, u))
    assert str(fault) == ("race: 5.0.0 tload(u, x[i * 8 +8, 0 +64]) [i=0] on MTE2 and 6 tadd(v, u, u) on V, in tile u")


# --- A machine that takes its time ---------------------------------------------------------------------------

PIPE_OF = {"tload": "MTE2", "tadd": "V", "tstore": "MTE3"}
"""On A5, for the instructions of straight programs."""


@dataclass
class Machine:
    """Executes a straight program: pipes are queues, flags count, and one statement is put off as long as possible."""

    body: Block
    late: int
    pc: int = 0
    queues: dict[str, deque[int]] = field_of(default_factory=dict)
    flags: Counter[tuple[str, str, Any]] = field_of(default_factory=Counter)
    done: list[int] = field_of(default_factory=list)

    def pipe(self, stmt: Stmt) -> str:
        if isinstance(stmt, Flag):
            return stmt.src if stmt.action == "set" else stmt.dst
        assert isinstance(stmt, Instr)
        return PIPE_OF[stmt.name]

    def stalled(self) -> bool:
        """Whether the statement that was issued last holds up issue."""
        stmt = self.body[self.pc - 1]
        stalls = isinstance(stmt, Flag) and stmt.action == "wait" and stmt.dst == "S"
        return self.pc > 0 and stalls and self.pc - 1 not in self.done

    def issue(self) -> bool:
        if self.pc == len(self.body) or self.stalled():
            return False
        stmt = self.body[self.pc]
        if isinstance(stmt, Barrier):
            if any(self.queues.values()):
                return False
            self.done.append(self.pc)
        else:
            self.queues.setdefault(self.pipe(stmt), deque()).append(self.pc)
        self.pc += 1
        return True

    def finish(self, number: int) -> bool:
        """The head of a queue gets done, if nothing keeps it."""
        stmt = self.body[number]
        if isinstance(stmt, Flag):
            channel = stmt.src, stmt.dst, stmt.event
            if stmt.action == "wait" and not self.flags[channel]:
                return False
            self.flags[channel] += 1 if stmt.action == "set" else -1
        self.queues[self.pipe(stmt)].popleft()
        self.done.append(number)
        return True

    def step(self) -> bool:
        if self.issue():
            return True
        heads = sorted((queue[0] for queue in self.queues.values() if queue), key=lambda head: head == self.late)
        return any(self.finish(head) for head in heads)

    def run(self) -> list[int]:
        """The order in which statements got done; not all of them if it hangs."""
        while self.step():
            pass
        return self.done


TILES = (t, u)
PLAIN = [
    *(tload(tile, k * 64) for k, tile in enumerate(TILES)),
    *(tadd(one, other, other) for one in TILES for other in TILES),
    *(tstore(tile, k * 64) for k, tile in enumerate(TILES)),
]
PIPES = ("MTE2", "V", "MTE3", "S")
FLAGS = [
    Flag(action, src, dst, 0) for action in ("set", "wait") for src in PIPES for dst in PIPES if src != dst
]  # fmt: skip


def touched(stmt: Stmt) -> tuple[set[str], set[str]]:
    """Tiles that are read and tiles that are written, on A5."""
    assert isinstance(stmt, Instr)
    names = [getattr(operand, "tile", "") for operand in stmt.operands]
    dst = names[0]
    return set(names[1:]) - {""}, {dst} - {""}


def expected(body: Block) -> set[str]:
    """Verdicts by experiment: hold one statement back and see what overtakes it."""
    orders = {late: Machine(body, late).run() for late in range(len(body))}
    if any(len(order) < len(body) for order in orders.values()):
        return {"deadlock"}
    overtakes = {(late, other) for late, order in orders.items() for other in order[: order.index(late)]}
    found = set()
    work = [k for k, stmt in enumerate(body) if isinstance(stmt, Instr)]
    for first, second in combinations(work, 2):
        (reads, writes), (reads_too, writes_too) = touched(body[first]), touched(body[second])
        if (writes & (reads_too | writes_too) or writes_too & reads) and (first, second) in overtakes:
            found.add("race")
    bits = {stmt: (stmt.src, stmt.dst, stmt.event) for stmt in body if isinstance(stmt, Flag)}
    for bit in set(bits.values()):
        sets, waits = (
            [k for k, stmt in enumerate(body) if isinstance(stmt, Flag) and stmt.action == action and bits[stmt] == bit]
            for action in ("set", "wait")
        )
        if len(sets) > len(waits):
            found.add("left set")
        if any(k >= len(waits) or (waits[k], again) in overtakes for k, again in enumerate(sets[1:])):
            found.add("double set")
    return found


@fuzz(5)
@given(st.lists(st.sampled_from([*PLAIN, *FLAGS, *FLAGS[:4], Barrier("ALL")]), min_size=1, max_size=14))
@example([*flags("MTE2", "V"), PLAIN[0], *flags("MTE2", "V"), PLAIN[3]])
def test_as_the_machine_finds_it(body: list[Stmt]) -> None:
    found, experiment = kinds(*body), expected(tuple(body))
    if "deadlock" in experiment:
        assert "deadlock" in found
    else:
        assert found == experiment


@fuzz(2)
@given(st.lists(st.sampled_from(PLAIN), min_size=2, max_size=6), st.data())
def test_as_the_machine_finds_it_with_flags_in_pairs(body: list[Stmt], data: st.DataObject) -> None:
    for event in range(data.draw(st.integers(1, 4))):
        src, dst = data.draw(st.sampled_from([(a, b) for a in PIPES for b in PIPES if a != b]))
        places = sorted(data.draw(st.tuples(*[st.integers(0, len(body))] * 2)), reverse=True)
        for place, flag in zip(places, flags(src, dst, event)[::-1], strict=True):
            body.insert(place, flag)
    assert kinds(*body) == expected(tuple(body))


# --- Random programs -----------------------------------------------------------------------------------------


def barred(block: Block) -> Block:
    """The block with a barrier before every statement."""
    out: list[Stmt] = []
    for stmt in block:
        if isinstance(stmt, Loop):
            stmt = Loop(stmt.var, stmt.start, stmt.stop, stmt.step, barred(stmt.body), stmt.buffers)
        elif isinstance(stmt, Branch):
            stmt = Branch(stmt.condition, barred(stmt.then), barred(stmt.otherwise))
        out += [Barrier("ALL"), stmt]
    return tuple(out)


@fuzz(1)
@given(programs())
def test_random_programs_make_sense(program: Program) -> None:
    """Every instruction has effects, and barriers everywhere leave nothing to be wished for."""
    for target in (A2A3, A5):
        for stmt in walk(program.body):
            assert not isinstance(stmt, Instr) or effects(call_of(program, stmt, target)), stmt
        ordered = Program(program.name, program.arguments, barred(program.body))
        for run in runs(program, 6):
            assert check(ordered, target, **run.arguments) == [], show(program)
