"""Hazards of index values are reported exactly where the naive loops see them."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ptokit as pto
from tests.property import naive
from tests.property.runner import build, call, expect, run
from tests.property.strategies import (
    TARGETS,
    fuzz,
    gather_elements,
    gather_into_l1,
    gather_nz,
    gather_rows,
    scatter_elements,
    scatter_in_ub,
    scatter_rows,
)

INDEXED = {
    **{
        f"{s.__name__} {t}": s(t)
        for s in (gather_rows, gather_elements, scatter_rows, scatter_elements)
        for t in TARGETS
    },
    **{f"gather_nz {mode}": gather_nz(mode) for mode in ("row", "elem")},
    **{f"gather_into_l1 {t} {mode}": gather_into_l1(t, mode) for t in ("a2a3", "a5") for mode in ("row", "elem")},
}


@pytest.mark.parametrize("name", INDEXED)
@fuzz(0.5)
@given(data=st.data())
def test_negative_int32_under_clamp_and_wrap(name: str, data: st.DataObject) -> None:
    """H-13: one warning for a call, and only there."""
    result = run(data.draw(INDEXED[name]))
    if result.outcome is not None:
        hazards = [finding for finding in result.hazards if finding.kind == "H-13"]
        assert len(hazards) == int(result.outcome.negative)
        assert all((f.level, f.operand) == ("hazard", "idx") for f in hazards)


@pytest.mark.parametrize("reading", ["row", "flat"])
@pytest.mark.parametrize("target", TARGETS)
@fuzz(0.5)
@given(data=st.data())
def test_indices_that_name_padding(target: str, reading: str, data: st.DataObject) -> None:
    """H-12: ValidRow <= idx < Rows, or a flat index of padding, is written and reported."""
    result = run(data.draw(scatter_in_ub(target, reading)))
    if result.outcome is not None:
        assert [finding.kind for finding in result.hazards] == ["H-12"] * result.outcome.padding


@pytest.mark.parametrize("target", TARGETS)
@fuzz()
@given(data=st.data())
def test_strict_refuses_what_would_be_a_hazard(target: str, data: st.DataObject) -> None:
    """Nothing is written by a call that `strict` refuses, and a call without hazards is not refused."""
    strategies: list[Any] = [gather_rows, gather_elements, scatter_rows, scatter_elements]
    case = data.draw(st.sampled_from(strategies).flatmap(lambda make: make(target)))
    hazards = run(case).hazards
    with pto.target(case.target, strict=True), warnings.catch_warnings():
        warnings.simplefilter("error")
        world = build(case)
        before = {name: memory.copy() for name, memory in world.real.items()}
        try:
            expect(case, world)
            refused = False
        except (naive.OutOfRange, naive.OutsideSpan):
            refused = True
        if not hazards and not refused:
            call(case, world)
            return
        with pytest.raises((pto.VerifyError, pto.OutOfBoundsError)):
            call(case, world)
        assert all(np.array_equal(memory, before[name]) for name, memory in world.real.items())
