"""Loops in which cores meet, run up to a period: the findings are those of running every round."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest

import ptokit as pto
from ptokit.finding import Where
from ptokit.isa.dtype import dtype
from ptokit.isa.operand import TileSpec
from ptokit.isa.policy import BLayout, SLayout, TileType
from ptokit.lang.loaded import TextKernel
from ptokit.machine import ENOUGH
from ptokit.machine.rounds import SharedRounds
from ptokit.program import ir
from ptokit.program.expr import BLOCK_IDX, SUBBLOCK_IDX, Expr, Var, apply
from ptokit.program.periods import gaps
from tests.machine.test_periods import instr
from tests.property.strategies import FUZZ

GRID, COLS, HALF, ROUNDS = 2, 16, 8, 75
F32, ROUND = dtype("float32"), Var("i")
PROGRAMS = 200 if FUZZ else 28
CHUNKS = 4
VEC = TileSpec(F32, TileType.Vec, HALF, COLS, HALF, COLS)
MAT = TileSpec(F32, TileType.Mat, 16, COLS, 16, COLS, BLayout.ColMajor, SLayout.RowMajor)


class Draft:
    """Draws a kernel as one of C++ would be recorded: both vector cores hand rows to the cube core, which hands slots
    back. Buffers are rings, also in global memory; some flags are missing, doubled or on other pipes."""

    def __init__(self, seed: int, form: str, *, is_plain: bool = False) -> None:
        self.dice, self.form, self.is_plain = Random(seed), form, is_plain
        self.ring, self.slots, self.ahead = (self.dice.choice(each) for each in ((1, 2, 3), (0, 0, 1, 2), (0, 0, 1)))

    def rows(self, argument: str, turn: Expr, *, halves: bool) -> ir.View:
        slot = apply("mod", turn, self.slots) if self.slots and argument == "work" else turn
        first = apply("mul", apply("add", apply("mul", BLOCK_IDX, ROUNDS + 4), slot), 16)
        own = apply("add", first, apply("mul", SUBBLOCK_IDX, HALF)) if halves else first
        return ir.View(argument, (own, 0), (HALF if halves else 16, COLS))

    def cross(self, action: str, core: str, pipe: str, event: int) -> list[ir.Stmt]:
        ids = [event, event + 16] if core == "AIC" and self.form == ir.CPP else [event]
        pipe = "S" if self.form == ir.CPP_FFTS and action == "wait" else pipe
        return [ir.CrossFlag(action, core, pipe, each) for each in ids]

    def of_vector(self, turn: Expr, *, is_ring: bool = True) -> list[ir.Stmt]:
        event: Expr = apply("mod", turn, self.ring) if is_ring else 0
        a, b = (ir.TileUse(name, (HALF, COLS)) for name in "ab")
        flags = [ir.Flag(action, *pair, event) for pair in (("V", "MTE2"), ("MTE3", "V")) for action in ("wait", "set")]
        return [
            *(self.cross("wait", "AIV", "MTE3", 1) if self.slots else []),
            flags[0], instr("tload", a, self.rows("x", turn, halves=True)),
            ir.Flag("set", "MTE2", "V", 0), ir.Flag("wait", "MTE2", "V", 0), flags[2],
            instr("tadd", b, a, a),
            flags[1], ir.Flag("set", "V", "MTE3", 0), ir.Flag("wait", "V", "MTE3", 0),
            instr("tstore", self.rows("work", turn, halves=True), b),
            flags[3], *self.cross("set", "AIV", "MTE3", 0),
        ]  # fmt: skip

    def of_cube(self, turn: Expr) -> list[ir.Stmt]:
        load = instr("tload", ir.TileUse("m", (16, COLS)), self.rows("work", turn, halves=False))
        back = self.cross("set", "AIC", "MTE2", 1) if self.slots else []
        return [*self.cross("wait", "AIC", "MTE2", 0), load, *back]

    def program(self) -> ir.Program:
        dice = self.dice
        place = apply("mul", apply("mod", ROUND, self.ring), VEC.nbytes)
        tiles = [
            ir.TileDecl(name, VEC, (apply("add", place, at),), fresh=False) for name, at in (("a", 0), ("b", 0x4000))
        ]
        body = [*self.of_vector(ROUND), *self.of_cube(apply("sub", ROUND, self.ahead) if self.ahead else ROUND)]
        ends = [("V", "MTE2"), ("MTE3", "V")]
        before: list[ir.Stmt] = [ir.Flag("set", *pair, k) for pair in ends for k in range(self.ring)]
        after: list[ir.Stmt] = [ir.Flag("wait", *pair, k) for pair in ends for k in range(self.ring)]
        primed = [flag for _ in range(self.slots) for flag in self.cross("set", "AIC", "MTE2", 1)]
        drained = [flag for _ in range(self.slots) for flag in self.cross("wait", "AIV", "MTE3", 1)]
        if not self.is_plain and dice.random() < 0.3:  # a flag is missing, or there twice
            at = dice.choice([k for k, stmt in enumerate(body) if isinstance(stmt, ir.Flag | ir.CrossFlag)])
            body[at : at + 1] = [] if dice.random() < 0.7 else [body[at]] * 2
        if not self.is_plain and dice.random() < 0.3:  # nothing orders two pipes, or cores
            one = dice.choice([stmt for stmt in body if isinstance(stmt, ir.Flag | ir.CrossFlag)])
            alike = {key: getattr(one, key) for key in ("src", "dst") if hasattr(one, key)}

            def stays(stmt: ir.Stmt) -> bool:
                return type(stmt) is not type(one) or any(getattr(stmt, key) != each for key, each in alike.items())

            body, before, after = ([stmt for stmt in own if stays(stmt)] for own in (body, before, after))
            primed, drained = ([], []) if isinstance(one, ir.CrossFlag) else (primed, drained)
        if not self.is_plain and dice.random() < 0.15:
            (primed or before or after or [0]).pop()
        loop = ir.Loop(ROUND, self.ahead, ROUNDS, 1, (*tiles, *body))
        shape = (GRID * (ROUNDS + 4) * 16, COLS)
        arguments = tuple(ir.Argument(name, F32, shape, (COLS, 1)) for name in ("x", "work"))
        lines = iter(range(1, 1000))
        statements = (ir.TileDecl("m", MAT, (0,), fresh=False), *before, *primed, loop, *drained, *after)
        placed = ir.transform(statements, lambda stmt: replace(stmt, where=Where("k.cpp", next(lines))))
        return ir.Program("k", arguments, placed, mode="manual", form=self.form, vector_cores=2)


def findings(program: ir.Program, target: str, blocks: str | None) -> Any:
    """What a launch on the machine finds."""
    shape: Any = program.arguments[0].shape
    arrays: dict[str, Any] = {name: np.ones(shape, np.float32) for name in ("x", "work")}
    options = pto.MachineOptions(blocks=blocks)
    report: Any = TextKernel(program)[GRID](**arrays, target=target, engine="machine", options=options)
    return report.as_dict()["findings"]


@pytest.mark.parametrize("chunk", range(CHUNKS))
@pytest.mark.filterwarnings("ignore")
def test_random_programs_have_the_findings_of_all_rounds(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where cores work on the rounds of each other, and where slots of global memory are used again."""
    seen: list[int] = []
    look = SharedRounds._look

    def watched(self: SharedRounds, at: int) -> None:
        look(self, at)
        seen.append(max(self._at.values()) - at)

    monkeypatch.setattr(SharedRounds, "_look", watched)
    faulty = 0
    for seed in range(chunk, PROGRAMS, CHUNKS):
        form, target = ((ir.CPP_FFTS, "a2a3"), (ir.CPP, "a5"))[seed // CHUNKS % 2]
        program = Draft(seed, form).program()
        if not gaps(program, range(GRID)):
            continue
        found, expected = (findings(program, target, blocks) for blocks in (ENOUGH, None))
        assert found == expected, f"seed {seed}"
        faulty += bool(expected)
    assert faulty
    assert max(seen) > ROUNDS // 4, "rounds are left out"


@pytest.mark.parametrize(("form", "target"), [(ir.CPP_FFTS, "a2a3"), (ir.CPP, "a5")])
@pytest.mark.parametrize("slots", [0, 1])
def test_rounds_are_left_out_of_a_plain_loop(
    form: str, target: str, slots: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With slots that are handed back it is clean; without, one core may be far ahead, in every round."""
    draft = Draft(0, form, is_plain=True)
    draft.ring, draft.slots, draft.ahead = 1, slots, 0
    program, jumps = draft.program(), list[int]()
    look = SharedRounds._look

    def watched(self: SharedRounds, at: int) -> None:
        look(self, at)
        jumps.append(max(self._at.values()) - at)

    expected = findings(program, target, None)
    monkeypatch.setattr(SharedRounds, "_look", watched)
    assert findings(program, target, ENOUGH) == expected
    assert [found["rule"] for found in expected] == ["KN-13"] * (not slots)
    assert max(jumps) > ROUNDS // 4
