"""MSCATTER on every target, with every policy and atomic operation, compared with the naive loop byte for byte."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.property.runner import run
from tests.property.strategies import TARGETS, fuzz, scatter_elements, scatter_rows


@pytest.mark.parametrize("target", TARGETS)
@fuzz(2)
@given(data=st.data())
def test_rows(target: str, data: st.DataObject) -> None:
    run(data.draw(scatter_rows(target)))


@pytest.mark.parametrize("target", TARGETS)
@fuzz(2)
@given(data=st.data())
def test_elements(target: str, data: st.DataObject) -> None:
    run(data.draw(scatter_elements(target)))
