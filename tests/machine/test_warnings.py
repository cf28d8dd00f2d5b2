"""A launch on the machine that finds errors or hazards says so, whoever launches, and its result is false."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ptokit as pto
from ptokit.lang.launcher import quiet_report
from ptokit.machine.report import MachineReport
from ptokit.testing import MachineFixture

pytestmark = pytest.mark.filterwarnings("error")
QUIET = pto.MachineOptions(quiet=True)
X = np.arange(64, dtype="float32").reshape(8, 8)


@pto.kernel(mode="manual")
def unordered(x, out):
    """Two stores read what nothing orders after the load."""
    tile = pto.Tile("vec", "float32", 8, 8, addr=0)
    pto.tload(tile, x)
    pto.tstore(out[0:8], tile)
    pto.tstore(out[8:16], tile)


@pto.kernel(mode="manual")
def misaligned(x, out):
    tile = pto.Tile("vec", "float32", 8, 8, addr=0x1004)
    pto.tload(tile, x)
    pto.barrier("ALL")
    pto.tstore(out[0:8], tile)


@pto.kernel
def right(x, out):
    tile = pto.Tile("vec", "float32", 8, 8)
    pto.tload(tile, x)
    pto.tstore(out[0:8], tile)


def launch(kernel: Any, target: str = "a5", **options: Any) -> Any:
    """A launch on the machine."""
    return kernel[1](X, np.zeros((16, 8), "float32"), target=target, engine="machine", **options)


def warned(call: Callable[[], Any]) -> tuple[Any, list[pto.HazardWarning]]:
    """The result of a call, and its warnings."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        result = call()
    assert all(isinstance(each.message, pto.HazardWarning) for each in found)
    return result, [each.message for each in found]  # type: ignore[misc]


@pytest.mark.parametrize("kernel", [unordered, misaligned])
@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_one_warning_has_the_number_of_faults_and_the_first(kernel: Any, target: str) -> None:
    report, (warning,) = warned(lambda: launch(kernel, target))
    assert not report and not report.ok and report.hazards
    errors = sum(finding.level == "error" for finding in report.hazards)
    assert str(warning).startswith(f"{kernel.name} on {target}: {errors} error{'s' * (errors > 1)}; the first: error [")
    assert warning.finding in report.hazards and warning.finding.message in str(warning)


def test_a_misaligned_address_is_seen() -> None:
    with pytest.warns(pto.HazardWarning, match="0x1004, which is no multiple of 32"):
        launch(misaligned)


def test_a_clean_launch_is_true_and_says_nothing() -> None:
    report, found = warned(lambda: launch(right))
    assert report and report.ok and not found
    assert launch(right, strict=True)


def test_the_warning_is_at_the_line_of_the_fault() -> None:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        report = launch(unordered)
    assert [(each.filename, each.lineno) for each in found] == [(__file__, report.hazards[0].where.line)]


def test_silence_is_asked_for() -> None:
    report, found = warned(lambda: launch(unordered, options=QUIET))
    assert not report and not found


@pytest.mark.parametrize("options", [None, QUIET])
def test_a_strict_launch_raises_with_its_report(options: Any) -> None:
    with pytest.raises(pto.VerifyError) as refusal:
        launch(unordered, strict=True, options=options)
    report = refusal.value.report
    assert isinstance(report, MachineReport) and report.hazards == refusal.value.findings
    with pto.target("a5", strict=True), pytest.raises(pto.VerifyError):
        launch(unordered, options=options)


def test_callers_that_show_the_report_get_it() -> None:
    for strict in (False, True):
        report = quiet_report(unordered[1], X, np.zeros((16, 8), "float32"), target="a5", strict=strict)
        assert not report and report.hazards
    with pytest.raises(pto.VerifyError):  # there is none
        quiet_report(unordered[1], X, np.zeros((1, 8), "float32"), target="a5")
    assert not MachineFixture().run(unordered, 1, X, np.zeros((16, 8), "float32"))
    assert not MachineFixture().run(unordered, 1, X, np.zeros((16, 8), "float32"), target="all")


def test_programs_in_text_warn(tmp_path: Path) -> None:
    from ptokit.lang.launch import mode_of
    from ptokit.text.forms import print_program

    out = np.zeros((16, 8), "float32")
    program = unordered.trace(unordered.bind((X, out), {}), mode_of("a5")).program
    for form, suffix in (("l2", "pto"), ("as", "ptoas")):
        file = tmp_path / f"k.{suffix}"
        file.write_text(print_program(program, form), encoding="utf-8")
        report, (warning,) = warned(lambda file=file: launch(pto.load(str(file))))
        assert not report and warning.finding.where is not None and warning.finding.where.file == str(file)


@pytest.mark.parametrize(("kernel", "count"), [(unordered, 1), (right, 0)])
def test_a_sweep_without_a_clean_point_warns_once_for_each_target(kernel: Any, count: int) -> None:
    def sweep(**options: Any) -> Any:
        out = np.zeros((16, 8), "float32")
        return pto.sweep(kernel, X, out, params={"n": [1, 2]}, grid=lambda p: 1, targets=["a2a3", "a5"], **options)

    result, found = warned(sweep)
    assert [not point for point in result.rows] == [bool(count)] * 4
    assert [str(each).split(",")[0] for each in found] == ["unordered on a2a3", "unordered on a5"] * count
    assert not warned(lambda: sweep(options=QUIET))[1]


def test_a_replay_of_indices_outside_of_the_table_warns_once() -> None:
    with pto.record_indices() as trace:
        pto.scatter(np.zeros((8, 8), "float32"), np.ones((4, 8), "float32"), np.array([1, 1, 2, 3]))
    result, (warning,) = warned(lambda: pto.traces.replay(trace))
    assert str(warning).startswith("replay: ") and all("error" in row["verdict"] for row in result.rows)


def test_the_result_of_every_launch_and_check_is_true_if_it_is_ok() -> None:
    out = np.zeros((16, 8), "float32")
    for engine in ("reference", "native"):
        assert right[1](X, out, engine=engine).ok is bool(right[1](X, out, engine=engine)) is True
    index = np.array([[-1, 0, 1, 2, 3, 4, 5, 6]], "int32")
    with pytest.warns(pto.HazardWarning):
        run = negative[1](X, index, np.zeros((8, 8), "float32"), target="a5")
    assert not run.ok and not run
    for kernel, is_ok in ((right, True), (too_large, False)):
        checked = pto.check(kernel, X, out, target="a5")
        assert checked.ok is bool(checked) is bool(checked["a5"]) is is_ok


@pto.kernel
def too_large(x, out):
    tile = pto.Tile("vec", "float32", 8, 65536, valid=(8, 8))
    pto.tload(tile, x)
    pto.tstore(out[0:8], tile)


@pto.kernel
def negative(x, ids, out):
    index = pto.Tile("vec", "int32", 1, 8)
    tile = pto.Tile("vec", "float32", 8, 8)
    pto.tload(index, ids)
    pto.mgather(tile, x, index, oob="clamp")
    pto.tstore(out, tile)
