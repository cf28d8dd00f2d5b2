"""The pytest plugin: its fixture, its option, and what it imports."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ptokit as pto
from ptokit.lang.check import copied
from ptokit.machine.report import MachineReport
from tests.snippet import KERNELS

pytest_plugins = "pytester"

MODULE = f"""\
import numpy as np
import pytest
import ptokit as pto


{KERNELS}

@pto.kernel
def head(x, n, out):
    t = pto.Tile("vec", "float32", 8, 8, valid=(n, 8))
    pto.tload(t, x[0:n])
    pto.tstore(out[0:n], t)


@pto.kernel
def twice(x):
    t = pto.Tile("vec", "float32", 8, 8)
    pto.tload(t, x)
    pto.tadd(t, t, t)
    pto.tstore(x, t)


X = np.arange(64, dtype="float32").reshape(8, 8)
"""


@pytest.fixture(autouse=True)
def tests(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels for the tests within the test, which know this plugin only."""
    pytester.makepyfile(kernels=MODULE)
    source = str(Path(pto.__file__).parent.parent)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((source, str(pytester.path))))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


def outcome(pytester: pytest.Pytester, code: str, *options: str, method: str = "inprocess") -> pytest.RunResult:
    """The output of pytest for a test file, without its summary, whose length depends on the folder."""
    pytester.makepyfile(f"from kernels import *\n\n{code}")
    run = getattr(pytester, f"runpytest_{method}")
    return run("-p", "ptokit.testing", "-p", "no:cacheprovider", "-rN", *options)


def printed_text(result: pytest.RunResult) -> str:
    return "\n".join(result.outlines)


# --- the fixture -------------------------------------------------------------------------------------------------


def test_the_fixture_runs_on_the_machine_and_gives_the_report(pytester: pytest.Pytester) -> None:
    code = """
def test(ptokit):
    out = np.zeros_like(X)
    report = ptokit.run(copy, 1, X, out)
    assert (report.engine, report.target, report.ok) == ("machine", "a5", True)
    assert np.array_equal(out, X)
    report = ptokit.run(racy, 1, x=X, out=out, target="a2a3", checks=("memory",), seed=3)
    assert (report.target, report.ok, report.timeline, report.traffic) == ("a2a3", True, None, ())
"""
    outcome(pytester, code, method="subprocess").assert_outcomes(passed=1)


@pytest.mark.parametrize(
    "call", ["ptokit.check(ptokit.run(racy, 1, X, X.copy()))", "ptokit.check(racy, 1, X, X.copy())"]
)
def test_a_check_fails_with_the_findings(pytester: pytest.Pytester, call: str) -> None:
    result = outcome(pytester, f"def test(ptokit):\n    {call}\n")
    result.assert_outcomes(failed=1)
    assert "kernels.py:10: error [" in printed_text(result) and "fix: " in printed_text(result)
    assert "MTE3" in printed_text(result) and "Traceback" not in printed_text(result)


def test_a_check_gives_a_clean_report_back(pytester: pytest.Pytester) -> None:
    code = "def test(ptokit):\n    assert ptokit.check(copy, 1, X, X.copy(), target='a2a3').ok\n"
    outcome(pytester, code).assert_outcomes(passed=1)


def test_a_failed_check_names_the_kernel_and_the_line_of_the_test(pytester: pytest.Pytester) -> None:
    code = "def test(ptokit):\n    made = X.copy()\n    ptokit.check(racy, 1, X, made)\n"
    result = outcome(pytester, code)
    result.assert_outcomes(failed=1)
    result.stdout.re_match_lines([r">\s+ptokit.check\(racy, 1, X, made\)", r"E\s+Failed: racy a5, 1 block: 1 error"])
    result.stdout.re_match_lines([r".*test_a_failed_check.*\.py:5: Failed"])
    assert "testing.py" not in printed_text(result)


@pytest.mark.parametrize(
    "assertion",
    [
        "report = ptokit.run(racy, 1, X, X.copy()); assert report.ok",
        "assert ptokit.run(racy, 1, X, X.copy()).ok, 'a word of mine'",
        "report = ptokit.run(racy, 1, X, X.copy()); assert report.ok is True",
        "assert ptokit.run(racy, 1, X, X.copy(), target='all').ok",
        "reports = ptokit.run(racy, 1, X, X.copy(), target='all'); assert reports['a2a3'].ok",
        "report = ptokit.run(racy, 1, X, X.copy()); assert report.ok and 1 == 1",
    ],
)
def test_a_failed_assertion_shows_the_findings(pytester: pytest.Pytester, assertion: str) -> None:
    result = outcome(pytester, f"def test(ptokit):\n    {assertion}\n")
    result.assert_outcomes(failed=1)
    shown = printed_text(result)
    assert "kernels.py:10: error [KN-13]" in shown and "E           fix: pto.set_flag" in shown
    assert "= <Report" in shown and "Finding(" not in shown
    assert ("a word of mine" in assertion) == ("a word of mine" in shown.partition("E   ")[2])


def test_a_failed_assertion_on_a_check_shows_its_findings(pytester: pytest.Pytester) -> None:
    code = "def test():\n    report = pto.check(copy, X[:5], X, target='a5')\n    assert report.ok\n"
    shown = printed_text(outcome(pytester, code))
    assert "where False = <Report copy on a5: 1 error (TL-02 at line 16)>.ok" in shown
    assert "kernels.py:16: error [TL-02]" in shown and "fix: " in shown


def test_other_assertions_are_left_alone(pytester: pytest.Pytester) -> None:
    code = "def test(ptokit):\n    report = ptokit.run(racy, 1, X, X.copy())\n    assert 1 == 2\n"
    assert "KN-13" not in printed_text(outcome(pytester, code))


def test_all_devices_are_run_on_the_same_content_and_the_last_writes(pytester: pytest.Pytester) -> None:
    code = """
def test(ptokit):
    x = X.copy()
    reports = ptokit.run(twice, 1, x, target="all")
    assert [*reports.targets] == ["cpu", "a2a3", "a5"]
    assert all(reports[target].target == target for target in reports.targets)
    assert reports.ok and ptokit.check(reports) is reports
    assert np.array_equal(x, 2 * X)
    ptokit.check(twice, 1, x=x, target="all", seed=1)
    assert np.array_equal(x, 4 * X)

def test_a_refusal_is_in_the_report_of_its_device(ptokit):
    out = np.zeros_like(X)
    reports = ptokit.run(copy, 1, X[:5], out, target="all", strict=True)
    assert not reports.ok and {finding.rule for finding in reports["a5"].findings} == {"TL-02"}
    assert not out.any()
    with pytest.raises(pytest.fail.Exception, match="copy cpu, 1 block: 1 error"):
        ptokit.check(reports)
"""
    outcome(pytester, code).assert_outcomes(passed=2)


def test_what_a_kernel_raises_is_shown_at_its_line_without_frames_of_ptokit(pytester: pytest.Pytester) -> None:
    code = """
@pto.kernel
def typo(x):
    pto.taad(x)

@pytest.mark.parametrize("call", ["run", "check"])
def test(ptokit, call):
    getattr(ptokit, call)(typo, 1, X)
"""
    result = outcome(pytester, code)
    result.assert_outcomes(failed=2)
    assert printed_text(result).count("did you mean tadd?") == 2
    assert "launcher.py" not in printed_text(result) and "testing.py:" not in printed_text(result)


def test_reports_are_short_in_one_line() -> None:
    finding = pto.Finding("error", "CO-SEM-01", "m" * 999, where=pto.Where("f" * 999, 3))
    many = tuple(pto.Finding("hazard", f"KN-{1 + k % 15:02}", "text") for k in range(99))
    report = MachineReport((finding, finding, *many), "machine", 0.0, "a5", 2, kernel="k" * 999)
    run = pto.Run((), "native", 0.0, "cpu", 1)
    assert repr(run) == "<Run on cpu, 1 block, native: no findings>"
    assert repr(report) == (
        f"<Report {'k' * 40} on a5, 2 blocks: 2 errors, 99 hazards (CO-SEM-01 at line 3, KN-01, KN-02, ...)>"
    )


# --- the option --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["auto", "reference", "machine"])
def test_a_strict_run_fails_on_what_no_other_engine_sees(pytester: pytest.Pytester, engine: str) -> None:
    code = f"def test():\n    racy[1](X, X.copy(), target='a5', engine={engine!r})\n"
    outcome(pytester, code).assert_outcomes(passed=1)
    result = outcome(pytester, code, "--ptokit-strict")
    result.assert_outcomes(failed=1)
    assert "--ptokit-strict: racy a5, 1 block: 1 error" in printed_text(result)
    assert "kernels.py:10: error [" in printed_text(result)


def test_a_strict_run_leaves_clean_launches_and_their_arrays_alone(pytester: pytest.Pytester) -> None:
    code = """
@pytest.fixture
def arrays():
    x, out = X.copy(), np.zeros_like(X)
    copy[1](x, out, target="a5")
    return x, out

def test(arrays):
    x, out = arrays
    assert np.array_equal(out, X)
    twice[1](x, target="a5")
    twice[1](x=x, target="a2a3")
    assert np.array_equal(x, 4 * X)
"""
    outcome(pytester, code, "--ptokit-strict").assert_outcomes(passed=1)


def test_a_strict_run_lets_launches_raise_what_they_raise(pytester: pytest.Pytester) -> None:
    code = """
def test_index():
    with pytest.raises(pto.OutOfBoundsError):
        pick[1](X, np.arange(1, 9, dtype="int32"), X.copy(), target="a5")

def test_type():
    with pytest.raises(pto.VerifyError):
        copy[1](X.astype("int32"), X.copy(), target="a5")

def test_extent():
    head[1](X, 3, X.copy(), target="a5")
    with pytest.raises(pto.VerifyError):
        head[1](X, 9, X.copy(), target="a5")

def test_argument():
    with pytest.raises(TypeError):
        copy[1](X, target="a5")
"""
    outcome(pytester, code, "--ptokit-strict").assert_outcomes(passed=4)


def test_a_strict_run_leaves_reports_to_those_who_ask_for_them(pytester: pytest.Pytester) -> None:
    code = "def test(ptokit):\n    assert not ptokit.run(racy, 1, X, X.copy()).ok\n"
    outcome(pytester, code, "--ptokit-strict").assert_outcomes(passed=1)


def test_a_strict_run_watches_fixtures_too(pytester: pytest.Pytester) -> None:
    code = """
@pytest.fixture
def early():
    racy[1](X, X.copy(), target="a5")

@pytest.fixture
def late():
    yield
    racy[1](X, X.copy(), target="a5")

def test_early(early): pass
def test_late(late): pass
def test_neither(): pass
"""
    outcome(pytester, code, "--ptokit-strict").assert_outcomes(passed=2, errors=2)


def test_what_many_launches_have_in_common_is_said_once(pytester: pytest.Pytester) -> None:
    code = "def test():\n    for _ in range(5):\n        racy[1](X, X.copy(), target='a5')\n"
    result = outcome(pytester, code, "--ptokit-strict")
    result.assert_outcomes(failed=1)
    assert printed_text(result).count("kernels.py:10: error [") == 1


def test_what_a_strict_run_found_stands_beside_another_failure(pytester: pytest.Pytester) -> None:
    code = "def test():\n    racy[1](X, X.copy(), target='a5')\n    assert 1 == 2\n"
    result = outcome(pytester, code, "--ptokit-strict", method="subprocess")
    result.assert_outcomes(failed=1)
    assert "assert 1 == 2" in printed_text(result) and "kernels.py:10: error [" in printed_text(result)


def test_the_plugin_loads_little_until_a_test_uses_it(pytester: pytest.Pytester) -> None:
    heavy = ("ptokit.machine", "ptokit.lang.launch", "ptokit.lang.kernel", "ptokit.text", "rich", "llvmlite")
    code = f"import sys, ptokit.testing; assert not {{*{heavy}}} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", code], check=True)


# --- copies ------------------------------------------------------------------------------------------------------


def test_copies_hold_the_same_and_lie_elsewhere() -> None:
    arrays = [np.arange(60).reshape(5, 12), np.arange(8, dtype="float16")[::-1], np.zeros((0, 3)), np.arange(12)[::3]]
    for array, copy in zip(arrays, copied(arrays), strict=True):
        assert isinstance(copy, np.ndarray)
        assert (copy.dtype, copy.shape, copy.strides) == (array.dtype, array.shape, array.strides)
        assert np.array_equal(copy, array) and not np.shares_memory(copy, array)


def test_copies_share_memory_where_the_arrays_do() -> None:
    whole = np.arange(64, dtype="int32")
    given = [whole[8:40], whole[30:64].reshape(2, 17), whole[:8], whole.view("int16")[:4], np.arange(4)]
    copies = copied(given)
    for i, array in enumerate(given):
        for j, other in enumerate(given):
            assert np.shares_memory(copies[i], copies[j]) == np.shares_memory(array, other)
    copies[0][-1] = -1
    assert copies[1][0, 9] == -1 and whole[39] == 39


def test_copies_of_tensors_are_tensors() -> None:
    array = np.arange(120, dtype="float32")
    plain, blocked = pto.GlobalTensor(array.reshape(10, 12)), pto.GlobalTensor(array, shape=(1, 1, 1, pto.dyn(5), 24))
    part, same, number = plain[2:4, 4:8], array, 7
    copies = copied([plain, blocked, part, same, number])
    assert [getattr(copy, "spec", None) for copy in copies] == [plain.spec, blocked.spec, part.spec, None, None]
    assert copies[4] == 7
    copies[3][4] = -1
    assert copies[0].array[0, 4] == copies[1].storage.bits.view("float32")[4] == -1 and array[4] == 4


def test_a_read_only_array_stays_read_only() -> None:
    array = np.arange(4)
    array.flags.writeable = False
    (copy,) = copied([array])
    assert isinstance(copy, np.ndarray) and not copy.flags.writeable
