"""Slices of grids of cases."""

from __future__ import annotations

from itertools import combinations, product

import pytest

from tests.loops import all_pairs

AXES = ("abcde", range(4), (None, True, False), "xy")


def test_all_values_of_any_two_axes_meet() -> None:
    found = all_pairs(*AXES, one_in=3)
    for one, other in combinations(range(len(AXES)), 2):
        assert {(case[one], case[other]) for case in found} == {*product(AXES[one], AXES[other])}


def test_the_slice_is_one_in_so_many_and_the_grid_is_whole() -> None:
    assert len(all_pairs(*AXES, one_in=3, full=False)) == 40
    assert all_pairs(*AXES, one_in=3, full=True) == [*product(*AXES)]


def test_axes_that_are_too_short_are_refused() -> None:
    with pytest.raises(AssertionError, match="would not meet"):
        all_pairs(*AXES, one_in=4)
