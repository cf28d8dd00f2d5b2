"""MGATHER on every target and path, held against the naive loops byte for byte."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from property.runner import run
from property.strategies import (
    TARGETS,
    Case,
    fuzz,
    gather_elements,
    gather_into_l1,
    gather_nz,
    gather_rows,
)


@pytest.mark.parametrize("target", TARGETS)
def test_rows(target: str) -> None:
    @fuzz(2)
    @given(gather_rows(target))
    def check(case: Case) -> None:
        run(case)

    check()


@pytest.mark.parametrize("target", TARGETS)
def test_elements(target: str) -> None:
    @fuzz(2)
    @given(gather_elements(target))
    def check(case: Case) -> None:
        run(case)

    check()


@pytest.mark.parametrize("mode", ["row", "elem"])
def test_nz_pairs(mode: str) -> None:
    @fuzz(2)
    @given(gather_nz(mode))
    def check(case: Case) -> None:
        run(case)

    check()


@pytest.mark.parametrize("mode", ["row", "elem"])
@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_into_l1(target: str, mode: str) -> None:
    @fuzz(2)
    @given(gather_into_l1(target, mode))
    def check(case: Case) -> None:
        run(case)

    check()


_ = st
