"""The steps of instructions, from their effects and handshakes."""

from __future__ import annotations

import pytest

from ptokit.isa.policy import Coalesce
from ptokit.program.cores import PipeWork, Step, Sync, gate, steps
from ptokit.program.instr_calls import call_of
from ptokit.program.ir import Instr
from ptokit.target import Profile
from ptokit.target.a2a3 import A2A3
from ptokit.target.a5 import A5
from ptokit.target.cpu import CPU
from tests.program.building import exp, gather, load, program, scatter, tiles


def steps_of(instr: Instr, profile: Profile) -> tuple[Step, ...]:
    return steps(call_of(program(*tiles("a b i"), instr), instr, profile), profile)


def test_an_instruction_of_one_pipe() -> None:
    assert steps_of(load("a", "x"), A5) == (PipeWork("MTE2", ("src",), ("dst",)),)
    assert steps_of(exp("a", "b"), A2A3) == (PipeWork("V", ("src",), ("dst",)),)


@pytest.mark.clause("MG-SYNC-04", "MG-SYNC-10")
def test_a_row_gather_on_a2a3_waits_works_and_hands_on() -> None:
    assert steps_of(gather("a", "x", "i"), A2A3) == (
        Sync("V", "S"),
        Sync("MTE3", "S"),
        PipeWork("S", ("idx",)),
        Sync("S", "MTE2"),
        PipeWork("MTE2", ("table",), ("dst",)),
        Sync("S", "MTE2"),
        Sync("MTE2", "V"),
        Sync("MTE2", "MTE3"),
        Sync("S", "V"),
        Sync("S", "MTE3"),
    )


@pytest.mark.clause("MG-SYNC-13")
def test_a_gather_on_a5_is_one_launch() -> None:
    assert steps_of(gather("a", "x", "i"), A5) == (PipeWork("V", ("idx", "table"), ("dst",)),)


@pytest.mark.clause("MG-SYNC-16")
def test_no_pipes_no_steps() -> None:
    assert steps_of(gather("a", "x", "i"), CPU) == ()


@pytest.mark.parametrize(
    ("instr", "pipe", "expected"),
    [
        (gather("a", "x", "i"), "S", "V"),
        (gather("a", "x", "i"), "MTE2", "V"),
        (gather("a", "x", "i", Coalesce.Elem), "S", "V"),
        (scatter("x", "a", "i"), "MTE3", "V"),
        (exp("a", "b"), "V", "V"),
    ],
    ids=lambda value: value.name if isinstance(value, Instr) else value,
)
def test_the_pipe_that_waits_ahead_of_an_instruction(instr: Instr, pipe: str, expected: str) -> None:
    assert gate(steps_of(instr, A2A3), pipe) == expected
