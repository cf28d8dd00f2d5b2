"""Repeated destinations: which lanes, which one wins, and the finding by target."""

from __future__ import annotations

import numpy as np
import pytest

from ptokit.finding import Finding
from ptokit.machine.site import Executed, last_writers, repeats
from tests.machine.executing import HERE, execute, first_repeat, gm, landed, vec

NPU = ("a2a3", "a5")
FOLDED = {"a2a3": "MS-CONF-02", "a5": "MS-HAZ-02"}
"""The clause of indices that a policy folds; A2/A3 has none but that of every repeat."""


def elements(target: str, idx: object, *, cells: int = 64, kind: str = "float32", **modifiers: object) -> Executed:
    values = np.asarray(idx)
    shape, padded = values.shape, -(-values.shape[1] // 16) * 16
    operands = {
        "table": gm(kind, 1, cells),
        "src": vec(kind, shape[0], padded, shape),
        "idx": vec("int32", shape[0], padded, shape),
    }
    return execute("mscatter", target, operands, values, **modifiers)


def rows(target: str, idx: list[int], *, table: int = 16, **modifiers: object) -> Executed:
    operands = {"table": gm("float32", table, 8), "src": vec("float32", len(idx), 8), "idx": vec("int32", len(idx), 1)}
    return execute("mscatter", target, operands, idx, **modifiers)


def in_tile(target: str, idx: object, **modifiers: object) -> Executed:
    values = np.asarray(idx)
    operands = {
        "dst": vec("float32", 16, 8),
        "src": vec("float32", values.shape[0], 8, values.shape),
        "idx": vec("int32", values.shape[0], 8, values.shape),
    }
    return execute("tscatter", target, operands, values, **modifiers)


def found(executed: Executed) -> list[Finding]:
    return list(repeats(executed))


@pytest.mark.clause("MS-CONF-02")
@pytest.mark.parametrize("target", NPU)
def test_an_index_twice_is_h14(target: str) -> None:
    (finding,) = found(elements(target, [[3, 17, 5, 9], [17, 2, 5, 17]]))
    assert (finding.kind, finding.rule, finding.level, finding.operand) == ("H-14", "MS-CONF-02", "error", "idx")
    assert finding.where == HERE
    assert "lanes [0, 1] and [1, 0] both write element 17 of table" in finding.message
    assert "idx[0, 1] = 17 and idx[1, 0] = 17" in finding.message
    assert "the last writer, lane [1, 3], wins" in finding.message
    assert "3 lanes repeat" in finding.message
    assert "cpu keeps the last writer in row-major order" in finding.message
    assert "on a2a3 and a5 the final value is undefined" in finding.message
    assert 'conflict="last"' in finding.fix and 'atomic="add"' in finding.fix


@pytest.mark.clause("MS-HAZ-02")
@pytest.mark.parametrize("target", NPU)
@pytest.mark.parametrize(("oob", "idx"), [("clamp", [3, 90, 5, 63]), ("wrap", [3, 70, 5, 6])])
def test_different_indices_folded_onto_one_cell_are_h15(target: str, oob: str, idx: list[int]) -> None:
    (finding,) = found(elements(target, [idx], oob=oob))
    assert (finding.kind, finding.rule, finding.level, finding.operand) == ("H-15", FOLDED[target], "error", "idx")
    assert f"idx[0, 1] = {idx[1]} and idx[0, 3] = {idx[3]}, folded by oob='{oob}'" in finding.message
    assert "1 lane repeats" in finding.message
    assert 'oob="skip"' in finding.fix


def test_the_same_index_outside_the_table_twice_is_a_repeat_not_a_fold() -> None:
    (finding,) = found(elements("a5", [[90, 1, 90, 2]], oob="clamp"))
    assert finding.kind == "H-14"
    assert "idx[0, 0] = 90 and idx[0, 2] = 90" in finding.message and "element 63" in finding.message


def test_negative_indices_are_shown_as_they_were_written() -> None:
    (finding,) = found(elements("a5", [[-1, 63, 2, 4]], oob="clamp"))
    assert finding.kind == "H-15" and "idx[0, 0] = -1 and idx[0, 1] = 63" in finding.message


@pytest.mark.parametrize("target", NPU)
def test_rows_are_lanes_of_a_row_scatter(target: str) -> None:
    (finding,) = found(rows(target, [4, 1, 2, 1, 4, 1]))
    assert finding.kind == "H-14"
    assert "lanes [1] and [3] both write row 1 of table (idx[1] = 1 and idx[3] = 1)" in finding.message
    assert "lane [5], wins" in finding.message and "3 lanes repeat" in finding.message


@pytest.mark.clause("MS-CONF-01")
@pytest.mark.parametrize("target", ["cpu", "cpu@aicore", "host"])
def test_where_the_last_writer_is_promised_nothing_is_said(target: str) -> None:
    assert not found(elements(target, [[5, 5, 5, 5]]))
    assert not found(rows(target, [1, 1, 1]))


@pytest.mark.clause("MS-ATOM-08")
@pytest.mark.parametrize("modifiers", [{"conflict": "last"}, {"atomic": "add"}, {"atomic": "max"}])
@pytest.mark.parametrize("target", NPU)
def test_asking_for_the_last_writer_or_for_an_atomic_makes_repeats_legal(
    target: str, modifiers: dict[str, str]
) -> None:
    assert not found(elements(target, [[5, 5, 5, 5]], **modifiers))


def test_skipped_lanes_name_no_destination() -> None:
    assert not found(elements("a5", [[90, 1, 90, 0, -1, -1]], oob="skip"))
    (finding,) = found(elements("a5", [[90, 1, 90, 0, -1, 1]], oob="skip"))
    assert "lanes [0, 1] and [0, 5]" in finding.message


def test_lanes_that_a_promise_broke_name_none_either() -> None:
    assert not found(elements("a5", [[90, 1, 90, 0]], tolerant=True))


def test_an_atomic_is_offered_only_for_types_that_have_one() -> None:
    (finding,) = found(elements("a5", [[1, 1]], kind="int16"))
    assert "atomic" not in finding.fix and 'conflict="last"' in finding.fix


@pytest.mark.clause("TS-CONF-01", "TS-HAZ-02")
@pytest.mark.parametrize("target", ["cpu", "a2a3", "a5", "host"])
def test_tscatter_repeats_are_h17_on_every_target(target: str) -> None:
    (finding,) = found(in_tile(target, [[1, 1, 1], [2, 1, 3], [2, 1, 4]]))
    assert (finding.kind, finding.rule, finding.level, finding.operand) == ("H-17", "TS-CONF-01", "hazard", "idx")
    assert "lanes [0, 1] and [1, 1] both write dst[1, 1]" in finding.message
    assert "lane [2, 1], wins" in finding.message and "3 lanes repeat" in finding.message
    assert "implementation-defined" in finding.message
    assert "conflict" not in finding.fix and "atomic" not in finding.fix


@pytest.mark.parametrize("target", ["cpu", "a2a3", "a5", "host"])
def test_a_row_of_tscatter_may_come_once_in_every_column(target: str) -> None:
    assert not found(in_tile(target, [[1, 1, 1], [2, 2, 2]]))


@pytest.mark.parametrize("target", ["cpu", "a2a3", "a5"])
def test_flat_tscatter_counts_elements(target: str) -> None:
    (finding,) = found(in_tile(target, [[1, 9, 1], [2, 9, 3]], index="flat"))
    assert finding.kind == "H-17"
    assert "lanes [0, 0] and [0, 2] both write element 1 of dst" in finding.message
    assert "2 lanes repeat" in finding.message
    assert not found(in_tile(target, [[1, 9], [2, 10]], index="flat"))


def test_gathers_have_no_destinations() -> None:
    operands = {"dst": vec("float32", 4, 8), "table": gm("float32", 16, 8), "idx": vec("int32", 1, 8, (1, 4))}
    assert not found(execute("mgather", "a5", operands, [1, 1, 1, 1]))


@pytest.mark.parametrize("seed", range(60))
def test_random_element_scatters_against_a_loop(seed: int) -> None:
    draw = np.random.default_rng(seed)
    shape = tuple(draw.integers(1, 12, 2).tolist())
    cells = int(draw.choice([5, 60, 600, 100_000]))
    policy = str(draw.choice(["skip", "clamp", "wrap"]))
    idx = draw.integers(-2, cells + cells // 4 + 2, shape)
    got = found(elements("a5", idx, cells=cells, oob=policy))
    lands = [landed(int(index), cells, policy)[1] for index in idx.ravel()]
    expected = first_repeat([None if cell < 0 else cell for cell in lands])
    if expected is None:
        assert not got
    else:
        first, again, last, count = expected
        names = [str(list(divmod(lane, shape[1]))) for lane in (first, again, last)]
        assert f"lanes {names[0]} and {names[1]} both write element {lands[first]} " in got[0].message
        assert f"lane {names[2]}, wins" in got[0].message
        assert f"{count} lane" in got[0].message
        assert got[0].kind == ("H-14" if idx.flat[first] == idx.flat[again] else "H-15")
        pairs = [(lands.index(cell), lane) for lane, cell in enumerate(lands) if cell >= 0]
        assert {each.kind for each in got} == {
            "H-14" if idx.flat[one] == idx.flat[two] else "H-15" for one, two in pairs if one != two
        }
        assert len(got) == len({each.kind for each in got})


@pytest.mark.parametrize("span", [300, 100_000])
def test_unique_indices_pass_whether_cells_are_few_or_many(span: int) -> None:
    draw = np.random.default_rng(span)
    idx = draw.permutation(span)[:256].reshape(8, 32)
    assert not found(elements("a5", idx, cells=span))
    idx[7, 31] = idx[0, 0]
    (finding,) = found(elements("a5", idx, cells=span))
    assert "lanes [0, 0] and [7, 31]" in finding.message


@pytest.mark.parametrize("seed", range(10))
def test_last_writers_against_a_loop(seed: int) -> None:
    cells = np.random.default_rng(seed).integers(0, 9, seed * 3)
    expected = [max(k for k, other in enumerate(cells) if other == cell) for cell in cells]
    assert last_writers(cells).tolist() == expected
