"""The core of a pipe, if both cores have one of that name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import ptokit as pto
from ptokit.lang.launch import mode_of
from ptokit.program.cores import Cores
from ptokit.program.ir import Flag
from ptokit.target.a5 import A5

NZ = {"blayout": "col_major", "slayout": "row_major"}


@pto.kernel
def gathered_products(table, ids, scratch, weights, out, trips: pto.const = 3, executor: pto.const = "simt"):
    """Gathers into L1 through one scratch, over and over: threads of the vector core write it, the cube core's MTE2
    reads it."""
    weight = pto.Tile("mat", "float16", 16, 16, **NZ)
    pto.tload(weight, weights)
    for i in pto.range(trips):
        matrix = pto.Tile("mat", "float16", 16, 16, **NZ)
        piece = ids[i * 16 : i * 16 + 16]
        pto.mgather(matrix, table, piece, coalesce="elem", oob="zero", scratch=scratch, executor=executor)
        left = pto.Tile("left", "float16", 16, 16)
        right = pto.Tile("right", "float16", 16, 16)
        total = pto.Tile("acc", "float32", 16, 16)
        pto.tmov(left, matrix)
        pto.tmov(right, weight)
        pto.tmatmul(total, left, right)
        pto.tstore(out[i * 16 : i * 16 + 16], total)


def arrays() -> list[Any]:
    rng = np.random.default_rng(0)
    table, ids = rng.random((20, 16)).astype("float16"), rng.integers(0, 330, (48, 16)).astype("int32")
    return [table, ids, np.zeros(256, "float16"), np.eye(16, dtype="float16"), np.zeros((48, 16), "float32")]


@pytest.mark.parametrize("executor", ["simt", "scalar"])
@pytest.mark.parametrize("seed", [None, 0, 1, 2])
def test_gathers_through_one_scratch_are_in_order(executor: str, seed: int | None) -> None:
    given, same = arrays(), arrays()
    gathered_products[1](*same, target="a5", engine="reference", executor=executor)
    options = pto.MachineOptions(seed=seed)
    report = gathered_products[1](*given, target="a5", engine="machine", executor=executor, options=options)
    assert report.ok, report
    assert np.array_equal(given[-1], same[-1])


@pto.kernel(mode="manual")
def twice_through(table, ids, scratch, ordered: pto.const = True):
    first = pto.Tile("mat", "float16", 16, 16, addr=0, **NZ)
    second = pto.Tile("mat", "float16", 16, 16, addr=4096, **NZ)
    pto.mgather(first, table, ids, coalesce="elem", oob="zero", scratch=scratch, executor="simt")
    if ordered:
        pto.sync_set("AIC.MTE2", 0)
        pto.sync_wait("V", 0)
    pto.mgather(second, table, ids, coalesce="elem", oob="zero", scratch=scratch, executor="simt")


def test_a_scratch_is_named_where_it_is_what_is_raced_for() -> None:
    table, ids, scratch, *_ = arrays()
    assert twice_through[1](table, ids[:16], scratch, target="a5", engine="machine").ok
    report = twice_through[1](table, ids[:16], scratch, ordered=False, target="a5", engine="machine")
    messages = "\n".join(finding.message for finding in report.hazards)
    assert "mgather writes scratch on AIV.V; nothing orders this write after" in messages
    assert "mgather's read of scratch on AIC.MTE2" in messages


@pto.kernel
def both_cores(x, weights, out, vector: pto.const = True, cube: pto.const = True):
    if vector:
        row = pto.Tile("vec", "float32", 1, 16)
        pto.tload(row, x)
        pto.tstore(out, row)
    if cube:
        matrix = pto.Tile("mat", "float16", 16, 16, **NZ)
        pto.tload(matrix, weights)


V, C = "AIV", "AIC"
"""The vector core and the cube core."""
ENDS = [
    (("MTE2", "V"), (V,), [(V, V)]),
    (("MTE2", "V"), (C,), [(V, V)]),
    (("MTE2", "V"), (V, C), [(V, V)]),
    (("V", "MTE2"), (V, C), [(V, V)]),
    (("MTE2", "MTE1"), (V, C), [(C, C)]),
    (("MTE2", "S"), (V, C), [(C, C), (V, V)]),
    (("S", "MTE2"), (V,), [(V, V)]),
    (("V", "S"), (V,), [(V, V)]),
    (("V", "S"), (V, C), [(V, V)]),
    (("S", "FIX"), (V, C), [(C, C)]),
    (("M", "V"), (V, C), [(C, V)]),
    (("FIX", "V"), (V, C), [(C, V)]),
    (("MTE3", "MTE1"), (V, C), [(V, C)]),
    (("MTE2", "M"), (), [(C, C)]),
]


@pytest.mark.parametrize(("pipes", "used", "expected"), ENDS)
def test_the_cores_of_a_flag(pipes: tuple[str, str], used: tuple[str, ...], expected: list[tuple[str, str]]) -> None:
    given = {"x": np.zeros((1, 16), "float32"), "weights": np.zeros((16, 16), "float16")}
    given |= {"out": np.zeros((1, 16), "float32"), "vector": V in used, "cube": C in used}
    program = both_cores.trace(both_cores.bind((), given), mode_of("a5")).program
    flag = Flag("set", *pipes, 0)  # type: ignore[arg-type]
    cores = Cores(replace(program, body=(*program.body, flag)), A5)
    assert sorted(cores.pairs(flag)) == [(f"{a}.{pipes[0]}", f"{b}.{pipes[1]}") for a, b in expected]
