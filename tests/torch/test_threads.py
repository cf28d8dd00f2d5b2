"""Calls on PyTorch's own threads: which they are, and the same bits for any number of them."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from ctypes import CFUNCTYPE, c_int64, c_void_p, cast
from pathlib import Path

import pytest
import torch
from torch import Tensor

import ptokit
import ptokit.torch as pt
from ptokit.engine.native import openmp, workers
from ptokit.engine.native.whole import moves, strategies
from tests.torch.naive import bits
from tests.torch.towers import on_threads

pytestmark = pytest.mark.skipif(
    not openmp.threads(), reason="this PyTorch has no OpenMP library with GOMP_parallel, as on macOS"
)
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(ptokit.__file__).parent.parent)}
ROWS, WIDTH, LANES = 3000, 24, 30_000


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Counter[int]:
    """How many runs on PyTorch's threads had how many parts."""
    found: Counter[int] = Counter()
    run, entries = openmp.run, openmp.entries
    monkeypatch.setattr(moves._ScatterCode, "wakes", 0)  # no scatter is too little work to be divided

    def counted(work: int, place: int, parts: int) -> bool:
        done = run(work, place, parts)
        found[parts if done else 0] += 1
        return done

    def counted_entries(parts: int) -> tuple[int, int] | None:
        """Those of a run that machine code begins."""
        given = entries(parts)
        found[parts if given else 0] += 1
        return given

    monkeypatch.setattr(openmp, "run", counted)
    monkeypatch.setattr(openmp, "entries", counted_entries)
    return found


def test_every_part_runs_once() -> None:
    seen: list[tuple[int, int, int]] = []

    @CFUNCTYPE(None, c_void_p, c_int64)
    def work(block: int, part: int) -> None:
        seen.append((block, part, threading.get_native_id()))

    address = cast(work, c_void_p).value
    assert address
    with on_threads(4):
        for parts in (1, 3, 4):
            seen.clear()
            assert openmp.run(address, 8, parts)
            assert sorted(each[:2] for each in seen) == [(8, part) for part in range(parts)]
        seen.clear()
        assert (
            not openmp.run(address, 8, 5) and not openmp.entries(5) and not seen
        )  # more threads than PyTorch has: ptokit's own are used


def test_as_many_threads_as_pytorch_has(monkeypatch: pytest.MonkeyPatch) -> None:
    with on_threads(3):
        monkeypatch.delenv("PTOKIT_THREADS")
        assert openmp.threads() == torch.get_num_threads() == 3 == workers.thread_count()
        monkeypatch.setenv("PTOKIT_THREADS", "2")
        assert workers.thread_count() == 2 and workers.thread_count(5) == 5


def test_every_python_thread_has_the_number_that_was_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch tells its library the number in each thread when it is first needed there."""
    found: list[int] = []
    with on_threads(3):
        monkeypatch.setenv("PTOKIT_THREADS", "")
        thread = threading.Thread(target=lambda: found.append(workers.thread_count()))
        thread.start()
        thread.join()
    assert found == [3]


def test_a_call_that_takes_long_leaves_its_thread_to_signals(
    runs: Counter[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    table, lanes = torch.randn(ROWS, WIDTH), torch.randint(0, ROWS, (LANES,))
    with on_threads(2):
        pt.gather(table, lanes)
        assert runs == {2: 1}
        monkeypatch.setattr("ptokit.engine.native.whole.moves.LONG", 0)
        pt.gather(table, lanes)
        pt.scatter(table, table[lanes], lanes, atomic="max")
        assert runs == {2: 1}
    assert strategies.LONG > 0


def backward(call: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """The gradient of a call over a table, for a gradient of its result that differs from element to element."""

    def run(table: Tensor) -> Tensor:
        leaf = table.clone().requires_grad_()
        made = call(leaf)
        made.backward((torch.arange(made.numel()) % 97).reshape(made.shape).to(made.dtype) / 7)
        assert leaf.grad is not None
        return leaf.grad

    return run


RANDOM = torch.Generator().manual_seed(0)
SKEWED = (torch.rand(LANES, generator=RANDOM).pow(3) * ROWS).long()
SOURCE, WEIGHTS = torch.randn(LANES, WIDTH, generator=RANDOM), torch.rand(LANES, generator=RANDOM)
BOUNDS = torch.arange(0, LANES, 17)
IDS = SKEWED.sort()[0]


def scattered(atomic: str) -> Callable[[Tensor], Tensor]:
    return lambda table: pt.scatter(table, SOURCE.to(table.dtype), SKEWED, atomic=atomic, accumulate=None)


def bag(mode: str, weighted: bool = False) -> Callable[[Tensor], Tensor]:
    def run(table: Tensor) -> Tensor:
        weights = WEIGHTS.to(table.dtype) if weighted else None
        return pt.embedding_bag(SKEWED, table, BOUNDS, mode=mode, per_sample_weights=weights, padding_idx=0)

    return run


def segments(reduce: str, ids: Tensor) -> Callable[[Tensor], Tensor]:
    return lambda table: pt.segment_reduce(pt.gather(table, ids % 100), reduce, segment_ids=ids, num_segments=ROWS)


CALLS: dict[str, Callable[[Tensor], Tensor]] = {
    "gather": lambda table: pt.gather(table, SKEWED),
    **{f"scatter {each}": scattered(each) for each in ("none", "add", "max", "min")},
    **{f"bag {each}": bag(each) for each in ("sum", "mean", "max", "min")},
    "weighted bag": bag("sum", weighted=True),
    **{f"segments {each}": segments(each, SKEWED) for each in ("sum", "mean", "max")},
    **{f"sorted segments {each}": segments(each, IDS) for each in ("sum", "mean", "max")},
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
def test_any_number_of_threads_gives_the_same_bits(name: str, kind: torch.dtype, runs: Counter[int]) -> None:
    """1, 2 and 16 threads of PyTorch, forward and backward, and 16 of ptokit's own."""
    table = torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(1)).to(kind)
    for call in (CALLS[name], backward(CALLS[name])):
        found = []
        for threads in (1, 2, 16):
            with on_threads(threads):
                found += [bits(call(table)), bits(call(table))]  # the second one is a call that was made before
        with on_threads(1):
            os.environ["PTOKIT_THREADS"] = "16"
            found.append(bits(call(table)))
        assert all(each == found[0] for each in found)
    assert runs[16], "no run had 16 parts"


FORKED = """
import os, torch, numpy as np
import ptokit as pto, ptokit.torch as pt
table, lanes = torch.randn(3000, 24), torch.randint(0, 3000, (30000,))
torch.set_num_threads(2)
wanted = pt.gather(table, lanes)
child = os.fork()
if not child:
    found = pto.gather(table.numpy(), lanes.numpy(), threads=2)
    os._exit(not np.array_equal(found, wanted.numpy()))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
IMPORTED_LATER = """
import multiprocessing, torch, numpy as np
torch.set_num_threads(2)
table, lanes = torch.randn(3000, 24), torch.randint(0, 3000, (30000,))
wanted = table.index_select(0, lanes)
def work():
    import ptokit as pto
    assert np.array_equal(pto.gather(table.numpy(), lanes.numpy(), threads=2), wanted.numpy())
child = multiprocessing.get_context("fork").Process(target=work)
child.start()
child.join(60)
child.kill()
print(child.exitcode)
"""


@pytest.mark.parametrize("program", [FORKED, IMPORTED_LATER], ids=["forked", "imported later"])
def test_a_forked_process_has_threads_of_its_own(program: str) -> None:
    """PyTorch's threads stay behind, and its library would wait for them."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, env=ENVIRONMENT, timeout=120
    )
    assert (done.stdout, done.returncode) == ("0\n", 0), done.stderr
