"""Whole programs on the native engine: random ones, the gallery and texts, compared with the reference engine."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from hypothesis import given
from hypothesis import strategies as st

import ptokit as pto
from ptokit.engine.native.program import executable
from ptokit.engine.storage import Storage
from ptokit.program.ir import Program
from ptokit.program.order import order
from ptokit.program.place import place
from ptokit.target import profile
from ptokit.text.errors import TextError
from tests.engine.native.launches import Array, Outcome, same, same_program
from tests.examples.test_gallery import BAD, Entry, cells, expected, launch_of_each, rng, spoilt
from tests.lang.random_kernels import random_kernel
from tests.lang.test_random_kernels import SEEDS, arguments, kernel_of
from tests.loops import FULL
from tests.program.random_programs import programs, runs
from tests.property.strategies import fuzz


@pytest.fixture(autouse=True, params=[0, None], ids=["workers", "small"])
def _size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """No launch is too small for workers; or the defaults."""
    if request.param is not None:
        monkeypatch.setattr(executable, "SMALL", request.param)


# --- Random programs -------------------------------------------------------------------------------------------

ROWS = 512
"""Rows of the arrays; the programs know of more, and blocks that lead there are refused."""


def memories(program: Program, seed: int, hostile: bool) -> dict[str, Storage]:
    """Whole numbers everywhere, so that sums are exact in every order; indices inside, but for hostile ones."""
    random, found = np.random.default_rng(seed), {}
    for name, argument in program.tensors.items():
        size = 4096 if name == "rows" else ROWS * argument.shape[1]  # type: ignore[operator]
        if argument.memory:
            found[name] = found[argument.memory]
            continue
        values = random.integers(0, 16, size)
        if argument.dtype.is_integer and hostile:
            values[random.integers(0, size, size // 64)] = random.choice((-1, 1 << 20, 16, 1024), size // 64)
        found[name] = Storage(values.astype(argument.dtype.numpy), argument.dtype)
    return found


def with_addresses(program: Program, target: str) -> Program:
    """The program at the addresses of auto mode, in its order."""
    return order(place(program, profile(target)).program, profile(target))


@pytest.mark.parametrize("placed", [False, True], ids=["free", "placed"])
@fuzz(0.25)
@given(data=st.data())
def test_random_programs(placed: bool, data: st.DataObject) -> None:
    target = data.draw(st.sampled_from(("a2a3", "a5")))
    program = data.draw(programs())
    chosen = data.draw(st.sampled_from(list(runs(program, 8))))
    seed, hostile, grid = data.draw(st.tuples(st.integers(0, 99), st.booleans(), st.sampled_from((1, 3, 8))))
    program = with_addresses(program, target) if placed else program
    same_program(program, target, grid, lambda: memories(program, seed, hostile), chosen.integers)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_kernels(seed: int) -> None:
    auto, manual = random_kernel(seed)
    dice = Random(seed)
    for source, name in ((auto, "auto"), (manual, "manual")):
        kernel = kernel_of(source, f"{name} {seed} natively")
        same(kernel, dice.choice((1, 3, 8)), arguments, target=dice.choice(("cpu", "a2a3", "a5")))


# --- The gallery -----------------------------------------------------------------------------------------------


def near(entry: Entry, case: dict[str, Array]) -> Callable[..., bool] | None:
    """Within what the rules allow, for kernels whose last bits are open; `case` has good indices only."""
    if entry.tolerance is None:
        return None
    bound = entry.tolerance(**case)

    def is_near(arrays: Any, name: str, memory: bytes) -> bool:
        if name != "out":
            return False
        expected = arrays[name].astype("f8")
        found = np.frombuffer(memory, arrays[name].dtype).reshape(expected.shape).astype("f8")
        return bool(np.all(np.abs(found - expected) <= bound))

    return is_near


SIZES = [(grid, size) for grid in (1, 7, 64) for size in ((0, None) if FULL else (None,) if grid == 7 else (0,))]
"""Grids with the sizes of launches for workers: in `make fuzz` each with each."""


@launch_of_each(0)
@pytest.mark.parametrize(("grid", "_size"), SIZES, indirect=["_size"], ids=str)
def test_the_gallery(entry: Entry, target: str, grid: int) -> None:
    for sizes in entry.sizes if FULL else entry.sizes[grid == 7 :][:1]:
        bound = near(entry, entry.make(rng(), **sizes))
        found = same(entry.kernel, grid, lambda: entry.make(rng(), **sizes), near=bound, target=target)  # noqa: B023
        assert not found.ending


@launch_of_each(1)
def test_the_gallery_with_bad_indices(entry: Entry, target: str) -> None:
    extra = (-1, -100) if entry.kernel is cells.histogram else BAD
    turn = (entry.targets.index(target) + len(entry.name) + (executable.SMALL > 0)) % 2
    for oob in (*(entry.policies if FULL else entry.policies[turn::2]), "undefined"):
        good = expected(entry, spoilt(entry, *extra), "clamp" if oob == "undefined" else oob)
        same(entry.kernel, 7, lambda: copied(spoilt(entry, *extra)), near=near(entry, good), target=target, oob=oob)


def copied(case: dict[str, Array]) -> dict[str, Array]:
    return {name: array.copy() for name, array in case.items()}


# --- Texts -----------------------------------------------------------------------------------------------------

CORPUS = Path(__file__).parents[2] / "corpus"


@cache
def texts() -> dict[str, Any]:
    """The kernels of the corpus that can be read."""
    found = {}
    for path in sorted(path for path in CORPUS.iterdir() if path.is_file()):
        try:
            found[path.name] = pto.load(path)
        except (TextError, pto.VerifyError):
            continue
    return found


def text_arguments(kernel: Any) -> dict[str, Any]:
    """Small numbers for all that a text takes."""
    random, found = np.random.default_rng(1), {}
    for argument in kernel.program.arguments:
        kind = kernel.parameters.get(argument.name)
        if kind == "array":
            dims = zip(argument.shape, argument.stride, strict=True)
            span = 1 + sum((n - 1) * s for n, s in dims if isinstance(n, int) and isinstance(s, int))
            found[argument.name] = random.integers(0, 4, max(span, 4096)).astype(argument.dtype.numpy)
        elif kind is not None:
            found[argument.name] = 4 if kind == "integer" else 1.5
    return found


@pytest.mark.parametrize("target", ["cpu", "a2a3", "a5"])
@pytest.mark.parametrize("part", range(4))
@pytest.mark.filterwarnings("ignore::ptokit.UnmodelledWarning")
def test_texts(part: int, target: str) -> None:
    kernels = list(texts().values())[part::4]
    if not FULL:  # then on one target
        kernels = kernels[(("cpu", "a2a3", "a5").index(target) + (executable.SMALL > 0)) % 3 :: 3]
    done: list[Outcome] = [same(kernel, 3, lambda: text_arguments(kernel), target=target) for kernel in kernels]  # noqa: B023
    assert sum(not outcome.ending for outcome in done) > len(done) // 4
