"""Kernels that forge their trace end in a problem, after work that is bounded by what they wrote."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ptokit.cxx.child import RecordLimits
from ptokit.cxx.names_in_source import SourceTexts
from ptokit.cxx.program import program_of
from ptokit.cxx.record import ScalarArgument, record
from ptokit.cxx.recording import PartialRecording, Recording, SharedMemories
from ptokit.cxx.shared import DISTINCT, SharedBuffer, Sizes
from ptokit.cxx.trace import Places, TraceError, TraceReader
from ptokit.finding import VerifyError
from ptokit.lang.values import MOST_BYTES, Informer, ValueSession
from ptokit.program.ir import MOST_BLOCKS
from tests.cxx.building import COMPILER, Built, library

needs_compiler = pytest.mark.skipif(not COMPILER, reason="needs a C++ compiler")
LIMITS = RecordLimits(seconds=120, memory=1 << 28, calls=100_000, requests=1000)
"""The time is not what ends these recordings."""


@pytest.fixture(scope="module")
def forged() -> Built:
    return library("forged")


def shared_buffer(calls: int = 1000) -> SharedBuffer:
    return SharedBuffer(Sizes(calls, 1 << 20), [])


def run(forged: Built, entry: str, limits: RecordLimits = LIMITS) -> Recording:
    shared = SharedBuffer(Sizes(limits.calls, limits.memory), [])
    before = ScalarArgument("before", "uint64", shared.places["local"])
    shared.close_file()
    return record(forged, entry, [before], limits=limits, inform=Informer("a2a3").inform)


@needs_compiler
@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("count_beyond", "a count of 18446744073709551615 definitions"),
        ("count_unwritten", "definitions, of which some were not written"),
        ("entries_unwritten", "entries, of which some were not written"),
        ("count_falls", "a count of 0 sequence after 1"),
        ("definitions_fall", "a count of 44 definitions after 45"),
        ("no_kind", "a definition of no kind"),
        ("longer_than_the_trace", "a place of a call of 60 words"),
        ("long_definition", "a text of 4,294,967,295 words"),
        ("endless_text", "a text without an end"),
        ("many_texts", "more than 65,536 times a text"),
        ("many_sites", "more than 10,000 times a place of a call"),
        ("full_sites", "a launch of 1 blocks did not end"),
        ("many_forms", "more than 262,144 times a form of calls"),
        ("many_operands", "the trace is damaged"),
        ("many_launches", "more than 4,096 times a launch"),
        ("many_allocations", "more than 4,096 times an allocation"),
        ("blocks_of_the_same_calls", "of calls of another block"),
        ("open_blocks", "a block of no launch"),
        ("block_without_calls", "a block of calls that were not made"),
        ("block_beyond_the_grid", "a block of no launch"),
        ("call_of_itself", "a call that was not defined"),
        ("entry_of_itself", "a call of no form"),
        ("numbers_beyond", "a call without its own numbers"),
        ("shared_numbers", "a call without its own numbers"),
        ("call_with_many_operands", "a call with 65 operands or modifiers"),
        ("many_parts", "more than 262,144 operands and modifiers"),
        ("launch_in_launch", "a launch inside another one"),
        ("forged_grid", f"a launch of 18,446,744,073,709,551,615 blocks; a grid has at most {MOST_BLOCKS:,}"),
        ("grid_without_blocks", f"a launch of {MOST_BLOCKS:,} blocks did not end"),
        ("no_request_for_a_call", "a request for no call"),
        ("floods", "the kernel asks for values and does not wait for them"),
        ("trickles", "the kernel asks for values and does not wait for them"),
    ],
)
def test_a_forged_trace_is_a_problem(forged: Built, entry: str, words: str) -> None:
    (problem,) = run(forged, entry, replace(LIMITS, requests=1_000_000)).problems
    assert (problem.kind, problem.fatal) == ("trace", True)
    assert words in problem.message
    assert len(problem.message) < 200


@needs_compiler
def test_a_grid_beyond_all_is_a_finding_with_its_place(forged: Built) -> None:
    (problem,) = run(forged, "huge_grid").problems
    assert problem.kind == "failure"
    assert problem.message == f"a launch of 18,446,744,073,709,551,615 blocks; a grid has at most {MOST_BLOCKS:,}"
    assert problem.frames[0].line == forged.line("grid")


@needs_compiler
def test_requests_without_an_end_are_a_limit(forged: Built) -> None:
    (problem,) = run(forged, "asks").problems
    assert (problem.kind, problem.message) == (
        "limit",
        "the kernel reads more than 1,000 values that instructions wrote",
    )


@needs_compiler
def test_own_time_for_values_is_a_limit(forged: Built, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RecordLimits, "answer_seconds", 0)
    (problem,) = run(forged, "many_tiles").problems
    assert (problem.kind, problem.message) == ("limit", "ptokit needs more than 0 s for values that the kernel reads")


@needs_compiler
def test_calls_unlike_each_other_are_bounded(forged: Built) -> None:
    recording = run(forged, "distinct", replace(LIMITS, calls=10_000_000))
    assert recording.problems[0].message == "the recording has too many distinct calls"
    assert len(recording.calls) < DISTINCT + 5000


@needs_compiler
def test_a_kernel_is_stopped_while_its_trace_is_read(forged: Built) -> None:
    states: list[str] = []

    def inform(memories: SharedMemories, recording: PartialRecording) -> bytes:
        children = Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text().split()
        states.append(Path(f"/proc/{children[-1]}/stat").read_text().rpartition(")")[2].split()[0])
        return b""

    before = ScalarArgument("before", "uint64", shared_buffer(LIMITS.calls).places["local"])
    limits = replace(LIMITS, requests=3)
    record(forged, "asks", [before], limits=limits, inform=inform)
    assert states == ["T"] * 3


@needs_compiler
@pytest.mark.parametrize("entry", ["huge_tile", "many_tiles"])
def test_tiles_that_no_memory_has_are_unknown_values(
    forged: Built, entry: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions: list[ValueSession] = []
    monkeypatch.setattr(ValueSession, "__init__", _noted(ValueSession.__init__, sessions))
    recording = run(forged, entry)
    assert [problem.kind for problem in recording.problems] == ["value"]
    assert sum(array.nbytes for array in sessions[0]._objects.values()) <= MOST_BYTES


def _noted(begin: object, found: list[ValueSession]) -> object:
    def init(self: ValueSession, *arguments: object) -> None:
        found.append(self)
        begin(self, *arguments)  # type: ignore[operator]

    return init


@needs_compiler
@pytest.mark.parametrize("entry", ["huge_tile", "huge_numbers"])
def test_programs_of_huge_numbers_are_made_or_refused(forged: Built, entry: str) -> None:
    recording = run(forged, entry)
    with contextlib.suppress(VerifyError):
        program_of(recording, recording.launches[0], SourceTexts())


# --- without a compiler: the reader by itself


def define(shared: SharedBuffer, *definitions: list[int]) -> None:
    """Append definitions, each a tag and words."""
    words = [word for tag, *rest in definitions for word in (tag | len(rest) << 32, *rest)]
    at = shared.places["definitions"] + 8 * shared.get("definitions_used")
    shared.bytes[at : at + 8 * len(words)] = np.array(words, np.uint64).view(np.uint8)
    shared.set("definitions_used", shared.get("definitions_used") + len(words))


NAME, SITE, FORM = [1, 4, int.from_bytes(b"tadd", "little")], [2, 16], [3, 0, 1, 2 | 9 << 8]
"""A text, a place, and a form with one number."""


def call(shared: SharedBuffer, number: int) -> None:
    """Record a call of the first form."""
    for area, item in (("entries", [0 | 1 << 32, shared.get("numbers_used")]), ("numbers", [number])):
        at = shared.places[area] + 8 * len(item) * shared.get(f"{area}_used")
        shared.bytes[at : at + 8 * len(item)] = np.array(item, np.uint64).view(np.uint8)
        shared.set(f"{area}_used", shared.get(f"{area}_used") + 1)
    at = shared.places["sequence"] + 4 * shared.get("sequence_used")
    shared.bytes[at : at + 4].view(np.uint32)[0] = shared.get("entries_used") - 1
    shared.set("sequence_used", shared.get("sequence_used") + 1)


def test_what_was_read_does_not_change() -> None:
    shared = shared_buffer()
    define(shared, NAME, SITE, FORM, [4, 0, 1, 0], [5, 0, 0, 0, 0])
    call(shared, 7)
    call(shared, 8)
    reader = TraceReader(shared, Places(), [])
    reader.advance()
    for area in ("definitions", "entries", "numbers", "sequence"):
        shared.bytes[shared.places[area] : shared.places[area] + 64] = 0xFF
    assert [each.operands[0].value for each in reader.calls] == [7, 8]  # type: ignore[union-attr]
    (launch,) = reader.launches()
    assert [block.calls.tolist() for block in launch.blocks] == [[0, 1]]
    shared.close_file()


def test_launches_are_made_once_while_a_recording_grows() -> None:
    shared = shared_buffer()
    define(shared, NAME, SITE, FORM, [4, 0, 2, 0], [5, 0, 0, 0, 0])
    call(shared, 7)
    reader = TraceReader(shared, Places(), [])
    reader.advance()
    (first,) = reader.launches()
    define(shared, [6, 1], [5, 1, 0, 0, 1])
    call(shared, 8)
    define(shared, [6, 2], [7, 2])
    reader.advance()
    (second,) = reader.launches()
    assert [block.calls.tolist() for block in second.blocks] == [[0], [1]]
    assert second.complete
    assert not first.complete
    assert reader.launches()[0] is second
    reader.check_whole(1)
    with pytest.raises(TraceError, match="2 blocks did not end"):
        reader.check_whole(2)
    shared.close_file()


def test_a_call_from_no_place_is_damaged() -> None:
    shared = shared_buffer()
    define(shared, NAME, [3, 7 << 32, 0])
    with pytest.raises(TraceError, match="from no place"):
        TraceReader(shared, Places(), []).advance()
    shared.close_file()
