"""The gallery: every kernel against NumPy, on every target that accepts it, for any grid, size and index policy."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from importlib import import_module
from inspect import getsourcelines
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ptokit as pto
from tests import forked
from tests.loops import FULL

EXAMPLES = Path(__file__).parents[2] / "examples"
sys.path.insert(0, str(EXAMPLES))

lookup, bag, gradient, moe, paged, matmul, cells, softmax = map(
    import_module,
    (
        "embedding_lookup",
        "embedding_bag",
        "embedding_gradient",
        "moe_dispatch_combine",
        "paged_kv_gather",
        "gathered_matmul",
        "histogram_segment_max",
        "gathered_softmax",
    ),
)
compared = import_module("_run").compared

Array = np.ndarray[Any, np.dtype[Any]]
Case = dict[str, Array]
Sizes = dict[str, Any]

FAMILIES = ("cpu", "a2a3", "a5")
GRIDS = (1, 7, 64)
GATHER_OOB, SCATTER_OOB = ("clamp", "wrap", "zero"), ("clamp", "wrap", "skip")
CASTING = ("clamp", "wrap")
"""Policies that send a negative index to some cell, which is a hazard."""
BAD = (-1, 2**31 - 1, -(2**31), -100)
"""Indices outside every table, besides its capacity."""


@dataclass(frozen=True)
class Entry:
    """A kernel of the gallery, and what there is to try with it."""

    kernel: Any
    make: Callable[..., Case]
    reference: Callable[..., Array]
    index: str
    """The argument that holds the indices, and the one that they index."""
    table: str
    sizes: tuple[Sizes, ...]
    """Ragged sizes: of the work, of rows, in other element types."""
    small: Sizes
    """One tile of work, in which every index is used."""
    empty: Sizes
    policies: tuple[str, ...]
    tolerance: Callable[..., Array] | None = None
    targets: tuple[str, ...] = FAMILIES

    @property
    def name(self) -> str:
        return self.kernel.__name__


def combine_case(rng: np.random.Generator, **sizes: Any) -> Case:
    outward = moe.make_dispatch_case(rng, **sizes)
    return moe.make_combine_case(rng, outward["slots"], 2 * moe.dispatch_reference(**outward))


ROWS = ({"count": 333, "width": 20}, {"count": 1, "width": 64}, {"count": 100, "width": 24, "dtype": "float16"})
CHOICES = ({"count": 333, "width": 20, "capacity": 70}, {"count": 1, "width": 64, "top_k": 3})
HALVES = {"count": 100, "width": 24, "dtype": "float16"}

GALLERY = (
    Entry(lookup.embedding_lookup, lookup.make_case, lookup.reference, "tokens", "table", ROWS,
          {"count": 30, "width": 20, "vocabulary": 11}, {"count": 0}, GATHER_OOB),
    Entry(bag.embedding_bag, bag.make_case, bag.reference, "ids", "table",
          ({"count": 133, "width": 20}, {"count": 1, "width": 64}, {"count": 8, "width": 1}),
          {"count": 7, "width": 20, "vocabulary": 11}, {"count": 0}, GATHER_OOB),
    Entry(gradient.embedding_gradient, gradient.make_case, gradient.reference, "tokens", "out", ROWS,
          {"count": 30, "width": 20, "vocabulary": 11}, {"count": 0}, SCATTER_OOB),
    Entry(moe.dispatch, moe.make_dispatch_case, moe.dispatch_reference, "slots", "out", (*CHOICES, HALVES),
          {"count": 30, "width": 20, "capacity": 7}, {"count": 0}, SCATTER_OOB),
    Entry(moe.combine, combine_case, moe.combine_reference, "slots", "answers", CHOICES,
          {"count": 30, "width": 20, "capacity": 7}, {"count": 0}, GATHER_OOB),
    Entry(paged.paged_kv_gather, paged.make_case, paged.reference, "block_table", "cache",
          ({"key": 8}, {"key": 8, "lengths": (16, 65)}, {"key": 24, "lengths": (5, 0, 100), "dtype": "float16"}),
          {"key": 8, "lengths": (70, 79)}, {"key": 8, "lengths": ()}, GATHER_OOB),
    Entry(matmul.gathered_matmul, matmul.make_case, matmul.reference, "ids", "table",
          ({"count": 333, "inner": 72, "width": 24}, {"count": 1, "inner": 200, "width": 40, "dtype": "float32"},
           {"count": 65, "inner": 5, "width": 3}),
          {"count": 30, "inner": 40, "width": 24, "vocabulary": 11}, {"count": 0}, GATHER_OOB, matmul.tolerance,
          ("a2a3", "a5")),
    Entry(cells.histogram, cells.make_histogram_case, cells.histogram_reference, "samples", "out",
          ({"count": 5000}, {"count": 1}, {"count": 1500, "bins": 3}), {"count": 30, "bins": 11}, {"count": 0},
          SCATTER_OOB),
    Entry(cells.segment_max, cells.make_segment_case, cells.segment_max_reference, "segments", "out",
          ({"count": 5000}, {"count": 1}, {"count": 1500, "segments": 7, "dtype": "int32"}),
          {"count": 30, "segments": 11}, {"count": 0}, SCATTER_OOB, targets=("cpu", "a5")),
    Entry(softmax.gathered_softmax, softmax.make_case, softmax.reference, "candidates", "logits",
          ({"count": 100, "width": 37}, {"count": 1, "width": 8}, {"count": 17, "width": 1}),
          {"count": 15, "width": 5, "catalogue": 11}, {"count": 0}, GATHER_OOB, softmax.tolerance),
)  # fmt: skip

every_kernel = pytest.mark.parametrize("entry", GALLERY, ids=lambda entry: entry.name)
every_launch = pytest.mark.parametrize(
    ("entry", "target"),
    [pytest.param(entry, target, id=f"{entry.name}-{target}") for entry in GALLERY for target in entry.targets],
)


def launch_of_each(turn: int) -> Any:
    """Each kernel on one of its targets, by turns; in `make fuzz` on all."""
    chosen = [entry.targets if FULL else entry.targets[(k + turn) % len(entry.targets) :][:1]
              for k, entry in enumerate(GALLERY)]  # fmt: skip
    return pytest.mark.parametrize(
        ("entry", "target"),
        [pytest.param(entry, target, id=f"{entry.name}-{target}")
         for entry, targets in zip(GALLERY, chosen, strict=True) for target in targets],
    )  # fmt: skip


def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def launched(entry: Entry, case: Case, grid: int, target: str, **options: Any) -> Array:
    """The `out` of a launch; the case itself is not changed."""
    arrays = case | {"out": case["out"].copy()}
    entry.kernel[grid](**arrays, target=target, **options)
    return arrays["out"]


def agree(entry: Entry, found: Array, case: Case) -> None:
    """The result is the reference's: the same bits, or within what the rules allow."""
    compared(found, entry.reference(**case), entry.tolerance and entry.tolerance(**case))


LAUNCHES = [(entry, target) for entry in GALLERY for target in entry.targets]
GRIDS_OF_LAUNCHES = [
    pytest.param(entry, target, grid, id=f"{entry.name}-{target}-{grid}")
    for number, (entry, target) in enumerate(LAUNCHES)
    for grid in (GRIDS if FULL else [GRIDS[number % len(GRIDS)]])
]
"""Each launch over one grid, in `make fuzz` over all: that engines agree is tested over all of them."""


@pytest.mark.parametrize(("entry", "target", "grid"), GRIDS_OF_LAUNCHES)
def test_every_kernel_gives_what_numpy_gives(entry: Entry, target: str, grid: int) -> None:
    for sizes in entry.sizes:
        case = entry.make(rng(), **sizes)
        agree(entry, launched(entry, case, grid, target), case)


@launch_of_each(0)
def test_a_debug_run_gives_the_same_bits(entry: Entry, target: str) -> None:
    for sizes in entry.sizes:
        case = entry.make(rng(), **sizes)
        traced = launched(entry, case, 7, target, engine="reference")
        debugged = launched(entry, case, 7, target, debug=True)
        assert traced.tobytes() == debugged.tobytes()


@every_launch
def test_an_empty_grid_changes_nothing(entry: Entry, target: str) -> None:
    case = entry.make(rng(), **entry.small)
    for debug in (False, True):
        assert launched(entry, case, 0, target, debug=debug).tobytes() == case["out"].tobytes()


@every_launch
def test_no_indices_are_no_work_for_any_grid(entry: Entry, target: str) -> None:
    case = entry.make(rng(), **entry.empty)
    for grid in (0, *GRIDS):
        for debug in (False, True):
            assert launched(entry, case, grid, target, debug=debug).tobytes() == case["out"].tobytes()


def test_sequences_without_keys_are_no_work() -> None:
    entry = next(entry for entry in GALLERY if entry.kernel is paged.paged_kv_gather)
    case = entry.make(rng(), lengths=(0, 0, 0), key=8)
    for target in entry.targets:
        assert launched(entry, case, 7, target).tobytes() == case["out"].tobytes()


# --- Indices outside the table -------------------------------------------------------------------------------------


def remapped(index: Array, capacity: int, oob: str) -> Array:
    """Where indices lead: they are taken as uint32, and `zero` and `skip` lead to an entry behind the table."""
    unsigned = index.astype("int32").view("uint32")
    ways = {"clamp": np.minimum(unsigned, capacity - 1), "wrap": unsigned % capacity}
    return ways.get(oob, np.where(unsigned < capacity, unsigned, capacity)).astype("int32")


def spoilt(entry: Entry, *extra: int) -> Case:
    """A small case in which every third index is bad; none is negative unless `extra` has it."""
    case = entry.make(rng(), **entry.small)
    capacity = len(case[entry.table])
    index = indices(entry, case[entry.index])
    index = np.where(index < 0, capacity, index).astype("int32")
    index.flat[::3] = np.resize((capacity, capacity + 3, *extra), index.flat[::3].shape)
    return case | {entry.index: values(entry, index)}


def indices(entry: Entry, operand: Array) -> Array:
    """The indices that an operand holds; the histogram's are computed from its samples."""
    if entry.kernel is not cells.histogram:
        return operand
    return np.floor((operand - cells.LOW) * cells.PER_UNIT).astype("int32")


def values(entry: Entry, index: Array) -> Array:
    """An operand that holds these indices."""
    if entry.kernel is not cells.histogram:
        return index
    return (cells.LOW + (index + 0.5) / cells.PER_UNIT).astype("float32")


def expected(entry: Entry, case: Case, oob: str) -> Case:
    """The same case with good indices only, and one more entry in the table, of zeros."""
    table, index = case[entry.table], indices(entry, case[entry.index])
    good = values(entry, remapped(index, len(table), oob))
    return case | {entry.table: np.concatenate([table, np.zeros_like(table[:1])]), entry.index: good}


def negatives_warn(oob: str) -> AbstractContextManager[object]:
    return pytest.warns(pto.HazardWarning, match="H-13") if oob in CASTING else nullcontext()


@launch_of_each(1)
def test_every_policy_leads_bad_indices_where_it_says(entry: Entry, target: str) -> None:
    # A sample below the range stays a small negative number: floats do not hold the largest indices exactly.
    case = spoilt(entry, *((-1, -100) if entry.kernel is cells.histogram else BAD))
    for oob in entry.policies:
        good = expected(entry, case, oob)
        for debug in (False, True):
            with negatives_warn(oob):
                found = launched(entry, case, 7, target, oob=oob, debug=debug)
            if entry.table == "out":
                found = np.concatenate([found, entry.reference(**good)[-1:]])
            agree(entry, found, good)


@every_launch
def test_only_negative_indices_are_a_hazard(entry: Entry, target: str) -> None:
    case = spoilt(entry)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for oob in entry.policies:
            launched(entry, case, 7, target, oob=oob)


def line_of(entry: Entry, word: str) -> int:
    """The line of the kernel's file that first has a word in it."""
    lines, first = getsourcelines(entry.kernel.function)
    return first + next(at for at, line in enumerate(lines) if word in line)


@launch_of_each(2)
@pytest.mark.parametrize("debug", [False, True], ids=["traced", "debug"])
def test_a_broken_promise_is_reported_at_the_users_line(entry: Entry, target: str, debug: bool) -> None:
    instruction = "mgather" if "zero" in entry.policies else "mscatter"
    arrays = spoilt(entry)
    before = arrays["out"].tobytes()
    with pytest.raises(pto.OutOfBoundsError, match=instruction) as caught:
        entry.kernel[1](**arrays, target=target, oob="undefined", debug=debug)
    finding = caught.value.findings[0]
    assert finding.kind in ("H-10", "H-11")
    assert finding.where is not None
    assert Path(finding.where.file).name == Path(entry.kernel.function.__code__.co_filename).name
    assert finding.where.line == line_of(entry, f"pto.{instruction}(")
    assert arrays["out"].tobytes() == before


# --- What the targets say beforehand -------------------------------------------------------------------------------


@every_kernel
@pytest.mark.parametrize("grid", GRIDS)
def test_check_says_who_takes_a_kernel(entry: Entry, grid: int) -> None:
    report = pto.check(entry.kernel, **entry.make(rng()), grid=grid)
    assert tuple(target for target in report.targets if report[target].ok) == entry.targets


def test_the_cpu_says_why_it_has_no_gathered_matmul() -> None:
    entry = next(entry for entry in GALLERY if entry.kernel is matmul.gathered_matmul)
    case = entry.make(rng(), **entry.small)
    refusal = pto.check(entry.kernel, **case, grid=7)["cpu"].findings[0]
    assert (refusal.rule, refusal.kind) == ("MG-LOC-04", "H-09")
    assert refusal.where is not None and refusal.where.line == line_of(entry, "pto.mgather(")
    with pytest.raises(pto.VerifyError, match="MG-LOC-04"):
        launched(entry, case, 7, "cpu")


@pytest.mark.parametrize("script", sorted(EXAMPLES.glob("[!_]*.py")), ids=lambda script: script.stem)
def test_every_example_runs_as_a_script(script: Path) -> None:
    done = forked.run(str(script), EXAMPLES, os.environ, "error")
    assert done.returncode == 0, done.stderr
    for target in FAMILIES:
        assert f"\n  {target}: " in done.stdout
    assert ("refused" in done.stdout) == (script.stem == "gathered_matmul")
