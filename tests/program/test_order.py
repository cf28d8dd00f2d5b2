"""Auto flags: what is inserted, where, and with which event ids."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ptokit.finding import Where
from ptokit.isa.policy import Coalesce
from ptokit.program.expr import Var, apply
from ptokit.program.ir import Barrier, Branch, Flag, Instr, Program, Stmt, walk
from ptokit.program.order import order, order_events
from ptokit.target import Profile
from ptokit.target.a2a3 import A2A3
from ptokit.target.a5 import A5
from ptokit.target.cpu import CPU
from tests.program.building import (
    COND,
    EDGE,
    I,
    J,
    N,
    chunk,
    exp,
    gather,
    load,
    load_scalar,
    loop,
    program,
    scatter,
    show,
    store,
    text,
    tile,
    tiles,
    use,
)
from tests.program.happens_before import check

NPUS = pytest.mark.parametrize("profile", [A2A3, A5], ids=lambda profile: profile.name)


def flags(result: Program) -> list[Flag]:
    return [stmt for stmt in walk(result.body) if isinstance(stmt, Flag)]


def unflagged(source: Program, profile: Profile) -> bool:
    return order(source, profile) == source


# --- straight lines ---


@NPUS
def test_load_compute_store(profile: Profile) -> None:
    result = order(program(*tiles("a b"), load("a", "x"), exp("b", "a"), store("y", "b")), profile)
    assert show(result) == text("""
        tload a x
        set MTE2 V 0
        wait MTE2 V 0
        texp b a
        set V MTE3 0
        wait V MTE3 0
        tstore y b
    """)
    assert all(flag.auto for flag in flags(result))


def test_one_flag_for_two_loads_set_after_the_second() -> None:
    body = (load("a", "x"), load("b", "y"), Instr("tadd", (use("c"), use("a"), use("b"))))
    assert show(order(program(*tiles("a b c"), *body), A5)) == text("""
        tload a x
        tload b y
        set MTE2 V 0
        wait MTE2 V 0
        tadd c a b
    """)


def test_what_is_ordered_by_way_of_another_pipe_needs_no_flag_of_its_own() -> None:
    result = order(program(*tiles("a"), load("a", "x"), exp("a", "a"), store("y", "a")), A5)
    assert [(flag.src, flag.dst) for flag in flags(result)] == [("MTE2", "V")] * 2 + [("V", "MTE3")] * 2


def test_flags_know_the_line_of_the_consumer() -> None:
    here = Where("kernel.py", 7)
    result = order(program(*tiles("a"), load("a", "x"), replace(exp("a", "a"), where=here)), A5)
    assert [flag.where for flag in flags(result)] == [here, here]


@pytest.mark.parametrize(("profile", "mode"), [(CPU, "auto"), (A5, "manual")])
def test_no_pipes_or_manual_mode_no_flags(profile: Profile, mode: str) -> None:
    source = program(*tiles("a"), load("a", "x"), exp("a", "a"), mode=mode)
    assert order(source, profile) is source


def test_the_two_cores_of_a_kernel_are_left_to_themselves() -> None:
    matmul = Instr("tmatmul", (use("c"), use("l"), use("r")))
    cube = (tile("m", "mat"), tile("l", "left"), tile("r", "right"), tile("c", "acc"))
    body = (load("m", "x"), *(Instr("tmov", (use(to), use("m")), (None, None)) for to in "lr"), matmul)
    vector = (load("a", "y"), exp("a", "a"))
    assert show(order(program(*cube, *tiles("a"), *body, *vector), A2A3)) == text("""
        tload m x
        set MTE2 MTE1 0
        wait MTE2 MTE1 0
        tmov l m
        tmov r m
        set MTE1 M 0
        wait MTE1 M 0
        tmatmul c l r
        tload a y
        set MTE2 V 1
        wait MTE2 V 1
        texp a a
    """)


# --- gathers and scatters ---


@pytest.mark.clause("MG-SYNC-01", "MG-SYNC-04")
def test_row_gather_on_a2a3_wants_a_flag_to_v_and_keeps_id_0_for_itself() -> None:
    body = (load("i", "x"), gather("d", "y", "i"), store("z", "d"))
    assert show(order(program(*tiles("i d"), *body), A2A3)) == text("""
        tload i x
        set MTE2 V 1
        wait MTE2 V 1
        mgather d y i
        tstore z d
    """)


@pytest.mark.clause("MG-SYNC-05")
def test_element_gather_on_a2a3_waits_for_the_load_itself() -> None:
    assert unflagged(
        program(*tiles("i d"), load("i", "x"), gather("d", "y", "i", Coalesce.Elem), store("z", "d")), A2A3
    )


@pytest.mark.clause("MG-SYNC-15")
@pytest.mark.parametrize("mode", list(Coalesce))
def test_gather_on_a5_is_vector_work(mode: Coalesce) -> None:
    assert show(
        order(program(*tiles("i d"), load("i", "x"), gather("d", "y", "i", mode), store("z", "d")), A5)
    ) == text("""
        tload i x
        set MTE2 V 0
        wait MTE2 V 0
        mgather d y i
        set V MTE3 0
        wait V MTE3 0
        tstore z d
    """)


def test_scatter_after_load() -> None:
    source = program(*tiles("i d"), load("i", "x"), load("d", "y"), scatter("z", "d", "i"))
    assert unflagged(source, A2A3)
    assert [(flag.src, flag.dst) for flag in flags(order(source, A5))] == [("MTE2", "V")] * 2


def test_scalar_loads_wait_for_stores() -> None:
    assert show(order(program(*tiles("a"), store("y", "a"), load_scalar("s", "y")), A5)) == text("""
        tstore y a
        set MTE3 S 0
        wait MTE3 S 0
        s = y
    """)


# --- global memory ---


def test_store_then_load_of_the_same_rows() -> None:
    assert show(order(program(*tiles("a b"), store("y", "a"), load("b", "y")), A5)) == text("""
        tstore y a
        set MTE3 MTE2 0
        wait MTE3 MTE2 0
        tload b y
    """)


@pytest.mark.parametrize("start", [EDGE, apply("add", N, EDGE)])
def test_store_then_load_of_other_rows(start: object) -> None:
    first = 0 if isinstance(start, int) else N
    assert unflagged(program(*tiles("a b"), store("y", "a", first), load("b", "y", start)), A5)


def test_unknown_rows_may_be_the_same() -> None:
    assert flags(order(program(*tiles("a b"), store("y", "a", N), load("b", "y", 64)), A5))


def test_arguments_that_share_memory_meet() -> None:
    source = program(*tiles("a b"), store("x", "a"), load("b", "w", 512), shared="w")
    assert [(flag.src, flag.dst) for flag in flags(order(source, A5))] == [("MTE3", "MTE2")] * 2


def test_in_place_update_of_chunks() -> None:
    last = apply("min", EDGE, apply("sub", N, chunk(I)))
    body = (*tiles("a"), load("a", "x", chunk(I), last), exp("a", "a"), store("x", "a", chunk(I), last))
    assert show(order(program(loop(*body)), A5)) == text("""
        set MTE3 MTE2 0
        for i
            wait MTE3 MTE2 0
            tload a x
            set MTE2 V 0
            wait MTE2 V 0
            texp a a
            set V MTE3 0
            wait V MTE3 0
            tstore x a
            set MTE3 MTE2 0
        wait MTE3 MTE2 0
    """)  # the same as for the tile alone


def test_chunks_read_and_written_alternately() -> None:
    body = (load("a", "x", chunk(I)), store("x", "b", chunk(I)))
    pairs = [(flag.src, flag.dst) for flag in flags(order(program(*tiles("a b"), loop(*body)), A5))]
    assert ("MTE2", "MTE3") in pairs  # the store overwrites what was loaded
    body = (load("a", "x", chunk(I)), store("x", "b", apply("add", chunk(I), N)))
    assert flags(order(program(*tiles("a b"), loop(*body)), A5))  # a later iteration may load what this one stores
    body = (load("a", "x", chunk(I)), store("y", "b", chunk(I)))
    assert unflagged(program(*tiles("a b"), loop(*body)), A5)


def test_chunks_of_nested_loops_lie_apart() -> None:
    start = apply("add", chunk(I, 64), chunk(J))
    body = (load("a", "y", start), store("x", "b", start))
    assert unflagged(program(*tiles("a b"), loop(loop(*body, stop=4, var=J))), A5)
    read_back = (store("x", "b", start), load("a", "x", apply("add", start, 64)))
    assert flags(order(program(*tiles("a b"), loop(loop(*read_back, stop=4, var=J))), A5))


# --- loops ---


@NPUS
def test_loop(profile: Profile) -> None:
    body = (*tiles("a b"), load("a", "x", chunk(I)), exp("b", "a"), store("y", "b", chunk(I)))
    expected = text("""
        set V MTE2 0
        set MTE3 V 0
        for i
            wait V MTE2 0
            tload a x
            set MTE2 V 0
            wait MTE3 V 0
            wait MTE2 V 0
            texp b a
            set V MTE2 0
            set V MTE3 1
            wait V MTE3 1
            tstore y b
            set MTE3 V 0
        wait V MTE2 0
        wait MTE3 V 0
    """)
    assert show(order(program(loop(*body)), profile)) == expected
    assert show(order(program(loop(*body, stop=5)), profile)) == expected


def test_double_buffers_alternate_ids() -> None:
    body = (*tiles("a b", buffers=2), load("a", "x", chunk(I)), exp("b", "a"), store("y", "b", chunk(I)))
    assert show(order(program(loop(*body, buffers=2)), A5)) == text("""
        set V MTE2 0
        set V MTE2 1
        set MTE3 V 0
        set MTE3 V 1
        for i
            wait V MTE2 i % 2
            tload a x
            set MTE2 V i % 2
            wait MTE3 V i % 2
            wait MTE2 V i % 2
            texp b a
            set V MTE2 i % 2
            set V MTE3 2 + i % 2
            wait V MTE3 2 + i % 2
            tstore y b
            set MTE3 V i % 2
        wait V MTE2 0
        wait V MTE2 1
        wait MTE3 V 0
        wait MTE3 V 1
    """)


@pytest.mark.parametrize(("stop", "buffers"), [(1, 1), (2, 2), (1, 3)])
def test_a_loop_that_never_comes_round_carries_nothing(stop: int, buffers: int) -> None:
    body = (*tiles("a", buffers=buffers), load("a", "x"), exp("a", "a"))
    result = order(program(loop(*body, stop=stop, buffers=buffers)), A5)
    assert {(flag.src, flag.dst) for flag in flags(result)} == {("MTE2", "V")}


def test_a_loop_that_never_runs_needs_nothing() -> None:
    assert unflagged(program(*tiles("a"), loop(load("a", "x"), exp("a", "a"), stop=0)), A5)


def test_a_loop_that_may_not_run_orders_nothing_for_what_follows() -> None:
    body = (load("a", "x"), loop(load("b", "x"), exp("b", "b")), exp("a", "a"))
    assert show(order(program(*tiles("a b"), *body), A5)) == text("""
        tload a x
        set MTE2 V 0
        set V MTE2 0
        for i
            wait V MTE2 0
            tload b x
            set MTE2 V 1
            wait MTE2 V 1
            texp b b
            set V MTE2 0
        wait V MTE2 0
        wait MTE2 V 0
        texp a a
    """)


def test_nested_loops_are_primed_and_drained_once() -> None:
    inner = loop(*tiles("a"), load("a", "x"), exp("a", "a"), var=J)
    assert show(order(program(loop(inner)), A5)) == text("""
        set V MTE2 0
        for i
            for j
                wait V MTE2 0
                tload a x
                set MTE2 V 0
                wait MTE2 V 0
                texp a a
                set V MTE2 0
        wait V MTE2 0
    """)


def test_a_flag_that_nothing_holds_back_gets_an_answer() -> None:
    body = (store("y", "a", chunk(I)), load("b", "y", chunk(I)))
    assert show(order(program(*tiles("a b"), loop(*body)), A5)) == text("""
        set MTE2 MTE3 0
        for i
            tstore y a
            wait MTE2 MTE3 0
            set MTE3 MTE2 0
            wait MTE3 MTE2 0
            set MTE2 MTE3 0
            tload b y
        wait MTE2 MTE3 0
    """)


def test_a_sum_over_iterations() -> None:
    body = (load("a", "x"), loop(load("b", "y"), Instr("tadd", (use("a"), use("a"), use("b")))), store("z", "a"))
    assert show(order(program(*tiles("a b"), *body), A5)) == text("""
        tload a x
        set MTE2 MTE3 0
        set V MTE2 0
        for i
            wait V MTE2 0
            tload b y
            set MTE2 V 1
            wait MTE2 V 1
            tadd a a b
            set V MTE2 0
        set V MTE3 1
        wait V MTE2 0
        wait MTE2 MTE3 0
        wait V MTE3 1
        tstore z a
    """)


# --- branches ---


def test_flags_stand_around_a_branch() -> None:
    body = (load("a", "x"), Branch(COND, (exp("a", "a"),)), store("y", "a"))
    assert show(order(program(*tiles("a"), *body), A5)) == text("""
        tload a x
        set MTE2 V 0
        wait MTE2 V 0
        if cond
            texp a a
        set V MTE3 0
        wait V MTE3 0
        tstore y a
    """)


def test_flags_of_an_arm_stay_in_the_arm_and_arms_share_ids() -> None:
    arm = (load("a", "x"), exp("a", "a"))
    assert show(order(program(*tiles("a"), Branch(COND, arm, arm)), A5)) == text("""
        if cond
            tload a x
            set MTE2 V 0
            wait MTE2 V 0
            texp a a
        else
            tload a x
            set MTE2 V 0
            wait MTE2 V 0
            texp a a
    """)


def test_one_arm_after_the_other_in_a_loop() -> None:
    source = program(*tiles("a"), loop(Branch(COND, (load("a", "x"),), (exp("a", "a"),))))
    around = [stmt for stmt in order(source, A5).body if isinstance(stmt, Flag)]
    assert {(flag.action, flag.src, flag.dst) for flag in around} == {
        ("set", "V", "MTE2"),
        ("set", "MTE2", "V"),
        ("wait", "V", "MTE2"),
        ("wait", "MTE2", "V"),
    }


def test_what_an_arm_orders_counts_only_where_all_arms_do() -> None:
    arm = (gather("d", "z", "i", Coalesce.Elem),)  # waits for MTE2 itself
    one = program(*tiles("i d"), load("i", "x"), Branch(COND, arm), exp("i", "i"))
    assert {(flag.src, flag.dst) for flag in flags(order(one, A2A3))} == {("MTE2", "V")}
    both = program(*tiles("i d"), load("i", "x"), Branch(COND, arm, arm), exp("i", "i"))
    assert unflagged(both, A2A3)


# --- event ids ---


def test_more_loads_than_ids_share_the_last_flag() -> None:
    names = [f"t{k}" for k in range(12)]
    body = [*(load(name, "x") for name in names), *(exp(name, name) for name in names)]
    result = order(program(*tiles(" ".join(names)), *body), A5)
    assert sorted({flag.event for flag in flags(result)}) == list(range(8))
    assert len(flags(result)) == 16
    assert not any(isinstance(stmt, Barrier) for stmt in result.body)


def test_ids_that_nothing_frees_end_in_a_barrier() -> None:
    names = [f"t{k}" for k in range(10)]
    body = [stmt for name in names for stmt in (load(name, "x"), exp(name, name))]
    result = order(program(*tiles(" ".join(names)), *body), A5)
    assert [stmt for stmt in result.body if isinstance(stmt, Barrier)] == [Barrier("ALL", auto=True)]
    assert {flag.event for flag in flags(result)} <= set(range(8))


# --- addresses ---


def test_tiles_at_the_same_address_wait_for_each_other() -> None:
    a, b, c = (tile(name, addresses=(address,)) for name, address in (("a", 0), ("b", 512), ("c", 1024)))
    body = (exp("c", "a"), load("b", "x"))  # a and b overlap: the load would change what V still reads
    assert [(flag.src, flag.dst) for flag in flags(order(program(a, b, c, *body), A5))] == [("V", "MTE2")] * 2
    assert unflagged(program(*tiles("a b c"), *body), A5)


def test_an_address_that_is_computed_may_be_any() -> None:
    a, b, c = tile("a", addresses=(0,)), tile("b", addresses=(N,)), tile("c", addresses=(1024,))
    assert flags(order(program(a, b, c, exp("c", "a"), load("b", "x")), A5))


# --- flags that are there already ---


@pytest.mark.parametrize("buffers", [1, 2])
def test_a_program_with_its_flags_needs_no_more(buffers: int) -> None:
    body = (*tiles("a b", buffers=buffers), load("a", "x"), exp("b", "a"), store("y", "b"))
    result = order(program(loop(*body, buffers=buffers)), A5)
    assert unflagged(result, A5)


def test_flags_of_the_user_count_and_their_ids_are_not_used() -> None:
    own = (Flag("set", "MTE2", "V", 0), Flag("wait", "MTE2", "V", 0))
    assert unflagged(program(*tiles("a"), load("a", "x"), *own, exp("a", "a")), A5)
    more = order(program(*tiles("a"), load("a", "x"), *own, exp("a", "a"), load("a", "x"), exp("a", "a")), A5)
    assert {flag.event for flag in flags(more) if flag.auto and flag.src == "MTE2"} == {1}


def test_barriers_and_events_of_the_user_count() -> None:
    assert unflagged(program(*tiles("a"), load("a", "x"), Barrier("ALL"), exp("a", "a")), A5)
    assert flags(order(program(*tiles("a"), load("a", "x"), Barrier("V"), exp("a", "a")), A5))
    signals, hears = replace(load("a", "x"), event=3), replace(exp("a", "a"), waits=(3,))
    assert unflagged(program(*tiles("a"), signals, hears), A5)


def test_a_number_read_from_memory_selects_other_rows_in_every_iteration() -> None:
    body = (load_scalar("s", "z"), load("a", "y", Var("s")), store("y", "b", Var("s")))
    result = order(program(*tiles("a b"), loop(*body)), A5)
    assert ("MTE3", "MTE2") in {(flag.src, flag.dst) for flag in flags(result)}


# --- events as flags ---


def chained(first_waits: tuple[int, ...] = ()) -> tuple[Instr, ...]:
    """A load, a computation and a store, each waiting for the one before."""
    return (
        replace(load("a", "x"), event=0, waits=first_waits),
        replace(exp("a", "a"), event=1, waits=(0,)),
        replace(store("y", "a"), event=2, waits=(1,)),
    )


EVENT_BODIES = {
    "in a line": (*tiles("a"), *chained()),
    "in a loop, with the store of the iteration before": (*tiles("a"), loop(*chained((2,)))),
    "in a branch": (*tiles("a"), Branch(COND, chained())),
    "into a loop": (*tiles("a"), replace(load("a", "x"), event=0), loop(replace(store("y", "a"), waits=(0,)))),
    "out of a loop": (*tiles("a"), loop(replace(load("a", "x"), event=0)), replace(store("y", "a"), waits=(0,))),
    "out of a branch": (
        *tiles("a"), Branch(COND, (replace(load("a", "x"), event=0),)), replace(store("y", "a"), waits=(0,)),
    ),
}  # fmt: skip


@NPUS
@pytest.mark.parametrize("mode", ["manual", "flags", "auto"])
@pytest.mark.parametrize("body", EVENT_BODIES.values(), ids=list(EVENT_BODIES))
def test_events_as_flags_order_what_the_events_ordered(body: tuple[Stmt, ...], mode: str, profile: Profile) -> None:
    source = program(*body, mode=mode)
    result = order_events(order(source, profile), profile)
    assert not any(isinstance(stmt, Instr) and (stmt.waits or stmt.event is not None) for stmt in walk(result.body))
    assert all(flag.auto for flag in flags(result)) and "barrier ALL" not in show(result)
    for count in (0, 1, 5):
        assert check(result, profile, integers={"n": count, "cond": count}) == []


def test_an_event_between_pipes_that_are_in_order_needs_no_flag() -> None:
    body = (replace(exp("a", "b"), event=0), replace(exp("b", "a"), waits=(0,)))
    assert not flags(order_events(program(*tiles("a b"), *body, mode="manual"), A5))
    own = (Flag("set", "MTE2", "V", 0), Flag("wait", "MTE2", "V", 0))
    body = (replace(load("a", "x"), event=0), *own, replace(exp("a", "a"), waits=(0,)))
    result = order_events(program(*tiles("a"), *body, mode="manual"), A5)
    assert flags(result) == list(own)


def test_an_event_takes_no_id_of_the_author_s() -> None:
    own = [Flag(action, "MTE2", "MTE3", number) for number in range(7) for action in ("set", "wait")]
    body = (*own, replace(load("a", "x"), event=0), exp("b", "b"), replace(store("y", "b"), waits=(0,)))
    result = order_events(program(*tiles("a b"), *body, mode="manual"), A5)
    assert [(flag.action, flag.event) for flag in flags(result) if flag.auto] == [("set", 7), ("wait", 7)]
    full = [*own, *(Flag(action, "MTE2", "MTE3", 7) for action in ("set", "wait"))]
    result = order_events(program(*tiles("a b"), *full, *body[len(own) :], mode="manual"), A5)
    assert any(isinstance(stmt, Barrier) and stmt.pipe == "ALL" for stmt in result.body)
