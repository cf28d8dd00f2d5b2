"""Kernels for bags of many tables and for updates of rows, as PTX; tests/torch/test_tables.py runs them, emulated."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

pytest.importorskip("llvmlite")

from ptokit.engine.bag_arguments import BagsKind, RowUpdate
from ptokit.engine.cuda.stage import GPU
from ptokit.engine.cuda.whole import bag_launches, update_calls
from ptokit.engine.cuda.whole.update_calls import UpdateKernel
from ptokit.engine.llvm.row_code import UpdateKind
from ptokit.engine.runnable import Unsupported
from ptokit.isa.dtype import dtype
from ptokit.isa.move import Combine
from tests.engine.cuda.emulated import EmulatedDevice
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
