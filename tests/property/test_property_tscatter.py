"""TSCATTER with both index kinds, compared with the naive loop byte for byte."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.property.runner import run
from tests.property.strategies import TARGETS, fuzz, scatter_in_ub


@pytest.mark.parametrize("reading", ["row", "flat"])
@pytest.mark.parametrize("target", TARGETS)
@fuzz()
@given(data=st.data())
def test_row_major_tiles(target: str, reading: str, data: st.DataObject) -> None:
    run(data.draw(scatter_in_ub(target, reading)))
