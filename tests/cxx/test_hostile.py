"""Sources that misbehave end in a message with a place; nothing is left running or on disk."""

from __future__ import annotations

import contextlib
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ptokit.cxx.child import RecordLimits
from ptokit.cxx.record import ArrayArgument, ScalarArgument, record
from ptokit.cxx.recording import Recording, RecordingProblem
from tests.cxx.building import COMPILER, Built, library

pytestmark = pytest.mark.skipif(not COMPILER, reason="needs a C++ compiler")
LIMITS = RecordLimits(seconds=20, memory=1 << 30, calls=10_000)


@pytest.fixture(scope="module")
def hostile() -> Built:
    return library("hostile", "-pthread")


def run(hostile: Built, entry: str, *arguments: ArrayArgument | ScalarArgument, seconds: float = 20) -> Recording:
    before = processes()
    recording = record(hostile, entry, arguments, limits=replace(LIMITS, seconds=seconds))
    assert processes() <= before
    return recording


def processes() -> set[int]:
    """The children of this process."""
    found: set[int] = set()
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            process, _, rest = status.read_text().partition(" ")
            if int(rest.rpartition(")")[2].split()[1]) == os.getpid():
                found.add(int(process))
    return found


def only(recording: Recording) -> RecordingProblem:
    (problem,) = recording.problems
    return problem


def line(recording: Recording) -> int:
    return only(recording).frames[0].line


@pytest.mark.parametrize(
    ("entry", "kind", "words", "comment"),
    [
        ("forks", "forbidden", "starts a process or a thread", "fork"),
        ("threads", "forbidden", "starts a process or a thread", "thread"),
        ("runs_a_program", "forbidden", "starts a process or a thread", "system"),
        ("connects", "forbidden", "opens a network connection", "socket"),
        ("kills", "forbidden", "sends a signal", "kill"),
        ("truncates", "forbidden", "changes a file", "truncate"),
        ("exits", "exit", "ends the process", "exit"),
        ("exits_at_once", "exit", "ends the process", "exit at once"),
        ("throws_error", "exception", "std::runtime_error: no such shape", "throw"),
        ("throws_object", "exception", "Thrown", "throw object"),
        ("recursion", "crash", "stack is full", "recursion"),
        ("wild_call", "crash", "memory that it does not have (address 0x8)", "wild call"),
        ("aborts", "crash", "abort", "abort"),
        ("allocates", "exception", "std::bad_alloc", "new"),
        ("allocates_device", "limit", "1,073,741,824 bytes of device memory", "device"),
        ("many_calls", "limit", "more than 10,000 calls", "many"),
        ("fails", "failure", "a tile of 0 rows", "fail"),
    ],
)
def test_ends_with_a_message_and_a_place(hostile: Built, entry: str, kind: str, words: str, comment: str) -> None:
    recording = run(hostile, entry)
    problem = only(recording)
    assert (problem.kind, problem.fatal) == (kind, True)
    assert words in problem.message
    files = [frame for frame in problem.frames if frame.file == str(hostile.source)]
    expected = hostile.line(comment)
    assert expected in [frame.line for frame in files][: 3 if entry == "many_calls" else 2]


def test_an_endless_loop_ends_at_its_line(hostile: Built) -> None:
    recording = run(hostile, "endless", seconds=0.5)
    assert only(recording).message == "the kernel runs longer than 0.5 s"
    assert line(recording) == hostile.line("endless")
    assert [len(block.calls) for block in recording.launches[0].blocks] == [1]
    assert not recording.launches[0].complete


def test_a_wild_pointer_is_named_with_its_address(hostile: Built) -> None:
    recording = run(hostile, "wild", ArrayArgument("a", np.zeros(4, np.float32)))
    assert only(recording).message == "the kernel accesses memory that it does not have (address 0x8)"
    assert line(recording) == hostile.line("wild")


def test_a_store_past_an_array_names_the_array(hostile: Built) -> None:
    arguments = ArrayArgument("rows", np.zeros(16, np.float32)), ScalarArgument("n", "int32", 4)
    recording = run(hostile, "past_end", *arguments)
    assert "byte 524288 of rows" in only(recording).message
    assert line(recording) == hostile.line("past the end")


def path_argument(path: Path) -> ArrayArgument:
    return ArrayArgument("path", np.frombuffer(os.fsencode(path) + b"\0", np.uint8))


def test_a_file_is_not_written(hostile: Built, tmp_path: Path) -> None:
    recording = run(hostile, "writes_file", path_argument(tmp_path / "new"))
    assert only(recording).message == "the kernel opens a file"
    assert line(recording) == hostile.line("file")
    assert not list(tmp_path.iterdir())


def test_a_file_is_not_removed(hostile: Built, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_text("here")
    recording = run(hostile, "removes_file", path_argument(kept))
    assert only(recording).message == "the kernel changes a file"
    assert line(recording) == hostile.line("unlink")
    assert kept.read_text() == "here"


def test_output_is_cut_and_the_kernel_goes_on(hostile: Built) -> None:
    recording = run(hostile, "prints")
    problem = only(recording)
    assert (problem.kind, problem.fatal) == ("output", False)
    assert recording.output.startswith("0123456789\n0123456789\n")
    assert len(recording.output) == LIMITS.output
    assert [len(block.calls) for block in recording.launches[0].blocks] == [1]


def test_a_caught_exception_is_no_problem(hostile: Built) -> None:
    recording = run(hostile, "catches")
    assert not recording.problems
    assert len(recording.launches[0].blocks[0].calls) == 1


def test_a_kernel_does_not_launch_a_kernel(hostile: Built) -> None:
    assert only(run(hostile, "nested")).message == "a kernel launches a kernel"


def test_a_damaged_trace_is_a_problem_of_the_kernel(hostile: Built) -> None:
    recording = run(hostile, "scribbles")
    assert all(problem.kind in ("trace", "crash") for problem in recording.problems)
    assert recording.problems


@pytest.mark.parametrize("pattern", [0, 1, 2, 3, 255, 4096, -1, 1 << 40])
def test_a_damaged_first_page_is_no_crash_of_ours(hostile: Built, pattern: int) -> None:
    recording = run(hostile, "scribbles_control", ScalarArgument("pattern", "int64", pattern), seconds=2)
    assert isinstance(recording, Recording)


def test_nothing_is_left_open(hostile: Built) -> None:
    run(hostile, "fine")
    before = len(os.listdir("/proc/self/fd"))
    run(hostile, "fine")
    run(hostile, "wild_call")
    assert len(os.listdir("/proc/self/fd")) == before


def test_an_unknown_entry_says_so(hostile: Built) -> None:
    assert "there is no entry missing" in only(run(hostile, "missing")).message
