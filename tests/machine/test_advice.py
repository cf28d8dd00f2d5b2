"""Advice of the machine: a gather of rows is not advised to gather rows."""

from __future__ import annotations

import numpy as np
import pytest

import ptokit as pto


@pto.kernel
def gather(table, idx, out, mode: pto.const):
    shape = (1, idx.shape[-1]) if mode == "row" else out.shape
    ids = pto.Tile("vec", "int32", *shape)
    rows = pto.Tile("vec", table.dtype, *out.shape)
    pto.tload(ids, idx)
    pto.mgather(rows, table, ids, coalesce=mode)
    pto.tstore(out, rows)


def advice(mode: str, target: str) -> str:
    table, out = np.zeros((64, 32), "float32"), np.zeros((32, 32), "float32")
    idx = np.zeros((1, 32) if mode == "row" else (32, 32), "int32")
    report = gather[1](table, idx, out, mode, target=target, engine="machine")
    return "\n".join(report.timeline.advice)


@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_a_gather_of_rows_is_not_advised_to_gather_rows(target: str) -> None:
    advised = advice("row", target)
    assert "rather than" not in advised and "instead of elements" not in advised
    assert ("loads are the limit" if target == "a2a3" else "the vector pipe is the limit: longer rows") in advised


@pytest.mark.parametrize(("target", "pipe"), [("a2a3", "S"), ("a5", "V")])
def test_a_gather_of_elements_is(target: str, pipe: str) -> None:
    assert ELEMENT_HINTS[pipe] in advice("elem", target)
