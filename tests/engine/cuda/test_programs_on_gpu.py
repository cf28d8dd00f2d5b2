"""Programs on an emulated GPU: the bits, findings and errors of the reference engine.

`make fuzz` runs more: all targets and examples here, and the tests of programs and launches with the plugin
`tests.engine.cuda.emulation`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import ptokit as pto
from ptokit import spec
from ptokit.engine.cuda import deferred, executable, ptx
from ptokit.engine.cuda import executable as launching
from ptokit.engine.cuda import stage as stages
from ptokit.engine.cuda.deferred import DeferredScatters
from ptokit.engine.native.program.executable import NativeExecutable
from tests.conformance.harness import check_example
from tests.engine.cuda import emulated as emulation
from tests.engine.cuda.assembly import CAPABILITIES, complaint, emitted
from tests.engine.cuda.emulated import EMULATED
from tests.engine.cuda.fakes import FakeArray, FakeGpus
from tests.engine.native.calls import both_engines
from tests.engine.native.launches import same
from tests.engine.native.test_programs import copied, near
from tests.examples import test_gallery as gallery
from tests.examples.test_gallery import BAD, Entry, cells, expected, rng, spoilt
from tests.lang.random_kernels import random_kernel
from tests.lang.test_random_kernels import arguments, kernel_of
from tests.property.strategies import FUZZ

Array = np.ndarray[Any, np.dtype[Any]]
STEP = 1 if FUZZ else 24
"""Of the examples of clauses, every so many are run."""
PARTS = 4
every_launch = (
    gallery.every_launch
    if FUZZ
    else pytest.mark.parametrize(
        ("entry", "target"), [pytest.param(entry, "a5", id=entry.name) for entry in gallery.GALLERY]
    )
)


class Seen:
    """What ran: the blocks of threads of each kernel, and the runs of blocks that the reference engine finished."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.grids: list[int] = []
        self.finished: list[list[int]] = []
        launch, finish = emulation._EmulatedKernel.__call__, executable.CudaExecutable._finish

        def launched(kernel: Any, grid: int, given: Any, shared: int = 0) -> None:
            self.grids.append(grid)
            launch(kernel, grid, given, shared)

        def finished(made: Any, *given: Any) -> None:
            self.finished += [list(given[-1])] * bool(given[-1])
            finish(made, *given)

        monkeypatch.setattr(emulation._EmulatedKernel, "__call__", launched)
        monkeypatch.setattr(executable.CudaExecutable, "_finish", finished)


@pytest.fixture
def seen(emulated: FakeGpus, monkeypatch: pytest.MonkeyPatch) -> Seen:
    return Seen(monkeypatch)


# --- as on the other engines -----------------------------------------------------------------------------------


@every_launch
def test_the_gallery(seen: Seen, entry: Entry, target: str) -> None:
    sizes = entry.sizes[-1]
    bound = near(entry, entry.make(rng(), **sizes))
    kernel = type(entry.kernel)(entry.kernel.function, entry.kernel.mode)  # which has met no other lengths
    found = same(kernel, 7, lambda: entry.make(rng(), **sizes), near=bound, target=target, engine="cuda")
    assert not found.ending and not seen.finished
    assert 3 in seen.grids


@pytest.mark.parametrize("oob", ["clamp", "undefined"])
@every_launch
def test_the_gallery_with_bad_indices(seen: Seen, entry: Entry, target: str, oob: str) -> None:
    if oob not in (*entry.policies, "undefined"):
        return
    extra = (-1, -100) if entry.kernel is cells.histogram else BAD
    good = expected(entry, spoilt(entry, *extra), "clamp" if oob == "undefined" else oob)
    options = {"near": near(entry, good), "target": target, "oob": oob, "engine": "cuda"}
    same(entry.kernel, 7, lambda: copied(spoilt(entry, *extra)), **options)
    assert not seen.finished


@pytest.mark.parametrize("part", range(PARTS))
def test_examples_of_clauses_in_lanes(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NativeExecutable, "chip", EMULATED)
    names, capability = sorted(spec.examples())[::STEP], CAPABILITIES[part % len(CAPABILITIES)]
    with emitted() as found, both_engines() as ways:
        for name in names[part::PARTS]:
            check_example(name)
    assert ways.quick.total()
    modules = [ptx.compiled(text, capability) for text in found.texts(1 if FUZZ else 8)]
    assert modules and all(f".target sm_{capability}" in each for each in modules)
    assert not complaint(modules, capability)


@pytest.mark.parametrize("seed", range(20 if FUZZ else 2))
def test_random_kernels(emulated: FakeGpus, seed: int) -> None:
    source = random_kernel(seed)[seed % 2]
    same(kernel_of(source, f"{seed} on a GPU"), 3, arguments, target="a5", engine="cuda")


# --- blocks ----------------------------------------------------------------------------------------------------

ROWS, BLOCKS = 8, 23


@pto.kernel
def doubled(src, out):
    b = pto.block_idx()
    t = pto.Tile("vec", "float32", ROWS, 16)
    pto.tload(t, src[b * ROWS : (b + 1) * ROWS])
    pto.tadd(t, t, t)
    pto.tstore(out[b * ROWS : (b + 1) * ROWS], t)


@pto.kernel
def running(src, out):
    b = pto.block_idx()
    t, u = pto.Tile("vec", "float32", ROWS, 16), pto.Tile("vec", "float32", ROWS, 16)
    pto.tload(t, src[b * ROWS : (b + 1) * ROWS])
    pto.tload(u, out[0:ROWS])
    pto.tadd(t, t, u)
    pto.tstore(out[0:ROWS], t)


def rows(seed: int = 0) -> dict[str, Array]:
    src = np.random.default_rng(seed).normal(size=(BLOCKS * ROWS, 16)).astype("f4")
    return {"src": src, "out": np.zeros_like(src)}


@pytest.mark.parametrize(("kernel", "parallel"), [(doubled, 3), (running, 1)])
def test_only_independent_blocks_run_in_parallel(seen: Seen, kernel: Any, parallel: int) -> None:
    assert not same(kernel, BLOCKS, rows, target="a5", engine="cuda").ending
    assert set(seen.grids) == {parallel} and not seen.finished


# --- scatters that blocks record -------------------------------------------------------------------------------


@pto.kernel
def scattered(src, idx, out, atomic: pto.const = "none", oob: pto.const = "undefined", first: pto.const = 0):
    b = pto.block_idx()
    s, i = pto.Tile("vec", "float32", ROWS, 16), pto.Tile("vec", "int32", 1, ROWS)
    pto.tload(i, idx[b * ROWS : (b + 1) * ROWS])
    pto.tload(s, src[b * ROWS : (b + 1) * ROWS])
    pto.mscatter(out[first:], s, i, atomic=atomic, oob=oob, coalesce="row")


@pto.kernel
def cells_of(src, idx, out, atomic: pto.const = "none"):
    b = pto.block_idx()
    s, i = pto.Tile("vec", "float32", ROWS, 16), pto.Tile("vec", "int32", ROWS, 16)
    for _part in pto.range(b % 3):
        pto.tload(i, idx[b * ROWS : (b + 1) * ROWS])
        pto.tload(s, src[b * ROWS : (b + 1) * ROWS])
        pto.tadds(s, s, 1.0)
        pto.mscatter(out, s, i, atomic=atomic, coalesce="elem")


def scatter_case(shape: tuple[int, ...], table: tuple[int, ...], atomic: str) -> Callable[[], dict[str, Any]]:
    def make() -> dict[str, Any]:
        random, count = np.random.default_rng(5), np.prod(table) if len(shape) > 1 else table[0]
        idx = random.integers(0, count, shape).astype("i4")
        return {"src": rows(3)["src"], "idx": idx, "out": np.zeros(table, "f4"), "atomic": atomic}

    return make


def in_order(case: dict[str, Any]) -> Array:
    """The rows of a case, one after the other."""
    out = case["out"].copy()
    combine = {"none": lambda _, new: new, "add": np.add, "max": np.maximum, "min": np.minimum}[case["atomic"]]
    for row, at in zip(case["src"], case["idx"], strict=True):
        out[at] = combine(out[at], row)
    return out


@pytest.mark.parametrize("most", [256 << 20, 4000])
@pytest.mark.parametrize("atomic", ["none", "add", "max", "min"])
def test_rows_take_effect_in_the_order_of_blocks(
    seen: Seen, atomic: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deferred, "MOST_OF_WAVE", most)
    make, begin, waves = scatter_case((BLOCKS * ROWS,), (5, 16), atomic), DeferredScatters.begin, list[range]()

    def begun(self: Any, state: Any, wave: range) -> None:
        waves.append(wave)
        begin(self, state, wave)

    monkeypatch.setattr(DeferredScatters, "begin", begun)
    found = same(scattered, BLOCKS, make, target="a5", engine="cuda")
    assert not found.ending and not seen.finished and 3 in seen.grids
    assert np.array_equal(np.frombuffer(found.memories["out"], "f4").reshape(5, 16), in_order(make()))
    each = min(BLOCKS, most // (ROWS * (4 * 16 + 4)))  # an index and a row of each lane
    assert {*waves} == {range(BLOCKS)[k : k + each] for k in range(0, BLOCKS, each)}


def test_scatters_that_cannot_be_recorded_any_more_run_block_after_block(
    seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread may have met such numbers since this one asked."""
    code = executable.CudaExecutable.code

    def made(self: Any, device: Any, deferred: tuple[int, ...] = ()) -> Any:
        found = code(self, device, deferred)
        return replace(found, pages=()) if deferred else found

    monkeypatch.setattr(executable.CudaExecutable, "code", made)
    case = scatter_case((BLOCKS * ROWS,), (5, 16), "add")()
    wanted = in_order(case)
    scattered[BLOCKS](**case, target="a5", engine="cuda")
    assert np.array_equal(case["out"], wanted) and set(seen.grids) == {1}


def test_a_launch_never_has_more_blocks_of_threads_than_can_settle() -> None:
    """Code that takes over may settle, although the code before does not."""
    kernel: Any = SimpleNamespace(fitting=lambda _: 1 << 20)
    code = launching.GridCode(kernel, 0, (), frozenset(), {}, {}, 64, by_value=True, settles=False)
    assert code.count(1 << 20) == stages.MOST_SETTLED and code.count(7) == 7


def test_rows_of_a_slice_are_recorded(seen: Seen) -> None:
    case = scatter_case((BLOCKS * ROWS,), (5, 16), "add")()
    wanted, case["out"] = in_order(case), np.zeros((8, 16), "f4")
    scattered[BLOCKS](**case, first=2, target="a5", engine="cuda")
    assert np.array_equal(case["out"], [*np.zeros((2, 16)), *wanted, np.zeros(16)]) and 3 in seen.grids


@pto.kernel
def scattered_at_once(src, idx, out, atomic: pto.const):
    s, i = pto.Tile("vec", "float32", *src.shape), pto.Tile("vec", "int32", 1, src.shape[0])
    pto.tload(i, idx)
    pto.tload(s, src)
    pto.mscatter(out, s, i, atomic=atomic, coalesce="row")


@pytest.mark.parametrize("width", [8, 160], ids=["fewer", "more"])
def test_rows_of_fewer_and_more_pieces_than_lanes(seen: Seen, width: int) -> None:
    random = np.random.default_rng(1)
    case = {"src": random.normal(size=(16, width)).astype("f4"), "idx": random.integers(0, 5, 16).astype("i4")}
    case |= {"out": np.zeros((5, width), "f4"), "atomic": "add"}
    wanted = in_order(case)
    scattered_at_once[1](**case, target="a5", engine="cuda")
    assert np.array_equal(case["out"], wanted) and {*seen.grids} == {1} and not seen.finished


@pytest.mark.parametrize("most", [256 << 20, 9000])
@pytest.mark.parametrize("atomic", ["none", "add"])
def test_elements_take_effect_in_the_order_of_blocks(
    seen: Seen, atomic: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deferred, "MOST_OF_WAVE", most)
    make = scatter_case((BLOCKS * ROWS, 16), (1, 48), atomic)
    found = same(cells_of, BLOCKS, make, target="a5", engine="cuda")
    assert not found.ending and not seen.finished and 3 in seen.grids


def test_scatters_of_the_blocks_before_a_failing_one_take_effect(seen: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deferred, "MOST_OF_WAVE", 4000)
    case = scatter_case((BLOCKS * ROWS,), (5, 16), "add")()
    case["idx"][9 * ROWS + 2] = 5
    before = {**case, "src": case["src"][: 9 * ROWS], "idx": case["idx"][: 9 * ROWS]}
    expected = in_order(before)
    with pytest.raises(pto.OutOfBoundsError, match=r"idx\[2\] = 5 .* in block 9"):
        scattered[BLOCKS](**case, target="a5", engine="cuda")
    assert np.array_equal(case["out"], expected) and not seen.finished


@pto.kernel
def twice_scattered(src, idx, more, out, other):
    b = pto.block_idx()
    s, i, j = (pto.Tile("vec", *spec) for spec in (("float32", ROWS, 16), ("int32", 1, ROWS), ("int32", 1, ROWS)))
    pto.tload(s, src[b * ROWS : (b + 1) * ROWS])
    pto.tload(i, idx[b * ROWS : (b + 1) * ROWS])
    pto.tload(j, more[b * ROWS : (b + 1) * ROWS])
    pto.mscatter(out, s, i, coalesce="row", atomic="add")
    pto.mscatter(other, s, j, coalesce="row", atomic="add")


def failing_case() -> dict[str, Any]:
    """The second scatter fails in block 9."""
    case = scatter_case((BLOCKS * ROWS,), (5, 16), "add")()
    more = case["idx"].copy()
    more[9 * ROWS + 2] = 5
    return {**{name: case[name] for name in ("src", "idx", "out")}, "more": more, "other": case["out"].copy()}


def test_a_failing_block_has_done_what_came_before_its_failure(seen: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deferred, "MOST_OF_WAVE", 8000)
    memories: list[list[bytes]] = []
    for engine in ("reference", "cuda"):
        case = failing_case()
        with pytest.raises(pto.OutOfBoundsError, match=r"idx\[2\] = 5 .* in block 9"):
            twice_scattered[BLOCKS](**case, target="a5", engine=engine)
        memories.append([case[name].tobytes() for name in ("out", "other")])
    assert memories[0] == memories[1] and not seen.finished


def test_an_interrupt_between_waves_is_not_replaced(seen: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deferred, "MOST_OF_WAVE", 4000)
    run, waves = launching.GridLaunch.run, list[range]()

    def interrupted(self: Any, code: Any, wave: range, *rest: Any) -> Any:
        waves.append(wave)
        if len(waves) == 3:
            raise KeyboardInterrupt
        return run(self, code, wave, *rest)

    monkeypatch.setattr(launching.GridLaunch, "run", interrupted)
    case = scatter_case((BLOCKS * ROWS,), (5, 16), "add")()
    given = {**case, "out": case["out"].copy()}
    with pytest.raises(KeyboardInterrupt):
        scattered[BLOCKS](**given, target="a5", engine="cuda")
    done = waves[1].stop * ROWS
    assert np.array_equal(given["out"], in_order({**case, "src": case["src"][:done], "idx": case["idx"][:done]}))
    assert not seen.finished


# --- statements that are left ----------------------------------------------------------------------------------


@pto.kernel
def gathered(table, idx, out, oob: pto.const = "undefined"):
    b = pto.block_idx()
    t, i = pto.Tile("vec", "float32", ROWS, 16), pto.Tile("vec", "int32", 1, ROWS)
    pto.tload(i, idx[b * ROWS : (b + 1) * ROWS])
    pto.mgather(t, table, i, oob=oob)
    pto.tadds(t, t, 1.0)
    pto.tstore(out[b * ROWS : (b + 1) * ROWS], t)


@pto.kernel
def in_place(table, idx, out, oob: pto.const = "clamp"):
    """Adds to its rows in a loop, so that a block that runs again would add twice."""
    b = pto.block_idx()
    t, u = pto.Tile("vec", "float32", ROWS, 16), pto.Tile("vec", "float32", ROWS, 16)
    i = pto.Tile("vec", "int32", 1, ROWS)
    for turn in pto.range(2):
        first = (b + turn * (BLOCKS - 1 - b - b)) * ROWS
        pto.tload(i, idx[first : first + ROWS])
        pto.mgather(t, table, i, oob=oob)
        pto.tload(u, out[b * ROWS : (b + 1) * ROWS])
        pto.tadd(t, t, u)
        pto.tstore(out[b * ROWS : (b + 1) * ROWS], t)


@pto.kernel
def once_in_place(table, idx, out, oob: pto.const = "clamp"):
    b = pto.block_idx()
    t, u = pto.Tile("vec", "float32", ROWS, 16), pto.Tile("vec", "float32", ROWS, 16)
    i = pto.Tile("vec", "int32", 1, ROWS)
    pto.tload(i, idx[b * ROWS : (b + 1) * ROWS])
    pto.tload(u, out[b * ROWS : (b + 1) * ROWS])
    pto.mgather(t, table, i, oob=oob)
    pto.tadd(t, t, u)
    pto.tstore(out[b * ROWS : (b + 1) * ROWS], t)


def gather_case(bad: dict[int, int], oob: str) -> Callable[[], dict[str, Any]]:
    def make() -> dict[str, Any]:
        random = np.random.default_rng(1)
        idx = random.integers(0, 50, BLOCKS * ROWS).astype("i4")
        idx[list(bad)] = list(bad.values())
        return {"table": random.normal(size=(50, 16)).astype("f4"), "idx": idx, "out": rows(2)["src"], "oob": oob}

    return make


@pytest.mark.parametrize("kernel", [gathered, in_place, once_in_place])
def test_findings_are_reported_once_from_the_lowest_block(seen: Seen, kernel: Any) -> None:
    bad = {5 * ROWS + 1: -7, 5 * ROWS + 6: -9, 4 * ROWS + 6: -3, 20 * ROWS: -1}
    found = same(kernel, BLOCKS, gather_case(bad, "clamp"), target="a5", engine="cuda")
    assert not found.ending and len(found.findings) == 1 and not seen.finished
    ((*_, message),) = found.findings
    wanted = ("-1", "in block 2") if kernel is in_place else ("-3", "in block 4")
    assert all(each in message for each in wanted)


@pytest.mark.parametrize("kernel", [gathered, in_place, once_in_place])
def test_the_lowest_failing_block_is_the_error(seen: Seen, kernel: Any) -> None:
    bad = {7 * ROWS + 3: 50, 6 * ROWS + 5: 99}
    found = same(kernel, BLOCKS, gather_case(bad, "undefined"), target="a5", engine="cuda")
    assert "in block 6" in found.ending[1] and "= 99" in found.ending[1] and not seen.finished


def test_a_failing_block_writes_nothing_and_those_before_all(emulated: FakeGpus) -> None:
    case = gather_case({6 * ROWS + 5: 99}, "undefined")()
    before = case["out"].copy()
    with pytest.raises(pto.OutOfBoundsError):
        gathered[BLOCKS](**case, target="a5", engine="cuda")
    done = slice(0, 6 * ROWS)
    assert np.array_equal(case["out"][done], case["table"][case["idx"][done]] + np.float32(1))
    assert np.array_equal(case["out"][6 * ROWS : 7 * ROWS], before[6 * ROWS : 7 * ROWS])


@pto.kernel
def of_many_extents(src, out):
    b = pto.block_idx()
    t = pto.Tile("vec", "float32", ROWS, 16, valid=(b % ROWS + 1, 16))
    pto.tload(t, src[b * ROWS : b * ROWS + b % ROWS + 1])
    pto.tadd(t, t, t)
    pto.tstore(out[b * ROWS : b * ROWS + b % ROWS + 1], t)


def test_numbers_without_code_are_learnt_in_the_launch(seen: Seen) -> None:
    assert not same(of_many_extents, BLOCKS, rows, target="a5", engine="cuda").ending


# --- arrays ----------------------------------------------------------------------------------------------------


@pto.kernel
def summed(src, out):
    b = pto.block_idx()
    t = pto.Tile("vec", "float32", ROWS, 16)
    pto.tload(t, src[b * ROWS : (b + 1) * ROWS])
    pto.tadd(t, t, t)
    pto.tstore(out[b * ROWS : (b + 1) * ROWS], t)
    for _ in pto.range(b // 9 * 2**62 * 4, b // 9 * 2**62 * 4 + 1):  # more than 64 bits from block 9 on
        pto.tadd(t, t, t)
        pto.tstore(out[b * ROWS : (b + 1) * ROWS], t)


def test_blocks_that_a_kernel_cannot_run_are_finished_by_the_reference_engine(seen: Seen) -> None:
    case = rows()
    given = {name: FakeArray(value) for name, value in case.items()}
    for _ in range(3):
        case["out"][:] = 0
        assert summed[BLOCKS](**given, target="a5").engine == "cuda"
        assert np.array_equal(case["out"], case["src"] * 4)
    assert seen.finished == [[*range(9, BLOCKS)]] * 3


def test_launches_over_arrays_on_the_gpu_are_repeated(seen: Seen) -> None:
    case = gather_case({}, "undefined")()
    given = {name: FakeArray(value) for name, value in case.items() if isinstance(value, np.ndarray)}
    for _ in range(3):
        case["out"][:] = 0
        run = gathered[BLOCKS](**given, target="a5")
        assert run.engine == "cuda" and np.array_equal(case["out"], case["table"][case["idx"]] + np.float32(1))
    assert not seen.finished and set(seen.grids) == {3}


@pytest.mark.filterwarnings("ignore::ptokit.HazardWarning")
@pytest.mark.parametrize("kernel", [gathered, in_place, once_in_place])
def test_repeated_launches_report_and_fail_as_the_first(seen: Seen, kernel: Any) -> None:
    """In each, the statements that kernels leave are run once more, also in blocks that others have passed."""
    kernel.cached.clear()
    made = gather_case({}, "clamp")()
    given = {name: FakeArray(value) for name, value in made.items() if isinstance(value, np.ndarray)}
    for bad in ({}, {}, {4 * ROWS + 6: -3, 20 * ROWS: -1}, {}, {20 * ROWS: -1}):
        case = gather_case(bad, "clamp")()
        good = case["table"][np.where(case["idx"] < 0, 49, case["idx"])]  # unsigned, so the last row
        for name in given:
            made[name][:] = case[name]
        run = kernel[BLOCKS](**given, oob="clamp", target="a5")
        assert len(run.findings) == bool(bad)
        mirrored = good.reshape(BLOCKS, ROWS, 16)[::-1].reshape(good.shape)
        expected = {
            gathered: good + np.float32(1),
            in_place: (case["out"] + good) + mirrored,
            once_in_place: case["out"] + good,
        }
        assert np.array_equal(made["out"], expected[kernel])
    assert len(kernel.cached) == 1 and not seen.finished


def test_a_repeated_launch_that_fails_leaves_the_next_one_unharmed(seen: Seen) -> None:
    gathered.cached.clear()
    case = gather_case({}, "undefined")()
    given = {name: FakeArray(value) for name, value in case.items() if isinstance(value, np.ndarray)}
    good = case["idx"].copy()
    for turn in range(6):
        case["out"][:], case["idx"][:] = 0, good
        if turn % 2:
            case["idx"][6 * ROWS + 5] = 99
            with pytest.raises(pto.OutOfBoundsError, match=r"= 99 .* in block 6"):
                gathered[BLOCKS](**given, target="a5")
        else:
            gathered[BLOCKS](**given, target="a5")
            assert np.array_equal(case["out"], case["table"][good] + np.float32(1))
    assert not seen.finished
