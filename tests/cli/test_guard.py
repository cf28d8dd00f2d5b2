"""Every failure prints one line and sets a status; a traceback only on request."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ptokit.cli.commands import run_guarded
from ptokit.cli.problems import FINE, FOUND, INTERRUPTED, MISUSED, Misuse, printable
from ptokit.finding import Finding, VerifyError, Where
from ptokit.text.errors import TextError
from tests.cli.shell import ENVIRONMENT, misuse, process, ptokit_


def raising(problem: BaseException) -> Callable[[], int]:
    def work() -> int:
        raise problem

    return work


@pytest.mark.parametrize(
    ("problem", "status", "message"),
    [
        (Misuse("no such thing"), MISUSED, "ptokit: no such thing\n"),
        (TextError("odd", Where("a.pto", 2, 3), "  x", "no"), FOUND, "a.pto:2:3: odd\n      x\n      ^\n    no\n"),
        (
            VerifyError([Finding("error", "CO-SEM-01", "wrong", fix="so")]),
            FOUND,
            "error [CO-SEM-01] wrong\n    fix: so\n",
        ),
        (KeyboardInterrupt(), INTERRUPTED, "ptokit: interrupted\n"),
        (MemoryError(), MISUSED, "internal error in ptokit (MemoryError: MemoryError); please report it"),
        (RecursionError("too deep\nand more"), MISUSED, "(RecursionError: too deep); please report it"),
        (KeyError("x" * 9999), MISUSED, "PTOKIT_TRACEBACK=1 shows a traceback\n"),
        (Misuse("\x1b[2Jsly\u202e"), MISUSED, "ptokit: \ufffd[2Jsly\ufffd\n"),
    ],
)  # fmt: skip
def test_what_is_said_of_a_problem(
    problem: BaseException, status: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_guarded(raising(problem)) == status
    shown = capsys.readouterr()
    assert message in shown.err and shown.out == ""
    assert "Traceback" not in shown.err and len(shown.err) < 3000


def test_a_closed_pipe_is_left_to_typer() -> None:
    with pytest.raises(BrokenPipeError):
        run_guarded(raising(BrokenPipeError()))


def test_a_traceback_on_request(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("PTOKIT_TRACEBACK", "1")
    assert run_guarded(raising(ZeroDivisionError("by zero"))) == MISUSED
    shown = capsys.readouterr().err
    assert shown.startswith("Traceback") and "ptokit: internal error" in shown


def test_a_traceback_reaches_into_the_user_s_own_module(folder: Path) -> None:
    (folder / "raising.py").write_text("def inner():\n    1 / 0\ninner()\n", encoding="utf-8")
    assert "ZeroDivisionError" in misuse("check", "raising:kernel")
    done = process("check", "raising:kernel", env={**ENVIRONMENT, "PTOKIT_TRACEBACK": "1"})
    assert 'raising.py", line 2, in inner' in done.stderr and done.returncode == 2


def test_results_may_have_nowhere_to_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    assert run_guarded(lambda: FINE) == FINE


def test_columns_stay_where_they_are() -> None:
    text = "a\tb\x00\x1b\x9b\u2066\u202e\ud800é\n"
    assert printable(text) == "a\tb" + "\ufffd" * 6 + "é\n"


def test_help_says_when_python_code_is_run() -> None:
    shown = " ".join(ptokit_("--help").stdout.split())
    assert "Only the last runs Python code: that module is imported." in shown
    assert "Exit status: 0 fine, 1 findings, 2 misuse, 3 not modelled." in shown
