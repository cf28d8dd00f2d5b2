"""The outcome of every lane, against loops over the lanes."""

from __future__ import annotations

import json

import numpy as np
import pytest

from ptokit.isa.policy import GlobalLayout, TileType
from ptokit.machine.outcomes import FIRST, WORST, Fate, LaneOutcomes, Outcome, outcomes
from ptokit.machine.site import Executed
from tests.machine.executing import HERE, Lane, execute, gm, landed, nz, scattered, vec


def only(executed: Executed) -> LaneOutcomes:
    (found,) = outcomes(executed)
    return found


def shown(found: LaneOutcomes) -> list[Lane]:
    """The arrays, lane by lane."""
    columns = (found.index, found.code, found.cell, found.fate, found.overwritten_by)
    return [
        Lane(int(index), Outcome(code).text, int(cell), Fate(fate).text, int(by))
        for index, code, cell, fate, by in zip(*(column.ravel() for column in columns), strict=True)
    ]


def scatter(idx: np.ndarray, cells: int, **modifiers: object) -> Executed:
    padded = -(-idx.shape[1] // 8) * 8
    tiles = {name: vec(kind, idx.shape[0], padded, idx.shape) for name, kind in (("src", "float32"), ("idx", "int32"))}
    return execute("mscatter", "a5", {"table": gm("float32", 1, cells), **tiles}, idx, block=2, **modifiers)


def gather(idx: list[int], policy: str, target: str = "a5") -> Executed:
    rows = len(idx)
    operands = {
        "dst": vec("float32", rows, 8),
        "table": gm("float32", 10, 8),
        "idx": vec("int32", 1, -(-rows // 8) * 8, (1, rows)),
    }
    return execute("mgather", target, operands, idx, oob=policy)


@pytest.mark.parametrize("policy", ["skip", "clamp", "wrap"])
@pytest.mark.parametrize("atomic", ["none", "add"])
@pytest.mark.parametrize("seed", range(5))
def test_every_lane_of_a_scatter(policy: str, atomic: str, seed: int) -> None:
    draw = np.random.default_rng(seed)
    idx = draw.integers(-4, 40, tuple(draw.integers(1, 9, 2)))
    found = only(scatter(idx, 30, oob=policy, atomic=atomic))
    assert found.code.shape == found.fate.shape == found.cell.shape == found.overwritten_by.shape == idx.shape
    assert found.code.dtype == found.fate.dtype == np.uint8
    assert shown(found) == scattered(idx.ravel().tolist(), 30, policy, adds=atomic == "add")
    assert (found.number, found.block, found.instruction, found.where) == (7, 2, "mscatter", HERE)


@pytest.mark.parametrize("policy", ["clamp", "wrap", "zero"])
@pytest.mark.parametrize("target", ["cpu", "a2a3", "a5", "host"])
def test_every_row_of_a_gather(policy: str, target: str) -> None:
    idx = [3, 12, 9, -1, 0, 10]
    found = only(gather(idx, policy, target))
    assert found.code.shape == (6,)
    assert shown(found) == [Lane(index, *landed(index, 10, policy)) for index in idx]


def test_the_documents_vectors() -> None:
    """MG-OOB-16: capacity 10."""
    clamped, wrapped = only(gather([12, -1], "clamp")), only(gather([12, -1], "wrap"))
    assert clamped.cell.tolist() == [9, 9] and wrapped.cell.tolist() == [2, 5]
    assert clamped.index.tolist() == wrapped.index.tolist() == [12, -1]


def test_rows_that_are_skipped_after_zeroing_the_tile_count_as_zeroed() -> None:
    """MG-OOB-12 and MG-L1-11: the user asked for zeroes, and gets them."""
    fractal = {
        "dst": nz("float32", 16, 8, (3, 8), TileType.Vec),
        "table": gm("float32", 1, 1, 2, 16, 8, layout=GlobalLayout.NZ),
        "idx": vec("int32", 1, 8, (1, 3)),
    }
    into_l1 = {"dst": nz("float32", 16, 8, (3, 8)), "table": gm("float32", 32, 8), "idx": gm("int32", 1, 3)}
    for operands in (fractal, into_l1):
        found = only(execute("mgather", "a2a3", operands, [31, 32, 0], oob="zero"))
        assert [Outcome(code) for code in found.code] == [Outcome.IN_BOUNDS, Outcome.ZEROED, Outcome.IN_BOUNDS]
        assert found.cell.tolist() == [31, -1, 0]


def test_a_broken_promise_that_is_passed_over_counts_as_skipped() -> None:
    idx = [1, 12, 2]
    operands = {"dst": vec("float32", 3, 8), "table": gm("float32", 10, 8), "idx": vec("int32", 1, 8, (1, 3))}
    found = only(execute("mgather", "a5", operands, idx, tolerant=True))
    assert found.code.tolist() == [Outcome.IN_BOUNDS, Outcome.SKIPPED, Outcome.IN_BOUNDS]


def test_cells_of_tscatter_are_elements_of_the_tile() -> None:
    idx = [[1, 2], [1, 3], [0, 2]]
    tiles = {"dst": vec("float32", 4, 8), "src": vec("float32", 3, 8, (3, 2)), "idx": vec("int32", 3, 8, (3, 2))}
    found = only(execute("tscatter", "a5", tiles, idx))
    assert found.cell.tolist() == [[8 * row + col for col, row in enumerate(rows)] for rows in idx]
    assert found.overwritten_by.tolist() == [[2, 5], [-1, -1], [-1, -1]]
    flat = only(execute("tscatter", "a5", tiles, idx, index="flat"))
    assert flat.cell.tolist() == idx
    assert flat.overwritten_by.tolist() == [[2, 5], [-1, -1], [-1, -1]]


def test_an_element_gather_through_a_workspace_has_one_set_of_lanes() -> None:
    operands = {
        "dst": nz("float32", 16, 8, (2, 3)),
        "table": gm("float32", 1, 50),
        "idx": gm("int32", 2, 3),
        "scratch": gm("float32", 1, 128),
    }
    found = only(execute("mgather", "a5", operands, [[1, 49, 50], [0, 99, 2]], coalesce="elem", oob="wrap"))
    assert found.cell.tolist() == [[1, 49, 0], [0, 49, 2]]
    assert found.counts() == {"in bounds": 4, "wrapped": 2}


def test_instructions_without_an_index_have_no_lanes() -> None:
    assert not list(outcomes(execute("tload", "a5", {"dst": vec("float32", 4, 8), "src": gm("float32", 4, 8)})))


def test_counts_cover_all_lanes() -> None:
    idx = np.random.default_rng(3).integers(0, 40, (6, 8))
    found = only(scatter(idx, 30, oob="skip"))
    lanes = scattered(idx.ravel().tolist(), 30, "skip")
    for name, count in found.counts().items():
        assert count == sum(name in (lane.outcome, lane.fate) for lane in lanes)
    assert found.counts()["stored"] + found.counts()["overwritten"] + found.counts()["skipped"] == idx.size


def test_the_table_shows_counts_then_the_first_lanes_then_the_worst() -> None:
    idx = np.arange(100, 100 + 16 * 16).reshape(16, 16)
    idx[10, 3], idx[12, 5], idx[15, 15] = 5000, 100 + 16, 6000
    text = str(only(scatter(idx, 1000, oob="clamp"))).splitlines()
    assert text[0].startswith(f"mscatter ({HERE}), block 2, 256 lanes: 254 in bounds, 2 clamped, ")
    assert text[1].split() == ["lane", "index", "outcome", "cell", "fate"]
    assert text[2].split(None, 3)[-1].split() == ["in", "bounds", "100", "stored"]
    assert "worst" in text[2 + FIRST]
    worst = text[3 + FIRST :]
    assert worst[0].startswith("  [1, 0]") and worst[0].endswith("overwritten by [12, 5]")
    assert worst[1].startswith("  [10, 3]") and "5000" in worst[1] and worst[1].endswith("overwritten by [15, 15]")
    assert worst[2].startswith("  [15, 15]") and "clamped" in worst[2] and "999" in worst[2]
    assert len(worst) == 3


def test_the_table_stays_short() -> None:
    text = str(only(scatter(np.zeros((32, 32), int), 10))).splitlines()
    assert len(text) == 3 + FIRST + WORST
    assert "1,023 overwritten" in text[0]


def test_plain_data_is_json() -> None:
    found = only(scatter(np.array([[1, 1, 99]]), 10, oob="skip"))
    plain = json.loads(json.dumps(found.as_dict()))
    assert plain["code"] == [["in bounds", "in bounds", "skipped"]]
    assert plain["fate"] == [["overwritten", "stored", "none"]]
    assert plain["overwritten_by"] == [[1, -1, -1]] and plain["cell"] == [[1, 1, -1]]
    assert plain["index"] == [[1, 1, 99]] and plain["where"] == str(HERE)
    assert plain["counts"] == {"in bounds": 2, "skipped": 1, "stored": 1, "overwritten": 1}
