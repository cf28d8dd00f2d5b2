"""The text form on a page is the printed one: the same name, operands and attributes."""

from __future__ import annotations

import re

import pytest

from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.program.ir import Program
from ptokit.text.forms import print_program
from ptokit.text.spelling import instructions
from tests.text.test_cpp import cube_program, floats, ints, traced, vector_program

MOVES = """
a = pto.Tile("vec", "float32", 8, 64)
b = pto.Tile("vec", "float32", 8, 64)
w = pto.Tile("vec", "int16", 8, 64)
e = pto.Tile("vec", "int32", 8, 64)
n = pto.Tile("vec", "int32", 8, 1, blayout="col_major")
c = pto.Tile("vec", "int32", 1, 64)
pto.tload(a, x)
pto.tload(b, x)
pto.tload(n, y[0:8])
pto.tload(e, z)
pto.tci(c, 3, descending=True)
pto.tcvt(w, a, round="floor", saturation="on")
pto.mgather(a, x, e, coalesce="elem", oob="clamp")
pto.mscatter(x, a, n, oob="skip", atomic="add")
pto.mscatter(x, a, n, oob="skip", conflict="last")
pto.tscatter(b, a, e, index="flat")
pto.tdivs(a, a, 2.0)
pto.tdivs(a, 2.0, a)
pto.tstore(x, a, atomic="add")
"""
FORMS = {"Level 1": "l1", "Level 2": "l2"}
OWN = {"tile"}
"""An attribute that only values have: the tile that a result goes into."""


def programs() -> list[Program]:
    moves = traced(MOVES, "cpu", x=floats(8, 64), y=ints(64), z=ints(8, 64))
    return [vector_program("a5"), vector_program("cpu"), cube_program("a5"), moves]


def plain(line: str) -> tuple[str, frozenset[str]]:
    """A line without names and types, and the keys of its attributes."""
    keys = re.findall(r"(\w+) = [#\"tf]", line.rsplit(" = pto.", maxsplit=1)[-1])
    line = re.sub(r" \{[^}]*\}", "", line.strip())
    line = re.sub(r"%[\w.]+", "%", line)
    line = re.sub(r"!pto\.\w+<[^>]*>|\b[iuf]+\d+\b|\bindex\b", "...", line)
    return line, frozenset(keys) - OWN


def printed(form: str) -> list[tuple[str, frozenset[str]]]:
    lines = [line for program in programs() for line in print_program(program, form).splitlines()]  # type: ignore[arg-type]
    ops = "|".join(map(re.escape, sorted(instructions(), key=len, reverse=True)))
    return [plain(line) for line in lines if re.match(rf"\s*((%\w+, )*%\w+ = )?pto\.({ops}) ", line)]


@pytest.mark.parametrize("level", FORMS)
def test_every_printed_line_is_spelled_out(level: str) -> None:
    spelled = [plain(text) for instruction in INSTRUCTIONS.values() for text in instruction.spellings.get(level, ())]
    found = printed(FORMS[level])
    assert {re.search(r"pto\.([\w.]+)", line)[1] for line, _ in found} == set(instructions())  # type: ignore[index]
    for line, keys in found:
        assert any(line == text and keys <= known for text, known in spelled), (line, keys)


def test_the_choices_of_a_scatter_stand_in_the_order_of_the_headers() -> None:
    calls = INSTRUCTIONS["mscatter"].spellings["C++"]
    assert "MSCATTER<Coalesce, ScatterAtomicOp, ScatterOOB[, ScatterConflict]>(table, src, idx[, events...])" in calls
    assert any(call.startswith("MSCATTER<ScatterAtomicOp, ScatterOOB>(table, src, idx)") for call in calls)
