"""What a definition may have: several steps, an enum of its own, default costs. What it may not have is refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import ptokit as pto
from ptokit.isa import catalog
from ptokit.isa.common import (
    F2,
    OpRow,
    alike,
    build,
    by_target,
    everywhere,
    filled,
    plain,
    same_type,
    shaped,
    typed,
    types,
    vec,
    whole,
)
from ptokit.isa.instruction import EVERYWHERE, NPU, Call, Instruction, Modifier, Param, Rule, always, error
from ptokit.isa.kernel import Cost, Effect, RouteKernel
from ptokit.isa.layout import Layout, Term
from ptokit.isa.move import Access, Compute, Index, IndexUnit, Move, Remap, Side
from ptokit.isa.policy import PtoEnum
from ptokit.isa.spelling import Attribute
from ptokit.lang.instructions import __all__ as EXPORTED
from tests.lang.stubs import stub

CLAUSE, DATA = "CP-GAT-01", by_target(a2a3=F2, a5=F2)
TILES = ("mix", "near", "far")


def blend(call: Call) -> tuple[Compute, ...]:
    """The second step reads what the first has written."""
    mix, near, share, far = call.mix, *(whole(call, name) for name in ("near", "share", "far"))
    to = Access("mix", mix.layout)
    return Compute("mul", mix.valid, to, (near, share)), Compute("add", mix.valid, to, (whole(call, "mix"), far))


TBLEND = build(
    OpRow("tblend", "A multiple of a tile plus another.", "mix = near * share + far", DATA, in_place=()),
    (
        Param("mix", "write", "destination"),
        Param("near", "read", "a tile"),
        Param("share", "read", "the factor", kind="number", typed_as="near"),
        Param("far", "read", "another tile"),
    ),
    (
        *(vec(CLAUSE, name) for name in TILES),
        filled(CLAUSE, "mix"),
        *(plain(CLAUSE, name) for name in TILES),
        *(shaped(CLAUSE, name, "mix") for name in TILES[1:]),
        typed(CLAUSE, "mix", DATA),
        *(alike(CLAUSE, name, "mix") for name in TILES[1:]),
    ),
    blend,
)


class Edge(PtoEnum):
    """What a slot outside the sink does."""

    Trap = 0
    Drop = 1


REMAP = {Edge.Trap: Remap.REFUSE, Edge.Drop: Remap.SKIP}
SLOTS = everywhere(types("i32 u32"))


def put(call: Call) -> tuple[Move, ...]:
    """A row for each slot."""
    slots = Access("slots", Layout((Term(1),), ()))
    index = Index(slots, Side.DST, IndexUnit.ROW, call.sink.shape[3], REMAP[call.edge])
    sink = Access("sink", Layout.plain(call.sink.stride[3], 1))
    return (Move(call.lines.valid, sink, Access("lines", call.lines.layout), index),)


KERNEL = RouteKernel(
    (Effect("slots", "read", "S"), Effect("lines", "read", "MTE3"), Effect("sink", "write", "MTE3")),
    cost={"S": Cost("row loop"), "MTE3": Cost("row transfers", "UB to GM GB/s")},
)
MPUTROW = Instruction(
    name="mputrow",
    summary="Put rows of a tile into rows of a tensor.",
    meaning=("sink[slots[i], j] = lines[i, j]",),
    operands=(
        Param("sink", "update", "the tensor", kind="memory"),
        Param("lines", "read", "rows"),
        Param("slots", "read", "a number for each row", role="index"),
    ),
    modifiers=(Modifier("edge", Edge, always(Edge.Trap), "a slot outside", text=Attribute("edge", "edge")),),
    rules=(
        *(vec(CLAUSE, name) for name in ("lines", "slots")),
        *(plain(CLAUSE, name) for name in ("lines", "slots")),
        Rule(CLAUSE, "slots", "one row", lambda c: c.slots.valid == (1, c.lines.valid_rows), on=error(*EVERYWHERE)),
        same_type(CLAUSE, "lines", "sink", blocks="execution"),
        typed(CLAUSE, "slots", SLOTS),
    ),
    lower=put,
    route=lambda _: "mputrow",
    kernels={family: {"mputrow": KERNEL} for family in NPU},
)


@pytest.fixture(autouse=True)
def _instructions() -> Iterator[None]:
    for each in (TBLEND, MPUTROW):
        catalog.add(each)
    yield
    for each in (TBLEND, MPUTROW):
        catalog.remove(each.name)


@pto.kernel
def blended(x, y, out):
    near, far, mix = (pto.Tile("vec", "float32", 8, 32) for _ in range(3))
    pto.tload(near, x)
    pto.tload(far, y)
    pto.tblend(mix, near, 3, far)  # type: ignore[attr-defined]
    pto.tstore(out, mix)


@pto.kernel
def half_blended(x, out):
    near, far, mix = (pto.Tile("vec", "float32", 8, 32) for _ in range(3))
    pto.tload(near, x)
    pto.tblend(mix, near, 3, far)  # type: ignore[attr-defined]
    pto.tstore(out, mix)


@pto.kernel
def put_rows(x, ids, out):
    lines, slots = pto.Tile("vec", "float32", 8, 32), pto.Tile("vec", "int32", 1, 8)
    pto.tload(lines, x)
    pto.tload(slots, ids)
    pto.mputrow(out, lines, slots, edge="drop")  # type: ignore[attr-defined]


def floats(rows: int = 8) -> Any:
    return np.random.default_rng(rows).random((rows, 32), "float32")


# --- Steps ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["cpu", "a2a3", "a5"])
@pytest.mark.parametrize("options", [{}, {"options": pto.MachineOptions(seed=3)}])
def test_a_step_reads_what_an_earlier_one_has_written(target: str, options: dict[str, Any]) -> None:
    x, y, out = floats(8), floats(8)[::-1].copy(), np.zeros((8, 32), "float32")
    report = blended[1](x, y, out, target=target, engine="machine", **options)
    assert report.findings == ()
    assert (out == x * np.float32(3) + y).all()


@pytest.mark.parametrize("target", ["cpu", "a2a3", "a5"])
def test_what_no_step_has_written_is_found(target: str) -> None:
    report = half_blended[1](floats(), np.zeros((8, 32), "float32"), target=target, engine="machine")
    assert [(found.kind, found.operand) for found in report.findings if found.level == "error"] == [("H-36", "far")]


# --- Costs ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", NPU)
def test_pipes_with_a_cost_have_their_time(target: str) -> None:
    x, out = floats(), np.zeros((16, 32), "float32")
    slots = np.array([[3, 1, 4, 15, 5, 9, 2, 60]], "int32")
    report = put_rows[1](x, slots, out, target=target, engine="machine")
    assert (out[slots[0, :7]] == x[:7]).all()
    assert {work.pipe[-4:] for work in report.timeline.works if work.what == "mputrow"} == {"IV.S", "MTE3"}


@pytest.mark.parametrize("missing", ["S", "MTE3"])
def test_a_pipe_without_a_cost_and_without_a_default_is_refused(missing: str) -> None:
    cost = {pipe: each for pipe, each in KERNEL.cost.items() if pipe != missing}
    kernels = {"a5": {"mputrow": replace(KERNEL, cost=cost)}}
    with pytest.raises(ValueError, match=f"mputrow cannot be added: .* mputrow on a5 has no cost for {missing}"):
        catalog.add(replace(MPUTROW, kernels=kernels))


# --- Names ---------------------------------------------------------------------------------------------------


def test_an_enum_may_be_in_the_file_of_the_instruction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.lang.stubs.NAMES", [name for name in EXPORTED if name in catalog.INSTRUCTIONS])
    scope: dict[str, Any] = {}
    imports = stub().partition("__all__")[0]
    exec(imports, scope)
    assert scope["Edge"] is Edge is pto.Edge  # type: ignore[attr-defined]
    assert f"from {__name__} import (\n    Edge,\n)" in imports


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("in", "'in' is no name of a function or an argument in Python"),
        ("3d", "'3d' is no name"),
        ("_x", "'_x' is no name"),
        ("wait", "the name 'wait' is taken"),
        ("tmp", "the name 'tmp' is taken"),
        ("values", "the name 'values' is taken"),
        ("far", "the name 'far' is taken"),
    ],
)
def test_a_name_that_cannot_be_an_argument_is_refused(name: str, problem: str) -> None:
    mix, near, *others = TBLEND.operands
    with pytest.raises(ValueError, match=f"tblend cannot be added: .*{problem}"):
        catalog.add(replace(TBLEND, operands=(mix, replace(near, name=name), *others)))
    assert catalog.INSTRUCTIONS["tblend"] is TBLEND


@pytest.mark.parametrize("name", ["execute", "corner", "instruction_", "scalar"])
def test_other_names_are_free(name: str) -> None:
    mix, *others, far = TBLEND.operands
    assert not list(catalog.problems_of(replace(TBLEND, operands=(mix, *others, replace(far, name=name)))))


def test_the_catalogue_satisfies_what_it_asks_for() -> None:
    assert [problem for each in catalog.INSTRUCTIONS.values() for problem in catalog.problems_of(each)] == []
