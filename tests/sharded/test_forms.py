"""Forms of calls that sharded tables share with whole arrays: their results, warnings and errors."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import ptokit as pto
from tests.sharded.calls import outcome
from tests.sharded.inprocess import same, table

ARRAY = np.arange(60, dtype="float32").reshape(10, 6)
BY = pytest.mark.parametrize("by", ["rows", "columns"])


@BY
@pytest.mark.parametrize("indices", [[1, 9, 1], range(3, 9, 2), 4, [[0], [7]], np.uint8([200, 3]), (), np.int16([-1])])
def test_indices_have_all_forms(by: str, indices: Any) -> None:
    with table(ARRAY, 2, by) as made:
        for mode in ("clip", "fill", "negative", None):
            wanted = outcome(lambda mode=mode: pto.gather(ARRAY, indices, mode=mode))
            assert np.array_equal(outcome(lambda mode=mode: made.gather(indices, mode=mode)), wanted)


@BY
@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", ["mean", "mul", "amax"])
def test_a_reduction_meets_in_the_owner(by: str, reduce: str, include_self: bool) -> None:
    wanted, src = ARRAY.copy(), np.float32([[2], [3], [5], [7]]) + ARRAY[:4]
    options = {"reduce": reduce, "include_self": include_self, "mode": "drop"}
    with table(ARRAY, 4, by) as made:
        made.scatter(src, [9, 0, 9, 44], **options)
        one = {"mean": np.add, "mul": np.multiply, "amax": np.maximum}[reduce]
        for row, lanes in ((9, [0, 2]), (0, [1])):
            cells = [*([wanted[row]] if include_self else []), *src[lanes]]
            wanted[row] = one.reduce(cells, axis=0) / np.float32(len(cells) if reduce == "mean" else 1)
        assert same(made, wanted)


@BY
@pytest.mark.parametrize("src", [[2, 7.5, 0.1], [[1] * 6, [2] * 6, [3] * 6], range(3), [1, 2], [1, [2]], ["a", 1, 2]])
def test_sources_are_lists_as_well(by: str, src: Any) -> None:
    array = ARRAY[:, 0].copy() if not isinstance(src[0], list) else ARRAY.copy()
    with table(array, 2, by) as made:
        found = outcome(lambda: (made.scatter(src, [9, 0, 9], atomic="add"), "done")[1])
        assert found == outcome(lambda: (pto.scatter(array, src, [9, 0, 9], atomic="add"), "done")[1])
        assert same(made, array)


@BY
@pytest.mark.parametrize("shape", [(0, 3), (4, 0)])
def test_errors_of_empty_tables_are_those_of_arrays(by: str, shape: tuple[int, ...]) -> None:
    array = np.zeros(shape, "complex64")
    with table(array, 2, by) as made:
        for oob in ("wrap", "undefined", "skip"):
            options = {"oob": oob, "reduce": "mean"}
            wanted = outcome(lambda o=options: pto.scatter(array, 1, [0, 0], **o))
            assert outcome(lambda o=options: made.scatter(1, [0, 0], **o)) == wanted and isinstance(wanted, str)
        for oob in ("wrap", "undefined", "zero"):
            wanted = outcome(lambda o=oob: pto.gather(array, [0, 0], oob=o))
            assert np.array_equal(outcome(lambda o=oob: made.gather([0, 0], oob=o)), wanted)


@pytest.mark.parametrize("dtype", ["complex64", "bool"])
def test_a_type_without_mean_is_refused(dtype: str) -> None:
    array = np.zeros((5, 3), dtype)
    with table(array) as made:
        wanted = outcome(lambda: pto.scatter(array, 1, [0, 4], reduce="mean"))
        assert "has no mean" in wanted and outcome(lambda: made.scatter(1, [0, 4], reduce="mean")) == wanted
        assert same(made, array)


@pytest.mark.parametrize("options", [{"atomic": "max"}, {"reduce": "amax"}, {"atomic": "max", "mode": "clip"}], ids=str)
def test_of_two_errors_the_one_of_arrays_is_reported(options: dict[str, Any]) -> None:
    """A list that no type holds, and a type that has no order."""
    array, indices = np.zeros(7, "complex64"), [3, (1 << 64) - 1, -1]
    expected = outcome(lambda: pto.scatter(array, 1.0, indices, **options))
    assert isinstance(expected, str)
    with table(array, 1, "rows") as made:
        assert outcome(lambda: made.scatter(1.0, indices, **options)) == expected


def test_the_greatest_index_is_outside_without_a_warning() -> None:
    greatest = np.array(2**64 - 1, "uint64")
    with table(ARRAY) as made, warnings.catch_warnings():
        warnings.simplefilter("error")
        wanted = outcome(lambda: pto.gather(ARRAY, greatest, mode="negative"))
        assert "is outside" in wanted and outcome(lambda: made.gather(greatest, mode="negative")) == wanted


def test_only_the_first_axis_has_entries() -> None:
    with table(ARRAY) as made:
        for axis in (1, -1):
            for call in (
                lambda axis=axis: made.gather([0], axis=axis),
                lambda axis=axis: made.scatter(1, [0], axis=axis),
            ):
                with pytest.raises(pto.VerifyError, match=rf"entries along axis 0.*found axis={axis}"):
                    call()
        assert np.array_equal(made.gather([1], axis=-2), ARRAY[[1]])
        assert np.array_equal(made.gather([13], axis=None), ARRAY.ravel()[[13]])
        wrong = (
            {"axis": 2},
            {"axis": "x"},
            {"mode": "no"},
            {"mode": "clip", "oob": "wrap"},
            {"axis": 1, "coalesce": "elem"},
        )
        for options in wrong:
            assert outcome(lambda o=options: made.gather([0], **o)) == outcome(
                lambda o=options: pto.gather(ARRAY, [0], **o)
            )
        assert outcome(lambda: made.gather([0.5])) == outcome(lambda: pto.gather(ARRAY, [0.5]))


@pytest.mark.parametrize("call", ["gather", "scatter"])
def test_negative_int32_warns_once(call: str) -> None:
    indices = np.array([3, -2, -1], "int32")

    def heard(run: Any) -> list[str]:
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            run()
        assert all(each.filename == __file__ for each in found)
        return [str(each.message).partition("\n")[0] for each in found]

    with table(ARRAY) as made:
        src = () if call == "gather" else (1,)
        wanted = heard(lambda: getattr(pto, call)(ARRAY.copy(), *src, indices, oob="clamp"))
        assert len(wanted) == 1
        assert heard(lambda: getattr(made, call)(*src, indices, oob="clamp")) == wanted
