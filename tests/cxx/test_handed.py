"""Memory that calls of a C++ kernel hand to each other: accumulators by unit flags, parts of rows and of slots."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ptokit.cxx.recording import RecordedCall, RecordedOperand, RecordedScalar, RecordedTile
from ptokit.cxx.statements import FlagShape, SyncShape, TokenFlags, UnitUse, unit_use
from ptokit.finding import Finding, VerifyError
from ptokit.lang.launch import mode_of
from ptokit.lang.launcher import Launcher
from ptokit.lang.recorded import CppKernel, load_entries
from ptokit.machine.report import MachineOptions
from ptokit.program.instr_calls import overlaps_itself

SOURCE = Path(__file__).with_name("sources") / "handed.cpp"
RANDOM = np.random.default_rng(17)
SIZE = 16


@lru_cache
def kernels() -> dict[str, CppKernel]:
    return {kernel.name: kernel for kernel in load_entries(str(SOURCE), target="a5")}


def judged(name: str, **arrays: Any) -> list[Finding]:
    """The findings of a launch on the machine, without notes."""
    kernel = kernels()[name]
    ((launched, grid),) = kernel.launches(kernel.bind((), arrays), mode_of("a5"), 1).made
    try:
        report = Launcher(launched, grid)(
            target="a5", engine="machine", options=MachineOptions(progress=False), **arrays
        )
    except VerifyError as error:
        return list(error.findings)
    return [found for found in report.findings if found.level != "note"]


def numbers(*shape: int) -> Any:
    return RANDOM.integers(-4, 5, shape).astype("float16")


@pytest.mark.parametrize(("entry", "lines"), [("unit_flags", []), ("no_phase", ["TMATMUL<", "TSTORE<PHASE>"])])
def test_a_phase_orders_a_product_and_its_store(entry: str, lines: list[str]) -> None:
    a, b, out = numbers(4, SIZE, SIZE), numbers(SIZE, SIZE), np.zeros((4, SIZE, SIZE), "float32")
    found = judged(entry, out=out, a=a, b=b)
    text = SOURCE.read_text().splitlines()
    assert {each.rule for each in found} <= {"KN-13"}
    places = sorted(text[each.where.line - 1].strip() for each in found if each.where)
    assert [place.startswith(line) for place, line in zip(places, lines, strict=True)] == [True] * len(lines)
    np.testing.assert_array_equal(out, 2 * (a.astype("float32") @ b.astype("float32")))


def test_loads_of_halves_fill_wider_rows() -> None:
    x, out = numbers(2, 8, 16).astype("float32"), np.zeros((8, 32), "float32")
    assert judged("halves", out=out, x=x) == []
    np.testing.assert_array_equal(out, np.concatenate((x[0], x[1]), axis=1) + 1)


def test_a_half_that_nothing_loads_is_missing() -> None:
    found = judged("one_half", out=np.zeros((8, 32), "float32"), x=np.ones((2, 8, 16), "float32"))
    assert [(each.rule, each.kind) for each in found] == [("CO-ALIGN-05", "H-36")]


@pytest.mark.parametrize(
    ("entry", "cols", "rules"),
    [("right_half", 32, []), ("from_row_2", 32, ["A-38"]), ("half_across", 24, ["A-38"])],
)
def test_a_tile_that_is_no_slice_of_another_one_destroys_it(entry: str, cols: int, rules: list[str]) -> None:
    x, out = numbers(8, cols).astype("float32"), np.zeros((8, cols), "float32")
    assert [each.rule for each in judged(entry, out=out, x=x)] == rules
    if not rules:
        expected = x.copy()
        expected[:4, 16:] = x.reshape(-1)[:64].reshape(4, 16)
        np.testing.assert_array_equal(out, expected)


def test_a_dead_tile_of_another_type_hides_no_padding() -> None:
    x, y, out = np.ones((8, 16), "float32"), numbers(4, 16), np.zeros((8, 32), "float32")
    found = judged("padding", out=out, x=x, y=y)
    assert [(each.rule, each.kind) for each in found] == [("CO-ALIGN-05", "H-36")]
    assert "has left them outside its valid region" in found[0].message


def test_the_second_vector_core_pushes_the_other_rows() -> None:
    a, b, out = numbers(SIZE, SIZE), numbers(SIZE, SIZE), np.zeros((2 * SIZE, SIZE), "float32")
    assert judged("pushed_by_one", out=out, a=a, b=b) == []
    np.testing.assert_array_equal(out[:SIZE], a.astype("float32") @ b.astype("float32"))
    assert judged("pushed_by_two", out=out, a=a, b=b) == []
    np.testing.assert_array_equal(out, np.tile(a.astype("float32") @ b.astype("float32"), (2, 1)))


def test_windows_that_overlap_may_be_written_one_after_the_other() -> None:
    x, out = numbers(8, 8).astype("float32"), np.zeros(512, "float32")
    kernel = kernels()["windows"]
    arguments, mode = kernel.bind((), {"x": x, "out": out}), mode_of("a5")
    ((launched, _),) = kernel.launches(arguments, mode, 1).made
    program = launched.trace(arguments, mode).program
    assert any(each.view_of and overlaps_itself(each) for each in program.tensors.values())
    assert judged("windows", out=out, x=x) == []
    expected = np.zeros(512, "float32")
    for start in (0, 40, 160):
        for row in range(8):
            first = start + row // 4 * 64 + row % 4 * 8
            expected[first : first + 8] = x[row]
    np.testing.assert_array_equal(out, expected)


def test_an_insert_that_is_not_modelled_reads_no_destination() -> None:
    found = judged("insert", a=numbers(SIZE, SIZE), b=numbers(SIZE, SIZE))
    assert [each.level for each in found] == ["unmodelled"]


def accumulator(address: int, cols: int = 16) -> RecordedTile:
    return RecordedTile(0, address, "acc", "float32", 16, cols, 16, cols, "col_major", "row_major", 1024, "null")


def phased(name: str, phase: str, *operands: RecordedOperand) -> RecordedCall:
    return RecordedCall(name, operands, (("phase", phase),), 0)


NUMBER = RecordedScalar("int64", 1)


def test_uses_of_unit_flags() -> None:
    product = unit_use(phased("tmatmul", "final", accumulator(0x400), NUMBER))
    assert product == UnitUse("M", 0x400, 0x800, is_last=True, site=0)
    assert unit_use(phased("tstore", "partial", NUMBER, accumulator(0))) == UnitUse("FIX", 0, 0x400, False, 0)
    assert unit_use(phased("tmatmul", "unspecified", accumulator(0))) is None
    assert unit_use(phased("tmatmul", "final", NUMBER)) is None


def unit_flags(*uses: tuple[str, int, bool], used: TokenFlags | None = None) -> list[str]:
    """The order of calls, by number, and flags: `set M FIX 0`."""
    shapes: list[SyncShape] = []

    def number(shape: SyncShape) -> int:
        shapes.append(shape)
        return len(uses) + len(shapes) - 1

    calls = [((k, ()), UnitUse(pipe, at, at + 64, last, k)) for k, (pipe, at, last) in enumerate(uses)]
    made = (used or TokenFlags(())).unit_flags(calls, number)
    found: list[str] = []
    for shape, event in made:
        if shape < len(uses):
            found.append(str(shape))
        else:
            flag = shapes[shape - len(uses)]
            assert isinstance(flag, FlagShape)
            found.append(f"{flag.action} {flag.src} {flag.dst} {event[0]}")
    return found


def test_a_store_waits_for_the_last_product_and_the_next_product_for_it() -> None:
    there, back = "M FIX 0", "FIX M 0"
    found = unit_flags(("M", 0, False), ("M", 0, True), ("FIX", 0, True), ("M", 0, True), ("FIX", 0, True))
    expected = ["0", "1", f"set {there}", f"wait {there}", "2", f"set {back}", f"wait {back}", "3"]
    assert found == [*expected, f"set {there}", f"wait {there}", "4"]


def test_accumulators_that_lie_apart_have_flags_of_their_own() -> None:
    found = unit_flags(("M", 0, True), ("M", 64, True), ("FIX", 64, True), ("FIX", 32, True))
    assert found == ["0", "set M FIX 1", "1", "set M FIX 0", "wait M FIX 0", "2", "wait M FIX 1", "3"]


def test_events_of_one_pipe_differ_if_they_can() -> None:
    used = TokenFlags([(("M", "MTE1"), 0), (("M", "FIX"), 1)])
    assert unit_flags(("M", 0, True), ("FIX", 0, True), used=used)[1] == "set M FIX 2"
