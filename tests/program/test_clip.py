"""Programs with fewer rounds of their loops."""

from ptokit.program.clip import clipped, steps
from ptokit.program.expr import Var, apply
from ptokit.program.ir import Barrier, CrossFlag, Flag, Loop, Program

OUTER, INNER = Var("i"), Var("j")


def _program(outer: int, inner: int, buffers: int) -> Program:
    flag = Flag("set", "MTE2", "V", apply("mod", INNER, buffers))
    return Program("k", (), (Loop(OUTER, 0, outer, 1, (Loop(INNER, 0, inner, 1, (flag,)), Barrier("ALL"))),))


def test_steps_are_those_of_the_loops() -> None:
    assert steps(_program(10, 20, 2)) == 10 * (20 + 1)


def test_a_small_program_stays() -> None:
    program = _program(3, 4, 2)
    assert clipped(program, 15) == (program, 15, 15)


def test_rounds_that_are_kept_have_the_same_rest() -> None:
    for inner in (100, 101, 102, 103):
        for buffers in (2, 3, 4):
            program, own, whole = clipped(_program(1000, inner, buffers), 2000)
            loop = program.body[0]
            assert isinstance(loop, Loop)
            within = loop.body[0]
            assert isinstance(within, Loop)
            assert isinstance(within.stop, int)
            assert (inner - within.stop) % buffers == 0
            assert 0 < within.stop < inner
            assert own == steps(program) <= 2000 < whole == 1000 * (inner + 1)


def _meeting(cube: int, vector: int) -> Program:
    loops = [
        Loop(var, 0, count, 1, (CrossFlag(action, core, pipe, 0),))
        for var, count, action, core, pipe in (
            (OUTER, cube, "set", "AIC", "FIX"),
            (INNER, vector, "wait", "AIV", "MTE2"),
        )
    ]
    return Program("k", (), tuple(loops))


def test_loops_in_which_cores_meet_are_clipped_alike_or_not_at_all() -> None:
    for cube, vector in ((1000, 1000), (1000, 500)):
        program, *_ = clipped(_meeting(cube, vector), 100)
        kept = [loop.stop for loop in program.body if isinstance(loop, Loop)]
        assert (kept[0] == kept[1] < cube) if cube == vector else (kept == [cube, vector])
