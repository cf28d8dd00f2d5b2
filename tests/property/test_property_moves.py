"""TLOAD, TSTORE and TMOV, compared with the naive loops byte for byte."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.property.runner import run
from tests.property.strategies import TARGETS, fuzz, loads, moves, stores


@pytest.mark.parametrize("target", TARGETS)
@fuzz()
@given(data=st.data())
def test_loads(target: str, data: st.DataObject) -> None:
    run(data.draw(loads(target)))


@pytest.mark.parametrize("target", TARGETS)
@fuzz()
@given(data=st.data())
def test_stores(target: str, data: st.DataObject) -> None:
    run(data.draw(stores(target)))


@pytest.mark.parametrize("target", TARGETS)
@fuzz()
@given(data=st.data())
def test_moves(target: str, data: st.DataObject) -> None:
    run(data.draw(moves(target)))
