"""MGATHER on every target and path, compared with the naive loops byte for byte."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.property.runner import run
from tests.property.strategies import TARGETS, fuzz, gather_elements, gather_into_l1, gather_nz, gather_rows


@pytest.mark.parametrize("target", TARGETS)
@fuzz(2)
@given(data=st.data())
def test_rows(target: str, data: st.DataObject) -> None:
    run(data.draw(gather_rows(target)))


@pytest.mark.parametrize("target", TARGETS)
@fuzz(2)
@given(data=st.data())
def test_elements(target: str, data: st.DataObject) -> None:
    run(data.draw(gather_elements(target)))


@pytest.mark.parametrize("mode", ["row", "elem"])
@fuzz(2)
@given(data=st.data())
def test_nz_table_into_nz_tile(mode: str, data: st.DataObject) -> None:
    run(data.draw(gather_nz(mode)))


@pytest.mark.parametrize("mode", ["row", "elem"])
@pytest.mark.parametrize("target", ["a2a3", "a5"])
@fuzz(2)
@given(data=st.data())
def test_into_l1(target: str, mode: str, data: st.DataObject) -> None:
    run(data.draw(gather_into_l1(target, mode)))
