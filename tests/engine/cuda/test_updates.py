"""Kernels for bags of many tables and for updates of rows: as PTX, and updates on an emulated GPU and the native engine
against loops; tests/torch/test_tables.py runs more of them, emulated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from ptokit.engine.bag_arguments import BagPlaces, BagSizes, BagsKind, RowUpdate, TableBags
from ptokit.engine.cuda.stage import GPU
from ptokit.engine.cuda.whole import bag_launches, update_calls
from ptokit.engine.cuda.whole.update_calls import UpdateKernel
from ptokit.engine.llvm.row_code import UpdateKind
from ptokit.engine.native.whole import bags
from ptokit.engine.native.whole import updates as native
from ptokit.engine.runnable import Unsupported
from ptokit.isa.dtype import dtype
from ptokit.isa.move import Combine
from tests.engine.cuda.emulated import EmulatedDevice, check_margins
from tests.engine.cuda.test_ptx import assembled

CHIP = replace(GPU, lanes=64)
JOB = RowUpdate(dtype("float32"), dtype("int64"), "sgd", 8, 5, 2, 0, 9, -1, 64, 32, 64, 64, 0, 0, table=64, lr=0.1)


@pytest.mark.parametrize("rule", ["store", "sgd", "adagrad", "rowwise_adagrad"])
@pytest.mark.parametrize("kind", ["float32", "bfloat16", "float64"])
def test_rules_are_rounded_step_by_step(rule: str, kind: str, tmp_path: Path) -> None:
    width = 48 if rule == "rowwise_adagrad" else 0
    own = UpdateKind(dtype(kind), width, rule, weighted=True, picked=False, decays=True, owned=True, host=False)
    kernel = UpdateKernel("rows", kind=own, columns=16 // dtype(kind).size)
    made = assembled(update_calls.text(CHIP, kernel), 90, tmp_path, "rows")
    assert "fma" not in made and ".approx" not in made
    assert ("sqrt.rn" in made) is ("adagrad" in rule)


def test_other_kernels_are_assembled(tmp_path: Path) -> None:
    for kernel in (UpdateKernel("keys"), UpdateKernel("keys", 4, False), UpdateKernel("mark"), UpdateKernel("ends")):
        assembled(update_calls.text(CHIP, kernel), 80, tmp_path, kernel.name)
    kind = BagsKind(dtype("float32"), dtype("int64"), Combine.ADD, 64, at_once=4)
    assert "ld.v4" in assembled(bag_launches.table_text(CHIP, kind, 4), 80, tmp_path, "table_bags")


@pytest.mark.parametrize(
    "jobs",
    [
        [JOB, JOB._replace(indices=128)],
        [JOB._replace(last=0)],
        [JOB._replace(capacity=1 << 50, last=1 << 20)],
        [JOB._replace(rule="rowwise_adagrad", width=512)],
        [JOB._replace(dtype=dtype("int32"))],
    ],
    ids=["other indices", "no lanes", "keys", "long rows", "integers"],
)
def test_what_has_no_code_is_refused_first(jobs: list[RowUpdate], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(update_calls, "current", EmulatedDevice)
    with pytest.raises(Unsupported):
        update_calls.run(jobs)


@pytest.mark.parametrize("kind", ["float16", "float32", "float64"])
def test_columns_of_a_thread_are_aligned_in_all_memories(kind: str) -> None:
    size = dtype(kind).size
    places = [64, 64 + size, 64 + 2 * size, 64 + 4 * size]
    others = (0, *range(64, 128, 4))
    for table, grad, winner, state, width in product(places, places, others, (0, 64, 72), (1, 2, 8)):
        job = JOB._replace(
            dtype=dtype(kind), width=width, grad=grad, table=table, winners=winner, state=state, grad_row=width * size
        )
        columns = update_calls._key(job)[0]
        assert not any(place % (columns * size) for place in (table, grad, width * size)), job
        assert not winner // 4 % columns and not state % (columns * max(4, size)), job


# --- Updates of several tables against loops

RULES = ("store", "sgd", "adagrad", "rowwise_adagrad")
TABLES = [
    *((40, 16, "sum"), (9, 4, "weights"), (70, 32, "max"), (33, 16, "sum"), (2, 4, "weights"), (50, 64, "sum")),
    *((25, 6, "max"), (12, 1, "sum")),
]
"""Rows, width and mode: a launch for a GPU takes the tables of one mode together, in this order."""
PADDING, BAGS = 1, 7
LR, EPS, DECAY = np.float32(0.5), np.float32(0.125), np.float32(0.25)


@dataclass
class TableLanes:
    """A table, its gradients, and which lanes of all are its own: sums of all numbers are exact."""

    rows: int
    width: int
    mode: str
    bounds: Any
    indices: Any
    rng: np.random.Generator
    grad: Any = field(init=False)
    table: Any = field(init=False)
    weights: Any = field(init=False)
    winners: Any = field(init=False)

    def __post_init__(self) -> None:
        pairs = zip(self.bounds[:-1], self.bounds[1:], strict=True)
        rows = [self.rng.integers(a, b, self.width) if a < b else np.full(self.width, -1) for a, b in pairs]
        self.grad = (self.rng.integers(-8, 9, (BAGS, self.width)) / 4).astype("float32")
        self.table = self.rng.integers(-8, 9, (self.rows, self.width)).astype("float32")
        self.weights = (self.rng.integers(-8, 9, len(self.indices)) / 2).astype("float32")
        self.winners = np.array(rows, "int32")

    def lanes(self) -> Iterator[tuple[int, Any]]:
        """The row that a lane names, and what it adds to it."""
        for bag in range(BAGS):
            for lane in range(self.bounds[bag], self.bounds[bag + 1]):
                row = int(self.indices[lane])
                if 0 <= row < self.rows and row != PADDING:
                    given = self.grad[bag] * (self.weights[lane] if self.mode == "weights" else np.float32(1))
                    yield row, np.where(self.winners[bag] == lane, given, 0) if self.mode == "max" else given

    def expected(self, rule: str) -> tuple[dict[int, Any], Any, Any]:
        """The sums of rows, the new table, and its new state, by the formulas of the rules."""
        sums: dict[int, Any] = {}
        for row, given in self.lanes():
            sums[row] = sums.get(row, np.zeros(self.width, "float32")) + given
        table, state = self.table.copy(), np.ones((self.rows, 1 if rule == "rowwise_adagrad" else self.width), "f4")
        for row, g in sums.items():
            total = g if rule == "store" else g + DECAY * table[row]
            if rule == "rowwise_adagrad":
                state[row] += np.float32((total * total).sum() / self.width)
            elif rule == "adagrad":
                state[row] += total * total
            step = LR * total
            table[row] -= step / (np.sqrt(state[row]) + EPS) if "adagrad" in rule else step
        return sums, table, state


def tables_of(seed: int, index: str) -> list[TableLanes]:
    """Tables whose lanes are those of one array, one table after the other."""
    rng = np.random.default_rng(seed)
    ends = np.cumsum([0, *rng.integers(0, 5, len(TABLES) * BAGS)]) + 2
    indices = rng.integers(-2, 44, ends[-1] + 3).astype(index)
    return [
        TableLanes(rows, width, mode, ends[k * BAGS : (k + 1) * BAGS + 1], indices, rng)
        for k, (rows, width, mode) in enumerate(TABLES)
    ]


class Memory:
    """Arrays in memory of a device; whatever is written beside them is an error."""

    def __init__(self) -> None:
        self.device, self.kept = EmulatedDevice(), list[Any]()

    def put(self, array: Any) -> int:
        """The address of a copy."""
        self.kept.append(self.device.empty(array.nbytes))
        if array.nbytes:
            self.device.upload(self.kept[-1].address, np.ascontiguousarray(array).reshape(-1).view("u1"))
        return self.kept[-1].address

    def get(self, address: int, like: Any) -> Any:
        return self.device.download(address, like.nbytes).view(like.dtype).reshape(like.shape)


@pytest.mark.parametrize(("engine", "threads"), [("native", 1), ("native", 3), ("emulated GPU", None)])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("index", ["int32", "int64"])
def test_updates_of_many_tables_are_loops(
    engine: str, threads: int | None, rule: str, index: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = Memory()
    monkeypatch.setattr(update_calls, "current", lambda: memory.device)
    for name, least in (("LEAST_SHARED", 1), ("LEAST_RANGE", 8), ("LEAST_SLICE", 4)):
        monkeypatch.setattr(native, name, least)
    tables, jobs, places = tables_of(3, index), list[RowUpdate](), list[tuple[int, int]]()
    shared = memory.put(tables[0].indices)
    for each in tables:
        table, state = memory.put(each.table), memory.put(each.expected(rule)[2] * 0 + 1)
        addresses = memory.put(each.grad), 4 * each.width, shared, memory.put(each.bounds)
        weights = memory.put(each.weights) if each.mode == "weights" else 0
        winners = memory.put(each.winners) if each.mode == "max" else 0
        extents = each.width, each.rows, BAGS, int(each.bounds[0]), int(each.bounds[-1]), PADDING
        options: dict[str, Any] = {"lr": LR, "eps": EPS, "decay": DECAY, "table": table}
        options = {} if rule == "store" else options | {"state": state if "adagrad" in rule else 0}
        jobs.append(RowUpdate(dtype("float32"), dtype(index), rule, *extents, *addresses, weights, winners, **options))
        places.append((table, state))
    made: dict[int, tuple[int, int, int]] = {}

    def make(number: int, rows: int) -> tuple[int, int]:
        made[number] = rows, memory.put(np.full(rows, -9)), memory.put(np.zeros((rows, tables[number].width), "f4"))
        return made[number][1:]

    run = native.run if engine == "native" else update_calls.run
    run(jobs, threads, make if rule == "store" else None)
    check_margins()
    for number, (each, (table, state)) in enumerate(zip(tables, places, strict=True)):
        sums, updated, squares = each.expected(rule)
        if rule == "store":
            rows, named, values = made[number]
            assert memory.get(named, np.zeros(rows, "i8")).tolist() == sorted(sums)
            wanted = np.array([sums[row] for row in sorted(sums)], "f4").reshape(rows, each.width)
            assert np.array_equal(memory.get(values, wanted), wanted)
        else:
            assert np.array_equal(memory.get(table, updated), updated)
            assert np.array_equal(memory.get(state, squares), squares)


# --- Bags of several tables against loops


def bags_of(memory: Memory, each: TableLanes, indices: int) -> tuple[TableBags, int, int]:
    """The bags of a table, and where results and lanes are put; of a sum, no lanes are."""
    out = memory.put(np.full((BAGS, each.width), np.nan, "f4"))
    winners = memory.put(np.full((BAGS, each.width), -9, "i4")) if each.mode == "max" else 0
    weights = memory.put(each.weights) if each.mode == "weights" else 0
    places = BagPlaces(memory.put(each.table), indices, memory.put(each.bounds), weights, out, winners)
    combine = Combine.MAX if winners else Combine.ADD
    index = dtype(each.indices.dtype)
    kind = BagsKind(dtype("float32"), index, combine, each.width, weights != 0, padded=True, tracked=winners != 0)
    return TableBags(kind, places, BagSizes(each.rows, BAGS, len(each.indices), PADDING)), out, winners


@pytest.mark.parametrize(("engine", "threads"), [("native", 1), ("native", 3), ("emulated GPU", None)])
@pytest.mark.parametrize("index", ["int32", "int64"])
def test_bags_of_many_tables_are_loops(
    engine: str, threads: int | None, index: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory, tables = Memory(), tables_of(4, index)
    monkeypatch.setattr(bag_launches, "current", lambda: memory.device)
    monkeypatch.setattr(native, "LEAST_SHARED", 1)
    monkeypatch.setattr(bags, "PIECE", 64)
    indices, run = tables[0].indices, bags.run if engine == "native" else bag_launches.run_tables
    for each in tables:
        indices[each.bounds[0] : each.bounds[-1]] %= each.rows
    shared = memory.put(indices)
    given = [bags_of(memory, each, shared) for each in tables]
    assert run([each for each, _, _ in given], threads)
    check_margins()
    for each, (_, out, winners) in zip(tables, given, strict=True):
        wanted, lanes = np.zeros((BAGS, each.width), "f4"), np.full((BAGS, each.width), -1, "i4")
        for bag, (low, high) in enumerate(pairwise(each.bounds)):
            for lane in range(low, high):
                row = each.table[indices[lane]]
                if indices[lane] != PADDING and each.mode == "max":
                    is_new = (row > wanted[bag]) | (lanes[bag] < 0)
                    wanted[bag][is_new], lanes[bag][is_new] = row[is_new], lane
                elif indices[lane] != PADDING:
                    wanted[bag] += row * (each.weights[lane] if each.mode == "weights" else np.float32(1))
        assert np.array_equal(memory.get(out, wanted), wanted), each.mode
        assert not winners or np.array_equal(memory.get(winners, lanes), lanes)


@pytest.mark.parametrize("engine", ["native", "emulated GPU"])
@pytest.mark.parametrize("number", range(len(TABLES)))
def test_an_index_outside_of_one_of_many_tables_is_noticed(
    engine: str, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last row is inside."""
    memory, tables = Memory(), tables_of(5, "int64")
    monkeypatch.setattr(bag_launches, "current", lambda: memory.device)
    indices, run = tables[0].indices, bags.run if engine == "native" else bag_launches.run_tables
    for beyond in (-1, 0):
        for each in tables:
            indices[each.bounds[0] : each.bounds[-1]] = each.rows - 1
        indices[tables[number].bounds[-1] - 1] = tables[number].rows + beyond
        shared = memory.put(indices)
        assert run([bags_of(memory, each, shared)[0] for each in tables], None) == (beyond < 0)


@pytest.mark.parametrize("name", ["last", "bags", "capacity"])
def test_numbers_of_more_than_31_bits_are_refused_by_the_native_engine(name: str) -> None:
    with pytest.raises(Unsupported):
        native.run([JOB, JOB._replace(**{name: 1 << 31})], 1)
