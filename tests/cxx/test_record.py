"""What a recording says about a run: launches, blocks, calls, operands, places, and values on demand."""

from __future__ import annotations

import numpy as np
import pytest

from ptokit.cxx.child import RecordLimits
from ptokit.cxx.record import ArrayArgument, ScalarArgument, record
from ptokit.cxx.recording import (
    PartialRecording,
    RecordedArray,
    RecordedPointer,
    RecordedScalar,
    RecordedTile,
    Recording,
    SharedMemories,
)
from tests.cxx.building import COMPILER, Built, CoreCode, library

pytestmark = pytest.mark.skipif(not COMPILER, reason="needs a C++ compiler")


@pytest.fixture(scope="module")
def values() -> Built:
    return library("values")


def numbers(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


class Replay:
    """Executes tload, tstore and setvalue of a recording in plain NumPy, from the start, and counts how often."""

    def __init__(self, *, value_only: bool) -> None:
        self.value_only = value_only
        self.requests: list[str] = []
        self.first: list[np.ndarray] | None = None

    def __call__(self, shared: SharedMemories, partial: PartialRecording) -> bytes:
        assert partial.request is not None
        self.requests.append(partial.request.kind)
        local = {name: np.zeros_like(memory) for name, memory in shared.local.items()}
        for launch in partial.launches:
            for block in launch.blocks:
                for index in block.calls:
                    self.step(partial.calls[int(index)], shared, local)
        request = partial.request
        if request.kind == "tile" and self.value_only:
            assert isinstance(request.operand, RecordedTile)
            assert request.operand.address is not None
            at = request.operand.address + request.offset * request.bytes
            return local[request.operand.memory][at : at + request.bytes].tobytes()
        for name, memory in local.items():
            shared.local[name][:] = memory
        return b""

    def step(self, call, shared: SharedMemories, local: dict[str, np.ndarray]) -> None:
        tiles = [o for o in call.operands if isinstance(o, RecordedTile)]
        arrays = [o for o in call.operands if isinstance(o, RecordedArray)]
        if call.name in ("tload", "tstore"):
            (tile,), (array,) = tiles, arrays
            size = 4 * tile.cols
            inside = local[tile.memory][tile.address : tile.address + size]
            outside = shared.arrays[array.argument][array.offset : array.offset + size]
            if call.name == "tload":
                inside[:] = outside
            else:
                outside[:] = inside
        elif call.name == "setvalue":
            tile, offset, value = call.operands
            at = tile.address + 4 * offset.value
            local[tile.memory][at : at + 4] = numbers(value.value).view(np.uint8)


def marks(recording: Recording) -> list[int]:
    assert not recording.problems
    found: list[int] = []
    for launch in recording.launches:
        for block in launch.blocks:
            calls = [recording.calls[int(k)] for k in block.calls]
            found += [call.operands[0].value for call in calls if call.name == "mark"]
    return found


@pytest.mark.parametrize("value_only", [False, True])
def test_getvalue_sees_what_a_load_wrote(values: Built, *, value_only: bool) -> None:
    replay = Replay(value_only=value_only)
    given = ArrayArgument("in", numbers(5, -6, 7, 1 << 30))
    assert marks(record(values, "marks_values", [given], inform=replay)) == [5, -6, 7, 1 << 30]
    assert replay.requests == ["tile"] * (4 if value_only else 1)  # marks have no effect on memory


def test_without_an_engine_a_value_is_not_known(values: Built) -> None:
    recording = record(values, "marks_values", [ArrayArgument("in", numbers(5, 6, 7, 8))])
    (problem,) = recording.problems
    assert (problem.kind, problem.fatal) == ("value", False)
    assert values.line("reads") in [frame.line for frame in problem.frames]
    assert recording.launches[0].complete


@pytest.mark.parametrize("count", [0, 3])
def test_a_later_launch_reads_by_a_plain_pointer(values: Built, count: int) -> None:
    replay = Replay(value_only=False)
    given = [ArrayArgument("in", numbers(count)), ArrayArgument("count", numbers(99))]
    recording = record(values, "counts", given, inform=replay)
    assert marks(recording) == list(range(count))
    assert replay.requests == ["memory"]
    assert given[1].array.tolist() == [99]  # the kernel sees a copy


def test_allocations_are_arguments_of_every_launch(values: Built) -> None:
    replay = Replay(value_only=False)
    recording = record(values, "allocates", [], inform=replay)
    assert marks(recording) == [0, 1, 2]
    assert replay.requests == ["memory"]
    stored, argument = recording.launches[0].arguments
    assert stored.is_stored and stored.shape == (0,), "nothing is stored by kernels"
    assert (argument.name, argument.dtype, argument.shape) == ("allocation1", "uint8", (64,))
    load = recording.calls[int(recording.launches[0].blocks[0].calls[0])]
    array = load.operands[1]
    assert isinstance(array, RecordedArray)
    assert (array.argument, array.offset) == (1, 4)


def test_setvalue_is_recorded_and_read_back(values: Built) -> None:
    recording = record(values, "sets", [], inform=Replay(value_only=True))
    assert marks(recording) == [7]
    assert [recording.calls[int(k)].name for k in recording.launches[0].blocks[0].calls] == [
        "setvalue", "getvalue", "mark",
    ]  # fmt: skip


def test_too_many_requests_are_a_limit(values: Built) -> None:
    given = ArrayArgument("in", numbers(5, 6, 7, 8))
    limits = RecordLimits(requests=2)
    recording = record(values, "marks_values", [given], limits=limits, inform=Replay(value_only=True))
    assert [problem.kind for problem in recording.problems] == ["limit"]


def test_an_engine_that_fails_ends_the_process(values: Built) -> None:
    def broken(shared: SharedMemories, partial: PartialRecording) -> bytes:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        record(values, "marks_values", [ArrayArgument("in", numbers(1, 2, 3, 4))], inform=broken)


def test_a_kernel_that_is_the_entry_runs_on_every_core(values: Built) -> None:
    given = [
        ArrayArgument("in", numbers(1, 2, 3)), ScalarArgument("scale", "float32", 0.5),
        ScalarArgument("n", "int64", -3),
    ]  # fmt: skip
    recording = record(values, "cores", given, 3, cores=("vector", "cube"), subblocks=2)
    (launch,) = recording.launches
    assert (launch.name, launch.grid, launch.complete) == ("cores", 3, True)
    seen = []
    for block in launch.blocks:
        (index,) = block.calls
        pointer, *rest = recording.calls[int(index)].operands
        seen.append((block.index, block.core, block.subblock, pointer, [scalar.value for scalar in rest]))
    expected = [(b, *core) for b in range(3) for core in (("cube", 0, 1), ("vector", 0, 2), ("vector", 1, 2))]
    assert seen == [
        (b, core, sub, RecordedPointer(0, 4 * b), [0.5, -3, 3, sub, subs, core == "cube", core == "vector"])
        for b, core, sub, subs in expected
    ]


def test_libraries_for_two_cores_are_one_recording(values: Built) -> None:
    both = Built((CoreCode(values.path, "vector"), CoreCode(values.path, "cube")), values.source)
    given = [ArrayArgument("in", numbers(1, 2)), ScalarArgument("scale", "float32", 2), ScalarArgument("n", "int64", 9)]
    recording = record(both, "cores", given, 2)
    (launch,) = recording.launches
    assert launch.complete
    seen = []
    for block in launch.blocks:
        (call,) = [recording.calls[int(k)] for k in block.calls]
        assert recording.sites[call.site][0].function == "cores"
        seen.append((block.index, block.core, call.operands[-2].value, call.operands[0].offset))
    assert seen == [(0, "cube", True, 0), (0, "vector", False, 0), (1, "cube", True, 4), (1, "vector", False, 4)]


def test_tiles_of_two_libraries_have_their_own_numbers(values: Built) -> None:
    both = Built((CoreCode(values.path, "vector"), CoreCode(values.path, "cube")), values.source)
    recording = record(
        both, "marks_values", [ArrayArgument("in", numbers(1, 2, 3, 4))], inform=Replay(value_only=False)
    )
    loads = [call.operands[0] for call in recording.calls if call.name == "tload"]
    assert [tile.object for tile in loads if isinstance(tile, RecordedTile)] == [0, 1]
    assert marks(recording) == [1, 2, 3, 4] * 2


def test_entries_that_a_library_lists() -> None:
    listed = library("listed")
    data = ArrayArgument("data", np.zeros(8, np.float32))
    recording = record(listed, "launch<float, 4>", [data, ScalarArgument("scale", "float32", 1.5)])
    assert [problem.message for problem in recording.problems] == []
    (call,) = [recording.calls[int(k)] for k in recording.launches[0].blocks[0].calls]
    assert call.operands == (RecordedPointer(0, 0), RecordedScalar("float32", 1.5))
    kernel = record(listed, "kernel", [data], 3)
    assert [(launch.name, launch.grid, len(launch.blocks)) for launch in kernel.launches] == [("kernel", 3, 3)]


@pytest.mark.parametrize(
    ("entry", "words"),
    [("missing", "there is no entry missing"), ("kernel", "kernel takes 2 arguments, 0 were given")],
)
def test_a_listed_entry_that_cannot_be_called(entry: str, words: str) -> None:
    (problem,) = record(library("listed"), entry, []).problems
    assert words in problem.message


def test_a_library_that_cannot_be_loaded() -> None:
    (problem,) = record(library("listed", "-DUNDEFINED"), "kernel", []).problems
    assert problem.kind == "failure"
    assert "undefined symbol" in problem.message


def test_code_that_runs_while_the_library_is_loaded() -> None:
    endless = record(library("listed", "-DENDLESS"), "kernel", [], limits=RecordLimits(seconds=0.5))
    assert [problem.kind for problem in endless.problems] == ["limit"]
    crash = record(library("listed", "-DCRASH"), "kernel", [])
    assert [problem.kind for problem in crash.problems] == ["crash"]
    assert "before the entry was called" in crash.problems[0].message


def test_calls_outside_a_launch_are_remarked(values: Built) -> None:
    given = [ArrayArgument("in", numbers(1)), ScalarArgument("scale", "float32", 0.5), ScalarArgument("n", "int64", 1)]
    (problem,) = record(values, "cores", given).problems
    assert "1 calls were made outside a launch" in problem.message
    assert not problem.fatal


def test_places_and_modifiers(values: Built) -> None:
    data = ArrayArgument("data", np.zeros(4, np.float32))
    recording = record(values, "_ZN2ns5entryIfEEvPT_", [data])
    calls = [recording.calls[int(k)] for k in recording.launches[0].blocks[0].calls]
    assert [call.modifiers for call in calls] == [(("n", 3), ("mode", "row")), (("n", -1), ("mode", "row"))]
    for call, line in zip(calls, ("first", "second"), strict=True):
        inner, outer, *_ = recording.sites[call.site]
        assert (inner.file, inner.line) == (str(values.source), values.line("inner"))
        assert inner.column > 0
        assert inner.function == "ns::helper"
        assert outer.line == values.line(line)
        assert all("recorder.hpp" not in frame.file for frame in recording.sites[call.site])
        assert "ns::entry" in [frame.function for frame in recording.sites[call.site]]


def test_equal_calls_are_one(values: Built) -> None:
    recording = record(values, "counts", [ArrayArgument("in", numbers(1)), ArrayArgument("count", numbers(500))])
    every = recording.launches[1].blocks[0].calls
    calls = np.array([k for k in every if recording.calls[int(k)].name == "mark"])
    assert len(every) == 2 * len(calls) + 1, "each is after a load of the count"
    assert len(calls) == 500
    assert len(set(calls.tolist())) == 500  # the operand differs
    assert recording.calls[int(calls[499])].operands == (RecordedScalar("int32", 499),)
    assert recording.calls[-1] is recording.calls[len(recording.calls) - 1]
