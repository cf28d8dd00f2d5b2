"""Loops that are run up to a period: the findings are those of running every round."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest

import ptokit as pto
from ptokit.finding import Where
from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.isa.dtype import dtype
from ptokit.isa.operand import TileSpec
from ptokit.isa.policy import TileType
from ptokit.lang.loaded import TextKernel
from ptokit.machine import ENOUGH
from ptokit.program import ir
from ptokit.program.expr import BLOCK_IDX, Expr, Var, apply
from ptokit.program.periods import gaps
from tests.property.strategies import FUZZ

GRID, COLS = 2, 8
F32 = dtype("float32")
ROUND, INNER = Var("i"), Var("j")
PROGRAMS = 400 if FUZZ else 32
CHUNKS = 4


def instr(name: str, *operands: ir.Operand) -> ir.Instr:
    return ir.Instr(name, operands, tuple(modifier.constant_default for modifier in INSTRUCTIONS[name].modifiers))


class Draft:
    """Draws a kernel as one of C++ would be recorded: a ring of buffers, flags in rotation, and faults."""

    def __init__(self, seed: int, *, is_plain: bool = False) -> None:
        self.dice, self.is_plain = Random(seed), is_plain
        dice = self.dice
        self.ring, self.rounds = dice.choice((1, 2, 2, 3)), dice.randrange(90, 120)
        self.nested = dice.choice(("", "", "outer", "inner"))
        self.turn: Expr = ROUND
        if self.nested == "inner":
            self.turn = apply("add", apply("mul", INNER, self.rounds), ROUND)
        elif self.nested == "outer":
            self.turn = apply("add", apply("mul", ROUND, 2), INNER)
        self.all = self.rounds * {"": 1, "inner": 2, "outer": 2}[self.nested]

    def jumping(self, expr: Expr, jump: int) -> Expr:
        """An expression that is another one from some round on."""
        if self.is_plain or self.dice.random() > 0.1:
            return expr
        return apply("add", expr, apply("mul", apply("ge", ROUND, self.dice.randrange(self.rounds)), jump))

    def tile(self, name: str, at: int) -> ir.TileDecl:
        spec = TileSpec(F32, TileType.Vec, 1, COLS, 1, COLS)
        own = apply("add", apply("mul", apply("mod", self.turn, self.ring), 32), at)
        return ir.TileDecl(name, spec, (self.jumping(own, 32),), fresh=False)

    def rows(self, argument: str) -> ir.View:
        if self.is_plain:
            return ir.View(argument, (apply("add", apply("mul", BLOCK_IDX, self.all), self.turn), 0), (1, COLS))
        block = apply("mul", BLOCK_IDX, self.dice.choice((self.all,) * 8 + (0, 1, self.all // 2)))
        start = apply("add", block, self.dice.choice((self.turn,) * 8 + (0, apply("floordiv", self.turn, 2))))
        return ir.View(argument, (self.jumping(start, 5), 0), (1, COLS))

    def flag(self, action: str, src: str, dst: str) -> ir.Flag:
        ring = self.ring if self.is_plain or self.dice.random() < 0.95 else self.dice.choice((1, 2, 3))
        return ir.Flag(action, src, dst, self.jumping(apply("mod", self.turn, ring), 1))

    def body(self) -> list[ir.Stmt]:
        out, source = ("z", "x") if self.is_plain else self.dice.choice((("z", "x"), ("z", "x"), ("x", "x")))
        a, b, c = (ir.TileUse(name, (1, COLS)) for name in "abc")
        return [
            self.tile("a", 0), self.tile("b", 0x100), self.tile("c", 0x200),
            self.flag("wait", "V", "MTE2"),
            instr("tload", a, self.rows(source)),
            instr("tload", b, self.rows("y")),
            self.flag("set", "MTE2", "V"), self.flag("wait", "MTE2", "V"), self.flag("wait", "MTE3", "V"),
            instr("tadd", c, a, b),
            self.flag("set", "V", "MTE2"), self.flag("set", "V", "MTE3"), self.flag("wait", "V", "MTE3"),
            instr("tstore", self.rows(out), c),
            self.flag("set", "MTE3", "V"),
        ]  # fmt: skip

    def program(self) -> ir.Program:
        dice, body = self.dice, self.body()
        for _ in range(0 if self.is_plain else dice.choice((0, 0, 0, 0, 1))):  # leave out flags, or repeat them
            at = dice.choice([k for k, stmt in enumerate(body) if isinstance(stmt, ir.Flag)])
            body[at : at + 1] = [] if dice.random() < 0.7 else [body[at]] * 2
        ends = [("V", "MTE2"), ("MTE3", "V")]
        primed = [ir.Flag("set", *pair, k) for pair in ends for k in range(self.ring)]
        drained = [ir.Flag("wait", *pair, k) for pair in ends for k in range(self.ring)]
        if not self.is_plain and dice.random() < 0.15:
            (primed if dice.random() < 0.5 else drained).pop()
        if not self.is_plain and dice.random() < 0.5:  # nothing orders two pipes
            link = dice.choice([("MTE2", "V"), ("V", "MTE3"), *ends])
            body, primed, drained = ([s for s in own if not _orders(s, link)] for own in (body, primed, drained))
        loop: ir.Stmt = ir.Loop(ROUND, 0, self.rounds, 1, tuple(body))
        if self.nested == "outer":
            loop = ir.Loop(ROUND, 0, self.rounds, 1, (ir.Loop(INNER, 0, 2, 1, tuple(body)),))
        elif self.nested == "inner":
            loop = ir.Loop(INNER, 0, 2, 1, (loop,))
        statements = (*primed, loop, *drained)
        arguments = tuple(ir.Argument(name, F32, (GRID * self.all + 8, COLS), (COLS, 1)) for name in "xyz")
        lines = iter(range(1, 1000))
        placed = ir.transform(statements, lambda stmt: replace(stmt, where=Where("k.cpp", next(lines))))
        return ir.Program("k", arguments, placed, mode="manual", form=ir.CPP)


def _orders(stmt: ir.Stmt, link: tuple[str, str]) -> bool:
    return isinstance(stmt, ir.Flag) and (stmt.src, stmt.dst) == link


def findings(program: ir.Program, target: str, blocks: str | None) -> Any:
    """What a launch on the machine finds."""
    shape = program.arguments[0].shape
    arrays: dict[str, Any] = {name: np.ones(shape, np.float32) for name in "xyz"}  # type: ignore[arg-type]
    options = pto.MachineOptions(blocks=blocks)
    report: Any = TextKernel(program)[GRID](**arrays, target=target, engine="machine", options=options)
    return report.as_dict()["findings"]


@pytest.mark.parametrize("chunk", range(CHUNKS))
@pytest.mark.filterwarnings("ignore")
def test_random_programs_have_the_findings_of_all_rounds(chunk: int) -> None:
    faulty = 0
    for seed in range(chunk, PROGRAMS, CHUNKS):
        program, target = Draft(seed).program(), ("a2a3", "a5")[seed % 2]
        if not gaps(program, range(GRID)):
            continue
        found, expected = (findings(program, target, blocks) for blocks in (ENOUGH, None))
        assert found == expected, f"seed {seed}"
        faulty += bool(expected)
    assert faulty


def test_a_round_unlike_the_others_is_run() -> None:
    """From round 61 on the second buffer is the first: the load meets what the round before reads."""
    draft = Draft(0, is_plain=True)
    draft.ring, draft.rounds, draft.nested, draft.all, draft.turn = 2, 90, "", 90, ROUND
    program = draft.program()
    late = apply("mul", apply("ge", ROUND, 61), apply("mul", apply("eq", apply("mod", ROUND, 2), 1), -32))

    def moved(stmt: ir.Stmt) -> ir.Stmt:
        if isinstance(stmt, ir.TileDecl) and stmt.name == "a":
            return replace(stmt, addresses=(apply("add", stmt.addresses[0], late),))
        return stmt

    changed = replace(program, body=ir.transform(program.body, moved))
    found = findings(changed, "a2a3", ENOUGH)
    assert any(gap.stop < 61 for loop in gaps(changed, range(GRID)).values() for gap in loop)
    assert found and all(each["seen"]["iteration"]["i"] >= 61 for each in found if each["seen"])
    assert not findings(program, "a2a3", ENOUGH)
