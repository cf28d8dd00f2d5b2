"""Names of tiles, arrays and loop variables: each once."""

from __future__ import annotations

from ptokit.cxx.operands import UsedNames


def test_the_first_free_name_is_taken() -> None:
    names = UsedNames(["x", "x_2"])
    assert [names.new("x") for _ in range(3)] == ["x_1", "x_3", "x_4"]
    assert [names.new("x_1"), names.new("y"), names.new("y")] == ["x_1_1", "y", "y_1"]


def test_numbers_begin_where_they_should() -> None:
    names = UsedNames(first=2)
    assert [names.new("i") for _ in range(3)] == ["i", "i_2", "i_3"]
