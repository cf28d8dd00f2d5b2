"""A tile that a call writes and reads: accepted if the instruction works in place, refused otherwise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ptokit as pto
from tests import snippet

TARGETS = ("cpu", "a2a3", "a5")
SQUARE = "t = pto.Tile('vec', '{0}', 32, 32)\npto.tload(t, x)\n"


def findings(body: str, target: str, kind: str = "int32") -> list[tuple[str, str | None, str]]:
    """Errors of a kernel, as rule, hazard and operand."""
    lines = "".join(f"    {line}\n" for line in (SQUARE.format(kind) + body).splitlines())
    names: dict[str, Any] = {"pto": pto}
    exec(snippet.compiled(f"@pto.kernel\ndef k(x):\n{lines}    pto.tstore(x, t)\n", "twice"), names)
    report = pto.check(names["k"], np.zeros((32, 32), kind), target=target)
    return [(f.rule, f.kind, f.operand or "") for f in report.findings if f.level == "error"]


@pytest.mark.parametrize("call", ["pto.tands(t, t, 3)", "pto.tors(t, t, 3)"])
def test_a2a3_takes_no_bitwise_scalar_of_the_tile_that_it_writes(call: str) -> None:
    """There the scalar is spread over the destination first."""
    assert findings(call, "a2a3") == [("A-38", "H-38", "src")]
    assert findings(call, "a5") == findings(call, "cpu") == []


def test_a2a3_divides_a_scalar_by_another_tile_than_it_writes() -> None:
    """It spreads the scalar over the destination first (`pto_instr.hpp:537`, `TDivS.hpp:67`)."""
    for call in ("pto.trecip(t, t)", "pto.tdivs(t, 1, t)"):
        assert findings(call, "a2a3", "float32") == [("A-38", "H-38", "src")]
        assert findings(call, "a5", "float32") == findings(call, "cpu", "float32") == []
    assert findings("pto.tdivs(t, t, 2)", "a2a3", "float32") == findings("pto.tdivs(t, 1, t)", "a2a3", "int32") == []
    other = "u = pto.Tile('vec', 'float32', 32, 32)\npto.tload(u, x)\npto.tdivs(t, 1, u)"
    assert findings(other, "a2a3", "float32") == []


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("call", ["pto.ttrans(t, t)", "pto.trowsum(t, t)", "pto.trowmax(t, t)", "pto.trowmin(t, t)"])
def test_what_moves_elements_takes_no_tile_twice(call: str, target: str) -> None:
    assert findings(call, target) == [("A-38", "H-38", "src")]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("call", ["pto.tadd(t, t, t)", "pto.tadds(t, t, 1)", "pto.tshls(t, t, 1)"])
def test_arithmetic_works_in_place(call: str, target: str) -> None:
    assert findings(call, target) == []


def test_sources_may_be_one_tile() -> None:
    compared = "m = pto.Tile('vec', 'uint32', 32, 8, valid=(32, 1))\npto.tcmp(m, t, t, 'eq')"
    assert findings(compared, "a5", "float32") == []
    like = "m = pto.Tile('vec', 'uint32', 32, 32)\npto.tcmp(m, t, t, 'eq')"
    assert findings(like, "a5", "uint32") == []
    assert findings("pto.tcmp(t, t, t, 'eq')", "a5", "uint32") == [("A-38", "H-38", "src0")]


def test_another_tile_of_the_same_description_is_another_tile() -> None:
    other = "u = pto.Tile('vec', 'int32', 32, 32)\npto.tload(u, x)\n"
    assert findings(other + "pto.tands(t, u, 3)", "a2a3") == []
    assert findings(other + "pto.ttrans(t, u)", "a2a3") == []


def test_a_scatter_into_its_own_source_is_reported_at_run_time() -> None:
    """Its lanes take effect in a known order, and the run reports it (A-52)."""
    index = "i = pto.Tile('vec', 'int32', 32, 32)\npto.texpands(i, 0)\npto.tscatter(t, t, i)"
    assert findings(index, "cpu") == []


def test_headers_only_warn() -> None:
    names: dict[str, Any] = {"pto": pto}
    lines = "".join(f"    {line}\n" for line in (SQUARE.format("int32") + "pto.tands(t, t, 3)").splitlines())
    source = f"@pto.kernel\ndef k(x):\n{lines}"
    exec(snippet.compiled(source, "twice"), names)
    report = pto.check(names["k"], np.zeros((32, 32), "int32"), target="a2a3", header=True)
    assert [(f.level, f.rule) for f in report.findings if f.kind == "H-38"] == [("hazard", "A-38")]
